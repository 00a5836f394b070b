"""Rows of a feature store for a model: its columns by name or id, in the order of the store's rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from daskfs.applied.rows import BLOCK_NBYTES, ROW, Columns, Entries, RowBlock, lacking_columns
from daskfs.errors import Caution
from daskfs.files import location
from daskfs.sources.applied_genotypes import copies, matched, notes_on, other_names
from daskfs.sources.files import is_path
from daskfs.sources.genotype_matrix import Alleles
from daskfs.store.feature_store import FeatureStore, open_store
from daskfs.store.manifest import MANIFEST
from daskfs.store.names import AT_ONCE


def store_given(data: Any, kind: str | None = None) -> FeatureStore | None:
    """Return the feature store that is given as an object or path; None for other data."""
    if isinstance(data, FeatureStore):
        return data
    if kind is not None or not is_path(data):
        return None
    path = location(data)
    may_be_store = isinstance(path, Path) or path.suffix == ".zarr"  # no requests for other objects
    return open_store(path) if may_be_store and (path / MANIFEST).is_file() else None


class StoredRows:
    """Rows of a feature store.

    Parameters
    ----------
    encoder : mapping
        Encoder of the training data.
    columns : Columns
    labels : sequence of str, optional
        Labels of the codes 0, 1, ... of the training target.
    store : FeatureStore

    Raises
    ------
    SchemaError
        The store lacks columns, which the message names.
    """

    extra: tuple[str, ...] = ()

    def __init__(self, encoder: Mapping[str, Any], columns: Columns, labels: Any, store: FeatureStore) -> None:
        self._columns, self._store, self._labels = columns, store, labels
        is_other = store.encoder is not None and _without_variants(store.encoder) != _without_variants(encoder)
        self.notes: list[str] = [
            "the store was encoded independently of the training data: its means and levels may differ"
        ] * is_other
        self._fills, self._copies = np.zeros(len(columns.numbers)), np.full(len(columns.numbers), np.nan)
        if (variants := encoder.get("variants")) is None:
            self._numbers, self._is_there = _places(store, columns)
        else:
            self._numbers, self._is_there = self._find_variants(variants)

    def _find_variants(self, variants: Mapping[str, Sequence[Any]]) -> tuple[np.ndarray, np.ndarray]:
        """Match variants by name and alleles; return the same as `_places`, and note swapped and missing variants."""
        store, names = self._store, self._columns.names
        is_variant = np.array([allele is not None for allele in variants["counted"]], bool)
        wanted: np.ndarray = np.flatnonzero(is_variant)
        wanted_names = [names[k] for k in wanted.tolist()]
        covariates = [names[k] for k in np.flatnonzero(~is_variant).tolist()]
        ours = Alleles(*([variants[side][k] for k in wanted.tolist()] for side in ("counted", "other")))
        elsewhere = {one for variant in zip(wanted_names, *ours, strict=True) for one in other_names(*variant)}
        place = dict(sorted(store.names.places(elsewhere | {*covariates}).items(), key=lambda found: found[1]))
        if lacking := [name for name in covariates if name not in place]:
            raise lacking_columns(lacking, store.names[:AT_ONCE], str(store.path))
        known, there = list(place), np.array(list(place.values()), np.int64)
        alleles = store.annotations(there)
        sides = [alleles.get(side, [""] * len(known)) for side in ("effect_allele", "other_allele")]
        theirs = Alleles(*([str(allele).upper() for allele in side] for side in sides))
        found = matched(wanted_names, ours, known, theirs)
        self.notes += notes_on(found, wanted_names, str(store.path))
        if "effect_allele" not in alleles:
            self.notes.append(
                Caution("the store has no alleles: variants are matched by name, dosages are not flipped")
            )
        columns = np.array([place.get(name, -1) for name in names], np.int64)
        columns[wanted] = np.where(found.places < 0, -1, there[found.places])
        self._fills = np.array(variants["mean"], np.float32).astype(np.float64)
        swapped = wanted[found.is_swapped]
        encoded = store.encoder or {}
        self._copies[swapped] = copies(encoded)[columns[swapped]] if "ploidy" in encoded else 2
        if len(swapped) and encoded.get("options", {}).get("missing") not in (None, "error", "drop", "mean"):
            problem = "the store replaced missing dosages by a number, which is also flipped for swapped alleles"
            self.notes.append(Caution(problem))
        return columns[columns >= 0], columns >= 0

    def estimate_n_samples(self) -> int:
        """Return the number of rows."""
        return self._store.shape[0]

    def blocks(self) -> Iterator[RowBlock]:
        """Yield all rows in stored order, with their ids and source row numbers if available."""
        store, order = self._store, np.argsort(self._numbers)
        handed_on = {name: store.labels(name) for name in store.label_names}
        if store.source_rows is not None:
            handed_on[ROW] = store.source_rows
        codes = self._codes()
        width, is_swapped = max(1, len(self._numbers)), np.isfinite(self._copies)
        for block in store.row_blocks(columns=self._numbers[order], block_rows=max(1, BLOCK_NBYTES // (8 * width))):
            n_rows = block.stop - block.start
            X = np.tile(self._fills, (n_rows, 1))
            values = block.X.toarray() if hasattr(block.X, "toarray") else block.X
            X[:, np.flatnonzero(self._is_there)[order]] = values
            X[:, is_swapped] = self._copies[is_swapped] - X[:, is_swapped]
            y = block.y if block.y is not None and block.y.ndim == 1 else np.full(n_rows, np.nan)
            here = slice(block.start, block.stop)
            made: Any = X
            if self._columns.is_sparse:
                rows, places = np.nonzero(X)
                made = Entries(rows, places, X[rows, places])
            yield RowBlock(
                n_rows,
                made,
                np.zeros(n_rows, bool),
                np.asarray(y, np.float64) if codes is None else codes[y.astype(np.int64)],
                np.ones(n_rows) if block.weight is None else block.weight,
                {name: part[here] for name, part in handed_on.items()},
            )

    def _codes(self) -> np.ndarray | None:
        """Return the training code of each class of the store; NaN for classes that the training data did not have."""
        if self._labels is None or self._store.target_classes is None:
            return None
        place = {str(label): float(code) for code, label in enumerate(self._labels)}
        return np.array([place.get(str(label), np.nan) for label in self._store.target_classes])


def _without_variants(encoder: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in encoder.items() if key != "variants"}


def _places(store: FeatureStore, columns: Columns) -> tuple[np.ndarray, np.ndarray]:
    """Return the store's columns that a model reads, and which of them exist: of ids, some may be missing."""
    if columns.ids is not None and (known := store.ids(np.arange(store.shape[1]))) is not None:
        order = np.argsort(known)
        at = np.minimum(np.searchsorted(known, columns.ids, sorter=order), len(known) - 1)
        is_there = known[order[at]] == columns.ids
        return order[at][is_there], is_there
    are_default = columns.names == [f"x{j}" for j in columns.numbers.tolist()]  # names that only number the columns
    if (not store.names.are_given or are_default) and store.shape[1] == columns.n_features:
        return columns.numbers, np.ones(len(columns.numbers), bool)
    place = store.names.places(set(columns.names))
    lacking = [name for name in columns.names if name not in place]
    if lacking:
        raise lacking_columns(lacking, store.names[:AT_ONCE], str(store.path))
    return np.array([place[name] for name in columns.names], np.int64), np.ones(len(columns.names), bool)
