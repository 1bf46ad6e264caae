"""Tables and labels in every form: the answers of the plain form, a refusal, or a warning, never in silence.

Sparse matrices in all layouts and types mean their dense form and do not change. Labels of any kind
are returned as given. Columns with another type or spelling in prediction give equal
answers, or a warning or an error.
"""

from __future__ import annotations

import warnings
from decimal import Decimal

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import OURS
from sparse_layouts import content, layouts, locked

import tailboost as tb
from tailboost.learners import HistBoostClassifier

pd = pytest.importorskip("pandas")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
CLASSIFIERS = [*OURS, "mixture"]
TYPES = (np.float64, np.float32, np.int64, np.int32, np.int8)


def made(name):
    if name == "mixture":
        trees = HistBoostClassifier(n_estimators=3, max_depth=2)
        return tb.RobustMixtureClassifier([("trees", trees)], cv=0.3, random_state=0)
    params = {"n_estimators": 2, "random_state": 0}
    params |= {"cv": 2} if "cv" in OURS[name]().get_params() else {}
    return OURS[name]().set_params(**params)


def answers(model, X):
    return model.predict(X).tolist()


def counts(n, d, rng):
    """Return a table of small multiples of 4, exact in every layout and type."""
    return 4.0 * rng.integers(1, 9, size=(n, d)) * (rng.random((n, d)) < 0.6)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_sparse_layouts(name, tally):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        Z = counts(120, 4, rng)
        y = (Z @ [1, -1, 0.5, -0.5] + rng.normal(size=120) > 1).astype(int)
        try:
            model = made(name).fit(sp.csr_matrix(Z), y)
        except TypeError as refusal:
            tally.refused() if "Sparse data" in str(refusal) else tally.violation((name, refusal))
            continue
        want = answers(model, sp.csr_matrix(Z))
        for layout, matrix in layouts(Z).items():
            for dtype in TYPES:
                given = locked(matrix.astype(dtype))
                before = content(given)
                same = answers(model, given) == want == answers(model, given)
                if same and content(given) == before:
                    tally.equal()
                else:
                    tally.violation((name, seed, layout, dtype, "predict"))
            given = locked(matrix.copy())
            before = content(given)
            same = answers(made(name).fit(given, y), sp.csr_matrix(Z)) == want
            if same and content(given) == before:
                tally.equal()
            else:
                tally.violation((name, seed, layout, "fit"))


#: Labels by class number: their values and containers.
NAMES = {
    "int": [3, 7], "negative": [-1, 1], "float": [0.0, 1.0], "bool": [False, True], "text": ["a", "b"],
    "digits": ["0", "1"], "long text": ["a" * 50, "a" * 51], "unicode": ["é", "e\u0301"], "empty": ["", " "],
    "large": [2**53 - 1, 2**53], "numpy": [np.int8(1), np.int8(2)],
}  # fmt: skip
HOLDERS = {
    "list": list, "tuple": tuple, "array": np.array,
    "object": lambda v: np.array([*v, None], dtype=object)[:-1], "column": lambda v: np.array(v)[:, None],
    "series": pd.Series, "series, index": lambda v: pd.Series(v, index=range(len(v), 0, -1)),
    "categorical": lambda v: pd.Series(pd.Categorical(v)),
    "nullable": lambda v: pd.Series(v).convert_dtypes(),
}  # fmt: skip
MIXED = ([1, "1"], ["1", 1.0], [True, "True"], [0, "a"], [b"a", "a"], [1, None], ["a", np.nan], [1, np.inf])


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_labels(name, tally):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    index = (X[:, 0] + 0.3 * rng.normal(size=90) > 0).astype(int)
    want = made(name).fit(X, index).predict(X).astype(int)
    for kind, names in NAMES.items():
        for holder, hold in HOLDERS.items():
            y = hold([names[i] for i in index])
            try:
                found = made(name).fit(X, y).predict(X).tolist()
            except (ValueError, TypeError) as refusal:
                if "label" in str(refusal).lower() or "y" in str(refusal).split():
                    tally.refused()
                else:
                    tally.violation((name, kind, holder, refusal))
                continue
            right = found == [np.asarray(names)[i].item() for i in want]
            tally.equal() if right else tally.violation((name, kind, holder, found[:3]))
    for names in MIXED:
        for hold in (list, tuple, HOLDERS["object"]):
            try:
                made(name).fit(X, hold([names[i] for i in index]))
            except (ValueError, TypeError):
                tally.refused()
            else:
                tally.violation((name, names, "taken"))


