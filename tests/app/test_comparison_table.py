"""The table and the sentence of a comparison against numbers by hand."""

import numpy as np
import pytest
from made_up_comparisons import BROKEN, made_up, small_data, tradeoffs
from scipy import stats

from tailboost.app.report import ComparisonTable, compare
from tailboost.app.report.results import interval


def flat(*errors):
    return [(error, error, None) for error in errors]


def test_difference_at_equal_overall_error():
    """Strong has the error .261: .2 of the way between two points with worst classes .401 and .311."""
    table = ComparisonTable(tradeoffs())
    strong, weak = (table.differences["worst_class_error", name] for name in ("strong", "weak"))
    assert strong.ours_at == pytest.approx((0.261, 0.383))
    assert strong.baseline_at == pytest.approx((0.261, 0.451))
    assert weak.ours_at == pytest.approx((0.201, 0.601))
    assert table.headline is strong
    assert table.sentence == (
        "At an overall error of 26.1 %, Ours has a worst-class error of 38.3 %, Strong of 45.1 % "
        "(difference −6.8 percentage points, 95 % interval −7.0 to −6.6)."
    )
    assert table.columns == ["error", "worst class", "CVaR 0.5", "Δ worst class", "fit, s"]
    cells = {row.method["name"]: row.cells[3] for row in table.rows}
    assert cells["ours"] is None
    assert (cells["strong"].text, cells["strong"].mark) == ("−0.068", "lower")
    assert cells["weak"].text == "−0.030"


def test_beyond_the_curve_its_end_is_compared():
    table = ComparisonTable(tradeoffs(strong=(0.35, 0.25)))
    assert table.differences["worst_class_error", "strong"].cell.mark == "higher"
    assert table.sentence == (
        "Ours has a worst-class error of 31.1 % at an overall error of 30.1 %, Strong of 25.1 % at 35.1 % "
        "(difference +6.0 percentage points, 95 % interval 5.8 to 6.2)."
    )


def test_a_more_accurate_baseline_has_no_difference():
    table = ComparisonTable(tradeoffs(strong=(0.10, 0.35)))
    assert list(table.differences) == [("worst_class_error", "weak")]
    assert [row.cells[3] is None for row in table.rows] == [True, False, True]


def test_interval_is_paired_and_simultaneous():
    ours, first = np.array([0.1, 0.3, 0.2]), np.array([0.2, 0.2, 0.23])
    document = made_up(
        ("ours", flat(*ours), True), ("first", flat(*first), False), ("second", flat(0.3, 0.4, 0.5), False)
    )
    table = ComparisonTable(document)
    d = ours - first
    # Splits of 7 : 3; errors of the smaller class are multiples of 1/1200; two comparisons.
    variance = (d.var(ddof=1) + 1 / 1200**2 / 12) * (1 / 3 + 3 / 7)
    half = stats.t.ppf(1 - 0.025 / 2, 2) * np.sqrt(variance)
    difference = table.differences["worst_class_error", "first"]
    assert difference.interval["low"] == pytest.approx(d.mean() - half)
    assert difference.cell.half == pytest.approx(half)
    assert difference.cell.mark == ""
    assert "not significant" in table.sentence


@pytest.mark.parametrize(("repeats", "words"), [(1, "1 split"), (2, "2 splits")])
def test_few_splits_have_no_interval(repeats, words):
    table = ComparisonTable(tradeoffs(repeats=repeats))
    assert f"(difference −6.8 percentage points, no interval from {words})" in table.sentence
    assert table.headline.cell.half is None
    assert table.headline.cell.mark == ""


def test_an_interval_of_all_possible_differences_is_left_out():
    """It was printed as −100.0 to 100.0."""
    far = [(0.3, worst, None) for worst in (0.0, 0.9, 0.1)]
    document = made_up(("ours", flat(*[0.3] * 3), True), ("plain", far, False))
    table = ComparisonTable(document)
    assert "no interval from 3 splits" in table.sentence
    assert table.headline.cell.half is None


def test_differences_below_the_printed_digits_are_not_significant():
    document = made_up(
        ("ours", flat(0.2001, 0.3001, 0.4001), True), ("plain", flat(0.2003, 0.3003, 0.4003), False)
    )
    cell = ComparisonTable(document).headline.cell
    assert (cell.text, cell.mark) == ("0.000", "")


def test_only_shared_splits_are_paired():
    document = made_up(("ours", flat(0.1, 0.2), True), ("plain", flat(0.4, 0.5, 0.6), False))
    assert ComparisonTable(document).headline.interval["n"] == 2
    assert ComparisonTable(document).headline.interval["mean"] == pytest.approx(-0.3)


def test_best_cells_are_better_than_a_random_guess():
    document = made_up(("ours", flat(0.2, 0.2), True), ("plain", flat(0.2004, 0.2005), False), repeats=2)
    table = ComparisonTable(document)
    assert table.columns == ["error", "worst class", "CVaR 0.5", "Δ worst class", "fit, s"]
    marks = [[cell.mark if cell else None for cell in row.cells] for row in table.rows]
    assert marks == [["best", "best", "best", None, ""], ["best", "best", "", "", ""]]
    assert table.rows[0].cells[0].text == "0.200"
    poor = ComparisonTable(made_up(("ours", flat(0.5, 0.52), True), ("plain", flat(0.6, 0.62), False)))
    assert poor.columns == ["error", "worst class", "Δ worst class", "fit, s"]  # no CVaR below .5
    assert not any(cell and cell.mark == "best" for row in poor.rows for cell in row.cells)


def test_sentence_needs_both_sides():
    table = ComparisonTable(made_up(("ours", flat(0.1, 0.2), True), repeats=2))
    assert "needs at least one of our methods and one baseline" in table.sentence
    assert table.differences == {}


def test_problems_and_warnings():
    document = made_up(("ours", flat(0.1, 0.1), True), ("plain", flat(0.2, 0.2), False))
    ours, plain = document["methods"]
    ours["warnings"] = ["round 3 reached .52 of 1.0", "round 17 reached .61 of 1e-3", "else"]
    plain["failures"] = [{"repeat": 2, "error": "RuntimeError: no"}]
    document |= {"status": "interrupted", "left_out": [{"title": "Absent", "reason": "not installed"}]}
    table = ComparisonTable(document)
    assert table.warnings == ["Ours: round 3 reached .52 of 1.0", "Ours: else"]
    assert table.problems == [
        "The comparison was interrupted: 4 of 6 fits are finished.",
        "Absent is not in the comparison: not installed",
        "Plain failed on 1 of 3 splits: RuntimeError: no",
    ]


def test_nothing_finished():
    X, y, _ = small_data()
    table = ComparisonTable(compare(X, y, methods=[BROKEN], repeats=1, random_state=0))
    assert table.sentence == "No fit was finished."
    assert table.rows == []


def test_compared_methods_are_shown_first():
    document = tradeoffs()
    more = []
    for i in range(12):
        other = {**document["methods"][1], "name": f"m{i}", "title": f"M{i}", "ours": True}
        other["repeats"] = [
            {**r, "error": 0.4 + 0.01 * i, "class_errors": {"a": i}} for r in other["repeats"]
        ]
        other["figures"] = {**other["figures"], "worst_class_error": interval([0.32, 0.33])}
        more.append(other)
    document["methods"] = [*more, *document["methods"]]
    names = {m["name"] for m in ComparisonTable(document).shown_first(8)}
    assert len(names) == 8
    assert {"ours", "strong"} <= names
