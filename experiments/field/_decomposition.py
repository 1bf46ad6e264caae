"""Where the default and the strong estimators lose log loss and regret, on the tables of `field-strong`.

The parts are the score (against single models and the baselines), the learned average, the refit, the
selection of rules, and error budget left unused. An oracle learns or selects on the test rows themselves. It
bounds what a better method could gain, and is too optimistic on few test rows. Beside it are methods that use
a part of the test rows and are measured on the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state

import tailboost as tb
from experiments._experiment import Cells, Experiment, Report, Settings, markdown
from experiments._opponents import Bench
from experiments._regret import Points, cost
from experiments.field._strong import (
    OURS,
    SELECTED_ON,
    TABLES,
    baselines_of,
    bench_of,
    curve_of,
    loss,
    mean_over_tables,
    rows_of,
)
from tailboost.classifiers.default_models import DEFAULTS, TableKind
from tailboost.classifiers.fitting import FIVE_FOLDS_UP_TO
from tailboost.learners.foreign import set_seeds
from tailboost.learners.protocols import AveragingLearner, Partitioned
from tailboost.learners.table import OpenTable
from tailboost.rows.rows import Split, TrainingSet
from tailboost.selection.outputs import Average, logs_of

Floats = NDArray[np.float64]
Found = dict[str, Any]

# Folds of the test rows, for methods that are measured on test rows that they did not see.
TEST_FOLDS = 5
# Steps of the algorithm for the best convex average.
STEPS = 200
BUDGETS = (0.02, 0.05)
#: Tables on which the strong estimators were selected, and the others.
SIDES: dict[str, Callable[[str], bool]] = {
    "all": lambda title: True,
    "others": lambda title: title not in SELECTED_ON,
    "of the selection": lambda title: title in SELECTED_ON,
}


@dataclass(frozen=True)
class Fitted:
    """Log-probabilities of one model, of shape (n, K), and processor seconds."""

    name: str
    out_of_fold: Floats
    folds: Floats  # on test rows, by the mean of the folds' log-probabilities
    folds_summed: Floats  # on test rows, by the mean of the folds' probabilities
    refit: Floats  # on test rows, by one model of all rows
    means: bool  # whether the classifier answers by the folds' mean
    seconds: tuple[float, float]  # of the folds' fits, and of the fit on all rows

    @property
    def final(self) -> Floats:
        """What the classifier answers by."""
        return self.folds if self.means else self.refit


def models_of(bench: Bench, seed: int) -> dict[str, list[Fitted]]:
    """Fit the default and the strong estimators as `RobustMixtureClassifier` does, each model once."""
    train, X_test = bench.rows.train, bench.rows.test.X
    n, K = len(train.y), len(np.unique(train.y))
    problem = TrainingSet(train.X, train.y, np.ones(n), None, K, np.arange(n), n, None)
    seed = int(check_random_state(seed).randint(2**31 - 1))
    split = Split.from_training_set(problem, "auto", seed, five_up_to=FIVE_FOLDS_UP_TO)
    kind, opened = TableKind.of(problem), OpenTable(problem.X)

    def probabilities(model: Any, X: Any) -> Floats:
        whole = np.zeros((len(X), K))
        whole[:, model.classes_] = model.predict_proba_table(model.table_.transform(X))
        return whole

    def fitted(name: str, estimator: Any) -> Fitted:
        learner = clone(estimator)
        set_seeds(learner, seed)
        began = time.process_time()
        session = learner.open_table(opened, problem.y, K, problem.weight)
        if isinstance(session, Partitioned):
            session.leave_out(split.fold)
        models = [session.fit(problem.weight, seed, ~part) for part in split.parts]
        middle = time.process_time()
        last = session.fit(problem.weight, seed)
        seconds = middle - began, time.process_time() - middle
        out_of_fold = np.zeros((n, K))
        for part, model in zip(split.parts, models, strict=True):
            out_of_fold[part] = probabilities(model, train.X[part])
        of_folds = [probabilities(model, X_test) for model in models]
        by_logs = np.exp(np.mean([logs_of(P) for P in of_folds], axis=0))
        refit, means = probabilities(last, X_test), isinstance(session, AveragingLearner)
        summed = np.mean(of_folds, axis=0)
        held, folds, folds_summed, last_logs = map(logs_of, (out_of_fold, by_logs, summed, refit))
        return Fitted(name, held, folds, folds_summed, last_logs, means, seconds)

    found: dict[str, list[Fitted]] = {}
    known: dict[tuple[str, str], Fitted] = {}
    for title, make in DEFAULTS.items():
        of = found[title or "default"] = []
        for name, estimator in make(kind):
            key = name, repr(estimator)
            if key not in known:
                known[key] = fitted(name, estimator)
            of.append(known[key])
    return found


# -- log loss ------------------------------------------------------------------------------------------------


def convex(logs: Sequence[Floats], y: Any) -> Floats:
    """Return the weights, which add up to 1, of the mean of probabilities with the least log loss on rows."""
    own = np.exp([log[np.arange(len(y)), y] for log in logs])
    weights = np.full(len(own), 1.0 / len(own))
    for _ in range(STEPS):
        share = weights[:, None] * own
        weights = (share / share.sum(axis=0)).mean(axis=1)
    return weights


def on_others(logs: Sequence[Floats], y: Any) -> float:
    """Return the log loss of an average on test rows in folds, learned on the other test rows."""
    total = 0.0
    for fitted, held in StratifiedKFold(TEST_FOLDS, shuffle=True, random_state=0).split(logs[0], y):
        average = Average.learned([log[fitted] for log in logs], rows_of(y[fitted]))
        total += len(held) * loss(average.of(logs[i][held] for i in average.used_models), y[held])
    return total / len(y)


def log_losses(found: Sequence[Fitted], y: Any, y_test: Any) -> Found:
    """Return the log loss on test rows of the average as it is, and of alternatives."""
    held = [model.out_of_fold for model in found]
    final = [model.final for model in found]
    learned = Average.learned(held, rows_of(y))

    def by(average: Average, logs: Sequence[Floats]) -> float:
        return loss(average.of(logs[i] for i in average.used_models), y_test)

    alone = {model.name: Average.learned([model.out_of_fold], rows_of(y)) for model in found}
    singles = {model.name: by(alone[model.name], [model.final]) for model in found}
    by_held = {m.name: loss(alone[m.name].of([m.out_of_fold]), y) for m in found}
    M, K = len(found), found[0].final.shape[1]
    oracle = convex(final, y_test)
    return {
        "as it is": by(learned, final),
        "held out": loss(learned.of(held[i] for i in learned.used_models), y),
        "weights": learned.weights.tolist(),
        "best single model on test rows": min(singles.values()),
        "best single model on held-out rows": singles[min(by_held, key=lambda name: by_held[name])],
        "convex average learned on test rows": loss(
            np.log(sum(w * np.exp(log) for w, log in zip(oracle, final, strict=True))), y_test
        ),
        "equal weights": by(Average(np.full(M, 1.0 / M), np.zeros(K)), final),
        "average learned on test rows": by(Average.learned(final, rows_of(y_test)), final),
        "average learned on other test rows": on_others(final, y_test),
        "all models of all rows": by(learned, [model.refit for model in found]),
        "all means of folds": by(learned, [model.folds for model in found]),
        "means of folds, summed": by(
            learned, [model.folds_summed if model.means else model.final for model in found]
        ),
    }


# -- rules -----------------------------------------------------------------------------------------------


def rules_of(found: Sequence[Fitted], y: Any, y_test: Any) -> Found:
    """Return points of rules selected on held-out rows, on test rows, and on the other half of test rows."""
    mix = tb.RobustMixtureClassifier.from_probabilities(
        {model.name: np.exp(model.out_of_fold) for model in found}, y
    )
    fresh = {model.name: np.exp(model.final) for model in found}
    points = curve_of(mix, fresh, y_test)
    P = np.asarray(mix.predict_proba(fresh))
    own = tb.RobustMixtureClassifier.from_probabilities({"ours": P}, y_test)
    halves = []
    for fitted, held in StratifiedKFold(2, shuffle=True, random_state=0).split(P, y_test):
        half = tb.RobustMixtureClassifier.from_probabilities({"ours": P[fitted]}, y_test[fitted])
        halves.append(curve_of(half, {"ours": P[held]}, y_test[held]))
    return {
        "points": points,
        "on test rows": curve_of(own, {"ours": P}, y_test),
        "on other test rows": halves,
        "budget": [unused(mix, budget) for budget in BUDGETS],
    }


def unused(mix: Any, budget: float) -> list[float]:
    """Return the part of an error budget that a rule leaves, and what a draw of two rules gains by it.

    Both are errors on the selection data; the second is that of the worst class. 0 if no rule needs all of
    the budget.
    """
    overall, worst = mix.tradeoff().values
    limit = overall[0] + budget
    if overall[-1] <= limit:
        return [0.0, 0.0]
    within = overall <= limit + 1e-9
    drawn = float(np.interp(limit, overall, worst))
    return [float(limit - overall[within].max()), float(worst[within].min() - drawn)]


# -- all tables ------------------------------------------------------------------------------------------


def _cell(bench: Callable[[], Bench], seed: int) -> Found:
    rows = bench().rows
    by_name = models_of(bench(), seed)
    return {
        "log loss": {name: log_losses(of, rows.train.y, rows.test.y) for name, of in by_name.items()},
        "rules": rules_of(by_name["default"], rows.train.y, rows.test.y),
        "seconds": {name: {model.name: model.seconds for model in of} for name, of in by_name.items()},
        "test rows": len(rows.test.y),
    }


def play(settings: Settings, name: str) -> Report:
    """Compute missing cells within the time limit, and read all finished cells."""
    theirs = Cells(settings, "field-strong-baselines", len(TABLES) * settings.repeats)
    cells = Cells(settings, name, len(TABLES) * settings.repeats)
    found: dict[str, list[Found]] = {}
    for seed in range(settings.repeats):
        for title in TABLES:
            key = {"set": title, "seed": seed}
            there = key in cells and key in theirs
            if there or not (settings.late or (settings.only and title not in settings.only)):
                bench = cache(partial(bench_of, settings, title, seed))
                baselines = theirs.get(key, partial(baselines_of, bench))
                ours = cells.get(key, partial(_cell, bench, seed))
                found.setdefault(title, []).append(_parts(ours, baselines))
    if not found:
        raise ValueError("--max-time, --only: no split is computed, so there is nothing to read")
    by_table = {title: _mean(splits) for title, splits in found.items()}
    parts = {
        part: {
            side: mean_over_tables(np.array([of[part] for title, of in by_table.items() if within(title)]))
            for side, within in SIDES.items()
            if any(map(within, by_table))
        }
        for part in next(iter(by_table.values()))
    }
    # The numbers of a table are in the order of the parts.
    numbers = {title: list(of.values()) for title, of in by_table.items()}
    return Report(_text(parts), {"parts": parts, "tables": numbers})


def _mean(splits: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {part: float(np.mean([of[part] for of in splits])) for part in splits[0]}


def _parts(ours: Found, baselines: Found) -> dict[str, float]:
    """Return the parts of one split; above 0, the classifier loses by the part."""
    own_losses = {name: ours["log loss"][name]["as it is"] for name in OURS}
    parts = {"log loss, strong | less the default": own_losses["strong"] - own_losses["default"]}
    for name in OURS:
        losses = ours["log loss"][name]
        against = {
            "score: best single model of ours, on test rows": losses["best single model on test rows"],
            "score: best single model of ours, on held-out rows": losses[
                "best single model on held-out rows"
            ],
            "score: best of five baselines, on test rows": min(
                own["test"] for own in baselines["log loss"].values()
            ),
            "average: equal weights": losses["equal weights"],
            "average: best convex one on test rows": losses["convex average learned on test rows"],
            "average: learned on test rows": losses["average learned on test rows"],
            "average: learned on other test rows": losses["average learned on other test rows"],
            "refit: all models of all rows": losses["all models of all rows"],
            "refit: all models the mean of folds": losses["all means of folds"],
            "refit: boosted trees, mean of probabilities instead of logs": losses["means of folds, summed"],
        }
        parts |= {f"log loss, {name} | {part}": losses["as it is"] - of for part, of in against.items()}
    rules = ours["rules"]
    points = _points(rules["points"])
    own = cost(points)
    theirs = baselines["theirs"].values()
    their = cost(Points.of([of["out of fold"] for of in theirs], [of["test"] for of in theirs]))
    same = cost(_points(baselines["our rules"]))
    half = np.mean([cost(_points(of)) for of in rules["on other test rows"]])
    parts |= {
        "regret | all of it": own - their,
        "regret | score: our rules on the best baseline's probabilities": own - same,
        "regret | rules: the baselines' points, both on its probabilities": same - their,
        "regret | selection: rule of the curve chosen on test rows": own
        - cost(Points(points.test, points.test)),
        "regret | selection: rules made on other test rows": own - half,
        "regret | selection: rules made on test rows": own - cost(_points(rules["on test rows"])),
    }
    # The first rule of a curve has the least overall error, the last one the least error of a class.
    for number, (end, place) in {"overall error": (0, 0), "worst class": (-1, 1)}.items():
        on_other = [np.asarray(of["test"])[end][place] for of in rules["on other test rows"]]
        against = {
            "selection: rules made on other test rows": np.mean(on_other),
            "selection: rules made on test rows": np.asarray(rules["on test rows"]["test"])[end][place],
            "score: our rules on the best baseline's probabilities": np.asarray(
                baselines["our rules"]["test"]
            )[end][place],
        }
        mine = points.test[end][place]
        parts |= {f"{number} | {part}": float(mine - of) for part, of in against.items()}
    for budget, (unused, gain) in zip(BUDGETS, rules["budget"], strict=True):
        parts |= {
            f"budget {budget:g}, on held-out rows | unused": unused,
            f"budget {budget:g}, on held-out rows | worst class, less that of a drawn rule": gain,
        }
    return parts


def _points(curve: Found) -> Points:
    return Points.of(curve["out of fold"], curve["test"])


def _text(parts: Found) -> str:
    body = [
        [*part.split(" | "), *(f"{of['mean']:+.4f} ± {of['half']:.4f}" for of in sides.values())]
        for part, sides in parts.items()
    ]
    counts = {side: of["tables"] for side, of in next(iter(parts.values())).items()}
    header = ["number", "part", *(f"{count} tables ({side})" for side, count in counts.items())]
    return (
        "Number of the classifier less that of the alternative in the column “part”, on test rows: above 0, "
        "the classifier loses by the part. Means ± 95 % over tables. Log losses are natural logarithms; "
        "regrets are errors, not divided by a unit. Single models and baselines have a learned sharpness and "
        "offsets of the classes, too.\n\n" + markdown(header, body)
    )


EXPERIMENT = Experiment(
    "field-decomposition", "Where the default loses log loss and regret", play, has_jobs=True
)
