"""What selected features are worth on open data sets: every selector beside its peers, and `Auto` beside the best."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import Contender, Job, NotApplicable, Record

SELECTORS = {
    "auto": "Auto",
    "message": "Message",
    "prediction": "Message",
    "online_substitution": "OnlineSubstitution",
    "fgm": "FGM",
    "mission": "Mission",
}
REFERENCES = ("L2 of all", "HistGradientBoosting of all", "RandomForest of all")
"""Models of all columns, which do not select."""
OWN_NUMBER = ("prediction", "LassoCV", "l1-cv", "enet-cv", *REFERENCES)
"""Methods that find the number of features themselves, and only that; `auto` takes a number, too."""
PEERS = ("l1", "LassoCV", "l1-cv", "enet-cv", "OMP", "f-test", "trees", "forest", "boosting")
SIZES = (10, 30, 100)
TIMEOUT_S = 900.0
N_BISECTIONS = 12
Fold = tuple[np.ndarray | None, float | None]
"""The selected columns (None: all, without selection), and the score of the model's own predictions (None if it only
ranks)."""


def measure_of(task: str, y: np.ndarray, prediction: np.ndarray) -> float:
    """Return R², the area under the ROC curve (two classes), or accuracy (several)."""
    from sklearn.metrics import roc_auc_score

    if task == "regression":
        return float(1.0 - np.mean((y - prediction) ** 2) / np.var(y))
    if task == "binary":
        return float(roc_auc_score(y, prediction)) if np.isfinite(prediction).all() else 0.5
    return float(np.mean(prediction == y))


def predictions(model: Any, X: Any, task: str) -> np.ndarray:
    """Return what `measure_of` judges."""
    return np.ravel(model.decision_function(X) if task == "binary" else model.predict(X))


def open_set(folder: Path, seed: int, set: str) -> Any:
    """Load a set of `benchmarks.open_sets`, or scikit-learn's breast cancer, which needs no files."""
    from benchmarks import open_sets

    if set == "breast cancer":
        from sklearn.datasets import load_breast_cancer

        X, y = load_breast_cancer(return_X_y=True)
        return open_sets.OpenSet(set, X.astype(np.float32), y, "binary")
    return open_sets.open_set(set)


def selected(method: str, size: int | str, data: Any, train: np.ndarray, test: np.ndarray) -> Fold:
    """Select and predict with a selector of daskfs as a user makes it: default values but for the number and loss."""
    import daskfs

    made = getattr(daskfs, SELECTORS[method])
    options: dict[str, Any] = {"goal": "prediction"} if size == "own" else {}
    if method == "message" and size != "cv":
        options["max_features"] = size
    elif method != "message" and size != "own":
        options["n_features_to_select"] = size
    if inspect.signature(made).parameters["loss"].default != "auto":
        options["loss"] = {"regression": "squared", "binary": "logistic", "classes": "multinomial"}[data.task]
    if method != "fgm":
        options["random_state"] = 0
    model = made(**options)
    if (method, size) == ("message", "cv"):
        model = daskfs.SelectionCV(model, random_state=0)
    model.fit(data.X[train], data.y[train])
    own = measure_of(data.task, data.y[test], predictions(model, data.X[test], data.task))
    return np.flatnonzero(model.support_), own


def ranked(method: str, size: int, data: Any, train: np.ndarray, test: np.ndarray) -> Fold:
    """Rank by the importances of trees; each split is among √p columns, boosting sees half of the rows."""
    from sklearn import ensemble

    name, options = {
        "trees": ("ExtraTrees", {"n_estimators": 100}),
        "forest": ("RandomForest", {"n_estimators": 200}),
        "boosting": ("GradientBoosting", {"n_estimators": 100, "subsample": 0.5}),
    }[method]
    made = getattr(ensemble, name + ("Regressor" if data.task == "regression" else "Classifier"))
    model = made(max_features="sqrt", random_state=0, **options).fit(data.X[train], data.y[train])
    return np.argsort(-model.feature_importances_, kind="stable")[:size], None


