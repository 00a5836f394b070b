"""What the tests of sparse sources share: all rows of a source as one matrix, and texts that are damaged at random."""

from contextlib import contextmanager

import numpy as np
import scipy.sparse

from daskfs.sources.sparse import lines


def rows_of(source, block_rows=1000, block_nnz=10**6, parts=False):
    """All rows of a source, or of its parts, by what they have; each block is checked."""
    if parts:
        found = []
        for part in source.parts():
            blocks = list(source.sparse_part_blocks(part, block_rows, block_nnz))
            check_blocks(blocks, block_rows, block_nnz)
            found += blocks
        source.conclude([source.part_facts()], sum(block.n_rows for block in found))
    else:
        found = list(source.sparse_blocks(block_rows, block_nnz))
        check_blocks(found, block_rows, block_nnz)
    return {
        "lengths": np.concatenate([np.diff(block.indptr) for block in found]),
        "features": np.concatenate([block.features for block in found]),
        "data": np.concatenate(
            [np.ones(len(b.features), np.float32) if b.data is None else b.data for b in found],
        ),
        "y": None if found[0].y is None else np.concatenate([block.y for block in found]),
        "weight": None if found[0].weight is None else np.concatenate([block.weight for block in found]),
        "labels": {name: np.concatenate([b.labels[name] for b in found]).tolist() for name in found[0].labels},
    }


def check_blocks(blocks, block_rows, block_nnz):
    """Blocks are numbered, within their bounds, and as full as they can be; features ascend in each row."""
    n_rows = 0
    for block in blocks:
        assert block.start == n_rows
        n_rows += block.n_rows
        assert block.n_rows <= block_rows
        assert block.indptr[0] == 0
        assert block.indptr[-1] == len(block.features)
        assert len(block.features) <= block_nnz or block.n_rows == 1
        assert block.features.dtype == np.uint64
        ascends = np.diff(block.features.astype(object)) > 0
        assert np.delete(ascends, [s - 1 for s in block.indptr[1:-1] if 0 < s < len(block.features)]).all()
        if block.names is not None:
            assert len(np.unique(block.names.ids)) == len(block.names.ids)
            assert set(block.features.tolist()) <= set(block.names.ids.tolist())


def assert_same_rows(found, expected):
    for name in ("lengths", "features", "data", "y", "weight"):
        if expected[name] is None:
            assert found[name] is None
        else:
            np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
            assert found[name].dtype == expected[name].dtype
    assert found["labels"] == expected["labels"]


def matrix_of(rows, n_features):
    indptr = np.concatenate([[0], np.cumsum(rows["lengths"])])
    return scipy.sparse.csr_matrix(
        (rows["data"], rows["features"].astype(np.int64), indptr), (len(rows["lengths"]), n_features)
    )


def names_of(source):
    """The names that a source tells, by id."""
    names = {}
    for block in source.sparse_blocks(1000, 10**6):
        text = block.names.text.tobytes()
        offsets = block.names.offsets.tolist()
        for k, feature in enumerate(block.names.ids.tolist()):
            names[feature] = text[offsets[k] : offsets[k + 1]].decode()
    return names


def in_small_pieces(monkeypatch, piece_nbytes, n_first=1):
    """Read few bytes at a time, and begin with little room."""
    monkeypatch.setattr(lines, "PIECE_NBYTES", piece_nbytes)
    monkeypatch.setattr(lines, "FIRST_ROWS", n_first)
    monkeypatch.setattr(lines, "FIRST_ENTRIES", n_first)


@contextmanager
def rewritten(path):
    """Return what writes the file again and again, without the time that a file system takes to make one."""

    def write(content):
        file.seek(0)
        file.write(content)
        file.truncate(len(content))

    with path.open("wb", buffering=0) as file:
        yield write


def damaged(rng, text, words):
    """A text with some bytes changed, left out, doubled or put in."""
    text = bytearray(text)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(0, len(text) + 1))
        kind = rng.integers(0, 6)
        if kind == 0 and at < len(text):
            text[at] = rng.integers(0, 256)
        elif kind == 1:
            del text[at : at + int(rng.integers(1, 6))]
        elif kind == 2:
            text[at:at] = words[rng.integers(0, len(words))]
        elif kind == 3:
            text[at:at] = text[at : at + int(rng.integers(1, 30))]
        elif kind == 4:
            del text[at:]
        else:
            text[at : at + 1] = bytes(rng.integers(0, 256, rng.integers(1, 4), dtype=np.uint8))
    return bytes(text)
