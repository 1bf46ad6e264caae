"""Model files into which types, functions and objects were forged: refused, or inert.

Inert: loading and prediction open no file, write nothing, start nothing and unpickle
nothing, by Python's audit events (see `test_model_file_attacks`).
"""

from __future__ import annotations

import json
import random
import signal
import warnings

import pytest
import test_model_file_attacks as attacks
import test_models as damage
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, StackingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from tailboost.storage import constructors, reviewed
from tailboost.storage.model_files import packed
from tailboost.storage.models import load_model, save_model

pytestmark = pytest.mark.fuzz
PART = "forged types"

MODELS = {
    "mixture": damage.adalp,
    "worst class": damage.worst_class,
    "forest": lambda: RandomForestClassifier(3, random_state=0),
    "pipeline": lambda: make_pipeline(
        FunctionTransformer(), StandardScaler(), HistGradientBoostingClassifier(max_iter=2)
    ),
    "stack": lambda: StackingClassifier([("g", GaussianNB())], LogisticRegression(), cv=2),
    "words": lambda: make_pipeline(CountVectorizer(), RandomForestClassifier(2, random_state=0)),
}
UNLISTED = [
    "os.system", "builtins.eval", "builtins.open", "pathlib.PosixPath", "logging.FileHandler",
    "subprocess.Popen",
    "joblib.memory.Memory", "numpy.load",
    "tailboost.dask.robust_mixture.KeyCounts", "tailboost.app.cli.models.StoredModel",
    "tailboost.boosting.learner.CrossFitLearner",
    "experiments.trials.Trials", "functools.partial", "sklearn.model_selection._search.GridSearchCV",
]  # fmt: skip
LISTED = sorted(
    name for name in reviewed.reviewed() if not name.startswith("tailboost.learners.torch")
) + sorted(constructors.MADE)
FIELDS = [
    "func", "preprocessor", "tokenizer", "analyzer", "metric", "scoring", "memory",
    "random_state",
    "dtype", "predict", "transform", "predict_proba", "estimator", "estimators_", "steps", "classes_",
    "_Booster",
    "model_", "weights", "stack_method_", "input", "__class__", "__dict__", "__setstate__",
    "n_jobs",
]  # fmt: skip


def value(draw, structure):
    """Value of a field: a name, a function, a type, or a real or forged object."""
    n = len(structure["parts"])
    return draw.choice(
        [
            lambda: {"function": draw.choice(UNLISTED + LISTED)},
            lambda: {"type": draw.choice(["PosixPath", "float", "object", "str", "os.system", "type"])},
            lambda: [draw.randrange(-1, n + 2)],
            lambda: draw.choice(UNLISTED),
            lambda: draw.choice(
                [None, True, -1, 0, 1, 10**6, 1e308, "fit", "__reduce__", "secret.txt", "/tmp/x", ""]
            ),
        ]
    )()


def forged(structure, draw):
    """Change one to three parts of a structure like an attacker."""
    structure = json.loads(json.dumps(structure))
    for _ in range(draw.randint(1, 3)):
        objects = [part for part in structure["parts"] if part[0] == "object"]
        if not objects:
            break
        how = draw.choice(["field", "new field", "class", "new object", "kind", "swap"])
        part = draw.choice(objects)
        if how == "field" and part[2]:
            draw.choice(part[2])[1] = value(draw, structure)
        elif how == "new field":
            part[2].append([draw.choice(FIELDS), value(draw, structure)])
        elif how == "class":
            structure["classes"][draw.randrange(len(structure["classes"]))] = draw.choice(
                UNLISTED + LISTED * 3
            )
        elif how == "new object":
            structure["classes"].append(draw.choice(UNLISTED + LISTED * 3))
            number, fields = (
                len(structure["classes"]) - 1,
                [[f, value(draw, structure)] for f in draw.sample(FIELDS, 2)],
            )
            at = structure["parts"].index(part)
            structure["parts"][at] = draw.choice(
                [["object", number, fields], ["made", number, value(draw, structure)]]
            )
        elif how == "kind":
            part[0] = draw.choice(["made", "function", "type", "list", "tree", "bytes", "reduce"])
        else:
            other = draw.choice(objects)
            part[2], other[2] = other[2], part[2]
    return structure


class TooLong(Exception):
    pass


def late(*_):
    raise TooLong


@pytest.mark.parametrize("shard", range(4))
@pytest.mark.parametrize("name", MODELS)
def test_forged_types(name, shard, tally, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "m.model"
    table = [f"word{a:.0f} word{b:.0f}" for a, b, *_ in 3 * damage.X] if name == "words" else damage.X
    save_model(MODELS[name]().fit(table, damage.Y), path)
    files = damage.parts(path.read_bytes())
    structure, record = json.loads(files["parts.json"]), json.loads(files["tailboost.json"])
    (tmp_path / "secret.txt").write_text("the only copy")
    draw = random.Random(f"{name} {shard}")
    signal.signal(signal.SIGALRM, late)
    for _ in range(150):
        changed = forged(structure, draw)
        same = {name: files[name] for name in ("arrays.bin", "ledgers.json")}
        path.write_bytes(packed({"parts.json": json.dumps(changed).encode(), **same}, record))
        before = sorted(p.name for p in tmp_path.iterdir())
        inert = True
        signal.alarm(60)
        try:
            with attacks.Quiet(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    again = load_model(path, check=draw.random() < 0.7)
                except (ValueError, ImportError) as error:
                    inert = False
                    if path.name not in str(error):
                        raise AssertionError("the file is not named") from error
                else:
                    for method in ("predict", "predict_proba", "decision_function", "tradeoff"):
                        try:
                            getattr(again, method)(*[table] * (method != "tradeoff"))
                        except TooLong:
                            raise
                        except Exception:  # a broken model may fail in any way, but do nothing
                            pass
        except (AssertionError, TooLong) as fault:
            tally.violation((changed, fault))
            continue
        finally:
            signal.alarm(0)
        if sorted(p.name for p in tmp_path.iterdir()) != before:
            tally.violation((changed, "a new file"))
        elif inert:
            tally.equal()
        else:
            tally.refused()
