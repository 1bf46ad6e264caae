"""Several labels per row: thresholds of each label, limits on labels and on rows, one certificate."""

import json

import numpy as np
import pytest
from scipy.stats import binom

pd = pytest.importorskip("pandas")

import tailboost as tb

LABELS = ["threat", "insult", "toxic"]
SCORES = [tb.Scores(f"s_{label}", label, kind="logit") for label in LABELS]


def rows(n, seed):
    """Scores with different offsets of labels that occur together."""
    rng = np.random.default_rng(seed)
    common, X, Y = rng.normal(size=n), {}, {}
    for label, share, offset in zip(LABELS, (0.05, 0.1, 0.3), (0, 2, -1), strict=True):
        z = 0.8 * common + 0.6 * rng.normal(size=n)
        cut = np.quantile(z, 1 - share)
        Y[label] = (z + 0.3 * rng.normal(size=n) > cut).astype(int)
        X[f"s_{label}"] = 2 * (z - cut) + offset
    return pd.DataFrame(X), pd.DataFrame(Y)


X, Y = rows(1500, 0)
FRESH, TRUTH = rows(4000, 1)


def flagged(rules, X):
    return rules.predict(X)["any label"]


@pytest.fixture(scope="module")
def limited():
    return tb.tune_labels(
        SCORES,
        X,
        Y,
        limits=[
            "miss(1, by=label) <= .25",
            "precision(1, by=label) >= {toxic: .6}",
            "selected(1) <= .32",
            "deferred() <= .1",
        ],
    )


def test_limits_on_labels_and_rows_hold_on_the_selection_data(limited):
    answers = limited.predict(X)
    for label in LABELS:
        assert ((answers[label] == 0) & (Y[label] == 1)).sum() <= 0.25 * Y[label].sum()
    of_rows = answers["any label"]
    any_flagged = np.any([answers[label] == 1 for label in LABELS], axis=0)
    any_deferred = np.any([answers[label] == "human review" for label in LABELS], axis=0)
    np.testing.assert_array_equal(of_rows == 1, any_flagged)
    np.testing.assert_array_equal(of_rows == "human review", any_deferred & ~any_flagged)
    assert np.mean(of_rows == 1) <= 0.32
    assert np.mean(of_rows == "human review") <= 0.1
    assert limited.rates_.met
    measured = {(line.rate, line.subgroup): line.value for line in limited.rates_}
    assert measured["share deferred by label", "any label"] == pytest.approx(
        np.mean(of_rows == "human review")
    )


def test_one_certificate_bounds_labels_and_rows(limited):
    certificate = limited.certify(FRESH, TRUTH)
    assert certificate.n_rows == len(FRESH)
    answers = limited.predict(FRESH)
    estimates = {(b.rate.kind, b.subgroup): b.estimate for b in certificate.bounds}
    threat = TRUTH["threat"] == 1
    assert estimates["miss", "threat"] == pytest.approx(np.mean(answers["threat"][threat] == 0))
    assert estimates["selected", "any label"] == pytest.approx(np.mean(answers["any label"] == 1))
    assert {b.target for b in certificate.bounds} == {None, 0.25, 0.6, 0.32, 0.1}
    loose = limited.certify(FRESH, TRUTH, limits=["error(by=label) <= .3", "selected(1) <= .5"])
    assert loose.certified
    strict = limited.certify(FRESH, TRUTH, limits="selected(1) <= .01")
    assert strict.certified is False


@pytest.mark.parametrize("target", [0.1, 0.2])
def test_a_limit_on_rows_costs_little_more_than_the_best_thresholds(target):
    two = ["insult", "toxic"]
    rules = tb.tune_labels(SCORES[1:], X, Y, limits=f"selected(1) <= {target}")
    answers = rules.predict(X)
    assert np.mean(answers["any label"]) <= target
    ours = np.mean([answers[label] != Y[label] for label in two])
    above = [X[f"s_{label}"].to_numpy() >= np.quantile(X[f"s_{label}"], 1 - np.linspace(0, 0.4, 81))[:, None]
             for label in two]  # fmt: skip
    errors = [(a != (Y[label] == 1).to_numpy()).sum(axis=1) for a, label in zip(above, two, strict=True)]
    either = np.array([(row | above[1]).mean(axis=1) for row in above[0]])
    best = np.where(either <= target, errors[0][:, None] + errors[1], np.inf).min() / (2 * len(X))
    assert ours <= best + 0.01


