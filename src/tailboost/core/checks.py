"""Tables of any library, and checks of numbers, labels, groups, weights and tables, each with one message.

A message has the name of the argument, the expected value and the actual one.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from numbers import Integral, Real
from types import ModuleType
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from tailboost.core.array_types import (
    Array,
    Column,
    Floats,
    Groups,
    Ints,
    Labels,
    Mask,
    Model,
    Table,
)
from tailboost.core.spelling import alike, did_you_mean, how_many, joined, listed

# Maximum number of rows and of values in a batch of a prediction, which limits memory and tells progress.
ROWS_OF_BATCH = 65_536
BATCH_VALUES = 2**30
# Names of pandas' types of text.
PANDAS_TEXT = ("str", "string")
# The most known labels or groups in a message.
NAMES_SHOWN = 10
# The most rows in a message about missing entries.
ROWS_SHOWN = 5
# Parameters between 0 and 1 that nobody states in percent.
NO_SHARES = ("learning_rate", "momentum", "variance_weight")


class NewerFormat(ValueError):
    """A document was written by a newer version of tailboost."""


class EditedRule(ValueError):
    """The certificate of a rule file is about another rule than the file has."""

    def __init__(self) -> None:
        super().__init__(
            "its certificate is about another rule: the rule was edited after the calibration. "
            'Restore the file; or set "certificate" to null in it, to use the edited rule '
            "without a certificate"
        )


def check_format(form: object, own: int, what: str, cure: str) -> None:
    """Raise ValueError if a document has another format than this version reads.

    Parameters
    ----------
    form : object
        The format of the document.
    own : int
        The format that this version reads.
    what, cure : str
        Begin of the message, and for an older document its end: what makes the document anew.
    """
    if isinstance(form, int) and form > own:
        raise NewerFormat(
            f"{what} was written by a newer version of tailboost, in format {form}; this "
            f"version reads format {own}: upgrade tailboost, or write the file by this version"
        )
    if form != own:
        raise ValueError(f"{what} has format {str(form)[:20]}, not {own}; {cure}")


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn errors in the form of a document into ValueErrors in words of its content, not of Python."""
    try:
        yield
    except (NewerFormat, EditedRule):
        raise
    except KeyError as failure:
        raise ValueError(f"this is no {what}: it has no {failure}") from None
    except (TypeError, AttributeError, OverflowError):
        raise ValueError(f"this is no {what}: it, or a part of it, has another form") from None
    except ValueError as failure:
        raise ValueError(f"this is no {what}: {failure}") from None


def refuse_query(table: Table) -> None:
    """Raise TypeError for a query of polars without rows.

    Polars is not imported here: a user with a query has imported polars.
    """
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(table, polars.LazyFrame):
        raise TypeError("a LazyFrame of polars is a query without rows: pass its collect()")


def as_pandas(table: Table) -> Any:
    """Return a table of polars or pyarrow as a data frame of pandas; other tables unchanged.

    Raises
    ------
    TypeError
        If the table is a query of polars without rows.
    """
    refuse_query(table)
    has_interface_of_pandas = hasattr(table, "iloc")
    if hasattr(table, "to_pandas") and not has_interface_of_pandas:
        return table.to_pandas()
    return table


def sklearn_utils() -> ModuleType:
    """Return `sklearn.utils`, imported when a check needs it: a rule of a file answers without it."""
    import sklearn.utils.multiclass

    return sklearn.utils


def is_sparse(X: Any) -> bool:
    """Return whether a table is a sparse matrix; there is none unless its library is imported."""
    library = sys.modules.get("scipy.sparse")
    return library is not None and bool(library.issparse(X))


def has_named_columns(X: Table) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a table is a dict of columns; SciPy's DOK arrays derive from dict, but are tables."""
    return isinstance(X, Mapping) and not is_sparse(X)


def as_table(X: Table, names: Sequence[Any] | None = None) -> Any:
    """Return rows as an object with a shape and row indexing; an object with both is returned unchanged.

    Parameters
    ----------
    X : table
        A dict of arrays becomes a table of their columns, in the order of their names.
    names : sequence, optional
        The order of the columns of a data frame with all of them.
    """
    if has_named_columns(X):
        return np.column_stack([np.asarray(X[name]) for name in sorted_names(list(X))])
    X = as_pandas(X)
    if is_sparse(X):
        return X.tocsr()  # some formats have no row indexing
    is_frame = hasattr(X, "iloc")
    if is_frame and names is not None and set(names) <= set(X.columns):
        return X[list(names)]
    if hasattr(X, "shape"):
        return X
    return np.asarray(X)


def summed(X: Table) -> Any:
    """Return a sparse matrix in canonical form as csr or csc; other tables unchanged.

    An entry stored more than once means the sum. SciPy and scikit-learn sort and sum such entries in place,
    and conversions to csr share the arrays of the original. Other matrices are therefore copied, so the
    caller's matrix never changes.
    """
    if not is_sparse(X) or X.ndim != 2:
        return X
    matrix = X
    if X.format not in ("csr", "csc"):
        matrix = X.tocsr()
    if matrix.has_canonical_format:
        return matrix
    matrix = matrix.copy()
    matrix.sum_duplicates()
    return matrix


def unpack(X: Table, y: Column = None) -> tuple[Any, Any]:
    """Return a torch Dataset as arrays, with its labels if ``y`` is None; return other tables unchanged.

    PyTorch is not imported here: a user with a Dataset has imported torch.
    """
    data = sys.modules.get("torch.utils.data")
    if data is None or not isinstance(X, data.Dataset):
        return X, y
    rows, labels = read_dataset(X)
    if y is None:
        y = labels
    return rows, y


def n_rows_of(X: Table) -> int:
    """Return the number of rows of a table, or of a dict of columns."""
    if has_named_columns(X):
        X = next(iter(X.values()), ())
    refuse_query(X)
    if hasattr(X, "shape"):
        return int(X.shape[0])
    return len(X)


def take(X: Table, rows: Array) -> Any:
    """Return rows of a table or of a dict of columns, by numbers or a mask (n,); None for None."""
    if X is None:
        return None
    if has_named_columns(X):
        return {name: take(_column_of(column), rows) for name, column in X.items()}
    if is_sparse(X):
        X = X.tocsr()  # some formats have no row indexing
    if rows.dtype == np.bool_:  # some tables take no mask
        rows = np.flatnonzero(rows)
    return sklearn_utils()._safe_indexing(X, rows)


def _column_of(values: Any) -> Any:
    """Return a value of a dict of columns as an array; a data frame of probabilities unchanged."""
    values = as_pandas(values)
    if hasattr(values, "columns"):
        return values
    return np.asarray(values)


def batches(X: Table) -> list[Ints]:
    """Return the row numbers of a table in batches."""
    n = n_rows_of(X)
    values_per_row = int(np.prod(getattr(X, "shape", ())[1:]))
    most_rows = BATCH_VALUES // max(values_per_row, 1)  # 0 for enormous rows
    n_in_batch = max(1, min(ROWS_OF_BATCH, most_rows))
    starts = range(0, max(n, 1), n_in_batch)  # a table without rows is one batch
    return [np.arange(start, min(start + n_in_batch, n)) for start in starts]


# The numbers of the rows of a part of a table, in the whole table, for messages.
_row_numbers: ContextVar[Ints | None] = ContextVar("row_numbers", default=None)


