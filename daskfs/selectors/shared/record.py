"""Typed records of small arrays: the results of tasks, and the content of checkpoints.

    @dataclass(frozen=True, slots=True)
    class Choice(Record):
        selected: np.ndarray
        total: float
        path: Path | None = None  # another record, or none
        ballots: tuple[Ballot, ...] = ()  # any number of records of one type

A field is an array, a number, a record, a tuple or list of these, or one of these or None. `pack` returns the arrays of
a record by name, as stored in checkpoints, and `unpack` restores the record; records are sent packed. A tuple is packed
by column, with arrays of different lengths concatenated: thousands of records become as many arrays as one has fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from itertools import chain
from typing import Any, Self, get_args, get_origin, get_type_hints

import numpy as np


class Record:
    """Base of dataclasses that are sent between processes."""

    __slots__ = ()

    def pack(self) -> dict[str, np.ndarray]:
        """Return the arrays of all fields by name; those of a nested record as ``field.name``."""
        return dict(_packed(type(self), [self], ""))

    @classmethod
    def unpack(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the record from the arrays of `pack`."""
        record: Self = _unpacked(cls, arrays, 1, "")[0]
        return record

    @classmethod
    def joined(cls, records: Sequence[Self]) -> Self:
        """Return one record in which each field concatenates the arrays or tuples of several records."""
        if len(records) == 1:
            return records[0]
        names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        return cls(**{name: _joined([getattr(record, name) for record in records]) for name in names})

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays and numbers."""
        kind: Any = type(self)
        return sum(nbytes_of(getattr(self, name)) for name in _hints(kind))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).unpack, (self.pack(),)


def nbytes_of(result: Any) -> int:
    """Return the bytes of a task's result: arrays, numbers, records, or several in a tuple or a dictionary."""
    if isinstance(result, (np.ndarray, Record)):
        return int(result.nbytes)
    if isinstance(result, (float, int)):
        return 8
    if isinstance(result, dict):
        return sum(nbytes_of(value) for value in result.values())
    return sum(nbytes_of(value) for value in result) if isinstance(result, (tuple, list)) else 0


def _joined(column: list[Any]) -> Any:
    """Return one field of several records; either all or none of them have it."""
    kind = type(column[0])
    if issubclass(kind, Record):
        return kind.joined(column)
    if kind in (tuple, list):
        return kind(chain.from_iterable(column))
    return None if column[0] is None else np.concatenate(column)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _packed(hint: Any, values: list[Any], name: str) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the arrays, by name, of one field of several records."""
    if not values:
        return
    if _is_optional(hint):
        yield f"{name}.given", np.array([value is not None for value in values])
        yield from _packed(get_args(hint)[0], [value for value in values if value is not None], name)
    elif get_args(hint):  # tuple[X, ...] or list[X]
        yield f"{name}.length", np.array([len(value) for value in values])
        yield from _packed(get_args(hint)[0], list(chain.from_iterable(values)), name)
    elif issubclass(hint, Record):
        for field, inner in _hints(hint).items():
            column = [getattr(value, field) for value in values]
            yield from _packed(inner, column, f"{name}.{field}" if name else field)
    elif hint is not np.ndarray:  # a number
        yield name, np.array(values)
    elif len(values) == 1:
        yield name, np.asarray(values[0])
    else:
        yield name, np.concatenate([value.ravel() for value in values])
        yield f"{name}.shape", np.array([value.shape for value in values], dtype=np.int64)


def _unpacked(hint: Any, arrays: Mapping[str, np.ndarray], n: int, name: str) -> list[Any]:
    """Return one field of n records."""
    if not n:
        return []
    if _is_optional(hint):
        given = arrays[f"{name}.given"]
        found = iter(_unpacked(get_args(hint)[0], arrays, int(given.sum()), name))
        return [next(found) if is_given else None for is_given in given]
    if get_args(hint):
        lengths = arrays[f"{name}.length"]
        items = _unpacked(get_args(hint)[0], arrays, int(lengths.sum()), name)
        ends = np.cumsum(lengths)
        kind = get_origin(hint)
        return [kind(items[end - length : end]) for end, length in zip(ends, lengths, strict=True)]
    if issubclass(hint, Record):
        names = list(_hints(hint))
        columns = [_unpacked(_hints(hint)[field], arrays, n, f"{name}.{field}" if name else field) for field in names]
        return [hint(**dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]
    if hint is not np.ndarray:
        return [hint(value) for value in arrays[name].tolist()]
    if n == 1:
        return [arrays[name]]
    shapes = arrays[f"{name}.shape"]
    pieces = np.split(arrays[name], np.cumsum(shapes.prod(axis=1))[:-1])
    return [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]


def _is_optional(hint: Any) -> bool:
    return type(None) in get_args(hint)
