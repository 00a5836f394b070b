"""Pairs of a row's features: of all, or of namespaces; the ids and products they have, and the names that come back."""

import copy
import itertools
import pickle
import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from daskfs.errors import ConfigError, DataError
from daskfs.kernels.text import pairs
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.run import run_pipeline
from daskfs.selectors.mission.selector import Mission
from daskfs.sources.ingest import ingest
from daskfs.sources.registry import make_source
from daskfs.sources.sparse.base import SparseSource
from daskfs.sources.sparse.clicks import ClicksSource
from daskfs.sources.sparse.libsvm import LibsvmSource
from daskfs.sources.sparse.matrices import MatrixSource
from daskfs.sources.sparse.pairs import PairsSource
from daskfs.sources.sparse.vw import VwSource
from tests.refusals import refused
from tests.sources.sparse.reading import check_blocks, names_of, rows_of
from tests.sources.sparse.test_vw import random_text, xxh64

TEXT = b"""1 |u ann:2 bob |i car:3 dog |x^y odd
-1 |i car |u ann | alone
1 |u
"""


def pair_of(a, b):
    """The id of a pair as its definition has it."""
    return xxh64(b"".join(each.to_bytes(8, "little") for each in sorted((a, b))), 42) % 2**63


def expected_rows(source, is_asked):
    """Each row of a source with its pairs, as a dict, by plain loops."""
    rows, names = rows_of(source), names_of(source)
    ends = np.concatenate([[0], np.cumsum(rows["lengths"])])
    found = []
    for start, stop in itertools.pairwise(ends):
        row = dict(zip(rows["features"][start:stop].tolist(), rows["data"][start:stop], strict=True))
        made = {
            pair_of(a, b): row[a] * row[b] for a, b in itertools.combinations(row, 2) if is_asked(names[a], names[b])
        }
        found.append(row | made)
    return found


def found_rows(source, block_nnz=10**6, parts=False):
    rows = rows_of(source, 1000, block_nnz, parts)
    ends = np.concatenate([[0], np.cumsum(rows["lengths"])])
    return [
        dict(zip(rows["features"][a:b].tolist(), rows["data"][a:b], strict=True)) for a, b in itertools.pairwise(ends)
    ]


@pytest.fixture
def vw(tmp_path):
    def write(text=TEXT):
        path = tmp_path / "rows.vw"
        path.write_bytes(text)
        return VwSource(path)

    return write


def space_of(name):
    return name.partition("^")[0] if "^" in name else ""


ASKED = {
    "all": lambda a, b: True,
    "between": lambda a, b: {space_of(a), space_of(b)} == {"a", "bc"},
    "within": lambda a, b: space_of(a) == space_of(b) == "bc",
}
INTERACTIONS = {"all": "all", "between": [["bc", "a"], ["a", "bc"]], "within": [["bc", "bc"]]}


@pytest.mark.parametrize("kind", ASKED)
@pytest.mark.parametrize("block_nnz", [1, 300, 10**6])
def test_rows_have_the_pairs_that_loops_make(vw, kind, block_nnz):
    source = vw(random_text(40))
    found = PairsSource(source, INTERACTIONS[kind])
    assert found_rows(found, block_nnz) == expected_rows(source, ASKED[kind])
    assert found_rows(found, block_nnz, parts=True) == found_rows(found)


FEATURES = st.dictionaries(st.sampled_from(["x", "y", "ü", "z9", "w"]), st.integers(-8, 8).map(lambda q: q / 4))
SPACES = st.sampled_from(["", "a", "b", "çd"])
SOME_ROWS = st.lists(st.dictionaries(SPACES, FEATURES, min_size=1), min_size=1, max_size=8)
SOME_PAIRS = st.just("all") | st.lists(st.tuples(SPACES, SPACES).map(list), min_size=1, max_size=4)