@contextmanager
def numbering_rows(numbers: Ints, n_rows: int) -> Iterator[None]:
    """Let messages of the block name rows of a part of a table by their numbers in the whole table.

    Parameters
    ----------
    numbers : ndarray of int, shape (k,)
        The numbers of the rows of the part.
    n_rows : int
        Number of rows of the whole table, which may be a part itself.
    """
    outer = _row_numbers.get()
    if outer is not None and len(outer) == n_rows:
        numbers = outer[numbers]
    with _numbered(numbers):
        yield


@contextmanager
def _numbered(numbers: Ints | None) -> Iterator[None]:
    token = _row_numbers.set(numbers)
    try:
        yield
    finally:
        _row_numbers.reset(token)


def numbering_later() -> Callable[[], AbstractContextManager[None]]:
    """Return a function with blocks that number rows as the caller's block, also after its end."""
    numbers = _row_numbers.get()
    return lambda: _numbered(numbers)


def number_in_table(row: int, n_rows: int) -> int:
    """Return the number of a row of n_rows in the whole table, of which they are a part."""
    numbers = _row_numbers.get()
    if numbers is None or len(numbers) != n_rows:
        return row
    return int(numbers[row])


def batched(X: Table) -> Iterator[tuple[Ints, Any]]:
    """Yield a table in batches, each with its row numbers; a table of one batch is not copied."""
    numbers_by_batch = batches(X)
    if len(numbers_by_batch) == 1:
        yield numbers_by_batch[0], X
        return
    for numbers in numbers_by_batch:
        yield numbers, take(X, numbers)


def read_dataset(dataset: Any) -> tuple[Array, Array | None]:
    """Return rows and labels of a dataset, read once from beginning to end.

    An item is a row, or a row and its label. Images are arrays or pictures of shape H×W or H×W×C, or tensors
    of shape C×H×W; the channels move last. Random transforms are applied once; pass them to the learner as
    ``augment`` instead.

    Parameters
    ----------
    dataset : torch.utils.data.Dataset
        A dataset with a length.

    Returns
    -------
    X : ndarray of shape (n, d), (n, H, W) or (n, H, W, C)
    y : ndarray of shape (n,) or None
        None if items have no label.

    Raises
    ------
    ValueError
        If the dataset is empty, has no length, or its rows differ in shape.
    """
    if not hasattr(dataset, "__len__"):
        raise ValueError(
            f"{type(dataset).__name__} has no length; an indexable dataset is needed"
        )
    n = len(dataset)
    if n == 0:
        raise ValueError(f"the {type(dataset).__name__} is empty: it needs at least one row")
    rows = None
    labels = []
    for i in range(n):
        content = dataset[i]
        if isinstance(content, (tuple, list)):  # a row and its label, or a row alone
            if len(content) > 1:
                labels.append(np.asarray(content[1]).item())
            content = content[0]
        row = _row_of_item(content)
        if rows is None:  # the first row shows the shape
            rows = np.empty((n, *row.shape), dtype=row.dtype)
        if row.shape != rows.shape[1:]:
            raise ValueError(
                f"row {i} of the dataset has shape {row.shape}, row 0 has {rows.shape[1:]}"
            )
        rows[i] = row
    assert rows is not None
    if not labels:
        return rows, None
    return rows, np.array(labels)


