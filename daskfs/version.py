"""The version, below all rooms: results and stores say by which they were made."""

__version__ = "0.1.0"
