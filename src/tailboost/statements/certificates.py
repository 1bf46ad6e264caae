"""What can be said of a classifier's errors on rows it has not seen, with a stated confidence."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from tailboost._checks import (
    as_pandas,
    check_alpha,
    check_length,
    check_number,
    check_probabilities,
    check_same_kind,
    check_weights,
    columns_by_name,
    distinct_labels,
    label_column,
    n_rows_of,
    numbered,
    positions,
    refuse_missing,
)
from tailboost._html import html_table, text_table
from tailboost._rows import Sketch, hash_rounded_rows
from tailboost._steps import final_step, label_shares, last_step
from tailboost._typing import Floats, Hashes, Ints, Labels
from tailboost._units import can_defer, told, unit_name
from tailboost.confidence import (
    band_cvar,
    band_shift,
    betting_upper,
    clopper_pearson_upper,
    cvar_of_mean,
    shift_of_mean,
    tail_band,
)
from tailboost.data import take
from tailboost.metrics import expected_zero_one_losses
from tailboost.rates import GAP, RATIO, Answered, Limit, Rate, Sample, parse, wrong
from tailboost.rates import Objective as RateObjective
from tailboost.solvers import cvar, worst_case_weights
from tailboost.statements.known_rows import EqualRows, SeenRowsError, check_equal_rows
from tailboost.statements.rate_bounds import RateBound, rate_bounds
from tailboost.statements.recheck import VERDICTS, Claim, Recheck, shown, up
from tailboost.targets import allowed_errors

__all__ = [
    "Certificate",
    "CertifiedBound",
    "Unit",
    "certify",
    "scored_rows",
    "targets_of",
    "units_of",
]

Kind = Literal["mean", "class", "group", "cell", "cvar", "shift", "worst"]
Rule = Literal["predict", "randomised"]

#: A printed table with more rows shows the largest bounds of each kind.
LONGEST = 60
SHOWN = 12
EXACT, BETTING, NO_ROWS = "Clopper–Pearson", "betting", "no rows"
BAND = "Kolmogorov–Smirnov band"
ASSUMED = (
    "Assumed: the rows are independent draws from the population this is about (no repeated measurements of "
    "one person, no later shift), and none had a part in making or choosing the model."
)
BY_CLUSTERS = (
    "Each of the {:,} clusters has one vote: in a class or group one of its rows there counts, drawn without "
    "a look at its loss. The bounds are on the error of a row drawn at random of a cluster drawn at random. "
    "Assumed: the clusters are independent draws from the population this is about (no later shift), and no "
    "row of theirs had a part in making or choosing the model."
)
ROWS_ALONE = "clusters: bounds on rates count rows; give one row of each person, or rates=()"


# -- the statements ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CertifiedBound:
    """One statement: the expected loss of new rows is at most ``upper``.

    Attributes
    ----------
    kind : {"mean", "class", "group", "cell", "cvar", "shift", "worst"}
        What is bounded. "worst" is the largest of all classes (groups, cells), or, where it is not known
        which there are, of those seen (see ``of_seen``).
    unit : object
        Which: the label, the group, the (class, group) pair; α of a "cvar", the radius of a "shift"; for
        "worst" "class", "group" or "cell"; None for the mean. A group of a table is a pair (column, value).
    rule : {"predict", "randomised"}
        Whether of ``predict``, or of the randomised rule whose label distribution is ``predict_shares``.
    estimate : float or None
        The same of the rows at hand; None where there are none.
    upper : float
        The bound, in [0, 1]; 1 says nothing.
    n : int
        Rows behind it, or clusters that have a vote; of "worst" those of the unit with the largest bound,
        which need not be the one with the largest ``estimate``.
    method : str
        How it was found.
    target : float or None
        The error allowed, where one was given.
    of_seen : bool
        Of "worst": whether it is about the units among these rows alone.
    """

    kind: Kind
    unit: Any
    rule: Rule
    estimate: float | None
    upper: float
    n: int
    method: str
    target: float | None = None
    of_seen: bool = False

    @property
    def certified(self) -> bool | None:
        """Whether the target is certified, that is not below the bound; None without a target."""
        return None if self.target is None else self.upper <= self.target

    @property
    def name(self) -> str:
        """What is bounded, in words."""
        if self.kind == "mean":
            return "mean"
        if self.kind == "cvar":
            return f"CVaR at α = {self.unit:g}"
        if self.kind == "shift":
            return f"shift, KL ≤ {self.unit:g}"
        if self.kind == "worst":
            return f"worst {self.unit}{' seen' if self.of_seen else ''}"
        return f"{self.kind} {_words(self.unit)}"

    @property
    def short(self) -> str:
        """The unit, and which rule, in words."""
        return f"{self.name}{', drawn' if self.rule == 'randomised' else ''}"

    @property
    def title(self) -> str:
        """What is bounded, in words."""
        return f"error of {self.short}"

    @property
    def claim(self) -> Claim:
        """What new rows can contradict."""
        return Claim("mean", (self.unit,), upper=self.upper)

    heads: ClassVar = ("error of", "rule", "rows", "seen", "at most", "by", "target", "")

    @property
    def cells(self) -> list[str]:
        """What it says, as cells under `heads`."""
        target = "" if self.target is None else f"{self.target:g}"
        found = [self.name, self.rule, f"{self.n:,}", shown(self.estimate), up(self.upper), self.method]
        return [*found, target, VERDICTS[self.certified]]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, for JSON."""
        return asdict(self) | {"certified": self.certified}


def _words(unit: Any) -> str:
    """Name a unit: a pair within a pair is a group of a table, (column, value)."""
    if isinstance(unit, tuple) and isinstance(unit[-1], tuple):
        return f"{unit[0]} / {' = '.join(map(str, unit[-1]))}"
    return unit_name(unit)


