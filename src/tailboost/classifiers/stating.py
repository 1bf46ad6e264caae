"""What a classifier says of its rule, and what it rests on: models, rates, rows and a certificate."""

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import Any

from sklearn.utils import Bunch, estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from tailboost.core import Array, Label, Labels, Model, Stated
from tailboost.guarantees.certificates import Certificate
from tailboost.guarantees.evidence import Evidence
from tailboost.learners.scores import OfAnyTable, Scores
from tailboost.rates import Statistic, error
from tailboost.rows import NO_GROUPS, GroupNames, Ledger, Records, Seen
from tailboost.selection.outputs import Models
from tailboost.selection.rule import Rule, ThresholdRule
from tailboost.selection.selection import Engine, Selection, StoredSelection
from tailboost.selection.table import RateTable


class StatingClassifier(OfAnyTable):
    """A classifier that states its selected rule: all that it says follows from its evidence."""

    limits: Stated
    by_group: bool | str
    classes_: Labels
    evidence_: Evidence
    group_combinations_: Sequence[tuple[Label, ...]] = ()
    _group_names: GroupNames = NO_GROUPS
    # Number of the column of groups that the rule reads; None for a group-blind rule.
    _column_read: int | None = None

    def __sklearn_is_fitted__(self) -> bool:
        evidence = vars(self).get("evidence_")
        return evidence is not None and not isinstance(evidence.selection, Engine)

    @property
    def _selected(self) -> Selection | StoredSelection:
        """The rule; NotFittedError without one."""
        check_is_fitted(self)
        return self.evidence_.selected

    @property
    def _models(self) -> Models:
        """The models; also after a fit in which no rule keeps the limits."""
        return self.evidence_.selection.models

    def _record(self, rows: Seen) -> None:
        """Record that the rule was seen on rows: they are no fresh rows of it."""
        self.evidence_ = replace(self.evidence_, records=self.records_.using(rows))

    # -- the rule and its rates ------------------------------------------------------------------------

    @property
    def rule_(self) -> Rule | ThresholdRule:
        """The decision rule: thresholds on one score or P(second class), otherwise costs on probabilities."""
        return self._selected.written

    @property
    def estimators_(self) -> list[Model]:
        """The fitted models, on class numbers, in the order of `estimators`."""
        return self._selected.models.fitted

    @property
    def groups_(self) -> Array:
        """Names of the groups of the fit; empty without groups."""
        return self._group_names.names

    @property
    def scores_(self) -> Scores | None:
        """The columns of scores, if the rule reads these alone; None for models, and for several `Scores`."""
        columns = self._models.columns_read
        return columns[0] if len(columns) == 1 else None

    @property
    def named_estimators_(self) -> Bunch:
        """The fitted models by name."""
        return Bunch(**dict(zip(self._models.names, self.estimators_, strict=False)))

    @property
    def used_models_(self) -> list[str]:
        """Names of the models in the rule."""
        models = self._selected.models
        return [models.names[i] for i in models.used]

    @property
    def objective_(self) -> Statistic:
        """The minimised rate."""
        return self._selected.problem.objective

    # -- the evidence ----------------------------------------------------------------------------------

    @property
    def selection_(self) -> Selection:
        """The selected rule among its candidates, with its rates on the selection data.

        Raise ValueError for a rule of a file, which has none.
        """
        selection = self._selected
        if isinstance(selection, StoredSelection):
            raise ValueError(
                "this rule was read from a file, without its selection data: select again, "
                "as by reweight(X, y) with rows that no model was fitted on"
            )
        return selection

    @property
    def certificate_(self) -> Certificate | None:
        """The certificate of `tailboost.calibrate` for this rule; None without one.

        Raise ValueError if a fitted model was changed after the selection, as by a fit of its own.
        """
        check_is_fitted(self)
        self.evidence_.refuse_changed()
        certificate = self.evidence_.certificate
        return certificate and replace(certificate, model=self)

    @property
    def records_(self) -> Records:
        """The rows that the classifier has read, by their use, and the attempts to calibrate it."""
        return self.evidence_.records

    @property
    def ledger_(self) -> Ledger:
        """The attempts to calibrate this fit."""
        return self.records_.ledger

    # -- errors on the selection data ------------------------------------------------------------------

    @property
    def rates_(self) -> RateTable:
        """The rates of the objective and of the limits by subgroup, on the selection data."""
        return self.selection_.estimates

    @property
    def limits_met_(self) -> bool | None:
        """Whether all limits are certified, or without a certificate kept on the selection data.

        It is about `predict`, and None without limits.
        """
        certificate = self.certificate_
        if certificate is not None:
            return certificate.certified
        selection = self.selection_
        is_limited = (selection.program.limit_of_row >= 0).any()
        return selection.program.keeps(selection.counts) if is_limited else None

    @property
    def subgroup_errors_(self) -> dict[Any, float]:
        """Error of `predict` on each class, group or cell, on the selection data; NaN without rows."""
        selection = self.selection_
        kinds = (rate.by for rate in selection.problem.rates if rate.by is not None)
        lines = selection.rates([error(by=next(kinds, "class"))])
        return {line.subgroup: line.value for line in lines}

    # -- in print ---------------------------------------------------------------------------------------

    def _html_repr(self) -> str:
        """Return the text of a fitted classifier, and scikit-learn's diagram."""
        text = f"<pre>{escape(str(self))}</pre>" if self.__sklearn_is_fitted__() else ""
        return text + estimator_html_repr(self)

    def __str__(self) -> str:
        """Return limits with their verdict, the overall error and the rule of a fitted classifier.

        They are certified if the rule has a certificate, otherwise measured on the selection data.
        """
        if not self.__sklearn_is_fitted__():
            return repr(self)
        certificate = self.certificate_
        if certificate is not None:
            source = certificate.title
            limits = certificate.limit_lines()
            errors = certificate.lines()[:1]
        elif isinstance(self.evidence_.selection, StoredSelection):
            source = "of a file, without a certificate"
            limits = []
            errors = [f"limits as stated: {self.limits}"]
        else:
            source = f"measured on {self.rates_.words.partition(' (')[0]}"
            limits = self.rates_.limit_lines()
            selection = self.selection_
            *_, overall = selection.rates([*selection.problem.limits, error()])
            errors = [overall.texts[2]]  # its numbers; in percent, if a limit beside it is
        texts = [
            f"limit  {kept.name} {kept.limit}  {kept.verdict} ({kept.numbers})"
            for kept in limits
        ]
        texts += [f"error  {line.strip()}" for line in errors]
        texts += [f"rule   {line.strip()}" for line in str(self.rule_).splitlines()]
        models = ", ".join(self.used_models_)
        return "\n".join([f"{type(self).__name__} of {models}, {source}", *texts])
