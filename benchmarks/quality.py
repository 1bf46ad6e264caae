"""Rules for the worst class, or cell of class and group, beside simpler selections, on new rows.

    python benchmarks/quality.py [--data DIR] [--only TABLE ...] [--splits 3] [--out FILE] [--before FILE]

Half of a table's rows, at most 6,000, give three models with out-of-fold probabilities; at most 10,000 others
are test rows. Each method selects a rule on the out-of-fold probabilities:

    ours          `RobustMixtureClassifier.from_probabilities`, within each budget of the overall error
    Hedge         weights of the classes, by group, by Hedge on the average of the models: the best round
                  within each budget
    most likely   the most likely class of this average

The cost is the mean over w = 0, .1, …, 1 of ``(1 − w) overall + w worst`` on test rows, for the budget with
the smallest value on the selection data. FILE keeps the costs; ``--before`` compares ours with such a file.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from _tables import BUNDLED, TARGETS, Table, load
from scipy.special import log_softmax
from scipy.stats import t as student
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tailboost as tb

BUDGETS = (None, 0.0, 0.005, 0.02, 0.05)
WEIGHTS = np.linspace(0, 1, 11)
MOST_ROWS, MOST_JUDGED, FOLDS = 6_000, 10_000, 3
# Fewest rows of a class, and test rows of a subgroup whose error counts.
ROWS_OF_CLASS, ROWS_OF_SUBGROUP = 40, 10
ROUNDS, STEP = 200, 2.0


def splits(name: str, n_splits: int, folder: Path | None) -> Iterator[tuple[Any, ...]]:
    """Yield probabilities by model, labels and groups of the selection data and of test rows."""
    table = load(name, folder)
    X = np.nan_to_num(table.X)
    common = np.isin(table.y, np.flatnonzero(np.bincount(table.y) >= ROWS_OF_CLASS))
    y = np.unique(table.y[common], return_inverse=True)[1]
    table = Table(X[common], y, None if table.groups is None else table.groups[common])
    models = {
        "trees": HistGradientBoostingClassifier(random_state=0),
        "forest": ExtraTreesClassifier(100, min_samples_leaf=2, random_state=0),
        "linear": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1_000)),
    }
    for seed in range(n_splits):
        order = np.random.default_rng(seed).permutation(len(y))
        n = min(MOST_ROWS, len(y) // 2)
        a, b = order[:n], order[n : n + MOST_JUDGED]
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
        X, y = table.X[a], table.y[a]
        if len(np.unique(y)) < len(np.unique(table.y)) or np.bincount(y).min() < FOLDS:
            continue
        P = {m: cross_val_predict(models[m], X, y, cv=folds, method="predict_proba") for m in models}
        P_new = {m: models[m].fit(X, y).predict_proba(table.X[b]) for m in models}
        groups = (None, None) if table.groups is None else (table.groups[a], table.groups[b])
        yield seed, P, P_new, y, table.y[b], *groups


def subgroups(y: Any, groups: Any) -> dict[Any, Any]:
    """Return the rows of each class or, with groups, of each cell of class and group."""
    classes = {k: y == k for k in np.unique(y).tolist()}
    if groups is None:
        return classes
    return {(k, g): classes[k] & (groups == g) for k in classes for g in np.unique(groups).tolist()}


def errors(answers: Any, y: Any, groups: Any, fewest: int = 1) -> tuple[float, float]:
    """Return the overall error and the largest of the subgroups with rows enough."""
    wrong = answers != y
    found = [wrong[rows].mean() for rows in subgroups(y, groups).values() if rows.sum() >= fewest]
    return float(wrong.mean()), float(max(found))


def average(P: dict[str, Any]) -> Any:
    """Return the average of log-probabilities, scaled."""
    return log_softmax(np.mean([np.log(each.clip(1e-6)) for each in P.values()], axis=0), axis=1)


def hedge(logs: Any, logs_new: Any, y: Any, g: Any, g_new: Any) -> Iterator[Any]:
    """Yield answers for selection and test rows within each budget, from the rounds of Hedge."""
    n, K = logs.shape
    names = ["all"] if g is None else np.unique(g).tolist()
    group, group_new = np.zeros(n, dtype=int), np.zeros(len(logs_new), dtype=int)
    if g is not None:
        group, group_new = np.searchsorted(names, g), np.searchsorted(names, g_new)
    masses = np.zeros((len(names), K))
    np.add.at(masses, (group, y), 1 / n)

    total, rounds = np.log(masses.clip(1 / n)), []
    for _ in range(ROUNDS):
        costs = total - np.log(masses.clip(1 / n))  # log cost of a mistake on a row of a cell
        wrong = (logs + costs[group]).argmax(axis=1) != y
        rates = np.zeros_like(masses)
        np.add.at(rates, (group, y), wrong / n)
        rates /= masses.clip(1 / n)
        rounds.append((rates.max(), wrong.mean(), costs))
        total = total + STEP / ROUNDS**0.5 * rates
    least = min(overall for _, overall, _ in rounds)
    for budget in BUDGETS:
        within = [each for each in rounds if budget is None or each[1] <= least + budget + 1e-12]
        *_, costs = min(within, key=itemgetter(0, 1))
        yield (logs + costs[group]).argmax(axis=1), (logs_new + costs[group_new]).argmax(axis=1)


def ours(P: Any, P_new: Any, y: Any, g: Any, g_new: Any) -> Iterator[Any]:
    """Yield answers for selection and test rows within each budget."""
    by = "class" if g is None else "cell"
    mix = tb.RobustMixtureClassifier.from_probabilities(
        P, y, objective=f"worst_{by}", by_group=g is not None, groups=g
    )
    for budget in BUDGETS:
        rule = mix if budget is None else mix.reweight(error_budget=budget)
        yield rule.predict(P, groups=g), rule.predict(P_new, groups=g_new)


def cost(pairs: list[Any], y: Any, y_new: Any, g: Any, g_new: Any) -> float:
    """Return the mean cost on test rows of the answers within each budget."""
    weights = np.column_stack([1 - WEIGHTS, WEIGHTS])
    seen = np.array([errors(answers, y, g) for answers, _ in pairs])
    new = np.array([errors(answers, y_new, g_new, ROWS_OF_SUBGROUP) for _, answers in pairs])
    return float((weights * new[(weights @ seen.T).argmin(axis=1)]).sum(axis=1).mean())


def over_tables(values: dict[str, float]) -> str:
    """Return the mean over splits, then tables, with half of its 95 % interval over tables."""
    tables: dict[str, list[float]] = {}
    for key, value in values.items():
        tables.setdefault(key.split("/")[0], []).append(value)
    means = np.array([np.mean(each) for each in tables.values()])
    half = student.ppf(0.975, len(means) - 1) * means.std(ddof=1) / len(means) ** 0.5 if len(means) > 1 else 0
    return f"{means.mean():+.4f} ± {half:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with NAME.csv.gz of more tables")
    parser.add_argument("--only", nargs="*", choices=[*BUNDLED, *TARGETS], help="some tables")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--before", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    costs: dict[str, dict[str, dict[str, float]]] = {}
    for name in args.only or [*BUNDLED, *(TARGETS if args.data else [])]:
        for seed, P, P_new, y, y_new, g, g_new in splits(name, args.splits, args.data):
            logs, logs_new = average(P), average(P_new)
            methods = {
                "ours": list(ours(P, P_new, y, g, g_new)),
                "Hedge": list(hedge(logs, logs_new, y, g, g_new)),
                "most likely": [(logs.argmax(axis=1), logs_new.argmax(axis=1))],
            }
            title = "worst class" if g is None else "worst cell of class and group, by group"
            for method, pairs in methods.items():
                of = costs.setdefault(title, {}).setdefault(method, {})
                of[f"{name}/{seed}"] = round(cost(pairs, y, y_new, g, g_new), 5)
        print(name, flush=True)
    before = json.loads(args.before.read_text())["costs"] if args.before else {}
    for title, methods in costs.items():
        of = methods["ours"]
        n_tables = len({key.split("/")[0] for key in of})
        print(f"\n{title}: {n_tables} tables, {len(of)} splits; cost of ours {over_tables(of)}")
        for method in ("Hedge", "most likely"):
            print(f"  {method:12} {over_tables({k: methods[method][k] - of[k] for k in of})}")
        then = before.get(title, {}).get("ours", {})
        shared = {k: of[k] - then[k] for k in of if k in then}
        if shared:
            print(f"  after − before {over_tables(shared)}, {sum(v == 0 for v in shared.values())} equal")
    if args.out:
        args.out.write_text(json.dumps({"tailboost": tb.__version__, "costs": costs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
