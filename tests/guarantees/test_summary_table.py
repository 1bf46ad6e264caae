"""Summary and trace in a notebook: tables of the fitted numbers."""

import json
import warnings

import numpy as np
import pytest
from conftest import errors_of
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost import rates
from tailboost.learners import HistTreeClassifier
from tailboost.rows.judged import judged
from tailboost.selection.rate_table import MOST_LINES, RateLine, RateTable
from tailboost.selection.summary import Bound

TREE = HistTreeClassifier(max_depth=3)


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(600, 8, n_informative=4, n_classes=3, weights=[0.7, 0.2, 0.1], random_state=0)
    return X, np.array(["a", "b", "<c>"])[y], np.where(X[:, 0] > 0, "u", "v")


@pytest.fixture(scope="module")
def worst_class(data):
    X, y, _ = data
    allowed = {"a": 0.1, "b": 0.5, "<c>": 0.3}
    with warnings.catch_warnings():  # a missed target is intended
        warnings.simplefilter("ignore")
        return tb.WorstClassBoostClassifier(TREE, max_error=allowed, n_estimators=6, random_state=0).fit(X, y)


def test_lines_are_the_fitted_errors(data, worst_class):
    _, y, _ = data
    table = worst_class.summary_.errors
    assert table.kind == "class"
    allowed = dict(zip(worst_class.subgroup_errors_, worst_class.max_error_, strict=True))
    for rule, errors in (
        ("predict", errors_of(worst_class)),
        ("randomised", worst_class.expected_subgroup_errors_),
    ):
        lines = [line for line in table if line.rule == rule]
        for line, error in zip(lines, errors, strict=True):
            assert line.rate == "error by class"
            assert line.rows == pytest.approx((y == line.subgroup).sum(), rel=0.01)
            assert (line.bound, line.value) == (allowed[line.subgroup], pytest.approx(error, abs=1e-12))
            assert line.met == (error <= line.bound)


def test_the_table_is_printed_first(worst_class):
    text = worst_class.summary_.details
    head, titles, *lines = text.splitlines()
    assert head.startswith("error of each class, measured on")
    assert titles.split("  ")[0] == "class"
    for name, line in zip(worst_class.subgroup_errors_, lines, strict=False):
        assert line.startswith(name)
    assert text.index(worst_class.summary_.headline) > text.index(lines[2])


def test_html_is_escaped_and_whole(worst_class):
    html = worst_class.summary_._repr_html_()
    assert "<c>" not in html
    assert "&lt;c&gt;" in html
    assert html.count("<table>") == html.count("</table>") == 1
    assert worst_class.summary_.headline.replace("<", "&lt;") in html.replace("&#x27;", "'")


def test_dict_is_json(worst_class):
    found = json.loads(json.dumps(worst_class.summary_.to_dict()))
    units = [line["subgroup"] for line in found["errors"]["lines"] if line["rule"] == "predict"]
    assert units == list(worst_class.subgroup_errors_)


def test_groups_and_cells(data):
    X, y, groups = data
    dro = tb.GroupDROBoostClassifier(TREE, n_estimators=4, random_state=0).fit(X, y, groups=groups)
    table = dro.summary_.errors
    for line in table:  # effective numbers: rows with equal hashes count once
        assert line.rows == pytest.approx((groups == line.subgroup).sum(), rel=0.01)
    drawn = [line.value for line in table if line.rule == "randomised"]
    assert max(drawn) == pytest.approx(dro.summary_.achieved)
    assert [line.value for line in table if line.rule == "predict"] == errors_of(dro).tolist()
    cells = tb.WorstClassBoostClassifier(n_estimators=4, subgroups="cell", random_state=0).fit(
        X, y, groups=groups
    )
    rows = {line.subgroup: line.rows for line in cells.summary_.errors}
    assert rows[("a", "u")] == pytest.approx(((y == "a") & (groups == "u")).sum(), rel=0.01)
    json.dumps(cells.summary_.to_dict())


def test_no_table_where_the_objective_is_about_rows(data, worst_class):
    X, y, groups = data
    assert tb.AdaLPBoostClassifier(n_estimators=2, random_state=0).fit(X, y).summary_.errors is None
    dro = tb.GroupDROBoostClassifier(TREE, n_estimators=3, random_state=0).fit(X, y, groups=groups)
    assert dro.reweight(alpha=0.3).summary_.errors is None  # about rows
    assert dro.reweight(objective="worst_class").summary_.errors.kind == "class"


