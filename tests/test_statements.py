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


FIGURES = runpy.run_path(str(TOOL.with_name("figures.py")))


def test_every_figure_of_the_pages_is_in_a_file():
    wrong = list(FIGURES["problems"](FIGURES["given_pages"](), FIGURES["claims"]()))
    assert not wrong, "\n".join(wrong)


def test_a_figure_that_no_file_has_fails():
    """Of a wrong figure what the page says and the right one are told; one of no claim is named."""
    claim = FIGURES["Claim"]("a.md", "misses {} % at {}", ("12", ".345"))
    problems = FIGURES["problems"]
    assert not list(
        problems({"a.md": "It misses\n12 % at .345, with 95 % confidence, `.123` and α = .5."}, [claim])
    )
    (wrong,) = problems({"a.md": "It misses 13 % at .345."}, [claim])
    assert wrong == "a.md says “misses 13 % at .345”, and the files “misses 12 % at .345”"
    lacks, unknown = problems({"a.md": "It errs on 14 % of the rows."}, [claim])
    assert lacks == "a.md does not say “misses 12 % at .345”"
    assert unknown.startswith("a.md: no file has 14 % in “… It errs on 14 %")
    (unknown,) = problems({"a.md": "It misses 12 % at .345; more at −.021.\n```\n.999\n```"}, [claim])
    assert "−.021" in unknown
