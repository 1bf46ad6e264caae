"""Our one-fit curve of overall against worst error, compared with baselines.

Twenty cases: the classes of seventeen real tables, and the class × group cells of three of them.
Stratified random splits 70/30, at most 4,000 training and 10,000 test rows; classes of fewer than eight rows
are left out. Ours is fitted once per case and split. Two figures. The *regret over preferences*: for every
weight of the worst error both sides select among all their points by out-of-fold errors, see `_regret`. And
*dominance*: every baseline is compared with the point of our curve at the baseline's out-of-fold overall
error, and with a twin of ours. Test rows enter no selection. Groups are joint; groups with less than 5 % of
the rows are merged.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tailboost
from experiments._experiment import Cells, Experiment, Report, Settings, markdown, plus_minus
from experiments._opponents import AVERAGES, FOR_GROUPS, OF_MIXTURE, Answers, Bench, opponents
from experiments._regret import Case, Points, Regret, regret, twin_share
from experiments._tables import Data, load_all, split, without_rare_classes
from tailboost.app.report.comparison import joint_groups
from tailboost.classifiers.default_models import default_estimators
from tailboost.learners.named import plain_xgboost
from tailboost.rows.judged import label_shares

MAX_TRAIN, MAX_TEST, TEST_SIZE = 4_000, 10_000, 0.3
LEAST_SHARE = 0.05
WITHIN, WIDER = 0.005, 0.01
# Fractions of a twin's errors on our rows.
AGREEMENTS = (0.0, 0.7, 0.9)
CLASSES, CELLS = "classes", "cells"
JOINT = "joint"
#: Titles of the sets, and their group columns.
GROUPS = {
    "credit default": ("sex", "age_band"),
    "adult": ("sex", "race"),
    "COMPAS": ("sex", "race"),
}
#: Requested error budgets by title.
BUDGETS = {"error_budget=0": 0.0, "error_budget=0.02": 0.02, "error_budget=0.05": 0.05, "no budget": 1.0}
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


#: Cases with errors by class, quoted in the README.
SHOWN = ("credit default, classes",)
#: Our methods: constructors of classifiers with ``tradeoff()``.
OURS: dict[str, Callable[[Bench, str], Any]] = {
    "Robust mixture": robust_mixture,
}


def with_joint_groups(name: str, data: Data) -> Data:
    """Return a set with its groups as one column, or without rare classes if there are no groups."""
    if name not in GROUPS:
        return without_rare_classes(data)
    groups = joint_groups({column: data.groups[column] for column in GROUPS[name]}, LEAST_SHARE)
    return Data(data.X, data.y, {JOINT: groups})


def bench_of(data: Data, seed: int, n_jobs: int, most: int = MAX_TRAIN) -> Bench:
    """Draw a split."""
    rows = split(data, seed, TEST_SIZE, most, MAX_TEST)
    return Bench(rows, rows.train.groups.get(JOINT), rows.test.groups.get(JOINT), seed, n_jobs)


# -- one split -------------------------------------------------------------------------------------------


def units_of(y: NDArray[Any], groups: NDArray[Any] | None) -> NDArray[np.intp]:
    """Return the class number of each row, or the cell number with groups."""
    unit = np.unique(y, return_inverse=True)[1]
    if groups is not None:
        column = np.unique(groups, return_inverse=True)[1]
        unit = np.unique(unit * (column.max() + 1) + column, return_inverse=True)[1]
    return unit


def unit_means(y: NDArray[Any], groups: NDArray[Any] | None, losses: NDArray[Any]) -> list[float]:
    """Return the mean loss of each class, or of each cell with groups."""
    unit = units_of(y, groups)
    return [round(float(x), 5) for x in np.bincount(unit, weights=losses) / np.bincount(unit)]


def mean_and_worst(y: NDArray[Any], groups: NDArray[Any] | None, losses: NDArray[Any]) -> list[float]:
    """Return the mean loss and the largest mean loss of a class, or of a cell with groups."""
    return [round(float(losses.mean()), 5), max(unit_means(y, groups, losses))]


def _kinds(bench: Bench) -> tuple[str, ...]:
    return (CLASSES,) if bench.groups is None else (CLASSES, CELLS)


def of_opponents(bench: Bench, only: Collection[str] = ()) -> dict[str, Any]:
    """Fit every opponent, or some; return its points on test rows and out of fold for each kind of units."""
    found: dict[str, Any] = {kind: {} for kind in _kinds(bench)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for title, answers in opponents(bench, only):
            for kind in found:
                found[kind][title] = _of_answers(bench, answers, kind)
    return found


def against(points: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Leave out baselines for groups if only classes count: they would be weak."""
    return {title: point for title, point in points.items() if kind == CELLS or title not in FOR_GROUPS}


