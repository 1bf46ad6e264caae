"""Base learners by name, and fitted models passed as base learners."""

import sys

import numpy as np
import pytest
from conftest import refused
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost.learners import HistBoostClassifier
from tailboost.learners.named import LEARNERS, named_learner

X, Y = load_wine(return_X_y=True)
NAMES = np.array(["barolo", "grignolino", "barbera"])
LABELS = NAMES[Y]
BOOSTING = [
    tb.AdaLPBoostClassifier, tb.LPBoostClassifier, tb.AverageBoostClassifier,
    tb.GroupDROBoostClassifier, tb.WorstClassBoostClassifier, tb.OCOBoostClassifier, tb.DROBoostClassifier,
    tb.AdaBoostClassifier, tb.VadaBoostClassifier, tb.SoftMarginBoostClassifier,
]  # fmt: skip


@pytest.mark.parametrize("name", LEARNERS)
def test_every_name_makes_an_instance_with_its_own_defaults(name):
    if name in ("xgboost", "lightgbm", "catboost"):
        pytest.importorskip(name)
    learner, again = named_learner(name), named_learner(name)
    assert learner is not again
    if name not in ("lightgbm", "catboost"):  # projects whose output is suppressed
        assert learner.get_params() == type(learner)().get_params()


@pytest.mark.parametrize("cls", BOOSTING)
def test_a_name_is_the_learner_it_names(cls):
    """The fit equals that of the instance, and the parameter keeps the name."""
    clf = cls("tree", n_estimators=2, random_state=0)
    assert clone(clf).get_params()["estimator"] == "tree"
    clf.fit(X[::2], LABELS[::2])
    other = cls(LEARNERS["tree"](), n_estimators=2, random_state=0).fit(X[::2], LABELS[::2])
    assert clf.estimator == "tree"
    np.testing.assert_array_equal(clf.predict_proba(X), other.predict_proba(X))


@pytest.mark.filterwarnings("error")  # for example learners without weights
@pytest.mark.parametrize("name", ["xgboost", "forest"])
def test_text_labels_and_a_model_file(name, tmp_path):
    if name == "xgboost":
        pytest.importorskip("xgboost")
    clf = tb.AdaLPBoostClassifier(name, n_estimators=2, cv="train", random_state=0)
    clf.fit(X[::2], LABELS[::2])
    tb.save_model(clf, tmp_path / "m.model")
    again = tb.load_model(tmp_path / "m.model")
    assert again.estimator == name
    np.testing.assert_array_equal(again.predict(X), clf.predict(X))
    assert clf.score(X[1::2], LABELS[1::2]) > 0.85


@pytest.mark.slow
def test_names_in_a_mixture_of_models():
    pairs = [("one", "forest"), ("two", "extra"), ("three", HistBoostClassifier(n_estimators=5))]
    mix = tb.RobustMixtureClassifier(pairs, random_state=0)
    assert clone(mix).get_params()["two"] == "extra"
    mix.fit(X[::2], LABELS[::2])
    kinds = "RandomForest", "ExtraTrees", "BoostedTrees"
    assert all(map(str.startswith, map(repr, mix.estimators_), kinds))
    assert (mix.estimators, len(repr(mix.estimators_)) < 500) == (pairs, True)  # without the trees
    assert mix.set_params(one="erm").estimators[0] == ("one", "erm")


@pytest.mark.parametrize(("given", "says"), [
    ("xgbost", "estimator"), ("Forest", "forest"), ("worstclassboost", "classifier"), ("", "names"),
])  # fmt: skip
def test_unknown_names(given, says):
    refused(lambda: tb.AdaLPBoostClassifier(given).fit(X, LABELS), says)
    with pytest.raises(ValueError, match=says.replace("estimator='xgbost'", "estimators: 'a'='xgbost'")):
        tb.RobustMixtureClassifier([("a", given)]).fit(X, LABELS)


def test_xgboost_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    refused(lambda: tb.AdaLPBoostClassifier("xgboost").fit(X, LABELS), "xgboost", ImportError)


@pytest.fixture(scope="module")
def forest():
    return RandomForestClassifier(20, random_state=0).fit(X[::3], LABELS[::3])


class TestFittedModels:
    """A frozen model cannot be fitted by weight."""

    @pytest.mark.parametrize("cls", BOOSTING)
    def test_as_a_learner(self, cls, forest):
        refused(lambda: cls(FrozenEstimator(forest)).fit(X, LABELS), "frozen")

    def test_they_are_models_of_a_mixture(self, forest):
        mix = tb.RobustMixtureClassifier([("name", FrozenEstimator(forest))])
        mix.fit(X[::3], LABELS[::3], X_val=X[1::3], y_val=LABELS[1::3])
        assert mix.score(X[2::3], LABELS[2::3]) > 0.85


class ColumnOfAnswers(DecisionTreeClassifier):
    """Predictions of shape (n, 1), as of CatBoost for three classes."""

    def predict(self, X):
        return super().predict(X)[:, None]


def test_answers_may_be_a_column():
    fits = [
        tb.AdaLPBoostClassifier(tree(max_depth=2), n_estimators=2, random_state=0).fit(X[::2], LABELS[::2])
        for tree in (ColumnOfAnswers, DecisionTreeClassifier)
    ]
    np.testing.assert_array_equal(fits[0].predict_proba(X), fits[1].predict_proba(X))
