import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from reference import SOLVERS, check_mixture, cvxpy_value, highs_value, measure, random_game
from scipy.optimize import linprog

from tailboost.solvers import SolverError, minimize_cvar_mixture, mixture_path
from tailboost.solvers.mixture import mixture_program

seeds = st.integers(0, 2**32 - 1)


@pytest.mark.slow
def test_a_thousand_games_against_highs():
    for seed in range(1200):
        losses, alpha, base = random_game(seed)
        solution = minimize_cvar_mixture(losses, alpha, base)
        check_mixture(solution, losses, alpha, base)
        value = highs_value(losses, alpha, base)
        assert abs(solution.value - value) <= 1e-8 * (1 + abs(value)), seed


def check_against_cvxpy(seeds):
    compared = 0
    for seed in seeds:
        losses, alpha, base = random_game(seed)
        # Interior points of general solvers need bounds within some orders of magnitude of each other.
        p = measure(base, losses.shape[1])
        if p.min() < 1e-6 or not 1e-6 < alpha < 0.9999:
            continue
        value = minimize_cvar_mixture(losses, alpha, base).value
        for solver in SOLVERS:
            reference = cvxpy_value(losses, alpha, base, solver)
            assert abs(value - reference) <= 1e-8 * (1 + abs(value)), (seed, solver)
        compared += 1
    return compared


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.filterwarnings("ignore::FutureWarning:cvxpy")  # its default solver changes
def test_against_other_solvers():
    assert check_against_cvxpy(range(80)) >= 40


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*ECOS", "ignore:Solution may be inaccurate")
@pytest.mark.filterwarnings("ignore::FutureWarning:cvxpy")
def test_a_thousand_games_against_other_solvers():
    assert check_against_cvxpy(range(2000)) >= 1000


def larger_game(seed):
    """Return a random game for the fast method: with ties, constants, repeated and real losses."""
    rng = np.random.default_rng(seed)
    n_members, n_units = int(rng.integers(2, 16)), int(rng.integers(300, 1500))
    losses = rng.random((n_members, n_units)) < rng.beta(0.5, 2, n_units)
    kind = seed % 6
    if kind == 1:
        losses[-1] = ~losses[0]
    elif kind == 2:
        losses[-2:] = [np.arange(n_units) < 0.3 * n_units, np.arange(n_units) >= 0.3 * n_units]
    elif kind == 3:
        losses[:, rng.random(n_units) < 0.3] = losses[:, :1]
    elif kind == 4:
        losses = np.abs(rng.normal(size=losses.shape)) * losses + rng.choice([0, 0.2])
    elif kind == 5:
        losses = np.round(rng.random(losses.shape), 1)
    wide = 10 ** rng.uniform(-6, 6, n_units)
    base = [None, None, rng.random(n_units) + 0.05, 1.0 + rng.integers(0, 3, n_units), wide][rng.integers(5)]
    return losses, float(rng.choice([1e-9, 0.003, 0.02, 0.1, 0.3, 0.5, 0.7, 0.95])), base


@pytest.mark.slow
def test_fast_method_against_highs():
    for seed in range(120):
        losses, alpha, base = larger_game(seed)
        solution = minimize_cvar_mixture(losses, alpha, base)
        check_mixture(solution, losses, alpha, base)
        if measure(base, losses.shape[1]).min() > 1e-9:
            assert solution.value == pytest.approx(highs_value(losses, alpha, base), abs=1e-8), seed


@pytest.mark.parametrize("wrong_cap", [lambda n: 1 / (0.6 * n), lambda n: 2.0], ids=["1/(alpha n)", "none"])
def test_a_wrong_cap_is_noticed(wrong_cap, monkeypatch):
    def wrong(losses, cap, *rest):
        return mixture_program(losses, np.full(cap.size, wrong_cap(cap.size)), *rest)

    monkeypatch.setattr("tailboost.solvers.mixture.mixture_program", wrong)
    losses = np.random.default_rng(1).random((6, 50)) < 0.4
    base = np.random.default_rng(2).random(50) + 0.1
    with pytest.raises(SolverError):
        minimize_cvar_mixture(losses, 0.6, base)


