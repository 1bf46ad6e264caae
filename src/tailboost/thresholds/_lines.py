"""The table of rates: what a choice does in every unit, on the rows of the choice and elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from tailboost._html import html_table, text_table
from tailboost._typing import Floats
from tailboost._units import unit_name
from tailboost.rates import ROUNDING as ROUNDING
from tailboost.rates import Answered, Limit, Rate, Strata
from tailboost.rates import Terms as RateTerms
from tailboost.thresholds._program import Program

# 95 % of a normal distribution lie within so many standard deviations.
SPREAD = 1.959963984540054
# So many lines are named in a sentence.
FEW = 4
# More units are for `to_dict`; those shown are the farthest beyond what is allowed, or the largest.
MOST_LINES = 30
RULES = {"predict": "predict", "randomised": "randomised rule"}


@dataclass(frozen=True)
class RateLine:
    """One rate of one unit.

    Parameters
    ----------
    rate : str
        What is counted.
    unit : object
        The unit; None for all rows, "gap" or "ratio" for what a limit compares over units.
    value : float
        On the rows of the choice, by counting; NaN where there is nothing to count among.
    estimate : float
        On each half of these rows by a choice on the other half; NaN where there are no halves.
    low, high : float
        95 % interval about the estimate, or about the value where there is none.
    rows : float
        How many rows of equal weight it is a mean over; NaN for a gap or a ratio.
    limit : str
        The limit, in words; empty for the objective.
    bound : float
        Its number for this unit; NaN without one.
    met : bool or None
        Whether the value keeps it; None without one, or where there is nothing to count among.
    likely : bool or None
        Whether the estimate keeps it.
    sense : {"≤", "≥", ""}
        On which side of the number the rate has to be.
    price : float
        By how much the objective falls for each 1 by which the bound is loosened, as the models'
        probabilities expect it; NaN where that is not known. Of a limit on rows passed on: the price of a
        person's look at which no limit is needed.
    rule : {"predict", "randomised"}
        Of an error of a unit: by `predict`, or expected of the rule that draws a member for each answer.
    """

    rate: str
    unit: Any
    value: float
    estimate: float
    low: float
    high: float
    rows: float
    limit: str
    bound: float
    met: bool | None
    likely: bool | None = None
    sense: str = ""
    price: float = float("nan")
    rule: str = "predict"


@dataclass(frozen=True)
class RateTable:
    """Rates by unit: iterate over its lines, print it, or take `to_dicts` for a data frame.

    Parameters
    ----------
    lines : tuple of RateLine
        One for each rate of each unit.
    words : str
        What rows they are about.
    notes : tuple of str
        What else is to be said of the classifier: how its answers come to depend on the groups.
    kind : str
        What units are whose errors it is about: "class", "group" or "cell"; empty for a table of other rates.
    """

    lines: tuple[RateLine, ...]
    words: str
    notes: tuple[str, ...] = ()
    kind: str = ""

    @classmethod
    def of(
        cls,
        program: Program,
        tally: Floats,
        elsewhere: Floats | None,
        words: str,
        worth: Sequence[Floats] | None = None,
    ) -> RateTable:
        """Return the table of a choice.

        Parameters
        ----------
        program : Program
            Its objective and limits.
        tally : ndarray of shape (W, A)
            What it does on the rows of the choice.
        elsewhere : ndarray of shape (W, A), optional
            What choices on one half do on the other.
        words : str
            What rows these are.
        worth : sequence of ndarray, optional
            What each limit is worth, by unit, see `Program.worth`.
        """
        strata = program.strata
        lines = rate_lines(program.objective.rate, None, strata, tally, elsewhere)
        for number, limit in enumerate(program.limits):
            prices = None if worth is None else worth[number]
            lines += rate_lines(limit.rate, limit, strata, tally, elsewhere, prices)
        return cls(tuple(lines), words)

    @classmethod
    def measured(cls, stated: Iterable[Rate | Limit], answered: Answered, words: str) -> RateTable:
        """Return the table of rates and limits on rows that were answered.

        Parameters
        ----------
        stated : iterable of Rate or Limit
            What to measure.
        answered : Answered
            The rows.
        words : str
            What rows these are.
        """
        strata, tally = answered.strata, answered.tally
        lines = [line for one in stated for line in rate_lines(one.rate, one.limit, strata, tally, None)]
        return cls(tuple(lines), words)

    def of_rule(self, rule: str) -> RateTable:
        """Return the lines of a rule; of one that does not draw those of `predict` are all there are."""
        lines = [line for line in self.lines if line.rule == rule]
        draws = any(line.rule == "randomised" for line in self.lines)
        return replace(self, lines=tuple(lines) if lines or draws else self.lines)

    def column(self, name: str, rule: str = "predict") -> Floats | None:
        """Return one number of all lines of a rule, shape (m,); None where it is known of none."""
        values = np.array([getattr(line, name) for line in self.of_rule(rule).lines], dtype=np.float64)
        return None if np.isnan(values).all() else values

    def intervals(self, rule: str = "predict") -> Floats | None:
        """Return the intervals about the estimates of a rule, shape (m, 2); None where there are none."""
        low, high = self.column("low", rule), self.column("high", rule)
        return None if low is None or high is None else np.column_stack([low, high])

    @property
    def worst(self) -> tuple[Any, float, tuple[float, float] | None] | None:
        """Name, error and interval of the unit with the largest error; None where no error is known.

        Of `predict` rather than of the rule that draws, and of rows that the choice was not made on rather
        than of those it was.
        """
        for rule in RULES:
            for name in ("estimate", "value"):
                known = [x for x in self.lines if x.rule == rule and not np.isnan(getattr(x, name))]
                if known:
                    line = max(known, key=lambda line: getattr(line, name))
                    ends = None if name == "value" else (line.low, line.high)
                    return line.unit, getattr(line, name), ends
        return None

    def __iter__(self) -> Iterator[RateLine]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def met(self) -> bool | None:
        """Whether all limits are kept on the rows of the choice; None without limits."""
        said = [line.met for line in self.lines if line.met is not None]
        return all(said) if said else None

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the lines as dicts, for ``pandas.DataFrame``."""
        return [asdict(line) for line in self.lines]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, for JSON, which has no NaN."""
        lines = [{k: None if v != v else v for k, v in line.items()} for line in self.to_dicts()]
        return asdict(self) | {"lines": lines}

    @property
    def verdict(self) -> str:
        """Whether limits are kept, on these rows and by the estimate for others, in a sentence."""
        limited = [line for line in self.lines if line.met is not None]
        if not limited:
            return "There is no limit among these rates."
        if broken := _named(line for line in limited if not line.met):
            return f"Not kept on these rows: {broken}."
        if beyond := _named(line for line in limited if line.likely is False):
            return f"On these rows all limits are kept; by the estimate for fresh rows not: {beyond}."
        if all(line.likely is None for line in limited):
            return "On these rows all limits are kept."
        return (
            "All limits are kept, on these rows and by the estimate for fresh rows, which is no certificate."
        )

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return a heading and the lines as text, the estimate first."""
        there = any(not np.isnan(line.estimate) for line in self.lines)
        between = any(not np.isnan(line.low) for line in self.lines)
        limited = any(line.limit for line in self.lines)
        priced = any(line.price > 0 for line in self.lines)
        drawn = bool(self.kind) and len({line.rule for line in self.lines}) > 1
        digits, rows = (3, 2) if self.kind else (4, 4), []
        for line in self._shown:
            unit = "all" if line.unit is None else unit_name(line.unit)
            value, estimate, low, high = (
                "–" if np.isnan(x) else f"{x:.{n}f}"
                for pair, n in zip(((line.value, line.estimate), (line.low, line.high)), digits, strict=True)
                for x in pair
            )
            row = [unit, f"{line.rows:,.0f}"] if self.kind else [line.rate, unit]
            row += [RULES[line.rule]] * drawn + [estimate] * there + [value] * (not there)
            if between:
                row.append("–" if np.isnan(line.low) else f"{low} to {high}")
            row += [value] * there
            if limited:
                bound = "" if np.isnan(line.bound) else f"{line.sense} {line.bound:g}"
                row += [bound, {True: "yes", False: "NO", None: ""}[line.met]]
            if priced:
                row.append("" if np.isnan(line.price) else f"{line.price:.3g}")
            rows.append(row)
        head = [self.kind, "rows"] if self.kind else ["rate", "unit"]
        head += ["error of"] * drawn + ["estimate" if there else "on these rows"]
        head += ["95 % interval"] * between + ["on these rows"] * there
        kept = "kept on these rows" if there else "kept"
        return head + ["limit", kept] * limited + ["price"] * priced, rows

    @property
    def _shown(self) -> Sequence[RateLine]:
        """Of errors of very many units the lines that are the farthest beyond what is allowed."""
        if not self.kind or len(self.lines) <= MOST_LINES:
            return self.lines
        beyond = [np.nan_to_num(x.value, nan=-1.0) - np.nan_to_num(x.bound) for x in self.lines]
        return [self.lines[i] for i in np.argsort(beyond, kind="stable")[: -MOST_LINES - 1 : -1]]

    @property
    def caption(self) -> str:
        """What it is about, in words."""
        more = len(self.lines) - len(self._shown)
        hidden = f"; {more} more are in to_dict()" if more else ""
        return (
            f"error of each {self.kind}, measured on {self.words}{hidden}"
            if self.kind
            else f"On {self.words}"
        )

    @property
    def text(self) -> str:
        """The caption and the lines."""
        head, rows = self.cells()
        left = (0,) if self.kind else range(len(head))
        return f"{self.caption}:\n{text_table(head, rows, left=left)}"

    def __str__(self) -> str:
        return "\n".join([self.text, *(f"{note[:1].upper()}{note[1:]}." for note in self.notes)])

    def _repr_html_(self) -> str:
        return html_table(*self.cells(), caption="; ".join([self.caption, *self.notes]))


