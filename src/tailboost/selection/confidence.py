"""Intervals of counted rates, and the probability that limits hold on new rows.

Both hold for the counted rule on new rows of the same distribution, and need its confusion counts alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats, Mask
from tailboost.core.subgroups import unit_name
from tailboost.rates import GAP, ROUNDING, Limit, Rate, Strata
from tailboost.rates import Terms as RateTerms
from tailboost.rates.bounds import clopper_pearson_interval
from tailboost.selection.problem import SPREAD
from tailboost.selection.program import Program
from tailboost.selection.selecting import Selection

# Standard deviation between the rates of a subgroup under models of folds and under their refit, as a share
# of the range of the rate. On 33 tables (benchmarks/quality.py) .94 of the class errors on test rows were
# inside with .015, .86 with 0 and .96 with .02, at widths of .11, .09 and .12; .017 of the errors were above.
REFIT = 0.015
# Rates of fewer effective rows have no interval. At 10 rows its width is .6 of the range.
LEAST_ROWS = 10
# Variance of rates on new rows about the counted ones, in binomial variances: 1 is the noise of the counts,
# .25 the selection on the same rows. On 98 problems the mean probability of the limits was .48, and .53 held.
# With confidence .9 it was .71, and .72 held; among problems that reached .9 it was .94, and .93 held.
OVERDISPERSION = 1.25
# Draws of the confusion counts: the standard error of a probability is at most .011.
DRAWS = 2_000
# Normal numbers drawn at once.
BLOCK = 2_000_000
# The most subgroups named in a sentence.
FEW = 4


def effective_rows(terms: RateTerms, strata: Strata, counts: Floats) -> Floats:
    """Return the effective number of rows behind each rate, ``(Σ w)² / Σ w²``, shape (m,)."""
    n_strata = len(strata.mass)
    among = (terms.bottom[:, :n_strata] * counts[:n_strata]).sum(axis=2)
    squares = (among * _row_weight(strata)).sum(axis=1)
    there = squares > 0
    return np.where(there, among.sum(axis=1) ** 2 / np.where(there, squares, 1.0), 0.0)


def _row_weight(strata: Strata) -> Floats:
    """Return the mass of one effective row of each stratum, shape (S,); 0 of a stratum without rows."""
    there = (strata.size > 0) & (strata.mass > 0)
    return np.where(there, strata.mass / np.where(there, strata.size, 1.0), 0.0)


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
    terms, n_strata, weight = rate.terms(strata), len(strata.mass), _row_weight(strata)
    top, bottom = (of[:, :n_strata] for of in (terms.top, terms.bottom))
    beyond = slope = 0.0
    for counts in folds:
        among = np.einsum("msa,fsa->fms", bottom, counts)
        mass, squares = among.sum(axis=2), among @ weight
        n = np.where(squares > 0, mass**2 / np.where(squares > 0, squares, 1.0), 0.0)
        values = np.einsum("msa,fsa->fm", top, counts) / np.where(mass > 0, mass, 1.0)
        total = n.sum(axis=0)
        mean = (n * values).sum(axis=0) / np.where(total > 0, total, 1.0)
        binomial = np.maximum((n > 0).sum(axis=0) - 1, 0) * mean * (1.0 - mean)
        beyond += float(((n * (values - mean) ** 2).sum(axis=0) - binomial).sum())
        slope += float((total - (n**2).sum(axis=0) / np.where(total > 0, total, 1.0)).sum())
    variance = max(0.0, beyond / slope) if slope > 0 else 0.0
    return max(REFIT, float(np.sqrt(variance * (1.0 + 1.0 / len(folds[0]))))) if len(folds) else REFIT


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
        values, rows = terms.values(counts), effective_rows(terms, strata, counts)
        width, binomial_rows = max(most - least, 1e-300), rows
        if rate.matrix is not None:
            p = (np.nan_to_num(values, nan=least) - least) / width
            squares, largest = _second_moments(rate, strata, terms, counts, least) / width**2, p * (1.0 - p)
            # One more row has the largest possible variance, because costs may vary more on new rows.
            variance = (rows * np.maximum(squares - p**2, 0.0) + largest) / (rows + 1.0)
            there = variance > 0
            binomial_rows = rows * np.where(there, largest / np.where(there, variance, 1.0), 1.0)
        elif rate.is_weighted:
            binomial_rows = rows * _ratio_efficiency(terms, len(strata.mass), counts, values)
        unknown, decided = refit and bool(np.isnan(spread)), _decided(terms, strata, counts)
        spread = refit_spread(rate, strata, spread) / width if refit else 0.0
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
            of[counted] if limit.form == GAP else np.log(np.maximum(of[counted], 1e-300)) for of in ends
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
            names = [self.terms.names[i] for i in np.flatnonzero(concerned & ~np.isnan(self.values))]
            some = ", ".join(unit_name(name) for name in names[:FEW] if name is not None)
            more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
            if names:
                sentences.append(f"no interval for {rate}{f' of {some}{more}' if some else ''}: {reason}")
        return sentences


def _second_moments(rate: Rate, strata: Strata, terms: RateTerms, counts: Floats, least: float) -> Floats:
    """Return the mean square of costs less ``least``, for a matrix of costs, shape (m,)."""
    n_strata = len(strata.mass)
    squares = (rate.by_stratum(strata)[0] - least) ** 2
    among = terms.bottom[:, :n_strata] * counts[:n_strata]
    total = among.sum(axis=(1, 2))
    return (among * squares).sum(axis=(1, 2)) / np.where(total > 0, total, 1.0)


def _ratio_efficiency(terms: RateTerms, n_strata: int, counted: Floats, values: Floats) -> Floats:
    """Return the variance p (1 − p) of a share over that of a ratio with weighted rows, shape (m,).

    The variance of Σ t / Σ b is that of the mean of t − p b over the squared mean of b (delta method).
    """
    top, bottom, counts = terms.top[:, :n_strata], terms.bottom[:, :n_strata], counted[:n_strata]
    p = np.nan_to_num(values)
    squares = (counts * (top - p[:, None, None] * bottom) ** 2).sum(axis=(1, 2))
    weight = (counts * bottom).sum(axis=(1, 2))
    # `effective_rows` counts a row with denominator b as b rows.
    there = squares > 0
    return np.where(there, p * (1.0 - p) * weight / np.where(there, squares, 1.0), 1.0)


def _decided(terms: RateTerms, strata: Strata, counts: Floats) -> Mask:
    """Return the rates that no new row can change, because some actions are never taken, shape (m,)."""
    n_strata = len(strata.mass)
    used = (counts[:n_strata].sum(axis=0) > 0) & (strata.mass > 0)[:, None]
    inside = (terms.bottom[:, :n_strata] > 0) & used
    top = terms.top[:, :n_strata]
    largest = np.where(inside, top, -np.inf).max(axis=(1, 2))
    decided: Mask = inside.any(axis=(1, 2)) & (largest == np.where(inside, top, np.inf).min(axis=(1, 2)))
    return decided


# -- the probability that limits hold --------------------------------------------------------------------


@dataclass(frozen=True)
class LimitsOutlook:
    """Probability that all limits hold on new rows, and limits that hold with a stated confidence.

    Parameters
    ----------
    probability : float
        Fraction of simulated confusion counts within all limits.
    confidence : float
        The confidence of ``wider``.
    wider : tuple of (Limit, float)
        Increase of each bound with which all limits hold together with this confidence; limits without
        increase are left out.
    fewest : tuple of (str, float) or None
        The limited subgroup with the fewest effective rows, and their number.
    """

    probability: float
    confidence: float
    wider: tuple[tuple[Limit, float], ...]
    fewest: tuple[str, float] | None

    @property
    def sentence(self) -> str:
        """The probability as a sentence without a full stop."""
        p = self.probability
        printed = "more than 0.99" if p > 0.99 else "less than 0.01" if p < 0.01 else f"{p:.2f}"
        return (
            f"on new rows all limits hold together with probability {printed}, simulated from the "
            "confusion counts of this rule"
        )

    @property
    def shortfall(self) -> str:
        """Limits that hold with the confidence, as text; empty if the stated limits do."""
        if not self.wider:
            return ""
        each = "; ".join(_widened(limit, by) for limit, by in self.wider)
        few = "" if self.fewest is None else f". Fewest rows: {self.fewest[0]}, {self.fewest[1]:,.0f}"
        return f"limits that hold together with {self.confidence:g}: {each}{few}"

    def to_dict(self) -> dict[str, Any]:
        """Return the outlook as plain types, for JSON."""
        return {
            "probability": self.probability,
            "confidence": self.confidence,
            "wider": [{"limit": str(limit), "by": by} for limit, by in self.wider],
            "fewest": None if self.fewest is None else list(self.fewest),
        }


def _widened(limit: Limit, by: float) -> str:
    """Return a widened limit as text."""
    moved = by if limit.from_above else -by
    if isinstance(limit.bound, tuple):
        return f"{limit}, each moved by {moved:+.2g}"
    bound = limit.bound + moved if limit.rate.kind == "cost" else float(np.clip(limit.bound + moved, 0, 1))
    return f"{replace(limit, bound=round(bound, 3))} (asked: {limit.bound:g})"


def outlook(
    limits: Sequence[Limit],
    strata: Strata,
    counts: Floats,
    refit: bool,
    confidence: float = 0.9,
    spread: float = REFIT,
) -> LimitsOutlook | None:
    """Return the probability that all limits hold on new rows of the same distribution, by simulation.

    Each draw adds normal noise of 1.25 Poisson variances to the confusion counts of each stratum and action.
    So limits on the same rows are satisfied or violated together. If refitted models answer, each rate of a
    subgroup also has the noise of a refit. A shift common to all subgroups does not change gaps and ratios.
    The ``confidence`` is for ``wider``. ``refit`` and ``spread`` are those of `CountedRate.of`. The result is
    None without limits, for costs of rows, and under a refit of unknown spread.
    """
    if not limits or any(limit.rate.needs_costs for limit in limits) or (refit and np.isnan(spread)):
        return None
    excess = np.stack(_excesses(limits, strata, counts, spread if refit else 0.0), axis=1)
    holds = (excess <= ROUNDING).all(axis=1)
    excess[~np.isfinite(excess)] = 0.0  # a draw without rows of a subgroup
    scale = excess.std(axis=0)
    steps = np.where(scale > 0, excess / np.where(scale > 0, scale, 1.0), 0.0).max(axis=1)
    wider = max(0.0, float(np.quantile(steps, confidence, method="higher"))) * scale
    wider = np.where(scale > 0, wider, np.maximum(excess.max(axis=0), 0.0))
    needed, sizes = [], []
    for limit, more in zip(limits, wider.tolist(), strict=True):
        terms = limit.rate.terms(strata)
        rows = effective_rows(terms, strata, counts)
        bounded = np.ones(len(rows), bool) if limit.compares else ~np.isnan(limit.bounds(terms.names))
        names = [str(limit.rate) if name is None else unit_name(name) for name in terms.names]
        sizes += [(rows[i], names[i]) for i in np.flatnonzero(bounded & (rows > 0))]
        if more > ROUNDING:
            needed.append((limit, float(more)))
    fewest = min(((name, float(n)) for n, name in sizes), key=lambda pair: pair[::-1], default=None)
    return LimitsOutlook(float(holds.mean()), confidence, tuple(needed), fewest)


def _excesses(limits: Sequence[Limit], strata: Strata, counts: Floats, spread: float) -> list[Floats]:
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
            values = np.where(bottom > 0, top / np.where(bottom > 0, bottom, 1.0), np.nan)
            if spread > REFIT or (spread > 0 and not limit.compares):
                noise = random.standard_normal(values.shape)
                values = values + refit_spread(limit.rate, strata, spread) * noise
            place.append(limit.distance(terms.names, values))
    return [np.concatenate(of) for of in distances]


# -- limits that hold with a stated confidence -----------------------------------------------------------


# The most standard errors by which limits are tightened, and the number of selections with such limits.
MOST_ERRORS, SELECTIONS = 3.0, 5
# Limits that cannot all be tightened by `MOST_ERRORS` leave little room. A selection reaches a confidence
# within them only on favourable rows, and the least objective leads to where the rows are most favourable.
# So the selection then aims at a fraction of the probability of a violation, in some more selections.
# With a miss, a deferral and a false alarm limit, 93 of 199 rules reached .9, and .85 of these kept it
# without this aim. benchmarks/confidence.py has the rules with it.
LESS_RISK, MORE_SELECTIONS = 0.25, 2
# A rule that gives one action to a larger fraction of the rows is not selected to reach a confidence.
MOST_ALIKE = 0.95


def tightened(limit: Limit, strata: Strata, counts: Floats, refit: bool, by: float) -> Limit:
    """Return a limit that is tightened by a number of standard errors of its rates.

    The standard errors are those of `outlook`: 1.25 binomial variances and, for single rates, a refit.
    """
    counted = CountedRate.of(limit.rate, strata, counts, refit)
    least, most = counted.range
    n, width = np.maximum(counted.binomial_rows, 1e-9), most - least
    p = (n * (np.nan_to_num(counted.values, nan=least) - least) / width + 1.0) / (n + 2.0)
    variance = width**2 * OVERDISPERSION * p * (1.0 - p) / n
    variance = np.where(np.isnan(counted.values) | _decided(counted.terms, strata, counts), 0.0, variance)
    if limit.compares:
        times = 1.0 if limit.form == GAP else limit.bound
        return limit.with_margins(by * np.sqrt(times**2 * variance[:, None] + variance))
    errors = by * np.sqrt(variance + (width * counted.spread) ** 2)
    return limit.tightened(dict(zip(counted.terms.names, errors.tolist(), strict=True)))


def confident(
    program: Program,
    found: Selection,
    limits: Sequence[Limit],
    confidence: float,
    refit: bool,
    again: Callable[[Program], Selection],
    strata: Strata,
    counts_of: Callable[[Selection], Floats],
) -> Selection:
    """Return the selection of least objective whose limits hold on new rows with a stated probability.

    All limits are tightened by the same number of standard errors, which is bisected. If no selection reaches
    the probability, the most probable one is returned. If one does, but the limits leave little room, the
    selection aims at a probability nearer to 1. A rule with one action for nearly all rows is left out unless
    the stated limits lead to such a rule. ``limits`` for new rows are the first ones of the program,
    ``found`` is the selection within the program, and ``again(program)`` selects within other limits. The
    probability is that of the ``strata`` and counts of the rows on which rates are estimated.
    """
    others = program.limits[len(limits) :]

    def probability(selection: Selection) -> float:
        expected = outlook(limits, strata, counts_of(selection), refit, confidence)
        return 1.0 if expected is None else expected.probability

    def largest_share(counts: Floats) -> float:
        return float(counts[: len(program.strata.mass)].sum(axis=0).max())

    tried = [(probability(found), found)]
    if tried[0][0] >= confidence:
        return found
    most_alike, last = max(MOST_ALIKE, largest_share(found.counts)), found

    def tighten(by: float) -> tuple[float, Selection]:
        """Select with tightened limits; the probability of a rule that is left out counts as 1."""
        nonlocal last
        tighter = [tightened(limit, strata, counts_of(last), refit, by) for limit in limits]
        new = again(program.within((*tighter, *others)))
        if largest_share(new.counts) > most_alike + ROUNDING:
            return 1.0, new
        last = new
        tried.append((probability(new), new))
        return tried[-1]

    def bisect(aim: float, low: float, high: float, selections: int) -> float:
        for _ in range(selections):
            by = (low + high) / 2
            low, high = (low, by) if tighten(by)[0] >= aim else (by, high)
        return high

    def best(aim: float) -> Selection:
        reached = [selection for likely, selection in tried if likely >= aim]
        if reached:
            return min(reached, key=lambda selection: selection.value)
        return max(tried, key=lambda pair: pair[0])[1]

    enough, aim = bisect(confidence, 0.0, MOST_ERRORS, SELECTIONS), confidence
    if max(likely for likely, _ in tried) >= confidence:
        last = best(confidence)
        if not tighten(MOST_ERRORS)[1].keeps:
            aim = 1.0 - LESS_RISK * (1.0 - confidence)
            bisect(aim, enough, MOST_ERRORS, MORE_SELECTIONS)
    selection = best(aim)
    return replace(selection, violations=program.violations(selection.counts))
