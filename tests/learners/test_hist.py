"""Binned trees: against scikit-learn's trees and brute force, and the promises a session makes."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import noisy
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost.learners import HistBoostClassifier, HistTreeClassifier
from tailboost.learners import hist as _hist
from tailboost.learners.foreign import constant, open_session, predict_models
from tailboost.learners.table import TableReader, bin_cuts

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


@pytest.mark.thinned(65)
@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("seed", range(15))
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
@pytest.mark.parametrize("seed", range(15))
def test_same_tree_as_scikit_learn_where_the_splits_are_the_same(seed, K):
    """One column with few values: no two splits tie across columns, so the trees must be the same."""
    X, y, weight = few_values(seed, K)
    X = X[:, :1]
    ours = HistTreeClassifier(max_depth=2).fit(X, y, sample_weight=weight)
    theirs = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y, sample_weight=weight)
    grid = np.unique(np.concatenate([X[:, 0], X[:, 0] + 0.25, X[:, 0] - 0.25]))[:, None]
    P, Q = ours.predict_proba(grid), theirs.predict_proba(grid)
    np.testing.assert_allclose(P, Q, atol=1e-5)
    clear = np.diff(np.sort(Q, axis=1)[:, -2:], axis=1)[:, 0] > 1e-6
    np.testing.assert_array_equal(ours.predict(grid)[clear], theirs.predict(grid)[clear])


@pytest.mark.parametrize("K", [2, 4])
@pytest.mark.parametrize("depth", [1, 3, 6])
@pytest.mark.parametrize("seed", range(6))
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
    X = np.array([[0.0], [0.0], [0.0], [1.0]])
    y = np.array(["a", "b", "b", "c"])
    assert HistTreeClassifier().fit(X, y, sample_weight=[3, 1, 1, 1]).predict([[0.0]]) == ["a"]
    assert HistTreeClassifier().fit(X, y, sample_weight=[1, 1, 1, 1]).predict([[0.0]]) == ["b"]
    shares = HistTreeClassifier().fit(X, y, sample_weight=[3, 1, 1, 1]).predict_proba([[0.0]])
    np.testing.assert_allclose(shares, [[0.6, 0.4, 0.0]], atol=1e-6)


# -- cuts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_cuts_are_the_midpoints_of_distinct_values(seed):
    rng = np.random.default_rng(seed)
    column = rng.choice(rng.normal(size=20), 100).astype(np.float32)
    values = np.unique(column)
    (ours,) = bin_cuts(column[:, None], 256)
    expected = (values[:-1].astype(np.float64) + values[1:]) / 2
    np.testing.assert_allclose(ours, expected, rtol=1e-6)
    assert np.all((values[:-1] < ours) & (ours <= values[1:]))


@pytest.mark.parametrize("max_bins", [2, 3, 16, 256])
def test_cuts_split_the_distinct_rows_evenly(max_bins):
    rng = np.random.default_rng(max_bins)
    column = rng.lognormal(size=5000).astype(np.float32)
    (ours,) = bin_cuts(column[:, None], max_bins)
    assert len(ours) == max_bins - 1
    counts = np.diff(np.searchsorted(np.sort(column), ours), prepend=0, append=5000)
    assert np.ptp(counts[: len(ours)]) <= 2


def test_cuts_depend_on_content_alone():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    many = rng.permutation(np.repeat(np.arange(400), rng.integers(1, 5, 400)))
    for one, two in zip(bin_cuts(X, 16), bin_cuts(X[many], 16), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    "column",
    [
        [1.0, np.nextafter(np.float32(1), np.float32(2))],  # neighbours in float32 have no middle
        [3e38, -3e38],  # whose sum overflows
        [np.finfo(np.float32).max, np.finfo(np.float32).min],
        [1e-45, 0.0],
        [-1e-45, 1e-45],
        [0.0, -0.0, 1.0],
        [1e-30, 1e30],
    ],
)
def test_edges_of_float32(column):
    """Values next to each other, at the ends of the range or below normal are kept apart."""
    column = np.array(column, dtype=np.float32)
    _, y = np.unique(column, return_inverse=True)
    X = np.repeat(column, 10)[:, None]
    tree = HistTreeClassifier(max_depth=2).fit(X, np.repeat(y, 10))
    np.testing.assert_array_equal(tree.predict(X), np.repeat(y, 10))


@pytest.mark.parametrize("cls", [HistTreeClassifier, HistBoostClassifier])
@pytest.mark.parametrize("backend", ["xgboost", "sklearn"])
@pytest.mark.parametrize("K", [2, 3])
def test_degenerate_columns(cls, backend, K):
    """Constant and all-missing columns carry nothing; alone they leave the weighted majority."""
    X, y = noisy(1, n=90, K=K)
    useless = np.column_stack([np.full(90, 7.0), np.full(90, np.nan)])
    plain = cls(backend=backend, max_depth=2, random_state=0).fit(X, y)
    padded = cls(backend=backend, max_depth=2, random_state=0).fit(np.hstack([X, useless]), y)
    np.testing.assert_array_equal(plain.predict(X), padded.predict(np.hstack([X, useless])))
    alone = cls(backend=backend, max_depth=2).fit(useless, y)
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


# -- sessions ------------------------------------------------------------------------------------------


def sessions(K, missing=False, seed=0):
    X, y, weight = few_values(seed, K, missing)
    for template in (HistTreeClassifier(max_depth=3), HistBoostClassifier(n_estimators=4, max_depth=3)):
        yield template, open_session(template, X, y, K, weight.astype(float), {}), X, y, weight.astype(float)


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
    np.testing.assert_allclose(
        clone(clf).fit(X[order], y[order], weight[order]).predict_proba(X), one, **float32
    )


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("K", [2, 3])
def test_fold_by_weight_zero_is_the_fit_on_the_sliced_rows(K, missing):
    """All values stand in both halves, so both tables have the same cuts."""
    for template, _, X, y, weight in sessions(K, missing):
        twice = np.vstack([X, X])
        labels, double = np.concatenate([y, y[::-1]]), np.concatenate([weight, weight])
        rows = np.arange(len(twice)) < len(X)
        session = open_session(template, twice, labels, K, double, {})
        fold = session.fit(double, 0, rows)
        sliced = open_session(template, X, y, K, weight, {}).fit(weight, 0)
        np.testing.assert_allclose(fold.predict_proba(X), sliced.predict_proba(X), atol=1e-6)
        np.testing.assert_array_equal(fold.predict(X), sliced.predict(X))


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("K", [2, 3])
def test_predictions_on_the_binned_table_are_those_on_raw_numbers(K, missing):
    for seed in range(5):
        for _, session, X, y, weight in sessions(K, missing, seed):
            older = session.fit(weight, 0)
            rows = np.arange(len(y)) % 3 > 0
            newest = session.fit(weight * (1 + y), 0, rows)
            for model in (newest, older):  # the newest has its answers at hand, the older is asked anew
                np.testing.assert_array_equal(session.predict(model), model.predict(X))
                np.testing.assert_array_equal(session.predict(model, rows), model.predict(X[rows]))


def test_members_share_one_prepared_table(monkeypatch):
    X, y = noisy(3)
    session = open_session(HistTreeClassifier(), X, y, 2, np.ones(len(y)), {})
    members = [session.fit(np.ones(len(y)) + y * t, 0) for t in range(4)] + [constant(1, 2)]
    calls = []
    transform = TableReader.transform
    monkeypatch.setattr(TableReader, "transform", lambda self, X: calls.append(1) or transform(self, X))
    answers = list(predict_models(members, X))
    assert len(calls) == 1
    for answer, member in zip(answers, members, strict=True):
        np.testing.assert_array_equal(answer, member.predict(X))


# -- categories, sparse, backends ----------------------------------------------------------------------


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
        "dates": pd.date_range("2020-01-01", periods=20),
        "complex": np.arange(20) + 1j,
        "mixed": ["a", 1] * 10,
        "infinite": [np.inf, 1.0] * 10,
    }[kind]
    frame = pd.DataFrame({"fine": range(20), "odd one": column})
    with pytest.raises(ValueError, match="odd"):
        HistTreeClassifier().fit(frame, np.arange(20) % 2)


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("values", ["ones", "wide", "negative", "counts"])
@pytest.mark.parametrize("form", ["sparse", "NaN"])
def test_trees_split_by_presence_alone(form, values, K):
    """One-hot columns have no threshold, and presence may matter more than any number."""
    rng = np.random.default_rng(0)
    there = rng.random((400, 4)) < 0.5
    numbers = {
        "ones": np.ones(there.shape),
        "wide": rng.lognormal(0, 3, there.shape),
        "negative": -rng.lognormal(0, 3, there.shape),
        "counts": rng.poisson(20, there.shape) + 1.0,
    }[values]
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
    np.testing.assert_array_equal(
        sparse.predict_proba(explicit), sparse.predict_proba(sp.csr_matrix(explicit.toarray()))
    )
    dense = cls(max_depth=3).fit(X, y)
    np.testing.assert_array_equal(dense.predict_proba(sp.csr_matrix(X)), dense.predict_proba(X))


@pytest.mark.parametrize("cls", [HistTreeClassifier, HistBoostClassifier])
def test_backends_say_what_they_are(cls):
    X, y = noisy(4)
    assert cls().fit(X, y).backend_ == "xgboost"
    by_sklearn = cls(backend="sklearn", random_state=0).fit(X, y)
    assert by_sklearn.backend_ == "sklearn"
    assert by_sklearn.score(X, y) > 0.6
    assert cls().fit(X, y).score(X, y) > 0.6


@pytest.mark.parametrize("cls", [HistTreeClassifier, HistBoostClassifier])
def test_without_xgboost(cls, monkeypatch):
    monkeypatch.setattr(_hist, "xgboost", lambda: None)
    X, y = noisy(4)
    with pytest.warns(UserWarning, match="installed") as seen:
        clf = cls(random_state=0).fit(X, y)
    assert len(seen) == 1
    assert clf.backend_ == "sklearn"
    assert cls(backend="sklearn", random_state=0).fit(X, y).backend_ == "sklearn"
    with pytest.raises(ImportError, match="backend"):
        cls(backend="xgboost").fit(X, y)


@pytest.mark.parametrize("cls", [HistTreeClassifier, HistBoostClassifier])
def test_scikit_learns_trees_split_between_our_bins_whatever_the_weights(cls):
    """The answers of a one-column model can change at the cuts only, which no weight moves."""
    rng = np.random.default_rng(0)
    X = rng.gamma(1.0, size=(600, 1)).astype(np.float32)
    y = (np.sin(3 * X[:, 0]) > 0).astype(int)
    ordered = np.sort(X[:, 0])
    own = (ordered[74:-75:75] + ordered[75:-74:75]) / 2  # midpoints at the eighths
    at = np.sort(np.concatenate([np.linspace(0, X.max(), 5_000, dtype=np.float32), own - 1e-4, own + 1e-4]))
    for weight in (np.ones(600), rng.integers(1, 50, 600), np.where(X[:, 0] < 0.2, 1e3, 1.0)):
        clf = cls(max_bins=8, backend="sklearn", random_state=0).fit(X, y, sample_weight=weight)
        P = clf.predict_proba(at[:, None])[:, 1]
        changes = (at[1:][P[1:] != P[:-1]] + at[:-1][P[1:] != P[:-1]]) / 2
        assert len(changes) > 1
        assert np.abs(changes[:, None] - own).min(axis=1).max() < 3e-3


@pytest.mark.parametrize("kind", ["frame", "sparse", "column without values"])
def test_scikit_learns_trees_bin_new_rows_as_those_of_fit(kind):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] + (X[:, 1] > 0) > 0).astype(int)
    X[rng.random((300, 3)) < 0.1] = np.nan
    if kind == "column without values":
        X[:, 2] = np.nan
    if kind == "frame":
        X = pd.DataFrame(X, columns=list("abc")).assign(d=np.where(y == 1, "u", "v"))
    if kind == "sparse":
        X = sp.csr_matrix(np.nan_to_num(X))
    clf = HistBoostClassifier(n_estimators=20, backend="sklearn").fit(X, y)
    assert clf.score(X, y) > 0.9
    part = X.iloc[7:30] if kind == "frame" else X[7:30]
    np.testing.assert_array_equal(clf.predict_proba(part), clf.predict_proba(X)[7:30])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(clf)).predict_proba(X), clf.predict_proba(X))


@pytest.mark.slow
def test_package_imports_without_xgboost():
    """In a fresh interpreter in which XGBoost cannot be imported."""
    code = (
        "import sys; sys.modules['xgboost'] = None\n"
        "import warnings; warnings.simplefilter('ignore')\n"
        "import tailboost, numpy as np\n"
        "X = np.random.default_rng(0).normal(size=(60, 2)); y = (X[:, 0] > 0).astype(int)\n"
        "clf = tailboost.AdaLPBoostClassifier(n_estimators=1, cv='train').fit(X, y)\n"
        "assert clf.estimators_[0].backend_ == 'sklearn'; print(clf.score(X, y))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(out.stdout) > 0.9


@pytest.mark.slow
def test_a_model_made_without_xgboost_is_stored_and_read_without_it(tmp_path):
    code = (
        "import sys; sys.modules['xgboost'] = None\n"
        "import warnings; warnings.simplefilter('ignore')\n"
        "import tailboost, numpy as np\n"
        "X = np.random.default_rng(0).normal(size=(60, 2)); y = (X[:, 0] > 0).astype(int)\n"
        "clf = tailboost.AdaLPBoostClassifier(n_estimators=1, cv='train').fit(X, y)\n"
        f"tailboost.save_model(clf, {str(tmp_path / 'm.model')!r})\n"
        f"again = tailboost.load_model({str(tmp_path / 'm.model')!r})\n"
        "print((again.predict(X) == clf.predict(X)).all())"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "True"


@pytest.mark.parametrize("factor", [1e-30, 1e-9, 1e30])
def test_scale_of_the_weights_only_changes_penalties(factor):
    X, y, weight = few_values(3, 2)
    one = HistTreeClassifier(max_depth=3).fit(X, y, sample_weight=weight)
    two = HistTreeClassifier(max_depth=3).fit(X, y, sample_weight=weight * factor)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    # HistBoost has absolute penalties, which scale with the weights
    one = HistBoostClassifier(n_estimators=3, min_child_weight=0, l2_regularization=1.0).fit(
        X, y, sample_weight=weight
    )
    two = HistBoostClassifier(n_estimators=3, min_child_weight=0, l2_regularization=factor)
    np.testing.assert_allclose(
        one.predict_proba(X), two.fit(X, y, sample_weight=weight * factor).predict_proba(X), atol=1e-5
    )


@pytest.mark.parametrize("backend", ["xgboost", "sklearn"])
@pytest.mark.parametrize("cls", [HistTreeClassifier, HistBoostClassifier])
@pytest.mark.parametrize("absent", [[1], [0, 2]])
def test_classes_the_rows_of_a_fit_lack_keep_their_numbers(cls, backend, absent):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 2)).astype(np.float32)
    y = np.digitize(X[:, 0], [-0.4, 0.4])
    rows = ~np.isin(y, absent)
    session = cls(backend=backend, random_state=0).open_session(X, y, 3)
    model = session.fit(np.ones(200), 0, rows)
    present = [k for k in range(3) if k not in absent]
    assert set(np.unique(session.predict(model))) == set(present)
    assert np.mean(session.predict(model, rows) == y[rows]) > 0.9
    P = model.predict_proba_table(session.table)
    assert P.shape == (200, 3)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-6)
    assert (P[:, absent].max(axis=1) < P[:, present].max(axis=1)).all()


@pytest.mark.parametrize("backend", ["xgboost", "sklearn"])
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("leaves", [2, 5, 9])
def test_max_leaf_nodes_as_in_scikit_learn(backend, K, leaves):
    if backend == "xgboost":
        pytest.importorskip("xgboost")
    X, y = noisy(1, n=200, K=K)
    s = np.random.default_rng(0).exponential(size=len(y))
    tree = HistTreeClassifier(max_depth=8, max_leaf_nodes=leaves, backend=backend).fit(X, y, sample_weight=s)
    peer = DecisionTreeClassifier(max_depth=8, max_leaf_nodes=leaves, random_state=0).fit(
        X, y, sample_weight=s
    )
    assert tree.get_n_leaves() == peer.get_n_leaves() == leaves
    np.testing.assert_allclose(tree.predict_proba(X), peer.predict_proba(X), atol=1e-5)


def test_max_leaf_nodes_in_boosting():
    X, y = noisy(1, n=200, K=3)
    clf = tb.VadaBoostClassifier(HistTreeClassifier(max_leaf_nodes=4), n_estimators=8).fit(X, y)
    assert all(tree.get_n_leaves() <= 4 for tree in clf.estimators_)
    votes = sum(
        a * np.eye(3)[h.predict(X)] for a, h in zip(clf.estimator_weights_, clf.estimators_, strict=True)
    )
    assert (votes.argmax(axis=1) == clf.predict(X)).all()
    with pytest.raises(ValueError, match="'max_leaf_nodes' parameter"):
        HistTreeClassifier(max_leaf_nodes=1).fit(X, y)


def grown(K, n=400, backend="auto"):
    """Return an open session of growing trees, rows that are hard to predict, and a fold for each row."""
    X, y = noisy(1, n=n, K=K)
    weight = np.random.default_rng(2).integers(1, 4, n).astype(float)
    template = HistBoostClassifier(n_estimators="auto", max_depth=3, backend=backend)
    session = template.open_session(X, y, K, weight)
    part = np.arange(n) % 3
    session.leave_out(part)
    return session, X, y, weight, part


@pytest.mark.parametrize("K", [2, 3])
def test_growing_trees_stop_where_the_scaled_loss_of_all_held_out_rows_is_least(K):
    """Brute force: fits of each number of trees, and the best factor of their scores by a scalar search."""
    session, X, y, weight, part = grown(K)
    models = [session.fit(weight, 0, part != j) for j in range(3)]
    (chosen,) = {model.n_estimators for model in models}
    assert [model.booster_.num_boosted_rounds() for model in models] == [chosen] * 3

    def loss(n):
        fixed = clone(session.template).set_params(n_estimators=n).open_session(X, y, K, weight)
        logs = np.empty((len(y), K))
        for j in range(3):
            logs[part == j] = np.log(fixed.fit(weight, 0, part != j).predict_proba(X[part == j]))
        return minimize_scalar(
            lambda s: -weight @ log_softmax(s * logs, axis=1)[np.arange(len(y)), y], bounds=(0, 10)
        ).fun

    losses = {n: loss(n) for n in range(10, max(chosen, 10) + _hist.LEAST_WAIT + 10, 10)}
    assert losses[chosen] <= min(losses.values()) * (1 + 2 * _hist.LOSS_GAIN)
    fixed = clone(session.template).set_params(n_estimators=chosen).open_session(X, y, K, weight)
    for j, model in enumerate(models):
        np.testing.assert_allclose(
            model.predict_proba(X), fixed.fit(weight, 0, part != j).predict_proba(X), atol=1e-5
        )
    whole = session.fit(weight, 0)
    n_trees = round(_hist.MORE_TREES * chosen) if K > 2 else chosen
    of_all = clone(session.template).set_params(n_estimators=n_trees).open_session(X, y, K, weight)
    np.testing.assert_allclose(whole.predict_proba(X), of_all.fit(weight, 0).predict_proba(X), atol=1e-5)


def test_one_model_of_all_rows_replaces_the_folds_of_more_than_two_classes():
    """In a cross-fit with growing trees; where the time is over, the mean of the folds' models answers."""
    for K, of_all in ((2, False), (3, True)):
        session, X, y, weight, _ = grown(K)
        assert session.refits is of_all
        clf = tb.RobustMixtureClassifier([("trees", session.template)], cv=3, random_state=0).fit(X, y)
        assert hasattr(clf.named_estimators_["trees"], "booster_") is of_all
    fixed = clone(session.template).set_params(n_estimators=5).open_session(X, y, 3, weight)
    fixed.leave_out(np.arange(len(X)) % 3)
    assert not fixed.refits


