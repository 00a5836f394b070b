"""MESSAGE: the paths of its subsets against the Lasso paths of others, and whole fits from a store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data as planted
from benchmarks.harness import Contender, Job, NotApplicable
from benchmarks.peers import PEERS_PYTHON, of_coef


@dataclass
class PathTask:
    """A Lasso path to be followed, by ours from X as it is, by peers over standardised columns and a given grid."""

    X: np.ndarray
    y: np.ndarray
    support: np.ndarray
    is_class: bool
    lambdas: np.ndarray
    Z: Any = None


def path_task(folder: Path, seed: int, n_samples: int, n_features: int, loss: str, grid: str) -> PathTask:
    """Draw the data, and find the grid."""
    drawn = planted.compound(n_samples, n_features, seed, loss == "logistic", rho=0.3 if n_features < 100 else 0.0)
    task = PathTask(drawn.X, drawn.y, drawn.support, drawn.is_class, np.empty(0))
    lambdas = followed(task, task.X).lambdas
    if grid == "100 penalties":
        ratio = 1e-2 if n_samples < n_features else 1e-4
        lambdas = lambdas[0] * ratio ** np.linspace(0.0, 1.0, 100)
    task.lambdas = lambdas
    return task


def followed(task: PathTask, X: np.ndarray, in_groups: bool = False) -> Any:
    """Follow the path as MESSAGE does in a subset: to the stop of its criterion, refits and Gram blocks included."""
    from daskfs.interrupts import guard
    from daskfs.kernels.glm.path import glm_path
    from daskfs.kernels.group_lasso.groups import ColumnGroups
    from daskfs.kernels.group_lasso.path import group_path
    from daskfs.kernels.lasso.criteria import feature_penalty
    from daskfs.kernels.lasso.path import lasso_path

    weight, price, loss = np.ones(len(X)), feature_penalty("ebic", *X.shape), "logistic" if task.is_class else "squared"
    with guard():
        if in_groups:
            singles = ColumnGroups(np.arange(X.shape[1]), np.arange(X.shape[1] + 1))
            return group_path(X, task.y, weight, singles, loss=loss, per_column=price, patience=10)
        if task.is_class:
            return glm_path(X, task.y, weight, loss=loss, penalty=price, patience=10)
        return lasso_path(X, task.y, weight, solver="descent", penalty=price, patience=10)


def ours(task: PathTask) -> Any:
    """Return the selected columns of the path over float64."""
    return np.asarray(followed(task, task.X).selected())


def ours_in_groups(task: PathTask) -> Any:
    """Return those of the path over groups of one column each, which decision 80 is about."""
    return np.asarray(followed(task, task.X, in_groups=True).selected())


def ours_single(task: PathTask) -> Any:
    """Return those of float32, as stores hold it."""
    return np.asarray(followed(task, task.X.astype(np.float32, copy=False)).selected())


def single(task: PathTask) -> PathTask:
    """Return the task in float32."""
    task.X = task.X.astype(np.float32)
    return task


def standardised(task: PathTask) -> PathTask:
    """Return the task with standardised columns in Fortran order, which peers are given before the clock starts."""
    task.Z = np.asfortranarray((task.X - task.X.mean(axis=0)) / task.X.std(axis=0))
    return task


def by_sklearn(task: PathTask, gram: bool = False) -> Any:
    """Coordinate descent on residuals or, with few columns, on their Gram matrix."""
    from sklearn.linear_model import lasso_path

    if task.is_class:
        raise NotApplicable("no path of logistic regression but by saga, a thousand times slower")
    if gram and task.Z.shape[1] > 1000:
        raise NotApplicable("a Gram matrix of all columns does not pay")
    options: dict[str, Any] = {"precompute": True} if gram else {"precompute": False, "check_input": False}
    return of_coef(lasso_path(task.Z, task.y - task.y.mean(), alphas=task.lambdas, **options)[1][:, -1])[0]


def by_celer(task: PathTask) -> Any:
    """Working sets with dual extrapolation."""
    from celer import celer_path

    refuse_long(task)
    target = task.y if task.is_class else task.y - task.y.mean()
    kind, alphas = ("logreg", task.lambdas * len(target)) if task.is_class else ("lasso", task.lambdas)
    return of_coef(celer_path(task.Z, target, kind, alphas=alphas)[1][:, -1])[0]


def by_skglm(task: PathTask) -> Any:
    """Working sets with Anderson acceleration."""
    from skglm import Lasso

    if task.is_class:
        raise NotApplicable("no path of its logistic model")
    refuse_long(task)
    path = Lasso(alpha=1.0, fit_intercept=False).path(task.Z, task.y - task.y.mean(), task.lambdas)
    return of_coef(path[1][:, -1])[0]


def refuse_long(task: PathTask) -> None:
    """Leave out what takes minutes."""
    if len(task.lambdas) == 100 and task.Z.size > 1_000_000:
        raise NotApplicable("takes minutes")


def by_adelie(task: PathTask) -> Any:
    """The elastic net's fastest solver, of glmnet's authors."""
    import adelie

    model = adelie.glm.binomial(y=(task.y > 0).astype(float)) if task.is_class else adelie.glm.gaussian(y=task.y)
    options = {"lmda_path": task.lambdas, "early_exit": False, "progress_bar": False, "n_threads": 1}
    return of_coef(adelie.grpnet(task.Z, model, intercept=True, **options).betas[-1].toarray())[0]


def by_glmnet(task: PathTask) -> Any:
    """The Fortran program."""
    import glmnet

    model = (glmnet.LogitNet if task.is_class else glmnet.ElasticNet)(n_splits=0, standardize=False)
    return of_coef(model.set_params(lambda_path=task.lambdas).fit(task.Z, task.y).coef_path_[..., -1])[0]


def judge_path(task: PathTask, columns: np.ndarray) -> dict[str, float]:
    """Say which true columns are in the model, and how many columns it has."""
    found = len(np.intersect1d(columns, task.support)) / len(task.support)
    return {"recall": found, "columns": len(columns)}


def path_cases(*shapes: tuple[int, int, str]) -> list[dict[str, Any]]:
    """Return both questions about each shape; the README tells the last, where all go as far as we do."""
    return [
        {"n_samples": n, "n_features": p, "loss": loss, "grid": grid}
        for n, p, loss in shapes
        for grid in ("100 penalties", "our stop")
    ]


@dataclass
class GroupTask:
    """A group Lasso path, by ours over X, by peers over the orthonormal columns Q of its groups and a given grid."""

    X: np.ndarray
    Q: np.ndarray
    y: np.ndarray
    is_class: bool
    patience: int | None
    lambdas: np.ndarray


GROUP = 10
"""Columns of a group."""


def group_task(folder: Path, seed: int, n_samples: int, n_features: int, loss: str, ends: str) -> GroupTask:
    """Draw normal columns, of which the first five groups matter, and find how far our path goes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    z = X[:, : 5 * GROUP] @ (0.2 * rng.standard_normal(5 * GROUP))
    is_class = loss == "logistic"
    y = np.where(z + rng.logistic(size=n_samples) > 0, 1.0, -1.0) if is_class else z + rng.standard_normal(n_samples)
    Q = np.asfortranarray(X - X.mean(axis=0))
    for start in range(0, n_features, GROUP):
        Q[:, start : start + GROUP] = np.linalg.qr(Q[:, start : start + GROUP])[0] * n_samples**0.5
    most = np.linalg.norm((Q.T @ _residual(y, is_class, y.mean())).reshape(-1, GROUP), axis=1).max()
    lambdas = most / GROUP**0.5 * 0.05 ** np.linspace(0.0, 1.0, 60)
    task = GroupTask(X, Q, y, is_class, 10 if ends == "our stop" else None, lambdas)
    task.lambdas = followed_groups(task).lambdas
    return task


