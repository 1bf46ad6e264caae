"""Model files, rule files, and the ledger of attempts beside a table."""

import json
import os
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

import tailboost as tb
from tailboost.app.cli.tables import FileRows, Reader, Roles
from tailboost.core import as_known, frozen_value, write_output
from tailboost.rows import HUMAN_REVIEW, Attempt, Ledger, Rows, refuse_repeated

try:
    import fcntl
except ImportError:  # on Windows there are no locks
    fcntl = None  # type: ignore[assignment]

RULE = ".json"
MODEL = ".model"
LEDGER = "tailboost-attempts.json"  # of the attempts on the tables of a folder


@frozen_value
class Stored:
    """The classifier of a model or rule file, and the roles of the columns of its tables.

    Attributes
    ----------
    classifier : fitted classifier or Scores
        The classifier; columns of scores that have no rule yet, for ``calibrate --score``.
    roles : Roles
        The roles.
    scores : Scores or None
        The columns on which the rule of a rule file decides.
    """

    classifier: Any
    roles: Roles
    scores: Any = None

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file of ``fit``, ``tune``, ``calibrate`` or Python."""
        if path.suffix != RULE:
            return cls._of_model_file(path)
        rule = tb.load_rule(path)
        if isinstance(rule, tb.ThresholdRule | tb.Rule):
            raise ValueError(f"{str(path)!r} is a rule alone: write it by tailboost.save_rule")
        notes = {"features": rule.scores_.column_list, **rule.evidence_.selection.notes}
        return cls(rule, Roles(**notes), rule.scores_)

    @classmethod
    def _of_model_file(cls, path: Path) -> Self:
        """Read a classifier; one that Python trained has no roles but those of its features."""
        from sklearn.base import is_classifier

        from tailboost.storage.models import read_notes

        model = tb.load_model(path)
        if not is_classifier(model):
            raise ValueError(f"{str(path)!r} has no classifier")
        roles = Roles()
        with suppress(TypeError):  # a note of Python by this name, or none
            roles = Roles(**read_notes(path)["notes"].get("roles"))
        columns = getattr(model, "_columns", None)
        if columns and not roles.features:
            names = model.feature_names_in_
            roles = roles.given(
                features=tuple(names), text=tuple(np.delete(names, columns.numbers))
            )
        return cls(model, roles)

    def rows(
        self, reader: Reader, path: Path, *, ids: Collection[Any] = (), **stated: Any
    ) -> FileRows:
        """Return the rows of a file by the roles of the classifier and those of options."""
        groups = getattr(self.classifier, "groups_", [])
        titles = (each[0] for each in groups if isinstance(each, tuple))
        roles = self.roles.given(groups=titles).given(**stated)
        rows = reader.read(path, roles, ids)
        names = roles.features or getattr(self.classifier, "feature_names_in_", ())
        return replace(
            rows,
            roles=rows.roles.given(features=tuple(names)),
            known=self.classifier.classes_.tolist(),
        )

    @property
    def probabilities(self) -> list[str]:
        """The columns of probabilities in the answers of a model; a rule file has none."""
        if self.scores or not hasattr(self.classifier, "predict_proba"):
            return []
        return [f"probability_{label}" for label in self.classifier.classes_]

    def answers(self, rows: FileRows, default: str | None) -> Any:
        """Return the answers to rows, a data frame; ``default`` answers those without one, if not None."""
        import pandas as pd

        classifier = self.classifier
        # A rule file also reads groups, to name those without a certificate.
        table = rows.table if self.scores else rows.features
        options = {}
        is_tuned = isinstance(classifier, tb.TunedClassifier)
        if is_tuned:
            if classifier.rule_.defers:  # otherwise a label may be called so
                options["deferred"] = HUMAN_REVIEW
            if classifier.rule_.groups:
                options["groups"] = rows.groups
        if default is not None:
            options["default"] = as_known([default], rows.known)[0]
        answers = pd.DataFrame({"prediction": classifier.predict(table, **options)})
        if is_tuned:
            answers["deferred"] = answers["prediction"].isin({HUMAN_REVIEW} - {*rows.known})
        if self.probabilities:
            answers[self.probabilities] = classifier.predict_proba(table).round(9)
        return answers


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
    rule: str | None  # its digest, if one was given


def calibrated(stored: Stored, rows: FileRows, **options: Any) -> Any:
    """Return the result of `tailboost.calibrate`, and record the attempt beside the table.

    The rule of a file gives way to another one on its scores, by default for the same aims. For the new rule
    count all attempts and rows that the former one knows.
    """
    from tailboost.selection.door import answering

    model = stored.classifier
    given = answering(model)
    known = given.known[0].records
    if stored.scores:
        aims = {name: getattr(model, name) for name in ("limits", "by_group", "objective")}
        options = aims | options
        model = stored.scores
    # 1. Compare the rows with those of the given rule, as the calibrated model will know them.
    decided = answering(model)
    seen = decided.seen(decided.score(rows.features), Rows.read(y=rows.labels), "")
    refuse_repeated(seen, known.used, "copies")
    with held(_ledger_beside(rows), 600):  # as long as another calibration there may take
        # 2. Earlier attempts: on rows of this call they count under any name of the target.
        earlier = known.ledger.attempts
        for each in _read_ledger(rows).values():
            if each.target == rows.roles.target or seen.repeats(each.attempt.rows):
                earlier += (each.attempt,)
        if earlier:
            options["previous"] = Ledger(earlier)
        # 3. This attempt, also if it certifies nothing.
        try:
            rule: Any = tb.calibrate(model, **rows.given, **options)
        except tb.NotCertifiedError as refusal:
            _record(refusal.attempts, rows, given.rule.digest)
            raise
        _record(rule.certificate_.attempts, rows, given.rule.digest)
    rule.ledger_.judge(*known.used)
    return rule


def recall_attempts(classifier: Any, rows: FileRows) -> None:
    """Make the rows of attempts beside a table known to their rule, whose file does not have them."""
    from tailboost.selection.door import answering

    if isinstance(classifier, tb.TunedClassifier):
        digest = answering(classifier).rule.digest
        used = [
            each.attempt.rows for each in _read_ledger(rows).values() if each.rule == digest
        ]
        classifier.ledger_.judge(*used)


def _ledger_beside(rows: FileRows) -> Path:
    """Return the file of the attempts on the tables of a folder."""
    return rows.path.resolve().with_name(LEDGER)


def _record(attempts: Sequence[Attempt], rows: FileRows, digest: str | None) -> None:
    """Write attempts on rows beside their table; those that lack there have the digest of the given rule."""
    entries = _read_ledger(rows)
    for each in attempts:
        entries.setdefault(each.key, _Entry(rows.roles.target, each, digest))
    if attempts:
        write_output(
            _ledger_beside(rows),
            json.dumps([*map(_Entry._asdict, entries.values())], default=Attempt.to_dict),
        )


def _read_ledger(rows: FileRows) -> dict[str, _Entry]:
    """Return the attempts on the tables of a folder by their keys; none without a file."""
    path = _ledger_beside(rows)
    entries = {}
    try:
        stored = json.loads(path.read_text("utf-8"))
        if not isinstance(stored, list):
            raise TypeError
        for each in stored:
            attempt = Attempt.from_dict(each["attempt"])
            entries[attempt.key] = _Entry(each["target"], attempt, each["rule"])
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
