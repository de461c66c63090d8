def first():
    a = 1
    return a


def last():
    a = 2
    return a
