"""The learner of a game with its rows, which answers the request of a round with a candidate.

A learner fits the base model, and measures it on rows of which the model knows nothing
(`CrossFitLearner`), on held-out rows, or on the training rows (`Whole`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from tailboost.boosting.game import Request, RoundCandidate, Stop
from tailboost.core.array_types import (
    Floats,
    Ints,
    Mask,
    Model,
    ModelAnswers,
    Table,
    UnitLosses,
)
from tailboost.core.checks import with_bits
from tailboost.learners.foreign import is_real, predict_models
from tailboost.learners.protocols import (
    Accumulating,
    AveragingLearner,
    Growing,
    Partitioned,
    Session,
)
from tailboost.rows.rows import Rows, Split, TrainingSet, only_known_classes

# Significant bits of the learners' density, unless weights are exact. Equal rows then get equal
# weights for any order of summation, and trees break ties in the same way.
SIGNIFICANT_BITS = 16
# A density below this is 0 up to the precision of the solvers.
NEGLIGIBLE = 2.0**-32


def round_significant(x: Floats) -> Floats:
    """Return densities with 16 significant bits; negligible ones are 0."""
    return with_bits(np.where(x < NEGLIGIBLE, 0.0, x), SIGNIFICANT_BITS)


@dataclass(frozen=True)
class Whole:
    """One fit in each round: without a held-out fraction, which is the selection data, or on all rows.

    Without a fraction, the training losses drive the player, as in the papers for small data. The selection
    data are then the same rows, or further rows of the user.

    Attributes
    ----------
    session : Session
        The base learner on the training rows.
    train, judged : Rows
        The training rows and the selection data.
    held : ndarray of bool, shape (n,), or None
        Held-out rows.
    refit : bool
        Whether the model is fitted again, on all rows, after its losses were measured.
    X_judged : table or None
        Further rows: the selection data.
    exact : bool
        Whether the learner gets the density unrounded.
    """

    session: Session
    train: Rows
    judged: Rows
    held: Mask | None = None
    refit: bool = False
    X_judged: Table = None
    exact: bool = False

    @property
    def player_rows(self) -> Mask | None:
        """Rows without the held-out ones; None means all rows."""
        if self.held is None:
            return None
        return ~self.held

    def fit(self, request: Request) -> RoundCandidate:
        """Return the candidate of a round: the first good enough stage of growth, or the nearest.

        With held-out rows the candidate is fitted without these rows, and measured on them.
        """
        seed = request.seed
        grow = request.grows
        weight = _weight(self.train, request.density, self.exact)
        fit_weight = weight
        fit_rows = self.player_rows
        if self.held is not None:
            fit_weight = outside(self.held, weight, self.train)
        staged_models = stages(self.session, fit_weight, seed, fit_rows, grow=grow)
        keeps = bool(getattr(self.session, "keeps_stages", False))
        number, candidate = nearest_stage(staged_models, self._measured, request, keeps)
        if self.refit:
            model = model_after_stages(self.session, number, weight, seed, grow=grow)
        elif candidate.model is None:  # changed by a later stage: grown again
            model = model_after_stages(self.session, number, fit_weight, seed, fit_rows)
        else:
            return candidate
        return replace(candidate, model=model)

    def _measured(self, model: Model) -> RoundCandidate:
        """Return a model with its losses on the fitted rows and its answers to the selection data."""
        answers = self.session.predict(model)
        losses = row_losses(answers, self.train.y)
        if self.held is not None:
            return RoundCandidate(model, losses[~self.held], answers[self.held])
        if self.X_judged is not None:
            answers = next(predict_models([model], self.X_judged))
        return RoundCandidate(model, losses, answers)


@dataclass(frozen=True)
class CrossFitLearner:
    """One fit for each fold in each round: each row is judged by a model without this row.

    The base model is the mean of the folds' models if the learner has one and rounds do not answer together.
    Otherwise one fit has all rows.

    Attributes
    ----------
    session, train, judged, exact
        As in `Whole`; all training rows are selection data.
    fold : ndarray of int, shape (n,)
        Fold of each row.
    n_jobs : int or None
        Threads over the folds.
    together : bool
        Whether candidates hold class probabilities, if the learner accumulates them over rounds.
    """

    session: Session
    train: Rows
    judged: Rows
    fold: Ints
    n_jobs: int | None = None
    together: bool = False
    exact: bool = False

    player_rows = None

    @cached_property
    def accumulating(self) -> Accumulating | None:
        """The session, if candidates hold class probabilities; otherwise None."""
        session = self.session
        if self.together and isinstance(session, Accumulating) and session.accumulates:
            return session
        return None

    @cached_property
    def averaging(self) -> AveragingLearner | None:
        """The session, if the base model is the mean of the folds' models; otherwise None."""
        if isinstance(self.session, AveragingLearner) and self.accumulating is None:
            return self.session
        return None

    def fit(self, request: Request) -> RoundCandidate | Stop:
        """Return the candidate of a round with out-of-fold answers, or the reason to drop the round."""
        seed = request.seed
        weight = _weight(self.train, request.density, self.exact)
        masks = [self.fold == j for j in range(self.fold.max() + 1)]
        folds = [Fold(self, rows, weight, seed) for rows in masks]
        refusal = self._refusal(request, folds)
        if refusal is not None:
            return refusal
        grow = request.grows and isinstance(self.session, Growing)
        staged_answers = self._lockstep([(fold.rows, fold.stages(grow)) for fold in folds])
        number, candidate = nearest_stage(
            staged_answers, self._measured, request, keeps_models=False
        )
        model = None
        if self.averaging is not None and not grow:
            fitted_rows = [~rows for rows in masks]
            model = self.averaging.mean([fold.model for fold in folds], weight, fitted_rows)
        if model is None:  # these models have no mean: fit one on all rows
            model = model_after_stages(self.session, number, weight, seed, grow=grow)
        if grow or self.accumulating is None:
            return replace(candidate, model=model)
        # A mean of one model has the table by which rounds answer together.
        all_rows = np.ones(len(weight), dtype=np.bool_)
        model = self.accumulating.mean([model], weight, [all_rows])
        return replace(candidate, model=model, probabilities=out_of_fold(folds))

    def _refusal(self, request: Request, folds: list[Fold]) -> Stop | None:
        """Return the reason to drop the round, or None to keep it.

        With much label noise, the weights concentrate on mislabelled rows, and a round does not help. The
        request decides by the outputs of the first fold, which saves the other fits, and then of all folds.
        """
        if request.refuses is None or not isinstance(self.session, AveragingLearner):
            return None
        first_fold = folds[0]
        stop = request.refuses(first_fold.rows, first_fold.outputs)
        if stop is not None:
            return stop
        with self._threads() as parallel:
            parallel(delayed(getattr)(fold, "outputs") for fold in folds)
        return request.refuses(np.ones(len(self.fold), dtype=np.bool_), out_of_fold(folds))

    def _lockstep(self, folds: list[tuple[Mask, Iterator[Ints]]]) -> Generator[Ints]:
        """Yield the class numbers of all rows after each stage of growth, shape (n,).

        ``folds`` has a mask of the rows of each fold, with an iterator over the answers to these rows by
        stage. A fold at the end of its growth keeps its last answers.
        """
        answers = np.empty(len(self.fold), dtype=np.intp)
        with self._threads() as parallel:
            while True:
                newest_answers = parallel(delayed(next)(stages, None) for _, stages in folds)
                if all(newest is None for newest in newest_answers):
                    return
                for (rows, _), newest in zip(folds, newest_answers, strict=True):
                    if newest is not None:
                        answers[rows] = newest
                yield answers.copy()

    def _measured(self, answers: Ints) -> RoundCandidate:
        """Return class numbers of all rows, shape (n,), as a candidate without a model."""
        return RoundCandidate(None, answers != self.train.y, answers)

    def _threads(self) -> Parallel:
        """Return the pool of threads; one thread for a session without concurrent fits."""
        n_jobs = self.n_jobs
        if not self.session.concurrent:
            n_jobs = 1
        return Parallel(n_jobs=n_jobs, prefer="threads")


