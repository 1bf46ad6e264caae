"""Deferral to a human reviewer: errors among the answered, beside Chow's rule at the same deferral rate.

    python benchmarks/deferral.py DIR [--only TABLE ...] [--splits N] [--cache DIR] [--out FILE]

DIR has taiwan_credit.csv.gz, winequality_red.csv.gz, winequality_white.csv.gz,
compas-scores-two-years.csv.gz and field/acs_income.validation.parquet. Tables: "credit" (cells of sex and
class), "wine" (five grades, groups: colour), "compas" and "acs" (cells of four races and two classes) and
"noise" (random labels). All rules are group-blind. Models are trained on at most 10,000 rows.

Each split has three models. Thresholds and rules are selected on out-of-fold probabilities; all results are
for test rows. Methods, at each deferral rate:

    Chow           defers the rows with the smallest maximum probability of the most accurate model
    Chow by class  the same fraction of each predicted class
    MAPIE          two thresholds with a controlled deferral rate (two classes, if installed), confidence 0.9
    mean           ours, smallest overall error: at most this rate overall, 1.25 times it in each group
    worst, budget  ours, smallest largest error among the answered over subgroups, within the same limits and
                   an error among the answered of at most that of Chow's rule out of fold, plus the budget
"""

from __future__ import annotations

import argparse
import json
import pickle
import platform
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tailboost as tb
from tailboost import rates
from tailboost.learners import HistBoostClassifier
from tailboost.rates import InfeasibleLimitsError

Found = dict[str, Any]
SHARES = (0.0, 0.01, 0.02, 0.05, 0.10)
BUDGETS = (-0.005, 0.0, 0.002, 0.01)
# Largest deferral rate of a group, as a multiple of the overall rate.
PER_GROUP = 1.25
TRAIN_ROWS, TEST_ROWS = 10_000, 30_000
# Number of quantiles among which MAPIE's two thresholds are searched.
PLACES = 30


def credit(folder: Path, seed: int) -> tuple[Any, Any, Any]:
    table = pd.read_csv(folder / "taiwan_credit.csv.gz")
    return table.drop(columns=["default", "SEX"]), table["default"].to_numpy(), table["SEX"].to_numpy()


def wine(folder: Path, seed: int) -> tuple[Any, Any, Any]:
    parts = [pd.read_csv(folder / f"winequality_{colour}.csv.gz") for colour in ("red", "white")]
    table = pd.concat(parts, ignore_index=True)
    colour = np.repeat(["red", "white"], [len(part) for part in parts])
    return table.drop(columns="quality"), table["quality"].clip(4, 8).to_numpy(), colour


def compas(folder: Path, seed: int) -> tuple[Any, Any, Any]:
    table = pd.read_csv(folder / "compas-scores-two-years.csv.gz")
    usual = table["days_b_screening_arrest"].abs() <= 30
    table = table[usual & (table["is_recid"] != -1) & (table["c_charge_degree"] != "O")].reset_index(
        drop=True
    )
    race = table["race"].where(table["race"].isin(["African-American", "Caucasian", "Hispanic"]), "Other")
    names = ["age", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"]
    X = table[names].assign(
        felony=(table["c_charge_degree"] == "F").astype(int), male=(table["sex"] == "Male").astype(int)
    )
    return X, table["two_year_recid"].to_numpy(), race.to_numpy().astype(str)


def acs(folder: Path, seed: int) -> tuple[Any, Any, Any]:
    table = pd.read_parquet(folder / "field/acs_income.validation.parquet")
    races = np.array(["white", "black", "rest", "rest", "rest", "Asian", "rest", "rest", "rest"])
    return table.drop(columns=["PINCP", "RAC1P"]), table["PINCP"].to_numpy(), races[table["RAC1P"].to_numpy()]


def noise(folder: Path, seed: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    return (
        pd.DataFrame(rng.normal(size=(6_000, 5))),
        rng.integers(2, size=6_000),
        rng.integers(2, size=6_000),
    )


TABLES = {"credit": credit, "wine": wine, "compas": compas, "acs": acs, "noise": noise}


def models(seed: int) -> list[tuple[str, Any]]:
    return [
        (
            "boosted",
            HistBoostClassifier(n_estimators=100, max_depth=4, learning_rate=0.1, random_state=seed),
        ),
        ("trees", ExtraTreesClassifier(100, min_samples_leaf=5, random_state=seed)),
        ("logistic", make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))),
    ]


