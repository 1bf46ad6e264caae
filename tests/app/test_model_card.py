"""Model cards list measured numbers and tests that were not made."""

import re
from datetime import UTC, datetime
from html import unescape

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("jinja2")
testing = pytest.importorskip("typer.testing")

from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import tailboost as tb
from tailboost.core.spelling import speaking_to_the_shell
from tailboost.rates.bounds import clopper_pearson_interval
from tailboost.rows.judged import judged

X, Y = make_classification(1600, weights=[0.7], flip_y=0.2, random_state=0)
LABELS = np.array(["a|b", "<i>"])[Y]
GROUPS = np.random.default_rng(0).choice(["x", "y"], 1600)


@pytest.fixture(scope="module")
def mix():
    return tb.RobustMixtureClassifier([("bayes", GaussianNB())], random_state=0).fit(X[:600], LABELS[:600])


def printed(bound):
    """The name of a bound as on the card: all rows, a label, a group, or a label in a group."""
    start, _, name = bound.name.partition(" ")
    return {"class": f"label {name}", "group": name, "cell": name}.get(start, bound.name)


def test_a_card_says_what_it_is_and_is_saved_by_the_ending_of_the_name(mix, tmp_path):
    card = tb.ModelCard.of(mix, X[600:], LABELS[600:], title="Loans 2026")
    headline, _how = str(card).splitlines()
    assert headline == f"Loans 2026: {card.summary}"
    for name, content in {"card.html": card.to_html(), "card.md": card.to_markdown()}.items():
        card.save(tmp_path / name)
        assert (tmp_path / name).read_text("utf-8") == content
    with pytest.raises(ValueError, match="card"):
        card.save(tmp_path / "card.pdf")


def test_every_number_is_measured(mix):
    rest = slice(600, None)
    card = tb.ModelCard.of(
        mix, X[rest], LABELS[rest], groups=GROUPS[rest], max_error=0.9, purpose="To *try*."
    )
    cert = tb.certify(mix, X[rest], LABELS[rest], groups=GROUPS[rest], max_error=0.9)
    sections = [section for section in card.sections if section.title.startswith("Errors on new rows")]
    assert [section.is_folded for section in sections] == [False, True]
    shown = {}
    for section in sections:
        rows = [dict(zip(section.heads, row, strict=True)) for row in section.rows]
        shown |= {row["error of"]: row for row in rows}
    assert {printed(b) for b in cert.bounds if b.kind == "cell"} == {row["error of"] for row in rows}
    for b in cert.bounds:
        if b.kind == "worst":
            continue
        low, high = clopper_pearson_interval(b.estimate, b.n)
        row = shown[printed(b)]
        assert b.verdict.startswith(row.get("result", ""))
        n, error, interval, upper = (row[head] for head in ("rows", "error", "95 % interval", "bound"))
        assert n == f"{b.n:,}"
        assert float(error) == pytest.approx(b.estimate, abs=0.005)  # so few rows support two digits
        digits = len(error.partition(".")[2])  # rounded outwards, with the digits of the estimate
        ends = np.floor(low * 10**digits) / 10**digits, np.ceil(high * 10**digits) / 10**digits
        assert interval == f"{ends[0]:.{digits}f} to {ends[1]:.{digits}f}"
        assert b.upper <= float(upper.removeprefix("≤ ")) <= b.upper + 0.01
    assert set(shown) == {printed(b) for b in cert.bounds if b.kind != "worst"}
    text = card.to_markdown()
    assert "To \\*try\\*." in text
    assert "a\\|b" in text
    assert "&lt;i&gt;" in text
    assert str(mix.rule_) in text
    widths = {line.count("|") - line.count("\\|") for line in text.splitlines() if line.startswith("| ")}
    assert len(widths) <= 4  # each table has rows of one length
    page = card.to_html()
    assert "<i>" not in page
    assert "<script" not in page


