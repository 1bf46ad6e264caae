"""Subgroup robustness (Gardner et al. 2022): overall and worst-group accuracy, compared with their tables.

Their groups are the four of two binary columns. Their Table 5 has defaults, their Table 4 the best of whole
grids of settings *on test rows*. Splits are ours, so a difference of a standard deviation is not significant.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

import tailboost as tb
from experiments._experiment import Cells, Experiment, Report, Settings, markdown
from experiments.field._scores import drawn
from experiments.field._tables import TABLES, Table
from tailboost.app.table_encoder import TableEncoder
from tailboost.learners.named import plain_xgboost

# By table: most rows to choose on, the share of test rows, and the two columns and their values of the first.
CASES: dict[str, tuple[int, float, tuple[tuple[str, Any], tuple[str, Any]]]] = {
    "adult": (32_561, 1 / 3, (("race", "White"), ("sex", "male"))),
    "compas": (10_000, 0.2, (("race", "Caucasian"), ("sex", "male"))),
    "german": (10_000, 0.2, (("age", "above 25"), ("sex", "male"))),
    "acs income": (40_000, 0.2, (("race", 0), ("sex", "male"))),
    "acs coverage": (40_000, 0.2, (("race", 0), ("sex", "male"))),
}
TEST_ROWS = 100_000
# Overall and worst-group accuracy: the best of Table 5 (defaults) in each, and of Tables 3 and 4 (LightGBM).
DEFAULTS = {
    "acs income": (0.825, 0.797), "acs coverage": (0.788, 0.738), "adult": (0.874, 0.834),
    "compas": (0.70, 0.684), "german": (0.79, 0.65),
}  # fmt: skip
TUNED = {
    "acs income": (0.827, 0.798), "acs coverage": (0.791, 0.745), "adult": (0.874, 0.845),
    "compas": (0.734, 0.729), "german": (0.900, 0.842),
}  # fmt: skip


def _four(table: Table, columns: tuple[tuple[str, Any], ...]) -> Any:
    """Return the number, 0 to 3, of each row's group."""
    (a, first), (b, second) = columns

    def is_first(column: str, value: Any) -> Any:
        values = np.asarray(table.groups[column], dtype=str if isinstance(value, str) else None)
        return np.char.lower(values) == value.lower() if isinstance(value, str) else values == value

    return 2 * is_first(a, first) + is_first(b, second)


def _measured(answers: Any, y: Any, four: Any) -> dict[str, float]:
    right = np.asarray(answers) == y
    return {
        "overall": float(right.mean()),
        "worst group": min(float(right[four == g].mean()) for g in range(4)),
    }


def _cell(settings: Settings, name: str, seed: int) -> dict[str, Any]:
    most, share, columns = CASES[name]
    train, test = drawn(TABLES[name](settings.folder), seed, most, TEST_ROWS, share)
    four, ahead = _four(train, columns), _four(test, columns)
    encoder = TableEncoder().fit(train.X)
    X, T = (np.asarray(_dense(encoder.transform(part.X))) for part in (train, test))
    found: dict[str, Any] = {"rows": [len(train.y), len(test.y)]}
    began = time.process_time()
    model = plain_xgboost(random_state=seed, n_jobs=1).fit(X, train.y)
    found["XGBoost"] = _measured(model.predict(T), test.y, ahead)
    found["XGBoost"]["seconds"] = time.process_time() - began
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.process_time()
        mix = tb.RobustMixtureClassifier(objective="worst_group", error_budget=0.0, random_state=seed)
        mix.fit(X, train.y, groups=four)
        seconds = time.process_time() - began
        for title, one in (
            ("ours, error_budget=0", mix),
            ("ours, error_budget=0.01", mix.reweight(error_budget=0.01)),
        ):
            found[title] = _measured(one.predict(T), test.y, ahead) | {"seconds": seconds}
    return found


def _dense(X: Any) -> Any:
    return X.toarray() if hasattr(X, "toarray") else X


def play(settings: Settings, name: str) -> Report:
    """Compute missing cells and read all cells."""
    cells = Cells(settings, name, len(CASES) * settings.repeats)
    found: dict[str, dict[str, Any]] = {}
    for title in CASES:
        if settings.only and title not in settings.only:
            continue
        runs = [
            cells.get({"table": title, "seed": seed}, partial(_cell, settings, title, seed))
            for seed in range(settings.repeats)
            if not settings.late or {"table": title, "seed": seed} in cells
        ]
        if not runs:
            continue
        found[title] = {"rows": runs[0]["rows"], "splits": len(runs)}
        for who in [key for key in runs[0] if key != "rows"]:
            found[title][who] = {
                what: [
                    float(np.mean([r[who][what] for r in runs])),
                    float(np.std([r[who][what] for r in runs])),
                ]
                for what in ("overall", "worst group", "seconds")
            }
        found[title]["published, defaults"], found[title]["published, tuned"] = DEFAULTS[title], TUNED[title]
    return Report(_text(found), {"tables": found})


def _text(found: Mapping[str, Mapping[str, Any]]) -> str:
    body = []
    for title, of in found.items():
        for who in ("XGBoost", "ours, error_budget=0", "ours, error_budget=0.01"):
            numbers = [
                f"{of[who][what][0]:.3f} ± {of[who][what][1]:.3f}" for what in ("overall", "worst group")
            ]
            rows = " / ".join(f"{n:,}" for n in of["rows"])
            body.append([title, who, *numbers, rows, str(of["splits"]), f"{of[who]['seconds'][0]:.1f}"])
        for words, pair in (
            ("best of Table 5, defaults", DEFAULTS[title]),
            ("best of Tables 3, 4", TUNED[title]),
        ):
            body.append([title, words, *(f"{x:.3f}" for x in pair), "", "", ""])
    header = ["table", "", "overall accuracy", "worst group", "rows, test rows", "splits", "seconds"]
    return "± is the standard deviation over splits.\n\n" + markdown(header, body)


EXPERIMENT = Experiment(
    "field-subgroups", "Overall and worst-group accuracy beside Gardner et al. 2022", play, repeats=3,
    has_jobs=True,
)  # fmt: skip
