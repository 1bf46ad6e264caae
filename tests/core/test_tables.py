"""Tables of other libraries."""

import sys
from types import ModuleType

import numpy as np
import pytest

import tailboost as tb
from tailboost import rates

pd = pytest.importorskip("pandas")


def test_a_query_of_polars_is_refused(monkeypatch):
    """Each method that takes a table says what to pass instead."""
    polars = ModuleType("polars")  # stands in for the library
    for name in ("LazyFrame", "DataFrame", "Series"):
        setattr(polars, name, type(name, (), {}))
    monkeypatch.setitem(sys.modules, "polars", polars)
    table = pd.DataFrame({"s": np.linspace(0.01, 0.99, 200)})
    y = np.where(np.random.default_rng(0).random(200) < table["s"], "yes", "no")
    query, scores, limits = polars.LazyFrame(), tb.Scores("s", "yes"), [rates.miss("yes") <= 0.4]
    clf = tb.tune(scores, table, y, limits=limits)
    fresh = table.assign(s=table["s"] + 0.001)
    for call in (
        lambda: tb.tune(scores, query, y, limits=limits),
        lambda: tb.tune(scores, table, y, groups=query, limits=limits),
        lambda: clf.predict(query),
        lambda: tb.certify(clf, query, y),
        lambda: tb.certify(clf, fresh, y, groups=query),
        lambda: tb.RobustMixtureClassifier().fit(query, y),
        lambda: tb.AdaLPBoostClassifier().fit(query, y),
    ):
        with pytest.raises(TypeError, match="LazyFrame"):
            call()
