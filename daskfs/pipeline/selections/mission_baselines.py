"""What the competitors of MISSION may be told."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from daskfs.pipeline.selections.section import Count, MethodSection, Positive


class _RowSelect(MethodSection):
    n_epochs: Count = 5
    learning_rate: Positive | None = Field(default=None, description="by default from the norms of the rows")
    standardize: bool = Field(default=True, description="dense columns; sparse ones are taken as they are")
    class_weight: Literal["balanced"] | dict[float, float] | None = None


class StochasticIHTSelect(_RowSelect):
    """Hard thresholding after every row (see `daskfs.baselines.thresholding.iht_sgd.StochasticIHT`)."""

    method: Literal["iht_sgd"]
    n_features_to_select: Count | None = None
    loss: Literal["squared", "logistic", "hinge", "squared_hinge"] = "squared"
    refit: Literal["auto", "exact", "sgd"] | None = "auto"


class BatchIHTSelect(_RowSelect):
    """Hard thresholding of features that gathered (see `daskfs.baselines.thresholding.iht_sgd.BatchIHT`)."""

    method: Literal["batch_iht"]
    n_features_to_select: Count | None = None
    n_gathered: Count = 1 << 16
    loss: Literal["squared", "logistic", "hinge", "squared_hinge", "multinomial"] = "squared"
    refit: Literal["auto", "exact", "sgd"] | None = "auto"


class FeatureHashingSelect(_RowSelect):
    """All features, hashed (see `daskfs.baselines.thresholding.feature_hashing.FeatureHashing`)."""

    method: Literal["feature_hashing"]
    n_buckets: Count | None = Field(default=None, description="a power of two")
    loss: Literal["squared", "logistic", "hinge", "squared_hinge", "multinomial"] = "squared"


class ThresholdingSelect(MethodSection):
    """Hard thresholding with full gradients (see `daskfs.baselines.thresholding.full_gradient`)."""

    method: Literal["iht", "iti", "pht"]
    n_features_to_select: Count | None = None
    loss: Literal["squared"] = "squared"
    step_size: Positive = Field(default=1.0, description="times the number of rows")
    n_steps: Count = 300


class IdentityMissionSelect(MethodSection):
    """MISSION with full gradients (see `daskfs.baselines.thresholding.full_gradient.IdentityMission`)."""

    method: Literal["identity_mission"]
    n_features_to_select: Count | None = None
    loss: Literal["squared"] = "squared"
    step_size: Positive = Field(default=0.1, description="times the number of rows")
    n_steps: Count = 1000
    last_factor: Annotated[float, Field(gt=0, le=1)] = 0.98
    n_buckets: Count | None = Field(default=None, description="a sketch instead of one cell for each feature")