class Split:
    """One split: probabilities of the models out of fold and on test rows, and their mixture."""

    def __init__(self, name: str, folder: Path, seed: int) -> None:
        X, y, groups = TABLES[name](folder, seed)
        order = np.random.default_rng(seed).permutation(len(y))
        cut = min(TRAIN_ROWS, int(0.6 * len(y)))
        train, test = order[:cut], order[cut : cut + TEST_ROWS]
        self.by = "class" if name == "wine" else "cell"
        self.y, self.groups = y[train], groups[train]
        self.X_test, self.y_test, self.groups_test = (
            X.iloc[test].reset_index(drop=True),
            y[test],
            groups[test],
        )
        X = X.iloc[train].reset_index(drop=True)
        folds = list(StratifiedKFold(5, shuffle=True, random_state=seed).split(X, self.y))
        self.known, self.fresh = {}, {}
        for model_name, model in models(seed):
            self.known[model_name] = cross_val_predict(model, X, self.y, cv=folds, method="predict_proba")
            self.fresh[model_name] = model.fit(X, self.y).predict_proba(self.X_test)
        first = [rates.deferred(by=by) <= 1.0 for by in (None, "group")]
        self.mix = tb.RobustMixtureClassifier(
            models(seed), objective="error", limits=[*first, rates.error(by="cell") <= 1.0], cv=folds,
            random_state=seed,
        ).fit(X, self.y, groups=self.groups)  # fmt: skip

    @property
    def classes(self) -> Any:
        return np.unique(self.y)

    @property
    def best(self) -> str:
        """The most accurate model out of fold."""
        return min(self.known, key=lambda name: self.error(self.known[name], self.y))

    def error(self, P: Any, y: Any) -> float:
        return float(np.mean(self.classes[P.argmax(axis=1)] != y))


def rivals(split: Split, share: float) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name of a rule, its predictions of the test rows, and the deferred rows."""
    known, fresh = split.known[split.best], split.fresh[split.best]
    sure, answered = known.max(axis=1), known.argmax(axis=1)
    sure_test, answered_test = fresh.max(axis=1), fresh.argmax(axis=1)
    answers = split.classes[answered_test]
    yield "Chow", answers, sure_test < np.quantile(sure, share)
    least = [
        np.quantile(sure[answered == k], share) if (answered == k).any() else 0.0
        for k in range(fresh.shape[1])
    ]
    yield "Chow by class", answers, sure_test < np.array(least)[answered_test]
    if fresh.shape[1] == 2 and share > 0:
        try:
            from mapie.risk_control import BinaryClassificationController, BinaryRisk
        except ImportError:
            return
        low, high = np.meshgrid(*2 * [np.quantile(known[:, 1], np.linspace(0, 1, PLACES + 1))])

        def thresholds(P: Any, least: float, most: float) -> Any:
            said = (np.asarray(P)[:, 1] >= most).astype(float)
            return np.where((np.asarray(P)[:, 1] >= least) & (np.asarray(P)[:, 1] < most), np.nan, said)

        def right(y: Any, said: Any) -> Any:
            return y == said

        def answered(y: Any, said: Any) -> Any:
            return ~np.isnan(said)

        accuracy = BinaryRisk(right, answered, higher_is_better=True)
        controller = BinaryClassificationController(
            thresholds, "abstention_rate", share, best_predict_param_choice=accuracy,
            list_predict_params=np.column_stack([low[low <= high], high[low <= high]]),
        ).calibrate(known, (split.y == split.classes[1]).astype(int))  # fmt: skip
        said = controller.predict(fresh)
        passed = np.isnan(said.astype(float))
        yield "MAPIE", split.classes[np.where(passed, 0, said).astype(int)], passed


def chow_out_of_fold(split: Split, share: float) -> float:
    """Return the error among the answered of Chow's rule, out of fold."""
    P = split.known[split.best]
    kept = P.max(axis=1) >= np.quantile(P.max(axis=1), share)
    return split.error(P[kept], split.y[kept])


def ours(split: Split, share: float) -> Iterator[tuple[str, Any, Any, Found]]:
    """Yield the same for our rules, with seconds and whether the limits are met on the selection data."""
    limits = [rates.deferred() <= share, rates.deferred(by="group") <= PER_GROUP * share]
    mean = chow_out_of_fold(split, share)
    goal = rates.largest(rates.answered_error(by=split.by))
    wanted = [("mean", "error", limits)] + [
        (f"worst, {budget:g}", goal, [*limits, rates.answered_error() <= mean + budget]) for budget in BUDGETS
    ]
    for name, objective, within in wanted:
        if share == 0 and name not in ("mean", "worst, 0"):
            continue
        begin = time.process_time()
        try:
            mix = split.mix.reweight(objective=objective, limits=within)
        except InfeasibleLimitsError:
            yield name, None, None, {"infeasible": True}
            continue
        seconds = time.process_time() - begin
        more = {"seconds": round(seconds, 2), "met": mix.limits_met_}
        yield name, mix.predict(split.X_test), mix.defers(split.X_test), more


