"""Neural nets as base learners (extra ``torch``); importing tailboost alone does not import PyTorch."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_array
from sklearn.utils._param_validation import Interval, StrOptions

from tailboost.core import (
    Array,
    Constraints,
    Floats,
    Ints,
    Seed,
    Table,
    frozen_object,
    frozen_value,
    parameters,
    warn_user,
)
from tailboost.core.ranges import BELOW_ONE, COUNT, NON_NEGATIVE, POSITIVE
from tailboost.learners.base import FittedModel, OpenSession, ProbabilityClassifier, seed_of

try:
    import torch
except ImportError as error:
    raise ImportError(
        f"tailboost.torch needs PyTorch ({error}): pip install 'tailboost[torch]'"
    ) from error
from torch import Tensor, nn

OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
# All threads share PyTorch's global generators, so one training at a time draws from them.
_DRAWING = threading.RLock()
# Factor of the step size at a milestone.
DECAY = 0.1
# Weights times rows of a batch below which one thread is used: threads spin while they wait for each other.
# Next to busy processes a fit of 11,000 weights on 2,000 rows took 42 to 64 s with two threads, and 1.0 to
# 1.4 s with one.
WORK_FOR_THREADS = 50_000_000


@frozen_value
class RowPreparation:
    """Preparation of rows for a module."""

    row_shape: tuple[int, ...]  # (d,) for a table, (H, W) or (H, W, C) for an image
    pixels: bool  # whether rows are images of uint8, which are divided by 255
    device: str  # "auto" or the name of a PyTorch device

    def place(self) -> torch.device:
        """Return the device; "auto" is the GPU if there is one, else the CPU."""
        name = self.device
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        return torch.device(name)

    def transform(self, X: Table) -> Tensor:
        """Return rows as a tensor of uint8 or float32 on the device.

        Raises
        ------
        ValueError
            If rows have another shape, values do not fit float32, or pixels are out of range.
        """
        X = check_array(
            X, order="C", allow_nd=True, ensure_all_finite=False, ensure_min_samples=0
        )
        if X.shape[1:] != self.row_shape:
            raise ValueError(
                f"X has rows of shape {X.shape[1:]}, the net takes rows of shape {self.row_shape}"
            )
        if not (self.pixels and X.dtype == np.uint8):
            with np.errstate(over="ignore"):  # refused below
                X = X.astype(np.float32, copy=False)
            if not np.isfinite(X).all():
                raise ValueError("X contains NaN, infinity or a value too large for float32")
            if self.pixels and ((X < 0) | (X > 1)).any():
                raise ValueError(
                    "the net was fitted on pixels of uint8; floats must lie in [0, 1], X "
                    f"contains {X.min():g} … {X.max():g}"
                )
        return torch.tensor(X, device=self.place())

    def batch(self, x: Tensor) -> Tensor:
        """Return rows of a transformed table as module inputs, float32."""
        if x.dtype == torch.uint8:
            x = x.float().div_(255)
        if x.ndim == 3:  # grey images get one channel
            return x.unsqueeze(1)
        return x.movedim(-1, 1)  # channels first; the columns of a table stay


@dataclass
class Architecture:
    """A module, or a function that creates one, as the frame for weights."""

    module: Any  # nn.Module, or callable (input_shape, n_classes) -> nn.Module
    input_shape: tuple[int, ...]  # shape of a row at the input of the module
    n_classes: int  # K

    def build(self, seed: int) -> nn.Module:
        """Return a new module with initial weights from a seed, or those of the given module.

        Raises
        ------
        TypeError
            If the callable does not return a module.
        """
        with _drawing(seed):
            if isinstance(self.module, nn.Module):
                net = copy.deepcopy(self.module)
            else:
                net = self.module(self.input_shape, self.n_classes)
            if not isinstance(net, nn.Module):
                raise TypeError(
                    f"module={self.module!r} returned {type(net).__name__}; an nn.Module is needed"
                )
        return net


@contextmanager
def _drawing(seed: int) -> Iterator[None]:
    """Draw from a seed in the block, for one thread at a time; then PyTorch's generators are restored."""
    with _DRAWING, torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


