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
