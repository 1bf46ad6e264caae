"""Boosting for the worst samples: the α-CVaR family of Zhai et al., NeurIPS 2021."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import _fit_context

from tailboost.classifiers._base import with_callbacks
from tailboost.classifiers._hedge import HedgeGame
from tailboost.classifiers._mixture import MixtureClassifier
from tailboost.combine import Objective
from tailboost.game import Rule, Units
from tailboost.guarantee import Bound, entropic_bound
from tailboost.rules import EntropicLP, TotallyCorrectiveLP
from tailboost.solvers import minimize_cvar_mixture


class _SampleGame(MixtureClassifier):
    """Games over samples: how they are fitted."""

    @_fit_context(prefer_skip_nested_validation=True)
    @with_callbacks
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        **fit_params: Any,
    ) -> Self:
        """Play the game and combine the hypotheses.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            What the base learner takes; NaN where it takes NaN. Data frames reach it as they are.
        y : array-like of shape (n,)
            Class labels of any type; None takes those of a torch Dataset given as X.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights; 2 is the row twice, 0 drops it.
        X_val, y_val, sample_weight_val : optional
            An explicit validation set on which λ is chosen; needs ``validation="auto"``.
        **fit_params
            Metadata routed to the base learner's ``fit`` (with metadata routing enabled).

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument is not as described; nothing has been fitted then.
        """
        return self._fit(X, y, sample_weight, None, (X_val, y_val, None, sample_weight_val), fit_params)


class AdaLPBoostClassifier(HedgeGame, _SampleGame):
    """α-AdaLPBoost: Hedge trains the hypotheses, a linear program mixes them for the α-tail.

    The weights ``w_i ∝ p_i exp(η Σ_s ℓ_i^s)`` do not depend on α, so one fit serves every α (`reweight`,
    `alpha_path`). The promise is about the randomised classifier whose label distribution is
    `predict_proba`, not about `predict`.

    **Which α?** α must exceed ``error · K/(K−1)`` for a model with that error to beat the coin flip (the K
    constants mixed evenly, CVaR ``1 − 1/K`` at every α). Below it the exact optimum is a coin flip;
    `guarantee_` says so in words and from which α on the pool beats it.

    Parameters
    ----------
    estimator : classifier, optional
        The base learner, fitted on class numbers 0 … K − 1; None is `HistBoostClassifier`, a small
        gradient-boosted ensemble of binned trees.
    n_estimators : int, default=10
        Largest number of rounds T.
    alpha : float in (0, 1], default=0.5
        Tail mass: 1 is the mean loss, towards 0 the largest.
    eta : float or "theory", default=1.0
        Learning rate of Hedge; ``"theory"`` is √(8 log n / T).
    validation : {"auto", "cv", "train"} or float in (0, 1), default="auto"
        The losses that choose λ: out-of-fold losses of five-fold cross-fitting ("cv"; they drive the weights
        too), a held-out fraction (members are refitted on all rows), or the training losses ("train", the
        papers' choice for small data; a strong learner leaves none). "auto" is "cv" up to 50,000 distinct
        rows and 0.2 beyond, or the explicit validation set given to `fit`. In our trials on eleven real
        sets (`results/trials.md`) the mean test CVaR over seven α was .479 with "cv", .482 with 0.2 at
        about a quarter of the time, and .621 with "train".
    include_constants : bool, default=True
        Whether the K constant classifiers join the mixture, which makes its CVaR at most ``1 − 1/K`` on the
        rows λ is solved on.
    outlier_fraction : float in [0, 1), default=0.0
        Mass of the rows with the highest cumulative loss that is left out of the weights and of λ.
    class_weight : dict, "balanced" or None
        Factors on the sample weights; they change the distribution the guarantee is about.
    n_iter_no_change : int or None, default=3
        Stop when this many rounds together lowered the objective by less than ``tol``; None plays all. On
        most tables the first round has it all; in the same trials stopping cost less than .001 against 20
        rounds.
    tol : float, default=1e-3
        The least fall of the objective that counts.
    max_time : float or None
        Seconds after which no further round is begun.
    checkpoint_dir : path or None
        Folder for the state after each round; the same call resumes from it.
    warm_start : bool, default=False
        Whether the next `fit` on the same data adds rounds to this one.
    n_jobs : int or None
        Threads: of the default learner, or over the folds of cross-fitting for other learners.
    random_state : int, RandomState or None
        Seeds the folds and the learners.
    verbose : int, default=0
        Whether to print a line per round.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    estimators_ : list
        The boosted hypotheses in order (the first is plain ERM: w = p), then the constants.
    estimator_weights_ : ndarray
        λ, one share per member of ``estimators_``; sums to 1. Among optimal λ the one with the least mean
        loss, then with the fewest members.
    n_iter_ : int
        Rounds played.
    trace_ : Trace
        Weighted loss, effective size, seconds, solver gap and objective of every round.
    gap_ : float
        Largest optimality gap of any solve.
    guarantee_ : Guarantee
        Promised, observed, achieved; print it.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    References
    ----------
    Zhai, Dan, Suggala, Kolter, Ravikumar: Boosted CVaR Classification, NeurIPS 2021, Algorithm 2.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tailboost import AdaLPBoostClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = AdaLPBoostClassifier(alpha=0.2, random_state=0).fit(X, y)
    >>> tail = clf.reweight(alpha=0.05)
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 10,
        alpha: float = 0.5,
        eta: float | str = 1.0,
        validation: Any = "auto",
        include_constants: bool = True,
        outlier_fraction: float = 0.0,
        class_weight: Any = None,
        n_iter_no_change: int | None = 3,
        tol: float = 1e-3,
        max_time: float | None = None,
        checkpoint_dir: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.alpha = alpha
        self.eta = eta
        self.validation = validation
        self.include_constants = include_constants
        self.outlier_fraction = outlier_fraction
        self.class_weight = class_weight
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.max_time = max_time
        self.checkpoint_dir = checkpoint_dir
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _objective(self) -> Objective:
        return Objective("cvar", self.alpha)


class LPBoostClassifier(_SampleGame):
    """α-LPBoost: the totally corrective player, which solves the linear program over all rounds so far.

    Its weights are the maximiser of ``min_s ⟨w, ℓ^s⟩`` under ``w_i ≤ p_i/α`` that is closest to ``p``.
    No rate of convergence is known; `RegularizedLPBoostClassifier` has one. The promise is about the
    randomised classifier whose label distribution is `predict_proba`, not about `predict`. For the choice
    of α see `AdaLPBoostClassifier`; here the hypotheses depend on α, so `reweight` to another α keeps
    those trained for this one.

    Parameters
    ----------
    estimator, n_estimators, alpha, validation, include_constants, outlier_fraction, class_weight, \
n_iter_no_change, tol, max_time, checkpoint_dir, warm_start, n_jobs, random_state, verbose
        As in `AdaLPBoostClassifier`.

    Attributes
    ----------
    classes_, estimators_, estimator_weights_, n_iter_, trace_, gap_, guarantee_, n_features_in_
        As in `AdaLPBoostClassifier`.

    References
    ----------
    Zhai et al.: Boosted CVaR Classification, NeurIPS 2021, eq. 6.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 10,
        alpha: float = 0.5,
        validation: Any = "auto",
        include_constants: bool = True,
        outlier_fraction: float = 0.0,
        class_weight: Any = None,
        n_iter_no_change: int | None = 3,
        tol: float = 1e-3,
        max_time: float | None = None,
        checkpoint_dir: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.alpha = alpha
        self.validation = validation
        self.include_constants = include_constants
        self.outlier_fraction = outlier_fraction
        self.class_weight = class_weight
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.max_time = max_time
        self.checkpoint_dir = checkpoint_dir
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _rule(self, units: Units) -> Rule[Any]:
        return TotallyCorrectiveLP(self.alpha, self.outlier_fraction)

    def _objective(self) -> Objective:
        return Objective("cvar", self.alpha)

    def _best_on_player_losses(self) -> float:
        rule: Any = self._game.rule
        past = self._game.state
        return minimize_cvar_mixture(past.losses, rule.alpha, past.kept(self.outlier_fraction)).value

    def _bounds(self) -> tuple[tuple[Bound, ...], tuple[Bound, ...]]:
        # g bounds the mixture only once the learner finds nothing better than the mixture.
        g, best = float(self.trace_.weighted_loss.max()), self._best_on_player_losses()
        reached = best <= g
        note = "" if reached else "not reached in these rounds, and no rate of convergence is known"
        name = "CVaR_α of the best mixture on the losses that drove the player"
        return (Bound(name, "g", g if reached else None, best, note),), ()


class RegularizedLPBoostClassifier(LPBoostClassifier):
    """Regularised α-LPBoost: the totally corrective player with an entropy term, and with a rate.

    Training CVaR_α ≤ g + δ once ``T ≥ max{(32/δ²) log(1/α), 8/δ}`` with ``β = max{(2/δ) log(1/α), 1/2}``,
    g the largest weighted loss the learner returned; `guarantee_` says whether T and β are large enough.
    The promise is about the randomised classifier whose label distribution is `predict_proba`.

    Parameters
    ----------
    estimator, n_estimators, alpha, validation, include_constants, outlier_fraction, class_weight, \
n_iter_no_change, tol, max_time, checkpoint_dir, warm_start, n_jobs, random_state, verbose
        As in `AdaLPBoostClassifier`.
    beta : float, default=100.0
        Inverse strength of the regularisation; large β comes close to LPBoost.

    Attributes
    ----------
    classes_, estimators_, estimator_weights_, n_iter_, trace_, gap_, guarantee_, n_features_in_
        As in `AdaLPBoostClassifier`.

    References
    ----------
    Zhai et al.: Boosted CVaR Classification, NeurIPS 2021, eq. 8 (with the sign of its constraint corrected).
    Warmuth, Glocer, Vishwanathan: Entropy Regularized LPBoost, ALT 2008.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 10,
        alpha: float = 0.5,
        beta: float = 100.0,
        validation: Any = "auto",
        include_constants: bool = True,
        outlier_fraction: float = 0.0,
        class_weight: Any = None,
        n_iter_no_change: int | None = 3,
        tol: float = 1e-3,
        max_time: float | None = None,
        checkpoint_dir: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            estimator,
            n_estimators=n_estimators,
            alpha=alpha,
            validation=validation,
            include_constants=include_constants,
            outlier_fraction=outlier_fraction,
            class_weight=class_weight,
            n_iter_no_change=n_iter_no_change,
            tol=tol,
            max_time=max_time,
            checkpoint_dir=checkpoint_dir,
            warm_start=warm_start,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )
        self.beta = beta

    def _rule(self, units: Units) -> Rule[Any]:
        return EntropicLP(self.alpha, self.beta, self.outlier_fraction)

    def _bounds(self) -> tuple[tuple[Bound, ...], tuple[Bound, ...]]:
        rule: Any = self._game.rule
        g = float(self.trace_.weighted_loss.max())
        best = self._best_on_player_losses()
        return (entropic_bound(g, rule.alpha, rule.beta, self.n_iter_, best),), ()


