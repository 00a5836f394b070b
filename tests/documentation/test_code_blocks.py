"""Every block of code of the documentation: Python is run, YAML checked, commands parsed, and run where they can be."""

from __future__ import annotations

import gzip
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import typer.main

from daskfs.cli import app
from daskfs.documents import check_document, parse_yaml
from daskfs.pipeline.config import Pipeline
from daskfs.sources.table_schema import load_table_schema

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "data_schemas" / "README.md"]
PAGES += sorted(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts)
PAGES.remove(ROOT / "docs" / "extending.md")  # tests/test_recipes.py runs its code


class Block(NamedTuple):
    page: str
    line: int
    language: str
    code: str
    shown: str | None
    """What the page says that it prints: the ``text`` block right below."""


def blocks(language: str) -> list[Block]:
    found = []
    below = r"(?:\n\n```text\n(.*?)^```)?"
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in re.finditer(rf"^```{language}\n(.*?)^```{below}", text, re.DOTALL | re.MULTILINE):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(str(page.relative_to(ROOT)), line, language, match[1], match[2]))
    return found


def named(block):
    return f"{block.page}:{block.line}" if isinstance(block, Block) else None


PYTHON = {
    page: [block for block in blocks("python") if block.page == page]
    for page in dict.fromkeys(block.page for block in blocks("python"))
}
NEEDS_A_CLUSTER = ("open_cluster(", "KubeCluster(")
"""Compiled alone; `tests/integration/test_slurm.py` runs what the first says."""


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The files that pages speak of, small ones."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    n = 600
    table = pd.DataFrame(rng.standard_normal((n, 12)).round(3), columns=[f"x{j}" for j in range(12)])
    table["delay"] = 2 * table.x0 - table.x3 + 0.1 * rng.standard_normal(n)
    for name in ("flights.csv.gz", "table.csv"):
        table.to_csv(name, index=False)
    people = pd.DataFrame({f"work{k}": rng.choice(["a", "b", "c"], n) for k in range(6)})
    people["income"] = np.where((people.work0 == "a") | (people.work3 == "b"), "high", "low")
    people.to_csv("adult.csv", index=False)
    for day in ("monday", "tuesday"):
        shown = zip(rng.integers(0, 9, n), rng.integers(0, 9, n), strict=True)
        rows = [f"{1 if user == ad else -1} |user u{user} |ad a{ad}" for user, ad in shown]
        with gzip.open(f"{day}.vw.gz", "wt") as lines:
            lines.write("\n".join(rows) + "\n")
    _write_genotypes(Path("chr1"), rng)
    return table


def _write_genotypes(stem, rng, n_samples=80, n_variants=12):
    """Write .bed, .bim, .fam and phenotypes: two bits for each call, variants one after the other."""
    calls = rng.integers(0, 3, (n_variants, n_samples))
    bits = np.array([3, 2, 0], dtype=np.uint8)[calls].reshape(n_variants, -1, 4)
    packed = bits[..., 0] | bits[..., 1] << 2 | bits[..., 2] << 4 | bits[..., 3] << 6
    stem.with_suffix(".bed").write_bytes(b"\x6c\x1b\x01" + packed.astype(np.uint8).tobytes())
    stem.with_suffix(".bim").write_text("".join(f"1\trs{j}\t0\t{j + 1}\tA\tG\n" for j in range(n_variants)))
    stem.with_suffix(".fam").write_text("".join(f"f{i} s{i} 0 0 1 -9\n" for i in range(n_samples)))
    heights = calls[3] + 0.1 * rng.standard_normal(n_samples)
    lines = [f"f{i} s{i} {height:.3f}" for i, height in enumerate(heights)]
    Path("pheno.txt").write_text("\n".join(["FID IID height", *lines]) + "\n")


@pytest.mark.slow_cases("docs/which_selector.md", "docs/apply.md", "docs/error_control.md", "docs/coming_from.md")
@pytest.mark.parametrize("page", PYTHON)
def test_python_on_a_page_runs_from_its_first_block_to_its_last(page, files, capsys):
    import daskfs

    X, y = files.drop(columns="delay"), files["delay"]
    store = daskfs.ingest(files, "prepared.zarr", target="delay")

    def my_stream():
        yield from ((X.to_numpy()[i : i + 100], y.to_numpy()[i : i + 100]) for i in range(0, len(X), 100))

    namespace = {"daskfs": daskfs, "X": X.to_numpy(), "y": y, "store": store, "my_stream": my_stream}
    capsys.readouterr()
    for block in PYTHON[page]:
        compiled = compile(block.code, page, "exec")
        if not any(word in block.code for word in NEEDS_A_CLUSTER):
            exec(compiled, namespace)
        printed = capsys.readouterr().out
        assert block.shown is None or printed == block.shown


@pytest.mark.parametrize("block", blocks("yaml"), ids=named)
def test_yaml_on_a_page_is_what_daskfs_takes(block, monkeypatch):
    monkeypatch.setenv("DASKFS_DATA", "/data")
    monkeypatch.setenv("MINIO_SECRET", "-")
    document = parse_yaml(block.code, named(block))
    if "columns" in document:
        load_table_schema(document)
        return
    base = {
        "version": 1,
        "name": "page",
        "source": {"kind": "sklearn", "name": "wine"},
        "select": {"method": "message"},
    }
    check_document(Pipeline, base | document, named(block))


def commands(block: Block) -> list[list[str]]:
    """Return the commands of daskfs in a block of a shell, as words."""
    lines = re.sub(r"\\\n", " ", block.code).splitlines()
    found = []
    for line in lines:
        for part in re.split(r"\||&&|;", re.sub(r"(^|\s)#.*$", "", line)):
            words = shlex.split(part)
            if words and Path(words[0]).name == "daskfs":
                found.append(words[1 : next((i for i, word in enumerate(words) if word.startswith(">")), None)])
    return found


@pytest.mark.parametrize("block", [block for block in blocks("bash") if commands(block)], ids=named)
def test_commands_on_a_page_are_commands_with_options_that_exist(block):
    group = typer.main.get_command(app)
    for words in commands(block):
        command = group.commands[words[0]]
        command.make_context(words[0], words[1:])


RUN = {"docs/pipelines.md": "wine.yaml", "docs/editors.md": None, "docs/getting_started.md": None}
"""Pages whose commands run as they stand, one after the other, and the file that their first YAML is.

Where a page has Python too, its first block makes the files that the commands read."""


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN)
def test_commands_on_a_page_run(page, tmp_path):
    if RUN[page] is not None:
        (first, *_) = [block for block in blocks("yaml") if block.page == page]
        (tmp_path / RUN[page]).write_text(first.code, encoding="utf-8")
    if page in PYTHON:
        subprocess.run([sys.executable, "-c", PYTHON[page][0].code], cwd=tmp_path, check=True)
    python = f"{shlex.quote(sys.executable)} -m daskfs"
    for block in blocks("bash"):
        if block.page == page:
            script = f'set -eu\ndaskfs() {{ {python} "$@"; }}\n{block.code}'
            done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            printed = done.stdout.replace(f"{tmp_path.resolve()}/", "")
            assert block.shown is None or printed.endswith(block.shown)
