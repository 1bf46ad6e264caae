"""Mistakes of new users are understood, or the message explains them."""

import itertools
import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import OURS, noisy
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost import metrics, published, rates
from tailboost.boosting.players.hedge import Hedge
from tailboost.guarantees.certificates import certify
from tailboost.learners.named import named_learner

X, Y = noisy(0)
SEX = np.where(np.arange(len(Y)) % 3, "f", "m")


@pytest.mark.parametrize("cls", [*OURS.values(), tb.RobustMixtureClassifier])
def test_what_is_beside_y_is_named(cls):
    """A positional third argument may be groups, and codes of groups look like weights."""
    with pytest.raises(TypeError, match="positional arguments"):
        cls().fit(X, Y, np.where(SEX == "f", 1, 2))


@pytest.mark.parametrize(
    "weight", [np.full(len(Y), "1"), list("1" * len(Y)), np.ones(len(Y)) + 1j, [b"1"] * len(Y), SEX]
)
def test_weights_are_numbers(weight):
    with pytest.raises(ValueError, match="sample_weight must be numbers"):
        tb.WorstClassBoostClassifier().fit(X, Y, sample_weight=weight)
    with pytest.raises(ValueError, match="sample_weight must be numbers"):
        metrics.class_errors(Y, Y, sample_weight=weight)


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("demographic_parity_difference(by=sex) <= .1", "gap(selected(LABEL, by=COLUMN))"),
        ("equalized_odds <= .1", "gap(miss(LABEL, by=COLUMN)) and gap(false_alarm("),
        ("equal_opportunity(by=sex) <= .1", "gap(recall(LABEL, by=COLUMN))"),
        ("disparate_impact >= .8", "ratio(selected(LABEL, by=COLUMN))"),
        ("f1 >= .4", "write f_score(LABEL)"),
        ("recall(1) >= 60 percent", "write the sign, as in 60%"),
        ("error <= .3 and miss(1) <= .2", "give a list: limits=['error <= .3', 'miss(1) <= .2']"),
        ("miss(1, by=a) <= 5%, error<=.2", "give a list: limits=['miss(1, by=a) <= 5%', 'error<=.2']"),
        ("error <= .3; miss('a, b') <= .2", "limits=['error <= .3', \"miss('a, b') <= .2\"]"),
        (
            "miss(1, by=sex/age) <= .3",
            "quote a column with other signs than letters and digits: by='sex/age'",
        ),
        ("miss(1, by=age 2) <= .3", "quote a name with several words: by='age 2'"),
        ("miss(1, by=sex, age) <= .3", "several columns are in brackets, as in by=(sex, age)"),
        (".1 <= miss(1) <= .4", "state two limits"),
    ],
)
def test_the_words_of_other_libraries_are_answered(text, cure):
    with pytest.raises(ValueError, match=re.escape(cure)):
        rates.parse(text)


def test_signs_are_read_as_they_are_printed():
    assert rates.parse("miss(1, by=sex) ≤ 40 %") == rates.parse("miss(1, by=sex) <= 40%")
    assert rates.parse("recall(f1) ≥ .6") == rates.parse("recall('f1') >= .6")


@pytest.mark.parametrize("function", [tb.tune, tb.calibrate, tb.certify])
def test_an_unknown_argument_names_one_of_the_called_function(function):
    for name, near in [("group", "groups"), ("limit", "limits")]:
        with pytest.raises(
            TypeError, match=f"^{function.__name__} has no argument '{name}'; did you mean '{near}'"
        ):
            function(None, X, Y, **{name: None})
    with pytest.raises(TypeError, match="no argument 'bygroup'; did you mean 'by_group'"):
        tb.calibrate(None, X, Y, bygroup=True)


def test_a_parameter_of_the_classifier_is_found_among_the_further_arguments():
    with pytest.raises(TypeError, match=r"no argument 'randomised'; did you mean 'randomized'"):
        tb.tune(None, X, Y, randomised=True)
    with pytest.raises(TypeError, match="adalpboost has no argument 't'; did you mean 'T'"):
        published.adalpboost("tree", alpha=0.5, t=5)
    with pytest.raises(TypeError, match=r"no argument 'T'; T = .* follows from gamma=; n_estimators="):
        published.worst_class_boost("tree", theta=0.5, T=5)


def test_arguments_in_another_form_name_their_cure():
    model = LogisticRegression().fit(X, Y)
    limit = "miss(1, by=sex) <= .4"
    with pytest.raises(ValueError, match=r"give the column itself, as in groups=X\['sex'\]"):
        tb.tune(model, X, Y, groups="sex", limits=limit)
    with pytest.raises(ValueError, match="give groups=, with an entry for each row"):
        tb.tune(model, X, Y, limits=limit)
    with pytest.raises(ValueError, match=r"give pd.DataFrame\(\{'p': scores\}\)"):
        tb.tune(tb.Scores("p", 1), X[:, 0], Y)
    scores = model.predict_proba(X)
    for column in ("p", 2, -1):
        words = f"the table is an array without a column {column!r}; its columns are 0, 1. State such"
        with pytest.raises(ValueError, match=words):
            tb.tune(tb.Scores(column, 1), scores, Y)
    with pytest.raises(ValueError, match="a row for each case and a column for each score"):
        tb.tune(tb.Scores(0, 1), scores[:, :, None], Y)
    with pytest.raises(ValueError, match="scores must be numbers, got the type complex128"):
        tb.tune(tb.Scores(0, 1), scores + 0j, Y)
    rule = tb.tune(tb.Scores(0, 1), scores[:, 1:], Y, limits="miss(1) <= .4")
    with pytest.raises(
        ValueError, match=f"^X is one column of {len(X)} values, .*2D array, as by np.reshape"
    ):
        rule.predict(scores[:, 1])
    with pytest.raises(ValueError, match=f"^y_cal has {len(X)} rows, X_cal has {len(X) - 1}$"):
        tb.calibrate(rule, scores[1:, 1:], Y)
    with pytest.raises(ValueError, match="by_group='sex': groups have no name; state by_group=True"):
        tb.tune(model, X, Y, groups=X[:, 0] > 0, by_group="sex", limits="miss(1) <= .4")
    with pytest.raises(
        ValueError, match=r"map y to \[0, 1\] as in the model's training, as by y.map\(\{1: …\}\)"
    ):
        tb.tune(model, X, Y + 1, limits="miss(1) <= .4")
    with pytest.raises(TypeError, match=r"tailboost.tune\(model, X, y, limits=…\) keeps limits"):
        tb.CVaRBoostClassifier(limits=limit)
    stated = certify(model, X, Y, groups={"sex": SEX}, limits=limit)
    assert stated.to_dict() == certify(model, X, Y, groups={"sex": SEX}, rates=limit).to_dict()
    with pytest.raises(ValueError, match="request them in separate calls"):
        certify(model, X, Y, limits="error <= .4", max_error=0.3)


