"""Counted rates with intervals for new rows, the probability of keeping limits there, and a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tailboost.core.array_types import Axes, Floats, Mask
from tailboost.core.drawing import display
from tailboost.core.html import html_table, text_table
from tailboost.core.limit_lines import BROKEN, KEPT, NO_ROWS, LimitLine
from tailboost.rates import GAP, ROUNDING, Answered, Limit, Rate, Strata
from tailboost.rates import Terms as RateTerms
from tailboost.rates.bounds import clopper_pearson_interval
from tailboost.rows.subgroups import unit_name
from tailboost.selection.data import quotient
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


# Standard deviation between the rates of a subgroup under models of folds and under their refit, as a share
# of the range of the rate. On 33 tables (benchmarks/quality.py) .94 of the class errors on test rows were
# inside with .015, .86 with 0 and .96 with .02, at widths of .11, .09 and .12; .017 of the errors were above.
REFIT = 0.015
# Rates of fewer effective rows have no interval. At 10 rows its width is .6 of the range.
LEAST_ROWS = 10
# Variance of rates on new rows about the counted ones, in binomial variances: 1 is the noise of the counts,
# .25 the selection on the same rows.
OVERDISPERSION = 1.25
# Draws of the confusion counts: the standard error of a probability is at most .011.
DRAWS = 2_000
# Normal numbers drawn at once.
BLOCK = 2_000_000
# The most subgroups of which the worst has an interval: each end misses in 2.5 %, so two of them in 5 %.
MOST_COMPARED = 2
# The most subgroups named in a sentence.
FEW = 4


def effective_rows(terms: RateTerms, strata: Strata, counts: Floats) -> Floats:
    """Return the effective number of rows behind each rate, ``(Σ w)² / Σ w²``, shape (m,)."""
    n_strata = len(strata.mass)
    among = (terms.bottom[:, :n_strata] * counts[:n_strata]).sum(axis=2)
    squares = (among * _row_weight(strata)).sum(axis=1)
    return quotient(among.sum(axis=1) ** 2, squares)


def _row_weight(strata: Strata) -> Floats:
    """Return the mass of one effective row of each stratum, shape (S,); 0 of a stratum without rows."""
    return quotient(strata.mass, strata.size)


def refit_spread(rate: Rate, strata: Strata, spread: float = REFIT) -> float:
    """Return the standard deviation of a rate under a refit, ``spread`` as a share of its range.

    With no more than the usual spread, the overall error and the overall cost do not vary.
    """
    if rate.by is None and rate.kind in ("error", "cost") and spread <= REFIT:
        return 0.0
    least, most = rate.range(strata)
    return spread * (most - least)


def fold_spread(rate: Rate, strata: Strata, folds: Sequence[Floats]) -> float:
    """Return the standard deviation of rates under a refit, from the confusion counts of each fold.

    Between models of F folds the rates of a subgroup have a variance σ² in excess of the binomial one. It is
    estimated by moments over all subgroups and rules. The rate of one more model differs from their mean with
    variance σ² (1 + 1/F). The result is at least `REFIT`. For each rule, ``folds`` has the out-of-fold
    confusion counts by fold, shape (F, S, A).
    """
    terms = rate.terms(strata)
    n_strata = len(strata.mass)
    weight = _row_weight(strata)
    top, bottom = (of[:, :n_strata] for of in (terms.top, terms.bottom))
    beyond = slope = 0.0
    for counts in folds:
        among = np.einsum("msa,fsa->fms", bottom, counts)
        mass = among.sum(axis=2)
        squares = among @ weight
        n = quotient(mass**2, squares)
        values = np.einsum("msa,fsa->fm", top, counts) / np.where(mass > 0, mass, 1.0)
        total = n.sum(axis=0)
        mean = (n * values).sum(axis=0) / np.where(total > 0, total, 1.0)
        binomial = np.maximum((n > 0).sum(axis=0) - 1, 0) * mean * (1.0 - mean)
        beyond += float(((n * (values - mean) ** 2).sum(axis=0) - binomial).sum())
        slope += float((total - (n**2).sum(axis=0) / np.where(total > 0, total, 1.0)).sum())
    if slope > 0:
        variance = max(0.0, beyond / slope)
    else:
        variance = 0.0
    if len(folds):
        return max(REFIT, float(np.sqrt(variance * (1.0 + 1.0 / len(folds[0])))))
    return REFIT


def binomial_arms(
    share: Floats, rows: Floats, spread: float = 0.0, confidence: float = 0.95
) -> tuple[Floats, Floats]:
    """Return the ends of Clopper–Pearson intervals of shares, shape (m,) each.

    The shares are in [0, 1], and ``rows`` are effective numbers of rows. The arms are lengthened in
    quadrature by a further standard deviation, ``spread``. The confidence is that of each interval.
    """
    share = np.clip(share, 0.0, 1.0)
    low, high = clopper_pearson_interval(share, rows, confidence)
    more = SPREAD * spread
    return (
        np.maximum(share - np.hypot(share - low, more), 0.0),
        np.minimum(share + np.hypot(high - share, more), 1.0),
    )


@dataclass(frozen=True, eq=False)
class CountedRate:
    """Rates of one rule by subgroup, with 95 % intervals for new rows."""

    terms: RateTerms
    values: Floats  # shape (m,): the rates; NaN without rows
    rows: Floats  # shape (m,): effective rows behind each rate
    # Shape (m,): rows of a binomial rate with the same variance; differs from `rows` for costs alone.
    binomial_rows: Floats
    range: tuple[float, float]  # of the values
    spread: float  # standard deviation under a refit, as a share of the range
    reasons: dict[str, Mask]  # why subgroups have no interval, shape (m,) each

    @classmethod
    def of(
        cls, rate: Rate, strata: Strata, counts: Floats, refit: bool, spread: float = REFIT
    ) -> CountedRate:
        """Return the rates of a rule from its confusion counts, shape (W, A).

        ``refit`` tells whether refits answer instead of the counted models. ``spread`` is the standard
        deviation of a rate under a refit, as a share of its range; NaN if it is not known.
        """
        terms, (least, most) = rate.terms(strata), rate.range(strata)
        values = terms.values(counts)
        rows = effective_rows(terms, strata, counts)
        width = max(most - least, 1e-300)
        binomial_rows = rows
        if rate.matrix is not None:
            p = (np.nan_to_num(values, nan=least) - least) / width
            squares = _second_moments(terms, len(strata.mass), counts, least) / width**2
            largest = p * (1.0 - p)
            # One more row has the largest possible variance, because costs may vary more on new rows.
            variance = (rows * np.maximum(squares - p**2, 0.0) + largest) / (rows + 1.0)
            binomial_rows = rows * quotient(largest, variance, 1.0)
        elif rate.is_weighted:
            binomial_rows = rows * _ratio_efficiency(terms, len(strata.mass), counts, values)
        unknown = refit and bool(np.isnan(spread))
        decided = decided_rates(terms, strata, counts)
        if refit:
            spread = refit_spread(rate, strata, spread) / width
        else:
            spread = 0.0
        reasons = {
            "its costs on new rows have no known range": np.full(len(values), rate.needs_costs),
            "refitted models answer, and one held-out part does not show how they differ":
                np.full(len(values), unknown),
            f"fewer than {LEAST_ROWS} rows": rows < LEAST_ROWS,
            "the rule gives an answer to all rows or to none, which decides the rate": decided,
        }  # fmt: skip
        return cls(terms, values, rows, binomial_rows, (least, most), spread, reasons)

    @property
    def known(self) -> Mask:
        """Which subgroups have an interval, shape (m,)."""
        known: Mask = ~np.isnan(self.values) & ~np.any(list(self.reasons.values()), axis=0)
        return known

    def ends(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Return the ends of the intervals, shape (m,) each; NaN without an interval."""
        (least, most), known = self.range, self.known
        ends = np.full((2, len(known)), np.nan)
        if known.any():
            p = (self.values[known] - least) / max(most - least, 1e-300)
            arms = binomial_arms(p, self.binomial_rows[known], self.spread, confidence)
            ends[:, known] = least + (most - least) * np.array(arms)
        return ends[0], ends[1]

    def compared(self, limit: Limit) -> tuple[float, float]:
        """Return the interval of a gap or ratio over all pairs of subgroups; NaN if a subgroup has none.

        The arms of two rates are added in quadrature, for a ratio on the log scale [1]_. The upper end of a
        gap is the highest of all pairs, which include the pair of the true gap. The lower end is the highest
        of all pairs at the level of Bonferroni, because all intervals have to hold.

        References
        ----------
        .. [1] G. Y. Zou and A. Donner, "Construction of confidence limits about effect measures: a general
           approach", Statistics in Medicine 27, 2008.
        """
        counted = ~np.isnan(self.values)
        m = int(counted.sum())
        if m < 2 or (counted & ~self.known).any():
            return float("nan"), float("nan")
        ends = (self.values, *self.ends(), *self.ends(1.0 - 0.05 / (m * (m - 1) / 2)))
        rate, low, high, lowest, highest = (
            of[counted] if limit.form == GAP else np.log(np.maximum(of[counted], 1e-300))
            for of in ends
        )
        apart = rate[:, None] - rate
        more = np.hypot((high - rate)[:, None], rate - low)
        less = np.hypot((rate - lowest)[:, None], highest - rate)
        least = max(0.0, float((apart - less).max()))
        most = float((apart + more)[~np.eye(m, dtype=bool)].max())
        if limit.form == GAP:
            return least, min(most, self.range[1] - self.range[0])
        return float(np.exp(-most)), float(np.exp(-least))

    def lacking(self, rate: Rate) -> list[str]:
        """Return why subgroups have no interval, a sentence for each reason."""
        sentences = []
        for reason, concerned in self.reasons.items():
            names = [
                self.terms.names[i] for i in np.flatnonzero(concerned & ~np.isnan(self.values))
            ]
            some = ", ".join(unit_name(name) for name in names[:FEW] if name is not None)
            if len(names) > FEW:
                more = f" and {len(names) - FEW} more"
            else:
                more = ""
            if names:
                sentences.append(
                    f"no interval for {rate}{f' of {some}{more}' if some else ''}: {reason}"
                )
        return sentences


