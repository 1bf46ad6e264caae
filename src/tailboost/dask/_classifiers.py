"""The boosting classifiers on Dask collections: the same games, over rows that lie on workers."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets

from tailboost import classifiers as local
from tailboost._checks import n_rows_of
from tailboost._identity import Identity
from tailboost._rows import Sketch
from tailboost._typing import Labels, Mask
from tailboost.checkpoints import Checkpoints
from tailboost.classifiers._base import Run
from tailboost.classifiers._columns import known_values
from tailboost.classifiers._grouped import GroupedBoostClassifier
from tailboost.classifiers._input import ValidationRows, checked_table, class_factors
from tailboost.classifiers._mixture import ValidatedMixtureClassifier
from tailboost.dask import _worker
from tailboost.dask._cluster import Rows, client_of
from tailboost.dask._collections import Column, is_collection, over_rows, partitions
from tailboost.dask._counting import counting
from tailboost.dask._docs import documented_fit, on_cluster
from tailboost.dask._kept import KeptModels
from tailboost.dask._problem import ClusterProblem, Table
from tailboost.dask._scheme import ClusterScheme, Kept, Progress, Refined, Split, binned
from tailboost.dask._worker import Look, Partition, Reading, Tally
from tailboost.data import GroupNames, Problem
from tailboost.game import Response, Stop, Turn, Units
from tailboost.learners import LogitAdjustedClassifier
from tailboost.learners._adjusted import default_boosting
from tailboost.learners._hist import cut_table
from tailboost.learners._part import feature_kinds
from tailboost.learners._table import ROWS_FOR_CUTS, OpenTable, TableReader
from tailboost.validation import (
    CROSS_FIT_UP_TO,
    FEW_FOLDS,
    HELD_OUT,
    LEAST_HELD_OUT,
    N_FOLDS,
    Scheme,
)

# Combinations of class and groups that can be told apart further within 64 bits.
MOST_STRATA = 2**40


class OnCluster(ValidatedMixtureClassifier):
    """What the classifiers of `tailboost.dask` share: rows are read, split and asked where they lie.

    It stands before one of tailboost's classifiers among the bases of a class, and gives it another problem
    and another scheme.
    """

    #: The classifier of one machine that a fit results in.
    _local: ClassVar[type[Any]]
    #: Parameters that have one allowed value here, and why.
    _fixed: ClassVar[dict[str, tuple[Any, str]]] = {
        "warm_start": (False, "the rows leave the workers with the fit; with checkpoint_dir it goes on"),
        "n_jobs": (None, "each worker uses the threads it was started with"),
    }

    _remote: Rows
    _reading: Reading
    progress_: list[Progress]

    # -- fitting -------------------------------------------------------------------------------------

    def _refuse(self) -> None:
        for name, (allowed, why) in self._fixed.items():
            if (given := getattr(self, name, allowed)) != allowed:
                raise ValueError(f"{name}={given!r} is not available on a cluster: {why}")
        self._validate_params()
        binned(self._cluster_learner())

    def _fit_on(
        self, client: Any, X: Any, y: Any, sample_weight: Any, groups: Any, fit: Callable[[], Any]
    ) -> None:
        self._refuse()
        columns = (Column("y", y), Column("sample_weight", sample_weight), Column("groups", groups))
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        blocks = partitions(X, *columns)
        client = client_of(client)
        with client.as_current(), Rows(client, blocks, self.checkpoint_dir) as self._remote:
            try:
                fit()
            finally:
                # What a fitted classifier has no use for.
                for name in ("_remote", "_reading", "_kept", "_sample"):
                    self.__dict__.pop(name, None)

    def _problem(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, validation: ValidationRows
    ) -> Problem:
        remote = self._remote
        self.progress_ = []
        found = remote.read()
        self._reading = reading = _reading(found)
        self.classes_ = reading.classes
        check_classification_targets(self.classes_)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y holds {len(self.classes_)} class(es) among the rows of positive weight; a classifier "
                "needs at least two"
            )
        looks: list[Look] = remote.call(_worker.look, reading)
        remote.keep(_worker.look, reading)
        tally = Tally.merged([seen.tally for seen in looks])
        code, half = np.divmod(tally.keys, 2)
        y_, *columns = _worker.taken_apart(code, reading.radices)
        weights = (self.class_weight, self.classes_, y_, tally.weight)
        factor = class_factors(*weights)[y_]
        numbers = None
        if columns:
            names = self._group_names = GroupNames(reading.groups, self._group_columns(groups))
            self.groups_ = names.names
            firsts = np.cumsum([0, *map(len, reading.groups[:-1])])
            shifted = [column + first for column, first in zip(columns, firsts, strict=True)]
            numbers = shifted[0] if len(shifted) == 1 else np.column_stack(shifted)
        sample = _worker.smallest([(seen.given, seen.given_hashes) for seen in looks], _worker.PROBED)
        checked_table(self, self._learner(), sample, np.zeros(n_rows_of(sample)))  # takes the columns' names
        kinds = reading.reader.categories_
        self._known_values = [None if values is None else known_values(values) for values in kinds]
        problem = ClusterProblem(
            sample,
            Table((code, half), tally),
            y_,
            numbers,
            factor,
            len(self.classes_),
            min(seen.least for seen in looks),
            Sketch.merged([seen.short for seen in looks]),
            sum(seen.digest for seen in looks) % 2**64,
        )
        self._sample = _worker.smallest([(seen.table, seen.hashes) for seen in looks], ROWS_FOR_CUTS)
        return self._name_units(problem)

    def _group_columns(self, groups: Any) -> tuple[Any, ...] | None:
        """Return the names of the columns of a table of groups."""
        if getattr(groups, "ndim", 1) == 1:
            return None
        return tuple(groups.columns) if hasattr(groups, "columns") else tuple(range(groups.shape[1]))

    def _open_scheme(self, problem: Problem, fit_params: dict[str, Any], entropy: int, memory: Any) -> Scheme:
        assert isinstance(problem, ClusterProblem)
        split = split_of(self._validation(), problem, self._five_folds_up_to)
        learner, remote = self._cluster_learner(), self._remote
        held = (entropy, split.n_parts, split.share)
        trees, reader = binned(learner), self._reading.reader
        sample = _with_largest_codes(self.__dict__.pop("_sample"), self._reading)
        kinds = feature_kinds(trees, reader, problem.n_classes)
        reference = cut_table(OpenTable(reader, sample), trees.max_bins, kinds)
        call = (_worker.bin_rows, problem.table.tally.keys, trees, self._reading, reference, held)
        problem.refine(Tally.merged(remote.call(*call)), split.n_parts + 1)
        remote.keep(*call)
        if split.n_parts:
            _refuse_classes_of_one_part(problem, self.classes_, split)
        self.validation_ = split.words if split.words in ("cv", "train") else split.share
        scheme = ClusterScheme(problem, remote, learner, reader, split, self._kept, self._observe)
        return self._watch(scheme, problem)

    def _observe(self, progress: Progress) -> None:
        self.progress_.append(progress)
        if self.verbose:
            print(
                f"  {progress.rows:,} rows on {len(self._remote.addresses)} worker(s) in "
                f"{progress.seconds:.2f} s: {progress.rows / progress.seconds:,.0f} rows/s",
                flush=True,
            )

    def _checkpoints(self, identity: Identity, interrupted: Callable[[], bool]) -> Checkpoints:
        self._kept = Kept() if self.checkpoint_dir is None else KeptModels.open(self.checkpoint_dir, identity)
        return Checkpoints.open(None, identity)

    def _cluster_learner(self) -> Any:
        """Return the learner that workers fit."""
        return self._learner()

    # -- the game, told again where rows are told apart ------------------------------------------------

    def _new_run(self, problem: Problem, scheme: Any, identity: Identity) -> Run:
        while True:
            scheme.rewind()
            try:
                return super()._new_run(problem, scheme, identity)
            except Refined:
                continue

    def _respond(self, run: Run, scheme: Any, turn: Turn) -> Response | Stop:
        try:
            return super()._respond(run, scheme, turn)
        except Refined:
            finer = self._told_again(run, scheme)
        run.plan = finer.plan
        run.game.rule, run.game.units, run.game.state = finer.game.rule, finer.game.units, finer.game.state
        again = run.game.turn(run.identity.entropy)
        answer = super()._respond(run, scheme, again)
        if isinstance(answer, Response):
            return Response(answer.member, answer.losses, answer.answers, again.w)
        return answer

    def _told_again(self, run: Run, scheme: Any) -> Run:
        """Return a game of the rounds so far over the combinations that are told apart now."""
        finer = self._new_run(scheme.problem, scheme, run.identity)
        take, entropy = functools.partial(finer.take, False), run.identity.entropy
        for _ in range(run.game.n_rounds):
            turn = finer.game.turn(entropy)
            answer = super()._respond(finer, scheme, turn)
            assert isinstance(answer, Response)  # as it was then
            finer.game.advance(turn.w, answer, take, time.perf_counter())
        return finer

    # -- after fitting -------------------------------------------------------------------------------

    def to_local(self) -> Any:
        """Return tailboost's own classifier of the same name, fitted as this one.

        It needs no cluster and no Dask: it is what `tailboost.save_model` stores, and `reweight`,
        `tradeoff`, `guarantee_` and `tailboost.certify` are at home in.
        """
        new = object.__new__(self._local)
        new.__dict__.update({k: v for k, v in vars(self).items() if k != "progress_"})
        return new

    def predict(self, X: Any) -> Any:
        """Predict labels: lazily for a Dask collection, as a Dask array or column; else at once."""
        if not is_collection(X):
            return super().predict(X)
        return over_rows(self.to_local().predict, X, self.classes_[:0])

    def predict_proba(self, X: Any) -> Any:
        """Predict P(y | x), shape (n, K): lazily for a Dask collection, else at once."""
        if not is_collection(X):
            return super().predict_proba(X)
        return over_rows(self.to_local().predict_proba, X, np.empty((0, len(self.classes_))))

    def predict_shares(self, X: Any) -> Any:
        """Predict the shares of the labels, shape (n, K): lazily for a Dask collection, else at once."""
        if not is_collection(X):
            return super().predict_shares(X)
        return over_rows(self.to_local().predict_shares, X, np.empty((0, len(self.classes_))))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of `predict`: for Dask collections from counts added over partitions."""
        if not is_collection(X):
            return float(super().score(X, y, sample_weight))
        return float(
            counting(accuracy_score, "y", "answers")(y, self.predict(X), sample_weight=sample_weight)
        )


