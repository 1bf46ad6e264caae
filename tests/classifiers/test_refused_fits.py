"""A refused refit changes nothing: all classifiers and ways of refusal, by answers and attributes.

The comparison of attributes is a hash of their whole content (joblib).
"""

import copy
import inspect
import threading

import joblib
import numpy as np
import pandas as pd
import pytest
from conftest import OURS, make, noisy, refused
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.tree import DecisionTreeClassifier

from tailboost import RobustMixtureClassifier, rates
from tailboost.core.long_work import fitting_apart
from tailboost.learners.hist import HistBoostClassifier, HistTreeClassifier
from tailboost.learners.stumps import StumpClassifier
from tailboost.learners.table import TableForest

pytestmark = pytest.mark.filterwarnings("ignore")

X, _Y = noisy(0, n=120)
Y = np.where(_Y == 1, "well", "ill")
GROUPS = np.array(["f", "m"])[(X[:, 0] > 0).astype(int)]
OTHER_X, _O = noisy(1, n=90)
OTHER_Y = np.array(["dead", "ill", "well"])[np.r_[[2, 1, 0], _O[3:]]]
TREE = DecisionTreeClassifier(max_depth=2, random_state=0)


class FailsLater(DecisionTreeClassifier):
    """Tree that raises in its second fit, counted over all clones."""

    count, error = 0, RuntimeError("the learner failed")

    def fit(self, X, y, sample_weight=None):
        type(self).count += 1
        if type(self).count > 1:
            raise type(self).error
        return super().fit(X, y, sample_weight=sample_weight)


def robust():
    models = [("tree", TREE), ("deep", DecisionTreeClassifier(max_depth=4, random_state=0))]
    return RobustMixtureClassifier(models, limits=[rates.miss("ill") <= 0.9], cv=2, random_state=0)


def mine(name):
    if name == "robustmixture":
        return robust()
    return make(name, TREE, n_estimators=3, alpha=0.4, random_state=0)


NAMES = [*OURS, "robustmixture"]
TABLE_LEARNERS = (HistTreeClassifier, HistBoostClassifier, StumpClassifier, TableForest)
OTHERS = {cls.__name__: cls for cls in TABLE_LEARNERS}


def takes(clf, name):
    return name in inspect.signature(clf.fit).parameters


def fitted(name):
    clf = mine(name)
    return clf.fit(X, Y, **({"groups": GROUPS} if takes(clf, "groups") and name != "robustmixture" else {}))


@pytest.fixture(scope="module")
def first_fits():
    """Return the fit before the refused one, made once for each name."""
    return {name: fitted(name) for name in NAMES}


