"""Counts of the campaign, and their table at the end of the run.

A case ends in one of three ways. *Refused*: an error with a clear message. *Equal*: the answer of an
undisturbed run. *Violation*: any other result; the test then fails and shows the first.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

# Tests of other folders, whose helpers the campaign uses.
sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("boosting", "learners", "storage")]

# Minimum number of cases of a whole run, by part; with fewer cases the tests fail.
PROMISED = {
    "command line": 2_000,
    "model files": 2_000,
    "forged types": 3_000,
    "threads": 10_000,
    "inputs": 10_000,
    "versions": 100,
    "determinism": 200,
    "bounds": 4_000,
    "named tables": 1_500,
}
WAYS = ("refused", "equal", "violations")

_totals: dict[str, Counter] = {part: Counter() for part in PROMISED}


class Tally:
    """Counts of one test; ``part`` is their row of the table."""

    def __init__(self, part):
        self.part = part
        self.counts = Counter()
        self.shown = []

    def refused(self, n=1):
        self.counts["refused"] += n

    def equal(self, n=1):
        self.counts["equal"] += n

    def violation(self, what):
        self.counts["violations"] += 1
        self.shown.append(what)

    @property
    def cases(self):
        return sum(self.counts.values())


@pytest.fixture
def tally(request, record_property):
    """The counts of a test of a module with a constant ``PART``; violations fail the test at its end."""
    counted = Tally(request.module.PART)
    yield counted
    record_property("campaign", [counted.part, dict(counted.counts)])
    assert not counted.shown, "\n".join(map(str, counted.shown[:10]))


def pytest_runtest_logreport(report):
    # Of a run in several processes, this one sees the reports of all.
    if report.when == "teardown":
        for name, value in report.user_properties:
            if name == "campaign":
                _totals[value[0]].update(value[1])


def pytest_terminal_summary(terminalreporter):
    if not any(_totals.values()):
        return
    write = terminalreporter.write_line
    terminalreporter.section("the campaign")
    write(f"{'part':<22}{'cases':>9}{'promised':>11}" + "".join(f"{way:>12}" for way in WAYS))
    for part, counts in _totals.items():
        cells = "".join(f"{counts[way]:>12,}" for way in WAYS)
        write(f"{part:<22}{sum(counts.values()):>9,}{PROMISED[part]:>11,}{cells}")
