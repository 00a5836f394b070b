"""The model that a run leaves behind for other rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from daskfs.applied.model import Model
from daskfs.applied.rows import Columns
from daskfs.selectors.base import BaseSelector


def model_of(selector: BaseSelector, matrix: Any, encoder: Mapping[str, Any], refitted: BaseSelector | None) -> Model:
    """Return the model of a selector that was fitted to rows of a matrix.

    Parameters
    ----------
    selector : BaseSelector
    matrix : FeatureStore or GenotypeMatrix
    encoder : mapping
        Of its rows.
    refitted : BaseSelector, optional
        See `Model.of`.
    """
    numbers = selector.predictor().columns
    columns = Columns(
        numbers,
        [str(name) for name in matrix.names[numbers]],
        int(matrix.shape[1]),
        str(matrix.dtype),
        bool(getattr(matrix, "is_sparse", False)),
        matrix.ids(numbers) if hasattr(matrix, "ids") else None,
    )
    names = tuple(getattr(matrix, "target_names", ()))
    target = str(names[0]) if len(names) == 1 else None
    return Model.of(selector, columns, encoder, target=target, labels=matrix.target_classes, refitted=refitted)
