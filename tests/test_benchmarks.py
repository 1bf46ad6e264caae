"""Short runs of the benchmarks."""

import ast
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
CALLS = {
    "answers.py": ["--write", "--only", "curve"],
    "ablations.py": ["powers", "--seeds", "1"],
    "averages.py": ["--data", ".", "--only", "iris"],
    "beside_autogluon.py": ["--data", ".", "--only", "iris"],
    "capacity.py": ["rows", "--sizes", "300", "--only", "faint"],
    "cvar.py": ["--only", "digits", "--splits", "1"],
    "certificates.py": ["--only", "worst", "--repeats", "20"],
    "confidence.py": ["--only", "a miss rate", "--draws", "2"],
    "dependence.py": ["--draws", "2"],
    "deferral.py": [".", "--only", "noise", "--splits", "1"],
    "monitor.py": ["--years", "20"],
    "prediction.py": ["paired", "--only", "moons"],
    "reused_rows.py": ["--draws", "1", "--only", "3 decimals, dense"],
    "sparse_tables.py": ["--only", "one-hot, linear", "--rows", "300"],
    "ties.py": ["--draws", "0", "--valid", "2"],
    "timing.py": ["mixture", "path", "curve", "files", "draws", "--quick", "--alone"],
}


@pytest.mark.slow
@pytest.mark.parametrize("script", CALLS)
def test_a_benchmark_runs(script, tmp_path):
    pytest.importorskip("xgboost")
    out = tmp_path / "record.json"
    command = [sys.executable, FOLDER / script, *CALLS[script], "--out", out]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=os.environ, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    assert out.stat().st_size > 100


def test_all_imported_names_of_the_package_exist():
    for script in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(script.read_text())):
            module = getattr(node, "module", None) or ""
            if module.partition(".")[0] == "tailboost":
                package = import_module(module)
                absent = [alias.name for alias in node.names if not hasattr(package, alias.name)]
                assert not absent, f"{script.name}: {module} has no {absent}"
