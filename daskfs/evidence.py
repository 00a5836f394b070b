"""Records of what a report shows in addition to the selection: the data, selected columns, test rows and run.

A run computes them while it has access to the data (`daskfs.pipeline.examining`) and saves them in result.json, so that
the report can be written again from the run folder alone. Undefined numbers are None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class MissingRecord:
    """Missing values of a column of a table, and their replacement."""

    column: str
    n_missing: int
    by: str
    """"mean", "zero", "number", "category" (a level of its own), or "drop" (the rows were left out)."""
    value: float | None = None
    """The mean or the number that replaces missing values."""
    has_indicator: bool = False
    """Whether a further feature marks the missing values."""


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
    """How the test rows were chosen; empty without test rows."""
    nbytes: int | None
    """Size of the matrix; None without a matrix."""
    n_columns: int | None
    """Number of columns of the table from which the features were encoded; None without a table."""
    n_missing: int | None
    """Number of missing values of the matrix; None if they were not counted."""
    n_constant: int | None
    """Number of constant features; None if they were not counted."""
    missing: list[MissingRecord] = field(default_factory=list)
    """Missing values by column of the table."""


@dataclass(frozen=True)
class FeatureRecord:
    """Further facts of a selected feature, in addition to its row in the result's table."""

    column: str
    """Column of the table from which the feature was encoded."""
    deviation: float | None
    """Standard deviation."""
    minimum: float | None
    maximum: float | None
    by_class: list[float | None] | None = None
    """Coefficients by class if there are several, in the order of `EvidenceRecord.class_labels`."""


@dataclass(frozen=True)
class NearMiss:
    """A feature with a high score that was not selected: the best of its source column."""

    name: str
    score: float
    like: str | None
    """The selected feature with the highest correlation, if that is at least 0.7: one can replace the other."""
    correlation: float | None
    column: str = ""
    """Column of the table from which the feature was encoded."""
    n_features: int = 1
    """Number of features of that column with high scores that were not selected."""


@dataclass(frozen=True)
class ManhattanRecord:
    """Variants along the genome; of neighbours with similar values only the highest is kept."""

    measure: str
    """What the values are: the kind of the method's scores, or -log10 of marginal p-values."""
    n_variants: int
    """Number of variants with a value, of which the points are some."""
    chromosomes: list[str]
    ends: list[int]
    """Last position on each chromosome."""
    chromosome: list[int]
    """Index of the chromosome of each point."""
    position: list[int]
    value: list[float]
    names: list[str]
    """Name of each point that is selected; empty for others."""


@dataclass(frozen=True)
class LocusRecord:
    """The variants around a selected one, and their r2 with it; if there are very many, some of them."""

    name: str
    chromosome: str
    position: int
    positions: list[int]
    r2: list[float]
    n_variants: int
    """Number of other variants in the window."""
    min_r2: float
    """Smallest r2 in the clump."""


@dataclass(frozen=True)
class CalibrationBin:
    """Test rows with similar predictions: mean prediction, and mean target with its 95 % interval."""

    predicted: float
    observed: float
    low: float
    high: float
    n_rows: int


@dataclass(frozen=True)
class QualityRecord:
    """Quality of the predictions on the test rows."""

    n_rows: int
    baseline: str
    """Prediction of the baseline for every row: the mean or the most frequent class of the training rows."""
    baseline_metrics: dict[str, float | None]
    intervals: dict[str, list[float]]
    """95 % intervals by metric, from the bootstrap over test rows."""
    calibration: list[CalibrationBin]
    """For numbers and probabilities, by increasing prediction."""
    residual_edges: list[float]
    residual_counts: list[int]
    """Histogram of target - prediction for a numeric target."""
    labels: list[str]
    confusion: list[list[int]]
    """Confusion matrix, true classes as rows and predicted classes as columns, in the order of `labels`."""
    metric_by_size: str
    sizes: list[int]
    values: list[float]
    """The metric with the first `sizes` features of the model, the others fixed at their means."""
    rows: str = ""
    """Digest of the targets and weights of the test rows; equal for results on the same rows."""
    drawn: dict[str, list[float | None]] = field(default_factory=dict)
    """Bootstrap values by metric; results on the same rows use the same bootstrap samples."""
    errors: dict[str, float] = field(default_factory=dict)
    """RMSE and MAE of a numeric target, in its units, whichever metrics were requested."""


@dataclass(frozen=True)
class EvidenceRecord:
    """All records of a result."""

    data: DataRecord
    features: list[FeatureRecord] = field(default_factory=list)
    """In the order of the result's table; only the first if there are very many."""
    near_misses: list[NearMiss] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """Warnings that the report shows first."""
    test: QualityRecord | None = None
    command: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    bundles: list[list[str]] = field(default_factory=list)
    """Groups of interchangeable (highly correlated) features, a selected one first in each."""
    class_labels: list[str] = field(default_factory=list)
    """Labels of several classes, in the order of `FeatureRecord.by_class`."""
    manhattan: ManhattanRecord | None = None
    """Of variants with positions."""
    loci: list[LocusRecord] = field(default_factory=list)
    """The first selected variants."""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> EvidenceRecord:
        """Return the record from its JSON document."""
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
            manhattan=ManhattanRecord(**document["manhattan"]) if document.get("manhattan") else None,
            loci=[LocusRecord(**one) for one in document.get("loci") or []],
        )
