def first():
    a = 1
    return a


def second():
    a = 1
    return a
