"""How every method is to be examined: one Case for each, and one more where a variant takes a way of its own.

A new method passes the examination by adding a Case. The constructor's arguments are small, so that a fit takes
milliseconds; `unfit` says which check does not apply and why, `broken` which one is known to fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sklearn.linear_model import Lasso

import daskfs
import daskfs.baselines
from tests.tolerances import tolerance_of


@dataclass(frozen=True)
class Case:
    """A method with its arguments.

    What it is (a classifier, one that is told a number of features, one that learns from more rows) is asked of the
    estimator, not said here.
    """

    name: str
    """``method`` as in a pipeline file, or ``method-variant``."""
    selector: str
    """Public name of the class."""
    options: dict[str, Any] = field(default_factory=dict)
    target: str = "numbers"
    sparse: dict[str, Any] = field(default_factory=dict)
    """Options with which sparse columns are the same problem as dense ones."""
    on_tall_data: dict[str, Any] = field(default_factory=dict)
    """Options that fill a task's memory, where all features of a pass come at once."""
    unfit: dict[str, str] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)

    @property
    def method(self) -> str:
        """Name in a pipeline file."""
        return self.name.partition("-")[0]

    @property
    def rtol(self) -> float:
        """How close the answers of two fits must be where they need not be the same bits."""
        return tolerance_of(self.method)

    def make(self, **more: Any) -> Any:
        """Return a selector that was not fitted."""
        room = daskfs if self.selector in daskfs.__all__ else daskfs.baselines
        return getattr(room, self.selector)(**(self.options | more))


