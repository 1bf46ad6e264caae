"""Prices of limits: what the rows that chose the thresholds may say, and what other rows may."""

import json

import numpy as np
import pandas as pd
import pytest

import tailboost as tb
from tailboost.guarantees.certificates import Certificate

WORDS = "on the rows that chose the thresholds"
TEN = ["miss(1, by=g) <= .7"]
SETTINGS = {  # limits, further arguments, whether ranks of the fresh scores are chosen by errors
    "ranks": (["miss(1) <= .5"], {}, True),
    "ranks by group": (TEN, {"by_group": True}, True),
    "ranks of a gap": (["gap(selected(1, by=g)) <= .15"], {"by_group": True}, False),
    "ranks and a test": (["miss(1, by=g) <= .4", "false_alarm(1) <= .5"], {"by_group": True}, False),
    "ranks beside deferral": (["miss(1) <= .4", "deferred() <= .5"], {}, False),
    "sequence": (["error() <= .4"], {}, False),
    "tightened": (["f_score(1) >= .4"], {}, False),
}


def drawn(seed, n, groups):
    """Return rows with P(1) = p, uniform, in groups of equal size."""
    r = np.random.default_rng([seed, n, groups])
    p = r.random(n)
    y = (r.random(n) < p).astype(int)
    return pd.DataFrame({"p": p}), y, pd.DataFrame({"g": r.integers(groups, size=n)})


def calibrated(seed, n, n_groups, limits, **options):
    X, y, groups = drawn(seed, n, n_groups)
    return tb.calibrate(tb.Scores("p", 1), X, y, groups=groups, limits=limits, **options)


@pytest.mark.parametrize("name", SETTINGS)
def test_rows_that_chose_the_thresholds_give_no_interval(name):
    limits, options, chose = SETTINGS[name]
    rule = calibrated(0, 1500, 2, limits, **options)
    certificate, error = rule.certificate_, next(line for line in rule.rates_ if line.rate == "error")
    assert np.isnan(error.low) == (chose or "by_group" in options)
    of_all = certificate.price[0]
    assert (of_all.noise is None) == chose
    (line, *_) = certificate.lines()
    assert line.count(WORDS) == 2 * chose
    assert ("95 %" in line) == (not chose)
    document = json.loads(json.dumps(certificate.to_dict()))
    assert (document["price"][0]["noise"] is None) == chose
    assert Certificate.from_dict(document).lines() == certificate.lines()


def test_a_price_of_one_limit_has_no_interval_if_the_rule_without_it_was_chosen():
    """Precision has a sequence; without it misses have ranks."""
    certificate = calibrated(0, 2000, 2, ["miss(1) <= .6", "precision(1) >= .6"]).certificate_
    by_limit = {price.limit: price for price in certificate.price}
    assert [price.noise is None for price in by_limit.values()] == [False, False, True]
    assert WORDS in str(by_limit["precision of 1: at least 0.6"])


@pytest.mark.parametrize("name", ["ranks", "sequence", "tightened"])
def test_errors_need_no_probabilities(name):
    """Numbers that grow with P(1): the rules err as counted, and without limits about .25."""
    limits, _, chose = SETTINGS[name]
    (X, y, _), (A, b, _) = drawn(0, 4000, 1), drawn(1, 3000, 1)
    scores = tb.Scores("p", 1, kind="number")
    tuned = tb.tune(scores, np.exp(9 * X), y, limits=limits)
    certified = tb.calibrate(tuned, np.exp(9 * A), b)
    (price,) = certified.certificate_.price
    assert price.error == pytest.approx(np.mean(certified.predict(np.exp(9 * A)) != b))
    assert abs(price.without - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 3000)
    assert (price.noise is None) == chose
    assert "Overall error" in str(certified.certificate_)


