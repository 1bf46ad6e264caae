"""One batch for `calibrate`: a fitted model, a random part for the selection, the rest for certificates."""

import re
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from conftest import refused
from scipy.stats import binom, chi2
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tailboost as tb
from tailboost import rates
from tailboost.classifiers.estimators import named_models
from tailboost.classifiers.one_batch import Batch, drawn_part
from tailboost.rates import checked_limits
from tailboost.rows.fingerprints import hash_rows, random_numbers
from tailboost.rows.recognised import CALIBRATED_ON
from tailboost.rows.rows import Rows


def on_part(model, given, *, limits, selection_share=None, by_group=False, objective=None):
    stated = {"objective": objective, "limits": checked_limits(limits), "by_group": by_group}
    parts = Batch(tb.TunedClassifier(named_models(model), **stated), given, None).parts(selection_share)
    return parts.classifier, parts.certifying


def test_continuous_labels_are_called_so():
    x = np.random.default_rng(0).normal(size=(200, 1))
    model = LogisticRegression().fit(x, x[:, 0] > 0)
    refused(lambda: tb.calibrate(model, x, x[:, 0], limits=["error <= .4"]), "continuous")


@pytest.mark.filterwarnings("ignore:X. whether these rows")
@pytest.mark.parametrize("kind", ["model", "function", "scores"])
def test_a_label_of_one_row_that_certifies_is_named(kind):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 1))
    y = np.where(x[:, 0] + rng.normal(size=400) > 0, "ill", "fit")
    fitted = LogisticRegression().fit(np.r_[x, [[9.0]]], [*y, "well"])
    models = {"model": (fitted, x), "function": (lambda X: fitted.predict_proba(X), x)}
    models["scores"] = tb.Scores([0, 1, 2], ["fit", "ill", "well"]), fitted.predict_proba(x)
    for i in 2, 7, 9:  # which certify
        labels = np.where(np.arange(400) == i, "well", y)
        call = lambda y=labels: tb.calibrate(*models[kind], y, limits=["error <= .9"])  # noqa: E731
        refused(call, "'well' in 1 of .*an attempt", tb.NotCertifiedError)


def of_two(X):
    return np.column_stack([1.0 - X[:, 0], X[:, 0]])


X_TRAINED = np.random.default_rng(0).random((300, 1))
OF_TWO = LogisticRegression().fit(X_TRAINED, X_TRAINED[:, 0] > 0.5)
OF_THREE = LogisticRegression().fit(X_TRAINED, (3 * X_TRAINED[:, 0]).astype(int))
STATING = SimpleNamespace(classes_=np.array([0, 1]), predict_proba=of_two)
MODELS = {"two": [OF_TWO, STATING], "columns": tb.Scores([0, 1], [0, 1]), "three": [OF_TWO, OF_THREE]}
MODELS |= {"function": of_two, "column": lambda X: X[:, 0], "stating": STATING}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n_other", [1, 2, 49, 50])
@pytest.mark.parametrize("limit", ["false_alarm(1) <= .1", "error() <= .3"])
@pytest.mark.parametrize("name", MODELS)
def test_a_label_in_few_rows_that_no_model_knows_is_an_attempt(name, limit, n_other):
    """If it is free, tables without it pass: a fifth of those at a limit at the boundary did."""
    rng, words = np.random.default_rng(n_other), ""
    y = np.r_[np.repeat(2, n_other), rng.integers(2, size=300)]
    p = np.where(y == 0, 0.3, 0.7) + rng.uniform(-0.25, 0.25, len(y))
    X = np.column_stack([p, 1.0 - p] if name == "columns" else [p])
    try:
        tb.calibrate(MODELS[name], X, y, limits=[limit])
    except ValueError as refused:
        words = str(refused)
    is_lacking = n_other == 2 if name == "three" else n_other < 50  # on one part, or for the models
    assert ("This was an attempt" in words) == is_lacking


class Population:
    """Two groups with Gaussian scores, which are the features: all rates of a threshold are known."""

    def __init__(self):
        self.share, self.positive = {"a": 0.6, "b": 0.4}, {"a": 0.4, "b": 0.25}
        self.means = {"a": (0.0, 1.8), "b": (0.3, 2.2)}  # of both labels

    def draw(self, n, rng):
        g = np.where(rng.random(n) < self.share["a"], "a", "b")
        y = (rng.random(n) < np.vectorize(self.positive.get)(g)).astype(int)
        centre = np.array([self.means[group][label] for group, label in zip(g, y, strict=True)])
        return pd.DataFrame({"s": centre + rng.normal(size=n)}), y, g


