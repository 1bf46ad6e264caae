"""Rates as objective and limits of `RobustMixtureClassifier`."""

import pickle
import warnings

import numpy as np
import pytest
from conftest import errors_of, refused
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost import RobustMixtureClassifier, rates
from tailboost.exceptions import SmallSubgroupsWarning
from tailboost.rates import InfeasibleLimitsError

N = 1200
RNG = np.random.default_rng(0)
X, _Y = make_classification(N, 6, n_informative=4, n_redundant=0, flip_y=0.1, random_state=1)
Y = np.where(_Y == 1, "yes", "no")
SEX = np.where(X[:, 0] + RNG.normal(size=N) > 0, "m", "f")
RACE = RNG.integers(3, size=N)
GROUPS = {"sex": SEX, "race": RACE}
SELECTED = rates.selected("yes", by="sex")
PARITY = rates.gap(SELECTED) <= 0.05
MODEL = LogisticRegression().fit(X[:400], Y[:400])
P = {"model": MODEL.predict_proba(X)}


def judged(**params):
    return RobustMixtureClassifier.from_probabilities(P, Y, groups=GROUPS, **params)


def test_the_table_is_what_counting_the_answers_gives():
    for told in (False, True):
        groups = {"sex": SEX} if told else GROUPS
        asked = {"limits": [PARITY, rates.precision("yes") >= 0.7], "by_group": told, "groups": groups}
        objective = rates.largest(rates.error(by="class"))
        mix = RobustMixtureClassifier.from_probabilities(P, Y, objective=objective, **asked)
        answers = mix.predict(P, groups=groups if told else None)
        assert mix.limits_met_
        for rate in (rates.error(by="class"), SELECTED, rates.precision("yes")):
            counted = rates.measure(rate, Y, answers, groups=groups)
            said = {line.subgroup: line.value for line in mix.rates_ if line.rate == str(rate)}
            assert {unit: said[unit] for unit in counted} == pytest.approx(counted, abs=1e-9)
        [gap] = [line for line in mix.rates_ if line.subgroup == "gap"]
        assert gap.met
        assert gap.value <= 0.05
        for line in mix.rates_:
            if told or line.rate == "precision of 'yes'":
                assert np.isnan(line.low)  # the selection finds where these rows are favourable
            else:
                assert line.low <= line.value <= line.high
        assert "gap" in str(mix.rates_)


def test_limits_alone_make_the_mean_error_small():
    free, within = judged(objective="error"), judged(limits=[PARITY])
    tight = judged(limits=[rates.gap(SELECTED) <= 0.01])
    errors = [np.mean(mix.predict(P) != Y) for mix in (free, within, tight)]
    assert errors[0] <= errors[1] + 0.02  # with nothing to keep, nothing is fitted to these rows
    assert str(within.objective_) == "error"
    assert RobustMixtureClassifier().objective is None
    assert list(judged().subgroup_errors_) == ["no", "yes"]


def test_groups_are_inferred_from_features_where_they_are_not_told():
    given = {"limits": [PARITY], "infer_groups": True, "cv": 2, "random_state": 0}
    mix = RobustMixtureClassifier([("lr", LogisticRegression())], **given)
    mix.fit(X, Y, groups=GROUPS)
    assert mix.limits_met_
    answers = mix.predict(X)
    alone = [mix.predict(X[[i]])[0] for i in range(40)]
    assert alone == answers[:40].tolist()
    refused(lambda: mix.predict(X, groups=GROUPS), "groups")
    fresh = rates.measure(SELECTED, Y, answers, groups=GROUPS)
    assert abs(fresh["f"] - fresh["m"]) < 0.12


