"""The messages of all errors, as they stand in the library's code: what the page of errors lists."""

from __future__ import annotations

import ast
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from daskfs import errors
from daskfs.kernels.sources import parsed

_CLASSES = {name for name, found in vars(errors).items() if isinstance(found, type) and issubclass(found, ValueError)}
_GIVEN = "error"
"""What functions call a class that they are given."""


class Message(NamedTuple):
    """The topic of an error, and what it says; what is known only then stands in braces."""

    topic: str
    text: str
    remedy: str


def messages(package: Path) -> list[Message]:
    """Return the messages of all errors of a package, in the order of its files."""
    found = []
    for path in sorted(package.rglob("*.py")):
        code = path.read_text(encoding="utf-8")
        if "Error(" in code or "error(" in code:
            module = ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
            found += _of_code(parsed(code), vars(errors) | vars(import_module(module)), {})
    return found


def _of_code(tree: ast.AST, names: dict[str, Any], known: dict[str, ast.expr]) -> list[Message]:
    """Return the messages below a node; `names` are those of the module, `known` the texts that variables hold."""
    found = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            known[node.targets[0].id] = node.value
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in {*_CLASSES, _GIVEN}
            and node.args
        ):
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            remedy = node.args[2] if len(node.args) > 2 else given.get("remedy")
            texts = (_text(part, known).strip() for part in (node.args[0], remedy))
            raised = names.get(node.func.id)
            about = raised.keywords["topic"] if isinstance(raised, partial) else getattr(raised, "topic", None)
            topic = names["_TOPIC"] if "topic" in given else about
            found.append(Message(topic, *texts))
        found += _of_code(node, names, dict(known) if isinstance(node, ast.FunctionDef) else known)
    return found


def _text(node: ast.expr | None, known: dict[str, ast.expr], depth: int = 3) -> str:
    """Return the words of a text, names in braces for what is put in; of what cannot be known nothing."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else f"{{{_name(part.value)}}}"  # type: ignore[attr-defined]
            for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left, known, depth) + _text(node.right, known, depth)
    if isinstance(node, ast.IfExp):
        return f"{_text(node.body, known, depth)} | {_text(node.orelse, known, depth)}"
    if isinstance(node, ast.Name) and node.id in known and depth:
        return _text(known[node.id], known, depth - 1)
    return ""


def _name(node: ast.expr) -> str:
    """Return a word for a value: the last name in it."""
    names = [
        part.attr if isinstance(part, ast.Attribute) else part.id
        for part in ast.walk(node)
        if isinstance(part, (ast.Attribute, ast.Name))
    ]
    return names[0].strip("_").replace("_", " ") if names else "..."