def test_json_and_one_row(limited):
    again = tb.LabelRules.from_dict(json.loads(limited.to_json()))
    assert again == limited
    whole, single = limited.predict(FRESH), again.predict(FRESH[7:8])
    assert all(single[label][0] == whole[label][7] for label in whole)
    assert str(limited).splitlines()[0].startswith("threat: s_threat >= ")
    with pytest.raises(ValueError, match="no rule of several labels per row"):
        tb.LabelRules.from_dict({"format": 1, "labels": {}, "limits": []})


def test_arrays_and_reordered_columns_give_the_same_rules():
    base = tb.tune_labels(SCORES, X, Y, limits="miss(1, by=label) <= .25")
    other = tb.tune_labels(SCORES, X[X.columns[::-1]], Y[Y.columns[::-1]], limits="miss(1, by=label) <= .25")
    assert base == other
    numbered = [tb.Scores(k, label, kind="logit") for k, label in enumerate(LABELS)]
    array = tb.tune_labels(numbered, X.to_numpy(), Y.to_numpy(), limits="miss(1, by=label) <= .25")
    assert [rule.bands for rule in array.rules.values()] == [rule.bands for rule in base.rules.values()]
    assert flagged(array, X.to_numpy()).tolist() == flagged(base, X).tolist()


def test_columns_may_be_numbers():
    """Labels named 0, 1, 2 are found in a data frame without other names, at the fit and later."""
    X_plain, Y_plain = pd.DataFrame(X.to_numpy()), pd.DataFrame(Y.to_numpy())
    scores = [tb.Scores(k, k, kind="logit") for k in range(3)]
    rules = tb.tune_labels(scores, X_plain, Y_plain, limits="miss(1, by=label) <= .25")
    texts = ["a", "b", "c"]
    scores = [tb.Scores(name, name, kind="logit") for name in texts]
    named = tb.tune_labels(
        scores, X.set_axis(texts, axis=1), Y.set_axis(texts, axis=1), limits="miss(1, by=label) <= .25"
    )
    expected = named.certify(FRESH.set_axis(texts, axis=1), TRUTH.set_axis(texts, axis=1))
    again = tb.LabelRules.from_dict(json.loads(rules.to_json()))
    for each in (rules, again):
        fresh = each.certify(pd.DataFrame(FRESH.to_numpy()), pd.DataFrame(TRUTH.to_numpy()))
        assert sorted(b.upper for b in fresh.bounds) == sorted(b.upper for b in expected.bounds)
        assert [str(k) for k in range(3)] == list(each.rules)
    both = pd.DataFrame({0: [0, 1], "0": [0, 1], 1: [0, 1], 2: [0, 1]})
    with pytest.raises(ValueError, match="two columns have the same name as text"):
        rules.certify(pd.DataFrame(np.zeros((2, 3))), both)


@pytest.mark.parametrize("value", [87.0, -3.0, np.inf, "abc", np.nan])
def test_scores_of_another_kind_are_refused(value):
    shares = X.apply(lambda s: 1 / (1 + np.exp(-s)))
    scores = [tb.Scores(f"s_{label}", label) for label in LABELS]
    rules = tb.tune_labels(scores, shares, Y, limits="miss(1, by=label) <= .25")
    odd = shares.astype(object)
    odd.loc[4, "s_insult"] = value
    again = tb.LabelRules.from_dict(json.loads(rules.to_json()))
    for answer in (rules.predict, again.predict, lambda X: rules.certify(X, Y)):
        with pytest.raises(ValueError, match=r"s_insult: (values|scores|1 row)"):
            answer(odd)
    with pytest.raises(ValueError, match="'insult': the table has no column 's_insult'"):
        rules.predict(shares.drop(columns="s_insult"))


