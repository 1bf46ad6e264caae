"""The trade-off of any two rates: what a limit on one costs in the other."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailboost._typing import Floats
from tailboost.classifiers.tradeoff import LookedAt
from tailboost.mixture._rated import InfeasibleLimitsError
from tailboost.rates import Largest, Limit, Objective, Spread, deferred, measure
from tailboost.solvers.tradeoff import undominated

# More than the rounding error of a tally.
SLACK = 1e-9


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
    classifier : RobustMixtureClassifier
        Who reaches that.
    """

    limit: Limit
    limited: float
    value: float
    classifier: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, eq=False)
class RateCurve:
    """What limits on one rate cost in another.

    Parameters
    ----------
    points : tuple of RatePoint
        From the loosest limit to the tightest.
    limited : Objective or Spread
        What is limited.
    objective : Objective
        What is made small.
    classifier : RobustMixtureClassifier
        Whose choice it is.
    looked_at : LookedAt
        The rows given to `predicted`, of this curve and of others of the same call.
    """

    points: tuple[RatePoint, ...]
    limited: Objective | Spread
    objective: Objective
    classifier: Any
    looked_at: LookedAt = field(default_factory=LookedAt, repr=False)

    def __post_init__(self) -> None:
        self.looked_at.points.extend(point.classifier for point in self.points)

    def __iter__(self) -> Iterator[RatePoint]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def at(self, level: float) -> Any:
        """Return the classifier that makes the objective small where the other rate is within ``level``.

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

        Notes
        -----
        The classifier records the rows given to `predicted` before (``chosen_rows_``), as do the points of
        the curve. `tailboost.certify` refuses these rows.
        """
        limits = _others(self.classifier, self.limited)
        kept = (p.classifier for p in self.points if self.limited.within(level).keeps(p.limited, level))
        point = _chosen(next(kept, self.classifier), self.objective, (*limits, self.limited.within(level)))
        return self.looked_at.told_to(point)

    def predicted(
        self, X: Any, y: Any, *, groups: Any = None, sample_weight: Any = None
    ) -> tuple[Floats, Floats]:
        """Return both rates of `predict` along the curve on other rows, by counting.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows that nothing was chosen on; of a classifier `from_probabilities`, the models' probabilities.
        y : array-like of shape (n,)
            Their labels.
        groups : array-like of shape (n,), dict or data frame, optional
            Their groups, where rates are about groups.
        sample_weight : array-like of shape (n,), optional
            Weights.

        Returns
        -------
        limited, value : ndarray of shape (m,)
            One number for each point. Rows that a point passes on are counted as such.
        """
        found = [self._predicted(p.classifier, X, y, groups, sample_weight) for p in self.points]
        if not isinstance(X, Mapping):  # probabilities do not say whose they are
            self.looked_at.add(self.classifier._checked(X))
        limited, value = np.array(found).reshape(-1, 2).T
        return limited, value

    def _predicted(self, mix: Any, X: Any, y: Any, groups: Any, sample_weight: Any) -> list[float]:
        given = isinstance(X, Mapping)
        told = {"groups": groups} if mix.by_group else {}
        answers = (mix.predict_from if given else mix.predict)(X, **told)
        passed = None
        if mix.can_defer:
            passed = (mix.defers_from if given else mix.defers)(X, **told)
        more = {"groups": groups, "deferred": passed, "sample_weight": sample_weight}
        both = (self.limited, self.objective)
        each = [measure(o.rate, y, answers, labels=mix.classes_, **more).values() for o in both]
        return [o.value(np.array([*values])) for o, values in zip(both, each, strict=True)]

    def __str__(self) -> str:
        head = f"{self.limited} | {self.objective}"
        return "\n".join([head, *(f"{point.limited:.4f} | {point.value:.4f}" for point in self.points)])


def _others(classifier: Any, limited: Objective | Spread) -> tuple[Limit, ...]:
    """Return the limits of a classifier but for those on what the curve limits."""
    kept = classifier._stated
    own = limited.within(limited.most)
    limits = () if kept is None else kept.limits
    return tuple(limit for limit in limits if (limit.form, limit.rate) != (own.form, own.rate))


