"""File formats that no source reads, and how to convert them."""

from __future__ import annotations

import shlex

from daskfs.errors import SourceError
from daskfs.files import Location

_READERS = {
    **dict.fromkeys((".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), "read_excel"),
    ".json": "read_json",
    ".dta": "read_stata",
    **dict.fromkeys((".sas7bdat", ".xpt"), "read_sas"),
    **dict.fromkeys((".pkl", ".pickle"), "read_pickle"),
}
"""By file name ending: the function of pandas that reads the table."""
_OTHERS = {".sav", ".zsav", ".rds", ".rdata", ".avro", ".mat", ".h5", ".hdf5", ".hdf", ".db", ".sqlite", ".sqlite3"}
_OTHERS |= {".zip", ".tar", ".tgz", ".7z"}
FORMATS = frozenset({*_READERS, *_OTHERS})
"""File name endings that no source reads."""


def _command(path: Location, reader: str, options: str = "") -> str:
    out = f"{path.name.partition('.')[0]}.parquet"
    return shlex.join(["python", "-c", f"import pandas; pandas.{reader}({path.name!r}{options}).to_parquet({out!r})"])


def command_of_json_lines(path: Location) -> str:
    """Return the command that converts a table in JSON lines (otherwise read as texts) to Parquet."""
    return _command(path, "read_json", ", lines=True")


def refuse_other_formats(path: Location) -> None:
    """Refuse a file whose ending no source reads.

    Raises
    ------
    SourceError
        With the command that converts it, if pandas reads the format.
    """
    ending = ".tar" if ".tar" in path.suffixes[-2:] else path.suffix.lower()
    if ending in FORMATS:
        reader = _READERS.get(ending)
        remedy = f"convert it: `{_command(path, reader)}`" if reader else "convert a table to Parquet, an array to .npy"
        raise SourceError(
            f"{ending} files cannot be read directly", str(path), remedy + "; or unpack it" * (not reader)
        )
