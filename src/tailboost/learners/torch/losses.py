"""Losses for nets on unbalanced classes: functions of logits, labels and class counts.

Each takes logits z of shape (m, K), labels y of shape (m,), int64 in 0 … K − 1, and the class counts n_k of
the training set, shape (K,). Each returns the mean over the m rows, a scalar, on the device of z. Rows drawn
by weight need no further weights: the mean over draws is the weighted mean. Below p = softmax(z).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn import functional

from tailboost.core.spelling import did_you_mean
from tailboost.learners.torch.training import Loss, takes

__all__ = [
    "LOSSES",
    "cross_entropy",
    "focal",
    "logit_adjustment",
    "make_loss",
    "weighted_cross_entropy",
]


def cross_entropy(logits: Tensor, y: Tensor, class_counts: Tensor | None = None) -> Tensor:
    """Mean of −log p_y (CE)."""
    return functional.cross_entropy(logits, y)


def weighted_cross_entropy(logits: Tensor, y: Tensor, class_counts: Tensor) -> Tensor:
    """Cross-entropy with equal total weight of all classes: mean of −(n / (K n_y)) log p_y."""
    counts = class_counts.to(logits)
    weight = counts.sum() / (len(counts) * counts)
    return (weight[y] * functional.cross_entropy(logits, y, reduction="none")).mean()


def focal(logits: Tensor, y: Tensor, class_counts: Tensor | None = None, *, gamma: float = 2.0) -> Tensor:
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
    return focal_terms(functional.cross_entropy(logits, y, reduction="none"), gamma).mean()


def focal_terms(cross_entropies: Tensor, gamma: float) -> Tensor:
    """Return −(1 − p_y)^γ log p_y for each row's −log p_y."""
    # 1 − p_y = 1 − e^{−CE}. The slope of the power at 0 is infinite for γ < 1, so 0 is avoided.
    tiny = torch.finfo(cross_entropies.dtype).tiny
    return (-torch.expm1(-cross_entropies)).clamp(min=tiny) ** gamma * cross_entropies


def logit_adjustment(logits: Tensor, y: Tensor, class_counts: Tensor, *, tau: float = 1.0) -> Tensor:
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


#: Losses by name, for ``TorchClassifier(loss=…)``.
LOSSES: dict[str, Callable[..., Tensor]] = {
    "cross_entropy": cross_entropy,
    "weighted_cross_entropy": weighted_cross_entropy,
    "focal": focal,
    "logit_adjustment": logit_adjustment,
}


def make_loss(loss: str | Loss, class_counts: ArrayLike, device: str | torch.device | None = None) -> Loss:
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
    if counts.ndim != 1 or not np.isfinite(counts).all() or (counts < 0).any() or not counts.any():
        raise ValueError(
            f"class_counts must be finite numbers ≥ 0, one per class, not all zero: got {counts}"
        )
    counts = np.where(counts > 0, counts, counts[counts > 0].min())
    return partial(loss, class_counts=torch.as_tensor(counts, dtype=torch.float32, device=device))