def test_the_checker_notices_a_wrong_cap():
    losses, base = np.random.default_rng(1).random((6, 50)) < 0.4, np.random.default_rng(2).random(50) + 0.1
    solution = minimize_cvar_mixture(losses, 0.3, base)
    check_mixture(solution, losses, 0.3, base)
    with pytest.raises(AssertionError):
        check_mixture(minimize_cvar_mixture(losses, 0.3), losses, 0.3, base)


@given(seeds)
@settings(deadline=None, max_examples=60)
def test_weight_is_repetition_and_order_does_not_matter(seed):
    losses, alpha, _ = random_game(seed)
    rng = np.random.default_rng(seed)
    counts, order = rng.integers(1, 4, losses.shape[1]), rng.permutation(losses.shape[1])
    weighted = minimize_cvar_mixture(losses, alpha, counts)
    repeated = minimize_cvar_mixture(np.repeat(losses, counts, axis=1), alpha)
    shuffled = minimize_cvar_mixture(losses[:, order], alpha, counts[order])
    p, values = counts / counts.sum(), losses.astype(float)
    for other in (repeated, shuffled):  # of optima with one mean any may be returned
        assert other.value == pytest.approx(weighted.value, abs=2e-8 * (1 + abs(weighted.value)))
        assert other.mixture @ values @ p == pytest.approx(weighted.mixture @ values @ p, abs=1e-3)


@given(seeds)
@settings(deadline=None, max_examples=60)
def test_complementary_slackness(seed):
    losses, alpha, base = random_game(seed)
    solution = minimize_cvar_mixture(losses, alpha, base)
    p, scale = measure(base, losses.shape[1]), np.ptp(losses.astype(float)) or 1.0
    slack = losses.astype(float) @ solution.unit_weights - solution.dual_value
    assert solution.mixture @ slack <= 2e-8 * (scale + abs(solution.value))
    combined = solution.mixture @ losses.astype(float)
    w, eta = solution.unit_weights, solution.threshold
    # Above the boundary at the cap, below it at zero.
    misplaced = np.where(combined > eta, p / alpha - w, w) * np.abs(combined - eta)
    if alpha >= p[p > 0].min():
        assert misplaced.sum() <= 2e-8 * (scale + abs(solution.value))


@given(seeds)
@settings(deadline=None, max_examples=40)
def test_value_falls_with_alpha(seed):
    losses, _, base = random_game(seed)
    values = [minimize_cvar_mixture(losses, alpha, base).value for alpha in (1e-6, 0.1, 0.4, 0.8, 1.0)]
    assert (np.diff(values) <= 1e-8 * (1 + np.abs(values[0]))).all()


@pytest.mark.parametrize("seed", range(60))
def test_canonical_mixture_has_least_mean_loss(seed):
    losses, alpha, base = random_game(seed)
    if np.ptp(losses.astype(float)) > 2:
        return
    check_least_mean(losses, alpha, base)


def test_one_of_two_optima_that_a_degenerate_vertex_hides():
    solution = minimize_cvar_mixture([[0, 1, 0, 0], [0, 0, 1, 1]], 0.5)
    assert solution.value == pytest.approx(0.5)  # both alone, and every mixture
    assert solution.mixture == pytest.approx([1, 0])


def test_small_zero_one_games_have_the_least_mean():
    rng = np.random.default_rng(0)
    for _ in range(150):
        losses = rng.random((rng.integers(2, 6), rng.integers(3, 9))) < 0.4
        check_least_mean(losses, float(rng.choice([0.2, 0.3, 0.5])), None)


def check_least_mean(losses, alpha, base):
    """Compare the mean loss with the least one among mixtures of least CVaR, by a linear program."""
    n_members, n_units = losses.shape
    p, solution = measure(base, n_units), minimize_cvar_mixture(losses, alpha, base)
    # Variables λ, η, ξ: η + Σ pξ/α ≤ value, ξ ≥ l − η.
    means = losses.astype(float) @ p
    result = linprog(
        np.concatenate([means, [0], np.zeros(n_units)]),
        A_ub=np.vstack([
            np.concatenate([np.zeros(n_members), [1], p / alpha]),
            np.hstack([losses.T.astype(float), -np.ones((n_units, 1)), -np.eye(n_units)]),
        ]),
        b_ub=np.append(solution.value + 1e-10, np.zeros(n_units)),
        A_eq=[np.concatenate([np.ones(n_members), [0], np.zeros(n_units)])], b_eq=[1.0],
        bounds=[(0, None)] * n_members + [(None, None)] + [(0, None)] * n_units,
    )  # fmt: skip
    if result.status == 0:  # a general solver may fail for bounds of very different size
        assert means @ solution.mixture <= result.fun + 1e-6


