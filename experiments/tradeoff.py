"""Our one-fit curve of mean against worst error beside what others do, at the same out-of-fold mean.

Twenty cases: the classes of seventeen real tables, and the class × group cells of three of them.
Stratified random splits 70/30, at most 4,000 training and 10,000 test rows; classes of fewer than eight rows
are left out. Ours is fitted once per case and split. For every opponent the point of our curve is taken that
has the opponent's out-of-fold mean error on the curve; nothing about the test rows enters the choice. Groups
are joint ones; those with less than 5 % of the rows are one group.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tailboost
from experiments._experiment import Cells, Experiment, Report, Settings, markdown
from experiments._opponents import FOR_GROUPS, Answers, Bench, opponents
from experiments._tables import Data, load_all, split, without_rare_classes
from tailboost.baselines import plain_xgboost
from tailboost.mixture import default_estimators
from tailboost.report.comparison import joint_groups

MAX_TRAIN, MAX_TEST, TEST_SIZE = 4_000, 10_000, 0.3
LEAST_SHARE = 0.05
WITHIN, WIDER = 0.005, 0.01
CLASSES, CELLS = "classes", "cells"
JOINT = "joint"
#: Titles of the set, and the columns whose values make its groups.
GROUPS = {
    "credit default": ("sex", "age_band"),
    "adult": ("sex", "race"),
    "COMPAS": ("sex", "race"),
}
SETS = (
    "wine (178 rows)", "glass", "ecoli", "german credit", "yeast", "wine, red", "digits",
    "image segmentation", "spambase", "page blocks", "COMPAS", "credit default", "adult", "bank",
    "wine, white", "w8a", "letter",
)  # fmt: skip


def robust_mixture(bench: Bench, units: str) -> Any:
    """Make ours over the default models, XGBoost and LightGBM, one member of which answers alone."""
    from lightgbm import LGBMClassifier

    common: dict[str, Any] = {"random_state": bench.seed, "n_jobs": bench.n_jobs}
    models = [
        *default_estimators(),
        ("xgb", plain_xgboost(**common)),
        ("lightgbm", LGBMClassifier(verbose=-1, **common)),
    ]
    objective = "worst_class" if units == CLASSES else "worst_cell"
    make: Any = tailboost.RobustMixtureClassifier
    return make(models, objective=objective, random_state=bench.seed)


#: What is ours: makers of classifiers with ``tradeoff()``, whose curve gives a classifier ``at`` a budget.
OURS: dict[str, Callable[[Bench, str], Any]] = {
    "Robust mixture": robust_mixture,
}


def with_joint_groups(name: str, data: Data) -> Data:
    """Return a set whose groups, if it has any here, are one column; else without rare classes."""
    if name not in GROUPS:
        return without_rare_classes(data)
    groups = joint_groups({column: data.groups[column] for column in GROUPS[name]}, LEAST_SHARE)
    return Data(data.X, data.y, {JOINT: groups})


def bench_of(data: Data, seed: int, n_jobs: int) -> Bench:
    """Draw a split."""
    rows = split(data, seed, TEST_SIZE, MAX_TRAIN, MAX_TEST)
    return Bench(rows, rows.train.groups.get(JOINT), rows.test.groups.get(JOINT), seed, n_jobs)


# -- one split -------------------------------------------------------------------------------------------


def mean_and_worst(y: NDArray[Any], groups: NDArray[Any] | None, losses: NDArray[Any]) -> list[float]:
    """Return the mean loss and the largest mean loss of a class, or of a cell where groups are given."""
    unit = np.unique(y, return_inverse=True)[1]
    if groups is not None:
        column = np.unique(groups, return_inverse=True)[1]
        unit = np.unique(unit * (column.max() + 1) + column, return_inverse=True)[1]
    of_units = np.bincount(unit, weights=losses) / np.bincount(unit)
    return [round(float(losses.mean()), 5), round(float(of_units.max()), 5)]


def _kinds(bench: Bench) -> tuple[str, ...]:
    return (CLASSES,) if bench.groups is None else (CLASSES, CELLS)


def of_opponents(bench: Bench) -> dict[str, Any]:
    """Fit every opponent; return, for each kind of units, its points on test rows and out of fold."""
    found: dict[str, Any] = {kind: {} for kind in _kinds(bench)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for title, answers in opponents(bench):
            for kind in found:
                found[kind][title] = _of_answers(bench, answers, kind)
    return found


def against(points: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Leave out, where only classes count, opponents that are about groups: they would be easy to beat."""
    return {title: point for title, point in points.items() if kind == CELLS or title not in FOR_GROUPS}


def _of_answers(bench: Bench, answers: Answers, kind: str) -> dict[str, Any]:
    train, test = bench.rows.train, bench.rows.test
    groups, test_groups = (bench.groups, bench.test_groups) if kind == CELLS else (None, None)
    return {
        "test": mean_and_worst(test.y, test_groups, answers.test != test.y),
        "out of fold": mean_and_worst(train.y, groups, answers.out_of_fold != train.y),
        "fit_seconds": round(answers.seconds, 3),
    }


