"""The two linear programs for HiGHS: the dual form of the mixture LP, and the choice among its optima."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import highspy
import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.sparse import csc_array

from tailboost.core.array_types import Floats

TOLERANCE = 1e-10


def mixture_dual(losses: Floats, cap: Floats) -> tuple[Floats, Floats] | None:
    """Solve (4) in its dual form, T + 1 rows and n bounded columns: (λ, w), or None where HiGHS gives up."""
    n_members, n_units = losses.shape
    # Columns w_1 … w_n, ρ; rows ⟨w, ℓ^t⟩ − ρ ≥ 0 and Σ w = 1; minimise −ρ.
    matrix = np.zeros((n_members + 1, n_units + 1))
    matrix[:-1, :-1], matrix[:-1, -1], matrix[-1, :-1] = losses, -1.0, 1.0
    highs = highs_model(
        cost=np.append(np.zeros(n_units), -1.0),
        matrix=matrix,
        rows=(np.append(np.zeros(n_members), 1.0), np.append(np.full(n_members, np.inf), 1.0)),
        columns=(np.append(np.zeros(n_units), -np.inf), np.append(np.minimum(cap, 1.0), np.inf)),
    )
    highs.run()
    solution = highs.getSolution()
    if not (solution.value_valid and solution.dual_valid):
        return None
    return np.array(solution.row_dual)[:-1], np.array(solution.col_value)[:-1]


class WorstAndMean:
    """The least of the largest loss of a unit and the mean loss, weighed against each other or one limited.

    ``min v + slope Σ_t λ_t m_t  s.t.  v ≥ Σ_t λ_t ℓ_u^t for every unit u, λ ∈ Δ_T, and Σ_t λ_t m_t ≤ limit``

    Losses on units have shape (T, m), their means (T,). A change of slope or limit starts from the last
    solution.
    """

    def __init__(self, losses: Floats, means: Floats) -> None:
        n_members, n_units = losses.shape
        self.losses, self.means = losses, means
        # Columns λ_1 … λ_T, v; rows v − Σ_t λ_t ℓ_u^t ≥ 0, Σ_t λ_t m_t ≤ limit, Σ λ = 1.
        self.matrix = np.ones((n_units + 2, n_members + 1))
        self.matrix[:-2, :-1], self.matrix[-2, :-1], self.matrix[-2:, -1] = -losses.T, means, 0.0
        self.lower = np.r_[np.zeros(n_units), -np.inf, 1.0]
        self.upper = np.r_[np.full(n_units, np.inf), np.inf, 1.0]
        self.highs = highs_model(
            cost=np.append(np.zeros(n_members), 1.0),
            matrix=self.matrix,
            rows=(self.lower, self.upper),
            columns=(np.append(np.zeros(n_members), -np.inf), np.full(n_members + 1, np.inf)),
        )
        # The last solution stays feasible as the slope changes: the primal simplex goes on from it.
        self.highs.setOptionValue("presolve", "off")
        self.highs.setOptionValue("simplex_strategy", 4)

    def solve(self, slope: float, limit: float = np.inf) -> tuple[Floats, Floats, float] | None:
        """Return λ, the weights on the units and the price of the limit; None where HiGHS gives up."""
        n_columns = self.matrix.shape[1]
        # Divided by the sum of both weights, so that steep lines keep the scale of losses.
        cost = np.append(slope * self.means, 1.0) / (1.0 + slope)
        self.highs.changeColsCost(n_columns, np.arange(n_columns, dtype=np.int32), cost)
        self.highs.changeRowBounds(len(self.lower) - 2, -np.inf, limit)
        self.highs.run()
        if self.highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        solution = self.highs.getSolution()
        lam = np.maximum(np.array(solution.col_value)[:-1], 0.0)
        dual = np.array(solution.row_dual)
        w = np.maximum(dual[:-2], 0.0)
        return lam / lam.sum(), w / w.sum(), max(0.0, -float(dual[-2])) * (1.0 + slope)

    def canonical(self, limit: float) -> Floats | None:
        """Return the λ of least largest loss within the limit, then least mean, then of earlier members."""
        n_members = len(self.means)
        costs = (
            np.append(np.zeros(n_members), 1.0),
            np.append(self.means, 0.0),
            np.append((np.arange(n_members) / n_members) ** 2, 0.0),
        )
        upper = self.upper.copy()
        upper[-2] = limit
        x = lexicographic_vertex(costs, self.matrix, self.lower, upper)
        if x is None:
            return None
        lam = np.where(x[:-1] > TOLERANCE, x[:-1], 0.0)
        return lam / lam.sum()


def lexicographic_vertex(
    costs: Sequence[Floats], matrix: Floats, lower: Floats, upper: Floats
) -> Floats | None:
    """Find a vertex of {x: lower ≤ matrix x ≤ upper} minimal for each cost in turn; None if the set is empty.

    All entries of x are non-negative but the last, which is free. After each cost the columns and rows that
    its dual solution binds are fixed, so the next one moves along the optimal face exactly, without a
    tolerance on the objective.
    """
    n_columns = matrix.shape[1]
    floor = np.append(np.zeros(n_columns - 1), -np.inf)
    even = lower == upper
    if even.sum() > n_columns / 2:
        origin, basis = _flat(matrix[even], lower[even])
        if basis.shape[1] <= n_columns / 4:
            # Few directions are left in which x may move: x = origin + basis y.
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
    """Solve ``matrix`` x = ``right``: the least solution and an orthonormal basis of directions (columns)."""
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
            # A minimising row with a positive dual rests on its lower side.
            lower[i] = upper[i] = lower[i] if duals[i] > 0 else upper[i]
            highs.changeRowBounds(int(i), lower[i], upper[i])
    return x


def highs_model(
    cost: Floats,
    matrix: Floats,
    rows: tuple[Floats, Floats],
    columns: tuple[Floats, Floats],
) -> Any:
    """Return HiGHS with a linear program: min ⟨cost, x⟩ over bounded rows and columns."""
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
