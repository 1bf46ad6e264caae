"""Watching a model in use: evidence by batch against what was certified or targeted, and drift of columns."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Self

import numpy as np

from tailboost.boosting.training_set import take
from tailboost.core.array_types import Hashes
from tailboost.core.checks import as_pandas, check_length, check_number, n_rows_of
from tailboost.core.files import digest
from tailboost.core.fingerprints import Fingerprint, hash_rounded_rows, is_missing
from tailboost.core.html import text_table
from tailboost.core.pipelines import final_step, last_step
from tailboost.core.subgroups import told
from tailboost.guarantees.certificates import Certificate, CertifiedBound, targets_of
from tailboost.guarantees.drift import Drift, Reference, columns_of
from tailboost.guarantees.fresh_rows import as_table, by_column, groups_of_fit
from tailboost.guarantees.leakage import EqualRows
from tailboost.guarantees.recheck import Bets, Recheck, RecheckedBound, shown
from tailboost.rates import Limit, Strata, parse
from tailboost.rates.bounds import Evidence, level_of

__all__ = ["Monitor", "MonitoredBatch"]

FORMAT = 3
# Columns of probabilities that are compared, of many classes the first.
MOST_SCORES = 10
ANSWER = "answer"
# Wealth and sums in the state's file are finite: JSON has no infinity.
MOST = 1e300
WEAKER = (
    "A column that moved says that the rows are others, not that errors are: it needs no labels, and is "
    "weaker. A χ² test with a level of its own for each batch and column, and an index (PSI) of at least .1."
)


@dataclass(frozen=True)
class MonitoredBatch:
    """One look at a batch.

    Attributes
    ----------
    name : str
        What it is called.
    rows : int
        Rows that were given.
    judged : int
        Those of them whose labels were there, and which no look before had judged.
    waiting : int
        Those whose labels were not there.
    errors : list of (int, float or None)
        Of each bound the judged rows it is about, and what is bounded on these: an error, a rate, a gap.
    evidence : list of float
        Of each bound after this look.
    drift : list of Drift
        Of the columns; none where labels came late to rows that were looked at before.
    """

    name: str
    rows: int
    judged: int
    waiting: int
    errors: list[tuple[int, float | None]]
    evidence: list[float]
    drift: list[Drift] = field(default_factory=list)

    @property
    def moved(self) -> list[Drift]:
        """The columns that moved."""
        return [drift for drift in self.drift if drift.moved]


@dataclass(frozen=True)
class Monitor:
    """Evidence against bounds on a model's errors or rates, batch after batch of later rows.

    Each bound is tested by bets that gain where rows err more (`tailboost.rates.bounds.Evidence`): if all
    bounds are true, that any is ever called contradicted, after however many batches, has a probability of
    at most 1 − confidence. The rows have to be independent draws, or their clusters. Their order within a
    batch has no effect. A gap or ratio compares rows in random order, drawn from a generator with a fixed
    seed.

    A limit on every group also holds for groups that appear later: one bound tests all of these together,
    as "other groups". A certificate says nothing about them; `notes` names them.

    Labels may come late: rows without one wait, and are judged when the same batch is given again. Whether a
    label is late may depend on the class itself, for rates of classes, but not on whether the answer is
    wrong.

    Attributes
    ----------
    certificate : Certificate
        The bounds.
    recheck : Recheck or None
        What all judged rows said so far.
    batches : list of MonitoredBatch
        The looks, in order.
    reference : Reference or None
        Counts of the rows that columns are compared with: those given, else those of the first batch.
    waiting : dict
        Fingerprints of rows without labels, by batch.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_classification
    >>> import tailboost as tb
    >>> X, y = make_classification(4000, flip_y=0.2, random_state=0)
    >>> clf = tb.WorstClassBoostClassifier(n_estimators=3, random_state=0).fit(X[:1000], y[:1000])
    >>> watch = tb.Monitor.of(tb.certify(clf, X[1000:2000], y[1000:2000]))
    >>> watch = watch.add(clf, X[2000:3000], y[2000:3000], name="January")
    >>> watch.alarms
    []
    >>> watch = watch.add(clf, X[3000:], 1 - y[3000:], name="February")  # everything goes wrong
    >>> watch.alarms[0].bound.title
    'error of mean'
    """

    certificate: Certificate
    recheck: Recheck | None = None
    batches: list[MonitoredBatch] = field(default_factory=list)
    reference: Reference | None = None
    waiting: dict[str, Hashes] = field(default_factory=dict)

    # -- beginning -----------------------------------------------------------------------------------

    @classmethod
    def of(cls, certificate: Certificate) -> Self:
        """Begin to watch what was certified.

        Parameters
        ----------
        certificate : Certificate
            From `tailboost.certify`, or the ``certificate_`` of a calibrated classifier.

        Raises
        ------
        ValueError
            If it has no bound on a mean or a rate.
        """
        if not certificate.tested:
            raise ValueError(
                "the certificate has no bound on a mean error, of all rows, a class or a group, nor on a rate"
            )
        return cls(certificate)

    @classmethod
    def against(
        cls,
        model: Any,
        max_error: Any = None,
        *,
        limits: Sequence[Limit] = (),
        units: Any = None,
        confidence: float = 0.95,
    ) -> Self:
        """Begin to watch targets or limits, which nobody has certified.

        Parameters
        ----------
        model : fitted classifier
            Whose classes, and groups of the fit, there are.
        max_error : float or dict, optional
            The errors allowed, as in `tailboost.certify`.
        limits : list of Limit, optional
            Instead: limits on rates, from `tailboost.rates`.
        units : list, optional
            The groups that there are, if not those of the fit.
        confidence : float in (0, 1), default=0.95
            One minus the probability of any false alarm, ever.

        Raises
        ------
        ValueError
            If an argument is not as described.
        """
        check_number(confidence, "confidence", 0, 1, below=True)
        if (max_error is None) == (not limits):
            raise ValueError("max_error and limits: give one of them")
        classes = np.asarray(model.classes_).tolist()
        groups = groups_of_fit(model) if units is None else list(units)
        if limits:
            rates = [bound for limit in limits for bound in _limited(limit, classes, groups)]
            return cls.of(Certificate([], confidence, 0, (), rates=tuple(rates)))
        cells = [(k, name) for name in groups for k in classes]
        targets = targets_of(max_error, {"class": classes, "group": groups, "cell": cells})
        if not targets:
            raise ValueError(f"max_error={max_error!r} sets no target below 1")
        bounds = [
            CertifiedBound(kind, unit, upper=target, method="target", target=target)
            for (kind, unit), target in targets.items()
        ]
        kind = bounds[0].kind
        allowed = dict(max_error).get(None, 1.0) if isinstance(max_error, Mapping) else float(max_error)
        if kind != "class" and allowed < 1:  # a target of every group
            named = tuple(groups if kind == "group" else cells)
            others = CertifiedBound(kind, None, upper=allowed, method="target", target=allowed)
            bounds.append(replace(others, units=named, others=True))
        return cls.of(Certificate(bounds, confidence, 0, ()))

    def compared_with(self, columns: Mapping[str, Any]) -> Monitor:
        """Return the watch with columns of reference, as `looked_at` returns them."""
        return replace(self, reference=Reference.of(columns))

    # -- batches -------------------------------------------------------------------------------------

    def add(
        self,
        model: Any,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        name: str | None = None,
        costs: Any = None,
        cost_range: tuple[float, float] | None = None,
        equal_rows: EqualRows = "copies",
        clusters: Any = None,
    ) -> Monitor:
        """Return the watch after one more batch, or after more labels of a batch.

        Parameters
        ----------
        model : fitted classifier
            The one that is watched.
        X : array-like of shape (n, d)
            Rows.
        y : array-like of shape (n,), optional
            Their labels; those that are None, NaN or ``pandas.NA`` are not there yet.
        groups : array-like of shape (n,), or table of shape (n, c), optional
            Their groups, where there are bounds on groups, or the model answers by them.
        name : str, optional
            Of the batch; by default its number. The same name again brings labels that were missing: rows
            that were judged then are left out.
        costs, cost_range, equal_rows, clusters : optional
            As in `Certificate.recheck`.

        Raises
        ------
        LeakageError
            If rows were seen before: by the fit, the certificate or another batch.
        ValueError
            If an argument is not as described, or a batch that is given again waits for no label.
        """
        n = n_rows_of(X)
        if not n:
            raise ValueError("X has no rows")
        called = str(len({batch.name for batch in self.batches}) + 1) if name is None else str(name)
        before = called in {batch.name for batch in self.batches}
        if before and not len(self.waiting.get(called, ())):
            raise ValueError(f"batch {called!r} was given before, and none of its rows waits for its label")
        values: list[Any] = [None] * n
        if y is not None:
            check_length(y, "y", n)
            values = y.tolist() if hasattr(y, "tolist") else list(y)
        there = np.array([not is_missing(value) and value == value for value in values], dtype=bool)
        keys = _keys(X)
        used = there & np.isin(keys, self.waiting[called]) if before else there
        found = self.recheck
        if used.any():
            rows = np.flatnonzero(used)
            given = {"groups": groups, "clusters": clusters, "costs": costs}
            part = {key: take(as_pandas(table), rows) for key, table in given.items()}
            found = self.certificate.recheck(
                take(as_pandas(X), rows),
                _whole([values[i] for i in rows.tolist()]),
                model=model,
                previous=self.recheck,
                cost_range=cost_range,
                equal_rows=equal_rows,
                **part,
            )
        late = np.setdiff1d(self.waiting[called], keys[used]) if before else keys[~there]
        waiting = {key: hashes for key, hashes in self.waiting.items() if key != called}
        reference, drift = self.reference, []
        if not before:
            columns = looked_at(model, X, groups)
            if reference is None:
                reference = Reference.of(columns)
            else:
                number = len({batch.name for batch in self.batches}) + 1
                drift = reference.drift(columns, level_of(number, self.certificate.confidence))
        now, then = (self._found if each is None else each for each in (found, self.recheck))
        new = [b.since(a) for a, b in zip(then.evidence, now.evidence, strict=True)]
        forms = [bound.claim.form for bound in now.tested]
        errors = [(bets.n, bets.estimate(form)) for bets, form in zip(new, forms, strict=True)]
        evidence = [min(bets.value, MOST) for bets in now.evidence]
        batch = MonitoredBatch(called, n, int(used.sum()), len(late), errors, evidence, drift)
        kept = waiting | ({called: late} if len(late) else {})
        return replace(self, recheck=found, batches=[*self.batches, batch], reference=reference, waiting=kept)

    @property
    def _found(self) -> Recheck:
        """What all judged rows said so far, also before the first."""
        if self.recheck is not None:
            return self.recheck
        return Recheck.begun(self.certificate.tested, self.certificate.confidence)

    @property
    def threshold(self) -> float:
        """The evidence from which on a bound is contradicted."""
        return self._found.threshold

    @property
    def ever(self) -> list[float]:
        """The largest evidence of each bound after any look: what decides."""
        looks = [batch.evidence for batch in self.batches] or [[1.0] * len(self._found.tested)]
        return [max(column) for column in zip(*looks, strict=True)]

    @property
    def alarms(self) -> list[RecheckedBound]:
        """What new rows say of the bounds that are contradicted, now or after an earlier batch."""
        pairs = zip(self._found.bounds, self.ever, strict=True)
        return [found for found, most in pairs if most >= self.threshold]

    # -- words ---------------------------------------------------------------------------------------

    def __str__(self) -> str:
        return "\n".join([self.verdict, "", text_table(*self.cells(), left=(0, 1)), "", *self.notes()])

    @property
    def verdict(self) -> str:
        """What was found, in a sentence."""
        judged = sum(batch.judged for batch in self.batches)
        names = len({batch.name for batch in self.batches})
        what = f"{judged:,} rows of {names} {'batch' if names == 1 else 'batches'}"
        n, m = len(self.alarms), len(self._found.tested)
        return f"{'Alarm' if n else 'No alarm'}: {what} contradict {n or 'none'} of {m} bounds."

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the headings and rows of the table of bounds."""
        last = [error for _, error in self.batches[-1].errors] if self.batches else None
        return self._found.cells(last, self.ever)

    def notes(self) -> list[str]:
        """Return what the table does not say."""
        said = []
        for j, (found, most) in enumerate(zip(self._found.bounds, self.ever, strict=True)):
            if most < self.threshold:
                continue
            first = next(batch for batch in self.batches if batch.evidence[j] >= self.threshold)
            n, error = first.errors[j]
            said.append(
                f"Contradicted since {first.name}: {found.bound.title}, {found.bound.claim}. It was "
                f"{shown(error)} in {n:,} rows there, and {shown(found.estimate)} in all {found.n:,}."
            )
        said += self._found.notes
        if late := sum(len(keys) for keys in self.waiting.values()):
            said.append(f"{late:,} rows wait for their labels: {', '.join(self.waiting)}.")
        if moved := self.batches[-1].moved if self.batches else []:
            columns = ", ".join(f"{drift.column} (PSI {drift.psi:.2g})" for drift in moved[:10])
            more = f" and {len(moved) - 10} more" if len(moved) > 10 else ""
            said.append(f"Moved in the last batch, without labels: {columns}{more}. {WEAKER}")
        return said

    def summary(self) -> dict[str, Any]:
        """Return what was found as plain types, for JSON."""
        found = self._found.to_dict()["bounds"]
        return {
            "alarm": bool(self.alarms),
            "confidence": self.certificate.confidence,
            "threshold": self.threshold,
            "bounds": [one | {"most_evidence": most} for one, most in zip(found, self.ever, strict=True)],
            "batches": [asdict(batch) for batch in self.batches],
            "waiting": {name: len(keys) for name, keys in self.waiting.items()},
        }

    # -- state ---------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain types, for JSON; `from_dict` goes on from it.

        It holds counts of rows and their fingerprints, of columns counts by part of the range and the most
        frequent values of text; no row.
        """
        found = self.recheck
        state = {
            "format": FORMAT,
            "confidence": self.certificate.confidence,
            "bounds": [b.to_dict() for b in self.certificate.bounds],
            "rates": [b.to_dict() for b in self.certificate.rates],
            "evidence": None if found is None else [_plain(bets) for bets in found.evidence],
            "rows": [] if found is None else [_packed(sketch) for sketch in found.rows],
            "known": [0, 0] if found is None else list(found.known),
            "unnamed": {} if found is None else dict(found.unnamed),
            "batches": [asdict(batch) for batch in self.batches],
            "reference": None if self.reference is None else self.reference.to_dict(),
            "waiting": {name: _text(keys) for name, keys in self.waiting.items()},
        }
        return state | {"digest": _digest(state)}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Return the watch of a state, as `to_dict` gave it.

        Raises
        ------
        ValueError
            If it is none.
        """
        try:
            if state["format"] != FORMAT:
                raise ValueError(f"it has the format {state['format']!r}, not {FORMAT}")
            if state["digest"] != _digest({key: value for key, value in state.items() if key != "digest"}):
                raise ValueError("it is not as it was written: something in it was changed")
            certificate = certificate_from(state)
            cls.of(certificate)
            found = None
            if state["evidence"] is not None:
                evidence = tuple(map(_bets, state["evidence"]))
                if len(evidence) != len(certificate.tested):
                    raise ValueError("it has evidence on other bounds")
                rows = tuple(map(_sketch, state["rows"]))
                known, n = (int(count) for count in state["known"])
                unnamed = {str(name): int(count) for name, count in state["unnamed"].items()}
                found = Recheck(
                    certificate.tested, evidence, certificate.confidence, rows, (known, n), unnamed
                )
            batches = [_batch(each) for each in state["batches"]]
            if any(len(batch.evidence) != len(certificate.tested) for batch in batches):
                raise ValueError("it has batches with evidence on other bounds")
            reference = None if state["reference"] is None else Reference.from_dict(state["reference"])
            waiting = {name: _words(text, np.uint64) for name, text in state["waiting"].items()}
        except (KeyError, TypeError, AttributeError) as failure:
            raise ValueError(f"this is no state of a watch: {type(failure).__name__}: {failure}") from None
        return cls(certificate, found, batches, reference, waiting)


