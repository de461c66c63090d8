class A:
    def f(self):
        # two
        return 2
