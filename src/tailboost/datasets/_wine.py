"""The wines that come with the package: five grades, two of them rare."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailboost.datasets._bunch import bundled, numeric_bunch

_GRADES = ("grade 3 or 4", "grade 5", "grade 6", "grade 7", "grade 8 or 9")


def load_wine_quality(*, return_X_y: bool = False, as_frame: bool = True) -> Any:
    """Load the wine grades that come with the package (five classes).

    6,497 Portuguese wines; the task is to predict the tasters' grade from eleven physicochemical measurements
    and the colour. The few wines graded 3 or 9 count with those of 4 and 8. Nothing is fetched.

    ================   ==================================
    rows               6,497
    features           12, numbers, none missing
    classes            5: 246 (grade 3 or 4), 2,138 (5), 2,836 (6), 1,079 (7), 198 (8 or 9)
    groups             colour
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
        data : DataFrame or float64 ndarray of shape (6497, 12)
            The measurements (acidity, sugar, chlorides, sulphur dioxide, density, pH, sulphates, alcohol in
            per cent), then ``red``, 1 for a red wine and 0 for a white one.
        target : Series or int64 ndarray of shape (6497,)
            0 to 4, the place of the grade in ``target_names``.
        groups : DataFrame of categories, or dict of str arrays of shape (6497,)
            ``colour`` (red, white).
        feature_names, target_names, DESCR
            Names of columns and classes, and a description.

    Raises
    ------
    ImportError
        ``as_frame=True`` without pandas.

    Notes
    -----
    UCI Machine Learning Repository, data set 186, licence CC BY 4.0 [1]_. 1,177 rows repeat an earlier one:
    a random split has some wines on both sides.

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
    names, cells, descr = bundled("wine_quality", np.str_)
    red = cells[:, names.index("colour")] == "red"
    measured = [j for j, name in enumerate(names) if name not in ("colour", "quality")]
    quality = cells[:, names.index("quality")].astype(np.int64)
    return numeric_bunch(
        np.column_stack([cells[:, measured].astype(np.float64), red]),
        quality.clip(4, 8) - 4,
        {"colour": np.where(red, "red", "white")},
        loader="load_wine_quality",
        feature_names=[*(names[j] for j in measured), "red"],
        target_name="quality",
        target_names=_GRADES,
        descr=descr,
        return_X_y=return_X_y,
        as_frame=as_frame,
    )
