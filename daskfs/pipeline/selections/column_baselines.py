"""What the competitors of online substitution may be told."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from daskfs.pipeline.selections.section import Count, MethodSection, Positive


class _ColumnSelect(MethodSection):
    n_features_to_select: Count | None = Field(default=None, description="by default half of them, at most 100")
    loss: Literal["squared", "squared_hinge", "logistic"] = "squared"


class ProjGDSelect(_ColumnSelect):
    """Projected gradient descent (see `daskfs.baselines.columns.proj_gd.ProjGD`)."""

    method: Literal["proj_gd"]
    step: Literal["normalised", "restricted", "half", "full"] = "normalised"
    max_iter: Count = 500
    tol: Positive = 1e-5


class LassoCutSelect(_ColumnSelect):
    """An L1 penalty that keeps enough columns, cut (see `daskfs.baselines.columns.lasso_cut.LassoCut`)."""

    method: Literal["lasso_cut"]


class OrthogonalMatchingPursuitSelect(_ColumnSelect):
    """OMP (see `daskfs.baselines.columns.orthogonal_matching_pursuit.OrthogonalMatchingPursuit`)."""

    method: Literal["orthogonal_matching_pursuit"]
    per_pass: Count = 1
    ridge: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


class _StreamSelect(_ColumnSelect):
    n_epochs: Count = 2


class OnlineL0Select(_StreamSelect):
    """Coordinate descent that keeps the largest coefficients (see `daskfs.baselines.columns.online_l0.OnlineL0`)."""

    method: Literal["online_l0"]


class OnlineL1Select(_StreamSelect):
    """Coordinate descent with an L1 penalty (see `daskfs.baselines.columns.online_l1.OnlineL1`)."""

    method: Literal["online_l1"]
    penalty: Positive | None = Field(default=None, description="of the mean loss over standardised columns")


class GraftingSelect(_StreamSelect):
    """Grafting (see `daskfs.baselines.columns.grafting.Grafting`)."""

    method: Literal["grafting"]
    penalty: Positive | None = Field(default=None, description="of the mean loss over standardised columns")
    max_active: Count | None = Field(default=None, description="columns held, by default ten times the selected ones")


class AlphaInvestingSelect(_ColumnSelect):
    """Alpha-investing (see `daskfs.baselines.columns.alpha_investing.AlphaInvesting`)."""

    method: Literal["alpha_investing"]
    wealth: Annotated[float, Field(gt=0, le=1)] = 0.5
    payout: Annotated[float, Field(gt=0, le=1)] = 0.5
    n_epochs: Count = 1
