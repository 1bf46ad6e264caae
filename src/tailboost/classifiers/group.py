"""Boosting for the worst group: Hedge over groups, minimax mixture of the hypotheses."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import _fit_context

from tailboost._torch_rows import unpack
from tailboost.classifiers._base import Problem, with_callbacks
from tailboost.classifiers._hedge import HedgeGame
from tailboost.combine import Objective
from tailboost.game import Units
from tailboost.validation import Scheme


def check_group_arguments(groups: Any, X_val: Any, groups_val: Any) -> None:
    """Raise where the groups of the training or of the validation rows are missing."""
    if groups is None and groups_val is not None:
        raise ValueError("groups_val was given without groups")
    if groups is not None and X_val is not None and groups_val is None:
        raise ValueError("groups and X_val were given without groups_val")


class GroupDROBoostClassifier(HedgeGame):
    """Group DRO by boosting: the player weighs groups, λ minimises the largest group error.

    Round 1 is the balanced model (every group weighs the same); plain ERM joins the pool of the mixture, and
    so do the constants. Group losses are measured on the validation rows, and drive both the player and λ.
    The promise is about the randomised classifier whose label distribution is `predict_proba`.

    Parameters
    ----------
    estimator, eta, validation, include_constants, class_weight, n_iter_no_change, tol, \
max_time, checkpoint_dir, warm_start, n_jobs, random_state, verbose
        As in `AdaLPBoostClassifier`; with ``eta="theory"`` n is the number of groups.
    n_estimators : int, default=30
        Largest number of rounds; on bank marketing the objective still fell after ten.
    combine : {"minimax", "average"}, default="minimax"
        The mixture with the least largest group error, or the even mixture of the boosted hypotheses as in
        group DRO.

    Attributes
    ----------
    groups_ : ndarray of shape (m,)
        The groups; the classes where none were given.
    classes_, estimator_weights_, n_iter_, trace_, gap_, guarantee_, n_features_in_
        As in `AdaLPBoostClassifier`; ``trace_.weights`` has the groups' weights, shape (T, m).
    estimators_ : list
        The boosted hypotheses in order, then (for "minimax") plain ERM and the constants.

    References
    ----------
    Sagawa, Koh, Hashimoto, Liang: Distributionally Robust Neural Networks, ICLR 2020 (group DRO).
    Zhai et al.: Boosted CVaR Classification, NeurIPS 2021 (the domain-aware game).
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 30,
        eta: float | str = 1.0,
        combine: str = "minimax",
        validation: Any = "auto",
        include_constants: bool = True,
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
        self.eta = eta
        self.combine = combine
        self.validation = validation
        self.include_constants = include_constants
        self.class_weight = class_weight
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.max_time = max_time
        self.checkpoint_dir = checkpoint_dir
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    @with_callbacks
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        groups_val: Any = None,
        sample_weight_val: Any = None,
        **fit_params: Any,
    ) -> Self:
        """Play the game over groups and combine the hypotheses.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            What the base learner takes.
        y : array-like of shape (n,)
            Class labels of any type; None takes those of a torch Dataset given as X.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights; 2 is the row twice, 0 drops it.
        groups : array-like of shape (n,), optional
            Group of each row; None means the classes are the groups.
        X_val, y_val, groups_val, sample_weight_val : optional
            An explicit validation set; needs ``validation="auto"``, and every group in it.
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
        X, y = unpack(X, y)
        X_val, y_val = unpack(X_val, y_val)
        check_group_arguments(groups, X_val, groups_val)
        if groups is None:
            groups, groups_val = y, None if X_val is None else y_val
        return self._fit(
            X, y, sample_weight, groups, (X_val, y_val, groups_val, sample_weight_val), fit_params
        )

    def _units(self, problem: Problem, scheme: Scheme) -> Units:
        assert problem.groups is not None
        judged = scheme.judged
        assert judged.groups is not None
        present = np.bincount(judged.groups, weights=judged.weight, minlength=len(self.groups_))
        if not present.all():
            raise ValueError(
                f"no validation row in group(s) {self.groups_[present == 0].tolist()}: use validation='cv', "
                "a larger fraction, or a validation set that has every group"
            )
        return Units.groups(problem.groups, problem.weight, judged.groups, judged.weight)

    def _objective(self) -> Objective:
        return Objective("worst_group")

    def _even_mixture(self) -> bool:
        return self.combine == "average"

    def _with_erm(self) -> bool:
        return self.combine == "minimax"
