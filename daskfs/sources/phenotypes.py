"""Phenotypes and covariates of samples in a separate table, keyed by FID and IID as in PLINK."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from daskfs import errors
from daskfs.errors import Caution, did_you_mean
from daskfs.files import Location, location
from daskfs.objects.path import ObjectPath
from daskfs.sources.encoders.base import listed_levels
from daskfs.sources.files import PathLike, as_file

ConfigError = errors.ConfigError.about("genotypes")
SourceError = errors.SourceError.about("genotypes")

MISSING_WORDS = ("-9", "NA", "nan", "NaN", ".", "")
"""Texts for a missing value in tables of phenotypes; 0 too, for cases and controls."""
SEX = "sex"
CASE_CONTROL = ("control", "case")
_REMEDY = "let the first line name the columns: FID IID NAME ..., or IID NAME ..."


class Coded(NamedTuple):
    """A phenotype as numbers."""

    y: np.ndarray
    """float64 of shape (n_samples,), NaN if missing."""
    classes: list[str] | None
    """The classes coded as 0 and 1."""
    notes: list[str]


def code_phenotype(words: pd.Series, name: str, place: str) -> Coded:
    """Return a column of words as numbers; 1 and 2, with 0 for missing, mean control and case.

    Raises
    ------
    SourceError
        A word is not a number.
    """
    y = _numbers(words, name, place)
    found = set(np.unique(y[~np.isnan(y)]).tolist())
    if {1.0, 2.0} <= found <= {0.0, 1.0, 2.0}:
        note = f"the {name} is coded: 1, 'control', is 0, and 2, 'case', is 1"
        return Coded(np.where(y == 0, np.nan, y - 1), list(CASE_CONTROL), [note])
    return Coded(y, None, [])


def _numbers(words: pd.Series, name: str, place: str) -> np.ndarray:
    """Return words as float64, NaN for missing values."""
    is_missing = words.isin(MISSING_WORDS).to_numpy()
    y = pd.to_numeric(words.where(~is_missing, "nan"), errors="coerce").to_numpy(dtype=np.float64, copy=True)
    is_bad = (np.isnan(y) & ~is_missing) | np.isinf(y)
    if is_bad.any():
        i = int(np.argmax(is_bad))
        problem = f"expected numbers as {name}, found {words.iloc[i]!r}"
        raise SourceError(problem, f"{place}, sample {i + 1}", "use NA for missing values")
    y[y == -9] = np.nan
    return y


class SampleTable:
    """A table of words with one line per sample: FID, IID and columns, or IID and columns.

    Parameters
    ----------
    path : path-like
        Columns are separated by blanks, tabs or commas (.csv); the first line has their names. FID and a leading # are
        optional.

    Raises
    ------
    SourceError
        No such file, no column IID, no other column, or a duplicate sample.
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
            raise SourceError(f"expected a text table: {str(fault).strip()}", place, _REMEDY) from None
        if not isinstance(table.index, pd.RangeIndex):
            raise SourceError("expected as many names as values in a line", f"{place}, line 1", _REMEDY)
        table.columns = pd.Index([str(name).removeprefix("#").strip() for name in table.columns])
        self.ids = [name for name in ("FID", "IID") if name in table.columns]
        self.names = [str(name) for name in table.columns if name not in self.ids]
        if "IID" not in self.ids or not self.names or not table.columns.is_unique:
            found = ", ".join(str(name) for name in table.columns[:8])
            problem = f"expected a column IID and others, without duplicates, found {found}"
            raise SourceError(problem, f"{place}, line 1", _REMEDY)
        if not len(table):
            raise SourceError("expected lines with samples, found none", place, _REMEDY)
        if self.ids == ["FID", "IID"] and (table["FID"] == "0").all():
            self.ids = ["IID"]  # PLINK 2 writes FID 0 if there are no families
        is_again = table.duplicated(self.ids).to_numpy()
        if is_again.any():
            i = int(np.argmax(is_again))
            sample = " ".join(table[self.ids].iloc[i])
            raise SourceError(f"sample {sample!r} occurs twice", f"{place}, line {i + 2}", "keep one of its lines")
        self._table = table

    def expanded(self, names: Sequence[str]) -> list[str]:
        """Return column names with ranges expanded: PC1-PC10 becomes the table's columns from PC1 to PC10, each once.

        A name that is neither a column nor such a range is kept, and refused when the column is read.
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
        """Return columns in the order of the samples, "" for samples not in the table, and a note on unused samples.

        Parameters
        ----------
        samples : DataFrame of str
            With a column iid, and fid if there are families.
        names : sequence of str, optional
            Names of the columns; by default all.

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
            problem = f"IID {self._table['IID'].iloc[i]!r} occurs in two families, but the genotypes have no FID"
            raise SourceError(problem, f"{self.path}, line {i + 2}", "keep one line for each sample")
        n_absent, n_unused = int((~ids.isin(table.index)).sum()), int((~table.index.isin(ids)).sum())
        if n_absent == len(ids):
            mine, theirs = " ".join(samples.iloc[0]), " ".join(self._table[self.ids].iloc[0])
            problem = f"expected the samples of the genotypes ({mine!r} is one), found others ({theirs!r} is one)"
            raise SourceError(problem, str(self.path), "use the ids of the genotypes in the table")
        note = f"{n_unused:,} samples of {self.path.name} have no genotypes" if n_unused else ""
        return table[names].reindex(ids).fillna("").reset_index(drop=True), note


