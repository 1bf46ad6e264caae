"""Bounds on a classifier's rates on new rows, from fresh rows: joint ones, and those of tests of limits.

The mean of a subgroup has a bound (`upper_bound`). From it follow the bounds of a rate or limit
(`bounds_of`), and bounds that hold together (`joint_bounds`), or each test a limit (`tested_bounds`).
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from tailboost.core import (
    Column,
    Groups,
    Model,
    Name,
    Stated,
    Table,
    check_indexes,
    warn_user,
)
from tailboost.core.ranges import SHARE, check_number
from tailboost.guarantees.certificates import Certificate
from tailboost.guarantees.certified_bound import CONSTANT, CertifiedBound
from tailboost.guarantees.exact_tests import all_pairs_pass
from tailboost.guarantees.fresh import CostRange, Fresh
from tailboost.guarantees.tail import UPPER, worst_mean
from tailboost.rates import (
    EACH,
    GROUP,
    Limit,
    Rate,
    Sample,
    Statistic,
    as_statistics,
    checked_limits,
    deferred as deferred_rate,
    error,
    largest,
)
from tailboost.rates.bounds import betting_p_value, betting_upper, clopper_pearson_upper
from tailboost.rows import HUMAN_REVIEW, EqualRows, Rows, group_columns
from tailboost.selection.door import Decided, answering

EXACT = "Clopper–Pearson"
BETTING = "betting"
PAIRS = "exact test of pairs"
# Number of levels at which a ratio of sums is tested: the bound is a multiple of 1/RATIO_LEVELS.
RATIO_LEVELS = 1000
# Least distance of the printed bound from the limit after a failed test of pairs.
VISIBLE = 1e-4
ASSUMED = (
    "Assumption: the rows are independent draws from the population of the bounds (no repeated measurements "
    "of one person, no later shift), and no row was used to train or select the model."
)
COMPARED = (
    "{:.3g} % of these rows equal rows of the fit, the selection or an earlier calibration that "
    "are known here: no more than chance explains."
)
ONLY_SCORES = (
    "The rule reads scores alone, so rows with equal scores are different rows. Whole tables "
    "that were used before are recognised, parts of them only among scores with many digits."
)
EQUAL_BY_NATURE = (
    "According to the caller, rows are equal by nature and nobody copied a row: only whole "
    "tables that were used before are recognised."
)
UNKNOWN_TRAINING_ROWS = (
    "Not all training rows of the model are known, so these rows are fresh as stated: "
    "training_rows= names the training rows, and compares these rows with them."
)
BY_CLUSTERS = (
    "Each of the {:,} clusters has one vote in a class or group: one of its rows there counts, drawn at "
    "random by the hash of its content (if rows may be deferred, one of its rows counts everywhere). The "
    "bounds are about such rows. Assumption: the clusters are independent draws from the population of the "
    "bounds (no later shift), and none of their rows was used to train or select the model."
)
ON_TRUST = (
    "Not compared are these parts of the model: {}. That they stay as they are, and had none of these rows, "
    "is a statement of the caller."
)
ABOUT_TAILS = (
    "The bound on the worst part of the rows holds for every group of at least this part, named or not; the "
    "one within a divergence for every population Q with KL(Q ‖ P) up to it, where P is that of these rows. "
    "The loss of a row is that of its answer, or expected if answers are drawn (predict_distribution)."
)


def certify(
    model: Model,
    X: Table,
    y: Column,
    *,
    limits: Stated = None,
    rates: Stated = None,
    groups: Groups = None,
    clusters: Column = None,
    confidence: float = 0.95,
    costs: Table = None,
    cost_range: CostRange = None,
    deferred: Column = None,
    equal_rows: EqualRows | None = None,
    training_rows: Table = None,
) -> Certificate:
    """Return confidence bounds on a classifier's rates on new rows, from fresh rows.

    All bounds hold together with the stated confidence, for any classifier, population and number of rows.
    Shares of rows have Clopper–Pearson bounds, other means betting bounds. The error probability
    ``1 − confidence`` is divided evenly among the bounds (union bound).

    Parameters
    ----------
    model : fitted classifier, pipeline, rule or array
        Any object with ``predict``, or a rule of `tailboost.load_rule`, for a table with its scores. With
        ``X=None`` the answers to the rows: labels of shape (n,), or probabilities of shape (n, K), with
        columns in the order of the sorted labels or named by the labels. ``predict`` is then their argmax.
    X, y : array-like of shape (n, d), (n,)
        Fresh rows and their labels: independent draws from the population of interest.
    limits : list of Limit or str, optional
        Limits on rates, each bounded on its side. By default the limits of the model's fit.
    rates : list of Rate or str, optional
        Further rates, bounded on both sides in each subgroup; a `rates.tail` or `rates.shift` from
        above. Without rates and limits errors are bounded
        from above: of all rows, and by class, group and cell.
    groups : array-like of shape (n,), or table of shape (n, c), optional
        Group of each row, or several columns of groups.
    clusters : array-like of shape (n,), optional
        Cluster of each row: person, household or place. A cluster has one vote in a class or group, or in the
        denominator of a rate: one of its rows there counts, drawn at random by the hash of its
        content. If the model may defer, it is the same row everywhere. Clusters are independent draws; rows
        of a cluster may depend on each other in any way.
    confidence : float in (0, 1), default=0.95
        Joint probability of all bounds.
    costs : array-like of shape (n, K), optional
        Cost of each answer to each row, for ``rates.cost()`` without a matrix, also in a tail or shift.
    cost_range : (float, float), optional
        Smallest and largest possible cost of any answer to any row, which the given rows do not show.
    deferred : array-like of bool, shape (n,), optional
        With an array of answers: True for a deferred row. Required for rates of deferral.
    equal_rows : {"copies", "natural"}, optional
        Reason for equal rows. "copies": more rows equal to training rows than the repetition within both
        tables predicts are refused, because errors on training rows are too small, and so are copies of
        nearly all rows or those of a label. "natural": features take few values, and nobody copied a row.
    training_rows : array-like of shape (k, d), optional
        The rows on which a model of another library was trained, without labels. Rows of ``X`` that are among
        them are refused as training rows of a classifier of tailboost are.

    Returns
    -------
    Certificate

    Raises
    ------
    LeakageError
        If rows equal rows of the fit, unless rows are equal by nature.
    ValueError
        If an argument is not as described.

    Examples
    --------
    >>> import numpy as np
    >>> import tailboost as tb
    >>> y = np.repeat([0, 1], [100, 200])
    >>> answers = np.where(np.arange(300) % 12 == 0, 1 - y, y)  # or a fitted model, with X
    >>> cert = tb.certify(answers, None, y, limits=["error(by=class) <= 15%"])
    >>> for b in cert.bounds:
    ...     print(f"{b.name}: estimate {b.estimate:.3f}, at most {b.upper:.3f}")
    0: estimate 0.090, at most 0.164
    1: estimate 0.080, at most 0.127
    >>> cert.certified
    False
    """
    decided = _decided(model, X)
    check_number(confidence, "confidence", SHARE)
    equal_rows = equal_rows or "copies"
    if equal_rows not in ("copies", "natural"):
        raise ValueError(f"equal_rows must be 'copies' or 'natural', got {equal_rows!r}")

    # What is to be bounded.
    if rates is None and limits is None and decided is not None:
        limits = decided.limits
    stated = as_statistics(rates or ())
    for each in stated:
        is_rate = isinstance(each, Statistic) and each.form == EACH
        if not (is_rate or isinstance(each, Limit)):
            raise TypeError(f"{each!r} is no rate or limit; a gap or ratio needs a bound")
    if limits is not None:  # a limit alone has no truth value
        stated += checked_limits(limits)
    bounded = [each.rate for each in stated]
    if costs is not None and not any("costs" in rate.needs for rate in bounded):
        raise ValueError("costs: no rate reads them; add cost(), or tail(10%, cost())")

    # The rows with an answer to each.
    check_indexes(X=X, y=y, model=model, deferred=deferred)
    groups = group_columns(groups, "groups", X)
    if decided is not None:
        groups = decided.score(X, groups).groups
    rows = Rows.read(X, y, groups, costs=costs, clusters=clusters)
    if decided is None:
        if training_rows is not None:
            raise ValueError(
                "training_rows: model is an array of answers, so there are no rows to compare"
            )
        fresh = Fresh.of_answers(model, rows, bounded, equal_rows, deferred, cost_range)
    else:
        if deferred is not None:
            raise ValueError(
                "deferred goes with an array of answers: a classifier knows its deferred rows"
            )
        fresh = Fresh.of_model(decided, rows, bounded, equal_rows, training_rows, cost_range)

    # Their bounds; without rates the kinds of errors divide the level evenly.
    parts = [stated]
    if not stated:
        kinds = [None, "class"]
        if fresh.answered.strata.columns:
            kinds += ["group", "cell"]
        parts = [[largest(error(by=kind))] for kind in kinds]
    level = (1.0 - confidence) / len(parts)
    bounds = [bound for part in parts for bound in joint_bounds(part, fresh, level)]
    certificate = certificate_of(fresh, bounds, confidence)
    return replace(certificate, model=None if decided is None else model)


def _decided(model: Model, X: Table) -> Decided | None:
    """Return what certificates read of a model; None for an array of answers, which goes with ``X=None``."""
    if hasattr(model, "predict"):  # a model of any library
        return answering(model)
    if callable(model):
        raise ValueError(
            "model is a function, whose answers are not known: give the rule of tune or calibrate "
            "on it, or its answers in place of model with X=None"
        )
    if X is not None:
        raise ValueError(
            f"X must be None if model is an array of answers, got {type(model).__name__}. Of "
            "a classifier the order is (model, X, y)"
        )
    return None


def certificate_of(
    fresh: Fresh, bounds: Sequence[CertifiedBound], confidence: float
) -> Certificate:
    """Return the certificate of bounds from fresh rows; warn if a model may have been trained on them."""
    compared = fresh.compared
    only_scores = fresh.used.of_scores
    if not (fresh.scored is None or compared.complete or only_scores):
        warn_user(
            "X: whether these rows trained the model is not checked. Rows that did look "
            "easier than new ones and certify nothing; pass all of them as training_rows="
        )
    # From which draws the bounds follow.
    assumption = ASSUMED
    if fresh.votes.n_clusters is not None:
        assumption = BY_CLUSTERS.format(fresh.votes.n_clusters)
    deferred = None
    if fresh.answered.strata.defers:
        deferred = float(fresh.is_deferred[fresh.voting].mean())
        assumption += (
            f" {fresh.is_deferred.sum():,} of the {len(fresh):,} rows are deferred. A deferred "
            "row is no error and no miss, and stays among the rows of a class or group; the "
            "error among answered rows and precisions exclude it."
        )
    # Whether the rows are fresh.
    freshness = ""
    if only_scores:
        freshness = ONLY_SCORES
    elif compared.equal_rows == "natural":
        freshness = EQUAL_BY_NATURE
    elif compared.shared is not None:
        freshness = COMPARED.format(100 * compared.shared)
    if not compared.complete:
        freshness = f"{freshness} {UNKNOWN_TRAINING_ROWS}".strip()
    notes = [assumption, *filter(None, [freshness])]
    if fresh.identity.unknown:
        notes.append(ON_TRUST.format(", ".join(fresh.identity.unknown)))
    if any(bound.rate.loss for bound in bounds):
        notes.append(ABOUT_TAILS)
    return Certificate(
        tuple(bounds),
        confidence,
        len(fresh),
        tuple(notes),
        compared=compared.complete,
        deferred=deferred,
        rule=fresh.rule.digest,
        columns=tuple(fresh.rule.groups),
        n_clusters=fresh.votes.n_clusters,
        equal_rows=compared.equal_rows,
        copies=compared.copies,
        date=datetime.now(UTC).date().isoformat(),
        used=fresh.used,
        identity=fresh.identity.digest,
    )


# -- bounds on means ---------------------------------------------------------------------------------------


def upper_bound(rate: Rate, sample: Sample, level: float, method: str) -> float:
    """Return an upper bound on the rate of a subgroup: on a mean, the ratio of an F score, a tail or a shift.

    Shares of rows have Clopper–Pearson bounds, other means betting bounds. A tail or shift of losses of two
    values is a rising function of their mean.
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


