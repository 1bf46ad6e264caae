"""What `print` shows of a rule and a certificate: limits first, few words, digits that the rows support."""

import ast
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost.core.rate_words import bound_words, estimate_words, stated_words
from tailboost.rows.judged import judged


def draw(n, seed):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.4).astype(int)
    site = rng.choice(["Other", "St. Mary", "ER Süd", "North, Wing B"], n)
    score = 1 / (1 + np.exp(-(1.2 * (2 * y - 1) + rng.normal(size=n))))
    return pd.DataFrame({"score": score}), y, pd.DataFrame({"site": site})


LIMITS = ["recall(1, by=site) >= 60%", "deferred() <= 30%"]


@pytest.fixture(scope="module")
def rule():
    T, y, site = draw(2000, 0)
    return tb.tune(tb.Scores("score", 1), T, y, groups=site, limits=LIMITS)


@pytest.fixture(scope="module")
def certified(rule):
    T, y, site = draw(4000, 1)
    return tb.calibrate(rule, T, y, groups=site)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_certificate_of_five_limits_is_short(certified):
    text = str(certified.certificate_)
    assert len(text.split()) <= 140
    assert text.startswith("Certified with 95 % confidence from 4,000 fresh rows")
    assert "recall of 1 by site ≥ 60 %" in text  # stated in percent
    assert certified.certificate_.assumptions.count("attempt 1") == 1
    assert text.splitlines()[-1].endswith("see .assumptions")
    there = tb.Certificate.from_dict(certified.certificate_.to_dict())
    assert str(there) == text


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_rule_is_printed_with_its_limits_and_without_parameters(rule, certified):
    for fitted, verdict in ((rule, "kept ("), (certified, "certified with 95 % confidence")):
        text = str(fitted)
        assert len(text.splitlines()) <= 12
        _, first, second, *_ = text.splitlines()
        assert first.startswith("limit  recall of 1 by site ≥ 60 %")
        assert second.startswith("limit  share deferred ≤ 30 %")
        assert verdict in first
        assert verdict in second
        assert "estimators=" not in text
        assert str(fitted.rule_).splitlines()[0] in text
        assert repr(fitted).startswith("RobustMixtureClassifier(estimators=")
        summary = str(fitted.summary_)
        assert summary.index("share deferred") < summary.index("verall error")
        assert summary.endswith("The rest: print(rule.summary_.details)")


def test_inner_models_are_shortened_in_repr_alone():
    long = LogisticRegression(C=0.123456789, tol=0.000123456, max_iter=12345, fit_intercept=False)
    mix = tb.RobustMixtureClassifier([("a", long), ("b", LogisticRegression())])
    assert "LogisticRegression(...)" in repr(mix)
    assert "LogisticRegression())" in repr(mix)
    assert str(mix) == repr(mix)
    assert mix.get_params()["a"] is long


@pytest.mark.parametrize("in_percent", [False, True])
@pytest.mark.parametrize("n", [17, 400, 3_000, 300_000])
def test_printed_numbers_are_true(n, in_percent):
    """A bound is rounded away from the rate, an estimate stays on its side of the limit."""
    rng = np.random.default_rng(n)
    unit = 100 if in_percent else 1
    for value, limit in rng.random((300, 2)).tolist():

        def read(text):
            return float(re.sub(r" %$", "", text)) / unit

        upper = read(bound_words(value, n, above=True, beside=limit, in_percent=in_percent))
        lower = read(bound_words(value, n, above=False, beside=limit, in_percent=in_percent))
        assert lower <= value + 1e-9
        assert upper >= value - 1e-9
        assert (value <= limit) == (upper <= limit + 1e-9)
        assert (value >= limit) == (lower >= limit - 1e-9)
        near = limit + (value - limit) / 100
        shown = read(estimate_words(near, n, beside=limit, in_percent=in_percent))
        assert (shown > limit) == (near > limit)
        assert abs(shown - near) <= max(abs(near - limit), 1e-6) + 1e-12
        assert read(stated_words(round(limit, 3), in_percent=in_percent)) == pytest.approx(round(limit, 3))


def test_more_rows_have_more_digits():
    assert estimate_words(0.21873, 6_000) == "0.219"
    assert estimate_words(0.21873, 600) == "0.22"
    assert estimate_words(0.21873, 6_000, in_percent=True) == "21.9 %"
    assert estimate_words(0.21873, 60, in_percent=True) == "22 %"
    assert estimate_words(0.42625, 800, beside=0.426, in_percent=True) == "42.62 %"
    assert estimate_words(0.11278, 266, beside=0.5, in_percent=True) == "11 %"
    assert estimate_words(None, 0) == "–"
    assert bound_words(0.124, 50, above=True, beside=0.125) == "0.124"


