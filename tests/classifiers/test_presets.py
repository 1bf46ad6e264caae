"""Papers' names as presets of two classes, and their constructors."""

import inspect
import pickle

import numpy as np
import pytest
from conftest import noisy
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost.boosting.players.hedge import Hedge
from tailboost.classifiers.cvar import PLAYERS, RowPlayer

X, Y = noisy(0)
STUMP = DecisionTreeClassifier(max_depth=1, random_state=0)
NO_PENALTY = {"variance_weight": None}
PRESETS = [
    (tb.AdaLPBoostClassifier, tb.CVaRBoostClassifier, {}),
    (tb.LPBoostClassifier, tb.CVaRBoostClassifier, {"player": "lp"}),
    (tb.RegularizedLPBoostClassifier, tb.CVaRBoostClassifier, {"player": "entropic", "beta": 5.0}),
    (tb.AverageBoostClassifier, tb.CVaRBoostClassifier, {"combine": "average"}),
    (tb.AdaBoostClassifier, tb.VarianceBoostClassifier, {"variance_weight": None}),
    (tb.VadaBoostClassifier, tb.VarianceBoostClassifier, {"variance_weight": 0.3}),
    (tb.EBBoostClassifier, tb.VarianceBoostClassifier, {"stumps": True, "variance_weight": 2.0}),
    (
        tb.SoftMarginBoostClassifier,
        tb.VarianceBoostClassifier,
        {"variance_weight": None, "refit": "quadratic"},
    ),
]


@pytest.mark.thinned(7)
@pytest.mark.parametrize(("preset", "implementation", "params"), PRESETS)
def test_a_preset_is_its_implementation(preset, implementation, params):
    shared = {"random_state": 0, "n_estimators": 4}
    if preset is not tb.EBBoostClassifier:
        shared["estimator"] = STUMP
    own = inspect.signature(preset).parameters
    y = (Y > 0).astype(int)
    one = preset(**shared | {name: value for name, value in params.items() if name in own}).fit(X, y)
    two = implementation(**params | shared).fit(X, y)
    np.testing.assert_array_equal(one.estimator_weights_, two.estimator_weights_)
    np.testing.assert_array_equal(one.predict_distribution(X), two.predict_distribution(X))
    assert str(one.summary_) == str(two.summary_)


def test_a_constructor_takes_what_its_class_declares():
    lp = tb.LPBoostClassifier(STUMP, alpha=0.2)
    assert lp.estimator is STUMP
    assert (lp.alpha, lp.n_estimators, lp.player) == (0.2, 10, "lp")
    assert list(inspect.signature(tb.LPBoostClassifier).parameters)[:2] == ["estimator", "n_estimators"]
    assert repr(clone(lp)) == repr(lp) == repr(pickle.loads(pickle.dumps(lp)))
    with pytest.raises(TypeError, match="argument"):
        tb.LPBoostClassifier(player="hedge")
    with pytest.raises(TypeError, match="positional"):
        tb.LPBoostClassifier(STUMP, 5)


@pytest.mark.parametrize(
    ("classifier", "says"),
    [
        (tb.CVaRBoostClassifier(n_estimators="auto"), "entropic"),
        (tb.AdaLPBoostClassifier(n_estimators="auto"), "n_estimators"),
        (tb.CVaRBoostClassifier(combine="average", cv=5), "cv=5"),
        (tb.CVaRBoostClassifier(player="simplex"), "player"),
        (tb.VarianceBoostClassifier(variance_weight=2.0), "stumps=True"),
        (tb.VarianceBoostClassifier(variance_weight=None, stumps=True), "variance_weight"),
        (tb.VarianceBoostClassifier(STUMP, stumps=True), "estimator="),
        (tb.VadaBoostClassifier(variance_weight=2.0), "variance_weight"),
        (tb.AdaBoostClassifier(cv=5), "cv"),
    ],
)
def test_what_does_not_go_together_is_refused(classifier, says):
    with pytest.raises(ValueError, match=says):
        classifier.fit(X, Y)


@pytest.mark.parametrize("name", PLAYERS)
def test_a_player_is_its_object(name):
    by_name = tb.CVaRBoostClassifier(STUMP, player=name, n_estimators=3, random_state=0).fit(X, Y)
    by_object = clone(by_name).set_params(player=PLAYERS[name]).fit(X, Y)
    assert (by_object.estimator_weights_ == by_name.estimator_weights_).all()
    assert str(by_object.summary_) == str(by_name.summary_)


class Opposite(RowPlayer):
    """Weighs the rows as Hedge with a negative learning rate."""

    def player(self, clf, units):
        return Hedge(-1.0)


def test_a_player_of_ones_own_plays():
    clf = tb.CVaRBoostClassifier(STUMP, player=Opposite(), n_estimators=4, random_state=0)
    clf.set_params(n_iter_no_change=None, cv="train").fit(X, Y)
    losses = np.array([member.predict(X) != np.searchsorted(clf.classes_, Y) for member in clf.estimators_])
    weights = np.exp(-losses[:4].cumsum(axis=0)[:3])  # of rounds 2 to 4
    expected = (weights / weights.sum(axis=1, keepdims=True) * losses[1:4]).sum(axis=1)
    np.testing.assert_allclose(clf.trace_.weighted_loss[1:], expected, atol=1e-9)
    assert (clf.summary_.promised, clf.summary_.observed) == ((), ())  # no theorems are stated


class OneList(Opposite):
    """States its theorems in another form."""

    def bounds(self, clf):
        return []


def test_bounds_of_another_form_are_refused_by_the_name_of_their_method():
    clf = tb.CVaRBoostClassifier(STUMP, player=OneList(), n_estimators=2, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="sequences"):
        print(clf.summary_)


def test_an_even_mixture_is_not_chosen_on_other_rows():
    with pytest.raises(ValueError, match="X_val"):
        tb.CVaRBoostClassifier(combine="average").fit(X, Y, X_val=X, y_val=Y)
