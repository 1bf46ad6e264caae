"""Fits killed without warning, at chosen calls and at any moment: each resumes to the unbroken fit."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
import test_checkpoints as checkpoints

pytestmark = pytest.mark.fuzz
PART = "checkpoints: kills"
CASES = [
    ("adalpboost", {"cv": 5}),
    ("lpboost", {"cv": 0.3}),
    ("worstclassboost", {}),
    ("averageboost", {"rounds": 6}),
]


@pytest.mark.parametrize("learner", checkpoints.LEARNERS)
@pytest.mark.parametrize("where", checkpoints.TARGETS)
@pytest.mark.parametrize(("case", "params"), CASES)
def test_at_chosen_calls(case, params, where, learner, tally, tmp_path):
    """Kill in each of the first calls of a fit and of its continuation."""
    whole = checkpoints.classifier(case, None, checkpoints.LEARNERS[learner], **params).fit(
        checkpoints.X, checkpoints.Y
    )
    plan = [(str(tmp_path / str(at)), (at, 1 + at % 4, 2)) for at in range(1, 9)]
    killed = checkpoints.kill(case, plan, where, learner, **params)
    assert killed >= 6  # of 24: the others ended before this call
    for folder, _ in plan:
        checkpoints.check_resumed(case, Path(folder), whole, learner, **params)
    tally.equal(killed)


@pytest.mark.parametrize("learner", checkpoints.LEARNERS)
@pytest.mark.parametrize(("case", "params"), CASES)
def test_at_any_moment(case, params, learner, tally, tmp_path):
    start = time.perf_counter()
    whole = checkpoints.classifier(case, None, checkpoints.LEARNERS[learner], **params).fit(
        checkpoints.X, checkpoints.Y
    )
    whole_fit = time.perf_counter() - start
    draw = random.Random(f"{case} {learner}")
    for i in range(3):
        folder = tmp_path / str(i)
        killed = sum(killed_after(draw.random() * whole_fit, case, folder, learner, params) for _ in range(2))
        if folder.exists():
            checkpoints.check_resumed(case, folder, whole, learner, **params)
        tally.equal(killed)


def killed_after(seconds, case, folder, learner, params):
    """Fit in a fork with a kill after some time; return True if the fit was running."""
    child = os.fork()
    if not child:
        try:
            checkpoints.classifier(case, folder, checkpoints.LEARNERS[learner], **params).fit(
                checkpoints.X, checkpoints.Y
            )
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