@dataclass(frozen=True)
class Certificate:
    """Upper bounds that all hold together with the stated confidence, about rows like those judged.

    Attributes
    ----------
    bounds : list of CertifiedBound
        In the order mean, CVaR, shift, classes, groups, cells, each kind followed by its worst.
    confidence : float
        Probability, over the draw of the rows, that all bounds hold.
    n_rows : int
        Rows they were made on.
    notes : tuple of str
        What is assumed, what is known of the rows, and how the confidence is shared.
    rates : tuple of RateBound
        Bounds on rates, where rates were asked for.
    attempts : tuple of Sketch
        Of `tailboost.calibrate`: fingerprints of the rows of this and all earlier attempts.
    """

    bounds: list[CertifiedBound]
    confidence: float
    n_rows: int
    notes: tuple[str, ...]
    model: Any = field(default=None, repr=False, compare=False)
    rows: Sketch | None = field(default=None, repr=False, compare=False)
    attempts: tuple[Sketch, ...] = field(default=(), repr=False, compare=False)
    rates: tuple[RateBound, ...] = ()

    def bound(self, kind: Kind, unit: Any = None, rule: Rule = "predict") -> CertifiedBound:
        """Return one of the bounds.

        Parameters
        ----------
        kind, unit, rule
            As `CertifiedBound` has them; no unit where the kind has one bound alone.

        Returns
        -------
        CertifiedBound

        Raises
        ------
        KeyError
            If there is no such bound.
        """
        for b in self.bounds:
            if (b.kind, b.unit, b.rule) == (kind, unit, rule):
                return b
        raise KeyError(f"no bound of kind {kind!r}, unit {unit!r}, rule {rule!r}")

    @property
    def certified(self) -> bool | None:
        """Whether all targets are certified; None where none was given."""
        answers = [b.certified for b in self.bounds if b.target is not None]
        answers += [b.certified for b in self.rates if b.target is not None]
        return all(answers) if answers else None

    def recheck(
        self,
        X: Any,
        y: Any,
        *,
        groups: Any = None,
        model: Any = None,
        previous: Recheck | None = None,
        costs: Any = None,
        cost_range: tuple[float, float] | None = None,
        equal_rows: EqualRows = "copies",
        clusters: Any = None,
    ) -> Recheck:
        """Say for each bound whether new rows contradict it; one may look after every batch.

        Bets on every bound being broken gain where new rows break it (an e-process, anytime-valid): that any
        wealth ever exceeds the threshold, m/(1 − confidence) for m bounds, has a probability of at most
        1 − confidence if all bounds are true. Bounds on a CVaR, a shift and the worst unit are not tested by
        themselves. A gap or ratio of rates is tested by differences of rows of its units.

        Parameters
        ----------
        X, y : array-like
            New rows and their labels, as in `certify`.
        groups : optional
            Their groups, where the certificate has bounds on groups.
        model : optional
            The classifier, or its answers to the new rows, where the certificate has none with it.
        previous : Recheck, optional
            What was found on earlier batches, to go on from there.
        costs, cost_range : optional
            As in `certify`, where it has bounds on costs of rows; the range has to stay the same.
        equal_rows : {"copies", "natural"}, default="copies"
            What rows that equal others are held for, as in `certify`.
        clusters : array-like of shape (n,), optional
            Whose rows these are, as in `certify`; each may be in one batch alone.

        Returns
        -------
        Recheck

        Raises
        ------
        ValueError
            If an argument is not as in `certify`, or rows were seen before: by the fit, the certificate or an
            earlier batch.
        """
        judge = self.model if model is None else model
        if judge is None:
            raise ValueError("model is needed: this certificate is about answers that were given as an array")
        found = Recheck.begun(self.tested, self.confidence) if previous is None else previous
        if len(found.evidence) != len(self.tested):
            raise ValueError("previous is about another certificate")
        if clusters is not None and self.rates:
            raise ValueError(ROWS_ALONE)
        rules = {b.rule for b in self.tested} if not self.rates else set()
        scored = scored_rows(judge, X, y, groups, rules, equal_rows=equal_rows, clusters=clusters)
        if rules - set(scored.losses):
            raise ValueError("model has no randomised rule, of which the certificate has bounds")
        sketches = found.rows if self.rows is None else (self.rows, *found.rows)
        hashes = scored.hashes if equal_rows == "copies" else None
        if hashes is not None and any(known.beyond_chance(hashes) for known in sketches):
            raise SeenRowsError(
                "X holds rows that the certificate was made on, or that were rechecked before, or rows equal "
                "to them (say equal_rows='natural' where fresh rows equal others by nature)"
            )
        if self.rates:
            stated = list(dict.fromkeys(b.rate for b in self.rates))
            answered = answered_rows(judge, X, scored, groups, stated, costs, cost_range)
            samples = _samples_of_rates(self.rates, answered, scored)
        else:
            samples = _samples_of_errors(self.tested, scored, groups)
        return found.add(samples, () if scored.hashes is None else (Sketch.of(scored.hashes),))

    @property
    def tested(self) -> list[Any]:
        """The bounds that new rows can contradict: those on rates, or on means of units."""
        return list(self.rates) or [b for b in self.bounds if b.kind in ("mean", "class", "group", "cell")]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, for JSON."""
        return {
            "confidence": self.confidence,
            "n_rows": self.n_rows,
            "certified": self.certified,
            "bounds": [b.to_dict() for b in self.bounds],
            "rates": [b.to_dict() for b in self.rates],
            "notes": list(self.notes),
        }

    def _title(self) -> str:
        return (
            f"With {100 * self.confidence:.6g} % confidence all of these hold together on new rows drawn as "
            f"these {self.n_rows:,} were"
        )

    def __str__(self) -> str:
        left = (0, 1, 6, 7, 8) if self.rates else (0, 1, 5, 7)
        lines = [f"{self._title()}:", "", text_table(*self.cells(), left=left), ""]
        return "\n".join([*lines, *(f"* {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        return f"<div>{html_table(*self.cells(), self._title())}<ul>{items}</ul></div>"

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the headings and rows of the table of bounds; of very many the largest."""
        shown = self.bounds if len(self.bounds) <= LONGEST else _largest(self.bounds)
        bounds: Sequence[CertifiedBound | RateBound] = self.rates or shown
        width = None if any(b.target is not None for b in bounds) else -2
        heads, rows = list(bounds[0].heads[:width]), [b.cells[:width] for b in bounds]
        if len(bounds) < len(self.bounds):
            more = f"… and {len(self.bounds) - len(shown):,} smaller ones in .bounds"
            rows.append([more, *[""] * (len(heads) - 1)])
        return heads, rows


