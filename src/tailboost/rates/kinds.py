"""What each kind of rate counts, by class and action, and its words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Bits, Floats


def wrong(answers: NDArray[Any], y: NDArray[Any]) -> Bits:
    """Return the zero-one losses of answers: True where an answer is not the label."""
    bits: Bits = answers != y
    return bits


@dataclass(frozen=True)
class Kind:
    """What a rate counts: in which rows and answers, and among which.

    ``table(K, A, label)`` gives for each class and action what counts and among what, shape (K, A) each;
    where the second depends on the action the rate is a ratio of two that both depend on the rule.
    ``lowered`` tells whether such a ratio can be made small: that of a precision is wanted large.
    """

    words: str
    table: Callable[[int, int, int], tuple[Floats, Floats]]
    labelled: bool = False
    ratio: bool = False
    lowered: bool = True


def _answered(K: int, A: int) -> Floats:
    return np.broadcast_to((np.arange(A) < K).astype(np.float64), (K, A))


def _errors(K: int, A: int, label: int) -> tuple[Floats, Floats]:
    return _answered(K, A) * wrong(np.arange(A)[None, :], np.arange(K)[:, None]), np.ones((K, A))


def _errors_answered(K: int, A: int, label: int) -> tuple[Floats, Floats]:
    return _errors(K, A, label)[0], _answered(K, A)


def _is(n: int, label: int) -> Floats:
    return (np.arange(n) == label).astype(np.float64)


def _misses(K: int, A: int, label: int) -> tuple[Floats, Floats]:
    of_class = np.repeat(_is(K, label)[:, None], A, axis=1)
    return of_class * (_answered(K, A) - _is(A, label)), of_class


def _false_alarms(K: int, A: int, label: int) -> tuple[Floats, Floats]:
    others = np.repeat(1.0 - _is(K, label)[:, None], A, axis=1)
    return others * _is(A, label), others


def _selections(K: int, A: int, label: int) -> tuple[Floats, Floats]:
    return np.repeat(_is(A, label)[None, :], K, axis=0), np.ones((K, A))


def _passed_on(K: int, A: int, label: int) -> tuple[Floats, Floats]:
    return 1.0 - _answered(K, A), np.ones((K, A))


def _right_among(K: int, A: int, label: int) -> tuple[Floats, Floats]:
    chosen = _selections(K, A, label)[0]
    return chosen * _is(K, label)[:, None], chosen


def _one_each(K: int, A: int, label: int) -> tuple[Floats, Floats]:
    return np.ones((K, A)), np.ones((K, A))


KINDS = {
    "error": Kind("error", _errors),
    "miss": Kind("share missed of those that are {label}", _misses, labelled=True),
    "false_alarm": Kind("share of the others answered {label}", _false_alarms, labelled=True),
    "selected": Kind("share answered {label}", _selections, labelled=True),
    "cost": Kind("mean cost", _one_each),
    "deferred": Kind("share passed on", _passed_on),
    "precision": Kind(
        "share of {label} among those answered so", _right_among, labelled=True, ratio=True, lowered=False
    ),
    "answered_error": Kind("error among the answered", _errors_answered, ratio=True),
}
