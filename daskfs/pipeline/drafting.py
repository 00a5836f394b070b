"""Drafts of a pipeline file and a table schema, inferred from the data, which users read and edit."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from daskfs import errors
from daskfs.bundled import copied, editor_line
from daskfs.documents import dump_line
from daskfs.files import Location, location, written_whole
from daskfs.matrix.split import FAMILIES, NO_FAMILY
from daskfs.methods import find_method
from daskfs.parameters import parameters_of
from daskfs.pipeline.folder import LONGEST_NAME_NBYTES
from daskfs.sources.files import PathLike, expand_paths
from daskfs.sources.genotypes import GenotypeSource
from daskfs.sources.looking import TABLES, Look, look_at
from daskfs.sources.registry import PLACES, find_source, kind_of, make_source
from daskfs.sources.schema_inference import TARGET_NAMES, InferredColumn
from daskfs.sources.sparse.documents import fields_of_first
from daskfs.sources.table_schema import TableFormat, load_table_schema

ConfigError = errors.ConfigError.about("drafts")

LOOK_AT = "  look at "
"""Start of a line about a suspicious column."""
_TALL, _ENOUGH_ROWS = 10, 5_000
"""Minimum rows per feature, and minimum rows, for drafting MESSAGE; FGM is drafted for other tables."""


@dataclass
class Draft:
    """Files that were written, and the inferred schema.

    Attributes
    ----------
    pipeline, schema : Path
    look : Look
    """

    pipeline: Path
    schema: Path
    look: Look

    def to_text(self) -> str:
        """Return a summary for the user."""
        look, inferred = self.look, self.look.inferred
        rows = (
            f"{look.n_rows:,} rows" if look.is_whole else f"about {look.n_rows:,} rows, {inferred.n_rows:,} looked at"
        )
        more = f" and {len(look.files) - 3} more files" if len(look.files) > 3 else ""
        lines = [f"{', '.join(map(str, look.files[:3]))}{more}: {rows}, {len(inferred.columns)} columns"]
        lines += [f"  {remark}" for remark in look.remarks]
        lines.append(f"target: {inferred.target!r}, {inferred.why_target}")
        width = min(30, max(len(one.name) for one in inferred.columns))
        shown = inferred.columns
        if len(shown) > 60:  # plain numbers last
            shown = sorted(shown, key=lambda one: not (one.entry or one.suspicions))[:50]
        lines += [f"  {one.name:<{width}}  {one.why}" for one in shown]
        if len(shown) < len(inferred.columns):
            lines.append(f"  and {len(inferred.columns) - len(shown)} more, in {self.schema}")
        if inferred.suspicions:
            lines += ["look at these:", *(f"  {text}" for text in inferred.suspicions)]
        return "\n".join([*lines, f"wrote {self.schema} and {self.pipeline}"])

    def to_document(self) -> dict[str, Any]:
        """Return the same as JSON."""
        look, inferred = self.look, self.look.inferred
        return {
            "pipeline": str(self.pipeline),
            "schema": str(self.schema),
            "files": [str(file) for file in look.files],
            "n_rows": look.n_rows,
            "n_rows_looked_at": inferred.n_rows,
            "remarks": look.remarks,
            "target": inferred.target,
            "why_target": inferred.why_target,
            "columns": [
                {"name": one.name, "entry": one.entry, "why": one.why, "suspicions": one.suspicions}
                for one in inferred.columns
            ],
        }


def draft(
    path: PathLike, target: str | None = None, folder: str | os.PathLike[str] = ".", *, force: bool = False
) -> Draft:
    """Inspect a table, and write ``NAME.yaml`` and ``NAME.schema.yaml`` for it.

    Parameters
    ----------
    path : path-like
        A text or Parquet table, a folder of tables, or a glob pattern.
    target : str, optional
        The column to predict; see `daskfs.sources.schema_inference.infer_schema`.
    folder : path-like
        Folder of the files, or path of the pipeline file, ending in .yaml.
    force : bool
        Whether to replace existing files.

    Raises
    ------
    ConfigError
        The files exist.
    SourceError, SchemaError
        The table cannot be read, or it has no possible target.
    """
    look = look_at(path, target)
    folder = Path(folder)
    if folder.suffix in (".yaml", ".yml") and not folder.is_dir():
        file, folder = folder, folder.parent
        name = _plain(file.stem)
    else:
        name = _name_of(look.files, location(path))
        file = folder / f"{name}.yaml"
    drafted = Draft(file, folder / f"{name}.schema.yaml", look)
    schema, pipeline = schema_text(name, look), _pipeline_text(name, drafted, location(path))
    _write({drafted.schema: schema, drafted.pipeline: pipeline}, force)
    load_table_schema(drafted.schema)
    return drafted


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
    name = _plain(folder.stem) if is_file else _name_of_genotypes(path, kind)
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
    _write({file: "\n".join(lines)}, force)
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
    return _name_of(expand_paths(path, endings) if endings else [Path(str(path))], location(path))


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


def relative_to(path: str, file: Path) -> str:
    """Return a path relative to the pipeline file `file`; URLs are unchanged."""
    place = location(path)
    if not isinstance(place, Path):
        return path
    found = place.resolve() if place.exists() else place.absolute()
    return os.path.relpath(found, file.parent.resolve())


def copy_of_bundled(name: str, folder: str | os.PathLike[str] = ".", *, force: bool = False) -> list[Path]:
    """Write a bundled pipeline, and the table schema that it names, to a folder.

    Raises
    ------
    ConfigError
        The files exist.
    """
    texts = {Path(folder) / file: text for file, text in copied(name).items()}
    _write(texts, force)
    return [*texts]


def _write(texts: dict[Path, str], force: bool) -> None:
    """Write files. Without `force`, write none if one of them exists."""
    for file in texts:
        if file.exists() and not force:
            raise ConfigError(
                "the file already exists", str(file), "choose another folder (--output), or replace it (--force)"
            )
    for file, text in texts.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(file) as temporary:
            temporary.write_text(text, encoding="utf-8")


def source_of_file(path: PathLike, target: str | None, folder: Path) -> tuple[str, dict[str, Any], list[str]]:
    """Return a name for a file, its `source` section of a pipeline, and lines that explain the decisions.

    The schema of a table is written to the folder. An existing schema there, which the user may have edited, is used.

    Raises
    ------
    SourceError, SchemaError
        The table cannot be read, or it has no possible target.
    """
    kind = kind_of(path)
    files = expand_paths(path, getattr(find_source(kind), "endings", ()))
    name = _name_of(files, location(path))
    named = {} if target is None else {"target": target}
    said: list[str] = []
    if kind == "text" and target is None:
        fields = fields_of_first(path)
        found = next((field for usual in TARGET_NAMES for field in fields if field.lower() == usual), None)
        if found is not None:
            named, said = {"target": found}, [f"target {found!r}, by its name"]
    if kind not in TABLES:
        return name, {"kind": kind, "path": getattr(path, "address", str(path))} | named, said
    schema = folder / f"{name}.schema.yaml"
    said = [f"{schema}: using the existing schema"]
    if not schema.exists():
        look = look_at(path, target)
        folder.mkdir(parents=True, exist_ok=True)
        with written_whole(schema) as temporary:
            temporary.write_text(schema_text(name, look), encoding="utf-8")
        left_out = [one.name for one in look.inferred.columns if one.entry.get("role") in ("ignore", "id")]
        without = f"; left out: {', '.join(left_out)}" if left_out else ""
        said = [f"target {look.inferred.target!r} ({look.inferred.why_target}){without}; see {schema} for reasons"]
        said += [f"{LOOK_AT}{text}" for text in look.inferred.suspicions]
    return name, {"kind": kind, "path": str(path), "schema": str(schema)} | named, said


def _shown_files(files: list[Path]) -> str:
    return files[0].name + (f" and {len(files) - 1} more files" if len(files) > 1 else "")


def _name_of(files: list[Path], path: Location) -> str:
    """Return a name for a run: the name of the file without its extensions, or of the folder."""
    own = path.name if path.is_dir() or len(files) == 1 else files[0].parent.resolve().name
    plain = re.sub(
        r"(\.(csv|tsv|txt|data|parquet|pq|feather|arrow|ipc|orc|gz|bz2|xz|zst|bed|vcz|pgen|bgen))+$",
        "",
        own,
        flags=re.IGNORECASE,
    )
    return _plain(plain)


def _plain(text: str) -> str:
    """Convert a text to a valid name of a run."""
    return re.sub(r"[^\w-]+", "-", text).strip("-")[: LONGEST_NAME_NBYTES // 4] or "table"


def schema_text(name: str, look: Look) -> str:
    """Return the table schema as YAML, with a comment for each column on why its type was inferred."""
    inferred = look.inferred
    seen = "" if look.is_whole else f", from its first {inferred.n_rows:,} rows"
    lines = [
        editor_line("table"),
        f"# Table schema of {_shown_files(look.files)}, inferred by daskfs init{seen}.",
        "# Correct errors: role (feature, target, weight, id, split, ignore), dtype, encoding, missing. Check the",
        "# warnings in look_at, which reports repeat, and delete those that are resolved.",
        "version: 1",
        f"name: {name}",
    ]
    plain = TableFormat.model_validate({}).model_dump()
    differs = {key: value for key, value in look.layout.model_dump().items() if value != plain[key]}
    lines += [f"# {remark}" for remark in look.remarks]
    if differs:
        lines.append(f"format: {dump_line(differs)}")
    lines.append("columns:")
    for one in inferred.columns:
        lines += _entry(one)
    lines.append("other_columns: error  # columns that are not listed here")
    return "\n".join(lines) + "\n"


def _entry(one: InferredColumn) -> list[str]:
    entry = {key: value for key, value in one.entry.items() if key != "format"}
    if "format" in one.entry:
        entry = {"dtype": entry.pop("dtype"), "format": one.entry["format"], **entry}
    if one.suspicions:
        entry["look_at"] = one.suspicions
    return [f"  # {' '.join(one.why.split())}", f"  {dump_line(one.name)}: {dump_line(entry)}"]


def _pipeline_text(name: str, drafted: Draft, path: Location) -> str:
    look, inferred = drafted.look, drafted.look.inferred
    source = relative_to(str(path), drafted.pipeline)
    n_features = inferred.n_features
    dates = [one.name for one in inferred.columns if one.entry.get("dtype") in ("date", "datetime")]
    by_order = f"  # if the rows are sorted by time ({dates[0]}), use by: order" if dates else ""
    if look.n_rows >= max(_ENOUGH_ROWS, _TALL * n_features):
        select = "{method: message}"
        why = f"# many rows for each of the {n_features} columns, so subsets of the rows vote; alternative: method: fgm"
    else:
        wanted = max(1, min(20, n_features))
        select = f"{{method: fgm, n_features_to_select: {wanted}}}"
        why = f"# {look.n_rows:,} rows and {n_features} columns; adjust n_features_to_select"
    return "\n".join(
        [
            editor_line("pipeline"),
            f"# Selects the columns of {_shown_files(look.files)} that predict {inferred.target!r}.",
            f"#   daskfs plan {drafted.pipeline}    daskfs run {drafted.pipeline}",
            "version: 1",
            f"name: {name}",
            f"source: {{kind: {look.kind}, path: {dump_line(source)}, schema: {dump_line(drafted.schema.name)}}}",
            f"split: {{test: 0.2, by: random, random_state: 0}}{by_order}",
            why,
            f"select: {select}",
            "",
        ]
    )
