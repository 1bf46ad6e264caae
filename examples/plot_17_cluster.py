"""
More rows than one machine holds
================================

On a Dask cluster a model computes probabilities on the workers. ``tailboost.dask`` sums the
confusion counts of all candidates there, and selects a rule. The result is an ordinary classifier.

Here the "cluster" is two threads of this process. On your machine use ``Client(n_workers=4,
threads_per_worker=1)`` in a script's ``if __name__ == "__main__":``, and for a real cluster
``Client("tcp://scheduler:8786")``.
"""

# %%
# Six partitions of a table with a difficult rare class. A model is fitted to the first; ``xgboost.dask``
# fits models to all rows.
import dask.array as da
import numpy as np
from dask.distributed import Client
from sklearn.naive_bayes import GaussianNB

import tailboost as tb
import tailboost.dask as td

rng = np.random.default_rng(0)
X = rng.normal(size=(12_000, 6))
score = X[:, :3] @ rng.normal(size=(3, 3)) + [1.5, 0.5, 0.0] + rng.gumbel(size=(12_000, 3))
y = np.array(["common", "less", "rare"])[score.argmax(axis=1)]
X_lazy, y_lazy = da.from_array(X, chunks=(2000, -1)), da.from_array(y, chunks=2000)

client = Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0")
bayes = GaussianNB().fit(X[:2000], y[:2000])
P = X_lazy[2000:].map_blocks(bayes.predict_proba, chunks=(2000, 3), meta=np.empty((0, 3)))

# %%
# The selection reads four partitions; the last one is for a certificate.
mix = td.from_probabilities({"bayes": P[:8000]}, y_lazy[2000:10_000])
print(mix.rates_)

# %%
# Answers to Dask collections are lazy.
answers = td.predict(mix, {"bayes": P[8000:]})
print(tb.metrics.class_errors(y[10_000:], answers.compute()))

# %%
# The classifier is that of one machine.
print(type(mix).__module__, type(mix).__name__)
print(mix.tradeoff())

# %%
# A certificate of any fitted classifier, from rows in partitions. Training rows are refused.
clf = tb.RobustMixtureClassifier(random_state=0).fit(X[:2000], y[:2000])
print(td.certify(clf, X_lazy[2000:], y_lazy[2000:]))
try:
    td.certify(clf, X_lazy, y_lazy)
except tb.LeakageError as error:
    print(error)
client.close()
