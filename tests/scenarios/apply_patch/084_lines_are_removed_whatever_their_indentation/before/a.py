if a:
    x()
y()
z()