def _selectors() -> Iterator[Case]:
    message = {"n_subsets": 5, "loss": "squared"}
    yield Case("message", "Message", message)
    yield Case("message-prediction", "Message", message | {"goal": "prediction"})
    targets = {"logistic": "classes", "poisson": "counts", "huber": "numbers", "multinomial": "three classes"}
    for loss, target in targets.items():
        yield Case(f"message-{loss}", "Message", message | {"loss": loss}, target)
    groups: dict[str, Any] = {"feature_groups": {"one": [0, 7, 8], "two": [1, 3, 4, 9]}}
    yield Case("message-groups", "Message", message | groups)
    yield Case("message-groups-logistic", "Message", message | groups | {"loss": "logistic"}, "classes")
    in_document = {"runs_in_a_pipeline": "an estimator is an object: a pipeline file has no word for it"}
    yield Case("message-estimator", "Message", message | {"estimator": Lasso(alpha=0.1)}, unfit=in_document)
    substitution = {"n_features_to_select": 6, "loss": "squared", "rule": "exchange"}
    for variant, more in {
        "": {},
        "-os": {"rule": "os"},
        "-paper": {"rule": "paper", "engine": "naive"},
        "-logistic": {"loss": "logistic"},
        "-os-squared_hinge": {"rule": "os", "loss": "squared_hinge"},
        "-lazy": {"engine": "lazy", "order": "shuffled"},
        "-screen": {"schedule": "screen"},
    }.items():
        options: dict[str, Any] = substitution | more
        target = "numbers" if options["loss"] == "squared" else "classes"
        yield Case(f"online_substitution{variant}", "OnlineSubstitution", options, target)
    some = {"one": [0, 7, 8], "two": [1, 3, 4, 9], "three": [2, 5], "four": [16, 11]}
    whole: dict[str, Any] = {"feature_groups": some}
    columns = {"counts": "features", "n_features_to_select": 8, "order": "shuffled", "random_state": 0}
    for variant, more in {
        "": {},
        "-logistic": {"loss": "logistic", **columns},
        "-os": {"rule": "os", "loss": "squared_hinge"},
        "-screen": {"schedule": "screen", "engine": "lazy", "n_features_to_select": 3},
    }.items():
        options = substitution | whole | more
        target = "numbers" if options["loss"] == "squared" else "classes"
        yield Case(f"online_substitution-groups{variant}", "OnlineSubstitution", options, target)
    simulated = substitution | {"n_workers": 3, "schedule": "simulated"}
    yield Case("async_online_substitution", "AsyncOnlineSubstitution", simulated)
    logistic = simulated | {"rule": "os", "loss": "logistic"}
    name = "async_online_substitution-logistic"
    yield Case(name, "AsyncOnlineSubstitution", logistic, "classes")
    chosen = substitution | {"n_features_to_select": "cv"}
    in_blocks = {"blocks_one_after_the_other_give_the_answer_of_fit": "cross-validation reads all rows several times"}
    yield Case("online_substitution-cv", "OnlineSubstitution", chosen, unfit=in_blocks)
    search = {"n_features_to_select": {"cv": 3, "sizes": [2, 6], "rule": "1se"}, "refit": "elastic"}
    yield Case("online_substitution-cv-refit", "OnlineSubstitution", substitution | search, unfit=in_blocks)
    refitted = {"blocks_one_after_the_other_give_the_answer_of_fit": "a refit reads the selected columns again"}
    yield Case("message-refit", "Message", message | {"refit": "elastic"}, unfit=refitted)
    fgm = {"n_features_to_select": 6, "n_features_per_pass": 1, "loss": "squared_hinge", "C": 0.05}
    yield Case("fgm-refit", "FGM", fgm | {"refit": "ridge"}, "classes", unfit=refitted)
    yield Case("fgm", "FGM", fgm, "classes")
    for loss in ("squared_hinge", "logistic", "squared"):
        several = fgm | {"loss": loss, "n_features_per_pass": 3, "certify": True}
        many = {"n_features_to_select": 32, "n_features_per_pass": 32}
        yield Case(f"fgm-B3-{loss}", "FGM", several, "classes", on_tall_data=many)
    for loss in ("squared_hinge", "logistic"):
        yield Case(f"fgm-three-{loss}", "FGM", fgm | {"loss": loss, "debias": True}, "three classes")
    groups = {"feature_groups": {"one": [0, 7, 8], "two": [1, 3, 4, 9], "shared": [2, 9]}}
    two = fgm | groups | {"n_features_to_select": 4, "n_features_per_pass": 2, "certify": True}
    yield Case("fgm-groups", "FGM", two, "classes")
    tree = {"feature_groups": {"all": {"low": [0, 1, 2], "high": {"odd": [3, 5], "even": [4, 6]}}}}
    yield Case("fgm-tree", "FGM", two | tree | {"group_score": "mean"}, "three classes")
    of_columns = groups | {"n_features_to_select": 8, "counts": "features", "loss": "logistic"}
    yield Case("fgm-groups-columns", "FGM", fgm | of_columns, "classes")
    of_map = fgm | {"n_features_to_select": 3, "n_features_per_pass": 2, "feature_map": "histogram_intersection"}
    yield Case("fgm-intersection", "FGM", of_map, "classes")
    yield Case("fgm-gaussian", "FGM", of_map | {"feature_map": "additive_gaussian"}, "three classes")
    checks = ("sparse_columns_give_the_answer_of_dense_ones", "a_sparse_store_gives_the_answer_of_a_dense_one")
    unfit = dict.fromkeys(checks, "products of dense columns are centred and summed by bands of rows")
    for variant, loss, target in (("", "squared_hinge", "classes"), ("-three", "logistic", "three classes")):
        pairs = of_map | {"n_features_to_select": 7, "loss": loss, "feature_map": "pairs", "certify": True}
        yield Case(f"fgm-pairs{variant}", "FGM", pairs, target, unfit=unfit)
    mission = {"n_features_to_select": 6, "loss": "squared", "n_epochs": 2, "block_rows": 200}
    raw = {"standardize": False}
    yield Case("mission", "Mission", mission, sparse=raw)
    yield Case("mission-sgd", "Mission", mission | {"refit": "sgd", "n_buckets": 16}, sparse=raw)
    replicas = mission | {"n_replicas": 3, "sync_every": 50}
    yield Case("mission-replicas", "Mission", replicas, sparse=raw, on_tall_data={"sync_every": 10_000})
    paper = mission | {"variant": "paper", "refit": "sgd"}
    many = {"n_buckets": 1 << 14, "block_rows": 10_000}  # beside which there is room for more rows than one
    yield Case("mission-paper", "Mission", paper, sparse=raw, on_tall_data=many)
    heaps = mission | {"variant": "paper", "loss": "multinomial"}
    yield Case("mission-paper-multinomial", "Mission", heaps, "three classes", sparse=raw, on_tall_data=many)
    yield Case("mission-multinomial", "Mission", mission | {"loss": "multinomial"}, "three classes", sparse=raw)
    asked = {"n_features_to_select": 6}
    yield Case("auto", "Auto", asked)
    yield Case("auto-classes", "Auto", asked, "classes")
    compared = {
        "a_memory_limit_is_planned_as_it_is_kept_and_keeps_the_answer": "what does not keep the limit takes no part",
        "a_sparse_store_gives_the_answer_of_a_dense_one": "ridges hold entries in float64, dense columns in float32",
    }
    yield Case("auto-compared", "Auto", {"loss": "squared"}, unfit=compared)
    yield Case("auto-three-classes", "Auto", asked | {"loss": "logistic"}, "three classes")


