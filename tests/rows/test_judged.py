"""What the library reads of a classifier: declared values, also of classifiers of other libraries."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tailboost as tb
from tailboost.rows.judged import INTERNAL, OTHER, group_arguments, group_uses, judged

X = np.random.default_rng(0).normal(size=(120, 3))
Y = (X[:, 0] > 0).astype(int)
GROUPS = np.where(X[:, 1] > 0, "a", "b")


@pytest.fixture(scope="module")
def aware():
    model = [("logistic", LogisticRegression())]
    return tb.RobustMixtureClassifier(model, by_group=True, random_state=0).fit(X, Y, groups=GROUPS)


@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: make_pipeline(StandardScaler(), model)])
def test_a_classifier_of_another_library_has_the_declared_values(wrap):
    model = wrap(LogisticRegression()).fit(X, Y)
    model.by_group = model.can_defer = True  # attributes of the same name have no meaning there
    assert judged(model) is OTHER
    assert [OTHER.by_group, OTHER.can_defer, OTHER.reads_scores, OTHER.knows_rows] == [False] * 4
    assert group_arguments(model, GROUPS) == {}
    assert group_uses(model) == ()


def test_the_last_classifier_of_a_pipeline_or_search_is_read(aware):
    assert judged(aware) is aware
    assert judged(make_pipeline(StandardScaler(), aware)) is aware
    assert group_arguments(aware, GROUPS)["groups"] is GROUPS
    assert [use.by_group for use in group_uses(aware)] == [True]
    search = GridSearchCV(tb.AdaBoostClassifier(n_estimators=2), {"learning_rate": [0.5]}, cv=2).fit(X, Y)
    assert judged(search) is search.best_estimator_
    assert search.best_estimator_.knows_rows


def test_draws_tells_whether_answers_are_random(aware):
    vote = tb.AverageBoostClassifier("tree", n_estimators=3, random_state=0).fit(X, Y)
    assert (vote.draws, aware.draws, tb.AdaBoostClassifier(n_estimators=2).fit(X, Y).draws) == (
        len(np.flatnonzero(vote.estimator_weights_)) > 1,
        False,
        None,
    )


def test_completion_shows_what_users_need():
    p, rng = np.linspace(0, 1, 200), np.random.default_rng(0)
    clf = tb.RobustMixtureClassifier.from_probabilities({"ours": p}, rng.random(200) < p)
    shown = {name for name in dir(clf) if not name.startswith("_")}
    assert {"predict", "limits", "rates_", "rule_", "tradeoff", "seen_share", "ledger_", "groups_"} <= shown
    assert not shown & INTERNAL
    assert all(hasattr(clf, name) for name in INTERNAL)  # none is the name of something that has gone
