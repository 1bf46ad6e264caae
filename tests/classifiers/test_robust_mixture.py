"""RobustMixtureClassifier against brute force, a generic solver and itself by other ways."""

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from conftest import MOVED, errors_of, refused
from scipy.special import softmax
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_predict, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import tailboost as tb
from tailboost import RobustMixtureClassifier, rates
from tailboost.exceptions import ResubstitutionWarning, SmallSubgroupsWarning, TableChangedWarning
from tailboost.selection.door import answering
from tailboost.selection.search import first_pool

X, Y = (part[:400] for part in load_breast_cancer(return_X_y=True))
TRAIN, TEST = slice(0, None, 2), slice(1, None, 2)
GROUPS = np.where(X[:, 1] > np.median(X[:, 1]), "rough", "smooth")


class Printed(ClassifierMixin, BaseEstimator):
    """Model with probabilities in columns of the table, independent of the fit."""

    def __init__(self, first=0, n_classes=2):
        self.first, self.n_classes = first, n_classes

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.asarray(X)[:, self.first : self.first + self.n_classes][:, self.classes_]

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def printed(seed, n=300, K=3, models=2):
    """Return probabilities side by side in one table, labels, and the same probabilities by name."""
    rng = np.random.default_rng(seed)
    y = rng.choice(K, n, p=np.arange(1, K + 1) / np.arange(1, K + 1).sum())
    y[:K] = np.arange(K)
    P = [rng.dirichlet(np.ones(K), n) + rng.uniform(0, 1) * np.eye(K)[y] for _ in range(models)]
    P = [p / p.sum(axis=1, keepdims=True) for p in P]
    names = ["a", "b", "c", "d"][:models]
    estimators = [(name, Printed(i * K, K)) for i, name in enumerate(names)]
    return np.hstack(P), y, dict(zip(names, P, strict=True)), estimators


def class_errors(y, answers):
    return [np.mean(answers[y == k] != k) for k in np.unique(y)]


@pytest.mark.parametrize("objective", ["worst_class", "error"])
@pytest.mark.parametrize("K", [2, 3])
def test_fit_equals_from_probabilities(objective, K):
    """If probabilities do not depend on the training rows, both paths are equal to the bit."""
    table, y, P, estimators = printed(0, K=K)
    fitted = RobustMixtureClassifier(estimators, objective=objective).fit(table, y)
    given = RobustMixtureClassifier.from_probabilities(P, y, objective=objective)
    assert str(fitted.rule_) == str(given.rule_)
    assert np.array_equal(fitted.predict(table), given.predict(P))


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.SmallSubgroupsWarning")
@pytest.mark.filterwarnings("ignore:Number of classes in training fold")
def test_fit_uses_out_of_fold_probabilities():
    """With as many folds as distinct rows, the folds are scikit-learn's leave-one-out."""
    X, y = load_wine(return_X_y=True)
    X, y = X[::40], y[::40]  # five rows: five folds
    mix = RobustMixtureClassifier([("bayes", KNeighborsClassifier(2))]).fit(X, y)
    P = cross_val_predict(KNeighborsClassifier(2), X, y, cv=KFold(5), method="predict_proba")
    given = RobustMixtureClassifier.from_probabilities({"bayes": P}, y)
    assert str(mix.rule_) == str(given.rule_)


@pytest.mark.parametrize("budget", [None, 0.0, 0.03])
@pytest.mark.parametrize("seed", [0, 2])
def test_one_rule_is_the_best_of_the_candidates(seed, budget):
    """By counting answers: the largest error, within the most accurate candidate's error plus the budget."""
    _, y, P, _ = printed(seed, K=4)
    mix = RobustMixtureClassifier.from_probabilities(P, y, error_budget=budget)
    engine, table = mix.selection_.engine, answering(mix).score(P).outputs()
    pool = first_pool(engine.family, mix.selection_.charges)
    engine.select(mix.selection_.problem, pool)
    answers = [replace(mix.selection_, rule=rule).label_numbers(table) for rule in pool.candidates]
    worst = np.array([max(class_errors(y, k)) for k in answers])
    means = np.array([np.mean(k != y) for k in answers])
    inside = means <= means.min() + (1.0 if budget is None else budget) + 1e-12
    said = mix.predict(P)
    assert max(class_errors(y, said)) == pytest.approx(worst[inside].min(), abs=1e-9)
    assert np.mean(said != y) <= means.min() + (1.0 if budget is None else budget) + 1e-12
    assert errors_of(mix) == pytest.approx(class_errors(y, said), abs=1e-9)
    assert mix.limits_met_ is (None if budget is None else True)


def test_another_budget_is_that_of_a_fresh_fit():
    _, y, P, _ = printed(1)
    mix = RobustMixtureClassifier.from_probabilities(P, y)
    other = mix.reweight(error_budget=0.01)
    fresh = RobustMixtureClassifier.from_probabilities(P, y, error_budget=0.01)
    assert np.array_equal(other.predict(P), fresh.predict(P))
    assert str(other.rates_) == str(fresh.rates_)
    assert mix.error_budget is None


