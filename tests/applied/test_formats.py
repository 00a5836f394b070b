"""Every format that a run is fitted on is applied to rows without a target: same predictions, same ids."""

import io
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import zarr
from typer.testing import CliRunner

import daskfs
from daskfs.applied.apply import apply
from daskfs.cli import app
from daskfs.errors import DataError, SchemaError
from tests.applied.test_apply import run_of
from tests.genotype_files import write_phenotypes, write_plink, write_vcf_zarr
from tests.refusals import refused
from tests.tolerances import assert_close

N = 120
SELECT = {"method": "online_substitution", "n_features_to_select": 3, "loss": "squared"}
WORDS = ("alder", "birch", "cedar", "daisy", "elder", "fern", "gorse", "hazel")


def data(seed=0):
    """Counts of eight features, two of which make the target."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (N, len(WORDS)))
    return X, np.round(2.0 * X[:, 1] - 3.0 * X[:, 4] + rng.normal(size=N), 3)


def jsonl(folder, name, X, y):
    texts = [" ".join(word for word, n in zip(WORDS, row, strict=True) for _ in range(n)) for row in X]
    rows = [{"text": text} | ({} if y is None else {"score": y[i]}) for i, text in enumerate(texts)]
    (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    return {"kind": "text", "path": f"{name}.jsonl", "target": "score"}


def text_csv(folder, name, X, y):
    texts = [" ".join(word for word, n in zip(WORDS, row, strict=True) for _ in range(n)) for row in X]
    frame = pd.DataFrame({"text": texts} | ({} if y is None else {"score": y}))
    frame.to_csv(folder / f"{name}.csv", index=False)
    return {"kind": "text", "path": f"{name}.csv", "target": "score"}


def vw(folder, name, X, y):
    rows = [
        f"{'' if y is None else y[i]} 'r{i}|w " + " ".join(f"{w}:{n}" for w, n in zip(WORDS, row, strict=True) if n)
        for i, row in enumerate(X)
    ]
    (folder / f"{name}.vw").write_text("\n".join(rows) + "\n")
    return {"kind": "vw", "path": f"{name}.vw"}


def libsvm(folder, name, X, y):
    rows = [
        f"{'' if y is None else y[i]} 40:1 " + " ".join(f"{50 + j}:{n}" for j, n in enumerate(row) if n)
        for i, row in enumerate(X)
    ]
    (folder / f"{name}.svm").write_text("\n".join(rows) + "\n")
    return {"kind": "libsvm", "path": f"{name}.svm"}


def clicks(folder, name, X, y):
    columns = {word: [f"v{n}" for n in X[:, j]] for j, word in enumerate(WORDS)}
    frame = pd.DataFrame(({} if y is None else {"score": y}) | columns)
    frame.to_csv(folder / f"{name}.tsv", index=False, sep="\t")
    return {"kind": "clicks", "path": f"{name}.tsv", "target": "score"}


def headerless_clicks(folder, name, X, y):
    columns = {word: [f"v{n}" for n in X[:, j]] for j, word in enumerate(WORDS)}
    frame = pd.DataFrame(({} if y is None else {"score": y}) | columns)
    frame.to_csv(folder / f"{name}.log", index=False, sep="\t", header=False)
    return {"kind": "clicks", "path": f"{name}.log", "target": "score", "columns": ["score", *WORDS]}


def plink(folder, name, X, y):
    write_plink(folder / f"{name}.bed", X)
    if y is None:
        return {}
    write_phenotypes(folder / "pheno.txt", {"score": y})
    return {"kind": "plink", "path": f"{name}.bed", "phenotypes": "pheno.txt", "target": "score"}


def vcf_zarr(folder, name, X, y):
    write_vcf_zarr(folder / f"{name}.vcz", X)
    if y is None:
        return {}
    write_phenotypes(folder / "pheno.txt", {"score": y})
    return {"kind": "vcf_zarr", "path": f"{name}.vcz", "phenotypes": "pheno.txt", "target": "score"}


def cells(folder, name, X, y):
    root = zarr.open_group(str(folder / f"{name}.zarr"), mode="w", zarr_format=2)
    root.attrs["encoding-type"] = "anndata"
    matrix = root.create_array("X", data=X.astype(np.float32))
    matrix.attrs["encoding-type"] = "array"
    tables = {"var": ({}, list(WORDS)), "obs": ({} if y is None else {"score": y}, [f"c{i}" for i in range(len(X))])}
    for table, (columns, index) in tables.items():
        group = root.create_group(table)
        group.attrs["_index"] = "_index"
        for column, values in {"_index": np.array(index), **columns}.items():
            group.create_array(column, data=np.asarray(values))
    return {"kind": "anndata", "path": f"{name}.zarr", "target": "score"}


def h5ad(folder, name, X, y):
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / f"{name}.h5ad", "w") as root:
        root.attrs["encoding-type"] = "anndata"
        root.create_dataset("X", data=X.astype(np.float32)).attrs["encoding-type"] = "array"
        obs = {} if y is None else {"score": y}
        for table, columns, index in (("var", {}, WORDS), ("obs", obs, [f"c{i}" for i in range(len(X))])):
            group = root.create_group(table)
            group.attrs["_index"] = "_index"
            group.create_dataset("_index", data=[*index], dtype=h5py.string_dtype())
            for column, values in columns.items():
                group.create_dataset(column, data=values)
    return {"kind": "anndata", "path": f"{name}.h5ad", "target": "score"}


def fasta(folder, name, X, y):
    kmers = ("AAC", "AAG", "AAT", "ACC", "ACG", "AGG", "AGT", "CCG")
    rows = [
        f">s{i}{'' if y is None else f' label={y[i]}'}\n"
        + "N".join(k for k, n in zip(kmers, row, strict=True) for _ in range(n))
        + "N"
        for i, row in enumerate(X)
    ]
    (folder / f"{name}.fa").write_text("\n".join(rows) + "\n")
    return {"kind": "fasta", "path": f"{name}.fa", "k": 3, "label_from": "header"}


def parquet(folder, name, X, y):
    frame = pd.DataFrame(dict(zip(WORDS, X.T, strict=True)) | ({} if y is None else {"score": y}))
    frame.to_parquet(folder / f"{name}.parquet")
    return {"kind": "parquet", "path": f"{name}.parquet", "target": "score"}


def csv(folder, name, X, y):
    frame = pd.DataFrame(dict(zip(WORDS, X.T, strict=True)) | ({} if y is None else {"score": y}))
    frame.to_csv(folder / f"{name}.csv", index=False)
    return {"kind": "csv", "path": f"{name}.csv", "target": "score"}


def npz(folder, name, X, y):
    import scipy.sparse

    scipy.sparse.save_npz(folder / f"{name}.npz", scipy.sparse.csr_array(X.astype(np.float32)))
    if y is not None:
        np.save(folder / "y.npy", y)
    return {"kind": "npz", "path": f"{name}.npz", "y": "y.npy"}


IDS = {
    vw: ("tag", "r"),
    plink: ("iid", "s"),
    vcf_zarr: ("iid", "s"),
    cells: ("cell", "c"),
    h5ad: ("cell", "c"),
}
FORMATS = [
    jsonl,
    text_csv,
    vw,
    libsvm,
    clicks,
    headerless_clicks,
    plink,
    vcf_zarr,
    cells,
    h5ad,
    fasta,
    parquet,
    csv,
    npz,
]


def applied(folder, path, *options):
    """What the command line writes of a file, as a table, and what it says."""
    out = folder / "out.csv"
    told = CliRunner().invoke(app, ["apply", str(folder / "run"), str(path), "-o", str(out), "--force", *options])
    assert told.exit_code == 0, told.output
    return pd.read_csv(out, dtype={"iid": str}), told.output


@pytest.mark.slow_cases("text_csv", "headerless_clicks", "cells", "npz", "csv")
@pytest.mark.parametrize("write", FORMATS, ids=lambda write: write.__name__)
def test_rows_without_a_target_have_the_predictions_of_the_run_and_their_ids(write, tmp_path):
    X, y = data()
    source = write(tmp_path, "train", X, y)
    run_of(tmp_path, source, SELECT)
    model = daskfs.load(tmp_path / "run")
    path = write(tmp_path, "new", X[:60], None).get("path", source["path"].replace("train", "new"))
    labelled, told = applied(tmp_path, tmp_path / source["path"])
    bare, said = applied(tmp_path, tmp_path / path)
    assert_close(bare["prediction"].to_numpy(), labelled["prediction"].to_numpy()[:60])
    assert_close(model.predict(tmp_path / path), bare["prediction"].to_numpy())
    assert np.corrcoef(bare["prediction"], y[:60])[0, 1] > 0.5
    assert "r2" in told or write in (plink, vcf_zarr, npz)  # whose targets are elsewhere
    assert "r2" not in said
    name, letter = IDS.get(write, ("row", ""))
    assert bare[name].astype(str).tolist() == [f"{letter}{i}" for i in range(60)]


def test_classes_of_other_files_are_those_of_the_run_whatever_other_classes_there_are(tmp_path):
    X, y = data()
    kinds = np.where(y > np.median(y), "up", "down")
    for i, row in enumerate(X):
        for folder in (tmp_path / "train" / kinds[i], tmp_path / "flat", tmp_path / "only" / "up"):
            folder.mkdir(parents=True, exist_ok=True)
            if folder.name != "up" or kinds[i] == "up":
                (folder / f"{i:03}").write_text(" ".join(w for w, n in zip(WORDS, row, strict=True) for _ in range(n)))
    run_of(tmp_path, {"kind": "text", "path": "train"}, SELECT | {"loss": "logistic"})
    flat, _ = applied(tmp_path, tmp_path / "flat")
    assert (flat["prediction"] == kinds).mean() > 0.9
    only = apply(daskfs.load(tmp_path / "run"), tmp_path / "only", tmp_path / "only.csv")
    assert only.metrics["accuracy"] == (flat["prediction"] == "up")[kinds == "up"].mean()


def test_documents_come_through_standard_input(tmp_path):
    X, y = data()
    run_of(tmp_path, jsonl(tmp_path, "train", X, y), SELECT)
    lines = (tmp_path / "train.jsonl").read_text()
    told = CliRunner().invoke(app, ["apply", str(tmp_path / "run"), "-", "--quiet"], input=lines)
    found = pd.read_csv(io.StringIO(told.stdout))["prediction"].to_numpy()
    assert_close(found, daskfs.load(tmp_path / "run").predict(tmp_path / "train.jsonl"))


def test_genes_are_found_by_name_and_a_missing_one_is_named(tmp_path, monkeypatch):
    X, y = data()
    run_of(tmp_path, cells(tmp_path, "train", X, y), SELECT)
    model = daskfs.load(tmp_path / "run")
    order = np.arange(len(WORDS))[::-1]
    monkeypatch.setitem(globals(), "WORDS", tuple(WORDS[j] for j in order))
    cells(tmp_path, "new", X[:, order], None)
    assert_close(model.predict(tmp_path / "new.zarr"), model.predict(tmp_path / "train.zarr"))
    monkeypatch.setitem(globals(), "WORDS", WORDS[:3])
    cells(tmp_path, "few", X[:, order][:, :3], None)
    with refused(SchemaError, "new-rows", naming=["'birch'", "'elder'"]):
        model.predict(tmp_path / "few.zarr")


def test_a_click_log_lacks_a_column(tmp_path):
    X, y = data()
    run_of(tmp_path, clicks(tmp_path, "train", X, y), SELECT)
    table = pd.read_csv(tmp_path / "train.tsv", sep="\t").drop(columns=["score", "elder"])
    table.to_csv(tmp_path / "new.tsv", sep="\t", index=False)
    told = CliRunner().invoke(app, ["apply", str(tmp_path / "run"), str(tmp_path / "new.tsv")])
    assert told.exit_code == 2
    assert "'elder'" in told.output


def rewritten(bed, change):
    """Change the lines of a .bim file: (chromosome, name, centimorgan, position, a1, a2)."""
    lines = [line.split() for line in bed.with_suffix(".bim").read_text().splitlines()]
    bed.with_suffix(".bim").write_text("".join("\t".join(change(*line)) + "\n" for line in lines))


@pytest.fixture
def genotypes(tmp_path):
    """A run on dosages of which some are missing, with more than one sign of each variant's alleles."""
    X, y = data()
    X[::7, 1] = 9
    source = plink(tmp_path, "train", X, y)
    run_of(tmp_path, source | {"missing": "mean"}, SELECT)
    known = np.where(X == 9, np.nan, X)
    return tmp_path, np.where(X == 9, np.nanmean(known, axis=0), X), X


