"""What MISSION makes of its parameters, and of a model that has learnt: selection, coefficients, table and notes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from daskfs.errors import Caution
from daskfs.selectors.inputs import seed_of
from daskfs.selectors.mission.capacity import check_capacity, check_noise
from daskfs.selectors.mission.configuration import DEFAULT_N_SELECTED, Configuration
from daskfs.selectors.mission.entries import MOST_IDS
from daskfs.selectors.mission.feature_names import FeatureNames
from daskfs.selectors.mission.fit import HISTORY, MissionFit, begin, encode_target
from daskfs.selectors.mission.model import norms
from daskfs.selectors.mission.predicting import PredictsSources
from daskfs.selectors.mission.refit import Refit
from daskfs.selectors.shared.budget import DataShape
from daskfs.selectors.shared.run import Run

N_EPOCHS, INTERCEPT_RATE, HALF_LIFE = 5, 0.01, 1.0
"""Default values; the paper's algorithm has one pass, no intercept, and no decay of the tail."""

NO_REFIT = "rows are used once and not kept: the coefficients are those of stochastic descent, without a refit"


class _Attributes:
    """The parameters of `daskfs.Mission` that are read here, and what a selector keeps of a stream."""

    n_features_to_select: Any
    variant: str
    heap: bool
    tail: str
    n_buckets: int | None
    n_hashes: int
    n_epochs: int | None
    learning_rate: float | None
    intercept_rate: float | None
    tail_half_life: Any
    block_rows: int
    n_replicas: int
    sync_every: int
    standardize: bool | None
    class_weight: Any
    n_candidates: Any
    per_class: bool
    always_include: Any
    _labels: np.ndarray | None = None
    _names_of_features: FeatureNames | None = None
    """Names of features that are ids, or of columns that blocks name; of a stream."""
    _stream: MissionFit | None = None
    """The fit that further rows continue."""
    _stream_labels: np.ndarray | None


class GivesResults(_Attributes, PredictsSources):
    """The part of `daskfs.Mission` that reads the parameters and sets the results, for fits and for streams."""

    def _configuration(
        self, data: DataShape, n_outputs: int, *, variant: str | None = None, **more: Any
    ) -> Configuration:
        """Return the configuration of a fit, with the default values of its variant.

        Parameters
        ----------
        data, n_outputs, variant, **more
            As for `Configuration.of`; by default the parameters of the selector.
        """
        is_paper, half_life = self.variant == "paper", self.tail_half_life
        usual_rate = 0.0 if is_paper else INTERCEPT_RATE
        return Configuration.of(
            data,
            n_outputs,
            n_features_to_select=self.n_features_to_select,
            loss=self.loss_,
            variant=variant or ("heap" if self.heap else self.variant),
            n_buckets=self.n_buckets,
            n_hashes=0 if self.tail == "identity" else self.n_hashes,
            n_epochs=self.n_epochs or (1 if is_paper else N_EPOCHS),
            learning_rate=self.learning_rate,
            intercept_rate=float(usual_rate if self.intercept_rate is None else self.intercept_rate),
            tail_half_life=(None if is_paper else HALF_LIFE) if half_life == "auto" else half_life,
            block_rows=self.block_rows,
            n_replicas=self.n_replicas,
            sync_every=self.sync_every,
            standardize=not is_paper if self.standardize is None else self.standardize,
            refit=self._own_refit,
            seed=seed_of(self.random_state) or 0,
            n_candidates=None if is_paper or self.per_class else self.n_candidates,
            per_class=self.per_class and not is_paper,
            has_always=self.always_include is not None,
            **more,
        )

    @property
    def _own_refit(self) -> Literal["auto", "exact", "sgd"] | None:
        """This method's own refit. The refits of every selector ("ols", "ridge", "elastic") come after it."""
        if self.refit in (None, "none") or (self.variant == "paper" and self.refit not in ("exact", "sgd")):
            return None
        return self.refit if self.refit in ("exact", "sgd") else "auto"  # type: ignore[return-value]

    def _begun(self, run: Run, n_classes: int | None = None, **more: Any) -> MissionFit:
        """Survey the first rows, and return an empty model that is ready to train; set `classes_`.

        Parameters
        ----------
        run : Run
            Over the rows in the order of the first pass.
        n_classes : int, optional
            See `encode_target`.
        **more
            As for `Configuration.of`.
        """
        target, intercept = encode_target(self.loss_, self.class_weight, run.matrix, n_classes, self._labels)
        if target.classes is not None:
            self.classes_ = target.classes
        return begin(
            run, self._configuration(run.shape, len(intercept), **more), target, intercept, self.always_include
        )

    def _take(self, run: Run, fit: MissionFit, refit: Refit | None = None, notes: Sequence[str] = ()) -> None:
        """Set the selection, its coefficients on the scale of the data, and the result."""
        notes = [*notes, *_notes_on_survey(fit), *_notes_on_noise(fit), *([NO_REFIT] if fit.config.is_stream else [])]
        fit, config = fit.selected(), fit.config
        n_features, model = int(run.matrix.shape[1]), fit.state
        keys, sizes = model.keys, norms(model.weights).astype(np.float64)
        coef, intercept = fit.on_scale_of_data() if refit is None else (refit.coef, refit.intercept)
        order = fit.by_rank()
        if n_features >= MOST_IDS:  # only for selected ids, in this order
            self.selected_, columns, n_features = keys[order], np.argsort(order), len(keys)
        else:
            columns = keys.astype(np.int64)
            self.selected_ = columns[order]
        self.support_ = np.zeros(n_features, dtype=bool)
        self.support_[columns] = True
        self.scores_ = np.zeros(n_features)
        self.scores_[columns] = sizes
        if coef.shape[1] == 1:
            self.coef_ = np.zeros(n_features)
            self.coef_[columns] = coef[:, 0]
            self.intercept_ = float(intercept[0])
        else:
            self.coef_ = np.zeros((coef.shape[1], n_features))
            self.coef_[:, columns] = coef.T
            self.intercept_ = np.array(intercept, dtype=np.float64)

        history = fit.history if refit is None else refit.history
        lines = dict(zip(HISTORY, np.array(history.lines, dtype=np.float64).reshape(-1, len(HISTORY)).T, strict=True))
        lines |= {name: lines[name].astype(np.int64) for name in ("pass", "rows_seen", "n_active")}
        if history.progressive:
            so_far = [history.progressive.get(n_rows, np.nan) for n_rows in lines["rows_seen"].tolist()]
            lines["progressive_loss"] = np.array(so_far)
        table_coef, more_columns = _table(fit, refit)
        on_names = [] if self._names_of_features is None else self._names_of_features.notes(self.selected_)
        self.result_ = self._result_of(
            run,
            notes=[*notes, *(refit.notes if refit else []), *_notes_on_selection(fit), *on_names],
            history=lines,
            chosen={
                "n_features_to_select": config.n_selected,
                "n_candidates": config.model.n_selected if config.has_choice else None,
                "n_buckets": config.model.n_buckets,
                "learning_rate": config.rate,
                "refit": None if refit is None else config.refit,
            },
            coef=table_coef,
            columns=more_columns,
            scores=sizes[order],
            names=self._names_of_features,
            memory={"held_nbytes": {"model": config.model.nbytes}},
            n_samples=fit.n_samples,
        )


