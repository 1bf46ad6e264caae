"""How large and how tangled the package is: the measures that a change of its shape must not make worse.

    python tools/measures.py [CHECKOUT ...]

Prints one column for each checkout (by default this one). Each fit is traced in a process of its own, which
imports that checkout's package: what is installed does not matter, but scikit-learn must be. Lambdas and
generators count as functions of a trace, comprehensions too up to Python 3.11: compare under one version.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import importlib
import inspect
import io
import json
import os
import re
import subprocess
import sys
import threading
import tokenize
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

HERE = Path(__file__).resolve().parents[1]
PACKAGE = "tailboost"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: What can be exchanged: nobody else should ask which of them it was given.
ROLES = {"Rule", "Objective", "Combiner", "Rate", "Limit"}
#: Names of the true labels where answers are compared with them.
TRUTH = {"y", "labels", "truth", "index", "y_true"}
#: Tokens that are no code.
BLANK = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip


# -- what is written -------------------------------------------------------------------------------------


def live_lines(text: str, tree: ast.AST) -> int:
    """Return the number of lines with code: without blanks, comments and docstrings."""
    said: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)) and ast.get_docstring(node) is not None:
            first = node.body[0]
            said.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    live: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in BLANK:
            live.update(range(token.start[0], token.end[0] + 1))
    return len(live - said)


def name_of(node: ast.AST) -> str:
    """Return the last name of an expression: that of ``rows.y[i]`` is ``y``; empty where it has none."""
    if isinstance(node, (ast.Subscript, ast.Starred)):
        return name_of(node.value)
    return getattr(node, "attr", None) or getattr(node, "id", "")


def class_tests(tree: ast.AST) -> Iterator[str]:
    """Yield the names of the classes that a module asks for, by ``isinstance`` or in a ``match``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name_of(node.func) == "isinstance" and len(node.args) == 2:
            kinds = node.args[1]
            options = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
            yield from {name_of(option) for option in options}
        elif isinstance(node, ast.MatchClass):
            yield name_of(node.cls)


def role_names(trees: Iterable[ast.Module]) -> set[str]:
    """Return the names of the roles and of the classes that play one, by inheritance or by their methods."""
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    # Not what is decorated: a property of one class is a field of another.
    methods = {
        node: {part.name for part in node.body if isinstance(part, FUNCTIONS) and not part.decorator_list}
        for node in classes
    }
    asked = [methods[node] for node in classes if node.name in ROLES]
    found = {node.name for node in classes if any(names <= methods[node] for names in asked if names)}
    while True:
        heirs = {node.name for node in classes if {name_of(base) for base in node.bases} & (found | ROLES)}
        if heirs <= found:
            return found
        found |= heirs


def private_imports(tree: ast.AST, package: str) -> int:
    """Return how many imports of a module are of private modules or names of another of the packages."""
    count = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(f"{PACKAGE}."):
            _, other, *inner = node.module.split(".")
            private = any(part.startswith("_") for part in (*inner, *(name.name for name in node.names)))
            count += private and not other.startswith("_") and other != package
    return count


def spells_error(node: ast.AST) -> bool:
    """Return whether an expression compares answers with the truth, as ``answers != y`` does."""
    if not isinstance(node, ast.Compare) or len(node.ops) > 1 or not isinstance(node.ops[0], ast.NotEq):
        return False
    names = {name_of(node.left), name_of(node.comparators[0])}
    constant = any(isinstance(side, ast.Constant) for side in (node.left, *node.comparators))
    return bool(names & TRUTH) and len(names) == 2 and not constant


def written(source: Path) -> dict[str, Any]:
    """Return the counts of the files of a package."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(source.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    live = sum(live_lines(text, trees[path]) for path, text in texts.items())
    functions = sum(isinstance(node, FUNCTIONS) for node in nodes)
    roles = role_names(trees.values())
    # A package may ask for its own classes: an objective is read by the module of the objectives.
    homes = {
        node.name: path
        for path, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    tests = [
        name
        for path, tree in trees.items()
        for name in class_tests(tree)
        if name in roles and homes.get(name) != path
    ]
    errors = {path: sum(map(spells_error, ast.walk(tree))) for path, tree in trees.items()}
    return {
        "files": len(texts),
        "lines": sum(text.count("\n") for text in texts.values()),
        "live lines": live,
        "functions": functions,
        "functions per 1,000 live lines": round(1000 * functions / live, 1),
        "classes": sum(isinstance(node, ast.ClassDef) for node in nodes),
        "isinstance on roles": len(tests),
        "private imports across packages": sum(
            private_imports(tree, path.relative_to(source).with_suffix("").parts[0])
            for path, tree in trees.items()
        ),
        "spellings of answers != y": sum(errors.values()),
        "files with one": sum(map(bool, errors.values())),
    }


# -- what is offered -------------------------------------------------------------------------------------


def offered(root: Path) -> dict[str, Any]:
    """Return the counts of names for users: of the public modules, and of the classifiers' constructors."""
    import tailboost as tb
    from tailboost.app.registry import METHODS

    modules = [tb]
    for path in sorted((root / "src" / PACKAGE).iterdir()):
        if re.match(r"[a-z]\w*(\.py)?$", path.name):
            # A module of an extra that is not installed offers nothing here.
            with contextlib.suppress(ImportError):
                modules.append(importlib.import_module(f"{PACKAGE}.{path.stem}"))
    things = {
        id(thing): thing
        for module in modules
        for name in getattr(module, "__all__", ())
        if inspect.isclass(thing := getattr(module, name)) or inspect.isroutine(thing)
    }
    classifiers = {m.factory for m in METHODS.values() if m.ours and inspect.isclass(m.factory)}
    slots = [list(inspect.signature(cls).parameters) for cls in classifiers]
    return {
        "public classes and functions": len(things),
        "classifiers": len(classifiers),
        "names of constructor parameters": len({name for names in slots for name in names}),
        "constructor parameters": sum(map(len, slots)),
    }


