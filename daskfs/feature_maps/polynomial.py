"""Degree 2: squares and products of two columns, never stored.

The features are those of the kernel (γ xᵀz + r)²: the columns, their squares and the products of two columns, in the
order of scikit-learn's ``PolynomialFeatures(2, include_bias=False)``. For m columns there are m (m + 3) / 2 features.

Reference: Tan, Tsang and Wang (2014), Journal of Machine Learning Research 15, section 6 and Algorithm 5.

Differs from the paper:

- Features are standardised like columns, and then weighted: columns by 1, squares and products by √(γ/r). Without
  standardisation (``normalize=False``) the kernel's weights apply: √(2γr), γ and √2 γ. Standardisation keeps sizes from
  deciding: with tf-idf or dummies, no product is ever as large as a column.
- Dense columns are centred before they are multiplied. Otherwise a product of columns far from 0 is little more than
  the columns themselves (madelon's means are about 480, with standard deviations of 10 to 60).
- FGM's default C is a twentieth of that for columns: once the loss is nearly fitted, the largest of 10⁵ or more scores
  are noise (madelon: 11 of the first 20 columns with the default for columns, at least 16 now; mnist38 loses
  and text gains .003).
- The square of a column with two values repeats the column, and is left out.
- Products of sparse columns are computed from the rows in which both are nonzero. The Cauchy-Schwarz inequality
  excludes most of them in advance, and none wrongly (`daskfs.kernels.fgm.pairs_sparse`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import translate
from numbers import Integral
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Ge

from daskfs import errors
from daskfs.errors import did_you_mean
from daskfs.feature_maps.base import FeatureMap, Given, MapCost
from daskfs.feature_maps.product_scaling import Weights
from daskfs.feature_maps.products import SENT_NBYTES, ProductMatrix, Rules, cut
from daskfs.kernels.fgm.pairs import MOST_PARENTS, n_implicit
from daskfs.matrix.base import Matrix
from daskfs.matrix.names import Names
from daskfs.parameters import Kind, NotNegative, Positive

ConfigError = errors.ConfigError.about("feature-maps")
DataError = errors.DataError.about("feature-maps")

MOST_SETS = 62
NAMES_TOGETHER = 1 << 16
"""Number of names generated at a time if they are not stored."""

_Column = Annotated[int, Ge(0)] | str
_SETS = Kind(
    "list of columns, or of lists of columns",
    lambda value: isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) and len(value) > 0,
    "a list of columns, or of lists of columns",
    list[_Column | list[_Column]],
)
_TWO_SETS = Kind(
    "list of two columns or lists of columns",
    lambda value: isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) and len(value) == 2,
    "a list of two: each a column or a list of columns",
    list[_Column | list[_Column]],
)


class Polynomial(FeatureMap):
    """Columns, their squares, and products of two columns, scored without being computed beforehand.

    Parameters
    ----------
    degree : {2}
        Degree of the polynomial. Only 2 is supported.
    gamma, r : float
        Parameters of the kernel (γ xᵀz + r)²: squares and products have √(γ/r) times the weight of columns. With
        ``r=0`` the columns themselves are left out. See the module.
    center : bool or "auto"
        Whether columns are centred before they are multiplied. "auto" centres dense columns only: centring sparse ones
        would give every product an entry in each row.
    squares : bool
        Whether squares are included. Those of columns with two values never are.
    within : list of columns, or of lists of columns, optional
        Only products of two columns of the same set. Columns are given by name, by number from 0, or by a pattern such
        as "gene_*".
    between : list of two lists of columns, optional
        Only products of a column of the first list with a column of the second. A list of one column may be just its
        name.
    hierarchy : {"weak", "strong"}, optional
        Only products of which one column ("weak") or both columns ("strong") are already selected, and squares of
        selected columns.

    Notes
    -----
    Dense columns: n m² multiplications per pass, and twice as many more if the variances of the products do not fit in
    64 MiB. Sparse columns: at most Σ l² / 2 multiplications, where l are the numbers of entries of the rows; memory for
    three copies of the entries, and 32 bytes per column. A lower limit divides the columns into ranges, each of which
    is read again for each other range.

    Examples
    --------
    >>> Polynomial(gamma=2.0, between=[["age"], ["income", "city_*"]])
    Polynomial(gamma=2.0, between=[['age'], ['income', 'city_*']])
    """

    name: ClassVar[str] = "pairs"

    degree: Literal[2] = 2
    gamma: Positive = 1.0
    r: NotNegative = 1.0
    center: bool | Literal["auto"] = "auto"
    squares: bool = True
    within: Annotated[Any, _SETS] = None
    between: Annotated[Any, _TWO_SETS] = None
    hierarchy: Literal["weak", "strong"] | None = None

    def _check_combination(self) -> None:
        if self.within is not None and self.between is not None:
            raise ConfigError("both restrict the products", "within, between", "give one of them")
        if self.hierarchy is not None and self.r == 0.0:
            raise ConfigError("r=0 leaves out the columns that hierarchy needs", "hierarchy", "set r above 0")

    def over(self, matrix: Matrix, given: Given) -> ProductMatrix:
        """Return the columns and products of a matrix: see `FeatureMap.over`."""
        self.check_parameters()
        _check_number(matrix.shape[1])
        if self.center is True and matrix.entry_counts() is not None:
            remedy = 'set center="auto", or pass the columns dense'
            raise DataError("sparse columns are not centred: every product would have entries", "center", remedy)
        left, right = self._sets(matrix.names, matrix.shape[1])
        return ProductMatrix(matrix, given, self._rules(left, right), self._weights(given.normalize), self.center)

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
        """Return the size and cost of the map: see `FeatureMap.cost`."""
        self.check_parameters()
        _check_number(n_features)
        sizes = cut(n_samples, n_features, itemsize, n_entries, n_classes, task_nbytes)
        n_ranges = -(-n_features // sizes.width)
        follows_one = self.hierarchy is not None and (n_entries is None or self.hierarchy == "weak")
        n_products = n_in_sets = n_features * (n_features + 1) // 2
        if names is not None and (self.within is not None or self.between is not None):
            n_in_sets = _n_products(*self._sets(names, n_features))
        if n_entries is None:
            n_multiplied, value_nbytes = n_samples * n_products, n_samples * n_features * itemsize
        else:
            n_multiplied = int(n_entries * (n_entries / max(1, n_samples) + 1) / 2)
            value_nbytes = n_entries * (4 + itemsize)
        kept = "kept between passes" if sizes.keeps_spreads else "recomputed in each pass"
        text = f"{n_in_sets:,} squares and products of {n_features:,} columns, "
        text += "and of these themselves, " if self.r > 0.0 else ""
        if n_entries is None:
            text += f"{n_multiplied:.2g} multiplications per pass; their variances are {kept}"
        else:
            text += (
                f"some {n_multiplied:.2g} products of entries per pass at most, if rows have similar numbers of entries"
            )
        if n_ranges > 1 and not follows_one:
            text += f"; in {n_ranges:,} ranges of columns, each read {n_ranges + 1:,} times per pass"
        if names is None and (self.within is not None or self.between is not None):
            text += "; fewer, because within or between restricts them to columns whose names are not known yet"
        if self.hierarchy is not None:
            text += "; fewer in each pass, because hierarchy restricts them to selected columns"
        n_units = n_in_sets + n_features * (self.r > 0.0)
        n_reads = 2 if n_ranges == 1 or follows_one else n_ranges + 2
        n_tasks = n_ranges + (n_ranges if follows_one else n_ranges * (n_ranges + 1) // 2)
        return MapCost(
            n_units,
            n_implicit(n_features),
            1,
            sizes.terms,
            text,
            n_reads * value_nbytes,
            n_tasks,
            SENT_NBYTES * n_features,
        )

    def _rules(self, left: np.ndarray, right: np.ndarray) -> Rules:
        n_features = len(left)
        n_units = n_implicit(n_features) if self.r > 0.0 else n_implicit(n_features) - n_features
        n_selected = {None: 0, "weak": 1, "strong": 2}[self.hierarchy]
        return Rules(left, right, n_selected, self.squares, n_units)

    def _weights(self, normalize: bool | str) -> Weights:
        """Return the squared weights of columns, products and squares."""
        if normalize is False:
            return Weights(2.0 * self.gamma * self.r, 2.0 * self.gamma**2, self.gamma**2)
        ratio = self.gamma / self.r if self.r > 0.0 else 1.0
        return Weights(float(self.r > 0.0), ratio, ratio)

    def _sets(self, names: Names, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """Return, for each column, a bit mask of the sets whose other half may be multiplied with it: see `Wanted`."""
        left, right = np.zeros((2, n_features), np.int64)
        if self.between is not None:
            one, other = (_listed(part) for part in self.between)
            left[_columns(one, names, n_features, "between")] = 1
            right[_columns(other, names, n_features, "between")] = 1
            return left, right
        if self.within is None:
            left[:] = 1
            return left, left.copy()
        given = list(self.within)
        sets = [_listed(part) for part in given] if any(not _is_column(part) for part in given) else [given]
        if len(sets) > MOST_SETS:
            raise ConfigError(f"expected at most {MOST_SETS} sets, found {len(sets)}", "within", "merge some")
        for k, one in enumerate(sets):
            left[_columns(one, names, n_features, "within")] |= 1 << k
        return left, left.copy()


def _n_products(left: np.ndarray, right: np.ndarray) -> int:
    """Return the number of squares and products of two columns that the sets allow: see `Wanted`."""
    kinds, counts = np.unique(np.stack([left, right]), axis=1, return_counts=True)
    n_found, sizes = 0, counts.tolist()  # Python integers: there may be 10¹⁸
    for k, (one, other, size) in enumerate(zip(*kinds, sizes, strict=True)):
        n_found += size * (size + 1) // 2 if one & other else 0
        meets = (one & kinds[1, k + 1 :]) | (other & kinds[0, k + 1 :]) != 0
        n_found += size * int(counts[k + 1 :][meets].sum())
    return n_found


def _check_number(n_features: int) -> None:
    if n_features > MOST_PARENTS:
        raise DataError(
            f"expected at most {MOST_PARENTS:,} columns, found {n_features:,}", "features", "select fewer first"
        )


def _is_column(part: Any) -> bool:
    return isinstance(part, str | Integral)


def _listed(part: Any) -> list[Any]:
    return [part] if _is_column(part) else list(part)


def _columns(asked: Iterable[Any], names: Names, n_features: int, parameter: str) -> np.ndarray:
    """Return the numbers of columns given by name, number or pattern.

    Raises
    ------
    ConfigError
        A column does not exist.
    """
    found: list[np.ndarray] = []
    for one in asked:
        if isinstance(one, Integral) and not isinstance(one, bool):
            if not 0 <= int(one) < n_features:
                problem = f"expected numbers of columns from 0 to {n_features - 1}, found {one}"
                raise ConfigError(problem, parameter, "correct it")
            found.append(np.array([one]))
            continue
        matching = _named(str(one), names)
        if not len(matching):
            hint = did_you_mean(str(one), [str(name) for name in names[:10_000]])
            problem = f"there is no column {one!r}{hint}"
            raise ConfigError(problem, parameter, "give names, patterns or numbers of columns")
        found.append(matching)
    return np.unique(np.concatenate(found).astype(np.int64))


def _named(asked: str, names: Names) -> np.ndarray:
    """Return the columns with a name, or if there is none, those that match it as a pattern."""
    given = names.given
    if given is not None and (given == asked).any():
        return np.flatnonzero(given == asked)
    if given is None and asked in names:
        return np.array([names.index(asked)])
    if not any(sign in asked for sign in "*?["):
        return np.empty(0, np.int64)
    matches, parts = re.compile(translate(asked)).match, range(0, len(names), NAMES_TOGETHER)
    texts = (names[start : start + NAMES_TOGETHER] for start in parts)
    is_meant = [matches(str(name)) is not None for part in texts for name in part]
    return np.flatnonzero(is_meant)
