"""Genotypes: a simulated biobank read from its .bed file, and traits of mice and maize."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.cohort import COVARIATES, Cohort, simulate, standardised
from benchmarks.harness import Contender, Job, NotApplicable, Record, of_case
from benchmarks.peers import PEERS_PYTHON

N_COVARIATES = len(COVARIATES)
MEMORY = "2GiB"
NEAR_BP = 100_000
BIOBANK = 300_000, 800_000
"""Samples and variants that the growth of CPU time is extrapolated to."""
LASSO_EPS = 0.03
"""Smallest penalty of scikit-learn's path, as a share of the largest. With the default .001 mice took longer than the
job's half hour."""
CLUMP_P, CLUMP_R2, CLUMP_KB = 0.01, 0.1, 250


def cohort(folder: Path, seed: int, **case: Any) -> Cohort:
    """Simulate a cohort; a fifth of the samples, without a phenotype in its table, are for testing."""
    return simulate(folder, seed, **case)


def ours(make: Callable[[int], Any], most_variants: int | None = None) -> Contender:
    """Return a contender that reads the .bed file without a store; covariates are always included."""

    def run(data: Cohort) -> np.ndarray:
        if most_variants is not None and len(data.chromosome) > most_variants:
            raise NotApplicable("left out: it takes over an hour of CPU at 100,000 x 200,000")
        selector = make(data.n_wanted + N_COVARIATES)
        selector.set_params(always_include=np.arange(N_COVARIATES), memory_limit=MEMORY)
        selected = np.asarray(selector.fit_matrix(genotypes_of(data)).selected_)
        return selected[selected >= N_COVARIATES] - N_COVARIATES

    return Contender(run)


def genotypes_of(data: Cohort) -> Any:
    """Return covariates and variants of the training samples as a matrix that reads the .bed file."""
    from daskfs.sources.plink import PlinkSource

    names = list(COVARIATES)
    source = PlinkSource(data.bed, phenotypes=data.table, target="trait", covariate_names=names, missing="mean")
    return source.as_matrix()


def online_substitution(size: int) -> Any:
    """Return online substitution that screens variants by their codes."""
    from daskfs import OnlineSubstitution

    return OnlineSubstitution(n_features_to_select=size)


def fgm(size: int) -> Any:
    """Return FGM with its defaults."""
    from daskfs import FGM

    return FGM(n_features_to_select=size)


def message(size: int) -> Any:
    """Return MESSAGE for prediction; no subset chooses more than twice what is wanted."""
    from daskfs import Message

    return Message(goal="prediction", max_features=2 * size, random_state=0)


def mission(size: int) -> Any:
    """Return MISSION with its defaults."""
    from daskfs import Mission

    return Mission(n_features_to_select=size, random_state=0)


def auto(size: int) -> Any:
    """Return the method that daskfs recommends for a number of features."""
    from daskfs import Auto

    return Auto(n_features_to_select=size, random_state=0)


def auto_number(size: int) -> Any:
    """Return the selector that chooses the number of features itself."""
    from daskfs import Auto

    return Auto(goal="prediction", random_state=0)


def cohorts(folder: Path, seed: int, n_sets: int, **case: Any) -> list[Cohort]:
    """Simulate several cohorts."""
    folders = [folder / str(k) for k in range(n_sets)]
    for one in folders:
        one.mkdir()
    return [simulate(one, seed + k, **case) for k, one in enumerate(folders)]


def stable(block_r2: float | None) -> Contender:
    """Return stability selection of FGM with at most one false selection promised; its answer of each cohort."""

    def run(data: list[Cohort]) -> list[tuple[np.ndarray, float, np.ndarray | None]]:
        from daskfs import FGM, StabilitySelection

        found = []
        for one in data:
            inside = FGM(always_include=np.arange(N_COVARIATES))
            selector = StabilitySelection(inside, n_pairs=15, pfer=1.0, block_r2=block_r2)
            selector.fit_matrix(genotypes_of(one))
            selected = selector.selected_[selector.selected_ >= N_COVARIATES] - N_COVARIATES
            blocks = None if block_r2 is None else selector.blocks_[N_COVARIATES:]
            found.append((selected, selector.pfer_bound_, blocks))
        return found

    return Contender(run)