def certificate_from(document: Mapping[str, Any]) -> Certificate:
    """Return the certificate that `Certificate.to_dict` describes, without the rows it was made on.

    Raises
    ------
    KeyError, TypeError, ValueError
        If it is none.
    """
    bounds = [_bound(each) for each in document["bounds"]]
    rates = [_bound(each) for each in document.get("rates", ())]
    if any(b.rate is not None for b in bounds) or any(b.rate is None for b in rates):
        raise ValueError("its bounds are not of errors, or its rates no rates")
    confidence = check_number(document["confidence"], "confidence", 0, 1, below=True)
    notes = tuple(document.get("notes", ()))
    return Certificate(bounds, confidence, int(document.get("n_rows", 0)), notes, rates=tuple(rates))


def _bound(document: Mapping[str, Any]) -> CertifiedBound:
    """Return the bound that `CertifiedBound.to_dict` describes, also of before errors and rates were one."""
    names = {each.name for each in fields(CertifiedBound)}
    told = {name: value for name, value in document.items() if name in names}
    told |= {"unit": _tuples(document["unit"]), "units": _tuples(document.get("units", ()))}
    if told.get("rate") is None:
        if document["kind"] == "rate":
            raise ValueError("a bound on a rate does not say which")
        check_number(told["upper"], "upper", 0, 1, closed=True)
        return CertifiedBound(**told)
    rate = parse(told["rate"])
    if rate.rate is not rate:
        raise ValueError(f"{told['rate']!r} is no rate")
    for name in ("lower", "upper"):
        check_number(told[name], name, -np.inf)
    return CertifiedBound(**told | {"rate": rate})


