"""`Fresh`: the rows that certify, with the answers of a rule, their subgroups, and votes of clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tailboost.core.array_types import Groups, Hashes, Ints, Labels, Model, Table
from tailboost.core.checks import (
    as_table,
    check_indexes,
    check_length,
    check_probabilities,
    check_same_kind,
    in_class_order,
    label_column,
    n_rows_of,
    numbered_clusters,
    positions,
)
from tailboost.learners.scores import Scores
from tailboost.rates import Counts, Rate, Sample, Strata, deferred
from tailboost.rows.fingerprints import (
    hash_rows,
    hashes_of_pairs,
    random_numbers,
)
from tailboost.rows.judged import (
    final_step,
    group_arguments,
    judged,
    last_step,
    predicted_labels,
    row_hashes,
)
from tailboost.rows.rows import Given
from tailboost.rows.seen import (
    CALIBRATED_ON,
    TRAINED_ON,
    EqualRows,
    Seen,
    checked_equal_rows,
    refuse_copied,
    refuse_repeated,
)
from tailboost.rows.subgroups import by_column, deferral_words, named_as

ASSUMED = (
    "Assumption: the rows are independent draws from the population of the bounds (no repeated measurements "
    "of one person, no later shift), and no row was used to train or select the model."
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
    "Each of the {:,} clusters has one vote in a class or group: one of its rows there counts, drawn at "
    "random by the hash of its content (if rows may be deferred, one of its rows counts everywhere). The "
    "bounds are about such rows. Assumption: the clusters are independent draws from the population of the "
    "bounds (no later shift), and none of their rows was used to train or select the model."
)


@dataclass(frozen=True, eq=False)
class Fresh:
    """Fresh rows with the answers of a model, or an array of answers.

    Attributes
    ----------
    answered : Counts
        Stratum and answer of each row.
    model : classifier
        The model that has answered; None for an array.
    table, groups : object
        The rows as the model takes them, and their groups.
    hashes : ndarray of shape (n,)
        Hashes of the rows; None for an array.
    draws : ndarray of shape (n,)
        Random number in [0, 1) of each row, for the votes of clusters and the order of rows. It depends on
        what the classifier at the end of a pipeline reads, or else on the answer, on the stratum of the row,
        and on the rows of its cluster. So the order of rows has no effect.
    compared : bool
        Whether the rows were compared with all rows that trained the model.
    equal_rows : {"copies", "natural"}
        As in `tailboost.certify`.
    clusters : ndarray of shape (n,)
        Cluster of each row; a cluster has one vote in a subgroup. None: each row has a vote.
    """

    answered: Counts
    model: Any = None
    table: Any = None
    groups: Groups = None
    hashes: Hashes | None = None
    draws: Any = None
    compared: bool = False
    equal_rows: EqualRows = "copies"
    clusters: Ints | None = None
    _samples: dict[Rate, list[Sample]] = field(init=False, default_factory=dict)

    @classmethod
    def of(cls, model: Any, given: Given, rates: Sequence[Rate] = ()) -> Fresh:
        """Return given rows with the answers of a model, compared with the rows of its fit, or of an array.

        Parameters
        ----------
        model, given
            As in `tailboost.certify`.
        rates : sequence of Rate
            The rates to count.

        Raises
        ------
        LeakageError
            If the model knows the rows from its fit.
        ValueError
            If an argument is not as described.
        """
        is_model = hasattr(model, "predict")
        reader = judged(model)
        check_indexes(X=given.X, y=given.y, model=model, deferred=given.deferred)
        groups = named_as(reader._groups_of(given.X, given.groups), reader._group_titles)
        given = replace(given, groups=groups)
        if is_model:
            classes = _classes_of(model, given)
            answers = np.repeat(classes[:1], n_rows_of(given.X))  # any, until the model answers
            if reader._can_defer:
                given = replace(given, deferred=np.zeros(len(answers), dtype=bool))
        else:
            answers, classes = _given_answers(model, given)
        for rate in rates:
            _refuse_unknown(rate, model, given)
        answered = _answered(given, answers, classes, reader, rates)
        equal_rows = checked_equal_rows(given.equal_rows or reader._equal_rows)
        table = hashes = None
        stratum = answered.stratum.astype(np.uint64)
        content = hash_rows(answered.actions[:, None])
        compared = False
        if is_model:
            hashes = row_hashes(model, given.X)
            content, compared = _compared(model, given, hashes, equal_rows)
            # Equal scores are different rows also without a statement, but not if all rows are copied.
            if equal_rows != "natural" and given.clusters is None:
                refuse_copied("X", hashes_of_pairs(hashes, stratum))
            # The models of a classifier answer once for all its rules.
            table = reader._opened(given.X, groups) if reader is model else given.X
            actions = _actions(model, table, groups, answered.strata)
            answered = replace(answered, actions=actions)
        clusters = numbered_clusters(given.clusters, len(given.labels))
        return cls(
            answered,
            model if is_model else None,
            table,
            groups,
            hashes,
            random_numbers(hashes_of_pairs(content, stratum), clusters),
            compared,
            equal_rows,
            clusters,
        )

    def __len__(self) -> int:
        return len(self.answered.stratum)

    @property
    def n_clusters(self) -> int | None:
        """Number of clusters; None if each row has a vote."""
        return None if self.clusters is None else len(np.unique(self.clusters))

    @property
    def only_scores(self) -> bool:
        """Whether the rule reads scores alone."""
        return bool(judged(self.model)._reads_scores)

    @property
    def used(self) -> Seen:
        """The rows, to recognise them later; scores are known by their labels too."""
        assert self.hashes is not None
        labels = None
        if self.only_scores:
            strata = self.answered.strata
            labels = np.asarray(strata.classes)[strata.y[self.answered.stratum]]
        return Seen.of(self.hashes, CALIBRATED_ON, labels)

    @property
    def n_deferred(self) -> int:
        """Number of deferred rows; 0 for answers that never defer."""
        strata = self.answered.strata
        return int(strata.defers and (self.answered.actions == strata.n_classes).sum())

    # -- answers ---------------------------------------------------------------------------------------

    def by(self, selection: Any) -> Fresh:
        """Return the same rows with the answers of another selection of the same candidates."""
        model = judged(self.model)._answering(selection)
        actions = _actions(model, self.table, self.groups, self.answered.strata)
        return replace(self.with_actions(actions), model=model)

    def with_actions(self, actions: Ints) -> Fresh:
        """Return the same rows with other answers, as numbers of labels; K is deferral."""
        return replace(self, answered=replace(self.answered, actions=actions))

    # -- subgroups and votes ---------------------------------------------------------------------------

    def samples(self, rate: Rate) -> list[Sample]:
        """Return the rows of each subgroup of a rate with their values; a cluster has one vote there at most.

        They are counted once for each rate.
        """
        if rate not in self._samples:
            samples = rate.samples(self.answered)
            if self.clusters is not None:
                samples = [s.taken(np.isin(s.rows, self.voters(s.rows))) for s in samples]
            self._samples[rate] = samples
        return self._samples[rate]

    def deferred_shares(self, rate: Rate) -> dict[Any, float]:
        """Return the share of deferred rows in each subgroup of a rate; empty without such rows."""
        if not self.n_deferred or rate.counts_deferral:
            return {}
        return {sample.name: sample.mean for sample in self.samples(deferred(by=rate.by))}

    def voters(self, rows: Ints) -> Ints:
        """Return the rows with a vote among some rows, ascending: one random row of each cluster.

        If rules may defer, only the same row of a cluster may have a vote everywhere: then rows with votes
        are independent for limits on errors and on deferral together.
        """
        if self.clusters is None:
            return rows
        among = np.arange(len(self)) if self.answered.strata.defers else rows
        by_draw = among[np.argsort(self.draws[among], kind="stable")]
        _, first = np.unique(self.clusters[by_draw], return_index=True)
        return rows[np.isin(rows, by_draw[first])]

    def are_apart(self, samples: Sequence[Sample]) -> bool:
        """Whether no row, and no cluster, is in two samples: then the samples are independent."""
        units = [sample.rows for sample in samples]
        if self.clusters is not None:
            units = [np.unique(self.clusters[rows]) for rows in units]
        return bool((np.bincount(np.concatenate(units)) < 2).all())

    # -- words -----------------------------------------------------------------------------------------

    @property
    def notes(self) -> list[str]:
        """The assumption about the rows, and their comparison with the rows of the fit, as sentences."""
        strata = self.answered.strata
        assumption = ASSUMED
        if self.clusters is not None:
            assumption = BY_CLUSTERS.format(self.n_clusters)
        if strata.defers:
            assumption += f" {deferral_words(self.n_deferred, len(self))}"
        compared = COMPARED
        if self.only_scores:
            compared = ONLY_SCORES
        elif self.equal_rows == "natural":
            compared = EQUAL_BY_NATURE
        if not self.compared:
            compared += f" {UNKNOWN_TRAINING_ROWS}"
        return [assumption, compared]


def _actions(model: Model, X: Table, groups: Groups, strata: Strata) -> Ints:
    """Return the number of the answer of ``predict`` to each row, shape (n,); K for a deferred row."""
    classes = np.asarray(strata.classes)
    reader = judged(model)
    if reader is model:  # not a pipeline or a search
        numbers = reader._numbered_answers(X, groups, classes, defers=strata.defers)
        if numbers is not None:
            return np.asarray(numbers)
    final, rows = final_step(model, X)
    of_groups = group_arguments(final, groups)
    if of_groups:  # pipelines and searches pass groups on only on request
        model, X = final, rows
    answers = predicted_labels(model, X, **of_groups)
    if reader.records_ is None:
        check_length(answers, f"predict of {type(model).__name__}", n_rows_of(X))
    if answers.shape[1:] == (1,):  # CatBoost: shape (n, 1)
        answers = answers[:, 0]
    actions = positions(label_column(answers, "answers"), classes, "answers")
    if strata.defers:
        actions = np.where(final.defers(rows, **of_groups), strata.n_classes, actions)
    return actions


def _refuse_unknown(rate: Rate, model: Any, given: Given) -> None:
    """Raise ValueError for a rate that needs groups, costs, labels or deferral that are not known."""
    is_model = hasattr(model, "predict")
    if rate.needs_groups and given.groups is None:
        raise ValueError(
            f"groups is needed: {rate!r} needs groups; give groups=, with an entry for each row"
        )
    if rate.needs_costs and (given.costs is None or given.cost_range is None):
        raise ValueError(
            f"{rate!r} is a mean of costs by row: only certify bounds it, with costs= and "
            "cost_range=(smallest, largest) possible cost of any answer to any row"
        )
    if given.deferred is None and not is_model and rate.counts_deferral:
        raise ValueError(
            "deferred is needed: an array of answers does not show deferred rows; give deferred=, a mask "
            "that is True for a deferred row"
        )
    if given.deferred is None and rate.needs_deferral:
        raise ValueError(
            f"{rate!r}: this {type(last_step(model)).__name__} defers no row; tailboost.tune with this limit "
            "gives a rule that may"
        )


def _answered(
    given: Given, answers: Labels, classes: Labels, reader: Any, rates: Sequence[Rate]
) -> Counts:
    """Return rows with answers as numbers, in strata that also have the groups of the fit without rows.

    A column of the fit counts if one of its groups occurs among the rows, and the combinations of several
    columns of the fit if all of them count. ``reader`` is the view of the classifier.
    """
    columns = given.columns
    of_fit = by_column(reader.groups_)
    if len(of_fit) == len(columns) == 1:  # a single column needs no name
        of_fit = dict(zip(columns, of_fit.values(), strict=True))
    known = {
        name: of_fit[name]
        for name, column in columns.items()
        if not set(of_fit.get(name, ())).isdisjoint(np.unique(column).tolist())
    }
    positions(np.unique(given.labels), classes, "y")
    answered = Counts.answered(
        given.labels,
        answers,
        groups=given.groups,
        deferred=given.deferred,
        costs=given.costs if any(rate.needs_costs for rate in rates) else None,
        labels=classes,
    )
    combinations: Any = ()
    if known and len(known) == len(columns):
        numbers = [list(of_fit).index(name) for name in columns]
        found = {tuple(each[j] for j in numbers) for each in reader.group_combinations_}
        combinations = tuple(sorted(found, key=repr)) if len(columns) > 1 else None
    own = zip(columns, answered.strata.values, strict=True)
    values = [(*dict.fromkeys((*groups, *known.get(name, ()))),) for name, groups in own]
    strata = replace(answered.strata, values=tuple(values), known=combinations)
    if answered.costs is not None:
        low, high = map(float, given.cost_range)
        if not low <= answered.costs.min() <= answered.costs.max() <= high:
            raise ValueError(
                f"cost_range={given.cost_range!r}: the given costs range from {answered.costs.min():g} to "
                f"{answered.costs.max():g}"
            )
        strata = replace(strata, cost_range=(low, high))
    return replace(answered, strata=strata)


def _given_answers(answers: Any, given: Given) -> tuple[Labels, Labels]:
    """Return the labels of an array of answers, given in the place of a model, and all labels.

    Raise ValueError for probabilities without a column for each label, and for numbers that are no labels.
    """
    if given.training_rows is not None:
        raise ValueError(
            "training_rows: model is an array of answers, so there are no rows to compare"
        )
    if given.X is not None:
        raise ValueError(
            f"X must be None if model is an array of answers, got {type(answers).__name__}. Of a classifier "
            "the order is (model, X, y)"
        )
    y = given.labels
    array = np.asarray(answers)
    classes = np.unique(y)
    if array.ndim == 2:
        array = np.asarray(in_class_order(answers, "model", classes))
        if array.shape[1] != len(classes):
            raise ValueError(
                f"model has a column of probabilities for each of {array.shape[1]} labels, y has "
                f"{len(classes)}; give the predicted labels instead"
            )
        return classes[check_probabilities(array, len(y), "model", "y").argmax(axis=1)], classes
    is_fraction = array.dtype.kind == "f" and y.dtype.kind in "biuf"
    if is_fraction and ((array != np.floor(array)) & ~np.isin(array, y)).any():
        raise ValueError(
            "model holds numbers that are not labels of y. If they are probabilities, give labels, or "
            "probabilities of shape (n, K) with a column for each label"
        )
    labels = label_column(array, "model")
    check_length(labels, "model", len(y), "y")
    return labels, _all_labels(y, labels)


def _all_labels(y: Labels, answers: Labels) -> Labels:
    """Return all labels of rows and answers, sorted."""
    check_same_kind(answers, "model", y, "y")
    return np.unique(np.concatenate([y, answers]))


def _classes_of(model: Model, given: Given) -> Labels:
    """Return the classes of a classifier; of one without ``classes_`` the labels of rows and answers."""
    if given.deferred is not None:
        raise ValueError(
            "deferred goes with an array of answers: a classifier knows its deferred rows"
        )
    if given.X is None:
        raise ValueError("X is needed: model is a classifier")
    check_length(given.labels, "y", n_rows_of(given.X), "X")
    if hasattr(model, "classes_"):
        return label_column(model.classes_, "classes_")
    if isinstance(model, Scores):
        raise ValueError(
            f"{model!r} has no thresholds yet: give the rule of tune or calibrate, as in "
            "certify(tune(scores, X, y, limits=…), X_fresh, y_fresh)"
        )
    return _all_labels(given.labels, np.asarray(model.predict(given.X)))


def _compared(
    model: Model, given: Given, hashes: Hashes, equal_rows: EqualRows
) -> tuple[Hashes, bool]:
    """Return hashes of what the last step reads, and `Fresh.compared`; refuse rows that were used before."""
    final, table = final_step(model, given.X)
    read = hashes if final is model else row_hashes(final, table)
    compared = given.training_rows is not None
    if compared:
        trained = row_hashes(model, _in_form_of(given.X, given.training_rows))
        refuse_repeated(Seen.of(hashes), [Seen.of(trained, TRAINED_ON)], equal_rows)
    records = judged(final).records_
    if records is not None:
        if records.tables:
            records.refuse(read, given.labels, equal_rows)
        compared = compared or records.complete
    return read, compared


def _in_form_of(X: Table, training_rows: Table) -> Any:
    """Return training rows with their columns in the order of ``X``; raise ValueError for other columns."""
    table = as_table(training_rows)
    rows = as_table(X)
    if hasattr(table, "columns") and hasattr(rows, "columns"):
        table = table[[name for name in rows.columns if name in table.columns]]
    if table.shape[1:] != rows.shape[1:]:
        raise ValueError(
            f"training_rows has {table.shape[1:]} columns of X, which has {rows.shape[1:]}: give all of them"
        )
    return training_rows if isinstance(training_rows, Mapping) else table  # read by name
