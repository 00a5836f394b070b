"""Targets, weights and names beside a matrix: as they are, or as files of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from daskfs.errors import SourceError, did_you_mean
from daskfs.files import Location, location
from daskfs.objects.path import ObjectPath
from daskfs.sources.files import PathLike, as_file, check_file


def array_of(values: Any) -> Any:
    """Return what was given, or the array of the .npy file that a path names.

    Raises
    ------
    SourceError
        There is no such file, or it holds none.
    """
    if not isinstance(values, (str, os.PathLike, ObjectPath)):
        return values
    path = existing(values)
    try:
        return np.load(as_file(path), allow_pickle=False)
    except Exception as fault:  # whatever NumPy makes of bytes that are no array
        problem = f"expected an array in a .npy file, found none ({type(fault).__name__})"
        raise SourceError(problem, str(values), "save it by numpy.save, without Python objects") from None


def names_of(values: Any) -> Any:
    """Return what was given, or the lines of the text file that a path names.

    Raises
    ------
    SourceError
        There is no such file, or it is no text in UTF-8.
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
    """Return the path of a file that there is.

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
