def measure(
    first: int,
    limit: int,
): ...
def measure(
    first: str,
    limit: int,
): ...
