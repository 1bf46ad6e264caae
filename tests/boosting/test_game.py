"""Boosting game: trace of a round, reasons to stop, state after an interrupt."""

import inspect
import sys
from dataclasses import MISSING, dataclass, fields
from typing import Any

import numpy as np
import pytest
from games import game_of, play

from tailboost.boosting import players as rules
from tailboost.boosting.additive import AdditivePool
from tailboost.boosting.game import (
    Game,
    Player,
    RoundCandidate,
    Schedule,
    Stop,
    StopKind,
    SubgroupStakes,
    Trace,
    Units,
    Watched,
    round_seed,
)
from tailboost.boosting.players import Hedge
from tailboost.boosting.players.additive_player import ExactVariancePenalty, Exponential, VariancePenalty
from tailboost.boosting.players.dro import WorstCase
from tailboost.boosting.players.hedge import without_outliers
from tailboost.rows.rows import Rows

UNIFORM = Hedge(0.0)
PARAMETERS = {"eta": 0.5, "alpha": 0.4, "beta": 20.0}


def rule(name):
    """Return a player by name and parameters."""
    cls = getattr(rules, name)
    return cls(**{f.name: PARAMETERS[f.name] for f in fields(cls) if f.default is MISSING})


COSTS = {
    "AdaBoost": Exponential(2),
    "VadaBoost": VariancePenalty(2, 0.5),
    "EBBoost": ExactVariancePenalty(2, 0.5),
    "worst case": WorstCase(2, 0.05),
}
PLAYERS = [name for name in rules.__all__ if name not in ("Additive", "RealAdditive")]
RULES = {"uniform": UNIFORM, "real": rules.RealAdditive(COSTS["worst case"])}
RULES |= {name: rule(name) for name in PLAYERS}
RULES |= {name: rules.Additive(cost) for name, cost in COSTS.items()}


def answers(losses):
    """Return answers to requests: the rows of a matrix."""
    rows = iter(np.asarray(losses, dtype=float))
    return lambda request: next(rows)


class Values:
    """Progress with given objective values."""

    def __init__(self, values, gap=0.0):
        self.values, self.gap = iter(values), gap

    def start(self, pool):
        return None

    def after(self, memory, pool, state):
        return Watched(next(self.values), self.gap)


def subgroups(index, weight, judged=None, judged_weight=None):
    """Return stakes of groups, and a function that makes a candidate of wrong answers."""
    judged = index if judged is None else judged
    judged_weight = weight if judged_weight is None else judged_weight
    rows = Rows(np.zeros(len(judged), np.intp), judged_weight, judged, "rows")
    return SubgroupStakes.of(Units.groups(index, weight), rows, judged)


class Voters:
    """Learner with given wrong answers."""

    def __init__(self, losses):
        self.losses = iter(losses)

    def fit(self, request):
        return wrong_on(next(self.losses))


def wrong_on(losses):
    losses = np.asarray(losses)
    return RoundCandidate(None, losses, losses.astype(np.intp))


# -- units ---------------------------------------------------------------------------------------------


def test_samples_are_their_own_units():
    weight = np.array([1.0, 2.0, 5.0])
    units = Units.samples(weight)
    np.testing.assert_allclose(units.base, weight / 8)
    assert units.total == 8
    assert units.count == pytest.approx(8)  # 1/min p
    w = np.array([0.5, 0.25, 0.25])
    u = units.density(w)
    np.testing.assert_allclose(u, w / (weight / 8))
    assert np.average(u, weights=weight) == pytest.approx(1)
    np.testing.assert_array_equal(units.density(units.base), 1.0)


@pytest.mark.parametrize("n", [1, 2, 49, 300, 1001])
@pytest.mark.parametrize("scale", [1.0, 1 / 300, 1e-300, 3e7])
def test_equal_weights_are_counted_to_the_bit(n, scale):
    units = Units.samples(np.full(n, scale))
    assert units.count == n


def test_rows_outside_the_game_keep_density_one():
    weight = np.array([1.0, 2.0, 5.0, 2.0])
    inside = np.array([True, False, True, True])
    units = Units.samples(weight, inside)
    assert len(units.base) == 3
    assert units.total == 8
    np.testing.assert_allclose(units.density(np.array([1.0, 0.0, 0.0])), [8.0, 1.0, 0.0, 0.0])