class Refused:
    """Ways to refuse a fit: functions of a fitted classifier; None where a way does not concern the class."""

    def nan_label(clf):
        return clf.fit(OTHER_X, np.r_[OTHER_Y[:-1].astype(object), [None]])

    def fewer_labels(clf):
        return clf.fit(OTHER_X, OTHER_Y[:-1])

    def no_labels(clf):
        return clf.fit(OTHER_X)

    def infinite(clf):
        return clf.fit(np.where(OTHER_X.max() == OTHER_X, np.inf, OTHER_X), OTHER_Y)

    def vector(clf):
        return clf.fit(OTHER_X[:, 0], OTHER_Y)

    def one_class(clf):
        return clf.fit(OTHER_X, np.repeat("dead", len(OTHER_Y)))

    def repeated_column(clf):
        return clf.fit(pd.DataFrame(OTHER_X, columns=["a", "b", "c", "a"]), OTHER_Y)

    def negative_weight(clf):
        return clf.fit(OTHER_X, OTHER_Y, sample_weight=np.r_[-1.0, np.ones(89)])

    def short_weight(clf):
        return clf.fit(OTHER_X[:, :2], OTHER_Y, sample_weight=np.ones(5))

    def rows_to_select_on_without_labels(clf):
        return clf.fit(OTHER_X, OTHER_Y, X_val=X)

    def unknown_label_in_rows_to_select_on(clf):
        return clf.fit(OTHER_X[:, :3], OTHER_Y, X_val=X[:, :3], y_val=np.repeat("odd", len(X)))

    def other_columns_in_rows_to_select_on(clf):
        return clf.fit(OTHER_X, OTHER_Y, X_val=X[:, :2], y_val=Y)

    def short_groups(clf):
        return clf.fit(OTHER_X, OTHER_Y, groups=GROUPS[:5]) if takes(clf, "groups") else None

    def missing_group(clf):
        odd = np.r_[GROUPS[:89].astype(object), [None]]
        return clf.fit(OTHER_X, OTHER_Y, groups=odd) if takes(clf, "groups") else None

    def groups_needed(clf):
        if "objective" in clf.get_params(deep=False):
            return clf.set_params(objective="worst_group", limits=()).fit(OTHER_X, OTHER_Y)
        if "subgroups" in clf.get_params(deep=False):
            return clf.set_params(subgroups="cell").fit(OTHER_X, OTHER_Y)
        return None

    def groups_of_rows_to_select_on(clf):
        if not takes(clf, "groups"):
            return None
        return clf.fit(OTHER_X, OTHER_Y, groups=GROUPS[:90], X_val=X, y_val=np.repeat("well", len(X)))

    def parameter(clf):
        name = "n_estimators" if "n_estimators" in clf.get_params(deep=False) else "cv"
        return clf.set_params(**{name: -1}).fit(OTHER_X, OTHER_Y)

    def class_weight(clf):
        return clf.set_params(class_weight={"odd": 2.0}).fit(OTHER_X, OTHER_Y)

    def no_estimator(clf):
        if "estimators" in clf.get_params(deep=False):
            return clf.set_params(estimators=[("a", object())]).fit(OTHER_X, OTHER_Y)
        return clf.set_params(estimator=DecisionTreeClassifier).fit(OTHER_X, OTHER_Y)

    def learner_that_fails(clf, count=0, error=RuntimeError("the learner failed")):  # noqa: B008
        FailsLater.count, FailsLater.error = count, error
        if "estimators" in clf.get_params(deep=False):
            return clf.set_params(estimators=[("a", FailsLater(max_depth=2))]).fit(OTHER_X, OTHER_Y)
        # The classifiers that play on in an interrupted fit lose all rounds by an error.
        return clf.set_params(estimator=FailsLater(max_depth=4)).fit(OTHER_X, OTHER_Y)

    def learner_interrupted_at_once(clf):
        return Refused.learner_that_fails(clf, 1, KeyboardInterrupt())

    def costs_of_other_rows(clf):
        return clf.fit(OTHER_X, OTHER_Y, costs=np.ones((5, 3))) if takes(clf, "costs") else None

    def costs_of_two_classes(clf):
        return clf.fit(OTHER_X, OTHER_Y, costs=np.ones((90, 2))) if takes(clf, "costs") else None

    def no_costs(clf):
        if not takes(clf, "costs"):
            return None
        return clf.set_params(limits=[rates.cost() <= 0.5]).fit(OTHER_X, OTHER_Y)

    def one_cluster(clf):
        return clf.fit(OTHER_X, OTHER_Y, clusters=np.zeros(90)) if takes(clf, "clusters") else None

    def limit_of_another_label(clf):
        if not takes(clf, "costs"):
            return None
        return clf.fit(OTHER_X, np.where(OTHER_Y == "ill", "sick", OTHER_Y))

    def contradicting_limits(clf):
        if not takes(clf, "costs"):
            return None
        limits = [rates.selected("well") <= 0.1, rates.miss("well") <= 0.01]
        return clf.set_params(limits=limits).fit(OTHER_X, OTHER_Y)


WAYS = [name for name in vars(Refused) if not name.startswith("_")]
ABOUT_ESTIMATORS = ("no_estimator", "learner_that_fails", "learner_interrupted_at_once")
WITHOUT_ESTIMATOR = [name for name in OURS if "estimator" not in inspect.signature(OURS[name]).parameters]
INHERITED = {name for name, cls in OURS.items() if "fit" not in vars(cls)}


def state(clf):
    """Return the hash of all attributes."""
    return joblib.hash(vars(clf))