def test_one_row_in_other_columns_of_groups_only_those_named_count():
    mix = judged(limits=[rates.error(by="race") <= 0.5])
    assert {line.rate for line in mix.rates_} == {"error", "error by race"}
    both = judged(limits=[rates.error(by=("sex", "race")) <= 0.6])
    assert len([line for line in both.rates_ if isinstance(line.subgroup, tuple)]) == 6


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.ResubstitutionWarning")
def test_limits_that_contradict_each_other_are_named_and_nothing_is_lost():
    mix = RobustMixtureClassifier([("lr", LogisticRegression())], random_state=0)
    mix.set_params(limits=[rates.selected("yes") <= 0.1, rates.miss("yes") <= 0.1, PARITY])
    with pytest.raises(InfeasibleLimitsError, match="selection") as caught:
        mix.fit(X, Y, groups=GROUPS)
    assert "Reached" in str(caught.value)
    assert not hasattr(mix, "classes_")
    again = caught.value.unselected.reweight(limits=[rates.selected("yes") <= 0.6, PARITY])
    assert again.limits_met_
    whole = clone(mix).set_params(limits=again.limits).fit(X, Y, groups=GROUPS)
    np.testing.assert_array_equal(again.predict(X), whole.predict(X))
    assert "evidence_" in vars(again)
    with pytest.raises(InfeasibleLimitsError) as caught:
        tb.tune(again, X, Y, limits=[rates.selected("yes") <= 0.1, rates.miss("yes") <= 0.1])
    assert caught.value.unselected.reweight(limits=[rates.selected("yes") <= 0.6]).limits_met_
    assert set(again.predict(X)) == {"no", "yes"}


def test_costs_by_row_and_by_matrix():
    matrix = np.array([[0.0, 1.0], [5.0, 0.0]])
    by_matrix, each = judged(objective=rates.cost(matrix)), matrix[_Y]
    by_row = RobustMixtureClassifier.from_probabilities(P, Y, objective=rates.cost(), costs=each)
    found = [mix.rates_.lines[0].value for mix in (by_matrix, by_row)]
    assert found[0] == pytest.approx(found[1], abs=0.02)
    bayes = np.where(P["model"][:, 1] > 1 / 6, 1, 0)
    assert found[1] <= each[np.arange(N), bayes].mean() + 0.01
    with pytest.raises(ValueError, match="costs"):
        RobustMixtureClassifier.from_probabilities(P, Y, objective=rates.cost(), costs=each[:5])
    refused(lambda: RobustMixtureClassifier.from_probabilities(P, Y, objective=rates.cost()), "costs=")


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.DeferredRowsWarning")
def test_deferral_is_within_its_limit_and_lowers_the_error():
    mix = judged(limits=[rates.deferred(by="sex") <= 0.1])
    passed = mix.defers(P)
    shares = rates.measure(rates.deferred(by="sex"), Y, mix.predict(P), groups=GROUPS, deferred=passed)
    assert max(shares.values()) <= 0.1 + 1e-9
    assert mix.limits_met_
    answered = np.mean((mix.predict(P) != Y)[~passed])
    assert answered < np.mean(judged(objective="error").predict(P) != Y)
    assert not judged(limits=[PARITY]).defers(P).any()


def test_told_groups_have_thresholds_of_their_own_even_if_no_rate_names_them():
    groups = {"sex": SEX}
    told = RobustMixtureClassifier.from_probabilities(P, Y, groups=groups, objective="error", by_group=True)
    blind = RobustMixtureClassifier.from_probabilities(P, Y, objective="error")
    assert told.rates_.lines[0].value <= blind.rates_.lines[0].value + 0.01
    with pytest.raises(ValueError, match="groups"):
        RobustMixtureClassifier.from_probabilities(P, Y, objective="error", by_group=True)


def test_units_of_few_rows_are_named():
    race, limits = np.where(np.arange(N) < 3, 9, RACE), [rates.error(by="race") <= 1.0]
    with pytest.warns(SmallSubgroupsWarning, match="fewer"):
        RobustMixtureClassifier.from_probabilities(P, Y, groups={"race": race}, limits=limits)


def test_tune_takes_fitted_models():
    clf = tb.tune(MODEL, X[400:], Y[400:], groups={"sex": SEX[400:]}, limits=[PARITY])
    assert clf.limits_met_
    two = tb.tune([MODEL, MODEL], X[400:], Y[400:], objective="error")
    assert [name for name, _ in two.models] == ["LogisticRegression 1", "LogisticRegression 2"]
    assert tb.tune({"a": MODEL}, X[400:], Y[400:]).used_models_ == ["a"]


