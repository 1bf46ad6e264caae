"""Binned trees: against scikit-learn's trees and brute force, and the promises a session makes."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import noisy, refused
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost.learners import HistBoostClassifier, HistTreeClassifier, hist as _hist
from tailboost.learners.foreign import constant, open_session, predict_models
from tailboost.learners.table import TableReader

xgboost = pytest.importorskip("xgboost")


def few_values(seed, K, missing=False):
    """Return a table with few distinct values per column, labels and whole weights."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(20, 120)), int(rng.integers(1, 5))
    X = rng.integers(0, 5, (n, d)).astype(float) + rng.integers(-3, 3)
    y = rng.integers(0, K, n)
    y[:K] = np.arange(K)
    if missing:
        X[rng.random((n, d)) < 0.15] = np.nan
    return X, y, rng.integers(0, 4, n) + (np.arange(n) < K)


def gini(y, weight, leaf, K):
    """Return the weighted Gini impurity of a partition, times the weight."""
    total = 0.0
    for part in np.unique(leaf, axis=0):
        inside = np.all(leaf == part, axis=1)
        mass = np.bincount(y[inside], weights=weight[inside], minlength=K)
        total += mass.sum() - (mass**2).sum() / max(mass.sum(), 1e-300)
    return total


@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_stump_finds_the_split_of_least_gini(seed, missing, K):
    """Brute force over every column, threshold and side for the missing values."""
    X, y, weight = few_values(seed, K, missing)
    tree = HistTreeClassifier(max_depth=1).fit(X, y, sample_weight=weight)
    best = gini(y, weight, np.zeros((len(y), 1)), K)
    for column in X.T:
        values = np.unique(column[~np.isnan(column)])
        for threshold in (values[1:] + values[:-1]) / 2:
            for side in (False, True):
                left = np.where(np.isnan(column), side, column < threshold)
                best = min(best, gini(y, weight, left[:, None], K))
        best = min(best, gini(y, weight, np.isnan(column)[:, None], K))
    ours = gini(y, weight, tree.predict_proba(X), K)
    assert ours == pytest.approx(best, abs=1e-4 * weight.sum())


@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("seed", range(6))
def test_same_tree_as_scikit_learn_where_the_splits_are_the_same(seed, K):
    """One column with few values: no two splits tie across columns, so the trees must be the same."""
    X, y, weight = few_values(seed, K)
    X = X[:, :1]
    ours = HistTreeClassifier(max_depth=2).fit(X, y, sample_weight=weight)
    theirs = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y, sample_weight=weight)
    grid = np.unique(X)[:, None]  # XGBoost's thresholds are values, scikit-learn's lie between them
    P, Q = ours.predict_proba(grid), theirs.predict_proba(grid)
    np.testing.assert_allclose(P, Q, atol=1e-5)
    clear = np.diff(np.sort(Q, axis=1)[:, -2:], axis=1)[:, 0] > 1e-6
    np.testing.assert_array_equal(ours.predict(grid)[clear], theirs.predict(grid)[clear])


