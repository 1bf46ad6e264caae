"""Damaged model files: refused by name, or with exactly the original answers."""

from __future__ import annotations

import json
import random

import pytest
import test_models as damage
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline

import tailboost as tb
from tailboost.learners import HistBoostClassifier
from tailboost.storage.models import save_model

pytestmark = pytest.mark.fuzz
PART = "model files"


def worst_class():
    """Models with shared boosted trees and a small forest: a file with a hundred trees loads slowly."""
    forest = ExtraTreesClassifier(5, random_state=0)
    models = [("boosted", HistBoostClassifier(n_estimators=5, n_jobs=1)), ("forest", forest)]
    return tb.RobustMixtureClassifier(models, n_jobs=1, random_state=0)


MODELS = {
    "mixture": damage.adalp,
    "worst class": worst_class,
    "forest": lambda: RandomForestClassifier(3, random_state=0),
    "pipeline": lambda: Pipeline([("impute", SimpleImputer()), ("classifier", damage.adalp())]),
}


@pytest.mark.parametrize("name", MODELS)
def test_mutations(name, tally, tmp_path):
    counts = damage.campaign([MODELS[name]().fit(damage.X, damage.Y)], tmp_path / "m.model", 200)
    for (_, outcome), n in counts.items():
        tally.refused(n) if outcome == "refused" else tally.equal(n)
    assert tally.cases >= 500


@pytest.mark.parametrize("shard", range(4))
def test_forged_structures(shard, tally, tmp_path):
    """Changed and sealed anew: refused, or at least the probe rows are answered as they were."""
    path = tmp_path / "m.model"
    save_model(damage.adalp().fit(damage.X, damage.Y), path)
    files = damage.parts(path.read_bytes())
    structure = json.loads(files["parts.json"])
    draw = random.Random(100 + shard)
    for _ in range(150):
        changed = damage.changed_structure(structure, draw)
        path.write_bytes(damage.sealed(files | {"parts.json": changed}))
        model, message = damage.loaded(path)
        if path.name in message:
            tally.refused()
        elif model is None:
            tally.violation((changed, message))
        else:
            tally.equal()
