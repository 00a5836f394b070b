"""Features that exist only while they are scored: a map, the matrix of its columns, and the few that are computed.

    FeatureMap                written by a user: parameters only
      .over(matrix, given)
    ImplicitMatrix            the map's columns over one matrix: it scores itself without being read
      .made(columns)
    MadeFeatures              a few of them, for any rows: kept by a fitted selector

Columns are numbered from 0, and most never exist: there may be 10¹³. A unit is what is selected as a whole: a column,
or a block of columns (all columns of one variable). Units are numbered too, and ties go to the smaller number, so
neither tiles nor tasks change the selection.
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
    """Statistics of the stored columns, and how implicit columns are standardised."""

    mean: np.ndarray
    """Means, shape (n_features,), float64, over rows of positive weight."""
    deviation: np.ndarray
    """Population standard deviations, exactly 0 for a constant column."""
    minimum: np.ndarray
    maximum: np.ndarray
    weight: np.ndarray
    """Shape (n_samples,), float64. Rows of weight 0 are ignored."""
    center: bool = True
    """Whether columns are centred."""
    normalize: bool | str = "auto"
    """Whether columns are divided by their standard deviations; "auto" leaves it to the map."""
    n_classes: int = 1
    """Number of dual variables per row."""
    task_nbytes: int | None = None
    """Bytes that a task may use to score, in addition to the dual variables; None: unlimited."""


@dataclass(frozen=True, slots=True)
class MapCost:
    """The size and cost of a map over a matrix, known before the matrix is read."""

    n_units: int
    n_columns: int
    """Number of all implicit columns."""
    columns_per_unit: int
    """Largest number of columns of a unit."""
    task: dict[str, int]
    """Bytes that a task uses to score, by item, in addition to the dual variables."""
    text: str
    """Number of implicit features and cost of a pass, in words."""
    read_nbytes: int = 0
    """Decoded bytes that a pass reads."""
    n_tasks: int = 1
    """Number of tasks of a pass."""
    sent_nbytes: int = 0
    """Bytes of the column statistics sent to tasks."""

    def most_columns(self, n_units: int) -> int:
        """Return the largest number of columns of `n_units` units."""
        return n_units * self.columns_per_unit

    def most_units(self, n_columns: int) -> int:
        """Return the largest number of units of `n_columns` columns."""
        return min(self.n_units, n_columns)


class MadeFeatures(ABC):
    """A few implicit columns that can be computed for any rows. Small, and independent of a matrix.

    Attributes
    ----------
    columns : ndarray of shape (n_columns,), int64
        Their numbers, in order.
    parents : ndarray of shape (n_parents,), int64
        Columns of X that they are computed from, sorted and distinct.
    """

    kind: ClassVar[str]
    """Key in documents and in `daskfs.feature_maps.registry.MADE`."""
    columns: np.ndarray
    parents: np.ndarray

    @abstractmethod
    def to_document(self) -> dict[str, Any]:
        """Return all parameters of the features as a JSON document."""

    @classmethod
    @abstractmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the features described by `to_document`."""

    @abstractmethod
    def of(self, X: np.ndarray) -> np.ndarray:
        """Return the features for some rows.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_parents)
            Values of the parents.

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
            float64 if X is, otherwise float32.
        """

    @abstractmethod
    def names(self, of_parents: list[str]) -> list[str]:
        """Return the names of the features, "age * income" for example, from the names of `parents`."""

    @abstractmethod
    def parents_of(self) -> list[np.ndarray]:
        """Return, for each feature, the columns of X that it is computed from, int64."""


class OfOtherColumns(Matrix):
    """A matrix with the rows, target and weights of another one, and columns computed from it.

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
        """Number of rows that are most efficiently read together, and one column."""
        return (self.matrix.tile_shape[0], 1)

    @property
    def rows_are_random(self) -> bool:
        """Whether the rows of the matrix are in random order."""
        return self.matrix.rows_are_random

    @property
    def identity(self) -> str | None:
        """Digest of the matrix."""
        return self.matrix.identity

    @property
    def source_rows(self) -> np.ndarray | None:
        """Source row of each row."""
        return self.matrix.source_rows

    @property
    def target_classes(self) -> tuple[str, ...] | None:
        """Target classes of the matrix."""
        return self.matrix.target_classes

    def labels(self, name: str) -> np.ndarray:
        """Return the values of an id or split column."""
        return self.matrix.labels(name)

    def exists(self) -> bool:
        """Return whether the matrix can still be read."""
        return self.matrix.exists()

    def verify_unchanged(self) -> None:
        """Raise an error if the matrix was replaced after it was opened."""
        self.matrix.verify_unchanged()


class MadeMatrix(OfOtherColumns):
    """A matrix of some implicit columns of another matrix.

    Parameters
    ----------
    matrix : Matrix
    features : MadeFeatures
    """

    def __init__(self, matrix: Matrix, features: MadeFeatures) -> None:
        super().__init__(matrix, len(features.columns))
        self.features = features

    def read(self, rows: Rows, columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Return the dense block X[rows][:, columns], computed from the parents' values."""
        found = self.features.of(self.matrix.read(rows, self.features.parents))
        return _written(found[:, columns], self.dtype, out)


