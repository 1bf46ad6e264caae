"""Fitted nets, built from an architecture and a state in memory or in a file."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load, save
from torch import Tensor, nn

from tailboost.core.array_types import Ints
from tailboost.core.files import digest, write
from tailboost.learners.torch.net_data import Feed, find_device
from tailboost.learners.torch.training import Randomness, threads_for


@dataclass
class Architecture:
    """A module, or a callable that makes one, into which a state is loaded."""

    # Nn.Module or callable: a callable is given (input_shape, n_classes) and returns an nn.Module.
    module: Any
    input_shape: tuple[int, ...]  # shape of a row as the module sees it
    n_classes: int  # K

    def build(self) -> nn.Module:
        """Return a new module; its first weights come from PyTorch's generator, or from the module given.

        Raises
        ------
        TypeError
            If the callable does not return a module.
        """
        given = isinstance(self.module, nn.Module)
        net = copy.deepcopy(self.module) if given else self.module(self.input_shape, self.n_classes)
        if not isinstance(net, nn.Module):
            raise TypeError(f"module={self.module!r} returned {type(net).__name__}; an nn.Module is needed")
        if any(isinstance(p, nn.UninitializedParameter) for p in net.parameters()):
            net.eval()(torch.zeros(2, *self.input_shape))  # lazy layers take their shape from the first rows
        return net

    @cached_property
    def _pattern(self) -> nn.Module:
        with Randomness(0, torch.device("cpu")).in_use():
            return self.build()

    def with_state(self, state: dict[str, Tensor], device: torch.device) -> nn.Module:
        """Return a module of its own in this state, ready to predict."""
        net = copy.deepcopy(self._pattern)
        net.load_state_dict(state)
        return net.to(device).eval()

    def __getstate__(self) -> dict[str, Any]:
        state = vars(self).copy()  # in one step: another thread may be adding the pattern
        state.pop("_pattern", None)
        return state


class TorchMember:
    """A fitted net that answers class numbers; its state is loaded only while it answers.

    Attributes
    ----------
    table_ : Feed
        How rows become what the net takes; equal for all members of a fit, so they are prepared once.
    held : bytes or str
        The state as bytes in the safetensors format, or the path of the file that holds them.
    digest : str
        Digest of the state, as bytes in the safetensors format.
    """

    def __init__(
        self,
        architecture: Architecture,
        table: Feed,
        eval_batch_size: int,
        state: dict[str, Tensor],
        members_dir: Path | None,
    ) -> None:
        self.architecture, self.table_, self.eval_batch_size = architecture, table, eval_batch_size
        # Separate copies on the CPU: in this format tied weights must not share memory.
        content = save({k: v.detach().cpu().clone().contiguous() for k, v in state.items()})
        self.digest = digest(content)
        # The state itself, or the path of its file. It is one attribute, replaced as a whole and read once,
        # so that a prediction in another thread always finds the state in one of the two.
        self.held: bytes | str = content
        self.members_dir = None if members_dir is None else str(members_dir.absolute())

    @property
    def path(self) -> str | None:
        """The file of the state, where it does not lie in memory."""
        return held if isinstance(held := self.held, str) else None

    def keep(self, members_dir: Any = None) -> None:
        """Move the state to its folder, or see that it is there already; without a folder, do nothing.

        ``members_dir`` is for a member without a folder of its own, or where its folder was moved to.

        Raises
        ------
        OSError
            If the file cannot be written.
        ValueError
            If the file is missing or damaged.
        """
        name = f"member-{self.digest}.safetensors"
        held = self.held
        if isinstance(held, str):
            if not Path(held).exists() and members_dir is not None:
                self.held = str(Path(members_dir).absolute() / name)
        elif (own := self.members_dir or members_dir) is not None:
            path = Path(own).absolute() / name
            if not (path.exists() and digest(path.read_bytes()) == self.digest):
                write(path, held, "the newest member")
            self.held = str(path)
        self._bytes()

    def fetch(self) -> None:
        """Take the state back into memory; its file stays where it is."""
        self.held, self.members_dir = self._bytes(), None

    def _bytes(self) -> bytes:
        held = self.held
        if isinstance(held, bytes):
            return held
        try:
            content = Path(held).read_bytes()
        except FileNotFoundError:
            raise ValueError(f"the member's file {held!r} is missing: the fit wrote it there") from None
        if digest(content) != self.digest:
            raise ValueError(f"the member's file {held!r} is damaged: it is not what the fit wrote there")
        return content

    def state(self) -> dict[str, Tensor]:
        """Return the module's ``state_dict``, on the CPU."""
        return load(self._bytes())

    def net(self) -> nn.Module:
        """Return the net as a module of its own, in evaluation mode, on its device."""
        return self.architecture.with_state(self.state(), find_device(self.table_.device))

    @torch.inference_mode()
    def _logits(self, table: Tensor) -> Tensor:
        net, device = self.net(), find_device(self.table_.device)
        parts = (self.table_.batch(rows, device) for rows in torch.split(table, self.eval_batch_size))
        with threads_for(net, table, self.eval_batch_size):
            return torch.cat([net(x).float() for x in parts])

    def predict_table(self, table: Tensor) -> Ints:
        """Return the class numbers for rows prepared by ``table_.transform``, shape (n,)."""
        if not len(table):
            return np.empty(0, dtype=np.intp)
        return self._logits(table).argmax(dim=1).cpu().numpy().astype(np.intp)

    def predict(self, X: Any) -> Ints:
        """Return the class numbers for rows, shape (n,)."""
        return self.predict_table(self.table_.transform(X))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the softmax of the outputs, shape (n, K)."""
        p = self._logits(self.table_.transform(X)).double().softmax(dim=1)
        return np.asarray(p.cpu().numpy())