def test_groups_start_even_and_measure_weighted_means():
    rng = np.random.default_rng(0)
    index, weight = rng.integers(0, 3, 50), rng.integers(1, 5, 50).astype(float)
    units = Units.groups(index, weight)
    np.testing.assert_allclose(units.base, 1 / 3)
    assert units.count == 3
    losses = rng.integers(0, 2, 50)
    expected = [np.average(losses[index == g], weights=weight[index == g]) for g in range(3)]
    np.testing.assert_allclose(subgroups(index, weight).losses(wrong_on(losses)), expected)
    w = np.array([0.2, 0.5, 0.3])
    u = units.density(w)
    # The density gives each group its weight, and keeps the ratios of weights within a group.
    shares = [np.sum((weight * u)[index == g]) / weight.sum() for g in range(3)]
    np.testing.assert_allclose(shares, w)
    assert np.average(u, weights=weight) == pytest.approx(1)
    assert all(np.ptp(u[index == g]) == 0 for g in range(3))


def test_groups_may_be_measured_on_other_rows():
    stakes = subgroups(np.array([0, 1, 1]), np.ones(3), np.array([0, 0, 1]), np.array([1.0, 3.0, 1.0]))
    np.testing.assert_allclose(stakes.losses(wrong_on([1, 0, 1])), [0.25, 1.0])


# -- play ----------------------------------------------------------------------------------------------


def test_trace_is_the_game():
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(6))
    losses = rng.random((4, 6))
    seen = []

    def answer(request):
        seen.append(request)
        return losses[len(seen) - 1]

    progress = Values([0.5] * 4, gap=0.25)
    game = game_of(Hedge(0.8), Units.samples(p), answer, 4, progress=progress)
    game = game.play(AdditivePool(2), 11).played
    for t, request in enumerate(seen):
        w = p * np.exp(0.8 * losses[:t].sum(axis=0))
        w /= w.sum()
        np.testing.assert_allclose(request.density, w / p, rtol=1e-12)
        assert request.seed == round_seed(11, t)
        assert game.trace.weighted_loss[t] == pytest.approx(w @ losses[t])
        assert game.trace.effective_size[t] == pytest.approx(1 / np.sum(w**2 / p))
    assert len({request.seed for request in seen}) == 4
    np.testing.assert_array_equal(game.trace.value, 0.5)
    np.testing.assert_array_equal(game.trace.gap, 0.25)
    assert game.trace.stop == Stop(StopKind.PLAYED, "all 4 rounds played")
    assert np.all(game.trace.seconds >= 0)
    assert game.trace.weights is None


@pytest.mark.parametrize(
    ("weights", "fault"),
    [
        ([0.5, 0.6, 0.0], r"the sum 1; the sum is 1\.1"),
        ([1.5, -0.5, 0.0], r"at least 0; the smallest is -0\.5"),
        ([0.5, np.nan, 0.5], "finite"),
        ([0.5, 0.5], r"shape \(2,\), not \(3,\)"),
        (["a", "b", "c"], "finite"),
    ],
)
@pytest.mark.parametrize("kind", [list, np.array])
def test_weights_that_are_no_distribution_are_refused_with_their_round(weights, fault, kind):
    @dataclass(frozen=True)
    class FromRoundTwo(Player[Any]):
        def start(self, units):
            return units.base

        def weights(self, state):
            return state

        def update(self, state, losses):
            return kind(weights)

    with pytest.raises(ValueError, match="FromRoundTwo"):
        play(FromRoundTwo(), Units.samples(np.ones(3)), answers(np.eye(3, dtype=bool)), 3)


def test_an_update_that_returns_nothing_is_refused():
    @dataclass(frozen=True)
    class Forgetful(Player[Any]):
        def start(self, units):
            return units.base

        def weights(self, state):
            return state

        def update(self, state, losses):
            pass

    with pytest.raises(TypeError, match="Forgetful"):
        play(Forgetful(), Units.samples(np.ones(3)), answers(np.eye(3, dtype=bool)), 3)


def test_effective_size_counts_the_share_of_units_that_hold_the_weight():
    units = Units.samples(np.ones(10))
    game = play(Hedge(1e3), units, answers(np.tile(np.arange(10) < 2, (2, 1))), 2)
    np.testing.assert_allclose(game.trace.effective_size, [1.0, 0.2])


def test_weights_of_few_units_are_kept():
    stakes = subgroups(np.array([0, 0, 1]), np.ones(3))
    game = Game(stakes, Hedge(1.0), Voters([[1, 1, 0], [0, 0, 1]]), Schedule(2))
    game = game.play(AdditivePool(2), 0).played
    np.testing.assert_allclose(game.trace.weights, [[0.5, 0.5], [np.e / (1 + np.e), 1 / (1 + np.e)]])


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_shorter_game_is_the_beginning_of_a_longer_one(rule):
    # Two correct rows per round: better than chance for all weights, so that no player ends the game.
    losses = np.array([np.isin(np.arange(8), (r, r + 1)) for r in range(6)])
    units = Units.samples(np.arange(1.0, 9.0))
    whole = play(rule, units, answers(losses), 6)
    for rounds in (1, 2, 5):
        part = play(rule, units, answers(losses), rounds)
        assert part.n_rounds == rounds
        np.testing.assert_array_equal(whole.trace.weighted_loss[:rounds], part.trace.weighted_loss)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("kind", [bool, float])
