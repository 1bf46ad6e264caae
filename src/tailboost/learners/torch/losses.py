"""Losses for nets on unbalanced classes: functions of logits, labels and class counts.

Each takes logits z of shape (m, K), labels y of shape (m,), int64 in 0 … K − 1, and the class counts n_k of
the training set, shape (K,). Each returns the mean over the m rows, a scalar, on the device of z. Rows drawn
by weight need no further weights: the mean over draws is the weighted mean. Below p = softmax(z). A loss with
a parameter ``features`` gets the input h of the last layer from `TorchClassifier`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn import functional

from tailboost.core.checks import check_number
from tailboost.core.spelling import did_you_mean
from tailboost.learners.torch.training import Loss, takes

__all__ = [
    "LOSSES",
    "class_balanced",
    "class_dependent_temperature",
    "cross_entropy",
    "cvar_doro",
    "focal",
    "influence_balanced",
    "influence_balanced_cb",
    "influence_balanced_focal",
    "logit_adjustment",
    "make_loss",
    "naive",
    "vector_scaling",
    "weighted_cross_entropy",
]


def cross_entropy(logits: Tensor, y: Tensor, class_counts: Tensor | None = None) -> Tensor:
    """Mean of −log p_y (CE)."""
    return functional.cross_entropy(logits, y)


def weighted_cross_entropy(logits: Tensor, y: Tensor, class_counts: Tensor) -> Tensor:
    """Cross-entropy with equal total weight of all classes: mean of −(n / (K n_y)) log p_y."""
    counts = class_counts.to(logits)
    weight = counts.sum() / (len(counts) * counts)
    return (weight[y] * _cross_entropies(logits, y)).mean()


def focal(
    logits: Tensor, y: Tensor, class_counts: Tensor | None = None, *, gamma: float = 2.0
) -> Tensor:
    """Mean of −(1 − p_y)^γ log p_y [1]_.

    Parameters
    ----------
    logits, y, class_counts
        See above; the counts are not used.
    gamma : float ≥ 0
        Exponent; larger values reduce the loss of well-classified rows. 0 is cross-entropy.

    References
    ----------
    .. [1] T.-Y. Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017, eq. (4), γ = 2.
    """
    return focal_terms(_cross_entropies(logits, y), gamma).mean()


def focal_terms(cross_entropies: Tensor, gamma: float) -> Tensor:
    """Return −(1 − p_y)^γ log p_y for each row's −log p_y."""
    # 1 − p_y = 1 − e^{−CE}. The slope of the power at 0 is infinite for γ < 1, so 0 is avoided.
    tiny = torch.finfo(cross_entropies.dtype).tiny
    return (-torch.expm1(-cross_entropies)).clamp(min=tiny) ** gamma * cross_entropies


def logit_adjustment(
    logits: Tensor, y: Tensor, class_counts: Tensor, *, tau: float = 1.0
) -> Tensor:
    """Cross-entropy of z + τ log π, with π_k = n_k / n (LA) [1]_.

    Parameters
    ----------
    logits, y, class_counts
        See above.
    tau : float ≥ 0
        0 is cross-entropy; 1 is consistent for the balanced error.

    References
    ----------
    .. [1] A. K. Menon et al., "Long-Tail Learning via Logit Adjustment", ICLR 2021, eq. (10).
    """
    counts = class_counts.to(logits)
    return functional.cross_entropy(logits + tau * torch.log(counts / counts.sum()), y)


def class_balanced(
    logits: Tensor, y: Tensor, class_counts: Tensor, *, beta: float = 0.9999
) -> Tensor:
    """Cross-entropy weighted by (1 − β) / (1 − β^{n_y}), the inverse effective number of rows (CB) [1]_.

    Parameters
    ----------
    logits, y, class_counts
        See above.
    beta : float in [0, 1)
        0 is cross-entropy; towards 1 the weights are proportional to "weighted_cross_entropy"'s.
        Their sum is K.

    References
    ----------
    .. [1] Y. Cui et al., "Class-Balanced Loss Based on Effective Number of Samples", CVPR 2019.
    """
    weight = _effective_weights(class_counts.to(logits), beta)
    return (weight[y] * _cross_entropies(logits, y)).mean()


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
    logits, y, class_counts
        See above.
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
    weight = _inverse_counts(class_counts.to(logits))
    factor = _inverse_influence(logits, y, features, alpha, epsilon)
    return (weight[y] * factor * _cross_entropies(logits, y)).mean()


