"""A selector about a selector: it fits another one many times, on views of the rows, and selects by what it sees.

A subclass declares its own parameters and defines `_fit` and `_plan`. In both ``selector_`` is a selector like the one
it was given, whose loss is settled and that was not fitted; `_fit` fits it on all rows and takes its selection
(`_take`), or selects columns by scores of its own and has them fitted (`_take_columns`). Many fits on samples of the
rows are those of `daskfs.selectors.shared.samples.on_samples`.

What is declared twice, here and inside, is decided here for all subclasses:

- The loss is that of the selector inside: there is no parameter `loss`.
- `client`, `memory_limit`, `schema` and `verbose` are those given here, or else those of the selector inside; one
  limit holds for every task, whoever asked for it.
- `refit` is that of the selector inside; what selects columns itself fits them with a ridge that the data choose.
- `random_state` draws rows here, and inside what the selector draws: the same in every fit.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from daskfs.errors import ConfigError
from daskfs.feature_maps.base import MadeFeatures
from daskfs.losses import AUTO, TargetKind
from daskfs.matrix.base import Matrix
from daskfs.parameters import LossOf, Selector
from daskfs.result import SelectionResult
from daskfs.selectors.base import SEPARATED, BaseSelector
from daskfs.selectors.inputs import seed_of
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.refit import FITTED_INSTEAD, fit_each_class
from daskfs.selectors.shared.responses import Response
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.samples import Recipe


class NamesOfMade:
    """Names of what a map makes, by the numbers of its features."""

    def __init__(self, made: MadeFeatures, matrix: Matrix) -> None:
        names = made.names([str(matrix.names[j]) for j in made.parents])
        self._names = dict(zip(made.columns.tolist(), names, strict=True))

    def __getitem__(self, numbers: np.ndarray) -> np.ndarray:
        return np.array([self._names[number] for number in numbers.tolist()], dtype=object)


def _by_code(weights: Mapping[Any, Any], labels: np.ndarray) -> dict[int, Any]:
    """Return the weights of classes by the numbers that the rows have instead of labels."""
    codes = {label: code for code, label in enumerate(labels.tolist())}
    for label in weights:
        if label not in codes:
            raise ConfigError(
                f"there is no class {label!r}; there are {list(codes)}", "selector.class_weight",
                "name classes as the target does",
            )  # fmt: skip
    return {codes[label]: weight for label, weight in weights.items()}


class MetaSelector(BaseSelector, fixed={"refit": "none"}):
    """Base of selectors about a selector: see the module.

    Parameters
    ----------
    selector : selector
        Of daskfs, not fitted; a copy of it is. Its loss is that of the whole.
    random_state : int, RandomState or None
        Of the rows that are drawn here; what the selector draws has the selector's own.
    memory_limit : int or str, optional
        What one task may take, "1GiB" for example; by default the selector's own.
    client : distributed.Client, optional
        Where the work runs; by default where the selector's own says.
    schema : path, mapping, TableSchema, "judge" or None
        What the columns of a table mean; by default the selector's own.
    verbose : bool
        Show how a fit goes on; so it is where the selector's own says so.
    """

    _takes_selection: ClassVar[bool] = True
    """Whether the selection is one of a fitted `selector_`, and not of columns fitted here."""
    refused_inside: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """Parameters that no selector inside may have set: what is wrong with each, and the remedy."""
    selector_: BaseSelector
    _labels: np.ndarray | None
    """Of classes, by which weights inside know them: the rows have their numbers."""
    selector: Selector = None

    def _check_combination(self) -> None:
        if not isinstance(self.selector, BaseSelector):
            problem = f"expected a selector of daskfs, found {self.selector!r}"
            raise ConfigError(problem, "selector", "pass one, FGM() for example")
        self.selector.check_parameters()
        for name, (problem, remedy) in self.refused_inside.items():
            for place, value in self._set_inside(name):
                if value is not None:
                    raise ConfigError(problem, place, remedy)

    def _set_inside(self, name: str) -> Iterator[tuple[str, Any]]:
        """Yield the place and the value of a parameter of the selector inside, and of those inside that."""
        selector, place = self.selector, "selector"
        while isinstance(selector, BaseSelector):
            if name in selector._parameter_owners:
                yield f"{place}.{name}", getattr(selector, name)
            selector, place = getattr(selector, "selector", None), f"{place}.selector"

    @property
    def loss(self) -> str:
        """The loss of the selector inside."""
        return AUTO if self.selector is None else str(self.selector.loss)

    @property
    def loss_choice(self) -> LossOf | None:
        """The losses that the selector inside takes."""
        return LossOf() if self.selector is None else self.selector.loss_choice

    @property
    def n_included(self) -> int:
        """How many columns the selector inside is told to include."""
        return super().n_included if self.selector is None else self.selector.n_included

    def included_columns(self, matrix: Matrix) -> np.ndarray:
        """Return the columns that the selector inside always includes."""
        return super().included_columns(matrix) if self.selector is None else self.selector.included_columns(matrix)

    @property
    def groups_are_cut_by(self) -> str:
        """What cuts groups of rows inside."""
        return self.cuts_groups if self.selector is None else self.selector.groups_are_cut_by

    @property
    def weighs_columns(self) -> bool:
        """Whether weights of columns mean something to the selector inside, and it sees them."""
        return self._weighs_columns and bool(self.selector.weighs_columns)

    def _setting(self, name: str) -> Any:
        return getattr(self, name) or getattr(self.selector, name)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Select features; see `BaseSelector.fit`."""
        has_named = any(isinstance(weights, Mapping) for _, weights in self._set_inside("class_weight"))
        self._labels = np.unique(np.asarray(y)) if has_named and y is not None else None
        super().fit(X, y, sample_weight)
        return self

    def _settle_loss(self, kind: TargetKind, is_plan: bool = False) -> None:
        """Make the selector inside, and have it settle the loss."""
        given = self.selector
        parameters = {name: getattr(given, name) for name in given._parameter_owners}
        labels = getattr(self, "_labels", None)
        if labels is not None and isinstance(parameters.get("class_weight"), Mapping):
            parameters["class_weight"] = _by_code(parameters["class_weight"], labels)
        self.selector_ = type(given)(**{**parameters, "random_state": seed_of(given.random_state)})
        if isinstance(self.selector_, MetaSelector):
            self.selector_._labels = labels
        self.selector_._settle_loss(kind, is_plan)
        self.loss_, self._loss_note, self._n_classes = self.selector_.loss_, self.selector_._loss_note, kind.n_classes

    def _shape_of(self, run: Run) -> DataShape:
        """Return the shape of a run's matrix, with all that `plan` is told of it."""
        matrix = run.matrix
        return replace(run.shape, n_classes=self._n_classes, names=matrix.names, table_columns=matrix.table_columns)

    @property
    def recipe(self) -> Recipe:
        """How the selector inside is made where a task fits it."""
        return Recipe.of(self.selector_)

    @abstractmethod
    def _fit(self, run: Run) -> None:
        """Select on the matrix of a run."""

    @abstractmethod
    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        """Return what all fits will read and hold."""

    def _take(self, fitted: BaseSelector) -> None:
        """Select what a fitted selector has selected, with its coefficients and scores."""
        self.selector_ = fitted
        for name in ("selected_", "support_", "coef_", "intercept_", "scores_", "made_", "classes_"):
            if hasattr(fitted, name):
                setattr(self, name, getattr(fitted, name))

    def _take_columns(self, run: Run, columns: np.ndarray, scores: np.ndarray) -> list[str]:
        """Select columns, and fit the loss on them with a ridge that the data choose; return what is to be said of it.

        Parameters
        ----------
        run : Run
            Over all rows.
        columns : ndarray of shape (n_selected,), int64
        scores : ndarray of shape (n_features,)
            Of every column, selected or not.
        """
        columns = np.sort(np.asarray(columns, dtype=np.int64))
        fits = fit_each_class(run, columns, self.loss_)
        if fits.classes is not None:
            self.classes_ = fits.classes
        self._set_selection(columns, scores[columns], fits.coef, fits.intercept)
        self.scores_ = np.array(scores, dtype=np.float64)
        return [SEPARATED] if fits.is_separable else []

    @property
    def score_kind(self) -> str:  # type: ignore[override]
        """What `scores_` are: by default those of the selector inside."""
        return self.selector_.score_kind

    @property
    def response_losses(self) -> tuple[str, str]:
        """By which the linear predictor becomes a mean or a label, and probabilities."""
        if self._takes_selection:
            return self.selector_.response_losses
        loss = FITTED_INSTEAD.get(self.loss_, self.loss_)
        return loss, loss

    @property
    def _probabilities(self) -> Response:
        return self.selector_._probabilities if self._takes_selection else super()._probabilities

    def _result_of(self, run: Run, **told: Any) -> SelectionResult:
        """Return the result, features that a map of the selector inside makes by their own names."""
        if self.made_ is not None:
            told.setdefault("names", NamesOfMade(self.made_, run.matrix))
        return super()._result_of(run, **told)

    def resolved_parameters(self) -> dict[str, Any]:
        """Return the parameters as a result has them; the selector's own as a mapping, with its method."""
        inside = self.selector_.resolved_parameters()
        if getattr(self, "_labels", None) is not None and "class_weight" in inside:
            inside["class_weight"] = self.selector.class_weight
        return super().resolved_parameters() | {"selector": {"method": self.selector_.method, **inside}}
