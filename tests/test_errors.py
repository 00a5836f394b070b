"""Errors and the topics that explain them: each message has one, and each topic has messages."""

from __future__ import annotations

import ast
import pickle
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from daskfs import errors
from daskfs.error_topics import TOPICS
from daskfs.errors import ConfigError, CorruptStoreError, DaskfsError, DataError, PlanError, SourceError
from docs.messages import messages

ROOT = Path(__file__).parents[1]
CLASSES = {name for name, found in vars(errors).items() if isinstance(found, type) and issubclass(found, DaskfsError)}


def test_an_error_names_the_topic_that_explains_it_and_not_in_its_message():
    with pytest.raises(ConfigError) as caught:
        import_module("daskfs.methods").find_method("nothing_of_this_kind")
    assert caught.value.topic == "parameters"
    assert caught.value.__notes__ == ["more: daskfs explain parameters"]
    assert "explain" not in str(caught.value)


def test_a_topic_survives_a_process_and_a_plan_beside_others():
    fault = DataError("x")
    assert pickle.loads(pickle.dumps(fault)).__notes__ == fault.__notes__
    assert PlanError("x", needed_nbytes=3).beside(4).topic == "memory-limit"


def test_errors_of_other_projects_have_the_topic_of_their_class():
    assert SourceError("x").topic == "formats"
    assert CorruptStoreError("x").topic == "damaged-stores"
    assert DaskfsError("x").topic is None
    assert {getattr(errors, name).topic for name in CLASSES - {"DaskfsError"}} <= set(TOPICS)


@pytest.mark.slow
def test_every_message_of_the_library_has_a_topic_and_every_topic_has_messages():
    found = messages(ROOT / "daskfs")
    assert len(found) > 500
    assert {one.topic for one in found} == set(TOPICS)


def test_topics_name_commands_that_exist():
    told = {name for topic in TOPICS.values() for name in re.findall(r"`daskfs\s+([a-z]+)", topic.text)}
    tree = ast.parse((ROOT / "daskfs" / "cli.py").read_text(encoding="utf-8"))
    commands = {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list}
    assert told <= commands


@pytest.mark.slow
def test_the_command_says_where_more_is_and_explains_it(tmp_path):
    def daskfs(*words):
        command = [sys.executable, "-m", "daskfs", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    failed = daskfs("validate", "nothing.yaml")
    assert failed.returncode == 2
    assert failed.stderr.splitlines() == [
        "nothing.yaml: no such file; check the path",
        "more: daskfs explain yaml-files",
    ]
    explained = daskfs("explain", "yaml-files")
    assert explained.stdout.startswith(TOPICS["yaml-files"].title)
    assert "did you mean 'yaml-files'" in daskfs("explain", "yaml-file").stderr
