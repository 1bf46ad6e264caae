"""Calibration of any fitted model in one batch: some rows select the rule, the others certify this rule."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.frozen import FrozenEstimator

from tailboost.classifiers.fitting import named_models, selecting_from
from tailboost.classifiers.robust_mixture import RobustMixtureClassifier, tune
from tailboost.core.array_types import (
    Column,
    Floats,
    Groups,
    Hashes,
    Ints,
    Labels,
    Mask,
    Model,
    Stated,
    Table,
)
from tailboost.core.checks import (
    as_table,
    check_labels,
    check_length,
    check_number,
    distinct,
    distinct_and_places,
    group_columns,
    label_column,
    labels_and_places,
    n_rows_of,
    numbered_clusters,
    sorted_names,
    take,
)
from tailboost.core.exceptions import (
    BoundNotMetWarning,
    ConfidenceNotReachedWarning,
    DependentRowsWarning,
    InfeasibleLimitsError,
    LimitBelowNoiseWarning,
    ResubstitutionWarning,
    SmallSubgroupsWarning,
    UselessRuleWarning,
)
from tailboost.core.spelling import (
    how_many,
    joined,
)
from tailboost.guarantees import ranks
from tailboost.guarantees.calibration import (
    before_any_attempt,
    calibrate_selected,
    stated_limits,
)
from tailboost.guarantees.certificates import Certificate
from tailboost.guarantees.fresh import Fresh
from tailboost.guarantees.monitor import GROUPS_NOTED
from tailboost.guarantees.tests import Tests
from tailboost.learners.scores import (
    GivenModel,
    GivenProbabilities,
    Scores,
    columns_of_scores,
)
from tailboost.rates import Answered, Limit, Strata
from tailboost.rates.strata import CELL, GROUP, names_in
from tailboost.rows.fingerprints import hash_rows, hashes_of_pairs, selecting_numbers
from tailboost.rows.given import Given
from tailboost.rows.judged import judged, last_step
from tailboost.rows.persons import refuse_persons
from tailboost.rows.seen import refuse_copied
from tailboost.rows.subgroups import MOST_NUMBERS, refuse_many_numbers
from tailboost.selection.rule import Rule, ThresholdRule

# Fractions of the selecting rows: for tests, for ranks of a gap or ratio, and for other ranks. Other ranks
# use the selecting rows only for the objective and for the balance of groups. Beside deferral 202, 197 and
# 191 of 240 calls are certified with .1, .2 and .3 (six kinds of limits, four tables, 1,500 and 5,000 rows).
FOR_TESTS = 0.3
FOR_COMPARISONS = 0.2
FOR_RANKS = 0.1
# The fraction for thresholds by group within another limit by group, such as a precision. Groups divide the
# level, so certifying rows are dear. With 2 to 7 groups (four made tables, 100 calls) the error is
# .0057 ± .0027 lower than with .3, and .0022 ± .0016 lower than with .2.
FOR_SEQUENCES = 0.15
# The most rows that select where a smaller share lacks a group, or contradicts the limits.
LARGEST_SHARE = 0.5
EARLIER = "Earlier calls on these rows are not known without previous=."
# Warnings about the selection data, their limits and clusters: the limits are tested on the other
# rows.
ABOUT_SELECTION = (
    BoundNotMetWarning,
    ConfidenceNotReachedWarning,
    DependentRowsWarning,
    LimitBelowNoiseWarning,
    ResubstitutionWarning,  # the certifying rows raise LeakageError
    SmallSubgroupsWarning,
    UselessRuleWarning,
)

if TYPE_CHECKING:

    class Calibrated(RobustMixtureClassifier):
        """What `calibrate` returns has a certificate, for type checkers."""

        certificate_: Certificate

else:
    Calibrated = RobustMixtureClassifier


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
    random_state: Any = 0,
) -> Calibrated | Any:
    """Return the rule of least error whose limits are certified, from fresh rows.

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
        A classifier of tailboost with a selected rule, whose ``ledger_`` records the attempt. Or a fitted
        model of another library, `Scores`, a function, several of them; a classifier on one score with
        limits.
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
        `tune` selects. By default .3; .2 if ranks serve a gap or ratio; .15 for a precision of each group, if
        the rule reads the group; .1 if ranks serve all limits. Up to half of the rows select if a label or a
        limited group would have none there, or if few rows contradict the limits.
    training_rows : array-like of shape (m, d), optional
        The rows on which a model of another library was trained, as in `tailboost.certify`.
    random_state : int or RandomState, default=0
        For `tune`.

    Returns
    -------
    RobustMixtureClassifier, or the class of a boosting classifier
        With the same candidates and its ``certificate_``. A later ``fit`` selects another rule, without a
        certificate.

    Raises
    ------
    NotCertifiedError
        If no rule is certified. Its ``certificate`` has the failing limits with their bounds, and None if too
        few rows are no attempt.
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
    check_number(confidence, "confidence", 0, 1, below=True)
    if isinstance(model, (Rule, ThresholdRule)):
        raise ValueError(
            "model is a rule without selection data: give the model or the scores for a new rule"
        )
    given = Given(X, y, groups, clusters=clusters, training_rows=training_rows)
    options: dict[str, Any] = {"confidence": confidence, "previous": previous}
    reader = judged(model)
    # A rule of the model was selected on other rows.
    if reader.classifier is model and reader.selects_rule:
        stated = {
            "by_group": by_group or None,
            "objective": objective,
            "selection_share": selection_share,
        }
        unused = [name for name, value in stated.items() if value is not None]
        if unused:
            raise ValueError(
                f"{', '.join(unused)}: the rule of this {type(model).__name__} was selected on other rows; "
                "leave them out, or give the model or the scores in place of the rule"
            )
        return calibrate_selected(
            model, given, limits=limits, reference=own_answers(model), **options
        )
    to_certify = stated_limits(limits)
    classifier, certifying = selected_on_part(
        model,
        given,
        to_certify,
        selection_share=selection_share,
        by_group=by_group,
        objective=objective,
        random_state=random_state,
    )
    # Rows of one batch are different rows, also if a row of each part has the same content. So the
    # records of the selection are left out while the other rows certify.
    records = classifier.records_
    without_selection = copy.copy(classifier)
    without_selection.records_ = replace(records, used=())
    n_selected = classifier.selection_.engine.outputs.rows.n_given
    n_certifying = n_rows_of(certifying.X)
    note = "All rows of the batch certify: they only place thresholds on the score."
    if certifying is not given:
        note = (
            f"One batch of {n_selected + n_certifying:,} rows: {n_selected:,} of them, drawn at random, "
            "selected the rules. The others certify. All of them are used up."
        )
    calibrated = calibrate_selected(
        without_selection,
        certifying,
        limits=to_certify,
        places_alone=certifying is given,
        reference=own_answers(classifier),
        notes=[note if previous is not None else f"{note} {EARLIER}"],
        **options,
    )
    calibrated.records_ = records.using(*calibrated.records_.used)
    return calibrated


