"""``tune``: select thresholds on columns of scores, and write a rule."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from tailboost.app.cli import options, shared
from tailboost.app.cli.inspect import printing_content
from tailboost.app.cli.label_files import LabelSettings, refuse_content_of_labels
from tailboost.app.cli.models import check_model_output
from tailboost.app.cli.rates import read_limits, read_objective
from tailboost.app.cli.score_rules import RuleSelection, check_options, kinds_of, only_kind
from tailboost.app.cli.shared import BadInput
from tailboost.storage.models import SUFFIX
from tailboost.storage.rule_documents import spelt

# Options of `tune`.
ScoreColumns = Annotated[
    list[str],
    options.option("COL", "Column of the score; again for further scores or labels."),
]
Targets = Annotated[
    list[str],
    options.option(
        "COL",
        "Column of the true labels; again, one for each score, for several labels per row.",
    ),
]
RuleOut = Annotated[
    Path, options.option("FILE", "Rule to write (.json), or model file (.model).")
]
LimitConfidence = Annotated[
    float | None,
    options.option(
        "P",
        "Estimated probability that all limits hold on new rows; tightens them.",
        parser=options.level,
    ),
]


def tune(
    data: options.Data,
    score: ScoreColumns,
    target: Targets,
    out: RuleOut,
    positive: options.Positive = None,
    kind: options.Kinds = None,
    missing: options.Missing = None,
    group: options.Groups = None,
    by_group: options.ByGroup = None,
    limit: options.Limits = None,
    objective: options.Objective = None,
    confidence: LimitConfidence = None,
    unlabeled: options.Unlabeled = None,
    training_rows: options.TrainingRows = None,
    csv: options.CsvFormat = options.CSV,
    as_json: options.ContentJson = False,
) -> None:
    """Select thresholds on columns of scores, within limits. No model is trained.

    DATA are selection data: one row for each case, with the scores of any model and the true labels. Rows
    with equal scores are different cases. Rows between two thresholds may be deferred to a human reviewer,
    if a limit such as 'deferred <= 5%' allows it. With several targets each row has 0 or 1 for each
    label. Then 'miss(1, by=label) <= .1' limits each label, and 'selected(1) <= .1' the share of rows with
    any label.
    """
    as_model = not shared.is_rule_file(out)
    if as_model and out.suffix != SUFFIX:
        raise BadInput(
            f"--out: {str(out)!r} must end in {shared.RULE_FILE} (a rule) or {SUFFIX} (a model)"
        )
    check_file = check_model_output if as_model else shared.check_output
    check_file("--out", out, data, unlabeled, training_rows)
    limits = read_limits(limit)
    objective_rate = read_objective(objective)
    columns = options.columns_of_groups(group, by_group)
    has_several_labels = len(target) > 1
    if has_several_labels:
        refuse_content_of_labels(as_json)
        needs_one_target = (
            as_model or columns or confidence is not None or training_rows is not None
        )
        _refuse_beside_targets(score, target, needs_one_target=bool(needs_one_target))
    elif confidence is not None and not limits:
        raise BadInput(
            "--confidence: only with --limit, of which it is the probability to hold on new "
            "rows"
        )
    kinds = kinds_of(kind, score)
    check_options(
        kinds, missing, objective=objective_rate, limits=limits, confidence=confidence
    )
    unlabeled_digest = None if unlabeled is None else shared.digest_of(unlabeled)

    if has_several_labels:
        label_settings = LabelSettings(
            scores=score,
            labels=target,
            kind=only_kind(kinds),
            missing=missing,
            objective=spelt(objective_rate),
            data=shared.digest_of(data),
            unlabeled=unlabeled_digest,
            csv=csv.noted,
        )
        label_settings.tune(data, out, csv, limits=limits, unlabeled=unlabeled)
        return

    settings = RuleSelection(
        scores=tuple(score),
        labels=(),  # `on` finds them
        target=target[0],
        group=tuple(columns),
        by_group=by_group,
        objective=objective_rate,
        limits=tuple(limits),
        kinds=kinds,
        missing=missing,
        confidence=confidence,
        unlabeled=unlabeled_digest,
    )
    with printing_content(out, as_json):
        settings.tune(
            data, out, csv, positive, unlabeled=unlabeled, training_rows=training_rows
        )


def _refuse_beside_targets(
    score: Sequence[str], target: Sequence[str], *, needs_one_target: bool
) -> None:
    """Raise `BadInput` for several targets beside options of a single one, or without a score for each."""
    if needs_one_target:
        raise BadInput(
            "--target: several labels per row need --out FILE.json and no --group, "
            "--confidence or --training-rows"
        )
    if len(score) != len(target):
        raise BadInput(
            f"--score: {len(score)} scores for {len(target)} targets; give one for each"
        )
