"""Rates within limits on real data: errors, gaps and ratios on fresh rows, and the seconds of a choice.

    python benchmarks/rates.py DIR [--only PART ...] [--seeds N] [--out FILE]

DIR holds adult.csv.gz, taiwan_credit.csv.gz, letter.csv.gz, winequality_red.csv.gz, winequality_white.csv.gz
and field/acs_income.validation.parquet, field/acs_income.test.parquet. Parts: "adult" (equalised odds and
the four-fifths rule over sex, blind and told), "acs" (worst cell of nine races and two classes; equalised
odds over four), "credit" (a cost matrix, alone and within limits), "classes" (parity of each of many
classes), "speed" (the engine alone on made-up probabilities, by rows, classes and units).

The score is one model of boosted trees, out of fold by five-fold cross-fitting. Everything reported is of
rows that had no part in a fit or a choice. Seconds are of the processor, for one choice after the fit.
"""

from __future__ import annotations

import argparse
import copy
import json
import multiprocessing
import platform
import resource
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tailboost as tb
from tailboost import rates, thresholds
from tailboost.learners import HistBoostClassifier
from tailboost.mixture import InfeasibleLimitsError

Found = dict[str, Any]
EPSILONS = (0.05, 0.02, 0.01)
# Cells with fewer test rows say little.
LARGE_CELL = 500
TRAIN_ROWS, TEST_ROWS = 40_000, 100_000


def learner() -> HistBoostClassifier:
    return HistBoostClassifier(n_estimators=200, max_depth=5, learning_rate=0.1)


class Task:
    """One table with its groups, a fitted mixture, and what is measured on the test rows."""

    def __init__(
        self, name: str, train: Any, test: Any, column: str, told: bool, seed: int, first: Any
    ) -> None:
        self.name, self.train, self.test, self.column, self.told, self.seed = (
            name,
            train,
            test,
            column,
            told,
            seed,
        )
        X, y, g = train
        begin = time.process_time()
        self.mix = tb.RobustMixtureClassifier(
            [("boosted", learner())],
            limits=first,
            by_group=told,
            random_state=seed,
        ).fit(X, y, groups={column: g})
        self.fit_seconds = time.process_time() - begin

    def chosen(
        self, what: str, measures: dict[str, Callable[[Any], float]], **params: Any
    ) -> Iterator[Found]:
        """Yield what one rule and a draw reach on the test rows."""
        X, y, g = self.test
        for randomized in (False, True):
            mix = copy.copy(self.mix)
            mix.randomized = randomized
            begin = time.process_time()
            found = {
                "data": self.name,
                "what": what,
                "told": self.told,
                "drawn": randomized,
                "seed": self.seed,
            }
            try:
                mix = mix.reweight(**{"limits": [], **params})
            except InfeasibleLimitsError as error:
                yield {**found, "infeasible": str(error)}
                continue
            seconds = time.process_time() - begin
            shares = mix.predict_shares(X, **({"groups": {self.column: g}} if self.told else {}))

            def measure(rate: rates.Rate, shares: Any = shares) -> dict[Any, float]:
                """A rate of answers drawn from shares, as one of rows that weigh as much as the shares."""
                K = shares.shape[1]
                answers = np.tile(self.mix.classes_, len(y))
                return rates.measure(
                    rate,
                    np.repeat(y, K),
                    answers,
                    groups={self.column: np.repeat(g, K)},
                    sample_weight=shares.ravel(),
                    labels=self.mix.classes_,
                )

            found |= {"seconds": round(seconds, 3), "met on the rows of the choice": mix.limits_met_}
            found["members"] = int((mix.estimator_weights_ > 0).sum())
            yield found | {name: round(value(measure), 5) for name, value in measures.items()}


def _error(measure: Any) -> float:
    return float(measure(rates.error())[None])


def _gap(*families: rates.Rate) -> Callable[[Any], float]:
    return lambda measure: float(max(np.ptp([*measure(family).values()]) for family in families))


def _ratio(family: rates.Rate) -> Callable[[Any], float]:
    def least_over_largest(measure: Any) -> float:
        values = [*measure(family).values()]
        return float(min(values) / max(values))

    return least_over_largest


def _odds(label: Any, column: str) -> tuple[rates.Rate, rates.Rate]:
    return rates.miss(label, by=column), rates.false_alarm(label, by=column)


