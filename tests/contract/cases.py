"""Which variants of the methods are examined, and what the examination must know of them.

Of the table in `tests.variants` it takes every method's plain call, the variants whose results are not kept, and those
of `WAYS`. The rest is said by name, or by method of all its variants: `UNFIT` says which check does not apply and why,
`BROKEN` which one is known to fail.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from daskfs.methods import MODEL_SELECTION
from tests.tolerances import tolerance_of
from tests.variants import VARIANTS, Options, Variant

WAYS = {
    "message": [
        *("prediction", "estimator-lasso", "logistic", "poisson", "huber", "multinomial"),
        *("groups-squared", "groups-logistic", "always-include", "always-include-logistic"),
    ],
    "online_substitution": [
        *("exchange-logistic", "os-squared", "os-squared_hinge", "exchange-engine-lazy", "paper-engine-naive"),
        *("screen", "groups", "groups-counted-in-columns", "groups-logistic", "groups-os-squared_hinge"),
        *("groups-paper", "groups-screen", "three-classes", "three-classes-screen"),
    ],
    "async_online_substitution": ["os-logistic", "always-include", "three-classes", "three-classes-synchronous"],
    "fgm": [
        *("certified", "three-squared_hinge", "three-logistic", "groups", "groups-counted-in-columns"),
        *("pairs", "pairs-three-classes", "always-include", "weighted-always-include"),
    ],
    "mission": [
        "multinomial",
        "few-buckets",
        "sgd-refit",
        "replicas",
        "paper-squared",
        "paper-multinomial",
        "always-include",
    ],
    "group_lasso": ["bcd-squared_hinge", "fista-squared", "single-columns"],
}
"""Golden variants that take a way of their own through the code."""

OPTIONS: dict[str, Options] = {"mission": {"block_rows": 200}}
"""Options beside those of the table: with these the rows come in several blocks."""

SPARSE = {method: {"standardize": False} for method in ("mission", "iht_sgd", "batch_iht", "feature_hashing")}
"""Options with which sparse columns are the same problem as dense ones."""

MANY_FEATURES = {"n_features_to_select": 32, "n_features_per_pass": 32}
LARGE_SKETCH = {"n_buckets": 1 << 14, "block_rows": 10_000}  # beside which there is room for more rows than one
ON_TALL_DATA: dict[str, Options] = {
    **dict.fromkeys(("fgm-certified", "fgm-certified-logistic", "fgm-certified-squared"), MANY_FEATURES),
    **dict.fromkeys(("mission-paper-squared", "mission-paper-multinomial"), LARGE_SKETCH),
    "mission-replicas": {"sync_every": 10_000},
}
"""Options that fill a task's memory, where all features of a pass come at once."""

Reasons = list[tuple[Collection[str], str, tuple[str, ...]]]
BLOCKS = ("blocks_one_after_the_other_give_the_answer_of_fit",)
LIMIT = ("a_memory_limit_is_planned_as_it_is_kept_and_keeps_the_answer",)
PIPELINE = ("runs_in_a_pipeline",)
RESUMED = ("a_fit_resumed_after_any_save_ends_with_the_same_bits",)
SPARSE_STORE = ("a_sparse_store_gives_the_answer_of_a_dense_one",)
ANY_SPARSE = ("sparse_columns_give_the_answer_of_dense_ones", *SPARSE_STORE)
UNFIT: Reasons = [
    ({"message-estimator-lasso"}, "an estimator is an object: a pipeline file has no word for it", PIPELINE),
    (MODEL_SELECTION, "a pipeline file names the selector inside, and has a section of its own for it", PIPELINE),
    ({"online_substitution-cv", "online_substitution-cv-refit"}, "cross-validation reads rows several times", BLOCKS),
    ({"message-refit", "fgm-refit"}, "a refit reads the selected columns again", BLOCKS),
    ({"iht", "iti", "pht", "identity_mission"}, "one task, which keeps nothing", RESUMED),
    ({"fgm-pairs", "fgm-pairs-three-classes"}, "products of dense columns are summed by bands of rows", ANY_SPARSE),
    ({"l1_liblinear", "sgd_slr"}, "dense columns are standardised, sparse ones are taken as they are", ANY_SPARSE),
    ({"auto-compared"}, "what does not keep the limit takes no part", LIMIT),
    ({"auto-compared"}, "ridges hold entries in float64, dense columns in float32", SPARSE_STORE),
]
BROKEN: Reasons = []


@dataclass(frozen=True)
class Case(Variant):
    """A variant, with what the examination must know of it."""

    sparse: Options = field(default_factory=dict)
    on_tall_data: Options = field(default_factory=dict)
    unfit: dict[str, str] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)

    @property
    def rtol(self) -> float:
        """How close the answers of two fits must be where they need not be the same bits."""
        return tolerance_of(self.method)


def _is_examined(variant: Variant) -> bool:
    way = variant.name.partition("-")[2]
    return not way or not variant.inputs or way in WAYS.get(variant.method, ())


def _case(variant: Variant) -> Case:
    def more(table: dict[str, Options]) -> Options:
        return table.get(variant.method, {}) | table.get(variant.name, {})

    def reasons(table: Reasons) -> dict[str, str]:
        named = {variant.method, variant.name}
        return {check: reason for names, reason, checks in table for check in checks if not named.isdisjoint(names)}

    known = {"sparse": more(SPARSE), "on_tall_data": more(ON_TALL_DATA), "options": variant.options | more(OPTIONS)}
    return Case(**(vars(variant) | known), unfit=reasons(UNFIT), broken=reasons(BROKEN))


CASES = [_case(variant) for variant in VARIANTS if _is_examined(variant)]

OF_EACH_KIND = [
    *("message", "online_substitution", "async_online_substitution", "fgm", "mission"),
    *("auto", "stability", "selection_cv"),
]
"""Those that are examined by default: each system, and what is built around a selector."""