def _row_of_item(content: Any) -> Array:
    """Return the content of an item of a dataset as an array; the channels of a tensor move last."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(content, torch.Tensor):
        content = content.detach().cpu()
        if content.ndim > 2:  # C×H×W
            content = content.movedim(0, -1)
    return np.asarray(content)


#: Largest mean of sample weights that count rows, such as equal rows in one line of a table.
LARGEST_MEAN_WEIGHT = 1e9
# Significant bits of weights, fewer than the 53 of float64 and more than the 24 of float32.
WEIGHT_BITS = 32
# Tolerance of the mean of weights scaled to mean 1.
WEIGHT_ROUNDING = 1e-9

#: Smallest α for which 1/α does not overflow.
SMALLEST_ALPHA = float(np.finfo(np.float64).tiny)


def for_each(function: Callable[[Any], Any], entries: Iterable[Any]) -> list[Any]:
    """Return ``function(entry)`` of all entries; one ValueError has the messages of all that fail."""
    results = []
    errors = []
    for entry in entries:
        try:
            results.append(function(entry))
        except ValueError as error:
            errors.append(error)
    messages = list(dict.fromkeys(map(str, errors)))
    if len(messages) > 1:
        raise ValueError(". ".join(messages))
    if errors:
        raise errors[0]
    return results


def check_number(
    value: Any,
    name: str,
    low: float,
    high: float = np.inf,
    *,
    closed: bool = False,
    below: bool = False,
) -> float:
    """Return a finite number in (low, high]; in [low, …) with ``closed``, in (…, high) with ``below``.

    Raise ValueError if ``value`` is not such a number.
    """
    if isinstance(value, (bool, np.bool_, str, bytes)):  # float() would accept text
        cure = ""
        percent = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", str(value))
        if percent:
            cure = f"; write {float(percent[1]) / 100:g}"
        raise ValueError(f"{name} must be a number, got {value!r}{cure}")
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a number, got {value!r}") from error
    is_above_low = low < number or (closed and number == low)
    is_below_high = number < high or (not below and number == high)
    if not is_above_low or not is_below_high or not np.isfinite(number):
        start = "("
        if closed:
            start = "["
        end = "]"
        if below or high == np.inf:
            end = ")"
        interval = f"{start}{low:g}, {high:g}{end}".replace("-inf", "−∞").replace("inf", "∞")
        cure = ""
        if high == 1 and 2 <= number < 100 and name not in NO_SHARES:
            cure = f"; write {number / 100:g} for {number:g} %"
        raise ValueError(f"{name} must be in {interval}, got {value!r}{cure}")
    return number


def check_alpha(value: Any, name: str = "alpha") -> float:
    """Return a tail mass in (0, 1] with a finite inverse.

    Raise ValueError if ``value`` is outside (0, 1], or so small that 1/α overflows.
    """
    alpha = check_number(value, name, 0, 1)
    if alpha < SMALLEST_ALPHA:
        raise ValueError(
            f"{name} must be at least {SMALLEST_ALPHA:.3g}, below which 1/α overflows; got "
            f"{value!r}"
        )
    return alpha


def finite(values: ArrayLike, name: str) -> Floats:
    """Return finite numbers as a contiguous array of float64, in the shape of ``values``.

    Raise ValueError if an entry is not a finite number.
    """
    array = np.asarray(values)
    if array.dtype == object:
        for value in array.flat:  # NumPy would accept the text "1" and the real part of 1j
            if isinstance(value, (str, bytes, complex)):
                raise ValueError(f"{name} must be numbers, got {value!r}")
    if array.dtype.kind not in "biufO":
        raise ValueError(f"{name} must be numbers, got dtype {array.dtype}")
    try:
        numbers = np.ascontiguousarray(array, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers, got dtype {array.dtype}") from error
    # The sum detects NaN and infinities without a temporary array, but overflows for some finite numbers.
    with np.errstate(over="ignore", invalid="ignore"):
        sum_is_finite = np.isfinite(numbers.sum())
    if not sum_is_finite and not np.isfinite(numbers).all():
        place = _first_place(~np.isfinite(numbers))
        raise ValueError(f"{name} must be finite, got NaN or infinity at {place}")
    return numbers


def _first_place(mask: Mask) -> tuple[int, ...]:
    """Return the index of the first True of a mask with any number of axes."""
    return tuple(np.argwhere(mask)[0].tolist())


def check_vector(array: Array, name: str) -> None:
    """Raise unless the array is a non-empty vector.

    Raise ValueError if the shape is not (n,) with n ≥ 1.
    """
    if array.ndim != 1 or not array.size:
        cure = ""
        if array.ndim == 1:
            cure = "; there are no rows"
        if array.ndim == 2 and array.shape[1] == 1:
            cure = "; give the column itself, as in table['column']"
        raise ValueError(f"{name} must have shape (n,) with n ≥ 1, got {array.shape}{cure}")


def loss_vector(losses: ArrayLike) -> Floats:
    """Return a vector of finite losses, float64.

    Raise ValueError if ``losses`` is not a non-empty finite vector.
    """
    array = np.asarray(losses)
    check_vector(array, "losses")
    return finite(array, "losses")


def check_weights(weights: ArrayLike | None, n: int, name: str = "sample_weight") -> Floats:
    """Return the weights of n rows as float64, shape (n,): non-negative, not all zero, with a finite sum.

    ``weights`` is an array of n numbers, one number for all rows, or None for 1. Messages call them ``name``.

    Raise ValueError if the weights are invalid.
    """
    checked = _checked_weights(weights, n, name)
    with np.errstate(over="ignore"):
        total = checked.sum()
    if not np.isfinite(total):
        raise ValueError(f"{name}: the sum of the weights must be finite")
    return checked


def relative_weights(weights: ArrayLike | None, n: int, name: str = "sample_weight") -> Floats:
    """Return the weights of n rows divided by the largest, shape (n,); `check_weights` for any sum."""
    checked = _checked_weights(weights, n, name)
    return checked / checked.max(initial=0)


def row_weights(weights: ArrayLike | None, n: int, name: str = "sample_weight") -> Floats:
    """Return sample weights as numbers of rows, shape (n,): a row of weight 2 counts as two rows.

    Other weights (see `count_rows`) are relative, and are scaled to mean 1: 1/n, 1e-300 and 1e300 for all
    rows mean 1. Weights have 32 significant bits, so the rounding errors of a common factor decide no ties
    between splits.

    Raise ValueError if the weights are invalid. Any sum is allowed.
    """
    if weights is None:
        return np.ones(n)
    checked = _checked_weights(weights, n, name)
    largest = float(checked.max())
    relative = checked / largest  # no sum of these overflows
    mean = float(relative[relative > 0].mean())
    if not count_rows(largest, mean):
        checked = relative / mean
    return with_bits(checked, WEIGHT_BITS)


def with_bits(values: Floats, bits: int) -> Floats:
    """Return numbers rounded to so many significant bits."""
    mantissa, exponent = np.frexp(values)  # a value is mantissa · 2^exponent
    return np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits)


def count_rows(largest: float, mean: float) -> bool:
    """Return whether weights count rows: their mean is from 1 to `LARGEST_MEAN_WEIGHT`.

    ``mean`` is the mean of the positive weights divided by the largest, so no sum overflows.
    """
    return 1 - WEIGHT_ROUNDING <= mean * largest <= LARGEST_MEAN_WEIGHT


def base_measure(base: ArrayLike | None, n: int) -> Floats:
    """Return the base measure p, shape (n,): ``base`` divided by its sum, or 1/n for None.

    Raise ValueError if ``base`` has the wrong shape, is negative or not finite, or has no mass.
    """
    p = relative_weights(base, n, "base")
    return p / p.sum()


def _checked_weights(weights: ArrayLike | None, n: int, name: str) -> Floats:
    """Return weights, shape (n,): finite, at least 0, not all 0; 1 for None. A number is for all rows."""
    if weights is None:
        return np.ones(n)
    if isinstance(weights, Real):
        array = np.full(n, weights)
    else:
        array = as_array(weights, name)
    if array.shape != (n,):
        raise ValueError(
            f"{name} must have shape ({n},), one weight for each, got {array.shape}"
        )
    checked = finite(array, name)
    if checked.min() < 0:
        place = _first_place(checked < 0)
        raise ValueError(f"{name} must not be negative, got {checked.min()} at {place}")
    if checked.max() == 0:
        raise ValueError(f"{name}: all weights are zero; at least one must be non-zero")
    return checked


def check_deferred(value: Column, n: int) -> Mask:
    """Return the argument ``deferred``, a mask of n rows, as booleans.

    Raise ValueError if ``value`` has another shape, or an entry is not True, False, 1 or 0.
    """
    mask = np.asarray(value)
    is_column = mask.shape == (n,)
    if not is_column or mask.dtype.kind not in "bi" or not np.isin(mask, (0, 1)).all():
        raise ValueError(
            f"deferred must be a mask of shape ({n},), True or False for each row, such as "
            f"answers == 'human review'; got the shape {mask.shape} and the type {mask.dtype}"
        )
    return mask.astype(bool)


def check_length(values: Column, name: str, n: int, of: str = "X") -> None:
    """Raise unless there is one entry for each of the n rows of ``of``."""
    if isinstance(values, str):
        raise ValueError(
            f"{name}={values!r}: give the column itself, as in {name}=table[{values!r}]"
        )
    if n_rows_of(values) != n:
        raise ValueError(f"{name} has {n_rows_of(values)} rows, {of} has {n}")


def check_indexes(**of_rows: Any) -> None:
    """Raise if pandas objects about the same rows have different indexes.

    Arguments without an index, and of another length, are left to other checks. Entries of a dict are
    compared one by one. Rows are matched by position, so an index in another order is a difference too.

    Parameters
    ----------
    **of_rows
        Arguments by name; the first with an index is the reference of the others.

    Raises
    ------
    ValueError
        Names both arguments, their first different rows, and the remedy.

    Examples
    --------
    >>> import pandas as pd
    >>> from tailboost.core.checks import check_indexes
    >>> X, y = pd.DataFrame({"age": [30, 40]}, index=[7, 3]), pd.Series([0, 1], index=[3, 7])
    >>> check_indexes(X=X, y=y.loc[X.index])
    >>> check_indexes(X=X, y=y)
    Traceback (most recent call last):
    ...
    ValueError: y and X have different pandas indexes: row 0 is 3 in y, 7 in X. Give y.loc[X.index] to \
match the rows, or y.to_numpy() if they are in the same order already
    """
    indexes = list(_indexes(of_rows.items()))
    for name, index in indexes[1:]:
        reference_name, reference = indexes[0]
        if len(index) != len(reference) or index.equals(reference):
            continue
        # Missing labels of an index are equal to themselves here.
        pairs = zip(index, reference, strict=True)
        row = next(i for i, (a, b) in enumerate(pairs) if not (a is b or a == b))
        remedy = f"{name}.to_numpy() if they are in the same order already"
        if index.is_unique and index.isin(reference).all():
            remedy = f"{name}.loc[{reference_name}.index] to match the rows, or {remedy}"
        else:
            remedy = f"the rows of {reference_name}, or {remedy}"
        # Lists have plain values, which are printed without their types.
        [label] = index[[row]].tolist()
        [reference_label] = reference[[row]].tolist()
        raise ValueError(
            f"{name} and {reference_name} have different pandas indexes: row {row} is "
            f"{label!r} in {name}, {reference_label!r} in {reference_name}. Give {remedy}"
        )


def _indexes(of_rows: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the names and indexes of pandas objects, also of those in dicts."""
    pandas = sys.modules.get("pandas")  # a user with its objects has imported pandas
    if pandas is None:
        return
    for name, values in of_rows:
        if isinstance(values, (pandas.Series, pandas.DataFrame)):
            yield name, values.index
        elif isinstance(values, Mapping):
            yield from _indexes((f"{name}[{key!r}]", column) for key, column in values.items())


def is_nested(value: object) -> bool:
    """Return whether an entry of a column is a collection, such as a tuple or a dict, and no single value."""
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes))


