"""Predictions and fits of every learner and classifier in eight threads at once."""

from __future__ import annotations

import pytest
from test_threads import count

pytestmark = pytest.mark.fuzz
PART = "threads"


@pytest.mark.parametrize(("what", "calls"), [("cold", 30), ("warm", 40), ("fits", 1)])
def test_threads(what, calls, tally):
    made, bad = count(what, "--calls", str(calls), timeout=550)
    for line in bad:
        tally.violation(line)
    tally.equal(made - len(bad))
