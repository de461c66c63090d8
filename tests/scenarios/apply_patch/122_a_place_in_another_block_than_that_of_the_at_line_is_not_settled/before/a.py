def first():
    b = 1
    return a


def second():
    a = 1
    return a
def third():
    a = 1
    return a
