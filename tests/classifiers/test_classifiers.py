"""Contracts of our classifiers, stricter than scikit-learn's checks."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from conftest import IMPLEMENTATIONS, MIXTURES, OURS, VALIDATED, having, make, noisy
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost import FitInterruptedWarning
from tailboost.boosting.subgroups import SHRINKAGE
from tailboost.learners import HistBoostClassifier, HistTreeClassifier
from tailboost.rates.metrics import cvar_zero_one_loss, group_errors, make_cvar_scorer
from tailboost.rows.judged import label_shares
from tailboost.solvers import minimize_cvar_mixture

TREE = DecisionTreeClassifier(max_depth=2)
LEARNERS = {
    "tree": TREE,
    "hist": HistTreeClassifier(max_depth=2),
    "boost": HistBoostClassifier(n_estimators=3, max_depth=2),
}
SCHEMES = ("train", 0.3, 5)
CASES = [(n, s) for n in MIXTURES for s in (SCHEMES if n in VALIDATED else ("train",))]


def same(one, two, X):
    """Assert equality of two fits to the last bit."""
    assert one.n_iter_ == two.n_iter_
    np.testing.assert_array_equal(one.estimator_weights_, two.estimator_weights_)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    np.testing.assert_array_equal(one.trace_.weighted_loss, two.trace_.weighted_loss)
    np.testing.assert_array_equal(one.trace_.value, two.trace_.value)


# -- predictions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("name", having("estimator", OURS))
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.thinned(1)
def test_predictions(name, learner, K):
    X, y = noisy(K, n=80, K=K)
    labels = np.array(["no", "perhaps", "yes"])[y]
    # α = .1 is below the error: many probabilities are tied, above all of the random guess
    for alpha in (0.1, 0.6):
        clf = make(name, LEARNERS[learner], n_estimators=5, alpha=alpha, random_state=0).fit(X, labels)
        fresh = np.random.default_rng(0).normal(size=(60, 4))
        for ask in (clf.predict_proba, clf.predict_distribution):
            P = ask(fresh)
            assert P.min() >= 0
            np.testing.assert_allclose(P.sum(axis=1), 1, rtol=0, atol=1e-9)
            np.testing.assert_array_equal(np.vstack([ask(row[None]) for row in fresh]), P)
            np.testing.assert_array_equal(ask(fresh[::-1])[::-1], P)
        np.testing.assert_array_equal(clf.predict(fresh), clf.classes_[P.argmax(axis=1)])
        additive = not hasattr(clf, "reweight")
        if additive:
            P = clf.predict_proba(fresh)
        stages = list(clf.staged_predict_proba(fresh) if additive else clf.staged_predict_distribution(fresh))
        assert len(stages) == clf.n_iter_
        np.testing.assert_array_equal(stages[-1], P)
        np.testing.assert_array_equal(list(clf.staged_predict(fresh))[-1], clf.predict(fresh))


@pytest.mark.parametrize("name", MIXTURES)
def test_shares_are_those_of_the_members(name):
    X, y = noisy(3, n=80, K=3)
    clf = make(name, TREE, n_estimators=4, alpha=0.6, random_state=0).fit(X, y + 5)
    shares = sum(
        w * np.eye(3)[m.predict(X)] for w, m in zip(clf.estimator_weights_, clf.estimators_, strict=True)
    )
    np.testing.assert_allclose(clf.predict_distribution(X), shares, rtol=0, atol=1e-12)
    assert clf.estimator_weights_.sum() == pytest.approx(1, abs=1e-12)
    assert set(clf.predict(X)) <= {5, 6, 7}


@pytest.mark.parametrize("name", MIXTURES)
@pytest.mark.parametrize("alpha", [0.1, 0.6])
def test_probabilities_are_those_of_the_members_without_constants(name, alpha):
    X, y = noisy(3, n=80, K=3)
    clf = make(name, TREE, n_estimators=4, alpha=alpha, random_state=0).fit(X, y + 5)
    informed = [not isinstance(m, DummyClassifier) for m in clf.estimators_]
    share = clf.estimator_weights_ * informed
    if not share.any():  # a coin flip says nothing of a row, but the members do
        share = np.array(informed, dtype=float)
    P = sum(
        w * m.predict_proba(X)
        for w, m, known in zip(share / share.sum(), clf.estimators_, informed, strict=True)
        if known
    )
    np.testing.assert_allclose(clf.predict_proba(X), P, rtol=0, atol=1e-9)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(clf.predict_log_proba(X), np.log(clf.predict_proba(X)))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", VALIDATED)
def test_stages_solve_anew_on_each_prefix(name):
    """The stage after t rounds is the fit with n_estimators = t."""
    X, y = noisy(4, n=90)
    params = {"alpha": 0.4, "random_state": 0, "n_iter_no_change": None, "cv": 5}
    clf = make(name, TREE, n_estimators=4, **params).fit(X, y)
    for t, stage in enumerate(clf.staged_predict_distribution(X), start=1):
        np.testing.assert_array_equal(
            stage, make(name, TREE, n_estimators=t, **params).fit(X, y).predict_distribution(X)
        )


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.thinned(5)
def test_a_coin_flip_is_settled_by_the_best_member(learner, seed):
    """Binary, noisy, α = .1: λ tosses a coin, and predict still answers as the member of least mean loss."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] + 0.8 * rng.normal(size=300) > 0).astype(int)
    clf = make("adalpboost", LEARNERS[learner], n_estimators=5, alpha=0.1, random_state=seed).fit(X, y)
    assert clf.summary_.achieved >= clf.summary_.random_guess_value - 1e-7
    np.testing.assert_allclose(clf.predict_distribution(X), 0.5, atol=1e-9)
    best = clf.estimators_[clf.selection_.pool.by_mean_loss[0]]
    np.testing.assert_array_equal(clf.predict(X), best.predict(X))
    assert len(np.unique(clf.predict(X))) == 2
    assert clf.score(X, y) > 0.7


