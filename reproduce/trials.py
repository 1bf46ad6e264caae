"""Which defaults AdaLPBoost should have: learner, losses behind λ, number of rounds, early stopping.

Eleven data sets, random splits 60/40 with at most 7,200 training rows, seven α. Every variant is fitted
once per split, for 20 rounds; fewer rounds and early stopping are read off the same fit by solving for λ on
a prefix of its members. Constants are always in the pool. Figures are about the expected zero-one loss on
the test rows. "Excess" is over the best of three on test: plain ERM (the first member), the even mixture of
the members, the coin flip.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from common import LOADERS, Record, Split, interval, markdown, parser, rounded, split, write
from sklearn.ensemble import RandomForestClassifier
from xgboost import XGBClassifier

import tailboost as tb
from tailboost.combine import Objective
from tailboost.metrics import cvar
from tailboost.solvers import minimize_cvar_mixture

ALPHAS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.9)
ROUNDS = 20
MAX_TRAIN = 7200
MAX_TRAIN = 7200
SETS = [name for name in LOADERS if name != "w8a"]


LEARNERS = {
    "tree": tb.learners.HistTreeClassifier,
    "strong": tb.learners.HistBoostClassifier,
    "strong, tree per class": partial(tb.learners.HistBoostClassifier, vector_leaves=False),
}
VALIDATIONS = ("train", 0.2, "cv")
VARIANTS = [(learner, validation) for learner in ("tree", "strong") for validation in VALIDATIONS]
DEFAULT = ("strong", "cv")
PER_CLASS = ("strong, tree per class", "cv")  # on sets with many classes
STOPPING = [(patience, tol) for tol in (1e-4, 1e-3) for patience in (1, 2, 3, 5)]
ENOUGH = 0.01


def measure(s: Split, n_classes: int, learner: str, validation: Any, seed: int, jobs: int) -> dict[str, Any]:
    """Fit one variant and measure every prefix of it at every α."""
    clf = tb.AdaLPBoostClassifier(
        LEARNERS[learner](n_jobs=jobs),
        n_estimators=ROUNDS,
        n_iter_no_change=None,
        validation=validation,
        random_state=seed,
        n_jobs=jobs,
    )
    began = time.perf_counter()
    clf.fit(s.X_train, s.y_train)
    fit_seconds = time.perf_counter() - began
    # Labels are class numbers, so that members answer with labels.
    wrong = np.array(
        [k != s.y_test for k in clf._answers(s.X_test, range(len(clf.estimators_)))], dtype=float
    )
    T = clf.n_iter_
    prefixes = range(1, T + 1) if learner != "tree" and validation != "train" else [T]
    pools = [np.r_[:t, T : len(wrong)] for t in prefixes]
    began = time.perf_counter()
    solutions = [[clf._ledger.solve(Objective("cvar", a), t) for t in prefixes] for a in ALPHAS]
    solve_seconds = (time.perf_counter() - began) / (len(ALPHAS) * len(prefixes))
    for alpha, stages in zip(ALPHAS, solutions, strict=True):
        assert np.allclose(clf.reweight(alpha=alpha).estimator_weights_, stages[-1].mixture, atol=1e-12)
    return {
        "n_train": len(s.y_train),
        "n_test": len(s.y_test),
        "coin": 1 - 1 / n_classes,
        "error": rounded(wrong.mean(axis=1)),
        "validation_error": rounded(clf._ledger.mean_losses()),
        "fit_seconds": round(fit_seconds, 4),
        "round_seconds": rounded(clf.trace_.seconds, 4),
        "solve_seconds": round(solve_seconds, 5),
        "erm": rounded([cvar(wrong[0], a) for a in ALPHAS]),
        "average": rounded([cvar(wrong[:T].mean(axis=0), a) for a in ALPHAS]),
        # ALPHAS × prefixes: the objective on the rows behind λ, and the CVaR on test.
        "value": rounded([[x.value for x in stages] for stages in solutions], 6),
        "cvar": rounded(
            [
                [cvar(x.mixture @ wrong[pool], a) for x, pool in zip(stages, pools, strict=True)]
                for a, stages in zip(ALPHAS, solutions, strict=True)
            ]
        ),
        "gap": max(x.gap for stages in solutions for x in stages),
    }


def constants(s: Split, n_classes: int) -> dict[str, Any]:
    """Test CVaR at every α of the best mixture of constants alone: a coin, loaded by the class shares."""
    train, test = (np.array([y != k for k in range(n_classes)], float) for y in (s.y_train, s.y_test))
    return {"cvar": rounded([cvar(minimize_cvar_mixture(train, a).mixture @ test, a) for a in ALPHAS])}


def single_fits(s: Split, jobs: int) -> dict[str, Any]:
    """HistBoost with vector leaves and with a tree per class, XGBoost's own classifier, a forest."""
    models = {
        "HistBoost (vector leaves)": tb.learners.HistBoostClassifier(n_jobs=jobs),
        "HistBoost (tree per class)": tb.learners.HistBoostClassifier(n_jobs=jobs, vector_leaves=False),
        "XGBClassifier (tree per class)": XGBClassifier(
            n_estimators=50, max_depth=5, learning_rate=0.3, n_jobs=jobs
        ),
        "Random forest": RandomForestClassifier(random_state=0, n_jobs=jobs),
    }
    cell: dict[str, Any] = {}
    for name, model in models.items():
        began = time.perf_counter()
        model.fit(s.X_train, s.y_train)
        seconds = time.perf_counter() - began
        cell[name] = {
            "error": float(np.mean(model.predict(s.X_test) != s.y_test)),
            "fit_seconds": round(seconds, 4),
        }
    return cell


