"""The methods by name: names one can guess, and what a method takes, asked of its class."""

import inspect

import numpy as np
import pytest

from tailboost.app.registry import METHODS, get_method

OURS = [method for method in METHODS.values() if method.ours]


@pytest.mark.parametrize("method", OURS, ids=lambda m: m.name)
def test_names_are_those_of_the_classes(method):
    name, _, variant = method.name.partition("-")
    assert name == method.factory.__name__.removesuffix("Classifier").lower()
    assert variant in ("", "classes", "groups")


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda m: m.name)
def test_what_a_method_takes_is_what_its_estimator_has(method):
    if "xgboost" in method.name or method.name == "average-tuned":
        pytest.importorskip("xgboost")
    estimator = method.make(alpha=0.3, random_state=5, n_jobs=1)
    params = estimator.get_params(deep=False)
    # Where the objective is a parameter, α belongs to another one than the default.
    assert method.uses_alpha == ("alpha" in params and "objective" not in params)
    assert not method.uses_alpha or params["alpha"] == 0.3
    inside = estimator.get_params()  # a baseline may have the seed and the threads in the model within
    seeds, jobs = (
        {value for key, value in inside.items() if key.split("__")[-1] == name}
        for name in ("random_state", "n_jobs")
    )
    assert (5 in seeds) == (1 in jobs)
    assert not method.uses_groups or "groups" in inspect.signature(estimator.fit).parameters


def test_whoever_is_listed_once_and_takes_groups_gets_them():
    for method in OURS:
        if "objective" in inspect.signature(method.factory).parameters:
            assert method.may_use_groups  # for other objectives than the one it has by default
            continue
        assert not method.may_use_groups
        takes = "groups" in inspect.signature(method.factory.fit).parameters
        twins = [m for m in OURS if m.factory is method.factory]
        assert any(m.uses_groups for m in twins) == takes
        assert len(twins) == (2 if takes else 1)


def test_a_randomised_rule_gives_shares():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = (X[:, 0] + rng.normal(size=80) > 0).astype(int)
    for method in METHODS.values():
        if method.randomized:
            few = (
                {"n_estimators": 1} if "n_estimators" in inspect.signature(method.factory).parameters else {}
            )
            shares = method.make(random_state=0, n_jobs=1, **few).fit(X, y).predict_proba(X)
            np.testing.assert_allclose(shares.sum(axis=1), 1)


def test_a_part_of_a_name_finds_it():
    with pytest.raises(ValueError, match="did you mean 'ocoboost'"):
        get_method("oco")