def test_grades_and_missing_scores():
    grades = X.assign(s_toxic=np.clip(np.round(X["s_toxic"] + 3), 1, 5))
    grades.loc[3, "s_toxic"] = np.nan
    scores = [*SCORES[:2], tb.Scores("s_toxic", "toxic", kind="number", missing=5)]
    rules = tb.tune_labels(scores, grades, Y)
    assert rules.predict(grades)["toxic"][3] == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"limits": "miss(1, by=lang) <= .2"}, "write by='label' for a limit on each label"),
        ({"limits": "miss(1, by=label) <= {spam: .2}"}, "no subgroup is called 'spam'"),
        ({"limits": "selected(1) >= .2"}, "an upper limit without by= for rows as a whole"),
        ({"limits": "gap(miss(1, by=label)) <= .2"}, "write by='label' for a limit on each label"),
        ({"Y": Y.replace(1, 2)}, "a column of 0 and 1 for each label"),
        ({"Y": Y[["toxic"]]}, "Y has no column 'threat'"),
        ({"randomized": True}, "randomized: rules of several labels are thresholds of each label"),
        ({"Y": Y.assign(threat=0)}, "all rows have the label 'threat', or none has it"),
        ({"scores": [*SCORES, SCORES[0]]}, "each needs a label of its own"),
        ({"X": pd.concat([X, X[["s_toxic"]]], axis=1)}, "more than one column of this name"),
        ({"X": X.drop(columns="s_toxic")}, "the table has no column 's_toxic'"),
    ],
)
def test_unclear_input_is_refused(given, words):
    with pytest.raises(ValueError, match=words):
        tb.tune_labels(**{"scores": SCORES, "X": X, "Y": Y, **given})


def test_limits_that_contradict_each_other_are_named():
    with pytest.raises(tb.InfeasibleLimitsError):
        tb.tune_labels(SCORES, X, Y, limits=["miss(1, by=label) <= .01", "selected(1) <= .05"])
    with pytest.warns(tb.BoundNotMetWarning, match="of any label"):
        tb.tune_labels(SCORES, X, Y, limits=["miss(1, by=label) <= .3", "selected(1) <= .2"])


# -- calibration and monitoring ----------------------------------------------------------------------------

LIMITS = ["miss(1, by=label) <= .3", "selected(1) <= .4"]


@pytest.fixture(scope="module")
def calibrated():
    rules = tb.tune_labels(SCORES, X, Y, limits=LIMITS)
    return rules, rules.calibrate(FRESH, TRUTH)


@pytest.fixture(scope="module")
def ranked():
    """Rules with limits on labels alone, which ranks certify at once."""
    rules = tb.tune_labels(SCORES, X, Y, limits=LIMITS[:1])
    return rules, rules.calibrate(FRESH, TRUTH)


def broken(rules, limits, X, Y):
    """Return whether answers to many rows break a limit on each label or on rows."""
    answers = rules.predict(X)
    miss = max(np.mean(answers[label][Y[label] == 1] == 0) for label in LABELS)
    return miss > limits[0] or np.mean(answers["any label"] == 1) > limits[1]


@pytest.mark.slow
def test_calibrated_rules_keep_limits_on_labels_and_rows(calibrated):
    rules, certified = calibrated
    assert certified.certificate_.certified
    assert certified.certificate_.n_rows == len(FRESH)
    bounds = {(b.rate.kind, b.subgroup): b.upper for b in certified.certificate_.bounds}
    assert bounds == {("miss", label): 0.3 for label in LABELS} | {("selected", "any label"): 0.4}
    price = {each.name: each for each in certified.certificate_.price}
    answers = certified.predict(FRESH)
    threat = TRUTH["threat"] == 1
    assert price["miss rate of 1 of threat"].certified == pytest.approx(
        np.mean(answers["threat"][threat] == 0)
    )
    assert len(price) == 5
    assert not broken(certified, (0.3, 0.4), *rows(40_000, 7))
    assert certified.limits == rules.limits
    assert rules.certificate_ is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limits", "draws", "most"), [(LIMITS, 60, (0.3, 0.4)), (LIMITS[:1], 200, (0.3, 1.0))]
)
def test_few_certificates_of_several_labels_are_false(limits, draws, most):
    """The limits lie where the certified rule is close to them; those on labels alone are ranks."""
    many, false, certified = rows(100_000, 99), 0, 0
    for seed in range(draws):
        rules = tb.tune_labels(SCORES, *rows(500, 200 + seed), limits=limits)
        try:
            rules = rules.calibrate(*rows(1000, 400 + seed), attempts=1)
        except tb.NotCertifiedError:
            continue
        certified += 1
        false += broken(rules, most, *many)
    assert certified > draws / 3
    assert false <= draws * 0.05 + 2 * np.sqrt(draws * 0.05 * 0.95)


