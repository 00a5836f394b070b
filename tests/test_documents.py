from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from daskfs.documents import Document, check_document, dump_yaml, expand_environment, parse_yaml, read_yaml
from daskfs.errors import ConfigError, SchemaError
from tests.refusals import refused


class Apple(Document):
    kind: Literal["apple"]
    weight: float = 1.0


class Pear(Document):
    kind: Literal["pear"]
    colour: Literal["green", "yellow"] = "green"


class Basket(Document):
    name: str
    fruit: Annotated[Apple | Pear, Field(discriminator="kind")] | None = None
    prices: dict[str, Apple] = Field(default={})
    counts: list[int] = Field(default=[])


def fault_of(document):
    with pytest.raises(ConfigError) as caught:
        check_document(Basket, document, "b.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "found an empty file"),
        ("- a\n- b\n", "found a list"),
        ("just words", "found text"),
        ("a: [1, 2\n", ":2:1: not valid YAML"),
        ("a: 1\nb: 2\na: 3\n", ":3:1: not valid YAML: duplicate key 'a' (first on line 1)"),
        ("a: {b: 1, b: 2}\n", ":1:11: not valid YAML: duplicate key 'b'"),
        ("a: !!python/object/apply:os.system ['touch HERE']\n", "tags are never executed"),
        ("a: !!python/name:os.system\n", "tags are never executed"),
        ("a: !mine 3\n", "the tag '!mine' is refused"),
        ("? [a, b]\n: 1\n", "a key must be a string or number"),
        ("a: 1\n---\nb: 2\n", "not valid YAML"),
        ("a: &x [*x]\n", "not valid YAML"),
        ("a: \x07\n", "not valid YAML"),
        ("a: *nobody\n", "not valid YAML"),
    ],
)
def test_a_file_that_is_not_one_plain_mapping_is_refused_with_its_place(tmp_path, monkeypatch, text, problem):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "file.yaml"
    path.write_text(text)
    with pytest.raises(SchemaError) as caught:
        read_yaml(path, SchemaError)
    assert str(caught.value).startswith(str(path))
    assert problem in str(caught.value)
    assert [item.name for item in tmp_path.iterdir()] == ["file.yaml"]


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with refused(ConfigError, "yaml-files", at="nowhere.yaml", naming=["file"]):
        read_yaml(tmp_path / "nowhere.yaml")
    with refused(ConfigError, "yaml-files", naming=["folder"]):
        read_yaml(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"name: gr\xfc\xdfe\n")
    with refused(ConfigError, "yaml-files", naming=["8", "0xfc"]):
        read_yaml(tmp_path / "latin.yaml")
    (tmp_path / "file").write_text("a: 1")
    with refused(ConfigError, "yaml-files", naming=["cannot"]):
        read_yaml(tmp_path / "file" / "below.yaml")


@pytest.mark.slow
def test_deep_nesting_is_an_error_and_not_a_crash():
    with refused(ConfigError, "yaml-files", at="deep", naming=["valid"]):
        parse_yaml("[" * 5000 + "]" * 5000, "deep")


def test_plain_words_of_columns_stay_words():
    text = "{country: no, start: 2006-12-16, at: 17:24:00, zip: 00123, tol: 1e-3, yes: on, n: 1_000, e: .5}"
    assert parse_yaml(text, "test") == {
        "country": "no",
        "start": "2006-12-16",
        "at": "17:24:00",
        "zip": "00123",
        "tol": 0.001,
        "yes": "on",
        "n": "1_000",
        "e": 0.5,
    }


def test_numbers_truths_and_nothing_are_read_as_such():
    values = parse_yaml("[1, -2, 0, 1.5, -1.5E+3, .inf, true, False, null, ~, '']", "test")
    assert values == [1, -2, 0, 1.5, -1500.0, float("inf"), True, False, None, None, ""]
    assert [type(value) for value in values[:3]] == [int, int, int]


words = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=12)
words |= st.sampled_from(["no", "1e-3", "0123", "2006-12-16", "~", "null", "12:30", "<<", "=", "1_0", ".5", "-"])
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words


@pytest.mark.slow
@given(st.dictionaries(words, st.recursive(scalars, lambda x: st.lists(x) | st.dictionaries(words, x), max_leaves=8)))
def test_what_is_written_reads_back_equal(document):
    assert parse_yaml(dump_yaml(document), "test") == document


def test_merged_mappings_and_aliases_are_plain_yaml():
    assert parse_yaml("a: &a {x: 1}\nb: {<<: *a, y: 2}\n", "test")["b"] == {"x": 1, "y": 2}


def test_only_written_variables_are_expanded(monkeypatch):
    monkeypatch.setenv("BASKET", "/data")
    document = {"a": ["${BASKET}/x", "$BASKET", "~", 3], "b": {"c": "${BASKET}${BASKET}"}}
    expected = {"a": ["/data/x", "$BASKET", "~", 3], "b": {"c": "/data/data"}}
    assert expand_environment(document, "b.yaml") == expected


def test_an_unset_variable_is_named_with_its_remedy(monkeypatch):
    monkeypatch.delenv("BASKET", raising=False)
    with refused(ConfigError, "yaml-files", at="b.yaml", naming=["environment"]):
        expand_environment({"a": "${BASKET}/x"}, "b.yaml")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"nam": "x"}, "b.yaml: nam: unknown key (did you mean 'name'?); known keys: counts, fruit, name, prices"),
        ({"fruit": None}, "b.yaml: name: this key is required; add it"),
        ({"name": 3}, "b.yaml: name: expected a valid string, found 3; put it in quotes"),
        ({"name": "x", "fruit": 3}, "b.yaml: fruit: expected a mapping of keys to values, found 3"),
        ({"name": "x", "fruit": {}}, "b.yaml: fruit.kind: this key is required; add it"),
        (
            {"name": "x", "fruit": {"kind": "paer"}},
            "b.yaml: fruit.kind: expected one of apple, pear, found 'paer' (did you mean 'pear'?)",
        ),
        (
            {"name": "x", "fruit": {"kind": "apple", "colour": "green"}},
            "b.yaml: fruit.colour: unknown key; known keys: kind, weight",
        ),
        (
            {"name": "x", "fruit": {"kind": "pear", "colour": "gren"}},
            "b.yaml: fruit.colour: expected 'green' or 'yellow', found 'gren' (did you mean 'green'?)",
        ),
        (
            {"name": "x", "prices": {"a.b": {"kind": "apple", "wieght": 1}}},
            "b.yaml: prices.a.b.wieght: unknown key (did you mean 'weight'?); known keys: kind, weight",
        ),
        ({"name": "x", "counts": [1, True]}, "b.yaml: counts.1: expected a valid integer, found True"),
        ({"name": "x", "counts": ["1"]}, "b.yaml: counts.0: expected a valid integer, found '1'"),
        ({"name": "x", 3: 4}, "b.yaml: 3: keys should be strings, found 3"),
    ],
)
def test_every_fault_has_its_place_and_what_was_expected(document, message):
    assert message in fault_of(document).splitlines()


def test_several_faults_are_several_lines():
    assert len(fault_of({"nam": "x", "counts": [True, "a"]}).splitlines()) == 4
