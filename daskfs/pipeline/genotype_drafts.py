"""Drafts of pipelines for genotype files, which are read in place."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from daskfs import errors
from daskfs.bundled import editor_line
from daskfs.documents import dump_line
from daskfs.files import location
from daskfs.matrix.split import FAMILIES, NO_FAMILY
from daskfs.methods import find_method
from daskfs.parameters import parameters_of
from daskfs.pipeline.drafting import as_name, name_of, relative_to, write
from daskfs.sources.files import PathLike, expand_paths
from daskfs.sources.genotypes import GenotypeSource
from daskfs.sources.registry import PLACES, find_source, kind_of, make_source

ConfigError = errors.ConfigError.about("drafts")


class Families(NamedTuple):
    """Families: ids shared by several samples."""

    n_families: int
    n_samples: int
    largest: int
    are_kept: bool
    """Whether the largest group is small enough to be a family."""

    @classmethod
    def of(cls, source: GenotypeSource) -> Families | None:
        """Return the families of a source; None if all ids differ or are missing."""
        if FAMILIES not in source.label_names:
            return None
        ids = source.samples[FAMILIES].astype(str)
        counts = ids[~ids.isin(["", NO_FAMILY])].value_counts()
        counts = counts[counts > 1]
        if not len(counts):
            return None
        largest = int(counts.iloc[0])
        return cls(len(counts), int(counts.sum()), largest, largest <= max(20, len(ids) // 20))

    @property
    def in_words(self) -> str:
        """Summary for the user."""
        if not self.are_kept:
            why = f"{self.largest:,} samples share one, so the split treats samples as unrelated"
            return f"family ids: {why}; add groups: {FAMILIES} to the split if they are relatives"
        found = f"{self.n_families:,} families of {self.n_samples:,} samples, the largest of {self.largest:,}"
        return f"{found}: the split keeps each family together (groups: {FAMILIES})"

    @property
    def split_line(self) -> str:
        """Line of the split in a pipeline file."""
        groups = f", groups: {FAMILIES}" if self.are_kept else ""
        said = f"families are kept together; else remove groups: {FAMILIES}" if groups else self.in_words
        return f"split: {{test: 0.2, by: random, random_state: 0{groups}}}  # {said}"


@dataclass
class GenotypeDraft:
    """A pipeline for genotypes that was written, and its contents."""

    pipeline: Path
    source: GenotypeSource
    covariates: list[str]
    """Names of features that are always selected."""
    families: Families | None = None

    def to_text(self) -> str:
        """Return a summary for the user."""
        return "\n".join([*self._facts(), f"wrote {self.pipeline}"])

    def _facts(self) -> list[str]:
        n_samples, n_features = self.source.estimate_shape()
        classes = self.source.target_classes
        what = "numbers" if classes is None else " and ".join(classes)
        names = self.source.target_names
        target = f"target: {names[0]!r} ({what}), known for {n_samples:,} samples"
        if len(names) > 1:
            target = f"targets: {', '.join(map(repr, names))}, with a run for each"
        lines = [f"{self.source.place}: {n_features - len(self.covariates):,} variants", target]
        lines += [f"covariates, always selected: {', '.join(self.covariates)}"] if self.covariates else []
        lines += [] if self.families is None else [self.families.in_words]
        return lines + [f"  {note}" for note in self.source.notes]

    def to_document(self) -> dict[str, Any]:
        """Return the same as JSON."""
        n_samples, n_features = self.source.estimate_shape()
        return {
            "pipeline": str(self.pipeline),
            "schema": None,
            "files": [str(file) for file in self.source.files],
            "n_samples": n_samples,
            "n_variants": n_features - len(self.covariates),
            "target": names[0] if len(names := list(self.source.target_names)) == 1 else names,
            "covariates": self.covariates,
            "remarks": list(self.source.notes),
        }


def are_genotypes(path: PathLike) -> bool:
    """Return whether a file contains genotypes, for `draft_genotypes`."""
    return issubclass(find_source(kind_of(path)), GenotypeSource)


def draft_genotypes(
    path: PathLike,
    target: str | None = None,
    folder: str | os.PathLike[str] = ".",
    *,
    phenotypes: str | None = None,
    covariates: str | None = None,
    force: bool = False,
) -> GenotypeDraft:
    """Read the names in genotype files, and write ``NAME.yaml`` for them.

    Parameters
    ----------
    path : path-like
        A .bed, .pgen or .bgen file, a pattern of several (chr*.bed, chr{1..22}.bed), or a VCF Zarr folder.
    target : str, optional
        The phenotype to predict.
    folder : path-like
        Folder of the file, or its path, ending in .yaml.
    phenotypes : path-like, optional
        Table of phenotypes.
    covariates : str, optional
        Table of covariates, or comma-separated columns of the phenotypes.
    force : bool
        Whether to replace an existing file.

    Raises
    ------
    ConfigError
        The file exists, or a column does not exist.
    SourceError
        The genotypes or tables cannot be read.
    """
    folder = Path(folder)
    kind, options, source = _genotypes(path, target, phenotypes, covariates)
    is_file = folder.suffix in (".yaml", ".yml") and not folder.is_dir()
    name = as_name(folder.stem) if is_file else _name_of_genotypes(path, kind)
    file = folder if is_file else folder / f"{name}.yaml"
    always = source.feature_names[: source.n_covariates]
    wanted = {key: relative_to(value, file) if key in PLACES else value for key, value in options.items()}
    n_variants, families = len(source.feature_names) - len(always), Families.of(source)
    select: dict[str, Any] = {
        "method": "online_substitution",
        "n_features_to_select": len(always) + min(20, n_variants),
    }
    select |= {"always_include": always} if always else {}
    lines = [
        editor_line("pipeline"),
        f"# Selects the variants of {', '.join(map(str, source.files[:1]))} that predict "
        f"{' or '.join(map(repr, source.target_names))}.",
        f"#   daskfs plan {file}    daskfs run {file}",
        "version: 1",
        f"name: {name}",
        "# missing dosages are replaced by the mean of the variant; drop leaves the sample out",
        f"source: {dump_line({'kind': kind, **wanted})}",
        "store: none  # the files are read directly",
        "split: {test: 0.2, by: random, random_state: 0}" if families is None else families.split_line,
        "# n_features_to_select includes the covariates; adjust it",
        f"select: {dump_line(select)}",
        "",
    ]
    write({file: "\n".join(lines)}, force)
    return GenotypeDraft(file, source, always, families)


def _genotypes(
    path: PathLike, target: str | None, phenotypes: str | None, covariates: str | None, **filters: Any
) -> tuple[str, dict[str, Any], GenotypeSource]:
    """Return the kind of genotype files, the other entries of their `source` section, and the source, checked."""
    kind = kind_of(path)
    options: dict[str, Any] = {"path": getattr(path, "address", str(path)), "phenotypes": phenotypes, "target": target}
    if target is not None and len(several := [one.strip() for one in target.split(",") if one.strip()]) > 1:
        options["target"] = several
    if covariates is not None and location(covariates).is_file():
        options["covariates"] = covariates
    elif covariates is not None:
        options["covariate_names"] = [one.strip() for one in covariates.split(",") if one.strip()]
    options = {key: value for key, value in (options | filters).items() if value is not None} | {"missing": "mean"}
    source = make_source(kind, **options)
    assert isinstance(source, GenotypeSource)
    source.check()
    return kind, options, source


def _name_of_genotypes(path: PathLike, kind: str) -> str:
    endings = getattr(find_source(kind), "endings", ())
    return name_of(expand_paths(path, endings) if endings else [Path(str(path))], location(path))


def sections_of_genotypes(
    path: PathLike, target: str | None, phenotypes: str | None, covariates: str | None, method: str, **filters: Any
) -> tuple[str, dict[str, Any]]:
    """Return a name for genotype files, and sections of a pipeline that reads them in place, as `draft_genotypes` does.

    `filters` are entries of the section `source`.

    Raises
    ------
    ConfigError
        The method cannot include covariates, or a column does not exist.
    SourceError
        The genotypes or tables cannot be read.
    """
    kind, options, source = _genotypes(path, target, phenotypes, covariates, **filters)
    always, families = source.feature_names[: source.n_covariates], Families.of(source)
    if always and "always_include" not in parameters_of(find_method(method)):
        problem = f"{method} cannot always include covariates"
        raise ConfigError(problem, "--covariates", "choose another --method, such as online_substitution or auto")
    return _name_of_genotypes(path, kind), {
        "source": {"kind": kind, **options},
        "store": "none",
        "split": {"groups": FAMILIES} if families is not None and families.are_kept else {},
        "select": {"always_include": always} if always else {},
    }
