"""Monitor: the bounds of a certificate are tested on later batches, by bets that hold at any time."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, Self

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
from tailboost.selection.door import Decided, answering

if TYPE_CHECKING:  # `Certificate.recheck` begins a monitor
    from tailboost.guarantees.certificates import Certificate

MONITOR_FORMAT = 12  # version of the state's JSON
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

        Labels are a column of objects, also if none is known. A warning counts the other rows. Raise
        ValueError without any, or for a column of another length.
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
        return rows._replace(y=labels).part(is_read)


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
    batches, is at most 1 − confidence. Rows, or clusters, must be independent draws. The order of rows within
    a batch has no effect.

    Labels may come late for rows with ids: give the batch again, with its name. The delay of a label must not
    depend on the correctness of the prediction. It may depend on the class for rates of one class.

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
    # With ids: hashes of those whose label was used, and of pairs of a tested cluster and its batch.
    ids: Hashes = field(default_factory=lambda: NO_HASHES, repr=False)
    # Without ids: the rows of each batch.
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
        is_other_model = certificate.identity != decided.identity().digest
        # A document about a model of another library has no digest to compare.
        is_other_model &= bool(certificate.identity or certificate.rule)
        if is_other_model or certificate.rule != decided.rule.digest:
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
            As in `tailboost.certify`. A cluster is tested once in each batch, in the first look with
            all its labels.
        id : array-like of shape (n,), optional
            Id of each row, all different: of all batches or of none. Late labels need ids: rows whose label
            was tested are passed over when their batch is given again.
        name : str, optional
            Name of the batch; by default its number, or a later one if that is taken.

        Raises
        ------
        LeakageError
            If rows of the fit, of the certificate or of another batch are among them, more than by chance.
        ValueError
            If an argument is not as described.
        """
        given = LaterRows(X, y, groups, clusters, id)
        check_indexes(**given._asdict())
        if clusters is None and self.certificate.n_clusters is not None:
            warn_user("clusters: the certificate counts clusters; give those of the rows")
        names = self._names
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

        # 2. Those that are tested: each row once, with its first label.
        has_label = np.array([not is_missing(label) for label in rows.y.tolist()])
        is_tested = has_label
        ids = self.ids
        seen = self.seen
        if rows.id is None:
            seen = self._seen_after(Seen.of(scored.given(), name), has_label, decided)
        else:
            is_tested, ids = self._tested_by_id(name, rows, has_label)

        # 3. The bets on them.
        bets = self.bets
        if is_tested.any():
            bets = self._bets_after(rows.part(has_label), is_tested[has_label], decided)
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
        return replace(self, bets=bets, batches=[*self.batches, look], ids=ids, seen=seen)

    def _seen_after(self, rows: Seen, has_label: Mask, decided: Decided) -> tuple[Seen, ...]:
        """Return all `seen` after a batch without ids: this is its only look. Warn of rows without a label.

        Raise LeakageError if another batch had rows of this one, ValueError if it had its name, or ids.
        """
        if len(self.ids):
            raise ValueError(f"id is needed for batch {rows.use!r}: earlier batches have ids")
        if rows.use in self._names:
            raise ValueError(
                f"batch {rows.use!r} was given before, and without ids its rows are not told "
                f"apart: other rows need another name; for late labels {BEGIN_ANEW}"
            )
        if not has_label.any():
            raise ValueError("y: no row has a label; give id= with rows whose labels come late")
        if not has_label.all():
            warn_user(
                f"y: {(~has_label).sum():,} of {len(has_label):,} rows have no label and are "
                "left out; if their labels come later, give id= with each batch, also this one"
            )
        equal_rows = self.certificate.equal_rows
        if decided.known[0].score_labels:
            equal_rows = "natural"
        known = first_repeated(rows, self.seen, equal_rows)
        if known is not None:
            raise LeakageError(
                f"X: rows of this batch equal rows of batch {known.use!r}. If they are "
                "other rows, give id= with each batch"
            )
        return (*self.seen, rows)

    def _tested_by_id(self, name: str, rows: LaterRows, has_label: Mask) -> tuple[Mask, Hashes]:
        """Return which rows are tested, and all `ids` after it: each has one test, with its first label.

        So has a cluster in each batch, when all its labels are known: its vote must not depend on which
        come first. Raise LeakageError if another batch had rows of this one, ValueError if ids are not as
        described.
        """
        if self.seen:
            raise ValueError(f"id: earlier batches have none: leave it out, or {BEGIN_ANEW}")
        is_new = name not in self._names
        # As text, which keeps long numbers of either sign apart.
        texts = [None if is_missing(each) else written(each) for each in rows.id]
        hashes = hashes_of_names(label_column(texts, "id", target=True))
        if len(np.unique(hashes)) < len(hashes):
            raise ValueError(
                "id: two rows have the same id; rows of one person need clusters= instead"
            )
        earlier = max((each.rows for each in self.batches if each.name == name), default=0)
        if rows.clusters is not None and len(hashes) < earlier:
            raise ValueError(
                f"X: batch {name!r} had {earlier:,} rows; give all of them again, as a cluster waits for "
                "all of its labels"
            )
        is_known = np.isin(hashes, self.ids)
        if is_new and is_known.any():
            raise LeakageError(
                f"id: {is_known.sum():,} of {len(hashes):,} rows were tested in another batch; "
                "give late labels with the name of their batch"
            )
        is_tested = has_label & ~is_known
        used = [self.ids]
        if rows.clusters is not None:
            of_rows = hashes_of_names(label_column(rows.clusters, "clusters", target=True))
            of_batch = hashes_of_pairs(of_rows, hashes_of_names([name]))
            is_tested &= ~(np.isin(of_rows, of_rows[~has_label]) | np.isin(of_batch, self.ids))
            used.append(np.unique(of_batch[is_tested]))
        if not (is_new or is_tested.any()):
            raise ValueError(
                f"batch {name!r} was given before, and no row has a new label; a cluster waits "
                "for all of its labels"
            )
        return is_tested, np.concatenate([*used, hashes[is_tested]])

    def _bets_after(
        self, labelled: LaterRows, is_new: Mask, decided: Decided
    ) -> tuple[Bets, ...]:
        """Return the bets after rows with labels, of which some are new."""
        whole = Rows.read(labelled.X, labelled.y, labelled.groups, clusters=labelled.clusters)
        rows = whole.part(is_new).occurring()
        rates = [each.bound.rate for each in self.bets]
        equal_rows = self.certificate.equal_rows
        fresh = Fresh.of_model(decided, rows, rates, equal_rows, whole=whole)
        used = self.certificate.used
        if used is not None and fresh.used.repeats(used, equal_rows):
            raise LeakageError("X: these rows repeat rows of the certificate. Give new rows")
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
        return tuple(bets)

    # -- results -------------------------------------------------------------------------------------

    @property
    def threshold(self) -> float:
        """Evidence from which on a bound is contradicted."""
        return round(len(self.bets) / (1.0 - self.certificate.confidence), 9)

    @property
    def _names(self) -> set[str]:
        """The names of the batches."""
        return {batch.name for batch in self.batches}

    @property
    def _contradicted(self) -> list[tuple[CertifiedBound, str]]:
        """Each contradicted bound, with the name of the first batch that contradicts it."""
        contradicted = []
        for j, bets in enumerate(self.bets):
            beyond = [each.name for each in self.batches if each.evidence[j] >= self.threshold]
            if beyond:
                contradicted.append((bets.bound, beyond[0]))
        return contradicted

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
        n_rows = how_many(sum(batch.labelled for batch in self.batches), "row")
        rows = f"{n_rows} of {how_many(len(self._names), 'batch', 'batches')} contradict"
        broken = [
            f"{bound.title} {bound.bound_text} since {name}"
            for bound, name in self._contradicted
        ]
        if not broken:
            return f"No alarm: {rows} none of {of_bounds}."
        named = joined(broken, GROUPS_NOTED, "; ")
        return f"Alarm: {rows} {len(broken)} of {of_bounds}: {named}."

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
        allowed = percent(round(1.0 - self.certificate.confidence, 12))
        meaning = (
            "Evidence is what a stake of 1 has become by bets on the new rows against a "
            "bound. If all bounds are true and the rows are independent draws, any alarm ever "
            f"has a probability of at most {allowed}."
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
            "batches": [asdict(batch) for batch in self.batches],
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
                ids=np.array(state["ids"], np.uint64),
                seen=tuple(map(Seen.from_dict, state["seen"])),
            )
