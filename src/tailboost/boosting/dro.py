"""A distributionally robust boosting algorithm: Blanchet, Kang, Zhang and Hu, 2019.

The classifier f minimises the worst case F(f) = max {E_w e^(−y f(x)) : KL(w ‖ p) ≤ δ} over distributions near
the training rows, (2). Each round fits the learner to the functional gradient.
"""

from dataclasses import KW_ONLY, field
from functools import cache
from operator import attrgetter
from typing import Any

import numpy as np
from scipy.optimize import brentq, linprog, minimize
from scipy.sparse import issparse
from scipy.stats import chi2
from sklearn.pipeline import Pipeline

from tailboost.boosting.additive import Additive, AdditiveClassifier, Steps
from tailboost.boosting.game import tilted
from tailboost.boosting.learning import RoundLearner
from tailboost.core import (
    Column,
    Floats,
    Partitions,
    Table,
    check_indexes,
    check_length,
    check_weights,
    frozen_value,
    label_column,
    n_rows_of,
    parameters,
    positions,
)
from tailboost.solvers.worst_case import of_checked


@frozen_value
class WorstCaseKL(Additive):
    """F = max {Σ w_i e^(−m_i) : KL(w ‖ p) ≤ δ}: Blanchet et al. 2019, (2) to (4), Lemma 2 and Algorithm 1.

    The functional gradient is u_i = w_i e^(−m_i). The step minimises F(f + a h), which is convex in a.
    """

    radius: float

    theorem = "F/L(0)", 1.0

    def weigh(self, margins: Floats, p: Floats) -> tuple[Floats, float]:
        """Return u, and log F."""
        return self._from(0.0, margins, p)[:2]

    def _from(self, start: float, margins: Floats, p: Floats) -> tuple[Floats, float, float]:
        """Return u, log F and θ of w ∝ p e^(θ ℓ), from θ of other margins on."""
        top = -margins.min()  # the largest loss is e^top
        losses = np.exp(-margins - top)
        worst = of_checked(losses, p, self.radius, start)
        u = worst.unit_weights * losses
        return u / u.sum(), top + np.log(worst.value), worst.parameter

    def step(self, z: Floats, state: Steps) -> float:
        """Return the root of F′ along the hypothesis, by doubling and Brent's method."""
        theta = 0.0

        @cache  # the upper end is asked for twice
        def descent(a: float) -> float:
            nonlocal theta
            u, _, theta = self._from(theta, state.margins + a * z, state.p)
            return float(u @ z)  # −F′(a) up to a positive factor

        if not (state.u * z).sum() > 0:
            return 0.0
        low = 0.0
        high = 1.0
        while descent(high) > 0:
            low = high
            high *= 2
        return brentq(descent, low, high, xtol=1e-14, maxiter=500)


