"""Online substitution with the face that scikit-learn's users know."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from daskfs.selectors.online_substitution.selector import OnlineSubstitution

COLUMNS = "partial_fit(X, names) takes more columns, not more rows"
OF_PARTIAL_FIT = (
    "check_fit_score_takes_y",
    "check_estimators_partial_fit_n_features",
    "check_n_features_in_after_fitting",
)


def differs(estimator):
    return dict.fromkeys(OF_PARTIAL_FIT, COLUMNS)


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