def test_a_missing_dosage_is_the_mean_of_the_run_and_swapped_alleles_are_flipped(genotypes):
    folder, _, X = genotypes
    expected, _ = applied(folder, folder / "train.bed")
    write_plink(folder / "new.bed", np.where(X[:40] == 9, 9, 2 - X[:40]))
    rewritten(folder / "new.bed", lambda c, name, m, position, a1, a2: (c, name, m, position, a2.lower(), a1))
    found, told = applied(folder, folder / "new.bed")
    assert_close(found["prediction"].to_numpy(), expected["prediction"].to_numpy()[:40])
    assert "3 of 3 variants have their alleles swapped" in told
    write_vcf_zarr(folder / "new.vcz", np.where(X == 9, -1, X))
    found, told = applied(folder, folder / "new.vcz")
    assert_close(found["prediction"].to_numpy(), expected["prediction"].to_numpy())
    assert "swapped" not in told


def test_variants_that_are_absent_or_have_other_alleles_are_named_and_count_as_the_mean(genotypes):
    folder, filled, X = genotypes
    model = daskfs.load(folder / "run")
    first, second = model.features[:2]
    write_plink(folder / "new.bed", X)
    change = {
        first: lambda c, name, *more: (c, "rs99", *more),
        second: lambda c, name, m, p, a1, a2: (c, name, m, p, "A", "C"),
    }
    rewritten(folder / "new.bed", lambda c, name, *more: change.get(name, lambda *line: line)(c, name, *more))
    found, told = applied(folder, folder / "new.bed", "--features")
    words = " ".join(told.split())
    assert f"1 of 3 variants are not in the data; the mean of the run is used: {first}" in words
    assert f"1 of 3 variants have other alleles than in the run; the mean of the run is used: {second}; if" in words
    for name in (first, second):
        assert_close(found[name].to_numpy(), np.full(len(X), filled[:, int(name[2:])].mean(), np.float32))
    rewritten(folder / "new.bed", lambda c, name, *more: (c, f"{name}x", *more))
    with refused(SchemaError, "new-rows", at="new.bed", naming=["3", first]):
        model.predict(folder / "new.bed")


