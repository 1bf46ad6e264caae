"""`tune`: selects a rule on the scores of fitted models; nothing is trained.

What `TunedClassifier` does beside its `fit` stands in two other files, one class upon the other:

    AnsweringClassifier     what it says of its rule, and how this answers rows     answering.py
    SelectingClassifier     how a fit selects the rule, and others later            selecting.py

`RobustMixtureClassifier` fits models before.
"""

from __future__ import annotations

from typing import Self

from tailboost.classifiers.estimators import named_models, usable
from tailboost.classifiers.fitting import frozen_fits
from tailboost.classifiers.selecting import SelectingClassifier
from tailboost.classifiers.splitting import Split
from tailboost.core import (
    Column,
    Groups,
    Model,
    Stated,
    Table,
    fitting_apart,
    parameters,
)
from tailboost.rows import Rows
from tailboost.selection.selection import Selection


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


#: The name in files of the version before.
RuleClassifier = TunedClassifier
