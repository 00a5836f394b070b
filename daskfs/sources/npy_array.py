"""A dense array in a .npy file, read block by block."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from daskfs import errors
from daskfs.documents import PATH
from daskfs.objects.address import redacted
from daskfs.sources.arrays import ArraySource
from daskfs.sources.files import PathLike, as_file
from daskfs.sources.npy import array_of, existing, names_of
from daskfs.sources.options import SourceOptions

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