def judge_stable(data: list[Cohort], answer: list[tuple[np.ndarray, float, np.ndarray | None]]) -> dict[str, float]:
    """Return means over the cohorts; a block is false if no variant of it is causal."""
    found: dict[str, list[float]] = {}
    for one, (selected, bound, blocks) in zip(data, answer, strict=True):
        line = {
            "selected": len(selected),
            "promised false": bound,
            "causal near": nearby(one, selected).any(axis=0).sum(),
        }
        line["false loci"] = false_loci(one, selected)
        if blocks is not None:
            line["blocks"] = blocks.max() + 1
            line["false blocks"] = (~np.isin(blocks[selected], blocks[one.causal])).sum()
        for name, value in line.items():
            found.setdefault(name, []).append(float(value))
    return {name: float(np.mean(values)) for name, values in found.items()}


def adelie_matrix(data: Cohort, folder: Path) -> Any:
    """Write a file of adelie's for each chromosome; return covariates and variants, standardised.

    Centres and scales are ours: adelie 1.1 takes 0 and 1 for those of variants, without a word.
    """
    import adelie as ad

    train = ~data.is_test
    covariates = np.asfortranarray(data.covariates[train])
    parts, centres, scales = [ad.matrix.dense(covariates)], [covariates.mean(axis=0)], [covariates.std(axis=0)]
    for one in np.unique(data.chromosome):
        columns = np.flatnonzero(data.chromosome == one)
        calls = np.empty((int(train.sum()), len(columns)), np.int8, order="F")
        for start in range(0, len(columns), 64):
            block = data.calls(columns[start : start + 64])[:, train]
            calls[:, start : start + 64] = block.T
            n_missing, ones, twos = ((block == code).sum(axis=1) for code in (-9, 1, 2))
            known = len(calls) - n_missing
            centre = (ones + 2 * twos) / known
            centres.append(centre)
            scales.append(np.sqrt((ones + 4 * twos - known * centre**2) / len(calls)))
        handler = ad.io.snp_unphased(str(folder / f"{one}.snpdat"), read_mode="mmap")
        handler.write(calls)
        parts.append(ad.matrix.snp_unphased(handler, dtype=np.float64))
    scale = np.concatenate(scales)
    scale[scale == 0] = 1.0
    X = ad.matrix.concatenate(parts, axis=1)
    return ad.matrix.standardize(X, centers=np.concatenate(centres), scales=scale)


def adelie_lasso(data: Cohort) -> np.ndarray:
    """Follow the Lasso's path up to the first model with enough variants; the largest standardised coefficients."""
    import adelie as ad

    with TemporaryDirectory() as folder:
        X = adelie_matrix(data, Path(folder))
        y = data.trait[~data.is_test]
        is_case_control = len(np.unique(y)) == 2
        penalty = np.ones(X.shape[1])
        penalty[:N_COVARIATES] = 0.0
        state = ad.grpnet(
            X,
            (ad.glm.binomial if is_case_control else ad.glm.gaussian)(y=y),
            penalty=penalty,
            min_ratio=1e-3,
            lmda_path_size=150,
            early_exit=False,
            exit_cond=lambda state: state.betas[-1].nnz >= data.n_wanted + N_COVARIATES,
            progress_bar=False,
        )
        coef = np.ravel(state.betas[-1].toarray())[N_COVARIATES:]
    return largest(coef, data.n_wanted)


def largest(coef: np.ndarray, n_wanted: int) -> np.ndarray:
    """Return the columns of the largest coefficients that are not 0, largest first."""
    return np.argsort(-np.abs(coef), kind="stable")[: min(n_wanted, np.count_nonzero(coef))]


def marginal_tests(data: Cohort, folder: Path) -> Path:
    """Return plink2's table of tests of single variants beside the covariates."""
    inputs = ["--bfile", data.bed.with_suffix(""), "--pheno", data.table, "--pheno-name", "trait"]
    covariates = ["--covar", data.table, "--covar-name", *COVARIATES, "--covar-variance-standardize"]
    asked = ["--glm", "hide-covar", "cols=chrom,pos,p", "--threads", "1", "--memory", "2048", "--out", folder / "plink"]
    call("plink2", *inputs, *covariates, *asked)
    return folder / "plink.trait.glm.linear"


def call(program: str, *arguments: Any) -> None:
    """Run a program of PLINK's."""
    try:
        subprocess.run([program, *map(str, arguments)], check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise NotApplicable(f"not installed: {program} (Debian's package {program})") from None
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"{program}: {error.stdout[-200:]} {error.stderr[-200:]}") from None


