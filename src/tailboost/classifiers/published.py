"""The algorithms of the papers with the papers' settings, one function each.

Every function returns a classifier of this library that is configured as its paper prints the algorithm.
Parameters bear the paper's symbols, such as ``T`` for the number of rounds. ``estimator`` is the learner or
its name; EBBoost has none.
Further keyword arguments, such as ``random_state``, go to the classifier, which is returned unfitted. The
learner gets the weights w of the paper unrounded, as n·w, so that their mean is 1 as without weights. The
page ``docs/published.md`` gives the equations, and how the defaults of the classes differ.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.validation import check_is_fitted

from tailboost.classifiers import (
    AdaBoostClassifier,
    AdaLPBoostClassifier,
    AverageBoostClassifier,
    DROBoostClassifier,
    EBBoostClassifier,
    GroupDROBoostClassifier,
    LPBoostClassifier,
    OCOBoostClassifier,
    RegularizedLPBoostClassifier,
    SoftMarginBoostClassifier,
    VadaBoostClassifier,
    WorstClassBoostClassifier,
)
from tailboost.classifiers.base import BaseBoostClassifier
from tailboost.classifiers.boosting_fit import set_rule
from tailboost.core.array_types import Column, Model, Table
from tailboost.core.checks import check_number
from tailboost.core.spelling import with_known_arguments

__all__ = [
    "adaboost",
    "adalpboost",
    "average_boost",
    "dro_boost",
    "ebboost",
    "first_voters",
    "group_dro_boost",
    "lpboost",
    "oco_boost",
    "regularized_lpboost",
    "rlp_boost",
    "rqp_boost",
    "vadaboost",
    "worst_class_boost",
]


_ROUNDS = "here it is T=; "
_T_OF_GAMMA = "T = ⌈2 ln K / γ²⌉ follows from gamma=; n_estimators= takes another number; "
_STUMPS = "EBBoost takes the best of all decision stumps and no learner; "
# Learners get the weights unrounded.
_EXACT: dict[str, Any] = {"exact_weights": True}
# Additive games: learners get exact weights, and a drop of the validation error of any size counts.
_ADDITIVE: dict[str, Any] = {"tol": 0.0, **_EXACT}
# All T rounds are played, and only the T hypotheses are mixed.
_ALL_ROUNDS: dict[str, Any] = {"include_constants": False, "n_iter_no_change": None, **_EXACT}
# Parameters of the classifiers that the papers' functions name otherwise.
_NAMES_IN_PAPERS = {
    "n_estimators": "T",
    "variance_weight": "lambda_",
    "radius": "delta",
    "effective_dim": "d",
    "q": "p",
}
P = ParamSpec("P")
C = TypeVar("C", bound=BaseBoostClassifier)


def _naming_parameters(function: Callable[P, C]) -> Callable[P, C]:
    """Return a paper's function that refuses wrong parameters by the names that it gives them."""

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> C:
        classifier = function(*args, **kwargs)
        try:
            classifier._validate_params()
        except InvalidParameterError as error:
            message = str(error).replace(type(classifier).__name__, function.__name__, 1)
            for name, name_in_paper in _NAMES_IN_PAPERS.items():
                message = message.replace(f"The {name!r}", f"The {name_in_paper!r}", 1)
            raise InvalidParameterError(message) from None
        return classifier

    return checked


@with_known_arguments(AdaLPBoostClassifier, n_estimators=_ROUNDS)
@_naming_parameters
def adalpboost(
    estimator: Model,
    alpha: float,
    *,
    T: int = 100,
    eta: float | str = 1.0,
    cv: object = "train",
    **params: object,
) -> AdaLPBoostClassifier:
    """Return α-AdaLPBoost, Algorithm 2 of Zhai et al. 2021.

    Parameters
    ----------
    estimator, T, **params
        The learner, the number of rounds, and further parameters of `AdaLPBoostClassifier`.
    alpha : float in (0, 1]
        α, the tail mass.
    eta : float or "theory"
        η, the step size of Hedge; the paper takes 1. "theory" is √(8 log n / T).
    cv : {"train", "auto"}, int, float or splitter
        Rows on which λ is selected. Line 7 of the algorithm has a validation set: set "auto" and pass
        ``X_val`` and ``y_val`` to `fit`. "train" is the exception of section 4.1 for COMPAS, a small table.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tailboost import published
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = published.adalpboost("tree", alpha=0.3, T=20, random_state=0).fit(X, y)
    >>> clf.n_iter_
    20
    """
    return AdaLPBoostClassifier(
        estimator, alpha=alpha, n_estimators=T, eta=eta, cv=cv, **_ALL_ROUNDS | params
    )


