"""The table of rates: each rate of a rule in each subgroup, with an interval for new rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tailboost.core.array_types import Axes, Floats
from tailboost.core.drawing import display
from tailboost.core.html import html_table, text_table
from tailboost.core.limit_lines import BROKEN, KEPT, NO_ROWS, LimitLine
from tailboost.core.subgroups import unit_name
from tailboost.rates import Answered, Limit, Rate, Strata
from tailboost.selection.confidence import FEW, REFIT, CountedRate, LimitsOutlook, effective_rows
from tailboost.selection.problem import SPREAD

# The most printed lines, the furthest above their limits. `to_dict` has all lines.
MOST_LINES = 30
RULES = {"predict": "predict", "randomised": "randomised rule"}
# Notes of a table.
SELECTED = (
    "the rule was selected on these rows: each estimate is its rate there, each interval is for its rate on "
    "new rows of the same distribution; tailboost.certify gives a guarantee"
)
REFITTED = (
    "intervals of subgroups allow for a refit: cross-fitted models (of the class or of the group) were "
    "counted, and models refitted on all rows answer"
)


@dataclass(frozen=True)
class RateLine:
    """One rate of one subgroup.

    Parameters
    ----------
    rate : str
        Name of the rate.
    subgroup : object
        The subgroup; None for all rows, "gap" or "ratio" for a comparison of subgroups.
    value : float
        The rate of the rule on these rows; NaN if no row counts.
    low, high : float
        95 % interval for the rate of this rule on new rows; NaN without one, see `RateTable.notes`.
    rows : float
        Effective number of rows behind the rate; NaN for a gap or a ratio.
    limit : str
        The limit as text; empty for the objective.
    bound : float
        Bound for this subgroup; NaN without one.
    met : bool or None
        Whether the value satisfies the bound; None without a bound or a value.
    sense : {"≤", "<", "≥", ""}
        Direction of the bound; "<" if a value equal to the bound does not satisfy it.
    price : float
        Shadow price: decrease of the objective for each 1 by which the bound is loosened, NaN if it is not
        known. For a limit on deferral it is the cost of a review at which no limit is needed.
    rule : {"predict", "randomised"}
        The rule: `predict`, or the randomised rule in expectation.
    """

    rate: str
    subgroup: Any
    value: float
    low: float
    high: float
    rows: float
    limit: str
    bound: float
    met: bool | None
    sense: str = ""
    price: float = float("nan")
    rule: str = "predict"

    @property
    def limit_line(self) -> LimitLine:
        """The limit for drawings and short tables."""
        verdict = {True: KEPT, False: BROKEN, None: NO_ROWS}[self.met]
        unit = "all rows" if self.subgroup is None else unit_name(self.subgroup)
        value, low, high = (None if end != end else float(end) for end in (self.value, self.low, self.high))
        words = _text(self.value, ".4f", "–")
        if low is not None:
            words += f", 95 % interval {low:.4f} to {high:.4f}"
        limit = f"{self.sense} {self.bound:g}"
        name = f"{self.rate}: {unit}"
        return LimitLine(verdict, self.met, name, limit, words, value, low, high, float(self.bound))


@dataclass(frozen=True)
class RateTable:
    """Rates by subgroup. Iterate over the lines, print the table, or use `to_dicts` for a data frame.

    Parameters
    ----------
    lines : tuple of RateLine
        One for each rate of each subgroup.
    words : str
        Description of the rows.
    notes : tuple of str
        How to read the table, and further facts about the classifier.
    kind : str
        Kind of the subgroups of a table of errors: "class", "group" or "cell"; empty for other tables.
    outlook : LimitsOutlook or None
        Probability that the limits hold on new rows; None without limits.
    selected : bool
        Whether the rule was selected on these rows.
    """

    lines: tuple[RateLine, ...]
    words: str
    notes: tuple[str, ...] = ()
    kind: str = ""
    outlook: LimitsOutlook | None = None
    selected: bool = False

    @classmethod
    def counted(
        cls,
        stated: Iterable[tuple[Rate, Limit | None]],
        strata: Strata,
        counts: Floats,
        words: str,
        *,
        kind: str = "",
        prices: Sequence[Floats | None] | None = None,
        selected: bool = True,
        refit: bool = False,
        refit_spread: float = REFIT,
    ) -> RateTable:
        """Return the table of a rule from its confusion counts, shape (W, A).

        The rates come with their limits, and ``prices`` are the shadow prices of each limit by subgroup, see
        `Program.shadow_prices`. ``words``, ``kind`` and ``selected`` are those of the class, ``refit`` and
        ``refit_spread`` those of `CountedRate.of`.
        """
        stated = list(stated)
        lines, lacking, spread = list[RateLine](), list[str](), False
        for (rate, limit), price in zip(stated, prices or [None] * len(stated), strict=True):
            counted = CountedRate.of(rate, strata, counts, refit, refit_spread)
            lines += rate_lines(rate, limit, counted, price)
            lacking += counted.lacking(rate)
            spread |= counted.spread > 0
        notes = [*[SELECTED] * selected, *[REFITTED] * spread, *dict.fromkeys(lacking)]
        return cls(tuple(lines), words, tuple(notes), kind, selected=selected)

    def expecting(self, outlook: LimitsOutlook | None) -> RateTable:
        """Return the table with the probability that the limits hold on new rows."""
        if outlook is None:
            return self
        return replace(self, outlook=outlook, notes=(*self.notes, outlook.sentence))

    @classmethod
    def measured(cls, stated: Iterable[Rate | Limit], answered: Answered, words: str) -> RateTable:
        """Return the table of rates and limits on answered rows, which ``words`` name."""
        pairs = [(one.rate, one.limit) for one in stated]
        return cls.counted(pairs, answered.strata, answered.counts, words, selected=False)

    def on_fitted_rows(self) -> RateTable:
        """Return the table without intervals, because models were fitted on its rows."""
        lines = tuple(replace(line, low=float("nan"), high=float("nan")) for line in self.lines)
        return replace(self, lines=lines, notes=("no intervals: models were fitted on these rows",))

    def of_rule(self, rule: str) -> RateTable:
        """Return the lines of a rule; a deterministic rule has only those of `predict`."""
        lines = [line for line in self.lines if line.rule == rule]
        draws = any(line.rule == "randomised" for line in self.lines)
        return replace(self, lines=tuple(lines) if lines or draws else self.lines)

    def column(self, name: str, rule: str = "predict") -> Floats | None:
        """Return one number of all lines of a rule, shape (m,); None if all are NaN."""
        values = np.array([getattr(line, name) for line in self.of_rule(rule).lines], dtype=np.float64)
        return None if np.isnan(values).all() else values

    def intervals(self, rule: str = "predict") -> Floats | None:
        """Return the intervals of a rule, shape (m, 2); None without any."""
        low, high = self.column("low", rule), self.column("high", rule)
        return None if low is None or high is None else np.column_stack([low, high])

    @property
    def worst(self) -> tuple[Any, float, tuple[float, float] | None] | None:
        """Name, error and interval of the subgroup with the largest error of `predict`; None without any."""
        line = max(
            self.of_rule("predict"), key=lambda line: np.nan_to_num(line.value, nan=-1.0), default=None
        )
        if line is None or np.isnan(line.value):
            return None
        return line.subgroup, line.value, None if np.isnan(line.low) else (line.low, line.high)

    def __iter__(self) -> Iterator[RateLine]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def met(self) -> bool | None:
        """Whether all limits hold on these rows; None without limits."""
        said = [line.met for line in self.lines if line.met is not None]
        return all(said) if said else None

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the lines as dicts, for ``pandas.DataFrame``."""
        return [asdict(line) for line in self.lines]

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain types, for JSON; NaN becomes None."""
        lines = [{k: None if v != v else v for k, v in line.items()} for line in self.to_dicts()]
        likely = None if self.outlook is None else self.outlook.to_dict()
        return asdict(replace(self, lines=(), outlook=None)) | {"lines": lines, "outlook": likely}

    @property
    def verdict(self) -> str:
        """A sentence: whether the limits hold on these rows, and how likely on new rows."""
        limited = [line for line in self.lines if line.met is not None]
        if not limited:
            return "There is no limit among these rates."
        if broken := _named(line for line in limited if not line.met):
            return f"Not kept on these rows: {broken}."
        if self.outlook is None:
            return "On these rows all limits are kept."
        likely = self.outlook.sentence
        return f"On these rows all limits are kept. {likely[:1].upper()}{likely[1:]}."

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the headings and the lines as text."""
        between, limited, priced = (
            any(not np.isnan(line.low) for line in self.lines),
            any(line.limit for line in self.lines),
            any(line.price > 0 for line in self.lines),
        )
        drawn = bool(self.kind) and len({line.rule for line in self.lines}) > 1
        here, digits = " on these rows" * self.selected, 3 if self.kind else 4
        head = [self.kind, "rows"] if self.kind else ["rate", "subgroup"]
        head += [*["error of"] * drawn, "estimate" if self.selected else "on these rows"]
        head += ["95 % interval"] * between + ["limit", f"kept{here}"] * limited + ["price"] * priced
        rows = []
        for line in self._shown:
            unit = "all" if line.subgroup is None else unit_name(line.subgroup)
            row = [unit, f"{line.rows:,.0f}"] if self.kind else [line.rate, unit]
            row += [RULES[line.rule]] * drawn + [_text(line.value, f".{digits}f", "–")]
            ends = [_text(end, f".{2 if self.kind else 4}f", "–") for end in (line.low, line.high)]
            row += ["–" if np.isnan(line.low) else " to ".join(ends)] * between
            bound = "" if np.isnan(line.bound) else f"{line.sense} {line.bound:g}"
            row += [bound, {True: "yes", False: "NO", None: ""}[line.met]] * limited
            rows.append(row + [_text(line.price, ".3g", "")] * priced)
        return head, rows

    @property
    def _shown(self) -> Sequence[RateLine]:
        """The printed lines: of many errors those furthest above their bounds."""
        if not self.kind or len(self.lines) <= MOST_LINES:
            return self.lines
        beyond = [np.nan_to_num(x.value, nan=-1.0) - np.nan_to_num(x.bound) for x in self.lines]
        return [self.lines[i] for i in np.argsort(beyond, kind="stable")[: -MOST_LINES - 1 : -1]]

    @property
    def caption(self) -> str:
        """The rates and the rows, in words."""
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

    def limit_lines(self) -> list[LimitLine]:
        """Return the limits of `predict` with their verdicts, for drawings and short tables."""
        return [line.limit_line for line in self.of_rule("predict") if not np.isnan(line.bound)]

    def plot(self, ax: Axes = None, **kwargs: Any) -> Any:
        """Draw each limit with its verdict on these rows, the estimate and its interval; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on.
        **kwargs
            Passed to ``Axes.barh``.

        Returns
        -------
        LimitsDisplay

        Raises
        ------
        ValueError
            If the table has no limit.
        """
        words = "estimates" if self.selected else "rates"
        return display("LimitsDisplay")(self.limit_lines(), name=f"{words} on {self.words}").plot(
            ax=ax, **kwargs
        )

    def __str__(self) -> str:
        return "\n".join([self.text, *(f"{note[:1].upper()}{note[1:]}." for note in self.notes)])

    def _repr_html_(self) -> str:
        return html_table(*self.cells(), caption="; ".join([self.caption, *self.notes]))


