"""The result of a selection: the features, their coefficients and scores, how they were found and at what cost."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from daskfs import errors
from daskfs.cells import card, digits
from daskfs.cells import table as table_of
from daskfs.errors import RunError, did_you_mean
from daskfs.evidence import EvidenceRecord
from daskfs.files import written_whole
from daskfs.losses import LOSSES
from daskfs.selected_table import (
    TABLE_COLUMNS,
    Parent,
    SelectedFeature,
    SelectedMadeFeature,
    as_json_types,
    columns_of_parents,
    greatest_scores,
    parents_in,
    text_of_cell,
    without_formulas,
)
from daskfs.version import __version__

if TYPE_CHECKING:
    import pandas as pd

    from daskfs.figures import Effect, Figure, Score
    from daskfs.matrix.names import Names

ConfigError = errors.ConfigError.about("run-folders")

FORMAT_VERSION = 1
_NONE_SELECTED = '\n  "selected": []'
_ROWS_WRITTEN, _SCORES_WRITTEN = 10_000, 1 << 17
_ROWS_SHOWN = 20
SCORE, CLUMPS = "score.txt", "clumps.csv"


@dataclass(frozen=True)
class RefitRecord:
    """The refit on the selected features that a pipeline requested; a number for each class fitted against the rest."""

    loss: str
    ridge: list[float]
    intercept: list[float]
    coef: list[list[float]]
    """In the order of the result's table, on the scale of the data."""


@dataclass(frozen=True)
class ResultRecord:
    """The content of result.json; sizes in bytes, times in seconds, undefined numbers as null."""

    format_version: int
    created_with: str
    method: str
    score_kind: str
    history_kind: str
    n_samples: int
    n_features: int
    n_selected: int
    intercept: float | None
    selected: list[SelectedFeature] | list[SelectedMadeFeature]
    parameters: dict[str, Any]
    metrics: dict[str, float | None]
    store_digest: str | None
    memory: dict[str, Any]
    communication: dict[str, int]
    time: dict[str, float]
    notes: list[str]
    refit: RefitRecord | None = None
    evidence: EvidenceRecord | None = None
    further_columns: dict[str, str] = field(default_factory=dict)
    """Columns of selected.csv in addition to those of `selected`, with their dtypes; absent from old results."""


def _empty_table() -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame()


