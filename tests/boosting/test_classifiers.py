"""The classifiers of boosting: rows, rules, and other rules without training."""

import copy
import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import MIXTURES, OURS, make, noisy, refused
from scipy.optimize import linprog
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier, StackingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost import published
from tailboost.learners import HistBoostClassifier, HistTreeClassifier
from tailboost.learners.foreign import open_session
from tailboost.solvers import cvar

TREE = DecisionTreeClassifier(max_depth=2, random_state=0)
BINARY = {"ebboost"}
pytestmark = pytest.mark.filterwarnings("ignore::tailboost.BoundNotMetWarning")


def few(name, learner=TREE, **params):
    """Return a classifier of a few rounds."""
    given = {"n_estimators": 3, "random_state": 0, "gamma": 0.1, "C": 0.05}
    return make(name, learner, **given | params)


def data(name, seed=0, n=120):
    return noisy(seed, n=n, K=2 if name in BINARY else 3)


@pytest.mark.parametrize("name", OURS)
def test_weight_2_is_the_row_twice_and_weight_0_none(name):
    X, y = data(name)
    weight = np.random.default_rng(1).integers(0, 3, len(y))
    weight[:3] = 2
    again, given = np.repeat(np.arange(len(y)), weight), {"cv": "train"}
    one = few(name, **given).fit(X, y, sample_weight=weight)
    two = few(name, **given).fit(X[again], y[again])
    np.testing.assert_allclose(one.estimator_weights_, two.estimator_weights_, atol=1e-8)
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-8)


@pytest.mark.parametrize("lightest", [2.0, 0.5])
@pytest.mark.parametrize("name", ["averageboost", "ocoboost", "adalpboost"])
def test_the_n_of_the_theory_is_the_sum_of_the_weights_of_which_none_is_below_1(name, lightest):
    X, y = noisy(0, n=60, K=2)
    times = max(1.0, lightest) * (1.0 + np.arange(60) % 2)
    given = {"eta": "theory", "cv": "train", "gamma": 0.2, "n_estimators": 5}
    clf = few(name, HistTreeClassifier(max_depth=3), **given)
    clf.fit(X, y, sample_weight=times * min(1.0, lightest))
    repeated = np.repeat(np.arange(60), times.astype(int))
    other = clone(clf).fit(X[repeated], y[repeated])
    assert clf.eta_ == pytest.approx(math.sqrt(8 * math.log(times.sum()) / 5))
    assert clf.eta_ == pytest.approx(other.eta_)
    for ours, theirs in zip(clf.bounds_, other.bounds_, strict=True):
        assert ours.bound == pytest.approx(theirs.bound, nan_ok=True)


@pytest.mark.parametrize("name", OURS)
def test_labels_of_any_type(name):
    X, y = data(name)
    kinds = [["no", "yes", "maybe"], [2.0, -1.0, 7.0], [True, False, True]]
    named = np.array(kinds[list(OURS).index(name) % 3])[y]
    clf = few(name).fit(X, named)
    assert clf.classes_.tolist() == sorted(set(named.tolist()))
    assert set(clf.predict(X).tolist()) <= set(named.tolist())


@pytest.mark.filterwarnings("ignore:A column-vector y")
@pytest.mark.parametrize(
    "form", [lambda y: y.astype(object), lambda y: y[:, None], lambda y: pd.cut(y, [-1, 0, 1])]
)
def test_labels_are_read_after_a_fit_as_in_it(form):
    X, y = noisy(0, n=120, K=2)
    given = form(y)
    clf, same = few("adaboost").fit(X, given), few("adaboost").fit(X, y)
    assert clf.score(X, given) == np.mean(clf.predict(X) == clf.classes_[y])
    np.testing.assert_array_equal(clf.margins(X, given) > 0, clf.predict(X) == clf.classes_[y])
    likelihoods = [published.profile_likelihood(m, X, labels) for m, labels in ((clf, given), (same, y))]
    assert likelihoods[0] == likelihoods[1]
    clf, same = few("worstclassboost").fit(X, given), few("worstclassboost").fit(X, y)
    few_voters = published.first_voters(clf, X, given).estimator_weights_
    np.testing.assert_array_equal(few_voters, published.first_voters(same, X, y).estimator_weights_)
    assert published.margin_bound(given, np.ones(120), 1.0) == published.margin_bound(y, np.ones(120), 1.0)