def _limited(limit: Limit, classes: list[Any], groups: list[Any]) -> list[CertifiedBound]:
    """Return what a limit says of each unit that it limits, or of those that it compares."""
    columns = by_column(groups)
    every = np.indices((len(classes), *map(len, columns.values()))).reshape(1 + len(columns), -1).T
    strata, _ = Strata.of(
        every[:, 0],
        every[:, 1:] if columns else None,
        np.ones(len(every)),
        classes,
        tuple(columns),
        tuple(columns.values()),
    )
    names, _ = strata.units(limit.rate.by)
    if not limit.rate.needs_costs:
        low, _ = limit.rate.range(strata)  # also checks that its classes are there
        if limit.form == "ratio" and low < 0.0:
            raise ValueError(
                f"{limit!r}: what may be negative has no ratio that can be tested; limit the gap"
            )
    empty = CertifiedBound(rate=limit.rate, method="limit", sense="≤" if limit.from_above else "≥")

    def kept(unit: Any, bound: float, units: tuple[Any, ...] = (), others: bool = False) -> CertifiedBound:
        return replace(empty, unit=unit, lower=bound, upper=bound, target=bound, units=units, others=others)

    every_unit = tuple(names)
    if limit.compares:
        found = [kept(limit.form, limit.bound, every_unit)]
        return found + [kept(limit.form, limit.bound, every_unit, True)] * limit.rate.needs_groups
    pairs = zip(names, limit.bounds(names).tolist(), strict=True)
    found = [kept(name, bound) for name, bound in pairs if bound == bound]
    of_others = limit.rate.needs_groups and limit.rest == limit.rest
    return found + [kept(None, limit.rest, every_unit, True)] * of_others