def test_the_summary_says_that_plain_error_minimisation_has_all_weight():
    X, y = noisy(300)
    whole = tb.published.adalpboost(DecisionTreeClassifier(random_state=0), alpha=0.2, T=3).fit(X, y)
    assert whole.summary_.single == "plain ERM"
    alone = "plain ERM has all weight, so the rule is this candidate alone."
    assert alone in str(whole.summary_)
    mixed = tb.published.adalpboost(DecisionTreeClassifier(max_depth=1), alpha=0.2, T=5).fit(X, y)
    assert mixed.summary_.single is None


def test_the_table_of_errors_counts_different_rows_and_explains_the_number_of_weighted_ones():
    """Rows that occur twice are no more rows, so the column is not the number of rows of the table."""
    X, y = noisy(300)
    clf = tb.AdaLPBoostClassifier(TREE, cv="train", random_state=0).fit(np.r_[X, X], np.r_[y, y])
    _, line = str(clf.summary_).splitlines()[1:3]
    assert int(line.split()[1]) == np.count_nonzero(y == clf.classes_[0])
    w = np.linspace(1, 3, len(y))
    clf = tb.AdaLPBoostClassifier(TREE, cv="train", random_state=0).fit(X, y, sample_weight=w)
    _heading, line = str(clf.summary_).splitlines()[1:3]
    of_first = w[y == clf.classes_[0]]
    assert int(line.split()[1]) == round(of_first.sum() ** 2 / (of_first**2).sum())


def test_the_table_of_errors_says_that_copies_of_a_row_share_a_weight():
    """Copies of some rows are weights, though none were given."""
    X, y = noisy(300)
    copies = np.arange(len(y)) < 100
    clf = tb.AdaLPBoostClassifier(TREE, cv="train", random_state=0).fit(
        np.r_[X, X[copies]], np.r_[y, y[copies]]
    )
    _caption, _heading, line = str(clf.summary_).splitlines()[:3]
    w = 1.0 + copies[y == clf.classes_[0]]
    assert int(line.split()[1]) == round(w.sum() ** 2 / (w**2).sum())


def test_draws_follow_the_shares_and_are_reproducible():
    X, y = noisy(5, n=100, K=3)
    clf = make("averageboost", TREE, n_estimators=4).fit(X, np.array(["a", "b", "c"])[y])
    row = np.repeat(X[:1], 20_000, axis=0)
    drawn = clf.predict_randomized(row, random_state=0)
    share = clf.predict_distribution(X[:1])[0]
    seen = np.array([np.mean(drawn == label) for label in clf.classes_])
    np.testing.assert_allclose(seen, share, atol=4 * np.sqrt(0.25 / 20_000))
    np.testing.assert_array_equal(drawn, clf.predict_randomized(row, random_state=0))
    np.testing.assert_array_equal(drawn, clf.predict_randomized(row, random_state=np.random.RandomState(0)))
    assert np.any(drawn != clf.predict_randomized(row, random_state=1))
    certain = share == 0
    assert not np.isin(drawn, clf.classes_[certain]).any()


