"""The objective after each round, against a generic solver and loops over the rows."""

import numpy as np
import pytest
from scipy.optimize import linprog

from tailboost import rates
from tailboost.boosting.game import RoundCandidate
from tailboost.boosting.pool import JudgedPool
from tailboost.rows.rows import Rows
from tailboost.selection.mixture import Counts, Steering
from tailboost.selection.problem import CVaR, Problem
from tailboost.selection.progress import LargestError, LargestErrorOfVote, LeastTail

K, N, ROUNDS = 3, 45, 5


def drawn(seed):
    rng = np.random.default_rng(seed)
    y = np.r_[np.arange(K), rng.integers(0, K, N - K)]
    answers = np.where(rng.random((ROUNDS, N)) < 0.4, rng.integers(0, K, (ROUNDS, N)), y)
    return Rows(y, rng.integers(1, 4, N).astype(float), None, "rows"), answers


def watched(progress, pool, answers):
    """Return the pools and what is watched after each round."""
    memory, seen = progress.start(pool), []
    for each in answers:
        pool = pool.adding(RoundCandidate(None, each != pool.rows.y, each))
        newest = progress.after(memory, pool, None)
        memory = newest.memory
        seen.append((pool, newest))
    return seen


def steering_of(rows, limits=()):
    counts = Counts(rows, np.arange(K))
    objective = rates.Objective.from_expression(rates.largest(rates.error(by="class")))
    return Steering.from_problem(Problem(objective, limits, randomized=True), counts)


def class_errors(rows, answers):
    wrong = answers != rows.y
    return [np.average(wrong[rows.y == k], weights=rows.weight[rows.y == k]) for k in range(K)]


def minimax(errors):
    """Return the least largest error of a mixture by a generic solver, for errors (T, m)."""
    T, m = errors.shape
    A = np.hstack([errors.T, -np.ones((m, 1))])
    simplex = np.append(np.ones(T), 0.0)[None, :]
    return linprog(
        np.append(np.zeros(T), 1.0), A, np.zeros(m), simplex, [1.0], [(0, None)] * T + [(None, None)]
    ).fun


@pytest.mark.parametrize("randomized", [True, False])
@pytest.mark.parametrize("allowed", [None, {0: 0.1, 1: 0.3, 2: 0.5}])
def test_the_least_largest_error(randomized, allowed):
    for seed in range(4):
        rows, answers = drawn(seed)
        limits = () if allowed is None else (rates.error(by="class") <= allowed,)
        steering = steering_of(rows, limits)
        pool = JudgedPool(rows, K).with_constants()
        less = np.zeros(K) if allowed is None else np.array(list(allowed.values()))
        constants = [class_errors(rows, np.full(N, k)) for k in range(K)]
        for t, (_, newest) in enumerate(watched(LargestError(steering, randomized), pool, answers)):
            rounds = [class_errors(rows, each) for each in answers[: t + 1]]
            errors = np.array([*rounds, *constants]) - less
            truth = minimax(errors) if randomized else errors.max(axis=1).min()
            assert newest.value == pytest.approx(truth, abs=1e-8)
            assert newest.gap < 1e-6


@pytest.mark.parametrize("fitted", [True, False])
def test_the_largest_error_of_the_majority(fitted):
    for seed in range(4):
        rows, answers = drawn(seed)
        rows = Rows(rows.y, rows.weight, None, "rows", fitted=fitted)
        steering = steering_of(rows)
        least = np.inf
        progress = LargestErrorOfVote(steering)
        for t, (pool, newest) in enumerate(watched(progress, JudgedPool(rows, K), answers)):
            order = [m for m in pool.by_mean_loss if m <= t]
            majority = np.empty(N, dtype=int)
            for i in range(N):
                votes = np.bincount(answers[: t + 1, i], minlength=K)
                tied = np.flatnonzero(votes == votes.max())
                majority[i] = next(answers[m, i] for m in order if answers[m, i] in tied)
            largest = max(class_errors(rows, majority))
            least = min(least, largest)
            assert newest.value == pytest.approx(largest if fitted else least, abs=1e-9)


def test_the_least_tail():
    """The CVaR of a mixture by the linear program of Rockafellar and Uryasev."""
    alpha = 0.3
    rows, answers = drawn(0)
    for t, (_, newest) in enumerate(watched(LeastTail(Problem(CVaR(alpha))), JudgedPool(rows, K), answers)):
        wrong = (answers[: t + 1] != rows.y).astype(float)
        T = t + 1
        cost = np.r_[np.zeros(T), 1.0, rows.base / alpha]
        excess = np.hstack([wrong.T, -np.ones((N, 1)), -np.eye(N)])
        simplex = np.r_[np.ones(T), np.zeros(N + 1)][None]
        bounds = [(0, None)] * T + [(None, None)] + [(0, None)] * N
        truth = linprog(cost, excess, np.zeros(N), simplex, [1.0], bounds).fun
        assert newest.value == pytest.approx(truth, abs=1e-7)
