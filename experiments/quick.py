"""One number of each of the four papers, beside the printed one, in a minute and without other files.

Each is a part of an experiment with a name of its own, which has the paper's table and more repeats.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments import credit_default, variance, worst_class_artificial
from experiments._experiment import Cells, Experiment, Report, Settings, markdown, plus_minus
from tailboost import published
from tailboost.classifiers import AdaBoostClassifier
from tailboost.exceptions import BoundNotMetWarning
from tailboost.learners import StumpClassifier
from tailboost.metrics import cvar
from tailboost.solvers import minimize_cvar_mixture

ALPHA = 0.1


@dataclass(frozen=True)
class Number:
    """A printed number and how it is computed from a seed.

    Attributes
    ----------
    paper, what : str
        The paper, and what is measured.
    printed : float
        The number of the paper.
    compute : callable
        ``compute(seed) -> float``.
    whole : str
        The experiment with the whole table; empty if there is no more.
    digits : int
        Digits after the point.
    most_seeds : int
        Seeds that fit into a minute.
    """

    paper: str
    what: str
    printed: float
    compute: Callable[[int], float]
    whole: str
    digits: int
    most_seeds: int = 100


def five_models(seed: int) -> float:
    """Return the least CVaR of mixtures of five models that err on different tenths of the rows."""
    rows = np.random.default_rng(seed).permutation(50)
    losses = np.zeros((5, 50))
    for number, wrong in enumerate(np.split(rows[:25], 5)):
        losses[number, wrong] = 1.0
    return float(cvar(minimize_cvar_mixture(losses, ALPHA).mixture @ losses, ALPHA))


def boosted_squares(seed: int) -> float:
    """Return the worst-class error in percent of worst-class boosting on overlapping squares."""
    scale, case = worst_class_artificial.SCALES["small"], worst_class_artificial.CASES[0]
    rows = worst_class_artificial.Rows.draw(case, seed, scale)
    family = worst_class_artificial.perceptrons(scale)
    methods = dict(worst_class_artificial.trainers(case, family, scale, seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundNotMetWarning)  # the published number of rounds is played
        found = methods[worst_class_artificial.BOOSTING](rows, draw=False)
    return 100.0 * float(max(found["rules"][""]["test"]))


def adaboost_on_twonorm(seed: int) -> float:
    """Return the test error in percent of AdaBoost with stumps on Breiman's twonorm."""
    data = variance.TASKS["twonorm"].load(Path())
    split = variance.halves(data, seed)
    outcome, _ = variance.boosted(split, AdaBoostClassifier, tol=0.0, estimator=StumpClassifier())
    return 100.0 * float(outcome["test"])


def radius_for_clients(seed: int) -> float:
    """Return the radius that the theory gives for 30 parameters, on credit default clients."""
    X, _, y, _ = credit_default.rows_of(seed)
    classifier = published.dro_boost("tree", d=30, T=1, random_state=seed).fit(X, y)
    return float(classifier.radius_)


NUMBERS = (
    Number(
        "Zhai et al. 2021",
        "CVaR at α = .1 of five models, each 90 % right, in the best mixture (section 2)",
        0.2,
        five_models,
        "",
        3,
    ),
    Number(
        "Saito et al. 2024",
        "worst-class error in % of worst-class boosting on squares (Table I); a smaller perceptron, one seed",
        worst_class_artificial.CASES[0].published[worst_class_artificial.BOOSTING][0],
        boosted_squares,
        "worst-class-artificial",
        1,
        1,
    ),
    Number(
        "Shivaswamy and Jebara 2011",
        "test error in % of AdaBoost with stumps on twonorm (Table 1)",
        variance.PUBLISHED_STUMPS["twonorm"][0],
        adaboost_on_twonorm,
        "variance-stumps-fine",
        2,
    ),
    Number(
        "Blanchet et al. 2019",
        "radius of the ball for 3,000 credit default clients (section 5)",
        credit_default.PAPER_RADIUS,
        radius_for_clients,
        "credit-default",
        4,
    ),
)


def play(settings: Settings, name: str) -> Report:
    """Compute missing numbers and read all."""
    seeds = {number.paper: range(min(settings.repeats, number.most_seeds)) for number in NUMBERS}
    cells = Cells(settings, name, sum(map(len, seeds.values())))
    rows, summary = [], []
    for number in NUMBERS:
        values = [
            cells.get({"paper": number.paper, "seed": seed}, partial(_cell, number, seed))["value"]
            for seed in seeds[number.paper]
        ]
        printed = f"{number.printed:.{number.digits}f}"
        rows.append(
            [number.paper, number.what, printed, plus_minus(values, number.digits), number.whole or "–"]
        )
        summary.append(
            {
                "paper": number.paper,
                "what": number.what,
                "printed": number.printed,
                "ours": float(np.mean(values)),
                "repeats": len(values),
            }
        )
    heads = ("paper", "number", "printed", "ours", "whole table")
    text = f"{settings.repeats} seeds where it is quick, with 95 % intervals.\n\n{markdown(heads, rows)}"
    return Report(text, {"numbers": summary})


def _cell(number: Number, seed: int) -> dict[str, Any]:
    return {"value": number.compute(seed)}


EXPERIMENTS = (
    Experiment("quick", "One number of each paper, in a minute", play, repeats=5, needs_data=False),
)
