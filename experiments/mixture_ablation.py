"""Which parts of a mixture of any models pay: pools, shrinkage, thresholds, against one tuned model.

Five models, the same out-of-fold probabilities for everything that is compared; stratified random splits, at
most 1,500 rows to fit on and 4,000 to test on; classes of fewer than eight rows are left out.
"""

from __future__ import annotations

import time
import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments._experiment import (
    Experiment,
    Report,
    Settings,
    markdown,
    of_each,
    with_standard_error,
)
from experiments._tables import Data, Split, load_common_classes, split
from tailboost import metrics
from tailboost.baselines import plain_xgboost
from tailboost.mixture import RobustMixtureClassifier

MAX_TRAIN, MAX_TEST, TEST_SIZE, FOLDS, ALPHA = 1_500, 4_000, 0.5, 5, 0.3
TABLES = (
    "ecoli", "glass", "yeast", "wine, white", "image segmentation", "page blocks", "letter", "spambase",
    "credit default", "german credit", "digits", "wine (178 rows)",
)  # fmt: skip

ONLY: dict[str, Any] = {
    "shrinkage": 10.0,
    "n_thresholds": 0,
    "averages": False,
    "include_constants": False,
    "shares": False,
}
SHIFTS = ONLY | {"n_thresholds": 40}
AVERAGES = SHIFTS | {"averages": True}
FULL = AVERAGES | {"include_constants": True}
# What is compared for the worst class: the pools, then one change each to the full pool without shares. One
# member answers but in "+ shares" and "shared".
CHOICES: dict[str, dict[str, Any]] = {
    "answers": ONLY,
    "+ shifts": SHIFTS,
    "+ averages": AVERAGES,
    "+ constants": FULL,
    "+ shares": FULL | {"shares": True},
    "shared": FULL | {"randomized": True},
    **{f"shrinkage {s}": FULL | {"shrinkage": float(s)} for s in (0, 5, 20)},
    **{f"{n} thresholds": FULL | {"n_thresholds": n} for n in (10, 20, 80)},
    "averages alone": FULL,
    "floor .001": FULL,
    "budget .01": FULL | {"mean_budget": 0.01},
    "budget .01, shrinkage 0": FULL | {"mean_budget": 0.01, "shrinkage": 0.0},
}
POOLS = tuple(CHOICES)[:5]
Cell = dict[str, Any]


def models(seed: int, n_jobs: int) -> dict[str, Any]:
    """Return the models; LightGBM where it is installed."""
    dense = (SimpleImputer(keep_empty_features=True), StandardScaler())
    found: dict[str, Any] = {
        "forest": make_pipeline(SimpleImputer(), RandomForestClassifier(random_state=seed, n_jobs=n_jobs)),
        "xgboost": plain_xgboost(random_state=seed, n_jobs=n_jobs),
        "logistic": make_pipeline(*dense, LogisticRegression(max_iter=500)),
        "net": make_pipeline(*dense, MLPClassifier((32,), max_iter=60, random_state=seed)),
    }
    try:
        from lightgbm import LGBMClassifier
    except ImportError:
        return found
    return found | {"lightgbm": LGBMClassifier(random_state=seed, n_jobs=n_jobs, verbose=-1)}


def _measured(P: Any, y: Any) -> list[float]:
    """Return the worst class error and the mean error of the argmax, and the CVaR of the shares."""
    labels = P.argmax(axis=1)
    worst = max(metrics.class_errors(y, labels).values())
    return [float(worst), float(np.mean(labels != y)), float(metrics.cvar_zero_one_loss(y, P, ALPHA))]


def _tuned(name: str, P: Any, y: Any, Q: Any) -> tuple[float, Any]:
    """Tune the thresholds of one model out of fold: its value there, and what it does on the test rows."""
    mix = RobustMixtureClassifier.from_probabilities({name: P}, y, **CHOICES["+ shifts"])
    ledger = mix.combiner_.pool.ledger
    errors = ledger.unit_errors("classes", ledger.rows.y)[0].max(axis=1)
    best = mix.ensemble_.members[int(errors.argmin())]
    shares = np.eye(P.shape[1])[(np.log(np.maximum(Q, 1e-6)) + best.shift).argmax(axis=1)]
    return float(errors.min()), shares


