"""`Fresh`: the rows that certify, with the answers of a rule, their subgroups, and votes of clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats, Groups, Hashes, Ints, Labels, Model, Table
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
from tailboost.rates import Answered, Rate, Sample, Strata
from tailboost.rows.fingerprints import (
    hash_rows,
    hashes_of_names,
    hashes_of_pairs,
    random_numbers,
)
from tailboost.rows.given import Given
from tailboost.rows.judged import (
    final_step,
    group_arguments,
    judged,
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
    "Each of the {:,} clusters has one vote: {}, drawn at random by the hash of its content. The "
    "bounds are about a random row of a random cluster; those of a class or group are about {}. Assumption: "
    "the clusters are independent draws from the population of the bounds (no later shift), and none of "
    "their rows was used to train or select the model."
)
VOTES = (
    "in each class or group one of its rows there counts",
    "its rows and the clusters with such rows",
)
VOTES_BESIDE_DEFERRAL = (
    "one of its rows counts, also in its class and group",
    "such rows in it",
)


@dataclass(frozen=True, eq=False)
class Fresh:
    """Fresh rows with the answers of a model, or an array of answers.

    Attributes
    ----------
    answered : Answered
        Stratum and answer of each row.
    model : classifier
        The model that has answered; None for an array.
    table, groups : object
        The rows as the model takes them, and their groups.
    hashes, read : ndarray of shape (n,)
        Hashes of the rows, and of what the classifier at the end of a pipeline reads: random numbers depend
        on these, so they are the same for the pipeline and its classifier. None for an array.
    compared : bool
        Whether the rows were compared with all rows that trained the model.
    equal_rows : {"copies", "natural"}
        As in `tailboost.certify`.
    clusters : ndarray of shape (n,)
        Cluster of each row; a cluster has one vote in a subgroup. None: each row has a vote.
    has_labels : bool
        Otherwise only rates that need no label are counted.
    """

    answered: Answered
    model: Any = None
    table: Any = None
    groups: Any = None
    hashes: Hashes | None = None
    read: Hashes | None = None
    compared: bool = False
    equal_rows: EqualRows = "copies"
    clusters: Ints | None = None
    has_labels: bool = True
    _samples: dict[Rate, list[Sample]] = field(init=False, default_factory=dict)

    @classmethod
    def of(
        cls,
        model: Any,
        given: Given,
        rates: Sequence[Rate] = (),
        *,
        opens: bool = False,
    ) -> Fresh:
        """Return given rows with the answers of a model, compared with the rows of its fit, or of an array.

        Parameters
        ----------
        model, given
            As in `tailboost.certify`.
        rates : sequence of Rate
            The rates to count.
        opens : bool, default=False
            Whether the model opens the rows: its models then answer once for all rules.

        Raises
        ------
        LeakageError
            If the model knows the rows from its fit.
        ValueError
            If an argument is not as described.
        """
        is_model = hasattr(model, "predict")
        reader = judged(model if is_model else None)
        check_indexes(X=given.X, y=given.y, model=model, deferred=given.deferred)
        groups = named_as(reader._groups_of(given.X, given.groups), reader._group_titles)
        given = replace(given, groups=groups)
        for rate in rates:
            if rate.needs_groups and given.groups is None:
                raise ValueError(
                    f"groups is needed: {rate!r} needs groups; give groups=, with an entry for each row"
                )
            if rate.needs_costs and (given.costs is None or given.cost_range is None):
                raise ValueError(
                    f"{rate!r} is a mean of costs by row: only certify bounds it, with costs= and "
                    "cost_range=(smallest, largest) possible cost of any answer to any row"
                )
        if given.clusters is None:
            refuse_persons(given.X, [*given.columns, *reader._columns_of_scores])
        equal_rows = checked_equal_rows(given.equal_rows or reader._equal_rows)
        clusters = numbered_clusters(given.clusters, given.n_rows)
        if not is_model:
            answered = _given_answers(model, given, rates)
            return cls(answered, equal_rows=equal_rows, clusters=clusters)

        classes = _classes_of(model, given)
        hashes = row_hashes(model, given.X)
        deferred = np.zeros(len(hashes), dtype=bool) if reader._can_defer else None
        any_answers = np.repeat(classes[:1], len(hashes))
        answered = _answered(given, any_answers, deferred, classes, reader, rates)
        for rate in rates:
            if given.labels is None and rate.needs_labels:
                raise ValueError(
                    f"y is needed: {rate!r} needs labels, and no row here has one. Rates of answers alone "
                    "need none: selected(…), deferred(), their gaps and ratios, by groups"
                )
            if rate.needs_deferral and deferred is None:
                raise ValueError(
                    f"{rate!r}: this {type(last_step(model)).__name__} defers no row; tailboost.tune with "
                    "this limit gives a rule that may"
                )
        read, compared = _compared(model, given, hashes, equal_rows)
        return cls(
            answered,
            table=reader._opened(given.X, given.groups) if opens else given.X,
            groups=given.groups,
            hashes=hashes,
            read=read,
            compared=compared,
            equal_rows=equal_rows,
            clusters=clusters,
            has_labels=given.labels is not None,
        ).answered_by(model)

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
        if self.only_scores and self.has_labels:
            strata = self.answered.strata
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
        return int(strata.defers and (self.answered.actions == strata.n_classes).sum())

    @cached_property
    def draws(self) -> Floats:
        """Random number in [0, 1) of each row, shape (n,): for the votes of clusters and the order of rows.

        The numbers depend on the row's content, its stratum and the rows of its cluster, so the order of
        rows has no effect. If the content is not known, the answer takes its place.
        """
        content = self.read
        if content is None:
            content = hash_rows(self.answered.actions[:, None])
        stratum = self.answered.stratum
        return random_numbers(
            hashes_of_pairs(content, stratum.astype(np.uint64)), self.clusters
        )

    # -- answers ---------------------------------------------------------------------------------------

    def by(self, selection: Any) -> Fresh:
        """Return the same rows with the answers of another selection of the same candidates."""
        return self.answered_by(judged(self.model)._answering(selection))

    def answered_by(self, model: Model) -> Fresh:
        """Return the same rows with the answers of a classifier."""
        actions = _actions(model, self.table, self.groups, self.answered.strata)
        return replace(self, answered=replace(self.answered, actions=actions), model=model)

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

    def voters(self, rows: Ints) -> Ints:
        """Return the rows with a vote among some rows, ascending: one random row of each cluster.

        If rules may defer, only the same row of a cluster may have a vote everywhere: then rows with votes
        are independent for limits on errors and on deferral together.
        """
        if self.clusters is None:
            return rows
        if self.answered.strata.defers:
            return rows[np.isin(rows, self._one_of_each(np.arange(len(self))))]
        return self._one_of_each(rows)

    def _one_of_each(self, rows: Ints) -> Ints:
        assert self.clusters is not None
        by_draw = rows[np.argsort(self.draws[rows], kind="stable")]
        _, first = np.unique(self.clusters[by_draw], return_index=True)
        return np.sort(by_draw[first])

    def are_apart(self, samples: Sequence[Sample]) -> bool:
        """Whether no row, and no cluster, is in two samples: then the samples are independent."""
        cases = [np.zeros(0, dtype=np.intp), *(sample.rows for sample in samples)]
        if self.clusters is not None:
            cases = [np.unique(self.clusters[rows]) for rows in cases]
        return bool((np.bincount(np.concatenate(cases)) < 2).all())

    # -- words -----------------------------------------------------------------------------------------

    @property
    def notes(self) -> list[str]:
        """The assumption about the rows, and their comparison with the rows of the fit, as sentences."""
        strata = self.answered.strata
        assumption = ASSUMED
        if self.clusters is not None:
            votes = VOTES_BESIDE_DEFERRAL if strata.defers else VOTES
            assumption = BY_CLUSTERS.format(self.n_clusters, *votes)
        if strata.defers:
            assumption += f" {deferral_words(self.n_deferred, len(self))}"
        if not self.has_labels:
            assumption += " None of the rows has a label."
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


def _answered(
    given: Given,
    answers: Labels,
    deferred: Any,
    classes: Labels,
    reader: Any,
    rates: Sequence[Rate],
) -> Answered:
    """Return rows with answers as numbers, in strata that also have the groups of the fit without rows.

    A column of the fit counts if one of its groups occurs among the rows, and the combinations of several
    columns of the fit if all of them count. ``reader`` is the view of the classifier.
    """
    columns = given.columns
    of_fit = by_column(plain_list(reader.groups_))
    if len(of_fit) == len(columns) == 1:  # a single column needs no name
        of_fit = dict(zip(columns, of_fit.values(), strict=True))
    known = {
        name: of_fit[name]
        for name, column in columns.items()
        if not set(of_fit.get(name, ())).isdisjoint(np.unique(column).tolist())
    }
    labels = given.labels
    if labels is None:  # no counted rate needs a label
        labels = np.repeat(classes[:1], len(answers))
    positions(labels, classes, "y")
    answered = Answered.from_arrays(
        labels,
        answers,
        groups=given.groups,
        deferred=deferred,
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


def _given_answers(answers: Any, given: Given, rates: Sequence[Rate]) -> Answered:
    """Return rows with an array of answers, given in the place of a model: labels or probabilities.

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
    if given.deferred is None and any(rate.counts_deferral for rate in rates):
        raise ValueError(
            "deferred is needed: an array of answers does not show deferred rows; give deferred=, a mask "
            "that is True for a deferred row"
        )
    y = given.labels
    if y is None:
        raise ValueError(
            "y is needed: model is an array of answers, and rows without labels show no rate"
        )
    array = np.asarray(answers)
    classes = np.unique(y)
    if array.ndim == 2:
        array = np.asarray(in_class_order(answers, "model", classes))
        if array.shape[1] != len(classes):
            raise ValueError(
                f"model has a column of probabilities for each of {array.shape[1]} labels, y has "
                f"{len(classes)}; give the predicted labels instead"
            )
        labels = classes[check_probabilities(array, len(y), "model", "y").argmax(axis=1)]
    elif array.ndim == 1:
        is_fraction = array.dtype.kind == "f" and y.dtype.kind in "biuf"
        if is_fraction and ((array != np.floor(array)) & ~np.isin(array, y)).any():
            raise ValueError(
                "model holds numbers that are not labels of y. If they are probabilities, give labels, or "
                "probabilities of shape (n, K) with a column for each label"
            )
        labels = label_column(array, "model")
        check_length(labels, "model", len(y), "y")
        classes = _all_labels(y, labels)
    else:
        raise ValueError(
            "model must be a fitted classifier, an array of n labels or of (n, K) probabilities, got shape "
            f"{array.shape}"
        )
    return _answered(given, labels, given.deferred, classes, judged(None), rates)


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
    if given.labels is not None:
        check_length(given.labels, "y", n_rows_of(given.X), "X")
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
    return _all_labels(given.labels, np.asarray(model.predict(given.X)))


def _compared(
    model: Model, given: Given, hashes: Hashes, equal_rows: EqualRows
) -> tuple[Hashes, bool]:
    """Return `Fresh.read` and `Fresh.compared`; raise LeakageError for rows that were used before."""
    final, table = final_step(model, given.X)
    read = hashes if final is model else row_hashes(final, table)
    labels = given.labels
    compared = given.training_rows is not None
    if compared:
        trained = row_hashes(model, _in_form_of(given.X, given.training_rows))
        refuse_repeated(Seen.of(hashes), [Seen.of(trained, TRAINED_ON)], equal_rows)
    if judged(final).records_ is not None:
        records = judged(final).records_
        records.refuse(read, labels, equal_rows)
        compared = compared or records.complete
    # Equal scores are different rows also without a statement, but not if all rows are copied.
    if equal_rows != "natural" and given.clusters is None:
        for column in (*given.columns.values(), *([] if labels is None else [labels])):
            hashes = hashes_of_pairs(hashes, hashes_of_names(column))
        refuse_copied("X", hashes)
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
