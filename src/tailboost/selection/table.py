"""Counted rates with intervals for new rows, and their tables."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from tailboost.core import (
    Document,
    Floats,
    LimitLine,
    Name,
    filled_columns,
    frozen_value,
    html_table,
    rate_words,
    stated_words,
    text_table,
)
from tailboost.rates import TINY, Limit, Rate, Strata, as_statistics
from tailboost.rates.bounds import clopper_pearson_interval
from tailboost.rows import unit_name

# Standard deviation between the rates of a subgroup under models of folds and under their refit, as a share
# of the range of the rate. On 33 tables .94 of the class errors on test rows were
# inside with .015, .86 with 0 and .96 with .02, at widths of .11, .09 and .12; .017 of the errors were above.
REFIT = 0.015
# 95 % of a normal distribution lie within this many standard deviations.
NORMAL_975 = 1.959963984540054
# Rates of fewer effective rows have no interval. At 10 rows its width is .6 of the range.
ROWS_OF_INTERVAL = 10
# Standard error of rates on new rows about the counted ones, in those of the interval: the counts have the
# variance 1, and the selection on the same rows adds .25.
OVERDISPERSION = np.sqrt(1.25)
# Words of verdicts on the selecting rows.
KEPT = "kept on these rows"
NO_ROWS = "no rows"
INTERVAL = "95 % interval"
HEADINGS = ("rate", "subgroup", "estimate", INTERVAL, "rows", "limit", KEPT)
SELECTED = "The rule was selected on these rows: for limits that hold, calibrate on fresh rows."
INTERVALS = (
    " An interval is for its rate on new rows of the same distribution, and certifies nothing."
)


class CountedRate(NamedTuple):
    """The rate of one rule by subgroup, with 95 % intervals for new rows. Arrays have the shape (m,)."""

    names: list[Name]  # of the subgroups
    values: Floats  # the rates; NaN without rows
    low: Floats  # ends of the intervals; NaN without one
    high: Floats
    rows: Floats  # the effective rows behind each rate, (Σ w)² / Σ w²
    errors: Floats  # standard errors about the rates of new rows


def counted_rate(
    rate: Rate, strata: Strata, counts: Floats, spread: float, products: Any = None
) -> CountedRate:
    """Return rates of one rule by subgroup with 95 % intervals for new rows.

    The interval is that of Clopper and Pearson for a share of n rows with values at the ends of the range.
    With this n the share varies as much as the mean of the counted rows.

    Parameters
    ----------
    rate : Rate
        The rate.
    strata : Strata
        The strata of the selection data; S is their number.
    counts : ndarray of shape (W, A)
        The confusion counts of the rule by stratum and action. A is the number of actions. W is S, or 2 S if
        the rows have costs, which then follow the counts.
    spread : float
        Standard deviation of a rate under a refit, as a share of its range: 0 if the counted models answer.
        The overall error and the overall cost do not vary. The arms of Clopper–Pearson intervals are
        lengthened by it in quadrature. NaN if no interval is right. Means of given costs have none.
    products : sparse array of shape (S × A, S × A), optional
        The `Counts.products` of the answers. By default weights do not go with the answers.
    """
    # A rate is a share of the range between the smallest and the largest value of a row. Without rows any
    # share will do: the result is NaN.
    terms = rate.terms(strata)
    values = terms.values(counts)
    width = max(terms.high - terms.low, TINY)
    share = np.nan_to_num((values - terms.low) / width).clip(0.0, 1.0)

    # The effective rows of a subgroup: its squared weight over that of one row, by stratum.
    n_strata = len(strata.mass)
    rows = terms.rows(strata, counts)

    # The variance of Σ t / Σ b is that of the mean of t − p b, over the squared mean of b (delta method).
    residual = terms.beyond(terms.low + width * share)[:, :n_strata]
    total = np.maximum(np.tensordot(terms.bottom, counts), TINY)
    squares = np.tensordot(residual**2, counts[:n_strata])
    # It is larger if the weights of rows, or the sizes of clusters, go with the answers.
    if products is not None:
        # The sum over rows or clusters of (Σ w t)², in the units of ``squares``: Σ w t² of equal rows.
        each = residual.reshape(len(rows), -1)
        squares = np.maximum(squares, rows / total * np.sum(each @ products * each, axis=1))
    # The residual is over the mass. The variance of one effective row, as a share of the range:
    variance = squares * terms.mass**2 / total / width**2
    # One more row has the largest possible variance: values may vary more on new rows.
    largest = share * (1.0 - share)
    variance = (rows * variance + largest) / (rows + 1.0)

    # A share of so many rows at the ends of the range varies as much. A refit lengthens the arms.
    n = rows * (largest + TINY) / (variance + TINY)
    arms = np.array(clopper_pearson_interval(share, n)) - share
    if rate.by is None and rate.kind in ("error", "cost"):
        spread *= 0.0  # NaN stays
    arms = np.hypot(arms, NORMAL_975 * spread)
    ends = (share + np.array([[-1.0], [1.0]]) * arms).clip(0.0, 1.0)
    shown = (rows >= ROWS_OF_INTERVAL) & ("costs" not in rate.needs)
    low, high = np.where(shown, terms.low + width * ends, np.nan)
    errors = np.where(np.isnan(values), 0.0, width * arms.mean(axis=0) / NORMAL_975)
    return CountedRate(terms.names, values, low, high, rows, OVERDISPERSION * errors)


def compared(limit: Limit, counted: CountedRate) -> tuple[float, float, float]:
    """Return the gap or ratio of counted rates, and the ends of its interval; NaN if they are unknown.

    Unknown is a gap or ratio that keeps the limit, if a subgroup without rows may break it.
    """
    value = limit.value(counted.values)
    if np.isnan(counted.values).any() and limit.keeps(value, limit.bound):
        value = np.nan
    if not np.isfinite(counted.low).all():
        return value, np.nan, np.nan
    return value, *limit.interval(counted.low, counted.high)


@frozen_value
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
        95 % interval for the rate of this rule on new rows; NaN without one: of few rows, of rows that
        trained the models, and where the selection finds favourable rows.
    rows : float
        Effective number of rows behind the rate; NaN for a gap or a ratio.
    bound : float
        Bound for this subgroup; NaN without one.
    met : bool or None
        Whether the value satisfies the bound; None without a bound or a value.
    limit : str
        The limit as text; empty for the objective.
    sense : {"≤", "≥", ""}
        Direction of the bound.
    in_percent : bool
        Whether numbers are printed in percent, as a limit was stated.
    """

    rate: str
    subgroup: Any
    value: float
    low: float
    high: float
    rows: float
    bound: float
    met: bool | None
    limit: str = ""
    sense: str = ""
    in_percent: bool = False

    @property
    def texts(self) -> list[str]:
        """The cells of `HEADINGS`; numbers have as many digits as the rows support."""
        rows = np.nan_to_num(self.rows)
        words = partial(rate_words, n_rows=rows, in_percent=self.in_percent)
        limit = met = interval = ""
        if not np.isnan(self.bound):
            limit = f"{self.sense} {stated_words(self.bound, in_percent=self.in_percent)}"
            met = {True: "yes", False: "NO", None: NO_ROWS}[self.met]
        if not np.isnan(self.low):
            low = words(self.low, above=False).removesuffix(" %")
            interval = f"{low} to {words(self.high, above=True)}"
        return [
            self.rate,
            "all" if self.subgroup is None else unit_name(self.subgroup),
            words(self.value, beside=self.bound),
            interval,
            "" if np.isnan(self.rows) else f"{self.rows:,.0f}",
            limit,
            met,
        ]


