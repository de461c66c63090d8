import os


def old_function_name(arg):
    return arg