# Limits, an objective with counts at the edge of the test, and the largest level of a group. With a limit
# with room, the misses of two groups have nine tenths of the level. Two precisions or errors divide it.
EXACT = {
    "misses": (["miss(1, by=group) <= .2", "false_alarm(1, by=group) <= .9"], rates.selected(1), 0.0225),
    "precision": (["precision(1, by=group) >= .7"], rates.miss(1), 0.025),
    "errors": (["error(by=group) <= .3"], rates.selected(1), 0.025),
}


@pytest.mark.parametrize("name", EXACT)
def test_certified_counts_pass_the_exact_test_at_their_part_of_the_level(name):
    """Counted by hand on the certifying rows."""
    limits, objective, largest_level = EXACT[name]
    scores, edges = tb.Scores("s", 1, kind="logit"), 0
    for seed in range(5):
        T, y, g = Population().draw(1200, np.random.default_rng(seed))
        given = {"limits": limits, "objective": objective, "by_group": True}
        rest = T.index.isin(on_part(scores, Rows.read(T, y, g), **given)[1].X.index)
        rule = tb.calibrate(scores, T, y, groups=g, confidence=1 - 0.05 / 0.9, **given)
        answers, labels, groups = rule.predict(T[rest], groups=g[rest]), y[rest], g[rest]
        wrong, among, bound = answers == 0, labels == 1, 0.2
        if name == "precision":
            wrong, among, bound = labels == 0, answers == 1, 0.3
        elif name == "errors":
            wrong, among, bound = answers != labels, labels >= 0, 0.3
        p_values = []
        with_two_more = []  # further errors
        for group in "ab":
            k, n = (wrong & among & (groups == group)).sum(), (among & (groups == group)).sum()
            p_values.append(binom.cdf(k, n, bound))
            with_two_more.append(binom.cdf(k + 2, n + 2, bound))
        assert max(p_values) <= largest_level
        assert sum(p_values) <= 0.05
        edges += max(with_two_more) > largest_level or sum(with_two_more) > 0.05
    assert edges >= 1


def test_a_group_that_is_rare_on_one_part_is_not_rare_on_the_other():
    """A draw evenly from each of twenty equal groups makes the test of the rarest false in .38 of draws."""
    draws, false = 600, 0
    for seed in range(draws):
        g = np.random.default_rng(seed).integers(20, size=2000)
        selects = drawn_part(numbers(2000, seed), 0.3, [])
        rarest = np.bincount(g[selects], minlength=20).argmin()
        count, n = (g[~selects] == rarest).sum(), (~selects).sum()
        false += binom.cdf(count, n, 1 / 20) <= 0.05
    assert false <= draws * 0.05 + 3 * np.sqrt(draws * 0.05 * 0.95)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_best_of_equal_thresholds_is_rarely_certified():
    """The label is a coin, and groups divide the score: no threshold has the precision of the limit."""
    draws, false = 300, 0
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        u = rng.random(3000)
        T, y = pd.DataFrame({"s": 0.2 + 0.6 * u}), (rng.random(3000) < 0.5).astype(int)
        given = {"groups": (10 * u).astype(int), "selection_share": 0.1, "confidence": 1 - 0.05 / 0.9}
        try:
            tb.calibrate(tb.Scores("s", 1), T, y, limits=["precision(1) >= .5001"], **given)
        except (tb.NotCertifiedError, ValueError):  # also refused: scores that rank the labels in reverse
            continue
        false += 1
    assert false <= draws * 0.05 + 2 * np.sqrt(draws * 0.05 * 0.95)


def numbers(n, seed):
    """Return the numbers of n different rows for another hash in each draw."""
    return random_numbers(hash_rows(np.arange(float(n))[:, None], seed=seed))


