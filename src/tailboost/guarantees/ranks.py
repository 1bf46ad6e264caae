"""Ranks: thresholds at order statistics of fresh scores, which need no test.

*Limits on one side.* Each limit is on the share of a fixed number of rows, all with one threshold, that get
one answer. A larger threshold can only add rows with the first answer (a smaller one with the second).
Theorem 1: let t* be the first threshold of a place that breaks a limit of this answer. The test of this limit
at t* passes with a probability of at most its level, and where it fails, all further thresholds fail. So all
thresholds that pass keep the limits, whichever is taken after any look at the same rows. Places and answers
divide the level (union bound), limits of one place and answer do not.

*Ranks and a test.* Beside such limits on one answer, others join the rows of several thresholds, on rows with
the other label. Theorem 2: given the labels, the scores of both are independent. So rules placed by the ranks
of one label are fixed for a test on the other. The safest rule is tested first, then the one of least loss.

*A lone gap or ratio* of such shares between groups with a threshold each. Theorem 3: the true share at a rank
of n independent scores has a Beta distribution, whatever the population. The selecting rows alone choose the
ranks, and `probability_within` bounds the probability that all shares are close. Fresh rows only place the
thresholds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from tailboost.core.array_types import Floats, Ints
from tailboost.guarantees.case import ONE_ANSWER, Case, Certified, Refused
from tailboost.guarantees.tests import FIRST, Tests, losses_of
from tailboost.rates.bounds import most_reached, probability_within
from tailboost.selection.data import (
    BEYOND,
    COST_RESOLUTION,
    ScoredRows,
    possible_thresholds,
)

# Part of the level for the test beside ranks: a half costs .0015 ± .0007 of error.
PART = 0.1
# Tried smallest rates of a gap or ratio, and parts of its bound by which the rates differ.
RATES = np.linspace(0.004, 0.996, 125)
ROOM = (0.0, 0.2, 0.4, 0.6, 0.8)
AT_RANKS = "Thresholds are at ranks of the scores of these rows, which need no test."


@dataclass(frozen=True, eq=False)
class Share:
    """Rows of one threshold, of which one answer has at most a share."""

    rows: Ints
    answer: int
    allowed: float
    place: int


def shares_of(case: Case, tests: Sequence[Tests], scored: ScoredRows) -> list[Share]:
    """Return the limited shares on the fresh rows; subgroups without rows are left out."""
    shares = []
    for test in tests:
        answers = test.answers
        for j, strata in enumerate(test.strata):
            rows = case.voters_of(strata)
            if len(rows):
                allowed, place = float(test.allowed[j]), int(scored.place[rows[0]])
                shares.append(Share(rows, int(answers[j]), allowed, place))
    return shares


def windows(
    shares: Sequence[Share], scores: Floats, n_places: int, level: float
) -> tuple[Floats, Floats]:
    """Return between which values each threshold keeps all limits, shape (n_places,) each.

    Scores up to the threshold have the first answer.
    """
    lowest, highest = np.full(n_places, -np.inf), np.full(n_places, np.inf)
    level_of_each = level / max(1, len({(share.place, share.answer) for share in shares}))
    for share in shares:
        values = np.sort(scores[share.rows])
        most = most_reached(len(values), share.allowed, level_of_each)
        if most >= len(values):
            continue  # all rows may have the answer
        if share.answer == FIRST:
            end = values[most] if most >= 0 else -np.inf
            highest[share.place] = min(highest[share.place], end)
        else:
            end = values[-1 - most] if most >= 0 else np.inf
            lowest[share.place] = max(lowest[share.place], end)
    return lowest, highest


def family_of(case: Case) -> Any:
    """Return the thresholds, by group if the rule reads it; None without any, or with deferral."""
    if case.defers or case.odds is None or case.losses is None or case.tests is None:
        return None
    selection = case.selection
    return selection.family(by_group=True) or selection.family(by_group=False)


def _is_ranked(test: Tests, place: Ints) -> bool:
    """Return whether each subgroup of a limit is a share of one answer among rows of one threshold."""
    return bool((test.answers >= 0).all() and (test.places(place).sum(axis=1) == 1).all())


# -- limits on one side ------------------------------------------------------------------------------------


def thresholds_of(selection: Any) -> Any:
    """Return the thresholds if each limit is on one answer to rows of one of them; otherwise None.

    Only the selection data are read. If they are the fresh rows too, theorem 1 holds all the same: the score
    of a model is in one order, and thresholds on it are all that is chosen.
    """
    odds = selection.log_odds
    if odds is None or odds.data.strata.defers:
        return None
    strata = odds.data.strata
    family = selection.family(by_group=True) or selection.family(by_group=False)
    tests = [Tests.of(limit, strata) for limit in selection.problem.limits]
    if family is None or losses_of(selection.problem.objective, strata) is None:
        return None
    if not all(test is not None and _is_ranked(test, family.place) for test in tests):
        return None
    return family


def applies(case: Case) -> Any:
    """Return the thresholds if each limit is on one answer to rows of one of them; otherwise None."""
    return None if case.defers else thresholds_of(case.selection)


def run(case: Case, family: Any) -> Certified | Refused:
    """Return the rule of least loss within all ranks."""
    fresh = case.scored_fresh(family)
    shares = shares_of(case, case.fresh_tests, fresh)
    lowest, highest = windows(shares, fresh.scores, family.n_thresholds, case.level)
    others = case.scored_selection(family, expected=False)
    thresholds = np.empty(family.n_thresholds)
    for place in range(family.n_thresholds):
        possible, losses = fresh.loss_curve(place)
        inside = (possible > lowest[place]) & (possible < highest[place])
        # At both ends all rows have one answer: a limit on the other one is kept by construction.
        inside[0], inside[-1] = lowest[place] == -np.inf, highest[place] == np.inf
        if not inside.any():
            return Refused(case.fresh, "no threshold keeps all limits on these rows")
        loss = losses[inside] + others.loss(place, possible[inside])
        thresholds[place] = possible[inside][loss.argmin()]
    return _at(case, family, thresholds)


def _at(case: Case, family: Any, thresholds: Floats) -> Certified | Refused:
    """Return the certified rule at thresholds; a refusal if it gives all rows one answer."""
    if (thresholds <= -BEYOND).all() or (thresholds >= BEYOND).all():
        return Refused(case.fresh, ONE_ANSWER)
    rule = case.selection.with_candidate(family.candidate(thresholds), [case.fresh.table])
    return Certified(rule, "ranks", AT_RANKS)


# -- ranks of one label, and a test of the other -----------------------------------------------------------


def applies_beside_test(case: Case) -> Any:
    """Return the thresholds by group if limits on one answer have ranks, and others are on other labels."""
    if len(case.limits) < 2 or case.fresh.clusters is not None:
        return None
    family = family_of(case)
    if family is None or not family.by_group:
        return None
    ranked, joint = _divided(case, family, case.tests)
    one_answer = all((test.answers >= 0).all() for test in joint)
    answers = {answer for test in ranked for answer in test.answers.tolist()}
    if not (ranked and joint and one_answer and len(answers) == 1):
        return None
    of_ranks, others = (
        np.any([t.strata.any(axis=0) for t in part], axis=0) for part in (ranked, joint)
    )
    return None if (of_ranks & others).any() else family


def _divided(
    case: Case, family: Any, tests: Sequence[Tests] | None
) -> tuple[list[Tests], list[Tests]]:
    """Return the tests of limits with ranks and of others, as the selection data tell them apart."""
    assert tests is not None
    assert case.tests is not None
    is_ranked = [_is_ranked(test, family.place) for test in case.tests]
    pairs = list(zip(tests, is_ranked, strict=True))
    return [test for test, ranks in pairs if ranks], [
        test for test, ranks in pairs if not ranks
    ]


def run_beside_test(case: Case, family: Any) -> Certified | Refused:
    """Return the rule of least loss within the ranks if it passes its tests, otherwise the safest rule."""
    m = family.n_thresholds
    scored = case.scored_fresh(family)
    selected = case.scored_selection(family, expected=True)
    ranked, joint = _divided(case, family, case.fresh_tests)
    shares = shares_of(case, ranked, scored)
    lowest, highest = windows(shares, scored.scores, m, (1.0 - PART) * case.level)
    rows_of_ranks = np.concatenate([share.rows for share in shares])
    first = shares[0].answer == FIRST
    ends = highest - COST_RESOLUTION / 2 if first else lowest + COST_RESOLUTION / 2
    safest, best = np.empty(m), np.empty(m)
    for place in range(m):
        scores = selected.scores[selected.part(place)]
        possible, _ = possible_thresholds(scores)
        possible = possible.clip(scores.min(initial=0.0) - 1.0, scores.max(initial=0.0) + 1.0)
        if np.isinf(ends[place]) and (ends[place] > 0) == first:  # no limited share there
            safest[place] = best[place] = possible[selected.loss(place, possible).argmin()]
            continue
        safest[place] = best[place] = ends[place].clip(-BEYOND, BEYOND)
        if abs(safest[place]) < BEYOND:
            inside = possible < ends[place] if first else possible > ends[place]
            possible = np.append(possible[inside], ends[place])
            best[place] = possible[selected.loss(place, possible).argmin()]
    certified = None
    opened = [
        case.fresh.table.part(np.unique(rows_of_ranks))
    ]  # these rows alone write decimals
    for thresholds in (safest, best):
        rule = case.selection.with_candidate(family.candidate(thresholds), opened)
        answered = case.fresh.by(rule)
        counts = [case.counted(answered, test) for test in joint]
        if not all(
            test.passes(*each, np.zeros(each[0].shape, dtype=bool), PART * case.level).all()
            for test, each in zip(joint, counts, strict=True)
        ):
            break
        certified = rule
    if certified is None:
        levels = {
            (test.limit, name): PART * case.level for test in joint for name in test.names
        }
        why = "no thresholds within the ranks keep the limits that join groups"
        return Refused(
            case.fresh.by(case.selection.with_candidate(family.candidate(safest))), why, levels
        )
    if len(np.unique(case.fresh.by(certified).answered.actions)) == 1:
        return Refused(case.fresh, ONE_ANSWER)
    made = f"{AT_RANKS} Limits that join groups were tested on the other label, one rule after the other."
    return Certified(certified, "ranks and a test", made)


# -- a lone gap or ratio -----------------------------------------------------------------------------------


def run_comparison(case: Case, plan: tuple[Any, Ints]) -> Certified | Refused:
    """Return the rule with thresholds at the ranks that the selection data chose."""
    family, ranks = plan
    scored = case.scored_fresh(family)
    thresholds = np.empty(family.n_thresholds)
    for rows, (least, most) in zip(_compared_rows(case), ranks.tolist(), strict=True):
        possible, n_above = possible_thresholds(scored.scores[rows])
        n_counted = n_above if _counts_second(case) else len(rows) - n_above
        inside = (least <= n_counted) & (n_counted <= most)
        if not inside.any():
            return Refused(case.fresh, "equal scores leave no threshold at the certified ranks")
        nearest = np.where(inside, np.abs(n_counted - (least + most) / 2), np.inf).argmin()
        thresholds[scored.place[rows[0]]] = possible[nearest]
    return _at(case, family, thresholds)


def _counts_second(case: Case) -> bool:
    """Return whether the compared rate counts the second answer."""
    return bool(case.fresh_tests[0].wrong[..., 1].any())


def _compared_rows(case: Case) -> list[Ints]:
    """Return the fresh rows of each compared group."""
    return [case.voters_of(strata) for strata in case.fresh_tests[0].strata]


def applies_to_comparison(case: Case) -> tuple[Any, Ints] | None:
    """Return thresholds and certified ranks, least and most by group (m, 2); None without any."""
    family = family_of(case)
    if family is None or not family.by_group or len(case.limits) > 1:
        return None
    (test,) = case.tests  # type: ignore[misc]
    if not test.limit.compares or not (
        _shares_of_one(test) and _shares_of_one(case.fresh_tests[0])
    ):
        return None
    places = test.places(family.place)
    names = case.fresh_tests[0].names
    rows = _compared_rows(case)
    alone = (places.sum(axis=1) == 1).all() and (places.sum(axis=0) == 1).all()
    if not alone or set(names) != set(test.names) or not all(map(len, rows)):
        return None
    joined = np.concatenate(rows)
    if len(np.unique(joined)) < len(joined) or case.fresh.clusters is not None:
        return None
    of_name = [test.names.index(name) for name in names]
    ranks = _ranks(case, family, test, of_name, np.array([len(each) for each in rows]))
    return None if ranks is None else (family, ranks)


def _shares_of_one(test: Tests) -> bool:
    """Return whether the compared rates count one answer to a fixed number of rows."""
    counted = test.wrong.max(axis=(0, 1)) > 0
    fixed = (test.among[..., :2] == test.among[..., :1]).all()
    return bool(fixed and counted.sum() == 1)


def _ranks(
    case: Case, family: Any, test: Tests, of_name: list[int], sizes: Ints
) -> Ints | None:
    """Return the ranks of least expected loss whose shares are close; None without any."""
    selected = case.scored_selection(family, expected=True)
    data = case.selection.thresholds(family).data
    curves, runs = [], []
    for j in of_name:
        rows = np.flatnonzero(test.strata[j][data.stratum])
        if not len(rows):
            return None
        possible, _ = possible_thresholds(
            selected.scores[selected.part(selected.place[rows[0]])]
        )
        scores = np.sort(selected.scores[rows])
        rates = np.searchsorted(scores, possible, side="right") / len(scores)
        if _counts_second(case):
            rates = 1.0 - rates
        losses = selected.loss(int(selected.place[rows[0]]), possible)
        order = np.argsort(rates, kind="stable")
        curves.append((rates[order], losses[order]))
        runs.append((np.unique(rates), len(scores)))
    factor, gap = test.limit.pair
    options = set()
    for rate in RATES:
        for room in ROOM:
            highest = min(1.0, rate + room * ((1.0 - factor) * rate + gap) / max(factor, 1e-9))
            loss, of_groups = 0.0, []
            for (rates, losses), n in zip(curves, sizes.tolist(), strict=True):
                tried = np.r_[rate, rates[(rates > rate) & (rates < highest)], highest]
                of_tried = np.interp(tried, rates, losses)
                loss += of_tried.min()
                of_groups.append(min(round(tried[of_tried.argmin()] * (n + 1)), n))
            options.add((loss, tuple(of_groups)))
    # One answer to all rows keeps a comparison by construction, so only better rules are tried.
    constant = min(sum(losses[end] for _, losses in curves) for end in (0, -1))
    z = -ndtri(case.level / (len(sizes) * (len(sizes) - 1)))
    for loss, ranks in sorted(options):
        if loss >= constant:
            break
        r = np.array(ranks) / sizes
        widths = np.array(
            [
                _width(*run, rate, n)
                for run, rate, n in zip(runs, r.tolist(), sizes.tolist(), strict=True)
            ]
        )
        if (widths > z * np.sqrt(sizes * r * (1.0 - r))).any():
            continue  # a test needs less room
        least, most = np.maximum(ranks - widths, 0), np.minimum(ranks + widths, sizes)
        low, high = (least + 0.5) / (sizes + 1.0), (most + 0.5) / (sizes + 1.0)
        deviations = test.limit.deviations(high * (1.0 - high) / (sizes + 2.0))
        is_pair = test.limit.comparison.pairs(len(sizes))
        if (test.limit.rooms(high, low) < 1.2 * deviations)[is_pair].any():
            continue  # hopeless
        numbers = least.tolist(), most.tolist(), sizes.tolist()
        if probability_within(*numbers, factor=factor, gap=gap) >= 1.0 - case.level:
            return np.stack([least, most], axis=1)
    return None


def _width(edges: Floats, n_selected: int, rate: float, n: int) -> int:
    """Return how far from a rank of n fresh rows the next threshold may be: half a run of equal scores.

    ``edges`` has the rates of the selecting rows of a group at all thresholds. The longest run counts of
    those that sampling may move to the rank.
    """
    near = 3.0 * np.sqrt(0.25 / n_selected + 0.25 / n)
    is_near = (edges[1:] >= rate - near) & (edges[:-1] <= rate + near)
    longest = float(np.diff(edges)[is_near].max(initial=0.0)) * n_selected
    return 0 if longest < 1.5 else int(np.ceil(longest / n_selected * n / 2.0))
