"""Simulated coverage of bounds on populations with known truth."""

import numpy as np
import pytest
from scipy.stats import binom

import tailboost as tb
from tailboost.rates.bounds import band_cvar, band_shift, betting_upper, clopper_pearson_upper, tail_band
from tailboost.solvers import cvar, worst_case_weights

SIZES = (5, 30, 300, 3000)
DELTA = 0.05

#: Populations of losses as (values, probabilities): their mean, CVaR and worst case are exact.
POPULATIONS = {
    "rare errors": ([0.0, 1.0], [0.97, 0.03]),
    "many errors": ([0.0, 1.0], [0.6, 0.4]),
    "shares": ([0.0, 0.3, 0.7, 1.0], [0.7, 0.15, 0.1, 0.05]),
    "small spread": ([0.2, 0.25, 0.3], [0.3, 0.4, 0.3]),
    "near one": ([0.9, 1.0], [0.5, 0.5]),
    "rare and large": ([0.01, 1.0], [0.995, 0.005]),
}


def allowed_failures(repeats, delta=DELTA):
    """Largest plausible number of failures of a bound at this level (1 in 10,000)."""
    return int(binom.isf(1e-4, repeats, delta))


def draws(name, n, repeats, seed=0):
    values, p = POPULATIONS[name]
    return np.random.default_rng([seed, n]).choice(values, size=(repeats, n), p=p)


def failures_of_means(name, n, repeats):
    """Number of bounds below the mean: exact for zero-one losses, betting for all."""
    values, p = map(np.array, POPULATIONS[name])
    mean = float(values @ p)
    X = draws(name, n, repeats)
    found = {"betting": sum(betting_upper(x, DELTA) < mean for x in X)}
    if set(values) == {0.0, 1.0}:
        found["exact"] = sum(clopper_pearson_upper(int(x.sum()), n, DELTA) < mean for x in X)
    return found


def failures_of_tails(name, n, repeats):
    """Number of bands with any bound below the truth."""
    values, p = map(np.array, POPULATIONS[name])
    truth = [cvar(values, a, p) for a in (0.05, 0.3, 1.0)]
    truth += [worst_case_weights(values, radius=r, base=p).value for r in (0.05, 0.5)]
    failures = 0
    for x in draws(name, n, repeats):
        band = tail_band(x, DELTA)
        upper = [band_cvar(band, a) for a in (0.05, 0.3, 1.0)] + [band_shift(band, r) for r in (0.05, 0.5)]
        failures += any(u < t - 1e-9 for u, t in zip(upper, truth, strict=True))
    return failures


class Answering:
    """A randomised rule: the truth with a probability from the row, otherwise the next class."""

    def __init__(self, K):
        self.classes_ = np.arange(K)

    def predict_proba(self, X):
        P = np.zeros((len(X), len(self.classes_)))
        truth = X[:, 0].astype(int)
        P[np.arange(len(X)), truth] = X[:, 1]
        P[np.arange(len(X)), (truth + 1) % len(self.classes_)] += 1 - X[:, 1]
        return P

    def predict(self, X):
        return self.predict_proba(X).argmax(axis=1)


SHARES = np.array([0.0, 0.2, 0.6, 1.0])


class Population:
    """K classes (the last with five rows of n on average), three groups; shares by class and group."""

    def __init__(self, K, n, seed=0):
        rare = min(0.5, 5 / n)
        self.classes = np.r_[np.full(K - 1, (1 - rare) / (K - 1)), rare]
        rng = np.random.default_rng(seed)
        self.K = K
        self.p = rng.dirichlet([0.5, 0.5, 1, 6], size=(K, 3))  # of SHARES by class and group
        self.q = np.array([0.6, 0.3, 0.1])  # of the groups, in every class

    def draw(self, n, rng):
        y = rng.choice(self.K, n, p=self.classes)
        g = rng.choice(3, len(y), p=self.q)
        cumulative = self.p[y, g].cumsum(axis=1)
        share = SHARES[(rng.random(len(y))[:, None] > cumulative).sum(axis=1).clip(max=3)]
        return np.c_[y, share, rng.random(len(y))], y, g

    def truth(self):
        """True value of every bound, by (kind, subgroup, rule)."""
        weight, found = self.classes, {}
        for rule, loss in {"predict": SHARES < 0.5, "randomised": 1 - SHARES}.items():
            cells = self.p @ loss  # (K, 3)
            classes, groups = cells @ self.q, weight @ cells
            found["mean", None, rule] = weight @ classes
            found |= {("class", k, rule): v for k, v in enumerate(classes)}
            found |= {("group", j, rule): v for j, v in enumerate(groups)}
            found |= {("cell", (k, j), rule): cells[k, j] for k in range(self.K) for j in range(3)}
            found["worst", "class", rule] = classes.max()
            found["worst", "group", rule] = groups.max()
            mass = np.einsum("k,j,kjs->s", weight, self.q, self.p)
            found["cvar", 0.2, rule] = cvar(loss.astype(float), 0.2, mass)
            found["shift", 0.1, rule] = worst_case_weights(loss, radius=0.1, base=mass).value
        return found


