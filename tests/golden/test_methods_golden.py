"""Every method gives the answer it gave: selection, coefficients, intercept, scores and stopping reason.

`tests.tolerances` says how close numbers must be. Another processor, BLAS or version of numba sums in another order and
still passes; another algorithm does not.

``pytest tests/golden -k fgm`` runs those of one method (its name as in a pipeline file), a hundredth of a second for
each case once the kernels are compiled. By default arrays are fitted; with ``-m ""`` stores, sparse rows and float32
too, and two processes, to which arrays are sent and which open the store: they give the bits of one. `cases.py` says
what is fitted; `record.py` writes the results anew, where one is meant to change.
"""

from __future__ import annotations

import json
import re

import pytest

from tests.contract.lab import assert_same_bits
from tests.golden.cases import CASES, Data, fitted
from tests.golden.records import FOLDER, REASONS, read_records
from tests.tolerances import assert_same_answer, tolerance_of

pytestmark = pytest.mark.filterwarnings("ignore::daskfs.errors.SelectionWarning")
COMPILED_FOR_THEM = re.compile(
    "poisson|huber|groups-(logistic|multinomial|always-include)|identity|hashes|iht_sgd|grafting"
)
"""Dense cases whose kernels hardly any other default test needs: they are slow, too."""
EVERY = [
    pytest.param(
        case,
        given,
        id=f"{case.name}-{given}",
        marks=[pytest.mark.slow] if given != "dense" or COMPILED_FOR_THEM.search(case.name) else [],
    )
    for case in CASES
    for given in case.inputs
]
ON_WORKERS = [(case, given) for case in CASES if case.arrives == "at once" for given in ("dense", "store")]


@pytest.fixture(scope="module")
def data():
    return Data()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("golden")


@pytest.fixture(scope="module")
def reasons():
    return json.loads(REASONS.read_text(encoding="utf-8"))


@pytest.mark.every_case
@pytest.mark.parametrize(("case", "given"), EVERY)
def test_the_answer_is_the_golden_one(case, given, data, folder, reasons):
    expected = read_records(case.method)[f"{case.name}/{given}"] | {"stopped": reasons.get(case.name)}
    rtol = tolerance_of(case.method, "float32" if given == "float32" else "float64")
    assert_same_answer(fitted(case, given, data, folder), expected, rtol, f"{case.name}, {given}:")


@pytest.mark.slow
@pytest.mark.every_case
@pytest.mark.parametrize(("case", "given"), ON_WORKERS, ids=[f"{case.name}-{given}" for case, given in ON_WORKERS])
def test_two_processes_give_the_bits_of_one(case, given, data, folder, processes):
    assert_same_bits(fitted(case, given, data, folder, processes.client), fitted(case, given, data, folder))


def test_every_golden_file_has_its_method():
    assert {path.stem for path in FOLDER.glob("*.npz")} == {case.method for case in CASES}
    assert len({case.name for case in CASES}) == len(CASES)


def test_every_stopping_reason_has_its_case(reasons):
    assert set(reasons) <= {case.name for case in CASES}
    assert len(set(reasons.values())) > 4, "cases that end for several reasons"
