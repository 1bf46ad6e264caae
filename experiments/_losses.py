"""The papers' losses for nets on unbalanced classes; `tailboost.torch.losses` has the usual ones.

``TorchClassifier(loss=cvar_doro)`` takes any of them. A loss with a parameter ``class_counts`` gets the
counts of the training rows, and a loss with ``features`` the input of the last layer. Logits have shape (m,
K), class numbers y (m,) and counts (K,).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from tailboost.core.checks import check_number
from tailboost.learners.torch import losses
from tailboost.learners.torch.losses import focal_terms


def class_balanced(logits: Tensor, y: Tensor, class_counts: Tensor, *, beta: float = 0.9999) -> Tensor:
    """Cross-entropy weighted by (1 − β) / (1 − β^{n_y}), the inverse effective number of rows (CB) [1]_.

    Parameters
    ----------
    beta : float in [0, 1)
        0 is cross-entropy; towards 1 the weights are proportional to "weighted_cross_entropy"'s.
        Their sum is K.

    References
    ----------
    .. [1] Y. Cui et al., "Class-Balanced Loss Based on Effective Number of Samples", CVPR 2019.
    """
    return (_effective_weights(class_counts.to(logits), beta)[y] * _cross_entropies(logits, y)).mean()


def influence_balanced(
    logits: Tensor,
    y: Tensor,
    class_counts: Tensor,
    *,
    features: Tensor | None = None,
    alpha: float | None = None,
    epsilon: float = 1e-3,
) -> Tensor:
    """Cross-entropy divided by the row's influence on the last layer (IB) [1]_.

    The mean of −λ_y log p_y · α / (‖p − e_y‖₁ ‖h‖₁ + ε), λ_k ∝ 1/n_k with sum K, h the input of the last
    layer from `TorchClassifier`. As a loss of logits alone, ‖h‖₁ is 1: the influence
    on the last layer's bias. [1]_ trains with cross-entropy first and uses this loss later.

    Parameters
    ----------
    features : Tensor of shape (m, …), default=None
        h, for the loss as published.
    alpha : float > 0, optional
        Scale of the loss: None means the published 1000 with features, which offsets the size of ‖h‖₁, and
        1 without.
    epsilon : float > 0
        Keeps the factor finite for perfectly fitted rows.

    References
    ----------
    .. [1] S. Park et al., "Influence-Balanced Loss for Imbalanced Visual Classification", ICCV
       2021.
    """
    factor = _inverse_influence(logits, y, features, alpha, epsilon)
    return (_inverse_counts(class_counts.to(logits))[y] * factor * _cross_entropies(logits, y)).mean()


def influence_balanced_cb(
    logits: Tensor, y: Tensor, class_counts: Tensor, *, features: Tensor | None = None
) -> Tensor:
    """`influence_balanced` with the weights of `class_balanced` in place of the inverse counts (IB + CB)."""
    weight = _effective_weights(class_counts.to(logits), 0.9999)
    return (weight[y] * _inverse_influence(logits, y, features) * _cross_entropies(logits, y)).mean()


def influence_balanced_focal(
    logits: Tensor, y: Tensor, class_counts: Tensor, *, features: Tensor | None = None
) -> Tensor:
    """`influence_balanced` of the focal loss, γ = 1, in place of the cross-entropy (IB + focal)."""
    terms = focal_terms(_cross_entropies(logits, y), 1.0)
    return (
        _inverse_counts(class_counts.to(logits))[y] * _inverse_influence(logits, y, features) * terms
    ).mean()


def class_dependent_temperature(
    logits: Tensor, y: Tensor, class_counts: Tensor, *, gamma: float = 0.3
) -> Tensor:
    """Cross-entropy of z_k / a_k, with temperatures a_k = (n_max / n_k)^γ (CDT) [1]_.

    Parameters
    ----------
    gamma : float ≥ 0
        0 is cross-entropy. [1]_ tunes γ for each data set; [2]_ uses 0.3.

    References
    ----------
    .. [1] H.-J. Ye et al., "Identifying and Compensating for Feature Deviation in Imbalanced Deep Learning",
       2020.
    .. [2] G. R. Kini et al., "Label-Imbalanced and Group-Sensitive Classification under
       Overparameterization", NeurIPS 2021.
    """
    return functional.cross_entropy(logits * _temperature(class_counts.to(logits), gamma), y)


def vector_scaling(
    logits: Tensor, y: Tensor, class_counts: Tensor, *, tau: float = 1.25, gamma: float = 0.15
) -> Tensor:
    """Cross-entropy of Δ_k z_k + τ log π_k, with Δ_k = (n_k / n_max)^γ (VS) [1]_.

    Parameters
    ----------
    tau : float ≥ 0
        Additive part; with γ = 0 the loss is `tailboost.torch.losses.logit_adjustment`.
    gamma : float ≥ 0
        Multiplicative part; with τ = 0 the loss is `class_dependent_temperature`.

    References
    ----------
    .. [1] G. R. Kini et al., "Label-Imbalanced and Group-Sensitive Classification under
       Overparameterization", NeurIPS 2021, eq. (2), with its constants for CIFAR-10.
    """
    counts = class_counts.to(logits)
    return functional.cross_entropy(
        logits * _temperature(counts, gamma) + tau * torch.log(counts / counts.sum()), y
    )


def naive(
    logits: Tensor, y: Tensor, class_counts: Tensor | None = None, *, by_accuracy: bool = False
) -> Tensor:
    """Mean cross-entropy of the worst class in the batch; absent classes are ignored [1]_.

    Parameters
    ----------
    by_accuracy : bool
        Whether the worst class is the one with the lowest accuracy in the batch, as in the code of [1]_. By
        default it is the class with the largest mean cross-entropy, as in the text.

    References
    ----------
    .. [1] Y. Saito et al., "Bounding the Worst-class Error: A Boosting Approach", 2024.
    """
    # `bincount` would wait for a GPU, and `index_add` would sum in a varying order.
    belongs = y[:, None] == torch.arange(logits.shape[1], device=y.device)
    rows = belongs.sum(0)

    def of_classes(values: Tensor) -> Tensor:
        total = torch.where(belongs, values[:, None], 0).sum(0)
        return torch.where(rows > 0, total / rows.clamp(min=1), -torch.inf)

    losses = of_classes(_cross_entropies(logits, y))
    if not by_accuracy:
        return losses.max()
    return losses[of_classes((logits.argmax(1) != y).to(logits)).argmax()]


def cvar_doro(
    logits: Tensor,
    y: Tensor,
    class_counts: Tensor | None = None,
    *,
    alpha: float = 0.5,
    outlier_fraction: float = 0.1,
) -> Tensor:
    """CVaR of the batch's cross-entropies without the highest ones (CVaR-DORO) [1]_.

    The fraction ε with the highest losses is left out: their labels may be wrong. The loss is the mean of
    the worst fraction α of the rest; other rows of the batch have no gradient. Rows at the two edges count
    partially; the published code rounds to whole rows.

    Parameters
    ----------
    alpha : float in (0, 1]
        α; 1 is the mean of the rest.
    outlier_fraction : float in [0, 1)
        ε; 0 is the CVaR of the whole batch, and with α = 1 cross-entropy.

    Raises
    ------
    ValueError
        If α or ε is outside its range.

    References
    ----------
    .. [1] R. Zhai et al., "DORO: Distributional and Outlier Robust Optimization", ICML 2021, Algorithm 1.
    """
    check_number(alpha, "alpha", 0, 1)
    check_number(outlier_fraction, "outlier_fraction", 0, 1, closed=True, below=True)
    losses = _cross_entropies(logits, y).sort(descending=True).values
    # Each row has an interval of length 1/m; the part from ε to ε + α (1 − ε) counts.
    low, high = outlier_fraction, outlier_fraction + alpha * (1 - outlier_fraction)
    edges = torch.linspace(0, 1, len(losses) + 1, dtype=losses.dtype, device=losses.device).clamp(low, high)
    inside = edges.diff()
    return (inside * torch.where(inside > 0, losses, 0)).sum() / (high - low)


def _inverse_influence(
    logits: Tensor, y: Tensor, features: Tensor | None, alpha: float | None = None, epsilon: float = 1e-3
) -> Tensor:
    # ‖p − e_y‖₁ = 2 (1 − p_y)
    influence = -2 * torch.expm1(functional.log_softmax(logits, dim=1).gather(1, y[:, None]))[:, 0]
    if features is not None:
        influence = influence * features.flatten(1).abs().sum(dim=1)
    if alpha is None:
        alpha = 1.0 if features is None else 1000.0
    return alpha / (influence + epsilon)


def _inverse_counts(class_counts: Tensor) -> Tensor:
    return _summing_to_classes(1 / class_counts)


def _effective_weights(class_counts: Tensor, beta: float) -> Tensor:
    # (1 − β)/(1 − β^n) up to its constant factor; expm1 avoids cancellation for β^n ≈ 1.
    weight = torch.ones_like(class_counts) if beta == 0 else -1 / torch.expm1(class_counts * np.log(beta))
    return _summing_to_classes(weight)


def _summing_to_classes(weight: Tensor) -> Tensor:
    return weight * (len(weight) / weight.sum())


def _temperature(class_counts: Tensor, gamma: float) -> Tensor:
    return (class_counts / class_counts.max()) ** gamma


def _cross_entropies(logits: Tensor, y: Tensor) -> Tensor:
    return functional.cross_entropy(logits, y, reduction="none")


#: Losses by their names in records of experiments.
LOSSES: dict[str, Callable[..., Tensor]] = {
    **losses.LOSSES,
    "class_balanced": class_balanced,
    "influence_balanced": influence_balanced,
    "influence_balanced_cb": influence_balanced_cb,
    "influence_balanced_focal": influence_balanced_focal,
    "cdt": class_dependent_temperature,
    "vs": vector_scaling,
    "naive": naive,
    "cvar_doro": cvar_doro,
}
