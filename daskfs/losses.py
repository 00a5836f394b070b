"""The losses: one record for each, one code for all kernels, and the requirements that methods have of a loss.

A loss is a function of one prediction z = X @ coef + intercept and one target y. Outside of the kernels' formulas,
everything that depends on the loss is answered by its record. A method declares what it requires of a loss, not the
names it knows.

A new loss is a line of `LOSSES` here, and its formulas in `daskfs.kernels.losses`, for many rows at once or for one row
at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from daskfs import errors
from daskfs.errors import did_you_mean

ConfigError = errors.ConfigError.about("losses")

# The codes by which kernels choose a formula. Compiled code contains them, so the kernels' cache depends on this file.
SQUARED, LOGISTIC, POISSON, HUBER, SQUARED_HINGE, EPSILON_INSENSITIVE, HINGE, MULTINOMIAL = range(8)


class Facts(NamedTuple):
    """The properties of a loss that kernels need; their meanings are those of `Loss`."""

    code: int
    is_quadratic: bool
    knows_dispersion: bool
    can_separate: bool
    hessian_floor: float


def log_odds(mean: float) -> float:
    """Return log(p / (1 - p)) of the share p = (1 + mean) / 2, for a mean of labels -1 and +1; infinite for -1 and +1.

    Examples
    --------
    >>> round(log_odds(0.5), 4)
    1.0986
    """
    return math.log1p(mean) - math.log1p(-mean) if abs(mean) < 1.0 else math.copysign(math.inf, mean)


def _logarithm(mean: float) -> float:
    return math.log(mean) if mean > 0.0 else -math.inf


def _as_it_is(mean: float) -> float:
    return mean


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss and its properties."""

    name: str
    code: int
    """Code by which kernels choose a formula for many rows at once, so that one compiled kernel serves all losses."""
    formula: str
    target: Literal["number", "count", "two classes", "classes"]
    """Kind of y. Kernels receive two classes as -1 and +1, several classes as numbers."""
    curvature_bound: float = math.inf
    """Largest second derivative in z; infinite if there is none, or if the first derivative jumps."""
    has_bounded_derivative: bool = False
    """Whether the derivative is bounded, so that a single outlier has bounded influence."""
    is_quadratic: bool = False
    """Whether it is a quadratic function of z, so that sums over the rows at one point determine it."""
    is_likelihood: bool = False
    """Whether it is a log-likelihood, as information criteria require."""
    knows_dispersion: bool = False
    """Whether the likelihood fixes the dispersion at 1, as for counts and labels. Otherwise it is estimated."""
    can_separate: bool = False
    """Whether the loss of some rows (labels, counts of 0) never increases in one direction.

    The coefficients of linearly separable classes are then unbounded.
    """
    least_is_zero: bool = True
    """Whether the best prediction of any target has a loss of 0."""
    has_probabilities: bool = False
    """Whether `predict_proba` is defined."""
    has_formula_of_many_rows: bool = True
    """Whether `daskfs.kernels.losses` supports it, so that a refit minimises it over all rows."""
    has_formula_of_a_row: bool = False
    """Whether `daskfs.kernels.losses.row_value` (several classes: `loss_and_derivatives`) supports it."""
    null_intercept: Callable[[float], float] = _as_it_is
    """The best prediction without features, as a function of the target's mean.

    Labels are -1 and +1; with several classes, for each class against the rest. For a hinge loss it is a step towards
    the more frequent class. The Huber loss uses its own estimate of the location instead of the mean.
    """
    threshold: Literal["", "noise", "spread"] = ""
    """Whether it has a threshold t, and what its default is proportional to: the noise or the target's spread."""
    hessian_floor: float = 1e-30
    """Smallest second derivative used in a Hessian if the loss has no curvature."""
    conjugate: Literal["", "quadratic", "entropy"] = ""
    """The kind of convex conjugate, if the dual problem is used."""
    ridge: float = 0.0
    """Default ridge as a share of `curvature_bound`, if a method needs one.

    If classes are linearly separable, or small errors have a loss of 0, derivatives and curvatures would vanish.
    """
    learning_rate: float = 0.0
    """Default learning rate in one pass of stochastic gradient descent, times the mean squared norm of a row; 0: none.
    """
    longest_step: float = math.inf
    """Largest learning rate times the squared norm of the row itself; a longer step would increase the loss."""

    @property
    def is_classifier(self) -> bool:
        """Whether y is a label."""
        return self.target in ("two classes", "classes")

    @property
    def is_two_class(self) -> bool:
        """Whether y is one of two labels, given by the sign of the prediction."""
        return self.target == "two classes"

    @property
    def has_classes(self) -> bool:
        """Whether each class has its own prediction."""
        return self.target == "classes"

    @property
    def facts(self) -> Facts:
        """The properties that kernels need."""
        return Facts(self.code, self.is_quadratic, self.knows_dispersion, self.can_separate, self.hessian_floor)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics of `daskfs.metrics` that apply to its predictions, the default ones first."""
        if self.is_classifier:
            of_two = ("auc", "average_precision") if self.is_two_class else ()
            of_labels = ("balanced_accuracy", "precision", "recall", "f1")
            return "accuracy", *of_two, *of_labels, *(("log_loss",) if self.has_probabilities else ())
        return ("mse", "r2", "rmse", "mae")

    @property
    def default_metrics(self) -> tuple[str, ...]:
        """The metrics that are shown by default."""
        return self.metrics[:2] if self.is_two_class or not self.is_classifier else self.metrics[:1]


LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        Loss(
            "squared", SQUARED, "½ (z - y)²", "number", curvature_bound=1.0, is_quadratic=True,
            is_likelihood=True, has_formula_of_a_row=True, conjugate="quadratic", learning_rate=0.5, longest_step=1.0,
        ),
        Loss(
            "logistic", LOGISTIC, "log(1 + exp(-y z))", "two classes", curvature_bound=0.25,
            has_bounded_derivative=True, is_likelihood=True, knows_dispersion=True, can_separate=True,
            has_probabilities=True, has_formula_of_a_row=True, null_intercept=log_odds, conjugate="entropy",
            ridge=0.03, learning_rate=4.0, longest_step=8.0,
        ),
        Loss(
            "poisson", POISSON, "exp(z) - y z", "count", is_likelihood=True, knows_dispersion=True, can_separate=True,
            least_is_zero=False, null_intercept=_logarithm,
        ),
        Loss(
            "huber", HUBER, "½ (z - y)², beyond the threshold t: t |z - y| - ½ t²", "number", curvature_bound=1.0,
            has_bounded_derivative=True, is_likelihood=True, threshold="noise", hessian_floor=0.05,
        ),
        Loss(
            "multinomial", MULTINOMIAL, "log Σ_c exp(z_c) - z_y", "classes", curvature_bound=0.5,
            has_bounded_derivative=True, is_likelihood=True, knows_dispersion=True, can_separate=True,
            has_probabilities=True, has_formula_of_many_rows=False, has_formula_of_a_row=True,
            null_intercept=log_odds, learning_rate=4.0, longest_step=8.0,
        ),
        Loss(
            "squared_hinge", SQUARED_HINGE, "½ max(0, 1 - y z)²", "two classes", curvature_bound=1.0,
            can_separate=True, has_formula_of_a_row=True, conjugate="quadratic", ridge=0.03, learning_rate=1.0,
            longest_step=2.0,
        ),
        Loss(
            "hinge", HINGE, "max(0, 1 - y z)", "two classes", has_bounded_derivative=True, can_separate=True,
            has_formula_of_many_rows=False, has_formula_of_a_row=True, learning_rate=2.0, longest_step=8.0,
        ),
        Loss(
            "epsilon_insensitive", EPSILON_INSENSITIVE, "½ max(0, |z - y| - t)²", "number", curvature_bound=1.0,
            threshold="spread", ridge=0.001,
        ),
    )
}  # fmt: skip


_SEVERAL = "multinomial"
AUTO = "auto"
"""Stands for the loss chosen for the target."""


class TargetKind(NamedTuple):
    """The kind of a target, which decides on the loss if that is "auto"; see `daskfs.matrix.target`."""

    n_classes: int = 0
    """0: numbers."""
    is_declared: bool = False
    """Whether it was given as texts, booleans or categories. Otherwise it was inferred from numbers."""
    n_whole: int = 0
    """Number of different whole values, if these could be meant as classes or as numbers; 0: unambiguous."""
    is_continuous: bool = False
    """Whether some values are known not to be whole, so that they are no labels."""


PLAIN_NUMBERS = TargetKind()


class Requirement(NamedTuple):
    """A requirement that a method has of a loss."""

    holds: Callable[[Loss], bool]
    lack: str
    """Why a loss that does not meet it is refused."""


LIKELIHOOD = Requirement(lambda loss: loss.is_likelihood, "it has no likelihood, on which the criteria stand")
BOUNDED_CURVATURE = Requirement(lambda loss: math.isfinite(loss.curvature_bound), "its curvature is unbounded")
ONE_PREDICTION = Requirement(lambda loss: not loss.has_classes, "each of its classes has a prediction of its own")
TWO_CLASSES = Requirement(lambda loss: loss.is_two_class, "it is not a loss of two classes")
NUMBERS = Requirement(lambda loss: not loss.is_classifier, "it is a loss of classes")
ROW_BY_ROW = Requirement(
    lambda loss: loss.has_formula_of_a_row, "its gradient is not known row by row (daskfs.kernels.losses.row_value)"
)
DUAL = Requirement(lambda loss: bool(loss.conjugate), "the dual problem is not known for it")
AT_ONCE = Requirement(lambda loss: loss.has_formula_of_many_rows, "it has no minimum over all rows that could be found")


def find_loss(name: str) -> Loss:
    """Return the record of a loss.

    Raises
    ------
    ConfigError
        Unknown loss.

    Examples
    --------
    >>> find_loss("logistic").curvature_bound
    0.25
    """
    if name not in LOSSES:
        raise ConfigError(
            f"expected one of {', '.join(LOSSES)}, found {name!r}{did_you_mean(str(name), LOSSES)}",
            "loss",
            "choose one of them",
        )
    return LOSSES[name]


def loss_of_two(name: str) -> str:
    """Return the loss, or its two-class form if each class has its own prediction.

    Examples
    --------
    >>> loss_of_two("multinomial"), loss_of_two("hinge")
    ('logistic', 'hinge')
    """
    return "logistic" if find_loss(name).has_classes else name


def losses_with(requires: Sequence[Requirement], among: Collection[str] | None = None) -> tuple[str, ...]:
    """Return the names of the losses that meet all requirements, in the order of `LOSSES`.

    Examples
    --------
    >>> losses_with([BOUNDED_CURVATURE, TWO_CLASSES])
    ('logistic', 'squared_hinge')
    """
    known = [loss for loss in LOSSES.values() if among is None or loss.name in among]
    return tuple(loss.name for loss in known if all(wanted.holds(loss) for wanted in requires))


def check_loss(
    method: str, name: object, requires: Sequence[Requirement] = (), among: Collection[str] | None = None
) -> None:
    """Refuse a loss that a method does not support; the error says which requirement it does not meet.

    Parameters
    ----------
    method : str
        The method's name, for the error.
    name : object
        The user's value.
    requires : sequence of Requirement
    among : collection of str, optional
        The losses that the method supports, if not all that meet the requirements.

    Raises
    ------
    ConfigError

    Examples
    --------
    >>> check_loss("Svm", "poisson", [BOUNDED_CURVATURE], among=["squared_hinge"])
    Traceback (most recent call last):
    daskfs.errors.ConfigError: loss: Svm does not take 'poisson': its curvature is unbounded; it takes squared_hinge
    """
    taken = losses_with(requires, among)
    if isinstance(name, str) and name in taken:
        return
    if not isinstance(name, str) or name not in LOSSES:
        hint = did_you_mean(str(name), taken)
        raise ConfigError(f"expected one of {', '.join(taken)}, found {name!r}{hint}", "loss", "choose one of them")
    lacks = [wanted.lack for wanted in requires if not wanted.holds(LOSSES[name])]
    why = f": {lacks[0]}" if lacks else ""
    raise ConfigError(f"{method} does not take {name!r}{why}", "loss", f"it takes {', '.join(taken)}")


def loss_for(
    method: str,
    kind: TargetKind,
    requires: Sequence[Requirement] = (),
    among: Collection[str] | None = None,
    prefers: str = "",
    several: bool = False,
) -> str:
    """Return the loss that a method uses by default for a target.

    Parameters
    ----------
    method, requires, among
        As for `check_loss`.
    kind : TargetKind
    prefers : str
        Preferred two-class loss; by default the first.
    several : bool
        Whether the method fits several classes with a two-class loss, one against the rest.

    Raises
    ------
    ConfigError
        The method does not support such a target. The error names the loss to set.

    Examples
    --------
    >>> loss_for("Message", TargetKind(2), [LIKELIHOOD]), loss_for("Message", TargetKind(3), [LIKELIHOOD])
    ('logistic', 'multinomial')
    """
    taken = losses_with(requires, among)
    numbers = [name for name in taken if not LOSSES[name].is_classifier]
    pairs = [name for name in taken if LOSSES[name].is_two_class]
    if prefers in pairs:
        pairs = [prefers]
    if kind.n_classes == 0 or not (pairs or kind.is_declared):
        return (numbers or pairs)[0]
    if kind.n_classes <= 2 and pairs:
        return pairs[0]
    if _SEVERAL in taken:
        return _SEVERAL
    if (several or not numbers) and pairs:
        return pairs[0]
    found = f"the target has {kind.n_classes} classes"
    if kind.n_whole:
        found = f"the target takes {kind.n_whole} whole values, which look like classes"
    remedy = "use message, online_substitution, async_online_substitution, mission or fgm, which take several classes"
    if not kind.is_declared:
        remedy = f"set loss={numbers[0]!r} if they are numbers, else {remedy}"
    takes = " or ".join(["numbers"] * bool(numbers) + ["two classes"] * bool(pairs))
    raise ConfigError(f"{found}; {method} takes {takes}", "loss", remedy)


def check_loss_for(
    name: str, kind: TargetKind, requires: Sequence[Requirement] = (), among: Collection[str] | None = None
) -> None:
    """Refuse a regression loss for texts, booleans and categories, and a classification loss for a continuous target.

    Raises
    ------
    ConfigError
        Names the losses to set.
    """
    if LOSSES[name].is_classifier and kind.is_continuous:
        fitting = [one for one in losses_with(requires, among) if LOSSES[one].target == "number"]
        remedy = f"set loss to {' or '.join(map(repr, fitting))}" if fitting else "code the classes as whole numbers"
        raise ConfigError(f"the {name} loss needs class labels, but the target is continuous", "loss", remedy)
    if not kind.is_declared or LOSSES[name].is_classifier:
        return
    others = [one for one in losses_with(requires, among) if LOSSES[one].is_classifier]
    fitting = [one for one in others if kind.n_classes <= 2 or not LOSSES[one].is_two_class] or others
    remedy = "code the classes as numbers, if that is what they are"
    if fitting:
        remedy = f"set loss to {' or '.join(map(repr, fitting))}, or leave it 'auto'"
    raise ConfigError(f"the {name} loss needs numbers, but the target has {kind.n_classes} classes", "loss", remedy)
