"""Zarr arrays written by other programs."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from daskfs import errors, interrupts
from daskfs.files import location
from daskfs.objects.path import ObjectPath

SourceError = errors.SourceError.about("arrays")


def open_foreign_array(path: str | os.PathLike[str] | ObjectPath) -> Any:
    """Open a Zarr array written by another program, in format 2 or 3.

    Parameters
    ----------
    path : path-like or ObjectPath
        The array's folder.

    Returns
    -------
    zarr.Array
        With shape, dtype, chunks and ``[...]``.

    Raises
    ------
    SourceError
        The path does not exist, is a group, or has a format that Zarr cannot read.
    """
    import zarr
    import zarr.errors

    where = str(path)
    _refuse_missing(path, "Zarr array")
    try:
        node = interrupts.call_aside(zarr.open, _as_zarr_store(path), mode="r")
    except (zarr.errors.BaseZarrError, ValueError, TypeError, OSError, KeyError) as fault:
        raise SourceError(f"expected a Zarr array of format 2 or 3: {fault}", where, "check the path") from None
    if isinstance(node, zarr.Group):
        names = ", ".join(sorted(node.array_keys())) or "none"
        raise SourceError(f"expected an array, found a group (its arrays: {names})", where, "choose one of its arrays")
    return node


def _refuse_missing(path: str | os.PathLike[str] | ObjectPath, what: str) -> None:
    found = location(path)
    if isinstance(found, ObjectPath) and found.is_read_only:
        problem = f"a {what} consists of many objects, which an HTTP server does not list"
        raise SourceError(problem, str(found), "copy it, or use its address in an object store")
    if not found.exists():
        raise SourceError(f"no such {what}", str(found), "check the path")


def _as_zarr_store(path: str | os.PathLike[str] | ObjectPath) -> Any:
    """Return an argument for Zarr: a folder's path, or a Zarr store of objects."""
    found = location(path)
    if not isinstance(found, ObjectPath):
        return str(found)
    from zarr.storage import ObjectStore

    return ObjectStore(found.client_within(), read_only=True)


def read_foreign(array: Any, selection: Any = ...) -> np.ndarray:
    """Return a part of a Zarr array written by another program.

    Raises
    ------
    SourceError
        A chunk cannot be decoded.
    """
    try:
        return np.asarray(interrupts.call_aside(array.__getitem__, selection))
    except MemoryError:
        raise SourceError(
            "a chunk claims to be larger than the memory", str(array.store_path), "write it again"
        ) from None
    except (RuntimeError, ValueError, TypeError, OSError, LookupError, ArithmeticError, SystemError) as fault:
        raise SourceError(f"a chunk cannot be decoded: {fault}", str(array.store_path), "write it again") from None


def open_foreign_group(path: str | os.PathLike[str] | ObjectPath) -> Any:
    """Open a Zarr group written by another program, in format 2 or 3.

    Returns
    -------
    zarr.Group
        With attrs, and its arrays and groups by name.

    Raises
    ------
    SourceError
        The path does not exist, is an array, or has a format that Zarr cannot read.
    """
    import zarr
    import zarr.errors

    where = str(path)
    _refuse_missing(path, "Zarr group")
    try:
        return interrupts.call_aside(zarr.open_group, _as_zarr_store(path), mode="r")
    except (zarr.errors.BaseZarrError, ValueError, TypeError, OSError, KeyError) as fault:
        raise SourceError(f"expected a Zarr group of format 2 or 3: {fault}", where, "check the path") from None
