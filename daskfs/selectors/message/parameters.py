"""What the parameters of MESSAGE may be."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from daskfs.errors import ConfigError, did_you_mean
from daskfs.kernels.losses import LIKELIHOODS
from daskfs.selectors.message.plan import is_whole
from daskfs.selectors.message.subset import SelectionSettings

if TYPE_CHECKING:
    from daskfs.selectors.message.selector import Message


def check_parameters(selector: Message) -> None:
    """Refuse what a parameter of MESSAGE cannot be.

    Raises
    ------
    ConfigError
        Naming the parameter.
    """
    choices = {
        "partition": ("random", "strided"),
        "criterion": ("vote", "bic", "ric", "ebic"),
        "gic_rss": ("refit", "lasso"),
        "approx": (None, "lsa"),
        "tie": ("drop", "keep"),
        "average": ("one_step", "mean"),
        "loss": (*LIKELIHOODS, "multinomial"),
    }
    for name, known in choices.items():
        value = getattr(selector, name)
        if value not in known:
            hint = did_you_mean(str(value), map(str, known))
            raise ConfigError(f"expected one of {', '.join(map(str, known))}, found {value!r}{hint}", name)
    if not isinstance(selector.second_look, bool | np.bool_):
        raise ConfigError(f"expected true or false, found {selector.second_look!r}", "second_look")
    if not isinstance(selector.gamma, Real) or not 0.0 <= selector.gamma <= 1.0:
        raise ConfigError(f"expected a number from 0 to 1, found {selector.gamma!r}", "gamma")
    for name in ("penalty", "sigma2"):
        value = getattr(selector, name)
        if value is not None and not (isinstance(value, Real) and 0.0 < float(value) < np.inf):
            raise ConfigError(f"expected a positive number, found {value!r}", name)
    for name, least in (("n_lambdas", 2), ("patience", 1), ("max_features", 1)):
        value = getattr(selector, name)
        if value is not None and not is_whole(value, least):
            raise ConfigError(f"expected a whole number of at least {least}, found {value!r}", name)


def settings_of(selector: Message, n_subsets: int, codes: np.ndarray | None, threshold: float) -> SelectionSettings:
    """Return how subsets select.

    Parameters
    ----------
    selector : Message
    n_subsets : int
        That vote together.
    codes : ndarray of shape (n_classes,), optional
        Values that a target of classes takes, ascending.
    threshold : float
        Of the Huber loss.
    """
    is_multinomial = selector.loss == "multinomial"
    return SelectionSettings(
        criterion=selector.criterion,
        gamma=selector.gamma,
        refit=selector.gic_rss == "refit",
        n_lambdas=selector.n_lambdas,
        patience=selector.patience,
        max_features=selector.max_features,
        penalty=selector.penalty,
        sigma2=selector.sigma2,
        loss=selector.loss,
        positive=None if codes is None or is_multinomial else float(codes[1]),
        threshold=threshold,
        estimator=selector.estimator,
        approximate=selector.approx == "lsa",
        n_subsets=n_subsets,
        classes=tuple(map(float, codes)) if is_multinomial and codes is not None else (),
    )
