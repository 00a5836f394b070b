"""Files of a source: found by path, list or pattern, and hashed."""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from daskfs.errors import SourceError, did_you_mean
from daskfs.files import Location, location
from daskfs.objects.address import is_url
from daskfs.objects.path import ObjectPath

PathLike = str | os.PathLike[str] | ObjectPath
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
"""Endings of files that `daskfs.sources.byte_streams` decompresses."""


def is_path(source: Any) -> bool:
    """Return whether a source is a path or URL."""
    return isinstance(source, (str, os.PathLike, ObjectPath))


def expand_paths(
    paths: PathLike | Sequence[PathLike], endings: tuple[str, ...] = (), key: Callable[[Any], Any] | None = None
) -> list[Any]:
    """Return the files or objects given by a path, list, pattern or folder, sorted within each pattern.

    Parameters
    ----------
    paths : path-like, URL, or list of them
        An existing path is used as it is, even if it contains ``*``, ``[`` or ``{``. ``{1..22,X}`` stands for each of
        these in turn.
    endings : tuple of str
        File name endings that are read from a folder.
    key : callable, optional
        Sorts the files of a pattern or folder, such as `natural_order`; by default their names do.

    Raises
    ------
    SourceError
        A file is missing, empty or unreadable, or a pattern matches nothing.
    """
    given: list[Any] = [paths] if is_path(paths) else list(paths)  # type: ignore[arg-type]
    if not given:
        raise SourceError("expected at least one file, found an empty list", "source.path", "name a file")
    files: list[Location] = []
    for item in in_braces(given):
        if not str(item):
            raise SourceError("expected a path, found an empty text", "source.path", "name a file")
        if is_url(item) or isinstance(item, ObjectPath):
            files += _objects(location(item), endings, key)
            continue
        path = Path(item).expanduser()
        found: list[Path]
        if path.is_dir():
            those = (file for file in path.iterdir() if file.name.endswith(endings) and file.is_file())
            found = sorted(those, key=key)
            _refuse_copies(found)
        elif os.path.lexists(path):
            found = [path]
        elif glob.has_magic(str(path)):
            matches = glob.iglob(str(path), recursive=True)  # noqa: PTH207 - absolute patterns
            found = sorted(map(Path, matches), key=key)
        else:
            raise SourceError("no such file", str(path), _nearest(path))
        if not found:
            known = [ending for ending in endings if not ending.endswith(COMPRESSED)]
            inside = f" in it ends in {', '.join(known)}" if path.is_dir() and known else " matches"
            raise SourceError(f"no file{inside}", str(path), "check the path and the pattern, or name the files")
        files += found
    for file in files:
        check_file(file)
    return files


def in_braces(paths: Sequence[Any]) -> list[Any]:
    """Return paths with each list and range in braces replaced by what it stands for, as a shell does.

    Examples
    --------
    >>> in_braces(["chr{1..3,X}.bed", "{08..10}.bed", "{one}.bed"])
    ['chr1.bed', 'chr2.bed', 'chr3.bed', 'chrX.bed', '08.bed', '09.bed', '10.bed', '{one}.bed']
    """
    found: list[Any] = []
    for path in paths:
        braces = re.search(r"\{([^{}]*,[^{}]*|\d+\.\.\d+)\}", str(path))
        if braces is None or (not is_url(path) and os.path.lexists(Path(str(path)).expanduser())):
            found.append(path)
            continue
        words: list[str] = []
        for word in braces[1].split(","):
            if ends := re.fullmatch(r"(\d+)\.\.(\d+)", word):
                first, last = int(ends[1]), int(ends[2])
                step, width = (1 if first <= last else -1), len(ends[1]) if ends[1].startswith("0") else 0
                words += (f"{number:0{width}d}" for number in range(first, last + step, step))
            else:
                words.append(word)
        found += in_braces([f"{str(path)[: braces.start()]}{word}{str(path)[braces.end() :]}" for word in words])
    return found


def natural_order(path: Location) -> list[tuple[int, str]]:
    """Return a key that sorts numbers in names by value: chr2 before chr10, then chrX, chrY and chrMT.

    Examples
    --------
    >>> [path.name for path in sorted(map(Path, ["chrMT", "chrX", "chr10", "chr2"]), key=natural_order)]
    ['chr2', 'chr10', 'chrX', 'chrMT']
    """
    name = re.sub(r"(?<=chr)MT?(?![A-Za-z])", "~", str(path))
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def _objects(path: Location, endings: tuple[str, ...], key: Callable[[Any], Any] | None) -> list[ObjectPath]:
    """Return the objects at an address: the object itself, the matches of a pattern, or the objects in the folder."""
    if not isinstance(path, ObjectPath):  # file://
        return expand_paths(path, endings, key)
    if path.is_read_only or path.is_file():
        return [path]
    if glob.has_magic(path.key):
        found = path.matching()
    else:
        found = [one for one in path.iterdir() if one.name.endswith(endings)]
        found = [one for one in found if not one.is_dir()]
        _refuse_copies(found)
    if not found:
        raise SourceError("no such object", str(path), "check the address")
    return sorted(found, key=key) if key is not None else found


def located(paths: Any, options: Mapping[str, Any]) -> Any:
    """Return a source whose URLs are replaced by locations with storage options."""
    if is_url(paths):
        return location(paths, options)
    if isinstance(paths, (list, tuple)) and any(map(is_url, paths)):
        return [located(path, options) for path in paths]
    return paths


