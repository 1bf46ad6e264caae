"""Errors by line against the same errors by row."""

import numpy as np
import pytest
from scipy.special import expit

from tailboost import RobustMixtureClassifier
from tailboost.combiners import Ledger
from tailboost.solvers import BitLosses


@pytest.mark.parametrize("objective", ["worst_class", "worst_group", "worst_cell"])
def test_lines_say_what_rows_do(objective):
    """Errors and sizes of units, mean losses and what is tied, of all rows and of each half of them."""
    rng = np.random.default_rng(0)
    n = 500
    y, group = rng.integers(0, 2, n), rng.integers(0, 3, n)
    P = np.round(expit(1.2 * (2 * y - 1) + rng.normal(size=n) + group - 1), 2)
    again = rng.integers(0, n, 60)  # some rows are there twice
    y, group, P = (np.append(of, of[again]) for of in (y, group, P))
    grouped = objective != "worst_class"
    mix = RobustMixtureClassifier.from_probabilities(
        {"net": P}, y, objective=objective, groups=group if grouped else None, by_group=grouped,
        sample_weight=rng.integers(1, 4, len(y)), n_thresholds=10,
    )  # fmt: skip
    judged, lines = mix._judged, mix.combiner_.pool.ledger
    rows = mix._choice.aim.rows(judged.rows)
    wrong = np.array([member.predict_table(judged.table) != rows.y for member in mix.ensemble_.members])
    plain = Ledger(rows, BitLosses.from_rows(wrong), BitLosses(len(rows.y)))
    half = judged.rows.halves()
    assert len(lines.rows.y) <= 12
    of_lines = lines.rows.halves()
    pairs = [
        (plain, lines),
        (plain.part(half), lines.part(of_lines)),
        (plain.part(~half), lines.part(~of_lines)),
    ]
    for by_row, by_line in pairs:
        index, of = (mix._choice.aim.objective.index(ledger.rows) for ledger in (by_row, by_line))
        np.testing.assert_allclose(
            by_line.unit_errors("units", of)[0], by_row.unit_errors("units", index)[0], atol=1e-9
        )
        sizes = by_row.unit_sizes("units", index)
        np.testing.assert_allclose(by_line.unit_sizes("units", of), sizes, rtol=1e-9)
        np.testing.assert_allclose(by_line.mean_losses(), by_row.mean_losses(), atol=1e-9)
        assert by_line.tie() == pytest.approx(by_row.tie(), abs=1e-9)
    counts = np.bincount(mix._choice.aim.objective.index(rows))
    assert (
        lines.rows.counts(mix._choice.aim.objective.index(lines.rows), len(counts)).tolist()
        == counts.tolist()
    )
