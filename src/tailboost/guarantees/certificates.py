"""What can be said of a classifier's errors and rates on rows it has not seen, with a stated confidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

import numpy as np

from tailboost.boosting.targets import allowed_errors
from tailboost.boosting.training_set import take
from tailboost.core.array_types import Floats
from tailboost.core.checks import as_pandas, check_alpha, check_number, check_weights, n_rows_of
from tailboost.core.fingerprints import Fingerprint
from tailboost.core.html import html_table, text_table
from tailboost.core.pipelines import last_step
from tailboost.guarantees.fresh_rows import ERRORS, FreshRows, Rule, judged_rows, one_answers
from tailboost.guarantees.leakage import EqualRows, LeakageError
from tailboost.guarantees.rate_bounds import (
    CertifiedBound,
    Kind,
    RateFamily,
    rate_bounds,
    shared_bounds,
    words_of,
)
from tailboost.guarantees.recheck import Recheck, rows_unnamed
from tailboost.rates import GAP, RATIO, Expression, as_expression, parse
from tailboost.rates.bounds import band_cvar, band_shift, cvar_of_mean, shift_of_mean, tail_band
from tailboost.rates.strata import CELL, CLASS, GROUP
from tailboost.solvers import cvar, worst_case_weights

__all__ = ["Certificate", "CertifiedBound", "certify", "targets_of"]

#: A printed table with more rows shows the largest bounds of each kind.
LONGEST = 60
SHOWN = 12
ANSWERED = "Every row counts as answered: deferred= marks deferred rows."
BAND = "Kolmogorov–Smirnov band"


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
    rates : tuple of CertifiedBound
        Bounds on rates, where rates were asked for instead.
    attempts : tuple of Fingerprint
        Of `tailboost.calibrate`: fingerprints of the rows of this and all earlier attempts.
    """

    bounds: list[CertifiedBound]
    confidence: float
    n_rows: int
    notes: tuple[str, ...]
    model: Any = field(default=None, repr=False, compare=False)
    rows: Fingerprint | None = field(default=None, repr=False, compare=False)
    attempts: tuple[Fingerprint, ...] = field(default=(), repr=False, compare=False)
    rates: tuple[CertifiedBound, ...] = ()

    def bound(self, kind: Kind, unit: Any = None, rule: Rule = "predict") -> CertifiedBound:
        """Return one of the bounds.

        Parameters
        ----------
        kind, unit, rule
            As `CertifiedBound` has them; no unit where the kind has one bound alone.

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
        """Whether all targets are certified.

        None without targets. None too if targets of every class or group are certified for those seen in the
        rows, and it is not known which others exist: ``units=`` of `certify` lists all.
        """
        bounds = [b for b in (*self.bounds, *self.rates) if b.target is not None]
        if any(not b.certified for b in bounds):
            return False
        return None if not bounds or any(b.of_seen for b in bounds) else True

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
        deferred: Any = None,
    ) -> Recheck:
        """Say for each bound whether new rows contradict it; one may look after every batch.

        Bets on every bound being broken gain where new rows break it (an e-process, anytime-valid): that any
        wealth ever exceeds the threshold, m/(1 − confidence) for m bounds, has a probability of at most
        1 − confidence if all bounds are true. Bounds on a CVaR, a shift and the worst unit are not tested by
        themselves. A gap or ratio of rates is tested by differences of rows of its units, in random order
        from a generator with a fixed seed. The order of the rows in ``X`` has no effect.

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
        costs, cost_range, equal_rows, clusters, deferred : optional
            As in `certify`. The range of costs has to stay the same; each cluster may be in one batch alone,
            and where a gap or ratio is tested in one of its units.

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
        rules = () if self.rates else {b.rule for b in self.tested}
        judged = judged_rows(
            judge,
            X,
            y,
            groups,
            [b.counted for b in self.tested],
            rules,
            equal_rows=equal_rows,
            clusters=clusters,
            costs=costs,
            cost_range=cost_range,
            deferred=deferred,
        )
        if not set(rules) <= set(judged.rules):
            raise ValueError("model has no randomised rule, of which the certificate has bounds")
        before = found.rows if self.rows is None else (self.rows, *found.rows)
        counts = judged.known_among(before)
        if found.had(counts):
            raise LeakageError(
                "X holds rows that the certificate was made on, or that were rechecked before, or rows equal "
                "to them: more than one in twenty of this batch, or of all batches together (say "
                "equal_rows='natural' where fresh rows equal others by nature)"
            )
        of = {key: judged.samples(*key) for key in dict.fromkeys((b.counted, b.rule) for b in self.tested)}
        samples = [judged.compared(b.claim, of[b.counted, b.rule]) for b in self.tested]
        rows = () if judged.sketch is None else (judged.sketch,)
        return found.add(samples, rows, counts[-1], rows_unnamed(self.tested, judged.answered))

    @property
    def tested(self) -> list[CertifiedBound]:
        """The bounds that new rows can contradict: those on rates, or on means of units."""
        return list(self.rates) or [b for b in self.bounds if b.kind in ERRORS]

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
        shown = self.rates or (self.bounds if len(self.bounds) <= LONGEST else _largest(self.bounds))
        width = None if any(b.target is not None for b in shown) else -2
        heads, rows = list(shown[0].cells)[:width], [list(b.cells.values())[:width] for b in shown]
        if more := len(self.rates or self.bounds) - len(shown):
            rows.append([f"… and {more:,} smaller ones in .bounds", *[""] * (len(heads) - 1)])
        return heads, rows


