"""A PyTorch module as a base learner: a scikit-learn classifier, and its session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from tailboost.core.array_types import (
    Array,
    Column,
    Floats,
    Ints,
    Labels,
    Mask,
    Model,
    Seed,
    Table,
)
from tailboost.core.checks import check_labelled_rows, check_row_shape, unpack
from tailboost.core.constraints import Constraints, OneOf
from tailboost.core.long_work import fitting_apart
from tailboost.learners.torch.fitted_net import Architecture, FittedNet
from tailboost.learners.torch.losses import make_loss
from tailboost.learners.torch.net_data import RowPreparation, find_device
from tailboost.learners.torch.training import Randomness, Recipe, Start, Training, copy_state
from tailboost.rows.fingerprints import digest, hash_rows

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}


class TorchSession:
    """All trainings of one learner on one table. Every round starts from the same warmed-up model.

    The learner's ``random_state`` seeds the warm-up. Rows have shape (n, d), (n, H, W) or (n, H, W, C). The
    warm-up draws rows by sample weight. Losses with class counts get the sums of the sample weights.

    Raises
    ------
    ValueError
        If the module rejects the rows, or does not return one score per class.
    """

    concurrent = False  # one device
    keeps_stages = True  # each stage copies the weights

    def __init__(
        self,
        learner: TorchClassifier,
        X: Array,
        y: Ints,
        n_classes: int,
        sample_weight: Floats,
    ) -> None:
        self.learner = learner
        self.y = y
        self.sample_weight = sample_weight
        device = find_device(learner.device)
        self.feed = RowPreparation.of(X, learner.device)
        self.architecture = Architecture(learner.module, self.feed.input_shape, n_classes)
        self.X = self.feed.transform(X)
        self.recipe = Recipe(
            feed=self.feed,
            X=self.X,
            y=torch.from_numpy(y.astype(np.int64)).to(self.X.device),
            build=self.architecture.build,
            optimizer=learner._make_optimizer,
            batch_size=learner.batch_size,
            augment=learner.augment,
            precision=learner.precision,
            compile=learner.compile,
            device=device,
        )
        # The draws index the rows in an order by content, so positions and repetitions do not matter.
        self.order = np.lexsort((y, hash_rows(X)))
        self.seed = int(check_random_state(learner.random_state).randint(2**31 - 1))
        self.starts: dict[str, Start] = {}
        self._check_two_rows()

    def _check_two_rows(self) -> None:
        """Raise ValueError if module, augmentation or loss fail on two rows, before any training."""
        learner = self.learner
        recipe = self.recipe
        # Without effect on PyTorch's global generators.
        with Randomness(self.seed, recipe.device).in_use():
            net = self.architecture.build().to(recipe.device).eval()
            if not any(p.requires_grad for p in net.parameters()):
                raise ValueError(f"module={learner.module!r} has no parameter to train")
            batch = self.feed.batch(self.X[:2], recipe.device)
            n = len(batch)  # 1 if the table has a single row
            scores = self._checked_scores(net, batch)
            if learner.augment is not None:
                augmented = _shape(learner.augment(batch.clone()))
                if augmented != tuple(batch.shape):
                    raise ValueError(
                        f"augment returned {augmented} for a batch of shape "
                        f"{tuple(batch.shape)}"
                    )
            loss = self._loss(None)(scores.float(), recipe.y[:n].to(recipe.device))
            if _shape(loss) not in ((), (n,)):
                raise ValueError(
                    f"loss={learner.loss!r} returns {_shape(loss)}; a mean or one per row is "
                    "needed"
                )

    def _checked_scores(self, net: torch.nn.Module, batch: Tensor) -> Tensor:
        """Return the scores of a batch, shape (n, K); raise ValueError if the net returns none."""
        row_words = f"rows of shape {tuple(batch.shape[1:])}"
        if batch.ndim > 2:
            row_words += " (channels first)"
        try:
            scores = net(batch)
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise ValueError(f"the module rejects {row_words}: {reason}") from error
        n = len(batch)
        K = self.architecture.n_classes
        if _shape(scores) != (n, K):
            raise ValueError(
                f"the module returns {_shape(scores)} for {n} {row_words}; {(n, K)} is needed, "
                f"one score for each of the {K} classes"
            )
        return scores

    def _loss(self, rows: Mask | None) -> Callable[[Tensor, Tensor], Tensor]:
        """Return the loss of the learner, with the class counts of these rows (None: all)."""
        y = self.y
        weight = self.sample_weight
        if rows is not None:
            y = y[rows]
            weight = weight[rows]
        counts = np.bincount(y, weights=weight, minlength=self.architecture.n_classes)
        return make_loss(self.learner.loss, counts, self.recipe.device)

    def _drawn_from(self, rows: Mask | None) -> Ints:
        """Return the numbers of these rows (None: all), in the order of their content."""
        if rows is None:
            return self.order
        return self.order[rows[self.order]]

    def begin(self, weight: Floats, seed: int, rows: Mask | None) -> Training:
        """Return the training of a round before its first step: a new net, or the warmed-up one."""
        learner = self.learner
        index = self._drawn_from(rows)
        milestones = tuple(round(share * learner.steps) for share in learner.milestones)
        start = None
        if learner.warmup_steps:
            start = self._start(rows)
        return Training(
            self.recipe, self._loss(rows), seed, index, weight[index], start, milestones
        )

    def _start(self, rows: Mask | None) -> Start:
        """Return the model warmed up on these rows, from which rounds start; each fold has its own."""
        key = "all"
        if rows is not None:
            key = digest(rows.tobytes())
        if key not in self.starts:
            self.starts[key] = self.warm_up(rows)
        return self.starts[key]

    def warm_up(self, rows: Mask | None) -> Start:
        """Return weights and optimiser state after ERM on these rows."""
        index = self._drawn_from(rows)
        training = Training(
            self.recipe, self._loss(rows), self.seed, index, self.sample_weight[index]
        )
        training.advance(self.learner.warmup_steps)
        return Start(
            copy_state(training.net.state_dict()), copy_state(training.optimizer.state_dict())
        )

    def _fitted_net(self, training: Training) -> FittedNet:
        state = training.net.state_dict()
        return FittedNet(self.architecture, self.feed, self.learner.eval_batch_size, state)

    def stages(
        self, weight: Floats, seed: int, rows: Mask | None = None
    ) -> Iterator[FittedNet]:
        """Yield the net after every ``growth`` steps, up to ``steps``; the last is the result of `fit`."""
        return self.grown(self.begin(weight, seed, rows))

    def grown(self, training: Training) -> Iterator[FittedNet]:
        """Yield the net of a training after every ``growth`` steps, up to ``steps``."""
        steps = self.learner.steps
        growth = self.learner.growth or steps
        while training.steps_taken < steps:
            steps_left = steps - training.steps_taken
            training.advance(min(growth, steps_left))
            yield self._fitted_net(training)

    def fit(self, weight: Floats, seed: int, rows: Mask | None = None) -> FittedNet:
        """Return a net trained for all steps on rows drawn with these weights."""
        training = self.begin(weight, seed, rows)
        training.advance(self.learner.steps)
        return self._fitted_net(training)

    def predict(self, model: Model, rows: Mask | None = None) -> Ints:
        """Return class numbers of the session's rows."""
        table = self.X
        if rows is not None:
            table = table[torch.from_numpy(rows).to(table.device)]
        return model.predict_table(table)


