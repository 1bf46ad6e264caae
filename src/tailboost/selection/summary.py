"""Summary of a fit: the limits or errors of the rule, its objective, and one comparison."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np

from tailboost.core.array_types import Document
from tailboost.core.html import html_details
from tailboost.core.rate_words import rounded_away, stated_words
from tailboost.rates import error
from tailboost.rows.subgroups import GroupUse, unit_name
from tailboost.selection.rate_table import RateTable

# Smaller differences of the objective count as zero.
VALUE_TOLERANCE = 1e-7
# The overall error among rates.
OVERALL = str(error())


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
        The objective of the best mixture of constants within ``conditions``; None if no mixture keeps them.
        Mixtures of constants ignore the features.
    conditions : tuple of str
        "the limits", "the error budget", or both: conditions on the rule and on the constants.
    kept : bool
        Whether the rule keeps ``conditions``.
    defers : bool
        Whether the rule may defer rows. Then the constants defer no more rows than the rule.
    errors : RateTable
        Errors of the subgroups of the objective, with their limits.
    rates : RateTable or None
        The rates of the objective and the limits, if there are limits.
    deferred : float
        Share of the rows that the rule defers.
    overall : tuple of float
        The overall error of the rule on these rows, and the least overall error of a candidate; None in place
        of this one if rows may be deferred.
    is_flattered : bool
        Whether these rows selected thresholds by group for the least overall error, which is often larger on
        new rows.
    groups : tuple of GroupUse
        For each column of groups given to `fit`: whether and how answers depend on it.
    certificate : Certificate or None
        The certificate of this rule.
    """

    objective: str
    measured_on: str
    achieved: float
    upper: float | None
    constants_value: float | None
    conditions: tuple[str, ...]
    kept: bool
    defers: bool
    errors: RateTable
    rates: RateTable | None
    deferred: float
    overall: tuple[float, float | None]
    is_flattered: bool
    groups: tuple[GroupUse, ...] = ()
    certificate: Any = None

    @property
    def beats_constants(self) -> bool:
        """Whether the interval for new rows is below the value of every answer without the features."""
        best = self.constants_value
        return (
            self.upper is not None and best is not None and self.upper < best - VALUE_TOLERANCE
        )

    @property
    def _fairness(self) -> str:
        """Conditions on answers without the features in a comparison with the rule; empty without any."""
        duties = []
        if self.conditions:
            duties.append(f"keep {' and '.join(self.conditions)}")
        if self.defers:
            duties.append("defer no more rows")
        return " and ".join(duties)

    @property
    def comparison(self) -> str:
        """One sentence: comparison with the best answers without the features."""
        best = self.constants_value
        on_rows = f"On {self.measured_on}:"
        if not self.kept:
            return f"{on_rows} the rule breaks {' or '.join(self.conditions)}."
        if best is None:
            return f"{on_rows} no answers that ignore the features {self._fairness}; the rule does."
        ignoring = "the best answers that ignore the features"
        if self._fairness:
            ignoring += f" and {self._fairness}"
        if self.beats_constants:
            return (
                f"{on_rows} better than {ignoring} ({best:.3f}), by a 95 % interval for new rows "
                "(an estimate, no certificate)."
            )
        if best - VALUE_TOLERANCE <= self.achieved:
            return f"{on_rows} no better than {ignoring} ({best:.3f})."
        shown = "" if self.upper is None else ", but not shown to be better on new rows"
        return f"{on_rows} below {ignoring} ({best:.3f}){shown}."

    @property
    def headline(self) -> str:
        """One sentence: the largest error of a subgroup, and the objective."""
        objective = f"{self.objective[:1].upper()}{self.objective[1:]}: {self.achieved:.3f}"
        if self.upper is not None:
            objective += f" (at most {self.upper:.3f}, 95 %)"
        if self.errors.worst is None:
            return f"{objective}."
        name, error, interval = self.errors.worst
        text = f"Worst {self.errors.kind}: {unit_name(name)}, error {100 * error:.0f} %"
        if interval is None:
            n = len(self.errors)
            text += f" (the largest of {n} estimates on the rows that selected the rule)"
        else:
            low, high = (rounded_away(interval[k], 2, bool(k)) for k in (0, 1))
            text += f" (95 %: {100 * low:.0f}–{100 * high:.0f} %)"
        if self.objective != f"largest error by {self.errors.kind}":
            text += f". {objective}"
        return f"{text}."

    @property
    def error_words(self) -> str:
        """The overall error on these rows, beside the least one of a candidate; empty if unknown."""
        if self.rates is None:
            return ""
        in_percent = any(line.in_percent for line in self.rates)
        error, least_error = self.overall
        words = f"{stated_words(round(error, 3), in_percent=in_percent)} before calibrate"
        for line in self.rates:
            if line.rate == OVERALL and line.subgroup is None and not np.isnan(line.low):
                interval = replace(line, in_percent=in_percent).interval_text
                words += f" (95 %: {interval})"
                break
        if self.deferred > 0:
            share = stated_words(round(self.deferred, 3), in_percent=in_percent)
            words += f" with {share} deferred and counted as right"
        if self.is_flattered:
            words += " (often higher on new rows)"
        if least_error is not None:
            least_words = stated_words(round(least_error, 3), in_percent=in_percent)
            words += f"; the most accurate candidate has {least_words}"
        return words

    @property
    def _limits(self) -> RateTable:
        """The table of the limits, and of the objective unless this is the overall error."""
        assert self.rates is not None
        limited = {line.rate for line in self.rates if line.limit}
        lines = [line for line in self.rates if line.limit]
        lines += [line for line in self.rates if line.rate not in {*limited, OVERALL}]
        return replace(self.rates, lines=tuple(lines))

    @property
    def _lines(self) -> list[str]:
        """The lines after the certificate or the limits; without both, all lines after the errors."""
        groups = [*map(str, self.groups)]
        if self.rates is None:
            return [*groups, self.comparison, self.headline]
        if self.certificate is not None:
            return groups
        return [
            f"Overall error {self.error_words}, on the rows that selected the rule.",
            *(f"{line[:1].upper()}{line[1:]}" for line in self.rates.deferral),
            "Certify the limits on fresh rows by tailboost.calibrate.",
            *([] if self.beats_constants else [self.comparison]),
            *groups,
        ]

    @property
    def details(self) -> str:
        """The errors by subgroup, both sentences, and the uses of groups."""
        return "\n".join(
            [str(self.errors), *map(str, self.groups), self.comparison, self.headline]
        )

    def to_dict(self) -> Document:
        """Return everything but the certificate as plain types, for JSON."""
        plain = {name: getattr(self, name) for name in PLAIN}
        plain["errors"] = self.errors.to_dict()
        if self.rates is not None:
            plain["rates"] = self.rates.to_dict()
        plain["groups"] = [str(use) for use in self.groups]
        return plain

    def __str__(self) -> str:
        lines = self._lines
        if self.rates is None:
            lines = [str(self.errors), *lines]
        elif self.certificate is None:
            lines = [self.rates.verdict, "", self._limits.text, "", *lines]
        if self.certificate is not None:
            lines = [str(self.certificate), *([""] if self.rates is None else []), *lines]
        if self.rates is not None:
            lines.append("The rest: print(rule.summary_.details)")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        tables = [] if self.certificate is None else [self.certificate]
        if self.rates is None:
            tables.append(self.errors)
        elif self.certificate is None:
            tables.append(self._limits)
        html = "".join(table._repr_html_() for table in tables)
        paragraphs = "".join(f"<p>{escape(line)}</p>" for line in self._lines)
        return f"{html}{paragraphs}{html_details('Errors and comparison', self.details)}"


# Attributes of a summary that are plain values.
PLAIN = (
    "objective",
    "measured_on",
    "achieved",
    "upper",
    "constants_value",
    "conditions",
    "kept",
    "deferred",
    "comparison",
    "headline",
)
