"""The demo: a use from model to certificate, comparisons, and the strongest significant difference."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailboost.app.plotting import GroupsDisplay
from tailboost.app.report.comparison_table import (
    NO_DIFFERENCE,
    ComparisonTable,
    Difference,
    splits_words,
)
from tailboost.classifiers.calibrating import calibrate
from tailboost.classifiers.robust_mixture import tune
from tailboost.core.array_types import Column, Model, Table
from tailboost.core.exceptions import NotCertifiedError
from tailboost.core.limit_lines import LimitLine
from tailboost.rates import Limit
from tailboost.rates.bounds import share_with_interval
from tailboost.rows.judged import judged

# Fractions of the rows at which the rows for training, selection and the certificate end; then test rows.
ENDS_OF_PARTS = (0.4, 0.6, 0.8)
TAILS = ("adalpboost", "today")  # methods of the curve of the CVaR
TODAY = "today"  # name of the plain model among the methods
NORMAL = 1.96  # two-sided 95 % quantile of the normal distribution
DIFFERENCES = "difference, left of 0: better"

Figure = Mapping[str, float]


class UseCase:
    """A fitted model before and after the selection of a rule within limits.

    The model is fitted, a rule is selected within the limits and certified, and both are measured; each on
    other rows. ``groups`` is a named column. Misses are counted among the rows of the class ``label``,
    ``cases`` in words.

    Attributes
    ----------
    rule, not_certified : classifier, str
        The certified rule, or the selected one and why it is not certified.
    rows : dict of str to int
        Numbers of rows: training, selection, certificate, test, and test rows of the class.
    before, after : dict
        "missed" and "error" on the test rows, with 95 % Clopper–Pearson intervals.
    missed_before, missed_after : dict
        The misses of each group.
    differences : dict
        After minus before, with paired 95 % intervals.
    test : dict
        Features, labels and groups of the test rows.
    """

    def __init__(
        self,
        model: Model,
        X: Table,
        y: Column,
        limits: Sequence[Limit],
        label: str,
        cases: str,
        seed: int,
        groups: Any,
    ) -> None:
        self.model = model
        self.limits = limits
        self.label = label
        self.cases = cases
        order = np.random.default_rng(seed).permutation(len(y))
        parts = np.split(order, [int(end * len(y)) for end in ENDS_OF_PARTS])
        uses = ("training", "selection", "certificate", "test")
        self.rows = dict(zip(uses, map(len, parts), strict=True))
        train, selection, fresh, test = (
            {"X": X.iloc[part], "y": y[part], "groups": groups.iloc[part]} for part in parts
        )
        self.test = test
        model.fit(train["X"], train["y"])
        self.rule, self.not_certified = _certified_rule(model, limits, train, selection, fresh)
        wrong_before = model.predict(test["X"]) != test["y"]
        wrong_after = self.rule.predict(test["X"]) != test["y"]
        has_label = test["y"] == label
        self.rows[label] = int(has_label.sum())
        rows_of_rate = {"missed": has_label, "error": np.ones(len(has_label), dtype=bool)}
        rows_of_group = {}
        for name in judged(self.rule).groups:
            missable = has_label & (test["groups"] == name).to_numpy()
            if missable.any():  # otherwise there is no rate
                rows_of_group[str(name)] = missable
        self.before = _rates(wrong_before, rows_of_rate)
        self.after = _rates(wrong_after, rows_of_rate)
        self.missed_before = _rates(wrong_before, rows_of_group)
        self.missed_after = _rates(wrong_after, rows_of_group)
        self.differences = {
            name: _paired(wrong_before[rows], wrong_after[rows])
            for name, rows in rows_of_rate.items()
        }

    @property
    def display(self) -> GroupsDisplay:
        """The rates before and after the limits, not yet drawn."""
        before = [*self.missed_before.values(), self.before["error"]]
        after = [*self.missed_after.values(), self.after["error"]]
        names = [f"missed {self.cases}: {name}" for name in self.missed_before]
        largest_miss = float(self.limits[0].bound)  # of each group; no limit on the error
        return GroupsDisplay(
            [*names, "wrong answers, all clients"],
            [(figure["mean"], figure["low"], figure["high"]) for figure in before],
            [(figure["mean"], figure["low"], figure["high"]) for figure in after],
            bound=[*[largest_miss] * len(names), math.nan],
            rate="share",
            labels=("plain model", f"{self.rule_words} rule"),
        )

    @property
    def sentence(self) -> str:
        """The rates before and after in one sentence."""
        before = {name: 100 * figure["mean"] for name, figure in self.before.items()}
        after = {name: 100 * figure["mean"] for name, figure in self.after.items()}
        return (
            f"Of 100 {self.cases}, the plain model misses {before['missed']:.0f}, the "
            f"{self.rule_words} rule {after['missed']:.0f}; overall error changes from "
            f"{before['error']:.1f} to {after['error']:.1f} %."
        )

    @property
    def rule_words(self) -> str:
        """Whether the rule is certified or only selected."""
        return "selected" if self.not_certified else "certified"


def _certified_rule(
    model: Model,
    limits: Sequence[Limit],
    train: dict[str, Any],
    selection: dict[str, Any],
    fresh: dict[str, Any],
) -> tuple[Model, str]:
    """Return the certified rule and "", or the selected rule and the reason why it is not certified.

    ``train``, ``selection`` and ``fresh`` have the features, labels and groups of the rows.
    """
    models = [("boosted trees", model)]
    rule = tune(
        models,
        selection["X"],
        selection["y"],
        groups=selection["groups"],
        limits=limits,
        training_rows=train["X"],
    )
    try:
        return calibrate(rule, fresh["X"], fresh["y"], groups=fresh["groups"]), ""
    except NotCertifiedError as failure:
        return rule, str(failure)


def _rates(wrong: Any, counted: Mapping[str, Any]) -> dict[str, Figure]:
    """Return the share of wrong answers among the rows of each mask, with its 95 % interval."""
    figures: dict[str, Figure] = {}
    for name, mask in counted.items():
        mean, low, high = share_with_interval(wrong[mask])
        figures[name] = {"mean": mean, "low": low, "high": high}
    return figures


def _paired(before: Any, after: Any) -> Figure:
    """Return the mean of after minus before on the same rows, with its normal 95 % interval."""
    changes = after.astype(float) - before
    mean = float(changes.mean())
    half = NORMAL * float(changes.std(ddof=1)) / math.sqrt(len(changes))
    return {"mean": mean, "low": mean - half, "high": mean + half}


def _difference_line(difference: Difference) -> LimitLine:
    """Return a difference to a baseline for a chart, with its verdict and interval; the bound is 0."""
    mean = difference.interval["mean"]
    half = difference.cell.half
    baseline = f"instead of {difference.baseline['title']}"
    if half is None:
        splits = splits_words(difference.interval["n"])
        numbers = f"{100 * mean:+.1f} points, no interval from {splits}".replace("-", "−")
        return LimitLine("difference", None, baseline, "", numbers, mean, None, None, 0.0)
    low = max(-1.0, mean - half)  # errors differ by at most 1
    high = min(mean + half, 1.0)
    interval = f"95 % interval {100 * low:+.1f} to {100 * high:+.1f}"
    numbers = f"{100 * mean:+.1f} points, {interval}".replace("-", "−")
    verdicts = {
        "lower": ("better", True),
        "higher": ("worse", False),
        "": ("not significant", None),
    }
    verdict, good = verdicts[difference.cell.mark]
    return LimitLine(verdict, good, baseline, "", numbers, mean, low, high, 0.0)


@dataclass(frozen=True)
class Demo:
    """A use and two comparisons of one run, as sentences and tables.

    The baselines are compared by the misses of one class in ``credit``, by the worst class in ``wine``.
    """

    use: UseCase
    credit: ComparisonTable
    wine: ComparisonTable
    command: str

    def _differences(self) -> Iterator[tuple[str, Difference]]:
        """Yield the name of the data and the difference to each baseline at most as wrong overall as ours."""
        for table in (self.credit, self.wine):
            for difference in table.differences.values():
                if difference.ours_at[0] <= difference.baseline_at[0] + NO_DIFFERENCE:
                    yield table.data["name"], difference

    def _measure(self, name: str) -> str:
        """Return the compared error on data of this name, in words."""
        if name == self.credit.data["name"]:
            return f"missed {self.use.cases}"
        return "worst-class error"

    @property
    def differences(self) -> dict[str, list[LimitLine]]:
        """The differences to baselines at the same overall error, as lines of charts by their headings.

        A heading names our method, the error and the data. Significant differences come first.
        """
        charts: dict[str, list[LimitLine]] = {}
        for name, difference in self._differences():
            heading = f"{difference.ours['title']}: {self._measure(name)}, {name}"
            charts.setdefault(heading, []).append(_difference_line(difference))
        better_worse_open = [True, False, None]
        for lines in charts.values():
            lines.sort(key=lambda line: (better_worse_open.index(line.good), line.value))
        return charts
