"""Gains of the variance penalty: VadaBoost with trees, AdaBoost, XGBoost and a random forest.

Splits of 50/25/25. AdaBoost and VadaBoost boost the same trees until the validation error has not dropped
for 50 rounds; λ is selected on validation rows, λ = 0 included. XGBoost and the forest have their defaults.
The CVaR at .1 is of the expected zero-one loss, 1 − p̂(true class); for ``predict`` it would be min(1, 10 ×
error).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from sklearn.ensemble import RandomForestClassifier

from experiments._experiment import Experiment, Report, Settings, markdown, of_each, plus_minus
from experiments._tables import LOADERS, Data, table
from experiments.variance import CUT, TASKS, halves, one_hot
from tailboost import metrics
from tailboost.app.report.results import interval, summarise
from tailboost.classifiers import AdaBoostClassifier, VadaBoostClassifier
from tailboost.learners import HistTreeClassifier
from tailboost.learners.named import plain_xgboost

PATIENCE = 50
MOST_ROUNDS = 500
LAMBDAS = (0.0, 0.3, 0.6, 0.9)
DEPTH = 3
ALPHA = 0.1
METHODS = ("AdaBoost", "VadaBoost", "XGBoost", "Random forest")


SETS: dict[str, Callable[[Path], Data]] = {
    "adult": one_hot(LOADERS["adult"], CUT),
    "bank": one_hot(LOADERS["bank"], CUT),
    "credit default": one_hot(table("taiwan_credit", "default"), CUT),
    "german credit": one_hot(LOADERS["german credit"]),
    "higgs": one_hot(LOADERS["higgs"], CUT),
    "spambase": TASKS["spambase"].load,
    "wine": TASKS["wine"].load,
    "splice": TASKS["splice"].load,
    "yeast (10 classes)": one_hot(LOADERS["yeast"]),
    "letter (26 classes)": one_hot(LOADERS["letter"], CUT),
}


def _judged(classifier: Any, rows: Data) -> dict[str, float]:
    X, y = rows.X, rows.y
    P = classifier.predict_proba(X)
    expected = 1 - P[np.arange(len(y)), np.searchsorted(classifier.classes_, y)]
    return {"error": float(np.mean(classifier.predict(X) != y)), "cvar": metrics.cvar(expected, ALPHA)}


def _cell(rows: Data, repeat: int, n_jobs: int) -> dict[str, Any]:
    split = halves(rows, repeat)
    train, chosen_on = split.train, split.validate
    assert chosen_on is not None  # `halves` gives some

    def boosted(make: Callable[..., Any], **params: Any) -> tuple[float, Any]:
        tree = HistTreeClassifier(max_depth=DEPTH, max_bins=64, n_jobs=n_jobs)
        clf = make(tree, n_estimators=MOST_ROUNDS, n_iter_no_change=PATIENCE, random_state=0, **params)
        clf.fit(train.X, train.y, X_val=chosen_on.X, y_val=chosen_on.y)
        return float(clf.trace_.value.min()), clf

    ada = boosted(AdaBoostClassifier)[1]
    vada = min(
        (boosted(VadaBoostClassifier, variance_weight=lam) for lam in LAMBDAS), key=lambda run: run[0]
    )[1]
    xgboost = plain_xgboost(random_state=0, n_jobs=n_jobs).fit(train.X, train.y)
    forest = RandomForestClassifier(random_state=0, n_jobs=n_jobs).fit(train.X, train.y)
    fitted = dict(zip(METHODS, (ada, vada, xgboost, forest), strict=True))
    return {m: _judged(clf, split.test) for m, clf in fitted.items()} | {"lam": vada.variance_weight}


def play(settings: Settings, name: str) -> Report:
    """Compute missing cells and read all cells."""
    # All are read first, so a missing file is reported before any work.
    sets = {data: load(settings.folder) for data, load in SETS.items()}
    found = of_each(sets, settings, name, partial(_cell, n_jobs=settings.n_jobs))
    parts, gains = [], dict[str, Any]()
    for what, title in (("error", "Test error"), ("cvar", f"CVaR at {ALPHA:g} of 1 − p̂(true class)")):
        body = []
        for data, repeats in found.items():
            of = {m: [cell[m][what] for cell in repeats] for m in METHODS}
            gain = np.subtract(of["AdaBoost"], of["VadaBoost"])
            p = float(stats.ttest_1samp(gain, 0).pvalue) if np.ptp(gain) > 0 else 1.0
            body.append([data, *(plus_minus(of[m]) for m in METHODS), f"{gain.mean():+.4f}, {p:.2g}"])
            gains.setdefault(data, {})[what] = interval(gain.tolist()) | {"p": p}
        header = ["data", *METHODS, "VadaBoost's gain over AdaBoost, p"]
        parts.append(f"## {title}\n\n" + markdown(header, body))
    return Report(
        "\n\n".join(parts),
        {
            "repeats": settings.repeats,
            "methods": {data: summarise(repeats) for data, repeats in found.items()},
            "gain of VadaBoost over AdaBoost": gains,
        },
        partial(_picture, found),
    )


def _picture(found: dict[str, list[dict[str, Any]]], plt: Any) -> Any:
    """Draw the mean error and the mean CVaR of every method on every data set."""
    at = np.arange(len(found))
    size = (10, 1.2 + 0.35 * len(found))
    figure, panels = plt.subplots(1, 2, figsize=size, sharey=True, layout="constrained")
    titles = {"error": "test error", "cvar": f"CVaR at {ALPHA:g} of 1 − p̂(true class)"}
    for ax, (what, title) in zip(panels, titles.items(), strict=True):
        for method, colour, marker in zip(METHODS, ("C1", "C0", "C2", "C3"), "sodv", strict=True):
            means = [np.mean([cell[method][what] for cell in cells]) for cells in found.values()]
            label = method if what == "error" else None
            ax.plot(means, at, marker, color=colour, label=label, alpha=0.8)
        ax.grid(axis="y", alpha=0.3)
        ax.set(xlabel=title, xlim=(0, None))
    panels[0].set_yticks(at, list(found))
    panels[0].invert_yaxis()
    figure.legend(loc="outside lower center", ncols=len(METHODS), frameon=False)
    return figure


EXPERIMENTS = (
    Experiment(
        "variance-peers", "VadaBoost with trees beside AdaBoost, XGBoost and a random forest", play, repeats=5
    ),
)
