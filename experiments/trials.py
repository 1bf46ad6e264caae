"""Which defaults AdaLPBoost should have: learner, losses behind λ, number of rounds, early stopping.

Eleven data sets, random splits 60/40 with at most 7,200 training rows, seven α. Every variant is fitted once
per split, for 20 rounds, one by one; fewer rounds and early stopping are read off the same fit. Constants are
always in the pool. Figures are about the expected zero-one loss on the test rows. "Excess" is over the best
of three on test: plain ERM (the first member), the even mixture of the members, the random guess.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from experiments._experiment import (
    Cells,
    Experiment,
    Report,
    Settings,
    markdown,
    plus_minus,
    with_standard_error,
)
from experiments._tables import Split, load_all, split
from tailboost.boosting.game import Round, Schedule, Trace
from tailboost.classifiers import AdaLPBoostClassifier
from tailboost.learners import HistBoostClassifier, HistTreeClassifier
from tailboost.learners.hist import BoostSession
from tailboost.rates.metrics import cvar, cvar_zero_one_loss
from tailboost.solvers import minimize_cvar_mixture

Floats = NDArray[np.float64]
Cell = dict[str, Any]
# Cells by learner and validation.
Groups = dict[tuple[str, Any], list[Cell]]

ALPHAS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.9)
ROUNDS = 20
# Numbers of rounds in the tables, in addition to all.
AFTER = (1, 2, 3, 5, 10)
MAX_TRAIN, TEST_SIZE = 7200, 0.4
SETS = (
    "credit default", "adult", "bank", "COMPAS", "higgs", "spambase", "wine, binary", "wine, 7 classes",
    "yeast", "letter", "page blocks",
)  # fmt: skip


class VectorSession(BoostSession):
    """Fits of `VectorBoost`."""

    def _targets(self, y: Any) -> Any:
        return y.astype(np.float32)


class VectorBoost(HistBoostClassifier):
    """Boosted trees whose leaves contain a score for every class."""

    _session = VectorSession
    _vector_leaves = True


LEARNERS: dict[str, Any] = {
    "tree": HistTreeClassifier, "strong": VectorBoost, "strong, tree per class": HistBoostClassifier,
}  # fmt: skip
VALIDATIONS = ("train", 0.2, "cv")
VARIANTS = [(learner, validation) for learner in ("tree", "strong") for validation in VALIDATIONS]
DEFAULT = ("strong", "cv")
PER_CLASS = ("strong, tree per class", "cv")  # on sets with many classes
STOPPING = [(patience, tol) for tol in (1e-4, 1e-3) for patience in (1, 2, 3, 5)]
ENOUGH = 0.01


def measure(rows: Split, n_classes: int, learner: str, validation: Any, seed: int, n_jobs: int) -> Cell:
    """Fit one variant and measure the CVaR at every α, after every round if rounds are compared."""
    train, test = rows.train, rows.test
    clf = AdaLPBoostClassifier(
        LEARNERS[learner](n_jobs=n_jobs),
        n_iter_no_change=None,
        cv=5 if validation == "cv" else validation,
        random_state=seed,
        n_jobs=n_jobs,
    )
    seconds, stages = 0.0, []
    for t in [ROUNDS] if learner == "tree" or validation == "train" else range(1, ROUNDS + 1):
        began = time.perf_counter()
        clf.set_params(n_estimators=t).fit(train.X, train.y)
        seconds = time.perf_counter() - began  # of the longest fit
        stages.append([clf.reweight(alpha=alpha) for alpha in ALPHAS])
    # Labels are class numbers, so hypotheses answer with labels.
    erm = clf.reweight(alpha=1.0).summary_.reference_value
    assert erm is not None  # without an error budget
    wrong = np.array([k != test.y for k in clf.ensemble_.answers(test.X, range(clf.n_iter_))])
    return {
        "coin": 1 - 1 / n_classes,
        "error": round(float(wrong[0].mean()), 5),
        "out of fold": round(erm, 5),
        "fit_seconds": round(seconds, 4),
        "round_seconds": clf.trace_.seconds.round(4).tolist(),
        "erm": [round(cvar(wrong[0], a), 5) for a in ALPHAS],
        "average": [round(cvar(wrong.mean(axis=0), a), 5) for a in ALPHAS],
        # By α, then by round: the objective on the rows behind λ, and the CVaR on test.
        "value": [[round(at.summary_.achieved, 6) for at in of] for of in zip(*stages, strict=True)],
        "cvar": [
            [round(cvar_zero_one_loss(test.y, at.predict_distribution(test.X), a), 5) for at in of]
            for a, of in zip(ALPHAS, zip(*stages, strict=True), strict=True)
        ],
        "gap": max(at.gap_ for of in stages for at in of),
    }


def constants(rows: Split, n_classes: int) -> Cell:
    """Test CVaR at every α of the best mixture of constants alone: a coin, loaded by the class shares."""
    train, test = (
        np.array([part.y != k for k in range(n_classes)], dtype=float) for part in (rows.train, rows.test)
    )
    return {"cvar": [round(cvar(minimize_cvar_mixture(train, a).mixture @ test, a), 5) for a in ALPHAS]}


def single_fits(rows: Split, n_jobs: int) -> Cell:
    """HistBoost with vector leaves and with a tree per class, XGBoost's classifier, a forest."""
    from xgboost import XGBClassifier

    models = {
        "HistBoost (vector leaves)": VectorBoost(n_jobs=n_jobs),
        "HistBoost (tree per class)": HistBoostClassifier(n_jobs=n_jobs),
        "XGBClassifier (tree per class)": XGBClassifier(
            n_estimators=50, max_depth=5, learning_rate=0.3, n_jobs=n_jobs
        ),
        "Random forest": RandomForestClassifier(random_state=0, n_jobs=n_jobs),
    }
    cell: Cell = {}
    for name, model in models.items():
        began = time.perf_counter()
        model.fit(rows.train.X, rows.train.y)
        seconds = time.perf_counter() - began
        cell[name] = {
            "error": float(np.mean(model.predict(rows.test.X) != rows.test.y)),
            "fit_seconds": round(seconds, 4),
        }
    return cell


