def f():
    x = 1
def g():
    y = 1
def f():
    z = 1
