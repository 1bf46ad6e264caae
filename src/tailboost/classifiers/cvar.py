"""Boosting for the worst samples: the α-CVaR family of Zhai et al., NeurIPS 2021."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar, Self

from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from tailboost._typing import Mask
from tailboost.classifiers._base import Run, with_callbacks
from tailboost.classifiers.docs import documented
from tailboost.classifiers.input import ValidationRows
from tailboost.classifiers.mixture import MixtureClassifier, ValidatedMixtureClassifier
from tailboost.classifiers.plan import Plan, Schedule, tied_by
from tailboost.combiners import CVaR, Mixture, WorstRow
from tailboost.data import Problem
from tailboost.game import Response, Rule, Stop, StopKind, Turn, Units
from tailboost.learners.protocols import Averaging
from tailboost.rules.entropic import EntropicLP, entropic_theory
from tailboost.rules.hedge import Hedge, eta_for
from tailboost.rules.lpboost import TotallyCorrectiveLP
from tailboost.statements.guarantee import (
    Bounds,
    entropic_bounds,
    hedge_game_bounds,
    mixed_by_program,
    totally_corrective_bounds,
)
from tailboost.validation import CrossFitted, Scheme

# Beyond so many distinct rows AdaLPBoost cross-fits in three folds: the time goes into rounds.
FIVE_FOLDS_UP_TO = 1_000


class _CVaRClassifier(ValidatedMixtureClassifier):
    """Games over samples whose mixture minimises the CVaR: they differ in the weight player."""

    alpha: float
    outlier_fraction: float

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ValidatedMixtureClassifier._parameter_constraints,
        "alpha": [Interval(Real, 0, 1, closed="right")],
        "outlier_fraction": [Interval(Real, 0, 1, closed="left")],
    }

    @abstractmethod
    def _rule(self, units: Units) -> Rule[Any]:
        """Return the weight player."""

    def _units(self, problem: Problem, among: Mask | None) -> Units:
        """Return the rows (of some) as the units of the game."""
        return Units.samples(problem.weight, among)

    def _plan(self, problem: Problem, scheme: Scheme, seed: int) -> Plan:
        units = self._units(problem, scheme.player_rows)
        combiner = Mixture(
            CVaR(self.alpha),
            problem.n_classes,
            with_constants=self.include_constants,
            runners_up=self._together and self.include_constants and problem.n_classes > 2,
            outlier_fraction=self.outlier_fraction,
        )
        return Plan(units, self._rule(units), combiner)

    @_fit_context(prefer_skip_nested_validation=True)
    @with_callbacks
    @documented
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        **fit_params: Any,
    ) -> Self:
        """Play the game and combine the hypotheses.

        Parameters
        ----------
        {{X}}
        {{y}}
        {{sample_weight}}
        X_val, y_val, sample_weight_val : optional
            An explicit validation set on which λ is chosen; needs ``validation="auto"``.
        {{fit_params}}

        Returns
        -------
        self

        Raises
        ------
        {{fit_raises}}
        """
        self._fit(
            X, y, sample_weight, None, ValidationRows(X_val, y_val, None, sample_weight_val), fit_params
        )
        return self


@documented
class AdaLPBoostClassifier(_CVaRClassifier):
    """α-AdaLPBoost: Hedge trains the hypotheses, a linear program mixes them for the α-tail.

    The weights ``w_i ∝ p_i exp(η Σ_s ℓ_i^s)`` do not depend on α, so one fit serves every α (`reweight`,
    `alpha_path`). The promise is about the randomised classifier whose label distribution is
    `predict_shares`, not about `predict`. Where λ is chosen on the losses that drove the player (out-of-fold
    losses or those of training), its CVaR is at most ``V + log(1/α)/(ηT) + η/8`` there, V being the mean
    weighted loss of the rounds: `guarantee_` prints that bound, and none where λ was chosen on other rows.

    **Members.** Where a cross-fit decides λ, there are more than two classes and the learner is
    `HistBoostClassifier` (the default), the member of a round answers by the mean probability of the models
    of all rounds so far; it is judged by the mean of those models that left a row out. The second, third …
    likeliest class by the models of round 1 (up to the eighth) are members too: if its probabilities are
    right, the best mixture of all ranks has the least CVaR of all randomised classifiers. Other members
    answer alone.

    **Which α?** α must exceed ``error · K/(K−1)`` for a model with that error to beat the coin flip (the K
    constants mixed evenly, CVaR ``1 − 1/K`` at every α). Below it no single model beats the coin; a mixture
    may, where its members err on different rows. `guarantee_` says from which α on the pool beats it.

    Parameters
    ----------
    {{estimator}}
    n_estimators : int, default=3
        Largest number of rounds T.
    {{alpha}}
    eta : float or "theory", default=1.0
        Learning rate of Hedge; ``"theory"`` is √(8 log n / T).
    {{validation}}
        In our trials on eleven real sets (``tailboost reproduce trials``) the mean test CVaR over seven α was
        .479 with "cv", .482 with 0.2 at about a quarter of the time, and .621 with "train". Where "auto"
        cross-fits more than 1,000 distinct rows it takes three folds.
    include_constants : bool, default=True
        Whether the K constant classifiers may enter the mixture; an even mixture of them is a coin flip. With
        them come the next likely classes (see above).
    {{outlier_fraction}}
    {{class_weight}}
    n_iter_no_change : int or None, default=3
        Stop when this many rounds together lowered the objective by no more than ``tol``; None plays all
        rounds. If not None, a cross-fit of the default learner ends before a round that, judged on the first
        fold or on all, clearly errs more than the best member and lowers the objective by no more than
        ``tol``.
    {{tol … verbose}}

    Attributes
    ----------
    {{classes_ … guarantee_}}
    {{n_features_in_}}

    See Also
    --------
    LPBoostClassifier : Hypotheses trained for one α.
    WorstClassBoostClassifier : For the worst class or group instead of the worst rows.

    References
    ----------
    Zhai, Dan, Suggala, Kolter, Ravikumar: Boosted CVaR Classification, NeurIPS 2021, Algorithm 2.

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

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 3,
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_CVaRClassifier._parameter_constraints,
        "eta": [Interval(Real, 0, None, closed="neither"), StrOptions({"theory"})],
    }

    _together: ClassVar[bool] = True

    @property
    def _five_folds_up_to(self) -> float:
        return FIVE_FOLDS_UP_TO

    def _respond(self, run: Run, scheme: Scheme, turn: Turn) -> Response | Stop:
        combiner, may_end = run.plan.combiner, turn.t > 1 and self.n_iter_no_change is not None
        assert isinstance(combiner, Mixture)
        if may_end and isinstance(scheme, CrossFitted) and isinstance(scheme.session, Averaging):
            # Where there is much noise, the weights are on rows that nobody can tell.
            for rows, known in scheme.looks(turn.u, turn.seed):
                alone = scheme.accumulating is None
                answers = known if alone else combiner.pool.summed(known, rows).argmax(axis=1)
                if combiner.gains_nothing(rows, answers, self.tol):
                    words = f"round {turn.t} clearly errs more than the best member, and lowers the objective"
                    return Stop(StopKind.PLATEAU, f"{words} by no more than {self.tol:g}")
        response = super()._respond(run, scheme, turn)
        return response if isinstance(response, Stop) else combiner.pool.together(response)

    def _rule(self, units: Units) -> Rule[Any]:
        return Hedge(eta_for(self.eta, units.count, int(self.n_estimators)), self.outlier_fraction)

    def _tied_to_rounds(self) -> str:
        return tied_by(self.eta)

    def _bounds(self) -> Bounds:
        alpha, combiner = self.objective_.alpha, self.combiner_
        bounds = hedge_game_bounds(self.game_, alpha, self.eta, int(self.n_estimators))
        if alpha is None:  # re-weighted for units
            return bounds
        value = combiner.value(self.estimator_weights_)
        return mixed_by_program(self.game_, combiner.pool.ledger, alpha, value, bounds)


