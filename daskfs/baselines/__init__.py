"""The papers' competitors, with the interface and the report of the selectors; each in a file of its own.

The names are fetched when first used: ``from daskfs.baselines import Bolasso``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_FILE_OF = {"Averaging": "averaging", "Bolasso": "bolasso", "FullData": "full_data", "Median": "median"}
_FILE_OF |= {  # the competitors of online substitution
    "AlphaInvesting": "alpha_investing",
    "Grafting": "grafting",
    "LassoCut": "lasso_cut",
    "OnlineL0": "online_l0",
    "OnlineL1": "online_l1",
    "OrthogonalMatchingPursuit": "orthogonal_matching_pursuit",
    "ProjGD": "proj_gd",
}

_FILE_OF |= {"StochasticIHT": "iht_sgd", "BatchIHT": "iht_sgd", "FeatureHashing": "feature_hashing"}
_FILE_OF |= dict.fromkeys(["IHT", "ITI", "PHT", "IdentityMission"], "full_gradient")

_FILE_OF |= {"ActiveSet": "active_set", "L1Liblinear": "l1_liblinear", "SgdSlr": "sgd_slr"}  # the competitors of FGM

__all__ = sorted(_FILE_OF)


def __getattr__(name: str) -> Any:
    if name not in _FILE_OF:
        raise AttributeError(f"module 'daskfs.baselines' has no attribute {name!r}")
    return getattr(import_module(f"daskfs.baselines.{_FILE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
