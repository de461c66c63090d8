"""The version of the distribution, known without asking the package metadata (slow)."""

__version__ = "0.1.0"