@pytest.mark.parametrize("kind", ["logit", "probability", "percent", "number"])
def test_misses_by_label_have_the_rank_of_each_label(kind):
    """The ranks come from binomial tails, and the scores are counted by hand."""

    def told(table):
        shares = 1 / (1 + np.exp(-table))
        return {"logit": table, "probability": shares, "percent": shares * 100, "number": shares * 7}[kind]

    scores = [tb.Scores(f"s_{label}", label, kind=kind) for label in LABELS]
    rules = tb.tune_labels(scores, told(X), Y, limits="miss(1, by=label) <= .05")
    certified = rules.calibrate(told(FRESH), TRUTH, attempts=1)
    for label, bound in zip(LABELS, certified.certificate_.bounds, strict=True):
        assert bound.method == "ranks"
        of_label = told(FRESH)[f"s_{label}"].to_numpy()
        truth = TRUTH[label].to_numpy() == 1
        n, k = truth.sum(), np.arange(truth.sum())
        most = k[binom.cdf(k, n, 0.05) <= 0.05 / 3].max()  # so many misses, and another would be too many
        answers = certified.predict(told(FRESH))[label] == 1
        highest = np.sort(of_label[truth])[most]
        lowest = of_label[answers].min()
        assert (answers == (of_label >= lowest)).all()
        assert lowest <= highest
        errors = [np.sum((of_label > t) != truth) for t in of_label[of_label < highest]]
        # The selection data add their losses, so the least error on the fresh rows may be lower.
        assert np.sum(answers != truth) <= min(errors) + 0.01 * len(truth)


@pytest.mark.slow
def test_independent_rows_are_fresh_although_labels_depend_on_each_other():
    """Ten on/off detectors of one cause: few contents, so many rows agree by chance."""

    def detected(n, seed):
        rng = np.random.default_rng(seed)
        cause = rng.normal(size=(n, 1))
        z = 0.9 * cause + 0.45 * rng.normal(size=(n, 10))
        on = (z + 0.3 * rng.normal(size=z.shape) > 1).astype(int)
        return pd.DataFrame(on), pd.DataFrame((z > 1).astype(int))

    scores = [tb.Scores(k, k) for k in range(10)]
    for seed in range(6):
        rules = tb.tune_labels(scores, *detected(400, 2 * seed), limits=["miss(1, by=label) <= .9"])
        fresh = detected(500, 2 * seed + 1)
        assert rules.certify(*fresh).n_rows == 500
        with pytest.raises(tb.LeakageError, match="400 of these 400 rows"):
            rules.certify(*detected(400, 2 * seed))
        monitor = tb.Monitor.of(rules.certify(*fresh))
        for batch in range(2):
            monitor = monitor.add(**rules.pairs(*detected(500, 100 + 2 * seed + batch)))
        with pytest.raises(tb.LeakageError, match="rows were given twice"):
            monitor.add(**rules.pairs(*detected(500, 101 + 2 * seed)))


def test_further_rows_without_labels_are_no_copies():
    rules = tb.tune_labels(SCORES, X, Y, limits=["selected(1) <= .5"])
    more, _ = rows(500, 21)
    both = rules.certify(FRESH, TRUTH, X_unlabeled=pd.concat([FRESH[:300], more]))
    assert both.bounds[0].n == len(FRESH) + 500


def test_no_rows_are_refused():
    rules = tb.tune_labels(SCORES, X, Y)
    for call in (rules.predict, lambda X: tb.tune_labels(SCORES, X, Y[:0])):
        with pytest.raises(ValueError, match="X has no rows"):
            call(X[:0])


@pytest.mark.parametrize("default", [0, 1, "human review"])
def test_a_label_without_a_score_takes_the_default(limited, default):
    """Other labels of the row are answered by their scores; the row as a whole is answered by its labels."""
    complete = limited.predict(X)
    lacking = X.copy()
    lacking.loc[::3, f"s_{LABELS[0]}"] = np.nan
    answers = limited.predict(lacking, default=default)
    for row in range(0, len(X), 50):
        of_labels = [complete[label][row] for label in LABELS]
        if row % 3 == 0:
            of_labels[0] = default
        assert [answers[label][row] for label in LABELS] == of_labels
        expected = 1 if 1 in of_labels else "human review" if "human review" in of_labels else 0
        assert answers["any label"][row] == expected
    with pytest.raises(ValueError, match="no score"):
        limited.predict(lacking)
    for wrong in (None, "ok"):
        with pytest.raises(ValueError, match="default"):
            limited.predict(lacking, default=wrong)


