"""The examples and the examples in the documentation, run as a reader would."""
