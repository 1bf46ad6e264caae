"""Counts of cases: a test fails at its end and shows its first violations."""

import pytest


class Tally:
    """Counts of the cases of one test."""

    def __init__(self):
        self.cases = 0
        self.shown = []

    def refused(self, n=1):
        self.cases += n

    equal = refused

    def violation(self, what):
        self.cases += 1
        self.shown.append(what)


@pytest.fixture
def tally():
    counted = Tally()
    yield counted
    assert not counted.shown, "\n".join(map(str, counted.shown[:10]))
