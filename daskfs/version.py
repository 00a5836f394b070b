"""The version of daskfs, which is written into results and stores.

A wheel or an editable install has the version of the git tag (setuptools-scm writes `_version.py`). Code that is not
installed has no such file and uses the next development version.
"""

try:
    from daskfs._version import __version__
except ImportError:  # not installed
    __version__ = "0.1.0.dev0"

__all__ = ["__version__"]
