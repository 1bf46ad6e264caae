"""Functions and files of the package that a call of two lines enters.

python benchmarks/entered.py [-v]      with -v also their names
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost import published

FOLDER = str(Path(tb.__file__).parent)
X, Y = load_breast_cancer(return_X_y=True)
TREE = DecisionTreeClassifier(max_depth=2, random_state=0)

rng = np.random.default_rng(0)
TABLE = rng.normal(size=(4000, 3))
LABELS = (TABLE[:, 0] + rng.normal(size=4000) > 0).astype(int)
MODEL = LogisticRegression().fit(TABLE[:1000], LABELS[:1000])
SCORES = pd.DataFrame({"p": MODEL.predict_proba(TABLE)[:, 1]})
GROUPS = {"g": rng.integers(0, 3, 4000)[1000:]}
FRESH, SCORED, OUTCOMES = TABLE[1000:], SCORES[1000:], LABELS[1000:]
LIMITED = {"groups": GROUPS, "limits": ["miss(1, by=g) <= 50%"]}
CALLS: dict[str, Callable[[], object]] = {
    "adalpboost": lambda: published.adalpboost(TREE, 0.1, T=20).fit(X, Y).predict(X),
    "lpboost": lambda: published.lpboost(TREE, 0.1, T=10).fit(X, Y).predict(X),
    "vadaboost": lambda: published.vadaboost(TREE, 0.5, T=20).fit(X, Y).predict(X),
    "worst_class_boost": lambda: published.worst_class_boost(TREE, 0.3, p=1.0, T=10).fit(X, Y).predict(X),
    "dro_boost": lambda: published.dro_boost(TREE, 0.01, T=10).fit(X, Y).predict(X),
    "fit": lambda: tb.RobustMixtureClassifier(random_state=0).fit(TABLE[:1000], LABELS[:1000]),
    "tune": lambda: tb.tune(MODEL, FRESH, OUTCOMES, **LIMITED),
    "calibrate, model": lambda: tb.calibrate(MODEL, FRESH, OUTCOMES, **LIMITED),
    "calibrate, scores": lambda: tb.calibrate(tb.Scores("p", 1), SCORED, OUTCOMES, **LIMITED),
}


def entered(call: Callable[[], object]) -> set[tuple[str, int, str]]:
    """Return file, line and name of the package's functions that a call enters."""
    found = set()

    def note(frame, event, _argument):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(FOLDER) and not code.co_name.startswith("<"):
            found.add((code.co_filename, code.co_firstlineno, code.co_qualname))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name, call in CALLS.items():
        call()  # imports and caches
        functions = entered(call)
        print(f"{name:20} {len(functions):3} functions in {len({file for file, *_ in functions}):2} files")
        if "-v" in sys.argv:
            for file, line, function in sorted(functions):
                print(f"    {Path(file).relative_to(FOLDER)}:{line} {function}")
