"""Losses of the papers beside those of `tailboost.torch.losses`, for ``TorchClassifier(loss=…)``.

Functions of logits, labels and class counts n_k, as there; each returns a mean over the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from tailboost.torch.losses import vector_scaling

__all__ = ["LOSSES", "influence_balanced", "naive"]


def influence_balanced(
    logits: Tensor,
    y: Tensor,
    class_counts: Tensor,
    *,
    features: Tensor | None = None,
    alpha: float | None = None,
    epsilon: float = 1e-3,
    beta: float | None = None,
    gamma: float = 0.0,
) -> Tensor:
    """Cross-entropy divided by the row's influence on the last layer (IB) [1]_.

    The mean of −λ_y (1 − p_y)^γ log p_y · α / (‖p − e_y‖₁ ‖h‖₁ + ε), λ_k ∝ 1/n_k with sum K, h the input of
    the last layer, which `TorchClassifier` hands over. As a loss of logits alone, ‖h‖₁ is taken as 1: the
    influence then is that of the last layer's bias. [1]_ trains with cross-entropy first and turns to this
    loss later.

    Parameters
    ----------
    logits, y, class_counts
        As for all losses.
    features : Tensor of shape (m, …), default=None
        h, for the loss as published.
    alpha : float > 0, optional
        Scale of the loss: None is the published code's 1000, which offsets the size of ‖h‖₁, and 1 without
        features.
    epsilon : float > 0
        Keeps the factor finite for a row that is fitted perfectly.
    beta : float in (0, 1), optional
        λ_k ∝ (1 − β) / (1 − β^{n_k}), the weights of ``class_balanced`` (IB + CB), in place of 1/n_k.
    gamma : float, 0 or ≥ 1
        1 is the published power of IB + focal.

    References
    ----------
    .. [1] S. Park et al., "Influence-Balanced Loss for Imbalanced Visual Classification", ICCV
       2021.
    """
    counts = class_counts.to(logits)
    cross_entropies = functional.cross_entropy(logits, y, reduction="none")
    wrong = -torch.expm1(functional.log_softmax(logits, dim=1).gather(1, y[:, None]))[:, 0]  # 1 − p_y
    influence = 2 * wrong  # ‖p − e_y‖₁
    if features is not None:
        influence = influence * features.flatten(1).abs().sum(dim=1)
    if alpha is None:
        alpha = 1.0 if features is None else 1000.0
    # expm1 keeps the digits that β^n ≈ 1 would lose.
    weight = 1 / counts if beta is None else -1 / torch.expm1(counts * np.log(beta))
    weight = weight * (len(weight) / weight.sum())
    terms = weight[y] * alpha / (influence + epsilon) * cross_entropies
    return (wrong**gamma * terms if gamma else terms).mean()


def naive(logits: Tensor, y: Tensor) -> Tensor:
    """Largest of the classes' mean cross-entropies in the batch; classes without rows in it are ignored [1]_.

    References
    ----------
    .. [1] Y. Saito et al., "Bounding the Worst-class Error: A Boosting Approach", 2024.
    """
    # `bincount` would wait for a GPU, and `index_add` would add up there in an order of its own.
    belongs = y[:, None] == torch.arange(logits.shape[1], device=y.device)
    cross_entropies = functional.cross_entropy(logits, y, reduction="none")
    total, rows = torch.where(belongs, cross_entropies[:, None], 0).sum(0), belongs.sum(0)
    return torch.where(rows > 0, total / rows.clamp(min=1), -torch.inf).max()


#: By name. "cdt": class-dependent temperatures a_k = (n_max / n_k)^γ (Ye et al. 2020), γ = .3 as in Kini et
#: al. 2021, is vector scaling without its additive part.
LOSSES: dict[str, Callable[..., Any]] = {
    "naive": naive,
    "influence_balanced": influence_balanced,
    "influence_balanced_cb": partial(influence_balanced, beta=0.9999),
    "influence_balanced_focal": partial(influence_balanced, gamma=1.0),
    "cdt": partial(vector_scaling, tau=0.0, gamma=0.3),
}
