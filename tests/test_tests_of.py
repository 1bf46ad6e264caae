"""The test files of a module, in a made-up checkout and in this one."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]
MENTIONING = runpy.run_path(str(ROOT / "tools" / "tests_of.py"))["mentioning"]

FILES = {
    "pyproject.toml": "[tool.pytest.ini_options]\naddopts = \"-m 'not slow and not fuzz'\"\n",
    "src/tailboost/rates/rate.py": "KINDS = {}\ndef share(): ...\ndef both(): ...\n",
    "src/tailboost/rates/power.py": "def both(): ...\ndef _hidden(): ...\n",
    "tests/rates/test_once.py": "shares = share()\n",
    "tests/rates/test_often.py": "from tailboost.rates.rate import KINDS\nKINDS, share()\n",
    "tests/rates/test_another.py": "both(), shares, _hidden(), XKINDS\n",
}


def test_files_with_the_most_mentions_of_its_own_names_are_first(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    package, tests = tmp_path / "src" / "tailboost" / "rates", tmp_path / "tests" / "rates"
    assert MENTIONING(package / "rate.py", tmp_path) == [tests / "test_often.py", tests / "test_once.py"]
    assert MENTIONING(package / "power.py", tmp_path) == [tests]


def test_files_of_the_own_wing_are_before_others_with_more_mentions(tmp_path):
    elsewhere = {"tests/app/test_all.py": FILES["tests/rates/test_often.py"] * 2}
    for name, text in (FILES | elsewhere).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = MENTIONING(tmp_path / "src" / "tailboost" / "rates" / "rate.py", tmp_path)
    assert [path.name for path in found] == ["test_often.py", "test_once.py", "test_all.py"]


def test_files_without_a_test_that_runs_by_default_are_last(tmp_path):
    often = FILES["tests/rates/test_often.py"] * 3
    marked = {
        "tests/fuzz/test_module.py": often + "pytestmark = pytest.mark.fuzz\n",
        "tests/rates/test_list.py": often + 'pytestmark = [\n    pytest.mark.slow,\n    mark("x"),\n]\n',
        "tests/rates/test_each.py": often + "@pytest.mark.slow\ndef test_one(): ...\n",
        "tests/rates/test_one_of_two.py": often * 2
        + "@pytest.mark.slow\ndef test_one(): ...\ndef test_other(): ...\n",
        "tests/rates/test_warnings.py": often + "pytestmark = pytest.mark.filterwarnings('ignore:slow')\n",
    }
    for name, text in (FILES | marked).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = [path.stem for path in MENTIONING(tmp_path / "src" / "tailboost" / "rates" / "rate.py", tmp_path)]
    assert found[:4] == ["test_one_of_two", "test_warnings", "test_often", "test_once"]
    assert found[4:] == ["test_each", "test_list", "test_module"]


def test_the_modules_of_the_recipes_have_the_tests_that_the_recipes_name():
    named = {
        "rates/rate.py": "rates/test_kinds.py",
        "rates/comparisons.py": "rates/test_comparisons.py",
        "guarantees/rate_bounds.py": "guarantees/test_rates_of_any_range.py",
        "solvers/worst_case.py": "solvers/test_worst_case_solver.py",
        "selection/threshold_rule.py": "selection/test_threshold_rule.py",
    }
    for module, test in named.items():
        first = MENTIONING(ROOT / "src" / "tailboost" / module, ROOT)[:2]
        assert ROOT / "tests" / test in first
