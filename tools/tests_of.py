"""Print the test files of modules: those of the module's wing first, and in order of their mentions.

    python tools/tests_of.py src/tailboost/rates/rate.py [MODULE ...]

A test file mentions a module by its name, as in an import, or by a public name that no other module defines.
Files of which `pytest` runs no test by default are last.
Of a module without a mention, the folder with the tests of its wing is printed.
`pytest $(python tools/tests_of.py MODULE | head -5)` runs the first five files.
"""

from __future__ import annotations

import ast
import re
import signal
import sys
import tomllib
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]


def names_defined(path: Path) -> set[str]:
    """Return the public names of the functions, classes and constants of a module."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return {name for name in names if not name.startswith("_")}


def marks_left_out(checkout: Path) -> set[str]:
    """Return the marks of the tests that the options of a checkout leave out by default."""
    document = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))
    return set(re.findall(r"\bnot (\w+)", document["tool"]["pytest"]["ini_options"]["addopts"]))


def is_left_out(text: str, marks: set[str]) -> bool:
    """Return whether a test file has one of these marks on the module or on each of its tests."""
    mark = re.compile(rf"pytest\.mark\.(?:{'|'.join(marks)})\b")
    tests = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            if mark.search(ast.unparse(node.value)):
                return True
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name.lower().startswith("test"):
            tests.append(node)
    return bool(tests) and all(
        any(mark.match(ast.unparse(decorator)) for decorator in test.decorator_list) for test in tests
    )


def mentioning(module: Path, checkout: Path) -> list[Path]:
    """Return the test files that mention a module: of its own wing first, then by the number of mentions.

    Behind these are the files without a test that runs by default.
    """
    sources = checkout / "src"
    defining = Counter(name for path in sources.rglob("*.py") for name in names_defined(path))
    own_names = [name for name in names_defined(module) if defining[name] == 1]
    parts = module.relative_to(sources).with_suffix("").parts
    dotted = ".".join(parts)
    mention = re.compile(rf"\b(?:{'|'.join([re.escape(dotted), *own_names])})\b")
    marks = marks_left_out(checkout)
    of_wing = checkout / "tests" / parts[1]
    order = {}
    for path in sorted((checkout / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if n_mentions := len(mention.findall(text)):
            order[path] = is_left_out(text, marks), of_wing not in path.parents, -n_mentions
    files = sorted(order, key=order.__getitem__)
    return files or [of_wing if of_wing.exists() else checkout / "tests"]


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends the program without a traceback
    files = [path for name in sys.argv[1:] for path in mentioning(Path(name).resolve(), HERE)]
    print("\n".join(str(path.relative_to(HERE)) for path in dict.fromkeys(files)))
