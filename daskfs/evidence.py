"""What a report tells beside the selection: of the data, the selected columns, the test rows and the run.

A run computes it while it has the data at hand (`daskfs.pipeline.examining`), and result.json keeps it, so that the
page can be written again from the folder alone. Undefined numbers are None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class MissingRecord:
    """What was missing in a column of a table, and by what it was replaced."""

    column: str
    n_missing: int
    by: str
    """"mean", "zero", "number", "category" (a level of its own), or "drop": the rows were left out."""
    value: float | None = None
    """The mean, or the number."""
    has_indicator: bool = False
    """A feature of its own says where it was missing."""


@dataclass(frozen=True)
class DataRecord:
    """What was asked of which data."""

    source: str
    """Its description, or its kind."""
    target: str
    """Its name; empty where it has none."""
    classes: list[str] | None
    """Of a target that is a category: what is counted, in the order of its codes."""
    split: str
    """How the test rows were chosen; empty where there are none."""
    nbytes: int | None
    """Of the matrix; None where there was none."""
    n_columns: int | None
    """Of the table that the features were encoded from; None where there was no table."""
    n_missing: int | None
    """Values of the matrix that are missing; None where they were not counted."""
    n_constant: int | None
    """Features that have one value only; None where they were not counted."""
    missing: list[MissingRecord] = field(default_factory=list)
    """Of the table, by column."""


@dataclass(frozen=True)
class FeatureRecord:
    """What is known of a selected feature beside its line in the table."""

    column: str
    """Of the table, that it was encoded from."""
    deviation: float | None
    """Standard deviation."""
    minimum: float | None
    maximum: float | None
    by_class: list[float | None] | None = None
    """Its coefficient for each class, where there are several: see `EvidenceRecord.class_labels`."""


@dataclass(frozen=True)
class NearMiss:
    """A feature that was not selected, with a high score: the highest of those that come from its column."""

    name: str
    score: float
    like: str | None
    """The selected feature that it is correlated with most, by 0.7 or more: the one stands in for the other."""
    correlation: float | None
    column: str = ""
    """Of the table, that it was encoded from."""
    n_features: int = 1
    """Of that column that were not selected, with high scores."""


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
    """How the predictions of the test rows turned out."""

    n_rows: int
    baseline: str
    """What is predicted for every row by the baseline: the mean, or the most frequent class, of the training rows."""
    baseline_metrics: dict[str, float | None]
    intervals: dict[str, list[float]]
    """Of each metric the 95 % interval, by the bootstrap over test rows."""
    calibration: list[CalibrationBin]
    """Of numbers and probabilities, by rising prediction."""
    residual_edges: list[float]
    residual_counts: list[int]
    """Of numbers: rows by target - prediction."""
    labels: list[str]
    confusion: list[list[int]]
    """Of classes: rows by true class (rows) and predicted class (columns), in the order of `labels`."""
    metric_by_size: str
    sizes: list[int]
    values: list[float]
    """A metric of the model's first features, those after them held at their means."""
    rows: str = ""
    """Digest of their targets and weights: results with the same are of the same rows."""
    drawn: dict[str, list[float | None]] = field(default_factory=dict)
    """Of each metric its values on rows drawn again and again, the same rows for results of the same rows."""
    errors: dict[str, float] = field(default_factory=dict)
    """Of numbers: rmse and mae, in units of the target, whatever the metrics that were asked for."""


@dataclass(frozen=True)
class EvidenceRecord:
    """All of it."""

    data: DataRecord
    features: list[FeatureRecord] = field(default_factory=list)
    """In the order of the result's table; of very many the first."""
    near_misses: list[NearMiss] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """What a reader should look at before anything else."""
    test: QualityRecord | None = None
    command: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    bundles: list[list[str]] = field(default_factory=list)
    """Features that say nearly the same, a selected one first: the data hardly decide between those of a bundle."""
    class_labels: list[str] = field(default_factory=list)
    """Of several classes, in the order of `FeatureRecord.by_class`."""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> EvidenceRecord:
        """Return the record that a document of JSON holds."""
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
