"""Fresh rows of a certificate: answers, subgroups, and overlap with training rows."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from tailboost.core.array_types import (
    Floats,
    Groups,
    Hashes,
    Ints,
    Labels,
    Mask,
    Model,
    Table,
)
from tailboost.core.checks import (
    as_table,
    batched,
    check_indexes,
    check_length,
    check_probabilities,
    check_same_kind,
    distinct,
    distinct_and_places,
    in_class_order,
    label_column,
    n_rows_of,
    numbered_clusters,
    positions,
    refuse_quantity,
    take,
)
from tailboost.learners.scores import Scores
from tailboost.rates import Answered, Limit, Rate, Sample, Strata, error
from tailboost.rates.strata import names_in
from tailboost.rows.fingerprints import (
    hash_rows,
    hashes_of_pairs,
    numbered_by_rows,
    random_numbers,
)
from tailboost.rows.given import Given
from tailboost.rows.judged import (
    final_step,
    group_arguments,
    judged,
    label_shares,
    last_step,
    predicted_labels,
)
from tailboost.rows.ledger import refuse_repeated
from tailboost.rows.persons import refuse_persons
from tailboost.rows.readers import row_hashes
from tailboost.rows.seen import (
    CALIBRATED_ON,
    TRAINED_ON,
    EqualRows,
    Seen,
    checked_equal_rows,
    refuse_copied,
)
from tailboost.rows.subgroups import by_column, deferral_words, named_as, plain_list
from tailboost.selection.one_answer import one_answer_sentences

# The rule with the bounded errors: `predict`, or the randomised rule with the label distribution
# `predict_distribution`.
Rule = Literal["predict", "randomised", "given losses"]

#: Errors as rates, by kind of subgroup.
ERRORS: dict[str, Rate] = {
    "mean": error(),
    "class": error(by="class"),
    "group": error(by="group"),
    "cell": error(by="cell"),
}
ASSUMED = (
    "Assumption: the rows are independent draws from the population of the bounds (no repeated "
    "measurements of one person, no later shift), and no row was used to train or select the "
    "model."
)
COMPARED = (
    "These rows repeat no row of the fit, the selection or an earlier calibration that is known here, beyond "
    "chance."
)
ONLY_SCORES = (
    "The rule reads scores alone, so rows with equal scores are different rows. Whole tables that were used "
    "before are recognised, parts of them only among scores with many digits."
)
EQUAL_BY_NATURE = (
    "According to the caller, rows are equal by nature and nobody copied a row: only whole tables that were "
    "used before are recognised."
)
UNKNOWN_TRAINING_ROWS = (
    "The training rows of the model are not known, so these rows are fresh as stated: training_rows= names "
    "the training rows, and compares these rows with them."
)
BY_CLUSTERS = (
    "Each of the {:,} clusters has one vote: {}, drawn at random from a generator with a fixed "
    "seed. The bounds are about a random row of a random cluster; those of a class or group are "
    "about {}. Assumption: the clusters are independent draws from the population of the bounds "
    "(no later shift), and none of their rows was used to train or select the model."
)
VOTES = (
    "in each class or group one of its rows there counts",
    "its rows and the clusters with such rows",
)
# Of rules that may defer.
VOTES_BESIDE_DEFERRAL = (
    "one of its rows counts, also in its class and group",
    "such rows in it",
)


@dataclass(frozen=True, eq=False)
class FreshRows:
    """Fresh rows with the answers of a model or an array of answers."""

    answered: Answered
    model: Any = None  # which has answered; an array of answers
    rule: Rule | None = None  # the counted rule of the model; None: the model's usual one
    table: Any = None  # the rows as the model takes them
    groups: Any = None  # their groups
    final: Any = None  # the classifier at the end of the model, or behind an array of answers
    hashes: Hashes | None = None  # of the rows, shape (n,); None if only answers were given
    # Shape (n,): hashes of the rows that the classifier at the end of a pipeline reads. The draws depend on
    # them, so they are the same for the pipeline and for its classifier. None if only answers were given.
    read: Hashes | None = None
    as_stated: bool = True  # whether only the caller knows of no model trained on these rows
    # "class", "group", ("group", column): kinds of subgroups with a complete list.
    listed: Collection[Any] = ()
    equal_rows: EqualRows = "copies"
    # Shape (n,): cluster of each row; a cluster has one vote in a subgroup. None: each row has a vote.
    clusters: Ints | None = None
    has_labels: bool = True  # otherwise only rates that need no label are counted
    _samples: dict[Rate, list[Sample]] = field(init=False, default_factory=dict)

    def __len__(self) -> int:
        return len(self.answered.stratum)

    @property
    def n_clusters(self) -> int | None:
        """Number of clusters; None if each row has a vote."""
        if self.clusters is None:
            return None
        return len(np.unique(self.clusters))

    @property
    def only_scores(self) -> bool:
        """Whether the rule reads scores alone."""
        return judged(self.final).reads_scores

    @property
    def used(self) -> Seen:
        """The rows, to recognise them later; scores are known by their labels too."""
        assert self.hashes is not None
        strata = self.answered.strata
        labels = None
        if self.only_scores and self.has_labels:
            labels = np.asarray(strata.classes)[strata.y[self.answered.stratum]]
        return Seen.of(self.hashes, CALIBRATED_ON, labels)

    @property
    def digest(self) -> bytes:
        """The rows with their labels, groups and clusters as bytes, the same in any order of the rows."""
        columns = [self.draws, self.answered.stratum.astype(np.float64)]
        return np.sort(hash_rows(np.column_stack(columns))).tobytes()

    @property
    def n_deferred(self) -> int:
        """Number of deferred rows; 0 for answers that never defer."""
        strata = self.answered.strata
        if not strata.defers:
            return 0
        return int((self.answered.actions == strata.n_classes).sum())

    def one_answer(self, limits: Sequence[Limit]) -> list[str]:
        """Return sentences on groups of the limits, or read by the rule, with one answer to all rows."""
        strata = self.answered.strata
        reader = judged(self.final)
        columns_read = [column for column in strata.columns if reader.reads(column)]
        return one_answer_sentences(strata, self.answered.counts, limits, columns_read)

    @cached_property
    def draws(self) -> Floats:
        """Random number in [0, 1) of each row, shape (n,): for the votes of clusters and the order of rows.

        The numbers depend on the row's content, its stratum and the rows of its cluster, so the order of
        rows has no effect. If the content is not known, the answer takes its place.
        """
        content = self.read
        if content is None:
            content = hash_rows(np.reshape(self.answered.actions, (len(self), -1)))
        stratum = numbered_by_rows(self.answered.stratum, content)
        if self.clusters is not None:
            return random_numbers(content, stratum, clusters=self.clusters)
        no_cluster = np.zeros(len(self), dtype=np.intp)
        return random_numbers(content, stratum, no_cluster)

    @property
    def opened(self) -> list[Any]:
        """The rows as the model takes them."""
        return [self.table]

    def by(self, selection: Any) -> FreshRows:
        """Return the same rows with the answers of another selection of the same candidates."""
        return self.answered_by(answering(self.model, selection))

    def read_by(self, model: Model) -> FreshRows:
        """Return the same opened rows as a classifier of the same models reads them, which reads groups."""
        reader = judged(model)
        return replace(self, model=model, table=reader.knowing(self.table, self.groups))

    def answered_by(self, model: Model) -> FreshRows:
        """Return the same rows with the answers of a classifier."""
        strata = self.answered.strata
        actions = actions_of(model, self.table, self.groups, self.rule, strata)
        return replace(
            self,
            answered=replace(self.answered, actions=actions),
            model=model,
            final=last_step(model),
        )

    def predicted_by(self, model: Model) -> FreshRows:
        """Return the same rows with the answers of another model.

        The rows must be opened. The model reads their features.
        """
        defers = judged(last_step(model)).can_defer
        strata = replace(self.answered.strata, defers=defers)
        actions = []
        for numbers, rows in batched(self.table.X):
            groups = take(self.groups, numbers)
            actions.append(actions_of(model, rows, groups, "predict", strata))
        return self.with_actions(np.concatenate(actions), defers=defers)

    def with_actions(self, actions: Ints, *, defers: bool = False) -> FreshRows:
        """Return the same rows with other answers, as numbers of labels, shape (n,).

        With ``defers``, the number K of labels stands for deferral.
        """
        strata = self.answered.strata
        strata = replace(strata, defers=strata.defers or defers)
        return replace(self, answered=replace(self.answered, strata=strata, actions=actions))

    def samples(self, rate: Rate) -> list[Sample]:
        """Return the rows of each subgroup of a rate with their values; a cluster has one vote there at most.

        They are counted once for each rate.
        """
        if rate not in self._samples:
            samples = rate.samples_of(self.answered)
            if self.clusters is not None:
                samples = [sample.taken(self._votes_among(sample.rows)) for sample in samples]
            self._samples[rate] = samples
        return self._samples[rate]

    def voters(self, rows: Ints) -> Ints:
        """Return the rows with a vote among some rows, in their order; without clusters all rows."""
        if self.clusters is None:
            return rows
        return rows[self._votes_among(rows)]

    def _votes_among(self, rows: Ints) -> Ints:
        """Return the places of the rows with a vote among some rows: one random row of each cluster.

        If rules may defer, only the same row of a cluster may have a vote everywhere: then rows with votes
        are independent for limits on errors and on deferral together.
        """
        assert self.clusters is not None
        if self.answered.strata.defers:
            return np.flatnonzero(self._has_vote[rows])
        return one_of_each(self.clusters[rows], self.draws[rows])

    @cached_property
    def _has_vote(self) -> Mask:
        """Whether a row has the only vote of its cluster, shape (n,)."""
        has_vote = np.zeros(len(self), dtype=bool)
        assert self.clusters is not None
        has_vote[one_of_each(self.clusters, self.draws)] = True
        return has_vote

    def are_apart(self, samples: Sequence[Sample]) -> bool:
        """Whether no row, and no cluster, is in two samples: then the samples are independent."""
        if not samples:
            return True
        cases_by_sample = [sample.rows for sample in samples]
        if self.clusters is not None:
            cases_by_sample = [np.unique(self.clusters[rows]) for rows in cases_by_sample]
        samples_by_case = np.bincount(np.concatenate(cases_by_sample), minlength=1)
        return bool(samples_by_case.max() <= 1)

    def knows(self, by: Any) -> bool:
        """Return whether the subgroups of the population are listed completely, for the ``by`` of a rate.

        Subgroups of several columns are not if no combination of their groups is known.
        """
        names = set(names_in(by))
        if "cell" in names:
            names = {"class", "group"}
        if "class" in names and "class" not in self.listed:
            return False
        columns = names - {None, "class"}
        has_no_known_combination = self.answered.strata.known == ()
        if len(columns) > 1 and has_no_known_combination:
            return False
        # "group": the lists of all columns are complete, also of a single one without a name.
        return "group" in self.listed or all(("group", name) in self.listed for name in columns)

    @property
    def notes(self) -> list[str]:
        """The assumption about the rows, and their comparison with the rows of the fit, as sentences."""
        compared = COMPARED
        if self.only_scores:
            compared = ONLY_SCORES
        elif self.equal_rows == "natural":
            compared = EQUAL_BY_NATURE
        if self.as_stated:
            compared += f" {UNKNOWN_TRAINING_ROWS}"
        return [self._assumption, compared]

    @property
    def _assumption(self) -> str:
        """The assumption about the rows, with the number of deferred rows."""
        assumption = ASSUMED
        if self.clusters is not None:
            votes = VOTES_BESIDE_DEFERRAL if self.answered.strata.defers else VOTES
            assumption = BY_CLUSTERS.format(self.n_clusters, *votes)
        if self.answered.strata.defers:
            assumption += f" {deferral_words(self.n_deferred, len(self))}"
        if not self.has_labels:
            assumption += " None of the rows has a label."
        return assumption


def _in_form_of(X: Table, training_rows: Table) -> Any:
    """Return the training rows named by the caller, with their columns in the order of ``X``.

    Raises ValueError if the tables have different columns.
    """
    table = as_table(training_rows)
    rows = as_table(X)
    if hasattr(table, "columns") and hasattr(rows, "columns"):
        in_one_alone = sorted({*map(str, table.columns)} ^ {*map(str, rows.columns)})
        if in_one_alone:
            raise ValueError(
                f"training_rows: the column {in_one_alone[0]!r} is in training_rows or in X "
                "alone"
            )
        table = table[rows.columns]
    if table.shape[1:] != rows.shape[1:]:
        raise ValueError(
            f"training_rows has the shape {table.shape}, X {rows.shape}: columns must be the "
            "same"
        )
    if isinstance(training_rows, Mapping):
        return training_rows  # read by name
    return table


def one_vote(sample: Sample, clusters: Ints, draws: Floats) -> Sample:
    """Return the sample with one random row of each cluster, in the order of the rows.

    Parameters
    ----------
    sample : Sample
        The rows of a subgroup.
    clusters, draws : ndarray of shape (n,)
        Cluster and random number of all rows.
    """
    return sample.taken(one_of_each(clusters[sample.rows], draws[sample.rows]))


def one_of_each(clusters: Ints, draws: Floats) -> Ints:
    """Return the places of the rows with the smallest random number of their cluster, ascending."""
    if not len(clusters):
        return np.empty(0, dtype=np.intp)
    by_cluster_and_draw = np.lexsort((draws, clusters))
    is_first_of_cluster = np.r_[True, np.diff(clusters[by_cluster_and_draw]) > 0]
    return np.sort(by_cluster_and_draw[is_first_of_cluster])


def rows_by_subgroup(answered: Answered, by: Any) -> dict[Any, int]:
    """Return the number of rows of each subgroup, for the ``by`` of a rate."""
    strata = answered.strata
    rows_by_stratum = np.bincount(answered.stratum, minlength=len(strata.y))
    names, strata_of_subgroups = strata.subgroups(by)
    numbers = (strata_of_subgroups @ rows_by_stratum).tolist()
    return dict(zip(names, numbers, strict=True))


# -- answers -----------------------------------------------------------------------------------------------


def answering(model: Model, selection: Any, limits: Sequence[Limit] = ()) -> Any:
    """Return a copy of a classifier with another selection of its candidates, and stated limits."""
    judged_model = judged(model)
    if judged_model.takes_limits:
        return judged_model.answering(selection, limits)
    return copy.copy(selection.classifier)


def answers_of(model: Model, X: Table, rule: Rule, groups: Groups = None) -> Any:
    """Return the predicted labels, shape (n,), or the label distribution of a randomised rule, (n, K).

    Predicted labels of models outside of tailboost are checked. A single column of them becomes a vector.

    Parameters
    ----------
    model : classifier
        Any fitted classifier, also a pipeline.
    X : table of n rows
        Features of the rows.
    rule : {"predict", "randomised"}
        The rule that answers.
    groups : array-like of shape (n,) or table, optional
        Groups of the rows, for a model that reads them.
    """
    # Pipelines and searches pass groups on only on request.
    group_argument = group_arguments(last_step(model), groups)
    if group_argument:
        model, X = final_step(model, X)
    if rule != "predict":
        return label_shares(model, X, **group_argument)
    answers = predicted_labels(model, X, **group_argument)
    if not judged(model).has_records:
        check_length(answers, f"predict of {type(model).__name__}", n_rows_of(X))
    if answers.shape[1:] == (1,):  # CatBoost: shape (n, 1)
        return answers[:, 0]
    return answers


def actions_of(
    model: Model, X: Table, groups: Groups, rule: Rule | None, strata: Strata
) -> Any:
    """Return the number of the answer to each row, shape (n,), or the label distribution, shape (n, K).

    Parameters
    ----------
    model : classifier
        Answers the rows.
    X, groups
        The rows, and their groups.
    rule : {"predict", "randomised"} or None
        The rule that answers; None for the randomised rule if the model has one.
    strata : Strata
        Has the classes. If the strata defer, the answers of every rule are numbers, the last of them
        deferral: a label distribution does not show how often a row is deferred.
    """
    if rule == "randomised" and not strata.defers:
        return answers_of(model, X, rule, groups)
    classes = np.asarray(strata.classes)
    reader = judged(model)
    if reader.classifier is model:  # not a pipeline or a search
        numbers = reader.numbered_answers(X, groups, classes, defers=strata.defers)
        if numbers is not None:
            return numbers
    answers = label_column(answers_of(model, X, "predict", groups), "answers")
    actions = positions(answers, classes, "answers")
    if not strata.defers:
        return actions
    final, rows = final_step(model, X)
    is_deferred = final.defers(rows, **group_arguments(final, groups))
    return np.where(is_deferred, strata.n_classes, actions)


def _given_labels(given_answers: Any, y: Labels) -> tuple[Labels, Labels]:
    """Return the predicted labels from an array of labels or probabilities, and all labels, sorted.

    Raise ValueError for probabilities without a column for each label, for another shape, and for numbers
    that seem to be probabilities in place of labels.

    Parameters
    ----------
    given_answers : array-like of shape (n,) or (n, K)
        The array, which callers give in the place of a model.
    y : ndarray of shape (n,)
        The true labels.
    """
    array = np.asarray(given_answers)
    if array.ndim == 2:
        classes = np.unique(y)
        array = np.asarray(in_class_order(given_answers, "model", classes))
        if array.shape[1] != len(classes):
            raise ValueError(
                f"model has a column of probabilities for each of {array.shape[1]} labels, y "
                f"has {len(classes)}; give the predicted labels instead"
            )
        probabilities = check_probabilities(array, len(y), "model", "y")
        return classes[probabilities.argmax(axis=1)], classes
    if array.ndim != 1:
        raise ValueError(
            "model must be a fitted classifier, an array of n labels or of (n, K) "
            f"probabilities, got shape {array.shape}"
        )
    if array.dtype.kind == "f" and y.dtype.kind in "biuf":
        is_no_label = (array != np.floor(array)) & ~np.isin(array, y)
        if is_no_label.any():
            raise ValueError(
                f"model holds numbers such as {array[is_no_label][0]:g}, which are not labels "
                "of y. If they are probabilities, give labels, or probabilities of shape (n, "
                "K) with a column for each label"
            )
    answers = label_column(array, "model")
    check_length(answers, "model", len(y), "y")
    return answers, _all_labels(y, answers)


def _all_labels(y: Labels, answers: Labels) -> Labels:
    """Return all labels of rows and answers, sorted."""
    check_same_kind(answers, "model", y, "y")
    return np.unique(np.concatenate([y, answers]))


# -- subgroups ---------------------------------------------------------------------------------------------


def groups_of_fit(model: Model) -> list[Any]:
    """Return the names of the groups of a classifier's fit, if any."""
    return plain_list(judged(model).groups)


