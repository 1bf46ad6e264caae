"""How often stated limits hold on fresh rows: ours and other methods, on the same scores and selection rows.

For each table and split, one score is fitted on training rows. Every method then gets the same n scored rows
with labels and groups for selection, and answers the same fresh rows. A limit is *kept* if its rate on the
fresh rows is within the level.

Other methods can enter: write the answers (a probability of the answer 1 for each fresh row) as
``OUT/entries/METHOD/TABLE.LIMIT.ROWS.SEED.npy``. The fresh rows are in the order of ``OUT/scores``.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

import tailboost as tb
from experiments._experiment import Cells, Experiment, Report, Settings, markdown
from experiments.field._tables import TABLES
from tailboost import rates
from tailboost.learners import HistBoostClassifier

Floats = NDArray[np.float64]
#: By table, number of selection rows and limit: the splits of each method.
Runs = Mapping[tuple[str, int, str], Mapping[str, list[dict[str, Any]]]]

TRAIN_ROWS, TEST_ROWS = 10_000, 40_000
SELECTION_ROWS = (500, 2_000, 10_000)
#: Table and column of groups.
CASES = {
    "acs income": "race of 4",
    "acs coverage": "race of 4",
    "adult": "sex",
    "hmda": "black",
    "law school": "race",
    "credit": "sex",
}
TWO_GROUPS = ("adult", "hmda", "credit", "law school")
MORE_GROUPS = ("acs income", "acs coverage")


@dataclass(frozen=True)
class Asked:
    """A limit: in our terms, as an excess on answers, and the name that peers know it by.

    Parameters
    ----------
    limits : callable
        ``limits(level)`` returns our limits on the column "group".
    excess : callable
        ``excess(q, y, g)`` returns the largest rate, or minus the smallest where the level is a lower bound.
    level : float
    at_least : bool
    """

    limits: Callable[[float], list[Any]]
    excess: Callable[[Floats, NDArray[Any], NDArray[Any]], float]
    level: float
    at_least: bool = False

    def beyond(self, q: Floats, y: NDArray[Any], g: NDArray[Any]) -> float:
        """Return by how much the limit is broken: at most 0 if it is kept."""
        value = self.excess(q, y, g)
        return self.level - value if self.at_least else value - self.level


def _by_group(q: Floats, g: NDArray[Any], rows: NDArray[np.bool_]) -> Floats:
    return np.array([q[rows & (g == k)].mean() for k in np.unique(g) if (rows & (g == k)).any()])


def _gap(q: Floats, y: NDArray[Any], g: NDArray[Any]) -> float:
    return float(np.ptp(_by_group(q, g, y >= 0)))


def _ratio(q: Floats, y: NDArray[Any], g: NDArray[Any]) -> float:
    shares = _by_group(q, g, y >= 0)
    return float(shares.min() / shares.max()) if shares.max() > 0 else 1.0


def _odds(q: Floats, y: NDArray[Any], g: NDArray[Any]) -> float:
    return float(max(np.ptp(_by_group(q, g, y == k)) for k in (0, 1)))


def _miss(q: Floats, y: NDArray[Any], g: NDArray[Any]) -> float:
    return float(_by_group(1 - q, g, y == 1).max())


def _precision(q: Floats, y: NDArray[Any], g: NDArray[Any]) -> float:
    return float(q @ (y == 1) / q.sum()) if q.sum() > 0 else 1.0


def _worst_class(q: Floats, y: NDArray[Any], g: NDArray[Any]) -> float:
    return float(max((1 - q)[y == 1].mean(), q[y == 0].mean()))


LIMITS = {
    "approval gap ≤ .02": Asked(lambda x: [rates.gap(rates.selected(1, by="group")) <= x], _gap, 0.02),
    "approval ratio ≥ .8": Asked(
        lambda x: [rates.ratio(rates.selected(1, by="group")) >= x], _ratio, 0.8, at_least=True
    ),
    "odds gap ≤ .05": Asked(
        lambda x: [rates.gap(of(1, by="group")) <= x for of in (rates.miss, rates.false_alarm)], _odds, 0.05
    ),
    "miss by group ≤ .25": Asked(lambda x: [rates.miss(1, by="group") <= x], _miss, 0.25),
    "precision ≥ .7": Asked(lambda x: [rates.precision(1) >= x], _precision, 0.7, at_least=True),
    "worst class ≤ .35": Asked(lambda x: [rates.error(by="class") <= x], _worst_class, 0.35),
}


class GivenScores(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose features are its probabilities."""

    classes_ = np.arange(2)

    def fit(self, X: Any, y: Any) -> GivenScores:
        """Learn nothing."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, X: Any) -> Floats:
        """Return the two columns."""
        return np.asarray(X, dtype=np.float64)

    def predict(self, X: Any) -> Any:
        """Return the likelier class."""
        return self.predict_proba(X).argmax(axis=1)


@dataclass(frozen=True)
class Scored:
    """Probabilities of class 1, labels and group numbers of selection rows and fresh rows."""

    p: Floats
    y: NDArray[Any]
    g: NDArray[Any]
    fresh_p: Floats
    fresh_y: NDArray[Any]
    fresh_g: NDArray[Any]


class NoAnswer(Exception):
    """A method finds no rule for a limit; the message says why."""


def _pair(p: Floats) -> Floats:
    return np.column_stack([1 - p, p])


# -- ours ------------------------------------------------------------------------------------------------


def ours(data: Scored, asked: Asked, confidence: float | None = None) -> Floats:
    """Select a group-aware rule with `tailboost.tune`."""
    return _predicted(_tuned(data.p, data.y, data.g, asked, confidence), data)


def ours_calibrated(data: Scored, asked: Asked) -> Floats:
    """Tune on one half of the selection rows and calibrate at 95 % on the other half."""
    half = np.arange(len(data.y)) % 2 == 0
    model = _tuned(data.p[half], data.y[half], data.g[half], asked, None)
    try:
        model = tb.calibrate(
            model,
            _pair(data.p[~half]),
            data.y[~half],
            groups={"group": data.g[~half]},
            equal_rows="natural",
        )
    except tb.NotCertifiedError as error:
        raise NoAnswer("not certified") from error
    return _predicted(model, data)


def _tuned(p: Floats, y: NDArray[Any], g: NDArray[Any], asked: Asked, confidence: float | None) -> Any:
    try:
        return tb.tune(
            GivenScores(), _pair(p), y, groups={"group": g}, objective="error",
            limits=asked.limits(asked.level), by_group=True, confidence=confidence, random_state=0,
        )  # fmt: skip
    except tb.InfeasibleLimitsError as error:
        raise NoAnswer("infeasible") from error


def _predicted(model: Any, data: Scored) -> Floats:
    answers = model.predict(_pair(data.fresh_p), groups={"group": data.fresh_g})
    return np.asarray(answers, dtype=np.float64)


# -- peers -----------------------------------------------------------------------------------------------


def one_threshold(data: Scored, asked: Asked) -> Floats:
    """Choose the threshold of least error among those that keep the limit on the selection rows."""
    cuts = np.unique(np.quantile(data.p, np.linspace(0, 1, 201)))
    cuts = np.append(cuts, np.inf)
    best, error = None, np.inf
    for cut in cuts:
        q = (data.p >= cut).astype(np.float64)
        own = float(np.abs(q - data.y).mean())
        if own < error and asked.beyond(q, data.y, data.g) <= 0:
            best, error = cut, own
    if best is None:
        raise NoAnswer("no threshold keeps the limit")
    return (data.fresh_p >= best).astype(np.float64)


def threshold_optimizer(data: Scored, asked: Asked) -> Floats:
    """Run fairlearn's ThresholdOptimizer: parity within the tolerance, or exactly equal odds."""
    from fairlearn.postprocessing import ThresholdOptimizer
    from sklearn.frozen import FrozenEstimator

    parity = asked.excess is _gap
    fair = ThresholdOptimizer(
        estimator=FrozenEstimator(GivenScores()),
        constraints="demographic_parity" if parity else "equalized_odds",
        prefit=True, objective="accuracy_score", predict_method="predict_proba",
        **({"tol": asked.level} if parity else {}),
    )  # fmt: skip
    fair.fit(_pair(data.p), data.y, sensitive_features=data.g)
    return np.asarray(fair._pmf_predict(_pair(data.fresh_p), sensitive_features=data.fresh_g))[:, 1]