def bounds_of(stated: Statistic, fresh: Fresh, level: float | None) -> list[CertifiedBound]:
    """Return the bounds of a rate or limit on each subgroup, each side at the level, then on a gap or ratio.

    Without a level nothing but possible values bounds a rate, and what an answer keeps by construction.
    """
    rate = stated.rate
    samples = fresh.samples(rate)
    sides = stated.sides
    targets = np.full(len(samples), np.nan)
    if isinstance(stated, Limit) and not stated.compares:
        targets = stated.levels([sample.name for sample in samples])
    method = method_for(rate, fresh)
    deferred = shares_deferred(rate, fresh) if fresh.answered.strata.defers else {}
    bounds = []
    for sample, target in zip(samples, targets.tolist(), strict=True):
        estimate = None
        lower = sample.low
        upper = sample.high
        n = len(sample.rows)
        if n:
            estimate = worst_mean(rate, sample.values) if rate.loss else sample.mean
        if n and level is not None and lower < upper:
            # low + high, which is still ``upper``, less an upper bound on the complement.
            if "≥" in sides:
                lower += upper - upper_bound(rate, sample.mirrored, level, method)
            if "≤" in sides:
                upper = upper_bound(rate, sample, level, method)
        bound = CertifiedBound(
            rate,
            sample.name,
            sense=sides if len(sides) == 1 else "",
            target=None if np.isnan(target) else target,
            estimate=estimate,
            lower=lower,
            upper=upper,
            n=n,
            method=method if n else "no rows",
            in_percent=isinstance(stated, Limit) and stated.in_percent,
            deferred=deferred.get(sample.name),
        )
        if bound.target is not None and kept_by_construction(bound, fresh):
            bound = bound.at_target(CONSTANT)
        bounds.append(bound)
    if isinstance(stated, Limit) and stated.compares:
        stated.refuse_negative(samples[0].low)
        bounds.append(compared_bound(stated, bounds))
    return bounds


