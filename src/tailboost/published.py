"""The algorithms in the symbols of their papers; each function returns an unfitted classifier.

``estimator`` is the learner, T the number of rounds. Further keyword arguments go to the classifier.
"""

from typing import Any

from tailboost.boosting import (
    AdaBoostClassifier,
    AdaLPBoostClassifier,
    AverageBoostClassifier,
    DROBoostClassifier,
    EBBoostClassifier,
    GroupDROBoostClassifier,
    LPBoostClassifier,
    OCOBoostClassifier,
    SoftMarginBoostClassifier,
    VadaBoostClassifier,
    WorstClassBoostClassifier,
)
from tailboost.boosting.dro import dro_radius, profile_likelihood
from tailboost.boosting.variance import empirical_bernstein_bound, vadaboost_rounds
from tailboost.boosting.worst_class import first_voters, margin_bound
from tailboost.core import Arguments, Model

__all__ = [
    "adaboost",
    "adalpboost",
    "average_boost",
    "dro_boost",
    "dro_radius",
    "ebboost",
    "empirical_bernstein_bound",
    "first_voters",
    "group_dro_boost",
    "lpboost",
    "margin_bound",
    "oco_boost",
    "profile_likelihood",
    "regularized_lpboost",
    "rlp_boost",
    "rqp_boost",
    "vadaboost",
    "vadaboost_rounds",
    "worst_class_boost",
]


# -- Zhai et al. 2021 ------------------------------------------------------------------------------------

# Line 7 of Algorithms 1 and 2 selects λ on validation rows: X_val and y_val of `fit`. Without them it is
# selected on the training rows, as in the experiments on COMPAS.
_LINE_7: Arguments = {"cv": "train", "rank_labels": False}


def adalpboost(
    estimator: Model, alpha: float, *, T: int = 100, eta: float | str = 1.0, **params: Any
) -> AdaLPBoostClassifier:
    """α-AdaLPBoost, Algorithm 2; ``X_val`` and ``y_val`` of `fit` select λ, otherwise the training rows."""
    return AdaLPBoostClassifier(
        estimator, alpha=alpha, n_estimators=T, eta=eta, **_LINE_7 | params
    )


def lpboost(
    estimator: Model, alpha: float, *, T: int | str = 100, **params: Any
) -> LPBoostClassifier:
    """α-LPBoost, Algorithm 1 with the program (5); λ as in `adalpboost`."""
    return LPBoostClassifier(estimator, alpha=alpha, n_estimators=T, **_LINE_7 | params)


def regularized_lpboost(
    estimator: Model,
    alpha: float,
    *,
    beta: float | str = 100.0,
    T: int | str = 100,
    **params: Any,
) -> LPBoostClassifier:
    """Regularised α-LPBoost, Algorithm 1 with the program (8).

    ``beta="theory"`` and ``T="auto"`` are β and T of Theorem 4 for ``delta``.
    """
    return lpboost(estimator, alpha, T=T, beta=beta, **params)


def average_boost(estimator: Model, *, T: int = 100, **params: Any) -> AverageBoostClassifier:
    """AdaBoost + Average, section 3.3, with η of Theorem 5 (``eta="theory"``)."""
    return AverageBoostClassifier(estimator, n_estimators=T, **params)


def group_dro_boost(
    estimator: Model, *, T: int = 100, **params: Any
) -> GroupDROBoostClassifier:
    """Group DRO as boosting, section 3.4; `fit` takes ``groups``. ``eta`` is 1, ``combine`` the average."""
    return GroupDROBoostClassifier(estimator, n_estimators=T, **params)


# -- Shivaswamy and Jebara 2011 --------------------------------------------------------------------------


def adaboost(estimator: Model, *, T: int = 500, **params: Any) -> AdaBoostClassifier:
    """AdaBoost, Algorithm 1."""
    return AdaBoostClassifier(estimator, n_estimators=T, **params)


def vadaboost(
    estimator: Model, lambda_: float, *, T: int = 500, **params: Any
) -> VadaBoostClassifier:
    """VadaBoost, Algorithm 2, 0 ≤ λ ≤ 1.

    The paper stops after 100 rounds without a drop of the validation error: ``n_iter_no_change=100``, with
    ``X_val`` and ``y_val`` in `fit`.
    """
    return VadaBoostClassifier(estimator, variance_weight=lambda_, n_estimators=T, **params)


def ebboost(lambda_: float, *, T: int = 500, **params: Any) -> EBBoostClassifier:
    """EBBoost over all stumps, Algorithm 3, λ ≥ 0."""
    return EBBoostClassifier(variance_weight=lambda_, n_estimators=T, **params)


def rlp_boost(
    estimator: Model, C: float | None = None, *, T: int = 500, **params: Any
) -> SoftMarginBoostClassifier:
    """RLP-Boost, section 6."""
    return SoftMarginBoostClassifier(estimator, loss="linear", C=C, n_estimators=T, **params)


def rqp_boost(
    estimator: Model, C: float | None = None, *, T: int = 500, **params: Any
) -> SoftMarginBoostClassifier:
    """RQP-Boost, section 6."""
    return SoftMarginBoostClassifier(estimator, C=C, n_estimators=T, **params)


# -- Saito et al. 2024 -----------------------------------------------------------------------------------

# Without ``whole`` a learner grows until its hypothesis meets ½ − γ, and all T rounds count.


def worst_class_boost(
    estimator: Model,
    theta: float,
    *,
    gamma: float | str = "auto",
    p: float = 0.8,
    T: int | str = "auto",
    **params: Any,
) -> WorstClassBoostClassifier:
    """Worst-class boosting, Algorithm 1; γ is stated, or (16) for p; T is ⌈2 ln K/γ²⌉."""
    return WorstClassBoostClassifier(
        estimator, theta=theta, gamma=gamma, p=p, n_estimators=T, **{"whole": False, **params}
    )


def oco_boost(
    estimator: Model, gamma: float, *, T: int | str = "auto", **params: Any
) -> OCOBoostClassifier:
    """OCO boosting, the baseline [13]; T is ⌈2 ln n/γ²⌉."""
    return OCOBoostClassifier(
        estimator, gamma=gamma, n_estimators=T, **{"whole": False, **params}
    )


# -- Blanchet et al. 2019 --------------------------------------------------------------------------------


def dro_boost(
    estimator: Model,
    delta: float | str = "auto",
    *,
    T: int = 50,
    d: int | str = "auto",
    **params: Any,
) -> DROBoostClassifier:
    """Distributionally robust boosting, Algorithm 1, in a KL ball of radius δ.

    ``delta="auto"`` is (7) for ``d`` and ``confidence``.
    """
    if delta != "auto" and d != "auto":
        raise ValueError(f"d={d!r} has no effect on delta={delta!r}; leave one out")
    return DROBoostClassifier(
        estimator, radius=delta, n_estimators=T, effective_dim=d, **params
    )