@dataclass(frozen=True)
class ListedGroups:
    """The groups of the population, as far as they are listed."""

    by_column: dict[Any, list[Any]]
    kinds: set[Any]  # the kinds of subgroups with a complete list, as in `FreshRows.listed`
    # The known combinations of groups of several columns; None if all combinations of the groups count.
    # It is empty if a column has no known group, or without columns.
    combinations: tuple[tuple[Any, ...], ...] | None


def listed_groups(final: Model, columns: Mapping[Any, Labels]) -> ListedGroups:
    """Return the groups of the population, as far as the fit knows them.

    Parameters
    ----------
    final : classifier
        Its fit may have groups. A column of the fit counts if one of its groups occurs among the rows.
    columns : dict
        The groups of the rows by column.
    """
    groups_by_column = by_column(groups_of_fit(final))
    if None in {*groups_by_column, *columns} and len(groups_by_column) == len(columns) == 1:
        # A single column needs no name to be the same one.
        groups_by_column = dict(zip(columns, groups_by_column.values(), strict=True))
    occurring = {
        name: groups_by_column[name]
        for name in columns
        if not set(groups_by_column.get(name, ())).isdisjoint(distinct(columns[name]).tolist())
    }
    kinds: set[Any] = {("group", column) for column in occurring}
    if not columns or list(occurring) != list(columns):
        return ListedGroups(occurring, kinds, combinations=())
    kinds.add("group")
    if len(columns) == 1:
        return ListedGroups(occurring, kinds, combinations=None)
    columns_of_fit = list(groups_by_column)
    numbers = [columns_of_fit.index(column) for column in columns]
    combinations = {
        tuple(combination[j] for j in numbers)
        for combination in judged(final).group_combinations
    }
    return ListedGroups(occurring, kinds, tuple(sorted(combinations, key=repr)))


