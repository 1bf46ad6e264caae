"""Which rows were used before, and the attempts to certify: one digest a row, and two rules.

No bound reads them: they only refuse.
"""

from __future__ import annotations

import base64
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Document, Hashes
from tailboost.core.checks import check_number
from tailboost.core.exceptions import LeakageError, NotCertifiedError
from tailboost.rows.fingerprints import (
    hashes_of_names,
    hashes_of_pairs,
)

#: Reason for rows that equal known rows: copies, or features and scores with few values.
EqualRows = Literal["copies", "natural"]
# Uses of rows, in messages.
TRAINED_ON = "the model was trained on"
SELECTED_ON = "the rule was selected on"
CALIBRATED_ON = "the rule was calibrated on"
# About the largest number of rows with digests that are kept of a table, of four bytes each.
MOST_DIGESTS = 50_000
# Largest fraction of rows of a table that repeat one another, or that equal known rows, by chance.
BY_CHANCE = 0.05
# Allowed excess over this fraction, in standard errors.
STANDARD_ERRORS = 3.0
# Probability up to which a table of repeating rows is no part of another one by chance.
PART_BY_CHANCE = 1e-5
# Fewest different rows of a table of copies: chance makes less than one such table in a million.
FEWEST_COPIED = 21
# Share of the error probability left that an attempt spends: the first spends .9.
SPENT_EACH = 0.9
# An attempt needs more than this share of the error probability; less is rounding.
LEAST_LEFT = 1e-9
# Fewer stated training rows than this share of the fresh ones are not taken for all.
FEWEST_TRAINED = 0.1
# One lock for all ledgers: an entry takes milliseconds.
_LOCK = threading.Lock()


@dataclass(frozen=True, eq=False)
class Seen:
    """The digests of the rows of a table; of a large table, of a sample of contents.

    Attributes
    ----------
    digests : ndarray of uint32, shape (m,)
        The smallest digests, sorted, one for each row. A digest has the content of a row, of scores also the
        label.
    limit : int
        All rows with a digest of at most this are included.
    use : str
        What the rows were used for, as the start of a sentence.
    of_scores : bool
        Whether the rows are scores with labels: then different rows may be equal.
    """

    digests: NDArray[np.uint32]
    limit: int = 2**32 - 1
    use: str = ""
    of_scores: bool = False

    @classmethod
    def of(cls, hashes: Hashes, use: str = "", labels: Any = None) -> Self:
        """Return the rows of a table by their `hash_rows`, rounded; ``labels`` are given for scores."""
        if labels is not None and len(hashes):
            hashes = hashes_of_pairs(hashes, hashes_of_names(labels))
        digests = np.sort((hashes >> np.uint64(32)).astype(np.uint32))
        rows = cls(digests, use=use, of_scores=labels is not None)
        if len(digests) > MOST_DIGESTS:
            return rows.up_to(int(digests[MOST_DIGESTS - 1]))
        return rows

    def __len__(self) -> int:
        return len(self.digests)

    def up_to(self, limit: int) -> Self:
        """Return the rows with a digest of at most a limit."""
        n = int(np.searchsorted(self.digests, limit, side="right"))
        return replace(self, digests=self.digests[:n], limit=min(self.limit, limit))

    @property
    def repeated(self) -> float:
        """Fraction of the rows with an equal row in the table."""
        counts = np.unique(self.digests, return_counts=True)[1]
        return float(counts[counts > 1].sum() / max(1, len(self)))

    def share_in(self, known: Seen) -> float:
        """Return the fraction of these rows that equal known rows; NaN without rows to compare."""
        new = self.up_to(known.limit)
        if not len(new):
            return float("nan")
        return float(np.isin(new.digests, known.digests).mean())

    def repeats(self, known: Seen, equal_rows: EqualRows = "copies") -> bool:
        """Return whether these rows repeat known rows beyond chance.

        Rows with features, or scores that hardly repeat, may have one row in twenty of the smaller table, and
        three standard errors, in common. Fresh rows with features equal known rows about as often as rows
        of either table equal one another, so this share is added for them; copies that somebody made of the
        known rows add nothing, as the new rows do not repeat. Equal rows that repeat by nature may not be the
        other table or, unless chance makes so small a part, a part of it. Of 8,640 pairs of independent
        tables of scores with 2 to 7 decimals, in 216 settings with shifts of the population, 1 is taken for a
        reused one.
        """
        new = self.up_to(known.limit)
        used = known.up_to(self.limit)
        if self.of_scores != known.of_scores or not len(new) or not len(used):
            return False
        small, large = sorted((new, used), key=len)
        n_common = (Counter(small.digests.tolist()) & Counter(large.digests.tolist())).total()
        if equal_rows == "copies":
            hardly_repeat = max(new.repeated, used.repeated) <= BY_CHANCE
            if hardly_repeat and n_common > _by_chance(len(small), BY_CHANCE):
                return True
            more = max(1.0, len(used) / len(new))
            alike = min(1.0, BY_CHANCE + min(used.repeated, more * new.repeated))
            n_equal = new.share_in(used) * len(new)
            if not self.of_scores and n_equal > _by_chance(len(new), alike):
                return True
        if n_common < len(small):
            return False
        repeated = max(large.repeated, 1 / len(large))
        return len(small) == len(large) or repeated ** len(small) < PART_BY_CHANCE

    def to_dict(self) -> Document:
        """Return plain types for JSON."""
        digests = base64.b64encode(self.digests.astype("<u4").tobytes()).decode()
        return {**vars(self), "digests": digests}

    @classmethod
    def from_dict(cls, state: Document) -> Self:
        """Return the rows written by `to_dict`; raise KeyError, TypeError or ValueError for another state."""
        content = base64.b64decode(state["digests"], validate=True)
        digests = np.frombuffer(content, dtype="<u4").astype(np.uint32)
        if (digests[1:] < digests[:-1]).any():
            raise ValueError("digests of rows are damaged")
        return cls(digests, int(state["limit"]), str(state["use"]), bool(state["of_scores"]))


