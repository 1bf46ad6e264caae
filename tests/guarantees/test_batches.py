"""Late labels in any order, row ids, and batches with repeated rows."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

import tailboost as tb
from tailboost import rates
from tailboost.guarantees.batches import GivenRows, copies_pass, refuse_repeated
from tailboost.rows.fingerprints import RowCounts, chance_of_agreement, hash_rows
from tailboost.rows.judged import Recorded
from tailboost.rows.ledger import Records

GRADES = np.arange(1.0, 6.0)
SHARE = np.array([0.1, 0.2, 0.4, 0.2, 0.1])
# P(yes) by grade: the answer "yes" from grade 4 on has a known error.
P_YES = np.array([0.2, 0.3, 0.4, 0.5, 0.6])
ERROR = float(SHARE @ np.where(GRADES >= 4, 1 - P_YES, P_YES))


class OnlyScores(Recorded):
    reads_scores = True


class Grader:
    """Answers "yes" from grade 4 on, by the only column."""

    _judged_by = OnlyScores
    records_ = Records()
    classes_ = np.array(["no", "yes"])

    def predict(self, X):
        return np.where(np.asarray(X, dtype=float)[:, 0] >= 4, "yes", "no")


def graded(rng, n):
    X = rng.choice(GRADES, n, p=SHARE)[:, None]
    return X, np.where(rng.random(n) < P_YES[X[:, 0].astype(int) - 1], "yes", "no")


def without(y, late):
    labels = y.astype(object)
    labels[late] = None
    return labels


ORDERS = {
    "same": lambda y, rng: np.arange(len(y)),
    "ascending": lambda y, rng: np.argsort(y, kind="stable"),
    "descending": lambda y, rng: np.argsort(y, kind="stable")[::-1],
    "random": lambda y, rng: rng.permutation(len(y)),
}


def months(order, share_late, seed, batches, n=600):
    rng, other = np.random.default_rng(seed), np.random.default_rng(seed + 10_000)
    monitor = tb.Monitor.against(Grader(), limits=[rates.error() <= ERROR])
    for k in range(batches):
        X, y = graded(rng, n)
        place = ORDERS[order](y, other)
        monitor = monitor.add(Grader(), X, without(y, np.arange(n) >= (1 - share_late) * n), name=str(k))
        monitor = monitor.add(Grader(), X[place], y[place], name=str(k))
    return monitor


@pytest.mark.parametrize("share_late", [0.5, 0.2])
def test_the_order_of_late_labels_has_no_effect(share_late):
    """Equal scores: the evidence is the same in every order, and the same with ids of rows."""
    found = [months(order, share_late, 3, 3).recheck for order in ORDERS]
    assert len({each.bounds[0].evidence for each in found}) == 1
    assert found[0].bounds[0].n == 1800
    rng, by_id = np.random.default_rng(3), tb.Monitor.against(Grader(), limits=[rates.error() <= ERROR])
    for k in range(3):
        X, y = graded(rng, 600)
        late, ids = np.arange(600) >= (1 - share_late) * 600, 600 * k + np.arange(600)
        by_id = by_id.add(Grader(), X, without(y, late), name=str(k), id=ids)
        by_id = by_id.add(Grader(), X[late], y[late], name=str(k), id=ids[late])  # the new labels alone
    assert by_id.recheck.bounds[0].evidence == pytest.approx(found[0].bounds[0].evidence)


@pytest.mark.slow
@pytest.mark.parametrize("share_late", [0.5, 0.2])
@pytest.mark.parametrize("order", ORDERS)
def test_late_labels_within_the_limit_rarely_alarm(order, share_late):
    times = 100
    monitors = [months(order, share_late, 100 + k, 6) for k in range(times)]
    false = sum(bool(monitor.alarms) for monitor in monitors)
    assert false <= times * (0.05 + 2 * np.sqrt(0.05 * 0.95 / times))
    assert np.mean([monitor.recheck.bounds[0].estimate for monitor in monitors]) == pytest.approx(
        ERROR, abs=0.01
    )


def test_new_labels_are_the_given_less_the_used_ones():
    """All orders of a small file, against a count by hand: four equal rows and a second file and a third."""
    X = np.array([[4.0], [4.0], [4.0], [4.0], [1.0]])
    looks = [
        ["yes", None, "no", None, None],
        ["no", "yes", None, "no", None],
        ["no", "yes", "no", "no", "no"],
    ]
    results = set()
    for order in permutations(range(4)):
        monitor = tb.Monitor.against(Grader(), limits=[rates.error() <= 0.5])
        for labels in looks:
            place = [*order, 4] if labels is not looks[0] else range(5)
            y = np.array(labels, dtype=object)[list(place)]
            monitor = tb.Monitor.from_dict(json.loads(json.dumps(monitor.to_dict())))
            monitor = monitor.add(Grader(), X[list(place)], y, name="a")
        # yes, no (an error); no (an error); no (an error), no for grade 1
        assert [(b.labelled, b.waiting) for b in monitor.batches] == [(2, 3), (1, 2), (2, 0)]
        assert [b.errors[0][1] for b in monitor.batches] == [0.5, 1.0, 0.5]
        results.add(monitor.recheck.bounds[0].evidence)
    assert len(results) == 1


def test_contradicting_looks_are_refused():
    """The message names the row; the monitor is unchanged."""
    X = np.array([[4.0], [4.0], [4.0], [1.0], [2.0]])
    sex = np.array(["f", "f", "m", "m", "f"])
    first = np.array(["yes", "no", None, "no", None], dtype=object)
    limits = [rates.error(by="group") <= 0.5]
    monitor = tb.Monitor.against(Grader(), limits=limits, subgroups=["f", "m"])
    monitor = monitor.add(Grader(), X, first, groups=sex, name="jan")
    before = monitor.to_dict()

    def refused(pattern, X=X, y=("yes", "no", "yes", "no", "no"), groups=sex, **more):
        with pytest.raises(ValueError, match=pattern):
            monitor.add(Grader(), X, np.array(y, dtype=object), groups=groups, name="jan", **more)
        assert monitor.to_dict() == before

    changed = "used have changed. Rows equal to row 0 of X: the used labels are 'no' in 1, 'yes' in 1"
    refused(changed, y=("yes", "yes", "yes", "no", "no"))
    refused("now they are missing in 1, 'no' in 1", y=(None, "no", "yes", "no", "no"))
    refused("row 4 of X was given with other groups", groups=np.array(["f", "f", "m", "m", "m"]))
    refused("row 4 of X is no row of batch 'jan'", X=np.array([[4.0], [4.0], [4.0], [1.0], [3.0]]))
    refused(
        "2 of its rows equal row 0 of X, and 2 of their labels were used. Only 1",
        X=X[1:], y=("no", "yes", "no", "no"), groups=sex[1:],
    )  # fmt: skip
    refused("labels not seen", y=("yes", "no", "yes", "no", "maybe"))
    refused("began without clusters", clusters=np.arange(5))
    whole = monitor.add(Grader(), X[::-1], ["no", "no", "yes", "no", "yes"], groups=sex[::-1], name="jan")
    assert whole.batches[-1].labelled == 2
    assert monitor.to_dict() == before
    # Rows unlike all others may be left out.
    some = monitor.add(Grader(), X[[4]], ["no"], groups=sex[[4]], name="jan")
    assert (some.batches[-1].labelled, some.batches[-1].waiting) == (1, 1)


def test_more_rows_than_the_batch_had_are_refused():
    X = np.array([[4.0], [2.0]])
    monitor = tb.Monitor.against(Grader(), limits=[rates.error() <= 0.5]).add(Grader(), X, ["yes", None])
    with pytest.raises(ValueError, match="equal"):
        monitor.add(Grader(), X[[0, 1, 1]], ["yes", "no", "no"], name="1")


def test_ids_identify_rows():
    X, y = graded(np.random.default_rng(0), 40)
    long = 2**60 + np.arange(40)  # equal as float64
    late = np.arange(40) >= 20
    monitor = tb.Monitor.against(Grader(), limits=[rates.error() <= 0.5])
    monitor = monitor.add(Grader(), X, without(y, late), id=long, name="jan")
    monitor = tb.Monitor.from_dict(json.loads(json.dumps(monitor.to_dict())))
    before = monitor.to_dict()
    wrong = np.where(np.arange(40) == 25, X[:, 0] % 5 + 1, X[:, 0])[:, None]
    other = y.copy()
    other[3] = "no" if y[3] == "yes" else "yes"
    for pattern, rows, labels, ids, name in (
        ("row 25 of X was given with other features", wrong, y, long, "jan"),
        ("Rows equal to row 3 of X", X, other, long, "jan"),
        ("row 0 of X is no row of batch 'jan'", X, y, long - 1, "jan"),
        ("began with id=", X, y, None, "jan"),
        ("rows 0 and 39 have the same id, 5", X, y, np.r_[5, long[1:39], 5], "jan"),
        ("id has 39 rows, X has 40", X, y, long[1:], "jan"),
        ("id contains NaN or None", X, y, [None, *long[1:].tolist()], "jan"),
        ("1 of the 40 rows were in batch 'jan', the first of them row 7", X, y, np.arange(40) + 2**60 - 40
         + 40 * (np.arange(40) == 7), "feb"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=pattern):
            monitor.add(Grader(), rows, labels, id=ids, name=name)
        assert monitor.to_dict() == before
    text = [str(number) for number in long.tolist()]  # as another reader of the file gives them
    assert monitor.add(Grader(), X, y, id=text, name="jan").batches[-1].labelled == 20
    # A copy with other ids holds other rows.
    assert monitor.add(Grader(), X, y, id=np.arange(40), name="feb").batches[-1].labelled == 40


def test_late_labels_of_natural_repeats_are_no_copies():
    """A classifier of features: rows of the batch equal earlier rows of the same batch."""

    class Features(Grader):
        _judged_by = Recorded

    X = np.repeat(np.random.default_rng(0).normal(4, 1, (50, 1)), 4, axis=0)
    y = np.random.default_rng(1).choice(["no", "yes"], 200)
    monitor = tb.Monitor.against(Features(), limits=[rates.error() <= 0.9])
    monitor = monitor.add(Features(), X, without(y, np.arange(200) % 2 == 0), name="jan")
    monitor = monitor.add(Features(), X, y, name="jan")
    assert [b.labelled for b in monitor.batches] == [100, 100]
    with pytest.raises(tb.LeakageError):
        monitor.add(Features(), X, y, name="feb")


def test_costs_belong_to_their_label():
    """Equal rows and labels of different costs: the remaining cost is counted."""
    X, y = np.full((3, 1), 4.0), np.array(["no", "no", "yes"])
    costs = np.array([[0.0, 1.0], [0.0, 5.0], [2.0, 0.0]])
    given = {"cost_range": (0, 5), "name": "jan"}
    monitor = tb.Monitor.against(Grader(), limits=[rates.cost() <= 4.0])
    monitor = monitor.add(Grader(), X, without(y, [1, 2]), costs=costs, **given)
    later = monitor.add(Grader(), X[::-1], y[::-1], costs=costs[::-1], **given)
    assert [b.errors[0] for b in later.batches] == [(1, 1.0), (2, 2.5)]
    with pytest.raises(ValueError, match="costs"):
        monitor.add(Grader(), X, y, costs=costs + np.array([0.0, 0.5]), **given)


def test_a_cluster_votes_once_in_a_batch():
    """Both rows of a person are equal; one label of each is late."""
    rng = np.random.default_rng(0)
    X, y = (np.repeat(part, 2, axis=0) for part in graded(rng, 100))
    person = np.repeat(np.arange(100), 2)
    monitor = tb.Monitor.against(Grader(), limits=[rates.error() <= ERROR])
    late = (np.arange(200) % 2 == 1) | (person >= 90)
    monitor = monitor.add(Grader(), X, without(y, late), clusters=person, name="jan")
    with pytest.raises(ValueError, match="clusters"):
        monitor.add(Grader(), X, y, name="jan")
    monitor = monitor.add(Grader(), X[::-1], y[::-1], clusters=person[::-1], name="jan")
    assert monitor.recheck.bounds[0].n == 100
    assert monitor.recheck.bounds[0].estimate == pytest.approx(np.mean(Grader().predict(X) != y))
    assert not monitor.waiting


def test_eight_threads_and_one_row():
    X, y = np.array([[4.0]]), np.array([None], dtype=object)
    start = tb.Monitor.against(Grader(), limits=[rates.error() <= 0.5]).add(Grader(), X, y, name="jan")

    def look(_):
        monitor = tb.Monitor.from_dict(json.loads(json.dumps(start.to_dict())))
        return monitor.add(Grader(), X, ["no"], name="jan").to_dict()

    with ThreadPoolExecutor(8) as pool:
        states = list(pool.map(look, range(32)))
    assert all(state == states[0] for state in states)
    assert states[0]["waiting"] == {}
    assert start.batches[-1].waiting == 1


# -- batches with repeated rows ----------------------------------------------------------------------------


def contents(values):
    return RowCounts.from_hashes(hash_rows(np.asarray(values, dtype=float)[:, None]))


def chance(one, other):
    return chance_of_agreement(contents(one), contents(other), tolerant=True)


@pytest.mark.parametrize("totals", [(2, 2, 2), (4, 4), (1, 1, 3, 3), (6, 1, 1), (8,)])
@pytest.mark.thinned(1)
def test_the_chance_of_agreement_bounds_its_probability(totals):
    """All splits of the rows of two batches, by brute force."""
    values = np.repeat(np.arange(len(totals)), totals)
    N = len(values)
    inside = (np.arange(2**N)[:, None] >> np.arange(N)) % 2 == 1
    for n in range(1, N):
        agreements, chances = [], []
        for mask in inside[inside.sum(axis=1) == n]:
            here, there = (np.bincount(values[part], minlength=len(totals)) for part in (mask, ~mask))
            agreements.append(float((here * there / totals).sum()))
            chances.append(chance(values[mask], values[~mask]))
            assert chances[-1] == pytest.approx(chance(values[~mask], values[mask]), abs=1e-4)
        for found, bound in zip(agreements, chances, strict=True):
            assert np.mean(np.array(agreements) >= found - 1e-9) <= bound + 1e-12


def test_one_copy_in_twenty_is_tolerated():
    """Of 600 different rows, 30 are copies, which a split at random has with probability 2 ** -30."""
    rng = np.random.default_rng(0)
    values, fresh = rng.normal(size=600), rng.normal(size=600)
    few, many = np.r_[values[:30], fresh[30:]], np.r_[values[:90], fresh[90:]]
    assert chance_of_agreement(contents(values), contents(few)) < 1e-6
    assert chance(values, few) == 1
    assert chance(values, many) < 1e-3


POPULATIONS = {
    "distinct": lambda rng, n: rng.normal(size=n),
    "four digits": lambda rng, n: rng.integers(0, 10_000, n),
    "two digits": lambda rng, n: rng.integers(0, 100, n),
    "grades": lambda rng, n: rng.choice(GRADES, n, p=SHARE),
    "words": lambda rng, n: rng.zipf(1.5, n),
    "half": lambda rng, n: np.where(rng.random(n) < 0.5, rng.integers(0, 5, n), rng.normal(size=n)),
}


@pytest.mark.parametrize("name", POPULATIONS)
def test_fresh_batches_of_any_size_are_not_refused(name):
    rng, draw = np.random.default_rng(0), POPULATIONS[name]
    for n, m in [(1, 1), (3, 3), (20, 30), (600, 600), (50, 900), (900, 50)] * 10:
        assert chance(draw(rng, n), draw(rng, m)) > 1e-4


@pytest.mark.parametrize("name", POPULATIONS)
def test_copies_are_refused(name):
    """A copy, another order, and, for fine scores, a part with further rows."""
    rng, draw = np.random.default_rng(0), POPULATIONS[name]
    values = draw(rng, 600)
    assert chance(values, values[::-1]) < 1e-4
    assert chance(values, np.r_[values, draw(rng, 1)]) < 1e-3
    if name != "grades":
        assert chance(values, np.r_[values, draw(rng, 60)]) < 1e-4
    if name in ("distinct", "four digits", "half"):
        assert chance(values, np.r_[values[:300], draw(rng, 300)]) < 1e-4
        assert chance(values, np.r_[values[:6], draw(rng, 594)]) > 1e-3  # one row in a hundred


def scored(rng, n):
    p = rng.random(n)
    return 5 * p[:, None], np.where(rng.random(n) < p, "yes", "no")


def test_batches_of_scores_are_given_once():
    """Copies, other orders, supersets, parts, and mixtures of earlier batches, also before their labels."""
    rng = np.random.default_rng(0)
    batches = [scored(rng, 300) for _ in range(3)]
    monitor = tb.Monitor.against(Grader(), limits=[rates.error() <= 0.9])
    monitor = monitor.add(Grader(), batches[0][0], name="jan").add(Grader(), *batches[1], name="feb")
    monitor = tb.Monitor.from_dict(json.loads(json.dumps(monitor.to_dict())))
    before = monitor.to_dict()
    fresh = batches[2]
    both = [np.concatenate([a, b]) for a, b in zip(batches[0], batches[1], strict=True)]
    parts = {
        "'jan'": batches[0],
        "'feb'": [part[::-1] for part in batches[1]],
        "in batch 'jan'": both,
        "batch 'feb'": [part[100:200] for part in batches[1]],
        "batch 'jan'.": [np.concatenate([a[:150], b]) for a, b in zip(batches[0], fresh, strict=True)],
        "the earlier batches": [
            np.concatenate([a[::11], b[::11], c[:100]])
            for a, b, c in zip(batches[0], batches[1], fresh, strict=True)
        ],
    }
    for pattern, (X, y) in parts.items():
        with pytest.raises(tb.LeakageError, match=pattern):
            monitor.add(Grader(), X, y, name="mar")
        assert monitor.to_dict() == before
    assert monitor.add(Grader(), *fresh).batches[-1].labelled == 300
    assert not any("Row ids" in note for note in monitor.notes())


def test_what_equal_scores_do_not_say_is_said():
    rng = np.random.default_rng(0)
    monitor = tb.Monitor.against(Grader(), limits=[rates.error() <= 0.9])
    X, y = graded(rng, 600)
    coarse = monitor.add(Grader(), X, y, name="jan").add(Grader(), *graded(rng, 600), name="feb")
    assert any(
        "More than one row in twenty equals another one in: jan, feb" in note for note in coarse.notes()
    )
    with pytest.raises(tb.LeakageError, match="equal"):
        coarse.add(Grader(), X[::-1], y[::-1])
    few = monitor.add(Grader(), X[:8], y[:8], name="jan").add(Grader(), X[:8], y[:8], name="feb")
    assert any(
        "to recognise a copy: jan, feb. A copy of such a batch is not refused" in n for n in few.notes()
    )
    ids = monitor.add(Grader(), X, y, id=np.arange(600), name="jan")
    assert not any("Row ids" in note for note in ids.notes())


@pytest.mark.parametrize("n_others", [0, 8, 98])
@pytest.mark.parametrize("seed", range(3))
def test_a_copy_is_said_to_pass_if_it_does(seed, n_others):
    """The more batches are compared, the less a copy stands out: all comparisons share the level."""
    rng = np.random.default_rng(seed)
    others = [GivenRows(str(k), None, {"": counts_of(np.empty((0, 1)))}) for k in range(n_others)]
    n_comparisons = 1 if not others else n_others + 2  # each batch, and all together
    depends_on_others = False
    for n in range(2, 60):
        batch = GivenRows("copied", None, {"": counts_of(rng.integers(10, size=(n, 1)))})
        try:
            refuse_repeated(replace(batch, name="copy"), None, [batch, *others])
            passes = True
        except tb.LeakageError:
            passes = False
        assert copies_pass(batch, n_comparisons) == passes
        depends_on_others |= copies_pass(batch, 1) != passes
    assert depends_on_others == (n_others > 0)


def counts_of(rows):
    return RowCounts.from_hashes(hash_rows(rows))
