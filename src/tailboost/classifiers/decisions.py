"""Randomised decisions that can be repeated and audited: one person, one draw.

The draw is a keyed hash of a person's id: it depends on nothing else, so that neither another batch nor
another machine nor a feature changed by 1e-9 buys a new one. ``docs/decisions.md`` has the format, test
vectors, and when drawing is not acceptable.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from tailboost.boosting.ensemble import MixtureEnsemble
from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.core.checks import n_rows_of, refuse_missing
from tailboost.core.subgroups import GROUPS_UNUSED, answers_by_group, can_defer, said_of, told

__all__ = ["Audit", "Decisions", "RandomizedDecision", "verify"]

# A secret shorter than the first can be searched for; BLAKE2b takes keys up to the second. In bytes.
SHORTEST_SECRET, LONGEST_SECRET = 16, 64
# BLAKE2b's own separation of domains: what is hashed for a draw is never what is hashed for a commitment.
# Their number is that of the format; the second derives a key, so that nobody need hold the secret.
_KEY, _DRAW, _COMMIT = b"tailboost.key.2", b"tailboost.draw.2", b"tailboost.comm.2"
_TEXT, _BYTES = b"t", b"b"
_ID_DTYPES = "iuUTO"
_NUL_LOST = (
    "NumPy's bytes lose the NULs at their end, so that two people may be one; give a list of bytes, or an "
    "array of dtype object made from one"
)


@dataclass(frozen=True, eq=False)
class Decisions:
    """The answers to some rows, and how each came about.

    Attributes
    ----------
    y : ndarray of shape (n,)
        Labels, as in the model's ``classes_``; of a row that is passed on the one that would be answered.
    member : ndarray of shape (n,)
        Number of the member that answered, an index into the model's ``estimator_weights_``.
    u : ndarray of shape (n,)
        The numbers in [0, 1) that chose the members, from the ids alone.
    deferred : ndarray of bool, shape (n,)
        Rows that the member passes on to a person.
    """

    y: NDArray[Any]
    member: Ints
    u: Floats
    deferred: Mask

    def __len__(self) -> int:
        return len(self.u)

    @property
    def said(self) -> NDArray[Any]:
        """What is said of each row, for people: its label, or "person" where it is passed on, shape (n,)."""
        return said_of(self.y, self.deferred)


@dataclass(frozen=True, eq=False)
class Audit:
    """What `verify` found; true if everything agrees.

    Attributes
    ----------
    commitment : bool
        Whether the secret and the context are those that were committed to.
    rows : ndarray of bool, shape (n,)
        Whether each row's number, and its member if that was given, are those that its id draws.
    """

    commitment: bool
    rows: NDArray[np.bool_]

    def __bool__(self) -> bool:
        return self.commitment and bool(self.rows.all())

    def __str__(self) -> str:
        said = "is" if self.commitment else "is NOT"
        n = len(self.rows)
        return f"the secret {said} the one committed to; {int(self.rows.sum()):,} of {n:,} draws agree"


class RandomizedDecision:
    """Answer for people by a mixture's draw, such that each person has one draw for good.

    A keyed hash (BLAKE2b) of the context and a person's id gives a number u in [0, 1), u chooses a member of
    the mixture by the cumulative shares λ, and this member answers. The same id gets the same member in any
    batch, order, process and on any machine, whatever the features; another context draws anew.

    Parameters
    ----------
    model : classifier
        A fitted mixture classifier of tailboost, or a pipeline that ends in one.
    secret : bytes
        From 16 to 64 bytes that nobody can guess, for instance ``secrets.token_bytes(32)``. It is not kept,
        only a key derived from it, from which the draws of this context follow, but neither the secret nor
        those of another context.
    context : str
        What is decided, such as "loans-2026": draws of different contexts have nothing to do with each other.
    beacon : str, optional
        A random value that the public sees drawn after the commitment was published, such as a lottery's
        numbers: with it nobody can have searched for a secret under which certain people fare well.

    Attributes
    ----------
    model, context, beacon
        As given.
    commitment : str
        64 hexadecimal digits to publish before the first decision: they tie secret and context down without
        telling the secret. See `verify`.

    Raises
    ------
    TypeError
        If the secret is not bytes, the context not text, or the model no mixture classifier.
    ValueError
        If the secret is too short or too long, the context empty, or members of the model draw themselves.
    NotFittedError
        If the model is not fitted.

    See Also
    --------
    verify : Check draws with the secret, as an auditor.

    Notes
    -----
    An id is text, bytes or an integer, which is its decimal text: 1 and "1" are the same person, "01" and
    b"1" others. Everything else is refused; ``docs/decisions.md`` says why. A policy cannot be pickled or
    copied; make it anew from model, secret and context where it is needed.

    Examples
    --------
    >>> import tailboost as tb
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> stump = DecisionTreeClassifier(max_depth=1)
    >>> clf = tb.AverageBoostClassifier(stump, n_estimators=5, random_state=0).fit(X, y)
    >>> policy = tb.RandomizedDecision(clf, secret=b"for this example only", context="iris-2026")
    >>> ids = [f"plant {i}" for i in range(150)]
    >>> all_of_them, one = policy.decide(X, ids), policy.decide(X[[7]], ["plant 7"])
    >>> bool(one.y[0] == all_of_them.y[7])
    True
    >>> bool(tb.decisions.verify(policy.commitment, ids, all_of_them.u, context="iris-2026",
    ...                          secret=b"for this example only"))
    True
    """

    def __init__(self, model: Any, secret: bytes, context: str, beacon: str = "") -> None:
        key = _derived(secret, context, beacon)
        del secret  # errors below must not show it among the variables of this frame
        # All set before an error, so that a traceback can print this object too.
        self.model = model
        self.context = context
        self.beacon = beacon
        self.commitment = "" if isinstance(key, Exception) else key.commitment
        if isinstance(key, Exception):
            raise key
        self._key = key
        _mixture_of(model)

    def draw(self, ids: Any) -> Floats:
        """Return the numbers u in [0, 1) that belong to some ids, whatever the model.

        Parameters
        ----------
        ids : sequence of str, int or bytes, length n
            Stable ids, all different.

        Returns
        -------
        ndarray of shape (n,)
            Multiples of 2⁻⁵³.

        Raises
        ------
        TypeError, ValueError
            For ids of other types, missing, empty, or not all different.
        """
        return self._key.draw(_encoded(ids))

    def decide(self, X: Any, ids: Any, *, groups: Any = None) -> Decisions:
        """Answer some rows, each by the member that its id draws.

        Only the members drawn answer, each for its own rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows, as in the model's ``fit``.
        ids : sequence of str, int or bytes, length n
            A stable id for each row, all different; never made from ``X``: who changes a feature by 1e-9
            would get a new draw.
        groups : array-like of shape (n,), optional
            Group of each row, for a model whose answers depend on it (``by_group=True``).

        Raises
        ------
        TypeError, ValueError
            As `draw`, if there is not one id for each row, or if groups are missing or not wanted.
        """
        before, mixture = _mixture_of(self.model)
        if groups is not None and not answers_by_group(mixture):
            raise ValueError(GROUPS_UNUSED)
        codes = _encoded(ids)
        n = n_rows_of(X)
        if len(codes) != n:
            raise ValueError(
                f"ids has {len(codes):,} entries, X has {n:,} rows: one id for each row is needed"
            )
        u = self._key.draw(codes)
        member = members_drawn(mixture.estimator_weights_, u)
        rows = X if before is None else before.transform(X)
        given = told(mixture, groups)
        deferred = np.zeros(n, dtype=bool)
        if can_defer(mixture):
            deferred = mixture.defers_with(rows, member, **given)
        return Decisions(mixture.predict_with(rows, member, **given), member, u, deferred)

    def stream(self, batches: Iterable[tuple[Any, ...]]) -> Iterator[Decisions]:
        """Answer batch after batch, of which only one is in memory.

        Parameters
        ----------
        batches : iterable of (X, ids) or (X, ids, groups)
            As `decide` takes them. An id that comes again in a later batch is not refused: what came before
            is not remembered. It gets the same member again.

        Yields
        ------
        Decisions
            One for each batch.
        """
        for X, ids, *rest in batches:
            (groups,) = rest or [None]
            yield self.decide(X, ids, groups=groups)

    def __repr__(self) -> str:
        model = type(self.model).__name__
        about = f"context={self.context!r}" + (f", beacon={self.beacon!r}" if self.beacon else "")
        return f"RandomizedDecision({model}, {about}, commitment={self.commitment!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a RandomizedDecision is not stored or copied, as it would carry its secret along: store the "
            "model, and make the policy anew from model, secret and context where it is needed"
        )


def verify(
    commitment: str,
    ids: Any,
    u: ArrayLike,
    *,
    secret: bytes,
    context: str,
    beacon: str = "",
    member: ArrayLike | None = None,
    shares: ArrayLike | None = None,
) -> Audit:
    """Check decisions against the commitment published before them; for an auditor who is told the secret.

    Parameters
    ----------
    commitment : str
        `RandomizedDecision.commitment`, as it was published.
    ids : sequence of str, int or bytes, length n
        The ids that were decided on.
    u : array-like of shape (n,)
        `Decisions.u`, as recorded.
    secret : bytes
        The secret.
    context, beacon : str
        The context, and the beacon if there was one.
    member, shares : array-like of shape (n,) and (n_members,), optional
        `Decisions.member` as recorded, and the model's ``estimator_weights_``: both or neither.

    Returns
    -------
    Audit
        True as a whole if secret and context are those committed to and every row agrees.

    Raises
    ------
    TypeError, ValueError
        For a secret, context or ids that `RandomizedDecision` refuses, or arrays of other lengths.
    """
    key = _derived(secret, context, beacon)
    del secret
    if isinstance(key, Exception):
        raise key
    if not isinstance(commitment, str):
        raise TypeError(f"commitment must be the text published, got a {type(commitment).__name__}")
    if (member is None) != (shares is None):
        raise ValueError("member and shares belong together: give both or neither")
    drawn = key.draw(_encoded(ids))
    rows = drawn == _recorded(u, "u", len(drawn))
    if member is not None and shares is not None:
        weights = np.asarray(shares, dtype=np.float64)
        if weights.ndim != 1 or not (weights >= 0).all() or not abs(weights.sum() - 1) < 1e-6:
            raise ValueError("shares must be numbers ≥ 0, shape (n_members,), that sum to 1")
        rows &= members_drawn(weights, drawn) == _recorded(member, "member", len(drawn))
    return Audit(hmac.compare_digest(key.commitment.encode(), commitment.strip().lower().encode()), rows)


def members_drawn(shares: Floats, u: Floats) -> Ints:
    """Return the member t with λ₀ + … + λ_{t−1} ≤ u < λ₀ + … + λ_t for each u, the sums scaled to end at 1.

    ``shares`` are λ, of members that are never drawn where it is 0; u are n numbers in [0, 1).
    """
    used = np.flatnonzero(shares > 0)
    edges = np.cumsum(shares[used])
    return used[np.searchsorted(edges[:-1] / edges[-1], u, side="right")]


@dataclass(frozen=True, eq=False)
class _Key:
    """A hash function keyed for one context, from which the secret cannot be read, and the commitment."""

    drawing: Any
    commitment: str

    def draw(self, codes: list[bytes]) -> Floats:
        """Return u for each encoded id: the first 53 of 64 bits, exact as a float on every machine."""
        absorbed = self.drawing.copy

        def digest(code: bytes) -> bytes:
            state = absorbed()
            state.update(code)
            return state.digest()

        bits = np.frombuffer(b"".join(map(digest, codes)), dtype=">u8")
        u: Floats = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return u


def _derived(secret: Any, context: Any, beacon: Any) -> _Key | Exception:
    """Return the key, or what is wrong: raised here, an error would show the caller's variables too."""
    if (fault := _fault_of(secret)) is not None:
        return fault
    for name, text in (("context", context), ("beacon", beacon)):
        if not isinstance(text, str):
            return TypeError(f"{name} must be text, got a {type(text).__name__}")
    if not context:
        return ValueError("context is empty: name what is decided, such as 'loans-2026'")
    try:
        parts = [_utf8(context, "context"), _utf8(beacon, "beacon")]
    except ValueError as error:
        return ValueError(str(error))
    # The length first: no context and beacon together read like another pair.
    named, public = (len(part).to_bytes(8, "big") + part for part in parts)
    commitment = hashlib.blake2b(named, key=secret, digest_size=32, person=_COMMIT).hexdigest()
    # BLAKE2b keeps its key in the clear until more than a block has come: what draws must have another.
    derived = hashlib.blake2b(named + public, key=secret, digest_size=32, person=_KEY).digest()
    return _Key(hashlib.blake2b(key=derived, digest_size=8, person=_DRAW), commitment)


