"""Identities: weight is repetition, weight 0 is absence, order and duplicates mean nothing."""

import io
import json
import re
from functools import cache

import numpy as np
import pandas as pd
import pytest
from conftest import MIXTURES, VALIDATED, make
from sklearn.tree import DecisionTreeClassifier

from tailboost.boosting.learner import open_learner, round_significant
from tailboost.learners import HistBoostClassifier, HistTreeClassifier
from tailboost.learners.foreign import open_session
from tailboost.learners.table import Ranked
from tailboost.rows.fingerprints import hash_rounded_rows, hash_rows, stratified_places
from tailboost.rows.rows import TrainingSet, folds, held_out
from tailboost.rows.seen import Seen

ROUNDS = 6
SETS = 60
FEW = 2
LEARNERS = {
    "hist": HistTreeClassifier(max_depth=3),
    "boost": HistBoostClassifier(n_estimators=5, max_depth=3),
    "tree": DecisionTreeClassifier(max_depth=3),
}
SCHEMES = ("train", 0.3, 5, "explicit")
CASES = [
    (name, scheme, learner)
    for name in MIXTURES
    for scheme in (SCHEMES if name in VALIDATED else ("train",))
    for learner in LEARNERS
]


@cache
def table(seed):
    """Return X, y, whole weights from 0 to 3: continuous columns, or a grid with many equal rows."""
    rng = np.random.default_rng(seed)
    n, d, K = int(rng.integers(60, 160)), int(rng.integers(2, 6)), int(rng.integers(2, 4))
    X = rng.normal(size=(n, d)) if seed % 2 else rng.integers(0, 6, (n, d)).astype(float)
    y = (X @ rng.normal(size=(d, K)) + 1.5 * rng.gumbel(size=(n, K))).argmax(axis=1)
    return X, y, rng.integers(0, 4, n)


def weighted_and_repeated(name, scheme, learner, seed):
    """Fit with weights and to the repeated, shuffled rows; return both fits and the rows for the comparison.

    None if both fits are refused: a class of two distinct rows may have none in a held-out third.
    """
    X, y, weight = table(seed)
    rng = np.random.default_rng(seed)
    repeated = rng.permutation(np.repeat(np.arange(len(y)), weight))
    params = {
        "n_estimators": ROUNDS, "alpha": 0.3, "random_state": seed, "n_iter_no_change": None,
        "cv": "auto" if scheme == "explicit" else scheme,
    }  # fmt: skip
    given, again = {}, {}
    if scheme == "explicit":
        # Rows near those of the training set, with their labels; the first ones bring every class.
        near = rng.choice(np.flatnonzero(weight), 50)
        present = np.unique(y[weight > 0])
        near[: len(present)] = [np.flatnonzero((y == k) & (weight > 0))[0] for k in present]
        X_val, y_val = X[near] + rng.normal(scale=0.5, size=X[near].shape), y[near]
        weight_val = np.append(np.ones(len(present), dtype=int), rng.integers(0, 4, 50 - len(present)))
        twice = rng.permutation(np.repeat(np.arange(len(y_val)), weight_val))
        given = {"X_val": X_val, "y_val": y_val, "sample_weight_val": weight_val}
        again = {"X_val": X_val[twice], "y_val": y_val[twice]}
    one, two = (make(name, LEARNERS[learner], **params) for _ in range(2))
    try:
        one.fit(X, y, sample_weight=weight, **given)
    except ValueError as refusal:
        if "no validation row in group" not in str(refusal):
            raise
        with pytest.raises(ValueError, match=re.escape(str(refusal))):
            two.fit(X[repeated], y[repeated], **again)
        return None
    two.fit(X[repeated], y[repeated], **again)
    return one, two, X


def differences(one, two, X):
    """Return the differences between two fits in words, with the first round of different hypotheses."""
    P, Q = one.predict_proba(X), two.predict_proba(X)
    found = []
    if not np.array_equal(one.predict(X), two.predict(X)):
        found.append("labels")
    if not np.allclose(one.estimator_weights_, two.estimator_weights_, rtol=0, atol=1e-6):
        found.append("λ")
    if not np.allclose(P, Q, rtol=0, atol=1e-5):
        found.append("probabilities")
    if found:
        members = zip(one.estimators_, two.estimators_, strict=True)
        first = [t for t, (a, b) in enumerate(members) if not np.array_equal(a.predict(X), b.predict(X))]
        found.append(f"first differing hypothesis {first[:1]}")
    return found


