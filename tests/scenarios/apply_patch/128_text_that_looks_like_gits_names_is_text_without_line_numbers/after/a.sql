++ b/other
x