def _fault_of(secret: Any) -> Exception | None:
    """Return what is wrong with a secret, in words that do not show it."""
    if secret is None:
        return TypeError("secret is missing: without one, people can try ids until they like the answer")
    if not isinstance(secret, (bytes, bytearray)):
        return TypeError(f"secret must be bytes, got a {type(secret).__name__}")
    if not SHORTEST_SECRET <= len(secret) <= LONGEST_SECRET:
        return ValueError(
            f"secret must have {SHORTEST_SECRET} to {LONGEST_SECRET} bytes, got {len(secret)}; "
            "secrets.token_bytes(32) makes a good one"
        )
    return None


def _mixture_of(model: Any) -> tuple[Any, Any]:
    """Return what prepares the rows (or None) and the mixture classifier of a model."""
    before, last = None, model
    if isinstance(model, Pipeline):
        before, last = model[:-1] if len(model) > 1 else None, model[-1]
    if isinstance(last, type):
        raise TypeError(f"model={last!r} is a class; a fitted classifier is needed")
    if hasattr(last, "fit"):
        check_is_fitted(last)
    drawable = isinstance(getattr(last, "ensemble_", None), MixtureEnsemble) and hasattr(last, "predict_with")
    if not drawable:
        raise TypeError(
            f"model: a {type(last).__name__} has no shares to draw from; a mixture of tailboost is needed "
            "(AdaLPBoostClassifier, GroupDROBoostClassifier, RobustMixtureClassifier, …)"
        )
    drawing = [m for m in last.ensemble_.drawing if last.ensemble_.weights[m] > 0]
    if drawing:
        raise ValueError(
            f"model: member {drawing[0]} itself draws its answer from probabilities, so that one draw does "
            "not settle it; fit the model with shares=False"
        )
    return before, last


