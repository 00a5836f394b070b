"""How the documentation is built: ``python -m sphinx -W docs docs/_build``, without a network.

Sphinx because its search works from files that nobody serves, and because it reads numpydoc; furo because it brings its
fonts and scripts along and has a light and a dark side. Nothing is fetched, neither by the build nor by a page.
"""

from __future__ import annotations

import logging
import re
import sys
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]  # directives and daskfs, as they lie here

from daskfs import __version__  # noqa: E402

logging.getLogger("distributed").propagate = False  # a11y_pygments prints what reaches the root logger

project = "daskfs"
author = "the daskfs developers"
copyright = author
version = release = __version__

extensions = [
    *("myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "sphinx_gallery.gen_gallery"),
    *("directives", "listings"),
]
exclude_patterns = ["_build", "README.md", "gallery"]  # the pages of the gallery are in auto_gallery
templates_path = ["_templates"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}  # the latter: reference/ and auto_gallery/
suppress_warnings = ["myst.header"]  # pages that are included begin at a lower heading
nitpicky = False
default_role = "code"  # `x` of docstrings

myst_enable_extensions = ["colon_fence", "attrs_block", "attrs_inline", "dollarmath"]
myst_dmath_allow_space = False  # "$5 and $6" of a page is money
myst_heading_anchors = 3
autodoc_typehints = "none"  # types stand in the docstrings
autodoc_member_order = "bysource"
autosummary_generate = True  # a page for each name in api.md
autosummary_context = {
    "methods_shown": [
        *(
            "fit",
            "fit_blocks",
            "fit_source",
            "partial_fit",
            "partial_fit_features",
            "transform",
            "get_feature_names_out",
        ),
        *("predict", "predict_proba", "decision_function", "score", "plan", "with_refit", "stand_ins", "signal_beyond"),
        *("save", "load"),
    ]
}
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {  # -D plot_gallery=0 builds the pages without running the scripts
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "subsection_order": [f"gallery/{name}" for name in ("select", "certainty", "data", "cluster")],
    "abort_on_example_error": True,
    "capture_repr": (),
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
}

html_math_renderer = "mathml"  # see directives: browsers draw it, no script and no network are needed
html_theme = "furo"
html_title = f"daskfs {version}"
html_static_path = ["_static"]
html_css_files = ["daskfs.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_show_sourcelink = False
html_use_index = False
html_show_search_summary = False  # a page from a file may not fetch another
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5394", "color-brand-content": "#0b5394"},
    "dark_css_variables": {"color-brand-primary": "#8ab4f8", "color-brand-content": "#8ab4f8"},
}

_FOR_EVERYBODY = (
    ('role="heading">', 'role="heading" aria-level="2">'),
    ("<pre>", '<pre tabindex="0">'),  # what is too wide scrolls by keys, too
    ('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'),
    ('<th class="head"><p></p></th>', '<td class="head"></td>'),
    ('<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="Pages">'),
    ('<aside class="toc-drawer">', '<aside class="toc-drawer" aria-label="On this page">'),
)
"""What axe finds missing in the pages of the theme: where it stands, and what takes its place."""


def _for_everybody(app: Any, fault: Exception | None) -> None:
    """Have pages read aloud and moved through by keys as they are seen."""
    for page in [] if fault else Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for found, meant in _FOR_EVERYBODY:
            text = text.replace(found, meant)
        page.write_text(text, encoding="utf-8")


def _without_former_names(app: Any) -> None:
    """Delete pages of names that api.md no longer lists: Sphinx warns of a page in no table of contents."""
    names = re.findall(r"^   (daskfs\.\S+)$", Path(app.srcdir, "api.md").read_text(encoding="utf-8"), re.MULTILINE)
    for page in Path(app.srcdir, "reference").glob("*.rst"):
        if page.stem not in names:
            page.unlink()


def setup(app: Any) -> None:
    """Finish the pages after the theme."""
    app.connect("builder-inited", _without_former_names, priority=100)
    app.connect("build-finished", _for_everybody)