def test_no_worse_than_any_threshold_of_two_classes():
    """Brute force over all thresholds of either model: a mixture of members is at least nearly as good."""
    _, y, P, _ = printed(1, K=2)
    mix = RobustMixtureClassifier.from_probabilities(P, y)
    thresholds = [(p, t) for p in P.values() for t in np.unique(p[:, 1])]
    worst = min(max(class_errors(y, (p[:, 1] >= t).astype(int))) for p, t in thresholds)
    assert max(mix.subgroup_errors_.values()) <= worst + 0.01


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.SmallSubgroupsWarning")
def test_a_rare_class_is_not_forgotten():
    X, y = load_digits(return_X_y=True)
    kept = np.r_[np.flatnonzero(y != 8), np.flatnonzero(y == 8)[:20]]
    X, y = X[kept], y[kept]
    tree = DecisionTreeClassifier(max_depth=8, min_samples_leaf=3, random_state=0)
    mix = RobustMixtureClassifier([("tree", tree), ("bayes", GaussianNB())], random_state=0)
    mix.fit(X[::2], y[::2])
    alone = clone(tree).fit(X[::2], y[::2])
    found, of_tree = (max(class_errors(y[1::2], each.predict(X[1::2]))) for each in (mix, alone))
    assert found < of_tree


def models():
    return [("tree", DecisionTreeClassifier(max_depth=4, random_state=0)), ("bayes", GaussianNB())]


def test_budget_and_curve():
    mix = RobustMixtureClassifier(models(), cv=2, random_state=0).fit(X[TRAIN], Y[TRAIN])
    curve = mix.tradeoff()
    assert curve[-1].objective == pytest.approx(max(mix.subgroup_errors_.values()), abs=1e-9)
    cheap = mix.reweight(error_budget=0.0)
    assert np.array_equal(curve.at(curve[0].limited).predict(X[TEST]), cheap.predict(X[TEST]))
    assert mix.error_budget is None
    assert cheap.rates_.lines[-1].value == pytest.approx(curve[0].limited)
    limited, _ = curve.predicted(X[TEST], Y[TEST])
    assert limited[-1] == pytest.approx(np.mean(mix.predict(X[TEST]) != Y[TEST]))


