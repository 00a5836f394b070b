"""Raw text: n-grams as scikit-learn's analysers make them, from JSON lines, CSV and folders of files."""

import csv
import gzip
import json
from itertools import pairwise

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer

from daskfs.errors import ConfigError, SourceError
from daskfs.sources.ingest import ingest
from daskfs.sources.registry import kind_of, make_source
from daskfs.sources.sparse.text import TextSource
from tests.refusals import refused
from tests.sources.sparse.reading import assert_same_rows, names_of, rows_of
from tests.sources.sparse.test_vw import id_of

TEXTS = [
    "The quick brown fox, the lazy dog.",
    "",
    "größe und Größe: 青い空 ... naïve café",
    "line\nend\tand tab  and the quick brown quick brown fox",
    "a",
    'said "yes", the dog',
]
LABELS = ["pos", "neg", "pos", "neg", "pos", "neg"]


@pytest.fixture
def json_lines(tmp_path):
    def write(texts=TEXTS, labels=LABELS, name="reviews.jsonl", **more):
        rows = ({"text": text, "label": label} | more for text, label in zip(texts, labels, strict=True))
        data = "".join(json.dumps(row, ensure_ascii=k % 2 == 0) + "\n" for k, row in enumerate(rows)).encode()
        path = tmp_path / name
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write


@pytest.fixture
def in_csv(tmp_path):
    path = tmp_path / "reviews.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["label", "text", "id"], *zip(LABELS, TEXTS, range(len(TEXTS)), strict=True)])
    return path


@pytest.fixture
def in_folders(tmp_path):
    for k, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True)):
        path = tmp_path / "reviews" / label / f"{k}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text or " ", encoding="utf-8", newline="")
    return tmp_path / "reviews"


def counts_of(source, **bounds):
    """Each row's features by name."""
    rows, names = rows_of(source, **bounds), names_of(source)
    stops = np.cumsum([0, *rows["lengths"]])
    return [
        {names[f]: value for f, value in zip(rows["features"][a:b].tolist(), rows["data"][a:b].tolist(), strict=True)}
        for a, b in pairwise(stops)
    ]


def counts_by_scikit_learn(texts, **analysis):
    vectorizer = CountVectorizer(**analysis)
    X = vectorizer.fit_transform(texts)
    names = vectorizer.get_feature_names_out()
    return [{str(names[j]): float(value) for j, value in zip(row.indices, row.data, strict=True)} for row in X]


ANALYSES = {
    "words": {},
    "word n-grams": {"ngram_range": (1, 3)},
    "characters": {"analyzer": "char", "ngram_range": (2, 4)},
    "characters of words": {"analyzer": "char_wb", "ngram_range": (1, 3), "strip_accents": "unicode"},
    "as they are": {"lowercase": False, "token_pattern": r"\S+"},
    "without stop words": {"stop_words": "english"},
}


@pytest.mark.parametrize("case", ANALYSES)
def test_counts_are_those_of_scikit_learn(json_lines, case):
    source = TextSource(json_lines(), target="label", **ANALYSES[case])
    assert counts_of(source, block_rows=4) == counts_by_scikit_learn(TEXTS, **ANALYSES[case])
    for feature, name in names_of(source).items():
        assert feature == id_of(name.encode())
    assert source.target_classes == ["neg", "pos"]
    assert rows_of(source)["y"].tolist() == [1, 0, 1, 0, 1, 0]
    assert source.notes == ["the target is coded: 'neg' is 0, 'pos' is 1"]


def test_texts_in_csv_and_in_folders_are_those_in_json(json_lines, in_csv, in_folders):
    expected = rows_of(TextSource(json_lines(), target="label", ngram_range=(1, 2)))
    assert_same_rows(rows_of(TextSource(in_csv, target="label", ngram_range=(1, 2))), expected)
    folders = TextSource(in_folders, ngram_range=(1, 2))
    assert (folders.layout, list(folders.target_names), folders.target_classes) == ("files", ["class"], ["neg", "pos"])
    assert sorted(map(str, counts_of(folders))) == sorted(map(str, counts_of(TextSource(in_csv, ngram_range=(1, 2)))))
    assert rows_of(folders)["y"].tolist() == [0, 0, 0, 1, 1, 1]


WEIGHTINGS = {
    "binary": lambda count, n: 1.0,
    "log": lambda count, n: np.float32(1.0) + np.log(np.float32(count)),
    "tf": lambda count, n: np.float32(count / n),
}


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_counts_are_weighted_as_asked(json_lines, weighting):
    found = counts_of(TextSource(json_lines(), weighting=weighting))
    for row, counts in zip(found, counts_by_scikit_learn(TEXTS), strict=True):
        n = sum(counts.values())
        assert row == {name: pytest.approx(WEIGHTINGS[weighting](count, n)) for name, count in counts.items()}


def test_several_fields_have_names_of_their_own(json_lines):
    source = TextSource(json_lines(title="The fox"), ["title", "text"], "label")
    for row, counts in zip(counts_of(source), counts_by_scikit_learn(TEXTS), strict=True):
        assert row == {"title^the": 1, "title^fox": 1} | {f"text^{name}": count for name, count in counts.items()}
    assert set(names_of(source)) >= {id_of(b"fox", b"title"), id_of(b"fox", b"text")}


