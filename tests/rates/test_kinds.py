"""Every kind of rate in every place with counts of rates, compared with a count row by row."""

import copy
import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from conftest import refused
from scipy.stats import binom

import tailboost as tb
from tailboost import rates
from tailboost.rates.rate import DEFINITIONS as ALL_KINDS

#: All but means of losses, which count no answers.
KINDS = {kind: entry for kind, entry in ALL_KINDS.items() if entry.counted}
BETA = 2.0
DEFERRED = -1


def error(y, a, k):
    return a not in (y, DEFERRED), 1


def found(y, a, k):
    return y == k and a in (k, DEFERRED), y == k


def missed(y, a, k):
    return y == k and a not in (k, DEFERRED), y == k


def false_alarm(y, a, k):
    return y != k and a == k, y != k


def rejected(y, a, k):
    return y != k and a != k, y != k


def f_score(y, a, k):
    return y == k and a == k, (BETA**2 * (y == k) + (a == k)) / (1 + BETA**2)


#: The terms in numerator and denominator of a row with class y and answer a, for a rate about class k.
ROW = {
    "error": error, "miss": missed, "recall": found, "false_alarm": false_alarm, "specificity": rejected,
    "selected": lambda y, a, k: (a == k, 1),
    "cost": lambda y, a, k: (0.0 if a == DEFERRED else float(3 * y + a) / 8, 1),
    "deferred": lambda y, a, k: (a == DEFERRED, 1), "precision": lambda y, a, k: (y == k and a == k, a == k),
    "npv": lambda y, a, k: (y != k and a not in (k, DEFERRED), a not in (k, DEFERRED)),
    "jaccard": lambda y, a, k: (y == k and a == k, k in (y, a)), "f_score": f_score,
    "answered_error": lambda y, a, k: (a not in (y, DEFERRED), a != DEFERRED),
    "representation": lambda y, a, k: (a == k, a == k), "told 0": lambda y, a, k: (y == 1 and a == 0, y == 1),
    "told 0 or reviewed": lambda y, a, k: (y == 1 and a in (0, DEFERRED), y == 1),
    "confused": lambda y, a, k: ((y, a) in ((0, 1), (1, 0)), 1),
    "right of 1": lambda y, a, k: (y == 1 and a == 1, a == 1), "answered 0": lambda y, a, k: (a == 0, 1),
}  # fmt: skip
#: Arguments of rates made by `custom`.
CUSTOM = {
    "told 0": ([(1, 0)], [(1, None)]), "told 0 or reviewed": ([(1, 0), (1, "human review")], [(1, None)]),
    "confused": ([(0, 1), (1, 0)],), "right of 1": ([(1, 1)], [(None, 1)]), "answered 0": ([(None, 0)],),
}  # fmt: skip
#: Kinds with deferred rows in the numerator.
OF_DEFERRAL = ("deferred", "told 0 or reviewed")
#: Kinds with the rows of all subgroups in the denominator.
ACROSS = ("representation",)
#: Kinds with terms between 0 and 1.
ENDS = [(kind, {*terms(y, a, 1)}) for kind, terms in ROW.items() for y in (0, 1) for a in (0, 1, DEFERRED)]
IN_PART = {kind for kind, ends in ENDS if not ends <= {0, 1}}
BYS = [None, "class", "g", "group", "cell", ("class", "g"), ("g", "h")]


def rate_of(kind, by=None, K=2, label=1):
    """Return the rate of a kind, about a label if it is about one."""
    if kind == "cost":
        return rates.cost(np.arange(3 * K).reshape(K, 3)[:, :K] / 8, by=by)
    if kind == "f_score":
        return rates.f_score(label, BETA, by)
    if kind in CUSTOM:
        return rates.custom(kind, *CUSTOM[kind], by=by)
    if kind in ACROSS:
        # `representation` refuses by=None.
        return replace(rates.selected(label, by), definition=KINDS[kind])
    labels = [label] if "label" in KINDS[kind].words else []
    return getattr(rates, kind)(*labels, by=by)


def is_inside(name, by, y, g, h):
    """Return whether a row is in the subgroup of this name."""
    if by is None:
        return True
    if by == "class":
        return y == name
    if by == "g":
        return g == name
    if isinstance(by, tuple):
        return tuple({"class": y, "g": g, "h": h}[axis] for axis in by) == name
    column, value = name[1] if by == "cell" else name
    of_group = (g if column == "g" else h) == value
    return of_group and (by == "group" or y == name[0])


