"""Boosting for the worst samples: the α-CVaR family of Zhai et al., NeurIPS 2021."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any, ClassVar, Self, cast

from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from tailboost.boosting.cross_fitting import CrossFitted, Scheme
from tailboost.boosting.game import Player, Response, Stop, StopKind, Turn, Units
from tailboost.boosting.players.corrective import EntropicLP, TotallyCorrectiveLP, entropic_theory
from tailboost.boosting.players.hedge import Hedge, eta_for
from tailboost.boosting.training_set import Problem
from tailboost.classifiers.base import Run, with_callbacks
from tailboost.classifiers.boosted_mixture import ValidatedMixtureClassifier
from tailboost.classifiers.docs import documented
from tailboost.classifiers.input import ValidationRows
from tailboost.classifiers.parameters import CONSTRAINTS, with_constructor
from tailboost.classifiers.plan import Plan, Schedule, tied_by
from tailboost.guarantees.fit_summary import (
    Bounds,
    entropic_bounds,
    hedge_game_bounds,
    mixed_by_program,
    totally_corrective_bounds,
)
from tailboost.learners.protocols import AveragingLearner
from tailboost.selection.loss_mixture import Mixture
from tailboost.selection.loss_objective import CVaR, WorstRow

# Beyond so many distinct rows a game of Hedge cross-fits in three folds: the time goes into rounds.
FIVE_FOLDS_UP_TO = 1_000
_ROUNDS = {"n_estimators": CONSTRAINTS["n_estimators"]}


@with_constructor
@documented
class CVaRBoostClassifier(ValidatedMixtureClassifier):
    """Boosting for the worst rows: a game over rows, whose hypotheses are mixed for the α-tail.

    The methods of Zhai et al. 2021 are its presets: `AdaLPBoostClassifier` (Hedge), `LPBoostClassifier` (the
    totally corrective player), `RegularizedLPBoostClassifier` (with an entropy term) and
    `AverageBoostClassifier` (Hedge, mixed evenly); each of them says what it promises.

    Parameters
    ----------
    {{estimator}}
    n_estimators : int or "auto", default=10
        Largest number of rounds T; "auto", for ``player="entropic"``, is the number of its theorem.
    {{alpha}}
    player : {"hedge", "lp", "entropic"}, default="hedge"
        Who weighs the rows: Hedge, which does not know α; the linear program over all rounds so far; or that
        program with an entropy term.
    combine : {"mixture", "average"}, default="mixture"
        Whether λ is chosen for the α-tail, or even. An even mixture is judged by the rows it was fitted on,
        all rounds of it are played, and nothing joins it.
    eta : float or "theory", default=1.0
        Learning rate of Hedge; ``"theory"`` is √(8 log n / T).
    beta : float or "theory", default=100.0
        Inverse strength of the entropy term; "theory" is that of its theorem, for ``delta``.
    delta : float in (0, 1), default=0.1
        δ, where β or T is chosen for it.
    {{validation}}
    {{include_constants … class_weight}}
    {{n_iter_no_change … verbose}}

    Attributes
    ----------
    {{classes_ … estimator_weights_}}
    beta_ : float
        β, of the entropic player.
    {{n_iter_ … summary_}}
    {{n_features_in_}}

    See Also
    --------
    WorstClassBoostClassifier : For the worst class or group instead of the worst rows.

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

    n_estimators: int | str = 10
    alpha: float = 0.5
    player: str = "hedge"
    combine: str = "mixture"
    eta: float | str = 1.0
    beta: float | str = 100.0
    delta: float = 0.1
    validation: Any = "auto"
    include_constants: bool = True
    outlier_fraction: float = 0.0
    class_weight: Any = None
    n_iter_no_change: int | None = 3
    tol: float = 1e-3

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_estimators": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    }

    @property
    def _even(self) -> bool:
        return self.combine == "average"

    @property
    def _together(self) -> bool:
        return self.player == "hedge" and not self._even

    @property
    def _five_folds_up_to(self) -> float:
        return FIVE_FOLDS_UP_TO if self.player == "hedge" else math.inf

    def _problem(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, validation: ValidationRows
    ) -> Problem:
        if self._even and validation.given:
            raise ValueError("X_val: with combine='average' there is nothing to choose on other rows")
        if self._even and self.validation not in ("auto", "train"):
            raise ValueError(f"validation={self.validation!r}: an even mixture has training losses only")
        return super()._problem(X, y, sample_weight, groups, validation)

    def _validation(self) -> Any:
        return "train" if self._even else self.validation

    def _most_rounds(self) -> int:
        if not isinstance(self.n_estimators, str):
            return int(self.n_estimators)
        if self.player != "entropic":
            raise ValueError(f"n_estimators='auto' is for player='entropic', got player={self.player!r}")
        return entropic_theory(self.alpha, self.delta)[1]

    def _schedule(self, plan: Plan) -> Schedule:
        if self._even:
            return Schedule.of(self._most_rounds(), None, 0.0, self.max_time, self.verbose)
        return super()._schedule(plan)

    def _plan(self, problem: Problem, scheme: Scheme, seed: int) -> Plan:
        units = Units.samples(problem.weight, scheme.player_rows)
        constants = self.include_constants and not self._even
        combiner = Mixture(
            WorstRow() if self._even else CVaR(self.alpha),
            problem.n_classes,
            even=self._even,
            with_constants=constants,
            runners_up=self._together and constants and problem.n_classes > 2,
            outlier_fraction=self.outlier_fraction,
        )
        return Plan(units, self._rule(units), combiner)

    def _rule(self, units: Units) -> Player[Any]:
        if self.player == "hedge":
            return Hedge(eta_for(self.eta, units.count, self._most_rounds()), self.outlier_fraction)
        if self.player == "lp":
            return TotallyCorrectiveLP(self.alpha, outlier_fraction=self.outlier_fraction)
        by_theory = isinstance(self.beta, str)
        self.beta_ = entropic_theory(self.alpha, self.delta)[0] if by_theory else float(self.beta)
        return EntropicLP(self.alpha, self.beta_, outlier_fraction=self.outlier_fraction)

    def _tied_to_rounds(self) -> str:
        return tied_by(self.eta) if self.player == "hedge" else ""

    def _respond(self, run: Run, scheme: Scheme, turn: Turn) -> Response | Stop:
        if not self._together:
            return super()._respond(run, scheme, turn)
        combiner = cast("Mixture", run.plan.combiner)
        may_end = turn.t > 1 and self.n_iter_no_change is not None
        if may_end and isinstance(scheme, CrossFitted) and isinstance(scheme.session, AveragingLearner):
            # Where there is much noise, the weights are on rows that nobody can tell.
            scheme = scheme.round(turn.u, turn.seed)
            for rows, known in scheme.looks():
                alone = scheme.accumulating is None
                answers = known if alone else combiner.pool.summed(known, rows).argmax(axis=1)
                if combiner.gains_nothing(rows, answers, self.tol):
                    words = f"round {turn.t} clearly errs more than the best member, and lowers the objective"
                    return Stop(StopKind.PLATEAU, f"{words} by no more than {self.tol:g}")
        response = super()._respond(run, scheme, turn)
        return response if isinstance(response, Stop) else combiner.pool.together(response)

    def _bounds(self) -> Bounds:
        if self.player == "lp":
            return totally_corrective_bounds(self.game_)
        if self.player == "entropic":
            return entropic_bounds(self.game_, self.delta if isinstance(self.beta, str) else None)
        alpha, combiner = self.combiner_.alpha, self.combiner_
        bounds = hedge_game_bounds(self.game_, alpha, self.eta, self._most_rounds())
        if self._even or alpha is None:  # or re-weighted for units
            return bounds
        value = combiner.value(self.estimator_weights_)
        return mixed_by_program(self.game_, combiner.pool.ledger, alpha, value, bounds)


