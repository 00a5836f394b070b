"""Targets, weights and names given beside a matrix: as arrays or as files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from daskfs import errors
from daskfs.errors import did_you_mean
from daskfs.files import Location, location
from daskfs.objects.path import ObjectPath
from daskfs.sources.files import PathLike, as_file, check_file

SourceError = errors.SourceError.about("arrays")


def array_of(values: Any) -> Any:
    """Return the argument, or the array of a .npy file if it is a path.

    Raises
    ------
    SourceError
        The file does not exist, or does not contain an array.
    """
    if not isinstance(values, (str, os.PathLike, ObjectPath)):
        return values
    path = existing(values)
    try:
        return np.load(as_file(path), allow_pickle=False)
    except Exception as fault:  # NumPy raises various errors for bytes that are not an array
        problem = f"expected an array in a .npy file, found none ({type(fault).__name__})"
        raise SourceError(problem, str(values), "save it with numpy.save, without Python objects") from None


def names_of(values: Any) -> Any:
    """Return the argument, or the lines of a text file if it is a path.

    Raises
    ------
    SourceError
        The file does not exist, or is not UTF-8 text.
    """
    if not isinstance(values, (str, os.PathLike, ObjectPath)):
        return values
    data = existing(values).read_bytes()
    try:
        return data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as fault:
        line = data.count(b"\n", 0, fault.start) + 1
        problem = f"expected UTF-8 text, found byte 0x{data[fault.start]:02x}"
        raise SourceError(problem, f"{values}:{line}", "save the file as UTF-8") from None


def existing(path: PathLike) -> Location:
    """Return the path after checking that the file exists.

    Raises
    ------
    SourceError
    """
    found = location(path)
    if isinstance(found, Path) and not os.path.lexists(found):
        near = [file.name for file in found.parent.iterdir()] if found.parent.is_dir() else []
        raise SourceError("no such file", str(path), f"check the path{did_you_mean(found.name, near)}")
    check_file(found)
    return found
