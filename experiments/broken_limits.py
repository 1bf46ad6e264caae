"""How often stated limits hold on fresh rows: ours and other methods, on the same scores and selection rows.

For each table and split, one score is fitted on training rows. Every method then gets the same n scored rows
with labels and groups for selection, and answers the same fresh rows. A limit is *kept* if its rate on the
fresh rows is within the level.

Other methods can enter: write the answers (a probability of the answer 1 for each fresh row) as
``OUT/entries/METHOD/TABLE.LIMIT.ROWS.SEED.npy``. The fresh rows are in the order of ``OUT/scores``.
"""

from __future__ import annotations

import importlib.metadata
import time
import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

from experiments._experiment import Cells, Experiment, Report, Settings, markdown
from experiments._limit_methods import LIMITS, METHODS, ORACLE, OURS, NoAnswer, Scored
from experiments.field._tables import TABLES
from tailboost.learners import HistBoostClassifier

Run = dict[str, Any]
#: By table, number of selection rows and limit: the splits of each method.
Runs = Mapping[tuple[str, int, str], Mapping[str, list[Run]]]

TRAIN_ROWS, TEST_ROWS = 10_000, 40_000
SELECTION_ROWS = (500, 2_000, 10_000)
#: Rows without labels, beside the selection rows, for the methods that take them: none beside 10,000.
MORE_ROWS = 5_000
#: Table and column of groups. Of repeated persons, the first row counts.
CASES = {
    "acs income": "race of 4",
    "acs coverage": "race of 4",
    "diabetes": "race",
    "adult": "sex",
    "hmda": "black",
    "law school": "race",
    "credit": "sex",
}
#: Published scores without groups, and the classes of the answer 1.
GIVEN = {"imdb": (1,), "20news": (0, 15, 19)}
SETS = {
    "two groups": ("adult", "hmda", "credit", "law school"),
    "three or four groups": ("acs income", "acs coverage", "diabetes"),
    "no groups": tuple(GIVEN),
}
#: Bins of the number of selection rows in the smallest group.
SMALLEST = (range(50), range(50, 200), range(200, 1_000), range(1_000, 10_001))
BY_GROUP = tuple(limit for limit, asked in LIMITS.items() if asked.by_group)
#: Fewest splits on which two methods are compared.
LEAST_SPLITS = 3
PACKAGES = ("fairlearn", "error-parity", "oxonfair", "mapie", "scikit-learn", "scipy")


# -- rows ------------------------------------------------------------------------------------------------


def _file(settings: Settings, table: str, seed: int) -> Path:
    return settings.out / "scores" / f"{table.replace(' ', '-')}.{seed}.npz"


