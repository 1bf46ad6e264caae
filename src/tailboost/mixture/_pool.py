"""The sources of probabilities of a mixture: its models and averages of them."""

from __future__ import annotations

from itertools import combinations

from tailboost.mixture._tables import Source

# Models up to which averages of pairs join that of all.
PAIRS_UP_TO = 3


def sources(n_models: int, averages: bool) -> list[Source]:
    """Return each model, then the averages: of all, and of pairs where models are few."""
    each: list[Source] = [(i,) for i in range(n_models)]
    if not averages or n_models < 2:
        return each
    pairs = list(combinations(range(n_models), 2)) if 2 < n_models <= PAIRS_UP_TO else []
    return [*each, tuple(range(n_models)), *pairs]
