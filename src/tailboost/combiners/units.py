"""The errors of classes, groups or cells beside what they are allowed, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tailboost._html import html_table, text_table
from tailboost._typing import Floats, Ints

# More lines are for `to_dict`; those shown are the farthest beyond what is allowed, or the largest.
MOST_LINES = 30


@dataclass(frozen=True)
class UnitLine:
    """One class, group or cell.

    Attributes
    ----------
    name : object
        Its label, or pair of labels.
    rows : int
        How many rows it was measured on.
    allowed : float or None
        The error it is allowed; None where nothing was asked for.
    predict : float or None
        Error of `predict`; None where it is not known, because the answers were not kept.
    randomised : float or None
        Expected error of the rule that draws a member for each decision.
    met : {"", "yes", "no", "by predict alone", "by the randomised rule alone"}
        Which of the two keep to what is allowed; empty where that is not known.
    """

    name: Any
    rows: int
    allowed: float | None
    predict: float | None
    randomised: float | None
    met: str


@dataclass(frozen=True)
class UnitTable:
    """The units of a game with their errors.

    Attributes
    ----------
    kind : {"class", "group", "cell"}
        What they are.
    measured_on : str
        The rows.
    lines : tuple of UnitLine
        One per unit.
    """

    kind: str
    measured_on: str
    lines: tuple[UnitLine, ...]

    @classmethod
    def of(
        cls,
        kind: str,
        measured_on: str,
        names: Sequence[Any],
        index: Ints,
        *,
        randomised: Floats,
        predict: Floats | None = None,
        allowed: Floats | None = None,
        met: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None,
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
        """
        flat = np.asarray(index).ravel()
        rows = np.bincount(flat[flat >= 0], minlength=len(names))
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
            )
            for k, name in enumerate(names)
        )
        return cls(kind, measured_on, lines)

    @property
    def _shown(self) -> list[UnitLine]:
        def beyond(line: UnitLine) -> float:
            errors = [e for e in (line.predict, line.randomised) if e is not None]
            return max(errors, default=-1.0) - (line.allowed or 0.0)

        if len(self.lines) <= MOST_LINES:
            return list(self.lines)
        return sorted(self.lines, key=beyond, reverse=True)[:MOST_LINES]

    @property
    def _cells(self) -> tuple[list[str], list[list[str]]]:
        heads = [self.kind, "rows", "allowed", "predict", "randomised rule", "met"]
        rows = [
            [
                str(line.name),
                f"{line.rows:,}",
                _number(line.allowed),
                _number(line.predict),
                _number(line.randomised),
                line.met,
            ]
            for line in self._shown
        ]
        # A column without anything to say is left out.
        kept = [j for j in range(len(heads)) if j < 2 or any(row[j] not in ("", "–") for row in rows)]
        return [heads[j] for j in kept], [[row[j] for j in kept] for row in rows]

    @property
    def _caption(self) -> str:
        more = len(self.lines) - len(self._shown)
        hidden = f"; {more} more are in to_dict()" if more else ""
        return f"error of each {self.kind}, measured on {self.measured_on}, not on fresh rows{hidden}"

    def __str__(self) -> str:
        return f"{self._caption}:\n{text_table(*self._cells)}"

    def _repr_html_(self) -> str:
        return html_table(*self._cells, caption=self._caption)


def _known(values: Floats | None, k: int) -> float | None:
    return None if values is None or np.isnan(values[k]) else float(values[k])


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
