"""Probability of a certificate by the number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tailboost.app.plotting.style import (
    Display,
    keyed,
    next_style,
    reference_line,
    styled,
    text_colour,
)
from tailboost.core.array_types import Axes

POINTS = 25  # numbers of rows in a curve
# A curve goes from the needed rows (or the rows at hand) divided by SPAN to twice their number.
SPAN = 8.0


class PowerDisplay(Display):
    """Probability of the certificate of each limit by the number of rows, with the needed rows marked.

    The probabilities hold for the stated true rates, and the rules selected within them.

    Parameters
    ----------
    rows : sequence of array-like, shape (k,) each
        Numbers of rows for each limit.
    power : sequence of array-like, shape (k,) each
        Probability of its certificate.
    names : sequence of str
        Names of the limits.
    needed : sequence of int
        Needed rows of each limit.
    target : float
        Their probability of a certificate.
    have : int, default=None
        The rows at hand.
    name : str, default=None
        Title.

    Attributes
    ----------
    ax_, figure_ : matplotlib artists
        Axes and figure.
    lines_ : list of matplotlib Line2D
        The curves.
    have_ : matplotlib Line2D or None
        The rows at hand.

    Raises
    ------
    ValueError
        If the numbers of curves differ.

    Examples
    --------
    >>> import tailboost as tb
    >>> from tailboost.plotting import PowerDisplay
    >>> needed = tb.rows_needed("error() <= .2", 0.1, attempts=1)
    >>> display = PowerDisplay.of(needed, have=50)
    >>> display.needed, display.more
    ([94], [44])
    """

    def __init__(
        self,
        rows: Sequence[ArrayLike],
        power: Sequence[ArrayLike],
        names: Sequence[str],
        needed: Sequence[int],
        *,
        target: float,
        have: int | None = None,
        name: str | None = None,
    ) -> None:
        self.rows = [np.asarray(numbers, dtype=np.float64) for numbers in rows]
        self.power = [np.asarray(probabilities, dtype=np.float64) for probabilities in power]
        self.names = list(names)
        self.needed = list(needed)
        self.target = target
        self.have = have
        self.name = name
        if not len(self.rows) == len(self.power) == len(self.names) == len(self.needed) > 0:
            raise ValueError("rows, power, names and needed must have one entry for each limit")

    @property
    def more(self) -> list[int]:
        """Further rows needed for each limit."""
        return [max(0, needed - (self.have or 0)) for needed in self.needed]

    @classmethod
    def of(cls, needed: Any, *, have: int | None = None, name: str | None = None) -> Self:
        """Return the display of a `tailboost.rows_needed`, not yet drawn; ``have`` are the rows at hand."""
        rows = []
        power = []
        totals = [limit_rows.total for limit_rows in needed.limits]
        for k, total in enumerate(totals):
            at_hand = have or total
            fewest = max(1.0, min(total, at_hand) / SPAN)  # no curve begins at 0 rows
            most = 2.0 * max(total, at_hand)
            spaced = np.geomspace(fewest, most, POINTS).round().astype(np.intp)
            grid = np.union1d(spaced, [total])  # sorted, and each number once
            rows.append(grid)
            power.append(needed.powers(grid)[k])
        names = [str(limit_rows.limit) for limit_rows in needed.limits]
        return cls(rows, power, names, totals, target=needed.power, have=have, name=name)

    def _draw(self, ax: Axes, name: str | None, kwargs: dict[str, Any]) -> None:
        """Draw a curve for each limit with its needed rows, the wanted probability, and the rows at hand."""
        self.lines_ = []
        self.have_ = None
        for rows, power, limit, needed, missing in zip(
            self.rows, self.power, self.names, self.needed, self.more, strict=True
        ):
            label = f"{limit}: {needed:,} rows"
            if self.have is not None and missing:
                label += f", {missing:,} more"
            style = next_style(ax, "power") | {"linewidth": 2, "label": label}
            (line,) = ax.plot(rows, power, **styled(style, kwargs))
            power_at_needed = np.interp(needed, rows, power)
            ax.plot(needed, power_at_needed, marker="o", markersize=8, color=line.get_color())
            self.lines_.append(line)
        reference_line(ax, self.target, f"probability {self.target:g}")
        if self.have is not None:
            label = f"at hand: {self.have:,} rows"
            self.have_ = ax.axvline(
                self.have, color=text_colour(), linewidth=1.5, linestyle=":", label=label
            )
        ax.set(
            xscale="log",
            ylim=(0, 1.02),
            xlabel="calibration rows",
            ylabel="probability of a certificate",
        )
        ax.xaxis.set_major_formatter("{x:,.0f}")
        if name:
            ax.figure.suptitle(name)
        keyed(ax, fontsize="small", loc="lower left", bbox_to_anchor=(0, 1.0), frameon=False)
