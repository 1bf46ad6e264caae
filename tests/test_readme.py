"""The README's code runs as printed; every linked file exists."""

import doctest
import inspect
import json
import os
import re
import runpy
import shlex
from pathlib import Path

import pytest

import tailboost as tb
from tailboost import RobustMixtureClassifier

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RECORDS = runpy.run_path(str(ROOT / "docs" / "_records.py"))
CHECK_LINKS = runpy.run_path(str(ROOT / "tools" / "check_links.py"))
DOORS = ["bank", "hospital", "guardrail"]
PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/*.md"),
    *ROOT.glob("docs/guide/*.md"),
    *ROOT.glob("*/README.md"),
    *ROOT.glob("results/*.md"),
]


@pytest.mark.slow
def test_the_block_of_python_prints_what_stands_below_it(tmp_path, monkeypatch, capsys):
    """Numbers change with the rows that select: after such a change run `python benchmarks/age_bands.py`."""
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    exec(compile(block, "README.md", "exec"), {})
    (printed,) = re.findall(r"```text\n(.*?)```", README, flags=re.DOTALL)
    assert capsys.readouterr().out == printed


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_block_of_the_shell_runs_from_an_empty_folder(tmp_path, monkeypatch):
    testing = pytest.importorskip("typer.testing")
    pytest.importorskip("matplotlib")
    from tailboost.app import cli

    monkeypatch.chdir(tmp_path)
    lines = re.findall(r"^    tailboost (.*)$", README, flags=re.MULTILINE)
    assert lines[0].split()[0] == "example"
    for line in lines:  # calibrate ends with code 1 without a certified rule
        result = testing.CliRunner().invoke(cli.app, shlex.split(line, comments=True))
        assert result.exit_code == 0, f"{line}\n{result.output}"
    assert [line.split()[0] for line in lines[-2:]] == ["calibrate", "predict"]
    assert {"m.model", "curve.png", "certified.model", "answers.csv"} <= {
        file.name for file in tmp_path.iterdir()
    }


def code_of(page):
    """Return the Python of a page, without prompts."""
    code = ""
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
        examples = doctest.DocTestParser().get_examples(block)
        code += "".join(example.source for example in examples) or block
    return code


@pytest.mark.slow
def test_the_types_of_the_first_pages_are_right(tmp_path, monkeypatch):
    """A user's checker agrees with the pages, and still knows what a certificate and a rule take."""
    api = pytest.importorskip("mypy.api")
    monkeypatch.chdir(ROOT)
    strictly = ["--strict", "--config-file", "pyproject.toml"]
    certified = "print(rule.certificate_.certified, rule.rule_.to_python())\n"
    names = ["README", *(f"docs/{name}" for name in (*DOORS, "start", "monitor"))]
    for name in names:
        code = code_of(ROOT / f"{name}.md") + certified * (name in ("README", "docs/bank"))
        (tmp_path / f"page_{Path(name).stem.replace('-', '_')}.py").write_text(code, encoding="utf-8")
    printed, _, code = api.run([*strictly, *map(str, tmp_path.glob("*.py"))])
    assert code == 0, printed

    faults = tmp_path / "faults.py"
    faults.write_text(
        "import tailboost as tb\nrule = tb.calibrate(tb.Scores('p', 1), [], [], by_group='sex')\n"
        "rule.certificate_.certifed\nrule.rule_.to_sql(1)\n"
        "tb.calibrate(rule, [], [], by_group=[])\ntb.tune(rule, [], [], infer_groups=[])\n"
    )
    printed, _, _ = api.run([*strictly, str(faults)])
    found = re.findall(r"faults.py:(\d+): error: .*\[([\w-]+)\]$", printed, flags=re.MULTILINE)
    assert sorted(set(found)) == [("3", "union-attr"), *((line, "arg-type") for line in "456")]