@pytest.mark.parametrize("name", OURS)
def test_frames_with_text_and_missing_values(name):
    X, y = data(name)
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["t"] = np.where(X[:, 0] > 0, "u", "v")
    frame.loc[3, "b"] = np.nan
    clf = few(name, HistTreeClassifier(max_depth=2)).fit(frame, y)
    np.testing.assert_array_equal(clf.predict(frame), clf.predict(frame[list("tdcba")]))
    refused(lambda: clf.predict(frame.drop(columns="a")), "feature names")


@pytest.mark.parametrize("name", OURS)
def test_sparse_tables(name):
    X, y = data(name)
    dense = np.where(np.abs(X) > 0.5, X, 0.0)
    clf = few(name).fit(dense, y)
    np.testing.assert_array_equal(few(name).fit(sp.csr_matrix(dense), y).predict(dense), clf.predict(dense))


@pytest.mark.parametrize("name", OURS)
def test_a_row_has_the_same_answer_alone(name):
    X, y = data(name)
    clf = few(name).fit(X, y)
    alone = [clf.predict(row[None]) for row in X[:10]]
    np.testing.assert_array_equal(clf.predict(X)[:10], np.concatenate(alone))


REFUSED = {
    "one class": ({}, lambda X, y: (X, 0 * y), "one class"),
    "numbers": ({}, lambda X, y: (X, X[:, 0]), "[Cc]ontinuous|Unknown label"),
    "missing": ({}, lambda X, y: (np.where(X > 1, np.nan, X), y), "NaN"),
    "rows": ({}, lambda X, y: (X, y[:-1]), "y has .* rows"),
    "a frozen model": ({"estimator": FrozenEstimator(TREE)}, None, "frozen"),
    "rounds": ({"n_estimators": 0}, None, "n_estimators"), "a name": ({"estimator": "treee"}, None, "tree"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("name", OURS)
def test_bad_input_is_refused_before_any_fit(name, case):
    params, changed, words = REFUSED[case]
    X, y = data(name)
    if changed:
        X, y = changed(X, y)
    learner = LogisticRegression() if case == "missing" else params.get("estimator", TREE)
    with pytest.raises(ValueError, match=words):
        few(name, learner, **{k: v for k, v in params.items() if k != "estimator"}).fit(X, y)


@pytest.mark.parametrize("name", OURS)
def test_a_regressor_is_for_dro_boosting_alone(name):
    X, y = data(name)
    if name == "droboost":
        few(name, LinearRegression()).fit(X, y)
        return
    refused(lambda: few(name, LinearRegression()).fit(X, y), "regressor")


def test_an_edge_of_auto_is_for_worst_class_boosting_alone():
    X, y = noisy(0)
    refused(lambda: tb.OCOBoostClassifier(TREE, gamma="auto").fit(X, y), "'gamma' parameter")


def test_unknown_labels_of_validation_rows_are_named():
    X, y = noisy(0)
    refused(lambda: few("adalpboost").fit(X, y, X_val=X, y_val=y + 6 * y), r"y_val holds labels .*7")


@pytest.mark.parametrize("name", OURS)
def test_copies(name):
    X, y = data(name)
    clf = few(name).fit(X, y)
    for other in (pickle.loads(pickle.dumps(clf)), copy.deepcopy(clf)):
        np.testing.assert_array_equal(other.predict_proba(X), clf.predict_proba(X))
    again = clone(clf).fit(X, y)
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))


def test_pipelines_and_searches():
    X, y = noisy(0, K=3)
    learner = make_pipeline("passthrough", StandardScaler(), GaussianNB())
    search = GridSearchCV(tb.AdaLPBoostClassifier(learner, cv="train"), {"alpha": [0.1, 0.5]}, cv=2)
    assert search.fit(X, y).best_estimator_.predict(X).shape == y.shape


def test_a_learner_without_weights_is_fitted_on_rows_drawn_by_weight():
    X, y = noisy(0)
    with pytest.warns(UserWarning, match="sample_weight"):
        clf = few("averageboost", KNeighborsClassifier(3)).fit(X, y)
    assert len(clf.estimators_) == 3


@pytest.mark.parametrize("cls", [NearestCentroid, GaussianProcessClassifier, QuadraticDiscriminantAnalysis])
def test_rows_drawn_of_one_class_give_its_constant(cls):
    X, y = noisy(0, n=60, K=2)
    with pytest.warns(UserWarning, match="sample_weight"):
        session = open_session(cls(), X, y, np.arange(2), np.ones(60))
    model = session.fit(np.where(y == 1, 1.0, 1e-12), 0)
    np.testing.assert_array_equal(session.predict(model), 1)


def fitted(name="adalpboost", K=3, **params):
    X, y = noisy(1, n=200, K=K)
    return few(name, alpha=0.3, **params).fit(X[:120], y[:120]), X, y