def test_rows_are_drawn_independently():
    """The counts of a stratum among the drawn rows are binomial."""
    stratum = np.repeat([0, 1, 2, 3], [1, 3, 40, 156])
    draws = np.array([drawn_part(numbers(200, seed), 0.3, []) for seed in range(2000)])
    assert np.abs(draws.mean(axis=0) - 0.3).max() < 5 * np.sqrt(0.3 * 0.7 / 2000)
    for k, size in enumerate([1, 3, 40, 156]):
        found = np.bincount(draws[:, stratum == k].sum(axis=1), minlength=size + 1)
        expected = 2000 * binom(size, 0.3).pmf(np.arange(size + 1))
        often = expected > 5
        assert ((found - expected)[often] ** 2 / expected[often]).sum() < chi2(often.sum()).ppf(0.999)


def test_a_larger_share_draws_the_same_rows_and_further_ones():
    draws = [drawn_part(numbers(200, 3), share, []) for share in (0.1, 0.2, 0.5)]
    assert (draws[0] <= draws[1]).all()
    assert (draws[1] <= draws[2]).all()


def test_further_rows_are_drawn_until_a_small_group_selects_and_the_others_stay_independent():
    """Two tests of the share of the group on the other rows are as rarely false as their level."""
    n, chance, low, high, extended, left = 300, 0.015, 0, 0, 0, []
    draws = 1000
    for seed in range(draws):
        g = (np.random.default_rng(seed).random(n) < chance).astype(int)
        of_rows = numbers(n, seed)
        selects = drawn_part(of_rows, 0.1, needed=[g])
        if g.sum() > 1:
            assert g[selects].any() or (selects == (of_rows < 0.5)).all()
        extended += selects.sum() > (of_rows < 0.1).sum()
        count, n_others = g[~selects].sum(), (~selects).sum()
        left.append((count - n_others * chance) / np.sqrt(n_others * chance * (1 - chance)))
        low += binom.cdf(count, n_others, chance) <= 0.1
        high += binom.sf(count - 1, n_others, chance) <= 0.1
    assert extended > 0.375 * draws
    assert np.mean(left) == pytest.approx(0.0, abs=4 / np.sqrt(draws))
    assert max(low, high) <= draws * 0.1 + 3 * np.sqrt(draws * 0.09)


def test_names_of_groups_and_other_groups_do_not_change_the_rule():
    T, y, g = Population().draw(900, np.random.default_rng(3))
    other = np.random.default_rng(0).integers(3, size=900)
    named = np.where(g == "a", "second", "first")
    tables = [{"site": g}, {"site": named}, {"other": other, "site": g}]
    rules = []
    for table in tables:
        given = {"limits": ["miss(1, by=site) <= .3"], "groups": table, "by_group": "site"}
        rule = tb.calibrate(tb.Scores("s", 1, kind="logit"), T, y, **given)
        rules.append(rule.predict(T, groups=table))
    np.testing.assert_array_equal(rules[0], rules[1])
    np.testing.assert_array_equal(rules[0], rules[2])


def selecting_and_certifying(monkeypatch, arguments, **asked):
    """Return the table and labels of the rows that select, and the rows for certificates."""
    selecting, own = [], tb.TunedClassifier._learn

    def recorded(classifier, rows, **given):
        selecting.append((rows.X, rows.labels))
        return own(classifier, rows, **given)

    monkeypatch.setattr(tb.TunedClassifier, "_learn", recorded)
    _, certifying = on_part(tb.Scores("s", 1, kind="logit"), arguments, **asked)
    return selecting[0], certifying


@pytest.mark.parametrize("share", [0.1, 0.3, 0.8])
def test_each_row_selects_or_certifies(share, monkeypatch):
    T, y, g = Population().draw(400, np.random.default_rng(1))
    asked = {"limits": ["precision(1) >= .6"], "selection_share": share}
    (X, labels), certifying = selecting_and_certifying(monkeypatch, Rows.read(T, y, g), **asked)
    assert len(X) == pytest.approx(400 * share, abs=4 * np.sqrt(400 * share * (1 - share)))
    assert sorted([*X.index, *certifying.X.index]) == list(range(400))
    np.testing.assert_array_equal(labels, y[X.index])
    np.testing.assert_array_equal(certifying.labels, y[certifying.X.index])
    np.testing.assert_array_equal(certifying.columns[None], g[certifying.X.index])


