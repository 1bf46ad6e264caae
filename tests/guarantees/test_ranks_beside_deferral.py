"""Limits on errors beside deferral: thresholds within ranks, and exact tests of the deferred rows."""

import ast
import copy
import re
import warnings
from functools import cache
from itertools import combinations_with_replacement, product
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, multinomial
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost.guarantees import calibration
from tailboost.guarantees.joint_power import FIRST, SECOND
from tailboost.guarantees.ranks_beside_deferral import RanksBesideDeferral

LEVEL = 0.05  # of the only attempt
OF_ERRORS = 0.8 * LEVEL
OF_DEFERRAL = LEVEL - OF_ERRORS
# Limits on misses, the same of false alarms (the labels and the score in reverse), and both.
OF_MISSES = ["miss(1, by=g) <= 20%", "deferred() <= 25%"]
OF_ALARMS = ["false_alarm(1, by=g) <= 20%", "deferred() <= 25%"]
OF_BOTH = ["miss(1, by=g) <= 25%", "false_alarm(1, by=g) <= 30%", "deferred() <= 50%"]
WITHOUT_DEFERRAL = ["miss(1, by=g) <= 25%", "false_alarm(1, by=g) <= 30%"]


def drawn(seed, n, decimals=9, shares=(0.6, 0.4)):
    rng = np.random.default_rng(seed)
    g = rng.choice(len(shares), n, p=shares)
    score = rng.beta(1.5, 2.0, n).round(decimals)
    y = (rng.random(n) < score ** np.where(g == 0, 1.0, 0.8)).astype(int)
    return pd.DataFrame({"s": score}), y, pd.DataFrame({"g": g})


@cache
def selected(limits, decimals=9, by_group=False, **params):
    X, y, groups = drawn(1, 400, decimals)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return tb.tune(
            tb.Scores("s", 1), X, y, groups=groups, limits=list(limits), by_group=by_group, **params
        )


def calibrated(limits, X, y, groups, **params):
    rule = copy.deepcopy(selected(tuple(limits), **params))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return tb.calibrate(rule, X, y, groups=groups, confidence=1 - 0.05 / 0.9)


def answers_of(rule, X, groups=None):
    given = {"groups": groups} if rule.by_group else {}
    return np.where(rule.defers(X, **given), 2, rule.predict(X, deferred=-1, **given))


def passes(errors, n, most, level):
    return n > 0 and binom.cdf(errors, n, most) <= level


class Stopped(Exception):
    """Raised in place of the tests."""


def procedure_for(limits, X, y, groups, **params):
    found = []

    def run(procedure):
        found.append(procedure)
        raise Stopped

    with mock.patch.object(RanksBesideDeferral, "run", run), pytest.raises(Stopped):
        calibrated(limits, X, y, groups, **params)
    return found[0]


@pytest.mark.parametrize("by_group", [False, True])
@pytest.mark.parametrize("limits", [OF_MISSES, OF_BOTH])
def test_the_order_of_the_cells_depends_on_no_fresh_row(limits, by_group):
    X, y, groups = drawn(2, 900)
    other_X, other_y, other_groups = drawn(3, 900)
    rows = [(X, y, groups), (other_X, other_y, other_groups)]
    orders = [procedure_for(limits, *given, by_group=by_group).times for given in rows]
    np.testing.assert_equal(*orders)
    first, second = orders[0]
    # Inwards from both ends.
    assert (np.diff(first, axis=1) > 0).all()
    assert (np.diff(second, axis=1) < 0).all()