@pytest.mark.slow
@given(rows=SOME_ROWS, interactions=SOME_PAIRS, block_rows=st.integers(1, 9), block_nnz=st.integers(1, 200))
def test_pairs_are_those_of_names_in_python(rows, interactions, block_rows, block_nnz):
    """By names, which no hash enters: every two features of a row whose namespaces are asked for, and their product."""
    lines, expected = [], []
    for row in rows:
        spaces = [f" |{space} " + " ".join(f"{name}:{v}" for name, v in found.items()) for space, found in row.items()]
        lines.append(f"1{''.join(spaces)}\n")
        named = {f"{a}^{name}" if a else name: (a, v) for a, found in row.items() for name, v in found.items()}
        pairs_of_row = {
            " * ".join(sorted((f, g), key=str.encode)): np.float32(u) * np.float32(v)
            for (f, (a, u)), (g, (b, v)) in itertools.combinations(named.items(), 2)
            if interactions == "all" or [a, b] in interactions or [b, a] in interactions
        }
        expected.append({name: v for name, (_, v) in named.items()} | pairs_of_row)
    with TemporaryDirectory() as folder:
        path = Path(folder, "rows.vw")
        path.write_text("".join(lines), encoding="utf-8")
        source = PairsSource(VwSource(path), interactions)
        names, found = names_of(source), rows_of(source, block_rows, block_nnz)
    ends = np.concatenate([[0], np.cumsum(found["lengths"])]).tolist()
    entries = [(names[f], v) for f, v in zip(found["features"].tolist(), found["data"].tolist(), strict=True)]
    got = [{name: v for name, v in entries[start:stop] if v} for start, stop in itertools.pairwise(ends)]
    assert got == [{name: v for name, v in row.items() if v} for row in expected]


def test_blocks_stay_within_their_bounds_and_keep_what_rows_have_beside(vw):
    source = vw(b"".join(b"%d 0.5 't%d|a x:2 y z |b w v\n" % (k, k) for k in range(50)))
    blocks = list(PairsSource(source, "all").sparse_blocks(7, 40))
    check_blocks(blocks, 7, 40)
    assert max(len(block.features) for block in blocks) == 30
    np.testing.assert_array_equal(np.concatenate([block.y for block in blocks]), np.arange(50.0))
    assert (np.concatenate([block.weight for block in blocks]) == 0.5).all()
    assert np.concatenate([block.labels["tag"] for block in blocks]).tolist() == [f"t{k}" for k in range(50)]


def test_names_of_pairs_are_those_of_both_in_the_order_of_the_alphabet(vw):
    names = set(names_of(PairsSource(vw(), [["u", "i"], ["", "u"]])).values())
    singles = {"u^ann", "u^bob", "i^car", "i^dog", "x^y^odd", "alone"}
    between = {f"i^{i} * u^{u}" for i in ("car", "dog") for u in ("ann", "bob")}
    assert names == singles | between | {"alone * u^ann"}


def test_names_are_made_for_those_alone_that_are_asked_for(vw):
    (block,) = PairsSource(vw(), "all").sparse_blocks(100, 1000)
    known = {name: j for j, name in names_of(PairsSource(vw(), "all")).items()}
    wanted = np.array([known["i^car * u^ann"], known["i^dog"], 17], np.uint64)
    told = block.names.among(wanted)
    assert len(told.ids) == 6 + 1
    text = bytes(told.text[told.offsets[-2] :])
    assert (int(told.ids[-1]), text) == (known["i^car * u^ann"], b"i^car * u^ann")
    later = block.names.of_rows(1, 3)
    assert {name for name in _texts(later) if " * " in name} == {"i^car * u^ann", "alone * i^car", "alone * u^ann"}


def test_a_namespace_may_have_the_mark_in_its_name(vw):
    found = names_of(PairsSource(vw(), [["x^y", "i"]]))
    assert {name for name in found.values() if " * " in name} == {"i^car * x^y^odd", "i^dog * x^y^odd"}


def test_fields_of_clicks_are_namespaces(tmp_path):
    path = tmp_path / "clicks.tsv"
    path.write_text("click\tad\tuser\tn\n1\tshoe\tann\t15\n0\that\tbob\t\n")
    source = PairsSource(ClicksSource(path, "click", counts=["n"]), [["user", "ad"], ["n", "n"]])
    source.check()
    assert {n for n in names_of(source).values() if " * " in n} == {"ad=shoe * user=ann", "ad=hat * user=bob"}
    with refused(
        ConfigError, "pairs-of-features", at="source.interactions", naming=["'users'", "did you mean", "'user'"]
    ):
        PairsSource(ClicksSource(path, "click"), [["users", "ad"]]).check()


