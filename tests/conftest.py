"""Shared by test modules: noisy tables, recording and faulty learners, the classifiers."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import signal
import zipfile
import zlib
from inspect import signature

# The suite runs in parallel on few cores: more threads than cores only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb

# A shell's background jobs ignore Ctrl-C: interrupt tests would wait forever.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect tests without searches for garbage, and leave what is loaded out of later searches.

    Modules and tests live until the end, so every search through them finds nothing. Later searches come
    after 20,000 new objects, not 700: most tests are over before.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000)
        gc.enable()


# As in scikit-learn's TunedThresholdClassifierCV, the answer need not be the most probable label.
MOVED = {
    "check_classifiers_train": "thresholds are not at equal probabilities",
    "check_class_weight_classifiers": "class_weight trains the models; the rule is selected by the objective",
}
#: The boosting classifiers under test, by their class names in lower case.
OURS = {
    name.lower(): getattr(tb, f"{name}Classifier")
    for name in [
        *("AdaLPBoost", "LPBoost", "AverageBoost", "OCOBoost", "DROBoost", "AdaBoost", "VadaBoost"),
        *("EBBoost", "SoftMarginBoost", "GroupDROBoost", "WorstClassBoost"),
    ]
}
MIXTURES = {name: cls for name, cls in OURS.items() if hasattr(cls, "reweight")}
ADDITIVE = {name: cls for name, cls in OURS.items() if name not in MIXTURES}


def refused(call, match, error=ValueError):
    with pytest.raises(error, match=match):
        call()


@pytest.fixture
def watched(monkeypatch):
    """Return a function that lists the calls of a function by name, each as its arguments and its result."""

    def watch(owner, name):
        calls, own = [], getattr(owner, name)

        def noted(*given):
            calls.append((given, own(*given)))
            return calls[-1][1]

        monkeypatch.setattr(owner, name, noted)
        return calls

    return watch


def write_forged(path, parts, **record):
    """Write parts of a model file, which may be edited, with the digest that a forger can compute."""
    record = {"format": 7, "versions": {}, "notes": {}, "digest": None, **record}
    sums = {name: zlib.crc32(part) for name, part in parts.items() if name != "tailboost.json"}
    content = json.dumps([sums, record], sort_keys=True).encode()
    record["digest"] = hashlib.blake2b(content, digest_size=16).hexdigest()
    with zipfile.ZipFile(path, "w") as archive:
        [archive.writestr(*part) for part in {**parts, "tailboost.json": json.dumps(record)}.items()]
    return path


def errors_of(clf):
    """Return the errors of `predict` on the subgroups as an array."""
    return np.array(list(clf.subgroup_errors_.values()))


def noisy(seed, n=120, d=4, K=2, grid=False):
    """Return (X, y) with random labels; ``grid`` gives few distinct values and equal rows."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (n, d)).astype(float) if grid else rng.normal(size=(n, d))
    y = (X @ rng.normal(size=(d, K)) + 1.5 * rng.gumbel(size=(n, K))).argmax(axis=1)
    y[:K] = np.arange(K)
    return X, y


def make(name, estimator=None, **params):
    """Return a classifier by its name; unknown parameters are left out."""
    cls, params = OURS[name], {"estimator": estimator} | params
    return cls(**{k: v for k, v in params.items() if k in signature(cls).parameters})


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
    """Tree with a Ctrl-C in fit number ``at``, counted over all clones since the last reset."""

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
