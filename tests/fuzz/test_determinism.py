"""The same fit again: in other processes, under other hash seeds and thread counts, with other ``n_jobs``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

for needed in ("pandas", "xgboost"):
    pytest.importorskip(needed)

from tailboost.app.registry import METHODS

pytestmark = pytest.mark.fuzz
PART = "determinism"
SCRIPT = Path(__file__).with_name("digests.py")
# Hash seed, OMP_NUM_THREADS, and whether tables as small as these are given several threads too.
PROCESSES = [("0", "1", False), ("1", "2", False), ("77", "2", True)]


def test_every_method(tally):
    runs = {}
    for seed, omp, forced in PROCESSES:
        # Waiting without spinning gives the same answers, and faster if other processes work.
        env = os.environ | {"PYTHONHASHSEED": seed, "OMP_NUM_THREADS": omp, "OMP_WAIT_POLICY": "PASSIVE"}
        arguments = [sys.executable, SCRIPT, *(["threads"] if forced else [])]
        done = subprocess.run(arguments, env=env, capture_output=True, text=True, timeout=550, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        runs[seed, omp, forced] = json.loads(done.stdout)
    first = runs[PROCESSES[0]]
    for process, found in runs.items():
        for name in METHODS:
            for what, digest in found[name].items():
                tally.equal() if digest == first[name]["n_jobs=1"] else tally.violation((process, name, what))
    assert tally.cases >= 200