def _largest(bounds: Sequence[CertifiedBound]) -> list[CertifiedBound]:
    """Keep the largest bounds of each kind and rule, and those that miss their targets first."""
    kept: set[int] = set()
    for kind, rule in {(b.kind, b.rule) for b in bounds}:
        of_kind = [i for i, b in enumerate(bounds) if (b.kind, b.rule) == (kind, rule)]
        order = sorted(of_kind, key=lambda i: (bounds[i].certified is not False, -bounds[i].upper))
        kept.update(order[:SHOWN])
    return [bounds[i] for i in sorted(kept)]


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
    deferred: Any = None,
) -> Certificate:
    """Bound a classifier's errors on new rows, from rows that had no part in its making.

    A row that the classifier defers counts as deferred: it is no error and no miss, and stays among the rows
    of its class and group. ``rates.answered_error`` leaves it out.

    All bounds hold together with the stated confidence, whatever the classifier and the population and
    however few rows there are. The confidence is shared by the union bound: in equal parts among the kinds
    (the means of all rows, the classes, the groups, the cells, and the tail of the randomised rule where
    `alphas` or `shifts` ask for it), and within a kind among its units that have rows, and the rules. What
    follows from other bounds costs nothing: the worst class is the largest class bound, and CVaR and shift
    of ``predict`` follow exactly from its mean.

    * ``predict``: Clopper–Pearson, exact for error rates.
    * The randomised rule of tailboost's mixtures, with losses 1 − share of the true label: betting
      (`tailboost.rates.bounds.betting_upper`), and a Kolmogorov–Smirnov band for tails.

    Parameters
    ----------
    model : fitted classifier, pipeline, or array
        Any with ``predict``. Or its answers to the rows, with ``X=None``: labels of shape (n,), or
        probabilities of shape (n, K) with columns in the order of the sorted labels of ``y``, or named by
        them; ``predict`` is then their argmax.
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
        features take few values and no row was copied, here or in the fit's table.
    clusters : array-like of shape (n,), optional
        Whose rows these are, where persons, households or places have several. Each has then one vote in a
        class or group, or among the rows that a rate counts among: one of its rows there counts, drawn at
        random from a generator with a fixed seed. The order of the rows has no effect. The clusters are the
        independent draws, and their rows may depend on each other in any way, copies among them.
    deferred : array-like of bool, shape (n,), optional
        With an array of answers: True for a row that was deferred to a human instead of answered. Rates that
        count deferred rows need it. A classifier tells it by ``defers``.

    Raises
    ------
    LeakageError
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
    stated = rates_stated(model, rates, max_error, asked)
    X, y, groups, model, costs, clusters, deferred = _weighted(
        model, X, y, groups, sample_weight, costs, clusters, deferred
    )
    judged = judged_rows(
        model,
        X,
        y,
        groups,
        [one.rate for one in stated],
        () if stated else None,
        equal_rows=equal_rows,
        units=units,
        clusters=clusters,
        costs=costs,
        cost_range=cost_range,
        deferred=deferred,
    )
    judge = model if hasattr(model, "predict") else None
    if stated:
        found = certificate_of_rates(judged, stated, asked, judge, judged.sketch)
    else:
        found = certificate_of(judged, max_error, asked, judge, judged.sketch)
    told = judge is not None or deferred is not None
    return found if told else replace(found, notes=(*found.notes, ANSWERED))


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


# -- rates -------------------------------------------------------------------------------------------------


def rates_asked(given: Any) -> list[Expression]:
    """Return rates and limits that were asked for, also as text, checked."""
    found: list[Expression] = []
    alone = isinstance(given, str) or as_expression(given) is not None
    for one in [given] if alone else given:
        read = as_expression(parse(one) if isinstance(one, str) else one)
        if read is None or not read.sides:
            raise TypeError(
                f"rates: {one!r} is no rate or limit; give a family of rates, or compare a gap or ratio with "
                "a number"
            )
        found.append(read)
    return found


def rates_stated(model: Any, rates: Any, max_error: Any, asked: CertificateRequest) -> list[Expression]:
    """Return the rates that a certificate is about; none if it is about errors.

    Raises
    ------
    ValueError
        If rates and something about errors were both asked for.
    """
    plain = max_error is not None or bool(asked.tails or asked.radii)
    stated = own_rates(model) if rates is None and not plain else rates_asked(rates or ())
    if stated and plain:
        raise ValueError("rates and max_error, alphas or shifts: ask for them one after the other")
    return stated


def certificate_of_rates(
    judged: FreshRows, stated: Sequence[Expression], asked: CertificateRequest, model: Any, sketch: Any
) -> Certificate:
    """Return the certificate of rates of judged rows; see `certify`."""
    bounds = tuple(rate_bounds(stated, judged, 1.0 - asked.confidence))
    notes = tuple(_notes_of_rates(bounds, judged))
    return Certificate([], asked.confidence, len(judged), notes, model, sketch, rates=bounds)


def own_rates(model: Any) -> list[Expression]:
    """Return what a model was to make small and its limits, where it was fitted for limits."""
    final = last_step(model)
    limits = list(getattr(final, "limits", ()) or ())
    objective = as_expression(getattr(final, "objective_", None))
    return [*([] if objective is None else [objective]), *limits] if limits else []


def _notes_of_rates(bounds: Sequence[CertifiedBound], judged: FreshRows) -> Iterator[str]:
    yield from judged.notes
    empty = dict.fromkeys(f"{b.rate} of {b.name}" for b in bounds if not b.n and b.unit not in (GAP, RATIO))
    if empty:
        yield f"No row is there to count among, so that nothing is known of: {_some(list(empty), '; ')}."
    yield (
        "The confidence is shared by the union bound, evenly among the bounds on means of units with rows; "
        "gaps and ratios follow from those of their units."
    )
    if judged.answered.draws:
        yield "These are rates of the rule that draws, as `tailboost decide` does; not of predict."
    yield from unlisted(judged, [b.rate.by for b in bounds if b.rate is not None])


def unlisted(judged: FreshRows, families: Sequence[Any]) -> Iterator[str]:
    """Yield of which units of families, given by their ``by``, not all are known."""
    unknown = [by if isinstance(by, tuple) else (by,) for by in families if not judged.knows(by)]
    names = {name for by in unknown for name in by}
    of_groups = CELL in names or bool(names - {None, CLASS})
    for kind, plural, there in (
        (CLASS, "labels", CLASS in names or CELL in names),
        (GROUP, "groups", of_groups),
    ):
        if there and not judged.knows(kind):
            yield (
                f"Which {plural} exist is not known: a statement about every one, or about the worst, is "
                f"about the {plural} seen here (units= lists all)."
            )
    crossed = [tuple(name for name in by if name != CLASS) for by in unknown]
    if judged.knows(GROUP) and not all(map(judged.knows, crossed)):
        yield (
            "Which combinations of groups exist is not known: a statement about every one is about those "
            "seen here (units= lists the groups, and then counts all their combinations)."
        )


def _some(words: Sequence[str], between: str = ", ") -> str:
    more = f" and {len(words) - SHOWN:,} more" if len(words) > SHOWN else ""
    return f"{between.join(words[:SHOWN])}{more}"


# -- errors ------------------------------------------------------------------------------------------------


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


def targets_of(max_error: Any, names: Mapping[Kind, Sequence[Any]]) -> dict[tuple[Kind, Any], float]:
    """Return the error allowed to units by (kind, name), as a float or a dict says it.

    The units are those of ``names`` by kind: "class", "group", "cell".

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
    grouped = bool(names.get("group"))
    kinds: tuple[Kind, ...] = ("group", "class", "cell") if grouped else ("class",)
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


