"""All that a fit, a selection or a file leaves of a classifier: its rule, and what the rule rests on."""

from tailboost.core import Document, Names, frozen_object
from tailboost.guarantees.certificates import Certificate
from tailboost.rows import Records
from tailboost.selection.door import Decision
from tailboost.selection.identity import NOTHING, Identity, identity_of
from tailboost.selection.outputs import Models
from tailboost.selection.selection import Engine, Selection, StoredSelection


class ChangedError(ValueError, AttributeError):
    """A model or a certified rule is not what it was when the rule was selected: it has no certificate."""


@frozen_object
class Evidence:
    """A rule with the models that make its scores, all rows that are known, and the certificate.

    Attributes
    ----------
    records : Records
        The rows that were used, and the attempts to calibrate.
    selection : Selection, StoredSelection or None
        The rule among its candidates, or that of a file; None after a fit in which no rule keeps the limits.
    certificate : Certificate or None
        The certificate of this rule. No other rule can have it.
    identity : Identity
        That of the fitted models at the selection.
    engine : Engine or None
        The candidates, if none of them is selected.
    combinations : tuple of tuple
        The combinations of several columns of groups that occur in the given rows.
    validation : str or float
        The selection data, as ``validation_`` of `RobustMixtureClassifier`.
    """

    records: Records
    selection: Selection | StoredSelection | None = None
    certificate: Certificate | None = None
    identity: Identity = NOTHING
    engine: Engine | None = None
    combinations: tuple[Names, ...] = ()
    validation: str | float = "frozen"

    @property
    def models(self) -> Models:
        """The models that make the scores."""
        source = self.selection or self.engine
        assert source
        return source.models

    def refuse_changed(self) -> None:
        """Raise `ChangedError` if a fitted model or a certified rule was changed after the selection."""
        digest = self.identity.digest
        if digest and identity_of(self.models.fitted).digest != digest:
            raise ChangedError(
                "the fitted models were changed after the rule was selected, as by a fit of "
                "one of estimators_: rates, limits and certificate are about the models "
                "before. Tune or calibrate the new model, on rows that no fit had"
            )
        if self.certificate and self.certificate.rule != Decision(self.selection).digest:
            raise ChangedError(
                "its certificate is about another rule: the rule was edited after the "
                "calibration. Restore it, or calibrate again"
            )

    # Copies and pickles of a model have contents of their own: some libraries write other bytes.
    def __getstate__(self) -> Document:
        self.refuse_changed()
        return vars(self)

    def __setstate__(self, state: Document) -> None:
        vars(self).update(state)
        if self.identity.digest:
            vars(self)["identity"] = self.identity._replace(
                digest=identity_of(self.models.fitted).digest
            )
