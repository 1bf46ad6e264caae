"""A rule on one score is one function: `predict`, the rule, Python and SQL, also exactly at thresholds."""

import copy
import re
from decimal import Decimal

import numpy as np
import pytest
from forms import FORMS, one_by_one

pd = pytest.importorskip("pandas")

import tailboost as tb
from tailboost import rates
from tailboost.selection.door import answering

REVIEW = "human review"
PROBLEMS = {
    "error": {}, "limit by group": {"limits": [rates.miss(1, by="g") <= 0.3]},
    "group-aware": {"limits": [rates.miss(1, by="g") <= 0.3], "by_group": True},
    "group-aware, one odds": {"limits": [rates.miss(1) <= 0.2], "by_group": True},
    "deferral": {"limits": ["miss(1) <= .15", "deferred() <= .2"]},
    "deferral by group": {"limits": ["miss(1, by=g) <= .15", "deferred() <= .3"], "by_group": True},
}  # fmt: skip


def made(seed, n, digits=None, kind="probability"):
    rng = np.random.default_rng(seed)
    y, g = (rng.random(n) < 0.3).astype(int), rng.choice(["a", "b"], n)
    z = rng.normal(size=n) + 1.5 * y - 1 + 0.15 * (g == "a")
    score = 1 / (1 + np.exp(-z)) if kind == "probability" else z
    return pd.DataFrame({"s": score if digits is None else score.round(digits)}), y, {"g": g}


def answers(clf, X, groups):
    """Return the answers of the classifier, and of its rule in each form."""
    given = {"groups": groups} if clf.by_group else {}
    # A calibrated rule marks deferred rows by itself.
    mark = {"deferred": REVIEW} if answering(clf).rule.defers and not clf.certificate_ else {}
    group = groups["g"] if clf.by_group else None
    answers_of_rule = {name: form(clf.rule_, X["s"], group) for name, form in FORMS.items()}
    return answers_of_rule | {"classifier": clf.predict(X, **given, **mark).tolist()}


def assert_alike(clf, X, groups):
    given = answers(clf, X, groups)
    for form, found in given.items():
        assert [str(a) for a in found] == [str(a) for a in given["classifier"]], form


def edges(clf):
    """Return rows at each threshold and at both neighbouring floating-point numbers, in each group."""
    ends = np.array([lower for band in clf.rule_.bands for lower, _ in band[1:]])
    at = np.concatenate([ends, np.nextafter(ends, -np.inf), np.nextafter(ends, np.inf)])
    return pd.DataFrame({"s": np.repeat(at, 2)}), {"g": np.tile(["a", "b"], len(at))}


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize(
    ("kind", "digits"), [("probability", 2), ("probability", None), ("number", 1), ("logit", None)]
)
def test_all_forms_answer_alike_at_and_beside_thresholds(kind, digits, problem):
    X, y, groups = made(0, 600, digits, kind)
    clf = tb.tune(tb.Scores("s", 1, kind=kind), X, y, groups=groups, **PROBLEMS[problem])
    assert_alike(clf, *edges(clf))
    assert_alike(clf, *made(1, 500, digits, kind)[::2])


def test_a_score_for_the_first_label_answers_alike_too():
    X, y, groups = made(0, 1200, 2)
    clf = tb.tune(tb.Scores("s", 0), 1 - X, y, groups=groups, limits=[rates.miss(1, by="g") <= 0.3])
    assert_alike(clf, *edges(clf))
    assert_alike(clf, 1 - made(1, 2000, 2)[0], made(1, 2000, 2)[2])
    for seed, limits in ((1, None), (2, ["precision(1) >= .4"])):
        fresh, labels, named = made(seed, 2000, 2)
        certified = tb.calibrate(clf, 1 - fresh, labels, groups=named, limits=limits)
        assert_alike(certified, *edges(certified))
        assert_alike(certified, 1 - fresh, named)


@pytest.mark.parametrize("problem", ["error", "limit by group", "group-aware"])
def test_a_threshold_is_the_shortest_decimal_between_two_neighbouring_scores(problem):
    X, y, groups = made(0, 800)
    clf = tb.tune(tb.Scores("s", 1), X, y, groups=groups, **PROBLEMS[problem])
    named = clf.rule_.groups or [None]
    for name, band in zip(named, clf.rule_.bands, strict=True):
        scores = np.sort(X["s"][(groups["g"] == name) | (name is None)])
        for end, _ in band[1:]:
            low, high = scores[scores < end].max(), scores[scores >= end].min()
            assert low < end < high
            coarser = Decimal(10) ** (Decimal(repr(end)).as_tuple().exponent + 1)
            multiple = (Decimal(float(low)) / coarser).to_integral_value(rounding="ROUND_FLOOR") * coarser
            assert not any(low < multiple + k * coarser < high for k in (0, 1)), (low, end, high)


