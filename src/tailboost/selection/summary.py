"""Summary of a fit: the limits or errors of the rule, its objective, and one comparison."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any

from tailboost.core.array_types import Document
from tailboost.rates.words import stated_words
from tailboost.selection.rate_table import RateTable

# Smaller differences of the objective count as zero.
VALUE_TOLERANCE = 1e-7


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The printed overview of a fitted classifier.

    Attributes
    ----------
    objective : str
        Name of the objective.
    measured_on : str
        The selection data.
    achieved : float
        The objective of the rule on these rows.
    upper : float or None
        Upper end of a 95 % interval for the objective on new rows; None if it is unknown.
    constants_value : float or None
        The objective of the best mixture of constants within the limits and the error budget that defers no
        more rows than the rule; None if there is none. Mixtures of constants ignore the features.
    kept : bool
        Whether the rule keeps the limits and the error budget.
    errors : RateTable
        Errors of the subgroups of the objective, with their limits.
    rates : RateTable
        The rates of the objective and the limits.
    deferred : float
        Share of the rows that the rule defers.
    overall : tuple of float
        The overall error of the rule on these rows, and the least overall error of a candidate; None in place
        of this one if rows may be deferred.
    certificate : Certificate or None
        The certificate of this rule.
    """

    objective: str
    measured_on: str
    achieved: float
    upper: float | None
    constants_value: float | None
    kept: bool
    errors: RateTable
    rates: RateTable
    deferred: float
    overall: tuple[float, float | None]
    certificate: Any = None

    @property
    def beats_constants(self) -> bool:
        """Whether the interval for new rows is below the value of every answer without the features."""
        best = self.constants_value
        return (
            self.upper is not None and best is not None and self.upper < best - VALUE_TOLERANCE
        )

    @property
    def comparison(self) -> str:
        """One sentence: comparison with the best answers without the features."""
        on_rows = f"On {self.measured_on}:"
        if not self.kept:
            return f"{on_rows} the rule breaks its limits."
        if self.constants_value is None:
            return (
                f"{on_rows} no answers that ignore the features keep the limits; the rule does."
            )
        best = f"the best answers that ignore the features ({self.constants_value:.3f})"
        if self.beats_constants:
            return f"{on_rows} better than {best}, by a 95 % interval for new rows (no certificate)."
        if self.upper is None:
            side = "below" if self.achieved < self.constants_value else "not below"
            return f"{on_rows} {side} {best}."
        return f"{on_rows} not shown to be better than {best} on new rows."

    @property
    def headline(self) -> str:
        """One sentence: the objective on the selection data, and at most on new rows."""
        words = f"{self.objective[:1].upper()}{self.objective[1:]}: {self.achieved:.3f}"
        if self.upper is not None:
            words += f" (at most {self.upper:.3f} on new rows, 95 %)"
        return f"{words}."

    @property
    def error_words(self) -> str:
        """The overall error on these rows, beside the least one of a candidate."""
        in_percent = any(line.in_percent for line in self.rates)
        words = partial(stated_words, in_percent=in_percent, digits=3)
        error, least_error = self.overall
        text = words(error)
        if self.deferred > 0:
            text += f" with {words(self.deferred)} deferred and counted as right"
        if least_error is not None:
            text += f"; the most accurate candidate has {words(least_error)}"
        return text

    @property
    def details(self) -> str:
        """The errors by subgroup, and both sentences."""
        return "\n".join([self.errors.text, self.comparison, self.headline])

    def to_dict(self) -> Document:
        """Return everything but the certificate as plain types, for JSON."""
        document = vars(self) | {
            "comparison": self.comparison,
            "headline": self.headline,
            "errors": self.errors.to_dict(),
            "rates": self.rates.to_dict(),
        }
        del document["certificate"]
        return document

    def __str__(self) -> str:
        if self.certificate is not None:
            return str(self.certificate)
        if self.rates.met is None:
            return self.details
        lines = [
            self.rates.verdict,
            "",
            self.rates.text,
            "",
            f"Overall error {self.error_words}, on the rows that selected the rule.",
            *([] if self.beats_constants else [self.comparison]),
            "To certify the limits, calibrate on fresh rows.",
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"
