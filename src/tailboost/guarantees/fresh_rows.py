"""Fresh rows of a certificate: answers, subgroups, and overlap with training rows."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
    check_answers,
    check_indexes,
    check_length,
    check_probabilities,
    check_same_kind,
    column_name,
    in_class_order,
    label_column,
    n_rows_of,
    naming_columns,
    numbered,
    positions,
    refuse_quantity,
    take,
)
from tailboost.guarantees.recheck import Claim
from tailboost.learners.scores import Scores
from tailboost.rates import Answered, Limit, Rate, Sample, Strata, error
from tailboost.rates.strata import names_in
from tailboost.rows.fingerprints import (
    EqualRows,
    Fingerprint,
    RowHashes,
    UsedRows,
    check_equal_rows,
    fingerprint_of,
    hash_rows,
    nth_of_kind,
    random_numbers,
)
from tailboost.rows.given import Given
from tailboost.rows.group_names import by_column, checked_columns, named_as, plain_list
from tailboost.rows.judged import (
    final_step,
    group_arguments,
    judged,
    label_shares,
    last_step,
)
from tailboost.rows.readers import (
    MetRows,
    reason_of_equal_rows,
    refuse_copied_labels,
    row_hashes,
)
from tailboost.rows.records import TRAINED_ON, refuse_known
from tailboost.rows.rules import refuse
from tailboost.rows.subgroups import deferral_words

#: `predict`, or the randomised rule with the label distribution `predict_distribution`.
# Whose errors are bounded; "given losses" only in the bounds of `tailboost.certify_losses`.
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
ONLY_SCORES = (
    "The rule reads scores alone, so rows with equal scores are different rows. Tables are "
    "compared by how often each score occurs: these rows agree with no earlier rows that the "
    "rule keeps more than chance explains. Among few different scores a part of a table cannot "
    "be recognised: make sure that none of these rows was used in the selection or by the "
    "model."
)
EQUAL_TO_NAMED = (
    "of these rows equal one of the training rows that the caller names (training_rows=)."
)
UNKNOWN_ROWS = (
    "The rows of the fit are not known here, so these rows are fresh as you state: none of "
    "them was used in it."
)
UNKNOWN_TRAINING_ROWS = (
    "The training rows of the model, or of a model inside, are not known. So these rows are "
    "fresh as you state: none of them was used in the training."
)
BY_CLUSTERS = (
    "Each of the {:,} clusters has one vote: in each class or group one of its rows there "
    "counts, drawn at "
    "random from a generator with a fixed seed. The bounds are about a random row of a random "
    "cluster; those "
    "of a class or group are about its rows and the clusters with such rows. Assumption: the "
    "clusters are "
    "independent draws from the population of the bounds (no later shift), and none of their "
    "rows was used "
    "to train or select the model."
)


@dataclass(frozen=True, eq=False)
class FreshRows:
    """Fresh rows, those with labels first, with the answers of a model or an array of answers."""

    answered: Answered
    model: Any = None  # which has answered; an array of answers
    rule: Rule | None = None  # the counted rule of the model; None: the one by which it answers
    # The rows and their groups as the model takes them: those with labels, and those without.
    tables: tuple[tuple[Any, Any], ...] = ()
    final: Any = None  # the classifier at the end of the model, or behind an array of answers
    rows: RowHashes | None = None  # hashes of the rows; None if only answers were given
    # Shape (m, 2), from `MetRows.counts`; None if the model keeps no fingerprints.
    repeated: Ints | None = None
    # "class", "group", ("group", column): kinds of subgroups with a complete list.
    listed: Collection[Any] = ()
    equal_rows: EqualRows = "copies"
    # Shape (n,): cluster of each row; a cluster has one vote in a subgroup.
    clusters: Ints | None = None
    n_unlabeled: int = 0  # the last rows, which have no labels
    # Shape (n,): the rows that stand for a case, see `Judged.cases`; None: all.
    cases: Mask | None = None
    # The training rows of the model, as the caller names them.
    training_rows: Fingerprint | None = None

    def __len__(self) -> int:
        return len(self.answered.stratum)

    @property
    def hashes(self) -> Hashes | None:
        """Hashes of the whole rows, shape (n,); None if only answers were given."""
        if self.rows is None:
            return None
        return self.rows.whole

    @property
    def only_scores(self) -> bool:
        """Whether the rule reads scores alone."""
        return judged(self.final).reads_scores

    @property
    def fingerprints(self) -> Fingerprint | None:
        """Fingerprints of the rows."""
        if self.hashes is None:
            return None
        return Fingerprint.from_hashes(self.hashes)

    @property
    def used(self) -> UsedRows:
        """The rows with their labels, to recognise them later; of a case with several rows only one row."""
        assert self.rows is not None
        strata = self.answered.strata
        stratum_of_labelled = self.answered.stratum[: len(self) - self.n_unlabeled]
        rows = self.rows
        if self.cases is not None:
            is_case = self.cases[: len(stratum_of_labelled)]
            stratum_of_labelled = stratum_of_labelled[is_case]
            rows = rows.taken(self.cases)
        labels = np.asarray(strata.classes)[strata.y[stratum_of_labelled]]
        return UsedRows.from_table(rows, labels)

    def n_rows_of(self, rate: Rate) -> int:
        """Return the number of rows in a rate: rows with labels if labels are needed."""
        return len(self) - self.n_unlabeled * rate.needs_labels(self.answered.strata)

    def known_among(self, before: Iterable[Fingerprint]) -> list[tuple[int, int]]:
        """Return the number of rows equal to earlier rows, and the number of rows compared.

        The fingerprints count together. Fingerprints of smaller samples are only in the first
        counts; the last counts use the most complete fingerprints. Rows equal by nature are not counted.
        """
        if self.hashes is None or self.equal_rows == "natural":
            return [(0, 0)]
        earlier = list(before)
        limits = {fingerprints.limit for fingerprints in earlier} | {Fingerprint.COMPLETE}
        counts = []
        for limit in sorted(limits):
            as_complete = [
                fingerprints for fingerprints in earlier if fingerprints.limit >= limit
            ]
            counts.append(Fingerprint.union(as_complete).count(self.hashes))
        return counts

    @cached_property
    def draws(self) -> Floats:
        """Random number of each row, shape (n,): for the votes of clusters and the order of rows.

        The numbers depend on content (or the answer if the content is not known), stratum and the rows of the
        cluster.
        """
        content = self.hashes
        if content is None:
            content = hash_rows(np.reshape(self.answered.actions, (len(self), -1)))
        stratum = self.answered.stratum
        if self.clusters is not None:
            return random_numbers(content, stratum, clusters=self.clusters)
        no_cluster = np.zeros(len(self), dtype=np.intp)
        return random_numbers(content, stratum, no_cluster)

    @property
    def opened(self) -> list[Any]:
        """The rows as the model takes them, in parts."""
        return [table for table, _ in self.tables]

    def by(self, selection: Any) -> FreshRows:
        """Return the same rows with the answers of another selection of the same candidates."""
        return self.answered_by(answering(self.model, selection))

    def answered_by(self, model: Model) -> FreshRows:
        """Return the same rows with the answers of a classifier."""
        strata = self.answered.strata
        actions = np.concatenate(
            [actions_of(model, *table, self.rule, strata) for table in self.tables]
        )
        return replace(self, answered=replace(self.answered, actions=actions), model=model)

    def predicted_by(self, model: Model) -> FreshRows:
        """Return the same rows with the answers of another model, which reads the tables of opened rows."""
        defers = judged(last_step(model)).can_defer
        strata = replace(self.answered.strata, defers=defers)
        actions = []
        for opened, groups in self.tables:
            start = 0
            for table in opened.tables:
                rows = np.arange(start, start + table.n_rows)
                actions.append(
                    actions_of(model, table.X, take(groups, rows), "predict", strata)
                )
                start += table.n_rows
        return self.with_actions(np.concatenate(actions), defers=defers)

    def with_actions(self, actions: Ints, *, defers: bool = False) -> FreshRows:
        """Return the same rows with other answers, as numbers of labels; K if a rule that defers does so."""
        strata = self.answered.strata
        strata = replace(strata, defers=strata.defers or defers)
        return replace(self, answered=replace(self.answered, strata=strata, actions=actions))

    def samples(self, rate: Rate) -> list[Sample]:
        """Return the rows of each subgroup of a rate with their values; each cluster has one vote there."""
        samples = rate.samples_of(self.answered)
        if self.clusters is None:
            return samples
        return [one_vote(sample, self.clusters, self.draws) for sample in samples]

    def are_apart(self, samples: Sequence[Sample]) -> bool:
        """Whether no row, and no cluster, is in two samples."""
        cases_by_sample = [sample.rows for sample in samples]
        if self.clusters is not None:
            cases_by_sample = [np.unique(self.clusters[rows]) for rows in cases_by_sample]
        return not cases_by_sample or bool(
            np.bincount(np.concatenate(cases_by_sample), minlength=1).max() <= 1
        )

    def compared(self, claim: Claim, samples: Sequence[Sample]) -> list[Sample] | None:
        """Return the rows of each subgroup of a claim, in random order; None if the claim has no rows.

        ``samples`` has all subgroups of the rate. For a claim about other groups the first sample
        holds the rows of all these groups.

        Raises
        ------
        ValueError
            If a cluster is in several subgroups of a comparison.
        """
        other_groups = []
        if claim.others:
            samples = self._in_one_subgroup(samples)
            other_groups = [sample for sample in samples if sample.name not in claim.subgroups]
        by_name = {sample.name: sample for sample in samples}
        names: tuple[Any, ...] = claim.subgroups
        if claim.others and claim.form == "mean":
            names = ()
        with_rows = other_groups if claim.others else by_name.keys() & set(names)
        if not with_rows:
            return None
        named = [by_name.get(name, samples[0].without_rows(name)) for name in names]
        if self.clusters is not None and not self.are_apart([*other_groups, *named]):
            raise ValueError(
                "clusters: some clusters have rows in several of the subgroups that a gap or "
                "ratio compares, or in several groups that no bound names, so that the rows of "
                "these subgroups are not independent. Give one row of each cluster"
            )
        compared = named
        if other_groups:
            compared = [other_groups[0].with_rows_of(other_groups), *named]
        return [sample.ordered(self.draws) for sample in compared]

    def _in_one_subgroup(self, samples: Sequence[Sample]) -> Sequence[Sample]:
        """Leave each row in one of its subgroups at random: a row has a group of each column."""
        rows = np.concatenate([sample.rows for sample in samples])
        distinct, row_number, counts = np.unique(rows, return_inverse=True, return_counts=True)
        if len(distinct) == len(rows):
            return samples
        n_subgroups = counts[row_number]  # of each row
        # Later digits of the draws: the first digits decide about votes and the order.
        draws = self.draws[rows] * 2.0**20 % 1.0
        drawn_subgroup = (draws * n_subgroups).astype(np.intp)
        stays = nth_of_kind(row_number, counts) == drawn_subgroup
        ends = np.cumsum([len(sample.rows) for sample in samples])
        stays_by_sample = np.split(stays, ends[:-1])
        return [
            sample.taken(mask) for sample, mask in zip(samples, stays_by_sample, strict=True)
        ]

    def knows(self, by: Any) -> bool:
        """Return whether the list of the subgroups of a rate is complete."""
        names = set(names_in(by))
        if "cell" in names:
            names = {"class", "group"}
        if "class" in names and "class" not in self.listed:
            return False
        columns = names - {None, "class"}
        has_no_known_combination = self.answered.strata.known == ()
        if len(columns) > 1 and has_no_known_combination:
            return False
        # "group": the lists of all columns are complete, also that of a single one without a name.
        return "group" in self.listed or all(("group", name) in self.listed for name in columns)

    @property
    def as_stated(self) -> bool:
        """Whether the caller alone knows that no model was trained on these rows."""
        if self.training_rows is not None:
            return False
        return self.repeated is None or not judged(self.final).records.complete

    @property
    def notes(self) -> list[str]:
        """Assumptions about the rows, and their overlap with the rows of the fit."""
        assumption = ASSUMED
        if self.clusters is not None:
            assumption = BY_CLUSTERS.format(len(np.unique(self.clusters)))
        strata = self.answered.strata
        if strata.defers:
            deferred = int((self.answered.actions == strata.n_classes).sum())
            assumption = f"{assumption} {deferral_words(deferred, len(self))}"
        if self.n_unlabeled == len(self):
            assumption = f"{assumption} None of the rows has a label."
        elif self.n_unlabeled:
            assumption = (
                f"{assumption} {self.n_unlabeled:,} of the rows have no labels: they count in "
                "rates that need none, and are draws from the same population."
            )
        overlap_with_named = []
        if self.training_rows is not None and self.hashes is not None:
            share = self.training_rows.share(self.hashes)
            overlap_with_named = [f"{_percent(share)} {EQUAL_TO_NAMED}"]
        if self.only_scores and (self.repeated is None or not self.repeated[:, 1].any()):
            return [assumption, *(overlap_with_named or [ONLY_SCORES])]
        if self.repeated is None:
            return [assumption, *(overlap_with_named or [UNKNOWN_ROWS])]
        overlap = f"{self._overlap_words()} Numbers are compared as rounded float32; labels are not compared."
        if self.equal_rows == "natural":
            overlap += (
                " According to the caller, rows are equal by nature and nobody copied a row. "
                "The number of equal rows, and their labels if the model keeps labels, do not "
                "contradict this; a few copies stay undetected."
            )
        if overlap_with_named:
            overlap += f" {overlap_with_named[0]}"
        elif self.as_stated:
            overlap += f" {UNKNOWN_TRAINING_ROWS}"
        return [assumption, overlap]

    def _overlap_words(self) -> str:
        """Return which shares of the rows equal rows of the fit that are known."""
        assert self.repeated is not None
        (n_equal, n_compared), *counts_by_selection = self.repeated.tolist()
        shares = []
        if n_compared:
            shares.append(
                f"{_percent(n_equal / n_compared)} of these rows equal a training row of the model"
            )
        selected_shares = [
            n_equal_selected / n_selected
            for n_equal_selected, n_selected in counts_by_selection
            if n_selected
        ]
        if selected_shares:
            shares.append(
                f"{_percent(max(selected_shares))} of these rows equal a row that selected the rule"
            )
        if not shares:
            return "None of these rows could be compared with a row of the fit."
        return f"{', and '.join(shares)}."


def _percent(share: float) -> str:
    """Return a share in percent; NaN if a sample of the known rows has none that could be compared."""
    if np.isnan(share):
        return "None"
    return f"{100 * share:.3g} %"


def _in_form_of(X: Table, training_rows: Table) -> Any:
    """Return named training rows as a table with the columns of ``X``; raise if columns differ."""
    table = as_table(training_rows)
    rows = as_table(X)
    if hasattr(table, "columns") and hasattr(rows, "columns"):
        in_one_alone = sorted({*map(str, table.columns)} ^ {*map(str, rows.columns)})
        if in_one_alone:
            raise ValueError(
                f"training_rows: the column {in_one_alone[0]!r} is in training_rows or in X alone"
            )
        table = table[rows.columns]
    if table.shape[1:] != rows.shape[1:]:
        raise ValueError(
            f"training_rows has the shape {table.shape}, X {rows.shape}: columns must be the "
            "same"
        )
    if isinstance(training_rows, Mapping):
        return training_rows
    return table


def one_vote(sample: Sample, clusters: Ints, draws: Floats) -> Sample:
    """Return one random row of each cluster, in the order of the rows.

    Parameters
    ----------
    sample : Sample
    clusters, draws : ndarray of shape (n,)
        Cluster and random number of all rows.
    """
    if not len(sample.rows):
        return sample
    cluster = clusters[sample.rows]
    order = np.lexsort((draws[sample.rows], cluster))
    is_first_of_cluster = np.r_[True, np.diff(cluster[order]) > 0]
    return sample.taken(np.sort(order[is_first_of_cluster]))


# -- answers -----------------------------------------------------------------------------------------------


def answering(model: Model, selection: Any, limits: Sequence[Limit] = ()) -> Any:
    """Return the classifier that answers by a selection of the same candidates, with its stated limits."""
    view = judged(model)
    if view.takes_limits:
        return view.answering(selection, limits)
    return copy.copy(selection.classifier)


def answers_of(model: Model, X: Table, rule: Rule, groups: Groups = None) -> Any:
    """Return the labels predicted by a model, or its label distribution."""
    # Pipelines and searches pass groups on only on request.
    group_argument = group_arguments(last_step(model), groups)
    if group_argument:
        model, X = final_step(model, X)
    if rule == "predict":
        with naming_columns(model, X):
            answers = np.asarray(model.predict(X, **group_argument))
        if not judged(model).has_records:
            check_answers(answers, f"predict of {type(model).__name__}", X)
        return answers[:, 0] if answers.shape[1:] == (1,) else answers  # CatBoost: shape (n, 1)
    return label_shares(model, X, **group_argument)


def actions_of(
    model: Model, X: Table, groups: Groups, rule: Rule | None, strata: Strata
) -> Any:
    """Return the number of the answer to each row, shape (n,), or of a randomised rule its shares, (n, K).

    The rule None is the one by which the model answers. A label distribution does not show how often a row
    is deferred.
    """
    if rule is None and judged(model).draws:
        rule = "randomised"
    if rule == "randomised" and not strata.defers:
        return answers_of(model, X, rule, groups)
    classes = np.asarray(strata.classes)
    answers = label_column(answers_of(model, X, "predict", groups), "answers")
    actions = positions(answers, classes, "answers")
    if not strata.defers:
        return actions
    final, rows = final_step(model, X)
    defers = final.defers(rows, **group_arguments(final, groups))
    return np.where(defers, strata.n_classes, actions)


def _given_answers(model: Any, given: Given, rates: Sequence[Rate]) -> tuple[Labels, Labels]:
    """Return the predicted labels of an array of answers, and all labels.

    Without rows with labels all labels are listed.
    """
    given.refuse("array of answers", details={"model": type(model).__name__})
    for rate in rates:
        if rate.counts_deferral:
            given.refuse("array of answers", "rate of deferral", details={"rate": rate})
    listed_labels = given.listed[0]
    if given.labels is None:
        answers = listed_labels[:0]
        classes = np.unique(listed_labels)
    else:
        answers, classes = _given_labels(model, given.labels, listed_labels)
    if given.answers_unlabeled is not None:
        answers = np.concatenate([answers, given.answers_unlabeled])
    return answers, classes


def _given_labels(
    model: Model, y: Labels, listed_labels: Labels | None
) -> tuple[Labels, Labels]:
    """Return the predicted labels from an array of labels or probabilities, and all labels."""
    array = np.asarray(model)
    if array.ndim == 2:
        classes = _all_labels(y, y, listed_labels)
        array = np.asarray(in_class_order(model, "model", classes))
        if array.shape[1] != len(classes):
            raise ValueError(
                f"model has a column of probabilities for each of {array.shape[1]} labels, y "
                "has "
                f"{len(classes)}; give the predicted labels instead, or all labels: "
                f"subgroups={{'class': …}}"
            )
        return classes[check_probabilities(array, len(y), "model", "y").argmax(axis=1)], classes
    if array.ndim != 1:
        raise ValueError(
            "model must be a fitted classifier, an array of n labels or of (n, K) "
            f"probabilities, got shape {array.shape}"
        )
    if array.dtype.kind == "f" and y.dtype.kind in "biuf":
        other_numbers = array[(array != np.floor(array)) & ~np.isin(array, y)]
        if len(other_numbers):
            raise ValueError(
                f"model holds numbers such as {other_numbers[0]:g}, which are not labels of y. "
                "If they are probabilities, give labels, or probabilities of shape (n, K) with "
                "a column for each label"
            )
    answers = label_column(array, "model")
    check_length(answers, "model", len(y), "y")
    return answers, _all_labels(y, answers, listed_labels)


def _all_labels(y: Labels, answers: Labels, listed_labels: Labels | None) -> Labels:
    """Return the labels of rows and answers, and the listed ones."""
    check_same_kind(answers, "model", y, "y")
    labels = np.concatenate([y, answers])
    if listed_labels is not None:
        check_same_kind(listed_labels, "subgroups", y, "y")
        labels = np.concatenate([labels, listed_labels])
    return np.unique(labels)


# -- subgroups ---------------------------------------------------------------------------------------------


def groups_of_fit(model: Model) -> list[Any]:
    """Return the names of the groups of a classifier's fit, if any."""
    return plain_list(judged(model).groups)


