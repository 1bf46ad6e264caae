"""Watching a model: evidence by batch, late labels, drift, the state in JSON, and its page."""

import json

import numpy as np
import pytest

import tailboost as tb
from tailboost.report import render_watch
from tailboost.statements.drift import Reference


class Ruler:
    """Answers 1 where the first column is positive."""

    classes_ = np.array([0, 1])

    def predict(self, X):
        return (np.asarray(X, dtype=float)[:, 0] > 0).astype(int)


def rows(n, seed, error=(0.2, 0.1)):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    said = (X[:, 0] > 0).astype(int)
    y = rng.integers(2, size=n)
    wrong = rng.random(n) < np.where(y == 0, *error)
    X[:, 0] = np.abs(X[:, 0]) * np.where(wrong ^ (y == 1), 1, -1)
    return X, y, said


def claims(**upper):
    bounds = [tb.CertifiedBound("class", int(k[1:]), "predict", None, u, 0, "") for k, u in upper.items()]
    return tb.Watch.of(tb.Certificate(bounds, 0.95, 0, ()))


def test_an_alarm_once_raised_stays():
    watch = claims(c0=0.25, c1=0.15)
    for k in range(3):
        watch = watch.add(Ruler(), *rows(2000, k)[:2])
    assert (watch.alarms, [b.judged for b in watch.batches]) == ([], [2000] * 3)
    watch = watch.add(Ruler(), *rows(3000, 9, (0.4, 0.1))[:2], name="bad")
    (alarm,) = watch.alarms
    assert alarm.bound.unit == 0
    assert watch.batches[-1].errors[0][1] == pytest.approx(0.4, abs=0.05)
    assert "contradict 1 of 2 bounds" in str(watch)
    for k in range(20, 24):
        watch = watch.add(Ruler(), *rows(4000, k, (0.05, 0.1))[:2])
    assert [a.bound.unit for a in watch.alarms] == [0]
    assert watch.summary()["alarm"]


def test_evidence_is_that_of_recheck():
    X, y, _ = rows(1000, 0)
    cert = tb.Certificate([tb.CertifiedBound("mean", None, "predict", None, 0.1, 0, "")], 0.9, 0, (), Ruler())
    watch, found = tb.Watch.of(cert), None
    for part in (slice(0, 300), slice(300, 1000)):
        watch = watch.add(Ruler(), X[part], y[part])
        found = cert.recheck(X[part], y[part], previous=found)
    assert watch.recheck.evidence[0].value == found.evidence[0].value


def test_late_labels_are_judged_once():
    """Whatever part of the labels comes first, the rows judged are those of all labels at once."""
    X, y, _ = rows(600, 1)
    X[10:20] = X[:10]  # equal rows: each waits for itself
    late = y.astype(object)
    late[5:400] = None
    watch = claims(c0=0.25, c1=0.15).add(Ruler(), X, late, name="May", equal_rows="natural")
    assert watch.batches[-1].judged == 205
    assert watch.batches[-1].waiting == 395
    later = y.astype(float)
    later[300:400] = np.nan
    watch = watch.add(Ruler(), X, later, name="May", equal_rows="natural")
    watch = tb.Watch.from_dict(json.loads(json.dumps(watch.to_dict())))
    watch = watch.add(Ruler(), X, y, name="May", equal_rows="natural")
    whole = claims(c0=0.25, c1=0.15).add(Ruler(), X, y, equal_rows="natural")
    assert [b.judged for b in watch.batches] == [205, 295, 100]
    assert [(r.n, r.estimate) for r in watch.recheck.bounds] == [
        (r.n, pytest.approx(r.estimate)) for r in whole.recheck.bounds
    ]
    assert not watch.waiting
    with pytest.raises(ValueError, match="none of its rows waits"):
        watch.add(Ruler(), X, y, name="May")
    with pytest.raises(tb.SeenRowsError):
        watch.add(Ruler(), X, y, name="June")


def test_state_goes_on_where_it_was():
    watch, other = (claims(c0=0.25, c1=0.15).add(Ruler(), *rows(500, 0)[:2]) for _ in range(2))
    text = json.dumps(watch.to_dict(), allow_nan=False)
    again = tb.Watch.from_dict(json.loads(text))
    more = rows(500, 1)[:2]
    assert again.add(Ruler(), *more).summary() == other.add(Ruler(), *more).summary()
    damaged = json.loads(text)
    damaged["evidence"][0]["log_wealths"].pop()
    for state in (damaged, {}, {**json.loads(text), "format": 99}):
        with pytest.raises(ValueError):  # noqa: PT011 -- each says what it is in its own words
            tb.Watch.from_dict(state)


def test_targets_without_a_certificate():
    watch = tb.Watch.against(Ruler(), {0: 0.25, None: 1.0})
    assert [(b.kind, b.unit, b.upper) for b in watch.certificate.bounds] == [("class", 0, 0.25)]
    groups = tb.Watch.against(Ruler(), 0.3, units=["a", "b"])
    assert [b.unit for b in groups.certificate.bounds] == ["a", "b"]
    X, y, _ = rows(100, 0)
    with pytest.raises(ValueError, match="groups is needed"):
        groups.add(Ruler(), X, y)
    seen = groups.add(Ruler(), X, y, groups=np.array(["a", "c"] * 50))
    assert [n for n, _ in seen.batches[0].errors] == [50, 0]
    with pytest.raises(ValueError, match="no target"):
        tb.Watch.against(Ruler(), 1.0)


