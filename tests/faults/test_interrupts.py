"""Fits that are interrupted raise KeyboardInterrupt, whatever the method and the moment, and leave nothing changed."""

from __future__ import annotations

import random
import signal

import numpy as np
import pytest

from daskfs import interrupts
from tests.contract.cases import CASES
from tests.contract.lab import Lab
from tests.faults.storms import FITS, storm

QUICK = ("message logistic", "mission")
N_MOMENTS = 2


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return Lab(tmp_path_factory.mktemp("interrupts"), lambda kind: pytest.fail(f"no {kind} here"))


@pytest.fixture
def calls(monkeypatch):
    """Count the calls of kernels, and press Ctrl-C within the one whose number is asked for."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may ignore it
    counted = {"n": 0, "pressed_at": 0}
    original = interrupts.call_kernel

    def call_kernel(kernel, arguments):
        def pressed(*some):
            counted["n"] += 1
            if counted["n"] == counted["pressed_at"]:
                signal.raise_signal(signal.SIGINT)
            return kernel(*some)

        return original(pressed, arguments)

    monkeypatch.setattr(interrupts, "call_kernel", call_kernel)
    yield counted
    signal.signal(signal.SIGINT, before)


def bits(fitted):
    return fitted.selected_.tobytes(), np.asarray(fitted.coef_).tobytes()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_fit_is_interrupted_in_a_kernel_and_the_next_is_as_before(case, lab, calls):
    y = lab.y(case)
    before = bits(case.make().fit(lab.X, y))
    n_calls = calls["n"]
    rng = random.Random(case.name)
    for _ in range(N_MOMENTS if n_calls else 0):
        calls.update(n=0, pressed_at=1 + rng.randrange(n_calls))
        with pytest.raises(KeyboardInterrupt):
            case.make().fit(lab.X, y)
    calls["pressed_at"] = 0
    assert bits(case.make().fit(lab.X, y)) == before
    assert interrupts.STOP.value == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.nightly) for name in FITS]
)
def test_a_process_outlives_a_storm(name):
    """On 795344b: SIGSEGV, SystemError, or minutes without an answer."""
    found = storm(name, seed=1, n=6 if name in QUICK else 25)
    assert (found.end, found.same_bits) == ("whole", True), found.errors


@pytest.mark.nightly
@pytest.mark.parametrize("name", FITS)
def test_a_large_fit_is_interrupted(name):
    """How soon is in benchmarks/faults.md: the kernels of these run for minutes."""
    found = storm(name, seed=2, n=3, is_small=False, longest_s=5.0)
    assert found.end == "whole", found.errors