@pytest.mark.parametrize("cv", ["train", 4])
@pytest.mark.parametrize("name", ["adalpboost", "lpboost"])
def test_lambda_is_the_optimum_of_the_program(name, cv):
    """Program (6) over the rounds and the ranked labels, by a generic solver."""
    clf, _, _ = fitted(name, cv=cv)
    losses, n = clf.candidate_losses_.astype(float), 120
    T = len(losses)
    found = linprog(
        np.r_[np.zeros(T), 1.0, np.full(n, 1 / (0.3 * n))], A_ub=np.c_[losses.T, -np.ones(n), -np.eye(n)],
        b_ub=np.zeros(n), A_eq=[np.r_[np.ones(T), np.zeros(n + 1)]], b_eq=[1],
        bounds=[(0, None)] * T + [(None, None)] + [(0, None)] * n,
    )  # fmt: skip
    weights = np.r_[clf.rank_weights_, clf.estimator_weights_]
    assert weights.sum() == pytest.approx(1)
    assert cvar(weights @ losses, 0.3) == pytest.approx(found.fun, abs=1e-9)


def test_ranked_labels_are_those_of_the_mean_probability():
    clf, X, y = fitted(cv="train")
    P = np.mean([member.predict_proba(X[:120]) for member in clf.estimators_], axis=0)
    order = np.argsort(-P, axis=1, kind="stable")
    np.testing.assert_array_equal(clf.candidate_losses_[:3], y[:120] != order.T)
    for k in range(3):  # a rule of the k-th most probable label
        alone = copy.copy(clf)._set_weights(np.eye(len(clf.candidate_losses_))[k])
        np.testing.assert_array_equal(alone.predict(X[:120]), order[:, k])


def test_out_of_fold_losses_are_those_of_games_without_the_fold():
    X, y = noisy(1, n=150, K=3)
    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))
    tree = HistTreeClassifier(max_depth=2)
    clf = tb.AdaLPBoostClassifier(tree, n_estimators=4, cv=folds, random_state=0).fit(X, y)
    whole = tb.AdaLPBoostClassifier(tree, n_estimators=4, cv="train", random_state=0).fit(X, y)
    np.testing.assert_array_equal(clf.predict_proba(X[:5]).shape, (5, 3))
    for one, two in zip(clf.estimators_, whole.estimators_, strict=True):
        np.testing.assert_array_equal(one.predict(X), two.predict(X))
    for rest, held in folds:
        part = tb.AverageBoostClassifier(tree, n_estimators=4, eta=1.0, random_state=0).fit(X[rest], y[rest])
        for t, member in enumerate(part.estimators_):
            np.testing.assert_array_equal(clf.losses_[t, held], member.predict(X[held]) != y[held])


def test_a_row_is_held_out_once():
    X, y = noisy(1)
    refused(lambda: few("adalpboost", cv=[(np.arange(60, 120), np.arange(60))]).fit(X, y), "once")


@pytest.mark.parametrize("name", MIXTURES)
def test_shares_are_those_of_the_members(name):
    X, y = data(name)
    clf = few(name, cv="train", rank_labels=False).fit(X, y)
    shares = np.zeros((len(y), 3))
    for weight, member in zip(clf.estimator_weights_, clf.estimators_, strict=True):
        shares[np.arange(len(y)), member.predict(X)] += weight
    np.testing.assert_allclose(clf.predict_distribution(X), shares, atol=1e-12)
    top = np.sort(shares, axis=1)
    clear = top[:, -1] > top[:, -2] + 1e-9
    np.testing.assert_array_equal(clf.predict(X)[clear], shares.argmax(axis=1)[clear])


@pytest.mark.parametrize("name", MIXTURES)
def test_reweight_is_a_fit_of_another_alpha(name):
    X, y = data(name)
    clf = few(name).fit(X, y)
    before, other = clf.estimator_weights_.copy(), clf.reweight(alpha=0.2)
    np.testing.assert_array_equal(clf.estimator_weights_, before)
    if name == "adalpboost":
        again = few(name, alpha=0.2).fit(X, y)
        np.testing.assert_array_equal(other.estimator_weights_, again.estimator_weights_)
    path = clf.alpha_path([0.1, 0.2, 1.0])
    np.testing.assert_array_equal(path[1], np.r_[other.rank_weights_, other.estimator_weights_])


