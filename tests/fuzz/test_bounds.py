"""Certificates and monitors with few values, later groups, and repeated rows.

A case is a table, or a series of batches, with true bounds. Equal: no false certificate or
alarm, or as few as the confidence allows. Violation: more false ones; a new group without
a name in the report; accepted copies of earlier rows.
"""

from __future__ import annotations

import numpy as np
import pytest

import tailboost as tb

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
ALLOWED = 0.05


class Model:
    """Answers a column of the rows, coded from ``low`` on."""

    classes_ = np.array([0, 1])

    def __init__(self, low=0.0):
        self.low = low

    def predict(self, X):
        return (np.asarray(X, dtype=float)[:, 0] - self.low > 0.5).astype(int)


def few_valued(rng, n, levels, continuous=False):
    """Features of few levels, the first of two; the answer is wrong in 30 % of the rows, by the second."""
    X = np.column_stack([rng.integers(0, 2, n), *(rng.integers(0, k, n) for k in levels)]).astype(float)
    share = np.where(X[:, 1] == 0, 0.3 + 0.2 * (levels[0] - 1), 0.1)  # 30 % over all levels
    y = np.where(rng.random(n) < share, 1 - X[:, 0], X[:, 0]).astype(int)
    return (np.c_[X, rng.normal(size=n)] if continuous else X), y


def count(tally, false, cases, what):
    """Count cases of which a share of 5 % and two standard errors may be false."""
    if false <= cases * (ALLOWED + 2 * np.sqrt(ALLOWED * (1 - ALLOWED) / cases)):
        tally.equal(cases)
    else:
        tally.violation((*what, f"{false} of {cases} are false"))


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("levels", [(2,), (3, 2), (2, 2, 4)])
def test_certificates_of_clusters(tally, levels, continuous):
    rng, false = np.random.default_rng(len(levels)), 0
    for k in range(200):
        clusters, rows = int(rng.integers(20, 200)), int(rng.integers(2, 12))
        X, y = few_valued(rng, clusters * rows, levels, continuous)
        X[:, 0] += k % 10
        model, whose = Model(k % 10), np.repeat(np.arange(clusters), rows)
        cert = tb.certify(model, X, y, clusters=whose)
        false += any(bound.upper < 0.3 for bound in cert.bounds)
    count(tally, false, 200, ("certify", levels, continuous))
