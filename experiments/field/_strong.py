"""`RobustMixtureClassifier` with its default estimators and with ``estimators="strong"``, on 39 tables.

The tables are those of `tradeoff` and of `field-classes`. The baselines are five models, each as it is and
with class weights tuned out of fold. The strong estimators were selected on eleven of the `tradeoff` tables;
the report separates the others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from sklearn.metrics import log_loss

import tailboost as tb
from experiments import tradeoff
from experiments._experiment import Cells, Experiment, Report, Settings, markdown
from experiments._opponents import Bench, opponent_probabilities
from experiments._tables import LOADERS, Data, without_rare_classes
from experiments.field._classes import MOST, SETS, STRONGEST
from experiments.tradeoff import CLASSES, Measured, of_opponents, of_ours, preferences
from tailboost.rows.rows import Rows
from tailboost.selection.outputs import Average, logs_of

#: Our methods, and their estimators.
OURS: dict[str, Any] = {"default": None, "strong": "strong"}
TABLES = {**{title: LOADERS[title] for title in tradeoff.SETS}, **SETS}
#: Tables on which the strong estimators were selected.
SELECTED_ON = (
    "wine (178 rows)", "glass", "ecoli", "german credit", "yeast", "wine, red", "digits",
    "image segmentation", "spambase", "page blocks", "COMPAS",
)  # fmt: skip
#: "All": against all points of the baselines; "tuned": against those with tuned weights.
SIDES = ("all", "tuned")


def bench_of(settings: Settings, title: str, seed: int) -> Bench:
    """Draw a split of a table."""
    data = TABLES[title](settings.folder)
    return tradeoff.bench_of(without_rare_classes(Data(data.X, data.y)), seed, settings.n_jobs, MOST)


def _same(classifier: Any, bench: Bench, kind: str) -> Any:
    return classifier


def rows_of(y: Any) -> Rows:
    """Return rows of weight 1 with these class numbers."""
    return Rows(y, np.ones(len(y)), None, "rows")


def loss(logs: Any, y: Any) -> float:
    """Return the log loss of log-probabilities, shape (n, K)."""
    return float(-logs[np.arange(len(y)), y].mean())


def curve_of(clf: Any, X: Any, y: Any) -> dict[str, Any]:
    """Return (overall, worst) of the points of a trade-off, on its own rows and on test rows."""
    curve = clf.tradeoff()
    found = {"out of fold": curve.values, "test": curve.predicted(X, y)}
    return {side: np.round(np.c_[points.limited, points.value], 5).tolist() for side, points in found.items()}


def baselines_of(bench: Callable[[], Bench]) -> dict[str, Any]:
    """Return the points of the baselines, their log losses, and our rules on the best one's probabilities.

    Log losses are those with a sharpness and offsets of the classes learned out of fold. The best has the
    least log loss out of fold.
    """
    made = bench()
    points = of_opponents(made, STRONGEST)[CLASSES]
    train, test, losses, given = made.rows.train, made.rows.test, {}, {}
    for title, P in opponent_probabilities(made, STRONGEST).items():
        held = logs_of(P.out_of_fold)
        average = Average.learned([held], rows_of(train.y))
        losses[title] = {
            "out of fold": loss(average.of([held]), train.y),
            "test": loss(average.of([logs_of(P.test)]), test.y),
        }
        given[title] = P
    best = min(losses, key=lambda title: losses[title]["out of fold"])
    mix = tb.RobustMixtureClassifier.from_probabilities({best: given[best].out_of_fold}, train.y)
    rules = curve_of(mix, {best: given[best].test}, test.y)
    return {"theirs": points, "log loss": losses, "best": best, "our rules": rules}


def _cell(bench: Callable[[], Bench], settings: Settings, seed: int) -> dict[str, Any]:
    rows, found = bench().rows, {}
    for name, estimators in OURS.items():
        clf = tb.RobustMixtureClassifier(estimators, random_state=seed, n_jobs=settings.n_jobs)
        found[name] = of_ours(bench(), CLASSES, partial(_same, clf), {})
        P = clf.predict_proba(rows.test.X)
        found[name]["log loss"] = float(log_loss(rows.test.y, P, labels=clf.classes_))
    return {"ours": found, "rows": len(rows.train.y), "classes": len(np.unique(rows.train.y))}


def play(settings: Settings, name: str) -> Report:
    """Compute missing cells within the time limit, and read all finished cells."""
    # The part of the baselines does not depend on our models.
    theirs = Cells(settings, f"{name}-baselines", len(TABLES) * settings.repeats)
    cells = Cells(settings, name, len(TABLES) * settings.repeats)
    found: dict[str, list[dict[str, Any]]] = {}
    for seed in range(settings.repeats):
        for title in TABLES:
            key = {"set": title, "seed": seed}
            there = key in cells and key in theirs
            if there or not (settings.late or (settings.only and title not in settings.only)):
                bench = cache(partial(bench_of, settings, title, seed))
                baselines = theirs.get(key, partial(baselines_of, bench))
                ours = cells.get(key, partial(_cell, bench, settings, seed))
                found.setdefault(title, []).append({"theirs": baselines["theirs"]} | ours)
    if not found:
        raise ValueError("--max-time, --only: no split is computed, so there is nothing to read")
    others = {title: splits for title, splits in found.items() if title not in SELECTED_ON}
    parts = {"all tables": found, "tables without a part in the selection": others}
    regrets = {
        part: {name: {side: _regret(tables, name, side) for side in SIDES} for name in OURS}
        for part, tables in parts.items()
        if tables
    }
    differences = {part: _differences(tables) for part, tables in parts.items() if tables}
    by_table = {title: _row(splits, regrets["all tables"], title) for title, splits in found.items()}
    return Report(_text(regrets, differences, by_table), {
        "regret": regrets, "strong less default": differences, "tables": by_table,
    })  # fmt: skip


def _regret(tables: dict[str, list[dict[str, Any]]], name: str, side: str) -> dict[str, Any]:
    cases = {
        (title, CLASSES): [Measured(x["theirs"], x["ours"], x["rows"], x["classes"]) for x in splits]
        for title, splits in tables.items()
    }
    return preferences(cases, name, tradeoff.SIDES[side]).to_dict()


def _numbers(method: dict[str, Any]) -> dict[str, float]:
    """Return log loss, overall error with a budget of 0, worst class without a budget, seconds of a fit."""
    return {
        "log loss": method["log loss"],
        "overall error, budget 0": method["asked"]["error_budget=0"]["predict"][0],
        "worst class, no budget": method["asked"]["no budget"]["predict"][1],
        "seconds": method["fit_seconds"],
    }


def _differences(tables: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the mean over tables of strong less default, with half of a 95 % interval over tables."""
    rows: dict[str, list[float]] = {}
    for splits in tables.values():
        each = [{name: _numbers(x["ours"][name]) for name in OURS} for x in splits]
        for key in each[0]["strong"]:
            rows.setdefault(key, []).append(
                float(np.mean([one["strong"][key] - one["default"][key] for one in each]))
            )
    return {key: mean_over_tables(np.array(values)) for key, values in rows.items()}


