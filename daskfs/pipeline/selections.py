"""The entries of `select` in a pipeline file: what each method may be told."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import ConfigDict, Field

from daskfs.documents import Document

Count: TypeAlias = Annotated[int, Field(ge=1)]
Seed: TypeAlias = Annotated[int, Field(ge=0)]
Positive: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def one_or_list(value: Any) -> str:
    """Return the tag of a value that may stand alone or in a list."""
    return "list" if isinstance(value, list) else "one"


class Section(Document):
    """A part of a pipeline file."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_alias=True, validate_by_name=False)


class MessageSelect(Section):
    """Median selection over subsets of the rows (see `daskfs.selectors.message.Message`)."""

    method: Literal["message"]
    label: str | None = Field(default=None, pattern=r"^[\w.=+-]+$", description="name of this selection in the report")
    n_subsets: Count | None = None
    subset_size: Annotated[int, Field(ge=2)] | None = None
    partition: Literal["random", "strided"] = "random"
    loss: Literal["squared", "logistic", "poisson", "huber"] = "squared"
    criterion: Literal["bic", "ric", "ebic"] = "ebic"
    gamma: Annotated[float, Field(ge=0, le=1)] = 0.5
    penalty: Positive | None = Field(default=None, description="of one feature, instead of a criterion")
    sigma2: Positive | None = Field(default=None, description="variance of the noise, where it is known")
    gic_rss: Literal["refit", "lasso"] = "refit"
    approx: Literal["lsa"] | None = Field(default=None, description="of the path of a loss, for few features")
    tie: Literal["drop", "keep"] = "drop"
    average: Literal["one_step", "mean"] = "one_step"
    n_lambdas: Annotated[int, Field(ge=2)] = 100
    patience: Count | None = 10
    max_features: Count | None = None
    random_state: Seed = 0


class _BaselineSelect(Section):
    label: str | None = Field(default=None, pattern=r"^[\w.=+-]+$", description="name of this selection in the report")
    criterion: Literal["bic", "ric", "ebic"] = "ebic"
    gamma: Annotated[float, Field(ge=0, le=1)] = 0.5
    gic_rss: Literal["refit", "lasso"] = "refit"
    n_lambdas: Annotated[int, Field(ge=2)] = 100
    patience: Count | None = 10
    max_features: Count | None = None
    loss: Literal["squared", "logistic", "poisson", "huber"] = "squared"
    random_state: Seed = 0


class FullDataSelect(_BaselineSelect):
    """One Lasso on all rows (see `daskfs.baselines.full_data.FullData`)."""

    method: Literal["full_data"]


class _SubsetSelect(_BaselineSelect):
    n_subsets: Count | None = None
    subset_size: Annotated[int, Field(ge=2)] | None = None


class AveragingSelect(_SubsetSelect):
    """The mean of the subsets' Lasso estimates (see `daskfs.baselines.averaging.Averaging`)."""

    method: Literal["averaging"]


class MedianSelect(_SubsetSelect):
    """The coordinate-wise median of the subsets' Lasso estimates (see `daskfs.baselines.median.Median`)."""

    method: Literal["median"]


class BolassoSelect(_BaselineSelect):
    """What the Lasso selects on every bootstrap sample (see `daskfs.baselines.bolasso.Bolasso`)."""

    method: Literal["bolasso"]
    n_bootstraps: Count = 32
    threshold: Annotated[float, Field(gt=0, le=1)] = 1.0


Selection: TypeAlias = Annotated[
    MessageSelect | FullDataSelect | AveragingSelect | MedianSelect | BolassoSelect, Field(discriminator="method")
]
