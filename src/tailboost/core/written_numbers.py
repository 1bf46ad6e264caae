"""Numbers in text: plain numbers, which ``float`` reads, and numbers with commas or grouped thousands.

"1,234" is another number in a German file than in an English one. So numbers with commas are read by a stated
decimal sign, and refused without a statement.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from numbers import Real

from tailboost.core.spelling import as_typed

# A text column holds numbers if at least this fraction of its values spell numbers, with more different
# numbers than MANY.
MOSTLY = 0.95
MANY = 20
_WITH_UNIT = re.compile(r"(?P<sign>[$€£¥]?)\s*[+-]?(\d[\d.,]*|[.,]\d+)\s*(?P<unit>\D*)")
_PERCENT = re.compile(r"\s*[+-]?[\d.,\s]*\d[\d.,]*\s*%\s*")
LONGEST_WITH_UNIT = (
    64  # characters; longer texts are no numbers, and bound the time of the search
)
_SPACES = "'’ \u00a0\u202f"  # group thousands, with any decimal sign


def _pattern(decimal: str, other: str) -> re.Pattern[str]:
    """Return the pattern of numbers with a decimal sign; the other sign and spaces may group thousands."""
    sign = re.escape(decimal)
    separator = f"[{re.escape(other)}{_SPACES}]"
    grouped = rf"[1-9]\d{{0,2}}(?P<group>{separator})\d{{3}}(?:(?P=group)\d{{3}})*"
    decimals = rf"(?:{sign}\d*)?"
    exponent = r"(?:[eE][+-]?\d+)?"
    return re.compile(
        rf"\s*[+-]?(?:(?:{grouped}|\d+){decimals}|{sign}\d+){exponent}\s*", re.ASCII
    )


_PATTERNS = {".": _pattern(".", ","), ",": _pattern(",", ".")}


def as_number(value: object) -> float | None:
    """Return the number of a real value or of its ASCII text; None for other values."""
    if isinstance(value, str):
        if not value.isascii() or "_" in value:  # 1_000 is a number only in Python
            return None
        try:
            number = float(value)
        except ValueError:
            return None
        if math.isnan(number):
            return None
        return number
    if isinstance(value, Real | Decimal) and not isinstance(value, bool):
        return float(value)
    return None


def with_points(values: Sequence[object], decimal: str, what: str) -> list[object]:
    """Return the values of a column, with plain numbers in the place of numbers with this decimal sign.

    Each value is read by itself, so a row has the same values in a later file.

    Raises
    ------
    ValueError
        If the column ``what`` also holds numbers with the other decimal sign.
    """
    other_decimal = "."
    if decimal == ".":
        other_decimal = ","
    plain: dict[object, str] = {}
    changed = []
    with_other_sign = []
    for text in {value for value in values if isinstance(value, str)}:
        number = _PATTERNS[decimal].fullmatch(text)
        if number is not None:
            plain[text] = _plain(number, decimal)
            if plain[text] != text:
                changed.append(text)
        elif _PATTERNS[other_decimal].fullmatch(text):
            with_other_sign.append(text)
    if changed and with_other_sign:
        raise ValueError(
            f"{what} holds {min(changed)!r} and {min(with_other_sign)!r}: with "
            f"decimal={decimal!r} both cannot be numbers"
        )
    return [plain.get(value, value) for value in values]


def _plain(number: re.Match[str], decimal: str) -> str:
    """Return the text of a number without grouped thousands, and with a decimal point."""
    text = number[0]
    if number["group"] is not None:
        text = text.replace(number["group"], "")
    return text.replace(decimal, ".")


def refuse_other_numbers(texts: Iterable[str], what: str, *, remedy: str) -> None:
    """Refuse a column of text if nearly all values are numbers with commas, grouped thousands or a unit.

    Parameters
    ----------
    texts : iterable of str
        The present values of the column.
    what, remedy : str
        Begin and end of the message.

    Raises
    ------
    ValueError
        If the column is refused.
    """
    texts = list(texts)
    n_other = 0
    with_sign = []  # numbers unknown to `float`
    for text in texts:
        if as_number(text) is not None:
            continue
        if _has_decimal_sign(text):
            with_sign.append(text)
        else:
            n_other += 1
        if n_other > (1 - MOSTLY) * len(texts):  # a unit, names or free text
            unit = unit_of(texts)
            if unit:
                cure = "write plain numbers"
                if unit == "%":
                    cure = percent_cure(texts[0])
                raise ValueError(
                    f"{what} holds numbers with the unit {unit[:20]!r} (such as "
                    f"{texts[0][:40]!r}): {cure}{remedy}"
                )
            return
    if with_sign and len(set(texts)) - n_other > MANY:
        raise ValueError(_message_about(with_sign, what) + remedy)


def refuse_commas_among_numbers(texts: Iterable[str], what: str) -> None:
    """Refuse numbers with decimal commas or grouped thousands in a column of numbers.

    Each value is judged alone, so a refused row is refused in any table.

    Parameters
    ----------
    texts : iterable of str
        The texts among the values of the column.
    what : str
        Begin of the message.

    Raises
    ------
    ValueError
        If a text is a number unknown to ``float``.
    """
    with_sign = [text for text in texts if as_number(text) is None and _has_decimal_sign(text)]
    if with_sign:
        raise ValueError(_message_about(with_sign, what))


def is_percent(text: str) -> bool:
    """Return whether a text is a number in percent, such as "12.5 %" or "12,5%"."""
    return _PERCENT.fullmatch(text) is not None


def percent_cure(text: str) -> str:
    """Return how to make numbers of a column of percent such as ``text``, as the reader types it."""
    comma = ""
    if "," in text:
        comma = ".str.replace(',', '.')"
    return as_typed(
        "remove the percent sign and divide by 100, as by "
        f"column.str.rstrip(' %'){comma}.astype(float) / 100",
        "remove the percent sign, as by sed 's/ *%//g' OLD.csv > NEW.csv",
    )


def unit_of(texts: Sequence[str]) -> str:
    """Return the unit of a column of text, as in "14 %" or "€ 30"; an empty text for other columns.

    Nearly all values are numbers with this unit, and many of them differ: "36 months" and "60 months" are
    categories. Percentages are numbers even if few differ, such as "97%" and "98%".
    """
    different_texts = {*texts}
    with_unit: Counter[str] = Counter()
    for text in different_texts:
        match = _WITH_UNIT.fullmatch(text.strip()[:LONGEST_WITH_UNIT])
        if match is not None:
            with_unit[match["sign"] + match["unit"]] += 1
    if not with_unit:
        return ""
    ((unit, n_different),) = with_unit.most_common(1)
    few = MANY
    if unit == "%":
        few = 0
    if n_different <= max(few, MOSTLY * len(different_texts)):
        return ""
    return unit


def _has_decimal_sign(text: str) -> bool:
    """Return whether a text is a number with some decimal sign, also with grouped thousands."""
    return any(pattern.fullmatch(text) for pattern in _PATTERNS.values())


def _message_about(with_sign: Sequence[str], what: str) -> str:
    """Return the message about numbers unknown to ``float``, with the option for such a file.

    1.234,5 is a number only with a decimal comma, and 1,234.5 only with a decimal point. 1,234 is both.
    """
    only_with_point = [text for text in with_sign if not _PATTERNS[","].fullmatch(text)]
    only_with_comma = [text for text in with_sign if not _PATTERNS["."].fullmatch(text)]
    example = with_sign[0]
    if only_with_comma:
        example = only_with_comma[0]
        sign = "a decimal comma"
        option = as_typed("decimal=','", "--decimal ,")
    elif only_with_point or "," not in example:
        if only_with_point:
            example = only_with_point[0]
        sign = "grouped thousands"
        option = as_typed("decimal='.'", "--decimal .")
    else:
        sign = "a comma, which is decimal or groups thousands"
        option = as_typed("decimal=',' or decimal='.'", "--decimal , or --decimal .")
    return f"{what} holds numbers with {sign} (such as {example[:40]!r}): read the file with {option}"