def measured(split: Split, answers: Any, passed: Any) -> Found:
    """Return the rates of a rule on the test rows."""
    given = {"groups": split.groups_test, "deferred": passed, "labels": split.classes}

    def of(rate: rates.Rate) -> dict[Any, float]:
        return rates.measure(rate, split.y_test, answers, **given)

    by_unit, by_group = of(rates.answered_error(by=split.by)), of(rates.deferred(by="group"))
    by_unit_passed = of(rates.deferred(by=split.by))
    return {
        "mean": of(rates.answered_error())[None],
        "worst": float(np.nanmax([*by_unit.values()])),
        "passed": of(rates.deferred())[None],
        "passed by group": {str(k): v for k, v in by_group.items()},
        "passed, most of a unit": max(by_unit_passed.values()),
        "test rows by group": {
            str(g): int((split.groups_test == g).sum()) for g in np.unique(split.groups_test)
        },
    }


def run(name: str, folder: Path, seed: int, cache: Path | None) -> Iterator[Found]:
    kept = None if cache is None else cache / f"{name}-{seed}.pickle"
    split = None
    if kept is not None and kept.exists():
        split = pickle.loads(kept.read_bytes())
    if split is None:
        split = Split(name, folder, seed)
        if kept is not None:
            kept.write_bytes(pickle.dumps(split))
    about = {
        "table": name,
        "seed": seed,
        "best model": split.best,
        "train rows": len(split.y),
        "test rows": len(split.y_test),
    }
    for share in SHARES:
        for method, answers, passed in rivals(split, share):
            yield about | {"method": method, "share": share} | measured(split, answers, passed)
        for method, answers, passed, more in ours(split, share):
            found = {} if answers is None else measured(split, answers, passed)
            yield about | {"method": method, "share": share, **more} | found


def summary(results: list[Found]) -> str:
    """Return a table of means over splits, with 95 % intervals for the differences from Chow's rule."""
    from scipy.stats import t

    lines = [
        f"{'table':8}{'share':>6} {'method':15}{'passed':>8}{'mean':>8}{'worst':>8}"
        "  mean − Chow's, worst − Chow's (95 %)"
    ]
    frame = pd.DataFrame([r for r in results if "mean" in r])
    for (table, share), part in frame.groupby(["table", "share"], sort=False):
        chow = part[part.method == "Chow"].set_index("seed")
        for method, own in part.groupby("method", sort=False):
            own = own.set_index("seed")
            seen = own[["passed", "mean", "worst"]].mean()
            text = (
                f"{table:8}{share:6.2f} {method:15}{seen.iloc[0]:8.4f}{seen.iloc[1]:8.4f}{seen.iloc[2]:8.4f}"
            )
            for what in ("mean", "worst"):
                d = (own[what] - chow[what]).dropna()
                half = t.ppf(0.975, max(len(d) - 1, 1)) * d.std() / np.sqrt(len(d)) if len(d) > 1 else np.nan
                text += f"  {d.mean():+.4f} ± {half:.4f}"
            lines.append(text + ("" if len(own) == len(chow) else f"  ({len(own)} splits)"))
    return "\n".join(lines)


def beyond_limits(results: list[Found]) -> str:
    """Return how many group deferral rates on test rows exceed their limit by two standard errors.

    Both the selection data, on which the rate was brought to the limit, and the test rows are noisy.
    """
    lines = []
    for table in dict.fromkeys(r["table"] for r in results):
        above = each = 0
        for r in results:
            if r["table"] != table or r["share"] == 0 or not r["method"].startswith(("mean", "worst")):
                continue
            most = PER_GROUP * r["share"]
            for group, seen in r.get("passed by group", {}).items():
                fresh = r["test rows by group"][group]
                chosen = fresh * r["train rows"] / r["test rows"]
                each += 1
                above += seen - most > 2 * np.sqrt(most * (1 - most) * (1 / fresh + 1 / chosen))
        lines.append(
            f"{table}: of {each} shares of groups {above} are above their limit by two standard errors"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    results = []
    for seed in range(args.splits):
        for name in args.only:
            for found in run(name, args.folder, seed, args.cache):
                print(json.dumps(found), flush=True)
                results.append(found)
    print(summary(results))
    print(beyond_limits(results))
    if args.out:
        versions = {"python": platform.python_version(), "tailboost": tb.__version__}
        lines = ",\n".join(json.dumps(_rounded(result)) for result in results)
        args.out.write_text(f'{{"versions": {json.dumps(versions)}, "results": [\n{lines}\n]}}\n')


def _rounded(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: _rounded(value) for key, value in found.items()}
    return round(found, 4) if isinstance(found, float) else found


if __name__ == "__main__":
    main()