def of_ours(
    bench: Bench, kind: str, make: Callable[[Bench, str], Any], theirs: Mapping[str, Any]
) -> dict[str, Any]:
    """Fit ours once; return, for each opponent, our point with the opponent's out-of-fold mean error."""
    train, test = bench.rows.train, bench.rows.test
    groups, test_groups = ({"groups": bench.groups}, bench.test_groups) if kind == CELLS else ({}, None)
    clf = make(bench, kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        clf.fit(train.X, train.y, **groups)
        fitted = time.perf_counter()
        curve = clf.tradeoff()
        at: dict[float, dict[str, Any]] = {}
        points = {}
        for title, their in theirs.items():
            wanted = float(np.clip(their["out of fold"][0], curve.mean[0], curve.mean[-1]))
            budget = round(wanted - float(curve.mean[0]), 4)
            if budget not in at:
                point = curve.at(budget)
                labels, shares = point.predict(test.X), point.predict_proba(test.X)
                own = shares[np.arange(len(test.y)), np.searchsorted(clf.classes_, test.y)]
                at[budget] = {
                    "predict": mean_and_worst(test.y, test_groups, np.asarray(labels) != test.y),
                    "randomised": mean_and_worst(test.y, test_groups, 1.0 - own),
                    "out of fold": [round(float(np.interp(wanted, curve.mean, part)), 5)
                                    for part in (curve.mean, curve.worst)],
                }  # fmt: skip
            points[title] = at[budget]
    rest = round(time.perf_counter() - fitted, 3)
    return {"points": points, "fit_seconds": round(fitted - began, 3), "points_seconds": rest}


# -- all splits ------------------------------------------------------------------------------------------


def benches(settings: Settings) -> Iterator[tuple[str, int, Bench]]:
    """Yield the title of the set, the seed, and the split: all sets with one seed, then with the next."""
    data = {name: with_joint_groups(name, of) for name, of in load_all(settings.folder, SETS).items()}
    for seed in range(settings.repeats):
        for name, of in data.items():
            yield name, seed, bench_of(of, seed, settings.n_jobs)


def opponents_alone(settings: Settings, name: str = "tradeoff") -> Cells:
    """Compute the opponents' part of the experiment, which does not depend on ours."""
    cells = Cells(settings, f"{name}-opponents", len(SETS) * settings.repeats)
    for title, seed, bench in benches(settings):
        cells.get({"set": title, "seed": seed}, partial(of_opponents, bench))
    return cells


@dataclass(frozen=True)
class Pair:
    """An opponent and ours in one case: (mean, worst) of each, averaged over the splits."""

    case: str
    opponent: str
    theirs: NDArray[np.float64]
    ours: dict[str, NDArray[np.float64]]

    @property
    def kind(self) -> str:
        """Whether the opponent chooses thresholds on out-of-fold probabilities: "tuned" or "untuned"."""
        return "tuned" if "tuned" in self.opponent or "Threshold" in self.opponent else "untuned"

    def dominated(self, rule: str, within: float = WITHIN) -> bool:
        """Whether neither number of ours is above theirs by more than ``within``."""
        return bool((self.ours[rule] <= self.theirs + within).all())

    def verdict(self, rule: str) -> str:
        """Return "better", "equal", "worse" or "elsewhere", by who dominates whom within `WITHIN`."""
        we = self.dominated(rule)
        they = bool((self.theirs <= self.ours[rule] + WITHIN).all())
        return {(True, False): "better", (True, True): "equal", (False, True): "worse"}.get(
            (we, they), "elsewhere"
        )


def play(settings: Settings, name: str) -> Report:
    """Compute what is missing and read it."""
    theirs = opponents_alone(settings, name)
    cells = Cells(settings, name, (len(SETS) + len(set(GROUPS) & set(SETS))) * len(OURS) * settings.repeats)
    found: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for title, seed, bench in benches(settings):
        measured = theirs.get({"set": title, "seed": seed}, partial(of_opponents, bench))
        for kind in _kinds(bench):
            points = against(measured[kind], kind)
            ours = {
                method: cells.get(
                    {"set": title, "seed": seed, "units": kind, "method": method},
                    partial(of_ours, bench, kind, make, points),
                )
                for method, make in OURS.items()
            }
            found.setdefault(f"{title}, {kind}", []).append((points, ours))
    return _report(settings, found)


RULES = ("predict", "randomised")
COLOURS = {"untuned": "C0", "tuned": "C1"}
VERDICTS = ("better", "equal", "elsewhere", "worse")


def _pairs(found: Mapping[str, Any], method: str) -> list[Pair]:
    pairs = []
    for case, splits in found.items():
        for opponent in splits[0][0]:
            theirs = np.mean([points[opponent]["test"] for points, _ in splits], axis=0)
            ours = {
                rule: np.mean([own[method]["points"][opponent][rule] for _, own in splits], axis=0)
                for rule in RULES
            }
            pairs.append(Pair(case, opponent, theirs, ours))
    return pairs


def _row(pairs: list[Pair], rule: str) -> list[Any]:
    """Return the shares of pairs that ours dominates, the counts, and the mean differences."""
    verdicts = [pair.verdict(rule) for pair in pairs]
    shares = [f"{np.mean([pair.dominated(rule, w) for pair in pairs]):.0%}" for w in (WITHIN, WIDER)]
    less = np.array([pair.ours[rule] - pair.theirs for pair in pairs])
    won = [f"{(d < -WITHIN).sum()}/{(abs(d) <= WITHIN).sum()}/{(d > WITHIN).sum()}" for d in less.T]
    counts = [verdicts.count(verdict) for verdict in VERDICTS]
    return [len(pairs), *shares, *counts, *won, *(f"{d:+.3f}" for d in less.mean(axis=0))]


HEADER = [
    "cases", "dominated", f"within {WIDER:g}", *VERDICTS, "mean won/tied/lost", "worst won/tied/lost",
    "mean, ours less theirs", "worst, ours less theirs",
]  # fmt: skip


def _by(pairs: list[Pair], key: Callable[[Pair], str]) -> dict[str, list[Pair]]:
    groups: dict[str, list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(key(pair), []).append(pair)
    return groups


def _report(settings: Settings, found: dict[str, Any]) -> Report:
    parts = [
        f"Dominated: mean and worst error of ours are at most {WITHIN:g} above theirs, averaged over the "
        f"splits (here {settings.repeats}). Better: and theirs do not dominate ours in the same way; equal: "
        "both do; worse: only theirs do; elsewhere: neither. The average tuned per group and "
        "ThresholdOptimizer are told the group at prediction, ours is not."
    ]
    summary: dict[str, Any] = {"repeats": settings.repeats, "within": WITHIN, "cases": {}}
    kept = {method: _pairs(found, method) for method in OURS}
    for method, pairs in kept.items():
        for rule in _rules(pairs):
            body = [["all", *_row(pairs, rule)]]
            body += [[kind, *_row(some, rule)] for kind, some in _by(pairs, lambda pair: pair.kind).items()]
            body += [[title, *_row(some, rule)] for title, some in _by(pairs, lambda p: p.opponent).items()]
            parts.append(f"## {method}, {rule}\n\n" + markdown(["opponent", *HEADER], body))
            summary[f"{method}, {rule}"] = {str(row[0]): row[1:] for row in body}
    body = []
    for case, splits in found.items():
        row = [case]
        for method, pairs in kept.items():
            of_case = [pair for pair in pairs if pair.case == case]
            of_predict = _row(of_case, "predict")
            row += [*of_predict[:3], *of_predict[-4:]]
            row.append(f"{np.mean([own[method]['fit_seconds'] for _, own in splits]):.1f}")
        theirs = [points["average, tuned"]["fit_seconds"] for points, _ in splits]
        body.append([*row, f"{np.mean(theirs):.1f}"])
        summary["cases"][case] = _numbers(kept, case)
    shown = ("opponents", *HEADER[1:3], *HEADER[-4:], "fit s")
    header = ["case"] + [f"{m}: {what}" for m in OURS for what in shown] + ["average, tuned: fit s"]
    parts.append("## By case, predict\n\n" + markdown(header, body))
    return Report("\n\n".join(parts), summary, partial(_picture, kept))


def _rules(pairs: list[Pair]) -> tuple[str, ...]:
    """Return the rules to be told apart: one member alone does not draw."""
    first, *others = RULES
    same = all(np.array_equal(pair.ours[first], pair.ours[rule]) for pair in pairs for rule in others)
    return RULES[:1] if same else RULES


def _numbers(kept: Mapping[str, list[Pair]], case: str) -> dict[str, list[list[float]]]:
    """Return for every opponent of a case the means over splits: theirs, then ours by method and rule."""
    numbers: dict[str, list[list[float]]] = {}
    for pairs in kept.values():
        for pair in pairs:
            if pair.case == case:
                points = numbers.setdefault(pair.opponent, [_four(pair.theirs)])
                points += [_four(pair.ours[rule]) for rule in RULES]
    return numbers


def _four(point: NDArray[np.float64]) -> list[float]:
    return [round(float(x), 4) for x in point]


def _picture(kept: Mapping[str, list[Pair]], plt: Any) -> Any:
    figure, axes = plt.subplots(
        1, len(kept), figsize=(5 * len(kept), 4.5), squeeze=False, layout="constrained"
    )
    for axis, (method, pairs) in zip(axes[0], kept.items(), strict=True):
        for kind, some in _by(pairs, lambda pair: pair.kind).items():
            less = np.array([pair.ours["predict"] - pair.theirs for pair in some])
            axis.plot(*less.T, ".", color=COLOURS[kind], alpha=0.6, label=f"{kind} opponents")
        axis.axvline(WITHIN, color="0.7", lw=0.8)
        axis.axhline(WITHIN, color="0.7", lw=0.8)
        axis.set(title=f"{method}, predict", xlabel="mean error, ours less theirs")
    axes[0, 0].set_ylabel("worst class or cell, ours less theirs")
    axes[0, 0].legend()
    return figure


EXPERIMENTS = (
    Experiment(
        "tradeoff", "One curve beside what others do, at the same out-of-fold mean error", play, repeats=5
    ),
)
