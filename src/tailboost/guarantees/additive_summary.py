"""What an additive fit promised and achieved: the error of `predict`, and what its cost bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import numpy as np

from tailboost.boosting.additive_combiner import AdditiveCombiner
from tailboost.core.html import html_details
from tailboost.guarantees.fit_summary import Bound, bound_lines
from tailboost.rates import Rate, error
from tailboost.rates.bounds import clopper_pearson_interval
from tailboost.selection.rate_table import RateTable
from tailboost.selection.subgroup_mixture import Grouping

ON_TRAINING = "error of predict on the rows fitted on"
TWO_CLASSES = "for two classes only: with more, predict may miss a row whose own score is positive"


@dataclass(frozen=True)
class Cost:
    """What the steps of an additive classifier make small, and what that says about its errors."""

    name: str  # the cost in words and symbols
    value: float  # its value on the rows fitted on, for the hypotheses kept
    # promised, observed: what bounds the errors on the rows fitted on: from the weighted errors alone, and
    # from the cost.
    promised: tuple[Bound, ...]
    observed: tuple[Bound, ...]
    symbols: dict[str, str]  # names and values of all symbols in these


@dataclass(frozen=True)
class AdditiveSummary:
    """Promised, observed, achieved by an additive classifier; all errors are those of ``predict``.

    Attributes
    ----------
    promised, observed : tuple of Bound
        As in `Summary`: bounds on errors on the rows fitted on. None bounds the error on fresh rows.
    error : float
        Error of ``predict`` on ``judged_on``, by weight.
    judged_on : str
        The rows behind ``error`` and ``units``: those held out or given as ``X_val``, else the training rows.
    fitted : bool
        Whether members were fitted on these very rows, so that errors there say little.
    decided : tuple of str
        What was chosen by the error on these rows.
    constant : object
        The label of the greatest weight in training.
    constant_error : float
        Error of always answering it, on the same rows.
    only : object or None
        The one label that ``predict`` answers to all of these rows; None where there are several.
    objective : str
        The cost that the steps make small.
    achieved : float or None
        Its value on the rows fitted on, for the hypotheses kept; None where none is and a constant answers.
    gap : float
        Largest optimality gap of any solve in the fit.
    coin : float
        Error of a coin flip, 1 − 1/K.
    upper : float or None
        The upper end of the 95 % Clopper–Pearson interval about ``error``; None where members were fitted on
        these rows.
    units : RateTable
        Error of each class on these rows.
    symbols : dict
        Names and values of all symbols printed.
    """

    promised: tuple[Bound, ...]
    observed: tuple[Bound, ...]
    error: float
    judged_on: str
    fitted: bool
    decided: tuple[str, ...]
    constant: Any
    constant_error: float
    only: Any
    objective: str
    achieved: float | None
    gap: float
    coin: float
    upper: float | None
    units: RateTable
    symbols: dict[str, str]

    @property
    def verdict(self) -> str:
        """One sentence: the error beside a constant's and a coin's, the worst class, what the rows say."""
        coin, shown = f"a coin flip errs on {self.coin:.4g}", "" if self.beats_coin else "not shown, "
        against = f"not shown by rows that were fitted on; {coin}"
        if self.upper is not None:
            against = f"{shown}at most {self.upper:.4g} (95 %), where {coin}"
        worth = "these rows had no part in the fit"
        if self.fitted:
            worth = "members were fitted on these rows, so this says little about new ones"
        elif self.decided:
            worth = f"no member was fitted on these rows, but they decided {' and '.join(self.decided)}"
        return f"{self._standing}; better than a coin: {against}; {worth}."

    @property
    def beats_coin(self) -> bool:
        """Whether it is shown that a coin flip errs more, by rows that no member was fitted on."""
        return self.upper is not None and self.upper < self.coin

    @property
    def _standing(self) -> str:
        if self.only is not None:
            text = f"predict answers {self.only!r} to all of {self.judged_on} and errs on {self.error:.4g}"
            if self.only == self.constant:
                return text
            return f"{text}, always answering {self.constant!r} on {self.constant_error:.4g}"
        text, constant = f"predict errs on {self.error:.4g} of {self.judged_on}", f"{self.constant_error:.4g}"
        worst, largest = (self.units.worst or (None, 0.0))[:2]
        beside = f"always answering {self.constant!r} on {constant}"
        if self.error >= self.constant_error:
            beside = f"no less than always answering {self.constant!r} ({constant})"
        return f"{text}, {beside}; its largest error is {largest:.4g}, on class {worst!r}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, for JSON."""
        return asdict(self) | {"units": self.units.to_dict(), "verdict": self.verdict}

    @property
    def standing(self) -> str:
        """What the headline rests on, with the error overall beside those of a constant and of a coin."""
        return self.verdict

    @property
    def headline(self) -> str:
        """The error of the worst class, on which rows."""
        if (worst := self.units.worst) is None:
            return f"Nothing was measured on {self.judged_on}."
        name, error, _ = worst
        of = "on rows that were fitted on" if self.fitted else f"of {self.judged_on.removesuffix(',')}"
        return f"Worst class: {name}, {100 * error:.0f} of 100 wrong, {of}."

    @property
    def summary(self) -> str:
        """`standing` and `headline`."""
        return f"{self.standing} {self.headline}"

    def __str__(self) -> str:
        return f"{self.units}\n{self.summary}"

    @property
    def details(self) -> str:
        """Everything: the table, the verdict, the cost, bounds that were promised and observed, symbols."""
        cost = "no hypothesis was kept, a constant answers"
        if self.achieved is not None:
            cost = f"{self.achieved:.6g} on the rows fitted on (solver gap {self.gap:.1e})"
        lines = [str(self.units), self.verdict, f"objective: {self.objective}: {cost}"]
        return "\n".join([*lines, *bound_lines(self.observed, self.promised, self.symbols)])

    def _repr_html_(self) -> str:
        details = html_details("Values, bounds and symbols", self.details)
        return f"{self.units._repr_html_()}<p>{escape(self.verdict)}</p>{details}"


