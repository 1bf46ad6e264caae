"""Kinds of rates: the class and action pairs counted by each kind, and the printed names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Bits, Floats


def wrong(answers: NDArray[Any], y: NDArray[Any]) -> Bits:
    """Return the zero-one losses of answers: True if an answer differs from the label."""
    bits: Bits = answers != y
    return bits


@dataclass(frozen=True)
class Kind:
    """Kind of a rate: a numerator and a denominator over confusion counts.

    ``table(K, A, label)`` returns both for each class and action, arrays of shape (K, A) with values in [0,
    1]. If `weighted`, the function takes β as a fourth argument.
    """

    words: str  # printed name
    table: Callable[..., tuple[Floats, Floats]]
    labelled: bool = False  # whether the rate is about one label
    ratio: bool = False  # whether the denominator depends on the answers
    lowered: bool = True  # may be an objective; not for precision, which one safe answer maximises
    gain: bool = False  # whether large values are better; as objective, one minus the rate is minimised
    weighted: bool = False  # whether the rate has the parameter β, and denominators between 0 and 1


def _all(K: int, A: int) -> Floats:
    return np.ones((K, A))


def _answered(K: int, A: int) -> Floats:
    return np.broadcast_to((np.arange(A) < K).astype(np.float64), (K, A))


def _errors(K: int, A: int) -> Floats:
    return _answered(K, A) * wrong(np.arange(A)[None, :], np.arange(K)[:, None])


def _class(K: int, A: int, label: int) -> Floats:
    return np.repeat((np.arange(K) == label).astype(np.float64)[:, None], A, axis=1)


def _answer(K: int, A: int, label: int) -> Floats:
    return np.repeat((np.arange(A) == label).astype(np.float64)[None, :], K, axis=0)


def _misses(K: int, A: int, k: int) -> tuple[Floats, Floats]:
    return _class(K, A, k) * (_answered(K, A) - _answer(K, A, k)), _class(K, A, k)


def _false_alarms(K: int, A: int, k: int) -> tuple[Floats, Floats]:
    others = 1.0 - _class(K, A, k)
    return others * _answer(K, A, k), others


def _precision(K: int, A: int, k: int) -> tuple[Floats, Floats]:
    return _answer(K, A, k) * _class(K, A, k), _answer(K, A, k)


def _npv(K: int, A: int, k: int) -> tuple[Floats, Floats]:
    others = _answered(K, A) - _answer(K, A, k)
    return others * (1.0 - _class(K, A, k)), others


def _jaccard(K: int, A: int, k: int) -> tuple[Floats, Floats]:
    return _class(K, A, k) * _answer(K, A, k), np.maximum(_class(K, A, k), _answer(K, A, k))


def _f_score(K: int, A: int, k: int, beta: float) -> tuple[Floats, Floats]:
    of_class, answer = _class(K, A, k), _answer(K, A, k)
    return of_class * answer, (beta**2 * of_class + answer) / (1.0 + beta**2)


KINDS = {
    "error": Kind("error", lambda K, A, k: (_errors(K, A), _all(K, A))),
    "miss": Kind("miss rate of {label}", _misses, labelled=True),
    "false_alarm": Kind("false alarm rate of {label}", _false_alarms, labelled=True),
    "selected": Kind(
        "selection rate of {label}", lambda K, A, k: (_answer(K, A, k), _all(K, A)), labelled=True
    ),
    "cost": Kind("mean cost", lambda K, A, k: (_all(K, A), _all(K, A))),
    "deferred": Kind("share deferred", lambda K, A, k: (1.0 - _answered(K, A), _all(K, A))),
    "precision": Kind("precision of {label}", _precision, labelled=True, ratio=True, lowered=False),
    "npv": Kind("negative predictive value of {label}", _npv, labelled=True, ratio=True, lowered=False),
    "jaccard": Kind("Jaccard index of {label}", _jaccard, labelled=True, ratio=True, gain=True),
    "f_score": Kind(
        "F score of {label}, β = {beta:g}", _f_score, labelled=True, ratio=True, gain=True, weighted=True
    ),
    "answered_error": Kind(
        "error among answered rows", lambda K, A, k: (_errors(K, A), _answered(K, A)), ratio=True
    ),
}
