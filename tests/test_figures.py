"""Figures on pages equal the records."""

import runpy
from pathlib import Path

FIGURES = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "figures.py"))
RECORD = {"forest": {"errors": [0.1234, 0.6342, 0.0451]}, "ours": {"errors": [0.2, 0.4, 0.0123]}}


def test_every_figure_of_the_pages_is_in_a_record():
    faults = list(FIGURES["faults"]())
    assert not faults, "\n".join(faults)


def test_a_figure_without_a_record_is_named():
    def problems(page):
        return list(FIGURES["problems"](page, [RECORD]))

    assert not problems("It misses 63 % of .123, with 95 % confidence, `.999` and α = .5.\n```\n.999\n```")
    assert not problems("| forest, budget 0.07 | .123 ± .045 | .634 |")
    assert problems("It misses 64 %; more at −.021.") == [
        "no record contains 64 %, −.021: It misses 64 %; more at −.021."
    ]
    (mixed,) = problems("| forest | .123 ± .012 | .634 |")
    assert mixed.startswith("no entry of a record contains all figures of the row | forest")