def test_groups_may_be_named_as_columns_of_the_table():
    """Also a word as long as the table is no column of its letters."""
    pd = pytest.importorskip("pandas")
    model = LogisticRegression().fit(X, Y)
    table = pd.DataFrame({"p": model.predict_proba(X)[:, 1], "sex": SEX, "age": SEX[::-1]})
    scores, limits = tb.Scores("p", 1), ["miss(1, by=sex) <= .9"]
    given = {"limits": limits, "by_group": "sex"}
    by_frame = tb.tune(scores, table, Y, groups=table[["sex"]], **given)
    by_name = tb.tune(scores, table, Y, groups="sex", **given)
    assert str(by_name.rule_) == str(by_frame.rule_)
    assert str(tb.tune(scores, table, Y, groups=["sex", "age"], **given).rule_) == str(by_frame.rule_)
    answers = by_frame.predict(table, groups=table[["sex"]])
    assert (by_name.predict(table, groups="sex") == answers).all()
    assert tb.calibrate(scores, table, Y, groups="sex", limits=limits).certificate_.certified
    for call in (tb.tune, tb.calibrate, certify):
        with pytest.raises(ValueError, match=r"X has no column of this name; did you mean 'sex'\?"):
            call(scores if call is not certify else by_name, table, Y, groups="sx", limits=limits)
        with pytest.raises(ValueError, match=r"give the column itself, as in groups=X\['sex'\]"):
            call(model, X, Y, groups="sex", limits=limits)


def test_a_quantity_is_no_class():
    quantity = X[:, 0] * 3
    model = LogisticRegression().fit(X, Y)
    words = r"y has \d+ different values, such as (\S+, ){2}\S+; a classifier needs classes, as in y > thr"
    for call in (
        lambda: tb.tune(model, X, quantity, limits=["miss(1) <= .4"]),
        lambda: tb.calibrate(model, X, quantity, limits=["miss(1) <= .4"]),
        lambda: certify(model, X, quantity, limits=["miss(1) <= .4"]),
        lambda: tb.tune(model, X, np.arange(len(X)), limits=["miss(1) <= .4"]),
        lambda: tb.tune(tb.Scores(0, 1), X, quantity),
        lambda: tb.WorstClassBoostClassifier().fit(X, quantity),
    ):
        with pytest.raises(ValueError, match=words) as caught:
            call()
        assert len(str(caught.value)) < 200


def test_labels_of_another_kind_are_mapped():
    model = LogisticRegression().fit(X, Y)
    monitor = tb.Monitor.against(model, limits=["miss(1) <= .4"])
    for labels, cure in (
        (
            np.where(Y == 1, "yes", "no"),
            "y holds text, classes_ of the model numbers: ['no', 'yes'] and [0, 1]; map y by the meaning "
            "of each label, as in pd.Series(y).map({'no': …})",
        ),
        (Y.astype(str), "map the labels, as in pd.Series(y).map({'0': 0, '1': 1})"),
    ):
        with pytest.raises(ValueError, match=re.escape(cure)):
            monitor.add(X, labels)
        with pytest.raises(ValueError, match=re.escape(cure)):
            certify(model, X, labels)
    with pytest.raises(ValueError, match=r"\['a', 'b', 'c'\] and \[0, 1\]; map y by the meaning"):
        certify(model, X, np.resize(["a", "b", "c"], len(Y)))


def test_labels_are_not_paired_by_their_order():
    """The sorted pairing of 0/1 with 'ja'/'nein' reverses the labels of a y that marks 'ja' with 1."""
    answers = np.where(Y == 1, "ja", "nein")
    model = LogisticRegression().fit(X, answers)
    with pytest.raises(ValueError, match=r"\[0, 1\] and \['ja', 'nein'\]; map y by the meaning") as caught:
        tb.calibrate(model, X, (answers == "ja").astype(int), limits=["miss(1) <= 40%"])
    assert "map [0, 1] to" not in str(caught.value)


def test_texts_need_a_table_and_a_model_of_its_column():
    """A vectorizer would read the names of the columns in place of the rows."""
    pd = pytest.importorskip("pandas")
    texts = [" ".join(["good" if label else "bad", *"abc"[: i % 4]]) for i, label in enumerate(Y)]
    model = make_pipeline(CountVectorizer(), LogisticRegression()).fit(texts, Y)
    limits = ["miss(1) <= .4"]
    forms = [texts, pd.Series(texts), np.array(texts), np.array(texts, dtype=object)]
    for form in forms:
        for call in (tb.tune, tb.calibrate, certify):
            with pytest.raises(ValueError, match=r"X = pd.DataFrame\(\{'text': texts\}\) and, as the model"):
                call(model, form, Y, limits=limits)
    table = pd.DataFrame({"text": texts})
    for call in (tb.tune, certify):
        with pytest.raises(
            ValueError, match=r"has 1 row, .* lambda table: model.predict_proba\(table\['text"
        ):
            call(model, table, Y, limits=limits)
    rule = tb.tune(lambda table: model.predict_proba(table["text"]), table, Y, limits=limits)
    assert (rule.predict(table) == model.predict(texts)).mean() > 0.9


