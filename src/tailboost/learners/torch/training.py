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
from tailboost.learners.torch.net_data import Feed

Loss = Callable[..., Tensor]

# All threads share PyTorch's global generators, so one training at a time may draw from them.
_DRAWING = threading.RLock()

DECAY = 0.1  # factor of the step size at a milestone
# Weights from which "auto" mixes precisions: below, a GPU waits for kernels to start rather than for numbers.
LARGE = 10_000_000
# Where a layer's weights times the rows of a batch are fewer than this, a thread per core costs more than it
# brings: threads spin while they wait for each other after every operation. Beside busy processes the default
# fit of a net of 11,000 weights on 2,000 rows took 42 to 64 s with two threads and 1.0 to 1.4 s with one.
WORK_FOR_THREADS = 50_000_000

# Layers that draw in training. Those of other packages may, too: none is known to be quiet.
_DRAWING_LAYERS = (
    nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout, nn.RReLU,
    nn.FractionalMaxPool2d, nn.FractionalMaxPool3d, nn.MultiheadAttention, nn.RNNBase,
)  # fmt: skip
_KNOWN_LAYERS = "torch.nn.modules."


class Randomness:
    """The random state of one training: its own generators, lent to what draws from PyTorch's global ones."""

    def __init__(self, seed: int, device: torch.device) -> None:
        devices = [torch.device("cpu"), *([device] if device.type == "cuda" else [])]
        self.generators = [torch.Generator(d).manual_seed(seed) for d in devices]

    @property
    def generator(self) -> torch.Generator:
        """The generator of the device."""
        return self.generators[-1]

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let PyTorch's global generators draw from this state in the block; one thread at a time can."""
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
    """Have small nets on rows of a table work in one thread of the processor, and leave other nets alone."""
    weights = sum(p.numel() for p in net.parameters())
    before = torch.get_num_threads()
    if rows.ndim > 2 or before == 1 or weights * min(batch_size, len(rows)) >= WORK_FOR_THREADS:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def is_mixed(precision: str, net: nn.Module, device: torch.device) -> bool:
    """Return whether the forward pass of a net runs in mixed precision with bfloat16."""
    if precision != "auto":
        return precision == "bfloat16"
    large = sum(p.numel() for p in net.parameters()) >= LARGE
    return large and device.type == "cuda" and torch.cuda.is_bf16_supported()


def may_draw(net: nn.Module) -> bool:
    """Return whether a net may draw random numbers in training."""
    return any(
        isinstance(layer, _DRAWING_LAYERS) or not type(layer).__module__.startswith(_KNOWN_LAYERS)
        for layer in net.modules()
    )


@dataclass(frozen=True)
class Recipe:
    """How nets are trained, the same for all nets of a session."""

    # feed, X, y: the opened rows: how they become what the module takes, the rows, their class numbers.
    feed: Feed
    X: Tensor
    y: Tensor
    build: Callable[[], nn.Module]  # makes a new net
    optimizer: Callable[[Any], torch.optim.Optimizer]  # makes the optimiser of a net's parameters
    batch_size: int
    # Batch of inputs to batch of inputs; one with a parameter ``generator`` draws from no other.
    augment: Callable[..., Tensor] | None
    # Whether loss, optimiser and augmentation are known to leave PyTorch's global generators alone.
    quiet: bool
    precision: str  # {"auto", "float32", "bfloat16"}: of the forward pass
    compile: bool  # whether the net is compiled
    device: torch.device


@dataclass(frozen=True)
class Start:
    """Weights and optimiser state from which rounds start; always copied, never changed."""

    net: dict[str, Tensor]
    optimizer: dict[str, Any]


class Training:
    """A net, its optimiser and its random numbers.

    ``loss(logits, y)`` is a mean loss, or one per row; a parameter ``features`` gets the input of the last
    linear layer. The seed is that of the first weights (unless there is a ``start``), of the rows drawn from
    ``index`` by ``weight``, of dropout and augmentation. ``milestones`` are steps after which the step size
    falls to a tenth.
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
        self.mixed = is_mixed(recipe.precision, self.net, recipe.device)
        self.optimizer = recipe.optimizer(self.net.parameters())
        if start is not None:
            self.net.load_state_dict(start.net)
            # A copy: PyTorch uses the tensors of an optimiser's state directly, and rounds would share them.
            self.optimizer.load_state_dict(copy_state(start.optimizer))
        # Only what draws from the global generators keeps other threads from training at the same time.
        self.draws = not recipe.quiet or may_draw(self.net)
        self.drawing: dict[str, Any] = {}
        if not self.draws and takes(recipe.augment, "generator"):
            self.drawing["generator"] = self.random.generator
        self.seen: dict[str, Tensor] = {}
        linear = [module for module in self.net.modules() if isinstance(module, nn.Linear)]
        if linear and takes(loss, "features"):
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
        recipe = self.recipe
        batches = self.draw(n_steps).to(recipe.X.device)
        labels = recipe.y.index_select(0, batches.flatten()).view_as(batches).to(recipe.device)
        self.net.train()
        loss = torch.zeros(())
        few = threads_for(self.net, recipe.X, recipe.batch_size)
        with few, self.random.in_use() if self.draws else nullcontext():
            for rows, y in zip(batches, labels, strict=True):
                if self.done in self.milestones:
                    for group in self.optimizer.param_groups:
                        group["lr"] *= DECAY ** self.milestones.count(self.done)
                loss = self._step(recipe.X.index_select(0, rows), y)
                self.done += 1
        value = float(loss.mean())
        if not math.isfinite(value):
            warnings.warn(
                f"the loss is {value} after {self.done} steps: the training diverged; a smaller "
                "learning_rate may help",
                ConvergenceWarning,
                stacklevel=2,
            )

    def _step(self, rows: Tensor, y: Tensor) -> Tensor:
        """Take a step on a minibatch and return its loss; nothing in it waits for the device."""
        recipe = self.recipe
        x = recipe.feed.batch(rows, recipe.device)
        if recipe.augment is not None:
            x = recipe.augment(x, **self.drawing)
        # The forward pass alone is mixed; loss, gradients and weights are in float32.
        with torch.autocast(recipe.device.type, dtype=torch.bfloat16) if self.mixed else nullcontext():
            logits = self.forward(x)
        loss = self.loss(logits.float(), y, **self.seen)
        self.seen = {}  # else it would keep this step's autograd graph, whose nodes belong to one stream
        self.optimizer.zero_grad()
        (loss.mean() if loss.ndim else loss).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()

    def position(self) -> Start:
        """Return a copy of the current weights and optimiser state."""
        return Start(copy_state(self.net.state_dict()), copy_state(self.optimizer.state_dict()))


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
    return [copy_state(v) for v in state] if isinstance(state, list) else state