@dataclass
class SelectionResult:
    """The result of one selection.

    Parameters
    ----------
    method : str
        Name of the selector, as in a pipeline file: ``message``.
    table : DataFrame
        The selected features, most important first: rank, index, name, coef, score (see `selection_table`), and further
        columns of the method; with a feature map, what the features are made of (see `columns_of_parents`).
    intercept : float
        Intercept of the model refitted on the selected features.
    parameters : dict
        Parameters of the selector, with default values and automatic choices resolved.
    n_samples, n_features : int
        Shape of the matrix that the selector read.
    history : DataFrame
        Course of the method; for MESSAGE the GIC path of the first subset.
    scores : ndarray of shape (n_features,), optional
        Scores of every feature, selected or not; NaN for a feature without a score.
    feature_names : ndarray of shape (n_features,), or another that is indexed like one, optional
        Names of every feature. For a store with more than a million columns they are read on demand, and are not part
        of a pickled result.
    store_digest : str, optional
        Identity of the feature store.
    metrics : dict of float
        Metrics on the test rows.
    memory : dict
        In bytes, if known: ``limit_nbytes``, ``promised_nbytes`` and ``measured_nbytes``, each by process ("client",
        "worker"; for limits also "task"), and ``held_nbytes`` by what is held ("members", "model").
    communication : dict of int
        Bytes that the tasks of each step returned.
    time : dict of float
        Seconds of each step.
    notes : list of str
        Facts for the reader: rows dropped, columns not estimable, choices made.
    score_kind : str
        Meaning of the scores: "inclusion frequency", "loss increase", "coefficient", "standardised coefficient" or
        "weight".
    history_kind : str
        Kind of history, which decides how a report draws it: "criterion path", "passes" and others.
    refit : RefitRecord, optional
        With ``refit: {by: ridge}`` in a pipeline, the refit in addition to the method's own fit; its metrics begin with
        ``refit_``.
    evidence : EvidenceRecord, optional
        What the report of a run shows in addition: the data, the selected columns, the test rows.
    clumps : DataFrame, optional
        Of genotypes, the variants that are correlated with the selected ones: see `daskfs.examine_variants`.

    Examples
    --------
    >>> from daskfs.selected_table import selection_table
    >>> table = selection_table([7, 2], [1.5, -0.5], [1.0, 0.8])
    >>> SelectionResult("message", table, 0.25, {}, n_samples=100, n_features=10)
    SelectionResult(message: 2 of 10 features from 100 samples: x7, x2)
    """

    method: str
    table: pd.DataFrame
    intercept: float
    parameters: dict[str, Any]
    n_samples: int
    n_features: int
    history: pd.DataFrame = field(default_factory=_empty_table)
    scores: np.ndarray | None = None
    feature_names: np.ndarray | Names | None = None
    store_digest: str | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    communication: dict[str, int] = field(default_factory=dict)
    time: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    score_kind: str = "coefficient"
    history_kind: str = ""
    refit: RefitRecord | None = None
    evidence: EvidenceRecord | None = None
    clumps: pd.DataFrame | None = None

    def to_record(self, n_selected: int | None = None) -> ResultRecord:
        """Return the content of result.json, with the first `n_selected` features (all by default)."""
        return ResultRecord(
            format_version=FORMAT_VERSION,
            created_with=f"daskfs {__version__}",
            method=self.method,
            score_kind=self.score_kind,
            history_kind=self.history_kind,
            n_samples=int(self.n_samples),
            n_features=int(self.n_features),
            n_selected=len(self.table),
            intercept=as_json_types(self.intercept),
            selected=self._selected(0, len(self.table) if n_selected is None else n_selected),
            parameters=as_json_types(self.parameters),
            metrics=as_json_types(self.metrics),
            store_digest=self.store_digest,
            memory=as_json_types(self.memory),
            communication=as_json_types(self.communication),
            time=as_json_types(self.time),
            notes=[str(note) for note in self.notes],
            refit=self.refit,
            evidence=None if self.evidence is None else EvidenceRecord.of(as_json_types(asdict(self.evidence))),
            further_columns={
                str(name): str(dtype) for name, dtype in self.table.dtypes.items() if name not in TABLE_COLUMNS
            },
        )

    def _selected(self, start: int, stop: int) -> list[SelectedFeature] | list[SelectedMadeFeature]:
        table = self.table.iloc[start:stop]
        rows = table[list(TABLE_COLUMNS)].itertuples(index=False, name=None)
        plain = [
            SelectedFeature(int(rank), int(index), str(name), as_json_types(coef), as_json_types(score))
            for rank, index, name, coef, score in rows
        ]
        if not self.has_parents:
            return plain
        return [
            SelectedMadeFeature(**vars(feature), first_score=as_json_types(row["first_score"]), parents=parents_in(row))
            for feature, row in zip(plain, table.to_dict("records"), strict=True)
        ]

    @property
    def has_parents(self) -> bool:
        """Whether the table has the columns that its features are made of."""
        return "first_score" in self.table

    def __getstate__(self) -> dict[str, Any]:
        """Leave out names that must be read from a store, since the pickled result may be used without it."""
        has_all = self.feature_names is None or isinstance(self.feature_names, np.ndarray)
        return self.__dict__ | ({} if has_all else {"feature_names": None})

    def shown_table(self, n_features: int) -> pd.DataFrame:
        """Return the first lines of the table for display, with what a feature is made of in one column.

        Examples
        --------
        >>> from daskfs.selected_table import Parent, selection_table
        >>> table = selection_table([3], [1.5], [1.0], np.array(["a", "b", "a^2", "a * b"]))
        >>> made_of = columns_of_parents([0.31], [[Parent("a", 0.012, 7), Parent("b", 0.002, 19)]])
        >>> result = SelectionResult("fgm", table.assign(**made_of), 0.0, {}, n_samples=100, n_features=5)
        >>> print(result.shown_table(1).to_string(index=False))
         rank  index  name  coef  score  first_score              of columns (score, rank)
            1      3 a * b   1.5    1.0         0.31 a (0.012, rank 7), b (0.002, rank 19)
        """
        shown = self.table.head(n_features)
        if not self.has_parents:
            return shown
        made_of = [
            ", ".join(f"{of.name} ({math.nan if of.score is None else of.score:.3g}, rank {of.rank:,})" for of in found)
            for found in map(parents_in, shown.to_dict("records"))
        ]
        kept = [name for name in shown.columns if not name.startswith("parent_")]
        return shown[kept].assign(**{"of columns (score, rank)": made_of})

    def _written_record(self) -> Iterator[str]:
        """Yield the text of result.json in parts, so that millions of features are never in memory together."""
        before, after = _as_json(asdict(self.to_record(0))).split(_NONE_SELECTED)
        yield before + _NONE_SELECTED[:-1]
        for start in range(0, len(self.table), _ROWS_WRITTEN):
            rows = [asdict(feature) for feature in self._selected(start, start + _ROWS_WRITTEN)]
            yield ("," if start else "") + _as_json([rows])[len("[\n  [") : -len("\n  ]\n]")]
        yield ("\n  ]" if len(self.table) else "]") + after + "\n"

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write result.json, selected.csv, history.parquet and, if there are any scores, scores.parquet.

        A result of genotypes has in addition clumps.csv, and score.txt, score.afreq and score_covariates.txt for
        ``plink2 --score``. Each file is written under a temporary name and renamed, result.json last.

        Parameters
        ----------
        folder : path-like
            Created if it does not exist.
        overwrite : bool, default=False
            Replace an existing result in the folder.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        RunError
            A result already exists in the folder, or it cannot be written.
        """
        folder = Path(folder)
        if (folder / "result.json").exists() and not overwrite:
            raise RunError(
                "a result already exists in this folder", str(folder), "choose another folder, or pass overwrite=True"
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with written_whole(folder / "selected.csv") as path:
                table = without_formulas(self.table)
                has_returns = any(
                    "\r" in str(name) for name in table["name"]
                )  # pandas writes these unquoted, so that they end lines
                table.to_csv(path, index=False, quoting=csv.QUOTE_NONNUMERIC if has_returns else csv.QUOTE_MINIMAL)
            with written_whole(folder / "history.parquet") as path:
                self.history.to_parquet(path, index=False)
            if self.scores is not None:
                with written_whole(folder / "scores.parquet") as path:
                    self._write_every_feature(path)
            for name, frame in self._plink_files().items():
                with written_whole(folder / name) as path:
                    frame.to_csv(path, index=False, sep="\t")
            if self.clumps is not None:
                with written_whole(folder / CLUMPS) as path:
                    without_formulas(self.clumps).to_csv(path, index=False)
            with written_whole(folder / "result.json") as path, path.open("w", encoding="utf-8") as file:
                file.writelines(self._written_record())
        except OSError as fault:
            remedy = "free disk space or fix the permissions"
            raise RunError(f"cannot write the result: {fault}", str(folder), remedy) from fault
        return folder

    def _plink_files(self) -> dict[str, pd.DataFrame]:
        """Return the tables of ``plink2 --score`` and ``--read-freq`` by file; none if there is no single score."""
        import pandas as pd

        if not {"effect_allele", "allele_frequency"} <= set(self.table.columns) or not math.isfinite(self.intercept):
            return {}
        is_variant = self.table["allele_frequency"].notna()
        variants, others = self.table[is_variant], self.table[~is_variant]
        names = ["(intercept)", *others["name"]]
        return {
            SCORE: pd.DataFrame({"ID": variants["name"], "A1": variants["effect_allele"], "BETA": variants["coef"]}),
            "score.afreq": pd.DataFrame(
                {
                    "#CHROM": variants.get("chromosome", "0"),
                    "ID": variants["name"],
                    "REF": variants["other_allele"],
                    "ALT": variants["effect_allele"],
                    "ALT_FREQS": variants["allele_frequency"],
                }
            ),
            "score_covariates.txt": pd.DataFrame({"NAME": names, "BETA": [self.intercept, *others["coef"]]}),
        }

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> SelectionResult:
        """Read a result written by `save`.

        Raises
        ------
        RunError
            There is no result, it is damaged, or it has a newer format.
        """
        import pandas as pd

        folder = Path(folder)
        record = _read_record(folder / "result.json")
        try:
            table = pd.DataFrame(record["selected"], columns=list(TABLE_COLUMNS))
            table = table.astype({"rank": "int64", "index": "int64", "name": "str", "coef": "f8", "score": "f8"})
            known = record.get("further_columns") or {}
            for name, values in _further_columns(folder / "selected.csv", len(table), known).items():
                table[name] = values
            if "parents" in (record["selected"] or [{}])[0]:
                lines = record["selected"]
                parents = [[Parent(**parent) for parent in line["parents"]] for line in lines]
                for name, values in columns_of_parents([line["first_score"] for line in lines], parents).items():
                    table[name] = values
            history = pd.read_parquet(folder / "history.parquet")
            every = folder / "scores.parquet"
            frame = pd.read_parquet(every) if every.exists() else None
            clumps = folder / CLUMPS
            return cls(
                method=record["method"],
                table=table,
                intercept=math.nan if record["intercept"] is None else record["intercept"],
                parameters=record["parameters"],
                n_samples=record["n_samples"],
                n_features=record["n_features"],
                history=history,
                scores=None if frame is None else frame["score"].to_numpy(),
                feature_names=None if frame is None or "name" not in frame else frame["name"].to_numpy(dtype=object),
                store_digest=record["store_digest"],
                metrics={k: math.nan if v is None else v for k, v in record["metrics"].items()},
                memory=record["memory"],
                communication=record.get("communication", {}),
                time=record["time"],
                notes=record["notes"],
                score_kind=record.get("score_kind") or _kinds_before(record["method"])[0],
                history_kind=record.get("history_kind", _kinds_before(record["method"])[1]),
                refit=RefitRecord(**record["refit"]) if record.get("refit") else None,
                evidence=EvidenceRecord.of(record["evidence"]) if record.get("evidence") else None,
                clumps=_read_clumps(clumps) if clumps.exists() else None,
            )
        except (KeyError, TypeError, ValueError, OSError) as fault:
            raise RunError(f"damaged result: {fault!r}", str(folder), "run the pipeline again") from fault

    def plot(self, n_features: int = 30, ax: Any = None, kind: str | None = None) -> Any:
        """Draw the result.

        Parameters
        ----------
        n_features : int, default=30
            Largest number of bars.
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure.
        kind : {"effects", "coefficients", "scores", "history", "calibration", "residuals", "sizes"}, optional
            effects, coefficients: bars of the selected features, most important on top, per standard deviation or per
            unit, with 95 % intervals if the result has them. scores: the largest scores, also of features that were not
            selected. history: the course of the fit, such as the criterion, the objective or the metric against the
            number of features. For test rows, calibration: the target against the prediction; residuals; sizes: a
            metric against the number of features. For genotypes, manhattan: variants along the genome; locus_1, ...,
            locus_10: r2 around one of the first selected variants. By default the first of these that the result has;
            see `figures`.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        ConfigError
            The kind does not exist, or the result does not have the data for it.
        """
        if isinstance(n_features, str):
            raise ConfigError(f"expected a number, found {n_features!r}", "n_features", f"plot(kind={n_features!r})")
        if kind is not None and kind not in KINDS:
            raise ConfigError(f"expected one of {', '.join(KINDS)}, found {kind!r}{did_you_mean(kind, KINDS)}", "kind")
        found = self.figures(n_features)
        if not found or (kind is not None and kind not in found):
            problem = "there is nothing to draw" if kind is None else f"this result has no {kind} to draw"
            remedy = f"choose one of {', '.join(found)}" if found else "select features first"
            raise ConfigError(problem, f"{self.method}.plot", remedy)
        return found[kind or next(iter(found))].on(ax)

    def figures(self, n_features: int = 30) -> dict[str, Figure]:
        """Return the figures that `plot` can draw, by kind; reports have the same figures.

        Parameters
        ----------
        n_features : int, default=30
            Largest number of bars.

        Returns
        -------
        dict of str to daskfs.figures.Figure
            Each has ``title``, ``text`` (a description), ``svg``, and ``on(axes)``, which draws it.
        """
        from daskfs.figures import HISTORIES, effects, history_figure, locus, manhattan, quality_figures, scores

        found: dict[str, Figure] = {}
        if bars := self._effects(n_features):
            found["effects"] = effects(bars, "standard deviation", self.unit)
        if bars := self._effects(n_features, are_scaled=False):
            found["coefficients"] = effects(bars, "unit", self.unit)
        best = self._greatest(n_features)
        if len({one.value for one in best}) > 1:
            is_compared = self.score_kind in ("inclusion frequency", "knockoff statistic")
            half = 0.5 if self.score_kind == "inclusion frequency" else None
            found["scores"] = scores(
                best, self.score_kind, self.parameters.get("threshold", half) if is_compared else None
            )
        if self.history_kind in HISTORIES and (of_history := history_figure(self.history, self.history_kind)):
            found["history"] = of_history
        if self.evidence is not None and self.evidence.test is not None:
            found |= quality_figures(self.evidence.test, self.evidence.data.target)
        if self.evidence is not None and self.evidence.manhattan is not None:
            found["manhattan"] = manhattan(self.evidence.manhattan)
        for number, one in enumerate(() if self.evidence is None else self.evidence.loci, 1):
            found[f"locus_{number}"] = locus(one)
        return found

    @property
    def unit(self) -> str:
        """What a coefficient changes: the target, by name, or the log-odds of a class."""
        test = None if self.evidence is None else self.evidence.test
        if self.are_norms:
            return "log-odds (norm over the classes)"
        loss = LOSSES.get(str(self.parameters.get("loss")))
        if (loss is not None and loss.has_probabilities) or (test is not None and test.labels):
            return "log-odds"
        return (self.evidence.data.target if self.evidence is not None else "") or "the prediction"

    @property
    def class_of_effects(self) -> str:
        """With two classes, the one that a positive coefficient makes more likely; "" if it is not known."""
        labels = [] if self.evidence is None or self.evidence.test is None else self.evidence.test.labels
        return str(labels[1]) if len(labels) == 2 else ""

    @property
    def are_norms(self) -> bool:
        """Whether the table's coefficients are norms over several classes, which have no sign."""
        of_classes = any("norms over the classes" in note for note in self.notes) or "class" in self.table
        return of_classes and len(self.table) > 0 and bool((self.table["coef"] >= 0).all())

    def _effects(self, n_features: int, *, are_scaled: bool = True) -> list[Effect]:
        """Return the bars of the first features: coefficients with intervals, per standard deviation or unit."""
        from daskfs.figures import Effect

        first = self.table.head(n_features)
        scale = np.ones(len(first))
        if are_scaled:
            known = [] if self.evidence is None else self.evidence.features[: len(first)]
            scale = np.full(len(first), np.nan)
            scale[: len(known)] = [math.nan if one.deviation is None else one.deviation for one in known]
        ends = (first[name] if name in first else np.full(len(first), np.nan) for name in ("lower", "upper"))
        columns = [np.asarray(column, dtype=float) * scale for column in (first["coef"], *ends)] if len(first) else []
        bars = map(Effect, first["name"].astype(str), *(column.tolist() for column in columns)) if columns else ()
        return [one for one in bars if math.isfinite(one.value)]

    def _greatest(self, n_features: int) -> list[Score]:
        """Return the bars of the largest scores, of all features if they are known."""
        from daskfs.figures import Score

        if self.scores is None:
            first = self.table.head(n_features)
            known = [
                Score(str(name), float(score), True) for name, score in zip(first["name"], first["score"], strict=True)
            ]
            return sorted((one for one in known if math.isfinite(one.value)), key=lambda one: -one.value)
        order, names = greatest_scores(self.scores, n_features), self.feature_names
        named = [] if names is None else [str(name) for name in names[order]]
        chosen = dict(zip(self.table["index"], self.table["name"], strict=True)) if len(self.table) else {}
        if names is None:  # the table has the names of the selected features
            named = [str(chosen.get(j, f"x{j}")) for j in order.tolist()]
        values = np.asarray(self.scores[order], dtype=float).tolist()
        return [Score(name, value, j in chosen) for name, value, j in zip(named, values, order.tolist(), strict=True)]

    def _write_every_feature(self, path: Path) -> None:
        """Write scores.parquet in parts, so that millions of names are never in memory together."""
        import pyarrow
        from pyarrow.parquet import ParquetWriter

        first = pyarrow.Table.from_pandas(self._some_features(0, 0), preserve_index=False)
        with ParquetWriter(path, first.schema) as writer:
            for start in range(0, self.n_features, _SCORES_WRITTEN):
                part = self._some_features(start, min(start + _SCORES_WRITTEN, self.n_features))
                writer.write_table(pyarrow.Table.from_pandas(part, schema=first.schema, preserve_index=False))

    def _some_features(self, start: int, stop: int) -> pd.DataFrame:
        import pandas as pd

        columns: dict[str, Any] = {"index": np.arange(start, stop, dtype=np.int64)}
        if self.feature_names is not None:
            columns["name"] = pd.Series([str(name) for name in self.feature_names[start:stop]], dtype="str")
        assert self.scores is not None
        return pd.DataFrame({**columns, "score": np.asarray(self.scores[start:stop], dtype=np.float64)})

    def __repr__(self) -> str:
        names = ", ".join(self.table["name"].head(5)) + (", ..." if len(self.table) > 5 else "")
        count = f"{len(self.table)} of {self.n_features} features from {self.n_samples} samples"
        return f"SelectionResult({self.method}: {count}{': ' + names if names else ''})"

    def _repr_html_(self) -> str:
        shown = self.shown_table(_ROWS_SHOWN)
        rows = [
            [digits(value) if isinstance(value, float) else str(value) for value in row] for row in shown.to_numpy()
        ]
        numbers = [
            k for k, name in enumerate(shown.columns) if name in ("rank", "index", "coef", "score", "first_score")
        ]
        facts = {name.replace("_", " "): digits(value) for name, value in self.metrics.items()}
        if self.evidence is not None:
            facts = {"target": self.evidence.data.target} | facts | {"look at": "; ".join(self.evidence.warnings)}
        more = f"<p>and {len(self.table) - _ROWS_SHOWN:,} more</p>" if len(self.table) > _ROWS_SHOWN else ""
        title = f"{self.method}: {len(self.table):,} of {self.n_features:,} features, {self.n_samples:,} samples"
        return card(title, facts, table_of([str(name) for name in shown.columns], rows, numbers), more)


