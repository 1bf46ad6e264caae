"""Model files, rule files, and the ledger of attempts beside a table."""

import json
import os
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

import tailboost as tb
from tailboost.app.cli.tables import FileRows, Reader, Roles
from tailboost.core import frozen_value, write_output
from tailboost.rows import Attempt, Ledger, Rows, refuse_repeated

try:
    import fcntl
except ImportError:  # on Windows there are no locks
    fcntl = None  # type: ignore[assignment]

RULE = ".json"
MODEL = ".model"
LEDGER = "tailboost-attempts.json"  # of the attempts on the tables of a folder


@frozen_value
class Stored:
    """The classifier of a model or rule file, with the roles of columns.

    ``scores`` are the columns of a rule file.
    """

    classifier: Any
    roles: Roles
    scores: Any = None

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file of ``fit``, ``tune``, ``calibrate`` or Python."""
        from sklearn.base import is_classifier

        from tailboost.storage.models import read_notes

        if path.suffix != RULE:
            model = tb.load_model(path)
            if not is_classifier(model):
                raise ValueError(f"{str(path)!r} has no classifier")
            noted = read_notes(path)["notes"].get("roles")
            roles = Roles()
            if isinstance(noted, dict) and noted.keys() <= vars(roles).keys():
                roles = Roles(**noted)  # otherwise a note of Python
            kinds = getattr(model, "_columns", None)  # of a mixture that Python trained
            if kinds and not roles.features:
                names = model.feature_names_in_
                texts = np.delete(names, kinds.numbers)
                roles = roles.given(features=tuple(names), text=tuple(texts))
            return cls(model, roles)
        rule = tb.load_rule(path)
        if isinstance(rule, tb.ThresholdRule | tb.Rule):
            raise ValueError(f"{str(path)!r} is a rule alone: write it by tailboost.save_rule")
        notes = {"features": rule.scores_.column_list, **rule.evidence_.selection.notes}
        return cls(rule, Roles(**notes), rule.scores_)

    def rows(
        self, reader: Reader, path: Path, *, ids: Collection[Any] = (), **stated: Any
    ) -> FileRows:
        """Return the rows of a file by the roles of the classifier and those of options."""
        groups = getattr(self.classifier, "groups_", [])
        titles = (each[0] for each in groups if isinstance(each, tuple))
        roles = self.roles.given(titles).given(**stated)
        rows = reader.read(path, roles, ids)
        names = roles.features or getattr(self.classifier, "feature_names_in_", ())
        return replace(
            rows,
            roles=rows.roles.given(features=tuple(names)),
            known=self.classifier.classes_.tolist(),
        )


def write(classifier: Any, path: Path, roles: Roles) -> None:
    """Write a classifier as a rule file or a model file."""
    from tailboost.storage.rule_files import write_rule

    if path.suffix == RULE:
        write_rule(classifier, path, asdict(roles))
    else:
        tb.save_model(classifier, path, notes={"roles": asdict(roles)})


class _Entry(NamedTuple):
    """An attempt in the ledger of a folder, with the target that it predicts and the given rule."""

    target: str | None
    attempt: Attempt
    rule: str | None = None  # its digest, if one was given


def calibrated(model: Any, rows: FileRows, given: Any, **options: Any) -> Any:
    """Return the result of `tailboost.calibrate`, and record the attempt beside the table.

    What was ``given`` is the model, or a rule of these scores. Its attempts count, and the result knows all
    rows that it knows.
    """
    from tailboost.selection.door import answering

    before = answering(given)
    records = before.known[0].records
    path = rows.path.resolve().with_name(LEDGER)
    target = rows.roles.target
    with held(path, 600):  # as long as another calibration on a table of the folder may take
        entries = _read_ledger(path)
        decided = answering(model)
        seen = decided.seen(decided.score(rows.features), Rows.read(y=rows.labels), "")
        refuse_repeated(seen, records.used, "copies")
        # On rows of the call attempts count under any name of the target.
        here = [
            each.attempt
            for each in entries.values()
            if each.target == target or seen.repeats(each.attempt.rows)
        ]
        earlier = *records.ledger.attempts, *here
        if earlier:
            options["previous"] = Ledger(earlier)
        refusal = None
        try:
            rule: Any = tb.calibrate(model, **rows.given, **options)
            attempts = rule.certificate_.attempts
        except tb.NotCertifiedError as error:
            refusal = error
            attempts = error.attempts
        for each in attempts:
            entries.setdefault(each.key, _Entry(target, each, before.rule.digest))
        if attempts:
            documents = [*map(_Entry._asdict, entries.values())]
            write_output(path, json.dumps(documents, default=Attempt.to_dict))
    if refusal:
        raise refusal
    rule._know(*records.used)
    return rule


def recall_attempts(classifier: Any, rows: FileRows) -> None:
    """Make the rows of attempts beside a table known to their rule, whose file does not have them."""
    from tailboost.selection.door import answering

    if isinstance(classifier, tb.TunedClassifier):
        entries = _read_ledger(rows.path.resolve().with_name(LEDGER)).values()
        digest = answering(classifier).rule.digest
        classifier._know(*(each.attempt.rows for each in entries if each.rule == digest))


def _read_ledger(path: Path) -> dict[str, _Entry]:
    """Return the attempts on the tables of a folder by their keys; none without a file."""
    entries = {}
    try:
        for each in list.copy(json.loads(path.read_text("utf-8"))):  # of a list alone
            attempt = Attempt.from_dict(each["attempt"])
            entries[attempt.key] = _Entry(each["target"], attempt, each.get("rule"))
    except FileNotFoundError:
        pass
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"{str(path)!r}, the record of attempts, is damaged: restore a copy of it"
        ) from None
    return entries


@contextmanager
def held(path: Path, patience: float) -> Iterator[None]:
    """Lock a file while the block reads and replaces it, for other processes and threads.

    Wait ``patience`` seconds for another holder; then raise BlockingIOError.
    """
    lock_path = Path(f"{os.path.realpath(path)}.lock")
    deadline = time.monotonic() + patience
    while True:
        file = lock_path.open("a")
        with suppress(BlockingIOError, FileNotFoundError):
            if fcntl:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The last holder may have removed the file between our opening and our locking.
            if os.path.samestat(os.fstat(file.fileno()), lock_path.stat()):
                break
        file.close()
        if time.monotonic() >= deadline:
            raise BlockingIOError(
                f"{str(path)!r} is in use by another process; run this again afterwards"
            )
        time.sleep(0.02)
    try:
        yield
    finally:
        with suppress(OSError):
            lock_path.unlink()
        file.close()
