"""Monitor: the bounds of a certificate are tested on later batches, by bets that hold at any time."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from itertools import count
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils import column_or_1d

from tailboost.core import (
    Cells,
    Column,
    Document,
    Groups,
    Hashes,
    LeakageError,
    Mask,
    Model,
    Table,
    UncertifiedGroupsWarning,
    as_pandas,
    check_format,
    check_indexes,
    check_length,
    frozen_value,
    how_many,
    is_missing,
    joined,
    label_column,
    listed,
    n_rows_of,
    percent,
    reading,
    take,
    text_table,
    warn_user,
    written,
)
from tailboost.guarantees.bets import Bets, Wealth
from tailboost.guarantees.certificates import Certificate
from tailboost.guarantees.certified_bound import CertifiedBound
from tailboost.guarantees.fresh import Fresh
from tailboost.rates import groups_in
from tailboost.rows import (
    NO_HASHES,
    Rows,
    Seen,
    digest_of,
    first_repeated,
    group_columns,
    hashes_of_names,
    hashes_of_pairs,
    other_groups,
    reads_groups,
    warn_of_other_groups,
    with_titles,
)
from tailboost.rows.equal_rows import most_predicted
from tailboost.selection.door import Decided, Scored, answering

MONITOR_FORMAT = 13  # version of the state's JSON
GROUPS_NOTED = 10  # the most groups in a sentence
BEGIN_ANEW = "begin a new state with every batch and its id="


class LaterRows(NamedTuple):
    """The rows of one batch with their labels, groups, clusters and ids, as given to `Monitor.add`."""

    X: Table
    y: Column
    groups: Groups
    clusters: Column
    id: Column

    def part(self, mask: Mask) -> LaterRows:
        """Return the rows of a mask."""
        return LaterRows(**take(self._asdict(), mask))

    def answered_by(self, decided: Decided) -> LaterRows:
        """Return the rows that have scores, and groups that the rule knows.

        Labels are a column of objects, also if none is known; clusters and ids are hashes. A warning counts
        the other rows. Raise ValueError without any, or for a column of another length.
        """
        rule = decided.rule
        scored = decided.score(self.X, group_columns(self.groups, "groups", self.X))
        rows = LaterRows(*map(as_pandas, self._replace(groups=scored.groups or None)))
        n = n_rows_of(rows.X)
        for argument, column in rows._asdict().items():
            if column is not None:
                check_length(column, argument, n)
        lacking = scored.lacking()
        if lacking.all():
            raise ValueError(f"X: none of {how_many(n, 'row')} has a score")
        if lacking.any():
            warn_user(f"{lacking.sum():,} rows of {n:,} are not tested: they have no score")
        is_read = ~lacking
        columns = with_titles(group_columns(rows.groups, "groups"), rule.groups)
        for name, known in rule.groups.items():
            if name in columns and reads_groups(rule.by_group, name):
                is_other, others = other_groups(columns[name], known)
                words = f"groups {others}: the rule knows {listed(known)}"
                if is_other.all():
                    raise ValueError(
                        f"{words}. No row has another group: check the column of groups"
                    )
                if is_other.any():
                    warn_user(
                        f"rows not tested: {is_other.sum():,} of {n:,}; {words}",
                        UncertifiedGroupsWarning,
                    )
                is_read &= ~is_other
        labels = np.full(n, None) if rows.y is None else column_or_1d(rows.y, dtype=object)
        clusters = _hashed(rows.clusters, "clusters")
        return rows._replace(y=labels, clusters=clusters, id=_hashed(rows.id, "id")).part(
            is_read
        )


def _hashed(names: Column, argument: str) -> Hashes | None:
    """Return the hash of each name of a cluster or an id, shape (n,); None for None."""
    if names is None:
        return None
    if not isinstance(names, list):
        names = column_or_1d(names, dtype=object)
    # As text, which keeps long numbers of either sign apart.
    texts = [None if is_missing(each) else written(each) for each in names]
    return hashes_of_names(label_column(texts, argument, target=True))


@frozen_value
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

    Bets test each bound, and their wealth grows if rows break it (`Wealth`). Those against a gap or ratio
    pair rows of two subgroups: a batch tests nothing without rows of both. If all m bounds are true, the
    probability that the evidence against any of them ever reaches m/(1 − confidence), after any number of
    batches, is at most 1 − confidence. Rows, or clusters, must be independent draws: a person of an earlier
    batch is no new one. The order of rows within a batch has no effect.

    Labels may come late for rows with ids: give all rows at first, and the same rows again. The delay of a
    label must not depend on the correctness of the prediction, nor on the size of its cluster. It may depend
    on the class for rates of one class.

    Parameters
    ----------
    rule : fitted classifier or rule
        From `tailboost.calibrate` or `tailboost.load_rule`; with a certificate any model of `certify`.
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
    certificate: Any = None
    # Of each bound, in the order of the certificate.
    bets: tuple[Bets, ...] = field(default=(), repr=False)
    batches: list[MonitoredBatch] = field(default_factory=list)
    # Hashes of the clusters that need no further look; of rows without clusters, of their ids.
    clusters: Hashes = field(default_factory=lambda: NO_HASHES, repr=False)
    # With ids: hashes of the id, the content and the cluster of each row, shape (n, 3).
    ids: Hashes = field(default_factory=lambda: NO_HASHES.reshape(0, 3), repr=False)
    # Without ids: the labelled rows of each batch.
    seen: tuple[Seen, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:  # also after each batch, by `replace`
        decided = answering(self.rule)
        certificate: Any = self.certificate or decided.certificate
        if certificate is None:
            raise ValueError(
                "rule: it has no certificate to test; `calibrate` returns a rule with one, or "
                "give that of `certify` as certificate="
            )
        # Of a document it has no columns; its rule knows them.
        certificate = replace(certificate, columns=tuple(decided.rule.groups))
        is_other = certificate.rule != decided.rule.digest
        # A document about a model of another library has no digest to compare.
        if certificate.identity or certificate.rule:
            is_other |= certificate.identity != decided.identity().digest
        if is_other:
            raise ValueError(
                "the certificate of this monitor is about another rule or model, or this "
                f"{type(self.rule).__name__} was fitted again, or has steps of which a "
                "document holds no content: certify it from fresh rows"
            )
        for bound in certificate.bounds:  # no bets are known against a tail
            bound.rate.refuse_uncounted()
            # The column of each compared subgroup; combinations of columns begin with the same one.
            columns = {
                column: None
                for subgroup in bound.subgroups
                for column, _ in groups_in(subgroup, bound.rate.by, certificate.columns)[:1]
            }
            if len(columns) > 1:
                raise ValueError(
                    f"{bound.rate!r}: the groups of the columns {listed([*columns])} overlap, "
                    f"so no bets on their {bound.subgroup} are known; limit that of each column"
                )
        self.certificate = certificate
        self.bets = self.bets or tuple(map(Bets, certificate.bounds))

    def add(
        self,
        X: Table,
        y: Column = None,
        *,
        groups: Groups = None,
        clusters: Column = None,
        id: Column = None,
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
            As in `tailboost.certify`. A cluster is tested once in all batches, in the first look with all
            its labels. Until then each look has all its earlier rows, or none. Without ids its first batch
            is its only look.
        id : array-like of shape (n,), optional
            Id of each row, different in all batches; for all batches or for none. Late labels need ids: rows
            whose label was tested are passed over when they are given again.
        name : str, optional
            Name of the batch; by default its number, or a later one if that is taken. No row is told apart
            by it.

        Raises
        ------
        LeakageError
            If rows of the fit, of the certificate or of another batch are among them, more than by chance,
            or if an id is that of another row.
        ValueError
            If an argument is not as described.
        """
        given = LaterRows(X, y, groups, clusters, id)
        check_indexes(**given._asdict())
        if clusters is None and self.certificate.n_clusters is not None:
            warn_user("clusters: the certificate counts clusters; give those of the rows")
        names = {batch.name for batch in self.batches}
        if name is None:
            name = next(k for k in map(str, count(len(names) + 1)) if k not in names)
        name = str(name)

        # 1. The rows that the rule answers.
        decided = answering(self.rule)
        rows = given.answered_by(decided)
        if decided.classes is None:
            raise ValueError(
                f"rule: {type(self.rule).__name__} has no classes_; set it to the array of labels"
            )
        scored = decided.score(rows.X, rows.groups)
        if not scored.is_comparable:
            warn_user(
                "X: probabilities in place of features are not compared with the rows that "
                "the fit, the rule and the certificate had, which look easier than new ones"
            )

        # 2. Those that are tested: each row and each cluster once, when all its labels are known.
        has_label = np.array([not is_missing(label) for label in rows.y.tolist()])
        is_tested, hashes = self._tested(rows, has_label, scored)

        # 3. The bets on them.
        bets = self.bets
        seen = self.seen
        if is_tested.any():
            bets, seen = self._bets_after(rows.part(has_label), is_tested[has_label], decided)
        else:  # unreadable rows are refused now, not with their late labels
            scored.numbers(decided.classes)
        if name not in names:
            warn_of_other_groups(self.certificate.groups_named, rows.X, rows.groups)
        newest = [
            replace(after, sums=after.sums - before.sums)
            for before, after in zip(self.bets, bets, strict=True)
        ]
        look = MonitoredBatch(
            name,
            rows=len(has_label),
            labelled=int(is_tested.sum()),
            waiting=int((~has_label).sum()),
            errors=[[each.n, each.rate] for each in newest],
            evidence=[each.value for each in bets],
        )
        return replace(self, bets=bets, batches=[*self.batches, look], seen=seen, **hashes)

    def _tested(
        self, rows: LaterRows, has_label: Mask, scored: Scored
    ) -> tuple[Mask, dict[str, Hashes]]:
        """Return which rows are tested, and `clusters` and `ids` after it.

        A cluster is tested once, in the first look with all its rows so far and all their labels: its vote
        must not depend on which come first. A row without one is a cluster of its own. Without ids this is
        the only look at the rows, and at their clusters. A cluster that waits with other rows is passed over.
        Raise LeakageError if known rows differ, ValueError if ids are not as described or no label is new.
        """
        has_ids = rows.id is not None
        if len(self.seen if has_ids else self.ids):
            raise ValueError(
                f"id is needed with each batch, or with none: leave it out, or {BEGIN_ANEW}"
            )
        n = len(has_label)
        ids = np.arange(n, dtype=np.uint64)
        if has_ids:
            ids = rows.id
        if len(np.unique(ids)) < n:
            raise ValueError(
                "id: two rows have the same id; rows of one person need clusters= instead"
            )
        clusters = ~ids  # no name of a cluster
        if rows.clusters is not None:
            clusters = rows.clusters

        # Known rows are as before, and clusters that wait have all their rows.
        contents = hashes_of_pairs(clusters, scored.given())
        known, known_contents, of_known = self.ids.T
        is_known = np.isin(ids, known)
        is_open = ~np.isin(clusters, self.clusters)
        is_part = is_open & np.isin(clusters, of_known[~np.isin(known, ids)])
        is_other = is_known & (is_part | ~np.isin(contents, known_contents))
        if is_other.any():
            raise LeakageError(
                f"id: {is_other.sum():,} of {n:,} rows have the id of a known row with other values, or "
                "lack rows of their cluster. Ids must be unique over all batches; give late labels "
                "with the rows as the rule answered them, and with all rows of a cluster"
            )
        is_open &= ~is_part
        is_tested = is_open & has_label & ~np.isin(clusters, clusters[~has_label])
        is_new = is_open & ~is_known & has_ids
        if not (is_new | is_tested).any():
            raise ValueError(
                "y: no row has a new label. A cluster is tested once, with all of its labels; "
                "give id= with rows whose labels come late"
            )
        is_spent = is_tested
        if not has_ids:
            is_spent = is_open & (rows.clusters is not None)
            if not is_tested.all():
                warn_user(
                    f"y: {(~is_tested).sum():,} of {n:,} rows have no label, or are in a cluster with such "
                    "rows or of an earlier batch, and are left out; if labels come later, give id= with each "
                    "batch, also this one"
                )
        of_rows = np.column_stack([ids, contents, clusters])[is_new]
        spent = np.union1d(self.clusters, clusters[is_spent])
        return is_tested, {"clusters": spent, "ids": np.vstack([self.ids, of_rows])}

    def _seen_after(self, rows: Seen, decided: Decided, has_ids: bool) -> tuple[Seen, ...]:
        """Return all `seen` after the labelled rows of a batch.

        Raise LeakageError if they repeat those of the certificate or of a batch. Without ids also, if more
        rows of all batches equal another one, or one of the certificate, than its repetition predicts.
        """
        # The last known table is that of the certificate, if it is known.
        known = [*decided.known[0].tables, self.certificate.used]
        tables = [each for each in known if each and len(each.digests)][-1:]
        equal_rows = self.certificate.equal_rows
        among_batches = equal_rows
        if rows.of_scores:  # different rows may have equal scores
            among_batches = "natural"
        is_repeated = bool(
            first_repeated(rows, tables, equal_rows)
            or first_repeated(rows, self.seen, among_batches)
        )
        seen = self.seen
        if not has_ids:
            seen = (*seen, rows)
            tables += seen
            first = np.unique_counts(tables[0].digests).counts
            n_first, n_new = first.sum(), sum(len(each.digests) for each in seen)
            # Of each table one row of each content: many may have the value at which scores are clipped.
            contents = np.concatenate([np.unique(each.digests) for each in tables])
            n_equal = len(contents) - len(np.unique(contents))
            most = 1 + most_predicted(first, n_new * (n_first + n_new) / n_first)
            is_repeated |= equal_rows == "copies" and n_equal > most
        if is_repeated:
            raise LeakageError(
                "X: rows of this batch equal rows of earlier batches, or of the certificate. If they "
                f"are other rows, or for late labels, {BEGIN_ANEW}"
            )
        return seen

    def _bets_after(
        self, labelled: LaterRows, is_new: Mask, decided: Decided
    ) -> tuple[tuple[Bets, ...], tuple[Seen, ...]]:
        """Return the bets, and `seen`, after rows with labels, of which some are new."""
        whole = Rows.read(labelled.X, labelled.y, labelled.groups, clusters=labelled.clusters)
        rows = whole.part(is_new).occurring()
        rates = [each.bound.rate for each in self.bets]
        fresh = Fresh.of_model(decided, rows, rates, self.certificate.equal_rows, whole=whole)
        seen = self._seen_after(fresh.used, decided, labelled.id is not None)
        of_rate = {rate: fresh.samples(rate) for rate in rates}  # once for all bounds of a rate
        bets = []
        for before in self.bets:
            bound = before.bound
            samples = {sample.name: sample for sample in of_rate[bound.rate]}
            absent = next(iter(samples.values())).taken([])  # a subgroup may have no row here
            named = [samples.get(each, absent) for each in bound.subgroups or (bound.subgroup,)]
            if not fresh.are_apart(named):
                raise ValueError(
                    "clusters: some have rows in several of the subgroups that a gap or ratio "
                    "compares, so these are not independent. Give one row of each cluster"
                )
            # Of votes, whose draws are the least of their clusters, those of large clusters would be first.
            in_order = [each.taken(np.argsort(fresh.lots[each.rows])) for each in named]
            bets.append(before.add(in_order))
        return tuple(bets), seen

    # -- results -------------------------------------------------------------------------------------

    @property
    def threshold(self) -> float:
        """Evidence from which on a bound is contradicted."""
        return round(len(self.bets) / (1.0 - self.certificate.confidence), 9)

    @property
    def _contradicted(self) -> list[tuple[CertifiedBound, str]]:
        """Each contradicted bound, with the name of the first batch that contradicts it."""
        return [
            (bets.bound, batch.name)
            for j, bets in enumerate(self.bets)
            for batch in [b for b in self.batches if b.evidence[j] >= self.threshold][:1]
        ]

    @property
    def alarms(self) -> list[CertifiedBound]:
        """The contradicted bounds, now or after an earlier batch."""
        return [bound for bound, _ in self._contradicted]

    @property
    def verdict(self) -> str:
        """The result, in a sentence."""
        of_bounds = how_many(len(self.bets), "bound")
        if not self.batches:
            return f"No rows yet: {of_bounds} to test."
        rows = (
            f"{how_many(sum(batch.labelled for batch in self.batches), 'row')} of "
            f"{how_many(len({batch.name for batch in self.batches}), 'batch', 'batches')} contradict"
        )
        broken = [
            f"{bound.title} {bound.bound_text} since {name}"
            for bound, name in self._contradicted
        ]
        if not broken:
            return f"No alarm: {rows} none of {of_bounds}."
        return (
            f"Alarm: {rows} {len(broken)} of {of_bounds}: {joined(broken, GROUPS_NOTED, '; ')}."
        )

    def cells(self) -> Cells:
        """Return the table of bounds."""
        heads = [
            "result",
            "rate",
            "bound",
            "rate, newest rows",
            "rate, all batches",
            "rows",
            f"largest evidence (alarm at {self.threshold:.4g})",
        ]
        rows = []
        for j, bets in enumerate(self.bets):
            bound = bets.bound
            n_newest, newest = self.batches[-1].errors[j] if self.batches else (0, None)
            evidence = max((batch.evidence[j] for batch in self.batches), default=1.0)
            result = "not contradicted"
            if not bets.n:
                result = "no rows"
            elif not all(each.batches for each in bets.wealths):
                result = "no pairs of rows"
            if evidence >= self.threshold:
                result = "contradicted"
            rows.append(
                [
                    result,
                    bound.title,
                    bound.bound_text,
                    bound.in_words(newest, n_newest),
                    bound.in_words(bets.rate, bets.n),
                    f"{bets.n:,}",
                    f"{evidence:.3g}",
                ]
            )
        return heads, rows

    def __str__(self) -> str:
        meaning = (
            "Evidence is what a stake of 1 has become by bets on the new rows against a "
            "bound. If all bounds are true and the rows are independent draws, any alarm ever "
            f"has a probability of at most {percent(round(1.0 - self.certificate.confidence, 12))}."
        )
        return "\n".join(
            [self.verdict, "", text_table(*self.cells(), left=(0, 1)), "", meaning]
        )

    # -- state ---------------------------------------------------------------------------------------

    def to_dict(self) -> Document:
        """Return the state as plain types, for JSON: counts and hashes, no row and no rule."""
        state = {
            "format": MONITOR_FORMAT,
            "bets": [
                {"bets": list(map(vars, each.wealths)), "sums": each.sums.tolist()}
                for each in self.bets
            ],
            "batches": list(map(asdict, self.batches)),
            "clusters": self.clusters.tolist(),
            "ids": self.ids.tolist(),
            "seen": [rows.to_dict() for rows in self.seen],
        }
        return state | {"digest": digest_of(state, self.certificate.to_dict())}

    @classmethod
    def from_dict(
        cls, state: Document, rule: Model, certificate: Certificate | None = None
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
                state, MONITOR_FORMAT, "the state", "begin a new state with these batches"
            )
            if state["digest"] != digest_of(state, monitor.certificate.to_dict()):
                raise ValueError(
                    "the state was changed after it was written, or is about another "
                    "certificate: its checksum differs"
                )
            bets = tuple(
                replace(
                    start,
                    wealths=tuple(Wealth(**bet) for bet in each["bets"]),
                    sums=np.array(each["sums"]),
                )
                for start, each in zip(monitor.bets, state["bets"], strict=True)
            )
            return replace(
                monitor,
                bets=bets,
                batches=[MonitoredBatch(**batch) for batch in state["batches"]],
                clusters=np.array(state["clusters"], np.uint64),
                ids=np.array(state["ids"], np.uint64).reshape(-1, 3),
                seen=tuple(map(Seen.from_dict, state["seen"])),
            )
