"""Compiling in a process of its own."""

from __future__ import annotations

import subprocess

import pytest

from daskfs.kernels import compiling


@pytest.mark.parametrize("fails", [False, True])
def test_kernels_are_compiled_apart_once_and_again_where_that_failed(fails, tmp_path, monkeypatch):
    calls = []

    def run(command, **options):
        calls.append((command[-1], options["env"]["NUMBA_CACHE_DIR"]))
        return subprocess.CompletedProcess(command, int(fails))

    monkeypatch.setattr(compiling, "CACHE_DIRECTORY", tmp_path / "kernels-0")
    monkeypatch.setattr(compiling.subprocess, "run", run)
    for _ in range(2):
        compiling.compile_apart(generalised=True, substitution=False)
    code = "from daskfs.kernels import warmup; warmup(generalised=True, substitution=False)"
    assert calls == [(code, str(tmp_path))] * (2 if fails else 1)