@pytest.mark.slow
def test_with_many_rows_smaller_gains_of_the_held_out_loss_add_trees(monkeypatch):
    """Brute force: the chosen number of trees has the least scaled loss, up to two steps of the gain."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y, weight, part = (X.sum(axis=1) > rng.normal(size=400)).astype(int), np.ones(400), np.arange(400) % 3
    template = HistBoostClassifier(n_estimators="auto", max_depth=2, learning_rate=0.05)

    def chosen(many_rows):
        monkeypatch.setattr(_hist, "MANY_ROWS", many_rows)
        session = template.open_session(X, y, 2, weight)
        session.leave_out(part)
        return session.fit(weight, 0, part != 0).n_estimators

    def loss(n):
        fixed, odds = clone(template).set_params(n_estimators=n), np.empty(400)
        for j in range(3):
            P = fixed.fit(X[part != j], y[part != j]).predict_proba(X[part == j])
            odds[part == j] = np.log(P[:, 1] / P[:, 0]) * (2 * y[part == j] - 1)
        return minimize_scalar(lambda s: np.log1p(np.exp(-s * odds)).mean(), bounds=(0, 10)).fun

    monkeypatch.setattr(_hist, "LOSS_GAIN", 0.1)
    few, many = chosen(400), chosen(40)  # of 400 rows: a gain of a hundredth counts
    losses = {n: loss(n) for n in range(10, many + _hist.LONG_WAIT + 10, 10)}
    assert losses[many] <= min(losses.values()) * 1.02
    assert losses[many] < losses[few]


def test_labels_of_a_fold_reach_its_models_by_the_number_of_trees_alone():
    session, X, y, weight, part = grown(2)
    model = session.fit(weight, 0, part != 0)
    other = np.where(part == 0, 1 - y, y)
    turned = session.template.open_session(X, other, 2, weight)
    turned.leave_out(part)
    turned = turned.fit(weight, 0, part != 0)
    n = min(model.n_estimators, turned.n_estimators)
    first = [each.booster_.inplace_predict(X, iteration_range=(0, n)) for each in (model, turned)]
    np.testing.assert_array_equal(*first)


@pytest.mark.parametrize("backend", ["xgboost", "sklearn"])
def test_growing_trees_without_folds_hold_rows_out_and_are_fitted_to_all(backend):
    X, y = noisy(3, n=300, K=3)
    grow = HistBoostClassifier(n_estimators="auto", backend=backend, random_state=0).fit(X, y)
    model = grow.model_ if backend == "sklearn" else grow.booster_
    n = model.n_iter_ if backend == "sklearn" else model.num_boosted_rounds()
    assert 1 <= n < _hist.MOST_TREES
    fixed = HistBoostClassifier(n_estimators=n, backend=backend, random_state=0).fit(X, y)
    np.testing.assert_allclose(grow.predict_proba(X), fixed.predict_proba(X), atol=1e-6)
    twice = HistBoostClassifier(n_estimators="auto", backend=backend, random_state=0)
    twice = twice.fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    weighed = clone(twice).fit(X, y, sample_weight=np.full(len(y), 2.0))
    if backend == "xgboost":  # a row of weight 2 is the row twice
        np.testing.assert_allclose(twice.predict_proba(X), weighed.predict_proba(X), atol=1e-6)


def test_growing_trees_of_a_single_row_or_class_have_a_number():
    X, y = np.arange(3.0)[:, None], np.array([0, 1, 1])
    assert HistBoostClassifier(n_estimators="auto").fit(X, y).predict(X).shape == (3,)
    session = HistBoostClassifier(n_estimators="auto").open_session(X, y, 2)
    session.leave_out(np.array([0, 1, 1]))
    assert [session.fit(np.ones(3), 0, np.arange(3) < k).predict(X).shape for k in (1, 3)] == [(3,), (3,)]


@pytest.mark.parametrize("backend", ["xgboost", "sklearn"])
def test_folds_grow_with_either_backend(backend):
    session, X, _, weight, part = grown(2, backend=backend)
    models = [session.fit(weight, 0, part != j) for j in range(3)]
    assert len({model.n_estimators for model in models}) == 1
    assert session.fit(weight, 0, part != 1) is models[1]  # grown once
    part_of_rows = np.arange(len(X)) < 200  # no complement of a fold
    assert session.fit(weight, 0, part_of_rows).predict_proba(X).shape == (len(X), 2)


def test_xgboost_reads_no_kinds_of_numbers_with_each_tree():
    y = np.arange(60) % 3
    frame = pd.DataFrame({"a": np.arange(60.0), "b": 1.0})
    assert HistBoostClassifier().open_session(frame, y, 3).data.feature_types is None
    frame["a"] = pd.Categorical(frame["a"] > 13)
    assert HistBoostClassifier().open_session(frame, y, 3).data.feature_types == ["c", "q"]
