"""The targets of `certify`, `calibrate` and `Monitor.against`, if the caller states nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tailboost.core.array_types import Model
from tailboost.rates import Limit, error
from tailboost.rows.judged import judged, last_step
from tailboost.selection.rule import Rule
from tailboost.selection.threshold_rule import ThresholdRule


@dataclass(frozen=True)
class StatedTargets:
    """Largest errors by name, or limits on rates: at most one of them is there, the other None or empty."""

    max_error: dict[Any, float] | None = None
    limits: tuple[Limit, ...] = ()


def as_model(model: Model) -> Any:
    """Return the classifier of a rule that `tailboost.load_rule` has read; other models as they are.

    Raises
    ------
    ValueError
        If the rule was not read: it does not know its columns.
    """
    if not isinstance(model, (Rule, ThresholdRule)):
        return model
    if model.classifier is None:
        raise ValueError(
            "model is a rule without its models or columns, as to_json writes it: give the "
            "classifier whose rule_ it is, or load_rule of a file of tailboost.save_rule, "
            "`tailboost tune` or `tailboost calibrate`; save_model keeps a classifier with "
            "models in a file"
        )
    return model.classifier


def stated_by(model: Model) -> StatedTargets:
    """Return the certified errors of a classifier or, without certified errors, the targets of its fit.

    Targets of the fit are its limits. Of a boosting classifier whose only limit is on class errors they are
    the errors, without classes that may always err.
    """
    final = judged(last_step(model))
    certificate = final.certificate
    if certificate is not None:
        # A boosting classifier has tighter limits than the certified ones.
        certified_errors = {
            bound.subgroup: bound.target
            for bound in certificate.bounds
            if bound.target is not None and (bound.rate is None or not final.takes_limits)
        }
        if certified_errors:
            return StatedTargets(certified_errors)
    limits = final.stated_limits
    if final.takes_limits or [limit.rate for limit in limits] != [error(by="class")]:
        return StatedTargets(limits=limits)
    # The only limit is on class errors, without a target for classes with the bound 1.
    labels = last_step(model).classes_.tolist()
    bounds = limits[0].bounds(labels).tolist()
    return StatedTargets(
        {label: bound for label, bound in zip(labels, bounds, strict=True) if bound < 1}
    )
