"""Errors on the selection data compared with errors on fresh rows, on fifteen sets.

Stratified random halves, at most 1,000 training and 4,000 test rows; classes of fewer than eight rows
are left out. Optimism is the value on the test rows minus the estimate: above 0 the estimate was too small.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from experiments._experiment import (
    Cells,
    Experiment,
    Report,
    Settings,
    markdown,
    mean_and_half_width,
    with_standard_error,
)
from experiments._tables import Data, Split, load_common_classes, split
from tailboost import AdaLPBoostClassifier, WorstClassBoostClassifier, metrics
from tailboost.rates.bounds import clopper_pearson_interval
from tailboost.rows.judged import label_shares

# Cells by method and set.
Found = dict[str, dict[str, list[dict[str, Any]]]]

MAX_TRAIN, MAX_TEST, TEST_SIZE = 1_000, 4_000, 0.5
ALPHA, TARGET = 0.5, 0.3
TABLES = (
    "ecoli", "glass", "yeast", "wine, red", "image segmentation", "page blocks", "wine, white",
    "credit default", "adult", "bank", "COMPAS", "spambase", "wine (178 rows)", "breast cancer", "digits",
)  # fmt: skip
# Classes by their rows.
ROWS = (
    ("fewer than 10", 0, 10), ("10 to 29", 10, 30), ("30 to 99", 30, 100), ("100 and more", 100, 10**9),
    ("all", 0, 10**9),
)  # fmt: skip
UNITS_HEADER = (
    "rows of the class", "classes", "optimism", "width", "test error inside",
    "inside but for the test's noise", "above but for it",
)  # fmt: skip
WORST, AIMED = "worst class", "worst class, target .3"
# One candidate answers, so the randomised rule is `predict`; group DRO over the classes is the same fit.
INTERVALS = ((WORST, "predict", "`predict`"), (AIMED, "predict", "`predict`"))
TOLERANCE = 1e-9
METHODS: dict[str, Callable[..., Any]] = {
    "AdaLPBoost, CVaR at .5": partial(AdaLPBoostClassifier, alpha=ALPHA),
    WORST: WorstClassBoostClassifier,
    AIMED: partial(WorstClassBoostClassifier, max_error=TARGET),
}


def _cell(rows: Split, make: Callable[..., Any], seed: int, n_jobs: int) -> dict[str, Any]:
    """Return the errors on the rows of the choice and on fresh rows."""
    train, test = rows.train, rows.test
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = make(random_state=seed, n_jobs=n_jobs).fit(train.X, train.y)
        said, labels, shares = clf.summary_, clf.predict(test.X), label_shares(clf, test.X)
        found: dict[str, Any] = {"said": said.achieved}
        expected = max(metrics.class_errors(test.y, shares).values())
        if isinstance(clf, AdaLPBoostClassifier):
            return found | {"true": metrics.cvar_zero_one_loss(test.y, shares, ALPHA)}
        found["true"] = expected
        found["units"] = _units(clf, test, labels)
        of_predict = max(metrics.class_errors(test.y, labels).values())
        found |= {
            "said of predict": float(np.nanmax(np.array(list(clf.subgroup_errors_.values())))),
            "true of predict": of_predict,
        }
        if clf.max_error != "auto":
            found |= {"bound met": bool(clf.limits_met_), "kept": bool(of_predict <= TARGET)}
        return found


def _units(clf: Any, test: Data, labels: Any) -> list[dict[str, Any]]:
    """Return the error of each class on the rows of the choice, its interval, and the error on test rows."""
    predicted = metrics.class_errors(test.y, labels)
    found = []
    for line in clf.summary_.errors.of_rule("predict"):
        n_test = int((test.y == line.subgroup).sum())
        if n_test and not np.isnan(line.value):
            of = [line.value, None if np.isnan(line.low) else (line.low, line.high), predicted[line.subgroup]]
            found.append({"rows": int(line.rows), "test rows": n_test, "predict": of})
    return found


def _covers(unit: dict[str, Any], who: str) -> tuple[bool, bool, bool]:
    """Return whether the interval contains the test error, whether the difference is noise, and its sign.

    A test error is noisy, too. The interval of a difference of two errors adds the squared distances to their
    limits (Newcombe 1998).
    """
    value, ends, true = unit[who]
    low, high = (float(end) for end in clopper_pearson_interval(true, unit["test rows"]))
    above = true - value > np.hypot(ends[1] - value, true - low) + TOLERANCE
    below = value - true > np.hypot(value - ends[0], high - true) + TOLERANCE
    inside = ends[0] - TOLERANCE <= true <= ends[1] + TOLERANCE
    return inside, not (above or below), bool(above)


def _coverage(cells: list[dict[str, Any]], who: str) -> list[list[str]]:
    """Return the coverage of the classes' intervals: by number of rows, then of all."""
    units = [u for cell in cells for u in cell["units"] if u[who][1] is not None]
    body = []
    for title, low, high in ROWS:
        some = [u for u in units if low <= u["rows"] < high]
        if not some:
            continue
        told = np.array([_covers(u, who) for u in some])
        before = np.mean([u[who][2] - u[who][0] for u in some])
        width = np.mean([u[who][1][1] - u[who][1][0] for u in some])
        inside, fair, above = told.mean(axis=0)
        body.append(
            [title, f"{len(some)}", f"{before:+.3f}", f"{width:.2f}", f"{inside:.3f}",
             f"{fair:.3f}", f"{above:.3f}"]
        )  # fmt: skip
    return body


