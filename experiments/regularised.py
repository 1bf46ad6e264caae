"""Zhai et al. 2021, Figure 3: AdaLPBoost and regularised LPBoost, which has a convergence rate.

The figure shows the test CVaR of both on CIFAR-10, nearly the same at every α; no numbers are printed.
AdaLPBoost is fitted once and re-weighted for each α; regularised LPBoost is fitted for each α. As published:
30 rounds, β = 100, η = 1, no constants.

On tables a stratified random half, at most 2,000 rows, is for training and the rest for the test. The learner
is a tree of depth 5, and λ is selected on a held-out fifth of the rows. CIFAR-10 has 16×16 pixels, 1,500 rows
of a class, of which a tenth selects λ, and all test rows. The learner is a small net: six epochs, then 100
steps a round.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments._experiment import (
    Experiment,
    Report,
    Settings,
    markdown,
    mean_and_half_width,
    of_each,
    plus_minus,
)
from experiments._tables import Data, load_common_classes, split
from experiments.images import TASKS, image_learner, prepare
from tailboost.app.report.results import interval
from tailboost.classifiers import AdaLPBoostClassifier, AverageBoostClassifier, RegularizedLPBoostClassifier
from tailboost.learners import HistTreeClassifier
from tailboost.rates.metrics import cvar, expected_zero_one_losses

TABLES = ("COMPAS", "credit default", "yeast", "wine, 7 classes")
IMAGES = "CIFAR-10, 16×16 pixels"
ALPHAS = (0.1, 0.3, 0.5, 0.7)
ROUNDS, BETA, DEPTH = 30, 100.0, 5
MAX_TRAIN, MAX_TEST, TEST_SIZE, HELD_OUT = 2_000, 4_000, 0.5, 0.2
# Values read from Figure 3, which prints no numbers.
PUBLISHED = "CIFAR-10: the curves of the two are nearly the same at every α"
ADA, REGULARISED, AVERAGE, ERM = "AdaLPBoost", "regularised LPBoost", "AdaBoost + average", "ERM"
METHODS = (ADA, REGULARISED, AVERAGE, ERM)


def _cell(data: Data, seed: int) -> dict[str, Any]:
    """Compare the games on one split of a table."""
    rows = split(data, seed, TEST_SIZE, MAX_TRAIN, MAX_TEST)
    tree = HistTreeClassifier(max_depth=DEPTH)
    return _compared(tree, seed, (rows.train.X, rows.train.y), (rows.test.X, rows.test.y), {"cv": HELD_OUT})


def _image_cell(folder: Path, seed: int) -> dict[str, Any]:
    """Compare the games on one draw of the images."""
    protocol = replace(TASKS[IMAGES].small, rounds=ROUNDS, largest=1_500, tested=None)
    data = prepare(TASKS[IMAGES], protocol, folder, seed, game=True)
    net = image_learner(protocol, protocol.game_net, data, protocol.game)
    judged = {"X_val": data.judged[0], "y_val": data.judged[1]}
    return _compared(net, seed, data.fit, data.test, {}, **judged)


def _compared(
    learner: Any, seed: int, train: Any, test: Any, selection: Mapping[str, Any], **judged: Any
) -> dict[str, Any]:
    """Fit the games; return the test CVaR at each α by method, and the seconds of two."""
    common: dict[str, Any] = {"estimator": learner, "n_estimators": ROUNDS, "random_state": seed}
    mixed = common | {**selection, "include_constants": False, "n_iter_no_change": None}

    def tail(clf: Any, alpha: float) -> float:
        X, y = test
        return cvar(expected_zero_one_losses(y, clf.predict_distribution(X), labels=clf.classes_), alpha)

    began = time.process_time()
    ada = AdaLPBoostClassifier(**mixed).fit(*train, **judged)
    middle = time.process_time()
    regularised = [
        RegularizedLPBoostClassifier(alpha=a, beta=BETA, **mixed).fit(*train, **judged) for a in ALPHAS
    ]
    seconds = {ADA: middle - began, REGULARISED: time.process_time() - middle}
    average = AverageBoostClassifier(**common).fit(*train)
    erm = AverageBoostClassifier(**common | {"n_estimators": 1}).fit(*train)
    return {
        ADA: [tail(ada.reweight(alpha=a), a) for a in ALPHAS],
        REGULARISED: [tail(clf, a) for clf, a in zip(regularised, ALPHAS, strict=True)],
        AVERAGE: [tail(average, a) for a in ALPHAS],
        ERM: [tail(erm, a) for a in ALPHAS],
        "seconds": seconds,
    }


def play(settings: Settings, name: str) -> Report:
    """Compute missing cells of the tables and read all cells."""
    data = load_common_classes(settings.folder, TABLES)
    return _report(settings, of_each(data, settings, name, _cell), {"depth": DEPTH})


def play_images(settings: Settings, name: str) -> Report:
    """Compute missing cells of the images and read all cells."""
    return _report(settings, of_each({IMAGES: settings.folder}, settings, name, _image_cell), {})


def _report(
    settings: Settings, found: Mapping[str, Sequence[Mapping[str, Any]]], more: Mapping[str, Any]
) -> Report:
    gaps = {table: np.array([np.subtract(c[REGULARISED], c[ADA]) for c in of]) for table, of in found.items()}
    summary = {
        "source": "Zhai et al., Boosted CVaR Classification, NeurIPS 2021, Figure 3",
        "published": PUBLISHED,
        "settings": {
            "repeats": settings.repeats,
            "alphas": ALPHAS,
            "rounds": ROUNDS,
            "beta": BETA,
            **more,
        },
        "regularised − AdaLPBoost": {
            table: [interval(column) for column in gap.T.tolist()] for table, gap in gaps.items()
        },
        "mean CVaR": {
            table: {method: np.mean([c[method] for c in of], axis=0) for method in METHODS}
            for table, of in found.items()
        },
    }
    return Report(_text(settings, found, gaps), summary, partial(_picture, gaps))


def _text(
    settings: Settings, found: Mapping[str, Sequence[Mapping[str, Any]]], gaps: Mapping[str, Any]
) -> str:
    header = ["data", "method", *(f"α = {alpha:g}" for alpha in ALPHAS), "seconds"]
    body = []
    for table, cells in found.items():
        for method in METHODS:
            values = [plus_minus(column) for column in zip(*(c[method] for c in cells), strict=True)]
            seconds = [c["seconds"][method] for c in cells if method in c["seconds"]]
            body.append([table, method, *values, f"{np.mean(seconds):.1f}" if seconds else ""])
        body.append(
            [table, "regularised − AdaLPBoost", *(plus_minus(column) for column in gaps[table].T), ""]
        )
    means = np.array([gap.mean(axis=0) for gap in gaps.values()])
    apart = sum(
        abs(mean) > half
        for gap in gaps.values()
        for mean, half in (mean_and_half_width(column) for column in gap.T)
    )
    return "\n\n".join(
        [
            f"Test α-CVaR of the zero-one loss; {settings.repeats} splits, 95 % intervals over them. "
            f"Published: {PUBLISHED}.",
            markdown(header, body),
            f"Over {means.size} pairs of set and α regularised LPBoost's CVaR is {means.mean():+.4f} above "
            f"AdaLPBoost's on average, from {means.min():+.3f} to {means.max():+.3f}; the interval leaves "
            f"out 0 on {apart} of {means.size}.",
        ]
    )


def _picture(gaps: Mapping[str, Any], plt: Any) -> Any:
    """Draw the difference of the two on each set, with the line at which the figure's curves lie."""
    figure, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
    ax.axhline(0, color="0.5", linewidth=1, label="published (CIFAR-10): no visible difference")
    for k, (table, gap) in enumerate(gaps.items()):
        mean, half = np.array([mean_and_half_width(column) for column in gap.T]).T
        at = np.array(ALPHAS) + 0.012 * (k - 1.5)
        ax.errorbar(at, mean, yerr=np.nan_to_num(half), fmt="o", color=f"C{k}", capsize=3, label=table)
    ax.set(xlabel="α", ylabel="test CVaR: regularised − AdaLPBoost", xticks=ALPHAS)
    figure.legend(loc="outside right upper", frameon=False, fontsize="small")
    return figure


EXPERIMENTS = (
    Experiment("regularised", "AdaLPBoost against regularised LPBoost on four tables", play, repeats=5),
    Experiment(
        "regularised-images",
        f"AdaLPBoost against regularised LPBoost on {IMAGES}",
        play_images,
        repeats=3,
    ),
)