def of_all(method: str, size: int | str, data: Any, train: np.ndarray, test: np.ndarray) -> Fold:
    """Predict with trees of all columns, at their default settings."""
    import scipy.sparse
    from sklearn import ensemble

    kind = "Regressor" if data.task == "regression" else "Classifier"
    X = data.X
    if scipy.sparse.issparse(X) and method.startswith("Hist"):
        X = X.toarray()
    model = getattr(ensemble, method.removesuffix(" of all") + kind)(random_state=0).fit(X[train], data.y[train])
    told = model.predict_proba(X[test])[:, 1] if data.task == "binary" else model.predict(X[test])
    return None, measure_of(data.task, data.y[test], told)


def scalers(X: Any) -> list[Any]:
    """Return the scalings to choose from: of columns that are mostly zeros also none, as `Auto` has."""
    import scipy.sparse
    from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, StandardScaler

    if scipy.sparse.issparse(X):
        return [MaxAbsScaler(), FunctionTransformer()]
    return [StandardScaler(), FunctionTransformer()] if np.mean(X == 0.0) > 0.5 else [StandardScaler()]


def by_peer(method: str, size: int | str, data: Any, train: np.ndarray, test: np.ndarray) -> Fold:
    """Select and predict with scikit-learn; those that cross-validate choose the scaling by it, too."""
    from sklearn.feature_selection import f_classif, f_regression

    y, found = data.y[train], list[tuple[float, Fold]]()
    for scaler in scalers(data.X[train])[: None if method in OWN_NUMBER else 1]:
        X = scaler.fit_transform(data.X[train])
        if method == "f-test":
            statistic = (f_regression if data.task == "regression" else f_classif)(X, y)[0]
            return np.argsort(-np.nan_to_num(statistic), kind="stable")[:size], None
        X_test = scaler.transform(data.X[test])
        if method == "l1":
            return l1(int(size), data.task, X, y, X_test, data.y[test])
        if method in ("l1-cv", "L2 of all") and data.task != "regression":
            fitted = classifier(method, data.task, X, y)
        else:
            fitted = regression(method, int(min(SIZES) if size == "own" else size), data.task, X, y)
        columns = np.flatnonzero(np.any(fitted.coef != 0.0, axis=0))
        own = measure_of(data.task, data.y[test], fitted.predict(X_test))
        found.append((fitted.score, (None if method in REFERENCES else columns, own)))
    return max(found, key=lambda one: one[0])[1]


class Fitted(NamedTuple):
    """A model: coefficients of (targets, columns), its score by its own cross-validation, and predictions."""

    coef: np.ndarray
    score: float
    predict: Callable[[Any], np.ndarray]


def classifier(method: str, task: str, X: Any, y: np.ndarray) -> Fitted:
    """Fit logistic regressions of cross-validated strength: l2, or l1, of several classes one against the rest."""
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.multiclass import OneVsRestClassifier

    options: dict[str, Any] = {"cv": 5, "scoring": "neg_log_loss", "use_legacy_attributes": False, "random_state": 0}
    model: Any = LogisticRegressionCV(Cs=np.logspace(-5, 3, 9), l1_ratios=[0.0], max_iter=200, **options)
    if method == "l1-cv":
        model = LogisticRegressionCV(Cs=np.logspace(-3, 2, 11), l1_ratios=[1.0], solver="liblinear", **options)
        model = OneVsRestClassifier(model) if task == "classes" else model
    parts = getattr(model.fit(X, y), "estimators_", [model])
    score = sum(np.mean(one.scores_, axis=0).max() for one in parts)
    return Fitted(np.vstack([one.coef_ for one in parts]), score, partial(predictions, model, task=task))


def regression(method: str, size: int, task: str, X: Any, y: np.ndarray) -> Fitted:
    """Fit least squares, for classes of -1 and 1, or of one column per class."""
    import scipy.sparse
    from sklearn import linear_model

    several = task == "classes"
    if several:
        target = np.eye(int(y.max()) + 1)[y]
        X = X.toarray() if scipy.sparse.issparse(X) else X
    else:
        target = y if task == "regression" else 2.0 * y - 1.0
    X = X.astype(float)
    X = scipy.sparse.csc_array(X) if scipy.sparse.issparse(X) else X
    if method == "OMP":
        if several:
            raise NotApplicable("selects for each class by itself")
        X = X.toarray() if scipy.sparse.issparse(X) else X
        model: Any = linear_model.OrthogonalMatchingPursuit(n_nonzero_coefs=min(size, len(y) - 1)).fit(X, target)
        score = 0.0
    elif method == "L2 of all":
        model = linear_model.RidgeCV(np.logspace(-2, 6, 17)).fit(X, target)
        score = model.best_score_
    elif method == "l1-cv":
        raise NotApplicable("for classes")
    else:
        name = ("MultiTask" if several else "") + {"LassoCV": "LassoCV", "enet-cv": "ElasticNetCV"}[method]
        ratios = {"l1_ratio": [0.2, 0.5, 0.9]} if method == "enet-cv" else {}
        model = getattr(linear_model, name)(cv=5, **ratios).fit(X, target)
        score = -model.mse_path_.mean(axis=-1).min()
    told = (lambda X: np.argmax(model.predict(X), axis=1)) if several else model.predict
    return Fitted(np.atleast_2d(model.coef_), float(score), told)


