"""The trade-off of any two rates: what a limit on one costs in the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailboost.mixture._rated import InfeasibleLimitsError
from tailboost.rates import Largest, Limit, Objective


@dataclass(frozen=True)
class RatePoint:
    """One point of a trade-off, on the rows of the choice.

    Parameters
    ----------
    limit : Limit
        The limit on the one rate.
    limited : float
        What that rate is.
    value : float
        What the other is, made small within the limit.
    """

    limit: Limit
    limited: float
    value: float


@dataclass(frozen=True, eq=False)
class RateCurve:
    """What limits on one rate cost in another.

    Parameters
    ----------
    points : tuple of RatePoint
        From the loosest limit to the tightest.
    limited, objective : Objective
        The two.
    classifier : RobustMixtureClassifier
        Whose choice it is.
    """

    points: tuple[RatePoint, ...]
    limited: Objective
    objective: Objective
    classifier: Any

    def __iter__(self) -> Iterator[RatePoint]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def at(self, level: float) -> Any:
        """Return the classifier that makes the objective small where the other rate is at most ``level``.

        Parameters
        ----------
        level : float
            The limit.

        Returns
        -------
        RobustMixtureClassifier

        Raises
        ------
        InfeasibleLimitsError
            If no mixture keeps it.
        """
        kept = self.classifier._stated
        limits = () if kept is None else kept.limits
        return _chosen(self.classifier, self.objective, (*limits, self.limited.rate <= level))

    def __str__(self) -> str:
        head = f"{self.limited} | {self.objective}"
        return "\n".join([head, *(f"{point.limited:.4f} | {point.value:.4f}" for point in self.points)])


def _chosen(classifier: Any, objective: Objective, limits: tuple[Limit, ...]) -> Any:
    given = Largest(objective.rate) if objective.worst else objective.rate
    return classifier.reweight(objective=given, limits=list(limits))


def curve(classifier: Any, limited: Any, objective: Any, n_points: int) -> RateCurve:
    """Return the trade-off of two rates.

    Parameters
    ----------
    classifier : RobustMixtureClassifier
        A fitted one.
    limited, objective : Rate or Largest
        What is limited, and what is made small within the limits.
    n_points : int
        Limits, evenly spread between what the objective alone leads to and the least there is.
    """
    one, other = Objective.of(limited), Objective.of(objective)
    kept = classifier._stated
    limits: tuple[Limit, ...] = () if kept is None else kept.limits

    def reached(mix: Any) -> tuple[float, float]:
        strata, tally = mix._outcome.program.strata, mix._outcome.tally
        found = [o.value(o.rate.terms(strata).values(tally)) for o in (one, other)]
        return found[0], found[1]

    # Each is made small where the other is free; a limit that every rule keeps names it all the same.
    loosest = reached(_chosen(classifier, other, (*limits, one.rate <= one.most)))
    tightest = reached(_chosen(classifier, one, (*limits, other.rate <= other.most)))
    points = []
    for level in np.linspace(loosest[0], tightest[0], n_points):
        limit = one.rate <= float(level) + 1e-9
        try:
            points.append(RatePoint(limit, *reached(_chosen(classifier, other, (*limits, limit)))))
        except InfeasibleLimitsError:
            continue
    return RateCurve(tuple(points), one, other, classifier)