def adult(folder: Path, seed: int) -> Iterator[Found]:
    table = pd.read_csv(folder / "adult.csv.gz")
    for name in table.columns:
        if not pd.api.types.is_numeric_dtype(table[name]) and name not in ("income", "split", "sex"):
            table[name] = table[name].astype("category")
    training = table["split"].astype(str).str.startswith("train").to_numpy()
    y, sex = table["income"].astype(str).to_numpy(), table["sex"].astype(str).to_numpy()
    X = table.drop(columns=["income", "split", "sex"])
    parts = [(X[rows].reset_index(drop=True), y[rows], sex[rows]) for rows in (training, ~training)]
    odds, approved = _odds(">50K", "sex"), rates.selected(">50K", by="sex")
    for told in (False, True):
        first = [rates.gap(family) <= 0.05 for family in odds]
        task = Task("adult", *parts, "sex", told, seed, first)
        yield {
            "data": "adult",
            "what": "fit",
            "told": told,
            "seed": seed,
            "seconds": round(task.fit_seconds, 2),
        }
        measures = {"error": _error, "gap": _gap(*odds)}
        yield from task.chosen("free", measures | {"ratio": _ratio(approved)}, objective="error")
        for epsilon in EPSILONS:
            limits = [rates.gap(family) <= epsilon for family in odds]
            yield from task.chosen(f"equalised odds {epsilon}", measures, limits=limits)
        fifths = [rates.ratio(approved) >= 0.8]
        yield from task.chosen("four fifths", {"error": _error, "ratio": _ratio(approved)}, limits=fifths)
        parity = [rates.gap(approved) <= 0.02]
        yield from task.chosen("parity 0.02", {"error": _error, "gap": _gap(approved)}, limits=parity)


def acs(folder: Path, seed: int) -> Iterator[Found]:
    train, test = (
        pd.read_parquet(folder / f"field/acs_income.{part}.parquet") for part in ("validation", "test")
    )
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(len(train), TRAIN_ROWS, replace=False))
    test = test.iloc[np.sort(rng.choice(len(test), TEST_ROWS, replace=False))].reset_index(drop=True)
    merged = np.array([0, 1, 2, 2, 2, 3, 2, 2, 2])

    def parts(groups: Callable[[Any], Any]) -> list[Any]:
        tables = (train.iloc[rows].reset_index(drop=True), test)
        return [
            (t.drop(columns=["PINCP", "RAC1P"]), t["PINCP"].to_numpy(), groups(t["RAC1P"].to_numpy()))
            for t in tables
        ]

    cells = parts(lambda race: race)
    y, race = cells[1][1], cells[1][2]
    large = {
        (k, g) for k in np.unique(y).tolist() for g in np.unique(race).tolist()
        if ((y == k) & (race == g)).sum() >= LARGE_CELL
    }  # fmt: skip

    def worst(measure: Any) -> float:
        return float(max(v for unit, v in measure(rates.error(by="cell")).items() if unit in large))

    for told in (False, True):
        task = Task("acs, 9 races", *cells, "race", told, seed, [rates.error(by="cell") <= 1.0])
        yield {
            "data": task.name,
            "what": "fit",
            "told": told,
            "seed": seed,
            "seconds": round(task.fit_seconds, 2),
        }
        yield from task.chosen("free", {"error": _error, "worst cell": worst}, objective="error")
        for budget in (0.005, 0.01, 0.02):
            goal = {"objective": rates.largest(rates.error(by="cell")), "mean_budget": budget}
            yield from task.chosen(f"worst cell {budget}", {"error": _error, "worst cell": worst}, **goal)
    four = parts(lambda race: merged[race])
    odds = _odds(1, "race")
    for told in (False, True):
        task = Task("acs, 4 races", *four, "race", told, seed, [rates.gap(family) <= 0.05 for family in odds])
        for epsilon in EPSILONS:
            limits = [rates.gap(family) <= epsilon for family in odds]
            measures = {"error": _error, "gap": _gap(*odds)}
            yield from task.chosen(f"equalised odds {epsilon}", measures, limits=limits)
        approved = rates.selected(1, by="race")
        fifths = [rates.ratio(approved) >= 0.8]
        yield from task.chosen("four fifths", {"error": _error, "ratio": _ratio(approved)}, limits=fifths)


def credit(folder: Path, seed: int) -> Iterator[Found]:
    table = pd.read_csv(folder / "taiwan_credit.csv.gz")
    y, sex = table["default"].to_numpy(), table["SEX"].to_numpy()
    X = table.drop(columns=["default", "SEX"])
    order = np.random.default_rng(seed).permutation(len(y))
    cut = int(0.6 * len(y))
    parts = [(X.iloc[i].reset_index(drop=True), y[i], sex[i]) for i in (order[:cut], order[cut:])]
    cost, odds = rates.cost([[0, 1], [5, 0]]), _odds(1, "sex")
    task = Task("credit", *parts, "sex", False, seed, [rates.gap(family) <= 0.05 for family in odds])
    measures = {
        "cost": lambda measure: float(measure(cost)[None]),
        "gap": _gap(*odds),
        "selected": lambda measure: float(measure(rates.selected(1))[None]),
    }
    yield from task.chosen("cost", measures, objective=cost)
    limits = [*(rates.gap(family) <= 0.02 for family in odds), rates.selected(1) <= 0.35]
    yield from task.chosen(
        "cost, equalised odds 0.02, selected 0.35", measures, objective=cost, limits=limits
    )
    model = learner().fit(parts[0][0], parts[0][1])
    answers = (model.predict_proba(parts[1][0])[:, 1] > 1 / 6).astype(int)
    bayes = rates.measure(cost, parts[1][1], answers)[None]
    yield {"data": "credit", "what": "threshold 1/6 of the same model", "seed": seed, "cost": round(bayes, 5)}


