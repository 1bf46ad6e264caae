"""The errors of classes, groups or cells by a rule and by what it draws, beside what they are allowed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from tailboost._typing import Floats, Ints, Mask
from tailboost.combiners.ledger import LOSS_DECIMALS
from tailboost.data import Rows
from tailboost.rates import error
from tailboost.statements.two_fold import TwoFoldEstimate
from tailboost.targets import is_kept
from tailboost.thresholds import RateLine, RateTable

NOTE = (
    "estimate: each half of these rows judged by the choice made on the other half, with a 95 % interval "
    "that allows for how choice and models change with the rows; an estimate that leaves out what else was "
    "fitted to these rows (weights of the game, thresholds), not a certificate: tailboost.certify gives one"
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
        return cls(kind, names, rows.counts(index, len(names)), rows.words, errors, allowed, strict)

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

    def table(self, elsewhere: TwoFoldEstimate | None = None, index: Ints | None = None) -> RateTable:
        """Return the errors as a table, with estimates by choices on halves of the rows.

        ``index`` has the units of these rows.
        """
        errors, estimates = self.errors, dict[str, Floats]()
        if elsewhere is not None and index is not None:
            estimates = elsewhere.of_units(index, len(self.names))
        same = (
            len(of) > 1 and np.array_equal(of["predict"], of["randomised"], equal_nan=True)
            for of in (errors, estimates)
            if of
        )
        if all(same):  # what is drawn is what predict answers
            errors = {"predict": errors["predict"]}
        lines = [line for rule in errors for line in self._lines(rule, estimates.get(rule))]
        words = self.words if self.fresh else f"{self.words}, not on fresh rows"
        return RateTable(tuple(lines), words, (NOTE,) if estimates else (), self.kind)

    def _lines(self, rule: str, estimates: Floats | None) -> Iterator[RateLine]:
        rate, m = error(by=self.kind), len(self.names)
        elsewhere = np.full((m, 3), np.nan) if estimates is None else estimates
        allowed = np.full(m, np.nan) if self.allowed is None else self.allowed
        kept = None if self.allowed is None else self.keeps(rule)
        columns = np.column_stack([self.errors[rule], elsewhere, self.counts, allowed]).tolist()
        for k, (value, estimate, low, high, n, bound) in enumerate(columns):
            limit, met, likely = None, None, None
            if kept is not None:
                limit, met = rate <= bound, bool(kept[k]) if n else None
                likely = limit.keeps(estimate, bound)
            said, sense = ("", "") if limit is None else (str(limit), "<" if self.strict else "≤")
            yield RateLine(
                str(rate), self.names[k], value, estimate, low, high, n, said, bound, met, likely, sense,
                rule=rule,
            )  # fmt: skip