def single_tests(data: Cohort) -> np.ndarray:
    """Return the variants with the least p values, as `top_tests`, from products of two-bit codes in one pass."""
    matrix = genotypes_of(data)
    variants = slice(N_COVARIATES, matrix.shape[1])
    covariates = matrix.read(slice(None), slice(0, N_COVARIATES)).astype(np.float64)
    basis = np.linalg.qr(np.column_stack([np.ones(len(covariates)), covariates]))[0].T
    y = np.asarray(matrix.read_target())
    products = matrix.column_products(variants, np.vstack([y - basis.T @ (basis @ y), basis]))
    moments = matrix.column_moments(variants, np.ones(len(y)))
    left = len(y) * (moments.std**2 + moments.mean**2) - (products[1:] ** 2).sum(axis=0)
    statistic = np.where(moments.std > 0.0, products[0] ** 2 / np.maximum(left, 1e-9), 0.0)
    return np.argsort(-statistic, kind="stable")[: data.n_wanted]


def top_tests(data: Cohort) -> np.ndarray:
    """Return the variants with the least p values."""
    with TemporaryDirectory() as folder:
        header, *rows = marginal_tests(data, Path(folder)).read_text().splitlines()
    place, name = header.split("\t").index("P"), header.split("\t").index("ID")
    words = [row.split("\t") for row in rows]
    p = np.array([1.0 if row[place] == "NA" else float(row[place]) for row in words])
    order = np.argsort(p, kind="stable")[: data.n_wanted]
    return np.array([int(words[i][name][2:]) for i in order])