def test_columns_are_paired_by_their_numbers_and_called_so(tmp_path):
    X = scipy.sparse.csr_array(np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 4.0]], np.float32))
    found = PairsSource(MatrixSource(X, np.array([0.0, 1.0])), "all")
    assert found_rows(found) == [{0: 1.0, 2: 2.0, pair_of(0, 2): 2.0}, {1: 3.0, 2: 4.0, pair_of(1, 2): 12.0}]
    assert set(names_of(found).values()) == {"x0", "x1", "x2", "x0 * x2", "x1 * x2"}
    named = PairsSource(MatrixSource(X, np.array([0.0, 1.0]), names=["a", "b", "c"]), "all")
    assert {name for block in named.sparse_blocks(1, 10) for name in _texts(block.names)} == {
        "a", "b", "c", "a * c", "b * c",
    }  # fmt: skip
    path = tmp_path / "rows.svm"
    path.write_text("1 7:2 9:3\n")
    ids = PairsSource(LibsvmSource(path, feature_ids=True), "all")
    assert set(names_of(ids).values()) == {"7", "9", "7 * 9"}


def _texts(names):
    return [bytes(names.text[a:b]).decode() for a, b in itertools.pairwise(names.offsets)]


def test_pairs_that_have_the_same_id_are_one_entry():
    assert pairs.pair_id(np.uint64(3), np.uint64(5)) == pairs.pair_id(np.uint64(5), np.uint64(3)) == pair_of(3, 5)
    collides = pair_of(3, 5)
    (block,) = PairsSource(_Rows([[3, 5, collides]], [[2.0, 3.0, 0.5]]), "all").sparse_blocks(10, 100)
    row = dict(zip(block.features.tolist(), block.data, strict=True))
    assert row[collides] == 6.5
    assert len(row) == len(block.features) == 5
    told = zip(block.names.ids.tolist(), _texts(block.names), strict=True)
    assert {name for j, name in told if j == collides} == {str(collides), "3 * 5"}


class _Rows(SparseSource):
    """Rows in memory, of ids."""

    kind, features_are_ids, feature_names = "rows", True, ()

    def __init__(self, features, data):
        indptr = np.cumsum([0, *map(len, features)])
        self.block = (indptr, np.concatenate(features).astype(np.uint64), np.concatenate(data).astype(np.float32))
        self.notes = []

    def sparse_blocks(self, block_rows, block_nnz):
        from daskfs.sources.sparse.base import SparseBlock

        yield SparseBlock(0, *self.block, np.zeros(len(self.block[0]) - 1))

    def describe(self):
        return {}

    def digest(self):
        return ""


def test_what_cannot_be_is_refused_with_a_remedy(vw, tmp_path, monkeypatch):
    for wrong in ("some", [], ["ab"], [["a"]], [["a", "b", "c"]]):
        with refused(ConfigError, "pairs-of-features", at="source.interactions", naming=["namespaces"]):
            PairsSource(vw(), wrong)
    with refused(ConfigError, "pairs-of-features", at="source.interactions", naming=["namespaces"]):
        PairsSource(_Rows([[1]], [[1.0]]), [["a", "b"]])
    with refused(ConfigError, "pairs-of-features", at="source.interactions", naming=["keep"]):
        list(PairsSource(VwSource(vw().files[0], tell_names=False), [["u", "i"]]).sparse_blocks(10, 100))
    with refused(DataError, "pairs-of-features", at="row 0", naming=["precision"]):
        list(PairsSource(_Rows([[1, 2]], [[1e30, 1e30]]), "all").sparse_blocks(10, 100))
    monkeypatch.setattr("daskfs.sources.sparse.pairs.MOST_OF_A_ROW", 2)
    with refused(DataError, "pairs-of-features", at="row 0", naming=["3"]):
        list(PairsSource(_Rows([[1, 2, 3]], [[1.0, 1.0, 1.0]]), "all").sparse_blocks(10, 100))


def test_a_namespace_that_never_occurs_is_noted(vw):
    source = PairsSource(vw(), [["u", "i"], ["u", "nobody"]])
    list(source.sparse_blocks(10, 100))
    assert any("namespace 'nobody'" in note for note in source.notes)
    other = copy.copy(pickle.loads(pickle.dumps(PairsSource(vw(), [["u", "i"]]))))
    list(other.sparse_blocks(10, 100))
    assert not any("namespace" in note for note in other.notes)