def test_a_curve_is_measured_where_groups_are_inferred_from_features():
    """`predicted` equals counts of the points' answers; rows without weight do not count."""
    mix = RobustMixtureClassifier(models(), cv=2, objective="worst_cell", random_state=0)
    curve = mix.fit(X[TRAIN], Y[TRAIN], groups=GROUPS[TRAIN]).tradeoff()
    weight = (np.arange(len(Y[TEST])) % 3 > 0).astype(float)
    limited, value = curve.predicted(X[TEST], Y[TEST], sample_weight=weight, groups=GROUPS[TEST])
    y, groups, seen = Y[TEST], GROUPS[TEST], weight > 0
    for (level, _, _), mean, worst in zip(curve, limited, value, strict=True):
        wrong = curve.at(level).predict(X[TEST]) != y
        cells = [wrong[seen & (y == k) & (groups == g)].mean() for k in (0, 1) for g in np.unique(groups)]
        assert mean == pytest.approx(wrong[seen].mean())
        assert worst == pytest.approx(max(cells))


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.UselessRuleWarning")
def test_class_weight_acts_in_the_fits_of_models_alone():
    """Limits, objective and table count rows by sample_weight, as counted here."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(3000, 3))
    z = (Z[:, 0] + rng.normal(size=3000) > 2.0).astype(int)
    model = LogisticRegression().fit(Z[:1000], z[:1000])
    models, limits = [("m", FrozenEstimator(model))], [tb.rates.precision(1) >= 0.6]
    plain = RobustMixtureClassifier(models, limits=limits).fit(Z[1000:], z[1000:])
    weighted = RobustMixtureClassifier(models, limits=limits, class_weight="balanced").fit(Z[1000:], z[1000:])
    assert str(plain.rule_) == str(weighted.rule_)
    answers = weighted.predict(Z[1000:])
    [line] = [line for line in weighted.rates_ if line.limit]
    assert line.value == pytest.approx(np.mean(z[1000:][answers == 1]))
    given = {"class_weight": "balanced", "objective": "error", "random_state": 0}
    fitted = RobustMixtureClassifier([("m", LogisticRegression())], **given).fit(Z, z)
    balanced = LogisticRegression(class_weight="balanced").fit(Z, z)
    np.testing.assert_allclose(fitted.estimators_[0].coef_, balanced.coef_, rtol=1e-3)
    assert np.mean(fitted.predict(Z) != z) < np.mean(balanced.predict(Z) != z) - 0.05


def test_subgroups_of_few_rows_are_named():
    table, y, P, _ = printed(3)
    rare = np.r_[np.flatnonzero(y != 0), np.flatnonzero(y == 0)[:4]]
    words = "fewer than 10 for error by class of 0"
    with pytest.warns(SmallSubgroupsWarning, match=words):
        RobustMixtureClassifier.from_probabilities({name: p[rare] for name, p in P.items()}, y[rare])
    with pytest.warns(SmallSubgroupsWarning, match=words):
        RobustMixtureClassifier([("nb", GaussianNB())], random_state=0).fit(table[rare], y[rare])


@pytest.mark.parametrize("objective", ["worst_group", "worst_cell"])
def test_groups_are_known_in_training_only(objective):
    mix = RobustMixtureClassifier(models(), cv=2, objective=objective, random_state=0)
    mix.fit(X[TRAIN], Y[TRAIN], groups=GROUPS[TRAIN])
    assert len(mix.subgroup_errors_) == (2 if objective == "worst_group" else 4)
    answers = mix.reweight().predict(X[TRAIN])
    assert np.array_equal(answers, mix.predict(X[TRAIN]))
    # From another objective with the same groups: the same choice, without training.
    by_class = RobustMixtureClassifier(models(), cv=2, random_state=0)
    by_class.fit(X[TRAIN], Y[TRAIN], groups=GROUPS[TRAIN])
    # There groups are inferred from the probabilities, the features are not kept.
    again = by_class.reweight(objective=objective)
    assert list(again.subgroup_errors_) == list(mix.subgroup_errors_)
    assert errors_of(again).max() <= errors_of(by_class.reweight()).max() + 0.1
    assert np.array_equal(again.predict(X[TRAIN])[:9], [again.predict(x[None])[0] for x in X[TRAIN][:9]])


def test_a_table_of_groups():
    table = {"texture": GROUPS[TRAIN], "third": np.arange(len(Y))[TRAIN] % 3}
    mix = RobustMixtureClassifier(models(), cv=2, objective="worst_group", random_state=0)
    mix.fit(X[TRAIN], Y[TRAIN], groups=table)
    of_texture = [("texture", "rough"), ("texture", "smooth")]
    assert list(mix.subgroup_errors_) == [*of_texture, ("third", 0), ("third", 1), ("third", 2)]
    assert errors_of(mix).shape == (5,)
    cells = mix.reweight(objective="worst_cell")
    assert (1, ("texture", "rough")) in cells.subgroup_errors_


@pytest.mark.slow
def test_thresholds_by_a_group_that_shows_only_in_a_score_are_no_worse_than_by_class():
    """In group 1 the model is unsure and biased; its probabilities lie in another range. Fresh rows count."""

    def made(seed, n):
        rng = np.random.default_rng(seed)
        group, y = rng.integers(0, 2, n), rng.integers(0, 2, n)
        score = np.where(group == 0, 3.0, 0.6) * (2 * y - 1) + rng.normal(size=n) + 0.8 * group
        return {"net": 1 / (1 + np.exp(-score))}, y, group

    gains = []
    for seed in range(40):
        P, y, group = made(seed, 4000)
        by_class = RobustMixtureClassifier.from_probabilities(P, y)
        by_cell = RobustMixtureClassifier.from_probabilities(P, y, objective="worst_cell", groups=group)
        P, y, group = made(1000 + seed, 60_000)
        of_class, of_cell = (
            max(np.mean(wrong[y + 2 * group == cell]) for cell in range(4))
            for wrong in (mix.predict(P) != y for mix in (by_class, by_cell))
        )
        gains.append(of_class - of_cell)
    assert np.mean(gains) > -0.002


@pytest.mark.slow
def test_tiny_units_are_modelled_without_a_warning_of_the_model():
    """Some of forty groups have a handful of rows; the group model is fitted to the end."""
    rng = np.random.default_rng(0)
    y, groups = rng.integers(0, 3, 400), np.minimum(rng.geometric(0.08, 400), 40)
    logs = 9 * rng.normal(size=(400, 3)) + 3 * np.eye(3)[y]
    weight = 100 * rng.exponential(size=400) ** 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", SmallSubgroupsWarning)
        RobustMixtureClassifier.from_probabilities(
            {"net": softmax(logs, axis=1)}, y, objective="worst_group", groups=groups, sample_weight=weight,
        )  # fmt: skip


def test_labels_frames_and_names():
    pd, labels = pytest.importorskip("pandas"), np.array(["benign", "malignant"])[Y]
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    mix = RobustMixtureClassifier(models(), random_state=0).fit(frame[TRAIN], labels[TRAIN])
    plain = RobustMixtureClassifier(models(), random_state=0).fit(X[TRAIN], Y[TRAIN])
    assert np.array_equal(mix.predict(frame[TEST]) == "malignant", plain.predict(X[TEST]) == 1)
    assert set(mix.named_estimators_) == {"tree", "bayes"}
    assert "tree" in mix.used_models_


def test_parameters_of_the_models():
    mix = RobustMixtureClassifier(models())
    assert mix.get_params()["tree__max_depth"] == 4
    mix.set_params(tree__max_depth=2, bayes=LogisticRegression())
    assert mix.estimators[0][1].max_depth == 2
    assert isinstance(clone(mix).estimators[1][1], LogisticRegression)


def test_a_frozen_model_is_not_fitted():
    net = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[TRAIN], np.array(["b", "m"])[Y[TRAIN]])
    before = net.predict_proba(X[TEST])
    mix = RobustMixtureClassifier([("net", FrozenEstimator(net))])
    mix.fit(X[TEST], np.array(["b", "m"])[Y[TEST]])
    given = RobustMixtureClassifier.from_probabilities({"net": before}, Y[TEST])
    assert np.array_equal(mix.predict(X[TEST]) == "m", given.predict({"net": before}) == 1)
    assert np.array_equal(mix.predict({"net": before}), mix.predict(X[TEST]))
    assert np.array_equal(net.predict_proba(X[TEST]), before)


def test_an_explicit_validation_set():
    tree = DecisionTreeClassifier(max_depth=4, random_state=0)
    mix = RobustMixtureClassifier([("tree", tree)]).fit(X[TRAIN], Y[TRAIN], X_val=X[TEST], y_val=Y[TEST])
    P = {"tree": clone(tree).fit(X[TRAIN], Y[TRAIN]).predict_proba(X[TEST])}
    given = RobustMixtureClassifier.from_probabilities(P, Y[TEST])
    assert np.array_equal(mix.predict(X[TEST]), given.predict(P))
    assert mix.validation_ == "X_val"


def test_rows_that_were_fitted_on_are_noticed():
    mix = RobustMixtureClassifier(models(), cv=2, random_state=0).fit(X[TRAIN], Y[TRAIN])
    with pytest.warns(ResubstitutionWarning, match="100% of"):
        mix.reweight(X[TRAIN], Y[TRAIN])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        on_test = mix.reweight(X[TEST], Y[TEST])
    assert "to reweight" in on_test.rates_.words
    assert [mix.validation_, on_test.validation_, on_test.reweight().validation_] == ["cv", *["reweight"] * 2]
    mix = RobustMixtureClassifier(models(), cv=0.3, random_state=0).fit(X, Y)
    assert mix.validation_ == 0.3
    assert "held-out" in mix.rates_.words


def test_weights_count_rows():
    _, y, P, _ = printed(4, K=3)
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    repeated = np.repeat(np.arange(len(y)), weight)
    by_weight = RobustMixtureClassifier.from_probabilities(P, y, sample_weight=weight)
    by_rows = RobustMixtureClassifier.from_probabilities(
        {name: p[repeated] for name, p in P.items()}, y[repeated], classes=by_weight.classes_
    )
    assert by_weight.subgroup_errors_ == pytest.approx(by_rows.subgroup_errors_, abs=1e-9)
    assert np.array_equal(by_weight.predict(P), by_rows.predict(P))


@pytest.mark.parametrize("scale", [2.0, 0.1, 1e-3])
def test_equal_weights_of_any_scale_are_no_weights(scale):
    _, y, P, _ = printed(4, K=3)
    limits = [rates.miss(2) <= 0.5]
    for objective in (rates.f_score(2), rates.error()):
        given, weight = {"objective": objective, "limits": limits}, np.full(len(y), scale)
        plain = RobustMixtureClassifier.from_probabilities(P, y, **given)
        weighted = RobustMixtureClassifier.from_probabilities(P, y, sample_weight=weight, **given)
        assert np.array_equal(plain.predict(P), weighted.predict(P))
        assert str(plain.rates_) == str(weighted.rates_)


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.SmallSubgroupsWarning")
def test_a_class_that_a_fold_lacks():
    y = Y.copy()
    y[:1] = 7  # one row of a third class, unknown to the model of its fold
    mix = RobustMixtureClassifier(models(), cv=2, random_state=0).fit(X, y)
    assert mix.predict(X[:5]).shape == (5,)


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.SmallSubgroupsWarning")
def test_exact_zeros_and_ones():
    P, y = {"a": np.eye(3)[[0, 1, 2, 0, 1, 2]]}, np.array([0, 1, 2, 1, 2, 0])
    mix = RobustMixtureClassifier.from_probabilities(P, y)
    assert 0 <= max(mix.subgroup_errors_.values()) <= 1


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_named_by_labels_may_stand_in_any_order(library):
    frame = pytest.importorskip(library).DataFrame
    _, y, P, _ = printed(3)
    labels = np.array(["good", "bad", "ugly"])
    classes = np.sort(labels)  # the order of the columns of an array: bad, good, ugly
    plain = RobustMixtureClassifier.from_probabilities(P, classes[y])
    named = {name: frame({c: p[:, np.flatnonzero(classes == c)[0]] for c in labels}) for name, p in P.items()}
    mix = RobustMixtureClassifier.from_probabilities(named, classes[y])
    np.testing.assert_array_equal(mix.predict(named), plain.predict(P))
    found = mix.reweight(named, classes[y], error_budget=0.1).predict(P)
    np.testing.assert_array_equal(found, plain.reweight(P, classes[y], error_budget=0.1).predict(P))
    refused(lambda: mix.predict({name: table[["good", "bad"]] for name, table in named.items()}), "columns")


def test_columns_of_a_frame_without_names_count_by_position():
    pandas = pytest.importorskip("pandas")
    _, y, P, _ = printed(3)
    frames = {name: pandas.DataFrame(p) for name, p in P.items()}
    mix = RobustMixtureClassifier.from_probabilities(frames, y)
    np.testing.assert_array_equal(mix.predict(frames), mix.predict(P))
    frames = {name: pandas.DataFrame(p, columns=["p1", "p2", "p3"]) for name, p in P.items()}
    refused(lambda: RobustMixtureClassifier.from_probabilities(frames, y), "columns")


@pytest.mark.parametrize(("change", "message"), [
    ({"P": {"a": np.full((6, 1), 0.5)}}, "classes"), ({"P": {"a": np.full((6, 2), np.nan)}}, "probabilities"),
    ({"P": {"a": np.full((6, 2), 0.6)}}, "sum"), ({"P": {"a": np.full((5, 2), 0.5)}}, "probabilities"),
    ({"P": {"a": np.full((6, 3), 1 / 3)}}, "columns"), ({"P": {}}, "dict"),
    ({"y": ["x", None, "x", "y", "y", "y"]}, "contains"), ({"classes": ["x"]}, "classes"),
    ({"classes": ["x", "z"]}, "labels"), ({"objective": "worst_group"}, "groups"),
    ({"objective": "cvar"}, "objective"), ({"error_budget": -1.0}, "error_budget"),
    ({"groups": [1, 2]}, "groups"),
])  # fmt: skip
def test_bad_input_is_named(change, message):
    arguments = {"y": ["x", "x", "x", "y", "y", "y"], "P": {"a": np.full((6, 2), 0.5)}} | change
    call = partial(RobustMixtureClassifier.from_probabilities, arguments.pop("P"), **arguments)
    refused(call, message, (TypeError, ValueError))


def test_new_probabilities_are_checked():
    table, y, P, _ = printed(0)
    mix = RobustMixtureClassifier.from_probabilities(P, y)
    refused(lambda: mix.predict({"z": P["a"]}), "called")
    refused(lambda: mix.predict({name: P[name] for name in P if name != mix.used_models_[0]}), "missing")
    refused(lambda: mix.predict(table), "from_probabilities", AttributeError)


@pytest.mark.parametrize(("estimators", "error", "message"), [
    ([], ValueError, "least"), ([("a", LinearSVC())], ValueError, "predict_proba"),
    ([("a", GaussianNB()), ("a", GaussianNB())], ValueError, "unique"), ([GaussianNB()], TypeError, "pairs"),
    ([("a__b", GaussianNB())], ValueError, "__"), ([("a", GaussianNB)], TypeError, "class"),
    (["nosuch"], TypeError, "classifier"), (["ab"], TypeError, "got"), ([("a",)], TypeError, "got"),
    ([("a", "nosuch")], ValueError, "learner"),
])  # fmt: skip
def test_bad_estimators_are_named(estimators, error, message):
    refused(lambda: RobustMixtureClassifier(estimators).fit(X, Y), message, error)
    mix = RobustMixtureClassifier().set_params(estimators=estimators)  # fit alone refuses
    refused(lambda: mix.fit(X, Y), message, error)


def test_a_model_may_be_an_ensemble_of_another_library():
    vote = VotingClassifier(models(), voting="soft")
    mix = RobustMixtureClassifier([("vote", vote), ("forest", RandomForestClassifier(5))], random_state=0)
    assert mix.fit(X[TRAIN], Y[TRAIN]).score(X[TEST], Y[TEST]) > 0.85
    again = clone(mix).fit(X[TRAIN], Y[TRAIN])
    assert np.array_equal(again.predict(X[TEST]), mix.predict(X[TEST]))


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.SmallSubgroupsWarning")
@pytest.mark.filterwarnings("ignore::tailboost.exceptions.UselessRuleWarning")
@parametrize_with_checks([RobustMixtureClassifier(models(), cv=2)], expected_failed_checks=lambda _: MOVED)
def test_as_scikit_learn_asks(estimator, check):
    check(estimator)


def biased(seed, n=1200, groups=3):
    """Return one model's probabilities of class 1, off by an amount of each group, with labels and groups."""
    rng = np.random.default_rng(seed)
    group, y = rng.integers(0, groups, n), rng.integers(0, 2, n)
    score = 1.2 * (2 * y - 1) + rng.normal(size=n) + (group - 1)
    return {"net": 1 / (1 + np.exp(-score))}, y, np.array(["a", "b", "c"])[group]