def test_each_cluster_selects_or_certifies(monkeypatch):
    T, y, g = Population().draw(400, np.random.default_rng(2))
    person = np.random.default_rng(0).integers(90, size=400)
    arguments = Rows.read(T, y, g, clusters=person)
    (X, _), certifying = selecting_and_certifying(monkeypatch, arguments, limits=["precision(1) >= .6"])
    assert {*person[X.index]}.isdisjoint(person[certifying.X.index])
    assert sorted([*X.index, *certifying.X.index]) == list(range(400))
    np.testing.assert_array_equal(certifying.clusters, person[certifying.X.index])


def test_a_certificate_counts_no_selecting_row(monkeypatch):
    """Each bound counts the certifying rows of its label."""
    T, y, _ = Population().draw(900, np.random.default_rng(3))
    asked = {"limits": ["miss(1) <= .4", "false_alarm(1) <= .6"], "selection_share": 0.3}
    (X, labels), _ = selecting_and_certifying(monkeypatch, Rows.read(T, y), **asked)
    certificate = tb.calibrate(tb.Scores("s", 1, kind="logit"), T, y, **asked).certificate_
    assert certificate.n_rows == 900 - len(X)
    assert [bound.n for bound in certificate.bounds] == [
        y.sum() - labels.sum(), (y == 0).sum() - (labels == 0).sum(),
    ]  # fmt: skip


def test_clusters_stay_together():
    rng = np.random.default_rng(0)
    T, y, g = Population().draw(600, rng)
    homes = np.unique(rng.integers(200, size=600), return_inverse=True)[1]
    given, scores = Rows.read(T, y, g, clusters=homes), tb.Scores("s", 1, kind="logit")
    classifier, certifying = on_part(scores, given, limits=["precision(1) >= .7"])
    kept = set(np.asarray(certifying.clusters))
    assert len(classifier.selection_.models.rows) + len(certifying.X) == 600
    assert kept.isdisjoint(set(homes) - kept)
    assert (np.isin(homes, list(kept)).sum()) == len(certifying.X)
    assert abs(len(kept) - 0.7 * len(set(homes))) <= 4 * np.sqrt(0.21 * len(set(homes)))
    tb.calibrate(scores, T, y, limits=["precision(1) >= .6"], groups=g, clusters=homes)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(3000, 3)), np.zeros(3000, dtype=int)
    y[:] = X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=3000) > 0.3
    return X, y, np.where(rng.random(3000) < 0.5, "x", "z")


@pytest.fixture(scope="module")
def model(data):
    X, y, _ = data
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(X[:800], y[:800])


