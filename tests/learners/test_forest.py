"""Forests of trees with random and best cuts, shared by the folds of a cross-fit, on samples of rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

import tailboost as tb
from tailboost.learners import forest as forests  # sizes of samples and trees are constants of the module
from tailboost.learners.forest import ForestSession, TableForest
from tailboost.learners.table import BinnedReader, OpenTable, bin_cuts

K = 3


def rows(seed, n=300):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 6, (n, 4)).astype(float)
    y = np.clip((X[:, 0] + X[:, 1] * rng.random(n) > 4).astype(int) + (rng.random(n) < 0.1), 0, K - 1)
    return X, y


def session(X, y, part=None, **params):
    opened = ForestSession(TableForest(**params), OpenTable(X), y)
    if part is not None:
        opened.leave_out(part)
    return opened


def trees(forest):
    return [tree for batch in forest.batches_ for tree in batch.estimators_]


@pytest.mark.parametrize("most", [20_000, 60])
def test_a_part_is_judged_by_trees_that_did_not_see_it(most, monkeypatch):
    monkeypatch.setattr(forests, "ROWS_OF_TREE", most)
    X, y = rows(0)
    part, one = np.arange(len(y)) % 5, np.ones(len(y))
    opened = session(X, y, part)
    everything = opened.fit(one)
    assert len(trees(everything)) == forests.FOREST_TREES
    for j in range(5):
        out = part == j
        own = opened.fit(one, 0, ~out)
        assert len(trees(own)) == forests.FOREST_TREES // 5
        assert all(any(tree is other for other in trees(everything)) for tree in trees(own))
        flipped = np.where(out, K - 1 - y, y)  # labels of the held-out rows are noise
        again = ForestSession(TableForest(), OpenTable(X), flipped)
        again.leave_out(part)
        if most < len(y):  # the sample depends on all rows of a class
            assert all(tree.tree_.n_node_samples[0] <= 2 * most for tree in trees(own))
        else:
            np.testing.assert_array_equal(again.fit(one, 0, ~out).predict_proba(X), own.predict_proba(X))


def test_a_held_out_part():
    """Half of the trees are grown without the fold, the others on all rows."""
    X, y = rows(1)
    part, one = np.where(np.arange(len(y)) % 5 == 0, 0, -1), np.ones(len(y))
    opened = session(X, y, part)
    rest, everything = opened.fit(one, 0, part != 0), opened.fit(one)
    assert len(trees(rest)) == forests.FOREST_TREES // 2
    assert len(trees(everything)) == forests.FOREST_TREES
    seen = {int(tree.tree_.n_node_samples[0]) for tree in trees(everything)}
    assert seen == {len(y), int((part != 0).sum())}


def test_other_rows_get_a_forest_of_their_own():
    X, y = rows(2)
    one, few = np.ones(len(y)), np.arange(len(y)) < 200
    opened = session(X, y, np.arange(len(y)) % 5)
    assert len(trees(opened.fit(one, 0, few))) == forests.FOREST_TREES
    alone = session(X[few], y[few]).fit(one[few])
    np.testing.assert_array_equal(opened.fit(one, 0, few).predict_proba(X), alone.predict_proba(X))


def test_other_weights_other_trees():
    X, y = rows(3)
    part, one = np.arange(len(y)) % 5, np.ones(len(y))
    other = np.where(X[:, 2] > 2, 5.0, 1.0)
    opened = session(X, y, part)
    before = opened.fit(one).predict_proba(X)
    weighted = opened.fit(other, 0, part != 1).predict_proba(X)
    assert not np.allclose(weighted, opened.fit(one, 0, part != 1).predict_proba(X))
    np.testing.assert_array_equal(opened.fit(other, 0, part != 1).predict_proba(X), weighted)
    np.testing.assert_array_equal(opened.fit(one).predict_proba(X), before)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("params", [{}, {"best_cuts": 0.5, "prior": 0.05, "n_trees": 50}])
@pytest.mark.parametrize("most", [20_000, 60])
def test_a_weight_is_repetition_and_order_means_nothing(most, params, monkeypatch):
    monkeypatch.setattr(forests, "ROWS_OF_TREE", most)
    X, y = rows(4)
    _, content = np.unique(X, axis=0, return_inverse=True)
    part = content.ravel() % 5  # equal rows are in one fold; NumPy 2.0 returns a column
    weight = np.random.default_rng(0).integers(1, 4, len(y))
    many = np.random.default_rng(1).permutation(np.repeat(np.arange(len(y)), weight))
    one, two = session(X, y, part, **params), session(X[many], y[many], part[many], **params)
    for j in (None, 0, 3):
        a = one.fit(weight.astype(float), 0, None if j is None else part != j)
        b = two.fit(np.ones(len(many)), 0, None if j is None else part[many] != j)
        np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))


def test_a_sample_keeps_the_rare_class(monkeypatch):
    monkeypatch.setattr(forests, "ROWS_OF_TREE", 100)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4000, 3)), (np.arange(4000) < 10).astype(int)
    forest = session(X, y).fit(np.ones(4000))
    counts = [int(tree.tree_.n_node_samples[0]) for tree in trees(forest)]
    assert min(counts) >= 100  # all ten rows of the rare class, and a fraction of the other class
    assert max(counts) <= 100 + 10
    assert len(forest.batches_) == forests.FOREST_TREES // forests.TREES_OF_SAMPLE
    assert all(len(batch.classes_) == 2 for batch in forest.batches_)


def test_samples_share_as_few_rows_as_can_be(monkeypatch):
    monkeypatch.setattr(forests, "ROWS_OF_TREE", 100)
    X, y = np.random.default_rng(0).normal(size=(2000, 1)), np.arange(2000) % 2
    forest = session(X, y).fit(np.ones(2000))  # twenty samples of a hundred
    P = forest.predict_proba(X)
    # Each row is in the sample of five trees, which are fully grown on distinct values.
    assert (P[np.arange(2000), y] >= forests.TREES_OF_SAMPLE / forests.FOREST_TREES - 1e-12).all()


def test_a_class_that_some_trees_did_not_see():
    X, y = rows(5)
    part = np.arange(len(y)) % 5
    y = np.where(y == 2, 1, y)
    y[[0, 5]] = 2  # both rows of class 2 are in fold 0
    X[[0, 5]] = 9.0
    forest = session(X, y, part).fit(np.where(y == 2, 75.0, 1.0))
    P = forest.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    assert P[0, 2] > 0.4  # four fifths of the trees were fitted on the row and return 1


def holes(seed, n, d=6):
    """Return numbers with missing values, a column of few values, and a constant column."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=n) > 0.9).astype(int) + (X[:, 2] > 1)
    X[:, 3] = rng.integers(0, 3, n)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 5] = np.where(rng.random(n) < 0.5, 1.0, np.nan)
    return X, y


