"""A release, as it is installed: wheel and sdist in clean environments, no repository beside them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from daskfs import bundled
from daskfs.documents import parse_yaml, read_yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

needs_build = pytest.mark.skipif(find_spec("build") is None, reason="build: pip install 'daskfs[test]'")


def python(interpreter, *words, cwd):
    done = subprocess.run([interpreter, *map(str, words)], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Wheel and sdist of a clone, the wheel made of the sdist."""
    folder = tmp_path_factory.mktemp("release")
    clone = ["git", "clone", "--quiet", "--no-hardlinks", ROOT, folder / "clone"]
    if subprocess.run(clone, capture_output=True, check=False).returncode:
        pytest.skip("this is no clone of a git repository")
    subprocess.run(["git", "tag", "v0.9.0"], cwd=folder / "clone", check=True)
    python(sys.executable, "-m", "build", "--outdir", folder / "dist", folder / "clone", cwd=folder)
    return folder / "dist"


@needs_build
@pytest.mark.slow
def test_a_release_has_the_version_of_its_tag_and_what_users_need(made):
    (wheel,) = made.glob("*.whl")
    assert wheel.name == "daskfs-0.9.0-py3-none-any.whl"
    assert (made / "daskfs-0.9.0.tar.gz").is_file()
    names = set(zipfile.ZipFile(wheel).namelist())
    for name in bundled.pipelines():
        assert f"daskfs/bundled_files/pipelines/{name}.yaml" in names
    for path in (ROOT / "data_schemas").iterdir():
        assert f"daskfs/bundled_files/data_schemas/{path.name}" in names
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/", "docs/"))]
    for path in (ROOT / "daskfs").rglob("*.py"):
        assert str(path.relative_to(ROOT)) in names or path.name == "_version.py", path


@needs_build
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_it_runs_where_nothing_else_is(made, tmp_path, kind):
    """The libraries it needs are those of this environment; daskfs itself is the installed one."""
    (file,) = made.glob(kind)
    python(sys.executable, "-m", "venv", tmp_path / "env", cwd=tmp_path)
    inside = tmp_path / "env" / "bin" / "python"
    (packages,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    python(inside, "-m", "pip", "install", "--quiet", "--no-deps", file, cwd=tmp_path)
    (packages / "libraries.pth").write_text("\n".join(libraries) + "\n")
    told = python(inside, "-I", "-c", "import daskfs; print(daskfs.__file__, daskfs.__version__)", cwd=tmp_path)
    assert told.split() == [str(packages / "daskfs" / "__init__.py"), "0.9.0"]
    command = ("-I", "-m", "daskfs")
    told = python(inside, *command, "init", "quickstart", cwd=tmp_path)
    assert told.splitlines()[-1].startswith("wrote quickstart.yaml")
    assert json.loads(python(inside, *command, "schema", "pipeline", cwd=tmp_path))["title"]
    told = python(inside, *command, "run", "quickstart.yaml", cwd=tmp_path)
    assert Path(told.splitlines()[-1].removeprefix("report: ")).is_file()


def test_every_pipeline_that_comes_along_is_copied_with_its_schema_and_a_line_for_editors(tmp_path):
    for name in bundled.pipelines():
        texts = bundled.copied(name)
        named = re.findall(r"schema: (\S+)", without_comments(texts[f"{name}.yaml"]))
        assert set(named) <= set(texts)
        assert "../data_schemas" not in texts[f"{name}.yaml"]
        for text in texts.values():
            path = re.match(r"# yaml-language-server: \$schema=file://(\S+)\n", text)[1]
            assert json.loads(Path(path).read_text(encoding="utf-8"))["$schema"]


def without_comments(text):
    """Return the lines that are no comments."""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))


def test_metadata_names_no_address_and_agrees_everywhere():
    assert "urls" not in PROJECT
    citation = read_yaml(ROOT / "CITATION.cff")
    assert citation["title"] == PROJECT["name"]
    assert citation["license"] == PROJECT["license"]
    assert "url" not in citation
    assert "repository-code" not in citation
    recipe = (ROOT / "packaging" / "conda" / "meta.yaml").read_text(encoding="utf-8")
    for text in (recipe, (ROOT / "packaging" / "Containerfile").read_text(encoding="utf-8")):
        assert not re.findall(r"https?://", text)


def test_the_conda_recipe_asks_for_what_the_project_asks_for():
    recipe = (ROOT / "packaging" / "conda" / "meta.yaml").read_text(encoding="utf-8")
    parsed = parse_yaml(
        re.sub(r"\{\{.*?\}\}", "x", re.sub(r"^\{%.*%\}\n", "", recipe, flags=re.MULTILINE)), "meta.yaml"
    )
    asked = {re.sub(r"\s*(>=.*)", r" \1", one).strip() for one in parsed["requirements"]["run"]}
    wanted = {re.sub(r">=", " >=", one) for one in PROJECT["dependencies"]}
    wanted = {one.replace("matplotlib ", "matplotlib-base ") for one in wanted}
    assert asked == wanted | {f"python {PROJECT['requires-python']}"}


def test_the_container_file_is_the_quickstart():
    """Read, not built: that takes a container engine."""
    lines = (ROOT / "packaging" / "Containerfile").read_text(encoding="utf-8").splitlines()
    words = [line.split(" ", 1)[0] for line in lines if line and not line.startswith(("#", " "))]
    assert words[0] == "FROM"
    assert set(words) <= {"FROM", "COPY", "RUN", "USER", "WORKDIR", "ENTRYPOINT", "CMD", "ENV"}
    assert "USER daskfs" in lines
    (command,) = [json.loads(line.removeprefix("CMD ")) for line in lines if line.startswith("CMD ")]
    assert command == ["sh", "-c", "daskfs init quickstart --force && daskfs run quickstart.yaml --force"]
