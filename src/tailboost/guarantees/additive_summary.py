"""Summary of an additive classifier: the error of `predict`, and bounds from the cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailboost.boosting.additive import AdditiveSelection
from tailboost.core.array_types import Ints
from tailboost.rates import Limit, Rate, error
from tailboost.rates.bounds import clopper_pearson_interval
from tailboost.rows.rows import Rows
from tailboost.selection.intervals import REFIT
from tailboost.selection.mixture import Counts
from tailboost.selection.rate_table import RateTable
from tailboost.selection.summary import Bound, PrintedSummary

ON_TRAINING = "error of predict on the training rows"
TWO_CLASSES = (
    "for two classes only: with more, predict may be wrong on a row whose own score is positive"
)


@dataclass(frozen=True)
class Cost:
    """Cost of an additive classifier, with the bounds on its errors."""

    name: str  # the cost in words and symbols
    value: float  # its value on the training rows, for the models kept
    # Bounds on training errors: from the weighted errors alone (promised), and from the cost (observed).
    promised: tuple[Bound, ...]
    observed: tuple[Bound, ...]
    symbols: dict[str, str]  # meaning of all symbols in these


@dataclass(frozen=True, kw_only=True)
class AdditiveSummary(PrintedSummary):
    """Error of ``predict`` of an additive classifier, with bounds and comparisons.

    Attributes
    ----------
    promised, observed : tuple of Bound
        Bounds on training errors, see `Summary`; none of them bounds the error on new rows.
    gap, objective, measured_on, errors, symbols, upper, groups, early_end
        As in `Summary`; ``objective`` is the name of the cost.
    error : float
        Error of ``predict``, by weight, on ``measured_on``: held-out rows, ``X_val``, or the training rows.
    fitted : bool
        Whether models were trained on these rows, which makes errors too small.
    decided : tuple of str
        Choices made by the error on these rows.
    constant : object
        The most frequent label in training, by weight.
    constant_error : float
        Error of this constant answer on the same rows.
    only : object or None
        The label of all these rows by ``predict``; None if there are several labels.
    achieved : float or None
        Cost on the training rows, for the models kept; None if no model is kept.
    random_guess : float
        Error of a random guess, 1 − 1/K.
    """

    error: float
    fitted: bool
    decided: tuple[str, ...]
    constant: Any
    constant_error: float
    only: Any
    achieved: float | None
    random_guess: float
    errors: RateTable

    @property
    def beats_random_guess(self) -> bool:
        """Whether the 95 % interval for the error is below the error of a random guess."""
        return self.upper is not None and self.upper < self.random_guess

    @property
    def comparison(self) -> str:
        """The error of ``predict``, of a constant answer and of a random guess, and their rows."""
        text = (
            f"On {self.measured_on.removesuffix(',')}, predict has an error of {self.error:.4g}"
        )
        if self.only is not None:
            text += f" and answers {self.only!r} to all rows"
        if self.only != self.constant:
            text += f"; always answering {self.constant!r} has {self.constant_error:.4g}"
        text += f"; a random guess has {self.random_guess:.4g}"
        if self.upper is not None:
            doubt = ", so it is not shown to be better"
            if self.beats_random_guess:
                doubt = ""
            text += f" (the 95 % interval for new rows extends to {self.upper:.4g}{doubt})"
        about_rows = "These rows were not used in the fit"
        if self.fitted:
            about_rows = "Models were trained on these rows"
        elif self.decided:
            about_rows = f"No model was trained on these rows, but they decided {' and '.join(self.decided)}"
        return f"{text}. {about_rows}."

    @property
    def headline(self) -> str:
        """The class with the largest error, in a sentence."""
        worst = self.errors.worst
        if worst is None:
            return f"No row to measure errors on: {self.measured_on}."
        label, error, _ = worst
        return f"Worst class: {label}, error {100 * error:.0f} %."

    def __str__(self) -> str:
        lines = [str(self.errors), self.summary, *self._printed_bounds()]
        if self.early_end:
            lines.append(self.early_end)
        return "\n".join(lines)

    def _values(self) -> list[str]:
        cost = "no model was kept, the answer is constant"
        if self.achieved is not None:
            cost = f"{self.achieved:.6g} on the training rows (solver gap {self.gap:.1e})"
        return [f"objective: {self.objective}: {cost}"]


def additive_summary(
    selection: AdditiveSelection,
    cost: Cost,
    gap: float,
    classes: Sequence[Any],
    *,
    fitted: bool,
) -> AdditiveSummary:
    """Return the summary of an additive classifier, after the number of its models was chosen.

    Parameters
    ----------
    selection : AdditiveSelection
        The rule, with its answers on the rows of the error.
    cost : Cost
        Has no meaning if the answer is constant.
    gap : float
        The largest optimality gap of any solve.
    classes : sequence
        The labels, as in ``classes_``.
    fitted : bool
        Whether models were trained on the rows of the error.
    """
    rows = selection.rows
    answers = selection.answers
    error_share, upper = _error_with_upper_end(rows, answers)
    rows_in_words = rows.words
    if np.ptp(rows.weight) > 0:
        rows_in_words += ", by weight,"
    only_answer = None
    if np.ptp(answers) == 0:
        only_answer = classes[int(answers[0])]

    summary = AdditiveSummary(
        promised=cost.promised,
        observed=cost.observed,
        error=error_share,
        measured_on=rows_in_words,
        fitted=fitted,
        decided=selection.decided,
        constant=classes[selection.heaviest],
        constant_error=float(np.average(rows.wrong(selection.heaviest), weights=rows.weight)),
        only=only_answer,
        objective=cost.name,
        achieved=cost.value,
        gap=gap,
        random_guess=1.0 - 1.0 / selection.n_classes,
        upper=upper,
        errors=rates_of(
            selection,
            classes,
            [error(by="class")],
            rows_in_words.rstrip(","),
            fitted=fitted,
            kind="class",
        ),
        symbols=cost.symbols,
    )

    if selection.constant_alone:
        summary = replace(summary, promised=(), observed=(), achieved=None, symbols={})
    if fitted:  # an error on training rows has no interval for new rows
        summary = replace(summary, decided=(), upper=None)
    return summary


def _error_with_upper_end(rows: Rows, answers: Ints) -> tuple[float, float]:
    """Return the error of answers on rows, and the upper end of its 95 % interval for new rows."""
    is_wrong = rows.wrong(answers)
    # Rounding may sum the weights to slightly more than 1.
    share = min(1.0, float(np.average(is_wrong, weights=rows.weight)))
    all_in_one_group = np.zeros(len(is_wrong), dtype=np.intp)
    (effective_rows,) = rows.sizes(all_in_one_group, 1)
    _, upper = clopper_pearson_interval(share, effective_rows)
    return share, float(upper)


def rates_of(
    selection: AdditiveSelection,
    classes: Any,
    stated: Sequence[Rate | Limit],
    rows_in_words: str,
    *,
    fitted: bool,
    kind: str = "",
) -> RateTable:
    """Return rates of ``predict`` on the rows of its error.

    Parameters
    ----------
    selection : AdditiveSelection
        The rule, with its answers on these rows.
    classes : array-like
        The labels, as in ``classes_``.
    stated : sequence of Rate or Limit
        The rates without a limit, and the limits.
    rows_in_words : str
        Name of the rows, as printed.
    fitted : bool
        Whether models were trained on these rows.
    kind : str
        Kind of the subgroups in a table of errors, such as "class".
    """
    counts = Counts(selection.rows, np.array(classes))
    rates = RateTable.counted(
        stated,
        counts.data.strata,
        counts.confusion_counts(selection.answers),
        rows_in_words,
        kind=kind,
        selected=not fitted and bool(selection.decided),
        spread=REFIT * selection.rows.refit,
    )
    if fitted:
        return rates.on_fitted_rows()
    return rates


def margin_bound(n_classes: int, formula: str, bound: float, achieved: float | None) -> Bound:
    """Return a theorem's bound on the training error; no number for more than two classes.

    The theorems bound the share of rows without a positive margin. For two classes, ``margin > 0`` means a
    right answer.

    Parameters
    ----------
    n_classes : int
        K.
    formula : str
        The bound in symbols.
    bound : float
        Its value.
    achieved : float or None
        The training error.
    """
    if n_classes > 2:
        return Bound(ON_TRAINING, formula, bound=None, achieved=achieved, note=TWO_CLASSES)
    return Bound(ON_TRAINING, formula, bound=bound, achieved=achieved)
