"""The known rows of a fitted model by their use, and the attempts at its calibration."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from tailboost.core.array_types import Document, Hashes
from tailboost.core.checks import check_number
from tailboost.core.exceptions import LeakageError, NotCertifiedError
from tailboost.rows.fingerprints import digest
from tailboost.rows.seen import EqualRows, Seen, first_repeated

# Share of the error probability left that an attempt spends: the first spends .9.
SPENT_EACH = 0.9
# An attempt needs more than this share of the error probability; less is rounding.
LEAST_LEFT = 1e-9
# One lock for all ledgers: an entry takes milliseconds.
_LOCK = threading.Lock()


@dataclass(frozen=True, eq=False)
class Attempt:
    """One attempt to calibrate: digest of the call, rows, and the spent share of 1 − confidence."""

    key: str
    rows: Seen
    spent: float = 0.0

    def to_dict(self) -> Document:
        """Return plain types for JSON."""
        return {"key": self.key, "rows": self.rows.to_dict(), "spent": self.spent}

    @classmethod
    def from_dict(cls, state: Document) -> Self:
        """Return the attempt written by `to_dict`; raises as `Seen.from_dict`."""
        spent = check_number(state["spent"], "spent", 0, 1, closed=True)
        return cls(str(state["key"]), Seen.from_dict(state["rows"]), spent)


def spent_by_next(earlier: Sequence[Attempt]) -> float:
    """Return the share of 1 − confidence for the next attempt: .9 of what the ``earlier`` ones left.

    The shares of all attempts sum to at most 1. Then all certificates hold together with the stated
    confidence (union bound). Raise ValueError if nothing is left.
    """
    left = 1.0 - sum(attempt.spent for attempt in earlier)
    if left < LEAST_LEFT:
        raise ValueError(
            f"no error probability is left after {len(earlier)} attempts. A new fit or "
            "selection on other rows starts again"
        )
    return left * SPENT_EACH


def attempts_of(previous: Any) -> tuple[Attempt, ...]:
    """Return the attempts of a result: that of its call after all earlier ones; () without a result."""
    if previous is None:
        return ()
    # A classifier has a ledger; a certificate, a ledger and an error have the attempts themselves.
    ledger = getattr(previous, "ledger_", previous)
    attempts = getattr(ledger, "attempts", ())
    if not attempts and not isinstance(previous, NotCertifiedError):
        raise ValueError(
            "previous must be the result of the previous attempt: the NotCertifiedError, the "
            f"classifier or its certificate_; got {type(previous).__name__}"
        )
    return tuple(attempts)


@dataclass(eq=False)
class Ledger:
    """Record of the attempts to calibrate one fit, in their order.

    ``copy.copy`` of a model shares the ledger: an attempt of one of them is an attempt of all. Deep copies,
    pickles and files carry the attempts so far, and later attempts of the copy are not known to the original.
    A new fit, also of a clone, starts an empty ledger. If it holds fitted classifiers of tailboost, as after
    ``tune([clf])``, it starts with their attempts. Threads may record at once.

    Parameters
    ----------
    attempts : tuple of Attempt, optional
        The attempts so far.

    Examples
    --------
    >>> import numpy as np
    >>> from tailboost.rows.ledger import Attempt, Ledger
    >>> from tailboost.rows.seen import Seen
    >>> ledger = Ledger()
    >>> rows = Seen.of(np.arange(30, dtype=np.uint64) << np.uint64(40))
    >>> len(ledger.record(Attempt("first call", rows)))
    1
    >>> try:
    ...     ledger.record(Attempt("another call", rows))
    ... except ValueError as error:
    ...     print(str(error)[:36])
    X: an earlier attempt had these rows
    """

    attempts: tuple[Attempt, ...] = ()

    def record(
        self,
        attempt: Attempt,
        earlier: Sequence[Attempt] = (),
        equal_rows: EqualRows = "copies",
    ) -> tuple[Attempt, ...]:
        """Record an attempt before its rows are tested; return this attempt, after all earlier ones.

        The same call again is no further attempt, because it gives the same result: the key of an attempt is
        a digest of its rows, of what is tested on them and of the arguments.

        Parameters
        ----------
        attempt : Attempt
            The attempt.
        earlier : sequence of Attempt, optional
            Attempts of other models or copies, which count too.
        equal_rows : {"copies", "natural"}, default="copies"
            Reason for equal rows, as in `tailboost.certify`.

        Raises
        ------
        LeakageError
            If an earlier attempt had rows of this one. Nothing is recorded.
        ValueError
            If no error probability is left. Nothing is recorded.
        """
        with _LOCK:
            recorded = {each.key: each for each in (*self.attempts, *earlier)}
            if attempt.key not in recorded:
                others = tuple(recorded.values())
                tables = [each.rows for each in others]
                if first_repeated(attempt.rows, tables, equal_rows) is not None:
                    raise LeakageError(
                        "X: an earlier attempt had these rows, or rows equal to them. Repeated tests on the "
                        "same rows do not keep the confidence: give rows that no attempt had, and state all "
                        "limits in one call"
                    )
                recorded[attempt.key] = replace(attempt, spent=spent_by_next(others))
            self.attempts = tuple(recorded.values())
        # A repeated call may be followed by later attempts, which are none of its result.
        place = list(recorded).index(attempt.key)
        return self.attempts[: place + 1]

    def to_dict(self) -> Document:
        """Return plain types for JSON."""
        return {"attempts": [attempt.to_dict() for attempt in self.attempts]}

    @classmethod
    def from_dict(cls, state: Document) -> Self:
        """Return the ledger written by `to_dict`; raises as `Seen.from_dict`."""
        return cls(tuple(map(Attempt.from_dict, state["attempts"])))


@dataclass(frozen=True, eq=False)
class Records:
    """The known rows of a fitted model by their use, and the attempts at its calibration.

    Attributes
    ----------
    trained : Seen or None
        The training rows of the models: all of them, if ``complete``. None if they are unknown.
    complete : bool
        Whether all training rows are known; those of a frozen estimator may be missing.
    used : tuple of Seen
        Rows of selections and calibrations, and of the fits of frozen classifiers within.
    ledger : Ledger
        The attempts. All copies of the records share the ledger, the only part with changes.
    """

    trained: Seen | None = None
    complete: bool = False
    used: tuple[Seen, ...] = ()
    ledger: Ledger = field(default_factory=Ledger)

    def using(self, *tables: Seen) -> Records:
        """Return these records with further used rows; each table counts once."""
        return replace(self, used=tuple(dict.fromkeys((*self.used, *tables))))

    def including(self, inner: Records) -> Records:
        """Return these records with those of a frozen classifier within the model."""
        tables = [table for table in (inner.trained, *inner.used) if table is not None]
        attempts = {each.key: each for each in (*self.ledger.attempts, *inner.ledger.attempts)}
        return replace(
            self.using(*tables),
            complete=self.complete and inner.complete,
            ledger=Ledger(tuple(attempts.values())),
        )

    @property
    def tables(self) -> list[Seen]:
        """All known rows: of training first."""
        return [table for table in (self.trained, *self.used) if table is not None]

    def refuse(self, hashes: Hashes, labels: Any, equal_rows: EqualRows) -> None:
        """Raise LeakageError if rows repeat known ones beyond chance, see `Seen.repeats`.

        Parameters
        ----------
        hashes : ndarray of shape (n,)
            Hashes of the rows, as the model reads them.
        labels : array-like of shape (n,) or None
            Their labels; None for rows without labels.
        equal_rows : {"copies", "natural"}
            Reason for equal rows.
        """
        refuse_repeated(Seen.of(hashes), self.tables, equal_rows)
        if labels is not None:  # known scores have labels
            refuse_repeated(Seen.of(hashes, labels=labels), self.tables, equal_rows)

    def spend(
        self,
        rows: Seen,
        tested: Iterable[bytes],
        earlier: Sequence[Attempt] = (),
        equal_rows: EqualRows = "copies",
    ) -> tuple[Attempt, ...]:
        """Record an attempt before its rows are tested; return this attempt, after all earlier ones.

        ``tested`` has the tested limits and rows, and all arguments of the call, as bytes for a digest. The
        other parameters, and the errors, are those of `Ledger.record`.
        """
        known = (table.digests.tobytes() for table in self.tables)
        return self.ledger.record(Attempt(digest(*known, *tested), rows), earlier, equal_rows)


def refuse_repeated(rows: Seen, tables: Sequence[Seen], equal_rows: EqualRows) -> None:
    """Raise LeakageError if rows repeat some tables beyond chance."""
    known = first_repeated(rows, tables, equal_rows)
    if known is None:
        return
    cure = ""
    if equal_rows == "copies" and first_repeated(rows, tables, "natural") is None:
        cure = ". If equal rows are different cases, `certify` takes equal_rows='natural'"
    raise LeakageError(
        f"X: {known.use} {rows.share_in(known):.0%} of these rows, or rows equal to them, so errors are "
        f"smaller than on new rows. Give rows that no fit, selection or calibration had{cure}"
    )
