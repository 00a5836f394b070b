"""Data drawn from a known model, block by block, so that a selection can be compared with the true features."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from daskfs import errors
from daskfs.errors import did_you_mean
from daskfs.losses import TargetKind
from daskfs.parameters import Count
from daskfs.sources.base import Source, SourceBlock
from daskfs.sources.options import SourceOptions
from daskfs.sources.synthetic_designs import (
    DEFAULT_CORRELATION,
    STRUCTURES,
    Features,
    draw_coef,
    paper_n_samples,
)

ConfigError = errors.ConfigError.about("sample-data")

DESIGNS = ("message", "online_substitution", "fgm", "mission")
NOISES = {"normal": 2.0, "t3": 1.0, "logistic": 1.0, "none": 0.0}
"""Noise distributions, with the scale that the MESSAGE paper uses for each."""
NOISES_OF = {
    "message": ("normal", "t3", "logistic"),
    "online_substitution": ("normal", "t3", "none"),
    "fgm": ("none",),
    "mission": ("normal",),
}
N_INFORMATIVE = {"message": 3, "online_substitution": 100, "fgm": 300, "mission": 3}
COLUMNS = ("standard", "unit")
CHUNK_ROWS = 1024
"""Number of rows that share a seed: data do not depend on the size of blocks."""


class SyntheticOptions(SourceOptions):
    """A simulation design of one of the papers, whose true features are known."""

    design: Literal["message", "online_substitution", "fgm", "mission"] = "message"
    n_samples: Annotated[int, Field(ge=2)] | None = Field(
        default=None, description="required, except by online_substitution, whose default is 1.2 s log2 p"
    )
    n_features: Count
    n_informative: Annotated[int, Field(ge=0)] | None = None
    correlation: Annotated[float, Field(ge=0, lt=1)] | None = None
    noise: Literal["normal", "t3", "logistic", "none"] | None = Field(
        default=None, description="normal by default; the fgm design has none"
    )
    noise_scale: float | None = None
    random_state: Annotated[int, Field(ge=0)] = 0
    structure: Literal["independent", "common_factor", "autoregressive", "factors", "near_duplicates"] = "independent"
    columns: Literal["standard", "unit"] = "standard"
    attenuation: Annotated[float, Field(gt=0)] = 1.0


class SyntheticSource(Source):
    """Simulated data whose true features are known: the designs of the papers, with variations.

    ``y = X beta + noise``, or classes 0 and 1. `daskfs.sources.synthetic_designs` defines the designs, their features
    and coefficients; features are drawn in float32.

    Parameters
    ----------
    n_samples : int, optional
        Required, except by online_substitution, whose default is ``1.2 n_informative log2 n_features``.
    n_features : int
    design : {"message", "online_substitution", "fgm", "mission"}
    n_informative : int, optional
        s, the number of features with a coefficient: by default 300 for fgm, 100 for online_substitution, 3 otherwise.
    correlation : float, optional
        rho in [0, 1): by default 0, or 0.5 for a common factor and 0.9 for an autoregression.
    noise : {"normal", "t3", "logistic", "none"}, optional
        Normal (the default, except for fgm), or Student's t with 3 degrees of freedom, added to ``X beta``. With
        logistic noise (message only), y is 1 if the sum is positive and 0 otherwise, so that
        ``P(y = 1) = 1 / (1 + exp(-X beta))``. With none (online_substitution and fgm), y is 1 if ``X beta`` is
        positive, as in the papers; fgm has no other choice.
    noise_scale : float, optional
        Factor of the noise: in message 2 for normal, 1 for t3 and logistic; in online_substitution 0.1; in mission 0.
    random_state : int
        Seed; rows [1024 k, 1024 (k + 1)) have their own seed derived from it.
    structure : {"independent", "common_factor", "autoregressive", "factors", "near_duplicates"}
        Correlation structure of the features; only for online_substitution.
    columns : {"standard", "unit"}
        Variance of the columns: 1, or 1 / n_samples, so that columns have length 1; only for online_substitution.
    attenuation : float
        Divisor of the informative columns; only for mission.

    Raises
    ------
    ConfigError
        A parameter is out of range.
    """

    kind, options = "synthetic", SyntheticOptions
    knows_true_features = True
    exchangeable = True
    target_names = ("y",)

    def __init__(
        self,
        n_samples: int | None = None,
        n_features: int = 0,
        design: str = "message",
        n_informative: int | None = None,
        correlation: float | None = None,
        noise: str | None = None,
        noise_scale: float | None = None,
        random_state: int = 0,
        structure: str = "independent",
        columns: str = "standard",
        attenuation: float = 1.0,
    ) -> None:
        _check_word("design", design, DESIGNS)
        noise = NOISES_OF[design][0] if noise is None else noise
        _check_word("noise", noise, NOISES_OF[design])
        _check_word("structure", structure, STRUCTURES if design == "online_substitution" else STRUCTURES[:1])
        _check_word("columns", columns, COLUMNS if design == "online_substitution" else COLUMNS[:1])
        _check_size("n_features", n_features, 1)
        is_message = design == "message"
        n_informative = min(N_INFORMATIVE[design], n_features) if n_informative is None else n_informative
        _check_size("n_informative", n_informative, 0, n_features)
        if n_samples is None and design == "online_substitution":
            n_samples = max(2, paper_n_samples(n_informative, n_features))
        _check_size("n_samples", n_samples, 2)
        correlation = DEFAULT_CORRELATION.get(structure, 0.0) if correlation is None else correlation
        if not 0 <= correlation < 1:
            raise ConfigError(f"expected a correlation in [0, 1), found {correlation!r}", "source.correlation")
        if correlation and not is_message and structure not in DEFAULT_CORRELATION:
            known = " and ".join(DEFAULT_CORRELATION)
            raise ConfigError(f"only for structures {known}, found {structure!r}", "source.correlation", "drop it")
        self.design, self.noise, self.structure, self.columns = design, noise, structure, columns
        self._shape = (int(n_samples), int(n_features))  # type: ignore[arg-type]  # checked above
        self.correlation = float(correlation)
        default_scale = NOISES[noise] if is_message or noise == "none" else 0.1 * (design != "mission")
        if not attenuation > 0 or (attenuation != 1.0 and design != "mission"):
            problem = f"expected a positive number (1 except in the mission design), found {attenuation!r}"
            raise ConfigError(problem, "source.attenuation")
        self.attenuation = float(attenuation)
        self.noise_scale = float(default_scale if noise_scale is None else noise_scale)
        self.random_state = int(random_state)
        self.support, self.coef = draw_coef(design, *self._shape, int(n_informative), self.random_state)
        self.n_samples = self._shape[0]
        self.notes = []

    @cached_property
    def _features(self) -> Features:
        structure = "common_factor" if self.design == "message" else self.structure
        return Features(self._shape[1], structure, self.correlation, self.random_state)

    def describe(self) -> dict[str, Any]:
        """Return the parameters and the truth: `support` and `coef`."""
        description = {
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
        if self.design == "online_substitution":  # keeps the digests of the other designs as they were
            description |= {"structure": self.structure, "columns": self.columns}
        return description | ({"attenuation": self.attenuation} if self.design == "mission" else {})

    def digest(self) -> str:
        """Return the SHA-256 of the parameters, which determine every value."""
        return hashlib.sha256(json.dumps(self.describe(), sort_keys=True).encode()).hexdigest()

    @cached_property
    def feature_names(self) -> list[str]:  # type: ignore[override]
        """x0, x1, ..."""
        return [f"x{j}" for j in range(self._shape[1])]

    def estimate_target(self) -> TargetKind:
        """Return the kind of target: two classes, or numbers."""
        return TargetKind(2 if self.noise in ("logistic", "none") else 0)

    def row_blocks(self, block_rows: int, dtype: np.dtype | type = np.float64) -> Iterator[SourceBlock]:
        """Yield blocks of float32 X and float64 y; a chunk that spans two blocks is drawn twice."""
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
        """Return 1024 rows; of the last chunk, only the first rows may be used."""
        seed = np.random.SeedSequence(self.random_state, spawn_key=(1, chunk))
        rng = np.random.Generator(np.random.SFC64(seed))
        noise = self._draw_noise(rng)
        X = self._features.draw(rng, CHUNK_ROWS)
        if self.columns == "unit":
            X *= np.float32(1.0 / np.sqrt(self._shape[0]))
        if self.attenuation != 1.0:
            X[:, self.support] /= np.float32(self.attenuation)
        # Summed column by column instead of with BLAS, whose result would depend on the machine.
        signal = np.zeros(CHUNK_ROWS)
        for j, coef in zip(self.support, self.coef, strict=True):
            signal += coef * X[:, j].astype(np.float64)
        y = signal + self.noise_scale * noise
        return X, (y > 0.0).astype(np.float64) if self.noise in ("logistic", "none") else y

    def _draw_noise(self, rng: np.random.Generator) -> np.ndarray:
        if self.noise == "none":
            return np.zeros(CHUNK_ROWS)
        if self.noise == "normal":
            return rng.standard_normal(CHUNK_ROWS)
        return rng.standard_t(3, CHUNK_ROWS) if self.noise == "t3" else rng.logistic(size=CHUNK_ROWS)


def _check_word(key: str, word: str, known: tuple[str, ...]) -> None:
    if word not in known:
        raise ConfigError(
            f"expected one of {', '.join(known)}, found {word!r}{did_you_mean(str(word), known)}", f"source.{key}"
        )


def _check_size(key: str, value: int | None, least: int, most: int | None = None) -> None:
    if not isinstance(value, int | np.integer) or value < least or (most is not None and value > most):
        upper = "" if most is None else f" and at most {most}"
        raise ConfigError(f"expected a whole number of at least {least}{upper}, found {value!r}", f"source.{key}")
