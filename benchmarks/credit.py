"""Table and picture of docs/which.md: one default mixture and tuned opponents on credit default.

    python benchmarks/credit.py --out benchmarks/credit.json --picture docs/images/credit.png
    python benchmarks/credit.py --beside benchmarks/credit.json --out ...     keep the recorded opponents

The 30,000 clients are split in halves at random: one half to fit, the other for the errors of ``predict``.
Opponents are used with their defaults, balanced by weights, and with thresholds tuned out of fold for the
worst class within the same error budgets: on XGBoost, on its average with a forest, and on the even average
of the mixture's trees and forest. Seconds are processor seconds of one thread.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student
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
    tune_class_weights,
    weighted,
    weighted_xgboost,
)
from tailboost.app.datasets import load_credit_default
from tailboost.classifiers.default_models import default_estimators
from tailboost.learners.named import plain_xgboost

BUDGETS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08, None)
OURS = "ours"


def errors(answers: Any, y: Any) -> list[float]:
    """Return the overall error, the miss rate of defaulters and the error rate of the others."""
    wrong = np.asarray(answers) != y
    return [float(wrong.mean()), float(wrong[y == 1].mean()), float(wrong[y == 0].mean())]


def halves(seed: int) -> Any:
    """Return training and test rows."""
    data = load_credit_default()
    return train_test_split(
        data.data, np.asarray(data.target), test_size=0.5, stratify=data.target, random_state=seed
    )


def ours(seed: int) -> dict[str, Any]:
    """Return the errors, seconds and megabytes of the mixture."""
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
    """Return a recorded split with a new fit of the mixture."""
    new = ours(seed)
    return {key: split[key] | value if isinstance(value, dict) else value for key, value in new.items()}


def one_split(seed: int) -> dict[str, Any]:
    """Return the errors of all methods, with seconds and megabytes."""
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
    balanced = weighted(RandomForestClassifier, random_state=seed, n_jobs=1)
    found["forest, balanced"] = errors(balanced.fit(X, y).predict(X_new), y_new)
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


def table(splits: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean and half the Student t interval of the errors of each method."""
    scale = student.ppf(0.975, max(len(splits) - 1, 1)) / len(splits) ** 0.5
    rows: dict[str, Any] = {}
    for title in splits[0]["errors"]:
        errors = np.array([split["errors"][title] for split in splits])
        half = scale * errors.std(axis=0, ddof=min(1, len(splits) - 1))
        pairs = np.column_stack([errors.mean(axis=0), half]).round(6).tolist()
        rows[title] = dict(zip(("overall error", "defaulters missed"), pairs, strict=False))
    return rows


def draw(record: dict[str, Any], picture: str) -> None:
    """Draw the overall error against missed defaulters."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    def mean(title: str) -> Any:
        return np.mean([split["errors"][title] for split in record["splits"]], axis=0)[:2]

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
    axes.set_xlabel("overall error on test clients")
    axes.set_ylabel("defaulters missed")
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    figure.savefig(picture, dpi=110)


def main() -> None:
    """Run the splits, write the record, draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--beside", help="record whose opponents are kept")
    parser.add_argument("--out")
    parser.add_argument("--picture")
    chosen = parser.parse_args()
    record = {"command": "python benchmarks/credit.py", "splits": []}
    known = json.loads(Path(chosen.beside).read_text("utf-8"))["splits"] if chosen.beside else []
    for seed in range(chosen.splits):
        record["splits"].append(beside(seed, known[seed]) if known else one_split(seed))
        print(json.dumps(record["splits"][-1]), flush=True)
    record["mean and half the 95 % interval"] = table(record["splits"])
    if chosen.out:
        Path(chosen.out).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if chosen.picture:
        draw(record, chosen.picture)


if __name__ == "__main__":
    main()