# -- reading the fits ------------------------------------------------------------------------------------


def stop(value: np.ndarray, patience: int, tol: float) -> int:
    """Rounds played with ``n_iter_no_change=patience``: the rule of the estimators, on a recorded run."""
    for t in range(1, len(value)):
        if value[t - 1] <= 0:
            return t
        if t > patience and value[: t - patience].min() - value[t - patience : t].min() < tol:
            return t
    return len(value)


def stages(cell: dict[str, Any], rounds: int | np.ndarray) -> np.ndarray:
    """Test CVaR at every α after a number of rounds, the same for all α or one for each."""
    curve = np.array(cell["cvar"])
    if isinstance(rounds, int):
        return curve[:, -1 if rounds == ROUNDS else rounds - 1]
    return curve[np.arange(len(ALPHAS)), rounds - 1]


def played(cell: dict[str, Any], patience: int, tol: float, alpha: float | None = None) -> np.ndarray:
    """Rounds until the objective at each α, or the one α that was asked for in fit, no longer falls."""
    watched = cell["value"] if alpha is None else [cell["value"][ALPHAS.index(alpha)]] * len(ALPHAS)
    return np.array([stop(np.array(v), patience, tol) for v in watched])


def floor(cell: dict[str, Any]) -> np.ndarray:
    """Return the best of ERM, average and coin flip on test at every α."""
    return np.minimum(np.minimum(cell["erm"], cell["average"]), cell["coin"])


def by_set(cells: list[dict[str, Any]], per_cell: list[np.ndarray]) -> np.ndarray:
    """Means by data set of what was measured in each cell, so that every set counts the same."""
    names = np.array([c["set"] for c in cells])
    return np.array(
        [np.mean([x for x, n in zip(per_cell, names, strict=True) if n == s]) for s in sets_of(cells)]
    )


def sets_of(cells: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(c["set"] for c in cells))


def signed(x: np.ndarray) -> str:
    """Mean over the data sets ± its standard error."""
    if len(x) < 2:
        return f"{x.mean():+.4f}"
    return f"{x.mean():+.4f} ± {x.std(ddof=1) / np.sqrt(len(x)):.4f}"


