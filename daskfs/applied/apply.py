"""Predict the rows of a file of any length in blocks, and write the predictions to a table."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from daskfs import errors, interrupts
from daskfs.applied.model import Model
from daskfs.applied.rows import RowBlock
from daskfs.files import written_whole
from daskfs.losses import find_loss
from daskfs.metrics import METRICS_OF_SCORES, PREDICTION_METRICS
from daskfs.selected_table import cell_of_text
from daskfs.watching.base import Progress, Silent

ConfigError = errors.ConfigError.about("new-rows")
DataError = errors.DataError.about("new-rows")
RunError = errors.RunError.about("new-rows")

PREDICTION = "prediction"
METRIC_ROWS = 5_000_000
"""Maximum number of rows whose targets and predictions are kept for the metrics."""
STANDARD_OUTPUT = "-"


@dataclass
class Applied:
    """Summary of the predictions, with metrics if the target is known.

    Attributes
    ----------
    output : str
    n_rows : int
    n_void : int
        Number of rows without a prediction, which the fit would have dropped because of a missing value.
    metrics : dict of float
        Empty if the data have no target.
    notes : list of str
        Notes on unused columns and unseen categories.
    """

    output: str
    n_rows: int = 0
    n_void: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def to_text(self) -> str:
        """Return the summary as text."""
        where = "" if self.output == STANDARD_OUTPUT else f", in {self.output}"
        lines = [f"{self.n_rows:,} rows predicted{where}", *(f"  {note}" for note in self.notes)]
        if self.metrics:
            lines.append("on these rows: " + ", ".join(f"{name} {value:.6g}" for name, value in self.metrics.items()))
        return "\n".join(lines)


def apply(
    model: Model,
    data: Any,
    output: str | os.PathLike[str],
    *,
    features: bool = False,
    force: bool = False,
    progress: Progress | None = None,
    **how: Any,
) -> Applied:
    """Predict the target of new rows in bounded memory, and write a table with a row for each.

    Parameters
    ----------
    model : Model
    data : path, URL or list of them, data frame, array
    output : path-like
        File that ends in .csv or .parquet, written atomically; "-": CSV on standard output.
    features : bool
        Whether to also write the selected features.
    force : bool
        Whether to replace an existing file.
    progress : Progress, optional
    **how
        See `daskfs.applied.rows.AppliedRows`: kind, options, kept, unseen.

    Returns
    -------
    Applied

    Raises
    ------
    SchemaError, SourceError, DataError
        A column is missing or a value cannot be used; the message says where.
    RunError
        The file exists or cannot be written.
    """
    applied, progress = Applied(str(output)), progress or Silent()
    measured = _Measured(model)
    with _written(output, force=force) as write:
        rows = model.rows(data, **how)
        if rows.extra:
            more = f" and {len(rows.extra) - 8} more" if len(rows.extra) > 8 else ""
            shown = ", ".join(map(repr, rows.extra[:8]))
            applied.notes.append(f"ignored columns that the training data did not have: {shown}{more}")
        progress.start("apply", rows.estimate_n_samples())
        for block in rows.blocks():
            interrupts.check()
            predictor = model.linear_predictor(block)
            write(_table(model, block, predictor, features=features))
            measured.update(block, predictor)
            applied.n_rows += block.n_rows
            applied.n_void += int(block.is_void.sum())
            progress.advance(block.n_rows)
        progress.finish()
        if not applied.n_rows:
            raise DataError("expected rows, found none", str(data), "check the file")
    if applied.n_void:
        problem = f"{applied.n_void:,} rows have no prediction: they have missing values for which the fit dropped rows"
        applied.notes.append(problem)
    applied.notes += [note for note in rows.notes if note not in applied.notes]
    applied.metrics = measured.metrics()
    applied.notes += measured.notes
    return applied


def _table(model: Model, block: RowBlock, predictor: np.ndarray, *, features: bool) -> pa.Table:
    """Return the output table of a block of rows."""
    is_void = block.is_void if block.is_void.any() else None
    columns: dict[str, Any] = dict(block.handed_on)
    columns[_free(PREDICTION, columns)] = pa.array(model.answers(predictor), mask=is_void)
    if model.has_probabilities and model.classes is not None:
        for label, values in zip(model.classes, model.probabilities(predictor).T, strict=True):
            columns[_free(f"probability_{label}", columns)] = pa.array(values, mask=is_void)
    if features:
        for name, values in zip(model.features, model.features_of(block).T, strict=True):
            columns[_free(name, columns)] = pa.array(values, mask=is_void)
    return pa.table(columns)


def _free(name: str, taken: Any) -> str:
    """Return the name, with underscores appended until it is unused."""
    while name in taken:
        name += "_"
    return name


class _Measured:
    """Targets and predictions of the first rows that have a target."""

    def __init__(self, model: Model) -> None:
        self._model, self._n_kept, self.notes = model, 0, list[str]()
        self._kept: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def update(self, block: RowBlock, predictor: np.ndarray) -> None:
        """Add a block of rows."""
        rows = np.flatnonzero(np.isfinite(block.y) & ~block.is_void)[: METRIC_ROWS - self._n_kept]
        if len(rows):
            self._kept.append((block.y[rows], predictor[rows], block.weight[rows]))
            self._n_kept += len(rows)

    def metrics(self) -> dict[str, float]:
        """Return the default metrics of the loss; empty without targets."""
        if not self._n_kept:
            return {}
        y, predictor, weight = (np.concatenate(part) for part in zip(*self._kept, strict=True))
        if self._n_kept == METRIC_ROWS:
            self.notes.append(f"metrics are computed on the first {METRIC_ROWS:,} rows")
        loss, answers = (
            find_loss("multinomial" if predictor.ndim > 1 else self._model.loss),
            self._model.codes(predictor),
        )
        found = {}
        for name in loss.default_metrics:
            try:
                scores = predictor if name in METRICS_OF_SCORES else answers
                found[name] = PREDICTION_METRICS[name](y, scores, weight)
            except errors.DataError as fault:  # for example rows of one class only
                self.notes.append(str(fault))
        return found


@contextmanager
def _written(output: str | os.PathLike[str], *, force: bool) -> Iterator[Any]:
    """Yield a function that appends tables to the output."""
    if str(output) == STANDARD_OUTPUT:
        with _CsvWriter(sys.stdout.buffer) as writer:
            yield writer.write
        return
    path = Path(output)
    if path.suffix not in (".csv", ".parquet", ".pq"):
        raise ConfigError(f"expected a file that ends in .csv or .parquet, found {path.name!r}", "--output")
    if path.exists() and not force:
        raise RunError("the file already exists", str(path), "choose another name, or replace it with --force")
    if not path.parent.is_dir():
        raise RunError("no such folder", str(path.parent), "create it first")
    try:
        with written_whole(path) as temporary:
            kind: Any = _CsvWriter if path.suffix == ".csv" else _ParquetWriter
            with kind(temporary) as writer:
                yield writer.write
    except OSError as fault:
        raise RunError(
            f"cannot be written: {fault.strerror}", str(path), "free disk space, or write elsewhere"
        ) from None


class _ParquetWriter:
    """Writer of consecutive Parquet row groups."""

    def __init__(self, path: Any) -> None:
        self._path = path
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> _ParquetWriter:
        return self

    def write(self, table: pa.Table) -> None:
        """Append rows; the first ones determine the types."""
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, table.schema)
        self._writer.write_table(table.cast(self._writer.schema))

    def __exit__(self, *fault: object) -> None:
        if self._writer is not None:
            self._writer.close()


class _CsvWriter(_ParquetWriter):
    """Writer of CSV whose texts no spreadsheet executes as formulas."""

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        table = table.rename_columns([cell_of_text(name) for name in table.column_names])
        for k, name in enumerate(table.column_names):
            if pa.types.is_string(table[name].type):
                table = table.set_column(k, name, _harmless(table[name]))
        if self._writer is None:
            self._writer = arrow_csv.CSVWriter(self._path, table.schema)
        self._writer.write_table(table.cast(self._writer_schema(table)))

    def _writer_schema(self, table: pa.Table) -> pa.Schema:
        self._schema = getattr(self, "_schema", table.schema)
        return self._schema


def _harmless(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    distinct = texts.combine_chunks().dictionary_encode()
    known = [_cell(text) for text in distinct.dictionary.to_pylist()]
    changed = pa.DictionaryArray.from_arrays(distinct.indices, pa.array(known, pa.string()))
    return pa.chunked_array([changed.dictionary_decode()])


def _cell(text: str) -> str:
    """Escape a text that a spreadsheet would execute as a formula. Numbers, also signed ones, are unchanged.

    Examples
    --------
    >>> _cell("-50000"), _cell("=cmd()")
    ('-50000', "'=cmd()")
    """
    try:
        float(text)
    except ValueError:
        return cell_of_text(text)
    return text


def spooled(kind: str | None, folder: str | os.PathLike[str]) -> Path:
    """Write standard input to a file in a folder and return its path, because sources read their data repeatedly."""
    piece = sys.stdin.buffer.read(1 << 20)
    ending = ("jsonl" if piece.lstrip()[:1] == b"{" else "csv") if kind == "text" else kind or "csv"
    path = Path(folder) / f"standard-input.{ending}"
    with path.open("wb") as file:
        while piece:
            interrupts.check()
            file.write(piece)
            piece = sys.stdin.buffer.read(1 << 20)
    return path