def selected_on_part(
    model: Model,
    given: Given,
    limits: Sequence[Limit],
    *,
    selection_share: float | None,
    by_group: bool | str,
    **params: Any,
) -> tuple[RobustMixtureClassifier, Given]:
    """Return a model with a rule selected on a part of the rows, and the rows that certify.

    These are the other rows of the batch; all rows if thresholds on one score are all that is selected, see
    `tailboost.guarantees.ranks.thresholds_of`.

    Raises
    ------
    ValueError, TypeError
        If an argument is not as described, or a part would be empty.
    """
    if selection_share is not None:
        check_number(selection_share, "selection_share", 0, 1, below=True)
    params |= {"by_group": by_group, "training_rows": given.training_rows}
    batch = Batch.of(model, given)
    needed = batch.needed_groups(limits, by_group, all_columns=by_group is True)
    of_shares = all(
        not (limit.compares or limit.rate.counts_deferral) and _has_ranks(limit, batch.strata)
        for limit in limits
    )
    one_score = batch.strata.n_classes == 2 and len(named_models(model)) == 1
    if selection_share is None and of_shares and one_score:
        every_row = np.ones(len(batch.labels), dtype=bool)
        # Limits that every rule keeps: they only name the groups.
        loosest = [replace(limit, bound=float(limit.from_above)) for limit in limits]
        everything = batch.tuned(every_row, limits=loosest, **params)
        if ranks.thresholds_of(everything.selection_.stated_within(limits)) is not None:
            return everything, given  # within the limits by ranks alone
    share = selection_share or default_share(limits, batch.strata, by_group=by_group)
    numbers = batch.selecting_numbers()
    places_of_groups = [place_of_row for _, place_of_row in needed.values()]
    while True:
        selects = drawn_part(numbers, share, needed=[batch.labels, *places_of_groups])
        batch.refuse_one_sided(selects, needed, limits, reads_groups=by_group is not False)
        try:
            classifier = batch.tuned(selects, limits=limits, **params)
        except InfeasibleLimitsError:
            # Few rows may contradict limits by chance. The same rows select again, with further ones.
            if share < LARGEST_SHARE:
                share = min(LARGEST_SHARE, 2.0 * share)
                continue
            raise
        return classifier, batch.certifying_rows(selects)


