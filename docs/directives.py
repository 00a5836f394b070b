"""What pages ask for by a word: a picture, a method's algorithm, the topics of errors, and formulas as MathML."""

from __future__ import annotations

import inspect
import re
import textwrap
from importlib import import_module
from pathlib import Path
from typing import Any

import pictures
from docutils import nodes
from docutils.parsers.rst import Parser
from docutils.statemachine import StringList
from docutils.utils import new_document
from latex2mathml.converter import convert
from messages import messages
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from daskfs import methods
from daskfs.error_topics import TOPICS

PACKAGE = Path(__file__).parents[1] / "daskfs"


class Picture(SphinxDirective):
    """``{picture} NAME``: an inline SVG of `pictures`, with its words for who cannot see it."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the picture with its caption."""
        return [nodes.raw("", pictures.PICTURES[self.arguments[0]].html(), format="html")]


class Algorithm(SphinxDirective):
    """``{algorithm} METHOD``: the algorithm of a method's module, and where it differs from the paper."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return boxes as they stand, and what stands between them as text."""
        place = methods.METHODS[self.arguments[0]].partition(":")[0]
        text = inspect.cleandoc(import_module(place).__doc__ or "")
        found: list[nodes.Node] = []
        headed = re.sub(r"^(.*)\n-{3,}\n", r"**\1**\n\n", text, flags=re.MULTILINE)
        for paragraph in re.split(r"\n{2,}(?=\S)|\n\n(?=    )", headed):
            if _is_box(paragraph):
                found.append(nodes.literal_block(text=textwrap.dedent(paragraph.rstrip()), language="none"))
            else:
                found += parse_rst(self, "\n".join(plain(paragraph.splitlines())))
        return found


class ErrorTopics(SphinxDirective):
    """``{error-topics}``: a section for each topic, by the name that errors tell, with their messages."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        of_topic: dict[str, list[Any]] = {}
        for message in messages(PACKAGE):
            of_topic.setdefault(message.topic, []).append(message)
        sections: list[nodes.Node] = []
        for name, topic in TOPICS.items():
            section = nodes.section(ids=[name], names=[name])
            section += nodes.title(text=topic.title)
            section += nodes.paragraph("", "", nodes.literal(text=f"daskfs explain {name}"))
            content = StringList(inspect.cleandoc(topic.text).splitlines(), source=name)
            self.state.nested_parse(content, 0, section)
            listed = nodes.bullet_list(classes=["messages"])
            said = {(one.text, one.remedy): one for one in of_topic[name] if one.text}
            for text, remedy in sorted(said):
                words = f"{text}; {remedy}" if remedy else text
                listed += nodes.list_item("", nodes.paragraph("", "", nodes.literal(text=" ".join(words.split()))))
            section += nodes.paragraph(text="Messages (in braces what is known only then):")
            section += listed
            sections.append(section)
        return sections


def _is_box(paragraph: str) -> bool:
    """Return whether a paragraph is laid out by its spaces: a box, or words in two columns."""
    lines = paragraph.splitlines()
    return lines[0].startswith("    ") or (
        not lines[0].startswith(("*", "-")) and any("    " in line for line in lines)
    )


_SPANS = re.compile(r"(``.*?``|`[^`]*`)")


def plain(lines: list[str]) -> list[str]:
    """Return lines of which |x| and names_ outside of code are what they look like, no links."""
    return [
        "".join(
            part if part.startswith("`") else re.sub(r"(?<=\w)_(?!\w)", r"\\_", part.replace("|", "\\|"))
            for part in _SPANS.split(line)
        )
        for line in lines
    ]


def _docstring(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Have names_ be names before numpydoc has made fields of them."""
    lines[:] = plain(lines)


def parse_rst(directive: SphinxDirective, text: str) -> list[nodes.Node]:
    """Return the nodes of reStructuredText, of which docstrings are, on a page of another markup."""
    document = new_document("docstring", directive.state.document.settings)
    Parser().parse(text, document)
    return list(document.children)


def _mathml(latex: str, display: str) -> str:
    """Return a formula as MathML; a command that the converter passes through ends the build."""
    markup = convert(latex, display=display)
    if unknown := re.search(r"\\\w*", re.sub(r"<[^>]+>", "", markup)):
        raise ExtensionError(f"the formula {latex!r} has {unknown[0]!r}, which latex2mathml does not know")
    return markup


def _inline_formula(translator: Any, node: nodes.math) -> None:
    """Write a formula within a sentence."""
    translator.body.append(_mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def _displayed_formula(translator: Any, node: nodes.math_block) -> None:
    """Write a formula on lines of its own; one that is too wide scrolls, by keys too."""
    translator.body.append(f'<div class="math" tabindex="0">{_mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx of the directives and of how formulas are written."""
    app.add_html_math_renderer("mathml", (_inline_formula, None), (_displayed_formula, None))
    app.connect("autodoc-process-docstring", _docstring, priority=900)
    app.add_directive("picture", Picture)
    app.add_directive("algorithm", Algorithm)
    app.add_directive("error-topics", ErrorTopics)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