def refuse_nested(entries: Iterable[Any], name: str) -> None:
    """Raise if an entry of a column is a collection."""
    for row, value in enumerate(entries):
        if not isinstance(value, str) and is_nested(value):
            raise ValueError(
                f"{name} must have a number or text in each row; row {row} has the "
                f"{type(value).__name__} {str(value)[:60]}"
            )


def as_array(values: Any, name: str) -> Array:
    """Return entries of rows as an array; raise ValueError if an entry is a collection of another length."""
    try:
        return np.asarray(values)
    except ValueError:  # NumPy's words name no argument
        refuse_nested(values, name)
        raise


def is_missing(value: object) -> bool:
    """Return whether a value is None, NaN or pandas' NA."""
    if value is None or value is getattr(sys.modules.get("pandas"), "NA", None):
        return True
    return isinstance(value, Real) and not isinstance(value, Integral) and math.isnan(value)


GIVE_A_VALUE = "drop their rows or give them a value"
MISSING_GROUP = "missing"  # name of the group of rows without a group
GROUP_OF_MISSING = f"drop their rows, or make them a group: groups.fillna({MISSING_GROUP!r})"


def with_missing_group(
    groups: Groups, known_groups: Sequence[Any] | None, name: Any = MISSING_GROUP
) -> Groups:
    """Return groups with a name for missing entries if this is a known group; others unchanged."""
    if known_groups is None or name not in known_groups or groups is None:
        return groups
    groups = as_pandas(groups)
    if isinstance(groups, Mapping):
        return {
            column: with_missing_group(groups[column], known_groups, name) for column in groups
        }
    if hasattr(groups, "iloc"):  # the name of a Series stays
        entries = groups.astype(object)
        return entries.where(entries.notna(), name)
    if isinstance(groups, str):  # a fault, which the check of groups names
        return groups
    array = np.array(with_interval_names(groups), dtype=object)
    filled = [name if is_missing(entry) else entry for entry in array.ravel()]
    return np.array(filled, dtype=object).reshape(array.shape)


def refuse_missing(values: Column, name: str, remedy: str = GIVE_A_VALUE) -> None:
    """Raise if labels or groups have missing or nested entries, or a list mixes text with other values."""
    names_and_places = factorized(values)
    is_list = not hasattr(values, "dtype")
    # Without an object dtype, a list of text and NaN would become text with "nan".
    if names_and_places is not None:
        column, _ = names_and_places
    elif is_list:
        column = np.asarray(values, dtype=object)
    else:
        column = np.asarray(values)
    if column.dtype.kind == "f":
        _refuse_missing_entries(column, np.isnan(column), name, remedy)
    if column.dtype.kind != "O":
        return

    entries = column.ravel().tolist()
    # The test for text comes first, because the other tests take thirty times as long.
    others = [entry for entry in entries if not isinstance(entry, str)]
    if not others:
        return
    refuse_nested(entries, name)
    missing = np.array([is_missing(entry) for entry in entries])
    _refuse_missing_entries(column, missing, name, remedy)
    if is_list and len(others) < column.size:  # NumPy would turn 1 into "1"
        text = next(entry for entry in entries if isinstance(entry, str))
        raise ValueError(
            f"{name} mixes text, such as {text!r}, with other values, such as {others[0]!r}"
        )