def mean_over_tables(v: Any) -> dict[str, Any]:
    """Return the mean over tables, half of its 95 % interval, and the number of tables below 0."""
    half = 1.96 * v.std(ddof=1) / np.sqrt(len(v)) if len(v) > 1 else np.nan
    return {"mean": float(v.mean()), "half": float(half), "lower on": int((v < 0).sum()), "tables": len(v)}


def _row(splits: list[dict[str, Any]], regrets: dict[str, Any], title: str) -> dict[str, Any]:
    row: dict[str, Any] = {"splits": len(splits), "rows": splits[0]["rows"], "classes": splits[0]["classes"]}
    for name in OURS:
        each = [_numbers(x["ours"][name]) for x in splits]
        row[name] = {key: float(np.mean([one[key] for one in each])) for key in each[0]}
        row[name]["regret"] = regrets[name]["all"]["cases"][tradeoff.case_of(title, CLASSES)][0]
    row["seconds of theirs"] = float(
        np.mean([sum(p["fit_seconds"] for p in x["theirs"].values()) for x in splits])
    )
    return row


def _text(regrets: Any, differences: Any, by_table: dict[str, Any]) -> str:
    body = [
        [part, name, side, f"{of['mean']:+.3f}", f"{of['low']:+.3f} to {of['high']:+.3f}",
         f"{of['unscaled'][0]:+.4f}", f"{of['unscaled'][1]:+.4f} to {of['unscaled'][2]:+.4f}"]
        for part, methods in regrets.items() for name, sides in methods.items() for side, of in sides.items()
    ]  # fmt: skip
    header = ["tables", "estimators", "points of theirs", "regret", "95 %", "unscaled", "95 %"]
    parts = [
        "Regret over preferences against all points of ten baselines; below 0 ours costs less. The unit is "
        "the range from a random guess to the best single model. Intervals are from a bootstrap over "
        "tables.\n\n" + markdown(header, body)
    ]
    body = [
        [part, key, f"{of['mean']:+.4f} ± {of['half']:.4f}", f"{of['lower on']} of {of['tables']}"]
        for part, keys in differences.items() for key, of in keys.items()
    ]  # fmt: skip
    header = ["tables", "number", "strong less default, ± 95 % over tables", "lower on"]
    parts.append(markdown(header, body))
    ordered = sorted(by_table.items(), key=lambda item: -np.nan_to_num(item[1]["strong"]["regret"], nan=-9.0))
    body = [
        [title, str(row["classes"]), str(row["rows"]),
         *("{:+.3f} / {:+.3f}".format(*(row[name]["regret"] for name in OURS)),
           *("{:.3f} / {:.3f}".format(*(row[name][key] for name in OURS)) for key in list(row["strong"])[:3]),
           "{:.1f} / {:.1f} / {:.1f}".format(*(row[n]["seconds"] for n in OURS), row["seconds of theirs"])),
         str(row["splits"])]
        for title, row in ordered
    ]  # fmt: skip
    header = ["table", "classes", "rows", "regret, default / strong", "log loss", "overall error, budget 0",
              "worst class, no budget", "seconds, default / strong / theirs", "splits"]  # fmt: skip
    return "\n\n".join([*parts, "Tables where strong loses come first.\n\n" + markdown(header, body)])


EXPERIMENT = Experiment("field-strong", "Default and strong estimators", play, has_jobs=True)
