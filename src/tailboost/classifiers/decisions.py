"""Randomised decisions with one draw per person: the draw is a keyed hash of the person's id.

``docs/decisions.md`` gives the format, test vectors, and the cases in which drawing is not acceptable.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from tailboost.boosting.ensemble import MixtureEnsemble
from tailboost.core.array_types import Array, Floats, Groups, Ints, Mask, Model, Table
from tailboost.core.checks import n_rows_of, refuse_missing
from tailboost.core.spelling import a_type_of
from tailboost.rows.given import refuse
from tailboost.rows.judged import final_step, group_arguments, judged, last_step
from tailboost.rows.subgroups import answers_or_review

__all__ = ["Decisions", "RandomizedDecision", "verify"]

# Length of a secret in bytes. A search can find a shorter secret, and BLAKE2b takes no longer one.
SHORTEST_SECRET = 16
LONGEST_SECRET = 64
# Personalisation strings of BLAKE2b: they separate the derived key from the draws. The 3 is the version of
# the format.
KEY_DOMAIN = b"tailboost.key.3"
DRAW_DOMAIN = b"tailboost.draw.3"


@dataclass(frozen=True, eq=False)
class Decisions:
    """Drawn answers for some rows, with the draws.

    Attributes
    ----------
    y : ndarray of shape (n,)
        Labels, as in the model's ``classes_``. A deferred row has the label of its candidate without a
        deferral.
    candidate : ndarray of shape (n,)
        Number of the answering candidate, an index into the model's ``estimator_weights_``.
    u : ndarray of shape (n,)
        Drawn numbers in [0, 1).
    deferred : ndarray of bool, shape (n,)
        Rows deferred by their candidate to a human reviewer.
    """

    y: Array
    candidate: Ints
    u: Floats
    deferred: Mask

    def __len__(self) -> int:
        return len(self.u)

    @property
    def answers(self) -> Array:
        """Label of each row, or "human review" if the row is deferred, shape (n,)."""
        return answers_or_review(self.y, self.deferred)


class RandomizedDecision:
    """Draw the answers of a randomised rule such that each person keeps one draw.

    A keyed hash (BLAKE2b) of the context and the id gives a number u in [0, 1). The candidate whose interval
    of cumulative mixture weights contains u answers the row. The draw does not depend on the features, the
    batch, the order of rows or the machine. Another context draws anew.

    Parameters
    ----------
    model : classifier
        A fitted classifier of tailboost with mixture weights, or a pipeline that ends in one.
    secret : bytes
        16 to 64 bytes that nobody can guess, for example ``secrets.token_bytes(32)``. The object stores only
        a key derived from secret and context.
    context : str
        Name of the decision, such as "loans-2026". Draws of different contexts are independent.

    Raises
    ------
    TypeError
        If the secret is not bytes, the context is not text, or the model has no mixture weights.
    ValueError
        If the secret is too short or too long, the context is empty, or a candidate's answers are random.
    NotFittedError
        If the model is not fitted.

    See Also
    --------
    verify : Check recorded draws with the secret.

    Notes
    -----
    An id is text or an integer. An integer is hashed as its decimal text: 1 and "1" are the same person.

    Examples
    --------
    >>> import tailboost as tb
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = tb.AverageBoostClassifier("tree", n_estimators=5, random_state=0).fit(X, y)
    >>> secret = b"for this example only"
    >>> policy = tb.RandomizedDecision(clf, secret=secret, context="iris-2026")
    >>> ids = [f"plant {i}" for i in range(150)]
    >>> decisions, single = policy.decide(X, ids), policy.decide(X[[7]], ["plant 7"])
    >>> bool(single.y[0] == decisions.y[7])
    True
    >>> bool(tb.decisions.verify(ids, decisions.u, secret=secret, context="iris-2026").all())
    True
    """

    def __init__(self, model: Model, secret: bytes, context: str) -> None:
        self.model = model
        self.context = context
        fault = _fault(secret, context)
        if fault is None:
            self._hasher = _hasher(secret, context)
        del secret  # a traceback with local variables must not show the secret
        if fault is not None:
            raise fault
        _mixture_in(model)

    def draw(self, ids: Any) -> Floats:
        """Return the numbers u of some ids; they do not depend on the model.

        Parameters
        ----------
        ids : sequence of str or int, length n
            Stable ids, all different.

        Returns
        -------
        ndarray of shape (n,)
            Multiples of 2⁻⁵³ in [0, 1).

        Raises
        ------
        TypeError, ValueError
            If ids have another type, are missing, empty, or not all different.
        """
        return _draws(self._hasher, _encoded_ids(ids))

    def decide(self, X: Table, ids: Any, *, groups: Groups = None) -> Decisions:
        """Answer each row by the candidate that its id draws.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows, as in the model's ``fit``.
        ids : sequence of str or int, length n
            A stable id of each row, all different. An id must not be made from ``X``: a tiny change of a
            feature would then give a new draw.
        groups : array-like of shape (n,), optional
            Group of each row, for a group-aware model (``by_group=True``).

        Raises
        ------
        TypeError, ValueError
            As in `draw`; also if the number of ids is not n, or if groups are missing or unused by the model.
        """
        mixture = _mixture_in(self.model)
        if not judged(mixture).by_group:
            refuse("blind rule", groups=groups)
        encoded = _encoded_ids(ids)
        n = n_rows_of(X)
        if len(encoded) != n:
            raise ValueError(
                f"ids has {len(encoded):,} entries, X has {n:,} rows: each row needs one id"
            )
        u = _draws(self._hasher, encoded)
        candidate = drawn_candidates(mixture.estimator_weights_, u)
        _, X = final_step(self.model, X)
        group_argument = group_arguments(mixture, groups)
        deferred = np.zeros(n, dtype=bool)
        if judged(mixture).can_defer:
            deferred = mixture.defers_with(X, candidate, **group_argument)
        y = mixture.predict_with(X, candidate, **group_argument)
        return Decisions(y, candidate, u, deferred)

    def __repr__(self) -> str:
        return f"RandomizedDecision({type(self.model).__name__}, context={self.context!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a RandomizedDecision cannot be stored or copied, because it holds a secret key: "
            "store the model, and create the object again from model, secret and context"
        )


def verify(ids: Any, u: ArrayLike, *, secret: bytes, context: str) -> Mask:
    """Return for each recorded draw whether it follows from the id, the secret and the context.

    Parameters
    ----------
    ids : sequence of str or int, length n
        The ids.
    u : array-like of shape (n,)
        `Decisions.u`, as recorded.
    secret, context : bytes, str
        As in `RandomizedDecision`.

    Returns
    -------
    ndarray of bool, shape (n,)

    Raises
    ------
    TypeError, ValueError
        If `RandomizedDecision` refuses the secret, the context or the ids, or if ``u`` is not n numbers.
    """
    fault = _fault(secret, context)
    if fault is None:
        hasher = _hasher(secret, context)
    del secret  # as in `RandomizedDecision`
    if fault is not None:
        raise fault
    recomputed = _draws(hasher, _encoded_ids(ids))
    recorded = np.asarray(u)
    if recorded.shape != recomputed.shape or recorded.dtype.kind not in "iuf":
        raise ValueError(
            f"u must be {len(recomputed):,} numbers, one for each id, got shape "
            f"{recorded.shape}"
        )
    return recomputed == recorded


def drawn_candidates(weights: Floats, u: Floats) -> Ints:
    """Return for each u the candidate t with λ₀ + … + λ_{t−1} ≤ u < λ₀ + … + λ_t, for λ scaled to sum 1."""
    used = np.flatnonzero(weights > 0)
    cumulated = np.cumsum(weights[used])
    # Borders between the intervals; the last interval has no upper border, so rounding leaves no gap.
    borders = cumulated[:-1] / cumulated[-1]
    return used[np.searchsorted(borders, u, side="right")]


def _hasher(secret: bytes, context: str) -> Any:
    """Return the keyed hash function from which the draws of a context are made.

    The key of a context does not reveal the secret, and draws do not reveal the key of their context.
    """
    key = hashlib.blake2b(
        context.encode(), key=secret, digest_size=32, person=KEY_DOMAIN
    ).digest()
    return hashlib.blake2b(key=key, digest_size=8, person=DRAW_DOMAIN)


def _fault(secret: Any, context: Any) -> Exception | None:
    """Return an error for an unusable secret or context; None if both are usable.

    The caller deletes the secret before raising the error: a traceback may print local variables.
    """
    if not isinstance(secret, (bytes, bytearray)):
        kind = "None" if secret is None else type(secret).__name__
        return TypeError(
            f"secret must be bytes, got {kind}; secrets.token_bytes(32) makes a good one, and "
            "a text has text.encode()"
        )
    if not SHORTEST_SECRET <= len(secret) <= LONGEST_SECRET:
        return ValueError(
            f"secret must have {SHORTEST_SECRET} to {LONGEST_SECRET} bytes, got {len(secret)}; "
            "secrets.token_bytes(32) makes a good one"
        )
    if not isinstance(context, str):
        return TypeError(f"context must be text, got {type(context).__name__}")
    if not context:
        return ValueError("context is empty: name the decision, such as 'loans-2026'")
    try:
        context.encode()
    except UnicodeEncodeError:
        return ValueError(f"context: {context!r} cannot be encoded as UTF-8")
    return None


def _draws(hasher: Any, encoded: list[bytes]) -> Floats:
    """Return u in [0, 1) of each encoded id.

    The first 53 of 64 bits of the hash make u, so u is exact as a float on every machine.
    """
    digests = []
    for encoded_id in encoded:
        state = hasher.copy()  # with the key
        state.update(encoded_id)
        digests.append(state.digest())
    bits = np.frombuffer(b"".join(digests), dtype=">u8")
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixture_in(model: Model) -> Any:
    """Return the classifier at the end of a model, for draws among its candidates.

    Raises
    ------
    TypeError, ValueError
        If the classifier has no mixture weights, or a candidate with random answers.
    """
    classifier = last_step(model)
    if isinstance(classifier, type):
        raise TypeError(f"model={classifier!r} is a class; a fitted classifier is needed")
    if hasattr(classifier, "fit"):
        check_is_fitted(classifier)
    ensemble = getattr(classifier, "ensemble_", None)
    if not isinstance(ensemble, MixtureEnsemble) or not hasattr(classifier, "predict_with"):
        raise TypeError(
            f"model: {a_type_of(classifier)} has no mixture weights to draw by; use a "
            "classifier such as AdaLPBoostClassifier or RobustMixtureClassifier"
        )
    random_candidates = [m for m in ensemble.random_candidates if ensemble.weights[m] > 0]
    if random_candidates:
        raise ValueError(
            f"model: candidate {random_candidates[0]} draws its own answers from "
            "probabilities, so one draw does not determine the answer; select with a rate as "
            "objective instead"
        )
    return classifier


def _encoded_ids(ids: Any) -> list[bytes]:
    """Return ids in UTF-8.

    Raises
    ------
    TypeError, ValueError
        If ids are of another type than text or integers, missing, empty, or not all different.
    """
    is_array = hasattr(ids, "__array__")
    if isinstance(ids, (str, bytes)) or not (is_array or isinstance(ids, (list, tuple, range))):
        raise TypeError(f"ids must be a sequence of ids, one per row, got {type(ids).__name__}")
    if np.ndim(ids) != 1:
        raise TypeError(f"ids must have shape (n,), got {np.shape(ids)}")
    refuse_missing(ids, "ids")
    if is_array:
        ids = list(np.asarray(ids))
    encoded = [_encoded_id(value) for value in ids]
    n_repeats = len(encoded) - len(set(encoded))
    if n_repeats:
        [(repeated, _)] = Counter(encoded).most_common(1)
        raise ValueError(
            f"ids must differ, but {repeated.decode()!r} comes more than once ({n_repeats:,} "
            f"of {len(encoded):,} ids repeat another; 1 and '1' are one id)"
        )
    return encoded


def _encoded_id(value: object) -> bytes:
    """Return an id in UTF-8; raise unless the id is an integer, or a text kept by NumPy's text arrays."""
    # bool is a subclass of int, and np.timedelta64 is one of np.integer.
    if isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64)):
        return b"%d" % value
    if not isinstance(value, str):
        raise TypeError(
            f"ids must be text or integers, got {value!r} of type {type(value).__name__}"
        )
    if not value or value.endswith("\0"):
        raise ValueError(
            f"ids: {value!r} is empty or ends in NUL, which NumPy's arrays of text drop"
        )
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"ids: {value!r} cannot be encoded as UTF-8") from None
