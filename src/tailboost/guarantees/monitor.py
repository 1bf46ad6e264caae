"""Monitoring of a model in use: evidence against bounds by batch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import chain
from typing import Any, Self

import numpy as np

from tailboost.core.array_types import (
    Axes,
    Column,
    Document,
    Groups,
    Hashes,
    Ints,
    Labels,
    Mask,
    Model,
    Stated,
    Table,
)
from tailboost.core.checks import (
    as_pandas,
    check_format,
    check_indexes,
    check_length,
    check_number,
    for_each,
    groups_in,
    n_rows_of,
    reading,
    refuse_swapped,
    take,
)
from tailboost.core.drawing import display
from tailboost.core.spelling import (
    a_type_of,
    as_typed,
    how_many,
    joined,
    with_known_arguments,
)
from tailboost.guarantees.batches import (
    GivenRows,
    RowWords,
    copies_pass,
    label_numbers,
    refuse_repeated,
    row_ids,
)
from tailboost.guarantees.certificates import Certificate, bounds_table, limit_on_errors
from tailboost.guarantees.fresh_rows import answers_of, groups_of_fit
from tailboost.guarantees.rate_bounds import CertifiedBound
from tailboost.guarantees.recheck import (
    GROUPS_NOTED,
    Cells,
    Recheck,
    RecheckedBound,
    bounds_html,
    bounds_text,
)
from tailboost.guarantees.stated import as_model, stated_by
from tailboost.rates import Limit, Strata, checked_limits
from tailboost.rates.strata import CELL, CLASS, EVERYTHING, GROUP, names_in
from tailboost.rows.fingerprints import CHANCE, EqualRows, digest, refuse_copied
from tailboost.rows.given import lists_of_subgroups
from tailboost.rows.judged import (
    judged,
    refuse_other_rule,
    rows_with_score,
)
from tailboost.rows.other_groups import (
    answered_rows,
    refuse_missing_groups,
    warn_of_other_groups,
)
from tailboost.rows.readers import reason_of_equal_rows, row_hashes
from tailboost.rows.subgroups import by_column

# Version of the state's JSON.
MONITOR_FORMAT = 8


@dataclass(frozen=True)
class MonitoredBatch:
    """Results of one look at a batch.

    Attributes
    ----------
    name : str
        Name of the batch.
    rows : int
        Rows in the batch.
    labelled : int
        Number of rows tested in this look. Each row is tested once, in the first look with its label.
    waiting : int
        Rows without labels.
    errors : list of (int, float or None)
        For each bound the number of tested rows and the bounded quantity on these rows.
    evidence : list of float
        For each bound the evidence after this look.
    """

    name: str
    rows: int
    labelled: int
    waiting: int
    errors: list[tuple[int, float | None]]
    evidence: list[float]


@dataclass(frozen=True)
class Monitor:
    """Evidence against bounds on a model's errors or rates, updated with each batch of later rows.

    Bets test each bound, and their wealth grows if rows break the bound
    (`tailboost.rates.bounds.Evidence`). If all bounds are true, the probability of any alarm, after any
    number of batches, is at most 1 − confidence. The rows, or their clusters, must be independent draws. The
    order of rows within a batch has no effect.

    A limit on every group also holds for later groups. One bound on "other groups" tests the rows
    of all these groups together. A certificate does not cover them; the notes name them.

    Labels may come late: rows without a label wait, and are tested when the same batch is given again, in any
    order. Without row ids, the new labels of equal rows are the given labels less the used ones. The delay of
    a label must not depend on the correctness of the prediction. It may depend on the class for rates of one
    class, such as a miss rate. For rates of several classes, such as the overall error, it must not.

    Attributes
    ----------
    certificate : Certificate
        The bounds.
    recheck : Recheck or None
        The evidence of all rows with labels.
    batches : list of MonitoredBatch
        The looks, in order.
    waiting : dict
        Fingerprints of the rows of each batch in which rows wait, with the labels used.
    given : list of GivenRows
        Fingerprints of the ids and scores of each batch, to recognise repeated rows.
    model : fitted classifier or None
        The monitored rule, which `add` takes by default. No file of the state has it.
    equal_rows : {"copies", "natural"}
        How `add` treats equal rows by default.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_classification
    >>> import tailboost as tb
    >>> X, y = make_classification(4000, flip_y=0.2, random_state=0)
    >>> clf = tb.WorstClassBoostClassifier(n_estimators=3, random_state=0).fit(X[:1000], y[:1000])
    >>> monitor = tb.Monitor.against(clf, limits=["error <= 40%"])
    >>> monitor = monitor.add(X[2000:3000], y[2000:3000], name="January")
    >>> monitor.alarms
    []
    >>> monitor = monitor.add(X[3000:], 1 - y[3000:], name="February")  # all labels swapped
    >>> monitor.alarms[0].bound.title
    'error: all rows'
    """

    certificate: Certificate
    recheck: Recheck | None = None
    batches: list[MonitoredBatch] = field(default_factory=list)
    waiting: dict[str, RowWords] = field(default_factory=dict)
    given: list[GivenRows] = field(default_factory=list)
    model: Model | None = field(default=None, repr=False, compare=False)
    equal_rows: EqualRows = "copies"

    # -- start ---------------------------------------------------------------------------------------

    def __post_init__(self) -> None:
        """Raise TypeError if a rule was given in the place of a certificate."""
        if not isinstance(self.certificate, Certificate):
            raise TypeError(
                "Monitor: the certificate of a monitor is needed; of a rule write "
                "Monitor.against(rule, limits=[…])"
            )

    @classmethod
    @with_known_arguments()
    def of(
        cls,
        certificate: Certificate,
        model: Model | None = None,
        equal_rows: EqualRows | None = None,
    ) -> Self:
        """Return a monitor of certified bounds.

        Parameters
        ----------
        certificate : Certificate
            From `tailboost.certify`, or the ``certificate_`` of a calibrated classifier.
        model : fitted classifier, optional
            The rule of the certificate, for `add`.
        equal_rows : {"copies", "natural"}, optional
            How each `add` treats equal rows, see there. By default as in the certificate or, without one,
            "copies".

        Raises
        ------
        ValueError
            If the certificate has no bound on a mean or a rate.
        """
        if not isinstance(certificate, Certificate):
            cure = "give a rule to Monitor.against(rule, limits=[…])"
            if getattr(certificate, "certificate_", None) is not None:
                cure = "give its certificate_, Monitor.of(rule.certificate_, rule)"
            raise TypeError(
                f"a certificate is needed, got {type(certificate).__name__}: {cure}"
            )
        if not certificate.tested:
            raise ValueError(
                "the certificate has no bound that later rows can test: on the error of all "
                "rows, a class or a group, or on a rate"
            )
        model = as_model(model)
        reason = reason_of_equal_rows(judged(model), equal_rows or certificate.equal_rows)
        return cls(certificate, model=model, equal_rows=reason)

    @classmethod
    @with_known_arguments()
    def against(
        cls,
        model: Model,
        max_error: Stated = None,
        *,
        limits: Stated = (),
        subgroups: Any = None,
        confidence: float | None = None,
        equal_rows: EqualRows | None = None,
    ) -> Self:
        """Return a monitor of targets or limits of a rule; the monitor keeps the rule.

        By default they are the bounds of the model's certificate or, without one, the limits or largest
        errors of its fit.

        Parameters
        ----------
        model : fitted classifier or rule
            A rule comes from `tailboost.load_rule`. The classes of the model, and the groups of its fit, are
            the subgroups.
        max_error : float or dict, optional
            The largest errors allowed, as in `tailboost.certify`.
        limits : list of Limit or str, optional
            Limits on rates instead, from `tailboost.rates` or as text.
        subgroups : list or dict of a list, optional
            All groups, if different from the groups of the fit: names, pairs (column, value), or
            ``{"group": […]}``.
        confidence : float in (0, 1), optional
            One minus the probability of any false alarm. By default .95, or that of the certificate.
        equal_rows : {"copies", "natural"}, optional
            How each `add` treats equal rows, see there. By default as in the certificate or, without one,
            "copies".

        Raises
        ------
        ValueError
            If an argument is not as described, or ``subgroups`` or ``confidence`` would change the bounds of
            a certificate.
        """
        if confidence is not None:
            check_number(confidence, "confidence", 0, 1, below=True)
        monitored = () if limits is None else checked_limits(limits)
        if max_error is not None and monitored:
            raise ValueError("max_error and limits: give one of them, not both")
        model = as_model(model)
        if max_error is None and not monitored:
            certificate = judged(model).certificate
            if certificate is not None:
                if subgroups is not None or confidence is not None:
                    raise ValueError(
                        "subgroups and confidence are those of the rule's certificate: leave "
                        "them out, or state limits=, such as limits=['miss(1) <= 40%']"
                    )
                return cls.of(certificate, model, equal_rows)
            targets = stated_by(model)
            max_error = targets.max_error
            monitored = checked_limits(targets.limits)
        if max_error is None and not monitored:
            raise ValueError(
                "limits is needed: the model states none; give limits=['miss(1) <= 40%'], or "
                "max_error"
            )

        classes = np.asarray(model.classes_).tolist()
        groups = groups_of_fit(model)
        if subgroups is not None:
            groups = lists_of_subgroups(subgroups, ["group"])["group"]
        strata = _strata_of(classes, groups, monitored)
        if max_error is not None:
            monitored = (limit_on_errors(max_error, strata),)
        for limit in monitored:
            if limit.rate.needs_groups and not groups:
                raise ValueError(
                    f"{limit!r} needs groups, and the fit of the model had none: name them in "
                    "subgroups="
                )
        bounds = chain.from_iterable(
            for_each(lambda limit: _bounds_of_limit(limit, strata), monitored)
        )
        targets_as_bounds = Certificate(
            tuple(bounds),
            confidence=0.95 if confidence is None else confidence,
            n_rows=0,
            notes=(),
        )
        return cls.of(targets_as_bounds, model, equal_rows)

    # -- batches -------------------------------------------------------------------------------------

    @with_known_arguments()
    def add(
        self,
        model: Model | Table = None,
        X: Table | Column = None,
        y: Column = None,
        *,
        groups: Groups = None,
        name: str | None = None,
        costs: Table = None,
        cost_range: tuple[float, float] | None = None,
        equal_rows: EqualRows | None = None,
        clusters: Column = None,
        id: Any = None,
    ) -> Monitor:
        """Return the monitor after one more batch, or after late labels of a batch.

        ``add(X, y)`` takes the rule that the monitor keeps, and ``add(rule, X, y)`` another object of it.

        Parameters
        ----------
        model : fitted classifier, optional
            The monitored rule; by default the one given before, as to `against`.
        X : array-like of shape (n, d)
            Rows. Rows without a score of `Scores` are left out, with a warning: the certificate is about
            rows with one.
        y : array-like of shape (n,), optional
            Their labels. None, NaN or ``pandas.NA`` marks a missing label.
        groups : array-like of shape (n,), or table of shape (n, c), optional
            Their groups, if there are bounds on groups or the model is group-aware. A group-aware rule has no
            answer to groups that it does not know: their rows are left out, with a warning.
        name : str, optional
            Name of the batch; by default its number. An earlier name again brings late labels. Each label is
            tested once, in whatever order the rows come. Give all rows of the batch again, with the labels
            used; rows with ids, or unlike all others, may be left out.
        costs, cost_range, equal_rows, clusters : optional
            As in `Certificate.recheck`; ``equal_rows`` by default as stated to `against`. A batch is refused
            if it has more rows equal to rows of an earlier batch, one to one, than fresh batches would have.
            Rows of a cluster are tested in the first look with a label of it.
        id : array-like of shape (n,), optional
            Id of each row, all different. Ids tell rows with equal features apart, in late labels and among
            batches. A batch that begins with ids needs them for its late labels.

        Raises
        ------
        LeakageError
            If rows were used before: by the fit, the certificate or another batch.
        ValueError
            If an argument is not as described, if no row has a score or a group that the rule knows, if the
            certificate is about another rule than that of the model, if no row of a repeated batch waits for
            a label, or if its rows or labels contradict those of an earlier look.
        """
        model, X, y = self._rule_and_rows(model, X, y)
        groups = judged(model).groups_of(X, groups_in(X, groups))
        check_indexes(X=X, y=y, groups=groups, costs=costs, clusters=clusters)
        if not n_rows_of(X):
            raise ValueError("X has no rows")
        for argument, column in {
            "groups": groups,
            "clusters": clusters,
            "costs": costs,
        }.items():
            if column is not None:
                check_length(column, argument, n_rows_of(X))
        name, is_first_look = self._named(name)
        is_answered = rows_with_score(model, X)
        if judged(model).by_group and groups is not None:
            is_answered &= answered_rows(judged(model), groups)
        if not is_answered.all():
            X, y, groups, costs, clusters, id = (
                take(as_pandas(column), is_answered)
                for column in (X, y, groups, costs, clusters, id)
            )
        refuse_missing_groups(self.certificate.groups_named, groups)
        n = n_rows_of(X)

        classes = np.asarray(model.classes_)
        labels = label_numbers(y, classes, n)
        ids = None if id is None else row_ids(id, n)
        by_row = {"groups": groups, "clusters": clusters, "costs": costs}
        is_stated = equal_rows == "natural"
        equal_rows = equal_rows or self.equal_rows

        is_tested = labels > 0
        waiting = {key: rows for key, rows in self.waiting.items() if key != name}
        if not is_tested.all() or not is_first_look:
            content = row_hashes(model, X).whole
            rows = RowWords.from_columns(content, labels, ids=ids, **by_row)
            is_tested, rows_after = self._with_labels_so_far(name, rows, is_tested, classes)
            if rows_after.n_waiting:
                waiting[name] = rows_after
        n_waiting = waiting[name].n_waiting if name in waiting else 0

        given = self.given
        if is_first_look:
            warn_of_other_groups(self.certificate.groups_named, X, groups)
            labels_of_copies = None
            if judged(model).reads_scores and not is_stated and clusters is None:
                labels_of_copies = labels
            new_rows = self._new_rows(name, model, X, ids, labels_of_copies)
            given = [*self.given, new_rows]
            if n_waiting:  # unreadable rows are refused now, not with their late labels
                answers_of(model, X, "predict", groups)

        recheck = self.recheck
        if is_tested.any():
            tested = np.flatnonzero(is_tested)
            options = {key: take(as_pandas(table), tested) for key, table in by_row.items()}
            options |= {"cost_range": cost_range, "equal_rows": equal_rows}
            tested_X = take(as_pandas(X), tested)
            tested_y = classes[labels[tested] - 1]
            recheck = self._recheck_with(name, tested_X, tested_y, model, options)
        look = self._look(name, n, int(is_tested.sum()), n_waiting, recheck)
        return replace(
            self,
            recheck=recheck,
            batches=[*self.batches, look],
            waiting=waiting,
            given=given,
            model=model,
        )

    def _named(self, name: str | None) -> tuple[str, bool]:
        """Return the name of a batch, by default its number, and whether this is its first look.

        Raise ValueError for an earlier batch without a row that waits for its label.
        """
        earlier_names = {batch.name for batch in self.batches}
        name = str(len(earlier_names) + 1 if name is None else name)
        is_first_look = name not in earlier_names
        if not is_first_look and name not in self.waiting:
            raise ValueError(
                f"batch {name!r} was given before, and none of its rows waits for its label; give "
                f"other rows another name ({as_typed('name=', '--batch')}). So far: {self.verdict}"
            )
        return name, is_first_look

    def _with_labels_so_far(
        self, name: str, rows: RowWords, has_label: Mask, classes: Labels
    ) -> tuple[Mask, RowWords]:
        """Return which rows of a look at a batch are tested now, and the batch with all labels so far.

        In the first look these are the rows with a label, and later those with a new label.
        """
        if name not in self.waiting:
            return has_label, rows.and_rows()
        return self.waiting[name].later(rows, name, classes.tolist())

    def _rule_and_rows(self, model: Any, X: Any, y: Column) -> tuple[Any, Any, Any]:
        """Return the monitored rule, rows and labels of ``add(rule, X, y)``, or of ``add(X, y)``.

        The arguments are as in `add` in their order, so the rows may stand in the place of the rule.
        """
        model = as_model(model)
        if model is not None and not hasattr(model, "classes_"):  # add(X, y)
            if y is not None:
                raise TypeError(
                    f"add(rule, X, y): the first argument is the rule, got {a_type_of(model)}; "
                    "or add(X, y)"
                )
            y = X
            X = model
            model = None

        if model is None:
            model = self.model
        if model is None:
            raise ValueError(
                "this monitor keeps no rule, as after from_dict(state): give it first, "
                "add(rule, X, y), or write Monitor.from_dict(state, rule)"
            )
        refuse_swapped(X, y)
        refuse_other_rule(self.certificate, model, "the certificate of this monitor")
        return model, X, y

    def _new_rows(
        self, name: str, model: Model, X: Table, ids: Hashes | None, labels: Ints | None
    ) -> GivenRows:
        """Return fingerprints of the rows of a new batch; raise if earlier batches had some of the rows.

        Parameters
        ----------
        name : str
            Name of the batch.
        model : classifier
            The monitored rule.
        X : table of n rows
            Features of the rows.
        ids : ndarray of shape (n,) or None
            Hashes of the rows' ids.
        labels : ndarray of shape (n,) or None
            Numbers of the labels of scores, of which a table of copies is refused; None refuses none.
        """
        hashes = row_hashes(model, X)
        if labels is not None:
            refuse_copied("X", hashes.whole, labels)
        rows = GivenRows.from_batch(name, ids, hashes)
        refuse_repeated(rows, ids, self.given)
        return rows

    def _recheck_with(
        self, name: str, X: Table, y: Labels, model: Model, options: Mapping[str, Any]
    ) -> Recheck:
        """Return the evidence after rows with new labels.

        Parameters
        ----------
        name : str
            Name of the batch.
        X, y : table of m rows, ndarray of shape (m,)
            The rows with new labels.
        model : classifier
            The monitored rule.
        options : dict
            Further arguments of `Certificate.recheck`.
        """
        # Rows of an earlier look at this batch are no repeated rows: each row is tested once.
        names_of_looks = [look.name for look in self.batches if look.labelled]
        earlier_rows = self._evidence.rows
        rows_of_others = tuple(
            rows
            for rows, name_of_look in zip(earlier_rows, names_of_looks, strict=True)
            if name_of_look != name
        )
        previous = replace(self._evidence, rows=rows_of_others, used=())
        recheck = self.certificate.recheck(X, y, model=model, previous=previous, **options)
        new_rows = recheck.rows[len(rows_of_others) :]
        return replace(recheck, rows=(*earlier_rows, *new_rows), used=())

    def _look(
        self, name: str, n_rows: int, n_tested: int, n_waiting: int, recheck: Recheck | None
    ) -> MonitoredBatch:
        """Return the results of a look at a batch.

        Parameters
        ----------
        name : str
            Name of the batch.
        n_rows, n_tested, n_waiting : int
            Numbers of its rows: all, tested in this look, and without labels.
        recheck : Recheck or None
            The evidence after the look.
        """
        after = replace(self, recheck=recheck)._evidence
        errors = []
        for bound, bets_before, bets_after in zip(
            after.tested, self._evidence.evidence, after.evidence, strict=True
        ):
            of_look = bets_after.since(bets_before)
            errors.append((of_look.n, of_look.estimate(bound.claim.form)))
        evidence = [bets.value for bets in after.evidence]
        return MonitoredBatch(
            name=name,
            rows=n_rows,
            labelled=n_tested,
            waiting=n_waiting,
            errors=errors,
            evidence=evidence,
        )

    @property
    def _evidence(self) -> Recheck:
        """The evidence of all rows with labels; before the first row, of no rows."""
        return self.recheck or Recheck.begun(
            self.certificate.tested, self.certificate.confidence
        )

    @property
    def threshold(self) -> float:
        """Evidence from which on a bound is contradicted."""
        return self._evidence.threshold

    @property
    def largest_evidence(self) -> list[float]:
        """The largest evidence against each bound after any look; decides about alarms."""
        looks = [batch.evidence for batch in self.batches]
        if not looks:
            return [1.0] * len(self.certificate.tested)
        return [max(evidence_by_look) for evidence_by_look in zip(*looks, strict=True)]

    @property
    def alarms(self) -> list[RecheckedBound]:
        """The contradicted bounds, now or after an earlier batch, with the evidence of now."""
        pairs = zip(self._evidence.bounds, self.largest_evidence, strict=True)
        return [bound for bound, largest in pairs if largest >= self.threshold]

    # -- words ---------------------------------------------------------------------------------------

    def __str__(self) -> str:
        title = "\n".join([self.verdict, *self.beyond_bounds])
        return bounds_text(title, self.cells(), self.notes())

    @property
    def verdict(self) -> str:
        """The result, in a sentence."""
        n_rows = sum(batch.labelled for batch in self.batches)
        n_batches = len({batch.name for batch in self.batches})
        rows = f"{how_many(n_rows, 'row')} of {how_many(n_batches, 'batch', 'batches')}"
        bounds = how_many(len(self.certificate.tested), "bound")
        contradict = "contradicts" if n_rows == 1 else "contradict"
        n_alarms = len(self.alarms)
        if not n_batches:
            return (
                f"No rows yet: {bounds} to test. A batch is added by "
                f"{as_typed('monitor = monitor.add(X, y)', 'tailboost monitor')}."
            )
        if n_alarms:
            first_alarms = zip(self._evidence.bounds, self._first_alarms, strict=True)
            since = [
                f"{bound.bound.title} {bound.bound_text} since {batch.name}"
                for bound, batch in first_alarms
                if batch is not None
            ]
            listed = joined(since, GROUPS_NOTED, "; ")
            return f"Alarm: {rows} {contradict} {n_alarms} of {bounds}: {listed}."
        return f"No alarm: {rows} {contradict} none of {bounds}."

    @property
    def _first_alarms(self) -> list[MonitoredBatch | None]:
        """The first batch with an alarm of each bound; None without an alarm."""
        return [
            next((batch for batch in self.batches if batch.evidence[j] >= self.threshold), None)
            for j in range(len(self._evidence.bounds))
        ]

    @property
    def _are_beyond(self) -> list[bool]:
        """Whether each rate of the last look is beyond its bound, without an alarm."""
        bounds = self._evidence.bounds
        if not self.batches:
            return [False] * len(bounds)
        return [
            bool(evidence < self.threshold and not replace(bound, estimate=rate).is_within)
            for bound, (_, rate), evidence in zip(
                bounds, self.batches[-1].errors, self.largest_evidence, strict=True
            )
        ]

    @property
    def beyond_bounds(self) -> list[str]:
        """A line on the rates of the last look beyond their bounds, if there are any without an alarm."""
        if not any(self._are_beyond):
            return []
        last = self.batches[-1]
        rates_by_bound: dict[str, list[str]] = {}
        most_evidence = 0.0
        for bound, (n, rate), evidence, is_beyond in zip(
            self._evidence.bounds,
            last.errors,
            self.largest_evidence,
            self._are_beyond,
            strict=True,
        ):
            if not is_beyond:
                continue
            most_evidence = max(most_evidence, evidence)
            rates = rates_by_bound.setdefault(f"{bound.bound.quantity} {bound.bound_text}", [])
            rates.append(
                f"{bound.bound.name} {bound.words_of(rate, n)} of {how_many(n, 'row')}"
            )
        listed = "; ".join(
            f"{words}: {joined(rates, GROUPS_NOTED)}" for words, rates in rates_by_bound.items()
        )
        return [
            f"Beyond a bound in {last.name}, without an alarm: {listed}. One batch may be chance: "
            f"an alarm needs evidence of {self.threshold:.4g}, and the largest is {most_evidence:.3g}."
        ]

    def _repr_html_(self) -> str:
        title = " ".join([self.verdict, *self.beyond_bounds])
        return bounds_html(title, self.cells(), self.notes())

    def plot(self, ax: Axes = None, **kwargs: Any) -> Any:
        """Draw the rate of each batch against its bound, with the alarms marked; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to replace by the panels, one for each bound.
        **kwargs
            Passed to ``Axes.plot``.

        Returns
        -------
        MonitorDisplay

        Raises
        ------
        ValueError
            If there is no batch.
        """
        return display("MonitorDisplay").of(self).plot(ax, **kwargs)

    def cells(self) -> Cells:
        """Return the headings and rows of the table of bounds."""
        last_estimates = None
        if self.batches:
            last_estimates = self.batches[-1].errors
        return self._evidence.cells(last_estimates, self.largest_evidence)

    def notes(self) -> list[str]:
        """Return the notes below the table: `contradictions`, `meanings`, `caveats`."""
        return [*self.contradictions, *self.meanings, *self.caveats()]

    @property
    def meanings(self) -> list[str]:
        """Lines on the meaning of the rates and the evidence."""
        return self._evidence.meanings

    @property
    def contradictions(self) -> list[str]:
        """A line on each contradicted bound: since when, and by how much."""
        notes = []
        for j, (bound, first) in enumerate(
            zip(self._evidence.bounds, self._first_alarms, strict=True)
        ):
            if first is not None:
                n, error = first.errors[j]
                notes.append(
                    f"Contradicted since {first.name}: {bound.bound.title}, "
                    f"{bound.bound_text}. Estimate: {bound.words_of(error, n)} on {n:,} "
                    f"rows of that batch, {bound.estimate_text} on all {bound.n:,} "
                    f"rows.{_against_limit(bound)}"
                )
        return notes

    def by_limit(self) -> Cells:
        """Return the bounds as a table without the evidence: results, and since when one is contradicted.

        Each limit stands above its subgroups.
        """
        evidence = self._evidence
        bounds = [rechecked.bound for rechecked in evidence.bounds]
        shows_bounds = not all(bound.is_limit for bound in bounds)
        results = [result for result, *_ in self.cells()[1]]
        numbers = {bound: j for j, bound in enumerate(bounds)}
        first_alarms = self._first_alarms

        def cells_of(bound: CertifiedBound) -> dict[str, str]:
            j = numbers[bound]
            rechecked = evidence.bounds[j]
            last = ""
            if self.batches:
                n_rows, rate = self.batches[-1].errors[j]
                last = rechecked.words_of(rate, n_rows)
            of_rows = f" of {rechecked.n:,}" if rechecked.n else ""
            first = first_alarms[j]
            since = "" if first is None else f" since {first.name}"
            return {
                "result": results[j] + since,
                "bound": bound.bound_text if shows_bounds else "",
                "last batch": last,
                "all batches": f"{rechecked.estimate_text}{of_rows}",
            }

        return bounds_table(bounds, cells_of)

    def caveats(self) -> list[str]:
        """Return notes on groups without a bound, waiting labels and equal rows."""
        notes = list(filter(None, [self._evidence.groups_without_bound]))
        n_waiting = sum(rows.n_waiting for rows in self.waiting.values())
        if n_waiting:
            notes.append(
                f"{n_waiting:,} rows wait for their labels: {', '.join(self.waiting)}."
            )
        return notes + self._notes_on_equal_rows()

    def _notes_on_equal_rows(self) -> list[str]:
        """Return notes on batches without ids in which rows equal others: copies of them may pass."""
        without_ids = [rows for rows in self.given if rows.counts and rows.ids is None]
        n_comparisons = len(self.given) + 1  # with each batch, and with all together
        unrecognised = [
            rows.name
            for rows in without_ids
            if self.equal_rows == "natural" or rows.counts[""].repeated
            if copies_pass(rows, n_comparisons)
        ]
        many_equal = [
            rows.name
            for rows in without_ids
            if rows.counts[""].repeated > CHANCE and rows.name not in unrecognised
        ]
        notes = []
        if many_equal:
            notes.append(
                "More than one row in twenty equals another one in: "
                f"{joined(many_equal, GROUPS_NOTED)}. Equal rows are different rows here: "
                "batches are compared by the number of rows with each content. A copy of a "
                "batch is refused. A part of it, or a copy among many other rows, may pass. "
                "Row ids (id=, --id) tell rows apart."
            )
        if unrecognised:
            notes.append(
                "Too few rows, or too few different ones, to recognise a copy: "
                f"{joined(unrecognised, GROUPS_NOTED)}. A copy of such a batch is not refused. "
                "Row ids (id=, --id) tell rows apart."
            )
        return notes

    def summary(self) -> Document:
        """Return the results as plain types, for JSON."""
        bounds = self._evidence.to_dict()["bounds"]
        return {
            "alarm": bool(self.alarms),
            "confidence": self.certificate.confidence,
            "threshold": self.threshold,
            "bounds": [
                bound | {"largest_evidence": largest, "beyond_in_last_batch": is_beyond}
                for bound, largest, is_beyond in zip(
                    bounds, self.largest_evidence, self._are_beyond, strict=True
                )
            ],
            "batches": [asdict(batch) for batch in self.batches],
            "waiting": {name: rows.n_waiting for name, rows in self.waiting.items()},
        }

    # -- state ---------------------------------------------------------------------------------------

    def to_dict(self) -> Document:
        """Return the state as plain types, for JSON; `from_dict` is the inverse.

        The state holds counts and fingerprints of rows, and no row. Its digest shows a changed entry to
        `from_dict`.
        """
        state = {
            "format": MONITOR_FORMAT,
            "certificate": self.certificate.to_dict(),
            "recheck": None if self.recheck is None else self.recheck.to_state(),
            "batches": [asdict(batch) for batch in self.batches],
            "waiting": {name: rows.to_dict() for name, rows in self.waiting.items()},
            "given": [rows.to_dict() for rows in self.given],
        }
        # `from_dict` takes "copies" where a state names nothing.
        if self.equal_rows != "copies":
            state["equal_rows"] = self.equal_rows
        return state | {"digest": state_digest(state)}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any], model: Model | None = None) -> Self:
        """Return the monitor of a state from `to_dict`.

        Parameters
        ----------
        state : dict
            From `to_dict`. It has no rule.
        model : fitted classifier or rule, optional
            The monitored rule, for `add`.

        Raises
        ------
        ValueError
            If the state is damaged, was changed, or has another format.
        """
        with reading("state of a monitor"):
            cure = "begin a new state with these batches"
            check_format(state["format"], MONITOR_FORMAT, "the state", cure)
            content = {key: value for key, value in state.items() if key != "digest"}
            if state["digest"] != state_digest(content):
                raise ValueError(
                    "the state was changed after it was written: its checksum differs"
                )
            certificate = Certificate.from_dict(state["certificate"])
            monitor = cls.of(certificate, model, state.get("equal_rows", "copies"))
            batches = [_batch_from_state(batch) for batch in state["batches"]]
            if any(len(batch.evidence) != len(certificate.tested) for batch in batches):
                raise ValueError("the state has batches with evidence on other bounds")
            recheck = None
            if state["recheck"] is not None:
                n_tested = sum(batch.labelled > 0 for batch in batches)
                if len(state["recheck"]["rows"]) != n_tested:
                    raise ValueError("the state has fingerprints of other batches")
                recheck = monitor._evidence.from_state(state["recheck"])
            return replace(
                monitor,
                recheck=recheck,
                batches=batches,
                waiting={
                    name: RowWords.from_dict(rows) for name, rows in state["waiting"].items()
                },
                given=[GivenRows.from_dict(rows) for rows in state["given"]],
            )


def _against_limit(alarm: RecheckedBound) -> str:
    """Return whether the estimate keeps the stated limit, as a sentence; "" if the limit is contradicted."""
    bound = alarm.bound
    if alarm.estimate is None or bound.target is None:
        return ""
    if bound.target in (bound.claim.lower, bound.claim.upper):
        return ""  # the limit is the bound
    if replace(bound, estimate=alarm.estimate).is_within:
        return (
            f" The stated limit is {bound.limit}, and the estimate on all rows keeps it: the "
            "certificate is tighter than the limit."
        )
    return f" The stated limit is {bound.limit}, and the estimate on all rows breaks it."


def _strata_of(
    classes: Sequence[Any], groups: Sequence[Any], limits: Sequence[Limit]
) -> Strata:
    """Return the strata of all classes and groups; a single column has its name in the limits.

    ``groups`` are the names of the groups; with several columns they are pairs (column, value).
    """
    columns = by_column(groups)
    names_in_limits = set(chain.from_iterable(names_in(limit.rate.by) for limit in limits))
    column_names = names_in_limits - {EVERYTHING, CLASS, GROUP, CELL}
    if list(columns) == [None] and len(column_names) == 1:
        columns = {column_names.pop(): columns[None]}
    # Strata are made of rows: one for each class and combination of groups.
    sizes = (len(classes), *map(len, columns.values()))
    y, *group_numbers = np.indices(sizes).reshape(len(sizes), -1)
    groups_of_rows = np.column_stack(group_numbers) if group_numbers else None
    strata, _ = Strata.of(
        y, groups_of_rows, np.ones(len(y)), classes, tuple(columns), tuple(columns.values())
    )
    return strata


def _bounds_of_limit(limit: Limit, strata: Strata) -> list[CertifiedBound]:
    """Return a limit as bounds: one for each limited subgroup, or one for the compared subgroups.

    A limit on every group has a further bound on all groups outside of the strata.
    """
    names, _ = strata.subgroups(limit.rate.by)
    if not limit.rate.needs_costs:
        lowest_rate, _ = limit.rate.range(strata)  # raises if a class of the rate is not there
        if limit.compares:
            limit.comparison.refuse_negative(lowest_rate, f"{limit!r}: ")

    def bound_at(value: float, subgroup: Any, **options: Any) -> CertifiedBound:
        return CertifiedBound(
            rate=limit.rate,
            method="limit",
            sense=limit.sense,
            in_percent=limit.in_percent,
            subgroup=subgroup,
            lower=value,
            upper=value,
            target=value,
            **options,
        )

    # The rows of other groups alone do not give a rate with all rows in the denominator.
    tests_others = limit.rate.needs_groups and not limit.rate.is_across
    all_names = tuple(names)
    if limit.compares:
        bounds = [bound_at(limit.bound, limit.form, subgroups=all_names)]
        if tests_others:
            of_others = bound_at(limit.bound, limit.form, subgroups=all_names, others=True)
            bounds.append(of_others)
        return bounds
    pairs = zip(names, limit.bounds(names).tolist(), strict=True)
    bounds = [bound_at(value, name) for name, value in pairs if not np.isnan(value)]
    if tests_others and not np.isnan(limit.rest):
        of_others = bound_at(limit.rest, subgroup=None, subgroups=all_names, others=True)
        bounds.append(of_others)
    return bounds


# -- rows, labels and state --------------------------------------------------------------------------------


def _batch_from_state(state: Mapping[str, Any]) -> MonitoredBatch:
    """Return a look at a batch, written as a dict of its attributes."""
    values = {part.name: state[part.name] for part in fields(MonitoredBatch)}
    errors = [(int(n), None if error is None else float(error)) for n, error in state["errors"]]
    return MonitoredBatch(**{**values, "errors": errors})


def state_digest(state: Mapping[str, Any]) -> str:
    """Return the checksum of a state, also of a state read from JSON."""
    return digest(json.dumps(state, sort_keys=True, allow_nan=False).encode())
