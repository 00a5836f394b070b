"""Data drawn from a known model, block by block, so that what a selector finds can be compared with the truth."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from daskfs.errors import ConfigError, did_you_mean
from daskfs.sources.base import Source, SourceBlock

DESIGNS = ("message",)
NOISES = {"normal": 2.0, "t3": 1.0, "logistic": 1.0}
"""With the factor that the paper gives each."""
CHUNK_ROWS = 1024
"""Rows that share a seed: they are the same whatever the size of the blocks."""


class SyntheticSource(Source):
    """The linear and logistic models of Wang, Peng and Dunson 2014, section 4.1.

    The features are normal with variance 1 and pairwise correlation rho,
    ``x_ij = sqrt(rho) u_i + sqrt(1 - rho) v_ij``, drawn in float32. s random features have coefficients
    ``(-1)^Ber(0.4) (8 log n / sqrt n + |N(0, 1)|)``, the others none. ``y = X beta + noise``; of logistic noise y is 1
    where this is positive and 0 elsewhere, so that ``P(y = 1) = 1 / (1 + exp(-X beta))``.

    Parameters
    ----------
    n_samples, n_features : int
    design : {"message"}
    n_informative : int
        s, the number of features with a coefficient.
    correlation : float
        rho in [0, 1).
    noise : {"normal", "t3", "logistic"}
        The paper's case 1 (normal), case 2 (Student's t with 3 degrees of freedom) and case 3 (classes 0 and 1).
    noise_scale : float, optional
        Factor of the noise: 2 for normal, 1 for t3 and logistic by default, as in the paper.
    random_state : int
        Seed; rows [1024 k, 1024 (k + 1)) have a seed of their own.

    Raises
    ------
    ConfigError
        A parameter out of its range.
    """

    kind = "synthetic"
    exchangeable = True

    def __init__(
        self,
        n_samples: int,
        n_features: int,
        design: str = "message",
        n_informative: int = 3,
        correlation: float = 0.0,
        noise: str = "normal",
        noise_scale: float | None = None,
        random_state: int = 0,
    ) -> None:
        _check_word("design", design, DESIGNS)
        _check_word("noise", noise, tuple(NOISES))
        _check_size("n_samples", n_samples, 2)
        _check_size("n_features", n_features, 1)
        _check_size("n_informative", n_informative, 0, n_features)
        if not 0 <= correlation < 1:
            raise ConfigError(f"expected a correlation in [0, 1), found {correlation!r}", "source.correlation")
        self.design, self.noise = design, noise
        self._shape = (int(n_samples), int(n_features))
        self.correlation = float(correlation)
        self.noise_scale = float(NOISES[noise] if noise_scale is None else noise_scale)
        self.random_state = int(random_state)
        self.support, self.coef = self._draw_coef(int(n_informative))
        self.notes = []

    def _draw_coef(self, n_informative: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the informative features, ascending, and their coefficients."""
        n_samples, n_features = self._shape
        rng = np.random.default_rng(np.random.SeedSequence(self.random_state, spawn_key=(0,)))
        support = np.sort(rng.choice(n_features, size=n_informative, replace=False))
        sign = np.where(rng.random(n_informative) < 0.4, -1.0, 1.0)
        size = 8 * np.log(n_samples) / np.sqrt(n_samples) + np.abs(rng.standard_normal(n_informative))
        return support, sign * size

    def describe(self) -> dict[str, Any]:
        """Return the parameters and the truth: `support` and `coef`."""
        return {
            "kind": self.kind,
            "description": f"synthetic {self.design} design, {self.noise} noise",
            "design": self.design,
            "shape": list(self._shape),
            "correlation": self.correlation,
            "noise": self.noise,
            "noise_scale": self.noise_scale,
            "random_state": self.random_state,
            "support": self.support.tolist(),
            "coef": self.coef.tolist(),
            "exchangeable": True,
        }

    def digest(self) -> str:
        """Return the SHA-256 of the parameters, which determine every value."""
        return hashlib.sha256(json.dumps(self.describe(), sort_keys=True).encode()).hexdigest()

    def check(self) -> None:
        """The parameters were checked when the source was made."""

    @property
    def n_samples(self) -> int:
        """Rows to draw."""
        return self._shape[0]

    @cached_property
    def feature_names(self) -> list[str]:  # type: ignore[override]
        """x0, x1, ..."""
        return [f"x{j}" for j in range(self._shape[1])]

    @property
    def target_names(self) -> list[str]:
        """One target, y."""
        return ["y"]

    def estimate_shape(self) -> tuple[int, int]:
        """Return (n_samples, n_features)."""
        return self._shape

    def row_blocks(self, block_rows: int, dtype: np.dtype | type = np.float64) -> Iterator[SourceBlock]:
        """Yield blocks of float32 X and float64 y; a chunk cut by a block's end is drawn again."""
        n_samples, n_features = self._shape
        for start in range(0, n_samples, block_rows):
            stop = min(start + block_rows, n_samples)
            X, y = np.empty((stop - start, n_features), np.float32), np.empty(stop - start)
            for chunk in range(start // CHUNK_ROWS, -(-stop // CHUNK_ROWS)):
                first = chunk * CHUNK_ROWS
                chunk_X, chunk_y = self._draw_chunk(chunk)
                here = slice(max(start, first) - start, min(stop, first + CHUNK_ROWS) - start)
                there = slice(max(start, first) - first, min(stop, first + CHUNK_ROWS) - first)
                X[here], y[here] = chunk_X[there], chunk_y[there]
            yield SourceBlock(start, X, y)

    def _draw_chunk(self, chunk: int) -> tuple[np.ndarray, np.ndarray]:
        """Return 1024 rows, of which the last chunk may use only the first."""
        seed = np.random.SeedSequence(self.random_state, spawn_key=(1, chunk))
        rng = np.random.Generator(np.random.SFC64(seed))
        noise = self._draw_noise(rng)
        X = rng.standard_normal((CHUNK_ROWS, self._shape[1]), dtype=np.float32)
        if self.correlation:
            shared = rng.standard_normal((CHUNK_ROWS, 1), dtype=np.float32)
            X *= np.float32(np.sqrt(1 - self.correlation))
            X += np.float32(np.sqrt(self.correlation)) * shared
        # Summed column by column and not by BLAS, whose result would depend on the machine.
        signal = np.zeros(CHUNK_ROWS)
        for j, coef in zip(self.support, self.coef, strict=True):
            signal += coef * X[:, j].astype(np.float64)
        y = signal + self.noise_scale * noise
        return X, (y > 0.0).astype(np.float64) if self.noise == "logistic" else y

    def _draw_noise(self, rng: np.random.Generator) -> np.ndarray:
        if self.noise == "normal":
            return rng.standard_normal(CHUNK_ROWS)
        return rng.standard_t(3, CHUNK_ROWS) if self.noise == "t3" else rng.logistic(size=CHUNK_ROWS)


def _check_word(key: str, word: str, known: tuple[str, ...]) -> None:
    if word not in known:
        raise ConfigError(
            f"expected one of {', '.join(known)}, found {word!r}{did_you_mean(str(word), known)}", f"source.{key}"
        )


def _check_size(key: str, value: int, least: int, most: int | None = None) -> None:
    if not isinstance(value, int | np.integer) or value < least or (most is not None and value > most):
        upper = "" if most is None else f" and at most {most}"
        raise ConfigError(f"expected a whole number of at least {least}{upper}, found {value!r}", f"source.{key}")