def looked_at(model: Any, X: Any, groups: Any = None) -> dict[str, Any]:
    """Return the columns that are compared without labels: features, a classifier's scores and answers."""
    columns = columns_of(X)
    given = told(last_step(model), groups)
    model, rows = (model, X) if not given else final_step(model, X)
    classes = [str(label) for label in model.classes_]
    if hasattr(model, "predict_proba"):
        scores = np.asarray(model.predict_proba(rows))
        first = 1 if len(classes) == 2 else 0
        for k in range(first, min(len(classes), MOST_SCORES)):
            columns[f"score of {classes[k]}"] = scores[:, k]
    columns[ANSWER] = np.asarray(model.predict(rows, **given)).astype(str).astype(object)
    return columns


# -- rows and labels ---------------------------------------------------------------------------------------


def _whole(labels: Any) -> Any:
    """Return labels as an array: a missing one beside them may have turned whole numbers into float."""
    kept = np.array(labels)
    whole = kept.dtype.kind == "f" and bool((kept == np.floor(kept)).all())
    return kept.astype(np.int64) if whole else kept


def _keys(X: Any) -> Hashes:
    """Return a key for each row: its content, and the how-many-th of its content it is in the table."""
    hashes = hash_rounded_rows(as_table(X))
    order = np.argsort(hashes, kind="stable")
    start = np.r_[True, hashes[order][1:] != hashes[order][:-1]]
    place = np.arange(len(hashes)) - np.maximum.accumulate(np.where(start, np.arange(len(hashes)), 0))
    keys = np.empty_like(hashes)
    keys[order] = hashes[order] + place.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return keys


