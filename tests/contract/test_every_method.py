"""One examination of all methods: `cases.py` says who is examined and how, `checks.py` what is asked.

``pytest tests/contract -k fgm`` examines one method quickly; with ``-m ""`` it asks everything. By default one method
of each kind is examined.
"""

from __future__ import annotations

import pytest

from tests.contract.cases import CASES, OF_EACH_KIND
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
