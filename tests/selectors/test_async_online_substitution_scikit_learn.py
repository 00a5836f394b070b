"""The face of scikit-learn on asynchronous online substitution."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from daskfs.selectors.asy_os.selector import AsyncOnlineSubstitution


@pytest.mark.filterwarnings("ignore::UserWarning")  # scikit-learn's own: no features were selected
@parametrize_with_checks(
    [
        AsyncOnlineSubstitution(),
        AsyncOnlineSubstitution(n_workers=3, schedule="simulated"),
        AsyncOnlineSubstitution(n_workers=2, schedule="synchronous", loss="logistic", memory_limit="64MiB"),
    ]
)
def test_scikit_learns_examination(estimator, check):
    check(estimator)
