"""The table of selected features: its columns, the columns that features are made of, and its cells in a CSV file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

_LARGEST_INT64 = 2**63 - 1
_SCORES_TOGETHER = 1 << 17
TABLE_COLUMNS = ("rank", "index", "name", "coef", "score")
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of texts that spreadsheets interpret as formulas (OWASP, "CSV injection").

A text that begins with one of them, possibly after quotes, gets one more quote, which `text_of_cell` removes.
"""


@dataclass(frozen=True)
class SelectedFeature:
    """One line of a result's table: rank from 1 (most important), column number, name, coefficient, score."""

    rank: int
    index: int
    name: str
    coef: float | None
    score: float | None


@dataclass(frozen=True)
class Parent:
    """A column that a feature is made of, and its own value as a feature; see `columns_of_parents`."""

    name: str
    score: float | None
    rank: int


@dataclass(frozen=True)
class SelectedMadeFeature(SelectedFeature):
    """A line of a result with a feature map: also the score before any feature was selected, and the parent columns."""

    first_score: float | None
    parents: list[Parent]


def coefficient_norm(coef: np.ndarray) -> np.ndarray:
    """Return the absolute coefficient of each column, shape (n_columns,); with several classes the norm over these."""
    return np.sqrt((np.atleast_2d(coef) ** 2).sum(axis=0))


def selection_table(
    selected: Iterable[int],
    coef: Iterable[float],
    scores: Iterable[float],
    feature_names: Any = None,
) -> pd.DataFrame:
    """Build the table of a result.

    Parameters
    ----------
    selected : iterable of int
        Column numbers, most important first.
    coef, scores : iterable of float
        In the order of `selected`.
    feature_names : ndarray of shape (n_features,), or another that is indexed like one, optional
        Names of all columns, indexed once with those of `selected`; by default ``x0``, ``x1``, ...

    Returns
    -------
    DataFrame
        Columns rank, index, name, coef, score.

    Examples
    --------
    >>> print(selection_table([7, 2], [1.5, -0.5], [1.0, 0.8]).to_string(index=False))
     rank  index name  coef  score
        1      7   x7   1.5    1.0
        2      2   x2  -0.5    0.8
    """
    import pandas as pd

    index = np.array(list(selected), dtype=object)
    index = index.astype(np.uint64 if (index > _LARGEST_INT64).any() else np.int64)
    names = [f"x{j}" for j in index] if feature_names is None else [str(name) for name in feature_names[index]]
    return pd.DataFrame(
        {
            "rank": np.arange(1, len(index) + 1, dtype=np.int64),
            "index": index,
            "name": pd.Series(names, dtype="str"),
            "coef": np.fromiter(coef, dtype=np.float64),
            "score": np.fromiter(scores, dtype=np.float64),
        }
    )


