"""What once showed sentences of the library to be false: the script that runs it all again."""

import runpy
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "statements.py"


@pytest.mark.slow
def test_every_statement_holds(capsys):
    main = runpy.run_path(str(TOOL))["main"]
    assert main() == 0
    assert capsys.readouterr().out.count("holds  A.") == 9


def test_a_false_statement_counts(capsys):
    """The script can fail: an item that does not hold is counted and shown."""
    tool = runpy.run_path(str(TOOL))
    tool["ITEMS"].clear()
    tool["ITEMS"]["false"] = ("before", lambda: tool["Outcome"]("now", False))
    assert tool["main"]() == 1
    assert "FAILS  false" in capsys.readouterr().out
