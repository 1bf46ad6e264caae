"""What is known of a selected rule: its selection, the rows that were used, and its certificate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from tailboost.guarantees.certificates import Certificate
from tailboost.rows.seen import Records, Seen
from tailboost.selection.selection import Selection


@dataclass(frozen=True, eq=False)
class Evidence:
    """A rule with the models that make its scores, all rows that are known, and the certificate.

    Attributes
    ----------
    selection : Selection
        The rule, among candidates on the scores of models.
    records : Records
        The rows that were used, and the attempts to calibrate.
    certificate : Certificate or None
        The certificate of this rule. No other rule can have it: `by` leaves it out.
    """

    selection: Selection
    records: Records
    certificate: Certificate | None = None

    def by(self, selection: Selection) -> Self:
        """Return another rule, without a certificate."""
        return replace(self, selection=selection, certificate=None)

    def using(self, *tables: Seen) -> Self:
        """Return the same rule with further used rows."""
        return replace(self, records=self.records.using(*tables))
