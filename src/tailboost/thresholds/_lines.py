"""The table of rates: what a choice does in every unit, on the rows of the choice and elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tailboost._typing import Floats
from tailboost._units import unit_name
from tailboost.rates import Limit, Rate, Strata
from tailboost.rates import Terms as RateTerms
from tailboost.thresholds._program import Program

# 95 % of a normal distribution lie within so many standard deviations.
SPREAD = 1.959963984540054
# More than the rounding error of a tally.
ROUNDING = 1e-9


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
        Whether the value keeps it.
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


@dataclass(frozen=True)
class RateTable:
    """Rates by unit: iterate over its lines, print it, or take `to_dicts` for a data frame.

    Parameters
    ----------
    lines : tuple of RateLine
        One for each rate of each unit.
    words : str
        What rows they are about.
    """

    lines: tuple[RateLine, ...]
    words: str

    @classmethod
    def of(cls, program: Program, tally: Floats, elsewhere: Floats | None, words: str) -> RateTable:
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
        """
        lines = _lines(program.objective.rate, None, program.strata, tally, elsewhere)
        for limit in program.limits:
            lines += _lines(limit.rate, limit, program.strata, tally, elsewhere)
        return cls(tuple(lines), words)

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
        """Return the lines as dicts, for ``pandas.DataFrame`` or JSON."""
        return [asdict(line) for line in self.lines]

    def __str__(self) -> str:
        head = ("rate", "unit", "value", "estimate", "95 % interval", "limit", "met")
        rows = [head]
        for line in self.lines:
            unit = "all" if line.unit is None else unit_name(line.unit)
            shown = ["" if np.isnan(x) else f"{x:.4f}" for x in (line.value, line.estimate)]
            between = "" if np.isnan(line.low) else f"{line.low:.4f} to {line.high:.4f}"
            bound = "" if np.isnan(line.bound) else f"{line.bound:g}"
            met = {True: "yes", False: "NO", None: ""}[line.met]
            rows.append((line.rate, unit, shown[0], shown[1], between, bound, met))
        widths = [max(len(row[j]) for row in rows) for j in range(len(head))]
        text = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
        return "\n".join([f"On {self.words}:", *text])


def _lines(
    rate: Rate, limit: Limit | None, strata: Strata, tally: Floats, elsewhere: Floats | None
) -> list[RateLine]:
    terms = rate.terms(strata)
    values = terms.values(tally)
    estimates = np.full(len(values), np.nan) if elsewhere is None else terms.values(elsewhere)
    centre = np.where(np.isnan(estimates), values, estimates)
    sizes = _sizes(rate, terms, strata, tally)
    low, high = _intervals(rate, strata, centre, sizes)
    words, said = str(rate), "" if limit is None else str(limit)
    bounds = np.full(len(values), np.nan)
    spread = limit is not None and limit.form in ("gap", "ratio")
    if limit is not None and not spread:
        bounds = limit.bounds(terms.names)
    lines = []
    for i, name in enumerate(terms.names):
        met = None
        if limit is not None and not np.isnan(bounds[i]) and not np.isnan(values[i]):
            over = values[i] - bounds[i]
            met = bool((over if limit.form == "at most" else -over) <= ROUNDING)
        about = (float(values[i]), float(estimates[i]), float(low[i]), float(high[i]), float(sizes[i]))
        lines.append(RateLine(words, name, *about, said, float(bounds[i]), met))
    if limit is not None and spread:
        own = limit.said_of(values)
        elsewhere_said = limit.said_of(estimates)
        half = _half_width(limit, centre, high - low)
        middle = own if np.isnan(elsewhere_said) else elsewhere_said
        kept = own <= limit.bound + ROUNDING if limit.form == "gap" else own >= limit.bound - ROUNDING
        interval = (max(0.0, middle - half), middle + half)
        if limit.form == "ratio":
            interval = interval[0], min(1.0, interval[1])
        lines.append(
            RateLine(
                words,
                limit.form,
                own,
                elsewhere_said,
                *interval,
                float("nan"),
                said,
                float(limit.bound),
                bool(kept),
            )
        )
    return lines


def _sizes(rate: Rate, terms: RateTerms, strata: Strata, tally: Floats) -> Floats:
    """Return how many rows of equal weight each rate counts among, shape (m,)."""
    n_strata = len(strata.mass)
    there = strata.mass > 0
    per_mass = np.where(there, strata.size / np.where(there, strata.mass, 1.0), 0.0)
    among = (terms.bottom[:, :n_strata] * tally[:n_strata]).sum(axis=2)
    # Rows of strata that weigh differently: (Σ m)² / Σ m² / n.
    top = among.sum(axis=1) ** 2
    bottom = (among**2 / np.where(among > 0, np.maximum(per_mass * among, 1e-300), 1.0)).sum(axis=1)
    return np.where(bottom > 0, top / np.where(bottom > 0, bottom, 1.0), 0.0)


def _intervals(rate: Rate, strata: Strata, centre: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Return Wilson's intervals of rates, scaled to [0, 1] by what their values may be."""
    least, most = rate.range(strata)
    width = max(most - least, 1e-300)
    n = np.maximum(sizes, 1e-9)
    p = (centre - least) / width
    middle = (p + SPREAD**2 / (2 * n)) / (1 + SPREAD**2 / n)
    half = SPREAD / (1 + SPREAD**2 / n) * np.sqrt(np.maximum(p * (1 - p), 0.0) / n + SPREAD**2 / (4 * n**2))
    return least + width * (middle - half), least + width * (middle + half)


def _half_width(limit: Limit, centre: Floats, widths: Floats) -> float:
    """Return half the interval of a gap or ratio, from those of its largest and smallest rate."""
    known = np.flatnonzero(~np.isnan(centre))
    if not len(known):
        return float("nan")
    ends = [known[centre[known].argmax()], known[centre[known].argmin()]]
    half = widths[ends] / 2.0
    if limit.form == "gap":
        return float(np.sqrt((half**2).sum()))
    top, bottom = centre[ends]
    if top <= 0 or bottom <= 0:
        return 1.0
    return float(bottom / top * np.sqrt(((half / np.array([top, bottom])) ** 2).sum()))
