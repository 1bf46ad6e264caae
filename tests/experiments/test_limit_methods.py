"""The transcribed rules of broken limits, on made-up scores."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom

from experiments import _limit_methods as methods
from experiments.broken_limits import dominating

RNG = np.random.default_rng(0)


def _rows(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    g = RNG.integers(2, size=n)
    p = RNG.beta(1 + g, 2 - g)
    return p, (RNG.random(n) < p).astype(np.intp), g


DATA = methods.Scored(*_rows(2_000), *_rows(2_000))
LINEAR = [name for name, asked in methods.LIMITS.items() if asked.linear is not None]


@pytest.mark.parametrize("limit", LINEAR)
def test_the_oracle_keeps_each_limit_and_is_best(limit):
    asked = methods.LIMITS[limit]
    q = methods.oracle(DATA, asked)
    assert asked.beyond(q, DATA.fresh_y, DATA.fresh_g) <= 1e-9
    fresh = methods.Scored(DATA.fresh_p, DATA.fresh_y, DATA.fresh_g, DATA.fresh_p, DATA.fresh_y, DATA.fresh_g)
    one = methods.one_threshold(fresh, asked)
    assert asked.objective(q, DATA.fresh_y) <= asked.objective(one, DATA.fresh_y) + 0.005


@pytest.mark.parametrize("limit", ["approval gap ≤ .02", "odds gap ≤ .05", "miss by group ≤ .25"])
def test_post_process_keeps_the_limit_on_its_rows(limit):
    asked = methods.LIMITS[limit]
    own = methods.Scored(DATA.p, DATA.y, DATA.g, DATA.p, DATA.y, DATA.g)
    assert asked.beyond(methods.post_process(own, asked), DATA.y, DATA.g) <= 0


def test_the_umbrella_takes_the_largest_order_statistic():
    asked = methods.LIMITS["miss by group ≤ .25"]
    own = methods.Scored(DATA.p, DATA.y, DATA.g, DATA.p, DATA.y, DATA.g)
    q = methods.umbrella(own, asked)
    for k in (0, 1):
        ones = (DATA.g == k) & (DATA.y == 1)
        below = int((1 - q[ones]).sum())
        n = int(ones.sum())
        assert binom.cdf(below, n, 0.25) <= 0.025 < binom.cdf(below + 1, n, 0.25)


def test_npcs_and_drops_bound_both_classes():
    asked = methods.LIMITS["worst class ≤ .35"]
    own = methods.Scored(DATA.p, DATA.y, DATA.g, DATA.p, DATA.y, DATA.g)
    for rule in (methods.npcs, methods.drops):
        assert asked.beyond(rule(own, asked), DATA.y, DATA.g) <= 0.01


def test_selective_answers_fewer_rows_for_a_smaller_error():
    shares = []
    for level in (0.1, 0.15, 0.2):
        asked = methods.Asked(
            methods.LIMITS["answered error ≤ .1"].limits, methods.answered, level, defers=True
        )
        q = methods.selective(DATA, asked)
        assert asked.beyond(q, DATA.fresh_y, DATA.fresh_g) <= 0
        shares.append(asked.objective(q, DATA.fresh_y))
    assert all(one >= other for one, other in pairwise(shares))


def test_a_method_dominates_that_keeps_as_many_with_a_smaller_error():
    def runs(error: float, beyond: float) -> list[dict[str, float]]:
        return [{"seed": k, "error": error + 1e-4 * k, "beyond": beyond} for k in range(6)]

    of = {"a": runs(0.2, -0.1), "b": runs(0.1, -0.1), "c": runs(0.05, 0.1)}
    assert dominating(of, "a") == ["b"]
    assert dominating(of, "b") == []
