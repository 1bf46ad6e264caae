"""Goals, and the rates of answers: one function for all methods.

An answer is, for every row, the probability of the label 1: 0 or 1 for a rule, between them for a
randomised rule. Results of randomised rules are expectations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.field._scores import Scored

Floats = NDArray[np.float64]

# Cells with fewer test rows say little.
LARGE = 500


@dataclass(frozen=True)
class Goal:
    """Goal for two classes and one group column.

    Parameters
    ----------
    kind : {"odds", "parity", "ratio", "cell"}
        Smallest error with gaps of true and false positive rates of at most ``level``; with a gap of
        selection rates; with a ratio of selection rates of at least ``level``; the smallest largest error
        of a (class, group) cell with an overall error of at most ``level`` above the score's.
    level : float
    """

    kind: str
    level: float

    @property
    def title(self) -> str:
        """Its name in tables."""
        words = {
            "odds": "equalised odds",
            "parity": "parity",
            "ratio": "ratio at least",
            "cell": "worst cell",
        }
        return f"{words[self.kind]} {self.level:g}"


@dataclass(frozen=True)
class Case:
    """One score, and one column of groups."""

    scored: Scored
    column: str
    seed: int
    kept: dict[Any, Any] = field(default_factory=dict)  # shared by the methods of one case

    @property
    def groups(self) -> NDArray[Any]:
        """Group numbers of the rows to choose on."""
        return np.unique(self.scored.train.groups[self.column], return_inverse=True)[1]

    @property
    def test_groups(self) -> NDArray[Any]:
        """Group numbers of the test rows; every group has rows to choose on."""
        names = np.unique(self.scored.train.groups[self.column])
        return np.searchsorted(names, self.scored.test.groups[self.column])


def reached(q: Floats, y: NDArray[Any], groups: NDArray[Any]) -> dict[str, float]:
    """Return the rates of answers 1 with probability q.

    Parameters
    ----------
    q : ndarray of shape (n,), in [0, 1]
    y : ndarray of {0, 1} of shape (n,)
    groups : ndarray of int of shape (n,)

    Returns
    -------
    dict
        "error"; "gap", the larger of the spreads of true and of false positives; "spread" and "ratio" of the
        shares answered 1; "recalls", the least rate of true positives by the largest; "cell", the largest
        error of a (class, group) cell, and "large cell" of those of 500 rows and more.
    """
    wrong = np.where(y == 1, 1 - q, q)
    n_groups = int(groups.max()) + 1
    cell = y * n_groups + groups
    counts = np.bincount(cell, minlength=2 * n_groups)
    with np.errstate(invalid="ignore"):
        errors = np.bincount(cell, wrong, 2 * n_groups) / counts
    there, approved = np.bincount(groups, minlength=n_groups), np.bincount(groups, q, n_groups)
    shares = approved[there > 0] / there[there > 0]
    negative, positive = errors[:n_groups], 1 - errors[n_groups:]
    known = positive[np.isfinite(positive)]
    large = errors[counts >= LARGE]
    return {
        "error": float(wrong.mean()),
        "gap": float(max(np.nanmax(x) - np.nanmin(x) for x in (negative, positive))),
        "spread": float(np.ptp(shares)),
        "ratio": float(shares.min() / shares.max()) if shares.max() > 0 else 1.0,
        "recalls": float(known.min() / known.max()) if known.max() > 0 else 1.0,
        "cell": float(np.nanmax(errors)),
        "large cell": float(large.max()) if large.size else float("nan"),
    }
