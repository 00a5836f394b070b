"""Strict YAML documents, checked against a model. Every error names its place and remedy.

All YAML is read here. The models of pipeline files, sources and table schemas are subclasses of `Document`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar, Union

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetJsonSchemaHandler,
    Tag,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

from daskfs.errors import ConfigError, DaskfsError, did_you_mean
from daskfs.objects.address import is_url, redacted

_TOPIC = "yaml-files"  # of all errors of this file


class Document(BaseModel):
    """Base of every checked document: unknown keys are refused, values are not coerced silently."""

    model_config = ConfigDict(extra="forbid", strict=True, validate_default=True)


DocumentT = TypeVar("DocumentT", bound=Document)


class Section(Document):
    """Section of a pipeline file. Keys are serialised by their aliases, which are the names in the file."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_alias=True, validate_by_name=False)


class ByTag:
    """Validate a section with the model that one of its keys names; the model is imported when needed.

    ``Annotated[Selection, ByTag("method", METHODS, section_of)]``; the JSON Schema contains the models of all names.

    Parameters
    ----------
    key : str
    names : iterable of str
        Allowed values of the key.
    model_of : callable
        Name to model.
    """

    def __init__(self, key: str, names: Iterable[str], model_of: Callable[[str], type[Document]]) -> None:
        self.key, self.names, self.model_of = key, names, model_of

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._to_section, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        models = tuple(self.model_of(name) for name in self.names)
        tagged: Any = Annotated[Union[models], Field(discriminator=self.key)]  # type: ignore[valid-type]  # noqa: UP007
        adapter: TypeAdapter[Any] = TypeAdapter(tagged)
        return handler(adapter.core_schema)

    def _to_section(self, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        tag = {"discriminator": repr(self.key)}
        if self.key not in given:
            raise PydanticKnownError("union_tag_not_found", tag)
        if not isinstance(given[self.key], str) or given[self.key] not in self.names:
            known = ", ".join(map(repr, self.names))
            raise PydanticKnownError("union_tag_invalid", {**tag, "tag": str(given[self.key]), "expected_tags": known})
        return self.model_of(given[self.key]).model_validate(given)


class ByPlace:
    """Validate a section with a model that is imported when a file has the section.

    ``Annotated[About, ByPlace("stability", model_of)]``.

    Parameters
    ----------
    name : str
    model_of : callable
        Name to model.
    """

    def __init__(self, name: str, model_of: Callable[[str], type[Document]]) -> None:
        self.name, self.model_of = name, model_of

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._to_section, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(TypeAdapter(self.model_of(self.name)).core_schema)

    def _to_section(self, given: Any) -> Any:
        return self.model_of(self.name).model_validate(given) if isinstance(given, dict) else given


def one_or_list(value: Any) -> str:
    """Return the tag of a value that may stand alone or in a list."""
    return "list" if isinstance(value, list) else "one"


Words: TypeAlias = Annotated[
    Annotated[str, Tag("one")] | Annotated[list[str], Tag("list"), Field(min_length=1)],
    Discriminator(one_or_list),
]

MOST_LINES = 8
"""Maximum number of lines of an error that names several places."""
_MOST_SHOWN = 100
"""Maximum number of characters of a value shown in an error."""
PATH = object()
"""Marks the fields that hold paths: ``Annotated[Words, PATH]``."""


def resolve_paths(document: Document, folder: Path) -> None:
    """Make the paths of a document and of its sections absolute. Relative paths are relative to `folder`."""

    def resolved(path: str) -> str:
        check_path(path)
        if is_url(path):
            return path
        return os.path.normpath(folder / Path(path).expanduser())

    for name, field in type(document).model_fields.items():
        value = getattr(document, name)
        if PATH in field.metadata and value is not None:
            setattr(document, name, [resolved(path) for path in value] if isinstance(value, list) else resolved(value))
        elif isinstance(value, Document):
            resolve_paths(value, folder)


def check_path(path: str) -> None:
    """Refuse a path that cannot be the path of a file.

    Raises
    ------
    ConfigError
        A part is longer than 255 bytes, the whole path is longer than 4,000, or it contains a null character.
    """
    parts = [len(part.encode("utf-8", "surrogatepass")) for part in path.split("/")]
    if max(parts) > 255 or sum(parts) > 4000:
        raise ConfigError(
            f"the file name is too long ({max(parts):,} bytes)", f"{path[:40]}...", "shorten it", topic=_TOPIC
        )
    if "\0" in path:
        raise ConfigError("a path cannot contain a null character", repr(path), "remove it", topic=_TOPIC)


class _StrictLoader(yaml.SafeLoader):
    """Loader that refuses tags and duplicate keys, and resolves plain scalars by the core schema of YAML 1.2.

    Therefore ``1e-3`` is a number, and ``no``, ``on``, ``12:30`` and ``2006-12-16`` are strings, as names and values
    of columns should be.
    """

    yaml_implicit_resolvers = {}  # noqa: RUF012  (PyYAML reads it from the class)


class _StrictDumper(yaml.SafeDumper):
    """Dumper that quotes strings which this loader or a YAML 1.1 reader would not read as strings."""


class _OneLineDumper(_StrictDumper):
    """Dumper that writes strings of several lines with escapes, on one line."""

    def represent_str(self, text: str) -> yaml.ScalarNode:
        """Quote strings that contain line breaks."""
        return self.represent_scalar(
            "tag:yaml.org,2002:str", text, style='"' if "".join(text.splitlines()) != text else None
        )


_OneLineDumper.add_representer(str, _OneLineDumper.represent_str)


for _name, _pattern, _first in (
    ("merge", r"<<", "<"),
    ("null", r"~|null|Null|NULL|", [*"~nN", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?[0-9]+[eE][-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),
):
    _whole = re.compile(rf"^(?:{_pattern})$")
    for _reader in (_StrictLoader, _StrictDumper, _OneLineDumper):
        _reader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", _whole, list(_first))


def _mapping_without_duplicates(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[Any, int] = {}
    for key_node, _ in node.value:
        if key_node.tag == "tag:yaml.org,2002:merge":
            continue
        key = loader.construct_object(key_node, deep=True)
        line = key_node.start_mark.line + 1
        if isinstance(key, (dict, list)):
            raise yaml.constructor.ConstructorError(None, None, "a key must be a string or number", key_node.start_mark)
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"duplicate key {key!r} (first on line {seen[key]})", key_node.start_mark
            )
        seen[key] = line
    return yaml.constructor.SafeConstructor.construct_mapping(loader, node, deep=True)


def _refuse_tag(loader: _StrictLoader, node: yaml.Node) -> Any:
    raise yaml.constructor.ConstructorError(
        None, None, f"the tag {node.tag!r} is refused: tags are never executed", node.start_mark
    )


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping_without_duplicates)
_StrictLoader.add_constructor(None, _refuse_tag)  # type: ignore[type-var]


def read_yaml(path: str | os.PathLike[str], error: type[DaskfsError] = ConfigError) -> dict[str, Any]:
    """Read a YAML file that must be one mapping.

    Parameters
    ----------
    path : path-like
        The file.
    error : type of DaskfsError
        Class of the errors raised.

    Returns
    -------
    dict

    Raises
    ------
    DaskfsError
        The file is missing or unreadable, is not valid YAML, has duplicate keys or tags, or is not a mapping.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise error("no such file", str(path), "check the path", topic=_TOPIC) from None
    except IsADirectoryError:
        raise error("expected a YAML file, found a folder", str(path), "name a file in it", topic=_TOPIC) from None
    except UnicodeDecodeError as fault:
        raise error(
            f"expected UTF-8 text, found byte {fault.object[fault.start]:#04x} at offset {fault.start}",
            str(path),
            "save the file as UTF-8",
            topic=_TOPIC,
        ) from None
    except OSError as fault:
        raise error(
            f"cannot be read: {fault.strerror}", str(path), "check the path and its permissions", topic=_TOPIC
        ) from None
    document = parse_yaml(text, str(path), error)
    if not isinstance(document, dict):
        found = {"NoneType": "an empty file", "str": "text", "list": "a list"}.get(type(document).__name__, "one value")
        raise error(
            f"expected a mapping of keys to values, found {found}",
            str(path),
            "write lines such as  name: value",
            topic=_TOPIC,
        )
    return document


def parse_yaml(text: str, where: str, error: type[DaskfsError] = ConfigError) -> Any:
    """Parse a YAML text; `where` names its origin in messages.

    Raises
    ------
    DaskfsError
        Invalid YAML, duplicate keys or tags.

    Examples
    --------
    >>> parse_yaml("{tol: 1e-3, area: no, start: 2006-12-16}", "example")
    {'tol': 0.001, 'area': 'no', 'start': '2006-12-16'}
    """
    try:
        return yaml.load(text, Loader=_StrictLoader)  # a SafeLoader
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        place = f"{where}:{mark.line + 1}:{mark.column + 1}" if mark else where
        raise error(f"not valid YAML: {fault.problem or fault.context}", place, "fix the line", topic=_TOPIC) from None
    except (yaml.YAMLError, ValueError, RecursionError) as fault:
        raise error(f"not valid YAML: {' '.join(str(fault).split())}", where, "fix the file", topic=_TOPIC) from None


def dump_yaml(document: Mapping[str, Any]) -> str:
    """Return a mapping as YAML text with its keys in order. `parse_yaml` reads back an equal mapping."""
    text = yaml.dump(dict(document), Dumper=_StrictDumper, sort_keys=False, allow_unicode=True, width=110)
    return str(text)


def dump_line(value: Any) -> str:
    """Return a value as YAML on one line, so that it can follow a key.

    Examples
    --------
    >>> dump_line({"dtype": "string", "missing": "no"})
    "{dtype: string, missing: 'no'}"
    """
    text = yaml.dump(
        value, Dumper=_OneLineDumper, sort_keys=False, allow_unicode=True, default_flow_style=True, width=2**30
    )
    return str(text).removesuffix("...\n").strip()


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET = re.compile("secret|token|password|account_key|sas_key|credential|signature", re.IGNORECASE)
"""Names of storage options whose values are secret."""


def expand_environment(value: Any, where: str) -> Any:
    """Replace ``${NAME}`` by the environment variable everywhere in a document. Nothing else is expanded.

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
                f"the environment variable {name} is not set (in {value!r})",
                where,
                f"run `export {name}=...` first, or write the value into the file",
                topic=_TOPIC,
            )
        return os.environ[name]

    return _VARIABLE.sub(substitute, value)


def as_written(resolved: Any, written: Any) -> Any:
    """Return a checked document as the user wrote it: ``${NAME}`` instead of its value, and other secrets hidden.

    Parameters
    ----------
    resolved : document
        The checked document, with absolute paths.
    written : document
        The document before `expand_environment`.

    Examples
    --------
    >>> as_written({"path": "s3://me:secret@bucket", "n": 3, "token": "abc"}, {"path": "s3://${WHO}@bucket"})
    {'path': 's3://${WHO}@bucket', 'n': 3, 'token': '***'}
    """
    if isinstance(resolved, dict):
        of = written if isinstance(written, dict) else {}
        return {key: _hidden(key, as_written(item, of.get(key))) for key, item in resolved.items()}
    if isinstance(resolved, list):
        several = written if isinstance(written, list) else [written] * len(resolved)
        return [as_written(item, of) for item, of in zip_longest(resolved, several[: len(resolved)])]
    if isinstance(written, str) and _VARIABLE.search(written):
        return written
    return redacted(resolved) if isinstance(resolved, str) else resolved


def _hidden(key: str, item: Any) -> Any:
    """Return a value, or stars if its key names a secret and the value is in clear text."""
    is_clear = isinstance(item, str) and not _VARIABLE.search(item)
    return "***" if is_clear and _SECRET.search(key) else item


def check_document(
    model: type[DocumentT], document: Mapping[str, Any], where: str, error: type[DaskfsError] = ConfigError
) -> DocumentT:
    """Check a mapping against its model.

    Parameters
    ----------
    model : type of Document
    document : mapping
    where : str
        Name of the file, for messages.
    error : type of DaskfsError
        Class of the errors raised.

    Raises
    ------
    DaskfsError
        The document does not match the model. One line for each place says what was expected and what was found.
    """
    try:
        return model.model_validate(document)
    except ValidationError as fault:
        lines = [*dict.fromkeys(_describe(model, document, detail, where) for detail in fault.errors())]
        if len(lines) > MOST_LINES:
            more = len(lines) - MOST_LINES + 1
            lines = [*lines[: MOST_LINES - 1], f"{where}: and {more} more places; fix these first"]
        raise error("\n".join(lines), topic=_TOPIC) from None


def _describe(model: type[BaseModel], document: Any, detail: Any, where: str) -> str:
    keys, complete = _written_keys(document, detail["loc"])
    if detail["type"] == "missing":
        keys.append(detail["loc"][-1])
    place = f"{where}: {_cut('.'.join(str(key) for key in keys))}" if keys else where
    if detail["type"] == "extra_forbidden" and complete:
        known = _known_keys(model, document, keys[:-1])
        hint = did_you_mean(str(keys[-1]), known)
        return f"{place}: unknown key{hint}; known keys: {', '.join(known)}"
    if detail["type"] == "missing":
        return f"{place}: this key is required; add it"
    if detail["type"] in ("union_tag_not_found", "union_tag_invalid"):
        return _describe_tag(place, detail)
    found = detail.get("input")
    if detail["type"] in ("model_type", "model_attributes_type", "dict_type"):
        return f"{place}: expected a mapping of keys to values, found {_shown(found)}"
    message = _cut(detail["msg"], 600).removeprefix("Value error, ").replace("Input should be", "expected", 1)
    if detail["type"] == "value_error":
        return f"{place}: {message}"
    message = f"{message[0].lower()}{message[1:]}"
    if isinstance(found, (dict, list)):
        return f"{place}: {message}"
    if detail["type"] == "string_type" and isinstance(found, (int, float)):
        return f"{place}: {message}, found {_shown(found)}; put it in quotes"
    hint = ""
    if detail["type"] == "literal_error" and isinstance(found, str):
        hint = did_you_mean(found, re.findall(r"'([^']+)'", str(detail["ctx"]["expected"])))
    return f"{place}: {message}, found {_shown(found)}{hint}"


def _describe_tag(place: str, detail: Any) -> str:
    """Describe a mapping whose `kind` (or other discriminator) is missing or unknown."""
    if not isinstance(detail["input"], dict):
        return f"{place}: expected a mapping of keys to values, found {_shown(detail['input'])}"
    key = str(detail["ctx"]["discriminator"]).strip("'")
    if detail["type"] == "union_tag_not_found":
        return f"{place}.{key}: this key is required; add it"
    known = re.findall(r"'([^']+)'", str(detail["ctx"]["expected_tags"]))
    hint = did_you_mean(str(detail["ctx"]["tag"]), known)
    return f"{place}.{key}: expected one of {', '.join(known)}, found {_shown(detail['ctx']['tag'])}{hint}"


def _shown(value: Any) -> str:
    return _cut(repr(value))


def _cut(text: str, length: int = _MOST_SHOWN) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."


def _written_keys(document: Any, loc: tuple[Any, ...]) -> tuple[list[Any], bool]:
    """Return the parts of pydantic's location that the user wrote, without the names of union members.

    Also return whether the last part is one that the user wrote.
    """
    keys: list[Any] = []
    found = False
    for part in loc:
        try:
            document = document[part]
        except (KeyError, IndexError, TypeError):
            found = False
            continue
        keys.append(part)
        found = True
    return keys, found


@lru_cache(maxsize=4)
def _schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a model. It is cached: making it takes 0.2 s, and each unknown key needs it."""
    return model.model_json_schema()


def _known_keys(model: type[BaseModel], document: Any, keys: list[Any]) -> list[str]:
    """Return the keys allowed in the mapping at `keys`, found by following the document in the JSON Schema."""
    schema = _schema_of(model)
    definitions = schema.get("$defs", {})

    def branches(node: Any, value: Any) -> list[dict[str, Any]]:
        if not isinstance(node, dict):
            return []
        if "$ref" in node:
            node = definitions[node["$ref"].rsplit("/", 1)[-1]]
        tag = node.get("discriminator", {})
        if tag and isinstance(value, dict) and value.get(tag["propertyName"]) in tag["mapping"]:
            return branches({"$ref": tag["mapping"][value[tag["propertyName"]]]}, value)
        nested = [branch for key in ("anyOf", "oneOf") for branch in node.get(key, ())]
        return [node, *(found for branch in nested for found in branches(branch, value))]

    nodes = branches(schema, document)
    for key in keys:
        document = document[key]
        inside = "items" if isinstance(key, int) else "additionalProperties"
        below = [node.get("properties", {}).get(key) or node.get(inside) for node in nodes]
        nodes = [found for node in below for found in branches(node, document)]
    return sorted({name for node in nodes for name in node.get("properties", {})})