def _chosen(classifier: Any, objective: Objective, limits: tuple[Limit, ...]) -> Any:
    given = Largest(objective.rate) if objective.worst else objective.rate
    return classifier.reweight(objective=given, limits=list(limits))


def curve(
    classifier: Any, limited: Any, objective: Any, n_points: int, looked_at: LookedAt | None = None
) -> RateCurve:
    """Return the trade-off of two rates.

    Parameters
    ----------
    classifier : RobustMixtureClassifier
        A fitted one.
    limited : Rate, Largest or Spread
        What is limited.
    objective : Rate or Largest
        What is made small within the limits.
    n_points : int
        Limits, evenly spread between what the objective alone leads to and the least there is.
    looked_at : LookedAt, optional
        Shared with other curves from which a point may be picked.
    """
    one: Any = limited if getattr(limited, "compares", False) else Objective.of(limited)
    other = Objective.of(objective)
    limits = _others(classifier, one)

    def reached(mix: Any) -> tuple[float, float]:
        return mix._choice.value(one), mix._choice.value(other)

    with warnings.catch_warnings():
        # Each point would say of its own limit what all of them have in common.
        warnings.simplefilter("ignore", UserWarning)
        # Each is made small where the other is free; a limit that every rule keeps names it all the same.
        # A choice begins with the members of the one before, so that all are as good as those they had.
        mix = _chosen(classifier, other, (*limits, one.within(one.most)))
        loosest = reached(mix)[0]
        if one.compares:
            tightest = one.least
        else:
            mix = _chosen(mix, one, (*limits, other.within(other.most)))
            tightest = reached(mix)[0]
        points = []
        for level in np.linspace(loosest, tightest, n_points):
            eased = min(level + SLACK, one.most) if tightest <= loosest else max(level - SLACK, one.most)
            limit = one.within(float(eased))
            try:
                mix = _chosen(mix, other, (*limits, limit))
                points.append(RatePoint(limit, *reached(mix), mix))
            except InfeasibleLimitsError:
                continue
    sign = 1.0 if tightest <= loosest else -1.0
    best = undominated(np.array([p.value for p in points]), sign * np.array([p.limited for p in points]))
    return RateCurve(tuple(points[i] for i in best[::-1]), one, other, classifier, looked_at or LookedAt())


@dataclass(frozen=True, eq=False)
class DeferralCurves:
    """The trade-off of two rates for each of some shares of rows that may be passed on.

    Parameters
    ----------
    shares : tuple of float
        The most rows that may be passed on.
    curves : tuple of RateCurve
        For each share, its trade-off.
    """

    shares: tuple[float, ...]
    curves: tuple[RateCurve, ...]

    def __iter__(self) -> Iterator[tuple[float, RateCurve]]:
        return zip(self.shares, self.curves, strict=True)

    def __len__(self) -> int:
        return len(self.curves)

    def __str__(self) -> str:
        return "\n\n".join(f"At most {share:.3g} of the rows passed on:\n{curve}" for share, curve in self)


def deferral_curves(
    classifier: Any, limited: Any, objective: Any, n_points: int, shares: Sequence[float]
) -> DeferralCurves:
    """Return the trade-off of two rates for each of some shares of rows that may be passed on.

    Other parameters as in `curve`; limits of the classifier on all rows passed on give way to the shares.

    Raises
    ------
    ValueError
        If a share is not in [0, 1), or comes twice.
    """
    given = [float(share) for share in np.ravel(shares)]
    if not given or any(not 0.0 <= share < 1.0 for share in given) or len(set(given)) < len(given):
        raise ValueError(f"passed_on must be different shares of the rows, from 0 to below 1, got {shares!r}")
    stated, other = classifier._stated, Objective.of(objective)
    kept = () if stated is None else stated.limits
    others = tuple(limit for limit in kept if limit.rate != deferred())

    def within(share: float, mix: Any) -> Any:
        return _chosen(mix, other, (*others, deferred() <= share))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        first = within(max(given), classifier)  # all curves share its members
        mixes = [within(share, first) for share in given]
    looked_at = LookedAt()  # who picks a share compares all curves
    found = tuple(curve(mix, limited, objective, n_points, looked_at) for mix in mixes)
    return DeferralCurves(tuple(given), found)
