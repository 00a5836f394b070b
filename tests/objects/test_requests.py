import io
import threading

import numpy as np
import pytest

from daskfs.errors import ConfigError, SourceError, StorageError
from daskfs.files import location
from daskfs.objects import ahead, requests
from daskfs.objects.ahead import MemoryBudget, Part, PrefetchCache
from daskfs.objects.stream import PIECE_NBYTES
from tests.refusals import refused


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    monkeypatch.setattr(requests, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(requests, "LONGEST_PAUSE_S", 0.01)


def test_what_fails_now_and_then_is_asked_for_again(server):
    server.put("bucket/x", b"0123456789" * 1000)
    server.faults = {"500": 0.2, "503": 0.2, "truncated": 0.1, "reset": 0.1}
    for _ in range(20):
        assert location("s3://bucket/x").read_bytes() == b"0123456789" * 1000
    assert {"500", "503", "truncated", "reset"} <= set(server.met)


@pytest.mark.parametrize(
    ("fault", "told"), [("500", "answered 500"), ("503", "503"), ("truncated", "connection failed")]
)
def test_what_always_fails_ends_with_an_error_that_says_how_often_it_was_tried(server, monkeypatch, fault, told):
    monkeypatch.setenv("DASKFS_REQUEST_TRIES", "3")
    server.put("bucket/x", b"0123456789")
    server.faults = {fault: 1.0}
    with refused(StorageError, "object-stores", naming=["3", told]):
        location("s3://bucket/x").read_bytes()
    assert server.met[fault] == 3


def test_waiting_ends_when_patience_does(server, monkeypatch):
    monkeypatch.setenv("DASKFS_REQUEST_PATIENCE_S", "1")
    monkeypatch.setattr(requests, "FIRST_PAUSE_S", 2.0)
    server.faults = {"503": 1.0}
    with refused(StorageError, "object-stores", naming=["1", "0"]):
        location("s3://bucket/x").read_bytes()


def test_a_setting_that_is_no_number_is_named(monkeypatch):
    monkeypatch.setenv("DASKFS_REQUEST_TRIES", "many")
    with refused(ConfigError, "object-stores", at="DASKFS_REQUEST_TRIES"):
        requests.n_tries()


def test_how_much_is_on_its_way_is_set_by_a_variable_and_counted(monkeypatch):
    ahead._budget_of_process.cache_clear()
    default = ahead.ahead_nbytes()
    try:
        for text, ratio in (("132", 3.0), ("22", 0.5)):
            ahead._budget_of_process.cache_clear()
            monkeypatch.setenv("DASKFS_AHEAD_MIB", text)
            assert ahead.ahead_nbytes() == pytest.approx(ratio * default)
            assert PrefetchCache()._budget.most_nbytes == int(text) << 20
        ahead._budget_of_process.cache_clear()
        monkeypatch.setenv("DASKFS_AHEAD_MIB", "lots")
        with refused(ConfigError, "object-stores", at="DASKFS_AHEAD_MIB"):
            ahead.ahead_nbytes()
    finally:
        ahead._budget_of_process.cache_clear()


def test_a_request_that_is_not_allowed_is_not_tried_again_and_says_what_to_do(server):
    server.denied = True
    with refused(StorageError, "object-stores", naming=["403", "AccessDenied", "AWS_ACCESS_KEY_ID"]):
        location("s3://bucket/x").read_bytes()
    assert server.seen["GET"] == 1


def test_what_is_not_there_is_told_so(server):
    with pytest.raises(FileNotFoundError, match="no such object"):
        location("s3://bucket/x").read_bytes()
    assert not location(f"{server.url}/bucket/x").is_file()


def test_an_error_shows_no_signature(server, monkeypatch):
    monkeypatch.setenv("DASKFS_REQUEST_TRIES", "1")
    server.put("bucket/x", b"1")
    server.faults = {"500": 1.0}
    with pytest.raises(StorageError) as caught:
        location(f"{server.url}/bucket/x?X-Amz-Signature=hidden").read_bytes()
    assert "hidden" not in str(caught.value)


def test_an_object_that_is_to_be_new_is_written_once(server):
    path = location("s3://bucket/x")
    path.write_bytes(b"1", is_new=True)
    with pytest.raises(FileExistsError):
        path.write_bytes(b"2", is_new=True)
    assert path.read_bytes() == b"1"


def test_nothing_is_written_over_http(server):
    with refused(StorageError, "object-stores", naming=["HTTP"]):
        location(f"{server.url}/bucket/x").write_bytes(b"1")


@pytest.mark.parametrize("root", ["s3://bucket", "http"])
def test_a_stream_reads_as_a_file_does(server, root):
    content = np.random.default_rng(0).bytes(5 * PIECE_NBYTES // 2)
    server.put("bucket/x", content)
    root = f"{server.url}/bucket" if root == "http" else root
    with location(f"{root}/x").open("rb") as stream:
        assert stream.read(10) == content[:10]
        stream.seek(-7, io.SEEK_END)
        assert stream.read() == content[-7:]
        stream.seek(PIECE_NBYTES - 3)
        assert stream.read(6) == content[PIECE_NBYTES - 3 : PIECE_NBYTES + 3]
        stream.seek(0)
        assert stream.read() == content


def test_a_stream_asks_ahead_when_it_is_read_on(server):
    server.put("bucket/x", bytes(12 * PIECE_NBYTES))
    for server.latency_s in (0.02, 0.2, 2.0):  # a loaded machine is late, too
        server.seen.clear()
        with location("s3://bucket/x").open("rb") as stream:
            while stream.read(PIECE_NBYTES):
                pass
        assert server.seen["GET"] == 12
        if server.most_at_once >= 4:
            break
    assert server.most_at_once >= 4


def test_an_object_that_changes_while_it_is_read_is_an_error(server):
    server.put("bucket/x", bytes(3 * PIECE_NBYTES))
    with location("s3://bucket/x").open("rb") as stream:
        stream.read(10)
        server.put("bucket/x", b"1" * (3 * PIECE_NBYTES))
        with refused(SourceError, "object-stores", naming=["changed"]):
            stream.read()


def _parts(server, n, nbytes):
    for k in range(n):
        server.put(f"bucket/{k}", bytes([k]) * nbytes)
    return [Part(location(f"s3://bucket/{k}"), most_nbytes=nbytes) for k in range(n)]


def test_parts_are_asked_for_ahead_and_never_hold_more_than_promised(server):
    parts = _parts(server, 40, 1000)
    server.hold_until(4)
    room = MemoryBudget(8000)
    shelf, most = PrefetchCache(room), 0
    shelf.expect(parts)
    for k, part in enumerate(parts):
        assert bytes(shelf.take(part)) == bytes([k]) * 1000
        most = max(most, room.held_nbytes)
    assert most <= 8000
    assert server.most_at_once >= 4
    assert server.seen["GET"] == 40  # each once


def test_a_part_larger_than_the_room_is_taken_by_itself(server):
    first, second = _parts(server, 2, 1000)
    shelf = PrefetchCache(MemoryBudget(500))
    shelf.expect([first, second])
    assert bytes(shelf.take(first)) == bytes(1000)
    assert bytes(shelf.take(second)) == b"\1" * 1000


def test_a_part_that_was_used_is_kept_while_there_is_room(server):
    (part,) = _parts(server, 1, 1000)
    shelf = PrefetchCache()
    for _ in range(3):
        shelf.take(part)
    assert server.seen["GET"] == 1


def test_a_part_that_could_not_be_read_is_requested_again(server):
    part, shelf = Part(location("s3://bucket/0"), most_nbytes=1000), PrefetchCache()
    with pytest.raises(FileNotFoundError):
        shelf.take(part)
    _parts(server, 1, 1000)
    assert bytes(shelf.take(part)) == bytes(1000)


def test_parts_are_taken_in_another_order_than_announced(server):
    parts = _parts(server, 20, 1000)
    room = MemoryBudget(4000)
    shelf = PrefetchCache(room)
    shelf.expect(parts)
    for k in np.random.default_rng(0).permutation(20):
        assert bytes(shelf.take(parts[k])) == bytes([k]) * 1000
    assert room.held_nbytes <= 4000
    del shelf
    assert room.held_nbytes == 0


def test_requests_of_several_threads_do_not_meet(server):
    parts, found, room = _parts(server, 30, 1000), {}, MemoryBudget(5000)

    def read(start):
        shelf = PrefetchCache(room)
        shelf.expect(parts[start:])
        found[start] = [bytes(shelf.take(part))[0] for part in parts[start:]]

    threads = [threading.Thread(target=read, args=(start,)) for start in (0, 10, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {start: list(range(start, 30)) for start in (0, 10, 20)}
