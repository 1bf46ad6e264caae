"""The worst class on more tables than the seventeen of `tradeoff`, with the same splits, points and regret.

Ours is `RobustMixtureClassifier` with default settings. Baselines are four models and an average, plain and
with class weights tuned out of fold. Test rows enter no selection. No default of ours was selected on `NEW`
tables. Defaults were compared on rows of `KNOWN` tables, with other labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_iris

import tailboost as tb
from experiments import tradeoff
from experiments._experiment import Cells, Experiment, Report, Settings, markdown
from experiments._opponents import Bench
from experiments._tables import LOADERS, Data, file_of, table, without_rare_classes
from experiments.field._tables import TABLES
from experiments.tradeoff import CLASSES, JOINT, LEAST_SHARE, Measured, of_opponents, of_ours, preferences
from tailboost.app.report.comparison import joint_groups

OURS = "Robust mixture"
#: Baselines: five of the 28 of `tradeoff`, each also tuned.
STRONGEST = ("XGBoost", "LightGBM", "forest", "balanced forest", "average")
# Training rows, at most.
MOST = 2_000
# Images are read as means of squares of this many pixels a side.
SQUARE = 4


def _of_field(name: str, groups: Sequence[str] = ()) -> Callable[[Path], Data]:
    def load(folder: Path) -> Data:
        found = TABLES[name](folder)
        if found.of is not None:  # a person's first row; the others resemble it
            found = found.rows(np.sort(np.unique(found.of, return_index=True)[1]))
        joint = joint_groups({of: found.groups[of] for of in groups}, LEAST_SHARE) if groups else None
        return Data(found.X, found.y, {} if joint is None else {JOINT: joint})

    return load


def _wisconsin(folder: Path) -> Data:
    import pandas as pd

    # Some opponents take no missing values: sixteen rows are left out.
    read = pd.read_csv(file_of(folder, "breast_cancer_wisconsin"), na_values="?").dropna()
    return Data(read.drop(columns=["id", "class"]), (read["class"] == 4).to_numpy().astype(np.intp))


def _images(name: str) -> Callable[[Path], Data]:
    """Make the loader of the training rows of a file of images, 7 × 7 means of squares."""

    def load(folder: Path) -> Data:
        with np.load(folder / f"{name}.npz") as kept:
            X, y = kept["x_train"], kept["y_train"]
        n, side = len(X), X.shape[1] // SQUARE
        means = X.reshape(n, side, SQUARE, side, SQUARE).mean(axis=(2, 4))
        return Data(means.reshape(n, -1), y.astype(np.intp))

    return load


def _one(name: str, target: str, label: Callable[[Any], Any], drop: Iterable[str] = ()) -> Any:
    """Return a loader of a table with the rare class 1, as in imbalanced-learn's collection."""
    return table(name, target, drop, label=lambda column: label(column).astype(int))


NEW: dict[str, Callable[[Path], Data]] = {
    "iris": lambda folder: Data(*load_iris(return_X_y=True)),
    "breast cancer": LOADERS["breast cancer"],
    "breast cancer, Wisconsin": _wisconsin,
    "splice": table("splice_uci", "class"),
    "abalone, 11 ages": table("abalone", "rings", label=lambda rings: rings.clip(5, 15)),
    "abalone, sex": table("abalone", "sex"),
    "abalone, 7 rings": _one("abalone", "rings", lambda rings: rings == 7),
    "abalone, 19 rings": _one("abalone", "rings", lambda rings: rings == 19),
    "law school": _of_field("law school", ["race", "male"]),
    "mortgages": _of_field("hmda"),
    "patients": _of_field("diabetes", ["race", "sex"]),
    "acs income": _of_field("acs income", ["race of 4", "sex"]),
    "acs coverage": _of_field("acs coverage", ["race of 4", "sex"]),
    "mushroom": table("mushroom", "label"),
    "MNIST": _images("mnist"),
    "pneumonia": _images("pneumoniamnist"),
}
KNOWN: dict[str, Callable[[Path], Data]] = {
    "higgs": LOADERS["higgs"],
    "wine, binary": LOADERS["wine, binary"],
    "wine, at most 4": _one("winequality_white", "quality", lambda quality: quality <= 4),
    "yeast, ME2": _one("yeast", "class", lambda place: place == "ME2", ["name"]),
    "ecoli, imU": _one("ecoli", "class", lambda place: place == "imU", ["name"]),
    "letter, Z": _one("letter", "lettr", lambda letter: letter == "Z"),
}
SETS = NEW | KNOWN
#: New tables on which the logistic regression was found missing among the default models.
MISSED = ("abalone, 11 ages", "abalone, sex", "mortgages")


def rows_of(title: str, folder: Path) -> Data:
    """Return a table, without rare classes if there are no groups."""
    data = SETS[title](folder)
    return data if data.groups else without_rare_classes(data)


def _ours(bench: Bench, units: str) -> Any:
    return tb.RobustMixtureClassifier(random_state=bench.seed, n_jobs=bench.n_jobs)


def _cell(settings: Settings, title: str, seed: int) -> dict[str, Any]:
    data = rows_of(title, settings.folder)
    bench = tradeoff.bench_of(data, seed, settings.n_jobs, MOST)
    points = of_opponents(bench, STRONGEST)
    theirs = points[CLASSES]
    ours = of_ours(bench, CLASSES, _ours, theirs)
    return {
        "theirs": theirs, "ours": ours, "points": points, "rows": len(bench.rows.train.y),
        "classes": data.n_classes,
    }  # fmt: skip


