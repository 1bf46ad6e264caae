"""Files that this or an earlier version wrote are read, and mean the same: `stored/write.py` wrote them."""

import json
from pathlib import Path

import numpy as np
import pytest
from stored import write

import tailboost as tb

FOLDER = Path(write.__file__).parent
ANSWERS = json.loads((FOLDER / "answers.json").read_text())
MONTH, LABELS = write.drawn(2)
TWO = np.where(LABELS == "ill", "ill", "well")


@pytest.mark.parametrize("name", ["certified.json", "costs.json"])
def test_a_stored_rule_of_scores_answers_as_it_did(name):
    assert tb.load_rule(FOLDER / name).predict(MONTH).tolist() == ANSWERS[name]
    loaded = tb.load_model(FOLDER / "loaded.model")  # certified.json, saved as a model
    assert loaded.predict(MONTH).tolist() == ANSWERS["certified.json"]
    assert loaded.groups_.tolist() == [("site", "north"), ("site", "south")]


def test_a_stored_rule_alone_answers_as_it_did():
    rule = tb.load_rule(FOLDER / "alone.json")
    assert rule.predict(MONTH["p"].to_numpy()).tolist() == ANSWERS["alone.json"]
    costs = tb.load_rule(FOLDER / "costs_alone.json")
    # The scores have the order ill, tired, well, which is that of the labels.
    (model,) = costs.weights
    assert costs.predict({model: MONTH[["p", "q", "r"]].to_numpy()}).tolist() == ANSWERS["costs.json"]


def test_a_stored_certificate_is_whole_and_its_rows_stay_used_up():
    rule = tb.load_rule(FOLDER / "certified.json")
    assert rule.certificate_.certified
    assert rule.limits == [tb.rates.miss("ill", by="site") <= 0.4]
    fresh, y = write.drawn(1)
    two = np.where(y == "ill", "ill", "well")
    with pytest.raises(tb.LeakageError):
        tb.certify(rule, fresh, two, groups=fresh[["site"]])
    stated = {"by_group": "site", "limits": ["miss(ill, by=site) <= 45%"], "previous": rule}
    with pytest.raises(tb.LeakageError):
        tb.calibrate(tb.Scores("p", "ill"), fresh, two, groups=fresh[["site"]], **stated)


def test_a_stored_monitor_goes_on():
    """A batch after reading gives the evidence of one that never left memory."""
    rule = tb.load_rule(FOLDER / "certified.json")
    again = tb.Monitor.from_dict(json.loads((FOLDER / "certified.monitor.json").read_text()), rule)
    table, labels = write.drawn(3)
    june = {"groups": table[["site"]], "id": np.arange(write.N) + write.N, "name": "June"}
    may = tb.Monitor(rule).add(MONTH, TWO, groups=MONTH[["site"]], id=np.arange(write.N), name="May")
    two = np.where(labels == "ill", "ill", "well")
    assert again.add(table, two, **june).to_dict() == may.add(table, two, **june).to_dict()


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.ModelVersionWarning")
def test_stored_models_answer_as_they_did():
    rows = write.features(MONTH)
    for name in ("boosted.model", "certified.model"):
        assert tb.load_model(FOLDER / name).predict(rows).tolist() == ANSWERS[name]
    certified = tb.load_model(FOLDER / "certified.model")
    assert certified.certificate_.certified
    fresh, y = write.drawn(1)
    assert np.mean(certified.reweight().predict(write.features(fresh))[y == "ill"] != "ill") <= 0.4
    with pytest.raises(tb.LeakageError):
        tb.certify(certified, write.features(fresh), np.where(y == "ill", "ill", "well"))