def _largest(bounds: Sequence[CertifiedBound]) -> list[CertifiedBound]:
    """Keep the largest bounds of each kind and rule, and those that miss their targets first."""
    kept: set[int] = set()
    for kind, rule in {(b.kind, b.rule) for b in bounds}:
        of_kind = [i for i, b in enumerate(bounds) if (b.kind, b.rule) == (kind, rule)]
        order = sorted(of_kind, key=lambda i: (bounds[i].certified is not False, -bounds[i].upper))
        kept.update(order[:SHOWN])
    return [bounds[i] for i in sorted(kept)]


# -- rows and units ----------------------------------------------------------------------------------------


def _column_of(group: Any) -> Any:
    """Return the column that a group is of: a group of a table is a pair (column, value)."""
    return group[0] if isinstance(group, tuple) else None


@dataclass(frozen=True)
class JudgedLosses:
    """Rows with the losses of a model's rules."""

    y: Labels  # shape (n,): labels
    classes: Labels  # shape (K,): all labels, or those seen
    losses: dict[Rule, Floats]  # loss in [0, 1] of each row, by rule
    hashes: Hashes | None  # shape (n,): the rows by content; None where only answers were given
    # Shape (m, 2): how many of how many rows equal one that the model was fitted on, and that it was chosen
    # on (as `KnownRows.count_known` says); None where the model keeps no fingerprints.
    known: Ints | None
    complete: bool = False  # whether the model keeps fingerprints of all rows that it was fitted on
    listed: bool = True  # whether ``classes`` are all that there are
    # groups, groups_of_fit: names of all groups that there are, as listed by the caller; those that the model
    # was fitted with.
    groups: list[Any] | None = None
    groups_of_fit: list[Any] | None = None
    equal_rows: EqualRows = "copies"  # {"copies", "natural"}: what equal rows were said to be
    clusters: Ints | None = None  # shape (n,): whose rows these are, where a cluster has one vote

    @property
    def assumed(self) -> str:
        """What is assumed of the rows."""
        return ASSUMED if self.clusters is None else BY_CLUSTERS.format(len(np.unique(self.clusters)))

    def all_groups(self, seen: Collection[Any]) -> list[Any] | None:
        """Return the names of all groups that there are, where that is known.

        Those of the fit serve if of every column of the groups seen some were there.
        """
        if self.groups is not None or self.groups_of_fit is None:
            return self.groups
        columns = {_column_of(name) for name in seen}
        same = [name for name in self.groups_of_fit if _column_of(name) in columns]
        met = {_column_of(name) for name in same if name in seen}
        return same if met == columns else None


def scored_rows(
    model: Any,
    X: Any,
    y: Any,
    groups: Any = None,
    rules: Collection[Rule] | None = None,
    *,
    equal_rows: EqualRows = "copies",
    units: Any = None,
    clusters: Any = None,
) -> JudgedLosses:
    """Return rows with the losses of a model, or of answers given as an array, by each of its rules or some.

    Groups are for a model whose answers depend on them.

    Raises
    ------
    SeenRowsError
        If the model knows the rows from its fit.
    ValueError
        If an argument is not as in `certify`.
    """
    check_equal_rows(equal_rows)
    listed, named = units_listed(units, groups)
    labels = label_column(y, "y")
    whose = None if clusters is None else numbered(clusters, "clusters", len(labels))
    if not hasattr(model, "predict"):
        if X is not None:
            raise ValueError(f"X must be None where model is an array of answers, got {type(model).__name__}")
        answers, classes = _answers(np.asarray(model), labels, listed)
        losses: dict[Rule, Floats] = {"predict": wrong(answers, labels).astype(np.float64)}
        return JudgedLosses(
            labels, classes, losses, None, None, False, listed is not None, named, clusters=whose
        )
    if X is None:
        raise ValueError("X is needed: model is a classifier")
    check_length(labels, "y", n_rows_of(X))
    final, table = final_step(model, X)
    known = final.count_known(table) if hasattr(final, "seen_rows_") else None
    if known is not None and equal_rows != "natural":
        final.refuse_known(known)
    complete = known is not None and final.seen_rows_.complete
    if hasattr(model, "classes_"):
        listed = model.classes_
        classes = label_column(listed, "classes_")
    else:
        classes = _all_labels(labels, np.asarray(model.predict(X)), listed)
    check_same_kind(labels, "y", classes, "classes_ of the model")
    numbers = positions(labels, classes, "y")
    if known is not None and equal_rows == "natural":
        final.refuse_unnatural(known, table, numbers)
    chosen = rules_of(final) if rules is None else [rule for rule in rules if has_rule(final, rule)]
    losses = {rule: rule_losses(model, X, labels, classes, rule, groups) for rule in chosen}
    hashes = hash_rounded_rows(_as_table(X))
    listing = (listed is not None, named, groups_of_fit(final))
    return JudgedLosses(labels, classes, losses, hashes, known, complete, *listing, equal_rows, whose)


