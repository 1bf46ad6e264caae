"""The transcribed rules of broken limits, on made-up scores."""

from __future__ import annotations

import contextlib
import io
import warnings
from itertools import pairwise, product
from math import ceil, log2
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom
from sklearn.metrics import log_loss

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


@pytest.mark.thinned(1)
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


OWN = methods.Scored(DATA.p, DATA.y, DATA.g, DATA.p, DATA.y, DATA.g)
P = methods.pair(DATA.p)
PRIOR = np.array([1 - DATA.y.mean(), DATA.y.mean()])


def test_npmc_cx_reaches_the_dual_optimum_of_a_linear_program():
    asked = methods.LIMITS["worst class ≤ .35"]
    n = len(DATA.y)
    # Largest 1 + Σ λ (1 − α) − mean t, where t is at least the weighted probability of both classes.
    over = [np.hstack([(P[:, [k]] / PRIOR[k]) * np.eye(2)[k], -np.eye(n)]) for k in (0, 1)]
    cost = np.append(np.full(2, asked.level - 1), np.full(n, 1 / n))
    best = linprog(cost, np.vstack(over), -P.T.ravel(), bounds=(0, 200))
    costs = 1 + np.maximum(best.x[:2], 1e-3) / PRIOR
    expected = P[:, 1] * costs[1] > P[:, 0] * costs[0]
    found = methods.npmc_cx(OWN, asked)
    # The search moves along the axes, so it may end close to the optimum.
    assert np.mean(found != expected) <= 0.005


def test_npmc_cx_reads_no_label_but_the_class_frequencies():
    asked = methods.LIMITS["worst class ≤ .35"]
    mixed = np.random.default_rng(1).permutation(DATA.y)
    other = methods.Scored(DATA.p, mixed, DATA.g, DATA.fresh_p, DATA.fresh_y, DATA.fresh_g)
    np.testing.assert_array_equal(methods.npmc_cx(other, asked), methods.npmc_cx(DATA, asked))


def test_the_loss_of_drops_is_the_log_loss_of_each_class():
    weights = np.array([0.3, 1.4])
    weighted = P * weights / (P * weights).sum(axis=1, keepdims=True)
    for k in (0, 1):
        mine = methods.entropy_loss(DATA.p, DATA.y, weights)[k]
        assert mine == pytest.approx(log_loss(DATA.y[DATA.y == k], weighted[DATA.y == k], labels=[0, 1]))


def test_drops_bounds_both_classes():
    asked = methods.LIMITS["worst class ≤ .35"]
    assert asked.beyond(methods.drops(OWN, asked), DATA.y, DATA.g) <= 0


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "grid"), [("approval gap ≤ .02", 10_000), ("odds gap ≤ .05", 100)])
def test_post_process_follows_the_published_script(limit, grid):
    """The search of the script with its own embeddings: 1 if its Lagrangian is the larger one."""
    p, y, g = DATA.p[:400], DATA.y[:400], DATA.g[:400]
    some = methods.Scored(p, y, g, p, y, g)
    share = {(a, k): np.mean((some.g == a) & (some.y == k)) for a in (0, 1) for k in (0, 1)}
    parity = limit.startswith("approval")

    def embedded(p, g):
        if parity:
            t = np.where(g == 0, 1 / (share[0, 0] + share[0, 1]), -1 / (share[1, 0] + share[1, 1]))
            return t[:, None]
        t1 = np.where(g == 0, 1 / share[0, 1], -1 / share[1, 1])
        t0 = np.where(g == 1, 1 / share[1, 0], -1 / share[0, 0])
        return np.column_stack([t1 * p, t0 * (1 - p)])

    steps = np.linspace(-5, 5, grid) if parity else np.linspace(-0.5, 0.5, grid)
    space = [(k,) for k in steps] if parity else list(product(steps, steps))
    rules = []
    for k in space:
        first = 0.0 if parity else k[0]  # counted twice by the script if there are two
        w = embedded(some.p, some.g)
        lagrangian = 2 * some.p - 1 - first * w[:, 0] - w @ np.array(k)
        answers = (lagrangian > 0).astype(float)
        violated = np.abs((embedded(some.y, some.g) * answers[:, None]).mean(axis=0)).max()
        rules.append((violated, np.mean(answers != some.y)))
    level = methods.LIMITS[limit].level
    best = min(error for violated, error in rules if violated < level)
    q = methods.post_process(some, methods.LIMITS[limit])
    assert methods.LIMITS[limit].beyond(q, some.y, some.g) < 0
    assert np.mean(q != some.y) == best


@pytest.mark.parametrize("limit", ["approval gap ≤ .02", "odds gap ≤ .05"])
def test_linear_post_has_the_least_expected_error_within_the_limit_counted_by_probabilities(limit):
    asked = methods.LIMITS[limit]
    q = methods.linear_post(OWN, asked)
    # A generic solver on the rows: the rates of both groups are counted with p in place of labels.
    x = cp.Variable(len(DATA.p))
    parts = [np.ones(len(DATA.p))] if limit.startswith("approval") else [DATA.p, 1 - DATA.p]
    within, rates = [x >= 0, x <= 1], []
    for part in parts:
        weights = [part * (DATA.g == k) / (part * (DATA.g == k)).sum() for k in (0, 1)]
        within.append(cp.abs((weights[0] - weights[1]) @ x) <= asked.level)
        rates.append(abs((weights[0] - weights[1]) @ q))
    least = cp.Problem(cp.Minimize(cp.sum((1 - 2 * DATA.p) @ x) / len(DATA.p)), within).solve()
    assert np.mean((1 - 2 * DATA.p) * q) == pytest.approx(least, abs=1e-3)
    assert max(rates) <= asked.level + 2e-3