def test_a_refused_target_is_no_attempt():
    rules = tb.tune_labels(SCORES, X, Y, limits="miss(1, by=label) <= .3")
    with pytest.raises(tb.NotCertifiedError) as raised:
        rules.calibrate(FRESH, TRUTH.assign(threat=0))
    assert "No attempt is spent" in str(raised.value)
    assert rules.calibrate(FRESH, TRUTH).certificate_.attempts[0].spent == pytest.approx(0.9)


def test_edited_rules_are_an_error_and_read_without_their_certificate(ranked):
    _, certified = ranked
    document = json.loads(certified.to_json())
    document["labels"][LABELS[0]]["bands"][0][1][0] += 0.1
    with pytest.raises(ValueError, match="its certificate is about another rule"):
        tb.LabelRules.from_dict(document)
    assert tb.LabelRules.from_dict(document | {"certificate": None}).certificate_ is None


def test_a_label_without_a_passing_threshold_is_never_answered():
    noise = FRESH.assign(s_threat=np.random.default_rng(0).normal(size=len(FRESH)))
    selection = X.assign(s_threat=np.random.default_rng(1).normal(size=len(X)))
    rules = tb.tune_labels(SCORES, selection, Y, limits="precision(1, by=label) >= .6")
    with pytest.warns(tb.UselessRuleWarning, match="threat"):
        certified = rules.calibrate(noise, TRUTH, attempts=1)
    answers = certified.predict(noise)
    assert not answers["threat"].any()
    assert answers["toxic"].any()
    assert {bound.method for bound in certified.certificate_.bounds} == {"one answer", "fixed sequence"}


def test_selection_and_calibration_rows_are_known_by_content(ranked):
    rules, certified = ranked
    again = tb.LabelRules.from_dict(json.loads(certified.to_json()))
    order = np.random.default_rng(0).permutation(len(X))
    for each in (rules, certified, again):
        with pytest.raises(tb.LeakageError, match="selection data of the rule"):
            each.certify(X.iloc[order], Y.iloc[order], limits=LIMITS)
        with pytest.raises(tb.LeakageError, match="selection data of the rule"):
            each.certify(X.iloc[order[:700]], Y.iloc[order[:700]], limits=LIMITS)
    for each in (certified, again):
        with pytest.raises(tb.LeakageError, match="calibration rows of the rule"):
            each.certify(FRESH[1000:], TRUTH[1000:])
    with pytest.raises(tb.LeakageError, match="an earlier attempt had these rows"):
        rules.calibrate(FRESH[:2000], TRUTH[:2000], limits="selected(1) <= .9")
    assert len(again.ledger_.attempts) == len(rules.ledger_.attempts) == 1
    assert again.certificate_.certified
    with pytest.raises(ValueError, match="were read from a document"):
        again.calibrate(*rows(500, 8))


@pytest.mark.slow
def test_rules_without_a_certificate_say_what_is_missing():
    rules = tb.tune_labels(SCORES, X, Y, limits=LIMITS)
    with pytest.raises(tb.NotCertifiedError, match="recorded in the ledger of the rules") as raised:
        rules.calibrate(*rows(200, 9))
    assert {short.missing for short in raised.value.shortfalls} == {"calibration rows"}
    assert any("threat" in short.name for short in raised.value.shortfalls)
    assert len(rules.ledger_.attempts) == 1


def test_a_monitor_tests_each_label_and_the_rows(limited):
    rules, certificate = limited, limited.certify(FRESH, TRUTH, limits=LIMITS)
    later, truth = rows(3000, 11)
    monitor = tb.Monitor.of(certificate).add(**rules.pairs(later, truth), name="January")
    assert not monitor.alarms
    tested = {b.bound.subgroup: b for b in monitor.recheck.bounds if b.bound.target is not None}
    threat = truth["threat"] == 1
    assert tested["threat"].n == threat.sum()
    assert tested["threat"].estimate == pytest.approx(np.mean(rules.predict(later)["threat"][threat] == 0))
    assert tested["any label"].n == 3000
    later, truth = rows(3000, 12)
    monitor = monitor.add(**rules.pairs(later.assign(s_threat=-9.0), truth), name="February")
    assert [alarm.bound.subgroup for alarm in monitor.alarms] == ["threat"]