def test_rules_are_pure(rule, kind):
    """Equal states give equal weights on the simplex, and `update` does not change a state."""
    rng = np.random.default_rng(4)
    units = Units.samples(rng.random(7))
    state = rule.start(units)
    np.testing.assert_allclose(rule.weights(state), units.base, rtol=1e-12)
    for _ in range(4):
        before = rule.weights(state).copy()
        loss = rng.random(7) < 0.5 if kind is bool else rng.random(7)
        newer = rule.update(state, loss)
        np.testing.assert_array_equal(rule.weights(state), before)
        again = rule.update(state, loss)
        np.testing.assert_array_equal(rule.weights(newer), rule.weights(again))
        w = rule.weights(newer)
        assert w.min() >= 0
        assert w.sum() == pytest.approx(1, abs=1e-12)
        assert 0 <= abs(rule.gap(newer)) < 1e-7
        state = newer


@pytest.mark.parametrize("rule", [rules.TotallyCorrectiveLP(0.3), rules.EntropicLP(0.3, 50.0)])
@pytest.mark.parametrize("losses", ["zeros", "ones", "ties"])
def test_corrective_rules_in_degenerate_games(rule, losses):
    units = Units.samples(np.array([1.0, 1.0, 2.0, 4.0, 1e-9]))
    loss = {"zeros": np.zeros(5, bool), "ones": np.ones(5, bool), "ties": np.array([1, 1, 0, 0, 0], bool)}[
        losses
    ]
    state = rule.start(units)
    for _ in range(3):
        state = rule.update(state, loss)
        w = rule.weights(state)
        assert np.all(w <= units.base / 0.3 * (1 + 1e-9))
        if losses != "ties":  # no constraint: the closest weights to p are p
            np.testing.assert_allclose(w, units.base, atol=1e-7)


# -- ends ----------------------------------------------------------------------------------------------


def stopped(values, **schedule):
    """Return (number of rounds, stop) of a game with these objective values."""
    units = Units.samples(np.ones(2))
    parts = {"progress": Values(values), "schedule": Schedule(10, **schedule)}
    game = play(UNIFORM, units, lambda request: np.zeros(2), 10, **parts)
    return game.n_rounds, game.trace.stop


@pytest.mark.parametrize(
    ("values", "stopping", "rounds", "kind"),
    [
        ([0.5] * 10, {"patience": 3, "tol": 1e-3}, 4, StopKind.PLATEAU),
        ([0.5] * 10, {"patience": 1, "tol": 0.0}, 2, StopKind.PLATEAU),
        (
            [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05],
            {"patience": 1, "tol": 1e-3},
            10,
            StopKind.PLAYED,
        ),
        ([0.5] * 3 + [0.4] * 7, {"patience": 3, "tol": 1e-3}, 7, StopKind.PLATEAU),
        (
            [0.5, 0.4995, 0.499, 0.4985, 0.498, 0.4975, 0.497, 0.4965, 0.496, 0.4955],
            {"patience": 3, "tol": 1e-3},
            10,
            StopKind.PLAYED,
        ),
        ([0.5, 0.4, *[0.0] * 8], {"patience": 5, "least": 0.0}, 3, StopKind.ZERO),
        ([0.5, 0.4, *[0.0] * 8], {"patience": 5}, 8, StopKind.PLATEAU),
        ([0.5] * 10, {"tol": 1e-3}, 10, StopKind.PLAYED),
        ([np.nan] * 10, {"least": 0.0}, 10, StopKind.PLAYED),
    ],
)
def test_reasons_to_stop(values, stopping, rounds, kind):
    played, stop = stopped(values, **stopping)
    assert played == rounds
    assert stop.kind is kind
    assert stop.text


def test_a_learner_without_an_answer_ends_the_game():
    refusal = Stop(StopKind.LEARNER, "too weak")
    script = iter([np.zeros(2), np.zeros(2), refusal])
    game = play(UNIFORM, Units.samples(np.ones(2)), lambda request: next(script), 9)
    assert game.n_rounds == 2
    assert game.trace.stop is refusal


def test_time_limit_allows_one_round():
    played, stop = stopped([0.5] * 10, max_time=1e-12)
    assert played == 1
    assert stop.kind is StopKind.TIME
    assert stop.early


