"""Methods of other libraries and ours with the same fitted model, on the same rows.

Credit default clients without the feature sex. A boosted model of scikit-learn is fitted on half of them. A
quarter selects thresholds, prediction sets and rules. The last quarter is for tests. Needs fairlearn, MAPIE
and imbalanced-learn::

    python benchmarks/coming_from.py --out benchmarks/coming_from.json
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from importlib.metadata import version
from typing import Any

import numpy as np
from fairlearn.postprocessing import ThresholdOptimizer
from imblearn.ensemble import BalancedRandomForestClassifier, EasyEnsembleClassifier
from mapie.classification import SplitConformalClassifier
from mapie.risk_control import BinaryClassificationController
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score, make_scorer, recall_score
from sklearn.model_selection import TunedThresholdClassifierCV, train_test_split

import tailboost as tb
from tailboost import rates

FLOOR = 0.65
GAP = 0.02
BUDGET = 0.03


def measured(y: Any, answers: Any, sex: Any) -> dict[str, float]:
    """Return the error rates and the gaps between women and men."""
    wrong = answers != y

    def gap(values: Any, among: Any) -> float:
        return float(abs(np.subtract(*(values[among & (sex == s)].mean() for s in np.unique(sex)))))

    return {
        "overall error": float(wrong.mean()),
        "defaulters missed": float(wrong[y == 1].mean()),
        "good clients refused": float(wrong[y == 0].mean()),
        "gap of misses": gap(wrong, y == 1),
        "gap of refusals": gap(wrong, y == 0),
        "gap of selection": gap(answers == 1, np.ones(len(y), dtype=bool)),
    }


def split(seed: int) -> dict[str, Any]:
    """Return the test results of all methods on one split."""
    data = tb.datasets.load_credit_default()
    half = {"test_size": 0.5, "random_state": seed}
    table, y, sex = data.data.drop(columns="SEX"), data.target.to_numpy(), data.groups["sex"].to_numpy()
    X, X_rest, y_fit, y_rest, _, sex_rest = train_test_split(table, y, sex, stratify=y, **half)
    X_val, X_new, y_val, y_new, sex_val, sex_new = train_test_split(
        X_rest, y_rest, sex_rest, stratify=y_rest, **half
    )
    model = HistGradientBoostingClassifier(random_state=seed).fit(X, y_fit)
    found: dict[str, Any] = {}

    def keep(name: str, started: float, answers: Any, **more: float) -> None:
        took = time.process_time() - started
        found[name] = measured(y_new, np.asarray(answers), sex_new) | more | {"seconds": took}

    keep("the model", time.process_time(), model.predict(X_new))

    start = time.process_time()

    def floor(truth: Any, answers: Any) -> float:
        recall = recall_score(truth, answers)
        return float(accuracy_score(truth, answers) if recall >= FLOOR else recall - 1)

    tuned = TunedThresholdClassifierCV(model, scoring=make_scorer(floor), cv="prefit", refit=False).fit(
        X_val, y_val
    )
    keep("TunedThresholdClassifierCV", start, tuned.predict(X_new))
    start = time.process_time()
    ours = tb.tune(model, X_val, y_val, limits=[rates.miss(1) <= 1 - FLOOR])
    keep("tune, miss(1)", start, ours.predict(X_new))

    for method, n in (("bonferroni_holm", 100), ("fixed_sequence", 100), ("fixed_sequence", 1_000)):
        start = time.process_time()
        controller = BinaryClassificationController(
            model.predict_proba,
            "recall",
            target_level=FLOOR,
            confidence_level=0.95,
            list_predict_params=np.linspace(0.0, 1.0, n, endpoint=False),
            fwer_method=method,
        )
        controller.calibrate(X_val, y_val)
        keep(f"BinaryClassificationController, {method}, {n}", start, controller.predict(X_new))
    start = time.process_time()
    certified = tb.calibrate(
        model, X_val, y_val, limits=[rates.recall(1) >= FLOOR], objective="error", equal_rows="natural"
    )
    keep("calibrate, recall(1)", start, certified.predict(X_new))

    equal_odds = [rates.gap(rates.miss(1, by="sex")) <= GAP, rates.gap(rates.false_alarm(1, by="sex")) <= GAP]
    parity = [rates.gap(rates.selected(1, by="sex")) <= GAP]
    for constraint, limits in (("equalized_odds", equal_odds), ("demographic_parity", parity)):
        start = time.process_time()
        theirs = ThresholdOptimizer(
            estimator=model, constraints=constraint, prefit=True, predict_method="predict_proba"
        )
        theirs.fit(X_val, y_val, sensitive_features=sex_val)
        answers = theirs.predict(X_new, sensitive_features=sex_new, random_state=seed)
        keep(f"ThresholdOptimizer, {constraint}", start, answers)
        for by_group in (False, True):
            start = time.process_time()
            ours = tb.tune(
                model,
                X_val,
                y_val,
                groups={"sex": sex_val},
                objective="error",
                limits=limits,
                by_group=by_group,
            )
            answers = ours.predict(X_new, **({"groups": {"sex": sex_new}} if by_group else {}))
            keep(f"tune, {constraint}{', group-aware' if by_group else ''}", start, answers)

    for peer in (BalancedRandomForestClassifier, EasyEnsembleClassifier):
        start = time.process_time()
        keep(peer.__name__, start, peer(random_state=seed).fit(X, y_fit).predict(X_new))
    start = time.process_time()
    mixture = tb.RobustMixtureClassifier(random_state=seed).fit(X, y_fit)
    keep("RobustMixtureClassifier", start, mixture.predict(X_new))
    start = time.process_time()
    within = mixture.reweight(error_budget=BUDGET)
    keep(f"the same fit, error_budget={BUDGET}", start, within.predict(X_new))

    start = time.process_time()
    conformal = SplitConformalClassifier(FrozenEstimator(model), confidence_level=0.85, prefit=True)
    conformal.conformalize(X_val, y_val)
    _, sets = conformal.predict_set(X_new)
    unsure = sets[:, :, 0].sum(axis=1) != 1
    wrong = model.predict(X_new) != y_new
    keep("SplitConformalClassifier", start, model.predict(X_new), deferral_rate=float(unsure.mean()),
         error_of_answered=float(wrong[~unsure].mean()))  # fmt: skip
    start = time.process_time()
    rate = float((conformal.predict_set(X_val)[1][:, :, 0].sum(axis=1) != 1).mean())
    ours = tb.tune(model, X_val, y_val, objective="error", limits=[rates.deferred() <= max(rate, 0.001)])
    away = ours.defers(X_new)
    wrong = ours.predict(X_new) != y_new
    keep("tune, deferred", start, ours.predict(X_new), deferral_rate=float(away.mean()),
         error_of_answered=float(wrong[~away].mean()))  # fmt: skip
    return found


def main() -> None:
    """Run the splits and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--out")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    records = [split(seed) for seed in range(chosen.splits)]
    names = ("scikit-learn", "fairlearn", "imbalanced-learn", "mapie")
    record = {
        "command": f"python benchmarks/coming_from.py --splits {chosen.splits}",
        "versions": {name: version(name) for name in names},
        "mean": {
            method: {key: float(np.mean([r[method][key] for r in records])) for key in records[0][method]}
            for method in records[0]
        },
        "splits": records,
    }
    if chosen.out:
        with open(chosen.out, "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1)
    for method, values in record["mean"].items():
        print(f"{method:45}", "  ".join(f"{key} {value:.3f}" for key, value in values.items()))


if __name__ == "__main__":
    main()
