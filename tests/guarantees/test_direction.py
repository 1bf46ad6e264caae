"""A score that falls with its stated label is refused before an attempt; `tailboost.selection.direction`."""

import re
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from conftest import refused
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost.selection.direction import FALLS, refuse_falling

RNG = np.random.default_rng(0)
N = 1500
P = RNG.random(N)
Y = np.where(RNG.random(N) < P, "ill", "well")
TABLE = pd.DataFrame({"p": P, "z": np.log(P / (1 - P)), "grade": np.ceil(5 * P)})
ONE, TWO = ["miss(ill) <= 30%"], ["miss(ill) <= 40%", "false_alarm(ill) <= 40%"]  # ranks, and tests
ON_A_COLUMN = SimpleNamespace(
    score_column=tb.Scores("p", "ill"),
    columns_read=["p"],
    rows=SimpleNamespace(classes=np.array(["ill", "well"])),
)
KINDS = {"p": "probability", "z": "logit", "grade": "number"}


@pytest.mark.parametrize("limits", [ONE, TWO], ids=len)
@pytest.mark.parametrize("column", KINDS)
def test_a_score_with_the_wrong_label_spends_nothing(column, limits):
    scores = tb.Scores(column, "well", kind=KINDS[column])
    for call in (tb.tune, tb.calibrate):
        refused(lambda: call(scores, TABLE, Y, limits=limits), "'ill'")
    right = tb.calibrate(tb.Scores(column, "ill", kind=KINDS[column]), TABLE, Y, limits=limits)
    assert len(right.certificate_.attempts) == 1


def second_of(X):
    p = np.asarray(X)[:, 0]
    return np.c_[p, 1.0 - p][:, ::-1]  # columns in another order than the labels


SWAPPED = LogisticRegression().fit(TABLE[["z"]], np.where(Y == "ill", "well", "ill"))


@pytest.mark.parametrize(("model", "column"), [(second_of, "p"), (SWAPPED, "z")], ids=["function", "model"])
def test_a_model_with_its_labels_in_another_order_is_refused_too(model, column):
    with pytest.raises(ValueError, match=re.escape("order of the labels ['ill', 'well']")):
        tb.calibrate(model, TABLE[[column]], Y, limits=ONE)


def test_fresh_rows_with_reversed_labels_spend_nothing():
    rule = tb.tune(tb.Scores("p", "ill"), TABLE[["p"]], Y, limits=ONE)
    other = pd.DataFrame({"p": RNG.random(N)})
    y = np.where(RNG.random(N) < other["p"], "well", "ill")
    refused(lambda: tb.calibrate(rule, other, y), "Nothing is spent")
    assert rule.ledger_.attempts == ()


def test_few_rows_and_constant_scores_are_refused_by_no_direction():
    rows = slice(100)
    with pytest.warns(UserWarning, match="speak against"), pytest.raises(tb.NotCertifiedError) as refused:
        tb.calibrate(tb.Scores("p", "well"), TABLE[rows], Y[rows], limits=ONE)
    assert len(refused.value.attempts) == 1
    with pytest.warns(UserWarning, match="label='ill'"), pytest.warns(tb.UselessRuleWarning):
        tb.tune(tb.Scores("p", "well"), TABLE[rows], Y[rows])  # these pairs suffice for a warning
    constant = pd.DataFrame({"p": np.full(N, 0.5)})
    with pytest.raises(tb.NotCertifiedError), pytest.warns(UserWarning, match="all rows"):
        tb.calibrate(tb.Scores("p", "ill"), constant, Y, limits=TWO)


def test_groups_decide_where_the_rule_reads_them():
    """Healthy groups may have high scores, which grow with the label within each of them."""
    site = np.where(RNG.random(N) < 0.5, "a", "b")
    chance = np.where(site == "a", 0.3 + 0.7 * P, 0.3 * P)
    y = np.where(RNG.random(N) < chance, "ill", "well")
    table = pd.DataFrame({"s": np.where(site == "a", P / 2, 0.5 + P / 2)})
    given = {"groups": pd.DataFrame({"site": site}), "limits": ["miss(ill, by=site) <= 40%"]}
    told = tb.calibrate(tb.Scores("s", "ill"), table, y, by_group="site", **given)
    assert told.certificate_.certified
    falls = "speak against"
    with pytest.warns(UserWarning, match=falls), pytest.raises(tb.NotCertifiedError, match=falls):
        tb.calibrate(tb.Scores("s", "ill"), table, y, **given)


@pytest.mark.parametrize("grades", [3, 1000])
def test_the_share_is_that_of_all_pairs(grades):
    scores, y, place = RNG.integers(0, grades, 60), RNG.integers(0, 2, 60), RNG.integers(0, 3, 60)
    total, n_pairs = 0.0, 0
    for each in range(3):
        first, second = (scores[(place == each) & (y == label)] for label in (0, 1))
        n = min(len(first), len(second))
        total += n * np.mean(second[:, None] >= first)
        n_pairs += n
    np.testing.assert_allclose(share_of(scores, y, place), total / n_pairs)


@pytest.mark.parametrize("places", [1, 2])
def test_rows_of_the_rarer_label_decide_in_each_place(places):
    """Of scores that fall in all pairs A is 0: 14 pairs suffice for no warning, 15 for one, 149 refuse."""
    for n, kinds in ((14, []), (15, [UserWarning]), (148, [UserWarning])):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert share_of(*falling(n, places)) == 0.0
        assert [each.category for each in caught] == kinds
    refused(lambda: share_of(*falling(149, places)), "speak against")


def share_of(scores, y, place):
    """Return the share A of rows, each with a stratum of its label."""
    data = SimpleNamespace(strata=SimpleNamespace(y=np.arange(2)), stratum=y)
    table = SimpleNamespace(models=ON_A_COLUMN, score=scores, groups=place)
    return refuse_falling(data, table, slice(None))


def falling(n, places):
    """Return scores, labels and places: n rows of the rarer labels, the first label in the last place."""
    place = np.arange(n) % places
    rare = (place < places - 1).astype(int)
    y = np.r_[rare, 1 - rare, 1 - rare]
    return -1.0 * y, y, np.tile(place, 3)


@pytest.mark.parametrize("n", [150, 200, 500, 3000])
def test_a_free_refusal_and_a_certificate_are_not_both_likely(n):
    """The theorem for pairs that are coins: for each θ, one of its two events is improbable."""
    theta = np.linspace(0.001, 0.999, 999)
    refused = binom.cdf(np.floor(n * (0.5 - FALLS / n**0.5)), n, theta)
    certified = binom.sf(np.ceil(n / 2) - 1, n, theta)
    assert np.minimum(refused, certified).max() < 1e-8