# -- reading the fits ------------------------------------------------------------------------------------


def stop(value: list[float], patience: int, tol: float) -> int:
    """Count the rounds played with ``n_iter_no_change=patience``: the estimators' rule on recorded values."""
    schedule, trace = Schedule.falling(len(value), patience, tol, None), Trace()
    for t, reached in enumerate(value, start=1):
        trace = trace.adding(Round(np.nan, np.nan, 0.0, 0.0, reached), np.empty(0))
        if schedule.stop(trace, 0.0):
            return t
    return len(value)


def stages(cell: Cell, rounds: int | NDArray[np.intp]) -> Floats:
    """Test CVaR at every α after a number of rounds, the same for all α or one for each."""
    curve: Floats = np.array(cell["cvar"])
    if isinstance(rounds, int):
        return curve[:, -1 if rounds == ROUNDS else rounds - 1]
    chosen: Floats = curve[np.arange(len(ALPHAS)), rounds - 1]
    return chosen


def played(cell: Cell, patience: int, tol: float, alpha: float | None = None) -> NDArray[np.intp]:
    """Count the rounds until the objective at each α, or the one α of the fit, no longer falls."""
    watched = cell["value"] if alpha is None else [cell["value"][ALPHAS.index(alpha)]] * len(ALPHAS)
    return np.array([stop(v, patience, tol) for v in watched])


def floor(cell: Cell) -> Floats:
    """Return the best of ERM, average and random guess on test at every α."""
    least: Floats = np.minimum(np.minimum(cell["erm"], cell["average"]), cell["coin"])
    return least


def by_set(cells: list[Cell], per_cell: list[Any]) -> Floats:
    """Return means by data set, so every set counts the same."""
    names = np.array([c["set"] for c in cells])
    return np.array(
        [np.mean([x for x, n in zip(per_cell, names, strict=True) if n == s]) for s in sets_of(cells)]
    )