# -- rows --------------------------------------------------------------------------------------------------


def fresh_rows(
    model: Model,
    given: Given,
    rates: Sequence[Rate] = (),
    rule: Rule | None = None,
    *,
    errors: bool = False,
    fitted: Any = None,
    opens: bool = False,
    in_use: bool = False,
) -> FreshRows:
    """Return rows with the answers of a model, or of an array.

    Parameters
    ----------
    model : classifier or array
        As in `certify`.
    given : Given
        The rows.
    rates : sequence of Rate
        The rates to count.
    rule : {"predict", "randomised"}, optional
        The rule that answers; by default the one of the model.
    errors : bool, default=False
        Whether errors of all kinds are counted. Their subgroups have other names: a group of a column
        is a pair (column, value), and groups without rows are there only if all groups are listed.
    fitted : classifier, optional
        The classifier behind an array of answers, if known.
    opens : bool, default=False
        Whether the model opens the rows: its models then answer once for all rules.
    in_use : bool, default=False
        Whether these are later rows of a rule in use, which repeat earlier ones by nature.

    Raises
    ------
    LeakageError
        If the model knows the rows from its fit.
    ValueError
        If an argument is not as in `certify`.
    """
    is_model = hasattr(model, "predict")
    reader = judged(model if is_model else fitted)
    given = _checked(given, model, reader, rates)
    equal_rows = checked_equal_rows(given.equal_rows)
    if is_model:
        return _answered_by_model(
            model, given, rates, rule, errors=errors, opens=opens, in_use=in_use
        )

    if given.training_rows is not None:
        raise ValueError(
            "training_rows: model is an array of answers, so there are no rows to compare"
        )
    if given.X is not None:
        raise ValueError(
            f"X must be None if model is an array of answers, got {type(model).__name__}. Of a classifier "
            "the order is (model, X, y)"
        )
    if given.deferred is None and any(rate.counts_deferral for rate in rates):
        raise ValueError(
            "deferred is needed: an array of answers does not show deferred rows; give deferred=, a "
            "mask that is True for a deferred row"
        )
    if given.labels is None:
        raise ValueError(
            "y is needed: model is an array of answers, and rows without labels show no rate"
        )
    answers, classes = _given_labels(model, given.labels)
    fresh = _counted(
        given,
        answers,
        given.deferred,
        classes=classes,
        lists_labels=False,
        final=fitted,
        rates=rates,
        errors=errors,
    )
    return replace(fresh, model=model, rule=rule, equal_rows=equal_rows)