def test_every_boosting_summary_begins_with_errors_by_subgroup_and_the_overall_error(data):
    X, y, groups = data
    given = {"n_estimators": 3, "random_state": 0}
    fitted = [
        tb.AdaLPBoostClassifier(**given).fit(X, y),
        tb.CVaRBoostClassifier(**given).fit(X, y),
        tb.AverageBoostClassifier(**given).fit(X, y),
        tb.WorstClassBoostClassifier(**given).fit(X, y),
        tb.GroupDROBoostClassifier(TREE, **given).fit(X, y, groups=groups),
    ]
    for clf in fitted:
        head, *lines = str(clf.summary_).splitlines()
        assert head.startswith("error of each ")
        (overall,) = (line for line in lines if line.startswith("Overall error of predict "))
        (measured,) = judged(clf).measured(tb.rates.error())
        assert overall.split()[4].rstrip(".") == measured.estimate_text
        assert json.loads(json.dumps(clf.summary_.to_dict()))["overall_error"] == measured.value
    assert fitted[0].summary_.by_class.kind == "class"
    assert fitted[3].summary_.by_class is None


def test_of_many_units_the_worst_are_shown():
    errors = np.linspace(0.0, 0.9, 50)
    nan = float("nan")
    lines = [RateLine("error by class", k, e, nan, nan, 1.0, "", nan, None) for k, e in enumerate(errors)]
    table = RateTable(tuple(lines), "50 rows", kind="class")
    assert len(str(table).splitlines()) == MOST_LINES + 2
    assert "\n49 " in str(table)
    assert "\n0 " not in str(table)
    assert "20 more" in str(table)
    assert len(table.lines) == 50


@pytest.mark.parametrize(("value", "empty"), [(None, False), (0.99, False), (1.0, True), (3.031, True)])
def test_bounds_of_one_or_more_say_nothing(value, empty):
    bound = Bound("largest mean loss", "V", value)
    assert bound.empty is empty
    assert ("says nothing" in str(bound)) is empty


def test_trace(worst_class):
    trace = worst_class.trace_
    found = json.loads(json.dumps(trace.to_dict()))
    assert found["weighted_loss"] == trace.weighted_loss.tolist()
    assert found["weights"] == trace.weights.tolist()
    assert found["stop_reason"] == trace.stop_reason
    assert [trace[t].value for t in range(len(trace))] == trace.value.tolist()
    assert trace[-1] is trace.rounds[-1]


@pytest.mark.parametrize("name", ["GroupDROBoostClassifier", "AdaLPBoostClassifier"])
def test_the_usual_name_of_groups_elsewhere(data, name):
    X, y, groups = data
    with pytest.raises(TypeError, match="use groups="):
        getattr(tb, name)().fit(X, y, sensitive_features=groups)


def test_an_unknown_class_is_named(data):
    X, y, _ = data
    with pytest.raises(ValueError, match="no class is called 'z'"):
        tb.WorstClassBoostClassifier(max_error={"a": 0.1, "z": 0.3, None: 0.4}).fit(X, y)


def test_what_is_printed_is_the_table_and_three_sentences(worst_class):
    """The last sentence repeats the table; only the details use symbols."""
    said = worst_class.summary_
    *table, overall, standing, headline = str(said).splitlines()
    assert "\n".join(table) == str(said.errors.of_rule("predict"))
    assert overall.startswith("Overall error of predict ")
    assert [standing, headline] == [said.comparison, said.headline]
    worst = max(said.errors.of_rule("predict"), key=lambda line: line.value)
    # The largest of three estimates has no interval: it is above its own one too often.
    assert said.headline == (
        f"Worst class: {worst.subgroup}, error {100 * worst.value:.0f} % (the largest of 3 estimates on the "
        "rows that selected the rule)."
    )
    assert "symbols: " in said.details
    assert not set("λη") & set(str(said))


def test_the_summary_names_the_rate_of_the_reference_and_explains_wide_intervals(data):
    X, y, _ = data
    line = [("line", LogisticRegression())]
    costs = rates.cost([[0, 1, 5], [1, 0, 1], [7, 1, 0]])
    by_class = tb.RobustMixtureClassifier(line, random_state=0).fit(X, y).summary_
    by_cost = tb.RobustMixtureClassifier(line, objective=costs, random_state=0).fit(X, y).summary_
    largest = f"{100 * by_class.reference_value:.0f} %"
    assert f"; the largest error by class of the most accurate rule is {largest}" in by_class.headline
    assert f". Mean cost: {by_cost.achieved:.3f}" in by_cost.headline
    assert "Intervals of subgroups allow for a refit" in str(by_class)
    # The largest estimate and the largest bound may be of two classes, so their line has no rows.
    certificate = tb.certify(LogisticRegression().fit(X, y), X, y)
    heads, cells = certificate.cells()
    assert cells[-1][0].strip() == "worst class"
    assert cells[-1][heads.index("rows")] == ""
