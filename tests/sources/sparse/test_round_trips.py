"""What others write is read as others read it: Vowpal Wabbit, pandas, SciPy, scikit-learn, by hypothesis."""

import csv
import json
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from sklearn.feature_extraction.text import CountVectorizer

from daskfs.sources.sparse.clicks import ClicksSource
from daskfs.sources.sparse.libsvm import LibsvmSource
from daskfs.sources.sparse.matrices import MatrixSource
from daskfs.sources.sparse.text import TextSource
from daskfs.sources.sparse.vw import VwSource
from tests.faults.sparse_fuzz import PACKERS
from tests.refusals import refused
from tests.sources.sparse.reading import matrix_of, names_of, rows_of

BLOCKS = st.tuples(st.integers(1, 9), st.integers(1, 40))
PACKED = st.sampled_from(["", *PACKERS])
WORDS = st.text(
    st.characters(exclude_characters=' :|"^\x85\x7f', exclude_categories=["Cc", "Cs", "Zl", "Zp", "Zs"]), min_size=1
)
NUMBERS = st.floats(-1e6, 1e6, width=32).filter(lambda x: abs(x) > 1e-6)


def write_packed(path, content, ending):
    path = path.with_name(path.name + ending)
    path.write_bytes(PACKERS[ending][0](content) if ending else content)
    return path


def features_of(source, bounds):
    """Each row's values by the names of features."""
    rows, names = rows_of(source, *bounds), names_of(source)
    stops = np.cumsum([0, *rows["lengths"]])
    values = zip(rows["features"].tolist(), rows["data"].tolist(), strict=True)
    named = [(names[feature], value) for feature, value in values]
    return [dict(named[a:b]) for a, b in pairwise(stops)]


@pytest.fixture(scope="module")
def wabbit():
    vowpalwabbit = pytest.importorskip("vowpalwabbit")
    workspace = vowpalwabbit.Workspace("--quiet --noconstant")
    yield workspace
    workspace.finish()


SPACE = st.tuples(
    st.sampled_from(["", "a", "b", "größe", "long_name"]),
    st.none() | st.sampled_from([0.5, 2.0, -3.0]),
    st.dictionaries(WORDS, st.none() | NUMBERS, max_size=6),
)


@given(
    label=st.sampled_from(["1", "-1", "0", "2.5", "-1e2"]),
    weight=st.none() | st.sampled_from(["1", "0.25", "3", "0"]),
    tag=st.sampled_from(["", "'", "'tag", "tag", "'größe"]),
    spaces=st.lists(SPACE, min_size=1, max_size=4, unique_by=lambda space: space[0]),
    bounds=BLOCKS,
)
def test_vowpal_wabbit_finds_the_same_in_a_line(tmp_path, wabbit, label, weight, tag, spaces, bounds):
    parts = []
    for name, scale, features in spaces:
        space = f"|{name}" + (f":{scale}" if name and scale is not None else "")
        parts.append(" ".join([space, *(f if v is None else f"{f}:{v!r}" for f, v in features.items())]))
    head = " ".join([label, *([weight] if weight is not None else []), tag])
    line = head + " ".join(parts)
    path = tmp_path / "row.vw"
    path.write_text(line + "\n", newline="\n")
    example = wabbit.example(line)
    theirs = {}
    for k in range(example.num_namespaces()):
        values = [example.feature_weight(k, j) for j in range(example.num_features_in(k))]
        theirs.setdefault(chr(example.namespace(k)), []).extend(values)
    source = VwSource(path, weights="use")
    rows, (features,) = rows_of(source, *bounds), features_of(source, bounds)
    ours = {}
    for name, value in features.items():  # Vowpal Wabbit tells namespaces by their first byte
        namespace, caret, _ = name.partition("^")
        ours.setdefault(namespace[0] if caret else " ", []).append(value)
    assert ours.keys() == {space for space, values in theirs.items() if values}
    for space, values in ours.items():
        np.testing.assert_allclose(sorted(values), sorted(theirs[space]), rtol=2e-6)
    assert rows["y"][0] == np.float32(example.get_simplelabel_label())
    assert rows["weight"][0] == np.float32(example.get_simplelabel_weight())
    assert rows["labels"].get("tag", [""]) == [example.get_tag()]
    wabbit.finish_example(example)


VALUES = st.text(st.characters(exclude_characters='\t"', exclude_categories=["Cc", "Cs"]), max_size=8)


@given(
    rows=st.lists(st.tuples(st.integers(0, 1), st.none() | st.integers(-9, 10**7), VALUES, VALUES), min_size=1),
    ending=PACKED,
    line_end=st.sampled_from(["\n", "\r\n"]),
    bounds=BLOCKS,
)
def test_a_log_is_what_pandas_reads(tmp_path, rows, ending, line_end, bounds):
    frame = pd.DataFrame(rows, columns=["click", "n", "site", "ad"])
    text = frame.astype({"n": "Int64"}).to_csv(sep="\t", index=False, quoting=csv.QUOTE_NONE, lineterminator=line_end)
    path = write_packed(tmp_path / "log.tsv", text.encode(), ending)
    read = pd.read_csv(
        path.with_name(path.name) if not ending else _plain(path, text), sep="\t", dtype=str, keep_default_na=False,
        quoting=csv.QUOTE_NONE,
    )  # fmt: skip
    source = ClicksSource(path, "click", strings=["n", "site", "ad"])
    expected = [
        {f"{column}={value}" for column, value in row.items() if column != "click" and value != ""}
        for row in read.to_dict("records")
    ]
    assert [set(row) for row in features_of(source, bounds)] == expected
    assert rows_of(source, *bounds)["y"].tolist() == read["click"].astype(float).tolist()