def test_it_is_cloned_pickled_saved_and_set(tmp_path):
    mix = RobustMixtureClassifier(
        [("lr", LogisticRegression())], objective=rates.largest(rates.miss("yes", by=("sex",))),
        limits=[rates.error(by="class") <= {"yes": 0.4, None: 0.5}, rates.cost([[0, 1], [5, 0]]) <= 2],
        cv=2, random_state=0,
    )  # fmt: skip
    assert clone(mix).get_params()["limits"] == mix.limits
    mix.fit(X, Y, groups=GROUPS)
    answers = mix.predict(X)
    assert (pickle.loads(pickle.dumps(mix)).predict(X) == answers).all()
    tb.save_model(mix, tmp_path / "m.model")
    loaded = tb.load_model(tmp_path / "m.model")
    assert (loaded.predict(X) == answers).all()
    assert loaded.limits == mix.limits
    assert loaded.objective == mix.objective
    assert str(loaded.rates_) == str(mix.rates_)
    assert loaded.reweight(error_budget=0.1).limits_met_
    assert "largest(miss('yes'" in repr(mix)


def test_another_choice_leaves_the_classifier_as_it_was():
    mix = judged(limits=[PARITY])
    before = pickle.dumps(mix)
    limits = [rates.gap(SELECTED) <= 0.01, rates.miss("yes") <= 0.3]
    first = mix.reweight(limits=limits)
    mix.reweight(limits=[rates.selected("yes") <= 0.2])
    assert pickle.dumps(mix) == before
    assert str(mix.reweight(limits=limits).rates_) == str(first.rates_)


def test_groups_whose_rows_have_no_weight_are_no_groups():
    weight = (SEX == "m").astype(float)
    given, of_f = {"groups": {"sex": SEX}, "sample_weight": weight}, [rates.error(by="sex") <= {"f": 0.3}]
    with pytest.raises(ValueError, match="no subgroup is called 'f'"):
        RobustMixtureClassifier.from_probabilities(P, Y, limits=of_f, **given)
    mix = RobustMixtureClassifier.from_probabilities(P, Y, limits=[rates.error(by="sex") <= 0.9], **given)
    assert mix.groups_.tolist() == [("sex", "m")]


def test_the_trade_off_of_two_rates():
    mix = judged(limits=[PARITY])
    curve = mix.tradeoff(rates.largest(rates.error(by="sex")), rates.error(), n_points=4)
    limited, value = curve.values
    assert (np.diff(limited) > 0).all()
    assert (np.diff(value) < 0).all()
    at = curve.at(curve[0].limited)
    assert at.limits_met_
    assert len(str(curve).splitlines()) == len(curve) + 2


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.UselessRuleWarning")
def test_the_trade_off_of_two_kinds_of_errors_keeps_the_error_budget():
    curve = judged(error_budget=0.02).tradeoff(rates.miss("yes"), rates.false_alarm("yes"), n_points=5)
    least = np.mean(judged(objective="error").predict(P) != Y)
    errors = [np.mean(point.predict(P) != Y) for _, _, point in curve]
    assert least < max(errors) <= least + 0.02


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.UselessRuleWarning")
def test_the_trade_off_of_a_gap_goes_beyond_the_limit_that_was_kept():
    leaning = np.where(P["model"][:, 1] + 0.5 * RNG.normal(size=N) > 0.5, "m", "f")
    limits = [PARITY, rates.miss("yes") <= 0.5]
    mix = RobustMixtureClassifier.from_probabilities(P, Y, groups={"sex": leaning}, limits=limits)
    curve = mix.tradeoff(rates.gap(SELECTED), rates.error(), n_points=5)
    limited, value = curve.values
    assert max(limited) > 0.05
    assert all(np.diff(limited) > 0)
    assert all(np.diff(value) < 0)
    assert set(curve.at(0.1).limits) == {rates.gap(SELECTED) <= 0.1, rates.miss("yes") <= 0.5}
    ratio = mix.tradeoff(rates.ratio(SELECTED), n_points=3)
    assert all(np.diff(ratio.values[0]) < 0)


