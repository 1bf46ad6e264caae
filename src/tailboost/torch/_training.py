"""One net under training: minibatches drawn by weight, a fixed number of steps."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor, nn

from tailboost._typing import Floats, Ints
from tailboost.torch._data import Feed

Loss = Callable[..., Tensor]

# All threads share PyTorch's generators, so one training at a time may draw from them.
_DRAWING = threading.RLock()

DECAY = 0.1  # factor of the step size at a milestone


class Randomness:
    """The random state of one training, set while it works; the caller's state is restored after it."""

    def __init__(self, seed: int, device: torch.device) -> None:
        self.device, self.seed = device, seed
        self.states: list[Tensor] | None = None

    @property
    def _cuda(self) -> list[torch.device]:
        return [self.device] if self.device.type == "cuda" else []

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let PyTorch draw from this state in the block."""
        with _DRAWING, torch.random.fork_rng(devices=self._cuda):
            if self.states is None:
                torch.default_generator.manual_seed(self.seed)
                for device in self._cuda:
                    with torch.cuda.device(device):
                        torch.cuda.manual_seed(self.seed)
            else:
                torch.set_rng_state(self.states[0])
                for device, state in zip(self._cuda, self.states[1:], strict=True):
                    torch.cuda.set_rng_state(state, device)
            yield
            self.states = [torch.get_rng_state(), *(torch.cuda.get_rng_state(d) for d in self._cuda)]


@dataclass(frozen=True)
class Recipe:
    """How nets are trained, the same for all nets of a session.

    Parameters
    ----------
    feed, X, y
        The opened rows: how they become what the module takes, the rows, their class numbers.
    build : callable
        Makes a new net.
    optimizer : callable
        Makes the optimiser of a net's parameters.
    batch_size : int
    augment : callable or None
        Batch of inputs to batch of inputs.
    bfloat16 : bool
        Whether the forward pass runs in mixed precision.
    compile : bool
        Whether the net is compiled.
    device : torch.device
    """

    feed: Feed
    X: Tensor
    y: Tensor
    build: Callable[[], nn.Module]
    optimizer: Callable[[Any], torch.optim.Optimizer]
    batch_size: int
    augment: Callable[[Tensor], Tensor] | None
    bfloat16: bool
    compile: bool
    device: torch.device


@dataclass(frozen=True)
class Start:
    """Weights and optimiser state from which rounds start; always copied, never changed."""

    net: dict[str, Tensor]
    optimizer: dict[str, Any]


class Training:
    """A net, its optimiser and its random numbers.

    Parameters
    ----------
    recipe : Recipe
    loss : callable
        (logits, y) -> mean loss, or one per row; a parameter ``features`` gets the input of the last linear
        layer.
    seed : int
        Of the first weights (unless there is a start), of the rows drawn, of dropout and augmentation.
    index, weight : ndarray of shape (m,)
        The rows to draw from and their weights, at least one positive.
    start : Start or None
        Where to start; without it, from new weights.
    milestones : tuple of int
        Steps after which the step size falls to a tenth.
    """

    def __init__(
        self, recipe: Recipe, loss: Loss, seed: int, index: Ints, weight: Floats,
        start: Start | None = None, milestones: tuple[int, ...] = (),
    ) -> None:  # fmt: skip
        self.recipe, self.loss, self.milestones = recipe, loss, milestones
        self.done = 0
        self.rows = np.random.default_rng(seed)
        self.index = index
        total = np.cumsum(weight)
        self.cumulative = total / total[-1]
        self.random = Randomness(seed, recipe.device)
        with self.random.in_use():
            self.net = recipe.build().to(recipe.device)
        if recipe.device.type == "cuda" and len(recipe.feed.row_shape) == 3:
            self.net = self.net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimizer = recipe.optimizer(self.net.parameters())
        if start is not None:
            self.net.load_state_dict(start.net)
            # A copy: PyTorch uses the tensors of an optimiser's state directly, and rounds would share them.
            self.optimizer.load_state_dict(copy_state(start.optimizer))
        self.seen: dict[str, Tensor] = {}
        linear = [module for module in self.net.modules() if isinstance(module, nn.Linear)]
        if linear and _wants_features(loss):
            linear[-1].register_forward_pre_hook(self._see)
        self.forward: Callable[[Tensor], Tensor] = torch.compile(self.net) if recipe.compile else self.net

    def draw(self, n_steps: int) -> Tensor:
        """Draw the rows of the coming steps with replacement by weight, shape (n_steps, batch size)."""
        places = self.rows.random((n_steps, self.recipe.batch_size))
        drawn = self.index[np.searchsorted(self.cumulative, places, side="right")]
        return torch.from_numpy(drawn.astype(np.int64))

    def _see(self, layer: nn.Module, given: tuple[Tensor, ...]) -> None:
        self.seen = {"features": given[0].float()}

    def advance(self, n_steps: int) -> None:
        """Train for some more steps."""
        recipe, net, optimizer = self.recipe, self.forward, self.optimizer
        batches = self.draw(n_steps).to(recipe.X.device)
        labels = recipe.y.index_select(0, batches.flatten()).view_as(batches).to(recipe.device)
        precision: AbstractContextManager[Any] = nullcontext()
        if recipe.bfloat16:
            precision = torch.autocast(recipe.device.type, dtype=torch.bfloat16)
        self.net.train()
        loss = torch.zeros(())
        with self.random.in_use():
            for rows, y in zip(batches, labels, strict=True):
                if self.done in self.milestones:
                    for group in optimizer.param_groups:
                        group["lr"] *= DECAY ** self.milestones.count(self.done)
                x = recipe.feed.batch(recipe.X.index_select(0, rows), recipe.device)
                if recipe.augment is not None:
                    x = recipe.augment(x)
                with precision:
                    logits = net(x)
                loss = self.loss(logits.float(), y, **self.seen)
                optimizer.zero_grad()
                (loss.mean() if loss.ndim else loss).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                self.done += 1
        value = float(loss.detach().mean())
        if not math.isfinite(value):
            warnings.warn(
                f"the loss is {value} after {self.done} steps: the training diverged; a smaller "
                "learning_rate may help",
                ConvergenceWarning,
                stacklevel=2,
            )

    def position(self) -> Start:
        """Return a copy of the current weights and optimiser state."""
        return Start(copy_state(self.net.state_dict()), copy_state(self.optimizer.state_dict()))


def _wants_features(loss: Loss) -> bool:
    try:
        return "features" in signature(loss).parameters
    except ValueError:  # functions written in C have no signature
        return False


def copy_state(state: Any) -> Any:
    """Return a state dict, nested or not, with copies of its tensors."""
    if isinstance(state, Tensor):
        return state.detach().clone()
    if isinstance(state, dict):
        return {k: copy_state(v) for k, v in state.items()}
    return [copy_state(v) for v in state] if isinstance(state, list) else state