def cell_errors(y, group, answers):
    return {(k, g): np.mean(answers[(y == k) & (group == g)] != k) for k in (0, 1) for g in np.unique(group)}


def test_a_known_group_helps_on_fresh_rows():
    (P, y, group), (Q, z, fresh) = biased(1), biased(2)
    given = {"objective": "worst_cell", "groups": group}
    told = RobustMixtureClassifier.from_probabilities(P, y, by_group=True, **given)
    blind = RobustMixtureClassifier.from_probabilities(P, y, **given)
    answers = told.predict(Q, groups=fresh)
    worst = max(cell_errors(z, fresh, answers).values())
    assert worst < max(cell_errors(z, fresh, blind.predict(Q)).values()) - 0.1
    # The order of the rows of new groups does not matter, nor which of them are there.
    only = fresh == "c"
    assert np.array_equal(told.predict({"net": Q["net"][only]}, groups=fresh[only]), answers[only])
    curve = told.tradeoff()
    limited, value = curve.predicted(Q, z, groups=fresh)
    last = curve[-1].classifier.predict(Q, groups=fresh)
    assert curve[-1].objective <= max(told.subgroup_errors_.values()) + 1e-9
    assert value[-1] == pytest.approx(max(cell_errors(z, fresh, last).values()))
    assert limited[-1] == pytest.approx(np.mean(last != z))
    cheaper = told.reweight(error_budget=0.0).predict(Q, groups=fresh)
    assert np.mean(cheaper != z) < np.mean(answers != z) + 0.02


