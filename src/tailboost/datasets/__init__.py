"""Bundled data sets: loaders in the style of scikit-learn, with groups."""

import lzma
from importlib.resources import files
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from tailboost.core import Array

__all__ = ["load_credit_default", "load_wine_quality"]

_AGE_BANDS = np.array(["under 30", "30-39", "40-49", "50 and over"])
_EDUCATION = np.array(["other", "graduate school", "university", "high school", *3 * ["other"]])
_DATA = files("tailboost.datasets") / "data"


def _columns(name: str, dtype: type) -> dict[str, Array]:
    """Return the columns of a bundled table."""
    content = lzma.decompress((_DATA / f"{name}.csv.xz").read_bytes())
    header, *rows = content.decode().splitlines()
    cells: Array = np.loadtxt(rows, delimiter=",", dtype=dtype, unpack=True)
    return dict(zip(header.split(","), cells, strict=True))


def _in_form(bunch: Any, target_name: str, return_X_y: bool, as_frame: bool) -> Any:
    """Return a bunch with its description, in the form of the arguments ``return_X_y`` and ``as_frame``.

    ``target_name`` is the name of the Series of labels.
    """
    bunch.DESCR = (_DATA / "README.md").read_text("utf-8")
    if as_frame:
        try:
            import pandas
        except ImportError as error:
            raise ImportError("as_frame needs pandas: pip install 'tailboost[app]'") from error
        bunch.data = pandas.DataFrame(bunch.data, columns=bunch.feature_names)
        bunch.target = pandas.Series(bunch.target, name=target_name)
        bunch.groups = pandas.DataFrame(bunch.groups).astype("category")
        if "age_band" in bunch.groups:
            bands = bunch.groups["age_band"].cat
            bunch.groups["age_band"] = bands.set_categories(_AGE_BANDS, ordered=True)
    return (bunch.data, bunch.target) if return_X_y else bunch


def load_credit_default(*, return_X_y: bool = False, as_frame: bool = True) -> Any:
    """Load the bundled credit default clients (binary classification).

    30,000 credit card clients of a bank in Taiwan in 2005; the task is to predict default on the next
    month's payment. The experiment of [2]_ uses these data.

    ================   ==================================
    rows               30,000
    features           23, integers, none missing
    classes            2: 23,364 paid (0), 6,636 defaulted (1)
    groups             sex, age_band, education
    ================   ==================================

    Parameters
    ----------
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=True
        Return a pandas DataFrame and Series. False returns NumPy arrays and needs no pandas.

    Returns
    -------
    Bunch or (data, target)
        data : DataFrame or int64 ndarray of shape (30000, 23)
            Credit limit in New Taiwan dollars (LIMIT_BAL); SEX (1 male, 2 female), EDUCATION (1 graduate
            school, 2 university, 3 high school, 0 and 4 to 6 other or unknown), MARRIAGE (1 married, 2
            single, 0 and 3 other); AGE in years; months of delay (PAY_0, PAY_2 to PAY_6; -2 to 0 is in time);
            bills (BILL_AMT1 to BILL_AMT6) and payments (PAY_AMT1 to PAY_AMT6) in New Taiwan dollars, newest
            first.
        target : Series or int64 ndarray of shape (30000,)
            1 = defaulted, 0 = paid.
        groups : DataFrame of categories, or dict of str arrays of shape (30000,)
            ``sex`` (female, male), ``age_band`` (under 30, 30-39, 40-49, 50 and over; ordered), ``education``
            (graduate school, university, high school, other). Their source columns are features too.
        feature_names, target_names, DESCR
            Names of columns and classes, and a description.

    Raises
    ------
    ImportError
        If ``as_frame=True`` and pandas is not installed.

    Notes
    -----
    UCI Machine Learning Repository, data set 350, licence CC BY 4.0 [1]_.

    References
    ----------
    .. [1] I-C. Yeh and C. Lien, "The comparisons of data mining techniques for the predictive accuracy of
       probability of default of credit card clients", Expert Systems with Applications 36 (2009) 2473-2480.
    .. [2] J. Blanchet et al., "A Distributionally Robust Boosting Algorithm", WSC 2019.

    Examples
    --------
    >>> from tailboost.datasets import load_credit_default
    >>> X, y = load_credit_default(return_X_y=True, as_frame=False)
    >>> X.shape, int(y.sum())
    ((30000, 23), 6636)
    """
    columns = _columns("credit_default", np.int64)
    target_name, target = columns.popitem()
    bunch = Bunch(
        data=np.column_stack([*columns.values()]),
        target=target.copy(),
        groups={
            "sex": np.where(columns["SEX"] == 1, "male", "female"),
            "age_band": _AGE_BANDS[np.digitize(columns["AGE"], [30, 40, 50])],
            "education": _EDUCATION[columns["EDUCATION"]],
        },
        feature_names=[*columns],
        target_names=np.array(["paid", "defaulted"]),
    )
    return _in_form(bunch, target_name, return_X_y, as_frame)


def load_wine_quality(*, return_X_y: bool = False, as_frame: bool = True) -> Any:
    """Load the bundled wine grades (five classes).

    6,497 Portuguese wines; the task is to predict the grade by tasters from eleven physicochemical
    measurements and the colour. The few wines with grade 3 or 9 are joined with grades 4 and 8.

    ================   ==================================
    rows               6,497
    features           12, numbers, none missing
    classes            5: 246 (grade 3 or 4), 2,138 (5), 2,836 (6), 1,079 (7), 198 (8 or 9)
    groups             colour
    ================   ==================================

    Parameters
    ----------
    return_X_y, as_frame : bool
        As in `load_credit_default`.

    Returns
    -------
    Bunch or (data, target)
        data : DataFrame or float64 ndarray of shape (6497, 12)
            The measurements (acidity, sugar, chlorides, sulphur dioxide, density, pH, sulphates, alcohol in
            per cent), then ``red``, 1 for a red wine and 0 for a white one.
        target : Series or int64 ndarray of shape (6497,)
            0 to 4, the index of the grade in ``target_names``.
        groups : DataFrame of categories, or dict of str arrays of shape (6497,)
            ``colour`` (red, white).
        feature_names, target_names, DESCR
            Names of columns and classes, and a description.

    Notes
    -----
    UCI Machine Learning Repository, data set 186, licence CC BY 4.0 [1]_. 1,177 rows repeat an earlier row,
    so a random split has some wines on both sides.

    References
    ----------
    .. [1] P. Cortez et al., "Modeling wine preferences by data mining from physicochemical properties",
       Decision Support Systems 47 (2009) 547-553.

    Examples
    --------
    >>> import numpy as np
    >>> from tailboost.datasets import load_wine_quality
    >>> X, y = load_wine_quality(return_X_y=True, as_frame=False)
    >>> X.shape, np.bincount(y).tolist()
    ((6497, 12), [246, 2138, 2836, 1079, 198])
    """
    columns = _columns("wine_quality", np.str_)
    colour = columns.pop("colour")
    quality = columns.pop("quality").astype(np.int64)
    measurements = np.column_stack([*columns.values()]).astype(np.float64)
    bunch = Bunch(
        data=np.column_stack([measurements, colour == "red"]),
        target=quality.clip(4, 8) - 4,  # rare grades join their neighbours
        groups={"colour": colour},
        feature_names=[*columns, "red"],
        target_names=np.array(
            ["grade 3 or 4", "grade 5", "grade 6", "grade 7", "grade 8 or 9"]
        ),
    )
    return _in_form(bunch, "quality", return_X_y, as_frame)
