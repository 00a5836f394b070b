"""Where compiled kernels are kept."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from daskfs import interrupts
from daskfs.kernels import kept
from daskfs.kernels.kept import N_STAMPS, choose_cache_directory, make_stamped, name_with_settings
from daskfs.kernels.sources import modules_behind, parsed
from tests.processes import Process


@pytest.fixture
def read_only(tmp_path):
    """A path below a file: nobody can make it a folder, not even root."""
    (tmp_path / "file").touch()
    return tmp_path / "file" / "__pycache__"


def test_beside_the_source_where_that_can_be_written(tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    assert choose_cache_directory(tmp_path / "__pycache__") == tmp_path / "__pycache__"


def test_the_users_own_choice_stands(read_only, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/anywhere")
    assert choose_cache_directory(read_only) == Path("/anywhere")


def test_otherwise_in_the_users_cache(read_only, tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = choose_cache_directory(read_only)
    assert folder.parent == tmp_path / "cache" / "daskfs"


def test_without_a_home_in_a_private_temporary_folder(read_only, tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(read_only))
    monkeypatch.setattr(kept.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = choose_cache_directory(read_only)
    assert folder == tmp_path / f"daskfs-numba-{os.getuid()}"


def test_a_folder_that_others_can_write_is_not_trusted(read_only, tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(read_only))
    monkeypatch.setattr(kept.tempfile, "gettempdir", lambda: str(tmp_path))
    open_to_all = tmp_path / f"daskfs-numba-{os.getuid()}"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    folder = choose_cache_directory(read_only)
    assert folder != open_to_all
    folder.rmdir()


def test_settings_of_the_compiler_are_part_of_the_name():
    assert name_with_settings("kernels", {"NUMBA_CACHE_DIR": "/x"}) == "kernels"
    assert name_with_settings("kernels", {"NUMBA_OPT": "0", "NUMBA_BOUNDSCHECK": "../1"}) == "kernels-opt0-boundscheck1"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A daskfs of a few kernels, which tests change between processes."""
    kernels = tmp_path / "daskfs" / "kernels"
    kernels.mkdir(parents=True)
    for name in ("jit", "kept", "intrinsics", "sources"):
        shutil.copy(Path(kept.__file__).with_name(f"{name}.py"), kernels)
    shutil.copy(interrupts.__file__, kernels.parent)
    files = {
        "__init__.py": "",
        "kernels/__init__.py": "",
        "kernels/caller.py": (
            "from daskfs.kernels.called import factor\n\n@kernel\ndef scaled(x):\n    return x * factor()\n"
        ),
        "kernels/called.py": "from daskfs.losses import CODE\n\n@kernel\ndef factor():\n    return CODE\n",
        "kernels/other.py": "@kernel\ndef doubled(x):\n    return x + x\n",
        "losses.py": "CODE = 2.0\n",
    }
    for name, text in files.items():
        head = "from daskfs.kernels.jit import kernel\n" if text.count("@kernel") else ""
        (tmp_path / "daskfs" / name).write_text(head + text)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # else Python may take its own compiled file for the present one
    return tmp_path / "daskfs"


def run_in(package, code):
    """What a new process prints that runs `code`, in lines."""
    code = "from daskfs.kernels.caller import scaled\nfrom daskfs.kernels.other import doubled\n" + code
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=package.parent, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.split()