def test_cross_validation_hands_groups_on():
    """Metadata routing: a scorer requests groups, a search also the groups of fit."""
    with config_context(enable_metadata_routing=True):
        mix = RobustMixtureClassifier(models(), cv=2, objective="worst_cell", by_group=True, random_state=0)
        mix.set_fit_request(groups=True).set_score_request(groups=True)
        found = cross_val_score(mix, X, Y, cv=KFold(2), params={"groups": GROUPS})
        for (train, test), score in zip(KFold(2).split(X), found, strict=True):
            fitted = clone(mix).fit(X[train], Y[train], groups=GROUPS[train])
            assert score == fitted.score(X[test], Y[test], groups=GROUPS[test])
        steps = make_pipeline(StandardScaler(), mix.set_predict_request(groups=True))
        steps.fit(X[TRAIN], Y[TRAIN], groups=GROUPS[TRAIN])
        assert steps.predict(X[TEST], groups=GROUPS[TEST]).shape == Y[TEST].shape
        known = {"training_rows": X[TRAIN]}
        assert tb.certify(steps, X[TEST], Y[TEST], groups=GROUPS[TEST], **known).bounds


@pytest.mark.parametrize("form", [np.asarray, lambda g: {"texture": g}])
def test_a_file_of_a_mixture_by_group(tmp_path, form):
    mix = RobustMixtureClassifier(models(), cv=2, objective="worst_cell", by_group=True, random_state=0)
    mix.fit(X[TRAIN], Y[TRAIN], groups=form(GROUPS[TRAIN]))
    tb.save_model(mix, tmp_path / "m.model")
    loaded = tb.load_model(tmp_path / "m.model")
    assert np.array_equal(*(each.predict(X[TEST], groups=form(GROUPS[TEST])) for each in (mix, loaded)))


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.ResubstitutionWarning")
def test_by_group_refuses():
    P, y, group = biased(0, n=200)
    make = partial(RobustMixtureClassifier.from_probabilities, P, y)
    worst = {"objective": "worst_group"}
    mix, blind = make(groups=group, by_group=True, **worst), make(groups=group, **worst)
    new = RobustMixtureClassifier(models(), cv=2, objective="worst_cell", by_group=True, random_state=0)
    fitted = clone(new).fit(X[TRAIN], Y[TRAIN], groups=GROUPS[TRAIN])
    smooth = GROUPS == "smooth"
    one = {"X_val": X[smooth], "y_val": Y[smooth], "groups_val": GROUPS[smooth]}
    for match, ask in (
        ("by_group", lambda: make(by_group=True)),
        ("columns", lambda: make(groups={"a": group, "b": group}, by_group=True, **worst)),
        ("groups", lambda: mix.predict(P)),
        ("groups", lambda: mix.predict(P, groups=np.where(group == "a", "d", group))),
        ("groups", lambda: mix.predict(P, groups=group[:3])),
        ("select", lambda: new.set_params(cv="auto").fit(X[TRAIN], Y[TRAIN], groups=GROUPS[TRAIN], **one)),
        ("groups", lambda: blind.predict(P, groups=group)),
        ("groups", lambda: tb.certify(fitted, X[TEST], Y[TEST])),
        ("groups", lambda: fitted.score(X[TEST], Y[TEST])),
        ("groups", lambda: fitted.predict(X[TEST])),
        ("columns", lambda: fitted.predict(X[TEST], groups={"g": GROUPS[TEST], "h": GROUPS[TEST]})),
    ):
        refused(ask, match)


