"""Rows known to a rule are refused in every form: a table of paths, kinds of models, and forms.

A cell is a path (the first use of rows), a kind of model, a form of the same rows, and a second use. The
second use must raise for the same rows, and take fresh rows in the same form.
"""

import copy
import functools
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import tailboost as tb
from tailboost import rates
from tailboost.selection.outputs import Models

pytestmark = pytest.mark.filterwarnings("ignore")

N = 150
LIMITS = ["miss(1) <= .9"]
# Tried and missed: a limit out of reach of the selection data is refused without an attempt.
HARD, HARD_FOR_THREE, EASY = ["precision(1) >= 90%"], ["precision(1) >= 94.5%"], ["miss(1) <= .95"]


def features(seed, n=N):
    """Return a data frame of three columns, and labels, which depend on the first column."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    return table, (table["a"] + rng.normal(size=n) > 0).astype(int).to_numpy()


def first_column(table):
    """Return probabilities of label 1, as a function of users does."""
    table = table.toarray() if sp.issparse(table) else table
    column = table["a"] if hasattr(table, "columns") else np.asarray(table)[:, 0]
    return 1 / (1 + np.exp(-np.asarray(column, dtype=float)))


def probabilities(seed, n=N):
    table, y = features(seed, n)
    return {"u": first_column(table), "v": first_column(table[["b"]].to_numpy())}, y


def sparse(seed, n=N):
    table, y = features(seed, n)
    return sp.csr_matrix(table.where(table.abs() > 0.3, 0.0).to_numpy()), y


def three_classes(seed, n=N):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    P = rng.dirichlet(np.ones(3), size=n) + np.eye(3)[y]
    Q = rng.dirichlet(np.ones(3), size=n) + np.eye(3)[y]
    return {"u": P / P.sum(axis=1, keepdims=True), "v": Q / Q.sum(axis=1, keepdims=True)}, y


def scores(seed, n=N):
    P, y = probabilities(seed, n)
    month = np.random.default_rng(seed).integers(12, size=n)
    return pd.DataFrame({"u": P["u"], "v": P["v"], "month": month}), y


def polars(table):
    return import_module("polars").from_pandas(table)


def arrow(table):
    return import_module("pyarrow").Table.from_pandas(table)


#: Forms of the installed libraries.
OF_LIBRARIES = {form.__name__: form for form, of in ((polars, "polars"), (arrow, "pyarrow")) if find_spec(of)}

OF_FRAMES = {
    "the same": lambda X: X, "another order of rows": lambda X: X.iloc[::-1],
    "two thirds of the rows": lambda X: X.iloc[: 2 * len(X) // 3], "float32": lambda X: X.astype(np.float32),
    "objects": lambda X: X.astype(object), "another index": lambda X: X.set_axis(np.arange(len(X)) + 7),
} | OF_LIBRARIES  # fmt: skip
OF_ARRAYS = {
    "array": lambda X: X.to_numpy(),
    "columns of memory": lambda X: np.asfortranarray(X.to_numpy()),
    "list": lambda X: X.to_numpy().tolist(),
}
OF_SPARSE = {
    "the same": lambda X: X, "coordinates": lambda X: X.tocoo(), "columns": lambda X: sp.csc_array(X),
    "lists of lists": lambda X: X.tolil(), "another order of rows": lambda X: X[::-1],
}  # fmt: skip
OF_DICTS = {
    "the same": lambda P: P,
    "models in another order": lambda P: dict(reversed(P.items())),
    "two thirds of the rows": lambda P: {k: p[: 2 * len(p) // 3] for k, p in P.items()},
    "another order of rows": lambda P: {k: p[::-1] for k, p in P.items()},
    "lists": lambda P: {k: np.asarray(p).tolist() for k, p in P.items()},
    "float32": lambda P: {k: np.asarray(p, dtype=np.float32) for k, p in P.items()},
}
OF_PAIRS = OF_DICTS | {
    "two columns": lambda P: {k: np.c_[1 - p, p] for k, p in P.items()},
    "data frames": lambda P: {k: pd.DataFrame({1: p, 0: 1 - p}) for k, p in P.items()},
    "series": lambda P: {k: pd.Series(p, name=1) for k, p in P.items()},
    "unlike forms": lambda P: {"v": np.c_[1 - P["v"], P["v"]], "u": P["u"]},
}
OF_CLASSES = OF_DICTS | {"columns reordered": lambda P: {k: pd.DataFrame(p)[[2, 0, 1]] for k, p in P.items()}}
OF_SCORES = OF_FRAMES | {"the score in a dict": lambda X: {"u": X["u"].to_numpy()}}


def tuned(model):
    """Return the selection of a rule for a model."""
    return lambda X, y, **more: tb.tune(model, X, y, limits=LIMITS, **more)


@cache
def regression():
    table, y = features(90)
    return LogisticRegression().fit(table, y)


@cache
def boosted():
    return tb.WorstClassBoostClassifier(n_estimators=2, random_state=0).fit(*features(91))


def mixed(X, y, **more):
    models = {"u": tb.Scores("u", 1), "model": lambda T: first_column(T.rename(columns={"v": "a"}))}
    return tuned(models)(X, y, **more)


def given(X, y, **more):
    return tb.RobustMixtureClassifier.from_probabilities(X, y, limits=LIMITS, **more)


def mixture(X, y, **more):
    models = [("regression", LogisticRegression())]
    return tb.RobustMixtureClassifier(models, limits=LIMITS, cv=2, random_state=0).fit(X, y, **more)


def mixture_validated(X, y):
    models = [("regression", LogisticRegression())]
    return tb.RobustMixtureClassifier(models, limits=LIMITS).fit(*features(92), X_val=X, y_val=y)


def frozen(wrap):
    """Return a function from training rows to a rule on a model with a frozen classifier of these rows."""

    def select(X, y):
        return tuned(wrap(mixture(X, y)))(*features(93))

    return select


FORMS_OF_FEATURES = OF_FRAMES | OF_ARRAYS
#: Rows, the selection, and the forms of each kind.
KINDS = {
    "mixture": (features, mixture, FORMS_OF_FEATURES),
    "mixture, X_val": (features, mixture_validated, FORMS_OF_FEATURES),
    "fitted model": (features, lambda X, y, **more: tuned(regression())(X, y, **more), FORMS_OF_FEATURES),
    "fitted rule": (features, lambda X, y, **more: tuned(boosted())(X, y, **more), FORMS_OF_FEATURES),
    "function": (features, tuned(first_column), FORMS_OF_FEATURES),
    "sparse": (sparse, tuned(first_column), OF_SPARSE),
    "one score": (scores, tuned(tb.Scores("u", 1)), OF_SCORES),
    "two scores": (scores, tuned([tb.Scores("u", 1), tb.Scores("v", 1)]), OF_FRAMES),
    "score as number": (scores, tuned(tb.Scores("u", 1, kind="number")), OF_FRAMES),
    "score and function": (scores, mixed, OF_FRAMES),
    "given probabilities": (probabilities, given, OF_PAIRS),
    "given, three classes": (three_classes, given, OF_CLASSES),
    "frozen": (features, frozen(FrozenEstimator), FORMS_OF_FEATURES),
    "frozen twice": (features, frozen(lambda m: FrozenEstimator(FrozenEstimator(m))), FORMS_OF_FEATURES),
    "frozen in a pipeline": (
        features,
        frozen(lambda m: make_pipeline(FunctionTransformer(), FrozenEstimator(m))),
        FORMS_OF_FEATURES,
    ),
    "frozen and calibrated": (
        features,
        frozen(lambda m: CalibratedClassifierCV(FrozenEstimator(m)).fit(*features(94))),
        FORMS_OF_FEATURES,
    ),
}
HELD = {"frozen", "frozen twice", "frozen in a pipeline", "frozen and calibrated"}
#: Kinds with a selection on the rows. For the others, the rows train a model inside.
SELECTED = [kind for kind in KINDS if kind not in HELD]
RESELECTED = [kind for kind in SELECTED if kind != "mixture, X_val"]


@cache
def base(kind):
    """Return a rule of a kind, trained and selected on other rows."""
    rows, select, _ = KINDS[kind]
    return select(*rows(1))


def own(kind):
    return copy.deepcopy(base(kind))


def by_selection(kind, X, y):
    return KINDS[kind][1](X, y)


def by_reweight(kind, X, y):
    return base(kind).reweight(X, y)


def by_predicted(kind, X, y):
    curve = own(kind).tradeoff(rates.selected(KINDS[kind][0](1)[1][0]), rates.error())
    curve.predicted(X, y)
    return curve.at(curve[0][0])


def by_attempt(kind, X, y):
    rule = own(kind)
    hard = HARD_FOR_THREE if kind == "given, three classes" else HARD
    attempt = functools.partial(tb.calibrate, rule, limits=hard)
    with pytest.raises(tb.NotCertifiedError):
        attempt(X, y)
    return rule


def by_certified(kind, X, y):
    return calibrate(kind, own(kind), X, y, EASY)


def calibrate(kind, rule, X, y, limits=None):
    return tb.calibrate(rule, X, y, limits=limits or ["miss(1) <= .94"])


def certify(kind, rule, X, y):
    return tb.certify(rule, X, y, rates=LIMITS)


FIRST = {
    "selection": (by_selection, list(KINDS)), "reweight": (by_reweight, RESELECTED),
    "predicted": (by_predicted, RESELECTED), "attempt": (by_attempt, SELECTED),
    "certified": (by_certified, SELECTED),
}  # fmt: skip
SECOND = {"certify": certify, "calibrate": calibrate}


def cells():
    """Yield the path, kind, form and second use of each cell."""
    for path, (_, kinds) in FIRST.items():
        for kind in kinds:
            for form in KINDS[kind][2]:
                for second in SECOND:
                    yield path, kind, form, second


@cache
def used_by(path, kind):
    """Return a rule after the first use, and the rows."""
    X, y = KINDS[kind][0](3)
    return FIRST[path][0](kind, X, y), X, y


@pytest.mark.parametrize(("path", "kind", "form", "second"), [
    *list(cells())[::30], *(pytest.param(*cell, marks=pytest.mark.slow) for cell in cells()),
])  # fmt: skip
def test_a_second_use_is_refused_and_fresh_rows_are_not(path, kind, form, second):
    rule, X, y = used_by(path, kind)
    as_given = KINDS[kind][2][form]
    taken = {"another order of rows": slice(None, None, -1), "two thirds of the rows": slice(2 * len(y) // 3)}
    labels = y[taken.get(form, slice(None))]
    with pytest.raises(tb.LeakageError):
        SECOND[second](kind, copy.deepcopy(rule), as_given(X), labels)
    X_fresh, y_fresh = KINDS[kind][0](4)
    with suppress(tb.NotCertifiedError):  # the rows were tested
        SECOND[second](kind, copy.deepcopy(rule), as_given(X_fresh), y_fresh[taken.get(form, slice(None))])


def coarse(seed, n):
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    grades = np.clip(3 + y[:, None] + rng.integers(-2, 2, size=(n, 2)), 1, 5)
    return pd.DataFrame({"u": grades[:, 0] / 5, "v": grades[:, 1] / 5, "flag": rng.integers(2, size=n)}), y


OF_COARSE = {
    "one score": lambda X, y: tuned(tb.Scores("u", 1))(X, y),
    "two scores": lambda X, y: tuned([tb.Scores("u", 1), tb.Scores("v", 1)])(X, y),
    "probabilities": lambda X, y: given({"u": X["u"].to_numpy(), "v": X["v"].to_numpy()}, y),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", OF_COARSE)
@pytest.mark.parametrize(("n", "m"), [(200, 200), (1000, 150), (100, 2000)])
def test_fresh_rows_of_few_values_are_never_refused(kind, n, m):
    """The level is 1 in 100,000 for each pair of tables and each model."""
    for seed in range(20):
        rule = OF_COARSE[kind](*coarse(2 * seed, n))
        for k in range(5):
            X, y = coarse(1000 + 10 * seed + k, m)
            rows = X if kind != "probabilities" else {"v": X["v"].to_numpy(), "u": X["u"].to_numpy()}
            tb.certify(rule, rows, y, rates=LIMITS)


def test_a_rule_that_no_limits_allow_knows_its_rows():
    P, y = probabilities(0)
    with pytest.raises(rates.InfeasibleLimitsError) as caught:
        tb.RobustMixtureClassifier.from_probabilities(P, y, limits=["miss(1) <= 0", "false_alarm(1) <= 0"])
    rule = caught.value.unselected.reweight(limits=LIMITS)
    with pytest.raises(tb.LeakageError):
        tb.certify(rule, P, y, rates=LIMITS)


def test_a_batch_of_few_values_is_used_up_as_a_whole_where_a_part_of_it_certified():
    (X, y), scores = coarse(0, 1500), tb.Scores("u", 1)
    rule = tb.calibrate(scores, X, y, limits=["error <= 45%", "deferred <= 60%"])
    again = functools.partial(tb.calibrate, scores, limits=["miss(1) <= 60%"], previous=rule)
    uses = [functools.partial(use, rule) for use in (tb.certify, tb.calibrate)]
    for use in (*uses, tb.Monitor(rule).add, again):
        with pytest.raises(tb.LeakageError):
            use(X, y)


def test_fresh_rows_of_a_whole_model_are_hashed_once(monkeypatch):
    rng = np.random.default_rng(0)
    scores = rng.random(400)
    y, X = (rng.random(400) < scores).astype(int), pd.DataFrame({"s": scores})
    clf, hashed = tb.tune(tb.Scores("s", 1), X[:200], y[:200]), []
    row_hashes = Models.row_hashes

    def counted(models, table, *arguments):
        hashed.append(len(table))
        return row_hashes(models, table, *arguments)

    monkeypatch.setattr(Models, "row_hashes", counted)
    tb.certify(clf, X[200:], y[200:])
    assert hashed == [200]
