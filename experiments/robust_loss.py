"""Robust loss and ball together, left open by Blanchet et al. 2019: compared once, on credit default clients.

A ball around the data guards against a shift of the rows; a loss that grows linearly guards against wrong
labels; the ball increases the weights of their rows. Each of three losses, without and with the ball, as
given and with a fifth of the training labels flipped; test labels are unchanged. Otherwise as in
``credit_default``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments._experiment import Experiment, Report, Settings, markdown, of_each, plus_minus
from experiments.credit_default import measure, rows_of
from tailboost.app.report.results import summarise
from tailboost.classifiers import DROBoostClassifier

LOSSES, RADII, ROUNDS = ("exponential", "logistic", "smoothed_hinge"), (0.0, 0.05), 50
FLIPPED = {"labels as given": 0.0, "a fifth flipped": 0.2}
COLUMNS = {"accuracy": "accuracy", "tpr": "true positive rate", "rescaled": "exponential loss, best scale"}


def name_of(loss: str, radius: float) -> str:
    """Return a method's name in the table."""
    return f"{loss}, δ = {radius:g}"


def _cell(flipped: float, seed: int) -> dict[str, Any]:
    """Return the figures on test rows, by loss and radius."""
    X, X_test, y, y_test = rows_of(seed)
    wrong = np.random.default_rng(seed).random(len(y)) < flipped
    y = np.where(wrong, 1 - y, y)
    found = {}
    for loss in LOSSES:
        for radius in RADII:
            clf = DROBoostClassifier(loss=loss, radius=radius, n_estimators=ROUNDS, random_state=seed)
            found[name_of(loss, radius)] = measure(clf.fit(X, y), X_test, y_test)
    return found


def play(settings: Settings, name: str) -> Report:
    """Compute missing cells and read all cells."""
    found = of_each(FLIPPED, settings, name, _cell, keys=("labels", "repeat"))
    summary = {
        "source": "Blanchet et al., A Distributionally Robust Boosting Algorithm, 2019: named there as open",
        "settings": {"repeats": settings.repeats, "rounds": ROUNDS, "flipped": FLIPPED},
        "test": {labels: summarise(cells) for labels, cells in found.items()},
    }
    return Report(_text(settings, found), summary)


def _text(settings: Settings, found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    body = [
        [labels, name, *(plus_minus([cell[name][column] for cell in cells]) for column in COLUMNS)]
        for labels, cells in found.items()
        for name in cells[0]
    ]
    return f"Test rows; {settings.repeats} splits, 95 % intervals over them; {ROUNDS} rounds.\n\n" + markdown(
        ["training labels", "loss, radius", *COLUMNS.values()], body
    )


EXPERIMENTS = (
    Experiment(
        "robust-loss",
        "Robust loss and ball together on credit default clients (after Blanchet et al. 2019)",
        play,
        repeats=10,
        needs_data=False,
    ),
)