def targets_every(max_error: Any) -> bool:
    """Whether targets are about every unit of a kind, not about named ones alone."""
    return not isinstance(max_error, Mapping) or float(max_error.get(None, 1.0)) < 1.0


def error_names(judged: FreshRows) -> dict[Kind, list[Any]]:
    """Return the units that errors have, by kind."""
    grouped: list[Kind] = ["group", "cell"] if judged.answered.strata.columns else []
    kinds: list[Kind] = ["mean", "class", *grouped]
    return {kind: judged.names(ERRORS[kind]) for kind in kinds}


def certificate_of(
    judged: FreshRows, max_error: Any, asked: CertificateRequest, model: Any, sketch: Fingerprint | None
) -> Certificate:
    """Return the certificate of the errors of judged rows; see `certify`."""
    names = error_names(judged)
    allowed = targets_of(max_error, names)
    parts: list[str] = list(names)
    parts += ["tail"] if "randomised" in judged.rules and (asked.tails or asked.radii) else []
    level = (1.0 - asked.confidence) / len(parts)
    bounds: list[CertifiedBound] = []
    empty: dict[str, list[str]] = {}
    for kind in names:
        targets = {name: target for (of, name), target in allowed.items() if of == kind}
        families = [
            RateFamily.of_errors(kind, judged, rule, targets, of_every=targets_every(max_error))
            for rule in judged.rules
        ]
        found = shared_bounds(families, level)
        m = len(names[kind])
        bounds += [
            found[i] for j in range(m) for i in range(j, len(found), m)
        ]  # the rules of a unit together
        if kind == "mean":
            for bound, family in zip(found, families, strict=True):
                bounds += _tail_bounds(bound, family.samples[0].values, asked, level)
            continue
        bounds += [_worst(found[i : i + m], judged.knows(kind)) for i in range(0, len(found), m)]
        empty[kind] = [words_of(b.unit) for b in found[:m] if not b.n]
    notes = tuple(_notes(judged, empty, parts, model))
    return Certificate(bounds, asked.confidence, len(judged), notes, model, sketch)


