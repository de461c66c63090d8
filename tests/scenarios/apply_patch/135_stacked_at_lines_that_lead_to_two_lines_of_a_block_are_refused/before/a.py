class Decoder:
    def make(
        hook=None,
    ): ...
    def make(
        hook=None,
    ): ...

class Other:
    def make(
        hook=None,
    ): ...