def _named(lines: Iterable[RateLine]) -> str:
    """Name lines, the first few of many."""
    found = [
        line.limit if line.unit in (None, "gap", "ratio") else f"{line.limit} ({unit_name(line.unit)})"
        for line in lines
    ]
    more = f" and {len(found) - FEW} more" if len(found) > FEW else ""
    return "; ".join(found[:FEW]) + more


def rate_lines(
    rate: Rate,
    limit: Limit | None,
    strata: Strata,
    tally: Floats,
    elsewhere: Floats | None,
    prices: Floats | None = None,
) -> list[RateLine]:
    """Return a line for each unit of a rate, and one for the gap or ratio that a limit is about.

    ``prices`` are what the limit is worth: one number for each unit, or one for a gap or ratio.
    """
    terms = rate.terms(strata)
    values = terms.values(tally)
    estimates = np.full(len(values), np.nan) if elsewhere is None else terms.values(elsewhere)
    centre = np.where(np.isnan(estimates), values, estimates)
    sizes = _sizes(terms, strata, tally)
    low, high = _intervals(rate, strata, centre, sizes)
    bounds = np.full(len(values), np.nan)
    if limit is not None and not limit.compares:
        bounds = limit.bounds(terms.names)
    numbers = np.column_stack([values, estimates, low, high, sizes, bounds])
    if limit is not None and limit.compares:
        own, elsewhere_said = limit.said_of(values), limit.said_of(estimates)
        interval = _compared(limit, strata, centre, sizes)
        numbers = np.vstack([numbers, [own, elsewhere_said, *interval, np.nan, limit.bound]])
    names = [*terms.names, *([limit.form] if limit is not None and limit.compares else [])]
    paid = np.full(len(names), np.nan)
    if prices is not None:
        paid[-len(prices) :] = prices
    lines = []
    numbers = np.column_stack([numbers, paid])
    for name, (value, estimate, least, most, n, bound, price) in zip(names, numbers.tolist(), strict=True):
        met, likely = (None if limit is None else limit.keeps(x, bound) for x in (value, estimate))
        said = "" if limit is None else str(limit)
        sense = "" if limit is None else "≤" if limit.from_above else "≥"
        found = (value, estimate, least, most, n)
        lines.append(RateLine(str(rate), name, *found, said, bound, met, likely, sense, price))
    return lines