def _encoded(ids: Any) -> list[bytes]:
    """Return ids in their one spelling, refusing what has none and what comes twice."""
    is_array = hasattr(ids, "__array__")
    if isinstance(ids, (str, bytes, bytearray)) or not (is_array or isinstance(ids, Sequence)):
        raise TypeError(f"ids must be a sequence of ids, one per row, got a {type(ids).__name__}")
    column = np.asarray(ids) if is_array else None
    try:
        if column is not None and column.dtype.kind == "S":
            raise TypeError(f"ids: {_NUL_LOST}, got dtype {column.dtype}")
        if column is not None and (column.ndim != 1 or column.dtype.kind not in _ID_DTYPES):
            raise TypeError(
                "ids must be text, integers or bytes, shape (n,); "
                f"got dtype {column.dtype}, shape {column.shape}"
            )
        codes = [_code(value) for value in (ids if column is None else column.tolist())]
    except TypeError:
        refuse_missing(ids, "ids")  # says it better where that is why
        raise
    if len(set(codes)) < len(codes):
        ((twice, _),) = Counter(codes).most_common(1)
        raise ValueError(
            f"ids must differ, but {twice[1:].decode(errors='backslashreplace')!r} comes more than once "
            f"({len(codes) - len(set(codes)):,} of {len(codes):,} ids repeat another; 1 and '1' are one id)"
        )
    return codes