def test_calibration_of_linear_post_corrects_the_gap_of_a_distorted_score():
    asked = methods.LIMITS["odds gap ≤ .05"]
    p, y, g = _rows(20_000)
    # One group's score is distorted, so that its labels are not counted well by probabilities.
    p = np.where(g == 1, p**3, p)
    rows = methods.Scored(p[:8000], y[:8000], g[:8000], p[8000:], y[8000:], g[8000:])
    before, after = (
        asked.beyond(methods.linear_post(rows, asked, rounds), rows.fresh_y, rows.fresh_g)
        for rounds in (0, 10)
    )
    assert after < before


def test_calibration_has_no_effect_on_rates_of_known_groups():
    asked = methods.LIMITS["approval gap ≤ .02"]
    with_rounds, without = (methods.linear_post(DATA, asked, rounds) for rounds in (3, 0))
    assert np.mean(with_rounds != without) <= 0.005  # the authors' noise on the risks


def test_the_nearest_probability_vectors():
    rows = RNG.normal(size=(20, 4))
    found = methods.on_simplex(rows)
    for row, mine in zip(rows, found, strict=True):
        x = cp.Variable(4, nonneg=True)
        cp.Problem(cp.Minimize(cp.sum_squares(x - row)), [cp.sum(x) == 1]).solve()
        np.testing.assert_allclose(mine, x.value, atol=1e-4)


@pytest.mark.parametrize("n", [100, 777, 2_000])
def test_selective_searches_as_published(n):
    """Halving between the least and the most confident row, each bound from the binomial distribution."""
    p, y = DATA.p[:n], DATA.y[:n]
    level = 0.15
    asked = methods.Asked(methods.LIMITS["answered error ≤ .1"].limits, methods.answered, level, defers=True)
    sure, wrong = np.maximum(p, 1 - p), (p >= 0.5) != y
    least, most, rounds = 0, n - 1, ceil(log2(n))
    for _ in range(rounds + 1):
        middle = ceil((least + most) / 2)
        rows = np.argsort(sure)[middle:]
        error = wrong[rows].sum()
        kept = binom.cdf(error, len(rows), level) <= 0.05 / rounds
        least, most = (least, middle) if kept else (middle, most)
    own = methods.Scored(p, y, DATA.g[:n], p, y, DATA.g[:n])
    if not kept:
        with pytest.raises(methods.NoAnswer):
            methods.selective(own, asked)
    else:
        assert np.isnan(methods.selective(own, asked)).sum() == middle


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


def test_a_nan_stops_the_default_of_mapie():
    """The reproduction of `experiments/mapie_nan.md`: 33 thresholds pass one by one, none by the default."""
    pytest.importorskip("mapie")
    text = (Path(methods.__file__).parent / "mapie_nan.md").read_text(encoding="utf-8")
    code = text.split("```python\n")[1].split("```")[0]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(code, {})
    assert printed.getvalue() in text


def test_the_correction_by_bonferroni_answers_where_the_default_is_silent():
    pytest.importorskip("mapie")
    asked = methods.LIMITS["precision ≥ .7"]
    low = methods.Scored(0.9 * DATA.p, DATA.y, DATA.g, 0.9 * DATA.fresh_p, DATA.fresh_y, DATA.fresh_g)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(methods.NoAnswer):
            methods.mapie(low, asked, "bonferroni_holm")
        q = methods.mapie(low, asked, "bonferroni")
    assert asked.beyond(q, DATA.fresh_y, DATA.fresh_g) <= 0


@pytest.mark.parametrize("rounds", [0, 10])
def test_linear_post_answers_as_the_authors_program(rounds):
    """Run with a copy of github.com/uiuctml/fair-classification on the path."""
    pytest.importorskip("linearpost.models")
    original = pytest.importorskip("linearpost.postprocess")
    inside = np.eye(2)[DATA.g]
    joint = (inside[:, :, None] * P[:, None, :]).reshape(len(P), -1)
    fresh = (np.eye(2)[DATA.fresh_g][:, :, None] * methods.pair(DATA.fresh_p)[:, None, :]).reshape(len(P), -1)
    labels = 2 * DATA.g + DATA.y if rounds else None
    theirs = original.LinearPostSimple(2, 2, "eo", alpha=0.05, max_iters_dcal=rounds, seed=0)
    theirs.fit(p_ay_x=joint, labels_ay=labels)
    mine = methods.linear_post(DATA, methods.LIMITS["odds gap ≤ .05"], rounds)
    assert np.mean(mine != theirs.predict(p_ay_x=fresh)) <= 0.005


def test_a_method_dominates_that_keeps_as_many_with_a_smaller_error():
    def runs(error: float, beyond: float) -> list[dict[str, float]]:
        return [{"seed": k, "error": error + 1e-4 * k, "beyond": beyond} for k in range(6)]

    of = {"a": runs(0.2, -0.1), "b": runs(0.1, -0.1), "c": runs(0.05, 0.1)}
    assert dominating(of, "a") == ["b"]
    assert dominating(of, "b") == []
