"""A decision rule on one screen: stated limits with their verdict, the rule, the overall error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.utils.validation import check_is_fitted

MOST_LIMITS = 4
MOST_RULE_LINES = 4


def stated_lines(rule: Any) -> list[tuple[str, str]]:
    """Return a heading and a text for each stated limit with its verdict, and for the overall error.

    They are certified if the rule has a certificate, otherwise measured on the selection data.
    """
    summary = rule.summary_
    certificate = rule.certificate_
    if certificate is not None:
        limits = certificate.stated_limits()
        error_lines = [
            ("error", words.removeprefix("Overall error ")) for words in certificate.price_words
        ]
    else:
        limits = [(limit.words, limit.found) for limit in rule.rates_.stated_limits()]
        error_lines = [("error", summary.error_words or summary.headline)]
        if limits:
            error_lines.append(("", summary.chances))
    width = max((len(words) for words, _ in limits), default=0)
    limit_lines = [("limit", f"{words:{width}}  {verdict}") for words, verdict in limits]
    return [*_first_lines(limit_lines, MOST_LIMITS, "rule.rates_"), *error_lines]


def rule_screen(rule: Any) -> str:
    """Return the limits with their verdict, the overall error and the rule of a fitted classifier."""
    check_is_fitted(rule)
    models, *texts = rule.rule_.short
    source = f"measured on {rule.summary_.measured_on.partition(' (')[0]}"
    groups: list[tuple[str, str]] = []
    if rule.certificate_ is not None:
        source = f"certified from {rule.certificate_.n_rows:,} fresh rows"
        if rule.certificate_.one_answer:
            groups.append(("group", " ".join(rule.certificate_.one_answer)))
    lines = [
        *groups,
        *stated_lines(rule),
        *_first_lines([("rule", text) for text in texts], MOST_RULE_LINES, "rule.rule_"),
        ("more", "rule.certificate_, rule.summary_, rule.rates_, rule.rule_, rule.tradeoff()"),
    ]
    head = f"{type(rule).__name__} of {models}, {source}"
    return "\n".join([head, *(f"{name:5}  {text}" for name, text in lines)])


def _first_lines(
    lines: Sequence[tuple[str, str]], n_lines: int, attribute: str
) -> list[tuple[str, str]]:
    """Return at most ``n_lines`` lines; if there are more, the last names the attribute with the others."""
    if len(lines) <= n_lines:
        return list(lines)
    first_lines = list(lines[: n_lines - 1])
    heading, _ = lines[0]
    n_left_out = len(lines) - len(first_lines)
    return [*first_lines, (heading, f"… and {n_left_out} more in {attribute}")]
