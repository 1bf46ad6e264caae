"""Methods on the same score, ours and baselines. A new baseline is an entry of `OPPONENTS`.

A method is created for a `Case`. For each goal it returns the probability of the answer 1 for every
test row. ``kinds`` lists its goals.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

import tailboost as tb
from experiments.field._exact import Exact
from experiments.field._rules import Case, Goal, reached
from tailboost import rates
from tailboost.learners import HistBoostClassifier
from tailboost.rates import InfeasibleLimitsError

Floats = NDArray[np.float64]
Answer = Callable[[Goal], Floats]

# Rounds of the reductions approach, each of which fits its classifier once or twice.
REDUCTIONS = 15


class Unreached(Exception):
    """A method cannot reach a goal."""


@dataclass(frozen=True)
class Opponent:
    """A method.

    Parameters
    ----------
    make : callable
        ``make(case)`` returns an object for goals.
    told : bool
        Whether the rule is group-aware.
    kinds : tuple of str
        Supported goals.
    most_groups, seeds : int
        Largest numbers of groups and splits; with more the method is too slow.
    levels : tuple of float
        Levels of the odds; empty means all.
    """

    make: Callable[[Case], Answer]
    told: bool
    kinds: tuple[str, ...] = ("odds", "parity", "ratio")
    most_groups: int = 99
    seeds: int = 99
    levels: tuple[float, ...] = ()

    def takes(self, case: Case, goal: Goal) -> bool:
        """Return whether the method has this goal."""
        return (
            goal.kind in self.kinds
            and case.groups.max() < self.most_groups
            and case.seed < self.seeds
            and (goal.kind != "odds" or not self.levels or goal.level in self.levels)
        )


# -- ours ------------------------------------------------------------------------------------------------


class Ours:
    """`tailboost.tune` on the score: one fit, and then any goal of the same groups.

    Parameters
    ----------
    case : Case
    told : bool
        Whether the rule is group-aware; otherwise groups are inferred from the features.
    randomized : bool
        Whether the rule may be randomised.
    """

    def __init__(self, case: Case, *, told: bool, randomized: bool) -> None:
        train, column = case.scored.train, case.column
        self.case, self.told, self.randomized = case, told, randomized
        if told not in case.kept:
            case.kept[told] = tb.tune(
                case.scored.model,
                train.X,
                train.y,
                groups={column: case.groups},
                limits=[rates.error(by="cell") <= 1.0],
                by_group=told,
                random_state=case.seed,
            )
        self.mix = case.kept[told]

    def params(self, goal: Goal) -> dict[str, Any]:
        """Return a goal in the library's words."""
        column = self.case.column
        approved = rates.selected(1, by=column)
        if goal.kind == "cell":
            return {
                "objective": rates.largest(rates.error(by="cell")),
                "limits": [],
                "error_budget": goal.level,
            }
        odds = [rates.gap(of(1, by=column)) <= goal.level for of in (rates.miss, rates.false_alarm)]
        limits = {
            "odds": odds,
            "parity": [rates.gap(approved) <= goal.level],
            "ratio": [rates.ratio(approved) >= goal.level],
        }
        return {"objective": "error", "limits": limits[goal.kind]}

    def chosen(self, goal: Goal) -> Any:
        """Return the classifier of a goal."""
        mix = copy.copy(self.mix)
        mix.randomized = self.randomized
        try:
            return mix.reweight(**self.params(goal))
        except InfeasibleLimitsError as error:
            raise Unreached(str(error)) from None

    def __call__(self, goal: Goal) -> Floats:
        test, given = self.case.scored.test, {}
        if self.told:
            given = {"groups": {self.case.column: self.case.test_groups}}
        mix = self.chosen(goal)
        q: Floats = mix.predict_distribution(test.X, **given)[:, 1]
        return q


def _ours(*, told: bool, randomized: bool) -> Callable[[Case], Answer]:
    return lambda case: Ours(case, told=told, randomized=randomized)


# -- group-aware -----------------------------------------------------------------------------------------


def exact(case: Case) -> Answer:
    """Return the exact program on the selection data: a lower bound for all thresholds of the score."""

    def answer(goal: Goal) -> Floats:
        found = Exact(case.scored.P[:, 1], case.scored.train.y, case.groups, goal)
        return found.answer(case.scored.Q[:, 1], case.test_groups)

    return answer


def error_parity(case: Case) -> Answer:
    """Return error-parity's relaxed threshold optimiser."""
    from error_parity import RelaxedThresholdOptimizer

    def answer(goal: Goal) -> Floats:
        found = RelaxedThresholdOptimizer(
            predictor=lambda p: p[:, 1],
            constraint={"odds": "equalized_odds", "parity": "demographic_parity"}[goal.kind],
            tolerance=goal.level,
            max_roc_ticks=1000,
            seed=case.seed,
        )
        found.fit(case.scored.P, case.scored.train.y, group=case.groups)
        return np.asarray(found.predict(case.scored.Q, group=case.test_groups), dtype=np.float64)

    return answer


