def connect():
    try:
        go()
        raise Timeout
    except Timeout:
        if again:
            raise Timeout