def own_answers(classifier: Any) -> Callable[[Fresh], Fresh | None] | None:
    """Return how a classifier's models answer fresh rows without limits; None for those of the given rule.

    A model given as fitted answers by its ``predict``. Scores, functions, group-aware models and models
    trained by the fit answer by their most probable label, several models by that of their average. Scores of
    kind "number" have no such answers.
    """
    if not judged(classifier).takes_limits:
        return None
    models = classifier.selection_.engine.outputs.models
    if len(models.fitted) > 1:
        return _most_probable
    (model,) = models.fitted
    inner_model = getattr(model, "estimator", model)
    came_fitted = isinstance(model, FrozenEstimator)  # others answer by the numbers of labels
    has_predict = not isinstance(inner_model, (GivenModel, GivenProbabilities, Scores))
    if came_fitted and has_predict and not judged(last_step(model)).by_group:
        return lambda fresh: fresh.predicted_by(model)
    if isinstance(inner_model, Scores) and inner_model.kind == "number":
        return lambda fresh: None
    return _most_probable


def _most_probable(fresh: Fresh) -> Fresh:
    """Return fresh rows with the most probable label by the only model or the average as the answer."""
    table = fresh.table
    log_probabilities = table.pooled if table.n_models > 1 else table[0]
    return fresh.with_actions(log_probabilities.argmax(axis=1))


@dataclass(frozen=True, eq=False)
class Batch:
    """The checked rows of one call: some of them will select a rule of the models, the others certify it."""

    model: Model
    arguments: Given
    labels: Labels  # of each row
    scores: list[Scores]  # the models that are columns of scores
    contents: Hashes  # of each row with its label

    @classmethod
    def of(cls, model: Model, arguments: Given) -> Self:
        """Check the rows; raise ValueError or TypeError if an argument is not as `calibrate` describes."""
        X = arguments.X
        labels = label_column(arguments.y, "y")
        check_labels(labels)
        check_length(labels, "y", n_rows_of(X), "X")
        if arguments.groups is not None:
            check_length(arguments.groups, "groups", len(labels), "X")
        models = [model for _, model in named_models(model)]
        if arguments.clusters is None:
            other_roles = [*arguments.names_of_groups, *columns_of_scores(models)]
            refuse_persons(X, other_roles)

        scores = [model for model in models if isinstance(model, Scores)]
        score_values = [
            score.values(X) for score in scores
        ]  # errors name rows of the whole table
        scored = X
        if len(scores) == len(models):  # the same rows for any other columns and type of number
            scored = np.hstack(score_values)
        contents = contents_of(scored, labels)
        if arguments.equal_rows != "natural" and arguments.clusters is None:
            ties = contents_of_groups(arguments.groups, len(labels))
            refuse_copied("X", hashes_of_pairs(contents, ties))
        return cls(model, arguments, labels, scores, contents)

    @property
    def strata(self) -> Strata:
        """The strata of the labels, without groups."""
        classes = distinct(self.labels)
        return Answered.from_arrays(classes, classes).strata

    def needed_groups(
        self, limits: Sequence[Limit], read_by_rule: bool | str, *, all_columns: bool
    ) -> dict[Any, tuple[Labels, Ints]]:
        """Return the columns of groups of which each group needs rows in both parts, by name.

        Each has its groups, and the place of each row's group among them. These are the columns in limits,
        and the column ``read_by_rule``. A limit by "group" or "cell", and ``all_columns``, need every column.
        """
        groups = self.arguments.groups
        if groups is None:
            return {}
        needed_names: set[Any] = {read_by_rule}
        for limit in limits:
            needed_names.update(names_in(limit.rate.by))
        needed_names.discard(None)  # a limit without subgroups
        if not needed_names.isdisjoint(("group", "cell")):
            all_columns = True
        needed = {}
        for name, column in group_columns(groups, "groups").items():
            if all_columns or name in needed_names:
                needed[name] = labels_and_places(column, name)
                refuse_many_numbers(name, needed[name][0], len(self.labels))
        return needed

    def selecting_numbers(self) -> Floats:
        """Return the number of each row, or of its cluster: rows with small numbers select."""
        clusters = numbered_clusters(self.arguments.clusters, len(self.labels))
        return selecting_numbers(
            self.contents, contents_of_groups(self.arguments.groups, len(self.labels)), clusters
        )

    def refuse_one_sided(
        self,
        selects: Mask,
        needed_groups: dict[Any, tuple[Labels, Ints]],
        limits: Sequence[Limit],
        *,
        reads_groups: bool,
    ) -> None:
        """Raise ValueError if a label or needed group has rows in one part alone.

        A rule that reads no groups needs no rows of a group that the ``limits`` leave out.
        """
        _refuse_one_sided("y", *distinct_and_places(self.labels), selects)
        for name, column in needed_groups.items():
            others = [limit for limit in limits if limit.compares or limit.rate.by != name]
            reads_all = any(
                not {name, GROUP, CELL}.isdisjoint(names_in(limit.rate.by)) for limit in others
            )
            may_leave_out = not reads_groups and not reads_all
            _refuse_one_sided("groups", *column, selects, name, limits if may_leave_out else ())

    def tuned(self, selects: Mask, **params: Any) -> RobustMixtureClassifier:
        """Return the result of `tune` on the selecting rows, without warnings about them."""
        with (
            warnings.catch_warnings(),
            selecting_from(len(selects)),
            before_any_attempt(),
        ):
            for category in ABOUT_SELECTION:
                warnings.simplefilter("ignore", category)
            return tune(
                self.model,
                take(self.arguments.X, selects),
                take(self.arguments.y, selects),
                groups=take(self.arguments.groups, selects),
                **params,
            )

    def certifying_rows(self, selects: Mask) -> Given:
        """Return the rows outside the mask ``selects``."""
        arguments = self.arguments
        certifying = {
            name: take(getattr(arguments, name), ~selects)
            for name in ("X", "y", "groups", "clusters")
        }
        return replace(arguments, **certifying)


