"""`calibrate`: the least restricted rule of any fitted model whose limits are certified by fresh rows.

Of one batch some rows select the rule and the others certify it, or all rows do both.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from tailboost.classifiers.estimators import named_models
from tailboost.classifiers.one_batch import Batch, LabelsError, Parts, refuse_unknown
from tailboost.classifiers.selected_models import TunedClassifier
from tailboost.core import (
    Column,
    Groups,
    InfeasibleLimitsError,
    Ints,
    Model,
    NotCertifiedError,
    Stated,
    Table,
    UselessRuleWarning,
    warn_user,
)
from tailboost.core.ranges import SHARE, check_number
from tailboost.guarantees import chain, few_rows, gaps, ranks, sequence
from tailboost.guarantees.certificates import Price
from tailboost.guarantees.certify import certificate_of
from tailboost.guarantees.fresh import Fresh
from tailboost.guarantees.one_score import Certified, OneScore, Refused
from tailboost.guarantees.rate_bounds import bounds_of, joint_bounds
from tailboost.rates import AbsentError, Limit, Statistic, limits_to_keep
from tailboost.rows import (
    HUMAN_REVIEW,
    NO_HASHES,
    SPENT_EACH,
    Attempt,
    Attempts,
    Ledger,
    Rows,
    Seen,
    attempts_of,
    digest,
    merged,
)
from tailboost.selection.direction import FELL, refuse_falling
from tailboost.selection.door import has_own_predict, hashes_of_table, known_within
from tailboost.selection.search import OVERALL_ERROR
from tailboost.selection.selection import Selection

#: The procedures for rules on one score, by what keeps the limits (`tailboost.guarantees.division`): each is
#: a file with its theorem. One returns None for limits that it does not serve. This depends on the selecting
#: rows and on numbers of fresh rows alone, so the next one has the whole level.
ON_ONE_SCORE = {"ranks": [ranks], "ranks and tests": [chain], "tests": [gaps, sequence]}
USED_UP = "These rows are used up: bring new ones, with this error as previous="
MOST_PRICED = 4  # limits with a price of their own
MOST_PAID = 0.1  # more errors than without limits: then a rule is hardly useful
NEARLY_ALL = 0.99  # of the rows with one answer: then a rule is hardly useful


def calibrate(
    model: Model,
    X: Table,
    y: Column,
    *,
    limits: Stated = None,
    groups: Groups = None,
    clusters: Column = None,
    confidence: float = 0.95,
    by_group: bool | str = False,
    objective: Stated = None,
    previous: Any = None,
    selection_share: float | None = None,
    training_rows: Table = None,
) -> TunedClassifier:
    """Return the rule of least error, or least objective, whose limits are certified, from fresh rows.

    The first procedure that applies is taken; the certificate names it.

    * *Ranks.* If each limit is about the share of some rows with one of two answers (misses, false alarms,
      selection rates), thresholds are placed at ranks of the fresh scores, which need no test. One gap or
      ratio of such shares between groups has ranks too, if the rule reads the group. Limits on one label may
      have ranks beside a test of limits on the other, and errors beside a test of deferral.
    * *Fixed sequence.* Otherwise rules are tested from the likeliest to the one of least error, each for all
      limits at the whole level, up to the first failure ([1]_). The selecting rows alone fix the sequence.

    A model without a selected rule is tuned first, on a part of the rows; the others certify. If the model is
    one score, and each limit is kept by ranks, all rows certify: only thresholds on the score are selected.

    An attempt spends .9 of the error probability left by earlier ones, so all certificates of all attempts
    hold together. Each attempt needs new rows.

    Parameters
    ----------
    model : classifier, or any model for `tailboost.tune`
        A classifier of tailboost with a selected rule, whose ``ledger_`` records the attempt. Or what `tune`
        takes: a fitted model of another library, `Scores`, a function, or several of them.
    X, y : array-like of shape (n, d), (n,)
        Fresh rows and their labels: independent draws, unused in the fit.
    limits : list of Limit or str, optional
        Limits on rates. By default the limits of the model's fit.
    groups : array-like of shape (n,), or table of shape (n, c), optional
        Groups of the rows. The name of a column of a data frame ``X``, or a list of names, are these columns.
    clusters : array-like of shape (n,), optional
        Cluster of each row, as in `tailboost.certify`; a cluster selects or certifies as a whole.
    confidence : float in (0, 1), default=0.95
        Probability of keeping all limits.
    by_group, objective : optional
        For a model without a selected rule: whether the rule may read the group, and what `tune` minimises.
    previous : NotCertifiedError, Certificate or calibrated classifier, optional
        The result of an attempt that the model's ledger does not know. It counts, with all earlier ones.
    selection_share : float in (0, 1), optional
        For a model without a selected rule: the least fraction of the rows, or of the clusters, on which
        `tune` selects. By default .2 if ranks serve all limits, .1 if they serve some, otherwise .3. Up to
        half of the rows select if a label or a limited group would have none there.
    training_rows : array-like of shape (m, d), optional
        The rows on which a model of another library was trained, as in `tailboost.certify`.

    Returns
    -------
    TunedClassifier
        With its ``certificate_``.

    Raises
    ------
    NotCertifiedError
        If no rule is certified, or a few rows have a label that no model knows. Its ``certificate`` has the
        bounds of the likeliest rule, which misses a limit, and only estimates where all rows chose the rule;
        None for another reason. The message says whether an attempt is spent.
    LeakageError
        If rows were used in the fit, the selection or an earlier attempt.
    ValueError
        If an argument is not as described.

    References
    ----------
    .. [1] A. N. Angelopoulos, S. Bates, E. J. Candès, M. I. Jordan and L. Lei, "Learn then Test: Calibrating
       Predictive Algorithms to Achieve Risk Control", Annals of Applied Statistics 19, 2025.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> import tailboost as tb
    >>> X, y = make_classification(3000, weights=[0.8], class_sep=0.8, random_state=0)
    >>> model = LogisticRegression().fit(X[:1000], y[:1000])
    >>> limits = ["miss(1) <= .35"]
    >>> rule = tb.calibrate(model, X[1000:], y[1000:], limits=limits, training_rows=X[:1000])
    >>> rule.certificate_.certified
    True
    """
    check_number(confidence, "confidence", SHARE)
    if selection_share is not None:
        check_number(selection_share, "selection_share", SHARE)
    earlier = attempts_of(previous)
    given = Rows.read(X, y, groups, clusters=clusters)
    is_selected = isinstance(model, TunedClassifier) and not has_own_predict(model)
    if is_selected and (by_group or objective is not None or selection_share is not None):
        raise ValueError(
            f"by_group, objective, selection_share: the rule of this {type(model).__name__} was selected on "
            "other rows; leave them out, or give the model or the scores in place of the rule"
        )
    if limits is None:
        limits = model.selection_.problem.limits if is_selected else ()
    limits = limits_to_keep(limits)
    if not limits:
        raise ValueError("limits is needed, for example limits=['miss(1) <= 40%']")
    if given.X is None or given.classes is None:
        raise ValueError("X and y are needed: the rows and their labels")

    # 1. Select on a part of the rows, unless the rule was selected on other rows.
    ledger = Ledger()
    try:
        if is_selected:
            ledger = model.ledger_
            refuse_unknown(given, model.selection_.strata.classes)
            parts = Parts(model, given)
        else:
            unfitted = TunedClassifier(
                named_models(model), objective=objective, limits=limits, by_group=by_group
            )
            for known in known_within(unfitted.models):
                earlier += known.records.ledger.attempts
            parts = Batch(unfitted, given, training_rows).parts(selection_share)
    except (AbsentError, LabelsError) as failure:
        # A test need not have its level given that the rows have these labels and groups, and no others. So
        # this is an attempt, as who brings rows until they have may test as often. It has no rows: among
        # others they may be tested.
        content = digest(hashes_of_table(None, given.X).tobytes())
        attempt = Attempt(content, Seen.of(NO_HASHES), confidence=confidence)
        raise NotCertifiedError(
            f"{failure}. This was an attempt: mend a wrong name, or bring new rows, with this error "
            "as previous=",
            attempts=ledger.record(attempt, earlier),
        ) from None

    # 2. Score the certifying rows, once for all rules. If all have selected, the selection has their scores.
    selection = parts.classifier.selection_
    fresh = Fresh.of_model(
        parts.classifier.__tailboost__(),
        parts.certifying,
        [limit.rate for limit in limits],
        training_rows=training_rows,
        outputs=selection.engine.outputs if parts.all_chose else None,
        whole=given,
        is_attempt=True,
    )
    if selection.problem.limits != limits:  # of a rule selected within others
        selection = selection.within(limits)
    # A score that falls with its label in most pairs of rows certifies nothing; one that falls beyond chance
    # is an error, and no attempt. Where groups are estimated no single score answers.
    falls = not selection.engine.family.models and (
        refuse_falling(fresh.answered, fresh.outputs, fresh.voters) < 0.5
    )

    # 3. Record the attempt before any test: whatever ends this call, its rows are used up.
    case = OneScore.of(selection, fresh)
    attempts = recorded(parts.classifier.ledger_, selection, case, fresh, confidence, earlier)
    level = attempts[-1].error

    # 4. Certify a rule, by the first procedure that serves the limits.
    result = first_result(selection, case, fresh, level)
    answered = fresh.by(result.rule)
    if isinstance(result, Refused) and not result.words:
        raise missed_limits(answered, limits, attempts, parts.all_chose)
    reasons = [FELL * falls, reason_against(result, answered)]
    if isinstance(result, Refused) or any(reasons):
        raise no_rule("; ".join(filter(None, reasons)), attempts)

    # 5. Measure what the limits cost.
    priced = prices(selection, answered, result, level)
    warn_if_useless(answered, priced, selection.problem.objective)

    # 6. State each limit, and nothing tighter.
    bounds = []
    for limit in limits:
        for each in bounds_of(limit, answered, None):
            if each.target is not None:
                bounds.append(each.at_target(result.method))
    certificate = certificate_of(answered, bounds, confidence)
    note = parts.note
    if note and previous is None:
        note += " Earlier calls on these rows are not known without previous=."
    notes = (
        f"The limits are certified, and nothing tighter. {result.words}",
        f"This was attempt {len(attempts)}, with {attempts[-1].spent:.3g} of the error probability. It keeps "
        "the confidence together with all earlier attempts in the model's ledger.",
        note,
        *certificate.notes,
    )
    certificate = replace(
        certificate, attempts=attempts, price=priced, notes=tuple(filter(None, notes))
    )
    records = parts.classifier.records_.using(*(attempt.rows for attempt in attempts))
    return parts.classifier._answering_by(
        result.rule.stated_within(limits), certificate, records
    )


# -- 3. the attempt --------------------------------------------------------------------------------------


def recorded(
    ledger: Ledger,
    selection: Selection,
    case: OneScore | None,
    fresh: Fresh,
    confidence: float,
    earlier: Attempts,
) -> Attempts:
    """Return this attempt after all earlier ones, recorded in a ledger.

    Raise NotCertifiedError if there are too few rows for any test; this is no attempt where only numbers of
    rows are read that say nothing about the limits.
    """
    # The key is a digest of all that `first_result` reads.
    tested = selection.problem, confidence, selection.engine.digest_beside(fresh.outputs)
    attempt = Attempt(
        digest(np.sort(fresh.votes.draws).tobytes(), repr(tested).encode()),
        fresh.used,
        confidence=confidence,
    )
    # A copy of the ledger: nothing is spent yet.
    level = Ledger(ledger.attempts).record(attempt, earlier)[-1].error
    if case and not case.division.tests:
        level *= case.division.level_of_stop
    limits = selection.problem.limits
    lacking = few_rows.lacking(limits, fresh, level)
    if not lacking:
        return ledger.record(attempt, earlier)
    if fresh.n_units < max(lacking.values()) or few_rows.may_read_numbers(limits, fresh):
        attempts = merged(ledger.attempts, earlier)
        words = "Rows were counted and no limit was tested, so no attempt is spent."
    else:
        attempts = ledger.record(attempt, earlier)
        lacking = few_rows.lacking(limits, fresh, level * (1.0 - SPENT_EACH))
        words = (
            "Some limits are about parts of the rows of others, so these numbers say something "
            f"about their rates, and this was an attempt. {USED_UP}"
        )
    raise NotCertifiedError(
        f"limits: too few rows to certify: {'; '.join(lacking)}. Bring more rows, or leave the "
        f"limit out. {words}",
        attempts=attempts,
    )


# -- 4. certification ------------------------------------------------------------------------------------


def first_result(
    selection: Selection, case: OneScore | None, fresh: Fresh, level: float
) -> Certified | Refused:
    """Return the result of the first procedure that serves the limits of a selection."""
    result = None
    if case:
        for procedure in ON_ONE_SCORE[case.division.kept_by]:
            result = result or procedure.certified(case, level)
    try:
        # Several scores, more than two labels, or limits that none of these serves.
        return result or sequence.within_tighter(selection, fresh, level)
    except InfeasibleLimitsError as failure:  # on the part of a batch that selects
        return Refused(selection, f"the selecting rows contradict the limits: {failure}")


def reason_against(result: Certified | Refused, fresh: Fresh) -> str:
    """Return the reason to certify nothing beside missed limits; empty without one.

    ``fresh`` are the rows with the answers of the found rule.
    """
    if isinstance(result, Refused):
        return result.words
    if len(np.unique(fresh.answered.actions)) > 1:
        return ""
    return (
        "the rule with the least loss within the limits gives each row the same answer; bring more rows, "
        "check that the scores belong to these rows and labels, or state a limit that this answer breaks"
    )


def no_rule(words: str, attempts: Attempts) -> NotCertifiedError:
    """Return the error of an attempt in which no rule is certified, for the reason in some words."""
    return NotCertifiedError(f"no rule is certified: {words}. {USED_UP}", attempts=attempts)


def missed_limits(
    fresh: Fresh, limits: Sequence[Limit], attempts: Attempts, all_chose: bool
) -> NotCertifiedError:
    """Return the error of an attempt whose likeliest rule misses a limit, with the bounds of this rule.

    ``fresh`` are the rows with its answers. If they have ``all_chose`` the rule, they do not bound its rates.
    The bounds have the level of the next attempt, and so have the rows that they say are needed.
    """
    level_left = attempts[-1].error * (1.0 - SPENT_EACH)
    bounds = joint_bounds(limits, fresh, None if all_chose else level_left)
    limited = [bound for bound in bounds if bound.target is not None]
    certificate = certificate_of(fresh, limited, attempts[-1].confidence)
    if certificate.certified:
        return no_rule(ranks.NO_RULE, attempts)
    certificate = replace(certificate, attempts=attempts, notes=())
    words = f"no rule is certified: the likeliest rule misses a limit. {USED_UP}"
    if not all_chose:
        words += ", or loosen a limit to its bound before new rows are seen"
    return NotCertifiedError(f"{words}\n{certificate}", certificate, attempts)


# -- 5. what the limits cost -----------------------------------------------------------------------------


def prices(
    selection: Selection, fresh: Fresh, result: Certified, level: float
) -> tuple[Price, ...]:
    """Return the error of the certified rule beside that without all limits, then without each alone.

    ``fresh`` are the rows with the answers of the certified rule, ``result``. With 2 to `MOST_PRICED`
    limits each is left out alone.
    """
    # Without limits the most probable labels answer. Where a score is no probability, the rule that the
    # selecting rows choose without limits answers.
    models = selection.models
    outputs = fresh.outputs
    column = models.score_column
    if column and column.kind == "number":
        actions = selection.within([]).label_numbers(outputs) % fresh.answered.strata.n_classes
    else:
        actions = (outputs.pooled if len(models.names) > 1 else outputs.logs(0)).argmax(axis=1)
    priced = [price_beside(actions, fresh, "", result.chose)]
    limits = selection.problem.limits
    if 2 <= len(limits) <= MOST_PRICED:
        for limit in limits:
            with suppress(InfeasibleLimitsError):  # errors without deferral, for example
                loosened = selection.within([each for each in limits if each is not limit])
                looser = first_result(loosened, OneScore.of(loosened, fresh), fresh, level)
                by_looser = fresh.by(looser.rule)
                if isinstance(looser, Certified) and not reason_against(looser, by_looser):
                    actions = by_looser.answered.actions
                    priced.append(
                        price_beside(actions, fresh, str(limit), result.chose or looser.chose)
                    )
    return tuple(priced)


def price_beside(actions: Ints, fresh: Fresh, limit: str, chose: bool) -> Price:
    """Return the error of the answers of rows beside that of other answers, without some limit.

    Both errors are on these rows; the difference has no noise if they ``chose`` one of the rules.
    """
    counts = fresh.answered
    votes = fresh.voters
    own = counts.wrong(counts.actions)[votes]
    without = counts.wrong(actions)[votes]
    # One more row for each of the rules, on which it alone errs: so equal rules have noise, too.
    squares = (own * 1.0 - without).var() * len(own) + 2.0
    noise = None if chose else float(np.sqrt(squares) / len(own))
    return Price(limit, float(own.mean()), float(without.mean()), noise)


def warn_if_useless(fresh: Fresh, priced: Sequence[Price], objective: Statistic) -> None:
    """Warn once of a rule that gives nearly all rows the same answer, or costs many errors."""
    shares = np.bincount(fresh.answered.actions) / len(fresh)
    if shares.max() >= NEARLY_ALL:
        name = [*map(repr, fresh.answered.strata.classes), HUMAN_REVIEW][shares.argmax()]
        warn_user(
            f"the certified rule answers {name} to {shares.max():.1%} of these rows; loosen "
            "the limits, or bring more rows",
            UselessRuleWarning,
        )
        return
    of_all, *of_each = priced
    if of_all.error - of_all.without > MOST_PAID and objective == OVERALL_ERROR:
        dearest = min(of_each, key=lambda price: price.without, default=of_all)
        warn_user(
            f"the certified rule errs in {of_all.error:.0%} of these rows, and in "
            f"{of_all.without:.0%} without limits; loosen {dearest.limit or 'the limit'}, "
            "or choose it from tradeoff()",
            UselessRuleWarning,
        )