@pytest.mark.parametrize(("params", "words"), [
    ({"limits": [rates.selected("ja") <= 0.1]}, "called"),
    ({"limits": [rates.error(by="age") <= 0.1]}, "column"),
    ({"limits": [rates.error(by="sex") <= {"x": 0.1}]}, "subgroup"), ({"limits": [0.3]}, "limit"),
    ({"limits": [rates.error(by="cell") <= {("yes", "x"): 0.3}]}, "subgroup"),
    ({"limits": [rates.miss("yes") <= {"f": 0.3}]}, "subgroup"),
    ({"objective": rates.gap(SELECTED)}, "must be"), ({"objective": rates.error(by="sex")}, "largest"),
    ({"objective": rates.precision("yes")}, "must be"),
])  # fmt: skip
def test_what_does_not_go_together_is_refused_before_anything_is_fitted(params, words):
    class Never(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            raise AssertionError("fitted")

    mix = RobustMixtureClassifier([("never", Never())], **params)
    with pytest.raises((ValueError, TypeError), match=words):
        mix.fit(X, Y, groups=GROUPS)


@pytest.mark.parametrize("coarse", [True, False])
def test_limits_hold_for_the_final_rule_and_not_for_models_of_folds_alone(coarse):
    """Models of folds make more values of a score with ten values.

    They split rows with the same answer by one model.
    """

    def rows(n, seed):
        rng = np.random.default_rng(seed)
        y, sex = rng.integers(2, size=n), rng.choice(["f", "m"], n)
        s = 0.5 + 0.3 * (2 * y - 1) + 0.25 * (sex == "m") + 0.3 * rng.normal(size=n)
        s = np.clip(s.round(1), 0.05, 0.95) if coarse else s
        return np.column_stack([s, rng.normal(size=n)]), y, sex

    X, y, _ = rows(2000, 100)
    model = LogisticRegression().fit(X, y)
    X, y, sex = rows(2000, 200)
    rate = rates.selected(1, by="sex")
    limits = [rates.gap(rate) <= 0.01, rates.gap(rates.miss(1, by="sex")) <= 0.01]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = tb.tune(model, X, y, groups={"sex": sex}, limits=limits)
    assert clf.limits_met_
    X, y, sex = rows(50_000, 300)
    found = rates.measure(rate, y, clf.predict(X), groups={"sex": sex})
    # Five standard errors of 2,000 rows above the limit; the gap was .17 by counts out of fold alone.
    assert max(found.values()) - min(found.values()) < 0.12


@pytest.mark.slow
def test_the_trade_off_of_what_was_stated_and_in_either_order():
    mix = judged(limits=[rates.precision("yes") >= 0.1, rates.miss("yes") <= 0.5, PARITY])
    curve = mix.tradeoff(n_points=3)
    assert (str(curve.limited), str(curve.objective)) == (str(rates.miss("yes")), "error")
    curve = mix.tradeoff(rates.error(), rates.gap(SELECTED), n_points=3)
    other = mix.tradeoff(rates.gap(SELECTED), rates.error(), n_points=3)
    assert np.array_equal(curve.values, other.values)
    curve = judged(objective="error").tradeoff(n_points=3)
    assert (str(curve.limited), str(curve.objective)) == ("error", "largest error by class")
    assert len(judged(objective="error").tradeoff(rates.error(), rates.miss("yes"))) > 5  # not the ends alone
    refused(lambda: mix.tradeoff([0.01]), "rate", TypeError)


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.SmallSubgroupsWarning")
def test_small_budgets_are_used_where_cells_are_many():
    rng = np.random.default_rng(0)
    n, share = 4000, np.array([0.5, 0.2, 0.14, 0.1, 0.04, 0.02])
    group = rng.choice(6, n, p=share)
    y = (rng.random(n) < np.array([0.45, 0.3, 0.2, 0.5, 0.12, 0.25])[group]).astype(int)
    second = 1.2 * y + rng.normal(size=n) + 0.3 * (group % 3)
    features = np.column_stack([group + 0.3 * rng.normal(size=n), second])
    model = LogisticRegression().fit(features[:1000], y[:1000])
    own = slice(1000, None)
    given = {"groups": {"group": group[own]}, "objective": "worst_cell", "error_budget": 0.0}
    mix = tb.tune(model, features[own], y[own], **given)
    worst = [errors_of(mix.reweight(error_budget=b)).max() for b in (0.0, 0.005, 0.05)]
    assert max(worst[1:]) < worst[0] - 0.005


def test_another_choice_learns_nothing_of_groups_anew(monkeypatch):
    mix = RobustMixtureClassifier.from_probabilities(
        P, Y, groups={"sex": SEX}, limits=[rates.error(by="cell") <= 1.0], infer_groups=True
    )
    monkeypatch.setattr("tailboost.selection.weights.ClassWeights.with_groups", None)
    again = mix.reweight(objective="worst_cell", limits=[])
    assert errors_of(again).max() <= max(line.value for line in mix.rates_ if "cell" in line.rate)
