"""Bounds on rates on new rows from fresh rows: joint ones, and those of tests of limits.

The mean of a subgroup has a bound (`upper_bound`). From it follow the bounds of a rate or limit
(`bounds_of`), and bounds that hold together (`joint_bounds`) and tests of limits (`all_pass`).
"""

from collections.abc import Sequence

import numpy as np

from tailboost.guarantees.certified_bound import CONSTANT, ESTIMATE, CertifiedBound
from tailboost.guarantees.exact_tests import all_pairs_pass
from tailboost.guarantees.few_rows import may_read_numbers
from tailboost.guarantees.fresh import Fresh
from tailboost.guarantees.tail import UPPER, worst_mean
from tailboost.rates import (
    Expression,
    Limit,
    Rate,
    Sample,
    deferred as deferred_rate,
    groups_in,
    subgroups_of,
)
from tailboost.rates.bounds import betting_p_value, betting_upper, clopper_pearson_upper
from tailboost.rows import HUMAN_REVIEW

EXACT = "Clopper–Pearson"
BETTING = "betting"
# Number of levels at which a ratio of sums is tested: the bound is a multiple of 1/RATIO_LEVELS.
RATIO_LEVELS = 1000


def upper_bound(rate: Rate, sample: Sample, level: float, method: str) -> float:
    """Return an upper bound on the rate of a subgroup: on a mean, the ratio of an F score, a tail or a shift.

    ``method`` is that of `method_for`. A tail or shift of losses of two values is a rising function of their
    mean.
    """
    scaled = sample.scaled()  # the bounds are for numbers in [0, 1]
    if method == EXACT:
        bound = clopper_pearson_upper(round(scaled.sum()), len(scaled), level)
        if rate.loss:
            bound = worst_mean(rate, [0.0, 1.0], [1.0 - bound, bound])
    elif rate.loss:
        bound = UPPER[rate.kind](scaled, rate.level, level)  # at its tail mass, or divergence
    elif (sample.among == 1.0).all():
        bound = betting_upper(scaled, level)
    else:
        bound = ratio_upper(sample, level)
    return sample.low + (sample.high - sample.low) * bound


def ratio_upper(sample: Sample, level: float) -> float:
    """Return an upper bound on a scaled ratio E top / E bottom, 0 ≤ top ≤ bottom ≤ 1.

    If the ratio is at least t, then ``top − t bottom + t``, which lies in [0, 1], has a mean of at least t:
    this is tested. The bound is the smallest t of a grid with a rejection at t and at all larger t. It fails
    only if the test rejects at the largest t of the grid up to the true ratio.
    """
    bound = 1.0
    for k in range(RATIO_LEVELS - 1, 0, -1):
        t = k / RATIO_LEVELS
        if betting_p_value(sample.scaled(t), t, level) > level:
            break
        bound = t
    return bound


def bounds_of(stated: Expression, fresh: Fresh, level: float | None) -> list[CertifiedBound]:
    """Return the bounds of a rate or limit on each subgroup, each side at the level, then on a gap or ratio.

    Without a level nothing but possible values bounds a rate.
    """
    rate = stated.rate
    samples = fresh.samples(rate)
    targets = np.full(len(samples), np.nan)
    if isinstance(stated, Limit) and not stated.compares:
        targets = stated.levels([sample.name for sample in samples])
    deferred = {}  # shares of rows, unless the rate shows them
    if "mask" not in rate.needs and fresh.is_deferred.any():
        deferred = {
            sample.name: sample.mean
            for sample in fresh.samples(deferred_rate(by=rate.by))
            if len(sample.rows)
        }
    bounds = []
    possible = possible_values(rate, fresh)
    for sample, target, values in zip(samples, targets.tolist(), possible, strict=True):
        method, lower, upper = interval_of(stated, sample, values, fresh, level)
        n = len(sample.rows)
        estimate = None
        if n:
            estimate = worst_mean(rate, sample.values) if rate.loss else sample.mean
        bound = CertifiedBound(
            rate,
            sample.name,
            sense=stated.sense if stated.sides == stated.sense else "",
            target=None if np.isnan(target) else target,
            estimate=estimate,
            lower=lower,
            upper=upper,
            n=n,
            method=method,
            in_percent=isinstance(stated, Limit) and stated.in_percent,
            deferred=deferred.get(sample.name),
        )
        if bound.target is not None and not values:  # no row can count, so each limit is kept
            bound = bound.at_target(method)
        bounds.append(bound)
    if isinstance(stated, Limit) and stated.compares:
        stated.refuse_negative(samples[0].low)
        bounds.append(compared_bound(stated, bounds))
    return bounds


def interval_of(
    stated: Expression, sample: Sample, possible: set[float], fresh: Fresh, level: float | None
) -> tuple[str, float, float]:
    """Return the method of the bounds on the rate of a subgroup with some possible values, and both."""
    lower = sample.low
    upper = sample.high
    if not possible:
        return CONSTANT, lower, upper
    if len(possible) == 1:
        (value,) = possible
        return CONSTANT, value, value
    if level is None:
        return ESTIMATE, lower, upper
    rate = stated.rate
    method = method_for(rate, fresh)
    if len(sample.rows) and lower < upper:
        if "≥" in stated.sides:
            lower = sample.low + sample.high - upper_bound(rate, sample.mirrored, level, method)
        if "≤" in stated.sides:
            upper = upper_bound(rate, sample, level, method)
    return method, lower, upper


