"""Deferred rows: the same rows in every form of a rule, and their rates."""

import pickle
import re
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from conftest import refused
from scipy.special import expit
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, recall_score

import tailboost as tb
from tailboost import RobustMixtureClassifier, rates
from tailboost.selection.door import answering

N = 900
RNG = np.random.default_rng(0)
X, _Y = make_classification(
    N, 6, n_informative=4, n_redundant=0, n_classes=3, flip_y=0.1, n_clusters_per_class=1, random_state=1
)
Y = np.array(["no", "maybe", "yes"])[_Y]
SEX = np.where(X[:, 0] + RNG.normal(size=N) > 0, "m", "f")
GROUPS = {"sex": SEX}
LIMITS = [rates.deferred() <= 0.1, rates.deferred(by="sex") <= 0.12]
GOAL = rates.largest(rates.answered_error(by="cell"))
MODEL = LogisticRegression(max_iter=500).fit(X[:300], Y[:300])
P = {"model": MODEL.predict_proba(X)}

pytestmark = pytest.mark.filterwarnings("ignore:.*few rows", "ignore:passing rows on")


def judged(**params):
    return RobustMixtureClassifier.from_probabilities(P, Y, groups=GROUPS, **params)


@pytest.fixture(scope="module")
def mix():
    models = [("lr", LogisticRegression(max_iter=500)), ("trees", HistGradientBoostingClassifier(max_iter=4))]
    made = RobustMixtureClassifier(models, objective=GOAL, limits=LIMITS, cv=2, random_state=0)
    return made.fit(X[:500], Y[:500], groups={"sex": SEX[:500]})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tailboost.exceptions.DeferredRowsWarning")
def test_the_same_rows_are_passed_on_one_by_one_in_threads_and_elsewhere(mix, tmp_path):
    passed, answers = mix.defers(X), mix.predict(X)
    assert 0 < passed.mean() < 0.2
    alone = [i for i in range(0, N, 45)]
    assert [bool(mix.defers(X[[i]])[0]) for i in alone] == passed[alone].tolist()
    parts = np.array_split(np.arange(N), 16)
    with ThreadPoolExecutor(8) as pool:
        assert (np.concatenate([*pool.map(lambda rows: mix.defers(X[rows]), parts)]) == passed).all()
    tb.save_model(mix, tmp_path / "m.model")
    for other in (tb.load_model(tmp_path / "m.model"), pickle.loads(pickle.dumps(mix))):
        assert (other.defers(X) == passed).all()
        assert (other.predict(X) == answers).all()
        assert answering(other).rule.defers
        again = other.reweight(limits=[rates.deferred() <= 0.02])
        assert again.defers(X).mean() < passed.mean()


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.DeferredRowsWarning")
def test_the_label_is_said_of_rows_that_are_passed_on_too(mix):
    """If only the cost of deferral changes, labels stay: they minimise the other costs."""
    passed, answers = mix.defers(X), mix.predict(X)
    assert len(set(answers[passed])) > 1
    right, noise = np.mean(answers[passed] == Y[passed]), np.sqrt(2 / 9 / np.count_nonzero(passed))
    assert right > 1 / 3 - 2 * noise  # the hardest rows, but no worse than one label of three for all of them


