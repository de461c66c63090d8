if a:
    x()
z()
