"""`certify`: a classifier's rates on new rows, with bounds that hold together, from fresh rows.

`tailboost.guarantees.rate_bounds` has the bounds. Here rows are read, and sentences state the assumptions.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from tailboost.core import Column, Groups, Model, Stated, Table, check_indexes, warn_user
from tailboost.core.ranges import SHARE, check_number
from tailboost.guarantees.certificates import Certificate
from tailboost.guarantees.certified_bound import CertifiedBound
from tailboost.guarantees.fresh import CostRange, Fresh
from tailboost.guarantees.rate_bounds import joint_bounds
from tailboost.rates import (
    EACH,
    Statistic,
    as_statistics,
    checked_limits,
    error,
    largest,
)
from tailboost.rows import EqualRows, Rows, group_columns
from tailboost.selection.door import Decided, answering

ASSUMED = (
    "Assumption: the rows are independent draws from the population of the bounds (no "
    "repeated measurements of one person, no later shift), and no row was used to train or select the model."
)
COMPARED = (
    "{:.3g} % of these rows equal rows of the fit, the selection or an earlier calibration "
    "that are known here: no more than chance explains."
)
ONLY_ANSWERS = "The answers were given without their rows, which were compared with no others."
ONLY_SCORES = (
    "The rule reads scores alone, so rows with equal scores are different rows. A whole table "
    "that was used before is recognised beyond chance, a part only among scores with many digits."
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
    "Each of the {:,} clusters has one vote in a class or group: one of its rows there "
    "counts, drawn at random by the hash of its content (if rows may be deferred, one of its "
    "rows counts everywhere). The bounds are about such rows. Assumption: the clusters are "
    "independent draws from the population of the bounds (no later shift), and none of their "
    "rows was used to train or select the model."
)
ON_TRUST = (
    "Not compared are these parts of the model: {}. That they stay as they are, and had none "
    "of these rows, is a statement of the caller."
)
ABOUT_TAILS = (
    "The bound on the worst part of the rows holds for every group of at least this part, "
    "named or not; the one within a divergence for every population Q with KL(Q ‖ P) up to "
    "it, where P is that of these rows. The loss of a row is that of its answer, or expected "
    "if answers are drawn (predict_distribution)."
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
    Shares of rows and means of two values have Clopper–Pearson bounds, other means betting bounds. The error
    probability ``1 − confidence`` is divided evenly among the bounds (union bound).

    Parameters
    ----------
    model : fitted classifier, pipeline, rule or array
        Any object with ``predict``, or a rule of `tailboost.load_rule`, for a table with its scores. With
        ``X=None`` the answers to the rows: labels of shape (n,), or probabilities of shape (n, K), with
        columns in the order of the sorted labels or named by the labels. ``predict`` is then their argmax.
    X, y : array-like of shape (n, d), (n,)
        Fresh rows and their labels: independent draws from the population of interest.
    limits : list of Limit or str, optional
        Limits on rates, each bounded on its side. Without rates by default the limits of the model's fit.
    rates : list of Rate or str, optional
        Further rates, bounded on both sides in each subgroup; a `rates.tail` or `rates.shift` from
        above. Without rates and limits errors are bounded from above: of all rows, and by class, group and
        cell. Each kind has an even part of the error probability,
        and each bound an even part of that of its kind.
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
        If rows equal those of the fit, the selection, an earlier calibration or ``training_rows``, or one
        another, more often than ``equal_rows`` explains. A whole table that was used before is never fresh.
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
    if equal_rows not in (None, "copies", "natural"):
        raise ValueError(f"equal_rows must be 'copies' or 'natural', got {equal_rows!r}")

    # What is to be bounded.
    if decided and rates is None and limits is None:
        limits = decided.limits
    stated = as_statistics(rates or ())
    for each in stated:
        if isinstance(each, Statistic) and each.form != EACH:
            raise TypeError(
                f"{each!r} is no rate or limit: leave out largest, or give a gap or ratio a bound"
            )
    if limits is not None:  # a limit alone has no truth value
        stated += checked_limits(limits)
    bounded = [each.rate for each in stated]
    are_given = costs is not None or cost_range is not None
    if are_given and not any("costs" in rate.needs for rate in bounded):
        raise ValueError(
            "costs, cost_range: no rate reads them; add cost(), or tail(10%, cost())"
        )

    # The rows with an answer to each.
    check_indexes(X=X, y=y, model=model, deferred=deferred)
    groups = group_columns(groups, "groups", X)
    if decided:  # with the names of the rule's columns; no row is scored yet
        groups = decided.score(X, groups).groups
    rows = Rows.read(X, y, groups, costs=costs, clusters=clusters)
    if decided is None:
        if training_rows is not None or equal_rows is not None:
            raise ValueError(
                "training_rows, equal_rows: model is an array of answers, so there are no rows to compare"
            )
        fresh = Fresh.of_answers(model, rows, bounded, deferred, cost_range)
    else:
        if deferred is not None:
            raise ValueError(
                "deferred goes with an array of answers: a classifier knows its deferred rows"
            )
        fresh = Fresh.of_model(
            decided, rows, bounded, equal_rows or "copies", training_rows, cost_range
        )

    # Their bounds; without rates the kinds of errors divide the level evenly.
    parts = [stated]
    if not stated:
        kinds = [None, "class"]
        if fresh.answered.strata.columns:
            kinds += ["group", "cell"]
        parts = [[largest(error(by=kind))] for kind in kinds]
    level = (1.0 - confidence) / len(parts)
    bounds = []
    for part in parts:
        bounds += joint_bounds(part, fresh, level)
    return certificate_of(fresh, bounds, confidence)


def _decided(model: Model, X: Table) -> Decided | None:
    """Return what certificates read of a model; None for an array of answers, which goes with ``X=None``."""
    if hasattr(model, "predict"):  # a model of any library
        return answering(model)
    if callable(model):
        raise ValueError(
            "model is a function, whose answers are not known: give the rule of tune or "
            "calibrate on it, or its answers in place of model with X=None"
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
    is_checked = compared.complete or fresh.scored is None or fresh.used.of_scores
    if not is_checked:
        warn_user(
            "X: whether these rows trained the model is not checked. Rows that did look "
            "easier than new ones and certify nothing; pass all of them as training_rows="
        )
    # From which draws the bounds follow.
    assumption = ASSUMED
    n_clusters = fresh.votes.n_clusters
    if n_clusters is not None:
        assumption = BY_CLUSTERS.format(n_clusters)
    deferred = None
    if fresh.answered.strata.defers:
        deferred = float(fresh.is_deferred[fresh.voters].mean())
        assumption += (
            f" {fresh.is_deferred.sum():,} of the {len(fresh):,} rows are deferred. A deferred "
            "row is no error and no miss, and stays among the rows of a class or group; the "
            "error among answered rows and precisions exclude it."
        )
    notes = [assumption, freshness_of(fresh)]
    if fresh.identity.unknown:
        notes.append(ON_TRUST.format(", ".join(fresh.identity.unknown)))
    if any(bound.rate.loss for bound in bounds):
        notes.append(ABOUT_TAILS)
    return Certificate(
        tuple(bounds),
        confidence,
        len(fresh),
        tuple(filter(None, notes)),
        compared=compared.complete,
        deferred=deferred,
        rule=fresh.decision.digest,
        columns=tuple(fresh.decision.groups),
        n_clusters=n_clusters,
        equal_rows=compared.equal_rows,
        copies=compared.copies,
        date=datetime.now(UTC).date().isoformat(),
        used=fresh.used,
        identity=fresh.identity.digest,
    )


def freshness_of(fresh: Fresh) -> str:
    """Return in words with which rows fresh ones were compared; empty if the model has read none."""
    compared = fresh.compared
    if fresh.scored is None:
        return ONLY_ANSWERS
    words = []
    if fresh.used.of_scores:
        words.append(ONLY_SCORES)
    elif compared.equal_rows == "natural":
        words.append(EQUAL_BY_NATURE)
    elif compared.shared is not None:
        words.append(COMPARED.format(100 * compared.shared))
    if not compared.complete:
        words.append(UNKNOWN_TRAINING_ROWS)
    return " ".join(words)