def codes(column):
    return column.astype("category").cat.codes.set_axis(column.index)


#: Changes of a column between two tables; values stay the same if possible.
DRIFTS = {
    "as it was": lambda c: c, "object": lambda c: c.astype(object), "text": lambda c: c.astype(str),
    "pandas' text": lambda c: c.astype(str).astype("string"), "category": lambda c: c.astype("category"),
    "category, more values": lambda c: c.astype("category").cat.set_categories(
        [*c.astype("category").cat.categories[::-1], *(["zzz"] if c.dtype == object else [-7])]
    ),
    "category of text": lambda c: c.astype(str).astype("category"), "codes": codes,
    "float": lambda c: c.astype(float), "float32": lambda c: c.astype("float32"),
    "int": lambda c: c.astype(int), "nullable": lambda c: c.convert_dtypes(),
    "decimal": lambda c: c.map(lambda v: Decimal(str(v))), "upper case": lambda c: c.astype(str).str.upper(),
    "bytes": lambda c: c.astype(str).str.encode("utf8"), "spaces": lambda c: " " + c.astype(str),
    "half more": lambda c: c.astype(float) + 0.5, "unknown": lambda c: pd.Series("unknown", index=c.index),
    "some unknown": lambda c: c.astype(object).where(np.arange(len(c)) % 4 > 0, "unknown"),
    "missing": lambda c: c.astype(object).where(np.arange(len(c)) % 4 > 0, None),
    "truth": lambda c: pd.Series(True, index=c.index),
    "dates": lambda c: pd.Series(pd.Timestamp(2020, 1, 1), index=c.index),
}  # fmt: skip
# Changes to equally valid values, with other correct answers.
CHANGED = {(column, "missing") for column in ("number", "whole", "code", "word", "kind")} | {
    (column, drift) for column in ("number", "whole") for drift in ("codes", "half more", "truth", "int")
}


def table(rng, n=150):
    frame = pd.DataFrame(
        {"number": rng.integers(0, 40, n) / 4, "whole": rng.integers(0, 40, n),
        "code": pd.Categorical(rng.choice([10, 20, 30], n)),
        "word": rng.choice(["red", "green", "blue"], n).astype(object),
        "kind": pd.Categorical(rng.choice(["u", "v"], n))}
    )  # fmt: skip
    signal = frame.number / 5 + frame.whole / 20 + (frame.code == 20) + (frame.word == "red")
    signal += (frame.kind == "v") + 0.5 * rng.normal(size=n)
    return frame, (signal > signal.median()).astype(int).to_numpy()


def test_drift(tally):
    """Boosting reads tables as scikit-learn does, and compares no columns."""
    name = "mixture"
    for seed in range(2):
        frame, y = table(np.random.default_rng(seed))
        try:
            model = made(name).fit(frame, y)
        except ValueError as refusal:  # stumps take numbers alone
            is_text = "could not convert string" in str(refusal)
            tally.refused() if is_text else tally.violation((name, refusal))
            continue
        want = model.predict(frame)
        for column in frame:
            for drift, change in DRIFTS.items():
                try:
                    given = frame.assign(**{column: change(frame[column])})
                except (ValueError, TypeError, AttributeError, ArithmeticError):
                    continue  # no such form of this column
                for rows in (slice(None), slice(0, 1), slice(0, 5)):
                    with warnings.catch_warnings(record=True) as told:
                        warnings.simplefilter("always")
                        try:
                            found = model.predict(given[rows])
                        except (ValueError, TypeError):
                            tally.refused()
                            continue
                    warned = any(f"column {column!r}" in str(w.message) for w in told)
                    equal = np.array_equal(found, want[rows])
                    if equal or warned or (column, drift) in CHANGED:
                        tally.equal()
                    else:
                        tally.violation((name, seed, column, drift, rows, np.mean(found != want[rows])))