@with_known_arguments(LPBoostClassifier, n_estimators=_ROUNDS)
@_naming_parameters
def lpboost(
    estimator: Model, alpha: float, *, T: int = 100, cv: object = "train", **params: object
) -> LPBoostClassifier:
    """Return α-LPBoost, Algorithm 1 of Zhai et al. 2021.

    Of several maximisers of the dual program (5), the weights closest to the uniform ones are taken. The
    paper leaves the choice open.

    Parameters
    ----------
    estimator, T, **params
        The learner, the number of rounds, and further parameters of `LPBoostClassifier`.
    alpha : float in (0, 1]
        α, the tail mass.
    cv : {"train", "auto"}, int, float or splitter
        Rows on which λ is selected, as in `adalpboost`.
    """
    return LPBoostClassifier(
        estimator, alpha=alpha, n_estimators=T, cv=cv, **_ALL_ROUNDS | params
    )


@with_known_arguments(RegularizedLPBoostClassifier, n_estimators=_ROUNDS)
@_naming_parameters
def regularized_lpboost(
    estimator: Model,
    alpha: float,
    *,
    beta: float | str = 100.0,
    T: int | str = 100,
    delta: float = 0.1,
    cv: object = "train",
    **params: object,
) -> RegularizedLPBoostClassifier:
    """Return regularised α-LPBoost, Algorithm 1 of Zhai et al. 2021 with the weights of (8).

    Parameters
    ----------
    estimator, **params
        The learner, and further parameters of `RegularizedLPBoostClassifier`.
    alpha : float in (0, 1]
        α, the tail mass.
    beta : float or "theory"
        β, the inverse strength of the entropy term; the paper takes 100. "theory" is the β of Theorem 4.
    T : int or "auto"
        Number of rounds; "auto" is the T of equation (9), for the δ of Theorem 4.
    delta : float in (0, 1)
        δ of Theorem 4, for ``beta="theory"`` and ``T="auto"``.
    cv : {"train", "auto"}, int, float or splitter
        Rows on which λ is selected, as in `adalpboost`.
    """
    return RegularizedLPBoostClassifier(
        estimator,
        alpha=alpha,
        beta=beta,
        n_estimators=T,
        delta=delta,
        cv=cv,
        **_ALL_ROUNDS | params,
    )


@with_known_arguments(AverageBoostClassifier, n_estimators=_ROUNDS)
@_naming_parameters
def average_boost(
    estimator: Model, *, T: int = 100, eta: float | str = "theory", **params: object
) -> AverageBoostClassifier:
    """Return AdaBoost + Average of Zhai et al. 2021, section 3.3.

    Parameters
    ----------
    estimator, T, **params
        The learner, the number of rounds, and further parameters of `AverageBoostClassifier`.
    eta : float or "theory"
        η, the step size of Hedge. "theory" is √(8 log n / T), the step size of Theorem 5.
    """
    return AverageBoostClassifier(estimator, n_estimators=T, eta=eta, **_EXACT | params)


@with_known_arguments(AdaBoostClassifier, n_estimators=_ROUNDS)
@_naming_parameters
def adaboost(estimator: Model, *, T: int = 500, **params: object) -> AdaBoostClassifier:
    """Return AdaBoost, Algorithm 1 of Shivaswamy and Jebara 2011.

    Rounds end as in `vadaboost`. By Corollary 2 of Blanchet et al. 2019 this is also distributionally robust
    boosting with the loss −y f: its worst-case weights are those of AdaBoost.

    Parameters
    ----------
    estimator, **params
        The learner, and further parameters of `AdaBoostClassifier`.
    T : int
        Largest number of rounds. The fit ends earlier at a step α ≤ 0.
    """
    return AdaBoostClassifier(estimator, n_estimators=T, **_ADDITIVE | params)


