"""Certificates for losses that the user computes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tailboost.core.array_types import Column, Floats, Groups, Ints
from tailboost.core.checks import (
    check_alpha,
    check_length,
    check_number,
    finite,
    label_column,
    numbered_clusters,
)
from tailboost.core.spelling import with_known_arguments
from tailboost.guarantees.certificates import Certificate, today, worst_of
from tailboost.guarantees.fresh_rows import one_vote
from tailboost.guarantees.rate_bounds import CertifiedBound, Kind, mean_bound
from tailboost.rates import Sample
from tailboost.rates.bounds import band_cvar, band_shift, cvar_of_mean, shift_of_mean, tail_band
from tailboost.rows.fingerprints import hash_rows, numbered_by_rows, random_numbers
from tailboost.solvers import cvar, worst_case_weights

BAND = "Kolmogorov–Smirnov band"


@with_known_arguments()
def certify_losses(
    losses: Any,
    *,
    groups: Groups = None,
    max_loss: float | None = None,
    confidence: float = 0.95,
    alphas: Sequence[float] = (),
    shifts: Sequence[float] = (),
    clusters: Column = None,
) -> Certificate:
    """Return confidence bounds on a mean loss, on the mean loss of each group, and on tails.

    All bounds hold together with probability `confidence`, if the rows are independent draws that had no
    part in the choice of the model. The level is divided equally among the mean and the groups, and a band
    for tails.

    The expected losses of a randomised rule are ``1 - P[np.arange(n), y]`` with its label distribution
    ``P = clf.predict_distribution(X)`` and class numbers y.

    Parameters
    ----------
    losses : array-like of shape (n,)
        Loss of each row in [0, 1], for example a graded harm or the share of wrong words of an answer. Losses
        of type bool or int say that only 0 and 1 are possible.
    groups : array-like of shape (n,), optional
        Group of each row.
    max_loss : float in [0, 1], optional
        Target for the mean and each group.
    confidence : float in (0, 1), default=0.95
        Probability that all bounds hold.
    alphas : sequence of float in (0, 1]
        Tail masses of CVaR bounds.
    shifts : sequence of float ≥ 0
        Radii of shifts of the population, as relative entropy KL(shifted ‖ this); see `tailboost.robustness`.
    clusters : array-like of shape (n,), optional
        Cluster of each row, as in `certify`: one random row of each cluster counts in the mean and in each
        group.

    Returns
    -------
    Certificate
        Its ``bounds`` are the mean, the CVaR at each of `alphas`, the mean under each of `shifts`, each group
        and the worst group among these rows. Losses of type bool or int have exact binomial bounds, losses of
        type float have betting bounds, also if all of them are 0 or 1: a bound that their values select could
        fail more often. Tails follow from the mean, and of losses of type float also from a band.

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
    >>> wrong = np.arange(200) < 8
    >>> certificate = certify_losses(wrong, max_loss=0.1, alphas=[0.5])
    >>> certificate.certified, round(certificate.bound("mean").upper, 3)
    (True, 0.071)
    >>> round(certificate.bound("cvar", 0.5).upper, 3)
    0.142
    """
    values = _checked_losses(losses)
    only_zero_and_one = np.asarray(losses).dtype.kind in "biu"
    delta = 1.0 - check_number(confidence, "confidence", 0.0, 1.0, below=True)
    if max_loss is not None:
        check_number(max_loss, "max_loss", 0.0, 1.0, closed=True)
    tails = [check_alpha(alpha, "each of alphas") for alpha in np.atleast_1d(alphas).tolist()]
    radii = [
        check_number(radius, "each of shifts", 0, closed=True)
        for radius in np.atleast_1d(shifts).tolist()
    ]

    samples = _samples(values, groups, clusters)
    parts_of_level = f"{len(samples)} means"
    n_parts = len(samples)
    # The tail of losses of 0 and 1 follows from their mean alone.
    has_band = bool(tails or radii) and not only_zero_and_one
    if has_band:
        parts_of_level += " and a band for tails"
        n_parts += 1
    level = delta / n_parts

    method = mean_bound(counts=only_zero_and_one)
    bounds: list[CertifiedBound] = []
    for kind, sample in samples:
        bound = CertifiedBound(
            kind,
            sample.name,
            estimate=float(sample.mean),
            upper=method.upper(sample.values, level),
            n=len(sample.rows),
            method=method.name,
            target=max_loss,
            rule="given losses",
        )
        bounds.append(bound)
        if kind == "mean":
            band = tail_band(sample.values, level) if has_band else None
            bounds += _tail_bounds(bound, sample.values, tails, radii, band)
    if groups is not None:
        bounds_on_groups = [bound for bound in bounds if bound.kind == "group"]
        bounds.append(worst_of(bounds_on_groups, all_listed=False))

    notes = [
        "Assumptions: the rows are independent draws from the population of the bounds, and "
        "they had no part in the choice of the model or of the loss.",
        f"The level {delta:.3g} is divided equally among {parts_of_level}.",
    ]
    if not only_zero_and_one and np.isin(values, (0, 1)).all():
        notes.append(
            "All losses are 0 or 1, but of type float. If no other loss is possible, losses of "
            "type bool have tighter bounds."
        )
    return Certificate(
        tuple(bounds),
        confidence=confidence,
        n_rows=len(values),
        notes=tuple(notes),
        date=today(),
    )


def _checked_losses(losses: Any) -> Floats:
    """Return losses as a vector; raise ValueError for another shape, no row, or a loss outside of [0, 1]."""
    values = finite(losses, "losses")
    is_vector_with_rows = values.ndim == 1 and len(values) > 0
    is_outside = (values < 0) | (values > 1)
    if is_vector_with_rows and not is_outside.any():
        return values

    first_outside = ""
    if is_vector_with_rows:
        row = int(np.flatnonzero(is_outside)[0])
        first_outside = (
            f", got {values[row]:g} in row {row}; divide by the largest possible loss"
        )
    raise ValueError(
        f"losses must be a vector of numbers in [0, 1] with at least one row{first_outside}"
    )


def _samples(losses: Floats, groups: Groups, clusters: Column) -> list[tuple[Kind, Sample]]:
    """Return the kind of each bound on a mean, and the sample of its losses: of all rows, then of each group.

    ``losses`` has shape (n,), in [0, 1]. One random row of a cluster counts among all rows, and one in each
    group.
    """

    def sample_of(name: Any, rows: Ints) -> Sample:
        return Sample(name, rows, losses[rows], low=0.0, high=1.0)

    all_rows = np.arange(len(losses))
    samples: list[tuple[Kind, Sample]] = [("mean", sample_of(None, all_rows))]
    group_number = np.zeros(len(losses), dtype=np.intp)
    if groups is not None:
        group_of_row = label_column(groups, "groups")
        check_length(group_of_row, "groups", len(losses), "losses")
        names, group_number = np.unique(group_of_row, return_inverse=True)
        for number, name in enumerate(names.tolist()):
            rows = np.flatnonzero(group_number == number)
            samples.append(("group", sample_of(name, rows)))
    cluster_of_row = numbered_clusters(clusters, len(losses))
    if cluster_of_row is None:
        return samples
    contents = hash_rows(losses[:, None])
    group_number = numbered_by_rows(group_number, contents)
    draws = random_numbers(contents, group_number, clusters=cluster_of_row)
    return [(kind, one_vote(sample, cluster_of_row, draws)) for kind, sample in samples]


def _tail_bounds(
    mean: CertifiedBound,
    losses: Floats,
    tails: Sequence[float],
    radii: Sequence[float],
    band: tuple[Floats, Floats] | None,
) -> Iterator[CertifiedBound]:
    """Yield bounds on CVaR and under shifts: from the bound on the mean, or from a band if it is tighter.

    Parameters
    ----------
    mean : CertifiedBound
        The bound on the mean of all rows.
    losses : ndarray of shape (n,)
        The losses of all rows.
    tails, radii : sequence of float
        α of each CVaR, and the radius of each shift.
    band : (ndarray, ndarray) or None
        From `tail_band`; None if the mean alone gives the exact tail.
    """
    cvar_formulas = (cvar_of_mean, band_cvar)
    shift_formulas = (shift_of_mean, band_shift)
    requested: list[tuple[Kind, float, Any]] = [
        ("cvar", alpha, cvar_formulas) for alpha in tails
    ]
    requested += [("shift", radius, shift_formulas) for radius in radii]

    for kind, alpha_or_radius, (bound_from_mean, bound_from_band) in requested:
        if kind == "cvar":
            estimate = cvar(losses, alpha_or_radius)
        else:
            estimate = worst_case_weights(losses, "kl", radius=alpha_or_radius).value

        upper = bound_from_mean(mean.upper, alpha_or_radius)
        method = "exactly from the mean"
        if band is not None:
            method = "from the mean"
            upper_from_band = bound_from_band(band, alpha_or_radius)
            if upper_from_band < upper:
                upper = upper_from_band
                method = BAND

        yield replace(
            mean,
            kind=kind,
            subgroup=alpha_or_radius,
            estimate=estimate,
            upper=upper,
            method=method,
            target=None,
        )
