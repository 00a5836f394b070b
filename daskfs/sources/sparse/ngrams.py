"""N-grams of documents as entries: produced by scikit-learn's analysers, counted by id."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from daskfs import errors
from daskfs.kernels.text import hashes, ngrams
from daskfs.kernels.text.words import MARGIN
from daskfs.sources.sparse.base import NamedIds

ConfigError = errors.ConfigError.about("texts")

Weighting: TypeAlias = Literal["counts", "binary", "log", "tf"]
_BETWEEN = "\udcff"
"""Separator of n-grams: in UTF-8 the byte 0xff, which occurs in no text."""


class Counted(NamedTuple):
    """Rows as entries, with the names of their features."""

    offsets: np.ndarray
    features: np.ndarray
    data: np.ndarray
    ids: list[np.ndarray]
    """By field: distinct ids of the n-grams that occur."""
    names: list[tuple[np.ndarray, np.ndarray]]
    """By field: text and offsets of the names."""


class NgramCounter:
    """Counts n-grams.

    Parameters
    ----------
    fields : list of str
        Names of a document's texts.
    analysis : dict
        Options of scikit-learn's ``CountVectorizer``.
    weighting : {"counts", "binary", "log", "tf"}
    tells_names : bool
    """

    def __init__(self, fields: list[str], analysis: dict[str, Any], weighting: Weighting, *, tells_names: bool) -> None:
        self._fields, self._analysis, self._weighting, self._tells_names = fields, analysis, weighting, tells_names

    @cached_property
    def analyze(self) -> Callable[[str], list[str]]:
        """Function that returns the n-grams of a text.

        Raises
        ------
        ConfigError
            An option that scikit-learn refuses.
        """
        from sklearn.feature_extraction.text import CountVectorizer

        try:
            analyze: Callable[[str], list[str]] = CountVectorizer(**self._analysis).build_analyzer()
            analyze("a text")
        except (ValueError, TypeError, re.error) as fault:
            said = str(fault).partition("\n")[0]
            remedy = "see scikit-learn's CountVectorizer: analyzer, token_pattern, stop_words"
            raise ConfigError(f"invalid options for n-grams: {said}", "source", remedy) from None
        return analyze

    @cached_property
    def _seeds(self) -> list[np.uint64]:
        if len(self._fields) == 1:
            return [np.uint64(0)]
        encoded = [field.encode() for field in self._fields]
        seeds = np.empty(len(encoded), np.uint64)
        text = np.frombuffer(b"".join([*encoded, bytes(MARGIN)]), np.uint8)
        hashes.hash_texts(text, np.cumsum([0, *map(len, encoded)]), np.uint64(0), seeds)
        return list(seeds)

    def count(self, documents: list[list[str]]) -> Counted:
        """Return the entries of documents, each given by its texts."""
        n_rows, n_fields = len(documents), len(self._fields)
        lengths, ids, all_ids, names = np.zeros((n_rows, n_fields), np.int64), [], [], []
        for f in range(n_fields):
            grams: list[str] = []
            for i, texts in enumerate(documents):
                found = self.analyze(_without_halves(texts[f]))
                lengths[i, f] = len(found)
                grams += found
            encoded = _BETWEEN.join(grams).encode("utf-8", "surrogateescape")
            text = np.frombuffer(encoded + bytes(MARGIN), np.uint8)
            stops = np.append(np.flatnonzero(text == 0xFF), len(encoded)) if grams else np.empty(0, np.int64)
            starts = np.append(0, stops[:-1] + 1) if grams else stops
            ids.append(_ids_of(text, starts, stops, self._seeds[f]))
            if self._tells_names:
                where = _first_places(ids[f])
                all_ids.append(ids[f][where])
                prefix = np.frombuffer(f"{self._fields[f]}^".encode() if n_fields > 1 else b"", np.uint8)
                names.append(_copied(text, starts[where], stops[where], prefix))
        features, offsets = ids[0], np.append(0, np.cumsum(lengths.sum(axis=1)))
        if n_fields > 1:
            order = np.argsort(
                np.concatenate([np.repeat(np.arange(n_rows), lengths[:, f]) for f in range(n_fields)]), kind="stable"
            )
            features = np.concatenate(ids)[order]
        data = np.empty(len(features), np.float32)
        ngrams.count_each(features, offsets, data)
        features, data = features[: offsets[-1]].copy(), data[: offsets[-1]].copy()
        if self._weighting == "binary":
            data[:] = 1.0
        elif self._weighting == "log":
            data = np.log(data) + np.float32(1.0)
        elif self._weighting == "tf":
            data /= np.repeat(np.maximum(1, lengths.sum(axis=1)), np.diff(offsets))
        return Counted(offsets, features, data, all_ids, names)


def distinct_names(counted: list[Counted]) -> NamedIds:
    """Return the names of features, without duplicates."""
    ids = np.concatenate([ids for each in counted for ids in each.ids])
    sizes = [len(text) for each in counted for text, _ in each.names]
    text = np.concatenate([text for each in counted for text, _ in each.names])
    firsts = np.append(0, np.cumsum(sizes))
    starts, stops = (
        np.concatenate(
            [
                offsets[k : len(offsets) - 1 + k] + firsts[j]
                for j, offsets in enumerate(offsets for each in counted for _, offsets in each.names)
            ]
        )
        for k in (0, 1)
    )
    where = _first_places(ids)
    return NamedIds(ids[where], *_copied(text, starts[where], stops[where], np.empty(0, np.uint8)))


def _without_halves(text: str) -> str:
    """Return a text without lone surrogates, which JSON may contain."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _ids_of(text: np.ndarray, starts: np.ndarray, stops: np.ndarray, seed: np.uint64) -> np.ndarray:
    ids = np.empty(len(starts), np.uint64)
    hashes.hash_between(text, starts, stops, seed, ids)
    return ids & hashes.ID_MASK


def _copied(
    text: np.ndarray, starts: np.ndarray, stops: np.ndarray, prefix: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.empty(len(starts) + 1, np.int64)
    out = np.empty(int((stops - starts).sum()) + len(prefix) * len(starts), np.uint8)
    ngrams.copy_names(text, starts, stops, prefix, offsets, out)
    return out, offsets


def _first_places(ids: np.ndarray) -> np.ndarray:
    places, slots = np.empty(len(ids), np.int64), np.empty(2 << len(ids).bit_length(), np.uint64)
    return places[: ngrams.find_first(ids, slots, places)]
