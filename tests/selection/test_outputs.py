"""Outputs of several models."""

import numpy as np
from scipy.special import log_softmax

from tailboost.rows import Rows
from tailboost.selection.outputs import Models, Outputs

LOGS = np.log(np.random.default_rng(0).dirichlet(np.ones(3), (4, 20)))  # of four models on 20 rows


def test_every_model_has_its_own_probabilities():
    models = Models([*"abcd"], [], [], Rows(None, np.ones(0), None, ""), np.full(4, 0.25), np.zeros(3))
    table = Outputs(LOGS.__getitem__, models, None, None, None)
    for model in (2, 0, 3, 1, 2):
        np.testing.assert_array_equal(table.logs(model), LOGS[model])
    np.testing.assert_allclose(table.pooled, log_softmax(LOGS.mean(axis=0), axis=1))
