"""Answers of a model to its probe rows, which a loaded model must give again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailboost.core.array_types import Model, Table
from tailboost.core.checks import n_rows_of
from tailboost.rows.judged import judged, label_shares, last_step, predicted_labels
from tailboost.rows.probes import ProbeFrame, ProbeMatrix

SAME_PROBABILITY = 1e-6  # largest difference of equal probabilities


@dataclass
class Answers:
    """Predictions of a model for its probe rows."""

    labels: list[int]  # predicted labels as positions in ``classes_``
    # Result of ``predict_distribution``, else of ``predict_proba``; None if the model has neither.
    probabilities: list[list[float]] | None

    def same_as(self, other: Answers) -> bool:
        """Return whether all labels are equal, and all probabilities agree to 1e-6.

        Answers without probabilities agree only with answers without probabilities.
        """
        if self.labels != other.labels:
            return False
        if self.probabilities is None or other.probabilities is None:
            return self.probabilities is other.probabilities
        P = np.asarray(self.probabilities)
        Q = np.asarray(other.probabilities)
        return P.shape == Q.shape and bool((abs(P - Q) <= SAME_PROBABILITY).all())

    def differing(self, other: Answers) -> int:
        """Return the number of rows with different labels."""
        return sum(a != b for a, b in zip(self.labels, other.labels, strict=False))


def answers(model: Model, rows: Table) -> Answers:
    """Return the predictions of a model, or of the last step of a pipeline, for probe rows."""
    classifier = last_step(model)
    if isinstance(rows, ProbeFrame):
        rows = rows.frame()
    elif isinstance(rows, ProbeMatrix):
        rows = rows.matrix()
    number = {label: k for k, label in enumerate(classifier.classes_.tolist())}
    arguments = {}
    view = judged(classifier)
    if view.by_group:  # probe rows have no groups, and take those of the rule in turn
        arguments = {"groups": view.example_groups(n_rows_of(rows))}
    labels = [
        number[label] for label in predicted_labels(classifier, rows, **arguments).tolist()
    ]
    probabilities = None
    if any(hasattr(classifier, name) for name in ("predict_proba", "predict_distribution")):
        probabilities = label_shares(classifier, rows, **arguments).tolist()
    return Answers(labels, probabilities)