@pytest.mark.parametrize("seed", range(40))
def test_canonical_weights_are_closest_to_p(seed):
    losses, alpha, base = random_game(seed)
    p = measure(base, losses.shape[1])
    if p.min() < 1e-6 or not 1e-3 < alpha < 0.99 or np.ptp(losses.astype(float)) > 2:
        return
    solution, w = minimize_cvar_mixture(losses, alpha, base), cp.Variable(p.size, nonneg=True)
    constraints = [losses.astype(float) @ w >= solution.dual_value - 1e-9, cp.sum(w) == 1, w <= p / alpha]
    problem = cp.Problem(cp.Minimize(cp.sum_squares(cp.multiply(w - p, 1 / np.sqrt(p)))), constraints)
    problem.solve(solver="CLARABEL")
    ours = ((solution.unit_weights - p) ** 2 / p).sum()
    assert ours <= problem.value + 1e-5 * (1 + problem.value)


def test_equal_members_give_way_to_the_first():
    rng = np.random.default_rng(0)
    losses = rng.random((4, 60)) < 0.4
    solution = minimize_cvar_mixture(losses[[0, 1, 2, 3, 0, 1, 2, 3]], 0.3)
    np.testing.assert_array_equal(solution.mixture[4:], 0)
    np.testing.assert_allclose(solution.mixture[:4], minimize_cvar_mixture(losses, 0.3).mixture, atol=1e-9)


@pytest.mark.parametrize("real", [False, True])
def test_many_members_of_few_kinds_are_solved_as_few(real):
    rng = np.random.default_rng(1)
    kinds = rng.random((20, 60)) if real else rng.random((20, 60)) < 0.35
    copies = np.concatenate([np.arange(20), rng.integers(0, 20, 1480)])
    solution = minimize_cvar_mixture(kinds[copies], 0.3)
    check_mixture(solution, kinds[copies], 0.3, None)
    single = minimize_cvar_mixture(kinds, 0.3)
    np.testing.assert_array_equal(solution.mixture[20:], 0)
    np.testing.assert_allclose(solution.mixture[:20], single.mixture, atol=1e-9)
    assert solution.value == pytest.approx(single.value, abs=1e-12)


def test_the_coin_flip_of_two_constants():
    positive = np.arange(100) < 30
    noise = np.random.default_rng(0).random((3, 100)) < 0.45
    solution = minimize_cvar_mixture(np.vstack([noise, positive, ~positive]), 0.02)
    assert solution.value == pytest.approx(0.5, abs=1e-9)


def test_few_members_suffice():
    # A vertex has no more members than conditions: two complementary members, not a mixture of all pairs.
    half = np.random.default_rng(0).random((10, 500)) < 0.5
    solution = minimize_cvar_mixture(np.vstack([half, ~half]), 1e-6)
    assert (solution.mixture > 0).sum() == 2


def test_maximisers_below_the_error_mass_spread_over_the_rest():
    # Error mass 0.1 < α: weights p/α on the errors, the rest evenly on all others.
    losses = (np.arange(20) < 2)[None]
    w = minimize_cvar_mixture(losses, 0.5).unit_weights
    np.testing.assert_allclose(w, np.where(losses[0], 0.1, 0.8 / 18), atol=1e-12)


@pytest.mark.parametrize("n_units", [2, 7, 100])
def test_minimax_over_classes_with_unequal_base(n_units):
    rng = np.random.default_rng(n_units)
    errors = rng.random((12, n_units))
    solution = minimize_cvar_mixture(errors, 1e-9, rng.random(n_units) + 0.01)
    assert solution.value == pytest.approx((solution.mixture @ errors).max())
    result = linprog(
        np.append(np.zeros(12), 1), A_ub=np.hstack([errors.T, -np.ones((n_units, 1))]),
        b_ub=np.zeros(n_units), A_eq=[np.append(np.ones(12), 0)], b_eq=[1],
    )  # fmt: skip
    assert solution.value == pytest.approx(result.fun, abs=1e-8)


