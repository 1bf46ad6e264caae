"""Writes the files of this folder, which every later version reads: ``python tests/storage/stored/write.py``.

Do not write a file of a released version again: a new format gets further files, in a folder of its own.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd

import tailboost as tb
from tailboost.core.files import write_output

FOLDER = Path(__file__).parent
N = 400
LIMITS = ["miss(ill, by=site) <= 40%"]


def drawn(seed):
    """Return N rows with their labels: a high p speaks for "ill"."""
    rng = np.random.default_rng(seed)
    ill = rng.random(N) < 0.4
    p = np.where(ill, rng.beta(4, 2, N), rng.beta(2, 4, N)).round(3)
    p = np.clip(p, 0.001, 0.998)
    rest = (rng.random(N) * (1.0 - p)).round(3)
    table = pd.DataFrame({"p": p, "q": rest, "r": (1.0 - p - rest).round(3)})
    table["site"] = rng.choice(["north", "south"], N)
    return table, np.where(ill, "ill", np.where(rest > (1.0 - p) / 2, "tired", "well"))


def features(table):
    """Return the features of a model, shape (n, 2)."""
    return table[["p", "q"]].to_numpy()


if __name__ == "__main__":
    (fit, y_fit), (fresh, y_fresh), (month, y_month) = map(drawn, range(3))
    two, two_fresh, two_month = (np.where(y == "ill", y, "well") for y in (y_fit, y_fresh, y_month))
    answers = {}

    def site(table):
        return table[["site"]]

    # A rule on a score, by group, whose rows are used up.
    given = {"groups": site(fresh), "by_group": "site", "limits": LIMITS}
    rule = tb.calibrate(tb.Scores("p", "ill"), fresh, two_fresh, **given)
    tb.save_rule(rule, FOLDER / "certified.json", target="state")
    answers["certified.json"] = rule.predict(month)
    tb.save_model(tb.load_rule(FOLDER / "certified.json"), FOLDER / "loaded.model")
    state = tb.Monitor(rule).add(month, two_month, groups=site(month), id=np.arange(N), name="May")
    write_output(FOLDER / "certified.monitor.json", json.dumps(state.to_dict()))

    # A rule on three scores, and rules alone: of one score, and of three.
    triple = tb.Scores(["p", "q", "r"], ["ill", "tired", "well"])
    three = tb.tune(triple, fit, y_fit, limits=["miss(ill) <= 30%"])
    tb.save_rule(three, FOLDER / "costs.json")
    answers["costs.json"] = three.predict(month)

    tree = tb.AdaLPBoostClassifier("tree", n_estimators=5, random_state=0).fit(features(fit), two)
    tuned = tb.tune(tree, features(fresh), two_fresh, limits=["miss(ill) <= 30%", "deferred() <= 10%"])
    write_output(FOLDER / "alone.json", tuned.rule_.to_json())
    answers["alone.json"] = tuned.rule_.predict(month["p"])
    write_output(FOLDER / "costs_alone.json", three.rule_.to_json())

    # Model files: a boosted mixture, and a certified rule on it.
    tb.save_model(tree, FOLDER / "boosted.model")
    answers["boosted.model"] = tree.predict(features(month))
    given = {"limits": ["miss(ill) <= 40%"], "training_rows": features(fit)}
    certified = tb.calibrate(tree, features(fresh), two_fresh, **given)
    tb.save_model(certified, FOLDER / "certified.model", notes={"from": "write.py"})
    answers["certified.model"] = certified.predict(features(month))
    kept = {name: of_rows.tolist() for name, of_rows in answers.items()}
    write_output(FOLDER / "answers.json", json.dumps(kept))
