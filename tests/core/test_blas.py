"""Linear algebra in short calls has one thread; threadpoolctl, asked from outside, says how many."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from tailboost import solvers as solve
from tailboost.core.long_work import one_blas_thread
from tailboost.solvers import mixture


def threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture
def two():
    with threadpool_limits(2, user_api="blas"):
        if threads() != {2}:
            pytest.skip("this BLAS has one thread")
        yield


def test_one_inside_and_as_many_as_before_outside(two):
    with one_blas_thread():
        assert threads() == {1}
        with one_blas_thread():
            assert threads() == {1}
        assert threads() == {1}
    assert threads() == {2}
    with pytest.raises(KeyError), one_blas_thread():
        raise KeyError
    assert threads() == {2}


@pytest.mark.parametrize("first_out", [0, 1])
def test_blocks_of_python_threads_that_overlap(two, first_out):
    """Whichever begins and ends first, the number before all of them comes back."""
    begun, ended = [threading.Event() for _ in range(2)], [threading.Event() for _ in range(2)]

    def work(i):
        if i == 1:
            begun[0].wait()
        with one_blas_thread():
            begun[i].set()
            begun[1 - i].wait()
            if i != first_out:
                ended[first_out].wait()
        ended[i].set()

    other = threading.Thread(target=work, args=(1,))
    other.start()
    work(0)  # the main thread, which may change the number
    other.join()
    assert threads() == {2}
    with one_blas_thread():
        assert threads() == {1}


def test_programs_are_such_calls(two, monkeypatch):
    seen = []
    inner = mixture.solve  # a step within the public function
    monkeypatch.setattr(mixture, "solve", lambda *a, **k: seen.append(threads()) or inner(*a, **k))
    losses = np.random.default_rng(0).integers(0, 2, (5, 200))
    solve.minimize_cvar_mixture(losses, 0.3)
    solve.mixture_path(losses, [0.3, 0.6])
    assert set(map(frozenset, seen)) == {frozenset({1})}
    assert threads() == {2}
