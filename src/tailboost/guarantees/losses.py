"""Certificates for losses that the user computes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailboost.core.array_types import Floats, Groups
from tailboost.core.checks import check_length, check_number, finite, label_column
from tailboost.guarantees.certificates import Certificate, worst_of
from tailboost.guarantees.rate_bounds import CertifiedBound, mean_bound


def certify_losses(
    losses: Any,
    *,
    groups: Groups = None,
    max_loss: float | None = None,
    confidence: float = 0.95,
) -> Certificate:
    """Return confidence bounds on a mean loss and on the mean loss of each group.

    All bounds hold together with probability `confidence`, if the rows are independent draws that had no
    part in the choice of the model. The level is divided equally among the mean and the groups.

    Parameters
    ----------
    losses : array-like of shape (n,)
        Loss of each row in [0, 1], for example a graded harm or the share of wrong words of an answer.
    groups : array-like of shape (n,), optional
        Group of each row.
    max_loss : float in [0, 1], optional
        Target for the mean and each group.
    confidence : float in (0, 1), default=0.95
        Probability that all bounds hold.

    Returns
    -------
    Certificate
        Its ``bounds`` are the mean, each group and the worst group among these rows. Losses of 0 and 1 have
        exact binomial bounds, other losses have betting bounds.

    Raises
    ------
    ValueError
        If a loss is outside of [0, 1] or a length is wrong.

    See Also
    --------
    certify : Bounds on errors and other rates of a classifier.

    Examples
    --------
    >>> import numpy as np
    >>> from tailboost import certify_losses
    >>> losses = np.r_[np.ones(8), np.zeros(192)]
    >>> certificate = certify_losses(losses, max_loss=0.1)
    >>> certificate.certified, round(certificate.bound("mean").upper, 3)
    (True, 0.071)
    """
    values = finite(losses, "losses")
    if values.ndim != 1 or not len(values) or ((values < 0) | (values > 1)).any():
        raise ValueError("losses must be a vector of numbers in [0, 1] with at least one row")
    delta = 1.0 - check_number(confidence, "confidence", 0.0, 1.0, below=True)
    if max_loss is not None:
        check_number(max_loss, "max_loss", 0.0, 1.0, closed=True)
    subgroups: list[tuple[Any, Any, Floats]] = [("mean", None, values)]
    if groups is not None:
        labels = label_column(groups, "groups")
        check_length(labels, "groups", len(values), "losses")
        subgroups += [
            ("group", name, values[labels == name]) for name in np.unique(labels).tolist()
        ]
    bounds = []
    for kind, name, of_subgroup in subgroups:
        by = mean_bound(counts=bool(np.isin(of_subgroup, (0, 1)).all()))
        bounds.append(
            CertifiedBound(
                kind,
                name,
                estimate=float(of_subgroup.mean()),
                upper=by.upper(of_subgroup, delta / len(subgroups)),
                n=len(of_subgroup),
                method=by.name,
                target=max_loss,
            )
        )
    if groups is not None:
        bounds.append(worst_of(bounds[1:], all_listed=False))
    notes = (
        "Assumptions: the rows are independent draws from the population of the bounds, and "
        "they had no part "
        "in the choice of the model or of the loss.",
        f"The level {delta:.3g} is divided equally among {len(subgroups)} means.",
    )
    return Certificate(tuple(bounds), confidence, len(values), notes)
