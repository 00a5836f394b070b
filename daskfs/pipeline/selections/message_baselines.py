"""What the competitors of MESSAGE may be told."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from daskfs.pipeline.selections.section import Count, MethodSection, Share


class _BaselineSelect(MethodSection):
    criterion: Literal["bic", "ric", "ebic"] = "ebic"
    gamma: Share = 0.5
    gic_rss: Literal["refit", "lasso"] = "refit"
    n_lambdas: Annotated[int, Field(ge=2)] = 100
    patience: Count | None = 10
    max_features: Count | None = None
    loss: Literal["squared", "logistic", "poisson", "huber", "multinomial"] = "squared"


class FullDataSelect(_BaselineSelect):
    """One Lasso on all rows (see `daskfs.baselines.lasso.full_data.FullData`)."""

    method: Literal["full_data"]


class _SubsetSelect(_BaselineSelect):
    n_subsets: Count | None = None
    subset_size: Annotated[int, Field(ge=2)] | None = None


class AveragingSelect(_SubsetSelect):
    """The mean of the subsets' Lasso estimates (see `daskfs.baselines.lasso.averaging.Averaging`)."""

    method: Literal["averaging"]


class MedianSelect(_SubsetSelect):
    """The coordinate-wise median of the subsets' Lasso estimates (see `daskfs.baselines.lasso.median.Median`)."""

    method: Literal["median"]


class BolassoSelect(_BaselineSelect):
    """What the Lasso selects on every bootstrap sample (see `daskfs.baselines.lasso.bolasso.Bolasso`)."""

    method: Literal["bolasso"]
    n_bootstraps: Count = 32
    threshold: Annotated[float, Field(gt=0, le=1)] = 1.0
