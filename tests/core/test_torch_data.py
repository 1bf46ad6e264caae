"""PyTorch datasets as tables."""

import subprocess
import sys

import pytest

pytest.importorskip("torch")

SCRIPT = """
import sys
import numpy as np
import torch
from torch.utils.data import TensorDataset
import tailboost as tb

X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
y = (X[:, 0] > 0).astype(int)
clf = tb.AdaLPBoostClassifier(n_estimators=2, random_state=0)
given = clf.fit(TensorDataset(torch.tensor(X), torch.tensor(y))).predict_proba(TensorDataset(torch.tensor(X)))
assert (given == clf.fit(X, y).predict_proba(X)).all()
assert "tailboost.learners.torch" not in sys.modules, "reading a Dataset imports the nets"
"""


@pytest.mark.slow
def test_a_dataset_is_read_by_who_has_not_imported_the_nets():
    # Another process: other tests import tailboost.learners.torch.
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
