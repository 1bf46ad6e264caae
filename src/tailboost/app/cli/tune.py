"""``tune``: select thresholds on columns of scores, and write a rule."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tailboost.app.cli import options, shared
from tailboost.app.cli.inspect import printing_content
from tailboost.app.cli.models import check_model_output
from tailboost.app.cli.rates import read_limits, read_objective
from tailboost.app.cli.score_rules import RuleSelection, check_options, kinds_of
from tailboost.app.cli.shared import BadInput
from tailboost.storage.models import SUFFIX

# Options of `tune`.
ScoreColumns = Annotated[
    list[str],
    options.option("COL", "Column of the score; again for further scores."),
]
Target = Annotated[str, options.option("COL", "Column of the true labels.")]
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
    target: Target,
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
    if a limit such as 'deferred <= 5%' allows it.
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
    if confidence is not None and not limits:
        raise BadInput(
            "--confidence: only with --limit, of which it is the probability to hold on new "
            "rows"
        )
    kinds = kinds_of(kind, score)
    check_options(
        kinds, missing, objective=objective_rate, limits=limits, confidence=confidence
    )
    unlabeled_digest = None if unlabeled is None else shared.digest_of(unlabeled)

    settings = RuleSelection(
        scores=tuple(score),
        labels=(),  # `on` finds them
        target=target,
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
