"""Constants and heuristics of `tune` and `calibrate`, each beside variants on the same draws.

    python benchmarks/ablations.py PART [--data DIR] [--seeds N ...] [--out FILE]

Parts: "all", or one of

    joint test     part of the level for the test of a limit that joins groups
    one threshold  part of the level for one threshold, beside thresholds by group moved together
    steps          steps of the path of tightened limits
    factors        factors of class probabilities by group, where rules read the group
    places         thresholds counted on a line: half of them near the present one, or evenly
    many rows      limits moved, where rules are searched on a sample of the rows
    powers         powers of the probabilities of drawn labels, for a CVaR
    blend          blend of labels with probabilities, where rows without labels are counted
    refit          spread of rates between models of folds and their refit
    room           part of a bound from which on a limit may raise the error

Selecting rows and fresh rows are drawn from made populations and from the bundled credit and wine tables,
with --data also from Adult and a bank's clients. Scores are those of a model of other rows. Each variant is
one patched constant or function. Errors, and excesses over the limits, are those on at least 8,000 fresh
rows; a refusal has the error of the better constant answer, and no excess. Differences are the variant's
number minus that of the library on the same draw, ± two standard errors over the draws. Parts with a comma
in their name have other calls. In the record, "deleted" has what was measured before a mechanism was deleted.
For "refit" the error is the share of class errors outside their 95 % intervals, the excess the mean width.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from _record import opened, options, rounded, write
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost.exceptions import InfeasibleLimitsError, NotCertifiedError
from tailboost.guarantees import path, procedure, ranks_and_test
from tailboost.rates.metrics import cvar
from tailboost.selection import data as selection_data
from tailboost.selection import engine, intervals, mixture, search
from tailboost.selection.probabilities import StratumProbabilities
from tailboost.selection.selected import Selected

FITTED, FRESH, CLASSES = 4_000, 20_000, 6
LIBRARY = "library"


# -- rows --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """Rows with a score of label 1, or with features, and with groups by column."""

    X: Any
    y: Any
    groups: pd.DataFrame

    def part(self, index: Any) -> Rows:
        """Return some of the rows."""
        X = self.X.iloc[index] if hasattr(self.X, "iloc") else self.X[index]
        return Rows(X, self.y[index], self.groups.iloc[index])


@dataclass(frozen=True)
class Draw:
    """Rows to select and certify with, fresh rows, and what gives the probabilities."""

    model: Any
    chosen: Rows
    fresh: Rows


def of_flat_labels(name: str, n: int, seed: int, folder: Path | None) -> Draw:
    """Return the same rows with shallow trees, whose probabilities are too even."""
    draw = of_labels(name, n, seed, folder)
    fitted = draw.fresh.part(slice(2_000))
    model = ExtraTreesClassifier(30, max_depth=5, random_state=0).fit(fitted.X, fitted.y)
    return Draw(model, draw.chosen, draw.fresh.part(slice(2_000, None)))


def made(n: int, seed: int) -> Rows:
    """Return rows of five groups and three sites; the score is no probability in any of them."""
    rng = np.random.default_rng([seed, n])
    g = rng.choice(5, n, p=[0.4, 0.25, 0.15, 0.12, 0.08])
    site = (g + rng.choice(3, n, p=[0.6, 0.25, 0.15])) % 3
    y = (rng.random(n) < np.array([0.15, 0.25, 0.35, 0.2, 0.3])[g]).astype(int)
    value = rng.normal(size=n) + y * np.array([2.0, 1.6, 1.4, 1.8, 1.3])[g]
    value += np.array([0.0, 0.4, -0.3, 0.6, -0.5])[g] + 0.3 * (site == 1)
    table = pd.DataFrame({"p": 1 / (1 + np.exp(-1.4 * (value - 1.2)))})
    return Rows(table, y, pd.DataFrame({"g": g, "h": site}))


def scored(X: Any, y: Any, groups: pd.DataFrame) -> Rows:
    """Return the rows that do not fit a boosted model, with its scores."""
    order = np.random.default_rng(5).permutation(len(y))
    fitted, others = order[:FITTED], order[FITTED:]
    model = HistGradientBoostingClassifier(max_iter=60, random_state=0).fit(X[fitted], y[fitted])
    table = pd.DataFrame({"p": model.predict_proba(X[others])[:, 1]})
    return Rows(table, y[others], groups.iloc[others].reset_index(drop=True))


@cache
def table(name: str, folder: Path | None) -> Rows:
    """Return the scored rows of a table."""
    if name == "credit":
        bunch = tb.datasets.load_credit_default()
        X = bunch.data.drop(columns=["AGE", "SEX", "EDUCATION"]).to_numpy(np.float32)
        groups = bunch.groups[["age_band", "sex"]].astype(str).set_axis(["g", "h"], axis=1)
        return scored(X, np.asarray(bunch.target, int), groups)
    from experiments._tables import frame

    assert folder is not None
    if name == "adult":
        whole = frame(folder, "adult")
        y = whole["income"].astype(str).str.contains(">").to_numpy(int)
        groups = whole[["race", "sex"]]
        X = pd.get_dummies(whole.drop(columns=["income", "split", "race", "sex"]))
    else:
        whole = frame(folder, "bank_full")
        y = (whole["y"] == "yes").to_numpy(int)
        groups = whole[["contact", "marital"]]
        X = pd.get_dummies(whole.drop(columns=["y", "contact", "marital"]))
    groups = groups.astype(str).set_axis(["g", "h"], axis=1)
    kept = groups.groupby("g")["g"].transform("size").to_numpy() > 0.03 * len(y)
    return scored(X.to_numpy(np.float32)[kept], y[kept], groups[kept])


def of_scores(name: str, n: int, seed: int, folder: Path | None) -> Draw:
    """Return n rows with a score, and fresh ones."""
    if name == "made":
        rows = made(n + 2 * FRESH, seed)
        return Draw(tb.Scores("p", 1), rows.part(slice(n)), rows.part(slice(n, None)))
    rows = table(name, folder)
    order = np.random.default_rng([seed, 7]).permutation(len(rows.y))
    return Draw(tb.Scores("p", 1), rows.part(order[:n]), rows.part(order[n : n + FRESH]))


def of_labels(name: str, n: int, seed: int, folder: Path | None) -> Draw:
    """Return n rows with several labels and a logistic regression of other rows, and fresh rows."""
    if name == "wine":
        bunch = tb.datasets.load_wine_quality()
        X, y = bunch.data.to_numpy(float), np.digitize(bunch.target, [2, 3])  # three qualities
        g = bunch.groups["colour"].astype(str).to_numpy()
        order = np.random.default_rng([seed, 3]).permutation(len(y))
        X, y, g = X[order], y[order], g[order]
        fitted = 1_500
    else:
        fitted, total = 2_000, 2_000 + n + FRESH
        X, y = make_classification(
            total, 20, n_informative=10, n_classes=CLASSES, n_clusters_per_class=1, class_sep=1.1,
            weights=[0.3] + [0.7 / (CLASSES - 1)] * (CLASSES - 1), random_state=seed,
        )  # fmt: skip
        g = np.random.default_rng(seed).choice(["a", "b", "c"], total, p=[0.6, 0.3, 0.1])
        X[:, 0] += 0.6 * (g == "b") - 0.6 * (g == "c")
    scale = X[:fitted].std(axis=0)
    model = LogisticRegression(max_iter=400).fit(X[:fitted] / scale, y[:fitted])
    rows = Rows(X / scale, y, pd.DataFrame({"g": g}))
    return Draw(model, rows.part(slice(fitted, fitted + n)), rows.part(slice(fitted + n, None)))


# -- what a rule reaches -----------------------------------------------------------------------------------

Limit = tuple[str, str, str | None, float]
"""Form ("", "gap" or "ratio"), rate, column of groups ("class" for labels) and bound."""


def written(limit: Limit) -> str:
    """Return a limit as users write it."""
    form, rate, by, bound = limit
    inside = ", ".join(["1"] * (rate not in ("error", "deferred")) + [f"by={by}"] * (by is not None))
    words = f"{rate}({inside})"
    sign = ">=" if rate == "precision" or form == "ratio" else "<="
    return f"{form}({words}) {sign} {bound}" if form else f"{words} {sign} {bound}"


def excess(limit: Limit, answers: Any, rows: Rows) -> float:
    """Return by how much answers exceed a limit; negative within it. Deferred rows have the answer None."""
    form, rate, by, bound = limit
    y = rows.y
    deferred = pd.isna(answers)
    every = np.ones(len(y), dtype=bool)
    counted, among = {
        "miss": (answers == 0, y == 1),
        "false_alarm": (answers == 1, y == 0),
        "selected": (answers == 1, every),
        "precision": (y == 1, answers == 1),
        "deferred": (deferred, every),
        "error": ((answers != y) & ~deferred, every),
    }[rate]
    group = np.zeros(len(y)) if by is None else y if by == "class" else rows.groups[by].to_numpy()
    shares = [
        counted[among & (group == name)].mean()
        for name in np.unique(group)
        if (among & (group == name)).any()
    ]
    if not shares:
        return 0.0
    if form == "gap":
        return float(max(shares) - min(shares) - bound)
    if form == "ratio":
        return float(bound - min(shares) / max(shares)) if max(shares) else 0.0
    return float(bound - min(shares) if rate == "precision" else max(shares) - bound)


def reached(rule: Any, draw: Draw, limits: Sequence[Limit]) -> dict[str, Any]:
    """Return error and largest excess of a rule on the fresh rows; without a rule those of a constant."""
    y = draw.fresh.y
    if rule is None:
        return {"certified": False, "error": float(1 - np.bincount(y).max() / len(y)), "excess": 0.0}
    groups = {"groups": draw.fresh.groups} if rule.by_group else {}
    answers = np.asarray(rule.predict(draw.fresh.X, **groups), dtype=object)
    if any(rate == "deferred" for _, rate, _, _ in limits):
        answers[rule.defers(draw.fresh.X, **groups)] = None
    wrong = (answers != y) & ~pd.isna(answers)
    beyond = max(excess(limit, answers, draw.fresh) for limit in limits)
    return {"certified": True, "error": float(wrong.mean()), "excess": max(0.0, beyond)}


Call = dict[str, Any]


def rule_of(call: Call, draw: Draw, seed: int) -> Any:
    """Return the rule of `tune` or `calibrate`; None if it is refused."""
    function = tb.calibrate if call["function"] == "calibrate" else tb.tune
    params = {name: value for name, value in call.items() if name not in ("function", "limits")}
    try:
        return function(
            draw.model, draw.chosen.X, draw.chosen.y, groups=draw.chosen.groups,
            limits=[written(limit) for limit in call["limits"]], random_state=seed, **params,
        )  # fmt: skip
    except (NotCertifiedError, InfeasibleLimitsError):
        return None


def measured(call: Call, draw: Draw, seed: int) -> dict[str, Any]:
    """Return what the rule of a call reaches, and processor seconds."""
    began = time.process_time()
    rule = rule_of(call, draw, seed)
    seconds = time.process_time() - began
    return reached(rule, draw, call["limits"]) | {"seconds": seconds}


def with_unlabeled(call: Call, draw: Draw, seed: int) -> dict[str, Any]:
    """Return the same where 8,000 of the fresh rows, without labels, have a part in the selection."""
    more, fresh = draw.fresh.part(slice(8_000)), draw.fresh.part(slice(8_000, None))
    call = call | {"X_unlabeled": more.X, "groups_unlabeled": more.groups}
    return measured(call, Draw(draw.model, draw.chosen, fresh), seed)


def largest(call: Call, draw: Draw, seed: int) -> dict[str, Any]:
    """Return the largest error of a class in a group on the fresh rows."""
    began = time.process_time()
    rule = tb.tune(
        draw.model, draw.chosen.X, draw.chosen.y, groups=draw.chosen.groups[["g"]], random_state=seed, **call
    )
    seconds = time.process_time() - began
    y, g = draw.fresh.y, draw.fresh.groups["g"].to_numpy()
    wrong = rule.predict(draw.fresh.X, groups=draw.fresh.groups) != y
    cells = [wrong[(y == k) & (g == name)] for k in np.unique(y) for name in np.unique(g)]
    error = max(float(cell.mean()) for cell in cells if len(cell) >= 100)
    return {"certified": True, "error": error, "excess": 0.0, "seconds": seconds}


def tail(call: Call, draw: Draw, seed: int) -> dict[str, Any]:
    """Return the CVaR of the rule on the fresh rows as its error."""
    began = time.process_time()
    rule = tb.tune(
        draw.model, draw.chosen.X, draw.chosen.y, objective="cvar", alpha=call["alpha"], random_state=seed
    )
    seconds = time.process_time() - began
    shares = rule.predict_distribution(draw.fresh.X)
    losses = 1.0 - shares[np.arange(len(shares)), np.searchsorted(rule.classes_, draw.fresh.y)]
    value = float(cvar(losses, call["alpha"]))
    return {"certified": True, "error": value, "excess": 0.0, "seconds": seconds}


def covered(call: Call, draw: Draw, seed: int) -> dict[str, Any]:
    """Return the share of class errors on fresh rows outside their 95 % intervals, and the mean width."""
    began = time.process_time()
    fitted = call["classifier"](random_state=seed, n_jobs=1).fit(draw.chosen.X, draw.chosen.y)
    seconds = time.process_time() - began
    wrong = fitted.predict(draw.fresh.X) != draw.fresh.y
    lines = [line for line in fitted.rates_ if line.subgroup in fitted.classes_ and line.low == line.low]
    outside = [not line.low <= wrong[draw.fresh.y == line.subgroup].mean() <= line.high for line in lines]
    width = float(np.mean([line.high - line.low for line in lines]))
    return {"certified": True, "error": float(np.mean(outside)), "excess": width, "seconds": seconds}


# -- parts -------------------------------------------------------------------------------------------------

Variants = dict[str, Callable[[], AbstractContextManager[Any]]]


def evenly(changes: Any, max_thresholds: int) -> Any:
    """Return thresholds as `_thresholds_between`, evenly among all changes."""
    if not len(changes):
        return np.zeros(0)
    if len(changes) > max_thresholds:
        changes = changes[np.linspace(0, len(changes) - 1, max_thresholds).astype(np.intp)]
    middles = (changes[1:] + changes[:-1]) / 2.0
    return np.concatenate([changes[:1] - 1.0, middles, changes[-1:] + 1.0])


def constants(module: Any, **values: Any) -> Callable[[], AbstractContextManager[Any]]:
    """Return a maker of patches of one or more constants of a module."""
    return lambda: patch.multiple(module, **values)


MISSES: Limit = ("", "miss", "g", 0.3)
TWO_ERRORS: list[Limit] = [("", "miss", "g", 0.35), ("", "false_alarm", None, 0.25)]
READS = {"by_group": "g"}
SEVERAL: dict[str, list[Limit]] = {
    "gap of misses": [("gap", "miss", "g", 0.05)],
    "ratio of selection": [("ratio", "selected", "g", 0.8)],
    "gaps of both errors": [("gap", "miss", "g", 0.05), ("gap", "false_alarm", "g", 0.05)],
    "misses by group": [MISSES],
    "misses by group, false alarms": TWO_ERRORS,
    "precision by group": [("", "precision", "g", 0.6)],
    "misses by group, deferral": [("", "miss", "g", 0.25), ("", "deferred", None, 0.2)],
}
TIGHT: dict[str, list[Limit]] = {
    "few misses": [("", "miss", None, 0.02)],
    "few misses by group": [("", "miss", "g", 0.05)],
    "few false alarms": [("", "false_alarm", None, 0.005)],
    "high precision": [("", "precision", None, 0.9)],
}
JOINT: dict[str, list[Limit]] = {
    "room": [("", "miss", "g", 0.5), ("", "false_alarm", None, 0.25)],
    "little room": [("", "miss", "g", 0.5), ("", "false_alarm", None, 0.15)],
}
LABELS: dict[str, list[Limit]] = {
    "error by class": [("", "error", "class", 0.55)],
    "error by class and group": [("", "error", "class", 0.65), ("", "error", "g", 0.5)],
    "gap of errors": [("gap", "error", "g", 0.15), ("", "error", "class", 0.7)],
    "error by class, deferral": [("", "error", "class", 0.45), ("", "deferred", None, 0.2)],
}


@dataclass(frozen=True)
class Part:
    """Calls on draws, and variants of the library."""

    variants: Variants
    calls: dict[str, Call]
    tables: Sequence[str] = ("made", "credit")
    of_data: Sequence[str] = ("adult", "bank")
    sizes: Sequence[int] = (1_000, 4_000)
    draw: Callable[..., Draw] = of_scores
    seeds: int = 6
    measure: Callable[[Call, Draw, int], dict[str, Any]] = measured


def called(function: str, names: Sequence[str], of: dict[str, list[Limit]], **params: Any) -> dict[str, Call]:
    """Return calls of one function with some sets of limits."""
    return {name: {"function": function, "limits": of[name], **params} for name in names}


READ = called("tune", list(SEVERAL), SEVERAL, by_group="g")
BLIND = called("tune", list(SEVERAL)[:4], SEVERAL, by_group=False)
SELECTED = {f"read, {name}": call for name, call in READ.items()}
SELECTED |= {f"blind, {name}": call for name, call in BLIND.items()}


def averaged(**params: Any) -> Any:
    """Return the average of two small models that are cross-fitted, and refitted on all rows."""
    tree = DecisionTreeClassifier(max_depth=5, random_state=0)
    models = [("logistic", LogisticRegression(max_iter=300)), ("tree", tree)]
    return tb.RobustMixtureClassifier(models, **params)


def boosted(**params: Any) -> Any:
    """Return boosting for the worst class."""
    return tb.WorstClassBoostClassifier(n_estimators=3, **params)


def without_factors() -> AbstractContextManager[Any]:
    """Return a patch that leaves the class probabilities of groups as they are."""
    return patch.object(StratumProbabilities, "fit_factors", lambda *_: None)


def even_places() -> AbstractContextManager[Any]:
    """Return a patch that spaces the thresholds on a line evenly."""
    return patch.object(search, "_thresholds_between", evenly)


TWO_COLUMNS = called(
    "calibrate",
    ["misses by h", "selection by h"],
    {"misses by h": [("", "miss", "h", 0.25)], "selection by h": [("", "selected", "h", 0.15)]},
    **READS,
)
SEARCHED = (
    "read, ratio of selection",
    "read, gaps of both errors",
    "blind, gap of misses",
    "blind, gaps of both errors",
)
PARTS: dict[str, Part] = {
    "joint test": Part(
        {str(part): constants(ranks_and_test, PART=part) for part in (0.02, 0.5)},
        called("calibrate", ["room", "little room"], JOINT, **READS),
        sizes=(2_500, 8_000),
        seeds=5,
    ),
    "one threshold": Part(
        {str(part): constants(procedure, PART_OF_SIMPLER=part) for part in (0.1, 0.5)},
        TWO_COLUMNS,
        sizes=(2_500, 6_000),
        seeds=5,
    ),
    "steps": Part(
        {"every second": constants(path, PATH_PROBITS=path.PATH_PROBITS[::2])},
        called("calibrate", list(LABELS), LABELS, **READS),
        tables=("made", "wine"),
        of_data=(),
        sizes=(1_000, 3_000),
        draw=of_labels,
        seeds=3,
    ),
    "factors": Part(
        {"without": without_factors},
        called("tune", list(SEVERAL), SEVERAL, **READS)
        | {
            "certified " + name: call
            for name, call in called("calibrate", list(SEVERAL)[:2], SEVERAL, **READS).items()
        },
        seeds=3,
    ),
    "factors, loose": Part(
        {"without": without_factors},
        called("tune", ["misses by group"], {"misses by group": [("", "miss", "g", 0.99)]}, **READS),
        seeds=4,
    ),
    "factors, draws": Part(
        {"without": without_factors},
        called("tune", list(SEVERAL)[:5], SEVERAL, **READS, randomized=True),
        seeds=3,
    ),
    "factors, labels": Part(
        {"without": without_factors},
        called("tune", list(LABELS), LABELS, **READS),
        tables=("made", "wine"),
        of_data=(),
        sizes=(1_000, 3_000),
        draw=of_labels,
        seeds=4,
    ),
    "factors, largest": Part(
        {"without": without_factors},
        {
            "no budget": {"objective": "worst_cell", "by_group": "g"},
            "budget": {"objective": "worst_cell", "by_group": "g", "error_budget": 0.02},
        },
        seeds=3,
        measure=largest,
    ),
    "factors, one threshold": Part({"without": without_factors}, TWO_COLUMNS, sizes=(2_500,), seeds=3),
    "places": Part(
        {"evenly": even_places},
        SELECTED,
        of_data=("adult",),
        sizes=(3_000,),
        seeds=4,
    ),
    "places, tight": Part(
        {"evenly": even_places},
        {
            f"{reads}, {name}": {"function": "tune", "limits": TIGHT[name], "by_group": by_group}
            for reads, by_group in (("read", "g"), ("blind", False))
            for name in TIGHT
        },
        of_data=("adult",),
        sizes=(3_000,),
        seeds=3,
    ),
    "places, labels": Part(
        {"evenly": even_places},
        called("tune", list(LABELS), LABELS, by_group=False),
        tables=("made", "wine"),
        of_data=(),
        sizes=(2_000,),
        draw=of_labels,
    ),
    "many rows": Part(
        {
            "no limits moved": constants(search, CORRECTIONS=0),
            "evenly": even_places,
        },
        {name: SELECTED[name] for name in SEARCHED},
        tables=("made",),
        of_data=(),
        sizes=(60_000, 150_000),
        seeds=3,
    ),
    "powers": Part(
        {
            "1 alone": constants(engine, POWERS=(1.0,)),
            "0.5, 1, 2, 4": constants(engine, POWERS=(0.5, 1.0, 2.0, 4.0)),
        },
        {f"alpha = {alpha}": {"alpha": alpha} for alpha in (0.05, 0.2, 0.6)},
        tables=("made", "wine"),
        of_data=(),
        sizes=(500, 2_000),
        draw=of_labels,
        measure=tail,
    ),
    "powers, flat": Part(
        {
            "1 alone": constants(engine, POWERS=(1.0,)),
            "0.5, 1, 2, 4": constants(engine, POWERS=(0.5, 1.0, 2.0, 4.0)),
        },
        {f"alpha = {alpha}": {"alpha": alpha} for alpha in (0.05, 0.2, 0.6)},
        tables=("made", "wine"),
        of_data=(),
        sizes=(1_000,),
        draw=of_flat_labels,
        measure=tail,
    ),
    "blend": Part(
        {f"{rows:g} rows": constants(selection_data, BLEND_ROWS=rows) for rows in (0.0, 3_000.0)},
        called("tune", ["gap of misses", "misses by group", "precision by group"], SEVERAL, **READS),
        of_data=("adult",),
        sizes=(500, 2_000),
        seeds=3,
        measure=with_unlabeled,
    ),
    "refit": Part(
        {
            str(share): lambda share=share: patch.object(
                Selected, "refit_spread", property(lambda rule: share * rule.refit)
            )
            for share in (0.0, 0.03)
        },
        {"average": {"classifier": averaged}},
        tables=("made", "wine"),
        of_data=(),
        sizes=(500, 2_000),
        draw=of_labels,
        measure=covered,
    ),
    "refit, boosting": Part(
        {"not estimated": lambda: patch.object(mixture, "fold_spread", lambda *_: intervals.REFIT)},
        {"worst class": {"classifier": boosted}},
        tables=("made", "wine"),
        of_data=(),
        sizes=(500, 2_000),
        draw=of_labels,
        seeds=3,
        measure=covered,
    ),
}


# -- constants of sentences in certificates ----------------------------------------------------------------


def binned(values: Any, changes: Any, edges: Sequence[float]) -> list[dict[str, Any]]:
    """Return the mean change of the error by a value."""
    values, changes = np.asarray(values), np.asarray(changes)
    rows = []
    for low, high in pairwise(edges):
        here = changes[(values >= low) & (values < high)]
        row = {"from": low, "cases": len(here), "change": apart(here.tolist())}
        rows.append(row | {"higher, lower": [int((here > 0.002).sum()), int((here < -0.002).sum())]})
    return rows


def room(folder: Path | None, seeds: int) -> list[dict[str, Any]]:
    """Return the change of the true error without a limit, by the used part of its bound."""
    used, changes = [], []
    for name in ("made", "credit", *(("adult", "bank") if folder else ())):
        for n, seed in product((1_000, 4_000), range(seeds or 3)):
            draw = of_scores(name, n, seed, folder)
            for most in (0.1, 0.15, 0.2, 0.3):
                limits = [("", "miss", None, 0.5), ("", "false_alarm", None, most)]
                call = {"function": "calibrate", "limits": limits, "by_group": False}
                rule = rule_of(call, draw, seed)
                if rule is None:
                    continue
                for number, bound in enumerate(rule.certificate_.bounds):
                    other = rule_of(call | {"limits": [limits[1 - number]]}, draw, seed)
                    if other is not None:
                        used.append(bound.estimate / bound.target)
                        errors = [reached(each, draw, limits)["error"] for each in (rule, other)]
                        changes.append(errors[1] - errors[0])
    return binned(used, changes, (0.0, 0.5, 0.75, 0.9, np.inf))


SENTENCES = {"room": room}


def cases(part: Part, folder: Path | None, seeds: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the title of each draw and call, with what each variant reaches."""
    for name in (*part.tables, *(part.of_data if folder else ())):
        for size in part.sizes:
            for seed in range(seeds or part.seeds):
                draw = part.draw(name, size, seed, folder)
                for title, call in part.calls.items():
                    results = {}
                    for variant, patched in ({LIBRARY: nullcontext} | part.variants).items():
                        with patched():
                            results[variant] = part.measure(call, draw, seed)
                    yield f"{title} | {name}, {size} rows, seed {seed}", results