def test_the_printed_thresholds_are_the_compared_ones():
    X, y, groups = made(0, 3000)
    clf = tb.tune(tb.Scores("s", 1), X, y, groups=groups, **PROBLEMS["deferral"])
    low, high = (end for end, _ in clf.rule_.bands[0][1:])
    assert [float(text) for text in re.findall(r"[0-9][.0-9e-]+", str(clf.rule_))] == [high, low, high]


def test_curves_other_selections_and_files_answer_by_their_rule(tmp_path):
    X, y, groups = made(0, 500, 3)
    clf = tb.tune(tb.Scores("s", 1), X, y, groups=groups, **PROBLEMS["limit by group"])
    tb.save_model(clf, tmp_path / "rule.model")
    others = [
        clf.reweight(limits=[rates.miss(1, by="g") <= 0.2]),
        clf.reweight(*made(3, 500, 3)[:2], groups=made(3, 500, 3)[2], limits=[rates.miss(1, by="g") <= 0.4]),
        *(other for _, _, other in clf.tradeoff(rates.miss(1), n_points=3).points[::4]),
        tb.load_model(tmp_path / "rule.model"),
    ]
    for other in others:
        assert_alike(other, *edges(other))
        assert_alike(other, *made(1, 500, 3)[::2])


CALIBRATED = {
    "ranks of misses by group": ([rates.miss(1, by="g") <= 0.35], {}),
    "ranks, a threshold for each group": ([rates.miss(1, by="g") <= 0.35], {"by_group": True}),
    "ranks, one odds for both groups": ([rates.miss(1) <= 0.3], {"by_group": True}),
    "ranks of a gap": (["gap(selected(1, by=g)) <= .2"], {"by_group": True}),
    "a sequence": (["precision(1) >= .5"], {}),
    "a sequence for each group": ([rates.precision(1, by="g") >= 0.45], {"by_group": True}),
    "a path": (["miss(1) <= .3", "deferred() <= .3"], {}),
}


@pytest.mark.parametrize("digits", [None, 2])
@pytest.mark.parametrize("name", CALIBRATED)
def test_what_is_certified_is_the_rule(name, digits):
    limits, params = CALIBRATED[name]
    X, y, groups = made(0, 400, digits)
    fresh, labels, named = made(1, 3000, digits)
    selected = tb.tune(tb.Scores("s", 1), X, y, groups=groups, limits=limits, **params)
    clf = tb.calibrate(selected, fresh, labels, groups=named)
    assert_alike(clf, *edges(clf))
    assert_alike(clf, *made(2, 1000, digits)[::2])
    group = [named["g"]] if clf.by_group else []
    actions = clf.rule_.predict(fresh["s"], *group).astype(str)
    deferred = actions == REVIEW
    given = {"deferred": deferred} if deferred.any() else {}
    answered = np.where(deferred, "0", actions).astype(int)
    for bound in clf.certificate_.bounds:
        if bound.estimate is not None and "gap" not in str(bound):
            counted = rates.measure(bound.rate, labels, answered, groups=named, **given)
            assert any(value == pytest.approx(bound.estimate) for value in counted.values()), bound


@pytest.mark.filterwarnings("ignore:.*without limits")
def test_rows_between_a_tested_threshold_and_its_decimal_count_as_the_rule_answers_them():
    # Selection scores leave a wide gap. All fresh scores are in it, on both sides of the decimal.
    X = pd.DataFrame({"s": np.repeat([0.1, 0.9], 400)})
    y = np.r_[np.arange(400) % 10 == 0, np.arange(400) % 10 != 0].astype(int)
    clf = tb.tune(tb.Scores("s", 1), X, y, limits=["precision(1) >= .5"])
    ((_, _), (end, _)) = clf.rule_.bands[0]
    assert 0.1 < end < 0.9
    for shift in (-1e-9, 0.0):
        right = int(shift == 0.0)
        fresh = pd.DataFrame({"s": np.r_[np.full(100, end + shift), np.full(500, 0.95), np.full(50, 0.1)]})
        labels = np.r_[np.zeros(100), np.ones(500), np.zeros(50)].astype(int)
        certified = tb.calibrate(copy.deepcopy(clf), fresh, labels)
        answered = certified.predict(fresh)
        assert answered.tolist() == certified.rule_.predict(fresh["s"]).tolist()
        (bound,) = [b for b in certified.certificate_.bounds if "precision" in str(b.rate)]
        assert bound.estimate == pytest.approx(labels[answered == 1].mean())
        assert answered[:100].max() == right