@pytest.mark.parametrize("decimals", [9, 1])
@pytest.mark.parametrize("by_group", [False, True])
@pytest.mark.parametrize(
    ("limits", "largest"), [(OF_MISSES, {0: 0.2}), (OF_ALARMS, {1: 0.2}), (OF_BOTH, {0: 0.25, 1: 0.3})]
)
def test_the_certified_rule_passes_the_exact_tests_at_their_parts_of_the_level(
    limits, largest, by_group, decimals
):
    """Also with scores of eleven values; the deferred rows of a group are those between two thresholds."""
    n_thresholds = len(largest) * (2 if by_group else 1)
    for seed in range(2):
        X, y, groups = drawn(seed + 10, 1500, decimals)
        rule = calibrated(limits, X, y, groups, decimals=decimals, by_group=by_group)
        answers = answers_of(rule, X, groups)
        deferred = (answers == 2).sum()
        assert passes(deferred, len(y), {2: 0.5, 1: 0.25}[len(largest)], OF_DEFERRAL)
        for g, (answer, most) in product((0, 1), largest.items()):
            here = (groups["g"] == g).to_numpy()
            counted = here & (y == 1 - answer)
            errors = (answers[counted] == answer).sum()
            assert errors == 0 or passes(errors, counted.sum(), most, OF_ERRORS / n_thresholds)
            by_score = pd.Series(answers[here]).groupby(X["s"].to_numpy()[here]).agg(["min", "max"])
            assert (by_score["min"] == by_score["max"]).all()
            order = {0: 0, 2: 1, 1: 2}
            assert by_score["min"].map(order).is_monotonic_increasing


@pytest.mark.parametrize("decimals", [9, 1])
@pytest.mark.parametrize(
    "limits",
    [
        ["miss(1) <= 20%", "deferred() <= 25%"],
        ["miss(1) <= 20%", "miss(1, by=g) <= 25%", "deferred() <= 25%"],
    ],
)
def test_misses_of_all_rows_pass_the_exact_test_beside_thresholds_by_group(limits, decimals):
    level = OF_ERRORS / (1 if len(limits) == 2 else 3)
    for seed in range(2):
        X, y, groups = drawn(seed + 20, 2500, decimals)
        rule = calibrated(limits, X, y, groups, decimals=decimals, by_group=True)
        answers = answers_of(rule, X, groups)
        missed = answers[y == 1] == 0
        assert passes(missed.sum(), len(missed), 0.2, level)
        assert passes((answers == 2).sum(), len(y), 0.25, OF_DEFERRAL)
        for g in (0, 1) if len(limits) == 3 else ():
            of_group = missed[groups["g"].to_numpy()[y == 1] == g]
            assert passes(of_group.sum(), len(of_group), 0.25, level)
        if decimals == 9:  # the groups share the misses: none of them stops far before all do
            assert not passes(missed.sum() + 30, len(missed), 0.2, level)