class Fold:
    """One fold of a round: its model is fitted without the fold's rows, a mask, and evaluated on them."""

    def __init__(self, learner: CrossFitLearner, rows: Mask, weight: Floats, seed: int) -> None:
        self.learner = learner
        self.rows = rows
        self.seed = seed
        self.weight = outside(rows, weight, learner.train)

    @cached_property
    def model(self) -> Any:
        """Model fitted without the fold's rows."""
        return self.learner.session.fit(self.weight, self.seed, ~self.rows)

    @cached_property
    def outputs(self) -> ModelAnswers:
        """Predictions for the m rows of the fold by a model fitted without these rows.

        These are class numbers, shape (m,), or class probabilities, shape (m, K), if rounds add them up.
        """
        learner = self.learner
        if learner.accumulating is not None:
            outputs: ModelAnswers = learner.accumulating.probabilities(self.model, self.rows)
        else:
            outputs = learner.session.predict(self.model, self.rows)
        if learner.averaging is None:
            del self.model  # its memory is not needed any more
        return outputs

    def stages(self, grow: bool) -> Iterator[Ints]:
        """Yield class numbers for the m rows of the fold after each stage of growth, shape (m,).

        A stage is the model with its first trees. Without growth there is one, the whole model: its outputs
        are class numbers, or probabilities by class with an `Accumulating` session.
        """
        session = self.learner.session
        if grow:
            for model in stages(session, self.weight, self.seed, ~self.rows):
                yield session.predict(model, self.rows)
        elif self.learner.accumulating is None:
            yield self.outputs
        else:
            yield self.outputs.argmax(axis=1)


