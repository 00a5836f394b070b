"""One examination of all methods: `cases.py` says who is examined and how, `checks.py` what is asked.

``pytest tests/contract -k fgm`` examines one method quickly; with ``-m ""`` it asks everything. By default one method
of each kind is examined.
"""

from __future__ import annotations

import pytest

from daskfs.methods import METHODS
from tests.contract.cases import BROKEN, CASES, OF_EACH_KIND, ON_TALL_DATA, OPTIONS, SPARSE, UNFIT, WAYS
from tests.contract.checks import CHECKS, ONCE, QUICK


def examinations():
    for check in CHECKS:
        for case in CASES:
            is_variant = "-" in case.name
            if check.__name__ in case.unfit or (is_variant and check.__name__ in ONCE):
                continue
            marks = [] if check.__name__ in QUICK and case.name in OF_EACH_KIND else [pytest.mark.slow]
            if check.__name__ in case.broken:
                marks.append(pytest.mark.xfail(strict=True, reason=case.broken[check.__name__]))
            yield pytest.param(check, case, id=f"{case.name}-{check.__name__}", marks=marks)


@pytest.mark.every_case
@pytest.mark.parametrize(("check", "case"), list(examinations()))
def test_every_method(check, case, lab):
    check(case, lab)


def test_every_method_has_its_case_and_what_is_said_is_said_of_cases():
    names = {name for case in CASES for name in (case.name, case.method)}
    said = {*METHODS, *OF_EACH_KIND, *OPTIONS, *SPARSE, *ON_TALL_DATA}
    said |= {f"{method}-{way}" for method, ways in WAYS.items() for way in ways}
    said |= {name for some, _, _ in UNFIT + BROKEN for name in some} - {"split_inference"}  # tests/model_selection
    assert said <= names, said - names
    assert {check for _, _, checks in UNFIT + BROKEN for check in checks} <= {check.__name__ for check in CHECKS}