def _shape(value: object) -> tuple[int, ...] | str:
    """Return the shape of a tensor; of another value the name of its type, for a message."""
    if isinstance(value, Tensor):
        return tuple(value.shape)
    return type(value).__name__


class TorchClassifier(ClassifierMixin, BaseEstimator):
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
    loss : str or callable, default="cross_entropy"
        A name in ``tailboost.torch.losses.LOSSES``, or ``(logits, y) -> loss``, a mean or one per row. If
        the callable has a parameter ``class_counts``, it gets the class counts of the training rows; a
        parameter ``features`` gets the input of the last linear layer.
    augment : callable, default=None
        Maps a batch of module inputs to another, on the device, during training. Draws from PyTorch's
        generators are reproducible.
    precision : {"auto", "float32", "bfloat16"}, default="auto"
        Precision of the forward pass in training. Loss, gradients, weights and predictions use float32.
        "auto" is mixed precision with bfloat16 for nets of at least ten million weights on a GPU with
        bfloat16, else float32. On a GPU PyTorch multiplies float32 convolutions in TF32 (eleven bits) unless
        ``torch.backends.cudnn.allow_tf32`` is False.
    device : str, default="auto"
        "auto" is the GPU if there is one, else the CPU; or the name of a PyTorch device.
    growth : int ≥ 1, default=None
        Number of steps between two checks of the model, for classifiers that end training as soon as their
        condition is met. ``None`` trains all steps at once.
    compile : bool, default=False
        Whether to compile the module by ``torch.compile`` for training.
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

    See Also
    --------
    tailboost.learners.torch.nets : Small nets, as factories.
    tailboost.learners.torch.losses : Losses for unbalanced classes.

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
    >>> from tailboost.torch import TorchClassifier, nets
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = TorchClassifier(nets.mlp_100_100, steps=100, random_state=0).fit(X / 16, y)
    >>> float(clf.score(X / 16, y)) > 0.8
    True
    """

    _parameter_constraints: ClassVar[Constraints] = {
        "module": [callable],
        "optimizer": [OneOf(*OPTIMIZERS), callable],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "steps": [Interval(Integral, 1, None, closed="left")],
        "milestones": ["array-like"],
        "warmup_steps": [Interval(Integral, 0, None, closed="left")],
        "loss": [str, callable],
        "augment": [callable, None],
        "precision": [OneOf("auto", "float32", "bfloat16")],
        "device": [str],
        "growth": [Interval(Integral, 1, None, closed="left"), None],
        "compile": ["boolean"],
        "eval_batch_size": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self, module: object, *, optimizer: Any = "sgd", learning_rate: float = 0.1, momentum: float = 0.9,
        weight_decay: float = 0.0, batch_size: int = 128, steps: int = 500,
        milestones: tuple[float, ...] = (0.8,), warmup_steps: int = 0, loss: Any = "cross_entropy",
        augment: Any = None, precision: str = "auto", device: str = "auto", growth: int | None = None,
        compile: bool = False, eval_batch_size: int = 1024, random_state: Seed = None,
    ) -> None:  # fmt: skip
        self.module = module
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.steps = steps
        self.milestones = milestones
        self.warmup_steps = warmup_steps
        self.loss = loss
        self.augment = augment
        self.precision = precision
        self.device = device
        self.growth = growth
        self.compile = compile
        self.eval_batch_size = eval_batch_size
        self.random_state = random_state

    def _make_optimizer(self, parameters: Any) -> torch.optim.Optimizer:
        """Return the optimiser for the trained parameters of a net, by name or by the given factory."""
        trained = [p for p in parameters if p.requires_grad]
        if callable(self.optimizer):
            return self.optimizer(trained)
        options = {"lr": self.learning_rate, "weight_decay": self.weight_decay}
        if self.optimizer == "sgd":
            options["momentum"] = self.momentum
        return OPTIMIZERS[self.optimizer](trained, **options)

    def open_session(
        self, X: Table, y: Ints, n_classes: int, sample_weight: Floats
    ) -> TorchSession:
        """Return a session on these rows; labels are class numbers 0 … K − 1."""
        self._validate_params()
        wrong = [m for m in self.milestones if not (isinstance(m, Real) and 0 <= m < 1)]
        if wrong:
            raise ValueError(
                f"milestones={self.milestones!r}: fractions of steps in [0, 1) are needed, got "
                f"{wrong}"
            )
        return TorchSession(self, np.asarray(X), y, n_classes, sample_weight)

    def _checked(self, X: Table, y: Column = None) -> Any:
        """Return the checked rows; with labels y, as in a fit, the rows and the labels."""
        labels = {}
        if y is not None:
            labels["y"] = y
        check_row_shape(self, X, reset=y is not None)
        return validate_data(self, X, reset=y is not None, allow_nd=True, **labels)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Table, y: Column = None, sample_weight: Column = None) -> Self:
        """Train the net on weighted rows.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, H, W) or (n, H, W, C), or torch Dataset
            Rows of a table, or images. A Dataset also contains the labels.
        y : array-like of shape (n,)
            Class labels; ``None`` takes the labels of a Dataset.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights; rows are drawn with these probabilities.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument is not as described, or the module rejects the rows, before any training.
        """
        X, y = unpack(X, y)
        with fitting_apart(self) as fitted:
            X, classes, class_numbers, weight = check_labelled_rows(fitted, X, y, sample_weight)
            session = fitted.open_session(X, class_numbers, len(classes), weight)
            fitted.net_ = session.fit(weight, session.seed)
            fitted.classes_ = classes
        return self

    def predict(self, X: Table) -> Labels:
        """Predict labels, shape (n,)."""
        check_is_fitted(self)
        return self.classes_[self.net_.predict(self._checked(unpack(X)[0]))]

    def predict_proba(self, X: Table) -> Floats:
        """Predict class probabilities (softmax), shape (n, K), columns in the order of ``classes_``."""
        check_is_fitted(self)
        return self.net_.predict_proba(self._checked(unpack(X)[0]))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.non_deterministic = self.random_state is None
        return tags
