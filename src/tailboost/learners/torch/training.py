"""One net under training: minibatches drawn by weight, a fixed number of steps."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor, nn

from tailboost.core.array_types import Floats, Ints
from tailboost.learners.torch.net_data import RowPreparation

Loss = Callable[..., Tensor]

# All threads share PyTorch's global generators, so one training at a time draws from them.
_DRAWING = threading.RLock()

DECAY = 0.1  # factor of the step size at a milestone
# Number of weights from which "auto" mixes precisions. Smaller nets wait for kernels to start.
LARGE = 10_000_000
# Weights times rows of a batch below which one thread is used: threads spin while they wait for each other.
# Next to busy processes a fit of 11,000 weights on 2,000 rows took 42 to 64 s with two threads, and 1.0 to
# 1.4 s with one.
WORK_FOR_THREADS = 50_000_000


class Randomness:
    """Random state of one training, used in place of the state of PyTorch's global generators."""

    def __init__(self, seed: int, device: torch.device) -> None:
        devices = [torch.device("cpu")]
        if device.type == "cuda":
            devices.append(device)
        self.generators = [torch.Generator(d).manual_seed(seed) for d in devices]

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Give PyTorch's global generators this state in the block, for one thread at a time."""
        cpu, *cuda = self.generators
        with _DRAWING, torch.random.fork_rng(devices=[g.device for g in cuda]):
            torch.set_rng_state(cpu.get_state())
            for g in cuda:
                torch.cuda.set_rng_state(g.get_state(), g.device)
            yield
            cpu.set_state(torch.get_rng_state())
            for g in cuda:
                g.set_state(torch.cuda.get_rng_state(g.device))


@contextmanager
def threads_for(net: nn.Module, rows: Tensor, batch_size: int) -> Iterator[None]:
    """Use one thread of the processor in the block for small nets on tables; other nets are unaffected."""
    n_weights = sum(p.numel() for p in net.parameters())
    is_small = n_weights * min(batch_size, len(rows)) < WORK_FOR_THREADS
    are_images = rows.ndim > 2
    n_threads = torch.get_num_threads()
    if are_images or not is_small or n_threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


def is_mixed(precision: str, net: nn.Module, device: torch.device) -> bool:
    """Return whether the forward pass of a net runs in mixed precision with bfloat16."""
    if precision != "auto":
        return precision == "bfloat16"
    large = sum(p.numel() for p in net.parameters()) >= LARGE
    return large and device.type == "cuda" and torch.cuda.is_bf16_supported()


@dataclass(frozen=True)
class Recipe:
    """Settings of training, equal for all nets of a session."""

    feed: RowPreparation  # prepares rows for the module
    X: Tensor  # prepared rows
    y: Tensor  # class numbers
    build: Callable[[], nn.Module]  # returns a new net
    optimizer: Callable[[Any], torch.optim.Optimizer]  # maps a net's parameters to an optimiser
    batch_size: int
    augment: Callable[..., Tensor] | None  # maps a batch of inputs to another; None: as it is
    precision: str  # {"auto", "float32", "bfloat16"}: of the forward pass
    compile: bool  # whether the net is compiled
    device: torch.device


@dataclass(frozen=True)
class Start:
    """Weights and optimiser state from which rounds start. They are copied and never changed."""

    net: dict[str, Tensor]
    optimizer: dict[str, Any]