FORMS = {
    "pipeline": lambda model: model, "function": lambda model: lambda X: model.predict_proba(X),
    "list": lambda model: [model, model], "dict": lambda model: {"one": model},
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*rows trained the model is not checked")
@pytest.mark.parametrize("form", FORMS)
def test_any_model_that_tune_takes(form, model, data):
    X, y, _ = data
    rows = slice(800, 2500)
    rule = tb.calibrate(FORMS[form](model), X[rows], y[rows], limits=["precision(1) >= .75"])
    assert rule.certificate_.certified
    assert rule.certificate_.n_rows == pytest.approx(1190, abs=80)
    for part in (rows, slice(800, 1600), slice(1000, 2500, 2)):
        with pytest.raises(tb.LeakageError):
            tb.certify(rule, X[part], y[part])
        with pytest.raises(tb.LeakageError):
            tb.Monitor(rule).add(X[part], y[part])
    assert tb.certify(rule, X[2500:], y[2500:]).bounds[-1].lower > 0.6


def test_both_parts_of_given_scores_are_used_up(data):
    T, y, g = Population().draw(900, np.random.default_rng(3))
    scores = tb.Scores("s", 1, kind="logit")
    asked = {"limits": ["miss(1, by=group) <= .3"], "by_group": True, "selection_share": 0.2}
    rule = tb.calibrate(scores, T, y, groups=g, **asked)
    _, certifying = on_part(scores, Rows.read(T, y, g), **asked)
    rest = T.index.isin(certifying.X.index)
    assert rest.sum() == rule.certificate_.n_rows
    assert {bound.method for bound in rule.certificate_.bounds} == {"ranks"}
    assert CALIBRATED_ON in [rows.use for rows in rule.records_.used]
    for rows in (rest, ~rest):
        with pytest.raises(tb.LeakageError):
            tb.certify(rule, T[rows], y[rows], groups=g[rows])


@pytest.mark.filterwarnings("ignore:.*rows trained the model is not checked")
def test_a_selected_classifier_is_calibrated_as_before(model, data):
    X, y, _ = data
    limits = [rates.precision(1) >= 0.75]
    first, second = (tb.tune(model, X[800:1300], y[800:1300], limits=limits) for _ in range(2))
    rule = tb.calibrate(first, X[1300:2500], y[1300:2500])
    same = tb.calibrate(second, X[1300:2500], y[1300:2500])
    assert rule.certificate_.to_dict() == same.certificate_.to_dict()
    assert rule.certificate_.n_rows == 1200
    for given in ({"selection_share": 0.2}, {"by_group": True}):
        refused(lambda: tb.calibrate(first, X[1300:2500], y[1300:2500], **given), "TunedClassifier")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*rows trained the model is not checked")
def test_errors_by_class_of_any_model(model, data):
    X, y, g = data
    rule = tb.calibrate(model, X[800:], y[800:], limits=[tb.rates.error(by="class") <= 0.35])
    assert [bound.name for bound in rule.certificate_.bounds] == ["0", "1"]
    rule = tb.calibrate(model, X[800:], y[800:], limits=["error(by=g) <= 35%"], groups={"g": g[800:]})
    assert [bound.name for bound in rule.certificate_.bounds] == ["x", "z"]


@pytest.mark.filterwarnings("ignore:.*rows trained the model is not checked")
@pytest.mark.filterwarnings("ignore::tailboost.exceptions.DeferredRowsWarning")
@pytest.mark.parametrize(("n_classes", "more"), [(3, "deferred <= 30%"), (5, "error <= 40%")])
def test_more_than_three_answers_are_certified(n_classes, more):
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, 4000)
    X = np.eye(n_classes)[y] + 0.3 * rng.normal(size=(4000, n_classes))
    model = LogisticRegression().fit(X[:1000], y[:1000])
    rule = tb.calibrate(model, X[1000:2000], y[1000:2000], limits=["error(by=class) <= 40%", more])
    assert rule.certificate_.certified
    assert max(np.mean(rule.predict(X[2000:])[y[2000:] == k] != k) for k in range(n_classes)) <= 0.4


@pytest.mark.filterwarnings("ignore:.*rows trained the model is not checked")
def test_equal_rows_of_a_batch_are_different_rows(data):
    """Features with few values make the parts equal by content."""
    X, y, _ = data
    X = X.round()
    model = LogisticRegression().fit(X[:800], y[:800])
    assert tb.calibrate(model, X[800:], y[800:], limits=["miss(1) <= .4"]).certificate_.certified


@pytest.mark.filterwarnings("ignore:.*rows trained the model is not checked")
def test_a_failed_attempt_counts_if_it_is_given(model, data):
    X, y, _ = data
    with pytest.raises(tb.NotCertifiedError, match="previous") as failed:
        tb.calibrate(model, X[800:1000], y[800:1000], limits=["precision(1) >= .9"])
    rule = tb.calibrate(model, X[1000:], y[1000:], limits=["precision(1) >= .7"], previous=failed.value)
    assert len(rule.certificate_.attempts) == len(rule.ledger_.attempts) == 2
    with pytest.raises(tb.LeakageError, match="earlier"):
        tb.calibrate(model, X[800:1400], y[800:1400], limits=["precision(1) >= .7"], previous=failed.value)
    for held in ([rule], {"a rule": rule}, rule.predict_proba):  # also without a label
        with pytest.raises(tb.NotCertifiedError, match="one class") as failed:
            tb.calibrate(held, X[:9], np.ones(9, int), limits=["precision(1) >= .7"])
        assert [each.spent for each in failed.value.attempts] == pytest.approx([0.9, 0.09, 0.009])


@pytest.mark.parametrize(("given", "error", "says"), [
    ({"limits": ["miss(1) <= .3"], "selection_share": 1.2}, ValueError, "selection_share"),
    ({"limits": ["miss(1) <= .3"], "by_grup": True}, TypeError, "by_grup"), ({}, ValueError, "limits"),
    ({"limits": ["miss(1, by=group) <= .3"]}, ValueError, "groups"),
    ({"limits": ["miss(1) <= .3"], "groups": ["a"]}, ValueError, "groups"),
])  # fmt: skip
def test_bad_input_is_named(given, error, says, model, data):
    X, y, _ = data
    refused(lambda: tb.calibrate(model, X[800:1000], y[800:1000], **given), re.escape(says), error)


