"""Monitor: the bounds of a certificate are tested on later batches, by bets that hold at any time."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import permutations
from typing import Any, Self

import numpy as np

from tailboost.core.array_types import (
    Column,
    Document,
    Floats,
    Groups,
    Hashes,
    Ints,
    Mask,
    Model,
    Table,
)
from tailboost.core.checks import (
    as_pandas,
    check_format,
    check_indexes,
    check_length,
    check_same_kind,
    groups_in,
    is_missing,
    label_column,
    n_rows_of,
    positions,
    reading,
    refuse_missing,
    take,
)
from tailboost.core.exceptions import LeakageError
from tailboost.core.html import text_table
from tailboost.core.rate_words import estimate_words
from tailboost.core.spelling import how_many, joined
from tailboost.guarantees.bounds import CertifiedBound, percent
from tailboost.guarantees.certificates import Certificate
from tailboost.guarantees.fresh import Fresh
from tailboost.guarantees.stated import as_model
from tailboost.rates import AT_MOST, COMPARISONS, Sample
from tailboost.rates.bounds import LARGEST_WEALTH, Evidence
from tailboost.rows.fingerprints import digest, hash_rows
from tailboost.rows.given import Given
from tailboost.rows.judged import (
    group_arguments,
    judged,
    predicted_labels,
    refuse_other_rule,
    rows_with_score,
)
from tailboost.rows.other_groups import (
    answered_rows,
    refuse_missing_groups,
    warn_of_other_groups,
)
from tailboost.rows.readers import row_hashes
from tailboost.rows.seen import is_beyond_chance

MONITOR_FORMAT = 9  # version of the state's JSON
GROUPS_NOTED = 10  # the most groups in a sentence
ROWS, WEIGHT, COUNTED = range(
    3
)  # sums over the rows of a subgroup: the rate is COUNTED / WEIGHT


# -- bets --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Bets:
    """The bets against one bound after some batches, and sums over the rows of each of its subgroups."""

    evidence: tuple[Evidence, ...] = ()
    sums: Floats = field(default_factory=lambda: np.zeros((1, 3)))

    def add(self, bound: CertifiedBound, samples: Sequence[Sample]) -> Bets:
        """Return the bets after one more batch, with the rows of each subgroup in random order."""
        if any(sample.high <= sample.low for sample in samples):
            return self  # a rate with one possible value breaks no bound
        new_bets = bets_of(bound, samples)
        before = self.evidence or [Evidence.against(level) for _, level in new_bets]
        evidence = [
            bet.add(numbers) for bet, (numbers, _) in zip(before, new_bets, strict=True)
        ]
        sums = [
            (
                len(sample.rows),
                len(sample.rows) if sample.among is None else sample.among.sum(),
                sample.values.sum(),
            )
            for sample in samples
        ]
        return Bets(tuple(evidence), self.sums + np.array(sums, dtype=np.float64))

    @property
    def value(self) -> float:
        """The evidence: the mean wealth of the bets, from 1, which is a fair game under the bound."""
        if not self.evidence:
            return 1.0
        mean_wealth = float(np.mean([bet.value for bet in self.evidence]))
        return min(mean_wealth, LARGEST_WEALTH)  # JSON has no infinity

    def to_dict(self) -> Document:
        """Return plain types, for JSON."""
        return {"bets": [bet.to_dict() for bet in self.evidence], "sums": self.sums.tolist()}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Return bets written by `to_dict`."""
        bets = tuple(map(Evidence.from_dict, state["bets"]))
        return cls(bets, np.array(state["sums"], dtype=np.float64).reshape(-1, 3))


