"""The errors of classes, groups or cells by a rule and by what it draws, beside what they are allowed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from tailboost._typing import Floats, Ints, Mask
from tailboost._units import unit_name
from tailboost.combiners.ledger import LOSS_DECIMALS
from tailboost.data import Rows
from tailboost.rates import error
from tailboost.targets import is_kept
from tailboost.thresholds import (
    FEW,
    LEAST_ROWS,
    REFIT,
    REFITTED,
    SELECTED,
    RateLine,
    RateTable,
    binomial_arms,
)


@dataclass(frozen=True)
class UnitErrors:
    """What a classifier reaches on the units of judged rows."""

    kind: str  # "class", "group" or "cell"
    names: Sequence[Any]  # m of them
    counts: Ints  # (m,), rows of each
    words: str  # what rows these are
    # By rule, (m,): of "predict", where that is known, and of the "randomised" rule; NaN without rows.
    errors: dict[str, Floats]
    allowed: Floats | None = None  # (m,), the error allowed to each unit
    strict: bool = False  # whether an error has to be below what is allowed
    fresh: bool = False  # whether the rows had no part in the fit
    sizes: Floats | None = None  # (m,), effective rows of each; without these there are no intervals
    refit: bool = False  # whether refits answer instead of the members that were judged

    @classmethod
    def of(
        cls,
        kind: str,
        names: list[Any],
        rows: Rows,
        index: Ints,
        *,
        predict: Floats | Mask | None,
        drawn: Floats,
        allowed: Floats | None = None,
        strict: bool = False,
    ) -> Self:
        """Return those of losses of rows, shape (n,): of `predict`, where known, and of what is drawn.

        Each row is in the unit or units that ``index`` names; −1 is none.
        """
        losses = {} if predict is None else {"predict": predict}
        errors = {
            rule: rows.means(index, len(names), each).round(LOSS_DECIMALS)
            for rule, each in (losses | {"randomised": drawn}).items()
        }
        return cls(
            kind, names, rows.counts(index, len(names)), rows.words, errors, allowed, strict,
            sizes=None if rows.fitted else rows.sizes(index, len(names)), refit=rows.refit,
        )  # fmt: skip

    def keeps(self, rule: str = "predict") -> Mask:
        """Whether the error of each unit is allowed, shape (m,); one that is not known is."""
        assert self.allowed is not None
        return is_kept(np.nan_to_num(self.errors[rule] - self.allowed, nan=-1.0), self.strict)

    @property
    def rule(self) -> str:
        """Whose errors count: `predict`'s, where they are known."""
        return "predict" if "predict" in self.errors else "randomised"

    @property
    def limit(self) -> float:
        """What `excess` may be: the error allowed to all, or 0 where units are allowed different ones."""
        assert self.allowed is not None
        return 0.0 if np.ptp(self.allowed) else float(self.allowed[0])

    @property
    def excess(self) -> dict[str, float]:
        """The largest error by rule; where units are allowed different ones the farthest beyond its own."""
        less = 0.0 if self.allowed is None or np.ptp(self.allowed) == 0 else self.allowed
        return {rule: float(np.nanmax(errors - less)) for rule, errors in self.errors.items()}

    def table(self) -> RateTable:
        """Return the errors as a table, with intervals for new rows."""
        errors = self.errors
        if len(errors) > 1 and np.array_equal(errors["predict"], errors["randomised"], equal_nan=True):
            errors = {"predict": errors["predict"]}  # the randomised rule draws nothing
        ends = {rule: self._ends(of) for rule, of in errors.items()}
        lines = [line for rule in errors for line in self._lines(rule, *ends[rule])]
        words = self.words if self.fresh else f"{self.words}, not on fresh rows"
        selected = not self.fresh and self.sizes is not None
        notes = [*[SELECTED] * selected, *[REFITTED] * self.refit]
        if self.sizes is None:
            notes = ["no intervals: members were fitted on these rows"]
        elif small := [
            unit_name(self.names[i]) for i in np.flatnonzero(~self._enough & (self.counts > 0)).tolist()
        ]:
            more = f" and {len(small) - FEW} more" if len(small) > FEW else ""
            named = f"{', '.join(small[:FEW])}{more}"
            notes.append(f"no interval for the error of {named}: fewer than {LEAST_ROWS} rows")
        return RateTable(tuple(lines), words, tuple(notes), self.kind, selected=selected)

    @property
    def _enough(self) -> Mask:
        """Which units have rows enough for an interval."""
        sizes = np.zeros(len(self.names)) if self.sizes is None else self.sizes
        enough: Mask = sizes >= LEAST_ROWS
        return enough

    def _ends(self, errors: Floats) -> tuple[Floats, Floats]:
        """Return the ends of the intervals of errors, shape (m,); NaN where there is none."""
        known, ends = ~np.isnan(errors) & self._enough, np.full((2, len(errors)), np.nan)
        if self.sizes is not None:
            ends[:, known] = binomial_arms(errors[known], self.sizes[known], REFIT * self.refit)
        return ends[0], ends[1]

    def _lines(self, rule: str, low: Floats, high: Floats) -> Iterator[RateLine]:
        rate, m = error(by=self.kind), len(self.names)
        allowed = np.full(m, np.nan) if self.allowed is None else self.allowed
        kept = None if self.allowed is None else self.keeps(rule)
        columns = np.column_stack([self.errors[rule], low, high, self.counts, allowed]).tolist()
        for k, (value, least, most, n, bound) in enumerate(columns):
            limit, met = None, None
            if kept is not None:
                limit, met = rate <= bound, bool(kept[k]) if n else None
            said, sense = ("", "") if limit is None else (str(limit), "<" if self.strict else "≤")
            yield RateLine(
                str(rate), self.names[k], value, least, most, n, said, bound, met, sense, rule=rule
            )  # fmt: skip
