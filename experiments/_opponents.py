"""Baselines for the worst class or the worst cell of class and group.

Every baseline predicts the test rows and, out of fold, the training rows. Equal rows are in one fold, as in
our cross-fitting. Of 1,119 red wines 119 are copies: the forest's out-of-fold error is .34 with copies in
different folds, and our best candidate has .41 without. Boosters have 100 rounds. Every model is used plain
and with class weights tuned out of fold, for any number of classes. The models of our mixture and their
average are baselines, too.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import StratifiedGroupKFold, cross_val_predict

from experiments._tables import Split
from tailboost.app.baselines import (
    adjusted_answers,
    tune_class_weights,
    weighted_xgboost,
)
from tailboost.classifiers.default_models import default_estimators
from tailboost.learners.named import plain_xgboost

FOLDS = 5
ROUNDS = 100
# Rounds of the reductions approach, with one or two fits each, and trees of its classifier.
REDUCTIONS, SMALL = 20, 30
FEWEST = 30  # a group with fewer rows of a class gets the weights of all rows

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


@dataclass(frozen=True)
class Answers:
    """Predictions of a baseline, as class numbers.

    Parameters
    ----------
    test, out_of_fold : ndarray of shape (n_test,) and (n_train,)
        Answers for the test rows, and for the training rows out of fold.
    seconds : float
        Processor seconds of all fits, with the fits of folds if necessary.
    """

    test: Ints
    out_of_fold: Ints
    seconds: float


@dataclass
class _Probabilities:
    """Class probabilities of one classifier, refit for the test rows and out of fold."""

    test: Floats
    out_of_fold: Floats
    refit_seconds: float
    fold_seconds: float

    @property
    def plain(self) -> Answers:
        return Answers(self.test.argmax(axis=1), self.out_of_fold.argmax(axis=1), self.refit_seconds)

    @property
    def seconds(self) -> float:
        return self.refit_seconds + self.fold_seconds


@dataclass(frozen=True)
class Bench:
    """The rows of one split and common parts of all baselines.

    Parameters
    ----------
    rows : Split
    groups, test_groups : ndarray of shape (n,) or None
        Group of each training and test row.
    seed, n_jobs : int
    """

    rows: Split
    groups: Any
    test_groups: Any
    seed: int
    n_jobs: int = 1
    _fitted: dict[str, _Probabilities] = field(default_factory=dict)

    @cached_property
    def folds(self) -> list[tuple[Ints, Ints]]:
        """Rows to fit on and rows to answer, for each fold; the same for all."""
        train = self.rows.train
        row = np.unique(train.X, axis=0, return_inverse=True)[1].ravel()
        folds = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=self.seed)
        return list(folds.split(train.X, train.y, row))

    def probabilities(self, title: str, make: Callable[[], Any]) -> _Probabilities:
        """Fit a classifier on the folds' complements and on all rows, once."""
        if title not in self._fitted:
            train, test = self.rows.train, self.rows.test
            began = time.process_time()
            P = cross_val_predict(make(), train.X, train.y, cv=self.folds, method="predict_proba")
            middle = time.process_time()
            Q = make().fit(train.X, train.y).predict_proba(test.X)
            refit = time.process_time() - middle
            self._fitted[title] = _Probabilities(Q, P, refit, middle - began)
        return self._fitted[title]


