"""What the library reads of a classifier: declared values, also of classifiers of other libraries."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tailboost as tb
from tailboost.rows.judged import group_arguments, group_uses, judged

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
    other = judged(model)
    assert [other.has_records, other.by_group, other.can_defer, other.reads_scores, other.knows_rows] == [
        False
    ] * 5
    assert [other.selects_rule(None), other.takes_limits, other.rule_digest] == [False, False, None]
    assert group_arguments(model, GROUPS) == {}
    assert group_uses(model) == ()


def test_the_last_classifier_of_a_pipeline_or_search_is_read(aware):
    assert judged(aware).classifier is aware
    assert judged(make_pipeline(StandardScaler(), aware)).classifier is aware
    assert group_arguments(aware, GROUPS)["groups"] is GROUPS
    assert [use.by_group for use in group_uses(aware)] == [True]
    search = GridSearchCV(tb.AdaBoostClassifier(n_estimators=2), {"learning_rate": [0.5]}, cv=2).fit(X, Y)
    assert judged(search).classifier is search.best_estimator_
    assert judged(search).knows_rows


def test_draws_tells_whether_answers_are_random(aware):
    vote = tb.AverageBoostClassifier("tree", n_estimators=3, random_state=0).fit(X, Y)
    additive = tb.AdaBoostClassifier(n_estimators=2).fit(X, Y)
    assert judged(vote).draws == (len(np.flatnonzero(vote.estimator_weights_)) > 1)
    assert judged(aware).draws is False
    assert judged(additive).draws is None


def test_completion_shows_what_users_need():
    p, rng = np.linspace(0, 1, 200), np.random.default_rng(0)
    clf = tb.RobustMixtureClassifier.from_probabilities({"ours": p}, rng.random(200) < p)
    shown = {name for name in dir(clf) if not name.startswith("_")}
    assert {"predict", "limits", "rates_", "rule_", "tradeoff", "seen_share", "ledger_", "groups_"} <= shown
    assert not shown & set(dir(judged(clf))) - {"by_group", "classifier"}
