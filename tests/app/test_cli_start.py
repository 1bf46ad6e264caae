"""What the command line imports before it answers."""

import subprocess
import sys

import pytest

for needed in ("typer", "rich", "pandas", "jinja2"):
    pytest.importorskip(needed)

HEAVY = ("numpy", "scipy", "sklearn", "pandas", "matplotlib", "highspy")


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_versions_and_help_need_no_numerical_library(argument):
    """Importing them takes seconds."""
    code = f"""
import sys
from tailboost.app import cli
try:
    cli.main([{argument!r}])
except SystemExit as end:
    assert not end.code
print("imported:", [name for name in {HEAVY!r} if name in sys.modules])
"""
    output, _ = run(code)
    assert output.strip().endswith("imported: []")
    assert "scikit-learn" in output or argument == "--help"


@pytest.mark.slow
def test_a_command_names_its_files_before_the_imports(tmp_path):
    """On a terminal a line comes before the seconds that the libraries need; --quiet has none."""
    table = tmp_path / "scores.csv"
    table.write_text("p,label\n0.5,a\n")
    code = f"""
import sys
from tailboost.app import cli

class Told:
    lines = []
    def write(self, text):
        Told.lines.append((text, "numpy" in sys.modules))
    def flush(self):
        pass
    def isatty(self):
        return True

for quiet in ([], ["--quiet"]):
    Told.lines, kept = [], sys.stderr
    sys.stderr = Told()
    try:
        cli.main(["tune", {str(table)!r}, "--score", "q", "--target", "label", "--out", "r.json", *quiet])
    except SystemExit as end:
        assert end.code == 2
    sys.stderr = kept
    print(["Reading" in text for text, _ in Told.lines][0], Told.lines[0][1])
"""
    output, _ = run(code)
    assert output.splitlines() == ["True False", "False True"]