def _baselines() -> Iterator[Case]:
    for method, name, options in (
        ("full_data", "FullData", {}),
        ("averaging", "Averaging", {"n_subsets": 4}),
        ("median", "Median", {"n_subsets": 4}),
        ("bolasso", "Bolasso", {"n_bootstraps": 3}),
    ):
        yield Case(method, name, {"loss": "squared"} | options)
    for method, name in (
        ("proj_gd", "ProjGD"),
        ("lasso_cut", "LassoCut"),
        ("orthogonal_matching_pursuit", "OrthogonalMatchingPursuit"),
        ("grafting", "Grafting"),
        ("online_l1", "OnlineL1"),
        ("online_l0", "OnlineL0"),
        ("alpha_investing", "AlphaInvesting"),
    ):
        yield Case(method, name, {"n_features_to_select": 6, "loss": "squared"})
    six = {"n_features_to_select": 6}
    yield Case("active_set", "ActiveSet", six | {"loss": "squared_hinge", "C": 0.05}, "classes")
    raw_columns = "dense columns are standardised, sparse ones are taken as they are"
    begins_anew = {"a_fit_resumed_after_any_save_ends_with_the_same_bits": "one task, which keeps nothing"}
    checks = ("sparse_columns_give_the_answer_of_dense_ones", "a_sparse_store_gives_the_answer_of_a_dense_one")
    unfit = dict.fromkeys(checks, raw_columns)
    apart: dict[str, Any] = {"target": "classes", "unfit": unfit}
    yield Case("l1_liblinear", "L1Liblinear", six | {"loss": "squared_hinge"}, **apart)
    yield Case("sgd_slr", "SgdSlr", six | {"n_epochs": 50}, **apart)
    groups = {"one": [0, 7, 8], "two": [1, 3, 4, 9], "shared": [2, 9]}
    in_groups: dict[str, Any] = {"n_features_to_select": 3, "feature_groups": groups}
    yield Case("group_lasso", "GroupLasso", six | {"loss": "squared_hinge"}, "classes")
    yield Case("group_lasso-groups", "GroupLasso", in_groups | {"loss": "logistic"}, "classes")
    yield Case("group_lasso-fista", "GroupLasso", in_groups | {"loss": "squared", "solver": "fista"})
    yield Case("ufo_mkl", "UfoMkl", six | {"n_epochs": 5}, "classes")
    yield Case("ufo_mkl-groups", "UfoMkl", in_groups | {"n_epochs": 5}, "classes")
    rows = {"loss": "squared", "n_epochs": 2}
    raw = {"standardize": False}
    yield Case("iht_sgd", "StochasticIHT", six | rows, sparse=raw)
    yield Case("batch_iht", "BatchIHT", six | rows | {"n_gathered": 16}, sparse=raw)
    yield Case("feature_hashing", "FeatureHashing", rows | {"n_buckets": 16}, sparse=raw)
    for name in ("IHT", "ITI", "PHT"):
        yield Case(name.lower(), name, six | {"step_size": 0.2, "n_steps": 40}, unfit=begins_anew)
    yield Case("identity_mission", "IdentityMission", six | {"n_steps": 40}, unfit=begins_anew)


def _of_a_selector() -> Iterator[Case]:
    no_name = {"runs_in_a_pipeline": "a pipeline file names the selector inside, and has a section of its own for it"}
    inside: dict[str, Any] = {"n_features_to_select": 6, "loss": "squared"}
    pursuit = daskfs.baselines.OrthogonalMatchingPursuit(**inside)
    yield Case("stability", "StabilitySelection", {"selector": pursuit, "n_pairs": 3}, unfit=no_name)
    weighed = {"selector": pursuit, "n_pairs": 3, "weakness": 0.5}
    yield Case("stability-weakness", "StabilitySelection", weighed, unfit=no_name)
    of_classes = daskfs.FGM(6, loss="logistic")
    options = {"selector": of_classes, "n_pairs": 2}
    yield Case("stability-classes", "StabilitySelection", options, "three classes", unfit=no_name)
    votes = {"selector": daskfs.Message(n_subsets=6, loss="squared"), "subsamples": "own", "threshold": 0.8}
    yield Case("stability-votes", "StabilitySelection", votes, unfit=no_name)
    knockoffs = {"selector": daskfs.OnlineSubstitution(10, loss="squared"), "fdr": 0.5}
    yield Case("knockoffs", "Knockoffs", knockoffs, unfit=no_name)
    by_lasso = knockoffs | {"statistic": "lasso"}
    yield Case("knockoffs-lasso", "Knockoffs", by_lasso, unfit=no_name)
    drawn = {"selector": of_classes, "fdr": 0.6, "n_draws": 3, "block_columns": 20}
    yield Case("knockoffs-draws", "Knockoffs", drawn, "three classes", unfit=no_name)
    some = {"one": [0, 7, 8], "two": [2, 5, 4, 9], "three": [11, 16]}
    in_groups = knockoffs | {"feature_groups": some}
    yield Case("knockoffs-groups", "Knockoffs", in_groups, unfit=no_name)
    sizes: dict[str, Any] = {"sizes": [2, 6], "cv": 3}
    substitution = daskfs.OnlineSubstitution(loss="squared")
    yield Case("selection_cv", "SelectionCV", sizes | {"selector": substitution}, unfit=no_name)
    fgm, three = daskfs.FGM(loss="logistic"), {"target": "three classes", "unfit": no_name}
    yield Case("selection_cv-fgm", "SelectionCV", sizes | {"selector": fgm}, **three)
    each = sizes | {"selector": daskfs.baselines.LassoCut(loss="squared")}
    yield Case("selection_cv-each", "SelectionCV", each, unfit=no_name)


CASES = [*_selectors(), *_baselines(), *_of_a_selector()]

OF_EACH_KIND = [
    *("message", "online_substitution", "async_online_substitution", "fgm", "mission", "auto"),
    *("bolasso", "lasso_cut", "group_lasso", "batch_iht", "stability", "knockoffs", "selection_cv"),
]
"""Those that are examined by default: each system, and of the others one that goes each way."""
