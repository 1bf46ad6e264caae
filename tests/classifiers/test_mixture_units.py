"""Rules for the errors of classes, groups and cells, with stated groups or groups estimated from features."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import errors_of
from scipy.sparse import csr_matrix
from scipy.special import expit
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost import RobustMixtureClassifier, rates


def first_column(X, y):
    """Return a model with a known score: the first column is the log odds."""
    model = LogisticRegression().fit(X, y)
    model.coef_, model.intercept_ = np.array([[1.0, 0.0]]), np.zeros(1)
    return model


def shown(seed, n=1500):
    """Return rows with a score biased by group; the second column reveals the group, the score does not."""
    rng = np.random.default_rng(seed)
    y, group = rng.integers(0, 2, n), rng.integers(0, 2, n)
    score = 2.0 * y - 1.0 + rng.normal(size=n) + np.where(group == 1, 1.0, -1.0) * np.where(y == 1, 1, 0.2)
    return np.column_stack([score, group + 0.4 * rng.normal(size=n)]), y, np.array(["a", "b"])[group]


def worst_cell(y, group, answers):
    return max(np.mean(answers[(y == k) & (group == g)] != k) for k in (0, 1) for g in np.unique(group))


X, Y, GROUP = shown(0)
FRESH, LABELS, OF = shown(1)
SCORE = [("score", FrozenEstimator(first_column(X, Y)))]


@pytest.fixture(scope="module")
def blind():
    return RobustMixtureClassifier(SCORE, objective="worst_cell", random_state=0).fit(X, Y, groups=GROUP)


@pytest.mark.parametrize("unit", ["class", "group", "cell"])
def test_a_rate_is_chosen_as_its_name(unit):
    P = {"score": first_column(X, Y).predict_proba(X)}
    given = {"groups": GROUP, "error_budget": 0.1}
    named = RobustMixtureClassifier.from_probabilities(P, Y, objective=f"worst_{unit}", **given)
    of_unit = rates.largest(rates.error(by=unit))
    stated = RobustMixtureClassifier.from_probabilities(P, Y, objective=of_unit, **given)
    assert str(stated.rates_) == str(named.rates_)
    assert stated.subgroup_errors_ == named.subgroup_errors_
    assert stated.limits_met_ == named.limits_met_


def test_groups_that_are_not_told_are_read_from_the_features(blind):
    without = RobustMixtureClassifier.from_probabilities(
        {"score": SCORE[0][1].predict_proba(X)}, Y, groups=GROUP, objective="worst_cell"
    )
    found = worst_cell(LABELS, OF, blind.predict(FRESH))
    of_scores = worst_cell(LABELS, OF, without.predict({"score": SCORE[0][1].predict_proba(FRESH)}))
    assert found < of_scores - 0.03
    # No worse than the out-of-fold estimate on the selection data.
    assert found < errors_of(blind).max() + 0.06


def test_a_row_is_answered_alike_alone_in_threads_and_from_a_file(blind, tmp_path):
    answers = blind.predict(FRESH[:200])
    assert [blind.predict(row[None])[0] for row in FRESH[:20]] == answers[:20].tolist()
    with ThreadPoolExecutor(8) as pool:
        for said in pool.map(lambda _: blind.predict(FRESH[:200]), range(8)):
            assert np.array_equal(said, answers)
    tb.save_model(blind, tmp_path / "m.model")
    loaded = tb.load_model(tmp_path / "m.model")
    for again in (loaded, pickle.loads(pickle.dumps(blind))):
        assert np.array_equal(again.predict(FRESH[:200]), answers)
        cheaper = [each.reweight(error_budget=0.0).predict(FRESH[:200]) for each in (again, blind)]
        assert np.array_equal(*cheaper)


def frequencies(rng, n):
    """The same score in two groups, in one of which the second class is rare."""
    group = np.where(rng.random(n) < 0.15, "few", "many")
    y = (rng.random(n) < np.where(group == "few", 0.1, 0.5)).astype(int)
    return expit(2.0 * y - 1.0 + 1.4 * rng.normal(size=n)), y, group


def test_told_groups_know_how_frequent_classes_are_there():
    """The selected candidate errs hardly more than the best pair of thresholds for many rows."""
    fresh, truth, of = frequencies(np.random.default_rng(9), 60_000)
    best = 0
    for own in (of == "few", of == "many"):
        order = np.argsort(fresh[own])
        ones = truth[own][order]
        best += min(np.cumsum(np.r_[0, 2 * ones - 1]) + np.sum(ones == 0))
    errors = []
    for seed in range(3):
        p, y, group = frequencies(np.random.default_rng(seed), 4000)
        told = RobustMixtureClassifier.from_probabilities(
            {"p": p}, y, groups=group, objective="worst_cell", by_group=True, error_budget=0.0
        )
        errors.append(np.mean(told.predict({"p": fresh}, groups=of) != truth))
    assert np.mean(errors) < best / len(truth) + 0.005 < np.mean((fresh > 0.5) != truth) - 0.005


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.SmallSubgroupsWarning")
@pytest.mark.parametrize("form", ["sparse", "wide"])
def test_tables_of_any_form_have_groups_that_are_not_told(form):
    rng = np.random.default_rng(0)
    y, group = rng.integers(0, 2, 300), rng.integers(0, 2, 300)
    words = np.array(["red", "blue", "green", "grey"])
    texts = [" ".join(words[[k, 2 + g]]) for k, g in zip(y ^ (rng.random(300) < 0.2), group, strict=True)]
    table = csr_matrix(CountVectorizer().fit_transform(texts), dtype=float)
    if form == "wide":
        table = np.hstack([table.toarray(), np.zeros((300, 1000))])
    mix = RobustMixtureClassifier([("m", LogisticRegression())], objective="worst_group", random_state=0)
    mix.fit(table, y, groups=group)
    assert list(mix.named_estimators_) == ["m"]
    assert np.mean(mix.predict(table) != y) < 0.4
    assert errors_of(mix).max() < 0.5
