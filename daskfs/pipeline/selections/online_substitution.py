"""What online substitution may be told."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from daskfs.pipeline.selections.section import Count, MethodSection, Positive

NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Column = Annotated[int, Field(ge=0)] | str


class OnlineSubstitutionSelect(MethodSection):
    """A stream of columns, s of them held (see `daskfs.selectors.online_substitution.selector.OnlineSubstitution`)."""

    method: Literal["online_substitution"]
    n_features_to_select: Count | None = None
    rule: Literal["exchange", "os", "paper"] = "exchange"
    loss: Literal["squared", "squared_hinge", "logistic", "epsilon_insensitive"] = "squared"
    n_epochs: Count = 3
    order: Literal["fixed", "shuffled"] | list[Annotated[int, Field(ge=0)]] = "fixed"
    check: bool = Field(default=True, description="of the rules os and paper: newcomers must lower the loss")
    engine: Literal["auto", "gram", "lazy", "naive"] = "auto"
    schedule: Literal["sequential", "screen"] = "sequential"
    standardise: bool = True
    fit_intercept: bool = True
    ridge: NotNegative | None = Field(default=None, description="on standardised weights, while selecting")
    epsilon: NotNegative | None = Field(default=None, description="errors that cost nothing, with epsilon_insensitive")
    eta: Positive | None = Field(default=None, description="step of the paper's rule")
    m: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.0
    c: Annotated[float, Field(ge=0, le=1)] = 0.5
    lipschitz: Positive | None = Field(default=None, description="L_F of the paper's rule")
    tolerance: Annotated[float, Field(ge=0, le=1)] | None = None
    always_include: list[Column] | None = Field(default=None, description="columns by number or name")
    block_columns: Count | None = None
