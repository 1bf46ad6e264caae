"""`tune`: selects a rule on the scores of fitted models, and other rules later, without a fit.

What `TunedClassifier` does stands in four files, one class upon the other:

    StatingClassifier       what it says of its rule: rates, certificate, text      stating.py
    AnsweringClassifier     how the rule answers rows                               answering.py
    SelectingClassifier     how a fit selects the rule                              selecting.py
    TunedClassifier         its parameters, and other rules on the same models      selected_models.py

`RobustMixtureClassifier` fits models before. All that a fit leaves is the ``evidence_``, and what is known of
labels, columns and groups.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tailboost.classifiers.curve import Curve
from tailboost.classifiers.estimators import named_models, usable
from tailboost.classifiers.fitting import frozen_fits, scored_on
from tailboost.classifiers.selecting import SelectingClassifier, compared
from tailboost.classifiers.splitting import Split
from tailboost.core import (
    Column,
    Groups,
    Model,
    Stated,
    Table,
    fitting_apart,
    unpack,
)
from tailboost.guarantees.certificates import Certificate
from tailboost.rates import Limit
from tailboost.rows import Rows, Seen
from tailboost.selection.door import known_within
from tailboost.selection.outputs import Models
from tailboost.selection.selection import Engine, Selection


def tune(
    models: Model,
    X: Table,
    y: Column,
    *,
    groups: Groups = None,
    costs: Table = None,
    objective: Stated = None,
    limits: Stated = (),
    error_budget: float | None = None,
    by_group: bool | str = False,
    infer_groups: bool = False,
    sample_weight: Column = None,
    training_rows: Table = None,
) -> TunedClassifier:
    """Select a decision rule for fitted models, for an objective within limits; no model is trained.

    Parameters
    ----------
    models : model, list or dict
        A fitted classifier, an object with ``predict_proba``, a function of the table that returns class
        probabilities, or `tailboost.Scores`, columns with the scores of an absent model. Several
        models come as a list, or as a dict by name.
    X : array-like, sparse matrix or data frame of shape (n, d)
        Selection data: rows without a part in training.
    y : array-like of shape (n,)
        Their labels.
    groups, costs, sample_weight : optional
        Of these rows, as in `RobustMixtureClassifier.fit`.
    training_rows : array-like, sparse matrix or data frame of shape (k, d), optional
        The rows on which the models were trained, without labels, or fingerprints (``records_.trained``) of a
        classifier. Selection data among them get a warning and no intervals. `certify` and `calibrate` refuse
        them, as those of a classifier of tailboost. Only fingerprints are stored.
    objective, limits, error_budget, by_group, infer_groups : optional
        As in `RobustMixtureClassifier`. Limits may be text: ``["miss(1) <= 40%"]``.

    Returns
    -------
    TunedClassifier
        Fitted, with the rates in ``rates_`` and the rule in ``rule_``.

    Raises
    ------
    ValueError, TypeError
        If an argument is not as described, or limits contradict each other.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> import tailboost as tb
    >>> from tailboost import rates
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[:300], y[:300])
    >>> clf = tb.tune(model, X[300:], y[300:], limits=[rates.miss(0) <= 0.1])
    >>> clf.limits_met_
    True
    """
    classifier = TunedClassifier(
        named_models(models),
        objective=objective,
        limits=limits,
        error_budget=error_budget,
        by_group=by_group,
        infer_groups=infer_groups,
    )
    rows = Rows.read(X, y, groups, sample_weight, costs)
    classifier._learn(rows, training_rows=training_rows).warn()
    return classifier


@parameters
class TunedClassifier(SelectingClassifier):
    """A classifier of fitted models and a rule on their scores, selected within limits on rates.

    `tune`, `calibrate` and `load_rule` return it. `fit` selects the rule on given rows and trains nothing;
    `predict` applies it. A rule on `Scores` reads its columns, and the groups, from tables with any further
    columns; of a file it has no selection data, so `reweight` needs rows, and there are no rates.

    Parameters
    ----------
    models : list of (str, model)
        The fitted models by name, as `tune` takes them.
    objective, limits, error_budget, by_group, infer_groups : optional
        As in `RobustMixtureClassifier`.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    rule_ : ThresholdRule or Rule
        The decision rule.
    rates_ : RateTable
        The rates of the objective and of the limits by subgroup, on the selection data.
    limits_met_ : bool or None
        Whether all limits are certified, or without a certificate kept on the selection data; None without
        limits.
    evidence_ : Evidence
        The rule with its certificate, and the rows that were used.
    groups_ : ndarray of shape (m,)
        Names of the groups of the fit; empty without groups.
    """

    models: Model = None

    # -- selection ---------------------------------------------------------------------------------------

    def fit(
        self,
        X: Table,
        y: Column = None,
        *,
        sample_weight: Column = None,
        groups: Groups = None,
        costs: Table = None,
        training_rows: Table = None,
    ) -> Self:
        """Select the rule on rows that no model was trained on; arguments and errors as of `tune`."""
        rows = Rows.read(X, y, groups, sample_weight, costs)
        with fitting_apart(self) as fitted:
            selection = fitted._learn(rows, training_rows=training_rows)
        selection.warn()
        return self

    def _learn(self, given: Rows, *, training_rows: Table = None) -> Selection:
        """Set all attributes of a fit, in a classifier without any, and return the selection."""
        problem = self._problem(given.names)
        models = usable(named_models(self.models), given)
        split = Split.of_given(self._training(given, problem))
        fits = frozen_fits(models, self.classes_)
        return self._learn_rule(problem, split, fits, models, training_rows)

    # -- other selections ------------------------------------------------------------------------------

    def reweight(
        self,
        X: Table = None,
        y: Column = None,
        *,
        objective: Stated = None,
        limits: Stated = None,
        groups: Groups = None,
        costs: Table = None,
        sample_weight: Column = None,
        error_budget: float | None = None,
    ) -> Self:
        """Return a classifier with the same models and another selected rule; nothing is trained.

        Parameters
        ----------
        X, y : optional
            Selection data that no model or hypothesis has read. A classifier made by `from_probabilities`
            takes a dict of the models' probabilities as X. By default the selection data of the fit.
        objective : str, rate or largest, optional
            One of "worst_class", "worst_group", "worst_cell", "error" and "deferred", or a rate. By default
            unchanged.
        limits : list of Limit, optional
            By default unchanged.
        groups : array-like of shape (n,) or table of n rows, optional
            Groups of the rows of X or, without X, of all rows in the table of the selection data.
        costs : array-like of shape (n, K), optional
            Cost of each answer in each row of X, for models.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows of X.
        error_budget : float in [0, 1], optional
            Largest overall error less that of the most accurate candidate, on the selection data: .02 allows
            .22 if the least is .20. By default unchanged.

        Returns
        -------
        classifier
            A new classifier of the same type. The original is unchanged.

        Raises
        ------
        ValueError
            If an argument is not as described.

        Warns
        -----
        BoundNotMetWarning
            Names the violated limits.
        ResubstitutionWarning
            If models were fitted on the given rows.
        """
        # `InfeasibleLimitsError.unselected` has no rule, but the evidence of its models.
        check_is_fitted(self, "evidence_")
        X, y = unpack(X, y)
        if (X is None) != (y is None):
            raise ValueError("reweight needs both X and y, or neither")
        if X is None and not (sample_weight is costs is None):
            raise ValueError("sample_weight and costs belong to rows: give X and y too")
        new = copy.copy(self)
        restated = {"objective": objective, "limits": limits, "error_budget": error_budget}
        new.set_params(**{name: value for name, value in restated.items() if value is not None})
        records = new.evidence_.records
        if X is None and groups is None:
            engine = new._engine
            problem = new._problem(engine.models.rows.names)
            engine = engine.on(problem)
        else:
            given = Rows.read(X, y, groups, sample_weight, costs)
            problem = new._problem(given.names)
            if X is None:
                models = new._in_groups(given)
            else:
                models, used = new._on_rows(given)
                records = records.using(used)  # `certify` refuses them from now on
            engine = Engine.of(problem, models, new._column_read)
        new._select(engine, problem, records, new.evidence_.identity).warn()
        return new

    @property
    def _engine(self) -> Engine:
        """The candidates on the selection data; of models without a rule too."""
        selection = self.evidence_.selection
        return selection if isinstance(selection, Engine) else self.selection_.engine

    def _in_groups(self, given: Rows) -> Models:
        """Return the models on the same selection data in other groups, which become those of the rule.

        ``given`` are the groups of all rows in the table of the selection data.
        """
        models = self._engine.models
        rows = models.rows
        if len(given) != rows.n_given:
            raise ValueError(
                f"groups has {len(given)} entries, but the selection data are {rows.words}, "
                f"from a table of {rows.n_given} rows: give one group for each of these rows"
            )
        of_rows = given.part(np.isin(given.given_numbers, rows.given_numbers)).occurring()
        self._name_groups(of_rows)
        return replace(models, rows=replace(rows, groups=of_rows.groups, names=of_rows.names))

    def _on_rows(self, given: Rows) -> tuple[Models, Seen]:
        """Return the models on other selection data, and a record of these; the rule has their groups."""
        if given.names.titles:
            self._name_groups(given)
        models, table = self._read(given.X)
        words = f"the {len(given):,} rows given to reweight"
        rows = replace(given, X=table).numbered(self.classes_, self._group_names, words)
        known_rows = []  # of these the first that is repeated is named
        trained = self.evidence_.records.trained
        if trained is not None:  # the rows of another selection may select again
            known_rows.append(trained)
        for known in known_within(models.fitted):
            known_rows += known.records.tables
        return compared(scored_on(models, rows), known_rows)

    def tradeoff(self, a: Stated = None, b: Stated = None, *, n_points: int = 9) -> Curve:
        """Return the trade-off curve of two rates, without training.

        Parameters
        ----------
        a : rate, largest, gap or ratio, optional
            The limited rate. By default that of the first limit that is none from below, and without one the
            overall error.
        b : rate or largest, optional
            The minimised rate. By default the objective or, if ``a`` is given, the overall error. If that is
            the limited rate too, the largest error of a class. If ``b`` is a gap or a ratio, it is limited
            and ``a`` is minimised.
        n_points : int, default=9
            Number of limits for which candidates are searched. The curve has one point for each undominated
            candidate.

        Returns
        -------
        Curve
            On the selection data. Its ``at(level)`` gives the classifier within a limit, ``predicted(X, y)``
            both rates on other rows.

        Raises
        ------
        ValueError
            If an argument is no rate, or a rate needs a label, groups or costs that the classifier does not
            know.
        """
        return Curve.of(self, a, b, n_points)

    def _by(self, selection: Selection) -> Self:
        """Return a copy with another selection of the same candidates, and the limits that it states."""
        new = copy.copy(self)
        new.limits = list(selection.problem.limits)
        new.evidence_ = replace(self.evidence_, selection=selection, certificate=None)
        return new

    def _certified(
        self, selection: Selection, limits: Sequence[Limit], certificate: Certificate
    ) -> Self:
        """Return a copy with a certified selection, maybe of tighter limits, which states the given ones."""
        new = self._by(selection.stated_within(limits))
        records = self.evidence_.records.using(
            *(attempt.rows for attempt in certificate.attempts)
        )
        new.evidence_ = replace(new.evidence_, records=records, certificate=certificate)
        return new


#: The name in files of the version before.
RuleClassifier = TunedClassifier
