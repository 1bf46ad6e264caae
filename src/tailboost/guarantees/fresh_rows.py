"""Rows that judge a classifier: what it answers to them, whether it knows them, and whose they are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse

from tailboost.core.array_types import Floats, Hashes, Ints, Labels
from tailboost.core.checks import (
    as_pandas,
    check_length,
    check_mask,
    check_probabilities,
    check_same_kind,
    columns_by_name,
    distinct_labels,
    in_class_order,
    label_column,
    n_rows_of,
    numbered,
    positions,
    refuse_missing,
)
from tailboost.core.fingerprints import Fingerprint, hash_rounded_rows, hash_rows, random_numbers, too_many
from tailboost.core.pipelines import final_step, label_shares, last_step
from tailboost.core.subgroups import can_defer, deferral_words, told
from tailboost.guarantees.leakage import EqualRows, check_equal_rows
from tailboost.guarantees.recheck import Claim
from tailboost.rates import Answered, Rate, Sample, error
from tailboost.rates.metrics import expected_zero_one_losses

#: Of errors "predict", or of the rule whose label distribution is `predict_distribution`.
Rule = Literal["predict", "randomised"]

#: The rates that the errors of units are.
ERRORS: dict[str, Rate] = {
    "mean": error(),
    "class": error(by="class"),
    "group": error(by="group"),
    "cell": error(by="cell"),
}
ASSUMED = (
    "Assumed: the rows are independent draws from the population this is about (no repeated measurements of "
    "one person, no later shift), and none had a part in making or choosing the model."
)
BY_CLUSTERS = (
    "Each of the {:,} clusters has one vote: in a class or group one of its rows there counts, drawn at "
    "random from a generator with a fixed seed. The bounds are about a row drawn at random of a cluster "
    "drawn at random. Those of a class or group draw among its rows, and among the clusters with such rows. "
    "Assumed: the clusters are independent draws from the population this is about (no later shift), and no "
    "row of theirs had a part in making or choosing the model."
)


@dataclass(frozen=True, eq=False)
class FreshRows:
    """Rows with what was answered to them."""

    answered: Answered  # by ``predict``; of rates as the model draws or passes on
    drawn: Floats | None = None  # shape (n,): the expected losses of the rule that draws
    rules: tuple[Rule, ...] = ("predict",)  # whose errors are known
    hashes: Hashes | None = None  # shape (n,): the rows by content; None where only answers were given
    # Shape (m, 2), as `KnownRows.count_known` says; None where the model keeps no fingerprints.
    known: Ints | None = None
    complete: bool = False  # whether the model keeps fingerprints of all rows that it was fitted on
    # "class", "group", ("group", column): the kinds of units of which all are known.
    listed: Collection[Any] = ()
    equal_rows: EqualRows = "copies"  # what equal rows were said to be
    clusters: Ints | None = None  # shape (n,): whose rows these are, where each has one vote in a unit
    # What another model answers to the rows, as ``answered`` and ``drawn``.
    ask: Callable[[Any], tuple[Answered, Floats | None]] | None = None

    def __len__(self) -> int:
        return len(self.answered.stratum)

    @property
    def y(self) -> Ints:
        """Class number of each row."""
        of: Ints = self.answered.strata.y[self.answered.stratum]
        return of

    @property
    def sketch(self) -> Fingerprint | None:
        """Fingerprints of the rows."""
        return None if self.hashes is None else Fingerprint.of(self.hashes)

    def met(self, before: Iterable[Fingerprint]) -> bool:
        """Whether too many rows have one of some fingerprints; see `known_among`."""
        return any(too_many(*counts) for counts in self.known_among(before))

    def known_among(self, before: Iterable[Fingerprint]) -> list[tuple[int, int]]:
        """Count rows with one of some fingerprints: how many of how many that the fingerprints sample.

        All fingerprints count together. Those that sample fewer rows than others are in the first counts
        alone; the last counts are by the most complete ones. Rows that are said to be equal by nature are
        not counted.
        """
        if self.hashes is None or self.equal_rows == "natural":
            return [(0, 0)]
        sketches = list(before)
        limits = sorted({sketch.limit for sketch in sketches} | {Fingerprint.COMPLETE})
        unions = (Fingerprint.union([each for each in sketches if each.limit >= limit]) for limit in limits)
        known = [union.knows(self.hashes) for union in unions]
        return [(int(each.sum()), len(each)) for each in known]

    @cached_property
    def draws(self) -> Floats:
        """Random number of each row, shape (n,): votes of clusters and the order of rows follow from it.

        Rows are numbered by content, or by answer if the content is not known, and by stratum and cluster.
        """
        content = self.hashes
        if content is None:
            content = hash_rows(np.reshape(self.answered.actions, (len(self), -1)))
        whose = np.zeros(len(self), dtype=np.intp) if self.clusters is None else self.clusters
        return random_numbers(content, self.answered.stratum, whose)

    def by(self, model: Any) -> FreshRows:
        """Return the same rows as answered by another model."""
        assert self.ask is not None
        answered, drawn = self.ask(model)
        return replace(self, answered=answered, drawn=drawn)

    def names(self, rate: Rate) -> list[Any]:
        """Return the units of a rate, also those without rows."""
        return self.answered.strata.units(rate.by)[0]

    def samples(self, rate: Rate, rule: Rule = "predict") -> list[Sample]:
        """Return the rows of each unit of a rate with what they count; each cluster has one vote there."""
        found = self.answered.samples(rate)
        if rule == "randomised":
            assert self.drawn is not None
            found = [replace(sample, values=self.drawn[sample.rows]) for sample in found]
        return found if self.clusters is None else [self._votes(sample) for sample in found]

    def _votes(self, sample: Sample) -> Sample:
        """Return one row of each cluster, drawn at random, in the order of the rows."""
        assert self.clusters is not None
        if not len(rows := sample.rows):
            return sample
        order = np.lexsort((self.draws[rows], self.clusters[rows]))
        return sample.taken(np.sort(order[np.r_[True, np.diff(self.clusters[rows][order]) > 0]]))

    def compared(self, claim: Claim, samples: Sequence[Sample]) -> list[Sample] | None:
        """Return the rows of each unit of a claim, in random order; None if the claim is about none of them.

        ``samples`` are those of all units of the rate. A claim about other groups gets these together, first.

        Raises
        ------
        ValueError
            If a cluster is in several units that need independent rows.
        """
        samples = self._apart(samples) if claim.others else samples
        of = {sample.name: sample for sample in samples}
        other = [sample for sample in samples if sample.name not in claim.units] if claim.others else []
        units = () if claim.others and claim.form == "mean" else claim.units
        if not (other if claim.others else of.keys() & set(units)):
            return None
        found = [of[unit] if unit in of else samples[0].without_rows(unit) for unit in units]
        apart = [*other, *found]
        if self.clusters is not None and len(apart) > 1:
            whose = np.concatenate([self.clusters[sample.rows] for sample in apart])
            if len(np.unique(whose)) < len(whose):
                raise ValueError(
                    "clusters: some have rows in several of the units that a gap or ratio compares, or in "
                    "several groups that no bound names; such rows are no independent draws. Give one row of "
                    "each cluster"
                )
        pooled = [other[0].with_rows_of(other)] if other else []
        return [sample.ordered(self.draws) for sample in (*pooled, *found)]

    def _apart(self, samples: Sequence[Sample]) -> Sequence[Sample]:
        """Leave each row in one of its units, drawn at random: a row has a group of each column."""
        rows = np.concatenate([sample.rows for sample in samples])
        order = np.argsort(rows, kind="stable")
        _, first, place, times = np.unique(rows, return_index=True, return_inverse=True, return_counts=True)
        if len(first) == len(rows):
            return samples
        nth = np.empty(len(rows), dtype=np.intp)  # of its row's units
        nth[order] = np.arange(len(rows)) - np.repeat(np.cumsum(times) - times, times)
        # Later digits of the draws: the first ones decide on votes and on the order.
        kept = nth == (self.draws[rows] * 2.0**20 % 1.0 * times[place]).astype(np.intp)
        parts = np.split(kept, np.cumsum([len(sample.rows) for sample in samples])[:-1])
        return [sample.taken(part) for sample, part in zip(samples, parts, strict=True)]

    def knows(self, by: Any) -> bool:
        """Whether the units of a rate are known to be all units of the population."""
        names = set(by if isinstance(by, tuple) else (by,))
        if "cell" in names:
            names = {"class", "group"}
        if "class" in names and "class" not in self.listed:
            return False
        groups = names - {None, "class"}
        if len(groups) > 1 and self.answered.strata.known == ():
            return False
        return all(name in self.listed or ("group", name) in self.listed for name in groups)

    @property
    def notes(self) -> list[str]:
        """What is assumed of the rows, and whether the model was made on them, or on rows equal to them."""
        assumed = ASSUMED if self.clusters is None else BY_CLUSTERS.format(len(np.unique(self.clusters)))
        strata = self.answered.strata
        if strata.defers:
            deferred = int((self.answered.actions == strata.n_classes).sum())
            assumed = f"{assumed} {deferral_words(deferred, len(self))}"
        if self.known is None:
            unknown = "It is not known on which rows the model was made"
            return [assumed, f"{unknown}: that these are none of them is for you to see to."]
        with np.errstate(invalid="ignore"):
            fitted, *chosen = (self.known[:, 0] / self.known[:, 1]).tolist()
        share = "An unknown share" if np.isnan(fitted) else f"{100 * fitted:.3g} %"
        said = f"{share} of these rows equal a row that the model was fitted on"
        if chosen:
            said += f", {100 * max(chosen):.3g} % one that it, or a model inside, was chosen on"
        said += " (numbers are compared as float32, rounded where they are no integers; labels are not)"
        if self.equal_rows == "natural":
            said += (
                ". That rows are equal by nature, and that nobody copied one, is the word of who asked; "
                "neither how often they are nor, where these are kept, their labels are against it (a few "
                "copies pass)"
            )
        if not self.complete:
            said += (
                ". Something in the model came to the fit as it was (frozen): on which rows it was fitted is "
                "not known, and that these are none of them is for you to see to"
            )
        return [assumed, f"{said}."]


# -- what is answered --------------------------------------------------------------------------------------


def rules_of(final: Any) -> tuple[Rule, ...]:
    """Return the rules that a classifier has: where one member has the whole share, both are `predict`."""
    both = hasattr(final, "predict_randomized") and not one_answers(final)
    return ("predict", "randomised") if both else ("predict",)


def one_answers(model: Any) -> bool:
    """Whether a model is a mixture of which one member has the whole share."""
    return not getattr(getattr(last_step(model), "ensemble_", None), "draws", True)


def answers_of(model: Any, X: Any, rule: Rule, groups: Any = None) -> Any:
    """Return the labels that a model answers, or the shares by which it draws them."""
    if given := told(last_step(model), groups):  # a pipeline or a search hands groups on only if told to
        model, X = final_step(model, X)
    return np.asarray(model.predict(X, **given)) if rule == "predict" else label_shares(model, X, **given)


def _labels_given(model: Any, y: Labels, listed: Labels | None) -> tuple[Labels, Labels]:
    """Return the labels answered, from labels or from probabilities, and all labels."""
    given = np.asarray(model)
    if given.ndim == 2:
        classes = _all_labels(y, y, listed)
        given = np.asarray(in_class_order(model, "model", classes))
        if given.shape[1] != len(classes):
            raise ValueError(
                f"model has a column of probabilities for each of {given.shape[1]} labels, y has "
                f"{len(classes)}; give the predicted labels instead, or all labels: units={{'class': …}}"
            )
        return classes[check_probabilities(given, len(y), "model", "y").argmax(axis=1)], classes
    if given.ndim != 1:
        raise ValueError(
            "model must be a fitted classifier, an array of n labels or of (n, K) probabilities, got shape "
            f"{given.shape}"
        )
    if given.dtype.kind == "f" and y.dtype.kind in "biuf":
        stray = given[(given != np.floor(given)) & ~np.isin(given, y)]
        if len(stray):
            raise ValueError(
                f"model holds numbers such as {stray[0]:g}, which are no labels of y. If they are "
                "probabilities, give labels, or probabilities of shape (n, K), with a column for each label"
            )
    answers = label_column(given, "model")
    check_length(answers, "model", len(y), "y")
    return answers, _all_labels(y, answers, listed)


def _all_labels(y: Labels, answers: Labels, listed: Labels | None) -> Labels:
    """Return the labels that rows have or are answered, and those listed."""
    check_same_kind(answers, "model", y, "y")
    if listed is not None:
        check_same_kind(listed, "units", y, "y")
    return np.unique(np.concatenate([y, answers, *([] if listed is None else [listed])]))


# -- which units there are ---------------------------------------------------------------------------------


def units_listed(units: Any, groups: Any) -> tuple[Any, list[Any] | None]:
    """Return the classes and the groups that there are, as an argument lists them; None where it does not.

    Raises
    ------
    ValueError
        If ``units`` is no list of groups, nor a dict of lists of classes and groups, or no groups are given.
    """
    if units is None:
        return None, None
    lists = units if isinstance(units, Mapping) else {"group": units}
    is_list = (
        hasattr(names, "__len__") and len(names) > 0 and not isinstance(names, (str, bytes, Mapping))
        for names in lists.values()
    )
    if not lists or not set(lists) <= {"class", "group"} or not all(is_list):
        raise ValueError(
            "units must be a list of the groups that there are, or a dict with such lists for 'class' and "
            f"'group', got {units!r}"
        )
    if "group" in lists and groups is None:
        raise ValueError(f"units={units!r} lists groups, but groups is not given")
    classes = distinct_labels(lists["class"], "units") if "class" in lists else None
    if "group" not in lists:
        return classes, None
    names = [tuple(name) if isinstance(name, list) else name for name in _plain_list(lists["group"])]
    columns = list(columns_by_name(groups, "groups"))
    if not set(by_column(names)) <= set(columns):
        of = "(column, value) pairs" if columns != [None] else "values of groups"
        raise ValueError(f"units must name groups as bounds do, as {of}, got {units!r}")
    return classes, names


def _plain_list(values: Any) -> list[Any]:
    return list(values.tolist() if hasattr(values, "tolist") else values)


def groups_of_fit(model: Any) -> list[Any]:
    """Return the names of the groups that a classifier was fitted with, if any."""
    names = getattr(last_step(model), "groups_", None)
    return [] if names is None else _plain_list(names)


def _combinations_of_fit(
    model: Any, of_fit: Sequence[Any], columns: Sequence[Any]
) -> tuple[tuple[Any, ...], ...] | None:
    """Return the combinations of columns that the fit had; None where each value of one column is one."""
    if len(columns) < 2:
        return None
    combinations = getattr(last_step(model), "group_combinations_", ())
    place = [list(of_fit).index(column) for column in columns]
    return tuple(sorted({tuple(row[j] for j in place) for row in combinations}, key=repr))


def by_column(names: Sequence[Any]) -> dict[Any, list[Any]]:
    """Return the groups of each column: one of a table is called (column, value), others are of None."""
    found: dict[Any, list[Any]] = {}
    for name in names:
        column, value = name if isinstance(name, tuple) else (None, name)
        found.setdefault(column, []).append(value)
    return found


def _kinds_listed(classes: bool, groups: bool, columns: Iterable[Any]) -> set[Any]:
    """Return the kinds of units of which all are known, also those of some columns of groups."""
    kinds = {("group", column) for column in columns}
    return {*kinds, *(["class"] if classes else []), *(["group"] if groups else [])}


def _columns(groups: Any, n: int) -> dict[Any, Labels]:
    """Return the columns of groups, checked."""
    found = {}
    for name, values in columns_by_name(groups, "groups").items():
        called = "groups" if name is None else f"groups column {name!r}"
        refuse_missing(values, called)
        found[name] = label_column(values, called)
        check_length(found[name], called, n)
    return found


# -- rows --------------------------------------------------------------------------------------------------


def as_table(X: Any) -> Any:
    """Return rows as what has a shape and hands out rows."""
    X = as_pandas(X)
    if issparse(X):
        return X.tocsr()  # not every format has rows to take
    return X if hasattr(X, "shape") else np.asarray(X)


def judged_rows(
    model: Any,
    X: Any,
    y: Any,
    groups: Any = None,
    rates: Sequence[Rate] = (),
    rules: Collection[Rule] | None = None,
    *,
    equal_rows: EqualRows = "copies",
    units: Any = None,
    clusters: Any = None,
    costs: Any = None,
    cost_range: Any = None,
    fitted: Any = None,
    deferred: Any = None,
) -> FreshRows:
    """Return rows with what a model, or an array, answers to them; parameters as in `tailboost.certify`.

    Errors are counted by ``rules``, or by all that the model has; where there are none, ``rates``, of what
    the model decides: with rows passed on, and of a mixture that draws by its shares. An array may hold
    answers of a model that is known, ``fitted``.

    Raises
    ------
    LeakageError
        If the model knows the rows from its fit.
    ValueError
        If an argument is not as in `certify`.
    """
    check_equal_rows(equal_rows)
    for rate in rates:
        if rate.needs_groups and groups is None:
            raise ValueError(
                f"groups is needed: {rate!r} needs groups (certify(rates=()) bounds errors by class instead)"
            )
        if rate.needs_costs and (costs is None or cost_range is None):
            raise ValueError(
                f"{rate!r} is a mean of costs of the rows: give costs=, and cost_range=(least, largest), "
                "between which the cost of any answer to any row lies; rows at hand cannot tell that"
            )
    listed, named = units_listed(units, groups)
    labels = label_column(y, "y")
    whose = None if clusters is None else numbered(clusters, "clusters", len(labels))
    columns = {} if groups is None else _columns(groups, len(labels))
    of_errors = rules is None or bool(rules)
    has: Sequence[Rule] = ["predict"]
    if is_array := not hasattr(model, "predict"):
        if X is not None:
            raise ValueError(f"X must be None where model is an array of answers, got {type(model).__name__}")
        if deferred is None and (about := [rate for rate in rates if rate.counts_deferral]):
            raise ValueError(
                f"deferred is needed: {about[0]!r} counts deferred rows, and an array of answers does not "
                "tell them; give deferred=, a mask that is True for a deferred row"
            )
        deferred = None if deferred is None else check_mask(deferred, "deferred", len(labels))
        given, classes = _labels_given(model, labels, listed)
        final, hashes, known = fitted, None, None
    else:
        if X is None:
            raise ValueError("X is needed: model is a classifier")
        if deferred is not None:
            raise ValueError("deferred goes with an array of answers: a classifier tells its deferred rows")
        check_length(labels, "y", n_rows_of(X))
        final, table = final_step(model, X)
        known = final.count_known(table) if hasattr(final, "seen_rows_") else None
        if known is not None and equal_rows == "copies":
            final.refuse_seen(known)
        if hasattr(model, "classes_"):
            listed = model.classes_
            classes = label_column(listed, "classes_")
        else:
            classes = _all_labels(labels, np.asarray(model.predict(X)), listed)
        check_same_kind(labels, "y", classes, "classes_ of the model")
        numbers = positions(labels, classes, "y")
        if known is not None and equal_rows == "natural":
            final.refuse_seen(known, table, numbers, equal_rows=equal_rows)
        hashes = hash_rounded_rows(as_table(X))
        drawable = hasattr(final, "predict_randomized")
        has = rules_of(final) if rules is None else [r for r in rules if r == "predict" or drawable]
        if can_defer(final):  # the shares of labels do not tell how often a row is deferred
            has = [rule for rule in has if rule == "predict"]
    there = by_column(groups_of_fit(final) if named is None else named)
    of_fit = list(there)
    if len(there) == len(columns) == 1 and None in {*there, *columns}:
        there = dict(zip(columns, there.values(), strict=True))  # a column without a name is the only one
    # Of every column of the groups seen some were in the fit, so that its groups are those there are.
    met = {
        name
        for name, values in columns.items()
        if not set(np.unique(values).tolist()).isdisjoint(there.get(name, ()))
    }
    known_groups = named is not None or bool(columns and met == set(columns))
    if named is None:  # a worst group seen is one of these rows
        there = {name: there[name] for name in met if known_groups or not of_errors}
    crossed: tuple[tuple[Any, ...], ...] | None = None
    if named is None:
        crossed = _combinations_of_fit(final, of_fit, list(columns)) if known_groups else ()

    def ask(judge: Any) -> tuple[Answered, Floats | None]:
        passed, drawn = deferred, None
        if is_array:
            answers = given
        elif of_errors:
            last, rows = final_step(judge, X)
            if can_defer(last):
                passed = last.defers(rows, **told(last, groups))
            answers = answers_of(judge, X, "predict", groups)
            if "randomised" in has:
                shares = answers_of(judge, X, "randomised", groups)
                drawn = expected_zero_one_losses(labels, shares, labels=classes)
        else:
            last, rows = final_step(judge, X)
            # Any rate of a rule that passes rows on is about them: an error counts among the others alone.
            if can_defer(last) or any(rate.needs_deferral for rate in rates):
                passed = last.defers(rows, **told(last, groups))
            answers = answers_of(judge, X, "predict" if passed is not None else rules_of(last)[-1], groups)
        answered = Answered.of(
            labels,
            answers,
            groups=groups,
            deferred=passed,
            costs=costs if any(rate.needs_costs for rate in rates) else None,
            labels=classes,
            known=there,
        )
        answered = replace(answered, strata=replace(answered.strata, known=crossed))
        return _as_bounds_need(answered, cost_range, pairs=of_errors and None not in columns), drawn

    answered, drawn = ask(model)
    return FreshRows(
        answered,
        drawn,
        tuple(has),
        hashes,
        known,
        known is not None and final.seen_rows_.complete,
        _kinds_listed(listed is not None, known_groups, columns if named is not None else met),
        equal_rows,
        whose,
        ask,
    )


def _as_bounds_need(answered: Answered, cost_range: Any, *, pairs: bool) -> Answered:
    """Return rows with the range of their costs; groups of one column are pairs with its name, if asked."""
    strata = answered.strata
    if answered.costs is not None:
        low, high = (float(end) for end in cost_range)
        if not low <= answered.costs.min() <= answered.costs.max() <= high:
            found = f"{answered.costs.min():g} to {answered.costs.max():g}"
            raise ValueError(f"cost_range={cost_range!r}: there are costs from {found}")
        strata = replace(strata, cost_range=(low, high))
    if pairs and len(strata.columns) == 1 and strata.columns[0] is not None:
        (column,), (values,) = strata.columns, strata.values
        strata = replace(strata, values=(tuple((column, value) for value in values),))
    return replace(answered, strata=strata)
