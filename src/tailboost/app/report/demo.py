"""The demo: a use from model to certificate, and comparisons with baselines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailboost.app.plotting import GroupsDisplay
from tailboost.app.report.comparison_table import (
    NO_DIFFERENCE,
    ComparisonTable,
    Difference,
)
from tailboost.classifiers.calibrating import calibrate
from tailboost.classifiers.robust_mixture import tune
from tailboost.core.array_types import Column, Model, Table
from tailboost.core.exceptions import NotCertifiedError
from tailboost.core.limit_lines import LimitLine
from tailboost.rates import Limit

# Fractions of the rows at which the rows for training, selection and the certificate end; then test rows.
ENDS_OF_PARTS = (0.4, 0.6, 0.8)
DIFFERENCES = "difference; left of the thick line: better"


class UseCase:
    """A fitted model before and after the selection of a rule within limits.

    The model is fitted, a rule is selected within the limits and certified, and both are measured; each on
    other rows. ``groups`` is a named column. Misses are counted among the rows of the class ``label``,
    ``cases`` in words. The first limit is on the misses of each group.

    Attributes
    ----------
    rule, not_certified : classifier, str
        The certified rule, or the selected one and why it is not certified.
    rows : dict of str to int
        Numbers of rows: training, selection, certificate, test.
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
        train, selection, fresh, self.test = (
            {"X": X.iloc[part], "y": y[part], "groups": groups.iloc[part]} for part in parts
        )
        model.fit(train["X"], train["y"])
        models = [("boosted trees", model)]
        self.rule = tune(
            models,
            selection["X"],
            selection["y"],
            groups=selection["groups"],
            limits=limits,
            training_rows=train["X"],
        )
        self.not_certified = ""
        try:
            self.rule = calibrate(self.rule, fresh["X"], fresh["y"], groups=fresh["groups"])
        except NotCertifiedError as failure:
            self.not_certified = str(failure)

    @property
    def display(self) -> GroupsDisplay:
        """The misses of each group before and after the limits, not yet drawn."""
        labels = ("plain model", f"{self.rule_words} rule")
        return GroupsDisplay.of(
            self.model, self.rule, **self.test, rate=self.limits[0], labels=labels
        )

    @property
    def sentence(self) -> str:
        """The rates before and after in one sentence of at most 20 words."""
        has_label = self.test["y"] == self.label
        missed = []
        errors = []
        for classifier in (self.model, self.rule):
            wrong = classifier.predict(self.test["X"]) != self.test["y"]
            missed.append(100 * wrong[has_label].mean())
            errors.append(100 * wrong.mean())
        return (
            f"Of 100 {self.cases}, the plain model misses {missed[0]:.0f}, the "
            f"{self.rule_words} rule {missed[1]:.0f}; overall error changes from "
            f"{errors[0]:.1f} to {errors[1]:.1f} %."
        )

    @property
    def rule_words(self) -> str:
        """Whether the rule is certified or only selected."""
        return "selected" if self.not_certified else "certified"


@dataclass(frozen=True)
class Demo:
    """A use and two comparisons of one run."""

    use: UseCase
    credit: ComparisonTable
    wine: ComparisonTable
    command: str

    @property
    def differences(self) -> dict[str, list[LimitLine]]:
        """The differences to baselines at most as right overall as ours, by the headings of their charts.

        A heading names our method and the data. Significant differences come first.
        """
        charts: dict[str, list[LimitLine]] = {}
        for table in (self.credit, self.wine):
            for difference in table.differences.values():
                if difference.ours_at[0] <= difference.baseline_at[0] + NO_DIFFERENCE:
                    heading = (
                        f"{difference.ours['title']}: worst-class error, {table.data['name']}"
                    )
                    charts.setdefault(heading, []).append(_difference_line(difference))
        better_worse_open = [True, False, None]
        for lines in charts.values():
            lines.sort(key=lambda line: (better_worse_open.index(line.good), line.value))
        return charts


def _difference_line(difference: Difference) -> LimitLine:
    """Return a difference to a baseline for a chart, with its verdict and interval; the bound is 0."""
    mean = difference.interval["mean"]
    low = None
    high = None
    if difference.cell.half is not None:
        low = max(-1.0, mean - difference.cell.half)  # errors differ by at most 1
        high = min(1.0, mean + difference.cell.half)
    # The axis is named a difference. On a phone and in print a line has room for 42 letters.
    words = difference.words.removeprefix("difference ").replace("percentage points", "points")
    return LimitLine(
        difference.verdict,
        {"better": True, "worse": False}.get(difference.verdict),
        f"instead of {difference.baseline['title']}",
        "",
        words,
        mean,
        low,
        high,
        bound=0.0,
    )