def _refuse_one_sided(
    name: str,
    names: Labels,
    place: Ints,
    selects: Mask,
    column: Any = None,
    limits: Sequence[Limit] = (),
) -> None:
    """Raise ValueError if a label or group has rows in one part alone.

    ``names`` has all labels or groups, ``place`` those of the n rows as places among them. ``selects`` is a
    mask of the selecting rows, shape (n,). With ``limits``, a group of the ``column`` needs rows if one of
    them names it, and the message has the limits without it.
    """
    n_rows = np.bincount(place, minlength=len(names))
    limits_of_column = [limit for limit in limits if limit.rate.by == column]
    bounds = [limit.bounds(names.tolist()) for limit in limits_of_column]
    is_free = np.isnan(bounds).all(axis=0) if bounds else np.zeros(len(names), dtype=bool)
    faults = []
    cures = []
    parts = ((selects, "select", "larger"), (~selects, "certify", "smaller"))
    for rows, purpose, cure in parts:
        is_absent = (np.bincount(place[rows], minlength=len(names)) == 0) & ~is_free
        absent = sorted(np.flatnonzero(is_absent).tolist(), key=lambda k: repr(names[k]))
        if not absent:
            continue
        sizes = [
            f"{names[k : k + 1].tolist()[0]!r} has {how_many(n_rows[k], 'row')}" for k in absent
        ]
        faults.append(
            f"{joined(sizes, GROUPS_NOTED)}, and none of them is among the "
            f"{how_many(int(rows.sum()), 'row')} drawn to {purpose}"
        )
        if (n_rows[is_absent] > 1).any():
            cures.append(f"Give a {cure} selection_share=, bring more rows, or leave these out")
    if not faults:
        return
    advice = "Bring more rows, or leave these out"
    if len(faults) == len(cures) == 1:
        advice = cures[0]
    if name == "groups" and len(names) > MOST_NUMBERS and names.dtype.kind in "iuf":
        advice = "Make bands of these numbers first, as by pandas.cut"
    raise ValueError(
        f"{name}: {'; '.join(faults)}. No rule was tested, so no attempt is spent. {advice}"
    )


