"""pytest's plugin for `sitecustomize`: which functions each test calls, and how many CPU seconds it takes."""

import os
import time
from pathlib import Path

import pytest
import sitecustomize


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Trace one test."""
    sitecustomize.next_test()
    began, cpu = time.perf_counter(), sum(os.times()[:4])
    result = yield
    line = f"{item.nodeid}\t{time.perf_counter() - began:.3f}\t{sum(os.times()[:4]) - cpu:.3f}\n"
    with (Path(sitecustomize.FOLDER) / f"{os.getpid()}.seconds").open("a") as out:
        out.write(line)
    return result