def counted(kind, by, name, rows, k=1):
    """Return numerator and denominator of a subgroup over rows (y, a, g, h, weight)."""
    top = bottom = 0.0
    for y, a, g, h, w in rows:
        numerator, denominator = ROW[kind](y, a, k)
        inside = is_inside(name, by, y, g, h)
        top += w * numerator * inside
        bottom += w * denominator * (inside or kind in ACROSS)
    return top, bottom


def value(kind, by, name, rows, k=1):
    top, bottom = counted(kind, by, name, rows, k)
    return top / bottom if bottom > 0 else np.nan


def drawn(n, seed, K=2, defers=False):
    """Return rows (y, a, g, h, weight)."""
    rng = np.random.default_rng(seed)
    y = rng.integers(K, size=n)
    a = np.where(rng.random(n) < 0.6, y, rng.integers(-1 if defers else 0, K, size=n))
    g, h = rng.choice(["f", "m"], n), rng.integers(3, size=n)
    return list(zip(y.tolist(), a.tolist(), g.tolist(), h.tolist(), rng.integers(3, size=n), strict=True))


def columns(rows):
    y, a, g, h, w = map(np.array, zip(*rows, strict=True))
    return y, a, {"g": g, "h": h}, w


def test_every_kind_has_a_count_here():
    assert set(ROW) == {*KINDS, *CUSTOM}


@pytest.mark.parametrize("kind", ROW)
@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("K", [2, 3])
def test_measured_is_what_rows_add(kind, by, K):
    for defers in (False, True):
        rows = drawn(40, 1, K, defers)
        y, a, groups, w = columns(rows)
        deferred = a == DEFERRED if defers else None
        given = {"groups": groups, "deferred": deferred, "sample_weight": w, "labels": np.arange(K)}
        measured = rates.measure(rate_of(kind, by, K), y, np.maximum(a, 0), **given)
        assert len(measured) >= 1 + (by is not None)
        for name, found_value in measured.items():
            assert found_value == pytest.approx(value(kind, by, name, rows), nan_ok=True)


def estimates(kind, by, model, X, rows, **given):
    """Compare the estimates of a certificate with the count over rows."""
    y, _, groups, _ = columns(rows)
    certificate = tb.certify(model, X, y, rates=[rate_of(kind, by)], groups=groups, **given)
    assert len(certificate.bounds) >= 1 + (by is not None)
    for bound in certificate.bounds:
        of_rows = value(kind, by, bound.subgroup, rows)
        assert bound.estimate == (None if np.isnan(of_rows) else pytest.approx(of_rows))
        assert bound.lower <= of_rows <= bound.upper or np.isnan(of_rows)


@pytest.mark.parametrize("kind", ROW)
@pytest.mark.parametrize("by", BYS)
def test_certified_estimates_are_what_rows_add(kind, by):
    for defers in [True] if kind in IN_PART else [False, True]:  # bounds by betting take long
        rows = [(*row[:4], 1) for row in drawn(45, 2, defers=defers)]
        _, a, _, _ = columns(rows)
        needed = defers or "mask" in rate_of(kind).needs
        estimates(kind, by, np.maximum(a, 0), None, rows, deferred=a == DEFERRED if needed else None)


def scored(n, seed):
    """Return scores, labels and groups; a label is likelier the larger the score."""
    rng = np.random.default_rng(seed)
    s, g = rng.random(n), rng.choice(["f", "m"], n)
    y = (rng.random(n) < np.clip(1.4 * s - 0.2, 0, 1)).astype(int)
    return s[:, None], y, {"g": g}


@pytest.fixture(scope="module")
def free():
    X, y, groups = scored(400, 0)
    return tb.tune(tb.Scores(0, 1), X, y, groups=groups, limits=[rates.error(by="g") <= 0.9], by_group=True)


def as_rows(y, a, groups):
    return list(zip(y.tolist(), a.tolist(), groups["g"].tolist(), y.tolist(), np.ones(len(y)), strict=True))