def test_columns_of_a_given_model_are_named():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    model = LogisticRegression().fit(table, Y)
    for rows, words in (
        (table.rename(columns={"x0": "X0"}), r"no column 'x0', .*; did you mean 'X0'\? X has 'X0', 'x1'"),
        (table.assign(more=1), r"was not fitted on, 'more': give X\[model.feature_names_in_\]"),
        (table[table.columns[::-1]], r"in another order: give X\[model.feature_names_in_\]"),
    ):
        for call in (tb.tune, certify):
            with pytest.raises(ValueError, match=words):
                call(model, rows, Y, limits=["miss(1) <= .4"])


def test_the_column_that_a_rule_may_read_is_a_limited_one():
    groups = {"age": SEX[::-1], "sex": SEX}
    model = LogisticRegression().fit(X, Y)
    with pytest.raises(ValueError, match=r"give by_group='sex'$"):
        tb.tune(model, X, Y, groups=groups, by_group=True, limits=["miss(1, by=sex) <= .4"])
    with pytest.raises(ValueError, match=r"give by_group='age' or by_group='sex'$"):
        tb.tune(model, X, Y, groups=groups, by_group=True, limits=["miss(1) <= .4"])


def test_a_group_that_is_written_otherwise_is_named():
    model = LogisticRegression().fit(X, Y)
    rule = tb.tune(model, X, Y, groups={"sex": SEX}, limits="miss(1, by=sex) <= .9")
    fresh, labels = noisy(1)
    other = {"sex": np.where(SEX == "f", "F", "m")}
    with pytest.raises(
        tb.exceptions.NotCertifiedError, match=r"f .* has no rows \(did you mean 'F'\?\). To go on, "
    ):
        tb.calibrate(rule, fresh, labels, groups=other)


def test_a_first_call_of_tune_is_understood():
    """Each message names the wrong part of the call, and the labels or columns of the rows."""
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    text = np.where(Y == 1, ">50K", "<=50K")
    model = GaussianNB().fit(table[:100], text[:100])
    for swapped in ((pd.Series(text), table), (text, X)):
        with pytest.raises(ValueError, match="are X and y swapped"):
            tb.tune(model, *swapped)
        with pytest.raises(ValueError, match="are X and y swapped"):
            tb.RobustMixtureClassifier([("bayes", GaussianNB())]).fit(*swapped)
    with pytest.raises(ValueError, match=r"'yes'.* y has the labels \['<=50K', '>50K'\].* no column 'p'"):
        tb.tune(tb.Scores("p", "yes"), table, text)
    with pytest.raises(ValueError, match=r"\[0, 1\] and \['<=50K', '>50K'\]; map y by the meaning"):
        tb.tune(model, table, Y)
    with pytest.raises(
        TypeError, match=r"tune: limits must be a list, such as limits=\['miss\(1\) <= 40%'\]"
    ):
        tb.tune(model, table, text, limits={"miss": 0.4})


@pytest.mark.parametrize(
    ("limit", "meant"),
    [
        (rates.miss(1) >= 0.05, "miss(1) <= 0.05 or recall(1) >= 0.05"),
        (rates.recall(1) <= 0.95, "recall(1) >= 0.95 or miss(1) <= 0.95"),
        (rates.precision(1) <= 0.9, "precision(1) >= 0.9"),
        (rates.error(by="class") >= 0.01, "error(by='class') <= 0.01"),
        (rates.miss(1) <= 0.9, ""),
        (rates.recall(1) >= 0.1, ""),
        (rates.selected(1) >= 0.1, ""),
        (rates.selected(1) <= 0.9, ""),
        (rates.gap(rates.error(by="class")) <= 0.9, ""),
    ],
)
def test_a_limit_in_favour_of_errors_is_refused_alike_everywhere(limit, meant):
    """A rule with more errors keeps such a limit more easily. A refused call uses up no row."""
    rule = tb.tune(GaussianNB().fit(X[::2], Y[::2]), X[::2], Y[::2], limits=["miss(1) <= 90%"])
    words = re.escape(f"limit {limit!r} asks for more errors, not for fewer; write {meant}")
    if not meant:
        tb.tune(rule, X[1::2], Y[1::2], limits=[limit])
        return
    for function in (tb.tune, tb.calibrate):
        with pytest.raises(ValueError, match=f"^{words}$"):
            function(rule, X[1::2], Y[1::2], limits=[limit])
    with pytest.raises(ValueError, match=words):
        tb.RobustMixtureClassifier(limits=[limit]).fit(X, Y)
    tb.calibrate(rule, X[1::2], Y[1::2], limits=["recall(1) >= 1%"])


@pytest.mark.parametrize("limit", ["deferred >= 20%", "deferred(by=class) >= {1: 20%}"])
def test_a_lower_limit_on_deferral_is_refused_alike_everywhere(limit):
    """Deferral is no error, so the rule of the least error would defer every row."""
    rule = tb.tune(GaussianNB().fit(X[::2], Y[::2]), X[::2], Y[::2], limits=["miss(1) <= 90%"])
    words = (
        r"^limit deferred\(.*\) >= .* asks for more deferred rows, not for fewer; write deferred\(.*\) <= "
    )
    for function in (tb.tune, tb.calibrate):
        with pytest.raises(ValueError, match=words):
            function(rule, X[1::2], Y[1::2], limits=[limit])
    with pytest.raises(ValueError, match=words):
        tb.RobustMixtureClassifier(limits=[limit]).fit(X, Y)