MARKS = [
    (np.array(["no", "maybe", "yes"]), "sent to a human", "U"), (np.array([0, 1, 2]), "human", "O"),
    (np.array([0, 1, 2]), "1", "O"), (np.array([0, 1, 2]), -1, "i"),
    (np.array([0, 1, 2]), float("nan"), "O"), (np.array(["0", "1", "2"]), 1, "O"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.DeferredRowsWarning")
@pytest.mark.parametrize(("labels", "mark", "kind"), MARKS, ids=str)
def test_predict_marks_deferred_rows(labels, mark, kind):
    model = LogisticRegression(max_iter=500).fit(X[:300], labels[_Y[:300]])
    mix = tb.tune(model, X[300:], labels[_Y[300:]], limits=LIMITS[:1])
    plain, passed = mix.predict(X), mix.defers(X)
    assert 0 < passed.sum() < N / 2
    probabilities = {"LogisticRegression": model.predict_proba(X)}
    for found in (mix.predict(X, deferred=mark), mix.predict(probabilities, deferred=mark)):
        assert found.dtype.kind == kind
        assert found[~passed].tolist() == plain[~passed].tolist()
        assert [*map(type, found[~passed].tolist())] == [*map(type, plain[~passed].tolist())]
        assert all(one == mark or one != one for one in found[passed].tolist())
    for ask in (lambda **d: mix.predict(X, **d), lambda **d: mix.predict(probabilities, **d)):
        refused(lambda: ask(deferred=labels[1].item()), "label")
        refused(lambda: ask(deferred=["human"] * N), "value")
        assert ask().tolist() == plain.tolist()


def test_predict_warns_of_labels_of_deferred_rows_in_every_form(tmp_path):
    scores = pd.DataFrame({"p": expit(X[:, 0])})
    ill = (np.random.default_rng(0).random(N) < scores["p"]).astype(int).to_numpy()
    limits = ["miss(1) <= 30%", "deferred() <= 30%"]
    selected = tb.tune(tb.Scores("p", 1), scores[:800], ill[:800], limits=limits)
    is_deferred = selected.defers(scores)
    assert is_deferred.any()
    with pytest.warns(tb.DeferredRowsWarning, match="limits") as caught:
        labels = selected.predict(scores)
    assert caught[0].filename == __file__
    assert labels.dtype == ill.dtype
    (tmp_path / "rule.json").write_text(selected.rule_.to_json())
    loaded = tb.load_rule(tmp_path / "rule.json")
    rule = tb.calibrate(tb.Scores("p", 1), scores[:800], ill[:800], limits=limits)
    with warnings.catch_warnings():
        warnings.simplefilter("error", tb.DeferredRowsWarning)
        marked = selected.predict(scores, deferred="human review")
        narrow = tb.tune(tb.Scores("p", 1), scores[:800], ill[:800].astype(np.int8), limits=limits)
        assert {*narrow.predict(scores, deferred=257).tolist()} == {0, 1, 257}
        assert loaded.predict(scores["p"]).tolist() == marked.tolist()
        selected.predict(scores[~is_deferred])
        assert "human review" in rule.predict(scores)
        # Other parts of the library count these rows as deferred.
        tb.certify(selected, scores[800:], ill[800:], rates=limits[:1])
        tb.Monitor(rule).add(scores[800:], ill[800:])


def test_rules_on_probabilities_answer_human_review():
    mix = judged(objective=GOAL, limits=LIMITS)
    marked = mix.predict(P, deferred="human review")
    assert "human review" in marked
    assert mix.rule_.predict(P).tolist() == marked.tolist()


def test_a_rule_that_never_defers_marks_no_row():
    plain = judged(objective="error")
    assert not answering(plain).rule.defers
    assert not plain.defers(P).any()
    assert plain.predict(P, deferred="human").tolist() == plain.predict(P).tolist()


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.DeferredRowsWarning")
def test_the_table_of_rates_is_what_counting_gives():
    some, y, groups = {"model": P["model"][:400]}, Y[:400], {"sex": SEX[:400]}
    given = {"groups": groups, "objective": GOAL, "limits": LIMITS, "by_group": True}
    mix = RobustMixtureClassifier.from_probabilities(some, y, **given)
    answers, passed = mix.predict(some, groups=groups), mix.defers(some, groups=groups)
    for rate in (rates.answered_error(by="cell"), rates.deferred(by="sex"), rates.deferred()):
        counted = rates.measure(rate, y, answers, groups=groups, deferred=passed)
        said = {line.subgroup: line.value for line in mix.rates_ if line.rate == str(rate)}
        assert said == pytest.approx(counted)
    assert mix.limits_met_
    refused(lambda: mix.defers(some), "groups")


def test_weights_are_rows():
    w = RNG.integers(0, 3, size=N)
    twice, limits = np.repeat(np.arange(N), w), [rates.deferred() <= 0.1]
    weighted = RobustMixtureClassifier.from_probabilities(P, Y, sample_weight=w, limits=limits)
    P_twice = {"model": P["model"][twice]}
    repeated = RobustMixtureClassifier.from_probabilities(P_twice, Y[twice], limits=limits)
    assert (weighted.defers(P) == repeated.defers(P)).mean() > 0.99
    seen = np.average(weighted.defers(P), weights=w)
    assert seen == pytest.approx(0.1, abs=3e-3)


def test_a_point_of_a_curve_is_taken_by_a_limit_in_percent():
    rng = np.random.default_rng(0)
    p = rng.random(1_000)
    y = (rng.random(1_000) < p).astype(int)
    curve = tb.tune(tb.Scores(0, label=1), p[:, None], y, limits=["miss(1) <= 30%"]).tradeoff()
    as_text, as_number = curve.at("40%"), curve.at(0.4)
    assert as_text.rule_.to_sql() == as_number.rule_.to_sql()
    assert (rates.miss(1, by="sex") <= {"f": "40%", "m": 0.3}).bound == (("f", 0.4), ("m", 0.3))
    for wrong in ("forty", "0.4", True):
        refused(lambda: curve.at(wrong), "number", TypeError)
    # A rate that should be large is limited from above as its complement alone.
    label = {"recall": 1, "specificity": 0}
    scores = {"recall": (0.1, recall_score), "specificity": (0.16, recall_score), "f_score": (0.23, f1_score)}
    for kind, (most, measured) in scores.items():
        refused(lambda: as_text.tradeoff(f"{kind}(1)"), rf"'1 - {kind}\(1\)'")
        answers = as_text.tradeoff(f"1 - {kind}(1)").at(most).predict(p[:, None])
        assert 0 <= measured(y, answers, pos_label=label.get(kind, 1)) - (1 - most) < 0.03


def test_errors_are_traded_against_deferrals():
    rng = np.random.default_rng(0)
    p = rng.random(1_000)
    y, limits = (rng.random(1_000) < p).astype(int), ["deferred() <= 10%"]
    deferrals, errors = tb.tune(tb.Scores(0, 1), p[:, None], y, limits=limits).tradeoff(n_points=4).values
    assert (deferrals[0], errors[-1]) == (0.0, 0.0)
    assert (np.diff(deferrals) > 0.0).all()
    assert (np.diff(errors) < 0.0).all()


@pytest.mark.parametrize("limits", [["deferred <= 10%"], ["error <= 12%"]])
def test_the_error_of_a_tuned_rule_is_printed(limits):
    objective = "error" if "deferred" in limits[0] else "deferred"
    rule = judged(objective=objective, limits=limits)
    deferred = rule.defers(P)
    error = np.mean((rule.predict(P, deferred="human review") != Y) & ~deferred)
    (said,) = re.findall(r"^error +([\d.]+) %", str(rule), flags=re.MULTILINE)
    assert float(said) / 100 == pytest.approx(error, abs=0.005)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_rows_that_are_surely_right_are_not_deferred_and_deferred_ones_get_the_likelier_label():
    rng = np.random.default_rng(0)
    s = np.where(rng.random(6000) < 0.8, rng.choice([0.0001, 0.9999], 6000), rng.uniform(0.3, 0.7, 6000))
    y, X = (rng.random(6000) < s).astype(int), s[:, None]
    rule = tb.calibrate(tb.Scores(0, 1), X, y, limits=["miss(1) <= 30%", "deferred() <= 80%"])
    assert 0 < rule.defers(X).mean() < 0.25
    limits = ["miss(1) <= 2%", "false_alarm(1) <= 2%", "deferred() <= 90%"]
    narrow = tb.tune(tb.Scores(0, 1), X, y, limits=limits)
    deferred = narrow.defers(X)
    assert deferred.any()
    assert (narrow.predict(X) == narrow.predict_proba(X).argmax(axis=1))[deferred].all()
