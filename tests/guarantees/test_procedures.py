"""The table of docs/reliability.md: each procedure with each feature is valid, refused or left to another."""

import copy
import pathlib
import re
import warnings
from functools import cache
from itertools import product
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import tailboost as tb
from tailboost.guarantees import calibration
from tailboost.guarantees.path import Path
from tailboost.guarantees.ranks import Ranks
from tailboost.guarantees.score_path import ScorePath
from tailboost.guarantees.thresholds import ThresholdSequences

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "reliability.md").read_text(encoding="utf-8")
ROWS, COLUMNS = 700, 8


def read_table():
    """Return the words "valid", "next" and "refused" of each entry."""
    lines = re.findall(
        r"^\|.*\|$", PAGE.partition("## Procedures and features")[2].partition("\n## ")[0], re.M
    )
    header, _, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {
        (row[0], name): set(re.findall("valid|next|refused", cell))
        for row in body
        for name, cell in zip(header[1:], row[1:], strict=True)
    }


TABLE = read_table()


# -- the calls ---------------------------------------------------------------------------------------------


def draw(n, rng):
    u, g = rng.random(n), rng.choice(["a", "b"], n)
    y = (rng.random(n) < np.where(g == "a", u**0.8, u**1.4)).astype(int)
    return pd.DataFrame({"s": u}), y, g


RNG = np.random.default_rng(0)
SELECTION, FRESH = draw(300, RNG), draw(ROWS, RNG)
MORE, _, MORE_GROUPS = draw(300, RNG)
ACROSS = np.arange(ROWS) // 2
CLUSTERS = {"across": ACROSS, "inside": np.where(FRESH[2] == "a", ACROSS, ACROSS + ROWS)}
UNLABELED = {"X_unlabeled": MORE, "groups_unlabeled": MORE_GROUPS}
COST = "cost([[0, 1], [2, 0]]) <= 1"
BY_ROW = {"costs": np.full((ROWS, 2), 0.5), "cost_range": (0, 1)}
# The limits for each procedure, and the name of the procedure in certificates.
ASKED = {
    "ranks, limits on one side": (["miss(1, by=group) <= .5"], "ranks"),
    "ranks, a gap or ratio": (["gap(selected(1, by=group)) <= .3"], "ranks"),
    "ranks of one class and a test of the other": (
        ["miss(1, by=group) <= .5", "false_alarm(1) <= .7"],
        "ranks of one class and a test of the other",
    ),
    "sequences of thresholds": (["precision(1) >= .6"], "sequences of thresholds"),
    "path of rules": (["gap(selected(1, by=group)) <= .4", "gap(miss(1, by=group)) <= .5"], "path of rules"),
}
CELLS = {
    "ranks, limits on one side": ["selected(1, by=cell) <= .95"],
    "ranks, a gap or ratio": ["gap(selected(1, by=cell)) <= .9"],
    "ranks of one class and a test of the other": ["miss(1, by=group) <= .5", "selected(1, by=cell) <= .9"],
    "sequences of thresholds": ["error(by=cell) <= .6"],
    "path of rules": ["gap(selected(1, by=cell)) <= .9"],
}
OF_LABELS = {
    "ranks, limits on one side": ["miss(1, by=label) <= .5"],
    "ranks, a gap or ratio": ["gap(selected(1, by=label)) <= .5"],
    "ranks of one class and a test of the other": ["miss(1, by=label) <= .5", "false_alarm(1) <= .7"],
    "sequences of thresholds": ["precision(1, by=label) >= .5"],
    "path of rules": ["selected(1) <= .8"],
}


