"""The tables beside a dense matrix: `obs` describes its rows and `var` its columns, as in AnnData's format.

    X                       (n_samples, n_features), dimensions "sample" and "feature"
    obs/sample              number of each row in the source: the index of obs
    obs/<target>            float64; or a categorical (codes and categories), if the target was given as texts
    obs/<weight>, <labels>  float64; strings
    obsm/<targets>          several targets, of shape (n_samples, n_targets)
    var/feature             name of each column: the index of var
    var/mean, std, ...      the columns' statistics, then their annotations

Columns are called as in the source, where such a key is possible (see `_keys`). Stores of formats 1 to 3 have the same
arrays under other names, and sparse stores (format 2) still do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from daskfs import errors, interrupts

DataError = errors.DataError.about("shapes")

STATISTICS = ("mean", "std", "n_missing", "minimum", "maximum")
CLASSES = "target_classes"
"""The texts of a target's codes, in the description of the source and among the arrays."""
SAMPLE, FEATURE = "sample", "feature"
"""Names of the dimensions, and of the indices along them."""

STRINGS_PER_CHUNK = 100_000
_CHUNK_LENGTH = 1 << 20

_KEY = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_. -]{,98}[A-Za-z0-9_-])?")
"""Keys that are valid in file systems and object stores alike."""


@dataclass(frozen=True)
class Tables:
    """Where the arrays beside a dense matrix are.

    Parameters
    ----------
    target_names, label_names : sequence of str
    has_weight : bool
    annotations : sequence of str
        Names of the columns' annotations.
    classes : sequence of str or None
        Texts of the target's codes.
    """

    target_names: Sequence[str]
    has_weight: bool
    label_names: Sequence[str]
    annotations: Sequence[str]
    classes: Sequence[str] | None

    @property
    def has_classes(self) -> bool:
        """Whether the target is stored as a categorical."""
        return self.classes is not None and len(self.target_names) == 1

    @property
    def code_type(self) -> np.dtype:
        """Integer type of a categorical target's codes."""
        n_classes = len(self.classes or ())
        return np.dtype(next(kind for kind in ("i1", "i2", "i4") if n_classes <= np.iinfo(kind).max))

    def paths(self) -> dict[str, str]:
        """Return the path of each array by its name in stores of format 1."""
        of_rows = [*(["target"] if len(self.target_names) == 1 else []), *(["weight"] if self.has_weight else [])]
        given = [self.target_names[0] if name == "target" else name for name in of_rows]
        of_rows += [f"labels/{number}" for number in range(len(self.label_names))]
        keys = _keys([*given, *self.label_names], taken=[SAMPLE])
        found = {"source_rows": f"obs/{SAMPLE}", "feature_names": f"var/{FEATURE}"}
        found |= {name: f"obs/{key}" for name, key in zip(of_rows, keys, strict=True)}
        if self.has_classes:
            found[CLASSES] = f"{found['target']}/categories"
            found["target"] += "/codes"
        if len(self.target_names) > 1:
            found["target"] = "obsm/targets"
        found |= {f"statistics/{name}": f"var/{name}" for name in STATISTICS}
        of_columns = _keys(self.annotations, taken=[FEATURE, *STATISTICS])
        return found | {f"annotations/{number}": f"var/{key}" for number, key in enumerate(of_columns)}

    def write(self, root: Any, arrays: Mapping[str, np.ndarray]) -> None:
        """Write arrays, given by their names in stores of format 1, to a Zarr group, which becomes an AnnData store."""
        paths = self.paths()
        with interrupts.held():  # Zarr writes in a thread of its own
            root.attrs.update(_encoded("anndata", "0.1.0"))
            for table, index in (("obs", SAMPLE), ("var", FEATURE)):
                columns = dict.fromkeys(path.split("/")[1] for path in paths.values() if path.startswith(f"{table}/"))
                columns.pop(index)
                order = {"_index": index, "column-order": list(columns)}
                root.create_group(table, attributes=_encoded("dataframe", "0.2.0") | order)
            if len(self.target_names) > 1:
                root.create_group("obsm", attributes=_encoded("dict", "0.1.0"))
            if self.has_classes:
                folder = paths["target"].rpartition("/")[0]
                root.create_group(folder, attributes=_encoded("categorical", "0.2.0") | {"ordered": False})
        for name, values in arrays.items():
            if name == "target" and self.has_classes:
                values = self._codes(values)
            write_vector(root, paths[name], values, **facts_of(paths[name], values.dtype, values.ndim))

    def _codes(self, target: np.ndarray) -> np.ndarray:
        codes = target.astype(self.code_type)
        n_classes = len(self.classes or ())
        wrong = np.flatnonzero((codes != target) | (codes < 0) | (codes >= n_classes))
        if len(wrong):
            expected = f"expected codes 0 to {n_classes - 1} of the target's classes, found {target[wrong[0]]:g}"
            raise DataError(expected, f"target {self.target_names[0]!r}", "give texts, or a target without classes")
        return codes


