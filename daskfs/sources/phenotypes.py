"""Phenotypes and covariates of samples in a table of their own, keyed by FID and IID as PLINK's are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from daskfs.errors import Caution, ConfigError, SourceError, did_you_mean
from daskfs.files import Location, location
from daskfs.objects.path import ObjectPath
from daskfs.sources.columns import listed_levels
from daskfs.sources.files import PathLike, as_file

MISSING_WORDS = ("-9", "NA", "nan", "NaN", ".", "")
"""What tables of phenotypes have where nothing is known; of cases and controls, 0, too."""
CASE_CONTROL = ("control", "case")
_REMEDY = "begin it with a line of names: FID IID NAME ..., or IID NAME ..."


class Coded(NamedTuple):
    """A phenotype as numbers."""

    y: np.ndarray
    """float64 of shape (n_samples,), NaN where it is missing."""
    classes: list[str] | None
    """What 0 and 1 stand for."""
    notes: list[str]


def code_phenotype(words: pd.Series, name: str, place: str) -> Coded:
    """Return a column of words as numbers; 1 and 2, with 0 for what is missing, are controls and cases.

    Raises
    ------
    SourceError
        A word is no number.
    """
    y = _numbers(words, name, place)
    found = set(np.unique(y[~np.isnan(y)]).tolist())
    if {1.0, 2.0} <= found <= {0.0, 1.0, 2.0}:
        note = f"the {name} is coded: 1, 'control', is 0, and 2, 'case', is 1"
        return Coded(np.where(y == 0, np.nan, y - 1), list(CASE_CONTROL), [note])
    return Coded(y, None, [])


def _numbers(words: pd.Series, name: str, place: str) -> np.ndarray:
    """Return words as float64, NaN where they say that nothing is known."""
    is_missing = words.isin(MISSING_WORDS).to_numpy()
    y = pd.to_numeric(words.where(~is_missing, "nan"), errors="coerce").to_numpy(dtype=np.float64, copy=True)
    is_bad = (np.isnan(y) & ~is_missing) | np.isinf(y)
    if is_bad.any():
        i = int(np.argmax(is_bad))
        problem = f"expected numbers as {name}, found {words.iloc[i]!r}"
        raise SourceError(problem, f"{place}, sample {i + 1}", "give NA where a value is missing")
    y[y == -9] = np.nan
    return y


class SampleTable:
    """A table of words with a line for each sample: FID, IID and columns, or IID and columns.

    Parameters
    ----------
    path : path-like
        Words between blanks, tabs or commas (.csv), names in the first line. FID may be missing, a leading # too.

    Raises
    ------
    SourceError
        No such file, no column IID, no other column, or a sample that stands twice.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = location(path)
        place = str(self.path)
        if not self.path.is_file():
            raise SourceError("no such file", place, "check the path")
        separator = "," if self.path.name.lower().endswith((".csv", ".csv.gz")) else r"\s+"
        try:
            table = pd.read_csv(
                as_file(self.path),
                compression=_compression(self.path),
                sep=separator,
                dtype=str,
                na_filter=False,
                encoding="utf-8",
                engine="c",
            )
        except (UnicodeDecodeError, pd.errors.EmptyDataError, pd.errors.ParserError, ValueError, OSError) as fault:
            raise SourceError(f"expected a table of words: {str(fault).strip()}", place, _REMEDY) from None
        if not isinstance(table.index, pd.RangeIndex):
            raise SourceError("expected as many names as words in a line", f"{place}, line 1", _REMEDY)
        table.columns = pd.Index([str(name).removeprefix("#").strip() for name in table.columns])
        self.ids = [name for name in ("FID", "IID") if name in table.columns]
        self.names = [str(name) for name in table.columns if name not in self.ids]
        if "IID" not in self.ids or not self.names or not table.columns.is_unique:
            found = ", ".join(str(name) for name in table.columns[:8])
            problem = f"expected a column IID and others, each once, found {found}"
            raise SourceError(problem, f"{place}, line 1", _REMEDY)
        if not len(table):
            raise SourceError("expected lines of samples, found none", place, _REMEDY)
        if self.ids == ["FID", "IID"] and (table["FID"] == "0").all():
            self.ids = ["IID"]  # as PLINK 2 writes where there are no families
        is_again = table.duplicated(self.ids).to_numpy()
        if is_again.any():
            i = int(np.argmax(is_again))
            sample = " ".join(table[self.ids].iloc[i])
            raise SourceError(f"sample {sample!r} stands twice", f"{place}, line {i + 2}", "keep one line for each")
        self._table = table

    def expanded(self, names: Sequence[str]) -> list[str]:
        """Return names of columns, PC1-PC10 as all columns from PC1 to PC10, each once, as the table has them.

        What is neither a column nor such a range stays as it is, and is refused where it is read.
        """
        place, found = {name: k for k, name in enumerate(self.names)}, list[str]()
        for name in names:
            ends = [(name[:k], name[k + 1 :]) for k, letter in enumerate(name) if letter == "-"]
            known = [(place[a], place[b]) for a, b in ends if a in place and b in place and place[a] <= place[b]]
            if name in place or not known:
                found.append(name)
            else:
                found += self.names[known[0][0] : known[0][1] + 1]
        return [*dict.fromkeys(found)]

    def of(self, samples: pd.DataFrame, names: Sequence[str] | None = None) -> tuple[pd.DataFrame, str]:
        """Return columns in the order of the samples, "" where one is not in the table, and what to say of that.

        Parameters
        ----------
        samples : DataFrame of str
            With a column iid, and fid where there are families.
        names : sequence of str, optional
            Of the columns; all by default.

        Raises
        ------
        ConfigError
            No such column.
        SourceError
            None of the samples is in the table.
        """
        names = self.names if names is None else list(names)
        for name in names:
            if name not in self.names:
                known = ", ".join(self.names[:10])
                problem = f"no column {name!r}{did_you_mean(name, self.names)}"
                raise ConfigError(problem, str(self.path), f"its columns are {known}")
        keys = [name for name in self.ids if name.lower() in samples.columns]
        ids = pd.Index(_joined([samples[key.lower()] for key in keys]))
        table = self._table.set_index(pd.Index(_joined([self._table[key] for key in keys])))
        if not table.index.is_unique:
            i = int(np.argmax(table.index.duplicated()))
            problem = f"IID {self._table['IID'].iloc[i]!r} stands twice, of two families, which the genotypes have not"
            raise SourceError(problem, f"{self.path}, line {i + 2}", "keep one line for each sample")
        n_absent, n_unused = int((~ids.isin(table.index)).sum()), int((~table.index.isin(ids)).sum())
        if n_absent == len(ids):
            mine, theirs = " ".join(samples.iloc[0]), " ".join(self._table[self.ids].iloc[0])
            problem = f"expected the samples of the genotypes ({mine!r} is one), found others ({theirs!r} is one)"
            raise SourceError(problem, str(self.path), "key the table by the ids that the genotypes have")
        told = f"{n_unused:,} samples of {self.path.name} have no genotypes" if n_unused else ""
        return table[names].reindex(ids).fillna("").reset_index(drop=True), told


