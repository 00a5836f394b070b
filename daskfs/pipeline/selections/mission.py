"""What MISSION may be told."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from daskfs.pipeline.selections.section import Count, MethodSection, Positive, Share


class MissionSelect(MethodSection):
    """Stochastic gradient descent in a count-sketch (see `daskfs.selectors.mission.selector.Mission`)."""

    method: Literal["mission"]
    n_features_to_select: Count | None = Field(default=None, description="1,000 by default, or all if there are fewer")
    loss: Literal["squared", "logistic", "hinge", "squared_hinge", "multinomial"] = "squared"
    variant: Literal["active", "paper"] = "active"
    heap: bool = Field(default=False, description="with the paper's variant: the authors' lazy heap")
    tail: Literal["sketch", "identity"] = "sketch"
    n_buckets: Count | None = Field(default=None, description="a power of two: cells in a row of the sketch")
    n_hashes: Literal[1, 3, 5] = 3
    n_epochs: Count = 5
    learning_rate: Positive | None = Field(default=None, description="by default from the norms of the rows")
    intercept_rate: Share = 0.01
    tail_half_life: Positive | None = Field(default=1.0, description="in passes; null for never")
    block_rows: Count = 4096
    n_replicas: Count = 1
    sync_every: Count = 1000
    standardize: bool = Field(default=True, description="dense columns; sparse ones are taken as they are")
    class_weight: Literal["balanced"] | dict[float, float] | None = None
    refit: Literal["auto", "exact", "sgd"] | None = "auto"
