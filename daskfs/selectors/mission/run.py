"""The passes of MISSION over the rows: which rows in which order, who takes them, what was finished before."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from daskfs.kernels.sketch.rows import LOSS_SUM, ROWS_SEEN, THRESHOLD, WEIGHT_SUM
from daskfs.selectors.mission.count_sketch import CountSketch
from daskfs.selectors.mission.model import MissionModel, merged
from daskfs.selectors.mission.tasks import Learning, Stretch, train_stretch
from daskfs.selectors.shared.run import Run

REPORTS = 8
"""Lines of the history, and checkpoints, of one pass; one model learns from so many stretches."""

HISTORY = ("pass", "rows_seen", "mean_loss", "threshold", "n_active", "tail_norm")


class MissionRun:
    """The passes over a matrix.

    Parameters
    ----------
    run : Run
        Over the rows in the order of the first pass.
    learning : Learning
    arrays : dict of ndarray
        The model to start with.
    block_rows : int
        Rows between two selections; blocks are what later passes shuffle.
    n_replicas, sync_every : int
        Models that learn side by side, and the rows after which they are averaged.
    seed : int or None
        Of the order of the blocks.
    """

    def __init__(
        self,
        run: Run,
        learning: Learning,
        arrays: dict[str, np.ndarray],
        block_rows: int,
        n_replicas: int,
        sync_every: int,
        seed: int | None,
    ) -> None:
        self.run, self.matrix, self.learning, self.arrays = run, run.matrix, learning, arrays
        self.block_rows, self.n_replicas, self.sync_every, self.seed = block_rows, n_replicas, sync_every, seed
        self.history: list[tuple[float, ...]] = []
        self.n_returned = 0
        """Bytes of the models that tasks returned."""
        self._counts = np.zeros(2)

    def passes(self, name: str, first: int, n_passes: int, frozen: bool = False) -> None:
        """Take all rows `n_passes` times.

        Parameters
        ----------
        name : str
            "train" or "refit".
        first : int
            Number of the first pass: that of number 0 is in the order of the rows.
        n_passes : int
        frozen : bool
            Whether the active features stay as they are; the first such pass brings back their columns' sums.
        """
        rounds = [(number, *part) for number in range(first, first + n_passes) for part in self._rounds(number)]
        done = self._resume(name, len(rounds))
        with self.run.reported(name, len(rounds), done) as advance, self.run.timed(name):
            for k in range(done, len(rounds)):
                number, units, is_report = rounds[k]
                self._round(name, units, frozen, with_sums=frozen and number == first)
                if is_report:
                    self._report(number)
                    self._save(name, k + 1)
                advance()

    def _rounds(self, number: int) -> Iterator[tuple[list[tuple[tuple[int, int], ...]], bool]]:
        """Yield the rounds of a pass: for each model its blocks, as intervals of rows; and whether a report follows."""
        n_samples = self.matrix.shape[0]
        blocks = [(a, min(a + self.block_rows, n_samples)) for a in range(0, n_samples, self.block_rows)]
        if number:
            seeds = np.random.SeedSequence([0 if self.seed is None else self.seed, number])
            blocks = [blocks[k] for k in np.random.default_rng(seeds).permutation(len(blocks))]
        if self.n_replicas == 1:
            bounds = np.linspace(0, len(blocks), min(REPORTS, len(blocks)) + 1).astype(int)
            for a, b in pairwise(bounds):
                yield [tuple(blocks[a:b])], True
            return
        units = _units(blocks, self.sync_every, self.block_rows)
        rounds = [units[k : k + self.n_replicas] for k in range(0, len(units), self.n_replicas)]
        reports = set(np.linspace(0, len(rounds), min(REPORTS, len(rounds)) + 1).astype(int) - 1)
        for k, part in enumerate(rounds):
            yield part, k in reports

    def _round(self, name: str, units: list[tuple[tuple[int, int], ...]], frozen: bool, with_sums: bool) -> None:
        """Let each model take its rows, and average them."""
        in_place = len(units) == 1 and self.run.workers.client is None
        stretches = [
            Stretch(tuple(self.run.rows(*block) for block in blocks), len(units), i, frozen, in_place, with_sums)
            for i, blocks in enumerate(units)
        ]
        seen = self.arrays["numbers"][ROWS_SEEN] + sum(stop - start for blocks in units for start, stop in blocks)
        model = {key: value for key, value in self.arrays.items() if key != "sums"}
        learning = self.run.keep(self.learning)
        arrays: dict[str, np.ndarray] = self.run.reduce(name, train_stretch, stretches, merged, learning, model)
        if len(units) > 1:  # of all that were active somewhere, K stay
            sums = {"sums": arrays["sums"]} if with_sums else {}
            arrays = {**MissionModel.from_arrays(self.learning.shape, arrays, copy=False).to_arrays(), **sums}
        arrays["numbers"][ROWS_SEEN] = seen
        if "sums" in self.arrays:
            arrays["sums"] = self.arrays["sums"] + arrays["sums"] if with_sums else self.arrays["sums"]
        self.arrays = arrays
        self.n_returned += len(units) * sum(array.nbytes for array in arrays.values())

    def _report(self, number: int) -> None:
        """Add a line to the history: the mean loss of the rows since the last, before they were learnt from."""
        numbers = self.arrays["numbers"]
        loss, weight = np.array([numbers[LOSS_SUM], numbers[WEIGHT_SUM]]) - self._counts
        self._counts = np.array([numbers[LOSS_SUM], numbers[WEIGHT_SUM]])
        norm = CountSketch.from_arrays(self.arrays, copy=False).norm()
        line = (number + 1, numbers[ROWS_SEEN], loss / weight if weight else np.nan, numbers[THRESHOLD])
        self.history.append((*line, len(self.arrays["keys"]), norm))

    def _save(self, name: str, n_done: int) -> None:
        kept = {"history": np.array(self.history), "counts": self._counts, "n_done": np.array(n_done)}
        self.run.save(name, {**self.arrays, **kept})

    def _resume(self, name: str, n_rounds: int) -> int:
        """Take up what an interrupted run had finished; return how many rounds."""
        found = self.run.load(name, dict)
        if found is None:
            return 0
        n_done = int(found.pop("n_done"))
        self.history = [tuple(line) for line in found.pop("history").tolist()]
        self._counts = found.pop("counts")
        self.arrays = found
        return min(n_done, n_rounds)


def _units(blocks: list[tuple[int, int]], sync_every: int, block_rows: int) -> list[tuple[tuple[int, int], ...]]:
    """Return what one model takes between two averages: equal parts of blocks (all models count alike), or several."""
    if sync_every > block_rows:
        n = -(-sync_every // block_rows)
        return [tuple(blocks[k : k + n]) for k in range(0, len(blocks), n)]
    parts = [np.linspace(a, b, -(-(b - a) // sync_every) + 1).astype(int).tolist() for a, b in blocks]
    return [(part,) for bounds in parts for part in pairwise(bounds)]
