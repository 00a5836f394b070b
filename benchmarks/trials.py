"""Six new users at work, by commands that README and the pages behind it name: what runs at once, and in what time.

    DASKFS_DATA=... python benchmarks/trials.py [--only analyst ...] [--keep FOLDER]

An analyst with a messy table, a data scientist with a frame, a geneticist with a cohort, someone with texts and clicks,
someone with a cluster, and a contributor. Each step is a shell command in a fresh folder. Some are to be refused, as
what users try; then the command that the error prints is run as printed. Counted are the steps that ended as they
should, the attempts and the minutes; the reports stay in FOLDER.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
PRINTED = re.compile(r"`(daskfs [^`]*)`")


@dataclass
class Step:
    """A shell command; `refused` is a word of the error that is expected, after which `then` is tried."""

    command: str
    refused: str = ""
    then: str = ""
    """Another command; ``"as printed"``: the one in backticks that the error names."""


@dataclass
class Trial:
    """What one user does; `prepare` writes the data into the folder."""

    user: str
    prepare: str
    steps: list[Step]
    pages: list[str] = field(default_factory=list)


FIT_A_FRAME = """
import pandas as pd, daskfs, sys
frame = pd.read_csv("houses.csv")
y = frame.pop("price")
selector = daskfs.FGM(6, schema=None if len(sys.argv) < 2 else sys.argv[1]).fit(frame, y)
print(selector.result_.table[["name", "coef"]])
selector.result_.plot().figure.savefig("effects.png")
print(selector.predict(frame.head()))
from sklearn.model_selection import cross_val_score
print(cross_val_score(daskfs.FGM(6, schema="judge"), frame, y, cv=3).mean())
"""
STOP_IN_THE_MIDDLE = """
import signal, subprocess, sys, time
from pathlib import Path
run = subprocess.Popen(
    ["daskfs", *sys.argv[1:]], stderr=subprocess.PIPE, text=True,
    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
)
while run.poll() is None and not list(Path(".").rglob("*.unfinished/checkpoint/m0/*.npz")):
    time.sleep(0.01)
