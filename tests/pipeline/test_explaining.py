"""What the command line says of methods."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from daskfs.cli import app
from daskfs.documents import parse_yaml
from daskfs.methods import METHODS
from daskfs.pipeline.config import build_pipeline


def test_all_methods_are_listed_with_a_sentence_each() -> None:
    said = CliRunner().invoke(app, ["methods", "--json"])
    found = json.loads(said.stdout)
    assert [one["name"] for one in found] == list(METHODS)
    assert all(one["summary"].endswith(".") and "`" not in one["summary"] for one in found)
    lines = CliRunner().invoke(app, ["methods"]).stdout
    assert all(f"  {name} " in lines for name in METHODS)


@pytest.mark.parametrize("method", METHODS)
def test_what_an_explanation_says_to_write_is_a_pipeline(method: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    text = CliRunner().invoke(app, ["explain", method]).stdout
    line = next(line for line in text.splitlines() if line.startswith("In a pipeline"))
    selection = parse_yaml(line.partition("select: ")[2], "here")
    document = {
        "version": 1,
        "name": "a",
        "source": {"kind": "csv", "path": "a.csv", "target": "y"},
        "select": selection,
    }
    assert build_pipeline(document, "here", tmp_path).select.method == method  # type: ignore[union-attr]
    parameters = json.loads(CliRunner().invoke(app, ["explain", method, "--json"]).stdout)["parameters"]
    assert all(one["meaning"] for one in parameters), [one["name"] for one in parameters if not one["meaning"]]


def test_a_misspelt_method_gets_the_nearest_name() -> None:
    said = CliRunner().invoke(app, ["explain", "mision"])
    assert said.exit_code == 2
    assert "mission" in said.stderr
