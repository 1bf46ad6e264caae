"""The learner of a game whose rows lie on workers: it asks them, and remembers what they answered."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailboost._typing import Floats, Ints, Mask
from tailboost.dask import _worker
from tailboost.dask._cluster import Rows as RemoteRows
from tailboost.dask._problem import ClusterProblem
from tailboost.dask._worker import Answer, Question, Tally
from tailboost.data import Rows
from tailboost.game import Response
from tailboost.learners import HistBoostClassifier, HistTreeClassifier, LogitAdjustedClassifier
from tailboost.learners._adjusted import Adjusted, LogProbabilities, balanced
from tailboost.learners._hist import training_params
from tailboost.learners._part import BinnedLearner, member_of
from tailboost.learners._table import TableReader
from tailboost.validation import Goal, outside, round_significant


class Refined(Exception):
    """The workers answered a new question, by which combinations of the problem were told apart."""


@dataclass(frozen=True)
class Split:
    """Which rows judge which models.

    Parameters
    ----------
    n_parts : int
        Parts that are held out in turn; 0 for none.
    share : float
        Share of the rows that is in them: 1 for cross-fitting.
    """

    n_parts: int
    share: float

    @property
    def words(self) -> str:
        """What `validation` this is."""
        if not self.n_parts:
            return "train"
        return "cv" if self.share == 1.0 else f"{self.share:g}"


@dataclass(frozen=True)
class Progress:
    """What a question cost.

    Attributes
    ----------
    rows : int
        Rows on the workers.
    seconds : float
        Wall-clock seconds until all workers had answered.
    learning : float
        Of these in XGBoost, on the worker that took longest there.
    combinations : int
        Rows of the table that the workers sent, together.
    model_bytes : int
        Size of the models fitted.
    """

    rows: int
    seconds: float
    learning: float
    combinations: int
    model_bytes: int


class ClusterScheme:
    """An oracle whose rows lie on workers.

    A question that is new raises `Refined` once it is answered: the problem then has more rows, and whoever
    asked must build the game anew and ask again from the start. Answers are given in the order of the
    questions, which is the same every time, since a game is a function of its answers.

    Parameters
    ----------
    problem : ClusterProblem
        Told apart by the parts.
    remote : Rows
        The rows on the workers.
    learner : HistBoostClassifier, HistTreeClassifier or LogitAdjustedClassifier
    reader : TableReader
        Reads the rows.
    split : Split
    kept : Answers
        Models that a former fit left.
    observe : callable
        Called with the `Progress` of every question.
    """

    def __init__(
        self,
        problem: ClusterProblem,
        remote: RemoteRows,
        learner: Any,
        reader: TableReader,
        split: Split,
        kept: Kept,
        observe: Callable[[Progress], None],
    ) -> None:
        self.problem, self.remote, self.split = problem, remote, split
        self.asker: Asker = asker_of(learner, problem, reader)
        self.kept, self.observe = kept, observe
        self.members: list[Any] = []
        self.place = 0

    def rewind(self) -> None:
        """Answer from the first question again."""
        self.place = 0

    @property
    def parts(self) -> Ints:
        """The part of each combination, from 0; −1 for none."""
        return self.problem.table.columns[2] - 1

    @property
    def judged(self) -> Rows:
        """Rows on which members are judged."""
        rows, parts, n = self.problem.rows, self.parts, self.problem.n_rows
        if not self.split.n_parts:
            return replace(rows, fitted=True)
        if self.split.share == 1.0:
            words = f"out-of-fold losses of the {n:,} training rows ({self.split.n_parts} folds)"
            return replace(rows, words=words, fold=parts.astype(np.uint8))
        held = rows.part(parts == 0)
        assert held.alike is not None
        return replace(held, words=f"the {int(held.alike.rows.sum()):,} held-out rows")

    @property
    def player_rows(self) -> Mask | None:
        """Rows the player weighs; None for all."""
        return self.parts < 0 if 0.0 < self.split.share < 1.0 else None

    def __call__(self, u: Floats, seed: int, goal: Goal | None = None) -> Response:
        """Answer for the density ``u`` of the combinations; learners are fitted whole."""
        place, self.place = self.place, self.place + 1
        if place == len(self.members):
            self._ask(u)
            raise Refined
        answers: Ints = self.problem.table.columns[3 + place]
        wrong = answers != self.problem.y
        player, judged = self.player_rows, self.parts == 0
        losses, said = (wrong, answers) if player is None else (wrong[player], answers[judged])
        if goal is not None:
            goal(losses, said)
        return Response(self.members[place], losses, said)

    def _ask(self, u: Floats) -> None:
        began, problem = time.perf_counter(), self.problem
        weight = problem.weight * round_significant(u)
        held = [self.parts == j for j in range(self.split.n_parts)]
        weights = [np.where(h, 0.0, outside(h, weight, problem.rows)) for h in held]
        own = [np.where(h, 0.0, problem.weight) for h in held]
        judge = np.where(self.parts < 0, 0, self.parts)
        question = self.asker.question([*weights, weight], [*own, problem.weight], judge)
        number = len(self.members)
        if question.fits and (models := self.kept.read(number)) is not None:
            question = replace(question, models=models)
        table = problem.table.tally.keys
        answers: list[Answer] = self.remote.call(_worker.ask, table, problem.n_classes, question)
        models = answers[0].models
        if question.fits:
            assert models is not None
            self.kept.write(number, models)
            question = replace(question, models=models)
        self.remote.keep(_worker.ask, table, problem.n_classes, question)
        self.members.append(self.asker.member(question))
        problem.refine(Tally.merged([a.tally for a in answers]), problem.n_classes)
        self.observe(
            Progress(
                problem.n_rows,
                time.perf_counter() - began,
                max(a.learning for a in answers),
                sum(len(a.tally.keys) for a in answers),
                sum(map(len, question.models or [])),
            )
        )


class Kept:
    """Models of a former fit, by the number of the question; by itself none."""

    def read(self, number: int) -> list[bytes] | None:
        """Return the models of a question, or None."""
        return None

    def write(self, number: int, models: list[bytes]) -> None:
        """Keep the models of a question."""


# -- learners ----------------------------------------------------------------------------------------------


class Asker:
    """Turns weights of combinations into a question to the workers, and its models into a member.

    Parameters
    ----------
    learner : HistBoostClassifier or HistTreeClassifier
        What the workers fit.
    problem : ClusterProblem
    reader : TableReader
    """

    def __init__(self, learner: BinnedLearner, problem: ClusterProblem, reader: TableReader) -> None:
        self.learner, self.problem, self.reader = learner, problem, reader

    @abstractmethod
    def question(self, weights: list[Floats], own: list[Floats], judge: Ints) -> Question:
        """Return what to ask for the weights of the combinations, of which the last are of all rows."""

    @abstractmethod
    def member(self, question: Question) -> Any:
        """Return the member that all rows were fitted for."""

    def _fits(self, weights: list[Floats], judge: Ints) -> Question:
        problem = self.problem
        bare = problem.table.tally.weight
        found = [
            training_params(
                self.learner, problem.y, w, problem.n_classes, n_rows=problem.n_rows, bins=0, threads=0
            )
            for w in weights
        ]
        judge = np.minimum(judge, len(weights) - 1)
        densities = [w / bare for w in weights]
        params, scales = map(list, zip(*found, strict=True))
        return Question(densities, params, scales, problem.factor, judge)

    def _model(self, models: list[bytes] | None) -> Any:
        assert models is not None
        return member_of(self.learner, models[-1], self.reader, self.problem.n_classes)


class _Fitted(Asker):
    """Fit to the weights."""

    def question(self, weights: list[Floats], own: list[Floats], judge: Ints) -> Question:
        return self._fits(weights, judge)

    def member(self, question: Question) -> Any:
        return self._model(question.models)


class _ByArgmax(Asker):
    """Fit probabilities once, and answer weights of the classes by the argmax of log p + log w."""

    shared: LogProbabilities | None = None

    def question(self, weights: list[Floats], own: list[Floats], judge: Ints) -> Question:
        y, K = self.problem.y, self.problem.n_classes
        mass = np.array([np.bincount(y, weights=w, minlength=K) for w in weights])
        with np.errstate(divide="ignore"):
            shift = np.log(mass / mass.sum(axis=1, keepdims=True))
        if self.shared is not None:
            nothing = Question([], [], [], self.problem.factor, np.minimum(judge, len(weights) - 1))
            return replace(nothing, shift=shift, reuse=True)
        fits = self._fits([balanced(w, y, self.problem.weight) for w in own], judge)
        return replace(fits, shift=shift)

    def member(self, question: Question) -> Any:
        assert question.shift is not None
        if self.shared is None:
            self.shared = LogProbabilities([self._model(question.models)], self.problem.n_classes)
        return Adjusted(self.shared, question.shift[-1])


def asker_of(learner: Any, problem: ClusterProblem, reader: TableReader) -> Asker:
    """Return what asks the workers for a learner."""
    if isinstance(learner, LogitAdjustedClassifier):
        return _ByArgmax(binned(learner), problem, reader)
    return _Fitted(binned(learner), problem, reader)


def binned(learner: Any) -> BinnedLearner:
    """Return the binned trees behind a learner.

    Raises
    ------
    ValueError
        If it is another learner: those are not fitted on a cluster.
    """
    inner = learner
    if isinstance(learner, LogitAdjustedClassifier):
        inner = learner.estimators[0] if isinstance(learner.estimators, list) else learner.estimators
        if isinstance(learner.estimators, list) and len(learner.estimators) != 1:
            inner = None
    if not isinstance(inner, (HistBoostClassifier, HistTreeClassifier)):
        raise ValueError(
            f"estimator={learner!r} is not fitted on a cluster: rows stay on their workers, where "
            "HistBoostClassifier, HistTreeClassifier and LogitAdjustedClassifier over one of these are "
            "fitted by XGBoost. Fit other learners, and nets, by tailboost's own classifiers on a sample"
        )
    if inner.backend == "sklearn":
        raise ValueError("backend='sklearn' is not fitted on a cluster; use 'auto' or 'xgboost'")
    return inner
