"""Results of genotypes: marginal tests, clumps, pictures, and the score that plink2 computes from the run's files."""

import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.stats import norm, t

import daskfs
from daskfs import OnlineSubstitution, examine_variants
from daskfs.applied.apply import apply
from daskfs.errors import ConfigError, SchemaError
from daskfs.figures import locus, manhattan
from daskfs.pipeline.config import build_pipeline
from daskfs.pipeline.run import run_pipeline
from daskfs.report.html import render_report
from daskfs.result import SelectionResult
from daskfs.sources.plink import PlinkSource
from tests.genotype_files import write_phenotypes, write_plink
from tests.refusals import refused

N, P, WINDOW, R2 = 300, 60, 4_000, 0.3  # some pairs are just so far apart
needs_plink2 = pytest.mark.skipif(shutil.which("plink2") is None, reason="needs plink2 (Debian package plink2)")


def cohort(folder, missing=0.0):
    """Two chromosomes of variants 1,000 base pairs apart, in blocks of five that are alike; a height and a case."""
    rng = np.random.default_rng(5)
    haplotypes = np.repeat(rng.random((N, 2, P // 5)) < rng.uniform(0.15, 0.5, P // 5), 5, axis=2)
    dosages = (haplotypes ^ (rng.random(haplotypes.shape) < 0.06)).sum(axis=1)
    age = rng.integers(20, 90, N).astype(float)  # exact in single precision
    height = 1.2 * dosages[:, 12] - dosages[:, 47] + 0.05 * age + rng.normal(size=N)
    case = 1.0 + (dosages[:, 12] + 0.02 * age + rng.logistic(size=N) > 2.5)  # plink's control and case
    dosages[rng.random(dosages.shape) < missing] = -1
    for chromosome, columns in (("2", slice(P // 2)), ("10", slice(P // 2, P))):
        bed = write_plink(folder / f"chr{chromosome}.bed", dosages[:, columns], names(columns), chromosome)
        lines = [line.split("\t") for line in bed.with_suffix(".bim").read_text().splitlines()]
        moved = [[*line[:3], str(1_000 * (j + 1)), *line[4:]] for j, line in enumerate(lines)]
        bed.with_suffix(".bim").write_text("".join("\t".join(line) + "\n" for line in moved))
    write_phenotypes(folder / "ph.txt", {"height": height, "case": case, "age": age})
    return dosages.astype(float), {"height": height, "case": case - 1.0}, age


def names(columns):
    return [f"rs{j}" for j in range(P)[columns]]


def genotypes(folder, target):
    return PlinkSource(
        [folder / "chr2.bed", folder / "chr10.bed"],
        phenotypes=folder / "ph.txt",
        target=target,
        covariate_names="age",
        missing="mean",
    ).as_matrix()


def fitted(folder, target, **options):
    matrix = genotypes(folder, target)
    loss = "logistic" if target == "case" else "squared"
    selector = OnlineSubstitution(5, loss=loss, always_include=["age"]).fit(matrix)
    return selector, examine_variants(selector, matrix, **{"window_bp": WINDOW, "min_r2": R2} | options), matrix


def test_marginal_statistics_are_those_of_linear_regression_after_the_covariates(tmp_path):
    X, y, age = cohort(tmp_path)
    _, result, _ = fitted(tmp_path, "height")
    table = result.table.set_index("name")
    assert {"rs12", "rs47", "age"} <= set(table.index)
    for name, line in table.drop(index="age").iterrows():
        design = np.column_stack([X[:, int(name[2:])], np.ones(N), age])
        coef, rest = np.linalg.lstsq(design, y["height"], rcond=None)[:2]
        error = np.sqrt(rest[0] / (N - 3) * np.linalg.inv(design.T @ design)[0, 0])
        expected = [coef[0], error, 2 * t.sf(abs(coef[0] / error), N - 3)]
        found = line[["marginal_coef", "marginal_std_error", "marginal_p_value"]].to_numpy(float)
        np.testing.assert_allclose(found, expected, rtol=1e-8)
    assert table.loc["age", ["marginal_coef", "marginal_p_value", "n_in_clump"]].isna().all()


def test_of_two_classes_they_are_the_score_test_of_logistic_regression(tmp_path):
    X, y, age = cohort(tmp_path)
    _, result, _ = fitted(tmp_path, "case", window_bp=None)
    C, case = np.column_stack([np.ones(N), age - age.mean()]), y["case"]
    null = minimize(
        lambda b: np.logaddexp(0, C @ b).sum() - case @ C @ b,
        np.zeros(2),
        jac=lambda b: C.T @ (1 / (1 + np.exp(-C @ b)) - case),
        tol=1e-12,
    ).x
    p = 1 / (1 + np.exp(-C @ null))
    W = p * (1 - p)
    for _, line in result.table[result.table["name"] != "age"].iterrows():
        x = X[:, int(line["name"][2:])]
        U = x @ (case - p)
        V = x @ (W * x) - (x * W) @ C @ np.linalg.solve(C.T @ (W[:, None] * C), C.T @ (W * x))
        expected = [U / V, V**-0.5, 2 * norm.sf(abs(U) / np.sqrt(V))]
        found = line[["marginal_coef", "marginal_std_error", "marginal_p_value"]].to_numpy(float)
        np.testing.assert_allclose(found, expected, rtol=1e-5)  # of the minimiser
    assert result.clumps is None
    assert "n_in_clump" not in result.table


def test_a_clump_has_what_is_near_and_correlated_on_the_same_chromosome(tmp_path):
    X, _, _ = cohort(tmp_path, missing=0.02)
    _, result, matrix = fitted(tmp_path, "height")
    filled = matrix.read(slice(None), np.arange(1, P + 1)).astype(float)
    assert (filled != X).any()
    r2, position = np.corrcoef(filled.T) ** 2, 1_000 * (np.arange(P) % (P // 2) + 1)
    near = np.abs(position[:, None] - position) <= WINDOW
    near &= (np.arange(P) < P // 2)[:, None] == (np.arange(P) < P // 2)
    expected = [
        (name, f"rs{k}", "2" if k < P // 2 else "10", position[k])
        for name in result.table["name"][result.table["name"] != "age"]
        for k in np.flatnonzero(near[int(name[2:])] & (r2[int(name[2:])] >= R2))
        if name != f"rs{k}"
    ]
    clumps = result.clumps
    assert len(expected) > 5
    columns = ["selected", "variant", "chromosome", "position"]
    assert list(clumps[columns].itertuples(index=False, name=None)) == expected
    np.testing.assert_allclose(clumps["r2"], [r2[int(a[2:]), int(b[2:])] for a, b, *_ in expected], rtol=1e-6)
    counts = result.table.set_index("name")["n_in_clump"].drop("age")
    assert counts.to_dict() == {name: sum(one[0] == name for one in expected) for name in counts.index}
    selected = result.table.set_index("name")["marginal_p_value"]
    both = clumps[clumps["variant"].isin(selected.index)]
    np.testing.assert_array_equal(both["marginal_p_value"], selected[both["variant"]])


@pytest.mark.parametrize("columns", [1, 7])
def test_clumps_do_not_depend_on_the_tasks(tmp_path, monkeypatch, columns):
    cohort(tmp_path)
    selector, result, matrix = fitted(tmp_path, "height")
    once = result.clumps
    monkeypatch.setattr("daskfs.pipeline.variants.TASK_COLUMNS", columns)
    monkeypatch.setattr("daskfs.pipeline.windows.BLOCK_NBYTES", 2_000)
    again = examine_variants(selector, matrix, window_bp=WINDOW, min_r2=R2).clumps
    pd.testing.assert_frame_equal(again, once, rtol=1e-9)


@pytest.mark.slow
def test_pictures_have_the_selected_variants_and_stay_small(tmp_path):
    cohort(tmp_path)
    _, result, _ = fitted(tmp_path, "height")
    assert "-log10 marginal p-value" in result.figures()["manhattan"].text
    first = result.evidence.loci[0]
    assert (first.name, len(first.positions)) == (result.table["name"][1], first.n_variants)
    assert f"with {first.name}" in locus(first).text
    assert [kind for kind in result.figures() if kind.startswith("locus")] == [f"locus_{k}" for k in range(1, 5)]

    wide = tmp_path / "wide"
    wide.mkdir()
    rng = np.random.default_rng(0)
    write_plink(wide / "a.bed", rng.integers(0, 3, (40, 20_000)))
    write_phenotypes(wide / "ph.txt", {"height": rng.normal(size=40)})
    matrix = PlinkSource(wide / "a.bed", phenotypes=wide / "ph.txt", target="height").as_matrix()
    selector = OnlineSubstitution(12).fit(matrix)
    selector.result_.scores = rng.random(20_000)
    record = examine_variants(selector, matrix).evidence.manhattan
    assert record.measure == selector.result_.score_kind
    assert record.n_variants == 20_000
    assert len(record.value) <= 1_012
    assert max(record.value) == pytest.approx(selector.result_.scores.max(), rel=1e-3)
    assert {*record.names} - {""} == {*selector.result_.table["name"]}
    assert max(len(one.positions) for one in selector.result_.evidence.loci) <= 150
    page = render_report("wide", {"fit": selector.result_})
    assert len(page) < 1_000_000
    assert f'<svg role="img" aria-label="{manhattan(record).text}' in page


def test_places_that_are_unknown_and_targets_without_tests_are_no_errors(tmp_path):
    cohort(tmp_path)
    for chromosome, position in (("0", "5"), ("3", "-1"), ("3", "0")):
        bim = tmp_path / "chr2.bim"
        lines = [line.split("\t") for line in bim.read_text().splitlines()]
        bim.write_text("".join("\t".join([chromosome, *line[1:3], position, *line[4:]]) + "\n" for line in lines))
        _, result, _ = fitted(tmp_path, "height")
        record, table = result.evidence.manhattan, result.table.set_index("name")
        assert record.chromosomes == (["10"] if chromosome == "0" else ["3", "10"])
        assert table.loc["rs12", "marginal_p_value"] < 1e-6
        assert (table.loc["rs12", "n_in_clump"] > 0) == (position == "0")
        assert ("rs12" in {one.name for one in result.evidence.loci}) == (position == "0")
        manhattan(record).svg  # noqa: B018
    matrix = genotypes(tmp_path, "height")
    selector = OnlineSubstitution(1, always_include=["age"]).fit(matrix)
    result = examine_variants(selector, matrix)
    assert (len(result.clumps), result.evidence.manhattan, result.evidence.loci) == (0, None, [])
    matrix._y = np.digitize(matrix.read_target(), np.quantile(matrix.read_target(), [0.3, 0.6])).astype(float)
    selector = OnlineSubstitution(4, loss="logistic").fit(matrix)
    result = examine_variants(selector, matrix, window_bp=WINDOW, min_r2=R2)
    assert "marginal_coef" not in result.table
    assert result.evidence.manhattan is None
    assert len(result.clumps) > 0
    assert not (result.save(tmp_path / "classes") / "score.txt").exists()


def test_features_without_positions_and_options_out_of_range_are_refused(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4))
    with refused(ConfigError, "parameters", at="online_substitution"):
        examine_variants(OnlineSubstitution(2).fit(X, X[:, 1]), X)
    cohort(tmp_path)
    for option, value in (("window_bp", -1), ("min_r2", 0.0)):
        with refused(ConfigError, "parameters", at=option, naming=[str(value)]):
            fitted(tmp_path, "height", **{option: value})


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on files of which dosages are missing."""
    folder = tmp_path_factory.mktemp("run")
    cohort(folder, missing=0.02)
    source = {"kind": "plink", "path": "chr*.bed", "phenotypes": "ph.txt", "target": "height"}
    document = {
        "version": 1,
        "name": "cohort",
        "source": source | {"covariate_names": ["age"], "missing": "mean"},
        "store": "none",
        "select": {"method": "online_substitution", "n_features_to_select": 5, "always_include": ["age"]},
        "clumps": {"window_bp": WINDOW, "min_r2": R2},
        "output": "run",
    }
    return folder, run_pipeline(build_pipeline(document, "test", folder)).results["online_substitution"]


def test_a_run_folder_has_clumps_scores_and_pictures(run):
    folder, result = run
    loaded = SelectionResult.load(folder / "run")
    pd.testing.assert_frame_equal(loaded.clumps, result.clumps)
    pd.testing.assert_frame_equal(loaded.table, result.table)
    assert loaded.evidence.manhattan == result.evidence.manhattan
    assert loaded.evidence.loci == result.evidence.loci
    page = (folder / "run" / "report.html").read_text(encoding="utf-8")
    assert "<h3>Variants along the genome</h3>" in page
    assert f"<h3>Locus of {result.evidence.loci[0].name}</h3>" in page
    assert ">marginal p value</th>" in page
    others = pd.read_csv(folder / "run" / "score_covariates.txt", sep="\t").set_index("NAME")["BETA"]
    assert others.to_dict() == {"(intercept)": result.intercept, "age": result.table.set_index("name")["coef"]["age"]}


def plink2(folder, *words):
    told = subprocess.run(["plink2", *words, "--threads", "1"], cwd=folder, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr


@needs_plink2
def test_the_score_of_plink2_is_ours(run):
    folder, _ = run
    rng = np.random.default_rng(1)
    new = rng.integers(0, 3, (90, P))
    new[rng.random(new.shape) < 0.1] = -1
    write_plink(folder / "new.bed", new, names(slice(P)))
    write_phenotypes(folder / "new.cov", {"age": rng.integers(20, 90, 90).astype(float)})
    words = ["--read-freq", "run/score.afreq", "--score", "run/score.txt", "1", "2", "3", "header", "cols=+scoresums"]
    plink2(folder, "--bfile", "new", *words, "--out", "theirs")
    theirs = pd.read_csv(folder / "theirs.sscore", sep="\t")["SCORE1_SUM"].to_numpy()
    model = daskfs.load(folder / "run")
    apply(
        model,
        folder / "new.bed",
        folder / "ours.csv",
        options={"covariates": folder / "new.cov"},
        features=True,
        force=True,
    )
    ours = pd.read_csv(folder / "ours.csv")
    others = pd.read_csv(folder / "run" / "score_covariates.txt", sep="\t").set_index("NAME")["BETA"]
    genetic = (ours["prediction"] - others["(intercept)"] - others["age"] * ours["age"]).to_numpy()
    np.testing.assert_allclose(theirs, genetic, rtol=6e-6, atol=1e-7)  # plink2 writes six digits
    assert abs((theirs - genetic).mean()) < 1e-6 * genetic.std()


@needs_plink2
def test_marginal_p_values_are_those_of_plink2_glm(tmp_path):
    cohort(tmp_path)
    _, result, _ = fitted(tmp_path, "height")
    words = ["--pheno", "ph.txt", "--pheno-name", "height", "--covar", "ph.txt", "--covar-name", "age"]
    plink2(tmp_path, "--bfile", "chr2", *words, "--covar-variance-standardize", "--glm", "hide-covar", "--out", "glm")
    lines = pd.read_csv(tmp_path / "glm.height.glm.linear", sep="\t").set_index("ID")
    table = result.table.set_index("name")
    for name in set(table.index) & set(lines.index):
        theirs, sign = lines.loc[name], 1.0 if lines.loc[name, "A1"] == "A" else -1.0
        found = table.loc[name, ["marginal_coef", "marginal_std_error", "marginal_p_value"]].to_numpy(float)
        np.testing.assert_allclose(found, [sign * theirs["BETA"], theirs["SE"], theirs["P"]], rtol=1e-4)


def swapped(bed, alleles):
    lines = [line.split("\t") for line in bed.with_suffix(".bim").read_text().splitlines()]
    bed.with_suffix(".bim").write_text("".join("\t".join([*line[:4], *alleles]) + "\n" for line in lines))


@needs_plink2
def test_the_remedy_for_ambiguous_alleles_works(tmp_path):
    X, _, _ = cohort(tmp_path)
    for chromosome in ("2", "10"):
        swapped(tmp_path / f"chr{chromosome}.bed", ["A", "T"])
    select = {"method": "online_substitution", "n_features_to_select": 2}
    source = {"kind": "plink", "path": "chr*.bed", "phenotypes": "ph.txt", "target": "height"}
    document = {"version": 1, "name": "c", "source": source, "store": "none", "select": select, "output": "run"}
    run_pipeline(build_pipeline(document, "test", tmp_path))
    model = daskfs.load(tmp_path / "run")
    write_plink(tmp_path / "same.bed", X[:, :], names(slice(P)))
    swapped(tmp_path / "same.bed", ["A", "T"])
    expected = model.predict(tmp_path / "same.bed")
    write_plink(tmp_path / "new.bed", 2 - X, names(slice(P)))
    swapped(tmp_path / "new.bed", ["T", "A"])
    with refused(SchemaError, "new-rows", at="new.bed", naming=["--alt1-allele force RUN/score.txt 2 1 1"]):
        model.predict(tmp_path / "new.bed")
    words = ["--alt1-allele", "force", "run/score.txt", "2", "1", "1", "--make-bed", "--out", "again"]
    plink2(tmp_path, "--bfile", "new", *words)
    np.testing.assert_allclose(model.predict(tmp_path / "again.bed"), expected)


def test_clumps_of_a_source_without_variants_are_refused(tmp_path):
    document = {"version": 1, "name": "t", "source": {"kind": "csv", "path": "t.csv", "target": "y"}}
    document |= {"select": {"method": "fgm"}, "clumps": {"min_r2": 0.2}}
    with refused(ConfigError, "pipeline-files", at="clumps", naming=["csv"]):
        build_pipeline(document, "t.yaml", tmp_path)