@pytest.mark.parametrize("where", ["learner", "swallowed", "progress", "observe"])
def test_interrupt_keeps_whole_rounds(where):
    losses = np.random.default_rng(0).random((5, 3))
    calls = []

    def ring(place):
        calls.append(place)
        if place == where and calls.count(place) == 3:
            raise KeyboardInterrupt

    def answer(request):
        ring("learner")
        return losses[calls.count("learner") - 1]

    class Watching(Values):
        def after(self, memory, pool, state):
            ring("progress")
            return super().after(memory, pool, state)

    def interrupted():  # the learner caught the interrupt, and returned an unfinished model
        return where == "swallowed" and calls.count("learner") == 3

    progress = Watching([0.5] * 5)
    game = game_of(Hedge(1.0), Units.samples(np.ones(3)), answer, 5, progress=progress)
    last = game.play(
        AdditivePool(2), 0, observe=lambda position: ring("observe") or False, interrupted=interrupted
    )
    rounds = 3 if where == "observe" else 2  # the observer is called after the round
    assert last.n_rounds == len(last.pool.models) == rounds
    assert last.trace.stop.kind is StopKind.INTERRUPT
    np.testing.assert_allclose(last.played.state.cumulative, losses[:rounds].sum(axis=0))


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_nothing_played_is_an_error(error):
    def answer(request):
        raise error

    with pytest.raises(error):
        play(UNIFORM, Units.samples(np.ones(2)), answer, 3)


def test_an_interrupt_at_any_line_leaves_whole_rounds():
    """After an interrupt at any line of a round, all parts of a position have the same number of rounds."""
    stakes = subgroups(np.array([0, 1, 1]), np.ones(3))
    losses = np.array([[1, 0, 1], [0, 1, 1]])
    lengths, line, kind = set(), 0, None
    while kind is not StopKind.PLAYED:
        game = Game(stakes, Hedge(1.0), Voters(losses), Schedule(2))
        lines, played = iter(range(line)), []

        def watch(frame, event, arg, lines=lines, played=played):
            if frame.f_code is not inspect.unwrap(Game.after_round).__code__:
                return None
            if played and event == "line" and next(lines, None) is None:
                played.clear()
                raise KeyboardInterrupt
            return watch

        before = sys.gettrace()
        sys.settrace(watch)
        try:
            last = game.play(AdditivePool(2), 0, observe=lambda position, p=played: p.append(1))
        finally:
            sys.settrace(before)
        T = last.n_rounds
        lengths.add(T)
        errors = [stakes.losses(wrong_on(losses[t])) for t in range(T)]
        np.testing.assert_array_equal(last.played.state.cumulative, sum(errors), err_msg=f"line {line}")
        assert len(last.trace.weights) == len(last.pool.models) == T
        kind = last.trace.stop.kind
        line += 1
    assert lengths == {1, 2}
    assert line >= 5


def test_seeds_depend_on_entropy_and_round_alone():
    seeds = [[round_seed(e, t) for t in range(50)] for e in (0, 1, 2**31 - 2)]
    assert len({s for row in seeds for s in row}) == 150
    assert seeds[1] == [round_seed(1, t) for t in range(50)]
    assert all(0 <= s < 2**32 for row in seeds for s in row)


def test_an_empty_trace_has_empty_columns():
    assert len(Trace()) == 0
    assert Trace().value.shape == (0,)


# -- outliers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fraction", [0.0, 0.05, 0.2, 0.5, 0.99])
def test_outliers_are_the_mass_of_highest_loss(fraction):
    rng = np.random.default_rng(7)
    p, cumulative = rng.dirichlet(np.ones(40)), rng.integers(0, 5, 40).astype(float)
    kept = without_outliers(p, cumulative, fraction)
    assert kept.sum() == pytest.approx(1)
    dropped = p - kept * (1 - fraction)
    assert dropped.sum() == pytest.approx(fraction, abs=1e-12)
    assert dropped.min() >= -1e-12
    # A level loses mass, in proportion to p, only after all higher levels.
    share = np.round(dropped / p, 9)
    for level in range(5):
        inside = cumulative == level
        assert np.ptp(share[inside]) <= 1e-8
        if share[inside].max(initial=0) > 0:
            np.testing.assert_allclose(share[cumulative > level], 1.0)


def test_no_outliers_before_the_first_loss():
    p = np.array([0.3, 0.7])
    np.testing.assert_array_equal(without_outliers(p, np.zeros(2), 0.5), p)
    np.testing.assert_array_equal(without_outliers(p, np.full(2, 3.0), 0.5), p)