def test_swapped_alleles_that_may_be_of_the_other_strand_are_told_with_the_remedy(tmp_path):
    X, y = data()
    source = plink(tmp_path, "train", X, y)
    palindrome = lambda c, name, m, p, a1, a2: (c, name, m, p, *(("A", "T") if name == "rs1" else (a1, a2)))  # noqa: E731
    rewritten(tmp_path / "train.bed", palindrome)
    run_of(tmp_path, source, SELECT)
    assert "rs1" in daskfs.load(tmp_path / "run").features
    write_plink(tmp_path / "new.bed", 2 - X)
    rewritten(tmp_path / "new.bed", lambda *line: (*palindrome(*line)[:4], *palindrome(*line)[:3:-1]))
    found, told = applied(tmp_path, tmp_path / "new.bed", "--features")
    words = " ".join(told.split())
    assert "1 of 3 variants have alleles that are swapped or from the other strand (ambiguous)" in words
    assert "the mean of the run is used: rs1; if both data sets are of the same strand" in words
    assert "plink2 --alt1-allele force RUN/score.txt 2 1 1 --make-bed" in words
    assert "2 of 3 variants have their alleles swapped" in words
    assert_close(found["rs1"].to_numpy(), np.full(N, X[:, 1].mean(), np.float32))


def ingested(bed, X, change):
    """The store of genotypes whose variants were changed, and the rows of X in it."""
    write_plink(bed, X)
    rewritten(bed, change)
    write_phenotypes(bed.with_suffix(".txt"), {"score": np.arange(len(X))})
    store = daskfs.ingest(bed, bed.with_suffix(".zarr"), phenotypes=str(bed.with_suffix(".txt")), missing="mean")
    return store, store.source_rows if store.source_rows is not None else np.arange(len(X))