def test_the_classifier_of_pairs_answers_as_the_rules(limited):
    given = limited.pairs(FRESH, TRUTH)
    answers = limited.predict(FRESH)
    expected = np.concatenate([answers[name].astype(object) for name in [*limited.rules, "any label"]])
    np.testing.assert_array_equal(given["model"].actions(given["X"]), expected)
    np.testing.assert_array_equal(given["model"].defers(given["X"]), expected == "human review")


MORE, _ = rows(3000, 7)
ON_ROWS = ("selected(1) <= .3", "deferred() <= .1")


@pytest.fixture(scope="module")
def joined():
    return tb.tune_labels(SCORES, X, Y, limits=["miss(1, by=label) <= .3", *ON_ROWS], X_unlabeled=MORE)


class TestRowsWithoutLabels:
    @pytest.mark.slow
    def test_limits_on_rows_are_measured_on_all_rows(self, joined):
        every = pd.concat([X, MORE])
        assert joined.rates_.met
        measured = {(line.rate, line.subgroup): line for line in joined.rates_}
        line = measured["selection rate of 1 by label", "any label"]
        assert line.rows == pytest.approx(len(every))
        assert line.value == pytest.approx(np.mean(flagged(joined, every) == 1))
        missed = joined.predict(X)["toxic"][Y["toxic"] == 1] == 0
        line = measured["miss rate of 1 by label", "toxic"]
        assert line.value == pytest.approx(missed.mean())
        assert line.rows == pytest.approx(Y["toxic"].sum())

    @pytest.mark.slow
    def test_a_row_with_and_without_labels_counts_once(self, joined):
        limits = ["miss(1, by=label) <= .3", *ON_ROWS]
        other = tb.tune_labels(SCORES, X, Y, limits=limits, X_unlabeled=pd.concat([MORE, X]))
        assert other == joined
        with pytest.raises(ValueError, match="X_unlabeled: there is no row, or all rows are among"):
            tb.tune_labels(SCORES, X, Y, limits=limits, X_unlabeled=X)
        with pytest.raises(ValueError, match="X_unlabeled: the table has no column 's_threat'"):
            tb.tune_labels(SCORES, X, Y, limits=limits, X_unlabeled=X[["s_toxic"]])

    def test_certificates_count_them(self, limited):
        on_rows = list(ON_ROWS)
        answers = np.concatenate([flagged(limited, FRESH), flagged(limited, MORE)])
        both = limited.certify(FRESH, TRUTH, limits=on_rows, X_unlabeled=MORE)
        assert both.n_rows == len(answers)
        bounds = {(bound.rate.kind, bound.subgroup): bound for bound in both.bounds}
        assert bounds["selected", "any label"].estimate == pytest.approx(np.mean(answers == 1))
        alone = limited.certify(MORE, None, limits=on_rows)
        assert {bound.n for bound in alone.bounds} == {len(MORE)}
        same = limited.certify(None, None, limits=on_rows, X_unlabeled=MORE)
        assert str(same) == str(alone)
        with pytest.raises(ValueError, match=r"miss\(1, by='label'\) needs labels, and no row here has one"):
            limited.certify(MORE, None)
        with pytest.raises(ValueError, match="X or X_unlabeled is needed"):
            limited.certify(None, None)

    @pytest.mark.slow
    def test_rules_are_calibrated_without_labels(self, joined):
        new, _ = rows(4000, 8)
        found = joined.calibrate(new, None, limits=["selected(1) <= .5"], attempts=1)
        assert found.certificate_.certified
        assert found.certificate_.n_rows == 4000
        answers = np.concatenate([flagged(found, new), flagged(found, rows(100_000, 9)[0])])
        assert np.mean(answers == 1) <= 0.5
        with pytest.raises(tb.LeakageError):
            joined.calibrate(MORE, None, limits=["selected(1) <= .3"])  # selected on these rows
