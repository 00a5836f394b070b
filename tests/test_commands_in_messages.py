"""Commands in messages stand in backticks and are those of daskfs; those of common failures run as printed."""

from __future__ import annotations

import ast
import re
import shlex

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from daskfs import ingest
from daskfs.cli import app
from daskfs.errors import CorruptStoreError, DaskfsError
from tests.imports import PACKAGE, tree_of

GROUP = typer.main.get_command(app)
COMMAND = re.compile(rf"daskfs (?:{'|'.join(GROUP.commands)})\b[^`]*")
QUOTED = re.compile(r"`([^`]*daskfs [a-z][^`]*)`")
OUTSIDE_MESSAGES = {
    "cli.py",
    "applied/export.py",
    "pipeline/drafting.py",
    "pipeline/genotype_drafts.py",
    "pipeline/explaining.py",
    "pipeline/examining.py",
}
"""Suggestions on lines of their own, comments in files that are written, help."""


def texts_of(tree):
    """Yield the texts of a module, docstrings excepted; what is filled in is X."""
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (inside | alone):
            yield node.value


def messages():
    for path in sorted(PACKAGE.rglob("*.py")):
        for text in texts_of(tree_of(path)):
            if COMMAND.search(text) and str(path.relative_to(PACKAGE)) not in OUTSIDE_MESSAGES:
                yield path.relative_to(PACKAGE), text


@pytest.mark.slow
def test_commands_in_messages_stand_in_backticks_and_are_those_of_daskfs():
    found = 0
    for path, text in messages():
        rest = QUOTED.sub("", text)
        if not text.startswith(("more: daskfs explain", "What daskfs init")):
            assert not COMMAND.search(rest), f"{path}: a command without backticks in {text!r}"
        for quoted in QUOTED.findall(text):
            words = shlex.split(re.sub(r"\s+", " ", quoted))
            name, *arguments = words[words.index("daskfs") + 1 :]
            assert name in GROUP.commands, f"{path}: no command {name!r} in {text!r}"
            options = {option for one in GROUP.commands[name].params for option in (*one.opts, *one.secondary_opts)}
            given = {word.partition("=")[0] for word in arguments if word.startswith("-") and word != "-"}
            assert given <= options | {"--help"}, f"{path}: {given - options} of {quoted!r}"
            found += 1
    assert found > 20


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((60, 3)), columns=["a", "b", "c"])
    frame.assign(y=frame.a - frame.b).to_csv("table one.csv", index=False)
    (tmp_path / "reviews.jsonl").write_text(
        "".join(f'{{"text": "word{i % 5} good", "label": {i % 2}}}\n' for i in range(40))
    )
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def printed(*arguments):
    """Run a command that is to fail; return the commands in the remedy that it prints."""
    ended = run(*arguments)
    assert ended.exit_code == 2
    return QUOTED.findall(ended.stderr)


def runs(command, *more):
    _, *arguments = shlex.split(command)
    ended = run(*arguments, *more)
    assert ended.exit_code == 0, ended.output
    return ended


def test_a_file_that_needs_no_schema_is_ingested_as_printed(folder):
    (command,) = printed("init", "reviews.jsonl")
    assert command == "daskfs ingest reviews.jsonl STORE.zarr"
    runs(command)
    assert (folder / "STORE.zarr").is_dir()


def test_run_without_a_file_names_the_command_that_writes_one(folder):
    (command,) = printed("run")
    assert command == "daskfs init FILE"
    runs(command.replace("FILE", "'table one.csv'"))
    assert list(folder.glob("*.yaml"))


def test_damage_is_listed_by_the_command_that_is_printed(folder):
    store = ingest("table one.csv", "STORE.zarr", target="y")
    chunk = next(
        path for path in (folder / "STORE.zarr" / "X").rglob("*") if path.is_file() and path.name != "zarr.json"
    )
    chunk.write_bytes(chunk.read_bytes()[:-3])
    with pytest.raises(CorruptStoreError) as caught:
        store.read(slice(None))
    (command,) = QUOTED.findall(caught.value.remedy)
    assert command == "daskfs verify STORE.zarr"
    assert run(*shlex.split(command)[1:]).exit_code != 0


def test_every_error_names_a_topic_that_is_explained(folder):
    with pytest.raises(DaskfsError) as caught:
        ingest(pd.DataFrame({"a": [1.0, np.nan], "y": [1.0, 2.0]}), folder / "s.zarr", target="y")
    (note,) = caught.value.__notes__
    assert "drop" in runs(note.removeprefix("more: ")).output