@parameters
class DROBoostClassifier(AdditiveClassifier):
    """Algorithm 1. The paper has two classes; with more, y f is the score of the true class.

    Radius 0 is AdaBoost. A regressor as learner fits the gradient by least squares
    (Proposition 1), a classifier the labels with the weights w_i e^(−m_i).

    Parameters
    ----------
    estimator : classifier, regressor or str, optional
        The learner. None is `tailboost.learners.HistTreeClassifier`.
    n_estimators : int, default=50
        Largest number of rounds. The fit ends earlier if no step lowers F.
    radius : float ≥ 0 or "auto", default="auto"
        δ; "auto" is `dro_radius` for the distinct rows.
    confidence : float in (0, 1), default=0.95
        Confidence of "auto".
    effective_dim : int or "auto", default="auto"
        d of "auto": the leaves of the first tree, or 1. The paper takes about 30 for trees of depth 5.
    random_state : int, RandomState or None
        Seed of the learners.

    Attributes
    ----------
    radius_ : float
        δ.
    Further attributes: see `AdditiveClassifier`.
    """

    player: Any = field(default=None, init=False)  # it follows from the parameters
    n_iter_no_change: int | None = field(default=None, init=False)
    _: KW_ONLY
    radius: Any = "auto"
    confidence: float = 0.95
    effective_dim: Any = "auto"

    _takes_regressors = True

    radius_ = property(attrgetter("player_.radius"), doc="δ.")

    def _start(self, learn: RoundLearner) -> Additive:
        """Return the player with δ, "auto" for the distinct rows and d, or the leaves of a hypothesis."""
        X = learn.rows.X
        if self.radius != "auto":
            return WorstCaseKL(float(self.radius))
        if isinstance(X, Partitions):
            raise TypeError(
                "radius='auto' counts different rows in memory: give radius=, as of dro_radius"
            )
        dim = self.effective_dim
        if dim == "auto":  # the first worst case is p, whatever the radius
            first = learn(learn.units.p, 0).model
            if isinstance(first, Pipeline):
                first = first[-1]
            dim = getattr(first, "get_n_leaves", lambda: 1)()
        if issparse(X):
            X = X.toarray()
        rows = np.column_stack([np.asarray(X).reshape(len(X), -1), learn.rows.y])
        if rows.dtype.kind in "OU":
            rows = rows.astype(str)
        else:  # of NaN, and of 0 and −0, the bytes may differ
            rows = np.nan_to_num(rows, nan=np.inf) + 0
        return WorstCaseKL(dro_radius(len(set(map(bytes, rows))), self.confidence, dim))


def dro_radius(n: float, confidence: float = 0.95, effective_dim: int = 1) -> float:
    """Return δ = χ²_{d; confidence} / (2n), (7): the radius of empirical likelihood for d parameters, n rows.

    With about this confidence, for large n, the true optimum of d parameters is optimal for a re-weighting of
    the rows in the ball. It does not mean that the ball contains the true distribution.

    Examples
    --------
    >>> from tailboost.published import dro_radius
    >>> round(dro_radius(3000, 0.95, 30), 4)
    0.0073
    """
    if not (n > 0 and 0 < confidence < 1 and effective_dim >= 1):
        raise ValueError(
            f"no radius for {n} rows, confidence {confidence}, d = {effective_dim}"
        )
    return float(chi2.ppf(confidence, effective_dim)) / (2 * n)


def profile_likelihood(
    clf: AdditiveClassifier, X: Table, y: Column, sample_weight: Column = None
) -> float:
    """Return R_n(f), (8): the least KL(q ‖ p) of weights q of rows under which the steps a_t are optimal.

    If f is the optimum of the distribution of the rows, 2 n R_n(f) has a χ² distribution with d degrees of
    freedom for large n (Theorem 1), for d base models chosen without these rows.

    Parameters
    ----------
    clf : AdditiveClassifier
        A fitted classifier; the loss is e^(−m).
    X, y, sample_weight
        Rows, labels and weights.

    Returns
    -------
    float
        R_n(f); infinite if no weights make the steps optimal.
    """
    if len(clf.classes_) > 2:
        raise ValueError(f"clf has {len(clf.classes_)} classes: R_n(f), (8), is for two")
    check_indexes(X=X, y=y, sample_weight=sample_weight)
    sign = 2.0 * positions(label_column(y, "y", target=True), clf.classes_, "y") - 1
    check_length(y, "y", n_rows_of(X))
    weight = check_weights(sample_weight, len(sign))
    used = weight > 0
    margins = np.array([f * sign for f in clf.staged_decision_function(X)])[:, used]
    slope = np.exp(margins[-1].min() - margins[-1])
    conditions = slope * np.diff(margins, axis=0, prepend=0.0)
    p = weight[used] / weight.sum()

    T, n = conditions.shape
    feasible = linprog(np.zeros(n), A_eq=[*conditions, np.ones(n)], b_eq=[*np.zeros(T), 1.0])
    if feasible.status == 2:
        return np.inf

    def dual(v: Any) -> tuple[float, Any]:  # its least value is −R_n
        q, log_sum = tilted(p, v @ conditions)
        return log_sum, conditions @ q

    found = minimize(dual, np.zeros(T), jac=True, options={"gtol": 1e-10})
    return max(0.0, -float(found.fun))