def sets_of(cells: list[Cell]) -> list[str]:
    """Return the names of the data sets, in order."""
    return list(dict.fromkeys(c["set"] for c in cells))


def variants_table(groups: Groups) -> Iterator[list[Any]]:
    """Yield lines: learner and source of λ, compared with the default on common splits."""
    for variant, cells in groups.items():
        if not cells:
            continue
        # On common splits.
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
            "" if variant == DEFAULT else with_standard_error(difference, 4),
            "" if variant == DEFAULT else f"{np.sum(difference > 0)}/{len(difference)}",
            f"{by_set(cells, [c['fit_seconds'] for c in cells]).mean():.2f}",
        ]


def rounds_table(cells: list[Cell]) -> Iterator[list[Any]]:
    """Yield lines: fewer rounds and early stopping, read off the same fits."""
    one = by_set(cells, [stages(c, 1) for c in cells])
    for rounds in (*(t for t in AFTER if t < ROUNDS), ROUNDS):
        result = [stages(c, rounds) for c in cells]
        yield [
            f"T = {rounds}",
            f"{by_set(cells, result).mean():.4f}",
            with_standard_error(by_set(cells, result) - one, 4) if rounds > 1 else "",
            f"{np.mean([np.sum(c['round_seconds'][:rounds]) for c in cells]):.2f}",
            rounds,
        ]
    rules = [(patience, tol, None) for patience, tol in STOPPING]
    for patience, tol, alpha in [*rules, (1, 1e-3, 0.5), (3, 1e-3, 0.5)]:
        stopped = [played(c, patience, tol, alpha) for c in cells]
        result = [stages(c, t) for c, t in zip(cells, stopped, strict=True)]
        seconds = [[np.sum(c["round_seconds"][:t]) for t in of] for c, of in zip(cells, stopped, strict=True)]
        where = "" if alpha is None else f", at α = {alpha:g}, then re-weighted"
        yield [
            f"n_iter_no_change = {patience}, tol = {tol:g}{where}",
            f"{by_set(cells, result).mean():.4f}",
            with_standard_error(by_set(cells, result) - one, 4),
            f"{np.mean(seconds):.2f}",
            f"{np.mean(stopped):.1f}",
        ]


def sets_table(groups: Groups, coins: list[Cell]) -> Iterator[list[Any]]:
    """Yield lines: the default on each data set."""
    loaded = {(c["set"], c["seed"]): np.array(c["cvar"]) for c in coins}
    for name in sets_of(groups[DEFAULT]):
        cells = [c for c in groups[DEFAULT] if c["set"] == name]
        error = np.mean([c["error"] for c in cells])
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
            f"{np.mean([c['out of fold'] for c in cells]):.3f}",
            f"{error / coin:.2f}",
            *(f"{x:.3f} ({x - y:+.3f})" for x, y in zip(last, simple, strict=True)),
            f"{np.mean(last - first):+.4f}",
            f"{np.mean(last - best):+.4f}",
            f"{seconds:.1f}",
        ]


def play(settings: Settings, name: str) -> Report:
    """Compute missing cells and read all cells."""
    cells = Cells(settings, name)
    groups: Groups = {v: [] for v in (*VARIANTS, PER_CLASS)}
    peers: list[Cell] = []
    coins: list[Cell] = []
    tables = load_all(settings.folder, SETS)
    for title, data in tables.items():
        many = data.n_classes > 2
        for seed in range(settings.repeats):
            at = {"set": title, "seed": seed}
            rows = split(data, seed, TEST_SIZE, MAX_TRAIN)
            for variant in [*VARIANTS, PER_CLASS] if many else VARIANTS:
                key = at | {"learner": variant[0], "validation": variant[1]}
                fit = partial(measure, rows, data.n_classes, *variant, seed, settings.n_jobs)
                groups[variant].append(at | cells.get(key, fit))
            coin = cells.get(at | {"learner": "constants"}, partial(constants, rows, data.n_classes))
            coins.append(at | coin)
            if many:
                found = cells.get(
                    at | {"learner": "single fits"}, partial(single_fits, rows, settings.n_jobs)
                )
                peers.append(at | found)
    return report(settings, groups, coins, peers)