def linear(one: Any, task: str, X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray) -> Fold:
    """Fit a linear classifier, of several classes one against the rest."""
    from sklearn.multiclass import OneVsRestClassifier

    model = (OneVsRestClassifier(one) if task == "classes" else one).fit(X, y)
    coef = np.vstack([part.coef_ for part in model.estimators_]) if task == "classes" else model.coef_
    own = measure_of(task, y_test, predictions(model, X_test, task))
    return np.flatnonzero(np.any(coef != 0.0, axis=0)), own


def l1(size: int, task: str, X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray) -> Fold:
    """Return the l1 model with the most features that are not more than asked for."""
    from sklearn.linear_model import LogisticRegression, lars_path

    if task == "regression":
        mean = y.mean()
        coefs = lars_path(np.asarray(X, dtype=float), y - mean, method="lasso", max_iter=4 * size)[2]
        coef = coefs[:, np.flatnonzero(np.count_nonzero(coefs, axis=0) <= size).max()]
        return np.flatnonzero(coef), measure_of(task, y_test, X_test @ coef + mean)
    low, high = 1e-4, 1e2
    best: Fold = np.zeros(0, dtype=int), None
    for _ in range(N_BISECTIONS):
        C = float(np.sqrt(low * high))
        one = LogisticRegression(l1_ratio=1.0, solver="liblinear", C=C, random_state=0, max_iter=100)
        found = linear(one, task, X, y, X_test, y_test)
        if len(found[0]) > size:
            high = C
            continue
        low = C
        best = found if best[1] is None or len(found[0]) >= len(best[0]) else best
        if len(found[0]) == size:
            break
    return best


def over_folds(fold: Callable[[Any, np.ndarray, np.ndarray], Fold], size: int | str, data: Any) -> list[Fold]:
    """Select and predict in each fold."""
    if isinstance(size, int) and size > data.X.shape[1]:
        raise NotApplicable("has fewer columns")
    return [fold(data, train, test) for train, test in data.folds()]


def contender(method: str, size: int | str) -> Contender:
    """Return a method asked for a number of features."""
    kind: Any = selected if method in SELECTORS else ranked if method in ("trees", "forest", "boosting") else by_peer
    kind = of_all if method in REFERENCES[1:] else kind
    return Contender(partial(over_folds, partial(kind, method, size), size))


def refit(data: Any, columns: np.ndarray, train: np.ndarray, test: np.ndarray) -> float:
    """Return what columns are worth to one model for all: ridge or logistic regression on standardised columns."""
    import scipy.sparse
    from sklearn.linear_model import LogisticRegressionCV, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    y, y_test = data.y[train], data.y[test]
    if not len(columns):
        most = np.bincount(y.astype(int)).argmax() if data.task == "classes" else 0
        return {"regression": 0.0, "binary": 0.5, "classes": float(np.mean(y_test == most))}[data.task]
    picked = data.X[:, columns]
    picked = picked.toarray() if scipy.sparse.issparse(picked) else picked
    options: dict[str, Any] = {"cv": 3, "scoring": "neg_log_loss", "use_legacy_attributes": False}
    model = RidgeCV(np.logspace(-2, 4, 13))
    if data.task != "regression":
        model = LogisticRegressionCV(Cs=[1e-3, 1e-2, 1e-1, 1.0, 10.0], **options)
    pipeline = make_pipeline(StandardScaler(), model).fit(picked[train].astype(float), y)
    return measure_of(data.task, y_test, predictions(pipeline, picked[test].astype(float), data.task))


