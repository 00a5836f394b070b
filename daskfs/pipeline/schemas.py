"""JSON Schemas of the documents that daskfs reads and writes, generated from the code.

``python -m daskfs.pipeline.schemas`` writes the copies in ``data_schemas/``; a test compares them with the code.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from daskfs import errors
from daskfs.applied.model import ModelRecord
from daskfs.documents import Document
from daskfs.errors import did_you_mean
from daskfs.pipeline.config import Pipeline
from daskfs.result import ResultRecord
from daskfs.sources.table_schema import TableSchema
from daskfs.store.header import StoreHeader

ConfigError = errors.ConfigError.about("pipeline-files")

DIALECT = "https://json-schema.org/draft/2020-12/schema"

DOCUMENTS: dict[str, tuple[type, str]] = {
    "pipeline": (Pipeline, "A pipeline file of daskfs"),
    "result": (ResultRecord, "result.json in the folder of a run of daskfs"),
    "model": (ModelRecord, "model.json in the folder of a run of daskfs: the model that predicts new rows"),
    "table": (TableSchema, "A table schema: what the columns of a table mean"),
    "store": (StoreHeader, 'The attribute "daskfs" of the Zarr group that is a feature store'),
}


def json_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a document.

    Parameters
    ----------
    name : {"pipeline", "result", "model", "table", "store"}

    Raises
    ------
    ConfigError
        The document does not exist.
    """
    if name not in DOCUMENTS:
        known = ", ".join(DOCUMENTS)
        raise ConfigError(f"expected one of {known}, found {name!r}{did_you_mean(name, DOCUMENTS)}", "schema")
    described, title = DOCUMENTS[name]
    mode = "validation" if issubclass(described, Document) else "serialization"
    schema = TypeAdapter(described).json_schema(by_alias=True, mode=mode)  # type: ignore[arg-type]
    return {"$schema": DIALECT, **schema, "title": title}


def json_schema_text(name: str) -> str:
    """Return the JSON Schema of a document as text."""
    return json.dumps(json_schema(name), indent=2, ensure_ascii=False) + "\n"


def write_schemas(folder: Path) -> None:
    """Write every schema as ``<name>.schema.json``."""
    for name in DOCUMENTS:
        (folder / f"{name}.schema.json").write_text(json_schema_text(name), encoding="utf-8")


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1] if len(sys.argv) > 1 else "data_schemas"))
