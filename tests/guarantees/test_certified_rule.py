"""A certificate belongs to its rule: what keeps `certificate_`, and what has none."""

import copy
import json
import os
import pickle
import signal
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb

KINDS = ["score", "two scores", "model", "models", "randomised", "by_group", "boosting"]


def drawn(seed, n):
    r = np.random.default_rng(seed)
    p = r.random(n)
    y = (r.random(n) < p).astype(int)
    X = pd.DataFrame({"p": p.round(6), "q": (1 - p).round(6), "x": r.normal(size=n)})
    return X, y, np.where(r.random(n) < 0.5, "u", "v")


SELECT, FRESH, LATER = drawn(1, 800), drawn(2, 1500), drawn(3, 2000)
ESTIMATORS = {
    "score": lambda: tb.Scores("p", 1),
    "two scores": lambda: tb.Scores(["q", "p"], [0, 1]),
    "model": lambda: LogisticRegression().fit(*drawn(0, 300)[:2]),
    "models": lambda: [
        LogisticRegression().fit(*drawn(0, 300)[:2]),
        DecisionTreeClassifier(max_depth=3).fit(*drawn(4, 300)[:2]),
    ],
}


def made(kind):
    """Return a selected classifier, and the certified one."""
    X, y, groups = SELECT
    if kind == "boosting":
        clf = tb.WorstClassBoostClassifier("tree", n_estimators=4, random_state=0).fit(X[["p", "x"]], y)
        return clf, tb.calibrate(clf, FRESH[0][["p", "x"]], FRESH[1], max_error=0.4)
    by_group = kind == "by_group"
    limits = ["miss(1, by=group) <= .3" if by_group else "miss(1) <= .3"]
    clf = tb.tune(
        ESTIMATORS.get(kind, ESTIMATORS["score"])(),
        *(X, y),
        groups=groups if by_group else None,
        limits=limits,
        by_group=by_group,
        randomized=kind == "randomised",
    )
    return clf, tb.calibrate(clf, FRESH[0], FRESH[1], groups=FRESH[2] if by_group else None)


@pytest.fixture(scope="module", params=KINDS)
def pair(request):
    return made(request.param)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_there_is_none_before_and_for_every_other_rule(pair):
    clf, certified = pair
    assert clf.certificate_ is None
    assert certified.certificate_.certified
    others = [certified.reweight(max_error=0.9, objective="worst_class"), clf.reweight(), clone(certified)]
    others += [point.classifier for point in certified.tradeoff().points]
    if getattr(clf, "limits", None):
        others += [certified.reweight(limits=["miss(1) <= .6"]), certified.tradeoff().at(0.5)]
    assert [each.certificate_ for each in others] == [None] * len(others)
    assert certified.certificate_ is not None


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_copies_and_files_keep_it(pair, tmp_path):
    _, certified = pair
    tb.save_model(certified, tmp_path / "m.model")
    loaded = tb.load_model(tmp_path / "m.model")
    copies = [copy.copy(certified), copy.deepcopy(certified), pickle.loads(pickle.dumps(certified)), loaded]
    for each in copies:
        assert each.certificate_ == certified.certificate_
        assert each.certificate_.rule == certified.certificate_.rule
        assert copy.copy(each.reweight()).certificate_ is None


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_it_cannot_be_carried_to_another_rule(pair):
    """Whatever copies the attributes: the rule is compared where the certificate is read."""
    clf, certified = pair
    rule = ("ensemble_", "selection_", "game_")
    groups = {"groups": LATER[2]} if clf.by_group else {}
    rows = LATER[0][["p", "x"]] if len(clf.feature_names_in_) == 2 else LATER[0]
    strict = 1 if hasattr(clf, "limits") else 0  # boosting by trees has few rules
    other = certified.reweight(objective="worst_class", max_error={strict: 0.1, None: 0.9})
    assert not np.array_equal(other.predict(rows, **groups), certified.predict(rows, **groups))
    thief = copy.copy(other)
    thief.certificate_ = certified.certificate_
    assert thief.certificate_ is None
    thief.__dict__ = vars(certified) | {name: vars(other)[name] for name in rule if name in vars(other)}
    assert thief.certificate_ is None
    again = copy.copy(certified).set_params(verbose=0)
    assert again.certificate_ == certified.certificate_


