"""Typed records that travel between tasks and lie in checkpoints, instead of dictionaries of arrays.

What a task returns is a frozen dataclass whose fields are arrays, numbers, None, or lists of arrays of several lengths:

    >>> @dataclass(frozen=True)
    ... class Path(Record):
    ...     penalties: np.ndarray
    ...     steps: list[np.ndarray]
    ...     best: int
    ...     noise: float | None = None
    >>> path = Path(np.array([2.0, 1.0]), [np.array([7]), np.array([7, 3])], best=1)
    >>> {name: array.tolist() for name, array in path.pack().items()}
    {'penalties': [2.0, 1.0], 'steps': [7, 7, 3], 'steps.lengths': [1, 2], 'best': 1}
    >>> Path.unpack(path.pack())
    Path(penalties=array([2., 1.]), steps=[array([7]), array([7, 3])], best=1, noise=None)
"""

from __future__ import annotations

from dataclasses import dataclass as dataclass
from dataclasses import fields
from typing import Any, Self

import numpy as np

_LENGTHS = ".lengths"


class Record:
    """Base of frozen dataclasses that a checkpoint can hold: see the module."""

    __slots__ = ()

    def pack(self) -> dict[str, np.ndarray]:
        """Return the fields as arrays: a list of arrays as one after the other and their lengths, None as nothing."""
        packed: dict[str, np.ndarray] = {}
        for field in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            value = getattr(self, field.name)
            if isinstance(value, list):
                packed[field.name] = np.concatenate(value) if value else np.empty(0)
                packed[field.name + _LENGTHS] = np.array([len(part) for part in value], dtype=np.int64)
            elif value is not None:
                packed[field.name] = np.asarray(value)
        return packed

    @classmethod
    def unpack(cls, arrays: dict[str, np.ndarray]) -> Self:
        """Return the record that `pack` made these arrays of."""
        values: dict[str, Any] = {}
        for field in fields(cls):  # type: ignore[arg-type]
            array = arrays.get(field.name)
            if field.name + _LENGTHS in arrays and array is not None:
                values[field.name] = np.split(array, np.cumsum(arrays[field.name + _LENGTHS])[:-1])
                if not len(arrays[field.name + _LENGTHS]):
                    values[field.name] = []
            else:
                values[field.name] = array if array is None or array.ndim else array.item()
        return cls(**values)

    @property
    def nbytes(self) -> int:
        """Of the arrays."""
        return sum(array.nbytes for array in self.pack().values())


def nbytes_of(result: Any) -> int:
    """Return the bytes of the arrays that a task returned: one, a record, or several in a tuple or a dictionary."""
    if isinstance(result, dict):
        return sum(nbytes_of(value) for value in result.values())
    if isinstance(result, (tuple, list)):
        return sum(nbytes_of(value) for value in result)
    return int(result.nbytes) if isinstance(result, (np.ndarray, Record)) else 0
