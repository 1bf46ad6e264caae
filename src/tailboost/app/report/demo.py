"""The demo: a use from model to certificate, comparisons, and the strongest significant difference."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from tailboost.app.plotting import GroupsDisplay
from tailboost.app.report.comparison_table import (
    NO_DIFFERENCE,
    ComparisonTable,
    Difference,
    figure_of,
    splits_words,
)
from tailboost.classifiers.calibrating import calibrate
from tailboost.classifiers.robust_mixture import tune
from tailboost.core.array_types import Column, Model, Table
from tailboost.core.exceptions import NotCertifiedError
from tailboost.core.limit_lines import LimitLine
from tailboost.rates import Limit
from tailboost.rates.bounds import clopper_pearson_interval
from tailboost.rows.judged import judged

PARTS = (0.4, 0.6, 0.8)  # ends of the fractions of rows for training, selection and certificate
TAILS = ("adalpboost", "today")  # methods of the curve of the CVaR
TODAY = "today"  # name of the plain model among the methods
NORMAL = 1.96  # two-sided 95 % quantile of the normal distribution
DIFFERENCES = "left of 0: better than the baseline"

Figure = Mapping[str, float]


@dataclass(frozen=True)
class UseCase:
    """A fitted model before and after the selection of a rule within limits.

    Misses are counted among the rows of the class ``label``, ``cases`` in words. ``rows`` has the numbers of
    rows: training, selection, certificate, test, and test rows of the class. ``before`` and ``after`` have
    "missed" and "error" on the test rows, with 95 % Clopper–Pearson intervals; ``missed_before`` and
    ``missed_after`` the misses of each group. ``differences`` are after minus before, with paired 95 %
    intervals. ``not_certified`` is empty if the limits are certified.
    """

    model: Model
    rule: Any
    limits: Sequence[Limit]
    label: str
    cases: str
    rows: Mapping[str, int]
    before: Mapping[str, Figure]
    after: Mapping[str, Figure]
    differences: Mapping[str, Figure]
    not_certified: str
    missed_before: Mapping[str, Figure]
    missed_after: Mapping[str, Figure]

    @classmethod
    def of(
        cls,
        model: Model,
        X: Table,
        y: Column,
        limits: Sequence[Limit],
        label: str,
        cases: str,
        seed: int,
        groups: Any,
    ) -> tuple[Self, Any, Any, Any]:
        """Fit a model, select a rule within the limits, certify it, and measure both; each on other rows.

        ``groups`` is a named column. Features, labels and groups of the test rows are returned too.
        """
        order = np.random.default_rng(seed).permutation(len(y))
        parts = np.split(order, [int(part * len(y)) for part in PARTS])
        train, select, fresh, test = parts
        model.fit(X.iloc[train], y[train])
        selected = tune(
            [("boosted trees", model)],
            X.iloc[select],
            y[select],
            groups=groups.iloc[select],
            limits=limits,
        )
        try:
            rule = calibrate(selected, X.iloc[fresh], y[fresh], groups=groups.iloc[fresh])
            reason = ""
        except NotCertifiedError as failure:
            rule = selected
            reason = str(failure)
        wrong = [one.predict(X.iloc[test]) != y[test] for one in (model, rule)]
        counted = {"missed": y[test] == label, "error": np.ones(len(test), dtype=bool)}
        before, after = (
            {name: _rate(w[rows]) for name, rows in counted.items()} for w in wrong
        )
        of_test = groups.iloc[test]
        members = {
            str(name): counted["missed"] & (of_test == name).to_numpy()
            for name in judged(rule).groups
        }
        by_group = (
            {name: _rate(w[rows]) for name, rows in members.items() if rows.any()}
            for w in wrong
        )
        differences = {
            name: _paired(*(w[rows] for w in wrong)) for name, rows in counted.items()
        }
        sizes = dict(
            zip(("training", "selection", "certificate", "test"), map(len, parts), strict=True)
        )
        rows = sizes | {label: int(counted["missed"].sum())}
        use = cls(
            model,
            rule,
            limits,
            label,
            cases,
            rows,
            before,
            after,
            differences,
            reason,
            *by_group,
        )
        return use, X.iloc[test], y[test], of_test

    @property
    def display(self) -> GroupsDisplay:
        """The rates before and after the limits, not yet drawn."""
        rates = [
            [
                [figure[end] for end in ("mean", "low", "high")]
                for figure in (*of.values(), overall["error"])
            ]
            for of, overall in (
                (self.missed_before, self.before),
                (self.missed_after, self.after),
            )
        ]
        names = [
            *(f"missed {self.cases}: {name}" for name in self.missed_before),
            "wrong answers, all clients",
        ]
        bounds = [float(self.limits[0].bound)] * len(self.missed_before) + [math.nan]
        if self.not_certified:
            after = "selected rule"
        else:
            after = "certified rule"
        return GroupsDisplay(
            names,
            *rates,
            bound=bounds,
            rate="share",
            labels=("plain model", after),
        )


def _rate(wrong: Any) -> Figure:
    low, high = clopper_pearson_interval(wrong.mean(), len(wrong))
    return {"mean": float(wrong.mean()), "low": float(low), "high": float(high)}


def _paired(before: Any, after: Any) -> Figure:
    """Return the mean difference on the same rows, with its normal 95 % interval."""
    changes = after.astype(float) - before
    mean = float(changes.mean())
    half = NORMAL * float(changes.std(ddof=1)) / math.sqrt(len(changes))
    return {"mean": mean, "low": mean - half, "high": mean + half}


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

    @property
    def headline(self) -> str:
        """The strongest significant reduction of an error, in one sentence of at most 20 words.

        Strongest is the difference farthest from 0, in half-widths of its interval.
        """
        use = self.use
        sentences = {}
        change = use.differences["missed"]
        if change["high"] < 0:
            before, after = (
                {name: 100 * figure["mean"] for name, figure in rates.items()}
                for rates in (use.before, use.after)
            )
            if use.not_certified:
                rule = "selected"
            else:
                rule = "certified"
            sentences[change["mean"] / (change["high"] - change["mean"])] = (
                f"Of 100 {use.cases}, the plain model misses {before['missed']:.0f}, the "
                f"{rule} rule {after['missed']:.0f}; overall error changes from "
                f"{before['error']:.1f} to {after['error']:.1f} %."
            )
        for name, d in self._differences():
            if d.cell.mark == "lower" and d.cell.half:
                sentences[d.interval["mean"] / d.cell.half] = (
                    f"On {name}, at {100 * d.ours_at[0]:.0f} % overall error, "
                    f"{d.ours['title']} has {100 * d.ours_at[1]:.0f} % {self._measure(name)}, "
                    f"{d.baseline['title']} {100 * d.baseline_at[1]:.0f} %."
                )
        if sentences:
            return sentences[min(sentences)]
        return "No difference of this run is significant."

    def _measure(self, name: str) -> str:
        if name == self.credit.data["name"]:
            return f"missed {self.use.cases}"
        return "worst-class error"

    @property
    def differences(self) -> dict[str, list[LimitLine]]:
        """The differences to baselines at the same overall error, for a chart of each data set.

        The keys name our method, the error and the data; significant differences come first.
        """
        verdicts = {
            "lower": ("better", True),
            "higher": ("worse", False),
            "": ("not significant", None),
        }
        charts: dict[str, list[LimitLine]] = {}
        for name, d in self._differences():
            mean = d.interval["mean"]
            half = d.cell.half
            low, high = (
                (None, None)
                if half is None
                else (max(-1.0, mean - half), min(mean + half, 1.0))
            )
            ends = f"no interval from {splits_words(d.interval['n'])}"
            if low is not None and high is not None:
                ends = f"95 % interval {100 * low:+.1f} to {100 * high:+.1f}"
            verdict, good = verdicts[d.cell.mark] if half is not None else ("difference", None)
            numbers = f"{100 * mean:+.1f} points, {ends}".replace("-", "−")
            words = f"instead of {d.baseline['title']}"
            line = LimitLine(verdict, good, words, "", numbers, mean, low, high, 0.0)
            charts.setdefault(f"{d.ours['title']}: {self._measure(name)}, {name}", []).append(
                line
            )
        order = {True: 0, False: 1, None: 2}
        return {
            name: sorted(lines, key=lambda line: (order[line.good], line.value))
            for name, lines in charts.items()
        }

    @property
    def tails(self) -> tuple[list[str], list[list[str]]]:
        """Headings and cells of the CVaR of the methods in `TAILS`, on the first data set."""
        alphas = [f"{alpha:g}" for alpha in self.credit.settings["alphas"]]
        rows = []
        for method in self.credit.finished:
            if method["name"] not in TAILS:
                continue
            figures = [figure_of(method, "cvar", alpha) for alpha in alphas]
            halves = [
                "" if f["high"] is None else f" ± {f['high'] - f['mean']:.3f}" for f in figures
            ]
            cells = [f"{f['mean']:.3f}{half}" for f, half in zip(figures, halves, strict=True)]
            rows.append([method["title"], *cells])
        return ["method", *(f"α = {alpha}" for alpha in alphas)], rows