def _of_answers(bench: Bench, answers: Answers, kind: str) -> dict[str, Any]:
    train, test = bench.rows.train, bench.rows.test
    groups, test_groups = (bench.groups, bench.test_groups) if kind == CELLS else (None, None)
    return {
        "test": mean_and_worst(test.y, test_groups, answers.test != test.y),
        "units": unit_means(test.y, test_groups, answers.test != test.y),
        "out of fold": mean_and_worst(train.y, groups, answers.out_of_fold != train.y),
        "fit_seconds": round(answers.seconds, 3),
    }


def of_ours(
    bench: Bench, kind: str, make: Callable[[Bench, str], Any], theirs: Mapping[str, Any]
) -> dict[str, Any]:
    """Fit ours once; return the curve, requested points, and the matching point of each baseline.

    The matching point has the baseline's out-of-fold overall error.
    """
    train, test = bench.rows.train, bench.rows.test
    groups, test_groups = ({"groups": bench.groups}, bench.test_groups) if kind == CELLS else ({}, None)
    told = {} if test_groups is None else {"groups": test_groups}
    clf = make(bench, kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.process_time()
        clf.fit(train.X, train.y, **groups)
        fitted = time.process_time()
        curve = clf.tradeoff()
        overall, worst = curve.values
        at: dict[float, dict[str, Any]] = {}

        def asked_for(budget: float) -> dict[str, Any]:
            budget = round(budget, 4)
            if budget not in at:
                point = clf.reweight(error_budget=budget)
                wrong = np.asarray(point.predict(test.X)) != test.y
                shares = label_shares(point, test.X)
                own = shares[np.arange(len(test.y)), np.searchsorted(clf.classes_, test.y)]
                mean = float(np.clip(overall[0] + budget, overall[0], overall[-1]))
                at[budget] = {
                    "predict": mean_and_worst(test.y, test_groups, wrong),
                    "units": unit_means(test.y, test_groups, wrong),
                    "randomised": mean_and_worst(test.y, test_groups, 1.0 - own),
                    "out of fold": [round(float(np.interp(mean, overall, part)), 5)
                                    for part in (overall, worst)],
                }  # fmt: skip
            return at[budget]

        points = {}
        for title, their in theirs.items():
            wanted = float(np.clip(their["out of fold"][0], overall[0], overall[-1]))
            points[title] = asked_for(wanted - float(overall[0]))
        asked = {title: asked_for(budget) for title, budget in BUDGETS.items()}
        on_test = curve.predicted(test.X, test.y, **told)
    rest = round(time.process_time() - fitted, 3)
    return {
        "points": points,
        "asked": asked,
        "curve": {
            "out of fold": np.round(np.c_[overall, worst], 5).tolist(),
            "test": np.round(np.c_[on_test.limited, on_test.value], 5).tolist(),
        },
        "sizes": np.bincount(units_of(test.y, test_groups)).tolist(),
        "fit_seconds": round(fitted - began, 3),
        "points_seconds": rest,
    }


# -- all splits ------------------------------------------------------------------------------------------


def benches(settings: Settings, sets: Sequence[str]) -> Iterator[tuple[str, int, Bench, bool]]:
    """Yield the title of the set, the seed, the split, and whether a missing cell is computed now.

    All sets come with one seed, then with the next.

    Raises
    ------
    ValueError
        For an unknown set in ``settings.only``.
    """
    if unknown := set(settings.only).difference(sets):
        raise ValueError(f"--only: no set {min(unknown)!r} here; there are {', '.join(sets)}")
    data = {name: with_joint_groups(name, of) for name, of in load_all(settings.folder, sets).items()}
    for seed in range(settings.repeats):
        for name, of in data.items():
            chosen = name in (settings.only or sets) and settings.seed in (None, seed)
            yield name, seed, bench_of(of, seed, settings.n_jobs), chosen and not settings.late


def opponents_of(cells: Cells, title: str, seed: int, bench: Bench) -> dict[str, Any]:
    """Return the opponents' part of a split, which does not depend on ours; computed once."""
    return cells.get({"set": title, "seed": seed}, partial(of_opponents, bench))


def opponents_alone(settings: Settings, name: str = "tradeoff") -> Cells:
    """Compute the opponents' part of the experiment."""
    cells = Cells(settings, f"{name}-opponents", len(SETS) * settings.repeats)
    for title, seed, bench, _ in benches(settings, SETS):
        opponents_of(cells, title, seed, bench)
    return cells


@dataclass(frozen=True)
class Measured:
    """One split of a case: points of the baselines, results of ours, and their rows."""

    theirs: dict[str, Any]
    ours: dict[str, dict[str, Any]]
    n_train: int
    n_classes: int

    @property
    def sizes(self) -> list[int]:
        """Test rows of each unit."""
        sizes: list[int] = next(iter(self.ours.values()))["sizes"]
        return sizes


# Splits by case: the title of the set and the kind of units.
Found = dict[tuple[str, str], list[Measured]]


@dataclass(frozen=True)
class Pair:
    """A baseline and ours in one case, averaged over the splits.

    Parameters
    ----------
    case, opponent : str
    theirs : ndarray of shape (2,)
        Mean and worst error.
    ours : dict of ndarray of shape (2,)
        The same, by rule.
    units : ndarray of shape (U,)
        Our errors by subgroup.
    sizes : list of J lists of U int
        Test rows of each subgroup in each split.
    """

    case: str
    opponent: str
    theirs: NDArray[np.float64]
    ours: dict[str, NDArray[np.float64]]
    units: NDArray[np.float64]
    sizes: list[list[int]]

    @property
    def kind(self) -> str:
        """Whether the opponent chooses thresholds on out-of-fold probabilities: "tuned" or "untuned"."""
        return "tuned" if is_tuned(self.opponent) else "untuned"

    def twin(self, agreement: float) -> float:
        """Return the frequency of dominance over a classifier with our true errors."""
        return twin_share(self.sizes, self.units, agreement, WITHIN)

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
    """Compute missing cells within the time limit, and read all finished cells."""
    theirs = Cells(settings, f"{name}-opponents", len(SETS) * settings.repeats)
    cells = Cells(settings, name, (len(SETS) + len(set(GROUPS) & set(SETS))) * len(OURS) * settings.repeats)
    found: Found = {}
    left: dict[str, list[int]] = {}
    for title, seed, bench, wanted in benches(settings, SETS):
        keys = {
            (kind, method): {"set": title, "seed": seed, "units": kind, "method": method}
            for kind in _kinds(bench)
            for method in OURS
        }
        there = {"set": title, "seed": seed} in theirs and all(key in cells for key in keys.values())
        if not (there or wanted):
            left.setdefault(title, []).append(seed)
            continue
        measured = opponents_of(theirs, title, seed, bench)
        for kind in _kinds(bench):
            points = against(measured[kind], kind)
            ours = {
                method: cells.get(keys[kind, method], partial(of_ours, bench, kind, make, points))
                for method, make in OURS.items()
            }
            train = bench.rows.train
            found.setdefault((title, kind), []).append(
                Measured(points, ours, len(train.y), len(np.unique(train.y)))
            )
    if not found:
        raise ValueError("--max-time, --only, --seed: no split is computed, so there is nothing to read")
    return _report(settings, found, left)


RULES = ("predict", "randomised")
COLOURS = {"untuned": "C0", "tuned": "C1"}
VERDICTS = ("better", "equal", "elsewhere", "worse")


def case_of(title: str, kind: str) -> str:
    """Return the name of a case."""
    return f"{title}, {kind}"


def _pairs(found: Found, method: str) -> list[Pair]:
    pairs = []
    for (title, kind), splits in found.items():
        for opponent in splits[0].theirs:
            of = [split.ours[method]["points"][opponent] for split in splits]
            pairs.append(
                Pair(
                    case_of(title, kind),
                    opponent,
                    np.mean([split.theirs[opponent]["test"] for split in splits], axis=0),
                    {rule: np.mean([point[rule] for point in of], axis=0) for rule in RULES},
                    np.mean([point["units"] for point in of], axis=0),
                    [split.sizes for split in splits],
                )
            )
    return pairs


# -- regret ----------------------------------------------------------------------------------------------

#: Points of the baselines, by comparison.
SIDES: dict[str, Callable[[str], bool]] = {
    "all": lambda title: True,
    "as they are": lambda title: not is_tuned(title),
    "tuned": lambda title: is_tuned(title),
    "our five models, as they are, averaged, tuned": lambda title: is_of_our_models(title),
}


def is_tuned(title: str) -> bool:
    """Whether an opponent chooses thresholds on out-of-fold probabilities."""
    return "tuned" in title or "Threshold" in title


def is_of_our_models(title: str) -> bool:
    """Return whether a baseline consists of our models only."""
    return title.removesuffix(", tuned") in (*OF_MIXTURE, "average of our five")


def is_single(title: str) -> bool:
    """Return whether a baseline is one plain model."""
    return not is_tuned(title) and title not in (*AVERAGES, *FOR_GROUPS)


def preferences(found: Found, method: str, side: Callable[[str], bool]) -> Regret:
    """Return the regret over preferences of ours against the opponents of one side."""
    cases = {}
    for (title, kind), splits in found.items():
        pairs = []
        for measured in splits:
            theirs = [point for of, point in measured.theirs.items() if side(of)]
            curve = measured.ours[method]["curve"]
            pairs.append(
                (
                    Points.of(curve["out of fold"], curve["test"]),
                    Points.of([p["out of fold"] for p in theirs], [p["test"] for p in theirs]),
                )
            )
        n_test = sum(splits[0].sizes)
        cases[case_of(title, kind)] = Case(title, pairs, _scale(splits), n_test / splits[0].n_train)
    return regret(cases)


def _scale(splits: list[Measured]) -> float:
    """Return the difference between the random guess and the best single model at w = ½."""
    single = [title for title in splits[0].theirs if is_single(title)]
    best = min(np.mean([split.theirs[title]["test"] for split in splits]) for title in single)
    return float(1 - 1 / splits[0].n_classes - best)


def _row(pairs: list[Pair], rule: str) -> list[Any]:
    """Return the fractions of dominated pairs, the counts, and the mean differences."""
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


def _report(settings: Settings, found: Found, left: Mapping[str, list[int]]) -> Report:
    counts = {case_of(*case): len(splits) for case, splits in found.items()}
    parts = [about(counts, left)]
    summary: dict[str, Any] = {
        "repeats": settings.repeats, "within": WITHIN, "splits": counts, "not computed": left,
        "regret": {}, "twin": {}, "cases": {}, "points": _points(found),
    }  # fmt: skip
    kept = {method: _pairs(found, method) for method in OURS}
    for method in OURS:
        by_side = {
            side: preferences(found, method, of)
            for side, of in SIDES.items()
            if all(any(map(of, splits[0].theirs)) for splits in found.values())
        }
        parts.append(_regret_table(method, by_side, counts))
        summary["regret"][method] = {side: of.to_dict() for side, of in by_side.items()}
    parts.append(
        f"Dominated: mean and worst error of ours, at the opponent's out-of-fold mean error, are at most "
        f"{WITHIN:g} above theirs, averaged over the splits. Better: and theirs do not dominate ours in the "
        "same way; equal: both do; worse: only theirs do; elsewhere: neither. A twin is a classifier with "
        "our own true errors (drawn, on as many rows and splits), whose mistakes fall on the same rows as "
        "ours with the probability in the column: its share is what a method as good as the opponent "
        "reaches. The average tuned per group and ThresholdOptimizer are told the group at prediction, ours "
        "is not."
    )
    for method, pairs in kept.items():
        groups = {"all": pairs} | _by(pairs, lambda pair: pair.kind) | _by(pairs, lambda p: p.opponent)
        for rule in _rules(pairs):
            body = [[title, *_row(some, rule)] for title, some in groups.items()]
            parts.append(f"## {method}, {rule}\n\n" + markdown(["opponent", *HEADER], body))
            summary[f"{method}, {rule}"] = {str(row[0]): row[1:] for row in body}
        summary["twin"][method] = {f"{a:g}": float(np.mean([p.twin(a) for p in pairs])) for a in AGREEMENTS}
        shares = [f"{share:.0%} at an agreement of {a}" for a, share in summary["twin"][method].items()]
        parts.append(f"Of the same {len(pairs)} pairs ours would dominate a twin in {', '.join(shares)}.")
    body = []
    for (title, kind), splits in found.items():
        case = case_of(title, kind)
        row: list[Any] = [case, counts[case]]
        for method, pairs in kept.items():
            of_predict = _row([pair for pair in pairs if pair.case == case], "predict")
            row += [*of_predict[:3], *of_predict[-4:]]
            row.append(f"{np.mean([split.ours[method]['fit_seconds'] for split in splits]):.1f}")
        theirs = [split.theirs["average, tuned"]["fit_seconds"] for split in splits]
        body.append([*row, f"{np.mean(theirs):.1f}"])
        summary["cases"][case] = _numbers(kept, case)
    shown = ("opponents", *HEADER[1:3], *HEADER[-4:], "fit s")
    header = ["case", "splits"] + [f"{m}: {what}" for m in OURS for what in shown] + ["average, tuned: fit s"]
    parts.append("## By case, predict\n\n" + markdown(header, body))
    parts += [
        f"## {case}: errors of each class\n\n" + _class_table(points)
        for case, points in summary["points"].items()
        if case in SHOWN
    ]
    return Report("\n\n".join(parts), summary, partial(_picture, kept))


def about(counts: Mapping[str, int], left: Mapping[str, list[int]]) -> str:
    """Say how many splits there are, and which were not computed."""
    by_count: dict[int, list[str]] = {}
    for case, count in counts.items():
        by_count.setdefault(count, []).append(case)
    words = [f"{n} of each: {'; '.join(cases)}" for n, cases in sorted(by_count.items(), reverse=True)]
    text = f"Splits, {'. '.join(words)}."
    if left:
        missing = [f"{title} (seed {', '.join(map(str, seeds))})" for title, seeds in left.items()]
        text += f" Not computed: {'; '.join(missing)}."
    return text


def _regret_table(method: str, by_side: Mapping[str, Regret], counts: Mapping[str, int]) -> str:
    body = []
    for side, of in by_side.items():
        mean, low, high = of.unscaled
        row = [
            f"{of.mean:+.3f}",
            f"{of.low:+.3f} to {of.high:+.3f}",
            f"{mean:+.4f}",
            f"{low:+.4f} to {high:+.4f}",
        ]
        body.append([side, *row])
    header = ["points of theirs", "Δ", "95 %, bootstrap over tables", "Δ unscaled", "95 %"]
    parts = [
        f"## {method}: regret over preferences",
        "For every weight w of the worst error both sides take the point of their own with the least "
        "(1 − w) mean + w worst out of fold; Δ is the difference of the same on test rows, over all w, in "
        "units of what is between the coin flip and the best single model. Below 0 ours costs less. Of cells "
        "“all” and “tuned” have opponents that are told the group at prediction, which ours is not.",
        markdown(header, body),
    ]
    rows = [
        [case, counts[case], *(signed(*by_side[side].cases[case]) for side in by_side)] for case in counts
    ]
    parts += [
        "By case; ± half the 95 % interval, corrected for splits that share rows.",
        markdown(["case", "splits", *by_side], rows),
    ]
    return "\n\n".join(parts)


def signed(mean: float, half: float) -> str:
    """Return a mean with its sign, ± half of its interval if known."""
    return f"{mean:+.3f}" + (f" ± {half:.3f}" if np.isfinite(half) else "")


def _points(found: Found) -> dict[str, dict[str, list[list[float]]]]:
    """Return, for each case and title, [mean, worst] of each split; for two classes also each one's error."""
    points: dict[str, dict[str, list[list[float]]]] = {}
    for (title, kind), splits in found.items():
        two = kind == CLASSES and splits[0].n_classes == 2
        of_case: dict[str, list[list[float]]] = {}
        for measured in splits:
            asked = {
                f"{method}, {budget}": (point["predict"], point["units"])
                for method, ours in measured.ours.items()
                for budget, point in ours["asked"].items()
            }
            theirs = {of: (point["test"], point["units"]) for of, point in measured.theirs.items()}
            for of, (point, units) in (asked | theirs).items():
                of_case.setdefault(of, []).append(_four([*point, *units] if two else point))
        points[case_of(title, kind)] = of_case
    return points


def _class_table(points: Mapping[str, list[list[float]]]) -> str:
    """Return the table of errors of two classes: ± half the 95 % interval over splits."""
    body = [[of, *(plus_minus(column) for column in zip(*rows, strict=True))] for of, rows in points.items()]
    return markdown(["", "mean error", "worst class", "class 0", "class 1"], body)


def _rules(pairs: list[Pair]) -> tuple[str, ...]:
    """Return the different rules: a single candidate is not randomised."""
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
                points += [_four(pair.ours[rule]) for rule in _rules(pairs)]
    return numbers


def _four(point: Iterable[float]) -> list[float]:
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


EXPERIMENTS = (Experiment("tradeoff", "One curve beside what others do", play, repeats=5, has_jobs=True),)
