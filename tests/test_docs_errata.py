"""Counter-examples of the errata page run with the stated result."""

import re
from pathlib import Path

import pytest

import tailboost

DOCS = Path(__file__).parents[1] / "docs"
TEXT = (DOCS.parent / "results" / "errata.md").read_text(encoding="utf-8")
SECTIONS = re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", TEXT, flags=re.M | re.S)
REFERENCES = (DOCS / "references.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("title", "body"), SECTIONS, ids=[title for title, _ in SECTIONS])
def test_counter_examples_run(title, body):
    blocks = re.findall(r"^```python\n(.*?)^```", body, flags=re.M | re.S)
    assert blocks, "an erratum without a counter-example"
    for block in blocks:
        assert "assert" in block
        exec(compile(block, title, "exec"), {})


@pytest.mark.parametrize("title", [title for title, _ in SECTIONS])
def test_papers_are_listed(title):
    paper = re.match(r"(.+? (?:et al\. |and \w+ )?\d{4})", title)
    assert paper, "the title does not begin with a paper"
    assert f"**{paper[1]}." in REFERENCES


def test_sources_named_in_the_code_are_listed():
    """Short names such as "Zhai et al. 2021" in the package lead to the page; bare keys lead nowhere."""
    listed = set(re.findall(r"^\*\*(.+?\d{4}b?)\.?\*\*", REFERENCES, flags=re.M))
    for path in (DOCS.parent / "src").rglob("*.py"):
        text = re.sub(r"\s+", " ", path.read_text(encoding="utf-8"))
        for name in re.findall(r"\b[A-Z]\w+ et al\. (?:19|20)\d\db?", text):
            assert name in listed, f"{path.name}: {name}"
        keys = re.search(r"\[(?:Z21|WGV08|ZDKR21|H22|S24|SJ1[01]|ROM01|B19|SKHL20)\b", text)
        assert not keys, f"{path.name}: {keys and keys[0]}]"


@pytest.mark.parametrize("page", ["results/errata.md", "docs/published.md"])
def test_attributes_named_on_a_page_are_documented(page):
    text = (DOCS.parent / page).read_text(encoding="utf-8")
    named = set(re.findall(r"\b[a-z][a-z_]+_\b", " ".join(re.findall(r"`[^`\n]+`", text))))
    assert named
    classes = [getattr(tailboost, name) for name in tailboost.__all__ if name.endswith("Classifier")]
    documented = set(re.findall(r"\b[a-z][a-z_]+_\b", " ".join(of.__doc__ for of in classes)))
    functions = {"lambda_"}  # a parameter of `tailboost.published`
    assert named <= documented | functions