# -- labels and tables ---------------------------------------------------------------------------------


@pytest.mark.thinned(17)
@pytest.mark.parametrize("name", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "yes"]),
        np.array(["no", "yes"], dtype=object),
        np.array([False, True]),
        np.array([-7, -2]),
        np.array([0.0, 3.0]),
        pd.Series(["x", "y"], dtype="category").array,
        np.array([10, 3], dtype=np.uint8),
    ],
    ids=["text", "object", "bool", "negative", "float", "category", "uint8"],
)
def test_labels_of_any_type(name, labels):
    X, y = noisy(6, n=60)
    plain = make(name, TREE, n_estimators=2, random_state=0).fit(X, y)
    clf = make(name, TREE, n_estimators=2, random_state=0).fit(X, labels[y])
    np.testing.assert_array_equal(clf.classes_, np.unique(labels))
    assert set(clf.predict(X)) <= set(labels)
    assert clf.predict(X).dtype == clf.classes_.dtype
    if labels[0] < labels[1]:  # the same order of the classes: the same fit
        np.testing.assert_array_equal(clf.predict(X), np.asarray(labels)[plain.predict(X)])


def mixed_frame(seed, n=120):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "income": rng.normal(size=n),
            "visits": rng.integers(0, 5, n),
            "city": rng.choice(["Bern", "Rome", "Oslo"], n),
            "plan": pd.Categorical(rng.choice(["basic", "plus"], n)),
            "member": rng.random(n) < 0.5,
        }
    )
    frame.loc[::7, "income"] = np.nan
    frame.loc[::9, "city"] = None
    y = (frame.income.fillna(0) + (frame.city == "Rome") + rng.normal(size=n) > 0.3).astype(int)
    return frame, y.to_numpy()


@pytest.mark.thinned(5)
@pytest.mark.parametrize("name", having("estimator", OURS))
@pytest.mark.parametrize("K", [2, 3])
def test_frames_with_categories_and_missing_values(name, K):
    frame, y = mixed_frame(0)
    y = y + (np.arange(len(y)) % 3 == 0) if K == 3 else y
    clf = make(name, HistBoostClassifier(n_estimators=5, max_depth=3), n_estimators=3, random_state=0).fit(
        frame, y
    )
    assert list(clf.feature_names_in_) == list(frame.columns)
    P = clf.predict_distribution(frame)
    assert np.isfinite(P).all()
    one_by_one = np.vstack([clf.predict_distribution(frame.iloc[[i]]) for i in range(20)])
    np.testing.assert_array_equal(one_by_one, P[:20])
    # A category not seen in fit is a missing value; a column of none but such is refused.
    some = np.arange(len(frame)) % 2 == 0
    odd, gone = (frame.assign(city=frame["city"].astype(object).where(some, c)) for c in ("Atlantis", None))
    np.testing.assert_array_equal(clf.predict_distribution(odd), clf.predict_distribution(gone))


@pytest.mark.thinned(1)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_pipeline_with_columns_as_learner(scheme):
    frame, y = mixed_frame(1)
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["income", "visits"]),
        (OneHotEncoder(handle_unknown="ignore"), ["city", "plan"]),
    )
    learner = make_pipeline(columns, LogisticRegression())
    clf = make("adalpboost", learner, n_estimators=3, cv=scheme, random_state=0).fit(frame, y)
    assert clf.score(frame, y) > 0.6
    again = make("adalpboost", learner, n_estimators=3, cv=scheme, random_state=0).fit(frame, y)
    same(clf, again, frame)


def test_a_pipeline_takes_what_its_first_step_takes():
    X, y = noisy(2)
    X[::5, 1] = np.nan
    make("adalpboost", make_pipeline(SimpleImputer(), LogisticRegression()), n_estimators=2).fit(
        X, y
    ).predict(X)
    text = np.array([["red", "big"], ["blue", "small"], ["red", "small"]] * 20, dtype=object)
    clf = make("adalpboost", make_pipeline(OneHotEncoder(), LogisticRegression()), n_estimators=2, cv="train")
    assert clf.fit(text, np.array([0, 1, 1] * 20)).score(text, np.array([0, 1, 1] * 20)) == 1.0


