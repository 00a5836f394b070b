"""Drafts of a pipeline file and a table schema, inferred from the data, which users read and edit."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from daskfs import errors
from daskfs.bundled import copied, editor_line
from daskfs.documents import dump_line
from daskfs.files import Location, location, written_whole
from daskfs.pipeline.folder import LONGEST_NAME_NBYTES
from daskfs.sources.files import PathLike, expand_paths
from daskfs.sources.looking import TABLES, Look, look_at
from daskfs.sources.registry import find_source, kind_of
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
        name = as_name(file.stem)
    else:
        name = name_of(look.files, location(path))
        file = folder / f"{name}.yaml"
    drafted = Draft(file, folder / f"{name}.schema.yaml", look)
    schema, pipeline = schema_text(name, look), _pipeline_text(name, drafted, location(path))
    write({drafted.schema: schema, drafted.pipeline: pipeline}, force)
    load_table_schema(drafted.schema)
    return drafted


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
    write(texts, force)
    return [*texts]


def write(texts: dict[Path, str], force: bool) -> None:
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
    name = name_of(files, location(path))
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


def name_of(files: list[Path], path: Location) -> str:
    """Return a name for a run: the name of the file without its extensions, or of the folder."""
    own = path.name if path.is_dir() or len(files) == 1 else files[0].parent.resolve().name
    plain = re.sub(
        r"(\.(csv|tsv|txt|data|parquet|pq|feather|arrow|ipc|orc|gz|bz2|xz|zst|bed|vcz|pgen|bgen))+$",
        "",
        own,
        flags=re.IGNORECASE,
    )
    return as_name(plain)


def as_name(text: str) -> str:
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