def _text(value: float, digits: str, unknown: str) -> str:
    return unknown if np.isnan(value) else f"{value:{digits}}"


def _named(lines: Iterable[RateLine]) -> str:
    """Return the names of lines, of the first few of many."""
    names = [
        line.limit
        if line.subgroup in (None, "gap", "ratio")
        else f"{line.limit} ({unit_name(line.subgroup)})"
        for line in lines
    ]
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return "; ".join(names[:FEW]) + more


def rate_lines(
    rate: Rate, limit: Limit | None, counted: CountedRate, prices: Floats | None = None
) -> list[RateLine]:
    """Return a line for each subgroup of a counted rate, and one for the gap or ratio of a limit.

    ``prices`` are shadow prices of the limit: one for each subgroup, or one for a gap or ratio.
    """
    names, values = list(counted.terms.names), counted.values
    bounds = np.full(len(values), np.nan)
    if limit is not None and not limit.compares:
        bounds = limit.bounds(names)
    numbers = np.column_stack([values, *counted.ends(), counted.rows, bounds])
    if limit is not None and limit.compares:
        ends = counted.compared(limit)
        numbers = np.vstack([numbers, [limit.value(values), *ends, np.nan, limit.bound]])
        names.append(limit.form)
    paid = np.full(len(names), np.nan)
    if prices is not None:
        paid[-len(prices) :] = prices
    lines = []
    for name, (value, low, high, n, bound), price in zip(names, numbers.tolist(), paid.tolist(), strict=True):
        met = None if limit is None else limit.keeps(value, bound)
        said = "" if limit is None else str(limit)
        sense = "" if limit is None else limit.sense
        lines.append(RateLine(str(rate), name, value, low, high, n, said, bound, met, sense, price))
    return lines