@pytest.mark.parametrize(("block_rows", "block_nnz"), [(1, 1), (7, 100), (1000, 50)])
def test_blocks_and_parts_have_the_rows_of_the_whole(json_lines, monkeypatch, block_rows, block_nnz):
    monkeypatch.setattr("daskfs.sources.sparse.text.part_nbytes", lambda nbytes: 300)
    paths = [json_lines(TEXTS * 30, LABELS * 30), json_lines(TEXTS * 5, LABELS * 5, "more.jsonl.gz")]
    expected = rows_of(TextSource(paths, target="label"))
    assert_same_rows(rows_of(TextSource(paths, target="label"), block_rows, block_nnz), expected)
    source = TextSource(paths, target="label")
    assert len(source.parts()) > 10
    assert_same_rows(rows_of(source, block_rows, block_nnz, parts=True), expected)
    assert kind_of(str(paths[1])) == "text"


def test_files_are_parts_too(in_folders, monkeypatch):
    monkeypatch.setattr("daskfs.sources.sparse.text.part_nbytes", lambda nbytes: 30)
    source = TextSource(in_folders)
    assert len(source.parts()) > 2
    assert_same_rows(rows_of(source, parts=True), rows_of(TextSource(in_folders)))


def test_numbers_are_numbers_and_rows_without_a_target_are_dropped_where_asked(json_lines):
    path = json_lines(labels=[1, 2.5, None, True, "7", ""])
    with refused(SourceError, "texts", at=f"{path}:3"):
        rows_of(TextSource(path, target="label"))
    source = TextSource(path, target="label", unlabelled="drop")
    assert rows_of(source)["y"].tolist() == [1, 2.5, 1, 7]
    assert source.notes == ["2 rows dropped because they have no label"]
    late = json_lines(["a b"] * 200, [*range(199), "spam"])
    with refused(SourceError, "texts", at=":200", naming=["finite"]):
        rows_of(TextSource(late, target="label"))


def test_without_a_target_there_is_none(json_lines):
    source = TextSource(json_lines())
    assert list(source.target_names) == []
    assert rows_of(source)["y"] is None


def test_halves_of_characters_are_read(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(rb'{"text": "ab\ud800 \udcff cd"}' + b"\n" + rb'{"text": "ab \udcffx"}')
    rows = counts_of(TextSource(path, token_pattern=r"\S+"))
    assert rows == [{"ab\ufffd": 1, "\ufffd": 1, "cd": 1}, {"ab": 1, "\ufffdx": 1}]


def test_texts_become_a_store_of_classes(json_lines, tmp_path):
    store = ingest(json_lines(), tmp_path / "text.zarr", target="label", shuffle=False)
    assert list(store.target_classes) == ["neg", "pos"]
    assert {"quick", "fox", "größe"} <= set(store.names)


FAULTS = {
    "no JSON": ('{"text": "a"}\n{"text": "a"\n', 2, "expected JSON, found invalid JSON"),
    "a number": ('{"text": "a"}\n\n7\n', 3, "expected an object with fields, found int"),
    "no field": (
        '{"text": "a"}\n{"body": "a"}\n',
        2,
        "expected a text in the field 'text', found none; the fields are 'body'",
    ),
    "a number as text": ('{"text": 7}\n', 1, "expected a text in the field 'text', found int"),
    "a list as target": ('{"text": "a", "label": [1]}\n', 1, "expected a number or a text as target, found [1]"),
    "not UTF-8": (b'{"text": "a"}\n{"text": "gr\xfc"}\n', 2, "expected JSON, found byte 0xfc, which is not UTF-8"),
    "deep": ('{"text": "a"}\n' + "[" * 200_000 + "\n", 2, "expected JSON, found invalid JSON (too deep)"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_named_by_file_and_line(tmp_path, monkeypatch, case):
    text, line, message = FAULTS[case]
    path = tmp_path / "rows.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    monkeypatch.setattr("daskfs.sources.sparse.text.part_nbytes", lambda nbytes: 1)
    target = {"target": "label"} if "target" in case else {}
    with refused(SourceError, "texts", at=f"{path}:{line}", naming=[message]) as caught:
        rows_of(TextSource(path, **target), parts=True)
    assert caught.value.remedy


def test_a_file_that_is_not_of_the_encoding_has_its_line(in_folders):
    (in_folders / "pos" / "x.txt").write_bytes("eins\nzwei größe".encode("latin-1"))
    with refused(SourceError, "texts", at="x.txt:2", naming=["8", "0xf6"]):
        rows_of(TextSource(in_folders))


@pytest.mark.parametrize("option", ["analyzer", "weighting", "unlabelled", "layout"])
def test_options_are_checked(json_lines, option):
    with refused(ConfigError, "texts", at=f"source.{option}"):
        make_source("text", path=json_lines(), **{option: "spam"})
    with refused(ConfigError, "texts", at="source.ngram_range"):
        TextSource(json_lines(), ngram_range=(2, 1))
