"""Reference tables that are made from the code: the commands with their options, and the keys of YAML files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import typer.main
from directives import parse_rst, plain
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from daskfs.cli import app as commands
from daskfs.pipeline.schemas import json_schema

Cell = str | list[nodes.Node]


class Commands(SphinxDirective):
    """``{commands}``: a section for each command, with its usage and a table of its arguments and options."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        group: Any = typer.main.get_command(commands)
        sections = []
        for name, command in sorted(group.commands.items()):
            context = command.context_class(command, info_name=f"daskfs {name}")
            section = _section(name, f"daskfs {name}")
            section += _words(self, command.help or "")
            usage = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
            section += nodes.literal_block(text=usage, language="none")
            records = [parameter.get_help_record(context) for parameter in command.params]
            rows: list[list[Cell]] = [[_code(one[0]), _words(self, one[1])] for one in records if one is not None]
            section += _table(["option", "meaning"], rows)
            sections.append(section)
        return sections


class Keys(SphinxDirective):
    """``{keys} DOCUMENT``: a section for each mapping in a kind of YAML file, with a table of its keys."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the section of the document, then those of the mappings in it."""
        kind = self.arguments[0]
        schema = json_schema(kind)
        parts = {name: part for name, part in schema["$defs"].items() if "properties" in part}
        for key, value in schema["properties"].items():
            for one in value.get("anyOf", ()):
                if "properties" in one:  # written out where it is used: give it a name, too
                    parts[key] = {**one}
                    one.clear()
                    one["$ref"] = key
        titles = _titles(schema, parts)
        parts[""], titles[""] = schema, {"pipeline": "The pipeline file", "table": "The table schema"}[kind]
        sections = []
        for name, part in sorted(parts.items(), key=lambda one: (one[0] != "", titles[one[0]])):
            section = _section(_anchor(kind, name), titles[name])
            section += _words(self, part.get("description", "").partition(" (`daskfs.")[0])
            rows = []
            for key, value in part["properties"].items():
                default: Cell = "required" if key in part.get("required", ()) else ""
                if value.get("default") is not None and not isinstance(value["default"], dict):
                    default = _code(_yaml(value["default"]))
                taken = _joined(_values(value, kind, titles))
                rows.append([_code(key), taken, default, _words(self, value.get("description", ""))])
            section += _table(["key", "value", "default", "meaning"], rows)
            sections.append(section)
        return sections


def _titles(schema: dict[str, Any], parts: dict[str, Any]) -> dict[str, str]:
    """Return how each mapping is called: by the key that selects it, or else by the key that has it."""
    titles = {}
    for name, part in parts.items():
        for key in ("method", "kind", "map"):
            constant = part["properties"].get(key, {}).get("const")
            if constant is not None:
                titles[name] = f"{key}: {constant}"
    waiting = [("", schema)]
    for prefix, owner in waiting:  # grows
        for key, value in owner["properties"].items():
            for name in _references(value):
                if name in parts and name not in titles:
                    titles[name] = f"{prefix}{key}"
                    waiting.append((f"{prefix}{key}.", parts[name]))
    for part in parts.values():
        for key, value in part["properties"].items():
            titles |= {one: key for one in _references(value) if one in parts and one not in titles}
    return titles


def _references(schema: Any) -> Iterator[str]:
    """Yield the names of the mappings that a value may be."""
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].rpartition("/")[2]
        schema = schema.values()
    elif not isinstance(schema, list):
        return
    for part in schema:
        yield from _references(part)


def _words(directive: SphinxDirective, text: str) -> list[nodes.Node]:
    """Return a description as text, with options and `names` as code."""
    text = re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", text)
    text = re.sub(r"(?<![\w`-])(--[a-z][\w-]*)(?!`)", r"``\1``", text)
    return parse_rst(directive, "\n".join(plain(text.splitlines())))


def _values(schema: dict[str, Any], kind: str, titles: dict[str, str]) -> Iterator[list[nodes.Node]]:
    """Yield the values that a key takes: words, types, and links to the mappings."""
    if "const" in schema:
        yield _code(_yaml(schema["const"]))
    elif "enum" in schema:
        yield from (_code(_yaml(word)) for word in schema["enum"])
    elif "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name in titles:
            yield [nodes.reference("", titles[name], refid=_anchor(kind, name), internal=True)]
        else:
            yield [nodes.Text("text")]
    elif "anyOf" in schema or "oneOf" in schema:
        parts = [*schema.get("oneOf", ()), *(one for one in schema.get("anyOf", ()) if one.get("type") != "null")]
        before: list[nodes.Node] = []
        for part in parts:
            found = [*_values(part, kind, titles)]
            if before and found and _astext(found[0]) == f"list of {_astext(before)}":
                found = [[nodes.Text("a list of these")]]
            yield from found
            before = _joined([before, *found]) if before else _joined(found)
    elif schema.get("type") == "array":
        items = [*_values(schema.get("items", {}), kind, titles)]
        yield [nodes.Text("list of "), *_joined(items)] if items else [nodes.Text("list")]
    elif schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        items = [*_values(schema["additionalProperties"], kind, titles)]
        yield [nodes.Text("mapping to "), *_joined(items)]
    elif "type" in schema:
        words = {"integer": "whole number", "boolean": "true or false", "string": "text", "object": "mapping"}
        yield [nodes.Text(words.get(schema["type"], schema["type"]) + _range(schema))]


def _range(schema: dict[str, Any]) -> str:
    """Return the bounds of a number in words."""
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {schema[name]:g}" for name, sign in signs.items() if name in schema]
    return f" {', '.join(bounds)}" if bounds else ""


def _astext(found: list[nodes.Node]) -> str:
    return "".join(node.astext() for node in found)


def _joined(values: Any) -> list[nodes.Node]:
    """Return values with "or" between them; equal ones once."""
    found: list[nodes.Node] = []
    seen = set()
    for value in values:
        words = _astext(value)
        if words not in seen:
            found += [nodes.Text(" or "), *value] if found else value
            seen.add(words)
    return found


def _yaml(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _anchor(kind: str, name: str) -> str:
    return f"{kind}-{name.lower()}" if name else kind


def _code(text: str) -> list[nodes.Node]:
    return [nodes.literal(text=text)]


def _section(anchor: str, title: str) -> nodes.section:
    section = nodes.section(ids=[anchor], names=[anchor])
    section += nodes.title(text=title)
    return section


def _table(headings: list[str], rows: list[list[Cell]]) -> nodes.table:
    """Return a table of cells, which are texts or nodes."""
    group = nodes.tgroup(cols=len(headings))
    group += [nodes.colspec(colwidth=1) for _ in headings]
    group += nodes.thead("", _cells(list(headings)))
    group += nodes.tbody("", *(_cells(row) for row in rows))
    return nodes.table("", group)


def _cells(row: list[Any]) -> nodes.row:
    line = nodes.row()
    for cell in row:
        content = [nodes.Text(cell)] if isinstance(cell, str) else cell
        is_inline = all(isinstance(node, nodes.Inline | nodes.Text) for node in content)
        line += nodes.entry("", *([nodes.paragraph("", "", *content)] if is_inline else content))
    return line


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("commands", Commands)
    app.add_directive("keys", Keys)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
