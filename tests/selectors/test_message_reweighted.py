"""MESSAGE with classes or counts on genotype files: the path of the loss at the chosen λ, from undecoded columns."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from daskfs import Message
from daskfs.errors import PlanError
from daskfs.kernels.glm.newton import mean_loss, new_predictions, new_problem
from daskfs.kernels.glm.path import glm_path
from daskfs.kernels.losses import threshold_of
from daskfs.losses import TargetKind, find_loss
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.message.reweighted import _share_of_step, reweighted_path
from daskfs.sources.genotype_matrix import GenotypeMatrix
from daskfs.sources.plink import PlinkSource
from tests.genotype_files import CAUSAL, N, P, cohort, write_phenotypes, write_plink
from tests.refusals import refused
from tests.selectors.test_message_screened import alone

CHANGE = 1e-6


@pytest.fixture(scope="module")
def matrix(tmp_path_factory):
    return cohort(tmp_path_factory.mktemp("cohort"))


def target_of(matrix, loss):
    rng, y = np.random.default_rng(0), np.asarray(matrix.read_target())
    z = (y - y.mean()) / y.std()
    if loss == "logistic":
        return np.where(z + 0.5 * rng.standard_normal(N) > 0.3, 1.0, -1.0)
    return rng.poisson(np.exp(0.7 * z)).astype(float) if loss == "poisson" else z + 10.0 * (rng.random(N) < 0.1)


def paths(matrix, loss, weight=None, free=(), **options):
    """Return the path from undecoded columns, and that of all columns at the λ which it chose."""
    y, weight = target_of(matrix, loss), np.ones(N) if weight is None else weight
    options |= {"loss": loss, "threshold": threshold_of(find_loss(loss), None, y, weight), "patience": 20}
    options |= {"free": np.array(free, np.int64), "penalty": float(np.log(N)), "max_features": 60}
    found = alone(reweighted_path(matrix, y, weight, most_near=P, change=CHANGE, **options))
    lambdas = found.lambdas[[max(found.best - 1, 0), found.best]]
    return found, glm_path(matrix.read(slice(None)), y, weight, lambdas=lambdas, tol=1e-9, **options)


@pytest.mark.parametrize("loss", ["logistic", "poisson", "huber"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"free": (0, 1)},
        {"weight": np.random.default_rng(1).integers(0, 3, N).astype(np.float64)},
        {"column_weight": np.random.default_rng(2).uniform(0.5, 1.0, P + 2)},
    ],
    ids=["default", "covariates", "weights", "column weights"],
)
def test_the_chosen_model_is_that_of_the_path_of_all_columns(matrix, loss, options):
    found, expected = paths(matrix, loss, **options)
    assert found.n_unsolved == 0
    assert len(found.selected()) > 4
    # single precision, and the tolerance of the last round
    np.testing.assert_allclose(found.coefficients(found.best), expected.coefficients(1), atol=1e-5)
    np.testing.assert_allclose(found.intercept(found.best), expected.intercept(1), atol=1e-4)


def test_the_deviance_of_the_shrunk_model_is_exact(matrix):
    found, expected = paths(matrix, "logistic", gic_rss="lasso")
    np.testing.assert_allclose(found.fit[found.best], expected.fit[1], rtol=1e-5)  # single precision
    np.testing.assert_allclose(found.gic[found.best], expected.gic[1], rtol=1e-5)


@pytest.mark.parametrize("free", [(), (0, 1)], ids=["", "covariates"])
def test_a_single_class_has_no_path(matrix, free):
    options = {"loss": "logistic", "threshold": 0.0, "penalty": 6.0, "most_near": P}
    assert alone(reweighted_path(matrix, np.ones(N), np.ones(N), free=np.array(free, np.int64), **options)).best == -1


def test_classes_that_columns_separate_end_with_a_finite_model(matrix):
    decoded = matrix.read(slice(None))
    y = np.where(decoded[:, 2 + CAUSAL[0]] > 0.5, 1.0, -1.0)
    options = {"loss": "logistic", "threshold": 0.0, "free": np.empty(0, np.int64), "penalty": 6.0, "patience": 5}
    path = alone(reweighted_path(matrix, y, np.ones(N), most_near=P, max_features=20, **options))
    assert 2 + CAUSAL[0] in path.selected()
    assert np.isfinite(path.coefficients(path.best)).all()


@pytest.mark.parametrize("variants", [[3], [3, 7, 9]])
def test_variants_that_determine_the_class_are_selected(tmp_path, variants):
    """Around their fit all curvatures vanish, so an approximation there does not see what they gain."""
    dosages = np.random.default_rng(0).binomial(2, 0.3, (3000, 50)).astype(np.int8)
    bed, n_alleles = write_plink(tmp_path / "set.bed", dosages), dosages[:, variants].sum(axis=1)
    table = write_phenotypes(tmp_path / "t.pheno", {"T": 1.0 + (n_alleles > len(variants) - 1)})
    found = Message(n_subsets=1).fit(PlinkSource(bed, phenotypes=table, target="T").as_matrix())
    assert sorted(found.selected_) == variants


def test_a_step_that_goes_too_far_is_shortened():
    """Towards z = 50 the Poisson loss of a count of 1 grows without bound."""
    problem, at = new_problem(find_loss("poisson"), None, np.ones(4), np.ones(4)), new_predictions(4)
    at.z[:] = -3.0
    before = mean_loss(problem, at.z, at)
    share = _share_of_step(problem, at, np.full(4, 53.0), 0.1)
    assert 0.0 < share < 0.2
    np.testing.assert_allclose(at.z, -3.0 + 53.0 * share)
    assert mean_loss(problem, at.z, at) + 0.1 * share < before


def test_covariates_that_determine_the_class_leave_nothing_to_select(tmp_path):
    dosages = np.random.default_rng(0).binomial(2, 0.3, (300, 50)).astype(np.int8)
    bed, age = write_plink(tmp_path / "set.bed", dosages), np.arange(300.0)
    table = write_phenotypes(tmp_path / "t.pheno", {"T": 1.0 + (age > 150), "age": age})
    source = PlinkSource(bed, phenotypes=table, target="T", covariate_names=["age"])
    found = Message(n_subsets=1, always_include=["age"]).fit(source.as_matrix())
    assert found.selected_.tolist() == [0]
    assert any("separable" in note for note in found.result_.notes)


def test_no_deviance_is_below_the_least(matrix):
    """The approximation around two cases of 400 falls below 0."""
    y = np.where(np.isin(np.arange(N), [5, 9]), 1.0, -1.0)
    options = {"loss": "logistic", "threshold": 0.0, "free": np.empty(0, np.int64), "penalty": 6.0, "patience": None}
    path = alone(reweighted_path(matrix, y, np.ones(N), most_near=P, max_features=40, **options))
    assert len(path.fit) > 10
    assert path.fit.min() >= 0.0


def test_predictions_that_still_change_are_counted(matrix, monkeypatch):
    monkeypatch.setattr("daskfs.selectors.message.reweighted.MOST_ROUNDS", 1)
    assert paths(matrix, "logistic")[0].n_unsolved == 1


@pytest.fixture(scope="module")
def of_many(tmp_path_factory):
    """Two thousand samples, so that criteria of the approximation and of all columns choose nearly the same."""
    return cohort(tmp_path_factory.mktemp("many"), n=2000, n_classes=2)


def test_two_classes_are_selected_from_undecoded_variants(of_many, monkeypatch):
    in_memory = ArrayMatrix(of_many.read(slice(None)), of_many.target, feature_names=list(of_many.names))
    options = {"n_subsets": 1, "always_include": ["age", "PC1"], "random_state": 0}
    expected, asked, read = Message(**options).fit(in_memory), set(), GenotypeMatrix.read

    def counted(self, rows, columns=slice(None), out=None):
        asked.update(np.arange(self.shape[1])[columns].tolist())
        return read(self, rows, columns, out)

    monkeypatch.setattr(GenotypeMatrix, "read", counted)
    found = Message(**options).fit(of_many)
    assert len(asked) < P // 2
    both = np.intersect1d(found.selected_, expected.selected_)
    assert len(both) >= 0.8 * max(len(found.selected_), len(expected.selected_))
    assert len(np.intersect1d(found.selected_ - 2, CAUSAL)) >= 5


def test_several_classes_are_each_followed(tmp_path):
    found = Message(n_subsets=1, loss="multinomial", random_state=0).fit(cohort(tmp_path, n=1500, n_classes=3))
    assert found.coef_.shape == (3, P + 2)
    assert len(np.intersect1d(found.selected_ - 2, CAUSAL)) >= 4


def test_a_fit_stays_within_its_plan(of_many):
    options = {"n_subsets": 1, "always_include": ["age", "PC1"], "max_features": 60}
    shape = {"memory_limit": None, "dtype": of_many.dtype, "tile_shape": of_many.tile_shape, "names": of_many.names}
    plan = Message(**options).plan(*of_many.shape, target=TargetKind(2), has_products=True, **shape)
    three = Message(**options).plan(*of_many.shape, target=TargetKind(3), has_products=True, **shape)
    assert 16 < plan.n_passes == three.n_passes, "three classes share the passes"
    assert plan.task_nbytes < three.task_nbytes
    Message(**options).fit(of_many)  # compiles
    tracemalloc.start()
    Message(**options).fit(of_many)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= plan.task_nbytes + plan.client_nbytes


def test_the_model_is_as_large_as_memory_allows(tmp_path):
    """Columns are refitted together, so a limit bounds the largest model; what the error asks for is enough."""
    two = cohort(tmp_path, n_classes=2)
    with refused(PlanError, "memory-limit", at="memory_limit") as caught:
        Message(n_subsets=1, memory_limit="100KiB").fit(two)
    found = Message(n_subsets=1, memory_limit=caught.value.needed_nbytes).fit(two)
    assert found.support_.any()
