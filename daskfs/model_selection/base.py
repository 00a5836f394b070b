"""Base of meta-estimators, which fit another selector many times on views of the rows.

A subclass declares its own parameters and defines `_fit` and `_plan`. In both, ``selector_`` is an unfitted clone of
the given selector with a resolved loss. `_fit` fits it on all rows and takes its selection (`_take`), or selects
columns by its own scores and fits them (`_take_columns`). Use `daskfs.selectors.shared.samples.on_samples` for many
fits on samples of the rows.

Parameters that exist both here and in the nested selector are resolved here for all subclasses:

- The loss is that of the nested selector: there is no parameter `loss`.
- `client`, `memory_limit`, `schema` and `verbose` are those given here, or else those of the nested selector. One limit
  applies to every task.
- `refit` is that of the nested selector. A subclass that selects columns itself fits them with a ridge chosen from the
  data.
- `random_state` here draws rows; that of the nested selector is used in every fit alike.
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
from daskfs.selectors.shared.refit_of_classes import FITTED_INSTEAD, fit_each_class
from daskfs.selectors.shared.responses import Response
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.samples import Recipe


class NamesOfMade:
    """Names of the features of a map, by their numbers."""

    def __init__(self, made: MadeFeatures, matrix: Matrix) -> None:
        names = made.names([str(matrix.names[j]) for j in made.parents])
        self._names = dict(zip(made.columns.tolist(), names, strict=True))

    def __getitem__(self, numbers: np.ndarray) -> np.ndarray:
        return np.array([self._names[number] for number in numbers.tolist()], dtype=object)


def _by_code(weights: Mapping[Any, Any], labels: np.ndarray) -> dict[int, Any]:
    """Return class weights by the codes that the rows have instead of labels."""
    codes = {label: code for code, label in enumerate(labels.tolist())}
    for label in weights:
        if label not in codes:
            raise ConfigError(
                f"expected one of the classes {list(codes)}, found {label!r}", "selector.class_weight",
                "use the labels of the target",
            )  # fmt: skip
    return {codes[label]: weight for label, weight in weights.items()}


class MetaSelector(BaseSelector, fixed={"refit": "none"}):
    """Base class of meta-estimators: see the module.

    Parameters
    ----------
    selector : selector
        Unfitted daskfs selector; a clone of it is fitted. Its loss is used throughout.
    random_state : int, RandomState or None
        Seed for drawing rows; the nested selector has its own seed.
    memory_limit : int or str, optional
        Memory limit of one task, such as "1GiB"; default: that of the nested selector.
    client : distributed.Client, optional
        Cluster on which the work runs; default: that of the nested selector.
    schema : path, mapping, TableSchema, "judge" or None
        Table schema; default: that of the nested selector.
    verbose : bool
        Whether to show progress; also true if the nested selector is verbose.
    """

    _takes_selection: ClassVar[bool] = True
    """Whether the selection is that of a fitted `selector_` instead of columns that are fitted here."""
    refused_inside: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """Parameters that must not be set in a nested selector: the problem and the remedy for each."""
    selector_: BaseSelector
    _labels: np.ndarray | None
    """Class labels used in `class_weight` of the nested selector, whose rows have codes."""
    selector: Selector = None

    def _check_combination(self) -> None:
        if not isinstance(self.selector, BaseSelector):
            problem = f"expected a daskfs selector, found {self.selector!r}"
            raise ConfigError(problem, "selector", "pass a selector such as FGM()")
        self.selector.check_parameters()
        for name, (problem, remedy) in self.refused_inside.items():
            for place, value in self._set_inside(name):
                if value is not None:
                    raise ConfigError(problem, place, remedy)

    def _set_inside(self, name: str) -> Iterator[tuple[str, Any]]:
        """Yield path and value of a parameter of the nested selector and of selectors nested in it."""
        selector, place = self.selector, "selector"
        while isinstance(selector, BaseSelector):
            if name in selector._parameter_owners:
                yield f"{place}.{name}", getattr(selector, name)
            selector, place = getattr(selector, "selector", None), f"{place}.selector"

    @property
    def loss(self) -> str:
        """The loss of the nested selector."""
        return AUTO if self.selector is None else str(self.selector.loss)

    @property
    def loss_choice(self) -> LossOf | None:
        """The losses that the nested selector supports."""
        return LossOf() if self.selector is None else self.selector.loss_choice

    @property
    def n_included(self) -> int:
        """Number of columns that the nested selector always includes."""
        return super().n_included if self.selector is None else self.selector.n_included

    def included_columns(self, matrix: Matrix) -> np.ndarray:
        """Return the columns that the nested selector always includes."""
        return super().included_columns(matrix) if self.selector is None else self.selector.included_columns(matrix)

    @property
    def groups_are_cut_by(self) -> str:
        """The part of the nested selector that splits groups of rows."""
        return self.cuts_groups if self.selector is None else self.selector.groups_are_cut_by

    @property
    def weighs_columns(self) -> bool:
        """Whether column weights have an effect on the nested selector."""
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
        """Clone the nested selector and resolve its loss."""
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
        """Return the shape of a run's matrix with all facts that `plan` takes."""
        matrix = run.matrix
        return replace(run.shape, n_classes=self._n_classes, names=matrix.names, table_columns=matrix.table_columns)

    @property
    def recipe(self) -> Recipe:
        """Recipe with which tasks make the nested selector."""
        return Recipe.of(self.selector_)

    @abstractmethod
    def _fit(self, run: Run) -> None:
        """Select on the matrix of a run."""

    @abstractmethod
    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        """Return the plan of all fits."""

    def _take(self, fitted: BaseSelector) -> None:
        """Take the selection, coefficients and scores of a fitted selector."""
        self.selector_, self._selection = fitted, fitted._selection
        if hasattr(fitted, "classes_"):
            self.classes_ = fitted.classes_

    def _take_columns(self, run: Run, columns: np.ndarray, scores: np.ndarray) -> list[str]:
        """Select columns, and fit the loss on them with a ridge chosen from the data; return notes.

        Parameters
        ----------
        run : Run
            Run over all rows.
        columns : ndarray of shape (n_selected,), int64
        scores : ndarray of shape (n_features,)
            Scores of all columns, selected or not.
        """
        columns = np.sort(np.asarray(columns, dtype=np.int64))
        fits = fit_each_class(run, columns, FITTED_INSTEAD.get(self.loss_, self.loss_))
        if fits.classes is not None:
            self.classes_ = fits.classes
        self._set_selection(columns, scores[columns], fits.coef, fits.intercept)
        self.scores_ = np.array(scores, dtype=np.float64)
        return [SEPARATED] if fits.is_separable else []

    @property
    def score_kind(self) -> str:  # type: ignore[override]
        """Kind of `scores_`; default: that of the nested selector."""
        return self.selector_.score_kind

    @property
    def response_losses(self) -> tuple[str, str]:
        """Losses that convert the linear predictor to a mean or label, and to probabilities."""
        if self._takes_selection:
            return self.selector_.response_losses
        loss = FITTED_INSTEAD.get(self.loss_, self.loss_)
        return loss, loss

    @property
    def _probabilities(self) -> Response:
        return self.selector_._probabilities if self._takes_selection else super()._probabilities

    def _result_of(self, run: Run, **arguments: Any) -> SelectionResult:
        """Return the result, with the names of a feature map of the nested selector."""
        if self.made_ is not None:
            arguments.setdefault("names", NamesOfMade(self.made_, run.matrix))
        return super()._result_of(run, **arguments)

    def resolved_parameters(self) -> dict[str, Any]:
        """Return the parameters for a result; those of the nested selector are a mapping with its method."""
        inside = self.selector_.resolved_parameters()
        if getattr(self, "_labels", None) is not None and "class_weight" in inside:
            inside["class_weight"] = self.selector.class_weight
        return super().resolved_parameters() | {"selector": {"method": self.selector_.method, **inside}}
