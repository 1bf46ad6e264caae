"""Printed numbers of the papers against the experiments: the summaries in ``results/``.

A tolerance is the observed difference, not a goal. If results differ, the test gives the amount and the
reason.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from experiments import compas, variance
from experiments.worst_class_artificial import BOOSTING, CASES, HALF

RESULTS = Path(__file__).resolve().parents[2] / "results"
pytestmark = [
    pytest.mark.experiments,
    pytest.mark.skipif(not RESULTS.is_dir(), reason="the results do not come with the package"),
]


def summary(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


# --- Shivaswamy and Jebara 2011, Tables 1 and 2: test errors in % over 50 splits, ours too ---

VARIANCE = {
    "variance-stumps": (variance.PUBLISHED_STUMPS, variance.STUMP_METHODS),
    "variance-cart": (variance.PUBLISHED_TREES, variance.TREE_METHODS),
}
# The paper does not print the number of generated rows; 400 rows reproduce its errors (below), we drew
# 5,000. Splice has other rows or columns than the paper's: ours is easier for stumps, for an unknown
# reason.
OTHER_DATA = {"variance-stumps": {"ringnorm", "splice"}, "variance-cart": {"ringnorm"}}
# Largest and median difference in points. Trees, whose depth and bins are not printed, agree less.
WITHIN = {"variance-stumps": (1.0, 0.2), "variance-cart": (1.8, 0.25)}


@pytest.mark.parametrize("name", VARIANCE)
def test_test_errors_of_variance_penalised_boosting(name):
    published, methods = VARIANCE[name]
    found = {(row["data"], row["method"]): row for row in summary(name)["rows"]}
    differences = [
        found[task, method]["ours"] - printed
        for task, numbers in published.items()
        if not variance.TASKS[task].stands_in and task not in OTHER_DATA[name]
        for method, printed in zip(methods, numbers, strict=True)
    ]
    largest, median = WITHIN[name]
    assert np.abs(differences).max() <= largest
    assert np.median(np.abs(differences)) <= median
    for task in OTHER_DATA[name]:
        for method, printed in zip(methods, published[task], strict=True):
            assert found[task, method]["ours"] < printed


def test_ringnorm_of_few_rows_has_the_printed_errors():
    found = summary("variance-lambda")["test error, %"][variance.RINGNORM]
    printed = dict(zip(variance.STUMP_METHODS, variance.PUBLISHED_STUMPS["ringnorm"], strict=True))
    for ours, method in (("AdaBoost", "AdaBoost"), (variance.COARSE, "VadaBoost")):
        assert found[ours]["mean"] == pytest.approx(printed[method], abs=0.5)
        assert found[ours]["low"] < printed[method] < found[ours]["high"]


# Data sets with a different gain of VadaBoost over AdaBoost. Ringnorm, a5a and w4a are other data. On
# mushrooms both err on one row in 5,000. On the others our AdaBoost with trees errs less than the printed
# one, by .2 to 1.4 points, so the possible gain is smaller; musk has no gain with stumps, for an unknown
# reason.
OTHER_GAIN = {
    "variance-stumps": {"mushrooms", "musk", "ringnorm", "w4a"},
    "variance-cart": {"a5a", "abalone", "musk", "spambase", "splice", "wine"},
}


@pytest.mark.parametrize("name", VARIANCE)
def test_the_gain_of_vadaboost_is_the_printed_one(name):
    """In a 95 % interval of their difference, if the printed mean of 50 splits varies like ours."""
    published, methods = VARIANCE[name]
    rows = [row for row in summary(name)["rows"] if row["method"] == "VadaBoost"]
    outside = set()
    for row in rows:
        assert row["repeats"] == 50
        printed = published[row["data"]]
        gain = printed[0] - printed[methods.index("VadaBoost")]
        half = np.sqrt(2) * row["gain_standard_error"] * stats.t.ppf(0.975, row["repeats"] - 1)
        if abs(row["gain_over_adaboost"] - gain) > half:
            outside.add(row["data"])
    assert outside == OTHER_GAIN[name]
    # As printed: a gain over all sets, and no significant loss on any.
    gains = [row["gain_over_adaboost"] for row in rows]
    assert np.mean(gains) > 0
    assert min(g / max(row["gain_standard_error"], 1e-9) for g, row in zip(gains, rows, strict=True)) > -2.68


# --- Zhai et al. 2021, COMPAS: test CVaR, an independent re-run of the published procedure ---

CURVES = {
    "ERM": ("λ from training", "ERM"),
    "AdaBoost + average": ("λ from training", "AdaBoost + average"),
    "AdaLPBoost": ("λ from training", "AdaLPBoost"),
    "uniform weights + LP": ("uniform weights", "AdaLPBoost"),
}
# Largest difference at the α shown, of a seed of ours from the mean of five. At α = .01 the tail is 22 rows,
# and with λ from training rows two of five seeds of the first edition over-fitted.
NET = {"ERM": [0.005] * 6, "AdaBoost + average": [0.012, *[0.005] * 5], "AdaLPBoost": [0.03, *[0.005] * 5],
       "uniform weights + LP": [0.006] * 6}  # fmt: skip
# A perceptron that is fitted afresh every round, by weighted losses: its average is worse in the tail, and
# freshly drawn networks differ more than networks with a common warm-up, so their mixture is better at .3.
# Our seed errs on .306 of the rows, the re-run on .310: the CVaR of ERM is this error over α.
PERCEPTRON = {"ERM": [0.005, 0.005, 0.005, 0.009, 0.007, 0.005],
              "AdaBoost + average": [0.05, 0.02, 0.012, 0.01, 0.005, 0.005],
              "AdaLPBoost": [0.03, 0.005, 0.005, 0.005, 0.007, 0.005],
              "uniform weights + LP": [0.005, 0.005, 0.14, 0.007, 0.005, 0.005]}  # fmt: skip


@pytest.mark.parametrize(("name", "within"), [("compas", NET), ("compas-mlp", PERCEPTRON)])
def test_cvar_on_compas(name, within):
    found = summary(name)
    alphas = found["settings"]["alphas"]
    for label, (game, curve) in CURVES.items():
        for alpha, printed, at_most in zip(compas.SHOWN, compas.PUBLISHED[label], within[label], strict=True):
            ours = found["games"][game]["curves"][curve][alphas.index(alpha)]["mean"]
            assert ours == pytest.approx(float(printed.split()[0]), abs=at_most), (label, alpha)


# --- Saito et al. 2024, Tables I and II: worst and mean test errors in %, five seeds ---

# Largest difference of the worst class and of the mean on Table I. Left out are one net within the bound,
# with a variation of ± 18 and more over the seeds, and OCO boosting, with a fortieth of its rounds.
TABLE_I = {
    "worst-class-artificial": {"CE": (2, 2), "naive": (2, 1), BOOSTING: (2, 1.5)},
    "artificial-nets": {"CE": (4, 2), "naive": (6, 1), BOOSTING: (2.5, 1.5)},
}


def errors(tables, case, method):
    return errors_of(tables[case.title][method])


def errors_of(found):
    return 100 * found["worst test"]["mean"], 100 * found["mean test"]["mean"]


@pytest.mark.parametrize("name", TABLE_I)
def test_errors_on_overlapping_squares_and_discs(name):
    tables = summary(name)["tables"]
    squares, *discs = CASES
    for method, (of_worst, of_mean) in TABLE_I[name].items():
        worst, mean = errors(tables, squares, method)
        assert worst == pytest.approx(squares.published[method][0], abs=of_worst)
        assert mean == pytest.approx(squares.published[method][1], abs=of_mean)
    for case in discs:
        worst, mean = errors(tables, case, "CE")
        # Five seeds know the mean to some .7 points, the worst class of ten training rows to thirteen.
        assert worst == pytest.approx(case.published["CE"][0], abs=5)
        assert mean == pytest.approx(case.published["CE"][1], abs=0.75)
        # Row weights are w_y/n_y, as in equation (8). With w_y, as in the published scripts, errors are near
        # the printed ones (below). The paper's claim holds: for the worst class the vote beats CE.
        boosted = errors(tables, case, BOOSTING)
        assert boosted[0] < case.published[BOOSTING][0]
        assert boosted[1] > case.published[BOOSTING][1]
        assert boosted[0] < worst - 20


def test_row_weights_decide_table_ii():
    """Ten rows in the small disc, five seeds, all rounds: w_y gives the printed regime, w_y/n_y another."""
    table = summary("class-weights")["tables"]["Table II, n_min = 10"]
    printed = CASES[1].published
    for method in (BOOSTING, HALF):
        of_errors, of_rows = (errors_of(table[f"{method}, {w}"]) for w in ("w_y / n_y", "w_y"))
        worst, mean = printed[method]
        assert of_rows[0] == pytest.approx(worst, abs=6)
        assert of_rows[1] == pytest.approx(mean, abs=2)
        assert of_errors[0] < worst - 15
        assert of_errors[1] > mean + 5
    assert table[f"{BOOSTING}, w_y"]["rounds"] == [281] * 5
