"""Files of the package import each other without a circle, also for type checkers and in functions."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import tailboost

ROOT = Path(tailboost.__file__).parent


def name_of(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(path): path for path in ROOT.rglob("*.py")}


def imported_by(name):
    """Return the files of the package that a file imports, when it is loaded or later, or type checked."""
    found = set()
    for node in ast.walk(ast.parse(FILES[name].read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in FILES else node.module)
    return found & FILES.keys() - {name}


def test_imports_have_no_circle():
    order = TopologicalSorter({name: imported_by(name) for name in FILES}).static_order()
    assert set(order) == FILES.keys()


def test_a_rule_on_scores_does_not_import_xgboost():
    program = """
import sys
import numpy as np
import tailboost as tb
p = np.random.default_rng(0).random(400)
y = (np.random.default_rng(1).random(400) < p).astype(int)
tb.tune(tb.Scores(0, 1), p[:, None], y, limits=["miss(1) <= 40%"])
print([name for name in ("xgboost", "matplotlib", "torch", "dask", "jinja2") if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
