"""Which tests run when: by default, not by default (`slow`), or in single cases at night only (`nightly`).

``.ci/run`` takes the slow ones too, but those of the folders that it names (faults, integration, kernels, baselines,
contract, model selection); the night takes all.

A test with many cases is thinned by default: a case stays if it brings a value of some parameter that no earlier case
brought, so that each value is tried once and not each combination. Of whole numbers from 0 on, which are draws, the
first three are tried. What is left out becomes `nightly`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

N_DRAWS = 3


def without_news(cases: Iterable[dict[str, Any]]) -> list[bool]:
    """Return of each case of a test, given as the values of its parameters, whether earlier ones tried them all."""
    keys = [[(name, _key(value)) for name, value in case.items()] for case in cases]
    values: dict[str, dict[str, None]] = defaultdict(dict)
    for case in keys:
        for name, key in case:
            values[name].setdefault(key)
    draws = {name for name, found in values.items() if list(found) == [str(n) for n in range(len(found))]}
    untried = {
        (name, key) for name, found in values.items() for key in list(found)[: N_DRAWS if name in draws else None]
    }
    answer = []
    for case in keys:
        answer.append(bool(case) and untried.isdisjoint(case))
        untried.difference_update(case)
    return answer


def _key(value: Any) -> str:
    """Tell numbers and texts by what they are; cases share other objects, which are told by their place in memory."""
    return repr(value) if isinstance(value, int | float | str | None) else f"object {id(value)}"
