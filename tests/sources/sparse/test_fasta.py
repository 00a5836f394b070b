"""Sequences: k-mers as in plain Python, names from ids, labels; refused with the line where a file is wrong."""

import gzip
import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from daskfs.errors import ConfigError, SourceError
from daskfs.sources.ingest import ingest
from daskfs.sources.registry import kind_of, make_source
from daskfs.sources.sparse import sequences
from daskfs.sources.sparse.fasta import FastaSource
from daskfs.sources.sparse.fragments import FragmentsSource
from tests.refusals import refused
from tests.sources.sparse.reading import assert_same_rows, damaged, names_of, rewritten, rows_of

SEQUENCES = ["ACGTACGTTTGA", "acgtnACGU", "", "AC", "TTTTTTTTTT", "GATTACA" * 5]
HEADERS = ["one label=1", "two label=-1 x", "three label=1", "four > label=-1", "five label=1", "six label=-1"]


def in_fasta(texts=SEQUENCES, headers=HEADERS, width=7, end="\n"):
    lines = []
    for header, text in zip(headers, texts, strict=True):
        lines += [f">{header}", *(text[i : i + width] for i in range(0, len(text), width))]
    return (end.join(lines) + end).encode()


def in_fastq(texts=SEQUENCES, headers=HEADERS):
    records = zip(headers, texts, strict=True)
    return "".join(f"@{header}\n{text}\n+\n{'@' * len(text)}\n" for header, text in records).encode()


