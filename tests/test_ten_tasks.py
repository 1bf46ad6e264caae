"""The commands and programs of the page "Ten tasks" run in their order."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("typer")
pytest.importorskip("matplotlib")
PAGE = Path(__file__).parents[1] / "docs" / "ten-tasks.md"


@pytest.mark.slow
def test_the_tasks_run_one_after_the_other(tmp_path):
    from sklearn.model_selection import train_test_split

    from tailboost.app.datasets import load_wine_quality

    wines = load_wine_quality()
    table = wines.data.drop_duplicates()
    table = table.assign(grade=wines.target_names[wines.target.loc[table.index]])
    halves = train_test_split(table, test_size=0.5, stratify=table["grade"], random_state=0)
    for name, half in zip(("wines.csv", "new_wines.csv"), halves, strict=True):
        half.to_csv(tmp_path / name, index=False)
    steps = re.findall(r"```(shell|python)\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(steps) >= 10
    for kind, step in steps:
        program, *arguments = shlex.split(step) if kind == "shell" else ["python"]
        command = {
            "python": [sys.executable, "-W", "ignore", "-c", step],
            "tailboost": [sys.executable, "-m", "tailboost", *arguments],
        }.get(program, [program, *arguments])
        run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert run.returncode == 0, f"{step}\n{run.stdout}{run.stderr}"
