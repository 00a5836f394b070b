"""What the parameters of asynchronous online substitution may be, and what stands for those that were not given."""

from __future__ import annotations

import math
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from daskfs.errors import ConfigError, did_you_mean
from daskfs.selectors.message.plan import is_whole
from daskfs.selectors.online_substitution.parameters import LOSSES, RULES

if TYPE_CHECKING:
    from daskfs.selectors.asy_os.selector import AsyncOnlineSubstitution

SCHEDULES = ("asynchronous", "simulated", "synchronous")


def check_parameters(selector: AsyncOnlineSubstitution) -> None:
    """Refuse what a parameter cannot be.

    Raises
    ------
    ConfigError
        Naming the parameter.
    """
    choices = {"rule": RULES, "loss": tuple(LOSSES), "schedule": SCHEDULES}
    for name, known in choices.items():
        value = getattr(selector, name)
        if value not in known:
            hint = did_you_mean(str(value), known)
            raise ConfigError(f"expected one of {', '.join(known)}, found {value!r}{hint}", name, "choose one of them")
    for name in ("n_features_to_select", "n_workers", "block_columns"):
        value = getattr(selector, name)
        if value is not None and not is_whole(value, 1):
            raise ConfigError(f"expected a whole number of at least 1, found {value!r}", name)
    if selector.tau_max is not None and not is_whole(selector.tau_max, 0):
        raise ConfigError(f"expected a whole number of at least 0, found {selector.tau_max!r}", "tau_max")
    if not is_whole(selector.n_epochs, 1):
        raise ConfigError(f"expected a whole number of at least 1, found {selector.n_epochs!r}", "n_epochs")
    for name, least, most in (
        ("slots", 1.0, np.inf), ("ridge", 0.0, np.inf), ("epsilon", 0.0, np.inf), ("eta", 1e-300, np.inf),
        ("m", 1.0, np.inf), ("c", 0.0, 1.0), ("lipschitz", 1e-300, np.inf), ("tolerance", 0.0, 1.0),
        ("timeout_s", 0.0, np.inf),
    ):  # fmt: skip
        value = getattr(selector, name)
        if value is not None and not (isinstance(value, Real) and least <= float(value) <= most and value < np.inf):
            span = f"from {least:g} to {most:g}" if most < np.inf else f"of at least {least:g}"
            raise ConfigError(f"expected a number {span}, found {value!r}", name)


def capacity_of(n_selected: int, n_workers: int, slots: float) -> int:
    """Return how many columns each worker may hold: s of one worker, a share of `slots` times s of several.

    Examples
    --------
    >>> capacity_of(100, 1, 1.5), capacity_of(100, 20, 1.5), capacity_of(100, 20, 1.0)
    (100, 8, 5)
    """
    if n_workers == 1:
        return n_selected
    return min(n_selected, math.ceil(slots * n_selected / n_workers))


def stretch_of(n_workers: int, n_features: int, n_selected: int, m: float, c: float, tau_max: int) -> float:
    """Return ρ of Theorem 2, where L_f is that of the columns held: the step is 0.5 / L_F (1 + ρ).

    The theorem asks for eta < 1 / 2 (L_F + (1/2m²q + 1/2(p - s)) L_f² τ² / c L_F).

    Examples
    --------
    >>> stretch_of(20, 6000, 100, 5.0, 0.5, 20)
    0.8677966101694915
    """
    rest = max(1, n_features - n_selected)
    return (0.5 / (m * m * n_workers) + 0.5 / rest) * tau_max**2 / max(c, 1e-3)


def shown_parameters(selector: Any, **found: Any) -> dict[str, Any]:
    """Return the parameters as a result keeps them, with what stood for those that were not given."""
    parameters = {**selector.get_params(deep=False), **found}
    del parameters["client"]
    return parameters
