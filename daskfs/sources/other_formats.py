"""File formats that no source reads, and commands that convert them."""

from __future__ import annotations

import shlex

from daskfs.errors import SourceError
from daskfs.files import Location

_EXCEL = "import pandas; pandas.read_excel({path}).to_parquet({out})"
_JSON_LINES = "import pandas; pandas.read_json({path}, lines=True).to_parquet({out})"
_SAS = "import pandas; pandas.read_sas({path}, encoding='utf-8').to_parquet({out})"
_STATA = "import pandas; pandas.read_stata({path}).to_parquet({out})"
_SPSS = "import pandas; x = pandas.read_spss({path}); x.attrs.clear(); x.to_parquet({out})"
_HDF5 = "import h5py, numpy; numpy.save({npy}, h5py.File({path})['X'])"
_R = "import pyreadr; next(iter(pyreadr.read_r({path}).values())).to_parquet({out})"
_SQLITE = "import pandas, sqlite3; pandas.read_sql('select * from X', sqlite3.connect({path})).to_parquet({out})"
_PICKLE = "import pandas; pandas.read_pickle({path}).to_parquet({out})"
_UNPACK = "import shutil; shutil.unpack_archive({path}, {folder})"

FORMATS: dict[str, tuple[str, str, str]] = {
    ".xlsx": ("a spreadsheet", _EXCEL, "pandas, openpyxl"),
    ".xlsm": ("a spreadsheet", _EXCEL, "pandas, openpyxl"),
    ".xlsb": ("a spreadsheet", _EXCEL, "pandas, pyxlsb"),
    ".xls": ("a spreadsheet", _EXCEL, "pandas, xlrd"),
    ".ods": ("a spreadsheet", _EXCEL, "pandas, odfpy"),
    ".json": ("JSON", "import pandas; pandas.read_json({path}).to_parquet({out})", "pandas"),
    ".sav": ("an SPSS file", _SPSS, "pandas, pyreadstat"),
    ".zsav": ("an SPSS file", _SPSS, "pandas, pyreadstat"),
    ".dta": ("a Stata file", _STATA, "pandas"),
    ".sas7bdat": ("a SAS file", _SAS, "pandas"),
    ".xpt": ("a SAS file", _SAS, "pandas"),
    ".rds": ("an R file", _R, "pyreadr"),
    ".rdata": ("an R file", _R, "pyreadr"),
    ".avro": (
        "Avro",
        "import fastavro, pandas; pandas.DataFrame(fastavro.reader(open({path}, 'rb'))).to_parquet({out})",
        "pandas, fastavro",
    ),
    ".mat": ("a MATLAB file", "import numpy, scipy.io; numpy.save({npy}, scipy.io.loadmat({path})['X'])", "scipy"),
    ".h5": ("HDF5", _HDF5, "h5py"),
    ".hdf5": ("HDF5", _HDF5, "h5py"),
    ".hdf": ("HDF5", _HDF5, "h5py"),
    ".pkl": ("a pickle", _PICKLE, "pandas"),
    ".pickle": ("a pickle", _PICKLE, "pandas"),
    ".db": ("a database", _SQLITE, "pandas"),
    ".sqlite": ("a database", _SQLITE, "pandas"),
    ".sqlite3": ("a database", _SQLITE, "pandas"),
    ".zip": ("an archive", _UNPACK, ""),
    ".tar": ("an archive", _UNPACK, ""),
    ".tgz": ("an archive", _UNPACK, ""),
    ".7z": ("an archive", "import py7zr; py7zr.unpack_7zarchive({path}, {folder})", "py7zr"),
}
"""By file name ending: what the file is, the Python code that converts it, and the packages that the code needs."""


def command_of_json_lines(path: Location) -> str:
    """Return the command that converts a table in JSON lines (otherwise read as texts) to Parquet."""
    out = f"{path.name.partition('.')[0]}.parquet"
    return shlex.join(["python", "-c", _JSON_LINES.format(path=repr(path.name), out=repr(out))])


def refuse_other_formats(path: Location) -> None:
    """Refuse a file whose ending no source reads, and name the command that converts it.

    Raises
    ------
    SourceError
    """
    ending = ".tar" if ".tar" in path.suffixes[-2:] else path.suffix.lower()
    if ending not in FORMATS:
        return
    what, line, needs = FORMATS[ending]
    stem = path.name.partition(".")[0]
    names = {"path": path.name, "out": f"{stem}.parquet", "npy": f"{stem}.npy", "folder": stem}
    command = shlex.join(["python", "-c", line.format(**{key: repr(name) for key, name in names.items()})])
    needed = f" (needs {needs})" if needs else ""
    own = "; X stands for your array" if "['X']" in line else "; X stands for your table" if " X'" in line else ""
    raise SourceError(f"{what} cannot be read directly", str(path), f"convert it{needed}: `{command}`{own}")