def test_columns_that_move_are_named_and_are_no_alarm():
    watch = claims(c0=0.9, c1=0.9).add(Ruler(), rows(2000, 0)[0])
    assert watch.recheck is None
    assert watch.batches[0].waiting == 2000
    watch = watch.add(Ruler(), rows(2000, 1)[0])
    assert not watch.batches[-1].moved
    X = rows(2000, 2)[0]
    X[:, 2] += 1
    watch = watch.add(Ruler(), X)
    assert [d.column for d in watch.batches[-1].moved] == ["x2"]
    assert not watch.alarms
    assert "weaker" in str(watch)


def test_drift_by_counts():
    """The index is that of its definition, and without a change few columns are called moved."""
    before = {"n": np.arange(1000.0), "t": np.repeat(["a", "b"], 500), "all": np.ones(1000)}
    reference = Reference.of(before)
    p, q = np.array([500.5, 500.5]) / 1001, np.array([900.5, 100.5]) / 1001
    drift = {d.column: d for d in reference.drift({**before, "t": np.repeat(["a", "b"], [900, 100])}, 0.05)}
    assert drift["t"].psi == pytest.approx(((p - q) * np.log(p / q)).sum())
    assert (drift["n"].psi, drift["all"].psi) == (0, 0)
    gone = reference.drift({"n": np.full(50, np.nan), "t": np.array([None] * 50), "all": ["x"] * 50}, 0.05)
    assert all(d.moved for d in gone)
    rng, false = np.random.default_rng(0), 0
    for _ in range(200):
        columns = {f"c{j}": rng.normal(size=300) for j in range(5)}
        later = {name: rng.normal(size=100) for name in columns}
        false += any(d.moved for d in Reference.of(columns).drift(later, 0.05))
    assert false <= 20


def test_page_draws_every_bound():
    watch = claims(c0=0.25, c1=0.15)
    for k, error in enumerate([0.2, 0.2, 0.5, 0.9]):
        watch = watch.add(Ruler(), *rows(500, k, (error, 0.1))[:2], name=f"<{k}>")
    page = render_watch(watch, "A <title>")
    assert "A &lt;title&gt;" in page
    assert "<script" not in page
    assert "class 0" in page
    assert "contradicted" in page
    assert page.count("<svg") == 2  # wide and narrow
    assert "<0>" not in page


@pytest.mark.slow
def test_two_thousand_years_without_a_change():
    """False alarms of twelve months with errors exactly at the bounds."""
    rng, false = np.random.default_rng(0), 0
    for _ in range(2000):
        watched = [tb.confidence.Evidence.against(p) for p in (0.2, 0.1, 0.15)]
        most = 0.0
        for _ in range(12):
            errors = rng.binomial(200, [0.2, 0.1, 0.15])
            watched = [
                e.add(np.repeat([1.0, 0.0], [k, 200 - k])) for e, k in zip(watched, errors, strict=True)
            ]
            most = max([most, *(e.value for e in watched)])
        false += most >= 60
    assert false <= 0.05 * 2000


# -- the command -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A folder with a model, its certificate as JSON, and rows by month of which the last two went bad."""
    pd, testing = pytest.importorskip("pandas"), pytest.importorskip("typer.testing")
    pytest.importorskip("jinja2")
    from tailboost import cli

    folder = tmp_path_factory.mktemp("watch")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=3600), "city": rng.choice(["Rome", "Oslo"], 3600)})
    table["outcome"] = np.where(table.a + 0.7 * rng.normal(size=3600) > 0, "good", "bad")
    table.loc[2800:, "outcome"] = rng.choice(["good", "bad"], 800)
    for k, name in enumerate(["train", "test", "m1", "m2", "m3", "m4"]):
        table[600 * k : 600 * (k + 1)].to_csv(folder / f"{name}.csv", index=False)

    def call(*arguments):
        return testing.CliRunner().invoke(cli.app, [str(each) for each in arguments])

    model = folder / "m.model"
    options = ("--target", "outcome", "--method", "forest", "--model", model)
    assert call("fit", folder / "train.csv", *options).exit_code == 0
    certified = call("certify", model, folder / "test.csv", "--group", "city", "--json")
    (folder / "cert.json").write_text(certified.stdout)
    return folder, call


def test_command(stored):
    folder, call = stored
    state, page, model = folder / "watch.json", folder / "watch.html", folder / "m.model"

    def watch(month, *more):
        return call("watch", model, folder / f"{month}.csv", "--state", state, "--group", "city", *more)

    first = watch("m1", "--certificate", folder / "cert.json", "--reference", folder / "test.csv")
    assert (first.exit_code, "No alarm" in first.stdout) == (0, True)
    for known in (("--certificate", folder / "cert.json"), ("--max-error", ".3")):
        assert watch("m2", *known).exit_code == 2
    assert watch("m2", "--page", page).exit_code == 0
    assert watch("m3").exit_code in (0, 3)
    last = watch("m4", "--page", page, "--json")
    assert last.exit_code == 3
    assert json.loads(last.stdout)["alarm"]
    assert "contradicted" in page.read_text()
    assert watch("m4").exit_code == 2  # nothing of it waits
    state.write_text("{}")
    assert watch("m4").exit_code == 2


def test_command_with_targets_and_late_labels(stored):
    pd = pytest.importorskip("pandas")
    folder, call = stored
    state = folder / "late.json"
    table = pd.read_csv(folder / "m1.csv")
    table.drop(columns="outcome").to_csv(folder / "blind.csv", index=False)

    def watch(data, *more):
        return call("watch", folder / "m.model", folder / data, "--state", state, "--batch", "one", *more)

    assert watch("blind.csv").exit_code == 2  # nothing says what is to hold
    assert not state.exists()
    assert "600 rows wait" in watch("blind.csv", "--max-error", ".9").stdout
    known = watch("m1.csv", "--json")
    assert [batch["judged"] for batch in json.loads(known.stdout)["batches"]] == [0, 600]