def followed_groups(task: GroupTask) -> Any:
    """Follow the path as MESSAGE does in a subset: orthonormal columns, the criterion and refits included."""
    from daskfs.interrupts import guard
    from daskfs.kernels.group_lasso.groups import ColumnGroups
    from daskfs.kernels.group_lasso.path import group_path
    from daskfs.kernels.lasso.criteria import feature_penalty

    n_samples, n_features = task.X.shape
    groups = ColumnGroups(np.arange(n_features), np.arange(0, n_features + 1, GROUP))
    prices = {"per_column": 2.0, "per_group": feature_penalty("ebic", n_samples, n_features // GROUP) - 2.0}
    options = {"loss": "logistic" if task.is_class else "squared", "lambdas": task.lambdas, "patience": task.patience}
    with guard():
        return group_path(task.X, task.y, np.ones(n_samples), groups, **prices, **options)


def our_groups(task: GroupTask) -> tuple[np.ndarray, np.ndarray]:
    """Return predictions at the last penalty, and the groups of that model."""
    path = followed_groups(task)
    last = len(path.lambdas) - 1
    return task.X @ path.coefficients(last) + path.intercept(last), path.selected_units(last)


def single_groups(task: GroupTask) -> GroupTask:
    """Return the task in float32."""
    task.X = task.X.astype(np.float32)
    return task


def groups_by_adelie(task: GroupTask) -> tuple[np.ndarray, np.ndarray]:
    """Its default tolerance."""
    import adelie

    model = adelie.glm.binomial(y=(task.y > 0).astype(float)) if task.is_class else adelie.glm.gaussian(y=task.y)
    options = {"lmda_path": task.lambdas, "early_exit": False, "progress_bar": False, "n_threads": 1}
    groups = np.arange(0, task.Q.shape[1], GROUP)
    path = adelie.grpnet(task.Q, model, groups=groups, intercept=True, **options)
    return _of_orthonormal(task, path.betas[-1].toarray(), path.intercepts[-1])


def groups_by_skglm(task: GroupTask) -> tuple[np.ndarray, np.ndarray]:
    """Block coordinate descent over working sets, penalty after penalty from where the last one ended."""
    from skglm.datafits import LogisticGroup, QuadraticGroup
    from skglm.penalties import WeightedGroupL2
    from skglm.solvers import GroupBCD, GroupProxNewton
    from skglm.utils.data import grp_converter
    from skglm.utils.jit_compilation import compiled_clone

    if task.is_class and task.Q.size > 1_000_000:
        raise NotApplicable("takes minutes")
    n_features = task.Q.shape[1]
    indices, starts = grp_converter(GROUP, n_features)
    datafit = compiled_clone((LogisticGroup if task.is_class else QuadraticGroup)(starts, indices))
    solver = GroupProxNewton(fit_intercept=True) if task.is_class else GroupBCD(fit_intercept=False)
    target, prices = task.y, np.full(n_features // GROUP, GROUP**0.5)
    if not task.is_class:
        target = task.y - task.y.mean()
        datafit.initialize(task.Q, target)
    coef, fitted = np.zeros(n_features + task.is_class), np.zeros(len(target))
    for penalty in task.lambdas:
        penalty = compiled_clone(WeightedGroupL2(penalty, prices, starts, indices))
        coef = solver.solve(task.Q, target, datafit, penalty, coef, fitted)[0]
        fitted = task.Q @ coef[:n_features] + (coef[-1] if task.is_class else 0.0)
    return _of_orthonormal(task, coef[:n_features], coef[-1] if task.is_class else task.y.mean())


def _of_orthonormal(task: GroupTask, coef: np.ndarray, intercept: float) -> tuple[np.ndarray, np.ndarray]:
    coef = np.ravel(coef)
    return task.Q @ coef + intercept, np.flatnonzero(coef.reshape(-1, GROUP).any(axis=1))


def _residual(y: np.ndarray, is_class: bool, z: Any) -> np.ndarray:
    """Return minus the derivative of the mean loss by the predictions; of classes at 0, if all have the same."""
    if not is_class:
        return (y - z) / len(y)
    return ((y > 0) - (y > 0).mean()) / len(y) if np.ndim(z) == 0 else y / (1.0 + np.exp(y * z)) / len(y)


def judge_groups(task: GroupTask, answer: tuple[np.ndarray, np.ndarray]) -> dict[str, float]:
    """Say which true groups are in the last model, how many it has, and by how much of λ it is not optimal.

    Optimal is a model whose groups have gradients of length λ√10, and others shorter ones.
    """
    z, groups = answer
    gradient = task.Q.T @ _residual(task.y, task.is_class, z)
    size = np.linalg.norm(gradient.reshape(-1, GROUP), axis=1) / (task.lambdas[-1] * GROUP**0.5) - 1.0
    off = max(np.abs(size[groups]).max(initial=0.0), size.max())
    return {"recall": np.isin(np.arange(5), groups).mean(), "groups": len(groups), "off by": off}


def group_cases(*shapes: tuple[int, int], losses: tuple[str, ...] = ("squared", "logistic")) -> list[dict[str, Any]]:
    """Return both questions about each shape and loss."""
    return [
        {"n_samples": n, "n_features": p, "loss": loss, "ends": ends}
        for n, p in shapes
        for loss in losses
        for ends in ("our stop", "a third of the rows")
    ]


@dataclass
class Household:
    """A store of a household's power, and rows to test on."""

    path: Path
    X_test: np.ndarray
    y_test: np.ndarray
    noise: float = 1.0


def household(folder: Path, seed: int, n_samples: int) -> Household:
    """Write the store."""
    import daskfs

    X, y = planted.household(n_samples + 20_000, seed)
    daskfs.ingest(X[:n_samples], folder / "power.zarr", y=y[:n_samples])
    return Household(folder / "power.zarr", X[n_samples:], y[n_samples:])


def fitted(data: Household, **options: Any) -> tuple[np.ndarray, float]:
    """Return coefficients and intercept of MESSAGE from the store."""
    import daskfs

    model = daskfs.Message(**options).fit(daskfs.open_store(data.path))
    return model.coef_, float(model.intercept_)


def read_once(data: Household) -> tuple[np.ndarray, float] | None:
    """Read all blocks, and do nothing with them."""
    import daskfs

    store = daskfs.open_store(data.path)
    for start in range(0, store.shape[0], 65_536):
        store.read(slice(start, min(start + 65_536, store.shape[0])))
    return None


def lasso_cv(data: Household) -> tuple[np.ndarray, float]:
    """Read the store into memory and fit scikit-learn's LassoCV to standardised columns, as its users do."""
    from sklearn.linear_model import LassoCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    import daskfs

    store = daskfs.open_store(data.path)
    X, y = store.read(slice(None)).astype(np.float64), np.ravel(store.read_target(slice(None)))
    scaler, model = make_pipeline(StandardScaler(), LassoCV(cv=5)).fit(X, y).named_steps.values()
    coef = model.coef_ / scaler.scale_
    return coef, float(model.intercept_ - scaler.mean_ @ coef)


def judge_household(data: Household, answer: tuple[np.ndarray, float] | None) -> dict[str, float]:
    """Say the test error beyond the noise's variance, 1, and how many columns there are."""
    if answer is None:
        return {}
    coef, intercept = answer
    error = float(np.mean((data.X_test @ coef + intercept - data.y_test) ** 2))
    return {"test MSE": error, "columns": int(np.count_nonzero(coef))}


JOBS = [
    Job(
        "message_paths",
        "MESSAGE: the path in a subset",
        path_task,
        {
            "daskfs": Contender(ours),
            "daskfs float32": Contender(ours_single, prepare=single),
            "daskfs, groups of one": Contender(ours_in_groups),
        },
        {
            "sklearn": Contender(by_sklearn, (), standardised),
            "sklearn, Gram": Contender(lambda task: by_sklearn(task, gram=True), (), standardised),
            "celer": Contender(by_celer, ("celer",), standardised),
            "skglm": Contender(by_skglm, ("skglm",), standardised),
            "adelie": Contender(by_adelie, ("adelie",), standardised, PEERS_PYTHON),
            "glmnet": Contender(by_glmnet, ("glmnet",), standardised, PEERS_PYTHON),
        },
        judge_path,
        {
            "smoke": path_cases((200, 120, "squared"), (200, 120, "logistic"))[::2],
            "small": path_cases((400, 1000, "squared"), (400, 1000, "logistic"), (10_000, 27, "logistic")),
            "full": path_cases(
                *((400, 1000, "squared"), (10_000, 1000, "squared"), (2000, 10_000, "squared")),
                *((400, 1000, "logistic"), (10_000, 1000, "logistic"), (10_000, 27, "logistic")),
            ),
        },
        about=(
            "The compound design of MESSAGE's paper, 4.1. Ours is measured whole: standardisation, the "
            "criterion, the refit of every model, the Gram block. Peers follow the path alone, over columns "
            "standardised beforehand: `our stop` is the grid down to the penalty where our criterion stops, "
            "which they could not know; 100 penalties is what their users run. Tolerances are the default ones."
        ),
        rival="adelie",
        repeats=5,
        evidence=(
            "[`Message`](docs/selectors/message.md) follows the Lasso path of {case.n_samples:,} rows × "
            "{case.n_features:,} columns with the {case.loss} loss, chooses a model and refits in {ours.cpu_s:.3f} s "
            "of CPU; adelie takes {times:.1f} times as long for the path alone, down to the penalty where ours stopped."
        ),
    ),
    Job(
        "message_group_paths",
        "MESSAGE: the path over groups in a subset",
        group_task,
        {"daskfs": Contender(our_groups), "daskfs float32": Contender(our_groups, prepare=single_groups)},
        {
            "adelie": Contender(groups_by_adelie, ("adelie",), python=PEERS_PYTHON),
            "skglm": Contender(groups_by_skglm, ("skglm",)),
        },
        judge_groups,
        {
            "smoke": group_cases((300, 200), (300, 60)),
            "small": group_cases((2000, 4000)),
            "full": group_cases((20_000, 100), (2000, 4000), (600, 10_000)),
        },
        about=(
            "Normal columns in groups of ten, of which five groups matter; at most 60 penalties down to a twentieth of "
            "the largest. Ours is measured whole: orthonormal columns, the criterion, the refit of every model. Peers "
            "follow the path alone, over orthonormal columns made beforehand, down to the penalty where ours ends: "
            "where the criterion stops it, or where models have a third as many columns as there are rows. Tolerances "
            "are the default ones; `off by` is how far the last model is from optimal, as a share of λ."
        ),
        rival="adelie",
        timeout_s=300.0,
    ),
    Job(
        "message_store",
        "MESSAGE: a fit from a store",
        household,
        {"Message": Contender(fitted), "one read of the store": Contender(read_once)},
        {"sklearn LassoCV, in memory": Contender(lasso_cv)},
        judge_household,
        {"smoke": [{"n_samples": 2000}], "small": [{"n_samples": 200_000}], "full": [{"n_samples": 2_075_259}]},
        about=(
            "Rows of a household's power, 74 columns with dummies of the time, noise of variance 1; 20,000 rows "
            "to test on."
        ),
        rival="sklearn LassoCV, in memory",
    ),
]