def _reading(found: list[Partition]) -> Reading:
    """Return how all partitions are read, from what each of them says of itself."""
    filled = [p for p in found if p.n_rows]
    if not filled:
        raise ValueError("there is no row of positive weight")
    reader = TableReader()
    reader.sparse_ = False
    reader.categories_ = [
        _joint(j, c) for j, c in enumerate(zip(*(p.categories for p in filled), strict=True))
    ]
    labels = np.unique(np.concatenate([p.labels for p in filled]))
    columns = zip(*(p.groups for p in filled), strict=True)
    groups = tuple(np.unique(np.concatenate(column)) for column in columns)
    if (n := math.prod([len(labels), *map(len, groups)])) > MOST_STRATA:
        raise ValueError(
            f"{len(labels)} classes and {len(groups)} columns of groups cross to {n:,} combinations, more "
            f"than the {MOST_STRATA:,} that can be numbered: give fewer columns of groups"
        )
    return Reading(reader, labels, groups)


def _joint(column: int, categories: tuple[list[Any] | None, ...]) -> list[Any] | None:
    """Return the categories of a column in all partitions; None for numbers."""
    first = categories[0]
    if any((c is None) != (first is None) for c in categories):
        raise ValueError(f"column {column} of X holds numbers in some partitions and categories in others")
    if all(c == first for c in categories):
        return first
    return sorted({value for c in categories if c is not None for value in c})


