-- a/comment
x
