"""Registry: names of methods, and arguments that each method takes."""

import inspect

import numpy as np
import pytest

from tailboost.app.registry import METHODS, get_method

OURS = [method for method in METHODS.values() if method.ours]


@pytest.mark.parametrize("method", OURS, ids=lambda m: m.name)
def test_names_follow_the_classes(method):
    name, _, variant = method.name.partition("-")
    assert name == method.factory.__name__.removesuffix("Classifier").lower()
    assert variant in ("", "classes", "groups")


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda m: m.name)
def test_a_method_passes_arguments_of_its_estimator(method):
    if "xgboost" in method.name or method.name == "average-tuned":
        pytest.importorskip("xgboost")
    estimator = method.make(alpha=0.3, random_state=5, n_jobs=1)
    params = estimator.get_params(deep=False)
    # With the parameter objective, α has no effect by default.
    assert method.uses_alpha == ("alpha" in params and "objective" not in params)
    assert not method.uses_alpha or params["alpha"] == 0.3
    inside = estimator.get_params()  # a baseline may pass seed and threads to its model
    seeds, jobs = (
        {value for key, value in inside.items() if key.split("__")[-1] == name}
        for name in ("random_state", "n_jobs")
    )
    assert (5 in seeds) == (1 in jobs)
    assert not method.uses_groups or "groups" in inspect.signature(estimator.fit).parameters


def test_methods_that_take_groups_are_listed_with_and_without_them():
    for method in OURS:
        if "objective" in inspect.signature(method.factory).parameters:
            assert method.may_use_groups  # under another objective than the default
            continue
        assert not method.may_use_groups
        takes = "groups" in inspect.signature(method.factory.fit).parameters
        twins = [m for m in OURS if m.factory is method.factory]
        assert any(m.uses_groups for m in twins) == takes
        assert len(twins) == (2 if takes else 1)


@pytest.mark.slow
def test_a_randomised_rule_has_a_distribution():
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


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(ValueError, match="did you mean 'ocoboost'"):
        get_method("oco")