def play(settings: Settings, name: str) -> Report:
    """Compute missing cells within the time limit, and read all finished cells."""
    cells = Cells(settings, name, len(SETS) * settings.repeats)
    found: dict[tuple[str, str], list[Measured]] = {}
    for seed in range(settings.repeats):
        for title in SETS:
            key = {"set": title, "seed": seed}
            if key not in cells and (settings.late or (settings.only and title not in settings.only)):
                continue
            got = cells.get(key, partial(_cell, settings, title, seed))
            one = Measured(got["theirs"], {OURS: got["ours"]}, got["rows"], got["classes"])
            found.setdefault((title, CLASSES), []).append(one)
    if not found:
        raise ValueError("--max-time, --only: no split is computed, so there is nothing to read")
    # "new": the tables on which nothing was chosen.
    of_new = {case: splits for case, splits in found.items() if case[0] in NEW}
    unseen = {case: splits for case, splits in of_new.items() if case[0] not in MISSED}
    sides = {
        f"{side}{which}": preferences(cases, OURS, tradeoff.SIDES[side]).to_dict()
        for which, cases in (("", found), (", new tables", of_new), (f", new but {len(MISSED)}", unseen))
        for side in ("all", "as they are", "tuned")
        if cases
    }
    costs = sides["all"]["cases"]
    tables = {
        title: {"regret": costs[tradeoff.case_of(title, kind)]} | _summary(splits)
        for (title, kind), splits in found.items()
    }
    seconds = sum(of["splits"] * sum(of["seconds"]) for of in tables.values())
    return Report(
        _text(sides, tables), {"regret": sides, "tables": tables, "processor hours of fits": seconds / 3600}
    )


def _summary(splits: list[Measured]) -> dict[str, Any]:
    """Return [mean, worst] on test rows of ours and theirs, each without a budget and as chosen."""
    first, runs = splits[0], [split.ours[OURS] for split in splits]
    by_worst, by_mean = [], []
    for split_of in splits:
        points = split_of.theirs.values()
        by_worst.append(min(points, key=lambda p: p["out of fold"][::-1])["test"])
        by_mean.append(min(points, key=lambda p: p["out of fold"])["test"])
    asked = {
        title: [run["asked"][title]["predict"] for run in runs] for title in ("no budget", "error_budget=0")
    }
    means = {
        "ours, no budget": asked["no budget"], "theirs for the worst class": by_worst,
        "ours, error_budget=0": asked["error_budget=0"], "theirs for the mean": by_mean,
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


def _regret(mean: float, half: float) -> str:
    return tradeoff.signed(mean, half) if np.isfinite(mean) else "–"


def _text(sides: dict[str, Any], tables: dict[str, Any]) -> str:
    body = [
        [side, f"{of['mean']:+.3f}", f"{of['low']:+.3f} to {of['high']:+.3f}",
         f"{of['unscaled'][0]:+.4f}", f"{of['unscaled'][1]:+.4f} to {of['unscaled'][2]:+.4f}"]
        for side, of in sides.items()
    ]  # fmt: skip
    header = ["points of theirs", "regret", "95 %, bootstrap over tables", "unscaled", "95 %"]
    but = f"“But {len(MISSED)}” leaves out where a default model was found missing: {'; '.join(MISSED)}."
    parts = [f"Regret over preferences: below 0 ours costs less. {but}\n\n" + markdown(header, body)]
    names = ("ours, no budget", "theirs for the worst class", "ours, error_budget=0", "theirs for the mean")
    # Tables without a unit come last.
    worst_first = sorted(tables.items(), key=lambda item: -np.nan_to_num(item[1]["regret"][0], nan=-np.inf))
    body = [
        [title, str(of["classes"]), str(of["rows"]), str(of["least rows of a class"]),
         _regret(*of["regret"]), *("{1:.3f} / {0:.3f}".format(*of[name]) for name in names),
         "{:.1f} / {:.1f}".format(*of["seconds"]), str(of["splits"])]
        for title, of in worst_first
    ]  # fmt: skip
    header = ["table", "classes", "training rows", "least test rows of a class", "regret", *names,
              "seconds, ours / theirs", "splits"]  # fmt: skip
    parts.append(
        "Where we lose comes first. Regret against all their points, ± half the 95 % interval where there "
        "are two splits, – where no single model of theirs beats the coin, so that there is no unit; worst "
        "class / mean error on test rows, theirs chosen on training rows among all "
        "points; seconds of the processor for all fits.\n\n" + markdown(header, body)
    )
    known = [of for of in tables.values() if np.isfinite(of["regret"][0])]
    lost = [of for of in known if round(of["regret"][0], 3) > 0]
    higher = [of for of in tables.values() if of[names[0]][1] > of[names[1]][1]]
    parts.append(
        f"Of {len(known)} tables the regret is above 0 on {len(lost)}; of {len(tables)}, without a budget "
        f"our worst class is above that of theirs chosen for it on {len(higher)}."
    )
    return "\n\n".join(parts)


EXPERIMENT = Experiment("field-classes", "The worst class on more tables", play, repeats=2, has_jobs=True)
