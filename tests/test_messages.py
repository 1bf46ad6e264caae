"""What was meant is understood, or said: the mistakes of people who see the library for the first time."""

import warnings

import numpy as np
import pytest
from conftest import OURS, noisy
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import tailboost as tb
from tailboost import metrics
from tailboost.learners.named import named_learner
from tailboost.statements.certificates import certify

X, Y = noisy(0)
SEX = np.where(np.arange(len(Y)) % 3, "f", "m")


@pytest.mark.parametrize("cls", [*OURS.values(), tb.RobustMixtureClassifier])
def test_what_is_beside_y_is_named(cls):
    """A positional third argument may be groups, and codes of groups look like weights."""
    with pytest.raises(TypeError, match="positional arguments"):
        cls().fit(X, Y, np.where(SEX == "f", 1, 2))


@pytest.mark.parametrize(
    "weight", [np.full(len(Y), "1"), list("1" * len(Y)), np.ones(len(Y)) + 1j, [b"1"] * len(Y), SEX]
)
def test_weights_are_numbers(weight):
    with pytest.raises(ValueError, match="sample_weight must be numbers"):
        tb.WorstClassBoostClassifier().fit(X, Y, sample_weight=weight)
    with pytest.raises(ValueError, match="sample_weight must be numbers"):
        metrics.class_errors(Y, Y, sample_weight=weight)


def test_levels_are_numbers():
    for given in ({"confidence": ".95"}, {"max_error": ".3"}):
        with pytest.raises(ValueError, match=f"{next(iter(given))} must be a number"):
            certify(Y, None, Y, **given)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: tb.WorstClassBoostClassifier(objective="cell"),
            "no parameter 'objective'; here it is units=",
        ),
        (lambda: tb.RobustMixtureClassifier(units="cell"), "no parameter 'units'; here it is objective="),
        (lambda: tb.RobustMixtureClassifier(max_eror=0.1), r"'max_eror'; did you mean 'max_error'"),
        (lambda: tb.AdaBoostClassifier(xyz=None), "no parameter 'xyz'; parameters are estimator, "),
    ],
)
def test_constructors_name_what_they_have(make, words):
    with pytest.raises(TypeError, match=words):
        make()


def test_a_budget_is_no_table():
    with pytest.raises(ValueError, match=r"reweight\(0\.02\): .* say mean_budget=0\.02"):
        tb.WorstClassBoostClassifier(n_estimators=1).fit(X, Y).reweight(0.02)
    mix = tb.RobustMixtureClassifier([("b", GaussianNB())]).fit(X, Y)
    with pytest.raises(ValueError, match=r"say mean_budget=0\.02"):
        mix.reweight(0.02)


def test_a_mixture_takes_a_dict():
    named = {"bayes": GaussianNB(), "line": LogisticRegression()}
    mixes = [
        tb.RobustMixtureClassifier(named, random_state=0),
        tb.RobustMixtureClassifier(list(named.items()), random_state=0),
        tb.RobustMixtureClassifier(random_state=0).set_params(estimators=named),
    ]
    assert all(mix.get_params()["bayes__var_smoothing"] == 1e-9 for mix in mixes)
    said = [clone(mix).fit(X, Y).predict(X).tolist() for mix in mixes]
    assert said[0] == said[1] == said[2]


def test_groups_of_metrics_are_those_of_fit():
    pd = pytest.importorskip("pandas")
    answers, old = 1 - Y, np.arange(len(Y)) % 2
    by_sex = metrics.group_errors(Y, answers, SEX)
    for table in (pd.DataFrame({"sex": SEX, "old": old}), {"sex": SEX, "old": old}):
        found = metrics.group_errors(Y, answers, table)
        assert found == {("sex", g): e for g, e in by_sex.items()} | {("old", 0): 1.0, ("old", 1): 1.0}
        assert metrics.worst_group_error(Y, answers, table) == max(found.values())
    for one in (pd.Series(SEX), pd.Categorical(SEX), SEX[:, None]):
        assert metrics.group_errors(Y, answers, one) == by_sex
    with pytest.raises(ValueError, match=r"groups\['old'\] has 3 rows"):
        metrics.group_errors(Y, answers, {"sex": SEX, "old": old[:3]})


@pytest.mark.parametrize(("name", "package"), [("lightgbm", "lightgbm"), ("catboost", "catboost")])
def test_names_of_other_projects(name, package):
    try:
        __import__(package)
    except ImportError:
        with pytest.raises(ImportError, match=f"'{name}' needs .*: pip install {package}"):
            named_learner(name)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = tb.AdaBoostClassifier(name, n_estimators=2).fit(X, Y)
    assert set(clf.predict(X)) <= set(Y)


def test_a_comparison_is_of_methods():
    pytest.importorskip("pandas")
    from tailboost.report import compare

    with pytest.raises(TypeError, match=r"methods must hold names or Method objects, got GaussianNB\(\)"):
        compare(X, Y, methods=[GaussianNB()])


def test_a_learner_that_is_none_is_said_once():
    class Duck:
        def fit(self, X, y):
            return self

        def predict(self, X):
            return np.zeros(len(X), dtype=int)

    with pytest.raises(
        TypeError, match=r"^estimator=.* is no estimator of scikit-learn: let its class inherit"
    ):
        tb.WorstClassBoostClassifier(Duck()).fit(X, Y)


def test_a_measure_is_named_where_it_is():
    with pytest.raises(AttributeError, match=r"it is tailboost\.metrics\.worst_class_error"):
        tb.worst_class_error  # noqa: B018