def single(bench: Bench) -> dict[str, Callable[[], Any]]:
    """Return constructors of the plain classifiers by title.

    Raises
    ------
    ImportError
        Without CatBoost, imbalanced-learn, LightGBM or XGBoost.
    """
    from catboost import CatBoostClassifier
    from imblearn.ensemble import BalancedRandomForestClassifier, EasyEnsembleClassifier
    from lightgbm import LGBMClassifier

    common: dict[str, Any] = {"random_state": bench.seed, "n_jobs": bench.n_jobs}
    own = dict(default_estimators())
    return {
        "XGBoost": lambda: plain_xgboost(**common),
        "XGBoost, balanced": lambda: weighted_xgboost(**common),
        "LightGBM": lambda: LGBMClassifier(verbose=-1, **common),
        "HistGB": lambda: HistGradientBoostingClassifier(random_state=bench.seed),
        "forest": lambda: RandomForestClassifier(**common),
        "balanced forest": lambda: BalancedRandomForestClassifier(**common),
        "EasyEnsemble": lambda: EasyEnsembleClassifier(**common),
        "CatBoost": lambda: CatBoostClassifier(
            iterations=ROUNDS, verbose=False, allow_writing_files=False,
            random_seed=bench.seed, thread_count=bench.n_jobs,
        ),
        **{title: partial(_seeded, own[name], common) for title, name in OF_MIXTURE.items() if name in own},
    }  # fmt: skip


def _seeded(estimator: Any, params: dict[str, Any]) -> Any:
    return clone(estimator).set_params(**params)


#: Titles of the models of our mixture, with their names in the mixture.
OF_MIXTURE = {
    "boosted trees": "boosted", "forest, leaves of 2": "forest", "extra trees": "extra",
    "XGBoost": "XGBoost", "LightGBM": "LightGBM",
}  # fmt: skip
#: Averages of models by title: a common choice, and the models of our mixture.
AVERAGES = {
    "average": ("XGBoost", "LightGBM", "forest"),
    "average of our five": tuple(OF_MIXTURE),
}
#: Baselines for groups: none for classes alone.
FOR_GROUPS = (
    "average, tuned per group",
    "ThresholdOptimizer",
    "ThresholdOptimizer, balanced accuracy",
    "ExponentiatedGradient",
    "XGBoost, cell weights",
)


def opponent_probabilities(bench: Bench, only: Collection[str] = ()) -> dict[str, _Probabilities]:
    """Return the probabilities of the models and averages by title, or of those in ``only``."""
    wanted = {title: make for title, make in single(bench).items() if not only or title in only}
    found = {title: bench.probabilities(title, make) for title, make in wanted.items()}
    found |= {
        # A model may have left our mixture since the averages were named.
        title: _average([found[of] for of in models if of in found])
        for title, models in AVERAGES.items()
        if not only or title in only
    }
    return found


def opponents(bench: Bench, only: Collection[str] = ()) -> Iterator[tuple[str, Answers]]:
    """Yield title and predictions of every baseline, or of the models in ``only``.

    Baselines for groups come last, if there are groups and no ``only``.
    """
    found = opponent_probabilities(bench, only)
    for title, p in found.items():
        yield title, p.plain
        yield f"{title}, tuned", _tuned(bench, p)
    if bench.groups is not None and not only:
        yield "average, tuned per group", _tuned_per_group(bench, found["average"])
        yield from _of_fairlearn(bench, found["average"])
        yield "XGBoost, cell weights", _fitted_to_groups(bench, weighted_xgboost)


def _average(each: list[_Probabilities]) -> _Probabilities:
    return _Probabilities(
        np.mean([p.test for p in each], axis=0),
        np.mean([p.out_of_fold for p in each], axis=0),
        sum(p.refit_seconds for p in each),
        sum(p.fold_seconds for p in each),
    )


def _tuned(bench: Bench, p: _Probabilities) -> Answers:
    began = time.process_time()
    weights, *_ = tune_class_weights(p.out_of_fold, bench.rows.train.y)
    seconds = p.seconds + time.process_time() - began
    return Answers(adjusted_answers(p.test, weights), adjusted_answers(p.out_of_fold, weights), seconds)


def tune_group_weights(P: Any, y: Any, groups: Any) -> dict[Any, Floats]:
    """Return log class weights of each group with at least 30 rows of each class."""
    by_group = {}
    for name in np.unique(groups):
        rows = groups == name
        if np.bincount(y[rows], minlength=P.shape[1]).min() >= FEWEST:
            by_group[name.item()] = tune_class_weights(P[rows], y[rows])[0]
    return by_group