# Rates of little noise. A gap or ratio is reported as below its noise only if it is so for these rates.
CALM_GAP, CALM_RATIO = 0.1, 0.5


def below_noise(limit: Limit, strata: Strata) -> str | None:
    """Return why so few rows cannot show that a limit holds; None if they can.

    The check needs no predictions. It assumes the least possible noise for the smallest subgroup, or for the
    smallest two subgroups of a gap or ratio.
    """
    if (
        limit.rate.is_ratio or limit.rate.kind == "cost"
    ):  # their rows or their range depend on the predictions
        return None
    terms, counts = limit.terms(strata), np.zeros((len(strata.mass), strata.n_actions))
    counts[:, 0] = strata.mass
    sizes = effective_rows(
        terms, strata, counts if strata.mean_costs is None else np.concatenate([counts, 0 * counts])
    )
    there = np.flatnonzero(sizes > 0)
    order = there[np.argsort(sizes[there], kind="stable")]
    units = ["the whole" if name is None else unit_name(name) for name in terms.names]
    if limit.compares:
        if len(order) < 2:
            absent = [units[i] for i in np.flatnonzero(sizes <= 0)]
            more = f"; {', '.join(absent[:FEW])} has no rows" if absent else ""
            return f"{limit}: only one subgroup has rows, so there is nothing to compare{more}"
        gap = limit.form == "gap"
        p, allowed = (CALM_GAP, limit.bound) if gap else (CALM_RATIO, 1.0 - limit.bound)
        variance = p * (1 - p) if gap else (1 - p) / p
        noise = SPREAD * np.sqrt(variance * (1 / sizes[order[:2]]).sum())
        if noise <= allowed:
            return None
        names = [f"{units[i]} has {sizes[i]:,.0f} rows" for i in order[:2]]
        return (
            f"{limit}: {' and '.join(names)}, between which the {limit.form} is not known to better than "
            f"± {noise:.2g} (95 %, if the rates are {p:g}); on fresh rows it may well be broken"
        )
    bounds = limit.bounds(terms.names)
    if lacking := [units[i] for i in np.flatnonzero((sizes <= 0) & ~np.isnan(bounds))]:
        return f"{limit}: {', '.join(lacking[:FEW])} has no rows, so that nothing is known of it"
    for i in order:
        room = bounds[i] if limit.from_above else 1.0 - bounds[i]
        seen = 1.0 - 0.05 ** (1.0 / sizes[i])
        if not np.isnan(room) and seen > room > 0:
            reached = seen if limit.from_above else 1.0 - seen
            return (
                f"{limit}: {units[i]} has {sizes[i]:,.0f} rows, of which even the best answers show no more "
                f"than {'≤' if limit.from_above else '≥'} {reached:.2g} (95 %)"
            )
    return None
