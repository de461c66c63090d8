def old():
    pass


if True:
    old()