def test_variants_of_a_store_are_matched_by_alleles_and_flipped(genotypes):
    folder, filled, X = genotypes
    model = daskfs.load(folder / "run")
    expected = model.predict(folder / "train.bed")
    turned = np.where(X == 9, 9, 2 - X)
    store, rows = ingested(folder / "turned.bed", turned, lambda *line: (*line[:4], line[5], line[4]))
    assert_close(model.predict(store), expected[rows])
    assert "3 of 3 variants have their alleles swapped" in applied(folder, store.path)[1]

    first, second, third = model.features
    change = {
        first: lambda c, name, *more: (c, "rs99", *more),
        second: lambda c, name, m, p, a1, a2: (c, name, m, p, "A", "C"),
    }
    some = lambda c, name, *more: change.get(name, lambda *line: line)(c, name, *more)  # noqa: E731
    store, rows = ingested(folder / "some.bed", X, some)
    found, told = applied(folder, store.path, "--features")
    words = " ".join(told.split())
    assert f"1 of 3 variants are not in the data; the mean of the run is used: {first}" in words
    assert f"1 of 3 variants have other alleles than in the run; the mean of the run is used: {second}; if" in words
    for name in (first, second):
        assert_close(found[name].to_numpy(), np.full(len(X), filled[:, int(name[2:])].mean(), np.float32))
    assert_close(found[third].to_numpy(), filled[rows, int(third[2:])].astype(np.float32))

    store, _ = ingested(folder / "none.bed", X, lambda c, name, *more: (c, f"{name}x", *more))
    with refused(SchemaError, "new-rows", at="none.zarr", naming=["3", first]):
        model.predict(store)


