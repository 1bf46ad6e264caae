"""The wheel has the package alone, and the version stands in one place."""

import runpy
import tomllib
import zipfile
from pathlib import Path

import tailboost

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_wheel_has_the_package_alone():
    assert PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"] == {"packages": ["src/tailboost"]}


def test_a_wheel_with_more_is_refused(tmp_path):
    strays = runpy.run_path(str(ROOT / ".github" / "try_wheel.py"))["strays"]
    with zipfile.ZipFile(tmp_path / "w.whl", "w") as wheel:
        for name in ("tailboost/a.py", "tailboost-1.dist-info/RECORD", "tests/test_a.py", "tailboosted/b.py"):
            wheel.writestr(name, "")
    assert strays(tmp_path / "w.whl") == ["tests/test_a.py", "tailboosted/b.py"]


def test_the_version_stands_in_one_place():
    assert "version" not in PROJECT["project"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/tailboost/__init__.py"
    assert f"version: {tailboost.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
