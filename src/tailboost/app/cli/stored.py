"""Model files and rule files, and their calibration, whose attempts are recorded beside the table."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

import tailboost as tb
from tailboost.app.cli.attempts import held, ledger_beside, read_ledger, record
from tailboost.app.cli.tables import FileRows, Reader, Roles
from tailboost.core import as_known, frozen_value
from tailboost.rows import HUMAN_REVIEW, Ledger, Rows, refuse_repeated

RULE = ".json"
MODEL = ".model"


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
        if path.suffix == RULE:
            rule = tb.load_rule(path)
            if isinstance(rule, tb.ThresholdRule | tb.Rule):
                raise ValueError(
                    f"{str(path)!r} is a rule alone: write it by tailboost.save_rule"
                )
            notes = {"features": rule.scores_.column_list, **rule.evidence_.selection.notes}
            return cls(rule, Roles(**notes), rule.scores_)

        from sklearn.base import is_classifier

        from tailboost.storage.models import read_notes

        model = tb.load_model(path)
        if not is_classifier(model):
            raise ValueError(f"{str(path)!r} has no classifier")
        roles = Roles()
        with suppress(TypeError):  # a note of Python by this name, or none
            roles = Roles(**read_notes(path)["notes"].get("roles"))
        columns = getattr(model, "_columns", None)
        if columns and not roles.features:  # Python trained it
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
        rows = reader.read(path, self.roles.given(groups=titles).given(**stated), ids)
        names = rows.roles.features or getattr(self.classifier, "feature_names_in_", ())
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
        if HUMAN_REVIEW in (options.get("deferred"), default):  # beside labels of numbers
            answers = answers.astype("string")
        if is_tuned:
            answers["deferred"] = answers["prediction"].isin({HUMAN_REVIEW} - {*rows.known})
        if self.probabilities:
            answers[self.probabilities] = classifier.predict_proba(table).round(9)
        return answers

    # -- attempts ----------------------------------------------------------------------------------------

    def calibrated(self, rows: FileRows, **options: Any) -> Any:
        """Return the result of `tailboost.calibrate`, and record the attempt beside the table.

        The rule of a file gives way to another one on its scores, by default for the same aims. For the new
        rule count all attempts and rows that the former one knows.
        """
        from tailboost.selection.door import answering

        former = self.classifier
        given = answering(former)
        digest = given.rule.digest
        known = given.known[0].records  # its own, before those of classifiers within
        if self.scores:
            options = {
                "limits": former.limits,
                "by_group": former.by_group,
                "objective": former.objective,
                **options,
            }
        # 1. Compare the rows with those of the former rule, as the calibrated model will know them.
        model = self.scores or former
        new = answering(model)
        seen = new.seen(new.score(rows.features), Rows.read(y=rows.labels), "")
        refuse_repeated(seen, known.used, "copies")
        target = rows.roles.target
        ledger = ledger_beside(rows.path)
        with held(ledger, 600):  # as long as another calibration there may take
            # 2. Earlier attempts: on rows of this call they count under any name of the target.
            earlier = known.ledger.attempts
            for each in read_ledger(ledger).values():
                if each.target == target or seen.repeats(each.attempt.rows):
                    earlier += (each.attempt,)
            if earlier:
                options["previous"] = Ledger(earlier)
            # 3. This attempt, also if it certifies nothing.
            try:
                rule: Any = tb.calibrate(model, **rows.given, **options)
            except tb.NotCertifiedError as refusal:
                record(ledger, refusal.attempts, target, digest)
                raise
            record(ledger, rule.certificate_.attempts, target, digest)
        rule.ledger_.judge(*known.used)
        return rule

    def recall_attempts(self, table: Path) -> None:
        """Make the rows of attempts beside a table known to their rule, whose file does not have them."""
        from tailboost.selection.door import answering

        if isinstance(self.classifier, tb.TunedClassifier):
            digest = answering(self.classifier).rule.digest
            entries = read_ledger(ledger_beside(table)).values()
            self.classifier.ledger_.judge(
                *(each.attempt.rows for each in entries if each.rule == digest)
            )


def write(classifier: Any, path: Path, roles: Roles) -> None:
    """Write a classifier as a rule file or a model file."""
    from tailboost.storage.rule_files import write_rule

    if path.suffix == RULE:
        write_rule(classifier, path, asdict(roles))
    else:
        tb.save_model(classifier, path, notes={"roles": asdict(roles)})
