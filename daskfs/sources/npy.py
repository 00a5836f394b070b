"""Targets, weights and names given beside a matrix: as arrays or as files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from daskfs import errors
from daskfs.documents import PATH
from daskfs.errors import did_you_mean
from daskfs.files import Location, location
from daskfs.objects.address import redacted
from daskfs.sources.arrays import ArraySource
from daskfs.sources.files import PathLike, as_file, check_file, is_path
from daskfs.sources.options import SourceOptions

SourceError = errors.SourceError.about("arrays")


def array_of(values: Any) -> Any:
    """Return the argument, or the array of a .npy file if it is a path.

    Raises
    ------
    SourceError
        The file does not exist, or does not contain an array.
    """
    if not is_path(values):
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
    if not is_path(values):
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


SourceError = errors.SourceError.about("arrays")


class NpyOptions(SourceOptions):
    """A two-dimensional array saved with `numpy.save`."""

    path: Annotated[str, PATH]
    y: Annotated[str | None, PATH] = None
    weight: Annotated[str | None, PATH] = None
    names: Annotated[str | None, PATH] = None
    target: str | None = None


class NpySource(ArraySource):
    """The array of a .npy file, with target and weights in other files; see `ArraySource`.

    Parameters
    ----------
    path : path-like
    y, weight : array-like of shape (n_samples,), or path of a .npy file of it, optional
    names : sequence of str, or path of a text file with one name per line, optional
    target : str or list of str, optional
        Name of `y`.

    Raises
    ------
    SourceError
        The file does not exist, or does not contain a numeric array.
    DataError
        Shapes that do not match.
    """

    kind, options = "npy", NpyOptions

    def __init__(
        self,
        path: PathLike,
        y: Any = None,
        weight: Any = None,
        names: Any = None,
        target: str | Sequence[str] | None = None,
    ) -> None:
        found = existing(path)
        try:
            is_here = isinstance(found, Path)
            X = np.load(as_file(found), mmap_mode="r" if is_here else None, allow_pickle=False)
        except Exception as fault:  # NumPy raises various errors for bytes that are not an array
            problem = f"expected an array in a .npy file, found none ({type(fault).__name__})"
            raise SourceError(problem, str(path), "save it with numpy.save, without Python objects") from None
        targets = [target] if isinstance(target, str) else target
        shown = redacted(str(path))
        super().__init__(X, array_of(y), array_of(weight), names_of(names), targets if y is not None else None, shown)
