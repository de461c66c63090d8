def f():
    x = 2
def f():
    x = 3
