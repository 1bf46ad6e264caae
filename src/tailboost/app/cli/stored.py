"""Model files, rule files, and the ledger of attempts beside a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import tailboost as tb
from tailboost.app.cli.tables import Roles, Rows
from tailboost.core.files import held, write_output
from tailboost.rows.ledger import Attempt, Ledger
from tailboost.rows.readers import row_hashes
from tailboost.rows.seen import Seen
from tailboost.storage.models import read_notes

RULE, MODEL = ".json", ".model"
LEDGER = "tailboost-attempts.json"
# Seconds to wait for another process that calibrates on a table of the same folder.
_PATIENCE = 600.0


@dataclass(frozen=True)
class Stored:
    """The classifier of a model or rule file, with the roles of columns.

    ``scores`` and ``settings`` are those of a rule file: its columns of scores, and the arguments of `tune`.
    """

    classifier: Any
    roles: Roles
    scores: Any = None
    settings: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file of ``fit``, ``tune``, ``calibrate`` or Python."""
        if path.suffix != RULE:
            return cls(tb.load_model(path), Roles(**read_notes(path)["notes"].get("roles", {})))
        rule_file = tb.load_rule(path).file
        if rule_file is None:
            raise ValueError(f"{str(path)!r} is a rule alone: write it by tailboost.save_rule")
        selection = rule_file.content["selection"]
        roles = Roles(
            selection["target"], tuple(selection["group"]), None, tuple(selection["scores"])
        )
        settings = {name: selection[name] for name in ("limits", "by_group", "objective")}
        classifier = rule_file.classifier
        return cls(classifier, roles, classifier.scores, settings)

    @property
    def known(self) -> list[Any]:
        """The labels and groups that the classifier knows."""
        groups = getattr(self.classifier, "groups_", [])
        return [
            *self.classifier.classes_,
            *(each[1] for each in groups if isinstance(each, tuple)),
        ]


def write(classifier: Any, path: Path, roles: Roles) -> None:
    """Write a classifier as a rule file or a model file."""
    if path.suffix == RULE:
        tb.save_rule(classifier, path, target=roles.target)
    else:
        tb.save_model(classifier, path, notes={"roles": roles.to_dict()})


def calibrated(model: Any, rows: Rows, selected: Sequence[Seen] = (), **options: Any) -> Any:
    """Return the result of `tailboost.calibrate`, and record the attempt beside the table.

    Rows that ``selected`` a rule of these scores before are refused.

    An earlier attempt on a table of the folder counts if it had rows of this call, whatever the name of its
    file, or if it certified nothing for this target and no later one did.
    """
    path = rows.path.resolve().parent / LEDGER
    with held(path, _PATIENCE):
        entries = _read_ledger(path)
        features = rows.features
        labels = rows.labels
        hashes = row_hashes(model, features)
        given = [
            Seen.of(hashes),
            Seen.of(hashes, labels=labels.to_numpy()),
        ]  # as features, and as scores
        if any(each.repeats(known) for each in given for known in selected):
            raise ValueError(
                f"{str(rows.path)!r} has rows that selected the rule: give fresh rows"
            )
        target = rows.roles.target
        counting: list[_Entry] = []
        for entry in entries:
            if entry.target == target and entry.certified:
                counting = []
            elif entry.target == target:
                counting.append(entry)
        counting += [
            entry
            for entry in entries
            if entry not in counting and any(each.repeats(entry.attempt.rows) for each in given)
        ]
        previous = Ledger(tuple(each.attempt for each in counting)) if counting else None
        attempts: Sequence[Attempt] = ()
        certified = False
        try:
            rule = tb.calibrate(
                model,
                features,
                labels,
                groups=rows.groups,
                clusters=rows.clusters,
                previous=previous,
                **options,
            )
            attempts = rule.certificate_.attempts
            certified = True
        except tb.NotCertifiedError as error:
            attempts = error.attempts
            raise
        finally:
            recorded = {each.attempt.key for each in entries}
            new = [
                _Entry(target, certified, each) for each in attempts if each.key not in recorded
            ]
            if new:
                documents = [
                    each._asdict() | {"attempt": each.attempt.to_dict()}
                    for each in (*entries, *new)
                ]
                write_output(path, json.dumps(documents) + "\n")
    return rule


class _Entry(NamedTuple):
    """An attempt in the ledger of a folder, with the target that it predicts."""

    target: str | None
    certified: bool
    attempt: Attempt


def _read_ledger(path: Path) -> list[_Entry]:
    """Return the attempts on the tables of a folder; none without a file."""
    if not path.exists():
        return []
    try:
        documents = json.loads(path.read_text("utf-8"))
        return [
            _Entry(**each | {"attempt": Attempt.from_dict(each["attempt"])})
            for each in documents
        ]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{str(path)!r}, the record of attempts, is damaged") from None
