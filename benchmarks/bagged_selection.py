"""Smoother selections of a rule for the worst class, on the cached probabilities of `quality.py`.

    python benchmarks/bagged_selection.py --cache CACHE --out benchmarks/bagged_selection.json

A rule has one weight for each class. Each method selects one for each preference w: (1 − w) overall error +
w largest error of a class. The cost is that on test rows: its mean over w = 0, .1, …, 1, and that of w = 1.

    product         the trade-off curve of `RobustMixtureClassifier`
    plain           the best of the rules by Hedge, as in `_simple_engine.py`
    bagged          the mean logarithm of the weights that "plain" selects on ten resamples of the rows
    bagged, counted the best of the bagged rules of all w by their counts on the rows
    expected worst  "plain" with the mean of the largest error over the resamples
    shrunk          "plain" with weights nearer to 1 for classes of few rows
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from _record import opened, rounded, write

import tailboost as tb
from tailboost.rows.rows import Rows
from tailboost.selection.outputs import Average, logs_of

SHARES, ROUNDS, EVERY = (0.0, 0.5, 0.75, 0.9375), 32, 4  # of Hedge
PREFERENCES = np.linspace(0.0, 1.0, 11)
RESAMPLES, TEST_ROWS, FEWEST = 10, 6_000, 5
PSEUDO_ROWS = 5  # of the shrunk weights
METHODS = ("product", "plain", "bagged", "bagged, counted", "expected worst", "shrunk")
#: Selection rows, and draws of them.
SIZES = {300: 2, 1_500: 1}


def errors(P: Any, y: Any, weights: Any, rows: Any) -> tuple[float, Any]:
    """Return the overall error and the errors of the classes of a rule, on weighted rows."""
    wrong = ((P * weights).argmax(axis=1) != y) * rows
    size = np.bincount(y, rows, minlength=P.shape[1])
    each = np.bincount(y, wrong, minlength=P.shape[1]) / np.maximum(size, 1e-9)
    return float(wrong.sum() / rows.sum()), np.where(size > 0.0, each, 0.0)


def by_hedge(P: Any, y: Any, rows: Any) -> Any:
    """Return the class weights of rules, shape (C, K)."""
    K, found = P.shape[1], [np.ones(P.shape[1])]
    mass = np.bincount(y, rows, minlength=K) / rows.sum()
    for share in SHARES:
        total = np.zeros(K)
        for t in range(ROUNDS):
            hedge = np.exp(total - total.max())
            weights = (1.0 - share) * hedge / hedge.sum() / np.maximum(mass, 1e-9) + share
            total += errors(P, y, weights, rows)[1]
            if t % EVERY == EVERY - 1:
                found.append(weights)
    return np.array(found)


def points(P: Any, y: Any, rules: Any, rows: Any) -> Any:
    """Return the overall and the largest error of each rule, shape (2, C)."""
    each = [errors(P, y, weights, rows) for weights in rules]
    return np.array([[overall for overall, _ in each], [of.max() for _, of in each]])


def best(at: Any, w: float) -> int:
    """Return the number of the rule of least cost."""
    return int(((1.0 - w) * at[0] + w * at[1]).argmin())


def logs(weights: Any) -> Any:
    """Return centred logarithms."""
    found = np.log(np.maximum(weights, 1e-9))
    return found - found.mean()


def costs(P: Any, y: Any, T: Any, y_test: Any) -> dict[str, Any]:
    """Return the costs by w of each method but the product's, by probabilities of selection and test rows."""
    n, K = P.shape
    one, rng = np.ones(n), np.random.default_rng(0)
    rules = by_hedge(P, y, one)
    at, drawn, worst = points(P, y, rules, one), [], []
    for _ in range(RESAMPLES):
        rows = rng.multinomial(n, one / n).astype(float)
        own = by_hedge(P, y, rows)
        drawn.append((own, points(P, y, own, rows)))
        worst.append(points(P, y, rules, rows)[1])
    bagged = np.exp([np.mean([logs(own[best(of, w)]) for own, of in drawn], axis=0) for w in PREFERENCES])
    family = np.vstack([np.ones(K), bagged])
    counted, expected = points(P, y, family, one), np.array([at[0], np.mean(worst, axis=0)])
    nearer = np.bincount(y, minlength=K) / (np.bincount(y, minlength=K) + PSEUDO_ROWS)
    found: dict[str, Any] = {name: np.zeros(len(PREFERENCES)) for name in METHODS[1:]}
    for i, (w, mean) in enumerate(zip(PREFERENCES, bagged, strict=True)):
        plain = rules[best(at, w)]
        of_method = (
            plain, mean, family[best(counted, w)], rules[best(expected, w)], np.exp(nearer * logs(plain)),
        )  # fmt: skip
        for name, weights in zip(found, of_method, strict=True):
            overall, each = errors(T, y_test, weights, np.ones(len(y_test)))
            found[name][i] = (1.0 - w) * overall + w * each.max()
    return found


