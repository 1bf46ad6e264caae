"""The declared and the tested dependencies are the same."""

import ast
import re
import runpy
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOL = runpy.run_path(str(ROOT / "tools" / "minima.py"))


def test_the_oldest_versions_tried_are_those_declared():
    tried = (ROOT / "constraints-min.txt").read_text(encoding="utf-8")
    assert tried == TOOL["text"](), "run: python tools/minima.py > constraints-min.txt"


def test_all_is_for_users():
    """The extra "all" has every extra except tests, linters, documentation and experiments."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    (everything,) = extras.pop("all")
    inside = set(re.fullmatch(r"tailboost\[(.*)\]", everything)[1].split(","))
    assert inside == set(extras) - {"test", "lint", "docs", "experiments", "field"}


#: Module names of requirements with another name; then the folders and files with an extra.
MODULES = {"scikit-learn": "sklearn", "xgboost-cpu": "xgboost"}
FOREIGN = {"experiments", "lightgbm"}  # of a checkout, and of models brought by users
NEEDING = {
    "app": "app",
    "dask": "dask",
    "learners/plain_xgboost.py": "xgboost",
    "learners/torch": "torch",
    "torch": "torch",
}


def imported(path):
    """Return the imported libraries of a file, and the part imported with the file (not lazily)."""
    found = []

    def collect(node, lazy):
        if isinstance(node, ast.expr):
            return
        if isinstance(node, ast.Import):
            found.extend((alias.name.partition(".")[0], lazy) for alias in node.names)
        if isinstance(node, ast.ImportFrom) and not node.level:
            found.append(((node.module or "").partition(".")[0], lazy))
        lazy |= isinstance(node, ast.FunctionDef | ast.Try)
        lazy |= isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for part in ast.iter_child_nodes(node):
            collect(part, lazy)

    collect(ast.parse(path.read_text(encoding="utf-8")), False)
    others = [(name, lazy) for name, lazy in found if name not in {*sys.stdlib_module_names, "", "tailboost"}]
    return {name for name, _ in others}, {name for name, lazy in others if not lazy}


def test_each_extra_declares_what_it_imports():
    """A file can be imported with its extra alone. Lazy imports are in some extra for users."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    def declared(requirements):
        names = {re.match(r"[A-Za-z0-9_-]+", each)[0] for each in requirements}
        return {MODULES.get(name, name) for name in names}

    core, package = declared(project["dependencies"]), ROOT / "src" / "tailboost"
    extras = {name: declared(needed) for name, needed in project["optional-dependencies"].items()}
    users = core.union(*(extras[name] for name in ("xgboost", "app", "torch", "dask")))
    for path in package.rglob("*.py"):
        place = path.relative_to(package).as_posix()
        extra = next((name for start, name in NEEDING.items() if f"{place}/".startswith(f"{start}/")), None)
        every, at_once = imported(path)
        assert at_once <= core | extras.get(extra, set()), place
        assert every - FOREIGN <= users, place


def test_the_wheel_has_the_package_alone():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"] == {"packages": ["src/tailboost"]}
    assert (ROOT / "experiments" / "__init__.py").exists()


def test_a_wheel_with_more_is_refused(tmp_path):
    strays = runpy.run_path(str(ROOT / "tools" / "try_wheel.py"))["strays"]
    with zipfile.ZipFile(tmp_path / "w.whl", "w") as wheel:
        for name in ("tailboost/a.py", "tailboost-1.dist-info/RECORD", "tests/test_a.py", "tailboosted/b.py"):
            wheel.writestr(name, "")
    assert strays(tmp_path / "w.whl") == ["tests/test_a.py", "tailboosted/b.py"]


def test_the_version_stands_in_one_place():
    import tailboost

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/tailboost/__init__.py"
    release = runpy.run_path(str(ROOT / "tools" / "release.py"))
    assert release["version"]() == tailboost.__version__
    assert not [said for said in release["problems"](f"v{tailboost.__version__}") if "CITATION" in said]
    assert len(release["problems"]("v99")) >= 2
    urls = project["project"]["urls"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f'repository-code: "{urls["Repository"]}"\n' in citation
    assert f'url: "{urls["Homepage"]}"\n' in citation


def test_every_declared_python_is_tried():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = re.findall(r"Python :: (3\.\d+)", " ".join(project["project"]["classifiers"]))
    for name in ("ci.yml", "release.yml"):
        text = (ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8")
        assert re.search(r"^ +python: (\[.*\])$", text, re.MULTILINE)[1] == str(declared).replace("'", '"')


def test_minima_of_a_project():
    project = {
        "name": "ours",
        "dependencies": ["numpy>=2.0", "scipy>=1.13"],
        "optional-dependencies": {
            "xgboost": ["xgboost>=3.0; sys_platform == 'darwin'"],
            "app": [],
            "dask": ["ours[xgboost]", "dask[array]>=2024.5"],
            "test": ["numpy>=2.0"],
            "torch": ["torch>=2.4"],
        },
    }
    assert TOOL["minima"](project) == ["dask==2024.5", "numpy==2.0", "scipy==1.13", "xgboost==3.0"]
    project["dependencies"] = ["numpy"]
    with pytest.raises(ValueError, match="'numpy' declares no oldest version"):
        TOOL["minima"](project)