def test_trees_of_best_cuts_are_the_peers_on_bins():
    """Trees grown on bin numbers predict for values like scikit-learn's trees for bins."""
    X, y = holes(0, 1200)
    fitted, fresh = slice(0, 800), slice(800, None)
    forest = TableForest(n_trees=20, best_cuts=1.0, leaf_rows=3.0).fit(X[fitted], y[fitted])
    read = OpenTable(X[fitted])
    bins = BinnedReader(read.reader, bin_cuts(read.table, forests.CUT_BINS, read.hashes))
    (ours,) = forest.batches_
    peer = RandomForestClassifier(20, bootstrap=False).set_params(
        random_state=ours.random_state, min_weight_fraction_leaf=ours.min_weight_fraction_leaf
    )
    peer.fit(bins.transform(X[fitted]), y[fitted], np.ones(800))
    expected = peer.predict_proba(bins.transform(X[fresh]))
    np.testing.assert_allclose(forest.predict_proba(X[fresh]), expected, atol=1e-12)


def test_half_of_the_trees_cut_best_and_the_prior_is_the_shares():
    X, y = holes(1, 500)
    weight = np.random.default_rng(0).integers(1, 3, 500).astype(float)
    params = {"n_trees": 10, "best_cuts": 0.5}
    plain = TableForest(**params).fit(X, y, weight)
    assert [type(batch).__name__ for batch in plain.batches_] == [
        "ExtraTreesClassifier",
        "RandomForestClassifier",
    ]
    assert [len(batch.estimators_) for batch in plain.batches_] == [5, 5]
    shares = np.bincount(y, weights=weight) / weight.sum()
    expected = 0.9 * plain.predict_proba(X) + 0.1 * shares
    P = TableForest(**params, prior=0.1).fit(X, y, weight).predict_proba(X)
    np.testing.assert_allclose(P, expected, atol=1e-12)
    sparse = sp.csr_matrix(np.nan_to_num(X))  # sparse tables have random cuts only
    assert len(TableForest(**params).fit(sparse, y).batches_) == 1