@with_known_arguments(SoftMarginBoostClassifier, n_estimators=_ROUNDS)
@_naming_parameters
def rlp_boost(
    estimator: Model, C: float | None = None, *, T: int = 500, **params: object
) -> SoftMarginBoostClassifier:
    """Return RLP-Boost of Shivaswamy and Jebara 2011, section 6: a linear program on AdaBoost's hypotheses.

    The program is that of Rätsch et al. 2001, with a soft margin. Weights no better than constants are
    refused with a warning.

    Parameters
    ----------
    estimator, **params
        The learner, and further parameters of `SoftMarginBoostClassifier`.
    C : float > 0, optional
        The regularisation parameter, the price of slack of a row. None selects among six values by the error
        on validation rows, as the paper does: pass ``X_val`` and ``y_val`` to `fit`.
    T : int
        Largest number of rounds of AdaBoost, which end as in `vadaboost`.
    """
    return SoftMarginBoostClassifier(
        estimator, n_estimators=T, loss="linear", C=C, **_ADDITIVE | params
    )


@with_known_arguments(SoftMarginBoostClassifier, n_estimators=_ROUNDS)
@_naming_parameters
def rqp_boost(
    estimator: Model, C: float | None = None, *, T: int = 500, **params: object
) -> SoftMarginBoostClassifier:
    """Return RQP-Boost of Shivaswamy and Jebara 2011, section 6: `rlp_boost` with a quadratic program.

    Parameters
    ----------
    estimator, **params
        The learner, and further parameters of `SoftMarginBoostClassifier`.
    C : float > 0, optional
        The regularisation parameter, the price of slack of a row. None selects between two values by the
        error on validation rows: pass ``X_val`` and ``y_val`` to `fit`.
    T : int
        Largest number of rounds of AdaBoost, which end as in `vadaboost`.
    """
    return SoftMarginBoostClassifier(
        estimator, n_estimators=T, loss="quadratic", C=C, **_ADDITIVE | params
    )


@with_known_arguments(
    VadaBoostClassifier, n_estimators=_ROUNDS, variance_weight="here it is lambda_=; "
)
@_naming_parameters
def vadaboost(
    estimator: Model, lambda_: float, *, T: int = 500, **params: object
) -> VadaBoostClassifier:
    """Return VadaBoost, Algorithm 2 of Shivaswamy and Jebara 2011.

    The paper selects λ on validation rows, a fixed quarter of the data (section 6). It stops after 100 rounds
    without a drop of the error on them: ``n_iter_no_change=100`` with ``X_val`` and ``y_val`` in `fit` does
    so, and keeps the rounds up to the smallest error. The paper does not say which rounds it keeps. Without
    ``X_val`` the fit holds out a fifth of its rows instead.

    Parameters
    ----------
    estimator, **params
        The learner, and further parameters of `VadaBoostClassifier`.
    lambda_ : float in [0, 1]
        λ, the weight of the variance.
    T : int
        Largest number of rounds. The fit ends earlier at a step α ≤ 0.
    """
    return VadaBoostClassifier(
        estimator, variance_weight=lambda_, n_estimators=T, **_ADDITIVE | params
    )


@with_known_arguments(
    EBBoostClassifier,
    n_estimators=_ROUNDS,
    variance_weight="here it is lambda_=; ",
    estimator=_STUMPS,
)
@_naming_parameters
def ebboost(lambda_: float, *, T: int = 500, **params: object) -> EBBoostClassifier:
    """Return EBBoost, Algorithm 3 of Shivaswamy and Jebara 2011.

    Each round takes the best of all decision stumps, so there is no learner to choose. Rounds end as in
    `vadaboost`.

    Parameters
    ----------
    lambda_ : float ≥ 0
        λ, the weight of the variance.
    T : int
        Largest number of rounds.
    **params
        Further parameters of `EBBoostClassifier`.
    """
    check_number(lambda_, "lambda_", 0, closed=True)
    return EBBoostClassifier(variance_weight=lambda_, n_estimators=T, **_ADDITIVE | params)