def classes(folder: Path, seed: int) -> Iterator[Found]:
    wine = [pd.read_csv(folder / f"winequality_{colour}.csv.gz") for colour in ("red", "white")]
    tables = pd.concat(wine, ignore_index=True)
    colour = np.repeat(["red", "white"], [len(part) for part in wine])
    quality = tables["quality"].clip(4, 8).to_numpy()
    letters = pd.read_csv(folder / "letter.csv.gz")
    target = next(name for name in letters.columns if name.startswith("l"))
    box = letters.drop(columns=[target])
    half = np.where(box.iloc[:, 0] > box.iloc[:, 0].median(), "right", "left")
    sets = {
        "wine": (tables.drop(columns=["quality"]), quality, colour),
        "letter": (box, letters[target].to_numpy().astype(str), half),
    }
    for name, (X, y, group) in sets.items():
        order = np.random.default_rng(seed).permutation(len(y))
        cut = int(0.6 * len(y))
        parts = [(X.iloc[i].reset_index(drop=True), y[i], group[i]) for i in (order[:cut], order[cut:])]
        families = [rates.selected(label, by="group") for label in np.unique(y).tolist()]
        limits = [rates.gap(family) <= 0.02 for family in families]
        task = Task(name, *parts, "group", False, seed, limits)
        for what, params in (
            ("free", {"objective": "error"}),
            ("parity 0.02 of each class", {"limits": limits}),
        ):
            yield from task.chosen(what, {"error": _error, "gap": _gap(*families)}, **params)


# By name: classes, groups (1 for none), and what is asked of the K × G strata.
SPEEDS = {
    "2 classes, 2 units": (2, 1, "class"),
    "2 classes, 10 units": (2, 10, "group"),
    "2 classes, 50 units": (2, 50, "group"),
    "10 classes, 10 units": (10, 1, "class"),
    "10 classes, 50 units": (10, 5, "cell"),
    "2 classes, equalised odds of 10 groups": (2, 10, "odds"),
}
ROWS = (50_000, 200_000, 1_000_000)


def made_up(n: int, K: int, G: int, seed: int) -> Any:
    """Rows whose strata follow the belief, group by group equally well told apart."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(K * G, n)).astype(np.float32)
    logits[:K] += 0.5 * rng.normal(size=(min(K, K * G), n)).astype(np.float32)
    belief = np.exp(1.5 * logits)
    belief /= belief.sum(axis=0)
    drawn = rng.random(n, dtype=np.float32)
    s = np.minimum((belief.cumsum(axis=0) < drawn).sum(axis=0), K * G - 1)
    y, g = s // G, s % G
    groups, columns = (g[:, None], (("group",), (tuple(range(G)),))) if G > 1 else (None, ((), ()))
    strata, stratum = rates.Strata.of(y, groups, np.ones(n), np.arange(K), *columns)
    return thresholds.Table(strata, stratum, np.full(n, 1 / n), (belief,), None, rng.random(n) < 0.5)


def timed(n: int, name: str, seed: int, queue: Any) -> None:
    """Grow a pool and choose, in a process of its own."""
    K, G, what = SPEEDS[name]
    table = made_up(n, K, G, seed)
    objective: Any = rates.largest(rates.error(by=what)) if what != "odds" else rates.error()
    limits = [rates.gap(family) <= 0.02 for family in _odds(1, "group")] if what == "odds" else []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    program = thresholds.Program.of_rates(table.strata, rates.Objective.of(objective), limits)
    pool = thresholds.Pool(table)
    _, growth = thresholds.grow(pool, program, [0], 0.0)
    grown = time.process_time()
    reading = table.reading(0.0)
    drawn = thresholds.shared(pool, growth, reading)
    alone = thresholds.single(pool, growth, reading)
    found = {
        "what": name, "rows": n, "seed": seed, "growth, s": round(grown - began, 2),
        "one rule, s": round(time.process_time() - grown, 2), "members": len(pool.members),
        "drawn": round(drawn.value, 5), "one rule": round(alone.value, 5), "kept": alone.keeps,
        "table, MB": round(before / 1024),
        "peak, MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }  # fmt: skip
    queue.put(found)


def speed(_: Path, seed: int) -> Iterator[Found]:
    spawn = multiprocessing.get_context("spawn")
    for n in ROWS:
        for name in SPEEDS:
            if n > 200_000 and name == "10 classes, 50 units":
                continue  # a belief of 200 MB, and minutes
            queue = spawn.Queue()
            child = spawn.Process(target=timed, args=(n, name, seed, queue))
            child.start()
            yield queue.get()
            child.join()


PARTS = {"adult": adult, "acs": acs, "credit": credit, "classes": classes, "speed": speed}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    results = []
    for part in args.only:
        for seed in range(args.seeds):
            for found in PARTS[part](args.folder, seed):
                print(json.dumps(found), flush=True)
                results.append(found)
    if args.out:
        versions = {"python": platform.python_version(), "tailboost": tb.__version__}
        args.out.write_text(json.dumps({"versions": versions, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
