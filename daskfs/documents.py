"""Documents that people write: strict YAML, checked against a model, every fault with its place and the nearest right word.

The only door for YAML; `pipeline/config.py` and `sources/table_schema.py` build their models on `Document`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from daskfs.errors import ConfigError, DaskfsError, did_you_mean


class Document(BaseModel):
    """Base of every checked document: unknown keys are refused, values are not coerced behind one's back."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, validate_default=True)


DocumentT = TypeVar("DocumentT", bound=Document)


class _StrictLoader(yaml.SafeLoader):
    """YAML without tags and without duplicate keys."""


def _mapping_without_duplicates(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[Any, int] = {}
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        line = key_node.start_mark.line + 1
        if isinstance(key, (dict, list)):
            raise yaml.constructor.ConstructorError(None, None, "a key must be a word", key_node.start_mark)
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"key {key!r} stands twice (first on line {seen[key]})", key_node.start_mark
            )
        seen[key] = line
    return yaml.constructor.SafeConstructor.construct_mapping(loader, node, deep=True)


def _refuse_tag(loader: _StrictLoader, node: yaml.Node) -> Any:
    raise yaml.constructor.ConstructorError(
        None, None, f"the tag {node.tag!r} is refused: tags are never executed", node.start_mark
    )


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping_without_duplicates)
_StrictLoader.add_constructor(None, _refuse_tag)


def read_yaml(path: str | os.PathLike[str], error: type[DaskfsError] = ConfigError) -> dict[str, Any]:
    """Read a YAML file that must be one mapping.

    Parameters
    ----------
    path : path-like
        The file.
    error : type of DaskfsError
        What to raise on a fault.

    Returns
    -------
    dict

    Raises
    ------
    DaskfsError
        Missing or unreadable file, bad YAML, duplicate keys, tags, or anything but a mapping.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise error("no such file", str(path), "check the path; it is relative to the current folder") from None
    except IsADirectoryError:
        raise error("expected a YAML file, found a folder", str(path)) from None
    except UnicodeDecodeError as fault:
        raise error(
            f"expected UTF-8 text, found byte {fault.object[fault.start]:#04x} at offset {fault.start}",
            str(path),
            "save the file as UTF-8",
        ) from None
    try:
        document = yaml.load(text, Loader=_StrictLoader)  # a SafeLoader
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise error(f"not valid YAML: {fault.problem or fault.context}", place, "mend the line") from None
    except (yaml.YAMLError, ValueError) as fault:
        raise error(f"not valid YAML: {fault}", str(path), "mend the file") from None
    if not isinstance(document, dict):
        found = "an empty file" if document is None else f"a {type(document).__name__}"
        raise error(f"expected a mapping of keys to values, found {found}", str(path))
    return document


def expand_environment(value: Any, where: str) -> Any:
    """Replace ``${NAME}`` by the environment variable, everywhere in a document; nothing else is expanded.

    Raises
    ------
    ConfigError
        The variable is not set.
    """
    if isinstance(value, dict):
        return {key: expand_environment(item, where) for key, item in value.items()}
    if isinstance(value, list):
        return [expand_environment(item, where) for item in value]
    if not isinstance(value, str):
        return value

    def substitute(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in os.environ:
            raise ConfigError(
                f"the environment variable {name} is not set (in {value!r})", where, f"export {name}=..."
            )
        return os.environ[name]

    return re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", substitute, value)


def check_document(
    model: type[DocumentT], document: Mapping[str, Any], where: str, error: type[DaskfsError] = ConfigError
) -> DocumentT:
    """Check a mapping against its model.

    Parameters
    ----------
    model : type of Document
    document : mapping
    where : str
        The file, for messages.
    error : type of DaskfsError
        What to raise on a fault.

    Raises
    ------
    DaskfsError
        One line per place, each with what was expected and what was found.
    """
    try:
        return model.model_validate(document)
    except ValidationError as fault:
        lines = [_describe(model, document, detail, where) for detail in fault.errors()]
        raise error("\n".join(dict.fromkeys(lines))) from None


def _describe(model: type[BaseModel], document: Any, detail: Any, where: str) -> str:
    keys = [key for key in detail["loc"] if _is_key_of(document, detail["loc"], key)]
    place = f"{where}: {'.'.join(str(key) for key in keys)}" if keys else where
    if detail["type"] == "extra_forbidden":
        known = _known_keys(model, list(detail["loc"][:-1]))
        hint = did_you_mean(str(detail["loc"][-1]), known)
        return f"{place}: unknown key{hint}; known keys: {', '.join(sorted(known))}"
    if detail["type"] == "missing":
        return f"{where}: {'.'.join(str(key) for key in detail['loc'])}: this key is required; add it"
    message = detail["msg"].removeprefix("Value error, ")
    found = detail.get("input")
    if detail["type"] == "value_error" or isinstance(found, (dict, list)):
        return f"{place}: {message}"
    hint = ""
    if detail["type"] == "literal_error" and isinstance(found, str):
        hint = did_you_mean(found, re.findall(r"'([^']+)'", str(detail["ctx"]["expected"])))
    return f"{place}: {message[0].lower()}{message[1:]}, found {found!r}{hint}"


def _is_key_of(document: Any, loc: tuple[Any, ...], key: Any) -> bool:
    """Whether a part of pydantic's location is a key the user wrote (and not the name of a union's member)."""
    for part in loc[: loc.index(key) + 1]:
        try:
            document = document[part]
        except (KeyError, IndexError, TypeError):
            if part == key:
                return False
    return True


def _known_keys(model: Any, loc: list[Any]) -> list[str]:
    """Names a mapping at `loc` may have, found by walking the model's JSON schema."""
    schema = model.model_json_schema()
    definitions = schema.get("$defs", {})

    def resolve(node: dict[str, Any]) -> list[dict[str, Any]]:
        if "$ref" in node:
            return resolve(definitions[node["$ref"].rsplit("/", 1)[-1]])
        found = [node] if "properties" in node or "items" in node or "additionalProperties" in node else []
        for branch in (*node.get("anyOf", ()), *node.get("oneOf", ())):
            found += resolve(branch)
        return found

    nodes = resolve(schema)
    for part in loc:
        below: list[dict[str, Any]] = []
        for node in nodes:
            if part in node.get("properties", {}):
                below += resolve(node["properties"][part])
            elif isinstance(node.get("additionalProperties"), dict) and not isinstance(part, int):
                below += resolve(node["additionalProperties"])
            elif isinstance(part, int) and isinstance(node.get("items"), dict):
                below += resolve(node["items"])
        nodes = below or nodes
    return sorted({name for node in nodes for name in node.get("properties", {})})