@with_known_arguments(
    WorstClassBoostClassifier,
    T=_T_OF_GAMMA,
    max_error="here it is theta=, which is 1 - max_error; ",
    q="here it is p=; ",
)
@_naming_parameters
def worst_class_boost(
    estimator: Model,
    theta: float,
    *,
    gamma: float | str = "auto",
    p: float = 0.8,
    **params: object,
) -> WorstClassBoostClassifier:
    """Return worst-class boosting, Algorithm 1 of Saito et al. 2024.

    The number of rounds is T = ⌈2 ln K / γ²⌉ and the step size η = √(8 ln K / T). The class errors of the
    training rows decide the loss of each class, equation (6). The game ends early if the learner misses the
    weak-learning condition. γ = ½ is the baseline "0.5-DNN": the first hypothesis must be good enough on all
    classes.

    Parameters
    ----------
    estimator : classifier or str
        The learner. Learners that can grow, such as forests, grow until w·r ≥ ½ + γ, for weights w and
        rewards r = 1 − loss of the classes.
    theta : float in [0, 1)
        θ. The loss of a class is 1 if its error is at least 1 − θ.
    gamma : float in (0, 0.5] or "auto"
        γ of the weak-learning condition. "auto" is equation (16), ⌊pK⌋/K − ½ − .0005.
    p : float in (0.5, 1]
        p of equation (16), a fraction of the classes, for ``gamma="auto"``; the parameter ``q`` of the
        classifier. Two classes need p = 1, with γ = .4995.
    **params
        Further parameters of `WorstClassBoostClassifier`.
    """
    check_number(
        theta, "theta, the accuracy that each class needs,", 0, 1, closed=True, below=True
    )
    published = {
        "class_loss": "indicator",
        "combine": "vote",
        "cv": "train",
        "min_subgroup_rows": 1,
        "shrinkage": 0.0,
        "n_iter_no_change": None,
        **_EXACT,
    }
    # The value of 1 − θ is rounded, because it has floating-point errors: 1 - 0.9 is 0.09999999999999998.
    return WorstClassBoostClassifier(
        estimator, max_error=round(1 - theta, 9), gamma=gamma, q=p, **published | params
    )


def first_voters(
    clf: WorstClassBoostClassifier, X_val: Table, y_val: Column
) -> WorstClassBoostClassifier:
    """Return the vote of the first T* rounds, as in the published code of Saito et al. 2024.

    T* is the number of rounds with the smallest largest class error on validation rows, of equal errors the
    last. The text lets all T rounds vote. Nothing is trained.

    Parameters
    ----------
    clf : WorstClassBoostClassifier
        Fitted classifier that votes, such as that of `worst_class_boost`.
    X_val, y_val : array-like
        Validation rows and their labels, with rows of every class.

    Returns
    -------
    WorstClassBoostClassifier
        A copy with the weights 1/T* for the first T* hypotheses. The given one is unchanged.

    Raises
    ------
    NotFittedError
        If ``clf`` is not fitted.
    ValueError
        If a class has no row in ``y_val``.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tailboost import published
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = published.worst_class_boost("tree", theta=0.3, gamma=0.16, random_state=0)
    >>> clf = published.first_voters(clf.fit(X[::2], y[::2]), X[1::2], y[1::2])
    >>> int((clf.estimator_weights_ > 0).sum()) <= clf.n_iter_
    True
    """
    check_is_fitted(clf)
    y_val = np.asarray(y_val)
    absent = [label for label in clf.classes_.tolist() if label not in y_val]
    if absent:
        raise ValueError(f"y_val: no row of class {', '.join(map(str, absent))}")

    rows_by_class = [np.flatnonzero(y_val == label) for label in clf.classes_]
    largest_errors = []  # after each number of rounds
    for answers in clf.staged_predict(X_val):
        is_wrong = answers != y_val
        class_errors = [float(np.mean(is_wrong[rows])) for rows in rows_by_class]
        largest_errors.append(max(class_errors))
    best_rounds = np.flatnonzero(np.equal(largest_errors, min(largest_errors)))
    n_voters = int(best_rounds[-1]) + 1  # rounds are counted from 1

    weights = np.zeros(len(clf.estimator_weights_))
    weights[:n_voters] = 1.0 / n_voters
    voting_clf = copy.copy(clf)
    set_rule(voting_clf, clf.selection_, ensemble=clf.selection_.pool.rule(weights))
    return voting_clf