def error_parity(data: Scored, asked: Asked) -> Floats:
    """Run error-parity's relaxed threshold optimiser."""
    from error_parity import RelaxedThresholdOptimizer

    fair = RelaxedThresholdOptimizer(
        predictor=lambda p: p[:, 1],
        constraint="demographic_parity" if asked.excess is _gap else "equalized_odds",
        tolerance=asked.level, max_roc_ticks=1000, seed=0,
    )  # fmt: skip
    fair.fit(_pair(data.p), data.y, group=data.g)
    return np.asarray(fair.predict(_pair(data.fresh_p), group=data.fresh_g), dtype=np.float64)


def oxonfair(data: Scored, asked: Asked) -> Floats:
    """Run OxonFair's frontier of thresholds by group."""
    from oxonfair import DataDict, FairPredictor
    from oxonfair.utils import group_metrics as gm

    named: dict[Any, Any] = {
        _gap: gm.pos_pred_rate.max_diff, _ratio: gm.pos_pred_rate.min_ratio, _odds: gm.equalized_odds_max,
        _miss: gm.recall.min, _precision: gm.precision,
    }  # fmt: skip
    limit = named[asked.excess]
    level = 1 - asked.level if asked.excess is _miss else asked.level
    fair = FairPredictor(None, DataDict(data.y, _pair(data.p), data.g))
    fair.fit(gm.accuracy, limit, level)
    new = DataDict(data.fresh_y, _pair(data.fresh_p), data.fresh_g)
    return np.asarray(fair.predict(new), dtype=np.float64)