def test_levels_are_numbers():
    for given in ({"confidence": ".95"}, {"max_error": ".3"}):
        with pytest.raises(ValueError, match=f"{next(iter(given))} must be a number"):
            certify(Y, None, Y, **given)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: tb.WorstClassBoostClassifier(objective="cell"),
            "no argument 'objective'; here it is subgroups=",
        ),
        (
            lambda: tb.RobustMixtureClassifier(subgroups="cell"),
            "no argument 'subgroups'; here it is objective=",
        ),
        (lambda: tb.RobustMixtureClassifier(max_eror=0.1), r"'max_eror'; did you mean 'max_error'"),
        (
            lambda: tb.AdaBoostClassifier(xyz=None),
            "Classifier has no argument 'xyz'; arguments are estimator, ",
        ),
    ],
)
def test_constructors_name_what_they_have(make, words):
    with pytest.raises(TypeError, match=words):
        make()


def test_a_budget_is_no_table():
    with pytest.raises(ValueError, match=r"reweight\(0\.02\): .* error_budget=0\.02"):
        tb.WorstClassBoostClassifier(n_estimators=1).fit(X, Y).reweight(0.02)
    mix = tb.RobustMixtureClassifier([("b", GaussianNB())]).fit(X, Y)
    with pytest.raises(ValueError, match=r"error_budget=0\.02"):
        mix.reweight(0.02)


def test_a_mixture_takes_a_dict():
    named = {"bayes": GaussianNB(), "line": LogisticRegression()}
    mixes = [
        tb.RobustMixtureClassifier(named, random_state=0),
        tb.RobustMixtureClassifier(list(named.items()), random_state=0),
        tb.RobustMixtureClassifier(random_state=0).set_params(estimators=named),
    ]
    assert all(mix.get_params()["bayes__var_smoothing"] == 1e-9 for mix in mixes)
    said = [clone(mix).fit(X, Y).predict(X).tolist() for mix in mixes]
    assert said[0] == said[1] == said[2]


def test_groups_of_metrics_are_those_of_fit():
    pd = pytest.importorskip("pandas")
    answers, old = 1 - Y, np.arange(len(Y)) % 2
    by_sex = metrics.group_errors(Y, answers, SEX)
    for table in (pd.DataFrame({"sex": SEX, "old": old}), {"sex": SEX, "old": old}):
        found = metrics.group_errors(Y, answers, table)
        assert found == {("sex", g): e for g, e in by_sex.items()} | {("old", 0): 1.0, ("old", 1): 1.0}
    for one in (pd.Series(SEX), pd.Categorical(SEX), SEX[:, None]):
        assert metrics.group_errors(Y, answers, one) == by_sex
    with pytest.raises(ValueError, match="groups column 'old' has 3 rows"):
        metrics.group_errors(Y, answers, {"sex": SEX, "old": old[:3]})


@pytest.mark.parametrize(("name", "package"), [("lightgbm", "lightgbm"), ("catboost", "catboost")])
def test_names_of_other_projects(name, package):
    try:
        __import__(package)
    except ImportError:
        with pytest.raises(ImportError, match=f"'{name}' needs .*: pip install {package}"):
            named_learner(name)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = tb.AdaBoostClassifier(name, n_estimators=2).fit(X, Y)
    assert set(clf.predict(X)) <= set(Y)


def test_a_comparison_is_of_methods():
    pytest.importorskip("pandas")
    from tailboost.app.report import compare

    with pytest.raises(TypeError, match=r"methods must hold names or Method objects, got GaussianNB\(\)"):
        compare(X, Y, methods=[GaussianNB()])


def test_a_learner_that_is_none_is_said_once():
    class Duck:
        def fit(self, X, y):
            return self

        def predict(self, X):
            return np.zeros(len(X), dtype=int)

    with pytest.raises(
        TypeError, match=r"^estimator=.* is no estimator of scikit-learn: let its class inherit"
    ):
        tb.WorstClassBoostClassifier(Duck()).fit(X, Y)


def test_a_measure_is_named_where_it_is():
    with pytest.raises(AttributeError, match=r"it is tailboost\.metrics\.worst_class_error"):
        tb.worst_class_error  # noqa: B018


LINE = LogisticRegression().fit(X, Y)


@pytest.mark.parametrize(
    ("model", "error", "says"),
    [
        (
            RandomForestRegressor(2).fit(X, Y),
            TypeError,
            r"is a regressor; a classifier",
        ),
        (RandomForestRegressor(2), TypeError, "is a regressor"),
        (RandomForestClassifier, TypeError, r"is a class; give an instance: RandomForestClassifier\(\)"),
        (RandomForestClassifier(), ValueError, "is not fitted: call fit of the RandomForestClassifier first"),
        (LinearSVC().fit(X, Y), ValueError, "'LinearSVC' has no predict_proba"),
    ],
)
def test_models_to_tune_are_fitted_classifiers(model, error, says):
    with pytest.raises(error, match=says) as caught:
        tb.tune(model, X, Y)
    assert "frozen" not in str(caught.value).lower()
    assert "ABCMeta" not in str(caught.value)


