"""Run everything, piece by piece, and end with one page: each folder of tests whole, fuzzing, storms, other Pythons.

    python3 .ci/nightly.py [PIECE ...]       all, those named, or those that begin so; none that ended at this commit
    python3 .ci/nightly.py --again          those that failed, too

Works in .venv-test, which the README's test command makes. Logs and the page are in nightly/<commit>/.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHON = str(ROOT / ".venv-test" / "bin" / "python")
PYTEST = [PYTHON, "-m", "pytest", "-n", "2", "-m", ""]
LIMITED = ["bash", "-c", 'ulimit -v 16000000 && exec "$@"', "limited"]  # fuzzing, in KiB


def pieces() -> dict[str, list[str]]:
    """Return the commands by their names."""
    folders = sorted({path.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").rglob("*/test_*.py")})
    found = {}
    for name in folders:
        found[f"tests/{name}"] = [*(LIMITED if name == "faults" else []), *PYTEST, f"tests/{name}"]
    found["tests"] = [*PYTEST, *(f"tests/{path.name}" for path in sorted((ROOT / "tests").glob("test_*.py")))]
    found["fuzzing"] = [*LIMITED, *PYTEST, "-m", "hypothesis", "--hypothesis-profile=explore", "--timeout=7200"]
    for campaign in ("storms", "kills", "losses"):
        found[campaign] = [*LIMITED, PYTHON, "benchmarks/faults.py", "--only", campaign]
    for version in ("3.12", "3.13", "3.14"):
        found[f"python {version}"] = ["bash", "-euo", "pipefail", "-c", OTHER_PYTHON, "other", version]
    return found


OTHER_PYTHON = """
for candidate in "python$1" "$(pyenv prefix "$1" 2> /dev/null || true)/bin/python$1"; do
    "$candidate" -c 'import ensurepip, venv' 2> /dev/null && found="$candidate" && break
done
[ -n "${found:-}" ] || { echo "python $1 was not found"; exit 77; }
rm -rf ".venv-nightly-$1"
"$found" -m venv ".venv-nightly-$1"
".venv-nightly-$1/bin/pip" install --quiet --upgrade --upgrade-strategy eager --editable ".[test]"
".venv-nightly-$1/bin/python" -m pytest -n 2
"""


def run(name: str, command: list[str], folder: Path) -> dict[str, object]:
    """Run one piece, with a log beside its result."""
    began = time.time()
    log = folder / f"{name.replace('/', '-').replace(' ', '-')}.log"
    with log.open("wb") as out:
        done = subprocess.run(
            command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False
        )
    lines = [line.strip("= \n") for line in log.read_text(errors="replace").splitlines() if line.strip()]
    outcome = {0: "passed", 77: "left out"}.get(done.returncode, f"FAILED ({done.returncode})")
    end = lines[-1].replace("|", "/") if lines else ""
    return {"outcome": outcome, "seconds": round(time.time() - began), "end": end, "log": log.name}


def main() -> int:
    """Run what is asked for and has not ended; return how many pieces failed."""
    again, words = "--again" in sys.argv, [word for word in sys.argv[1:] if not word.startswith("-")]
    git = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    folder = ROOT / "nightly" / commit
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / "results.json"
    results = json.loads(state.read_text()) if state.exists() else {}
    every = pieces()
    beginnings = tuple(word for word in words or [""] if word not in every)
    for name, command in every.items():
        is_done = name in results and not (again and results[name]["outcome"].startswith("FAILED"))
        if is_done or not (name in words or name.startswith(beginnings)):
            continue
        print(f"{time.strftime('%H:%M')} {name} ...", flush=True)
        results[name] = run(name, command, folder)
        print(f"      {results[name]['outcome']}, {results[name]['seconds']} s: {results[name]['end']}", flush=True)
        unfinished = state.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(results, indent=1))
        unfinished.replace(state)
    data = "is set" if os.environ.get("DASKFS_DATA") else "is unset: tests of real data skip"
    page = [f"# Nightly at {commit}", "", f"DASKFS_DATA {data}.", ""]
    page += ["| piece | outcome | seconds | last line | log |", "|---|---|---:|---|---|"]
    for name in every:
        columns = ("outcome", "seconds", "end", "log")
        told = [str(results[name][column]) for column in columns] if name in results else ["not run", "", "", ""]
        page.append(f"| {name} | {' | '.join(told)} |")
    (folder / "page.md").write_text("\n".join(page) + "\n")
    print(folder / "page.md")
    return sum(one["outcome"].startswith("FAILED") for one in results.values())


if __name__ == "__main__":
    sys.exit(main())
