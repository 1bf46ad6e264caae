"""Limits, and methods that answer fresh rows within them: ours, packages, and published rules.

A method is a function of scored rows and a limit. It returns a probability of the answer 1 for each fresh
row, NaN if the row is deferred. Rules without a package for given scores are our transcriptions from the
papers; their names in `METHODS` say so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.stats import beta, binom
from sklearn.base import BaseEstimator, ClassifierMixin

import tailboost as tb
from tailboost import rates

Floats = NDArray[np.float64]
Labels = NDArray[Any]
#: Confidence of methods that certify.
CONFIDENCE = 0.95


# -- limits ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """A limit: in our terms, on answers, and as linear inequalities.

    Parameters
    ----------
    limits : callable
        ``limits(level)`` returns our limits on the column "group".
    value : callable
        ``value(q, y, g)`` returns the largest rate, or the smallest if the level is a lower bound.
    level : float
    at_least : bool
    linear : callable, optional
        ``linear(rates, level)`` returns the rows of inequalities "at most 0" on the weights of `GroupRates`.
        The weights of each group sum to 1, so the constant of an inequality is spread over all weights.
    by_group : bool
        Whether the limit compares or bounds groups.
    defers : bool
        Whether the rule may defer rows. The objective is then the share of deferred rows.
    """

    limits: Callable[[float], list[Any]]
    value: Callable[[Floats, Labels, Labels], float]
    level: float
    at_least: bool = False
    linear: Callable[[GroupRates, float], Floats] | None = None
    by_group: bool = True
    defers: bool = False

    def beyond(self, q: Floats, y: Labels, g: Labels) -> float:
        """Return by how much the limit is broken: at most 0 if it is kept."""
        value = self.value(q, y, g)
        return self.level - value if self.at_least else value - self.level

    def inequalities(self, r: GroupRates) -> Floats:
        """Return the linear inequalities at the level."""
        assert self.linear is not None
        return self.linear(r, self.level)

    def objective(self, q: Floats, y: Labels) -> float:
        """Return the error of the answers, or the share of deferred rows."""
        return float(np.isnan(q).mean() if self.defers else np.abs(q - y).mean())


def _by_group(q: Floats, g: Labels, rows: NDArray[np.bool_]) -> Floats:
    return np.array([q[rows & (g == k)].mean() for k in np.unique(g) if (rows & (g == k)).any()])


def gap(q: Floats, y: Labels, g: Labels) -> float:
    """Return the largest difference between the groups' shares of the answer 1."""
    return float(np.ptp(_by_group(q, g, y >= 0)))


def ratio(q: Floats, y: Labels, g: Labels) -> float:
    """Return the smallest of these shares by the largest."""
    shares = _by_group(q, g, y >= 0)
    return float(shares.min() / shares.max()) if shares.max() > 0 else 1.0


def odds(q: Floats, y: Labels, g: Labels) -> float:
    """Return the largest difference between groups in the rates of true and of false positives."""
    return float(max(np.ptp(_by_group(q, g, y == k)) for k in (0, 1)))


def miss(q: Floats, y: Labels, g: Labels) -> float:
    """Return the largest share of missed rows of class 1 of a group."""
    return float(_by_group(1 - q, g, y == 1).max())


def precision(q: Floats, y: Labels, g: Labels) -> float:
    """Return the share of class 1 among the answers 1."""
    return float(q @ (y == 1) / q.sum()) if q.sum() > 0 else 1.0


def worst_class(q: Floats, y: Labels, g: Labels) -> float:
    """Return the larger of the errors of both classes."""
    return float(max((1 - q)[y == 1].mean(), q[y == 0].mean()))


def answered(q: Floats, y: Labels, g: Labels) -> float:
    """Return the error among answered rows."""
    there = ~np.isnan(q)
    return float(np.abs(q[there] - y[there]).mean()) if there.any() else 0.0


@dataclass(frozen=True)
class GroupRates:
    """Rates of rules "1 from a threshold, in one group": shape (groups, rules); 0 in other groups."""

    selected: Floats
    true: Floats
    false: Floats
    of_ones: Floats  # shape (groups,): share of each group among rows of class 1
    of_zeros: Floats
    ones: float  # share of class 1


