"""The sources of a kernel's machine code: its own file and all files of daskfs that it imports.

numba recompiles a function when its own file changes, but not when a function that it calls in another file changes, or
an imported constant: constants are frozen at compile time. A change of a file gives new stamps to its module and to all
modules that import it, directly or indirectly, and to no others.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from contextlib import suppress
from pathlib import Path

PACKAGES = Path(__file__).parents[2]
"""The folder that contains daskfs."""


@functools.cache
def stamp_of(module: str, packages: Path = PACKAGES) -> str:
    """Return a digest of the sources that the machine code of a module's kernels depends on.

    Parameters
    ----------
    module : str
        A dotted name below ``daskfs``.
    packages : Path
        The folder that contains daskfs.

    Examples
    --------
    >>> stamp_of("daskfs.kernels.linear.columns") == stamp_of("daskfs.kernels.linear.linalg")
    False
    """
    digest = hashlib.sha256()
    for name in sorted(modules_behind(module, packages)):
        digest.update(name.encode() + b"\0" + _read(name, packages)[0])
    return digest.hexdigest()[:16]


@functools.cache
def stamp_of_all() -> str:
    """Return a digest of all sources of daskfs."""
    digest = hashlib.sha256()
    for path in sorted((PACKAGES / "daskfs").rglob("*.py")):
        digest.update(
            path.relative_to(PACKAGES).as_posix().encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest()
        )
    return digest.hexdigest()[:16]


def modules_behind(module: str, packages: Path = PACKAGES) -> set[str]:
    """Return a module and all modules of daskfs that it imports, directly or indirectly, also in circles."""
    found, to_read = {module}, [module]
    while to_read:
        for name in _read(to_read.pop(), packages)[1] - found:
            found.add(name)
            to_read.append(name)
    return found


def parsed(source: str | bytes) -> ast.Module:
    """Return the syntax tree of a file.

    Python before 3.11.8 fails (gh-106905) if the garbage collector runs meanwhile and a finalizer parses too, for
    example by logging an exception. That garbage is then gone, and a second try succeeds.
    """
    for _ in range(9):
        with suppress(SystemError):
            return ast.parse(source)
    return ast.parse(source)


@functools.cache
def _read(module: str, packages: Path) -> tuple[bytes, frozenset[str]]:
    """Return the digest of a module's file, and the modules of daskfs that it imports anywhere.

    It is read once, when the module or one that needs it is imported. Later changes are not what this process runs.
    """
    path = _file_of(module, packages)
    assert path is not None, module
    source = path.read_bytes()
    named: set[str] = set()
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            named.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:
                package = module.split(".") if path.stem == "__init__" else module.split(".")[:-1]
                origin = ".".join([*package[: len(package) - node.level + 1], *filter(None, [origin])])
            inside = [f"{origin}.{alias.name}" for alias in node.names]
            named.update(name if _file_of(name, packages) else origin for name in inside)  # a module, or a name in one
    ours = (name for name in named if name.split(".")[0] == "daskfs")
    return hashlib.sha256(source).digest(), frozenset(name for name in ours if _file_of(name, packages))


def _file_of(module: str, packages: Path) -> Path | None:
    path = packages.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)
