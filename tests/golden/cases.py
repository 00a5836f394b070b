"""The fits whose results are kept: every method, each of its losses, and the variants that take a way of their own.

`tests.variants` says which these are. The recorder (`record.py`) and the test (`test_methods_golden.py`) run the same
cases, by the public interface only.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

import daskfs
from tests.variants import VARIANTS, Variant

CASES = [variant for variant in VARIANTS if variant.inputs]
N_SAMPLES, N_FEATURES = 320, 24


class Data:
    """Small correlated columns, of which six matter, and targets of each kind that follow them with much noise."""

    def __init__(self) -> None:
        rng = np.random.default_rng(20)
        common = rng.standard_normal((N_SAMPLES, 3))
        X = rng.standard_normal((N_SAMPLES, N_FEATURES)) + common @ rng.standard_normal((3, N_FEATURES)) * 0.6
        X = np.where(rng.random(X.shape) < 0.5, X, 0.0)  # so that the sparse matrix is the same matrix
        self.X = X * rng.uniform(0.5, 2.0, N_FEATURES)
        z = self.X[:, [2, 5, 11, 16, 20, 23]] @ [1.0, -0.8, 0.6, 0.5, -0.3, 0.2] + 0.4
        self.targets = {
            "numbers": z + rng.standard_normal(N_SAMPLES),
            "classes": (z + rng.logistic(size=N_SAMPLES) > 0.4).astype(float),
            "counts": rng.poisson(np.exp(0.4 * z)).astype(float),
            "three classes": np.digitize(z + rng.standard_normal(N_SAMPLES), [-0.5, 1.2]).astype(float),
        }
        self.weight = rng.integers(0, 4, N_SAMPLES) / 2.0
        self._stores: dict[tuple[str, bool], Any] = {}

    def store(self, case: Variant, folder: Path) -> Any:
        """Return the feature store of a case, written when first asked for."""
        key = (case.target, case.weighted)
        if key not in self._stores:
            path = folder / f"{case.target.replace(' ', '-')}-{case.weighted}.zarr"
            weight = {"weight": self.weight} if case.weighted else {}
            options = {"dtype": "float64", "tile_shape": (64, 5), "random_state": 0}
            self._stores[key] = daskfs.ingest(self.X, path, y=self.targets[case.target], **weight, **options)
        return self._stores[key]


def fitted(case: Variant, given: str, data: Data, folder: Path, client: Any = None) -> Any:
    """Return the fitted selector of a case.

    Parameters
    ----------
    case : Variant
    given : {"dense", "sparse", "store", "float32"}
        What X is.
    data : Data
    folder : Path
        Where a store may be written.
    client : distributed.Client, optional
    """
    selector = case.make() if client is None else case.make(client=client)
    y = data.targets[case.target]
    weight = {"sample_weight": data.weight} if case.weighted else {}
    kinds = {"dense": np.asarray, "sparse": scipy.sparse.csr_array, "float32": lambda X: X.astype(np.float32)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # a parameter that has a new name is the same parameter
        if given == "store":
            return selector.fit(data.store(case, folder))
        X = kinds[given](data.X)
        if case.arrives == "at once":
            return selector.fit(X, y, **weight)
        for k, part in enumerate(np.array_split(np.arange(N_SAMPLES if case.arrives == "rows" else N_FEATURES), 3)):
            if case.arrives == "columns":
                selector.partial_fit_features(X[:, part], y=y if k == 0 else None)
            else:
                selector.partial_fit(
                    X[part], y[part], **({"classes": np.unique(y)} if "classes" in case.target else {})
                )
    return selector
