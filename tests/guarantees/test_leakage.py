"""Certificates refuse rows of the fit, recognised by fingerprints."""

import warnings
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
from conftest import refused
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import tailboost as tb
from tailboost import rates

X, y = make_classification(2000, n_informative=5, random_state=0)
CUTS = [(0, 300), (300, 600), (600, 900)]
PAIRS = [("bayes", GaussianNB()), ("line", LogisticRegression())]


def test_rows_that_were_fitted_on_certify_nothing():
    mix = tb.RobustMixtureClassifier(PAIRS, random_state=0).fit(X[:600], y[:600])
    refused(lambda: tb.certify(mix, X[:600], y[:600]), "these", tb.LeakageError)
    assert tb.certify(mix, X[600:], y[600:]).bounds[0].upper < 0.5


def test_rows_that_were_chosen_on_certify_nothing():
    mix = tb.RobustMixtureClassifier(PAIRS, random_state=0)
    mix.fit(X[:600], y[:600], X_val=X[600:900], y_val=y[600:900])
    other = mix.reweight(X[900:1200], y[900:1200])
    for rows, known in ((slice(600, 900), mix), (slice(600, 900), other), (slice(900, 1200), other)):
        with pytest.raises(tb.LeakageError):
            tb.certify(known, X[rows], y[rows])
    tb.certify(mix, X[900:1200], y[900:1200])


def test_calibration_rows_certify_nothing_later():
    mix = tb.RobustMixtureClassifier(PAIRS, random_state=0).fit(X[:600], y[:600])
    point = tb.calibrate(mix, X[600:1300], y[600:1300], limits=[tb.rates.error(by="class") <= 0.4])
    errors = tb.metrics.class_errors(y[1300:], point.predict(X[1300:]))
    assert point.certificate_.certified
    assert np.max(list(errors.values())) < 0.4  # 95 % of the time; the seed is fixed
    with pytest.raises(tb.LeakageError):
        tb.certify(point, X[600:1300], y[600:1300])


def noise(n, seed):
    """Rows with random labels: the true error is ½."""
    r = np.random.default_rng(seed)
    return r.normal(size=(n, 4)), r.integers(0, 2, n)


def forest(X, y):
    trees = RandomForestClassifier(10, random_state=0)
    return tb.RobustMixtureClassifier([("forest", trees)], cv=0.3, random_state=0).fit(X, y)


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.UselessRuleWarning")
@pytest.mark.parametrize("how", ["twice", "bootstrap", "two bootstraps", "oversampled", "appended"])
def test_copies_that_somebody_made_hide_no_training_row(how):
    X, y = noise(300, 0)
    r = np.random.default_rng(1)
    rows = {
        "twice": np.tile(np.arange(300), 2), "bootstrap": r.integers(0, 300, 300),
        "two bootstraps": r.integers(0, 300, 600),
        "oversampled": np.r_[np.arange(300), np.repeat(np.flatnonzero(y == 1), 3)],
        "appended": np.r_[np.arange(300), np.arange(200)],
    }[how]  # fmt: skip
    mix = forest(X[rows], y[rows])
    refused(lambda: tb.certify(mix, X, y), "trained", tb.LeakageError)
    with pytest.raises(tb.LeakageError):
        tb.calibrate(mix, X, y, limits=[tb.rates.error(by="class") <= 0.4])
    with pytest.warns(tb.ResubstitutionWarning):
        mix.reweight(X, y)
    assert tb.certify(mix, *noise(300, 2)).bounds[0].upper > 0.5


@pytest.mark.filterwarnings("ignore:.*the bound is not met:UserWarning")
@pytest.mark.parametrize("how", ["alone", "calibrated"])
def test_frozen_models_of_tailboost_are_asked_for_their_rows(how, tmp_path):
    inner = tb.RobustMixtureClassifier(PAIRS, random_state=0)
    inner.fit(X[:600], y[:600], X_val=X[600:900], y_val=y[600:900])
    frozen = FrozenEstimator(inner)
    models = [("inner", frozen if how == "alone" else CalibratedClassifierCV(frozen))]
    for rows in (slice(0, 600), slice(600, 900)):
        with pytest.warns(tb.ResubstitutionWarning, match="training rows"):
            mix = tb.RobustMixtureClassifier(models, random_state=0).fit(X[rows], y[rows])
    with warnings.catch_warnings():
        warnings.simplefilter("error", tb.ResubstitutionWarning)
        mix = tb.RobustMixtureClassifier(models, random_state=0).fit(X[900:1300], y[900:1300])
    with pytest.warns(tb.ResubstitutionWarning, match="training rows"):
        mix.reweight(X[:600], y[:600])
    assert mix.records_.complete
    if how == "alone":  # a file keeps the fingerprints
        tb.save_model(mix, tmp_path / "m.model")
        mix = tb.load_model(tmp_path / "m.model")
    for rows in (slice(0, 600), slice(600, 900)):
        refused(lambda: tb.certify(mix, X[rows], y[rows]), "Give rows", tb.LeakageError)
        with pytest.raises(tb.LeakageError, match="Give rows"):
            tb.calibrate(mix, X[rows], y[rows], limits=[tb.rates.error(by="class") <= 0.4])
    assert tb.certify(mix, X[1300:], y[1300:]).n_rows == 700