def truth(rule, n_groups):
    """Return by how much a rule of thresholds errs more than the threshold .5, deferral being no error."""
    excess = []
    for band in rule.rule_.bands * (n_groups // len(rule.rule_.bands)):
        ends, error = [0.0, *(end for end, _ in band[1:]), 1.0], 0.0
        for (_, answer), low, high in zip(band, ends[:-1], ends[1:], strict=True):
            mass_of_1 = (high**2 - low**2) / 2
            error += {1: high - low - mass_of_1, 0: mass_of_1}.get(answer, 0.0)
        excess.append(error - 0.25)
    return float(np.mean(excess))


# Groups, rows, limits and further arguments.
COVERED = [
    (1, 200, ["error() <= .4"], {}), (1, 500, ["precision(1) >= .6"], {}),
    (1, 1000, ["miss(1) <= .3", "deferred() <= .4"], {}),
    (2, 400, ["gap(selected(1, by=g)) <= .25"], {"by_group": True}),
    (2, 1000, ["miss(1, by=g) <= .4", "false_alarm(1) <= .5"], {"by_group": True}),
    (4, 2000, ["precision(1, by=g) >= .55"], {"by_group": True}),
    (4, 2000, ["miss(1, by=g) <= .4", "deferred() <= .5"], {"by_group": True}),
    (5, 3000, ["gap(selected(1, by=g)) <= .2"], {"by_group": True}),
    (10, 5000, ["miss(1, by=g) <= .5", "false_alarm(1) <= .5"], {"by_group": True}),
    (10, 5000, ["miss(1, by=g) <= .5", "deferred() <= .5"], {"by_group": True}),
]  # fmt: skip


def covered(setting, draws, monkeypatch):
    """Return in how many draws an interval of the price is printed, and how often it has the true price."""
    monkeypatch.setattr("tailboost.classifiers.calibrating.MOST_PRICED", 0)
    n_groups, n, limits, options = setting
    inside = []
    for seed in range(draws):
        try:
            rule = calibrated(seed, n, n_groups, limits, **options)
        except tb.NotCertifiedError:
            continue
        (price,) = rule.certificate_.price
        assert price.noise is not None
        inside.append(abs(price.error - price.without - truth(rule, n_groups)) <= 1.96 * price.noise)
    return len(inside), sum(inside)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("setting", COVERED[:4:2])
def test_a_printed_interval_has_the_true_price(setting, monkeypatch):
    printed, inside = covered(setting, 12, monkeypatch)
    assert printed - inside <= 3  # 5 % of 12: more than three have a probability of .002


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("setting", COVERED)
def test_a_printed_interval_has_the_true_price_in_many_draws(setting, monkeypatch):
    printed, inside = covered(setting, 400, monkeypatch)
    print(setting, printed, inside / printed)
    assert inside >= 0.93 * printed


@pytest.mark.parametrize(("limit", "errs"), [(0.02, 0.48), (0.3, 0.27)])
def test_limits_that_cost_ten_points_have_one_warning(limit, errs, recwarn):
    rule = calibrated(0, 3000, 1, [f"miss(1) <= {limit}"])
    found = [each for each in recwarn if each.category is tb.exceptions.UselessRuleWarning]
    assert len(found) == (limit < 0.1)
    assert rule.certificate_.price[0].error == pytest.approx(errs, abs=0.1)


@pytest.mark.parametrize("order", [1, -1])
def test_the_warning_names_the_limit_without_which_rows_get_their_likelier_label(order):
    limits = ["selected(1) <= .97", "miss(1) <= .03"][::order]  # P(1) > .5 of half of the rows
    with pytest.warns(tb.UselessRuleWarning, match="loosen miss"):
        calibrated(0, 3000, 1, limits)


def test_a_price_of_equal_rules_has_the_noise_of_one_row_for_each():
    p, y = np.repeat([0.2, 0.8], 1500), np.arange(3000) % 5 > np.repeat([3, 0], 1500)
    rule = tb.calibrate(tb.Scores("p", True), pd.DataFrame({"p": p}), y, limits=["error() <= .4"])
    (price,), n = rule.certificate_.price, rule.certificate_.n_rows
    assert (price.error, price.noise) == (price.without, pytest.approx(np.sqrt(2) / n))


@pytest.mark.parametrize("by_group", [False, True])
def test_of_equal_errors_the_least_deferral_is_selected(by_group):
    """Only scores from .3 to .7 are ever wrong: deferral of more rows lowers no error."""
    r = np.random.default_rng(0)
    p = r.random(3000)
    is_doubtful = np.abs(p - 0.5) < 0.2
    y = np.where(is_doubtful, r.random(3000) < 0.5, p > 0.5).astype(int)
    X, groups = pd.DataFrame({"p": p}), pd.DataFrame({"g": r.integers(2, size=3000)})
    limits = ["deferred() <= .6", "miss(1) <= .2"]
    rule = tb.tune(tb.Scores("p", 1), X, y, groups=groups, by_group=by_group, limits=limits)
    given = {"groups": groups} if by_group else {}
    deferred = rule.defers(X, **given)
    assert not (deferred & ~is_doubtful).any()
