"""Functions and files of the package that a call of two lines enters.

python benchmarks/entered.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from sklearn.datasets import load_breast_cancer
from sklearn.tree import DecisionTreeClassifier

import tailboost
from tailboost import published

FOLDER = str(Path(tailboost.__file__).parent)
X, Y = load_breast_cancer(return_X_y=True)
TREE = DecisionTreeClassifier(max_depth=2, random_state=0)
CALLS: dict[str, Callable[[], object]] = {
    "adalpboost": lambda: published.adalpboost(TREE, 0.1, T=20).fit(X, Y).predict(X),
    "lpboost": lambda: published.lpboost(TREE, 0.1, T=10).fit(X, Y).predict(X),
    "vadaboost": lambda: published.vadaboost(TREE, 0.5, T=20).fit(X, Y).predict(X),
    "worst_class_boost": lambda: published.worst_class_boost(TREE, 0.3, p=1.0, T=10).fit(X, Y).predict(X),
    "dro_boost": lambda: published.dro_boost(TREE, 0.01, T=10).fit(X, Y).predict(X),
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
    for name, call in CALLS.items():
        call()  # imports and caches
        functions = entered(call)
        print(f"{name:20} {len(functions):3} functions in {len({file for file, *_ in functions}):2} files")
        if "-v" in sys.argv:
            for file, line, function in sorted(functions):
                print(f"    {Path(file).relative_to(FOLDER)}:{line} {function}")