def _with_largest_codes(sample: Any, reading: Reading) -> Any:
    """Add a row with the last category of every column, so that bins are made for all categories."""
    categories = reading.reader.categories_
    if all(c is None for c in categories):
        return sample
    last = [np.nan if c is None else len(c) - 1.0 for c in categories]
    return np.vstack([sample, np.array(last, dtype=np.float32)])


def split_of(validation: Any, problem: ClusterProblem, five_up_to: float) -> Split:
    """Return which rows judge which models.

    "auto" is as on one machine: cross-fitting up to 50,000 rows, and where a held-out fifth would have fewer
    than 20 rows of a class in some group (beyond ``five_up_to`` rows three folds, not five); else a fifth is
    held out.
    """
    n_folds = N_FOLDS
    if validation == "auto":
        stratum = np.unique(problem.table.columns[0], return_inverse=True)[1]
        smallest = np.bincount(stratum, weights=problem.table.tally.rows).min()
        enough = problem.n_rows > CROSS_FIT_UP_TO and smallest * HELD_OUT >= LEAST_HELD_OUT
        validation = HELD_OUT if enough else "cv"
        n_folds = FEW_FOLDS if problem.n_rows > five_up_to else N_FOLDS
    if validation == "train":
        return Split(0, 0.0)
    return Split(n_folds, 1.0) if validation == "cv" else Split(1, float(validation))