def test_by_group_of_the_worst_group_takes_the_cheapest_of_each():
    P, y, group = biased(3, n=400)
    given = {"objective": "worst_group", "groups": group, "by_group": True}
    mix = RobustMixtureClassifier.from_probabilities(P, y, **given)
    answers = mix.predict(P, groups=group)
    for g in "abc":  # a separate threshold is nearly as good as any
        rows = group == g
        best = min(np.mean((P["net"][rows] > t) != y[rows]) for t in P["net"][rows])
        assert np.mean(answers[rows] != y[rows]) <= best + 0.05


@pytest.mark.filterwarnings("ignore::tailboost.SmallSubgroupsWarning")
@pytest.mark.parametrize("told", [False, True])
def test_a_class_without_rows_where_thresholds_are_chosen(told):
    """Selection data without class 1, or a group without class 1: no shift is NaN."""
    rng = np.random.default_rng(0)
    y = rng.choice([0, 2], 300) if not told else rng.integers(0, 3, 300)
    group = rng.choice(["a", "b"], 300)
    y[(group == "a") & (y == 1)] = 2
    logs = 1.5 * np.eye(3)[y] + rng.normal(size=(300, 3)) + [0.0, -9.0 if not told else 0.0, 1.0]
    P = {"net": softmax(logs, axis=1)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        mix = RobustMixtureClassifier.from_probabilities(
            P, y, classes=[0, 1, 2], groups=group if told else None, by_group=told,
            objective="worst_cell" if told else "worst_class",
        )  # fmt: skip
    if told:
        return
    both = {"net": softmax(logs[:, [0, 2]], axis=1)}
    two = RobustMixtureClassifier.from_probabilities(both, y)
    assert np.array_equal(mix.predict(P), two.predict(both))


def test_groups_that_are_missing_are_named():
    P, y, group = biased(0, n=200)
    mix = RobustMixtureClassifier.from_probabilities(P, y, objective="worst_group", groups=group)
    refused(lambda: mix.tradeoff().predicted(P, y), "groups")


def group_mix():
    r = np.random.default_rng(0)
    table, groups = r.normal(size=(200, 3)), r.choice(["a", "b"], 200)
    y = (table[:, 0] + r.normal(size=200) > 0).astype(int)
    models = [("bayes", GaussianNB())]
    return (RobustMixtureClassifier(models, objective="worst_group", by_group=True), *(table, y, groups))


class Foreign(dict):
    """A table of another library: iterated by its columns, like polars', and can be turned into pandas'."""

    def __iter__(self):
        return iter(map(np.array, self.values()))

    @property
    def columns(self):
        return list(self.keys())

    def to_pandas(self):
        return pytest.importorskip("pandas").DataFrame({name: self[name] for name in self.columns})


@pytest.mark.parametrize("library", ["pandas", "polars", "stand-in"])
def test_a_table_of_by_group_may_have_other_columns(library):
    frame = Foreign if library == "stand-in" else pytest.importorskip(library).DataFrame
    mix, table, y, groups = group_mix()
    mix.fit(table, y, groups=frame({"region": groups}))
    told = mix.predict(table, groups=frame({"other": y, "region": groups}))
    np.testing.assert_array_equal(told, mix.predict(table, groups={"region": groups}))


def test_groups_of_kinds_without_an_order_are_refused_by_name():
    mix, table, y, _ = group_mix()
    refused(lambda: mix.fit(table, y, groups=np.array([1, "a"] * 100, dtype=object)), "not both")


@pytest.mark.parametrize("learner", [RobustMixtureClassifier, tb.GroupDROBoostClassifier])
def test_a_group_or_class_of_weight_zero_is_not_there(learner):
    """A row of weight 0 is ignored, also if its group or label has no other rows."""
    r = np.random.default_rng(0)
    table, groups, y = r.normal(size=(90, 2)), np.repeat(["a", "b", "c"], 30), np.arange(90) % 3
    made = partial(learner, GaussianNB(), n_estimators=2, random_state=0)
    if learner is RobustMixtureClassifier:
        made = partial(learner, [("bayes", GaussianNB())], objective="worst_group", random_state=0)
    weight = ((groups != "c") & (y < 2)).astype(float)
    used = weight > 0
    clf = made().fit(table, y, sample_weight=weight, groups=groups)
    same = made().fit(table[used], y[used], sample_weight=weight[used], groups=groups[used])
    assert (clf.groups_.tolist(), clf.classes_.tolist()) == (["a", "b"], [0, 1])
    fresh = r.normal(size=(50, 2))
    np.testing.assert_array_equal(clf.predict(fresh), same.predict(fresh))
    if learner is RobustMixtureClassifier:
        with pytest.warns(ResubstitutionWarning):
            other = clf.reweight(table, y, sample_weight=weight, groups=np.where(used, groups, "a"))
        assert other.classes_.tolist() == [0, 1]


def test_a_label_of_weight_zero_among_probabilities():
    _, y, P, _ = printed(3)
    used = np.arange(len(y)) % 4 > 0
    odd = np.where(used, y, 7)  # a label unknown to all models
    mix = RobustMixtureClassifier.from_probabilities(P, y)
    other = mix.reweight(P, odd, sample_weight=used.astype(float))
    same = mix.reweight({name: p[used] for name, p in P.items()}, y[used])
    np.testing.assert_array_equal(other.predict(P), same.predict(P))


@pytest.mark.parametrize("labels", [[0.0, 1.0, 2.0], [0, 1, 2], [1, 2, 10]])
@pytest.mark.parametrize("spell", [str, float, lambda x: str(float(x)), lambda x: str(int(x))])
def test_columns_are_the_labels_however_numbers_are_spelled(labels, spell):
    """Labels from a nullable column are 0.0 if the names of the columns are "0", and so on."""
    pandas = pytest.importorskip("pandas")
    _, y, P, _ = printed(3)
    labels, order = np.array(labels), [2, 0, 1]
    names = [spell(labels[k]) for k in order]
    named = {m: pandas.DataFrame(p[:, order], columns=names) for m, p in P.items()}
    mix = RobustMixtureClassifier.from_probabilities(named, labels[y])
    plain = RobustMixtureClassifier.from_probabilities(P, labels[y])
    np.testing.assert_array_equal(mix.predict(named), plain.predict(P))


def test_columns_named_by_truth_values():
    pandas = pytest.importorskip("pandas")
    _, y, P, _ = printed(3, K=2)
    plain = RobustMixtureClassifier.from_probabilities(P, y == 1)
    for names in ([True, False], ["True", "False"], [1, 0]):
        named = {m: pandas.DataFrame(p[:, ::-1], columns=names) for m, p in P.items()}
        np.testing.assert_array_equal(plain.predict(named), plain.predict(P))


class TestFrozenAlone:
    """Nothing is fitted: all given rows are selection data, and the messages are correct."""

    @staticmethod
    def mix(**params):
        model = GaussianNB().fit(X[::2], Y[::2])
        return RobustMixtureClassifier([("bayes", FrozenEstimator(model))], **params).fit(X[1::2], Y[1::2])

    def test_rows_had_a_part_in_the_choice_but_not_in_the_fit(self):
        for by, cv in zip([tb.certify, tb.calibrate] * 3, ["auto", 5, 0.3] * 2, strict=True):
            mix = self.mix(cv=cv, limits=["error <= .9"])
            refused(partial(by, mix, X[1::2], Y[1::2]), "selected", tb.LeakageError)

    def test_not_fitted(self):
        all_, cv = self.mix(), self.mix(cv=5)
        assert [all_.validation_, cv.validation_, "training" in cv.rates_.words] == ["frozen", "cv", False]
        assert [each.high for each in cv.rates_.lines] == [each.high for each in all_.rates_.lines]
        mix = RobustMixtureClassifier([("bayes", FrozenEstimator(GaussianNB()))])
        refused(lambda: mix.fit(X, Y), "GaussianNB")
        refused(lambda: mix.ledger_, "not fitted", NotFittedError)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_the_default_models_take_text_and_categories(tmp_path, weighted):
    pd, rng = pytest.importorskip("pandas"), np.random.default_rng(0)
    text, kind = rng.choice(["x", "y"], 200), pd.Categorical(rng.choice(["u", "v", "w"], 200))
    table = pd.DataFrame({"text": text, "kind": kind, "number": rng.normal(size=200)})
    y = np.where((table["number"] > 0) ^ (table["text"] == "x"), "late", "in time")
    weight = {"sample_weight": np.ones(150)} if weighted else {}
    mix = RobustMixtureClassifier(random_state=0).fit(table[:150], y[:150], **weight)
    assert list(mix.named_estimators_) == ["boosted", "forest", "linear"]
    for name in ("boosted", "forest"):  # the number alone would be right for half of the rows
        assert np.mean(mix.named_estimators_[name].predict(table[150:]) == (y[150:] == "late")) > 0.85
    tb.save_model(mix, tmp_path / "m.model")
    strange = table[150:].assign(text=["z", "x", None, "x", "y"] * 10)
    with pytest.warns(TableChangedWarning):
        again = tb.load_model(tmp_path / "m.model").predict(strange)
    with pytest.warns(TableChangedWarning):
        np.testing.assert_array_equal(again, mix.predict(strange))


def test_a_model_that_cannot_be_fitted_or_is_no_classifier_of_scikit_learn_is_named():
    class Duck:
        def fit(self, X, y):
            return self

        def predict_proba(self, X):
            return np.full((len(X), 2), 0.5)

    X, y = np.arange(20.0)[:, None], np.arange(20) % 2
    refused(lambda: tb.RobustMixtureClassifier([("quack", Duck())]).fit(X, y), "classifier", TypeError)
    rows = pytest.importorskip("pandas").DataFrame({"text": ["a", "b"] * 10})
    models = [("bayes", GaussianNB()), ("forest", RandomForestClassifier())]
    refused(lambda: RobustMixtureClassifier(models).fit(rows, y), "GaussianNB")


def test_a_pipeline_may_begin_with_a_step_that_is_left_out():
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    plain, piped = (
        RobustMixtureClassifier([("tree", model)], random_state=0).fit(X[:200], Y[:200])
        for model in (tree, make_pipeline("passthrough", tree))
    )
    np.testing.assert_array_equal(piped.predict(X), plain.predict(X))


def test_given_probabilities_are_certified_and_calibrated():
    _, y, P, _ = printed(5, K=3)
    half = np.arange(len(y)) % 2 == 0
    old, new = ({name: p[rows] for name, p in P.items()} for rows in (half, ~half))
    limits = [tb.rates.miss(1) <= 0.9]
    mix = RobustMixtureClassifier.from_probabilities(old, y[half], limits=limits)
    certificate = tb.certify(mix, new, y[~half], rates=limits)
    answers = tb.certify(mix.predict(new), None, y[~half], rates=limits)
    assert [b.upper for b in certificate.bounds] == [b.upper for b in answers.bounds]
    calibrated = tb.calibrate(mix, new, y[~half], limits=limits)
    assert calibrated.certificate_.certified
    assert not calibrated.certificate_.compared  # nobody knows the rows behind probabilities


def test_the_rows_of_a_frozen_learner_of_tailboost_are_unknown():
    trees = tb.learners.HistBoostClassifier(n_estimators=2).fit(X[TRAIN], Y[TRAIN])
    mix = RobustMixtureClassifier([("trees", FrozenEstimator(trees))]).fit(X[TEST], Y[TEST])
    assert not mix.records_.complete
    assert RobustMixtureClassifier(cv=2, random_state=0).fit(X[TEST], Y[TEST]).records_.complete