@contextmanager
def _threads_for(net: nn.Module, rows: Tensor, batch_size: int) -> Iterator[None]:
    """Use one thread of the processor in the block for small nets on tables; other nets are unaffected."""
    work = sum(p.numel() for p in net.parameters()) * min(batch_size, len(rows))
    n_threads = torch.get_num_threads()
    if rows.ndim == 2 and work < WORK_FOR_THREADS:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


@frozen_object
class FittedNet(FittedModel):
    """A fitted net that predicts class numbers; the module exists only during a prediction.

    Attributes
    ----------
    table_ : RowPreparation
        Preparation of rows for the net. It is equal for all nets of a fit, so rows are prepared once.
    architecture : Architecture
        The frame for the weights.
    batch_size : int
        Rows of a batch at prediction.
    weights : dict of str to ndarray
        The module's ``state_dict``.
    """

    architecture: Architecture
    batch_size: int
    weights: dict[str, Array] = field(repr=False)

    def net(self) -> nn.Module:
        """Return a new module in evaluation mode, on its device."""
        net = self.architecture.build(0)
        net.load_state_dict({k: torch.tensor(v) for k, v in self.weights.items()})
        return net.to(self.table_.place()).eval()

    @torch.inference_mode()
    def predict_proba_table(self, table: Tensor) -> Floats:
        """Return the softmax of the outputs for prepared rows, in batches, shape (n, K)."""
        net = self.net()
        with _threads_for(net, table, self.batch_size):
            logits = torch.cat(
                [
                    net(self.table_.batch(rows)).float()
                    for rows in torch.split(table, self.batch_size)
                ]
            )
        return logits.double().softmax(dim=1).cpu().numpy()


class Training:
    """A net, its optimiser and its draws.

    Parameters
    ----------
    session : TorchSession
        The rows and the settings.
    seed : int
        Seed of the initial weights (without a ``start``), of the drawn rows, of dropout and augmentation.
    weight : ndarray of shape (n,)
        Weights of the rows.
    start : Training, optional
        Has the initial weights and the state of the optimiser.
    """

    def __init__(
        self, session: TorchSession, seed: int, weight: Floats, start: Training | None = None
    ) -> None:
        self.session = session
        self.seed = seed
        self.steps_taken = 0
        self.draws = np.random.default_rng(seed)
        self.weight = weight
        self.net = session.architecture.build(seed).to(session.X.device)
        self.optimizer = session.learner._make_optimizer(self.net.parameters())
        if start is not None:
            self.net.load_state_dict(start.net.state_dict())
            # A copy: PyTorch uses the tensors of an optimiser's state directly, and rounds would share them.
            self.optimizer.load_state_dict(copy.deepcopy(start.optimizer.state_dict()))

    def draw(self, n_steps: int) -> Ints:
        """Draw the rows of the coming steps with replacement by weight, shape (n_steps, batch size)."""
        order = self.session.order
        weight = self.weight[order]
        shape = n_steps, self.session.learner.batch_size
        return self.draws.choice(order, shape, p=weight / weight.sum())

    def advance(self, n_steps: int, milestones: tuple[int, ...] = ()) -> None:
        """Train for ``n_steps`` more steps; warn if the loss is no longer finite.

        After each of the ``milestones``, numbers of steps, the step size falls to a tenth.
        """
        session = self.session
        learner = session.learner
        loss_of = learner.loss or nn.functional.cross_entropy
        batches = torch.from_numpy(self.draw(n_steps)).to(session.X.device)
        self.net.train()
        with _threads_for(self.net, session.X, learner.batch_size), _drawing(self.seed):
            for rows in batches:
                # Each step has its own seed: a training in stages is that in one go.
                torch.manual_seed(self.seed + self.steps_taken)
                for group in self.optimizer.param_groups:
                    group["lr"] *= DECAY ** milestones.count(self.steps_taken)
                inputs = session.feed.batch(session.X[rows])
                if learner.augment is not None:
                    inputs = learner.augment(inputs)
                loss = loss_of(self.net(inputs), session.labels[rows]).mean()
                self.optimizer.zero_grad()
                # PyTorch's own types lack this method's in some versions.
                loss.backward()  # type: ignore[no-untyped-call,unused-ignore]
                self.optimizer.step()
                self.steps_taken += 1
        if not loss.isfinite():
            warn_user(
                f"the loss is {loss.item()} after {self.steps_taken} steps: the training "
                "diverged; reduce learning_rate",
                ConvergenceWarning,
            )