def _plain(path, text):
    plain = path.with_suffix("").with_name("plain.tsv")
    plain.write_bytes(text.encode())
    return plain


@given(
    dense=st.lists(st.lists(st.sampled_from([0, 0, 1, -2.5, 1e30]), min_size=4, max_size=4), min_size=1, max_size=9),
    form=st.sampled_from(["csr", "csc", "coo", "bsr", "dia", "lil"]),
    dtype=st.sampled_from([np.float32, np.float64, np.longdouble]),
    is_compressed=st.booleans(),
    bounds=BLOCKS,
)
def test_a_matrix_is_what_scipy_saves(tmp_path, dense, form, dtype, is_compressed, bounds):
    X = scipy.sparse.csr_matrix(np.array(dense, dtype)).asformat(form)
    path = tmp_path / "X.npz"
    if form == "lil":
        X = scipy.sparse.coo_array(X)  # an array, not a matrix
    scipy.sparse.save_npz(path, X, compressed=is_compressed)
    rows = rows_of(MatrixSource(path), *bounds)
    np.testing.assert_array_equal(matrix_of(rows, 4).toarray(), np.array(dense, dtype))


ANALYSES = st.sampled_from(
    [
        {},
        {"ngram_range": (1, 2)},
        {"analyzer": "char", "ngram_range": (1, 3)},
        {"analyzer": "char_wb", "ngram_range": (2, 2)},
        {"strip_accents": "unicode"},
        {"lowercase": False},
        {"stop_words": "english"},
    ]
)
DOCUMENTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), min_size=1, max_size=8)


@given(
    texts=DOCUMENTS, analysis=ANALYSES, layout=st.sampled_from(["jsonl", "csv", "tsv"]), ending=PACKED, bounds=BLOCKS
)
def test_texts_are_what_scikit_learn_counts(tmp_path, texts, analysis, layout, ending, bounds):
    path = tmp_path / f"docs.{layout}"
    if layout == "jsonl":
        content = "".join(json.dumps({"text": text}, ensure_ascii=len(text) % 2 == 0) + "\n" for text in texts)
    else:
        texts = [text.replace("\r", " ").replace("\0", " ") for text in texts]  # of which Arrow makes line feeds
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter="," if layout == "csv" else "\t", quoting=csv.QUOTE_ALL)
            writer.writerows([["text"], *([text] for text in texts)])
        content = path.read_bytes().decode()
    source = TextSource(write_packed(path, content.encode(), ending), **analysis)
    analyze = CountVectorizer(**analysis).build_analyzer()
    expected = []
    for text in texts:
        grams = analyze(text)
        expected.append({gram: grams.count(gram) for gram in grams})
    assert features_of(source, bounds) == expected


@given(
    ids=st.lists(st.lists(st.integers(0, 2**63 - 1), max_size=9, unique=True), min_size=1, max_size=6),
    ending=PACKED,
    bounds=BLOCKS,
)
def test_ids_up_to_two_to_the_63_stay_what_they_are(tmp_path, ids, ending, bounds):
    content = "".join("1 " + " ".join(f"{j}:1" for j in sorted(row)) + "\n" for row in ids).encode()
    rows = rows_of(LibsvmSource(write_packed(tmp_path / "rows.svm", content, ending), feature_ids=True), *bounds)
    assert rows["features"].tolist() == [j for row in ids for j in sorted(row)]


@pytest.mark.parametrize("precision", ["%.17g", "%.9e", "%a", "%.3f"])
def test_numbers_are_those_of_scikit_learn_or_are_refused_by_both(tmp_path, precision):
    from daskfs.errors import SourceError

    path = tmp_path / "rows.svm"
    numbers = np.random.default_rng(0).normal(size=50) * 10.0 ** np.arange(-25, 25)
    texts = [float.hex(number) if precision == "%a" else precision % number for number in numbers]
    path.write_text("".join(f"{text} 1:{text}\n" for text in texts))
    if precision == "%a":
        with refused(SourceError, "sparse-rows", at=":1, character 1"):
            rows_of(LibsvmSource(path))
        with pytest.raises(ValueError, match="could not convert"):
            load_svmlight_file(str(path))
        return
    X, y = load_svmlight_file(str(path))
    rows = rows_of(LibsvmSource(path))
    np.testing.assert_array_equal(rows["y"], y)
    np.testing.assert_array_equal(rows["data"], X.toarray()[:, 0].astype(np.float32))


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["libsvm", "vw", "text"])
def test_a_line_of_100_megabytes_is_a_row(tmp_path, kind):
    n = 6_000_000
    path = tmp_path / "rows"
    if kind == "libsvm":
        X = scipy.sparse.csr_matrix((np.ones(n), (np.zeros(n, int), np.arange(n) * 3 + 10**8)), (1, 2 * 10**8))
        dump_svmlight_file(X, np.ones(1), str(path))
        source = LibsvmSource(path, feature_ids=True)
    else:
        words = " ".join(f"feature{j}" for j in range(n))
        path.write_text(f"1 |f {words}\n" if kind == "vw" else json.dumps({"text": words}) + "\n")
        source = (
            VwSource(path, tell_names=False) if kind == "vw" else TextSource(path, layout="jsonl", tell_names=False)
        )
    assert path.stat().st_size > 8 * n
    (block,) = source.sparse_blocks(1000, 2**20)
    assert block.indptr.tolist() == [0, n]
    assert block.data is None
