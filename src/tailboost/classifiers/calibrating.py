"""Calibration of any fitted model in one batch: some rows select the rule, the others certify this rule."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
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
    check_indexes,
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
    NotCertifiedError,
    ResubstitutionWarning,
    SmallSubgroupsWarning,
    UselessRuleWarning,
)
from tailboost.core.long_work import telling
from tailboost.core.spelling import (
    how_many,
    joined,
)
from tailboost.guarantees.calibration import (
    before_any_attempt,
    calibrate_selected,
    check_options,
    stated_limits,
)
from tailboost.guarantees.certificates import Certificate
from tailboost.guarantees.fresh_rows import FreshRows
from tailboost.guarantees.fresh_rows import Rule as AnsweringRule
from tailboost.guarantees.monitor import GROUPS_NOTED
from tailboost.guarantees.procedure import Reference
from tailboost.guarantees.ranks_beside_deferral import restricted_answer
from tailboost.guarantees.shares import counted_answer
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
from tailboost.rows.seen import EqualRows, refuse_copied
from tailboost.rows.subgroups import MOST_NUMBERS, refuse_many_numbers
from tailboost.selection.rule import Rule
from tailboost.selection.threshold_rule import ThresholdRule

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
    max_error: Stated = None,
    *,
    limits: Stated = None,
    confidence: float = 0.95,
    groups: Groups = None,
    rule: AnsweringRule = "predict",
    previous: Any = None,
    subgroups: Any = None,
    equal_rows: EqualRows | None = None,
    clusters: Column = None,
    selection_share: float | None = None,
    objective: Stated = None,
    by_group: bool | str | None = None,
    infer_groups: bool | None = None,
    training_rows: Table = None,
    verbose: int = 0,
    **params: Any,
) -> Calibrated | Any:
    """Return the least restricted rule of a classifier with certificates for all targets, from fresh rows.

    A model without a selected rule is tuned first, on a part of the rows: see ``selection_share``.

    * *Ranks.* If each limit is about the share of some rows with one of two answers (misses, false alarms,
      selection rates), thresholds are placed at ranks of the fresh scores. Their true rates are then known
      up to a Beta distribution, and need no test. The same holds for one gap or ratio of such shares
      between groups, if the rule reads the group. Limits by group on one class have ranks too; limits that
      join groups on the other class are then tested. Beside ranks of errors, limits on deferral have one
      exact test each.
    * *Fixed sequence.* Otherwise rules are tested from the safest to the one with the smallest objective
      within the limits. The sequence depends on the selection data alone. Each rule is tested for all
      limits at the whole level, and the last rule before the first failure is returned ([1]_).

    The certificate, or `NotCertifiedError`, says why a simpler procedure does not apply.

    An attempt spends .9 of the error probability left by earlier ones, so all certificates of all
    attempts hold together. Each attempt needs new rows. The model's ledger counts the attempts, also of its
    copies.

    Parameters
    ----------
    model : classifier, or any model for `tailboost.tune`
        A classifier of tailboost. The attempt is recorded in its ``ledger_`` before any rule is tested;
        nothing else changes. A shallow copy shares the ledger. A deep copy, a pickle and a file carry the
        attempts so far. Or a fitted model of another library, `Scores`, a function, several of them: such a
        model has no ledger, so ``previous`` must name earlier attempts. Attempts with classifiers of
        tailboost, in a list or inside the result of `tailboost.tune`, are recorded in the ledger of each.
    X, y : array-like of shape (n, d), (n,)
        Fresh rows and their labels: independent draws, unused in the fit. A model of another library does not
        keep its training rows, so they are not recognised here without ``training_rows``. With ``y=None``
        the rows have no labels, and the limits must need none.
    max_error : float or dict, optional
        Short for a limit on the errors of every group, or without groups of every class; or by name, as in
        `tailboost.certify`. A boosting classifier has those on groups if it was fitted with groups.
    limits : list of Limit or str, optional
        Limits on rates. By default the limits and largest errors of the model's fit, or the certified ones of
        a calibrated rule. The probabilities of a boosting classifier are tuned within them, as those of
        another model. The tested rules are selected within tighter limits: by multiples of half their 95 %
        intervals on the selection data. The sequence starts at the strictest rule with a high predicted
        power.
    confidence : float in (0, 1), default=0.95
        Probability of keeping all targets.
    groups : array-like of shape (n,), or table of shape (n, c), optional
        Groups of the rows, for targets of groups or cells and for a group-aware model. The name of a column
        of a data frame ``X``, or a list of names, are these columns.
    rule : {"predict", "randomised"}, default="predict"
        The certified rule of a boosting classifier: ``predict``, by exact binomial tests, or the randomised
        rule with the label distribution ``predict_distribution``, by betting. Within limits that are
        parameters, the selected rule is certified: a randomised one if it draws.
    previous : NotCertifiedError, Certificate or calibrated classifier, optional
        The result of an attempt that the model's ledger does not know: of another fit or of a deep copy. It
        counts, with all earlier ones.
    subgroups : list or dict of lists, optional
        All subgroups, as in `tailboost.certify`; by default the groups of the model's fit (``groups_``). A
        number as ``max_error`` is a target of each, also without rows.
    equal_rows, clusters : optional
        As in `tailboost.certify`; ``shortfalls`` then count clusters.
    selection_share : float in (0, 1), optional
        For a model without a selected rule: the least fraction of the rows, or of the clusters, on which
        `tune` selects. The others certify. The default is .3; .2 if ranks serve a gap or ratio; .15 for a
        precision of each group, if the rule reads the group; .1 if ranks serve all limits, none of which
        compares groups. Up to half of the rows select if a label or a limited group would have none there, or
        if few rows contradict the limits. A row decides by the hash of its content and label, so it stays on
        its side in a larger table, in another order and with other limits.
    objective, by_group, infer_groups : optional
        For such a model: what `tune` minimises, and whether rules may read or estimate the group, as in
        `RobustMixtureClassifier`. Decide ``by_group`` first: `tune` on other rows names its gain.
    training_rows : array-like of shape (m, d), optional
        The rows on which a model of another library was trained, as in `tailboost.certify`.
    verbose : int, default=0
        Above 0 work of more than five seconds prints finished and total steps, and about the time left.
    **params
        For such a model: further parameters of `tune`, for example ``random_state`` (default 0).

    Returns
    -------
    RobustMixtureClassifier, or the class of a boosting classifier
        With the same candidates. `certify` refuses all rows of this call. Its ``certificate_`` holds the
        targets. A later ``fit`` selects another rule, without a certificate. Other errors, also on the
        calibration rows, are estimates: `tailboost.certify` bounds them on further rows.

    Raises
    ------
    NotCertifiedError
        If the safest rule misses a target, for example of a group without rows.
        ``shortfalls`` names the targets and gives approximate numbers of sufficient rows.
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
    >>> import tailboost as tb
    >>> X, y = make_classification(3000, weights=[0.8], class_sep=0.8, random_state=0)
    >>> clf = tb.WorstClassBoostClassifier(n_estimators=5, random_state=0).fit(X[:1000], y[:1000])
    >>> calibrated = tb.calibrate(clf, X[1000:], y[1000:], max_error={1: 0.3})
    >>> [(b.title, b.upper) for b in calibrated.certificate_.bounds]
    [('error by class: 1', 0.3)]

    A model of another library needs no other rows:

    >>> from sklearn.linear_model import LogisticRegression
    >>> model = LogisticRegression().fit(X[:1000], y[:1000])
    >>> certified = tb.calibrate(model, X[1000:], y[1000:], limits=["miss(1) <= .35"])
    >>> print(certified.certificate_.certified, certified.certificate_.n_rows)
    True 1830
    """
    arguments = Given(
        X,
        y,
        groups,
        clusters=clusters,
        subgroups=subgroups,
        equal_rows=equal_rows,
        training_rows=training_rows,
    )
    options: dict[str, Any] = {"confidence": confidence, "rule": rule, "previous": previous}
    if isinstance(model, (Rule, ThresholdRule)):
        raise ValueError(
            "model is a rule without selection data: give the classifier of tune, or for a "
            f"new rule the model itself: {_call_with_model_of(model)}. The shell calibrates "
            "the rule of a file: tailboost calibrate rule.json fresh.csv --model "
            "certified.json"
        )
    check_options(confidence, rule)
    named = {"objective": objective, "by_group": by_group, "infer_groups": infer_groups}
    params |= {name: value for name, value in named.items() if value is not None}

    progress: Any = nullcontext()
    if verbose:
        progress = telling()
    judged_model = judged(model)
    # A rule of the model was selected on other rows.
    if judged_model.classifier is model and judged_model.selects_rule(limits):
        _refuse_parameters_of_tune(model, selection_share, params)
        with progress:
            return calibrate_selected(
                model,
                arguments,
                max_error,
                limits=limits,
                reference=own_answers(model),
                **options,
            )
    with progress:
        classifier, certifying = selected_on_part(
            model,
            arguments,
            max_error,
            limits=limits,
            selection_share=selection_share,
            **params,
        )
        return _certified_or_advised(classifier, certifying, max_error, options)


def _call_with_model_of(rule: Rule | ThresholdRule) -> str:
    """Return a call for the selection and certificate of a new rule on the scores of a rule from a file."""
    model = "model"
    options = ""
    if rule.classifier is not None:
        model = f"tb.{rule.classifier.scores!r}"
        if rule.groups is not None:
            column = rule.classifier.by_group
            options = f", groups=table[[{column!r}]], by_group={column!r}"
    limits = [limit.text for limit in rule.limits]
    return f"tb.calibrate({model}, X, y, limits={limits or '[…]'}{options})"


def _refuse_parameters_of_tune(
    model: Model, selection_share: float | None, params: dict[str, Any]
) -> None:
    """Raise ValueError for arguments without a use for a model with a selected rule."""
    unused = list(params)
    if selection_share is not None:
        unused.insert(0, "selection_share")
    if unused:
        raise ValueError(
            f"{', '.join(unused)}: the rule of this {type(model).__name__} was selected on "
            "other rows; these arguments are for a model without a selected rule: leave them "
            "out, or give the model or the scores in place of the rule"
        )


def _certified_or_advised(
    classifier: RobustMixtureClassifier,
    certifying: Given,
    max_error: Stated,
    options: dict[str, Any],
) -> Any:
    """Return the certified classifier of a batch, see `certified_on_rest`.

    If the model has no ledger, the error of a failed attempt advises to give this error in the next call.

    Parameters
    ----------
    classifier : RobustMixtureClassifier
        The classifier with the selected rule.
    certifying : Given
        The rows that certify.
    max_error : as in `calibrate`
        Targets to certify in addition to the limits of the classifier.
    options : dict
        Further arguments of `calibrate`.
    """
    try:
        return certified_on_rest(classifier, certifying, max_error, **options)
    except NotCertifiedError as error:
        if not error.tested:  # no attempt was made
            n_selecting = classifier.selection_.engine.outputs.rows.n_given
            advice = f"{select_again(n_selecting, n_rows_of(certifying.X))}."
            raise error.advised(advice) from None
        advice = (
            f"This was attempt {len(error.attempts)}. The model has no ledger: for a "
            "further attempt give previous= this error, and rows that no attempt had. Its "
            "rows cannot be used again, also not with other limits."
        )
        raise error.advised(advice) from None


def select_again(n_selecting: int, n_others: int) -> str:
    """Return a sentence, without its full stop, on a batch that has selected and not certified."""
    return (
        f"No row is used up: of the {n_selecting + n_others:,} rows of this batch the same "
        f"{n_selecting:,} select in a next call, and the other {n_others:,} certify"
    )


def selected_on_part(
    model: Model,
    arguments: Given,
    max_error: Stated = None,
    *,
    limits: Stated = None,
    selection_share: float | None = None,
    **params: Any,
) -> tuple[RobustMixtureClassifier, Given]:
    """Return a model with a rule selected on a part of the rows, and the other rows, which certify.

    The attempt will be recorded in the ledger of the classifier.

    Parameters
    ----------
    model : classifier or other model for `tune`
        The model without a selected rule.
    arguments : Given
        The arguments of `calibrate` with rows.
    max_error, limits : as in `calibrate`
        The limits to certify.
    selection_share : float in (0, 1), optional
        The least fraction of the rows that select.

    Raises
    ------
    ValueError, TypeError
        If an argument is not as described, or a part would be empty.
    """
    target_limits = stated_limits(max_error, limits)
    if selection_share is not None:
        check_number(selection_share, "selection_share", 0, 1, below=True)
    by_group = params.get("by_group", False)
    params = {"random_state": 0, "training_rows": arguments.training_rows} | params
    batch = Batch.of(model, arguments)
    needed_groups = batch.needed_groups(
        target_limits, by_group, all_columns=by_group is True or max_error is not None
    )
    share = selection_share
    if share is None:
        share = default_share(target_limits, batch.strata, by_group=by_group)
    numbers = batch.selecting_numbers()
    places_of_groups = [place_of_row for _, place_of_row in needed_groups.values()]
    while True:
        selects = drawn_part(numbers, share, needed=[batch.labels, *places_of_groups])
        batch.refuse_one_sided(
            selects, needed_groups, target_limits, reads_groups=by_group is not False
        )
        try:
            classifier = batch.tuned(selects, limits=target_limits, **params)
        except InfeasibleLimitsError as error:
            # Few rows may contradict limits by chance. The same rows select again, with further ones.
            if share < LARGEST_SHARE:
                share = min(LARGEST_SHARE, 2.0 * share)
                continue
            n_selecting = int(selects.sum())
            again = select_again(n_selecting, len(selects) - n_selecting)
            error.args = (f"{error}. {again}",)
            raise
        return classifier, batch.certifying_rows(selects)


def certified_on_rest(
    classifier: RobustMixtureClassifier, rows: Given, max_error: Stated = None, **options: Any
) -> Any:
    """Return the certified classifier of a batch; further options as in `calibrate`.

    The classifier's records have the selecting and the certifying rows.

    Parameters
    ----------
    classifier : RobustMixtureClassifier
        The classifier from `selected_on_part`, with its limits.
    rows : Given
        The rows that certify.
    max_error : as in `calibrate`, optional
        Targets to certify in addition to the limits of the classifier.
    """
    # Rows of one batch are different rows, also if a row of each part has the same content. So the
    # records of the selection are left out while the other rows certify.
    records = classifier.records_
    without_selection = copy.copy(classifier)
    without_selection.records_ = replace(records, used=())
    calibrated = calibrate_selected(
        without_selection,
        rows,
        max_error,
        limits=classifier.limits or None,
        reference=own_answers(classifier),
        **options,
    )
    calibrated.records_ = records.using(*calibrated.records_.used)
    certificate = calibrated.certificate_
    n_selected = classifier.selection_.engine.outputs.rows.n_given
    n_rows = n_selected + n_rows_of(rows.X)  # further rows without labels are not in the batch
    note = (
        f"One batch of {n_rows:,} rows: {n_selected:,} of them, drawn at random, "
        "selected the rules. The others certify. All of them are used up. Assumption: "
        f"{_assumed_of_equal_rows(classifier, rows.equal_rows)}."
    )
    if len(certificate.attempts) == 1:
        note += " Earlier calls on these rows are not known without previous=."
    # The certificate has a copy of the classifier.
    certificate.model.records_ = calibrated.records_
    calibrated.certificate_ = replace(certificate, notes=(note, *certificate.notes))
    return calibrated


def _assumed_of_equal_rows(
    classifier: RobustMixtureClassifier, equal_rows: EqualRows | None
) -> str:
    """Return the assumption about equal rows in a certificate of one batch, as a clause."""
    if judged(classifier).reads_scores:
        return "rows with equal scores are different rows"
    if equal_rows == "natural":
        return "rows are equal by nature and nobody copied a row"
    return "no row of the batch is a copy of another one"


def own_answers(classifier: Any) -> Reference:
    """Return the answers of a classifier's models without limits, with their printed name.

    A model given as fitted answers by its ``predict``. Scores, functions, group-aware models and models
    trained by the fit answer by their most probable label. Several models answer by the most probable label
    of their average. Scores of kind "number" have no such answers, and their result has no name. A classifier
    without limits on rates answers by its given rule.
    """
    if not judged(classifier).takes_limits:
        return Reference()
    models = classifier.selection_.engine.outputs.models
    if len(models.fitted) > 1:
        return Reference("the average of the models", _most_probable)
    (model,) = models.fitted
    inner_model = getattr(model, "estimator", model)
    came_fitted = isinstance(model, FrozenEstimator)  # others answer by the numbers of labels
    has_predict = not isinstance(inner_model, (GivenModel, GivenProbabilities))
    if not came_fitted or not has_predict or judged(last_step(model)).by_group:
        return Reference("the model's most probable label", _most_probable)
    if not isinstance(inner_model, Scores):
        return Reference("the model's own answers", lambda fresh: fresh.predicted_by(model))
    if inner_model.kind == "number":
        return Reference("", lambda fresh: None)
    if models.score_column is None:
        return Reference("the largest score", _most_probable)
    if inner_model.kind == "percent":
        return Reference("the score at 50", _most_probable)
    if inner_model.kind == "logit":
        return Reference("the score at 0", _most_probable)
    return Reference("the score at 0.5", _most_probable)


def _most_probable(fresh: FreshRows) -> FreshRows:
    """Return fresh rows with the most probable label by the only model or the average as the answer."""
    log_probabilities = []
    for table in fresh.opened:
        if table.n_models > 1:
            log_probabilities.append(table.pooled)
        else:
            log_probabilities.append(table[0])
    return fresh.with_actions(np.concatenate(log_probabilities).argmax(axis=1))


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
        arguments.refuse("one batch", details={"model": type(model).__name__})
        check_indexes(X=X, y=arguments.y, groups=arguments.groups, clusters=arguments.clusters)
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
            before_any_attempt(""),
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
        return replace(arguments, batch=arguments, **certifying)


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
    # The answer is the same in each subgroup.
    of_all_rows = [replace(limit, rate=replace(limit.rate, by=None)) for limit in limits]
    on_deferral = [limit.rate.counts_deferral for limit in limits]
    if any(on_deferral):
        deferring = replace(strata, defers=True)
        has_ranks = all(
            restricted_answer(limit, deferring) is not None for limit in of_all_rows
        )
        if has_ranks and not all(on_deferral):
            return FOR_RANKS
        return FOR_TESTS
    answers = [counted_answer(limit.rate, strata) for limit in of_all_rows]
    has_ranks = None not in answers
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