@dataclass
class TorchSession(OpenSession):
    """All trainings of one learner on one table. Every round starts from the same warmed-up model.

    The learner's ``random_state`` seeds the warm-up. Rows have shape (n, d), (n, H, W) or (n, H, W, C). The
    warm-up draws rows by sample weight.
    """

    sample_weight: Floats

    def __post_init__(self) -> None:
        learner = self.learner
        wrong = [m for m in learner.milestones if not BELOW_ONE.is_satisfied_by(m)]
        if wrong:
            raise ValueError(
                f"milestones={learner.milestones!r}: fractions of steps in [0, 1) are needed, got {wrong}"
            )
        X = self.X
        self.feed = RowPreparation(
            X.shape[1:], X.ndim > 2 and X.dtype == np.uint8, learner.device
        )
        self.X = self.feed.transform(X)
        self.architecture = Architecture(
            learner.module, tuple(self.feed.batch(self.X[:1]).shape[1:]), self.n_classes
        )
        self.labels = torch.tensor(self.y, device=self.X.device)
        # The draws index the rows in an order by content, so positions and repetitions do not matter.
        rows = self.X.cpu().numpy() + 0  # −0 has other bytes than 0
        self.order = np.array(
            sorted(range(len(rows)), key=lambda i: (rows[i].tobytes(), self.y[i]))
        )
        self.seed = seed_of(learner.random_state)
        self.start: Training | None = None

    def stages(self, weight: Floats, seed: int) -> Iterator[FittedNet]:
        """Yield the net after every ``growth`` steps, up to ``steps``, trained on rows drawn by weight.

        The training begins with a new net, or with the warmed-up one.
        """
        learner = self.learner
        if learner.warmup_steps and self.start is None:
            self.start = Training(self, self.seed, self.sample_weight)
            self.start.advance(learner.warmup_steps)
        training = Training(self, seed, weight, self.start)
        steps = learner.steps
        growth = learner.growth or steps
        milestones = tuple(round(share * steps) for share in learner.milestones)
        while training.steps_taken < steps:
            training.advance(min(growth, steps - training.steps_taken), milestones)
            weights = {k: v.cpu().numpy().copy() for k, v in training.net.state_dict().items()}
            yield FittedNet(self.feed, self.architecture, learner.eval_batch_size, weights)

    def fit(self, weight: Floats, seed: int) -> FittedNet:
        """Return the net after all steps."""
        *_, net = self.stages(weight, seed)
        return net


