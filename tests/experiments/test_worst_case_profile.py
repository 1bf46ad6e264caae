"""Who carries the worst case, against shares counted by hand."""

import numpy as np
import pytest

from experiments._worst_case_profile import worst_case_profile


def test_profile_says_who_carries_the_worst_case():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"age": rng.normal(40, 10, 200), "job": np.tile(["a", "b"], 100), "same": 1.0, "gap": np.nan}
    )
    y = np.repeat(["no", "yes"], [150, 50])
    w = np.where((X["job"] == "b") & (y == "yes"), 5.0, 1.0)
    profile = worst_case_profile(w / w.sum(), X, y, groups=pd.DataFrame({"job": X["job"]}))
    found = {(s.kind, s.name): s for s in profile}
    yes = found["class", "yes"]
    assert yes.base == pytest.approx(0.25)
    assert yes.worst == pytest.approx((25 * 5 + 25) / w.sum())
    assert yes.shift == pytest.approx((yes.worst - 0.25) / np.sqrt(0.25 * 0.75))
    assert found["group", "job = b"].worst > found["group", "job = a"].worst
    assert found["feature", "age"].base == pytest.approx(X["age"].mean())
    assert found["feature", "same"].shift == 0.0
    assert ("feature", "gap") not in found
    features = [abs(s.shift) for s in profile if s.kind == "feature"]
    assert features == sorted(features, reverse=True)
    array = worst_case_profile(w / w.sum(), X[["age"]].to_numpy(), y, feature_names=["years"])
    assert array[-1].name == "years"
    assert array[-1].shift == found["feature", "age"].shift
    plain = worst_case_profile(np.full(200, 1 / 200), X, y)
    assert max(abs(s.shift) for s in plain) == pytest.approx(0.0, abs=1e-12)
    for wrong in (np.ones(200), np.full(200, -1 / 200)):
        with pytest.raises(ValueError, match="weights must be non-negative and sum to 1"):
            worst_case_profile(wrong, X, y)
