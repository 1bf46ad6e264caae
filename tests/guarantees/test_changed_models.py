"""A certificate is about the fitted models that had it: a later fit of them is seen wherever it is used."""

import copy
import os
import pickle
import threading
import zipfile
from functools import partial, wraps

import numpy as np
import pytest
from conftest import refused, write_forged
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost.selection.identity import identity_of

LIMITS = ["miss(1) <= 60%"]


def drawn(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    return rng.normal(size=(n, 4)) + 0.7 * y[:, None], y


X, Y = drawn(400, 0)
FRESH, LABELS = drawn(800, 1)
LATER, LATER_LABELS = drawn(800, 2)


def calibrated(model=None):
    model = model or LogisticRegression().fit(X, Y)
    return tb.calibrate(model, FRESH, LABELS, limits=LIMITS, training_rows=X)


USES = {
    "certificate": lambda rule: rule.certificate_,
    "verdict": lambda rule: rule.limits_met_,
    "monitor": tb.Monitor,
    "monitor of a pipeline": lambda rule: tb.Monitor(make_pipeline("passthrough", rule)),
    "card": lambda rule: tb.ModelCard.of(rule, LATER, LATER_LABELS),
    "calibrate": lambda rule: tb.calibrate(rule, LATER, LATER_LABELS),
    "certify": lambda rule: tb.certify(rule, LATER, LATER_LABELS),
    "inside another": lambda rule: tb.certify(tb.tune([rule], LATER, LATER_LABELS), *drawn(800, 3)),
    "pickle": pickle.dumps,
    "file": lambda rule: tb.save_model(make_pipeline(StandardScaler().fit(X), rule), os.devnull),
}


@pytest.mark.parametrize("use", USES)
def test_a_fit_of_the_rules_own_model_is_seen(use):
    rule = calibrated()
    rule.rule_.bands.clear()  # those of a copy
    USES[use](rule)
    rule.predict(LATER)
    rule.estimators_[0].estimator.fit(X, 1 - Y)
    refused(lambda: USES[use](rule), "changed after")
    assert "changed after" in str(rule)  # what is shown never raises
    assert "changed after" in rule._repr_html_()


def test_copies_and_files_have_the_certificate_and_see_a_fit_too(tmp_path):
    rule = calibrated(RandomForestClassifier(5, random_state=0).fit(X, Y))
    tb.save_model(rule, tmp_path / "r.model")
    for other in (copy.deepcopy(rule), pickle.loads(pickle.dumps(rule)), tb.load_model(tmp_path / "r.model")):
        assert tb.Monitor(other).add(LATER, LATER_LABELS).certificate == rule.certificate_
        other.estimators_[0].estimator.fit(X, 1 - Y)
        refused(lambda: tb.Monitor(other), "changed after")
    assert rule.certificate_.certified  # the copies are no part of it


def test_a_rule_without_certificate_is_not_calibrated_after_a_fit_of_its_model():
    rule = tb.tune(LogisticRegression().fit(X, Y), LATER, LATER_LABELS, limits=LIMITS)
    rule.estimators_[0].estimator.fit(FRESH, LABELS)
    refused(lambda: tb.calibrate(rule, FRESH, LABELS, training_rows=X), "changed after")
    assert not rule.ledger_.attempts


@pytest.mark.parametrize("model", [
    LogisticRegression(), RandomForestClassifier(3), make_pipeline(StandardScaler(), LogisticRegression()),
], ids=["linear", "forest", "pipeline"])  # fmt: skip
def test_a_certificate_of_certify_is_of_the_model_as_it_was(model):
    model.fit(X, Y)
    certificate = tb.certify(model, FRESH, LABELS, limits=LIMITS, training_rows=X)
    assert tb.Monitor(model, certificate).add(LATER, LATER_LABELS)
    with pytest.raises(ValueError, match="another rule or model"):  # another model with this certificate
        tb.Monitor(DecisionTreeClassifier().fit(X, Y), certificate)
    model.fit(X, 1 - Y)
    refused(lambda: tb.Monitor(model, certificate), "another rule or model")


def test_steps_before_a_rule_count():
    scaler = StandardScaler().fit(X)
    model, rows = LogisticRegression().fit(scaler.transform(X), Y), scaler.transform(LATER)
    pipe = make_pipeline(scaler, tb.tune(model, rows, LATER_LABELS, training_rows=scaler.transform(X)))
    with pytest.warns(UserWarning, match="not checked"):  # the rows of the scaler are not known
        certificate = tb.certify(pipe, FRESH, LABELS)
    assert not certificate.compared
    tb.Monitor(pipe, certificate)
    scaler.fit(3 * X)
    refused(lambda: tb.Monitor(pipe, certificate), "another rule or model")


def test_a_certificate_is_of_its_rule_alone():
    rule, other = calibrated(), calibrated(RandomForestClassifier(9, random_state=0).fit(X, Y))
    turned = make_pipeline(FunctionTransformer(np.negative), rule)
    for model in (turned, LogisticRegression().fit(X, Y), other):
        refused(lambda: tb.Monitor(model, rule.certificate_), "another rule")
    of_answers = tb.certify(LABELS, None, LABELS, limits=["error() <= 10%"])
    refused(lambda: tb.Monitor(rule, of_answers), "another rule")
    refused(lambda: tb.Monitor(turned), "no certificate")
    refused(lambda: tb.ModelCard.of(rule, LATER, LATER_LABELS, monitor=tb.Monitor(other)), "monitor")


@pytest.mark.filterwarnings("ignore:X. whether these rows")
def test_what_trained_a_step_before_a_rule_is_not_known():
    step = LinearDiscriminantAnalysis().fit(FRESH, LABELS)
    mix = tb.RobustMixtureClassifier([("tree", DecisionTreeClassifier(max_depth=2))], random_state=0)
    pipe = make_pipeline(step, mix.fit(step.transform(X), Y))
    assert tb.certify(make_pipeline("passthrough", mix), step.transform(FRESH), LABELS).compared
    for model in (pipe, make_pipeline(pipe), FrozenEstimator(pipe), tb.tune([pipe], LATER, LATER_LABELS)):
        assert not tb.certify(model, FRESH, LABELS).compared


class Client:
    classes_ = np.array([0, 1])

    def __init__(self):
        self.lock, self.calls = threading.Lock(), 0

    def predict_proba(self, X):
        p = 1 / (1 + np.exp(1.4 - X.sum(axis=1)))
        return np.column_stack([1 - p, p])


class Counting(Client):
    def __init__(self):
        self.calls = 0

    def predict_proba(self, X):
        self.calls += 1
        return super().predict_proba(X)


def hidden():
    clf = tb.RobustMixtureClassifier([("tree", DecisionTreeClassifier())], random_state=0).fit(X, Y)
    return lambda X: clf.predict_proba(X)


def doubled(module):
    double = FunctionTransformer(eval("lambda X: 2 * X", module))
    return make_pipeline(double, LogisticRegression()).fit(X, Y)


UNKNOWN = {
    "a closure around a classifier": (hidden, "lambda"),
    "a lock, as of a server's client": (Client, "lock"),
    "a model that counts its calls": (Counting, "Counting (it changes"),
    "neighbours, whose tree counts": (lambda: KNeighborsClassifier(5).fit(X, Y), "it changes"),
    "a step with a function of one's own": (
        lambda: make_pipeline(FunctionTransformer(lambda X: 2 * X), LogisticRegression()).fit(X, Y),
        "lambda",
    ),
    "function without a module": (partial(doubled, {}), "lambda"),
    "function of a library of a similar name": (partial(doubled, {"__name__": "sklearn_mine.a"}), "lambda"),
}


@pytest.mark.filterwarnings("ignore:.*rows trained the model is not checked")
@pytest.mark.parametrize("form", UNKNOWN)
def test_parts_that_cannot_be_compared_are_named(form):
    made, name = UNKNOWN[form]
    rule = tb.calibrate(made(), FRESH, LABELS, limits=LIMITS)
    assert "(not checked)" in rule.certificate_.title
    (note,) = (note for note in rule.certificate_.notes if note.startswith("Not compared"))
    assert name in note
    assert not any("Not compared" in note for note in calibrated().certificate_.notes)
    assert tb.Monitor(rule).add(LATER, LATER_LABELS)  # answers alone are no change


def test_few_stated_training_rows_are_not_all():
    model = LogisticRegression().fit(X, Y)
    for certify in (tb.certify, lambda *args, **given: tb.calibrate(*args, **given).certificate_):
        with pytest.warns(UserWarning, match="not checked"), pytest.warns(UserWarning, match="has 3 rows"):
            certificate = certify(model, FRESH, LABELS, limits=LIMITS, training_rows=X[:3])
        assert "(not checked)" in certificate.title
        assert certify(model, FRESH, LABELS, limits=LIMITS, training_rows=X).compared


def test_edited_numbers_of_a_model_file_are_refused(tmp_path):
    tb.save_model(calibrated(), tmp_path / "r.model")
    with zipfile.ZipFile(tmp_path / "r.model") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    schema = parts["schema.json"].decode()
    assert '"0.6"' in schema
    parts["schema.json"] = schema.replace('"0.6"', '"0.1"').encode()
    edited = write_forged(tmp_path / "edited.model", parts)
    refused(lambda: tb.load_model(edited), "certificate was changed after it was written")


class Parts:
    def __init__(self, **parts):
        vars(self).update(parts)


GRID = {"max_depth": [1, 2], "criterion": ["gini", "entropy"]}
COPIED = [
    RandomForestClassifier(5, random_state=0), HistGradientBoostingClassifier(max_iter=5),
    GridSearchCV(DecisionTreeClassifier(), GRID),
    VotingClassifier([("a", LogisticRegression())], voting="soft"),
]  # fmt: skip
COPIED = [*(model.fit(X, Y) for model in COPIED), make_pipeline(StandardScaler().fit(X), calibrated())]


@pytest.mark.parametrize("model", COPIED, ids=lambda model: type(model).__name__)
def test_copies_are_the_model_and_a_later_fit_of_them_is_not(model):
    certificate = tb.certify(model, *drawn(400, 3), limits=["error() <= 90%"], training_rows=X)
    pairs = [pickle.loads(pickle.dumps((model, certificate))), (copy.deepcopy(model), certificate)]
    for own, its in [*pairs, (pickle.loads(pickle.dumps(model)), certificate)]:
        assert tb.Monitor(own, its).add(LATER, LATER_LABELS).alarms == []
        getattr(own, "steps", [(0, own)])[0][1].fit(X[:200] * 2, 1 - Y[:200])
        refused(lambda: tb.Monitor(own, its), "fitted again")


def test_the_identity_is_that_of_the_content():
    def made(**changed):
        own = {"a": np.arange(6.0), "t": ("x", 1), "s": {3, 4}, "o": np.array([None, "b"])}
        own["w"] = np.zeros(2, "f2")
        found = Parts(**(own | changed))
        found.itself = found
        return identity_of([found, LogisticRegression(C=2.0)])

    assert made() == made()
    changes = [{"a": np.arange(6.0)[::-1]}, {"a": np.arange(6.0).reshape(2, 3)}, {"t": ("x", 2)}, {"s": {3}}]
    changes += [{"o": np.array([None, "c"])}, {"w": np.zeros(2, "f4")}, {"z": 1}]
    assert len({made(**changed) for changed in changes}) == len(changes)
    left = {*range(1000)} - {*range(2, 1000)} | {512}  # in another order than a copy
    assert made(s=left) == made(s={512, 1, 0}) != made(s={1, 0})
    assert made(f=len, g=np.tanh, r=np.random.default_rng(0)).unknown == ()
    assert made(f=made, lock=threading.Lock()).unknown == (made.__qualname__, "lock")
    deep = []
    for _ in range(5000):
        deep = [deep]
    assert identity_of(deep) == ("", ("list",))


class Overriding:
    """Answers 0 to rows without a positive first feature, whatever its rule says."""

    @wraps(tb.TunedClassifier.predict)  # which copies the name of the module
    def predict(self, X, **kwargs):
        return np.where(np.asarray(X)[:, 0] > 0, super().predict(X, **kwargs), 0)


class OwnRule(Overriding, tb.TunedClassifier): ...


class OwnMixture(Overriding, tb.RobustMixtureClassifier): ...


class OwnSearch(Overriding, GridSearchCV): ...


class OwnPipeline(Overriding, Pipeline): ...


@pytest.mark.filterwarnings("ignore:.*rows trained the model is not checked")
@pytest.mark.parametrize("kind", ["rule", "mixture", "search", "pipeline", "method"])
def test_a_model_with_its_own_predict_is_certified_by_its_answers(kind):
    rule = tb.tune(LogisticRegression().fit(X[:200], Y[:200]), X[200:], Y[200:], limits=LIMITS)
    model = {
        "rule": lambda: OwnRule(rule.models, limits=LIMITS).fit(X[200:], Y[200:]),
        "mixture": lambda: OwnMixture([("m", LogisticRegression())], limits=LIMITS, cv=2).fit(X, Y),
        "search": lambda: OwnSearch(tb.RobustMixtureClassifier(cv=2), {"cv": [2]}, cv=2).fit(X, Y),
        "pipeline": lambda: OwnPipeline([("s", FunctionTransformer()), ("r", rule)]),
        "method": lambda: copy.copy(rule),
    }[kind]()
    if kind == "method":
        model.predict = wraps(rule.predict)(lambda X: np.where(X[:, 0] > 0, rule.predict(X), 0))
    missed = np.mean(model.predict(FRESH)[LABELS == 1] != 1)
    (bound,) = tb.certify(model, FRESH, LABELS, limits=["miss(1) <= 30%"]).bounds
    assert bound.estimate == missed > 0.3
    refused(lambda: tb.certify(model, X[200:], Y[200:]), "on", tb.LeakageError)
    if kind in ("rule", "method"):  # another rule on its probabilities, which answers itself
        other = tb.calibrate(model, FRESH, LABELS, limits=LIMITS)
        assert type(other) is tb.TunedClassifier
        refused(lambda: tb.Monitor(model, other.certificate_), "another rule")
