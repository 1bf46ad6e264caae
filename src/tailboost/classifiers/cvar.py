"""Games over rows: boosting for the CVaR of the losses (Zhai et al. 2021), and OCO boosting."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tailboost.boosting.game import (
    Demand,
    Game,
    Player,
    RowStakes,
    Schedule,
    StopKind,
    Units,
)
from tailboost.boosting.learner import CrossFitLearner, Whole
from tailboost.boosting.players.corrective import (
    EntropicLP,
    TotallyCorrectiveLP,
    entropic_theory,
)
from tailboost.boosting.players.hedge import Hedge, eta_for, theory_rounds
from tailboost.boosting.pool import JudgedPool
from tailboost.boosting.subgroups import NamedSubgroups
from tailboost.classifiers.base import MixtureClassifier, learner_of
from tailboost.classifiers.boosted_selection import counts_of
from tailboost.classifiers.boosting_fit import BoostingFit, Cautions, set_results
from tailboost.classifiers.input import ROUNDS_OR_AUTO, preset, with_parameters
from tailboost.core.constraints import Constraints, OneOf
from tailboost.core.exceptions import BoundNotMetWarning
from tailboost.guarantees.game_bounds import (
    edge_bound,
    entropic_bounds,
    hedge_game_bounds,
    mixed_by_program,
    totally_corrective_bounds,
)
from tailboost.learners import HistTreeClassifier
from tailboost.rows.rows import TrainingSet
from tailboost.selection.mixture import Mixture
from tailboost.selection.problem import CVaR, Problem, WorstRow
from tailboost.selection.progress import HelpsTail, LeastTail
from tailboost.selection.summary import Bounds

# Number of distinct rows above which Hedge cross-fits in three folds instead of five, to save time.
HEDGE_FIVE_FOLDS_UP_TO = 1_000


class RowPlayer(ABC):
    """A weight player of `CVaRBoostClassifier`: its player of the game, and the theorems about it.

    Methods read the parameters of the classifier.
    """

    together: bool = False  # whether the models of all rounds predict together
    # Number of distinct rows above which "auto" takes three folds.
    five_folds_up_to: float = math.inf

    @abstractmethod
    def player(self, clf: CVaRBoostClassifier, units: Units) -> Player[Any]:
        """Return the player of a game over rows."""

    def bounds(self, clf: CVaRBoostClassifier) -> Bounds:
        """Return the promised (a-priori) and the observed bounds of a finished game: a pair of sequences.

        Both are empty without theorems.
        """
        return (), ()

    def rounds_by_theory(self, clf: CVaRBoostClassifier) -> int:
        """Return the number of rounds for ``n_estimators="auto"``."""
        raise ValueError("n_estimators='auto' needs the theorem of the entropic player")


@dataclass(frozen=True)
class HedgeOverRows(RowPlayer):
    """Hedge, which does not depend on α."""

    together = True
    five_folds_up_to = HEDGE_FIVE_FOLDS_UP_TO

    def player(self, clf: CVaRBoostClassifier, units: Units) -> Hedge:
        """Return Hedge with the learning rate of the classifier."""
        return Hedge(eta_for(clf.eta, units.count, max_rounds(clf)), clf.outlier_fraction)

    def bounds(self, clf: CVaRBoostClassifier) -> Bounds:
        """Return the bounds of the even mixture of Hedge.

        If a linear program has selected the weights for a CVaR, its value is added.
        """
        selection = clf.selection_
        alpha = selection.alpha
        bounds = hedge_game_bounds(clf.game_, alpha=alpha, eta=clf.eta, planned=max_rounds(clf))
        if clf.combine == "average" or alpha is None:  # or another objective by `reweight`
            return bounds
        value = selection.value(clf.estimator_weights_)
        return mixed_by_program(clf.game_, selection.pool, alpha, value, bounds)


@dataclass(frozen=True)
class LPOverRows(RowPlayer):
    """The linear program over all rounds so far."""

    def player(self, clf: CVaRBoostClassifier, units: Units) -> TotallyCorrectiveLP:
        """Return the player of the program."""
        return TotallyCorrectiveLP(clf.alpha, outlier_fraction=clf.outlier_fraction)

    def bounds(self, clf: CVaRBoostClassifier) -> Bounds:
        """Return the bound of LPBoost."""
        return totally_corrective_bounds(clf.game_)


@dataclass(frozen=True)
class EntropicOverRows(RowPlayer):
    """The linear program with an entropy term."""

    def player(self, clf: CVaRBoostClassifier, units: Units) -> EntropicLP:
        """Return the player of the regularised program, and set the β of the classifier.

        β is the stated one, or that of the theorem.
        """
        beta = clf.beta
        if beta == "theory":
            beta, _ = entropic_theory(clf.alpha, clf.delta)
        clf.beta_ = float(beta)
        return EntropicLP(clf.alpha, clf.beta_, outlier_fraction=clf.outlier_fraction)

    def rounds_by_theory(self, clf: CVaRBoostClassifier) -> int:
        """Return the number of rounds of the theorem."""
        _, n_rounds = entropic_theory(clf.alpha, clf.delta)
        return n_rounds

    def bounds(self, clf: CVaRBoostClassifier) -> Bounds:
        """Return the bound of regularised LPBoost."""
        return entropic_bounds(clf.game_, clf.delta if isinstance(clf.beta, str) else None)


#: Names for ``player=``.
PLAYERS: dict[str, RowPlayer] = {
    "hedge": HedgeOverRows(),
    "lp": LPOverRows(),
    "entropic": EntropicOverRows(),
}


@with_parameters
class CVaRBoostClassifier(MixtureClassifier):
    """Boosting for the rows with the largest losses, measured by the CVaR.

    In each round a player weighs the rows and the learner fits a hypothesis to these weights. The mixture of
    the hypotheses minimises the CVaR: the mean loss of the worst share ``alpha`` of the rows. Presets for the
    algorithms of Zhai et al. 2021 are `AdaLPBoostClassifier`, `LPBoostClassifier`,
    `RegularizedLPBoostClassifier` and `AverageBoostClassifier`.

    Parameters
    ----------
    estimator : classifier or str, optional
        Base learner or its name, see `tailboost.learners.named`. None is `HistBoostClassifier`, a small
        ensemble of gradient-boosted binned trees.
    n_estimators : int or "auto", default=10
        Largest number of rounds T. "auto", for ``player="entropic"``, is the number in its theorem.
    alpha : float in (0, 1], default=0.5
        Tail mass α: the mean loss of the worst share α of the rows is minimised. 1 is the mean over all rows.
    player : {"hedge", "lp", "entropic"} or RowPlayer, default="hedge"
        The weight player: Hedge, which does not depend on α; the linear program over all rounds so far; or
        this program with an entropy term. Or a player of your own, a subclass of `RowPlayer`.
    combine : {"mixture", "average"}, default="mixture"
        The mixture of least CVaR, or the even mixture of all rounds, which uses training losses alone.
    eta : float or "theory", default=1.0
        Learning rate of Hedge. "theory" is √(8 log n / T).
    beta : float or "theory", default=100.0
        Inverse strength of the entropy term. "theory" is the β of the theorem for ``delta``.
    delta : float in (0, 1), default=0.1
        Accuracy δ of the theorem, for ``beta="theory"`` and ``n_estimators="auto"``.
    cv : {"auto", "train"}, int, float in (0, 1), splitter or iterable, default="auto"
        Selection data, on which the mixture weights are selected. An int: out-of-fold losses of as many
        folds, which also drive the weights of the game. A float: a held-out fraction; hypotheses are refitted
        on all rows. A splitter or an iterable of (fitted, held-out) row numbers: each row held out once, or
        one part. "train": the training losses, as in the papers; they are near zero for a strong learner.
        "auto": ``X_val`` if `fit` gets it, else five folds up to 50,000 distinct rows and 0.2 above, if a
        held-out fifth has 20 rows of each class in each group.
    include_constants : bool, default=True
        Whether the K constant classifiers may enter the mixture. Their even mixture is a random guess.
    outlier_fraction : float in [0, 1), default=0.0
        Fraction of the weight, from the rows with the largest cumulative loss, that the weight player and the
        mixture ignore. It protects against label noise.
    n_iter_no_change : int or None, default=3
        The fit stops after this number of rounds in which the objective fell by at most ``tol``. None plays
        all rounds.
    tol : float, default=1e-3
        Smallest decrease of the objective that counts.
    class_weight : dict, "balanced" or None, default=None
        Factors of the classes for the sample weights. Bounds are about the reweighted distribution.
    exact_weights : bool, default=False
        Whether the learner gets the weights of a round unrounded, as the papers print them
        (`tailboost.published`). By default they have 16 significant bits: then equal rows have equal weights
        for any order of the rows, and a tree breaks ties in the same way. A tie may be broken otherwise than
        with exact weights, which can change all later rounds.
    max_time : float or None, default=None
        Seconds after which no new round begins.
    n_jobs : int or None, default=None
        Largest number of threads: of the default learner, or over the folds for other learners. None is all
        cores for the default learner, and one fold at a time for others.
    random_state : int, RandomState or None, default=None
        Seed of the folds and of the learners.
    verbose : int, default=0
        Above 0, each round prints a line.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    estimators_ : list
        The hypotheses in order, the first fitted with the sample weights alone; then the constants.
    estimator_weights_ : ndarray of shape (n_members,)
        Mixture weight λ of each hypothesis; they sum to 1. Among optimal λ, the one with the least mean loss,
        then with the fewest hypotheses.
    beta_ : float
        β of the entropic player.
    n_iter_ : int
        Number of rounds played.
    trace_ : Trace
        Weighted loss, effective size, seconds, solver gap and objective of each round;
        ``trace_.stop_reason`` says why the game ended.
    gap_ : float
        Largest optimality gap of a solve.
    objective_ : Objective
        The objective of the mixture weights.
    rates_ : RateTable
        Rates of the objective and the limits by subgroup, of `predict` on the selection data.
    subgroup_errors_ : dict
        Error of `predict` on each class, group or cell, on the selection data.
    expected_subgroup_errors_
        As in `WorstClassBoostClassifier`.
    limits_met_ : bool or None
        Whether all limits are certified, or without a certificate kept on the selection data; None without
        limits.
    summary_ : Summary
        Bounds and achieved objective; ``print`` shows them.
    n_features_in_, feature_names_in_
        Number of columns in `fit`, and their names if all are text.

    See Also
    --------
    WorstClassBoostClassifier : Boosting for the worst class or group.

    References
    ----------
    Zhai, Dan, Suggala, Kolter, Ravikumar: Boosted CVaR Classification, NeurIPS 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tailboost import CVaRBoostClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = CVaRBoostClassifier(player="lp", alpha=0.2, n_estimators=3, random_state=0).fit(X, y)
    >>> clf.predict(X[:1])
    array([0])
    """

    _parameter_constraints: ClassVar[Constraints] = {
        "n_estimators": ROUNDS_OR_AUTO,
        "player": [OneOf(*PLAYERS), RowPlayer],
    }

    n_estimators: int | str = 10
    alpha: float = 0.5
    player: RowPlayer | str = "hedge"
    combine: str = "mixture"
    eta: float | str = 1.0
    beta: float | str = 100.0
    delta: float = 0.1
    cv: object = "auto"
    include_constants: bool = True
    outlier_fraction: float = 0.0
    n_iter_no_change: int | None = 3
    tol: float = 1e-3

    def _play(self, fit: BoostingFit) -> Cautions:
        """Play the game over rows, and select the mixture of least CVaR, or the even mixture."""
        if self.combine == "average":
            return _play_even(self, fit)
        row_weights = row_player(self)
        problem = Problem(CVaR(self.alpha), randomized=True)
        training = fit.read()
        learner = fit.open(
            training,
            self.cv,
            five_up_to=row_weights.five_folds_up_to,
            together=row_weights.together,
        )
        patience = self.n_iter_no_change
        game = _game(self, training, learner, patience)
        if patience is not None or self.verbose:  # a round prints the objective
            game = replace(game, progress=LeastTail(problem))
        if row_weights.together and patience:
            game = replace(game, refuses=HelpsTail(problem, self.tol))
        # The runners-up answer by the probabilities of the rounds together.
        runners_up = row_weights.together and self.include_constants and training.n_classes > 2
        pool = JudgedPool(
            learner.judged,
            training.n_classes,
            outlier_fraction=self.outlier_fraction,
            runners_up=runners_up,
        )
        if self.include_constants:
            pool = pool.with_constants()
        mixture = Mixture(problem, pool, counts_of(self, pool.rows))
        position = fit.play(game, pool, training)
        set_results(self, position, replace(mixture, pool=position.pool))
        return []

    def _bounds(self) -> tuple[Bounds, dict[str, str]]:
        stated = row_player(self).bounds(self)
        try:
            promised, observed = map(tuple, stated)
        except (TypeError, ValueError):
            raise ValueError(
                f"{type(row_player(self)).__name__}.bounds(clf) must return two sequences of "
                f"bounds, (promised, observed), such as ((), ()); got {stated!r}"
            ) from None
        return (promised, observed), {}


def _play_even(clf: CVaRBoostClassifier, fit: BoostingFit) -> Cautions:
    """Play the game over rows for the even mixture, which has training losses alone."""
    if fit.validation.any_given:
        raise ValueError(
            "X_val: with combine='average' there is nothing to choose on other rows"
        )
    if clf.cv not in ("auto", "train"):
        raise ValueError(f"cv={clf.cv!r}: an even mixture has training losses only")
    training = fit.read()
    learner = fit.open(training, "train")
    game = _game(clf, training, learner, patience=None)
    play_for_vote(clf, fit, training, learner, game)
    return []


def play_for_vote(
    clf: CVaRBoostClassifier | OCOBoostClassifier,
    fit: BoostingFit,
    training: TrainingSet,
    learner: Whole | CrossFitLearner,
    game: Game,
) -> None:
    """Play a game over rows; the classifier gets the even mixture of all rounds.

    Parameters
    ----------
    clf : CVaRBoostClassifier or OCOBoostClassifier
        The classifier that is fitted.
    fit : BoostingFit
        Its fit.
    training : TrainingSet
        The training rows.
    learner : Whole or CrossFitLearner
        The base learner with its rows.
    game : Game
        The game.
    """
    pool = JudgedPool(learner.judged, training.n_classes, outlier_fraction=clf.outlier_fraction)
    problem = Problem(WorstRow(), randomized=True)
    mixture = Mixture(problem, pool, counts_of(clf, pool.rows), even=True)
    position = fit.play(game, pool, training)
    set_results(clf, position, replace(mixture, pool=position.pool))


def _game(
    clf: CVaRBoostClassifier,
    training: TrainingSet,
    learner: Whole | CrossFitLearner,
    patience: int | None,
) -> Game:
    """Return the game over rows, which does not watch an objective.

    Parameters
    ----------
    clf : CVaRBoostClassifier
        The classifier that is fitted.
    training : TrainingSet
        The training rows.
    learner : Whole or CrossFitLearner
        The base learner with its rows.
    patience : int or None
        Rounds without progress after which the game ends.
    """
    clf._named = NamedSubgroups.of("class", training.rows, clf.classes_, groups=None)
    units = Units.samples(training.weight, learner.player_rows)
    return Game(
        RowStakes(units),
        row_player(clf).player(clf, units),
        learner,
        Schedule.falling(max_rounds(clf), patience, clf.tol, clf.max_time),
    )


def row_player(clf: CVaRBoostClassifier) -> RowPlayer:
    """Return the weight player of a classifier."""
    if isinstance(clf.player, str):
        return PLAYERS[clf.player]
    return clf.player


def max_rounds(clf: CVaRBoostClassifier) -> int:
    """Return the largest number of rounds of a classifier."""
    if isinstance(clf.n_estimators, str):
        return row_player(clf).rounds_by_theory(clf)
    return int(clf.n_estimators)


@preset(player="hedge", combine="mixture", beta=100.0, delta=0.1)
class AdaLPBoostClassifier(CVaRBoostClassifier):
    """α-AdaLPBoost: Hedge weighs the rows, a linear program mixes the hypotheses for the CVaR.

    The weights ``w_i ∝ p_i exp(η Σ_s ℓ_i^s)`` do not depend on α. Therefore one fit serves every α:
    `reweight` and `alpha_path` train nothing. The bound is about the randomised classifier with the label
    distribution `predict_distribution`, not about `predict`. Its CVaR is at most ``V + log(1/α)/(ηT) + η/8``,
    where V is the mean weighted loss of the rounds. The bound holds if λ is selected on the losses that drive
    the weight player, for ``cv="train"``; ``print(clf.summary_)`` shows it in this case.

    **Hypotheses.** With cross-fitting, more than two classes and the default learner, the hypothesis of a
    round predicts by the mean probability of all models so far. The second, third, … (up to the eighth) most
    probable class by the models of round 1 join the mixture.

    **Choice of α.** A model with error e has a smaller CVaR than a random guess only if α > e · K/(K−1). A
    random guess has the CVaR 1 − 1/K for every α. A mixture can do better than its hypotheses if these err on
    different rows. `summary_` gives the smallest α at which the hypotheses beat a random guess.

    Further attributes: see `CVaRBoostClassifier`.

    Parameters
    ----------
    estimator : classifier or str, optional
        Base learner or its name, see `tailboost.learners.named`. None is `HistBoostClassifier`, a small
        ensemble of gradient-boosted binned trees.
    n_estimators : int, default=3
        Largest number of rounds T.
    alpha : float in (0, 1], default=0.5
        Tail mass α: the mean loss of the worst share α of the rows is minimised. 1 is the mean over all rows.
    eta : float or "theory", default=1.0
        Learning rate of Hedge. "theory" is √(8 log n / T).
    cv : {"auto", "train"}, int, float in (0, 1), splitter or iterable, default="auto"
        Selection data, on which the mixture weights are selected, as in `CVaRBoostClassifier`. "auto" takes
        three folds above 1,000 distinct rows. On eleven tables the mean test CVaR over seven α was .479 with
        five folds, .482 with 0.2 in a quarter of the time, .621 with "train"
        (``tailboost reproduce trials``).
    include_constants : bool, default=True
        Whether the K constant classifiers and the next most probable classes may enter the mixture.
    outlier_fraction : float, optional
        As in `CVaRBoostClassifier`.
    n_iter_no_change : int or None, default=3
        The fit stops after this number of rounds in which the objective fell by at most ``tol``. A cross-fit
        of the default learner also stops before a round that errs significantly more than the best hypothesis
        and lowers the objective by at most ``tol``. None plays all rounds.
    tol, class_weight, exact_weights, max_time, n_jobs, random_state, verbose : optional
        As in `CVaRBoostClassifier`, with the same defaults.

    Attributes
    ----------
    classes_, estimators_, estimator_weights_, summary_, n_features_in_, feature_names_in_
        As in `CVaRBoostClassifier`.

    See Also
    --------
    LPBoostClassifier : Hypotheses trained for one α.
    WorstClassBoostClassifier : Boosting for the worst class or group.

    References
    ----------
    Zhai, Dan, Suggala, Kolter, Ravikumar: Boosted CVaR Classification, NeurIPS 2021, Algorithm 2
    (`tailboost.published.adalpboost` has its settings).

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tailboost import AdaLPBoostClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = AdaLPBoostClassifier(alpha=0.2, random_state=0).fit(X, y)
    >>> tail = clf.reweight(alpha=0.05)  # nothing is trained
    >>> tail.alpha
    0.05
    """

    n_estimators: int | str = 3


@preset(player="lp", combine="mixture", eta=1.0, beta=100.0, delta=0.1)
class LPBoostClassifier(CVaRBoostClassifier):
    """α-LPBoost: in each round a linear program over all rounds so far weighs the rows.

    The weights maximise ``min_s ⟨w, ℓ^s⟩`` subject to ``w_i ≤ p_i/α``; among the maximisers, they are the
    closest to ``p``. No rate of convergence is known. The bound is about the randomised classifier with the
    label distribution `predict_distribution`, not about `predict`. The hypotheses depend on α: `reweight` for
    another α keeps the hypotheses trained for this one. See `AdaLPBoostClassifier` for the choice of α.

    Further attributes: see `CVaRBoostClassifier`.

    Parameters
    ----------
    estimator : classifier or str, optional
        Base learner or its name, see `tailboost.learners.named`. None is `HistBoostClassifier`, a small
        ensemble of gradient-boosted binned trees.
    n_estimators : int, default=10
        Largest number of rounds T.
    alpha : float in (0, 1], default=0.5
        Tail mass α: the mean loss of the worst share α of the rows is minimised. 1 is the mean over all rows.
    cv, include_constants, outlier_fraction, n_iter_no_change, tol, class_weight, exact_weights : optional
        As in `CVaRBoostClassifier`, with the same defaults.
    max_time, n_jobs, random_state, verbose : optional
        As in `CVaRBoostClassifier`, with the same defaults.

    Attributes
    ----------
    classes_, estimators_, estimator_weights_, summary_, n_features_in_, feature_names_in_
        As in `CVaRBoostClassifier`.

    See Also
    --------
    AdaLPBoostClassifier : One fit for every α.
    RegularizedLPBoostClassifier : With an entropy term, and a rate of convergence.

    References
    ----------
    Zhai, Dan, Suggala, Kolter, Ravikumar: Boosted CVaR Classification, NeurIPS 2021, Algorithm 1 with
    the weights of eq. 5 (`tailboost.published.lpboost`).

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tailboost import LPBoostClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = LPBoostClassifier(alpha=0.2, n_estimators=3, random_state=0).fit(X, y)
    >>> clf.predict(X[:1])
    array([0])
    """


@preset(player="entropic", combine="mixture", eta=1.0)
class RegularizedLPBoostClassifier(CVaRBoostClassifier):
    """Regularised α-LPBoost: the linear program over all rounds so far, with an entropy term.

    The training CVaR_α is at most g + δ after ``T ≥ max{(32/δ²) log(1/α), 8/δ}`` rounds with
    ``β = max{(2/δ) log(1/α), 1/2}``, where g is the largest weighted loss of a round. `summary_` reports
    whether T and β are large enough. The bound is about the randomised classifier with the label distribution
    `predict_distribution`.

    Further attributes: see `CVaRBoostClassifier`.

    Parameters
    ----------
    estimator : classifier or str, optional
        Base learner or its name, see `tailboost.learners.named`. None is `HistBoostClassifier`, a small
        ensemble of gradient-boosted binned trees.
    n_estimators : int or "auto", default=10
        Largest number of rounds T. "auto" is the T above for ``delta``. The theorem needs all rounds: set
        ``n_iter_no_change=None``.
    alpha : float in (0, 1], default=0.5
        Tail mass α: the mean loss of the worst share α of the rows is minimised. 1 is the mean over all rows.
    beta : float or "theory", default=100.0
        Inverse strength of the entropy term. Large β approaches `LPBoostClassifier`. "theory" is the β above
        for ``delta``.
    delta : float in (0, 1), default=0.1
        δ of the theorem, for ``beta="theory"`` and ``n_estimators="auto"``. For α = ½, T is 2,219 with δ =
        0.1 and 89 with δ = ½.
    cv, include_constants, outlier_fraction, n_iter_no_change, tol, class_weight, exact_weights : optional
        As in `CVaRBoostClassifier`, with the same defaults.
    max_time, n_jobs, random_state, verbose : optional
        As in `CVaRBoostClassifier`, with the same defaults.

    Attributes
    ----------
    classes_, estimators_, estimator_weights_, summary_, n_features_in_, feature_names_in_
        As in `CVaRBoostClassifier`.
    beta_ : float
        β.

    See Also
    --------
    AdaLPBoostClassifier : One fit for every α.
    LPBoostClassifier : Without the entropy term.

    References
    ----------
    Zhai, Dan, Suggala, Kolter, Ravikumar: Boosted CVaR Classification, NeurIPS 2021, eq. 8 (with the sign of
    its constraint corrected; `tailboost.published.regularized_lpboost` has its settings).
    Warmuth, Glocer, Vishwanathan: Entropy Regularized LPBoost, ALT 2008.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tailboost import RegularizedLPBoostClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = RegularizedLPBoostClassifier(alpha=0.2, n_estimators=3, random_state=0).fit(X, y)
    >>> clf.predict(X[:1])
    array([0])
    """


@preset(
    alpha=1.0,
    player="hedge",
    combine="average",
    beta=100.0,
    delta=0.1,
    cv="auto",
    include_constants=False,
    n_iter_no_change=3,
    tol=1e-3,
)
class AverageBoostClassifier(CVaRBoostClassifier):
    """AdaBoost + average: Hedge weighs the rows, the even mixture of the hypotheses predicts.

    The even mixture bounds the loss of every row: ``max_i (1/T) Σ_t ℓ_i^t ≤ V + log(1/min p)/(ηT) + η/8``,
    where V is the mean weighted loss of the rounds. Weight player and bound use training losses. The bound is
    vacuous if the learner leaves almost no training loss. ``print(clf.summary_)`` shows it beside the
    observed value; it is an element of ``summary_.observed``. With η = 1, the default, there is no a-priori
    bound. With ``eta="theory"`` Theorem 5 holds, in ``summary_.promised``: the loss of every row is at most
    ``g + √(log(1/min p)/(2T))``, where g is the largest weighted loss of a round.

    With the default learner, a row of weight 3 and three equal rows give probabilities that differ by up to
    1e-7: XGBoost rounds the product of weight and gradient to float32. Weights 2, 4, 8 … are exact.

    Further attributes: see `CVaRBoostClassifier`.

    Parameters
    ----------
    estimator : classifier or str, optional
        Base learner or its name, see `tailboost.learners.named`. None is `HistBoostClassifier`, a small
        ensemble of gradient-boosted binned trees.
    n_estimators : int, default=10
        Number of rounds T. All rounds are played.
    eta, outlier_fraction, class_weight, exact_weights, max_time : optional
        As in `CVaRBoostClassifier`, with the same defaults.
    n_jobs, random_state, verbose : optional
        As in `CVaRBoostClassifier`, with the same defaults.

    Attributes
    ----------
    classes_, summary_, n_features_in_, feature_names_in_
        As in `CVaRBoostClassifier`.
    estimators_ : list
        The hypotheses in order, the first fitted with the sample weights alone.
    estimator_weights_ : ndarray of shape (T,)
        λ = 1/T.

    See Also
    --------
    AdaLPBoostClassifier : The same hypotheses, mixed by a linear program.

    References
    ----------
    Zhai, Dan, Suggala, Kolter, Ravikumar: Boosted CVaR Classification, NeurIPS 2021, Section 3.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from tailboost import AverageBoostClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = AverageBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=4, random_state=0)
    >>> clf.fit(X, y).estimator_weights_
    array([0.25, 0.25, 0.25, 0.25])
    """


# γ for gamma="auto".
AUTO_GAMMA = 0.1


@with_parameters
class OCOBoostClassifier(MixtureClassifier):
    """OCO boosting: Hedge weighs the rows for a weak learner with edge γ, and the majority vote predicts.

    If every round has a weighted error of at most ½ − γ, then after ``T = ⌈2 ln n/γ²⌉`` rounds more than half
    of the hypotheses are right on every training row, and so is their majority vote.

    **Cost.** A fit trains T models: with the default γ = 0.1 about 200 ln n, so 1,037 trees for 178 rows
    and 1,269 for 569 rows. The number falls with 1/γ²: γ = 0.3 has a ninth of it. A strong learner meets
    γ = 0.3 or more.

    Further attributes: see `CVaRBoostClassifier`.

    Parameters
    ----------
    estimator : classifier or str, optional
        Base learner or its name, see `tailboost.learners.named`. A learner that can grow, such as a
        forest, is grown until its weighted error is at most ½ − γ. None is `HistTreeClassifier`, one binned
        tree of depth 5.
    gamma : float in (0, 0.5] or "auto", default="auto"
        Edge γ of the weak-learning condition; "auto" is 0.1. The game ends if the weighted error of
        the learner exceeds ½ − γ.
    n_estimators : int or "auto", default="auto"
        Number of rounds T. "auto" is ``⌈2 ln n/γ²⌉`` for n rows. For unequal weights, n is their sum divided
        by the smallest.
    eta : float or "theory", default="theory"
        Learning rate of Hedge. "theory" is √(8 ln n/T).
    outlier_fraction, class_weight, exact_weights, max_time, n_jobs : optional
        As in `CVaRBoostClassifier`, with the same defaults.
    random_state, verbose : optional
        As in `CVaRBoostClassifier`, with the same defaults.

    Attributes
    ----------
    classes_, summary_, n_features_in_, feature_names_in_
        As in `CVaRBoostClassifier`.
    estimators_ : list
        The voters in order, the first fitted with the sample weights alone.
    estimator_weights_ : ndarray of shape (T,)
        1/T for each voter. `predict_distribution` returns the fraction of votes for each label.

    Warns
    -----
    BoundNotMetWarning
        If the weighted error of the learner exceeded ½ − γ in a round.

    See Also
    --------
    WorstClassBoostClassifier : The same game over classes.

    References
    ----------
    Hazan: Introduction to Online Convex Optimization, 2022, chapter 11.
    Saito et al.: Bounding the Worst-class Error: A Boosting Approach, 2024 (as a baseline).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tailboost import OCOBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = OCOBoostClassifier(gamma=0.3, random_state=0).fit(X, y)
    >>> float(clf.score(X, y)) > 0.9
    True
    """

    _parameter_constraints: ClassVar[Constraints] = {"n_estimators": ROUNDS_OR_AUTO}

    gamma: float | str = "auto"
    n_estimators: int | str = "auto"
    eta: float | str = "theory"
    outlier_fraction: float = 0.0

    def _play(self, fit: BoostingFit) -> Cautions:
        """Play the game over rows, with votes of all rounds; warn if the learner misses its condition."""
        if fit.validation.any_given:
            raise ValueError(
                "X_val: OCO boosting takes no validation rows, because it selects nothing"
            )
        training = fit.read()
        self._named = NamedSubgroups.of("class", training.rows, self.classes_, groups=None)
        learner = fit.open(training, "train")
        units = Units.samples(training.weight)
        edge, n_rounds = edge_and_rounds(self, units)
        game = Game(
            RowStakes(units),
            Hedge(eta_for(self.eta, units.count, n_rounds), self.outlier_fraction),
            learner,
            Schedule(n_rounds, max_time=self.max_time),
            demand=Demand(0.5 - edge, required=True),
        )
        play_for_vote(self, fit, training, learner, game)
        stop = self.trace_.stop
        if stop.kind != StopKind.LEARNER:
            return []
        caution = f"{stop.text}; {self.n_iter_} of {n_rounds} rounds vote, without a bound"
        return [(caution, BoundNotMetWarning)]

    def _learner(self) -> Any:
        return learner_of(self, HistTreeClassifier)

    def _bounds(self) -> tuple[Bounds, dict[str, str]]:
        """Return the bounds of the game of Hedge, and with the published η that on wrong voters."""
        edge, n_rounds = edge_and_rounds(self, self.game_.units)
        symbols = {"γ": f"edge of the learner, {edge:.4g}"}
        promised, observed = hedge_game_bounds(
            self.game_, alpha=self.selection_.alpha, eta=self.eta, planned=n_rounds
        )
        if self.eta == "theory" and self.outlier_fraction == 0:
            vote_bound = edge_bound(
                self.game_,
                gamma=edge,
                planned=n_rounds,
                name="largest share of wrong voters on a row",
                note="below ½ the vote is right on every training row",
            )
            promised = (*promised, vote_bound)
        return (promised, observed), symbols


def edge_and_rounds(clf: OCOBoostClassifier, units: Units) -> tuple[float, int]:
    """Return γ and the largest number of rounds: stated, or by the theorem for the number of units."""
    edge = AUTO_GAMMA
    if not isinstance(clf.gamma, str):
        edge = float(clf.gamma)
    if isinstance(clf.n_estimators, str):
        return edge, theory_rounds(units.count, edge)
    return edge, int(clf.n_estimators)