def _tail_bounds(
    mean: CertifiedBound, losses: Floats, asked: CertificateRequest, level: float
) -> Iterator[CertifiedBound]:
    """Yield bounds on CVaR and under shifts: from the mean, and for the randomised rule also from a band."""
    exact = mean.rule == "predict"
    band = None if exact or not (asked.tails or asked.radii) else tail_band(losses, level)
    by_mean = "exactly from the mean" if exact else "from the mean"

    def better(kind: Kind, unit: float, seen: float, upper: float, of_band: float | None) -> CertifiedBound:
        found = replace(mean, kind=kind, unit=unit, estimate=seen, upper=upper, method=by_mean)
        return found if of_band is None or of_band >= upper else replace(found, upper=of_band, method=BAND)

    for alpha in asked.tails:
        of_band = None if band is None else band_cvar(band, alpha)
        yield better("cvar", alpha, cvar(losses, alpha), cvar_of_mean(mean.upper, alpha), of_band)
    for radius in asked.radii:
        of_band = None if band is None else band_shift(band, radius)
        seen = worst_case_weights(losses, "kl", radius=radius).value
        yield better("shift", radius, seen, shift_of_mean(mean.upper, radius), of_band)


def _worst(bounds: Sequence[CertifiedBound], all_listed: bool) -> CertifiedBound:
    """Return the largest bound of units of one kind, by one rule."""
    top = max(bounds, key=lambda b: b.upper)
    return replace(
        top,
        kind="worst",
        unit=top.kind,
        estimate=max(b.estimate for b in bounds if b.estimate is not None),
        method=f"largest {top.kind} bound",
        target=top.target if len({b.target for b in bounds}) == 1 else None,
        of_seen=not all_listed,
    )


def _notes(
    judged: FreshRows, empty: Mapping[str, list[str]], parts: Sequence[str], model: Any
) -> Iterator[str]:
    yield from judged.notes
    plurals = {"class": "classes", "group": "groups", "cell": "cells"}
    for kind, names in empty.items():
        if names:
            words = f"No row is of these {plurals[kind]}, so that their bounds are 1, and that of the worst"
            yield f"{words}: {_some(names)}."
    yield from unlisted(judged, list(empty))
    if judged.hashes is not None and judged.clusters is None:
        n_repeated = len(judged.hashes) - len(np.unique(judged.hashes))
        if n_repeated:
            yield (
                f"{n_repeated:,} of the {len(judged.hashes):,} rows equal an earlier one: fine where "
                "features take few values, wrong where a row was copied."
            )
    yield (
        f"The confidence is shared by the union bound: equally among the {len(parts)} parts "
        f"({', '.join(parts)}), within each among its units that have rows, and the rules."
    )
    if "randomised" in judged.rules:
        yield "'randomised' is the rule that draws a label by predict_distribution; 'predict' is the argmax."
    elif one_answers(model):
        yield "'predict' is also what 'predict_distribution' draws: one member has the whole share."