# A gap or ratio is called below its noise where it is so even if rates were as little noisy as these.
CALM_GAP, CALM_RATIO = 0.1, 0.5


def below_noise(limit: Limit, strata: Strata) -> str | None:
    """Say why so few rows as there are cannot show that a limit is kept; None where they may.

    That is before anything is answered: one unit, or the smallest two of a gap or ratio, are taken for as
    easy to measure as they may be.
    """
    if limit.rate.is_ratio or limit.rate.kind == "cost":  # their rows depend on the answers, or their range
        return None
    terms, tally = limit.terms(strata), np.zeros((len(strata.mass), strata.n_actions))
    tally[:, 0] = strata.mass
    sizes = _sizes(terms, strata, tally if strata.mean_costs is None else np.concatenate([tally, 0 * tally]))
    there = np.flatnonzero(sizes > 0)
    order = there[np.argsort(sizes[there], kind="stable")]
    absent = [unit_name(terms.names[i]) for i in np.flatnonzero(sizes <= 0)]
    if limit.compares:
        if len(order) < 2:
            more = f"; {', '.join(absent[:FEW])} has no rows" if absent else ""
            return f"{limit}: there is one unit with rows, so that nothing is compared{more}"
        small, other = order[0], order[1]
        spread = SPREAD * np.sqrt(1 / sizes[small] + 1 / sizes[other])
        if limit.form == "gap":
            p, allowed = CALM_GAP, limit.bound
            noise = spread * np.sqrt(p * (1 - p))
        else:
            p, allowed = CALM_RATIO, 1.0 - limit.bound
            noise = spread * np.sqrt((1 - p) / p)
        if noise <= allowed:
            return None
        names = [f"{unit_name(terms.names[i])} has {sizes[i]:,.0f} rows" for i in (small, other)]
        return (
            f"{limit}: {' and '.join(names)}, between which the {limit.form} is not known to better than "
            f"± {noise:.2g} (95 %, if the rates are {p:g}); on fresh rows it may well be broken"
        )
    bounds = limit.bounds(terms.names)
    if lacking := [unit_name(terms.names[i]) for i in np.flatnonzero((sizes <= 0) & ~np.isnan(bounds))]:
        return f"{limit}: {', '.join(lacking[:FEW])} has no rows, so that nothing is known of it"
    for i in order:
        room = bounds[i] if limit.from_above else 1.0 - bounds[i]
        seen = 1.0 - 0.05 ** (1.0 / sizes[i])
        if not np.isnan(room) and seen > room > 0:
            reached = seen if limit.from_above else 1.0 - seen
            return (
                f"{limit}: {unit_name(terms.names[i]) if terms.names[i] is not None else 'the whole'} has "
                f"{sizes[i]:,.0f} rows, of which even the best answers show no more than "
                f"{'≤' if limit.from_above else '≥'} {reached:.2g} (95 %)"
            )
    return None


