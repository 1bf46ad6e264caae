"""The errors of classes, groups or cells beside what they are allowed, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tailboost._html import html_table, text_table
from tailboost._typing import Floats, Ints
from tailboost._units import unit_name
from tailboost.statements.two_fold import UnitEstimates

# More lines are for `to_dict`; those shown are the farthest beyond what is allowed, or the largest.
MOST_LINES = 30
PREDICT, DRAWN = "predict: estimate (95 %)", "randomised rule: estimate (95 %)"
NOTE = (
    "estimate: each half of these rows judged by the choice made on the other half, with a 95 % interval "
    "that allows for how choice and models change with the rows; an estimate that leaves out what else was "
    "fitted to these rows (weights of the game, thresholds), not a certificate: tailboost.certify gives one"
)


@dataclass(frozen=True)
class UnitLine:
    """One class, group or cell."""

    name: Any  # its label, or pair of labels
    rows: int  # how many rows it was measured on
    allowed: float | None  # the error it is allowed; None where nothing was asked for
    predict: float | None  # error of `predict`; None where it is not known, because the answers were not kept
    randomised: float | None  # expected error of the rule that draws a member for each decision
    # {"", "yes", "no", "by predict alone", "by the randomised rule alone"}: which of the two keep to what is
    # allowed; empty where that is not known.
    met: str
    # predict_elsewhere, randomised_elsewhere: the same where each half of the rows is judged by the choice
    # made on the other half.
    predict_elsewhere: float | None = None
    # predict_interval, randomised_interval: pair of floats or None: interval about it, see `UnitEstimates`.
    predict_interval: tuple[float, float] | None = None
    randomised_elsewhere: float | None = None
    randomised_interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class UnitTable:
    """The units of a game with their errors."""

    kind: str  # {"class", "group", "cell"}: what they are
    measured_on: str
    lines: tuple[UnitLine, ...]  # one per unit
    fresh: bool = False  # whether these rows had no part in the fit
    # Whether the randomised rule draws; else `predict` answers as it does, and is shown for both.
    draws: bool = True

    @classmethod
    def of(
        cls,
        kind: str,
        measured_on: str,
        names: Sequence[Any],
        index: Ints,
        *,
        randomised: Floats | None = None,
        predict: Floats | None = None,
        allowed: Floats | None = None,
        met: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None,
        estimates: UnitEstimates | None = None,
        fresh: bool = False,
        counts: Ints | None = None,
        draws: bool = True,
    ) -> Self:
        """Collect the lines.

        Parameters
        ----------
        kind, measured_on : str
            What the units are and the rows in words.
        names : sequence of m names
            The units.
        index : ndarray of int
            The unit or units of each row; −1 is none.
        randomised, predict, allowed : ndarray of shape (m,), optional
            Errors, NaN where there was no row.
        met : pair of ndarrays of shape (m,), optional
            Whether `predict` and the randomised rule keep to what is allowed.
        estimates : UnitEstimates, optional
            The errors on rows that the choice was not made on.
        fresh : bool, default=False
            Whether the rows had no part in the fit.
        counts : ndarray of shape (m,), optional
            Rows of each unit, where those of ``index`` stand for several.
        draws : bool, default=True
            Whether the randomised rule draws.
        """
        flat = np.asarray(index).ravel()
        rows = np.bincount(flat[flat >= 0], minlength=len(names)) if counts is None else counts
        words = {
            (True, True): "yes", (False, False): "no",
            (True, False): "by predict alone", (False, True): "by the randomised rule alone",
        }  # fmt: skip
        lines = tuple(
            UnitLine(
                name,
                int(rows[k]),
                _known(allowed, k),
                _known(predict, k),
                _known(randomised, k),
                "" if met is None or not rows[k] else words[bool(met[0][k]), bool(met[1][k])],
                **_elsewhere(estimates, k),
            )
            for k, name in enumerate(names)
        )
        return cls(kind, measured_on, lines, fresh, draws)

    def column(self, name: str) -> Floats | None:
        """Return one attribute of all lines, NaN where it is not known; None where it is known of none.

        Parameters
        ----------
        name : str
            Attribute of `UnitLine` that holds a number or a pair of numbers.

        Returns
        -------
        ndarray of shape (m,) or (m, 2), or None
        """
        values = [getattr(line, name) for line in self.lines]
        known = next((value for value in values if value is not None), None)
        if known is None:
            return None
        unknown = np.full(np.shape(known), np.nan)
        return np.array([unknown if value is None else value for value in values], dtype=np.float64)

    @property
    def _shown(self) -> list[UnitLine]:
        def beyond(line: UnitLine) -> float:
            errors = [e for e in (line.predict, line.randomised) if e is not None]
            return max(errors, default=-1.0) - (line.allowed or 0.0)

        if len(self.lines) <= MOST_LINES:
            return list(self.lines)
        return sorted(self.lines, key=beyond, reverse=True)[:MOST_LINES]

    def _cells(self, with_drawn: bool) -> tuple[list[str], list[list[str]]]:
        # The estimate first: what was measured on the rows of the choice is flattered by it.
        known = any(line.predict_elsewhere is not None for line in self.lines)
        drawn_known = any(line.randomised_elsewhere is not None for line in self.lines)
        heads = [
            self.kind,
            "rows",
            "allowed",
            PREDICT,
            "on the rows it was chosen on" if known else "predict",
            DRAWN,
            "on the rows it was chosen on" if drawn_known else "randomised rule",
            "met",
        ]
        rows = [
            [
                unit_name(line.name),
                f"{line.rows:,}",
                _number(line.allowed),
                _estimate(line.predict_elsewhere, line.predict_interval),
                _number(line.predict),
                _estimate(line.randomised_elsewhere, line.randomised_interval),
                _number(line.randomised),
                line.met,
            ]
            for line in self._shown
        ]
        # A column without anything to say, or what another one says, is left out.
        drawn = heads.index(DRAWN)
        kept = [j for j in range(len(heads)) if with_drawn or j not in (drawn, drawn + 1)]
        kept = [j for j in kept if j < 2 or any(row[j] not in ("", "–") for row in rows)]
        return [heads[j] for j in kept], [[row[j] for j in kept] for row in rows]

    @property
    def _caption(self) -> str:
        more = len(self.lines) - len(self._shown)
        hidden = f"; {more} more are in to_dict()" if more else ""
        rows = self.measured_on if self.fresh else f"{self.measured_on}, not on fresh rows"
        return f"error of each {self.kind}, measured on {rows}{hidden}"

    @property
    def worst(self) -> tuple[Any, float, tuple[float, float] | None] | None:
        """Name, error and interval of the unit with the largest error; None where no error is known.

        Of `predict` rather than of the rule that draws, and of rows that the choice was not made on rather
        than of those it was.
        """
        for who in ("predict", "randomised"):
            for error, ends in ((f"{who}_elsewhere", f"{who}_interval"), (who, None)):
                known = [line for line in self.lines if getattr(line, error) is not None]
                if known:
                    line = max(known, key=lambda line: getattr(line, error))
                    return line.name, getattr(line, error), getattr(line, ends) if ends else None
        return None

    @property
    def table(self) -> str:
        """The lines for `predict`, or where its errors are not known for the rule that draws."""
        heads, rows = self._cells(self.draws and all(line.predict is None for line in self.lines))
        return "\n".join([f"{self._caption}:", text_table(heads, rows)])

    def __str__(self) -> str:
        heads, rows = self._cells(self.draws)
        note = [NOTE] if {PREDICT, DRAWN} & set(heads) else []
        return "\n".join([f"{self._caption}:", text_table(heads, rows), *note])

    def _repr_html_(self) -> str:
        heads, rows = self._cells(self.draws)
        note = f"; {NOTE}" if {PREDICT, DRAWN} & set(heads) else ""
        return html_table(heads, rows, caption=self._caption + note)


def _known(values: Floats | None, k: int) -> float | None:
    return None if values is None or np.isnan(values[k]) else float(values[k])


def _elsewhere(estimates: UnitEstimates | None, k: int) -> dict[str, Any]:
    """Return what a line says of rows that the choice was not made on."""
    if estimates is None or np.isnan(estimates.drawn[k]):
        return {}
    known = {"randomised": (estimates.drawn, estimates.drawn_interval)}
    if estimates.predict is not None and estimates.predict_interval is not None:
        known["predict"] = estimates.predict, estimates.predict_interval
    return {f"{who}_elsewhere": float(error[k]) for who, (error, _) in known.items()} | {
        f"{who}_interval": (float(ends[k, 0]), float(ends[k, 1])) for who, (_, ends) in known.items()
    }


def _estimate(error: float | None, ends: tuple[float, float] | None) -> str:
    return "–" if error is None or ends is None else f"{error:.3f} ({ends[0]:.2f}–{ends[1]:.2f})"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