def _checked(given: Given, model: Model, reader: Any, rates: Sequence[Rate]) -> Given:
    """Return rows with the names of their columns of groups.

    Raise if indexes or columns differ, if rates need data that are not given, or if rows without clusters
    are of persons. ``reader`` is the view of the classifier, or of the classifier behind an array of answers.
    """
    named = _with_named_groups(given, reader)
    check_indexes(X=given.X, y=given.y, model=model, deferred=given.deferred)
    given = named
    for rate in rates:
        if rate.needs_groups and given.groups is None:
            raise ValueError(
                f"groups is needed: {rate!r} needs groups; give groups=, with an entry for each row"
            )
        if rate.needs_costs and (given.costs is None or given.cost_range is None):
            raise ValueError(
                f"{rate!r} is a mean of costs by row: give costs=, and cost_range=(smallest, largest) "
                "possible cost of any answer to any row; the given rows do not show it"
            )
    if given.clusters is None:
        refuse_persons(given.X, [*given.names_of_groups, *reader.columns_of_scores])
    return given


def _with_named_groups(given: Given, reader: Any) -> Given:
    """Return rows with the names of their columns of groups, as ``reader`` has them."""
    groups = named_as(reader.groups_of(given.X, given.groups), reader.group_titles)
    return replace(given, groups=groups)