@pytest.fixture
def write(tmp_path):
    def write(content=None, name="reads.fa"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = in_fasta() if content is None else content
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write


def kmers_of(text, patterns, canonical=False, is_positional=False):
    """What a sequence has, in plain Python."""
    text, found = text.upper().replace("U", "T").replace(".", "N"), Counter()
    for pattern in patterns:
        for i in range(len(text) - len(pattern) + 1):
            letters = "".join(letter if sign == "1" else "." for letter, sign in zip(text[i:], pattern, strict=False))
            if set(letters) <= set("ACGT."):
                if canonical:
                    letters = min(letters, letters[::-1].translate(str.maketrans("ACGT", "TGCA")))
                found[f"{i}:{letters}" if is_positional else letters] += 1
    return dict(found)


def counts_of(source, **bounds):
    """Each row's features by name."""
    rows, names = rows_of(source, **bounds), names_of(source)
    stops = np.cumsum([0, *rows["lengths"]])
    return [
        {names[f]: value for f, value in zip(rows["features"][a:b].tolist(), rows["data"][a:b].tolist(), strict=True)}
        for a, b in pairwise(stops)
    ]


@pytest.mark.parametrize("canonical", [False, True])
@pytest.mark.parametrize(
    ("options", "patterns"),
    [
        ({"k": 1}, ["1"]),
        ({"k": 3}, ["111"]),
        ({"k": [2, 4]}, ["11", "1111"]),
        ({"k": 31}, ["1" * 31]),
        ({"patterns": "11011"}, ["11011"]),
        ({"patterns": ["11011", "101", "11"]}, ["11011", "101", "11"]),
    ],
)
def test_kmers_are_those_of_plain_python(write, options, patterns, canonical):
    texts = [*SEQUENCES, "".join(random.Random(0).choices("ACGTN", [9, 9, 9, 9, 1], k=500))]
    path = write(in_fasta(texts, [*HEADERS, "seven"]))
    expected = [kmers_of(text, patterns, canonical) for text in texts]
    assert counts_of(FastaSource(path, canonical=canonical, **options)) == expected
    binary = [dict.fromkeys(row, 1.0) for row in expected]
    assert counts_of(FastaSource(path, canonical=canonical, weighting="binary", **options)) == binary


def test_an_id_is_the_code_of_the_kmer(write):
    rows = rows_of(FastaSource(write(b">x\nACGT\n"), k=4))
    assert rows["features"].tolist() == [0b00011011]


@pytest.mark.parametrize("options", [{"k": 3}, {"patterns": ["1101", "11"]}])
def test_kmers_of_windows_have_positions(write, options):
    patterns = options.get("patterns", ["111"])
    expected = [kmers_of(text, patterns, is_positional=True) for text in SEQUENCES]
    assert counts_of(FastaSource(write(), window=35, **options)) == expected
    with refused(SourceError, "sequences", naming=["34", "35"]) as fault:
        rows_of(FastaSource(write(), window=34, **options))
    assert fault.value.where.endswith("reads.fa:13")


@pytest.mark.parametrize("name", ["reads.fa", "reads.fq", "reads.fna.gz"])
@pytest.mark.parametrize("piece_nbytes", [1, 7, 64])
def test_pieces_and_blocks_make_no_difference(write, monkeypatch, name, piece_nbytes):
    path = write(in_fastq() if name.endswith("fq") else in_fasta(), name)
    expected = rows_of(FastaSource(write(in_fasta(end="\r\n"), "other.fasta"), k=3, label_from="header"))
    monkeypatch.setattr(sequences, "PIECE_NBYTES", piece_nbytes)
    source = FastaSource(path, k=3, label_from="header")
    assert_same_rows(rows_of(source), expected)
    assert_same_rows(rows_of(source, block_rows=2, block_nnz=9), expected)
    assert_same_rows(rows_of(source, block_rows=1000, block_nnz=9), expected)
    assert_same_rows(rows_of(source, parts=True), expected)
    assert expected["y"].tolist() == [1, -1, 1, -1, 1, -1]


def test_labels_stand_in_files_folders_headers_and_tables(write, tmp_path):
    paths = [write(name="good/b_prom.fa"), write(name="bad/a_non.fna.gz")]
    by_file = FastaSource(paths, label_from="file")
    assert by_file.target_classes == ["a_non", "b_prom"]
    assert rows_of(by_file)["y"].tolist() == [1.0] * 6 + [0.0] * 6
    assert FastaSource(paths, label_from="folder").target_classes == ["bad", "good"]
    assert FastaSource(paths, label_from="file", label_pattern="_(.*)").target_classes == ["non", "prom"]
    assert FastaSource(paths[0], label_from="header", label_pattern=r"^(\w)").target_classes == ["f", "o", "s", "t"]
    table = tmp_path / "labels.tsv"
    table.write_text("one\thot\ntwo\tcold\nfive\thot\n")
    tabled = FastaSource(paths[0], label_from="table", label_table=table, unlabelled="drop")
    assert rows_of(tabled)["y"].tolist() == [1, 0, 1]
    assert tabled.n_dropped == 3
    assert rows_of(FastaSource(paths[0]))["y"] is None
    with refused(SourceError, "sequences", naming=["'three"]) as fault:
        rows_of(FastaSource(paths[0], label_from="table", label_table=table))
    assert fault.value.where.endswith(":7")


@pytest.mark.parametrize(
    ("content", "problem", "line"),
    [
        (b"ACGT\n", "a header that begins with >", 1),
        (b"\n\n>x\nACGT\nAC!T\n", "expected sequence letters, found '!'", 5),
        (b"@x\nACGT\n+\nIII\n", "as many qualities as letters, 4, found 3", 4),
        (b"@x\nACGT\n+\nIIII\n@y\nACGT\n", "found the end of the file", 5),
        (b"@x\nACGT\nAC\n+\n", "as many qualities as letters, 6, found 0", 4),
        (b"@x\nACGT\n+\nIII\n@y\nA\n+\nI\n", "as many qualities as letters, 4, found 5", 5),
        (b"\n@x\nACGT\n+\nIIII\nJ\n", "a line that begins with @, found 'J'", 6),
    ],
)
def test_faults_have_a_place(write, content, problem, line):
    with pytest.raises(SourceError, match=problem) as fault:
        rows_of(FastaSource(write(content), k=3))
    assert fault.value.where.partition(",")[0].endswith(f"reads.fa:{line}")
    assert fault.value.remedy


def test_bad_options_are_named(write):
    path = write()
    for options, where in (
        ({"k": 32}, "source.k"),
        ({"k": 31, "window": 4}, "source.k"),
        ({"patterns": "0110"}, "source.patterns"),
        ({"patterns": "1101", "canonical": True}, "source.patterns"),
        ({"window": 9, "canonical": True}, "source.window"),
        ({"target": "y"}, "source.label_from"),
        ({"label_from": "header", "label_pattern": "("}, "source.label_pattern"),
        ({"label_from": "header", "label_pattern": "x"}, "source.label_pattern"),
        ({"label_from": "table"}, "source.label_table"),
        ({"weighting": "tf"}, "source.weighting"),
    ):
        with pytest.raises(ConfigError) as fault:
            FastaSource(path, **options)
        assert fault.value.where == where


def test_damaged_files_are_read_or_refused(tmp_path):
    rng = np.random.default_rng(0)
    for text, name in ((in_fasta(), "a.fa"), (in_fastq(), "a.fq")):
        path = tmp_path / name
        with rewritten(path) as write:
            for _ in range(200):
                write(damaged(rng, text, [b">", b"@", b"\n", b"+", b"\n>"]) or b">")
                try:
                    rows_of(FastaSource(path, k=3, label_from="header", unlabelled="drop"))
                except SourceError as fault:
                    assert fault.remedy  # noqa: PT017


def test_sequences_are_found_by_their_endings_and_stored(write, tmp_path):
    assert [kind_of(name) for name in ("a.fa", "b.fastq.gz", "c.fna.bz2")] == ["fasta"] * 3
    store = ingest(write(), tmp_path / "reads.zarr", k=3, label_from="header")
    assert store.shape[0] == 6
    found = set().union(*(kmers_of(text, ["111"]) for text in SEQUENCES))
    assert {str(store.names[j]) for j in range(store.shape[1])} == found


# fragments


@pytest.fixture
def genomes(tmp_path):
    rng = random.Random(1)
    for name, letters in (("a", "ACGT"), ("b", "AACG"), ("c", "GGCT")):
        contigs = ["".join(rng.choices(letters, k=k)) for k in (300, 12, 500)]
        (tmp_path / f"{name}.fna").write_bytes(in_fasta(contigs, ["1", "2", "3"], 60))
    return tmp_path


def test_fragments_cover_genomes_as_often_as_asked(genomes):
    source = FragmentsSource(genomes, length=20, coverage=2.5, k=20)
    rows = rows_of(source)
    assert np.bincount(rows["y"].astype(int)).tolist() == [100, 100, 100]  # 2.5 * 800 / 20, the short contig left out
    assert rows["lengths"].tolist() == [1] * 300
    texts = {name: (genomes / f"{name}.fna").read_text().replace("\n", "") for name in source.target_classes}
    names = names_of(source)
    for feature, y in zip(rows["features"].tolist(), rows["y"].astype(int), strict=True):
        assert names[feature] in texts[source.target_classes[y]]


def test_fragments_begin_anywhere_alike(genomes):
    """Each of 281 + 481 places is hit about equally often: chi-square within five standard deviations of its mean."""
    source = FragmentsSource(genomes / "a.fna", length=20, coverage=500, k=20)
    counts = np.unique(rows_of(source, block_rows=10**6, block_nnz=10**7)["features"], return_counts=True)[1]
    n_places = 281 + 481
    assert len(counts) == n_places
    expected = counts.sum() / n_places
    assert abs(((counts - expected) ** 2).sum() / expected - n_places) < 5 * np.sqrt(2 * n_places)


def test_fragments_are_the_same_by_seed_and_new_in_each_epoch(genomes):
    def rows(**options):
        return rows_of(FragmentsSource(genomes, length=20, coverage=2, k=5, **options))

    def sorted_rows(found, half):
        stops, n = np.cumsum([0, *found["lengths"]]), len(found["lengths"]) // 2
        return sorted(found["features"][stops[i] : stops[i + 1]].tolist() for i in range(half * n, half * n + n))

    assert_same_rows(rows(), rows())
    assert not np.array_equal(rows(random_state=1)["features"], rows()["features"])
    new, same = rows(n_epochs=2), rows(n_epochs=2, redraw=False)
    assert sorted_rows(new, 0) != sorted_rows(new, 1)
    assert sorted_rows(same, 0) == sorted_rows(same, 1)
    assert not np.array_equal(*np.array_split(same["y"], 2))


def test_parts_and_blocks_of_fragments_make_no_difference(genomes, monkeypatch):
    source = FragmentsSource(genomes, length=20, coverage=2, k=5, n_epochs=2, strands="both")
    expected = rows_of(source)
    monkeypatch.setattr("daskfs.sources.sparse.fragments._PART_ROWS", 7)
    monkeypatch.setattr("daskfs.sources.sparse.fragments._AT_ONCE", 3)
    assert_same_rows(rows_of(source, block_rows=11, block_nnz=50), expected)
    assert_same_rows(rows_of(source, parts=True), expected)


def test_both_strands_are_one_where_kmers_are_canonical(genomes):
    options = {"length": 20, "coverage": 2, "k": 5}
    one, both = (FragmentsSource(genomes, strands=s, canonical=True, **options) for s in ("forward", "both"))
    assert_same_rows(rows_of(both), rows_of(one))
    plain = rows_of(FragmentsSource(genomes, strands="both", **options))
    assert not np.array_equal(plain["features"], rows_of(FragmentsSource(genomes, **options))["features"])


def test_genomes_shorter_than_a_fragment_are_refused(genomes):
    with refused(SourceError, "sequences", naming=["501"]):
        rows_of(make_source("fragments", path=genomes, length=501))