def mapie(data: Scored, asked: Asked) -> Floats:
    """Run MAPIE's risk controller at 95 % on all selection rows: one threshold for all groups."""
    from mapie.risk_control import BinaryClassificationController, precision

    control = BinaryClassificationController(
        _pair, precision, asked.level, confidence_level=0.95, best_predict_param_choice="recall"
    )
    control.calibrate(data.p, data.y)
    if control.best_predict_param is None:
        raise NoAnswer("no threshold is certified")
    return np.asarray(control.predict(data.fresh_p), dtype=np.float64)


@dataclass(frozen=True)
class Method:
    """A method, the limits it can be asked (empty: all), and the most groups it is asked for."""

    answer: Callable[[Scored, Asked], Floats]
    limits: tuple[Any, ...] = ()
    most_groups: int = 99


METHODS = {
    "tailboost": Method(ours),
    "tailboost, confidence=.9": Method(partial(ours, confidence=0.9)),
    "tailboost, calibrated at .95": Method(ours_calibrated),
    "one threshold": Method(one_threshold),
    "OxonFair": Method(oxonfair, (_gap, _ratio, _odds, _miss, _precision), 2),
    "error-parity": Method(error_parity, (_gap, _odds)),
    "ThresholdOptimizer": Method(threshold_optimizer, (_gap, _odds)),
    "MAPIE at .95": Method(mapie, (_precision,)),
}


# -- rows ------------------------------------------------------------------------------------------------


def _file(settings: Settings, table: str, seed: int) -> Path:
    return settings.out / "scores" / f"{table.replace(' ', '-')}.{seed}.npz"