def equal_gains(one, two):
    """Return True if the first different split of two ensembles of boosted trees is a tie, to float32.

    XGBoost stores the product of weight and gradient in float32, so a row of weight 3 and three rows differ
    in the last bit. If two splits have the same gain, this bit decides.
    """
    for a, b in zip(one.estimators_[: one.n_iter_], two.estimators_, strict=False):
        pair = [getattr(m, "table_", m).models[0] if isinstance(m, Ranked) else m for m in (a, b)]
        models = [
            json.loads(m.booster_.save_raw("json"))["learner"]["gradient_booster"]["model"] for m in pair
        ]
        for u, v in zip(*(model["trees"] for model in models), strict=False):  # grown to different sizes
            nodes = [
                list(zip(t["left_children"], t["split_indices"], t["split_conditions"], strict=True))
                for t in (u, v)
            ]
            for node, (x, y) in enumerate(zip(*nodes, strict=False)):
                if x != y and x[0] >= 0:
                    gain, other = u["loss_changes"][node], v["loss_changes"][node]
                    return abs(gain - other) <= 1e-5 * gain
    return False


# Boosted trees sum in float32, and the last bit of a sum decides between splits of equal gain. In models of
# folds, and between rounds of equal value, such ties cannot be seen: so many of the sets may differ. Weights
# from the linear program with cv=5 multiply them.
HIDDEN_TIES = {("lpboost", 5): 18, ("regularizedlpboost", 5): 18}
OTHERWISE = 4
TIES = {
    ("lpboost", 5): {1},
    ("regularizedlpboost", 5): {1},
    ("regularizedlpboost", "explicit"): {1},
}  # among the first sets


@pytest.mark.parametrize(("name", "scheme", "learner"), CASES)
def test_weight_is_repetition(name, scheme, learner):
    for seed in range(FEW):
        fits = weighted_and_repeated(name, scheme, learner, seed)
        found = fits and differences(*fits)
        tie = learner == "boost" and seed in TIES.get((name, scheme), set())
        assert not found or tie or (learner == "boost" and equal_gains(*fits[:2])), f"data set {seed}"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "scheme", "learner"), CASES)
def test_weight_is_repetition_on_sixty_sets(name, scheme, learner):
    misses = {}
    for seed in range(SETS):
        fits = weighted_and_repeated(name, scheme, learner, seed)
        found = fits and differences(*fits)
        if found and not (learner == "boost" and equal_gains(*fits[:2])):
            misses[seed] = found
    most = HIDDEN_TIES.get((name, scheme), OTHERWISE) if learner == "boost" else 0
    assert len(misses) <= most, f"{SETS - len(misses)} of {SETS} equal; {misses}"


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(
    ("name", "scheme"), [(n, s) for n in MIXTURES for s in (SCHEMES[:3] if n in VALIDATED else ("train",))]
)
def test_weight_zero_is_absence(name, scheme, learner):
    """To the last bit: rows without weight are dropped first."""
    X, y, weight = table(7)
    params = {"n_estimators": 4, "alpha": 0.3, "random_state": 0, "cv": scheme}
    one = make(name, LEARNERS[learner], **params).fit(X, y, sample_weight=weight)
    kept = weight > 0
    two = make(name, LEARNERS[learner], **params).fit(X[kept], y[kept], sample_weight=weight[kept])
    np.testing.assert_array_equal(one.estimator_weights_, two.estimator_weights_)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(
    ("name", "scheme"), [(n, s) for n in MIXTURES for s in (SCHEMES[:3] if n in VALIDATED else ("train",))]
)
def test_order_of_rows_means_nothing(name, scheme, learner):
    X, y, weight = table(12)
    order = np.random.default_rng(0).permutation(len(y))
    params = {
        "n_estimators": 5,
        "alpha": 0.3,
        "random_state": 0,
        "cv": scheme,
        "n_iter_no_change": None,
    }
    one = make(name, LEARNERS[learner], **params).fit(X, y, sample_weight=weight)
    two = make(name, LEARNERS[learner], **params).fit(X[order], y[order], sample_weight=weight[order])
    np.testing.assert_allclose(one.estimator_weights_, two.estimator_weights_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), rtol=0, atol=1e-5)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


@pytest.mark.parametrize("scheme", [0.3, 5])
def test_equal_rows_never_stand_on_both_sides(scheme):
    X, y, _ = table(4)  # a grid: many rows are equal, with different labels too
    twice = np.concatenate([np.arange(len(y)), np.arange(len(y))])
    X, y, weight, K = X[twice], y[twice], np.ones(len(twice)), len(np.unique(y))
    session = open_session(LEARNERS["tree"], X, y, K, weight, {})
    problem = TrainingSet(X, y, weight, None, K, np.arange(len(y)), len(y), None)
    drawn = open_learner(session, problem, scheme, seed=3, refit=True, n_jobs=None)
    side = drawn.fold if scheme == 5 else drawn.held
    rows = pd.DataFrame(X).assign(side=side)
    assert rows.groupby(list(range(X.shape[1]))).side.nunique().max() == 1
    assert len(np.unique(side)) == (5 if scheme == 5 else 2)