def _refuse_missing_entries(column: Array, missing: Mask, name: str, remedy: str) -> None:
    """Raise if entries of a column or table are missing, with their number and the first rows."""
    places = np.flatnonzero(missing)
    if not places.size:
        return
    n_columns = column.size // len(np.atleast_1d(column))
    rows = np.unique(places // n_columns)
    raise ValueError(
        f"{name} contains NaN or None: {places.size} of {column.size} entries are missing "
        f"({first_of(rows)}); {remedy}"
    )


def first_of(rows: Ints) -> str:
    """Return the first of some row numbers in words, such as "row 3, 7, …, counted from 0"."""
    return f"row {first_numbers(rows.tolist())}, counted from 0"


def first_numbers(rows: list[int]) -> str:
    """Return the first of some row numbers, such as "3, 7, …"."""
    numbers = ", ".join(map(str, rows[:ROWS_SHOWN]))
    if len(rows) > ROWS_SHOWN:
        numbers += ", …"
    return numbers


def factorized(values: Any) -> tuple[Array, Ints] | None:
    """Return the distinct values of a column of pandas' categories or text, and the place of each value.

    Places have shape (n,). A million values take .02 seconds, as objects .2. None for other columns, and for
    columns with missing values: callers have a slower way for both.
    """
    dtype = getattr(values, "dtype", None)
    has_few_values = hasattr(dtype, "categories") or getattr(dtype, "name", "") in PANDAS_TEXT
    if not has_few_values or not hasattr(values, "factorize"):
        return None
    places, names = values.factorize()
    if not len(places) or places.min() < 0:
        return None
    return np.asarray(names), places


def with_categories(groups: Any) -> Any:
    """Return groups with pandas' text as categories, which `factorized` reads faster; others unchanged."""
    if not hasattr(groups, "iloc"):
        return groups
    if hasattr(groups, "columns"):
        text = [name for name, dtype in groups.dtypes.items() if dtype.name in PANDAS_TEXT]
        return groups.astype(dict.fromkeys(text, "category"))
    if groups.dtype.name in PANDAS_TEXT:
        return groups.astype("category")
    return groups


def unboxed(labels: Any) -> Any:
    """Return labels of a type of pandas, or Python objects of one kind, as numbers or booleans of NumPy.

    scikit-learn would make floating-point numbers of nullable types: True and 1 would become 1.0, and
    integers above 2⁵³ would be rounded. It refuses text of variable width, so here such text gets a fixed
    width. Other text, tables and labels with missing values are returned unchanged.
    """
    if not (hasattr(labels, "dtype") or hasattr(labels, "dtypes")):
        return labels
    array = np.asarray(labels)
    if array.dtype.kind in "biu":
        return array
    if array.dtype.kind not in "OT" or not array.size:  # objects, or text of variable width
        return labels
    types = {type(label) for label in array.ravel().tolist()}
    are_texts = array.dtype.kind == "T" and types == {str}
    are_booleans = all(issubclass(cls, (bool, np.bool_)) for cls in types)
    are_integers = all(issubclass(cls, (int, np.integer)) and cls is not bool for cls in types)
    if are_booleans or are_integers or are_texts:
        return np.array(array.tolist())
    return labels


def label_vector(labels: Any, *, warn: bool = False) -> Labels:
    """Return labels as an array of shape (n,) of their type; a table of one column gets a warning."""
    if isinstance(labels, str):
        raise ValueError(
            f"y is the text {labels!r}; give the column of labels, such as table[{labels!r}]"
        )
    return sklearn_utils().column_or_1d(unboxed(labels), warn=warn)


def numbered_clusters(clusters: Column, n: int) -> Any:
    """Return the number of the cluster of each of n rows, from 0, shape (n,); None without clusters.

    Raise ValueError unless ``clusters`` is one column of n values, without missing values, of one type.
    """
    if clusters is None:
        return None
    refuse_missing(clusters, "clusters")
    check_length(clusters, "clusters", n)
    if np.ndim(clusters) == 2 and np.shape(clusters)[1] != 1:
        raise ValueError(f"clusters must be one column, got the shape {np.shape(clusters)}")
    try:
        _, numbers = distinct_and_places(sklearn_utils().column_or_1d(clusters))
    except TypeError as error:
        raise ValueError(
            f"clusters: values of types that cannot be ordered ({error}); convert them to text"
        ) from None
    return numbers.astype(np.intp)


def refuse_swapped(X: Table, y: Column, X_name: str = "X", y_name: str = "y") -> None:
    """Raise if the table is one column and the labels are a table.

    Parameters
    ----------
    X, y : table and labels as given
        The arguments of a call.
    X_name, y_name : str
        Their names in the message.
    """
    X_shape = tuple(getattr(X, "shape", ()))
    y_shape = tuple(getattr(y, "shape", ()))
    if len(X_shape) == 1 and len(y_shape) == 2:
        raise ValueError(
            f"{X_name} is one column of {X_shape[0]:,} values, {y_name} a table of shape "
            f"{y_shape}: are X and y swapped?"
        )


def refuse_frame(frame: Table) -> None:
    """Raise if a data frame is a single row or column, is empty, or repeats a column name."""
    if frame.ndim != 2:
        raise ValueError(
            f"X is a Series of {len(frame)} values, where a table is needed: for one row of a "
            "data frame give X.iloc[[i]], for one column X[[name]]"
        )
    if not frame.columns.is_unique:
        repeated = frame.columns[frame.columns.duplicated()].tolist()
        raise ValueError(
            f"X has more than one column called {repeated[0]!r}; names must differ"
        )
    for size, noun in zip(frame.shape, ("row", "column"), strict=True):
        if size == 0:
            raise ValueError(
                f"X has no {noun}s, shape {frame.shape}; at least one {noun} is needed"
            )


def refuse_texts(X: Table, name: str = "X") -> None:
    """Raise if rows are texts without a table around them, as pipelines with a vectorizer take them."""
    is_array = hasattr(X, "dtype") and len(getattr(X, "shape", ())) == 1
    if not is_array and not isinstance(X, (list, tuple)):
        return
    if not len(X) or not isinstance(next(iter(X)), str):
        return
    if is_array and hasattr(X, "index") and isinstance(X.index[0], str):
        return  # one row of a data frame, with names of columns
    raise ValueError(
        f"{name} holds a text for each row, where a table is needed. Give "
        f"{name} = pd.DataFrame({{'text': texts}}) and, as the model of tune or calibrate, "
        f"{MODEL_OF_TEXTS}"
    )


MODEL_OF_TEXTS = "lambda table: model.predict_proba(table['text'])"


def check_answers(answers: Any, name: str, X: Table) -> None:
    """Raise unless a model has an answer to each row of a table.

    Parameters
    ----------
    answers : array or table
        The output of a model for the rows.
    name : str
        Its name in the message.
    X : table
        The rows.
    """
    n = n_rows_of(answers)
    if n == n_rows_of(X):
        return
    cure = ""
    if np.shape(X)[1:] == (1,):  # a vectorizer iterates over the names of the columns
        column = next(iter(getattr(X, "columns", [0])))
        cure = f". If it reads texts, give {MODEL_OF_TEXTS.replace('text', str(column))}"
    raise ValueError(f"{name} has {how_many(n, 'row')}, X has {n_rows_of(X):,}{cure}")


@contextmanager
def naming_columns(model: Model, X: Table) -> Iterator[None]:
    """Name the columns of a model's fit if a prediction on other columns fails."""
    try:
        with naming_cells(X):
            yield
    except Exception as failure:  # models of other libraries raise exceptions of any type
        words = _other_columns(model, X)
        if words is None:
            raise
        raise ValueError(words) from failure


@contextmanager
def naming_cells(X: Table) -> Iterator[None]:
    """Name column and row of the first infinite or missing number if a model refuses such numbers."""
    try:
        yield
    except ValueError as failure:
        words = ""
        if re.search("infinity", str(failure)):
            words = _first_cell(
                X, is_infinite, "a number is needed, or NaN for a missing value"
            )
        elif "NaN" in str(failure):
            words = _first_cell(
                X,
                is_missing,
                "drop the row, fill it as with SimpleImputer in a pipeline, or take a model "
                "that reads missing values",
            )
        if not words:
            raise
        fault = re.split("Input X contains|X contains infinity", str(failure))
        model = fault[0] if len(fault) > 1 else ""  # the name of a model in a fit
        raise ValueError(f"{model}{words}") from failure


@contextmanager
def naming_texts(X: Table) -> Iterator[None]:
    """Name the column of a data frame with a text that a learner cannot read as a number."""
    try:
        yield
    except ValueError as failure:
        message = str(failure)
        if "could not convert string to float" not in message or not hasattr(X, "iloc"):
            raise
        for j, name in enumerate(X.columns):
            values = X.iloc[:, j].tolist()
            if any(isinstance(value, str) and repr(value) in message for value in values):
                raise ValueError(
                    f"{message} in column {name!r}: encode it, as with OneHotEncoder in a "
                    "pipeline, or take a learner that reads text, such as 'tree'"
                ) from failure
        raise


def is_infinite(value: object) -> bool:
    """Return whether a number is infinite, or too large for float32."""
    return isinstance(value, Real) and abs(float(value)) > float(np.finfo(np.float32).max)


def _first_cell(X: Table, is_faulty: Callable[[object], bool], cure: str) -> str:
    """Return a message about the first faulty cell of a data frame or array; empty without one.

    Parameters
    ----------
    X : table
        A data frame or array; other tables have no such message.
    is_faulty : callable
        Whether a value is a fault.
    cure : str
        End of the message.
    """
    if hasattr(X, "iloc"):
        columns = [(repr(X.columns[j]), X.iloc[:, j]) for j in range(X.shape[1])]
    elif isinstance(X, np.ndarray) and X.ndim == 2:
        columns = [(f"{j} (from 0)", column) for j, column in enumerate(X.T)]
    else:
        return ""
    for name, column in columns:
        values = column.tolist()
        for row, value in enumerate(values):
            if is_faulty(value):
                fault = "NaN"
                if is_infinite(value):
                    fault = "infinity or a value too large for float32"
                number = number_in_table(row, len(values))
                return f"X contains {fault} in column {name}, row {number} (counted from 0): {cure}"
    return ""


def _other_columns(model: Model, X: Table) -> str | None:
    """Return a message if a data frame has other columns than a model's fit, or another order; else None."""
    feature_names = getattr(model, "feature_names_in_", None)
    if feature_names is None or not hasattr(X, "columns"):
        return None
    fit_columns = np.asarray(feature_names).tolist()
    columns = list(X.columns)
    missing = [name for name in fit_columns if name not in columns]
    new = [name for name in columns if name not in fit_columns]
    if missing:
        near = did_you_mean(str(missing[0]), map(str, new))
        return (
            f"X has no column {listed(missing)}, which the model was fitted on; {near}X has "
            f"{listed(columns)}"
        )
    if new:
        return (
            f"X has columns that the model was not fitted on, {listed(new)}: give "
            "X[model.feature_names_in_]"
        )
    if columns != fit_columns:
        return (
            "X has the columns of the model in another order: give X[model.feature_names_in_]"
        )
    return None


def check_row_shape(estimator: Model, X: Table, reset: bool) -> None:
    """Store the shape of an image array's rows in ``fit``; raise later if the shape differs.

    The stored shape is None for a table, and ``reset`` is True in ``fit``.
    """
    shape = tuple(getattr(X, "shape", ()))[1:]
    image_shape = None
    if len(shape) > 1:
        image_shape = shape
    if reset:
        estimator._row_shape = image_shape
    elif image_shape != estimator._row_shape:
        training_data = "a table"
        if estimator._row_shape is not None:
            training_data = f"rows of shape {estimator._row_shape}"
        raise ValueError(
            f"X has rows of shape {shape}, {type(estimator).__name__} was fitted on "
            f"{training_data}"
        )


def positions(
    values: Column,
    known: Any,
    name: str,
    fault: str = "labels not seen in fit",
    cure: str = "",
) -> Ints:
    """Return the position of each label or group among the known ones, shape (n,).

    ``known`` has distinct values in any order.

    Raises
    ------
    ValueError
        If a value is unknown: "{name} holds {fault}: [...]; known are …; {cure}".
    """
    values = np.asarray(values)
    known = np.asarray(known)
    order = np.argsort(known)
    try:
        sorted_place = np.searchsorted(known, values, sorter=order)
        # A value above all known ones is compared with the last.
        place = order[sorted_place.clip(max=len(known) - 1)]
        is_unknown = known[place] != values
    except TypeError:  # text and numbers have no order
        place_of_value = {value: i for i, value in enumerate(known.tolist())}
        place = np.array([place_of_value.get(value, -1) for value in values.tolist()])
        is_unknown = place < 0
    if np.any(is_unknown):
        unknown_values = sorted(set(values[is_unknown].tolist()), key=str)
        sentence = f"{name} holds {fault}: {unknown_values[:5]}"
        hints = _hints_on_unknown(unknown_values, known.tolist(), cure)
        raise ValueError("; ".join([sentence, *hints]))
    return place.astype(np.intp, copy=False)


def _hints_on_unknown(unknown: list[Any], known: list[Any], cure: str) -> list[str]:
    """Return advice to correct unknown labels or groups, for a message.

    Parameters
    ----------
    unknown : list
        The unknown values, sorted.
    known : list
        The known ones.
    cure : str
        The advice of the caller, "" for none; values of another type have their own.
    """
    listing = f"known are {joined(list(map(repr, known)), NAMES_SHOWN)}"
    if len(unknown) == 1:
        listing = did_you_mean(str(unknown[0]), map(str, known)) + listing
    pairs = _equal_as_text(unknown, known)
    if pairs:
        cure = f"they are of another type: map them, as in pd.Series(values).map({pairs})"
    return [hint for hint in (listing, alike([*unknown, *known]), cure) if hint]


def _equal_as_text(unknown: list[Any], known: list[Any]) -> dict[Any, Any]:
    """Return the known value for each unknown one, equal as text; empty unless each has one."""
    value_of_text = {str(value): value for value in known}
    if len(unknown) > NAMES_SHOWN or not {*map(str, unknown)} <= value_of_text.keys():
        return {}
    return {value: value_of_text[str(value)] for value in unknown}


def with_interval_names(column: Any) -> Any:
    """Return a column of pandas' intervals, as of `pandas.cut`, as text: "(30, 45]". Others unchanged.

    Ordered categories keep their order.
    """
    dtype = getattr(column, "dtype", None)
    categories = getattr(dtype, "categories", None)
    if categories is not None:
        if not _are_intervals(categories):
            return column
        if hasattr(column, "cat"):  # a Series
            return column.cat.rename_categories(str)
        return column.rename_categories(str)
    is_column = isinstance(column, (list, tuple)) or getattr(column, "ndim", 0) == 1
    if not is_column or not _are_intervals(column):
        return column
    names = [entry if is_missing(entry) else str(entry) for entry in column]
    return np.array(names, dtype=object)


def _are_intervals(column: Any) -> bool:
    """Whether the first present entry of a column of objects is an interval of pandas."""
    if getattr(getattr(column, "dtype", None), "kind", "O") != "O":
        return False
    first = next((entry for entry in column if not is_missing(entry)), None)
    return type(first).__name__ == "Interval"


def label_column(values: ArrayLike, name: str) -> Labels:
    """Return labels or groups as an array of numbers or of text.

    Raise ValueError if the column is empty, has another shape than (n,), has missing entries, or mixes types.
    """
    values = with_interval_names(values)
    names_and_places = factorized(values)
    if names_and_places is not None:
        distinct_values, places = names_and_places
        return label_column(distinct_values, name)[places]
    array = as_array(values, name)
    check_vector(array, name)
    refuse_missing(values, name)
    # Objects of one kind and text of variable width become a plain array.
    if array.dtype == object or array.dtype.kind == "T":
        types = set(map(type, array.tolist()))
        if all(issubclass(cls, str) for cls in types):
            array = np.array(array.tolist(), dtype=str)
        elif all(issubclass(cls, (bool, int, float, np.number, np.bool_)) for cls in types):
            array = np.array(array.tolist())
        else:
            names = ", ".join(sorted(cls.__name__ for cls in types))
            raise ValueError(
                f"{name} must hold labels of one kind, numbers or text; it has {names}"
            )
    if array.dtype.kind not in "biufU":
        cure = ""
        if array.dtype.kind == "M":
            cure = "; take a part of each date, such as .dt.year"
        raise ValueError(f"{name} must hold numbers or text, got dtype {array.dtype}{cure}")
    return array


def labels_and_places(groups: Column, name: Any = None) -> tuple[Labels, Ints]:
    """Return the distinct groups of a column, ascending, and the place of each row's group, shape (n,).

    Messages have the ``name`` of the column; None for groups without one.
    """
    words = column_words(name)
    names_and_places = factorized(groups)
    if names_and_places is None:
        refuse_missing(groups, words, GROUP_OF_MISSING)
        return distinct_and_places(label_column(groups, words))
    names, places = names_and_places
    labels, place_of_name = distinct_and_places(label_column(names, words))
    return labels, place_of_name[places]


def column_words(name: Any, argument: str = "groups") -> str:
    """Return an argument of groups, or the column of this name in it, for a message."""
    if name is None:
        return argument
    return f"{argument} column {name!r}"


def distinct(values: Array) -> Array:
    """Return the distinct values, ascending."""
    if values.dtype == object:
        entries = set(values.tolist())
        if set(map(type, entries)) == {str}:  # faster than to sort all texts
            return np.array(sorted(entries), dtype=object)
    return np.unique(values)


def distinct_and_places(values: Array) -> tuple[Array, Ints]:
    """Return the distinct values, ascending, and the place of each value among them, shape (n,).

    Whole numbers in a short range are counted: a million take 4 ms, and `numpy.unique` needs 80 to 200.
    """
    if values.dtype.kind == "U":
        names = np.unique(values)
        return names, np.searchsorted(names, values)
    if values.dtype.kind in "iu" and values.size:
        low = values.min()
        if int(values.max()) - int(low) < values.size:
            # In this type differences do not overflow.
            offset = values.astype(np.intp) - low.astype(np.intp)
            occurs = np.bincount(offset) > 0
            names = (np.flatnonzero(occurs) + low.astype(np.intp)).astype(values.dtype)
            return names, (np.cumsum(occurs) - 1)[offset]
    return np.unique(values, return_inverse=True)


def stable_order(values: Array) -> Ints:
    """Return the indices that sort values without NaN; equal ones keep their order.

    If all values differ, any method finds this order: a million take 22 ms, a stable one needs 85 to 105.
    """
    order = np.argsort(values)
    in_order = values[order]
    if np.any(in_order[1:] == in_order[:-1]):
        return np.argsort(values, kind="stable")
    return order


def check_labels(y: Labels) -> None:
    """Raise ValueError unless ``y`` has labels of classes, all text or all numbers."""
    refuse_quantity(label_column(y, "y"))
    sklearn_utils().multiclass.check_classification_targets(y)


def refuse_quantity(labels: Labels) -> None:
    """Raise ValueError if labels are numbers with a fraction: a quantity, and no classes."""
    if labels.dtype.kind == "f" and (labels != np.floor(labels)).any():
        raise ValueError(f"Unknown label type: continuous. {no_classes(labels)}")


def no_classes(y: Labels) -> str:
    """Return a message about numbers in the place of labels."""
    values = distinct(y)
    examples = ", ".join(f"{value:g}" for value in values[:3])
    return (
        f"y has {len(values):,} different values, such as {examples}; a classifier needs "
        "classes, as in y > threshold"
    )


def groups_in(X: Table, groups: Groups, name: str = "groups") -> Any:
    """Return groups as data: the name of a column of a data frame ``X`` becomes that column.

    A list of names becomes these columns. Other groups are returned unchanged. Raise ValueError if a text
    names no column of the table.
    """
    columns = list(getattr(X, "columns", ()))
    if isinstance(groups, str):
        if groups in columns:
            return as_pandas(X)[[groups]]
        if columns:
            near = did_you_mean(groups, map(str, columns))
            raise ValueError(
                f"{name}={groups!r}: X has no column of this name; {near}it has "
                f"{listed(columns)}. Give the column itself, as in {name}=table[{groups!r}]"
            )
        raise ValueError(_no_column(groups, name))
    # A list with an entry for each row has groups, even if these are called like columns.
    if not columns or not isinstance(groups, (list, tuple)) or len(groups) == n_rows_of(X):
        return groups
    if all(isinstance(name, str) and name in columns for name in groups):
        return as_pandas(X)[list(groups)]
    return groups


def no_groups(owner: str, title: Any, columns: Iterable[Any]) -> str:
    """Return the message about missing groups, for a rule on a column of groups.

    Parameters
    ----------
    owner : str
        Name of the table or row in the message.
    title : object
        Name of the column of groups.
    columns : iterable
        The columns of the table.
    """
    columns = list(columns)
    if title in columns:
        return f"groups are needed: the rule reads {title!r}. Give groups={title!r}"
    near = did_you_mean(str(title), map(str, columns))
    return (
        f"groups are needed: the rule reads {title!r}, and {owner} has no {title!r}; {near}it "
        f"has {listed(columns)}. Give groups=…"
    )


def _no_column(groups: str, name: str) -> str:
    """Return the message about a text in the place of a column of groups."""
    return (
        f"{name}={groups!r}: give the column itself, as in {name}=X[{groups!r}], or an entry "
        f"for each row, as in {name}=[{groups!r}] for one row"
    )


def columns_by_name(groups: Groups, name: str) -> dict[Any, Any]:
    """Return the columns of a groups argument by name; the key of a single unnamed column is None.

    Named columns are sorted, so their order in the argument has no effect. Columns of an array are
    numbered.

    Raise ValueError if a table has no columns or repeats a name, or an array has another shape or missing
    entries.
    """
    if isinstance(groups, str):
        raise ValueError(_no_column(groups, name))
    groups = as_pandas(groups)
    if not names_columns(groups):
        return _columns_by_number(groups, name)
    names = list(groups)
    if not names or len(set(names)) < len(names):
        raise ValueError(f"{name} must have columns with different names, got {names}")
    return {column: with_interval_names(groups[column]) for column in sorted_names(names)}


def names_columns(groups: Groups) -> bool:
    """Return whether groups are a data frame or a dict: a table with names of columns."""
    return isinstance(groups, Mapping) or hasattr(groups, "columns")


def _columns_by_number(groups: Groups, name: str) -> dict[Any, Any]:
    """Return the columns of an array of groups by number; the key of a single column is None."""
    groups = with_interval_names(groups)
    refuse_missing(groups, name, GROUP_OF_MISSING)
    array = np.asarray(groups)
    if array.ndim not in (1, 2):
        raise ValueError(f"{name} must be a 1d array or a table, got shape {array.shape}")
    if array.ndim == 2 and array.shape[1] > 1:
        return dict(enumerate(array.T))
    return {None: array.ravel()}


def group_columns(groups: Groups, name: str) -> dict[Any, Any]:
    """Return the columns of a groups argument by name, as `columns_by_name`.

    Raise ValueError also if the name of a column has another meaning in ``by=``: "class" and "cell", and
    "group" if there are several columns.
    """
    columns = columns_by_name(groups, name)
    meanings = {"class": "the true label", "cell": "class × group"}
    if len(columns) > 1:
        meanings["group"] = "all columns of groups"
    for column in columns:
        if column in meanings:
            raise ValueError(
                f"{name}: a column is named {column!r}, but by={column!r} stands for "
                f"{meanings[column]}; give the column another name"
            )
    return columns


def category_orders(groups: Groups) -> dict[Any, list[Any]]:
    """Return the categories of ordered columns of groups, by the names of `columns_by_name`."""
    groups = as_pandas(groups)
    columns: Any = {None: groups}
    if names_columns(groups):
        columns = groups
    orders = {}
    for name in columns:
        dtype: Any = getattr(columns[name], "dtype", None)
        if getattr(dtype, "ordered", False):
            orders[name] = with_interval_names(dtype.categories).tolist()
    return orders


def in_category_order(values: Array, order: list[Any] | None) -> Array:
    """Return sorted distinct values in the order of categories, if there is one."""
    if order is None:
        return values
    place = {value: i for i, value in enumerate(order)}
    return values[np.argsort([place[value] for value in values.tolist()])]


def column_name(groups: Groups) -> Any:
    """Return the name of a column such as a Series of pandas; None for other objects.

    None also for a name with another meaning in ``by=``.
    """
    name = getattr(groups, "name", None)
    if isinstance(name, (str, int)) and name not in ("class", "group", "cell"):
        return name
    return None


def sorted_names(names: list[Any]) -> list[Any]:
    """Return the names of columns, sorted also if text and numbers are mixed."""
    try:
        return sorted(names)
    except TypeError:  # text and numbers have no order
        return sorted(names, key=lambda name: (type(name).__name__, str(name)))


def distinct_labels(labels: ArrayLike, name: str = "labels") -> Labels:
    """Return distinct labels as an array of numbers or of text.

    Raises
    ------
    ValueError
        As `label_column`, or if a label is repeated.
    """
    names = label_column(labels, name)
    if len(np.unique(names)) < len(names):
        raise ValueError(f"{name} must differ, got {names.tolist()}")
    return names


def check_same_kind(values: Labels, name: str, others: Labels, other_name: str) -> None:
    """Raise if text would be compared with numbers, for which all answers would be wrong."""
    kinds = ["text" if labels.dtype.kind == "U" else "numbers" for labels in (values, others)]
    if kinds[0] == kinds[1]:
        return
    labels = distinct(values).tolist()
    other_labels = distinct(others).tolist()
    pairs = _equal_as_text(labels, other_labels)
    cure = ""
    if pairs:
        cure = f"; map the labels, as in pd.Series({name}).map({pairs})"
    elif max(len(labels), len(other_labels)) <= NAMES_SHOWN:
        cure = (  # the order of labels does not tell which of them have the same meaning
            f": {labels} and {other_labels}; map {name} by the meaning of each label, as in "
            f"pd.Series({name}).map({{{labels[0]!r}: …}})"
        )
    raise ValueError(f"{name} holds {kinds[0]}, {other_name} {kinds[1]}{cure}")


def check_probabilities(
    y_proba: ArrayLike,
    n: int,
    name: str = "y_proba",
    of: str = "y_true",
    tolerance: float | None = None,
) -> Floats:
    """Return rows of probabilities, shape (n, K); one column is the second of two classes.

    Without a ``tolerance``, rows must be in [0, 1] and sum to 1 to the precision of their type, or to 1e-6.

    Raise ValueError if the entries are not numbers in [0, 1], do not sum to 1, or do not have n rows.
    """
    array = np.asarray(y_proba)
    if array.ndim not in (1, 2) or array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} must be numbers of shape (n, K) or (n,), got dtype {array.dtype}, shape "
            f"{array.shape}"
        )
    check_length(array, name, n, of)
    if tolerance is None:
        tolerance = 1e-6
        if array.dtype.kind == "f":  # some learners compute in float32
            tolerance = max(tolerance, float(np.sqrt(np.finfo(array.dtype).eps)))
    probabilities = array.astype(np.float64)
    if probabilities.ndim == 1:  # of the second of two classes
        probabilities = np.column_stack([1.0 - probabilities, probabilities])
    in_range = (probabilities >= -tolerance) & (probabilities <= 1.0 + tolerance)
    sums_to_one = np.abs(probabilities.sum(axis=1) - 1.0) <= tolerance
    is_valid = in_range.all(axis=1) & sums_to_one  # False for NaN
    if not is_valid.all():
        row = int(np.flatnonzero(~is_valid)[0])
        raise ValueError(
            f"{name} must hold probabilities in [0, 1] that sum to 1 in each row; row "
            f"{number_in_table(row, len(array))} is {array[row].tolist()}"
        )
    return probabilities