run.send_signal(signal.SIGINT)
sys.stderr.write(run.communicate()[1])
sys.exit(run.returncode)
"""

TRIALS = [
    Trial(
        "analyst",
        "messy",
        [
            Step("daskfs init sales.csv --target revenue"),
            Step("daskfs validate sales.yaml"),
            Step("daskfs plan sales.yaml"),
            Step("daskfs run sales.yaml"),
            Step("daskfs run sales.yaml", "a finished run already exists", "daskfs run sales.yaml --force"),
            Step("daskfs apply runs/sales new.csv -o predictions.csv"),
            Step("daskfs export runs/sales --as sql -o query.sql"),
            Step("daskfs init letters.jsonl", "texts need no schema", "as printed"),
        ],
        ["runs/sales/report.html"],
    ),
    Trial(
        "data scientist",
        "frame",
        [
            Step("python fit.py", "expected a value, found a missing value", "python fit.py judge"),
            Step("daskfs select houses.csv --target price --method auto --output runs/auto"),
            Step("daskfs report runs/auto"),
        ],
        ["effects.png", "runs/auto/report.html"],
    ),
    Trial(
        "geneticist",
        "cohort",
        [
            Step("daskfs init genotypes/mice.bed --phenotypes genotypes/mice.pheno --target BMI"),
            Step("daskfs validate mice.yaml"),
            Step("daskfs run mice.yaml"),
            Step("daskfs run mice.yaml --set select.method=fgm --set output=runs/fgm"),
            Step("daskfs apply runs/mice genotypes/mice.bed -o predictions.csv"),
        ],
        ["runs/mice/report.html"],
    ),
    Trial(
        "text and clicks",
        "lines",
        [
            Step("daskfs ingest sms.jsonl sms.zarr --target label"),
            Step("daskfs select sms.zarr --method fgm --n-features 50 --output runs/sms"),
            Step("daskfs apply runs/sms new.jsonl -o spam.csv"),
            Step("zcat a9a.libsvm.gz | daskfs select - --format libsvm --method mission --n-features 30"),
            Step("daskfs ingest a9a.libsvm.gz a9a.zarr"),
            Step("daskfs select a9a.zarr --method mission --n-features 30 --output runs/a9a"),
            Step("daskfs apply runs/a9a unlabelled.libsvm -o a9a.csv"),
        ],
        ["runs/sms/report.html"],
    ),
    Trial(
        "cluster",
        "stored",
        [
            Step(
                "daskfs run job.yaml --scheduler tcp://127.0.0.1:9 --set cluster.connect_timeout_s=2",
                "no scheduler answers",
            ),
            Step(
                "(dask scheduler --port 18787 > scheduler.log 2>&1 &) ; (dask worker tcp://127.0.0.1:18787 "
                "--nworkers 2 --nthreads 1 > worker.log 2>&1 &) ; daskfs run job.yaml "
                "--scheduler tcp://127.0.0.1:18787 --set cluster.wait_timeout_s=60"
            ),
            Step("daskfs watch runs/job"),
            Step("python stop.py run job.yaml --set output=runs/stopped", "continue with", "as printed"),
            Step("pkill -f 'dask (scheduler --port 18787|worker tcp://127.0.0.1:18787)'"),
        ],
        ["runs/job/report.html"],
    ),
    Trial(
        "contributor",
        "clone",
        [
            Step("python -m pytest -q tests/test_house.py tests/test_style.py"),
            Step("python -m pytest -q tests/test_recipes.py"),
            Step("python -m pytest -q --changed HEAD"),
            Step("python -m ruff check ."),
        ],
    ),
]


def messy(folder: Path) -> None:
    """Write a table with amounts, two formats of dates, missing values, yes and no, an identifier; and new rows."""
    rng = np.random.default_rng(0)
    n = 5_000
    days = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")
    visits, is_open = rng.gamma(3.0, 100.0, n).round(1), rng.random(n) < 0.5
    town = rng.choice([f"town{k}" for k in range(40)], n)
    revenue = 20.0 * visits + 3000.0 * is_open + 2000.0 * (days.month == 12) + 500.0 * rng.standard_normal(n)
    frame = pd.DataFrame(
        {
            "row_id": np.arange(n),
            "day": np.where(rng.random(n) < 0.8, days.strftime("%Y-%m-%d"), days.strftime("%d.%m.%Y")),
            "visits": np.where(rng.random(n) < 0.05, "", visits.astype(str)),
            "open": np.where(is_open, "yes", "no"),
            "town": town,
            "rent": [f"${value:,.2f}" for value in rng.gamma(2.0, 900.0, n)],
            "revenue": [f"{value:,.2f} EUR" for value in revenue],
        }
    )
    frame.to_csv(folder / "sales.csv", index=False)
    frame.drop(columns="revenue").head(100).to_csv(folder / "new.csv", index=False)
    lines = [json.dumps({"text": f"letter {k % 7} of {k % 3}", "label": k % 2}) for k in range(50)]
    (folder / "letters.jsonl").write_text("\n".join(lines) + "\n")


def frame(folder: Path) -> None:
    """Write a table with texts and missing values, and the script that fits it."""
    rng = np.random.default_rng(1)
    n = 2_000
    area, rooms = rng.gamma(4.0, 30.0, n), rng.integers(1, 7, n).astype(float)
    kind = rng.choice(["flat", "house", "loft"], n)
    price = 2000.0 * area + 9000.0 * rooms + 60_000.0 * (kind == "house") + 10_000.0 * rng.standard_normal(n)
    rooms[rng.random(n) < 0.1] = np.nan
    noise = {f"noise{k}": rng.standard_normal(n) for k in range(20)}
    pd.DataFrame({"area": area, "rooms": rooms, "kind": kind, **noise, "price": price}).to_csv(
        folder / "houses.csv", index=False
    )
    (folder / "fit.py").write_text(FIT_A_FRAME)


def cohort(folder: Path) -> None:
    """Write the genotypes of mice as PLINK's files."""
    script = [sys.executable, str(ROOT / "benchmarks" / "genotypes_real.py"), "--only", "mice", "--write", str(folder)]
    subprocess.run(script, check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})


