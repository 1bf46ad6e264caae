"""The option ``--max-error``: errors allowed, for all units or by their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from tailboost.app.cli.shared import BadInput, read_number

Targets: TypeAlias = float | dict[Any, float] | None


def read_targets(text: str | None) -> Targets:
    """Read ``.3`` or ``yes=.2,no=.1,*=.4``; the last = of an item separates the name from the error."""
    if text is None:
        return None
    found: dict[Any, float] = {}
    for item in text.split(","):
        name, equals, number = item.strip().rpartition("=")
        try:
            value = read_number(number)
        except ValueError:
            raise BadInput(f"--max-error: {item.strip()!r} must be NAME=ERROR, as in 'yes=.2,*=.4'") from None
        if not 0 < value <= 1:
            raise BadInput(f"--max-error: {number} is not in (0, 1]")
        if not equals and "," not in text:
            return value
        if not name or (key := None if name == "*" else name) in found:
            raise BadInput(f"--max-error: {item.strip()!r} has no name, or one that stands twice")
        found[key] = value
    return found


def stated_max_error(classifier: Any) -> Any:
    """Return the errors that were allowed when a classifier was fitted; None where none were stated."""
    allowed = getattr(classifier, "max_error", None)
    return None if allowed == "auto" else allowed


def targets_by_label(targets: Targets, classes: Any, columns: Sequence[str]) -> Targets:
    """Return targets by what the units are: labels as the model knows them, groups as (column, value)."""
    if not isinstance(targets, dict):
        return targets
    labels = {str(label): label for label in classes.tolist()}

    def unit(name: Any) -> Any:
        if name is None or name in labels:
            return labels.get(name)
        column, equals, value = name.partition("=")
        return (column, value) if equals and column in columns else name

    return {unit(name): error for name, error in targets.items()}