@pytest.mark.parametrize(
    ("limits", "error", "says"),
    [
        ([rates.miss(1) == 0.4], TypeError, "False is no limit: compare a rate by <= or >="),
        ([rates.miss(1)], TypeError, r"is no limit; write for example"),
        (["miss(1)"], TypeError, r"is no limit; write for example"),
        ("error", TypeError, "'error' is no limit"),
        (0.4, (TypeError, ValueError), r"limits.* must be"),
        ({"miss(1)": 0.4}, (TypeError, ValueError), r"limits.* must be"),
        ([rates.miss("1") <= 0.4], ValueError, "no class is called '1': write the number 1; there are"),
        (["miss('0') <= 40%"], ValueError, "write the number 0"),
        (["miss(7) <= 40%"], ValueError, r"^miss\(7\): no class is called 7"),
        (["review <= 20%"], ValueError, "write deferred, as in 'deferred <= 20%'"),
        (
            [rates.error(by="class") <= {"1": 0.4}],
            ValueError,
            "no subgroup is called '1': write the number 1",
        ),
        (["miss(1) < 40%"], ValueError, r"'miss\(1\) < 40%': write miss\(1\) <= 40%"),
        (["largest(error) < 1"], ValueError, r"a limit includes its bound; write <="),
        (["miss(1) > 40%"], ValueError, r"write miss\(1\) >= 40%"),
        (
            ["sensitivity >= 80% at each site"],
            ValueError,
            r"write sensitivity\(1, by=site\) >= 80%, with your label in place of 1",
        ),
        (["precision by group >= .9"], ValueError, r"write precision\(1, by=group\) >= .9, with"),
        (["error by=sex <= 20%"], ValueError, r"write error\(by=sex\) <= 20%$"),
        (["miss(1) == 40%"], ValueError, r"write <= or >="),
        (["miss(1) <= 1"], ValueError, r"at '1', character 12: every rule has .* write 1% for one percent"),
        (["error(by=class) <= {0: .3, 0: .9}"], ValueError, "'0', character 28: this name is repeated"),
    ],
)
def test_what_is_no_limit(limits, error, says):
    for ask in (
        lambda: tb.tune(LINE, X, Y, limits=limits),
        lambda: tb.RobustMixtureClassifier([("b", GaussianNB())], limits=limits).fit(X, Y),
        lambda: MIX.reweight(limits=limits),
    ):
        with pytest.raises(error, match=says):
            ask()


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    MIX = tb.tune(LINE, X, Y, limits=[rates.miss(1) <= 0.4])


def test_limits_are_taken_as_text():
    want = MIX.rates_.to_dict()
    percent = tb.tune(LINE, X, Y, limits=["miss(1) <= 40%"]).rates_
    assert [line.value for line in percent] == [line["value"] for line in want["lines"]]
    for limits in (["miss(1) <= 0.40"], "miss(1) <= .4", ("miss(1) <= .4",)):
        assert tb.tune(LINE, X, Y, limits=limits).rates_.to_dict() == want
        assert tb.tune(LINE, X, Y, limits=[rates.miss(1) <= 0.3]).reweight(limits=limits).limits_met_
        made = tb.RobustMixtureClassifier([("b", GaussianNB())], limits=limits, random_state=0)
        assert clone(made).fit(X, Y).rates_.lines[1].limit == MIX.rates_.lines[1].limit
    monitor = tb.Monitor.against(MIX, limits="miss(1) <= .4")
    assert monitor.certificate == tb.Monitor.against(MIX, limits=[rates.miss(1) <= 0.4]).certificate
    assert rates.parse("cost([[0, 1], [5, 0]]) <= 1").bound == 1.0  # of costs 1 is as good as any number


def test_bounds_that_are_no_shares():
    with pytest.raises(ValueError, match=r"between 0 and 1, got 1\.0000001"):
        rates.miss(1) <= 1.0000001  # noqa: B015
    with pytest.raises(ValueError, match=r"got 40; write 0.4 for 40 %"):
        rates.miss(1) <= 40  # noqa: B015
    for ask in (lambda: rates.miss(1) < 0.4, lambda: rates.gap(rates.miss(1, by="sex")) < 0.4):
        with pytest.raises(TypeError, match=r"a limit includes its bound: write .* <= 0.4"):
            ask()
    with pytest.raises(TypeError, match=r">= 0.4"):
        rates.precision(1) > 0.4  # noqa: B015


def test_costs_by_row_are_no_matrix():
    with pytest.raises(ValueError, match=r"Write cost\(\), and pass costs="):
        rates.cost(np.ones((5, 2, 2)))


def test_missing_labels_are_no_names():
    with pytest.raises(
        ValueError,
        match=r"1 of .* missing \(row 0, counted from 0\); drop their rows or give them a value",
    ):
        tb.tune(LINE, X, np.r_[np.nan, Y[1:]])


def test_few_rows_are_said_of_all_or_of_a_unit():
    few = np.r_[np.flatnonzero(Y == 0)[:60], np.flatnonzero(Y == 1)[:6]]
    with pytest.warns(UserWarning, match=r"miss rate of 1") as caught:
        tb.tune(LINE, X[few], Y[few], limits=[rates.miss(1) <= 0.5])
    assert not any("of None" in str(w.message) for w in caught)
    assert any("fewer than 10 for miss rate of 1 (6 rows)" in str(w.message) for w in caught)
    assert not [w for w in caught if w.category is RuntimeWarning]


