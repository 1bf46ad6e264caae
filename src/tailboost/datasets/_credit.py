"""The credit default clients that come with the package."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailboost.datasets._bunch import bundled, decode, numeric_bunch

_SEX = {1: "male", 2: "female"}
_AGE_BANDS = np.array(["under 30", "30-39", "40-49", "50 and over"])
_EDUCATION = {1: "graduate school", 2: "university", 3: "high school"}


def load_credit_default(*, return_X_y: bool = False, as_frame: bool = True) -> Any:
    """Load the credit default clients that come with the package (binary classification).

    30,000 credit card clients of a bank in Taiwan in 2005; the task is to predict who defaults on next
    month's payment. These are the data of the real experiment of [2]_. Nothing is fetched.

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
        Give a pandas DataFrame and Series (needs pandas). With False: NumPy arrays, pandas is not imported.

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
            ``sex`` (female, male), ``age_band`` (under 30, 30-39, 40-49, 50 and over), ``education``
            (graduate school, university, high school, other). The columns they are made from stay among the
            features.
        feature_names, target_names, DESCR
            Names of columns and classes, and a description.

    Raises
    ------
    ImportError
        ``as_frame=True`` without pandas.

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
    names, table, descr = bundled("credit_default", np.int64)
    X, y = np.ascontiguousarray(table[:, :-1]), table[:, -1].copy()
    column = dict(zip(names, table.T, strict=True))
    groups = {
        "sex": decode(column["SEX"], _SEX, "other"),
        "age_band": _AGE_BANDS[np.searchsorted([30, 40, 50], column["AGE"], side="right")],
        "education": decode(column["EDUCATION"], _EDUCATION, "other"),
    }
    return numeric_bunch(
        X,
        y,
        groups,
        loader="load_credit_default",
        feature_names=names[:-1],
        target_name=names[-1],
        target_names=["paid", "defaulted"],
        descr=descr,
        return_X_y=return_X_y,
        as_frame=as_frame,
    )
