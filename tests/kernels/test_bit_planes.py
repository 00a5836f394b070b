"""Numbers put together of planes of bits are those that Blosc took apart."""

from __future__ import annotations

import numpy as np
import pytest
from numcodecs import blosc

from daskfs.kernels.blocks import bit_planes

pytestmark = pytest.mark.skipif(not bit_planes.CAN_TURN, reason="this processor cannot turn squares of bits")
BITSHUFFLE = 2


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize("n", [512, 520, 7 * 512 + 24, 100_000])
@pytest.mark.parametrize("block_nbytes", [0, 8192, 65536])
def test_numbers_are_put_together(dtype, n, block_nbytes):
    rng = np.random.default_rng(n)
    numbers = rng.integers(0, np.iinfo(dtype).max, n, dtype=dtype, endpoint=True)
    numbers[: n - 9] = 3  # or nothing is compressed, and nothing taken apart
    encoded = np.frombuffer(blosc.compress(numbers, b"lz4", 5, BITSHUFFLE, block_nbytes), np.uint8).copy()
    assert encoded[2] & 0x06 == 0x04
    encoded[2] &= ~np.uint8(0x04)
    found = np.empty_like(numbers)
    blosc.decompress(encoded, found)
    block_nbytes = int(encoded[8:12].view(np.uint32)[0])
    assert not np.array_equal(found, numbers)
    bit_planes.put_together(found, np.empty(block_nbytes, np.uint8), block_nbytes // numbers.itemsize)
    np.testing.assert_array_equal(found, numbers)