@pytest.mark.thinned(3)
@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_matrix, sp.csr_array])
@pytest.mark.parametrize("learner", ["tree", "boost"])
def test_sparse_tables(kind, learner):
    rng = np.random.default_rng(0)
    X = rng.random((150, 6)) * (rng.random((150, 6)) < 0.5)
    y = (X.sum(axis=1) + 0.3 * rng.normal(size=150) > 1.5).astype(int)
    clf = make("adalpboost", LEARNERS[learner], n_estimators=3, cv=5, random_state=0).fit(kind(X), y)
    P = clf.predict_distribution(kind(X))
    np.testing.assert_array_equal(
        P[::5], np.vstack([clf.predict_distribution(kind(X[i : i + 1])) for i in range(0, 150, 5)])
    )
    # A sparse model gives a dense row with the same entries the same answer.
    np.testing.assert_array_equal(P, clf.predict_distribution(X))
    if learner == "tree":
        dense = make("adalpboost", TREE, n_estimators=3, cv=5, random_state=0).fit(X, y)
        np.testing.assert_array_equal(dense.predict(X), clf.predict(X))


# -- scikit-learn --------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("name", OURS)
@pytest.mark.thinned(11)
def test_copies(name, learner):
    X, y = noisy(7)
    clf = make(name, LEARNERS[learner], n_estimators=3, random_state=0)
    params = clf.get_params()
    assert clone(clf).get_params().keys() == params.keys()
    clf.fit(X, y)
    assert clf.get_params() == params  # a fit changes no parameter
    for other in (copy.deepcopy(clf), pickle.loads(pickle.dumps(clf))):
        same(clf, other, X)
        if name in VALIDATED:
            np.testing.assert_array_equal(
                other.reweight(alpha=0.2).estimator_weights_, clf.reweight(alpha=0.2).estimator_weights_
            )
        if name in MIXTURES:
            assert other.summary_.details == clf.summary_.details
    same(clf, clone(clf).fit(X, y), X)


def test_grid_search_over_alpha_and_pipeline():
    X, y = noisy(8, n=150)
    pipeline = make_pipeline(StandardScaler(), make("adalpboost", TREE, n_estimators=3, random_state=0))
    grid = {"adalpboostclassifier__alpha": [0.2, 0.6, 1.0]}
    search = GridSearchCV(pipeline, grid, scoring=make_cvar_scorer(0.6), cv=3, error_score="raise").fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    score = -cvar_zero_one_loss(y, label_shares(search, X), 0.6)
    assert search.score(X, y) == pytest.approx(score, abs=1e-12)


