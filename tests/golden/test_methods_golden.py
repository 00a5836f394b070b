"""Every method gives the numbers it gave: selected, coef_, intercept_, scores_, the table and the history.

``pytest tests/golden -k fgm`` runs those of one method (its name as in a pipeline file), a hundredth of a second for
each case once the kernels are compiled; ``-m "slow or not slow"`` adds two processes, to which arrays are sent and
which open the store. `cases.py` says what is fitted; `record.py` writes the results anew, where one is meant to change.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.golden.cases import CASES, Data, fitted, results_of
from tests.golden.records import FOLDER, machine_code, read_records

pytestmark = pytest.mark.filterwarnings("ignore::daskfs.errors.SelectionWarning")
EVERY = [(case, given) for case in CASES for given in case.inputs]
ON_WORKERS = [(case, given) for case in CASES if case.arrives == "at once" for given in ("dense", "store")]


@pytest.fixture(scope="module")
def data():
    return Data()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("golden")


def assert_is_golden(case, given, found):
    """Bit for bit where the machine code is that of the recording.

    Elsewhere a compiler may join a product and a sum into one rounding, or sum in other widths: 1e-7 of the largest
    number is far above what that does to these small fits, far below what another algorithm would. The selection stays.
    """
    recorded_on, records = read_records(case.method)
    expected = records[f"{case.name}/{given}"]
    assert list(found) == list(expected)
    for name, value in expected.items():
        where = f"{case.name}, {given}: {name}"
        if recorded_on == machine_code() or value.dtype.kind != "f":
            np.testing.assert_array_equal(found[name], value, where)
        else:
            scale = np.max(np.abs(value), initial=0.0, where=np.isfinite(value))
            np.testing.assert_allclose(found[name], value, rtol=1e-7, atol=1e-7 * scale, err_msg=where)


def names(pairs):
    return [f"{case.name}-{given}" for case, given in pairs]


@pytest.mark.parametrize(("case", "given"), EVERY, ids=names(EVERY))
def test_the_result_is_the_golden_one(case, given, data, folder):
    assert_is_golden(case, given, results_of(fitted(case, given, data, folder)))


@pytest.mark.slow
@pytest.mark.parametrize(("case", "given"), ON_WORKERS, ids=names(ON_WORKERS))
def test_the_result_in_two_processes_is_the_golden_one(case, given, data, folder, processes):
    assert_is_golden(case, given, results_of(fitted(case, given, data, folder, processes.client)))


@pytest.mark.slow
def test_a_process_that_compiles_gives_the_bits_of_one_that_loads(tmp_path):
    command = [sys.executable, "-m", "pytest", __file__, "-q", "-k", "online_substitution-dense and not two_processes"]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run(command, check=True, capture_output=True, env=environment, cwd=Path(__file__).parents[2])


def test_every_golden_file_has_its_method():
    assert {path.stem for path in FOLDER.glob("*.npz")} == {case.method for case in CASES}
    assert len({case.name for case in CASES}) == len(CASES)