def test_missing_measurements_are_listed(mix):
    seen = tb.ModelCard.of(mix, X[:600], LABELS[:600])
    assert "equal_rows" not in seen.to_markdown()  # advice to the caller
    assert not re.search(r"\| label", seen.to_markdown())
    tb.ModelCard.of(mix, X[600:], LABELS[600:]).to_markdown()
    few = np.flatnonzero(Y[600:] == 0)[:40] + 600
    tb.ModelCard.of(mix, X[few], LABELS[few]).to_markdown()
    persons = tb.ModelCard.of(mix, X[600:], LABELS[600:], clusters=np.arange(1000) // 2).to_markdown()
    assert "clusters |" not in persons


@pytest.mark.slow
class Answers:
    """A model whose first column is the number of its answer."""

    classes_ = np.array(["a", "b", "rare"])

    def predict(self, X):
        return self.classes_[X[:, 0].astype(int)]


def test_the_worst_class_has_the_largest_error_and_no_class_exceeds_the_bound():
    y = np.repeat([0, 1, 2], [150, 100, 4])
    answers = y.copy()
    answers[:45] = 1  # 30 % of class a; the rare class has no error, and the largest bound
    X = np.column_stack([answers, np.random.default_rng(0).random(len(y))])
    summary = tb.ModelCard.of(Answers(), X, Answers.classes_[y]).summary
    error, bound = map(
        float, re.search(r"class, a, has an error of ([\d.]+) %.* above ([\d.]+) %", summary).groups()
    )
    assert error == 30.0
    largest = max(b.upper for b in tb.certify(Answers(), X, Answers.classes_[y]).bounds if b.kind == "class")
    assert largest <= bound / 100 <= largest + 1e-3
    assert "class rare" in summary


@pytest.mark.parametrize(
    ("limits", "answers"), [(["error() <= .9"], "no, yes"), (["deferred() <= .3"], "no, yes, human review")]
)
def test_all_answers_are_listed(limits, answers):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"p": rng.random(300)})
    y = np.where(rng.random(300) < table["p"], "yes", "no")
    rule = tb.tune(tb.Scores("p", "yes"), table[:150], y[:150], limits=limits)
    tb.ModelCard.of(rule, table[150:], y[150:])
    actions = set(rule.predict(table, **({"deferred": "human review"} if judged(rule).can_defer else {})))
    assert actions == set(answers.split(", "))


