"""Rules of the hypotheses of a game: their rates on the selection data, and their trade-off curves."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailboost.boosting.ensemble import MixtureEnsemble
from tailboost.core.array_types import Floats, Stated
from tailboost.rates import Limit
from tailboost.selection.curve import limits_between
from tailboost.selection.mixture import Mixture
from tailboost.selection.problem import Problem
from tailboost.selection.program import SLIGHT, Best, Program, best_in_pool, within_budget
from tailboost.selection.selected import Comparison, Selected, SelectedRule, SelectedTail


def rule_of(mixture: Mixture, ensemble: MixtureEnsemble) -> Selected:
    """Return the rule that answers by the label with the largest weight, with its rates."""
    rows = mixture.pool.rows
    about: dict[str, Any] = {
        "problem": mixture.problem,
        "program": mixture.program,
        "ensemble": ensemble,
        "words": rows.words,
        "refit": rows.refit,
        "spread": mixture.refit_spread,
        "fitted": rows.fitted,
    }
    if mixture.problem.over_rows:
        counts = mixture.counts
        return SelectedTail(**about, mixture=mixture, data=counts.data, inside=counts.inside)
    pool = mixture.candidates()
    alone = Best.alone(mixture.program, 0, mixture.predicted(ensemble))
    compared = Comparison(pool, mixture.program, alone)
    return SelectedRule(**about, pool=pool, selection=alone, compared=compared)


def along(
    mixture: Mixture, problem: Problem, limited: Stated, n_points: int
) -> tuple[list[MixtureEnsemble], Floats]:
    """Return rules between the least objective and the tightest limit on another rate.

    The second result is the limited rate and the objective of each rule, shape (B, 2). If hypotheses may be
    mixed, rules are selected for ``n_points`` limits; otherwise each hypothesis within the limits is one.
    """
    pool = mixture.candidates()
    strata = pool.data.strata

    def budgeted(problem: Problem) -> Program:
        program = Program.of_rates(strata, problem.objective, problem.limits)
        return within_budget(pool, program, problem.error_budget)

    def mixed(problem: Problem) -> Best:
        return best_in_pool(pool, budgeted(problem), randomized=True)

    def rate(measured: Stated, counts: Floats) -> float:
        return float(measured.value(measured.rate.terms(strata).values(counts)))

    found: list[Best] = []
    if problem.randomized:
        limits: list[Limit] = limits_between(
            limited, lambda problem: rate(limited, mixed(problem).counts), problem, n_points
        )
        found = [mixed(problem.also_within(limit)) for limit in limits]
        found = [best for best in found if best.keeps]
    else:
        program = budgeted(problem)
        _, violation = program.evaluate(pool.all_counts)
        for number in np.flatnonzero(violation <= SLIGHT).tolist():
            found.append(Best.alone(program, number, pool.counts[number]))
    reached = [
        (rate(limited, best.counts), rate(problem.objective, best.counts)) for best in found
    ]
    ensembles = [mixture.pool.rule(mixture.weights(best)) for best in found]
    return ensembles, np.array(reached).reshape(-1, 2)
