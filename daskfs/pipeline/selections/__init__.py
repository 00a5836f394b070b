"""The entries of `select` in a pipeline file: one file for each method and its competitors."""

from __future__ import annotations

from typing import Annotated, TypeAlias, get_args

from pydantic import Field

from daskfs.pipeline.selections.async_online_substitution import AsyncOnlineSubstitutionSelect
from daskfs.pipeline.selections.column_baselines import (
    AlphaInvestingSelect,
    GraftingSelect,
    LassoCutSelect,
    OnlineL0Select,
    OnlineL1Select,
    OrthogonalMatchingPursuitSelect,
    ProjGDSelect,
)
from daskfs.pipeline.selections.fgm import ActiveSetSelect, FgmSelect, L1LiblinearSelect, SgdSlrSelect
from daskfs.pipeline.selections.message import MessageSelect
from daskfs.pipeline.selections.message_baselines import AveragingSelect, BolassoSelect, FullDataSelect, MedianSelect
from daskfs.pipeline.selections.mission import MissionSelect
from daskfs.pipeline.selections.mission_baselines import (
    BatchIHTSelect,
    FeatureHashingSelect,
    IdentityMissionSelect,
    StochasticIHTSelect,
    ThresholdingSelect,
)
from daskfs.pipeline.selections.online_substitution import OnlineSubstitutionSelect

Selection: TypeAlias = Annotated[
    MessageSelect
    | OnlineSubstitutionSelect
    | AsyncOnlineSubstitutionSelect
    | FgmSelect
    | MissionSelect
    | StochasticIHTSelect
    | BatchIHTSelect
    | FeatureHashingSelect
    | ThresholdingSelect
    | IdentityMissionSelect
    | FullDataSelect
    | AveragingSelect
    | MedianSelect
    | BolassoSelect
    | ActiveSetSelect
    | L1LiblinearSelect
    | SgdSlrSelect
    | ProjGDSelect
    | LassoCutSelect
    | OrthogonalMatchingPursuitSelect
    | GraftingSelect
    | OnlineL1Select
    | OnlineL0Select
    | AlphaInvestingSelect,
    Field(discriminator="method"),
]


def key_of_n_features(method: str) -> str:
    """Return the parameter by which a method is told how many features to select."""
    for model in get_args(get_args(Selection)[0]):
        if method in get_args(model.model_fields["method"].annotation) and "n_features_to_select" in model.model_fields:
            return "n_features_to_select"
    return "max_features"