def threshold_optimizer(case: Case) -> Answer:
    """Make fairlearn's ThresholdOptimizer: equalised odds exactly, parity within the tolerance."""
    from fairlearn.postprocessing import ThresholdOptimizer
    from sklearn.frozen import FrozenEstimator

    scored = case.scored

    def answer(goal: Goal) -> Floats:
        words = {"odds": "equalized_odds", "parity": "demographic_parity"}
        more = {} if goal.kind == "odds" else {"tol": goal.level}
        fair = ThresholdOptimizer(
            estimator=FrozenEstimator(scored.model), constraints=words[goal.kind], prefit=True,
            objective="accuracy_score", predict_method="predict_proba", **more,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fair.fit(scored.train.X, scored.train.y, sensitive_features=case.groups)
            pmf = fair._pmf_predict(scored.test.X, sensitive_features=case.test_groups)
        return np.asarray(pmf)[:, 1]

    return answer


class _OxonFair:
    """OxonFair's frontier of thresholds by group, group-aware or with inferred groups."""

    def __init__(self, case: Case, *, told: bool) -> None:
        self.case, self.told = case, told

    @cached_property
    def inferred(self) -> tuple[Floats, Floats]:
        """Probabilities of the groups by the features, out of fold, and of the test rows."""
        train, test = self.case.scored.train, self.case.scored.test
        model = HistBoostClassifier(n_estimators=80, max_depth=5)
        fold = np.random.default_rng(self.case.seed).integers(0, 5, len(train.y))
        P = np.zeros((len(train.y), int(self.case.groups.max()) + 1))
        for k in range(5):
            part = clone(model).fit(train.X[fold != k], self.case.groups[fold != k])
            P[fold == k] = part.predict_proba(train.X[fold == k])
        return P, clone(model).fit(train.X, self.case.groups).predict_proba(test.X)

    def __call__(self, goal: Goal) -> Floats:
        from oxonfair import DataDict, FairPredictor
        from oxonfair.utils import group_metrics as gm

        P, Q, y = self.case.scored.P, self.case.scored.Q, self.case.scored.train.y
        limit = {
            "odds": gm.equalized_odds_max, "parity": gm.pos_pred_rate.max_diff,
            "ratio": gm.pos_pred_rate.min_ratio,
        }[goal.kind]  # fmt: skip
        if self.told:
            fair = FairPredictor(None, DataDict(y, P, self.case.groups))
            new = DataDict(self.case.scored.test.y, Q, self.case.test_groups)
        else:
            both = [np.hstack(pair) for pair in zip((P, Q), self.inferred, strict=True)]
            fair = FairPredictor(
                lambda X: X[:, :2], DataDict(y, both[0], self.case.groups), inferred_groups=lambda X: X[:, 2:]
            )
            new = DataDict(self.case.scored.test.y, both[1])
        fair.fit(gm.accuracy, limit, goal.level)
        return np.asarray(fair.predict(new), dtype=np.float64)


# -- group-blind -----------------------------------------------------------------------------------------


def reductions(case: Case) -> Answer:
    """Return fairlearn's ExponentiatedGradient with boosted trees: trained anew, group-blind."""
    from fairlearn.reductions import DemographicParity, EqualizedOdds, ExponentiatedGradient

    scored = case.scored

    def answer(goal: Goal) -> Floats:
        limit = {
            "odds": lambda: EqualizedOdds(difference_bound=goal.level),
            "parity": lambda: DemographicParity(difference_bound=goal.level),
            "ratio": lambda: DemographicParity(ratio_bound=goal.level, ratio_bound_slack=0.0),
        }[goal.kind]()
        model = ExponentiatedGradient(
            HistBoostClassifier(n_estimators=100, max_depth=5), limit, eps=goal.level / 2, max_iter=REDUCTIONS
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(scored.train.X, scored.train.y, sensitive_features=case.groups)
            return np.asarray(model._pmf_predict(scored.test.X))[:, 1]

    return answer


def one_threshold(case: Case) -> Answer:
    """Return scikit-learn's TunedThresholdClassifierCV with a scorer that penalises violations of a limit."""
    from sklearn.frozen import FrozenEstimator
    from sklearn.metrics import make_scorer
    from sklearn.model_selection import TunedThresholdClassifierCV

    scored = case.scored

    def answer(goal: Goal) -> Floats:
        def score(y: Any, answers: Any) -> float:
            found = reached(np.asarray(answers, dtype=np.float64), y, case.groups)
            beyond = {
                "odds": found["gap"] - goal.level, "parity": found["spread"] - goal.level,
                "ratio": goal.level - found["ratio"],
            }[goal.kind]  # fmt: skip
            return -found["error"] - 10 * max(0.0, beyond)

        tuned = TunedThresholdClassifierCV(
            FrozenEstimator(scored.model), scoring=make_scorer(score), cv="prefit", refit=False
        )
        tuned.fit(scored.train.X, scored.train.y)
        return np.asarray(tuned.predict(scored.test.X), dtype=np.float64)

    return answer


OPPONENTS: dict[str, Opponent] = {
    "exact program": Opponent(exact, told=True),
    "tailboost": Opponent(_ours(told=True, randomized=False), told=True),
    "tailboost, drawn": Opponent(_ours(told=True, randomized=True), told=True),
    "error-parity": Opponent(error_parity, told=True, kinds=("odds", "parity")),
    "ThresholdOptimizer": Opponent(threshold_optimizer, told=True, kinds=("odds", "parity"), levels=(0.01,)),
    "OxonFair": Opponent(lambda case: _OxonFair(case, told=True), told=True, most_groups=2),
    "tailboost, blind": Opponent(_ours(told=False, randomized=False), told=False),
    "tailboost, blind, drawn": Opponent(_ours(told=False, randomized=True), told=False),
    "OxonFair, groups inferred": Opponent(
        lambda case: _OxonFair(case, told=False), told=False, most_groups=2
    ),
    "ExponentiatedGradient": Opponent(
        reductions, told=False, kinds=("odds", "ratio"), seeds=1, levels=(0.02,)
    ),
    "one threshold": Opponent(one_threshold, told=False, seeds=1),
}
