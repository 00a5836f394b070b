"""What an interrupted run leaves behind, so that it continues where it stopped: small arrays, one file per piece."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from daskfs.errors import RunError

_SETTINGS = "settings.json"


class Checkpoint:
    """Named sets of arrays in a folder.

    Each is written whole or not at all, whatever kills the process.

    Parameters
    ----------
    folder : Path
        Made when the first arrays are saved.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def is_empty(self) -> bool:
        """Whether nothing was computed yet."""
        return not any(self.folder.rglob("*.npz"))

    def part(self, label: str) -> Checkpoint:
        """Return a checkpoint inside this one, for one selection of several."""
        return Checkpoint(self.folder / label)

    def save(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep some arrays under a name.

        Raises
        ------
        RunError
            They cannot be written, because the disk is full for example.
        """
        buffer = io.BytesIO()
        named: dict[str, Any] = {key: np.asarray(value) for key, value in arrays.items()}
        np.savez(buffer, **named)
        _write_whole(self.folder / f"{name}.npz", buffer.getvalue())

    def load(self, name: str) -> dict[str, np.ndarray] | None:
        """Return the arrays kept under a name; None where there are none, or the file is damaged."""
        try:
            content = io.BytesIO((self.folder / f"{name}.npz").read_bytes())
            with np.load(content, allow_pickle=False) as arrays:
                return {key: arrays[key] for key in arrays.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile):
            return None

    def claim(self, settings: Mapping[str, Any]) -> None:
        """Bind the checkpoint to what its arrays depend on, or check that it is bound to the same.

        Parameters
        ----------
        settings : mapping
            As JSON can hold it.

        Raises
        ------
        RunError
            It was made with other settings; the message names the first that differs.
        """
        path = self.folder / _SETTINGS
        wanted = json.loads(json.dumps(settings))
        if not path.exists():
            _write_whole(path, json.dumps(wanted, indent=2).encode())
            return
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as fault:
            raise RunError(f"cannot be read: {fault}", str(path), "start again with --force") from None
        if found != wanted:
            key, before, now = _first_difference(found, wanted)
            raise RunError(
                f"the interrupted run had {key} = {before!r}, now it is {now!r}",
                str(self.folder.parent),
                "resume with the settings it was started with, or start again with --force",
            )


def _write_whole(path: Path, content: bytes) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as fault:
        temporary.unlink(missing_ok=True)
        problem = f"cannot keep a checkpoint: {fault.strerror}"
        raise RunError(problem, str(path), "free space, mend the rights, or choose another output") from fault


def _first_difference(found: Any, wanted: Any, key: str = "") -> tuple[str, Any, Any]:
    if isinstance(found, dict) and isinstance(wanted, dict):
        for name in [*wanted, *found]:
            if found.get(name) != wanted.get(name):
                return _first_difference(found.get(name), wanted.get(name), f"{key}.{name}".strip("."))
    return key or "settings", found, wanted
