"""``tune``, and rule files: thresholds on one column of scores, selected, certified and applied."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import pandas as pd

from tailboost import Certificate, Scores, ThresholdRule, certify, datasets, rates
from tailboost import tune as tune_rule
from tailboost.app.cli import options
from tailboost.app.cli.models import NewRows, check_model_output
from tailboost.app.cli.rates import print_rates, read_limits, read_objective, spelled
from tailboost.app.cli.shared import (
    BadInput,
    bad_input,
    check_output,
    digest_of,
    say,
    tell,
    warn,
    warnings_as_lines,
    write_out,
)
from tailboost.selection.threshold_rule import REVIEW
from tailboost.storage import save_model

RULE_FILE = ".json"
# Labels of high scores, if the column's name contains no label.
POSITIVE = ("1", "True", "true", "yes")


def is_rule_file(path: Path) -> bool:
    """Return whether a file holds a rule on scores, by its name; others are model files."""
    return path.suffix.lower() == RULE_FILE


def tune(
    data: options.Data,
    score: Annotated[str, options.option("COL", "Column of the score.")],
    target: Annotated[str, options.option("COL", "Column of the true labels.")],
    out: Annotated[Path, options.option("FILE", "Rule to write (.json), or model file (.model).")],
    positive: Annotated[
        str | None,
        options.option("LABEL", "Label of high scores. Default: the label in the column's name."),
    ] = None,
    kind: Annotated[
        Literal["probability", "logit", "number"],
        options.option(None, "Kind of the score; number: only its order matters, such as a grade."),
    ] = "probability",
    missing: Annotated[
        float | None, options.option("SCORE", "Score of rows without one. Default: such rows are refused.")
    ] = None,
    group: options.Groups = None,
    by_group: Annotated[
        bool, options.option(None, "Select thresholds for each group of the single --group.", "--by-group")
    ] = False,
    limit: options.Limits = None,
    objective: options.Objective = None,
    confidence: Annotated[
        float | None, options.option("P", "Probability that all limits hold on new rows; tightens them.")
    ] = None,
    sep: options.Sep = ",",
) -> None:
    """Select thresholds on a column of scores, within limits. No model is trained.

    DATA are selection data: one row for each case, with the score of any model and the true label. Rows
    with equal scores are different cases. Rows between two thresholds may be deferred to a human reviewer,
    if a limit such as 'deferred() <= .05' allows it.
    """
    as_model = not is_rule_file(out)
    if as_model:
        check_model_output(out, data, option="--out")
    else:
        check_output("--out", out, data)
    limits, minimised, columns = read_limits(limit), read_objective(objective), list(group or [])
    if by_group and len(columns) != 1:
        raise BadInput("--by-group: the rule reads one column of groups; name a single --group COL")
    with warnings_as_lines():
        rows = score_rows(data, sep, score, target=target, columns=columns)
        labels = sorted(set(rows.y.tolist()))
        if REVIEW in labels:
            raise BadInput(f"{str(data)!r}: column {target!r} has the label {REVIEW!r}")
        label = _positive(positive, score, labels)
        scores = Scores(score, label, kind=kind, missing=missing)
        with bad_input(f"{data}: "):
            classifier = tune_rule(
                scores,
                rows.features,
                rows.y,
                groups=rows.groups,
                objective=spelled(minimised, labels, columns),
                limits=[spelled(one, labels, columns) for one in limits],
                confidence=confidence,
                by_group=by_group,
            )
            rule = classifier.rule_
            if not isinstance(rule, ThresholdRule):
                values = np.unique(rows.features[score].dropna())
                mark = {"deferred": REVIEW} if classifier.can_defer else {}
                actions = classifier.predict(pd.DataFrame({score: values}), **mark)
                rule = ThresholdRule.of_actions(score, labels, values, actions, missing)
    if as_model:
        notes = {"data": data.name, "group": columns, "not_features": [target]}
        save_model(classifier, out, notes=notes)
    else:
        stored = ScoreRule(rule, target, tuple(columns), tuple(classifier.limits), digest_of(data))
        write_out(out, json.dumps(stored.to_dict(), indent=1, ensure_ascii=False) + "\n")
    if any(len({action for _, action in band}) < len(band) for band in rule.bands):
        warn("an answer has several ranges of the score; a wider limit, or --by-group, may avoid this")
    say(f"A higher {score} speaks for {label!r}.")
    tell(str(rule))
    say("")
    print_rates(classifier.rates_)
    say(f"{'Model' if as_model else 'Rule'}: {out}")


def _positive(positive: str | None, score: str, labels: Sequence[str]) -> str:
    """Return the label of high scores."""
    if positive is not None:
        if positive not in labels:
            raise BadInput(f"--positive: the labels are {', '.join(labels[:10])}, not {positive!r}")
        return positive
    named = [label for label in labels if score == label or score.endswith(f"_{label}")]
    named = named or [label for label in labels if label in POSITIVE]
    if len(named) != 1:
        raise BadInput(
            f"--positive: which label does a higher {score!r} speak for: {', '.join(labels[:10])}?"
        )
    return named[0]


# -- files -------------------------------------------------------------------------------------------------


def score_rows(
    data: Path, sep: str, score: str, *, target: str | None = None, columns: Sequence[str] = ()
) -> NewRows:
    """Read a file of scores; labels are text. Errors name the file and the column."""
    with bad_input():
        table = datasets.read_raw(data, sep)
    if not len(table):
        raise BadInput(f"{str(data)!r} has no rows")
    for option, name in (("--score", score), ("--target", target), *(("--group", name) for name in columns)):
        if name is not None and name not in table:
            raise BadInput(
                f"{option}: {str(data)!r} has no column {name!r}; it has {', '.join(map(repr, table))}"
            )
    numbers = pd.to_numeric(table[score], errors="coerce").astype(np.float64)
    if len(odd := np.flatnonzero(numbers.isna() & table[score].notna())):
        text = str(table[score].iloc[odd[0]])[:40]
        raise BadInput(f"{str(data)!r}: column {score!r} holds no number in row {odd[0]}: {text!r}")
    rows = NewRows(table, pd.DataFrame({score: numbers}), data, columns)
    if target is None:
        return rows
    return replace(rows, y=rows.column(target, "--target").astype(str).to_numpy(dtype=str))


@dataclass(frozen=True)
class ScoreRule:
    """Content of a rule file: thresholds, columns, limits, and a digest of the selection data."""

    rule: ThresholdRule
    target: str
    group_columns: tuple[str, ...]
    limits: tuple[rates.Limit, ...]
    digest: str

    def to_dict(self) -> dict[str, Any]:
        """Return the content as plain types."""
        return {
            "rule": self.rule.to_dict(),
            "target": self.target,
            "group": list(self.group_columns),
            "limits": [rates.to_dict(limit) for limit in self.limits],
            "selection_data": self.digest,
        }

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a rule file."""
        with bad_input(f"{path}: "):
            try:
                content = json.loads(path.read_text(encoding="utf-8"))
                limits: list[Any] = [rates.from_dict(limit) for limit in content["limits"]]
                rule = ThresholdRule.from_dict(content["rule"])
                return cls(
                    rule, content["target"], tuple(content["group"]), tuple(limits), content["selection_data"]
                )
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"this is no rule of `tailboost tune`: {error}") from None

    def rows(self, data: Path, sep: str, target: str | None = None, columns: Sequence[str] = ()) -> NewRows:
        """Read a file of scores, with the groups of a group-aware rule and further columns of groups."""
        needed = self.group_columns if self.rule.groups is not None else ()
        columns = list(dict.fromkeys([*needed, *columns]))
        return score_rows(data, sep, self.rule.column, target=target, columns=columns)

    def predictions(self, rows: NewRows) -> dict[str, Any]:
        """Return actions (labels, or "human review") and margins of rows, by column."""
        groups = None if self.rule.groups is None else rows.groups[self.group_columns[0]].to_numpy()
        score = rows.features[self.rule.column]
        return {
            "prediction": self.rule.predict(score, groups),
            "margin": np.round(self.rule.margin(score, groups), 9),
        }

    def certificate(
        self,
        data: Path,
        sep: str,
        asked: Sequence[Any],
        *,
        target: str | None,
        columns: Sequence[str],
        cluster: str | None,
        confidence: float,
    ) -> Certificate:
        """Return bounds on rates and limits, by default those of the rule, from a file of fresh rows."""
        if digest_of(data) == self.digest:
            raise BadInput(f"{str(data)!r} holds the selection data of the rule; fresh rows are needed")
        rows = replace(self.rows(data, sep, target or self.target, columns), cluster_column=cluster)
        if unknown := sorted(set(rows.y.tolist()) - set(self.rule.classes)):
            names = ", ".join(map(repr, unknown[:5]))
            raise BadInput(f"{str(data)!r}: the target has labels that the rule does not know: {names}")
        known = None  # all groups of a group-aware rule, also without fresh rows
        if self.rule.groups is not None and len(rows.group_columns) == 1:
            known = {"group": [(self.group_columns[0], name) for name in self.rule.groups]}
        stated = [spelled(one, self.rule.classes, rows.group_columns) for one in asked or self.limits]
        with bad_input(f"{data}: "):
            actions = self.predictions(rows)["prediction"]
            deferred = actions == REVIEW
            return certify(
                np.where(deferred, self.rule.classes[0], actions).astype(str),
                None,
                rows.y,
                deferred=deferred,
                groups=rows.groups,
                subgroups=known,
                rates=stated or None,
                confidence=confidence,
                clusters=rows.clusters,
            )
