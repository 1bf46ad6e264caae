"""Tables of log-probabilities remember each result under its own key."""

import numpy as np
import pytest
from scipy.special import log_softmax

from tailboost.selection.outputs import Average, LogProbabilities

LOGS = np.log(np.random.default_rng(0).dirichlet(np.ones(3), (4, 20)))  # of four models on 20 rows


def test_every_model_has_its_own_probabilities():
    table = LogProbabilities(20, LOGS.__getitem__, Average.equal(4, 3))
    for model in (2, 0, 3, 1, 2):
        np.testing.assert_array_equal(table[model], LOGS[model])
    np.testing.assert_allclose(table.pooled, log_softmax(LOGS.mean(axis=0), axis=1))


@pytest.mark.parametrize("keys", [[0, 1, 2], [("a", 0), ("a", 1), ("b", 0)], ["a", ("a",), ("a", 0), 0]])
def test_a_result_is_made_once_for_each_key(keys):
    """A dict of a loop is the truth: the first result of a key stays, and no key has that of another."""
    table = LogProbabilities(20, LOGS.__getitem__, Average.equal(4, 3))
    calls, first = [], {}
    for number, key in enumerate(keys * 3):
        first.setdefault(key, number)
        result = table.derived(key, lambda number=number: calls.append(number) or number)
        assert result == first[key]
    assert calls == list(range(len(keys)))


def test_keys_alike_in_part_are_different():
    """The keys of this library: an order and the scores of one model's rows, and those of another's."""
    table = LogProbabilities(20, LOGS.__getitem__, Average.equal(4, 3))
    for model in range(4):
        order = table.derived(("order", model), lambda model=model: np.argsort(LOGS[model][:, 1]))
        strata = table.derived(("strata", model), lambda model=model: np.exp(LOGS[model]))
        np.testing.assert_array_equal(order, np.argsort(LOGS[model][:, 1]))
        np.testing.assert_allclose(strata.sum(axis=1), 1)
        np.testing.assert_allclose(np.log(strata), LOGS[model])
