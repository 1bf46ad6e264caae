"""The game of candidates: Hedge on the errors of subgroups against best answers to its action costs."""

import numpy as np

from tailboost import rates
from tailboost.rates import Strata, as_objective
from tailboost.selection.data import Pool, SelectionData
from tailboost.selection.program import Program
from tailboost.selection.search import ERROR_SHARES, EVERY, HEDGE_ROUNDS, add_by_hedge


def test_candidates_are_the_answers_of_the_game_written_out():
    """Weights ∝ exp(Σ errors), the action costs they make of errors, the cheapest class of each row."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=300)
    strata, stratum = Strata.of(y, None, np.ones(300), np.array(["a", "b", "c"]))
    P = rng.dirichlet(np.ones(3), 300).astype(np.float32)
    table = SelectionData(strata, stratum, np.full(300, 1 / 300), np.ascontiguousarray(P.T))
    program = Program.of_rates(strata, as_objective(rates.largest(rates.error(by="class"))), ())
    pool = Pool(table)
    add_by_hedge(pool, program)
    truth, answers = np.bincount(y) / len(y), set()
    for price in ERROR_SHARES:
        summed = np.zeros(3)
        for t in range(HEDGE_ROUNDS):
            w = np.exp(summed - summed.max())
            worth = (1 - price) * w / w.sum() / truth + price  # what an error costs in each class
            answer = (P * worth).argmax(axis=1)
            summed += [np.mean(answer[y == k] != k) for k in range(3)]
            if t % EVERY == EVERY - 1:
                answers.add(answer.astype(np.intp).tobytes())
    assert {table.actions(member).tobytes() for member in pool.candidates} == answers
