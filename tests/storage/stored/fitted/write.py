"""Writes the models of this folder, as version 0.1 had them: a learner was its own fitted model."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

import tailboost as tb
from tailboost.core.files import write_output
from tailboost.learners import HistBoostClassifier, HistTreeClassifier
from tailboost.learners.forest import TableForest

FOLDER = Path(__file__).parent


def drawn(seed):
    """Return rows, and labels of two classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(150, 3))
    return X, np.where(X[:, 0] + rng.normal(size=150) > 0, "ill", "well")


def frame(X):
    """Return rows as a data frame with a column of categories."""
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "site": np.where(X[:, 2] > 0, "north", "south")})


def models():
    """Return models of each learner of the package, unfitted."""
    few = [("boosted", HistBoostClassifier(n_estimators=2)), ("forest", TableForest(2))]
    return {
        "mixture": tb.RobustMixtureClassifier(few, random_state=0),
        "of_frame": tb.RobustMixtureClassifier(few, random_state=0),
        "stumps": tb.EBBoostClassifier(n_estimators=3, random_state=0),
        "tree": HistTreeClassifier(max_depth=2),
    }


if __name__ == "__main__":
    answers = {}
    for name, model in models().items():
        X, y = drawn(0)
        later, _ = drawn(1)
        if name == "of_frame":
            X, later = frame(X), frame(later)
        model.fit(X, y)
        tb.save_model(model, FOLDER / f"{name}.model")
        answers[name] = model.predict(later).tolist()
    write_output(FOLDER / "answers.json", json.dumps(answers))
