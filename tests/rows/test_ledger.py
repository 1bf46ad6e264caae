"""The ledger of attempts: levels, rows that are used up, copies with the ledger, and many writers at once."""

import copy
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from conftest import refused
from scipy.stats import binom
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import tailboost as tb
from tailboost import rates
from tailboost.rows.fingerprints import hash_rows
from tailboost.rows.ledger import Attempt, Ledger, Seen, attempts_of

LIMIT = [rates.error(by="group") <= 0.26]
repeated = partial(refused, match="attempt", error=tb.LeakageError)


@pytest.fixture(scope="module")
def fitted():
    r = np.random.default_rng(0)
    X, groups = r.normal(size=(1400, 4)), r.choice(["a", "b"], 1400)
    y = (X[:, 0] + r.normal(size=1400) > 0.3).astype(int)
    model, limits = LogisticRegression().fit(X[:400], y[:400]), [rates.error(by="group") <= 0.4]
    mix = tb.tune(model, X[400:1000], y[400:1000], groups=groups[400:1000], limits=limits)
    return mix, X[1000:], y[1000:], groups[1000:]


@pytest.fixture
def tuned(fitted):
    return copy.deepcopy(fitted[0]), *fitted[1:]


def scored(seed, n):
    r = np.random.default_rng(seed)
    ill = r.random(n) < 0.4
    scores = 1 / (1 + np.exp(-(r.normal(size=n) + 1.6 * ill - 0.8)))
    return pd.DataFrame({"s": scores}), np.where(ill, "yes", "no")


@pytest.fixture
def rule():
    return tb.tune(tb.Scores("s", "yes"), *scored(0, 800), limits=["miss(yes) <= .2"])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_call_is_named_by_rule_rows_labels_groups_and_clusters(tuned):
    mix, X, y, groups = tuned
    X, y, groups = X[:40], y[:40], groups[:40]
    persons = np.repeat(np.arange(10), 4)

    def key(rows=slice(None), y=y, groups=groups, clusters=persons, most=0.6):
        model, limits = copy.deepcopy(mix), [rates.error(by="group") <= most]
        given = {"groups": groups[rows], "clusters": clusters[rows], "limits": limits}
        try:
            return tb.calibrate(model, X[rows], y[rows], **given).certificate_.attempts[-1].key
        except tb.NotCertifiedError as error:
            return error.attempts[-1].key

    first, mixed = key(), np.random.default_rng(1).permutation(40)
    assert key(mixed) == first  # the order of rows does not matter
    assert key(clusters=9 - persons) == first  # nor the names of clusters
    swapped = y.copy()
    i, j = np.flatnonzero(y == 0)[0], np.flatnonzero(y == 1)[0]
    swapped[[i, j]] = y[[j, i]]  # as many of each label
    others = [key(y=swapped), key(groups=groups[mixed]), key(most=0.61)]
    others.append(key(clusters=np.roll(persons, -1)))  # clusters of the same sizes
    assert len({first, *others}) == 5


@pytest.mark.filterwarnings("ignore:.*rows trained the model is not checked")
def test_rows_of_a_failed_attempt_are_refused_with_other_groups(tuned, tmp_path):
    mix, X, y, groups = tuned
    refused(lambda: tb.calibrate(mix, X, y, groups=groups, limits=LIMIT), "used up", tb.NotCertifiedError)
    tb.save_model(mix, tmp_path / "m.model")
    permuted = np.random.default_rng(0).permutation(groups)
    for model in (mix, tb.load_model(tmp_path / "m.model"), copy.deepcopy(mix), mix.reweight()):
        for given, limits in ((permuted, LIMIT), (groups, [rates.error(by="group") <= 0.6])):
            repeated(partial(tb.calibrate, model, X, y, groups=given, limits=limits))
    refused(lambda: tb.calibrate(mix, X, y, groups=groups, limits=LIMIT), "used up", tb.NotCertifiedError)
    assert len(mix.ledger_.attempts) == 1


def test_spent_rows_of_scores_are_refused_with_further_rows(rule):
    X, y = scored(1, 150)
    with pytest.raises(tb.NotCertifiedError):
        tb.calibrate(rule, X[:100], y[:100], limits=["miss(yes) <= .1", "false_alarm(yes) <= .6"])
    for n in (150, 100, 60):
        repeated(partial(tb.calibrate, rule, X[:n], y[:n], limits=["miss(yes) <= .3"]))