def check_labelled_rows(
    learner: Model, X: Table, y: Column, sample_weight: Column
) -> tuple[Any, Labels, Ints, Floats]:
    """Check the arguments of a learner's ``fit``; return the table, classes, class numbers and weights.

    Their shapes are (n, d), (K,), (n,) and (n,). The learner's ``_checked`` checks the table.

    Raise ValueError if labels or weights do not fit the table, or fewer than two classes have rows of
    positive weight.

    Parameters
    ----------
    learner : estimator
        The learner that is fitted.
    X : table of n rows
        Features.
    y : array-like of shape (n,)
        Labels.
    sample_weight : array-like of shape (n,) or None
        Weights; None for equal ones.
    """
    if y is None:
        raise ValueError(
            f"{type(learner).__name__} requires y to be passed, but the target y is None"
        )
    check_indexes(X=X, y=y, sample_weight=sample_weight)
    refuse_missing(y, "y")
    X, y = learner._checked(X, unboxed(y))
    y = label_vector(y, warn=True)
    n = n_rows_of(X)
    check_length(y, "y", n)
    check_labels(y)
    classes, class_numbers = distinct_and_places(y)
    weight = check_weights(sample_weight, n)
    weighted_classes = np.unique(class_numbers[weight > 0])
    if len(weighted_classes) < 2:
        raise ValueError(
            f"y holds one class only ({classes.tolist()[weighted_classes[0]]!r}) among the "
            "rows of positive weight; at least two are needed"
        )
    return X, classes, class_numbers.astype(np.intp), weight