class ImplicitMatrix(OfOtherColumns):
    """The columns of a map over a matrix. They can be read in part, and are scored without being read.

    Rows, target and weights are those of the matrix. It is sent to tasks with what it needs to score. Caches that a
    process builds from the data (`functools.cached_property`) stay there from pass to pass; `__getstate__` leaves them
    out.

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
        Typical variance of the standardised columns. FGM's default C is divided by it.
    notes : list of str
        Notes for the result on how the columns were computed.
    """

    variance: float = 1.0

    def __init__(self, matrix: Matrix, n_columns: int, n_units: int | None = None) -> None:
        super().__init__(matrix, n_columns)
        self.n_units = n_columns if n_units is None else n_units
        self.notes: list[str] = []

    # Methods that a map defines.

    @abstractmethod
    def rounds(self, n_tasks: int, selected: np.ndarray) -> list[list[Any]]:
        """Return the parts scored in a pass. Together they contain every unit once.

        Parameters
        ----------
        n_tasks : int
            Number of tasks that run side by side.
        selected : ndarray of shape (n_selected,), int64
            Units in the model so far. With a hierarchy, a pass may score some units only because of them.

        Returns
        -------
        list of list
            Small picklable objects. The parts of a round are scored side by side, and what they find sets the floor of
            the next round.
        """

    @abstractmethod
    def score_columns(self, v: np.ndarray, n_wanted: int, floor: float, part: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the units of a part with the largest scores ``Σ_c ‖X̃_uᵀ v_c‖²`` of their standardised columns.

        Called in a task. A score depends only on the data and on `v`, not on part and floor.

        Parameters
        ----------
        v : ndarray of shape (n_classes, n_samples), float64
            0 in rows that are ignored.
        n_wanted : int
        floor : float
            Units with a lower score may be left out.
        part : object
            One of the parts of `rounds`.

        Returns
        -------
        units : ndarray of shape (<= n_wanted,), int64
            Units with positive scores, by decreasing score, ties by number: see `daskfs.kernels.fgm.topk.largest`.
                    scores : ndarray
                        Their scores.
        """

    @abstractmethod
    def made(self, columns: np.ndarray) -> MadeFeatures:
        """Return some columns, int64 of shape (n_columns,), in a form that can be computed for any rows."""

    @abstractmethod
    def scaling_of(self, columns: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the standardisation of columns, x̃ = (x - centre) * inverse, as in `score_columns`.

        Parameters
        ----------
        columns : ndarray of shape (n_columns,), int64
        values : ndarray of shape (n_columns, n_samples)
            Unstandardised values.

        Returns
        -------
        centre, inverse : ndarray of shape (n_columns,), float64
        """

    def columns_of(self, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns of some units, concatenated, and the bounds of each unit.

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
        """Return a copy without the matrix, for sending where the matrix already is."""
        other = copy(self)
        del other.matrix
        return other

    def on(self, matrix: Matrix) -> Self:
        """Return self with the matrix, if it arrived without one."""
        if "matrix" not in self.__dict__:
            self.matrix = matrix
        return self

    def read(self, rows: Rows, columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Return the dense block X[rows][:, columns], computed from the parents' values."""
        if isinstance(columns, slice):
            columns = np.arange(*columns.indices(self.shape[1]), dtype=np.int64)
        made = self.made(columns)
        return _written(made.of(self.matrix.read(rows, made.parents)), self.dtype, out)

    @property
    def names(self) -> Names:
        """Names of the columns, generated on demand."""
        return MadeNames(self)


def _written(found: np.ndarray, dtype: np.dtype, out: np.ndarray | None) -> np.ndarray:
    """Return a block in the form that `read` promises, in `out` if given."""
    if out is None:
        return np.ascontiguousarray(found, dtype=dtype)
    out[...] = found
    return out


class MadeNames(Names):
    """Names of implicit columns, generated on demand."""

    def __init__(self, implicit: ImplicitMatrix) -> None:
        super().__init__(implicit.shape[1])
        self._implicit = implicit

    def of(self, columns: np.ndarray) -> list[str]:
        """Return the names of some columns, int64 of shape (n_columns,)."""
        made = self._implicit.made(columns)
        names = self._implicit.matrix.names
        return made.names([str(names[int(j)]) for j in made.parents])

    def describe(self, column: int) -> str:
        """Return a column's name for error messages."""
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
    """Rule that defines features of a matrix's columns. Its annotated attributes are its parameters.

    A map consists of its parameters only: two of the same class with the same parameters are equal.
    """

    name: ClassVar[str]
    """Name in a pipeline file: ``features: {map: pairs}``."""

    @abstractmethod
    def over(self, matrix: Matrix, given: Given) -> ImplicitMatrix:
        """Return the map's columns over a matrix. Nothing is read.

        Raises
        ------
        DataError
            The map does not accept the columns, because of negative values for example.
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
        """Return the size and cost of the map for a matrix of this shape.

        Parameters
        ----------
        n_samples, n_features : int
        itemsize : int
            Bytes of a value.
        n_entries : int, optional
            Number of entries of a sparse matrix.
        n_classes : int
            Number of dual variables per row.
        task_nbytes : int, optional
            Bytes that a task may use to score, in addition to the dual variables. The plan refuses a higher cost.
        names : Names, optional
            Names of the columns, if known. Parameters that name columns are then checked.
        """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, as in scikit-learn."""
        return {name: getattr(self, name) for name in parameters_of(type(self))}

    def set_params(self, **params: Any) -> FeatureMap:
        """Set parameters by name."""
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
        parameters = {
            name: getattr(self, name)
            for name, parameter in parameters_of(type(self)).items()
            if repr(getattr(self, name)) != repr(parameter.default)
        }
        return f"{type(self).__name__}({', '.join(f'{name}={_shown(value)}' for name, value in parameters.items())})"


def _shown(value: Any) -> str:
    """Return the text of a parameter; for a function its import path, because its address in memory says nothing."""
    return f"{value.__module__}:{value.__qualname__}" if isinstance(value, FunctionType) else repr(value)