def test_the_tradeoff_goes_from_the_least_error_to_the_least_cvar():
    clf, X, y = fitted(cv="train")
    points = clf.tradeoff()
    errors = np.array([error for error, _, _ in points])
    tails = np.array([tail for _, tail, _ in points])
    assert (np.diff(errors) > 0).all()
    assert (np.diff(tails) < 0).all()
    losses = clf.candidate_losses_
    assert errors[0] == pytest.approx(losses.mean(axis=1).min())
    weights = np.r_[clf.rank_weights_, clf.estimator_weights_]
    assert tails[-1] == pytest.approx(cvar(weights @ losses, 0.3), abs=1e-8)
    shares = points[0][2].predict_distribution(X[:120])
    assert 1 - shares[np.arange(120), y[:120]].mean() == pytest.approx(errors[0])


@pytest.mark.parametrize("alpha", [None, 0.1])
def test_the_theorems_are_true_of_the_classifiers_of_a_tradeoff(alpha):
    clf, _, _ = fitted(cv="train")
    for _, _, other in clf.tradeoff(alpha):
        assert other.alpha == (alpha or 0.3)
        for bound in other.bounds_:
            assert math.isnan(bound.bound) or bound.achieved <= bound.bound + 1e-9
    assert not any(math.isnan(bound.bound) for bound in other.bounds_)  # that of the least CVaR


@pytest.mark.parametrize("name", sorted(set(MIXTURES) - {"adalpboost", "lpboost"}))
def test_without_an_alpha_the_tradeoff_is_with_the_largest_loss(name):
    X, y = data(name)
    clf = few(name).fit(X, y)
    assert clf.reweight(alpha=0.2).alpha is None
    _, largest, other = clf.tradeoff()[-1]
    assert other.alpha is None
    losses = clf.candidate_losses_.astype(float)
    T, n = losses.shape
    least = linprog(
        np.r_[np.zeros(T), 1.0], A_ub=np.c_[losses.T, -np.ones(n)], b_ub=np.zeros(n),
        A_eq=[np.r_[np.ones(T), 0.0]], b_eq=[1],
    )  # fmt: skip
    assert largest == pytest.approx(least.fun, abs=1e-4)


def test_draws_follow_the_shares_and_ids_repeat_them():
    clf, X, _ = fitted("averageboost")
    X = X[:40]
    shares = clf.predict_distribution(X)
    drawn = np.array([clf.predict_randomized(X, random_state=seed) for seed in range(300)])
    frequency = (drawn[:, :, None] == clf.classes_).mean(axis=0)
    assert np.abs(frequency - shares).max() < 0.15
    ids = np.arange(1000, 1000 + len(X))
    first = clf.predict_randomized(X, ids)
    for again in (ids.astype(float), ids.astype(str), pd.Series(ids, dtype="Int64")):
        np.testing.assert_array_equal(first, clf.predict_randomized(X, again))
    days = [pd.Series(pd.date_range("2020-01-01", periods=40, unit=unit)) for unit in ("s", "ns")]
    np.testing.assert_array_equal(*(clf.predict_randomized(X, each) for each in days))
    refused(lambda: clf.predict_randomized(X, ids[:1]), "ids has 1 row,")
    np.testing.assert_array_equal(first[::-1], clf.predict_randomized(X[::-1], ids[::-1]))
    by_key = np.array([clf.predict_randomized(X, ids, random_state=key) for key in range(300)])
    assert np.abs((by_key[:, :, None] == clf.classes_).mean(axis=0) - shares).max() < 0.15


@pytest.mark.parametrize("name", MIXTURES)
def test_stages_are_rules_of_the_first_rounds(name):
    X, y = data(name)
    clf = few(name, cv="train", rank_labels=False).fit(X, y)
    stages = list(clf.staged_predict(X))
    assert len(stages) == clf.n_iter_
    np.testing.assert_array_equal(stages[-1], clf.predict(X))
    np.testing.assert_array_equal(stages[0], clf.estimators_[0].predict(X))


def test_a_learner_that_grows_gets_its_whole_size():
    X, y = load_digits(return_X_y=True)
    X, X_new, y, _ = train_test_split(X, y, train_size=800, random_state=0)
    clf = tb.WorstClassBoostClassifier(random_state=0).fit(X, y)
    assert clf.n_iter_ == 1 < clf.T_ == clf.n_played_  # no class errs too often: all rounds are the same
    assert all(b.achieved <= b.bound for b in clf.bounds_)
    balanced = len(y) / (10 * np.bincount(y)[y])
    alone = HistBoostClassifier(n_estimators=20, max_depth=3).fit(X, y, sample_weight=balanced)
    np.testing.assert_array_equal(clf.predict(X_new), alone.predict(X_new))
    forest = RandomForestClassifier(12, random_state=0)
    for name, given in (("worst_class_boost", {"theta": 0.5, "gamma": 0.3}), ("oco_boost", {"gamma": 0.3})):
        paper = getattr(tb.published, name)(forest, T=2, random_state=0, **given)
        whole = clone(paper).set_params(whole=True).fit(X[:200], y[:200])
        assert [len(each.estimators_) for each in whole.estimators_] == [12] * whole.n_iter_
        assert len(paper.fit(X[:200], y[:200]).estimators_[0].estimators_) < 12