def bets_of(bound: CertifiedBound, samples: Sequence[Sample]) -> list[tuple[Floats, float]]:
    """Return the bets against a bound: each has numbers (n,) in [0, 1] and a limit on their mean.

    A rate is tested from each bounded side. A gap or ratio is tested by ordered pairs of subgroups: each row
    of the smaller one is paired with a block of rows of the other, and the mean difference of the pairs is
    the difference of the rates. ``samples`` are in random order.
    """
    if bound.compares:
        return [_bet_apart(bound, *pair) for pair in permutations(samples, 2)]
    (sample,) = samples
    lower, upper = bound.sides
    bets = []
    if upper is not None:
        bets.append(_bet_above(sample, upper))
    if lower is not None:  # an upper bound on the complement
        bets.append(_bet_above(sample.mirrored, sample.low + sample.high - lower))
    return [(numbers, limit) for numbers, limit in bets if limit < 1.0]  # 1 cannot be broken


def _bet_above(sample: Sample, level: float) -> tuple[Floats, float]:
    """Return a bet on a rate above a level; for a ratio of sums the numbers are ``top − t bottom + t``."""
    width = sample.high - sample.low
    numbers = (sample.values - sample.low) / width
    t = (level - sample.low) / width
    if sample.among is not None:
        numbers = numbers - t * sample.among + t
    return np.clip(numbers, 0.0, 1.0), t  # rounding may exceed [0, 1]


def _bet_apart(bound: CertifiedBound, first: Sample, second: Sample) -> tuple[Floats, float]:
    """Return a bet that ``factor`` times the first rate exceeds the second one by more than the gap."""
    comparison = COMPARISONS[bound.subgroup]
    comparison.refuse_negative(min(first.low, second.low))
    factor, gap = comparison.pair(bound.upper if comparison.side == AT_MOST else bound.lower)
    n = min(len(first.values), len(second.values))
    least = factor * first.low - first.high
    width = (1.0 + factor) * (first.high - first.low)
    differences = factor * _block_means(first.values, n) - _block_means(second.values, n)
    return (differences - least) / width, min(1.0, (gap - least) / width)


def _block_means(values: Floats, n: int) -> Floats:
    """Return the means of n blocks of successive rows, of about equal size, shape (n,)."""
    if not n:
        return values[:0]
    edges = len(values) * np.arange(n + 1) // n
    return np.add.reduceat(values, edges[:-1]) / np.diff(edges)


def _rate_of(bound: CertifiedBound, sums: Floats) -> tuple[int, float | None]:
    """Return the number of rows (of the smallest compared subgroup), and the rate, gap or ratio of sums."""
    n = int(sums[:, ROWS].min())
    counted = sums[sums[:, WEIGHT] > 0]
    if not len(counted) or not (n or bound.compares):
        return n, None
    rates = counted[:, COUNTED] / counted[:, WEIGHT]
    if bound.compares:
        return n, float(COMPARISONS[bound.subgroup].of_rates(rates))
    return n, float(rates[0])


# -- the monitor -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MonitoredBatch:
    """Results of one look at a batch.

    Attributes
    ----------
    name : str
        Name of the batch.
    rows, labelled, waiting : int
        Rows in the look, rows tested in it, and rows without a label.
    errors : list of (int, float or None)
        For each bound the number of tested rows, and the bounded rate on these rows.
    evidence : list of float
        For each bound the evidence after this look.
    """

    name: str
    rows: int
    labelled: int
    waiting: int
    errors: list[tuple[int, float | None]]
    evidence: list[float]


