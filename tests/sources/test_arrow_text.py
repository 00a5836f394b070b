import gc
import io
import threading

import pyarrow as pa
import pytest
from pyarrow import csv as arrow_csv

from daskfs.sources.text import parsed

TEXT = b"".join(b"%d,%d\n" % (k, k * k) for k in range(20_000))


class Text(bytes):
    """Tells its stream when it goes."""

    stream = None

    def __del__(self):
        self.stream.n_lent -= 1


class Watched(io.BytesIO):
    """Counts reads, texts that somebody holds, and who is within the read from which on it keeps readers waiting."""

    def __init__(self, content, waits_at=0):
        super().__init__(content)
        self.waits_at, self.n_reads, self.n_lent, self.n_within = waits_at, 0, 0, 0
        self.is_waiting, self.may_go_on = threading.Event(), threading.Event()

    def read(self, n=-1):
        self.n_reads += 1
        self.n_within += 1
        if self.n_reads == self.waits_at:
            self.is_waiting.set()
            self.may_go_on.wait(10.0)
        text = Text(super().read(n))
        text.stream = self
        self.n_lent += 1
        self.n_within -= 1
        return text


def batches(stream):
    read = arrow_csv.ReadOptions(column_names=["a", "b"], block_size=1 << 12)
    types = arrow_csv.ConvertOptions(column_types={"a": pa.int64(), "b": pa.int64()})
    return parsed(stream, read, arrow_csv.ParseOptions(), types)


def test_all_rows_come_in_order():
    found = pa.Table.from_batches(batches(Watched(TEXT)))
    assert found["a"].to_pylist() == [*range(20_000)]
    assert found["b"][-1].as_py() == 19_999**2


@pytest.mark.slow
@pytest.mark.parametrize("waits_at", [0, 6])
@pytest.mark.parametrize("trial", range(10))
def test_nobody_reads_or_holds_a_text_any_more_once_it_was_left(waits_at, trial):
    stream = Watched(TEXT, waits_at)
    coming = batches(stream)
    next(coming)
    if waits_at:  # Arrow is within a read when it is left
        assert stream.is_waiting.wait(10.0)
        threading.Timer(0.05, stream.may_go_on.set).start()
    coming.close()
    n_reads = stream.n_reads
    assert (stream.n_lent, stream.n_within) == (0, 0)
    assert not [one for one in gc.get_objects() if type(one).__name__ == "_Door"]
    if waits_at:
        assert stream.tell() < len(TEXT)
        assert n_reads <= waits_at + 1  # the end, if it asked again


@pytest.mark.slow
def test_a_fault_of_the_text_ends_it_as_well():
    stream = Watched(b"1,2\n" * 5000 + b"x,y\n" + TEXT)
    with pytest.raises(pa.ArrowInvalid, match="'x'"):
        for _ in batches(stream):
            pass
    assert not [one for one in gc.get_objects() if type(one).__name__ == "_Door"]
