"""Where compiled kernels are kept, what they take in memory, and the decorator that makes a function one of them.

numba keeps machine code beside the source. Where that folder cannot be written (a system-wide installation, a read-only
container) and there is no home, it refuses to import; so a folder of this user and this machine is named instead. And
it compiles a function again when its own file has changed, but not when a function that it calls, in another file, has:
an update would run old code. So the folder's name holds a digest of all kernels' sources.
"""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _can_write(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _is_private(folder: Path) -> bool:
    """Whether nobody else can have put machine code there."""
    found = folder.stat()
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def choose_cache_directory(beside_source: Path) -> Path:
    """Return the folder in which to keep compiled kernels.

    Parameters
    ----------
    beside_source : Path
        numba's first choice, the ``__pycache__`` of this package.

    Returns
    -------
    Path
        The first that can be written of: ``NUMBA_CACHE_DIR``, `beside_source`, a folder of this machine in the user's
        cache, one of this user in the temporary folder, a new temporary folder.
    """
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(chosen)
    if _can_write(beside_source):
        return beside_source
    home_cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 (never raises)
    candidates = [
        Path(home_cache) / "daskfs" / f"numba-{socket.gethostname()}",
        Path(tempfile.gettempdir()) / f"daskfs-numba-{os.getuid()}",
    ]
    for folder in candidates:
        if folder.is_absolute() and _can_write(folder) and _is_private(folder):
            return folder
    return Path(tempfile.mkdtemp(prefix="daskfs-numba-"))


def source_digest(folder: Path) -> str:
    """Return a digest of all Python files of a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


_HERE = Path(__file__).parent
CACHE_DIRECTORY = choose_cache_directory(_HERE / "__pycache__") / f"kernels-{source_digest(_HERE)}"


def load_numba_without_blas() -> None:
    """Load numba's array functions without SciPy's BLAS, which takes 15 MiB and which no kernel calls.

    numba imports scipy.linalg only to see whether it is there. Only in worker processes that daskfs starts itself
    (DASKFS_OWN_WORKER is set): elsewhere a user's own numba functions may need it. Without effect where scipy.linalg is
    loaded already.
    """
    if "scipy.linalg" in sys.modules:
        return
    sys.modules["scipy.linalg"] = None  # type: ignore[assignment]  # an import of it fails, as if it were not there
    try:
        import numba.np.arraymath  # noqa: F401
    finally:
        del sys.modules["scipy.linalg"]


if os.environ.get("DASKFS_OWN_WORKER"):
    load_numba_without_blas()


def _compiled(function: Callable[..., Any], fastmath: bool | set[str]) -> Callable[..., Any]:
    """Decorate with numba's cache in our folder; other people's functions keep theirs."""
    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = str(CACHE_DIRECTORY)
    try:
        compiled: Callable[..., Any] = numba.njit(cache=True, nogil=True, fastmath=fastmath)(function)
    finally:
        config.CACHE_DIR = before
    return compiled


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function when first called, keep the machine code on disk, release the GIL while it runs.

    No fastmath: every sum has one order, so the same block gives the same bits in every process.
    """
    return _compiled(function, fastmath=False)


def inner_loop(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a dot product or a sum of rows, where a kernel spends its time.

    As `kernel`, but a product and a sum may round once instead of twice, and a dot product may be summed in lanes. Its
    order depends on the processor's instructions alone: the same bits in every thread and process of one kind of
    machine. NaN and infinity are respected.
    """
    return _compiled(function, fastmath={"contract", "reassoc", "nsz"})


def elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a formula of each element, an exponential say: as `kernel`, but a product and a sum may round once."""
    return _compiled(function, fastmath={"contract"})


@intrinsic
def prefetch(typing_context, array, index):  # type: ignore[no-untyped-def]
    """Ask the processor to bring ``array[index]`` near, without waiting for it; `index` must be within the array."""
    signature = types.void(array, index)

    def generate(context, builder, _, arguments):  # type: ignore[no-untyped-def]
        struct = context.make_array(array)(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(struct.data, [arguments[1]]), ir.IntType(8).as_pointer())
        integer = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, integer, integer, integer])
        function = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        builder.call(function, [place, *(ir.Constant(integer, number) for number in (1, 3, 1))])  # to write, keep, data
        return context.get_dummy_value()

    return signature, generate
