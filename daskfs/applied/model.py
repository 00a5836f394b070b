"""The model of a run in one file: the encoding of raw columns, the selected features and their coefficients.

``model.json`` is in the run folder: JSON with its own checksum, written atomically. Nothing in it is executed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from daskfs import errors
from daskfs.applied.rows import AppliedRows, Columns, RowBlock
from daskfs.applied.stored_rows import StoredRows, store_given
from daskfs.errors import Caution, SelectionWarning, warn
from daskfs.feature_maps.registry import made_of
from daskfs.files import read_document, written_whole
from daskfs.losses import find_loss
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.predictor import LinearPredictor
from daskfs.selectors.shared.responses import mean_or_label, probabilities
from daskfs.version import __version__

DataError = errors.DataError.about("new-rows")
RunError = errors.RunError.about("new-rows")

MODEL = "model.json"
FORMAT_VERSION = 1
MAX_NBYTES = 1 << 30
_AGAIN = "run the pipeline again with this daskfs: `daskfs run PIPELINE.yaml --force`"
_ANEW = (
    "run the pipeline again with --force, which also replaces its store; for a run on a store without a source, ingest "
    "the source again with --force first"
)


@dataclass(frozen=True)
class TargetRecord:
    """The target: its name, the loss, and the codes and labels of a classifier."""

    name: str | None
    loss: str
    codes: list[float] | None
    """Class labels or codes used by the fit."""
    labels: list[str] | None
    """Labels of the codes 0, 1, ... of a text target."""


@dataclass(frozen=True)
class ColumnsRecord:
    """The columns of X that the model reads, ascending; sparse columns with ids are identified by id."""

    numbers: list[int]
    names: list[str]
    n_features: int
    dtype: str
    is_sparse: bool
    ids: list[int] | None


@dataclass(frozen=True)
class FitRecord:
    """A linear predictor of the features, and the losses that convert it to a mean or label, and to probabilities."""

    coef: list[Any]
    """A number for each feature; a list of numbers for several classes."""
    intercept: Any
    losses: list[str]


@dataclass(frozen=True)
class ModelRecord:
    """The content of model.json. Numbers are decimal fractions that read back bit-identically."""

    format_version: int
    created_with: str
    method: str
    target: TargetRecord
    features: list[str]
    """Names of the selected features, in the order of the columns of X or of the features of a map."""
    ranking: list[int]
    """Indices of `features` by decreasing importance."""
    columns: ColumnsRecord
    made: dict[str, Any] | None
    """Features that a map computes from the columns; null if the features are the columns."""
    fit: FitRecord
    refit: FitRecord | None
    """The fit of `refit: {by: ridge}` in a pipeline."""
    encoder: dict[str, Any]
    """Encoder of rows: its kind, and for tables the encoding of each column with learned values such as means."""
    sha256: str
    """Digest of all other keys."""


class Model:
    """The model of a run, which predicts new rows; see `daskfs.load`.

    Parameters
    ----------
    document : mapping
        Content of model.json: `ModelRecord`.
    refit : bool
        Use the fit of ``refit: {by: ridge}`` instead of the method's own.

    Attributes
    ----------
    features : list of str
        Names of the selected features, in the order of the columns of `transform`.
    ranking : list of str
        The same names, most important first.
    method, loss : str
    target : str or None
        Name of the target.
    classes : ndarray or None
        Labels of a classifier, in the order of the columns of `predict_proba`.

    Notes
    -----
    The prediction of a row depends only on that row. It is the same in a data frame, in a file, and in the run.
    """

    def __init__(self, document: Mapping[str, Any], *, refit: bool = False) -> None:
        self.document = dict(document)
        fit = document["refit"] if refit else document["fit"]
        if fit is None:
            raise RunError("the run has no common refit", "refit", "add refit: {by: ridge} and run the pipeline again")
        target, columns = document["target"], document["columns"]
        self.method, self.loss, self.target = document["method"], target["loss"], target["name"]
        self.features: list[str] = list(document["features"])
        self.ranking = [self.features[k] for k in document["ranking"]]
        self.columns = Columns(
            np.array(columns["numbers"], np.uint64 if max(columns["numbers"], default=0) >= 2**63 else np.int64),
            list(columns["names"]),
            columns["n_features"],
            columns["dtype"],
            columns["is_sparse"],
            None if columns["ids"] is None else np.array(columns["ids"], np.uint64),
        )
        coef = np.array(fit["coef"], np.float64)
        if not len(coef) and np.ndim(fit["intercept"]):
            coef = np.zeros((0, len(fit["intercept"])))
        intercept = np.array(fit["intercept"], np.float64) if np.ndim(fit["intercept"]) else float(fit["intercept"])
        made = None if document["made"] is None else made_of(document["made"])
        self.predictor = LinearPredictor(self.columns.numbers, coef, intercept, made)
        self._codes = None if target["codes"] is None else np.array(target["codes"], np.float64)
        self.classes = _labels(self._codes, target["labels"])
        self._response = mean_or_label(fit["losses"][0], self._codes)
        self._has_probabilities = self._codes is not None and find_loss(fit["losses"][1]).has_probabilities
        self._probabilities = probabilities(fit["losses"][1], 0 if self._codes is None else len(self._codes))

    @classmethod
    def of(
        cls,
        selector: BaseSelector,
        columns: Columns,
        encoder: Mapping[str, Any],
        *,
        target: str | None = None,
        labels: Any = None,
        refitted: BaseSelector | None = None,
    ) -> Model:
        """Return the model of a fitted selector.

        Parameters
        ----------
        selector : BaseSelector
        columns : Columns
            The columns of `selector.predictor()`.
        encoder : mapping
            Encoder of the training data.
        target : str, optional
            Name of the target.
        labels : sequence of str, optional
            Labels of the target's codes 0, 1, ...
        refitted : BaseSelector, optional
            The same selection with the coefficients of the common refit.
        """
        predictor = selector.predictor()
        made, names = predictor.made, columns.names
        features = names if made is None else made.names(names)
        numbers = predictor.columns if made is None else made.columns
        place = {int(j): k for k, j in enumerate(numbers)}
        is_classifier = find_loss(selector.loss_).is_classifier
        record: dict[str, Any] = {
            "format_version": FORMAT_VERSION,
            "created_with": f"daskfs {__version__}",
            "method": selector.method,
            "target": {
                "name": target,
                "loss": selector.loss_,
                "codes": [float(label) for label in selector.classes_] if is_classifier else None,
                "labels": None if labels is None or not is_classifier else [str(label) for label in labels],
            },
            "features": list(features),
            "ranking": [place[int(j)] for j in selector.selected_],
            "columns": {
                "numbers": [int(j) for j in columns.numbers],
                "names": list(names),
                "n_features": int(columns.n_features),
                "dtype": columns.dtype,
                "is_sparse": columns.is_sparse,
                "ids": None if columns.ids is None else [int(j) for j in columns.ids],
            },
            "made": None if made is None else made.to_document(),
            "fit": _fit_document(selector),
            "refit": None if refitted is None else _fit_document(refitted),
            "encoder": dict(encoder),
        }
        return cls({**record, "sha256": _digest(record)})

    def save(self, folder: Path) -> Path:
        """Write model.json into a folder atomically."""
        with written_whole(folder / MODEL) as path:
            path.write_text(json.dumps(self.document, ensure_ascii=False) + "\n", encoding="utf-8")
        return folder / MODEL

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, refit: bool = False) -> Model:
        """Load the model of a run.

        Raises
        ------
        RunError
            There is no run, or its model is missing (older versions), damaged, or of a newer format.
        """
        path = Path(folder) / MODEL
        if not path.exists():
            if (Path(folder) / "result.json").exists():
                raise RunError(f"no {MODEL}: the run or its store was made by an older daskfs", str(folder), _ANEW)
            if path.parent.with_name(path.parent.name + ".unfinished").is_dir():
                remedy = f"continue it with `daskfs run --resume {shlex.quote(str(folder))}`"
                raise RunError("the run is not finished", str(folder), remedy)
            raise RunError(f"no {MODEL} found", str(folder), "pass the folder of a finished run")
        try:
            document = read_document(path, MAX_NBYTES)
        except (OSError, ValueError) as fault:
            raise RunError(f"{MODEL} cannot be read: {fault}", str(folder), _AGAIN) from fault
        version = document.get("format_version") if isinstance(document, dict) else None
        if type(version) is not int:
            raise RunError(f"{MODEL} is not a model of daskfs", str(folder), "pass the folder of a finished run")
        if version > FORMAT_VERSION:
            problem = f"{MODEL} has format {version}, this daskfs reads up to {FORMAT_VERSION}"
            raise RunError(problem, str(folder), "upgrade daskfs")
        if document.get("sha256") != _digest({key: value for key, value in document.items() if key != "sha256"}):
            raise RunError(f"{MODEL} is damaged: its checksum does not match", str(folder), _AGAIN)
        return cls(document, refit=refit)

    def rows(self, data: Any, **how: Any) -> AppliedRows | StoredRows:
        """Return new rows, encoded like the training data; for `how` see `AppliedRows`."""
        if (store := store_given(data, how.get("kind"))) is not None:
            return StoredRows(self.document["encoder"], self.columns, self.document["target"]["labels"], store)
        labels = self.document["target"]["labels"]
        return AppliedRows(self.document["encoder"], self.columns, data, labels=labels, **how)

    def _blocks(self, data: Any) -> Iterator[RowBlock]:
        """Yield blocks of new rows, and warn of levels and variants that differ from the training data."""
        rows = self.rows(data)
        yield from rows.blocks()
        for note in rows.notes:
            if isinstance(note, Caution):
                warn(note, SelectionWarning)

    def linear_predictor(self, block: RowBlock) -> np.ndarray:
        """Return ``X @ coef + intercept`` of a block of rows."""
        if isinstance(block.X, np.ndarray):
            return np.asarray(self.predictor(block.X))
        found: np.ndarray = self.predictor.of_entries(*block.X, block.n_rows) + self.predictor.intercept
        return found

    def answers(self, linear_predictor: np.ndarray) -> np.ndarray:
        """Return the predicted mean or label from the linear predictor."""
        found = self._response(linear_predictor)
        if self._codes is None or self.classes is None:
            return np.asarray(found)
        return self.classes[np.searchsorted(self._codes, found)]  # type: ignore[no-any-return]

    def codes(self, linear_predictor: np.ndarray) -> np.ndarray:
        """Return the predicted mean, or the code of the predicted label."""
        return np.asarray(self._response(linear_predictor))

    @property
    def has_probabilities(self) -> bool:
        """Whether `predict_proba` is available."""
        return self._has_probabilities

    def probabilities(self, linear_predictor: np.ndarray) -> np.ndarray:
        """Return the probability of each class, shape (n_rows, n_classes)."""
        return np.asarray(self._probabilities(linear_predictor))

    def features_of(self, block: RowBlock) -> np.ndarray:
        """Return the selected features of a block of rows, float64 of shape (n_rows, n_features)."""
        X = block.dense(len(self.columns.numbers))
        return X if self.predictor.made is None else self.predictor.made.of(X)

    def transform(self, X: Any) -> Any:
        """Return the selected features of new rows.

        Parameters
        ----------
        X : data frame (pandas, polars, Arrow), array, sparse matrix, or path of a file
            Raw columns like the training data, in any order. Further columns and the target are allowed.

        Returns
        -------
        DataFrame, Table or ndarray of shape (n_rows, n_features)
            Features in the container type of `X`; NaN in rows that the fit would have dropped.
        """
        parts = [_voided(self.features_of(block), block.is_void) for block in self._blocks(X)]
        return _as_given(X, np.concatenate([np.empty((0, len(self.features))), *parts]), self.features)

    def predict(self, X: Any) -> np.ndarray:
        """Predict the target of new rows: its mean, or the most likely label.

        Parameters
        ----------
        X : as in `transform`

        Returns
        -------
        ndarray of shape (n_rows,)
            Predictions. Rows that the fit would have dropped have NaN, or None for text labels.
        """
        parts = [_voided(self.answers(self.linear_predictor(block)), block.is_void) for block in self._blocks(X)]
        return np.concatenate(parts) if parts else np.empty(0)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class, in the order of `classes`.

        Parameters
        ----------
        X : as in `transform`

        Raises
        ------
        DataError
            The loss has no probabilities.
        """
        if not self._has_probabilities:
            raise DataError(f"the {self.loss} loss has no probabilities", "predict_proba", "use predict")
        parts = [_voided(self.probabilities(self.linear_predictor(block)), block.is_void) for block in self._blocks(X)]
        return np.concatenate([np.empty((0, len(self._codes))), *parts])  # type: ignore[arg-type]

    def __repr__(self) -> str:
        names = ", ".join(self.ranking[:5]) + (", ..." if len(self.ranking) > 5 else "")
        return f"Model({self.method}: {len(self.features)} features{': ' + names if names else ''})"