def _second_moments(terms: RateTerms, n_strata: int, counts: Floats, least: float) -> Floats:
    """Return the mean square of costs less ``least``, for a matrix of costs, shape (m,)."""
    squares = (terms.top[:, :n_strata] - least) ** 2
    among = terms.bottom[:, :n_strata] * counts[:n_strata]
    total = among.sum(axis=(1, 2))
    return (among * squares).sum(axis=(1, 2)) / np.where(total > 0, total, 1.0)


def _ratio_efficiency(
    terms: RateTerms, n_strata: int, counted: Floats, values: Floats
) -> Floats:
    """Return the variance p (1 − p) of a share over that of a ratio with weighted rows, shape (m,).

    The variance of Σ t / Σ b is that of the mean of t − p b over the squared mean of b (delta method).
    """
    top = terms.top[:, :n_strata]
    bottom = terms.bottom[:, :n_strata]
    counts = counted[:n_strata]
    p = np.nan_to_num(values)
    squares = (counts * (top - p[:, None, None] * bottom) ** 2).sum(axis=(1, 2))
    weight = (counts * bottom).sum(axis=(1, 2))
    # `effective_rows` counts a row with denominator b as b rows.
    return quotient(p * (1.0 - p) * weight, squares, 1.0)


def decided_rates(terms: RateTerms, strata: Strata, counts: Floats) -> Mask:
    """Return the rates that no new row can change, because some actions are never taken, shape (m,)."""
    n_strata = len(strata.mass)
    used = (counts[:n_strata].sum(axis=0) > 0) & (strata.mass > 0)[:, None]
    inside = (terms.bottom[:, :n_strata] > 0) & used
    top = terms.top[:, :n_strata]
    largest = np.where(inside, top, -np.inf).max(axis=(1, 2))
    decided: Mask = inside.any(axis=(1, 2)) & (
        largest == np.where(inside, top, np.inf).min(axis=(1, 2))
    )
    return decided


