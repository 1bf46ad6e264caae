"""The classifiers on Dask collections: rows on workers, the same game, the same answers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.base import clone

import tailboost as tb
from tailboost.learners import HistBoostClassifier

distributed = pytest.importorskip("distributed", reason="needs the extra dask")
da = pytest.importorskip("dask.array", reason="needs the extra dask")

import tailboost.dask as td  # noqa: E402 -- not without Dask

TREES = HistBoostClassifier(n_estimators=3, max_depth=3)
N = 1500


@pytest.fixture(scope="module")
def client():
    """A cluster of two processes, one thread each."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": 0}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


def table(seed=0, n=N, K=3):
    """A table that trees learn in part: (X, y, groups, weights)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    y = (X @ rng.normal(size=(5, K)) + np.sin(3 * X[:, :K]) + rng.gumbel(size=(n, K))).argmax(axis=1)
    groups = np.array(["a", "b", "c"])[1 * (X[:, 0] > 0) + (rng.random(n) < 0.2)]
    return X, y, groups, rng.integers(1, 4, n).astype(float)


def blocks(parts, *arrays):
    """Cut arrays into so many partitions."""
    size = -(-len(arrays[0]) // parts)
    return [da.from_array(a, chunks=(size, *a.shape[1:])) for a in arrays]


def shuffled(*arrays, seed=1):
    order = np.random.default_rng(seed).permutation(len(arrays[0]))
    return [a[order] for a in arrays]


def same_fit(one, other, X):
    """Whether two fits have the same λ, and answer alike."""
    np.testing.assert_allclose(one.estimator_weights_, other.estimator_weights_, atol=1e-9)
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    np.testing.assert_allclose(one.trace_.value, other.trace_.value, atol=1e-9)


@pytest.mark.parametrize("validation", ["cv", 0.3, "train"])
def test_a_fit_does_not_depend_on_workers_partitions_or_order(client, validation):
    X, y, _, w = table()
    clf = td.AdaLPBoostClassifier(
        TREES, n_estimators=3, alpha=0.4, validation=validation, n_iter_no_change=None, random_state=0
    )
    fits = [
        clone(clf).fit(*blocks(parts, *arrays), client=client)  # one partition lies on one worker
        for parts, arrays in ((1, (X, y, w)), (9, (X, y, w)), (5, shuffled(X, y, w)))
    ]
    assert fits[0].n_iter_ == 3
    for other in fits[1:]:
        same_fit(fits[0], other, X)


def test_groups_and_classes_do_not_depend_on_partitions_either(client):
    X, y, groups, w = table()
    by_group = td.GroupDROBoostClassifier(TREES, n_estimators=3, random_state=0)
    by_class = td.WorstClassBoostClassifier(n_estimators=4, random_state=0)
    order = shuffled(X, y, groups, w)
    for clf, args in ((by_group, (groups,)), (by_class, ())):
        fits = []
        for parts, (X_, y_, g_, w_) in ((1, (X, y, groups, w)), (6, order)):
            Xd, yd, wd, gd = blocks(parts, X_, y_, w_, g_)
            extra = {"groups": gd} if args else {}
            fits.append(clone(clf).fit(Xd, yd, wd, client=client, **extra))
        same_fit(*fits, X)


def test_λ_is_optimal_for_the_losses_of_the_rows_themselves(client):
    """The members answer all rows again here, and a general solver mixes them."""
    X, y, _, w = table(1, n=500)
    clf = td.AdaLPBoostClassifier(
        TREES, n_estimators=4, alpha=0.6, validation="train", n_iter_no_change=None, random_state=0
    ).fit(*blocks(4, X, y, w), client=client)
    losses = np.array([member.predict(X) != y for member in clf.estimators_])
    p, (T, n) = w / w.sum(), losses.shape
    # min η + Σ p_i z_i / α  s.t.  z_i ≥ Σ λ_t ℓ_i^t − η, z ≥ 0, λ on the simplex
    best = linprog(
        np.r_[np.zeros(T), 1.0, p / 0.6],
        A_ub=np.hstack([losses.T, -np.ones((n, 1)), -np.eye(n)]),
        b_ub=np.zeros(n),
        A_eq=np.r_[np.ones(T), np.zeros(n + 1)][None],
        b_eq=[1.0],
        bounds=[(0, None)] * T + [(None, None)] + [(0, None)] * n,
    )
    own = tb.metrics.cvar(clf.estimator_weights_ @ losses, 0.6, w)
    assert own == pytest.approx(best.fun, abs=1e-9)


def test_the_same_game_as_on_one_machine(client):
    """On the training losses nothing depends on folds: members, weights of the player and λ are the same."""
    X, y, _, w = table(2)
    args = {"n_estimators": 3, "alpha": 0.5, "validation": "train", "n_iter_no_change": None}
    one = tb.AdaLPBoostClassifier(TREES, random_state=0, **args).fit(X, y, w)
    many = td.AdaLPBoostClassifier(TREES, random_state=0, **args).fit(*blocks(4, X, y, w), client=client)
    np.testing.assert_allclose(many.trace_.weighted_loss, one.trace_.weighted_loss, atol=1e-9)
    np.testing.assert_allclose(many.trace_.effective_size, one.trace_.effective_size, atol=1e-9)
    np.testing.assert_allclose(many.trace_.value, one.trace_.value, atol=1e-9)
    np.testing.assert_allclose(many.estimator_weights_, one.estimator_weights_, atol=1e-9)
    np.testing.assert_array_equal(many.predict(X), one.predict(X))


def test_the_result_is_an_ordinary_classifier(client, tmp_path):
    X, y, groups, _ = table(3)
    Xd, yd, gd = blocks(3, X, y, groups)
    clf = td.GroupDROBoostClassifier(TREES, n_estimators=3, random_state=0).fit(
        Xd, yd, groups=gd, client=client
    )
    local = clf.to_local()
    assert type(local) is tb.GroupDROBoostClassifier
    lines = local.guarantee_.units.lines
    assert {line.name: line.rows for line in lines} == {g: int((groups == g).sum()) for g in "abc"}
    by_hand = local.reweight(alpha=0.3)
    assert by_hand.estimator_weights_.sum() == pytest.approx(1.0)
    assert local.seen_share(X) == 1.0
    tb.save_model(local, tmp_path / "m.skops")
    again = tb.load_model(tmp_path / "m.skops")
    np.testing.assert_array_equal(again.predict(X), local.predict(X))
    np.testing.assert_allclose(again.tradeoff().worst, local.tradeoff().worst)


# -- judging -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    X, y, _, _ = table(4, n=600)
    return tb.AdaLPBoostClassifier(TREES, n_estimators=3, alpha=0.6, random_state=0).fit(X, y)


@pytest.mark.parametrize("parts", [1, 7])
def test_certify_says_what_it_says_of_the_same_rows_in_memory(model, parts):
    X, y, groups, _ = table(5, n=700)
    options = {"alphas": [0.3], "shifts": [0.1], "max_error": {"a": 0.6, "b": 0.7, None: 0.9}}
    here = tb.certify(model, X, y, groups=groups, **options)
    Xd, yd, gd = blocks(parts, X, y, groups)
    there = td.certify(model, Xd, yd, groups=gd, **options)
    assert [b.name for b in there.bounds] == [b.name for b in here.bounds]
    for a, b in zip(there.bounds, here.bounds, strict=True):
        assert (a.n, a.target, a.certified) == (b.n, b.target, b.certified)
        assert (a.estimate, a.upper) == (
            pytest.approx(b.estimate, abs=1e-12),
            pytest.approx(b.upper, abs=1e-12),
        )
    assert there.rows.kept.tolist() == here.rows.kept.tolist()


def test_certify_knows_rows_that_were_fitted_on(model):
    X, y, _, _ = table(4, n=600)
    with pytest.raises(tb.SeenRowsError, match="members were fitted on 100% of these rows"):
        td.certify(model, *blocks(5, X, y))


def test_metrics_are_those_of_one_machine(model):
    X, y, groups, w = table(6)
    P, k = model.predict_proba(X), model.predict(X)
    yd, gd, wd, Pd, kd = blocks(7, y, groups, w, P, k)
    for name, args, lazy in (
        ("class_errors", (y, k), (yd, kd)),
        ("worst_class_error", (y, k), (yd, kd)),
        ("expected_class_errors", (y, P), (yd, Pd)),
        ("group_errors", (y, k, groups), (yd, kd, gd)),
        ("worst_group_error", (y, k, groups), (yd, kd, gd)),
        ("expected_group_errors", (y, P, groups), (yd, Pd, gd)),
        ("cvar_zero_one_loss", (y, P, 0.2), (yd, Pd, 0.2)),
    ):
        here, there = getattr(tb.metrics, name), getattr(td.metrics, name)
        assert there(*lazy) == pytest.approx(here(*args), abs=1e-12), name
        assert there(*lazy, sample_weight=wd) == pytest.approx(here(*args, sample_weight=w), abs=1e-12), name