def test_a_model_with_other_rows_or_estimators_is_another_rule():
    """The rules without limits have equal costs; the models differ."""
    X, y, _ = SELECT
    one, two = (tb.tune(ESTIMATORS["models"]()[k], X, y) for k in (0, 1))
    certificate = tb.certify(one, *FRESH[:2], rates=["error() <= .4"])
    assert certificate.rule is not None
    with pytest.raises(ValueError, match="certificate is about another rule than that of this RobustMixture"):
        certificate.recheck(*LATER[:2], model=two)
    with pytest.raises(ValueError, match="is about another rule"):
        tb.Monitor.of(certificate).add(two, *LATER[:2])
    monitor = tb.Monitor.of(certificate).add(one, *LATER[:2])
    with pytest.raises(ValueError, match="the certificate of the monitor is about another rule"):
        tb.ModelCard.of(two, *drawn(5, 500)[:2], monitor=monitor)
    again = tb.Monitor.from_dict(json.loads(json.dumps(monitor.to_dict())))
    with pytest.raises(ValueError, match="is about another rule"):
        again.add(two, *drawn(6, 300)[:2])
    assert not again.add(one, *drawn(6, 300)[:2]).alarms
    answers = one.predict(LATER[0])
    assert certificate.recheck(None, LATER[1], model=answers).bounds  # answers alone cannot be compared


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_card_of_another_rule_says_nothing_of_the_certificate():
    _, certified = made("score")
    rows = drawn(7, 4000)[:2]
    strict = certified.reweight(limits=["miss(1) <= .9"])
    assert "the calibration rows" in tb.ModelCard.of(certified, *rows).summary
    assert "the calibration rows" not in tb.ModelCard.of(strict, *rows).to_markdown()


def test_any_earlier_classifier_is_a_previous_attempt():
    clf, certified = made("score")
    other = tb.tune(tb.Scores("p", 1), *drawn(8, 800)[:2], limits=["miss(1) <= .3"])
    for previous in (clf, certified, certified.certificate_, certified.reweight()):
        later = tb.calibrate(copy.deepcopy(other), *drawn(9, 1500)[:2], previous=previous)
        assert len(later.certificate_.attempts) == 2
    with pytest.raises(ValueError, match="previous must be the result of the previous attempt"):
        tb.calibrate(copy.deepcopy(other), *drawn(9, 1500)[:2], previous=other)  # without an attempt


def test_rules_of_several_labels():
    def rows(seed, n):
        r = np.random.default_rng(seed)
        Y = pd.DataFrame({name: (r.random(n) < 0.4).astype(int) for name in ("x", "z")})
        return (2.0 * Y + r.normal(size=Y.shape)).add_prefix("s_"), Y

    scores = [tb.Scores(f"s_{name}", name, kind="logit") for name in ("x", "z")]
    rules = tb.tune_labels(scores, *rows(0, 600), limits=["miss(1, by=label) <= .3"])
    certified = rules.calibrate(*rows(1, 800))
    assert rules.certificate_ is None
    assert certified.classifier.certificate_ == certified.certificate_
    document = json.loads(certified.to_json())
    assert tb.LabelRules.from_dict(document).certificate_ == certified.certificate_
    assert pickle.loads(pickle.dumps(certified)).certificate_ == certified.certificate_
    assert replace(certified, rules=rules.rules).certificate_ is None
    assert replace(certified, limits=rules.limits).certificate_ == certified.certificate_
    document["labels"]["x"]["bands"][0][1][0] += 0.1
    edited = tb.LabelRules.from_dict(document)
    assert edited.certificate_ is None
    assert edited.classifier.certificate_ is None
    with pytest.raises(ValueError, match="is about another rule"):
        tb.Monitor.of(certified.certificate_).add(**edited.pairs(*rows(2, 300)))


# -- files of killed processes ------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_save_removes_what_killed_saves_left(tmp_path):
    clf = tb.tune(tb.Scores("p", 1), *SELECT[:2])
    path, stranger = tmp_path / "m.model", tmp_path / "notes.part"
    stranger.write_text("not ours")
    for k in range(12):
        child = os.fork()
        if child == 0:
            while True:
                tb.save_model(clf, path)
        time.sleep(0.03 + 0.005 * k)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    tb.save_model(clf, path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["m.model", "notes.part"]
    assert tb.load_model(path).rule_ == clf.rule_