@frozen_value
class RateTable:
    """Rates by subgroup. Iterate over the lines, or print the table; ``pandas.DataFrame(list(table))``.

    Parameters
    ----------
    lines : tuple of RateLine
        One for each rate of each subgroup.
    words : str
        Description of the rows.
    """

    lines: tuple[RateLine, ...]
    words: str

    @classmethod
    def counted(
        cls,
        stated: Sequence[Rate | Limit],
        strata: Strata,
        counts: Floats,
        words: str,
        *,
        spread: Callable[[Rate], float] = lambda rate: 0.0,
        products: Any = None,
    ) -> Self:
        """Return the table of a rule from its confusion counts, shape (W, A).

        Parameters
        ----------
        stated : list of Rate or Limit
            Rates without a limit, and limits.
        strata, counts, products
            As in `counted_rate`.
        words : str
            As in the class.
        spread : callable, optional
            Returns the spread of a rate, as in `counted_rate`. By default the counted models answer.
        """
        statistics = as_statistics(stated)
        in_percent = any(isinstance(each, Limit) and each.in_percent for each in statistics)
        lines = []
        for statistic in statistics:
            rate = statistic.rate
            counted = counted_rate(rate, strata, counts, spread(rate), products)
            names, *columns, _ = counted
            bounds = np.full(len(names), np.nan)
            limit = sense = ""
            percent = in_percent and rate.quantity == "share"
            if isinstance(statistic, Limit):
                limit = str(statistic)
                sense = statistic.sense
                percent = statistic.in_percent
                if not statistic.compares:
                    bounds = statistic.levels(names)
            numbers = map(np.ndarray.tolist, [*columns, bounds])
            subgroups = [*zip(names, *numbers, strict=True)]
            if statistic.compares:
                subgroups.append(
                    (statistic.form, *compared(statistic, counted), np.nan, statistic.bound)
                )
            lines += [
                RateLine(
                    str(rate),
                    subgroup,
                    value,
                    low,
                    high,
                    n,
                    bound,
                    statistic.keeps(value, bound),
                    limit,
                    sense,
                    percent,
                )
                for subgroup, value, low, high, n, bound in subgroups
            ]
        return cls(tuple(lines), words)

    def __iter__(self) -> Iterator[RateLine]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    def to_dict(self) -> Document:
        """Return the table as plain types, for JSON; NaN becomes None."""
        return {
            "words": self.words,
            "lines": [
                {name: None if value != value else value for name, value in vars(line).items()}
                for line in self.lines
            ],
        }

    def limit_lines(self) -> list[LimitLine]:
        """Return the lines with a bound and their verdicts, for drawings and short tables."""
        lines = []
        for line in self.lines:
            if np.isnan(line.bound):
                continue
            rate, unit, numbers, interval, rows, limit, _ = line.texts
            if interval:
                numbers += f", {INTERVAL} {interval}"
            elif rows:
                numbers += f" of {rows} rows"
            verdict = {True: KEPT, False: "broken on these rows", None: NO_ROWS}[line.met]
            value, low, high = (
                None if np.isnan(each) else each for each in (line.value, line.low, line.high)
            )
            name = f"{rate}: {unit}"
            lines.append(
                LimitLine(verdict, line.met, name, limit, numbers, value, low, high, line.bound)
            )
        return lines

    @property
    def broken(self) -> str:
        """The limits that do not hold, each with the subgroups and their rates."""
        reached: dict[str, list[str]] = {}
        for line in self.lines:
            if line.met is False:
                _, subgroup, estimate, *_ = line.texts
                reached.setdefault(line.limit, []).append(f"{subgroup}: {estimate}")
        return "; ".join(f"{limit} ({', '.join(each)})" for limit, each in reached.items())

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the headings and the lines as text; columns without content are left out."""
        return filled_columns(HEADINGS, [line.texts for line in self.lines])

    def __str__(self) -> str:
        heads, cells = self.cells()
        table = text_table(heads, cells, left=range(len(HEADINGS)))
        note = INTERVALS if INTERVAL in heads else ""
        return f"On {self.words}:\n{table}\n{SELECTED}{note}"

    def _repr_html_(self) -> str:
        return html_table(*self.cells(), caption=f"On {self.words}")
