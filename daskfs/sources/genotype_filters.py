"""Filters of genotypes, as PLINK has them: which samples and which variants are used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field

from daskfs import errors
from daskfs.documents import PATH, Words
from daskfs.errors import Caution
from daskfs.files import Location, location
from daskfs.sources.byte_streams import open_bytes
from daskfs.sources.files import PathLike
from daskfs.sources.options import SourceOptions
from daskfs.sources.table import Fill

ConfigError = errors.ConfigError.about("genotypes")
SourceError = errors.SourceError.about("genotypes")

SECOND_DEGREE = 0.0884
"""Kinship between the second and the third degree of relationship, as KING has it."""
_NAMED = 3
_ROUNDING = 2.0**-44
"""Tolerance of thresholds, as in PLINK 2."""


class GenotypeOptions(SourceOptions):
    """Options that all sources of genotypes have."""

    y: Annotated[str | None, PATH] = Field(
        default=None,
        description=".npy file of the targets, one per sample; default: the phenotype in the files",
    )
    phenotypes: Annotated[str | None, PATH] = Field(
        default=None, description="table of phenotypes with a header: FID IID NAME ..., or IID NAME ..., in any order"
    )
    covariates: Annotated[str | None, PATH] = Field(
        default=None, description="table of covariates with FID and IID, or IID; they become the first features"
    )
    covariate_names: Words | None = Field(
        default=None,
        description="columns of covariates to use (default: all), or of phenotypes if covariates is not set: "
        "[age, sex, PC1-PC10]",
    )
    target: Words | None = Field(
        default=None, description="name of the phenotype to use, or of y; of several phenotypes, each has a run"
    )
    missing: Fill | None = Field(default=None, description="treatment of missing dosages; drop removes the sample")
    keep: Annotated[str | None, PATH] = Field(
        default=None, description="file of the samples to use: FID IID, or IID, in each line (plink --keep)"
    )
    remove: Annotated[str | None, PATH] = Field(
        default=None, description="file of samples to leave out, as for keep (plink --remove)"
    )
    extract: Annotated[str | None, PATH] = Field(
        default=None, description="file with the ids of the variants to use (plink --extract)"
    )
    exclude: Annotated[str | None, PATH] = Field(
        default=None, description="file with the ids of variants to leave out (plink --exclude)"
    )
    min_frequency: float | None = Field(
        default=None, ge=0, le=0.5, description="minor allele frequency below which a variant is left out (plink --maf)"
    )
    max_missing: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="share of samples without a dosage above which a variant is left out (plink --geno)",
    )
    relatives: Annotated[str | None, PATH] = Field(
        default=None,
        description="table of pairs with their kinship (plink2 --make-king-table, KING's .kin0): samples that are "
        "related, directly or through others, get one id in the column relatives, for split: {groups: relatives}",
    )
    related_above: float | None = Field(
        default=None, description="kinship above which a pair counts as related; default 0.0884, the second degree"
    )


class Filters(NamedTuple):
    """Which samples and variants are used, and which samples are relatives; see `GenotypeOptions`."""

    keep: PathLike | None = None
    remove: PathLike | None = None
    extract: PathLike | None = None
    exclude: PathLike | None = None
    min_frequency: float | None = None
    max_missing: float | None = None
    relatives: PathLike | None = None
    related_above: float | None = None

    def check(self) -> None:
        """Raise a `ConfigError` for a threshold out of range, or one that has no effect."""
        for name, value, most in (("min_frequency", self.min_frequency, 0.5), ("max_missing", self.max_missing, 1)):
            if value is not None and not 0 <= value <= most:
                raise ConfigError(f"expected a number from 0 to {most}, found {value!r}", f"source.{name}")
        if self.related_above is not None and (self.relatives is None or not np.isfinite(self.related_above)):
            problem = f"expected a kinship and a table of relatives, found {self.related_above!r} and {self.relatives}"
            raise ConfigError(problem, "source.related_above", "set relatives to a table of pairs, or leave it out")

    @property
    def files(self) -> list[Location]:
        """The files of ids and relatives."""
        named = (self.keep, self.remove, self.extract, self.exclude, self.relatives)
        return [location(file) for file in named if file is not None]

    @property
    def has_thresholds(self) -> bool:
        """Whether variants are left out by what is counted in their genotypes."""
        return self.min_frequency is not None or self.max_missing is not None

    @property
    def in_words(self) -> list[str]:
        """Return each filter with its value; of files the name."""
        named = [(name, value) for name, value in self._asdict().items() if value is not None]
        is_number = {"min_frequency", "max_missing", "related_above"}
        return [f"{name} {value if name in is_number else location(value).name}" for name, value in named]

    @property
    def thresholds(self) -> list[str]:
        """Return each threshold of variants with its value."""
        return [words for words in self.in_words if words.split()[0] in ("min_frequency", "max_missing")]

    def samples(self, samples: pd.DataFrame, notes: list[str]) -> tuple[np.ndarray, list[str]]:
        """Return a mask of the samples that `keep` and `remove` leave, and lines that say how many.

        Parameters
        ----------
        samples : DataFrame of str
            With a column iid, and fid if there are families.
        notes : list of str
            Notes on the files are appended.

        Raises
        ------
        SourceError
            A file cannot be read, or no sample is left.
        """
        is_left, lines = np.ones(len(samples), bool), list[str]()
        for option, file in (("keep", self.keep), ("remove", self.remove)):
            if file is None:
                continue
            listed = _listed_samples(location(file), "fid" in samples.columns)
            names = list(listed.columns)
            ids = samples[names].agg(" ".join, axis=1)
            is_listed = ids.isin(notes_on_list(listed.agg(" ".join, axis=1), ids, "samples", location(file), notes))
            is_left &= is_listed if option == "keep" else ~is_listed
            _refuse_none(is_left, option, file, "sample", ids)
            lines.append(f"{option}: {is_left.sum():,} of {len(is_left):,} samples are left ({location(file).name})")
        return is_left, lines

    def families(self, samples: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
        """Return the samples with a column relatives ("" for a sample without any), and a line that says how many.

        Without `relatives`, the samples and no line.

        Raises
        ------
        SourceError
            The table cannot be read, or none of its pairs is in the genotypes.
        """
        if self.relatives is None:
            return samples, []
        path, above = location(self.relatives), SECOND_DEGREE if self.related_above is None else self.related_above
        (number, words), *lines = _lines(path)
        head = [word.removeprefix("#").upper().replace("IID", "ID") for word in words]
        if not {"ID1", "ID2", "KINSHIP"} <= {*head}:
            problem = f"expected the columns ID1, ID2 and KINSHIP, found {' '.join(words[:10])!r}"
            raise SourceError(problem, f"{path}, line {number}", "write it with plink2 --make-king-table, or KING")
        for number, words in lines:
            if len(words) != len(head):
                problem = f"expected {len(head)} words, found {len(words)}"
                raise SourceError(problem, f"{path}, line {number}", "check how the file was made")
        table = pd.DataFrame([words for _, words in lines], columns=head, dtype=object)
        have_families = "fid" in samples.columns and "FID1" in head
        ids = samples["fid"] + " " + samples["iid"] if have_families else samples["iid"]
        place = {name: i for i, name in enumerate(ids)}
        kinship = pd.to_numeric(table["KINSHIP"], errors="coerce")
        sides = [table[f"FID{k}"] + " " + table[f"ID{k}"] if have_families else table[f"ID{k}"] for k in (1, 2)]
        known = sides[0].isin(place) & sides[1].isin(place)
        if not known.any():
            problem = f"none of {len(table):,} pairs is in the genotypes ({ids.iloc[0]!r} is a sample)"
            raise SourceError(problem, str(path), "use the ids of the genotypes")
        one, other = ([place[name] for name in side[known & (kinship > above)]] for side in sides)
        roots = _connected(len(samples), one, other)
        sizes = np.bincount(roots, minlength=len(roots))
        found = np.where(sizes[roots] > 1, roots.astype(str), "")
        n_groups, n_related = int((sizes > 1).sum()), int((found != "").sum())
        line = f"relatives: {n_related:,} samples in {n_groups:,} groups have a kinship above {above:g} ({path.name})"
        return samples.assign(relatives=found.astype(object)), [line]

    def variants(self, ids: np.ndarray, names: Sequence[str], notes: list[str]) -> tuple[np.ndarray, list[str]]:
        """Return a mask of the variants that `extract` and `exclude` leave, and lines that say how many.

        Parameters
        ----------
        ids : ndarray of str, shape (n_variants,)
            As the files have them.
        names : sequence of str
            Names of the features; they differ for ids that are unknown or that occur twice.
        notes : list of str
            Notes on the files are appended.

        Raises
        ------
        SourceError
            A file cannot be read, or no variant is left.
        """
        is_left, lines = np.ones(len(ids), bool), list[str]()
        for option, file in (("extract", self.extract), ("exclude", self.exclude)):
            if file is None:
                continue
            of_file = _lines(location(file))
            numbers = [number for number, words in of_file for _ in words]
            listed = pd.Series([word for _, words in of_file for word in words], index=numbers, dtype=object)
            known, other = pd.Series(ids, dtype=object), pd.Series(names, dtype=object)
            unique = notes_on_list(listed, pd.concat([known, other]), "variants", location(file), notes)
            is_listed = (known.isin(unique) | other.isin(unique)).to_numpy()
            is_left &= is_listed if option == "extract" else ~is_listed
            _refuse_none(is_left, option, file, "variant", known)
            lines.append(f"{option}: {is_left.sum():,} of {len(is_left):,} variants are left ({location(file).name})")
        return is_left, lines

    def passes(self, n_missing: np.ndarray, copies: np.ndarray, ploidy: int, n_used: int) -> np.ndarray:
        """Return a mask of the variants within the thresholds.

        Parameters
        ----------
        n_missing, copies : ndarray of shape (n_variants,)
            Missing dosages, and copies of the first allele, among the samples that are used.
        ploidy : int
        n_used : int
            Number of samples that are used.

        Examples
        --------
        >>> filters = Filters(min_frequency=0.1, max_missing=0.2)
        >>> filters.passes(np.array([0, 1, 5]), np.array([2, 1, 4]), 2, 10).tolist()
        [True, False, False]
        """
        passed = np.ones(len(copies), bool)
        if self.min_frequency is not None:
            n_copies = ploidy * (n_used - n_missing)
            minor = np.minimum(copies, n_copies - copies)
            passed &= (minor >= self.min_frequency * (1 - _ROUNDING) * n_copies) & (n_copies > 0)
        if self.max_missing is not None:
            passed &= n_missing <= self.max_missing * (1 + _ROUNDING) * n_used
        return passed


def _connected(n: int, one: Sequence[int], other: Sequence[int]) -> np.ndarray:
    """Return for each of n items the lowest that it is connected to by pairs."""
    root = list(range(n))

    def root_of(i: int) -> int:
        while root[i] != i:
            root[i] = root[root[i]]
            i = root[i]
        return i

    for pair in zip(one, other, strict=True):
        first, second = sorted(map(root_of, pair))
        root[second] = first
    return np.array([root_of(i) for i in range(n)], np.int64)


def notes_on_list(listed: pd.Series, known: pd.Series, what: str, path: Location, notes: list[str]) -> pd.Series:
    """Return the ids of a file once each, and append notes on those that are unknown or that occur again.

    Parameters
    ----------
    listed : Series of str
        Ids by number of the line.
    known : Series of str
    what : str
        "samples" or "variants".
    """
    is_again, unique = listed.duplicated(), listed.drop_duplicates()
    is_unknown = ~unique.isin(known)
    for n, words, remedy, those in (
        (int(is_again.sum()), "listed again, which has no effect", "remove the lines", listed[is_again]),
        (int(is_unknown.sum()), "not in the genotypes", "check the ids, or remove the lines", unique[is_unknown]),
    ):
        if n:
            first = ", ".join(f"{one!r} (line {line})" for line, one in those.iloc[:_NAMED].items())
            more = " and others" if n > _NAMED else ""
            notes.append(Caution(f"{path}: {n:,} of {len(listed):,} {what} are {words}: {first}{more}; {remedy}"))
    return unique


def _refuse_none(is_left: np.ndarray, option: str, file: PathLike, what: str, ids: pd.Series) -> None:
    """Raise an error if nothing is left."""
    if not is_left.any():
        remedy = f"list ids of the genotypes ({ids.iloc[0]!r} is one)" if len(ids) else "check the files"
        if option in ("remove", "exclude"):
            remedy = f"leave out {option}, or shorten its file"
        raise SourceError(f"{option}: expected at least one {what}, none is left", str(file), remedy)


def _lines(path: Location) -> list[tuple[int, list[str]]]:
    """Return the words of each line that is not empty, with its number."""
    try:
        with open_bytes(path) as stream:
            texts = stream.read().decode("utf-8").splitlines()
    except UnicodeDecodeError as fault:
        raise SourceError(f"expected text in UTF-8 ({fault})", str(path), "check the format of the file") from None
    found = [(number, words) for number, text in enumerate(texts, 1) if (words := text.split())]
    if not found:
        raise SourceError("expected ids, found none", str(path), "check how the file was made")
    return found


def _listed_samples(path: Location, have_families: bool) -> pd.DataFrame:
    """Return the ids of samples in a file by line: column iid, and fid if both sides have families."""
    lines = _lines(path)
    head: Any = [word.removeprefix("#") for word in lines[0][1]]
    is_head = head[0] in ("FID", "IID") and "IID" in head
    lines = lines[1:] if is_head else lines
    if not lines:
        raise SourceError("expected samples, found only a header", str(path), "check how the file was made")
    head = head if is_head else ["FID", "IID"] if len(lines[0][1]) > 1 else ["IID"]
    wanted = [(name.lower(), head.index(name)) for name in ("FID", "IID") if name in head]
    for number, words in lines:
        if len(words) <= max(place for _, place in wanted):
            problem = f"expected {' '.join(name.upper() for name, _ in wanted)}, found {' '.join(words)!r}"
            raise SourceError(problem, f"{path}, line {number}", "write FID and IID, or only IID, in each line")
    columns = {name: [words[place] for _, words in lines] for name, place in wanted}
    found = pd.DataFrame(columns, index=[number for number, _ in lines], dtype=object)
    if "fid" in found and (not have_families or (found["fid"] == "0").all()):
        return found[["iid"]]  # PLINK 2 writes FID 0 if there are no families
    return found