def test_a_pipeline_file_names_what_is_paired(vw):
    path = str(vw().files[0])
    source = make_source("vw", path=path, interactions=[["u", "i"]])
    assert isinstance(source, PairsSource)
    assert source.encoding["interactions"] == [["u", "i"]]
    assert source.encoding != make_source("vw", path=path, interactions="all").encoding
    with refused(ConfigError, "formats", at="source.interactions", naming=["one_hot"]):
        make_source("csv", path=path, interactions="all")


def test_a_store_has_the_pairs_as_columns(vw, tmp_path):
    store = ingest(vw().files[0], tmp_path / "store", interactions=[["u", "i"]], shuffle=False)
    assert "i^car * u^ann" in set(store.feature_names)
    column = list(store.feature_names).index("i^car * u^ann")
    np.testing.assert_array_equal(np.asarray(store.read(slice(None), np.array([column])))[:, 0], [6.0, 1.0, 0.0])


def exclusive_or(n_rows, seed=0):
    """Texts whose label only pairs tell: whether user and item are both odd or both even."""
    rng = np.random.default_rng(seed)
    users, items = rng.integers(0, 6, (2, n_rows))
    noise = rng.integers(0, 400, (n_rows, 4))
    labels = np.where((users + items) % 2 == 0, 1, -1)
    return "".join(
        f"{y} |user u{u} |item i{i} |noise {' '.join(f'n{k}' for k in row)}\n"
        for y, u, i, row in zip(labels, users, items, noise, strict=True)
    ).encode()


def test_mission_selects_pairs_by_name_that_no_feature_alone_tells(vw):
    source = vw(exclusive_or(6000))
    selector = Mission(36, block_rows=500, random_state=0, n_buckets=2**16)
    alone = selector.fit_source(source).score(source)
    selector.fit_source(PairsSource(source, [["user", "item"]]))
    names = selector.result_.table["name"]
    assert sum(" * " in name for name in names) >= 30
    assert all(name.startswith("item^") and "user^" in name for name in names if " * " in name)
    assert alone < 0.6 < 0.95 < selector.score(PairsSource(source, [["user", "item"]]))


def test_models_side_by_side_and_later_files_know_the_same_pairs(vw):
    source = PairsSource(vw(exclusive_or(3000)), [["user", "item"]])
    selector = Mission(36, block_rows=500, random_state=0, n_buckets=2**16, n_replicas=2).fit_source(source)
    before = set(selector.result_.table["name"])
    assert sum(" * " in name for name in before) >= 30
    alone = Mission(36, block_rows=500, random_state=0, n_buckets=2**16).fit_source(source)
    alone.partial_fit(PairsSource(vw(exclusive_or(3000, seed=1)), [["item", "user"]]))
    assert {name for name in before if " * " in name} & set(alone.result_.table["name"])


@pytest.mark.slow
def test_a_pipeline_without_a_store_selects_pairs(vw, tmp_path):
    vw(exclusive_or(3000))
    document = f"""
version: 1
name: pairs
source: {{kind: vw, path: {tmp_path / "rows.vw"}, interactions: [[user, item]]}}
store: none
select: {{method: mission, n_features_to_select: 36, random_state: 0, block_rows: 500}}
output: {tmp_path / "run"}
"""
    (tmp_path / "pairs.yaml").write_text(document)
    result = run_pipeline(load_pipeline(tmp_path / "pairs.yaml")).results["mission"]
    assert sum(" * " in name for name in result.table["name"]) >= 30


def test_blocks_of_pairs_are_all_that_is_held(vw):
    row = b" ".join(b"w%d" % j for j in range(100))
    source = PairsSource(vw(b"1 |a %s\n" % row * 200), "all")
    for _ in source.sparse_blocks(10, 10**5):  # compiled
        break
    tracemalloc.start()
    n_entries = sum(len(block.features) for block in source.sparse_blocks(10**4, 2 * 10**4))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert n_entries == 200 * 5050
    assert peak < 5 * 2**20  # all entries together take 12 MB
