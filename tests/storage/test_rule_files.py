"""Rule files: what a service needs to read one, and what is read later."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import tailboost as tb

SERVICE = """
import sys, warnings
import tailboost as tb
rule = tb.load_rule(sys.argv[1])
print(rule.predict([0.05, 0.95], groups=["a", "b"] if rule.groups else None).tolist())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(rule.predict([{"s": 0.95, "g": "z"}], **({"default": None} if rule.groups else {})).tolist())
print([str(w.message).split(" (")[0] for w in caught])
print(len(rule.limits), {"sklearn", "scipy", "pandas"} & {*sys.modules})
print(rule.certificate.n_rows, rule.classifier.classes_.tolist())
"""


@pytest.fixture(scope="module", params=[False, "g"])
def rule_file(request, tmp_path_factory):
    rng = np.random.default_rng(0)
    s = rng.random(6_000)
    table = pd.DataFrame({"s": s, "g": rng.choice(["a", "b"], len(s))})
    y = np.where(rng.random(len(s)) < s, "ill", "well")
    rule = tb.calibrate(
        tb.Scores("s", "ill"), table[["s"]], y, groups=table[["g"]], by_group=request.param,
        limits=["miss(ill, by=g) <= 30%"],
    )  # fmt: skip
    path = tmp_path_factory.mktemp("rules") / "rule.json"
    tb.save_rule(rule, path)
    return path, rule


def test_a_service_answers_without_scikit_learn(rule_file):
    path, rule = rule_file
    run = subprocess.run([sys.executable, "-c", SERVICE, path], capture_output=True, text=True, check=True)
    answers, answer_of_other_group, warning, light, read_later = run.stdout.splitlines()
    assert answers == "['well', 'ill']"
    if rule.rule_.groups is None:
        assert answer_of_other_group == "['ill']"
        assert warning == "[\"g 'z'\"]"
    else:
        assert answer_of_other_group == "[None]"
    assert light == "1 set()"
    assert read_later == f"{rule.certificate_.n_rows} {rule.classes_.tolist()}"


def test_the_certificate_of_another_rule_is_left_out_at_once(rule_file, tmp_path):
    path, rule = rule_file
    content = json.loads(path.read_text())
    content["rule"]["missing"] = 0.5
    edited = tmp_path / "edited.json"
    edited.write_text(json.dumps(content))
    with pytest.warns(UserWarning, match="is about another rule, and is left out"):
        rule = tb.load_rule(edited)
    assert rule.certificate is None
    assert rule.groups_named == {}
    assert rule.classifier.certificate_ is None


@pytest.mark.parametrize("part", ["confidence", "bounds", "n_rows"])
def test_a_damaged_certificate_is_refused_where_it_is_read(rule_file, tmp_path, part):
    path, _ = rule_file
    content = json.loads(path.read_text())
    del content["certificate"][part]
    damaged = tmp_path / "damaged.json"
    damaged.write_text(json.dumps(content))
    rule = tb.load_rule(damaged)
    assert len(rule.predict([0.1], groups=["a"] if rule.groups else None)) == 1
    with pytest.raises(ValueError, match=f"it has no '{part}'"):
        _ = rule.certificate


@pytest.mark.parametrize("by_group", [False, "g"])
def test_certificates_and_monitors_take_the_groups_from_the_table_as_the_rule_does(tmp_path, by_group):
    """A table without ``groups`` has the bounds of the column, and empty cells are the group 'missing'."""
    rng = np.random.default_rng(1)
    s = rng.random(9_000)
    names = rng.choice(["a", "b", "missing"], len(s))
    table = pd.DataFrame({"s": s, "g": names, "note": "text"})
    y = np.where(rng.random(len(s)) < s, "ill", "well")
    old, new = slice(0, 5_000), slice(5_000, None)
    rule = tb.calibrate(
        tb.Scores("s", "ill"), table[["s"]][old], y[old], groups=table[["g"]][old], by_group=by_group,
        limits=["miss(ill, by=g) <= 30%"],
    )  # fmt: skip
    tb.save_rule(rule, tmp_path / "rule.json")
    rule = tb.load_rule(tmp_path / "rule.json")
    expected = tb.certify(rule, table[["s"]][new], y[new], groups=names[new]).bounds
    assert {bound.subgroup for bound in expected} >= {"a", "b", "missing"}
    with_empty_cells = table.assign(g=table.g.mask(names == "missing", None))[new]
    for groups in (None, with_empty_cells[["g"]], with_empty_cells.g.to_numpy(), ["g"]):
        assert tb.certify(rule, with_empty_cells, y[new], groups=groups).bounds == expected
        look = tb.Monitor.against(rule).add(with_empty_cells, y[new], groups=groups)
        same = tb.Monitor.against(rule).add(table[["s"]][new], y[new], groups=names[new])
        assert look.recheck.to_dict() == same.recheck.to_dict()
    selected = {"rates": ["selected(ill, by=g)"]}
    without_labels = tb.certify(rule, table[["s"]][new], None, groups=names[new], **selected)
    assert tb.certify(rule, with_empty_cells, None, **selected).bounds == without_labels.bounds
    with pytest.raises(ValueError, match="groups is needed"):
        tb.certify(rule, with_empty_cells[["s"]], y[new])
