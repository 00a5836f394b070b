"""Files of a source: found by path, list or pattern; hashed; opened as a plain byte stream whatever compresses them."""

from __future__ import annotations

import bz2
import glob
import gzip
import hashlib
import io
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from daskfs.errors import SourceError, did_you_mean

PathLike = str | os.PathLike[str]
CUT_SHORT = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)


def expand_paths(paths: PathLike | Sequence[PathLike], endings: tuple[str, ...] = ()) -> list[Path]:
    """Return the files that a path, a list of paths, a pattern or a folder names, sorted within each pattern.

    Parameters
    ----------
    paths : path-like or list of path-like
        A name that exists is taken as it is, even where it holds ``*`` or ``[``.
    endings : tuple of str
        File name endings that are taken from a folder.

    Raises
    ------
    SourceError
        A file is missing, empty or unreadable, or a pattern matches nothing.
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not given:
        raise SourceError("expected at least one file, found an empty list", "source.path", "name a file")
    files: list[Path] = []
    for item in given:
        path = Path(item).expanduser()
        if path.is_dir():
            found = sorted(file for file in path.iterdir() if file.name.endswith(endings) and file.is_file())
        elif path.exists():
            found = [path]
        elif glob.has_magic(str(path)):
            found = sorted(Path(match) for match in glob.iglob(str(path), recursive=True))  # noqa: PTH207 - absolute patterns
        else:
            raise SourceError("no such file", str(path), _nearest(path))
        if not found:
            known = [ending for ending in endings if not ending.endswith(COMPRESSED)]
            inside = f" in it ends in {', '.join(known)}" if path.is_dir() and known else " matches"
            raise SourceError(f"no file{inside}", str(path), "check the path and the pattern, or name the files")
        files += found
    for file in files:
        _check_file(file)
    return files


def _nearest(path: Path) -> str:
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist either; check the path"
    return "check the path" + did_you_mean(path.name, [file.name for file in path.parent.iterdir()])


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise SourceError("expected a file, found a folder", str(path), "name the files in it")
    if not os.access(path, os.R_OK):
        raise SourceError("the file may not be read", str(path), f"change its permissions: chmod u+r '{path}'")
    if path.stat().st_size == 0:
        raise SourceError("expected data, found an empty file", str(path), "check how the file was made or copied")


def fingerprint(path: Path) -> dict[str, Any]:
    """Return name, size, time of change and SHA-256 of a file (reads all of it)."""
    with path.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"path": str(path), **stamp(path), "sha256": sha256}


def stamp(path: Path) -> dict[str, int]:
    """Return size in bytes and time of change in nanoseconds: what tells a changed file without reading it."""
    state = path.stat()
    return {"nbytes": state.st_size, "mtime_ns": state.st_mtime_ns}


def digest_of(prints: Sequence[dict[str, Any]]) -> str:
    """Return the digest of several files in order; their names and times do not enter."""
    return hashlib.sha256("\n".join(entry["sha256"] for entry in prints).encode()).hexdigest()


def same_stamps(files: Sequence[Path], prints: Sequence[dict[str, Any]]) -> bool:
    """Tell whether the files have the sizes and times that `prints` recorded, path by path."""
    if [str(file) for file in files] != [entry.get("path") for entry in prints]:
        return False
    return all(
        stamp(file) == {"nbytes": entry.get("nbytes"), "mtime_ns": entry.get("mtime_ns")}
        for file, entry in zip(files, prints, strict=True)
    )


def changed(file: Path) -> SourceError:
    """Return the error for a file whose stamp is another after it was read."""
    return SourceError("the file changed while it was read", str(file), "ingest it again when it is whole")


class OfFiles:
    """What a source of one or several files says of itself.

    Attributes
    ----------
    files : list of Path
    """

    kind: ClassVar[str]
    files: list[Path]

    @property
    def place(self) -> str:
        """The first file."""
        return str(self.files[0])

    def describe(self) -> dict[str, Any]:
        """Return the files with size, time and SHA-256."""
        more = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        return {"kind": self.kind, "description": f"{self.place}{more}", "files": self._prints}

    @cached_property
    def _prints(self) -> list[dict[str, Any]]:
        return [fingerprint(file) for file in self.files]

    def stamps(self) -> list[Any]:
        """Return paths, sizes and times of the files."""
        return [[str(file), stamp(file)] for file in self.files]

    def digest(self) -> str:
        """Return the digest of the bytes of all files."""
        return digest_of(self._prints)

    def is_unchanged(self, description: dict[str, Any], digest: str) -> bool:
        """Compare sizes and times first, and the bytes only where these differ."""
        return same_stamps(self.files, description.get("files", [])) or self.digest() == digest


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a file, decompressed by its ending (.gz, .bz2, .xz, .zst).

    Raises
    ------
    SourceError
        The compressed data end early or are damaged, wherever in the block that happens.
    """
    reader = _READERS.get(path.suffix)
    try:
        with path.open("rb") if reader is None else io.BufferedReader(reader(path)) as stream:
            yield stream
    except CUT_SHORT as fault:
        raise cut_short(path, fault) from None


def cut_short(path: Path, fault: BaseException) -> SourceError:
    """Return the error for compressed data that end early or are damaged."""
    early = isinstance(fault, EOFError)
    found = "the compressed data end in the middle" if early else f"the compressed data are damaged ({fault})"
    return SourceError(f"expected a whole {path.suffix} file, {found}", str(path), "copy or download the file again")


def text_ratio(path: Path, head_nbytes: int) -> float:
    """Return how many bytes of text a byte of the file holds, measured at its head; 1.0 where nothing compresses it."""
    if path.suffix == ".zst":
        return _USUAL_ZSTD_RATIO
    if path.suffix not in COMPRESSED:
        return 1.0
    with path.open("rb") as raw:
        with gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else _READERS[path.suffix](raw) as reader:
            n_text = len(reader.read(head_nbytes))
        return n_text / max(1, raw.tell())


_USUAL_ZSTD_RATIO = 5.0


class _Zstd(io.RawIOBase):
    """A .zst file through pyarrow: Python 3.11 has no zstd of its own."""

    def __init__(self, path: Path) -> None:
        import pyarrow

        self._path = path
        self._stream = pyarrow.CompressedInputStream(pyarrow.OSFile(str(path)), "zstd")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer."""
        try:
            data = self._stream.read(len(buffer))
        except OSError as fault:
            kind = EOFError if re.search("[Tt]runcated", str(fault)) else zlib.error
            raise kind(str(fault)) from None
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        super().close()


_READERS: dict[str, Callable[[Any], Any]] = {
    ".gz": gzip.GzipFile,
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
    ".zst": _Zstd,
}
COMPRESSED = tuple(_READERS)