def _tuned_per_group(bench: Bench, p: _Probabilities) -> Answers:
    """Tune each group for itself; the group is known at prediction."""
    began = time.process_time()
    weights = tune_group_weights(p.out_of_fold, bench.rows.train.y, bench.groups)
    everyone = tune_class_weights(p.out_of_fold, bench.rows.train.y)[0]
    test, out_of_fold = (
        adjusted_answers(P, np.array([weights.get(name, everyone) for name in groups.tolist()]))
        for P, groups in ((p.test, bench.test_groups), (p.out_of_fold, bench.groups))
    )
    return Answers(test, out_of_fold, p.seconds + time.process_time() - began)


class _Given(ClassifierMixin, BaseEstimator):
    """Stored probabilities: X is the column of the second class."""

    def fit(self, X: Any, y: Any) -> _Given:
        """Learn nothing."""
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return them."""
        p = np.asarray(X)[:, 0]
        return np.column_stack([1 - p, p])

    def predict(self, X: Any) -> Ints:
        """Return the likelier class."""
        return self.predict_proba(X).argmax(axis=1)


def _of_fairlearn(bench: Bench, p: _Probabilities) -> Iterator[tuple[str, Answers]]:
    """Yield fairlearn's thresholds per group, for equalised odds, and its reductions approach."""
    from fairlearn.postprocessing import ThresholdOptimizer

    y = bench.rows.train.y
    for objective in ("accuracy_score", "balanced_accuracy_score"):
        began = time.process_time()
        given = _Given().fit(p.out_of_fold, y)
        fair = ThresholdOptimizer(
            estimator=given, constraints="equalized_odds", objective=objective, prefit=True,
            predict_method="predict_proba",
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fair.fit(p.out_of_fold[:, 1:], y, sensitive_features=bench.groups)
            test, out_of_fold = (
                np.asarray(fair.predict(P[:, 1:], sensitive_features=groups, random_state=bench.seed))
                for P, groups in ((p.test, bench.test_groups), (p.out_of_fold, bench.groups))
            )
        seconds = p.seconds + time.process_time() - began
        title = "ThresholdOptimizer" + ", balanced accuracy" * objective.startswith("balanced")
        yield title, Answers(test, out_of_fold, seconds)
    yield "ExponentiatedGradient", _fitted_to_groups(bench, _Reductions)


class _Reductions:
    """fairlearn's ExponentiatedGradient for equalised odds, on small boosted trees; randomised."""

    def __init__(self, *, random_state: int, n_jobs: int) -> None:
        from fairlearn.reductions import EqualizedOdds, ExponentiatedGradient

        trees = plain_xgboost(random_state=random_state, n_jobs=n_jobs, n_estimators=SMALL, max_depth=4)
        self.model = ExponentiatedGradient(trees, EqualizedOdds(), max_iter=REDUCTIONS)
        self.seed = random_state

    def fit(self, X: Any, y: Ints, groups: Any) -> _Reductions:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model.fit(X, y, sensitive_features=groups)
        return self

    def predict(self, X: Any) -> Ints:
        return np.asarray(self.model.predict(X, random_state=self.seed))


def _fitted_to_groups(bench: Bench, kind: Callable[..., Any]) -> Answers:
    """Fit a classifier with the groups of the training rows: on all rows, and on the folds' complements."""
    train, groups = bench.rows.train, bench.groups
    make = partial(kind, random_state=bench.seed, n_jobs=bench.n_jobs)
    began = time.process_time()
    fitted = make().fit(train.X, train.y, groups)
    seconds = time.process_time() - began
    out_of_fold = np.empty_like(train.y)
    for inside, outside in bench.folds:
        part = make().fit(train.X[inside], train.y[inside], groups[inside])
        out_of_fold[outside] = part.predict(train.X[outside])
    return Answers(fitted.predict(bench.rows.test.X), out_of_fold, seconds)
