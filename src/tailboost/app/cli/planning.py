"""``rows-needed``: numbers of calibration rows, before any row is collected."""

from __future__ import annotations

from typing import Annotated, Any

import tailboost as tb
from tailboost.app.cli import options, shared
from tailboost.app.cli.rates import read_limits
from tailboost.app.cli.shared import BadInput

Expected = Annotated[
    list[str] | None,
    options.option(
        "NUMBERS",
        "True rate that the rule is expected to have: .2, or f=.2,m=.18. Once for each --limit.",
        "--rate",
    ),
]
Shares = Annotated[
    list[str] | None,
    options.option(
        "NUMBERS",
        "Share of all rows that count for the limit: .1, or f=.1,m=.2. Once for each --limit.",
        "--share",
    ),
]
Power = Annotated[float, options.option("P", "Probability of the certificates.")]
Attempts = Annotated[
    int | None,
    options.option("N", "Declared number of attempts; the rows are for the first.", min=1),
]
GroupBlind = Annotated[
    bool, options.option(None, "The rule does not read the groups.", "--group-blind")
]


def rows(
    limit: options.Limits = None,
    rate: Expected = None,
    share: Shares = None,
    power: Power = 0.8,
    confidence: options.Confidence = 0.95,
    attempts: Attempts = None,
    group_blind: GroupBlind = False,
    as_json: options.Json = False,
) -> None:
    """Compute how many calibration rows certificates of limits need, for expected true rates.

    Without --share the rows that count for a limit are counted, and its subgroups have equal numbers of rows.
    """
    limits = read_limits(limit)
    if not limits:
        raise BadInput(
            "--limit is needed, with the expected --rate: --limit 'miss(ill) <= 10%' --rate 7%"
        )
    expected_rates = [_read("--rate", text) for text in rate or ()]
    shares = [_read("--share", text) for text in share or ()]
    for option, numbers in (("--rate", expected_rates), ("--share", shares)):
        may_be_absent = option == "--share" and not numbers
        if len(numbers) != len(limits) and not may_be_absent:
            example = " (the rate that you expect, such as 12%)" if option == "--rate" else ""
            raise BadInput(
                f"{option}{example} is needed once for each --limit, got {len(numbers)}"
            )
    with shared.bad_input():
        needed = tb.rows_needed(
            limits,
            expected_rates,
            shares=shares or None,
            power=power,
            confidence=confidence,
            attempts=attempts,
            by_group=not group_blind,
        )
    if as_json:
        shared.tell_json(needed.to_dict())
    else:
        print(needed)


def _read(option: str, text: str) -> Any:
    """Return a number, or a dict of numbers by subgroup from a text such as "f=.2,m=.18"."""
    with shared.bad_input(f"{option}: "):
        if not {*"=,"} & {*text}:
            return shared.read_number(text)
        pairs = [part.rpartition("=") for part in text.split(",")]
        return {name.strip(): shared.read_number(value) for name, _, value in pairs}