def test_one_label_per_content_is_never_seen_out_of_fold():
    """Random labels: out of fold, a memorising tree predicts none of them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = rng.integers(0, 2, 120)
    many = np.repeat(np.arange(120), 5)
    clf = make("adalpboost", DecisionTreeClassifier(), n_estimators=1, cv=5, random_state=0)
    clf.fit(X[many], y[many])
    assert clf.trace_.weighted_loss[0] > 0.3  # 0 if copies of a row were in both the fit and the fold


@pytest.mark.parametrize("K", [2, 5])
@pytest.mark.parametrize("fraction", [0.1, 0.2, 0.3, 0.5])
def test_draws_are_stratified(K, fraction):
    rng = np.random.default_rng(K)
    y = np.sort(rng.choice(K, 400, p=rng.dirichlet(np.full(K, 3.0))))
    places = stratified_places(hash_rows(rng.normal(size=(400, 2))), y, np.ones(400))
    held, fold = held_out(places, fraction), folds(places, 5)
    assert held.sum() == pytest.approx(400 * fraction, abs=1)
    for k in range(K):
        n = np.sum(y == k)
        assert np.sum(held & (y == k)) == pytest.approx(n * fraction, abs=1)
        counts = np.bincount(fold[y == k], minlength=5)
        assert np.ptp(counts) <= 1


def test_another_seed_draws_another_split():
    X = np.random.default_rng(0).normal(size=(200, 2))
    y, weight = np.arange(200) % 2, np.ones(200)
    one, same, other = (stratified_places(hash_rows(X, seed=s), y, weight) % 5 for s in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert np.mean(one != other) > 0.5


def test_scaling_of_weights():
    """A common factor of the weights only affects learners with absolute penalties.

    Trees without absolute regularisation, folds, η, λ and every guarantee stay the same; learners with
    absolute penalties (`min_child_weight`, `l2_regularization`) take weights for numbers of rows.
    """
    X, y, _ = table(9)
    params = {"n_estimators": 5, "cv": 5, "random_state": 0, "n_iter_no_change": None}
    for factor in (4.0, 0.25, 1e6, 1e-6):
        for learner in ("tree", "hist"):
            one = make("adalpboost", LEARNERS[learner], **params).fit(X, y)
            two = make("adalpboost", LEARNERS[learner], **params).fit(
                X, y, sample_weight=np.full(len(y), factor)
            )
            np.testing.assert_array_equal(one.predict(X), two.predict(X))
            np.testing.assert_allclose(one.estimator_weights_, two.estimator_weights_, rtol=0, atol=1e-6)
    eta = [
        make("adalpboost", LEARNERS["tree"], eta="theory", n_estimators=2, cv="train")
        .fit(X, y, sample_weight=np.full(len(y), factor))
        .game_.player.eta
        for factor in (1.0, 4.0, 0.01)
    ]
    assert eta == [pytest.approx(np.sqrt(8 * np.log(len(y)) / 2), rel=1e-15)] * 3
    light = HistBoostClassifier(n_estimators=2).fit(X, y, sample_weight=np.full(len(y), 1e-3))
    assert len(np.unique(light.predict(X))) == 1  # all rows together weigh less than min_child_weight


def test_hashes_are_about_content():
    X = np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0], [np.nan, 2.0], [-np.nan, 2.0]])
    h = hash_rows(X)
    assert h[0] == h[1]
    assert h[3] == h[4]
    assert len(set(h.tolist())) == 3
    frame = pd.DataFrame(X)
    np.testing.assert_array_equal(h, hash_rows(frame))
    np.testing.assert_array_equal(hash_rows(X[::-1]), h[::-1])


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_hashes_of_sparse_rows_are_those_of_dense_rows(kind):
    import scipy.sparse as sp

    X = np.random.default_rng(0).integers(0, 3, (50, 6)).astype(float)
    np.testing.assert_array_equal(hash_rows(getattr(sp, f"{kind}_matrix")(X)), hash_rows(X))


def test_hashes_of_text_and_categories():
    values = ["a", "b", None, "a", "b"]
    for column in (pd.Series(values, dtype=object), pd.Series(values, dtype="category"), pd.Series(values)):
        h = hash_rows(pd.DataFrame({"t": column, "x": [1, 2, 3, 1, 9]}))
        assert h[0] == h[3]
        assert len(set(h.tolist())) == 4
    h = hash_rows(np.array([["a", 1], ["b", 1], ["a", 1]], dtype=object))
    assert h[0] == h[2] != h[1]


def test_hashes_of_many_texts_differ():
    numbers = np.random.default_rng(0).integers(0, 2**62, 200_000)
    words = np.array([f"client {number}" for number in numbers], dtype=object)[:, None]
    assert len(np.unique(hash_rows(words))) == len(words)
    assert len(np.unique(hash_rows(words.astype(str)))) == len(words)


def test_weights_are_rounded_to_sixteen_bits():
    rng = np.random.default_rng(0)
    u = 10 ** rng.uniform(-6, 6, 10_000)
    rounded = round_significant(u)
    assert np.max(np.abs(rounded / u - 1)) <= 2.0**-16
    np.testing.assert_array_equal(round_significant(rounded), rounded)
    np.testing.assert_array_equal(round_significant(np.array([1.0, 0.5, 3.0, 0.0])), [1.0, 0.5, 3.0, 0.0])
    # Powers of two apart, nothing depends on the scale.
    np.testing.assert_array_equal(round_significant(4 * u), 4 * rounded)


# -- rows known again --------------------------------------------------------------------------------------


def known_share(rows, changed):
    return Seen.of(hash_rounded_rows(changed)).share_in(Seen.of(hash_rounded_rows(rows)))


@pytest.mark.parametrize("d", [1, 2, 5, 20, 60, 300])
def test_rows_are_known_after_what_files_and_types_do_to_numbers(d):
    rng = np.random.default_rng(d)
    X = rng.normal(size=(1000, d))
    X[::7, 0] = 0.0 if d > 1 else 1.0
    X[3, -1] = np.nan
    assert known_share(X, X.astype(np.float32)) == 1.0
    assert known_share(X, np.where(X == 0, -0.0, X)) == 1.0
    text = pd.DataFrame(X).to_csv(index=False, float_format="%.6g")
    for changed in (X.round(6), pd.read_csv(io.StringIO(text))):
        assert d > 20 or known_share(X, changed) > 0.2  # one in twenty is refused
    fresh = rng.normal(size=(1000, d))
    assert known_share(X, fresh) < 0.01


@pytest.mark.parametrize("scale", [1e-20, 1e-6, 1.0, 1e6, 1e30])
def test_fresh_rows_of_any_scale_are_not_known(scale):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3)) * scale
    assert known_share(X[:1000], X[1000:]) < 0.01
    assert known_share(X, X.astype(np.float32)) == 1.0
    X[:, 0] = 1.7e18  # dates in nanoseconds do not hide the rest
    assert scale < 1e-10 or known_share(X[:1000], X[1000:]) < 0.05


def test_rows_are_known_whatever_holds_their_values():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"]).assign(
        i=np.arange(300) % 7, yes=np.arange(300) % 2 == 0, t=np.where(np.arange(300) % 3, "x", "yy")
    )
    expected = hash_rounded_rows(frame)
    for changed in (
        frame.astype(object),
        frame.to_numpy(dtype=object),
        frame.assign(i=frame.i.astype(str), yes=frame.yes.astype(int)),
        frame.assign(i=frame.i.astype("Int64"), yes=frame.yes.astype(object), t=frame.t.astype("category")),
        frame.assign(i=frame.i.astype("category"), a=frame.a.astype(np.float32), t=frame.t.astype("string")),
        frame.assign(i=frame.i.astype(float), b=frame.b.astype(object)),
    ):
        np.testing.assert_array_equal(hash_rounded_rows(changed), expected)
    missing = [None, np.nan, pd.NA, float("nan")]
    assert len(set(hash_rounded_rows(np.array([missing], dtype=object).T).tolist())) == 1
    other = frame.assign(t=np.where(np.arange(300) % 3, "x", "y"))
    assert (hash_rounded_rows(other) == expected).mean() == pytest.approx(2 / 3)
    pixels = rng.integers(0, 256, (20, 6, 6, 3), dtype=np.uint8)
    np.testing.assert_array_equal(hash_rounded_rows(pixels), hash_rounded_rows(pixels.astype(np.float32)))


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_sparse_rows_are_known_as_dense_ones(kind):
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 30)) * (rng.random((60, 30)) < 0.2)
    X[3, 4] = np.nan
    sparse = getattr(sp, f"{kind}_matrix")(X)
    np.testing.assert_array_equal(hash_rounded_rows(sparse), hash_rounded_rows(X))
    twice = sp.csr_matrix((np.r_[1.0, 2.0, 5.0], np.r_[1, 1, 0], np.r_[0, 2, 3]), shape=(2, 3))
    before = twice.data.copy()
    for hashed in (hash_rows, hash_rounded_rows):
        np.testing.assert_array_equal(hashed(twice), hashed(twice.toarray()))
    np.testing.assert_array_equal(twice.data, before)  # the caller's matrix does not change


def test_folds_are_still_drawn_by_the_very_numbers():
    X = np.random.default_rng(0).normal(size=(50, 3))
    assert (hash_rows(X) != hash_rows(X + 1e-12)).all()
