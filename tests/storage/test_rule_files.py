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