def test_arguments_of_calls_on_the_pages_are_named_parameters():
    """Editors complete only what a signature names."""
    stated = set()
    for page in PAGES:
        for block in re.findall(r"(?:tune|calibrate)\((.*?)\n", code_of(page)):
            stated |= set(re.findall(r"\b([a-z_]+)=", block))
    assert {"limits", "groups", "objective", "by_group"} < stated
    named = [set(inspect.signature(function).parameters) for function in (tb.tune, tb.calibrate)]
    assert stated & set(RobustMixtureClassifier().get_params()) <= set.union(*named)
    for names in named:
        assert {"limits", "objective", "by_group", "infer_groups"} < names
    for name in ("by_group", "infer_groups"):
        default = inspect.signature(tb.tune).parameters[name].default
        assert default == getattr(RobustMixtureClassifier(), name)


def test_what_the_block_prints_is_the_record():
    """`python benchmarks/age_bands.py` runs the block and records what it prints and the bars."""
    record = json.loads((ROOT / "benchmarks" / "age_bands.json").read_text(encoding="utf-8"))
    (printed,) = re.findall(r"```text\n(.*?)```", README, flags=re.DOTALL)
    assert record["printed"] == printed.splitlines()
    assert max(band["after"]["rate"] for band in record["missed"].values()) < record["limit"]


def test_the_commands_of_make_are_named():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^    make (\w+)", README, flags=re.MULTILINE):
        assert f"\n{target}: " in makefile
    assert "    make demo " in README
    assert "    make test " in README


def places(page):
    """Return the link targets of the headings of a page."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_files_of_the_contributing_page_exist():
    names = set(re.findall(r"`([\w/]+(?:\.py|/))`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
    missing = [
        n for n in names if not any((folder / n).exists() for folder in (ROOT, ROOT / "src" / "tailboost"))
    ]
    assert [name for name in missing if "yours" not in name] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page):
    for target, place in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", page.read_text(encoding="utf-8")):
        if re.match(r"\w+:", target):
            assert re.match(r"(https://[\w.-]+\.\w+(/|$)|mailto:)", target), target
            continue
        file = page.parent / target if target else page
        assert file.exists(), target
        assert not place or place in places(file), f"{target}#{place}"


def test_pages_lead_to_the_records_that_they_name(tmp_path):
    RECORDS["write"](tmp_path)
    assert {path.name for path in (ROOT / "results").glob("*.png")} < set(os.listdir(tmp_path / "records"))
    targets = []
    for page in (*ROOT.glob("docs/*.md"), *ROOT.glob("docs/guide/*.md")):
        text = RECORDS["linked"](page.read_text(encoding="utf-8"))
        targets += re.findall(r"`\]\(/([^)#]*)\)", text)
        assert not re.search(r"(?<!\[)`(results|benchmarks)/[\w-]+\.md`", text)
    assert {"records/errata.md", "records/index.md", "measurements/index.md"} < set(targets)
    assert [target for target in targets if not (tmp_path / target).exists()] == []


def test_links_of_a_site(tmp_path, capsys):
    (tmp_path / "_static").mkdir()
    (tmp_path / "index.html").write_text(
        '<h1 id="top">A</h1><a href="a.html#here"><a href="#top"><img src="a.html">'
    )
    (tmp_path / "a.html").write_text('<p id="here"><a href="https://example.org/x?y#z"></p>')
    assert CHECK_LINKS["main"](str(tmp_path)) == 0
    assert "4 links of 2 pages" in capsys.readouterr().out
    for link, says in {
        "b.html": "no file",
        "a.html#there": "'there'",
        "#gone": "'gone'",
        "http://example.org": "not an https address",
        "../out.html": "out of the site",
    }.items():
        (tmp_path / "c.html").write_text(f'<a href="{link}">')
        assert CHECK_LINKS["main"](str(tmp_path)) == 1
        assert f"c.html: {link} " in (said := capsys.readouterr().out)
        assert says in said
