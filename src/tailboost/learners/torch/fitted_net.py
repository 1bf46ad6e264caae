"""Fitted nets: an architecture and its weights."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from tailboost.core.array_types import Floats, Ints, Table
from tailboost.learners.torch.net_data import RowPreparation, find_device
from tailboost.learners.torch.training import Randomness, threads_for


@dataclass
class Architecture:
    """A module, or a function that creates one, as the frame for loaded weights."""

    # nn.Module, or callable (input_shape, n_classes) -> nn.Module
    module: Any
    input_shape: tuple[int, ...]  # shape of a row at the input of the module
    n_classes: int  # K

    def build(self) -> nn.Module:
        """Return a new module; initial weights come from PyTorch's generator, or from the given module.

        Raises
        ------
        TypeError
            If the callable does not return a module.
        """
        if isinstance(self.module, nn.Module):
            net = copy.deepcopy(self.module)
        else:
            net = self.module(self.input_shape, self.n_classes)
        if not isinstance(net, nn.Module):
            raise TypeError(
                f"module={self.module!r} returned {type(net).__name__}; an nn.Module is needed"
            )
        if any(isinstance(p, nn.UninitializedParameter) for p in net.parameters()):
            # Lazy layers take their shape from the first rows.
            net.eval()(torch.zeros(2, *self.input_shape))
        return net

    @cached_property
    def _pattern(self) -> nn.Module:
        with Randomness(0, torch.device("cpu")).in_use():
            return self.build()

    def __getstate__(self) -> dict[str, Any]:
        state = vars(self).copy()  # in one step: another thread may add the pattern meanwhile
        state.pop("_pattern", None)
        return state


class FittedNet:
    """A fitted net that predicts class numbers; the module exists only during a prediction.

    Attributes
    ----------
    table_ : RowPreparation
        Preparation of rows for the net. It is equal for all nets of a fit, so rows are prepared once.
    weights : bytes
        The module's ``state_dict`` in the safetensors format.
    """

    def __init__(
        self,
        architecture: Architecture,
        table: RowPreparation,
        eval_batch_size: int,
        state: dict[str, Tensor],
    ) -> None:
        self.architecture = architecture
        self.table_ = table
        self.eval_batch_size = eval_batch_size
        # Copies on the CPU: tied weights must not share memory in this format.
        self.weights: bytes = save(
            {k: v.detach().cpu().clone().contiguous() for k, v in state.items()}
        )

    def state(self) -> dict[str, Tensor]:
        """Return the module's ``state_dict``, on the CPU."""
        return load(self.weights)

    def net(self) -> nn.Module:
        """Return a new module in evaluation mode, on its device."""
        net = copy.deepcopy(self.architecture._pattern)
        net.load_state_dict(self.state())
        return net.to(find_device(self.table_.device)).eval()

    @torch.inference_mode()
    def _logits(self, table: Tensor) -> Tensor:
        """Return the outputs of the net for prepared rows, in batches, shape (n, K)."""
        net = self.net()
        device = find_device(self.table_.device)
        outputs = []
        with threads_for(net, table, self.eval_batch_size):
            for rows in torch.split(table, self.eval_batch_size):
                outputs.append(net(self.table_.batch(rows, device)).float())
        return torch.cat(outputs)

    def predict_table(self, table: Tensor) -> Ints:
        """Return class numbers for rows prepared by ``table_.transform``, shape (n,)."""
        if not len(table):
            return np.empty(0, dtype=np.intp)
        return self._logits(table).argmax(dim=1).cpu().numpy().astype(np.intp)

    def predict(self, X: Table) -> Ints:
        """Return class numbers, shape (n,)."""
        return self.predict_table(self.table_.transform(X))

    def predict_proba(self, X: Table) -> Floats:
        """Return the softmax of the outputs, shape (n, K)."""
        p = self._logits(self.table_.transform(X)).double().softmax(dim=1)
        return p.cpu().numpy()