def in_class_order(table: Table, name: str, classes: Labels) -> Any:
    """Return a table with a column for each of the K classes, shape (n, K), in the order of the classes.

    A data frame must have K columns, which are matched to the labels by name. If the labels are numbers, a
    name may be the number as text. Columns with the default names 0, 1, … that are not the labels are in the
    order of the classes.

    Arrays are returned unchanged, and so is a single column of shape (n,), such as a Series: it has the
    values of the second of two classes. Messages call the table ``name``.

    Raises
    ------
    ValueError
        If a column of a data frame is no class, if a class has no column or several, or if a Series has the
        name of the first of two classes.
    """
    table = as_pandas(table)
    labels = classes.tolist()
    wanted = _spellings(labels, labels)
    if not hasattr(table, "columns"):
        column_name = getattr(table, "name", None)
        if len(labels) == 2 and _spellings([column_name], labels) == wanted[:1]:
            raise ValueError(
                f"{name}: the column is named {column_name!r}, the first class; a single "
                f"column must have the probabilities of the second class, {labels[1]!r}"
            )
        return table
    names = table.columns
    spellings = _spellings(names.tolist(), labels)
    has_default_names = hasattr(names, "step") and (names.start, names.step) == (0, 1)
    if has_default_names and set(spellings) != set(wanted):  # 0, 1, …, as pandas gives them
        return np.asarray(table)
    _refuse_columns(names.tolist(), spellings, name, labels)
    order = [spellings.index(label) for label in wanted]
    return np.asarray(table)[:, order]