def listed_groups(
    final: Model, callers_list: Sequence[Any] | None, columns: Mapping[Any, Labels]
) -> tuple[dict[Any, list[Any]], set[Any], tuple[tuple[Any, ...], ...] | None]:
    """Return the groups of the population, from the caller's list or from the fit.

    They are the groups by column, what is listed completely (as `FreshRows.listed`), and the known
    combinations; None for all combinations of the groups. A column of the fit counts if one of its groups
    occurs.
    """
    groups_by_column = by_column(groups_of_fit(final) if callers_list is None else callers_list)
    columns_of_fit = list(groups_by_column)
    if len(groups_by_column) == len(columns) == 1 and None in {*groups_by_column, *columns}:
        # The only column, without a name.
        groups_by_column = dict(zip(columns, groups_by_column.values(), strict=True))
    if callers_list is not None:
        return groups_by_column, {"group", *(("group", column) for column in columns)}, None
    occurring = {
        name: groups_by_column[name]
        for name in columns
        if not set(groups_by_column.get(name, ())).isdisjoint(columns[name].tolist())
    }
    listed: set[Any] = {("group", column) for column in occurring}
    if not columns or list(occurring) != list(columns):
        return occurring, listed, ()
    listed.add("group")
    if len(columns) == 1:
        return occurring, listed, None
    column_numbers = [columns_of_fit.index(column) for column in columns]
    rows = judged(final).group_combinations
    combinations = {tuple(row[j] for j in column_numbers) for row in rows}
    return occurring, listed, tuple(sorted(combinations, key=repr))


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
) -> FreshRows:
    """Return rows with the answers of a model, or of an array.

    Parameters
    ----------
    model : classifier or array
        As in `certify`.
    given : Given
        The rows, apart by `Given.with_and_without_labels`.
    rates : sequence of Rate
        What will be counted.
    rule : {"predict", "randomised"}, optional
        The rule that answers; by default the one of the model.
    errors : bool, default=False
        Whether errors of all kinds are counted, whose subgroups have names of their own: a group of a column
        is a pair (column, value), and groups without rows are there only if all groups are listed.
    fitted : classifier, optional
        The classifier behind an array of answers, if known.
    opens : bool, default=False
        Whether the model opens the rows: its models then answer once for all rules.

    Raises
    ------
    LeakageError
        If the model knows the rows from its fit.
    ValueError
        If an argument is not as in `certify`.
    """
    check_equal_rows(given.equal_rows)
    check_indexes(X=given.X, y=given.y, model=model, **given.by_row)
    is_model = hasattr(model, "predict")
    titles = judged(model if is_model else fitted).group_titles
    named_groups = {
        name: named_as(getattr(given, name), titles) for name in ("groups", "groups_unlabeled")
    }
    given = replace(given, **named_groups)
    _refuse_missing_data(given, rates)
    listed_labels = given.listed[0]
    if is_model:
        final = last_step(model)
        classes = _classes_of(model, given)
        if hasattr(model, "classes_"):
            listed_labels = classes
        equal_rows = reason_of_equal_rows(judged(final), given.equal_rows)
    else:
        final = fitted
        answers, classes = _given_answers(model, given, rates)
        equal_rows = given.equal_rows
    training_rows = _named_training_rows(model, given)
    if given.labels is None:
        _refuse_missing_labels(rates, classes)

    # The rows with labels, then those without, each with groups as the model takes them.
    tables: list[tuple[Any, Any]] = []
    columns: list[dict[Any, Labels]] = []
    met = MetRows()
    labels = classes[:0]
    if given.labels is not None:
        labels = given.labels
        if is_model:
            met = _met_labelled(model, given, classes, training_rows, equal_rows)
        tables.append((given.X, given.groups))
        columns.append(given.columns)
    n_unlabeled = 0
    if given.has_unlabeled:
        X, unlabeled_columns, met_unlabeled = _unlabeled(model, final, given, met)
        if is_model:
            _refuse_known(met_unlabeled, final, training_rows, equal_rows, "X_unlabeled")
            met = met.beside(met_unlabeled)
            n_unlabeled = len(met_unlabeled.rows)
        else:
            n_unlabeled = len(answers) - len(labels)
        unlabeled_groups: Any = None
        if unlabeled_columns:
            # The groups of a single column without a name are an array.
            unlabeled_groups = unlabeled_columns.get(None, unlabeled_columns)
        tables.append((X, unlabeled_groups))
        columns.append(unlabeled_columns)
        # Any label: `without_labels` takes it away.
        labels = np.concatenate([labels, np.repeat(classes[:1], n_unlabeled)])
    groups = tables[0][1]
    if len(tables) > 1 and columns[0]:
        groups = _joined_groups(given.groups, columns)
    clusters = None
    if given.clusters is not None:
        clusters = numbered(given.clusters, "clusters", given.n_labels)

    # The groups of the population, and the answers.
    groups_by_column, listed_kinds, combinations = listed_groups(
        final, given.listed[1], columns[0]
    )
    if listed_labels is not None:
        listed_kinds.add("class")
    is_deferred = given.deferred
    if is_model:
        # Any answers: `answered_by` replaces them.
        answers = np.repeat(classes[:1], len(labels))
        if judged(final).can_defer:
            is_deferred = np.zeros(len(labels), dtype=bool)
        elif not errors:
            _refuse_deferral(rates, final)
        if opens:
            view = judged(model)
            tables = [(view.opened(X, groups_of_X), groups_of_X) for X, groups_of_X in tables]
    answered = Answered.from_arrays(
        labels,
        answers,
        groups=groups,
        deferred=is_deferred,
        costs=given.costs if any(rate.needs_costs for rate in rates) else None,
        labels=classes,
        # A "worst" error seen is about the groups among these rows.
        known={} if errors and "group" not in listed_kinds else groups_by_column,
    )
    if n_unlabeled:
        answered = answered.without_labels(n_unlabeled)
    answered = replace(answered, strata=replace(answered.strata, known=combinations))
    groups_are_pairs = errors and None not in columns[0]
    fresh = FreshRows(
        _for_bounds(answered, given.cost_range, pairs=groups_are_pairs),
        model,
        rule,
        tuple(tables),
        final,
        listed=listed_kinds,
        equal_rows=equal_rows,
        clusters=clusters,
        n_unlabeled=n_unlabeled,
        training_rows=training_rows,
    )
    if not is_model:
        return fresh
    repeated = met.counts if len(met.counts) else None
    return replace(fresh, rows=met.rows, cases=met.cases, repeated=repeated).answered_by(model)