@pytest.mark.filterwarnings("ignore")
def test_a_column_has_its_name():
    pd = pytest.importorskip("pandas")
    limits = [rates.error(by="sex") <= 0.6]
    named, half = pd.Series(SEX, name="sex"), slice(0, len(Y) // 2)
    want = tb.tune(LINE, X[half], Y[half], groups={"sex": SEX[half]}, limits=limits)
    found = tb.tune(LINE, X[half], Y[half], groups=named[half], limits=limits)
    assert found.rates_.to_dict()["lines"] == want.rates_.to_dict()["lines"]
    assert found.groups_.tolist() == ["f", "m"]
    rest = slice(len(Y) // 2, None)
    given = {"groups": named[rest], "rates": limits}
    assert {b.subgroup for b in tb.certify(found, X[rest], Y[rest], **given).bounds} == {"f", "m"}
    assert rates.measure(rates.error(by="sex"), Y, Y, groups=named) == {"f": 0.0, "m": 0.0}
    errors = tb.certify(Y, None, Y, groups=named)
    assert {b.subgroup for b in errors.bounds if b.kind == "group"} == {"f", "m"}
    with pytest.raises(ValueError, match="no column of groups has this name"):
        tb.tune(LINE, X, Y, groups=pd.Series(SEX, name="age"), limits=limits)
    with pytest.raises(ValueError, match="groups have no name"):
        tb.tune(LINE, X, Y, groups=SEX, limits=limits)


def test_a_pickle_is_no_model_file(tmp_path):
    import pickle

    (tmp_path / "m.model").write_bytes(pickle.dumps(LINE))
    with pytest.raises(ValueError, match=r"but a pickle, which runs code .* save_model"):
        tb.load_model(tmp_path / "m.model")


def test_labels_are_shown_as_plain_values():
    """NumPy's numbers are labels as Python's are, and messages show them so."""
    one, scores = np.int64(1), X[:, :1]
    with pytest.raises(ValueError, match=r"^Scores\(0, 1, kind='number'\): y has the label 1 only; "):
        tb.Scores(0, one, kind="number").fit(scores, np.ones(len(X), dtype=np.int64))
    assert repr(tb.Scores([0, 1], [np.int64(0), one])) == "Scores([0, 1], [0, 1], kind='probability')"
    boosted = tb.WorstClassBoostClassifier(n_estimators=2, max_error={np.int64(5): 0.3})
    with pytest.raises(ValueError, match=r"^max_error=\{5: 0.3\}: no class is called 5; there are \[0, 1"):
        boosted.fit(X, Y)
    weighted = tb.AdaBoostClassifier(n_estimators=2, class_weight={np.int64(5): 1.0})
    with pytest.raises(
        ValueError, match=r"^class_weight=\{5: 1.0\}: y has no class 5, its classes are \[0, 1"
    ):
        weighted.fit(X, Y)


def test_allowed_texts_are_listed_in_one_order():
    # Sets of text have another order in each process.
    with pytest.raises(
        ValueError,
        match=r"\{'error', 'worst_class', 'worst_group', 'worst_cell', 'deferred', 'cvar'\}.*Got 'wurst'",
    ):
        tb.RobustMixtureClassifier(objective="wurst").fit(np.zeros((4, 1)), [0, 1, 0, 1])
    classes, unordered = [BaseEstimator], []
    while classes:
        cls = classes.pop()
        classes += cls.__subclasses__()
        if cls.__module__.startswith("tailboost."):
            allowed = itertools.chain(*getattr(cls, "_parameter_constraints", {}).values())
            unordered += [
                str(one) for one in allowed if isinstance(getattr(one, "options", ()), (set, frozenset))
            ]
    assert not unordered


@pytest.mark.parametrize(
    ("call", "cure"),
    [
        (lambda rule: tb.tune(rule, X, Y, limits=0.4), "limits=['miss(1) <= 40%']"),
        (lambda rule: tb.calibrate(rule, X, Y, limits={"miss": 0.4}), "limits=['miss(1) <= 40%']"),
        (lambda rule: tb.rows_needed(0.1, 200), "limits=['miss(1) <= 40%']"),
        (lambda rule: tb.Monitor(rule), "Monitor.against(rule, limits=[…])"),
        (lambda rule: rule.reweight("miss(1) <= .3"), "give a limit as limits=['miss(1) <= .3']"),
        (lambda rule: certify(tb.Scores(0, 1), X, Y, limits=["miss(1) <= .4"]), "give the rule of tune"),
        (lambda rule: certify(rule, *noisy(1), max_error="30%"), "must be a number, got '30%'; write 0.3"),
        (lambda rule: certify(rule, *noisy(1), confidence=95), "write 0.95 for 95 %"),
        (
            lambda rule: tb.calibrate(rule, X, Y, by_group=True),
            "leave them out, or give the model or the scores",
        ),
        (lambda rule: tb.tune(rule, X, Y, limits=["miss(y) <= .4"]), "[0, 1]; a rate names a label, not the"),
        (lambda rule: tb.tune(rule, X, Y, alpha=0.05), "error probability of certificates is 1 - confidence"),
    ],
)
def test_first_mistakes_name_their_cure(call, cure):
    rule = tb.tune(GaussianNB().fit(X[::2], Y[::2]), X[1::2], Y[1::2], limits=["miss(1) <= .9"])
    with pytest.raises((TypeError, ValueError), match=re.escape(cure)):
        call(rule)


def test_limits_of_one_call_are_written_alike():
    """In percent if one is; costs are no fractions."""
    limits = rates.checked_limits(["miss(1) <= 40%", "error <= .25", "cost([[0, 1], [5, 0]]) <= .5"])
    assert [str(limit).rpartition(": ")[2] for limit in limits] == [
        "at most 40 %",
        "at most 25 %",
        "at most 0.5",
    ]
    assert "25%" not in rates.checked_limits(["error <= .25"])[0].text


def test_a_trade_off_takes_rates_as_text():
    rule = tb.tune(GaussianNB().fit(X[::2], Y[::2]), X[1::2], Y[1::2], limits=["miss(1) <= .9"])
    assert str(rule.tradeoff("miss(1)")) == str(rule.tradeoff(rates.miss(1)))


def test_code_of_a_rule_names_the_score_outside_the_range_and_the_range():
    p = np.linspace(0.01, 0.99, 200)
    rule = tb.tune(tb.Scores("p", 1), pd.DataFrame({"p": p}), (p > 0.4).astype(int)).rule_
    names = {}
    exec(rule.to_python(), names)
    with pytest.raises(ValueError, match=r"^the score 45\.0 is outside the range of probabilities, 0 to 1$"):
        names["decide"](45)


def test_an_empty_table_has_no_rows():
    p = np.tile(np.linspace(0.01, 0.99, 200), 2)
    g = pd.DataFrame({"g": np.repeat(["a", "b"], 200)})
    rule = tb.tune(
        tb.Scores("p", 1), pd.DataFrame({"p": p}), (p > 0.4).astype(int), groups=g, by_group=True,
        limits=["miss(1, by=g) <= .3"],
    ).rule_  # fmt: skip
    with pytest.raises(ValueError, match="no rows"):
        rule.predict(np.empty(0), groups=np.array([], dtype=object))


@pytest.mark.parametrize("likely", [0.5, 0.004])
def test_a_certificate_is_advised_only_if_the_limits_may_hold(likely):
    """By an estimate of a probability below 0.01 no certificate follows."""
    p = np.random.default_rng(0).random(400)
    y = (np.random.default_rng(1).random(400) < p).astype(int)
    rule = tb.tune(tb.Scores("p", 1), pd.DataFrame({"p": p}), y, limits=["miss(1) <= .5"])
    sentence = replace(rule.summary_, likely=likely).chances
    assert ("certify them" in sentence) == (likely == 0.5)
    assert likely == 0.5 or sentence.endswith("with a probability below 0.01 (estimate).")


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: tb.tune(lambda table: np.full(len(table), "yes"), X, Y), TypeError, "its predict_proba"),
        (
            lambda: rates.measure([rates.error()], Y, Y),
            TypeError,
            r"one rate, such as rates.miss\(1\)",
        ),
        (lambda: certify(Y, None, None), ValueError, "y is needed, the labels of the rows"),
        (lambda: tb.calibrate(LINE, X, Y, ["miss(1) <= 40%"]), TypeError, r"limits by their name, limits=\["),
    ],
)
def test_a_mistake_in_the_place_of_an_argument_names_it_and_the_cure(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_only_shares_are_said_in_percent():
    for ask in (
        lambda: published.vadaboost("stump", lambda_=5),
        lambda: tb.VadaBoostClassifier("stump", learning_rate=5).fit(X, Y),
    ):
        with pytest.raises(ValueError, match="5") as refused:
            ask()
        assert "%" not in str(refused.value)
    for ask in (
        lambda: published.lpboost("stump", alpha=5),
        lambda: published.worst_class_boost("stump", theta=5, gamma=0.1),
        lambda: tb.LPBoostClassifier("stump", alpha=5).fit(X, Y),
        lambda: tb.RobustMixtureClassifier(error_budget=5).fit(X, Y),
    ):
        with pytest.raises(ValueError, match=r"rite 0\.05 for 5 %"):
            ask()


@pytest.mark.parametrize("learner", ["stump", DecisionTreeClassifier(max_depth=1)])
def test_a_learner_of_numbers_names_the_column_of_text(learner):
    table = pd.DataFrame({"age": X[:, 0], "sex": np.where(Y, "Female", "Male")})
    for boost in (
        published.lpboost(learner, alpha=0.3, T=5),
        published.vadaboost(learner, lambda_=0.5, T=5),
        published.ebboost(1.0, T=5),
    ):
        with pytest.raises(
            ValueError,
            match="ale' in column 'sex': encode it, as with OneHotEncoder",
        ):
            boost.fit(table, Y)
        boost.fit(table[["age"]], Y)
    published.lpboost("tree", alpha=0.3, T=5, random_state=0).fit(table, Y)


@pytest.mark.parametrize("call", [
    lambda: published.worst_class_boost("stump", theta=1.5, gamma=0.1),
    lambda: tb.AdaLPBoostClassifier(alpha=1.5).fit(X, Y),
])  # fmt: skip
def test_a_number_just_above_1_is_not_taken_for_a_percentage(call):
    with pytest.raises(ValueError, match=r"1\.5") as refused:
        call()
    assert "rite 0.015" not in str(refused.value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: published.worst_class_boost("stump", theta=75, gamma=0.1),
            "theta, the accuracy that each class needs, must be in [0, 1), got 75; write 0.75 for 75 %",
        ),
        (
            lambda: tb.WorstClassBoostClassifier(gamma=0.6).fit(X, Y),
            "in the range (0.0, 0.5]",
        ),
        (
            lambda: tb.CVaRBoostClassifier(player=Hedge(1.0)).fit(X, Y),
            "The Player of a game is what the method player(clf, units) of a RowPlayer returns",
        ),
        (
            lambda: tb.Monitor.against(GaussianNB().fit(X, Y), limits=["error <= .9"]).add(
                tb.AdaLPBoostClassifier(), X, Y
            ),
            "the first argument is the rule, got an AdaLPBoostClassifier",
        ),
        (
            lambda: tb.tune(
                GaussianNB().fit(X, Y), X, Y, objective="error", limits=["miss(1, by=group) <= .9"]
            ),
            "miss(1, by='group') needs groups: give groups=",
        ),
        (
            lambda: tb.tune(GaussianNB().fit(X, Y), X, Y, objective="error").rule_.to_sql("p", table=""),
            "the name of a table or column in SQL is empty",
        ),
        (
            lambda: tb.RandomizedDecision(GaussianNB(), "a text of sixteen letters", "loans"),
            "secret must be bytes, got str; secrets.token_bytes(32) makes a good one",
        ),
        (
            lambda: tb.calibrate(GaussianNB().fit(X, Y), X, Y, limits=["miss(1) <= .9"], clusters="person"),
            "clusters='person': give the column itself, as in clusters=table['person']",
        ),
        (
            lambda: tb.Monitor.against(GaussianNB().fit(X, Y), limits=["error <= .9"]).add(
                X, Y, clusters="person"
            ),
            "clusters='person': give the column itself, as in clusters=table['person']",
        ),
        (lambda: tb.CVaRBoostClassifier(alpha="12.5 %").fit(X, Y), "Got '12.5 %' instead. Write 0.125"),
        (
            lambda: tb.tune(
                tb.Scores("p", 1, kind="number"), pd.DataFrame({"p": X[:, 0]}), Y, limits=["miss(1) <= .9"]
            ).predict(0.3),
            "X is one value, where a table is needed: give pd.DataFrame({'p': [X]})",
        ),
        (
            lambda: tb.WorstClassBoostClassifier(gamma=0.6).fit(X, Y),
            "The weighted error of a base model may be at most ½ − gamma",
        ),
        (
            lambda: tb.tune(
                GaussianNB().fit(X[::2], Y[::2]), X[1::2], Y[1::2], limits=["miss(1) <= .9"]
            ).reweight(alpha=0.3),
            "alpha= states, takes no limits on rates: give limits=[] with it",
        ),
        (
            lambda: tb.CVaRBoostClassifier(n_estimators=3).fit(X, Y).reweight(limits=["miss(1) <= .9"]),
            "give a rate as the objective too, such as objective='error'",
        ),
    ],
)
def test_a_refused_parameter_has_its_range_and_a_cure(call, words):
    with pytest.raises((ValueError, TypeError), match=re.escape(words)):
        call()


