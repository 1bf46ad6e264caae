"""Sparse matrices of all layouts give the results of their dense form and are not changed."""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sparse_layouts import content, layouts, locked

import tailboost as tb
from tailboost.learners import HistBoostClassifier, HistTreeClassifier

RNG = np.random.default_rng(0)
Z = RNG.integers(1, 9, size=(120, 4)) * (RNG.random((120, 4)) < 0.6) / 4
Y = (Z @ [1, -1, 0.5, -0.5] + 0.3 * RNG.normal(size=120) > 0.1).astype(int)
TREES = HistBoostClassifier(n_estimators=4, max_depth=2)


def few(cls):
    names = cls().get_params(deep=False)
    return cls(random_state=0, **({"n_estimators": 3} if "n_estimators" in names else {}))


PAIRS = [("trees", TREES), ("forest", RandomForestClassifier(5, random_state=0))]
#: One estimator for each way to read a table; the campaign covers all classifiers.
MODELS = {
    "worstclassboost": few(tb.WorstClassBoostClassifier), "adaboost": few(tb.AdaBoostClassifier),
    "mixture": tb.RobustMixtureClassifier(PAIRS, cv=0.3, random_state=0),
    "HistBoost": TREES, "HistTree": HistTreeClassifier(max_depth=2),
}  # fmt: skip


def said(model, X):
    return model.predict(X).tolist(), getattr(model, "predict_proba", model.predict)(X).tolist()


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", MODELS)
def test_every_layout_means_its_dense_form(name):
    model = clone(MODELS[name])
    model.fit(sp.csr_matrix(4 * Z), Y)
    want = said(model, sp.csr_matrix(4 * Z))
    for i, (layout, matrix) in enumerate(layouts(4 * Z).items(), list(MODELS).index(name)):
        dtype = (np.float64, np.float32, np.int64)[i % 3]
        if dtype == np.int64 and layout == "csc, entries repeated":
            continue  # holds halves
        given = locked(matrix.astype(dtype))
        before = content(given)
        for time in ("first", "second"):
            assert said(model, given) == want, (layout, dtype, time)
        assert content(given) == before, (layout, dtype)


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_is_that_of_the_dense_form_and_leaves_the_table(name):
    model = clone(MODELS[name])
    want = said(model.fit(sp.csr_matrix(Z), Y), sp.csr_matrix(Z))
    for layout in ("csr, zeros stored", "csr, entries repeated", "csr, not sorted", "csc, entries repeated"):
        given = locked(layouts(Z)[layout])
        before = content(given)
        assert said(clone(model).fit(given, Y), sp.csr_matrix(Z)) == want, layout
        assert content(given) == before, layout


@pytest.mark.parametrize("layout", ["csr, zeros stored", "csr, not sorted"])
def test_threads_share_one_matrix(layout):
    large = np.tile(Z, (60, 1))
    clf = few(tb.WorstClassBoostClassifier).fit(sp.csr_matrix(Z), Y)
    want = clf.predict(sp.csr_matrix(large)).tolist()
    for _ in range(2):
        given, begin = layouts(large)[layout], threading.Barrier(8)

        def ask(i, given=given, begin=begin):
            begin.wait()
            return clf.predict(given).tolist() == want

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(ask, range(8)))


@pytest.fixture(scope="module")
def dense():
    """Return the default flagship, fitted on dense rows, fresh dense rows, and what it does with them."""
    rng = np.random.default_rng(1)
    fresh = rng.normal(size=(200, 4)) * (rng.random((200, 4)) < 0.8)
    fresh = fresh[np.count_nonzero(fresh, axis=1) > 0]
    y = (fresh @ [1, -1, 0.5, -0.5] > 0.1).astype(int)
    clf = tb.RobustMixtureClassifier(random_state=0).fit(sp.csr_matrix(Z), Y)
    return fresh, y, done(clf, Z, sp.csr_matrix(fresh), y)


def done(clf, trained, X, y):
    """Return the results of every use of rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            *said(clf, X), said(tb.tune(clf, X, y), trained), said(clf.reweight(X, y), trained),
            np.asarray(clf.tradeoff().predicted(X, y)).tolist(),
            [bound.upper for bound in tb.certify(clf, X, y).bounds],
        ]  # fmt: skip


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "dok", "lil", "bsr", "dia"])
@pytest.mark.slow
def test_the_default_flagship_takes_every_format_of_scipy(layout, kind, dense):
    """SciPy's DOK arrays derive from dict, but are no probabilities by the name of a model."""
    fresh, y, expected = dense
    make = getattr(sp, f"{layout}_{kind}")
    trained, given = make(Z), make(fresh)
    clf = tb.RobustMixtureClassifier(random_state=0).fit(trained, Y)
    assert done(clf, trained, given, y) == expected
    np.testing.assert_array_equal(given.toarray(), fresh)