@pytest.mark.parametrize(("n", "expected"), [(40, 240), (8_000, 150), (30_000, 120)])
def test_more_trees_where_rows_are_few(n, expected):
    X = np.arange(n, dtype=float)[:, None]
    twice = np.r_[X, X]  # equal rows count once
    opened = ForestSession(TableForest(n_trees="auto"), OpenTable(twice), np.arange(2 * n) % 2)
    assert opened.n_trees == expected


def test_beside_scikit_learns_forest():
    """Without folds, on few rows of balanced classes, the error is that of scikit-learn's extra trees."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 6))
    y = (X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=1500) > 0.9).astype(int)
    Z, z = X[1000:], y[1000:]
    ours = TableForest(random_state=0).fit(X[:1000], y[:1000])
    peer = ExtraTreesClassifier(random_state=0).fit(X[:1000], y[:1000])
    error, theirs = (np.mean(P.argmax(axis=1) != z) for P in (ours.predict_proba(Z), peer.predict_proba(Z)))
    assert abs(error - theirs) < 0.03
    gap = np.abs(ours.predict_proba(Z) - peer.predict_proba(Z)).mean()
    assert gap < 0.06
    np.testing.assert_allclose(ours.feature_importances_, peer.feature_importances_, atol=0.05)


@pytest.mark.parametrize("kind", ["dense", "missing", "sparse"])
@pytest.mark.parametrize("at_once", [7, 65_536])
@pytest.mark.thinned(3)
def test_answers_are_the_trees_means_in_any_block(kind, at_once, monkeypatch):
    """The probabilities are the mean of scikit-learn's trees."""
    monkeypatch.setattr(forests, "PREDICTED_AT_ONCE", at_once)
    X, y = rows(8)
    Z = rows(9, 1500)[0].astype(np.float32)
    if kind == "missing":
        X[::5, 0] = Z[::7, 1] = Z[::3, 0] = np.nan
    elif kind == "sparse":
        X, Z = sp.csr_matrix(X), sp.csr_matrix(Z)
    forest = TableForest(random_state=0).fit(X, y)
    total = np.zeros((Z.shape[0], K))
    for tree in trees(forest):
        total += tree.predict_proba(Z)
    P = forest.predict_proba(Z)
    np.testing.assert_array_equal(P, total / len(trees(forest)))
    np.testing.assert_array_equal(forest.predict_proba(Z[11:12]), P[11:12])


def test_rows_with_other_columns_are_refused():
    X, y = rows(0)
    forest = TableForest(random_state=0).fit(X, y)
    for other in (X[:, :3], sp.csr_matrix(X[:, :3])):
        with pytest.raises(ValueError, match="features"):
            forest.predict_proba(other)


def test_a_cross_fit_grows_one_forest(monkeypatch):
    grown = []
    fit = ExtraTreesClassifier.fit
    monkeypatch.setattr(
        ExtraTreesClassifier, "fit", lambda self, *args: grown.append(self.n_estimators) or fit(self, *args)
    )
    X, y = rows(6)
    tb.RobustMixtureClassifier([("forest", TableForest())], cv=5, random_state=0).fit(X, y)
    assert sum(grown) == forests.FOREST_TREES
