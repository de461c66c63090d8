def f():
    say(’done’)
    if x:
        say('done')