def compared_bound(limit: Limit, bounds: Sequence[CertifiedBound]) -> CertifiedBound:
    """Return the bound on a gap or ratio that follows from bounds on both sides of each subgroup."""
    lower, upper = limit.interval(*np.array([(each.lower, each.upper) for each in bounds]).T)
    means = np.array([bound.estimate for bound in bounds], np.float64)  # NaN without rows
    return CertifiedBound(
        limit.rate,
        limit.form,
        sense=limit.sense,
        target=limit.bound,
        estimate=None if np.isnan(means).any() else limit.value(means),
        lower=lower,
        upper=upper,
        n=min(bound.n for bound in bounds),
        method=f"bounds of {len(bounds)} subgroups",
        subgroups=tuple(bound.subgroup for bound in bounds),
        in_percent=limit.in_percent,
    )


def method_for(rate: Rate, fresh: Fresh) -> str:
    """Return the method of bounds on a rate: exact for numbers of rows, and for means of two values."""
    mean = rate.loss or rate
    if mean.matrix is None:
        has_two_values = mean.quantity == "share"
    else:
        costs, _ = mean.tables(fresh.answered.strata)
        has_two_values = len(np.unique(costs)) <= 2
    # The expected loss of drawn answers may have any value.
    return EXACT if has_two_values and not (rate.loss and fresh.drawn is not None) else BETTING


