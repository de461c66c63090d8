if a:
    x()
y()
