"""Rates and limits as values: by hand, as text, copied, and of rows with weights."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
from conftest import refused
from sklearn.base import clone

from tailboost import rates
from tailboost.rates import Counts
from tailboost.rows.groups import GroupNames

NAMES = np.array(["no", "perhaps", "yes"])
EVERY = [
    rates.error(), rates.error(by="cell") <= 0.3, rates.miss("yes", by="sex") <= {"f": 0.3, None: 0.5},
    rates.false_alarm(1, by=("class", "sex")) <= 0.25, rates.gap(rates.selected(True, by="sex")) <= 0.02,
    rates.ratio(rates.selected("it's > 50\\K\n", by=("sex", "race"))) >= 0.8, rates.deferred() <= 0.05,
    rates.largest(rates.error(by="class")), rates.cost([[0, 1, 0.5], [5, 0, 0.5]], by="group") <= 2,
    rates.largest(rates.cost(by="sex")), rates.precision(-1.5) >= 0.6,
    rates.custom(np.str_("{label}"), [("a", "b")]), rates.answered_error("race") <= {("a", "b"): 0.1, 3: 0.2},
    rates.as_objective(rates.recall("yes")).rate <= 0.3, rates.error(by="g") <= {"a=30%": 0.3},
    *(rates.f_score(1, beta=beta) >= 0.1 for beta in (2, 0.1, 1 / 3, 123456.789)), rates.tail(1) <= 0.5,
    rates.error(by="g") <= {"≤ 5%": 0.3, '≥ 1%"': 0.2}, rates.miss("=5%", by="a, b") <= {"x#\\=\n{5%}": 0.3},
    *rates.checked_limits([rates.miss(1) <= 1 / 3, rates.error() <= "30%"]),
]  # fmt: skip


def test_rates_of_weighted_rows_by_hand():
    """Weights 5, 1, 2, 3 and 9, of which the second and the third row are wrong."""
    y, answers = ["yes", "yes", "no", "no", "no"], ["yes", "no", "yes", "no", "no"]
    by_hand = {
        rates.error(): {None: 3 / 20}, rates.miss("yes"): {None: 1 / 6},
        rates.false_alarm("yes"): {None: 2 / 14}, rates.precision("yes"): {None: 5 / 7},
        rates.selected("yes"): {None: 7 / 20}, rates.error(by="group"): {"a": 1 / 6, "b": 2 / 14},
        rates.error(by="class"): {"no": 2 / 14, "yes": 1 / 6},
    }  # fmt: skip
    for rate, expected in by_hand.items():
        found = rates.measure(rate, y, answers, groups=list("aabbb"), sample_weight=[5, 1, 2, 3, 9])
        assert found == pytest.approx(expected)


STRATA = [("no", "a"), ("no", "b"), ("yes", "a"), ("yes", "b")]


def weighted_strata():
    """Return the strata of rows of weights 5, 1, 2, 3 and 9, by label and group; (no, b) has the last."""
    y, g, w = np.array([1, 1, 0, 0, 0]), np.array([0, 0, 1, 1, 1]), np.array([5.0, 1, 2, 3, 9])
    return Counts.stratified(y, [g], w, ("no", "yes"), GroupNames((("a", "b"),), ("g",))).strata


def test_repeated_labels_are_refused():
    for kind in (rates.false_alarm(1), rates.selected(1), rates.miss(0)):
        refused(lambda: rates.measure(kind, [0, 0, 1], [1, 1, 1], labels=[0, 1, 1]), "labels must differ")


def test_a_constant_answer_to_weighted_rows_errs_by_the_weight_of_the_other_label():
    strata = weighted_strata()
    for answer, error in enumerate((0.3, 0.7)):
        counts = strata.mass[:, None] * (np.arange(2) == answer)
        assert counts.sum() == pytest.approx(1.0)
        assert rates.error().terms(strata).values(counts) == pytest.approx([error])


def test_inequalities_of_limits_have_the_weights_of_rows():
    """False alarms by group: of group b the weight of the answer yes, over 14 of 20."""
    strata = weighted_strata()
    counts = np.zeros((4, 2))
    counts[STRATA.index(("no", "b"))] = [5 / 20, 9 / 20]
    counts[STRATA.index(("yes", "a"))] = [1 / 20, 5 / 20]
    both = (rates.false_alarm("yes", by="g"), rates.miss("yes", by="g"))
    (alarms,), (misses,) = ((rate <= 0.5).inequalities(rate.terms(strata)) for rate in both)
    assert (alarms[0] * counts).sum() - alarms[2] == pytest.approx(9 / 14 - 0.5)
    assert (misses[0] * counts).sum() - misses[2] == pytest.approx(1 / 6 - 0.5)


def test_rates_with_deferred_rows_by_hand():
    """Of four rows 1 two are found and one is missed; of six rows 0 three are right; one each is deferred."""
    y, answers = [1, 1, 1, 1, 0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0, 0, 1, 1, 1]
    deferred = [False, False, False, True, False, False, False, False, False, True]
    by_hand = {
        rates.error(): 3 / 10, rates.miss(1): 1 / 4, rates.recall(1): 3 / 4, rates.false_alarm(1): 2 / 6,
        rates.specificity(1): 4 / 6, rates.selected(1): 4 / 10, rates.precision(1): 2 / 4,
        rates.npv(1): 3 / 4, rates.deferred(): 2 / 10, rates.answered_error(): 3 / 8,
        rates.jaccard(1): 2 / 6, rates.f_score(1): 2 / 4,
    }  # fmt: skip
    for rate, expected in by_hand.items():
        assert rates.measure(rate, y, answers, deferred=deferred) == {None: pytest.approx(expected)}
    by_class = rates.measure(rates.deferred(by="class"), y, answers, deferred=deferred)
    assert by_class == pytest.approx({0: 1 / 6, 1: 1 / 4})
    rows = Counts.answered(y, answers, deferred=deferred)
    assert np.flatnonzero(rows.wrong(rows.actions)).tolist() == [2, 7, 8]


def test_costs_by_matrix_and_by_row():
    y, a = np.array([0, 0, 1, 1, 1]), np.array([0, 1, 1, 0, 0])
    matrix = [[0.0, 1.0], [5.0, -1.0]]
    assert rates.measure(rates.cost(matrix), y, a)[None] == pytest.approx((0 + 1 - 1 + 5 + 5) / 5)
    by_class = rates.measure(rates.cost(matrix, by="class"), y, a)
    named = rates.parse("cost([[-1, 5], [1, 0]], labels=[1, 0], by=class)")  # in another order
    assert by_class == pytest.approx({0: 0.5, 1: 3.0}) == rates.measure(named, y, a)
    costs = np.arange(10.0).reshape(5, 2)
    each = rates.measure(rates.cost(by="class"), y, a, costs=costs)
    assert each == pytest.approx({0: (0 + 3) / 2, 1: (5 + 6 + 8) / 3})
    refused(lambda: rates.measure(rates.cost(), y, a), "give costs=")


def test_a_frame_of_costs_is_read_by_its_labels():
    frame = pd.DataFrame([[0, 7], [3, 0]], index=["yes", "no"], columns=["yes", "no"])
    y, a = np.array(["yes", "no", "no"]), np.array(["no", "yes", "no"])
    found = rates.measure(rates.cost(frame, by="class"), y, a)
    assert found == pytest.approx({"yes": 7.0, "no": 1.5})
    swapped = frame.loc[["no", "yes"], ["yes", "no"]]
    assert rates.measure(rates.cost(swapped, by="class"), y, a) == pytest.approx(found)


def test_a_wrong_answer_that_earns_more_than_the_right_one_is_refused():
    """Gains of right answers are negative costs; a matrix of gains has the other sign."""
    assert rates.cost([[-1, 2], [5, -3]]).matrix == ((-1.0, 2.0), (5.0, -3.0))
    assert rates.cost([[0, 1], [0, 1]]).matrix  # a price of each positive answer
    for gains in ([[1, -1], [-5, 1]], [[0, 1, -0.1], [5, 0, 0.1]]):
        refused(lambda: rates.cost(gains), "gains")


def test_a_rate_is_the_mean_of_its_samples():
    rng = np.random.default_rng(0)
    y, a, g = (rng.integers(k, size=50) for k in (3, 4, 2))
    w = rng.random(50)
    rows = Counts.stratified(y, [g], w, NAMES, GroupNames((("f", "m"),), ("sex",)), defers=True)
    strata, stratum = rows.strata, rows.stratum
    matrix = rng.random((3, 4)) - np.eye(3, 4)
    of_groups = rates.precision("yes", by="sex"), rates.cost(matrix, by="sex")
    for rate in (*of_groups, rates.answered_error(by="class"), rates.miss("no", by="cell")):
        tally = np.zeros((6, 4))
        np.add.at(tally, (stratum, a), w / w.sum())
        values = rate.terms(strata).values(tally)
        answered = rates.Counts(strata, stratum, w / w.sum(), actions=a)
        for sample, value in zip(rate.samples(answered), values, strict=True):
            assert ((sample.values >= sample.low) & (sample.values <= sample.high)).all()
            mean = np.average(sample.values, weights=w[sample.rows]) if len(sample.rows) else np.nan
            assert mean == pytest.approx(value, nan_ok=True)
            if len(sample.rows):
                assert sample.mirrored.mean == pytest.approx(sample.low + sample.high - sample.mean)


@pytest.mark.parametrize("rate", EVERY, ids=repr)
def test_rates_are_values(rate):
    read = rates.parse(repr(rate))
    assert (read, repr(read)) == (rate, repr(rate))
    again = pickle.loads(pickle.dumps(rate))
    again.__setstate__({**vars(rate), "is_ratio": None, "compares": None})  # a file of another version
    assert {"is_ratio", "compares"}.isdisjoint(vars(again))
    assert (clone(rate, safe=False), again, hash(again)) == (rate, rate, hash(rate))
    assert len({rate, rates.error(by="nothing")}) == 2


@pytest.mark.parametrize(("text", "rate", "words"), [
    ("gap(selected(yes, by=sex)) <= .02", rates.gap(rates.selected("yes", by="sex")) <= 0.02, None),
    ("largest(error(by=cell))", rates.largest(rates.error("cell")), "largest error by cell"),
    ("miss(yes) <= 30%", rates.miss("yes") <= 0.3, None), ("miss(pass)", rates.miss("pass"), None),
    ("error <= '30%'", rates.error() <= 0.3, "error: at most 30 %"),
    ("cost() <= '30%'", rates.cost() <= 0.3, "mean cost: at most 0.3"),
    ("error(by=if) <= {not: '30%', is: .4}", rates.error("if") <= {"not": 0.3, "is": 0.4},
     "error by if: at most 40 % for is, 30 % for not"),
    ("error(by=class) <= {yes: 12.5 %}", rates.error("class") <= {"yes": 0.125}, None),
    ("gap(error(by=sex))", rates.gap(rates.error("sex")), "error by sex: gap"),
    ("deferred() <= 5e-2", rates.deferred() <= 0.05, "share deferred: at most 0.05"),
    ("error(by=(sex, race))<={('f', 1): .3, None: .5}",
     rates.error(("sex", "race")) <= {("f", 1): 0.3, None: 0.5}, None),
    ("error(g) <= {'a=b': 7%, 'c': .2}", rates.error("g") <= {"a=b": 0.07, "c": 0.2},
     "error by g: at most 7 % for a=b, 20 % for c"),
    ("cost([[0, 1], [5, 0]])", rates.cost([[0, 1], [5, 0]]), "mean cost"),
    ("miss(2µ, by=größe_ª) <= {x²: 1%}", rates.miss("2µ", by="größe_ª") <= {"x²": 0.01}, None),
    ("tail(10%) ≤ 0.3", rates.tail(0.1) <= 0.3, "expected error of the worst 10 % of rows: at most 0.3"),
    ("ratio(selected('>50K', by=sex)) >= .8", rates.ratio(rates.selected(">50K", by="sex")) >= 0.8,
     "selection rate of '>50K' by sex: ratio at least 0.8"),
])  # fmt: skip
def test_what_a_user_writes_and_reads(text, rate, words):
    assert rates.parse(text) == rate
    assert words is None or str(rates.parse(text)) == words


@pytest.mark.parametrize(("text", "limit"), [
    ("deferred <= 20%", rates.deferred() <= 0.2), ("human review <= 20%", rates.deferred() <= 0.2),
    ("error <= 10%", rates.error() <= 0.1), ("answered_error<=.1", rates.answered_error() <= 0.1),
    ("selected(human review) <= .1", rates.selected("human review") <= 0.1),
    ("miss(deferral) <= .1", rates.miss("deferral") <= 0.1),
])  # fmt: skip
def test_rate_without_arguments_needs_no_brackets(text, limit):
    assert rates.parse(text) == limit


NO_RATES = """
eror() | gap(slected(yes)) <= .02 | error(bi=sex) | selected('yes) <= .3 | error() <= .3 § 2
error() <= 30%5 | miss(1) 35% | error() <= 30 | gap(miss(1, by=sex)) <= -.1
error(by=class) <= {a: 2} | error(by=class) <= {a: .2, a: .3} | error() <=  | miss <= .1
.2 >= miss(1) | miss(1) <= 0,2 | miss(1) <= 1 | error(by=sex | gap(error(by=sex)) >= .1
largest(error(by=sex)) <= .1 | error() <= yes | error() <= .1 <= .2 | error(by=sex, by=race)
error() = .1 | error() < .1 | selected(yes no) | miss(1, by=Fam. Stand) <= 2%
miss(sexual/minors) <= 2% | error(by=class) <= {>50K: 5%} | error(by=class) <= {ja nein: .3}
error() <= 1 - .5 | gap(precision(1, by=sex)) <= .1 | __import__('os') | error(**{}) | error() <= {**a}
error([x for x in y]) | cost([[0, 1]]) | error() <= 1e999 | miss(µ 'a') | miss('a' µ) | custom(m, [ab])
True - recall(1) | error() <= 50%% | miss(1) <= True% | cost(labels=[a, b]) | cost([[0, 1], [5, 0]], labels=a)
cost([[0, 1], [5, 0]], labels=[a, a]) | cost([[0, 1], [5, 0]], labels=[a]) | cost([[0, 1], [5, 0]], labels=ab)
"""


@pytest.mark.parametrize("text", [*re.split(r" \| |\n", NO_RATES.strip("\n")), "error(" * 100])
def test_text_that_is_no_rate_is_refused_with_the_text(text):
    refused(lambda: rates.parse(text), re.escape(text[:100]))


@pytest.mark.parametrize("n_texts", [2000, pytest.param(30_000, marks=pytest.mark.slow)])
def test_texts_made_at_random_are_read_or_refused(n_texts):
    rng = np.random.default_rng(n_texts)
    words = ["error", "gap", "by", "cost", "None", "-.5", "1e9", "5%", "yes", "<=", ">="]
    pieces, whole = [*"()[]{},:=<> '\"\\.1é\x00", *words], [repr(rate) for rate in EVERY]
    for _ in range(n_texts):
        text = "".join(rng.choice(pieces, rng.integers(1, 15)))
        if rng.random() < 0.7:
            base = whole[rng.integers(len(whole))]
            at = rng.integers(len(base) + 1)
            text = base[:at] + text[: rng.integers(3)] + base[at + rng.integers(3) :]
        try:
            found = rates.parse(text)
        except (ValueError, TypeError):
            continue
        assert rates.parse(repr(found)) == found


@pytest.mark.parametrize(("rate", "words"), [
    (rates.selected("ja"), "called"), (rates.selected(1), "called"), (rates.error(by="race"), "selects"),
    (rates.cost([[0, 1, 2], [1, 0, 2], [1, 2, 0]]), "shape"),
])  # fmt: skip
def test_names_that_are_not_there_are_named(rate, words):
    refused(lambda: rates.measure(rate, ["no", "yes"], ["no", "no"], groups={"sex": [1, 2]}), words)


def test_limits_are_equal_in_whatever_order_their_bounds_are_stated():
    of_rest = {1: 0.1, "b": "20%", None: 0.3, ("a", 2): 0.4}
    for rate in (rates.error(by="g"), rates.cost(by="g")):
        one, other = rate <= of_rest, rate <= dict(reversed(of_rest.items()))
        assert (one, hash(one), repr(one), str(one)) == (other, hash(other), repr(other), str(other))
        assert one == rates.parse(repr(one)) != (rate <= {1: 0.1, "b": 0.2, None: 0.3})


def test_shares_alone_are_printed_in_percent_beside_a_limit_in_percent():
    texts = ["error <= 10%", "miss(1) <= .2", "f_score(1) >= .3", "tail(10%) <= .5", "cost() <= 300%"]
    texts += ["ratio(cost(by=g)) >= 80%", "ratio(selected(1, by=g)) >= .8"]
    texts += ["f_score(2) >= 70%", "cost() <= 1234564.25"]
    bounds = [str(limit).split()[-2:] for limit in rates.checked_limits(texts)]
    last = [["10", "%"], ["20", "%"], ["least", "0.3"], ["most", "0.5"], ["most", "3"], ["least", "0.8"]]
    assert bounds == [*last, ["80", "%"], ["70", "%"], ["most", "1234564.25"]]


def test_bounds_name_subgroups():
    strata = Counts.stratified(np.array([0, 1]), [], np.ones(2), ["no", "yes"]).strata
    limit = rates.error(by="class") <= {"yes": 0.3}
    assert np.isnan(limit.levels(["no", "yes"])[0])
    terms = limit.rate.terms(strata)
    assert len(limit.inequalities(terms)) == 1
    with pytest.raises(ValueError, match="subgroup is called 'ja' or 'nein' or 'non' or 'oui'"):
        (rates.error(by="class") <= dict.fromkeys(["non", "oui", "ja", "nein"], 0.3)).inequalities(terms)


def test_a_chain_of_comparisons_is_refused():
    with pytest.raises(TypeError, match="neither"):
        0.1 <= rates.error() <= 0.2  # noqa: B015
    for bound in ("much", "x%", True):
        with pytest.raises(TypeError, match=f"number.*{bound!r}"):
            rates.error() <= bound  # noqa: B015
    refused(lambda: rates.gap(rates.error()) <= 0.1, "subgroups")


def test_a_price_of_a_persons_look_is_one_more_column_of_costs():
    matrix = [[0, 1, 0.3], [5, 0, 0.3]]
    assert "deferral" in rates.cost(matrix).needs
    assert "deferral" not in rates.cost([[0, 1], [5, 0]]).needs
    frame = pd.DataFrame(matrix, index=["n", "y"], columns=["n", "y", "human review"])
    assert rates.cost(frame).matrix == rates.cost(matrix).matrix
    seen = rates.measure(rates.cost(frame), ["n", "y", "y"], ["n", "n", "y"], deferred=[True, False, False])
    assert seen[None] == pytest.approx((0.3 + 5 + 0) / 3)


@pytest.mark.parametrize(("columns", "values"), [(1, 40), (3, 5), (30, 9)])  # the last has too many to number
def test_combinations_of_groups_are_found_as_by_sorting_rows(columns, values):
    groups = np.random.default_rng(0).integers(values, size=(300, columns))
    rows = Counts.stratified(np.zeros(300, int), groups.T, np.ones(300), [0])
    expected, of = np.unique(groups, axis=0, return_inverse=True)
    assert np.array_equal(rows.strata.combinations, expected)
    assert np.array_equal(rows.stratum, of.ravel())


@pytest.mark.parametrize("text", [
    "miss(yes) <= 1.0", "miss(yes) <= 100%", "precision(yes) >= 1", "cost([[0, 1], [5, 0]]) <= 1",
    "error(by=class) <= {1: 1.0}", "cost(by=class) <= {yes: 1}",
])  # fmt: skip
def test_texts_that_mean_what_they_say_are_read(text):
    assert {*rates.parse(text).bound_of.values()} == {1.0}
    assert rates.parse(repr(rates.parse(text))) == rates.parse(text)


def test_a_label_is_of_the_kind_of_the_labels():
    y = np.array([0, 1, 1, 0])
    for label in (True, "1", False):
        refused(lambda: rates.measure(rates.miss(label), y, y), "called")
    assert rates.measure(rates.miss(True), y == 1, y == 1) == {None: 0.0}


@pytest.mark.parametrize(("text", "cure"), [
    ("miss(bad) < 20%", "<="), ("recall(bad) > 80%", ">="), ("gap(miss(bad, by=sex)) < 2%", "<="),
    ("mis(bad) <= 20%", "did you mean 'miss'"), ("Miss(bad)", "did you mean 'miss'"),
    ("error(by=site) <= {kids-app: 10%}", "need quotes"), ("miss(kids-app) <= 1%", "kids - app.*need quotes"),
    ("error(by=class) <= {yes: 1}", "1%"), ("1 - recall(1, by=sex) <= {f: .2, None: 1}", "1%"),
    ("gap(miss(bad, by=sex)) <= 1", "1%"), ("largest(error(by=sex)) <= .1", r"'sex'\) <= 0.1"),
    ("gap(miss(bad, by=sex)) <= {f: .1}", "of each rate also a dict"), ("error(**{a: 1})", r"'\*\*'"),
    ("1 - miss(bad)", "recall"), ("error(by=sex) <= {f: .1, f: .2}", "two bounds"),
])  # fmt: skip
def test_a_text_of_another_grammar_is_told_what_to_write(text, cure):
    refused(lambda: rates.parse(text), cure)


@pytest.mark.parametrize("given", [2, 3])
def test_a_deferral_costs_nothing_unless_its_cost_is_given(given):
    """Mean costs by label are weighted means by hand; a missing column of deferral has zeros."""
    y, w = np.array([0, 0, 1, 1]), np.array([1.0, 3.0, 2.0, 0.0])
    costs = np.array([[1.0, 2.0, 4.0], [3.0, 6.0, 8.0], [5.0, 7.0, 9.0], [-8.0, 80.0, 8.0]])[:, :given]
    strata = Counts.stratified(y, [], w, NAMES[:2], defers=True, costs=costs).strata
    by_label = [[(1 + 3 * 3) / 4, (2 + 3 * 6) / 4, (4 + 3 * 8) / 4], [5, 7, 9]]
    expected = np.array(by_label) * [1, 1, given == 3]
    np.testing.assert_allclose(strata.mean_costs, expected)
    assert strata.cost_range == ((1.0, 9.0) if given == 3 else (0.0, 7.0))
