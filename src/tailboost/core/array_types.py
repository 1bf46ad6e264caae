"""Names of types for annotations: arrays, arguments of users, documents."""

import os
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Entries of any type: also losses of a candidate on units, truth values or numbers.
Array = NDArray[Any]
Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
#: Indices: class numbers, row numbers.
Ints = NDArray[np.intp]
#: Masks of rows, subgroups or candidates.
Mask = NDArray[np.bool_]
#: Fingerprints of rows.
Hashes = NDArray[np.uint64]
#: The labels of a table, or the groups of a column: numbers or text.
Labels = NDArray[Any]

# Arguments of users. Each function's documentation names the accepted forms, and the first use checks them.
#: Rows: an array, a data frame of any library, a sparse matrix, a Dask collection.
Table = Any
#: One value per row, such as a label or a weight: an array, a Series, a list.
Column = Any
#: Groups of the rows: one column, or a table of several.
Groups = Any
#: A rate, a limit or a bound as users state it: an object of `tailboost.rates`, text, a number, a dict.
Stated = Any
#: A classifier of any library, or another object with its methods.
Model = Any
#: Axes of matplotlib, which is loaded only to draw.
Axes = Any
#: A label of a rate: text, or a number of Python or NumPy.
Label = str | float | np.generic
#: The subgroups of a rate: None for all rows, a name, or the names of several columns.
By = str | int | Sequence[str | int] | None
#: The name of a subgroup, a label, a group or a column of groups: text, a number, None, or a tuple of names.
Name = Hashable
Names = tuple[Name, ...]
#: Values of scikit-learn's ``random_state``.
Seed = int | np.random.RandomState | None
#: Plain types for JSON, by the names of fields.
Document = dict[str, Any]
#: Arguments of a function by name.
Arguments = dict[str, Any]
#: The name of a file.
FilePath = str | os.PathLike[str]
#: Accepted values of each parameter of a class, for scikit-learn's check of parameters.
Constraints = dict[str, list[Any] | str]
