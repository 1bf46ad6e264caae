"""Advice for names that a table does not have."""

import numpy as np
import pandas as pd
import pytest

import tailboost as tb
from tailboost.core.spelling import a_type_of, joined, listed, meant, other_separator, speaking_to_the_shell
from tailboost.rows.schema import TableSchema


def test_advice_for_another_separator():
    assert other_separator(["a;b;c"]).endswith("state sep=';'")
    with speaking_to_the_shell():
        assert other_separator(["a;b;c"]).endswith("state --sep ';'")
        assert other_separator(["a\tb"]).endswith("state --sep tab")
    assert other_separator(["a", "b"]) == other_separator(["a b"]) == other_separator(["a", "b,c"]) == ""


def test_a_comma_in_a_name_does_not_hide_the_separator(tmp_path):
    """Decimal commas give each row as many values as the comma in the header."""
    (tmp_path / "t.csv").write_text("id;crp, mg;y\n1;0,5;a\n2;0,7;b\n")
    with pytest.raises(
        ValueError, match="its columns are 'id;crp', ' mg;y'; if ';' separates values, state sep"
    ):
        tb.datasets.load_table(tmp_path / "t.csv", "y")


def test_a_table_read_with_the_wrong_separator_is_told_so():
    schema = TableSchema.of(pd.DataFrame({"age": [1, 2], "sex": ["f", "m"]}))
    with pytest.raises(ValueError, match=r"columns 'age', 'sex'; its only column is 'age;sex'; .*sep=';'"):
        schema.read(pd.DataFrame({"age;sex": ["1;f"]}))


def test_an_unknown_argument_of_a_public_function_names_the_known_ones():
    losses = [0.1, 0.2]
    with pytest.raises(TypeError, match="certify_losses has no argument 'alpha'; did you mean 'alphas'"):
        tb.certify_losses(losses, alpha=0.1)
    with pytest.raises(TypeError, match="rows_needed has no argument 'share'; did you mean 'shares'"):
        tb.rows_needed("miss(1) <= 20%", 0.1, share=0.5)
    with pytest.raises(
        TypeError,
        match=r"Monitor\.against has no argument 'limit'; did you mean 'limits'\? arguments are model,",
    ):
        tb.Monitor.against(None, limit=[])
    with pytest.raises(TypeError, match=r"ModelCard\.of has no argument 'group'; did you mean 'groups'"):
        tb.ModelCard.of(None, None, None, group=None)
    for rule in (tb.ThresholdRule, tb.Rule):
        with pytest.raises(TypeError, match=r"to_sql has no argument 'tabel'; did you mean 'table'"):
            rule.to_sql(None, tabel="loans")
    with pytest.raises(TypeError, match="measure has no argument 'group'; did you mean 'groups'"):
        tb.rates.measure(tb.rates.error(), [0], [0], group=[0])


def test_a_misspelt_value_of_a_parameter_has_the_nearest_one():
    X, y = [[0.0], [1.0]] * 10, [0, 1] * 10
    for clf in (
        tb.RobustMixtureClassifier(objective="eror"),
        tb.AdaLPBoostClassifier(cv="trian"),
    ):
        with pytest.raises(ValueError, match=r"Got '\w+' instead\. Did you mean '(error|train)'\?$"):
            clf.fit(X, y)
    with pytest.raises(TypeError, match="has no argument 'T'; did you mean 'n_estimators'"):
        tb.AdaLPBoostClassifier(T=50)


@pytest.mark.parametrize(
    ("score", "limit", "by_group", "near"),
    [
        (("p", "fruad"), "miss(fraud) <= 20%", False, "did you mean 'fraud'"),
        (("p", "fraud"), "miss(fruad) <= 20%", False, "did you mean 'fraud'"),
        (("p", "fraud"), "mis(fraud) <= 20%", False, "did you mean 'miss'"),
        (("p", "fraud"), "miss(fraud, by=regoin) <= 20%", False, "did you mean 'region'"),
        (("p", "fraud"), "miss(fraud, by=region) <= {nroth: 20%}", False, "did you mean 'north'"),
        (("p", "fraud"), "miss(fraud) <= 20%", "regoin", "did you mean 'region'"),
        (("scoer", "fraud"), "miss(fraud) <= 20%", False, "did you mean 'score'"),
    ],
)
def test_each_misspelt_name_of_a_selection_has_the_nearest_one(score, limit, by_group, near):
    p = np.linspace(0, 1, 40)
    table = pd.DataFrame({"p": p, "score": p})
    y = np.repeat(["fine", "fraud"], 20)
    groups = pd.DataFrame({"region": ["north", "west"] * 20})
    with pytest.raises(ValueError, match=near):
        tb.tune(tb.Scores(*score), table, y, groups=groups, limits=[limit], by_group=by_group)


def test_of_few_labels_none_is_suggested_that_only_lacks_letters():
    """An opposite often adds some letters, as in "nontoxic"."""
    assert meant("nontoxic", ["ok", "toxic"]) == meant("male", ["female", "other"]) == ""
    assert meant("FRAUD", ["fine", "fraud"]) == meant("fruad", ["fine", "fraud"]) == "did you mean 'fraud'? "


def test_types_have_their_article():
    assert a_type_of(tb.AdaLPBoostClassifier()) == "an AdaLPBoostClassifier"
    assert a_type_of(tb.CVaRBoostClassifier()) == "a CVaRBoostClassifier"
    assert a_type_of(b"") == "a bytes"


def test_a_single_further_name_is_named():
    assert joined(list("abcd"), 3) == "a, b, c, d"
    assert joined(list("abcde"), 3) == "a, b, c and 2 more"
    assert listed(list("abcdef")) == "'a', 'b', 'c', 'd', 'e', 'f'"
    assert listed(list("abcdefg")) == "'a', 'b', 'c', 'd', 'e' and 2 more"
