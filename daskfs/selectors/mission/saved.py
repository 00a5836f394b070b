"""Files of models that learn from streams, for continuing in another process: arrays and JSON, no pickle."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from daskfs import errors
from daskfs.files import written_whole
from daskfs.matrix.arrays import as_names
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows
from daskfs.matrix.names import Names
from daskfs.selectors.mission.configuration import Configuration
from daskfs.selectors.mission.entries import MOST_IDS
from daskfs.selectors.mission.feature_names import FeatureNames
from daskfs.selectors.mission.fit import History, Line, MissionFit
from daskfs.selectors.mission.model import ModelShape, ModelState
from daskfs.selectors.mission.reading import Cuts
from daskfs.selectors.mission.stream import Stream
from daskfs.selectors.mission.survey import Survey, TargetEncoding
from daskfs.selectors.shared.budget import DataShape

DataError = errors.DataError.about("streams")
RunError = errors.RunError.about("sketches")

FORMAT_VERSION = 2
HASH_NAME = "daskfs-mix64-1"
"""Name of the frozen hash of `daskfs.kernels.sketch.count_sketch`; another hash would get another name."""


def arrays_of(stream: Stream, **more: Any) -> dict[str, Any]:
    """Return the complete state of a stream as arrays.

    Parameters
    ----------
    stream : Stream
    **more
        Further values that JSON can represent: the selector's parameters.
    """
    fit, names = stream.fit, stream.names
    config, data, target = fit.config, fit.config.data, fit.config.target
    of_sgd = {
        "rate": config.rate,
        "period": config.period,
        "step_limit": config.step_limit,
        "intercept_ratio": config.intercept_rate,
        "half_life": config.half_life,
        "piece_rows": config.cuts.piece_rows,
    }
    notes = more | {
        "data": {"n_samples": data.n_samples, "n_features": data.n_features, "dtype": str(data.dtype)},
        "n_outputs": config.model.n_outputs,
        "always": list(config.model.always),
        "nnz_per_row": config.nnz_per_row,
        "sgd": of_sgd,
        "mean_weight": target.mean_weight,
        "n_samples": fit.n_samples,
        "history": [list(map(float, line)) for line in fit.history.lines],
        "progressive": sorted(fit.history.progressive.items()),
        "names": None if names is None else asdict(names),
    }
    arrays = {
        "format_version": np.int64(FORMAT_VERSION),
        "hash": np.str_(HASH_NAME),
        "notes": np.frombuffer(json.dumps(notes, default=_plain).encode(), np.uint8),
    }
    arrays |= {f"state.{name}": array for name, array in fit.state.pack().items()}
    arrays |= {f"survey.{name}": array for name, array in config.survey.pack().items()}
    given = {"classes": target.classes, "class_weight": target.class_weight, "labels": stream.labels}
    for name, array in given.items():
        if array is not None:
            arrays[name] = array.astype(str) if array.dtype == object else array
    return arrays


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


def notes_of(arrays: Mapping[str, np.ndarray], where: str) -> dict[str, Any]:
    """Return the values that are stored as JSON.

    Raises
    ------
    RunError
        The file is not a model written by `arrays_of`.
    """
    if "notes" not in arrays:
        problem = "expected a model of Mission, found another file of daskfs"
        raise RunError(problem, where, "name a file written by save()")
    found: dict[str, Any] = json.loads(arrays["notes"].tobytes())
    return found


def data_of(notes: Mapping[str, Any]) -> DataShape:
    """Return the shape of the data from the values of `notes_of`."""
    given = notes["data"]
    return DataShape(given["n_samples"], given["n_features"], np.dtype(given["dtype"]))


def stream_of(arrays: Mapping[str, np.ndarray], notes: Mapping[str, Any], config: Configuration) -> Stream:
    """Return the stream from the arrays of `arrays_of`; `config` is the configuration before the survey."""
    of_sgd, always = notes["sgd"], tuple(notes.get("always", ()))
    config = replace(
        config,
        model=replace(config.model, always=always),
        survey=Survey.unpack({name[7:]: array for name, array in arrays.items() if name.startswith("survey.")}),
        target=TargetEncoding(arrays.get("classes"), arrays.get("class_weight"), notes["mean_weight"]),
        rate=of_sgd["rate"],
        period=of_sgd["period"],
        step_limit=of_sgd["step_limit"],
        intercept_rate=of_sgd["intercept_ratio"],
        half_life=of_sgd["half_life"],
        cuts=Cuts(of_sgd["piece_rows"]),
    )
    state = _state_of({name[6:]: array for name, array in arrays.items() if name.startswith("state.")}, config.model)
    progressive = {int(n_rows): float(loss) for n_rows, loss in notes["progressive"]}
    lines = [Line(*line) for line in notes["history"]]
    history = History((state.loss_sum, state.weight_sum), lines, progressive)
    return Stream(MissionFit(config, state, notes["n_samples"], history), arrays.get("labels"), _names_of(notes))


def _state_of(arrays: dict[str, np.ndarray], shape: ModelShape) -> ModelState:
    """Return the model of a file; format 1 had one threshold, and by class an entry for each feature."""
    if "classes" in arrays:
        return ModelState.unpack(arrays)
    n_entries, threshold = len(arrays["keys"]), np.array([arrays["threshold"]])
    state = ModelState.unpack({**arrays, "classes": np.zeros(n_entries, np.int32), "thresholds": threshold})
    if not shape.is_by_class:
        return state
    entries, thresholds = state.entries.by_class(), np.zeros(shape.n_outputs)
    for c, own in enumerate(entries.of_classes(shape.n_outputs)):
        if len(own) >= shape.n_selected:
            thresholds[c] = np.abs(entries.weights[own]).min()
    return replace(state.with_entries(entries), thresholds=thresholds)


def _names_of(notes: Mapping[str, Any]) -> FeatureNames | None:
    """Return the names of active features from the values of `notes_of`."""
    given = notes["names"]
    if given is None:
        return None
    return FeatureNames(
        given["are_ids"],
        {int(j): name for j, name in given["names"].items()},
        {int(j): (first, second) for j, (first, second) in given["collisions"].items()},
        {int(j): digest for j, digest in given["_digests"].items()},
    )


def save_arrays(path: str | os.PathLike[str], arrays: dict[str, Any]) -> None:
    """Write arrays to an .npz file; a file of this name is always complete.

    Raises
    ------
    RunError
        The file cannot be written.
    """
    try:
        with written_whole(Path(path)) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)
    except OSError as fault:
        remedy = "free disk space, or fix the permissions"
        raise RunError(f"cannot be written: {fault.strerror}", str(path), remedy) from fault


def load_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Read a file written by `save_arrays`; refuse any other.

    Raises
    ------
    RunError
        The file does not exist, is damaged, or has a newer format or another hash.
    """
    where = str(path)
    try:
        with np.load(io.BytesIO(Path(path).read_bytes()), allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
    except FileNotFoundError:
        raise RunError("no such file", where, "name a file written by save()") from None
    except (OSError, ValueError, EOFError) as fault:
        raise RunError(f"cannot be read: {fault}", where, "create it again") from fault
    except Exception as fault:  # zipfile and zlib raise errors of their own for a damaged archive
        raise RunError(f"damaged: {fault}", where, "create it again") from fault
    version = int(arrays.get("format_version", -1))
    if version < 0:
        raise RunError("not a model of daskfs", where, "name a file written by save()")
    if version > FORMAT_VERSION:
        raise RunError(f"format {version} is newer than this daskfs reads ({FORMAT_VERSION})", where, "upgrade daskfs")
    if str(arrays.get("hash")) != HASH_NAME:
        raise RunError(f"expected the hash {HASH_NAME}, found {arrays.get('hash')}", where, "create it again")
    return arrays


class Gone(Matrix):
    """The shape and names of rows that are no longer available."""

    def __init__(self, data: DataShape, names: Sequence[str] | None) -> None:
        self.shape, self.dtype = (data.n_samples, data.n_features), data.dtype
        given = None if names is None else as_names(names, data.n_features)
        self._names = Names(min(data.n_features, MOST_IDS - 1), given)

    @property
    def names(self) -> Names:
        """Names of the columns."""
        return self._names

    def read(self, rows: Rows, columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Raise: the rows are not kept."""
        raise DataError("the rows of a stream are not kept and cannot be read again", "fit", "read the source again")
