"""The one table of ways to call the methods: each variant is stated here once, whichever tests try it.

Every method has a plain call, named as the method, and the variants that take a way of their own. `tests/golden` keeps
the results of those that have `inputs`. `tests/contract` examines all plain calls, the variants without inputs, and
those that it names. `tests/test_check_estimator.py` hands those that it names to scikit-learn. A new method takes its
place in all of them by a plain call in this table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sklearn.linear_model import Lasso, LogisticRegression

import daskfs
import daskfs.baselines
from daskfs.methods import METHODS, MODEL_SELECTION

Options = dict[str, Any]


@dataclass(frozen=True)
class Variant:
    """A way to call a method.

    What it is (a classifier, one that is told a number of features, one that learns from more rows) is asked of the
    estimator, not said here. The options are small, so that a fit takes milliseconds.
    """

    name: str
    """``method`` as in a pipeline file, or ``method-variant``: what ``pytest -k`` finds it by."""
    selector: str
    """Public name of the class."""
    options: Options = field(default_factory=dict)
    target: str = "numbers"
    """Or "classes", "three classes", "counts"."""
    weighted: bool = False
    arrives: str = "at once"
    """Or in "rows" or "columns": three calls of ``partial_fit`` or ``partial_fit_features``."""
    inputs: tuple[str, ...] = ()
    """What X is in the fits whose results are golden; none where no results are kept."""

    @property
    def method(self) -> str:
        """Name of the method, as in a pipeline file."""
        return self.name.partition("-")[0]

    def make(self, **more: Any) -> Any:
        """Return a selector that was not fitted."""
        room = daskfs if self.selector in daskfs.__all__ else daskfs.baselines
        return getattr(room, self.selector)(**(self.options | more))


INPUTS = ("dense", "sparse", "store", "float32")
INPUTS_OF = {"at once": ("dense", "sparse", "store"), "rows": ("dense", "sparse"), "columns": ("dense",)}
TARGET_OF = {
    **dict.fromkeys(("logistic", "hinge", "squared_hinge"), "classes"),
    **{"poisson": "counts", "multinomial": "three classes"},
}
NOT_GOLDEN: dict[str, Any] = {"inputs": ()}


def _variants(method: str, common: Options, variants: dict[str, Options], **of_each: Any) -> Iterator[Variant]:
    """Yield variants of a method, by name and what their options have beside the common ones; "" is the plain call.

    The target is what the loss is of, if not said.
    """
    selector = (METHODS | MODEL_SELECTION)[method].partition(":")[2]
    for name, more in variants.items():
        options = common | more
        arrives = of_each.get("arrives", "at once")
        fields = {
            "target": TARGET_OF.get(options.get("loss", ""), "numbers"),
            "inputs": INPUTS_OF[arrives] if name else INPUTS,
            **of_each,
        }
        yield Variant(f"{method}-{name}" if name else method, selector, options, **fields)


def _losses(*losses: str, **options: Any) -> dict[str, Options]:
    return {"-".join([loss, *map(str, options.values())]): {"loss": loss, **options} for loss in losses}


def _message() -> Iterator[Variant]:
    five = {"n_subsets": 5, "loss": "squared"}
    likelihoods = ("logistic", "poisson", "huber", "multinomial")
    by_liblinear = LogisticRegression(solver="liblinear", l1_ratio=1.0, C=0.1)
    variants: dict[str, Options] = {
        "": {},
        **{f"criterion-{name}": {"criterion": name, "gamma": 1.0} for name in ("bic", "ric", "ebic")},
        "prediction": {"goal": "prediction", "n_subsets": None},
        "penalty": {"gic_penalty": 3.0},
        "sigma2": {"criterion": "bic", "sigma2": 1.0},
        "gic-of-lasso": {"criterion": "bic", "gic_rss": "lasso"},
        "strided": {"partition": "strided"},
        "subset-size": {"n_subsets": None, "subset_size": 60},
        "tie-keep": {"n_subsets": 4, "tie": "keep"},
        "tie-drop": {"n_subsets": 4, "tie": "drop"},
        "no-second-look": {"second_look": False},
        "average-mean": {"average": "mean"},
        "max-features": {"max_features": 3},
        "always-include": {"always_include": [1, 7]},
        **{f"always-include-{loss}": {"always_include": [1, 7], "loss": loss} for loss in likelihoods},
        "always-include-lsa": {"always_include": [1, 7], "loss": "logistic", "approx": "lsa", "n_subsets": 2},
        "no-patience": {"patience": None, "n_lambdas": 30},
        "estimator-lasso": {"estimator": Lasso(alpha=0.1)},
        "seed": {"random_state": 7},
        **_losses(*likelihoods),
        **_losses(*likelihoods, criterion="bic"),
        **{f"{loss}-lsa": {"loss": loss, "approx": "lsa", "n_subsets": 2} for loss in likelihoods},
        **_losses(*likelihoods, average="mean"),
        "estimator-logistic": {"loss": "logistic", "estimator": by_liblinear},
    }
    yield from _variants("message", five, variants)
    yield from _variants("message", five, {"weighted": {}, "weighted-logistic": {"loss": "logistic"}}, weighted=True)
    groups = five | {"feature_groups": {"a": [2, 3, 4, 9], "b": [5, 6], "c": [11, 12, 13], "d": [0, 1, 7, 8]}}
    yield from _variants("message", groups, {f"groups-{loss}": {"loss": loss} for loss in ("squared", *likelihoods)})
    with_groups = {f"groups-always-include-{loss}": {"loss": loss} for loss in ("squared", "logistic")}
    yield from _variants("message", groups | {"always_include": [5, 10]}, with_groups)
    of_lasso = {"groups-weighted-gic-of-lasso": {"gic_rss": "lasso", "criterion": "ebic"}}
    yield from _variants("message", groups, of_lasso, weighted=True)
    of_rows = {f"partial-fit-{loss}": {"loss": loss} for loss in ("squared", *likelihoods)}
    of_rows["partial-fit-always-include"] = {"loss": "squared", "always_include": [1, 7]}
    yield from _variants("message", {"n_subsets": 2}, of_rows, arrives="rows")
    yield from _variants("message", five, {"refit": {"refit": "elastic"}}, **NOT_GOLDEN)
    variants = {
        "": {},
        "bic": {"criterion": "bic"},
        "gic-of-lasso": {"gic_rss": "lasso"},
        "max-features": {"max_features": 3},
        **_losses(*likelihoods),
    }
    four = {"n_subsets": 4}
    for method, more in {"full_data": {}, "averaging": four, "median": four, "bolasso": {"n_bootstraps": 3}}.items():
        common = {"loss": "squared", **more}
        yield from _variants(method, common, variants)
        yield from _variants(method, common, {"weighted": {}}, weighted=True)


def _online_substitution() -> Iterator[Variant]:
    common = {"n_features_to_select": 6, "loss": "squared", "rule": "exchange"}
    losses = ("squared", "squared_hinge", "logistic", "epsilon_insensitive")
    rules = ("exchange", "os", "paper")
    by_rule = {f"{rule}-{loss}": {"rule": rule, "loss": loss} for rule in rules for loss in losses}
    del by_rule["exchange-squared"]  # the plain call
    by_engine = {
        f"{rule}-engine-{engine}": {"rule": rule, "engine": engine}
        for rule in rules
        for engine in ("gram", "lazy", "naive")
        if (rule, engine) != ("paper", "lazy")
    }
    of_steps = {"step_size": 0.5, "step_divisor": 2.0, "sufficient_decrease": 0.3}
    method = "online_substitution"
    variants: dict[str, Options] = {
        "": {},
        **by_rule,
        **by_engine,
        "exchange-logistic-naive": {"loss": "logistic", "engine": "naive"},
        "exchange-logistic-lazy": {"loss": "logistic", "engine": "lazy"},
        "os-logistic-naive": {"rule": "os", "loss": "logistic", "engine": "naive"},
        "screen": {"schedule": "screen"},
        "screen-logistic": {"schedule": "screen", "loss": "logistic"},
        "shuffled": {"order": "shuffled"},
        "given-order": {"order": list(range(24))[::-1]},
        "os-unchecked": {"rule": "os", "check": False},
        "paper-unchecked": {"rule": "paper", "check": False, **of_steps},
        "not-standardised": {"standardize": False},
        "no-intercept": {"fit_intercept": False},
        "always-include": {"always_include": [1, 7]},
        "ridge": {"ridge": 0.1},
        "one-epoch": {"n_epochs": 1, "block_columns": 5},
    }
    yield from _variants(method, common, variants)
    of_classes = {"three-classes": {}, "three-classes-screen": {"schedule": "screen", "loss": "squared_hinge"}}
    yield from _variants(method, common | {"loss": "logistic"}, of_classes, target="three classes")
    groups = {"one": [0, 7, 8], "two": [2, 4], "three": [16, 11, 5, 20], "four": [1, 23]}
    whole = common | {"feature_groups": groups, "n_features_to_select": 4}
    variants = {
        "groups": {},
        "groups-counted-in-columns": {"counts": "features", "n_features_to_select": 8},
        "groups-logistic": {"loss": "logistic"},
        "groups-os-squared_hinge": {"rule": "os", "loss": "squared_hinge"},
        "groups-paper": {"rule": "paper", "order": "shuffled", "random_state": 0},
        "groups-screen": {"schedule": "screen", "engine": "lazy"},
    }
    yield from _variants(method, whole, variants)
    yield from _variants(method, whole, {"groups-weighted": {"ridge": 0.0}}, weighted=True)
    yield from _variants(method, common, {"weighted": {}, "weighted-logistic": {"loss": "logistic"}}, weighted=True)
    of_columns = {f"partial-fit-{loss}": {"loss": loss} for loss in losses}
    yield from _variants(method, common, of_columns, arrives="columns")
    search = {"cv": 3, "sizes": [2, 6], "rule": "1se"}
    variants = {
        "cv": {"n_features_to_select": "cv"},
        "cv-refit": {"n_features_to_select": search, "refit": "elastic"},
    }
    yield from _variants(method, common, variants, **NOT_GOLDEN)
    method, common = "async_online_substitution", common | {"n_workers": 3, "schedule": "simulated"}
    variants = {
        "": {},
        **by_rule,
        "synchronous": {"schedule": "synchronous"},
        "no-staleness": {"tau_max": 0},
        "own-columns": {"other_worker": False, "block_columns": 3},
        "slots": {"slots": 2.0, "n_workers": 2},
        "unchecked": {"rule": "os", "check": False},
        "not-standardised": {"standardize": False},
        "one-worker": {"n_workers": 1},
        "always-include": {"always_include": [1, 7]},
    }
    yield from _variants(method, common, variants)
    of_classes = {
        "three-classes": {"loss": "logistic"},
        "three-classes-synchronous": {"schedule": "synchronous", "loss": "squared_hinge", "block_columns": 4},
    }
    yield from _variants(method, common, of_classes, target="three classes")
    yield from _variants(method, common, {"weighted": {}}, weighted=True)


def _columns() -> Iterator[Variant]:
    """The baselines of online substitution."""
    penalty = {"penalty": {"penalty": 0.1}}
    own: dict[str, dict[str, Options]] = {
        "proj_gd": {step: {"step": step} for step in ("restricted", "half", "full")},
        "lasso_cut": {},
        "orthogonal_matching_pursuit": {"per-pass": {"n_features_per_pass": 3}, "ridge": {"ridge": 0.1}},
        "grafting": {**penalty, "max-active": {"max_active": 8}},
        "online_l1": penalty,
        "online_l0": {"one-epoch": {"n_epochs": 1}},
        "alpha_investing": {"two-epochs": {"n_epochs": 2, "wealth": 0.2}},
    }
    common = {"n_features_to_select": 6, "loss": "squared"}
    for method, variants in own.items():
        yield from _variants(method, common, {"": {}, **_losses("logistic", "squared_hinge"), **variants})
        yield from _variants(method, common, {"weighted": {}}, weighted=True)


def _fgm() -> Iterator[Variant]:
    common = {"n_features_to_select": 6, "loss": "squared_hinge", "C": 0.05}
    two = common | {"n_features_per_pass": 2}
    losses = ("squared_hinge", "logistic", "squared")
    by_loss = {f"{loss}-B{b}": {"loss": loss, "n_features_per_pass": b} for loss in losses for b in (1, 3)}
    del by_loss["squared_hinge-B1"]  # the plain call
    variants: dict[str, Options] = {
        "": {},
        **by_loss,
        "C-by-default": {"C": None},
        "not-centred": {"center": False},
        "no-intercept": {"fit_intercept": False},
    }
    yield from _variants("fgm", common | {"n_features_per_pass": 1}, variants, target="classes")
    stopped = {"n_features_to_select": None}
    variants = {
        **{f"exact-{loss}": {"loss": loss, "solver": "exact"} for loss in losses},
        **{f"simple-mkl-{loss}": {"loss": loss, "solver": "simple_mkl"} for loss in losses},
        "C-by-validation": {"C": "validation", "random_state": 3},
        "stopped-by-validation": stopped | {"validation": 0.25},
        "stopped-by-tol": stopped | {"tol": 0.05},
        "max-passes": stopped | {"max_passes": 3},
        "certified": {"certify": True},
        "debiased": {"debias": True},
        "not-normalised": {"normalize": False},
        "always-include": {"always_include": [1, 7]},
    }
    yield from _variants("fgm", two, variants, target="classes")
    yield from _variants("fgm", two, {"squared-of-numbers": {"loss": "squared"}})
    three = {f"three-{loss}": {"loss": loss} for loss in losses[:2]}
    yield from _variants("fgm", two, three, target="three classes")
    included = {"weighted-always-include": {"always_include": [3], "loss": "squared", "solver": "exact"}}
    yield from _variants("fgm", two, {"weighted": {}, **included}, weighted=True)
    groups = {"one": [0, 7, 8], "two": list(range(10, 20)), "overlapping": [2, 10]}
    in_groups = {"n_features_to_select": 4, "feature_groups": groups}
    several = two | in_groups | {"certify": True}
    in_columns = {"n_features_to_select": 13, "counts": "features"}
    yield from _variants("fgm", several, {"groups": {}, "groups-counted-in-columns": in_columns})
    pairs = {"n_features_to_select": 12, "n_features_per_pass": 3, "certify": True, "feature_map": "pairs"}
    pairs = common | pairs | {"C": None}
    between = {"map": "pairs", "between": [[0, 2, 5, 7], [5, 11, 16, 20]], "r": 0.0}
    variants = {
        "pairs-of-a-hierarchy": {"feature_map": {"map": "pairs", "hierarchy": "weak", "gamma": 2.0}},
        "pairs-between": {"feature_map": between},
        "pairs-as-they-are": {"normalize": False},
    }
    yield from _variants("fgm", pairs, {"pairs": {}}, inputs=INPUTS)
    yield from _variants("fgm", pairs, {"pairs-weighted": {}}, weighted=True)
    yield from _variants("fgm", pairs, {"pairs-three-classes": {"loss": "logistic"}}, target="three classes")
    yield from _variants("fgm", pairs, variants)
    variants = {
        "refit": {"refit": "ridge"},
        **{f"certified-{loss}": {"loss": loss, "certify": True} for loss in losses[1:]},
        "intersection": {"n_features_to_select": 3, "feature_map": "histogram_intersection"},
        "always-include-groups": several | {"feature_groups": {"one": [0, 7, 8]}, "always_include": [3, 7]},
    }
    yield from _variants("fgm", two, variants, target="classes", **NOT_GOLDEN)
    tree = {"all": {"low": [0, 1, 2], "high": {"odd": [3, 5], "even": [4, 6]}}}
    variants = {
        "tree": several | {"feature_groups": tree, "group_score": "mean", "loss": "logistic"},
        "gaussian": {"n_features_to_select": 3, "feature_map": "additive_gaussian"},
        "always-include-three": {"always_include": [1, 7], "loss": "logistic"},
    }
    yield from _variants("fgm", two, variants, target="three classes", **NOT_GOLDEN)
    yield from _variants("active_set", common, {"": {}, **_losses("logistic", "squared")}, target="classes")
    by_penalty = {"n_features_to_select": None, "C": 0.05}
    variants = {
        "": {},
        "C": by_penalty,
        "debiased": {"debias": True},
        "no-intercept": {"fit_intercept": False},
        **_losses("logistic"),
    }
    yield from _variants("l1_liblinear", common | {"C": None}, variants)
    variants = {
        "": {},
        **{f"{solver}-{loss}": {"solver": solver, "loss": loss} for solver in ("bcd", "fista") for loss in losses},
        "C": by_penalty,
        "equal": {"group_penalty": "equal"},
        "debiased": {"debias": True},
        "single-columns": {"feature_groups": None},
    }
    yield from _variants("group_lasso", in_groups | {"loss": "logistic"}, variants, target="classes")
    yield from _variants("group_lasso", in_groups | {"loss": "squared"}, {"weighted": {}}, weighted=True)
    yield from _variants("ufo_mkl", in_groups, {"": {}, "equal": {"group_penalty": "equal"}}, target="classes")
    single = {"n_features_to_select": 6, "feature_groups": None}
    yield from _variants("ufo_mkl", single, {"single-columns": {}}, target="classes", **NOT_GOLDEN)
    variants = {"": {}, "C": {"n_features_to_select": None, "C": 1.0}, "no-intercept": {"fit_intercept": False}}
    yield from _variants("sgd_slr", {"n_features_to_select": 6, "n_epochs": 50}, variants, target="classes")


def _mission() -> Iterator[Variant]:
    common = {"n_features_to_select": 6, "loss": "squared", "n_epochs": 2}
    losses = ("squared", "logistic", "hinge", "squared_hinge", "multinomial")
    paper = {"variant": "paper", "refit": "sgd"}
    heap = paper | {"heap": True}
    variants: dict[str, Options] = {
        "": {},
        **_losses(*losses[1:]),
        **{f"paper-{loss}": paper | {"loss": loss} for loss in losses},
        **{f"heap-{loss}": heap | {"loss": loss} for loss in losses[:4]},
        **{f"identity-{loss}": {"tail": "identity", "loss": loss} for loss in losses},
        "few-buckets": {"n_buckets": 8},
        "paper-few-buckets": paper | {"n_buckets": 8},
        "heap-few-buckets": heap | {"n_buckets": 8},
        "one-hash": {"n_hashes": 1, "n_buckets": 16},
        "five-hashes": {"n_hashes": 5, "n_buckets": 16},
        "replicas": {"n_replicas": 2, "sync_every": 50},
        "replicas-multinomial": {"n_replicas": 3, "sync_every": 50, "loss": "multinomial"},
        "no-refit": {"refit": None},
        "sgd-refit": {"refit": "sgd"},
        "never-forgets": {"tail_half_life": None},
        "not-standardized": {"standardize": False},
        "learning-rate": {"learning_rate": 0.01, "intercept_rate": 0.0},
        "balanced": {"loss": "logistic", "class_weight": "balanced"},
        "balanced-multinomial": {"loss": "multinomial", "class_weight": "balanced"},
        "small-blocks": {"block_rows": 50},
        "cut-steps": {"n_epochs": 1, "standardize": False},  # a tenth of the rows is longer than that
        "by-weight": {"n_candidates": None},
        "candidates": {"n_candidates": 10},
        "candidates-multinomial": {"n_candidates": 10, "loss": "multinomial"},
        "always-include": {"always_include": [1, 7]},
        **{f"always-include-{loss}": {"always_include": [1, 7], "loss": loss} for loss in losses[1:]},
        "always-include-by-weight": {"always_include": [1, 7], "n_candidates": None, "n_replicas": 2, "sync_every": 50},
    }
    yield from _variants("mission", common, variants)
    yield from _variants("mission", common, {"weighted": {}}, weighted=True)
    of_rows = {f"partial-fit-{loss}": {"loss": loss} for loss in ("squared", "logistic", "multinomial")}
    of_rows |= {"partial-fit-heap": heap, "partial-fit-always-include": {"always_include": [1, 7]}}
    yield from _variants("mission", common, of_rows, arrives="rows")
    no_refit = {"no-refit": {"refit": None}}
    yield from _variants("iht_sgd", common, {"": {}, **_losses(*losses[1:4]), **no_refit})
    gathered = common | {"n_gathered": 16}
    yield from _variants("batch_iht", gathered, {"": {}, **_losses(*losses[1:]), **no_refit})
    hashing = {"n_buckets": 16, "loss": "squared", "n_epochs": 2}
    yield from _variants("feature_hashing", hashing, {"": {}, **_losses(*losses[1:])})
    steps = {"n_features_to_select": 6, "n_steps": 40}
    for method in ("iht", "iti", "pht"):
        yield from _variants(method, steps | {"step_size": 0.2}, {"": {}})
    yield from _variants("identity_mission", steps, {"": {}, "sketch": {"n_buckets": 16}})


def _around_selectors() -> Iterator[Variant]:
    """Selectors about a selector: what chooses one, and what fits one many times."""
    six: Options = {"n_features_to_select": 6}
    three: dict[str, Any] = {"target": "three classes", **NOT_GOLDEN}
    yield from _variants("auto", {}, {"": six, "compared": {"loss": "squared"}}, **NOT_GOLDEN)
    of_classes: dict[str, Options] = {"classes": {}, "classes-always-include": {"always_include": [1, 7]}}
    yield from _variants("auto", six, of_classes, target="classes", **NOT_GOLDEN)
    yield from _variants("auto", six, {"three-classes": {"loss": "logistic"}}, **three)
    pursuit = daskfs.baselines.OrthogonalMatchingPursuit(6, loss="squared")
    votes = {"selector": daskfs.Message(n_subsets=6, loss="squared"), "subsamples": "own", "threshold": 0.8}
    pairs = {"selector": pursuit, "n_pairs": 3}
    variants = {"": pairs, "weakness": pairs | {"weakness": 0.5}, "votes": votes}
    yield from _variants("stability", {}, variants, **NOT_GOLDEN)
    of_several = {"selector": daskfs.FGM(6, loss="logistic")}
    yield from _variants("stability", of_several, {"classes": {"n_pairs": 2}}, **three)
    groups = {"one": [0, 7, 8], "two": [2, 5, 4, 9], "three": [11, 16]}
    variants = {"": {}, "lasso": {"statistic": "lasso"}, "groups": {"feature_groups": groups}}
    knockoffs = {"selector": daskfs.OnlineSubstitution(10, loss="squared"), "fdr": 0.5}
    yield from _variants("knockoffs", knockoffs, variants, **NOT_GOLDEN)
    yield from _variants("knockoffs", of_several, {"draws": {"fdr": 0.6, "n_draws": 3, "block_columns": 20}}, **three)
    sizes: Options = {"sizes": [2, 6], "cv": 3}
    each = {"selector": daskfs.baselines.LassoCut(loss="squared")}
    variants = {"": {"selector": daskfs.OnlineSubstitution(loss="squared")}, "each": each}
    yield from _variants("selection_cv", sizes, variants, **NOT_GOLDEN)
    yield from _variants("selection_cv", sizes, {"fgm": {"selector": daskfs.FGM(loss="logistic")}}, **three)


VARIANTS = [*_message(), *_online_substitution(), *_columns(), *_fgm(), *_mission(), *_around_selectors()]