# -- what a call walks through ---------------------------------------------------------------------------


class Walk:
    """The functions of the package that a call enters, in all threads; and the same for each round of a game.

    Parameters
    ----------
    source : Path
        Folder of the package.
    """

    def __init__(self, source: Path) -> None:
        self.source = f"{source}{os.sep}"
        self.entered: list[tuple[str, str, int]] = []
        self.depths: list[int] = []
        self.rounds: list[int] = []
        self._depth: collections.defaultdict[int, int] = collections.defaultdict(int)

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Take an event, as ``sys.setprofile`` gives it."""
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(self.source):
            return
        thread = threading.get_ident()
        if event == "return":
            self._depth[thread] -= 1
            return
        self._depth[thread] += 1
        file = code.co_filename.removeprefix(self.source)
        if file == "game.py" and code.co_name == "turn":
            self.rounds.append(len(self.entered))
        self.entered.append((file, code.co_qualname, code.co_firstlineno))
        self.depths.append(self._depth[thread])

    def of(self, call: Callable[[], Any]) -> Any:
        """Follow a call and return what it returns."""
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            return call()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def found(self, start: int = 0, end: int | None = None) -> str:
        """Return the functions and files entered from one event to another, and the depth, as text."""
        entered, depths = set(self.entered[start:end]), self.depths[start:end]
        return f"{len(entered)} / {len({file for file, *_ in entered})} / {max(depths) - depths[0] + 1}"


def walked(source: Path) -> dict[str, Any]:
    """Return functions / files / depth of the calls that most users make, on a table of 178 rows."""
    from sklearn.datasets import load_wine

    import tailboost as tb

    warnings.simplefilter("ignore")
    X, y = load_wine(return_X_y=True)
    found: dict[str, Any] = {}
    for name in ("WorstClassBoostClassifier", "RobustMixtureClassifier"):
        classifier, fit, predict = getattr(tb, name)(random_state=0), Walk(source), Walk(source)
        fit.of(lambda classifier=classifier: classifier.fit(X, y))
        predict.of(lambda classifier=classifier: classifier.predict(X))
        found |= {f"{name}().fit": fit.found(), f"{name}().predict": predict.found()}
        if len(fit.rounds) > 1:  # the last but one: another one follows it
            found[f"{name}, one round"] = fit.found(*fit.rounds[-2:])
    return found


def measures(root: Path) -> dict[str, Any]:
    """Return all measures of a checkout whose package is the one imported here."""
    import tailboost

    source = root / "src" / PACKAGE
    assert Path(tailboost.__file__).parent == source, f"{tailboost.__file__} was imported instead"
    return written(source) | offered(root) | walked(source)


def table(columns: dict[str, dict[str, Any]]) -> str:
    """Return the measures of several checkouts side by side."""
    names = list(dict.fromkeys(name for column in columns.values() for name in column))
    rows = [["", *columns]]
    rows += [[name, *(str(column.get(name, "")) for column in columns.values())] for name in names]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("checkouts", nargs="*", type=Path, default=[HERE], metavar="CHECKOUT")
    parser.add_argument("--json", action="store_true", help="print the measures of one checkout for programs")
    arguments = parser.parse_args()
    if arguments.json:
        print(json.dumps(measures(arguments.checkouts[0])))
        sys.exit()
    columns: dict[str, dict[str, Any]] = {}
    for checkout in arguments.checkouts:
        root = checkout.resolve()
        paths = os.pathsep.join([str(root / "src"), os.environ.get("PYTHONPATH", "")])
        environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, __file__, "--json", str(root)]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
        columns[root.name] = json.loads(done.stdout)
    print("functions / files / depth are those of the package that a call enters, on 178 rows\n")
    print(table(columns))