@documented
class LPBoostClassifier(_CVaRClassifier):
    """α-LPBoost: the totally corrective player, which solves the linear program over all rounds so far.

    Its weights are the maximiser of ``min_s ⟨w, ℓ^s⟩`` under ``w_i ≤ p_i/α`` that is closest to ``p``.
    No rate of convergence is known; `RegularizedLPBoostClassifier` has one. The promise is about the
    randomised classifier whose label distribution is `predict_shares`, not about `predict`. For the choice
    of α see `AdaLPBoostClassifier`; here the hypotheses depend on α, so `reweight` to another α keeps
    those trained for this one.

    Parameters
    ----------
    {{estimator}}
    n_estimators : int, default=10
        Largest number of rounds T.
    {{alpha}}
    {{validation}}
    {{include_constants … class_weight}}
    {{n_iter_no_change … verbose}}

    Attributes
    ----------
    {{classes_ … guarantee_}}
    {{n_features_in_}}

    See Also
    --------
    AdaLPBoostClassifier : One fit for every α.
    RegularizedLPBoostClassifier : With an entropy term, and a rate of convergence.

    References
    ----------
    Zhai, Dan, Suggala, Kolter, Ravikumar: Boosted CVaR Classification, NeurIPS 2021, eq. 6.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tailboost import LPBoostClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = LPBoostClassifier(alpha=0.2, n_estimators=3, random_state=0).fit(X, y)
    >>> clf.predict(X[:1])
    array([0])
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
        return TotallyCorrectiveLP(self.alpha, outlier_fraction=self.outlier_fraction)

    def _bounds(self) -> Bounds:
        return totally_corrective_bounds(self.game_)


@documented
class RegularizedLPBoostClassifier(_CVaRClassifier):
    """Regularised α-LPBoost: the totally corrective player with an entropy term, and with a rate.

    Training CVaR_α ≤ g + δ once ``T ≥ max{(32/δ²) log(1/α), 8/δ}`` with ``β = max{(2/δ) log(1/α), 1/2}``,
    g the largest weighted loss the learner returned; `guarantee_` says whether T and β are large enough.
    The promise is about the randomised classifier whose label distribution is `predict_shares`.

    Parameters
    ----------
    {{estimator}}
    n_estimators : int or "auto", default=10
        Largest number of rounds T; "auto" is the T above, for ``delta``. The theorem is about all of them:
        ``n_iter_no_change=None`` plays them.
    {{alpha}}
    beta : float or "theory", default=100.0
        Inverse strength of the regularisation; large β comes close to `LPBoostClassifier`. "theory" is the β
        above, for ``delta``.
    delta : float in (0, 1), default=0.1
        δ, where β or T is chosen for it: T is 2,219 for α = ½ and δ = 0.1, and 89 for δ = ½.
    {{validation}}
    {{include_constants … class_weight}}
    {{n_iter_no_change … verbose}}

    Attributes
    ----------
    {{classes_ … estimator_weights_}}
    beta_ : float
        β.
    {{n_iter_ … guarantee_}}
    {{n_features_in_}}

    See Also
    --------
    AdaLPBoostClassifier : One fit for every α.
    LPBoostClassifier : Without the entropy term.

    References
    ----------
    Zhai, Dan, Suggala, Kolter, Ravikumar: Boosted CVaR Classification, NeurIPS 2021, eq. 8 (with the sign of
    its constraint corrected).
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

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int | str = 10,
        alpha: float = 0.5,
        beta: float | str = 100.0,
        delta: float = 0.1,
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
        self.beta = beta
        self.delta = delta
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_CVaRClassifier._parameter_constraints,
        "n_estimators": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "beta": [Interval(Real, 0, None, closed="neither"), StrOptions({"theory"})],
        "delta": [Interval(Real, 0, 1, closed="neither")],
    }

    def _rule(self, units: Units) -> Rule[Any]:
        by_theory = isinstance(self.beta, str)
        self.beta_ = entropic_theory(self.alpha, self.delta)[0] if by_theory else float(self.beta)
        return EntropicLP(self.alpha, self.beta_, outlier_fraction=self.outlier_fraction)

    def _most_rounds(self) -> int:
        if isinstance(self.n_estimators, str):
            return entropic_theory(self.alpha, self.delta)[1]
        return super()._most_rounds()

    def _bounds(self) -> Bounds:
        return entropic_bounds(self.game_, self.delta if isinstance(self.beta, str) else None)