def _refuse_classes_of_one_part(problem: ClusterProblem, classes: Labels, split: Split) -> None:
    """Raise where a model would be judged on rows of a class that it was not fitted on, or on none at all."""
    parts = problem.table.columns[2]
    held = parts > 0
    if not held.any() or (held.all() and split.n_parts == 1):
        raise ValueError(f"validation={split.words} leaves no rows to fit or to judge on; there are too few")
    for k, label in enumerate(classes.tolist()):
        if len(np.unique(parts[problem.y == k])) < 2:
            n = int(problem.table.tally.rows[problem.y == k].sum())
            raise ValueError(
                f"class {label!r}: all of its {n:,} rows fall to one part of the split, so that no model is "
                "both fitted on it and judged; use validation='train', or more rows"
            )


@on_cluster
class AdaLPBoostClassifier(OnCluster, local.AdaLPBoostClassifier):
    """See `tailboost.AdaLPBoostClassifier`."""

    _local = local.AdaLPBoostClassifier
    _fixed: ClassVar = OnCluster._fixed | {
        "outlier_fraction": (0.0, "it needs the rows in the order of their losses"),
    }

    @documented_fit
    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None, client: Any = None) -> Self:
        """Play the game and combine the hypotheses.

        Parameters
        ----------
        {{rows}}
        {{client}}
        """
        fit = super().fit
        self._fit_on(client, X, y, sample_weight, None, lambda: fit(X, y, sample_weight=sample_weight))
        return self

    def _units(self, problem: Problem, among: Mask | None) -> Units:
        assert isinstance(problem, ClusterProblem)
        return problem.units(among)


class _Grouped(OnCluster, GroupedBoostClassifier):
    """Over classes, groups or cells."""

    # Whether the classes are the groups where none are given.
    _classes_are_groups: ClassVar[bool] = False

    @documented_fit
    def fit(
        self, X: Any, y: Any = None, *, sample_weight: Any = None, groups: Any = None, client: Any = None
    ) -> Self:
        """Play the game and combine the hypotheses.

        Parameters
        ----------
        {{rows}}
        groups : Dask array of shape (n,) or (n, c), column or data frame, optional
            Groups of the rows. In a table every value of every column is a group.
        {{client}}
        """
        own = y if groups is None and self._classes_are_groups else groups
        fit = super().fit
        self._fit_on(
            client, X, y, sample_weight, own, lambda: fit(X, y, sample_weight=sample_weight, groups=groups)
        )
        return self

    def _learner(self, problem: Problem | None = None) -> Any:
        return self._cluster_learner() if self.estimator is None else super()._learner(problem)

    @property
    def _over_classes(self) -> bool:
        """Whether the default learner plays over the classes."""
        named = getattr(self, "_named", None)  # known when the rows are read
        return self.estimator is None and named is not None and named.kind == "class"


@on_cluster
class GroupDROBoostClassifier(_Grouped, local.GroupDROBoostClassifier):
    """See `tailboost.GroupDROBoostClassifier`."""

    _local = local.GroupDROBoostClassifier
    _classes_are_groups = True

    @property
    def _by_argmax(self) -> bool:
        return self._over_classes

    def _cluster_learner(self) -> Any:
        if self.estimator is not None:
            return super()._learner()
        boosted = self._default_learner()
        return LogitAdjustedClassifier(boosted) if self._by_argmax else boosted


@on_cluster
class WorstClassBoostClassifier(_Grouped, local.WorstClassBoostClassifier):
    """See `tailboost.WorstClassBoostClassifier`."""

    _local = local.WorstClassBoostClassifier

    @property
    def _by_argmax(self) -> bool:
        return self._over_classes and not self._kind.indicator

    def _cluster_learner(self) -> Any:
        if self.estimator is not None:
            return super()._learner()
        if not self._by_argmax:
            return self._default_learner()
        return LogitAdjustedClassifier(default_boosting())