@pytest.mark.parametrize("several", [False, True])
def test_rows_of_scores_stay_used_up_under_other_names_of_the_labels(several):
    X, y = scored(1, 1500)
    columns = "s"
    if several:
        X, columns = X.assign(rest=1 - X["s"]), ["s", "rest"]

    def calibrated(yes, no, bound, order=1, **more):
        labels = [yes, no][::order] if several else yes
        scores, named = tb.Scores(columns[::order], labels), np.where(y == "yes", yes, no)
        return tb.calibrate(scores, X[::-1], named[::-1], limits=[rates.miss(yes) <= bound], **more)

    first = calibrated("yes", "no", 0.5)
    for yes, no in ((1, 0), (0, 1), (True, False), ("a", "b"), ("b", "a"), (1.0, 0.0)):
        for order in (1, -1):
            repeated(partial(calibrated, yes, no, 0.6, order, previous=first))


def test_given_probabilities_stay_used_up_in_another_order_of_the_models():
    X, y = scored(1, 1500)
    P = {name: np.column_stack([1 - p, p]) for name, p in (("a", X["s"]), ("b", X["s"] ** 2))}
    parts = [{name: P[name][rows] for name in "ab"} for rows in (slice(700), slice(700, None))]
    make = tb.RobustMixtureClassifier.from_probabilities
    first, again = (make({name: parts[0][name] for name in order}, y[:700]) for order in ("ab", "ba"))
    first = tb.calibrate(first, parts[1], y[700:], limits=["miss(yes) <= 60%"])
    repeated(lambda: tb.calibrate(again, parts[1], y[700:], limits=["miss(yes) <= 61%"], previous=first))


def test_an_attempt_is_recorded_before_its_test(tuned, monkeypatch):
    mix, X, y, groups = tuned

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tailboost.classifiers.calibrating.first_result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tb.calibrate(mix, X, y, groups=groups, limits=LIMIT)
    assert len(mix.ledger_.attempts) == 1
    monkeypatch.undo()
    repeated(lambda: tb.calibrate(mix, X, y, groups=groups, limits=[rates.error(by="group") <= 0.6]))


def test_eight_threads_lose_no_attempt(rule):
    def attempt(k):
        try:
            certified = tb.calibrate(rule, *scored(10 + k, 300), limits=["miss(yes) <= .4"])
            return len(certified.certificate_.attempts)
        except tb.NotCertifiedError as error:
            return len(error.attempts)

    with ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(attempt, range(8))) == list(range(1, 9))
    assert len(rule.ledger_.attempts) == 8


def numbered_attempt(k):
    """Return an attempt; attempts of different numbers have no row in common."""
    hashes = hash_rows(np.arange(30.0)[:, None] + 1000 * k, rounded=True)
    return Attempt(f"call {k}", Seen.of(hashes))


def ledger_of(*numbers):
    ledger = Ledger()
    assert all(ledger.record(numbered_attempt(k)) for k in numbers)
    return ledger


def spent(ledger):
    return [attempt.spent for attempt in ledger.attempts]


def test_each_of_any_number_of_attempts_spends_nine_tenths_of_what_is_left():
    ledger = ledger_of(*range(6))
    assert spent(ledger) == pytest.approx([0.9, 0.09, 0.009, 0.0009, 0.00009, 0.000009])
    assert sum(spent(ledger)) < 1
    assert spent(ledger_of(0, 1, 0, 1, 0)) == pytest.approx([0.9, 0.09])  # the same call again spends nothing


@pytest.mark.parametrize(("own", "earlier", "levels"), [
    ([0], [1], [0.9, 0.09]),  # the other attempt is named at the second call alone
    ([1, 0], [0], [0.9, 0.09]),  # a copy tested it after another one, its original at once
    ([0], [1, 2], [0.9, 0.09, 0.009]),
    ([0], [0, 1], [0.9]),  # the others came later
    ([2, 0, 3], [1, 0, 4], [0.9, 0.9, 0.0]),
])  # fmt: skip
def test_a_call_that_is_known_holds_together_with_attempts_that_are_named_later(own, earlier, levels):
    ledger, before = ledger_of(*own), attempts_of(ledger_of(*earlier))
    if levels[-1] == 0.0:
        refused(lambda: ledger.record(numbered_attempt(0), before), "no error probability is left")
        return
    for _ in range(2):  # also of the same call again
        assert [each.spent for each in ledger.record(numbered_attempt(0), before)] == pytest.approx(levels)
        before = ()


