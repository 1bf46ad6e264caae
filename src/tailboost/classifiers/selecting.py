"""A fit that selects a rule, for models that are fitted before or in this fit.

    problem = self._problem(given.names)  # what the parameters state
    training = self._training(given, problem)  # the rows, with checked labels, columns and groups
    self._learn_rule(problem, split, fits, estimators)  # scores of the rows, records, the rule

`TunedClassifier` gives it frozen models, `RobustMixtureClassifier` models that it fits in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from typing import ClassVar

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from tailboost.classifiers.answering import AnsweringClassifier
from tailboost.classifiers.fitting import Fits, scored_on, scored_out_of_fold
from tailboost.classifiers.splitting import Split
from tailboost.core import (
    Constraints,
    Hashes,
    InfeasibleLimitsError,
    ResubstitutionWarning,
    Stated,
    Table,
    check_costs,
    parameters,
    warn_user,
)
from tailboost.core.ranges import UNIT
from tailboost.guarantees.evidence import Evidence
from tailboost.rows import (
    FEWEST_TRAINED,
    SELECTED_ON,
    TRAINED_ON,
    Attempt,
    GroupNames,
    Ledger,
    Records,
    Rows,
    Seen,
    first_repeated,
    hash_rows,
    reads_groups,
)
from tailboost.selection.door import known_within
from tailboost.selection.identity import Identity, identity_of
from tailboost.selection.outputs import Models, averaging
from tailboost.selection.search import Problem, problem_of
from tailboost.selection.selection import Engine, Selection

NO_HASHES = np.zeros(0, np.uint64)  # of no row


@parameters
class SelectingClassifier(AnsweringClassifier):
    """A classifier whose fit selects its rule, on the scores of fitted models.

    Its parameters state the problem, see `RobustMixtureClassifier`.
    """

    _: KW_ONLY
    objective: Stated = None
    limits: Stated = ()
    error_budget: float | None = None
    by_group: bool | str = False
    infer_groups: bool = False

    _parameter_constraints: ClassVar[Constraints] = {
        "objective": "no_validation",  # `stated` reads both
        "limits": "no_validation",
        "error_budget": [UNIT, None],
        "by_group": ["boolean", str],
        "infer_groups": ["boolean"],
    }

    def _problem(self, groups: GroupNames) -> Problem:
        """Return objective and limits of the parameters, which are checked.

        Raise ValueError if these exclude each other, or need groups and there are none.
        """
        self._validate_params()
        problem = problem_of(self)
        if self.by_group and self.infer_groups:
            raise ValueError(
                "infer_groups=True: with by_group=True the rule reads the group, and needs no "
                "estimate of it; leave one of them out"
            )
        if not groups.titles:
            needing = [
                repr(limit.rate) for limit in problem.limits if "groups" in limit.rate.needs
            ]
            if "groups" in problem.objective.rate.needs:
                needing.append(f"objective={self.objective!r}")
            if self.by_group:
                needing.append("by_group")
            if needing:
                raise ValueError(
                    f"{needing[0]} needs groups: give groups=, with an entry for each row"
                )
        return problem

    def _training(self, given: Rows, problem: Problem) -> Rows:
        """Return the rows of a fit with checked columns, and set what the classifier learns from them.

        These are ``classes_``, its columns and, with groups, their names.

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
        check_classification_targets(np.repeat(given.classes, 2))  # not the column: it is long
        self.classes_ = given.classes
        if len(given.classes) < 2:
            raise ValueError(
                f"y holds one class only ({given.classes.tolist()[0]!r}) among the rows of positive "
                "weight; a classifier needs at least two classes"
            )
        words = f"the {len(given):,} training rows"
        if given.clusters is not None:
            words += f" of {len(np.unique(given.clusters)):,} clusters"
        if given.names.titles:
            self._name_groups(given)
            given.refuse_many_numbers(problem.columns(given.names.titles))
        costs = check_costs(given.costs, len(given), given.classes)
        return replace(given, X=X, costs=costs, words=words)

    def _name_groups(self, rows: Rows) -> None:
        """Set the names of groups, and the number of the column that the rule reads.

        Raises
        ------
        ValueError
            If ``by_group`` names no column of the groups, or is True although there are several.
        """
        names = rows.names
        self._group_names = names
        self.group_combinations_ = ()
        if len(names.titles) > 1:
            # Of the numbers that occur, shape (G, c), the names: by column, and then by combination.
            columns = zip(names.values, np.unique(rows.groups, axis=0).T, strict=True)
            by_column = [values[numbers].tolist() for values, numbers in columns]
            self.group_combinations_ = tuple(zip(*by_column, strict=True))
        self._column_read = None
        if not self.by_group:
            return
        read = [j for j, title in enumerate(names.titles) if reads_groups(self.by_group, title)]
        if len(read) != 1:
            named = [f"by_group={title!r}" for title in names.titles if isinstance(title, str)]
            choices = " or ".join(named) or "columns with names in a dict, and one name here"
            raise ValueError(
                f"by_group={self.by_group!r} names no single one of the columns of groups: give {choices}"
            )
        (self._column_read,) = read

    def _learn_rule(
        self,
        problem: Problem,
        split: Split,
        fits: Fits,
        estimators: Sequence[object],
        training_rows: Table = None,
        trained: Hashes = NO_HASHES,
    ) -> Selection:
        """Select the rule on the scores of fitted models, and record the rows that they and it have read.

        Parameters
        ----------
        problem : Problem
            The objective within limits.
        split : Split
            The selection data, and the parts that were held out.
        fits : mapping of str to list of Fit
            The fits of each model by name; the last one answers.
        estimators : sequence of pairs of a name and a model
            The models as the caller gave them, which may have read rows before.
        training_rows : table, optional
            Rows on which the models were trained before.
        trained : ndarray of shape (k,), optional
            Hashes of the rows of the fits.
        """
        # 1. The last fit of each model answers.
        final = [of_model[-1] for of_model in fits.values()]
        models = Models(
            [*fits],
            len(self.classes_),
            [fit.model for fit in final],
            [fit.columns for fit in final],
        )
        if self.infer_groups and models.columns_read:
            raise ValueError(
                "infer_groups=True: scores have no other columns from which a group could be "
                "estimated; give the model and its features, or leave infer_groups out"
            )

        # 2. Score the selection data. Models that change as they answer have no digest.
        identity = identity_of(models.fitted)
        if split.parts:
            models = scored_out_of_fold(models, split, fits)
        else:
            models = scored_on(models, split.selecting)
        identity = identity.after_answers(identity_of(models.fitted), ", ".join(models.names))

        # 3. Record what the models have read: rows of models inside them, named rows, rows of these fits.
        complete = True
        attempts: dict[str, Attempt] = {}
        known_rows: list[Seen] = []
        for known in known_within(estimators):
            complete &= known.records.complete
            attempts |= {attempt.key: attempt for attempt in known.records.ledger.attempts}
            known_rows += known.records.tables
        named = NO_HASHES
        if training_rows is not None:  # after the models, which refuse an X with other columns
            named = hash_rows(self._checked(training_rows, "training_rows"), rounded=True)
            complete |= len(named) >= FEWEST_TRAINED * (split.selecting.n_given or 0)

        # 4. The selection data must not be among them. Held-out rows are rows of these fits: they may be, and
        # the records have them already.
        forbidden = [named] if split.parts else [named, trained]
        known_rows += [Seen.of(hashes) for hashes in forbidden if len(hashes)]
        models, used = compared(models, known_rows)
        read = np.concatenate([named, trained])
        records = Records(
            Seen.of(read, TRAINED_ON) if len(read) else None,
            complete,
            () if split.parts else (used,),
            Ledger(tuple(attempts.values())),
        )

        # 5. Select the rule among all on the average of the models.
        engine = Engine.of(problem, averaging(models), self._column_read)
        return self._select(engine, problem, records, identity)

    def _select(
        self, engine: Engine, problem: Problem, records: Records, identity: Identity
    ) -> Selection:
        """Select the rule of a problem: only this step makes a fitted classifier.

        ``records`` and ``identity`` are those of the models. An error for contradicting limits keeps these.
        """
        try:
            selection = engine.select(problem)
        except InfeasibleLimitsError as failure:
            self.evidence_ = Evidence(engine, records, identity=identity)
            failure.unselected = self
            failure.add_note(
                "The models are kept in the attribute unselected of this error: its reweight(limits=[...]) "
                "trains nothing. After the error sys.last_value holds it."
            )
            raise
        self.evidence_ = Evidence(selection, records, identity=identity)
        return selection


def compared(models: Models, known: Sequence[Seen]) -> tuple[Models, Seen]:
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
            share = 100 * given.share_in(repeated)
            words = f"{rows.words}, {share:.3g}% of which equal training rows"
            warn_user(
                f"{words}, where models have smaller errors than on fresh rows: give rows that "
                "were not given to fit (if features take so few values that fresh rows equal "
                "training rows, ignore this warning)",
                ResubstitutionWarning,
            )
            models = replace(models, rows=replace(rows, words=words, fitted=True))
    return models, Seen.of(hashes, SELECTED_ON, rows, models.score_labels)