class NoteTaker(ClassifierMixin, BaseEstimator):
    """Learner that records its weights and a note per row."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, y, sample_weight=None, note=None):
        type(self).seen.append((np.array(X[:, 0]), sample_weight, None if note is None else np.array(note)))
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_metadata_is_routed_row_by_row(scheme):
    X, y = noisy(9, n=60)
    note = X[:, 0] * 100  # identifies every row
    weight = np.arange(60) % 3
    NoteTaker.seen = []
    with sklearn.config_context(enable_metadata_routing=True):
        learner = NoteTaker().set_fit_request(sample_weight=True, note=True)
        make("adalpboost", learner, n_estimators=2, cv=scheme).fit(X, y, sample_weight=weight, note=note)
    assert len(NoteTaker.seen) >= 2
    for first_column, weights, notes in NoteTaker.seen:
        np.testing.assert_array_equal(notes, first_column * 100)
        assert len(weights) == len(notes) <= np.sum(weight > 0)


def test_metadata_without_routing_is_refused():
    X, y = noisy(9, n=60)
    with pytest.raises((TypeError, ValueError), match="enable_metadata_routing"):
        make("adalpboost", NoteTaker(), n_estimators=1).fit(X, y, note=np.ones(60))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_pipeline_gets_its_weights(scheme):
    """A pipeline with scaling before a tree is equal to the tree."""
    X, y = noisy(10)
    weight = np.random.default_rng(0).integers(1, 5, len(y))
    params = {"n_estimators": 4, "cv": scheme, "random_state": 0, "n_iter_no_change": None}
    piped = make_pipeline(
        StandardScaler(with_mean=False, with_std=False), DecisionTreeClassifier(max_depth=2)
    )
    one = make("lpboost", piped, alpha=0.4, **params).fit(X, y, sample_weight=weight)
    two = make("lpboost", TREE, alpha=0.4, **params).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(one.estimator_weights_, two.estimator_weights_)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


@pytest.mark.parametrize(
    "learner", [KNeighborsClassifier(3), make_pipeline(StandardScaler(), KNeighborsClassifier())]
)
def test_a_learner_without_weights_gets_a_seeded_resample(learner):
    X, y = noisy(11)
    params = {"n_estimators": 3, "random_state": 0, "n_iter_no_change": None}
    with pytest.warns(UserWarning, match="sample_weight") as given:
        one = make("adalpboost", learner, **params).fit(X, y)
    assert {warning.filename for warning in given if "sample_weight" in str(warning.message)} == {__file__}
    with pytest.warns(UserWarning, match="sample_weight"):
        two = make("adalpboost", learner, **params).fit(X, y)
    same(one, two, X)
    with pytest.warns(UserWarning, match="sample_weight"):
        other = make("adalpboost", learner, **(params | {"random_state": 1})).fit(X, y)
    assert np.any(other.trace_.weighted_loss != one.trace_.weighted_loss)


@pytest.mark.parametrize("random_state", [0, None, np.random.RandomState(3)])
def test_random_state(random_state):
    X, y = noisy(12)
    fits = [make("adalpboost", TREE, n_estimators=2, random_state=random_state).fit(X, y) for _ in range(2)]
    if random_state == 0:
        same(*fits, X)
    else:  # None draws anew, a RandomState goes on
        assert fits[0].estimators_[0].random_state != fits[1].estimators_[0].random_state
    if isinstance(random_state, np.random.RandomState):
        a, b = (
            make("adalpboost", TREE, n_estimators=2, random_state=np.random.RandomState(5)).fit(X, y)
            for _ in range(2)
        )
        same(a, b, X)


# -- limits, interrupts -------------------------------------------------------------------------------


def test_verbose_prints_a_line_a_round(capsys):
    X, y = noisy(13)
    loud = make("adalpboost", TREE, n_estimators=3, verbose=1, n_iter_no_change=None, random_state=0).fit(
        X, y
    )
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert "; weighted loss " in lines[0]
    quiet = make("adalpboost", TREE, n_estimators=3, n_iter_no_change=None, random_state=0).fit(X, y)
    assert not capsys.readouterr().out
    np.testing.assert_array_equal(loud.estimator_weights_, quiet.estimator_weights_)


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_max_time_keeps_at_least_one_round(name):
    X, y = noisy(13)
    with pytest.warns(FitInterruptedWarning, match="limit"):
        clf = make(name, TREE, n_estimators=50, max_time=1e-9, n_iter_no_change=None).fit(X, y)
    assert clf.n_iter_ == 1
    assert clf.predict(X).shape == y.shape


@pytest.mark.parametrize("name", having("estimator", IMPLEMENTATIONS))
def test_interrupt_keeps_finished_rounds(name, interrupted):
    X, y = noisy(14)
    params = {"n_estimators": 6, "cv": "train", "random_state": 0, "n_iter_no_change": None}
    at = 4 if name in ("groupdroboost", "worstclassboost", "droboost") else 3  # a fit comes before round 1
    with pytest.warns(FitInterruptedWarning, match="interrupted"):
        clf = make(name, interrupted(at), **params).fit(X, y)
    assert clf.n_iter_ == 2
    assert "interrupted" in clf.trace_.stop_reason
    whole = make(name, TREE, **(params | {"n_estimators": 2})).fit(X, y)
    np.testing.assert_array_equal(clf.predict_distribution(X), whole.predict_distribution(X))
    np.testing.assert_array_equal(clf.estimator_weights_, whole.estimator_weights_)


@pytest.mark.parametrize("name", having("estimator", IMPLEMENTATIONS))
def test_interrupt_in_the_first_round_propagates(name, interrupted):
    X, y = noisy(14)
    clf = make(name, interrupted(1), n_estimators=3, cv="train")
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, y)
    with pytest.raises(NotFittedError):
        clf.predict(X)


# -- early stopping ----------------------------------------------------------------------------------


def test_needless_rounds_are_not_played():
    X, y = noisy(15, n=200)
    params = {"n_estimators": 40, "cv": "train", "random_state": 0}
    clf = make("adalpboost", TREE, n_iter_no_change=3, **params).fit(X, y)
    value = make("adalpboost", TREE, n_iter_no_change=None, verbose=0, **params).fit(X, y)
    assert value.n_iter_ == 40
    assert clf.n_iter_ < 40
    line = f"The fit ended after {clf.n_iter_} rounds: {clf.trace_.stop_reason}."
    for text in (str(clf.summary_), clf.summary_.details):
        assert line in text.splitlines()
    assert value.summary_.early_end == ""
    seen = clf.trace_.value
    assert np.all(np.diff(seen) <= 1e-9)
    assert seen[:-3].min() - seen[-3:].min() <= 1e-3
    easy = np.vstack([np.zeros((20, 2)), np.ones((20, 2))]) + np.random.default_rng(0).normal(0, 0.1, (40, 2))
    perfect = make("adalpboost", TREE, **params).fit(easy, np.repeat([0, 1], 20))
    assert perfect.n_iter_ == 1
    assert "reached 0" in perfect.trace_.stop_reason


# -- weights of classes and outliers -------------------------------------------------------------------


@pytest.mark.thinned(10)
@pytest.mark.parametrize("name", having("outlier_fraction"))
@pytest.mark.parametrize("class_weight", [{0: 2.0, 1: 0.5}, {"0": 3}, "balanced"])
def test_class_weight_is_a_factor_of_the_sample_weight(name, class_weight):
    X, y = noisy(18, n=80)
    weight = np.random.default_rng(0).integers(1, 4, 80).astype(float)
    if class_weight == "balanced":
        total = np.bincount(y, weights=weight)
        factor = (weight.sum() / (2 * total))[y]
    elif "0" in class_weight:
        class_weight, factor = {0: 3}, np.where(y == 0, 3.0, 1.0)  # the others count 1
    else:
        factor = np.where(y == 0, 2.0, 0.5)
    params = {"n_estimators": 3, "random_state": 0, "cv": 5}
    one = make(name, TREE, class_weight=class_weight, **params).fit(X, y, sample_weight=weight)
    two = make(name, TREE, **params).fit(X, y, sample_weight=weight * factor)
    np.testing.assert_allclose(one.estimator_weights_, two.estimator_weights_, atol=1e-9)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


@pytest.mark.parametrize("name", having("outlier_fraction"))
def test_outliers_get_no_weight(name):
    """Rows with noise labels are wrong in every round; with this fraction dropped they have no weight."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = (X[:, 0] > 0).astype(int)
    flipped = np.arange(200) < 20
    y[flipped] ^= 1
    weights = []

    class Spy(DecisionTreeClassifier):
        def fit(self, X, y, sample_weight=None):
            weights.append(sample_weight)
            return super().fit(X, y, sample_weight=sample_weight)

    params = {
        "n_estimators": 5,
        "alpha": 0.3,
        "random_state": 0,
        "cv": "train",
        "n_iter_no_change": None,
    }
    clf = make(name, Spy(max_depth=1), outlier_fraction=0.12, **params).fit(X, y)
    assert weights[0].min() > 0  # nothing is dropped in round 1
    assert all(w[flipped].sum() == 0 for w in weights[1:])
    assert clf.score(X, y) >= 0.88