def replace_in(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


CALLS = """
print(scaled(5.0), doubled(5.0))
print(*[len(kernel.stats.cache_hits) for kernel in (scaled, doubled)])
"""


@pytest.mark.slow
def test_a_change_compiles_what_depends_on_it_and_nothing_else(package):
    """numba alone would run the old `factor`: it looks at the file of the caller only."""
    assert run_in(package, CALLS) == ["10.0", "10.0", "0", "0"]
    assert run_in(package, CALLS) == ["10.0", "10.0", "1", "1"]
    for file, old, new, result, hits in (
        ("kernels/other.py", "x + x", "2.0 * x", "10.0", ["1", "0"]),
        ("losses.py", "CODE = 2.0", "CODE = 33.0", "165.0", ["0", "1"]),
        ("kernels/called.py", "return CODE", "return CODE + 1.0", "170.0", ["0", "1"]),
        ("kernels/jit.py", "nogil=True", "nogil=False", "170.0", ["0", "0"]),
    ):
        replace_in(package / file, old, new)
        assert run_in(package, CALLS) == [result, "10.0", *hits], file


@pytest.mark.slow
def test_settings_of_the_compiler_have_machine_code_of_their_own(package, monkeypatch):
    """numba's files have the same names with and without optimisation, or checks of bounds."""
    for setting, value in (("NUMBA_OPT", "1"), ("NUMBA_BOUNDSCHECK", "1")):
        monkeypatch.setenv(setting, value)
        assert run_in(package, CALLS) == ["10.0", "10.0", "0", "0"]
        assert run_in(package, CALLS) == ["10.0", "10.0", "1", "1"]


RECORD = "from typing import NamedTuple\n\nclass Pair(NamedTuple):\n    a: float\n    b: float\n"
OF_A_RECORD = (
    "from daskfs.kernels.jit import kernel\nfrom daskfs.records import Pair\n\n"
    "@kernel\ndef doubled(pair):\n    return pair.a + pair.a\n"
)


@pytest.mark.slow
def test_a_record_whose_fields_change_places_compiles_again(package):
    (package / "records.py").write_text(RECORD)
    (package / "kernels" / "other.py").write_text(OF_A_RECORD)
    code = "from daskfs.records import Pair; print(doubled(Pair(a=1.0, b=2.0)), len(doubled.stats.cache_hits))"
    assert run_in(package, code) == ["2.0", "0"]
    replace_in(package / "records.py", "    a: float\n    b: float\n", "    b: float\n    a: float\n")
    assert run_in(package, code) == ["2.0", "0"]
    assert run_in(package, code) == ["2.0", "1"]


@pytest.mark.slow
def test_a_record_that_the_kernels_file_does_not_import_is_warned_of(package):
    """Else machine code on disk would outlive a change of its fields."""
    (package / "records.py").write_text(RECORD)
    (package / "kernels" / "other.py").write_text(OF_A_RECORD.replace("from daskfs.records import Pair\n", ""))
    code = (
        "import warnings\nfrom daskfs.records import Pair\nwith warnings.catch_warnings(record=True) as found:\n"
        "    doubled(Pair(1.0, 2.0))\nprint(*[warning.message for warning in found])"
    )
    assert "Pair," in run_in(package, code)


@pytest.mark.slow
def test_two_processes_compile_at_once_and_both_are_kept(package):
    """An index that both read, change and write would lose one, or give one's machine code to the other's types."""
    code = "from daskfs.kernels.other import doubled; import sys; input(); print(doubled({}))"
    command = [sys.executable, "-c"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": package.parent}
    with ExitStack() as stack:
        both = [stack.enter_context(Process([*command, code.format(x)], **pipes)) for x in ("5.0", "2**62")]
        for process in both:  # both have imported, or soon have, when they are told to go
            process.stdin.write("\n")
            process.stdin.flush()
        assert [process.communicate()[0].strip() for process in both] == ["10.0", str(-(2**63))]
    assert run_in(package, "print(doubled(5.0), doubled(2**62), len(doubled.stats.cache_hits))")[-1] == "2"


@pytest.mark.slow
def test_of_two_processes_that_need_the_same_one_compiles_it(package):
    """Whoever comes second waits, and loads what the first has kept."""
    code = "from daskfs.kernels.caller import scaled; input(); print(scaled(5.0), len(scaled.stats.cache_hits))"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": package.parent}
    with ExitStack() as stack:
        both = [stack.enter_context(Process([sys.executable, "-c", code], **pipes)) for _ in range(2)]
        for process in both:
            process.stdin.write("\n")
            process.stdin.flush()
        assert sorted(process.communicate()[0] for process in both) == ["10.0 0\n", "10.0 1\n"]


@pytest.mark.slow
def test_who_cannot_compile_is_not_waited_for(package):
    (package / "kernels" / "other.py").write_text(
        "from daskfs.kernels.jit import kernel\n\n@kernel\ndef inner(x):\n    return x.nothing\n\n"
        "@kernel\ndef doubled(x):\n    return inner(x)\n"
    )
    code = "import numba\ntry:\n    doubled(5.0)\nexcept numba.TypingError:\n    print('failed')"
    assert run_in(package, code + "\n" + code) == ["failed", "failed"]


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_a_file_cut_short_is_compiled_again(package, ending):
    """A machine that goes down as a file is written may leave part of it."""
    assert run_in(package, CALLS)[2:] == ["0", "0"]
    (file,) = package.rglob(f"*scaled-*.{ending}")
    file.write_bytes(file.read_bytes()[:40])
    assert run_in(package, CALLS)[:2] == ["10.0", "10.0"]
    assert run_in(package, CALLS) == ["10.0", "10.0", "1", "1"]


@pytest.mark.slow
def test_what_cannot_be_kept_is_no_error(package):
    """A disk that is full as numba writes: it raises, after it has compiled."""
    code = """
import builtins
def full(path, mode="r", *rest, **named):
    if "w" in mode and ".nb" in str(path):
        raise OSError(28, "No space left on device")
    return plain(path, mode, *rest, **named)
plain, builtins.open = builtins.open, full
"""
    assert run_in(package, code + CALLS) == ["10.0", "10.0", "0", "0"]
    assert run_in(package, CALLS) == ["10.0", "10.0", "0", "0"]


@pytest.mark.slow
@pytest.mark.parametrize("n_most", [0, 300])
def test_a_cache_on_a_full_disk_is_no_error(package, n_most):
    """As a limit of files' sizes: of the copy of a source, or of what numba writes."""
    limit = f"import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nn = {n_most}\n"
    code = f"{limit}resource.setrlimit(resource.RLIMIT_FSIZE, (n, n))\n"
    assert run_in(package, code + CALLS)[:2] == ["10.0", "10.0"]
    assert not [*package.rglob("*.nb[ci]")]
    assert run_in(package, CALLS) == ["10.0", "10.0", "0", "0"]


def test_of_old_sources_the_last_few_are_kept(tmp_path):
    for number in range(N_STAMPS + 3):
        folder = tmp_path / f"{number:02}"
        make_stamped(folder)
        os.utime(folder, (number, number))
    make_stamped(tmp_path / "last")
    kept = {folder.name for folder in tmp_path.iterdir()}
    assert kept == {"last", *(f"{number:02}" for number in range(4, N_STAMPS + 3))}
    make_stamped(tmp_path / "04")
    assert kept == {folder.name for folder in tmp_path.iterdir()}, "one that is there stays, and removes nothing"


def test_imports_are_followed_wherever_they_stand(tmp_path):
    files = {
        "a": "from daskfs.kernels.b import x\n",
        "b": "def f():\n    from daskfs.kernels import (\n        c,\n        not_a_module,\n    )\n",
        "c": "import daskfs.losses\nfrom .d import x\n",
        "d": "from daskfs.kernels.a import y  # in a circle\nimport numpy\n",
        "e": "",
    }
    kernels = tmp_path / "daskfs" / "kernels"
    kernels.mkdir(parents=True)
    (kernels / "__init__.py").touch()
    (kernels.parent / "losses.py").touch()
    for name, text in files.items():
        (kernels / f"{name}.py").write_text(text)
    behind = {"daskfs.losses", "daskfs.kernels", *(f"daskfs.kernels.{name}" for name in "abcd")}
    assert modules_behind("daskfs.kernels.a", tmp_path) == behind
    assert modules_behind("daskfs.kernels.e", tmp_path) == {"daskfs.kernels.e"}


def test_sources_are_read_where_a_finalizer_parses_too(monkeypatch):
    found, parse = [], ast.parse

    def fails_first(source):
        found.append(source)
        if len(found) == 1:
            raise SystemError("AST constructor recursion depth mismatch (before=141, after=193)")
        return parse(source)

    monkeypatch.setattr(ast, "parse", fails_first)
    assert len(parsed("x = 1").body) == 1
    assert len(found) == 2


@pytest.mark.slow
def test_what_is_compiled_is_announced_and_what_is_loaded_is_not(package):
    calls = "from daskfs.kernels.jit import announced\nwith announced(lambda: print('told')):\n    doubled({})"
    assert run_in(package, calls.format("5.0")) == ["told"]
    assert run_in(package, calls.format("5.0")) == []
    assert run_in(package, calls.format("5")) == ["told"], "compiled again, for integers"