def _named_training_rows(model: Model, given: Given) -> Fingerprint | None:
    """Return the fingerprint of the training rows that the caller names, in the form of the fresh rows."""
    if given.training_rows is None:
        return None
    fresh_table = given.X_unlabeled if given.labels is None else given.X
    return fingerprint_of(
        given.training_rows,
        lambda rows: row_hashes(model, _in_form_of(fresh_table, rows)).whole,
    )


def _met_labelled(
    model: Model,
    given: Given,
    classes: Labels,
    training_rows: Fingerprint | None,
    equal_rows: EqualRows,
) -> MetRows:
    """Return how a classifier meets the rows with labels; raise if it knows them, or no label."""
    final, table = final_step(model, given.X)
    labels = given.labels
    assert labels is not None
    check_same_kind(labels, "y", classes, "classes_ of the model")
    if not np.isin(labels, classes).any():
        refuse_quantity(labels)
    hashes = row_hashes(model, given.X)
    met = MetRows.from_table(final, hashes, table, labels, is_whole=final is model)
    _refuse_known(met, final, training_rows, equal_rows, "X")
    y = positions(labels, classes, "y")
    if equal_rows == "natural":
        refuse_copied_labels(judged(final), table, y)
    return met


def _joined_groups(groups: Groups, columns: Sequence[dict[Any, Labels]]) -> Any:
    """Return the groups of rows with labels, then of those without; a single column keeps its name."""
    joined = {name: np.concatenate([part[name] for part in columns]) for name in columns[0]}
    if None not in joined:
        return joined
    title = column_name(groups)
    if title is None:
        return joined[None]
    return {title: joined[None]}


