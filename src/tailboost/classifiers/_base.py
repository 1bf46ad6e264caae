"""What every boosting classifier shares: data in, the game, predictions out."""

from __future__ import annotations

import copy
import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, is_regressor
from sklearn.pipeline import Pipeline
from sklearn.utils import InputTags, Tags, _safe_indexing, check_random_state, column_or_1d, get_tags
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _raise_for_params,
    process_routing,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_method_params, _check_sample_weight, validate_data

from tailboost._identity import Identity, differing
from tailboost._interrupts import noticing_interrupts
from tailboost._rows import (
    check_row_shape,
    distinct,
    draw_lots,
    fingerprint,
    hash_rows,
    refuse_empty,
    refuse_missing,
    unpack,
)
from tailboost.checkpoints import Checkpoints, keep
from tailboost.game import Floats, Game, Ints, Response, Rule, Stopping, Units, play
from tailboost.learners import HistBoostClassifier, open_session, predict_members
from tailboost.learners._sklearn import is_skorch
from tailboost.validation import (
    CrossFitted,
    External,
    Goal,
    HeldOut,
    Resubstitution,
    Rows,
    Scheme,
    folds,
    held_out,
)

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as with_callbacks
except ImportError:  # scikit-learn < 1.9 has no callbacks

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""

    def with_callbacks(method: Any) -> Any:
        """Return the method as it is."""
        return method


# "auto": cross-fitting costs 6 fits a round, a held-out fifth 2; from here on the fifth is large enough.
CROSS_FIT_UP_TO = 50_000
N_FOLDS = 5
HELD_OUT = 0.2
LIGHT = 0.01  # mean weight of a row below which (or with a sum of 1) weights were hardly meant as counts
LEAST_HELD_OUT = 20  # rows that a held-out fifth of the smallest class or group must have
# Rows and values of a batch at prediction, to bound the memory of a converted table.
BATCH = 262_144
BATCH_VALUES = 2**30
# What may change from one fit to the next that continues it.
_FREE = frozenset(
    {
        "n_estimators",
        "n_jobs",
        "verbose",
        "checkpoint_dir",
        "warm_start",
        "max_time",
        "max_rounds",
        "tol",
        "n_iter_no_change",
    }
)


class FitInterruptedWarning(UserWarning):
    """A fit was ended early, by Ctrl-C or a time limit, and keeps the rounds it has."""


@dataclass
class Problem:
    """A checked training set: rows of positive weight (``used`` of all), labels and groups as numbers."""

    X: Any
    y: Ints
    weight: Floats
    groups: Ints | None
    n_classes: int
    used: Ints
    validation: tuple[Any, Rows] | None

    @property
    def rows(self) -> Rows:
        """The training rows, as rows to be judged on."""
        return Rows(self.y, self.weight, self.groups, f"the {len(self.y):,} training rows")

    def fingerprint(self, classes: NDArray[Any]) -> str:
        """Digest by which a fit that goes on recognises its data and labels."""
        tables = [(self.X, self.rows)] + ([] if self.validation is None else [self.validation])
        parts = [(hash_rows(X), rows.y, rows.weight, rows.groups) for X, rows in tables]
        labels = np.frombuffer(repr(classes.tolist()).encode(), dtype=np.uint8)
        return fingerprint(labels, *(part for table in parts for part in table if part is not None))


def take(X: Any, rows: NDArray[Any]) -> Any:
    """Return some rows of a table."""
    return _safe_indexing(X, np.flatnonzero(rows) if rows.dtype == np.bool_ else rows)


def input_tags(learner: Any) -> InputTags:
    """Return what tables a learner takes; a pipeline takes what its first step takes."""
    tags = get_tags(learner).input_tags
    tags.three_d_array |= is_skorch(learner)  # its nets do not say so
    if isinstance(learner, Pipeline):
        first = get_tags(learner.steps[0][1]).input_tags
        tags.allow_nan, tags.categorical, tags.string = first.allow_nan, first.categorical, first.string
    return tags