@pytest.mark.parametrize("K", [2, 4])
@pytest.mark.parametrize("depth", [1, 3, 6])
@pytest.mark.parametrize("seed", range(3))
def test_as_pure_as_scikit_learn_on_continuous_columns(seed, depth, K):
    """Greedy trees on the same thresholds (fewer rows than bins) end with the same impurity."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(150, 3))
    y = (X @ rng.normal(size=(3, K)) + rng.gumbel(size=(150, K))).argmax(axis=1)
    weight = rng.uniform(0.5, 2, 150)  # no two splits have the same gain
    ours = HistTreeClassifier(max_depth=depth).fit(X, y, sample_weight=weight)
    theirs = DecisionTreeClassifier(max_depth=depth, random_state=0).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)


def test_a_leaf_answers_the_weighted_majority():
    X, y = np.array([[0.0], [0.0], [0.0], [1.0]]), np.array(["a", "b", "b", "c"])
    assert HistTreeClassifier().fit(X, y, sample_weight=[3, 1, 1, 1]).predict([[0.0]]) == ["a"]
    assert HistTreeClassifier().fit(X, y, sample_weight=[1, 1, 1, 1]).predict([[0.0]]) == ["b"]
    shares = HistTreeClassifier().fit(X, y, sample_weight=[3, 1, 1, 1]).predict_proba([[0.0]])
    np.testing.assert_allclose(shares, [[0.6, 0.4, 0.0]], atol=1e-6)


@pytest.mark.parametrize("column", [
    [1.0, np.nextafter(np.float32(1), np.float32(2))],  # neighbours in float32 have no middle
    [3e38, -3e38],  # whose sum overflows
    [np.finfo(np.float32).max, np.finfo(np.float32).min],
    [1e-45, 0.0], [-1e-45, 1e-45], [0.0, -0.0, 1.0], [1e-30, 1e30],
])  # fmt: skip
def test_edges_of_float32(column):
    """Values next to each other, at the ends of the range or below normal are kept apart."""
    column = np.array(column, dtype=np.float32)
    _, y = np.unique(column, return_inverse=True)
    X = np.repeat(column, 10)[:, None]
    tree = HistTreeClassifier(max_depth=2).fit(X, np.repeat(y, 10))
    np.testing.assert_array_equal(tree.predict(X), np.repeat(y, 10))


@pytest.mark.parametrize("cls", [HistTreeClassifier, HistBoostClassifier])
@pytest.mark.parametrize("K", [2, 3])
def test_degenerate_columns(cls, K):
    """Constant and all-missing columns carry nothing; alone they leave the weighted majority."""
    X, y = noisy(1, n=90, K=K)
    useless = np.column_stack([np.full(90, 7.0), np.full(90, np.nan)])
    plain = cls(max_depth=2, random_state=0).fit(X, y)
    padded = cls(max_depth=2, random_state=0).fit(np.hstack([X, useless]), y)
    np.testing.assert_array_equal(plain.predict(X), padded.predict(np.hstack([X, useless])))
    alone = cls(max_depth=2).fit(useless, y)
    assert set(alone.predict(useless)) == {np.bincount(y).argmax()}
    if cls is HistTreeClassifier:
        np.testing.assert_allclose(alone.predict_proba(useless)[0], np.bincount(y) / 90, atol=1e-6)


@pytest.mark.parametrize("cls", [HistTreeClassifier, HistBoostClassifier])
@pytest.mark.parametrize("K", [2, 3, 5])
def test_one_row_per_class(cls, K):
    X, y = np.arange(K, dtype=float)[:, None], np.array([f"class {k}" for k in range(K)])
    clf = cls().fit(X, y)
    assert clf.predict_proba(X).shape == (K, K)
    np.testing.assert_allclose(clf.predict_proba(X).sum(axis=1), 1)
    if cls is HistTreeClassifier:
        np.testing.assert_array_equal(clf.predict(X), y)


def sessions(K, missing=False, seed=0):
    X, y, weight = few_values(seed, K, missing)
    for template in (HistTreeClassifier(max_depth=3), HistBoostClassifier(n_estimators=4, max_depth=3)):
        session = open_session(template, X, y, np.arange(K), weight.astype(float))
        yield template, session, X, y, weight.astype(float)


@pytest.mark.parametrize("seed", range(6))
def test_weight_2_equals_the_row_twice_for_tied_splits(seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (80, 6)).astype(float)
    y, weight = rng.integers(0, 3, 80), rng.integers(1, 6, 80)
    many = rng.permutation(np.repeat(np.arange(80), weight))
    clf = HistBoostClassifier(n_estimators=15, max_depth=3)
    one = clone(clf).fit(X, y, weight).predict_proba(X)
    float32 = {"rtol": 0, "atol": 1e-6}
    np.testing.assert_allclose(clone(clf).fit(X[many], y[many]).predict_proba(X), one, **float32)
    order = rng.permutation(80)
    ordered = clone(clf).fit(X[order], y[order], weight[order])
    np.testing.assert_allclose(ordered.predict_proba(X), one, **float32)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("K", [2, 3])
def test_fold_by_weight_zero_is_the_fit_on_the_sliced_rows(K, missing):
    """All values stand in both halves, so both tables have the same cuts."""
    for template, _, X, y, weight in sessions(K, missing):
        twice = np.vstack([X, X])
        labels, double = np.concatenate([y, y[::-1]]), np.concatenate([weight, weight])
        rows = np.arange(len(twice)) < len(X)
        session = open_session(template, twice, labels, np.arange(K), double)
        fold = session.fit(double, 0, rows)
        sliced = open_session(template, X, y, np.arange(K), weight).fit(weight, 0)
        np.testing.assert_allclose(fold.predict_proba(X), sliced.predict_proba(X), atol=1e-6)
        np.testing.assert_array_equal(fold.predict(X), sliced.predict(X))


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("K", [2, 3])
def test_predictions_on_the_binned_table_are_those_on_raw_numbers(K, missing):
    for seed in range(5):
        for _, session, X, y, weight in sessions(K, missing, seed):
            older, rows = session.fit(weight, 0), np.arange(len(y)) % 3 > 0
            newest = session.fit(weight * (1 + y), 0, rows)
            for model in (newest, older):  # the newest has its answers at hand, the older is asked anew
                np.testing.assert_array_equal(session.predict(model), model.predict(X))
                np.testing.assert_array_equal(session.predict(model)[rows], model.predict(X[rows]))


def test_members_share_one_prepared_table(monkeypatch):
    X, y = noisy(3)
    session = open_session(HistTreeClassifier(), X, y, np.arange(2), np.ones(len(y)))
    members = [session.fit(np.ones(len(y)) + y * t, 0) for t in range(4)] + [constant(1, 2)]
    calls, transform = [], TableReader.transform
    monkeypatch.setattr(TableReader, "transform", lambda self, X: calls.append(1) or transform(self, X))
    answers = list(predict_models(members, X))
    assert len(calls) == 1
    for answer, member in zip(answers, members, strict=True):
        np.testing.assert_array_equal(answer, member.predict(X))


def test_categories_are_sets_not_orders():
    """The classes alternate along the names: no threshold on codes separates them, a set of names does."""
    names = np.array(list("abcdefgh"))
    frame = pd.DataFrame({"name": names[np.arange(160) % 8]})
    y = np.arange(160) % 8 % 2
    for column in (frame.name, frame.name.astype("category")):
        table = pd.DataFrame({"name": column})
        clf = HistTreeClassifier(max_depth=3).fit(table, y)
        assert clf.score(table, y) == 1.0
        assert np.isfinite(clf.predict_proba(pd.DataFrame({"name": ["zz", None]}))).all()


def test_codes_of_categories_do_not_depend_on_the_frame_at_prediction():
    letters = pd.Categorical(["x", "y", "z"] * 20, categories=["z", "y", "x"])
    train = pd.DataFrame({"c": letters, "v": range(60)})
    y = (train.c == "x").to_numpy().astype(int)
    clf = HistTreeClassifier(max_depth=2).fit(train, y)
    other = pd.DataFrame({"c": pd.Categorical(["x", "y"], categories=["x", "y"]), "v": [1, 2]})
    np.testing.assert_array_equal(clf.predict(other), [1, 0])
    np.testing.assert_array_equal(clf.predict(other.astype({"c": object})), [1, 0])


@pytest.mark.parametrize("kind", ["dates", "complex", "mixed", "infinite"])
def test_columns_that_cannot_be_read_are_named(kind):
    column = {
        "dates": pd.date_range("2020-01-01", periods=20), "complex": np.arange(20) + 1j,
        "mixed": ["a", 1] * 10, "infinite": [np.inf, 1.0] * 10,
    }[kind]  # fmt: skip
    frame = pd.DataFrame({"fine": range(20), "odd one": column})
    refused(lambda: HistTreeClassifier().fit(frame, np.arange(20) % 2), "odd")


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("values", ["ones", "wide", "negative", "counts"])
@pytest.mark.parametrize("form", ["sparse", "NaN"])
def test_trees_split_by_presence_alone(form, values, K):
    """One-hot columns have no threshold, and presence may matter more than any number."""
    rng = np.random.default_rng(0)
    there = rng.random((400, 4)) < 0.5
    numbers = {
        "ones": np.ones(there.shape), "wide": rng.lognormal(0, 3, there.shape),
        "negative": -rng.lognormal(0, 3, there.shape), "counts": rng.poisson(20, there.shape) + 1.0,
    }[values]  # fmt: skip
    y = (there[:, 0] ^ there[:, 1]) + (K - 2) * (there[:, 2] & there[:, 0])
    X = sp.csr_matrix(there * numbers) if form == "sparse" else np.where(there, numbers, np.nan)
    for learner in (HistTreeClassifier(max_depth=12), HistBoostClassifier(n_estimators=30)):
        assert learner.fit(X, y).score(X, y) == 1.0
    # With as many numbers as bins, a bin for the missing rows is left.
    assert HistBoostClassifier(n_estimators=30, max_bins=2).fit(X, y).score(X, y) == 1.0


@pytest.mark.parametrize("cls", [HistTreeClassifier, HistBoostClassifier])
def test_a_sparse_model_reads_absent_entries_as_missing_in_any_form(cls):
    rng = np.random.default_rng(0)
    X = rng.random((120, 5)) * (rng.random((120, 5)) < 0.4)
    y = (X.sum(axis=1) > 1).astype(int)
    sparse = cls(max_depth=3).fit(sp.csr_matrix(X), y)
    as_missing = cls(max_depth=3).fit(np.where(X == 0, np.nan, X), y)
    P = sparse.predict_proba(sp.csr_matrix(X))
    np.testing.assert_array_equal(P, as_missing.predict_proba(np.where(X == 0, np.nan, X)))
    np.testing.assert_array_equal(P, sparse.predict_proba(X))
    explicit = sp.csr_matrix(X)
    explicit.data[:3] = 0.0  # a stored zero is an absent entry
    implicit = sp.csr_matrix(explicit.toarray())
    np.testing.assert_array_equal(sparse.predict_proba(explicit), sparse.predict_proba(implicit))
    dense = cls(max_depth=3).fit(X, y)
    np.testing.assert_array_equal(dense.predict_proba(sp.csr_matrix(X)), dense.predict_proba(X))


@pytest.mark.parametrize("cls", [HistTreeClassifier, HistBoostClassifier])
def test_without_xgboost(cls, monkeypatch):
    monkeypatch.setattr(_hist, "xgboost", lambda: None)
    X, y = noisy(4)
    with pytest.warns(UserWarning, match="installed") as seen:
        clf = cls(random_state=0).fit(X, y)
    assert len(seen) == 1
    assert clf.score(X, y) > 0.9
    frame = pd.DataFrame({"x": X[:, 0], "c": np.where(y > 0, "a", "b")})
    with pytest.warns(UserWarning, match="installed"):
        session = open_session(cls(max_depth=2), frame, y, np.arange(2), np.ones(len(y)))
    assert (session.predict(session.fit(np.ones(len(y)), 0)) == y).all()


@pytest.mark.slow
def test_package_imports_without_xgboost():
    """In a fresh interpreter in which XGBoost cannot be imported."""
    code = (
        "import sys; sys.modules['xgboost'] = None\n"
        "import warnings; warnings.simplefilter('ignore')\n"
        "import tailboost, numpy as np\n"
        "X = np.random.default_rng(0).normal(size=(60, 2)); y = (X[:, 0] > 0).astype(int)\n"
        "clf = tailboost.AdaLPBoostClassifier(n_estimators=1, cv='train').fit(X, y)\n"
        "print(clf.score(X, y))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(out.stdout) > 0.9


@pytest.mark.parametrize("factor", [1e-30, 1e-9, 1e30])
def test_scale_of_the_weights_only_changes_penalties(factor):
    X, y, weight = few_values(3, 2)
    one = HistTreeClassifier(max_depth=3).fit(X, y, sample_weight=weight)
    two = HistTreeClassifier(max_depth=3).fit(X, y, sample_weight=weight * factor)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    # HistBoost has absolute penalties, which scale with the weights
    one = HistBoostClassifier(n_estimators=3, min_child_weight=0, l2_regularization=1.0)
    two = HistBoostClassifier(n_estimators=3, min_child_weight=0, l2_regularization=factor)
    probabilities = [m.fit(X, y, w).predict_proba(X) for m, w in ((one, weight), (two, weight * factor))]
    np.testing.assert_allclose(*probabilities, atol=1e-5)


@pytest.mark.parametrize("cls", [HistTreeClassifier, HistBoostClassifier])
@pytest.mark.parametrize("absent", [[1], [0, 2]])
def test_classes_the_rows_of_a_fit_lack_keep_their_numbers(cls, absent):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 2)).astype(np.float32)
    y = np.digitize(X[:, 0], [-0.4, 0.4])
    rows, session = ~np.isin(y, absent), cls(random_state=0).open_session(X, y, 3)
    model = session.fit(np.ones(200), 0, rows)
    present = [k for k in range(3) if k not in absent]
    assert set(np.unique(session.predict(model))) == set(present)
    assert np.mean(session.predict(model)[rows] == y[rows]) > 0.9
    P = model.predict_proba_table(session.X)
    assert P.shape == (200, 3)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-6)
    assert (P[:, absent].max(axis=1) < P[:, present].max(axis=1)).all()


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("leaves", [2, 5, 9])
def test_max_leaf_nodes_as_in_scikit_learn(K, leaves):
    X, y = noisy(1, n=200, K=K)
    s = np.random.default_rng(0).exponential(size=len(y))
    tree = HistTreeClassifier(max_depth=8, max_leaf_nodes=leaves).fit(X, y, sample_weight=s)
    peer = DecisionTreeClassifier(max_depth=8, max_leaf_nodes=leaves, random_state=0).fit(X, y, s)
    assert tree.get_n_leaves() == peer.get_n_leaves() == leaves
    np.testing.assert_allclose(tree.predict_proba(X), peer.predict_proba(X), atol=1e-5)


def test_max_leaf_nodes_in_boosting():
    X, y = noisy(1, n=200, K=3)
    clf = tb.VadaBoostClassifier(HistTreeClassifier(max_leaf_nodes=4), n_estimators=8).fit(X, y)
    assert all(tree.get_n_leaves() <= 4 for tree in clf.estimators_)
    pairs = zip(clf.estimator_weights_, clf.estimators_, strict=True)
    votes = sum(a * np.eye(3)[h.predict(X)] for a, h in pairs)
    assert (votes.argmax(axis=1) == clf.predict(X)).all()
    refused(lambda: HistTreeClassifier(max_leaf_nodes=1).fit(X, y), "'max_leaf_nodes' parameter")


def test_growing_trees_without_folds_hold_rows_out_and_are_fitted_to_all():
    X, y = noisy(3, n=300, K=3)
    grow = HistBoostClassifier(n_estimators="auto").fit(X, y)
    n = grow.model_.booster_.num_boosted_rounds()
    assert 1 <= n < _hist.MOST_TREES
    fixed = HistBoostClassifier(n_estimators=n).fit(X, y)
    np.testing.assert_allclose(grow.predict_proba(X), fixed.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("K", [2, 3])
def test_a_fold_ends_the_growth_of_its_model_where_its_loss_is_least(K):
    X, y = noisy(1, n=400, K=K)
    one, held = np.ones(400), np.arange(400) % 3 == 0
    session = HistBoostClassifier(n_estimators="auto", max_depth=3).open_session(X, y, K)
    model = session.fit(one, 0, ~held)
    n = model.booster_.num_boosted_rounds()

    def loss(trees):
        fixed = HistBoostClassifier(n_estimators=trees, max_depth=3).open_session(X, y, K)
        P = fixed.fit(one, 0, ~held).predict_proba(X[held])
        return -np.log(P[np.arange(held.sum()), y[held]]).mean()

    assert all(loss(n) < loss(m) + 2 * _hist.LEAST_GAIN for m in (max(n - 3, 1), n + 3, n + 20))
    assert session.fit(one, 0).booster_.num_boosted_rounds() == n  # all rows, with the folds' number
    other = session.fit(one, 0, held).booster_.num_boosted_rounds()
    assert session.fit(one, 0).booster_.num_boosted_rounds() == round((n + other) / 2)


def test_growing_trees_of_few_rows_have_a_number():
    X, y = np.arange(3.0)[:, None], np.array([0, 1, 1])
    assert HistBoostClassifier(n_estimators="auto").fit(X, y).predict(X).shape == (3,)
    session = HistBoostClassifier(n_estimators="auto").open_session(X, y, 2)
    assert [session.fit(np.ones(3), 0, np.arange(3) < k).predict(X).shape for k in (1, 3)] == [(3,), (3,)]