def variants_table(groups: dict[Any, list[dict[str, Any]]]) -> Iterator[list[Any]]:
    for variant, cells in groups.items():
        if not cells:
            continue
        # On the splits that both have.
        at = {(c["set"], c["seed"]): stages(c, ROUNDS) for c in groups[DEFAULT]}
        cells = [c for c in cells if (c["set"], c["seed"]) in at]
        result = [stages(c, ROUNDS) for c in cells]
        excess = [r - floor(c) for r, c in zip(result, cells, strict=True)]
        difference = by_set(cells, [r - at[c["set"], c["seed"]] for r, c in zip(result, cells, strict=True)])
        yield [
            *variant,
            len(sets_of(cells)),
            f"{by_set(cells, result).mean():.3f}",
            f"{by_set(cells, excess).mean():+.4f}",
            f"{by_set(cells, [e <= ENOUGH for e in excess]).mean():.3f}",
            "" if variant == DEFAULT else signed(difference),
            "" if variant == DEFAULT else f"{np.sum(difference > 0)}/{len(difference)}",
            f"{by_set(cells, [c['fit_seconds'] for c in cells]).mean():.2f}",
        ]


def rounds_table(cells: list[dict[str, Any]]) -> Iterator[list[Any]]:
    one = by_set(cells, [stages(c, 1) for c in cells])
    for rounds in (1, 2, 3, 5, 10, ROUNDS):
        result = [stages(c, rounds) for c in cells]
        yield [
            f"T = {rounds}",
            f"{by_set(cells, result).mean():.4f}",
            signed(by_set(cells, result) - one) if rounds > 1 else "",
            f"{np.mean([np.sum(c['round_seconds'][:rounds]) for c in cells]):.2f}",
            rounds,
        ]
    rules = [(patience, tol, None) for patience, tol in STOPPING]
    for patience, tol, alpha in [*rules, (1, 1e-3, 0.5), (3, 1e-3, 0.5)]:
        rounds = [played(c, patience, tol, alpha) for c in cells]
        result = [stages(c, t) for c, t in zip(cells, rounds, strict=True)]
        seconds = [[np.sum(c["round_seconds"][:t]) for t in of] for c, of in zip(cells, rounds, strict=True)]
        where = "" if alpha is None else f", at α = {alpha:g}, then re-weighted"
        yield [
            f"n_iter_no_change = {patience}, tol = {tol:g}{where}",
            f"{by_set(cells, result).mean():.4f}",
            signed(by_set(cells, result) - one),
            f"{np.mean(seconds):.2f}",
            f"{np.mean(rounds):.1f}",
        ]


def sets_table(groups: dict[Any, list[dict[str, Any]]], coins: list[dict[str, Any]]) -> Iterator[list[Any]]:
    loaded = {(c["set"], c["seed"]): np.array(c["cvar"]) for c in coins}
    for name in sets_of(groups[DEFAULT]):
        cells = [c for c in groups[DEFAULT] if c["set"] == name]
        error = np.mean([c["error"][0] for c in cells])
        coin = cells[0]["coin"]
        first, last, best = (
            np.mean([f(c) for c in cells], axis=0)
            for f in (lambda c: stages(c, 1), lambda c: stages(c, ROUNDS), floor)
        )
        simple = np.mean([np.minimum(c["erm"], loaded[name, c["seed"]]) for c in cells], axis=0)
        seconds = np.mean([c["fit_seconds"] for c in cells])
        yield [
            name,
            len(cells),
            f"{error:.3f}",
            f"{np.mean([c['validation_error'][0] for c in cells]):.3f}",
            f"{error / coin:.2f}",
            *(f"{x:.3f} ({x - y:+.3f})" for x, y in zip(last, simple, strict=True)),
            f"{np.mean(last - first):+.4f}",
            f"{np.mean(last - best):+.4f}",
            f"{seconds:.1f}",
        ]


def main() -> None:
    """Run what is missing, print the tables, write the results."""
    p = parser(__doc__.split("\n")[0], "trials", 5)
    p.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    args = p.parse_args()
    record = Record(args.out.with_suffix(".jsonl"), args.recorded)
    groups: dict[Any, list[dict[str, Any]]] = {v: [] for v in (*VARIANTS, PER_CLASS)}
    peers, coins = [], []
    for name in args.sets:
        data = LOADERS[name](args.data)
        for seed in range(args.repeats):
            s = split(data, seed, 0.4, MAX_TRAIN, None)
            many = data.n_classes > 2
            for variant in [*VARIANTS, PER_CLASS] if many else VARIANTS:
                key = {"set": name, "seed": seed, "learner": variant[0], "validation": variant[1]}
                groups[variant] += record.run(
                    key, partial(measure, s, data.n_classes, *variant, seed, args.jobs)
                )
            key = {"set": name, "seed": seed, "learner": "constants"}
            coins += record.run(key, partial(constants, s, data.n_classes))
            if many:
                key = {"set": name, "seed": seed, "learner": "single fits"}
                peers += record.run(key, partial(single_fits, s, args.jobs))
    report(groups, coins, peers, args)


