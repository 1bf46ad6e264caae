"""Figures 1 and 2 of Shivaswamy and Jebara 2011 on MNIST 3 against 8, and margins.

The text does not name the data of the figures. Half of the rows are training rows of stumps, over the 700
rounds of Figure 2. Margins are y f(x) / Σ|a| of all rounds, on training rows and on as many test rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from experiments._experiment import Cells, Experiment, Report, Settings, markdown
from experiments._step_cost import StepCostDisplay
from experiments._tables import Data
from experiments.variance import HALF, TASKS
from tailboost import AdaBoostClassifier, published
from tailboost.learners import StumpClassifier

TASK = "mnist 3/8"
ROUNDS = 700
MARKS = (100, 200, 300)
SHOWN = (1, 2, 5, 10, 20, 50, 100, 200, 300, 500, 700)
# λ of the two parts of Figure 1, and their round.
BOUNDS, DRAWN = (0.0, 0.9), 2
SHARES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 1.0)
ADA, ZERO, EB, VADA = "AdaBoost", "VadaBoost, λ = 0", "EBBoost, λ = 0.5", "VadaBoost, λ = 0.5"
# Exponents for equal costs in a pair: at λ = 0 cost (3) is the square of AdaBoost's.
POWERS = {ADA: 1.0, ZERO: 0.5, EB: 1.0, VADA: 1.0}
PAIRS = ((ADA, ZERO), (EB, VADA))


def _fits(train: Data, rounds: int) -> dict[str, Any]:
    made = {
        ADA: AdaBoostClassifier(StumpClassifier(), n_estimators=rounds),
        ZERO: published.vadaboost(StumpClassifier(), 0.0, T=rounds),
        EB: published.ebboost(HALF, T=rounds),
        VADA: published.vadaboost(StumpClassifier(), HALF, T=rounds),
    }
    return {name: classifier.fit(train.X, train.y) for name, classifier in made.items()}


def _cell(data: Data, rounds: int) -> dict[str, Any]:
    order = np.random.RandomState(0).permutation(len(data.y))
    train, other = (data.rows(rows) for rows in np.array_split(order, 2))
    fits = _fits(train, rounds)
    # The logarithm of 1 + cost after every round, as in the figure.
    costs = {name: (POWERS[name] * fit.log_costs_).tolist() for name, fit in fits.items()}
    margins = {
        name: {of: _margins(fits[name], rows) for of, rows in (("fitted on", train), ("others", other))}
        for name in (ADA, VADA)
    }
    return {"rows": len(train.y), "log costs": costs, "margins": margins, "bounds": _bounds(train)}


def _margins(classifier: Any, rows: Data) -> dict[str, Any]:
    """Return quantiles, mean and standard deviation of the normalised margins, and the error."""
    m = classifier.margins(rows.X, rows.y) / np.abs(classifier.estimator_weights_).sum()
    return {
        "quantiles": np.quantile(m, SHARES).round(5).tolist(),
        "mean": round(float(m.mean()), 5),
        "standard deviation": round(float(m.std()), 5),
        "error": round(float(np.mean(m <= 0)), 5),
    }


def _bounds(train: Data) -> dict[str, Any]:
    """Return the cost V and its bound U along the hypothesis of a round, for both λ of Figure 1."""
    found = {}
    for lam in BOUNDS:
        fit = published.vadaboost(StumpClassifier(), lam, T=DRAWN).fit(train.X, train.y)
        display = StepCostDisplay.from_estimator(fit, train.X, train.y, boosting_round=DRAWN)
        lines = {"a": display.steps[::10], "V": display.cost[::10], "U": display.bound[::10]}
        found[f"{lam:g}"] = {k: np.round(v, 6).tolist() for k, v in lines.items()} | {"step": display.step}
    return found


def needed(costs: list[float], goal: float) -> int | None:
    """Return the number of rounds until a cost is at most the goal, or None."""
    reached = np.flatnonzero(np.asarray(costs) <= goal)
    return int(reached[0]) + 1 if len(reached) else None


def play(settings: Settings, name: str) -> Report:
    """Compute missing cells and read all cells."""
    data = TASKS[TASK].load(settings.folder)
    cell = Cells(settings, name).get({"data": TASK, "rounds": ROUNDS}, partial(_cell, data, ROUNDS))
    costs = cell["log costs"]
    body = [[m, *(f"{np.exp(c[min(t, len(c)) - 1]):.3g}" for t in SHOWN)] for m, c in costs.items()]
    counts = []
    for first, second in PAIRS:
        for t in MARKS:
            rounds = needed(costs[second], costs[first][t - 1])
            ratio = f"more than {ROUNDS / t:.1f}" if rounds is None else f"{rounds / t:.2f}"
            counts.append([first, second, t, f"more than {ROUNDS}" if rounds is None else rounds, ratio])
    margins = [
        [
            m,
            of,
            f"{100 * q['error']:.2f}",
            f"{q['mean']:.4f}",
            f"{q['standard deviation']:.4f}",
            *map(str, q["quantiles"]),
        ]
        for m, by in cell["margins"].items()
        for of, q in by.items()
    ]
    text = "\n\n".join(
        [
            f"{cell['rows']:,} rows of {TASK}, stumps. Cost after some rounds; for the pair at λ = 0 the "
            "mean exponential loss, else cost (3), over n²:",
            markdown(["", *map(str, SHOWN)], body),
            "Rounds for the same cost:",
            markdown(["cost of", "reached by", "rounds of one", "rounds of the other", "times"], counts),
            f"Normalised margins after {ROUNDS} rounds, with the error and quantiles:",
            markdown(["", "rows", "error, %", "mean", "s.d.", *(f"{s:g}" for s in SHARES)], margins),
        ]
    )
    summary = {"data": TASK, "rows": cell["rows"], "bounds": cell["bounds"], "margins": cell["margins"]}
    summary["log costs"] = {m: [c[min(t, len(c)) - 1] for t in SHOWN] for m, c in costs.items()}
    summary["after rounds"], summary["quantiles at"] = SHOWN, SHARES
    return Report(text, summary, partial(_picture, cell))


def _picture(cell: Mapping[str, Any], plt: Any) -> Any:
    """Draw both figures: cost and bound against the step, and 1 + cost against rounds."""
    figure, panels = plt.subplots(1, 4, figsize=(12, 2.8), layout="constrained")
    for ax, (lam, of) in zip(panels, cell["bounds"].items(), strict=False):
        ax.plot(of["a"], of["U"], "--", label="bound U")
        ax.plot(of["a"], of["V"], label="cost V")
        ax.set(xlabel="α", title=f"Figure 1, λ = {lam}")
        ax.legend()
    for ax, pair, cost in zip(panels[2:], PAIRS, ("mean exponential loss", "cost (3)"), strict=True):
        for method in pair:
            ax.plot(np.log1p(np.exp(cell["log costs"][method])), label=method)
        ax.set(xlabel="rounds", ylabel=f"log(1 + {cost})", yscale="log", title="Figure 2")
        ax.legend(fontsize="small")
    return figure


EXPERIMENTS = (
    Experiment(
        "variance-figures",
        "Bound, cost by round, and margins on MNIST 3 against 8 (Shivaswamy and Jebara, Figures 1 and 2)",
        play,
    ),
)