@pytest.mark.parametrize(("first", "last"), [(0.95, 0.5), (0.995, 0.9), (0.5, 0.95), (0.95, 0.99)])
def test_attempts_at_several_confidences_together_keep_that_of_the_last_one(first, last):
    ledger = Ledger()
    attempts = [replace(numbered_attempt(k), confidence=each) for k, each in enumerate((first, last))]
    left = 1 - 0.9 * (1 - first) / (1 - last)
    if left < 0:
        refused(lambda: [*map(ledger.record, attempts)], "no error probability is left at confidence=0.9")
    else:
        assert [*map(ledger.record, attempts)][1][1].spent == pytest.approx(0.9 * left)


def test_attempts_of_other_models_that_the_caller_names_count():
    ledger = Ledger()
    recorded = ledger.record(numbered_attempt(2), attempts_of(ledger_of(0, 1)))
    assert [attempt.key for attempt in recorded] == ["call 0", "call 1", "call 2"]
    assert spent(ledger) == pytest.approx([0.9, 0.09, 0.009])
    # A call in two ledgers has spent the larger level.
    ledger, of_copy = ledger_of(0), ledger_of(1, 0)
    refused(lambda: ledger.record(numbered_attempt(2), of_copy.attempts), "no error probability is left")


def test_a_ledger_from_a_file_goes_on_where_it_ended():
    stored = json.loads(json.dumps([attempt.to_dict() for attempt in ledger_of(0, 1).attempts]))
    again = Ledger(tuple(map(Attempt.from_dict, stored)))
    again.record(numbered_attempt(2))
    assert spent(again) == pytest.approx([0.9, 0.09, 0.009])
    repeated(lambda: again.record(Attempt("other call", numbered_attempt(0).rows)))


@pytest.mark.filterwarnings("ignore:.*rows trained the model is not checked")
def test_rows_of_an_attempt_of_a_model_inside_are_refused(tuned):
    mix, X, y, groups = tuned
    tb.calibrate(mix, X, y, groups=groups, limits=[rates.error(by="group") <= 0.6])
    r = np.random.default_rng(7)
    X_new = r.normal(size=(600, 4))
    y_new = (X_new[:, 0] + r.normal(size=600) > 0.3).astype(int)
    inside = make_pipeline(FunctionTransformer(), FrozenEstimator(mix))
    refused(lambda: tb.certify(inside, X, y, groups=groups), "calibrated", tb.LeakageError)
    outer = tb.tune([mix], X_new, y_new, limits=[rates.error() <= 0.6])
    assert len(outer.ledger_.attempts) == 1
    refused(lambda: tb.calibrate(outer, X, y), "calibrated", tb.LeakageError)


def test_all_attempts_before_a_named_one_count(rule):
    """The named result is of the second attempt of a copy; the ledger of this rule lacks both attempts."""
    asked, other = {"limits": ["miss(yes) <= .4"]}, copy.deepcopy(rule)
    for k in (1, 2):
        previous = tb.calibrate(other, *scored(k, 400), **asked)
    calibrated = tb.calibrate(rule, *scored(3, 400), **asked, previous=previous)
    assert spent(calibrated.ledger_) == pytest.approx([0.9, 0.09, 0.009])
    repeated(lambda: tb.calibrate(rule, *scored(1, 400), limits=["miss(yes) <= .3"]))


def test_too_few_rows_for_a_test_leave_earlier_attempts_in_the_ledger(rule):
    asked = {"limits": ["miss(yes) <= .35"]}
    tb.calibrate(rule, *scored(1, 400), **asked)
    with pytest.raises(tb.NotCertifiedError, match="attempt") as few:
        tb.calibrate(rule, *scored(2, 8), **asked)
    assert spent(rule.ledger_) == spent(few.value) == pytest.approx([0.9])
    calibrated = tb.calibrate(rule, *scored(3, 400), **asked)
    assert spent(calibrated.ledger_) == pytest.approx([0.9, 0.09])


