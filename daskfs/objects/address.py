"""URLs of objects: recognised, and shown without secrets."""

from __future__ import annotations

import re
from typing import Any

SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss", "http", "https", "memory")
"""Supported schemes; ``memory://`` is private to the process."""
READ_ONLY = ("http", "https")

_URL = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://")
_IN_TEXT = re.compile(
    r"""([A-Za-z][A-Za-z0-9+.-]*://)([^\s/?#@'"<>]*@)?([^\s?#'"<>]*)(\?(?:[^\s'"<>#]*[^\s'"<>#;,.)])?)?"""
)
_ASSIGNED = re.compile(
    r"""(\b\w*(?:secret|token|passw|credential|signature|_key)\w*=)("[^"]*"|'[^']*'|[^\s"';&|$]+)""", re.IGNORECASE
)
"""An assignment of a secret in a shell command."""


def is_url(path: Any) -> bool:
    """Return whether a path is a URL rather than the path of a file.

    Examples
    --------
    >>> is_url("s3://bucket/genes.zarr"), is_url("data/genes.zarr"), is_url("sklearn:diabetes")
    (True, False, False)
    """
    return isinstance(path, str) and _URL.match(path) is not None


def redacted(text: str) -> str:
    """Return a text without passwords and queries (which sign requests) in URLs, and without secrets in shell commands.

    Examples
    --------
    >>> redacted("no answer from https://me:secret@host/a.csv?X-Amz-Signature=123; try again")
    'no answer from https://***@host/a.csv?***; try again'
    >>> redacted("abfs://container@account.dfs.core.windows.net/x.zarr")
    'abfs://container@account.dfs.core.windows.net/x.zarr'
    >>> redacted('export API_TOKEN="a b"; export HF_TOKEN=$TOKEN N=3')
    'export API_TOKEN=***; export HF_TOKEN=$TOKEN N=3'
    """
    return _ASSIGNED.sub(r"\1***", _IN_TEXT.sub(_shown, text))


def _shown(match: re.Match[str]) -> str:
    scheme, user, rest, query = match.groups()
    is_secret = bool(user) and (":" in user or scheme[:-3].lower() in READ_ONLY)
    return f"{scheme}{'***@' if is_secret else user or ''}{rest}{'?***' if query else ''}"
