"""Thirty functions as a user of numba writes them, and a process that has fits of ours before, after or between them.

``python user_functions.py METHOD before|after|between`` prints a line for each that gives another
result than Python, and the number of them that ran.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.typed import Dict, List

A = np.arange(1.0, 11.0)


def total(a):
    return a.sum()


def mean(a):
    return a.mean()


def zeros(a):
    b = np.zeros(3)
    b[:] = a[:3]
    return b.sum()


def empty(a):
    b = np.empty(3)
    b[:] = a[:3]
    return b[0]


def filled(a):
    b = np.full(4, a[1])
    b.fill(2.0)
    return b.sum()


def ordered(a):
    return np.sort(a)[0]


def order(a):
    return a.argsort()[-1]


def copied(a):
    return a.copy()[1]


def joined(a):
    return np.concatenate((a, a)).size


def largest(a):
    return np.abs(a).max()


def at_largest(a):
    return a.argmax()


def searched(a):
    return np.searchsorted(a, 1.5)


def where_positive(a):
    return np.flatnonzero(a > 3.0)[0]


def looped(a):
    s = 0.0
    for i in range(a.size):
        s += a[i]
    return s


def listed(a):
    found = [1.0]
    found.append(a[0])
    return len(found)


def in_dict(a):
    found = {}
    found[1] = a[0]
    return found[1]


def in_set(a):
    return len({1, 2})


def as_text(a):
    return str(len(a)) + "!"


def raised(a):
    b = np.empty(3)
    b[:] = a[:4]
    return b[0]


def power(a):
    return a[0] ** 2 + a[1] ** 3


def divided(a):
    return 7 // 3 + 7 % 3


def dot(a):
    return np.dot(a, a)


def solved(a):
    return np.linalg.solve(np.eye(3) * 2.0, a[:3].copy())[0]


def singular(a):
    return np.linalg.svd(np.eye(2))[1][0]


def reshaped(a):
    return a.reshape((2, 5)).T.copy()[1, 0]


def cumulated(a):
    return np.cumsum(a)[-1]


def unique(a):
    return np.unique(np.array([3, 1, 1])).size


def random(a):
    np.random.seed(1)  # noqa: NPY002 (what numba has)
    return 0.0 <= np.random.random() < 1.0  # noqa: NPY002


def exponential(a):
    return math.exp(a[0]) + np.log1p(a).sum()


def in_typed_list(a):
    found = List()
    found.append(a[2])
    other = Dict()
    other[1] = found[0]
    return other[1]


PLAIN = [
    value for value in list(globals().values()) if callable(value) and getattr(value, "__module__", "") == __name__
]


def fit(method: str, dtype: type = np.float32, **options: Any) -> None:
    """Fit a selector of ours to some noise."""
    from daskfs.methods import find_method

    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 12)).astype(dtype)
    size = {"n_subsets": 3} if method == "message" else {"n_features_to_select": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        find_method(method)(**size, **options).fit(X, X[:, 0] - X[:, 3] + 0.1 * rng.standard_normal(120))


def wrong(functions: list[Callable[..., Any]], **options: Any) -> list[str]:
    """Return what is said of each function whose compiled result is not Python's."""
    found = []
    for function in functions:
        results = []
        for one in (function, numba.njit(**options)(function)):
            try:
                results.append(one(A))
            except ValueError as fault:
                results.append(type(fault))
            except BaseException as fault:
                results.append(fault)
        if results[0] != results[1]:
            found.append(f"{function.__name__} {options}: expected {results[0]!r}, found {results[1]!r}")
    return found


def doubled(a):
    out = np.empty_like(a)
    for i in numba.prange(a.shape[0]):
        out[i] = 2.0 * a[i]
    return out.sum()


def main(method: str, when: str) -> None:
    """Run the functions, and fits where they are asked for."""
    found = []
    if when in ("before", "between"):
        found += wrong(PLAIN[::2])
    fit(method)
    if when in ("after", "between"):
        found += wrong(PLAIN)
        found += wrong(PLAIN[:6], cache=True) + wrong([doubled], parallel=True)
    if when == "between":
        fit(method, np.float64)
        found += wrong(PLAIN[1::2], fastmath=True)
    print("\n".join([*found, f"{len(PLAIN)} functions, {len(found)} wrong"]))


def on_workers_of_others(method: str) -> None:
    """Run the functions and a fit on processes that a user started without us, on each before and after the fit.

    The functions are sent by the name of their module: numba caches none that was sent by value.
    """
    from distributed import Client, LocalCluster

    from tests.neighbours.user_functions import PLAIN, wrong

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        on_each = [client.run(wrong, PLAIN[::2])]
        fit(method, client=client)
        on_each += [client.run(wrong, PLAIN), client.run(wrong, PLAIN[:6], cache=True)]
    found = [line for workers in on_each for lines in workers.values() for line in lines]
    found += wrong(PLAIN)  # and in the client process
    print("\n".join([*found, f"{len(PLAIN)} functions, {len(found)} wrong"]))


if __name__ == "__main__":
    if sys.argv[2] == "workers":
        on_workers_of_others(sys.argv[1])
    else:
        main(*sys.argv[1:])
