"""Advice for names that a table does not have."""

import pandas as pd
import pytest

from tailboost.core.spelling import other_separator, speaking_to_the_shell
from tailboost.rows.schema import TableSchema


def test_advice_for_another_separator():
    assert other_separator(["a;b;c"]).endswith("state sep=';'")
    with speaking_to_the_shell():
        assert other_separator(["a;b;c"]).endswith("state --sep ';'")
        assert other_separator(["a\tb"]).endswith("state --sep tab")
    assert other_separator(["a", "b"]) == other_separator(["a b"]) == ""


def test_a_table_read_with_the_wrong_separator_is_told_so():
    schema = TableSchema.of(pd.DataFrame({"age": [1, 2], "sex": ["f", "m"]}))
    with pytest.raises(ValueError, match=r"columns 'age', 'sex'; its only column is 'age;sex'; .*sep=';'"):
        schema.read(pd.DataFrame({"age;sex": ["1;f"]}))