def annotated(table: pd.DataFrame, annotations: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Return the table of a result with annotations of its columns: see `daskfs.matrix.base.Matrix.annotations`.

    Examples
    --------
    >>> table = selection_table([7, 2], [1.5, -0.5], [1.0, 0.8], np.array([f"rs{j}" for j in range(8)]))
    >>> known = {"chromosome": np.array(["6", ""], dtype=object), "position": np.array([32_574_000, -1])}
    >>> print(annotated(table, known)[["name", "chromosome", "position"]].to_string(index=False))
    name chromosome  position
     rs7          6  32574000
     rs2        NaN      <NA>
    """
    import pandas as pd

    columns = {}
    for name, values in annotations.items():
        if values.dtype.kind == "i":
            columns[name] = pd.Series(values, dtype="Int64").mask(values < 0)
        elif values.dtype.kind == "f":
            columns[name] = pd.Series(values)
        else:
            columns[name] = pd.Series([text or None for text in values], dtype="str")
    return table.assign(**columns)


def columns_of_parents(first_scores: Iterable[float], parents: Iterable[Sequence[Parent]]) -> dict[str, pd.Series]:
    """Return the columns of a table that describe what its features are made of.

    A score here is Σ_c (x̃ᵀv_c)², the score of FGM's first pass, before anything is selected, as a share of the largest
    score that a column of variance 1 can have. It is thus the squared correlation of a standardised column with the
    derivative of the loss; for the squared and the logistic loss, with the target. `first_score` is that of the feature
    itself, with the weights of its map. The scores of its parents are those that each would have as a column in FGM
    without a map, and their ranks are among all columns of X: 1 plus the number of columns with a larger score.

    Parameters
    ----------
    first_scores : iterable of float
    parents : iterable of sequences of Parent
        Parents of each feature, in the order of the table.

    Returns
    -------
    dict of str to Series
        first_score, then for the k-th parent parent_k, parent_k_score and parent_k_rank; missing if there are fewer.

    Examples
    --------
    >>> columns = columns_of_parents([0.3], [[Parent("age", 0.01, 7), Parent("income", 0.02, 5)]])
    >>> {name: column[0].item() if hasattr(column[0], "item") else column[0] for name, column in columns.items()}
    {'first_score': 0.3, 'parent_1': 'age', 'parent_1_score': 0.01, 'parent_1_rank': 7, 'parent_2': 'income', \
'parent_2_score': 0.02, 'parent_2_rank': 5}
    """
    import pandas as pd

    lists = list(parents)
    columns = {"first_score": pd.Series(list(first_scores), dtype="f8")}
    for k in range(max(map(len, lists), default=0)):
        of_all = [one[k] if k < len(one) else None for one in lists]
        of = f"parent_{k + 1}"
        columns[of] = pd.Series([one and one.name for one in of_all], dtype="str")
        columns[f"{of}_score"] = pd.Series([math.nan if one is None else one.score for one in of_all], dtype="f8")
        columns[f"{of}_rank"] = pd.Series([None if one is None else one.rank for one in of_all], dtype="Int64")
    return columns


def parents_in(row: Mapping[Any, Any]) -> list[Parent]:
    """Return the parents in a row of a table with the columns of `columns_of_parents`."""
    found: list[Parent] = []
    while isinstance(row.get(of := f"parent_{len(found) + 1}"), str):
        found.append(Parent(row[of], as_json_types(row[f"{of}_score"]), int(row[f"{of}_rank"])))
    return found


def greatest_scores(scores: np.ndarray, most: int, leave_out: np.ndarray | None = None) -> np.ndarray:
    """Return the columns with the largest positive scores, largest first, using memory for only a few of them.

    Examples
    --------
    >>> greatest_scores(np.array([0.5, np.nan, 2.0, 0.0, 0.5]), 2).tolist()
    [2, 0]
    >>> greatest_scores(np.array([0.5, np.nan, 2.0, 0.0, 0.5]), 2, np.array([2])).tolist()
    [0, 4]
    """
    found = np.empty(0, dtype=np.int64)
    for start in range(0, len(scores), _SCORES_TOGETHER):
        part = np.asarray(scores[start : start + _SCORES_TOGETHER], dtype=np.float64)
        is_meant = part > 0
        if leave_out is not None:
            is_meant[leave_out[(leave_out >= start) & (leave_out < start + len(part))] - start] = False
        found = np.concatenate([found, start + np.flatnonzero(is_meant)])
        found = found[np.lexsort((found, -np.asarray(scores[found], dtype=np.float64)))][:most]
    return found


def cell_of_text(text: str) -> str:
    """Return a text in the form of selected.csv, which no spreadsheet interprets as a formula.

    Examples
    --------
    >>> cell_of_text("=SUM(A1)"), cell_of_text("gene"), cell_of_text("'=x")
    ("'=SUM(A1)", 'gene', "''=x")
    """
    return f"'{text}" if text.lstrip("'").startswith(FORMULA_STARTS) else text


def text_of_cell(cell: str) -> str:
    """Return the text in a cell of selected.csv.

    Examples
    --------
    >>> [text_of_cell(cell_of_text(text)) for text in ("=1", "'=1", "''", "'a", "-")]
    ['=1', "'=1", "''", "'a", '-']
    """
    return cell[1:] if cell.startswith("'") and cell.lstrip("'").startswith(FORMULA_STARTS) else cell


def without_formulas(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with its texts in the form of `cell_of_text`."""
    from pandas.api.types import is_numeric_dtype

    texts = [name for name in table.columns if not is_numeric_dtype(table[name])]
    return table.assign(**{name: table[name].map(cell_of_text, na_action="ignore") for name in texts})


def as_json_types(value: Any) -> Any:
    """Convert NumPy scalars and arrays to types of JSON; NaN and infinity become null."""
    if isinstance(value, dict):
        return {str(key): as_json_types(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, np.ndarray)):
        return [as_json_types(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)
