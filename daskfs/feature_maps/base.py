"""Features that exist only while they are scored: a map, the matrix of its columns, and the few that are made.

    FeatureMap                what a user writes: parameters alone
      .over(matrix, given)
    ImplicitMatrix            the map's columns over one matrix: it scores itself without being read
      .made(columns)
    MadeFeatures              a few of them, of any rows: what a fitted selector keeps

Columns are numbered from 0 and mostly never exist: there may be 10¹³. What is selected whole is a unit: a column, or a
block of columns (all that are made of one variable). Units are numbered too, ties go to the smaller number; so neither
tiles nor tasks change what is selected.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from types import FunctionType
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows
from daskfs.matrix.names import Names
from daskfs.parameters import Parameters, parameters_of


class Given(NamedTuple):
    """What is known of the stored columns, and how the implicit ones are to be standardised."""

    mean: np.ndarray
    """Shape (n_features,), float64, over rows of positive weight."""
    deviation: np.ndarray
    """Population standard deviation, exactly 0 of a constant column."""
    minimum: np.ndarray
    maximum: np.ndarray
    weight: np.ndarray
    """Shape (n_samples,), float64; rows of 0 take no part."""
    center: bool = True
    """Whether columns are taken about their means."""
    normalize: bool | str = "auto"
    """Whether columns are divided by their standard deviations; "auto": as the map has it."""
    n_classes: int = 1
    """Dual variables of each row."""
    task_nbytes: int | None = None
    """What a task may take to score, beside the dual variables; None: unlimited."""


@dataclass(frozen=True, slots=True)
class MapCost:
    """What a map makes of a matrix, known before it is read."""

    n_units: int
    n_columns: int
    """All of them, made or not."""
    columns_per_unit: int
    """At most."""
    task: dict[str, int]
    """Bytes that a task takes to score, by terms, beside the dual variables."""
    text: str
    """How many features there are implicitly and what a pass costs, in words."""
    read_nbytes: int = 0
    """Decoded bytes that a pass reads."""
    n_tasks: int = 1
    """Of a pass."""
    sent_nbytes: int = 0
    """Of the map's knowledge of the columns, which tasks are sent."""

    def most_columns(self, n_units: int) -> int:
        """Return how many columns so many units have at most."""
        return n_units * self.columns_per_unit

    def most_units(self, n_columns: int) -> int:
        """Return how many units so many columns can be at most."""
        return min(self.n_units, n_columns)


