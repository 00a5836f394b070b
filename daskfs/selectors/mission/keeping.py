"""Models that MISSION can continue to train: in this process or, after saving, in another. No rows are kept."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np

from daskfs import errors
from daskfs.cluster.workers import Here
from daskfs.matrix.arrays import as_names
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows
from daskfs.matrix.names import Names
from daskfs.selectors.from_blocks import TakesRowBlocks
from daskfs.selectors.mission.entries import MOST_IDS
from daskfs.selectors.mission.fit import MissionFit
from daskfs.selectors.mission.results import GivesResults
from daskfs.selectors.mission.saved import arrays_of, fit_of, load_arrays, names_of, notes_of, save_arrays
from daskfs.selectors.mission.stream import Learner
from daskfs.selectors.shared.run import Checkpoint

DataError = errors.DataError.about("streams")
RunError = errors.RunError.about("streams")

_STEP = "stream"


class Done(NamedTuple):
    """The progress of a stream when it was interrupted."""

    n_seen: int
    """Number of rows done; for a source in parts, number of parts."""
    counted: tuple[float, float]
    """As in `History`."""


class KeepsModels(GivesResults, TakesRowBlocks):
    """The part of `daskfs.Mission` that holds a model to continue with."""

    def _forget_stream(self) -> None:
        self._stream, self._names_of_features = None, None

    def _going_on(self, fit: MissionFit, n_samples: int) -> MissionFit:
        """Return a copy of the fit of a stream that is ready to learn from `n_samples` more rows."""
        n_seen, state = fit.n_samples + n_samples, fit.state
        now = self._configuration(fit.config.data, fit.config.model.n_outputs, is_stream=True)
        config = replace(
            fit.config,
            tail_half_life=now.tail_half_life,
            half_life=now.half_life_of(n_seen),
            block_rows=now.block_rows,
            n_replicas=now.n_replicas,
            sync_every=now.sync_every,
        )
        history = replace(fit.history, counted=(state.loss_sum, state.weight_sum))
        return replace(
            fit, config=config, state=replace(state, cells=state.cells.copy()), n_samples=n_seen, history=history
        )

    @property
    def can_go_on(self) -> bool:
        """Whether there is a model from a stream, which `save` can store."""
        return self._stream is not None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model learnt from streams to a file; `load` continues from it.

        Raises
        ------
        RunError
            The file cannot be written, or there is no such model: a `fit` to known rows cannot be continued.
        """
        if self._stream is None:
            remedy = "use fit_source, partial_fit, or fit_blocks with an iterator"
            raise RunError("only a model that learns from a stream can be saved to continue", str(path), remedy)
        save_arrays(path, self._arrays_of(self._stream))

    def _arrays_of(self, fit: MissionFit, **more: Any) -> dict[str, Any]:
        """Return the complete state for continuing."""
        here = ("client", "verbose", "schema")
        parameters = {name: value for name, value in self.get_params(deep=False).items() if name not in here}
        parameters["random_state"] = fit.config.model.seed
        if isinstance(self.class_weight, Mapping):
            parameters["class_weight"] = list(self.class_weight.items())
        names = [str(name) for name in self.feature_names_in_] if hasattr(self, "feature_names_in_") else None
        more |= {"parameters": parameters, "loss": self.loss_, "feature_names": names}
        return arrays_of(fit, self._names_of_features, self._stream_labels, more)

    def _save_learner(self, checkpoint: Checkpoint, learner: Learner) -> None:
        fit = learner.so_far()
        self._save_so_far(checkpoint, fit, Done(learner.n_seen, fit.history.counted))

    def _save_so_far(self, checkpoint: Checkpoint, fit: MissionFit, done: Done) -> None:
        checkpoint.save(_STEP, self._arrays_of(fit, done=[done.n_seen, *done.counted]))

    def _resumed(self, checkpoint: Checkpoint) -> Done | None:
        """Restore the model from before an interruption; return its progress."""
        arrays = checkpoint.load(_STEP)
        if arrays is None:
            return None
        notes = notes_of(arrays, "checkpoint")
        n_seen, *counted = notes["done"]
        done, fit = Done(int(n_seen), (counted[0], counted[1])), self._restore(arrays, notes)
        self._stream = replace(fit, history=replace(fit.history, counted=done.counted))
        return done

    def _restore(self, arrays: Mapping[str, np.ndarray], notes: Mapping[str, Any]) -> MissionFit:
        """Restore the state that `_arrays_of` returned."""
        self.loss_ = notes["loss"]
        fit = fit_of(arrays, notes, self._configuration)
        self._stream, self._names_of_features = fit, names_of(notes)
        self._stream_labels = self._labels = arrays.get("labels")
        if fit.config.target.classes is not None:
            self.classes_ = fit.config.target.classes
        return fit

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return a saved selector; it can predict, and `partial_fit` continues the training.

        Raises
        ------
        RunError
            The file does not exist, is damaged, or has a newer format.
        """
        arrays = load_arrays(path)
        notes = notes_of(arrays, str(path))
        parameters = notes["parameters"]
        if isinstance(parameters.get("class_weight"), list):
            parameters["class_weight"] = dict(parameters["class_weight"])
        selector = cls(**parameters)
        fit = selector._restore(arrays, notes)
        data = fit.config.data
        known = _Gone(data.n_samples, data.n_features, data.dtype, notes["feature_names"])
        selector._take_names(known)
        with selector._run(known, Here()) as run:
            selector._take(run, fit)
        if selector._stream_labels is not None:
            selector.classes_ = selector._stream_labels
        return selector


class _Gone(Matrix):
    """The shape and names of rows that are no longer available."""

    def __init__(self, n_samples: int, n_features: int, dtype: np.dtype, names: Sequence[str] | None) -> None:
        self.shape, self.dtype = (n_samples, n_features), dtype
        self._names = Names(min(n_features, MOST_IDS - 1), None if names is None else as_names(names, n_features))

    @property
    def names(self) -> Names:
        """Names of the columns."""
        return self._names

    def read(self, rows: Rows, columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Raise: the rows are not kept."""
        raise DataError("the rows of a stream are not kept and cannot be read again", "fit", "read the source again")
