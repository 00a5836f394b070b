"""Make what the benchmarks measure against and what the extra `bench` cannot hold.

    python -m benchmarks.environments FOLDER [--mission CHECKOUT]

FOLDER gets three things, each of which stays if it is there:

- `numpy1`, an environment with adelie and python-glmnet, which want NumPy before 2: set DASKFS_PEERS_PYTHON to
  FOLDER/numpy1/bin/python. python-glmnet is compiled, which takes a Fortran compiler.
- `anndata`, an environment with anndata, which wants pandas before 3: set DASKFS_ANNDATA_PYTHON to
  FOLDER/anndata/bin/python for tests of cells.
- `mission`, the program of MISSION's authors, compiled twice with all optimisations for this machine: with their 16,383
  active features and with 2,000. Set DASKFS_MISSION to FOLDER/mission. It takes git and g++. CHECKOUT is a clone of
  theirs, where there is no way to fetch one.

What cannot be made is named, and the rest is made all the same.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from functools import partial
from pathlib import Path

MISSION = "https://github.com/rdspring1/MISSION"
CONFIGURED_K = (2000, (1 << 14) - 1)
PARTS = ("fast_parser.cpp", "MurmurHash.cpp", "util.cpp")


def make_numpy1(folder: Path) -> None:
    """Make an environment with the peers that want an older NumPy."""
    venv.create(folder, with_pip=True)
    install = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--prefer-binary"]
    subprocess.run([*install, "numpy<2", "adelie", "scikit-learn", "psutil"], check=True)
    subprocess.run([*install, "numpy<2", "setuptools", "wheel"], check=True)
    subprocess.run([*install, "numpy<2", "python-glmnet"], check=True)


def make_anndata(folder: Path) -> None:
    """Make an environment with anndata, which wants an older pandas."""
    venv.create(folder, with_pip=True)
    subprocess.run(
        [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "anndata", "pandas<3"], check=True
    )


def make_mission(checkout: Path | None, folder: Path) -> None:
    """Compile the authors' program behind our clock, once for each number of active features."""
    if checkout is None:
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", MISSION, str(folder)], check=True)
    else:
        subprocess.run(["git", "clone", "--quiet", str(checkout), str(folder)], check=True)
    sources = folder / "src"
    shutil.copy(Path(__file__).with_name("mission_original.cpp"), sources)
    program = sources / "mission_logistic.cpp"
    text = program.read_text()
    options = ["-std=c++14", "-O3", "-march=native", "-Iinclude", "-fopenmp", "-pthread", "-w"]
    for k in CONFIGURED_K:
        changed, count = re.subn(r"const size_t TOPK = [^;]*;", f"const size_t TOPK = {k};", text)
        if count != 1:
            raise ValueError(f"{program}: expected one line that sets TOPK, found {count}")
        program.write_text(changed)
        command = ["g++", *options, "mission_original.cpp", *PARTS, "-o", str(folder / f"original_{k}")]
        subprocess.run(command, check=True, cwd=sources)
    program.write_text(text)


def main() -> int:
    """Make what is missing; return how many could not be made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mission", type=Path, metavar="CHECKOUT", help="a clone of the authors' repository")
    options = parser.parse_args()
    makers: dict[str, Callable[[Path], None]] = {
        "numpy1": make_numpy1,
        "anndata": make_anndata,
        "mission": partial(make_mission, options.mission),
    }
    n_failed = 0
    for name, make in makers.items():
        target = options.folder.resolve() / name
        if target.exists():
            print(f"{target}: is there")
            continue
        unfinished = target.with_name(f"{name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        try:
            make(unfinished)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            n_failed += 1
            print(f"{target}: could not be made: {error}", file=sys.stderr)
            continue
        unfinished.rename(target)
        print(f"{target}: made")
    return n_failed


if __name__ == "__main__":
    sys.exit(main())