def test_a_group_without_selecting_rows_is_named():
    T, y, g = Population().draw(300, np.random.default_rng(5))
    g = g.astype("<U4")
    g[0] = "rare"
    given = {"limits": ["miss(1, by=group) <= .4"], "groups": g, "by_group": True, "selection_share": 0.05}
    refused(lambda: tb.calibrate(tb.Scores("s", 1, kind="logit"), T, y, **given), "rare")
    y[:], y[7] = 0, 1
    refused(lambda: tb.calibrate(tb.Scores("s", 1, kind="logit"), T, y, limits=["miss(1) <= .4"]), "y: ")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_group_without_certifying_rows_is_named_and_spends_nothing():
    """A single row is in one part. The message names the part without the group, before any test."""
    T, y, g = Population().draw(300, np.random.default_rng(5))
    g = g.astype("<U4")
    g[0] = "rare"
    scores, given = tb.Scores("s", 1, kind="logit"), {"groups": g, "selection_share": 0.5}
    refused(lambda: tb.calibrate(scores, T, y, limits=["miss(1, by=group) <= .4"], **given), "rare")
    # A group without a limit may be missing in a part.
    given["groups"] = {"site": g, "half": np.where(np.arange(300) % 2, "a", "b")}
    assert tb.calibrate(scores, T, y, limits=["miss(1, by=half) <= .4"], **given).certificate_.certified


def test_too_few_rows_no_model_and_models_of_one_name(model, data):
    X, y, _ = data
    limits, table = ["miss(1) <= .3"], pd.DataFrame(X, columns=["p", "q", "p 1"])
    refused(lambda: tb.calibrate(model, X[:1], y[:1], limits=limits), "class")
    refused(lambda: tb.calibrate(LogisticRegression(), X[800:], y[800:], limits=limits), "fitted", Exception)
    scores = [tb.Scores(column, 1, kind="number") for column in ("p", "p", "p 1")]  # called p 1, p 2 and p 1
    for models in (scores, [("a", model), ("a", model)]):
        refused(lambda: tb.tune(models, table, y), "unique")
        refused(lambda: tb.calibrate(models, table, y, limits=limits), "unique")
    for models, says in (([], "must"), ({"a": object()}, "'a'"), ({1: model}, "a name.* 1")):
        refused(lambda: tb.tune(models, table, y), f"^models.*{says}", (TypeError, ValueError))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("by_group", [True, False])
def test_a_ratio_that_only_one_answer_keeps_is_not_certified(by_group):
    rng, n = np.random.default_rng(0), 3_000
    p, y = rng.random(n), (rng.random(n) < 0.2).astype(int)  # the score knows nothing
    groups, limits = np.where(np.arange(n) % 3 == 0, "few", "many"), ["ratio(selected(1, by=group)) >= .8"]
    given = {"groups": groups, "limits": limits, "by_group": by_group}
    with pytest.raises(tb.NotCertifiedError):
        tb.calibrate(tb.Scores("p", 1), pd.DataFrame({"p": p}), y, **given)


