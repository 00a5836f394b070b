"""Parts of a cluster are lost at moments drawn at random: all jobs end, with the same bits."""

from __future__ import annotations

import pytest

from tests.faults.losses import GOOD_ENDS, JOBS, LOSSES, Campaign


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    return Campaign(tmp_path_factory.mktemp("losses"), seed=18)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "loss"),
    [
        ("fgm", "worker"),
        ("message", "scheduler"),
        ("message", "gone"),
        ("ingest", "driver"),
        ("fgm", "link"),
        ("mission", "cut"),
        ("async_online_substitution", "node"),
    ],
)
def test_a_job_that_loses_a_part_of_its_cluster_ends_as_it_would_have(campaign, job, loss):
    (trial,) = campaign.run((job,), (loss,), 1)
    assert trial.end in GOOD_ENDS, trial


@pytest.mark.nightly
@pytest.mark.parametrize("job", JOBS)
def test_every_job_survives_every_loss(campaign, job):
    bad = [trial for trial in campaign.run((job,), LOSSES, 20) if trial.end not in GOOD_ENDS]
    assert not bad, bad