def report(
    groups: dict[Any, list[dict[str, Any]]],
    coins: list[dict[str, Any]],
    peers: list[dict[str, Any]],
    args: Any,
) -> None:
    """Print the tables and write the results."""
    n = len(groups[DEFAULT])
    print(f"\n{len(sets_of(groups[DEFAULT]))} sets, {args.repeats} splits, {n * len(ALPHAS)} cells\n")
    document: dict[str, Any] = {
        "protocol": {"alphas": ALPHAS, "rounds": ROUNDS, "seeds": list(range(args.repeats)), "test_size": 0.4}
        | {"max_train": MAX_TRAIN},
        "cells": n * len(ALPHAS),
        "largest solver gap": max(c["gap"] for cells in groups.values() for c in cells),
    }

    def show(title: str, header: list[str], rows: Iterator[list[Any]]) -> None:
        table = list(rows)
        print(f"\n{title}:\n\n{markdown(header, table)}")
        document[title] = {"header": header, "rows": table}

    header = ["learner", "λ from", "sets", "mean CVaR", "excess", f"share ≤ {ENOUGH}"]
    header += [f"mean CVaR less that of {', '.join(DEFAULT)}", "higher on", "s"]
    show(f"Variants, T = {ROUNDS}", header, variants_table(groups))
    for variant in (DEFAULT, ("strong", 0.2)):
        header = ["rounds", "mean CVaR", "less that of T = 1", "s", "rounds played"]
        show(f"Rounds ({variant[0]}, {variant[1]})", header, rounds_table(groups[variant]))
    header = [
        "set",
        "splits",
        "ERM error",
        "out of fold",
        "coin until α",
        *map(str, ALPHAS),
        "T=20 − T=1",
        "excess",
        "s",
    ]
    title = "CVaR by set (and less the lower of ERM and the best mixture of constants)"
    show(f"{title}, {', '.join(DEFAULT)}, T = {ROUNDS}", header, sets_table(groups, coins))
    header = ["set", "splits", *map(str, ALPHAS), "mean ± 95 %"]
    title = "CVaR with a tree per class less that with vector leaves, by α"
    show(f"{title}, {DEFAULT[1]}, T = {ROUNDS}", header, per_class_table(groups))
    header = ["set", "learner", "error", "s"]
    show("Single fits, many classes, mean ± 95 % over splits", header, peers_table(peers))
    write(args.out, document)


def per_class_table(groups: dict[Any, list[dict[str, Any]]]) -> Iterator[list[Any]]:
    at = {(c["set"], c["seed"]): stages(c, ROUNDS) for c in groups[DEFAULT]}
    for name in sets_of(groups[PER_CLASS]):
        cells = [c for c in groups[PER_CLASS] if c["set"] == name and (name, c["seed"]) in at]
        differences = np.array([stages(c, ROUNDS) - at[name, c["seed"]] for c in cells])
        mean = interval(differences.mean(axis=1), 4)
        yield [name, len(cells), *(f"{x:+.3f}" for x in differences.mean(axis=0)), mean]


def peers_table(peers: list[dict[str, Any]]) -> Iterator[list[Any]]:
    for name in sets_of(peers):
        cells = [c for c in peers if c["set"] == name]
        for model in (k for k, v in cells[0].items() if isinstance(v, dict)):
            of = [c[model] for c in cells]
            seconds = np.mean([m["fit_seconds"] for m in of])
            yield [name, model, interval([m["error"] for m in of], 4), f"{seconds:.2f}"]


if __name__ == "__main__":
    main()