def _answered_by_model(
    model: Model,
    given: Given,
    rates: Sequence[Rate],
    rule: Rule | None,
    *,
    errors: bool,
    opens: bool,
    in_use: bool,
) -> FreshRows:
    """Return checked rows with the answers of a classifier, compared with the rows of its fit.

    Parameters
    ----------
    model : classifier
        Any fitted classifier, also a pipeline.
    given : Given
        The checked rows.
    rates : sequence of Rate
        The rates to count.
    rule : {"predict", "randomised"} or None
        The rule that answers; None for the one of the model.
    errors : bool
        Whether errors of all kinds are counted.
    opens : bool
        Whether the models answer once, for all rules.
    in_use : bool
        Whether these are later rows of a rule in use.
    """
    final = last_step(model)
    classes = _classes_of(model, given)
    equal_rows = checked_equal_rows(given.equal_rows or judged(final).equal_rows)
    if given.labels is None:
        _refuse_missing_labels(rates, classes)
    hashes = row_hashes(model, given.X)
    read, as_stated = _compared_with_fit(
        model, given, hashes, classes, equal_rows, in_use=in_use
    )
    any_answers = np.repeat(classes[:1], len(hashes))  # `answered_by` replaces them
    deferred = None
    if judged(final).can_defer:
        deferred = np.zeros(len(hashes), dtype=bool)
    elif not errors:
        for rate in rates:
            if rate.needs_deferral:
                raise ValueError(
                    f"{rate!r}: this {type(final).__name__} defers no row; tailboost.tune with "
                    "this limit gives a rule that may"
                )
    fresh = _counted(
        given,
        any_answers,
        deferred,
        classes=classes,
        lists_labels=hasattr(model, "classes_"),
        final=final,
        rates=rates,
        errors=errors,
    )

    table = given.X
    if opens:
        table = judged(model).opened(given.X, given.groups)
    return replace(
        fresh,
        rule=rule,
        table=table,
        groups=given.groups,
        hashes=hashes,
        read=read,
        as_stated=as_stated,
        equal_rows=equal_rows,
    ).answered_by(model)


