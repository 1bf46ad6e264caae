"""The rivals' losses for rare classes, as Saito et al. 2024 compare them.

Each takes the class counts n_k of the training rows and returns a function of logits (m, K), labels (m,) and
the input h of the last layer, (m, d). Its value is the mean over the m rows. Below p = softmax(logits).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def _each(logits: Tensor, y: Tensor) -> Tensor:
    return cross_entropy(logits, y, reduction="none")


def _sum_to_classes(weight: Tensor) -> Tensor:
    return weight * (len(weight) / weight.sum())


def _effective(counts: Tensor, beta: float = 0.9999) -> Tensor:
    """Return the weights (1 − β)/(1 − β^n_k) of Cui et al. 2019, with the sum K."""
    return _sum_to_classes(-1 / torch.expm1(counts * torch.log(torch.tensor(beta))))


def _focal(losses: Tensor, gamma: float) -> Tensor:
    """Return −(1 − p_y)^γ log p_y of each row from −log p_y."""
    return (-torch.expm1(-losses)).clamp(min=1e-30) ** gamma * losses


def ce(counts: Tensor) -> Loss:
    """Cross-entropy."""
    return lambda logits, y, h: cross_entropy(logits, y)


def weighted_ce(counts: Tensor) -> Loss:
    """Cross-entropy with the weight n / (K n_y) of a row."""
    weight = counts.sum() / (len(counts) * counts)
    return lambda logits, y, h: (weight[y] * _each(logits, y)).mean()


def focal(counts: Tensor, gamma: float = 2.0) -> Loss:
    """Focal loss of Lin et al. 2017, equation (4)."""
    return lambda logits, y, h: _focal(_each(logits, y), gamma).mean()


def class_balanced(counts: Tensor) -> Loss:
    """Cross-entropy by the effective number of rows (CB), Cui et al. 2019."""
    weight = _effective(counts)
    return lambda logits, y, h: (weight[y] * _each(logits, y)).mean()


def influence_balanced(counts: Tensor, effective: bool = False, gamma: float = 0.0) -> Loss:
    """Cross-entropy over the influence of a row on the last layer (IB), Park et al. 2021.

    The factor is 1000 / (‖p − e_y‖₁ ‖h‖₁ + .001). With ``effective`` the weights are those of CB
    (IB + CB); ``gamma=1`` is IB + focal.
    """
    weight = _effective(counts) if effective else _sum_to_classes(1 / counts)

    def loss(logits: Tensor, y: Tensor, h: Tensor) -> Tensor:
        losses = _each(logits, y)
        influence = -2 * torch.expm1(-losses) * h.flatten(1).abs().sum(dim=1)
        return (weight[y] * 1000 / (influence + 1e-3) * _focal(losses, gamma)).mean()

    return loss


def vector_scaling(counts: Tensor, tau: float = 1.25, gamma: float = 0.15) -> Loss:
    """Cross-entropy of (n_k / n_max)^γ z_k + τ log(n_k / n) (VS), Kini et al. 2021, equation (2)."""
    factor = (counts / counts.max()) ** gamma
    shift = tau * torch.log(counts / counts.sum())
    return lambda logits, y, h: cross_entropy(factor * logits + shift, y)


def naive(counts: Tensor) -> Loss:
    """Mean cross-entropy of the class of the batch where it is largest."""

    def loss(logits: Tensor, y: Tensor, h: Tensor) -> Tensor:
        losses = _each(logits, y)
        return torch.stack([losses[y == k].mean() for k in y.unique()]).max()

    return loss


LOSSES: dict[str, Callable[[Tensor], Loss]] = {
    "CE": ce,
    "weighted CE": weighted_ce,
    "focal": focal,
    "CB": class_balanced,
    "IB": influence_balanced,
    "IB + CB": partial(influence_balanced, effective=True),
    "IB + focal": partial(influence_balanced, gamma=1.0),
    "LA": partial(vector_scaling, tau=1.0, gamma=0.0),
    "CDT": partial(vector_scaling, tau=0.0, gamma=0.3),
    "VS": vector_scaling,
    "naive": naive,
}