def failures_together(K, n, repeats, of="errors"):
    """Number of certificates with a false bound, and the largest number of failures of one bound.

    They are certificates of errors, or of losses: 0 and 1 of ``predict``, or expected ones of randomised
    answers.
    """
    population = Population(K, n)
    truth = population.truth()
    rng, model = np.random.default_rng([K, n]), Answering(K)
    together, single = 0, dict.fromkeys(truth, 0)
    for _ in range(repeats):
        X, y, g = population.draw(n, rng)
        if of == "errors":
            cert, rule = tb.certify(model, X, y, groups=g), "predict"
        else:
            losses, rule = 1 - model.predict_proba(X)[np.arange(len(y)), y], of
            if of == "predict":
                losses = model.predict(X) != y
            cert = tb.certify_losses(losses, groups=g, alphas=[0.2], shifts=[0.1])
        bad = []
        for b in cert.bounds:
            # The worst group of all may have no row.
            if b.of_seen and of != "errors" and len(np.unique(g)) < 3:
                continue
            known = truth.get((b.kind, b.subgroup, rule))
            if known is not None and b.upper < known - 1e-9:
                bad.append((b.kind, b.subgroup, rule))
        together += bool(bad)
        for key in bad:
            single[key] += 1
    return together, max(single.values())


def failures_of_recheck(n, repeats):
    """Number of true bounds contradicted after any of ten batches."""
    rng = np.random.default_rng(n)
    population, model = Population(2, n), Answering(2)
    truth, failures = population.truth(), 0
    X, y, g = population.draw(n, rng)
    cert = tb.certify(model, X, y, groups=g)
    exact = [  # the smallest true bounds
        tb.CertifiedBound(b.kind, b.subgroup, b.rule, None, truth[b.kind, b.subgroup, b.rule], b.n, "")
        for b in cert.bounds
        if b.kind != "worst"
    ]
    cert = tb.Certificate(exact, 0.95, n, (), model)
    for _ in range(repeats):
        found, ever = None, False
        for _ in range(10):
            X, y, g = population.draw(n, rng)
            found = cert.recheck(X, y, groups=g, previous=found)
            ever |= found.contradicted
        failures += ever
    return failures


@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize("n", [5, 30, 300])
def test_means_and_tails_few(name, n):
    for count in [*failures_of_means(name, n, 60).values(), failures_of_tails(name, n, 20)]:
        assert count <= allowed_failures(60)


@pytest.mark.slow
@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize("n", SIZES)
def test_means_and_tails(name, n):
    found = failures_of_means(name, n, 2000) | {"band": failures_of_tails(name, n, 2000)}
    print(f"\n{name}, n = {n}: " + ", ".join(f"{k} {v / 2000:.4f}" for k, v in found.items()))
    assert max(found.values()) <= allowed_failures(2000)


@pytest.mark.slow
@pytest.mark.parametrize("K", [2, 10])
@pytest.mark.parametrize("n", [30, 300, 3000])
@pytest.mark.parametrize("of", ["errors", "predict", "randomised"])
def test_together(K, n, of):
    together, single = failures_together(K, n, 2000, of)
    said = f"{of}, K = {K}, n = {n}: together {together / 2000:.4f}"
    print(f"\n{said}, the worst single bound {single / 2000:.4f}")
    assert together <= allowed_failures(2000)


@pytest.mark.slow
@pytest.mark.parametrize("n", [30, 300])
def test_true_bounds_are_not_contradicted(n):
    failures = failures_of_recheck(n, 500)
    print(f"\nbatches of {n}: {failures / 500:.4f}")
    assert failures <= allowed_failures(500)
