"""Losses for nets on unbalanced classes: plain functions of logits, labels and class counts.

Each takes logits z of shape (m, K), labels y of shape (m,), int64 in 0 … K − 1, on z's device, and the class
counts n_k of the training set, shape (K,), and returns the mean over the m rows, a scalar, on z's device.
Counts that lie elsewhere are copied there at every call; those of `make_loss` lie where it is told. No loss
waits for a device: the shapes of what it computes do not depend on values. Rows drawn by weight need nothing
else: the mean over draws is the weighted mean. With p = softmax(z).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import Parameter

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn import functional

from tailboost._checks import check_number
from tailboost._near import did_you_mean
from tailboost.torch._training import takes

__all__ = [
    "LOSSES",
    "class_balanced",
    "cross_entropy",
    "cvar_doro",
    "focal",
    "logit_adjustment",
    "make_loss",
    "vector_scaling",
    "weighted_cross_entropy",
]

Loss = Callable[[Tensor, Tensor], Tensor]


def cross_entropy(logits: Tensor, y: Tensor, class_counts: Tensor | None = None) -> Tensor:
    """Mean of −log p_y (CE)."""
    return functional.cross_entropy(logits, y)


def weighted_cross_entropy(logits: Tensor, y: Tensor, class_counts: Tensor) -> Tensor:
    """Cross-entropy with every class weighing the same: mean of −(n / (K n_y)) log p_y."""
    counts = class_counts.to(logits)
    return ((counts.sum() / (len(counts) * counts))[y] * _cross_entropies(logits, y)).mean()


def focal(logits: Tensor, y: Tensor, class_counts: Tensor | None = None, *, gamma: float = 2.0) -> Tensor:
    """Mean of −(1 − p_y)^γ log p_y [1]_.

    Parameters
    ----------
    logits, y, class_counts
        As for all losses; the counts are not used.
    gamma : float ≥ 0
        How little well-classified rows count; 0 is cross-entropy.

    References
    ----------
    .. [1] T.-Y. Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017, eq. (4), γ = 2.
    """
    return _focal_terms(_cross_entropies(logits, y), gamma).mean()


def class_balanced(logits: Tensor, y: Tensor, class_counts: Tensor, *, beta: float = 0.9999) -> Tensor:
    """Cross-entropy weighted by (1 − β) / (1 − β^{n_y}), the inverse effective number of rows (CB) [1]_.

    Parameters
    ----------
    logits, y, class_counts
        As for all losses.
    beta : float in [0, 1)
        0 is cross-entropy; towards 1 the weights become those of `weighted_cross_entropy` up to a factor.
        They are scaled to sum to K.

    References
    ----------
    .. [1] Y. Cui et al., "Class-Balanced Loss Based on Effective Number of Samples", CVPR 2019.
    """
    return (_effective_weights(class_counts.to(logits), beta)[y] * _cross_entropies(logits, y)).mean()


def logit_adjustment(logits: Tensor, y: Tensor, class_counts: Tensor, *, tau: float = 1.0) -> Tensor:
    """Cross-entropy of z + τ log π, with π_k = n_k / n (LA) [1]_.

    Parameters
    ----------
    logits, y, class_counts
        As for all losses.
    tau : float ≥ 0
        0 is cross-entropy; 1 is consistent for the balanced error.

    References
    ----------
    .. [1] A. K. Menon et al., "Long-Tail Learning via Logit Adjustment", ICLR 2021, eq. (10).
    """
    return functional.cross_entropy(logits + tau * _log_prior(class_counts.to(logits)), y)


def vector_scaling(
    logits: Tensor, y: Tensor, class_counts: Tensor, *, tau: float = 1.25, gamma: float = 0.15
) -> Tensor:
    """Cross-entropy of Δ_k z_k + τ log π_k, with Δ_k = (n_k / n_max)^γ (VS) [1]_.

    Parameters
    ----------
    logits, y, class_counts
        As for all losses.
    tau : float ≥ 0
        Additive part; with γ = 0 it is `logit_adjustment`.
    gamma : float ≥ 0
        Multiplicative part; with τ = 0 only it is left (CDT).

    References
    ----------
    .. [1] G. R. Kini et al., "Label-Imbalanced and Group-Sensitive Classification under
       Overparameterization", NeurIPS 2021, eq. (2), with its constants for CIFAR-10.
    """
    counts = class_counts.to(logits)
    return functional.cross_entropy(logits * _temperature(counts, gamma) + tau * _log_prior(counts), y)


def cvar_doro(
    logits: Tensor,
    y: Tensor,
    class_counts: Tensor | None = None,
    *,
    alpha: float = 0.5,
    outlier_fraction: float = 0.1,
) -> Tensor:
    """CVaR of the batch's cross-entropies once its highest ones are left out (CVaR-DORO) [1]_.

    The mean of the worst share α of what is left of the batch without the share ε of the highest losses,
    which may be those of mislabelled rows; other rows of the batch have no gradient. Rows at the two edges
    count by the fraction of them inside, where the published code rounds to whole rows.

    Parameters
    ----------
    logits, y, class_counts
        As for all losses; the counts are not used.
    alpha : float in (0, 1]
        α; 1 is the mean of all that is left.
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
    # Each row has an interval of length 1/m; that from ε to ε + α (1 − ε) counts.
    low, high = outlier_fraction, outlier_fraction + alpha * (1 - outlier_fraction)
    edges = torch.linspace(0, 1, len(losses) + 1, dtype=losses.dtype, device=losses.device).clamp(low, high)
    inside = edges.diff()
    return (inside * torch.where(inside > 0, losses, 0)).sum() / (high - low)


