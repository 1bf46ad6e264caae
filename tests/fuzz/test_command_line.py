"""Odd and damaged files: each is refused in one line, or every row is answered as if alone."""

from __future__ import annotations

import bz2
import csv
import datetime
import decimal
import gzip
import io
import lzma
import os
import random
import signal
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
for needed in ("typer", "rich", "jinja2"):
    pytest.importorskip(needed)

from tailboost.app import cli
from tailboost.app.datasets import read_raw

pytestmark = pytest.mark.fuzz
PART = "command line"
LONGEST = 300
# A file takes a twentieth of a second; beyond this time the process hangs.
HANGS_AFTER = 60

MODEL, OUT = Path("m.model"), Path("p.csv")


# -- calls ---------------------------------------------------------------------------------------------------


def call(*arguments):
    """Run the command line here; return its exit code and the lines of standard error but warnings."""
    out, err = io.StringIO(), io.StringIO()
    signal.signal(signal.SIGALRM, hanging)
    signal.alarm(HANGS_AFTER)
    try:
        with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
            cli.main([str(a) for a in arguments])
    except SystemExit as end:
        code = end.code
    except BaseException as error:
        code = f"raised {error!r}"
    finally:
        signal.alarm(0)
    lines = [line for line in err.getvalue().splitlines() if not line.startswith("warning: ")]
    return code, lines


def hanging(*_):
    raise TimeoutError(f"no end after {HANGS_AFTER} s")


def wrong_refusal(code, lines, names):
    """Return the fault of a refusal, or None. A correct refusal is one line with the file or a column."""
    said = "\n".join(lines)
    if code != 2:
        return f"exit code {code}"
    if len(lines) != 1 or "Traceback" in said:
        return f"{len(lines)} lines"
    if len(said) > LONGEST:
        return f"{len(said)} characters"
    if not any(name in said for name in names):
        return "names neither file nor column"
    return None


def left_over(*allowed):
    return sorted(
        p.name for p in Path().iterdir() if p.name not in allowed and p.suffix in (".part", ".model")
    )


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as lines:
        return [row[1:] for row in csv.reader(lines)][1:]  # the first column counts the rows


def spoken(name):
    """The forms in which a message may name a column."""
    return [repr(name)[1:-1], name] if name.strip() else []


# -- files to fit on -----------------------------------------------------------------------------------------


def ordinary(draw, n=40, sep=",", names=("a", "b", "c", "y")):
    lines = [sep.join(names)]
    for i in range(n):
        row = [
            str(i),
            f"{draw.random():.4f}",
            draw.choice(("red", "green", "blue")),
            draw.choice(("yes", "no")),
        ]
        lines.append(sep.join(row))
    return "\n".join(lines) + "\n"


BASE = ordinary(random.Random(0))


def encodings():
    texts = [BASE, BASE.replace("red", "rouge é").replace("blue", "青"), BASE.replace("b,c", "bé,ç"),
             BASE.replace("yes", "да")]  # fmt: skip
    for encoding in (
        "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252", "cp1251",
        "shift_jis", "gb18030", "koi8-r", "utf-7", "cp037",
    ):  # fmt: skip
        for text in texts:
            yield f"in {encoding}", text.encode(encoding, "replace")


def line_ends():
    for end in ("\r\n", "\r", "\n\r", "\x0b", "\x0c", "\u2028", "\x85", "\n\n", "\n \n", "\n,,,\n"):
        yield f"lines end in {end!r}", BASE.replace("\n", end).encode()
    for sep in ";\t| :":
        yield f"separated by {sep!r}", ordinary(random.Random(1), sep=sep).encode()