# -- validation sets, re-weighting ---------------------------------------------------------------------


def losses_of(clf, X, y):
    return np.array([clf.classes_[member.predict(X)] != y for member in clf.estimators_])


@pytest.mark.parametrize("name", having("alpha"))
def test_lambda_is_the_optimum_on_an_explicit_validation_set(name):
    X, y = noisy(19, n=150)
    X_val, y_val, weight = X[100:], y[100:], 1.0 + np.arange(50) % 3
    clf = make(name, TREE, n_estimators=5, alpha=0.4, random_state=0, n_iter_no_change=None)
    clf.fit(X[:100], y[:100], X_val=X_val, y_val=y_val, sample_weight_val=weight)
    best = minimize_cvar_mixture(losses_of(clf, X_val, y_val), 0.4, weight)
    ours = cvar_zero_one_loss(y_val, clf.predict_distribution(X_val), 0.4, sample_weight=weight)
    assert ours == pytest.approx(best.value, abs=1e-8)
    assert clf.summary_.achieved == pytest.approx(best.value, abs=1e-8)
    assert "50 rows of X_val" in clf.summary_.measured_on


def doubted(errors, sizes):
    """Return the errors minimised by λ: each shrunk towards the mean over the subgroups by pseudo-rows."""
    return (sizes * errors + SHRINKAGE * errors.mean(axis=-1, keepdims=True)) / (sizes + SHRINKAGE)


