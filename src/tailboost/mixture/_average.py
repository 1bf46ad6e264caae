"""Averages of the models' log-probabilities, with weights learned on rows that judge the models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_softmax

from tailboost._typing import Floats, Ints, Mask
from tailboost.data import LOTS, Rows
from tailboost.mixture._tables import Judged, Source

# Pseudo-rows that hold the weights at even ones and the offsets at none.
PSEUDO_ROWS = 10.0
# A handful of numbers is learned: on at most about this many rows.
MOST_ROWS = 2**17
# Newton's method takes few steps, and more are of no use.
MOST_STEPS, SMALLEST_STEP = 50, 2.0**-20
# Numbers learned are multiples of this, so that the order of the rows has no part in them.
GRAIN = 2.0**-12


@dataclass(frozen=True)
class Average:
    """The logarithms of ``softmax(Σ_i w_i log p_i + b)``."""

    source: Source  # numbers of the models
    # Shape (len(source),): w ≥ 0. Their sum need not be 1: above it the average is surer of its answer than
    # the models, below less sure.
    weights: Floats
    offset: Floats  # shape (K,): b

    @classmethod
    def learned(cls, source: Source, logs: Sequence[Floats], rows: Rows) -> Average:
        """Return the average with the least mean log loss on rows, drawn towards the even one where few.

        The loss is convex in w and b. Newton's method minimises it; a weight that would be negative is 0.
        """
        M, (n, K) = len(source), logs[0].shape
        # Offsets of a row are of no meaning: small numbers make small rounding errors.
        A = np.stack([log - log.mean(axis=1, keepdims=True) for log in logs], axis=2)
        right = (np.arange(n), rows.y)
        start = np.r_[np.full(M, 1.0 / M), np.zeros(K)]

        def loss(t: Floats) -> tuple[float, Floats]:
            z = log_softmax(A @ t[:M] + t[M:], axis=1)
            return float(PSEUDO_ROWS / 2 * ((t - start) ** 2).sum() - rows.weight @ z[right]), z

        free, t = np.ones(M + K, dtype=bool), start
        while True:
            t = np.where(free, t, 0.0)
            value, z = loss(t)
            for _ in range(MOST_STEPS):
                gradient, hessian = _derivatives(A, np.exp(z), right, rows.weight)
                gradient = (gradient + PSEUDO_ROWS * (t - start))[free]
                hessian = (hessian + PSEUDO_ROWS * np.eye(M + K))[np.ix_(free, free)]
                step, length = np.zeros(M + K), 1.0
                step[free] = -np.linalg.solve(hessian, gradient)
                while True:
                    new, z_new = loss(t + length * step)
                    if new < value or length < SMALLEST_STEP:
                        break
                    length /= 2.0
                if new >= value:
                    break
                t, value, z = t + length * step, new, z_new
                if abs(length * step).max() < GRAIN**2:
                    break
            negative = free & (np.arange(M + K) < M) & (t < 0.0)
            if not negative.any():
                break
            free &= ~negative
        t = np.rint(t / GRAIN) * GRAIN
        return cls(source, t[:M], t[M:])

    @property
    def asked(self) -> Ints:
        """Numbers of the models that have weight; of all where none has."""
        return np.asarray(self.source)[self._used]

    def of(self, logs: Iterable[Floats]) -> Floats:
        """Return the average of the log-probabilities of those `asked`, shape (n, K)."""
        total = sum(w * log for w, log in zip(self.weights[self._used], logs, strict=True))
        average: Floats = log_softmax(total + self.offset, axis=1)
        return average

    @property
    def _used(self) -> Mask:
        used: Mask = self.weights > 0.0
        return used | ~used.any()


def _derivatives(A: Floats, P: Floats, right: tuple[Ints, Ints], weight: Floats) -> tuple[Floats, Floats]:
    """Return gradient and Hessian of the summed log loss by w and b."""
    W = P * weight[:, None]
    mean = np.einsum("nk,nkm->nm", P, A)
    heavy = mean * weight[:, None]
    by_weights = np.einsum("nkm,nkl,nk->ml", A, A, W, optimize=True) - heavy.T @ mean
    mixed = np.einsum("nkm,nk->mk", A, W) - heavy.T @ P
    by_offset = np.diag(W.sum(axis=0)) - W.T @ P
    left = W.copy()
    left[right] -= weight
    gradient = np.r_[np.einsum("nkm,nk->m", A, left), left.sum(axis=0)]
    return gradient, np.block([[by_weights, mixed], [mixed.T, by_offset]])


def averaging(judged: Judged, sources: Iterable[Source]) -> Judged:
    """Return the judged rows with models that know their averages, for sources of several models.

    Of all models one is learned in any case, which estimates P(y | x); of a single one it is a calibration.
    """
    rows, logs = judged.rows, judged.logs
    if len(rows.y) > MOST_ROWS and rows.lots is not None:
        chosen = rows.lots < LOTS * (MOST_ROWS / len(rows.y))
        rows, logs = rows.part(chosen), tuple(log[chosen] for log in logs)
    averages = tuple(
        Average.learned(source, [logs[i] for i in source], rows) for source in sources if len(source) > 1
    )
    everyone = tuple(range(len(judged.models.names)))
    pooled = next((each for each in averages if each.source == everyone), None)
    if pooled is None:
        pooled = Average.learned(everyone, logs, rows)
    return replace(judged, models=replace(judged.models, averages=averages, pooled=pooled))