def _counted(
    given: Given,
    answers: Labels,
    deferred: Any,
    *,
    classes: Labels,
    lists_labels: bool,
    final: Any,
    rates: Sequence[Rate],
    errors: bool,
) -> FreshRows:
    """Return rows with answers as numbers of strata and actions, and the lists of their subgroups.

    Parameters
    ----------
    given : Given
        The checked rows.
    answers, deferred : ndarray of shape (n,)
        The answer to each row, and whether it is deferred; None if no row may be.
    classes : ndarray of shape (K,)
        All labels.
    lists_labels : bool
        Whether ``classes`` are all labels of the population.
    final : classifier or None
        Its fit may list the groups of the population.
    rates, errors
        As in `fresh_rows`.
    """
    columns = given.columns
    clusters = numbered_clusters(given.clusters, given.n_rows)
    listed = listed_groups(final, columns)
    listed_kinds = listed.kinds
    if lists_labels:
        listed_kinds = {*listed_kinds, "class"}
    groups_by_column = listed.by_column
    if errors and "group" not in listed_kinds:
        groups_by_column = {}  # a "worst" error seen is about the groups among these rows

    costs = None
    if any(rate.needs_costs for rate in rates):
        costs = given.costs
    labels = given.labels
    if labels is None:  # no counted rate needs a label
        labels = np.repeat(classes[:1], len(answers))
    positions(labels, classes, "y")
    answered = Answered.from_arrays(
        labels,
        answers,
        groups=given.groups,
        deferred=deferred,
        costs=costs,
        labels=classes,
        known=groups_by_column,
    )
    strata = replace(answered.strata, known=listed.combinations)
    if answered.costs is not None:
        strata = replace(strata, cost_range=_checked_range(given.cost_range, answered.costs))
    if errors and None not in columns:
        strata = _with_groups_as_pairs(strata)
    return FreshRows(
        replace(answered, strata=strata),
        final=final,
        listed=listed_kinds,
        clusters=clusters,
        has_labels=given.labels is not None,
    )