def test_a_rule_that_answers_nearly_all_rows_alike_is_called_useless():
    """False alarms in half a percent leave less than a hundredth of the rows to the rare label."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"p": rng.random(5_000) / 50})
    y = (rng.random(5_000) < table["p"]).to_numpy().astype(int)
    asked = {"limits": ["false_alarm(1) <= .5%"], "objective": "miss(1)"}
    with pytest.warns(tb.UselessRuleWarning) as caught:
        rule = tb.calibrate(tb.Scores("p", 1), table, y, **asked)
    share = np.mean(rule.predict(table) == 0)
    assert 0.99 < share < 1
    assert f" {share:.1%}" in str(caught[-1].message)


def made_table(n=800):
    rng = np.random.default_rng(5)
    p = np.round(rng.random(n), 2)  # with equal scores
    return pd.DataFrame({"p": p}), np.where(rng.random(n) < p, "toxic", "ok"), rng.choice(list("ab"), n)


@pytest.mark.parametrize("pairs", [[(None, "human review")], [("toxic", "human review")]])
def test_a_custom_limit_on_deferral_leaves_nine_tenths_of_the_rows_to_certify(pairs):
    reviewed = rates.custom("reviewed", pairs, among=[(pairs[0][0], None)]) <= 0.6
    limits, (table, y, _) = [reviewed, "miss(toxic) <= .3"], made_table(2_000)
    rule = tb.calibrate(tb.Scores("p", "toxic"), table, y, limits=limits)
    assert 0.001 < binom.cdf(rule.certificate_.n_rows, 2_000, 0.9) < 0.999


def test_contradicting_limits_spend_no_attempt():
    table, y, _ = made_table()
    model = tb.tune(tb.Scores("p", "toxic"), table[:400], y[:400], limits=["miss(toxic) <= .4"])
    table, y = table[400:], y[400:]
    with pytest.raises(tb.InfeasibleLimitsError):
        tb.calibrate(model, table, y, limits=["miss(toxic) <= .05", "false_alarm(toxic) <= .05"])
    for cost in ("[[0, 5], [10, 0]]) <= .5", "[[-5, -1], [-1, -5]]) >= -.5"):  # the other rows may keep them
        batch = tb.Scores("p", "toxic"), table, y
        refused(lambda: tb.calibrate(*batch, limits=[f"cost({cost}"]), "[-]?0.5", tb.NotCertifiedError)
    assert len(tb.calibrate(model, table, y, limits=["miss(toxic) <= .4"]).certificate_.attempts) == 1


def test_a_contradiction_on_the_selecting_rows_of_a_batch_is_an_attempt():
    """The shares of three answers sum to one, so not all of them are at most a fifth."""

    def batch(seed):
        draws = np.random.default_rng(seed)
        P = draws.dirichlet(np.ones(3), 600)
        return pd.DataFrame(P, columns=labels), np.array([draws.choice(labels, p=p) for p in P])

    labels = ["a", "b", "c"]
    scores = tb.Scores(labels, labels)
    with pytest.raises(tb.NotCertifiedError, match="contradict") as caught:
        tb.calibrate(scores, *batch(0), limits=[f"selected({label}) <= 20%" for label in labels])
    asked = {"limits": ["miss(a) <= 60%"], "previous": caught.value}
    refused(lambda: tb.calibrate(scores, *batch(0), **asked), "attempt", tb.LeakageError)
    attempts = tb.calibrate(scores, *batch(1), **asked).certificate_.attempts
    assert [each.spent for each in attempts] == pytest.approx([0.9, 0.09])


@pytest.mark.parametrize("clustered", [False, True])
def test_the_split_is_the_same_for_every_order_of_rows_and_columns(clustered):
    """Half of the rows are equal, also in their groups; numbers name the rows of one content alike."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"p": rng.integers(1, 6, size=300) / 7.0, "other": rng.integers(2, size=300)})
    y, groups = rng.integers(2, size=300), pd.DataFrame(rng.integers(2, size=(300, 2)), columns=list("gh"))
    homes = np.sort(rng.integers(60, size=300)) if clustered else None
    found = []
    for k in range(20):
        order = rng.permutation(300) if k else np.arange(300)
        form = [int, bool, float, str][k % 4]  # of the labels and groups
        table, names = (each.iloc[order, [k % 2, 1 - k % 2]] for each in (X, groups))
        persons = homes[order] if clustered else None
        given = Rows.read(table, y.astype(form)[order], names.astype(form), clusters=persons)
        rest = on_part(tb.Scores("p", form(1)), given, limits=["error(by=g) <= .6"], selection_share=0.3)[1]
        numbers = dict(zip(rest.names.titles, rest.groups.T, strict=True))
        names = rest.X[["p", "other"]].assign(**numbers, y=rest.y, home=rest.clusters if clustered else 0)
        found.append(sorted(names.to_numpy().tolist()))
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize("clustered", [False, True])
def test_the_order_of_the_rows_changes_nothing(clustered):
    table, y, g = made_table()
    homes, found = np.arange(800) // 2, []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(800)
        X, of_rows = table.iloc[order].reset_index(drop=True), {"groups": g[order]}
        of_rows["clusters"] = homes[order] if clustered else None
        limits = ["miss(toxic, by=group) <= .4"]
        rule = tb.calibrate(tb.Scores("p", "toxic"), X, y[order], limits=limits, **of_rows)
        found.append((str(rule.rule_), [(b.title, b.estimate) for b in rule.certificate_.bounds]))
    assert found[0] == found[1] == found[2]


