"""The documentation as a site: it is built without a warning, opens from files, asks nobody, is found by its search."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer.main

import daskfs.baselines
import daskfs.errors
import daskfs.feature_maps
from daskfs.cli import app
from daskfs.error_topics import TOPICS
from daskfs.errors import DaskfsError, SelectionWarning
from daskfs.methods import METHODS, SELECTORS
from daskfs.sources.registry import SOURCES
from tests.test_house import DOORS, FLOORS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)
SCRIPTS = sorted((DOCS / "gallery").rglob("plot_*.py"))
TOOLS = ("sphinx", "furo", "myst_parser", "numpydoc", "latex2mathml", "sphinx_gallery")


def is_public_error(error):
    return isinstance(error, type) and issubclass(error, DaskfsError | SelectionWarning)


needs_tools = pytest.mark.skipif(
    any(find_spec(name) is None for name in TOOLS), reason=f"{', '.join(TOOLS)}: pip install 'daskfs[docs]'"
)
needs_chromium = pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")


def built(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Build the site in folder/html, from a copy of docs: the gallery writes its pages beside its scripts."""
    docs = shutil.copytree(DOCS, folder / "docs", ignore=shutil.ignore_patterns("_build", "auto_gallery", "reference"))
    for path in ROOT.iterdir():
        if path.name in ("benchmarks", "data_schemas"):  # pages include their README.md, and the CHANGELOG.md
            shutil.copytree(path, folder / path.name, ignore=shutil.ignore_patterns("__pycache__", "results"))
        elif path.is_file():
            shutil.copy2(path, folder / path.name)
        elif path != DOCS:
            (folder / path.name).symlink_to(path)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command += ["-d", str(folder / "doctrees"), str(docs), str(folder / "html")]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = built(folder, "-D", "plot_gallery=0")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return folder / "html"


def look(page: Path, folder: Path, query: str = "") -> tuple[str, list[str], list[str]]:
    """Return a page as it is when its scripts have run, what its console said, and what it asked of others."""
    log = folder / "net.json"
    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    command += ["--enable-logging=stderr", f"--log-net-log={log}", "--virtual-time-budget=4000", "--dump-dom"]
    command += [f"--user-data-dir={folder / 'profile'}", f"{page.resolve().as_uri()}{query}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    said = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    asked = []
    for event in json.loads(log.read_text(encoding="utf-8"))["events"]:
        parameters = event.get("params", {})
        initiator = str(parameters.get("initiator", ""))
        if re.match("(https?|wss?):", str(parameters.get("url", ""))) and initiator.startswith("file"):
            asked.append(parameters["url"])
    return done.stdout, said, asked


@needs_tools
@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(site):
    check_pages(site)
    assert {path.stem for path in [*PAGES, *SCRIPTS]} <= {path.stem for path in site.rglob("*.html")}


@needs_tools
@pytest.mark.nightly
def test_the_site_is_built_without_a_warning_with_the_pictures_of_its_gallery(tmp_path):
    done = built(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    check_pages(tmp_path / "html")
    for script in SCRIPTS:
        assert list(tmp_path.glob(f"html/_images/sphx_glr_{script.stem}_001.png")), f"{script.name}: no picture"


def check_pages(site: Path) -> None:
    """Check that pages load nothing from elsewhere, and can be read aloud and moved through by keys."""
    for page in sorted(site.rglob("*.html")):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"""<(?:script|img|iframe|source)[^>]*src=["'](?:https?:)?//""", text)
        loaded += re.findall(
            r"""<link[^>]*rel="(?:stylesheet|preload|preconnect|icon)"[^>]*href="(?:https?:)?//""", text
        )
        assert not loaded, page
        thumbnail = r'alt="" src="[^"]*_thumb\.png"'  # beside it stands its title
        assert not re.findall(rf"<img(?! {thumbnail})(?![^>]*\balt=\"[^\"]+\")[^>]*>", text), (
            f"{page}: a picture without words"
        )
        assert not re.findall(r'role="heading"(?! aria-level)|<pre>|<th class="head"><p></p></th>', text), page
    for style in site.rglob("*.css"):
        assert not re.findall(r"url\([\"']?(?:https?:)?//", style.read_text(encoding="utf-8")), style


@needs_tools
@pytest.mark.slow
def test_every_topic_of_errors_is_an_anchor_of_the_page_of_errors(site):
    text = (site / "errors.html").read_text(encoding="utf-8")
    for name in TOPICS:
        assert f'id="{name}"' in text
        assert f"daskfs explain {name}" in re.sub("<[^>]+>", "", text)


@needs_tools
@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["index", "architecture", "how_it_works", "errors", "selectors/message", "tutorial", "which_selector"]
)
def test_pages_say_nothing_on_the_console_and_ask_nobody(site, tmp_path, name):
    page, said, asked = look(site / f"{name}.html", tmp_path)
    assert "</html>" in page
    assert said == []
    assert asked == []


@needs_tools
@needs_chromium
@pytest.mark.slow
def test_the_search_finds_pages_that_nobody_serves(site, tmp_path):
    page, said, asked = look(site / "search.html", tmp_path, "?q=sketch")
    assert said == []
    assert asked == []
    assert "selectors/mission.html" in page


