"""The mixture program as a linear program, and canonical vertices of linear programs, by HiGHS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import highspy
import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.sparse import csc_array

from tailboost.core.array_types import Floats

TOLERANCE = 1e-10


def mixture_program(
    losses: Floats, cap: Floats, fixed: Floats | float = 0.0, mass: float = 1.0
) -> tuple[Floats, Floats, int]:
    """Return optimal λ and w of max_w min_t (Lw + fixed)_t with 0 ≤ w ≤ c and Σ w = mass, and the iterations.

    Parameters
    ----------
    losses : ndarray of shape (n, T)
        Losses of the candidates on each unit.
    cap : ndarray of shape (n,)
        Largest weights c.
    fixed : ndarray of shape (T,)
        Expected losses of units whose weights are fixed.
    mass : float
        Weight of the n units.
    """
    n_units, n_candidates = losses.shape
    matrix = np.ones((n_candidates + 1, n_units + 1))
    matrix[:-1, :-1], matrix[:-1, -1], matrix[-1, -1] = losses.T, -1.0, 0.0
    lower = np.append(np.zeros(n_candidates) - fixed, mass)
    upper = np.append(np.full(n_candidates, np.inf), mass)
    # No weight exceeds Σ w, so larger caps have no effect.
    columns = np.append(np.zeros(n_units), -np.inf), np.append(np.minimum(cap, 2.0 * mass), np.inf)
    highs = highs_model(np.append(np.zeros(n_units), -1.0), matrix, (lower, upper), columns)
    highs.run()
    solution = highs.getSolution()
    lam = np.maximum(np.array(solution.row_dual)[:-1], 0.0)
    total = float(lam.sum())
    lam = lam / total if total > 0 else np.full(n_candidates, 1.0 / n_candidates)
    return lam, np.array(solution.col_value)[:-1], int(highs.getInfo().simplex_iteration_count)


def lexicographic_vertex(
    costs: Sequence[Floats], matrix: Floats, lower: Floats, upper: Floats
) -> Floats | None:
    """Return a vertex of {x: lower ≤ matrix x ≤ upper} that minimises each cost in turn, or None.

    None means that the set is empty. All entries of x except the last are non-negative. After each cost, the
    columns and rows with a non-zero dual are fixed. The next cost then moves along the optimal face exactly,
    without a tolerance on the objective.
    """
    n_columns = matrix.shape[1]
    floor = np.append(np.zeros(n_columns - 1), -np.inf)
    even = lower == upper
    if even.sum() > n_columns / 2:
        origin, basis = _flat(matrix[even], lower[even])
        if basis.shape[1] <= n_columns / 4:
            # If x can move in few directions, solve for y in x = origin + basis y.
            if np.abs(matrix[even] @ origin - lower[even]).max() > 10 * TOLERANCE:
                return None
            rows = np.vstack([matrix[~even], np.eye(n_columns)[:-1]])
            low, high = (
                np.append(lower[~even], floor[:-1]),
                np.append(upper[~even], np.full(n_columns - 1, np.inf)),
            )
            at = rows @ origin
            if not basis.shape[1]:
                inside = (at >= low - 10 * TOLERANCE).all() and (at <= high + 10 * TOLERANCE).all()
                return origin if inside else None
            y = _vertex([cost @ basis for cost in costs], rows @ basis, low - at, high - at, None)
            return None if y is None else origin + basis @ y
    return _vertex(costs, matrix, lower, upper, floor)


def _flat(matrix: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Return the smallest solution of ``matrix`` x = ``right`` and an orthonormal basis of the null space."""
    q, r, order = qr(matrix.T, pivoting=True)
    diagonal = np.abs(r.diagonal())
    rank = int((diagonal > 1e-10 * diagonal[0]).sum())
    least = q[:, :rank] @ solve_triangular(r[:rank, :rank], right[order[:rank]], trans="T")
    return least, q[:, rank:]


def _vertex(
    costs: Sequence[Floats], matrix: Floats, lower: Floats, upper: Floats, floor: Floats | None
) -> Floats | None:
    n_columns = matrix.shape[1]
    lower, upper = lower.copy(), upper.copy()
    if floor is None:
        floor = np.full(n_columns, -np.inf)
    highs = highs_model(costs[0], matrix, (lower, upper), (floor, np.full(n_columns, np.inf)))
    x: Floats | None = None
    for k, cost in enumerate(costs):
        if k:
            highs.changeColsCost(n_columns, np.arange(n_columns, dtype=np.int32), cost)
        highs.run()
        if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return x
        solution = highs.getSolution()
        x = np.array(solution.col_value)
        scale = 1e-9 * max(1.0, float(np.abs(cost).max()))
        for j in np.flatnonzero((np.abs(solution.col_dual) > scale) & np.isfinite(floor)):
            highs.changeColBounds(int(j), 0.0, 0.0)
        duals = np.array(solution.row_dual)
        for i in np.flatnonzero(np.abs(duals) > scale):
            # A row with a positive dual is at its lower bound.
            lower[i] = upper[i] = lower[i] if duals[i] > 0 else upper[i]
            highs.changeRowBounds(int(i), lower[i], upper[i])
    return x


def highs_model(
    cost: Floats, matrix: Floats, rows: tuple[Floats, Floats], columns: tuple[Floats, Floats]
) -> Any:
    """Return HiGHS with the linear program min ⟨cost, x⟩ over bounded rows and columns."""
    sparse = csc_array(matrix)
    model = highspy.HighsModel()
    lp = model.lp_
    lp.num_row_, lp.num_col_ = matrix.shape
    lp.col_cost_ = cost
    lp.row_lower_, lp.row_upper_ = rows
    lp.col_lower_, lp.col_upper_ = columns
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = sparse.indptr, sparse.indices
    lp.a_matrix_.value_ = sparse.data
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("primal_feasibility_tolerance", TOLERANCE)
    highs.setOptionValue("dual_feasibility_tolerance", TOLERANCE)
    highs.passModel(model)
    return highs