# The fits of later classes are mostly those of earlier ones.
PAIRS = [(a, b) for i, a in enumerate(NAMES) for j, b in enumerate(WAYS) if (a in INHERITED) <= (i + j) % 2]


@pytest.mark.parametrize(("name", "way"), PAIRS)
def test_a_refused_refit_changes_nothing(name, way, first_fits):
    clf = copy.copy(first_fits[name])
    if name in WITHOUT_ESTIMATOR and way in ABOUT_ESTIMATORS:
        pytest.skip("has no estimator")
    parameters, before = clf.get_params(deep=False), state(clf)
    answers = clf.predict_proba(X)
    try:
        outcome = getattr(Refused, way)(clf)
    except (ValueError, TypeError, RuntimeError, KeyboardInterrupt):
        pass
    else:
        assert outcome is None, f"{name}: {way} is not refused"
        pytest.skip("does not concern this class")
    clf.set_params(**parameters)  # some ways set a parameter first
    assert state(clf) == before
    np.testing.assert_array_equal(clf.predict_proba(X), answers)


@pytest.mark.parametrize("name", NAMES)
def test_a_refit_keeps_nothing_of_the_fit_before(name, first_fits):
    """The refit equals the fit of a new classifier, with other classes, columns and no groups."""
    clf = copy.copy(first_fits[name])
    two = OTHER_Y != "dead" if name == "ebboost" else slice(None)
    rows, labels = OTHER_X[two, :3], np.char.add("new ", OTHER_Y[two])
    if name == "robustmixture":
        clf.set_params(limits=())
    new = clone(clf).fit(rows, labels)
    clf.set_params(**new.get_params(deep=False)).fit(rows, labels)
    assert set(vars(clf)) == set(vars(new))
    np.testing.assert_array_equal(clf.predict_proba(rows), new.predict_proba(rows))
    with fitting_apart(clf) as unfitted:
        assert set(vars(unfitted)) == set(vars(clone(clf)))


@pytest.mark.parametrize("name", OTHERS)
def test_a_refused_refit_of_a_learner_or_baseline_changes_nothing(name):
    clf = OTHERS[name]().fit(X, Y)
    answers, before = clf.predict(X), joblib.hash(vars(clf))
    for labels in (OTHER_Y[:-1], np.r_[OTHER_Y[:-1].astype(object), [None]]):
        with pytest.raises((ValueError, TypeError, IndexError)):
            clf.fit(OTHER_X, labels)
    assert joblib.hash(vars(clf)) == before
    np.testing.assert_array_equal(clf.predict(X), answers)


def test_another_thread_sees_one_fit_or_the_other():
    """While a refit runs, the old fit answers whole."""
    clf = make("adalpboost", TREE, n_estimators=3, cv="train", random_state=0).fit(X, Y)
    old, seen, ready, go = clf.predict(X), [], threading.Event(), threading.Event()

    class Waits(DecisionTreeClassifier):
        def fit(self, X, y, sample_weight=None):
            ready.set()
            assert go.wait(60)
            return super().fit(X, y, sample_weight=sample_weight)

    clf.set_params(estimator=Waits(max_depth=1))
    fit = threading.Thread(target=clf.fit, args=(OTHER_X, OTHER_Y))
    fit.start()
    assert ready.wait(60)
    try:
        seen.append(clf.predict(X))
    finally:
        go.set()
        fit.join()
    np.testing.assert_array_equal(seen[0], old)
    assert clf.classes_.tolist() == ["dead", "ill", "well"]


def test_the_first_refused_fit_leaves_no_attribute():
    clf = mine("worstclassboost")
    before = set(vars(clf))
    refused(lambda: clf.set_params(n_estimators=-1).fit(X, Y), "n_estimators")
    assert set(vars(clf)) == before
    refused(lambda: clf.predict(X), "fit", NotFittedError)


def test_a_refit_starts_an_empty_ledger(first_fits):
    clf = copy.copy(first_fits["robustmixture"])
    before = clf.ledger_
    clf.fit(OTHER_X, np.where(OTHER_Y == "dead", "ill", OTHER_Y))
    assert clf.ledger_ is not before
    assert clf.ledger_.attempts == ()
