"""What joins the pool of a mixture: the sources of probabilities, and kinds of members."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from tailboost.mixture._tables import Source

# Models up to which averages of pairs join that of all.
PAIRS_UP_TO = 3


@dataclass(frozen=True)
class Kinds:
    """Which members join the pool beside the models' own answers.

    Parameters
    ----------
    n_thresholds : int ≥ 0
        Shifts of each source.
    shrinkage : float ≥ 0
        Pseudo-rows by which the player doubts an error measured on few rows.
    constants : bool
        Whether the constants join.
    """

    n_thresholds: int
    shrinkage: float
    constants: bool


def sources(n_models: int, averages: bool) -> list[Source]:
    """Return each model, then the averages: of all, and of pairs where models are few."""
    each: list[Source] = [(i,) for i in range(n_models)]
    if not averages or n_models < 2:
        return each
    pairs = list(combinations(range(n_models), 2)) if 2 < n_models <= PAIRS_UP_TO else []
    return [*each, tuple(range(n_models)), *pairs]
