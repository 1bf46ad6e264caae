"""The attempts to certify a model, in its ledger, and the records of all rows that the model has used."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Self

from tailboost.core import Document, LeakageError, NotCertifiedError, frozen_object
from tailboost.rows.recognised import Seen

# Share of the error probability left that an attempt spends: the first spends .9.
SPENT_EACH = 0.9
# An attempt needs at least this share of the error probability; less is rounding.
LEAST_LEFT = 1e-9
# One lock for all ledgers: an entry takes milliseconds.
_LOCK = threading.Lock()


@frozen_object
class Attempt:
    """One attempt to calibrate: digest of the call, rows, and the spent share of 1 − confidence."""

    key: str
    rows: Seen
    spent: float = 0.0
    confidence: float = 0.95

    @property
    def error(self) -> float:
        """The error probability that the attempt has spent."""
        return self.spent * (1.0 - self.confidence)

    def to_dict(self) -> Document:
        """Return plain types for JSON."""
        return vars(self) | {"rows": self.rows.to_dict()}

    @classmethod
    def from_dict(cls, state: Document) -> Self:
        """Return the attempt written by `to_dict`; raises as `Seen.from_dict`."""
        # A rule of a file answers without scikit-learn.
        from tailboost.core.ranges import UNIT, check_number

        spent = check_number(state["spent"], "spent", UNIT)
        confidence = check_number(state["confidence"], "confidence", UNIT)
        return cls(str(state["key"]), Seen.from_dict(state["rows"]), spent, confidence)


#: Attempts in their order.
Attempts = tuple[Attempt, ...]


def attempts_of(previous: Any) -> Attempts:
    """Return the attempts of a result: that of its call after all earlier ones; () without a result."""
    if previous is None:
        return ()
    # A classifier has a ledger; a certificate, a ledger and an error have the attempts themselves.
    attempts = getattr(getattr(previous, "ledger_", previous), "attempts", ())
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
    ``tune([clf])``, it starts with their attempts. Threads may record at once.

    Parameters
    ----------
    attempts : tuple of Attempt, optional
        The attempts so far.
    judged : tuple of Seen, optional
        Rows on which rules of the fit were judged, so that one could be chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from tailboost.rows import Attempt, Ledger, Seen
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

    attempts: Attempts = ()
    judged: tuple[Seen, ...] = ()

    def judge(self, *tables: Seen) -> None:
        """Record tables of rows on which rules are judged: for no rule of the fit are they fresh any more."""
        with _LOCK:
            self.judged = tuple(dict.fromkeys((*self.judged, *tables)))

    def record(self, attempt: Attempt, earlier: Attempts = ()) -> Attempts:
        """Record an attempt before its rows are tested; return this attempt, after all earlier ones.

        An attempt spends .9 of what the error probabilities of the earlier ones left of its own
        1 − confidence. So it holds together with all of them with its confidence (union bound). The key of an
        attempt is a digest of its rows, of what is tested on them and of the arguments. The same call again
        is no further attempt, and has the same result, unless other attempts are named that came before it:
        then it has what they leave, too.

        Parameters
        ----------
        attempt : Attempt
            The attempt.
        earlier : sequence of Attempt, optional
            Attempts of other models or copies, which count too; those after the same call came later.

        Raises
        ------
        LeakageError
            If an earlier attempt had rows of this one. Nothing is recorded.
        ValueError
            If no error probability is left. Nothing is recorded.
        """
        with _LOCK:
            before = merged(_before(attempt.key, self.attempts), _before(attempt.key, earlier))
            if any(attempt.rows.repeats(each.rows) for each in before):
                raise LeakageError(
                    "X: an earlier attempt had these rows, or rows equal to them. Repeated "
                    "tests on the same rows do not keep the confidence: give rows that no "
                    "attempt had, and state all limits in one call"
                )
            left = 1.0 - sum(each.error for each in before) / (1.0 - attempt.confidence)
            if left < LEAST_LEFT:
                raise ValueError(
                    f"no error probability is left at confidence={attempt.confidence:g} after "
                    f"{len(before)} attempts: lower it, or fit or select anew on other rows"
                )
            attempt = replace(attempt, spent=left * SPENT_EACH)
            self.attempts = merged(before, [attempt], self.attempts, earlier)
            return (*before, attempt)


def merged(*lists: Iterable[Attempt]) -> Attempts:
    """Return attempts of several ledgers, each call once, with the most that a ledger has spent on it."""
    by_call: dict[str, Attempt] = {}
    for attempts in lists:
        for each in attempts:
            known = by_call.setdefault(each.key, each)
            if each.error > known.error:
                by_call[each.key] = each
    return tuple(by_call.values())


def _before(key: str, attempts: Attempts) -> Attempts:
    """Return the attempts before that of a call; all without it."""
    keys = [each.key for each in attempts]
    return attempts[: keys.index(key)] if key in keys else attempts


# -- records of a model ------------------------------------------------------------------------------------


@frozen_object
class Records:
    """The known rows of a fitted model by their use, and the attempts at its calibration.

    Attributes
    ----------
    trained : Seen or None
        The training rows of the models: all of them, if ``complete``. None if they are unknown.
    complete : bool
        Whether all training rows are known; those of a frozen estimator may be missing.
    used : tuple of Seen
        Rows of selections, and of calibrations with all attempts before them. Classifiers within have records
        of their own.
    ledger : Ledger
        The attempts. All copies of the records share the ledger, the only part with changes.
    """

    trained: Seen | None = None
    complete: bool = False
    used: tuple[Seen, ...] = ()
    ledger: Ledger = field(default_factory=Ledger)

    def using(self, *tables: Seen) -> Self:
        """Return these records with further used rows; each table counts once."""
        return replace(self, used=tuple(dict.fromkeys((*self.used, *tables))))

    @property
    def tables(self) -> tuple[Seen, ...]:
        """All these tables: that of training first, then the used ones, then those of judged rules."""
        return tuple(filter(None, (self.trained, *self.used, *self.ledger.judged)))
