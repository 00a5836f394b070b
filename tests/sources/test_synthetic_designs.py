"""The designs of the online substitution paper and those that it lacks: moments, labels, sizes."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from daskfs.errors import ConfigError
from daskfs.sources.synthetic import SyntheticSource
from daskfs.sources.synthetic_designs import N_FACTORS
from tests.refusals import refused


def drawn(n_samples=4000, n_features=150, **options):
    options = {"n_informative": 20, **options}
    source = SyntheticSource(n_samples, n_features, design="online_substitution", **options)
    return source, next(source.row_blocks(n_samples))


def test_the_message_design_is_what_it_was():
    source = SyntheticSource(1500, 7, correlation=0.5, noise="t3", random_state=3)
    block = next(source.row_blocks(1500))
    values = hashlib.sha256(block.X.tobytes() + block.y.tobytes()).hexdigest()
    assert source.digest() == "d3dd0478b3444b14fdaeb217c62b3faa4a64238a38fb905a24b76ee45cc4f31b"
    assert values == "3828f6b29c0967e7cc67fa885576ca2824fb0d182818927db58f5bfbfb3f8521"


def test_the_paper_has_1_2_s_log2_p_rows():
    assert SyntheticSource(n_features=6000, design="online_substitution").n_samples == 1506
    assert len(SyntheticSource(n_features=6000, design="online_substitution").support) == 100


def test_coefficients_and_features_are_standard_normal():
    source, block = drawn(n_features=2000, n_informative=1000)
    assert abs(source.coef.std() - 1) < 0.1
    assert abs(source.coef.mean()) < 0.1
    assert abs(block.X.std() - 1) < 0.01
    residual = block.y - block.X[:, source.support] @ source.coef
    assert residual.std() == pytest.approx(0.1, rel=0.05)


def test_unit_columns_have_length_1_and_the_same_noise():
    source, block = drawn(columns="unit")
    np.testing.assert_allclose(np.linalg.norm(block.X, axis=0), 1.0, atol=0.06)
    residual = block.y - block.X[:, source.support] @ source.coef
    assert residual.std() == pytest.approx(0.1, rel=0.05)


def test_without_noise_the_sign_is_the_class():
    source, block = drawn(noise="none")
    np.testing.assert_array_equal(block.y, block.X[:, source.support].astype(float) @ source.coef > 0)


@pytest.mark.parametrize("structure", ["common_factor", "autoregressive", "factors", "near_duplicates"])
def test_rows_do_not_depend_on_the_block(structure):
    source, whole = drawn(n_samples=2500, structure=structure)
    parts = list(source.row_blocks(700))
    np.testing.assert_array_equal(np.concatenate([part.X for part in parts]), whole.X)
    np.testing.assert_array_equal(np.concatenate([part.y for part in parts]), whole.y)


def correlations(structure, **options):
    correlation = np.corrcoef(drawn(n_samples=8000, structure=structure, **options)[1].X.T)
    return correlation, correlation[~np.eye(150, dtype=bool)]


def test_a_common_factor_correlates_all_columns():
    _, off = correlations("common_factor")
    assert off.mean() == pytest.approx(0.5, abs=0.02)
    assert correlations("common_factor", correlation=0.2)[1].mean() == pytest.approx(0.2, abs=0.02)


def test_an_autoregression_correlates_neighbours():
    correlation, _ = correlations("autoregressive")
    for lag in (1, 2, 5):
        assert np.diag(correlation, lag).mean() == pytest.approx(0.9**lag, abs=0.02)


def test_factors_leave_a_low_rank_and_a_rest():
    _, block = drawn(n_samples=8000, structure="factors")
    eigenvalues = np.linalg.eigvalsh(np.cov(block.X.T))[::-1]
    assert eigenvalues[N_FACTORS - 1] > 2 * eigenvalues[N_FACTORS]
    assert eigenvalues[N_FACTORS:].mean() == pytest.approx(0.3, abs=0.03)
    assert eigenvalues.sum() / 150 == pytest.approx(1.0, abs=0.1)


def test_a_fifth_of_the_columns_are_near_duplicates():
    correlation, _ = correlations("near_duplicates")
    has_twin = (np.abs(correlation - np.eye(150)) > 0.999).any(axis=0)
    assert 30 < has_twin.sum() <= 60  # 30 copies and their originals, some of which have several


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"noise": "logistic"}, "source.noise"),
        ({"structure": "clustered"}, "source.structure"),
        ({"columns": "long"}, "source.columns"),
        ({"correlation": 0.5}, "source.correlation"),
        ({"structure": "autoregressive", "correlation": 1.0}, "source.correlation"),
        ({"n_informative": 200}, "source.n_informative"),
    ],
)
def test_a_wrong_parameter_is_named(options, where):
    with pytest.raises(ConfigError, match=where):
        drawn(**options)


def test_the_message_design_has_no_structure_and_needs_its_rows():
    with refused(ConfigError, "sample-data", at="source.structure", naming=["structure"]):
        SyntheticSource(100, 10, structure="factors")
    with refused(ConfigError, "sample-data", at="source.n_samples"):
        SyntheticSource(n_features=10)