def out_of_fold(folds: list[Fold]) -> ModelAnswers:
    """Return the predictions of all rows as one array, shape (n,), or probabilities, shape (n, K)."""
    first_outputs = folds[0].outputs
    outputs = np.empty(
        (len(folds[0].rows), *first_outputs.shape[1:]), dtype=first_outputs.dtype
    )
    for fold in folds:
        outputs[fold.rows] = fold.outputs
    return outputs


def _weight(train: Rows, density: Floats, exact: bool) -> Floats:
    """Return the weights of a fit, sample weight × density, shape (n,).

    Unless ``exact``, the density has 16 significant bits: then equal rows have equal weights.
    """
    if exact:
        return train.weight * density
    return train.weight * round_significant(density)


def outside(held: Mask, weight: Floats, train: Rows) -> Floats:
    """Return the weights for a fit without held-out rows, of which at least one is positive.

    If the player weighs only held-out rows, these are the sample weights.
    """
    if weight.any(where=~held):
        return weight
    return train.weight


def row_losses(answers: ModelAnswers, y: Ints) -> UnitLosses:
    """Return the loss of each row, shape (n,): 1 for a wrong class number, (1 − h_y)/2 for real values h.

    Values h have the shape (n, K). With two classes they have the shape (n,) and are h_1 = −h_0.
    """
    if not is_real(answers):
        return answers != y
    if answers.ndim == 2:
        true_class_values = answers[np.arange(len(y)), y]
    else:
        true_class_values = np.where(y == 1, answers, -answers)
    return 0.5 * (1.0 - true_class_values)


def stages(
    session: Session, weight: Floats, seed: int, rows: Mask | None = None, *, grow: bool = True
) -> Generator[Any]:
    """Yield the base model after each stage of growth; without growth yield the result of ``fit``."""
    if grow and isinstance(session, Growing):
        yield from session.stages(weight, seed, rows)
    else:
        yield session.fit(weight, seed, rows)