@with_constructor
@documented
class AdaLPBoostClassifier(CVaRBoostClassifier):
    """α-AdaLPBoost: Hedge trains the hypotheses, a linear program mixes them for the α-tail.

    The weights ``w_i ∝ p_i exp(η Σ_s ℓ_i^s)`` do not depend on α, so one fit serves every α (`reweight`,
    `alpha_path`). The promise is about the randomised classifier whose label distribution is
    `predict_distribution`, not about `predict`. Where λ is chosen on the losses that drove the player
    (out-of-fold
    losses or those of training), its CVaR is at most ``V + log(1/α)/(ηT) + η/8`` there, V being the mean
    weighted loss of the rounds: `summary_` prints that bound, and none where λ was chosen on other rows.

    **Members.** Where a cross-fit decides λ, there are more than two classes and the learner is
    `HistBoostClassifier` (the default), the member of a round answers by the mean probability of the models
    of all rounds so far; it is judged by the mean of those models that left a row out. The second, third …
    likeliest class by the models of round 1 (up to the eighth) are members too: if its probabilities are
    right, the best mixture of all ranks has the least CVaR of all randomised classifiers. Other members
    answer alone.

    **Which α?** α must exceed ``error · K/(K−1)`` for a model with that error to beat the coin flip (the K
    constants mixed evenly, CVaR ``1 − 1/K`` at every α). Below it no single model beats the coin; a mixture
    may, where its members err on different rows. `summary_` says from which α on the pool beats it.

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
    {{classes_ … summary_}}
    {{n_features_in_}}

    See Also
    --------
    LPBoostClassifier : Hypotheses trained for one α.
    WorstClassBoostClassifier : For the worst class or group instead of the worst rows.

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

    n_estimators: int = 3
    player, combine, beta, delta = "hedge", "mixture", 100.0, 0.1
    _parameter_constraints = _ROUNDS


@with_constructor
@documented
class LPBoostClassifier(CVaRBoostClassifier):
    """α-LPBoost: the totally corrective player, which solves the linear program over all rounds so far.

    Its weights are the maximiser of ``min_s ⟨w, ℓ^s⟩`` under ``w_i ≤ p_i/α`` that is closest to ``p``.
    No rate of convergence is known; `RegularizedLPBoostClassifier` has one. The promise is about the
    randomised classifier whose label distribution is `predict_distribution`, not about `predict`. For the
    choice of α see `AdaLPBoostClassifier`; here the hypotheses depend on α, so `reweight` to another α keeps
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
    {{classes_ … summary_}}
    {{n_features_in_}}

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

    player, combine, eta, beta, delta = "lp", "mixture", 1.0, 100.0, 0.1
    _parameter_constraints = _ROUNDS


