"""Parameters: what a class declares is its constructor, its documentation and its check, for every method."""

import inspect
import warnings
from typing import Annotated, Literal

import numpy as np
import pytest
from annotated_types import Ge, Gt, Le, Lt
from sklearn.base import BaseEstimator, clone

from daskfs.errors import ConfigError
from daskfs.losses import LIKELIHOOD
from daskfs.methods import METHODS, find_method
from daskfs.parameters import (
    ClassWeights,
    Client,
    Count,
    LossOf,
    Parameters,
    Positive,
    PowerOfTwo,
    Share,
    _entries,
    n_to_select,
    parameters_of,
)
from daskfs.pipeline.selections import section_of
from tests.refusals import refused


class Base(Parameters, BaseEstimator, kw_only=True):
    """Base.

    Parameters
    ----------
    client : distributed.Client, optional
        Where the work runs.
    """

    client: Client = None


class Toy(Base, renamed={"m": "n_parts"}):
    """A toy.

    Parameters
    ----------
    n_parts : int
        Its parts.
    tol : float, optional
        When it ends.
    mode : {"fast", "slow"} or None
        How it goes.

    Attributes
    ----------
    selected_ : ndarray
    """

    n_parts: Count = 3
    tol: Share | None = None
    mode: Literal["fast", "slow"] | None = "fast"


class Narrow(Toy, fixed={"mode": "slow"}):
    """A toy that goes slowly.

    Parameters
    ----------
    width : int
        Of it.
    """

    width: Count = 1


@pytest.mark.parametrize("method", METHODS)
def test_a_method_declares_documents_and_takes_the_same_parameters(method):
    cls = find_method(method)
    declared = parameters_of(cls)
    signature = inspect.signature(cls).parameters
    assert {name: item.default for name, item in signature.items()} == {p.name: p.default for p in declared.values()}
    assert [*signature] == [*declared]
    assert cls().get_params(deep=False) == {name: parameter.default for name, parameter in declared.items()}
    documented = _entries(cls.__doc__)
    assert {name: kind for name, (kind, _) in documented.items()} == {p.name: p.doc for p in declared.values()}
    assert all(parameter.meaning for parameter in declared.values())
    assert cls.method == method
    cls().check_parameters()


def test_the_constructor_stores_what_it_is_given():
    toy = Toy(5, mode=None)
    assert toy.get_params() == {"n_parts": 5, "tol": None, "mode": None, "client": None}
    assert repr(toy) == "Toy(mode=None, n_parts=5)"
    assert clone(toy).get_params() == toy.get_params()
    with pytest.raises(TypeError, match=r"Toy has no parameter 'n_part' \(did you mean 'n_parts'\?\)"):
        Toy(n_part=3)
    with pytest.raises(TypeError, match="too many positional arguments"):
        Toy(1, 0.1, "fast", None)


def test_a_subclass_has_the_parameters_of_its_bases_but_those_it_fixes():
    assert [*parameters_of(Narrow)] == ["n_parts", "tol", "width", "client"]
    assert Narrow().mode == "slow"
    assert "n_parts : int\n    Its parts." in Narrow.__doc__
    assert Narrow.__doc__.endswith("client : distributed.Client, optional\n    Where the work runs.")


class Tall(Toy):
    """A toy that is tall.

    Parameters
    ----------
    height : int
        Of it.
    """

    height: Count = 1


class NarrowAndTall(Narrow, Tall):
    """A toy that goes slowly."""


def test_what_one_base_fixes_another_does_not_bring_back():
    assert [*parameters_of(NarrowAndTall)] == ["n_parts", "tol", "height", "width", "client"]


class Grouped(Base, kw_only=True):
    """Base of a toy of groups.

    Parameters
    ----------
    groups : int
        Of them.
    """

    groups: Count = 2


class Both(Toy, Grouped):
    """A toy of groups."""


def test_parameters_of_all_bases_stand_before_those_that_are_given_by_name_alone():
    assert [*parameters_of(Both)] == ["n_parts", "tol", "mode", "groups", "client"]