def compared_bound(limit: Limit, bounds: Sequence[CertifiedBound]) -> CertifiedBound:
    """Return the bound on a gap or ratio that follows from bounds on both sides of each subgroup."""
    lower, upper = limit.interval(*np.array([(each.lower, each.upper) for each in bounds]).T)
    n = min(bound.n for bound in bounds)
    estimate = None
    if n:
        estimate = limit.value(np.array([bound.estimate for bound in bounds]))
    return CertifiedBound(
        limit.rate,
        limit.form,
        sense=limit.sense,
        target=limit.bound,
        estimate=estimate,
        lower=lower,
        upper=upper,
        n=n,
        method=f"bounds of {len(bounds)} subgroups",
        subgroups=tuple(bound.subgroup for bound in bounds),
        in_percent=limit.in_percent,
    )


def method_for(rate: Rate, fresh: Fresh) -> str:
    """Return the method of bounds on a rate: exact for numbers of rows, and for means of two values."""
    mean = rate.row_rate
    if mean.matrix is None:
        has_two_values = mean.quantity == "share"
    else:
        costs, _ = mean.numerator_and_denominator(fresh.answered.strata)
        has_two_values = len(np.unique(costs)) <= 2
    # The expected loss of drawn answers may have any value.
    return EXACT if has_two_values and not (rate.loss and fresh.drawn is not None) else BETTING


def all_pass(limits: Sequence[Limit], fresh: Fresh, level: float) -> bool:
    """Return whether a rule passes the test of each limit at the whole level.

    If all limits must hold, each is tested at the level: all pass although one is broken with a probability
    of at most the level. The same holds for the pairs of subgroups of a gap or ratio. A pair of counts of
    independent rows has an exact test; otherwise bounds on both sides share the level.
    """
    for limit in limits:
        samples = fresh.samples(limit.rate)
        if limit.compares and limit.rate.quantity == "share" and fresh.are_apart(samples):
            counts = [(round(sample.values.sum()), len(sample.rows)) for sample in samples]
            passes = all_pairs_pass(counts, limit, level)
        else:
            bounds = bounds_of(limit, fresh, level / len(limit.sides))
            passes = all(bound.certified is not False for bound in bounds)
        if not passes:
            return False
    return True


def joint_bounds(
    expressions: Sequence[Expression], fresh: Fresh, level: float | None
) -> list[CertifiedBound]:
    """Return bounds on rates on new rows that hold together with a probability of at least 1 − level.

    The rate of a subgroup is a mean of bounded numbers over its rows, or, for a precision, a ratio of sums. A
    rate is bounded on both sides, a limit on its side. A gap or ratio follows from bounds on both sides of
    each subgroup. The level is divided evenly among the bounds on means of subgroups (union bound). Those
    that the rule fixes by construction have no share, and those without rows none where the level of the
    others may depend on it: `may_read_numbers`. Without a level the rates are estimates, as in `bounds_of`.
    """
    reads_numbers = may_read_numbers(expressions, fresh)
    on_means = {
        (each.rate, bound.subgroup, side)
        for each in expressions
        for bound in bounds_of(each, fresh, None)
        for side in each.sides
        if bound.method == ESTIMATE and (bound.n or each.rate.is_ratio or not reads_numbers)
    }
    level_of_each = None
    if level is not None:
        level_of_each = level / max(len(on_means), 1)
    bounds = []
    for each in expressions:
        bounds += bounds_of(each, fresh, level_of_each)
    return bounds


def possible_values(rate: Rate, fresh: Fresh) -> list[set[float]]:
    """Return the values that rows of each subgroup can have, by the possible answers of the rule there.

    A rule that never answers a label in a group has no false alarm there: the rate is 0. For the precision of
    this label no row counts, so there is no value, and each limit is kept. Two values stand for any.
    """
    strata = fresh.answered.strata
    subgroups = subgroups_of(strata, rate.by)
    selected = fresh.decision.selected
    if selected is None or rate.loss or rate.kind in ("representation", "cost"):
        return [{0.0, 1.0} for _ in subgroups]
    counted, among = rate.numerator_and_denominator(strata)
    answers = [*strata.classes, HUMAN_REVIEW][: strata.n_actions]
    possible = []
    for name, inside in subgroups.items():
        actions = selected.written.actions_in(groups_in(name, rate.by, strata.columns))
        is_possible = among * [answer in actions for answer in answers] > 0.0
        if inside.any():  # an empty subgroup may get rows of any label
            is_possible &= np.isin(np.arange(strata.n_classes), strata.y[inside])[:, None]
        possible.append(set((counted[is_possible] / among[is_possible]).tolist()))
    return possible
