def new():
    pass


if True:
    new()
