"""Credit default clients: AdaBoost against DRO boosting, the real experiment of Blanchet et al. 2019.

3,000 random training clients, 27,000 test clients; trees of depth 5, exponential loss, 50 rounds. The
paper's radius is χ²_{30; .95}/(2·3000) = 0.0073. In addition: larger radii, the radius from the data, the
logistic loss, AdaBoost with early stopping or shrinkage alone, XGBoost and a random forest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from experiments._experiment import Cells, Experiment, Report, Settings, markdown, plus_minus
from experiments._losses import exponential_losses
from experiments._worst_case_profile import worst_case_profile
from tailboost.app.datasets import load_credit_default
from tailboost.app.report.results import summarise
from tailboost.classifiers import AdaBoostClassifier, DROBoostClassifier
from tailboost.learners.named import plain_xgboost
from tailboost.solvers import cvar, worst_case_weights

Floats = NDArray[np.float64]

N_TRAIN, N_ROUNDS = 3000, 50
PAPER_RADIUS = 0.0073
RADII = (0.0, PAPER_RADIUS, 0.05, 0.2)
ALPHA = 0.1
# Radii of the worst case over test rows in the picture.
CURVE = (0.0, 0.0005, 0.002, 0.0073, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5)
COLUMNS = {
    "accuracy": "accuracy",
    "tpr": "true positive rate",
    "fnr": "false negative rate",
    "exponential": "exponential loss",
    "rescaled": "exponential loss, best scale",
    "cvar": f"CVaR {ALPHA:g} of it, own scale",
}


def methods(n_jobs: int) -> dict[str, Callable[..., Any]]:
    """Return the compared classifiers as functions of ``random_state``."""
    adaboost = partial(AdaBoostClassifier, n_estimators=N_ROUNDS, n_jobs=n_jobs)
    dro = partial(DROBoostClassifier, n_estimators=N_ROUNDS, n_jobs=n_jobs)
    return {
        "AdaBoost": adaboost,
        **{f"DRO, δ = {r:g}": partial(dro, radius=r) for r in RADII},
        "DRO, δ from the data": dro,
        "DRO, δ from the data, logistic": partial(dro, loss="logistic"),
        "AdaBoost, early stopping": partial(adaboost, cv=0.2, n_iter_no_change=10),
        "AdaBoost, shrinkage 0.1": partial(dro, radius=0.0, learning_rate=0.1),
        "DRO, δ from the data, shrinkage 0.1": partial(dro, learning_rate=0.1),
        "XGBoost": partial(plain_xgboost, n_jobs=n_jobs),
        "random forest": partial(RandomForestClassifier, n_jobs=n_jobs),
    }


def measure(classifier: Any, X: Any, y: NDArray[Any]) -> dict[str, float]:
    """Return the figures of a fitted classifier on some rows; class 1 is a default."""
    wrong = classifier.predict(X) != y
    losses = exponential_losses(classifier, X, y)
    fnr = float(wrong[y == 1].mean())
    return {
        "accuracy": 1.0 - float(wrong.mean()),
        "tpr": 1.0 - fnr,
        "fnr": fnr,
        "exponential": float(losses.mean()),
        "rescaled": best_scale(losses),
        "cvar": cvar(losses, ALPHA),
    }


def best_scale(losses: Floats) -> float:
    """Mean exponential loss after the best common factor on the scores: the effect of scale is removed."""
    m = -np.log(losses)
    unit = max(float(np.abs(m).mean()), np.finfo(float).tiny)

    def mean_loss(c: float) -> float:
        return float(np.logaddexp.reduce(-c * m / unit) - np.log(len(m)))

    return float(np.exp(minimize_scalar(mean_loss, bounds=(0.0, 20.0), method="bounded").fun))


def by_rounds(classifier: Any, X: Any, y: NDArray[Any]) -> list[float]:
    """Return the mean exponential loss of a binary additive classifier after each round."""
    sign = np.where(y == classifier.classes_[1], 1.0, -1.0)
    losses = [np.exp(-sign * f).mean() for f in classifier.staged_decision_function(X)]
    return [round(float(loss), 5) for loss in losses]


def mean_by_round(found: list[dict[str, Any]], rows: str) -> Floats:
    """Return the mean over splits of the loss by round, as far as all splits went."""
    last = min(len(cell["rounds"][rows]) for cell in found)
    mean: Floats = np.mean([cell["rounds"][rows][:last] for cell in found], axis=0)
    return mean


def rows_of(seed: int) -> tuple[Any, Any, NDArray[Any], NDArray[Any]]:
    """Return training and test rows and labels of a random split."""
    X, y = load_credit_default(return_X_y=True, as_frame=False)
    X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=N_TRAIN, random_state=seed)
    return X_train, X_test, y_train, y_test


def _cell(rows: Any, make: Callable[..., Any], seed: int) -> dict[str, Any]:
    X_train, X_test, y_train, y_test = rows
    classifier = make(random_state=seed).fit(X_train, y_train)
    losses = exponential_losses(classifier, X_test, y_test)
    values: dict[str, Any] = {
        "train": measure(classifier, X_train, y_train),
        "test": measure(classifier, X_test, y_test),
        "curve": [worst_case_weights(losses, radius=r).value for r in CURVE],
    }
    if isinstance(classifier, DROBoostClassifier):
        values["radius"] = classifier.radius_
    if hasattr(classifier, "staged_decision_function"):
        values["rounds"] = {
            "train": by_rounds(classifier, X_train, y_train),
            "test": by_rounds(classifier, X_test, y_test),
        }
    return values


def _profile(rows: Any, make: Callable[..., Any]) -> dict[str, Any]:
    """Return the classes and features with the largest shift in the worst case of a fit."""
    X_train, _, y_train, _ = rows
    bunch = load_credit_default(as_frame=False)
    classifier = make(random_state=0).fit(X_train, y_train)
    shifts = worst_case_profile(
        classifier.worst_case_weights_,
        X_train,
        bunch.target_names[y_train],
        feature_names=bunch.feature_names,
    )
    shown = [s for s in shifts if s.kind == "class"] + [s for s in shifts if s.kind == "feature"][:8]
    heaviest = np.sort(classifier.worst_case_weights_)[::-1]
    return {
        "radius": classifier.radius_,
        "heaviest row": float(heaviest[0]),
        "heaviest tenth": float(heaviest[: N_TRAIN // 10].sum()),
        "shifts": [[s.kind, s.name, s.base, s.worst, s.shift] for s in shown],
    }


def play(settings: Settings, name: str) -> Report:
    """Compute missing cells and read all cells."""
    cells = Cells(settings, name)
    makers = methods(settings.n_jobs)
    results: dict[str, list[dict[str, Any]]] = {method: [] for method in makers}
    for seed in range(settings.repeats):
        rows = rows_of(seed)
        for method, make in makers.items():
            found = cells.get({"split": seed, "method": method}, partial(_cell, rows, make, seed))
            results[method].append(found)
    adaptive = partial(_profile, rows_of(0), makers["DRO, δ from the data"])
    profile = cells.get({"split": 0, "profile": "DRO, δ from the data"}, adaptive)
    less = {
        method: [
            {k: c["test"][k] - a["test"][k] for k in COLUMNS}
            for c, a in zip(found, results["AdaBoost"], strict=True)
        ]
        for method, found in results.items()
        if method != "AdaBoost"
    }
    settled = ("train", "test", "radius")
    summary = {
        "settings": {"n_train": N_TRAIN, "rounds": N_ROUNDS, "repeats": settings.repeats, "alpha": ALPHA},
        "methods": {m: summarise([{k: c.get(k) for k in settled} for c in of]) for m, of in results.items()},
        "less AdaBoost": {method: summarise(of) for method, of in less.items()},
        "worst case": profile,
        "worst-case exponential loss": {"radii": CURVE}
        | {method: np.mean([c["curve"] for c in found], axis=0) for method, found in results.items()},
        "exponential loss by round": {
            method: {rows: mean_by_round(found, rows) for rows in ("train", "test")}
            for method, found in results.items()
            if "rounds" in found[0]
        },
    }
    return Report(_text(settings, results, less, profile), summary, partial(_picture, results))


def _text(
    settings: Settings,
    results: dict[str, list[dict[str, Any]]],
    less: dict[str, list[dict[str, float]]],
    profile: dict[str, Any],
) -> str:
    parts = [
        f"Credit default clients: {N_TRAIN:,} to train on, {settings.repeats} random splits, 95 % intervals."
    ]
    for rows in ("test", "train"):
        body = [
            [name, *(plus_minus([cell[rows][c] for cell in cells]) for c in COLUMNS)]
            for name, cells in results.items()
        ]
        parts.append(f"## {rows} rows\n\n" + markdown(["", *COLUMNS.values()], body))
    body = [
        [name, *(plus_minus([cell[k] for cell in cells]) for k in COLUMNS)] for name, cells in less.items()
    ]
    parts.append(
        "## test rows: difference to AdaBoost, split by split\n\n" + markdown(["", *COLUMNS.values()], body)
    )
    body = [
        [kind, name, f"{base:.3g}", f"{worst:.3g}", f"{shift:+.2f}"]
        for kind, name, base, worst, shift in profile["shifts"]
    ]
    parts.append(
        f"## who carries the worst case (split 0, δ = {profile['radius']:.4f})\n\n"
        f"The heaviest row has {profile['heaviest row']:.2%} of the weight, the heaviest tenth of the rows "
        f"{profile['heaviest tenth']:.1%}.\n\n"
        + markdown(["", "", "share or mean", "in the worst case", "shift in standard deviations"], body)
    )
    return "\n\n".join(parts)


def _picture(results: dict[str, list[dict[str, Any]]], plt: Any) -> Any:
    from matplotlib.ticker import LogLocator

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.8), layout="constrained")
    shown = [f"DRO, δ = {r:g}" for r in RADII]
    for k, name in enumerate(shown):
        for rows, line in (("test", "-"), ("train", ":")):
            curve = mean_by_round(results[name], rows)
            label = {"test": name, "train": None}[rows]
            left.plot(1 + np.arange(len(curve)), curve, line, color=f"C{k}", label=label)
    left.plot([], [], ":", color="grey", label="training rows")
    left.set(xlabel="round", ylabel="exponential loss", title="Mean loss on test rows and training rows")
    for ax in (left, right):
        ax.set_yscale("log", subs=[])
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter("{x:g}")
    left.legend()
    shrunk = ("AdaBoost, shrinkage 0.1", "DRO, δ from the data, shrinkage 0.1")
    for name in ("AdaBoost", *shown[1:], *shrunk, "XGBoost"):
        values = np.mean([cell["curve"] for cell in results[name]], axis=0)
        right.plot(CURVE, values, label=name)
    right.set_xscale("function", functions=(np.sqrt, np.square))
    right.set(xlabel="radius of the KL ball", ylabel="worst-case exponential loss")
    right.legend()
    right.set_ylim(top=8 * right.get_ylim()[1])  # room for the legend
    right.set_title("Worst case over a KL ball around the test rows")
    return figure


EXPERIMENTS = (
    Experiment(
        "credit-default",
        "AdaBoost and DRO boosting on credit default clients (Blanchet et al. 2019)",
        play,
        repeats=20,
        needs_data=False,
    ),
)