@documented
class AverageBoostClassifier(MixtureClassifier):
    """AdaBoost + average: Hedge trains the hypotheses, their even mixture answers.

    The even mixture bounds every row's loss at once: ``max_i (1/T) Σ_t ℓ_i^t ≤ V + log(1/min p)/(ηT) + η/8``
    with V the mean weighted loss. Player and bound use training losses. If the base learner leaves almost
    none (as the default does on many data sets), the bound says nothing; `guarantee_` shows it.

    Parameters
    ----------
    {{estimator}}
    n_estimators : int, default=10
        Number of rounds T; all are played.
    eta : float or "theory", default=1.0
        Learning rate of Hedge; ``"theory"`` is √(8 log n / T).
    outlier_fraction : float in [0, 1), default=0.0
        Mass of the rows with the highest cumulative loss that is left out of the weights.
    {{class_weight}}
    {{max_time … verbose}}

    Attributes
    ----------
    {{classes_}}
    {{ensemble_}}
    estimators_ : list
        The hypotheses in order; the first is plain ERM: w = p.
    estimator_weights_ : ndarray
        λ = 1/T.
    {{n_iter_ … guarantee_}}
    {{n_features_in_}}

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MixtureClassifier._parameter_constraints,
        "eta": [Interval(Real, 0, None, closed="neither"), StrOptions({"theory"})],
        "outlier_fraction": [Interval(Real, 0, 1, closed="left")],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    @with_callbacks
    @documented
    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Play the game and average the hypotheses.

        Parameters
        ----------
        {{X}}
        {{y … fit_params}}

        Returns
        -------
        self

        Raises
        ------
        {{fit_raises}}
        """
        self._fit(X, y, sample_weight, None, ValidationRows(), fit_params)
        return self

    def _plan(self, problem: Problem, scheme: Scheme, seed: int) -> Plan:
        units = Units.samples(problem.weight, scheme.player_rows)
        rule = Hedge(eta_for(self.eta, units.count, int(self.n_estimators)), self.outlier_fraction)
        combiner = Mixture(WorstRow(), problem.n_classes, even=True, outlier_fraction=self.outlier_fraction)
        return Plan(units, rule, combiner)

    def _schedule(self, plan: Plan) -> Schedule:
        return Schedule.of(int(self.n_estimators), None, 0.0, self.max_time, self.verbose)

    def _validation(self) -> Any:
        return "train"

    def _tied_to_rounds(self) -> str:
        return tied_by(self.eta)

    def _bounds(self) -> Bounds:
        return hedge_game_bounds(self.game_, self.objective_.alpha, self.eta, int(self.n_estimators))