KINDS: tuple[str, ...] = ("effects", "coefficients", "scores", "history", "calibration", "residuals", "sizes")
KINDS += ("manhattan", *(f"locus_{number}" for number in range(1, 11)))
"""Kinds of plots."""


def _further_columns(path: Path, n_rows: int, dtypes: Mapping[str, str]) -> dict[str, pd.Series]:
    """Return the further columns of a method's table; nothing if the file is missing or does not match."""
    import pandas as pd

    try:
        table = pd.read_csv(path, dtype=dict(dtypes), keep_default_na=False, na_values=[""])
    except (OSError, ValueError):
        return {}
    more = [str(name) for name in table.columns if name not in TABLE_COLUMNS]
    if len(table) != n_rows:
        return {}
    texts = {name: table[name] for name in more if not pd.api.types.is_numeric_dtype(table[name])}
    return {name: table[name] for name in more} | {
        name: column.map(text_of_cell, na_action="ignore") for name, column in texts.items()
    }


def _read_clumps(path: Path) -> pd.DataFrame:
    import pandas as pd

    texts = {"selected": "str", "variant": "str", "chromosome": "str"}
    table = pd.read_csv(path, dtype=texts, keep_default_na=False, na_values={"r2": [""], "marginal_p_value": [""]})
    return table.assign(**{name: table[name].map(text_of_cell).astype("str") for name in texts})


