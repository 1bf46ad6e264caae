"""
More rows than one machine holds
================================

On a Dask cluster a model computes its scores on the workers. ``tailboost.dask.gathered`` returns scores,
labels and groups as data in memory, for every function of the library.

Here the "cluster" is two threads of this process. On your machine use ``Client(n_workers=4,
threads_per_worker=1)`` in a script's ``if __name__ == "__main__":``, and for a real cluster
``Client("tcp://scheduler:8786")``.
"""

# %%
# Six partitions of a table. A model is fitted to the first; ``xgboost.dask`` fits models to all rows.
import dask.array as da
import numpy as np
from dask.distributed import Client
from sklearn.linear_model import LogisticRegression

import tailboost as tb
import tailboost.dask as td

rng = np.random.default_rng(0)
X = rng.normal(size=(12_000, 6))
y = np.where(X[:, 0] + X[:, 1] + rng.logistic(size=12_000) > 1, "late", "paid")
X_lazy, y_lazy = da.from_array(X, chunks=(2000, -1)), da.from_array(y, chunks=2000)
model = LogisticRegression().fit(X[:2000], y[:2000])

# %%
# The scores of the other partitions, and a rule with a certified limit.
client = Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0")
rows = td.gathered(model, X_lazy[2000:10_000], y_lazy[2000:10_000])
print(rows["X"].head(3))
rule = tb.calibrate(tb.Scores("probability_paid", "paid"), rows["X"], rows["y"], limits=["miss(late) <= 30%"])
print(rule.certificate_)

# %%
# Later rows of the cluster.
later = td.gathered(model, X_lazy[10_000:], y_lazy[10_000:])
print(tb.certify(rule, later["X"], later["y"]))
client.close()
