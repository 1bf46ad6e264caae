"""`tune` selects a rule on the scores of fitted models, and its classifier others later; nothing is trained.

    problem = self._stated(given)  # what the parameters state
    training = self._training(given)  # the rows, with checked labels, columns and costs
    self._learn_rule(problem, given, split, fits, stated)  # scores, records, the rule

`RobustMixtureClassifier` fits models before the last step. Only `fit` and `reweight` read parameters: what a
rule says and answers follows from its evidence, see answering.py.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from itertools import chain
from typing import ClassVar, Self

import numpy as np

from tailboost.classifiers.answering import AnsweringClassifier
from tailboost.classifiers.curve import Curve
from tailboost.classifiers.estimators import named_models, usable
from tailboost.classifiers.fitting import Fits, frozen_fits, scored, scored_on
from tailboost.classifiers.problems import problem_of
from tailboost.classifiers.splitting import Split
from tailboost.core import (
    Column,
    Constraints,
    Groups,
    Hashes,
    InfeasibleLimitsError,
    Model,
    ResubstitutionWarning,
    Stated,
    Table,
    as_frame,
    check_costs,
    fitting_apart,
    parameters,
    unpack,
    warn_user,
)
from tailboost.core.ranges import UNIT
from tailboost.guarantees.certificates import Certificate
from tailboost.guarantees.evidence import Evidence
from tailboost.learners.table import check_classes
from tailboost.rows import (
    FEWEST_TRAINED,
    NO_HASHES,
    SELECTED_ON,
    TRAINED_ON,
    Ledger,
    Records,
    Rows,
    Seen,
    first_repeated,
    hash_rows,
)
from tailboost.selection.door import known_within
from tailboost.selection.identity import Identity
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
        "objective": "no_validation",  # `problem_of` reads both
        "limits": "no_validation",
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

    def _learn(self, given: Rows, *, training_rows: Table) -> Selection:
        """Set all attributes of a fit, in a classifier without any, and return the selection."""
        problem = self._stated(given)
        split = Split("frozen", self._training(given))
        stated = self._stated_rows(training_rows)
        fits = frozen_fits(usable(named_models(self.models), given), given.classes)
        return self._learn_rule(problem, given, split, fits, stated)

    def _stated(self, rows: Rows) -> Problem:
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

    def _training(self, given: Rows) -> Rows:
        """Return the rows of a fit with checked columns, and set those of X.

        Raises
        ------
        ValueError
            If labels are missing or of one class.
        """
        if given.y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        X = self._checked(given.X, reset=True)
        check_classes(given.classes)
        return replace(
            given,
            X=X,
            costs=check_costs(given.costs, len(given), given.classes),
            words=f"the {len(given):,} given rows (no model was fitted on them, as stated)",
        )

    def _stated_rows(self, training_rows: Table) -> Hashes:
        """Return the hashes of the rows on which the models were trained, as stated."""
        if training_rows is None:
            return NO_HASHES
        return hash_rows(self._checked(as_frame(training_rows), "training_rows"), rounded=True)

    def _learn_rule(
        self, problem: Problem, given: Rows, split: Split, fits: Fits, stated: Hashes
    ) -> Selection:
        """Select the rule of a fit on given rows, and record the rows that the models and it have read.

        ``split`` has the selection data and the held-out parts; models were trained on rows with the hashes
        ``stated`` before.
        """
        # 1. Score the selection data.
        models, identity = scored(split, fits)

        # 2. Mark them if the models have read them before: as stated, in these fits, or inside the models.
        trained = np.concatenate([stated, fits.rows])
        inside = [known.records for known in known_within(fits.estimators)]
        read_before = [*chain.from_iterable(records.tables for records in inside)]
        # Held-out rows are rows of these fits by intention.
        outside = stated if split.parts else trained
        if len(outside):
            read_before.append(Seen.of(outside))
        models, selected_on = noticing_known(models, read_before)

        # 3. Record all that they have read. Of frozen models enough stated rows are taken for all.
        enough = FEWEST_TRAINED * (split.selecting.n_given or 0)
        attempts = chain.from_iterable(records.ledger.attempts for records in inside)
        records = Records(
            Seen.of(trained, TRAINED_ON) if len(trained) else None,
            all(each.complete for each in inside) or 0 < enough <= len(stated),
            (selected_on,),
            Ledger(tuple(attempts)),
        )

        # 4. Select the rule among all on the average of the models.
        return self._select(problem, given, averaging(models), records, identity)

    def _select(
        self,
        problem: Problem,
        given: Rows,
        models: Models,
        records: Records,
        identity: Identity,
        engine: Engine | None = None,
    ) -> Selection:
        """Select the rule of a problem: only this step makes a fitted classifier.

        The problem is stated for the ``given`` rows, whose combinations of groups the classifier knows.
        ``records`` and ``identity`` are those of the models. An error for contradicting limits keeps these.
        ``engine`` has candidates of these models, which serve again if they read the same column of groups.
        """
        if self.infer_groups and models.columns_read:
            raise ValueError(
                "infer_groups=True: scores have no other columns from which a group could be "
                "estimated; give the model and its features, or leave infer_groups out"
            )
        column = models.rows.names.column_read(self.by_group)
        if engine is None or engine.column_read != column:
            engine = Engine.of(problem, models, column)
        else:
            engine = engine.on(problem)
        self.classes_ = models.rows.classes
        self.group_combinations_ = ()
        if len(given.names.titles) > 1:
            occurring = replace(given, groups=np.unique(given.groups, axis=0)).columns.values()
            self.group_combinations_ = tuple(
                zip(*map(np.ndarray.tolist, occurring), strict=True)
            )
        self.evidence_ = Evidence(None, records, identity=identity, engine=engine)
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
    ) -> Self:
        """Return the classifier of a rule of a file; raise `ChangedError` for another's certificate."""
        problem = selection.problem
        classifier = cls(
            selection.models.columns_read,
            objective=problem.objective,
            limits=[*problem.limits],
            by_group=by_group or False,
        )
        classifier.classes_ = selection.models.rows.classes
        classifier.evidence_ = Evidence(selection, records, certificate)
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
            Cost of each answer in each row of X, for models.
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
        models = self._models
        X, y = unpack(X, y)
        if (X is None) != (y is None):
            raise ValueError("reweight needs both X and y, or neither")
        if X is None and not (sample_weight is costs is None):
            raise ValueError("sample_weight and costs belong to rows: give X and y too")
        new = copy.copy(self)
        if objective is not None:
            new.objective = objective
        if limits is not None:
            new.limits = limits
        if error_budget is not None:
            new.error_budget = error_budget
        records = self.records_
        engine = None
        if X is not None:
            given = Rows.read(X, y, groups, sample_weight, costs)
            problem = new._stated(given)
            models, table = self._read(given.X)
            words = f"the {len(given):,} rows given to reweight"
            if models.read_stacked and models.fitted:  # probabilities in place of features
                words += " (no model was fitted on them, as stated)"
            rows = replace(given, X=table).numbered(self.classes_, given.names, words)
            # The rows of another selection of this classifier may select again.
            known = replace(records, used=()).tables
            for each in known_within(models.fitted):
                known += each.records.tables
            models, selected_on = noticing_known(scored_on(models, rows), known)
            records = records.using(selected_on)  # `certify` refuses them from now on
            new.validation_ = "reweight"
        else:
            engine = self.evidence_.engine or self.selection_.engine
            if groups is not None:
                models = in_groups(models, Rows.read(groups=groups))
                engine = None
            given = models.rows
            problem = new._stated(given)
        new._select(problem, given, models, records, self.evidence_.identity, engine).warn()
        return new

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

    def _by(self, selection: Selection, certificate: Certificate | None = None) -> Self:
        """Return a copy with another selection of the same candidates, and the limits that it states."""
        new = copy.copy(self)
        new.limits = list(selection.problem.limits)
        records = self.records_
        if certificate:
            records = records.using(*(attempt.rows for attempt in certificate.attempts))
        new.evidence_ = Evidence(selection, records, certificate, self.evidence_.identity)
        return new


