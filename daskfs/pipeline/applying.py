"""The model that a run saves for predicting new rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from daskfs.applied.model import Model
from daskfs.applied.rows import Columns
from daskfs.selectors.base import BaseSelector
from daskfs.sources.applied_genotypes import copies
from daskfs.sources.sparse.base import SparseSource


def model_of(selector: BaseSelector, matrix: Any, encoder: Mapping[str, Any], refitted: BaseSelector | None) -> Model:
    """Return the model of a selector that was fitted to rows of a matrix.

    Parameters
    ----------
    selector : BaseSelector
    matrix : FeatureStore or GenotypeMatrix
    encoder : mapping
        Encoder of the rows of the matrix.
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
    if "ploidy" in encoder:
        encoder = {**encoder, "variants": _variants(encoder, matrix, numbers)}
    names = tuple(getattr(matrix, "target_names", ()))
    target = str(names[0]) if len(names) == 1 else None
    return Model.of(selector, columns, encoder, target=target, labels=matrix.target_classes, refitted=refitted)


def model_of_stream(selector: BaseSelector, source: SparseSource) -> Model | None:
    """Return the model of a selector that was trained on a source; None if its features cannot be listed."""
    numbers = selector.predictor().columns
    if source.features_are_ids and not len(numbers) and selector.method == "feature_hashing":
        return None
    named = dict(zip(selector.result_.table["index"].tolist(), selector.result_.table["name"], strict=True))
    ids = numbers.astype(np.uint64) if source.features_are_ids else None
    names = [str(named.get(int(j), f"x{j}")) for j in numbers]
    columns = Columns(numbers, names, int(selector.n_features_in_), "float64", True, ids)
    targets = tuple(source.target_names)
    target = str(targets[0]) if len(targets) == 1 else None
    return Model.of(selector, columns, source.encoder, target=target, labels=source.target_classes)


def _variants(encoder: Mapping[str, Any], matrix: Any, numbers: np.ndarray) -> dict[str, list[Any]]:
    """Return the alleles (None for covariates) and the mean dosage of features, which encode new samples."""
    known, n_covariates = matrix.annotations(numbers), int(encoder["n_covariates"])
    is_variant, none = (numbers >= n_covariates).tolist(), [""] * len(numbers)
    found: dict[str, list[Any]] = {}
    for key, name in (("counted", "effect_allele"), ("other", "other_allele")):
        alleles = known.get(name, none)
        found[key] = [str(one).upper() if has else None for one, has in zip(alleles, is_variant, strict=True)]
    frequency = known.get("allele_frequency", np.zeros(len(numbers)))
    return found | {"mean": np.nan_to_num(frequency * copies(encoder)[numbers]).tolist()}
