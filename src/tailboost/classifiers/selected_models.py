"""`tune` selects a rule on the scores of fitted models, and its classifier others later; nothing is trained.

`TunedClassifier._learn` is a fit from its first step to the last, which sets the evidence of the classifier;
`RobustMixtureClassifier` has another step for its models. Only `fit` and `reweight` read parameters: what a
rule says and answers follows from its evidence, see answering.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import KW_ONLY, replace
from typing import ClassVar, Self

import numpy as np

from tailboost.classifiers.answering import AnsweringClassifier
from tailboost.classifiers.curve import Curve
from tailboost.classifiers.estimators import named_models, usable
from tailboost.classifiers.evidence import Evidence
from tailboost.classifiers.fitting import Fits, frozen_fits, scored, scored_on
from tailboost.classifiers.problems import problem_of
from tailboost.classifiers.splitting import Split
from tailboost.core import (
    Column,
    Constraints,
    Groups,
    InfeasibleLimitsError,
    Model,
    Names,
    ResubstitutionWarning,
    Stated,
    Table,
    as_frame,
    check_costs,
    check_length,
    fitting_apart,
    parameters,
    unpack,
    warn_user,
)
from tailboost.core.ranges import UNIT
from tailboost.guarantees.certificates import Certificate
from tailboost.learners.base import check_classes
from tailboost.rows import (
    FEWEST_TRAINED,
    NO_HASHES,
    SELECTED_ON,
    TRAINED_ON,
    Attempt,
    Ledger,
    Records,
    Rows,
    Seen,
    first_repeated,
)
from tailboost.selection.door import known_within
from tailboost.selection.outputs import Models, averaging
from tailboost.selection.search import Problem
from tailboost.selection.selection import Engine, Selection, StoredSelection


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
        The rows on which the models were trained, without labels. Selection data among them get a warning and
        no intervals. `certify` and `calibrate` refuse them, as those of a classifier of tailboost. Only
        fingerprints are stored.
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
    return TunedClassifier(
        named_models(models),
        objective=objective,
        limits=limits,
        error_budget=error_budget,
        by_group=by_group,
        infer_groups=infer_groups,
    ).fit(
        X,
        y,
        sample_weight=sample_weight,
        groups=groups,
        costs=costs,
        training_rows=training_rows,
    )


@parameters
class TunedClassifier(AnsweringClassifier):
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
    _: KW_ONLY
    objective: Stated = None
    limits: Stated = ()
    error_budget: float | None = None
    by_group: bool | str = False
    infer_groups: bool = False

    _parameter_constraints: ClassVar[Constraints] = {
        # `problem_of` reads the others.
        "error_budget": [UNIT, None],
        "by_group": ["boolean", str],
        "infer_groups": ["boolean"],
    }

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

    def _learn(
        self, given: Rows, *, training_rows: Table, validation: Rows | None = None
    ) -> Selection:
        """Return the selection of a fit, and set all attributes of this classifier, which has none yet.

        Errors for parameters, models or rows are raised before any model is fitted.
        """
        # 1. The problem, and the rows with checked labels, columns and costs.
        problem = self._problem(given)
        if given.y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        check_classes(given.classes)
        training = replace(
            given,
            X=self._checked(given.X, reset=True),
            costs=check_costs(given.costs, len(given), given.classes),
            words=f"the {len(given):,} given rows (no model was fitted on them, as stated)",
        )
        if training_rows is not None:
            training_rows = self._checked(as_frame(training_rows), "training_rows")

        # 2. The models, and their scores of the rows that select.
        split, fits = self._fits(problem, training, validation)
        models, identity = scored(split, fits)

        # 3. Compare these rows with all that the models have read: before, as is stated, now, or inside them.
        earlier = NO_HASHES if training_rows is None else models.row_hashes(training_rows)
        trained = np.concatenate([earlier, fits.rows])
        inner = [each.records for each in known_within(fits.estimators)]
        known: list[Seen] = []
        attempts: list[Attempt] = []
        for each in inner:
            known += each.tables
            attempts += each.ledger.attempts
        # Held-out rows are rows of these fits by intention.
        not_held_out = earlier if split.parts else trained
        if len(not_held_out):
            known.append(Seen.of(not_held_out))
        models = noticing_known(models, known)

        # 4. Record them. Of frozen models enough stated rows are taken for all.
        records = Records(
            Seen.of(trained, TRAINED_ON) if len(trained) else None,
            all(each.complete for each in inner)
            or len(earlier) >= FEWEST_TRAINED * len(split.selecting),
            (selecting_rows(models),),
            Ledger(tuple(attempts)),
        )

        # 5. Select the rule among all on the average of the models.
        evidence = Evidence(records, identity=identity, validation=split.scheme)
        return self._select(problem, given, averaging(models), evidence)

    def _fits(
        self, problem: Problem, training: Rows, validation: Rows | None
    ) -> tuple[Split, Fits]:
        """Return the rows that select the rule, and the fits of the models: here the models as they are.

        ``training`` are the given rows, with checked columns, and ``validation`` are those of ``X_val``.
        """
        fits = frozen_fits(
            usable(named_models(self.models), training, "models"), training.classes
        )
        return Split("frozen", training), fits

    def _problem(self, rows: Rows) -> Problem:
        """Return the problem that the parameters state for rows with their groups.

        Raise ValueError or TypeError as `problem_of`, or if ``by_group`` names no column of the groups, or is
        True although there are several; if a column that a rate or the rule reads has many numbers with few
        rows each.
        """
        self._validate_params()
        names = rows.names
        problem = problem_of(
            self.objective,
            self.limits,
            names,
            self.by_group,
            self.infer_groups,
            self.error_budget,
        )
        rows.refuse_many_numbers(
            problem.columns(names.titles, names.column_read(self.by_group))
        )
        return problem

    def _select(
        self, problem: Problem, given: Rows, models: Models, evidence: Evidence
    ) -> Selection:
        """Select the rule of a problem on models, and set the evidence: only this makes a fitted classifier.

        The combinations of groups are those of the ``given`` rows. ``evidence`` is what was known before. Its
        candidates serve again if they are of these models, and read the same column of groups. If the limits
        contradict each other, the classifier has evidence without a rule.
        """
        if self.infer_groups and models.columns_read:
            raise ValueError(
                "infer_groups=True: scores have no other columns from which a group could be "
                "estimated; give the model and its features, or leave infer_groups out"
            )
        column = models.rows.names.column_read(self.by_group)
        engine = evidence.engine
        if engine and engine.models is models and engine.column_read == column:
            engine = engine.on(problem)
        else:
            engine = Engine.of(problem, models, column)
        combinations: tuple[Names, ...] = ()
        if len(given.names.titles) > 1:
            occurring = replace(given, groups=np.unique(given.groups, axis=0)).columns.values()
            combinations = tuple(zip(*map(np.ndarray.tolist, occurring), strict=True))
        self.evidence_ = replace(
            evidence, selection=None, certificate=None, engine=engine, combinations=combinations
        )
        try:
            selection = engine.select(problem)
        except InfeasibleLimitsError as failure:
            failure.unselected = self
            failure.add_note(
                "The models are kept in the attribute unselected of this error: its "
                "reweight(limits=[...]) trains nothing. After the error sys.last_value holds it."
            )
            raise
        self.evidence_ = replace(self.evidence_, selection=selection, engine=None)
        return selection

    @classmethod
    def of_stored(
        cls,
        selection: StoredSelection,
        by_group: str | None,
        records: Records,
        certificate: Certificate | None,
        combinations: tuple[Names, ...],
    ) -> Self:
        """Return the classifier of a rule of a file; raise `ChangedError` for another's certificate."""
        problem = selection.problem
        classifier = cls(
            selection.models.columns_read,
            objective=problem.objective,
            limits=[*problem.limits],
            by_group=by_group or False,
        )
        classifier.evidence_ = Evidence(
            records, selection, certificate, combinations=combinations
        )
        classifier.evidence_.refuse_changed()
        return classifier

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
        """Return a classifier with the same models, which are not trained, and another selected rule.

        With ``infer_groups`` other groups than before are estimated from the probabilities of the models,
        because the features are not kept.

        Parameters
        ----------
        X, y : optional
            Selection data that no model or hypothesis has read. A classifier made by `from_probabilities`
            takes a dict of the models' probabilities as X. By default the selection data of the fit.
        objective : str, rate or largest, optional
            One of "worst_class", "worst_group", "worst_cell", "error" and "deferred", or a rate. By default
            the parameter.
        limits : list of Limit, optional
            By default the parameter.
        groups : array-like of shape (n,) or table of n rows, optional
            Groups of the rows of X or, without X, of all rows in the table of the selection data.
        costs : array-like of shape (n, K), optional
            Cost of each answer in each row of X.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows of X.
        error_budget : float in [0, 1], optional
            Largest overall error less that of the most accurate candidate, on the selection data: .02 allows
            .22 if the least is .20. By default the parameter.

        Returns
        -------
        classifier
            A new classifier of the same type. The original is unchanged.

        Raises
        ------
        ValueError, TypeError
            If an argument is not as described, or limits contradict each other.

        Warns
        -----
        BoundNotMetWarning
            Names the violated limits.
        ResubstitutionWarning
            If models were fitted on the given rows.
        """
        # `InfeasibleLimitsError.unselected` has no rule, but the evidence of its models.
        evidence = self._evidence
        models = evidence.models
        X, y = unpack(X, y)
        has_rows = X is not None and y is not None
        if not has_rows and any(each is not None for each in (X, y, sample_weight, costs)):
            raise ValueError(
                "reweight needs both X and y, or neither; sample_weight and costs belong to them"
            )
        new = copy(self)
        if objective is not None:
            new.objective = objective
        if limits is not None:
            new.limits = limits
        if error_budget is not None:
            new.error_budget = error_budget
        if has_rows:
            given = Rows.read(X, y, groups, sample_weight, costs)
            problem = new._problem(given)
            models, table = self._read(given.X)
            words = f"the {len(given):,} rows given to reweight"
            if models.read_stacked and models.fitted:  # probabilities in place of features
                words += " (no model was fitted on them, as stated)"
            rows = replace(given, X=table).numbered(self.classes_, given.names, words)
            # The rows of another selection of this classifier may select again.
            known = [each for each in evidence.records.tables if each.use == TRAINED_ON]
            for each in known_within(models.fitted):
                known += each.records.tables
            models = noticing_known(scored_on(models, rows), known)
            # `certify` refuses them from now on.
            records = evidence.records.using(selecting_rows(models))
            evidence = replace(evidence, records=records, validation="reweight")
        else:
            evidence = replace(evidence, engine=evidence.engine or self.selection_.engine)
            rows = models.rows
            if groups is not None:
                whole = Rows.read(groups=groups)
                check_length(whole, "groups", rows.n_given or 0, f"the table of {rows.words}")
                part = whole.part(np.isin(whole.given_numbers, rows.given_numbers)).occurring()
                models = replace(
                    models, rows=replace(rows, groups=part.groups, names=part.names)
                )
            problem = new._problem(models.rows)
        new._select(problem, models.rows, models, evidence).warn()
        return new

    def tradeoff(self, a: Stated = None, b: Stated = None, *, n_points: int = 9) -> Curve:
        """Return the trade-off curve of two rates, without training.

        Parameters
        ----------
        a : rate, largest, gap or ratio, optional
            The limited rate. By default that of the first limit from above, gap or ratio that is not on the
            minimised rate; without one the overall error.
        b : rate, largest, gap or ratio, optional
            The minimised rate. By default the objective or, if ``a`` is given, the overall error. If that is
            the limited rate too, the largest error of a class. If ``b`` is a gap or a ratio, it is limited
            and ``a`` is minimised.
        n_points : int, default=9
            Number of limits for which candidates are searched. The curve has one point for each undominated
            candidate.

        Returns
        -------
        Curve
            On the selection data, within the classifier's limits on other rates. Its ``at(level)`` gives the
            classifier within a limit, ``predicted(X, y)`` both rates on other rows.

        Raises
        ------
        ValueError
            If an argument is no rate, or a rate needs a label, groups or costs that the classifier does not
            know.
        """
        return Curve.of(self, a, b, n_points)

    def _answering_by(
        self,
        selection: Selection,
        certificate: Certificate | None = None,
        records: Records | None = None,
    ) -> Self:
        """Return a copy with another selection of the same candidates, and the limits that it states.

        By default it has the same records.
        """
        new = copy(self)
        new.limits = list(selection.problem.limits)
        new.evidence_ = replace(
            self.evidence_,
            selection=selection,
            certificate=certificate,
            records=records or self.records_,
        )
        return new


def noticing_known(models: Models, known: Sequence[Seen]) -> Models:
    """Return models; if the rows of their selection repeat known rows, warn and mark them as fitted on."""
    if not known:
        return models
    rows = models.rows
    given = Seen.of(models.row_hashes(rows.X))
    repeated = first_repeated(given, known)
    if repeated is None:
        return models
    words = f"{rows.words}, {100 * given.share_in(repeated):.3g}% of which equal training rows"
    warn_user(
        f"{words}, where models have smaller errors than on fresh rows: give rows that "
        "were not given to fit (if features take so few values that fresh rows equal "
        "training rows, ignore this warning)",
        ResubstitutionWarning,
    )
    return replace(models, rows=replace(rows, words=words, fitted=True))


def selecting_rows(models: Models) -> Seen:
    """Return a record of the rows of the selection of models."""
    rows = models.rows
    return Seen.of(models.row_hashes(rows.X), SELECTED_ON, rows.has_column(models.score_labels))