def _sizes(terms: RateTerms, strata: Strata, tally: Floats) -> Floats:
    """Return how many rows of equal weight each rate counts among, shape (m,)."""
    n_strata = len(strata.mass)
    there = strata.mass > 0
    per_mass = np.where(there, strata.size / np.where(there, strata.mass, 1.0), 0.0)
    among = (terms.bottom[:, :n_strata] * tally[:n_strata]).sum(axis=2)
    # Rows of strata that weigh differently: (Σ m)² / Σ m² / n.
    top = among.sum(axis=1) ** 2
    bottom = (among**2 / np.where(among > 0, np.maximum(per_mass * among, 1e-300), 1.0)).sum(axis=1)
    return np.where(bottom > 0, top / np.where(bottom > 0, bottom, 1.0), 0.0)


def _intervals(
    rate: Rate, strata: Strata, centre: Floats, sizes: Floats, spread: float = SPREAD
) -> tuple[Floats, Floats]:
    """Return Wilson's intervals of rates, scaled to [0, 1] by what their values may be."""
    least, most = rate.range(strata)
    width = max(most - least, 1e-300)
    n = np.maximum(sizes, 1e-9)
    p = (centre - least) / width
    middle = (p + spread**2 / (2 * n)) / (1 + spread**2 / n)
    half = spread / (1 + spread**2 / n) * np.sqrt(np.maximum(p * (1 - p), 0.0) / n + spread**2 / (4 * n**2))
    return least + width * (middle - half), least + width * (middle + half)


def _compared(limit: Limit, strata: Strata, centre: Floats, sizes: Floats) -> tuple[float, float]:
    """Return the interval of a gap or ratio: from those of the differences of all pairs, each made wider.

    Another unit than the two that are farthest apart here, of fewer rows, may be so on other rows: the
    intervals of the differences (Newcombe 1998) hold together, by Bonferroni. Of two units it is theirs.
    """
    known = ~np.isnan(centre)
    if (m := int(known.sum())) < 2:
        return float("nan"), float("nan")
    spread = float(ndtri(1.0 - 0.025 / (m * (m - 1) / 2)))
    ends = (centre, *_intervals(limit.rate, strata, centre, sizes, spread))
    rate, low, high = (of[known] for of in ends)
    if limit.form == "ratio":
        rate, low, high = (np.log(np.maximum(of, 1e-300)) for of in (rate, low, high))
    apart = rate[:, None] - rate
    more, less = np.hypot((high - rate)[:, None], rate - low), np.hypot((rate - low)[:, None], high - rate)
    least = max(0.0, float((apart - less).max()))
    most = float((apart + more)[~np.eye(m, dtype=bool)].max())
    return (least, most) if limit.form == "gap" else (float(np.exp(-most)), float(np.exp(-least)))