def judge(data: Any, answer: list[Fold]) -> dict[str, float]:
    """Return means over the folds and their standard errors, and the stability of the selection (Nogueira's index)."""
    from daskfs.model_selection.stability_index import stability_index

    folds, p = list(data.folds()), data.X.shape[1]
    chosen = [columns for columns, _ in answer if columns is not None]
    refits = np.array([refit(data, columns, *rows) for columns, rows in zip(chosen, folds, strict=False)])
    found = {"columns": fmean(map(len, chosen)) if chosen else p, "folds": len(folds)}
    owns = np.array([own for _, own in answer if own is not None])
    for name, values in (("own", owns), ("refit", refits)):
        if len(values):
            found[name], found[f"{name} SE"] = values.mean(), values.std(ddof=1) / np.sqrt(len(values))
    if chosen:
        found["stability"] = float(stability_index(chosen, p).value)
    return found


class Cell(NamedTuple):
    """A method on a set: means and their standard errors."""

    columns: float
    own: tuple[float, float] | None
    refit: tuple[float, float]
    cpu_s: float

    def judged(self, how: str) -> tuple[float, float]:
        """Return the score by its own predictions where it has any, or as "refit" says, refitted."""
        return self.own if how == "own" and self.own is not None else self.refit


Cells = Mapping[tuple[str, str, str], Cell]
"""By set, method and number of features asked for."""


def cells(records: Iterable[Record]) -> Cells:
    """Return the gauntlet's records, the newest of each cell."""
    found = {}
    for record in records:
        if record["job"] == "gauntlet" and record["status"] == "ok":
            method, _, asked = record["contender"].rpartition(" ")
            q = record["quality"]
            own = (q["own"], q["own SE"] or 0.0) if "own" in q else None
            refit = (q["refit"], q["refit SE"] or 0.0) if "refit" in q else (-np.inf, 0.0)  # does not select
            cell = Cell(q["columns"], own, refit, record["cpu_s"] / q["folds"])
            found[record["case"]["set"], method, asked] = cell
    return found


class Standing(NamedTuple):
    """How one of ours stands on a set, beside the best of all peers and all their numbers of features."""

    name: str
    ours: Cell
    peer: str
    best: tuple[float, float]
    gap: float
    """In standard errors of the best peer."""
    rank: int
    """Among the peers, each at its best number."""


def standings(known: Cells, method: str, asked: str, how: str) -> list[Standing]:
    """Return how a method stands on each set on which it was measured, the worst first."""
    found = []
    for name in dict.fromkeys(key[0] for key in known):
        if (name, method, asked) not in known:
            continue
        ours, by_peer = known[name, method, asked], dict[str, tuple[tuple[float, float], str]]()
        for (of, peer, _), cell in known.items():
            if of == name and peer in PEERS:
                one = cell.judged(how), f"{peer} ({cell.columns:.0f})"
                by_peer[peer] = max(by_peer.get(peer, one), one)
        if by_peer:
            mean, (best, peer) = ours.judged(how)[0], max(by_peer.values())
            rank = 1 + sum(one[0] > mean for one, _ in by_peer.values())
            found.append(Standing(name, ours, peer, best, (mean - best[0]) / max(best[1], 5e-4), rank))
    return sorted(found, key=lambda one: one.gap)


def is_held(one: Standing) -> bool:
    """Whether ours is within a standard error of the best peer; means have three digits."""
    return one.gap >= -1.0 - 0.2 * 5e-4 / max(one.best[1], 5e-4)


def totals(found: Sequence[Standing]) -> tuple[int, int, int, float]:
    """Return the number of sets, of those held, of those best, and the mean rank."""
    first = sum(one.rank == 1 for one in found)
    return len(found), sum(map(is_held, found)), first, fmean(one.rank for one in found)