# -- plain types -------------------------------------------------------------------------------------------


def _tuples(unit: Any) -> Any:
    return tuple(map(_tuples, unit)) if isinstance(unit, (list, tuple)) else unit


def _plain(bets: Bets) -> dict[str, Any]:
    found = []
    for evidence in bets.bets:
        logs = [None if value == -np.inf else min(value, MOST) for value in evidence.log_wealths.tolist()]
        found.append(asdict(evidence) | {"log_wealths": logs})
    return {"bets": found, "seen": [list(unit) for unit in bets.seen]}


def _bets(state: Mapping[str, Any]) -> Bets:
    bets = []
    for each in state["bets"]:
        logs = np.array([-np.inf if x is None else x for x in each["log_wealths"]], dtype=np.float64)
        empty = Evidence.against(float(each["bound"]))
        if logs.shape != empty.log_wealths.shape or np.isnan(logs).any():
            raise ValueError("this is no state of a watch: its evidence is no list of wealths by stake")
        n, total, batches = int(each["n"]), float(each["total"]), int(each["batches"])
        bets.append(replace(empty, log_wealths=logs, n=n, total=total, batches=batches))
    seen = tuple((int(n), float(weight), float(total)) for n, weight, total in state["seen"])
    return Bets(tuple(bets), seen)


