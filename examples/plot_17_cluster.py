"""
More rows than one machine holds
================================

The classifiers of ``tailboost.dask`` play the same games over rows that lie on the workers of a Dask cluster.
What comes back is an ordinary classifier.

Here the "cluster" is two threads of this process, so that the page can be built anywhere. On a machine of
your own take ``Client(n_workers=4, threads_per_worker=1)`` in a script's ``if __name__ == "__main__":``, and
for a real cluster ``Client("tcp://scheduler:8786")``.
"""

# %%
# Six partitions of a table whose rare class is hard.
import dask.array as da
import numpy as np
from dask.distributed import Client
from sklearn.naive_bayes import GaussianNB

import tailboost as tb
import tailboost.dask as td
from tailboost.learners import HistBoostClassifier

rng = np.random.default_rng(0)
X = rng.normal(size=(12_000, 6))
score = X[:, :3] @ rng.normal(size=(3, 3)) + [1.5, 0.5, 0.0] + rng.gumbel(size=(12_000, 3))
y = np.array(["common", "less", "rare"])[score.argmax(axis=1)]
X_lazy, y_lazy = da.from_array(X, chunks=(2000, -1)), da.from_array(y, chunks=2000)

client = Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0")
trees = HistBoostClassifier(n_estimators=10)
clf = td.WorstClassBoostClassifier(trees, n_estimators=4, random_state=0).fit(X_lazy, y_lazy, client=client)

# %%
# Predictions of Dask collections are lazy. Metrics and certificates add up counts over the partitions; these
# rows were fitted on, so a certificate on them is refused.
answers = clf.predict(X_lazy)
print(td.metrics.class_errors(y_lazy, answers))
try:
    td.certify(clf, X_lazy, y_lazy)
except tb.SeenRowsError as error:
    print(error)

# %%
# Without Dask: the classifier of one machine, with all that it can do.
local = clf.to_local()
print(type(local).__module__, type(local).__name__)
print(local.guarantee_.units)

# %%
# Any other model can be made to hold up on the worst class by its probabilities alone, on rows that it was
# not fitted on. Here naive Bayes of the first partition says them lazily; how often each threshold errs is
# added up where the rows lie.
bayes = GaussianNB().fit(X[:2000], y[:2000])
P = X_lazy[2000:].map_blocks(bayes.predict_proba, chunks=(2000, 3), meta=np.empty((0, 3)))
mix = td.RobustMixtureClassifier.from_probabilities({"bayes": P}, y_lazy[2000:])
print("as they are", td.metrics.class_errors(y_lazy[2000:], da.from_array(bayes.classes_)[P.argmax(axis=1)]))
print(mix.guarantee_.units)

# %%
# What a round cost, and how little of it travelled: lines of a table of counts, whatever the number of rows.
for t, p in enumerate(clf.progress_, start=1):
    print(f"question {t}: {p.rows:,} rows, {p.combinations} lines, {p.model_bytes:,} bytes of models")
client.close()
