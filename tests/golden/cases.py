"""The fits whose results are kept: every method, each of its losses, and the variants that take a way of their own.

The recorder (`record.py`) and the test (`test_methods_golden.py`) run the same cases, by the public interface only.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.linear_model import Lasso, LogisticRegression

import daskfs

INPUTS = ("dense", "sparse", "store", "float32")
N_SAMPLES, N_FEATURES = 320, 24


@dataclass(frozen=True)
class Case:
    """One way to call one method."""

    name: str
    """``method`` or ``method-variant``: what ``pytest -k`` finds it by."""
    selector: str
    """Public name of the class."""
    options: dict[str, Any] = field(default_factory=dict)
    target: str = "numbers"
    weighted: bool = False
    arrives: str = "at once"
    """Or in "rows" or "columns": three calls of ``partial_fit`` or ``partial_fit_features``."""
    inputs: tuple[str, ...] = ("dense", "sparse", "store")

    @property
    def method(self) -> str:
        """Name of the method, as in a pipeline file."""
        return self.name.partition("-")[0]

    def make(self, **more: Any) -> Any:
        """Return the selector."""
        room = daskfs if self.selector in daskfs.__all__ else daskfs.baselines
        return getattr(room, self.selector)(**self.options, **more)


class Data:
    """Small correlated columns, of which six matter, and targets of each kind that follow them with much noise."""

    def __init__(self) -> None:
        rng = np.random.default_rng(20)
        common = rng.standard_normal((N_SAMPLES, 3))
        X = rng.standard_normal((N_SAMPLES, N_FEATURES)) + common @ rng.standard_normal((3, N_FEATURES)) * 0.6
        X = np.where(rng.random(X.shape) < 0.5, X, 0.0)  # so that the sparse matrix is the same matrix
        self.X = X * rng.uniform(0.5, 2.0, N_FEATURES)
        z = self.X[:, [2, 5, 11, 16, 20, 23]] @ [1.0, -0.8, 0.6, 0.5, -0.3, 0.2] + 0.4
        self.targets = {
            "numbers": z + rng.standard_normal(N_SAMPLES),
            "classes": (z + rng.logistic(size=N_SAMPLES) > 0.4).astype(float),
            "counts": rng.poisson(np.exp(0.4 * z)).astype(float),
            "three classes": np.digitize(z + rng.standard_normal(N_SAMPLES), [-0.5, 1.2]).astype(float),
        }
        self.weight = rng.integers(0, 4, N_SAMPLES) / 2.0
        self._stores: dict[tuple[str, bool], Any] = {}

    def store(self, case: Case, folder: Path) -> Any:
        """Return the feature store of a case, written when first asked for."""
        key = (case.target, case.weighted)
        if key not in self._stores:
            path = folder / f"{case.target.replace(' ', '-')}-{case.weighted}.zarr"
            weight = {"weight": self.weight} if case.weighted else {}
            options = {"dtype": "float64", "tile_shape": (64, 5), "random_state": 0}
            self._stores[key] = daskfs.ingest(self.X, path, y=self.targets[case.target], **weight, **options)
        return self._stores[key]


def fitted(case: Case, given: str, data: Data, folder: Path, client: Any = None) -> Any:
    """Return the fitted selector of a case.

    Parameters
    ----------
    case : Case
    given : {"dense", "sparse", "store", "float32"}
        What X is.
    data : Data
    folder : Path
        Where a store may be written.
    client : distributed.Client, optional
    """
    selector = case.make() if client is None else case.make(client=client)
    y = data.targets[case.target]
    weight = {"sample_weight": data.weight} if case.weighted else {}
    kinds = {"dense": np.asarray, "sparse": scipy.sparse.csr_array, "float32": lambda X: X.astype(np.float32)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # a parameter that has a new name is the same parameter
        if given == "store":
            return selector.fit(data.store(case, folder))
        X = kinds[given](data.X)
        if case.arrives == "at once":
            return selector.fit(X, y, **weight)
        for k, part in enumerate(np.array_split(np.arange(N_SAMPLES if case.arrives == "rows" else N_FEATURES), 3)):
            if case.arrives == "columns":
                selector.partial_fit_features(X[:, part], y=y if k == 0 else None)
            else:
                selector.partial_fit(
                    X[part], y[part], **({"classes": np.unique(y)} if "classes" in case.target else {})
                )
    return selector


IN_MEMORY = ("dense",)


def _variants(
    method: str, selector: str, common: dict[str, Any], *variants: tuple[str, dict[str, Any]], **of_case: Any
) -> Iterator[Case]:
    """Yield the plain case of a method, with every input, and its variants."""
    yield Case(method, selector, common, inputs=INPUTS, **of_case)
    for name, options in variants:
        yield _variant(method, selector, name, common | options, **of_case)


TARGET_OF = {"logistic": "classes", "hinge": "classes", "squared_hinge": "classes"}
TARGET_OF |= {"poisson": "counts", "multinomial": "three classes"}


def _variant(method: str, selector: str, name: str, options: dict[str, Any], **of_case: Any) -> Case:
    target = TARGET_OF.get(options.get("loss", ""), "numbers")
    return Case(f"{method}-{name}", selector, options, **({"target": target} | of_case))


def _losses(*names: str, **options: Any) -> list[tuple[str, dict[str, Any]]]:
    return [("-".join([name, *map(str, options.values())]), {"loss": name, **options}) for name in names]


def _message() -> Iterator[Case]:
    five = {"n_subsets": 5, "loss": "squared"}
    likelihoods = ("logistic", "poisson", "huber", "multinomial")
    yield from _variants(
        "message",
        "Message",
        five,
        *[(f"criterion-{name}", {"criterion": name, "gamma": 1.0}) for name in ("bic", "ric", "ebic")],
        ("prediction", {"goal": "prediction", "n_subsets": None}),
        ("penalty", {"gic_penalty": 3.0}),
        ("sigma2", {"criterion": "bic", "sigma2": 1.0}),
        ("gic-of-lasso", {"criterion": "bic", "gic_rss": "lasso"}),
        ("strided", {"partition": "strided"}),
        ("subset-size", {"n_subsets": None, "subset_size": 60}),
        ("tie-keep", {"n_subsets": 4, "tie": "keep"}),
        ("tie-drop", {"n_subsets": 4, "tie": "drop"}),
        ("no-second-look", {"second_look": False}),
        ("average-mean", {"average": "mean"}),
        ("max-features", {"max_features": 3}),
        ("no-patience", {"patience": None, "n_lambdas": 30}),
        ("estimator-lasso", {"estimator": Lasso(alpha=0.1)}),
        ("seed", {"random_state": 7}),
        *_losses(*likelihoods),
        *_losses(*likelihoods, criterion="bic"),
        *[(f"{loss}-lsa", {"loss": loss, "approx": "lsa", "n_subsets": 2}) for loss in likelihoods],
        *_losses(*likelihoods, average="mean"),
    )
    logistic = LogisticRegression(solver="liblinear", l1_ratio=1.0, C=0.1)
    yield _variant("message", "Message", "estimator-logistic", five | {"loss": "logistic", "estimator": logistic})
    yield _variant("message", "Message", "weighted", five, weighted=True)
    yield _variant("message", "Message", "weighted-logistic", five | {"loss": "logistic"}, weighted=True)
    groups = {"feature_groups": {"a": [2, 3, 4, 9], "b": [5, 6], "c": [11, 12, 13], "d": [0, 1, 7, 8]}}
    for loss in ("squared", *likelihoods):
        yield _variant("message", "Message", f"groups-{loss}", five | groups | {"loss": loss})
    of_lasso = five | groups | {"gic_rss": "lasso", "criterion": "ebic"}
    yield _variant("message", "Message", "groups-weighted-gic-of-lasso", of_lasso, weighted=True)
    for loss in ("squared", *likelihoods):
        options = {"n_subsets": 2, "loss": loss}
        yield _variant("message", "Message", f"partial-fit-{loss}", options, arrives="rows", inputs=("dense", "sparse"))
    for name in ("FullData", "Averaging", "Median", "Bolasso"):
        method = {"FullData": "full_data"}.get(name, name.lower())
        common: dict[str, Any] = {"loss": "squared"}
        common |= {"Bolasso": {"n_bootstraps": 3}, "FullData": {}}.get(name, {"n_subsets": 4})
        yield from _variants(
            method,
            name,
            common,
            ("bic", {"criterion": "bic"}),
            ("gic-of-lasso", {"gic_rss": "lasso"}),
            ("max-features", {"max_features": 3}),
            *_losses(*likelihoods),
        )
        yield _variant(method, name, "weighted", common, weighted=True)


def _online_substitution() -> Iterator[Case]:
    common = {"n_features_to_select": 6, "loss": "squared", "rule": "exchange"}
    every = ("squared", "squared_hinge", "logistic", "epsilon_insensitive")
    method, selector = "online_substitution", "OnlineSubstitution"
    yield from _variants(
        method,
        selector,
        common,
        *[
            (f"{rule}-{loss}", {"rule": rule, "loss": loss})
            for rule in ("exchange", "os", "paper")
            for loss in every
            if (rule, loss) != ("exchange", "squared")
        ],
        *[
            (f"{rule}-engine-{engine}", {"rule": rule, "engine": engine})
            for rule in ("exchange", "os", "paper")
            for engine in ("gram", "lazy", "naive")
            if (rule, engine) != ("paper", "lazy")
        ],
        ("exchange-logistic-naive", {"loss": "logistic", "engine": "naive"}),
        ("exchange-logistic-lazy", {"loss": "logistic", "engine": "lazy"}),
        ("os-logistic-naive", {"rule": "os", "loss": "logistic", "engine": "naive"}),
        ("screen", {"schedule": "screen"}),
        ("screen-logistic", {"schedule": "screen", "loss": "logistic"}),
        ("shuffled", {"order": "shuffled"}),
        ("given-order", {"order": list(range(N_FEATURES))[::-1]}),
        ("os-unchecked", {"rule": "os", "check": False}),
        (
            "paper-unchecked",
            {"rule": "paper", "check": False, "step_size": 0.5, "step_divisor": 2.0, "sufficient_decrease": 0.3},
        ),
        ("not-standardised", {"standardize": False}),
        ("no-intercept", {"fit_intercept": False}),
        ("always-include", {"always_include": [1, 7]}),
        ("ridge", {"ridge": 0.1}),
        ("one-epoch", {"n_epochs": 1, "block_columns": 5}),
    )
    groups = {"one": [0, 7, 8], "two": [2, 4], "three": [16, 11, 5, 20], "four": [1, 23]}
    whole = common | {"feature_groups": groups, "n_features_to_select": 4}
    for name, more in {
        "groups": {},
        "groups-counted-in-columns": {"counts": "features", "n_features_to_select": 8},
        "groups-logistic": {"loss": "logistic"},
        "groups-os-squared_hinge": {"rule": "os", "loss": "squared_hinge"},
        "groups-paper": {"rule": "paper", "order": "shuffled", "random_state": 0},
        "groups-screen": {"schedule": "screen", "engine": "lazy"},
    }.items():
        yield _variant(method, selector, name, whole | more)
    yield _variant(method, selector, "groups-weighted", whole | {"ridge": 0.0}, weighted=True)
    yield _variant(method, selector, "weighted", common, weighted=True)
    yield _variant(method, selector, "weighted-logistic", common | {"loss": "logistic"}, weighted=True)
    for loss in every:
        options = common | {"loss": loss}
        yield _variant(method, selector, f"partial-fit-{loss}", options, arrives="columns", inputs=IN_MEMORY)
    common = common | {"n_workers": 3, "schedule": "simulated"}
    method, selector = "async_online_substitution", "AsyncOnlineSubstitution"
    yield from _variants(
        method,
        selector,
        common,
        *[
            (f"{rule}-{loss}", {"rule": rule, "loss": loss})
            for rule in ("exchange", "os", "paper")
            for loss in every
            if (rule, loss) != ("exchange", "squared")
        ],
        ("synchronous", {"schedule": "synchronous"}),
        ("no-staleness", {"tau_max": 0}),
        ("own-columns", {"other_worker": False, "block_columns": 3}),
        ("slots", {"slots": 2.0, "n_workers": 2}),
        ("unchecked", {"rule": "os", "check": False}),
        ("not-standardised", {"standardize": False}),
        ("one-worker", {"n_workers": 1}),
    )
    yield _variant(method, selector, "weighted", common, weighted=True)


def _columns() -> Iterator[Case]:
    """The baselines of online substitution."""
    more: dict[str, list[tuple[str, dict[str, Any]]]] = {
        "ProjGD": [(step, {"step": step}) for step in ("restricted", "half", "full")],
        "LassoCut": [],
        "OrthogonalMatchingPursuit": [("per-pass", {"n_features_per_pass": 3}), ("ridge", {"ridge": 0.1})],
        "Grafting": [("penalty", {"penalty": 0.1}), ("max-active", {"max_active": 8})],
        "OnlineL1": [("penalty", {"penalty": 0.1})],
        "OnlineL0": [("one-epoch", {"n_epochs": 1})],
        "AlphaInvesting": [("two-epochs", {"n_epochs": 2, "wealth": 0.2})],
    }
    methods = ["proj_gd", "lasso_cut", "orthogonal_matching_pursuit", "grafting", "online_l1", "online_l0"]
    for method, (name, variants) in zip([*methods, "alpha_investing"], more.items(), strict=True):
        common = {"n_features_to_select": 6, "loss": "squared"}
        yield from _variants(method, name, common, *_losses("logistic", "squared_hinge"), *variants)
        yield _variant(method, name, "weighted", common, weighted=True)


def _fgm() -> Iterator[Case]:
    common = {"n_features_to_select": 6, "loss": "squared_hinge", "C": 0.05}
    losses = ("squared_hinge", "logistic", "squared")
    yield from _variants(
        "fgm",
        "FGM",
        common | {"n_features_per_pass": 1},
        *[(f"{loss}-B{b}", {"loss": loss, "n_features_per_pass": b}) for loss in losses for b in (1, 3)][1:],
        *[(f"exact-{loss}", {"loss": loss, "solver": "exact", "n_features_per_pass": 2}) for loss in losses],
        *[(f"simple-mkl-{loss}", {"loss": loss, "solver": "simple_mkl", "n_features_per_pass": 2}) for loss in losses],
        ("C-by-default", {"C": None}),
        ("C-by-validation", {"C": "validation", "n_features_per_pass": 2, "random_state": 3}),
        ("stopped-by-validation", {"n_features_to_select": None, "validation": 0.25, "n_features_per_pass": 2}),
        ("stopped-by-tol", {"n_features_to_select": None, "tol": 0.05, "n_features_per_pass": 2}),
        ("max-passes", {"n_features_to_select": None, "max_passes": 3, "n_features_per_pass": 2}),
        ("certified", {"certify": True, "n_features_per_pass": 2}),
        ("debiased", {"debias": True, "n_features_per_pass": 2}),
        ("not-centred", {"center": False}),
        ("not-normalised", {"normalize": False, "n_features_per_pass": 2}),
        ("no-intercept", {"fit_intercept": False}),
        target="classes",
    )
    numbers = common | {"loss": "squared", "n_features_per_pass": 2}
    yield _variant("fgm", "FGM", "squared-of-numbers", numbers, target="numbers")
    for loss in ("squared_hinge", "logistic"):
        three = common | {"loss": loss, "n_features_per_pass": 2}
        yield _variant("fgm", "FGM", f"three-{loss}", three, target="three classes")
    yield _variant("fgm", "FGM", "weighted", common | {"n_features_per_pass": 2}, weighted=True)
    groups = {"one": [0, 7, 8], "two": list(range(10, 20)), "overlapping": [2, 10]}
    several = common | {"feature_groups": groups, "n_features_to_select": 4, "n_features_per_pass": 2, "certify": True}
    yield _variant("fgm", "FGM", "groups", several)
    yield _variant(
        "fgm", "FGM", "groups-counted-in-columns", several | {"n_features_to_select": 13, "counts": "features"}
    )
    pairs = {"n_features_to_select": 12, "n_features_per_pass": 3, "certify": True}
    for name, options, of_case in (
        ("pairs", {"feature_map": "pairs"}, {"inputs": INPUTS}),
        ("pairs-weighted", {"feature_map": "pairs"}, {"weighted": True}),
        ("pairs-three-classes", {"feature_map": "pairs", "loss": "logistic"}, {"target": "three classes"}),
        ("pairs-of-a-hierarchy", {"feature_map": {"map": "pairs", "hierarchy": "weak", "gamma": 2.0}}, {}),
        ("pairs-between", {"feature_map": {"map": "pairs", "between": [[0, 2, 5, 7], [5, 11, 16, 20]], "r": 0.0}}, {}),
        ("pairs-as-they-are", {"feature_map": "pairs", "normalize": False}, {}),
    ):
        yield _variant("fgm", "FGM", name, common | pairs | {"C": None} | options, **({"target": "classes"} | of_case))
    more = {"loss": "squared_hinge", "C": 0.05}
    yield from _variants("active_set", "ActiveSet", common, *_losses("logistic", "squared"), target="classes")
    yield from _variants(
        "l1_liblinear",
        "L1Liblinear",
        more | {"n_features_to_select": 6, "C": None},
        ("C", {"n_features_to_select": None, "C": 0.05}),
        ("debiased", {"debias": True}),
        ("no-intercept", {"fit_intercept": False}),
        *_losses("logistic"),
        target="classes",
    )
    in_groups = {"n_features_to_select": 4, "feature_groups": groups}
    yield from _variants(
        "group_lasso",
        "GroupLasso",
        in_groups | {"loss": "logistic"},
        *[(f"{solver}-{loss}", {"solver": solver, "loss": loss}) for solver in ("bcd", "fista") for loss in losses],
        ("C", {"n_features_to_select": None, "C": 0.05}),
        ("equal", {"group_penalty": "equal"}),
        ("debiased", {"debias": True}),
        ("single-columns", {"feature_groups": None}),
        target="classes",
    )
    yield _variant("group_lasso", "GroupLasso", "weighted", in_groups | {"loss": "squared"}, weighted=True)
    yield from _variants("ufo_mkl", "UfoMkl", in_groups, ("equal", {"group_penalty": "equal"}), target="classes")
    yield from _variants(
        "sgd_slr",
        "SgdSlr",
        {"n_features_to_select": 6, "n_epochs": 50},
        ("C", {"n_features_to_select": None, "C": 1.0}),
        ("no-intercept", {"fit_intercept": False}),
        target="classes",
    )


def _mission() -> Iterator[Case]:
    common = {"n_features_to_select": 6, "loss": "squared", "n_epochs": 2}
    several = ("squared", "logistic", "hinge", "squared_hinge", "multinomial")
    paper = {"variant": "paper", "refit": "sgd"}
    yield from _variants(
        "mission",
        "Mission",
        common,
        *_losses(*several[1:]),
        *[(f"paper-{loss}", paper | {"loss": loss}) for loss in several],
        *[(f"heap-{loss}", paper | {"heap": True, "loss": loss}) for loss in several[:4]],
        *[(f"identity-{loss}", {"tail": "identity", "loss": loss}) for loss in several],
        ("few-buckets", {"n_buckets": 8}),
        ("paper-few-buckets", paper | {"n_buckets": 8}),
        ("heap-few-buckets", paper | {"n_buckets": 8, "heap": True}),
        ("one-hash", {"n_hashes": 1, "n_buckets": 16}),
        ("five-hashes", {"n_hashes": 5, "n_buckets": 16}),
        ("replicas", {"n_replicas": 2, "sync_every": 50}),
        ("replicas-multinomial", {"n_replicas": 3, "sync_every": 50, "loss": "multinomial"}),
        ("no-refit", {"refit": None}),
        ("sgd-refit", {"refit": "sgd"}),
        ("never-forgets", {"tail_half_life": None}),
        ("not-standardized", {"standardize": False}),
        ("learning-rate", {"learning_rate": 0.01, "intercept_rate": 0.0}),
        ("balanced", {"loss": "logistic", "class_weight": "balanced"}),
        ("balanced-multinomial", {"loss": "multinomial", "class_weight": "balanced"}),
        ("small-blocks", {"block_rows": 50}),
        ("cut-steps", {"n_epochs": 1, "standardize": False}),  # a tenth of the rows is longer than that
        ("by-weight", {"n_candidates": None}),
        ("candidates", {"n_candidates": 10}),
        ("candidates-multinomial", {"n_candidates": 10, "loss": "multinomial"}),
    )
    yield _variant("mission", "Mission", "weighted", common, weighted=True)
    for loss in ("squared", "logistic", "multinomial"):
        options = common | {"loss": loss}
        yield _variant("mission", "Mission", f"partial-fit-{loss}", options, arrives="rows", inputs=("dense", "sparse"))
    heap = common | paper | {"heap": True}
    yield _variant("mission", "Mission", "partial-fit-heap", heap, arrives="rows", inputs=("dense", "sparse"))
    yield from _variants("iht_sgd", "StochasticIHT", common, *_losses(*several[1:4]), ("no-refit", {"refit": None}))
    gathered = common | {"n_gathered": 16}
    yield from _variants("batch_iht", "BatchIHT", gathered, *_losses(*several[1:]), ("no-refit", {"refit": None}))
    hashing = {"n_buckets": 16, "loss": "squared", "n_epochs": 2}
    yield from _variants("feature_hashing", "FeatureHashing", hashing, *_losses(*several[1:]))
    for name in ("IHT", "ITI", "PHT"):
        yield from _variants(name.lower(), name, {"n_features_to_select": 6, "step_size": 0.2, "n_steps": 40})
    identity = {"n_features_to_select": 6, "n_steps": 40}
    yield from _variants("identity_mission", "IdentityMission", identity, ("sketch", {"n_buckets": 16}))


CASES = [*_message(), *_online_substitution(), *_columns(), *_fgm(), *_mission()]
