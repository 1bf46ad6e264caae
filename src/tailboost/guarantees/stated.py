"""Rules in the place of models."""

from __future__ import annotations

from typing import Any

from tailboost.core.array_types import Model
from tailboost.selection.rule import Rule, ThresholdRule


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
            "model is a rule without its models or columns, as to_json writes it: give the classifier whose "
            "rule_ it is, or load_rule of a file of tailboost.save_rule"
        )
    return model.classifier
