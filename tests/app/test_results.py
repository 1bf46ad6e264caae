"""Documents of comparisons: intervals, summaries and files."""

import json

import numpy as np
import pytest
from made_up_comparisons import marked_up_results
from scipy import stats

from tailboost.app.report import Results
from tailboost.app.report.results import interval, interval_note, resampled_interval, summarise


def test_interval_is_students():
    errors = [0.1, 0.2, 0.35]
    truth = stats.ttest_1samp(errors, 0).confidence_interval(0.95)
    figure = interval(errors)
    assert (figure["mean"], figure["n"]) == (pytest.approx(np.mean(errors)), 3)
    assert (figure["low"], figure["high"]) == pytest.approx((truth.low, truth.high))
    assert interval([0.25]) == {"mean": 0.25, "low": None, "high": None, "n": 1}


def test_resampled_interval_has_the_corrected_variance():
    d = np.array([0.1, 0.3, -0.05, 0.2])
    half = stats.t.ppf(0.975, 3) * np.sqrt((1 / 4 + 0.5) * d.var(ddof=1))
    figure = resampled_interval(d, 0.5)
    assert (figure["low"], figure["high"]) == pytest.approx((d.mean() - half, d.mean() + half))
    # Without shared rows the test is the ordinary paired test; one of five has the level 99 %.
    for tests, level in ((1, 0.95), (5, 0.99)):
        truth = stats.ttest_1samp(d, 0).confidence_interval(level)
        figure = resampled_interval(d, 0.0, tests=tests)
        assert (figure["low"], figure["high"]) == pytest.approx((truth.low, truth.high))
    for few in ([0.1], [0.1, 0.1]):  # with two, Student's t has the quantile 12.7
        assert resampled_interval(few, 0.5) == {"mean": 0.1, "low": None, "high": None, "n": len(few)}
    assert resampled_interval([0.1, 0.1, 0.1], 0.5)["low"] == pytest.approx(0.1)


def test_equal_differences_of_few_rows_are_not_certain():
    """Three splits of few rows often have equal differences; the step keeps the level for equal methods."""

    def significant(figure):
        return not figure["low"] <= 0 <= figure["high"]

    rng = np.random.default_rng(0)
    n, level, draws = 60, 0.05, 4000
    with_step = without_step = 0
    for _ in range(draws):
        d = (rng.binomial(n, 0.01, 3) - rng.binomial(n, 0.01, 3)) / n
        with_step += significant(resampled_interval(d, 0.0, 1 / n))
        without_step += significant(resampled_interval(d, 0.0, tests=10))
    assert with_step <= draws * level + 3 * np.sqrt(draws * level)
    assert without_step > 3 * draws * level / 10


def test_nested_records_are_summarised():
    records = [{"a": 1.0, "b": {"x": None}, "c": [0.0, 2.0]}, {"a": 3.0, "b": {"x": None}, "c": [0.0, 4.0]}]
    summary = summarise(records)
    assert summary["a"]["mean"] == 2
    assert summary["b"] == {"x": None}
    assert [figure["mean"] for figure in summary["c"]] == [0, 3]
    assert summarise([{"a": 1.0}, {"b": 2.0}])["b"] == interval([2.0])


def test_save_and_load(tmp_path):
    results = marked_up_results()
    results.save(tmp_path / "r.json")
    assert Results.load(tmp_path / "r.json").document == json.loads(json.dumps(results.document))
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("not json", "is not JSON"),
        ("[]", "holds no results"),
        ('{"schema": "other"}', "holds no results"),
        ('{"schema": "tailboost.results", "schema_version": 99}', "schema version 99"),
        ('{"schema": "tailboost.results"}', "schema version None"),
    ],
)
def test_load_refuses(tmp_path, content, message):
    (tmp_path / "r.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        Results.load(tmp_path / "r.json")


def test_the_note_says_how_many_splits_have_an_interval_or_none():
    assert interval_note(7).startswith("Mean and 95 % Student t interval over 7 random splits")
    assert "--repeats" not in interval_note(3)
    assert interval_note(2).startswith("Fewer than 3 splits have no interval")
