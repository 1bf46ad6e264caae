"""Summary of a fit: the value of the objective, and comparisons with simple answers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
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
# Attributes of a summary with a line in its details.
VALUES = (
    "objective",
    "measured_on",
    "achieved",
    "gap",
    "random_guess_value",
    "constants_value",
    "reference",
    "reference_value",
    "single",
    "draws",
    "largest_error",
)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The printed overview of a fitted classifier: value of the objective, and comparisons.

    Attributes
    ----------
    gap : float
        Largest optimality gap of any solve in the fit.
    objective : str
        Name of the objective.
    measured_on : str
        The rows of the errors.
    errors : RateTable or None
        Errors of the subgroups of the objective, with their limits; None for objectives over rows.
    upper : float or None
        Upper end of a 95 % interval for the objective on new rows; None if models were trained on these rows.
    groups : tuple of GroupUse
        For each column of groups given to `fit`: whether and how answers depend on it.
    achieved : float
        The objective of the rule on the selection data.
    random_guess_value : float or None
        The objective of the even mixture of all labels; None if it breaks ``conditions``.
    reference_value : float or None
        The objective of the single candidate ``reference``; None if no candidate keeps ``conditions``.
    reference : str
        The candidate of the comparison: the most accurate rule.
    constants_value : float or None
        The objective of the best mixture of constants within ``conditions``; None if no mixture keeps them.
        Mixtures of constants ignore the features.
    conditions : tuple of str
        "the limits", "the error budget", or both: conditions on the rule and on every compared answer.
    kept : bool
        Whether the rule keeps ``conditions``.
    defers : bool
        Whether the rule may defer rows. Then all compared answers defer no more rows than the rule.
    single : str or None
        Name of the candidate with all weight; None if several have weight.
    ignores_features : bool
        Whether every candidate with weight gives all rows one answer.
    largest_error : float or None
        The largest error of a subgroup, if the objective is another rate within limits.
    draws : bool
        Whether answers are drawn. Otherwise `predict` and the randomised rule are the same.
    rates : RateTable or None
        The rates of the objective and the limits, if there are limits.
    deferred : float
        Share of the rows that the rule defers.
    overall : tuple of float or None
        The overall error of the rule on these rows, and the least overall error of a candidate; None if the
        rule may defer.
    is_flattered : bool
        Whether these rows selected thresholds by group for the least overall error, which is often larger on
        new rows.
    certificate : Certificate or None
        The certificate of this rule.
    """

    gap: float
    objective: str
    measured_on: str
    errors: RateTable
    upper: float | None = None
    groups: tuple[GroupUse, ...] = ()
    achieved: float
    random_guess_value: float | None
    reference_value: float | None = None
    reference: str
    constants_value: float | None
    single: str | None
    ignores_features: bool
    largest_error: float | None = None
    draws: bool = True
    conditions: tuple[str, ...] = ()
    kept: bool = True
    defers: bool = False
    rates: RateTable | None = None
    deferred: float = 0.0
    overall: tuple[float, float | None] | None = None
    is_flattered: bool = False
    certificate: Any = None

    @property
    def beats_random_guess(self) -> bool:
        """Whether the interval for new rows is below the value of every answer without the features.

        Answers that break ``conditions``, or defer more rows, do not count.
        """
        best = self.constants_value
        return (
            self.upper is not None and best is not None and self.upper < best - VALUE_TOLERANCE
        )

    @property
    def may_be_weak(self) -> bool:
        """Whether answers without the features are not known to be worse, by the interval or the estimate."""
        best = self.constants_value
        if self.upper is None and self.kept and best is not None:
            return self.achieved >= best - VALUE_TOLERANCE
        return not self.beats_random_guess

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
        """One sentence: comparison with the best answers without the features.

        A rule beyond its limits is not compared. If the rule keeps the limits and no answers without the
        features do, the sentence states this.
        """
        conditions = " or ".join(self.conditions)
        best = self.constants_value
        rule = "the randomised rule" if self.draws else "the rule"
        if not self.kept:
            return (
                f"On {self.measured_on}: {rule} breaks {conditions}, so it is not compared "
                "with answers that ignore the features."
            )
        if best is None:
            return (
                f"On {self.measured_on}: no answers that ignore the features {self._fairness}; "
                f"{rule} does."
            )
        ignoring = "answers that ignore the features"
        if self._fairness:
            ignoring += f" and {self._fairness}"
        ignoring += f" ({best:.3f})"
        if self.beats_random_guess:
            return (
                f"On {self.measured_on}: better than the best {ignoring}, by a 95 % interval "
                "for new rows (an estimate, no certificate)."
            )
        if best - VALUE_TOLERANCE <= self.achieved:
            reasons = ["The models may be too weak"]
            if conditions:
                reasons.append(f"{conditions} too tight")
            return (
                f"On {self.measured_on}: no better than the best {ignoring}. "
                f"{', or '.join(reasons)}."
            )
        interval = "no interval for them is known"
        if self.upper is not None:
            interval = f"the 95 % interval for them extends to {self.upper:.3f}"
        of_rule = f" of {rule}" if self.draws else ""
        return (
            f"On {self.measured_on}: {self.objective}{of_rule} is {self.achieved:.3f}, below "
            f"that of the best {ignoring}. Not shown to be better on new rows: {interval}."
        )

    @property
    def headline(self) -> str:
        """One sentence: the largest error of a subgroup, or the objective, and the value of the reference."""
        if self.errors.worst is None:
            return f"{self._objective_words}{self._reference_alone}."
        name, error, interval = self.errors.worst
        text = f"Worst {self.errors.kind}: {unit_name(name)}, error {100 * error:.0f} %"
        if interval is not None:
            low, high = (
                rounded_away(end, 2, above)
                for end, above in zip(interval, (False, True), strict=True)
            )
            text += f" (95 %: {100 * low:.0f}–{100 * high:.0f} %)"
        else:
            n = len(self.errors.of_rule("predict"))
            text += f" (the largest of {n} estimates on the rows that selected the rule)"
        largest = f"largest error by {self.errors.kind}"
        reference_value = self._compared_value
        if self.objective == largest and reference_value is not None:
            # The reference may have its largest error in another subgroup.
            text += f"; the {largest} of {self.reference} is {100 * reference_value:.0f} %"
        if self.objective != largest:
            text += f". {self._objective_words}"
        return f"{text}{self._reference_alone}."

    @property
    def _compared_value(self) -> float | None:
        """The objective of the reference, if it can be compared with that of the rule; otherwise None."""
        if self.single == self.reference or self.largest_error is not None:
            return None
        return self.reference_value

    @property
    def _objective_words(self) -> str:
        """The objective of the rule, its upper end on new rows if known, and that of the reference."""
        words = f"{self.objective[:1].upper()}{self.objective[1:]}: {self.achieved:.3f}"
        if self.upper is not None:
            words += f" (at most {self.upper:.3f}, 95 %)"
        if self._compared_value is not None:
            words += f"; {self.reference}: {self._compared_value:.3f}"
        return words

    @property
    def _reference_alone(self) -> str:
        """A clause if the reference has all weight, and so is the rule itself; otherwise empty."""
        if self.single != self.reference:
            return ""
        return f"; {self.reference} has all weight, so the rule is this candidate alone"

    @property
    def error_words(self) -> str:
        """The overall error on these rows, beside the least one of a candidate; empty if unknown."""
        if self.overall is None or self.rates is None:
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
    def chances(self) -> str:
        """One sentence: the function for a certificate."""
        return "Certify the limits on fresh rows by tailboost.calibrate."

    @property
    def _limits(self) -> RateTable:
        """The table of the limits, and of the objective unless this is the overall error."""
        assert self.rates is not None
        limited = {line.rate for line in self.rates if line.limit}
        lines = [line for line in self.rates if line.limit]
        lines += [line for line in self.rates if line.rate not in {*limited, OVERALL}]
        return replace(self.rates, lines=tuple(lines))

    @property
    def _after_limits(self) -> list[str]:
        """The lines after the limits, their verdict and table."""
        lines = []
        if self.certificate is None:
            if self.error_words:
                lines.append(
                    f"Overall error {self.error_words}, on the rows that selected the rule."
                )
            if self.rates is not None:
                lines += self.rates.deferral
            lines.append(self.chances)
            if self.may_be_weak:
                lines.append(self.comparison)
        lines += map(str, self.groups)
        return [line[:1].upper() + line[1:] for line in lines]

    @property
    def summary(self) -> str:
        """`comparison` and `headline`."""
        return f"{self.comparison} {self.headline}"

    @property
    def details(self) -> str:
        """The table and all values."""
        parts = [self.errors, *self.groups, self.summary, *self._values()]
        return "\n".join(map(str, parts))

    def to_dict(self) -> Document:
        """Return everything but the certificate as plain types, for JSON."""
        plain = asdict(replace(self, rates=None, certificate=None)) | {"summary": self.summary}
        del plain["certificate"]
        plain["errors"] = self.errors.to_dict()
        if self.rates is not None:
            plain["rates"] = self.rates.to_dict()
        return plain

    def __str__(self) -> str:
        if self.rates is not None:
            limits = [str(self.certificate)]
            if self.certificate is None:
                limits = [self.rates.verdict, "", self._limits.text, ""]
            how_to_see_more = "The rest: print(rule.summary_.details)"
            return "\n".join([*limits, *self._after_limits, how_to_see_more])
        table = self.errors.of_rule("predict")
        lines = [str(table), *map(str, self.groups), self.comparison, self.headline]
        if self.certificate is not None:
            lines = [str(self.certificate), "", *lines]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        if self.rates is None:
            table = self.errors
            lines = [*map(str, self.groups), self.summary]
        else:
            table = self.certificate
            if table is None:
                table = self._limits
            lines = self._after_limits
        paragraphs = "".join(f"<p>{escape(line)}</p>" for line in lines)
        details = html_details("Errors and values", self.details)
        return f"{table._repr_html_()}{paragraphs}{details}"

    def _values(self) -> list[str]:
        """Return a line for each known value of `VALUES`."""
        values = {name: getattr(self, name) for name in VALUES}
        return [
            f"{name} = {_shown(value)}" for name, value in values.items() if value is not None
        ]


def _shown(value: Any) -> str:
    """Return a value with six digits, or as text."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)