def _compared_with_fit(
    model: Model,
    given: Given,
    hashes: Hashes,
    classes: Labels,
    equal_rows: EqualRows,
    *,
    in_use: bool,
) -> tuple[Hashes, bool]:
    """Return `FreshRows.read` and `FreshRows.as_stated`; raise LeakageError for rows that were used before.

    Parameters
    ----------
    model : classifier
        The model that answers.
    given : Given
        The checked rows.
    hashes : ndarray of shape (n,)
        Hashes of the rows.
    classes : ndarray of shape (K,)
        The labels that the model knows.
    equal_rows : {"copies", "natural"}
        The reason for equal rows, as in `certify`.
    in_use : bool
        Whether these are later rows of a rule in use, which repeat earlier ones by nature.
    """
    final, table = final_step(model, given.X)
    read = hashes if final is model else row_hashes(final, table)
    labels = given.labels
    contents: list[Any] = [*given.columns.values()]
    if labels is not None:
        contents.insert(0, labels)
        check_same_kind(labels, "y", classes, "classes_ of the model")
        if not np.isin(labels, classes).any():
            refuse_quantity(labels)
    as_stated = True
    if given.training_rows is not None:
        named = Seen.of(
            row_hashes(model, _in_form_of(given.X, given.training_rows)), TRAINED_ON
        )
        refuse_repeated(Seen.of(hashes), [named], equal_rows)
        as_stated = False
    if judged(final).has_records:
        records = judged(final).records
        records.refuse(read, labels, "natural" if in_use else equal_rows)
        as_stated = as_stated and not records.complete
    # Equal scores are different rows also without a statement, but not if all rows are copied.
    if equal_rows != "natural" and given.clusters is None:
        for column in contents:
            _, place = distinct_and_places(column)
            hashes = hashes_of_pairs(hashes, place.astype(np.uint64))
        refuse_copied("X", hashes)
    return read, as_stated


