"""Page of a trade-off: a slider over the points of the curve, with the rates of each."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tailboost.rates import Largest, Objective, error
from tailboost.rows.judged import judged
from tailboost.rows.subgroups import unit_name

if TYPE_CHECKING:
    from tailboost.selection.curve import Curve, Points
    from tailboost.selection.rate_table import RateTable

# Significant digits of rates on the page.
DIGITS = 6
# Names of the texts that a reader of the page can copy for a point: the rule, or its limits for another fit.
COPIED = (
    "this rule in Python",
    "this rule in the shell",
    "its limits in Python",
    "its limits in the shell",
)


def curve_page(curve: Curve, measured: Points | None = None, *, model: str = "MODEL") -> str:
    """Return an HTML page on which a slider runs over the points of a trade-off.

    The page needs no server: its content security policy forbids requests and other scripts.
    Without scripts the page is a table of the points.

    Parameters
    ----------
    curve : Curve
        Returned by ``tradeoff()``.
    measured : Points, optional
        Both rates on other rows, as returned by ``curve.predicted``.
    model : str, default="MODEL"
        Name of the model file in the commands of the page.

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
    # This module needs jinja2, which drawings do not need.
    from tailboost.app.report.html import inline_script, json_block, page

    tables = [curve.rates(place) for place in range(len(curve))]
    least_error = min(map(_overall_error, tables))
    points = [
        _point(curve, place, table, least_error, model) for place, table in enumerate(tables)
    ]
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
        "copied": COPIED,
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
        curve=curve,
        points=points,
        start=points[start],
        by_error=Objective.from_expression(error()) in (curve.limited, curve.objective),
        notes=notes,
        data=json_block(document),
        **inline_script("curve.js"),
    )


def _overall_error(table: RateTable) -> float:
    """Return the error of all rows in the rates of a point."""
    return next(
        line.value for line in table if line.rate == str(error()) and line.subgroup is None
    )


def _point(
    curve: Curve, place: int, table: RateTable, least_error: float, model: str
) -> dict[str, Any]:
    """Return the numbers of the point at a place of the curve, for the page.

    ``table`` has its rates. The price is its error above ``least_error``, the least of all points. ``model``
    names the model file.
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
        "texts": _copied_texts(curve, curve.level(place), model),
        "rates": rates,
    }


def _copied_texts(curve: Curve, level: float, model: str) -> list[str]:
    """Return the `COPIED` texts of the point within a level of the limited rate."""
    limits = [curve.limited.within(level), *curve.limits]
    limits_in_python = ", ".join(f"tb.rates.{limit!r}" for limit in limits)
    parameters = [f"limits=[{limits_in_python}]"]
    options = []
    for limit in limits:
        options += ["--limit", limit.text]
    command = ["tailboost", "tradeoff", model]
    if not curve.objective.over_rows:  # a CVaR has only one curve, without these options
        minimised = _written(curve.objective)
        command += ["--limited", _written(curve.limited), "--objective", minimised]
        parameters.append(f"objective=tb.rates.{minimised}")
        options += ["--objective", minimised]
    command += ["--pick", repr(level), "--model", "point.model"]
    return [
        f"curve.at({level!r})",
        _in_shell(command),
        ", ".join(parameters),
        _in_shell(options),
    ]


def _start(curve: Curve) -> int:
    """Return the place of the point nearest to the classifier itself, where the slider starts.

    Distances are in units of the range of each rate. A rate without a value of the classifier is ignored.
    """
    of_classifier = curve.of_source()
    ranges = [np.ptp(rate) or 1.0 for rate in curve.values]  # 1: all points have one value
    distances = (np.column_stack(curve.values) - of_classifier) / ranges  # shape (points, 2)
    return int(np.nansum(distances**2, axis=1).argmin())


def _written(rate: Any) -> str:
    """Return a rate, an objective, a gap or a ratio as `tailboost.rates.parse` reads it."""
    if rate.compares:
        return repr(rate)
    return repr(Largest(rate.rate) if rate.worst else rate.rate)


def _in_shell(words: Sequence[str]) -> str:
    """Return words of a command, quoted for a shell.

    A word with single quotes, such as a rate, is in double quotes: shlex would make it hard to read. Double
    quotes do not protect some characters.
    """
    quoted = []
    for word in words:
        is_safe_in_double_quotes = not set(word) & set('"$`!\\')
        if "'" in word and is_safe_in_double_quotes:
            quoted.append(f'"{word}"')
        else:
            quoted.append(shlex.quote(word))
    return " ".join(quoted)


def _rounded(value: float) -> float | None:
    """Return a number with `DIGITS` digits; None for NaN, which JSON does not have."""
    if np.isnan(value):
        return None
    return float(f"{value:.{DIGITS}g}")
