"""Online substitution with the face that scikit-learn's users know."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from daskfs.selectors.online_substitution import OnlineSubstitution

COLUMNS = "partial_fit takes more columns, not more rows"


def differs(estimator):
    return {"check_n_features_in": COLUMNS, "check_n_features_in_after_fitting": COLUMNS}


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(
    [
        OnlineSubstitution(),
        OnlineSubstitution(rule="os", memory_limit="96MiB"),
        OnlineSubstitution(rule="paper", engine="naive", order="shuffled"),
    ],
    expected_failed_checks=differs,
)
def test_scikit_learns_examination(estimator, check):
    check(estimator)
