"""What FGM and its competitors may be told."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag

from daskfs.pipeline.selections.section import Count, MethodSection, Positive

Tolerance: TypeAlias = Annotated[float, Field(ge=0, lt=1)]
LossWeight: TypeAlias = Annotated[
    Annotated[Literal["validation"], Tag("word")] | Annotated[Positive, Tag("number")],
    Discriminator(lambda value: "word" if isinstance(value, str) else "number"),
]


class FgmSelect(MethodSection):
    """The feature generating machine (see `daskfs.selectors.fgm.selector.FGM`)."""

    method: Literal["fgm"]
    n_features_to_select: Count | None = Field(default=None, description="exactly so many")
    n_features_per_pass: Count | None = Field(default=None, description="the paper's B")
    loss: Literal["squared_hinge", "logistic", "squared"] = "squared_hinge"
    C: LossWeight | None = Field(default=None, description="weight of the loss; by default from rows and columns")
    fit_intercept: bool = True
    center: bool = True
    normalize: bool = True
    tol: Tolerance = 1e-3
    max_passes: Count | None = None
    validation: Annotated[float, Field(gt=0, lt=1)] | None = Field(default=None, description="share of rows held out")
    patience: Count = 3
    solver: Literal["apg", "exact", "simple_mkl"] = "apg"
    inner_tol: Tolerance = 1e-3
    max_inner: Count = 50
    certify: bool = Field(default=False, description="one more pass, for the duality gap of the final model")
    debias: bool = Field(default=False, description="coefficients of a refit on the selected features")


class ActiveSetSelect(MethodSection):
    """One column in each pass (see `daskfs.baselines.linear.active_set.ActiveSet`)."""

    method: Literal["active_set"]
    n_features_to_select: Count | None = Field(default=None, description="exactly so many")
    loss: Literal["squared_hinge", "logistic", "squared"] = "squared_hinge"
    C: LossWeight | None = None
    fit_intercept: bool = True
    tol: Tolerance = 1e-3
    max_passes: Count | None = None
    inner_tol: Tolerance = 1e-3
    max_inner: Count = 50


class L1LiblinearSelect(MethodSection):
    """l1-SVM and l1-LR by liblinear (see `daskfs.baselines.linear.l1_liblinear.L1Liblinear`)."""

    method: Literal["l1_liblinear"]
    n_features_to_select: Count | None = None
    C: Positive | None = None
    loss: Literal["squared_hinge", "logistic"] = "squared_hinge"
    fit_intercept: bool = True
    tol: Positive = 1e-3
    max_iter: Count = 1000
    debias: bool = Field(default=False, description="coefficients of a refit on the selected features")


class SgdSlrSelect(MethodSection):
    """Sparse logistic regression by proximal SDCA (see `daskfs.baselines.linear.sgd_slr.SgdSlr`)."""

    method: Literal["sgd_slr"]
    n_features_to_select: Count | None = None
    C: Positive | None = None
    ridge: Positive = 1e-4
    tol: Positive = 1e-4
    max_epochs: Count = 200
    fit_intercept: bool = True

    @property
    def loss(self) -> str:
        """The logistic loss."""
        return "logistic"