def pairs(of: Floats, first: float = 1.0) -> Floats:
    """Return ``first · of[a] − of[b]`` for each ordered pair of groups."""
    m = len(of)
    return np.array([first * of[a] - of[b] for a in range(m) for b in range(m) if a != b])


def _linear_precision(r: GroupRates, level: float) -> Floats:
    true, false = r.ones * (r.of_ones @ r.true), (1 - r.ones) * (r.of_zeros @ r.false)
    return np.asarray(level * (true + false) - true)[None]


LIMITS = {
    "approval gap ≤ .02": Asked(
        lambda x: [rates.gap(rates.selected(1, by="group")) <= x], gap, 0.02,
        linear=lambda r, x: pairs(r.selected) - x / len(r.selected),
    ),
    "approval ratio ≥ .8": Asked(
        lambda x: [rates.ratio(rates.selected(1, by="group")) >= x], ratio, 0.8, at_least=True,
        linear=lambda r, x: pairs(r.selected, x),
    ),
    "odds gap ≤ .05": Asked(
        lambda x: [rates.gap(of(1, by="group")) <= x for of in (rates.miss, rates.false_alarm)], odds, 0.05,
        linear=lambda r, x: np.vstack([pairs(r.true), pairs(r.false)]) - x / len(r.true),
    ),
    "miss by group ≤ .25": Asked(
        lambda x: [rates.miss(1, by="group") <= x], miss, 0.25,
        linear=lambda r, x: (1 - x) / len(r.true) - r.true,
    ),
    "precision ≥ .7": Asked(
        lambda x: [rates.precision(1) >= x], precision, 0.7, at_least=True, linear=_linear_precision,
        by_group=False,
    ),
    "precision ≥ .95": Asked(
        lambda x: [rates.precision(1) >= x], precision, 0.95, at_least=True, linear=_linear_precision,
        by_group=False,
    ),
    "worst class ≤ .35": Asked(
        lambda x: [rates.error(by="class") <= x], worst_class, 0.35, by_group=False,
        linear=lambda r, x: np.stack([(1 - x) / len(r.true) - r.of_ones @ r.true,
                                      r.of_zeros @ r.false - x / len(r.true)]),
    ),
    "answered error ≤ .1": Asked(
        lambda x: [rates.answered_error() <= x], answered, 0.1, by_group=False, defers=True
    ),
}  # fmt: skip


# -- rows ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scored:
    """Probabilities of class 1, labels and group numbers of selection rows and fresh rows.

    ``more_p`` and ``more_g`` belong to further rows, whose labels nobody knows.
    """

    p: Floats
    y: Labels
    g: Labels
    fresh_p: Floats
    fresh_y: Labels
    fresh_g: Labels
    more_p: Floats = field(default_factory=lambda: np.empty(0))
    more_g: Labels = field(default_factory=lambda: np.empty(0, dtype=np.intp))


class NoAnswer(Exception):
    """A method finds no rule for a limit; the message says why."""


def pair(p: Floats) -> Floats:
    """Return the probabilities of both classes."""
    return np.column_stack([1 - p, p])