def test_a_certificate_says_that_earlier_calls_on_its_rows_are_not_known_without_previous():
    """Scores have no ledger: a second call with other limits passes, and is refused with previous=."""
    X, y, _ = Population().draw(1_000, np.random.default_rng(0))
    scores = tb.Scores("s", 1, kind="logit")
    words = "Earlier calls on these rows are not known without previous=."
    first, second = (tb.calibrate(scores, X, y, limits=[f"miss(1) <= {most}%"]) for most in (60, 50))
    assert words in first.certificate_.assumptions
    assert words in second.certificate_.assumptions
    with pytest.raises(tb.LeakageError, match="earlier"):
        tb.calibrate(scores, X, y, limits=["miss(1) <= 50%"], previous=first)
    new_X, new_y, _ = Population().draw(1_000, np.random.default_rng(1))
    third = tb.calibrate(scores, new_X, new_y, limits=["miss(1) <= 70%"], previous=first)
    assert words not in third.certificate_.assumptions


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.SmallSubgroupsWarning")
@pytest.mark.parametrize("seed", range(4))
def test_rates_are_those_of_predict_where_a_row_is_at_the_threshold(seed):
    """No ill row of the small group may be missed, so its smallest score bounds the threshold."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2400, 2))
    y = (X[:, 0] + rng.normal(size=2400) > 0).astype(int)
    g = np.where(np.arange(2400) < 2340, "large", "small")
    trained, model = X[:400], LogisticRegression().fit(X[:400], y[:400])
    X, y, g = X[400:], y[400:], g[400:]
    rule = tb.calibrate(model, X, y, groups={"g": g}, limits=["miss(1, by=g) <= 35%"], training_rows=trained)
    missed = rule.predict(X) != 1
    for line in rule.rates_:
        if line.subgroup in ("large", "small"):
            ill = (g == line.subgroup) & (y == 1)
            assert line.value == pytest.approx(missed[ill].mean())


@pytest.mark.parametrize(("limit", "by_group", "words"), [
    ("miss(1, by=g) <= 60%", "g", "not seen in fit, in 2 of"),
    (rates.miss(1, by="g") <= {0: 0.4}, False, "no subgroup is called 0"),
    (rates.miss(1, by="h") <= {0: 0.6}, False, ""), (rates.error(by="class") <= {0: 0.6}, False, ""),
])  # fmt: skip
def test_a_group_without_a_row_that_selects_is_named_before_a_test(limit, by_group, words):
    """Both rows of the group may certify; then the refusal says so, and no rule was tested.

    A limit by another column or by label may name a group that is called alike.
    """
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=300)
    X = pd.DataFrame({"p": (0.3 * y + 0.7 * rng.random(300)).round(6)})
    g = np.where(np.arange(300) < 2, 0, 1 + np.arange(300) % 2)  # two rows: one may select, both may certify
    given = {"by_group": by_group, "limits": [limit, "precision(1) >= .5"], "selection_share": 0.3}
    scores, refused = tb.Scores("p", 1), []
    for seed in range(12):
        order = np.random.default_rng(seed).permutation(300)
        groups = pd.DataFrame({"g": g[order], "h": np.arange(300) % 2})
        try:
            tb.calibrate(scores, X, y, groups=groups, **given)
        except ValueError as failure:
            refused.append(str(failure))
    named = [each for each in refused if "not seen" in each or "no subgroup" in each]
    assert bool(named) == bool(words)
    assert all(words in each for each in named)


@pytest.mark.parametrize("call", [tb.tune, tb.calibrate])
def test_a_row_of_a_column_of_scores_takes_at_most_150_bytes(call):
    uniform = np.random.default_rng(0).random((200_000, 2))
    table, y = pd.DataFrame({"p": uniform[:, 0]}), uniform[:, 1] < uniform[:, 0]
    tracemalloc.start()
    call(tb.Scores("p", True), table, y, limits=["miss(True) <= 30%"])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 150 * len(y)