def test_every_selector_has_a_page_that_says_when_and_when_not():
    for name in SELECTORS:
        text = (DOCS / "selectors" / f"{name}.md").read_text(encoding="utf-8")
        headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
        assert headings[:5] == ["When to use it", "When not to use it", "Objective", "Cost", "When it fails"]
        assert {"Compared with the paper", "The algorithm", "Parameters"} <= set(headings)
        assert re.search(r"^\$\$", text, re.MULTILINE), f"{name}: no formula"


@pytest.mark.parametrize("path", [*PAGES, ROOT / "README.md"], ids=lambda path: path.stem)
def test_what_a_page_links_to_exists(path):
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (path.parent / target).exists(), target


STUMBLED_OVER = {  # words of earlier pages that native readers had to read twice, and what they would write
    r"newcomers?": "candidate; new user",
    r"told apart|tell apart|told from": "distinguished",
    r"tells? of": "reports",
    r"of no use with": "has no effect with",
    r"leading process": "client process",
    r"mend(s|ed|ing)?": "fix",
    r"parabolas?": "quadratic approximation",
    r"comes? along": "bundled",
    r"knows? the target": "leaks the target",
    r"pass(es)? by once": "is read once",
    r"is said by": "is set by",
    r"selected whatever else": "always selected",
}


@pytest.mark.parametrize("path", [*PAGES, ROOT / "README.md", *SCRIPTS], ids=lambda path: path.stem)
def test_a_page_has_none_of_the_words_that_readers_stumbled_over(path):
    text = re.sub(r"```.*?```|`[^`]*`|\s+", " ", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    found = {words: plain for words, plain in STUMBLED_OVER.items() if re.search(rf"\b({words})\b", text)}
    assert not found, f"{path.name}: write {found}"


PUBLIC = [f"daskfs.{name}" for name in daskfs.__all__ if name not in ("__version__", "baselines", "feature_maps")]
PUBLIC += [f"daskfs.baselines.{name}" for name in daskfs.baselines.__all__]
PUBLIC += [f"daskfs.feature_maps.{name}" for name in daskfs.feature_maps.__all__]
PUBLIC += [f"daskfs.errors.{error.__name__}" for error in vars(daskfs.errors).values() if is_public_error(error)]
PUBLIC += ["daskfs.model_selection.error_bounds.error_control"]


def test_the_reference_lists_every_public_name():
    listed = re.findall(r"^   (daskfs\.\S+)$", (DOCS / "api.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(set(PUBLIC) - {"daskfs.DaskfsError"})


@pytest.mark.parametrize("name", sorted({*PUBLIC} - {"daskfs.errors.StorageError"}))  # which needs a server to raise
def test_every_public_name_has_an_example(name):
    module, _, attribute = name.rpartition(".")
    assert ">>>" in getattr(import_module(module), attribute).__doc__


@needs_tools
@pytest.mark.slow
def test_the_reference_has_a_page_for_every_name_and_a_section_for_every_command_and_method(site):
    assert {path.stem for path in (site / "reference").glob("*.html")} == set(PUBLIC) - {"daskfs.DaskfsError"}
    text = (site / "command_line.html").read_text(encoding="utf-8")
    for name in typer.main.get_command(app).commands:
        assert f'<section id="{name}">' in text
    text = (site / "yaml_keys.html").read_text(encoding="utf-8")
    for name in METHODS:
        assert f"method: {name}<" in text
    for name in SOURCES:
        assert f"kind: {name}<" in text


def test_every_page_is_in_the_table_of_contents():
    listed = []
    for index in (DOCS / "index.md", DOCS / "decisions" / "index.md"):
        for tree in re.findall(
            r"^```{toctree}\n(.*?)^```", index.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
        ):
            listed += [index.parent / f"{name}.md" for name in re.findall(r"^[\w/-]+$", tree, re.MULTILINE)]
    listed.remove(DOCS / "auto_gallery" / "index.md")  # which sphinx-gallery writes
    assert set(PAGES) - {DOCS / "index.md"} == set(listed)


def test_decisions_are_numbered_and_listed_with_their_titles():
    folder = DOCS / "decisions"
    records = sorted(path for path in folder.glob("*.md") if path.name != "index.md")
    listed = re.findall(
        r"^\| (\d+) \| \[(.*)\]\((.*)\) \| .+ \|$", (folder / "index.md").read_text("utf-8"), re.MULTILINE
    )
    assert [file for _, _, file in listed] == [path.name for path in records]
    for number, (path, (shown, title, _)) in enumerate(zip(records, listed, strict=True), 1):
        headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert path.name.startswith(f"{number:04d}-"), f"{path.name}: the next number is {number:04d}"
        assert int(shown) == number
        assert headings == [f"{number}. {title}", "Context", "Decision", "Consequences"]


def test_the_architecture_shows_the_floors_and_the_doors_of_the_house():
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    (floors,) = re.findall(r"^```text\n(__main__\n.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert [set(line.split(", ")) for line in floors.splitlines()] == [f for f in FLOORS if f != {"_version"}]
    doors = {}
    for libraries, rooms in re.findall(r"^\| ([\w, ]+) \| ((?:`[\w.]+`(?:, )?)+) \|$", text, re.MULTILINE):
        doors |= {library: set(re.findall(r"`(.*?)`", rooms)) for library in libraries.split(", ")}
    assert doors == DOORS
