"""The card says what certificate, rule, further rows and monitor say."""

import re
from itertools import chain

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

import tailboost as tb

RNG = np.random.default_rng(0)
P = RNG.random((6000, 1)).round(4)
Y = np.where(RNG.random(6000) < P[:, 0], "<ill>", "well")
SITE = {"site": RNG.choice(["north", "south"], 6000)}
LIMITS = ["miss('<ill>', by=site) <= 40%"]


def rows(first, last):
    return {"X": P[first:last], "y": Y[first:last], "groups": {"site": SITE["site"][first:last]}}


@pytest.fixture(scope="module")
def rule():
    return tb.calibrate(tb.Scores(0, "<ill>"), **rows(0, 3000), limits=LIMITS)


def test_a_card_of_a_certified_rule(rule, tmp_path):
    monitor = tb.Monitor(rule).add(**rows(3000, 4000), name="March")
    card = tb.ModelCard.of(rule, **rows(4000, 6000), monitor=monitor, purpose="Triage.")
    text = str(card)
    for part in (str(rule.rule_), *(str(each).partition("\n\n")[2] for each in (rule.certificate_, monitor))):
        assert part in text
    assert card.verdicts[0] == str(rule.certificate_).splitlines()[0]
    assert monitor.verdict in card.verdicts[2]
    named = tb.ModelCard.of(rule, **rows(4000, 6000), rows_are="Certificate", about={"": "x"})
    assert named.sections["Certificate"] == card.sections["Certificate"]
    assert card.sections["If rows change"]
    assert "no monitor" not in card.sections["Not tested"]
    card.save(tmp_path / "card.html")
    page = (tmp_path / "card.html").read_text()
    assert "&lt;ill&gt;" in page
    assert "<ill>" not in page
    assert page.count("<svg") == 1
    assert not re.search(r"<script|https?://(?!www\.w3\.org|purl\.org|creativecommons)", page)


def test_a_card_says_that_further_rows_contradict_its_certificate(rule):
    worse = rows(4000, 6000)
    worse["X"] = (worse["X"] - 0.4).clip(0)
    assert tb.ModelCard.of(rule, **worse).verdicts[1].startswith("Further rows: Alarm")


def test_a_model_without_a_certificate_is_certified_on_the_rows(tmp_path):
    tuned = tb.tune(tb.Scores(0, "<ill>"), **rows(0, 3000), limits=LIMITS)
    card = tb.ModelCard.of(tuned, **rows(4000, 6000))
    assert card.verdicts == [str(tb.certify(tuned, **rows(4000, 6000))).partition("\n\n")[0]]
    assert "no monitor" in card.sections["Not tested"]


def test_a_card_says_what_is_stated_and_what_nobody_has_stated(rule):
    about = {"name": "Triage", "owner": "Ward <3>", "period": "May\nto June", "certified on": "3,000 visits"}
    card = tb.ModelCard.of(rule, **rows(4000, 6000), purpose="To triage.", about=about)
    assert card.title == "Model card of Triage"
    facts = dict(line.split(": ", 1) for line in card.sections["Model"].splitlines())
    stated = {"Class": "TunedClassifier", "Owner": "Ward <3>", "Purpose": "To triage."}
    stated |= {"Certified on": "3,000 visits", "Version": "not stated", "Training data": "not stated"}
    stated |= {"Period": "May to June"}
    assert facts | stated == facts
    assert rule.certificate_.to_dict()["digest"] in facts["Certificate"]
    assert rule.certificate_.date in facts["Certificate"]
    assert facts["Digest of the rule"] == rule.certificate_.rule
    assert f"numpy {np.__version__}" in facts["Libraries"]
    assert "Ward &lt;3&gt;" in card.to_html()
    of_these_rows = tb.ModelCard.of(rule, **rows(4000, 6000), rates=["error"], about=about)
    assert "3,000 visits" not in str(of_these_rows)
    assert "Groups of rows" in of_these_rows.sections["Not tested"]
    table = pd.DataFrame({"s": P[:, 0], **SITE})  # which has the groups itself
    scores = tb.Scores("s", "<ill>")
    by_site = tb.calibrate(scores, table[:3000], Y[:3000], groups=table[["site"]][:3000], limits=LIMITS)
    assert "Groups" not in tb.ModelCard.of(by_site, table[4000:], Y[4000:]).sections["Not tested"]


def test_all_tables_of_a_page_are_tables_that_wrap(rule):
    monitor = tb.Monitor(rule).add(**rows(3000, 4000), name="March")
    card = tb.ModelCard.of(rule, **rows(4000, 6000), monitor=monitor)
    page = card.to_html()
    assert page.count("<table>") == 3
    assert "<pre>" not in page
    for tested in (rule.certificate_, monitor):
        for cell in chain.from_iterable(tested.cells()[1]):
            assert cell.replace("<", "&lt;").replace(">", "&gt;").replace("'", "&#x27;") in page