def influence_balanced_cb(
    logits: Tensor, y: Tensor, class_counts: Tensor, *, features: Tensor | None = None
) -> Tensor:
    """`influence_balanced` with the weights of `class_balanced` in place of the inverse counts (IB + CB)."""
    weight = _effective_weights(class_counts.to(logits), 0.9999)
    factor = _inverse_influence(logits, y, features)
    return (weight[y] * factor * _cross_entropies(logits, y)).mean()


def influence_balanced_focal(
    logits: Tensor, y: Tensor, class_counts: Tensor, *, features: Tensor | None = None
) -> Tensor:
    """`influence_balanced` of the focal loss, γ = 1, in place of the cross-entropy (IB + focal)."""
    weight = _inverse_counts(class_counts.to(logits))
    factor = _inverse_influence(logits, y, features)
    return (weight[y] * factor * focal_terms(_cross_entropies(logits, y), 1.0)).mean()


def class_dependent_temperature(
    logits: Tensor, y: Tensor, class_counts: Tensor, *, gamma: float = 0.3
) -> Tensor:
    """Cross-entropy of z_k / a_k, with temperatures a_k = (n_max / n_k)^γ (CDT) [1]_.

    Parameters
    ----------
    logits, y, class_counts
        See above.
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
    logits, y, class_counts
        See above.
    tau : float ≥ 0
        Additive part; with γ = 0 the loss is `logit_adjustment`.
    gamma : float ≥ 0
        Multiplicative part; with τ = 0 the loss is `class_dependent_temperature`.

    References
    ----------
    .. [1] G. R. Kini et al., "Label-Imbalanced and Group-Sensitive Classification under
       Overparameterization", NeurIPS 2021, eq. (2), with its constants for CIFAR-10.
    """
    counts = class_counts.to(logits)
    log_frequency = torch.log(counts / counts.sum())
    scaled = logits * _temperature(counts, gamma)
    return functional.cross_entropy(scaled + tau * log_frequency, y)


def naive(
    logits: Tensor, y: Tensor, class_counts: Tensor | None = None, *, by_accuracy: bool = False
) -> Tensor:
    """Mean cross-entropy of the worst class in the batch; absent classes are ignored [1]_.

    Parameters
    ----------
    logits, y, class_counts
        See above; the counts are not used.
    by_accuracy : bool
        Whether the worst class is the one with the lowest accuracy in the batch, as in the code of [1]_. By
        default it is the class with the largest mean cross-entropy, as in the text.

    References
    ----------
    .. [1] Y. Saito et al., "Bounding the Worst-class Error: A Boosting Approach", 2024.
    """
    # `bincount` would wait for a GPU, and `index_add` would sum in a varying order.
    in_class = y[:, None] == torch.arange(logits.shape[1], device=y.device)  # shape (m, K)
    class_sizes = in_class.sum(0)

    def class_means(values: Tensor) -> Tensor:
        total = torch.where(in_class, values[:, None], 0).sum(0)
        # An absent class is never the worst.
        return torch.where(class_sizes > 0, total / class_sizes.clamp(min=1), -torch.inf)

    losses = class_means(_cross_entropies(logits, y))
    if not by_accuracy:
        return losses.max()
    is_wrong = (logits.argmax(1) != y).to(logits)
    return losses[class_means(is_wrong).argmax()]


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
    logits, y, class_counts
        See above; the counts are not used.
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
    start = outlier_fraction
    end = outlier_fraction + alpha * (1 - outlier_fraction)
    edges = torch.linspace(0, 1, len(losses) + 1, dtype=losses.dtype, device=losses.device)
    fractions = edges.clamp(start, end).diff()
    counted = torch.where(fractions > 0, losses, 0)  # 0 · ∞ would be NaN
    return (fractions * counted).sum() / (end - start)