def table(records: Sequence[Record]) -> str:
    """Return how all of ours stand, and `Auto` set by set."""
    known = cells(records)
    lines = ["| method | asked for | judged by | sets | within 1 SE of the best peer | best | mean rank |"]
    lines.append("|---|---|---|---|---|---|---|")
    for method in SELECTORS:
        for asked in ("own", "cv", *map(str, SIZES)):
            for how in ("own", "refit"):
                found = standings(known, method, asked, how)
                if found:
                    n, held, first, rank = totals(found)
                    lines.append(f"| {method} | {asked} | {how} | {n} | {held} | {first} | {rank:.2f} |")
    lines += [
        "",
        "| set | `Auto` | features | best peer (its features) | its score | gap in SE | rank | CPU s per fold |",
    ]
    lines.append("|---|---|---|---|---|---|---|---|")
    for one in standings(known, "auto", "own", "own"):
        mean, error = one.ours.judged("own")
        gap = f"{one.gap:+.1f}{'' if is_held(one) else ' **lost**'}"
        lines.append(
            f"| {one.name} | {mean:.3f} ± {error:.3f} | {one.ours.columns:.0f} | {one.peer} | {one.best[0]:.3f} ± "
            f"{one.best[1]:.3f} | {gap} | {one.rank} | {one.ours.cpu_s:.1f} |"
        )
    return "\n".join(lines)


def auto_evidence(records: Sequence[Record]) -> str:
    """Return README's line about `Auto`."""
    found = standings(cells(records), "auto", "own", "own")
    if not found:
        return ""
    n, held, first, _ = totals(found)
    gaps = gaps_at_free_size(cells(records), "HistGradientBoosting of all").values()
    return (
        '- [`Auto`](docs/which_selector.md) with `goal="prediction"` is within one standard error of the best of '
        f"{len(PEERS)} peers on {held} of {n} open sets, and best on {first}. Boosted trees of all columns, which do "
        f"not select, predict better by more than two standard errors on {sum(gap < -2.0 for gap in gaps)} of the "
        f"{len(gaps)} sets on which they were measured."
    )


KINDS = {
    "few rows, thousands of columns; numbers to predict": ("riboflavin", "mice", "maize"),
    "few rows, thousands of columns; classes": (
        *("golub", "alon", "singh", "gravier", "arcene", "epsilon", "khan", "breast tcga"),
    ),
    "many rows, some ten columns; numbers to predict": ("power hourly", "power minute"),
    "many rows of numbers; classes": (
        *("madelon", "gisette-like", "mnist 3v8", "mnist 4v9", "higgs", "higgs h2o", "magic", "skin"),
    ),
    "categories as dummies": ("adult", "a9a", "w8a", "flights", "criteo", "splice", "promoters", "kddcup99"),
    "texts": ("basehock", "pcmac", "relathe", "rcv1", "20news pc v mac", "aclimdb", "rtpolarity", "smsspam"),
}
"""Of data, with their sets."""
COMPARED = ("message", "online_substitution", "fgm", "mission", "l1", "trees")


