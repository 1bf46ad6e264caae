"""Rule files of several labels per row: they are selected, certified, calibrated and monitored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from tailboost import LabelRules, Scores, rates, tune_labels
from tailboost.app.cli.documents import (
    StoredDocument,
    numbers_of,
    read_document,
    score_rows,
)
from tailboost.app.cli.models import NewRows, Reading
from tailboost.app.cli.options import CsvFormat
from tailboost.app.cli.rates import print_rates
from tailboost.app.cli.shared import (
    BadInput,
    bad_input,
    digest_of,
    is_rule_file,
    say,
    tell,
    warnings_as_lines,
    write_out,
)
from tailboost.core.array_types import Stated
from tailboost.rows.persons import refuse_persons
from tailboost.storage.rule_documents import text_of

# Columns of the table of pairs of row and label.
LABEL = "label"
TRUTH = "has the label"


@dataclass(frozen=True)
class LabelSettings:
    """Settings of a selection, as in a rule file of several labels."""

    scores: Sequence[str]
    labels: Sequence[str]
    kind: str
    missing: float | None
    objective: str | None
    data: str  # digest of the selection data
    unlabeled: str | None  # digest of the file of rows without labels
    csv: dict[str, Any] = field(default_factory=dict)  # as in `RuleSelection`

    def run(
        self, data: Path, csv: CsvFormat, limits: Stated, unlabeled: Path | None = None
    ) -> LabelRules:
        """Select thresholds for each label on the rows of a file.

        Rows of the file ``unlabeled`` count too, in limits that need no label.
        """
        objective: Any = self.objective or "error"
        if "(" in objective:  # a rate, and not the name of an objective
            objective = rates.parse(objective)
        score_type: dict[str, Any] = {"kind": self.kind, "missing": self.missing}
        models = [
            Scores(score, label, **score_type)
            for score, label in zip(self.scores, self.labels, strict=True)
        ]
        with warnings_as_lines():
            kinds = [self.kind] * len(self.scores)
            rows = score_rows(data, csv, self.scores, kinds=kinds, missing=self.missing)
            X_unlabeled = None
            if unlabeled is not None:
                unlabeled_rows = score_rows(
                    unlabeled, csv, self.scores, kinds=kinds, missing=self.missing
                )
                X_unlabeled = unlabeled_rows.features
            with bad_input(f"{data}: "):
                return tune_labels(
                    models,
                    rows.features,
                    _indicators(rows, self.labels),
                    limits=limits,
                    objective=objective,
                    X_unlabeled=X_unlabeled,
                )

    def tune(
        self, data: Path, out: Path, csv: CsvFormat, *, limits: Stated, unlabeled: Path | None
    ) -> None:
        """Select, write the rule file, and print the rules."""
        rules = self.run(data, csv, limits, unlabeled)
        write_out(out, self.document(rules))
        tell(str(rules))
        say("")
        if rules.limits and rules.rates_ is not None:
            print_rates(rules.rates_)
        say(f"Rules: {out}")

    def document(self, rules: LabelRules) -> str:
        """Return the content of a rule file."""
        return text_of(rules.to_dict() | {"selection": asdict(self)})


def refuse_content_of_labels(as_json: bool) -> None:
    """Raise `BadInput` if the content of a rule file of several labels is asked for by --json."""
    if as_json:
        raise BadInput(
            "--json: `tailboost inspect` reads no rules of several labels per row; the file of "
            "the rules is JSON itself"
        )


@dataclass(frozen=True)
class LabelFile(StoredDocument):
    """Content of a rule file of several labels; as a model it judges pairs of row and label."""

    rules: LabelRules = field(kw_only=True)

    @classmethod
    def read_if_several(cls, path: Path) -> Self | None:
        """Read a rule file of several labels; None for another file."""
        if not is_rule_file(path):
            return None
        content = read_document(path)
        if "labels" not in content:
            return None
        with bad_input(f"{path}: "):
            rules = LabelRules.from_dict(content)
        return cls(path, rules.classifier, {"group": [LABEL]}, {}, rules=rules)

    @property
    def target(self) -> str:
        """The column of the table of pairs with 1 for a row that has the label."""
        return TRUTH

    def limits_of(self, limits: Sequence[Any]) -> list[Any]:
        """Return limits of the options as limits on pairs."""
        with bad_input("--limit: "):
            return self.rules.by_label(limits)

    def read_rows(self, data: Path, csv: CsvFormat, reading: Reading) -> NewRows:
        """Read a file of scores as pairs of row and label, and of row and "any label".

        The pairs have true labels only if the file has the columns of all labels. To a row id the label is
        appended, so the ids of pairs differ.
        """
        rows = self.scores_of(data, csv)
        labels = list(self.rules.rules)
        pairs_per_row = len(labels) + 1  # the last is for "any label"
        truths = None
        if {*labels} <= {*rows.table}:
            truths = _indicators(rows, labels)
        with bad_input(f"{data}: "):
            pairs = self.rules.pairs(rows.features, truths)
        table = pd.DataFrame({LABEL: pairs["groups"][LABEL]})
        if truths is not None:
            table[TRUTH] = pairs["y"]
        if reading.cluster is not None:
            clusters = rows.column(reading.cluster, "--cluster").astype(str)
            table[reading.cluster] = np.tile(clusters, pairs_per_row)
        for name in reading.unused:  # the column of ids
            ids = np.tile(rows.column(name, "--id").astype(str), pairs_per_row)
            table[name] = ids + ("|" + table[LABEL])
        return NewRows(table, pairs["X"], data, reading.columns, reading.cluster)

    def scores_of(
        self, data: Path, csv: CsvFormat, *, may_lack_scores: bool = False
    ) -> NewRows:
        """Read the scores of a file; with a default, rows may lack scores."""
        rules = list(self.rules.rules.values())
        names = [rule.column for rule in rules]
        return score_rows(
            data,
            csv,
            names,
            kinds=[rule.kind for rule in rules],
            missing=rules[0].missing,
            may_lack_scores=may_lack_scores,
        )

    def fresh_rows(
        self, data: Path | None, csv: CsvFormat, cluster: str | None
    ) -> dict[str, Any]:
        """Return the rows and labels of a file as arguments of `LabelRules`; None without a file."""
        if data is None:
            return {"X": None, "Y": None}
        rows = replace(self.scores_of(data, csv), cluster_column=cluster)
        if cluster is None:
            with bad_input(f"{data}: "):
                refuse_persons(rows.table, list(rows.features))
        return {
            "X": rows.features,
            "Y": _indicators(rows, list(self.rules.rules)),
            "clusters": rows.clusters,
        }

    def certify(
        self,
        data: Path,
        csv: CsvFormat,
        cluster: str | None,
        limits: Sequence[Any],
        confidence: float,
    ) -> Any:
        """Return the certificate of limits from a file of fresh rows, by default of the stated limits."""
        rows = self.fresh_rows(data, csv, cluster)
        with bad_input(f"{data}: "):
            return self.rules.certify(**rows, limits=limits or None, confidence=confidence)

    def selected_again(self, data: Path, csv: CsvFormat) -> tuple[LabelSettings, LabelRules]:
        """Return the settings of the selection, and the rules selected again on the same file."""
        try:
            settings = LabelSettings(**read_document(self.path)["selection"])
        except (KeyError, TypeError):
            raise BadInput(
                f"{self.path}: the file does not tell its selection; run tune again"
            ) from None
        if digest_of(data) != settings.data:
            raise BadInput(
                f"--selection: {str(data)!r} is not the file on which the rules were selected"
            )
        if settings.unlabeled is not None:
            raise BadInput(
                f"--selection: {str(self.path)!r} was selected with --unlabeled too; tune "
                "without it"
            )
        return settings, settings.run(data, csv, self.rules.limits)


def _indicators(rows: NewRows, labels: Sequence[str]) -> Any:
    """Return the columns of true labels as numbers: 1 for a row that has the label, otherwise 0."""
    absent = [label for label in labels if label not in rows.table]
    if absent:
        raise BadInput(f"--target: {str(rows.path)!r} has no column {absent[0]!r}")
    return pd.DataFrame({label: numbers_of(rows.table, label, rows.path) for label in labels})