class AverageBoostClassifier(HedgeGame, _SampleGame):
    """AdaBoost + average: Hedge trains the hypotheses, their even mixture answers.

    The even mixture bounds every row's loss at once: ``max_i (1/T) Σ_t ℓ_i^t ≤ V + log(1/min p)/(ηT) + η/8``
    with V the mean weighted loss. Player and bound live on training losses, so a base learner that leaves
    none (the default, on many data sets) makes the bound empty; `guarantee_` shows it.

    Parameters
    ----------
    estimator, n_estimators, eta, outlier_fraction, class_weight, max_time, checkpoint_dir, warm_start, \
n_jobs, random_state, verbose
        As in `AdaLPBoostClassifier`.

    Attributes
    ----------
    classes_, estimators_, estimator_weights_, n_iter_, trace_, gap_, guarantee_, n_features_in_
        As in `AdaLPBoostClassifier`; λ = 1/T and there are no constants.

    References
    ----------
    Zhai et al.: Boosted CVaR Classification, NeurIPS 2021, Section 3.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 10,
        eta: float | str = 1.0,
        outlier_fraction: float = 0.0,
        class_weight: Any = None,
        max_time: float | None = None,
        checkpoint_dir: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.eta = eta
        self.outlier_fraction = outlier_fraction
        self.class_weight = class_weight
        self.max_time = max_time
        self.checkpoint_dir = checkpoint_dir
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Play the game and average the hypotheses.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            What the base learner takes.
        y : array-like of shape (n,)
            Class labels of any type; None takes those of a torch Dataset given as X.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights; 2 is the row twice, 0 drops it.
        **fit_params
            Metadata routed to the base learner's ``fit`` (with metadata routing enabled).

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument is not as described; nothing has been fitted then.
        """
        return self._fit(X, y, sample_weight, None, (None, None, None, None), fit_params)

    def _objective(self) -> Objective:
        return Objective("worst_row")

    def _even_mixture(self) -> bool:
        return True
