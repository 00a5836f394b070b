"""Registry of methods: name in pipelines and reports -> ``"module:Class"``, imported on first use.

To add a method, write a package and add a line here. Imports from `daskfs`, pipeline files, ``--method``, reports,
compilation ahead of time and the contract tests of all methods (``tests/contract/``) use this registry.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from daskfs.errors import ConfigError, did_you_mean

SELECTORS = {
    "message": "daskfs.selectors.message.selector:Message",
    "online_substitution": "daskfs.selectors.online_substitution.selector:OnlineSubstitution",
    "async_online_substitution": "daskfs.selectors.asy_os.selector:AsyncOnlineSubstitution",
    "fgm": "daskfs.selectors.fgm.selector:FGM",
    "mission": "daskfs.selectors.mission.selector:Mission",
}
"""Public as ``daskfs.<Class>``."""

BASELINES = {
    # in the paper on MISSION
    "iht_sgd": "daskfs.baselines.thresholding.iht_sgd:StochasticIHT",
    "batch_iht": "daskfs.baselines.thresholding.iht_sgd:BatchIHT",
    "feature_hashing": "daskfs.baselines.thresholding.feature_hashing:FeatureHashing",
    "iht": "daskfs.baselines.thresholding.full_gradient:IHT",
    "iti": "daskfs.baselines.thresholding.full_gradient:ITI",
    "pht": "daskfs.baselines.thresholding.full_gradient:PHT",
    "identity_mission": "daskfs.baselines.thresholding.full_gradient:IdentityMission",
    # in the paper on MESSAGE
    "full_data": "daskfs.baselines.lasso.full_data:FullData",
    "averaging": "daskfs.baselines.lasso.subset_estimates:Averaging",
    "median": "daskfs.baselines.lasso.subset_estimates:Median",
    "bolasso": "daskfs.baselines.lasso.bolasso:Bolasso",
    # in the paper on FGM
    "active_set": "daskfs.baselines.linear.active_set:ActiveSet",
    "l1_liblinear": "daskfs.baselines.linear.l1_liblinear:L1Liblinear",
    "sgd_slr": "daskfs.baselines.linear.sgd_slr:SgdSlr",
    "group_lasso": "daskfs.baselines.linear.group_lasso:GroupLasso",
    "ufo_mkl": "daskfs.baselines.linear.ufo_mkl:UfoMkl",
    # in the paper on online substitution
    "proj_gd": "daskfs.baselines.columns.proj_gd:ProjGD",
    "lasso_cut": "daskfs.baselines.columns.lasso_cut:LassoCut",
    "orthogonal_matching_pursuit": "daskfs.baselines.columns.orthogonal_matching_pursuit:OrthogonalMatchingPursuit",
    "grafting": "daskfs.baselines.columns.streams:Grafting",
    "online_l1": "daskfs.baselines.columns.streams:OnlineL1",
    "online_l0": "daskfs.baselines.columns.streams:OnlineL0",
    "alpha_investing": "daskfs.baselines.columns.alpha_investing:AlphaInvesting",
}
"""The papers' comparison methods, public as ``daskfs.baselines.<Class>``."""

CHOOSERS = {
    "auto": "daskfs.model_selection.auto:Auto",
}
"""Methods that choose one of the selectors, public as ``daskfs.<Class>``."""

METHODS = {**SELECTORS, **CHOOSERS, **BASELINES}

MODEL_SELECTION = {
    "selection_cv": "daskfs.model_selection.selection_cv:SelectionCV",
    "knockoffs": "daskfs.model_selection.knockoffs:Knockoffs",
    "stability": "daskfs.model_selection.stability:StabilitySelection",
    "split_inference": "daskfs.model_selection.split_inference:SplitInference",
}
"""Meta-estimators that have a selector as a parameter, public as ``daskfs.<Class>``. In a pipeline file they are
sections beside the selector's, not a ``method:``."""


def find_method(name: str) -> Any:
    """Return the class of a method.

    Raises
    ------
    ConfigError
        The method does not exist.

    Examples
    --------
    >>> find_method("message").__name__
    'Message'
    """
    if name not in METHODS:
        problem = f"expected one of {', '.join(METHODS)}, found {name!r}{did_you_mean(str(name), METHODS)}"
        raise ConfigError(problem, "method", "choose one of them")
    return load(METHODS[name])


def load(place: str) -> Any:
    """Import and return the object at ``"module:name"``."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def by_class(places: dict[str, str]) -> dict[str, str]:
    """Return ``"module:Class"`` by class name."""
    return {place.partition(":")[2]: place for place in places.values()}