def test_rates_of_the_fit_are_measured():
    limits = [tb.rates.error(by="class") <= 0.6]
    mix = tb.RobustMixtureClassifier([("bayes", GaussianNB())], limits=limits, random_state=0)
    mix.fit(X[:600], LABELS[:600])
    card = tb.ModelCard.of(mix, X[600:], LABELS[600:])
    titles = [section.title for section in card.sections]
    assert titles[0] == "Stated limits"
    persons = tb.ModelCard.of(mix, X[600:], LABELS[600:], clusters=np.arange(1000) // 2).sections[0]
    assert any("500 clusters has one vote" in line for line in persons.lines)
    known = tb.certify(mix, X[600:], LABELS[600:]).bounds
    section = card.sections[0]
    assert section.heads == ["limit", "result", "on the test rows", "bound"]
    (title, *empty), *rows = section.rows
    assert (title, set(empty)) == ("error by class ≤ 0.6", {""})
    for row, b in zip(rows, known, strict=True):
        assert row[:2] == [f"  {b.subgroup}", "certified"]
        estimate, n = row[2].split(" of ")
        assert float(estimate) == pytest.approx(b.estimate, abs=0.005)
        assert n == f"{(LABELS[600:] == b.subgroup).sum():,}"
        assert float(row[3].removeprefix("≤ ")) >= b.upper


@pytest.mark.parametrize(("bound", "in_percent"), [("60%", True), (".6", False)])
def test_all_rates_of_a_card_are_in_the_unit_of_its_limits(bound, in_percent):
    rule = tb.tune(
        GaussianNB().fit(X[:300], LABELS[:300]), X[300:600], LABELS[300:600], limits=f"error() <= {bound}"
    )
    rows, clusters = slice(600, None), np.arange(1000) // 2
    card = tb.ModelCard.of(rule, X[rows], LABELS[rows], groups=GROUPS[rows], clusters=clusters)
    sections = {section.title: section for section in card.sections}
    section = sections["Errors on new rows"]
    places = [j for j, head in enumerate(section.heads) if j >= 2 and head not in ("result", "reason")]
    cells = [row[j] for row in section.rows for j in places if row[j]]
    assert cells
    assert {cell.endswith(" %") for cell in cells} == {in_percent}
    page = card.to_markdown()
    assert section.rows[0][section.heads.index("rows")] == "500"
    assert not re.search(r"predict\b|--|was given", page.replace("---", ""))


def test_the_headline_is_about_the_stated_limits(mix):
    """Each limit has its verdict in the headline's numbers, the first table and the drawing."""
    limits = ["miss('<i>') <= .35", "error() <= .001"]
    rows = slice(600, None)
    rule = tb.RobustMixtureClassifier([("bayes", GaussianNB())], limits=limits[:1], random_state=0)
    rule.fit(X[:600], LABELS[:600])
    rule.limits = [tb.rates.parse(text) for text in limits]
    card = tb.ModelCard.of(rule, X[rows], LABELS[rows])
    bounds = [b for b in tb.certify(rule, X[rows], LABELS[rows]).bounds if b.target is not None]
    kept = sum(bool(b.certified) for b in bounds)
    assert len(bounds) == 2 > kept
    table = card.sections[0]
    assert table.title == "Stated limits"
    assert table.heads[:2] == ["limit", "result"]
    assert {row[0] for row in table.rows} == {"error ≤ 0.001", "miss rate of '<i>' ≤ 0.35"}
    assert [row[1] for row in table.rows] == ["not certified"] * (2 - kept) + ["certified"] * kept
    page = card.to_html()
    assert page.index(card.summary) < page.index("<svg") < page.index("<table")
    assert page.count("✗ not certified") >= 2  # wide and narrow
    "".join(re.findall("<svg.*?</svg>", page, flags=re.DOTALL))
    notes = [line for section in card.sections for line in section.lines]
    assert sorted(notes) == sorted(set(notes))  # the certificates of limits and errors share assumptions
    assert "<i>" not in page
    without = tb.ModelCard.of(mix, X[rows], LABELS[rows])
    assert "<svg" not in without.to_html()


def test_the_head_has_date_attempt_versions_and_digest():
    rng = np.random.default_rng(0)
    p = rng.random(4000)
    y = (rng.random(4000) < p).astype(int)
    X = p[:, None]
    rule = tb.calibrate(tb.Scores(0, 1), X[:2000], y[:2000], limits="miss(1) <= 40%")
    head = tb.ModelCard.of(rule, X[2000:], y[2000:]).to_markdown().split("\n\n")[2]
    f"{datetime.now(UTC):%Y-%m-%d}"
    assert f"tailboost {tb.__version__}" in head
    assert " · rule " in head


def words_of(page):
    """The words of a card as printed: without folded sections, and with one of its two drawings."""
    body = page.partition("<body>")[2]
    narrow = re.search(r'<svg[^>]*class="chart narrow".*?</svg>', body, flags=re.DOTALL).group()
    seen = re.sub(r"<details.*?</details>", " ", body.replace(narrow, " "), flags=re.DOTALL)
    return unescape(re.sub("<[^>]+>", " ", seen)).split()


@pytest.mark.filterwarnings("ignore")
def test_a_card_of_seven_limits_with_deferral_has_at_most_800_words_and_says_no_rate_twice():
    rng = np.random.default_rng(0)
    scores = pd.DataFrame({"p": rng.random(6000)})
    y = np.where(rng.random(6000) < scores["p"], "yes", "no")
    sites = pd.DataFrame({"site": rng.choice(["north", "south", "east", "west"], 6000)})
    limits = ["miss(yes, by=site) <= 40%", "false_alarm(yes) <= 30%", "error <= 25%", "deferred <= 20%"]
    cal, new = slice(0, 4000), slice(4000, None)
    rule = tb.calibrate(tb.Scores("p", "yes"), scores[cal], y[cal], groups=sites[cal], limits=limits)
    card = tb.ModelCard.of(rule, scores[new], y[new], groups=sites[new], rows_are="new.csv")
    assert len(rule.certificate_.limit_lines()) == 7
    page = card.to_html()
    assert len(words_of(page)) <= 800
    (folded,) = re.findall(r"<details.*?</details>", page, flags=re.DOTALL)
    assert ">yes / site = north<" in folded
    assert "noprint" in folded

    # One table has each limit with its verdict, and its rates on the certifying and on further rows.
    table = card.sections[0]
    heads = ["limit", "result", "on the calibration rows", "deferred, of all rows", "the score at 0.5"]
    assert table.heads == [*heads, "on new.csv"]
    cells = {row[0].strip(): dict(zip(table.heads, row, strict=True)) for row in table.rows}
    answers, deferred = rule.predict(scores[new]), rule.defers(scores[new])
    missed, wrong = (answers == "no") & ~deferred, (answers != y[new]) & ~deferred
    is_yes = y[new] == "yes"
    counted = {
        "false alarm rate of 'yes' ≤ 30 %": (wrong, ~is_yes),
        "error ≤ 25 %": (wrong, ~deferred | deferred),
    }
    counted["share deferred ≤ 20 %"] = (deferred, ~deferred | deferred)
    counted |= {site: (missed, is_yes & (sites["site"][new] == site)) for site in sites["site"].unique()}
    for name, (happens, among) in counted.items():
        rate, n = re.fullmatch(r"([\d.]+) % of ([\d,]+)", cells[name]["on new.csv"]).groups()
        assert int(n.replace(",", "")) == among.sum()
        assert float(rate) == pytest.approx(100 * happens[among].mean(), abs=0.5)
    certified = {bound.name: bound for bound in rule.certificate_.bounds}
    for site in sites["site"].unique():
        assert cells[site]["on the calibration rows"].endswith(f" of {certified[site].n}")
    prices = {price.name: price for price in rule.certificate_.price}
    assert cells["error ≤ 25 %"]["the score at 0.5"] == f"{100 * prices['error'].given:.1f} %"
    price = card.sections[1]
    assert (price.title, price.heads, price.rows) == ("Price of the limits", [], [])  # all are in that table


def test_a_card_says_what_the_rates_are_and_how_many_are_beyond_their_bound():
    """Rows of another kind, too few for a contradiction: the headline has their number."""
    rng = np.random.default_rng(0)
    scores = pd.DataFrame({"p": rng.random(4000)})
    y = np.where(rng.random(4000) < scores["p"], "yes", "no")
    limits = ["miss(yes) <= 30%", "false_alarm(yes) <= 50%"]
    rule = tb.calibrate(tb.Scores("p", "yes"), scores, y, limits=limits)
    missed = pd.DataFrame({"p": np.r_[np.full(6, 0.001), np.full(6, 0.999), np.full(6, 0.002)]})
    few = np.r_[np.full(6, "yes"), np.full(6, "yes"), np.full(6, "no")]
    tb.ModelCard.of(rule, missed, few)
    like = tb.ModelCard.of(rule, *[part[:12] for part in (missed[6:], few[6:])])
    assert "beyond" not in like.summary


def test_a_card_of_selecting_rows_warns():
    X, y = make_classification(400, random_state=0)
    rule = tb.tune(GaussianNB().fit(X[:200], y[:200]), X[200:], y[200:], limits=["miss(1) <= .5"])
    with pytest.warns(UserWarning, match="certifies"):
        tb.ModelCard.of(rule, X[200:], y[200:])


def test_the_card_of_a_rule_names_the_given_model_and_the_groups_that_lack():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    y = (X[:, 0] + rng.normal(size=4000) > 0).astype(int)
    ages = np.where(X[:, 1] > 0, "old", "young")
    model = GaussianNB().fit(X[:500], y[:500])
    part, later = slice(500, 3000), slice(3000, 4000)
    limit = "miss(1, by=age) <= 45%"
    rule = tb.calibrate(model, X[part], y[part], groups={"age": ages[part]}, limits=[limit])
    card = tb.ModelCard.of(rule, X[later], y[later]).to_markdown()
    assert "groups=" not in card


@pytest.mark.filterwarnings("ignore")
def test_a_card_says_without_advice_that_the_rule_estimates_groups():
    rng = np.random.default_rng(0)
    sex = rng.integers(0, 2, 8_000)
    feature = rng.normal(size=8_000)
    label = (feature + 1.5 * sex + 0.5 * rng.normal(size=8_000) > 1).astype(int)
    table = pd.DataFrame({"feature": feature, "proxy": sex + 0.3 * rng.normal(size=8_000)})
    model = LogisticRegression().fit(table[:2_000], label[:2_000])
    with speaking_to_the_shell():
        rule = tb.calibrate(
            model,
            table[2_000:6_000],
            label[2_000:6_000],
            groups={"sex": sex[2_000:6_000]},
            limits=["ratio(selected(1, by=sex)) >= .7"],
            objective="error",
            infer_groups=True,
        )
        page = tb.ModelCard.of(rule, table[6_000:], label[6_000:], groups={"sex": sex[6_000:]}).to_html()
    assert "infer_groups" not in page
    assert "SQL" not in page


def test_a_card_without_the_groups_of_its_limits_says_so():
    rng = np.random.default_rng(0)
    scores = pd.DataFrame({"p": rng.random(3000)})
    y = (rng.random(3000) < scores["p"]).astype(int)
    groups = pd.DataFrame({"site": rng.choice(["a", "b"], 3000)})
    limits = ["miss(1, by=site) <= 35%"]
    rule = tb.calibrate(tb.Scores("p", 1), scores[:2000], y[:2000], groups=groups[:2000], limits=limits)
    with pytest.warns(UserWarning, match="groups"):
        tb.ModelCard.of(rule, scores[2000:], y[2000:])


def test_numbers_of_few_rows_are_marked():
    rng = np.random.default_rng(0)
    scores = pd.DataFrame({"p": rng.random(3000)})
    y = (rng.random(3000) < scores["p"]).astype(int)
    sizes = {"a": 958, "b": 29, "c": 13}
    fresh_sites = np.repeat([*sizes], [*sizes.values()])
    groups = pd.DataFrame({"site": [*rng.choice([*sizes], 2000), *fresh_sites]})
    rule = tb.calibrate(tb.Scores("p", 1), scores[:2000], y[:2000], limits=["miss(1) <= 35%"])
    card = tb.ModelCard.of(rule, scores[2000:], y[2000:], groups=groups[2000:])
    errors = next(section for section in card.sections if section.title == "Errors on new rows")
    rows_of = {row[0].removeprefix("site / "): row[errors.heads.index("rows")] for row in errors.rows}
    assert [rows_of[site] for site in sizes] == ["958", "29 (few)", "13 (few)"]
