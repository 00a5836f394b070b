"""How close two answers must be: the one table of tolerances, its reasons, and the comparison that uses it.

The same data, parameters and installation on one machine give the same bits with any number of workers, threads and
processes, in any order of completion, and after an interrupt. Tests compare those fits bit for bit
(`tests.contract.lab.assert_same_bits`). All other fits of the same data give the same answer, which
`assert_same_answer` compares: dense, sparse and stored data; tiles, chunks and memory limits of any size; any
processor, BLAS and version of numba; cold and warm caches. Their sums may have another order. Steps and clocks may
then differ, so histories are not compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np

NEAR_TIE = 1e-9
"""Of the largest score. Two orders of a sum of a million float64 numbers differ by 1e-10 of it at most. Features may
change places where their scores are closer than this."""

FLOAT64 = 1e-8
"""Of the largest coefficient, score or intercept, each by itself. Solvers end where a step changes little, and another
order of sums may give one step more or less."""

FLOAT32 = 1e-5
"""Likewise, where the last place is 6e-8: a BLAS may sum float32 data in float32."""

SINGLE_PRECISION = ("mission", "iht_sgd", "batch_iht", "feature_hashing")
"""Methods whose weights are float32 while they learn, whatever the data are. Their last place depends on how sums of
products are rounded, and every later step begins at it."""

Answer = dict[str, Any]
"""What two fits must agree on, by name. The arrays of golden results have these names too."""


def answer_of(selector: Any) -> Answer:
    """Return the answer of a fitted selector."""
    table = selector.result_.table
    answer = {name: np.asarray(getattr(selector, f"{name}_")) for name in ("selected", "coef", "intercept", "scores")}
    answer |= {f"table.{name}": table[name].to_numpy() for name in ("index", "coef", "score")}
    # FGM and its baselines end a note with their reason to stop. Other methods have only one.
    reasons = [note.partition(" passes: ")[2] for note in selector.result_.notes if " passes: " in note]
    return answer | {"stopped": reasons[0] if reasons else None, "classes": getattr(selector, "classes_", None)}


def tolerance_of(method: str, dtype: Any = "float64") -> float:
    """Return the relative tolerance of a method, named as in a pipeline file, on data of some dtype."""
    return FLOAT32 if method in SINGLE_PRECISION or np.dtype(dtype) == np.float32 else FLOAT64


def assert_close(found: Any, expected: Any, rtol: float = FLOAT64, what: str = "") -> None:
    """Compare numbers to a share of the largest that is expected."""
    largest = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=rtol * largest, err_msg=what)


def assert_same_answer(found: Any, expected: Any, rtol: float = FLOAT64, where: str = "") -> None:
    """Compare selection, coefficients, intercept, scores, classes and stopping reason.

    Parameters
    ----------
    found, expected : fitted selector or Answer
    rtol : float
        A tolerance of this file.
    where : str
        Beginning of the message of a failure.
    """
    found, expected = (one if isinstance(one, dict) else answer_of(one) for one in (found, expected))
    for name in ("stopped", "classes"):
        if name in expected:
            np.testing.assert_array_equal(found[name], expected[name], f"{where} {name}")

    new, old = found["table.index"].tolist(), expected["table.index"].tolist()
    np.testing.assert_array_equal(found["selected"], new, f"{where} table and selected_")
    assert len(new) == len(old), f"{where} selected: {new}, not {old}"
    scores = expected["scores"]
    is_of_all = len(scores) != len(old)  # not only of the selected, as where a map makes the features
    score_of = dict(enumerate(scores) if is_of_all else ()) | dict(zip(old, expected["table.score"], strict=True))
    near = NEAR_TIE * np.max(np.abs(scores), initial=0.0, where=np.isfinite(scores))
    for j, k in zip(new, old, strict=True):
        is_tied = j in score_of and abs(score_of[j] - score_of[k]) <= near
        assert j == k or is_tied, f"{where} selected: {new}, not {old}"
    if set(new) != set(old):
        return  # the coefficients belong to a model of other features

    for name in ("coef", "intercept", "scores", "table.coef", "table.score"):
        a, b = found[name], expected[name]
        if name.startswith("table."):  # lines stand in the order of ranks, which ties may exchange
            a, b = a[np.argsort(new)], b[np.argsort(old)]
        assert_close(a, b, rtol, f"{where} {name}")