def _joined(columns: Sequence[pd.Series]) -> pd.Series:
    """Return one key of several words."""
    first, *others = columns
    for other in others:
        first = first + "\t" + other
    return first


class Covariates(NamedTuple):
    """Covariates of samples, as features."""

    names: list[str]
    values: np.ndarray
    """Shape (n_samples, n_covariates); NaN: missing."""
    notes: list[str]
    levels: dict[str, list[str]]
    """Of columns of words all of them, the reference first."""


def read_covariates(
    path: PathLike,
    samples: pd.DataFrame,
    chosen: Sequence[str] | None = None,
    targets: Sequence[str] = (),
    features: Sequence[str] | None = None,
    levels: Mapping[str, Sequence[str]] | None = None,
) -> Covariates:
    """Return the covariates of samples.

    Columns of words become a column for each word but the first: sites, batches.

    Parameters
    ----------
    path : path-like
    samples : DataFrame of str
    chosen : sequence of str, optional
        Columns of the table, or ranges of them (PC1-PC10); all by default.
    targets : sequence of str
        Columns of this table that are to be predicted.
    features : sequence of str, optional
        Those of a fit: of columns of words these words are theirs, whatever words the table has.
    levels : mapping of str to sequence of str, optional
        All words of the fit's columns, the reference first. Others are noted.

    Raises
    ------
    ConfigError
        No such column, or a target.
    """
    table = SampleTable(path)
    wanted = table.names if chosen is None else table.expanded(chosen)
    for name in targets:
        if name in wanted:
            problem = f"expected covariates beside the target, found {name!r} among them"
            raise ConfigError(problem, "source.covariate_names", "name the covariates without it")
    words, told = table.of(samples, wanted)
    names: list[str] = []
    columns: list[np.ndarray] = []
    found: dict[str, list[str]] = {}
    notes = [told] if told else []
    for name in wanted:
        of_one = words[name]
        is_missing = of_one.isin(MISSING_WORDS)
        of_fit = [] if features is None else [one for one in features if one.startswith(f"{name}=")]
        own = None if features is None else [one.removeprefix(f"{name}=") for one in of_fit]
        if not own and pd.to_numeric(of_one[~is_missing], errors="coerce").notna().all():
            names.append(name)
            columns.append(_numbers(of_one, name, str(path)))
            continue
        known = [*((levels or {}).get(name, ()))]
        if own is not None and known:
            notes += _unseen(name, of_one[~is_missing], known)
        found[name] = known or sorted(set(of_one[~is_missing]))
        for word in found[name][1:] if own is None else own:
            names.append(f"{name}={word}")
            columns.append(np.where(is_missing, np.nan, of_one == word).astype(np.float64))
    values = np.stack(columns, axis=1) if columns else np.empty((len(samples), 0))
    return Covariates(names, values, notes, found)


def _unseen(name: str, words: pd.Series, known: Sequence[str]) -> list[Caution]:
    """Return the note on words that a column of the fit did not have."""
    rows = {str(word): int(n) for word, n in words[~words.isin(known)].value_counts().items()}
    if not rows:
        return []
    return [
        Caution(
            f"covariate {name!r}: {sum(rows.values()):,} rows have levels that the fit did not have, and count as "
            f"{known[0]!r}: {listed_levels(rows)}"
        )
    ]


def _compression(path: Location) -> Any:
    """Return what compresses a table; of a file pandas finds it out itself."""
    if not isinstance(path, ObjectPath):
        return "infer"
    return {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd"}.get(path.suffix)
