"""Explanations of methods (algorithm and parameters) and of error topics, for ``daskfs explain``."""

from __future__ import annotations

import inspect
import sys
import textwrap
from typing import Any

from daskfs.error_topics import TOPICS
from daskfs.errors import ConfigError, did_you_mean
from daskfs.methods import BASELINES, CHOOSERS, METHODS, SELECTORS, find_method
from daskfs.parameters import parameters_of
from daskfs.pipeline.selections import key_of_n_features

_WIDTH = 110
_PLAIN = {"``": "", "`": ""}


def all_methods() -> list[dict[str, str]]:
    """Return name, class and summary of each method.

    Examples
    --------
    >>> found = {one["name"]: one for one in all_methods()}
    >>> found["fgm"]["class"], found["iht"]["class"]
    ('daskfs.FGM', 'daskfs.baselines.IHT')
    """
    return [{"name": name, "class": _public(name), "summary": _summary(find_method(name))} for name in METHODS]


def explanation(name: str) -> dict[str, Any]:
    """Return the explanation of a method (summary, algorithm, parameters) or of an error topic.

    Raises
    ------
    ConfigError
        The method or topic does not exist. The message suggests the most similar name.
    """
    if name in TOPICS:
        return {"name": name, "title": TOPICS[name].title, "text": inspect.cleandoc(TOPICS[name].text)}
    if name not in METHODS:
        near = did_you_mean(name, [*METHODS, *TOPICS])
        remedy = "" if near else f"methods: {', '.join(METHODS)}; topics: {', '.join(TOPICS)}"
        raise ConfigError(f"expected a method or an error topic, found {name!r}{near}", "explain", remedy)
    cls = find_method(name)
    return {
        "name": name,
        "class": _public(name),
        "summary": _summary(cls),
        "algorithm": inspect.cleandoc(sys.modules[cls.__module__].__doc__ or ""),
        "parameters": [
            {
                "name": parameter.name,
                "type": parameter.doc,
                "default": parameter.default if _is_plain(parameter.default) else repr(parameter.default),
                "meaning": _said(parameter.meaning),
                "in_yaml": parameter.in_yaml is not None,
            }
            for parameter in parameters_of(cls).values()
        ],
        "number_of_features": number if (number := key_of_n_features(name)) in parameters_of(cls) else None,
    }


def methods_text() -> str:
    """Return a text with one line for each method, selectors first."""
    found = all_methods()
    width = max(len(one["name"]) for one in found)
    lines = []
    for heading, names in (
        ("selectors", [*SELECTORS, *CHOOSERS]),
        ("baselines: the papers' comparison methods", list(BASELINES)),
    ):
        lines.append(f"{heading}:")
        lines += [f"  {one['name']:<{width}}  {one['summary']}" for one in found if one["name"] in names]
    return "\n".join(lines)


def explanation_text(name: str) -> str:
    """Return the explanation of a method or error topic as text for a terminal."""
    found = explanation(name)
    if "title" in found:
        return f"{found['title']}\n\n{found['text']}"
    lines = [f"{name}: {found['summary']}", "", found["algorithm"].replace("``", ""), "", "Parameters"]
    for parameter in found["parameters"]:
        default = "" if parameter["default"] is None else f", default {parameter['default']!r}"
        only = "" if parameter["in_yaml"] else "  (Python only)"
        lines.append(f"  {parameter['name']}: {parameter['type']}{default}{only}")
        lines += textwrap.wrap(parameter["meaning"], _WIDTH - 6, initial_indent=" " * 6, subsequent_indent=" " * 6)
    number = found["number_of_features"]
    in_yaml, option, argument = (f", {number}: 20", " --n-features 20", f"{number}=20") if number else ("", "", "")
    lines += [
        "",
        f"In a pipeline    select: {{method: {name}{in_yaml}}}",
        f"On a store       daskfs select STORE.zarr --method {name}{option}",
        f"In Python        {found['class']}({argument}).fit(store)",
    ]
    return "\n".join(lines)


def _public(name: str) -> str:
    room = "daskfs.baselines" if name in BASELINES else "daskfs"
    return f"{room}.{METHODS[name].partition(':')[2]}"


def _summary(cls: type) -> str:
    return _said((cls.__doc__ or "").strip().partition("\n\n")[0])


def _said(text: str) -> str:
    """Return a paragraph of a docstring on one line, without markup."""
    for mark, plain in _PLAIN.items():
        text = text.replace(mark, plain)
    return " ".join(text.split())


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))