@pytest.mark.parametrize("by_group", ["g", False])
def test_parameters_set_later_are_read_by_the_next_selection_alone(by_group, tmp_path):
    (X, y, groups), (fresh, labels, named), path = made(0, 600), made(1, 600), tmp_path / "rule.json"
    limits, known = [rates.miss(1, by="g") <= 0.4], []
    for name, value in [("by_group", by_group), ("objective", "worst_class"), ("limits", []),
                        ("error_budget", 0.0), ("by_group", "" if by_group else "g")]:  # fmt: skip
        clf = tb.tune(tb.Scores("s", 1), X, y, groups=groups, limits=limits, by_group=by_group)
        tb.save_rule(clf.set_params(**{name: value}), path)
        assert str(tb.load_rule(path).objective_) == "error"
        told = clf.predict(fresh, groups=named if by_group else None).tolist(), str(clf.tradeoff(n_points=3))
        known.append((path.read_text(), *told, str(tb.calibrate(clf, fresh, labels, groups=named))))
        assert (clf.reweight().rule_.groups is not None) == bool(clf.by_group)
    assert known == known[:1] * len(known)


@pytest.mark.filterwarnings("ignore:the rule answers")
@pytest.mark.parametrize(("limits", "printed"), [
    ([], "P(1) >= 0.5: 1; else 0"), (["miss(1) <= 0%"], "every row: 1"),
    (["miss(1) <= 0%", "false_alarm(1) <= 20%", "deferred() <= 90%"], "1; else human review"),
    (["miss(1) <= 20%", "false_alarm(1) <= 0%", "deferred() <= 90%"], "human review; else 0"),
])  # fmt: skip
def test_a_rule_on_an_average_answers_at_its_thresholds_as_predict(limits, printed):
    # No selecting row has the log-odds 0, the shortest threshold between those of .4 and .6.
    p = np.repeat([0.2, 0.4, 0.6, 0.8], 400)
    y = (np.arange(1600) % 10 < np.repeat([1, 4, 6, 9], 400)).astype(int)
    models = {"a": tb.Scores("p", 1), "b": tb.Scores("q", 1)}
    clf = tb.tune(models, pd.DataFrame({"p": p, "q": p}), y, limits=limits)
    new = np.array([0.0, 1e-4, 0.25, 0.5, 0.75, 1 - 1e-4, 1.0])
    marked = {"deferred": REVIEW} if len(limits) > 1 else {}
    answers = clf.predict(pd.DataFrame({"p": new, "q": new}), **marked).tolist()
    assert clf.rule_.predict(dict.fromkeys("ab", np.column_stack([1 - new, new]))).tolist() == answers
    assert str(clf.rule_).endswith(printed)


@pytest.mark.parametrize(("names", "other"), [
    ([1, 2], ["1", "1.0", 1.0, True, "1,0", np.float32(1)]), ([True, False], ["TRUE", 1, "1", 1.0]),
    (["1", "2"], [1, 1.0, "1.0", True]), (["1", "1.0"], [1]), ([1e17, 2.0], ["100000000000000000"]),
    (["None", "b"], [None, "none"]), (["missing", "b"], [None, np.nan, "missing"]), (None, ["None"]),
])  # fmt: skip
def test_the_python_of_a_rule_reads_names_of_groups_as_the_rule(names, other):
    bands = [[(None, 0), (0.25, 1)], [(None, 0), (0.75, 1)]][: len(names or [0])]
    rule = tb.ThresholdRule("s", [0, 1], names, bands, "probability", label=1)
    asked = [*(names or []), *other]
    found = one_by_one("python", rule, [0.5] * len(asked), asked)
    assert found == one_by_one("predict", rule, [0.5] * len(asked), asked)
