"""Candidates for a largest rate: best answers to Hedge, which weights the subgroups by their rates."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from tailboost.core.array_types import Floats
from tailboost.core.blas import one_blas_thread
from tailboost.selection.candidates import Candidate, Pool, plain_costs
from tailboost.selection.program import Program

# Learning rate of Hedge, its rounds at each price, and every how many rounds the answer is a candidate. 80
# rounds for 20 showed nothing (25 tables × 3 splits, cost −.0000 ± .0008).
RATE, ROUNDS, EVERY = 1.0, 20, 2
# Shares of the overall error in what is answered. Geometric: beside one price alone the worst subgroup within
# budgets is .044 ± .026 lower, beside two .011 ± .010 (25 tables × 3 splits).
PRICES = (0.0, 0.5, 0.75, 0.875, 0.9375)


@one_blas_thread
def play(pool: Pool, program: Program, source: int = 0) -> None:
    """Add best answers to what Hedge plays on the subgroups of a largest rate, at several prices.

    Parameters
    ----------
    pool : Pool
        The pool; its rows have stratum probabilities.
    program : Program
        Its objective is the largest rate of a family.
    source : int
        The number of the stratum probabilities.
    """
    table, rows, units = pool.table.at_hand, program.matrix[program.of == -1], program.unit_prices
    plain = plain_costs(table)
    for price in PRICES:
        losses: Floats = np.zeros(len(rows))
        for t in range(ROUNDS):
            weighted = np.tensordot(softmax(RATE * losses), units, axes=1)
            member = Candidate.of(source, (1.0 - price) * weighted + price * plain)
            actions = table.answers(member)
            losses = losses + rows @ table.counted(actions).ravel()
            if t % EVERY == EVERY - 1:
                pool.enter(member, actions)
