"""The version, below all rooms: results and stores say by which they were made.

A wheel and an editable install have it from the tag in git (setuptools-scm writes `_version.py`); code that was not
installed knows none, and says what it leads to.
"""

try:
    from daskfs._version import __version__
except ImportError:  # not installed
    __version__ = "0.1.0.dev0"

__all__ = ["__version__"]
