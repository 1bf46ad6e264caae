"""Groups to which a rule gives one answer alone, and sentences about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats
from tailboost.core.spelling import how_many, joined
from tailboost.rates import Limit, Rate, Strata
from tailboost.rates.strata import CELL, CLASS, EVERYTHING, GROUP
from tailboost.rows.subgroups import HUMAN_REVIEW, unit_name

# The most groups named in a sentence.
MOST_GROUPS = 8


def answer_names(strata: Strata) -> list[str]:
    """Return the printed name of each answer by its number: the labels, then the name of deferral."""
    return [*map(repr, strata.classes), HUMAN_REVIEW]


def group_words(name: str, by: Any, rates: Sequence[Rate]) -> str:
    """Return the name of a group, with its column if ``rates`` are about the groups of several columns."""
    kinds = {rate.by for rate in rates} - {EVERYTHING, CLASS, CELL}
    if by in kinds and len(kinds) > 1:
        columns = " and ".join(map(str, by)) if isinstance(by, tuple) else by
        return f"{columns} {name}"
    return name


def groups_of_one_answer(strata: Strata, counts: Floats, by: Any) -> dict[Any, int]:
    """Return the number of the answer of each group in which all rows have one answer.

    There are none if the rule gives one answer to all rows.

    Parameters
    ----------
    strata : Strata
        The strata of the rows; S is their number.
    counts : ndarray of shape (W, A)
        The confusion counts of the rule; the first S rows are weights, others are costs.
    by : object
        The groups, as of a rate.
    """
    if by in (EVERYTHING, CLASS, CELL):
        return {}
    groups, strata_of_groups = strata.subgroups(by)
    is_given = strata_of_groups.astype(np.float64) @ counts[: len(strata.mass)] > 0
    if is_given.any(axis=0).sum() < 2:
        return {}
    return {
        group: int(answers.argmax())
        for group, answers in zip(groups, is_given, strict=True)
        if answers.sum() == 1
    }


def one_answer_sentences(
    strata: Strata, counts: Floats, limits: Sequence[Limit], columns_read: Sequence[Any]
) -> list[str]:
    """Return a sentence for each answer that is the only one in some groups, with their number of rows.

    These are the groups of the limits, and those that the rule reads.

    Parameters
    ----------
    strata, counts
        As in `groups_of_one_answer`.
    limits : sequence of Limit
        The limits of the rule.
    columns_read : sequence
        Names of the columns of groups that the rule reads; None for a column without a name.
    """
    rates = [limit.rate for limit in limits]
    kinds = [rate.by for rate in rates]
    if GROUP not in kinds:
        kinds += [GROUP if column is None else column for column in columns_read]
    names_by_answer: dict[int, list[str]] = {}
    rows_by_answer: dict[int, float] = {}
    for by in dict.fromkeys(kinds):
        one_answer = groups_of_one_answer(strata, counts, by)
        for group, of_group in zip(*strata.subgroups(by), strict=True):
            if group in one_answer:
                answer = one_answer[group]
                name = group_words(unit_name(group), by, rates)
                names_by_answer.setdefault(answer, []).append(name)
                rows_by_answer[answer] = (
                    rows_by_answer.get(answer, 0.0) + strata.size[of_group].sum()
                )

    labels = answer_names(strata)
    sentences = []
    for answer, names in names_by_answer.items():
        words = f"every row gets {labels[answer]}"
        if strata.n_actions == 2:
            words = f"no row gets {labels[1 - answer]}"
        n_rows = how_many(round(rows_by_answer[answer]), "row")
        sentences.append(f"{joined(names, MOST_GROUPS)}: {words} ({n_rows}).")
    return sentences