@dataclass(frozen=True, eq=False)
class Monitor:
    """Evidence against the bounds of a certified rule, updated with each batch of later rows.

    Bets test each bound, and their wealth grows if rows break it (`tailboost.rates.bounds.Evidence`). If all
    m bounds are true, the probability that any wealth ever reaches m/(1 − confidence) is at most
    1 − confidence, after any number of batches. Rows, or clusters, must be independent draws. The order of
    rows within a batch has no effect.

    Labels may come late for rows with ids: give the batch again, with its name. The delay of a label must not
    depend on the correctness of the prediction. It may depend on the class for rates of one class.

    Parameters
    ----------
    rule : fitted classifier or rule
        From `tailboost.calibrate` or `tailboost.load_rule`.
    certificate : Certificate, optional
        From `tailboost.certify`; by default that of the rule.

    Attributes
    ----------
    batches : list of MonitoredBatch
        The looks, in order.

    Raises
    ------
    ValueError
        If there is no certificate, or it is about another rule.

    Examples
    --------
    >>> import numpy as np
    >>> import tailboost as tb
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=6000)
    >>> X = 1 / (1 + np.exp(-rng.normal(3 * y - 1.5)))[:, None]
    >>> rule = tb.calibrate(tb.Scores(0, 1), X[:2000], y[:2000], limits=["error() <= 15%"])
    >>> monitor = tb.Monitor(rule).add(X[2000:4000], y[2000:4000], name="January")
    >>> monitor.alarms
    []
    >>> monitor = monitor.add(X[4000:], 1 - y[4000:], name="February")
    >>> monitor.alarms[0].title
    'error: all rows'
    """

    rule: Model
    certificate: Certificate | Any = None
    bets: tuple[Bets, ...] = field(default=(), repr=False)
    batches: list[MonitoredBatch] = field(default_factory=list)
    # By batch, as sorted hashes: ids and clusters of the tested rows, or all rows of batches without ids.
    ids: dict[str, Hashes] = field(default_factory=dict, repr=False)
    contents: dict[str, Hashes] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Take the certificate of the rule; raise ValueError if there is none, or it is of another rule."""
        rule = as_model(self.rule)
        object.__setattr__(self, "rule", rule)  # the class is frozen
        if self.certificate is None:
            object.__setattr__(self, "certificate", judged(rule).certificate)
        if not isinstance(self.certificate, Certificate):
            raise ValueError(
                "rule: it has no certificate to test; `calibrate` returns a rule with one, or give that of "
                "certify: Monitor(rule, certificate)"
            )
        refuse_other_rule(self.certificate, rule, "the certificate of this monitor")
        if not self.tested:
            raise ValueError("the certificate has no bound on a rate that later rows can test")
        if not self.bets:
            bets = [Bets(sums=np.zeros((max(1, len(b.subgroups)), 3))) for b in self.tested]
            object.__setattr__(self, "bets", tuple(bets))

    @property
    def tested(self) -> list[CertifiedBound]:
        """The tested bounds."""
        return self.certificate.tested

    def add(
        self,
        X: Table,
        y: Column = None,
        *,
        groups: Groups = None,
        clusters: Column = None,
        id: Any = None,
        name: str | None = None,
    ) -> Monitor:
        """Return the monitor after one more batch, or after late labels of a batch.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows. Those without a score, or in a group that the rule does not know, are left out with a
            warning.
        y : array-like of shape (n,), optional
            Their labels. None, NaN or ``pandas.NA`` marks a missing label.
        groups, clusters : optional
            As in `tailboost.certify`. A cluster is tested in the first look with a label of it.
        id : array-like of shape (n,), optional
            Id of each row, all different: of all batches or of none. Late labels need ids: rows whose label
            was tested are passed over when their batch is given again.
        name : str, optional
            Name of the batch; by default its number.

        Raises
        ------
        LeakageError
            If rows were used before: by the fit, the certificate or another batch.
        ValueError
            If an argument is not as described.
        """
        reader = judged(self.rule)
        groups = reader.groups_of(X, groups_in(X, groups))
        check_indexes(X=X, y=y, groups=groups, clusters=clusters, id=id)
        n = n_rows_of(X)
        if not n:
            raise ValueError("X has no rows")
        for argument, column in {"groups": groups, "clusters": clusters}.items():
            if column is not None:
                check_length(column, argument, n)
        name = str(len({batch.name for batch in self.batches}) + 1 if name is None else name)
        is_answered = rows_with_score(self.rule, X)
        if reader.by_group and groups is not None:
            is_answered &= answered_rows(reader, groups)
        if not is_answered.all():
            X, y, groups, clusters, id = (
                take(as_pandas(column), is_answered) for column in (X, y, groups, clusters, id)
            )
            n = n_rows_of(X)
        refuse_missing_groups(self.certificate.groups_named, groups)
        labels = label_numbers(y, self.rule.classes_, n)

        is_tested, ids, contents = self._unused(name, X, labels > 0, clusters, id)
        if name not in {batch.name for batch in self.batches}:
            warn_of_other_groups(self.certificate.groups_named, X, groups)
        bets = self.bets
        if is_tested.any():
            tested_labels = np.asarray(self.rule.classes_)[labels[is_tested] - 1]
            tables = [take(as_pandas(table), is_tested) for table in (X, groups, clusters)]
            bets = self._bets_after(
                Given(tables[0], tested_labels, tables[1], clusters=tables[2])
            )
        else:  # unreadable rows are refused now, not with their late labels
            predicted_labels(self.rule, X, **group_arguments(self.rule, groups))
        sums = [after.sums - before.sums for before, after in zip(self.bets, bets, strict=True)]
        look = MonitoredBatch(
            name,
            rows=n,
            labelled=int(is_tested.sum()),
            waiting=int((labels == 0).sum()),
            errors=list(map(_rate_of, self.tested, sums)),
            evidence=[each.value for each in bets],
        )
        batches = [*self.batches, look]
        return replace(self, bets=bets, batches=batches, ids=ids, contents=contents)

    def _unused(
        self, name: str, X: Table, has_label: Mask, clusters: Column, id: Any
    ) -> tuple[Mask, dict[str, Hashes], dict[str, Hashes]]:
        """Return which rows of a look are tested, and the used rows of all batches after it.

        Each row bets at most once: with ids the first time it has a label, otherwise with its only look.
        Raise LeakageError if another batch had rows of this one, ValueError if ids are missing.
        """
        n = len(has_label)
        if id is None:
            if self.ids or name in self.contents:
                raise ValueError(
                    f"id is needed for batch {name!r}: another batch has ids, or this one was given before. "
                    "Give id= with each look at each batch"
                )
            hashes = np.sort(row_hashes(self.rule, X))
            self._refuse_repeated(hashes)
            return has_label, self.ids, self.contents | {name: hashes}
        if self.contents:
            raise ValueError(
                "id: earlier batches were given without ids; leave it out here too"
            )
        hashes = _hash_names(id, "id", n)
        if len(np.unique(hashes)) < n:
            raise ValueError(
                "id: two rows have the same id; rows of one person need clusters= instead"
            )
        for other, used in self.ids.items():
            n_shared = int(np.isin(hashes, used).sum())
            if other != name and n_shared:
                raise LeakageError(
                    f"id: {n_shared:,} of {n:,} rows were tested in batch {other!r}"
                )
        used = self.ids.get(name, np.zeros(0, dtype=np.uint64))
        is_tested = has_label & ~np.isin(hashes, used)
        used = np.append(used, hashes[is_tested])
        if clusters is not None:
            of_clusters = _hash_names(clusters, "clusters", n) + np.uint64(1)
            is_tested &= ~np.isin(of_clusters, used)
            used = np.append(used, np.unique(of_clusters[is_tested]))
        if name in self.ids and not is_tested.any():
            raise ValueError(f"batch {name!r} was given before, and no row has a new label")
        return is_tested, self.ids | {name: np.sort(used)}, self.contents

    def _refuse_repeated(self, hashes: Hashes) -> None:
        """Raise LeakageError if a batch without ids repeats an earlier one; scores may be equal by chance."""
        equal_by_chance = (
            judged(self.rule).reads_scores or self.certificate.equal_rows == "natural"
        )
        for name, earlier in self.contents.items():
            n_equal = int(np.isin(hashes, earlier).sum())
            is_partly_equal = not equal_by_chance and is_beyond_chance(n_equal, len(hashes))
            if is_partly_equal or np.array_equal(hashes, earlier):
                raise LeakageError(
                    f"X: {n_equal:,} of these {len(hashes):,} rows equal rows of batch {name!r}. If they are "
                    "other rows, give id= with each batch"
                )

    def _bets_after(self, given: Given) -> tuple[Bets, ...]:
        """Return the bets after rows with new labels."""
        given = replace(given, equal_rows=self.certificate.equal_rows)
        rates = [bound.rate for bound in self.tested]
        fresh = Fresh.of(self.rule, given, rates, in_use=True)
        self.certificate.refuse_rows_of(fresh)
        bets = []
        for bound, before in zip(self.tested, self.bets, strict=True):
            samples = _samples_of(bound, fresh)
            bets.append(before if samples is None else before.add(bound, samples))
        return tuple(bets)

    # -- results -------------------------------------------------------------------------------------

    @property
    def threshold(self) -> float:
        """Evidence from which on a bound is contradicted."""
        return round(len(self.tested) / (1.0 - self.certificate.confidence), 9)

    @property
    def largest_evidence(self) -> list[float]:
        """The largest evidence against each bound after any look; decides about alarms."""
        looks = [[1.0] * len(self.tested), *(batch.evidence for batch in self.batches)]
        return [max(by_look) for by_look in zip(*looks, strict=True)]

    @property
    def alarms(self) -> list[CertifiedBound]:
        """The contradicted bounds, now or after an earlier batch."""
        pairs = zip(self.tested, self.largest_evidence, strict=True)
        return [bound for bound, largest in pairs if largest >= self.threshold]

    @property
    def verdict(self) -> str:
        """The result, in a sentence."""
        n_batches = len({batch.name for batch in self.batches})
        n_rows = sum(batch.labelled for batch in self.batches)
        of_bounds = how_many(len(self.tested), "bound")
        if not n_batches:
            return f"No rows yet: {of_bounds} to test."
        contradict = "contradicts" if n_rows == 1 else "contradict"
        rows = f"{how_many(n_rows, 'row')} of {how_many(n_batches, 'batch', 'batches')} {contradict}"
        if not self.alarms:
            return f"No alarm: {rows} none of {of_bounds}."
        since = [
            f"{bound.title} {bound.bound_text} since "
            + next(b.name for b in self.batches if b.evidence[j] >= self.threshold)
            for j, bound in enumerate(self.tested)
            if bound in self.alarms
        ]
        return (
            f"Alarm: {rows} {len(since)} of {of_bounds}: {joined(since, GROUPS_NOTED, '; ')}."
        )

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the headings and rows of the table of bounds."""
        alarm = f"evidence (alarm at {self.threshold:.4g})"
        heads = [
            "result",
            "rate",
            "bound",
            "rate, last batch",
            "rate, all batches",
            "rows",
            alarm,
        ]
        rows = []
        for j, (bound, bets) in enumerate(zip(self.tested, self.bets, strict=True)):
            n, rate = _rate_of(bound, bets.sums)
            last = self.batches[-1].errors[j] if self.batches else (0, None)
            evidence = self.largest_evidence[j]
            result = "not contradicted" if n else "no rows"
            if evidence >= self.threshold:
                result = "contradicted"
            words = [
                estimate_words(r, k, beside=bound.target, in_percent=bound.in_percent)
                for k, r in (last, (n, rate))
            ]
            rows.append(
                [result, bound.title, bound.bound_text, *words, f"{n:,}", f"{evidence:.3g}"]
            )
        return heads, rows

    @property
    def meaning(self) -> str:
        """What the evidence means, in sentences."""
        allowed = percent(round(1.0 - self.certificate.confidence, 12))
        return (
            "Evidence is what a stake of 1 has become by bets on the new rows against a bound. If all bounds "
            f"are true and the rows are independent draws, any alarm ever has a probability of at most "
            f"{allowed}."
        )

    def __str__(self) -> str:
        table = text_table(*self.cells(), left=(0, 1))
        return "\n".join([self.verdict, "", table, "", self.meaning])

    # -- state ---------------------------------------------------------------------------------------

    def to_dict(self) -> Document:
        """Return the state as plain types, for JSON: counts and hashes, no row and no rule."""
        state = {
            "format": MONITOR_FORMAT,
            "certificate": state_digest(self.certificate.to_dict()),
            "bets": [bets.to_dict() for bets in self.bets],
            "batches": [asdict(batch) for batch in self.batches],
            "ids": {name: _packed(hashes) for name, hashes in self.ids.items()},
            "contents": {name: _packed(hashes) for name, hashes in self.contents.items()},
        }
        return state | {"digest": state_digest(state)}

    @classmethod
    def from_dict(
        cls, state: Mapping[str, Any], rule: Model, certificate: Certificate | None = None
    ) -> Self:
        """Return the monitor of a rule with a state from `to_dict`.

        Raises
        ------
        ValueError
            If the state is damaged, was changed, or is about another certificate.
        """
        monitor = cls(rule, certificate)
        with reading("state of a monitor"):
            check_format(
                state["format"],
                MONITOR_FORMAT,
                "the state",
                "begin a new state with these batches",
            )
            content = {key: value for key, value in state.items() if key != "digest"}
            if state["digest"] != state_digest(content):
                raise ValueError(
                    "the state was changed after it was written: its checksum differs"
                )
            if state["certificate"] != state_digest(monitor.certificate.to_dict()):
                raise ValueError("the state is about another certificate")
            batches = [
                MonitoredBatch(
                    **{**batch, "errors": [(int(n), rate) for n, rate in batch["errors"]]}
                )
                for batch in state["batches"]
            ]
            return replace(
                monitor,
                bets=tuple(map(Bets.from_dict, state["bets"])),
                batches=batches,
                ids={name: _unpacked(text) for name, text in state["ids"].items()},
                contents={name: _unpacked(text) for name, text in state["contents"].items()},
            )