def report(settings: Settings, groups: Groups, coins: list[Cell], peers: list[Cell]) -> Report:
    """Return the tables."""
    n, tables = len(groups[DEFAULT]), dict[str, dict[str, list[Any]]]()

    def table(title: str, header: list[str], rows: Iterator[list[Any]]) -> None:
        tables[title] = {"header": header, "rows": list(rows)}

    header = ["learner", "λ from", "sets", "mean CVaR", "excess", f"share ≤ {ENOUGH}"]
    header += [f"mean CVaR less that of {', '.join(DEFAULT)}", "higher on", "s"]
    table(f"Variants, T = {ROUNDS}", header, variants_table(groups))
    for variant in (DEFAULT, ("strong", 0.2)):
        header = ["rounds", "mean CVaR", "less that of T = 1", "s", "rounds played"]
        table(f"Rounds ({variant[0]}, {variant[1]})", header, rounds_table(groups[variant]))
    header = ["set", "splits", "ERM error", "out of fold", "coin until α", *map(str, ALPHAS)]
    header += [f"T={ROUNDS} − T=1", "excess", "s"]
    title = "CVaR by set (and less the lower of ERM and the best mixture of constants)"
    table(f"{title}, {', '.join(DEFAULT)}, T = {ROUNDS}", header, sets_table(groups, coins))
    header = ["set", "splits", *map(str, ALPHAS), "mean ± 95 %"]
    title = "CVaR with a tree per class less that with vector leaves, by α"
    table(f"{title}, {DEFAULT[1]}, T = {ROUNDS}", header, per_class_table(groups))
    header = ["set", "learner", "error", "s"]
    table("Single fits, many classes, mean ± 95 % over splits", header, peers_table(peers))
    about = f"{len(sets_of(groups[DEFAULT]))} sets, {settings.repeats} splits, {n * len(ALPHAS)} cells"
    return Report(
        "\n\n".join([about, *(f"## {title}\n\n{markdown(**of)}" for title, of in tables.items())]),
        {
            "protocol": {"alphas": ALPHAS, "rounds": ROUNDS, "repeats": settings.repeats}
            | {"test_size": TEST_SIZE, "max_train": MAX_TRAIN},
            "cells": n * len(ALPHAS),
            "largest solver gap": max(c["gap"] for cells in groups.values() for c in cells),
            "tables": tables,
        },
    )


def per_class_table(groups: Groups) -> Iterator[list[Any]]:
    """Yield lines: the learner with a tree per class compared with vector leaves."""
    at = {(c["set"], c["seed"]): stages(c, ROUNDS) for c in groups[DEFAULT]}
    for name in sets_of(groups[PER_CLASS]):
        cells = [c for c in groups[PER_CLASS] if c["set"] == name and (name, c["seed"]) in at]
        differences = np.array([stages(c, ROUNDS) - at[name, c["seed"]] for c in cells])
        mean = plus_minus(differences.mean(axis=1), 4)
        yield [name, len(cells), *(f"{x:+.3f}" for x in differences.mean(axis=0)), mean]


def peers_table(peers: list[Cell]) -> Iterator[list[Any]]:
    """Yield lines: errors of single fits."""
    for name in sets_of(peers):
        cells = [c for c in peers if c["set"] == name]
        for model in (k for k, v in cells[0].items() if isinstance(v, dict)):
            of = [c[model] for c in cells]
            seconds = np.mean([m["fit_seconds"] for m in of])
            yield [name, model, plus_minus([m["error"] for m in of], 4), f"{seconds:.2f}"]


EXPERIMENTS = (
    Experiment("trials", "which defaults AdaLPBoost should have: eleven tables, seven α", play, repeats=5),
)