def _refuse_columns(
    columns: list[Any], spellings: list[Any], name: str, labels: list[Any]
) -> None:
    """Raise if a column is no class, or a class has no column or several; ``spellings`` are the columns'."""
    label_spellings = _spellings(labels, labels)
    for column, spelling in zip(columns, spellings, strict=True):
        if spelling not in label_spellings:
            near = did_you_mean(str(column), map(str, labels))
            raise ValueError(
                f"{name} has a column {column!r}, which is no class: {near}the classes are "
                f"{labels[:20]}; if the columns are in this order, give an array"
            )
        if spellings.count(spelling) > 1:
            same = [columns[j] for j in range(len(columns)) if spellings[j] == spelling]
            raise ValueError(
                f"{name} has more than one column for the class {column!r}: {same}"
            )
    for label, spelling in zip(labels, label_spellings, strict=True):
        if spelling not in spellings:
            raise ValueError(
                f"{name} has no column for the class {label!r}; its columns are "
                f"{list(map(str, columns[:20]))}"
            )


def _spellings(names: list[Any], labels: list[Any]) -> list[Any]:
    """Return names in a form in which 1, 1.0 and "1" are equal if the labels are numbers."""
    if not all(isinstance(label, (bool, int, float)) for label in labels):
        return [str(name) for name in names]
    spellings = []
    for name in names:
        spelling = {"True": 1, "False": 0}.get(name, name)
        with suppress(TypeError, ValueError):  # a name may be no number
            spelling = float(spelling)
        spellings.append(spelling)
    return spellings


def refuse_paid_errors(costs: Floats, names: Sequence[str], name: str) -> None:
    """Raise ValueError if a wrong answer earns something, and more than the right one.

    ``costs`` has the mean cost of each answer (column) by true label, shape (K, K) or (K, K + 1); ``names``
    are the names of the answers, and ``name`` is the name of the costs.
    """
    for number, of_label in enumerate(costs.tolist()):
        right = of_label[number]
        for answer, cost in enumerate(of_label):
            if answer != number and cost < min(right, 0.0):
                raise ValueError(
                    f"{name}: where {names[number]} is right, the answer {names[answer]} "
                    f"costs {cost:.4g}, less than the right answer ({right:.4g}), so the rule "
                    "would seek it. If the numbers are gains, change their sign; in a matrix "
                    "the rows are true labels, the columns answers"
                )


def check_costs(
    costs: Table, n: int, classes: Labels, used: Ints | None, name: str = "costs"
) -> Floats | None:
    """Return the cost of each answer for each row, shape (n, K), in the order of the classes; None for None.

    Columns of a data frame are matched by name (`in_class_order`). ``used`` are the numbers of the rows to
    return, None for all n rows. Raise ValueError if the costs are not K finite numbers for each row.
    """
    if costs is None:
        return None
    try:
        checked = np.asarray(in_class_order(costs, name, classes), dtype=np.float64)
    except TypeError as failure:
        raise ValueError(f"{name} must be numbers: {failure}") from None
    if checked.shape != (n, len(classes)):
        raise ValueError(
            f"{name} must have the shape {(n, len(classes))}, the cost of each answer for each "
            f"row, got {checked.shape}"
        )
    if used is not None:
        checked = checked[used]
    if not np.isfinite(checked).all():
        raise ValueError(f"{name} must be finite numbers")
    return checked