class GivenScores(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose features are its probabilities."""

    classes_ = np.arange(2)

    def fit(self, X: Any, y: Any) -> GivenScores:
        """Learn nothing."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, X: Any) -> Floats:
        """Return the two columns."""
        return np.asarray(X, dtype=np.float64)

    def predict(self, X: Any) -> Any:
        """Return the likelier class."""
        return self.predict_proba(X).argmax(axis=1)


# -- ours ------------------------------------------------------------------------------------------------


def ours(data: Scored, asked: Asked, **options: Any) -> Floats:
    """Select a group-aware rule with `tailboost.tune`."""
    return _predicted(_tuned(data.p, data.y, data.g, asked, **options), data, asked.defers)


def ours_calibrated(data: Scored, asked: Asked) -> Floats:
    """Tune on one half of the selection rows and calibrate at 95 % on the other half."""
    half = np.arange(len(data.y)) % 2 == 0
    model = _tuned(data.p[half], data.y[half], data.g[half], asked)
    try:
        model = tb.calibrate(
            model,
            pair(data.p[~half]),
            data.y[~half],
            groups={"group": data.g[~half]},
            equal_rows="natural",
        )
    except tb.NotCertifiedError as error:
        raise NoAnswer("not certified") from error
    return _predicted(model, data, asked.defers)


def ours_with_more_rows(data: Scored, asked: Asked) -> Floats:
    """Tune on the selection rows and on further rows without labels."""
    if not len(data.more_p):
        raise NoAnswer("no further rows")
    return ours(data, asked, X_unlabeled=pair(data.more_p), groups_unlabeled={"group": data.more_g})


def ours_in_one_batch(data: Scored, asked: Asked) -> Floats:
    """Calibrate the scores at 95 % on the selection rows, which `tailboost.calibrate` divides itself."""
    try:
        model = tb.calibrate(
            GivenScores(), pair(data.p), data.y, groups={"group": data.g}, equal_rows="natural",
            **_asked(asked),
        )  # fmt: skip
    except (tb.NotCertifiedError, tb.InfeasibleLimitsError) as error:
        raise NoAnswer("not certified") from error
    return _predicted(model, data, asked.defers)


def _asked(asked: Asked) -> dict[str, Any]:
    objective = rates.deferred() if asked.defers else "error"
    return {"limits": asked.limits(asked.level), "objective": objective, "by_group": True, "random_state": 0}


def _tuned(p: Floats, y: Labels, g: Labels, asked: Asked, **options: Any) -> Any:
    try:
        return tb.tune(GivenScores(), pair(p), y, groups={"group": g}, **_asked(asked), **options)
    except tb.InfeasibleLimitsError as error:
        raise NoAnswer("infeasible") from error


def _predicted(model: Any, data: Scored, defers: bool) -> Floats:
    P, groups = pair(data.fresh_p), {"group": data.fresh_g}
    q = np.asarray(model.predict_distribution(P, groups=groups)[:, 1], dtype=np.float64)
    return np.where(model.defers(P, groups=groups), np.nan, q) if defers else q


# -- packages --------------------------------------------------------------------------------------------


def one_threshold(data: Scored, asked: Asked) -> Floats:
    """Run scikit-learn's TunedThresholdClassifierCV: least error among thresholds within the limit."""
    from sklearn.metrics import make_scorer
    from sklearn.model_selection import TunedThresholdClassifierCV

    def within(y: Labels, q: Labels) -> float:
        beyond = asked.beyond(q.astype(np.float64), y, data.g)
        return -float(np.abs(q - y).mean()) if beyond <= 0 else -1 - beyond

    cuts = np.append(np.unique(np.quantile(data.p, np.linspace(0, 1, 201))), 2.0)
    tuned = TunedThresholdClassifierCV(
        GivenScores(), scoring=make_scorer(within), thresholds=cuts, cv="prefit", refit=False
    ).fit(pair(data.p), data.y)
    if tuned.best_score_ < -1:
        raise NoAnswer("no threshold keeps the limit")
    return (data.fresh_p >= tuned.best_threshold_).astype(np.float64)


def threshold_optimizer(data: Scored, asked: Asked) -> Floats:
    """Run fairlearn's ThresholdOptimizer: parity within the tolerance, or exactly equal odds."""
    from fairlearn.postprocessing import ThresholdOptimizer
    from sklearn.frozen import FrozenEstimator

    parity = asked.value is gap
    fair = ThresholdOptimizer(
        estimator=FrozenEstimator(GivenScores()),
        constraints="demographic_parity" if parity else "equalized_odds",
        prefit=True, objective="accuracy_score", predict_method="predict_proba",
        **({"tol": asked.level} if parity else {}),
    )  # fmt: skip
    fair.fit(pair(data.p), data.y, sensitive_features=data.g)
    return np.asarray(fair._pmf_predict(pair(data.fresh_p), sensitive_features=data.fresh_g))[:, 1]


def reductions(data: Scored, asked: Asked) -> Floats:
    """Run fairlearn's ExponentiatedGradient on the score's logit within each group.

    Its bounds compare each group with all rows, so half the level bounds the gap.
    """
    from fairlearn.reductions import DemographicParity, EqualizedOdds, ExponentiatedGradient
    from sklearn.linear_model import LogisticRegression

    def features(p: Floats, g: Labels) -> Floats:
        inside = g[:, None] == np.arange(data.g.max() + 1)
        s = np.clip(p, 1e-6, 1 - 1e-6)
        return np.hstack([inside, inside * np.log(s / (1 - s))[:, None]])

    bounded: dict[Any, Callable[[], Any]] = {
        gap: lambda: DemographicParity(difference_bound=asked.level / 2),
        ratio: lambda: DemographicParity(ratio_bound=asked.level),
        odds: lambda: EqualizedOdds(difference_bound=asked.level / 2),
    }
    fair = ExponentiatedGradient(LogisticRegression(), bounded[asked.value]())
    fair.fit(features(data.p, data.g), data.y, sensitive_features=data.g)
    return np.asarray(fair._pmf_predict(features(data.fresh_p, data.fresh_g)))[:, 1]


def error_parity(data: Scored, asked: Asked) -> Floats:
    """Run error-parity's relaxed threshold optimiser."""
    from error_parity import RelaxedThresholdOptimizer

    fair = RelaxedThresholdOptimizer(
        predictor=lambda p: p[:, 1],
        constraint="demographic_parity" if asked.value is gap else "equalized_odds",
        tolerance=asked.level, max_roc_ticks=1000, seed=0,
    )  # fmt: skip
    fair.fit(pair(data.p), data.y, group=data.g)
    return np.asarray(fair.predict(pair(data.fresh_p), group=data.fresh_g), dtype=np.float64)


def oxonfair(data: Scored, asked: Asked) -> Floats:
    """Run OxonFair's frontier of thresholds by group."""
    from oxonfair import DataDict, FairPredictor
    from oxonfair.utils import group_metrics as gm

    named: dict[Any, Any] = {
        gap: gm.pos_pred_rate.max_diff, ratio: gm.pos_pred_rate.min_ratio, odds: gm.equalized_odds_max,
        miss: gm.recall.min, precision: gm.precision,
    }  # fmt: skip
    limit = named[asked.value]
    level = 1 - asked.level if asked.value is miss else asked.level
    fair = FairPredictor(None, DataDict(data.y, pair(data.p), data.g))
    fair.fit(gm.accuracy, limit, level)
    new = DataDict(data.fresh_y, pair(data.fresh_p), data.fresh_g)
    return np.asarray(fair.predict(new), dtype=np.float64)


def mapie(data: Scored, asked: Asked, fwer_method: str) -> Floats:
    """Run MAPIE's risk controller at 95 % on all selection rows: one threshold for all groups.

    Parameters
    ----------
    data : Scored
    asked : Asked
    fwer_method : str
        Correction for the 100 thresholds. The default "bonferroni_holm" of version 1.6.0 certifies nothing
        if a threshold selects no row, because its p-value is NaN, see `experiments/mapie_nan.md`.
    """
    from mapie import risk_control as mr

    alone = asked.value is precision
    risks = mr.precision if alone else [mr.recall, mr.false_positive_rate]
    levels: Any = asked.level if alone else [1 - asked.level, asked.level]
    best = "recall" if alone else "accuracy"
    control = mr.BinaryClassificationController(
        pair, risks, levels, confidence_level=CONFIDENCE, best_predict_param_choice=best,
        fwer_method=fwer_method,
    )  # fmt: skip
    control.calibrate(data.p, data.y)
    if control.best_predict_param is None:
        raise NoAnswer("no threshold is certified")
    return np.asarray(control.predict(data.fresh_p), dtype=np.float64)


# -- published rules, our transcriptions -----------------------------------------------------------------


def thresholds_by_group(data: Scored, linear: Callable[[GroupRates], Floats], steps: int = 100) -> Floats:
    """Return the most accurate mixture of thresholds by group within the limit, by a linear program.

    Parameters
    ----------
    data : Scored
        The rows.
    linear : callable
        Limits as inequalities on the weights of rules, see `Asked`.
    steps : int
        Number of thresholds of each group, at quantiles of its scores.
    """
    names = np.unique(data.g)
    cuts = [np.append(np.quantile(data.p[data.g == k], np.linspace(0, 1, steps)), 2.0) for k in names]
    m, each = len(names), steps + 1
    selected, true, false = (np.zeros((m, m * each)) for _ in range(3))
    cost, sums = np.zeros(m * each), np.kron(np.eye(m), np.ones(each))
    for j, k in enumerate(names):
        rows, here = data.g == k, slice(j * each, (j + 1) * each)
        q = (data.p[rows, None] >= cuts[j]).astype(np.float64)
        ones, zeros = data.y[rows], 1 - data.y[rows]
        selected[j, here] = q.mean(axis=0)
        true[j, here], false[j, here] = ones @ q / max(ones.sum(), 1), zeros @ q / max(zeros.sum(), 1)
        cost[here] = (zeros @ q + ones @ (1 - q)) / len(data.y)
    inside = np.stack([data.g == k for k in names]).astype(np.float64)
    r = GroupRates(
        selected, true, false, inside @ data.y / data.y.sum(), inside @ (1 - data.y) / (1 - data.y).sum(),
        float(data.y.mean()),
    )  # fmt: skip
    A = linear(r)
    solved = linprog(cost, A, np.zeros(len(A)), sums, np.ones(m), (0, 1), method="highs")
    if not solved.success:
        raise NoAnswer("infeasible")
    q = np.zeros(len(data.fresh_p))
    for j, k in enumerate(names):
        rows, weights = data.fresh_g == k, solved.x[j * each : (j + 1) * each]
        q[rows] = (data.fresh_p[rows, None] >= cuts[j]) @ weights
    return q


def oracle(data: Scored, asked: Asked) -> Floats:
    """Choose mixtures of thresholds by group on the fresh rows: the least reachable error on these scores."""
    fresh = (data.fresh_p, data.fresh_y, data.fresh_g)
    return thresholds_by_group(Scored(*fresh, *fresh), asked.inequalities)


def on_simplex(P: Floats) -> Floats:
    """Return the nearest probability vector of each row, in the Euclidean norm."""
    down = -np.sort(-P, axis=1)
    above = (np.cumsum(down, axis=1) - 1) / np.arange(1, P.shape[1] + 1)
    last = (down > above).sum(axis=1) - 1
    return np.asarray(np.maximum(P - above[np.arange(len(P)), last][:, None], 0))


def fair_weights(cost: Floats, P: Floats, sets: Sequence[NDArray[np.intp]], level: float) -> Floats:
    """Return weights w such that the rule "1 where cost + P @ w < 0" has the least cost within the limit.

    The linear program is over a probability of the answer 1 for each row. In each set of columns of P, the
    rates of the answer 1 are within half the level of a common value. The weights are its dual solution.

    Parameters
    ----------
    cost : ndarray of shape (n,)
        Cost of the answer 1 less that of the answer 0.
    P : ndarray of shape (n, m)
        Probabilities of belonging to each of m overlapping sets of rows.
    sets : sequence of ndarray
        Columns of P whose rates are compared.
    level : float
    """
    n, m = P.shape
    share = P.mean(axis=0)
    known = np.flatnonzero(share > 0)
    common = np.stack([np.isin(known, columns) for columns in sets], axis=1).astype(np.float64)
    A = np.hstack([(P[:, known] / share[known]).T / n, -common])
    bounds = [(0, 1)] * n + [(0, None)] * len(sets)
    solved = linprog(
        np.append(cost / n, np.zeros(len(sets))), np.vstack([A, -A]), np.full(2 * len(known), level / 2),
        bounds=bounds, method="highs",
    )  # fmt: skip
    if not solved.success:
        raise NoAnswer("infeasible")
    upper, lower = -solved.ineqlin.marginals.reshape(2, -1)
    weights = np.zeros(m)
    weights[known] = (upper - lower) / share[known]
    return weights


def linear_post(data: Scored, asked: Asked, rounds: int = 0) -> Floats:
    """Follow LinearPost [1]_: a linear program with p(y | x) in place of labels.

    Parameters
    ----------
    data : Scored
    asked : Asked
    rounds : int
        Rounds of decision calibration [2]_; the authors' program has 10. Each adds the mean of labels less
        probabilities among the rows with the same answer. It has no effect on a limit on selection rates of
        known groups.

    References
    ----------
    .. [1] R. Xian and H. Zhao, "A unified post-processing framework for group fairness in classification",
       arXiv 2405.04025, 2024.
    .. [2] S. Zhao, M. P. Kim, R. Sahoo, T. Ma and S. Ermon, "Calibrating predictions to decisions",
       NeurIPS 2021.
    """
    names = np.unique(data.g)
    m, random = len(names), np.random.default_rng(0)
    by_class = asked.value is not gap
    sets = [np.arange(m), np.arange(m, 2 * m)][: 1 + by_class]

    def members(p: Floats, g: Labels) -> Floats:
        inside = (g[:, None] == names).astype(np.float64)
        return np.hstack([inside * (1 - p[:, None]), inside * p[:, None]]) if by_class else inside

    def costs(p: Floats) -> Floats:
        # The authors shift the risks of both answers by a small noise, so that no two rows are collinear.
        scale = 1e-4 * float(np.maximum(p, 1 - p).mean())
        return np.asarray(1 - 2 * p + scale * (random.uniform(-1, 1, len(p)) - random.uniform(-1, 1, len(p))))

    def answers(cost: Floats, P: Floats, w: Floats) -> Labels:
        return (cost + P @ w < 0).astype(np.intp)

    shifts: list[tuple[Floats, Floats]] = []

    def calibrated(cost: Floats, P: Floats) -> Floats:
        for w, shift in shifts:
            P = on_simplex(P + shift[answers(cost, P, w)])
        return P

    cost, P = costs(data.p), members(data.p, data.g)
    truth = members(data.y.astype(np.float64), data.g)
    for _ in range(rounds):
        w = fair_weights(cost, P, sets, asked.level)
        one = answers(cost, P, w)
        shift = np.zeros((2, P.shape[1]))
        for answer in np.unique(one):
            shift[answer] = (truth - P)[one == answer].mean(axis=0)
        shifts.append((w, shift))
        P = on_simplex(P + shift[one])
    cost = costs(data.p)
    w = fair_weights(cost, calibrated(cost, members(data.p, data.g)), sets, asked.level)
    cost = costs(data.fresh_p)
    return answers(cost, calibrated(cost, members(data.fresh_p, data.fresh_g)), w).astype(np.float64)


def post_process(data: Scored, asked: Asked) -> Floats:
    """Follow the generalised Neyman–Pearson rule [1]_ for two groups.

    The rule answers 1 where 2p − 1 plus a combination of the embeddings of the constraints is positive. The
    coefficients are the most accurate ones of a grid within the tolerance on the selection rows. Grids are
    those of the authors' script. There the first of two coefficients counts twice. The script has no limit on
    misses, so that grid is ours.

    References
    ----------
    .. [1] M.-A. Charusaie and S. Samadi, "A unifying post-processing framework for multi-objective
       learn-to-defer problems", NeurIPS 2024.
    """
    inside = np.stack([data.g == k for k in (0, 1)])
    share, ones = inside.mean(axis=1), (inside * data.y).mean(axis=1)
    zeros = share - ones

    def embeddings(p: Floats, g: Labels) -> Floats:
        one = g == 1
        if asked.value is gap:
            return np.where(one, 1 / share[1], -1 / share[0])[None]
        if asked.value is odds:
            true = p * np.where(one, 1 / ones[1], -1 / ones[0])
            return np.stack([2 * true, (1 - p) * np.where(one, 1 / zeros[1], -1 / zeros[0])])
        return np.stack([p * one / ones[1], p * ~one / ones[0]])

    grids: dict[Any, Floats] = {
        gap: np.linspace(-5, 5, 10_000),
        odds: np.linspace(-0.5, 0.5, 100),
        miss: np.linspace(0, 1, 100),
    }
    psi, fresh = embeddings(data.p, data.g), embeddings(data.fresh_p, data.fresh_g)
    best, error = None, np.inf
    for k in np.stack(np.meshgrid(*[grids[asked.value]] * len(psi)), axis=-1).reshape(-1, len(psi)):
        q = (2 * data.p - 1 + k @ psi > 0).astype(np.float64)
        own = float(np.abs(q - data.y).mean())
        if own < error and asked.beyond(q, data.y, data.g) < 0:
            best, error = k, own
    if best is None:
        raise NoAnswer("no coefficients of the grid keep the limit")
    return (2 * data.fresh_p - 1 + best @ fresh > 0).astype(np.float64)


def _by_odds(p: Floats, weights: Floats) -> Floats:
    """Answer 1 where the weighted probability of class 1 is the larger one."""
    return np.asarray(weights[1] * p > weights[0] * (1 - p), dtype=np.float64)


def entropy_loss(p: Floats, y: Labels, weights: Floats) -> Floats:
    """Return the cross-entropy of each class, after the class weights."""
    weighted = weights * pair(p)
    true = (weighted / weighted.sum(axis=1, keepdims=True))[np.arange(len(y)), y]
    loss = -np.log(np.clip(true, 1e-7, 1 - 1e-7))
    return np.array([loss[y == k].mean() for k in (0, 1)])


def drops(data: Scored, asked: Asked) -> Floats:
    """Follow DROPS [1]_: class weights by the game with a divergence ball of radius δ about equal weights.

    The loss of a class is the cross-entropy, the default of the authors' program. The paper has δ as input.
    Here δ is the most accurate of a grid within the limit on the selection rows.

    References
    ----------
    .. [1] J. Wei, H. Narasimhan, E. Amid et al., "Distributionally robust post-hoc classifiers under prior
       shifts", ICLR 2023.
    """
    prior = np.array([1 - data.y.mean(), data.y.mean()])
    best, error = None, np.inf
    for radius in np.concatenate([np.arange(0.0, 0.16, 0.01), np.arange(0.2, 1.06, 0.05)]):
        g, multiplier = np.full(2, 0.5), 1.0
        for _ in range(25):
            loss = entropy_loss(data.p, data.y, g / prior)
            divergence = float(g @ np.log(np.maximum(2 * g, 1e-12)))
            g = np.exp((loss - loss.max()) / max(multiplier, 1e-2))
            g /= g.sum()
            multiplier += 0.1 * (divergence - radius)
        q = _by_odds(data.p, g / prior)
        own = float(np.abs(q - data.y).mean())
        if own < error and asked.beyond(q, data.y, data.g) <= 0:
            best, error = g / prior, own
    if best is None:
        raise NoAnswer("no radius keeps the limit")
    return _by_odds(data.fresh_p, best)


def pattern_search(f: Callable[[Floats], float], x: Floats, low: float, high: float) -> Floats:
    """Return a point with a large value of f in a box, by the search of Hooke and Jeeves.

    Steps are 1, 1/2 and so on to 2⁻¹⁸.
    """

    def explored(x: Floats, value: float, step: float) -> tuple[Floats, float]:
        for k in range(len(x)):
            for move in (step, -step):
                tried = x.copy()
                tried[k] += move
                if low <= tried[k] <= high and (at := f(tried)) > value:
                    x, value = tried, at
                    break
        return x, value

    value = f(x)
    for step in 0.5 ** np.arange(19):
        found, better = explored(x, value, step)
        while better > value:
            # The pattern: the same move once more, and an exploration around it.
            ahead = np.clip(2 * found - x, low, high)
            x, value = found, better
            found, better = explored(ahead, f(ahead), step)
            if better <= value:
                found, better = explored(x, value, step)
    return x


def npmc_cx(data: Scored, asked: Asked) -> Floats:
    """Follow NPMC-CX of the R package npcs [1]_: class costs at the largest dual value, without labels.

    References
    ----------
    .. [1] Y. Tian and Y. Feng, "Neyman–Pearson multi-class classification via cost-sensitive learning",
       JASA 2024.
    """
    prior, P = np.array([1 - data.y.mean(), data.y.mean()]), pair(data.p)

    def dual(multipliers: Floats) -> float:
        largest = (P * (1 + multipliers / prior)).max(axis=1).mean()
        return float(1 - largest + multipliers.sum() * (1 - asked.level))

    best = pattern_search(dual, np.zeros(2), 0.0, 200.0)
    if dual(best) > 1:
        raise NoAnswer("infeasible")
    return _by_odds(data.fresh_p, 1 + np.maximum(best, 1e-3) / prior)


def umbrella(data: Scored, asked: Asked) -> Floats:
    """Follow the Neyman–Pearson umbrella algorithm [1]_ in each group, with Bonferroni's correction.

    The threshold is the largest order statistic of the scores of class 1 at which the miss rate is above the
    level with a probability of at most 5 % in all groups together.

    References
    ----------
    .. [1] X. Tong, Y. Feng and J. J. Li, "Neyman–Pearson classification algorithms and NP receiver operating
       characteristics", Science Advances 2018.
    """
    names = np.unique(data.g)
    q = np.zeros(len(data.fresh_p))
    for k in names:
        own = np.sort(data.p[(data.g == k) & (data.y == 1)])
        # The miss rate at the j-th smallest score is above the level with this probability.
        violated = binom.cdf(np.arange(len(own)), len(own), asked.level)
        allowed = np.flatnonzero(violated <= (1 - CONFIDENCE) / len(names))
        if not len(allowed):
            raise NoAnswer("too few rows of a group")
        rows = data.fresh_g == k
        q[rows] = data.fresh_p[rows] >= own[allowed[-1]]
    return q


def selective(data: Scored, asked: Asked) -> Floats:
    """Follow selection with guaranteed risk [1]_: the largest coverage with a binomial bound, at 95 %.

    The search is that of the authors' program. With m rows it has ceil(log2 m) + 1 rounds, and tests at the
    level 5 % / ceil(log2 m).

    References
    ----------
    .. [1] Y. Geifman and R. El-Yaniv, "Selective classification for deep neural networks", NeurIPS 2017.
    """
    sure = np.maximum(data.p, 1 - data.p)
    order = np.argsort(sure, kind="stable")
    m = len(order)
    # Wrong answers from each row on.
    wrong = np.cumsum(((data.p >= 0.5) != data.y)[order][::-1])[::-1]
    low, high, rounds = 0, m - 1, int(np.ceil(np.log2(m)))
    at, bound = 0, 1.0
    for _ in range(rounds + 1):
        at = (low + high + 1) // 2
        n, k = m - at, wrong[at]
        bound = beta.ppf(1 - (1 - CONFIDENCE) / rounds, k + 1, n - k) if k < n else 1.0
        if bound > asked.level:
            low = at
        else:
            high = at
    if bound > asked.level:
        raise NoAnswer("not certified")
    fresh_sure = np.maximum(data.fresh_p, 1 - data.fresh_p)
    return np.where(fresh_sure >= sure[order[at]], (data.fresh_p >= 0.5).astype(np.float64), np.nan)


# -- the table of methods --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Method:
    """A method, the limits it can be asked (empty: all), and the most groups and splits it is asked for."""

    answer: Callable[[Scored, Asked], Floats]
    limits: tuple[Any, ...] = ()
    most_groups: int = 99
    most_splits: int = 99


_LINEAR = (gap, ratio, odds, miss, precision, worst_class)
_RULE = "our transcription"
#: The rows of this method are the fresh rows themselves.
ORACLE = "oracle"
OURS = "tailboost"
METHODS = {
    OURS: Method(ours),
    "tailboost, randomised": Method(partial(ours, randomized=True), _LINEAR),
    "tailboost, confidence=.9": Method(partial(ours, confidence=0.9)),
    "tailboost, 5,000 rows without labels": Method(ours_with_more_rows),
    "tailboost, randomised, confidence=.9": Method(partial(ours, randomized=True, confidence=0.9), _LINEAR),
    "tailboost, calibrated at .95": Method(ours_calibrated),
    "tailboost, one batch at .95": Method(ours_in_one_batch),
    "TunedThresholdClassifierCV": Method(one_threshold, _LINEAR),
    "OxonFair": Method(oxonfair, (gap, ratio, odds, miss, precision), 2),
    "error-parity": Method(error_parity, (gap, odds)),
    "ThresholdOptimizer": Method(threshold_optimizer, (gap, odds)),
    "ExponentiatedGradient": Method(reductions, (gap, ratio, odds), most_splits=3),
    f"LinearPost, {_RULE}": Method(linear_post, (gap, odds)),
    f"LinearPost with calibration, {_RULE}": Method(partial(linear_post, rounds=10), (odds,)),
    f"PostProcess, {_RULE}": Method(post_process, (gap, odds, miss), 2),
    f"DROPS, {_RULE}": Method(drops, (worst_class,)),
    f"NPMC-CX of npcs, {_RULE}": Method(npmc_cx, (worst_class,)),
    f"NP umbrella at .95, {_RULE}": Method(umbrella, (miss,)),
    "MAPIE at .95": Method(partial(mapie, fwer_method="bonferroni_holm"), (precision, worst_class)),
    "MAPIE at .95, Bonferroni": Method(partial(mapie, fwer_method="bonferroni"), (precision, worst_class)),
    f"SGR at .95, {_RULE}": Method(selective, (answered,)),
    ORACLE: Method(oracle, _LINEAR),
}
