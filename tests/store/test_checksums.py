"""Checksums of tiles are those of the library, however they are found."""

from __future__ import annotations

import itertools
import sys

import numba  # noqa: F401
import numpy as np
import pytest
from crc32c import crc32c

from daskfs.kernels.checksum import folds
from daskfs.store.checksums import LEAST_NBYTES, checksum_of


@pytest.fixture
def data():
    return np.random.default_rng(0).integers(0, 256, 3 * LEAST_NBYTES, dtype=np.uint8)


@pytest.mark.parametrize("n_more", [-1, 0, 1, 63, 255, 256, 257, 4096, LEAST_NBYTES + 13])
@pytest.mark.parametrize("start", [0, 1, 8, 77])
def test_a_checksum_is_that_of_the_library(data, n_more, start):
    part = data[start : start + LEAST_NBYTES + n_more]
    assert checksum_of(part) == crc32c(part.data)
    assert checksum_of(part, 0x1234ABCD) == crc32c(part.data, 0x1234ABCD)


def test_a_checksum_goes_on_from_that_of_what_comes_before(data):
    cuts = [0, LEAST_NBYTES, LEAST_NBYTES + 7, 2 * LEAST_NBYTES + 1000, len(data)]
    found = 0
    for start, stop in itertools.pairwise(cuts):
        found = checksum_of(data[start:stop], found)
    assert found == crc32c(data.data)


def test_numbers_of_any_kind_are_their_bytes(data):
    assert checksum_of(data.view(np.float32).reshape(-1, 256)) == crc32c(data.data)


@pytest.mark.skipif(not folds.CAN_FOLD, reason="this processor cannot fold")
def test_many_bytes_are_folded_and_few_are_not(data, monkeypatch):
    calls = []
    monkeypatch.setattr(folds, "folded", lambda *arguments: calls.append(len(arguments[0])))
    checksum_of(data)
    checksum_of(data[: LEAST_NBYTES - 1])
    assert calls == [len(data)]


def test_processors_that_cannot_fold_and_processes_without_numba_ask_the_library(data, monkeypatch):
    monkeypatch.setattr(folds, "folded", None)
    with monkeypatch.context() as change:
        change.setattr(folds, "CAN_FOLD", False)
        assert checksum_of(data) == crc32c(data.data)
    monkeypatch.delitem(sys.modules, "numba")
    assert checksum_of(data) == crc32c(data.data)


def test_every_bit_counts(data):
    whole = checksum_of(data)
    for place in np.random.default_rng(1).integers(0, 8 * len(data), 200):
        data[place // 8] ^= 1 << (place % 8)
        assert checksum_of(data) != whole
        data[place // 8] ^= 1 << (place % 8)