#: The losses by the names that ``TorchClassifier(loss=…)`` takes.
LOSSES: dict[str, Callable[..., Tensor]] = {
    "cross_entropy": cross_entropy,
    "weighted_cross_entropy": weighted_cross_entropy,
    "focal": focal,
    "class_balanced": class_balanced,
    "logit_adjustment": logit_adjustment,
    "vs": vector_scaling,
    "cvar_doro": cvar_doro,
}


def make_loss(loss: str | Loss, class_counts: ArrayLike, device: str | torch.device | None = None) -> Loss:
    """Return a callable ``(logits, y) -> mean loss`` with the class counts filled in.

    Parameters
    ----------
    loss : str or callable
        A name in `LOSSES`, or a callable ``(logits, y)``, which is returned as it is, or ``(logits, y,
        class_counts)``, without a default for the counts. For other constants than the defaults, wrap the
        function: ``partial(vector_scaling, tau=1.0)``.
    class_counts : array-like of shape (K,), ≥ 0
        Rows (or sums of sample weights) of each class in the training set. A class without rows is given the
        smallest count of the others: its weight is never used.
    device : str or torch.device, default=None
        Where the logits will be.

    Returns
    -------
    callable
        For logits in float32, shape (m, K), and labels of shape (m,).

    Raises
    ------
    ValueError
        No such name, or counts that are not finite, negative or all zero.
    TypeError
        Neither a name nor a callable.
    """
    if not isinstance(loss, str):
        if not callable(loss):
            raise TypeError(f"loss must be a name or a callable (logits, y), got {loss!r}")
        if not takes(loss, "class_counts", Parameter.empty):
            return loss
    elif loss not in LOSSES:
        hint = did_you_mean(loss, LOSSES)
        raise ValueError(f"unknown loss {loss!r}; {hint}losses are {', '.join(LOSSES)}")
    counts = np.asarray(class_counts, dtype=np.float64)
    if counts.ndim != 1 or not np.isfinite(counts).all() or (counts < 0).any() or not counts.any():
        raise ValueError(
            f"class_counts must be finite numbers ≥ 0, one per class, not all zero: got {counts}"
        )
    counts = np.where(counts > 0, counts, counts[counts > 0].min())
    function: Callable[..., Tensor] = LOSSES[loss] if isinstance(loss, str) else loss
    return partial(function, class_counts=torch.as_tensor(counts, dtype=torch.float32, device=device))


def _cross_entropies(logits: Tensor, y: Tensor) -> Tensor:
    return functional.cross_entropy(logits, y, reduction="none")


def _focal_terms(cross_entropies: Tensor, gamma: float) -> Tensor:
    # 1 − p_y = 1 − e^{−CE}; the power's slope at 0 is infinite for γ < 1, so a perfect row is kept off it.
    return (-torch.expm1(-cross_entropies)).clamp(min=torch.finfo(cross_entropies.dtype).tiny) ** gamma * (
        cross_entropies
    )


def _effective_weights(class_counts: Tensor, beta: float) -> Tensor:
    # (1 − β)/(1 − β^n) up to its constant factor; expm1 keeps the digits that β^n ≈ 1 would lose.
    weight = torch.ones_like(class_counts) if beta == 0 else -1 / torch.expm1(class_counts * np.log(beta))
    return _summing_to_classes(weight)


def _summing_to_classes(weight: Tensor) -> Tensor:
    return weight * (len(weight) / weight.sum())


def _log_prior(class_counts: Tensor) -> Tensor:
    return torch.log(class_counts / class_counts.sum())


def _temperature(class_counts: Tensor, gamma: float) -> Tensor:
    return (class_counts / class_counts.max()) ** gamma
