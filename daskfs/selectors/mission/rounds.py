"""The rows of each model in a pass, and their order, up to the next average. Integers only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np

REPORTS = 8
"""Lines of the history, and checkpoints, per pass: a single model learns from so many ranges of rows."""

Unit: TypeAlias = tuple[tuple[int, int], ...]
"""Blocks that one model takes between two averages, as intervals of rows."""


@dataclass(frozen=True, slots=True)
class PassOrder:
    """The order of blocks of rows in each pass, and their assignment to models."""

    n_samples: int
    block_rows: int
    n_replicas: int
    sync_every: int
    seed: int

    @property
    def n_blocks(self) -> int:
        """Number of blocks per pass."""
        return -(-self.n_samples // self.block_rows)

    def blocks(self, number: int) -> np.ndarray:
        """Return the blocks of a pass in order; the first pass is in the order of the rows."""
        if not number:
            return np.arange(self.n_blocks)
        return np.random.default_rng(np.random.SeedSequence([self.seed, number])).permutation(self.n_blocks)

    def rounds(self, number: int) -> Iterator[tuple[list[Unit], bool]]:
        """Yield the rounds of a pass: the blocks of each model, and whether a report follows."""
        rows, n = self.block_rows, self.n_samples
        blocks = [(k * rows, min((k + 1) * rows, n)) for k in self.blocks(number).tolist()]
        if self.n_replicas == 1:
            for a, b in pairwise(self._legs):
                yield [tuple(blocks[a:b])], True
            return
        units = self._units(blocks)
        rounds = [units[k : k + self.n_replicas] for k in range(0, len(units), self.n_replicas)]
        reports = set(_evenly(len(rounds), REPORTS) - 1)
        for k, part in enumerate(rounds):
            yield part, k in reports

    def _units(self, blocks: list[tuple[int, int]]) -> list[Unit]:
        """Return the units: equal parts of blocks (so that models have equal weights), or several blocks."""
        if n := self._blocks_of_unit:
            return [tuple(blocks[k : k + n]) for k in range(0, len(blocks), n)]
        parts = [self._parts(a, b).tolist() for a, b in blocks]
        return [(part,) for bounds in parts for part in pairwise(bounds)]

    def bounds(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the starts and ends of the runs of rows that one model reads without a gap, to count what is read."""
        rows, n, order = self.block_rows, self.n_samples, self.blocks(number)
        if self.n_replicas > 1 and not self._blocks_of_unit:
            last = (self.n_blocks - 1) * rows
            whole = np.arange(0, last, rows)[:, None] + self._parts(0, rows)
            tail = self._parts(last, n)
            return np.concatenate([whole[:, :-1].ravel(), tail[:-1]]), np.concatenate([whole[:, 1:].ravel(), tail[1:]])
        begins = np.diff(order, prepend=-2) != 1
        begins[self._legs[:-1] if self.n_replicas == 1 else np.arange(0, len(order), self._blocks_of_unit)] = True
        ends = np.concatenate([begins[1:], [True]])
        return order[begins] * rows, np.minimum((order[ends] + 1) * rows, n)

    @property
    def _legs(self) -> np.ndarray:
        """Bounds, in blocks, of what one model takes between two reports."""
        return _evenly(self.n_blocks, REPORTS)

    @property
    def _blocks_of_unit(self) -> int:
        """Number of blocks per unit; 0: units are parts of a block."""
        return -(-self.sync_every // self.block_rows) if self.sync_every > self.block_rows else 0

    def _parts(self, start: int, stop: int) -> np.ndarray:
        return np.linspace(start, stop, -(-(stop - start) // self.sync_every) + 1).astype(int)


def _evenly(n: int, most: int) -> np.ndarray:
    return np.linspace(0, n, min(most, n) + 1).astype(int)
