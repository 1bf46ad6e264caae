"""Print the test files of modules: those of the module's wing first, and in order of their mentions.

    python tools/tests_of.py src/tailboost/rates/rate.py [MODULE ...]

A test file mentions a module by its name, as in an import, or by a public name that no other module defines.
Of a module without a mention, the folder with the tests of its wing is printed.
`pytest $(python tools/tests_of.py MODULE | head -5)` runs the first five files.
"""

from __future__ import annotations

import ast
import re
import signal
import sys
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


def mentioning(module: Path, checkout: Path) -> list[Path]:
    """Return the test files that mention a module: of its own wing first, then by the number of mentions."""
    sources = checkout / "src"
    defining = Counter(name for path in sources.rglob("*.py") for name in names_defined(path))
    own_names = [name for name in names_defined(module) if defining[name] == 1]
    parts = module.relative_to(sources).with_suffix("").parts
    dotted = ".".join(parts)
    mention = re.compile(rf"\b(?:{'|'.join([re.escape(dotted), *own_names])})\b")
    mentions = {
        path: len(mention.findall(path.read_text(encoding="utf-8")))
        for path in sorted((checkout / "tests").rglob("test_*.py"))
    }
    of_wing = checkout / "tests" / parts[1]
    files = sorted(
        filter(mentions.get, mentions), key=lambda path: (of_wing not in path.parents, -mentions[path])
    )
    return files or [of_wing if of_wing.exists() else checkout / "tests"]


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends the program without a traceback
    files = [path for name in sys.argv[1:] for path in mentioning(Path(name).resolve(), HERE)]
    print("\n".join(str(path.relative_to(HERE)) for path in dict.fromkeys(files)))