def test_group_lambda_is_the_minimax_of_shrunk_group_errors():
    X, y = noisy(20, n=160)
    groups = np.array(["a", "b", "c"])[np.arange(160) % 3]
    clf = make("groupdroboost", TREE, n_estimators=5, cv="train", random_state=0, n_iter_no_change=None)
    clf.fit(X, y, groups=groups)
    wrong = losses_of(clf, X, y)
    errors = np.array([[w[groups == g].mean() for g in clf.groups_] for w in wrong])
    best = minimize_cvar_mixture(doubted(errors, np.unique(groups, return_counts=True)[1]), 1 / 3)
    per_group = group_errors(y, clf.predict_distribution(X), groups)
    shrunk = doubted(np.array(list(per_group.values())), np.unique(groups, return_counts=True)[1])
    assert shrunk.max() == pytest.approx(best.value, abs=1e-8)
    assert clf.summary_.achieved == pytest.approx(max(per_group.values()), abs=1e-8)
    assert clf.trace_.weights.shape == (5, 3)
    np.testing.assert_allclose(clf.trace_.weights[0], 1 / 3)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", MIXTURES)
def test_reweight_on_the_losses_kept(name):
    X, y = noisy(21, n=120, K=3)
    clf = make(name, TREE, n_estimators=4, random_state=0, cv="train", n_iter_no_change=None).fit(X, y)
    before, P = clf.get_params(), clf.predict_distribution(X)
    wrong = losses_of(clf, X, y)
    alphas = [0.05, 0.3, 0.7, 1.0]
    for alpha, path in zip(alphas, clf.alpha_path(alphas), strict=True):
        tail = clf.reweight(alpha=alpha)
        fresh = minimize_cvar_mixture(wrong, alpha)
        assert tail.summary_.achieved == pytest.approx(fresh.value, abs=1e-8)
        assert cvar_zero_one_loss(y, tail.predict_distribution(X), alpha) == pytest.approx(
            fresh.value, abs=1e-8
        )
        np.testing.assert_allclose(tail.estimator_weights_, fresh.mixture, atol=1e-7)
        np.testing.assert_allclose(path, fresh.mixture, atol=1e-7)
        assert tail.get_params().get("alpha", alpha) == alpha
        assert all(a is b for a, b in zip(tail.estimators_, clf.estimators_, strict=True))
    worst = clf.reweight(objective="worst_class")
    errors = np.array([[w[y == k].mean() for k in range(3)] for w in wrong])
    assert worst.summary_.achieved == pytest.approx(minimize_cvar_mixture(errors, 1 / 3).value, abs=1e-8)
    assert clf.get_params() == before
    np.testing.assert_array_equal(clf.predict_distribution(X), P)


@pytest.mark.parametrize("name", MIXTURES)
def test_reweight_on_given_rows(name):
    X, y = noisy(22, n=120)
    fresh, labels = noisy(23, n=90)
    weight = 1.0 + np.arange(90) % 4
    groups = np.array(["north", "south", "west"])[np.arange(90) % 3]
    clf = make(name, TREE, n_estimators=4, random_state=0).fit(X, y)
    P = clf.predict_distribution(X)
    wrong = losses_of(clf, fresh, labels)
    given = {"sample_weight": weight}
    tail = clf.reweight(fresh, labels, alpha=0.6, **given)
    best = minimize_cvar_mixture(wrong, 0.6, weight).value
    assert cvar_zero_one_loss(
        labels, tail.predict_distribution(fresh), 0.6, sample_weight=weight
    ) == pytest.approx(best)
    mean = [
        [np.average(w[groups == g], weights=weight[groups == g]) for g in np.unique(groups)] for w in wrong
    ]
    fair = clf.reweight(fresh, labels, objective="worst_group", groups=groups, **given)
    errors = group_errors(labels, fair.predict_distribution(fresh), groups, sample_weight=weight)
    least = minimize_cvar_mixture(np.array(mean), 1 / 3).value
    assert max(errors.values()) == pytest.approx(least, abs=1e-3)  # the overall error settles ties
    np.testing.assert_array_equal(fair.groups_, np.unique(groups))
    np.testing.assert_array_equal(clf.predict_distribution(X), P)
    fair.reweight(objective="worst_class")  # on the rows given last