def _classes_of(model: Model, given: Given) -> Labels:
    """Return the classes of a classifier.

    A classifier of another library may have no ``classes_``; then they are the labels of rows and answers.
    """
    X = given.X
    if given.deferred is not None:
        raise ValueError(
            "deferred goes with an array of answers: a classifier knows its deferred rows"
        )
    if X is None:
        raise ValueError("X is needed: model is a classifier")
    if given.labels is not None:
        check_length(given.labels, "y", n_rows_of(X), "X")
    if hasattr(model, "classes_"):
        return label_column(model.classes_, "classes_")
    if isinstance(model, Scores):
        raise ValueError(
            f"{model!r} has no thresholds yet: give the rule of tune or calibrate, as in "
            "certify(tune(scores, X, y, limits=…), X_fresh, y_fresh)"
        )
    if given.labels is None:
        raise ValueError(
            "y is needed: the model has no classes_, and rows without labels do not show them"
        )
    return _all_labels(given.labels, np.asarray(model.predict(X)))


def _refuse_missing_labels(rates: Sequence[Rate], classes: Labels) -> None:
    """Raise if a rate needs labels, for rows without labels."""
    one_row = np.zeros(1, dtype=np.intp)
    no_groups = None
    strata, _ = Strata.of(one_row, no_groups, np.ones(1), classes, defers=True)
    for rate in rates:
        if rate.needs_labels(strata):
            raise ValueError(
                f"y is needed: {rate!r} needs labels, and no row here has one. Rates of "
                "answers alone need none: selected(…), deferred(), their gaps and ratios, by "
                "groups"
            )


def _checked_range(cost_range: Any, costs: Floats) -> tuple[float, float]:
    """Return the stated smallest and largest cost; raise ValueError if a given cost is outside this range."""
    low, high = map(float, cost_range)
    lowest = costs.min()
    highest = costs.max()
    if not low <= lowest <= highest <= high:
        raise ValueError(
            f"cost_range={cost_range!r}: the given costs range from {lowest:g} to {highest:g}"
        )
    return low, high


def _with_groups_as_pairs(strata: Strata) -> Strata:
    """Return strata in which a group of a single column is a pair, as in bounds: ("sex", "f") for "f".

    Groups of several columns are such pairs already.
    """
    if len(strata.columns) != 1:
        return strata
    (column,) = strata.columns
    (groups,) = strata.values
    pairs = tuple((column, group) for group in groups)
    return replace(strata, values=(pairs,))


def unlisted(fresh: FreshRows, families: Sequence[Any]) -> Iterator[str]:
    """Yield a note if the subgroups of a rate are not all listed: others may exist.

    ``families`` has the ``by`` of each rate: "class", a column of groups, or several of these.
    """
    if not all(map(fresh.knows, families)):
        yield (
            "The labels or groups of the population are not listed: bounds on every one, or on "
            "the worst, are about those among these rows."
        )