def load(run: str | os.PathLike[str], *, refit: bool = False) -> Model:
    """Load the model of a run, to predict new rows.

    Parameters
    ----------
    run : path-like
        Folder of a finished run, or the subfolder of one of its selections.
    refit : bool
        Use the fit of ``refit: {by: ridge}`` instead of the method's own.

    Returns
    -------
    Model
        With ``transform``, ``predict``, ``predict_proba`` and ``features``.

    Raises
    ------
    RunError
        There is no run, or its model is missing (older versions), damaged, or of a newer format.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import daskfs
    >>> from daskfs.pipeline.config import load_pipeline
    >>> from daskfs.pipeline.run import run_pipeline
    >>> file = Path(tempfile.mkdtemp(), "wine.yaml")
    >>> _ = file.write_text('''version: 1
    ... name: wine
    ... source: {kind: sklearn, name: wine}
    ... select: {method: fgm, loss: logistic, n_features_to_select: 3}
    ... ''')
    >>> outcome = run_pipeline(load_pipeline(file))
    >>> model = daskfs.load(file.parent / "runs" / "wine")
    >>> len(model.features)
    3
    """
    return Model.load(run, refit=refit)


def _fit_document(selector: BaseSelector) -> dict[str, Any]:
    predictor = selector.predictor()
    intercept = predictor.intercept
    return {
        "coef": predictor.coef.tolist(),
        "intercept": intercept.tolist() if np.ndim(intercept) else float(intercept),
        "losses": list(selector.response_losses),
    }


def _labels(codes: np.ndarray | None, labels: list[str] | None) -> np.ndarray | None:
    """Return the class labels: texts if the codes have labels, else integers if possible."""
    if codes is None:
        return None
    if labels is not None:
        return np.array([labels[int(code)] for code in codes], dtype=object)
    return codes.astype(np.int64) if (codes == np.floor(codes)).all() else codes


def _voided(found: np.ndarray, is_void: np.ndarray) -> np.ndarray:
    """Return predictions with missing values in rows that the fit would have dropped."""
    if not is_void.any():
        return found
    if found.dtype == object:
        found[is_void] = None
        return found
    found = found.astype(np.float64)
    found[is_void] = np.nan
    return found


def _as_given(data: Any, values: np.ndarray, names: list[str]) -> Any:
    """Return features in the type of the data: a pandas or polars frame, an Arrow table, else an array."""
    module = type(data).__module__.partition(".")[0]
    if module == "pandas":
        return type(data)(values, columns=names, index=data.index)
    if module == "polars":
        return type(data)({name: values[:, k] for k, name in enumerate(names)})
    if module == "pyarrow":
        return type(data).from_pydict({name: values[:, k] for k, name in enumerate(names)})
    return values


def _digest(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