# -- the probability that limits hold --------------------------------------------------------------------


@dataclass(frozen=True)
class LimitsOutlook:
    """Probability of keeping all limits on new rows, an estimate from the selection data.

    For gaps and ratios it is too small.

    Parameters
    ----------
    probability : float
        Fraction of simulated confusion counts within all limits.
    confidence : float
        The asked confidence.
    fewest : tuple of (str, float) or None
        The limited subgroup with the fewest effective rows, and their number.
    """

    probability: float
    confidence: float
    fewest: tuple[str, float] | None

    @property
    def sentence(self) -> str:
        """The reached confidence as a sentence without a full stop; empty if it is not reached."""
        if self.probability < self.confidence:
            return ""
        return (
            f"on new rows all limits hold together with a probability of at least {self.confidence:g}, by an "
            "estimate from the confusion counts of this rule"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the outlook as plain types, for JSON."""
        return {
            "probability": self.probability,
            "confidence": self.confidence,
            "fewest": None if self.fewest is None else list(self.fewest),
        }


def outlook(
    limits: Sequence[Limit],
    strata: Strata,
    counts: Floats,
    refit: bool,
    confidence: float = 0.9,
    spread: float = REFIT,
) -> LimitsOutlook | None:
    """Return the probability of keeping all limits on new rows of the same distribution, by simulation.

    Each draw adds normal noise of 1.25 Poisson variances to the confusion counts of each stratum and action.
    So limits on the same rows are satisfied or violated together. If refitted models answer, each rate of a
    subgroup also has the noise of a refit. A shift common to all subgroups does not change gaps and ratios.
    ``refit`` and ``spread`` are those of `CountedRate.of`. The result is None without limits, for costs of
    rows, and under a refit of unknown spread.
    """
    if (
        not limits
        or any(limit.rate.needs_costs for limit in limits)
        or (refit and np.isnan(spread))
    ):
        return None
    excess = np.stack(_excesses(limits, strata, counts, spread if refit else 0.0), axis=1)
    holds = (excess <= ROUNDING).all(axis=1)
    sizes = []
    for limit in limits:
        terms = limit.rate.terms(strata)
        rows = effective_rows(terms, strata, counts)
        if limit.compares:
            bounded = np.ones(len(rows), bool)
        else:
            bounded = ~np.isnan(limit.bounds(terms.names))
        names = [str(limit.rate) if name is None else unit_name(name) for name in terms.names]
        sizes += [(rows[i], names[i]) for i in np.flatnonzero(bounded & (rows > 0))]
    fewest = min(
        ((name, float(n)) for n, name in sizes), key=lambda pair: pair[::-1], default=None
    )
    return LimitsOutlook(float(holds.mean()), confidence, fewest)


def _excesses(
    limits: Sequence[Limit], strata: Strata, counts: Floats, spread: float
) -> list[Floats]:
    """Return the violation of each limit in each draw, negative if it has room, shape (DRAWS,)."""
    n_strata = len(strata.mass)
    used = (counts[:n_strata].sum(axis=0) > 0) & (strata.mass > 0)[:, None]
    cells = np.flatnonzero(used)
    flat = counts[:n_strata].ravel()[cells]
    # A cell without a count is as uncertain as one with a pseudo-count; pseudo-counts of a stratum sum to 1.
    pseudo = 1.0 / max(int(used.any(axis=0).sum()) - 1, 1)
    weight = np.repeat(_row_weight(strata), counts.shape[1])[cells]
    deviation = np.sqrt(OVERDISPERSION * weight * (np.maximum(flat, 0.0) + pseudo * weight))
    families = [(limit, limit.rate.terms(strata)) for limit in limits]
    distances: list[list[Floats]] = [[] for _ in limits]
    random = np.random.default_rng(0)
    step = max(1, min(DRAWS, BLOCK // max(len(cells), 1)))
    for first in range(0, DRAWS, step):
        size = min(step, DRAWS - first)
        drawn = flat + deviation * random.standard_normal((size, len(cells)))
        for place, (limit, terms) in zip(distances, families, strict=True):
            top, bottom = (
                drawn @ of[:, :n_strata].reshape(len(terms.names), -1)[:, cells].T
                for of in (terms.top, terms.bottom)
            )
            values = quotient(top, bottom, np.nan)
            if spread > REFIT or (spread > 0 and not limit.compares):
                noise = random.standard_normal(values.shape)
                values = values + refit_spread(limit.rate, strata, spread) * noise
            place.append(limit.distance(terms.names, values))
    return [np.concatenate(of) for of in distances]


# -- the table -----------------------------------------------------------------------------------------------


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
        if self.subgroup is None:
            unit = "all rows"
        else:
            unit = unit_name(self.subgroup)
        value, low, high = (
            None if end != end else float(end) for end in (self.value, self.low, self.high)
        )
        words = _text(self.value, ".4f", "–")
        if low is not None:
            words += f", 95 % interval {low:.4f} to {high:.4f}"
        limit = f"{self.sense} {self.bound:g}"
        name = f"{self.rate}: {unit}"
        return LimitLine(
            verdict, self.met, name, limit, words, value, low, high, float(self.bound)
        )


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
        Probability of keeping the limits on new rows; None without ``confidence``, or if it is not known.
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
        selected: bool = True,
        refit: bool = False,
        refit_spread: float = REFIT,
        flattered: Callable[[Rate], str] = lambda rate: "",
    ) -> RateTable:
        """Return the table of a rule from its confusion counts, shape (W, A).

        The rates come with their limits. ``words``, ``kind`` and ``selected`` are those of the class,
        ``refit`` and ``refit_spread`` those of `CountedRate.of`. ``flattered`` tells why a rate has no
        interval: the rule was selected where these rows favour it. An empty text is no reason.
        """
        lines = list[RateLine]()
        lacking = list[str]()
        spread = False
        for rate, limit in stated:
            counted = CountedRate.of(rate, strata, counts, refit, refit_spread)
            why = flattered(rate)
            if why:
                counted = replace(counted, reasons={why: np.ones(len(counted.values), bool)})
            lines += rate_lines(rate, limit, counted)
            lacking += counted.lacking(rate)
            spread |= counted.spread > 0
        notes = [*[SELECTED] * selected, *[REFITTED] * spread, *dict.fromkeys(lacking)]
        return cls(tuple(lines), words, tuple(notes), kind, selected=selected)

    def priced(self, prices: Floats) -> RateTable:
        """Return the table with a shadow price of each line, see `Program.shadow_prices`."""
        priced = zip(self.lines, prices.tolist(), strict=True)
        return replace(self, lines=tuple(replace(line, price=price) for line, price in priced))

    def expecting(self, outlook: LimitsOutlook | None) -> RateTable:
        """Return the table with the probability of keeping the limits on new rows."""
        if outlook is None:
            said = ""
        else:
            said = outlook.sentence
        return replace(self, outlook=outlook, notes=(*self.notes, *[said] * bool(said)))

    @classmethod
    def measured(
        cls, stated: Iterable[Rate | Limit], answered: Answered, words: str
    ) -> RateTable:
        """Return the table of rates and limits on answered rows, which ``words`` name."""
        pairs = [(one.rate, one.limit) for one in stated]
        return cls.counted(pairs, answered.strata, answered.counts, words, selected=False)

    def on_fitted_rows(self) -> RateTable:
        """Return the table without intervals, because models were fitted on its rows."""
        lines = tuple(replace(line, low=float("nan"), high=float("nan")) for line in self.lines)
        return replace(
            self, lines=lines, notes=("no intervals: models were fitted on these rows",)
        )

    def of_rule(self, rule: str) -> RateTable:
        """Return the lines of a rule; a deterministic rule has `predict` alone."""
        lines = [line for line in self.lines if line.rule == rule]
        draws = any(line.rule == "randomised" for line in self.lines)
        return replace(self, lines=tuple(lines) if lines or draws else self.lines)

    def column(self, name: str, rule: str = "predict") -> Floats | None:
        """Return one number of all lines of a rule, shape (m,); None if all are NaN."""
        values = np.array(
            [getattr(line, name) for line in self.of_rule(rule).lines], dtype=np.float64
        )
        if np.isnan(values).all():
            return None
        return values

    def intervals(self, rule: str = "predict") -> Floats | None:
        """Return the intervals of a rule, shape (m, 2); None without any."""
        low = self.column("low", rule)
        high = self.column("high", rule)
        if low is None or high is None:
            return None
        return np.column_stack([low, high])

    @property
    def worst(self) -> tuple[Any, float, tuple[float, float] | None] | None:
        """Name, error and interval of the subgroup with the largest error of `predict`; None without any.

        The interval is None with more than two subgroups. The largest of many estimates is too large, so that
        the interval of this subgroup would lie above its true error too often.
        """
        lines = self.of_rule("predict").lines
        line = max(lines, key=lambda line: np.nan_to_num(line.value, nan=-1.0), default=None)
        if line is None or np.isnan(line.value):
            return None
        known = len(lines) <= MOST_COMPARED and not np.isnan(line.low)
        return line.subgroup, line.value, (line.low, line.high) if known else None

    def __iter__(self) -> Iterator[RateLine]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def met(self) -> bool | None:
        """Whether all limits hold on these rows; None without limits."""
        said = [line.met for line in self.lines if line.met is not None]
        if said:
            return all(said)
        return None

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the lines as dicts, for ``pandas.DataFrame``."""
        return [asdict(line) for line in self.lines]

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain types, for JSON; NaN becomes None."""
        lines = [
            {k: None if v != v else v for k, v in line.items()} for line in self.to_dicts()
        ]
        if self.outlook is None:
            likely = None
        else:
            likely = self.outlook.to_dict()
        return asdict(replace(self, lines=(), outlook=None)) | {
            "lines": lines,
            "outlook": likely,
        }

    @property
    def verdict(self) -> str:
        """A sentence: whether the limits hold on these rows, and how likely on new rows."""
        limited = [line for line in self.lines if line.met is not None]
        if not limited:
            return "There is no limit among these rates."
        broken = _named(line for line in limited if not line.met)
        if broken:
            return f"Not kept on these rows: {broken}."
        if self.outlook is None:
            likely = ""
        else:
            likely = self.outlook.sentence
        if likely:
            more = f" {likely[:1].upper()}{likely[1:]}."
        else:
            more = ""
        return f"On these rows all limits are kept.{more}"

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the headings and the lines as text."""
        between = any(not np.isnan(line.low) for line in self.lines)
        limited = any(line.limit for line in self.lines)
        priced = any(line.price > 0 for line in self.lines)
        drawn = bool(self.kind) and len({line.rule for line in self.lines}) > 1
        here = " on these rows" * self.selected
        if self.kind:
            digits = 3
        else:
            digits = 4
        if self.kind:
            head = [self.kind, "rows"]
        else:
            head = ["rate", "subgroup"]
        head += [*["error of"] * drawn, "estimate" if self.selected else "on these rows"]
        head += (
            ["95 % interval"] * between
            + ["limit", f"kept{here}"] * limited
            + ["price"] * priced
        )
        rows = []
        for line in self._shown:
            if line.subgroup is None:
                unit = "all"
            else:
                unit = unit_name(line.subgroup)
            if self.kind:
                row = [unit, f"{line.rows:,.0f}"]
            else:
                row = [line.rate, unit]
            row += [RULES[line.rule]] * drawn + [_text(line.value, f".{digits}f", "–")]
            ends = [
                _text(end, f".{2 if self.kind else 4}f", "–") for end in (line.low, line.high)
            ]
            row += ["–" if np.isnan(line.low) else " to ".join(ends)] * between
            if np.isnan(line.bound):
                bound = ""
            else:
                bound = f"{line.sense} {line.bound:g}"
            row += [bound, {True: "yes", False: "NO", None: ""}[line.met]] * limited
            rows.append(row + [_text(line.price, ".3g", "")] * priced)
        return head, rows

    @property
    def _shown(self) -> Sequence[RateLine]:
        """The printed lines: of many errors the furthest above their bounds."""
        if not self.kind or len(self.lines) <= MOST_LINES:
            return self.lines
        beyond = [np.nan_to_num(x.value, nan=-1.0) - np.nan_to_num(x.bound) for x in self.lines]
        return [
            self.lines[i] for i in np.argsort(beyond, kind="stable")[: -MOST_LINES - 1 : -1]
        ]

    @property
    def caption(self) -> str:
        """The rates and the rows, in words."""
        more = len(self.lines) - len(self._shown)
        if more:
            hidden = f"; {more} more are in to_dict()"
        else:
            hidden = ""
        if self.kind:
            return f"error of each {self.kind}, measured on {self.words}{hidden}"
        return f"On {self.words}"

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
        if self.selected:
            words = "estimates"
        else:
            words = "rates"
        return display("LimitsDisplay")(
            self.limit_lines(), name=f"{words} on {self.words}"
        ).plot(ax=ax, **kwargs)

    def __str__(self) -> str:
        return "\n".join(
            [self.text, *(f"{note[:1].upper()}{note[1:]}." for note in self.notes)]
        )

    def _repr_html_(self) -> str:
        return html_table(*self.cells(), caption="; ".join([self.caption, *self.notes]))


def _text(value: float, digits: str, unknown: str) -> str:
    if np.isnan(value):
        return unknown
    return f"{value:{digits}}"


def _named(lines: Iterable[RateLine]) -> str:
    """Return the names of lines, of the first few of many."""
    names = [
        line.limit
        if line.subgroup in (None, "gap", "ratio")
        else f"{line.limit} ({unit_name(line.subgroup)})"
        for line in lines
    ]
    if len(names) > FEW:
        more = f" and {len(names) - FEW} more"
    else:
        more = ""
    return "; ".join(names[:FEW]) + more


def rate_lines(rate: Rate, limit: Limit | None, counted: CountedRate) -> list[RateLine]:
    """Return a line for each subgroup of a counted rate, and one for the gap or ratio of a limit."""
    names = list(counted.terms.names)
    values = counted.values
    low, high = counted.ends()
    if limit is None or limit.compares:
        bounds = np.full(len(values), np.nan)
    else:
        bounds = limit.bounds(names)
    numbers = np.column_stack([values, low, high, counted.rows, bounds]).tolist()
    if limit is None:
        return [
            RateLine(str(rate), name, value, low, high, n, "", bound, None)
            for name, (value, low, high, n, bound) in zip(names, numbers, strict=True)
        ]
    if limit.compares:
        names.append(limit.form)
        ends = counted.compared(limit)
        numbers.append([float(limit.value(values)), *ends, float("nan"), float(limit.bound)])
    lines = []
    for name, (value, low, high, n, bound) in zip(names, numbers, strict=True):
        met = limit.keeps(value, bound)
        of_limit = str(limit), bound, met, limit.sense
        lines.append(RateLine(str(rate), name, value, low, high, n, *of_limit))
    return lines


# Rates of little noise. A gap or ratio is reported as below its noise only if it is so for these rates.
CALM_GAP = 0.1
CALM_RATIO = 0.5


def below_noise(limit: Limit, strata: Strata) -> str | None:
    """Return why so few rows cannot show that a limit holds; None if they can.

    The check needs no predictions. It assumes the least possible noise for the smallest subgroup, or for the
    smallest two subgroups of a gap or ratio.
    """
    if (
        limit.rate.is_ratio or limit.rate.kind == "cost"
    ):  # their rows or their range depend on the predictions
        return None
    terms = limit.terms(strata)
    counts = np.zeros((len(strata.mass), strata.n_actions))
    counts[:, 0] = strata.mass
    sizes = effective_rows(
        terms,
        strata,
        counts if strata.mean_costs is None else np.concatenate([counts, 0 * counts]),
    )
    there = np.flatnonzero(sizes > 0)
    order = there[np.argsort(sizes[there], kind="stable")]
    units = ["the whole" if name is None else unit_name(name) for name in terms.names]
    if limit.compares:
        if len(order) < 2:
            absent = [units[i] for i in np.flatnonzero(sizes <= 0)]
            if absent:
                more = f"; {', '.join(absent[:FEW])} has no rows"
            else:
                more = ""
            return f"{limit}: only one subgroup has rows, so there is nothing to compare{more}"
        gap = limit.form == "gap"
        p, allowed = (CALM_GAP, limit.bound) if gap else (CALM_RATIO, 1.0 - limit.bound)
        if gap:
            variance = p * (1 - p)
        else:
            variance = (1 - p) / p
        noise = SPREAD * np.sqrt(variance * (1 / sizes[order[:2]]).sum())
        if noise <= allowed:
            return None
        names = [f"{units[i]} has {sizes[i]:,.0f} rows" for i in order[:2]]
        return (
            f"{limit}: {' and '.join(names)}, between which the {limit.form} is not known to better than "
            f"± {noise:.2g} (95 %, if the rates are {p:g}); on fresh rows it may well be broken"
        )
    bounds = limit.bounds(terms.names)
    lacking = [units[i] for i in np.flatnonzero((sizes <= 0) & ~np.isnan(bounds))]
    if lacking:
        return (
            f"{limit}: {', '.join(lacking[:FEW])} has no rows, so that nothing is known of it"
        )
    for i in order:
        if limit.from_above:
            room = bounds[i]
        else:
            room = 1.0 - bounds[i]
        seen = 1.0 - 0.05 ** (1.0 / sizes[i])
        if not np.isnan(room) and seen > room > 0:
            if limit.from_above:
                reached = seen
            else:
                reached = 1.0 - seen
            best, sign = (0, "≤") if limit.from_above else (1, "≥")
            return (
                f"{limit}: {units[i]} has {sizes[i]:,.0f} rows; even an estimate of {best} there shows only "
                f"{sign} {reached:.2g} (95 %)"
            )
    return None