@pytest.mark.parametrize("text", ["miss(1) <= 7%", "gap(selected(1, by='sex')) <= 2.5%", "miss(1) <= 0.07"])
def test_a_limit_keeps_its_unit_in_text(text):
    limit = tb.rates.parse(text)
    again = tb.rates.parse(limit.text)
    assert again == limit
    assert str(again) == str(limit)
    assert ("%" in limit.text) == text.endswith("%") == ("%" in str(limit))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("miss(1, by=site) <= {a: 7%, 'b c': 12.5%}", "{'a': 7%, 'b c': 12.5%}"),
        ("recall('1', by=[site, age]) >= {('o\\'hara', 3): 90%, None: .1}", "None: 10%}"),
        ("error(by=cell) <= {('yes', 'f'): .3}", "{('yes', 'f'): 0.3}"),
        ("deferred(by=open) <= {True: 29%}", "{True: 29%}"),
    ],
)
def test_bounds_by_subgroup_keep_their_unit_in_text(text, written):
    limit = tb.rates.parse(text)
    assert limit.text.endswith(written)
    again = tb.rates.parse(limit.text)
    assert again == limit
    assert again.in_percent == limit.in_percent


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("further", [[], ["false_alarm(1) <= 95%"]])
def test_a_selected_rule_prints_the_limits_without_the_group_whose_few_rows_cost_the_most(further):
    T, y, site = draw(3000, 5)
    few = np.flatnonzero(site["site"] == "Other")
    site.loc[few[24:], "site"] = "St. Mary"
    at_few = (site["site"] == "Other").to_numpy() & (y == 1)
    T.loc[at_few, "score"] *= 0.2
    given = {"groups": site, "limits": ["miss(1, by='site') <= 30%", *further]}
    fitted = tb.tune(tb.Scores("score", 1), T, y, **given)
    (line,) = re.findall(r"The limit on Other, with .*", str(fitted))
    assert line == fitted.summary_.costly_few
    assert line in str(fitted.summary_)
    assert line.startswith(
        f"The limit on Other, with {at_few.sum()} rows, costs the most: without it the error"
    )
    pasted = ast.literal_eval(re.search(r"limits=(\[.*\])\.$", line)[1])
    assert pasted[0] == "miss(1, by='site') <= {'ER Süd': 30%, 'North, Wing B': 30%, 'St. Mary': 30%}"
    assert pasted[1:] == further
    without = tb.tune(tb.Scores("score", 1), T, y, groups=site, limits=pasted)
    errors = [np.mean(rule.predict(T) != y) for rule in (fitted, without)]
    assert errors[1] < errors[0] - 0.05
    low, high = map(float, re.search(r"would be lower by (\S+) to (\S+) points \(95 %\), and", line).groups())
    assert low < 100 * (errors[0] - errors[1]) < high
    missed = float(re.search(r"and the miss rate of 1 by site there (\S+) % on these rows\.", line)[1])
    assert missed == pytest.approx(100 * np.mean(without.predict(T)[at_few] != 1), rel=0.01)
    assert without.summary_.costly_few == ""
    wider = tb.tune(tb.Scores("score", 1), T, y, groups=site, limits=["miss(1, by='site') <= 90%"])
    assert wider.summary_.costly_few == ""


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_estimate_without_an_interval_is_printed_with_its_rows():
    T, y, site = draw(2000, 3)
    few = np.flatnonzero(site["site"] == "Other")[15:]  # the others of this site move to another one
    site.loc[few, "site"] = "St. Mary"
    ill = int(((site["site"] == "Other") & (y == 1)).sum())
    assert ill < 10
    fitted = tb.tune(tb.Scores("score", 1), T, y, groups=site, limits=["miss(1, by=site) <= 40%"])
    for table in (fitted.summary_, fitted.rates_):
        (line,) = [line for line in str(table).splitlines() if " Other " in line]
        assert f"– ({ill} rows)" in line
    assert f"in 4 subgroups of at least {ill} rows)" in str(fitted)
    lines = {line.name: line.numbers for line in fitted.rates_.limit_lines()}
    assert lines["miss rate of 1 by site: Other"].endswith(f"% of {ill} rows")
    assert "95 % interval" in lines["miss rate of 1 by site: ER Süd"]
    found = judged(fitted).measured(tb.rates.miss(1, by="site") <= "0%").stated_limits()[0].found
    n_missed = int(((site["site"] == "Other") & (y == 1) & (fitted.predict(T) == 0)).sum())
    assert f"Other {100 * n_missed / ill:.0f} % of {ill} rows" in found


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_limits_of_a_certificate_have_rows_or_a_tighter_bound(certified):
    _, y, site = draw(4000, 1)
    for line in certified.certificate_.limit_lines():
        name = line.name.partition(": ")[2]
        counted = np.ones(4000, bool) if name == "all rows" else (site["site"] == name) & (y == 1)
        assert f" of {counted.sum():,} rows" in line.numbers


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_share_deferred_beside_a_recall_is_said_to_be_of_all_rows(rule, certified):
    """A recall counts the rows of one label, the share deferred beside it the rows of all labels."""
    for fitted, table, rows in (
        (rule, rule.rates_.cells(), draw(2000, 0)),
        (certified, certified.certificate_.cells(), draw(4000, 1)),
    ):
        heads, lines = table
        place = heads.index("deferred, of all rows")
        T, y, site = rows
        deferred = fitted.defers(T)
        for name in site["site"].unique():
            (line,) = [line for line in lines if name in (cell.strip() for cell in line)]
            is_there = (site["site"] == name).to_numpy()
            assert line[place] == f"{100 * deferred[is_there].mean():.0f} %"
            assert line[place] != f"{100 * deferred[is_there & (y == 1)].mean():.0f} %"