def clumped(data: Cohort) -> np.ndarray:
    """Return the index variants of clumps, least p values first; plink2 of Debian 12 does not clump, plink1.9 does."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        tests = marginal_tests(data, folder)
        kept = folder / "kept.txt"
        kept.write_text("".join(f"{i} {i}\n" for i in 1 + np.flatnonzero(~data.is_test)))
        options = ["--clump-p1", CLUMP_P, "--clump-p2", CLUMP_P, "--clump-r2", CLUMP_R2, "--clump-kb", CLUMP_KB]
        fields = ["--clump-snp-field", "ID", "--clump-field", "P", "--threads", 1, "--memory", 2048]
        inputs = ["--bfile", data.bed.with_suffix(""), "--keep", kept, "--clump", tests, "--out", folder / "clumps"]
        call("plink1.9", *inputs, *options, *fields)
        _, *rows = (folder / "clumps.clumped").read_text().split("\n")
    return np.array([int(row.split()[2][2:]) for row in rows if row.strip()][: data.n_wanted])


def judge_cohort(data: Cohort, answer: np.ndarray) -> dict[str, float]:
    """Judge a fifth of the answer, and the whole of it: what it predicts, and which loci it finds."""
    found: dict[str, float] = {"selected": len(answer)}
    answer = answer[: data.n_wanted]
    near = nearby(data, answer)
    for k in (data.n_wanted // 5, data.n_wanted):
        found[f"R2 of {k}"] = genetic_r2(data, answer[:k])
        found[f"causal among {k}"] = len(np.intersect1d(answer[:k], data.causal))
        found[f"causal near {k}"] = int(near[:k].any(axis=0).sum())
        found[f"false loci among {k}"] = false_loci(data, answer[:k])
    return found


def nearby(data: Cohort, variants: np.ndarray) -> np.ndarray:
    """Return which variants are at most `NEAR_BP` from which causal variants."""
    is_near = np.abs(data.position[variants][:, None] - data.position[data.causal]) <= NEAR_BP
    near: np.ndarray = is_near & (data.chromosome[variants][:, None] == data.chromosome[data.causal])
    return near


def false_loci(data: Cohort, variants: np.ndarray) -> int:
    """Return how many loci, groups of variants at most 100 kb apart, have no causal variant near one of them."""
    order = np.sort(variants)
    if not len(order):
        return 0
    is_far = np.diff(data.position[order]) > NEAR_BP
    locus = np.r_[0, np.cumsum(is_far | (np.diff(data.chromosome[order]) != 0))]
    is_true = np.bincount(locus, nearby(data, order).any(axis=1)) > 0
    return int((~is_true).sum())


def genetic_r2(data: Cohort, variants: np.ndarray) -> float:
    """Return the share of the test samples' squared error beyond covariates that the variants explain.

    The same refit for all: least squares on the covariates, then a ridge on standardised variants whose penalty
    minimises the generalised cross-validation error of the training samples.
    """
    train = ~data.is_test
    C = np.column_stack([np.ones(len(train)), standardised(data.covariates)])
    Z = standardised(data.dosages(variants)) if len(variants) else np.empty((len(train), 0))
    fitted = np.linalg.lstsq(C[train], np.column_stack([data.trait, Z])[train], rcond=None)[0]
    rest = np.column_stack([data.trait, Z]) - C @ fitted
    y, Z = rest[:, 0], rest[:, 1:]
    values, vectors = np.linalg.eigh(Z[train].T @ Z[train])
    values = np.maximum(values, 0.0)
    b, n = vectors.T @ (Z[train].T @ y[train]), int(train.sum())
    best, coef = np.inf, np.zeros(len(variants))
    for penalty in n * np.logspace(-5, 1, 25):
        shrunk = b / (values + penalty)
        rss = y[train] @ y[train] - 2 * shrunk @ b + values @ shrunk**2
        error = rss / (n - N_COVARIATES - 1 - (values / (values + penalty)).sum()) ** 2
        if error < best:
            best, coef = error, vectors @ shrunk
    test = data.is_test
    return float(1.0 - ((y[test] - Z[test] @ coef) ** 2).sum() / (y[test] ** 2).sum())


def with_growth(run: Sequence[Record]) -> str:
    """Return a table of each size, and what the growth between the two largest makes of a biobank."""
    from benchmarks.tables import by_case, number, table_of

    cases = sorted(by_case(run), key=lambda one: one[0]["n_samples"] * one[0]["n_variants"])
    parts = [f"**{of_case(case)}** ({run[0]['scale']})\n\n{table_of(them)}" for case, them in cases]
    lines = ["| contender | exponent | CPU hours |", "|---|---|---|"]
    for name in cases[-1][1] if len(cases) > 1 else ():
        cpu_s = [
            median([one["cpu_s"] for one in them.get(name, ()) if "cpu_s" in one] or [0.0]) for _, them in cases[-2:]
        ]
        sizes = [case["n_samples"] * case["n_variants"] for case, _ in cases[-2:]]
        if min(cpu_s) > 0.0:
            exponent = np.log(cpu_s[1] / cpu_s[0]) / np.log(sizes[1] / sizes[0])
            hours = cpu_s[1] * (np.prod(BIOBANK) / sizes[1]) ** exponent / 3600
            lines.append(f"| {name} | {exponent:.2f} | {number(hours)} |")
    if len(lines) > 2:
        n_samples, n_variants = BIOBANK
        about = (
            f"CPU time as a power of samples x variants, while more are selected; at {n_samples:,} x {n_variants:,}:"
        )
        parts += [about, "\n".join(lines)]
    parts += [f"*{one['contender']}: {one['transcribed']}.*" for one in run if "transcribed" in one]
    return "\n\n".join(parts)


def empty_biobank(folder: Path, seed: int, n_samples: int, n_variants: int, n_wanted: int) -> Path:
    """Write a fileset with a table of phenotypes and covariates, and a pipeline; the .bed file takes no room."""
    rng, bed = np.random.default_rng(seed), folder / "cohort.bed"
    with bed.open("wb") as file:
        file.write(b"\x6c\x1b\x01")
        file.truncate(3 + n_variants * -(-n_samples // 4))
    with bed.with_suffix(".bim").open("w") as text:
        text.writelines(f"{1 + j * 22 // n_variants}\trs{j}\t0\t{5000 * (j + 1)}\tA\tG\n" for j in range(n_variants))
    with bed.with_suffix(".fam").open("w") as text:
        text.writelines(f"{i} {i} 0 0 1 -9\n" for i in range(1, n_samples + 1))
    with bed.with_suffix(".tsv").open("w") as text:
        text.write("\t".join(["FID", "IID", "trait", *COVARIATES]) + "\n")
        for i in range(1, n_samples + 1):
            numbers = "\t".join(f"{value:.6g}" for value in rng.standard_normal(1 + N_COVARIATES))
            text.write(f"{i}\t{i}\t{numbers}\n")
    names, size = ", ".join(COVARIATES), n_wanted + N_COVARIATES
    how = dict.fromkeys(("fgm", "online_substitution"), f"n_features_to_select: {size}")
    how["message"] = f"goal: prediction, max_features: {2 * size}"
    for method, options in how.items():
        (folder / f"{method}.yaml").write_text(
            f"version: 1\nname: biobank\nsource: {{kind: plink, path: {bed}, phenotypes: {bed.with_suffix('.tsv')}, "
            f"target: trait, covariate_names: [{names}], missing: mean}}\nstore: none\n"
            f"select: {{method: {method}, {options}, always_include: [{names}]}}\n"
            "cluster: {kind: none, memory_limit: 8GiB}\noutput: run\n"
        )
    return folder


def planned(method: str) -> Contender:
    """Return `daskfs plan` for a method; its answer is what is promised."""

    def run(folder: Path) -> dict[str, float]:
        from daskfs.pipeline.config import load_pipeline
        from daskfs.pipeline.facts import facts_of
        from daskfs.pipeline.plan import plan_pipeline

        pipeline = load_pipeline(folder / f"{method}.yaml")
        found = plan_pipeline(pipeline, facts_of(pipeline))
        read_nbytes = next(step.read_nbytes for step in found.steps if step.name == method)
        return {
            "promised MiB": max(found.promised_nbytes.values()) / 2**20,
            "reads GiB": read_nbytes / 2**30,
        }

    return Contender(run)


@dataclass
class Folds:
    """Dosages of a real set, and the fold of each sample."""

    X: np.ndarray
    y: np.ndarray
    fold: np.ndarray


def with_vectors(folder: Path, seed: int, n_vectors: int, **case: Any) -> tuple[Any, np.ndarray]:
    """Simulate a cohort; return its training samples as a matrix, and a vector over them for each phenotype."""
    matrix = genotypes_of(simulate(folder, seed, **case))
    return matrix, np.random.default_rng(seed).standard_normal((n_vectors, matrix.shape[0]))


def with_phenotypes(folder: Path, seed: int, n_phenotypes: int, **case: Any) -> tuple[Cohort, list[str]]:
    """Simulate a cohort; replace its table by one of several phenotypes with causal variants of their own."""
    data, rng = simulate(folder, seed, **case), np.random.default_rng([seed, 16])
    names = [f"trait{k}" for k in range(n_phenotypes)]
    traits = []
    for _ in names:
        causal = np.sort(rng.choice(len(data.position), len(data.causal), replace=False))
        genetic = standardised(data.dosages(causal)) @ rng.standard_normal(len(causal))
        traits.append(genetic / genetic.std() + data.covariates[:, 0] / 100.0 + rng.standard_normal(len(genetic)))
    with data.table.open("w") as text:
        text.write("\t".join(["FID", "IID", "age", *names]) + "\n")
        for i, (age, values) in enumerate(zip(data.covariates[:, 0], np.stack(traits, axis=1), strict=True), 1):
            text.write("\t".join([str(i), str(i), f"{age:g}", *(f"{value:.6f}" for value in values)]) + "\n")
    return data, names


def runs_of(method: str, in_shared_passes: bool) -> Contender:
    """Select for each phenotype as `daskfs select`, in one pipeline or in one after the other."""

    def run(given: tuple[Cohort, list[str]]) -> list[Any]:
        from daskfs.pipeline.config import build_pipeline
        from daskfs.pipeline.run import run_each

        data, names = given
        source = {"kind": "plink", "path": str(data.bed), "phenotypes": str(data.table), "covariate_names": ["age"]}
        select = {"method": method, "goal": "prediction", "random_state": 0, "always_include": ["age"]}
        found = []
        with TemporaryDirectory(dir=data.bed.parent) as folder:
            for targets in [names] if in_shared_passes else [[name] for name in names]:
                document = {"version": 1, "name": "phenotypes", "select": select, "output": f"{folder}/{targets[0]}"}
                document["source"] = source | {"missing": "mean", "target": targets}
                found += run_each(build_pipeline(document, "phenotypes", data.bed.parent))
        return [result for outcome in found for result in outcome.results.values()]

    return Contender(run)


def judge_runs(data: Any, answer: list[Any]) -> dict[str, float]:
    """Return means over the phenotypes."""
    return {
        "R2": float(np.mean([result.metrics["r2"] for result in answer])),
        "variants": float(np.mean([len(result.table) - 1 for result in answer])),
    }


def by_codes(data: tuple[Any, np.ndarray]) -> np.ndarray:
    """Return the products of the vectors with all columns, from the two-bit codes of variants."""
    matrix, vectors = data
    return matrix.column_products(slice(None), vectors)


def by_blas(data: tuple[Any, np.ndarray]) -> np.ndarray:
    """Return the same, of columns that are decoded to float32 in blocks; BLAS sums in float32."""
    matrix, vectors = data[0], data[1].astype(np.float32)
    n_rows, n_columns = matrix.shape
    block, out = np.empty((n_rows, 512), np.float32, order="F"), np.empty((len(vectors), n_columns), np.float32)
    for first in range(0, n_columns, 512):
        columns = slice(first, min(first + 512, n_columns))
        values = matrix.read(slice(None), columns, block[:, : columns.stop - first])
        np.matmul(vectors, values, out=out[:, columns])
    return out


def judge_products(data: tuple[Any, np.ndarray], answer: np.ndarray) -> dict[str, float]:
    """Compare a hundred variants with products in float64."""
    some = np.arange(N_COVARIATES, answer.shape[1], max(1, answer.shape[1] // 100))
    exact = data[1] @ data[0].read(slice(None), some).astype(np.float64)
    return {"largest error": float(np.abs(answer[:, some] - exact).max() / np.abs(exact).max())}


def real_genotypes(folder: Path, seed: int, name: str, n_folds: int) -> Folds:
    """Return mice (HDL; whole cages in a fold) or maize (days to pollen). The mean replaces what is missing."""
    from benchmarks.genotypes_real import SETS

    if "DASKFS_DATA" not in os.environ:
        raise NotApplicable("DASKFS_DATA is not set")
    read, target = SETS[name]
    found = read(Path(os.environ["DASKFS_DATA"]))
    y = found.phenotypes[target]
    X = np.where(found.dosages < 0, np.nan, found.dosages).astype(np.float64)[~np.isnan(y)]
    X = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    units = [family if name == "mice" else individual for family, individual in found.samples]
    _, unit = np.unique(np.array(units)[~np.isnan(y)], return_inverse=True)
    fold_of_unit = np.random.default_rng(seed).permutation(unit.max() + 1) % n_folds
    return Folds(X, y[~np.isnan(y)], fold_of_unit[unit])


def in_folds(predict: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]) -> Callable[[Folds], np.ndarray]:
    """Return a contender's run: predictions of each fold from the others, within which parameters are chosen."""

    def run(data: Folds) -> np.ndarray:
        found = np.empty(len(data.y))
        for k in range(data.fold.max() + 1):
            train, test = data.fold != k, data.fold == k
            found[test] = predict(data.X[train], data.y[train], data.X[test])
        return found

    return run


