"""Bases of the boosting classifiers: their common parameters, and the mixture of a game's candidates."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, _fit_context
from sklearn.utils import Tags, check_random_state
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.validation import check_is_fitted

from tailboost.boosting.ensemble import answers_by, draw
from tailboost.classifiers.boosted_selection import (
    summary_of,
)
from tailboost.classifiers.boosting_fit import (
    BoostingFit,
    Cautions,
    fit_classifier,
)
from tailboost.classifiers.input import CONSTRAINTS, input_tags, with_parameters
from tailboost.classifiers.judged import JudgedHypotheses, cached, rule_and_table
from tailboost.classifiers.reported import (
    ReportedClassifier,
    rates_with_verdicts,
)
from tailboost.classifiers.reselected import ReselectedClassifier
from tailboost.core.array_types import Array, Column, Floats, Groups, Ints, Model, Seed, Table
from tailboost.core.checks import check_number, n_rows_of, take, unpack
from tailboost.core.constraints import Constraints, naming_nearest
from tailboost.learners import HistBoostClassifier
from tailboost.learners.foreign import is_constant
from tailboost.learners.named import named_learner
from tailboost.rows.given import Given, refuse
from tailboost.rows.judged import judged
from tailboost.selection.summary import Bounds, Summary
from tailboost.solvers import mixture_path


@with_parameters
class BaseBoostClassifier(MetaEstimatorMixin, BaseEstimator):
    """Common parameters of the boosting classifiers, and what follows from their candidates.

    The fit of a subclass reads the rows, plays a game, and selects a rule from its candidates.

    Attributes
    ----------
    game_ : Played
        The finished game: what was weighed, the weight player, its state and the trace.
    selection_ : Mixture or AdditiveSelection
        The candidates with their answers to the selection data, and the rule that was selected.
    """

    _parameter_constraints: ClassVar[Constraints] = CONSTRAINTS

    estimator: Model = field(default=None, kw_only=False)
    class_weight: object = None
    exact_weights: bool = False
    max_time: float | None = None
    n_jobs: int | None = None
    random_state: Seed = None
    verbose: int = 0

    def _learner(self) -> Any:
        """Return the model that each round fits: ``estimator``, or boosted trees by default."""
        return learner_of(self, HistBoostClassifier)

    def _validate_params(self) -> None:
        with naming_nearest(self):
            super()._validate_params()

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Table,
        y: Column = None,
        *,
        sample_weight: Column = None,
        X_val: Table = None,
        y_val: Column = None,
        sample_weight_val: Column = None,
        **fit_params: object,
    ) -> Self:
        """Fit the hypotheses round by round and combine them.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            Training rows, in a form that the base learner accepts. NaN is allowed if the learner allows it.
        y : array-like of shape (n,)
            Class labels of any type. None takes the labels of a torch Dataset given as X.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights. Weight 2 counts the row twice; rows of weight 0 are dropped. Weights of a
            mean below 1, or above 1e9, are relative: they are scaled to mean 1.
        X_val, y_val, sample_weight_val : optional
            Held-out rows, their labels and weights. They need ``cv="auto"``. Mixture weights are
            selected on them; an additive classifier selects its number of rounds.
        **fit_params
            Metadata for the learner's ``fit``, with metadata routing enabled.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument is not as described. A fit that raises leaves the classifier as it was.
        """
        arguments = Given(*unpack(X, y), sample_weight=sample_weight)
        validation = Given(*unpack(X_val, y_val), sample_weight=sample_weight_val)
        return fit_classifier(self, arguments, validation, fit_params)

    @abstractmethod
    def _play(self, fit: BoostingFit) -> Cautions:
        """Read the rows, play a game and select from its candidates; return what to warn of."""

    # -- after fitting -------------------------------------------------------------------------------

    @property
    def feature_importances_(self) -> Floats:
        """Importance of each feature, shape (d,): mean over the hypotheses, weighted by `estimator_weights_`.

        They sum to 1, without the constants; all are 0 if constants have all the weight. The learner defines
        their meaning, such as gain or impurity.

        Raises
        ------
        AttributeError
            If a member has no ``feature_importances_``.
        """
        check_is_fitted(self)
        total = np.zeros(self.n_features_in_)
        for weight, model in zip(self.estimator_weights_, self.estimators_, strict=True):
            if not is_constant(model):
                total += weight * np.asarray(model.feature_importances_, dtype=np.float64)
        if total.any():
            return total / total.sum()
        return total

    # -- scikit-learn --------------------------------------------------------------------------------

    def get_metadata_routing(self) -> MetadataRouter:
        """Route metadata of ``fit`` to the learner; ``sample_weight`` is for this classifier."""
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        fit_to_fit = MethodMapping().add(caller="fit", callee="fit")
        return router.add(estimator=self._learner(), method_mapping=fit_to_fit)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "_results" in state:  # computed anew after loading
            state["_results"] = {}
        return state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        learner = input_tags(self._learner())
        tags.input_tags.sparse = learner.sparse
        tags.input_tags.allow_nan = learner.allow_nan
        return tags


def learner_of(clf: BaseBoostClassifier, default: Any, **params: Any) -> Any:
    """Return the base learner; ``default`` is the class of the learner for ``estimator=None``."""
    if clf.estimator is None:
        return default(n_jobs=clf.n_jobs, **params)
    if isinstance(clf.estimator, str):
        return named_learner(clf.estimator, n_jobs=clf.n_jobs)
    return clf.estimator


# -- mixtures of hypotheses -------------------------------------------------------------------------------


class MixtureClassifier(ReselectedClassifier, ReportedClassifier, BaseBoostClassifier):
    """Mixture of hypotheses with weights λ, which can be selected anew without a fit."""

    _judged_by = JudgedHypotheses
    _regrouped = False  # whether the groups are others than those of the fit

    @abstractmethod
    def _bounds(self) -> tuple[Bounds, dict[str, str]]:
        """Return the bounds of the fitted game, promised and observed, and further symbols in them."""

    # -- another selection -----------------------------------------------------------------------------

    def alpha_path(self, alphas: Sequence[float]) -> Floats:
        """Return the mixture weights λ for several α; nothing is trained.

        The classifier of one α is ``reweight(alpha=α)``.

        Parameters
        ----------
        alphas : sequence of float in (0, 1]
            Tail masses.

        Returns
        -------
        ndarray of shape (len(alphas), n_members)
            One row per α and one column per hypothesis, in the order of ``estimator_weights_``. Rows sum to
            1.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from tailboost import AdaLPBoostClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = AdaLPBoostClassifier("tree", n_estimators=5, random_state=0).fit(X, y)
        >>> path = clf.alpha_path([0.1, 0.5, 1.0])
        >>> path.shape == (3, len(clf.estimator_weights_))
        True
        >>> bool((abs(path[1] - clf.reweight(alpha=0.5).estimator_weights_) < 1e-9).all())
        True
        """
        check_is_fitted(self)
        if np.ndim(alphas) != 1 or np.size(alphas) == 0:
            raise ValueError(f"alphas={alphas!r} must be a non-empty list of numbers in (0, 1]")
        tail_masses = [check_number(alpha, "each of alphas", 0, 1) for alpha in alphas]
        pool = self.selection_.pool
        solutions = mixture_path(pool.losses, tail_masses, pool.base)
        return np.array([solution.mixture for solution in solutions])

    # -- on the selection data -----------------------------------------------------------------------

    @property
    def objective_(self) -> Any:
        """The minimised rate or CVaR."""
        return self.selection_.problem.objective

    @property
    def expected_subgroup_errors_(self) -> Floats:
        """Expected error of the randomised rule on each subgroup, on the selection data, shape (m,)."""
        judged_clf = judged(self)
        return judged_clf.error_values(judged_clf.expected_counts)

    @property
    def summary_(self) -> Summary:
        """The errors by subgroup and the objective, with comparisons; computed at the first access."""
        summary = cached(self, "summary", lambda: summary_of(self))
        if self.certificate_ is None or summary.errors is None:
            return summary
        errors = rates_with_verdicts(self, summary.errors)
        return replace(summary, certificate=self.certificate_, errors=errors)

    # -- prediction ----------------------------------------------------------------------------------

    def predict_distribution(self, X: Table, *, groups: Groups = None) -> Floats:
        """Return the label distribution of the randomised rule.

        This is the probability with which the rule draws each label. It is **not** P(y | x), which
        `predict_proba` estimates. Bounds of mixtures are about this distribution: the expected zero-one loss
        of a row is 1 minus the probability of the true label. If the rule is a single candidate, its label
        has probability 1.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`. A `RobustMixtureClassifier` also takes a dict of its models' probabilities of
            the rows; models without weight (see ``used_models_``) may be left out.
        groups : array-like of shape (n,), optional
            Group of each row, one of the groups in `fit`; needed with ``by_group=True`` alone.

        Returns
        -------
        ndarray of shape (n, K)
            Columns in the order of `classes_`; rows sum to 1.

        Raises
        ------
        ValueError
            If groups are missing, not used, or not among the groups of `fit`; if probabilities are missing.
        """
        refuse("blind rule", groups=groups)
        ensemble, X = rule_and_table(self, X)
        return ensemble.scores(X)  # ties are settled

    def predict(self, X: Table, *, groups: Groups = None) -> Array:
        """Return the most probable label of `predict_distribution`.

        The prediction is deterministic. It can differ from the label with the largest `predict_proba`,
        because the rule minimises another objective than the overall error. Probabilities that are equal
        after rounding to 1e-9 are a tie. The candidate with the least mean loss breaks a tie.

        Parameters
        ----------
        X, groups : array-like of shape (n, d), (n,)
            As in `predict_distribution`.

        Returns
        -------
        ndarray of shape (n,)
            Labels, as in `classes_`.
        """
        distribution = self.predict_distribution(X, groups=groups)
        return self.classes_[distribution.argmax(axis=1)]

    def predict_randomized(
        self: Any, X: Table, random_state: Seed = None, *, groups: Groups = None
    ) -> Array:
        """Draw a label for every row from ``predict_distribution``, for simulation studies.

        Parameters
        ----------
        X, groups : array-like of shape (n, d), (n,)
            As in `predict_distribution`.
        random_state : int, RandomState or None
            Seed of the draw.

        Returns
        -------
        ndarray of shape (n,)
            Labels, as in `classes_`.
        """
        distribution = self.predict_distribution(X, groups=groups)
        return self.classes_[draw(distribution, check_random_state(random_state))]

    def predict_with(self, X: Table, members: Any, *, groups: Groups = None) -> Array:
        """Return the label of each row by one stated candidate.

        Parameters
        ----------
        X, groups : array-like of shape (n, d), (n,)
            As in `predict_distribution`.
        members : array-like of int, shape (n,)
            The candidate of each row: an index into ``estimator_weights_``.

        Returns
        -------
        ndarray of shape (n,)
            Labels, as in `classes_`. A deferred row has the label that would be answered.

        Raises
        ------
        ValueError
            If ``members`` are not n such indices, or a candidate draws its label.
        """
        refuse("blind rule", groups=groups)
        ensemble, X = rule_and_table(self, X)
        candidates = ensemble.numbers(members, n_rows_of(X))

        def answer_rows(member: int, rows: Ints) -> Any:
            return ensemble.answer(member, take(X, rows))

        return self.classes_[answers_by(candidates, answer_rows)]

    def predict_proba(self, X: Table) -> Floats:
        """Return P(y | x): the λ-average of the class probabilities of the hypotheses, without constants.

        If constants have all the weight, the other hypotheses count equally. Hypotheses that were fitted on
        reweighted rows have the probabilities of such rows. A hypothesis without probabilities counts as 1
        for its label. `predict` need not return the most probable label.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`.

        Returns
        -------
        ndarray of shape (n, K)
            Columns in the order of `classes_`; rows sum to 1.
        """
        ensemble, X = rule_and_table(self, X)
        return ensemble.probabilities(X)

    def staged_predict_distribution(self, X: Table) -> Iterator[Floats]:
        """Yield ``predict_distribution`` after 1, 2, … rounds, each with the optimal λ of these rounds.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`.

        Yields
        ------
        ndarray of shape (n, K)
            The last array uses all hypotheses.
        """
        ensemble, X = rule_and_table(self, X)
        answers = list(ensemble.answers(X))  # of all hypotheses, once for all stages
        for n_rounds in range(1, self.n_iter_):
            yield self.selection_.stage(n_rounds).scores_of(answers)
        yield ensemble.scores_of(answers)

    def staged_predict(self, X: Table) -> Iterator[Array]:
        """Yield ``predict`` after 1, 2, … rounds, each with the optimal λ of these rounds.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`.

        Yields
        ------
        ndarray of shape (n,)
            The last array is that of ``predict``.
        """
        for distribution in self.staged_predict_distribution(X):
            yield self.classes_[distribution.argmax(axis=1)]
