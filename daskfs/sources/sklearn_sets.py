"""The data sets that scikit-learn ships: small, real, and there without a network."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from daskfs.errors import SourceError, did_you_mean
from daskfs.sources.arrays import ArraySource
from daskfs.sources.options import SourceOptions

NAMES = ("diabetes", "breast_cancer", "digits", "iris", "wine", "linnerud", "california_housing")


class SklearnOptions(SourceOptions):
    """A data set that scikit-learn ships."""

    name: str
    target: str | None = Field(default=None, description="one target of several")


class SklearnSource(ArraySource):
    """A built-in data set.

    Parameters
    ----------
    name : {"diabetes", "breast_cancer", "digits", "iris", "wine", "linnerud", "california_housing"}
        The last one only where scikit-learn has it in its cache: nothing is fetched.
    target : str, optional
        One target of several (linnerud); all by default.

    Raises
    ------
    SourceError
        An unknown name, or a set that is not on this machine.
    """

    kind, options = "sklearn", SklearnOptions

    def __init__(self, name: str, target: str | None = None) -> None:
        from sklearn import datasets

        if name not in NAMES:
            raise SourceError(
                f"scikit-learn ships no set {name!r}{did_you_mean(name, NAMES)}", "source", f"one of {', '.join(NAMES)}"
            )
        try:
            if name == "california_housing":
                bunch = datasets.fetch_california_housing(download_if_missing=False)
            else:
                bunch = getattr(datasets, f"load_{name}")()
        except OSError:
            raise SourceError(
                f"{name} is not in scikit-learn's cache, and nothing is fetched from the network",
                "source",
                f"run sklearn.datasets.fetch_{name}() once",
            ) from None
        y = np.asarray(bunch.target, dtype=np.float64)
        names = list(bunch.target_names) if y.ndim == 2 else ["target"]
        if target is not None and target not in names:
            problem = f"{name} has no target {target!r}{did_you_mean(target, names)}"
            raise SourceError(problem, "source.target", f"one of {', '.join(names)}, or leave it out")
        if target is not None and y.ndim == 2:
            y, names = y[:, names.index(target)], [target]
        super().__init__(bunch.data, y, None, list(bunch.feature_names), names, f"scikit-learn's {name}")