@pytest.mark.parametrize("name", ["worstclassboost", "ocoboost"])
def test_rounds_that_repeat_the_last_one_are_its_votes(name):
    X, y = noisy(7, n=120, K=3)
    learner = HistTreeClassifier(max_depth=12)
    given = {"n_estimators": 9, "gamma": 0.05, "theta": 0.8, "eta": "theory"}
    whole = few(name, learner, **given).fit(X, y)
    paper = clone(whole).set_params(whole=False).fit(X, y)
    assert whole.n_iter_ < paper.n_iter_ == whole.n_played_ == 9
    np.testing.assert_allclose(whole.predict_distribution(X), paper.predict_distribution(X), atol=1e-12)
    np.testing.assert_array_equal(whole.predict(X), paper.predict(X))
    for ours, theirs in zip(whole.bounds_, paper.bounds_, strict=True):
        assert ours.bound == pytest.approx(theirs.bound)
        assert ours.achieved == pytest.approx(theirs.achieved)


@pytest.mark.parametrize("name", OURS)
def test_certificates_of_boosting(name):
    X, y = noisy(3, n=1500, K=2)
    clf = few(name).fit(X[:500], y[:500])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        certificate = tb.certify(clf, X[500:], y[500:], limits=["error <= 60%"])
        rule = tb.calibrate(clf, X[500:], y[500:], limits=["miss(1) <= 60%"])
    assert certificate.certified
    assert np.isin(rule.predict(X), clf.classes_).all()


@pytest.mark.filterwarnings("ignore:.*every round draws a resample")
@pytest.mark.parametrize("name", ["adalpboost", "worstclassboost", "droboost"])
def test_stacks_without_a_stated_final_estimator_are_learners(name):
    """Such a stack has `predict` only after its fit, and answers as one with the default stated."""
    X, y = data("adalpboost")
    stack = StackingClassifier([("tree", TREE)], cv=3)
    stated = clone(stack).set_params(final_estimator=LogisticRegression())
    answers = [few(name, each).fit(X, y).predict(X) for each in (stack, stated)]
    np.testing.assert_array_equal(*answers)


@pytest.mark.parametrize("name", ["tree", "stump", "erm"])
def test_a_name_of_a_learner_has_no_parameters_of_its_own(name):
    model = tb.AdaLPBoostClassifier(name)
    search = GridSearchCV(model, {"estimator__max_depth": [1]})
    X, y = data("adalpboost")
    for call in (lambda: model.set_params(estimator__max_depth=1), lambda: search.fit(X, y)):
        refused(call, rf"estimator='{name}' is a name.* give the learner")
    given = model.set_params(estimator=HistTreeClassifier(), estimator__max_depth=1)
    assert given.estimator.max_depth == 1


class Resampling(Pipeline):
    """A pipeline of a step that makes rows, as those of imbalanced-learn."""

    def fit(self, X, y, **params):
        (_, sampler), (_, model) = self.steps
        rows, labels = sampler.fit_resample(X, y)
        model.fit(rows, labels, **{key.partition("__")[2]: v for key, v in params.items()})
        return self

    def predict(self, X):
        return self[1].predict(self[0].transform(X))


class Twice(StandardScaler):
    """A step that gives each row twice."""

    def fit_resample(self, X, y):
        return np.repeat(self.fit_transform(X), 2, axis=0), np.repeat(y, 2)


@pytest.mark.parametrize("name", ["adalpboost", "droboost"])
def test_pipelines_that_make_rows_are_fitted_to_draws(name):
    X, _ = data(name)
    y = (X[:, 0] > 0).astype(int)
    learner = Resampling([("twice", Twice()), ("tree", TREE)])
    with pytest.warns(UserWarning, match="every round draws a resample"):
        model = few(name, learner).fit(X, y)
    assert (model.predict(X) == y).mean() > 0.9
    mixture = tb.RobustMixtureClassifier([("p", learner)])
    refused(lambda: mixture.fit(X, y, sample_weight=1.0 + y), "takes no weights in fit")
