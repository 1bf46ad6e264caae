"""Monitor: the bounds of a certificate are tested on later batches, by bets that hold at any time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import compress, count, permutations
from typing import Any, Self

import numpy as np
from sklearn.utils import column_or_1d

from tailboost.core.array_types import (
    Column,
    Document,
    Floats,
    Groups,
    Hashes,
    Mask,
    Model,
    Table,
)
from tailboost.core.checks import (
    as_pandas,
    check_indexes,
    check_length,
    group_columns,
    is_missing,
    label_column,
    n_rows_of,
    positions,
    reading,
    take,
)
from tailboost.core.exceptions import LeakageError, UncertifiedGroupsWarning, warn_user
from tailboost.core.spelling import how_many, joined, listed, rate_words
from tailboost.core.tables import text_table
from tailboost.core.versions import migrated
from tailboost.guarantees.certificates import (
    Certificate,
    CertifiedBound,
    digest_of,
    percent,
    refuse_rule_alone,
)
from tailboost.guarantees.fresh import Fresh
from tailboost.rates import Limit, Sample
from tailboost.rates.bounds import STAKES
from tailboost.rates.rate import GAP
from tailboost.rows.fingerprints import hashes_of_names, hashes_of_pairs
from tailboost.rows.rows import Rows
from tailboost.rows.seen import Seen, first_repeated
from tailboost.rows.subgroups import (
    named_columns,
    other_groups,
    unit_name,
    warn_of_other_groups,
)
from tailboost.selection.answering import Decision, Scored
from tailboost.selection.door import answering

MONITOR_FORMAT = 12  # version of the state's JSON
GROUPS_NOTED = 10  # the most groups in a sentence


# -- bets --------------------------------------------------------------------------------------------------


# Cap of wealths and of their logarithms: JSON has no infinity.
LARGEST_WEALTH = 1e300


@dataclass(frozen=True)
class Evidence:
    """Wealth of bets on a mean above a bound.

    If the bound is true, the wealth ever reaches 1/δ with probability at most δ.

    Batches may be added one by one, with a look after each. The j-th batch brings 1/(j (j + 1)) of the first
    wealth into play; these fractions sum to one. Bets lost before a change therefore do not hide the
    change: a late rise of the mean is found about as soon as a mean above the bound from the start. A mixture
    of bets with different starts is a fair game, because each of them is a fair game.

    Examples
    --------
    >>> from tailboost.guarantees.monitor import Evidence
    >>> evidence = Evidence(0.1).add([0, 1, 0, 0, 1] * 4)
    >>> round(evidence.value, 1)
    35.3
    """

    bound: float  # in [0, 1]: the tested bound
    # Log wealth in play by stake.
    log_wealths: tuple[float, ...] = (-LARGEST_WEALTH,) * len(STAKES)
    batches: int = 0  # batches so far

    def add(self, losses: Any) -> Evidence:
        """Return the evidence after a batch of further rows with losses in [0, 1]; unchanged without rows."""
        values, counts = np.unique(losses, return_counts=True)
        if not len(values):
            return self
        j = self.batches + 1
        # The batch brings a further part of the first wealth into play.
        logs = np.logaddexp(self.log_wealths, -math.log(j * (j + 1)))
        if self.bound > 0.0:
            with np.errstate(divide="ignore"):  # a stake of 1 may lose everything
                logs = logs + np.log1p(STAKES[:, None] * (values / self.bound - 1.0)) @ counts
        elif values[-1] > 0.0:  # impossible under a bound of 0
            logs = np.full(len(STAKES), np.inf)
        logs = logs.clip(-LARGEST_WEALTH, LARGEST_WEALTH)
        return Evidence(self.bound, tuple(logs.tolist()), j)

    @property
    def value(self) -> float:
        """The wealth. A value of 20 contradicts the bound at the 5 % level, at any time."""
        with np.errstate(over="ignore"):
            in_play = float(np.exp(self.log_wealths).mean())
        # After k batches the part 1/1·2 + … + 1/k(k + 1) = 1 − 1/(k + 1) was brought into play.
        return in_play + 1.0 / (self.batches + 1)


@dataclass(frozen=True, eq=False)
class Bets:
    """The bets against one bound after some batches, and sums over the rows of each of its subgroups.

    ``sums`` has a row for each subgroup: rows, weight in the denominator, and counted weight.
    """

    evidence: tuple[Evidence, ...] = ()
    sums: Floats = field(default_factory=lambda: np.zeros((1, 3)))

    def add(self, bound: CertifiedBound, samples: Sequence[Sample]) -> Bets:
        """Return the bets after one more batch, with the rows of each subgroup in random order."""
        if any(sample.high <= sample.low for sample in samples):
            return self  # a rate with one possible value breaks no bound
        new = bets_of(bound, samples)
        before = self.evidence or [Evidence(level) for _, level in new]
        after = [bet.add(numbers) for bet, (numbers, _) in zip(before, new, strict=True)]
        sums = [(len(s.rows), s.among.sum(), s.values.sum()) for s in samples]
        return Bets(tuple(after), self.sums + sums)

    @property
    def value(self) -> float:
        """The evidence: the mean wealth of the bets, from 1, which is a fair game under the bound."""
        wealths = [bet.value for bet in self.evidence] or [1.0]
        return min(float(np.mean(wealths)), LARGEST_WEALTH)  # JSON has no infinity


def bets_of(bound: CertifiedBound, samples: Sequence[Sample]) -> list[tuple[Floats, float]]:
    """Return the bets against a bound: each has numbers (n,) in [0, 1] and a limit on their mean.

    A rate is tested from each bounded side. A gap or ratio is tested by ordered pairs of subgroups: each row
    of the smaller one is paired with a block of rows of the other, and the mean difference of the pairs is
    the difference of the rates. ``samples`` are in random order.
    """
    if bound.subgroups:
        return [_bet_apart(bound, *pair) for pair in permutations(samples, 2)]
    (sample,) = samples
    lower, upper = bound.sides
    sides = []
    if upper is not None:
        sides.append((sample, upper))
    if lower is not None:  # an upper bound on the complement
        sides.append((sample.mirrored, sample.low + sample.high - lower))
    bets = []
    for each, level in sides:
        width = each.high - each.low
        t = (level - each.low) / width
        # Of a ratio of sums: top − t bottom + t.
        numbers = (each.values - each.low) / width + t * (1.0 - each.among)
        if t < 1.0:  # 1 cannot be broken
            bets.append((np.clip(numbers, 0.0, 1.0), t))  # rounding may exceed [0, 1]
    return bets


def _bet_apart(bound: CertifiedBound, first: Sample, second: Sample) -> tuple[Floats, float]:
    """Return a bet that ``factor`` times the first rate exceeds the second one by more than the gap."""
    factor, gap = (1.0, bound.upper) if bound.subgroup == GAP else (bound.lower, 0.0)
    n = min(len(first.rows), len(second.rows))
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


def _rate_of(bound: CertifiedBound, sums: Floats) -> list[Any]:
    """Return the number of rows (of the smallest compared subgroup), and the rate, gap or ratio of sums."""
    n = int(sums[:, 0].min())
    if not n:
        return [0, None]
    rates = sums[:, 2] / sums[:, 1]
    if bound.subgroups:
        return [n, Limit(bound.subgroup, bound.rate, 0.0).value(rates)]
    return [n, float(rates[0])]


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
    errors : list of [int, float or None]
        For each bound the number of tested rows, and the bounded rate on these rows.
    evidence : list of float
        For each bound the evidence after this look.
    """

    name: str
    rows: int
    labelled: int
    waiting: int
    errors: list[list[Any]]
    evidence: list[float]