@with_constructor
@documented
class RegularizedLPBoostClassifier(CVaRBoostClassifier):
    """Regularised α-LPBoost: the totally corrective player with an entropy term, and with a rate.

    Training CVaR_α ≤ g + δ once ``T ≥ max{(32/δ²) log(1/α), 8/δ}`` with ``β = max{(2/δ) log(1/α), 1/2}``,
    g the largest weighted loss the learner returned; `summary_` says whether T and β are large enough.
    The promise is about the randomised classifier whose label distribution is `predict_distribution`.

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
    {{n_iter_ … summary_}}
    {{n_features_in_}}

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

    player, combine, eta = "entropic", "mixture", 1.0


@with_constructor
@documented
class AverageBoostClassifier(CVaRBoostClassifier):
    """AdaBoost + average: Hedge trains the hypotheses, their even mixture answers.

    The even mixture bounds every row's loss at once: ``max_i (1/T) Σ_t ℓ_i^t ≤ V + log(1/min p)/(ηT) + η/8``
    with V the mean weighted loss. Player and bound use training losses. If the base learner leaves almost
    none (as the default does on many data sets), the bound says nothing; `summary_` shows it.

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
    {{n_iter_ … summary_}}
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

    player, combine, alpha, beta, delta = "hedge", "average", 1.0, 100.0, 0.1
    validation, include_constants = "auto", False
    _without = ("n_iter_no_change", "tol")
    _parameter_constraints = _ROUNDS

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