def _kinds_before(method: str) -> tuple[str, str]:
    """Return the kinds of scores and history for results that were saved before these were part of the file."""
    if method in ("message", "averaging", "median", "bolasso"):
        return "inclusion frequency", "criterion path"
    if method in ("mission", "iht_sgd", "batch_iht", "feature_hashing"):
        return "weight", "rows"
    return {
        "online_substitution": ("loss increase", "blocks of columns"),
        "async_online_substitution": ("loss increase", "pushes"),
        "fgm": ("standardised coefficient", "passes"),
        "active_set": ("standardised coefficient", "passes"),
        "full_data": ("coefficient", "criterion path"),
    }.get(method, ("coefficient", ""))


def _read_record(path: Path) -> dict[str, Any]:
    folder = str(path.parent)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunError("no result.json here", folder, "name the folder of a finished run") from None
    except (OSError, ValueError) as fault:
        raise RunError(f"result.json cannot be read: {fault}", folder, "run the pipeline again") from fault
    version = record.get("format_version") if isinstance(record, dict) else None
    if not isinstance(version, int):
        raise RunError("result.json is not a result of daskfs", folder, "name the folder of a finished run")
    if version > FORMAT_VERSION:
        problem = f"format {version} is newer than this daskfs reads ({FORMAT_VERSION})"
        raise RunError(problem, folder, "upgrade daskfs")
    return record


def _as_json(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