@pytest.mark.parametrize("name", having("estimator", OURS))
@pytest.mark.parametrize("K", [2, 5])
@pytest.mark.thinned(8)
def test_smallest_tables(name, K):
    """One row per class, hardly more rows than folds: numbers, not errors."""
    X = np.arange(K, dtype=float)[:, None]
    y = np.arange(K)
    for learner in (TREE, HistTreeClassifier(), None):
        clf = make(name, learner, n_estimators=3, random_state=0).fit(X, y)
        assert np.isfinite(clf.predict_distribution(X)).all()
        if name in MIXTURES:
            assert np.isfinite(clf.summary_.achieved)


@pytest.mark.parametrize("name", ["lpboost", "regularizedlpboost"])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "learner", [LogisticRegression(), KNeighborsClassifier(2), HistBoostClassifier(n_estimators=2)]
)
@pytest.mark.thinned(5)
def test_all_weight_on_one_fold(name, seed, learner):
    """At tiny α a corrective player may leave the rows outside a fold without any weight."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(12, 2)), rng.permutation(np.arange(12) % 2)
    params = {"alpha": 0.01, "cv": 5, "n_estimators": 8, "n_iter_no_change": None, "beta": 1e4}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        clf = make(name, learner, random_state=seed, **params).fit(X, y)
    assert clf.n_iter_ == 8
    assert np.isfinite(clf.predict_distribution(X)).all()


@pytest.mark.parametrize(
    ("learner", "factor"),
    # scikit-learn's trees square the weights, so weights must stay below 1e150
    [("tree", 1e-30), ("tree", 1e100), ("hist", 1e-300), ("hist", 1e-9), ("hist", 1e30), ("hist", 1e300)],
)
def test_weights_of_any_size(factor, learner):
    X, y = noisy(25)
    weight = np.where(np.arange(len(y)) % 2, factor, 2 * factor)
    one = make("adalpboost", LEARNERS[learner], n_estimators=3, random_state=0).fit(
        X, y, sample_weight=weight
    )
    two = make("adalpboost", LEARNERS[learner], n_estimators=3, random_state=0).fit(
        X, y, sample_weight=weight / factor
    )
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


@pytest.mark.slow
def test_ten_thousand_rounds(recorder):
    """With a constant learner, its errors take all the weight, and nothing overflows."""
    X, y = noisy(26, n=30)
    clf = make("averageboost", recorder, n_estimators=10_000, eta=1.0).fit(X, y)
    assert clf.n_iter_ == 10_000
    assert np.isfinite(clf.trace_.weighted_loss).all()
    assert np.isfinite(clf.predict_distribution(X)).all()
    assert clf.estimator_weights_.sum() == pytest.approx(1)


@pytest.mark.thinned(7)
@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("name", VALIDATED)
def test_threads_change_nothing(name, learner):
    X, y = noisy(27)
    params = {"n_estimators": 3, "cv": 5, "random_state": 0}
    one = make(name, LEARNERS[learner], **params).fit(X, y)
    same(one, make(name, LEARNERS[learner], n_jobs=2, **params).fit(X, y), X)


def test_weights_and_groups_are_routed_to_us():
    X, y = noisy(28, n=150)
    weight, groups = 1.0 + np.arange(150) % 3, np.arange(150) % 2
    with sklearn.config_context(enable_metadata_routing=True):
        clf = make("groupdroboost", TREE, n_estimators=2, random_state=0)
        clf.set_fit_request(sample_weight=True, groups=True).set_score_request(sample_weight=False)
        search = GridSearchCV(clf, {"eta": [0.5, 1.0]}, cv=3, error_score="raise")
        search.fit(X, y, sample_weight=weight, groups=groups)
    np.testing.assert_array_equal(search.best_estimator_.groups_, [0, 1])


@pytest.mark.slow
def test_verdict_names_a_loaded_coin():
    """With uninformative features the optimum mixes constants unevenly; the verdict names this."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 3)), rng.choice(3, size=600, p=[0.55, 0.4, 0.05])
    clf = tb.AdaLPBoostClassifier(tb.learners.HistTreeClassifier(max_depth=2), alpha=0.5, random_state=0)
    found = clf.fit(X, y).summary_
    share = np.bincount(y) / 600
    at_once = [  # brute force over the simplex of mixtures of constants
        tb.metrics.cvar(1 - np.array([a, b, 1 - a - b]), 0.5, share)
        for a in np.linspace(0, 1, 201)
        for b in np.linspace(0, 1 - a, 201)
    ]
    assert found.constants_value == pytest.approx(min(at_once), abs=2e-3)
    assert found.constants_value < found.random_guess_value - 0.01