def by_daskfs(name: str, options: dict[str, Any], X: np.ndarray, y: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Predict with a selector."""
    import daskfs

    predicted: np.ndarray = getattr(daskfs, name)(**options).fit(X, y).predict(test)
    return predicted


def lasso_cv(X: np.ndarray, y: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Predict with scikit-learn's Lasso on standardised columns."""
    from sklearn.linear_model import LassoCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    predicted: np.ndarray = make_pipeline(StandardScaler(), LassoCV(cv=5, eps=LASSO_EPS)).fit(X, y).predict(test)
    return predicted


def gblup(X: np.ndarray, y: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Predict with a ridge on all variants, by its kernel; its heritability maximises the restricted likelihood."""
    centre, deviation = X.mean(axis=0), X.std(axis=0)
    Z, Z_test = ((A - centre)[:, deviation > 0] / deviation[deviation > 0] for A in (X, test))
    values, vectors = np.linalg.eigh(Z @ Z.T / Z.shape[1])
    values, rest = np.maximum(values[1:], 0.0), vectors[:, 1:]  # the first is the mean, which has no variance
    b = rest.T @ (y - y.mean())
    best, weights = np.inf, b
    for h2 in np.linspace(0.01, 0.99, 99):
        variance = h2 * values + 1.0 - h2
        deviance = len(b) * np.log((b**2 / variance).sum()) + np.log(variance).sum()
        if deviance < best:
            best, weights = deviance, h2 * b / variance
    predicted: np.ndarray = y.mean() + Z_test @ (Z.T @ (rest @ weights)) / Z.shape[1]
    return predicted


def adelie_cv(X: np.ndarray, y: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Predict with adelie's Lasso, its penalty by cross-validation."""
    import adelie as ad

    centre, deviation = X.mean(axis=0), X.std(axis=0)
    scale = np.where(deviation > 0, deviation, 1.0)
    Z = np.asfortranarray((X - centre) / scale)
    glm = ad.glm.gaussian(y=y)
    state = ad.cv_grpnet(Z, glm, n_folds=5, seed=0, progress_bar=False).fit(Z, glm, progress_bar=False)
    return np.ravel(ad.diagnostic.predict((test - centre) / scale, state.betas[-1:], state.intercepts[-1:]))


def judge_folds(data: Folds, answer: np.ndarray) -> dict[str, float]:
    """Return R2 against the mean of the other folds, and the correlation."""
    means = np.array([data.y[data.fold != k].mean() for k in range(data.fold.max() + 1)])[data.fold]
    r2 = 1.0 - ((data.y - answer) ** 2).sum() / ((data.y - means) ** 2).sum()
    return {"R2": float(r2), "correlation": float(np.corrcoef(data.y - means, answer - means)[0, 1])}


def folds_of(name: str, **options: Any) -> Contender:
    """Return a selector as a contender."""
    return Contender(in_folds(partial(by_daskfs, name, options)))


JOBS = [
    Job(
        "biobank",
        "Variants of a simulated biobank",
        cohort,
        {
            "OnlineSubstitution": ours(online_substitution),
            "FGM": ours(fgm),
            "Message": ours(message),
            "Mission": ours(mission, most_variants=20_000),
            "Auto": ours(auto),
            "Auto, its number": ours(auto_number),
        },
        {
            "adelie": Contender(adelie_lasso, ("adelie",), python=PEERS_PYTHON),
            "single tests, least p": Contender(single_tests),
            "plink2 --glm, least p": Contender(top_tests),
            "plink2 --glm, plink1.9 --clump": Contender(clumped),
        },
        judge_cohort,
        {
            "smoke": [{"n_samples": 2000, "n_variants": 5000, "n_causal": 25}],
            "small": [{"n_samples": 10_000, "n_variants": 20_000, "n_causal": 100}],
            "full": [
                {"n_samples": 30_000, "n_variants": 60_000, "n_causal": 200},
                {"n_samples": 100_000, "n_variants": 200_000, "n_causal": 500},
            ],
        },
        about=(
            "benchmarks/cohort.py: founders of a coalescent with hotspots, copied as Li and Stephens do; 22 "
            "chromosomes, 5 kb between neighbours, 0.1 % missing, heritability 0.5 beyond ten covariates. All read the "
            "same .bed file; adelie's time includes the files it needs. R2 is of the test samples beyond covariates, "
            "after the same ridge on the first of the selected variants. Near: at most 100 kb. Each repeat has a "
            "cohort of its own seed."
        ),
        rival="adelie",
        table=with_growth,
        timeout_s=14_400.0,
    ),
    Job(
        "biobank_cases",
        "Variants of a disease in a simulated biobank",
        cohort,
        {
            "OnlineSubstitution": ours(online_substitution),
            "FGM": ours(fgm),
            "Message": ours(message),
            "Auto, its number": ours(auto_number),
        },
        {"adelie": Contender(adelie_lasso, ("adelie",), python=PEERS_PYTHON)},
        judge_cohort,
        {
            "smoke": [{"n_samples": 2000, "n_variants": 5000, "n_causal": 25, "prevalence": 0.3}],
            "small": [{"n_samples": 10_000, "n_variants": 20_000, "n_causal": 100, "prevalence": 0.3}],
            "full": [{"n_samples": 30_000, "n_variants": 60_000, "n_causal": 200, "prevalence": 0.3}],
        },
        about=(
            "As `biobank`, but the trait says who is a case: the 30 % with the largest values. Logistic loss; R2 is of "
            "the cases, 0 or 1, beyond covariates, after the same linear ridge on the first of the selected variants."
        ),
        rival="adelie",
        timeout_s=14_400.0,
    ),
    Job(
        "biobank_large",
        "A biobank larger than memory",
        cohort,
        {"FGM": ours(fgm), "Message": ours(message), "OnlineSubstitution": ours(online_substitution)},
        {},
        judge_cohort,
        {
            "smoke": [{"n_samples": 2000, "n_variants": 5000, "n_causal": 25}],
            "small": [{"n_samples": 30_000, "n_variants": 40_000, "n_causal": 100}],
            "full": [{"n_samples": 300_000, "n_variants": 400_000, "n_causal": 500}],
        },
        about=(
            "Cohorts as in `biobank`. The .bed file of the full scale has 30 GB, more than the memory of the machine: "
            "each pass reads it from disk. Peers are not run: adelie would write as much again."
        ),
        repeats=1,
        timeout_s=14_400.0,
    ),
    Job(
        "biobank_plan",
        "Plans for biobanks",
        empty_biobank,
        {
            "FGM": planned("fgm"),
            "OnlineSubstitution": planned("online_substitution"),
            "Message": planned("message"),
        },
        {},
        lambda data, answer: answer,
        {
            "smoke": [{"n_samples": 2000, "n_variants": 5000, "n_wanted": 25}],
            "small": [{"n_samples": 10_000, "n_variants": 20_000, "n_wanted": 100}],
            "full": [
                {"n_samples": 30_000, "n_variants": 60_000, "n_wanted": 200},
                {"n_samples": 100_000, "n_variants": 200_000, "n_wanted": 500},
                {"n_samples": 300_000, "n_variants": 800_000, "n_wanted": 500},
            ],
        },
        about=(
            "`daskfs plan` for filesets as in `biobank`, whose .bed file is empty: a plan does not read genotypes. "
            "Promised is the memory of the process, with a limit of 8 GiB, and what it reads."
        ),
        repeats=1,
    ),
    Job(
        "genotype_products",
        "Products of all variants with vectors",
        with_vectors,
        {"two-bit codes": Contender(by_codes)},
        {"float32 and BLAS": Contender(by_blas)},
        judge_products,
        {
            "smoke": [{"n_samples": 1000, "n_variants": 2000, "n_causal": 5, "n_vectors": 2}],
            "small": [{"n_samples": 5000, "n_variants": 5000, "n_causal": 20, "n_vectors": 4}],
            "full": [{"n_samples": 20_000, "n_variants": 20_000, "n_causal": 100, "n_vectors": n} for n in (1, 4, 16)],
        },
        about=(
            "The products of a pass over a .bed file with so many vectors at once: as daskfs makes them, in float64 "
            "(one from totals of the codes, several of decoded copies that stay in the processor's cache), and by "
            "decoding blocks of 512 variants for BLAS, in float32. The file is in the system's cache. The error is a "
            "share of the largest product."
        ),
    ),
    Job(
        "phenotypes",
        "Several phenotypes of one cohort",
        with_phenotypes,
        {
            "MESSAGE, shared passes": runs_of("message", True),
            "MESSAGE, one after the other": runs_of("message", False),
            "Auto, shared passes": runs_of("auto", True),
            "Auto, one after the other": runs_of("auto", False),
        },
        {},
        judge_runs,
        {
            "smoke": [{"n_samples": 800, "n_variants": 1500, "n_causal": 5, "n_phenotypes": 2}],
            "small": [{"n_samples": 4000, "n_variants": 8000, "n_causal": 20, "n_phenotypes": 4}],
            "full": [
                {"n_samples": 10_000, "n_variants": 20_000, "n_causal": 100, "n_phenotypes": 16},
                {"n_samples": 30_000, "n_variants": 60_000, "n_causal": 200, "n_phenotypes": 4},
            ],
        },
        about=(
            "Cohorts as in `biobank`, phenotypes with causal variants of their own and a heritability of one half. "
            "`daskfs run` with a list of targets, and once for each: selection, test rows, marginal tests and report. "
            "R2 is of the test rows; both are means over the phenotypes."
        ),
        repeats=1,
        timeout_s=7_200.0,
    ),
    Job(
        "ld_blocks",
        "False selections of variants in linkage disequilibrium",
        cohorts,
        {"blocks of r² .2": stable(0.2), "single variants": stable(None)},
        {},
        judge_stable,
        {
            "smoke": [{"n_sets": 1, "n_samples": 500, "n_variants": 600, "n_causal": 5}],
            "small": [{"n_sets": 8, "n_samples": 2500, "n_variants": 4000, "n_causal": 20}],
            "full": [{"n_sets": 50, "n_samples": 10_000, "n_variants": 20_000, "n_causal": 50}],
        },
        about=(
            "Cohorts as in `biobank`. Stability selection of FGM, 15 pairs of halves, pfer 1, by blocks of neighbours "
            "and by single variants; means over the cohorts. A block is false if no variant of it is causal, a locus "
            "if no causal variant is within 100 kb."
        ),
        repeats=1,
    ),
    Job(
        "genotypes_real",
        "Traits of mice and maize",
        real_genotypes,
        {
            "Auto": folds_of("Auto", goal="prediction", random_state=0),
            "OnlineSubstitution": folds_of("OnlineSubstitution", n_features_to_select="cv"),
            "FGM": folds_of("FGM", n_features_to_select="cv"),
            "Message": folds_of("Message", goal="prediction", random_state=0),
        },
        {
            "sklearn LassoCV": Contender(in_folds(lasso_cv)),
            "GBLUP": Contender(in_folds(gblup)),
            "adelie": Contender(in_folds(adelie_cv), ("adelie",), python=PEERS_PYTHON),
        },
        judge_folds,
        {
            "smoke": [{"name": "maize", "n_folds": 2}],
            "small": [{"name": "maize", "n_folds": 5}],
            "full": [{"name": "maize", "n_folds": 5}, {"name": "mice", "n_folds": 5}],
        },
        about=(
            "HDL cholesterol of 1,814 mice from 10,346 variants, whole cages in a fold; days to pollen of 281 lines of "
            "maize from 3,093. Each contender chooses its parameters within the other folds."
        ),
        rival="adelie",
    ),
]
