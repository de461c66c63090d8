x = 1
y = 2
if z:
    x = 1