def write_vector(group: Any, path: str, values: np.ndarray, **facts: Any) -> None:
    """Write strings, a vector, or several vectors as columns, as an array of a Zarr group.

    Arrays are not compressed, and each chunk has a checksum.

    Parameters
    ----------
    group : zarr.Group
    path : str
        Path of the array in the group.
    values : ndarray of shape (n,) or (n, k)
        Strings have the dtype `numpy.dtypes.StringDType`, or object.
    **facts
        Further options of Zarr: names of the dimensions, attributes.
    """
    from zarr.codecs import Crc32cCodec

    is_text = values.dtype.kind in "OT"
    length = STRINGS_PER_CHUNK if is_text else _CHUNK_LENGTH
    with interrupts.held():  # Zarr writes in a thread of its own
        array = group.create_array(
            path,
            shape=values.shape,
            chunks=(max(1, min(len(values), length)), *values.shape[1:]),
            dtype="string" if is_text else values.dtype,
            filters="auto" if is_text else None,
            compressors=[Crc32cCodec()],
            config={"write_empty_chunks": True},
            **facts,
        )
        if values.size:
            array[...] = values.astype(np.dtypes.StringDType()) if is_text else values


def consolidate(folder: Path) -> None:
    """Copy the metadata of all arrays and groups of a store to its root.

    Then Zarr need not list the folder: listing it takes a request per file, and warns of files that are not Zarr's.
    """
    root, found = folder / "zarr.json", {}
    for path in sorted(folder.rglob("zarr.json")):
        if path != root:
            found[path.parent.relative_to(folder).as_posix()] = json.loads(path.read_bytes())
    document = json.loads(root.read_bytes())
    document["consolidated_metadata"] = {"kind": "inline", "must_understand": False, "metadata": found}
    root.write_text(json.dumps(document), encoding="utf-8")


def facts_of(path: str, dtype: np.dtype, n_dimensions: int) -> dict[str, Any]:
    """Return the names of an array's dimensions and its attributes in AnnData's format, as options of Zarr.

    Examples
    --------
    >>> facts_of("var/mean", np.dtype("f8"), 1)["dimension_names"]
    ('feature',)
    """
    first = FEATURE if path.startswith("var/") else "class" if path.endswith("/categories") else SAMPLE
    names = (first, FEATURE if path == "X" else "target")[:n_dimensions]
    encoding = "string-array" if dtype.kind in "OT" else "array"
    return {"dimension_names": names, "attributes": _encoded(encoding, "0.2.0")}


def _encoded(kind: str, version: str) -> dict[str, Any]:
    return {"encoding-type": kind, "encoding-version": version}


def _keys(names: Iterable[str], taken: Sequence[str]) -> Iterator[str]:
    """Yield a key for each name: itself, or, if it is not a possible key or is taken, "column_0", "column_1", ...

    Case is ignored, since some file systems ignore it.

    Examples
    --------
    >>> list(_keys(["y", "Y", "a/b", "sample"], taken=["sample"]))
    ['y', 'column_1', 'column_2', 'column_3']
    """
    names, used = list(names), {name.lower() for name in taken}
    own = {name.lower() for name in names}
    for number, name in enumerate(names):
        key, tries = name, 0
        while key.lower() in used or not _KEY.fullmatch(key) or key == "zarr.json":
            key = f"column_{number}{'_' * tries}"
            tries += 1
            if key in own:
                used.add(key)
        used.add(key.lower())
        yield key
