"""What several test modules share: noisy tables, learners that record or misbehave, the classifiers."""

from __future__ import annotations

import os
from functools import partial

# The suite runs in parallel on few cores: more threads than cores only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb

#: The classifiers whose answer is a mixture, and those among them that choose λ on validation losses.
MIXTURES = {
    "ada": tb.AdaLPBoostClassifier,
    "lp": tb.LPBoostClassifier,
    "reg": tb.RegularizedLPBoostClassifier,
    "average": tb.AverageBoostClassifier,
    "group": tb.GroupDROBoostClassifier,
    "worst": partial(tb.WorstClassBoostClassifier, class_loss="error", eta=1.0),
    "oco": partial(tb.OCOBoostClassifier, gamma=1e-9, eta=1.0),
}
VALIDATED = ("ada", "lp", "reg", "group", "worst")


def noisy(seed, n=120, d=4, K=2, grid=False):
    """Labels that no model explains: (X, y); ``grid`` gives few distinct values and equal rows."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (n, d)).astype(float) if grid else rng.normal(size=(n, d))
    y = (X @ rng.normal(size=(d, K)) + 1.5 * rng.gumbel(size=(n, K))).argmax(axis=1)
    y[:K] = np.arange(K)
    return X, y


def make(name, estimator=None, **params):
    """Return a mixture by its short name; parameters that it does not have are left out."""
    cls = MIXTURES[name]
    known = cls().get_params()
    return cls(estimator, **{k: v for k, v in params.items() if k in known})


class RecordingClassifier(ClassifierMixin, BaseEstimator):
    """Answers the heaviest class; ``fits`` counts the fits of all clones since the last reset."""

    fits = 0

    def fit(self, X, y, sample_weight=None):
        type(self).fits += 1
        self.classes_, index = np.unique(y, return_inverse=True)
        self.answer_ = np.bincount(index, weights=sample_weight).argmax()
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[self.answer_])


class InterruptedTree(DecisionTreeClassifier):
    """A tree whose fit number ``at`` (over all clones since the last reset) is hit by Ctrl-C."""

    count, at = 0, 3

    def fit(self, X, y, sample_weight=None):
        cls = type(self)
        cls.count += 1
        if cls.count == cls.at:
            raise KeyboardInterrupt
        return super().fit(X, y, sample_weight=sample_weight)


@pytest.fixture
def recorder():
    """Return the recording learner with its count of fits at zero."""
    RecordingClassifier.fits = 0
    return RecordingClassifier()


@pytest.fixture
def interrupted(monkeypatch):
    """Return a function that makes a tree interrupted at a given fit."""

    def at(fit):
        monkeypatch.setattr(InterruptedTree, "count", 0)
        monkeypatch.setattr(InterruptedTree, "at", fit)
        return InterruptedTree(max_depth=2)

    return at