def test_the_fewest_rows_are_those_of_the_level_of_the_attempt():
    """At a rate of .1, k rows are without a miss with the probability .9ᵏ."""
    previous = None
    for number, spent in enumerate((0.9, 0.09)):
        fewest = next(k for k in range(1, 99) if 0.9**k <= 0.05 * spent)
        for k in (fewest - 1, fewest):
            y = np.repeat(["yes", "no"], [k, 200])
            draws = np.random.default_rng(k).random(k + 200)
            X = pd.DataFrame({"s": np.where(y == "yes", 0.4 + 0.6 * draws, 0.9 * draws)})
            asked = {"limits": ["miss(yes) <= .1"], "previous": previous}
            if k < fewest:
                with pytest.raises(tb.NotCertifiedError, match=f"at least {fewest}") as caught:
                    tb.calibrate(tb.Scores("s", "yes"), X, y, **asked)
                assert len(caught.value.attempts) == number
            else:
                previous = tb.calibrate(tb.Scores("s", "yes"), X, y, **asked)
                assert previous.certificate_.certified


def test_another_objective_on_the_same_rows_is_another_attempt():
    X, y = scored(5, 800)
    asked, scores = {"limits": ["miss(yes) <= .3"]}, tb.Scores("s", "yes")
    first = tb.calibrate(scores, X, y, objective="selected(yes)", **asked)
    again = tb.calibrate(scores, X, y, objective="selected(yes)", previous=first, **asked)
    assert len(again.certificate_.attempts) == 1
    repeated(lambda: tb.calibrate(scores, X, y, objective="false_alarm(yes)", previous=first, **asked))


def test_each_attempt_is_tested_at_its_part_of_the_level(rule):
    """Of the thresholds with few enough misses, the certified one has the fewest false alarms."""
    asked = {"limits": ["miss(yes) <= .3"]}
    rule = rule.reweight(objective=rates.false_alarm("yes"))
    for k, level in enumerate([0.045, 0.0045, 0.00045], 1):
        X, y = scored(k, 700)
        ill, found = y == "yes", tb.calibrate(rule, X, y, **asked).predict(X) == "yes"
        above = X["s"].to_numpy() > np.append(0.0, X["s"])[:, None]  # by threshold and row
        passing = binom.cdf((ill & ~above).sum(axis=1), ill.sum(), 0.3) <= level
        assert binom.cdf((ill & ~found).sum(), ill.sum(), 0.3) <= level
        assert (found & ~ill).sum() == (above[passing] & ~ill).sum(axis=1).min()


def test_what_a_copy_carries(rule, tmp_path):
    first = scored(1, 400)
    shallow, before = copy.copy(rule), copy.deepcopy(rule)
    point = tb.calibrate(rule, *first, limits=["miss(yes) <= .35"])
    assert shallow.ledger_ is rule.ledger_ is point.ledger_ is rule.reweight().ledger_
    assert before.ledger_.attempts == ()  # a copy lacks later attempts
    tb.save_model(rule, tmp_path / "m.model")
    for other in (copy.deepcopy(rule), pickle.loads(pickle.dumps(rule)), tb.load_model(tmp_path / "m.model")):
        assert len(other.ledger_.attempts) == 1
        repeated(partial(tb.calibrate, other, *first, limits=["miss(yes) <= .3"]))
        second = tb.calibrate(other, *scored(2, 500), limits=["miss(yes) <= .35"])
        assert len(second.certificate_.attempts) == 2
    assert len(rule.ledger_.attempts) == 1
    assert not hasattr(clone(rule), "ledger_")
    assert clone(rule).fit(*scored(0, 800)).ledger_.attempts == ()
    later = tb.calibrate(before, *scored(2, 500), limits=["miss(yes) <= .35"], previous=point)
    assert len(later.certificate_.attempts) == 2
    assert len(before.ledger_.attempts) == 2


def test_a_repeated_call_has_the_level_of_its_own_attempt_and_none_of_later_ones():
    ledger = Ledger()
    rows = [Seen.of(hash_rows(np.arange(50.0)[:, None] + start)) for start in (0, 99)]
    first, second = map(Attempt, "ab", rows)
    (alone,) = ledger.record(first)
    assert [each.error for each in ledger.record(second)] == pytest.approx([0.045, 0.0045])
    (again,) = ledger.record(first)
    assert vars(again) == vars(alone)
    assert len(ledger.attempts) == 2
