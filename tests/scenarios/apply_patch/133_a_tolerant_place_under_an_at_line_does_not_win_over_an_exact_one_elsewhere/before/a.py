class Maker:
    def make(
        order=False,
    ): ...

def make(
    order=False,
): ...
