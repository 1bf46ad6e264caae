"""The worst class on tables beside the seventeen of `tradeoff`: opponents, points and regret as there.

Ours is `RobustMixtureClassifier` as it comes. All rows are drawn, stratified, at most 1,500 to train on and
4,000 to test; classes of fewer than eight rows are left out. Nothing about test rows enters a choice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_iris

import tailboost as tb
from experiments import tradeoff
from experiments._experiment import Cells, Experiment, Report, Settings, markdown
from experiments._opponents import Bench
from experiments._tables import LOADERS, Data, file_of, split, table, without_rare_classes
from experiments.field._tables import TABLES
from experiments.tradeoff import CLASSES, TEST_SIZE, Measured, against, of_opponents, of_ours, preferences

MAX_TRAIN, MAX_TEST = 1_500, 4_000
OURS = "Robust mixture"


def _of_field(name: str) -> Callable[[Path], Data]:
    def load(folder: Path) -> Data:
        found = TABLES[name](folder)
        return Data(found.X, found.y)

    return load


def _wisconsin(folder: Path) -> Data:
    import pandas as pd

    # EasyEnsemble takes no missing values: sixteen rows are left out.
    read = pd.read_csv(file_of(folder, "breast_cancer_wisconsin"), na_values="?").dropna()
    return Data(read.drop(columns=["id", "class"]), (read["class"] == 4).to_numpy().astype(np.intp))


SETS: dict[str, Callable[[Path], Data]] = {
    "iris": lambda folder: Data(*load_iris(return_X_y=True)),
    "breast cancer": LOADERS["breast cancer"],
    "breast cancer, Wisconsin": _wisconsin,
    "splice": table("splice_uci", "class"),
    "abalone, 11 ages": table("abalone", "rings", label=lambda rings: rings.clip(5, 15)),
    "higgs": LOADERS["higgs"],
    "law school": _of_field("law school"),
    "mortgages": _of_field("hmda"),
    "mushroom": table("mushroom", "label"),
    "wine, binary": LOADERS["wine, binary"],
}


def _ours(bench: Bench, units: str) -> Any:
    return tb.RobustMixtureClassifier(random_state=bench.seed, n_jobs=bench.n_jobs)


def _cell(settings: Settings, title: str, seed: int) -> dict[str, Any]:
    data = without_rare_classes(SETS[title](settings.folder))
    bench = Bench(split(data, seed, TEST_SIZE, MAX_TRAIN, MAX_TEST), None, None, seed, settings.n_jobs)
    theirs = against(of_opponents(bench)[CLASSES], CLASSES)
    ours = of_ours(bench, CLASSES, _ours, theirs)
    return {"theirs": theirs, "ours": ours, "rows": len(bench.rows.train.y), "classes": data.n_classes}


def play(settings: Settings, name: str) -> Report:
    """Compute what is missing, as far as the time goes, and read what is there."""
    cells = Cells(settings, name, len(SETS) * settings.repeats)
    found: dict[tuple[str, str], list[Measured]] = {}
    for title in SETS:
        for seed in range(settings.repeats):
            key = {"set": title, "seed": seed}
            if key not in cells and (settings.late or (settings.only and title not in settings.only)):
                continue
            got = cells.get(key, partial(_cell, settings, title, seed))
            one = Measured(got["theirs"], {OURS: got["ours"]}, got["rows"], got["classes"])
            found.setdefault((title, CLASSES), []).append(one)
    if not found:
        raise ValueError("--max-time, --only: no split is computed, so there is nothing to read")
    sides = {side: preferences(found, OURS, of).to_dict() for side, of in tradeoff.SIDES.items()}
    tables = {title: _summary(splits) for (title, _), splits in found.items()}
    return Report(_text(sides, tables), {"regret": sides, "tables": tables})


def _summary(splits: list[Measured]) -> dict[str, Any]:
    """Return [mean, worst] on test rows of ours and theirs, each without a budget and as chosen."""
    first, runs = splits[0], [split.ours[OURS] for split in splits]
    by_worst, by_mean = [], []
    for split_of in splits:
        points = split_of.theirs.values()
        by_worst.append(min(points, key=lambda p: p["out of fold"][::-1])["test"])
        by_mean.append(min(points, key=lambda p: p["out of fold"])["test"])
    asked = {
        title: [run["asked"][title]["predict"] for run in runs] for title in ("no budget", "mean_budget=0")
    }
    means = {
        "ours, no budget": asked["no budget"], "theirs for the worst class": by_worst,
        "ours, mean_budget=0": asked["mean_budget=0"], "theirs for the mean": by_mean,
    }  # fmt: skip
    theirs = [sum(p["fit_seconds"] for p in one.theirs.values()) for one in splits]
    return {
        "splits": len(splits),
        "classes": first.n_classes,
        "rows": first.n_train,
        "least rows of a class": min(min(one.sizes) for one in splits),
        **{title: np.mean(points, axis=0).tolist() for title, points in means.items()},
        "seconds": [float(np.mean([run["fit_seconds"] for run in runs])), float(np.mean(theirs))],
    }


def _text(sides: dict[str, Any], tables: dict[str, Any]) -> str:
    body = [
        [side, f"{of['mean']:+.3f}", f"{of['low']:+.3f} to {of['high']:+.3f}",
         f"{of['unscaled'][0]:+.4f}", f"{of['unscaled'][1]:+.4f} to {of['unscaled'][2]:+.4f}"]
        for side, of in sides.items()
    ]  # fmt: skip
    header = ["points of theirs", "regret", "95 %, bootstrap over tables", "unscaled", "95 %"]
    parts = ["Regret over preferences: below 0 ours costs less.\n\n" + markdown(header, body)]
    names = ("ours, no budget", "theirs for the worst class", "ours, mean_budget=0", "theirs for the mean")
    body = [
        [title, str(of["classes"]), str(of["rows"]), str(of["least rows of a class"]),
         *("{1:.3f} / {0:.3f}".format(*of[name]) for name in names), f"{of['seconds'][0]:.1f}",
         str(of["splits"])]
        for title, of in tables.items()
    ]  # fmt: skip
    header = ["table", "classes", "training rows", "least test rows of a class", *names, "seconds", "splits"]
    parts.append("Worst class / mean error on test rows, theirs chosen on training rows among all points.\n\n"
                 + markdown(header, body))  # fmt: skip
    return "\n\n".join(parts)


EXPERIMENT = Experiment(
    "field-classes", "The worst class on ten more tables, all opponents", play, repeats=1, has_jobs=True
)
