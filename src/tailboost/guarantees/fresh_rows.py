"""Fresh rows of a certificate: answers, subgroups, and overlap with training rows."""

from __future__ import annotations

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
    check_indexes,
    check_length,
    check_mask,
    check_probabilities,
    check_same_kind,
    in_class_order,
    label_column,
    n_rows_of,
    numbered,
    positions,
    take,
)
from tailboost.guarantees.recheck import Claim
from tailboost.rates import Answered, Rate, Sample, Strata, error
from tailboost.rates.metrics import expected_zero_one_losses
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
from tailboost.rows.group_names import by_column, checked_columns, plain_list
from tailboost.rows.judged import (
    final_step,
    group_arguments,
    judged,
    label_shares,
    last_step,
)
from tailboost.rows.readers import (
    Met,
    reason_of_equal_rows,
    refuse_copied_labels,
    row_hashes,
)
from tailboost.rows.records import TRAINED_ON, refuse_known
from tailboost.rows.rules import refuse
from tailboost.rows.subgroups import deferral_words

#: `predict`, or the randomised rule with the label distribution `predict_distribution`.
Rule = Literal["predict", "randomised"]

#: Errors as rates, by kind of subgroup.
ERRORS: dict[str, Rate] = {
    "mean": error(),
    "class": error(by="class"),
    "group": error(by="group"),
    "cell": error(by="cell"),
}
ASSUMED = (
    "Assumption: the rows are independent draws from the population of the bounds (no repeated "
    "measurements "
    "of one person, no later shift), and no row was used to train or select the model."
)
ONLY_SCORES = (
    "The rule reads scores alone, so rows with equal scores are different rows. Tables are "
    "compared by how "
    "often each score occurs: these rows agree with no earlier rows that the rule keeps more "
    "than chance "
    "explains. Among few different scores a part of a table cannot be recognised: make sure "
    "that none of "
    "these rows was used in the selection or by the model."
)
EQUAL_TO_NAMED = "equal one of the training rows that the caller names (training_rows=)."
UNKNOWN_ROWS = (
    "The rows of the fit are not known here: make sure that none of these rows was used in it."
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
    """Fresh rows with the answers to them."""

    answered: Answered  # by ``predict``; for rates also deferred and drawn answers
    drawn: Floats | None = None  # shape (n,): expected losses of the randomised rule
    rules: tuple[Rule, ...] = ("predict",)  # rules of the errors
    rows: RowHashes | None = None  # hashes of the rows; None if only answers were given
    # Shape (m, 2), from `Met.counts`; None if the model keeps no fingerprints.
    repeated: Ints | None = None
    # "class", "group", ("group", column): kinds of subgroups with a complete list.
    listed: Collection[Any] = ()
    equal_rows: EqualRows = "copies"
    clusters: Ints | None = (
        None  # shape (n,): cluster of each row; a cluster has one vote in a subgroup
    )
    n_unlabeled: int = 0  # the last rows, which have no labels
    cases: Mask | None = (
        None  # shape (n,): the rows that stand for a case, see `Judged.cases`; None: all
    )
    training_rows: Fingerprint | None = (
        None  # the training rows of the model, as the caller names them
    )
    opened: tuple[Any, ...] = ()  # the rows as ``opened`` of the model returns them, in parts
    fresh: Fresh | None = None  # the rows without answers
    judge: Any = None  # the model of ``answered``, or the array of answers
    final: Any = (
        None  # the classifier at the end of the model, or behind an array of answers, if known
    )

    def __len__(self) -> int:
        return len(self.answered.stratum)

    @property
    def y(self) -> Ints:
        """Class number of each row; K of rows without labels."""
        numbers: Ints = self.answered.strata.y[self.answered.stratum]
        return numbers

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
        return Fingerprint.of(self.hashes)

    @property
    def used(self) -> UsedRows:
        """The rows with their labels, to recognise them later."""
        assert self.rows is not None
        cases = slice(None) if self.cases is None else self.cases
        n = len(self) - self.n_unlabeled
        known = self.y[:n][cases if self.cases is None else self.cases[:n]]
        labels = np.asarray(self.answered.strata.classes)[known]
        return UsedRows.of_table(self.rows.taken(cases), labels)

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
        limits = sorted(
            {fingerprints.limit for fingerprints in earlier} | {Fingerprint.COMPLETE}
        )
        unions = (
            Fingerprint.union([each for each in earlier if each.limit >= limit])
            for limit in limits
        )
        return [union.count(self.hashes) for union in unions]

    @cached_property
    def draws(self) -> Floats:
        """Random number of each row, shape (n,): for the votes of clusters and the order of rows.

        The numbers depend on content (or the answer if the content is not known), stratum and cluster.
        """
        content = self.hashes
        if content is None:
            content = hash_rows(np.reshape(self.answered.actions, (len(self), -1)))
        if self.clusters is None:
            cluster = np.zeros(len(self), dtype=np.intp)
        else:
            cluster = self.clusters
        return random_numbers(content, self.answered.stratum, cluster)

    def by(self, model: Model) -> FreshRows:
        """Return the same rows with the answers of another classifier with the same candidates."""
        assert self.fresh is not None
        answered, drawn = self.fresh.answered(model)
        return replace(self, answered=answered, drawn=drawn, judge=model)

    def names(self, rate: Rate) -> list[Any]:
        """Return the subgroups of a rate, also without rows."""
        return self.answered.strata.subgroups(rate.by)[0]

    def samples(self, rate: Rate, rule: Rule = "predict") -> list[Sample]:
        """Return the rows of each subgroup of a rate with their values; each cluster has one vote there."""
        samples = rate.samples_of(self.answered)
        if rule == "randomised" and self.drawn is not None:
            samples = [replace(sample, values=self.drawn[sample.rows]) for sample in samples]
        if self.clusters is None:
            return samples
        return [self._votes(sample) for sample in samples]

    def are_apart(self, samples: Sequence[Sample]) -> bool:
        """Whether no row, and no cluster, is in two samples."""
        each = [
            sample.rows if self.clusters is None else self.clusters[sample.rows]
            for sample in samples
        ]
        found = np.zeros(max((int(rows.max(initial=-1)) + 1 for rows in each), default=0), bool)
        for rows in each:
            if found[rows].any():
                return False
            found[rows] = True
        return True

    def _votes(self, sample: Sample) -> Sample:
        """Return one random row of each cluster, in the order of the rows."""
        assert self.clusters is not None
        if not len(rows := sample.rows):
            return sample
        order = np.lexsort((self.draws[rows], self.clusters[rows]))
        return sample.taken(
            np.sort(order[np.r_[True, np.diff(self.clusters[rows][order]) > 0]])
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
        if claim.others:
            samples = self._apart(samples)
        by_name = {sample.name: sample for sample in samples}
        if claim.others:
            other = [sample for sample in samples if sample.name not in claim.subgroups]
        else:
            other = []
        compared = () if claim.others and claim.form == "mean" else claim.subgroups
        if not (other if claim.others else by_name.keys() & set(compared)):
            return None
        named = [
            by_name[name] if name in by_name else samples[0].without_rows(name)
            for name in compared
        ]
        if self.clusters is not None and len(apart := [*other, *named]) > 1:
            clusters = np.concatenate([self.clusters[sample.rows] for sample in apart])
            if len(np.unique(clusters)) < len(clusters):
                raise ValueError(
                    "clusters: some clusters have rows in several of the subgroups that a gap "
                    "or ratio "
                    "compares, or in several groups that no bound names, so that the rows of "
                    "these subgroups "
                    "are not independent. Give one row of each cluster"
                )
        if other:
            pooled = [other[0].with_rows_of(other)]
        else:
            pooled = []
        return [sample.ordered(self.draws) for sample in (*pooled, *named)]

    def _apart(self, samples: Sequence[Sample]) -> Sequence[Sample]:
        """Leave each row in one of its subgroups at random: a row has a group of each column."""
        rows = np.concatenate([sample.rows for sample in samples])
        distinct, place, times = np.unique(rows, return_inverse=True, return_counts=True)
        if len(distinct) == len(rows):
            return samples
        # Later digits of the draws: the first digits decide about votes and the order.
        stays = nth_of_kind(place, times) == (
            self.draws[rows] * 2.0**20 % 1.0 * times[place]
        ).astype(np.intp)
        parts = np.split(stays, np.cumsum([len(sample.rows) for sample in samples])[:-1])
        return [sample.taken(part) for sample, part in zip(samples, parts, strict=True)]

    def knows(self, by: Any) -> bool:
        """Return whether the list of the subgroups of a rate is complete."""
        names = set(names_in(by))
        if "cell" in names:
            names = {"class", "group"}
        if "class" in names and "class" not in self.listed:
            return False
        groups = names - {None, "class"}
        if len(groups) > 1 and self.answered.strata.known == ():
            return False
        # "group": the lists of all columns are complete, also that of a single one without a name.
        return "group" in self.listed or all(("group", name) in self.listed for name in groups)

    @property
    def notes(self) -> list[str]:
        """Assumptions about the rows, and their overlap with the rows of the fit."""
        if self.clusters is None:
            assumed = ASSUMED
        else:
            assumed = BY_CLUSTERS.format(len(np.unique(self.clusters)))
        strata = self.answered.strata
        if strata.defers:
            deferred = int((self.answered.actions == strata.n_classes).sum())
            assumed = f"{assumed} {deferral_words(deferred, len(self))}"
        if self.n_unlabeled == len(self):
            assumed = f"{assumed} None of the rows has a label."
        elif self.n_unlabeled:
            assumed = (
                f"{assumed} {self.n_unlabeled:,} of the rows have no labels: they count in "
                "rates that need "
                "none, and are draws from the same population."
            )
        named = []
        if self.training_rows is not None and self.hashes is not None:
            share = self.training_rows.share(self.hashes)
            named = [f"{_percent(share)} of these rows {EQUAL_TO_NAMED}"]
        if self.only_scores and (self.repeated is None or not self.repeated[:, 1].any()):
            return [assumed, *(named or [ONLY_SCORES])]
        if self.repeated is None:
            return [assumed, *(named or [UNKNOWN_ROWS])]
        with np.errstate(invalid="ignore"):
            fitted, *selected = (self.repeated[:, 0] / self.repeated[:, 1]).tolist()
        overlap = f"{_percent(fitted)} of these rows equal a training row of the model"
        if selected:
            most = 100 * max(selected)
            overlap += f", {most:.3g} % equal a selection row"
        overlap += ". Numbers are compared as rounded float32; labels are not compared."
        if self.equal_rows == "natural":
            overlap += (
                " According to the caller, rows are equal by nature and nobody copied a row. "
                "The number of "
                "equal rows, and their labels if the model keeps labels, do not contradict "
                "this; a few "
                "copies stay undetected."
            )
        if named:
            overlap += f" {named[0]}"
        elif not judged(self.final).records.complete:
            overlap += (
                " A model inside was fitted before (frozen). Its training rows are not known: "
                "make sure that "
                "these rows are not among them."
            )
        return [assumed, overlap]


def _percent(share: float) -> str:
    if np.isnan(share):
        return "An unknown share"
    return f"{100 * share:.3g} %"


def _in_form_of(X: Table, training_rows: Table) -> Any:
    """Return named training rows as a table with the columns of ``X``; raise if columns differ."""
    table = as_table(training_rows)
    rows = as_table(X)
    names, others = (getattr(each, "columns", None) for each in (table, rows))
    if names is not None and others is not None:
        apart = sorted({*map(str, names)} ^ {*map(str, others)})
        if apart:
            raise ValueError(
                f"training_rows: the column {apart[0]!r} is in training_rows or in X alone"
            )
        table = table[others]
    if table.shape[1:] != rows.shape[1:]:
        raise ValueError(
            f"training_rows has the shape {table.shape}, X {rows.shape}: columns must be the "
            "same"
        )
    if isinstance(training_rows, Mapping):
        return training_rows
    return table


# -- answers -----------------------------------------------------------------------------------------------


def rules_of(final: Model) -> tuple[Rule, ...]:
    """Return the rules of a classifier; if one candidate has all weight, both rules are `predict`."""
    if judged(final).draws:
        return ("predict", "randomised")
    return ("predict",)


def answers_of(model: Model, X: Table, rule: Rule, groups: Groups = None) -> Any:
    """Return the labels predicted by a model, or its label distribution."""
    # Pipelines and searches pass groups on only on request.
    given = group_arguments(last_step(model), groups)
    if given:
        model, X = final_step(model, X)
    if rule == "predict":
        return np.asarray(model.predict(X, **given))
    return label_shares(model, X, **given)


def _given_labels(model: Model, y: Labels, listed: Labels | None) -> tuple[Labels, Labels]:
    """Return the predicted labels from an array of labels or probabilities, and all labels."""
    given = np.asarray(model)
    if given.ndim == 2:
        classes = _all_labels(y, y, listed)
        given = np.asarray(in_class_order(model, "model", classes))
        if given.shape[1] != len(classes):
            raise ValueError(
                f"model has a column of probabilities for each of {given.shape[1]} labels, y "
                "has "
                f"{len(classes)}; give the predicted labels instead, or all labels: "
                f"subgroups={{'class': …}}"
            )
        return classes[check_probabilities(given, len(y), "model", "y").argmax(axis=1)], classes
    if given.ndim != 1:
        raise ValueError(
            "model must be a fitted classifier, an array of n labels or of (n, K) "
            "probabilities, got shape "
            f"{given.shape}"
        )
    if given.dtype.kind == "f" and y.dtype.kind in "biuf":
        stray = given[(given != np.floor(given)) & ~np.isin(given, y)]
        if len(stray):
            raise ValueError(
                f"model holds numbers such as {stray[0]:g}, which are not labels of y. If they "
                "are "
                "probabilities, give labels, or probabilities of shape (n, K) with a column "
                "for each label"
            )
    answers = label_column(given, "model")
    check_length(answers, "model", len(y), "y")
    return answers, _all_labels(y, answers, listed)


def _all_labels(y: Labels, answers: Labels, listed: Labels | None) -> Labels:
    """Return the labels of rows and answers, and the listed ones."""
    check_same_kind(answers, "model", y, "y")
    if listed is not None:
        check_same_kind(listed, "subgroups", y, "y")
    return np.unique(np.concatenate([y, answers, *([] if listed is None else [listed])]))


# -- subgroups ---------------------------------------------------------------------------------------------


def groups_of_fit(model: Model) -> list[Any]:
    """Return the names of the groups of a classifier's fit, if any."""
    return plain_list(judged(model).groups)


@dataclass(frozen=True)
class ListedGroups:
    """The groups of the population, from the caller's list or from the fit."""

    values: dict[Any, list[Any]]  # by column
    columns: Collection[Any]  # columns with a complete list of groups
    all_listed: bool  # whether these are all columns
    combinations: tuple[tuple[Any, ...], ...] | None = (
        None  # None: all combinations of the values
    )

    @property
    def kinds(self) -> set[Any]:
        """Owner of a complete list of groups, as in `FreshRows`."""
        return {("group", column) for column in self.columns} | {*["group"] * self.all_listed}

    @classmethod
    def of(
        cls, final: Model, named: Sequence[Any] | None, columns: Mapping[Any, Labels]
    ) -> ListedGroups:
        """Return the groups of ``named``, or of the fit; a column counts if a group of the fit occurs."""
        values = by_column(groups_of_fit(final) if named is None else named)
        fitted = list(values)
        if len(values) == len(columns) == 1 and None in {*values, *columns}:
            values = dict(
                zip(columns, values.values(), strict=True)
            )  # the only column, without a name
        if named is not None:
            return cls(values, columns.keys(), True)
        met = [
            name
            for name in columns
            if not set(values.get(name, ())).isdisjoint(columns[name].tolist())
        ]
        complete = bool(columns and met == list(columns))
        combinations: tuple[tuple[Any, ...], ...] | None = None if complete else ()
        if complete and len(columns) > 1:
            place = [fitted.index(column) for column in columns]
            rows = judged(final).group_combinations
            combinations = tuple(
                sorted({tuple(row[j] for j in place) for row in rows}, key=repr)
            )
        return cls({name: values[name] for name in met}, met, complete, combinations)


# -- rows --------------------------------------------------------------------------------------------------


def _met(
    judge: _Judge, rows: RowHashes, X: Table, labels: Labels | None = None, name: str = "X"
) -> Met:
    """Return how a classifier meets rows: hashes as given, and ``X`` after preparation.

    Rows without labels are compared by content alone.

    Raises
    ------
    LeakageError
        If the classifier used the rows.
    """
    if judge.known is not None:
        counts = judge.known.count(rows.whole)
        refuse_known(judge.known, TRAINED_ON, *counts, judge.equal_rows, name)
    met = Met.of(judge.final, rows, X, () if labels is None else labels)
    met.refuse(judge.final, judge.equal_rows, name)
    if labels is not None:
        y = positions(labels, judge.classes, "y")
        if judge.equal_rows == "natural":
            refuse_copied_labels(judged(judge.final), X, y)
    return met


@dataclass(frozen=True, eq=False)
class _Judge:
    """A classifier or an array of answers, with what it knows of the rows."""

    final: Any  # the classifier without its preparation; that behind an array, if known
    classes: Labels
    classes_listed: bool  # whether these are all labels of the population
    equal_rows: EqualRows
    answers: Labels | None = None  # the array
    deferred: Mask | None = None  # with an array
    rules: tuple[Rule, ...] = ("predict",)
    known: Fingerprint | None = None  # the named training rows
    met: Met | None = None  # the rows with labels; None if only the answers are known

    @classmethod
    def of_array(cls, model: Model, given: Given, rates: Sequence[Rate], fitted: Any) -> _Judge:
        """Check an array of answers; without rows with labels all labels are listed."""
        given.refuse("array of answers", told={"model": type(model).__name__})
        marks = given.deferred
        for rate in rates:
            if rate.counts_deferral:
                given.refuse("array of answers", "rate of deferral", told={"rate": rate})
        listed = given.listed[0]
        labels = given.labels
        if labels is None:
            assert listed is not None
            answers = listed[:0]
            classes = np.unique(listed)
            _refuse_lacking(rates, classes)
        else:
            answers, classes = _given_labels(model, labels, listed)
        if given.answers_unlabeled is not None:
            answers = np.concatenate([answers, given.answers_unlabeled])
        if marks is not None:
            marks = check_mask(marks, "deferred", len(answers))
        return cls(fitted, classes, listed is not None, given.equal_rows, answers, marks)

    @classmethod
    def of_model(cls, model: Model, given: Given, rates: Sequence[Rate]) -> _Judge:
        """Check a classifier: it knows none of the rows with labels, or the only rows have none."""
        listed = given.listed[0]
        labels = given.labels
        if labels is None:
            X = given.X_unlabeled
        else:
            X = given.X
        refuse("classifier", X=X, deferred=given.deferred)
        if labels is not None:
            check_length(labels, "y", n_rows_of(X))
        final, table = final_step(model, X)
        if hasattr(model, "classes_"):
            listed = classes = label_column(model.classes_, "classes_")
        elif labels is None:
            raise ValueError(
                "y is needed: the model has no classes_, and rows without labels do not show "
                "them"
            )
        else:
            classes = _all_labels(labels, np.asarray(model.predict(X)), listed)
        known = None
        if given.training_rows is not None:
            known = fingerprint_of(
                given.training_rows, lambda rows: row_hashes(model, _in_form_of(X, rows)).whole
            )
        why = reason_of_equal_rows(judged(final), given.equal_rows)
        judge = cls(final, classes, listed is not None, why, known=known)
        if labels is None:
            _refuse_lacking(rates, classes)
            return replace(judge, met=Met())
        check_same_kind(labels, "y", classes, "classes_ of the model")
        rows = row_hashes(model, X)
        return replace(judge, met=_met(judge, rows, table, labels))

    def with_rules(self, rules: Collection[Rule] | None) -> _Judge:
        """Return the judge with those of the given rules that it has, by default all of them."""
        if self.answers is not None:
            return self
        drawable = hasattr(self.final, "predict_randomized")
        own = (
            rules_of(self.final)
            if rules is None
            else [r for r in rules if r == "predict" or drawable]
        )
        # A label distribution does not show how often a row is deferred.
        deferring = judged(self.final).can_defer
        return replace(
            self, rules=tuple(rule for rule in own if rule == "predict" or not deferring)
        )


@dataclass(frozen=True, eq=False)
class Part:
    """Fresh rows with labels, or those without."""

    X: Table  # None: only the answers are known
    groups: Any  # as a model takes them
    columns: dict[Any, Labels]  # the groups by column; none without groups
    n: int
    met: Met | None = None  # None: only the answers are known


@dataclass(frozen=True, eq=False)
class Fresh:
    """Fresh rows, those with labels first, and how the answers of a model to them are counted."""

    judge: _Judge
    given: Given
    parts: list[Part]
    opened: tuple[Any, ...]  # the parts as a model has opened them
    n_unlabeled: int
    there: ListedGroups
    rates: Sequence[Rate]
    of_errors: bool  # whether errors are counted, not the rates
    counts: Rule | None  # whose rates are counted, if the classifier takes no limits

    @cached_property
    def truth(self) -> Labels:
        """Labels of all rows; any label of rows without one, which `without_labels` takes away."""
        known = self.judge.classes[:0]
        if self.given.labels is not None:
            known = self.given.labels
        return np.concatenate([known, np.repeat(self.judge.classes[:1], self.n_unlabeled)])

    @cached_property
    def groups(self) -> Any:
        """Groups of all rows, None without groups."""
        first = self.parts[0]
        if len(self.parts) == 1 or not first.columns:
            return first.groups
        joined = {
            name: np.concatenate([part.columns[name] for part in self.parts])
            for name in first.columns
        }
        return joined.get(None, joined)

    def answered(self, model: Model) -> tuple[Answered, Floats | None]:
        """Return the answers of a model, and the expected losses of its randomised rule."""
        judge = self.judge
        marked = judge.deferred
        drawn = None
        if judge.answers is not None:
            answers = judge.answers
        else:
            tables = self.opened or tuple(part.X for part in self.parts)
            lasts = [final_step(model, table) for table in tables]
            last, _ = lasts[0]
            # Errors are counted among the answered rows: all rates of a deferring rule need
            # the deferrals.
            about = [rate for rate in self.rates if rate.needs_deferral]
            if about and not self.of_errors and not judged(last).can_defer:
                raise ValueError(f"{about[0]!r}: this {type(last).__name__} defers no row")
            if judged(last).can_defer:
                marked = np.concatenate([
                    last.defers(rows, **group_arguments(last, part.groups))
                    for (_, rows), part in zip(lasts, self.parts, strict=True)
                ])  # fmt: skip
            rule = rules_of(last)[-1]
            if self.counts is not None and not judged(last).takes_limits:
                rule = self.counts
            if self.of_errors or marked is not None:
                rule = "predict"
            pairs = list(zip(tables, self.parts, strict=True))
            answers = np.concatenate(
                [answers_of(model, table, rule, part.groups) for table, part in pairs]
            )
            if "randomised" in judge.rules and self.of_errors:
                shares = answers_of(model, tables[0], "randomised", self.parts[0].groups)
                drawn = expected_zero_one_losses(self.truth, shares, labels=judge.classes)
        answered = Answered.of(
            self.truth,
            answers,
            groups=self.groups,
            deferred=marked,
            costs=self.given.costs if any(rate.needs_costs for rate in self.rates) else None,
            labels=judge.classes,
            # A "worst" error seen is about the groups among these rows.
            known=self.there.values if self.there.all_listed or not self.of_errors else {},
        )
        if self.n_unlabeled:
            answered = answered.without_labels(self.n_unlabeled)
        strata = replace(answered.strata, known=self.there.combinations)
        by_column = self.of_errors and None not in self.parts[0].columns
        answered = replace(answered, strata=strata)
        return _for_bounds(answered, self.given.cost_range, pairs=by_column), drawn


def fresh_rows(
    model: Model,
    given: Given,
    rates: Sequence[Rate] = (),
    rules: Collection[Rule] | None = None,
    *,
    counts: Rule | None = None,
    fitted: Any = None,
    opens: bool = False,
) -> FreshRows:
    """Return rows with the answers of a model, or of an array.

    Errors are counted for ``rules``, by default for all rules of the model. If ``rules`` is empty,
    ``rates`` are counted: with deferred rows, and for a randomised rule with its label distribution. If the
    classifier takes no limits, they are those of the rule ``counts``.
    ``fitted`` is the classifier behind an array of answers, if known. If a rule reads scores alone, equal
    rows are different rows. With ``opens`` the model opens the rows: its models answer once for all rules.

    Raises
    ------
    LeakageError
        If the model knows the rows from its fit.
    ValueError
        If an argument is not as in `certify`.
    """
    check_equal_rows(given.equal_rows)
    check_indexes(X=given.X, y=given.y, model=model, **given.by_row)
    for rate in rates:
        told = {"rate": rate}
        if rate.needs_groups:
            refuse("certificate", "rate of groups", told=told, groups=given.any_groups)
        if rate.needs_costs:
            given.refuse("certificate", "rate of costs", told=told)
    if hasattr(model, "predict"):
        judge = _Judge.of_model(model, given, rates).with_rules(rules)
    else:
        judge = _Judge.of_array(model, given, rates, fitted)
    parts = []
    n_labelled = 0
    if given.labels is not None:
        n_labelled = len(given.labels)
        parts = [Part(given.X, given.groups, given.columns, n_labelled, judge.met)]
    n_unlabeled = 0
    met = judge.met
    if given.has_unlabeled:
        more = _unlabeled(judge, model, given)
        n_unlabeled = more.n
        parts.append(more)
        if met is not None and more.met is not None:
            met = met.beside(more.met)
    clusters = None
    if given.clusters is not None:
        clusters = numbered(given.clusters, "clusters", n_labelled)
    opened: tuple[Any, ...] = ()
    if opens:
        opened = tuple(judged(model).opened(part.X, part.groups) for part in parts)
    fresh = Fresh(
        judge,
        given,
        parts,
        opened,
        n_unlabeled,
        ListedGroups.of(judge.final, given.listed[1], parts[0].columns),
        rates,
        of_errors=rules is None or bool(rules),
        counts=counts,
    )
    answered, drawn = fresh.answered(model)
    about: dict[str, Any] = {}
    if met is not None:
        about = {"rows": met.rows, "cases": met.cases}
        if len(met.counts):
            about["repeated"] = met.counts
    return FreshRows(
        answered,
        drawn,
        judge.rules,
        listed=fresh.there.kinds | {"class"} if judge.classes_listed else fresh.there.kinds,
        equal_rows=judge.equal_rows,
        clusters=clusters,
        n_unlabeled=n_unlabeled,
        training_rows=judge.known,
        opened=opened,
        fresh=fresh,
        judge=model,
        final=judge.final,
        **about,
    )


def _refuse_lacking(rates: Sequence[Rate], classes: Labels) -> None:
    """Raise if no row has a label and a rate needs labels; the message says of which rows."""
    one = np.zeros(1, dtype=np.intp)
    strata, _ = Strata.of(one, None, np.ones(1), classes, defers=True)
    for rate in rates:
        if not rate.needs_labels(strata):
            continue
        among = rate.tables(strata)[1] != 0
        known = among.any(axis=1)
        answers = among.any(axis=0)[: strata.n_classes]
        which = "all rows"
        for held, words in ((known, "rows with the label"), (answers, "rows with the answer")):
            if not held.all():
                which = f"{words} {', '.join(map(repr, classes[held].tolist()))}"
                break
        raise ValueError(
            f"y is needed: {rate!r} needs the labels of {which}, and no row here has a label. "
            "Rates of "
            "answers alone need none: selected(…), deferred(), their gaps and ratios, by groups"
        )


def not_among(known: RowHashes, own: RowHashes) -> Mask:
    """Return a mask of the rows without labels that are not among the rows with labels.

    Raises
    ------
    ValueError
        If there is no such row.
    """
    new: Mask = ~own.copied_from(known)
    if not new.any():
        raise ValueError(
            "X_unlabeled: there is no row, or all rows are among the rows with labels"
        )
    return new


def _unlabeled(judge: _Judge, model: Model, given: Given) -> Part:
    """Return the rows without labels, without copies of labelled rows."""
    X = given.X_unlabeled
    groups = given.groups_unlabeled
    check_indexes(X_unlabeled=X, groups_unlabeled=groups)
    n = n_rows_of(X if given.answers_unlabeled is None else given.answers_unlabeled)
    columns = checked_columns(groups, "groups_unlabeled", n, "X_unlabeled")
    if columns and given.has_labels and set(columns) != set(given.columns):
        raise ValueError(
            f"groups_unlabeled has the columns {list(columns)}, groups has "
            f"{list(given.columns)}"
        )
    met = None
    if given.answers_unlabeled is None:
        final, table = final_step(model, X)
        own = row_hashes(model, X)
        assert judge.met is not None
        # A classifier whose cases have several rows has left out copies before.
        if judged(final).cases(table) is None:
            kept = np.flatnonzero(not_among(judge.met.rows, own))
            n = len(kept)
            prepared = take(table, kept)
            X = prepared if table is X else take(X, kept)
            own = own.taken(kept)
            table = prepared
            columns = {name: values[kept] for name, values in columns.items()}
        met = _met(judge, own, table, name="X_unlabeled")
    return Part(X, columns.get(None, columns) if columns else None, columns, n, met)


def _for_bounds(answered: Answered, cost_range: Any, *, pairs: bool) -> Answered:
    """Return rows with the range of their costs; with ``pairs``, groups of one column are (column, value)."""
    strata = answered.strata
    if answered.costs is not None:
        low, high = (float(end) for end in cost_range)
        if not low <= answered.costs.min() <= answered.costs.max() <= high:
            ends = f"{answered.costs.min():g} to {answered.costs.max():g}"
            raise ValueError(f"cost_range={cost_range!r}: the given costs range from {ends}")
        strata = replace(strata, cost_range=(low, high))
    if pairs and len(strata.columns) == 1 and strata.columns[0] is not None:
        (column,), (values,) = strata.columns, strata.values
        strata = replace(strata, values=(tuple((column, value) for value in values),))
    return replace(answered, strata=strata)