@with_known_arguments(OCOBoostClassifier, n_estimators=_ROUNDS)
@_naming_parameters
def oco_boost(
    estimator: Model, gamma: float, *, T: int | str = "auto", **params: object
) -> OCOBoostClassifier:
    """Return boosting by online convex optimisation, the baseline [13] of Saito et al. 2024 (see Hazan 2022).

    Hedge weighs the rows with η = √(8 ln n / T). All rounds vote.

    Parameters
    ----------
    estimator : classifier or str
        The learner. Learners that can grow, such as forests, grow until their weighted error is at most
        ½ − γ.
    gamma : float in (0, 0.5]
        γ of the weak-learning condition. Table XI of Saito et al. 2024 has .1995 and .2995 for images. The
        number of fits is ⌈2 ln n / γ²⌉ if the learner meets the condition.
    T : int or "auto"
        Number of rounds; "auto" is ⌈2 ln n / γ²⌉.
    **params
        Further parameters of `OCOBoostClassifier`.
    """
    return OCOBoostClassifier(estimator, gamma=gamma, n_estimators=T, **_EXACT | params)


@with_known_arguments(
    DROBoostClassifier,
    n_estimators=_ROUNDS,
    radius="here it is delta=; ",
    effective_dim="here it is d=; ",
)
@_naming_parameters
def dro_boost(
    estimator: Model,
    delta: float | str = "auto",
    *,
    T: int = 50,
    d: int | str = "auto",
    confidence: float = 0.95,
    **params: object,
) -> DROBoostClassifier:
    """Return distributionally robust boosting, Algorithm 1 of Blanchet et al. 2019.

    The paper has two classes. More classes are our extension: the loss takes the score of the true class, in
    the place of y f; scores sum to 0.

    Parameters
    ----------
    estimator : classifier, regressor or str
        The learner. A regressor makes each step the best approximation of the functional gradient.
    delta : float ≥ 0 or "auto"
        δ, the radius of the ball in KL divergence. "auto" is χ²_{d; confidence} / (2n).
    T : int
        Largest number of rounds. The fit ends earlier if no step lowers the worst case.
    d : int or "auto"
        Effective dimensions, for ``delta="auto"``. The paper takes about 30 for trees of five levels; "auto"
        counts the leaves of the first tree.
    confidence : float in (0, 1)
        Confidence 1 − a, for ``delta="auto"``; the paper takes 95 %.
    **params
        Further parameters of `DROBoostClassifier`.
    """
    if delta != "auto" and d != "auto":
        raise ValueError(
            f"d={d!r} is for delta='auto', and has no effect on delta={delta!r}; leave one out"
        )
    return DROBoostClassifier(
        estimator,
        radius=delta,
        n_estimators=T,
        effective_dim=d,
        confidence=confidence,
        **_ADDITIVE | params,
    )


@with_known_arguments(GroupDROBoostClassifier, n_estimators=_ROUNDS)
@_naming_parameters
def group_dro_boost(
    estimator: Model,
    *,
    T: int = 100,
    eta: float | str = 1.0,
    combine: str = "average",
    **params: object,
) -> GroupDROBoostClassifier:
    """Return group DRO as boosting: Hedge over groups, as Zhai et al. 2021, section 3.4, propose.

    Pass the groups of the training rows to `fit`. The section prints neither T nor η: the defaults are those
    of its experiments with AdaLPBoost (section 4.1).

    Parameters
    ----------
    estimator, T, **params
        The learner, the number of rounds, and further parameters of `GroupDROBoostClassifier`.
    eta : float or "theory"
        η, the step size of Hedge over the mean losses of the groups. "theory" is √(8 log m / T) for m groups.
    combine : {"average", "mixture"}
        The average of all rounds, as in group DRO (Sagawa et al. 2020), or the λ with the smallest
        worst-group error, as the section of Zhai et al. 2021 suggests.
    """
    # Groups are neither pooled nor shrunk: their weights are those of Hedge on their mean losses.
    published = {
        "cv": "train",
        "min_subgroup_rows": 1,
        "shrinkage": 0.0,
        **_ALL_ROUNDS,
    }
    return GroupDROBoostClassifier(
        estimator, n_estimators=T, eta=eta, combine=combine, **published | params
    )