def haploid(path, X, alleles):
    """Samples of one copy, of which 1 is of the second allele."""
    write_vcf_zarr(path, X)
    root = zarr.open_group(str(path), mode="a")
    del root["call_genotype"], root["variant_allele"]
    root.create_array("call_genotype", data=X.T[:, :, None].astype(np.int8), chunks=(1000, 1000, 1))
    root.create_array("variant_allele", data=np.array([alleles] * X.shape[1]))
    return path


@pytest.mark.slow
def test_one_copy_of_swapped_alleles_is_flipped_within_one(tmp_path):
    X, y = data()
    X = np.minimum(X, 1)
    haploid(tmp_path / "train.vcz", X, ["G", "A"])
    write_phenotypes(tmp_path / "pheno.txt", {"score": y})
    source = {"kind": "vcf_zarr", "path": "train.vcz", "phenotypes": "pheno.txt", "target": "score"}
    run_of(tmp_path, source, SELECT)
    model = daskfs.load(tmp_path / "run")
    expected = model.predict(tmp_path / "train.vcz")
    haploid(tmp_path / "new.vcz", 1 - X, ["A", "G"])
    assert_close(model.predict(tmp_path / "new.vcz"), expected)
    options = {"phenotypes": str(tmp_path / "pheno.txt"), "target": "score"}
    store = daskfs.ingest(tmp_path / "new.vcz", tmp_path / "new.zarr", **options)
    rows = store.source_rows if store.source_rows is not None else np.arange(N)
    assert_close(model.predict(store), expected[rows])
    store = daskfs.ingest(tmp_path / "new.vcz", tmp_path / "ref.zarr", allele="ref", **options)
    assert set(np.unique(store.read(slice(None)))) == {0, 1}


