"""One path: every fitted classifier has the same attributes and one curve, whatever the limits."""

import numpy as np
import pytest
from conftest import errors_of, refused
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost import rates
from tailboost.classifiers.curve import Curve
from tailboost.selection.table import RateTable

ATTRIBUTES = ("classes_", "limits_met_", "objective_", "rates_", "subgroup_errors_", "validation_")


def model():
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))


def robust(X, y, **params):
    models = [("tree", DecisionTreeClassifier(max_depth=3, random_state=0)), ("line", model())]
    return tb.RobustMixtureClassifier(models, cv=2, random_state=0, **params).fit(X, y)


def tuned(X, y, **params):
    return tb.tune(model().fit(X[::2], y[::2]), X[1::2], y[1::2], **params)


def given(X, y, **params):
    P = model().fit(X[::2], y[::2]).predict_proba(X[1::2])
    return tb.RobustMixtureClassifier.from_probabilities({"m": P}, y[1::2], **params)


KINDS = {"robust": robust, "tune": tuned, "from_probabilities": given}
VACUOUS = {"limits": [rates.error() <= 1.0]}
PROBLEMS = {
    "nothing": {}, "vacuous limit": {"objective": "worst_class", **VACUOUS},
    "error budget": {"error_budget": 0.02}, "limit": {"limits": [rates.miss(1) <= 0.3]},
}  # fmt: skip


def data(name):
    X, y = {"binary": load_breast_cancer, "three classes": load_wine}[name](return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))[:300]
    noise = np.random.default_rng(1).normal(size=X.shape) * X.std(axis=0) * 1.5
    return (X + noise)[order], y[order]


@pytest.fixture(scope="module")
def fits():
    """Fitted classifiers by kind, problem and data, each fitted once."""
    known = {}

    def fit(kind, problem, of):
        if (kind, problem, of) not in known:
            X, y = data(of)
            n = len(y) * 2 // 3
            known[kind, problem, of] = KINDS[kind](X[:n], y[:n], **PROBLEMS[problem])
        X, y = data(of)
        return known[kind, problem, of], X[len(y) * 2 // 3 :], y[len(y) * 2 // 3 :]

    return fit


@pytest.mark.parametrize(("problem", "of"), [
    *((p, "binary") for p in PROBLEMS), *((p, "three classes") for p in ("nothing", "limit")),
])  # fmt: skip
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_same_attributes_are_there_and_none_raises(kind, problem, of, fits):
    found, _, _ = fits(kind, problem, of)
    has = {name: getattr(found, name) for name in ATTRIBUTES}
    assert isinstance(has["rates_"], RateTable)
    assert str(has["rates_"])
    assert has["subgroup_errors_"]
    limited = problem != "nothing"
    assert has["limits_met_"] in ((True, False) if limited else (None,))


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_one_class_of_curve_without_dominated_points(kind, problem, fits):
    found, _, _ = fits(kind, problem, "binary")
    curve = found.tradeoff(n_points=8)
    assert type(curve) is Curve
    limited, value = curve.values
    assert len(curve) >= 1
    assert (np.diff(limited) > 0).all()
    assert (np.diff(value) < 0).all()
    point = curve.at(float(limited[-1]))
    assert type(point) is type(found)
    assert str(curve)
    assert curve.to_dict()["curve"]["limited"] == limited.tolist()
    other = found.tradeoff(rates.miss(0), rates.error(), n_points=3)
    assert type(other) is Curve


@pytest.mark.parametrize("kind", ["robust", "tune"])
@pytest.mark.parametrize("problem", ["nothing", "limit"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_rows_seen_on_a_curve_are_refused_by_certify(kind, problem, fits):
    found, X, y = fits(kind, problem, "binary")
    curve = found.tradeoff(n_points=8)
    fresh = curve.at(curve[0].limited)
    tb.certify(fresh, X, y)
    limited, value = curve.predicted(X, y)
    assert limited.shape == value.shape == (len(curve),)
    with pytest.raises(tb.LeakageError):
        tb.certify(curve.at(curve[0].limited), X, y)
    # The rates of a point are the rates of its classifier.
    place = len(curve) // 2
    answers = curve[place].classifier.predict(X)
    if problem == "nothing":
        assert limited[place] == pytest.approx(np.mean(answers != y))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("of", ["binary", "three classes"])
@pytest.mark.parametrize("params", [
    {}, {"error_budget": 0.03}, {"objective": "error"}, {"limits": [rates.miss(1) <= 0.3]},
], ids=str)  # fmt: skip
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_limit_that_every_rule_satisfies_changes_no_answer(kind, of, params):
    X, y = data(of)
    own = {"objective": "worst_class"} | params if "limits" not in params else params
    plain = KINDS[kind](X[::2], y[::2], **own)
    limits = [*params.get("limits", ()), rates.error() <= 1.0, rates.miss(0) <= 1.0]
    more = KINDS[kind](X[::2], y[::2], **{**own, "limits": limits})
    if "limits" in params:  # another path of the search may lead to other weights of equal errors
        one, other = (max(line.value for line in clf.rates_ if not line.limit) for clf in (plain, more))
        assert abs(one - other) <= 0.01
        return
    assert str(plain.rule_) == str(more.rule_)
    if kind == "from_probabilities":
        P = model().fit(X[::2], y[::2]).predict_proba(X[1::2])
        assert plain.predict({"m": P}).tolist() == more.predict({"m": P}).tolist()
    else:
        assert plain.predict(X[1::2]).tolist() == more.predict(X[1::2]).tolist()
    assert plain.subgroup_errors_ == more.subgroup_errors_
    assert errors_of(plain).tolist() == errors_of(more).tolist()


class Never(LogisticRegression):
    def fit(self, X, y, sample_weight=None):
        pytest.fail("it is fitted")


def test_what_the_arguments_show_is_refused_before_any_work():
    X, y = data("binary")
    mix, clf = tb.RobustMixtureClassifier([("m", Never())]), tuned(X, y)
    calls = {
        "training_rows: X has 2": lambda: mix.fit(X, y, training_rows=X[:, :2]),
        "X_val: X has 2": lambda: mix.fit(X, y, X_val=X[:, :2], y_val=y),
        "rows: X has": lambda: tb.tune(pytest.fail, X, y, training_rows=X[:, :2]),
        "previous": lambda: tb.calibrate(pytest.fail, X, y, limits=["error <= .4"], previous=3),
        "requires y": lambda: tb.tune(tb.Scores(0, 1), X, None),
        "n_points .*-1": lambda: clf.tradeoff(n_points=-1),
        "n_points .*2.5": lambda: clf.tradeoff(n_points=2.5),
        "no label": lambda: clf.predict(X[:, :2], deferred=0),
    }  # fmt: skip
    for words, call in calls.items():
        refused(call, words)


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.SmallSubgroupsWarning")
def test_rows_that_cannot_be_compared_are_said_to_be_as_stated():
    X, y = data("binary")
    mix, alone = robust(X, y), given(X, y)
    P = {"m": mix.named_estimators_["tree"].predict_proba(X)}
    assert "as stated" in mix.reweight({"tree": P["m"], "line": P["m"]}, y).rates_.words
    with pytest.warns(tb.exceptions.ResubstitutionWarning, match="equal training rows"):
        assert "as stated" not in mix.reweight(X, y).rates_.words
    assert "as stated" not in alone.reweight(P, y).rates_.words
