"""The papers' competitors, with the interface and the report of the selectors; each in a file of its own.

The names are fetched when first used: ``from daskfs.baselines import Bolasso``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_FILE_OF = {
    # of MESSAGE
    "Averaging": "lasso.averaging",
    "Bolasso": "lasso.bolasso",
    "FullData": "lasso.full_data",
    "Median": "lasso.median",
    # of online substitution
    "AlphaInvesting": "columns.alpha_investing",
    "Grafting": "columns.grafting",
    "LassoCut": "columns.lasso_cut",
    "OnlineL0": "columns.online_l0",
    "OnlineL1": "columns.online_l1",
    "OrthogonalMatchingPursuit": "columns.orthogonal_matching_pursuit",
    "ProjGD": "columns.proj_gd",
    # of MISSION
    "StochasticIHT": "thresholding.iht_sgd",
    "BatchIHT": "thresholding.iht_sgd",
    "FeatureHashing": "thresholding.feature_hashing",
    **dict.fromkeys(["IHT", "ITI", "PHT", "IdentityMission"], "thresholding.full_gradient"),
    # of FGM
    "ActiveSet": "linear.active_set",
    "L1Liblinear": "linear.l1_liblinear",
    "SgdSlr": "linear.sgd_slr",
}

__all__ = sorted(_FILE_OF)


def __getattr__(name: str) -> Any:
    if name not in _FILE_OF:
        raise AttributeError(f"module 'daskfs.baselines' has no attribute {name!r}")
    return getattr(import_module(f"daskfs.baselines.{_FILE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