def in_groups(models: Models, given: Rows) -> Models:
    """Return models on the same selection data in other groups: those of all rows in their table."""
    rows = models.rows
    if len(given) != rows.n_given:
        raise ValueError(
            f"groups has {len(given)} entries, but the selection data are {rows.words}, "
            f"from a table of {rows.n_given} rows: give one group for each of these rows"
        )
    of_rows = given.part(np.isin(given.given_numbers, rows.given_numbers)).occurring()
    return replace(models, rows=replace(rows, groups=of_rows.groups, names=of_rows.names))


def noticing_known(models: Models, known: Sequence[Seen]) -> tuple[Models, Seen]:
    """Return models, and a record of the rows of their selection.

    If these repeat known rows, warn and mark them as fitted on.
    """
    rows = models.rows
    hashes = models.row_hashes(rows.X)
    if known:
        # Known rows of fits are whole tables, and not the scores alone.
        given = Seen.of(hash_rows(rows.X, rounded=True) if models.columns_read else hashes)
        repeated = first_repeated(given, known)
        if repeated is not None:
            words = f"{rows.words}, {100 * given.share_in(repeated):.3g}% of which equal training rows"
            warn_user(
                f"{words}, where models have smaller errors than on fresh rows: give rows that "
                "were not given to fit (if features take so few values that fresh rows equal "
                "training rows, ignore this warning)",
                ResubstitutionWarning,
            )
            models = replace(models, rows=replace(rows, words=words, fitted=True))
    return models, Seen.of(hashes, SELECTED_ON, rows, models.score_labels)


#: The name in files of the version before.
RuleClassifier = TunedClassifier
