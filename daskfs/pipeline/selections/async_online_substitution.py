"""What asynchronous online substitution may be told."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from daskfs.pipeline.selections.online_substitution import NotNegative
from daskfs.pipeline.selections.section import Count, MethodSection, Positive


class AsyncOnlineSubstitutionSelect(MethodSection):
    """Workers around a central node (see `daskfs.selectors.asy_os.selector.AsyncOnlineSubstitution`)."""

    method: Literal["async_online_substitution"]
    n_features_to_select: Count | None = None
    n_workers: Count | None = Field(default=None, description="by default one for each thread of the cluster")
    schedule: Literal["asynchronous", "simulated", "synchronous"] = "asynchronous"
    rule: Literal["exchange", "os", "paper"] = "exchange"
    loss: Literal["squared", "squared_hinge", "logistic", "epsilon_insensitive"] = "squared"
    n_epochs: Count = 3
    slots: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.5
    other_worker: bool = Field(default=True, description="each epoch shows a column to another worker")
    check: bool = Field(default=True, description="the central node refuses what raises the objective")
    tau_max: Annotated[int, Field(ge=0)] | None = Field(default=None, description="by default 2 n_workers")
    block_columns: Count | None = Field(default=None, description="columns for each message; measured by default")
    standardise: bool = True
    ridge: NotNegative | None = Field(default=None, description="on standardised weights, while selecting")
    epsilon: NotNegative | None = Field(default=None, description="errors that cost nothing, with epsilon_insensitive")
    eta: Positive | None = Field(default=None, description="step of the paper's rule")
    m: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.0
    c: Annotated[float, Field(ge=0, le=1)] = 0.5
    lipschitz: Positive | None = Field(default=None, description="L_F of the paper's rule")
    tolerance: Annotated[float, Field(ge=0, le=1)] | None = None
    timeout_s: NotNegative = 30.0