def _refuse_copies(files: Sequence[Location]) -> None:
    """Refuse files of a folder whose names differ only in the compression: rows would be read twice."""
    names: dict[str, Location] = {}
    for file in files:
        name = file.stem if file.suffix in COMPRESSED else file.name
        if (other := names.setdefault(name, file)) is not file:
            problem = f"expected each file once, found {other.name} and {file.name}"
            raise SourceError(problem, str(file.parent), "remove one, or name the files")


def _nearest(path: Path) -> str:
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist either; check the path"
    return "check the path" + did_you_mean(path.name, [file.name for file in path.parent.iterdir()])


def check_file(path: Location) -> None:
    """Refuse a path that is not a readable, non-empty file.

    Raises
    ------
    SourceError
    """
    if isinstance(path, ObjectPath):
        try:
            if path.stat().st_size == 0:
                raise SourceError("expected data, found an empty object", str(path), "check how it was made")
        except FileNotFoundError:
            raise SourceError("no such object", str(path), "check the address") from None
        return
    if path.is_dir():
        raise SourceError("expected a file, found a folder", str(path), "name the files in it")
    if not path.exists():
        raise SourceError("expected a file, found a broken link", str(path), "fix or remove the link")
    if not path.is_file():
        remedy = "write its output to a file; `daskfs select -` reads lines from a pipe"
        raise SourceError("expected a file, found a pipe or a device", str(path), remedy)
    if not os.access(path, os.R_OK):
        raise SourceError("no permission to read the file", str(path), f"change its permissions: chmod u+r '{path}'")
    if path.stat().st_size == 0:
        raise SourceError("expected data, found an empty file", str(path), "check how the file was made or copied")


def fingerprint(path: Location) -> dict[str, Any]:
    """Return name, size, modification time and SHA-256 of a file (reads all of it)."""
    with path.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]
    return {"path": str(path), **stamp(path), "sha256": sha256}


def stamp(path: Location) -> dict[str, Any]:
    """Return size in bytes and modification time in nanoseconds, which reveal a changed file without reading it.

    For an object, the ETag too.
    """
    try:
        state = path.stat()
        if not isinstance(state, os.stat_result):
            return state.stamp
    except FileNotFoundError:
        raise SourceError("the file is no longer there", str(path), "restore it, or name another file") from None
    return {"nbytes": state.st_size, "mtime_ns": state.st_mtime_ns}


def digest_of(prints: Sequence[dict[str, Any]]) -> str:
    """Return the digest of several files in order, whatever their names and times."""
    return hashlib.sha256("\n".join(entry["sha256"] for entry in prints).encode()).hexdigest()


def same_stamps(files: Sequence[Location], prints: Sequence[dict[str, Any]]) -> bool:
    """Return whether the files have the sizes and times recorded in `prints`, path by path."""
    if [str(file) for file in files] != [entry.get("path") for entry in prints]:
        return False
    return all(
        found == {name: entry.get(name) for name in found}
        for found, entry in ((stamp(file), entry) for file, entry in zip(files, prints, strict=True))
    )


@contextmanager
def unchanged(file: Location) -> Iterator[None]:
    """Raise an error if the file changes while the context is open.

    Raises
    ------
    SourceError
    """
    before = stamp(file)
    yield
    if stamp(file) != before:
        raise changed(file)


def changed(file: Location | str) -> SourceError:
    """Return the error for a file that changed while it was read."""
    return SourceError("the file changed while it was read", str(file), "ingest it again when it is complete")


@contextmanager
def explained_room(folder: str) -> Iterator[None]:
    """Turn the operating system's error for a full disk into a `SourceError` with a remedy."""
    try:
        yield
    except OSError as fault:
        if fault.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        problem = f"a temporary file could not be written: {fault.strerror}"
        raise SourceError(problem, folder, "set TMPDIR to a folder with free space") from None


def write_all(file: int, data: bytes | memoryview, offset: int) -> None:
    """Write all bytes to a file, starting at an offset."""
    view = memoryview(data)
    while len(view):
        n_written = os.pwrite(file, view, offset)
        view, offset = view[n_written:], offset + n_written


class OfFiles:
    """Description, digest and checks for changes of a source with one or several files.

    Attributes
    ----------
    files : list of Path or ObjectPath
    """

    kind: ClassVar[str]
    files: list[Any]

    @property
    def place(self) -> str:
        """The first file, for messages."""
        return str(self.files[0])

    def take_stamps(self) -> None:
        """Record the files' stamps before they are read, for `refuse_changed`."""
        self._stamps = [stamp(file) for file in self.files]

    def refuse_changed(self) -> None:
        """Refuse files that changed since `take_stamps`.

        Raises
        ------
        SourceError
        """
        for file, before in zip(self.files, self._stamps, strict=True):
            if stamp(file) != before:
                raise changed(file)

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
        """Return whether sizes and times are equal; if not, whether the bytes are."""
        return same_stamps(self.files, description.get("files", [])) or self.digest() == digest


def files_below(folder: Location) -> list[Location]:
    """Return all files in a folder and its subfolders, sorted."""
    if isinstance(folder, ObjectPath):
        return [folder / name for name in sorted(folder.all_objects())]
    return [file for file in sorted(folder.rglob("*")) if file.is_file()]


def as_file(path: Location) -> Any:
    """Return an argument for libraries that open files themselves: a file's path, or the stream of an object."""
    return path.open("rb") if isinstance(path, ObjectPath) else path
