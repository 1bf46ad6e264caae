"""Print the size of the package and the number of functions that a fit enters.

    python tools/measures.py [CHECKOUT ...]

Prints one column for each checkout (default: this one). Each checkout is measured in a separate process. It
imports the package of that checkout. Lambdas and generators count as functions, comprehensions only up to
Python 3.11: compare checkouts with one version of Python.
"""

from __future__ import annotations

import ast
import collections
import io
import json
import os
import subprocess
import sys
import threading
import tokenize
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

HERE = Path(__file__).resolve().parents[1]
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
#: Tokens that are no code.
BLANK = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip


def live_lines(text: str, tree: ast.AST) -> int:
    """Return the number of lines with code: without blank lines, comments and docstrings."""
    docstrings: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            first = node.body[0]
            docstrings.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    live: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in BLANK:
            live.update(range(token.start[0], token.end[0] + 1))
    return len(live - docstrings)


def imported(node: ast.AST) -> set[str]:
    """Return the full names of modules, and of names in modules, imported outside of functions."""
    names: set[str] = set()
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            names.update(alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            names.update(f"{child.module}.{alias.name}" for alias in child.names)
            names.add(child.module)
        elif not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names |= imported(child)
    return names


def in_circles(source: Path, trees: dict[Path, ast.Module]) -> str:
    """Return the modules that import themselves through others; packages are left out."""
    modules = {
        ".".join(path.relative_to(source.parent).with_suffix("").parts): tree
        for path, tree in trees.items()
        if path.name != "__init__.py"
    }
    reached = {name: imported(tree) & modules.keys() - {name} for name, tree in modules.items()}
    for through in modules:
        for name, others in reached.items():
            if through in others:
                reached[name] = others | reached[through]
    return " ".join(sorted(name for name, others in reached.items() if name in others)) or "none"


def written(source: Path) -> dict[str, Any]:
    """Return the counts of the files of a package."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(source.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    classes = collections.Counter(
        node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    )
    return {
        "files": len(texts),
        "lines": sum(text.count("\n") for text in texts.values()),
        "live lines": sum(live_lines(text, trees[path]) for path, text in texts.items()),
        "classes": len(classes),
        "duplicate class names": " ".join(sorted(name for name, n in classes.items() if n > 1)) or "none",
        "files at the top": len(list(source.glob("*.py"))),
        "modules in import circles": in_circles(source, trees),
    }


class Walk:
    """The functions of a package that a call enters, in all threads, and the start of each boosting round.

    Parameters
    ----------
    source : Path
        Folder of the package.
    """

    def __init__(self, source: Path) -> None:
        self.source = f"{source}{os.sep}"
        self.entered: list[tuple[str, str, int]] = []
        self.rounds: list[int] = []

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Record an event of ``sys.setprofile``."""
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(self.source):
            file = code.co_filename.removeprefix(self.source)
            if Path(file).name == "game.py" and code.co_name == "turn":
                self.rounds.append(len(self.entered))
            self.entered.append((file, code.co_qualname, code.co_firstlineno))

    def of(self, call: Callable[[], Any]) -> Any:
        """Return the result of a call, recording the functions that it enters."""
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            return call()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def counts(self, start: int = 0, end: int | None = None) -> str:
        """Return the numbers of functions and files between two events, as text."""
        entered = set(self.entered[start:end])
        return f"{len(entered)} / {len({file for file, *_ in entered})}"


def walked(source: Path) -> dict[str, Any]:
    """Return the numbers of functions / files that the usual calls enter, on a table of 178 rows."""
    from sklearn.datasets import load_wine

    import tailboost as tb

    warnings.simplefilter("ignore")
    X, y = load_wine(return_X_y=True)
    counts: dict[str, Any] = {}
    for name in ("WorstClassBoostClassifier", "RobustMixtureClassifier"):
        classifier, fit, predict = getattr(tb, name)(random_state=0), Walk(source), Walk(source)
        fit.of(lambda classifier=classifier: classifier.fit(X, y))
        predict.of(lambda classifier=classifier: classifier.predict(X))
        counts |= {f"{name}().fit": fit.counts(), f"{name}().predict": predict.counts()}
        if len(fit.rounds) > 1:  # the last round also ends the game
            counts[f"{name}, one round"] = fit.counts(*fit.rounds[-2:])
    return counts


def measures(root: Path) -> dict[str, Any]:
    """Return all measures of the checkout whose package this process imports."""
    import tailboost

    source = root / "src" / "tailboost"
    assert Path(tailboost.__file__).parent == source, f"imported {tailboost.__file__} instead"
    return written(source) | walked(source)


def measures_apart(root: Path) -> dict[str, Any]:
    """Return all measures of a checkout, from a process of its own."""
    paths = os.pathsep.join([str(root / "src"), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--json", str(root)]
    return json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--json"]:
        print(json.dumps(measures(Path(sys.argv[2]))))
        sys.exit()
    columns = [measures_apart(path.resolve()) for path in map(Path, sys.argv[1:] or [HERE])]
    print("of a call: functions / files of the package that it enters, on 178 rows")
    for name in dict.fromkeys(name for column in columns for name in column):
        print(f"{name:36}", *(f"{column.get(name, '')!s:>12}" for column in columns))