def shares_deferred(rate: Rate, fresh: Fresh) -> dict[Name, float]:
    """Return the share of deferred rows by subgroup with rows; empty if a rate shows it, or no row is."""
    if "mask" in rate.needs or not fresh.is_deferred.any():
        return {}
    samples = fresh.samples(deferred_rate(by=rate.by))
    return {sample.name: sample.mean for sample in samples if len(sample.rows)}


def tested_bounds(limits: Sequence[Limit], fresh: Fresh, level: float) -> list[CertifiedBound]:
    """Return bounds for a test of each limit at the whole level; they do not hold together.

    If all limits must hold, each is tested at the level: all pass although one is broken with a probability
    of at most the level. The same holds for the pairs of subgroups of a gap or ratio. A pair of counts of
    independent rows has an exact test; otherwise bounds on both sides share the level.
    """
    bounds = []
    for limit in limits:
        bounds += bounds_of(limit, fresh, level / len(limit.sides))
        samples = fresh.samples(limit.rate)
        if limit.compares and limit.rate.quantity == "share" and fresh.are_apart(samples):
            counts = [(round(sample.values.sum()), len(sample.rows)) for sample in samples]
            compared = bounds[-1]
            if all_pairs_pass(counts, limit.factor_and_gap, level):
                bounds[-1] = compared.at_target(PAIRS)
            else:  # beyond the limit, as printed
                bounds[-1] = replace(
                    compared,
                    lower=min(compared.lower, limit.bound - VISIBLE),
                    upper=max(compared.upper, limit.bound + VISIBLE),
                    method=PAIRS,
                )
    return bounds