def _refuse_deferral(rates: Sequence[Rate], final: Model) -> None:
    """Raise if a rate counts deferred rows, of a classifier that defers none."""
    for rate in rates:
        if rate.needs_deferral:
            raise ValueError(f"{rate!r}: this {type(final).__name__} defers no row")


def _refuse_missing_data(given: Given, rates: Sequence[Rate]) -> None:
    """Raise if rates need groups or costs that are not given."""
    for rate in rates:
        details = {"rate": rate}
        if rate.needs_groups:
            refuse("certificate", "rate of groups", details=details, groups=given.any_groups)
        if rate.needs_costs:
            given.refuse("certificate", "rate of costs", details=details)


def _classes_of(model: Model, given: Given) -> Labels:
    """Return the classes of a classifier, of another library perhaps those of rows and answers."""
    X = given.X_unlabeled if given.labels is None else given.X
    refuse("classifier", X=X, deferred=given.deferred)
    if given.labels is not None:
        check_length(given.labels, "y", n_rows_of(X))
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
    return _all_labels(given.labels, np.asarray(model.predict(X)), given.listed[0])


def _refuse_known(
    met: MetRows,
    final: Model,
    training_rows: Fingerprint | None,
    equal_rows: EqualRows,
    name: str,
) -> None:
    """Raise if rows are training rows that the caller names, or a classifier used them."""
    if training_rows is not None:
        counts = training_rows.count(met.rows.whole)
        refuse_known(training_rows, TRAINED_ON, *counts, equal_rows, name)
    met.refuse(final, equal_rows, name)