@pytest.mark.parametrize("kind", [
    pytest.param(kind, marks=[pytest.mark.slow] * (kind in IN_PART))  # bounds by betting take seconds
    for kind in ROW
    if kind not in OF_DEFERRAL
])  # fmt: skip
@pytest.mark.parametrize("by", [None, "g"])
def test_a_certified_rule_passes_the_test_of_its_rows(kind, by, free):
    """All procedures of `calibrate`: ranks, sequences of thresholds, bets on F scores and costs."""
    if by is None and kind in ACROSS:
        pytest.skip("compares subgroups")
    new, labels, new_groups = scored(900, 1)
    before = as_rows(labels, free.predict(new, groups=new_groups), new_groups)
    values = [value(kind, by, name, before) for name in ([None] if by is None else ["f", "m"])]
    rate = rate_of(kind, by)
    grows = rate.better == "≥" or kind in ("precision", "npv", "representation")
    limit = rate >= min(values) - 0.12 if grows else rate <= max(values) + 0.12
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rule = tb.calibrate(copy.deepcopy(free), new, labels, groups=new_groups, limits=[limit])
    answered = as_rows(labels, rule.predict(new, groups=new_groups), new_groups)
    for bound in rule.certificate_.bounds:
        top, bottom = counted(kind, by, bound.subgroup, answered)
        assert bound.estimate == pytest.approx(top / bottom)
        assert limit.keeps(bound.estimate, limit.bound)
        if kind not in IN_PART:
            wrong, most = (top, limit.bound) if limit.sense == "≤" else (bottom - top, 1 - limit.bound)
            assert binom.cdf(wrong, bottom, most) <= 0.05


@pytest.mark.parametrize("kind", [kind for kind in ROW if kind not in (*OF_DEFERRAL, *ACROSS)])
def test_the_selected_threshold_is_the_best_of_all(kind):
    """If the likeliest labels break the limit, the best threshold within the limit is selected.

    Rows have weights.
    """
    rng = np.random.default_rng(7)
    X, y, _ = scored(60, 8)
    w, rate = rng.integers(1, 4, size=60).astype(float), rate_of(kind)

    def measured(answers):
        rows = [*zip(y.tolist(), answers.tolist(), y, y, w, strict=True)]
        return value("error", None, None, rows), value(kind, None, None, rows)

    def tuned(limit):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return tb.tune(tb.Scores(0, 1), X, y, objective="error", limits=[limit], sample_weight=w)

    likeliest = tuned(rates.error() <= 0.9999).predict(X)
    errors, values = np.array([measured((X[:, 0] > t).astype(int)) for t in np.r_[-1, X[:, 0]]]).T
    compared = 0
    for quantile in (0.25, 0.75):
        bound = round(float(np.nanquantile(values, quantile)), 3)
        for limit in (rate <= bound, rate >= bound):
            try:
                rule = tuned(limit)
            except ValueError:  # it asks for more errors
                continue
            error, reached = measured(rule.predict(X))
            line = next(line for line in rule.rates_ if line.rate == str(rate))
            assert line.value == pytest.approx(reached, nan_ok=True)
            if limit.keeps(measured(likeliest)[1], bound):
                assert (rule.predict(X) == likeliest).all()
                continue
            kept = np.array([limit.keeps(each, bound) is not False for each in values])
            assert error == pytest.approx(errors[kept].min())
            compared += 1
    assert compared


TABLE, LABELS = np.arange(40.0)[:, None] / 40, np.arange(40) % 2


@pytest.mark.parametrize("kind", KINDS)
def test_rates_of_right_answers_are_better_if_large(kind):
    """Small values are better if wrong answers or deferred rows count alone; if both count, neither is."""
    right, wrong = (
        any(ROW[kind](y, a, 1)[0] > 0 for y, a in product((0, 1), (0, 1)) if (y == a) == is_right)
        for is_right in (True, False)
    )
    rate = rate_of(kind, "g")
    assert rate.better == {(True, True): "", (True, False): "≥"}.get((right, wrong), "≤")
    if rate.better == "≥":
        assert replace(rate, complement=True).better == "≤"
    else:  # a limit on it, from above, asks for more errors
        refused(lambda: replace(rate, complement=True), "complement")