def batches(X: Any) -> list[Ints]:
    """Return the row numbers of a table in batches."""
    n, row = n_rows_of(X), int(np.prod(getattr(X, "shape", ())[1:]))
    size = max(1, min(BATCH, BATCH_VALUES // max(row, 1)))
    return [np.arange(a, min(a + size, n)) for a in range(0, n, size)]


def n_rows_of(X: Any) -> int:
    """Return the number of rows of a table."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


class BaseBoostClassifier(CallbackSupportMixin, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """The scikit-learn face of a boosting game.

    A family of classifiers says how hypotheses are combined (`MixtureClassifier`), a classifier names its
    rule; checking the data, the validation schemes, warm starts, interrupts and callbacks are here.
    """

    # Whether members are fitted again on all rows when a fraction is held out.
    _refits: ClassVar[bool] = True

    estimator: Any
    n_estimators: Any  # int ≥ 1; "auto" where γ says how many
    class_weight: Any
    max_time: float | None
    checkpoint_dir: Any
    warm_start: bool
    n_jobs: int | None
    random_state: Any
    verbose: int

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, 1, closed="right")],
        "eta": [Interval(Real, 0, None, closed="neither"), StrOptions({"theory"})],
        "beta": [Interval(Real, 0, None, closed="neither")],
        "validation": [Interval(Real, 0, 1, closed="neither"), StrOptions({"auto", "cv", "train"})],
        "include_constants": ["boolean"],
        "combine": [StrOptions({"minimax", "average"})],
        "outlier_fraction": [Interval(Real, 0, 1, closed="left")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "checkpoint_dir": [str, HasMethods(["__fspath__"]), None],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    # -- what a subclass says ------------------------------------------------------------------------

    @abstractmethod
    def _rule(self, units: Units) -> Rule[Any]:
        """Return the weight player."""

    @abstractmethod
    def _open(self, problem: Problem, scheme: Scheme) -> None:
        """Prepare what collects the hypotheses of a new game."""

    @abstractmethod
    def _record(self, response: Response, state: Any) -> None:
        """Take a hypothesis, already the last of ``_boosted``, into the combination."""

    @abstractmethod
    def _forget(self, n_rounds: int) -> None:
        """Undo `_record` beyond the first ``n_rounds`` hypotheses."""

    @abstractmethod
    def _value(self) -> tuple[float, float]:
        """Return the objective of the combination now and the gap of the solve behind it."""

    @abstractmethod
    def _settle(self) -> Self:
        """Set what a fitted classifier shows."""

    def _units(self, problem: Problem, scheme: Scheme) -> Units:
        """Return what gets weight: by default every row the player weighs."""
        return Units.samples(problem.weight, scheme.player_rows)

    def _rounds(self) -> int:
        """Return T, the number of rounds planned; known once the data are."""
        return int(self.n_estimators)

    def _last_round(self) -> int:
        """Return the number of rounds after which no further one is played."""
        return self._rounds()

    def _tied_to_rounds(self) -> str:
        """Name what depends on the number of rounds, so that none can be added; empty if nothing does."""
        return "eta='theory'" if self._param("eta", None) == "theory" else ""

    def _goal(self, scheme: Scheme) -> Goal | None:
        """Return how far the losses of a growing learner are from good enough in the coming round.

        None has learners fitted whole.
        """
        return None

    def _patience(self) -> int | None:
        """Return the rounds after which a value that does not fall ends the game."""
        patience: int | None = self._param("n_iter_no_change", None)
        return patience

    def _param(self, name: str, without: Any) -> Any:
        """Return a parameter that not every subclass has."""
        return getattr(self, name, without)

    # -- fitting -------------------------------------------------------------------------------------

    def _learner(self) -> Any:
        return HistBoostClassifier(n_jobs=self.n_jobs) if self.estimator is None else self.estimator

    def _check_X(self, X: Any, y: Any = None, **options: Any) -> Any:
        reset = y is not None
        given: dict[str, Any] = {} if y is None else {"y": y}
        X, _ = unpack(X)
        check_row_shape(self, X, reset)
        if hasattr(X, "iloc"):  # data frames go to the learner as they are; it checks their columns
            refuse_empty(X)
            return validate_data(self, X, reset=reset, skip_check_array=True, **given)
        tags = input_tags(self._learner())
        return validate_data(
            self,
            X,
            reset=reset,
            accept_sparse=["csr", "csc"] if tags.sparse else False,
            ensure_all_finite="allow-nan" if tags.allow_nan else True,
            dtype=None if tags.categorical or tags.string else "numeric",
            allow_nd=tags.three_d_array,
            **given,
            **options,
        )

    def _check_weight(self, sample_weight: Any, X: Any, name: str) -> Floats:
        try:
            weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        with np.errstate(over="ignore"):
            total = weight.sum()
        if not np.isfinite(total):
            raise ValueError(f"{name}: the sum of the weights must be finite")
        if not total > 0:  # scikit-learn checks it from 1.9 on
            raise ValueError(f"{name}: all weights are zero; at least one must be non-zero")
        return weight

    def _numbers(self, y: Any, name: str = "y") -> Ints:
        refuse_missing(y, name)
        y = column_or_1d(y, warn=True)
        index = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        unknown = self.classes_[index] != y
        if np.any(unknown):
            raise ValueError(f"{name} holds labels not seen in fit: {sorted(set(y[unknown].tolist()))[:5]}")
        return index.astype(np.intp)

    def _check_groups(self, groups: Any, name: str, n: int) -> NDArray[Any]:
        refuse_missing(groups, name)
        groups = column_or_1d(groups)
        if len(groups) != n:
            raise ValueError(f"{name} has {len(groups)} entries, X has {n} rows")
        return groups

    def _group_numbers(self, groups: Any, name: str, n: int) -> Ints:
        groups = self._check_groups(groups, name, n)
        index = np.searchsorted(self.groups_, groups).clip(max=len(self.groups_) - 1)
        unknown = self.groups_[index] != groups
        if np.any(unknown):
            raise ValueError(
                f"{name} holds groups not seen in fit: {sorted(set(groups[unknown].tolist()))[:5]}"
            )
        return index.astype(np.intp)

    def _class_factors(self, y: Ints, weight: Floats) -> Floats:
        """Factor of each class; "balanced" by weight, not by rows, so that weight 2 is the row twice."""
        if self._param("class_weight", None) is None:
            return np.ones(len(self.classes_))
        if self.class_weight == "balanced":
            total = np.bincount(y, weights=weight, minlength=len(self.classes_))
            return weight.sum() / (len(self.classes_) * total)
        factors: Floats = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_[y])
        if not np.all((factors > 0) & np.isfinite(factors)):
            raise ValueError(
                f"class_weight={self.class_weight!r}: factors must be positive; to leave out a class, drop "
                "its rows"
            )
        return factors

    def _check_problem(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, validation: tuple[Any, Any, Any, Any]
    ) -> Problem:
        if isinstance(self.estimator, type):
            raise TypeError(f"estimator={self.estimator!r} is a class; an estimator instance is needed")
        if is_regressor(self._learner()):
            raise ValueError(f"estimator={self.estimator!r} is a regressor; a classifier is needed")
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        refuse_missing(y, "y")
        X, y = self._check_X(X, y)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        if len(y) != n_rows_of(X):
            raise ValueError(f"y has {len(y)} labels, X has {n_rows_of(X)} rows")
        weight = self._check_weight(sample_weight, X, "sample_weight")
        used = weight > 0
        if weight.sum() < max(1 + 1e-6, LIGHT * used.sum()):
            warnings.warn(
                f"sample_weight: the weights sum to {weight.sum():.3g} for {used.sum():,} rows. "
                "Weights count rows here (2 is the row twice), so learners with absolute penalties, like "
                "the default one, see hardly any data; scale the weights to mean 1",
                UserWarning,
                stacklevel=6,
            )
        self.classes_, index = np.unique(y[used], return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y holds one class only ({self.classes_[0]!r}) among the rows of positive weight; "
                "a classifier needs at least two classes"
            )
        weight = weight[used]
        weight = weight * self._class_factors(index, weight)[index]
        numbers = None
        if groups is not None:
            groups = self._check_groups(groups, "groups", len(y))
            self.groups_, numbers = np.unique(groups[used], return_inverse=True)
        kept = X if used.all() else take(X, used)
        problem = Problem(kept, index, weight, numbers, len(self.classes_), np.flatnonzero(used), None)
        problem.validation = self._check_validation(*validation)
        return problem

    def _check_validation(self, X_val: Any, y_val: Any, groups_val: Any, weight_val: Any) -> Any:
        given = {"X_val": X_val, "y_val": y_val, "sample_weight_val": weight_val, "groups_val": groups_val}
        if X_val is None or y_val is None:
            alone = [name for name, value in given.items() if value is not None]
            if alone:
                raise ValueError(f"{', '.join(alone)} given, but a validation set needs both X_val and y_val")
            return None
        validation = self._param("validation", "train")
        if validation not in ("auto", None):
            raise ValueError(f"validation={validation!r} and X_val were both given; use validation='auto'")
        if n_rows_of(X_val) == 0:
            raise ValueError("X_val is empty: it needs at least one row")
        return self._judged_rows(
            X_val, y_val, weight_val, groups_val, suffix="_val", words="the {:,} rows of X_val"
        )

    def _judged_rows(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, suffix: str, words: str
    ) -> tuple[Any, Rows]:
        X = self._check_X(X)
        index = self._numbers(y, f"y{suffix}")
        n = n_rows_of(X)
        if len(index) != n:
            raise ValueError(f"y{suffix} has {len(index)} labels, X{suffix} has {n} rows")
        weight = self._check_weight(sample_weight, X, f"sample_weight{suffix}")
        numbers = None
        if groups is not None:
            if not hasattr(self, "groups_"):
                self.groups_ = np.unique(column_or_1d(groups))
            numbers = self._group_numbers(groups, f"groups{suffix}", n)
        used = weight > 0
        rows = Rows(index[used], weight[used], None if numbers is None else numbers[used], "")
        return take(X, used), Rows(rows.y, rows.weight, rows.groups, words.format(len(rows.y)))

    def _scheme(self, problem: Problem, fit_params: dict[str, Any]) -> Scheme:
        X, train = problem.X, problem.rows
        session = open_session(
            self._learner(),
            X,
            train.y,
            problem.n_classes,
            train.weight,
            fit_params,
            seed=self._entropy,
            folder=self.checkpoint_dir,
        )
        if problem.validation is not None:
            X_val, judged = problem.validation
            return External(session, train, judged, lambda member: next(predict_members([member], X_val)))
        validation = self._param("validation", "train")
        if validation in ("train", None):
            return Resubstitution(session, train, train)
        hashes = hash_rows(X, seed=self._entropy)
        strata = train.y
        if train.groups is not None:
            _, strata = np.unique(train.y + problem.n_classes * train.groups, return_inverse=True)
        places = draw_lots(hashes, strata, train.weight)
        n_distinct = int(places.max()) + 1
        if validation == "auto":
            smallest = np.bincount(strata[distinct(hashes)[0]]).min()
            enough = n_distinct > CROSS_FIT_UP_TO and smallest * HELD_OUT >= LEAST_HELD_OUT
            validation = HELD_OUT if enough else "cv"
        if validation == "cv":
            k = min(N_FOLDS, n_distinct)
            if k < 2:
                raise ValueError("validation='cv' needs at least two distinct rows in X")
            words = f"out-of-fold losses of the {len(train.y):,} training rows ({k} folds)"
            judged = Rows(train.y, train.weight, train.groups, words)
            return CrossFitted(session, train, judged, folds(places, k), self.n_jobs)
        held = held_out(places, validation)
        if not held.any() or held.all():
            raise ValueError(
                f"validation={validation:g} leaves {'no' if not held.any() else 'only'} validation rows "
                f"of {n_distinct} distinct ones; use 'cv', another fraction or more rows"
            )
        groups = None if train.groups is None else train.groups[held]
        judged = Rows(train.y[held], train.weight[held], groups, f"the {held.sum():,} held-out rows")
        return HeldOut(session, train, judged, held, self._refits)

    def _identity(self, same: str) -> Identity:
        """Return what must stay the same for a fit on this data to be continued."""
        free = _FREE - ({"n_estimators"} if self._tied_to_rounds() else set())
        return Identity.of(self, data=same, entropy=self._entropy, but=free)

    def _continue(self, problem: Problem, same: str) -> bool:
        """Whether this fit goes on with the rounds of the last one."""
        if not (self.warm_start and hasattr(self, "estimators_")):
            return False
        if tied := self._tied_to_rounds():
            raise ValueError(f"{tied} depends on n_estimators, so warm_start cannot add rounds to it")
        changed = differing(self._fixed, self._identity(same).params)
        if changed:
            raise ValueError(
                f"warm_start=True goes on with the last fit, but {', '.join(changed)} changed; "
                "fit with warm_start=False"
            )
        if same != self._fingerprint:
            raise ValueError(
                "warm_start=True needs the data of the last fit; rows, weights, groups or X_val changed"
            )
        if self._last_round() < self.n_iter_:
            raise ValueError(
                f"with warm_start=True n_estimators must be at least n_iter_={self.n_iter_}, "
                f"got {self._last_round()}"
            )
        return True

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, validation: Any, fit_params: dict[str, Any]
    ) -> Self:
        _raise_for_params(fit_params, self, "fit")
        routed = process_routing(self, "fit", **fit_params).estimator.fit if fit_params else {}
        context = None
        if hasattr(self, "_init_callback_context"):
            # "auto" is not known before the data are.
            planned = None if self.n_estimators == "auto" else self._last_round()
            context = self._init_callback_context(max_subtasks=planned)
        before = self.__dict__.copy()
        X, y = unpack(X, y)
        validation = (*unpack(*validation[:2]), *validation[2:])
        with noticing_interrupts() as interrupted:
            try:
                problem = self._check_problem(X, y, sample_weight, groups, validation)
                routed = _check_method_params(X, routed, indices=problem.used)
                same = problem.fingerprint(self.classes_)
                goes_on = self._continue(problem, same)
                if not goes_on:
                    self._entropy = int(check_random_state(self.random_state).randint(2**31 - 1))
                scheme = self._scheme(problem, routed)
                units = self._units(problem, scheme)
                identity = self._identity(same)
                checkpoints = Checkpoints.open(
                    self.checkpoint_dir, identity, learner=self.estimator, interrupted=interrupted
                )
            except Exception:  # a refused fit leaves the classifier as it was
                self.__dict__.clear()
                self.__dict__.update(before)
                raise
            with checkpoints:
                if isinstance(scheme, CrossFitted):
                    scheme = replace(scheme, memory=checkpoints.remember)
                if not goes_on:
                    self.__dict__.pop("estimators_", None)  # unfitted until there is a round
                    self._game: Game[Any] = Game.new(self._rule(units), units)
                    self._fingerprint, self._fixed = same, dict(identity.params)
                    self._boosted: list[Any] = []
                    self._open(problem, checkpoints.scheme(scheme))
                self._replay(checkpoints)
                self._play(problem, scheme, checkpoints, interrupted, context)
        self._trim()
        return self._settle()

    def _replay(self, checkpoints: Checkpoints) -> None:
        """Bring the game to the last round on disk."""
        game = self._game
        while game.n_rounds < self._last_round() and (kept := checkpoints.read(game.n_rounds + 1)):
            response, played = kept
            w = game.rule.weights(game.state)
            game.state = game.rule.update(game.state, game.units.losses(response.losses))
            self._take_in(response, game.state)
            game.trace.rounds.append(played)
            if game.trace.unit_weights is not None:
                game.trace.unit_weights.append(w)

    def _trim(self) -> None:
        """Drop what an interrupted round left behind: it may have come before that round's end."""
        del self._boosted[self._game.n_rounds :]
        self._forget(self._game.n_rounds)

    def _take_in(self, response: Response, state: Any) -> tuple[float, float]:
        self._trim()
        keep(response.member, self.checkpoint_dir)
        self._boosted.append(response.member)
        self._record(response, state)
        return self._value()

    def _respond(self, scheme: Scheme, u: Floats, seed: int) -> Response:
        """Let the learner answer, grown to the goal if there is one."""
        units, goal = self._game.units, self._goal(scheme)
        if units.loss_index is None:
            return scheme(u, seed, goal)
        # Groups are measured where members are judged.
        truth = scheme.judged.y
        by_answers = None if goal is None else (lambda losses, answers: goal(answers != truth, answers))
        response = scheme(u, seed, by_answers)
        return replace(response, losses=response.answers != truth)

    def _play(
        self,
        problem: Problem,
        scheme: Scheme,
        checkpoints: Checkpoints,
        interrupted: Callable[[], bool],
        context: Any,
    ) -> None:
        if context is not None:
            context.call_on_fit_task_begin(estimator=self, X=problem.X, y=problem.y)
        newest: list[Response] = []

        def oracle(u: Floats, seed: int) -> Response:
            response = self._respond(scheme, u, seed)
            newest[:] = [response]
            return response

        def observe(game: Game[Any]) -> bool:
            checkpoints.write(game.n_rounds, newest[0], game.trace.rounds[-1])
            t, last = game.n_rounds, game.trace.rounds[-1]
            if self.verbose:
                print(
                    f"round {t}/{self._last_round()}  weighted loss {last.weighted_loss:.4f}  objective "
                    f"{last.value:.4f}  effective size {last.effective_size:.3f}  {last.seconds:.2f} s",
                    flush=True,
                )
            if context is None:
                return False
            return bool(
                context.subcontext(task_name="round").call_on_fit_task_end(
                    estimator=self, X=problem.X, y=problem.y, reconstruction_attributes=self._snapshot
                )
            )

        play(
            self._game,
            oracle,
            self._last_round(),
            entropy=self._entropy,
            judge=self._take_in,
            stopping=Stopping(self._patience(), self._param("tol", 0.0), self.max_time),
            observe=observe,
            interrupted=interrupted,
        )
        reason = self._game.trace.stop_reason
        if reason.startswith(("interrupted", "time limit")):
            warnings.warn(f"fit {reason}; the rounds so far are kept", FitInterruptedWarning, stacklevel=4)
        if context is not None:
            context.call_on_fit_task_end(
                estimator=self, X=problem.X, y=problem.y, reconstruction_attributes=self._snapshot
            )

    def _snapshot(self) -> dict[str, Any]:
        """Attributes of the classifier as if the fit had stopped here, for callbacks."""
        now = copy.copy(self)
        now._boosted = list(self._boosted)
        before = set(vars(self))
        now._settle()
        return {k: v for k, v in vars(now).items() if k not in before or v is not getattr(self, k)}

    # -- scikit-learn --------------------------------------------------------------------------------

    def get_metadata_routing(self) -> MetadataRouter:
        """Route metadata given to ``fit`` to the learner; ``sample_weight`` is this classifier's own."""
        return (
            MetadataRouter(owner=type(self).__name__)
            .add_self_request(self)
            .add(estimator=self._learner(), method_mapping=MethodMapping().add(caller="fit", callee="fit"))
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimators_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        learner = input_tags(self._learner())
        tags.input_tags.sparse = learner.sparse
        tags.input_tags.allow_nan = learner.allow_nan
        return tags
