"""Rows that belong together, families for example: no split, fold or half cuts them."""

import html
import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from daskfs import FGM, SelectionCV, SplitInference, StabilitySelection
from daskfs.cli import app
from daskfs.documents import dump_yaml
from daskfs.errors import ConfigError, DataError
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.matrix.base import Matrix
from daskfs.matrix.split import in_whole_groups
from daskfs.model_selection.stability import Half
from daskfs.pipeline.checks import check_pipeline
from daskfs.pipeline.config import load_pipeline
from daskfs.selectors.message.selector import Message
from daskfs.selectors.shared.cross_validation import Fold
from daskfs.sources.ingest import ingest
from daskfs.sources.plink import PlinkSource
from tests.genotype_files import write_plink
from tests.refusals import refused


def families(n_samples, seed=0):
    """A family for each sample: of one to six, who do not stand together; some have none."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, n_samples)
    found = np.repeat(np.arange(n_samples), sizes)[:n_samples]
    return rng.permutation(np.where(found % 10 == 9, "0", [f"F{k}" for k in found]))


@pytest.fixture
def cohort(tmp_path, monkeypatch):
    """Genotypes of families, who share a part of the phenotype; the families of the samples."""
    monkeypatch.chdir(tmp_path)
    rng, fid = np.random.default_rng(0), families(240)
    dosages = rng.integers(0, 3, (240, 30))
    shared = {family: rng.standard_normal() for family in np.unique(fid)}
    y = dosages[:, 3] - dosages[:, 7] + np.array([shared[family] for family in fid]) + rng.standard_normal(240)
    write_plink(tmp_path / "cohort.bed", dosages)
    (tmp_path / "cohort.fam").write_text("".join(f"{fid[i]} s{i} 0 0 0 {y[i]}\n" for i in range(240)))
    return tmp_path, fid


def cut_families(one, other):
    """Families with rows on both sides; 0 is none."""
    return ({*one.tolist()} & {*other.tolist()}) - {"0"}


def test_groups_are_numbered_as_they_come_and_rows_without_one_are_alone(tmp_path, cohort):
    _, fid = cohort
    source = PlinkSource("cohort.bed")
    numbers = source.as_matrix().row_groups("fid")
    of_family = {}
    for family, number in zip(fid.tolist(), numbers.tolist(), strict=True):
        if family != "0":
            assert of_family.setdefault(family, number) == number
    counts = Counter(numbers.tolist())
    assert len(counts) == len({*fid.tolist()} - {"0"}) + (fid == "0").sum()
    assert all(counts[number] == 1 for number in numbers[fid == "0"].tolist())
    assert numbers[0] == 0
    assert (np.diff(np.maximum.accumulate(numbers)) <= 1).all()
    stored = ingest(source, tmp_path / "shuffled.zarr", shuffle=True)
    np.testing.assert_array_equal(stored.row_groups("fid"), numbers[stored.source_rows])
    given = ArrayMatrix(np.zeros((240, 1)), np.arange(240.0)).row_groups(fid)
    assert len(np.unique(given)) == len(np.unique(fid))  # a label that is given is a label
    frame = pd.DataFrame({"x": np.arange(6.0), "y": np.arange(6.0), "patient": ["b", "", "a", "b", "", "a"]})
    columns = {"x": {"role": "feature"}, "y": {"role": "target"}, "patient": {"role": "id"}}
    table = ingest(frame, tmp_path / "t.zarr", schema={"columns": columns}, shuffle=False)
    assert table.row_groups("patient").tolist() == [0, 1, 2, 0, 3, 2]


@pytest.mark.parametrize("seed", range(20))
def test_drawn_groups_are_whole_and_as_many_as_are_wanted(seed):
    rng = np.random.default_rng(seed)
    groups, wanted = rng.integers(0, 25, 200), int(rng.integers(1, 200))
    is_drawn = in_whole_groups(groups, wanted, rng)
    assert not {*groups[is_drawn].tolist()} & {*groups[~is_drawn].tolist()}
    assert wanted <= is_drawn.sum() < wanted + np.bincount(groups).max()


def test_every_group_is_drawn_alike():
    groups = np.repeat(np.arange(8), 5)
    drawn = [in_whole_groups(groups, 20, np.random.default_rng(seed))[::5] for seed in range(400)]
    shares = np.mean(drawn, axis=0)
    assert (np.abs(shares - 0.5) < 0.1).all()  # four standard errors


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("stored", [False, True])
def test_a_split_leaves_families_whole_wherever_the_rows_lie(cohort, seed, stored):
    folder, _ = cohort
    source = PlinkSource("cohort.bed")
    matrix = ingest(source, folder / "s.zarr", shuffle=True) if stored else source.as_matrix()
    train, test = matrix.split(0.2, random_state=seed, groups="fid")
    assert not cut_families(train.labels("fid"), test.labels("fid"))
    assert 48 <= test.shape[0] < 48 + 6
    assert train.shape[0] + test.shape[0] == 240
    expected = source.as_matrix().split(0.2, random_state=seed, groups="fid")[1].labels("iid")
    assert {*test.labels("iid").tolist()} == {*expected.tolist()}
    assert cut_families(*(part.labels("fid") for part in matrix.split(0.2, random_state=seed)))


@pytest.mark.parametrize("by_class", [False, True])
def test_halves_have_no_family_in_common_and_classes_alike(by_class):
    fid = families(300)
    fid = np.where(fid == "0", [f"alone{i}" for i in range(300)], fid)
    y = (np.random.default_rng(1).random(300) < 0.3).astype(float)
    matrix, firsts = ArrayMatrix(np.arange(300.0)[:, None], y), []
    for pair in range(20):
        rows = [
            Half(0, pair, second, by_class, groups=fid).of(matrix).read(slice(None))[:, 0].astype(int)
            for second in (False, True)
        ]
        assert not {*fid[rows[0]].tolist()} & {*fid[rows[1]].tolist()}
        assert len(rows[0]) + len(rows[1]) == 300
        assert abs(len(rows[0]) - len(rows[1])) <= 24
        if by_class:
            assert abs(y[rows[0]].mean() - y[rows[1]].mean()) < 0.15
        firsts.append(tuple(rows[0].tolist()))
    assert len({*firsts}) == 20
    halves = [Half(0, 0, False, by_class, groups=fid).of(matrix).read(slice(None)) for _ in range(2)]
    np.testing.assert_array_equal(*halves)


@pytest.mark.slow
def test_chance_that_relatives_share_is_stable_only_where_halves_share_families():
    largest = []
    for seed in range(6):
        rng, family = np.random.default_rng(seed), np.repeat(np.arange(20), 10)
        X = rng.standard_normal((200, 40))
        X[:, :10] = rng.standard_normal((20, 10))[family] + 0.1 * X[:, :10]
        y = 2.0 * rng.standard_normal(20)[family] + X[:, 20] + rng.standard_normal(200)
        found = [StabilitySelection(FGM(4), n_pairs=8, random_state=seed, groups=g).fit(X, y) for g in (None, family)]
        assert all(20 in selector.selected_ for selector in found)
        largest.append([selector.frequencies_[:10].max() for selector in found])
    cut, whole = np.transpose(largest)
    assert cut.mean() - whole.mean() > 0.15
    assert whole.max() < cut.max()


def test_split_inference_estimates_from_other_families():
    rng = np.random.default_rng(0)
    X, family = rng.standard_normal((300, 20)), np.repeat(np.arange(60), 5)
    y = X[:, 3] + rng.standard_normal(300)
    seen = []
    take = ArrayMatrix.take
    ArrayMatrix.take = lambda self, rows: seen.append(np.asarray(rows)) or take(self, rows)
    try:
        SplitInference(FGM(1), groups=family).fit(X, y)
    finally:
        ArrayMatrix.take = take
    halves = [rows for rows in seen if rows.dtype != bool][:2]
    assert not {*family[halves[0]].tolist()} & {*family[halves[1]].tolist()}
    assert sum(map(len, halves)) == 300


@pytest.mark.parametrize(
    ("call", "kind", "topic", "at"),
    [
        (lambda X, y: StabilitySelection(FGM(2), groups=np.zeros(60)).fit(X, y), ConfigError, "parameters", "groups"),
        (lambda X, y: SplitInference(FGM(2), groups=np.zeros(60)).fit(X, y), ConfigError, "parameters", "groups"),
        (lambda X, y: StabilitySelection(FGM(2), groups=np.zeros(7)).fit(X, y), DataError, "shapes", "groups"),
        (lambda X, y: SelectionCV(FGM(2), groups=np.zeros(7)).fit(X, y), DataError, "shapes", "groups"),
        (
            lambda X, y: StabilitySelection(Message(), subsamples="own", groups=np.arange(60)).fit(X, y),
            ConfigError,
            "parameters",
            "groups",
        ),
        (
            lambda X, y: ArrayMatrix(X, y).split(0.2, "order", groups=np.arange(60)),
            ConfigError,
            "parameters",
            "split.groups",
        ),
        (lambda X, y: ArrayMatrix(X, y).split(0.2, groups=np.zeros(60)), ConfigError, "parameters", "split"),
    ],
)
def test_what_cannot_be_grouped_is_refused(call, kind, topic, at):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 10))
    with refused(kind, topic, at=at):
        call(X, X[:, 0] + rng.standard_normal(60))


def write(folder, **sections):
    document = {
        "version": 1,
        "name": "cohort",
        "output": "run",
        "source": {"kind": "plink", "path": "cohort.bed"},
        "store": "none",
        "split": {"test": 0.2, "groups": "fid"},
        "select": {"method": "fgm", "n_features_to_select": 3},
        **sections,
    }
    (folder / "p.yaml").write_text(dump_yaml(document))
    return folder / "p.yaml"


@pytest.mark.slow
@pytest.mark.parametrize("store", ["none", {"path": "cohort.zarr"}])
@pytest.mark.parametrize(
    "sections",
    [
        {"stability": {"n_pairs": 4, "groups": "fid"}},
        {"select": {"method": "fgm", "n_features_to_select": {"cv": 4, "sizes": [1, 2, 4], "groups": "fid"}}},
        {"split_inference": {"groups": "fid"}},
    ],
)
def test_a_run_cuts_no_family(cohort, monkeypatch, store, sections):
    folder, _ = cohort
    parts = []

    def spied(kind, name):
        function = getattr(kind, name)

        def of(self, matrix):
            found = function(self, matrix)
            parts.append((kind, found.labels("fid"), matrix.labels("fid"), found.labels("iid"), matrix.labels("iid")))
            return found

        monkeypatch.setattr(kind, name, of)

    spied(Half, "of")
    spied(Fold, "of")
    split, sides = Matrix.split, []
    monkeypatch.setattr(
        Matrix, "split", lambda self, *given, **how: sides.append(split(self, *given, **how)) or sides[-1]
    )
    said = CliRunner().invoke(app, ["run", str(write(folder, store=store, **sections))])
    assert said.exit_code == 0, said.output
    assert len(sides) >= 1
    for train, test in sides:
        assert not cut_families(train.labels("fid"), test.labels("fid"))
    assert len(parts) == {"stability": 8, "select": 4, "split_inference": 0}[next(iter(sections))]
    for _, fid, all_fid, iid, all_iid in parts:
        assert not cut_families(fid, all_fid[~np.isin(all_iid, iid)])
    document = json.loads((folder / "run" / "result.json").read_text())
    assert document["method"]
    assert "whole groups of 'fid'" in html.unescape((folder / "run" / "report.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("sections", "where"),
    [
        ({"split": {"test": 0.2, "groups": "family"}}, "split.groups"),
        ({"stability": {"groups": "family"}}, "stability.groups"),
        ({"split_inference": {"groups": "family"}}, "split_inference.groups"),
        (
            {"select": {"method": "fgm", "n_features_to_select": {"cv": 4, "groups": "family"}}},
            "select.n_features_to_select.groups (fgm)",
        ),
    ],
)
def test_a_column_that_is_not_there_is_refused_before_the_run(cohort, sections, where):
    with refused(ConfigError, "pipeline-files", at=where, naming=["'family'", "fid", "iid"]):
        check_pipeline(load_pipeline(write(cohort[0], **sections)))


def test_whole_groups_are_drawn_at_random_only(cohort):
    with refused(ConfigError, "yaml-files", naming=["groups", "order"]):
        load_pipeline(write(cohort[0], split={"test": 0.2, "by": "order", "groups": "fid"}))


def test_a_plan_counts_no_fewer_rows_than_the_run_trains_on(cohort):
    from daskfs.pipeline.facts import facts_of

    pipeline = load_pipeline(write(cohort[0]))
    train, _ = PlinkSource("cohort.bed").as_matrix().split(0.2, groups="fid")
    assert facts_of(pipeline, check_pipeline(pipeline)).n_train >= train.shape[0]
