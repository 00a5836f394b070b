"""Paths of objects, with the interface of `pathlib.Path`."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import unquote, urlsplit

from daskfs import errors
from daskfs.errors import StorageError, did_you_mean
from daskfs.objects.address import READ_ONLY, SCHEMES, redacted
from daskfs.objects.cache import OPTIONS, Cache, cache_of
from daskfs.objects.requests import answered, aside, client_of
from daskfs.objects.stream import ObjectStream

ConfigError = errors.ConfigError.about("object-stores")

MULTIPART_NBYTES = 16 << 20
"""Larger files are uploaded in parts of 5 MiB, four at a time."""


class ObjectStatus(NamedTuple):
    """Status of an object."""

    st_size: int
    e_tag: str
    changed: datetime

    @property
    def st_mtime_ns(self) -> int:
        """Modification time, as for a file."""
        return int(self.changed.timestamp() * 1e9)

    @property
    def stamp(self) -> dict[str, Any]:
        """Values that differ between versions of an object."""
        return {"nbytes": self.st_size, "e_tag": self.e_tag, "mtime_ns": self.st_mtime_ns}


@dataclass(frozen=True, order=True)
class ObjectPath:
    """An object, or the objects whose keys have it as prefix, like a folder of files.

    Parameters
    ----------
    root : str
        "s3://bucket", "https://host".
    key : str
        Name within the root, without leading or trailing slashes.
    query : str
        Query of an HTTP address; never shown.
    options : tuple of pairs of str
        Storage options; never shown.

    Notes
    -----
    It is not an `os.PathLike`, so that code that needs files refuses it. As text it has neither passwords nor queries.
    Pickled, it consists of its address and the given options; each process finds its own credentials.
    """

    root: str
    key: str
    query: str = ""
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, url: str, options: Mapping[str, Any] | None = None) -> ObjectPath:
        """Return the path of a URL.

        Raises
        ------
        ConfigError
            Its scheme is unknown, or it has no bucket or host.

        Examples
        --------
        >>> path = ObjectPath.of("s3://bucket/data/genes.zarr")
        >>> str(path / "zarr.json"), path.name, path.root
        ('s3://bucket/data/genes.zarr/zarr.json', 'genes.zarr', 's3://bucket')
        """
        parts = urlsplit(url) if url.partition(":")[0].lower() in READ_ONLY else urlsplit(url.replace("?", "%3F"))
        scheme = parts.scheme.lower()
        if scheme not in SCHEMES:
            known = ", ".join(f"{name}://" for name in SCHEMES)
            remedy = f"the schemes are {known}{did_you_mean(scheme, SCHEMES)}"
            raise ConfigError(f"expected a known scheme, found {scheme}://", redacted(url), remedy)
        if not parts.netloc and scheme != "memory":
            raise ConfigError(f"expected a bucket or a host after {scheme}://", redacted(url), "check the address")
        if scheme in READ_ONLY:
            key, root = unquote(parts.path), f"{scheme}://{parts.netloc}"
        elif scheme == "memory":
            key, root = f"{parts.netloc}/{parts.path}", "memory://"
        else:
            key, root = (parts.path + (f"#{parts.fragment}" if parts.fragment else "")).replace("%3F", "?"), ""
            root = f"{scheme}://{parts.netloc}"
        is_store = scheme not in (*READ_ONLY, "memory")
        taken = {str(name): str(value) for name, value in (options or {}).items() if is_store or name in OPTIONS}
        given = tuple(sorted(taken.items()))
        return cls(root, re.sub("/+", "/", key).strip("/"), parts.query if scheme in READ_ONLY else "", given)

    def __str__(self) -> str:
        return redacted(self.address)

    def __repr__(self) -> str:
        return f"ObjectPath({str(self)!r})"

    @property
    def address(self) -> str:
        """The full URL, including secrets."""
        slash = "" if self.root.endswith("//") or not self.key else "/"
        return f"{self.root}{slash}{self.key}{f'?{self.query}' if self.query else ''}"

    @property
    def is_read_only(self) -> bool:
        """Whether it cannot be written to."""
        return self.root.partition(":")[0] in READ_ONLY

    def __truediv__(self, name: str | os.PathLike[str]) -> ObjectPath:
        return replace(self, key=f"{self.key}/{name}".strip("/"))

    @property
    def _pure(self) -> PurePosixPath:
        return PurePosixPath(self.key)

    @property
    def name(self) -> str:
        """The part after the last slash."""
        return self._pure.name

    @property
    def stem(self) -> str:
        """The name without its ending."""
        return self._pure.stem

    @property
    def suffix(self) -> str:
        """The name's ending."""
        return self._pure.suffix

    @property
    def suffixes(self) -> list[str]:
        """All endings of the name."""
        return self._pure.suffixes

    @property
    def parent(self) -> ObjectPath:
        """The path of the containing prefix."""
        return replace(self, key=self.key.rpartition("/")[0])

    @property
    def parents(self) -> list[ObjectPath]:
        """The paths of all containing prefixes, the innermost first."""
        parts = self.key.split("/")
        return [replace(self, key="/".join(parts[:k])) for k in range(len(parts) - 1, -1, -1)]

    def with_name(self, name: str) -> ObjectPath:
        """Return the path with another name."""
        return self.parent / name

    def with_suffix(self, suffix: str) -> ObjectPath:
        """Return the path with another suffix."""
        return self.parent / self._pure.with_suffix(suffix).name

    def relative_to(self, other: ObjectPath) -> PurePosixPath:
        """Return the name relative to another path."""
        return self._pure.relative_to(other._pure)

    def expanduser(self) -> ObjectPath:
        """Return the path unchanged."""
        return self

    absolute = resolve = expanduser

    @property
    def client(self) -> Any:
        """Obstore's client."""
        root = f"{self.root}?{self.query}" if self.query else self.root
        return client_of(root, self._of_client)

    @property
    def _of_client(self) -> tuple[tuple[str, str], ...]:
        return tuple(pair for pair in self.options if pair[0] not in OPTIONS)

    def cache_for(self, version: str) -> Cache | None:
        """Return the disk cache for one version of the object; None if no folder is configured."""
        return None if self.root.startswith("memory") else cache_of(dict(self.options), version)

    def without_cache(self) -> ObjectPath:
        """Return the path without a disk cache."""
        return replace(self, options=(*self._of_client, ("cache", "none")))

    def client_within(self) -> Any:
        """Return an obstore client with this path as root, for libraries that accept one."""
        if self.root.startswith("memory"):
            raise StorageError("memory:// works only for daskfs's own stores", str(self), "use a folder")
        return client_of(f"{self.root}/{self.key}", self._of_client)

    def stat(self) -> ObjectStatus:
        """Return size, ETag and modification time of the object.

        Raises
        ------
        FileNotFoundError
        StorageError
        """
        import obstore

        client = self.client
        found = aside(answered, lambda: obstore.head(client, self.key), str(self))
        return ObjectStatus(int(found["size"]), found.get("e_tag") or "", found["last_modified"])

    def is_file(self) -> bool:
        """Return whether the object exists."""
        try:
            return bool(self.key) and self.stat() is not None
        except FileNotFoundError:
            return False

    def is_dir(self) -> bool:
        """Return whether there are objects with this prefix; always False for HTTP servers, which list nothing."""
        return not self.is_read_only and next(self.iterdir(), None) is not None

    def exists(self) -> bool:
        """Return whether it is an object or a prefix of objects."""
        return self.is_file() or self.is_dir()

    def iterdir(self) -> Iterator[ObjectPath]:
        """Yield the objects and prefixes directly within it, sorted."""
        import obstore

        self._refuse_listing()
        client, prefix = self.client, self.key or None
        found = aside(answered, lambda: obstore.list_with_delimiter(client, prefix), str(self))
        keys = {*found["common_prefixes"], *(one["path"] for one in found["objects"])}
        yield from (replace(self, key=key) for key in sorted(keys) if key != self.key)

    def all_objects(self) -> dict[str, int]:
        """Return the sizes of all objects within it, also in deeper levels, by their relative names."""
        import obstore

        self._refuse_listing()
        client, prefix = self.client, self.key or None
        found = aside(answered, lambda: [*obstore.list(client, prefix).collect()], str(self))
        start = len(self.key) + 1 if self.key else 0
        return {one["path"][start:]: int(one["size"]) for one in found}

    def matching(self) -> list[ObjectPath]:
        """Return the objects that match the pattern, sorted: ``*`` and ``?`` do not match slashes, ``**`` does."""
        fixed = re.split(r"[*?\[]", self.key, maxsplit=1)[0].rpartition("/")[0]
        pattern = re.compile(_expression(self.key))
        folder = replace(self, key=fixed)
        return [one for name in sorted(folder.all_objects()) if pattern.fullmatch((one := folder / name).key)]

    def _refuse_listing(self) -> None:
        if self.is_read_only:
            raise StorageError("an HTTP server does not list its files", str(self), "name each file")

    def read_bytes(self) -> bytes:
        """Return the object's content; see `asked`."""
        return bytes(self.asked())

    def fetch(self, start: int = 0, nbytes: int | None = None) -> memoryview:
        """Return the object's content, or a range of it, without retries and without a copy; see `answered`."""
        import obstore

        if nbytes is None:
            return memoryview(obstore.get(self.client, self.key).bytes())
        return memoryview(obstore.get_range(self.client, self.key, start=start, length=nbytes))

    def asked(self, start: int = 0, nbytes: int | None = None) -> memoryview:
        """Return the object's content, or a range of it.

        Raises
        ------
        FileNotFoundError
        StorageError
        """
        return aside(answered, lambda: self.fetch(start, nbytes), str(self))

    def write_bytes(self, content: bytes | memoryview, *, is_new: bool = False) -> None:
        """Write the object atomically.

        Raises
        ------
        FileExistsError
            `is_new` is set, and the object exists.
        StorageError
        """
        import obstore

        if self.is_read_only:
            raise StorageError("objects cannot be written over HTTP", str(self), "write to an object store")
        client, tries = self.client, 0

        def put() -> None:
            nonlocal tries
            tries += 1
            try:
                obstore.put(client, self.key, content, mode="create" if is_new else "overwrite", use_multipart=False)
            except obstore.exceptions.AlreadyExistsError:
                if tries == 1 or bytes(obstore.get(client, self.key).bytes()) != bytes(content):
                    raise  # otherwise the first try succeeded, and only its response was lost

        aside(answered, put, str(self))

    def write_file(self, path: Path) -> None:
        """Write the content of a file atomically; large files are uploaded in several parts."""
        import obstore

        if path.stat().st_size < MULTIPART_NBYTES:
            return self.write_bytes(path.read_bytes())
        client = self.client
        aside(answered, lambda: obstore.put(client, self.key, path, max_concurrency=4), str(self))
        return None

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object."""
        import obstore

        client = self.client
        try:
            aside(answered, lambda: obstore.delete(client, self.key), str(self))
        except FileNotFoundError:
            if not missing_ok:
                raise

    def open(self, mode: str = "rb", buffering: int = -1) -> BinaryIO:
        """Open the object for reading: a seekable stream that prefetches when read sequentially."""
        if mode != "rb":
            raise ValueError(f"expected mode 'rb', found {mode!r}")
        status = self.stat()
        stream = ObjectStream(self.client, self.key, str(self), status.st_size, status.e_tag)
        return stream if buffering == 0 else io.BufferedReader(stream, 1 << 17)  # type: ignore[return-value]


def _expression(pattern: str) -> str:
    """Return a path pattern as a regular expression."""
    found, k = "", 0
    while k < len(pattern):
        if pattern.startswith("**/", k):
            found, k = found + "(?:.*/)?", k + 3
        elif pattern[k] == "*":
            found, k = found + "[^/]*", k + 1
        elif pattern[k] == "?":
            found, k = found + "[^/]", k + 1
        elif pattern[k] == "[" and "]" in pattern[k + 1 :]:
            end = pattern.index("]", k + 1)
            found, k = found + "[" + pattern[k + 1 : end].replace("!", "^", 1) + "]", end + 1
        else:
            found, k = found + re.escape(pattern[k]), k + 1
    return found