def groups_of_fit(final: Any) -> list[Any] | None:
    """Return the names of the groups that a classifier was fitted with, if any."""
    names = getattr(final, "groups_", None)
    return None if names is None else list(names.tolist() if hasattr(names, "tolist") else names)


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
    if not lists or not set(lists) <= {"class", "group"} or any(map(_is_no_list, lists.values())):
        raise ValueError(
            "units must be a list of the groups that there are, or a dict with such lists for 'class' and "
            f"'group', got {units!r}"
        )
    if "group" in lists and groups is None:
        raise ValueError(f"units={units!r} lists groups, but groups is not given")
    classes = distinct_labels(lists["class"], "units") if "class" in lists else None
    if "group" not in lists:
        return classes, None
    values = lists["group"].tolist() if hasattr(lists["group"], "tolist") else lists["group"]
    names = [tuple(name) if isinstance(name, list) else name for name in values]
    columns = list(columns_by_name(groups, "groups"))
    if not {_column_of(name) for name in names} <= set(columns):
        of = "(column, value) pairs" if columns != [None] else "values of groups"
        raise ValueError(f"units must name groups as bounds do, as {of}, got {units!r}")
    return classes, names


def _is_no_list(names: Any) -> bool:
    return isinstance(names, (str, bytes, Mapping)) or not hasattr(names, "__len__") or len(names) == 0


def rules_of(final: Any) -> list[Rule]:
    """Return the rules that a classifier has: where one member has the whole share, both are `predict`."""
    return (
        ["predict", "randomised"] if has_rule(final, "randomised") and not one_answers(final) else ["predict"]
    )


def one_answers(model: Any) -> bool:
    """Whether a model is a mixture of which one member has the whole share."""
    return not getattr(getattr(last_step(model), "ensemble_", None), "draws", True)


def has_rule(final: Any, rule: Rule) -> bool:
    """Whether a classifier can be asked for a rule."""
    return rule == "predict" or hasattr(final, "predict_randomized")


def rule_losses(model: Any, X: Any, y: Labels, classes: Labels, rule: Rule, groups: Any = None) -> Floats:
    """Return the loss in [0, 1] of each row, for labels that were checked."""
    if given := told(last_step(model), groups):  # a pipeline or a search hands groups on only if told to
        model, X = final_step(model, X)
    if rule == "predict":
        return wrong(np.asarray(model.predict(X, **given)), y).astype(np.float64)
    return expected_zero_one_losses(y, label_shares(model, X, **given), labels=classes)


def _as_table(X: Any) -> Any:
    X = as_pandas(X)
    if issparse(X):
        return X.tocsr()  # not every format has rows to take
    return X if hasattr(X, "shape") else np.asarray(X)


def _all_labels(y: Labels, answers: Labels, listed: Labels | None) -> Labels:
    """Return the labels that rows have or are answered, and those listed."""
    check_same_kind(answers, "model", y, "y")
    if listed is not None:
        check_same_kind(listed, "units", y, "y")
    return np.unique(np.concatenate([y, answers, *([] if listed is None else [listed])]))


def _answers(given: NDArray[Any], y: Labels, listed: Labels | None) -> tuple[Labels, Labels]:
    """Return the labels answered, from labels or from probabilities, and all labels."""
    if given.ndim == 2:
        classes = _all_labels(y, y, listed)
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
    answers = label_column(given, "model")
    check_length(answers, "model", len(y), "y")
    return answers, _all_labels(y, answers, listed)


@dataclass(frozen=True)
class Unit:
    """All rows, a class, a group or a cell: its name, and the numbers of its rows that count."""

    kind: Kind
    name: Any
    rows: Ints


def units_of(scored: JudgedLosses, groups: Any) -> list[Unit]:
    """Return all units: everything, the classes, and, where there are groups, these and the cells.

    Groups that there are and cells, that is pairs of a class and a group, are units also without rows.
    """
    n, K = len(scored.y), len(scored.classes)
    label = positions(scored.y, scored.classes, "y")
    names = scored.classes.tolist()
    units = [Unit("mean", None, np.arange(n))]
    classes = [Unit("class", names[k], rows) for k, rows in enumerate(_split(label, K))]
    found = [Unit("group", name, rows) for name, rows in _groups(groups, n)]
    seen = [g.name for g in found]
    nobody = np.empty(0, dtype=np.intp)
    found += [Unit("group", name, nobody) for name in scored.all_groups(seen) or [] if name not in seen]
    cells = [
        Unit("cell", (names[k], g.name), g.rows[rows])
        for g in found
        for k, rows in enumerate(_split(label[g.rows], K))
    ]
    every = [*units, *classes, *found, *cells]
    if scored.clusters is None:
        return every
    lots = _lots(label, scored.hashes)
    return [replace(unit, rows=_one_each(unit.rows, scored.clusters, lots)) for unit in every]


