"""The data sets included in scikit-learn: small, real, and available offline."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from daskfs import errors
from daskfs.errors import did_you_mean
from daskfs.sources.arrays import ArraySource
from daskfs.sources.options import SourceOptions

SourceError = errors.SourceError.about("sample-data")

NAMES = ("diabetes", "breast_cancer", "digits", "iris", "wine", "linnerud", "california_housing")


class SklearnOptions(SourceOptions):
    """A data set included in scikit-learn."""

    name: str
    target: str | None = Field(default=None, description="which target to use, if there are several")


class SklearnSource(ArraySource):
    """A data set included in scikit-learn.

    Parameters
    ----------
    name : {"diabetes", "breast_cancer", "digits", "iris", "wine", "linnerud", "california_housing"}
        The last one must be in scikit-learn's cache: nothing is downloaded.
    target : str, optional
        Which target to use, if there are several (linnerud); by default all.

    Raises
    ------
    SourceError
        An unknown name, or a data set that is not on this machine.
    """

    kind, options = "sklearn", SklearnOptions

    def __init__(self, name: str, target: str | None = None) -> None:
        from sklearn import datasets

        if name not in NAMES:
            raise SourceError(
                f"scikit-learn has no set {name!r}{did_you_mean(name, NAMES)}", "source", f"one of {', '.join(NAMES)}"
            )
        try:
            if name == "california_housing":
                bunch = datasets.fetch_california_housing(download_if_missing=False)
            else:
                bunch = getattr(datasets, f"load_{name}")()
        except OSError:
            raise SourceError(
                f"{name} is not in scikit-learn's cache, and daskfs does not download it",
                "source",
                f"run sklearn.datasets.fetch_{name}() once",
            ) from None
        y = np.asarray(bunch.target, dtype=np.float64)
        names = list(bunch.target_names) if y.ndim == 2 else ["target"]
        if target is not None and target not in names:
            problem = f"{name} has no target {target!r}{did_you_mean(target, names)}"
            raise SourceError(problem, "source.target", f"one of {', '.join(names)}, or omit it")
        if target is not None and y.ndim == 2:
            y, names = y[:, names.index(target)], [target]
        super().__init__(bunch.data, y, None, list(bunch.feature_names), names, f"scikit-learn's {name}")
