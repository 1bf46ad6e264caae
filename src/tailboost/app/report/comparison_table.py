"""The results of a comparison as one sentence and one table."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tailboost.app.report.results import LEAST_SPLITS, Results, resampled_interval
from tailboost.core.rate_words import rounded_away
from tailboost.core.spelling import how_many

ComparedMethod = Mapping[str, Any]  # an entry of "methods" in the document

# Numbers are printed with three decimals. Smaller differences are printed as 0.000.
NO_DIFFERENCE = 5e-4
WORST_CLASS_COLUMN = "worst_class_error"
WORST_GROUP = "worst_group_error"
WORDS = {WORST_CLASS_COLUMN: "worst class", WORST_GROUP: "worst group"}


@dataclass(frozen=True)
class Cell:
    """Mean of a measure over the splits, and half its 95 % interval (None for few splits).

    ``mark`` is "best" for the lowest number of a column, "lower" or "higher" for a significant difference.
    """

    text: str
    half: float | None
    mark: str = ""


class MethodRow(NamedTuple):
    """One method with a cell per column."""

    method: ComparedMethod
    cells: list[Cell | None]  # None: the method has no number


@dataclass(frozen=True)
class Difference:
    """Worst error of one of our methods minus that of a baseline, at the overall error of the baseline.

    ``ours_at`` and ``baseline_at`` are pairs of overall error and worst error. ``interval`` is simultaneous
    for all differences of a document.
    """

    ours: ComparedMethod
    baseline: ComparedMethod
    ours_at: tuple[float, ...]
    baseline_at: tuple[float, ...]
    interval: Mapping[str, Any]

    @property
    def cell(self) -> Cell:
        """The difference for the table, marked if its interval excludes 0."""
        mean = self.interval["mean"]
        half = _half(self.interval)
        if abs(mean) < NO_DIFFERENCE:  # not "−0.000"
            return Cell("0.000", half)
        mark = ""
        if half is not None and abs(mean) > half:
            mark = "lower" if mean < 0 else "higher"
        return Cell(f"{mean:+.3f}".replace("-", "−"), half, mark)

    @property
    def verdict(self) -> str:
        """Whether ours is better, in a word; "difference" without an interval."""
        if self.cell.half is None:
            return "difference"
        return {"lower": "better", "higher": "worse", "": "not significant"}[self.cell.mark]

    @property
    def words(self) -> str:
        """The difference and its interval, in percentage points."""
        mean = 100 * self.interval["mean"]
        half = self.cell.half
        interval = f"no interval from {how_many(self.interval['n'], 'split')}"
        if half is not None:
            low = max(mean - 100 * half, -100.0)  # errors differ by at most 100 points
            high = min(mean + 100 * half, 100.0)
            low, high = rounded_away(low, 1, above=False), rounded_away(high, 1, above=True)
            interval = f"95 % interval {low:.1f} to {high:.1f}"
        return f"difference {mean:+.1f} percentage points, {interval}".replace(" -", " −")


class ComparisonTable:
    """The document of a comparison, as a table.

    Parameters
    ----------
    results : Results or dict
        Returned by `compare`, or read from JSON.
    """

    def __init__(self, results: Results | Mapping[str, Any]) -> None:
        self.document = results.document if isinstance(results, Results) else results
        self.data = self.document["data"]
        self.settings = self.document["settings"]

    @cached_property
    def finished(self) -> list[ComparedMethod]:
        """Methods with at least one finished fit."""
        return [m for m in self.document["methods"] if m["figures"]]

    def finished_methods(self, *, ours: bool) -> list[ComparedMethod]:
        """Return our finished methods, or the baselines."""
        return [m for m in self.finished if m["ours"] is ours]

    @property
    def has_intervals(self) -> bool:
        """Whether there are enough splits for intervals."""
        return bool(self.settings["repeats"] >= LEAST_SPLITS)

    @cached_property
    def random_error(self) -> float:
        """Expected error of a random guess, 1 − 1/K."""
        return 1 - 1 / len(self.data["classes"])

    @property
    def answers(self) -> str:
        """A sentence: the methods with the expected loss of a randomised rule in the CVaR."""
        randomized = [method["title"] for method in self.finished if method["randomized"]]
        if not randomized:
            return "Losses are those of predict, never of probabilities."
        return (
            f"Losses of {', '.join(randomized)} are expected under the label distribution of a "
            "randomised rule; all others are losses of predict, never of probabilities."
        )

    @cached_property
    def measures(self) -> dict[str, tuple[str, ...]]:
        """The path of keys to each measure in the document, by column heading.

        A CVaR is left out if no method is better than a random guess.
        """
        measures: dict[str, tuple[str, ...]] = {
            "error": ("error",),
            "worst class": (WORST_CLASS_COLUMN,),
        }
        for name in self.data["groups"]:
            measures[f"worst by {name}"] = ("worst_group_errors", name)
        for alpha in self.settings["alphas"]:
            path = ("cvar", f"{alpha:g}")
            if self._lowest(path) < self.random_error:
                measures[f"CVaR {alpha:g}"] = path
        return measures

    def _lowest(self, path: tuple[str, ...]) -> float:
        """Return the lowest printed mean of a measure; 1 without finished methods."""
        return min((round(figure_of(m, *path)["mean"], 3) for m in self.finished), default=1.0)

    @cached_property
    def columns(self) -> list[str]:
        """Headings of the table, after the column of methods."""
        return [*self.measures, *(f"Δ {WORDS[worst]}" for worst in self.references), "fit, s"]

    @cached_property
    def rows(self) -> list[MethodRow]:
        """Rows of the table, in the order of the document."""
        rows = []
        for method in self.finished:
            cells: list[Cell | None] = []
            for path in self.measures.values():
                figure = figure_of(method, *path)
                lowest = self._lowest(path)
                beats_guess = lowest < self.random_error - NO_DIFFERENCE
                mark = ""
                if beats_guess and round(figure["mean"], 3) == lowest:
                    mark = "best"
                cells.append(Cell(f"{figure['mean']:.3f}", _half(figure), mark))
            for worst in self.references:
                difference = self.differences.get((worst, method["name"]))
                cells.append(None if difference is None else difference.cell)
            seconds = method["figures"]["fit_seconds"]
            cells.append(Cell(f"{seconds['mean']:.3f}", _half(seconds)))
            rows.append(MethodRow(method, cells))
        return rows

    def curve(self, method: ComparedMethod, worst: str) -> list[Any]:
        """Return the test results of a method: one entry per point of its trade-off, or a single entry.

        The trade-off of a method trained on groups is about the worst group. Other methods have a
        trade-off with the worst class.
        """
        by_group = bool(self.data["groups"]) and method["uses_groups"]
        if (worst == WORST_GROUP) == by_group and method["figures"].get("tradeoff"):
            return list(method["figures"]["tradeoff"])
        return [method["figures"]]

    @cached_property
    def references(self) -> dict[str, ComparedMethod]:
        """Our method of the comparisons with the baselines, by kind of worst error.

        Among our methods with a trade-off, this is the one with the lowest worst error. Without a trade-off
        methods are compared by the worst class only. There is none without a baseline.
        """
        references: dict[str, ComparedMethod] = {}
        ours = self.finished_methods(ours=True)
        if not self.finished_methods(ours=False):
            return references
        for worst in WORDS:
            eligible = [method for method in ours if len(self.curve(method, worst)) > 1]
            if worst == WORST_CLASS_COLUMN and not eligible:
                eligible = ours
            if eligible:
                references[worst] = min(eligible, key=lambda m: figure_of(m, worst)["mean"])
        return references

    @cached_property
    def differences(self) -> dict[tuple[str, str], Difference]:
        """Difference to each baseline, by kind of worst error and name of the baseline.

        A baseline with a lower overall error than each point of our trade-off is left out. If its overall
        error is above our trade-off, the end of the trade-off is compared.
        """
        compared = []
        for worst, ours in self.references.items():
            for baseline in self.finished_methods(ours=False):
                place = self._place_on_curve(ours, baseline, worst)
                if place is not None and _shared_records(ours, baseline):
                    compared.append((worst, ours, baseline, place))
        return {
            (worst, baseline["name"]): self._difference(
                worst, ours, baseline, place, n_compared=len(compared)
            )
            for worst, ours, baseline, place in compared
        }

    def _difference(
        self,
        worst: str,
        ours: ComparedMethod,
        baseline: ComparedMethod,
        place: float,
        n_compared: int,
    ) -> Difference:
        """Return the difference of worst errors of our method and a baseline at equal overall error.

        Parameters
        ----------
        worst : str
            Key of the worst error, of a class or of a group.
        ours, baseline : ComparedMethod
            The methods.
        place : float
            Place on our trade-off: 1.5 is in the middle between its second and its third point.
        n_compared : int
            Number of comparisons that hold together.
        """
        points = self.curve(ours, worst)  # one point for a method without a trade-off

        def at_place(values: Sequence[float]) -> float:
            return float(np.interp(place, range(len(values)), values))

        on_splits = []
        for our_record, baseline_record in _shared_records(ours, baseline):
            our_points = [our_record] if len(points) == 1 else our_record["tradeoff"]
            worst_on_split = at_place([point[worst] for point in our_points])
            on_splits.append(worst_on_split - baseline_record[worst])
        keys = ("error", worst)
        our_means = tuple(at_place([point[key]["mean"] for point in points]) for key in keys)
        baseline_means = tuple(figure_of(baseline, key)["mean"] for key in keys)
        interval = self._interval_of(on_splits, worst, n_compared)
        return Difference(ours, baseline, our_means, baseline_means, interval)

    def _interval_of(
        self, on_splits: Sequence[float], worst: str, n_compared: int
    ) -> Mapping[str, Any]:
        """Return mean and interval of a difference of worst errors from its values on the splits."""
        test_size = self.settings["test_size"]
        n_rows = self.data["class_counts"]
        if worst == WORST_GROUP:
            n_rows = [n for counts in self.data["groups"].values() for n in counts.values()]
        n_test = max(1.0, test_size * min(n_rows))  # rows of the error, about
        interval = resampled_interval(
            on_splits, test_size / (1 - test_size), step=1 / n_test, tests=n_compared
        )
        half = _half(interval)
        if half is not None and half >= 1.0:  # every possible difference would be inside
            interval |= {"low": None, "high": None}
        return interval

    def _place_on_curve(
        self, ours: ComparedMethod, baseline: ComparedMethod, worst: str
    ) -> float | None:
        """Return the place of our trade-off with the overall error of a baseline: 1.5 is between two points.

        If the trade-off ends at lower errors, the place is its end; None if all our errors are larger.
        """
        errors = [point["error"]["mean"] for point in self.curve(ours, worst)]
        target = baseline["figures"]["error"]["mean"]
        if target < min(errors) - NO_DIFFERENCE:
            return None
        for j, (left, right) in enumerate(itertools.pairwise(errors)):
            if min(left, right) <= target <= max(left, right) and left != right:
                return j + (target - left) / (right - left)
        return float(np.abs(np.subtract(errors, target)).argmin())

    @cached_property
    def headline(self) -> Difference | None:
        """Difference to the baseline with the lowest worst-class error; None without baselines."""
        by_class = [
            d for (worst, _), d in self.differences.items() if worst == WORST_CLASS_COLUMN
        ]
        return min(by_class, key=lambda d: d.baseline_at[1], default=None)

    @cached_property
    def sentence(self) -> str:
        """The comparison in one sentence."""
        if not self.finished:
            return "No fit was finished."
        if not (self.finished_methods(ours=True) and self.finished_methods(ours=False)):
            return "The comparison needs at least one of our methods and one baseline."
        if self.headline is None:
            return "Each baseline has a lower overall error than our methods; no errors are compared."
        compared = self.headline
        error, worst = compared.ours_at
        baseline_error, baseline_worst = compared.baseline_at
        ours = compared.ours["title"]
        baseline = compared.baseline["title"]
        difference = compared.words
        if compared.verdict == "not significant":
            difference += ", not significant"
        if abs(error - baseline_error) < NO_DIFFERENCE:
            return (
                f"At an overall error of {100 * baseline_error:.1f} %, {ours} has a "
                f"worst-class error of {100 * worst:.1f} %, {baseline} of "
                f"{100 * baseline_worst:.1f} % ({difference})."
            )
        return (
            f"{ours} has a worst-class error of {100 * worst:.1f} % at an overall error of "
            f"{100 * error:.1f} %, {baseline} of {100 * baseline_worst:.1f} % at "
            f"{100 * baseline_error:.1f} % ({difference})."
        )

    @property
    def problems(self) -> list[str]:
        """A sentence for an interruption, each method left out, and each failed method."""
        methods = self.document["methods"]
        repeats = self.settings["repeats"]
        sentences = []
        if self.document["status"] != "complete":
            n_finished = sum(len(method["repeats"]) for method in methods)
            fits = f"{n_finished} of {repeats * len(methods)} fits"
            sentences.append(f"The comparison was interrupted: {fits} are finished.")
        for method in self.document["left_out"]:
            sentences.append(f"{method['title']} is not in the comparison: {method['reason']}")
        for method in methods:
            failures = method["failures"]
            if failures:
                splits = f"{len(failures)} of {repeats} splits"
                sentences.append(
                    f"{method['title']} failed on {splits}: {failures[0]['error']}"
                )
        return sentences

    @property
    def warnings(self) -> list[str]:
        """The warnings of the fits; messages with other numbers alone appear once per method."""
        by_words: dict[str, str] = {}
        for method in self.document["methods"]:
            for warning in method["warnings"]:
                message = f"{method['title']}: {warning}"
                # Replaces numbers such as 1,234.5 and 1e-3.
                without_numbers = re.sub(r"[\d.,]*\d(e[+-]?\d+)?", "0", message)
                by_words.setdefault(without_numbers, message)
        return list(by_words.values())

    def shown_first(self, most: int) -> list[ComparedMethod]:
        """Return at most ``most`` methods for the charts: compared ones first, then by worst-class error."""
        compared = list(self.references.values())
        if self.headline is not None:
            compared.append(self.headline.baseline)
        order = sorted(
            self.finished,
            key=lambda m: (m not in compared, figure_of(m, WORST_CLASS_COLUMN)["mean"]),
        )
        return order[:most]


def figure_of(method: ComparedMethod, *path: str) -> Any:
    """Return one result of a method, under nested keys; None if a key is absent."""
    figure = method["figures"]
    for key in path:
        figure = None if figure is None else figure.get(key)
    return figure


def _half(figure: Mapping[str, Any]) -> float | None:
    """Return half the width of an interval; None without one."""
    if figure["high"] is None:
        return None
    return float(figure["high"] - figure["mean"])


def _shared_records(
    ours: ComparedMethod, baseline: ComparedMethod
) -> Sequence[tuple[Any, Any]]:
    """Return pairs of records of the splits on which both methods finished."""
    of_baseline = {record["repeat"]: record for record in baseline["repeats"]}
    return [
        (record, of_baseline[record["repeat"]])
        for record in ours["repeats"]
        if record["repeat"] in of_baseline
    ]