def default_share(limits: Sequence[Limit], strata: Strata, *, by_group: bool | str) -> float:
    """Return the fraction of the selecting rows: more for tests than for ranks, see `calibrate`.

    Parameters
    ----------
    limits : sequence of Limit
        The limits to certify.
    strata : Strata
        The strata of the labels; groups are not needed.
    by_group : bool or str
        True or the name of the group column for a group-aware rule.
    """
    if not limits:
        return FOR_TESTS
    on_deferral = [limit.rate.counts_deferral for limit in limits]
    if any(on_deferral):
        deferring = replace(strata, defers=True)
        has_ranks = all(_has_ranks(limit, deferring) for limit in limits)
        if has_ranks and not all(on_deferral):
            return FOR_RANKS
        return FOR_TESTS
    has_ranks = all(_has_ranks(limit, strata) for limit in limits)
    compares = any(limit.compares for limit in limits)
    if has_ranks and not compares:
        return FOR_RANKS
    reads_groups = by_group is True or by_group in names_in(limits[0].rate.by)
    if not reads_groups or len(limits) > 1:
        return FOR_TESTS
    # For a group-aware rule, ranks serve a single gap or ratio, and sequences by group another single limit.
    if has_ranks:
        return FOR_COMPARISONS
    if not compares and limits[0].rate.needs_groups:
        return FOR_SEQUENCES
    return FOR_TESTS


def _has_ranks(limit: Limit, strata: Strata) -> bool:
    """Return whether a limit is on the share of a fixed number of rows with one answer."""
    rate = replace(limit.rate, by=None)  # the answer is the same in each subgroup
    of_all = rate <= 0.5 if limit.compares or limit.from_above else rate >= 0.5
    tests = Tests.of(of_all, strata)
    return tests is not None and bool((tests.answers >= 0).all())


def contents_of(X: Table, labels: Labels) -> Hashes:
    """Return a hash of each row with its label, shape (n,): the order of the columns has no effect."""
    X = as_table(X)
    if len(X.shape) == 1:  # refused later, by `tune`
        X = np.asarray(X)[:, None]
    if hasattr(X, "columns"):
        X = as_table(X, sorted_names(list(X.columns)))
    return hashes_of_pairs(hash_rows(X), hash_rows(labels.astype(str)[:, None]))


def contents_of_groups(groups: Groups, n_rows: int) -> Hashes:
    """Return a hash of the groups of each row, shape (n,)."""
    hashes = np.zeros(n_rows, dtype=np.uint64)
    if groups is not None:
        for title, column in group_columns(groups, "groups").items():
            names, group = labels_and_places(column, title)
            hashes = hashes_of_pairs(hashes, hash_rows(names.astype(str)[:, None])[group])
    return hashes


def drawn_part(numbers: Floats, share: float, *, needed: Sequence[Labels] = ()) -> Mask:
    """Return a mask of the selecting rows, shape (n,): those with a number below the share.

    If the rows are independent draws of a population, so are both parts, given their sizes. A draw evenly
    from each class or group would make the counts of both parts proportional. Then a rule with a good rate
    on one part, because a group is rare there, would have a good rate on the other part too.

    Further rows are drawn, in the order of their numbers, until each group of ``needed`` columns has a row,
    up to `LARGEST_SHARE`. The drawn rows alone decide whether one more is drawn, if the groups of the batch
    are given. So the other rows are still independent draws of these groups: the number of drawn rows is a
    stopping time. The same holds if the selection of the drawn rows asks for a larger ``share``.

    Parameters
    ----------
    numbers : ndarray of shape (n,)
        The number of each row, the same for the rows of a cluster.
    share : float in (0, 1)
        The least expected fraction of rows or clusters.
    needed : sequence of ndarray of shape (n,), optional
        Columns of labels or groups. Groups with one row or cluster are passed over.

    Raises
    ------
    ValueError
        If a part would be empty.
    """
    enough = share
    for column in needed:
        names, group = distinct_and_places(column)
        first = np.full(len(names), np.inf)
        last = np.full(len(names), -np.inf)
        np.minimum.at(first, group, numbers)
        np.maximum.at(last, group, numbers)
        enough = max(enough, float(np.nextafter(first[first < last].max(initial=0.0), 1.0)))
    selects = numbers < max(share, min(enough, LARGEST_SHARE))
    if selects.all() or not selects.any():
        raise ValueError(
            f"X: {len(np.unique(numbers)):,} rows or clusters are too few: one part selects the rule "
            f"(selection_share={share:g}), the other certifies it"
        )
    return selects
