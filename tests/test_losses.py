"""Losses: one record and one code each, and what a method says of a loss that it does not take."""

import pickle

import pytest

from daskfs.errors import ConfigError
from daskfs.losses import BOUNDED_CURVATURE, LIKELIHOOD, LOSSES, TWO_CLASSES, check_loss, find_loss, losses_with
from tests.refusals import refused


def test_every_loss_has_a_code_of_its_own():
    assert sorted(loss.code for loss in LOSSES.values()) == list(range(len(LOSSES)))
    assert [*LOSSES] == [loss.name for loss in LOSSES.values()]


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_what_is_said_of_a_loss_agrees_with_itself(loss):
    assert loss.is_two_class <= loss.is_classifier
    assert loss.has_probabilities <= loss.is_classifier
    assert loss.has_formula_of_many_rows or loss.has_formula_of_a_row
    assert (loss.learning_rate > 0.0) == loss.has_formula_of_a_row
    assert pickle.loads(pickle.dumps(loss)) == loss


def test_a_method_takes_the_losses_that_have_what_it_requires():
    assert losses_with([LIKELIHOOD]) == ("squared", "logistic", "poisson", "huber", "multinomial")
    assert losses_with([BOUNDED_CURVATURE, TWO_CLASSES]) == ("logistic", "squared_hinge")
    assert losses_with([BOUNDED_CURVATURE], among=["squared_hinge", "poisson"]) == ("squared_hinge",)


def test_what_a_loss_lacks_is_said():
    check_loss("Message", "poisson", [LIKELIHOOD])
    with refused(ConfigError, "losses", at="loss", naming=["'hinge'"]):
        check_loss("Message", "hinge", [LIKELIHOOD])
    with pytest.raises(ConfigError, match=r"loss: FGM does not take 'huber'; it takes squared(\n|$)"):
        check_loss("FGM", "huber", [], ["squared"])
    with refused(ConfigError, "losses", at="loss", naming=["'sqared'", "did you mean", "'squared'"]):
        check_loss("FGM", "sqared", [], ["squared"])
    with refused(ConfigError, "losses", at="loss", naming=["squared", "'logistics'", "did you mean", "'logistic'"]):
        find_loss("logistics")