def _by_chance(n: int, share: float) -> float:
    """Return how many of n rows may equal known rows: a share of them, and three standard errors."""
    return share * n + STANDARD_ERRORS * float(np.sqrt(share * (1 - share) * n))


def first_repeated(new: Seen, tables: Iterable[Seen], equal_rows: EqualRows) -> Seen | None:
    """Return the first of some tables that a table repeats; None without one."""
    return next((table for table in tables if new.repeats(table, equal_rows)), None)


def checked_equal_rows(value: EqualRows | None) -> EqualRows:
    """Return ``equal_rows``, "copies" for None; raise ValueError for another value than the two."""
    if value is None:
        return "copies"
    if value not in get_args(EqualRows):
        raise ValueError(f"equal_rows must be 'copies' or 'natural', got {value!r}")
    return value


def refuse_copied(name: str, hashes: Hashes) -> None:
    """Raise LeakageError for a table, called ``name``, in which each row occurs k > 1 times or a multiple."""
    counts = np.unique(hashes, return_counts=True)[1]
    k = int(np.gcd.reduce(counts))
    if k > 1 and len(counts) >= FEWEST_COPIED:
        raise LeakageError(
            f"{name}: each row occurs {k} times, or a multiple of {k}. Give each row once; if "
            "nobody copied a row, `certify` takes equal_rows='natural'"
        )


def refuse_repeated(rows: Seen, tables: Sequence[Seen], equal_rows: EqualRows) -> None:
    """Raise LeakageError if rows repeat some tables beyond chance."""
    known = first_repeated(rows, tables, equal_rows)
    if known is None:
        return
    cure = ""
    if equal_rows == "copies" and first_repeated(rows, tables, "natural") is None:
        cure = ". If equal rows are different cases, `certify` takes equal_rows='natural'"
    raise LeakageError(
        f"X: {known.use} {rows.share_in(known):.0%} of these rows, or rows equal to them, so "
        "errors are smaller than on new rows. Give rows that no fit, selection or calibration "
        f"had{cure}"
    )


# -- attempts ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Attempt:
    """One attempt to calibrate: digest of the call, rows, and the spent share of 1 − confidence."""

    key: str
    rows: Seen
    spent: float = 0.0

    def to_dict(self) -> Document:
        """Return plain types for JSON."""
        return {**vars(self), "rows": self.rows.to_dict()}

    @classmethod
    def from_dict(cls, state: Document) -> Self:
        """Return the attempt written by `to_dict`; raises as `Seen.from_dict`."""
        spent = check_number(state["spent"], "spent", 0, 1, closed=True)
        return cls(str(state["key"]), Seen.from_dict(state["rows"]), spent)


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
    >>> from tailboost.rows.seen import Attempt, Ledger, Seen
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
        a digest of its rows, of what is tested on them and of the arguments. Another attempt spends .9 of
        the share of 1 − confidence that the earlier ones left. The shares of all attempts sum to at most 1,
        so all certificates hold together with the stated confidence (union bound).

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
                tables = [each.rows for each in recorded.values()]
                if first_repeated(attempt.rows, tables, equal_rows) is not None:
                    raise LeakageError(
                        "X: an earlier attempt had these rows, or rows equal to them. Repeated "
                        "tests on the same rows do not keep the confidence: give rows that no "
                        "attempt had, and state all limits in one call"
                    )
                left = 1.0 - sum(each.spent for each in recorded.values())
                if left < LEAST_LEFT:
                    raise ValueError(
                        f"no error probability is left after {len(recorded)} attempts. A new "
                        "fit or selection on other rows starts again"
                    )
                recorded[attempt.key] = replace(attempt, spent=left * SPENT_EACH)
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


# -- records of a model ------------------------------------------------------------------------------------


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

    @property
    def tables(self) -> tuple[Seen, ...]:
        """All known rows: of training first."""
        return tuple(filter(None, (self.trained, *self.used)))