def joint_bounds(
    expressions: Sequence[Statistic], fresh: Fresh, level: float
) -> list[CertifiedBound]:
    """Return bounds on rates on new rows that hold together with a probability of at least 1 − level.

    The rate of a subgroup is a mean of bounded numbers over its rows, or, for a precision, a ratio of sums. A
    rate is bounded on both sides, a limit on its side. A gap or ratio follows from bounds on both sides of
    each subgroup. The level is divided evenly among the bounds on means of subgroups with rows (union bound).
    """
    on_means = {
        (each.rate, sample.name, side)
        for each in expressions
        for sample in fresh.samples(each.rate)
        for side in each.sides
        if len(sample.rows)
    }
    level_of_each = level / max(1, len(on_means))
    return [bound for each in expressions for bound in bounds_of(each, fresh, level_of_each)]


def kept_by_construction(bound: CertifiedBound, fresh: Fresh) -> bool:
    """Return whether the rule's possible answers in a subgroup cannot break its limit.

    A rule that never answers a label in a group keeps each limit on false alarms there, and each limit on the
    precision of this label, because no row counts.
    """
    rate = bound.rate
    written = fresh.rule.written
    if written is None or rate.loss or rate.kind in ("representation", "cost"):
        return False
    column = rate.by
    group = bound.subgroup
    # Of any column: pairs of column and group, or groups of a column without a name.
    if column == GROUP:
        column, group = group if isinstance(group, tuple) else (None, group)
    possible = written.actions_in(column, group)
    counted, among = rate.tables(fresh.answered.strata)
    answers = [*fresh.answered.strata.classes, HUMAN_REVIEW][: counted.shape[1]]
    may_count = (among > 0) & np.array([answer in possible for answer in answers])
    values = counted[may_count] / among[may_count]
    keeps = values >= bound.target if bound.sense == "≥" else values <= bound.target
    return bool(keeps.all())
