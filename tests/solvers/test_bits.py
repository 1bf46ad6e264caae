import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailboost.solvers import BitLosses, minimize_cvar_mixture
from tailboost.solvers.bits import DenseLosses, as_losses

shapes = st.tuples(st.integers(1, 20), st.integers(1, 40), st.integers(0, 2**32 - 1))


@given(shapes)
@settings(deadline=None)
def test_kernels_agree_with_dense_arithmetic(shape):
    n_members, n_units, seed = shape
    rng = np.random.default_rng(seed)
    dense = rng.random((n_members, n_units)) < 0.4
    bits = BitLosses.from_rows(dense)
    lam, w = rng.random(n_members), rng.random(n_units)
    assert bits.shape == dense.shape
    np.testing.assert_array_equal(bits.toarray(), dense)
    np.testing.assert_allclose(bits.combine(lam), lam @ dense, atol=1e-13)
    np.testing.assert_allclose(bits.expectations(w), dense @ w, atol=1e-13)
    np.testing.assert_allclose(bits.means(), dense.mean(axis=1), atol=1e-13)
    units, members = rng.integers(0, n_units, 5), rng.integers(0, n_members, 3)
    np.testing.assert_array_equal(bits.select(members, units).toarray(), dense[np.ix_(members, units)])
    np.testing.assert_array_equal(bits.columns(units), dense[:, units].T)
    for losses in (bits, DenseLosses(dense.astype(float))):
        centred = dense.T - dense @ w / w.sum()
        np.testing.assert_allclose(losses.covariance(w), (centred.T * w) @ centred, atol=1e-12)
        first, inverse = losses.patterns()
        np.testing.assert_array_equal(dense[:, first][:, inverse], dense)
        assert first.size == np.unique(dense, axis=1).shape[1]


def test_append_leaves_earlier_objects_as_they_were():
    rows = np.random.default_rng(0).random((12, 7)) < 0.5
    states = [BitLosses(7)]
    for row in rows:
        states.append(states[-1].append(row))
    # A second branch from every state must not disturb the first.
    branches = [state.append(~rows[0]).append(rows[1]) for state in states]
    for t, state in enumerate(states):
        np.testing.assert_array_equal(state.toarray(), rows[:t])
    for t, branch in enumerate(branches):
        np.testing.assert_array_equal(branch.toarray(), [*rows[:t], ~rows[0], rows[1]])


def test_pattern_of_a_state_ignores_rows_appended_later():
    state = BitLosses.from_rows(np.zeros((3, 4), dtype=bool))
    state.append([True, False, False, True])
    assert state.patterns()[0].size == 1


@pytest.mark.parametrize("n_members", [0, 1, 8, 11])
def test_pickle_and_copy(n_members):
    rows = np.random.default_rng(n_members).random((n_members, 5)) < 0.5
    bits = BitLosses(5)
    for row in rows:
        bits = bits.append(row)
    for other in (pickle.loads(pickle.dumps(bits)), copy.deepcopy(bits)):
        np.testing.assert_array_equal(
            other.append(rows[0] if n_members else [0] * 5).toarray()[:n_members], rows
        )


def test_memory_is_one_bit_per_loss():
    planes = BitLosses.from_rows(np.ones((64, 1000), dtype=bool)).planes()
    assert sum(plane.nbytes for plane in planes) == 64 * 1000 // 8


def test_bits_and_floats_and_packed_give_the_same_solution():
    losses = np.random.default_rng(3).random((9, 60)) < 0.3
    solutions = [
        minimize_cvar_mixture(form, 0.2)
        for form in (losses, losses.astype(np.uint8), losses.astype(float), BitLosses.from_rows(losses))
    ]
    for solution in solutions[1:]:
        np.testing.assert_allclose(solution.mixture, solutions[0].mixture, atol=1e-9)


def test_real_losses_in_uint8_are_not_bits():
    assert isinstance(as_losses(np.array([[0, 3]], dtype=np.uint8)), DenseLosses)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: BitLosses(0), "least"),
        (lambda: BitLosses(3).append([1, 0]), "shape"),
        (lambda: BitLosses(3).append([1, 0, 2]), "zeros"),
        (lambda: BitLosses.from_rows([1, 0]), r"shape \(T, n\)"),
        (lambda: as_losses(BitLosses(3)), "candidate"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("n_members", [1, 8, 9, 17, 33])
def test_sums_over_units_are_those_of_dense_losses(n_members):
    rng = np.random.default_rng(n_members)
    rows = rng.random((n_members, 5000)) < rng.random((n_members, 1))
    lam, noise = rng.dirichlet(np.ones(n_members)), rng.random(5000)
    two = np.where(noise < 0.3, 0.7, np.where(noise < 0.6, 0.2, 0.0))
    weights = [noise, np.where(noise < 0.6, 0.5, noise), two]
    losses = BitLosses.from_rows(rows)
    np.testing.assert_allclose(losses.combine(lam), lam @ rows, atol=1e-14)
    for w in weights:
        np.testing.assert_allclose(losses.expectations(w), rows @ w, rtol=1e-12)
