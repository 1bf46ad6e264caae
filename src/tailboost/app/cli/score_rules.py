"""``tune``, and rule files: rules on columns of scores, selected and read as classifiers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from tailboost import Scores, ThresholdRule, rates
from tailboost import tune as tune_rule
from tailboost.app.cli import options, shared
from tailboost.app.cli.documents import (
    StoredDocument,
    is_record,
    read_document,
    score_rows,
)
from tailboost.app.cli.models import NewRows, Reading, StoredModel
from tailboost.app.cli.parameters import configured
from tailboost.app.cli.rates import (
    in_table_terms,
    print_rates,
    summary_text,
)
from tailboost.app.cli.shared import BadInput
from tailboost.app.registry import METHODS
from tailboost.classifiers.calibrating import selected_on_part
from tailboost.classifiers.robust_mixture import RobustMixtureClassifier
from tailboost.core.array_types import Model, Stated
from tailboost.core.checks import reading
from tailboost.core.long_work import doing
from tailboost.core.score_kinds import score_kind
from tailboost.core.spelling import how_many, shell_word
from tailboost.rows.given import Given
from tailboost.rows.judged import judged
from tailboost.rows.persons import warn_of_persons
from tailboost.rows.subgroups import HUMAN_REVIEW
from tailboost.storage.models import SUFFIX, save_model
from tailboost.storage.rule_classifier import scores_of
from tailboost.storage.rule_documents import rule_document, text_of
from tailboost.storage.rule_files import KIND_OF_RULE_FILE, RULE_FILE_FORMAT, rule_of

# A column with more different values has no labels.
MOST_LABELS = 100
# One score is for one of two labels. A column with more different values is another one, such as a date.
MOST_LABELS_OF_ONE_SCORE = 10
# Labels of high scores, if the column's name contains no label.
POSITIVE = ("1", "True", "true", "yes")
# Notes of a calibrated rule file: the names of the certifying files, and their digests.
CALIBRATION_NOTES = ("calibrated", "calibration_digests")


def read_model(path: Path) -> StoredModel:
    """Read a model file, or a rule file as a model."""
    if shared.is_rule_file(path):
        return StoredScoreRule.read(path)
    return StoredModel.read(path)


def kinds_of(stated: Sequence[options.Kind] | None, scores: Sequence[str]) -> tuple[str, ...]:
    """Return the kind of each score from --kind."""
    kinds = [kind.value for kind in stated or [options.Kind.probability]]
    return _one_for_each("--kind", kinds, scores)


def _one_for_each(option: str, stated: Sequence[str], scores: Sequence[str]) -> tuple[str, ...]:
    """Return the value of an option for each score; it states one for all scores or one for each."""
    if len(stated) not in (1, len(scores)):
        raise BadInput(
            f"{option}: {len(stated)} for {how_many(len(scores), 'score')}; give one for all, "
            "or one for each in the order of --score"
        )
    return tuple(stated) * (len(scores) // len(stated))


def only_kind(kinds: Sequence[str]) -> str:
    """Return the kind of scores of several labels; raise `BadInput` if they differ."""
    if len(set(kinds)) > 1:
        raise BadInput("--kind: scores of several labels need one kind")
    return kinds[0]


def check_options(kinds: Sequence[str], missing: float | None, **parameters: Any) -> None:
    """Raise `BadInput` if an option of a selection on scores is wrong, before any file is read.

    ``parameters`` are parameters of a robustmixture, which selects the rule.
    """
    with shared.bad_input("--missing: "):
        for kind in kinds:
            score_kind(kind).check_missing(missing)
    # [] is no limit.
    stated = {name: value for name, value in parameters.items() if value != []}
    configured(METHODS["robustmixture"], [], stated)


def _print_rule(classifier: Model, score: str, label: str) -> None:
    """Print a selected rule and its rates; a higher ``score``, a column, speaks for ``label``."""
    rule = classifier.rule_
    if isinstance(rule, ThresholdRule):
        for ranges in rule.bands:
            different_answers = {answer for _, answer in ranges}
            if len(different_answers) < len(ranges):
                shared.warn(
                    "an answer has several ranges of the score; a wider limit, or --by-group, "
                    "may avoid this"
                )
                break
    if judged(classifier).stated_limits:
        shared.tell(summary_text(classifier.summary_))
    else:
        print_rates(classifier.rates_)
    shared.say("")
    if isinstance(rule, ThresholdRule):
        shared.say(f"A higher {score} speaks for {label!r}.")
    shared.tell(str(rule))


def _labels_of_scores(
    positive: Sequence[str] | None, columns: Sequence[str], table_labels: Sequence[Any]
) -> tuple[Any, ...]:
    """Return the label of high values of each column of scores.

    ``positive`` has the texts of these labels. By default the name of a column determines its label. Raise
    `BadInput` if the labels are not clear, or are not those of the table.
    """
    labels_by_text = {str(label): label for label in table_labels}
    table_texts = list(labels_by_text)
    if positive:
        label_texts = _one_for_each("--positive", positive, columns)
        unknown = [text for text in positive if text not in table_texts]
        if unknown:
            raise BadInput(
                f"--positive: the labels are {', '.join(table_texts[:10])}, not {unknown[0]!r}"
            )
    else:
        label_texts = tuple(
            _label_in_name(column, table_texts, len(columns)) for column in columns
        )
    if len(set(label_texts)) > 1 and sorted(label_texts) != sorted(table_texts):
        raise BadInput(
            f"--score: the labels are {', '.join(table_texts[:10])}, with scores of "
            f"{', '.join(label_texts)}"
        )
    return tuple(labels_by_text[text] for text in label_texts)


def _label_in_name(column: str, labels: Sequence[str], n_scores: int) -> str:
    """Return the label at the end of the name of a column of scores.

    The label of a single column may also be a usual word for "yes". Raise `BadInput` without one label.
    """
    candidates = [label for label in labels if column == label or column.endswith(f"_{label}")]
    if not candidates and n_scores == 1:
        candidates = [label for label in labels if label in POSITIVE]
    if len(candidates) != 1:
        raise BadInput(
            f"--positive: which label does a higher {column!r} speak for: "
            f"{', '.join(labels[:10])}?"
        )
    return candidates[0]


# -- files -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RuleSelection:
    """Settings of a selection, as in a rule file."""

    scores: tuple[str, ...]
    labels: tuple[Any, ...]  # of high values of each score
    target: str | None
    group: tuple[str, ...]
    by_group: str | None  # column of groups, each with other thresholds
    objective: Stated
    limits: tuple[rates.Limit, ...]
    data: str = ""  # digest of the selection data
    kinds: tuple[str, ...] = ("probability",)
    missing: float | None = None
    confidence: float | None = None
    unlabeled: str | None = None  # digest of the file of rows without labels
    # How the file of the selection data was written, if in another way than `options.CSV`.
    csv: Mapping[str, Any] = field(default_factory=dict)

    def tune(
        self,
        data: Path,
        out: Path,
        csv: options.CsvFormat,
        positive: Sequence[str] | None,
        *,
        unlabeled: Path | None,
        training_rows: Path | None,
    ) -> None:
        """Select, write the rule file or model file, and print the rule."""
        with shared.warnings_as_lines():
            selection, rows = self.on(data, csv, positive)
            selection.refuse_rule_file(out)
            other_rows = selection.other_rows(unlabeled, training_rows, csv)
            selecting = doing(f"Selecting thresholds on {len(rows.table):,} rows")
            warn_of_persons(rows.table, [*self.scores, *self.group])
            with shared.bad_input(f"{data}: "), selecting:
                classifier = selection.run(rows, other_rows)
        kind_of_file = "Rule"
        if shared.is_rule_file(out):
            shared.write_out(out, selection.document(classifier))
        else:
            kind_of_file = "Model"
            notes: dict[str, Any] = {"data": data.name, "csv": csv.noted, "target": self.target}
            notes |= selection.notes
            notes["not_features"] = [self.target, *selection.not_features]
            save_model(classifier, out, notes=notes)
        _print_rule(classifier, selection.scores[0], selection.labels[0])
        shared.say(f"{kind_of_file}: {out}")

    def on(
        self, data: Path, csv: options.CsvFormat, positive: Sequence[str] | None
    ) -> tuple[Self, NewRows]:
        """Read the selection data; return the settings with their labels and groups, and the rows.

        ``positive`` are the labels of --positive.
        """
        if self.target in self.group:
            option = "--by-group" if self.target == self.by_group else "--group"
            raise BadInput(
                f"{option}: column {self.target!r} is the target; it cannot be a column of "
                "groups too"
            )

        rows = self.read(data, csv, self.group, target=self.target)
        rows.tell_of_empty_groups()
        labels = sorted(set(rows.y.tolist()))
        if len(labels) == 1:
            raise BadInput(
                f"{str(data)!r}: column {self.target!r} has the label {labels[0]!r} alone; "
                "rows of both labels are needed"
            )
        most_labels = max(MOST_LABELS, len(self.scores))
        if len(self.scores) == 1:
            most_labels = MOST_LABELS_OF_ONE_SCORE
        if len(labels) > most_labels:
            raise BadInput(
                f"--target: column {self.target!r} has {len(labels):,} different values (such "
                f"as {str(labels[0])!r}); name the column of labels"
            )
        if HUMAN_REVIEW in labels:
            raise BadInput(
                f"{str(data)!r}: column {self.target!r} has the label {HUMAN_REVIEW!r}"
            )

        objective, *limits = in_table_terms(
            [self.objective, *self.limits],
            labels,
            self.group,
            names_in_file=rows.column_names,
        )
        selection = replace(
            self,
            labels=_labels_of_scores(positive, self.scores, labels),
            objective=objective,
            limits=tuple(limits),
            data=shared.digest_of(data),
            csv=csv.noted,
        )
        return selection, rows

    def read(
        self,
        data: Path,
        csv: options.CsvFormat,
        columns: Sequence[str] = (),
        target: str | None = None,
        *,
        read_by_rule: Sequence[str] = (),
        may_lack_scores: bool = False,
    ) -> NewRows:
        """Read a file with the columns of scores."""
        return score_rows(
            data,
            csv,
            self.scores,
            kinds=self.kinds,
            missing=self.missing,
            target=target,
            columns=columns,
            by_group=self.by_group if self.by_group in columns else None,
            read_by_rule=read_by_rule,
            may_lack_scores=may_lack_scores,
        )

    def other_rows(
        self, unlabeled: Path | None, training_rows: Path | None, csv: options.CsvFormat
    ) -> dict[str, Any]:
        """Return arguments of a selection or calibration for rows without labels and for training rows.

        Without files there are no such arguments.
        """
        arguments: dict[str, Any] = {}
        if unlabeled is not None:
            arguments = self.read(unlabeled, csv, self.group).unlabeled()
        if training_rows is not None:
            arguments["training_rows"] = self.read(training_rows, csv).features
        return arguments

    @property
    def model(self) -> Scores | list[Scores]:
        """The scores as a model: of a score for each label, or a model for each score of one label."""
        if self.combines:
            return [
                Scores(column, label, kind=kind, missing=self.missing)
                for column, label, kind in zip(
                    self.scores, self.labels, self.kinds, strict=True
                )
            ]
        return scores_of({**vars(self), "kind": only_kind(self.kinds)})

    @property
    def combines(self) -> bool:
        """Whether several scores are of one label."""
        return len(self.scores) > 1 and len(set(self.labels)) == 1

    def refuse_rule_file(self, out: Path) -> None:
        """Raise `BadInput` if the file to write has no place for the rule."""
        if self.combines and shared.is_rule_file(out):
            raise BadInput(
                f"--out: {len(self.scores)} scores of one label need a model file: tune with "
                f"--out {shell_word(out.with_suffix(SUFFIX))}, which predict, certify and "
                "calibrate take"
            )

    @property
    def goal(self) -> dict[str, Any]:
        """The parameters ``objective`` and ``by_group`` of a selection, without the limits."""
        return {"objective": self.objective, "by_group": self.by_group or False}

    @property
    def not_features(self) -> list[str]:
        """The columns of groups that are no scores."""
        return [name for name in self.group if name not in self.scores]

    @property
    def notes(self) -> dict[str, Any]:
        """The notes of a file with the rule, which `inspect` and the model card print."""
        scores = [
            f"{name} (kind: {kind}; a higher one speaks for {label!r})"
            for name, label, kind in zip(self.scores, self.labels, self.kinds, strict=True)
        ]
        return {
            "classifier": f"a rule on the score {' and '.join(scores)}",
            "group": list(self.group),
            "not_features": self.not_features,
        }

    def run(self, rows: NewRows, other_rows: Mapping[str, Any] = MappingProxyType({})) -> Any:
        """Return the classifier with a rule selected on labelled rows and on `other_rows`."""
        return tune_rule(
            self.model,
            rows.features,
            rows.y,
            groups=rows.groups,
            limits=list(self.limits),
            confidence=self.confidence,
            **self.goal,
            **other_rows,
        )

    def document(self, classifier: Model, **notes: Any) -> str:
        """Return the text of a rule file with the rule of a classifier, its files and further notes."""
        files = {
            "target": self.target,
            "data": self.data,
            "unlabeled": self.unlabeled,
            "csv": dict(self.csv),
        }
        return text_of(rule_document(classifier, files, **notes))

    @classmethod
    def from_dict(cls, content: Any) -> Self:
        """Return the settings of a rule file."""
        lists = {name: tuple(content[name]) for name in ("scores", "labels", "group")}
        if not all(isinstance(name, str) for name in lists["group"]):
            raise ValueError("group must be names of columns")
        limits = tuple(rates.checked_limits(content["limits"]))
        objective = content["objective"]
        if "(" in (objective or ""):  # a rate, and not the name of an objective
            objective = rates.parse(objective)
        if content["by_group"] is not None and content["by_group"] not in lists["group"]:
            raise ValueError("by_group must be the name of a column of groups, or null")
        settings = {**content, **lists, "limits": limits, "objective": objective}
        settings["kinds"] = (settings.pop("kind"),) * len(lists["scores"])
        return cls(**settings)


@dataclass(frozen=True)
class StoredScoreRule(StoredDocument):
    """Content of a rule file, read as a model file."""

    selection: RuleSelection = field(kw_only=True)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a rule file."""
        content = read_document(path)
        if is_record(content):
            raise BadInput(
                f"{path}: it has the attempts of a table of scores, and no rule; only inspect, "
                "and --previous of calibrate, take it"
            )
        if "labels" in content:
            raise BadInput(
                f"{path}: the rule has several labels per row; only tune, predict, certify, "
                "calibrate and monitor take it"
            )
        with shared.bad_input(f"{path}: "), reading(KIND_OF_RULE_FILE):
            classifier = rule_of(content).file.classifier
            selection = RuleSelection.from_dict(content["selection"])
        return cls(
            path,
            classifier,
            selection.notes
            | {name: content[name] for name in CALIBRATION_NOTES if name in content},
            {"rule file of format": str(RULE_FILE_FORMAT)},
            selection=selection,
        )

    @property
    def rule(self) -> str:
        """The rule as text."""
        return str(self.classifier.rule_)

    @property
    def target(self) -> str | None:
        """The name of the target column; None if the rule file does not name it."""
        return self.selection.target

    @property
    def columns_read(self) -> list[str]:
        """The column of groups that the rule reads, if any."""
        return options.columns_of_groups(None, self.selection.by_group)

    def selected_again(self, data: Path, csv: options.CsvFormat) -> StoredScoreRule:
        """Return the rule with its classifier, which is selected again on the same file."""
        if shared.digest_of(data) != self.selection.data:
            raise BadInput(
                f"--selection: {str(data)!r} is not the file on which the rule was selected"
            )
        selection = self.selection
        if selection.unlabeled is not None:
            raise BadInput(
                f"--selection: {str(self.path)!r} was selected with --unlabeled too; tune "
                "again with --out FILE.model, which keeps these rows"
            )
        rows = selection.read(data, csv, selection.group, target=selection.target)
        with warnings.catch_warnings(), shared.bad_input(f"{data}: "):
            # `tailboost tune` has printed the warnings about these rows.
            warnings.simplefilter("ignore", UserWarning)
            return replace(self, model=selection.run(rows))

    def selected_on_part(
        self, rows: Given, max_error: Stated, **options: Any
    ) -> tuple[RobustMixtureClassifier, Given, float]:
        """Select on a random part of labelled rows, as the rule was selected."""
        selection = self.selection
        return selected_on_part(selection.model, rows, max_error, **selection.goal, **options)

    def selected_on(self, data: Path) -> StoredScoreRule:
        """Return the content for a rule of these settings, selected on the rows of another file."""
        return replace(
            self, selection=replace(self.selection, data=shared.digest_of(data), unlabeled=None)
        )

    def save(self, classifier: Model, path: Path, **notes: Any) -> None:
        """Write the rule of another classifier, with the limits of its selection."""
        shared.write_out(path, self.selection.document(classifier, **notes))

    def read_rows(self, data: Path, csv: options.CsvFormat, reading: Reading) -> NewRows:
        """Read a file of scores; the selection data are no fresh rows."""
        digests_of_selection = (self.selection.data, self.selection.unlabeled)
        if reading.fresh and shared.digest_of(data) in digests_of_selection:
            raise BadInput(
                f"{str(data)!r} holds the selection data of the rule; fresh rows are needed"
            )
        columns = list(dict.fromkeys([*self.columns_read, *reading.columns]))
        read_by_rule = [*self.selection.scores, *self.columns_read, *self.group_columns]
        rows = self.selection.read(
            data,
            csv,
            columns,
            read_by_rule=read_by_rule,
            may_lack_scores=reading.may_lack_scores,
        )
        return replace(rows, group_columns=reading.columns, cluster_column=reading.cluster)