def lines(folder: Path) -> None:
    """Write messages as JSON lines, with labels and without; entries of LIBSVM, too."""
    data = Path(os.environ["DASKFS_DATA"])
    with gzip.open(data / "text_smsspam" / "SMSSpamCollection.gz", "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").partition("\t")[::2] for line in file]
    (folder / "sms.jsonl").write_text(
        "".join(json.dumps({"text": text, "label": label}) + "\n" for label, text in rows)
    )
    (folder / "new.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for _, text in rows[:200]))
    shutil.copy(data / "libsvm_a9a" / "a9a_123d_train.libsvm.gz", folder / "a9a.libsvm.gz")
    with gzip.open(folder / "a9a.libsvm.gz", "rt") as file:
        head = [next(file) for _ in range(200)]
    (folder / "unlabelled.libsvm").write_text("".join(line.partition(" ")[2] for line in head))


def stored(folder: Path) -> None:
    """Write a pipeline of data that it draws, and the script that presses Ctrl-C."""
    (folder / "job.yaml").write_text(
        "version: 1\nname: job\nsource: {kind: synthetic, n_samples: 60000, n_features: 300}\n"
        "select:\n"
        + "".join(f"- {{method: message, n_subsets: {k + 4}, label: m{k}}}\n" for k in range(8))
        + "output: runs/job\n"
    )
    (folder / "stop.py").write_text(STOP_IN_THE_MIDDLE)


def clone(folder: Path) -> None:
    """Clone the project, with a change."""
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder / "clone")], check=True)
    leaf = folder / "clone" / "daskfs" / "applied" / "export.py"
    leaf.write_text(leaf.read_text() + "\n")


def run(command: str, folder: Path) -> tuple[int, str]:
    """Run a shell command; return its exit code and all that it wrote."""
    here = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    place = folder / "clone" if (folder / "clone").exists() else folder
    done = subprocess.run(
        command,
        shell=True,
        cwd=place,
        env={**os.environ, **here},
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    return done.returncode, done.stdout + done.stderr


def tried(step: Step, folder: Path) -> tuple[bool, int, str]:
    """Return whether a step ended as it should, in how many attempts, and what was said last."""
    code, said = run(step.command, folder)
    if not step.refused:
        return code == 0, 1, said
    if code == 0 or step.refused not in said:
        return False, 1, said
    if not step.then:
        return True, 1, said
    command = PRINTED.findall(said)[0] if step.then == "as printed" else step.then
    code, said = run(command, folder)
    return code == 0, 2, said


def main() -> None:
    """Run the trials and print a table; exit with 1 where a step did not end as it should."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[trial.user for trial in TRIALS])
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    kept = Path(tempfile.mkdtemp(prefix="daskfs-trials-")) if given.keep is None else given.keep
    rows, failed = [], []
    for trial in TRIALS:
        if given.only and trial.user not in given.only:
            continue
        folder = kept / trial.user.replace(" ", "_")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        globals()[trial.prepare](folder)
        since, n_good, n_attempts = time.monotonic(), 0, 0
        for step in trial.steps:
            is_good, attempts, said = tried(step, folder)
            n_good, n_attempts = n_good + is_good, n_attempts + attempts
            print(f"{trial.user}: {step.command[:90]}: {'as expected' if is_good else 'NOT AS EXPECTED'}", flush=True)
            if not is_good:
                failed.append(f"{trial.user}: {step.command}\n{said[-2000:]}")
        pages = [page for page in trial.pages if (folder / page).exists()]
        minutes = (time.monotonic() - since) / 60.0
        rows.append(
            f"| {trial.user} | {n_good} of {len(trial.steps)} | {n_attempts} | {minutes:.1f} | {', '.join(pages)} |"
        )
    print("\n| user | steps as expected | attempts | minutes | pages |\n|---|---|---|---|---|")
    print("\n".join(rows))
    if failed:
        sys.exit("\n\n".join(failed))


if __name__ == "__main__":
    main()
