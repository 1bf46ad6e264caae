import numpy as np
import pytest
from conftest import refused
from hypothesis import given, settings, strategies as st
from reference import brute_force_cvar, check_weights, measure

from tailboost.solvers import cvar, cvar_weights, entropic_weights, minimize_cvar_mixture, mixture_path

vectors = st.lists(st.integers(-3, 3), min_size=1, max_size=30)
alphas = st.floats(1e-6, 1.0)


@pytest.mark.parametrize("seed", range(60))
def test_against_brute_force(seed):
    rng = np.random.default_rng(seed)
    n_units = int(rng.integers(1, 8))
    losses = rng.integers(-2, 3, n_units) if seed % 2 else rng.normal(size=n_units)
    base = None if seed % 3 else rng.random(n_units) + 0.01
    alpha = float(rng.choice([1.0, 0.5, 1 / n_units, 1e-9, rng.random()]))
    assert cvar(losses, alpha, base) == pytest.approx(brute_force_cvar(losses, alpha, base), abs=1e-12)


@given(vectors, alphas, st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_both_definitions_agree_and_weights_are_feasible(values, alpha, seed):
    losses = np.array(values, dtype=float)
    base = np.random.default_rng(seed).integers(0, 4, losses.size).astype(float)
    base[0] += 1
    p = measure(base, losses.size)
    # (18): the minimum over η is at one of the losses.
    dual = min(eta + p @ np.maximum(losses - eta, 0) / alpha for eta in losses[p > 0])
    assert cvar(losses, alpha, base) == pytest.approx(dual, abs=1e-9 / alpha**0.5)
    check_weights(cvar_weights(losses, alpha, base), alpha, base)


@given(vectors, alphas, alphas)
@settings(deadline=None)
def test_falls_with_alpha_from_maximum_to_mean(losses, one, other):
    low, high = sorted([one, other])
    assert cvar(losses, low) >= cvar(losses, high) - 1e-12
    assert cvar(losses, 1.0) == pytest.approx(np.mean(losses))
    assert cvar(losses, 1e-12) == pytest.approx(max(losses))


@given(vectors, alphas, st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_weight_is_repetition(losses, alpha, seed):
    counts = np.random.default_rng(seed).integers(1, 4, len(losses))
    repeated = cvar_weights(np.repeat(losses, counts), alpha)
    np.testing.assert_allclose(
        np.add.reduceat(repeated, np.append(0, counts.cumsum()[:-1])),
        cvar_weights(losses, alpha, counts),
        atol=1e-9,
    )


@given(st.integers(1, 200), st.integers(0, 200), alphas)
@settings(deadline=None)
def test_deterministic_classifier(n_units, n_errors, alpha):
    losses = np.arange(n_units) < n_errors
    assert cvar(losses, alpha) == pytest.approx(min(1.0, losses.mean() / alpha))


def test_ties_share_in_proportion_to_p():
    w = cvar_weights([1, 0, 0, 0], 0.5, [1, 1, 2, 4])
    np.testing.assert_allclose(w, [0.25, 0.75 / 7, 1.5 / 7, 3 / 7])


def test_units_without_mass_get_no_weight():
    assert cvar([9.0, 1.0, 0.0], 0.5, [0, 1, 1]) == 1.0
    np.testing.assert_array_equal(cvar_weights([9.0, 1.0, 0.0], 1e-9, [0, 1, 1]), [0, 1, 0])


@pytest.mark.parametrize("alpha", [1e-12, 0.3, 1.0])
def test_many_units(alpha):
    check_weights(cvar_weights(np.random.default_rng(0).normal(size=200_001), alpha), alpha, None)


@pytest.mark.parametrize("seed", range(5))
def test_a_light_unit_at_the_boundary_is_not_given_the_rounding_of_all_others(seed):
    base = np.random.default_rng(seed).random(30_000)
    base[0] = 1e-6
    check_weights(cvar_weights(np.arange(30_000.0), 1.0, base), 1.0, base)


@pytest.mark.parametrize("solve", [
    lambda alpha: cvar([1.0, 0.0], alpha), lambda alpha: minimize_cvar_mixture([[1.0, 0.0]], alpha).value,
    lambda alpha: mixture_path([[1.0, 0.0]], [alpha])[0].value,
    lambda alpha: 1 - entropic_weights([[1.0, 0.0], [0.0, 1.0]], alpha, 1e9).value,
])  # fmt: skip
def test_alpha_whose_inverse_is_no_number(solve):
    assert 0.5 - 1e-6 <= solve(1e-307) <= 1
    refused(lambda: solve(5e-324), "alpha")


@pytest.mark.parametrize("alpha", [0, -0.1, 1.0001, np.nan, "a", None])
def test_alpha_outside_its_range(alpha):
    refused(lambda: cvar([1.0], alpha), "alpha")


@pytest.mark.parametrize(("losses", "base", "message"), [
    ([], None, "losses"), ([[1.0]], None, "losses"), ([1.0, np.nan], None, "losses"), (["a"], None, "losses"),
    ([1.0, 2.0], [1.0], "shape"), ([1.0, 2.0], [1.0, -1.0], "[Nn]egative.*base"),
    ([1.0, 2.0], [0.0, 0.0], "base.*zero"), ([1.0, 2.0], [np.inf, 0.0], "infinity|NaN|finite"),
])  # fmt: skip
def test_bad_input(losses, base, message):
    refused(lambda: cvar(losses, 0.5, base), message)