def model_after_stages(
    session: Session,
    n_stages: int,
    weight: Floats,
    seed: int,
    rows: Mask | None = None,
    *,
    grow: bool = True,
) -> Any:
    """Return the base model after this number of stages, or after the last stage if there are fewer.

    Parameters
    ----------
    session : Session
        Session of the base learner on the training rows.
    n_stages : int
        The number of stages, from 1.
    weight : ndarray of shape (n,)
        Weights of the fit.
    seed : int
        Seed of the fit.
    rows : mask of shape (n,), optional
        The fitted rows; all by default.
    grow : bool, default=True
        Whether the model grows in stages; otherwise the whole fit is one stage.
    """
    model = None
    with closing(stages(session, weight, seed, rows, grow=grow)) as staged_models:
        # A learner may change its model in place, so only the last one is whole.
        for newest in islice(staged_models, n_stages):
            model = newest
    return model


def nearest_stage(
    staged_models: Generator[Any],
    measure: Callable[[Any], RoundCandidate],
    request: Request,
    keeps_models: bool,
) -> tuple[int, RoundCandidate]:
    """Return the number, from 1, and the candidate of the last stage of growth in a round.

    This is the first stage within the demand. Without one, the nearest stage counts, and the first of equally
    near ones. A later stage may change the model of earlier ones: then an earlier candidate has no
    model.

    Parameters
    ----------
    staged_models : generator
        The base model after each stage of its growth.
    measure : callable
        Returns the candidate of a base model: its answers and losses.
    request : Request
        What the round asks for: the demand, and the weighted loss compared with it.
    keeps_models : bool
        Whether a model stays as it is while the learner grows.
    """
    least_distance = np.inf
    with closing(staged_models):
        for number, model in enumerate(staged_models, 1):
            candidate = measure(model)
            distance = request.distance(candidate)
            if number == 1 or distance < least_distance:  # the first may be NaN
                least_distance = distance
                nearest_number = number
                nearest = candidate
            elif not keeps_models:  # this stage has changed the model
                nearest = replace(nearest, model=None)
            if distance <= 0.0:
                break
    return nearest_number, nearest


def open_learner(
    session: Session,
    training: TrainingSet,
    validation: object,
    *,
    seed: int,
    refit: bool,
    n_jobs: int | None,
    five_up_to: float = np.inf,
    together: bool = False,
    known_classes: bool = False,
    exact: bool = False,
) -> Whole | CrossFitLearner:
    """Return the base learner with its rows and its judging rows.

    Parameters
    ----------
    session : Session
        Session of the base learner on the training rows.
    training : TrainingSet
        Training set, and a validation set if the user gave one.
    validation : {"auto", "train"}, int, float or Split
        As given to the classifier, see `Split.from_training_set`. "train": the selection data are the
        training rows.
    seed : int
        Seed of the folds.
    refit : bool
        Whether base models are fitted again on all rows if a fraction is held out.
    n_jobs : int or None
        Threads over the folds.
    five_up_to : float, default=inf
        See `Split.from_training_set`.
    together : bool, default=False
        Whether the models of several rounds may answer together, see `CrossFitLearner`.
    known_classes : bool, default=False
        Whether to leave rows out of their subgroups if no model evaluated on them knows their class.
    exact : bool, default=False
        Whether the learner gets the density of the weights unrounded.

    Raises
    ------
    ValueError
        If no rows are left for the fit or for the selection data.
    """
    train = training.rows
    if training.validation is not None:
        X_judged, judged = training.validation
        return Whole(session, train, judged, X_judged=X_judged, exact=exact)
    if validation == "train":
        return Whole(session, train, replace(train, fitted=True), exact=exact)
    split = validation
    if not isinstance(split, Split):
        split = Split.from_training_set(
            training, validation, seed, ", or cv='train'", five_up_to
        )
    judged = split.selection_rows(train, "losses", refit=refit)
    if known_classes:
        judged = only_known_classes(judged, split.fold, training)
    if isinstance(session, Partitioned):
        session.leave_out(split.fold)
    if split.scheme == "cv":
        return CrossFitLearner(session, train, judged, split.fold, n_jobs, together, exact)
    return Whole(session, train, judged, split.fold == 0, refit, exact=exact)
