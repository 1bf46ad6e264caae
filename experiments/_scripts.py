"""Training of voters as in the scripts of Saito et al. 2024, where they differ from the text.

The scripts are those of saito-yuya/Bounding-the-Worst-class-Error-A-Boosting-Approach at d5466c1. A row of
class y has the weight w_y in the loss, and not w_y / n_y as in equation (8). Each round starts from the first
net of the game, with Adam's state at the end of the previous round.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.learners.torch import TorchClassifier
from tailboost.learners.torch.fitted_net import FittedNet
from tailboost.learners.torch.net_learner import TorchSession
from tailboost.learners.torch.training import Training, copy_state


class ScriptSession(TorchSession):
    """Rounds with row weights w_y, one first net, and a state of the optimiser that is carried on.

    A game that continues from a checkpoint starts again with an empty state of the optimiser.
    """

    first: dict[str, Any] | None = None
    carried: dict[str, Any] | None = None

    def begin(self, weight: Floats, seed: int, rows: Mask | None) -> Training:
        """Return the training of a round, before its first step."""
        training = super().begin(weight * np.bincount(self.y)[self.y], seed, rows)
        if self.first is None:
            self.first = copy_state(training.net.state_dict())
        training.net.load_state_dict(self.first)
        if self.carried is not None:
            training.optimizer.load_state_dict(copy_state(self.carried))
        return training

    def stages(self, weight: Floats, seed: int, rows: Mask | None = None) -> Iterator[FittedNet]:
        """Yield the net after every ``growth`` steps; the state of the optimiser outlives the round."""
        training = self.begin(weight, seed, rows)
        for net in self.grown(training):
            self.carried = copy_state(training.optimizer.state_dict())
            yield net


class ScriptClassifier(TorchClassifier):
    """`TorchClassifier` whose sessions are those of the scripts."""

    def open_session(self, X: Any, y: Ints, n_classes: int, sample_weight: Floats) -> ScriptSession:
        """Return a session on these rows; labels are class numbers 0 … K − 1."""
        return ScriptSession(self, np.asarray(X), y, n_classes, sample_weight)