def _inverse_influence(
    logits: Tensor,
    y: Tensor,
    features: Tensor | None,
    alpha: float | None = None,
    epsilon: float = 1e-3,
) -> Tensor:
    """Return α / (‖p − e_y‖₁ ‖h‖₁ + ε) of each row, where ‖p − e_y‖₁ = 2 (1 − p_y).

    Without ``features`` ‖h‖₁ is 1. The default of α is 1000 with features and 1 without.
    """
    log_p = functional.log_softmax(logits, dim=1).gather(1, y[:, None])[:, 0]
    influence = -2 * torch.expm1(log_p)
    default_alpha = 1.0
    if features is not None:
        influence = influence * features.flatten(1).abs().sum(dim=1)
        default_alpha = 1000.0
    if alpha is None:
        alpha = default_alpha
    return alpha / (influence + epsilon)


def _inverse_counts(class_counts: Tensor) -> Tensor:
    """Return class weights ∝ 1/n_k with the sum K, shape (K,)."""
    return _summing_to_classes(1 / class_counts)


def _effective_weights(class_counts: Tensor, beta: float) -> Tensor:
    """Return class weights by the effective number of rows, with the sum K, shape (K,)."""
    # (1 − β)/(1 − β^n) up to its constant factor; expm1 avoids cancellation for β^n ≈ 1.
    if beta == 0:
        weight = torch.ones_like(class_counts)
    else:
        weight = -1 / torch.expm1(class_counts * np.log(beta))
    return _summing_to_classes(weight)


def _summing_to_classes(weight: Tensor) -> Tensor:
    """Return weights scaled to the sum K, shape (K,)."""
    return weight * (len(weight) / weight.sum())


def _temperature(class_counts: Tensor, gamma: float) -> Tensor:
    """Return the temperature (n_k / max n)^γ of each class, shape (K,)."""
    return (class_counts / class_counts.max()) ** gamma


def _cross_entropies(logits: Tensor, y: Tensor) -> Tensor:
    """Return the cross-entropy of each row, shape (n,)."""
    return functional.cross_entropy(logits, y, reduction="none")


#: Losses by name, for ``TorchClassifier(loss=…)``.
LOSSES: dict[str, Callable[..., Tensor]] = {
    "cross_entropy": cross_entropy,
    "weighted_cross_entropy": weighted_cross_entropy,
    "focal": focal,
    "logit_adjustment": logit_adjustment,
    "class_balanced": class_balanced,
    "influence_balanced": influence_balanced,
    "influence_balanced_cb": influence_balanced_cb,
    "influence_balanced_focal": influence_balanced_focal,
    "cdt": class_dependent_temperature,
    "vs": vector_scaling,
    "naive": naive,
    "cvar_doro": cvar_doro,
}


def make_loss(
    loss: str | Loss, class_counts: ArrayLike, device: str | torch.device | None = None
) -> Loss:
    """Return a callable ``(logits, y) -> mean loss`` with the class counts filled in.

    Parameters
    ----------
    loss : str or callable
        A name in `LOSSES`, or a callable ``(logits, y)``. A callable without a parameter ``class_counts`` is
        returned unchanged. Set constants by ``partial(focal, gamma=1)``.
    class_counts : array-like of shape (K,), ≥ 0
        Rows (or sums of sample weights) of each class in the training set. A class without rows gets the
        smallest positive count; its weight is never used.
    device : str or torch.device, default=None
        Device of the logits.

    Returns
    -------
    callable
        For logits in float32, shape (m, K), and labels of shape (m,).

    Raises
    ------
    ValueError
        If the name is unknown, or counts are not finite, negative or all zero.
    TypeError
        If the loss is neither a name nor a callable.
    """
    if isinstance(loss, str):
        if loss not in LOSSES:
            hint = did_you_mean(loss, LOSSES)
            raise ValueError(f"unknown loss {loss!r}; {hint}losses are {', '.join(LOSSES)}")
        loss = LOSSES[loss]
    if not callable(loss):
        raise TypeError(f"loss must be a name or a callable (logits, y), got {loss!r}")
    if not takes(loss, "class_counts") or "class_counts" in getattr(loss, "keywords", ()):
        return loss
    counts = np.asarray(class_counts, dtype=np.float64)
    is_valid = np.isfinite(counts) & (counts >= 0)
    if counts.ndim != 1 or not is_valid.all() or not counts.any():
        raise ValueError(
            "class_counts must be finite numbers ≥ 0, one per class, not all zero: got "
            f"{counts}"
        )
    counts = np.where(counts > 0, counts, counts[counts > 0].min())
    on_device = torch.as_tensor(counts, dtype=torch.float32, device=device)
    return partial(loss, class_counts=on_device)