def which_selector(records: Iterable[Record]) -> str:
    """Return the tables of docs/which_selector.md: mean scores of a refit by kind of data, for 10 and 30 features."""
    known, text = cells(records), list[str]()
    for asked in ("10", "30"):
        heads = " | ".join(f"`{method}`" for method in COMPARED[:4])
        text += [
            f"| {asked} features: data | sets | {heads} | the Lasso | trees |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for kind, names in KINDS.items():
            sets = [one for one in names if all((one, method, asked) in known for method in COMPARED)]
            sets = [
                one for one in sets if known[one, "trees", asked].columns == int(asked)
            ]  # others have fewer columns
            if sets:
                mean = {m: fmean(known[one, m, asked].refit[0] for one in sets) for m in COMPARED}
                best = max(mean[method] for method in COMPARED[:4])
                shown = [f"**{mean[m]:.3f}**" if mean[m] > best - 0.005 else f"{mean[m]:.3f}" for m in COMPARED[:4]]
                shown[0] += f" ({fmean(known[one, 'message', asked].columns for one in sets):.0f})"
                lines = f"| {kind} | {len(sets)} | {' | '.join(shown)} | {mean['l1']:.3f} | {mean['trees']:.3f} |"
                text.append(lines)
        text.append("")
    return "\n".join(text).rstrip()


TRAINED = {
    **{"riboflavin": (56, 4088), "mice": (1115, 10346), "maize": (220, 3093), "golub": (57, 7129), "alon": (49, 2000)},
    **{"singh": (81, 12600), "gravier": (134, 2905), "arcene": (160, 10000), "epsilon": (160, 2000)},
    **{"khan": (50, 2308), "breast tcga": (120, 526), "power hourly": (3000, 47), "power minute": (3000, 38)},
    **{"madelon": (1819, 500), "gisette-like": (3000, 5000), "mnist 3v8": (3000, 784), "mnist 4v9": (3000, 784)},
    **{"higgs": (3000, 28), "higgs h2o": (3000, 28), "magic": (3000, 10), "skin": (3000, 3), "adult": (3000, 105)},
    **{"a9a": (3000, 123), "w8a": (3000, 300), "flights": (3000, 2655), "criteo": (3000, 3507)},
    **{"splice": (3000, 1592), "promoters": (3000, 1004), "kddcup99": (3000, 107), "basehock": (1395, 4862)},
    **{"pcmac": (1360, 3289), "relathe": (998, 4322), "rcv1": (1050, 47237), "20news pc v mac": (1361, 8044)},
    **{"aclimdb": (3000, 20988), "rtpolarity": (3000, 7124), "smsspam": (3000, 2816), "news20": (2795, 62060)},
}
"""Training rows and columns of each set."""
SPARSE = ("a9a", "w8a", "flights", "criteo", "splice", "promoters", "rcv1", "20news pc v mac", "aclimdb", "rtpolarity")
SPARSE += ("smsspam", "news20")
SEVERAL = ("khan", "breast tcga", "kddcup99", "news20")
"""Sets of several classes."""


def with_recommended(known: Cells) -> Cells:
    """Return the cells with those of `Auto` with a number, which are those of the method that it takes."""
    from daskfs.model_selection.auto import choose

    numbers = [name for kind, names in KINDS.items() if kind.endswith("numbers to predict") for name in names]
    found = dict(known)
    for name, shape in TRAINED.items():
        n_classes = 0 if name in numbers else 3 if name in SEVERAL else 2
        method = choose(*shape, n_classes, name in SPARSE).method
        for asked in map(str, SIZES):
            if (name, method, asked) in known:
                found.setdefault((name, "auto", asked), known[name, method, asked])
    return found


def ahead(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Return by how much a score is better than another, in standard errors of the other."""
    return (one[0] - other[0]) / max(other[1], 5e-4)


def named(gaps: Mapping[str, float], most: int = 8) -> str:
    """Return the sets of the largest losses."""
    worst = sorted(gaps, key=lambda name: gaps[name])
    return ", ".join(worst[:most]) + (f" and {len(worst) - most} more" if len(worst) > most else "") or "-"


def gaps_at_free_size(known: Cells, peer: str) -> dict[str, float]:
    """Return by how much `Auto` predicts better than another method on each set, in its standard errors."""
    return {
        name: ahead(known[name, "auto", "own"].judged("own"), cell.judged("own"))
        for (name, method, asked), cell in known.items()
        if (method, asked) == (peer, "own") and (name, "auto", "own") in known
    }


def free_sizes(known: Cells) -> str:
    """Return how `Auto` predicts beside models of as many columns as they take, the worst for it first."""
    lines = [
        "| beside | sets | `Auto` worse by over 1 SE | by over 2 SE | better by over 1 SE | worse on |",
        "|---|---|---|---|---|---|",
    ]
    rows = []
    for peer in (*REFERENCES, "LassoCV", "l1-cv", "enet-cv"):
        gaps = gaps_at_free_size(known, peer)
        worse = {name: gap for name, gap in gaps.items() if gap < -1.0}
        n_worse, n_better = sum(gap < -2.0 for gap in gaps.values()), sum(gap > 1.0 for gap in gaps.values())
        if gaps:
            row = f"| {peer} | {len(gaps)} | {len(worse)} | {n_worse} | {n_better} | {named(worse)} |"
            rows.append((-len(worse) / len(gaps), row))
    return "\n".join([*lines, *(row for _, row in sorted(rows))])


def equal_sizes(known: Cells) -> str:
    """Return how ours stand beside the best peer with as many features, the worst first."""
    lines = [
        "| features | method | sets | by one refit: worse by over 1 SE than the best peer | best | by own predictions: "
        "worse | best | worse on (refit) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for asked in map(str, SIZES):
        rows = []
        for method in ("auto", *COMPARED[1:4]):
            shown, worse = dict[str, str](), dict[str, dict[str, float]]()
            for how in ("refit", "own"):
                gaps = dict[str, float]()
                for name in TRAINED:
                    peers = [known[name, peer, asked] for peer in PEERS if (name, peer, asked) in known]
                    scores = [peer.judged(how) for peer in peers if how == "refit" or peer.own is not None]
                    if scores and (name, method, asked) in known:
                        gaps[name] = ahead(known[name, method, asked].judged(how), max(scores))
                worse[how] = {name: gap for name, gap in gaps.items() if gap < -1.0}
                shown[how] = f"{len(worse[how])} | {sum(gap >= 0.0 for gap in gaps.values())}"
            n = sum((name, method, asked) in known for name in TRAINED)
            row = f"| {asked} | {method} | {n} | {shown['refit']} | {shown['own']} | {named(worse['refit'], 5)} |"
            rows.append((-len(worse["refit"]) / max(n, 1), row))
        lines += [row for _, row in sorted(rows)]
    return "\n".join(lines)


def fewest_features(known: Cells) -> str:
    """Return how few features reach one standard error below the best refit of any selection on a set."""
    reached: dict[str, dict[str, float]] = {}
    measured: dict[str, set[str]] = {}
    for name in TRAINED:
        of_set = {key[1:]: cell for key, cell in known.items() if key[0] == name and key[1] not in REFERENCES}
        mean, error = max((cell.refit for cell in of_set.values()), default=(0.0, 0.0))
        for (method, _), cell in of_set.items():
            measured.setdefault(method, set()).add(name)
            few = reached.setdefault(method, {})
            if cell.refit[0] >= mean - error:
                few[name] = min(cell.columns, few.get(name, cell.columns))
    least: dict[str, float] = {}
    for name, n in ((name, n) for few in reached.values() for name, n in few.items()):
        least[name] = min(n, least.get(name, n))
    rows = []
    for method, few in reached.items():
        n, n_least = len(measured[method]), sum(few[name] <= least[name] for name in few)
        times = f"{np.median([few[name] / max(least[name], 1.0) for name in few]):.1f}" if few else "-"
        rows.append((len(few) / n, f"| {method} | {n} | {n - len(few)} | {n_least} | {times} |"))
    head = "| method | sets | not within 1 SE at any size | fewest of all | times the fewest, median where within |"
    return "\n".join([head, "|---|---|---|---|---|", *(row for _, row in sorted(rows))])


def judged(records: Iterable[Record]) -> str:
    """Return the three tables of docs/which_selector.md on how selections are judged."""
    known = with_recommended(cells(records))
    return "\n\n".join(
        [
            "**Prediction with as many features as each method takes**, by its own predictions:",
            free_sizes(known),
            "**Prediction with equally many features**:",
            equal_sizes(known),
            "**How few features** are within one standard error of the best refit of any selection of a set:",
            fewest_features(known),
        ]
    )


def contenders(methods: Iterable[str]) -> dict[str, Contender]:
    """Return methods at each number of features."""
    asked = {m: ("own",) if m in OWN_NUMBER else (*SIZES, "cv") if m in SELECTORS else SIZES for m in methods}
    asked |= {"auto": ("own", *SIZES)} if "auto" in asked else {}
    return {f"{m} {size}": contender(m, size) for m, sizes in asked.items() for size in sizes}


SETS = (*(name for names in KINDS.values() for name in names), "news20")  # texts of 20 classes, a kind of its own
JOBS = [
    Job(
        "gauntlet",
        "What selected features are worth",
        open_set,
        contenders(SELECTORS),
        contenders((*PEERS, *REFERENCES)),
        judge,
        {
            "smoke": [{"set": "breast cancer"}],
            "small": [{"set": name} for name in ("riboflavin", "golub", "madelon")],
            "full": [{"set": name} for name in SETS],
        },
        about=(
            "Open data sets (`DASKFS_DATA`), with 10, 30 or 100 features, a number by cross-validation, or the "
            "method's own. Folds: five of fewer than 1,000 rows, else three draws of at most 3,000 rows. Scores: "
            "R², area under the ROC curve, or accuracy of several classes. `own` judges a method by its own "
            "predictions if it has any, and by the refit if it only ranks; `refit` judges all by one ridge or "
            "logistic refit of the selected columns. The best peer of a set is known in hindsight."
        ),
        table=table,
        repeats=1,
        timeout_s=TIMEOUT_S,
    )
]
