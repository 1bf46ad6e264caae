"""The README's table and picture: one default mixture beside tuned opponents on credit default.

    python benchmarks/credit.py --out benchmarks/credit.json --picture docs/images/credit.png
    python benchmarks/credit.py --beside benchmarks/credit.json --out ...     ours anew, theirs as recorded

Splits of the 30,000 clients in halves; every model is fitted on one half, all figures are those of
``predict`` on the other. Opponents are as they are, balanced by weight, and with thresholds tuned out of fold
for the worst class within the same budgets of mean error, on XGBoost, on its average with a forest, and on
the even average of the mixture's boosted trees and forest. Seconds are of processor time, one thread.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.model_selection import (
    StratifiedKFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
    train_test_split,
)

import tailboost as tb
from tailboost.app.baselines import (
    adjusted_answers,
    balanced_forest,
    plain_xgboost,
    tune_class_weights,
    weighted_xgboost,
)
from tailboost.app.datasets import load_credit_default
from tailboost.classifiers.robust_mixture import default_estimators

BUDGETS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08, None)
OURS = "ours"


def errors(answers: Any, y: Any) -> list[float]:
    """Return the mean error, the share of missed defaulters and that of refused others."""
    wrong = np.asarray(answers) != y
    return [float(wrong.mean()), float(wrong[y == 1].mean()), float(wrong[y == 0].mean())]


def halves(seed: int) -> Any:
    """Return rows to fit on and rows to judge on."""
    data = load_credit_default()
    return train_test_split(
        data.data, np.asarray(data.target), test_size=0.5, stratify=data.target, random_state=seed
    )


def ours(seed: int) -> dict[str, Any]:
    """Return the errors, seconds and megabytes of ours."""
    X, X_new, y, y_new = halves(seed)
    found: dict[str, Any] = {}
    start = time.process_time()
    mix = tb.RobustMixtureClassifier(random_state=seed, n_jobs=1).fit(X, y)
    seconds = time.process_time() - start
    for budget in BUDGETS:
        chosen = mix if budget is None else mix.reweight(error_budget=budget)
        found[f"{OURS}, {budget}"] = errors(chosen.predict(X_new), y_new)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "m.model"
        tb.save_model(mix, file)
        megabytes = file.stat().st_size / 1e6
    return {"errors": found, "seconds": {OURS: seconds}, "MB": megabytes}


def beside(seed: int, split: dict[str, Any]) -> dict[str, Any]:
    """Return a recorded split with ours anew."""
    new = ours(seed)
    return {key: split[key] | value if isinstance(value, dict) else value for key, value in new.items()}


def one_split(seed: int) -> dict[str, Any]:
    """Return the errors of every method, and the seconds and megabytes of ours and of XGBoost."""
    X, X_new, y, y_new = halves(seed)
    found: dict[str, Any] = {}

    def xgboost() -> Any:
        return plain_xgboost(random_state=seed, n_jobs=1)

    start = time.process_time()
    found["XGBoost"] = errors(xgboost().fit(X, y).predict(X_new), y_new)
    of_xgboost = time.process_time() - start
    found["XGBoost, balanced"] = errors(
        weighted_xgboost(random_state=seed, n_jobs=1).fit(X, y).predict(X_new), y_new
    )
    found["forest, balanced"] = errors(
        balanced_forest(random_state=seed, n_jobs=1).fit(X, y).predict(X_new), y_new
    )
    start = time.process_time()
    tuned = TunedThresholdClassifierCV(xgboost(), scoring="balanced_accuracy", cv=5, random_state=seed)
    found["XGBoost, scikit-learn's tuned threshold"] = errors(tuned.fit(X, y).predict(X_new), y_new)
    of_tuned = time.process_time() - start
    forest = RandomForestClassifier(random_state=seed, n_jobs=1)
    average = VotingClassifier([("xgboost", xgboost()), ("forest", forest)], voting="soft")
    own = VotingClassifier(default_estimators()[:2], voting="soft")
    for title, model in (
        ("XGBoost", xgboost()), ("XGBoost and a forest averaged", average), ("our two models averaged", own)
    ):  # fmt: skip
        folds = StratifiedKFold(5, shuffle=True, random_state=seed)
        P = cross_val_predict(model, X, y, cv=folds, method="predict_proba")
        P_new = clone(model).fit(X, y).predict_proba(X_new)
        for budget in BUDGETS:
            weights = tune_class_weights(P, y, error_budget=budget)[0]
            found[f"{title}, tuned, {budget}"] = errors(adjusted_answers(P_new, weights), y_new)
    return beside(seed, {"errors": found, "seconds": {"XGBoost": of_xgboost, "tuned threshold": of_tuned}})


def draw(record: dict[str, Any], picture: str) -> None:
    """Draw the mean error against missed defaulters: ours from one fit, and the opponents."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    def mean(title: str) -> Any:
        return np.mean([split["errors"][title] for split in record["splits"]], axis=0)[:2]

    # Hues and signs are those of the reports: a method looks the same on every page.
    figure, axes = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    lines = {
        OURS: ("one fit of RobustMixtureClassifier, by budget", "#0060b0", "o", 2.5),
        "XGBoost and a forest averaged, tuned": ("XGBoost + forest, thresholds tuned", "#8a6a00", "D", 1.2),
        "XGBoost, tuned": ("XGBoost, threshold tuned", "#b34700", "D", 1.2),
        "our two models averaged, tuned": ("our trees averaged, thresholds tuned", "#5aa0dc", "v", 1.2),
    }
    for title, (label, color, marker, width) in lines.items():
        at = np.array([mean(f"{title}, {budget}") for budget in BUDGETS])
        axes.plot(*at.T, color=color, marker=marker, ms=4, lw=width, label=label, zorder=width)
    points = {
        "XGBoost": ("#b34700", "s"),
        "XGBoost, balanced": ("#b34700", "^"),
        "forest, balanced": ("#00764f", "^"),
    }
    for title, (color, marker) in points.items():
        axes.plot(*mean(title), color=color, marker=marker, ls="", ms=8, mec="white", label=title)
    axes.set_xlabel("mean error on clients that were not fitted on")
    axes.set_ylabel("share of defaulters missed")
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    figure.savefig(picture, dpi=110)


def main() -> None:
    """Run the splits, write the record, draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--beside", help="a record whose opponents stay")
    parser.add_argument("--out")
    parser.add_argument("--picture")
    chosen = parser.parse_args()
    record = {"command": "python benchmarks/credit.py", "splits": []}
    known = json.loads(Path(chosen.beside).read_text("utf-8"))["splits"] if chosen.beside else []
    for seed in range(chosen.splits):
        record["splits"].append(beside(seed, known[seed]) if known else one_split(seed))
        print(json.dumps(record["splits"][-1]), flush=True)
    if chosen.out:
        Path(chosen.out).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if chosen.picture:
        draw(record, chosen.picture)


if __name__ == "__main__":
    main()
