"""Files of the package import each other without a circle, also for type checkers."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import tailboost

ROOT = Path(tailboost.__file__).parent


def name_of(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(path): path for path in ROOT.rglob("*.py")}


def statements(nodes):
    """Yield all statements that an import or a type checker reads: not those in functions."""
    for node in nodes:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node
            yield from statements(ast.iter_child_nodes(node))


def imported_by(name):
    """Return the files of the package that a file imports when it is loaded or type checked."""
    found = set()
    for node in statements(ast.parse(FILES[name].read_text()).body):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in FILES else node.module)
    return found & FILES.keys() - {name}


def test_imports_have_no_circle_with_those_of_type_checkers():
    order = TopologicalSorter({name: imported_by(name) for name in FILES}).static_order()
    assert set(order) == FILES.keys()
