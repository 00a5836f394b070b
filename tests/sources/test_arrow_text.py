import gc
import io
import threading

import pyarrow as pa
import pytest
from pyarrow import csv as arrow_csv

from daskfs.sources.arrow_text import parsed

TEXT = b"".join(b"%d,%d\n" % (k, k * k) for k in range(20_000))


class Watched(io.BytesIO):
    """Counts who reads, and keeps the reader waiting where it is told to."""

    def __init__(self, content):
        super().__init__(content)
        self.may_go_on, self.n_reads = threading.Event(), 0
        self.may_go_on.set()

    def read(self, n=-1):
        self.may_go_on.wait(10.0)
        self.n_reads += 1
        return super().read(n)


def batches(stream):
    read = arrow_csv.ReadOptions(column_names=["a", "b"], block_size=1 << 12)
    types = arrow_csv.ConvertOptions(column_types={"a": pa.int64(), "b": pa.int64()})
    return parsed(stream, read, arrow_csv.ParseOptions(), types)


def test_all_rows_come_in_order():
    found = pa.Table.from_batches(batches(Watched(TEXT)))
    assert found["a"].to_pylist() == [*range(20_000)]
    assert found["b"][-1].as_py() == 19_999**2


@pytest.mark.parametrize("wait", [False, True])
def test_nobody_reads_any_more_once_it_was_left(wait):
    stream = Watched(TEXT)
    coming = batches(stream)
    next(coming)
    if wait:  # Arrow is within a read when it is left
        stream.may_go_on.clear()
        threading.Timer(0.2, stream.may_go_on.set).start()
    coming.close()
    doors = [one for one in gc.get_objects() if type(one).__name__ == "_Door"]
    assert not doors
    n_reads = stream.n_reads
    assert stream.tell() < len(TEXT)
    assert stream.n_reads == n_reads


def test_a_fault_of_the_text_ends_it_as_well():
    stream = Watched(b"1,2\n" * 5000 + b"x,y\n" + TEXT)
    with pytest.raises(pa.ArrowInvalid, match="'x'"):
        for _ in batches(stream):
            pass
    assert not [one for one in gc.get_objects() if type(one).__name__ == "_Door"]
