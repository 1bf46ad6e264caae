"""Worst-class boosting on the artificial data of its paper with PyTorch nets (Tables I and II).

The cases, games and judgement of `worst_class_artificial` with nets: 2-1024-512-K with ReLU and Adam at 0.01,
in minibatches drawn by weight; single nets by cross-entropy, by losses for rare classes, by the naive loss.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from sklearn.utils.class_weight import compute_sample_weight

from experiments.worst_class_artificial import Family, Labels, Scale, Table, experiment

# Steps of an epoch of the 500 rows of Table I; the other cases use the same number.
ROWS = 500
# Rows of a step of the naive loss, which needs all classes in a batch.
NAIVE_BATCH = 250
LOSSES = {
    "CE": "cross_entropy",
    "weighted CE": "weighted_cross_entropy",
    "focal": "focal",
    "CB": "class_balanced",
    "LA": "logit_adjustment",
    "VS": "vs",
}
# Trained from a net after half of the epochs with cross-entropy, as published.
INFLUENCE = {
    "IB": "influence_balanced",
    "IB + CB": "influence_balanced_cb",
    "IB + focal": "influence_balanced_focal",
}


def nets(scale: Scale) -> Family:
    """Return the growing learner, and nets trained by one loss each to the last epoch."""
    from tailboost.learners.torch import TorchClassifier, losses
    from tailboost.learners.torch.nets import mlp

    epoch = ROWS // scale.batch_size
    learner = TorchClassifier(
        partial(mlp, hidden=scale.hidden), optimizer="adam", learning_rate=0.01, batch_size=scale.batch_size,
        steps=epoch * scale.epochs, milestones=(), growth=epoch, device="auto",
    )  # fmt: skip

    def by_loss(X: Table, y: Labels, seed: int, loss: str) -> Any:
        return TorchClassifier(
            **learner.get_params() | {"loss": losses.LOSSES[loss], "random_state": seed}
        ).fit(X, y)

    def by_influence(X: Table, y: Labels, seed: int, loss: str) -> Any:
        half = learner.get_params() | {"steps": epoch * scale.epochs // 2, "random_state": seed}
        first = TorchClassifier(**half).fit(X, y)
        then = half | {"module": first.net_.net(), "loss": losses.LOSSES[loss]}
        return TorchClassifier(**then).fit(X, y)

    def naive(X: Table, y: Labels, seed: int) -> Any:
        """Draw all classes equally often, so every batch has rows of each."""
        steps = max(1, ROWS * scale.epochs // NAIVE_BATCH)
        given = {"loss": losses.naive, "batch_size": NAIVE_BATCH, "steps": steps, "random_state": seed}
        net = TorchClassifier(**learner.get_params() | given)
        return net.fit(X, y, sample_weight=compute_sample_weight("balanced", y))

    singles = {name: partial(by_loss, loss=loss) for name, loss in LOSSES.items()}
    singles |= {name: partial(by_influence, loss=loss) for name, loss in INFLUENCE.items()}
    return Family(learner, singles | {"naive": naive})


EXPERIMENTS = (
    experiment(
        "artificial-nets",
        "worst-class boosting on overlapping squares and discs (Tables I and II), PyTorch nets",
        nets,
    ),
)
