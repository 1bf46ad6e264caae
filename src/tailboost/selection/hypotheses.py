"""Rules of the hypotheses of a game: their rates on the selection data, and their trade-off curves."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailboost.boosting.ensemble import MixtureEnsemble
from tailboost.core.array_types import Floats, Stated
from tailboost.selection.curve import limits_between
from tailboost.selection.mixture import Mixture
from tailboost.selection.problem import Problem
from tailboost.selection.program import Best, Program, best_in_pool, within_budget
from tailboost.selection.selected import Selected, SelectedRule, SelectedTail


def rule_of(mixture: Mixture, ensemble: MixtureEnsemble) -> Selected:
    """Return the rule of an ensemble of hypotheses, with its rates on the rows of their pool.

    The rule answers with the label of the largest weight.
    """
    rows = mixture.pool.rows
    facts: dict[str, Any] = {
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
        return SelectedTail(**facts, mixture=mixture, data=counts.data, inside=counts.inside)
    pool = mixture.candidates()
    alone = Best.alone(mixture.program, 0, mixture.predicted(ensemble))
    return SelectedRule(**facts, pool=pool, selection=alone)


def along(
    mixture: Mixture, problem: Problem, limited: Stated, n_points: int
) -> tuple[list[MixtureEnsemble], Floats]:
    """Return rules between the least objective and the tightest limit on another rate.

    ``limited`` is this other rate. The second result has the limited rate and the objective of each rule,
    shape (B, 2). If hypotheses may be mixed, rules are selected for ``n_points`` limits; otherwise each
    hypothesis within the limits is one.
    """
    pool = mixture.candidates()
    strata = pool.data.strata

    def program_of(problem: Problem) -> Program:
        program = Program.of_rates(strata, problem.objective, problem.limits)
        return within_budget(pool, program, problem.error_budget)

    def best_mixture(problem: Problem) -> Best:
        return best_in_pool(pool, program_of(problem), randomized=True)

    def rate_of(measured: Stated, counts: Floats) -> float:
        return float(measured.value(measured.rate.terms(strata).values(counts)))

    selections: list[Best] = []
    if problem.randomized:
        limits = limits_between(
            limited,
            lambda problem: rate_of(limited, best_mixture(problem).counts),
            problem,
            n_points,
        )
        selections = [best_mixture(problem.also_within(limit)) for limit in limits]
        selections = [best for best in selections if best.keeps]
    else:
        program = program_of(problem)
        for number in program.keeping(pool.all_counts).tolist():
            selections.append(Best.alone(program, number, pool.counts[number]))

    reached = [
        (rate_of(limited, best.counts), rate_of(problem.objective, best.counts))
        for best in selections
    ]
    ensembles = [mixture.pool.rule(mixture.weights(best)) for best in selections]
    return ensembles, np.array(reached).reshape(-1, 2)