def additive_summary(
    combiner: AdditiveCombiner, cost: Cost, gap: float, classes: Sequence[Any], *, fitted: bool
) -> AdditiveSummary:
    """Return what an additive classifier promised and achieved, once its combiner has settled on one.

    ``cost`` is what its steps make small, of no meaning where a constant answers; ``gap`` the largest
    optimality gap of any solve; ``fitted`` tells whether members were fitted on the judged rows.
    """
    rows, K, answers = combiner.rows, combiner.n_classes, combiner.answers
    wrong, boosted = rows.wrong(answers), not combiner.constant_alone
    words = rows.words + (", by weight," if np.ptp(rows.weight) > 0 else "")
    decided = () if fitted else combiner.decided
    share = min(1.0, float(np.average(wrong, weights=rows.weight)))
    (n,) = rows.sizes(np.zeros(len(wrong), dtype=np.intp), 1)
    return AdditiveSummary(
        promised=cost.promised if boosted else (),
        observed=cost.observed if boosted else (),
        error=share,
        judged_on=words,
        fitted=fitted,
        decided=decided,
        constant=classes[combiner.heaviest],
        constant_error=float(np.average(rows.wrong(combiner.heaviest), weights=rows.weight)),
        only=classes[int(answers[0])] if np.ptp(answers) == 0 else None,
        objective=cost.name,
        achieved=cost.value if boosted else None,
        gap=gap,
        coin=1.0 - 1.0 / K,
        upper=None if fitted else float(clopper_pearson_interval(share, n)[1]),
        units=rates_of(
            combiner, classes, [(error(by="class"), None)], words.rstrip(","), fitted=fitted, kind="class"
        ),
        symbols=cost.symbols if boosted else {},
    )


def rates_of(
    combiner: AdditiveCombiner,
    classes: Any,
    stated: Sequence[tuple[Rate, None]],
    words: str,
    *,
    fitted: bool,
    kind: str = "",
) -> RateTable:
    """Return rates of `predict` on the rows on which the error was measured.

    Parameters
    ----------
    combiner : AdditiveCombiner
        The hypotheses, with the answers to these rows.
    classes : sequence of length K
        The labels.
    stated : sequence of (Rate, None)
        The rates.
    words : str
        What rows these are.
    fitted : bool
        Whether members were fitted on them.
    kind : str
        What the subgroups are, of a table of errors.
    """
    table, inside = Grouping(tuple(classes)).table(combiner.rows)
    counts = table.counted(combiner.answers[inside])
    selected = not fitted and bool(combiner.decided)
    found = RateTable.counted(
        stated, table.strata, counts, words, kind=kind, selected=selected, refit=combiner.rows.refit
    )
    return found.on_fitted_rows() if fitted else found


def margin_bound(n_classes: int, formula: str, bound: float, achieved: float | None) -> Bound:
    """Return a bound on the training error that needs ``margin > 0`` to mean right: two classes only."""
    if n_classes > 2:
        return Bound(ON_TRAINING, formula, None, achieved, TWO_CLASSES)
    return Bound(ON_TRAINING, formula, bound, achieved)