def _scored(settings: Settings, table: str, seed: int) -> dict[str, Any]:
    """Return scores, labels and groups of a split's rows that no score was fitted on."""
    random = np.random.default_rng(seed)
    if table in GIVEN:
        with np.load(settings.folder / "scores" / f"{table}.npz") as of:
            P, y = of["probabilities"], of["labels"]
        order = random.permutation(len(y))
        p, one = P[:, GIVEN[table]].sum(axis=1), np.isin(y, GIVEN[table])
        return {"p": p[order], "y": one[order].astype(np.intp), "g": np.zeros(len(y), dtype=np.intp)}
    rows = TABLES[table](settings.folder)
    if rows.of is not None:
        rows = rows.rows(np.sort(np.unique(rows.of, return_index=True)[1]))
    order = random.permutation(len(rows.y))
    n_train = min(TRAIN_ROWS, len(order) // 3)
    n_rest = min(len(order) - n_train, SELECTION_ROWS[-1] + TEST_ROWS)
    train, rest = rows.rows(order[:n_train]), rows.rows(order[n_train : n_train + n_rest])
    model = HistBoostClassifier(n_estimators=100, max_depth=4, learning_rate=0.1).fit(train.X, train.y > 0)
    g = np.unique(rest.groups[CASES[table]], return_inverse=True)[1]
    p = model.predict_proba(rest.X)[:, 1].astype(np.float32)
    return {"p": p, "y": (rest.y > 0).astype(np.intp), "g": g}


def score(settings: Settings, table: str, seed: int) -> Scored:
    """Return the selection rows and the fresh rows of a split, scored by a model of the training rows."""
    file = _file(settings, table, seed)
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, **_scored(settings, table, seed))
    with np.load(file) as kept:
        p, y, g = kept["p"].astype(np.float64), kept["y"], kept["g"]
    # Of small tables, half of the rest is fresh.
    cut = min(SELECTION_ROWS[-1], len(y) // 2)
    return Scored(p[:cut], y[:cut], g[:cut], p[cut:], y[cut:], g[cut:])


def _some(data: Scored, n: int) -> Scored:
    """Return the first n selection rows, the next ones without labels, and the fresh rows of their groups."""
    known = np.isin(data.fresh_g, np.unique(data.g[:n]))
    more = np.flatnonzero(np.isin(data.g, np.unique(data.g[:n])))
    more = more[more >= n][:MORE_ROWS]
    fresh = data.fresh_p[known], data.fresh_y[known], data.fresh_g[known]
    return Scored(data.p[:n], data.y[:n], data.g[:n], *fresh, data.p[more], data.g[more])


def _cell(data: Scored, name: str, limit: str, entry: Path) -> Run:
    """Return what a method reaches on the fresh rows."""
    asked, began = LIMITS[limit], time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            q = np.load(entry) if entry.exists() else METHODS[name].answer(data, asked)
    except (NoAnswer, ValueError, KeyError, IndexError, AssertionError, AttributeError) as error:
        return {"none": f"{type(error).__name__}: {error}"[:120]}
    return {
        "beyond": round(asked.beyond(q, data.fresh_y, data.fresh_g), 5),
        "error": round(asked.objective(q, data.fresh_y), 5),
        "seconds": round(time.process_time() - began, 3),
    }


def _asks(method: str, limit: str, n_groups: int, seed: int) -> bool:
    """Return whether a method is asked for a limit with this number of groups in a split."""
    asked, known = LIMITS[limit], METHODS.get(method)
    if asked.by_group and n_groups == 1:
        return False
    return known is None or (
        (not known.limits or asked.value in known.limits)
        and n_groups <= known.most_groups
        and seed < known.most_splits
    )


def play(settings: Settings, name: str) -> Report:
    """Compute what is missing and read it."""
    cells = Cells(settings, name)
    results: dict[tuple[str, int, str], dict[str, list[Run]]] = {}
    entries = settings.out / "entries"
    methods = [*METHODS, *sorted(f.name for f in entries.glob("*") if f.is_dir())]
    seeds = range(settings.repeats) if settings.seed is None else [settings.seed]
    for seed in seeds:
        for table in (*CASES, *GIVEN):
            if settings.only and table not in settings.only:
                continue
            if settings.late and not _file(settings, table, seed).exists():
                continue
            data = score(settings, table, seed)
            for n in SELECTION_ROWS:
                if n > len(data.y):
                    continue
                some = _some(data, n)
                smallest = int(np.unique(some.g, return_counts=True)[1].min())
                for limit in LIMITS:
                    for method in methods:
                        if not _asks(method, limit, int(data.g.max()) + 1, seed):
                            continue
                        key = {"table": table, "rows": n, "limit": limit, "method": method, "seed": seed}
                        if settings.late and key not in cells:
                            continue
                        entry = entries / method / f"{table}.{limit}.{n}.{seed}.npy"
                        got = cells.get(key, partial(_cell, some, method, limit, entry))
                        run = {**got, "seed": seed, "smallest": smallest}
                        results.setdefault((table, n, limit), {}).setdefault(method, []).append(run)
    return Report(_text(results), _summary(results), partial(_picture, results))


# -- figures ---------------------------------------------------------------------------------------------


def _figures(runs: list[Run]) -> dict[str, Any]:
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


def _among(
    results: Runs,
    method: str,
    tables: Iterable[str],
    limits: Iterable[str],
    sizes: Iterable[int] = SELECTION_ROWS,
    smallest: range = range(SELECTION_ROWS[-1] + 1),
) -> list[Run]:
    """Return the splits of a method over tables, limits, selection rows and rows of the smallest group."""
    return [
        run
        for (table, n, limit), of in results.items()
        if table in tables and limit in limits and n in sizes
        for run in of.get(method, [])
        if run["smallest"] in smallest
    ]


def _paired(ours: list[Run], theirs: list[Run]) -> tuple[list[float], list[float]] | None:
    """Return by how much the other method keeps more and errs less, on splits that both answered."""
    mine = {run["seed"]: run for run in ours if "error" in run}
    both = [(mine[run["seed"]], run) for run in theirs if "error" in run and run["seed"] in mine]
    if len(both) < max(LEAST_SPLITS, len(ours) / 2):
        return None
    kept = [float(b["beyond"] <= 0) - float(a["beyond"] <= 0) for a, b in both]
    return kept, [a["error"] - b["error"] for a, b in both]


def _beyond_noise(differences: list[float]) -> bool:
    """Return whether the mean is above 0 by Student's t test at 5 %, two-sided."""
    x = np.array(differences)
    spread = x.std(ddof=1) / np.sqrt(len(x))
    return bool(x.mean() > stdtrit(len(x) - 1, 0.975) * spread and x.mean() > 0)


def dominating(of: Mapping[str, list[Run]], method: str, better: Any = _beyond_noise) -> list[str]:
    """Return the methods that are as good in both respects, and better in one: by default beyond noise.

    The respects are the share of kept limits and the objective, paired over splits.
    """
    found = []
    for other, runs in of.items():
        if other in (method, ORACLE) or (pair := _paired(of[method], runs)) is None:
            continue
        if min(np.mean(pair[0]), np.mean(pair[1])) >= 0 and any(map(better, pair)):
            found.append(other)
    return found


def _summary(results: Runs) -> dict[str, Any]:
    cells = {
        f"{table} | {n} | {limit}": {method: _figures(runs) for method, runs in of.items()}
        for (table, n, limit), of in results.items()
    }
    methods = list(dict.fromkeys(method for of in results.values() for method in of))
    limits = {"all limits": tuple(LIMITS)} | {limit: (limit,) for limit in LIMITS}
    totals: dict[str, Any] = {}
    for title, tables in (SETS | {"all tables": sum(SETS.values(), ())}).items():
        for name, among in limits.items():
            for sizes in (SELECTION_ROWS, *((n,) for n in SELECTION_ROWS)):
                of = {method: _among(results, method, tables, among, sizes) for method in methods}
                key = " | ".join([title, name, *(map(str, sizes) if len(sizes) == 1 else ())])
                totals[key] = {method: _figures(runs) for method, runs in of.items() if runs}
    return {
        "training rows": TRAIN_ROWS,
        "fresh rows, at most": TEST_ROWS,
        "methods": {name: importlib.metadata.version(name) for name in PACKAGES},
        "cells": cells,
        "totals": totals,
        "rows of the smallest group": {
            f"{few.start} to {few.stop - 1}": {
                method: _figures(_among(results, method, CASES, BY_GROUP, smallest=few)) for method in methods
            }
            for few in SMALLEST
        },
        "frontier": _frontier(results),
        "dominated": {
            f"{table} | {n} | {limit}": found
            for (table, n, limit), of in results.items()
            if OURS in of and (found := dominating(of, OURS))
        },
    }


def _by_means(differences: list[float]) -> bool:
    return bool(np.mean(differences) > 0)


def _frontier(results: Runs) -> dict[str, tuple[int, int, int]]:
    """Return for each method the cells in which no other dominates it, beyond noise and by means, and all.

    A cell counts if the method answers at least `LEAST_SPLITS` splits.
    """
    methods = dict.fromkeys(method for of in results.values() for method in of if method != ORACLE)
    found = {}
    for method in methods:
        cells = [of for of in results.values() if _figures(of.get(method, []))["answered"] >= LEAST_SPLITS]
        beyond, means = (
            sum(not dominating(of, method, by) for of in cells) for by in (_beyond_noise, _by_means)
        )
        found[method] = (beyond, means, len(cells))
    return found


def _text(results: Runs) -> str:
    parts = [
        "Each entry: kept / answered (of all splits), mean error of the answers, mean excess of the broken "
        "limits, processor seconds. Some methods take two groups only, so the tables are split by this. The "
        "error of `answered error` is the share of deferred rows. The oracle chooses mixtures of thresholds "
        "by group on the fresh rows themselves."
    ]
    sizes = sorted({n for _, n, _ in results})
    methods = list(dict.fromkeys(method for of in results.values() for method in of))
    frontier = [[method, *map(str, of)] for method, of in _frontier(results).items()]
    parts.append(
        "## Cells on the frontier\n\nNo other method keeps as many limits with as small an error, and is "
        "better in one respect: beyond noise, or by its mean alone. A pair of methods is compared on at "
        "least three splits, and on half of those of the method.\n\n"
        + markdown(["method", "beyond noise", "by means", "all cells"], frontier)
    )
    rows = [
        [
            method,
            *(_words(_figures(_among(results, method, CASES, BY_GROUP, smallest=few))) for few in SMALLEST),
        ]
        for method in methods
    ]
    header = ["method", *(f"{few.start:,} to {few.stop - 1:,} rows" for few in SMALLEST)]
    parts.append("## Limits by group, by rows of the smallest group\n\n" + markdown(header, rows))
    for limit in LIMITS:
        for title, tables in SETS.items():
            rows = []
            for method in methods:
                totals = [_figures(_among(results, method, tables, (limit,), (n,))) for n in sizes]
                if any(total["splits"] for total in totals):
                    rows.append([method, *map(_words, totals)])
            if rows:
                header = ["method", *(f"{n:,} rows" for n in sizes)]
                parts.append(f"## {limit}, {title} ({', '.join(tables)})\n\n" + markdown(header, rows))
    return "\n\n".join(parts)


def _words(total: Mapping[str, Any]) -> str:
    if not total["splits"]:
        return ""
    if not total["answered"]:
        return f"0 of {total['splits']} answered"
    return (
        f"{total['kept']} / {total['answered']} (of {total['splits']}), error {total['error']:.3f}, "
        f"broken by {total['excess where broken']:.3f}, {total['seconds']:.1f} s"
    )


def _picture(results: Runs, plt: Any) -> Any:
    """Draw the share of kept limits by rows of the smallest group, one panel for each limit by group."""
    figure, axes = plt.subplots(2, 2, figsize=(11, 8.6), sharey=True, layout="constrained")
    for ax, limit in zip(axes.flat, BY_GROUP, strict=True):
        drawn = [name for name in METHODS if name != ORACLE]
        for k, method in enumerate(drawn):
            points = []
            for i, few in enumerate(SMALLEST):
                total = _figures(_among(results, method, CASES, (limit,), smallest=few))
                # Few answers make no share.
                if total["answered"] >= 5:
                    points.append((i + 0.6 * (k / len(drawn) - 0.5), total["kept"] / total["answered"]))
            if points:
                style = "o-" if method.startswith("tailboost") else "s--"
                colour = plt.get_cmap("tab20")(k)
                ax.plot(*zip(*points, strict=True), style, color=colour, label=method, markersize=5)
        ax.set_title(limit, loc="left", fontsize=11)
        ticks = [f"{few.start:,}–{few.stop - 1:,}" for few in SMALLEST[:-1]]
        ax.set_xticks(range(len(SMALLEST)), [*ticks, f"from {SMALLEST[-1].start:,}"])
        for level in (0.5, 0.9, 0.95):
            ax.axhline(level, color="0.7", linewidth=0.8)
        ax.set_ylim(-0.03, 1.03)
    for ax in axes[1]:
        ax.set_xlabel("selection rows of the smallest group")
    for ax in axes[:, 0]:
        ax.set_ylabel("share of answers that keep the limit")
    handles = {label: h for ax in axes.flat for h, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, frameon=False)
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