class MadeFeatures(ABC):
    """A few implicit columns, made of any rows; small, and without a matrix.

    Attributes
    ----------
    columns : ndarray of shape (n_columns,), int64
        Their numbers, in the order in which they are made.
    parents : ndarray of shape (n_parents,), int64
        Columns of X that they are made of, ascending, each once.
    """

    kind: ClassVar[str]
    """As a document names it: a key of `daskfs.feature_maps.registry.MADE`."""
    columns: np.ndarray
    parents: np.ndarray

    @abstractmethod
    def to_document(self) -> dict[str, Any]:
        """Return all there is to know of the features, as JSON can hold it."""

    @classmethod
    @abstractmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the features that `to_document` described."""

    @abstractmethod
    def of(self, X: np.ndarray) -> np.ndarray:
        """Return the features of some rows.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_parents)
            The parents' values.

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
            float64 where X is, else float32.
        """

    @abstractmethod
    def names(self, of_parents: list[str]) -> list[str]:
        """Return the names of the features, "age * income" for example, from those of `parents`."""

    @abstractmethod
    def parents_of(self) -> list[np.ndarray]:
        """Return of each feature the columns of X that it is made of, int64."""


class OfOtherColumns(Matrix):
    """A matrix whose rows, target and weights are those of another one, and whose columns are made of that one's.

    Attributes
    ----------
    matrix : Matrix
    """

    matrix: Matrix

    def __init__(self, matrix: Matrix, n_columns: int) -> None:
        self.matrix = matrix
        self.shape = (matrix.shape[0], n_columns)
        self.dtype = np.dtype(np.float64 if matrix.dtype == np.float64 else np.float32)

    def read_target(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return y[rows]."""
        return self.matrix.read_target(rows)

    def read_weight(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return the weights of the rows, or None."""
        return self.matrix.read_weight(rows)

    @property
    def tile_shape(self) -> tuple[int, int]:
        """Rows that are read best together, and one column."""
        return (self.matrix.tile_shape[0], 1)

    @property
    def rows_are_random(self) -> bool:
        """Whether those of the matrix are."""
        return self.matrix.rows_are_random

    @property
    def identity(self) -> str | None:
        """That of the matrix."""
        return self.matrix.identity

    @property
    def source_rows(self) -> np.ndarray | None:
        """Row of the source that each row came from."""
        return self.matrix.source_rows

    @property
    def target_classes(self) -> tuple[str, ...] | None:
        """Those of the matrix."""
        return self.matrix.target_classes

    def labels(self, name: str) -> np.ndarray:
        """Return the values of an id or split column."""
        return self.matrix.labels(name)

    def exists(self) -> bool:
        """Return whether the matrix can still be read."""
        return self.matrix.exists()

    def verify_unchanged(self) -> None:
        """Raise an error where the matrix was replaced since it was opened."""
        self.matrix.verify_unchanged()


class MadeMatrix(OfOtherColumns):
    """The columns that were made of a matrix, and no others.

    Parameters
    ----------
    matrix : Matrix
    features : MadeFeatures
    """

    def __init__(self, matrix: Matrix, features: MadeFeatures) -> None:
        super().__init__(matrix, len(features.columns))
        self.features = features

    def read(self, rows: Rows, columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Return the dense block X[rows][:, columns], made of the parents' values."""
        found = self.features.of(self.matrix.read(rows, self.features.parents))
        return _written(found[:, columns], self.dtype, out)


class ImplicitMatrix(OfOtherColumns):
    """The columns that a map makes of a matrix: read in part, and scored without being read.

    Rows, target and weights are the matrix's own. It travels with what it needs to score; what a process has made of
    the data to score faster (`functools.cached_property`) stays there from pass to pass and is left out by
    `__getstate__`.

    Parameters
    ----------
    matrix : Matrix
    n_columns : int
        Below 2⁶³.
    n_units : int, optional
        By default each column is a unit.

    Attributes
    ----------
    matrix : Matrix
    n_units : int
    variance : float
        Typical variance of the standardised columns; the default C of FGM is divided by it.
    notes : list of str
        What a result should say of how the columns were made.
    """

    variance: float = 1.0

    def __init__(self, matrix: Matrix, n_columns: int, n_units: int | None = None) -> None:
        super().__init__(matrix, n_columns)
        self.n_units = n_columns if n_units is None else n_units
        self.notes: list[str] = []

    # What a map defines.

    @abstractmethod
    def rounds(self, n_tasks: int, selected: np.ndarray) -> list[list[Any]]:
        """Return the parts that are scored in a pass, which together hold every unit once.

        Parameters
        ----------
        n_tasks : int
            Tasks that run side by side.
        selected : ndarray of shape (n_selected,), int64
            Units in the model so far: others may be open to a pass only because of them.

        Returns
        -------
        list of list
            Small picklable objects. Those of a round are scored side by side; the floor of the next round is what
            they found.
        """

    @abstractmethod
    def score_columns(self, v: np.ndarray, n_wanted: int, floor: float, part: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the units of a part with the largest scores ``Σ_c ‖X̃_uᵀ v_c‖²`` of their standardised columns.

        Called in a task. A score depends on the data and on `v` alone, not on part and floor.

        Parameters
        ----------
        v : ndarray of shape (n_classes, n_samples), float64
            0 in rows that take no part.
        n_wanted : int
        floor : float
            Units that score less may be left out.
        part : object
            One of those of `rounds`.

        Returns
        -------
        units : ndarray of shape (<= n_wanted,), int64
            Those above 0, by falling score, ties by number: see `daskfs.kernels.fgm.topk.largest`.
        scores : ndarray
            Theirs.
        """

    @abstractmethod
    def made(self, columns: np.ndarray) -> MadeFeatures:
        """Return a few columns, int64 of shape (n_columns,), as they are made of any rows."""

    @abstractmethod
    def scaling_of(self, columns: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what standardises columns: x̃ = (x - centre) * inverse, as `score_columns` has it.

        Parameters
        ----------
        columns : ndarray of shape (n_columns,), int64
        values : ndarray of shape (n_columns, n_samples)
            As they are made.

        Returns
        -------
        centre, inverse : ndarray of shape (n_columns,), float64
        """

    def columns_of(self, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns of some units, one unit after the other, and where each unit starts and the last ends.

        Parameters
        ----------
        units : ndarray of shape (n_units,), int64

        Returns
        -------
        columns : ndarray of shape (n_columns,), int64
        bounds : ndarray of shape (n_units + 1,), int64
        """
        return units, np.arange(len(units) + 1)

    def apart(self) -> Self:
        """Return the same without its matrix, to be sent where that is already."""
        other = copy(self)
        del other.matrix
        return other

    def on(self, matrix: Matrix) -> Self:
        """Return itself with its matrix, which it gets where it has arrived without."""
        if "matrix" not in self.__dict__:
            self.matrix = matrix
        return self

    def read(self, rows: Rows, columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Return the dense block X[rows][:, columns], made of the parents' values."""
        if isinstance(columns, slice):
            columns = np.arange(*columns.indices(self.shape[1]), dtype=np.int64)
        made = self.made(columns)
        return _written(made.of(self.matrix.read(rows, made.parents)), self.dtype, out)

    @property
    def names(self) -> Names:
        """Names of the columns, made when they are asked for."""
        return MadeNames(self)


def _written(found: np.ndarray, dtype: np.dtype, out: np.ndarray | None) -> np.ndarray:
    """Return a block as a matrix gives it, in `out` where that is given."""
    if out is None:
        return np.ascontiguousarray(found, dtype=dtype)
    out[...] = found
    return out


class MadeNames(Names):
    """Names of implicit columns: of one or of a few, when they are asked for."""

    def __init__(self, implicit: ImplicitMatrix) -> None:
        super().__init__(implicit.shape[1])
        self._implicit = implicit

    def of(self, columns: np.ndarray) -> list[str]:
        """Return the names of some columns, int64 of shape (n_columns,)."""
        made = self._implicit.made(columns)
        names = self._implicit.matrix.names
        return made.names([str(names[int(j)]) for j in made.parents])

    def describe(self, column: int) -> str:
        """Return a column's name, as an error says it."""
        return f"column {str(self[column])!r}"

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, (int, np.integer)):
            return self.of(np.array([range(len(self))[key]], dtype=np.int64))[0]
        found = np.arange(*key.indices(len(self))) if isinstance(key, slice) else np.asarray(key)
        columns = np.flatnonzero(found) if found.dtype == bool else found.astype(np.int64)
        names = np.empty(len(columns), dtype=object)
        names[:] = self.of(columns)
        return names

    def __iter__(self) -> Iterator[str]:
        return (self[j] for j in range(len(self)))


class FeatureMap(Parameters, ABC):
    """Which features are made of the columns of a matrix: its annotated attributes are its parameters.

    A map is nothing but its parameters: two of the same kind with the same parameters are equal.
    """

    name: ClassVar[str]
    """As a pipeline file has it, ``features: {map: pairs}``."""

    @abstractmethod
    def over(self, matrix: Matrix, given: Given) -> ImplicitMatrix:
        """Return the map's columns over a matrix; nothing is read.

        Raises
        ------
        DataError
            Columns that the map cannot take, negative ones for example.
        """

    @abstractmethod
    def cost(
        self,
        n_samples: int,
        n_features: int,
        itemsize: int,
        n_entries: int | None = None,
        n_classes: int = 1,
        task_nbytes: int | None = None,
        names: Names | None = None,
    ) -> MapCost:
        """Return what the map makes of a matrix of this shape, and what a pass over that takes.

        Parameters
        ----------
        n_samples, n_features : int
        itemsize : int
            Bytes of a value.
        n_entries : int, optional
            Of a sparse matrix.
        n_classes : int
            Dual variables of each row.
        task_nbytes : int, optional
            What a task may take to score, beside the dual variables; a cost above it is refused by the plan.
        names : Names, optional
            Of the columns, where they are known; parameters that name columns are then checked.
        """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, as scikit-learn asks for them."""
        return {name: getattr(self, name) for name in parameters_of(type(self))}

    def set_params(self, **params: Any) -> FeatureMap:
        """Set parameters by their names."""
        for name, value in params.items():
            parameters_of(type(self))[name].check(value, type(self).__name__)
            setattr(self, name, value)
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and repr(other.get_params()) == repr(self.get_params())

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        told = {
            name: getattr(self, name)
            for name, parameter in parameters_of(type(self)).items()
            if repr(getattr(self, name)) != repr(parameter.default)
        }
        return f"{type(self).__name__}({', '.join(f'{name}={_shown(value)}' for name, value in told.items())})"


def _shown(value: Any) -> str:
    """Return a parameter as it is written; a function by its place, for where it lies in memory says nothing."""
    return f"{value.__module__}:{value.__qualname__}" if isinstance(value, FunctionType) else repr(value)