def of_product(P: Any, y: Any, P_test: Any, y_test: Any) -> Any:
    """Return the costs by w of the classifier's curve, by probabilities of the models."""
    mix = tb.RobustMixtureClassifier.from_probabilities(dict(zip("abcdef", P, strict=False)), y)
    curve = mix.tradeoff()
    on_test = curve.predicted(dict(zip("abcdef", P_test, strict=False)), y_test)
    at, test = (np.array([each.limited, each.value]) for each in (curve.values, on_test))
    return np.array([(1.0 - w) * test[0, best(at, w)] + w * test[1, best(at, w)] for w in PREFERENCES])


def of_table(kept: Any, n: int, draws: int) -> dict[str, Any]:
    """Return the costs by w of each method, the mean over draws of the selection rows."""
    Y, y_test = kept["y"].astype(int), kept["y_test"].astype(int)[:TEST_ROWS]
    P, P_test = kept["P"].astype(float), kept["P_test"].astype(float)[:, :TEST_ROWS]
    found: dict[str, Any] = dict.fromkeys(METHODS, 0.0)
    for draw in range(draws):
        order = np.random.default_rng(draw).permutation(len(Y))
        first = np.concatenate([order[Y[order] == k][:FEWEST] for k in np.unique(Y)])
        chosen = np.r_[first, np.setdiff1d(order, first)[: max(0, n - len(first))]]
        y, own = Y[chosen], P[:, chosen]
        average = Average.learned([logs_of(p) for p in own], Rows(y, np.ones(len(y)), None, "rows"))
        held, new = (
            np.exp(average.of(logs_of(of[i]) for i in average.asked.tolist())) for of in (own, P_test)
        )
        of_methods = {"product": of_product(own, y, P_test, y_test), **costs(held, y, new, y_test)}
        found = {name: found[name] + of_methods[name] / draws for name in found}
    return found


def less(tables: dict[str, dict[str, Any]], of_preference: Any) -> dict[str, Any]:
    """Return the cost of each method less the product's: mean, half of a 95 % interval, tables with less."""
    found = {}
    for name in METHODS[1:]:
        v = np.array([(of[name] - of["product"]) @ of_preference for of in tables.values()])
        half = 1.96 * v.std(ddof=1) / np.sqrt(len(v)) if len(v) > 1 else np.nan
        found[name] = {"mean": float(v.mean()), "half": float(half), "lower on": int((v < 0.0).sum())}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    record = opened(args.out, "bagged_selection")
    record["command"] = "python benchmarks/bagged_selection.py --cache CACHE --out bagged_selection.json"
    for n, draws in SIZES.items():
        tables = {}
        for file in sorted(args.cache.glob("*.0.npz")):
            with np.load(file) as kept:
                if "g" not in kept and len(kept["y"]) >= 1.5 * n:  # tables with groups are others again
                    tables[str(kept["title"])] = of_table(kept, n, draws)
        mean, alone = np.full(len(PREFERENCES), 1 / len(PREFERENCES)), PREFERENCES == 1.0
        of_tables = {title: {name: float(v @ mean) for name, v in of.items()} for title, of in tables.items()}
        found = {"less product": less(tables, mean), "less product, w = 1": less(tables, alone)}
        record[f"{n} rows"] = rounded({"draws": draws, **found, "cost": of_tables})
        print(n, len(tables), record[f"{n} rows"])
        write(record, args.out)


if __name__ == "__main__":
    main()