def test_an_old_name_works_with_a_warning():
    with pytest.warns(FutureWarning, match="m is now called n_parts"):
        toy = Toy(m=7)
    assert toy.get_params()["n_parts"] == 7
    with pytest.warns(FutureWarning, match="m is now called n_parts"):
        assert toy.m == 7
    with pytest.warns(FutureWarning, match="m is now called n_parts"):
        toy.set_params(m=8)
    assert toy.n_parts == 8
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert clone(toy).n_parts == 8
    with pytest.warns(FutureWarning), pytest.raises(TypeError, match="m is the old name of n_parts; pass only n_parts"):
        Toy(m=7, n_parts=7)
    toy.__setstate__({"m": 9, "tol": None})
    assert toy.n_parts == 9


OLD_NAMES = [(method, old, new) for method in METHODS for old, new in find_method(method)._renamed.items()]


@pytest.mark.parametrize(("method", "old", "new"), OLD_NAMES)
def test_an_old_name_of_a_method_works_in_python_and_in_a_pipeline(method, old, new):
    default = parameters_of(find_method(method))[new].default
    with pytest.warns(FutureWarning, match=f"{old} is now called {new}"):
        selector = find_method(method)(**{old: default})
    assert old not in selector.get_params()
    with pytest.warns(FutureWarning, match=f"{old} is now called {new}"):
        section = section_of(method).model_validate({"method": method, old: default})
    assert old not in section.model_dump()


class Ranges(Base):
    """A toy of all kinds."""

    whole: Annotated[int, Ge(2)] | None = None
    share: Share = 0.5
    positive: Positive | Literal["auto"] = 1.0
    below: Annotated[float, Ge(0), Lt(1)] = 0.0
    inside: Annotated[float, Gt(0), Lt(1)] = 0.5
    above: Annotated[float, Gt(0), Le(1)] = 0.5
    switch: bool = True
    words: Literal["a", "b"] | None = "a"
    one: Literal["only"] = "only"
    number: Literal[1, 3] = 1
    power: PowerOfTwo = 8
    weights: Literal["balanced"] | ClassWeights | None = None
    loss: Annotated[str, LossOf(LIKELIHOOD)] = "squared"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"whole": 1}, "whole: expected a whole number of at least 2, found 1"),
        ({"whole": 2.0}, "whole: expected a whole number of at least 2, found 2.0"),
        ({"whole": True}, "whole: expected a whole number of at least 2, found True"),
        ({"share": 1.1}, "share: expected a number from 0 to 1, found 1.1"),
        ({"share": float("nan")}, "share: expected a number from 0 to 1, found nan"),
        ({"positive": 0}, "positive: expected a positive number or 'auto', found 0"),
        ({"positive": "autp"}, "positive: expected a positive number or 'auto', found 'autp' (did you mean 'auto'?)"),
        ({"positive": float("inf")}, "positive: expected a positive number or 'auto', found inf"),
        ({"below": 1.0}, "below: expected a number from 0 to below 1, found 1.0"),
        ({"inside": 0.0}, "inside: expected a number between 0 and 1, found 0.0"),
        ({"above": 0.0}, "above: expected a number above 0 and up to 1, found 0.0"),
        ({"switch": 1}, "switch: expected True or False, found 1"),
        ({"words": "c"}, "words: expected one of a, b, None, found 'c'"),
        ({"one": "onyl"}, "one: expected only, found 'onyl' (did you mean 'only'?)"),
        ({"number": 2}, "number: expected one of 1, 3, found 2"),
        ({"power": 12}, "power: expected a power of two of at most 2**31, found 12"),
        ({"weights": 3}, "weights: expected a mapping of classes to weights or 'balanced', found 3"),
        ({"loss": "hinge"}, "loss: Ranges does not take 'hinge': it has no likelihood"),
        ({"loss": None}, "loss: expected one of squared, logistic, poisson, huber, multinomial, found None"),
    ],
)
def test_what_a_parameter_cannot_be_is_refused_by_name(given, message):
    with pytest.raises(ConfigError) as fault:
        Ranges(**given).check_parameters()
    assert str(fault.value).startswith(message)


def test_numbers_of_numpy_are_numbers():
    given = {"whole": np.int64(3), "share": np.float32(0.25), "switch": np.bool_(False), "number": np.int8(3)}
    Ranges(**given, weights={"a": 2.0}, below=0).check_parameters()


def test_more_features_than_there_are_is_refused():
    assert (n_to_select(None, 8, 10), n_to_select(None, 80, 10), n_to_select(8, 8, 10)) == (8, 10, 8)
    with refused(ConfigError, "parameters", at="n_features_to_select", naming=["9", "8"]):
        n_to_select(9, 8, 10)
