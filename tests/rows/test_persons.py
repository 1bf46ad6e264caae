"""Persons with several rows are named before anything is tested; amounts and categories are not."""

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost.rows.persons import column_of_persons, refuse_persons, warn_of_persons

LIMIT = ["miss('ill') <= 60%"]


@pytest.fixture(scope="module")
def visits():
    """2,000 visits of about 780 patients in 4 cities, with the score of a model."""
    rng = np.random.default_rng(0)
    n = 2000
    x = rng.normal(size=n)
    score = 1 / (1 + np.exp(-x))
    return pd.DataFrame(
        {
            "patient_id": [f"P{i:05d}" for i in rng.integers(0, 900, n)],
            "age": rng.integers(20, 90, n),
            "city": rng.choice(["Bonn", "Kiel", "Trier", "Ulm"], n),
            "site_id": rng.integers(0, 15, n),
            "x": x.round(3),
            "p": score.round(4),
            "y": np.where(rng.random(n) < score, "ill", "well"),
        }
    )


@pytest.mark.parametrize("name", ["patient_id", "Patient ID", "userId", "CustomerID", "patient_nbr"])
def test_persons_are_refused(name):
    twice = pd.DataFrame({name: np.arange(400) // 2})
    with pytest.raises(ValueError, match="clusters"):
        refuse_persons(twice)
    with pytest.warns(tb.DependentRowsWarning, match=name):
        warn_of_persons(twice)


@pytest.mark.parametrize("name", ["pid", "id", "uuid", "application_number", "Case No", "city_id"])
def test_other_cases_get_a_warning(name):
    with pytest.warns(tb.DependentRowsWarning, match=name):
        refuse_persons(pd.DataFrame({name: np.arange(400) // 2}))


def test_only_persons_with_several_rows_count(visits):
    assert column_of_persons(visits, ()) == "patient_id"
    with pytest.raises(ValueError, match="patient_id"):
        refuse_persons(visits)
    once = visits.drop_duplicates("patient_id")
    assert column_of_persons(once, ()) is None
    assert column_of_persons(visits, ["patient_id"]) is None
    assert column_of_persons(visits.drop(columns="patient_id"), ()) is None  # site_id: few values


def test_one_person_with_a_small_part_of_the_rows_counts():
    """The rows of this person are one case: with 4 % of the rows they move a rate by up to .04."""
    table = pd.DataFrame({"patient_id": np.maximum(np.arange(2000), 79)})
    assert column_of_persons(table, ()) == "patient_id"
    assert column_of_persons(table[79:], ()) is None


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "digits", "diabetes"])
def test_no_alarm_on_tables_without_persons(name):
    table = getattr(sklearn.datasets, f"load_{name}")(as_frame=True).frame
    assert column_of_persons(table, ()) is None


def test_nothing_is_spent_on_persons_without_clusters(visits):
    score = tb.Scores("p", "ill", kind="probability")
    with pytest.warns(tb.DependentRowsWarning, match="'patient_id'"):
        selected = tb.tune(score, visits[:500], visits["y"][:500], limits=LIMIT)
    X, y = visits[500:], visits["y"][500:]
    calls = [
        lambda **more: tb.calibrate(selected, X, y, **more),
        lambda **more: tb.calibrate(score, X, y, limits=LIMIT, **more),
        lambda **more: tb.certify(selected, X, y, **more),
    ]
    for make in calls:
        with pytest.raises(ValueError, match="patient_id"):
            make()
    assert selected.records_.ledger.attempts == ()
    for make in calls[2:]:  # a model reads the column no more than a score does
        make(clusters=X["patient_id"])
        make(clusters=range(len(X)))


def test_fit_warns_of_persons_once(visits):
    X = visits[["patient_id", "x"]].assign(patient_id=visits["patient_id"].str[1:].astype(int))
    mix = tb.RobustMixtureClassifier([("lr", LogisticRegression())], random_state=0)
    with pytest.warns(tb.DependentRowsWarning, match="patient_id") as caught:
        mix.fit(X, visits["y"])
    assert [w.category for w in caught].count(tb.DependentRowsWarning) == 1


@pytest.mark.parametrize("seed", range(20))
def test_amounts_ages_and_codes_are_no_persons(seed):
    rng = np.random.default_rng(seed)
    names = (
        "amount",
        "age",
        "income",
        "zip",
        "icd_code",
        "balance",
        "paid",
        "bid",
        "n_visits",
        "valid",
        "score",
    )
    table = pd.DataFrame({name: rng.integers(0, rng.integers(2, 3000), 2000) for name in names})
    assert column_of_persons(table, ()) is None
