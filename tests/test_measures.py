"""The measures of the package's shape, on a package whose numbers are known."""

import ast
import runpy
from pathlib import Path

MEASURES = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "measures.py"))

FILES = {
    "rules.py": '''"""Rules.

Of two lines.
"""

class Rule:
    def start(self): ...


class Hedge(Rule):
    """Heavy."""

    def start(self):
        # a comment
        return [
            1,

            2,
        ]
''',
    "objectives.py": """class Objective:
    @property
    def alpha(self): ...
    def solve(self): ...

class Worst:
    alpha = None
    def solve(self):
        return isinstance(self, Worst)
""",
    "pool/_ledger.py": "def errors(answers, rows): return answers[:3] != rows.y[:3]\n",
    "use.py": """from tailboost.core.checks import check
from tailboost.pool import _ledger
from tailboost.pool._ledger import errors
def ask(rule, objective, y, n):
    match objective:
        case Worst(): return n != len(y), y != 1, y.shape != n.shape
    return isinstance(rule, (int, Hedge))
""",
}


def test_what_is_written_is_counted(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert MEASURES["written"](tmp_path) == {
        "files": 4,
        "lines": 36,
        "live lines": 24,
        "functions": 7,
        "functions per 1,000 live lines": 291.7,
        "classes": 4,
        "isinstance on roles": 2,
        "private imports across packages": 2,
        "spellings of answers != y": 1,
        "files with one": 1,
    }


def test_nobody_asks_which_rule_rate_or_objective_was_given():
    """What can be exchanged answers for itself; a package may ask for its own classes where they stand."""
    source = Path(__file__).parents[1] / "src" / "tailboost"
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in source.rglob("*.py")}
    roles = MEASURES["role_names"](trees.values())
    homes = {node.name: path for path, tree in trees.items() for node in tree.body if hasattr(node, "bases")}
    asked = {
        (path.name, name)
        for path, tree in trees.items()
        for name in MEASURES["class_tests"](tree)
        if name in roles and homes.get(name) != path
    }
    assert asked == set()


def test_a_walk_counts_functions_files_and_depth(tmp_path):
    (tmp_path / "a.py").write_text("def one(n):\n    return two(n) + list(map(two, range(n)))[0]\n")
    (tmp_path / "b.py").write_text("def two(n):\n    return n and two(n - 1)\n")
    space = {}
    for name in ("a.py", "b.py"):
        exec(compile((tmp_path / name).read_text(), str(tmp_path / name), "exec"), space)
    walk = MEASURES["Walk"](tmp_path)
    assert walk.of(lambda: space["one"](3)) == 0
    assert walk.found() == "2 / 2 / 5"
