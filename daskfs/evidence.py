"""The content of a report in addition to the selection: the data, the selected columns, the test rows and the run.

A run computes it while the data are available (`daskfs.pipeline.examining`). result.json stores it, so that the report
can be written again from the folder alone. Undefined numbers are None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class MissingRecord:
    """The missing values of a column of a table, and their replacement."""

    column: str
    n_missing: int
    by: str
    """One of "mean", "zero", "number", "category" (a separate level) and "drop" (rows were left out)."""
    value: float | None = None
    """The mean, or the number."""
    has_indicator: bool = False
    """Whether a separate feature marks the missing values."""


@dataclass(frozen=True)
class DataRecord:
    """The data and the target."""

    source: str
    """Description of the source, or its kind."""
    target: str
    """Name of the target; empty if it has none."""
    classes: list[str] | None
    """Labels of a categorical target, in the order of its codes."""
    split: str
    """How the test rows were chosen; empty if there are none."""
    nbytes: int | None
    """Bytes of the matrix; None if there was none."""
    n_columns: int | None
    """Columns of the table that the features were encoded from; None if there was no table."""
    n_missing: int | None
    """Number of missing values of the matrix; None if not counted."""
    n_constant: int | None
    """Number of constant features; None if not counted."""
    missing: list[MissingRecord] = field(default_factory=list)
    """Missing values of the table, by column."""


@dataclass(frozen=True)
class FeatureRecord:
    """Facts about a selected feature in addition to its line in the table."""

    column: str
    """Column of the table that it was encoded from."""
    deviation: float | None
    """Standard deviation."""
    minimum: float | None
    maximum: float | None
    by_class: list[float | None] | None = None
    """Coefficient for each of several classes: see `EvidenceRecord.class_labels`."""


@dataclass(frozen=True)
class NearMiss:
    """A feature that was not selected, with a high score: the highest among the features of its column."""

    name: str
    score: float
    like: str | None
    """The selected feature with which it is correlated most, if by 0.7 or more: one can stand in for the other."""
    correlation: float | None
    column: str = ""
    """Column of the table that it was encoded from."""
    n_features: int = 1
    """Number of features of that column that were not selected and have high scores."""


@dataclass(frozen=True)
class CalibrationBin:
    """Test rows with similar predictions: the mean of these, and of the target with its 95 % interval."""

    predicted: float
    observed: float
    low: float
    high: float
    n_rows: int


@dataclass(frozen=True)
class QualityRecord:
    """The quality of the predictions for the test rows."""

    n_rows: int
    baseline: str
    """The prediction of the baseline for every row: the mean, or the most frequent class, of the training rows."""
    baseline_metrics: dict[str, float | None]
    intervals: dict[str, list[float]]
    """95 % interval of each metric, by the bootstrap over test rows."""
    calibration: list[CalibrationBin]
    """For numbers and probabilities, by rising prediction."""
    residual_edges: list[float]
    residual_counts: list[int]
    """For numbers: number of rows by target - prediction."""
    labels: list[str]
    confusion: list[list[int]]
    """For classes: number of rows by true class (rows) and predicted class (columns), in the order of `labels`."""
    metric_by_size: str
    sizes: list[int]
    values: list[float]
    """A metric of the model with only its first features; the others are fixed at their means."""
    rows: str = ""
    """Digest of their targets and weights: equal digests mean the same rows."""
    drawn: dict[str, list[float | None]] = field(default_factory=dict)
    """Values of each metric on resampled rows, the same resamples for results on the same rows."""
    errors: dict[str, float] = field(default_factory=dict)
    """For numbers: rmse and mae, in units of the target, whatever metrics were requested."""


@dataclass(frozen=True)
class EvidenceRecord:
    """The complete content."""

    data: DataRecord
    features: list[FeatureRecord] = field(default_factory=list)
    """In the order of the result's table; with very many features only the first."""
    near_misses: list[NearMiss] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """What a reader should look at first."""
    test: QualityRecord | None = None
    command: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    bundles: list[list[str]] = field(default_factory=list)
    """Features with nearly the same information, a selected one first: the data hardly distinguish those of a bundle.
    """
    class_labels: list[str] = field(default_factory=list)
    """Labels of several classes, in the order of `FeatureRecord.by_class`."""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> EvidenceRecord:
        """Return the record from a JSON document."""
        test = document["test"]
        if test is not None:
            test = QualityRecord(**test | {"calibration": [CalibrationBin(**one) for one in test["calibration"]]})
        missing = [MissingRecord(**one) for one in document["data"].get("missing") or []]
        return cls(
            data=DataRecord(**document["data"] | {"missing": missing}),
            features=[FeatureRecord(**one) for one in document["features"]],
            near_misses=[NearMiss(**one) for one in document["near_misses"]],
            warnings=list(document["warnings"]),
            test=test,
            command=document["command"],
            versions=dict(document["versions"]),
            bundles=[list(names) for names in document.get("bundles") or []],
            class_labels=list(document.get("class_labels") or []),
        )