def test_all_unknown_labels_and_columns_of_limits_are_in_one_message():
    model = GaussianNB().fit(X[::2], Y[::2])
    rule = tb.tune(model, X[1::2], Y[1::2], limits=["miss(1) <= .9"])
    limits = ["miss(7) <= .9", "false_alarm(8) <= .9"]
    for ask in (
        lambda: tb.tune(model, X[1::2], Y[1::2], limits=limits),
        lambda: tb.calibrate(model, X[1::2], Y[1::2], limits=limits),
        lambda: certify(rule, X[::2], Y[::2], limits=limits),
        lambda: tb.Monitor.against(rule, limits=limits),
    ):
        with pytest.raises(ValueError, match=r"no class is called 7: .*\. .*no class is called 8: "):
            ask()
    groups = pd.DataFrame({"sex": SEX})
    for limits, words in (
        (["miss(1, by=sxe) <= .9", "error(by=land) <= .9"], "by='sxe'.*did you mean 'sex'.*by='land'"),
        (["miss(1, by=sex) <= {x: .9}", "error(by=sex) <= {z: .9}"], "called 'x'.*called 'z'"),
    ):
        with pytest.raises(ValueError, match=words):
            tb.tune(model, X[1::2], Y[1::2], groups=groups[1::2], limits=limits)


