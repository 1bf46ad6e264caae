"""Records of a fitted model: which rows it has read, by their use, and the attempts to calibrate it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from tailboost.core.array_types import Hashes, Ints
from tailboost.core.exceptions import LeakageError
from tailboost.rows.fingerprints import (
    EqualRows,
    Fingerprint,
    RowHashes,
    UsedRows,
    digest,
    equal_by_nature,
    too_many,
)
from tailboost.rows.ledger import Attempt, Ledger

# Uses of rows, in messages.
TRAINED_ON = "models were trained on"
SELECTED_ON = "the decision rule was selected on"
#: Fingerprint of the training rows of models that were fitted before, and name none.
UNNAMED_ROWS = Fingerprint.from_hashes(np.empty(0, dtype=np.uint64))


@dataclass(frozen=True, eq=False)
class Records:
    """The rows that a fitted model has read, by their use, and the attempts to calibrate it.

    Attributes
    ----------
    trained : Fingerprint or None
        Of the rows on which models were trained: of all, if ``complete``. None if nothing is known of them.
    selected : tuple of Fingerprint
        Of rows with features in selections and calibrations: a copy of such a row is no fresh row.
    tables : tuple of UsedRows
        Rows that are compared as whole tables: selection data of scores or given probabilities, and
        calibration rows.
    ledger : Ledger
        The attempts. It alone is shared by all copies, and changes.
    """

    trained: Fingerprint | None = None
    selected: tuple[Fingerprint, ...] = ()
    tables: tuple[UsedRows, ...] = ()
    ledger: Ledger = field(default_factory=Ledger)

    @classmethod
    def of_given(cls) -> Self:
        """Return the records of models of which only probabilities are given: they name no training rows."""
        return cls(replace(UNNAMED_ROWS, complete=False))

    @property
    def complete(self) -> bool:
        """Whether all training rows are known."""
        return self.trained is not None and self.trained.complete

    def reading(self, rows: RowHashes, labels: Any, *, features: bool) -> Records:
        """Return these records with the rows of a selection.

        Parameters
        ----------
        rows : RowHashes
            Hashes of the rows on which the rule is selected.
        labels : array-like of shape (n,)
            Their labels; empty for rows without labels.
        features : bool
            Whether the rows have features, so that equal rows are copies. Scores are often equal by chance.
        """
        selection = Records()
        if features:
            selection = replace(selection, selected=(Fingerprint.from_hashes(rows.whole),))
        if rows.read:
            table = UsedRows.from_table(rows, labels, "selection data")
            selection = replace(selection, tables=(table,))
        return self.joined(selection)

    def joined(self, others: Records) -> Records:
        """Return these records with the selections and tables of others; each counts once."""
        selected = dict.fromkeys((*self.selected, *others.selected))
        tables = dict.fromkeys((*self.tables, *others.tables))
        return replace(self, selected=tuple(selected), tables=tuple(tables))

    def by_use(self) -> list[tuple[Fingerprint, str]]:
        """Return the fingerprints of the training rows, and of the rows of all selections together."""
        if self.trained is None:
            return []
        uses = [(self.trained, TRAINED_ON)]
        if self.selected:
            uses.append((Fingerprint.union(self.selected), SELECTED_ON))
        return uses

    def counts(self, hashes: Hashes) -> Ints:
        """Return the numbers of rows that equal known ones, and of rows compared, by use, shape (m, 2)."""
        counts = [fingerprint.count(hashes) for fingerprint, _ in self.by_use()]
        return np.array(counts, dtype=np.intp).reshape(-1, 2)

    def spend(
        self,
        rows: UsedRows,
        tested: Iterable[bytes],
        earlier: Sequence[Attempt] = (),
        *,
        equal_rows: EqualRows = "copies",
        attempts: int | None = None,
    ) -> tuple[Attempt, ...]:
        """Record an attempt before its rows are tested; return this attempt, after all earlier ones.

        Parameters
        ----------
        rows : UsedRows
            The rows of the attempt, with their labels.
        tested : iterable of bytes
            What is tested on which rows, and all arguments of the call.
        earlier, equal_rows, attempts
            As in `Ledger.record`, which also describes the errors.
        """
        # The key of the attempt: the rows of the model, and what is tested.
        hashes = [fingerprint.kept for fingerprint in self.selected]
        if self.trained is not None:
            hashes.insert(0, self.trained.kept)
        hashes += [table.labelled.contents for table in self.tables]
        key = digest(*(array.tobytes() for array in hashes), *tested)
        return self.ledger.record(
            Attempt(key, rows), earlier, equal_rows=equal_rows, attempts=attempts
        )


def refuse_known(
    known: Fingerprint,
    use: str,
    equal: int,
    compared: int,
    equal_rows: EqualRows,
    name: str = "X",
) -> None:
    """Raise if more rows equal known rows than chance explains.

    Parameters
    ----------
    known : Fingerprint
        The known rows.
    use : str
        Their use, as the start of a sentence.
    equal, compared : int
        The number of equal rows, and the number of rows compared.
    equal_rows : {"copies", "natural"}
        "copies": refused if more than one row in twenty (by three standard errors) is equal to a known one.
        "natural": refused if rows equal known rows more often, by four standard errors, than the known rows
        equal one another.
    name : str, default="X"
        Name of the rows in messages.

    Raises
    ------
    LeakageError
        Gives the reason.
    """
    if equal_rows == "copies" and too_many(equal, compared):
        raise LeakageError(
            f"{name}: {use} {equal / compared:.0%} of these rows, or on rows equal to them. "
            "Errors there are smaller than on new rows: give rows that were not used to "
            "train or select the classifier. If features take so few values that fresh rows "
            f"equal training rows, and nobody copied a row, state {equal_by_nature()}"
        )
    if equal_rows == "natural" and known.unnatural(equal, compared):
        raise LeakageError(
            f"{name}: {equal / compared:.0%} of these rows equal rows of the fit, and only "
            f"{known.repeated:.0%} of the rows of the fit equal one another, so some of these rows "
            "are copies. Give fresh rows"
        )