def _samples_of(bound: CertifiedBound, fresh: Fresh) -> list[Sample] | None:
    """Return the rows of each subgroup of a bound, in random order; None if there is none of them."""
    samples = fresh.samples(bound.rate)
    by_name = {sample.name: sample for sample in samples}
    names = bound.subgroups or (bound.subgroup,)
    if by_name.keys().isdisjoint(names):
        return None
    named = [by_name.get(name, samples[0].without_rows(name)) for name in names]
    if fresh.clusters is not None and not fresh.are_apart(named):
        raise ValueError(
            "clusters: some have rows in several of the subgroups that a gap or ratio compares, so these are "
            "not independent. Give one row of each cluster"
        )
    return [sample.ordered(fresh.draws) for sample in named]


def label_numbers(y: Column, classes: Any, n: int) -> Ints:
    """Return the label of each of n rows as 1 plus its class number, shape (n,); 0 for a missing label."""
    numbers = np.zeros(n, dtype=np.intp)
    if y is None:
        return numbers
    check_length(y, "y", n)
    values = y.tolist() if hasattr(y, "tolist") else list(y)
    # pandas' NaT is missing too, and differs from itself.
    is_present = np.array([not is_missing(v) and v == v for v in values], dtype=bool)
    if is_present.any():
        known_labels = label_column(classes, "classes_")
        present = np.array([values[row] for row in np.flatnonzero(is_present)])
        # A column with missing values may hold integers as floats.
        if present.dtype.kind == "f" and (present == np.floor(present)).all():
            present = present.astype(np.int64)
        labels = label_column(present, "y")
        check_same_kind(labels, "y", known_labels, "classes_ of the model")
        numbers[is_present] = 1 + positions(labels, known_labels, "y")
    return numbers


def _hash_names(column: Any, name: str, n: int) -> Hashes:
    """Return a hash of each of n ids or clusters, shape (n,); numbers are hashed as exact text."""
    refuse_missing(column, name)
    check_length(column, name, n)
    names = np.asarray(column)
    if names.ndim != 1:
        raise ValueError(f"{name} must be one column of n names, got shape {names.shape}")
    if names.dtype.kind == "f" and (names == np.floor(names)).all():
        names = names.astype(np.int64)
    return hash_rows(np.array([str(each) for each in names.tolist()], dtype=object)[:, None])


def _packed(hashes: Hashes) -> str:
    """Return hashes as text."""
    return base64.b64encode(hashes.astype("<u8").tobytes()).decode()


def _unpacked(text: str) -> Hashes:
    """Return the hashes of a text by `_packed`."""
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<u8").astype(np.uint64)


def state_digest(state: Mapping[str, Any]) -> str:
    """Return the checksum of a state, also of a state read from JSON."""
    return digest(json.dumps(state, sort_keys=True, allow_nan=False).encode())