def test_a_rate_that_means_nothing_is_refused_whoever_makes_it():
    for words, call, *given in (
        ("alpha", rates.tail, 0.0), ("kl", rates.shift, 0.0), ("a tail", rates.shift, 0.1, rates.miss(1)),
        ("alpha", rates.tail, 2), ("kl", rates.shift, np.nan), ("a tail", rates.tail, 0.1, None),
        ("precisoin", rates.parse, "precisoin(1)"), ("a tail", rates.tail, 0.1, rates.error(by="class")),
        *(("a tail", rates.tail, 0.1, rates.error(by=by), None) for by in (0, "")),
        *(("a tail", rates.tail, 0.1, rates.error(), by) for by in (0, "")),  # names of columns
        *(("beta", rates.f_score, 1, beta) for beta in (-1, 0, np.nan, True)),
        ("labels must name", rates.parse, "cost([[0, 1], [1, 0]], labels=['a', 'a'])"),
    ):  # fmt: skip
        refused(lambda: call(*given), words)
    for label in (np.inf, -np.inf, np.nan):  # no row has it, and no text says it
        for call in (rates.miss, rates.error, lambda x: rates.custom("c", [(x, 0)])):
            refused(lambda: call(label), "must be text or a number", TypeError)
    for name in ("label", "beta", "level", "matrix"):
        refused(lambda: rates.parse(f"error({name}=1)"), name)


@pytest.mark.parametrize("title", [0, ""])
def test_a_column_of_groups_may_have_a_name_that_python_takes_as_false(title):
    found = []
    for name in ("g", title):
        groups, limit = {name: LABELS}, rates.gap(rates.selected(1, by=name)) <= 0.9
        assert rates.parse(repr(limit)) == limit
        objective = rates.largest(rates.error(by=name))
        clf = tb.tune(tb.Scores(0, 1), TABLE, LABELS, objective=objective, limits=[limit], groups=groups)
        bounds = tb.certify(clf, TABLE + 0.01, LABELS, rates=[limit], groups=groups).bounds
        found.append((clf.rule_, [(each.subgroup, each.upper) for each in bounds]))
    assert found[0] == found[1]


def test_a_class_may_be_called_as_the_answer_to_deferred_rows():
    H, x = "human review", "ok"
    for rate, expected in (
        (rates.custom("x", [(x, H)], [(x, None)]), 1 / 3), (rates.custom("x", [(H, x)], [(H, None)]), 1 / 2),
        (rates.custom("x", [(H, H)], [(None, H)]), 1 / 2), (rates.recall(x), 2 / 3), (rates.miss(H), 1 / 2),
        (rates.cost(pd.DataFrame([[0, 5], [3, 0]], [H, x], [H, x])), 8 / 5), (rates.deferred(), 0.0),
    ):  # fmt: skip
        assert rates.measure(rate, [H, H, x, x, x], [H, x, H, x, x])[None] == pytest.approx(expected)
    assert [rate.named_labels for rate in (rates.miss(H), rates.recall(x))] == [{H}, {x}]


def tells_deferral_alone(kind, part):
    """Return whether a term of `ROW` is the same for all labels as answers, and another for deferred rows."""
    answered = {(y, ROW[kind](y, a, 1)[part]) for y in (0, 1) for a in (0, 1)}
    deferred = {(y, ROW[kind](y, DEFERRED, 1)[part]) for y in (0, 1)}
    return len(answered) == 2 and answered != deferred


def test_what_counts_deferred_rows_is_told_by_the_pairs():
    """A rate among answered rows, or of answered rows, needs to know the deferred ones."""
    seen = rates.custom("seen", [(1, 0), (1, 1)], among=[(None, 0), (None, 1)])
    refused(lambda: tb.certify(LABELS, None, LABELS, rates=[seen]), "deferred")
    for kind in set(KINDS) - {"cost"}:
        numerator, denominator = (tells_deferral_alone(kind, part) for part in (0, 1))
        assert ("deferral" in rate_of(kind).needs) == numerator
        assert ("mask" in rate_of(kind).needs) == (numerator or denominator)


@pytest.mark.slow
def test_representation_at_the_boundary():
    """The group is independent of the score, so each rule breaks the limit a little."""
    limit, false = rates.representation(1, by="g") >= {"f": 0.5}, 0
    for seed in range(400):
        rng = np.random.default_rng([seed, 1])
        X, y, _ = scored(300, seed)
        g = np.where(rng.random(300) < 0.5 - 1e-4, "f", "m")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                own = {"objective": "error", "limits": [limit], "confidence": 1 - 0.05 / 0.9}
                tb.calibrate(tb.Scores(0, 1), X, y, groups={"g": g}, **own)
            except tb.exceptions.NotCertifiedError:
                continue
        false += 1
    assert binom.sf(false - 1, 400, 0.05) > 0.001
