"""The game of thresholds: Hedge on the errors of units against best answers to its prices."""

import numpy as np
import pytest

from tailboost import rates
from tailboost.rates import Objective, Strata
from tailboost.thresholds import Member, Pool, Program, Table, play

ROUNDS = 60


@pytest.fixture
def program():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=300)
    strata, stratum = Strata.of(y, None, np.ones(300), np.array(["a", "b", "c"]))
    P = rng.dirichlet(np.ones(3), 300).astype(np.float32)
    table = Table(strata, stratum, np.full(300, 1 / 300), (np.ascontiguousarray(P.T),))
    return table, Program.of_rates(strata, Objective.of(rates.largest(rates.error(by="class"))), ())


def played(program, **more):
    table, program = program
    pool = Pool(table)
    kept = {"prices": (0.0,), "rounds": ROUNDS, "kept": ROUNDS, **more}
    return pool, play(pool, program, 0, **kept)


def test_answers_are_those_of_the_game_written_out(program):
    """Weights ∝ exp(Σ errors), the prices they make of errors, the cheapest class of each row; anew."""
    table, _ = program
    pool, numbers = played(program)
    y, P, summed, answers = table.stratum, table.beliefs[0].T, np.zeros(3), []
    truth = np.bincount(y) / len(y)
    believed = P.mean(axis=0)
    for _ in range(ROUNDS):
        w = np.exp(summed - summed.max())
        scores = P * (w / w.sum() / truth) * (truth / believed)
        answers.append(scores.argmax(axis=1))
        summed += [np.mean(answers[-1][y == k] != k) for k in range(3)]
    own = {table.answers(pool.members[number]).tobytes() for number in numbers}
    assert own == {each.astype(np.intp).tobytes() for each in answers}


def test_ctrl_c_is_not_taken_for_the_end_of_the_game(program, monkeypatch):
    made = Member.answers

    def interrupted(member, belief):
        if interrupted.calls == 5:
            raise KeyboardInterrupt
        interrupted.calls += 1
        return made(member, belief)

    interrupted.calls = 0
    monkeypatch.setattr(Member, "answers", interrupted)
    with pytest.raises(KeyboardInterrupt):
        played(program)
