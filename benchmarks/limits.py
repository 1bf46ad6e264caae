"""How often limits of tuned and of certified rules break on new rows, and other libraries on the same rows.

    python benchmarks/limits.py [--splits 20] [--out limits.json]

A problem is a split, a number of rows and a limit. A threshold of `TunedThresholdClassifierCV`, a threshold
with a margin of 1.645 standard errors, a rule of `tailboost.tune` and one of `tailboost.calibrate` come from
the same model and the same rows; all other rows are new. Only problems that all of them solve count. A limit
is broken if its rate on the new rows exceeds it.
The second part has the tables of the page "coming from", on the first five splits.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from fairlearn.postprocessing import ThresholdOptimizer
from mapie.classification import SplitConformalClassifier
from mapie.risk_control import BinaryClassificationController
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score, make_scorer, recall_score
from sklearn.model_selection import (
    FixedThresholdClassifier,
    TunedThresholdClassifierCV,
    train_test_split,
)

import tailboost as tb

# Largest rates: of misses, false alarms and wrong alarms (1 - precision), of all rows or of the worst group.
LIMITS = {
    "miss(1) <= {}": (0.3, 0.4, 0.5),
    "miss(1, by=g) <= {}": (0.4, 0.5),
    "false_alarm(1) <= {}": (0.1, 0.2),
    "precision(1) >= {}": (0.5, 0.6),
}


def tables() -> Iterator[tuple[str, Any, Any, Any, int, tuple[int, ...]]]:
    """Yield title, features, labels, groups, training rows and numbers of rows that select."""
    credit = tb.datasets.load_credit_default()
    features = credit.data.drop(columns=["SEX", "AGE"]).to_numpy(float)
    yield "credit", features, credit.target.to_numpy(), credit.groups["age_band"], 6_000, (1_000, 4_000)
    wine = tb.datasets.load_wine_quality()
    features, first = np.unique(wine.data.to_numpy(float), axis=0, return_index=True)
    good = wine.target.to_numpy()[first] >= 3
    yield "wine", features, good.astype(int), wine.groups["colour"].iloc[first], 1_000, (500, 1_500)


def rate(text: str, truth: Any, answers: Any, groups: Any) -> float:
    """Return the limited rate of a limit, where small is good."""
    if text.startswith("miss(1, by"):
        return max(rate("miss", *(part[groups == g] for part in (truth, answers)), None) for g in set(groups))
    among, bad = {"m": (truth == 1, answers == 0), "f": (truth == 0, answers == 1)}.get(
        text[0], (answers == 1, truth == 0)
    )
    return float(bad[among].mean()) if among.any() else 0.0


def with_margin(text: str, most: float, truth: Any, scores: Any, groups: Any) -> float | None:
    """Return the best threshold whose rate of each group is 1.645 standard errors below the limit, if any."""
    parts = [groups == g for g in set(groups)] if "by" in text else [truth >= 0]
    best: tuple[float, float | None] = (np.inf, None)
    for threshold in np.quantile(scores, np.linspace(0, 1, 501)):
        answers = scores >= threshold
        among = {"m": truth == 1, "f": truth == 0}.get(text[0], answers)
        wrong = answers != truth
        kept = True
        for part in parts:
            n = (among & part).sum()
            p = wrong[among & part].mean() if n else 0.0
            kept &= p + 1.645 * np.sqrt(p * (1 - p) / max(n, 1)) <= most
        if kept:
            best = min(best, (float(wrong.mean()), float(threshold)))
    return best[1]


def broken(splits: int) -> dict[str, Any]:
    """Count problems and broken limits of the methods."""
    names = ("TunedThresholdClassifierCV", "margin", "tune", "calibrate")
    unsolved = dict.fromkeys(names, 0)
    found: list[list[bool]] = []
    errors: list[list[float]] = []
    asked = 0
    for _, X, y, g, training, sizes in tables():
        g = np.asarray(g, dtype=str)
        for seed in range(splits):
            order = np.random.default_rng(seed).permutation(len(y))
            train, rest = order[:training], order[training:]
            model = HistGradientBoostingClassifier(random_state=seed).fit(X[train], y[train])
            for n in sizes:
                val, new = rest[:n], rest[n:]
                scores = model.predict_proba(X[val])[:, 1]
                for form, bounds in LIMITS.items():
                    for bound in bounds:
                        asked += 1
                        text = form.format(bound)
                        most = 1 - bound if ">=" in form else bound

                        def score(truth: Any, answers: Any) -> float:
                            excess = rate(text, truth, answers, g[val]) - most
                            return float(accuracy_score(truth, answers)) if excess <= 0 else -excess

                        tuned = TunedThresholdClassifierCV(
                            model, scoring=make_scorer(score), cv="prefit", refit=False
                        ).fit(X[val], y[val])
                        given = {"groups": {"g": g[val]}, "limits": [text]}
                        rules: dict[str, Any] = {} if tuned.best_score_ < 0 else {names[0]: tuned}
                        threshold = with_margin(text, most, y[val], scores, g[val])
                        if threshold is not None:
                            rules["margin"] = FixedThresholdClassifier(
                                FrozenEstimator(model), threshold=threshold, response_method="predict_proba"
                            ).fit(X[val], y[val])
                        with suppress(ValueError):
                            rules["tune"] = tb.tune(model, X[val], y[val], objective="error", **given)
                        with suppress(ValueError):  # not certified
                            rules["calibrate"] = tb.calibrate(
                                model, X[val], y[val], training_rows=X[train], **given
                            )
                        for name in set(names) - set(rules):
                            unsolved[name] += 1
                        if len(rules) < len(names):
                            continue
                        answers = [rules[name].predict(X[new]) for name in names]
                        found.append([rate(text, y[new], each, g[new]) > most for each in answers])
                        errors.append([float(np.mean(each != y[new])) for each in answers])
    counts = dict(zip(names, np.sum(found, axis=0).tolist(), strict=True))
    means = dict(zip(names, np.mean(errors, axis=0).tolist(), strict=True))
    return {
        "asked": asked,
        "unsolved": unsolved,
        "solved by all": len(found),
        "broken": counts,
        "error": means,
    }


def peers(seed: int) -> dict[str, list[float]]:
    """Return test results of methods of other libraries and ours on one split of the credit data."""
    data = tb.datasets.load_credit_default()
    half: dict[str, Any] = {"test_size": 0.5, "random_state": seed}
    table, y, sex = data.data.drop(columns="SEX"), data.target.to_numpy(), data.groups["sex"].to_numpy()
    X, X_rest, y_fit, y_rest, _, sex_rest = train_test_split(table, y, sex, stratify=y, **half)
    X_val, X_new, y_val, y_new, sex_val, sex_new = train_test_split(
        X_rest, y_rest, sex_rest, stratify=y_rest, **half
    )
    model = HistGradientBoostingClassifier(random_state=seed).fit(X, y_fit)

    def rates(answers: Any) -> list[float]:
        wrong = np.asarray(answers) != y_new
        masks = (y_new == 1, y_new == 0, y_new >= 0)
        shown = (wrong, wrong, np.asarray(answers) == 1)
        gaps = [
            abs(float(np.subtract(*(values[mask & (sex_new == s)].mean() for s in np.unique(sex_new)))))
            for mask, values in zip(masks, shown, strict=True)
        ]
        return [float(wrong.mean()), float(wrong[y_new == 1].mean()), float(wrong[y_new == 0].mean()), *gaps]

    def floor(truth: Any, answers: Any) -> float:
        recall = recall_score(truth, answers)
        return float(accuracy_score(truth, answers) if recall >= 0.65 else recall - 1)

    found = {"model alone": rates(model.predict(X_new))}
    tuned = TunedThresholdClassifierCV(model, scoring=make_scorer(floor), cv="prefit", refit=False)
    found["TunedThresholdClassifierCV"] = rates(tuned.fit(X_val, y_val).predict(X_new))
    found["tune, miss"] = rates(tb.tune(model, X_val, y_val, limits=["miss(1) <= 0.35"]).predict(X_new))
    for method, n in (("bonferroni_holm", 100), ("fixed_sequence", 100), ("fixed_sequence", 1_000)):
        controller = BinaryClassificationController(
            model.predict_proba,
            "recall",
            target_level=0.65,
            confidence_level=0.95,
            list_predict_params=np.linspace(0.0, 1.0, n, endpoint=False),
            fwer_method=method,
        )
        found[f"MAPIE, {method}, {n}"] = rates(controller.calibrate(X_val, y_val).predict(X_new))
    certified = tb.calibrate(model, X_val, y_val, limits=["recall(1) >= 65%"], training_rows=X)
    found["calibrate, recall"] = rates(certified.predict(X_new))
    gap = "gap({}(1, by=sex)) <= 2%"
    for constraint, limits in {
        "equalized_odds": [gap.format("miss"), gap.format("false_alarm")],
        "demographic_parity": [gap.format("selected")],
    }.items():
        theirs = ThresholdOptimizer(
            estimator=model, constraints=constraint, prefit=True, predict_method="predict_proba"
        )
        theirs.fit(X_val, y_val, sensitive_features=sex_val)
        answers = theirs.predict(X_new, sensitive_features=sex_new, random_state=seed)
        found[f"ThresholdOptimizer, {constraint}"] = rates(answers)
        for aware in (False, True):
            options: dict[str, Any] = {"groups": {"sex": sex_new}} if aware else {}
            ours = tb.tune(
                model, X_val, y_val, groups={"sex": sex_val}, limits=limits, objective="error", by_group=aware
            )
            found[f"tune, {constraint}, aware {aware}"] = rates(ours.predict(X_new, **options))
    sets = SplitConformalClassifier(FrozenEstimator(model), confidence_level=0.85, prefit=True)
    sets.conformalize(X_val, y_val)
    share = float((sets.predict_set(X_val)[1][:, :, 0].sum(axis=1) != 1).mean())
    limit = f"deferred() <= {max(share, 0.001)}"
    deferring = tb.tune(model, X_val, y_val, objective="error", limits=[limit])
    wrong = model.predict(X_new) != y_new
    for name, deferred in {
        "MAPIE, deferred": sets.predict_set(X_new)[1][:, :, 0].sum(axis=1) != 1,
        "tune, deferred": deferring.defers(X_new),
    }.items():
        found[name] = [float(deferred.mean()), float(wrong[~deferred].mean())]
    return found


def main() -> None:
    """Run both parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    found = [peers(seed) for seed in range(min(chosen.splits, 5))]
    means = {name: np.mean([each[name] for each in found], axis=0).round(4).tolist() for name in found[0]}
    for name, values in means.items():
        print(f"{name:42}", *(f"{value:.3f}" for value in values))
    counted = broken(chosen.splits)
    print(json.dumps(counted, indent=1))
    libraries = ("scikit-learn", "fairlearn", "mapie")
    record = {
        "command": f"python benchmarks/limits.py --splits {chosen.splits} --out limits.json",
        "versions": {name: version(name) for name in libraries},
        "limits": counted,
        "coming from": means,
    }
    if chosen.out:
        chosen.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