def play(settings: Settings, name: str) -> Report:
    """Compute missing cells and read all cells."""
    data = load_common_classes(settings.folder, TABLES)
    cells = Cells(settings, name, len(data) * settings.repeats * len(METHODS))
    found: Found = {title: {table: [] for table in data} for title in METHODS}
    for seed in range(settings.repeats):
        for table, of in data.items():
            rows = split(of, seed, TEST_SIZE, MAX_TRAIN, MAX_TEST)
            for title, make in METHODS.items():
                key = {"set": table, "seed": seed, "method": title}
                found[title][table].append(cells.get(key, partial(_cell, rows, make, seed, settings.n_jobs)))
    return _report(settings, found)


def _gap(cells: list[dict[str, Any]], said: str, true: str = "true") -> float:
    """Return the mean of test value minus estimate, over the splits with an estimate."""
    gaps = [cell[true] - cell[said] for cell in cells if cell[said] is not None]
    return float(np.mean(gaps)) if gaps else float("nan")


def _over_sets(by_table: dict[str, list[dict[str, Any]]], said: str, true: str = "true") -> list[float]:
    gaps = [_gap(cells, said, true) for cells in by_table.values()]
    return [gap for gap in gaps if np.isfinite(gap)]


def _of_set(cells: list[dict[str, Any]], who: str) -> str:
    of_splits = [[u for u in cell["units"] if u[who][1] is not None] for cell in cells]
    told = [_covers(u, who)[1] for units in of_splits for u in units]
    if not told:
        return "–"
    worst = [max(units, key=lambda u: u[who][2])[who] for units in of_splits if units]
    return f"{np.mean([w[2] - w[0] for w in worst]):+.3f}, {np.mean(told):.2f}"


def _of_methods(found: Found) -> tuple[str, dict[str, Any]]:
    """Return the differences of fresh errors from errors on the selection data: the table, and by method."""
    body, summary = [], dict[str, Any]()
    for title, by_table in found.items():
        said = _over_sets(by_table, "said")
        body.append([title, len(said), with_standard_error(said, 3), f"{np.mean(np.abs(said)):.3f}"])
        summary[title] = {"sets": len(said), "optimism": mean_and_half_width(said)[0]}
    header = ["method", "sets", "optimism", "mean distance"]
    return markdown(header, body), summary


def _of_targets(found: Found) -> tuple[str, dict[str, int]]:
    """Return how often the target was met on the rows of the choice, and kept on the test rows."""
    aimed = [cell for cells in found[AIMED].values() for cell in cells]
    met = [cell["kept"] for cell in aimed if cell["bound met"]]
    missed = [cell["kept"] for cell in aimed if not cell["bound met"]]
    text = (
        f"`limits_met_` with the target {TARGET:g}: met in {len(met)} of {len(aimed)} fits, and kept on "
        f"the test rows in {sum(met)} of them; missed in {len(missed)}, of which {sum(missed)} were "
        "kept all the same."
    )
    counts = {"met": len(met), "kept": sum(met), "missed": len(missed), "kept though": sum(missed)}
    return text, counts


def _report(settings: Settings, found: Found) -> Report:
    table, summary = _of_methods(found)
    targets, counts = _of_targets(found)
    of_predict = [
        [title, with_standard_error(_over_sets(found[title], "said of predict", "true of predict"), 3)]
        for title in (WORST, AIMED)
    ]
    tables = list(found[WORST])
    each = [[name, *(f"{_gap(found[title][name], 'said'):+.3f}" for title in METHODS)] for name in tables]
    parts = [
        table,
        "Of `subgroup_errors_`, which is about `predict`:\n\n" + markdown(["method", "optimism"], of_predict),
        targets,
        "Optimism of `summary_.achieved` on each set:\n\n" + markdown(["set", *METHODS], each),
    ]
    for title, who, words in INTERVALS:
        by_rows = _coverage([cell for of_set in found[title].values() for cell in of_set], who)
        parts.append(f"Classes and their intervals, {title}, {words}:\n\n" + markdown(UNITS_HEADER, by_rows))
        summary[title][f"intervals of {who}"] = [
            {UNITS_HEADER[0]: rows, **dict(zip(UNITS_HEADER[1:], map(float, numbers), strict=True))}
            for rows, *numbers in by_rows
        ]
    by_set = [[name, *(_of_set(found[title][name], who) for title, who, _ in INTERVALS)] for name in tables]
    heads = [f"{title}, {who}" for title, who, _ in INTERVALS]
    parts.append(
        "On each set: test minus selection error of the class with the largest test error, mean over the "
        "splits, and the share of all classes whose interval covers:\n\n" + markdown(["set", *heads], by_set)
    )
    return Report("\n\n".join(parts), {"repeats": settings.repeats} | summary | {"bound met": counts})


EXPERIMENTS = (
    Experiment(
        "optimism",
        "What is said of the rows of the choice, and what comes true on fresh rows",
        play,
        repeats=3,
    ),
)
