"""Short runs of the benchmarks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
CALLS = {
    "answers.py": ["--write", "--only", "curve"], "cvar.py": ["--only", "digits", "--splits", "1"],
    "quality.py": ["--only", "breast cancer", "--splits", "1"],
    "deferral.py": [".", "--only", "noise", "--splits", "1"],
    "timing.py": ["mixture", "path", "curve", "--quick", "--alone"],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("script", CALLS)
def test_a_benchmark_runs(script, tmp_path):
    pytest.importorskip("xgboost")
    out = tmp_path / "record.json"
    command = [sys.executable, FOLDER / script, *CALLS[script], "--out", out]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=os.environ, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    assert out.stat().st_size > 100