def apart(values: Sequence[float]) -> list[float]:
    """Return a mean difference and two standard errors."""
    if len(values) < 2:
        return [float(np.mean(values)), float("nan")] if len(values) else []
    return [float(np.mean(values)), float(2 * np.std(values, ddof=1) / np.sqrt(len(values)))]


def compared(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the paired differences of each variant from the library, of all calls and by call."""
    tables = {}
    for call in ["all", *dict.fromkeys(title.split(" | ")[0] for title in found)]:
        of_call = [each for title, each in found.items() if call in ("all", title.split(" | ")[0])]
        library = [results[LIBRARY] for results in of_call]
        row: dict[str, Any] = {
            "draws": len(of_call),
            "rules": sum(result["certified"] for result in library),
            "error": float(np.mean([result["error"] for result in library])),
            "excess": float(np.mean([result["excess"] for result in library])),
            "seconds": float(np.sum([result["seconds"] for result in library])),
        }
        for variant in of_call[0]:
            if variant == LIBRARY:
                continue
            others = [results[variant] for results in of_call]
            pairs = list(zip(others, library, strict=True))
            errors = [other["error"] - ours["error"] for other, ours in pairs]
            row[variant] = {
                "rules": sum(result["certified"] for result in others),
                "error": apart(errors),
                "excess": apart([other["excess"] - ours["excess"] for other, ours in pairs]),
                "error and excess": apart(
                    [sum(other[k] - ours[k] for k in ("error", "excess")) for other, ours in pairs]
                ),
                "higher, lower": [sum(e > 0.001 for e in errors), sum(e < -0.001 for e in errors)],
                "seconds": float(np.sum([result["seconds"] for result in others])),
            }
        tables[call] = row
    return tables


def main() -> None:
    """Run one part or all, and write the record."""
    parser = options(__doc__ or "", ["all", *PARTS, *SENTENCES])
    parser.add_argument("--seeds", type=int, default=0, help="draws of each setting")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    record = opened(args.out, "ablations")
    for name in [*PARTS, *SENTENCES] if args.part == "all" else [args.part]:
        if name in SENTENCES:
            record[name] = rounded(SENTENCES[name](args.data, args.seeds))
        else:
            record[name] = rounded(compared(dict(cases(PARTS[name], args.data, args.seeds))))
        print(name, json.dumps(record[name]), flush=True)
        write(record, args.out)


if __name__ == "__main__":
    main()