def _table(fit: MissionFit, refit: Refit | None) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the coefficients of the selected features, most important first, and further columns of the table."""
    model = fit.state
    order = fit.by_rank()
    weights = fit.on_scale_of_data()[0][order]
    leading = np.argmax(np.abs(weights), axis=1)  # the class with the largest weight
    place = (np.arange(len(order)), leading)
    deviation = np.full(len(order), np.nan) if refit is None else refit.deviation[order]
    columns = {
        "weight": weights[place],
        "touches": model.touches[order],
        "deviation": deviation,
        "weight_x_deviation": np.abs(weights[place]) * deviation,
    }
    if weights.shape[1] > 1:
        columns["class"] = leading
    return (weights if refit is None else refit.coef[order])[place], columns


def _notes_on_survey(fit: MissionFit) -> list[str]:
    """Return notes on the survey of the first rows."""
    config, model, survey, notes = fit.config, fit.config.model, fit.config.survey, list[str]()
    if model.n_hashes and not model.forgets and model.variant != "hashing":
        sizes = (model.n_selected, survey.n_ids, model.n_buckets, model.n_hashes)
        notes.append(check_capacity(*sizes, model.variant, survey.nnz_per_row).text)
    if config.learning_rate is None and model.is_in_sketch and math.isinf(config.step_limit):
        notes.append(f"learning rate {config.rate:.4g} (constant), as in the paper")
    elif config.learning_rate is None:
        notes.append(f"learning rate {config.rate:.4g}, from a mean ‖x‖² of {survey.squared_norm:.4g}")
    n_selected, data = config.n_selected, config.data
    if n_selected == data.n_features:
        notes.append("as many features are requested as there are: nothing is left out")
    elif config.n_features_to_select is None and not config.is_stream and n_selected < DEFAULT_N_SELECTED:
        notes.append(f"{n_selected:,} features by default: half the number of rows")
    elif n_selected >= data.n_samples and not config.is_stream:
        notes.append(
            Caution(f"{n_selected:,} features for {data.n_samples:,} rows: any of them fit the target by chance")
        )
    if config.tail_half_life is None and config.n_epochs > 1:
        notes.append("several passes without tail_half_life: features that are not selected accumulate weight")
    return notes


def _notes_on_noise(fit: MissionFit) -> list[str]:
    """Return a note on whether the sketch was large enough."""
    model, threshold = fit.config.model, float(fit.state.thresholds.min())
    if not (threshold > 0.0 and model.n_hashes and model.variant == "active"):
        return []
    tail_norm, n_ids = fit.history.lines[-1].tail_norm, fit.config.survey.n_ids
    return [check_noise(tail_norm, threshold, n_ids, model.n_buckets, model.n_hashes).text]


def _notes_on_selection(fit: MissionFit) -> list[str]:
    """Return notes on how features were selected."""
    config, model, n_selected = fit.config, fit.config.model, len(fit.state.keys)
    if model.variant == "hashing" and not n_selected:
        return ["features are 64-bit ids, which are not listed: rows are predicted from their shared cells"]
    chosen = "weight" if model.n_outputs == 1 else "norm of the weights over the classes"
    if model.n_outputs > 1 and model.is_by_class:
        chosen = f"weight for a class, up to {model.n_selected:,} for each,"
    notes = [f"selected: the {n_selected:,} features of largest {chosen} after {config.n_epochs} pass(es)"]
    if config.has_choice and model.n_selected > config.n_selected:
        how = "by forward selection on their second moments"
        notes = [
            f"selected: {n_selected:,} features {how}, out of {model.n_selected:,} of largest {chosen} after "
            f"{config.n_epochs} pass(es)"
        ]
    if model.always:
        notes.append(f"{len(model.always)} of them were always included")
    if model.n_outputs > 1:
        notes.append("coef of a feature is that of the class with its largest weight (column 'class' of selected.csv)")
    if config.n_replicas > 1:
        when = "after each part of the source" if fit.history.progressive else f"every {config.sync_every:,} rows"
        notes.append(f"{config.n_replicas} models were averaged {when}")
    return notes
