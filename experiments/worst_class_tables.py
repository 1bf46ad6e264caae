"""The worst class of ours and of baselines on twelve tables, paired: the same splits, every baseline tuned.

Splits, baselines and the robust mixture come from the finished cells of `tradeoff`: stratified
70/30, at most 4,000 training and 10,000 test rows. Classes with fewer than eight rows are left out (ecoli:
omL, imL, imS; yeast: ERL; white wine: quality 9): a stratified test set would have two of them at most.
"Tuned": class weights with the smallest worst-class error out of fold, for any number of classes.
The average of our five is one model with tuned class weights, without our other steps.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments import tradeoff
from experiments._experiment import Cells, Experiment, Report, Settings, markdown
from experiments._opponents import Bench
from experiments._regret import corrected_half_width
from experiments.tradeoff import CLASSES, against, mean_and_worst
from tailboost import WorstClassBoostClassifier

SETS = (
    "ecoli", "glass", "yeast", "wine, red", "image segmentation", "page blocks", "wine, white",
    "credit default", "adult", "bank", "w8a", "letter",
)  # fmt: skip
OURS, MIXTURE = "Worst-class boosting", "Robust mixture"
SAME_POOL, AVERAGE = "average of our five, tuned", "average, tuned"
CHOSEN = "theirs chosen on training rows"

# [mean, worst] on test rows of each split, by title.
Runs = dict[str, list[list[float]]]


def measure(bench: Bench) -> dict[str, Any]:
    """Fit ours with its defaults and measure `predict` on the test rows."""
    train, test = bench.rows.train, bench.rows.test
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = WorstClassBoostClassifier(random_state=bench.seed, n_jobs=bench.n_jobs).fit(train.X, train.y)
    return {
        "test": mean_and_worst(test.y, None, np.asarray(clf.predict(test.X)) != test.y),
        "fit_seconds": round(time.process_time() - began, 3),
    }


def play(settings: Settings, name: str) -> Report:
    """Compute missing cells within the time limit, and read all finished cells."""
    theirs, mixtures = Cells(settings, "tradeoff-opponents"), Cells(settings, "tradeoff")
    ours = Cells(settings, name, len(SETS) * settings.repeats)
    found: dict[str, Runs] = {}
    shares, left = dict[str, float](), dict[str, list[int]]()
    for title, seed, bench, wanted in tradeoff.benches(settings, SETS):
        key = {"set": title, "seed": seed}
        mixed = key | {"units": CLASSES, "method": MIXTURE}
        if not (wanted or (key in theirs and mixed in mixtures and key in ours)):
            left.setdefault(title, []).append(seed)
            continue
        points = against(tradeoff.opponents_of(theirs, title, seed, bench)[CLASSES], CLASSES)
        make = tradeoff.OURS[MIXTURE]
        mixture = mixtures.get(mixed, partial(tradeoff.of_ours, bench, CLASSES, make, points))
        chosen = min(points.values(), key=lambda point: point["out of fold"][::-1])
        measured = {
            OURS: ours.get(key, partial(measure, bench))["test"],
            MIXTURE: mixture["asked"]["no budget"]["predict"],
            CHOSEN: chosen["test"],
        }
        for method, point in (measured | {title: p["test"] for title, p in points.items()}).items():
            found.setdefault(title, {}).setdefault(method, []).append(point)
        shares[title] = len(bench.rows.test.y) / len(bench.rows.train.y)
    if not found:
        raise ValueError("--max-time, --only, --seed: no split is computed, so there is nothing to read")
    return _report(settings, found, shares, left)


def less(runs: Runs, method: str, other: str, test_to_train: float) -> tuple[float, float]:
    """Return the mean of the worst class of a method less another's, and half its corrected 95 % interval."""
    difference = _worst(runs[method]) - _worst(runs[other])
    return float(difference.mean()), corrected_half_width(difference, test_to_train)


def _worst(points: list[list[float]]) -> NDArray[np.float64]:
    return np.array(points)[:, 1]


def _report(
    settings: Settings, found: Mapping[str, Runs], shares: Mapping[str, float], left: Mapping[str, list[int]]
) -> Report:
    parts = [tradeoff.about({title: len(runs[OURS]) for title, runs in found.items()}, left)]
    summary: dict[str, Any] = {"repeats": settings.repeats, "not computed": left, "sets": {}, "less": {}}
    opponents = (SAME_POOL, AVERAGE, CHOSEN)
    for method in (OURS, MIXTURE):
        body, differences = [], dict[str, list[list[float]]]()
        for title, runs in found.items():
            row = [title, len(runs[method]), _both(runs[method])]
            for other in opponents:
                mean, half = less(runs, method, other, shares[title])
                differences.setdefault(other, []).append([mean, half])
                row += [_both(runs[other]), tradeoff.signed(mean, half)]
            body.append(row)
        header = ["set", "splits", f"{method}: worst / mean"]
        header += [text for other in opponents for text in (f"{other}: worst / mean", "worst, ours less it")]
        parts.append(f"## {method}, no budget\n\n" + markdown(header, body))
        parts.append("\n".join(f"* {_count(other, of)}" for other, of in differences.items()))
        summary["less"][method] = {
            other: dict(zip(found, of, strict=True)) for other, of in differences.items()
        }
    for title, runs in found.items():
        in_order = sorted(runs, key=lambda method: _worst(runs[method]).mean())
        summary["sets"][title] = {method: np.mean(runs[method], axis=0).tolist() for method in in_order}
        body = [[method, *(f"{x:.3f}" for x in summary["sets"][title][method][::-1])] for method in in_order]
        parts.append(f"## {title}\n\n" + markdown(["method", "worst class", "mean error"], body))
    return Report("\n\n".join(parts), summary)


def _both(points: list[list[float]]) -> str:
    mean, worst = np.mean(points, axis=0)
    return f"{worst:.3f} / {mean:.3f}"


def _count(other: str, differences: list[list[float]]) -> str:
    """Return the numbers of sets with a lower worst class of ours, and outside the interval."""
    mean, half = np.array(differences).T
    known = np.isfinite(half)
    beyond = abs(mean[known]) > half[known]
    below = int((mean[known] < 0)[beyond].sum())
    return (
        f"Worst class beside {other}: lower on {(mean < 0).sum()} of {len(mean)} sets, higher on "
        f"{(mean > 0).sum()}; mean difference {mean.mean():+.3f}. Of {known.sum()} sets with an interval, "
        f"beyond it lower on {below}, higher on {int(beyond.sum()) - below}."
    )


EXPERIMENTS = (
    Experiment("worst-class-tables", "the worst class on twelve tables", play, repeats=5, has_jobs=True),
)