def _code(value: Any) -> bytes:
    """Return the one spelling of an id: what kind it is, then its bytes."""
    kind = type(value)
    if kind is str or isinstance(value, str):
        code = _TEXT + _utf8(value, "ids")
        if code.endswith(b"\0"):  # NumPy's arrays of text lose it: the same id would draw otherwise there
            raise ValueError(f"ids: {value!r} ends in NUL, which arrays of text lose; strip it")
    elif kind is int or _is_integer(value):
        return b"%b%d" % (_TEXT, value)
    elif isinstance(value, np.bytes_):
        raise TypeError(f"ids: {_NUL_LOST}, got {value!r}")
    elif isinstance(value, bytes):
        code = _BYTES + value
    else:
        raise TypeError(
            f"ids must be text, integers or bytes, got {value!r} of type {kind.__name__}; convert it to text"
        )
    if len(code) == 1:
        raise ValueError("ids holds an empty id; every row needs one of its own")
    return code


def _is_integer(value: Any) -> bool:
    # NumPy's durations are integers to isinstance, as Python's truth values are.
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))


def _utf8(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name}: {text!r} holds half a character, which UTF-8 cannot express") from None


def _recorded(values: ArrayLike, name: str, n: int) -> NDArray[Any]:
    column = np.asarray(values)
    if column.shape != (n,) or column.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be {n:,} numbers, one for each id; got {column.dtype}, {column.shape}")
    return column