def oddities():
    """Yield files with one thing amiss, by name."""
    lines = BASE.splitlines()

    def first(old, new, count=1):
        return BASE.replace(old, new, count)

    def every(red, green, blue):
        return BASE.replace("red", red).replace("green", green).replace("blue", blue)

    def targets(make):
        return "\n".join(
            [lines[0], *(f"{line.rsplit(',', 1)[0]},{make(i)}" for i, line in enumerate(lines[1:]))]
        )

    texts = {
        "empty": "", "newline only": "\n", "header only": "a,b,y\n", "one column": "y\n1\n0\n",
        "blank lines": "   \n  \n", "one row": "a,y\n1,yes\n", "one class": "a,y\n" + "1,x\n" * 30,
        "two rows": "a,y\n1,p\n2,q\n", "a long line": BASE.replace("\n", ",9\n", 6).replace(",9\n", "\n", 5),
        "a short line": BASE + "1,2\n", "nul in a field": BASE.replace("red", "r\0d"),
        "nul in the header": first("a,b", "a\0,b"), "many nuls": "\0" * 5000,
        "a row of nuls": BASE + "\0\0\0\n",
        "quoted newline": BASE.replace("red", '"re\nd"'), "quoted newline in the header": first("a,b",
        '"a\nx",b'),
        "unclosed quote": first("red", '"red'), "unclosed last quote": BASE + '1,2,red,"yes\n',
        "quote amid a field": BASE.replace("red", 'r"e"d'), "a long field": first("red", "x" * 131_073),
        "a field of a megabyte": first("red", "x" * 1_000_000), "a field just short enough": first("red",
        "x" * 131_000),
        "many lines in quotes": first("red", '"' + "x,\n" * 40_000 + '"'),
        "a name twice": first("a,b", "a,a"), "the target twice": first("a,b,c,y", "a,y,c,y"),
        "no name": first("a,b", "a,"), "a blank name": first("a,b", "a,  "),
        "pandas' names": first("a,b,c", "a,a.1,Unnamed: 0"), "no names": ",,\n1,2,3\n",
        "infinite": BASE + "inf,1.0,red,yes\n", "too large": BASE + "1e999,1.0,red,yes\n",
        "minus too large": BASE + "1,-1e999,red,yes\n", "largest": BASE + "1e308,-1e308,red,yes\n",
        "subnormal": BASE + "1e-320,1,red,yes\n", "long digits": BASE + "1" * 30 + ",1,red,yes\n",
        "beyond int64": BASE + "9223372036854775808,1,red,yes\n-1,1,red,no\n",
        "mixed": BASE + "abc,1,red,yes\n",
        "no value in a column": "a,b,y\n" + "1,,p\n2,,q\n" * 9, "no target": targets(lambda i: ""),
        "a target missing": BASE + "1,1,red,\n", "NA for target": BASE + "1,1,red,NA\n",
        "dates": every("2024-01-02", "2024-02-03", "2023-01-01"), "some dates": BASE.replace("red",
        "2024-01-02"),
        "times": every("12:30", "13:00", "14:15"), "complex": every("1+2j", "2j", "3j"),
        "hexadecimal": every("0x1f", "0x2", "0x3"), "emoji": first("a,b", "🐍,ב").replace("red", "🟥"),
        "right to left": first("a,b", "\u202eabc,\u200f"), "zero width": first("a,b", "a,a\u200b"),
        "two forms of é": first("a,b", "é,e\u0301"), "keywords": first("a,b,c", "class,lambda,None"),
        "dunders": first("a,b,c", "__class__,__dict__,self"), "our names": first("a,b,c",
        "target,groups,data"),
        "names like values": first("a,b,c", "nan,True,1.0"), "names XGBoost refuses": first("a,b,c",
        "a[0],b<1,c]"),
        "escapes in a name": first("a,b", "\x1b[31mred,b"), "escapes in values": BASE.replace("red",
        "\x1b]0;x\x07"),
        "a comment": "# hi\n" + BASE, "JSON": '{"a": 1, "y": 2}\n', "HTML": "<html><body>no</body></html>\n",
        "trailing commas": BASE.replace("\n", ",\n"), "a trailing comma": first("\n", ",\n"),
        "blanks around": BASE.replace(",", " , "), "truth targets": BASE.replace("yes",
        "True").replace("no", "False"),
        "truth values": every("True", "False", ""), "continuous targets": targets(lambda i: i / 7),
        "an own target each": targets(lambda i: i), "infinite targets": targets(lambda i: ("1",
        "inf")[i % 2]),
        "negative targets": targets(lambda i: (-1, 1)[i % 2]),
        "targets 01 and 1": targets(lambda i: ("01", "1")[i % 2]),
        "almost a long date": 'a,c,y\n1,"2024-01-01 10:00' + " " * 100_000
        + '\nx",p\n2,"2024-01-01 10:00\nx",q\n',
        "wide": ",".join(f"c{i}" for i in range(2000)) + ",y\n"
        + "".join(",".join(str(i * j % 7) for j in range(2000)) + f",{'pq'[i % 2]}\n" for i in range(12)),
        "decimal commas": BASE.replace("0.", '"0,').replace(",red", '",red').replace(",green", '",green')
        .replace(",blue", '",blue'),
    }  # fmt: skip
    yield from ((name, text.encode()) for name, text in texts.items())
    yield "byte order mark only", b"\xef\xbb\xbf"
    yield "lone surrogate", BASE.encode().replace(b"red", b"\xed\xa0\x80", 1)
    yield "overlong", BASE.encode().replace(b"red", b"\xc0\x80", 1)
    yield "any bytes", bytes(range(256)) * 20
    yield "gzip by another name", gzip.compress(BASE.encode(), mtime=0)