def test_alpha_one_is_the_best_single_member():
    losses = np.random.default_rng(0).random((6, 80)) < [[0.5], [0.2], [0.4], [0.2], [0.3], [0.9]]
    solution = minimize_cvar_mixture(losses, 1.0)
    assert solution.mixture[losses.mean(axis=1).argmin()] == 1


def test_one_unit_and_more_members_than_units():
    assert minimize_cvar_mixture([[0.3], [0.2]], 0.5).value == 0.2
    losses = np.eye(30, 4, dtype=bool)
    check_mixture(minimize_cvar_mixture(losses, 0.1), losses, 0.1, None)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("offset", [0.0, -1e3])
def test_scale_and_offset_of_losses(scale, offset):
    losses = np.random.default_rng(5).random((6, 40))
    plain = minimize_cvar_mixture(losses, 0.2)
    moved = minimize_cvar_mixture(offset * scale + scale * losses, 0.2)
    assert moved.value == pytest.approx(offset * scale + scale * plain.value, rel=1e-9)
    np.testing.assert_allclose(moved.mixture, plain.mixture, atol=1e-6)


def test_path_gives_the_values_of_single_solves():
    losses = np.random.default_rng(0).random((12, 400)) < 0.3
    alphas = [0.5, 0.01, 1.0, 0.2, 0.2]
    for alpha, solution in zip(alphas, mixture_path(losses, alphas), strict=True):
        single = minimize_cvar_mixture(losses, alpha)
        assert solution.value == pytest.approx(single.value, abs=1e-9)
        np.testing.assert_allclose(solution.mixture, single.mixture, atol=1e-8)


def test_medium_size_of_every_kind():
    rng = np.random.default_rng(0)
    plain = rng.random((40, 3000)) < rng.beta(0.5, 2, 3000)
    others = np.vstack([plain[:38], plain[:1], ~plain[:1]])
    for losses in (plain, others, np.where(rng.random(3000) < 0.3, plain[:, :1], plain)):
        for alpha in (0.02, 0.3, 0.8):
            solution = minimize_cvar_mixture(losses, alpha)
            check_mixture(solution, losses, alpha, None)
            assert solution.value == pytest.approx(highs_value(losses, alpha), abs=1e-8)


@pytest.mark.parametrize(("arguments", "message"), [
    (dict(losses=[1.0, 2.0]), "losses"), (dict(losses=np.empty((0, 3))), "losses"),
    (dict(losses=[[1.0, np.inf]]), "losses"), (dict(alpha=0.0), "alpha"), (dict(alpha=1.5), "alpha"),
    (dict(alpha=np.nan), "alpha"), (dict(base=[1.0]), "shape"),
    (dict(losses=np.eye(2, 3), base=[1.0, 1.0]), "base"), (dict(base=[1.0, -1.0]), "[Nn]egative.*base"),
    (dict(base=[0.0, 0.0]), "base.*zero"),
])  # fmt: skip
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        minimize_cvar_mixture(**{"losses": [[0.0, 1.0], [1.0, 0.0]], "alpha": 0.5} | arguments)


def test_candidates_that_are_hardly_used_get_no_weight():
    errors = np.array(
        [[49, 34], [47, 37], [45, 43], [43, 43], [39, 46], [41, 46], [54, 36], [0, 87], [78, 0]]
    ) / [78, 87]  # fmt: skip
    solution = minimize_cvar_mixture(errors, 0.5)
    np.testing.assert_allclose(solution.mixture, [0] * 7 + [0.5, 0.5], rtol=0, atol=1e-12)
    assert abs(solution.value - 0.5) <= 1e-12


@pytest.mark.parametrize("start", [[], [[0.5, 0.5]], 1.0, [0, 0], [1, -1], [1, 1, 1]])
def test_a_start_is_a_list_of_weights(start):
    with pytest.raises(ValueError, match="start must be"):
        minimize_cvar_mixture([[0, 1, 1], [1, 0, 0]], 0.5, start=start)
