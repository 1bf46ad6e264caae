"""Standard output of a process is the result of its commands and nothing else.

Libraries write on file descriptor 1 past `sys.stdout`, so the commands run in a process of their own.
"""

import json
import subprocess
import sys

import numpy as np
import pytest

for needed in ("typer", "rich", "pandas", "jinja2"):
    pytest.importorskip(needed)

#: Commands that print one JSON document.
PRINTING = [
    "tradeoff c.model --json",
    "evaluate c.model fresh.csv --json",
    "certify c.model fresh.csv --json",
    "rule c.model --json",
    "inspect c.model --json",
    "tune train.csv --score s --target y --positive yes --limit miss(yes)<=.4 --out t.json --json",
    "calibrate c.model fresh.csv --limit miss(yes)<=.4 --out d.model --json",
]
FIT = 'fit train.csv --target y --limit miss(yes)<=.4 --set estimators=[["m","tree"]] --model c.model -q'
CODE = """
import sys
from tailboost.app import cli
for line in sys.argv[1:]:
    try:
        cli.main(line.split())
    except SystemExit as end:
        assert not end.code, line
"""


def table(path, seed, n=400):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.4
    s = 1 / (1 + np.exp(-(1.5 * y - 0.75 + rng.normal(size=n))))
    lines = [f"{v},{w},{('no', 'yes')[int(k)]}" for v, w, k in zip(s, rng.normal(size=n), y, strict=True)]
    path.write_text("\n".join(["s,z,y", *lines]), encoding="utf-8")


def printed(folder, *lines):
    done = subprocess.run(
        [sys.executable, "-c", CODE, *lines], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_standard_output_is_the_result_alone(tmp_path):
    for seed, name in enumerate(("train.csv", "fresh.csv")):
        table(tmp_path / name, seed)
    text = printed(tmp_path, FIT, *PRINTING).strip()  # a fit with -q prints nothing
    reader, documents = json.JSONDecoder(), []
    while text:
        document, end = reader.raw_decode(text)
        documents.append(document)
        text = text[end:].lstrip()
    assert len(documents) == len(PRINTING)