@parameters
class TorchClassifier(ProbabilityClassifier):
    """Neural net trained for a fixed number of steps on minibatches drawn by weight.

    Base learner for every boosting classifier, and a classifier by itself. Images are arrays of shape
    (n, H, W) or (n, H, W, C), or a ``torch.utils.data.Dataset``, which is read once. The module gets images
    with channels first; uint8 is divided by 255. Tables are converted to float32.

    In a boosting classifier every round starts from one model, which is warmed up by ERM with the sample
    weights. Weights and optimiser state are copied. With folds each fold has a warmed-up model.

    Parameters
    ----------
    module : nn.Module or callable
        A module, whose weights are the start of training, or ``(input_shape, n_classes) -> nn.Module``.
        ``input_shape`` is (d,) or (C, H, W). The module returns one score per class.
    optimizer : {"sgd", "adam", "adamw"} or callable, default="sgd"
        Or ``parameters -> torch.optim.Optimizer``; ``learning_rate``, ``momentum`` and ``weight_decay`` are
        then not used.
    learning_rate : float > 0, default=0.1
        Step size.
    momentum : float in [0, 1), default=0.9
        Momentum of "sgd".
    weight_decay : float ≥ 0, default=0.0
        Weight decay, as the optimiser defines it.
    batch_size : int ≥ 1, default=128
        Rows in a step.
    steps : int ≥ 1, default=500
        Steps of a fit; in boosting, of a round.
    milestones : tuple of float in [0, 1), default=(0.8,)
        Fractions of ``steps`` after which the step size falls to a tenth.
    warmup_steps : int ≥ 0, default=0
        ERM steps before the first round. With 0 every round starts from new weights drawn with its own seed.
    loss : callable, optional
        ``(logits, y) -> loss``, a mean or one per row; None is the cross-entropy. Rows are drawn by
        weight, so the loss needs no weights.
    augment : callable, default=None
        Maps a batch of module inputs to another, on the device, during training. Draws from PyTorch's
        generators are reproducible.
    device : str, default="auto"
        "auto" is the GPU if there is one, else the CPU; or the name of a PyTorch device.
    growth : int ≥ 1, default=None
        Number of steps between two checks of the model, for classifiers that end training as soon as their
        condition is met. ``None`` trains all steps at once.
    eval_batch_size : int ≥ 1, default=1024
        Rows of a batch at prediction.
    random_state : int, RandomState or None
        An int gives the same net on the CPU. The state of PyTorch's global generators is not changed.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    net_ : FittedNet
        The fitted net; ``net_.net()`` is the module.
    n_features_in_ : int
        Length of the second axis of X.

    Notes
    -----
    A step draws ``batch_size`` rows i ~ w with replacement [1]_. The drawn rows depend on the seed and on the
    rows' content, not on their positions. A row of weight 2 is drawn like two equal rows. Threads train one
    after another, because they share PyTorch's generators.

    References
    ----------
    .. [1] R. Zhai et al., "Boosted CVaR Classification", NeurIPS 2021, Appendix: training.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from tailboost.torch import TorchClassifier
    >>> from torch import nn
    >>> def mlp(input_shape, n_classes):
    ...     return nn.Sequential(nn.Linear(*input_shape, 100), nn.ReLU(), nn.Linear(100, n_classes))
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = TorchClassifier(mlp, steps=100, random_state=0).fit(X / 16, y)
    >>> float(clf.score(X / 16, y)) > 0.8
    True
    """

    module: object
    _: KW_ONLY
    optimizer: Any = "sgd"
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 0.0
    batch_size: int = 128
    steps: int = 500
    milestones: tuple[float, ...] = (0.8,)
    warmup_steps: int = 0
    loss: Any = None
    augment: Any = None
    device: str = "auto"
    growth: int | None = None
    eval_batch_size: int = 1024
    random_state: Seed = None

    _parameter_constraints: ClassVar[Constraints] = {
        "module": [callable],
        "optimizer": [StrOptions(set(OPTIMIZERS)), callable],
        "learning_rate": [POSITIVE],
        "momentum": [BELOW_ONE],
        "weight_decay": [NON_NEGATIVE],
        "batch_size": [COUNT],
        "steps": [COUNT],
        "milestones": ["array-like"],
        "warmup_steps": [Interval(Integral, 0, None, closed="left")],
        "loss": [callable, None],
        "augment": [callable, None],
        "device": [str],
        "growth": [COUNT, None],
        "eval_batch_size": [COUNT],
        "random_state": ["random_state"],
    }

    _session = TorchSession

    def _make_optimizer(self, parameters: Any) -> torch.optim.Optimizer:
        """Return the optimiser for the trained parameters of a net, by name or by the given factory."""
        optimizer = self.optimizer
        trained = [p for p in parameters if p.requires_grad]
        if callable(optimizer):
            return optimizer(trained)
        options = {"lr": self.learning_rate, "weight_decay": self.weight_decay}
        if optimizer == "sgd":
            options["momentum"] = self.momentum
        return OPTIMIZERS[optimizer](trained, **options)

    net_ = property(attrgetter("model_"))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.non_deterministic = self.random_state is None
        return tags