def _refuse_missing_labels(rates: Sequence[Rate], classes: Labels) -> None:
    """Raise if no row has a label and a rate needs labels; the message says of which rows."""
    one_row = np.zeros(1, dtype=np.intp)
    strata, _ = Strata.of(one_row, None, np.ones(1), classes, defers=True)
    for rate in rates:
        if not rate.needs_labels(strata):
            continue
        in_denominator = rate.tables(strata)[1] != 0
        has_label = in_denominator.any(axis=1)
        has_answer = in_denominator.any(axis=0)[: strata.n_classes]
        rows_in_words = "all rows"
        for has_part, kind_of_rows in (
            (has_label, "rows with the label"),
            (has_answer, "rows with the answer"),
        ):
            if not has_part.all():
                rows_in_words = (
                    f"{kind_of_rows} {', '.join(map(repr, classes[has_part].tolist()))}"
                )
                break
        raise ValueError(
            f"y is needed: {rate!r} needs the labels of {rows_in_words}, and no row here has a "
            "label. Rates of answers alone need none: selected(…), deferred(), their gaps and "
            "ratios, by groups"
        )


def not_among(labelled: RowHashes, unlabeled: RowHashes) -> Mask:
    """Return a mask of the rows without labels that are not among the rows with labels.

    Raises
    ------
    ValueError
        If there is no such row.
    """
    is_new: Mask = ~unlabeled.copied_from(labelled)
    if not is_new.any():
        raise ValueError(
            "X_unlabeled: there is no row, or all rows are among the rows with labels"
        )
    return is_new