def _lots(label: Ints, hashes: Hashes | None) -> Hashes:
    """Return a lot for each row, by content and label: nobody chose it, and the order has no part in it.

    Rows whose content is not known draw by their place.
    """
    drawn = np.random.default_rng(0).permutation(len(label)).astype(np.uint64) if hashes is None else hashes
    mixed = (drawn + label.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    lots: Hashes = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return lots


def _one_each(rows: Ints, clusters: Ints, lots: Hashes) -> Ints:
    """Return of some rows the one of each cluster that has the least lot, in the order of the rows."""
    order = rows[np.lexsort((lots[rows], clusters[rows]))]
    return np.sort(order[np.r_[True, np.diff(clusters[order]) > 0]]) if len(rows) else rows


def _split(index: Ints, n_units: int) -> list[Ints]:
    """Return the row numbers of each unit."""
    return np.split(np.argsort(index, kind="stable"), np.bincount(index, minlength=n_units).cumsum()[:-1])


def _groups(groups: Any, n: int) -> Iterator[tuple[Any, Ints]]:
    """Yield the groups of one column by their values, those of a table by (column, value)."""
    if groups is None:
        return
    for name, values in columns_by_name(groups, "groups").items():
        called = "groups" if name is None else f"groups column {name!r}"
        refuse_missing(values, called)
        column = label_column(values, called)
        check_length(column, called, n)
        values, index = np.unique(column, return_inverse=True)
        for value, rows in zip(values.tolist(), _split(index, len(values)), strict=True):
            yield (value if name is None else (name, value)), rows


def targets_of(max_error: Any, units: Sequence[Unit]) -> dict[tuple[Kind, Any], float]:
    """Return the error allowed to units by (kind, name), as a float or a dict says it.

    A float is about the groups where there are any, else about the classes, as in a fit. A dict names
    classes, groups or cells (pairs of class and group); those it does not name, also by the key None, have
    no target.

    Raises
    ------
    ValueError
        If a target is not in (0, 1], or names no unit.
    """
    if max_error is None:
        return {}
    grouped = any(u.kind == "group" for u in units)
    kinds: tuple[Kind, ...] = ("group", "class", "cell") if grouped else ("class",)
    names: dict[Kind, list[Any]] = {k: [u.name for u in units if u.kind == k] for k in kinds}
    kind = kinds[0]
    if isinstance(max_error, Mapping):
        if not max_error:
            raise ValueError("max_error={} names no unit: leave it out, or name what errors are allowed to")
        keys = [key for key in max_error if key is not None]
        known = [name for k in kinds for name in names[k]]
        for key in keys:
            if key not in known:
                which = f"no {' or '.join(kinds)} is called {key!r}; there are {known[:20]}"
                raise ValueError(f"max_error={max_error!r}: {which}")
        about = [k for k in kinds if keys and all(key in names[k] for key in keys)]
        if keys and not about:
            raise ValueError(
                f"max_error={max_error!r} names units of several kinds, such as classes and groups"
            )
        if len(about) > 1:
            raise ValueError(
                f"max_error={max_error!r}: {keys[0]!r} names a class and a group; rename the groups"
            )
        kind = about[0] if about else kind
        max_error = {None: 1.0, **max_error}
    else:
        max_error = check_number(max_error, "max_error", 0, 1)
    allowed = allowed_errors(max_error, names[kind], kind)
    pairs = zip(names[kind], allowed.tolist(), strict=True)
    return {(kind, name): a for name, a in pairs if a < 1}


def _samples_of_errors(
    tested: Sequence[CertifiedBound], scored: JudgedLosses, groups: Any
) -> list[list[Sample] | None]:
    """Return for each bound the losses of the rows that it is about; None where there are none."""
    if groups is None and any(b.kind in ("group", "cell") for b in tested):
        raise ValueError("groups is needed: the certificate has bounds on groups")
    inside = {(u.kind, u.name): u.rows for u in units_of(scored, groups)}
    pairs = [(b, inside.get((b.kind, b.unit))) for b in tested]
    return [
        None if rows is None else [Sample(b.unit, rows, scored.losses[b.rule][rows], 0.0, 1.0)]
        for b, rows in pairs
    ]


def _samples_of_rates(
    bounds: Sequence[RateBound], answered: Answered, scored: JudgedLosses
) -> list[list[Sample] | None]:
    """Return for each bound the rows of its units, in the order of their lots; None where there are none."""
    place = np.argsort(_lots(positions(scored.y, scored.classes, "y"), scored.hashes), kind="stable")
    rank = np.empty_like(place)
    rank[place] = np.arange(len(place))
    of_rate = {
        rate: {sample.name: sample.ordered(rank) for sample in answered.samples(rate)}
        for rate in {bound.rate for bound in bounds}
    }

    def rows(bound: RateBound) -> list[Sample] | None:
        of, units = of_rate[bound.rate], bound.claim.units
        if not any(unit in of for unit in units):
            return None
        empty = next(iter(of.values())).without_rows
        return [of[unit] if unit in of else empty(unit) for unit in units]

    return [rows(bound) for bound in bounds]


# -- certify -----------------------------------------------------------------------------------------------


def certify(
    model: Any,
    X: Any,
    y: Any,
    *,
    confidence: float = 0.95,
    alphas: Sequence[float] = (),
    shifts: Sequence[float] = (),
    groups: Any = None,
    max_error: Any = None,
    sample_weight: Any = None,
    units: Any = None,
    rates: Any = None,
    costs: Any = None,
    cost_range: tuple[float, float] | None = None,
    equal_rows: EqualRows = "copies",
    clusters: Any = None,
) -> Certificate:
    """Bound a classifier's errors on new rows, from rows that had no part in its making.

    All bounds hold together with the stated confidence, whatever the classifier and the population and
    however few rows there are. The confidence is shared by the union bound: in equal parts among the kinds
    (the means of all rows, the classes, the groups, the cells, and the tail of the randomised rule where
    `alphas` or `shifts` ask for it), and within a kind among its units that have rows, and the rules. What
    follows from other bounds costs nothing: the worst class is the largest class bound, and CVaR and shift
    of ``predict`` follow exactly from its mean.

    * ``predict``: Clopper–Pearson, exact for error rates.
    * The randomised rule of tailboost's mixtures, with losses 1 − share of the true label: betting
      (`tailboost.confidence.betting_upper`), and a Kolmogorov–Smirnov band for tails.

    Parameters
    ----------
    model : fitted classifier, pipeline, or array
        Any with ``predict``. Or its answers to the rows, with ``X=None``: labels of shape (n,), or
        probabilities of shape (n, K) with columns in the order of the sorted labels of ``y``; ``predict``
        is then their argmax.
    X, y : array-like of shape (n, d), (n,)
        Rows and their labels: independent draws from the population that the bounds are to be about.
    confidence : float in (0, 1), default=0.95
        Probability that all bounds hold.
    alphas : sequence of float in (0, 1]
        Tail masses of CVaR bounds.
    shifts : sequence of float ≥ 0
        Radii of shifts of the population, as relative entropy KL(shifted ‖ here); see `tailboost.robustness`.
    groups : array-like of shape (n,), or table of shape (n, c), optional
        Group of each row, or several columns of groups, of which every value is a group: then also groups and
        class × group cells are bounded. A model with ``by_group=True`` is told its column. The
        groups that there are are those of the model's fit (``groups_``), if it was fitted with groups of
        these columns, and those seen here. One without rows has the bound 1, and so has the worst.
    max_error : float or dict, optional
        Targets: for each of the groups, or without groups of the classes; a dict names classes, groups or
        cells, and the rest under None. A target is certified where it is not below the bound of ``predict``
        (or of the randomised rule).
    sample_weight : array-like of shape (n,), optional
        Only 0 (the row is left out) and one other value: bounds for unequal weights are refused.
    rates : list of Rate, Limit or str, optional
        Rates to bound instead of errors, from `tailboost.rates` or as text: of a rate both sides in each
        unit, of a limit the side that it is about, with whether it is certified. By default a model that was
        fitted within limits has these bounded, and what it was to make small; ``()`` bounds errors. Costs lie
        between the least and the largest of their matrix.
    costs : array-like of shape (n, K), optional
        What each answer costs in each row, for ``rates.cost()`` without a matrix.
    cost_range : (float, float), optional
        Between which the cost of any answer to any row lies, as contracts or the law say: a bound on a mean
        needs it, and the rows at hand do not show it.
    units : list or dict of lists, optional
        The groups that there are, by the names that bounds have, or ``{"class": […], "group": […]}``. Without
        it, where neither the model says it, the worst is that of the groups (labels) seen, and is called so.
    equal_rows : {"copies", "natural"}, default="copies"
        What rows that equal one fitted on are held for. More than one in twenty (by three standard errors)
        are refused as copies, since errors on them prove little, unless they are said to be natural: where
        features take few values and no row was copied, sampled with replacement or made by oversampling, in
        the fit's table and in this one. How many there are is in the certificate.
    clusters : array-like of shape (n,), optional
        Whose rows these are, where persons, households or places have several. Each has then one vote in a
        class or group: one of its rows there counts, drawn by content. The clusters are the independent
        draws, and their rows may depend on each other in any way, copies among them.

    Returns
    -------
    Certificate

    Raises
    ------
    SeenRowsError
        If rows equal rows fitted on, or rows that the shares of the mixture were chosen on (where the model
        knows), and that is not said to be natural.
    ValueError
        If an argument is not as described.

    Examples
    --------
    >>> import numpy as np
    >>> import tailboost as tb
    >>> y = np.repeat([0, 1], [100, 200])
    >>> answers = np.where(np.arange(300) % 12 == 0, 1 - y, y)  # or a fitted model, with X
    >>> cert = tb.certify(answers, None, y, max_error=0.15)
    >>> for b in cert.bounds:
    ...     print(f"{b.name}: {b.estimate:.3f} seen, at most {b.upper:.3f}")
    mean: 0.083 seen, at most 0.121
    class 0: 0.090 seen, at most 0.175
    class 1: 0.080 seen, at most 0.134
    worst class seen: 0.090 seen, at most 0.175
    >>> cert.certified
    False
    """
    asked = CertificateRequest.of(confidence, alphas, shifts)
    plain = max_error is not None or bool(asked.tails or asked.radii)
    stated = own_rates(model) if rates is None and not plain else rates_asked(rates or ())
    if stated and plain:
        raise ValueError("rates and max_error, alphas or shifts: ask for them one after the other")
    X, y, groups, model, costs, clusters = _weighted(model, X, y, groups, sample_weight, costs, clusters)
    if stated:
        if clusters is not None:
            raise ValueError(ROWS_ALONE)
        known = scored_rows(model, X, y, groups, (), equal_rows=equal_rows, units=units)
        answered = answered_rows(model, X, known, groups, stated, costs, cost_range)
        return _certificate_of_rates(stated, answered, known, asked, model)
    scored = scored_rows(model, X, y, groups, equal_rows=equal_rows, units=units, clusters=clusters)
    hashes = scored.hashes
    sketch = None if hashes is None else Sketch.of(hashes)
    return certificate_of(
        scored, groups, max_error, asked, model if hasattr(model, "predict") else None, sketch
    )


# -- rates -------------------------------------------------------------------------------------------------


def rates_asked(given: Any) -> list[Rate | Limit | RateObjective]:
    """Return rates and limits that were asked for, also as text, checked."""
    found: list[Rate | Limit | RateObjective] = []
    each = [given] if isinstance(given, (str, Rate, Limit)) else given
    for one in each:
        read = parse(one) if isinstance(one, str) else one
        if not isinstance(read, (Rate, Limit, RateObjective)):
            raise TypeError(
                f"rates: {one!r} is no rate or limit; give a family of rates, or compare a gap or ratio with "
                "a number"
            )
        found.append(read)
    return found


def own_rates(model: Any) -> list[Rate | Limit | RateObjective]:
    """Return what a model was to make small and its limits, where it was fitted for limits."""
    final = last_step(model)
    limits = list(getattr(final, "limits", ()) or ())
    objective = getattr(final, "objective_", None)
    return [*([objective] if isinstance(objective, RateObjective) else []), *limits] if limits else []


def answered_rows(
    model: Any,
    X: Any,
    scored: JudgedLosses,
    groups: Any,
    stated: Sequence[Rate | Limit | RateObjective],
    costs: Any = None,
    cost_range: Any = None,
) -> Answered:
    """Return rows with what a model, or an array, answers to them.

    Of a mixture that draws these are the shares of its answers.

    Raises
    ------
    ValueError
        If rates speak of groups or costs that were not given, or costs lie outside their range.
    """
    rates = [one.rate for one in stated]
    for rate in rates:
        if rate.needs_groups and groups is None:
            raise ValueError(f"{rate!r} needs groups; rates=() bounds errors by class instead")
        if rate.needs_costs and (costs is None or cost_range is None):
            raise ValueError(
                f"{rate!r} is a mean of costs of the rows: give costs=, and cost_range=(least, largest), "
                "between which the cost of any answer to any row lies; rows at hand cannot tell that"
            )
    deferred = None
    if not hasattr(model, "predict"):
        answers: Any = _answers(np.asarray(model), scored.y, scored.classes)[0]
    else:
        given = told(last_step(model), groups)
        final, table = final_step(model, X) if given else (model, X)
        # Any rate of a rule that passes rows on is about them: an error counts among the others alone.
        if can_defer(last_step(model)) or any(rate.needs_deferral for rate in rates):
            last, rows = final_step(model, X)
            deferred = last.defers(rows, **given)
        draws = deferred is None and not one_answers(model) and has_rule(last_step(model), "randomised")
        answers = label_shares(final, table, **given) if draws else np.asarray(final.predict(table, **given))
    named: dict[Any, list[Any]] = {}
    if groups is not None:
        for name in scored.groups or scored.groups_of_fit or []:
            column, value = name if isinstance(name, tuple) else (None, name)
            named.setdefault(column, []).append(value)
    answered = Answered.of(
        scored.y,
        answers,
        groups=groups,
        deferred=deferred,
        costs=costs if any(rate.needs_costs for rate in rates) else None,
        labels=scored.classes,
        known=named,
    )
    if answered.costs is None:
        return answered
    low, high = (float(end) for end in cost_range)
    if not low <= answered.costs.min() <= answered.costs.max() <= high:
        found = f"{answered.costs.min():g} to {answered.costs.max():g}"
        raise ValueError(f"cost_range={cost_range!r}: there are costs from {found}")
    return replace(answered, strata=replace(answered.strata, cost_range=(low, high)))


def _certificate_of_rates(
    stated: Sequence[Rate | Limit | RateObjective],
    answered: Answered,
    scored: JudgedLosses,
    asked: CertificateRequest,
    model: Any,
) -> Certificate:
    bounds = tuple(rate_bounds(stated, answered, 1.0 - asked.confidence))
    notes = [ASSUMED, words_of_known(scored)]
    empty = dict.fromkeys(
        f"{b.rate} of {b.unit_words}" for b in bounds if not b.n and b.unit not in (GAP, RATIO)
    )
    if empty:
        more = f" and {len(empty) - SHOWN:,} more" if len(empty) > SHOWN else ""
        words = "; ".join(list(empty)[:SHOWN])
        notes.append(f"No row is there to count among, so that nothing is known of: {words}{more}.")
    notes.append(
        "The confidence is shared by the union bound, evenly among the bounds on means of units with rows; "
        "gaps and ratios follow from those of their units."
    )
    if answered.draws:
        notes.append("These are rates of the rule that draws, as `tailboost decide` does; not of predict.")
    if any(isinstance(b.unit, tuple) for b in bounds):
        notes.append("Combinations of groups that no row here has are not among the units.")
    sketch = None if scored.hashes is None else Sketch.of(scored.hashes)
    judge = model if hasattr(model, "predict") else None
    return Certificate([], asked.confidence, len(scored.y), tuple(notes), judge, sketch, rates=bounds)


@dataclass(frozen=True)
class CertificateRequest:
    """What a certificate is asked for, checked."""

    confidence: float
    tails: list[float]
    radii: list[float]

    @classmethod
    def of(cls, confidence: float, alphas: Sequence[float], shifts: Sequence[float]) -> CertificateRequest:
        """Check what `certify` was asked for."""
        check_number(confidence, "confidence", 0, 1, below=True)
        tails = [check_alpha(alpha, "each of alphas") for alpha in np.atleast_1d(np.asarray(alphas)).tolist()]
        radii = np.atleast_1d(np.asarray(shifts)).tolist()
        radii = [check_number(radius, "each of shifts", 0, closed=True) for radius in radii]
        return cls(float(confidence), tails, radii)


def certificate_of(
    scored: JudgedLosses,
    groups: Any,
    max_error: Any,
    asked: CertificateRequest,
    model: Any,
    sketch: Sketch | None,
) -> Certificate:
    """Return the certificate of rows whose losses are known; see `certify`."""
    tails, radii, confidence = asked.tails, asked.radii, asked.confidence
    units = units_of(scored, groups)
    targets = targets_of(max_error, units)
    kinds: list[str] = ["mean", "class", *(["group", "cell"] if groups is not None else [])]
    kinds += ["tail"] if "randomised" in scored.losses and (tails or radii) else []
    level = (1.0 - confidence) / len(kinds)
    bounds: list[CertifiedBound] = []
    for kind in ("mean", "class", "group", "cell"):
        found = list(_mean_bounds([u for u in units if u.kind == kind], scored, level, targets))
        bounds += found
        if kind == "mean":
            bounds += _tail_bounds(scored, units[0], found, tails, radii, level)
        elif found:
            bounds += _worst(found, scored.losses, of_seen=not _all_listed(scored, units, kind))
    notes = _notes(scored, units, kinds, model)
    return Certificate(bounds, confidence, len(scored.y), notes, model, sketch)


def _all_listed(scored: JudgedLosses, units: Sequence[Unit], kind: str) -> bool:
    """Whether the units of a kind are known to be all that there are."""
    if kind == "class":
        return scored.listed
    groups = scored.all_groups([u.name for u in units if u.kind == "group"])
    return groups is not None and (kind == "group" or scored.listed)


def _weighted(model: Any, X: Any, y: Any, groups: Any, sample_weight: Any, *others: Any) -> tuple[Any, ...]:
    """Leave out rows of weight 0, also of other tables or None; refuse unequal weights."""
    if sample_weight is None:
        return X, y, groups, model, *others
    weight = check_weights(sample_weight, n_rows_of(y))
    used = weight > 0
    if np.ptp(weight[used]) > 0:
        raise ValueError(
            "sample_weight: rows of unequal weight are no independent draws from the population that the "
            "weights stand for, and have no bound here. Draw rows without weights, or keep row i with "
            "probability weight_i / (largest weight possible) and give the rows kept"
        )
    if used.all():
        return X, y, groups, model, *others
    if not hasattr(model, "predict"):
        model = np.asarray(model)[used]
    X, groups, *rest = (take(as_pandas(table), used) for table in (X, groups, *others))
    return X, np.asarray(y)[used], groups, model, *rest


def mean_bound(losses: Floats, rule: Rule, delta: float) -> tuple[float, str]:
    """Return an upper bound on the mean loss of a rule, and its method."""
    if len(losses) == 0:
        return 1.0, NO_ROWS
    if rule == "predict":
        return clopper_pearson_upper(int(losses.sum()), len(losses), delta), EXACT
    return betting_upper(losses, delta), BETTING


def _mean_bounds(
    units: Sequence[Unit], scored: JudgedLosses, level: float, targets: Mapping[tuple[Kind, Any], float]
) -> Iterator[CertifiedBound]:
    """Yield the bounds on the means of units of one kind, which share the level."""
    with_rows = sum(bool(len(u.rows)) for u in units) * len(scored.losses)
    for unit in units:
        for rule, losses in scored.losses.items():
            inside = losses[unit.rows]
            upper, method = mean_bound(inside, rule, level / max(1, with_rows))
            seen = float(inside.mean()) if len(inside) else None
            target = targets.get((unit.kind, unit.name))
            yield CertifiedBound(unit.kind, unit.name, rule, seen, upper, len(inside), method, target)


def _tail_bounds(
    scored: JudgedLosses,
    everything: Unit,
    means: Sequence[CertifiedBound],
    alphas: Sequence[float],
    radii: Sequence[float],
    level: float,
) -> Iterator[CertifiedBound]:
    """Yield bounds on CVaR and under shifts: from the mean, and for the randomised rule also from a band."""
    for mean in means:
        losses = scored.losses[mean.rule][everything.rows]
        exact = mean.rule == "predict"
        band = None if exact or not (alphas or radii) else tail_band(losses, level)
        by_mean = "exactly from the mean" if exact else "from the mean"
        for alpha in alphas:
            upper, method = cvar_of_mean(mean.upper, alpha), by_mean
            if band is not None and (other := band_cvar(band, alpha)) < upper:
                upper, method = other, BAND
            yield CertifiedBound("cvar", alpha, mean.rule, cvar(losses, alpha), upper, mean.n, method)
        for radius in radii:
            upper, method = shift_of_mean(mean.upper, radius), by_mean
            if band is not None and (other := band_shift(band, radius)) < upper:
                upper, method = other, BAND
            seen = worst_case_weights(losses, "kl", radius=radius).value
            yield CertifiedBound("shift", radius, mean.rule, seen, upper, mean.n, method)


def _worst(
    bounds: Sequence[CertifiedBound], rules: Iterable[Rule], *, of_seen: bool
) -> Iterator[CertifiedBound]:
    """Yield the largest bound of units of one kind, by rule."""
    for rule in rules:
        of_rule = [b for b in bounds if b.rule == rule]
        top = max(of_rule, key=lambda b: b.upper)
        seen = max(b.estimate for b in of_rule if b.estimate is not None)
        method = f"largest {top.kind} bound"
        targets = {b.target for b in of_rule}
        common = targets.pop() if len(targets) == 1 else None
        worst = replace(top, kind="worst", unit=top.kind, estimate=seen, method=method, target=common)
        yield replace(worst, of_seen=of_seen)


def _notes(scored: JudgedLosses, units: Sequence[Unit], kinds: Sequence[str], model: Any) -> tuple[str, ...]:
    notes = [scored.assumed, words_of_known(scored), *_words_of_units(scored, units)]
    if scored.hashes is not None:
        n_repeated = len(scored.hashes) - len(np.unique(scored.hashes))
        if n_repeated and scored.clusters is None:
            notes.append(
                f"{n_repeated:,} of the {len(scored.hashes):,} rows equal an earlier one: fine where "
                "features take few values, wrong where a row was copied."
            )
    share = f"the {len(kinds)} parts ({', '.join(kinds)})"
    notes.append(
        f"The confidence is shared by the union bound: equally among {share}, within each among its units "
        "that have rows, and the rules."
    )
    if "randomised" in scored.losses:
        notes.append(
            "'randomised' is the rule that draws a label by predict_shares; 'predict' is the argmax."
        )
    elif one_answers(model):
        notes.append("'predict' is also what 'predict_shares' draws: one member has the whole share.")
    return tuple(notes)


def words_of_known(scored: JudgedLosses) -> str:
    """Say what is known of the rows: whether the model was made on them, or on rows equal to them."""
    if scored.known is None:
        return (
            "It is not known on which rows the model was made: that these are none of them is for you to see "
            "to."
        )
    with np.errstate(invalid="ignore"):
        fitted, *chosen = (scored.known[:, 0] / scored.known[:, 1]).tolist()
    said = f"{_percent(fitted)} of these rows equal a row that the model was fitted on"
    if chosen:
        said += f", {_percent(max(chosen))} one that it was chosen on"
    said += " (numbers are compared as float32, rounded where they are no integers; labels are not)"
    if scored.equal_rows == "natural":
        said += (
            ". That rows are equal by nature, and that nobody copied one, is the word of who asked; neither "
            "how often they are nor, where these are kept, their labels are against it (a few copies pass)"
        )
    if not scored.complete:
        said += (
            ". Something in the model came to the fit as it was (frozen): on which rows it was fitted is not "
            "known, and that these are none of them is for you to see to"
        )
    return f"{said}."


def _percent(share: float) -> str:
    return "An unknown share" if np.isnan(share) else f"{100 * share:.3g} %"


def _words_of_units(scored: JudgedLosses, units: Sequence[Unit]) -> Iterator[str]:
    """Name the units without rows, and say where it is not known which there are."""
    for kind, plural in (("class", "classes"), ("group", "groups"), ("cell", "cells")):
        empty = [_words(u.name) for u in units if u.kind == kind and not len(u.rows)]
        if empty:
            more = f" and {len(empty) - SHOWN:,} more" if len(empty) > SHOWN else ""
            named = f"{', '.join(empty[:SHOWN])}{more}"
            yield f"No row is of these {plural}, so that their bounds are 1, and that of the worst: {named}."
    kinds = [("class", "labels")] if not scored.listed else []
    if any(u.kind == "group" for u in units) and not _all_listed(scored, units, "group"):
        kinds.append(("group", "groups"))
    for _, plural in kinds:
        yield (
            f"Which {plural} there are is not known: the worst is that of the {plural} seen here (units= "
            "lists all)."
        )