@pytest.mark.parametrize("by_group", [False, True])
@pytest.mark.parametrize("decimals", [9, 1])
def test_rows_are_counted_with_the_answers_that_rules_give(decimals, by_group):
    """Of rules with any number of answered cells, for a score and for a model's probabilities."""
    X, y, groups = drawn(4, 700, decimals)
    procedures = [procedure_for(OF_BOTH, X, y, groups, decimals=decimals, by_group=by_group)]
    if decimals == 9:
        model = LogisticRegression().fit(X[["s"]] ** 2, y)
        wide = pd.DataFrame({"s": X["s"]})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            rule = tb.tune(model, wide[:300], y[:300], groups=groups[:300], limits=OF_BOTH, by_group=by_group)
        found = []
        with (
            mock.patch.object(calibration, "first_that_applies", lambda *given: found.append(given) or 1 / 0),
            pytest.raises(ZeroDivisionError),
        ):
            tb.calibrate(rule, wide[300:], y[300:], groups=groups[300:], confidence=1 - 0.05 / 0.9)
        procedures.append(RanksBesideDeferral(*found[0]))
    for procedure in procedures:
        order = procedure.order
        assert len(order) > 3
        for n_answered in {0, 1, 3, len(order) // 2, len(order) - 1, len(order)}:
            answered = procedure.fresh.by(procedure.rule(order, n_answered)).answered
            n_strata = len(procedure.rows)
            counts = np.zeros((n_strata, 3))
            np.add.at(counts, (answered.stratum, answered.actions), 1)
            expected = np.zeros((n_strata, 3))
            for answer, place, cell, _ in order[:n_answered].tolist():
                here = procedure.places == place
                expected[here, answer] += procedure.rows[here, cell]
            expected[:, 2] = procedure.rows.sum(axis=1) - expected.sum(axis=1)
            np.testing.assert_array_equal(counts, expected)


def test_without_a_limit_on_deferral_the_ranks_have_the_whole_level():
    """With the fewest deferred rows as objective, each threshold is at its rank or meets the other one."""
    X, y, groups = drawn(5, 3000)
    rule = calibrated(WITHOUT_DEFERRAL, X, y, groups, by_group=True, objective="deferred")
    answers = answers_of(rule, X, groups)
    for g in (0, 1):
        here = (groups["g"] == g).to_numpy()
        for answer, most in ((0, 0.25), (1, 0.3)):
            scores = X["s"].to_numpy()[here & (y == 1 - answer)]
            errors = (answers[here & (y == 1 - answer)] == answer).sum()
            assert passes(errors, len(scores), most, LEVEL / 4)
            # 400 cells have the thresholds, so the next cell has a few rows.
            assert not (answers[here] == 2).any() or not passes(errors + 8, len(scores), most, LEVEL / 4)


def test_a_small_group_that_must_answer_its_rows_leaves_the_deferral_of_the_others():
    """Too few rows of the last group certify misses: none of its rows may be 0, and few may be deferred."""
    X, y, groups = drawn(12, 4000, shares=(0.49, 0.49, 0.02))
    limits = ["miss(1, by=g) <= 20%", "deferred(by=g) <= 40%"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        rule = tb.calibrate(tb.Scores("s", 1), X, y, groups=groups, limits=limits, by_group="g")
    answers, g = answers_of(rule, X, groups), groups["g"].to_numpy()
    deferred = [(answers[g == k] == 2).mean() for k in range(3)]
    assert min(deferred[:2]) > 0.3
    assert not (answers[g == 2] == 0).any()
    for k in range(3):
        n = (g == k).sum()
        # The first attempt of several has .9 of the level, three tests have .2 of it.
        assert passes((answers[g == k] == 2).sum(), n, 0.4, 0.9 * OF_DEFERRAL / 3)


def test_the_rule_has_nearly_the_error_of_the_best_thresholds():
    """All pairs of 200 thresholds on many rows, within limits: the price of 3,000 rows is small."""
    X, y, groups = drawn(4, 3000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        rule = tb.calibrate(tb.Scores("s", 1), X, y, groups=groups, limits=OF_MISSES)
    new, labels, new_groups = drawn(5, 100_000)
    score, g = new["s"].to_numpy(), new_groups["g"].to_numpy()
    errors = []
    for low in np.linspace(0, 1, 201):
        missed = [((score < low) & (labels == 1))[g == k].sum() / (labels[g == k] == 1).sum() for k in (0, 1)]
        if max(missed) > 0.2:
            break
        high = np.quantile(score, min((score < low).mean() + 0.25, 1.0))
        errors.append((((score < low) & (labels == 1)) | ((score >= high) & (labels == 0))).mean())
    answers = answers_of(rule, new)
    assert ((answers != labels) & (answers != 2)).mean() < min(errors) + 0.04


# -- the proof, without the library ------------------------------------------------------------------------


def breaks_and_passes(cells, errors, probabilities, rooms, n, most, allowed, first_needs):
    """Whether some region breaks "at most this share deferred", and passes.

    Cells have numbers of rows and of errors, shape (sides, cells). A side stops before the first cell whose
    errors are beyond its room. The first side is next as long as it has answered fewer rows than it needs;
    then the sides take turns.
    """
    answered, probability = [0, 0], 0.0
    left, considered = list(rooms), [0, 0]
    found = False
    while True:
        is_open = [left[side] >= 0 and considered[side] < cells.shape[1] for side in (0, 1)]
        if not any(is_open):
            return found
        side = 0 if answered[0] < first_needs else int(considered[1] <= considered[0])
        side = side if is_open[side] else 1 - side
        k = considered[side]
        considered[side] += 1
        left[side] -= errors[side, k]
        if left[side] < 0:
            continue
        answered[side] += cells[side, k]
        probability += probabilities[side, k]
        found |= 1.0 - probability > most + 1e-12 and n - sum(answered) <= allowed


def outcomes_of(n, shares, of_errors):
    """Numbers of rows and of errors in two times two cells, and the probability, of each draw of n rows.

    The cells have ``shares`` of all rows, and ``of_errors`` of these are errors.
    """
    cells = list(product(range(2), range(2)))
    chances = [shares[cell] * part for cell in cells for part in (of_errors[cell], 1.0 - of_errors[cell])]
    chances.append(1.0 - sum(chances))
    outcomes = []
    for rows in combinations_with_replacement(range(len(chances)), n):
        numbers = np.bincount(rows, minlength=len(chances))
        by_cell = numbers[:-1].reshape(2, 2, 2)
        outcomes.append((by_cell.sum(axis=2), by_cell[..., 0], multinomial.pmf(numbers, n, chances)))
    assert sum(chance for *_, chance in outcomes) == pytest.approx(1.0)
    return outcomes


SHARES = np.array([[0.2, 0.1], [0.15, 0.2]])
OF_ERRORS_IN_CELLS = np.array([[0.5, 0.3], [0.9, 0.2]])


def check_all_outcomes(n, breaks_and_passes, outcomes=None):
    """The probability that some rule breaks the limit and passes is at most that of the exact test."""
    outcomes = outcomes_of(n, SHARES, OF_ERRORS_IN_CELLS) if outcomes is None else outcomes
    for most, allowed in product((0.38, 0.5, 0.6, 0.7, 0.85), range(n)):
        probability = sum(
            chance for cells, errors, chance in outcomes if breaks_and_passes(cells, errors, most, allowed)
        )
        assert probability <= binom.cdf(allowed, n, most) + 1e-12


@pytest.mark.parametrize("n", [3, 5])
@pytest.mark.parametrize("first_needs", [0, 1, 2])
@pytest.mark.parametrize("rooms", [(0, 0), (0, 1), (1, 1), (9, 9), (0, 9)])
def test_neither_stops_nor_orders_by_answered_rows_make_a_test_of_deferral_easier(n, rooms, first_needs):
    """All outcomes of n rows: two sides of two cells, in which a row is an error or not, and the rest.

    The probability that some rule breaks the limit and passes is at most that of the exact test.
    """
    check_all_outcomes(
        n,
        lambda cells, errors, most, allowed: breaks_and_passes(
            cells, errors, SHARES, rooms, n, most, allowed, first_needs
        ),
    )


# The first label reaches the cells of two places in this order. The second label reaches one cell before.
TURNS = [
    (FIRST, 0, 0),
    (FIRST, 1, 0),
    (SECOND, 0, 1),
    (FIRST, 0, 1),
    (FIRST, 1, 1),
    (SECOND, 1, 1),
    (SECOND, 0, 0),
    (SECOND, 1, 0),
]


def breaks_and_passes_within_all(
    cells, errors, probabilities, rooms, room_of_all, n, most, allowed, places=(0, 1)
):
    """As `breaks_and_passes`, with limits on errors of the first label: of each place, and of both together.

    The errors of both places are counted in each turn of the first label until both have stopped. Rows of a
    cell with counted errors that is left out never count as answered. The limit on deferral has the rows of
    ``places``, n of them.
    """
    left, stopped, left_out, answered = list(rooms), [False, False], set(), set()
    n_answered, probability, found = 0, 0.0, False
    for label, place, cell in TURNS:
        here = (place, cell)
        if label == FIRST and not all(stopped):
            room_of_all -= errors[here]
            left[place] -= errors[here]
            stopped[place] |= left[place] < 0
            stopped = [is_stopped or room_of_all < 0 for is_stopped in stopped]
            if stopped[place]:
                left_out.add(here)
        if here in answered or (label == FIRST and stopped[place]):
            continue
        answered.add(here)
        if place not in places:
            continue
        probability += probabilities[here]
        n_answered += 0 if here in left_out else cells[here]
        found |= 1.0 - probability > most + 1e-12 and n - n_answered <= allowed
    return found


@pytest.mark.parametrize("n", [3, 5])
@pytest.mark.parametrize("room_of_all", [0, 1, 2, 9])
@pytest.mark.parametrize("rooms", [(0, 0), (0, 1), (1, 0), (9, 9), (0, 9)])
def test_limits_on_errors_of_several_places_make_no_test_of_deferral_easier(n, rooms, room_of_all):
    check_all_outcomes(
        n,
        lambda cells, errors, most, allowed: breaks_and_passes_within_all(
            cells, errors, SHARES, rooms, room_of_all, n, most, allowed
        ),
    )


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("room_of_all", [0, 1, 2])
@pytest.mark.parametrize("rooms", [(0, 1), (9, 9), (0, 9)])
def test_limits_on_errors_of_several_places_make_no_test_of_one_place_easier(n, rooms, room_of_all, place):
    """The turns of other places, and their errors, matter only for the stops. Each place has n rows."""
    of_place = [
        outcomes_of(n, np.where(np.arange(2)[:, None] == i, 1.6 * SHARES, 0.0), OF_ERRORS_IN_CELLS)
        for i in (0, 1)
    ]
    possible = [[draw for draw in outcomes if draw[2] > 0] for outcomes in of_place]
    outcomes = [(a[0] + b[0], a[1] + b[1], a[2] * b[2]) for a, b in product(*possible)]
    check_all_outcomes(
        n,
        lambda cells, errors, most, allowed: breaks_and_passes_within_all(
            cells, errors, 1.6 * SHARES, rooms, room_of_all, n, most, allowed, places=[place]
        ),
        outcomes,
    )


# -- the library at the boundary ---------------------------------------------------------------------------


# The answer that counts against a limit, and the largest share.
ANSWERS = {
    "miss(1, by=g) <= 20%": (0, 0.2),
    "miss(1, by=g) <= 25%": (0, 0.25),
    "miss(1) <= 20%": (0, 0.2),
    "false_alarm(1, by=g) <= 20%": (1, 0.2),
    "false_alarm(1, by=g) <= 30%": (1, 0.3),
    "false_alarm(1) <= 30%": (1, 0.3),
    "deferred() <= 25%": (2, 0.25),
    "deferred(by=g) <= 25%": (2, 0.25),
}
OF_ALL = ["miss(1) <= 20%", "deferred() <= 25%"]
OF_ALL_AND_GROUPS = ["miss(1) <= 20%", "miss(1, by=g) <= 25%", "deferred() <= 25%"]
BOTH_OF_ALL = ["miss(1) <= 20%", "miss(1, by=g) <= 25%", "false_alarm(1) <= 30%"]
BOUNDARY = {
    "many values": (9, (0.5, 0.5), OF_MISSES, False),
    "few values": (1, (0.5, 0.5), OF_MISSES, False),
    "a tiny group": (9, (0.93, 0.07), OF_MISSES, False),
    "false alarms, few values": (1, (0.5, 0.5), OF_ALARMS, False),
    "both errors": (9, (0.5, 0.5), WITHOUT_DEFERRAL, False),
    "both errors, thresholds by group": (9, (0.5, 0.5), WITHOUT_DEFERRAL, True),
    "thresholds by group, few values": (1, (0.6, 0.4), WITHOUT_DEFERRAL, True),
    "misses, thresholds by group": (9, (0.6, 0.4), OF_MISSES, True),
    "deferral by group": (9, (0.6, 0.4), ["miss(1, by=g) <= 20%", "deferred(by=g) <= 25%"], True),
    "misses of all, thresholds by group": (9, (0.6, 0.4), OF_ALL, True),
    "misses of all, few values": (1, (0.6, 0.4), OF_ALL, True),
    "misses of all and by group": (9, (0.8, 0.2), OF_ALL_AND_GROUPS, True),
    "both errors of all": (1, (0.6, 0.4), BOTH_OF_ALL, True),
    "deferral by group, misses of all": (9, (0.6, 0.4), ["miss(1) <= 20%", "deferred(by=g) <= 25%"], True),
}


def uninformative(seed, n, decimals, shares):
    """The score says nothing of the label: a threshold beyond a fifth of the rows breaks the limit."""
    X, _, groups = drawn(seed, n, decimals, shares)
    return X, np.random.default_rng([seed, 1]).integers(0, 2, n), groups


@pytest.mark.slow
@pytest.mark.parametrize("name", BOUNDARY)
def test_certificates_at_the_boundary_are_false_no_more_often_than_stated(name):
    """Losses drive the thresholds and the deferral to their limits."""
    decimals, shares, limits, by_group = BOUNDARY[name]
    new, _, new_groups = drawn(99, 200_000, decimals, shares)
    params = {"objective": "deferred"} if limits in (WITHOUT_DEFERRAL, BOTH_OF_ALL) else {}
    false = certified = 0
    n_draws = 300
    for seed in range(n_draws):
        X, y, groups = uninformative(seed, 700, decimals, shares)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            try:
                rule = tb.calibrate(
                    tb.Scores("s", 1),
                    X,
                    y,
                    groups=groups,
                    limits=limits,
                    confidence=1 - 0.05 / 0.9,
                    by_group=by_group,
                    **params,
                )
            except (tb.NotCertifiedError, tb.InfeasibleLimitsError):
                continue
        certified += 1
        answers = answers_of(rule, new, new_groups)
        of_groups = [answers[(new_groups["g"] == g).to_numpy()] for g in (0, 1)]
        false += any(
            (rows == ANSWERS[limit][0]).mean() > ANSWERS[limit][1]
            for limit in limits
            for rows in (of_groups if "by=g" in limit else [answers])
        )
    assert certified > n_draws / 2
    assert binom.sf(false - 1, n_draws, LEVEL) > 0.001


@pytest.mark.slow
@pytest.mark.parametrize("by_group", [False, True])
@pytest.mark.parametrize("decimals", [9, 1])
def test_the_deferral_of_certified_rules_is_false_no_more_often_than_its_part_of_the_level(
    decimals, by_group
):
    """The objective widens deferral up to its limit, and the thresholds stop at their ranks before."""
    new, _, new_groups = drawn(98, 200_000, decimals)
    most = 0.4 if decimals == 9 else 0.55
    limits = ["miss(1, by=g) <= 25%", "false_alarm(1, by=g) <= 30%", f"deferred() <= {most}"]
    false = certified = 0
    n_draws = 300
    for seed in range(n_draws):
        X, y, groups = drawn([seed, 7], 900, decimals)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            try:
                rule = tb.calibrate(
                    tb.Scores("s", 1),
                    X,
                    y,
                    groups=groups,
                    limits=limits,
                    confidence=1 - 0.05 / 0.9,
                    by_group=by_group,
                )
            except (tb.NotCertifiedError, tb.InfeasibleLimitsError):
                continue
        certified += 1
        answers = answers_of(rule, new, new_groups)
        false += (answers == 2).mean() > most
    assert certified > n_draws / 2
    assert binom.sf(false - 1, n_draws, OF_DEFERRAL) > 0.001


def test_other_limits_have_other_procedures():
    """A precision and a gap; misses in groups across the thresholds and clusters have the same."""
    X, y, groups = drawn(6, 900)
    groups["h"] = np.arange(len(y)) % 2
    served = []

    def recorded(*given):
        served.append(RanksBesideDeferral(*given).applies)
        raise Stopped

    stated = [
        (["precision(1, by=g) >= 60%", "deferred() <= 25%"], {}),
        (["gap(miss(1, by=g)) <= 20%", "deferred() <= 25%"], {}),
        (["miss(1, by=h) <= 40%", "deferred() <= 25%"], {"by_group": "g"}),
        (["miss(1) <= 20%", "deferred(by=h) <= 30%"], {}),
        (OF_BOTH, {"by_group": "g"}),
        (OF_MISSES, {}),
    ]
    with mock.patch.object(calibration, "first_that_applies", recorded):
        for limits, params in stated:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                rule = tb.tune(
                    tb.Scores("s", 1), X[:400], y[:400], groups=groups[:400], limits=limits, **params
                )
            with pytest.raises(Stopped):
                tb.calibrate(
                    copy.deepcopy(rule), X[400:], y[400:], groups=groups[400:], confidence=1 - 0.05 / 0.9
                )
        with pytest.raises(Stopped):
            tb.calibrate(
                copy.deepcopy(rule), X[400:], y[400:], groups=groups[400:], clusters=np.arange(500) // 2
            )
    assert served == [False, False, True, True, True, True, True]


@pytest.mark.parametrize("limits", [OF_MISSES, OF_BOTH, ["miss(1) <= 20%", "deferred() <= 25%"]])
def test_persons_with_equal_rows_count_once(limits):
    X, y, groups = drawn(7, 1500)
    times = np.arange(len(y)) % 3 + 1
    row = np.repeat(np.arange(len(y)), times)
    rules = []
    for rows, clusters in ((np.arange(len(y)), None), (row, row)):
        rule = copy.deepcopy(selected(tuple(limits), by_group=True))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            given = {"groups": groups.iloc[rows], "clusters": clusters}
            rules.append(tb.calibrate(rule, X.iloc[rows], y[rows], **given))
    assert str(rules[0].rule_) == str(rules[1].rule_)
    estimates = [[(bound.estimate, bound.n) for bound in rule.certificate_.bounds] for rule in rules]
    assert estimates[0] == estimates[1]


def visits(seed, persons):
    """Four visits of a person in the mean: labels and scores of a person are correlated."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(persons), rng.poisson(3, persons) + 1)
    n = len(person)
    g, is_ill = rng.integers(0, 2, persons), rng.random(persons) < 0.2
    y = np.where(rng.random(n) < 0.6, is_ill[person], rng.random(n) < 0.2).astype(int)
    z = rng.normal(size=n) + 0.5 * rng.normal(size=persons)[person] + 2.6 * y - 1.3 + 0.4 * g[person]
    return pd.DataFrame({"s": 1 / (1 + np.exp(-z))}), y, pd.DataFrame({"g": g[person]}), person


@pytest.mark.slow
def test_certificates_of_persons_are_false_no_more_often_than_stated():
    """They are about a random row of a random person."""
    X, y, groups, person = visits(99, 100_000)
    order = np.lexsort((np.random.default_rng(0).random(len(y)), person))
    of_person = order[np.append(True, np.diff(person[order]) > 0)]
    new, labels, new_groups = X.iloc[of_person], y[of_person], groups.iloc[of_person]
    false = 0
    n_draws = 200
    for seed in range(n_draws):
        X, y, groups, person = visits(seed, 600)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            rule = tb.calibrate(
                tb.Scores("s", 1),
                X,
                y,
                groups=groups,
                clusters=person,
                limits=["miss(1) <= 15%", "deferred <= 10%"],
                by_group=True,
                confidence=1 - 0.05 / 0.9,
            )
        answers = answers_of(rule, new, new_groups)
        false += (answers == 2).mean() > 0.1 or (answers[labels == 1] == 0).mean() > 0.15
    assert binom.sf(false - 1, n_draws, LEVEL) > 0.001


def test_calibrate_takes_limits_without_deferral_after_a_rule_that_defers():
    X, y, groups = drawn(2, 3000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        rule = tb.calibrate(selected(tuple(OF_MISSES)), X, y, groups=groups, limits=OF_MISSES[:1])
    answers = answers_of(rule, X)
    assert 2 not in answers
    for g in (0, 1):
        of_ill = answers[(groups["g"] == g).to_numpy() & (y == 1)]
        assert (of_ill == 0).mean() <= 0.2
    with pytest.raises(ValueError, match="tailboost"):
        tb.calibrate(selected(tuple(OF_MISSES[:1])), X, y, groups=groups, limits=OF_MISSES)


@pytest.mark.parametrize("by_group", [False, True])
@pytest.mark.parametrize("limits", [OF_MISSES, [*OF_BOTH, "deferred(by=g) <= 60%"]])
def test_chances_on_new_rows_are_those_of_the_procedure_on_each_draw(limits, by_group):
    """Each draw has as many rows, from the cells of the certifying rows in their proportions."""
    X, y, groups = drawn(2, 900)
    procedure = procedure_for(limits, X, y, groups, by_group=by_group)
    tighter = [tb.rates.parse(limit.replace("deferred() <= 25%", "deferred() <= 20%")) for limit in limits]
    for growth in (1.0, 2.0):
        draws = procedure.chances.draws(growth)
        expected = []
        for rows in draws:
            one = procedure.within(tighter, 0.01)
            one.__dict__["rows"] = rows
            expected.append(one.keeps_deferral(one.order).any())
        assert procedure.chances.chance(tighter, growth, 0.01) == np.mean(expected)
        sizes = draws.sum(axis=(1, 2))
        assert sizes.mean() == pytest.approx(growth * 900, rel=0.02)
        # Of a part of the rows: noise of the present rows and of the new ones.
        share = draws[:, :, :5].sum(axis=(1, 2)) / sizes
        p = procedure.rows[:, :5].sum() / 900
        assert share.mean() == pytest.approx(p, abs=0.01)
        assert share.var() == pytest.approx(p * (1 - p) / 900 * (1 + 1 / growth), rel=0.4)


@pytest.mark.parametrize(
    ("limits", "by_group", "helps"),
    [
        (["miss(1, by=g) <= 25%", "false_alarm(1, by=g) <= 30%", "deferred() <= 10%"], True, True),
        # The answer 1 to every row keeps these, without any deferral.
        (["miss(1, by=g) <= 10%", "ratio(deferred(by=g)) >= 95%", "deferred() <= 30%"], False, False),
    ],
)
def test_a_refusal_names_the_objective_of_fewest_reviews_where_no_single_answer_will_do(
    limits, by_group, helps
):
    with pytest.raises(tb.NotCertifiedError) as caught:
        calibrated(limits, *drawn(7, 3000), by_group=by_group)
    printed = re.search(r"\* as many with limits=(\[.*?\]):", str(caught.value)).group(1)
    assert ("; objective='deferred' asks for the fewest instead." in str(caught.value)) == helps
    X, _, groups = drawn(1, 400)  # the selecting rows
    shares = []
    for objective in ("error", "deferred"):
        rule = selected(tuple(ast.literal_eval(printed)), by_group=by_group, objective=objective)
        shares.append((answers_of(rule, X, groups) == 2).mean())
    assert shares[1] < shares[0] - 0.05
    assert (shares[1] > 0.0) == helps
