import os


def new_function_name(arg):
    return arg
