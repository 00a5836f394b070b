"""Bundled files: example pipelines, their table schemas, and JSON Schemas for editors.

A wheel contains copies of them (`setup.py`). Code that runs from the repository uses the folders there.
"""

from __future__ import annotations

from pathlib import Path

_INSTALLED = Path(__file__).parent / "bundled_files"
_HERE = _INSTALLED if _INSTALLED.is_dir() else Path(__file__).parents[1]


def pipelines() -> dict[str, Path]:
    """Return the paths of the bundled pipelines by name.

    Examples
    --------
    >>> pipelines()["quickstart"].name
    'quickstart.yaml'
    """
    return {path.stem: path for path in sorted((_HERE / "pipelines").glob("*.yaml"))}


def editor_line(document: str) -> str:
    """Return the comment of a YAML file that tells editors the location of its JSON Schema.

    Parameters
    ----------
    document : {"pipeline", "table"}

    Examples
    --------
    >>> editor_line("pipeline").partition("=")[0]
    '# yaml-language-server: $schema'
    """
    return f"# yaml-language-server: $schema={(_HERE / 'data_schemas' / f'{document}.schema.json').resolve().as_uri()}"


def copied(name: str) -> dict[str, str]:
    """Return a bundled pipeline as file contents by file name, to be written to a folder of the user.

    A table schema that it names is included, and its path in the pipeline is adapted.
    """
    path = pipelines()[name]
    text, files = path.read_text(encoding="utf-8"), {}
    for schema in sorted((_HERE / "data_schemas").glob("*.yaml")):
        named = f"../data_schemas/{schema.name}"
        if named in text:
            text = text.replace(named, f"{schema.stem}.schema.yaml")
            files[f"{schema.stem}.schema.yaml"] = f"{editor_line('table')}\n{schema.read_text(encoding='utf-8')}"
    return {f"{name}.yaml": f"{editor_line('pipeline')}\n{text}"} | files
