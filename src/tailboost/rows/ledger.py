"""Records of a fitted model: rows of training, selection and calibration, and attempts at calibration."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Self

import numpy as np

from tailboost.core.array_types import Document, Hashes, Ints
from tailboost.core.checks import check_number
from tailboost.core.exceptions import (
    LeakageError,
    NotCertifiedError,
    ResubstitutionWarning,
    warn_user,
)
from tailboost.core.spelling import as_typed, how_many, number_form
from tailboost.rows.fingerprints import (
    EqualRows,
    Fingerprint,
    RowHashes,
    UsedRows,
    digest,
    equal_by_nature,
    equal_or_same,
    too_many,
)

# Share of the error probability left, spent by an attempt if others may follow: the first spends .9.
SPENT_EACH = 0.9
# An attempt needs more than this share of the error probability; less is rounding.
LEAST_LEFT = 1e-9
# One lock for all ledgers: an entry takes milliseconds.
_LOCK = threading.Lock()
# The most attempts remembered for `tested_before`.
MOST_REMEMBERED = 8


def may_follow(earlier: Sequence[Attempt], attempts: int | None) -> bool:
    """Return whether error probability is left for another attempt, see `spent_by_next`."""
    left = 1.0 - sum(attempt.spent for attempt in earlier)
    return left >= LEAST_LEFT and (attempts is None or len(earlier) < attempts)


def spent_by_next(earlier: Sequence[Attempt], attempts: int | None) -> float:
    """Return the share of 1 − confidence for the next attempt.

    Each attempt spends a part of the rest, so the shares of all attempts sum to at most 1. Then all
    certificates hold together with the stated confidence (union bound).

    Parameters
    ----------
    earlier : sequence of Attempt
        The attempts so far.
    attempts : int or None
        The declared number of attempts: this and the following attempts divide the rest evenly. None if any
        number may follow: this attempt spends 0.9 of the rest.

    Raises
    ------
    ValueError
        If nothing is left, or more attempts were made than declared.
    """
    if attempts is not None and len(earlier) >= attempts:
        made = number_form(len(earlier), "attempt was", "attempts were")
        raise ValueError(
            f"{as_typed('attempts=', '--attempts ')}{attempts}: {len(earlier)} {made} made "
            "before this one. A new fit or selection on other rows starts again"
        )
    if not may_follow(earlier, attempts):
        raise ValueError(
            f"no error probability is left after {len(earlier)} attempts. A new fit or "
            "selection on other rows starts again"
        )
    left = 1.0 - sum(attempt.spent for attempt in earlier)
    if attempts is None:
        return left * SPENT_EACH
    n_left = attempts - len(earlier)  # with this one
    return left * (1.0 / n_left)


@dataclass(frozen=True, eq=False)
class Attempt:
    """One attempt to calibrate: digest of the call, rows, and the spent share of 1 − confidence."""

    key: str
    rows: UsedRows
    spent: float = 0.0

    def to_dict(self) -> Document:
        """Return plain types for JSON."""
        return {"key": self.key, "rows": self.rows.to_dict(), "spent": self.spent}

    @classmethod
    def from_dict(cls, state: Document) -> Self:
        """Return the attempt written by `to_dict`.

        Raises
        ------
        KeyError, TypeError, ValueError
            If the state is no such dict.
        """
        spent = check_number(state["spent"], "spent", 0, 1, closed=True)
        return cls(str(state["key"]), UsedRows.from_dict(state["rows"]), spent)


# The latest attempts of this process, with any ledger.
_OF_PROCESS: deque[Attempt] = deque(maxlen=MOST_REMEMBERED)


def tested_before(attempts: Sequence[Attempt]) -> int:
    """Return how many rows of the last of these attempts another attempt of this process had.

    Two models made of the same scores or the same fitted model do not know of each other's attempts. So their
    ledgers do not refuse these rows. The latest `MOST_REMEMBERED` attempts are compared.
    """
    counted = {attempt.key for attempt in attempts}
    with _LOCK:
        others = [attempt for attempt in _OF_PROCESS if attempt.key not in counted]
    rows = attempts[-1].rows
    # Tables without any equal row are the usual case, and quickly told.
    with_equal_rows = [other.rows for other in others if rows.equal_to(other.rows)]
    return max(map(rows.shared_with, with_equal_rows), default=0)


@dataclass(frozen=True, eq=False)
class Draw:
    """The rows of one batch in a random order. The first ones have selected a rule, and may certify none.

    Attributes
    ----------
    order : str
        Digest of the rows in this order.
    share : float
        The fraction of the rows, or of their clusters, that selected.
    rows : UsedRows
        All rows of the batch.
    """

    order: str
    share: float
    rows: UsedRows

    def to_dict(self) -> Document:
        """Return plain types for JSON."""
        return {"order": self.order, "share": self.share, "rows": self.rows.to_dict()}

    @classmethod
    def from_dict(cls, state: Document) -> Self:
        """Return the draw written by `to_dict`; errors as in `Attempt.from_dict`."""
        share = check_number(state["share"], "share", 0, 1, closed=True)
        return cls(str(state["order"]), share, UsedRows.from_dict(state["rows"]))


def attempts_of(previous: Any) -> tuple[Attempt, ...]:
    """Return the attempts of a result: the attempt of its call after all earlier ones; () without a result.

    Raises
    ------
    ValueError
        If ``previous`` is no result of an attempt.
    """
    if previous is None:
        return ()
    # A classifier has a ledger; a certificate and an error have the attempts themselves.
    ledger = getattr(previous, "ledger_", previous)
    attempts = getattr(ledger, "attempts", ())
    if not attempts and not isinstance(previous, NotCertifiedError):
        raise ValueError(
            "previous must be the result of the previous attempt: the NotCertifiedError, the "
            f"classifier or its certificate_; got {type(previous).__name__}"
        )
    return attempts


@dataclass(eq=False)
class Ledger:
    """Record of the attempts to calibrate one fit, in their order.

    ``copy.copy`` of a model shares the ledger: an attempt of one of them is an attempt of all. Deep copies,
    pickles and files carry the attempts so far, and later attempts of the copy are not known to the original.
    A new fit, also of a clone, starts an empty ledger. If it holds fitted classifiers of tailboost, as after
    ``tune([clf])``, its attempts are theirs too. Threads may record at once.

    Parameters
    ----------
    attempts : tuple of Attempt, optional
        The attempts so far.
    inner : tuple of Ledger, optional
        The ledgers of the models inside the model: attempts of one are attempts of all.
    draws : tuple of Draw, optional
        The batches of which a part has selected a rule.

    Examples
    --------
    >>> import numpy as np
    >>> from tailboost.rows.fingerprints import UsedRows
    >>> from tailboost.rows.ledger import Attempt, Ledger
    >>> ledger = Ledger()
    >>> rows = UsedRows.from_hashes(np.arange(30, dtype=np.uint64) << np.uint64(40), np.zeros(30))
    >>> len(ledger.record(Attempt("first call", rows)))
    1
    >>> try:
    ...     ledger.record(Attempt("another call", rows))
    ... except ValueError as error:
    ...     print(str(error)[:40])
    X: an earlier attempt had these rows
    """

    attempts: tuple[Attempt, ...] = ()
    inner: tuple[Ledger, ...] = ()
    draws: tuple[Draw, ...] = ()

    def record(
        self,
        attempt: Attempt,
        earlier: Sequence[Attempt] = (),
        *,
        equal_rows: EqualRows = "copies",
        attempts: int | None = None,
    ) -> tuple[Attempt, ...]:
        """Record an attempt before its rows are tested; return this attempt, after all earlier ones.

        The same call again is no further attempt, because it gives the same result. Its key tells: a digest
        of the rows, of what is tested on them and of the arguments, see `Records.spend`.

        Parameters
        ----------
        attempt : Attempt
            The attempt.
        earlier : sequence of Attempt, optional
            Attempts of other models or copies, which count too.
        equal_rows : {"copies", "natural"}, default="copies"
            Reason for equal rows, as in `tailboost.certify`.
        attempts : int, optional
            The declared number of attempts, see `spent_by_next`.

        Raises
        ------
        LeakageError
            If an earlier attempt had rows of this one. Nothing is recorded.
        ValueError
            If no error probability is left. Nothing is recorded.
        OSError
            If the file of the ledger cannot be written.
        """
        with self._opened():
            recorded = _distinct([*self._counting_for(attempt, equal_rows), *earlier])
            keys = [recorded_attempt.key for recorded_attempt in recorded]
            if attempt.key not in keys:
                refuse_spent(attempt.rows, recorded, equal_rows)
                new_attempt = replace(attempt, spent=spent_by_next(recorded, attempts))
                recorded = (*recorded, new_attempt)
                keys.append(attempt.key)
                _OF_PROCESS.append(new_attempt)
            for ledger in (self, *self.inner):
                ledger.attempts = _distinct([*ledger.attempts, *recorded])
        # A repeated call may be followed by later attempts, which are none of its result.
        return recorded[: keys.index(attempt.key) + 1]

    def withdraw(self, attempt: Attempt) -> None:
        """Take back a recorded attempt that ended before a label was read or a limit was tested."""
        with self._opened():
            for ledger in (self, *self.inner):
                others = [other for other in ledger.attempts if other.key != attempt.key]
                ledger.attempts = tuple(others)
            if attempt in _OF_PROCESS:
                _OF_PROCESS.remove(attempt)

    def share_drawn(self, order: str) -> float:
        """Return the fraction of a batch that has selected in this order; the same rows select again."""
        return max((draw.share for draw in self.draws if draw.order == order), default=0.0)

    def add(self, draw: Draw) -> None:
        """Record a draw whose rows have selected; a later one of the same order replaces it.

        The random order depends on all rows of a batch. In another order of some of its rows, rows that have
        selected would certify. No draw of rows that an attempt had is recorded, because only the call of the
        attempt may follow.

        Raises
        ------
        LeakageError
            If a draw in another order had some of these rows.
        """
        rows = draw.rows
        with self._opened():
            others = [other for other in self.draws if other.order != draw.order]
            n_shared = max((rows.shared_with(other.rows) for other in others), default=0)
            if n_shared:
                refuse_spent(rows, self.attempts, "natural")
                raise LeakageError(
                    f"X: {n_shared:,} of these {rows.contents.n_rows:,} rows were in another "
                    "table, of which a part has selected a rule. That part may not certify. Give "
                    f"that table again, {as_typed('clusters=', '--cluster')} as in that call, "
                    "or rows that no call had"
                )
            if not any(rows.shared_with(attempt.rows) for attempt in self.attempts):
                self.draws = (*others, draw)

    def _counting_for(self, attempt: Attempt, equal_rows: EqualRows) -> Sequence[Attempt]:
        """Return the recorded attempts that count for another attempt: all."""
        return self._all_attempts

    @property
    def _all_attempts(self) -> list[Attempt]:
        """The attempts of this ledger and of the inner ones, which may be in both."""
        return [*self.attempts, *chain(*(ledger.attempts for ledger in self.inner))]

    @contextmanager
    def _opened(self) -> Iterator[None]:
        """Hold the ledger while an attempt is recorded; a ledger in a file reads and writes it."""
        with _LOCK:
            yield

    def to_dict(self) -> Document:
        """Return plain types for JSON."""
        return {
            "attempts": [attempt.to_dict() for attempt in _distinct(self._all_attempts)],
            "draws": [draw.to_dict() for draw in self.draws],
        }

    @classmethod
    def from_dict(cls, state: Document) -> Ledger:
        """Return the ledger written by `to_dict`.

        Raises
        ------
        KeyError, TypeError, ValueError
            If the state is no such dict.
        """
        draws = tuple(map(Draw.from_dict, state.get("draws", ())))
        return Ledger(tuple(map(Attempt.from_dict, state["attempts"])), draws=draws)


def _distinct(attempts: Sequence[Attempt]) -> tuple[Attempt, ...]:
    """Return the attempts without repetitions, in their order."""
    first_of_key: dict[str, Attempt] = {}
    for attempt in attempts:
        first_of_key.setdefault(attempt.key, attempt)
    return tuple(first_of_key.values())


def refuse_spent(rows: UsedRows, attempts: Sequence[Attempt], equal_rows: EqualRows) -> None:
    """Raise if earlier attempts had some of these rows."""
    n_shared = [rows.shared_with(attempt.rows, equal_rows) for attempt in attempts]
    if equal_rows == "copies" and not any(n_shared):
        # Each attempt had few of these rows, but all of them together may have had too many.
        n_equal = [rows.equal_to(attempt.rows) for attempt in attempts]
        if too_many(sum(n_equal), rows.contents.n_rows):
            n_shared = n_equal
    if not any(n_shared):
        return
    uses = [f"attempt {k} used {n:,}" for k, n in enumerate(n_shared, 1) if n]
    most_beyond_chance = max(rows.shared_with(attempt.rows) for attempt in attempts)
    verb, cure = equal_or_same(most_beyond_chance)
    subject = "rows equal to these"
    if verb == "are":
        subject = "these rows"
    raise LeakageError(
        f"X: an earlier attempt had {subject}: of the {rows.contents.n_rows:,} rows, "
        f"{', '.join(uses)}. Repeated tests on the same rows do not keep the confidence. "
        f"Give rows that no attempt had ({how_many(len(attempts), 'attempt')} on record), and "
        f"state all limits in one call{cure}"
    )


# -- the known rows of a model --------------------------------------------------------------------------


# Uses of rows, in messages.
TRAINED_ON = "models were trained on"
SELECTED_ON = "the decision rule was selected on"
#: Fingerprint for models fitted before, without named training rows.
UNNAMED_ROWS = Fingerprint.from_hashes(np.empty(0, dtype=np.uint64))


@dataclass(frozen=True, eq=False)
class Records:
    """The known rows of a fitted model, by their use, and the attempts at its calibration.

    Attributes
    ----------
    trained : Fingerprint or None
        The fingerprint of the training rows of models: of all rows, if ``complete``. None if they are
        unknown.
    selected : tuple of Fingerprint
        Fingerprints of rows with features in selections and calibrations: a copy of such a row is no fresh
        row.
    tables : tuple of UsedRows
        Rows for comparison as whole tables: selection data of scores or given probabilities, and calibration
        rows.
    ledger : Ledger
        The attempts. All copies of the records share the ledger, the only part with changes.
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
            Hashes of the n selection rows.
        labels : array-like of shape (n,)
            Labels of these rows; empty for rows without labels.
        features : bool
            Whether the rows have features: then equal rows are copies. Scores are often equal by chance.
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
        """Return the fingerprints of the training rows, and of the rows of all selections together.

        The list has pairs of a fingerprint and a use. It is empty if the training rows are unknown.
        """
        if self.trained is None:
            return []
        uses = [(self.trained, TRAINED_ON)]
        if self.selected:
            uses.append((Fingerprint.union(self.selected), SELECTED_ON))
        return uses

    def counts(self, hashes: Hashes) -> Ints:
        """Return the number of rows equal to known rows, and of compared rows, for each use, shape (m, 2)."""
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
            The tested limits and rows, and all arguments of the call, as bytes for a digest.
        earlier, equal_rows, attempts
            As in `Ledger.record`, which also describes the errors.
        """
        # The key of the attempt: the rows of the model, and the tested limits and rows.
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

    Warns
    -----
    ResubstitutionWarning
        Counts the equal rows, if there are too few to refuse them and more than chance explains.
    """
    if equal_rows == "copies" and too_many(equal, compared):
        raise LeakageError(
            f"{name}: {use} {equal / compared:.0%} of these rows, or on rows equal to them, so "
            "errors are smaller than on new rows. Give rows that no fit or selection used. If "
            "fresh rows may equal training rows because columns take few values, and nobody "
            f"copied a row, state {equal_by_nature()}"
        )
    if equal_rows == "natural" and known.unnatural(equal, compared):
        raise LeakageError(
            f"{name}: {equal / compared:.0%} of these rows equal rows of the fit, and only "
            f"{known.repeated:.0%} of the rows of the fit equal one another, so some of these "
            "rows are copies. Give fresh rows"
        )
    if equal_rows == "copies" and known.exceeds_repeats(equal, compared):
        warn_user(
            f"{name}: {use} {equal:,} of these {compared:,} rows, or on rows equal to them, "
            "which is more than chance. Errors there may be smaller than on new rows: leave "
            f"these rows out. If equal rows are different cases, state {equal_by_nature()}",
            ResubstitutionWarning,
        )
