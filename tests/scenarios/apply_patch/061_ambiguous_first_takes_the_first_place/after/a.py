def first():
    a = 2
    return a


def second():
    a = 1
    return a
