def first():
    a = 2
    return a


def second():
    a = 3
    return a