@dataclass(eq=False)
class Monitor:
    """Evidence against the bounds of a certified rule, updated with each batch of later rows.

    Bets test each bound, and their wealth grows if rows break it (`Evidence`). If all
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
    ids: Hashes = field(default_factory=lambda: np.zeros(0, dtype=np.uint64), repr=False)
    seen: tuple[Seen, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        rule = self.rule
        refuse_rule_alone(rule)
        answers = answering(rule)
        certificate = self.certificate or answers.certificate
        if not isinstance(certificate, Certificate):
            raise ValueError(
                "rule: it has no certificate to test; `calibrate` returns a rule with one, or "
                "give that of certify: Monitor(rule, certificate)"
            )
        pairs = [(certificate.rule, answers.rule and answers.rule.digest)]
        if certificate.identity:
            pairs.append((certificate.identity, answers.identity.digest))
        if any(None not in pair and len({*pair}) > 1 for pair in pairs):
            raise ValueError(
                "the certificate of this monitor is about another rule or model, or this "
                f"{type(rule).__name__} was fitted again: certify it from fresh rows"
            )
        if not certificate.bounds:
            raise ValueError("the certificate has no bound on a rate that later rows can test")
        for bound in certificate.bounds:  # no bets are known against a tail
            bound.rate.refuse_uncounted()
        start = [Bets(sums=np.zeros((max(1, len(b.subgroups)), 3))) for b in certificate.bounds]
        self.certificate = certificate
        self.bets = self.bets or tuple(start)

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
            As in `tailboost.certify`. A cluster is tested once in each batch, in the first look with
            a label of it.
        id : array-like of shape (n,), optional
            Id of each row, all different: of all batches or of none. Late labels need ids: rows whose label
            was tested are passed over when their batch is given again.
        name : str, optional
            Name of the batch; by default its number, or a later one if that is taken.

        Raises
        ------
        LeakageError
            If rows were used before: by the fit, the certificate or another batch.
        ValueError
            If an argument is not as described.
        """
        answers = answering(self.rule)
        check_indexes(X=X, y=y, groups=groups, clusters=clusters, id=id)
        scored = answers.score(X, group_columns(groups, "groups", X))
        groups = scored.groups or None
        n = n_rows_of(X)
        if not n:
            raise ValueError("X has no rows")
        given = {"X": X, "y": y, "groups": groups, "clusters": clusters, "id": id}
        for argument, column in given.items():
            if column is not None:
                check_length(column, argument, n)
        lacks_score = scored.lacking
        n_lacking = int(np.count_nonzero(lacks_score))
        if n_lacking == n:
            raise ValueError(f"X: none of {how_many(n, 'row')} has a score")
        if n_lacking:
            warn_user(f"{n_lacking:,} rows of {n:,} are not tested: they have no score")
        is_answered = ~lacks_score
        if answers.rule is not None and answers.rule.by_group and groups is not None:
            is_answered &= _answered_rows(answers.rule, groups)
        given = _part(given, is_answered)
        id = given.pop("id")
        values = [None] * int(is_answered.sum())
        if y is not None:
            values = column_or_1d(given["y"], dtype=object).tolist()
        # pandas' NaT is missing too, and differs from itself.
        has_label = np.array([not is_missing(value) and value == value for value in values])
        if id is None and not has_label.any():
            raise ValueError("y: no row has a label; give id= with rows whose labels come late")
        classes = answers.classes
        if classes is None:
            raise ValueError(f"rule: {type(self.rule).__name__} has no classes_")
        labels = positions(list(compress(values, has_label)), classes, "y")

        names = {batch.name for batch in self.batches}
        if name is None:
            name = next(k for k in map(str, count(len(names) + 1)) if k not in names)
        name = str(name)
        is_new = name not in names
        read = answers.score(given["X"], given["groups"])
        is_tested, ids, seen = self._unused(name, is_new, given, has_label, id, read)
        bets = self.bets
        if is_tested.any():
            y = classes[labels[is_tested[has_label]]]
            bets = self._bets_after(Rows.read(**{**_part(given, is_tested), "y": y}))
        else:  # unreadable rows are refused now, not with their late labels
            read.numbers(classes)
        if is_new:
            named = self.certificate.groups_named
            warn_of_other_groups(named, given["X"], given["groups"])
        sums = [after.sums - before.sums for before, after in zip(self.bets, bets, strict=True)]
        look = MonitoredBatch(
            name,
            rows=len(values),
            labelled=int(is_tested.sum()),
            waiting=int((~has_label).sum()),
            errors=list(map(_rate_of, self.certificate.bounds, sums)),
            evidence=[each.value for each in bets],
        )
        return replace(self, bets=bets, batches=[*self.batches, look], ids=ids, seen=seen)

    def _unused(
        self,
        name: str,
        is_new: bool,
        given: dict[str, Any],
        has_label: Mask,
        id: Any,
        read: Scored,
    ) -> tuple[Mask, Hashes, tuple[Seen, ...]]:
        """Return which rows of a look are tested, and what `ids` and `seen` are after it.

        Each row bets at most once: with ids the first time it has a label, otherwise with its only look.
        Raise LeakageError if another batch had rows of this one, ValueError if ids are missing.
        """
        n = len(has_label)
        begin_anew = "begin a new state with every batch and its id="
        if id is None:
            if len(self.ids):
                raise ValueError(f"id is needed for batch {name!r}: earlier batches have ids")
            if not is_new:
                raise ValueError(
                    f"batch {name!r} was given before, and without ids its rows are not told "
                    f"apart: other rows need another name; for late labels {begin_anew}"
                )
            if not has_label.all():
                warn_user(
                    f"y: {n - has_label.sum():,} of {n:,} rows have no label and are left out; "
                    "if their labels come later, give id= with each batch, also this one"
                )
            rows, rule = Seen.of(read.given, name), answering(self.rule).rule
            by_chance = rule is not None and rule.of_scores
            known = first_repeated(rows, self.seen, "natural" if by_chance else "copies")
            if known is not None and self.certificate.equal_rows != "natural":
                raise LeakageError(
                    f"X: rows of this batch equal rows of batch {known.use!r}. If they are "
                    "other rows, give id= with each batch"
                )
            return has_label, self.ids, (*self.seen, rows)
        if self.seen:
            raise ValueError(f"id: earlier batches have none: leave it out, or {begin_anew}")
        hashes = hashes_of_names(label_column(id, "id"))
        if len(np.unique(hashes)) < n:
            raise ValueError(
                "id: two rows have the same id; rows of one person need clusters= instead"
            )
        is_known = np.isin(hashes, self.ids)
        if is_new and is_known.any():
            raise LeakageError(
                f"id: {is_known.sum():,} of {n:,} rows were tested in another batch; give "
                "late labels with the name of their batch"
            )
        is_tested = has_label & ~is_known
        used = [self.ids, hashes[is_tested]]
        if given["clusters"] is not None:
            clusters = label_column(given["clusters"], "clusters")
            of_batch = hashes_of_pairs(
                hashes_of_names(clusters), hashes_of_names(np.array([name]))
            )
            is_tested &= ~np.isin(of_batch, self.ids)
            used.append(np.unique(of_batch[is_tested]))
        if not (is_new or is_tested.any()):
            raise ValueError(f"batch {name!r} was given before, and no row has a new label")
        return is_tested, np.concatenate(used), ()

    def _bets_after(self, given: Rows) -> tuple[Bets, ...]:
        """Return the bets after rows with new labels."""
        rates = [bound.rate for bound in self.certificate.bounds]
        # Later rows may equal earlier ones.
        fresh = Fresh.of_model(answering(self.rule), given, rates, equal_rows="natural")
        used = self.certificate.used
        if used is not None and fresh.used.repeats(used, self.certificate.equal_rows):
            raise LeakageError("X: these rows repeat rows of the certificate. Give new rows")
        bets = []
        for bound, before in zip(self.certificate.bounds, self.bets, strict=True):
            samples = {sample.name: sample for sample in fresh.samples(bound.rate)}
            absent = next(iter(samples.values())).taken([])
            named = [samples.get(each, absent) for each in bound.subgroups or (bound.subgroup,)]
            if not fresh.votes.are_apart(named):
                raise ValueError(
                    "clusters: some have rows in several of the subgroups that a gap or ratio "
                    "compares, so these are not independent. Give one row of each cluster"
                )
            in_order = [each.taken(np.argsort(fresh.votes.draws[each.rows])) for each in named]
            bets.append(before.add(bound, in_order))
        return tuple(bets)

    # -- results -------------------------------------------------------------------------------------

    @property
    def threshold(self) -> float:
        """Evidence from which on a bound is contradicted."""
        return round(len(self.certificate.bounds) / (1.0 - self.certificate.confidence), 9)

    @property
    def _since(self) -> list[str | None]:
        """The name of the first batch that contradicted each bound; None without one."""
        threshold = self.threshold
        return [
            next((batch.name for batch in self.batches if batch.evidence[j] >= threshold), None)
            for j in range(len(self.certificate.bounds))
        ]

    @property
    def alarms(self) -> list[CertifiedBound]:
        """The contradicted bounds, now or after an earlier batch."""
        return list(compress(self.certificate.bounds, self._since))

    @property
    def verdict(self) -> str:
        """The result, in a sentence."""
        n_batches = len({batch.name for batch in self.batches})
        n_rows = sum(batch.labelled for batch in self.batches)
        of_bounds = how_many(len(self.certificate.bounds), "bound")
        if not n_batches:
            return f"No rows yet: {of_bounds} to test."
        batches = how_many(n_batches, "batch", "batches")
        rows = f"{how_many(n_rows, 'row')} of {batches} contradict"
        since = [
            f"{bound.title} {bound.bound_text} since {name}"
            for bound, name in zip(self.certificate.bounds, self._since, strict=True)
            if name is not None
        ]
        if not since:
            return f"No alarm: {rows} none of {of_bounds}."
        named = joined(since, GROUPS_NOTED, "; ")
        return f"Alarm: {rows} {len(since)} of {of_bounds}: {named}."

    def __str__(self) -> str:
        alarm = f"largest evidence (alarm at {self.threshold:.4g})"
        heads = [
            "result",
            "rate",
            "bound",
            "rate, newest rows",
            "rate, all batches",
            "rows",
            alarm,
        ]
        rows = []
        each = enumerate(zip(self.certificate.bounds, self.bets, self._since, strict=True))
        for j, (bound, bets, since) in each:
            n, rate = _rate_of(bound, bets.sums)
            latest: list[Any] = self.batches[-1].errors[j] if self.batches else [0, None]
            evidence = max((batch.evidence[j] for batch in self.batches), default=1.0)
            result = "not contradicted" if n else "no rows"
            if since is not None:
                result = "contradicted"
            rates = [
                rate_words(value, of_n, beside=bound.target, in_percent=bound.in_percent)
                for of_n, value in (latest, [n, rate])
            ]
            rows.append(
                [result, bound.title, bound.bound_text, *rates, f"{n:,}", f"{evidence:.3g}"]
            )
        allowed = percent(round(1.0 - self.certificate.confidence, 12))
        meaning = (
            "Evidence is what a stake of 1 has become by bets on the new rows against a "
            "bound. If all bounds are true and the rows are independent draws, any alarm ever "
            f"has a probability of at most {allowed}."
        )
        table = text_table(heads, rows, left=(0, 1))
        return "\n".join([self.verdict, "", table, "", meaning])

    # -- state ---------------------------------------------------------------------------------------

    def to_dict(self) -> Document:
        """Return the state as plain types, for JSON: counts and hashes, no row and no rule."""
        state = {
            "format": MONITOR_FORMAT,
            "bets": [
                {"bets": list(map(vars, bets.evidence)), "sums": bets.sums.tolist()}
                for bets in self.bets
            ],
            "batches": [asdict(batch) for batch in self.batches],
            "ids": self.ids.tolist(),
            "seen": [rows.to_dict() for rows in self.seen],
        }
        return state | {"digest": digest_of(state, self.certificate.to_dict())}

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
            cure = "begin a new state with these batches"
            state = migrated(dict(state), MONITOR_FORMAT, {}, "the state", cure)
            if state["digest"] != digest_of(state, monitor.certificate.to_dict()):
                raise ValueError(
                    "the state was changed after it was written, or is about another "
                    "certificate: its checksum differs"
                )
            bets = [
                Bets(tuple(Evidence(**bet) for bet in each["bets"]), np.array(each["sums"]))
                for each in state["bets"]
            ]
            return replace(
                monitor,
                bets=tuple(bets),
                batches=[MonitoredBatch(**batch) for batch in state["batches"]],
                ids=np.array(state["ids"], dtype=np.uint64),
                seen=tuple(map(Seen.from_dict, state["seen"])),
            )


def _answered_rows(rule: Decision, groups: Groups) -> Mask:
    """Return a mask of the rows whose groups a rule knows, shape (n,); a warning counts the others.

    Raise ValueError if the rule knows the groups of no row.
    """
    known = rule.groups
    for name, column in named_columns(groups, None, known).items():
        if name in known and rule.by_group in (True, name):
            names = list(map(unit_name, known[name]))
            is_other, others = other_groups(column, names)
            if not is_other.any():
                break
            words = f"groups {others}: the rule knows {listed(names)}"
            if is_other.all():
                raise ValueError(
                    f"{words}. No row has another group: check the column of groups"
                )
            n_left_out = int(np.count_nonzero(is_other))
            warn_user(
                f"rows not tested: {n_left_out:,} of {len(is_other):,}; {words}",
                UncertifiedGroupsWarning,
            )
            return ~is_other
    return np.ones(n_rows_of(groups), dtype=bool)


def _part(given: dict[str, Any], rows: Mask) -> dict[str, Any]:
    """Return some of the rows."""
    return {name: take(as_pandas(column), rows) for name, column in given.items()}
