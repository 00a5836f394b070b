"""What MESSAGE may be told."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from daskfs.pipeline.selections.section import Count, MethodSection, Positive, Share


class MessageSelect(MethodSection):
    """Median selection over subsets of the rows (see `daskfs.selectors.message.selector.Message`)."""

    method: Literal["message"]
    n_subsets: Count | None = None
    subset_size: Annotated[int, Field(ge=2)] | None = None
    partition: Literal["random", "strided"] = "random"
    loss: Literal["squared", "logistic", "poisson", "huber", "multinomial"] = "squared"
    criterion: Literal["vote", "bic", "ric", "ebic"] = "vote"
    gamma: Share = 0.5
    penalty: Positive | None = Field(default=None, description="of one feature, instead of a criterion")
    sigma2: Positive | None = Field(default=None, description="variance of the noise, where it is known")
    gic_rss: Literal["refit", "lasso"] = "refit"
    approx: Literal["lsa"] | None = Field(default=None, description="of the path of a loss, for few features")
    tie: Literal["drop", "keep"] = "drop"
    second_look: bool = Field(
        default=True, description="whether features below a majority are kept where all subsets together confirm them"
    )
    average: Literal["one_step", "mean"] = "one_step"
    n_lambdas: Annotated[int, Field(ge=2)] = 100
    patience: Count | None = 10
    max_features: Count | None = None