@pytest.mark.slow_cases("error")
@pytest.mark.parametrize("missing", ["drop", "error"])
def test_a_missing_dosage_is_what_it_was_in_the_run(missing, tmp_path):
    X, y = data()
    run_of(tmp_path, plink(tmp_path, "train", X, y) | {"missing": missing}, SELECT, store="none")
    model = daskfs.load(tmp_path / "run")
    expected = model.predict(tmp_path / "train.bed")
    lacking = X.copy()
    lacking[5, int(model.features[0][2:])] = 9
    write_plink(tmp_path / "new.bed", lacking)
    if missing == "error":
        with refused(DataError, "new-rows", at=f"column '{model.features[0]}', row 5"):
            model.predict(tmp_path / "new.bed")
        return
    found = model.predict(tmp_path / "new.bed")
    assert np.isnan(found[5])
    assert_close(np.delete(found, 5), np.delete(expected, 5))


def test_covariates_of_other_samples_are_a_table_of_their_own(tmp_path):
    X, y = data()
    sites = np.array(["east", "north", "west"])[np.arange(N) % 3]

    def write_sites(name, n_first):
        rows = [f"f s{i} {site}" for i, site in enumerate(sites) if i >= n_first]
        (tmp_path / name).write_text("FID IID site\n" + "\n".join(rows) + "\n")

    write_sites("train.cov", 0)
    source = plink(tmp_path, "train", X, y + 9.0 * (sites == "west") + 7.0 * (sites == "north"))
    run_of(tmp_path, source | {"covariates": "train.cov"}, SELECT | {"n_features_to_select": 4})
    assert {"site=north", "site=west"} <= set(daskfs.load(tmp_path / "run").features)
    expected, _ = applied(tmp_path, tmp_path / "train.bed", "--covariates", str(tmp_path / "train.cov"))
    sites[:60] = ""
    write_sites("new.cov", 60)
    sites[sites == "east"] = "north"
    found, told = applied(tmp_path, tmp_path / "train.bed", "--covariates", str(tmp_path / "new.cov"))
    assert "60 rows have no prediction" in told
    assert "levels" not in told
    assert_close(found["prediction"].to_numpy()[60:], expected["prediction"].to_numpy()[60:])
    sites[60:63] = "south", "inner", "south"
    write_sites("odd.cov", 60)
    found, told = applied(tmp_path, tmp_path / "train.bed", "--covariates", str(tmp_path / "odd.cov"))
    words = "covariate 'site': 3 rows have levels that the fit did not have and count as 'east'"
    assert f"{words}: 'south' (2 rows), 'inner' (1 row)" in " ".join(told.split())


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1, 40])
def test_features_of_libsvm_are_called_by_their_index_everywhere(first, tmp_path):
    X, y = data()
    rows = [f"{y[i]} " + " ".join(f"{first + j}:{n}" for j, n in enumerate(row) if n) for i, row in enumerate(X)]
    (tmp_path / "t.svm").write_text("\n".join(rows) + "\n")
    expected = {str(first + 1), str(first + 4)}
    run_of(tmp_path, {"kind": "libsvm", "path": "t.svm"}, SELECT | {"n_features_to_select": 2})
    assert set(pd.read_csv(tmp_path / "run" / "selected.csv", dtype=str)["name"]) == expected
    assert set(daskfs.load(tmp_path / "run").features) == expected
    store = daskfs.open_store(tmp_path / "one.zarr")
    assert str(store.names[-1]) == str(first + len(WORDS) - 1)
    column = store.names.index(str(first + 4))
    assert_close(np.sort(store.read(slice(None), [column])[:, 0]), np.sort(X[:, 4]).astype(float))
    with refused(DataError, "shapes", at="names", naming=["'x1'"]):
        store.names.index("x1")
    if first != 40:
        return
    command = [sys.executable, "-m", "daskfs", "select", "-", "--format", "libsvm", "--output", "piped"]
    command += ["--method", "mission", "--n-features", "2", "--set", "loss=squared"]
    with (tmp_path / "t.svm").open("rb") as lines:
        subprocess.run(command, stdin=lines, cwd=tmp_path, check=True)
    names = set(pd.read_csv(tmp_path / "piped" / "selected.csv", dtype=str)["name"])
    assert names
    assert names <= {str(first + j) for j in range(len(WORDS))}
