"""Certificates and monitors with few values, later groups, and repeated rows.

A case is a table, or a series of batches, with true bounds. Equal: no false certificate or
alarm, or as few as the confidence allows. Violation: more false ones; a new group without
a name in the report; accepted copies of earlier rows.
"""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
import pytest

import tailboost as tb
from tailboost import rates

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
    rng, false = np.random.default_rng(len(levels)), Counter()
    for k in range(200):
        clusters, rows = int(rng.integers(20, 200)), int(rng.integers(2, 12))
        X, y = few_valued(rng, clusters * rows, levels, continuous)
        X[:, 0] += k % 10
        model, whose = Model(k % 10), np.repeat(np.arange(clusters), rows)
        cert = tb.certify(model, X, y, clusters=whose)
        false["certify"] += any(cert.bound(*of).upper < 0.3 for of in (("mean",), ("class", 0), ("class", 1)))
        watch = tb.Monitor.against(model, limits=[rates.error() <= 0.3, rates.error(by="class") <= 0.3])
        false["watch"] += bool(watch.add(model, X, y, clusters=whose, equal_rows="natural").alarms)
    for what in ("certify", "watch"):
        count(tally, false[what], 200, (what, levels, continuous))


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("levels", [(2,), (3,), (2, 5)])
def test_monitors_of_gaps(tally, levels, continuous):
    rng, false = np.random.default_rng(7), 0
    limits = [rates.gap(rates.selected(1, by="group")) <= 0.0, rates.ratio(rates.error(by="group")) >= 1.0]
    for _ in range(200):
        watch = tb.Monitor.against(Model(), limits=limits, subgroups=["a", "b"])
        for _ in range(int(rng.integers(1, 4))):
            n = int(rng.integers(100, 1500))
            X, y = few_valued(rng, n, levels, continuous)
            groups = rng.choice(["a", "b"], n, p=[0.7, 0.3])
            watch = watch.add(Model(), X, y, groups=groups, equal_rows="natural")
        false += bool(watch.alarms)
    count(tally, false, 200, ("gap", levels, continuous))


def test_groups_that_appear_later(tally):
    """New groups are named and counted; violated limits raise an alarm, others do not."""
    rng, false = np.random.default_rng(0), 0
    limits = [rates.error(by="group") <= 0.3, rates.gap(rates.error(by="group")) <= 0.2]
    for k in range(200):
        watch, seen = tb.Monitor.against(Model(), limits=limits, subgroups=["a", "b"]), Counter()
        for j in range(4):
            X, y = few_valued(rng, 400, (2,), continuous=True)
            names = rng.choice(["a", "b", f"new {j}", "spät"][: 2 + j], 400)
            seen.update(name for name in names.tolist() if name not in "ab")
            watch = watch.add(Model(), X, y, groups=names)
        false += bool(watch.alarms)
        said = "\n".join(watch.notes())
        named = all(f"{name} ({n:,} rows)" in said for name, n in seen.items())
        X, y = few_valued(rng, 400, (2,), continuous=True)
        names = np.where(np.arange(400) < 100, f"bad {k}", "a")
        y[:100] = 1 - Model().predict(X[:100])
        broken = watch.add(Model(), X, y, groups=names)
        if named and any(alarm.bound.others for alarm in broken.alarms):
            tally.equal()
        else:
            tally.violation(("later", k, named, broken.verdict))
    count(tally, false, 200, ("later",))


def test_batches_that_repeat_rows(tally):
    """Batches with a share of rows of earlier ones: more than 10 % in all are refused, fresh ones are not."""
    rng = np.random.default_rng(0)
    for k in range(150):
        share, size = rng.choice([0.0, 0.02, 0.25, 0.5, 1.0]), int(rng.choice([5, 20, 100]))
        size = 100 if share == 0.02 else size  # two copies among five rows are many, though rare
        X, y = few_valued(rng, 4000, (3,), continuous=True)
        watch, refused, start = tb.Monitor.against(Model(), 0.45), False, 0
        for j in range(int(600 / size)):
            old = rng.random(size) < share if j else np.zeros(size, dtype=bool)
            part = np.where(old, rng.integers(0, max(start, 1), size), start + np.arange(size))
            try:
                watch = watch.add(Model(), X[part], y[part])
            except tb.LeakageError:
                refused = True
                break
            start += size
        if refused == (share > 0.1):
            tally.refused() if refused else tally.equal()
        else:
            tally.violation(("repeated", k, share, size, refused))


def test_models_that_know_their_rows(tally):
    """Rows of many choices, of each of which a batch holds a few, are refused together."""
    rng = np.random.default_rng(0)
    X, y = few_valued(rng, 3000, (4,), continuous=True)
    model = tb.WorstClassBoostClassifier(n_estimators=1, random_state=0).fit(X[:200], y[:200])
    for k in range(20):
        model = model.reweight(X[200 + 100 * k : 300 + 100 * k], y[200 + 100 * k : 300 + 100 * k])
    for _ in range(50):
        few = np.concatenate([200 + 100 * k + rng.choice(100, 5, replace=False) for k in range(20)])
        fresh = rng.choice(np.arange(2200, 3000), 100, replace=False)
        for rows, wanted in ((few, True), (fresh, False)):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    tb.certify(model, X[rows], y[rows])
                refused = False
            except tb.LeakageError:
                refused = True
            if refused != wanted:
                tally.violation(("choices", wanted, refused))
            else:
                tally.refused() if refused else tally.equal()
