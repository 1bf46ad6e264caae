"""The field's tables: add one here, as a loader in `TABLES`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments import _tables as known

Ints = NDArray[np.intp]

# The races of the American Community Survey, 0 to 8, as four and as six groups: small ones are put together.
FOUR = np.array([0, 1, 2, 2, 2, 3, 2, 2, 2])
SIX = np.array([0, 1, 2, 2, 2, 3, 2, 4, 5])


@dataclass(frozen=True)
class Table:
    """Rows of a table, with the authors' test rows if published.

    Parameters
    ----------
    X : data frame of shape (n, d)
        Predictors, text as categories; without columns of groups unless added.
    y : ndarray of shape (n,)
        Class numbers.
    groups : dict of str to ndarray of shape (n,)
        Columns of groups by name.
    test : ndarray of bool of shape (n,), optional
        True for test rows; None: the experiment decides.
    of : ndarray of shape (n,), optional
        Person of each row, if persons have several.
    """

    X: Any
    y: Ints
    groups: dict[str, NDArray[Any]] = field(default_factory=dict)
    test: NDArray[np.bool_] | None = None
    of: NDArray[Any] | None = None

    def rows(self, index: Any) -> Table:
        """Return some of the rows."""
        return Table(
            self.X.iloc[index].reset_index(drop=True),
            self.y[index],
            {name: values[index] for name, values in self.groups.items()},
            None if self.test is None else self.test[index],
            None if self.of is None else self.of[index],
        )


def _categories(X: Any) -> Any:
    """Return a frame with its text as categories."""
    from pandas.api.types import is_numeric_dtype

    text = [name for name in X.columns if not is_numeric_dtype(X[name])]
    return X.assign(**{name: X[name].astype("category") for name in text})


def _parquet(folder: Path, *names: str) -> Any:
    import pandas as pd

    return pd.concat([pd.read_parquet(folder / "field" / f"{name}.parquet") for name in names])


def _survey(name: str, target: str) -> Callable[[Path], Table]:
    """Make the loader of a table of the survey: validation rows to train on, then the test rows."""

    def load(folder: Path) -> Table:
        parts = [f"{name}.validation", f"{name}.test"]
        sizes = [len(_parquet(folder, part)) for part in parts]
        read = _parquet(folder, *parts).reset_index(drop=True)
        race = read["RAC1P"].to_numpy().astype(np.intp)
        groups = {"race": race, "race of 4": FOUR[race], "race of 6": SIX[race]}
        groups["sex"] = np.array(["male", "female"])[read["SEX"].to_numpy() - 1]
        X = read.drop(columns=[target])
        return Table(X, read[target].to_numpy().astype(np.intp), groups, np.repeat([False, True], sizes))

    return load


def adult(folder: Path) -> Table:
    """Load Adult, both files."""
    read = known.frame(folder, "adult")
    X = _categories(read.drop(columns=["income", "split"]))
    groups = {name: read[name].astype(str).to_numpy() for name in ("sex", "race")}
    y = (read["income"] == ">50K").to_numpy().astype(np.intp)
    return Table(X, y, groups, (read["split"] == "test").to_numpy())


def credit(folder: Path) -> Table:
    """Load the credit default clients."""
    read = known.frame(folder, "taiwan_credit")
    sex = np.array(["male", "female"])[read["SEX"].to_numpy() - 1]
    return Table(read.drop(columns=["default"]), read["default"].to_numpy().astype(np.intp), {"sex": sex})


def german(folder: Path) -> Table:
    """Load German credit: bad risks, by age above 25 and sex."""
    read = known.frame(folder, "german_credit")
    name = next(c for c in read.columns if "sex" in c)
    age = np.where(read["age"].to_numpy() > 25, "above 25", "to 25")
    # A92 and A95 are the codes of women.
    women = read[name].astype(str).str.contains("female|A92|A95").to_numpy()
    y = (read["class"] == 2).to_numpy().astype(np.intp)
    groups = {"age": age, "sex": np.where(women, "female", "male")}
    return Table(_categories(read.drop(columns=["class"])), y, groups)


def compas(folder: Path) -> Table:
    """Load COMPAS, all 7,214 defendants, by race (white or not) and sex."""
    data = known.compas(folder)
    groups = {name: np.asarray(values).astype(str) for name, values in data.groups.items()}
    return Table(_categories(data.X), data.y, groups)


def hmda(folder: Path) -> Table:
    """Load home mortgages: 1 is a loan without a high price, the favourable outcome."""
    read = _parquet(folder, "hmda")
    who = ["black", "asian", "white", "amind", "hipac", "hispanic", "non_hispanic", "male", "female"]
    who += ["agegte62", "agelt62"]
    groups = {name: read[name].to_numpy() == 1 for name in who}
    y = (read["high_priced"] == 0).to_numpy().astype(np.intp)
    return Table(read.drop(columns=[*who, "high_priced"]), y, groups)


def diabetes(folder: Path) -> Table:
    """Load encounters of diabetic patients: 0 not readmitted, 1 after 30 days, 2 within 30 days."""
    read = _parquet(folder, "diabetes130").fillna("?")
    y = read["readmitted"].map({"NO": 0, ">30": 1, "<30": 2}).to_numpy().astype(np.intp)
    age = np.where(read["age"].isin(["[70-80)", "[80-90)", "[90-100)"]), "70 and more", "to 70")
    race = read["race"].where(read["race"].isin(["Caucasian", "AfricanAmerican"]), "other")
    groups = {"race": race.to_numpy().astype(str), "age": age, "sex": read["gender"].to_numpy().astype(str)}
    import pandas as pd

    # Diagnoses are ordered numbers of a classification; codes with a letter are missing.
    X = read.drop(columns=["readmitted", "patient_nbr"])
    X = X.assign(**{name: pd.to_numeric(X[name], errors="coerce") for name in ("diag_1", "diag_2", "diag_3")})
    return Table(_categories(X), y, groups, of=read["patient_nbr"].to_numpy())


def law_school(folder: Path) -> Table:
    """Load law students: 1 passed the bar."""
    read = _parquet(folder, "law_school")
    groups = {"race": read["race"].to_numpy().astype(str), "male": read["male"].to_numpy()}
    X = read.drop(columns=["pass_bar", "race", "male"])
    return Table(X, read["pass_bar"].to_numpy().astype(np.intp), groups)


def wine(folder: Path) -> Table:
    """Load both wines in five grades, by colour."""
    import pandas as pd

    parts = [known.frame(folder, f"winequality_{colour}") for colour in ("red", "white")]
    read = pd.concat(parts, ignore_index=True)
    colour = np.repeat(["red", "white"], [len(part) for part in parts])
    y = (read["quality"].clip(4, 8) - 4).to_numpy().astype(np.intp)
    return Table(read.drop(columns=["quality"]), y, {"colour": colour})


def letter(folder: Path) -> Table:
    """Load letters, by a made group: whether the box stands left or right."""
    data = known.LOADERS["letter"](folder)
    half = np.where(data.X.iloc[:, 0] > data.X.iloc[:, 0].median(), "right", "left")
    return Table(data.X, data.y, {"half": half})


TABLES: dict[str, Callable[[Path], Table]] = {
    "adult": adult,
    "acs income": _survey("acs_income", "PINCP"),
    "acs coverage": _survey("acs_coverage", "PUBCOV"),
    "compas": compas,
    "german": german,
    "credit": credit,
    "hmda": hmda,
    "diabetes": diabetes,
    "law school": law_school,
    "wine": wine,
    "letter": letter,
}
