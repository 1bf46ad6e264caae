"""Page of a trade-off: a slider over the points of the curve, with the rates of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tailboost.app.page import page
from tailboost.rates import Objective, error
from tailboost.rows.judged import judged
from tailboost.rows.subgroups import unit_name

if TYPE_CHECKING:
    from tailboost.selection.curve import Curve, Points
    from tailboost.selection.rate_table import RateTable

# Significant digits of rates on the page.
DIGITS = 6


def curve_page(curve: Curve, measured: Points | None = None) -> str:
    """Return an HTML page on which a slider runs over the points of a trade-off.

    The page needs no server: its content security policy forbids requests and other scripts.
    Without scripts the page is a table of the points.

    Parameters
    ----------
    curve : Curve
        Returned by ``tradeoff()``.
    measured : Points, optional
        Both rates on other rows, as returned by ``curve.predicted``.

    Returns
    -------
    str
        The page, as text of an HTML file.

    Examples
    --------
    >>> import numpy as np
    >>> import tailboost as tb
    >>> p, rng = np.linspace(0, 1, 2000), np.random.default_rng(0)
    >>> clf = tb.RobustMixtureClassifier.from_probabilities({"ours": p}, rng.random(2000) < p)
    >>> tb.plotting.curve_page(clf.tradeoff())[:15]
    '<!doctype html>'
    """
    tables = [curve.rates(place) for place in range(len(curve))]
    least_error = min(map(_overall_error, tables))
    points = [_point(curve, place, table, least_error) for place, table in enumerate(tables)]
    start = _start(curve)
    measured_pairs = None
    if measured is not None:
        measured_pairs = [[*map(_rounded, pair)] for pair in zip(*measured, strict=True)]
    lines = [
        {
            "rate": line.rate,
            "subgroup": "all rows" if line.subgroup is None else unit_name(line.subgroup),
        }
        for line in tables[0]
    ]
    document = {
        "limited": str(curve.limited),
        "objective": str(curve.objective),
        # A rule within a limit is the point to its left, unless mixtures lie between the points.
        "mixtures_between": bool(curve.gap < np.inf),
        "start": start,
        "lines": lines,
        "points": points,
        "measured": measured_pairs,
    }
    table_notes = dict.fromkeys(note for table in tables for note in table.notes)
    notes = [f"{note[:1].upper()}{note[1:]}." for note in table_notes]
    if any(judged(point.classifier).draws for point in curve):
        notes.append("Rates are those of the label distribution, from which answers are drawn.")
    return page(
        "curve.html.j2",
        script="curve.js",
        curve=curve,
        points=points,
        start=points[start],
        by_error=Objective.from_expression(error()) in (curve.limited, curve.objective),
        notes=notes,
        document=document,
    )


def _overall_error(table: RateTable) -> float:
    """Return the error of all rows in the rates of a point."""
    return next(
        line.value for line in table if line.rate == str(error()) and line.subgroup is None
    )


def _point(curve: Curve, place: int, table: RateTable, least_error: float) -> dict[str, Any]:
    """Return the numbers of the point at a place of the curve, for the page.

    ``table`` has its rates. The price is its error above ``least_error``, the least of all points.
    """
    overall_error = _overall_error(table)
    rates = []
    for line in table:
        numbers = (line.value, line.low, line.high, line.rows, line.bound)
        rates.append([*map(_rounded, numbers), line.sense])
    return {
        "limited": curve[place].limited,
        "value": curve[place].value,
        "error": overall_error,
        "price": overall_error - least_error,
        "call": f"curve.at({curve.level(place)!r})",
        "rates": rates,
    }


def _start(curve: Curve) -> int:
    """Return the place of the point nearest to the classifier itself, where the slider starts.

    Distances are in units of the range of each rate. A rate without a value of the classifier is ignored.
    """
    of_classifier = curve.of_source()
    ranges = [np.ptp(rate) or 1.0 for rate in curve.values]  # 1: all points have one value
    distances = (np.column_stack(curve.values) - of_classifier) / ranges  # shape (points, 2)
    return int(np.nansum(distances**2, axis=1).argmin())


def _rounded(value: float) -> float | None:
    """Return a number with `DIGITS` digits; None for NaN, which JSON does not have."""
    if np.isnan(value):
        return None
    return float(f"{value:.{DIGITS}g}")