def _probabilities(rows: Split, seed: int, n_jobs: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the models' probabilities of the training rows, out of fold, and of the test rows."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    X, y = rows.train.X, rows.train.y
    P, Q = {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, model in models(seed, n_jobs).items():
            P[name] = cross_val_predict(clone(model), X, y, cv=folds, method="predict_proba")
            Q[name] = clone(model).fit(X, y).predict_proba(rows.test.X)
    return P, Q


def _cell(data: Data, seed: int, n_jobs: int) -> Cell:
    """Fit the models once, and choose on their out-of-fold probabilities in every way."""
    rows = split(data, seed, TEST_SIZE, MAX_TRAIN, MAX_TEST)
    P, Q = _probabilities(rows, seed, n_jobs)
    train, test, found = rows.train, rows.test, Cell()
    single = {name: _tuned(name, P[name], train.y, Q[name]) for name in P}
    found["models"] = {name: _measured(Q[name], test.y) for name in P}
    found["tuned"] = {name: _measured(shares, test.y) for name, (_, shares) in single.items()}
    found["best tuned"] = found["tuned"][min(single, key=lambda name: single[name][0])]
    found["least CVaR"] = min(P, key=lambda name: metrics.cvar_zero_one_loss(train.y, P[name], ALPHA))
    for title, params in CHOICES.items():
        floor = 1e-3 if title == "floor .001" else 0.0
        own = [_floored(given, floor) for given in (P, Q)]
        if title == "averages alone":
            own = [{"average": _average(given)} for given in own]
        began = time.perf_counter()
        mix = RobustMixtureClassifier.from_probabilities(own[0], train.y, **params)
        seconds = time.perf_counter() - began
        used = int(np.count_nonzero(mix.estimator_weights_))
        shares = mix.predict_shares_from(own[1])
        randomised = float(max(metrics.expected_class_errors(test.y, shares).values()))
        found[title] = [*_measured(shares, test.y), mix.guarantee_.achieved, randomised, used, seconds]
    for title in POOLS:
        mix = RobustMixtureClassifier.from_probabilities(
            P, train.y, objective="cvar", alpha=ALPHA, **CHOICES[title]
        )
        found[f"CVaR, {title}"] = _measured(mix.predict_shares_from(Q), test.y)[2]
    return found


def _floored(given: dict[str, Any], floor: float) -> dict[str, Any]:
    lifted = {name: np.maximum(P, floor) for name, P in given.items()}
    return {name: P / P.sum(axis=1, keepdims=True) for name, P in lifted.items()}


def _average(given: dict[str, Any]) -> Any:
    P = np.exp(np.mean([np.log(np.maximum(P, 1e-6)) for P in given.values()], axis=0))
    return P / P.sum(axis=1, keepdims=True)


def play(settings: Settings, name: str) -> Report:
    """Compute what is missing and read it."""
    cell = partial(_cell, n_jobs=settings.n_jobs)
    data = load_common_classes(settings.folder, TABLES)
    return _report(settings, of_each(data, settings, name, cell, keys=("set", "seed")))


def _over_sets(found: dict[str, list[Cell]], title: str, against: str, column: int) -> list[float]:
    """Return the mean over the splits of a choice's value less another's, for each set."""
    return [
        float(np.mean([c[title][column] - c[against][column] for c in cells])) for cells in found.values()
    ]


def _level(found: dict[str, list[Cell]], title: str, column: int) -> float:
    return float(np.mean([np.mean([c[title][column] for c in cells]) for cells in found.values()]))


def _report(settings: Settings, found: dict[str, list[Cell]]) -> Report:
    full, summary = "+ constants", Cell(sets=len(found), repeats=settings.repeats)
    body = []
    for title in ("best tuned", *CHOICES):
        worst = _over_sets(found, title, "best tuned", 0)
        values = [_level(found, title, column) for column in (0, 1)]
        more = _over_sets(found, title, full, 0)
        optimism = members = seconds = ""
        if title in CHOICES:
            optimism = f"{_level(found, title, 4) - _level(found, title, 3):+.3f}"
            members, seconds = (f"{_level(found, title, column):.2g}" for column in (5, 6))
        body.append(
            [title, *(f"{v:.4f}" for v in values), with_standard_error(worst, 4),
             f"{sum(w < -.005 for w in worst)}/{sum(w > .005 for w in worst)}",
             with_standard_error(more, 4), optimism, members, seconds]
        )  # fmt: skip
        summary[title] = {"worst": values[0], "mean": values[1], "against best tuned": float(np.mean(worst))}
    header = ["choice", "worst", "mean", "worst against best tuned", "better/worse", "against full",
              "optimism", "members", "seconds"]  # fmt: skip
    parts = [
        "Test errors of `predict`, averaged over the sets; ± one standard error over them. *Best tuned*: the "
        "one model, with the class weights, of least worst-class error out of fold. Better and worse: sets "
        "whose mean differs by more than .005. Optimism: of the randomised value.\n\n"
        + markdown(header, body)
    ]
    cvar = [["best model alone", f"{np.mean([_alone(cells) for cells in found.values()]):.4f}", ""]]
    alone = np.array([_alone(cells) for cells in found.values()])
    for title in POOLS:
        of = np.array([np.mean([c[f"CVaR, {title}"] for c in cells]) for cells in found.values()])
        cvar.append([title, f"{of.mean():.4f}", with_standard_error(of - alone, 4)])
        summary[f"CVaR, {title}"] = float(of.mean())
    parts.append(f"CVaR at α = {ALPHA}, randomised:\n\n" + markdown(["pool", "CVaR", "against alone"], cvar))
    each = [
        [table, *(f"{np.mean([c[t][0] for c in cells]):.3f} / {np.mean([c[t][1] for c in cells]):.3f}"
                  for t in ("best tuned", full, "budget .01"))]
        for table, cells in found.items()
    ]  # fmt: skip
    parts.append(
        "Worst / mean on each set:\n\n" + markdown(["set", "best tuned", "full", "budget .01"], each)
    )
    return Report("\n\n".join(parts), summary)


def _alone(cells: list[Cell]) -> float:
    return float(np.mean([c["models"][c["least CVaR"]][2] for c in cells]))


EXPERIMENTS = (
    Experiment(
        "mixture-ablation",
        "Mixtures of any models: which members, how much shrinkage, how many thresholds",
        play,
        repeats=3,
    ),
)