@pytest.mark.filterwarnings("ignore:.*rows trained the model is not checked")
def test_rows_of_other_frozen_models_are_as_stated():
    model = LogisticRegression().fit(X[:600], y[:600])
    mix = tb.tune(model, X[:600], y[:600])  # not known
    assert not mix.records_.complete
    for certificate in (
        tb.certify(mix, X[900:], y[900:]),
        tb.certify(model, X[900:], y[900:], training_rows=X[:0]),  # no row was compared
    ):
        assert any("fresh as stated" in note for note in certificate.notes)


@pytest.mark.filterwarnings("ignore::UserWarning")  # noise below every limit
@pytest.mark.parametrize("curves", ["two rates", "gap"])
def test_rows_by_which_a_point_of_two_rates_was_picked_do_not_certify_it(curves):
    (X, y), (Z, z), (U, u) = ((X[a:b], y[a:b]) for X, y in [noise(900, 3)] for a, b in CUTS)
    groups = {"sex": np.resize(["f", "m"], 300)}
    mix = tb.RobustMixtureClassifier(PAIRS, random_state=0, objective="error")
    mix.fit(X, y, groups=groups)
    limited = rates.miss(1) if curves == "two rates" else rates.gap(rates.selected(1, by="sex"))
    curve = mix.tradeoff(limited, rates.error(), n_points=3)
    level = min(1.0, curve[0][0] + 0.01)
    before = curve.at(level)
    curve.predicted(Z, z, groups=groups)
    asked = {"rates": [rates.error()]}
    # Who sees the rates of points chooses one of them, by whatever way.
    again = mix.tradeoff(limited, rates.error(), n_points=3).at(level)
    for point in (curve.at(level), *(point for _, _, point in curve), before, again, mix.reweight(limits=[])):
        refused(lambda: tb.certify(point, Z, z, **asked), "selected", tb.LeakageError)
        assert tb.certify(point, U, u, **asked).n_rows == 300


def test_copies_of_distinct_rows_that_are_said_to_be_natural_are_refused():
    X, y = noise(300, 0)
    refused(lambda: tb.certify(forest(X, y), X, y, equal_rows="natural"), "trained", tb.LeakageError)


def test_reweight_warns_of_training_rows_that_a_caller_stated():
    X, y = make_classification(600, random_state=0)
    model = LogisticRegression().fit(X[:200], y[:200])
    clf = tb.tune(model, X[200:400], y[200:400], training_rows=X[:200])
    with pytest.warns(tb.ResubstitutionWarning, match="training rows"):
        clf.reweight(X[:200], y[:200])
    with warnings.catch_warnings():
        warnings.simplefilter("error", tb.ResubstitutionWarning)
        clf.tradeoff().predicted(X[400:], y[400:])  # which judges, and trains nothing
        clf.reweight(X[400:], y[400:])


@pytest.mark.parametrize("noise", [0.0, 1e-13, 1e-9])
def test_rows_twice_are_copies_also_with_rounding_errors(noise):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = (X[:, 0] + rng.normal(size=600) > 0).astype(int)
    model = LogisticRegression().fit(X[400:], y[400:])
    twice = np.r_[X[:400], X[:400] * (1.0 + noise)]
    with pytest.raises(tb.LeakageError, match="2 times"):
        tb.calibrate(model, twice, np.r_[y[:400], y[:400]], limits=["error() <= 60%"])


def test_scores_that_are_dense_for_one_label_are_no_copies():
    rng = np.random.default_rng(0)
    y = (rng.random(1500) < 0.3).astype(int)
    dense = rng.integers(300, size=1500) / 1000  # about four rows a score
    score = np.where(y == 1, 0.3 + rng.integers(4000, size=1500) / 10_000, dense)
    rule = tb.calibrate(tb.Scores(0, 1), score[:, None], y, limits=["error() <= 60%"])
    assert rule.certificate_.certified


class Answering:
    def __init__(self, model):
        self.predict = model.predict
        self.model = model

    def __call__(self, X):
        return self.model.predict_proba(X)


def answers_of(X, model):
    return model.predict_proba(X)


def first_of(X, models):
    return models[0][0](X)


class CloneOfItself(Answering, BaseEstimator):
    def __sklearn_clone__(self):
        return self


PLACES = ["a method", "a part", "an object", "objects", "an odd clone", "some columns", "other columns"]


@pytest.mark.parametrize("place", PLACES)
def test_rows_that_a_part_of_a_step_may_know_are_not_called_compared(place):
    forest = RandomForestClassifier(20, random_state=0).fit(X[:600], y[:600])
    columns = [0, 1, 2] if place == "some columns" else [2, 1, 0]
    inside = FrozenEstimator(tb.RobustMixtureClassifier(PAIRS).fit(X[:600][:, columns], y[:600]))
    on_columns = ColumnTransformer([("m", FunctionTransformer(inside.predict_proba), columns)])
    step = {
        "a method": FunctionTransformer(forest.predict_proba),
        "a part": FunctionTransformer(partial(answers_of, model=forest)),
        "an object": FunctionTransformer(Answering(forest)),
        "objects": FunctionTransformer(first_of, kw_args={"models": [(Answering(forest),)]}),
        "an odd clone": FunctionTransformer(first_of, kw_args={"models": [(CloneOfItself(forest),)]}),
    }.get(place, on_columns)
    for first, is_compared in ((step, False), (StandardScaler(), True)):
        model = make_pipeline(first, LogisticRegression())
        mix = tb.RobustMixtureClassifier([("all", model)], random_state=0)
        mix.fit(X[600:1200], y[600:1200])
        with nullcontext() if is_compared else pytest.warns(UserWarning, match="training_rows"):
            certificate = tb.certify(mix, X[:600], y[:600])
        assert certificate.compared == is_compared == ("(not checked)" not in certificate.title)
