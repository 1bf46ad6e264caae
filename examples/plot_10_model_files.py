"""
A model file, and serving it
============================

Model files are plain data. No code of a file runs, and a fixed list names the allowed classes. A damaged
file is refused, and so is a file with changed answers on this machine. A loaded model has the predictions
of the saved model to the last bit.
"""

import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

import tailboost as tb

X, y = load_wine(return_X_y=True, as_frame=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
clf = tb.RobustMixtureClassifier(random_state=0).fit(X, y)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "wine.model"
    tb.save_model(clf, path)
    print(f"{path.stat().st_size / 1000:.0f} kB")
    served = tb.load_model(path)
assert np.array_equal(served.predict_proba(X_test), clf.predict_proba(X_test))

# %%
# A service answers one row at a time. The label does not depend on other rows of a batch.
seconds = []
for i in range(30):
    start = time.perf_counter()
    label = served.predict(X_test.iloc[[i]])
    seconds.append(time.perf_counter() - start)
    assert label == served.predict(X_test)[i]
fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.plot(1000 * np.array(seconds), "o")
ax.set(xlabel="request", ylabel="milliseconds", title="one row at a time", ylim=(0, None))
plt.show()
