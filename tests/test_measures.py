"""The measures of the package's size, on a package with known numbers."""

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
    "pool/_losses.py": "class Hedge: ...\n",
}


def test_files_lines_and_classes_are_counted(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert MEASURES["written"](tmp_path) == {
        "files": 2,
        "lines": 20,
        "live lines": 9,
        "classes": 2,
        "duplicate class names": "Hedge",
        "files at the top": 1,
        "modules in import circles": "none",
    }


def test_import_circles_are_found_through_other_modules_and_under_type_checking(tmp_path):
    source = tmp_path / "house"
    source.mkdir()
    (source / "roof.py").write_text("from house.wall import W\n")
    (source / "wall.py").write_text("import house.floor\n")
    (source / "floor.py").write_text("if TYPE_CHECKING:\n    from house import roof\n")
    (source / "door.py").write_text("from house import wall\n\ndef open():\n    import house.door\n")
    assert MEASURES["written"](source)["modules in import circles"] == "house.floor house.roof house.wall"


def test_the_package_has_no_import_circle():
    source = Path(__file__).parents[1] / "src" / "tailboost"
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in source.rglob("*.py")}
    assert len(trees) > 100
    assert MEASURES["in_circles"](source, trees) == "none"


def test_a_walk_counts_functions_and_files(tmp_path):
    (tmp_path / "a.py").write_text("def one(n):\n    return two(n) + list(map(two, range(n)))[0]\n")
    (tmp_path / "b.py").write_text("def two(n):\n    return n and two(n - 1)\n")
    space = {}
    for name in ("a.py", "b.py"):
        exec(compile((tmp_path / name).read_text(), str(tmp_path / name), "exec"), space)
    walk = MEASURES["Walk"](tmp_path)
    assert walk.of(lambda: space["one"](3)) == 0
    assert walk.counts() == "2 / 2"
