"""Tables as text and as HTML."""

from tailboost.core.tables import html_table, text_table
from tailboost.selection.table import RateLine, RateTable

HEADS = ["name", "rows", "by"]
LINES = [("<b>", 0.5, 2.0), ("y", 0.25, 1.0)]
ROWS = [["a", "1,000", "this"], ["longer", "7", ""]]


def test_alignment_and_cells():
    lines = ["name     rows  by", "a       1,000  this", "longer      7"]
    assert text_table(HEADS, ROWS, left=(0, 2)).splitlines() == lines
    assert text_table(HEADS, ROWS, left=()).splitlines()[1] == "     a  1,000  this"
    assert text_table(["one"], [], left=(0,)) == "one"
    # A remark does not widen its column.
    remark = "… and 30 smaller ones that are not shown here"
    lines = text_table(HEADS, [*ROWS, [remark, "", ""]], left=(0,)).splitlines()
    assert lines[:3] == text_table(HEADS, ROWS, left=(0,)).splitlines()
    assert lines[3] == remark
    # Text and notebooks show the same cells.
    nan = float("nan")
    lines = [RateLine("error by class", k, e, nan, nan, n, nan, None) for k, e, n in LINES]
    table = RateTable(tuple(lines), "7 rows")
    text, html = str(table), table._repr_html_()  # as in notebooks
    for cell in ("0.50", "0.25", "7 rows"):
        assert cell in text
        assert cell in html
    assert "<b>" not in html
    assert html_table(HEADS, ROWS).count("<tr>") == 3