@cache
def tuned(limits, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        T, y, g = SELECTION
        return tb.tune(tb.Scores("s", 1), T, y, groups=g, by_group=True, limits=list(limits), **params)


@cache
def rules_of_labels():
    X, Y = labelled(300, np.random.default_rng(1))
    return tb.tune_labels([tb.Scores("p", "p"), tb.Scores("q", "q")], X, Y)


def labelled(n, rng):
    """Return two scores and two dependent labels."""
    u = rng.random((n, 2))
    X = pd.DataFrame({"p": u[:, 0], "q": (u[:, 0] + u[:, 1]) / 2})
    return X, pd.DataFrame({name: (rng.random(n) < X[name]).astype(int) for name in X})


def calibrated(procedure, *, limits=None, more=(), randomized="auto", **given):
    """Calibrate limits on fresh rows by a procedure."""
    stated, _ = ASKED[procedure]
    clf = tuned((*(limits or stated), *more), randomized=randomized)
    T, y, g = FRESH
    return tb.calibrate(copy.deepcopy(clf), T, y, groups=g, attempts=1, **given).certificate_


def certified(**given):
    T, y, g = FRESH
    limits = given.pop("limits", ["gap(selected(1, by=group)) <= .5", "miss(1, by=group) <= .9"])
    clf = tuned(tuple(limits), **given.pop("params", {}))
    return tb.certify(clf, T, y, groups=g, **given)


def largest(**given):
    T, y, g = FRESH
    clf = tuned(("miss(1) <= .9", *given.pop("more", ())), **given.pop("params", {}))
    target = given.pop("max_error", 0.9)
    return tb.calibrate(copy.deepcopy(clf), T, y, target, groups=g, attempts=1, **given).certificate_


def of_labels(procedure, **given):
    X, Y = labelled(ROWS, np.random.default_rng(2))
    rules = copy.deepcopy(rules_of_labels())
    limits = OF_LABELS.get(procedure)
    if procedure == "`certify`":
        return rules.certify(X, Y, limits=["miss(1, by=label) <= .9"])
    return rules.calibrate(X, Y, limits=limits, attempts=1, **given).certificate_


def calls(procedure, feature):
    """Return the calls for an entry of the table."""
    if feature == "several labels":
        given = {"max_error": 0.5} if procedure == "largest errors" else {}
        return [lambda: of_labels(procedure, **given)]
    ask = {"`certify`": certified, "largest errors": largest}.get(
        procedure, lambda **given: calibrated(procedure, **given)
    )
    defers = {"more": ("deferred() <= .5",)}
    of = {
        "clusters": [{"clusters": CLUSTERS["across"]}, {"clusters": CLUSTERS["inside"]}],
        "weights": [{"sample_weight": np.ones(ROWS)}, {"sample_weight": np.arange(1.0, ROWS + 1)}],
        "rows without labels": [UNLABELED, UNLABELED | {"clusters": ACROSS}],
        "deferral": [defers],
        "randomised": [{"randomized": True}],
        "costs": [{"more": (COST,)}, BY_ROW],
        "cells": [{"limits": CELLS.get(procedure)}],
    }[feature]
    if procedure == "`certify`":
        of = {
            "deferral": [{"limits": ["miss(1) <= .9", "deferred() <= .3"], "rates": ["deferred() <= .6"]}],
            "randomised": [{"params": {"randomized": True}}],
            "costs": [{"limits": [COST]}, {"rates": ["cost() <= .9"], **BY_ROW}],
            "cells": [{"limits": CELLS["path of rules"]}],
        }.get(feature, of)
    if procedure == "largest errors":
        of = {
            "randomised": [{"rule": "randomised", "params": {"randomized": True}}],
            "costs": [BY_ROW],
            "cells": [{"max_error": {(1, "a"): 0.9}}],
        }.get(feature, of)
    return [lambda given=given: ask(**given) for given in of]


# A pattern in the message of a refusal, by feature.
NAMED = {
    "clusters": "clusters",
    "weights": "sample_weight",
    "rows without labels": "clusters|X_unlabeled",
    "costs": "costs",
    "several labels": "by='label'|max_error",
}


def outcome(procedure, feature, call):
    """Return "valid", "next" or "refused"."""
    served, own = [], calibration.first_that_applies

    def recorded(*given):
        served.append(own(*given))
        return served[-1]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            with mock.patch.object(calibration, "first_that_applies", recorded):
                certificate = call()
        except tb.NotCertifiedError:
            raise
        except (ValueError, TypeError) as error:
            assert re.search(NAMED[feature], str(error))  # noqa: PT017
            return "refused"
    assert certificate.certified
    name = ASKED.get(procedure, ("", ""))[1]
    titles = [each.title for each in calibration.PROCEDURES]
    if name in titles and titles.index(served[0].title) > titles.index(name):
        return "next"
    if name == "ranks":
        assert {bound.method for bound in certificate.bounds} == {"ranks"}
    if name == "path of rules":
        assert titles.index(served[0].title) > titles.index("sequences of thresholds")
    return "valid"


def test_the_table_is_complete():
    procedures, features = ({entry[k] for entry in TABLE} for k in (0, 1))
    assert procedures == {"`certify`", *ASKED, "largest errors"}
    assert len(features) == COLUMNS
    assert len(TABLE) == len(procedures) * len(features)


@pytest.mark.thinned(18)
@pytest.mark.parametrize(("procedure", "feature"), TABLE)
def test_each_entry_of_the_table_is_what_a_call_does(procedure, feature):
    found = {outcome(procedure, feature, call) for call in calls(procedure, feature)}
    assert found == TABLE[procedure, feature]


# -- which procedures serve which limits -------------------------------------------------------------------


def limits_and_procedures():
    """Return the limits of the table in CONTRIBUTING.md, and the numbers of procedures beside them."""
    page = (pathlib.Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    _, _, table = page.partition("| limits | one threshold | a threshold for each group |\n|---|---|---|\n")
    rows = [line.strip("| ").split(" | ") for line in table.partition("\n\n")[0].splitlines()]
    return [(re.findall("`(.+?)`", limits), by_rule) for limits, *by_rule in rows]


def test_the_procedures_have_their_numbers():
    page = (pathlib.Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert re.findall(r"(\d) \*(.+?)\*", page) == [
        (str(number), procedure.title) for number, procedure in enumerate(calibration.PROCEDURES, start=1)
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("by_group", [False, True])
@pytest.mark.parametrize(("limits", "by_rule"), limits_and_procedures())
def test_the_page_says_which_procedures_serve_which_limits(limits, by_rule, by_group, monkeypatch):
    serve = []

    def stopped(*given):
        procedures = [procedure(*given) for procedure in calibration.PROCEDURES]
        serve.extend(str(k) for k, each in enumerate(procedures, start=1) if each.applies)
        raise Stopped

    T, y, g = SELECTION
    rule = tb.tune(tb.Scores("s", 1), T, y, groups=g, by_group=by_group, limits=limits)
    monkeypatch.setattr(calibration, "first_that_applies", stopped)
    T, y, g = FRESH
    with pytest.raises(Stopped):
        tb.calibrate(rule, T, y, groups=g, attempts=1)
    assert " ".join(serve) == by_rule[by_group]


# -- the order of tests, and its end -----------------------------------------------------------------------


class Stopped(Exception):
    """Raised in place of the tests of a procedure."""


def paths_of(run):
    """Return the paths of the only threshold of sequences."""
    return run.tests.paths([run.tests.fresh_rates], run.level)


# A procedure, its limits, and the thresholds or rules fixed before its tests.
FIXED = {
    "ranks": (Ranks, ["gap(miss(1, by=group)) <= .3"], lambda run: run.rank_ranges),
    "sequences": (ThresholdSequences, ["precision(1) >= .6"], lambda run: paths_of(run)[0].thresholds),
    "path of a score": (ScorePath, ["precision(1) >= .6", "deferred() <= .5"], lambda run: vars(run.path[0])),
    "path": (
        Path, ["f_score(1) >= .4"], lambda run: [str(rule.problem.limits) for rule in run.rules],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FIXED)
def test_rules_fixed_before_the_tests_depend_on_no_label_of_the_fresh_rows(name, monkeypatch):
    """Permuted labels within each group give the same rules."""
    kind, limits, fixed = FIXED[name]
    orders = []

    def run(procedure):
        orders.append(fixed(procedure))
        raise Stopped

    monkeypatch.setattr(kind, "run", run)
    T, y, g = FRESH
    other = y.copy()
    for group in "ab":
        other[g == group] = np.random.default_rng(0).permutation(y[g == group])
    for labels in (y, other):
        with pytest.raises(Stopped):
            tb.calibrate(copy.deepcopy(tuned(tuple(limits))), T, labels, groups=g, attempts=1)
    assert (y != other).mean() > 0.2
    np.testing.assert_equal(*orders)


LEVEL = 0.05  # of the only attempt


def passes(errors, n, most):
    """Return whether counts pass the exact test at the whole level of one attempt."""
    return n > 0 and binom.cdf(errors, n, most) <= LEVEL


def precise(answers, y):
    return passes(((answers == 1) & (y == 0)).sum(), (answers == 1).sum(), 0.25)


def precise_and_few_deferred(answers, y):
    return precise(answers, y) and passes((answers == 2).sum(), len(y), 0.5)


def allowed_errors(n):
    """Return the largest passing number of errors among n rows."""
    return int((binom.cdf(np.arange(n), n, 0.25) <= LEVEL).sum()) - 1


def labels_that_fail(answers, failing, spared):
    """Return labels: 0 for rows with the answer 1 of the failing rule, but not of the first or spared one.

    Of the rows with the answer 1 of all three rules, as many as the first rule allows are 0. So few further
    errors fail the failing rule, and the first and the spared rule still pass.
    """
    selected = answers == 1
    y = np.where(selected[failing] & ~selected[0] & ~selected[spared], 0, 1)
    by_all = np.flatnonzero(selected[0] & selected[failing] & selected[spared])
    y[by_all[: allowed_errors(selected[0].sum())]] = 0
    return y


def labels_that_fail_the_first(answers):
    """Return labels: among the first rule's rows with answer 1, one 0 more than its test allows."""
    selected = np.flatnonzero(answers[0] == 1)
    y = np.ones(answers.shape[1], dtype=int)
    y[selected[: allowed_errors(len(selected)) + 1]] = 0
    return y


# A procedure, its limits, their test, and the answers of its rules in their order.
SEQUENCES = {
    "sequences": (
        ThresholdSequences, ["precision(1) >= .75"], precise,
        lambda run: [(run.tests.fresh.scores > t).astype(int) for t in paths_of(run)[0].thresholds],
    ),
    "path of a score": (
        ScorePath, ["precision(1) >= .75", "deferred() <= .5"], precise_and_few_deferred,
        lambda run: [run.fresh.by(rule).answered.actions for _, rule in run.rules()],
    ),
    "path": (
        Path, ["precision(1) >= .75"], precise,
        lambda run: [run.fresh.by(rule).answered.actions for rule in run.rules],
    ),
}  # fmt: skip


def order_and_calibrate(name, seed, monkeypatch):
    """Return fresh rows, the answers of all rules in their order, and a function of labels that calibrates.

    The order depends on no label, so a test can make labels for this order.
    """
    kind, limits, *_, answers_of = SEQUENCES[name]
    T, y, g = draw(250, np.random.default_rng(seed))
    if name == "path":
        for simpler in (ThresholdSequences, ScorePath):
            monkeypatch.setattr(simpler, "applies", False)

    def calibrate(labels):
        clf = copy.deepcopy(tuned(tuple(limits)))
        return tb.calibrate(clf, T, labels, groups=g, attempts=1)

    recorded = []

    def run(procedure):
        recorded.extend(answers_of(procedure))
        raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr(kind, "run", run)
        with pytest.raises(Stopped):
            calibrate(y)
    return T, g, np.array(recorded), calibrate


def with_a_failure_in_between(name, monkeypatch):
    """Return rows with labels on which rules pass, fail and pass again, their answers, and a call.

    The last rule before the failure answers other than the first one.

    Sequences and paths had such labels for each tried seed. A path of a score has them for most draws from
    the selection data of this module; `test_joint_power` has a test of all patterns of its verdicts.
    """
    test = SEQUENCES[name][2]
    for seed in range(1, 6):
        T, g, recorded, calibrate = order_and_calibrate(name, seed, monkeypatch)
        for spared, failing in product(range(len(recorded)), range(1, len(recorded))):
            y = labels_that_fail(recorded, failing, spared)
            passed = np.array([test(answers, y) for answers in recorded])
            end = int(passed.argmin())
            moves = (recorded[max(end - 1, 0)] != recorded[0]).any()
            if passed[0] and not passed[end] and passed[end:].any() and moves:
                return T, g, y, recorded, passed, calibrate
    assert name == "path of a score"
    pytest.skip("no labels fail a rule between two that pass")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", SEQUENCES)
def test_no_rule_behind_a_failed_binomial_test_is_certified(name, monkeypatch):
    T, g, y, recorded, passed, calibrate = with_a_failure_in_between(name, monkeypatch)
    end = int(passed.argmin())
    last = int(np.flatnonzero(passed).max())
    rule = calibrate(y)
    defers = rule.defers(T, groups=g) if rule.rule_.defers else False
    certified = np.where(defers, 2, rule.predict(T, groups=g))
    assert any((certified == answers).all() for answers in recorded[:end])
    assert (certified != recorded[last]).any()
    if name != "sequences":  # which take the passed threshold of least loss
        np.testing.assert_array_equal(certified, recorded[end - 1])


@pytest.mark.parametrize("name", SEQUENCES)
def test_no_rule_is_certified_if_the_first_one_fails(name, monkeypatch):
    test = SEQUENCES[name][2]
    *_, recorded, calibrate = order_and_calibrate(name, 1, monkeypatch)
    y = labels_that_fail_the_first(recorded)
    passed = [test(answers, y) for answers in recorded]
    assert not passed[0]
    assert any(passed) or name == "path of a score"  # labels do not change its deferral rate
    with pytest.raises(tb.NotCertifiedError, match="no rule with several answers"):
        calibrate(y)


def test_certified_ranks_have_the_counts_that_were_fixed(monkeypatch):
    """Exactly so many rows of each group get the counted answer: no two scores are equal."""
    fixed, own = [], Ranks.run
    monkeypatch.setattr(Ranks, "run", lambda run: fixed.append(run.rank_ranges) or own(run))
    T, y, g = FRESH
    clf = copy.deepcopy(tuned(("gap(selected(1, by=group)) <= .3",)))
    answers = tb.calibrate(clf, T, y, groups=g, attempts=1).predict(T, groups=g)
    for (least, most), group in zip(fixed[0].tolist(), "ab", strict=True):
        assert least <= (answers[g == group] == 1).sum() <= most
        assert most - least < 3


def test_later_batches_of_groups_that_share_clusters_are_refused():
    certificate = certified(clusters=ACROSS)
    T, y, g = draw(ROWS, np.random.default_rng(5))
    certificate.recheck(T, y, groups=g, clusters=np.where(g == "a", ACROSS, ACROSS + ROWS))
    with pytest.raises(ValueError, match="clusters have rows in several of the subgroups"):
        certificate.recheck(T, y, groups=g, clusters=ACROSS)