def packed():
    """Yield compressed files, cut and flipped: (suffix, damage, content)."""
    draw = random.Random(2)
    for suffix, pack in ((".gz", partial_gzip), (".bz2", bz2.compress), (".xz", lzma.compress)):
        whole = pack(ordinary(random.Random(3), 300).encode())
        for end in (
            0,
            1,
            5,
            10,
            20,
            len(whole) // 2,
            len(whole) - 9,
            len(whole) - 4,
            len(whole) - 1,
            len(whole),
        ):
            yield suffix, f"cut at {end}", whole[:end]
        for _ in range(12):
            yield suffix, "a bit", flipped(whole, draw)
        yield suffix, "junk behind", whole + b"junk"
        yield suffix, "twice", whole + pack(b"1,0.5,red,yes\n")
        yield suffix, "not packed", BASE.encode()


def partial_gzip(content):
    return gzip.compress(content, mtime=0)


def flipped(content, draw):
    changed = bytearray(content)
    changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def parquet():
    """Yield Parquet files: every kind of column, then damage."""
    frame = pd.read_csv(io.StringIO(ordinary(random.Random(4), 60)))
    n, half = len(frame), len(frame) // 2
    columns = {
        "lists": [[1, 2]] * n, "structs": [{"u": 1}] * n, "decimals": [decimal.Decimal("1.5")] * n,
        "days": [datetime.date(2024, 1, 1)] * n, "hours": [datetime.time(1)] * n, "bytes": [b"ab"] * n,
        "timestamps": pd.Timestamp("2024-01-01"), "with a zone": pd.Timestamp("2024-01-01", tz="UTC"),
        "differences": pd.Timedelta("1D"), "categories": frame.c.astype("category"),
        "categories of numbers": pd.Categorical([1.5, 2.5] * half),
        "Int64": pd.array([1, None] * half, dtype="Int64"),
        "boolean": pd.array([True, None] * half, dtype="boolean"), "float16": frame.b.astype("float16"),
        "uint64": np.uint64(2**64 - 1), "infinite": np.inf, "nothing": None,
        "strings": frame.c.astype("string"),
        "categories of truth": pd.Categorical([True, False] * half), "intervals": pd.interval_range(0, n),
    }  # fmt: skip
    targets = {
        "decimals": [decimal.Decimal(i % 2) for i in range(n)], "bytes": [b"a", b"b"] * half,
        "timestamps": pd.to_datetime(["2024-01-01", "2024-01-02"] * half), "nothing": None,
        "categories": frame.y.astype("category"), "numbered categories": pd.Categorical([1, 2] * half),
        "one of two categories": pd.Categorical(["p"] * n, categories=["p", "q"]),
        "boolean": pd.array([True, False] * half, dtype="boolean"),
        "gaps": pd.array([1, None] * half, dtype="Int64"),
    }  # fmt: skip
    frames = {"plain": frame, "no rows": frame.iloc[:0], "no columns": pd.DataFrame(index=range(5)),
              "the target as index": frame.set_index("y"), "two as index": frame.set_index(["a",
              "c"])}  # fmt: skip
    frames |= {f"{name} in a column": frame.assign(n=value) for name, value in columns.items()}
    frames |= {f"{name} as target": frame.assign(y=value) for name, value in targets.items()}
    for name, each in frames.items():
        buffer = io.BytesIO()
        each.to_parquet(buffer)
        yield name, buffer.getvalue()
    whole, draw = io.BytesIO(), random.Random(5)
    frame.to_parquet(whole)
    content = whole.getvalue()
    for end in (0, 4, 8, 50, len(content) // 2, len(content) - 8, len(content) - 4, len(content) - 1):
        yield f"cut at {end}", content[:end]
    for _ in range(120):
        yield "a bit", flipped(content, draw)


CELLS = (
    "", "NA", "?", "nan", "None", "null", "1", "1.0", "-0", "1e5", "1e999", "inf", "0x10", "1_000", "1,000",
    '"', '""', 'a"b', "é", "🟥", "\u2028", "\0", "\t", " ", "True", "false", "2024-01-01", "=1+1", "<b>",
    "#", "\\",
    "\x1b[0m", "٣", "१", "½", "1.", ".5", "+1", "--1", "1e", "NaT", "N/A", "-nan", "1L", "1f", "01234", "A1B",
)  # fmt: skip
NAMES = (
    "a", "b", "", "  ", "y ", "Y", "class", "target", "1", "1.0", "nan", "True", "é", "e\u0301", "🐍", "a,b",
    'a"b',
    "a\nb", "\t", "__len__", "index", "level_0", "row", "prediction", "x" * 300, "\u202e", "None", "a.1",
    "Unnamed: 0", "\x00h",
)  # fmt: skip


def anything(seed):
    """Return a table of random names and cells, sometimes cut or with a foreign byte, and its names."""
    draw = random.Random(seed)
    # Names without repetition; otherwise most tables would be refused for their header.
    names = draw.sample(NAMES, draw.randint(1, 5)) if draw.random() < 0.3 else draw.sample(list("abcde"), 3)
    names.insert(draw.randrange(len(names) + 1), "y")
    text = io.StringIO()
    end, quoting = draw.choice(("\n", "\r\n", "\r")), draw.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    writer = csv.writer(text, lineterminator=end, quoting=quoting)
    writer.writerow(names)
    pools = {name: draw.sample(CELLS, draw.randint(1, 8)) for name in names}
    pools["y"] = ["p", "q", "1", "01"][: draw.choice((2, 2, 3, 4))]
    for _ in range(draw.choice((2, 5, 30, 60))):
        writer.writerow([draw.choice(pools[name]) for name in names])
    content = text.getvalue().encode("utf-8", "surrogatepass")
    if draw.random() < 0.1:
        content = content[: draw.randrange(len(content) + 1)]
    if draw.random() < 0.1:
        at = draw.randrange(len(content) + 1)
        content = content[:at] + bytes([draw.randrange(256)]) + content[at:]
    return content, names


# -- the campaign --------------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def try_file(tally, path, what, names=(), method="erm", seed=0):
    """Fit on a file; if accepted, a row has the same answer in the file, among others and alone."""
    code, lines = call("fit", path, "--target", "y", "--method", method, "--model", MODEL)
    if code != 0:
        forms = [form for name in (*names, *"yabcn") for form in spoken(name)]
        wrong = wrong_refusal(code, lines, [path.name, *forms])
        if wrong is None and left_over():
            wrong = f"left {left_over()}"
        tally.refused() if wrong is None else tally.violation((what, wrong, lines))
    elif wrong := other_answers(path, seed):
        tally.violation((what, wrong))
    else:
        tally.equal()
    MODEL.unlink(missing_ok=True)
    path.unlink()


def other_answers(path, seed):
    """Predict the file, some rows in another order, and one alone; return the differences."""
    code, lines = call("predict", MODEL, path, "--out", OUT)
    if code != 0:
        return f"fitted, but predict ends with {code}", lines
    whole = rows_of(OUT)
    table = read_raw(path)
    if len(whole) != len(table):
        return f"{len(whole)} answers to {len(table)} rows"
    draw = random.Random(seed)
    some = draw.sample(range(len(table)), min(len(table), 5))
    for taken in (some, [draw.randrange(len(table))]):
        part = Path(f"part{'.parquet' if path.suffix == '.parquet' else '.csv'}")
        write = table.iloc[taken].to_parquet if part.suffix == ".parquet" else partial_csv(table.iloc[taken])
        write(part)
        code, lines = call("predict", MODEL, part, "--out", OUT)
        if code != 0 or rows_of(OUT) != [whole[i] for i in taken]:
            return f"rows {taken} alone: {code} {lines}, {rows_of(OUT)} for {[whole[i] for i in taken]}"
    return None


def partial_csv(table):
    return lambda path: table.to_csv(path, index=False, quoting=csv.QUOTE_ALL)


@pytest.mark.parametrize("files", [encodings, line_ends, oddities])
def test_text(files, tally, here):
    for what, content in files():
        path = here / "t.csv"
        path.write_bytes(content)
        header = content[:2000].decode("utf-8", "replace").splitlines()[:1]
        try_file(tally, path.relative_to(here), what, header[0].split(",") if header else ())


def test_compressed(tally, here):
    for suffix, what, content in packed():
        path = Path(f"t.csv{suffix}")
        path.write_bytes(content)
        try_file(tally, path, f"{suffix}: {what}")


def test_parquet(tally, here):
    for what, content in parquet():
        path = Path("t.parquet")
        path.write_bytes(content)
        try_file(tally, path, what)


SHARDS, EACH = 12, 80


@pytest.mark.parametrize("shard", range(SHARDS))
def test_random_tables(shard, tally, here):
    for seed in range(shard * EACH, (shard + 1) * EACH):
        content, names = anything(seed)
        path = Path("r.csv")
        path.write_bytes(content)
        try_file(tally, path, f"seed {seed}", names, ("erm", "erm", "erm", "adaboost")[seed % 4], seed)
    assert tally.cases == EACH


def test_places(tally, here):
    """Missing files, and impossible places for output."""
    Path("good.csv").write_text(BASE)
    Path("folder.csv").mkdir()
    os.mkfifo("fifo.csv")
    Path("one.csv").symlink_to("two.csv")
    Path("two.csv").symlink_to("one.csv")
    Path("dangling.csv").symlink_to("gone.csv")
    Path("t.txt").write_text(BASE)
    names = ("folder.csv", "fifo.csv", "one.csv", "dangling.csv", "absent.csv", "x" * 300 + ".csv",
    "a\0b.csv",
             "/dev/null", "t.txt", "", ".", "..")  # fmt: skip
    for name in names:
        code, lines = call("fit", name, "--target", "y", "--method", "erm", "--model", MODEL)
        wrong = wrong_refusal(code, lines, [repr(name)[1:30], "DATA", "x" * 20, "'.'"])
        tally.refused() if wrong is None else tally.violation((name, wrong, lines))
    for target in ("", " ", "zzz", "Y", "y ", "a,b", "\n", "🐍", "*", "y" * 5000):
        code, lines = call("fit", "good.csv", "--target", target, "--method", "erm", "--model", MODEL)
        wrong = wrong_refusal(code, lines, ["good.csv"])
        tally.refused() if wrong is None else tally.violation((target, wrong, lines))
    for out in ("good.csv", "folder.csv", "no/m.model", "m.pkl", "/dev/full", "", "x" * 300 + ".model"):
        code, lines = call("fit", "good.csv", "--target", "y", "--method", "erm", "--model", out)
        wrong = wrong_refusal(code, lines, ["--model"])
        tally.refused() if wrong is None else tally.violation((out, wrong, lines))
    assert Path("good.csv").read_text() == BASE
    assert not left_over()


# -- files to predict ----------------------------------------------------------------------------------------

KINDS = {
    "zip": ("01234", "04567", "98765", "A1B"),
    "x": ("0.5", "-1", "1e3", "7", "", "2.25"),
    "t": ("1", "2", "3", "many"),
    "f": ("0.50", "1.00", "x"),
    "m": ("True", "False", "true"),
}
LATER_SHARDS, LATER_EACH = 8, 100
DRIFTED = ("", "NA", "?", "1", "01", "1.0", " 7 ", "1,5", "abc", "TRUE", "yes", "é", "inf", "1e999",
"2024-01-01",
           "٣", "=1+1", "0x10", "9" * 25, "-0", "1_000", "\t")  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a folder with a model of each of two methods, fitted on columns of every kind."""
    folder, draw = tmp_path_factory.mktemp("trained"), random.Random(6)
    rows = [{name: draw.choice(values) for name, values in KINDS.items()} for _ in range(200)]
    frame = pd.DataFrame(rows)
    frame["y"] = np.where(frame["zip"].str.startswith("0") ^ (frame["t"] == "1"), "01", "1")
    frame.to_csv(folder / "d.csv", index=False)
    for method in ("erm", "adalpboost"):
        few = ("--set", "n_estimators=3")
        model = folder / f"{method}.model"
        code, lines = call(
            "fit", folder / "d.csv", "--target", "y", "--method", method, "--model", model, *few
        )
        assert code == 0, lines
    return folder


@pytest.mark.parametrize("shard", range(LATER_SHARDS))
def test_later_tables(shard, tally, trained, here):
    """Tables with drift: a row is answered, or refused, the same alone and among others."""
    for seed in range(shard * LATER_EACH, (shard + 1) * LATER_EACH):
        draw = random.Random(10_000 + seed)
        columns = list(KINDS)
        draw.shuffle(columns)
        if draw.random() < 0.1:
            columns.remove(draw.choice(columns))
        columns += draw.sample(("y", "new", "other"), draw.randint(0, 2))
        odd = draw.choice((0.0, 0.02, 0.2))
        rows = [
            [
                draw.choice(DRIFTED) if draw.random() < odd else draw.choice(KINDS.get(c, ("1", "u")))
                for c in columns
            ]
            for _ in range(draw.choice((1, 2, 4)))
        ]
        frame = pd.DataFrame(rows, columns=columns)
        model = trained / f"{('erm', 'adalpboost')[seed % 2]}.model"
        partial_csv(frame)(Path("l.csv"))
        code, lines = call("predict", model, "l.csv", "--out", OUT)
        alone, codes = [], []
        whole = rows_of(OUT) if code == 0 else None
        OUT.unlink(missing_ok=True)
        for i in range(len(frame)):
            partial_csv(frame.iloc[[i]])(Path("l.csv"))
            codes.append(call("predict", model, "l.csv", "--out", OUT)[0])
            alone += rows_of(OUT) if codes[-1] == 0 else []
            OUT.unlink(missing_ok=True)
        if code == 0:
            equal = set(codes) == {0} and alone == whole
            tally.equal() if equal else tally.violation((seed, codes, whole, alone))
        else:
            wrong = wrong_refusal(code, lines, ["l.csv"])
            if wrong is None and set(codes) == {0}:
                wrong = "refused together, answered alone"
            tally.refused() if wrong is None else tally.violation((seed, wrong, lines))
    assert tally.cases == LATER_EACH