def _unlabeled(
    model: Model, final: Model, given: Given, labelled: MetRows
) -> tuple[Table, dict[Any, Labels], MetRows]:
    """Return the rows without labels, without copies of labelled rows, and how the model meets them."""
    X = given.X_unlabeled
    groups = given.groups_unlabeled
    check_indexes(X_unlabeled=X, groups_unlabeled=groups)
    n = n_rows_of(X if given.answers_unlabeled is None else given.answers_unlabeled)
    columns = checked_columns(groups, "groups_unlabeled", n, "X_unlabeled")
    if columns and given.has_labels:
        names = _column_names(groups, columns)
        labelled_names = _column_names(given.groups, given.columns)
        one_has_no_name = len(names) == len(labelled_names) and [None] in (
            names,
            labelled_names,
        )
        if set(names) != set(labelled_names) and not one_has_no_name:
            raise ValueError(
                f"groups_unlabeled has the columns {names}, groups has {labelled_names}"
            )
        if len(names) == 1:
            columns = dict(zip(given.columns, columns.values(), strict=True))
    if given.answers_unlabeled is not None:
        return X, columns, MetRows()
    _, table = final_step(model, X)
    rows = row_hashes(model, X)
    # A classifier whose cases have several rows has left out copies before.
    if judged(final).cases(table) is None:
        new = np.flatnonzero(not_among(labelled.rows, rows))
        table = take(table, new)
        X = take(X, new)
        rows = rows.taken(new)
        columns = {name: values[new] for name, values in columns.items()}
    return X, columns, MetRows.from_table(final, rows, table)


def _column_names(groups: Groups, columns: Mapping[Any, Labels]) -> list[Any]:
    """Return the names of the columns of groups; of a single array its own name, or None."""
    if list(columns) == [None]:
        return [column_name(groups)]
    return list(columns)


def _for_bounds(answered: Answered, cost_range: Any, *, pairs: bool) -> Answered:
    """Return rows with the range of their costs, and groups as bounds name them.

    With ``pairs``, a group of a single column is a pair (column, value).
    """
    strata = answered.strata
    if answered.costs is not None:
        low, high = map(float, cost_range)
        lowest = answered.costs.min()
        highest = answered.costs.max()
        if not low <= lowest <= highest <= high:
            raise ValueError(
                f"cost_range={cost_range!r}: the given costs range from {lowest:g} to {highest:g}"
            )
        strata = replace(strata, cost_range=(low, high))
    if pairs and len(strata.columns) == 1:
        (column,) = strata.columns
        (groups,) = strata.values
        strata = replace(strata, values=(tuple((column, group) for group in groups),))
    return replace(answered, strata=strata)