def test_columns_that_the_fit_did_not_have_are_named_with_a_cure_that_works():
    table = pd.DataFrame(X, columns=[f"c{k}" for k in range(X.shape[1])])
    model = GaussianNB().fit(table[::2], Y[::2])
    clf = tb.tune(model, table[1::2], Y[1::2], limits=["miss(1) <= .9"])
    wide = table.assign(age=1, sex="f")[["sex", *table.columns[::-1], "age"]]
    words = "fit did not have, 'sex', 'age': drop them, as by X[classifier.feature_names_in_]"
    with pytest.raises(ValueError, match=re.escape(words)):
        clf.predict(wide)
    assert (clf.predict(wide[clf.feature_names_in_]) == clf.predict(table)).all()


def test_the_records_of_a_fit_have_an_order_and_the_summary_says_why_it_ended():
    early = tb.CVaRBoostClassifier("stump", n_estimators=200, n_iter_no_change=2, random_state=0).fit(X, Y)
    trace = early.trace_
    assert trace[0].weighted_loss == trace.weighted_loss[0]
    assert [each.value for each in trace[-2:]] == trace.value[-2:].tolist()
    ended = f"The fit ended after {len(trace)} rounds: {trace.stop_reason}."
    assert len(trace) < 200
    assert ended in str(early.summary_).splitlines()
    assert ended in early.summary_.details.splitlines()
    played = tb.CVaRBoostClassifier("stump", n_estimators=2, random_state=0).fit(X, Y)
    assert "The fit ended" not in str(played.summary_)
    slow = tb.VadaBoostClassifier("stump", n_estimators=10, max_time=1e-9, random_state=0)
    with pytest.warns(tb.exceptions.FitInterruptedWarning):
        slow.fit(X, Y)
    assert "The fit ended after 1 round: time limit" in str(slow.summary_)


@pytest.mark.parametrize(("text", "number"), [("12.5%", 0.125), ("12,5 %", 0.125), ("7 %", 0.07)])
def test_percent_in_a_column_of_scores_has_a_cure_that_works(text, number):
    table = pd.DataFrame({"p": [text, "50 %"] * 10})
    with pytest.raises(ValueError, match=r"'p'.*got the text") as refused:
        tb.tune(tb.Scores("p", 1), table, [0, 1] * 10)
    code = re.search(r"as by (column.*)", str(refused.value))[1]
    assert eval(code, {"column": table["p"]}).iloc[0] == pytest.approx(number)


def test_arguments_by_position_or_twice_have_a_short_call():
    model = GaussianNB().fit(X, Y)
    with pytest.raises(TypeError, match=r"the call is certify\(model, X, y, \*, …\)$"):
        tb.certify(model, X, Y, ["miss(1) <= 40%"])
    for call in (tb.tune, tb.calibrate):
        with pytest.raises(TypeError, match=r"'estimators'; models and scores are its first arg"):
            call(model, X, Y, limits=["miss(1) <= 40%"], estimators=3)
