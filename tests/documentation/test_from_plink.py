"""The commands of "From plink to plink" run as they stand, and plink2's score is the prediction of `daskfs apply`."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.genotype_files import write_phenotypes, write_plink

PAGE = Path(__file__).parents[2] / "docs" / "genotypes.md"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("plink2") is None, reason="needs plink2 (Debian package plink2)")
def test_commands_from_plink_to_plink_run(tmp_path):
    section = PAGE.read_text(encoding="utf-8").split("## From plink to plink")[1]
    (script,) = re.findall(r"^```bash\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    rng = np.random.default_rng(0)
    dosages, age = rng.binomial(2, rng.uniform(0.1, 0.9, 300), (400, 300)), rng.integers(20, 90, 400).astype(float)
    height = 170 + 3.0 * dosages[:, 3] - 2.0 * dosages[:, 40] + 0.1 * age + rng.normal(size=400)
    dosages[rng.random(dosages.shape) < 0.02] = -1
    write_plink(tmp_path / "raw.bed", dosages)
    write_phenotypes(tmp_path / "ph.txt", {"height": height, "age": age})
    new = rng.binomial(2, 0.4, (60, 300))
    new[rng.random(new.shape) < 0.05] = -1
    write_plink(tmp_path / "new.bed", new)
    python = f"{shlex.quote(sys.executable)} -m daskfs"

    def bash(code):
        code = f'set -eu\ndaskfs() {{ {python} "$@"; }}\n{code}'
        done = subprocess.run(["bash", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    bash(script)
    covariates = {name: rng.normal(size=60) for name in ("age", "PC1", "PC2", "PC3", "PC4")}
    write_phenotypes(tmp_path / "new.cov", covariates)
    bash("daskfs apply runs/height new.bed --covariates new.cov -o ours.csv")
    ours = pd.read_csv(tmp_path / "ours.csv")["prediction"].to_numpy()
    theirs = pd.read_csv(tmp_path / "new.sscore", sep="\t")["SCORE1_SUM"].to_numpy()
    others = pd.read_csv(tmp_path / "runs" / "height" / "score_covariates.txt", sep="\t").set_index("NAME")["BETA"]
    ours = ours - others.pop("(intercept)") - sum(beta * np.float32(covariates[name]) for name, beta in others.items())
    assert {"rs3", "rs40"} <= {*pd.read_csv(tmp_path / "runs" / "height" / "selected.csv")["name"]}
    np.testing.assert_allclose(theirs, ours, rtol=6e-6, atol=1e-4)  # plink2 writes six digits