class Training:
    """A net, its optimiser and its random numbers.

    Parameters
    ----------
    recipe : Recipe
        Settings.
    loss : callable
        ``loss(logits, y)`` returns a mean loss, or one per row. A parameter ``features`` gets the input of
        the last linear layer.
    seed : int
        Seed of the initial weights (without a ``start``), of the drawn rows, of dropout and augmentation.
    index : ndarray of int, shape (m,)
        Rows that may be drawn.
    weight : ndarray of shape (m,)
        Weights of these rows.
    start : Start, optional
        Initial weights and optimiser state.
    milestones : tuple of int
        Steps after which the step size falls to a tenth.
    """

    def __init__(
        self, recipe: Recipe, loss: Loss, seed: int, index: Ints, weight: Floats,
        start: Start | None = None, milestones: tuple[int, ...] = (),
    ) -> None:  # fmt: skip
        self.recipe = recipe
        self.loss = loss
        self.milestones = milestones
        self.steps_taken = 0
        self.row_draws = np.random.default_rng(seed)
        self.index = index
        cumulative_weight = np.cumsum(weight)
        self.cumulative_weight = cumulative_weight / cumulative_weight[-1]

        # The random numbers of PyTorch: initial weights, dropout and augmentation.
        self.random = Randomness(seed, recipe.device)
        with self.random.in_use():
            self.net = recipe.build().to(recipe.device)
        rows_are_images = len(recipe.feed.row_shape) == 3
        if rows_are_images:  # in this format, convolutions of colour images are faster
            self.net = self.net.to(memory_format=torch.channels_last)  # type: ignore[call-overload,unused-ignore]
        self.has_mixed_precision = is_mixed(recipe.precision, self.net, recipe.device)
        self.optimizer = recipe.optimizer(self.net.parameters())
        if start is not None:
            self.net.load_state_dict(start.net)
            # A copy: PyTorch uses the tensors of an optimiser's state directly, and rounds would share them.
            self.optimizer.load_state_dict(copy_state(start.optimizer))

        # Further arguments of the loss: the inputs of the last layer, if it has a parameter for them.
        self.layer_inputs: dict[str, Tensor] = {}
        if takes(loss, "features"):
            self._keep_features()
        self.forward: Callable[[Tensor], Tensor] = self.net
        if recipe.compile:
            self.forward = torch.compile(self.net)

    def _keep_features(self) -> None:
        """Keep the input of the last linear layer in each forward pass, as ``features`` of the loss."""
        linear_layers = [layer for layer in self.net.modules() if isinstance(layer, nn.Linear)]

        def keep(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            self.layer_inputs["features"] = inputs[0].float()

        if linear_layers:
            linear_layers[-1].register_forward_pre_hook(keep)

    def draw(self, n_steps: int) -> Tensor:
        """Draw the rows of the coming steps with replacement by weight, shape (n_steps, batch size)."""
        uniform = self.row_draws.random((n_steps, self.recipe.batch_size))
        rows = self.index[np.searchsorted(self.cumulative_weight, uniform, side="right")]
        return torch.from_numpy(rows.astype(np.int64))

    def advance(self, n_steps: int) -> None:
        """Train for ``n_steps`` more steps; warn if the loss is no longer finite."""
        recipe = self.recipe
        batches = self.draw(n_steps).to(recipe.X.device)
        labels = recipe.y.index_select(0, batches.flatten()).view_as(batches).to(recipe.device)
        self.net.train()
        loss = torch.zeros(())
        with threads_for(self.net, recipe.X, recipe.batch_size), self.random.in_use():
            for rows, y in zip(batches, labels, strict=True):
                n_decays = self.milestones.count(self.steps_taken)  # mostly 0
                for group in self.optimizer.param_groups:
                    group["lr"] *= DECAY**n_decays
                loss = self._step(recipe.X.index_select(0, rows), y)
                self.steps_taken += 1
        value = float(loss.mean())
        if not math.isfinite(value):
            warnings.warn(
                f"the loss is {value} after {self.steps_taken} steps: the training diverged; "
                "reduce learning_rate",
                ConvergenceWarning,
                stacklevel=2,
            )

    def _step(self, rows: Tensor, y: Tensor) -> Tensor:
        """Take a step on a minibatch and return its loss, without waiting for the device."""
        recipe = self.recipe
        inputs = recipe.feed.batch(rows, recipe.device)
        if recipe.augment is not None:
            inputs = recipe.augment(inputs)
        # Only the forward pass is mixed; loss, gradients and weights are float32.
        precision: Any = nullcontext()
        if self.has_mixed_precision:
            precision = torch.autocast(recipe.device.type, dtype=torch.bfloat16)
        with precision:
            logits = self.forward(inputs)
        loss = self.loss(logits.float(), y, **self.layer_inputs)
        # This releases the step's autograd graph, whose nodes belong to one stream.
        self.layer_inputs = {}
        self.optimizer.zero_grad()
        # PyTorch's own types lack this method's in some versions.
        loss.mean().backward()  # type: ignore[no-untyped-call,unused-ignore]
        self.optimizer.step()
        return loss.detach()


def takes(function: Callable[..., Any] | None, parameter: str) -> bool:
    """Return whether a function has a parameter of this name."""
    if function is None:
        return False
    try:
        return parameter in signature(function).parameters
    except ValueError:  # functions written in C have no signature
        return False


def copy_state(state: Any) -> Any:
    """Return a state dict, nested or not, with copies of its tensors."""
    if isinstance(state, Tensor):
        return state.detach().clone()
    if isinstance(state, dict):
        return {k: copy_state(v) for k, v in state.items()}
    if isinstance(state, list):
        return [copy_state(v) for v in state]
    return state