def _batch(state: Mapping[str, Any]) -> MonitoredBatch:
    drift = [Drift(**each) for each in state["drift"]]
    errors = [(int(n), None if error is None else float(error)) for n, error in state["errors"]]
    return MonitoredBatch(**{**state, "drift": drift, "errors": errors})


def _digest(state: Mapping[str, Any]) -> str:
    """Return the checksum of a state, also of one that was read from JSON."""
    return digest(json.dumps(state, sort_keys=True, allow_nan=False).encode())


def _text(numbers: Any) -> str:
    little = np.ascontiguousarray(numbers, dtype=numbers.dtype.newbyteorder("<"))
    return base64.b64encode(little.tobytes()).decode()


def _words(text: str, kind: Any) -> Any:
    little = np.dtype(kind).newbyteorder("<")
    return np.frombuffer(base64.b64decode(text, validate=True), dtype=little).astype(kind)


def _sketch(state: Mapping[str, Any]) -> Fingerprint:
    kept, limit = _words(state["kept"], np.uint32), int(state["limit"])
    return Fingerprint(kept, limit, float(state["repeated"]), bool(state["complete"]))


def _packed(sketch: Fingerprint) -> dict[str, Any]:
    return asdict(replace(sketch, kept=np.empty(0, dtype=np.uint32))) | {"kept": _text(sketch.kept)}