def _joined(columns: Sequence[pd.Series]) -> pd.Series:
    """Return one key made of several columns."""
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
    """All levels of each categorical column, the reference first."""


def read_covariates(
    path: PathLike | None,
    samples: pd.DataFrame,
    chosen: Sequence[str] | None = None,
    targets: Sequence[str] = (),
    features: Sequence[str] | None = None,
    levels: Mapping[str, Sequence[str]] | None = None,
    sex: pd.Series | None = None,
) -> Covariates:
    """Return the covariates of samples.

    Categorical columns, such as site or batch, become a dummy for each word except the first.

    Parameters
    ----------
    path : path-like, optional
        Not needed if `chosen` or `features` name only sex, and `sex` is given.
    samples : DataFrame of str
    chosen : sequence of str, optional
        Columns of the table, or ranges of them (PC1-PC10); by default all.
    targets : sequence of str
        Columns of this table that are targets.
    features : sequence of str, optional
        Features of a fit: they determine the dummies of categorical columns, whatever words the table has.
    levels : mapping of str to sequence of str, optional
        All levels of the fit's categorical columns, the reference first. Other words are reported in a note.
    sex : Series of str of shape (n_samples,), optional
        Sex in the files of the genotypes (1 male, 2 female, 0 unknown): for a covariate "sex" that the table lacks.

    Raises
    ------
    ConfigError
        No such column, no table, or the column is a target.
    """
    table = None if path is None else SampleTable(path)
    known_names = [] if table is None else table.names
    wanted = list(known_names) if chosen is None else [*chosen] if table is None else table.expanded(chosen)
    needs_sex = SEX in (wanted if features is None else features)
    is_in_files = sex is not None and needs_sex and SEX not in known_names
    if table is None and set(wanted) - ({SEX} if is_in_files else set()):
        problem, remedy = "expected a table with the covariates, found none", "set covariates or phenotypes"
        raise ConfigError(problem, "source.covariate_names", remedy)
    for name in targets:
        if name in wanted:
            problem = f"expected covariates without the target, found {name!r} among them"
            raise ConfigError(problem, "source.covariate_names", "remove it from the covariates")
    of_table = [name for name in wanted if not (is_in_files and name == SEX)]
    words, note = (pd.DataFrame(index=range(len(samples))), "") if table is None else table.of(samples, of_table)
    if is_in_files and sex is not None:
        words[SEX] = sex.to_numpy()
        wanted = wanted if SEX in wanted else [*wanted, SEX]
    names: list[str] = []
    columns: list[np.ndarray] = []
    found: dict[str, list[str]] = {}
    notes = [note] if note else []
    for name in wanted:
        of_one = words[name]
        is_missing = of_one.isin(MISSING_WORDS)
        of_fit = [] if features is None else [one for one in features if one.startswith(f"{name}=")]
        own = None if features is None else [one.removeprefix(f"{name}=") for one in of_fit]
        if not own and pd.to_numeric(of_one[~is_missing], errors="coerce").notna().all():
            values = _numbers(of_one, name, str(path))
            if name.lower() == SEX and (values == 2).any():  # PLINK's codes: 1 male, 2 female, 0 unknown
                values[values == 0] = np.nan
            names.append(name)
            columns.append(values)
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
    """Return the note on words that the fit's column did not have."""
    rows = {str(word): int(n) for word, n in words[~words.isin(known)].value_counts().items()}
    if not rows:
        return []
    return [
        Caution(
            f"covariate {name!r}: {sum(rows.values()):,} rows have levels that the fit did not have and count as "
            f"{known[0]!r}: {listed_levels(rows)}"
        )
    ]


def _compression(path: Location) -> Any:
    """Return the compression of a table; for a file, pandas infers it."""
    if not isinstance(path, ObjectPath):
        return "infer"
    return {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd"}.get(path.suffix)