def score(settings: Settings, table: str, column: str, seed: int) -> Scored:
    """Return the rows of a split: training rows give the score, the others are selection and fresh rows."""
    file = _file(settings, table, seed)
    if not file.exists():
        rows = TABLES[table](settings.folder)
        order = np.random.default_rng(seed).permutation(len(rows.y))
        n_train = min(TRAIN_ROWS, len(order) // 3)
        n_rest = min(len(order) - n_train, SELECTION_ROWS[-1] + TEST_ROWS)
        train, rest = rows.rows(order[:n_train]), rows.rows(order[n_train : n_train + n_rest])
        model = HistBoostClassifier(n_estimators=100, max_depth=4, learning_rate=0.1).fit(train.X, train.y)
        g = np.unique(rest.groups[column], return_inverse=True)[1]
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, p=model.predict_proba(rest.X)[:, 1].astype(np.float32), y=rest.y, g=g)
    with np.load(file) as kept:
        p, y, g = kept["p"].astype(np.float64), kept["y"], kept["g"]
    # Of small tables, half of the rest is fresh.
    cut = min(SELECTION_ROWS[-1], len(y) // 2)
    return Scored(p[:cut], y[:cut], g[:cut], p[cut:], y[cut:], g[cut:])


def _some(data: Scored, n: int) -> Scored:
    return Scored(data.p[:n], data.y[:n], data.g[:n], data.fresh_p, data.fresh_y, data.fresh_g)


def _cell(data: Scored, name: str, limit: str, entry: Path) -> dict[str, Any]:
    """Return what a method reaches on the fresh rows."""
    asked, began = LIMITS[limit], time.process_time()
    known = np.isin(data.fresh_g, np.unique(data.g))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            q = np.load(entry) if entry.exists() else METHODS[name].answer(data, asked)
    except (NoAnswer, ValueError, KeyError, IndexError, AssertionError, AttributeError) as error:
        return {"none": f"{type(error).__name__}: {error}"[:120]}
    y, g = data.fresh_y[known], data.fresh_g[known]
    q = q[known] if len(q) == len(known) else q
    return {
        "beyond": round(asked.beyond(q, y, g), 5),
        "error": round(float(np.abs(q - y).mean()), 5),
        "seconds": round(time.process_time() - began, 3),
    }


def play(settings: Settings, name: str) -> Report:
    """Compute what is missing and read it."""
    cells = Cells(settings, name)
    results: dict[tuple[str, int, str], dict[str, list[dict[str, Any]]]] = {}
    entries = settings.out / "entries"
    methods = [*METHODS, *sorted(f.name for f in entries.glob("*") if f.is_dir())]
    for seed in range(settings.repeats):
        for table, column in CASES.items():
            if settings.only and table not in settings.only:
                continue
            if settings.late and not _file(settings, table, seed).exists():
                continue
            data = score(settings, table, column, seed)
            for n in SELECTION_ROWS:
                if n > len(data.y):
                    continue
                for limit, asked in LIMITS.items():
                    for method in methods:
                        known = METHODS.get(method)
                        if known and known.limits and asked.excess not in known.limits:
                            continue
                        if known and data.g.max() >= known.most_groups:
                            continue
                        key = {"table": table, "rows": n, "limit": limit, "method": method, "seed": seed}
                        if settings.late and key not in cells:
                            continue
                        entry = entries / method / f"{table}.{limit}.{n}.{seed}.npy"
                        got = cells.get(key, partial(_cell, _some(data, n), method, limit, entry))
                        results.setdefault((table, n, limit), {}).setdefault(method, []).append(got)
    return Report(_text(results), _summary(results), partial(_picture, results))


# -- figures ---------------------------------------------------------------------------------------------


def _figures(runs: list[dict[str, Any]]) -> dict[str, Any]:
    answered = [run for run in runs if "error" in run]
    if not answered:
        return {"splits": len(runs), "answered": 0}
    beyond = np.array([run["beyond"] for run in answered])
    return {
        "splits": len(runs),
        "answered": len(answered),
        "kept": int((beyond <= 0).sum()),
        "excess where broken": float(beyond[beyond > 0].mean()) if (beyond > 0).any() else 0.0,
        "error": float(np.mean([run["error"] for run in answered])),
        "seconds": float(np.mean([run["seconds"] for run in answered])),
    }


def _summary(results: Runs) -> dict[str, Any]:
    cells = {
        f"{table} | {n} | {limit}": {method: _figures(runs) for method, runs in of.items()}
        for (table, n, limit), of in results.items()
    }
    return {"training rows": TRAIN_ROWS, "fresh rows, at most": TEST_ROWS, "cells": cells}


def _total(results: Runs, n: int, limit: str, method: str, tables: tuple[str, ...]) -> dict[str, Any]:
    runs: list[dict[str, Any]] = []
    for (table, rows, name), of in results.items():
        if rows == n and name == limit and table in tables:
            runs += of.get(method, [])
    return _figures(runs) if runs else {}


def _text(results: Runs) -> str:
    parts = [
        "Each entry: kept / answered (of all splits), mean error of the answers, mean excess of the broken "
        "limits, processor seconds. Some methods take two groups only, so the tables are split by this."
    ]
    sizes = sorted({n for _, n, _ in results})
    methods = list(dict.fromkeys(method for of in results.values() for method in of))
    for limit in LIMITS:
        for title, tables in {"two groups": TWO_GROUPS, "four groups": MORE_GROUPS}.items():
            rows = []
            for method in methods:
                totals = [_total(results, n, limit, method, tables) for n in sizes]
                if any(totals):
                    rows.append([method, *(_words(total) for total in totals)])
            if rows:
                header = ["method", *(f"{n:,} rows" for n in sizes)]
                parts.append(f"## {limit}, {title} ({', '.join(tables)})\n\n" + markdown(header, rows))
    return "\n\n".join(parts)


def _words(total: Mapping[str, Any]) -> str:
    if not total:
        return ""
    if not total["answered"]:
        return f"0 of {total['splits']} answered"
    return (
        f"{total['kept']} / {total['answered']} (of {total['splits']}), error {total['error']:.3f}, "
        f"broken by {total['excess where broken']:.3f}, {total['seconds']:.1f} s"
    )


def _picture(results: Runs, plt: Any) -> Any:
    """Draw the share of kept limits by selection rows, one panel for each limit."""
    sizes = sorted({n for _, n, _ in results})
    figure, axes = plt.subplots(2, 3, figsize=(12, 6.5), sharey=True, layout="constrained")
    for ax, limit in zip(axes.flat, LIMITS, strict=True):
        for k, method in enumerate(METHODS):
            totals = [_total(results, n, limit, method, TWO_GROUPS) for n in sizes]
            points = [
                (i + 0.06 * (k - 3.5), t["kept"] / t["answered"])
                for i, t in enumerate(totals)
                if t.get("answered")
            ]
            if points:
                style = "o-" if method.startswith("tailboost") else "s--"
                ax.plot(*zip(*points, strict=True), style, color=f"C{k}", label=method, markersize=5)
        ax.set_title(limit, loc="left", fontsize=11)
        ax.set_xticks(range(len(sizes)), [f"{n:,}" for n in sizes])
        ax.axhline(0.95, color="0.6", linewidth=0.8)
        ax.set_ylim(-0.03, 1.03)
    for ax in axes[1]:
        ax.set_xlabel("selection rows")
    for ax in axes[:, 0]:
        ax.set_ylabel("share of answers that keep the limit")
    handles = {label: h for ax in axes.flat for h, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False)
    return figure


EXPERIMENTS = (
    Experiment(
        "broken-limits",
        "How often stated limits hold on fresh rows, by method and number of selection rows",
        play,
        repeats=10,
        has_jobs=True,
    ),
)
