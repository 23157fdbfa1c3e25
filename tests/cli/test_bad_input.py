"""Bad input, end to end: a clear error and exit code 2 or 3, no value of the data in it, nothing half-written.

And odd input that must work."""

from __future__ import annotations

import itertools
import os
import re
import shutil

import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import (
    CENSUS,
    counts,
    table_hashes,
    tablepack,
    write_spec,
)
from fixtures.refused import CANARY, NUMBER_CANARY, check_refused

import engine

INTEGER = {"kind": "integer"}
CATEGORY = {"kind": "category"}
TEXT = {"kind": "text"}


def build(folder, scratch, source, columns, tables=None, *, entities=(), out="r.duckdb", **more):
    """Build from a source file; gives how the command ended."""
    tables = tables or [(name,) for name in columns if name not in entities]
    spec = write_spec(folder, source, columns, tables, entities=entities, **more)
    return tablepack("build", spec, "-o", out, cwd=folder, tmp=scratch)


def csv_file(folder, text, name="d.csv"):
    (folder / name).write_text(text, encoding="utf-8")
    return name


def many(n=60, **columns):
    """A CSV text of n rows, each column given by a function of the row's number."""
    rows = [",".join(columns)]
    rows += [",".join(str(make(i)) for make in columns.values()) for i in range(n)]
    return "\n".join(rows) + "\n"


# Refused: files.


def test_a_parquet_file_with_a_damaged_page(tmp_path, scratch):
    frame = pd.DataFrame({"x": [f"{CANARY}{i}" for i in range(5_000)]})
    frame.to_parquet(tmp_path / "d.parquet", compression="zstd")
    data = bytearray((tmp_path / "d.parquet").read_bytes())
    data[2_000:2_400] = bytes(400)
    (tmp_path / "d.parquet").write_bytes(data)
    done = build(tmp_path, scratch, "d.parquet", {"x": CATEGORY})
    said = "d.parquet: cannot be read"
    check_refused(done, tmp_path, scratch, said=said)
    done = tablepack("init", "d.parquet", "-o", "init.toml", cwd=tmp_path, tmp=scratch)
    check_refused(done, tmp_path, scratch, said=said)


# Refused: values.


VALUES = [
    (CANARY, INTEGER),
    ("12.5", INTEGER),
    (CANARY, {"kind": "real", "resolution": 0.5}),
    ("inf", {"kind": "real", "resolution": 0.5}),
    ("-Infinity", {"kind": "decimal", "resolution": 0.01}),
    (str(2**63), INTEGER),
    (str(-(2**64)), INTEGER),
    ("1e300", {"kind": "real", "resolution": 0.001}),
    (CANARY, {"kind": "date"}),
    ("2021-02-30", {"kind": "date"}),
    (CANARY, {"kind": "timestamp"}),
    (CANARY, {"kind": "boolean"}),
    (CANARY, {"kind": "category", "domain": ["a", "1"], "public": True}),
    (str(NUMBER_CANARY), {"kind": "integer", "domain": {"min": 0, "max": 9}}),
]
USUAL = {"date": "2020-01-05", "timestamp": "2020-01-05 10:00:00", "boolean": "true"}


@pytest.mark.parametrize("part", [slice(12), slice(12, None)], ids=["types", "domains"])
def test_every_column_with_values_that_do_not_fit_is_named(tmp_path, scratch, part):
    """All in one run, without the values."""
    values = VALUES[part]
    rows = [",".join(f"x{k}" for k in range(len(values)))]
    for i in range(60):
        rows.append(",".join(v if i == 40 else USUAL.get(c["kind"], "1") for v, c in values))
    source = csv_file(tmp_path, "\n".join(rows) + "\n")
    columns = {f"x{k}": column for k, (_, column) in enumerate(values)}
    done = build(tmp_path, scratch, source, columns)
    check_refused(done, tmp_path, scratch, said="column 'x0'")
    named = set(re.findall(r"column '(x\d+)'", done.stderr))
    assert named == set(columns), set(columns) - named


# Odd, but valid.


ODD_NAMES = (
    'has "quotes"', "it's", "dot.ted.name", "with space", "select", "TABLE", "Straße", "年齢", "🙂",
    "per%cent", "sla/sh", "back\\slash", "semi;colon--", "n", "rowid", "[b]markup[/b]", "data", "main",
    "c0", "columns", "-o", "new\tline",
)  # fmt: skip


@pytest.mark.ci
def test_odd_names_work_to_the_end(tmp_path, scratch):
    frame = pd.DataFrame({name: np.arange(120) % (2 + k % 4) for k, name in enumerate(ODD_NAMES)})
    frame.to_parquet(tmp_path / "d.parquet")
    tables = [(name,) for name in ODD_NAMES]
    tables += [tuple(sorted(pair)) for pair in list(itertools.pairwise(ODD_NAMES))[:6]]
    done = build(tmp_path, scratch, "d.parquet", dict.fromkeys(ODD_NAMES, INTEGER), tables)
    assert done.returncode == 0, done.stderr
    assert set(table_hashes(tmp_path / "r.duckdb")) == set(tables)
    for words in (("show", "r.duckdb"), ("doctor", "r.duckdb"), ("export", "r.duckdb", "csv")):
        done = tablepack(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "csv").iterdir())) == len(tables)
    heads = {
        (tmp_path / "csv" / p).read_text().split("\n")[0] for p in os.listdir(tmp_path / "csv")
    }
    assert '"has ""quotes"""' in heads
    with engine.open(tmp_path / "r.duckdb") as release:
        assert set(release.columns) == set(ODD_NAMES)
        for k, name in enumerate(ODD_NAMES):
            spelled = '"' + name.replace('"', '""') + '"'
            rows = release.sql(f"SELECT {spelled}, count(*) FROM data GROUP BY 1").rows
            assert {value for value, _ in rows} >= set(range(2 + k % 4))
            assert release.card(name).columns == (name,)
            assert len(release.table(name)) > 60


@pytest.mark.ci
def test_values_of_10_000_characters(tmp_path, scratch):
    long, rare = "x" * 10_000, CANARY * 500
    source = csv_file(tmp_path, many(t=lambda i: rare if i == 5 else long if i % 2 else "y"))
    done = build(tmp_path, scratch, source, {"t": {"kind": "text"}})
    assert done.returncode == 0, done.stderr
    shown = {v for (v,) in counts(tmp_path / "r.duckdb", "t")}
    assert {long, "y"} <= shown
    assert not any(CANARY in v for v in shown)
    assert CANARY.encode() not in (tmp_path / "r.duckdb").read_bytes()


@pytest.mark.ci
def test_20_000_distinct_categories_become_prefixes(tmp_path, scratch):
    text = many(n=20_600, c=lambda i: f"v{i}" if i >= 600 else "often", x=lambda i: i % 2)
    source, tables = csv_file(tmp_path, text), [("c",), ("c", "x")]
    done = build(tmp_path, scratch, source, {"c": TEXT, "x": INTEGER}, tables)
    assert done.returncode == 3
    assert "columns.c: " in done.stderr
    columns = {"c": {**TEXT, "release": "codes of a made-up list"}, "x": INTEGER}
    done = build(tmp_path, scratch, source, columns, tables)
    assert done.returncode == 0, done.stderr
    shown = counts(tmp_path / "r.duckdb", "c")
    hidden = {value: n for (value,), n in shown.items() if value != "often"}
    assert all(value.endswith("*") or value == "(other)" for value in hidden)
    assert (
        max(len(value) for value in hidden) <= 6
    )  # five characters of v12345 are what ten have in common
    assert abs(sum(hidden.values()) - 20_000) < 12
    # Digits out of order, which no compressed text has by chance.
    assert b"v19375" not in (tmp_path / "r.duckdb").read_bytes()


# Keys.


@pytest.mark.parametrize(
    "harm", [lambda key: key.unlink(), lambda key: key.chmod(0o640)], ids=["missing", "readable"]
)
def test_keys(tmp_path, census_spec, scratch, harm):
    harm(tmp_path / "my.key")
    for words in (("plan", census_spec), ("build", census_spec, "-o", "r.duckdb")):
        done = tablepack(*words, cwd=tmp_path, tmp=scratch)
        check_refused(done, tmp_path, scratch, said="my.key")


# Damaged releases (every part of a file: tests/store).


@pytest.fixture(scope="module")
def good_release(tmp_path_factory, census):
    folder = tmp_path_factory.mktemp("good")
    spec = write_spec(folder, census / "people.parquet", CENSUS, [("age", "sex")])
    assert tablepack("build", spec, "-o", "r.duckdb", cwd=folder).returncode == 0
    return folder


@pytest.mark.ci
def test_a_damaged_release_is_refused_by_every_command(tmp_path, good_release):
    path = tmp_path / "r.duckdb"
    whole = (good_release / "r.duckdb").read_bytes()
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 16]) + whole[middle + 1 :]
    for damaged in (whole[:-4096], b"", flipped, None):
        shutil.copy(good_release / "r.duckdb.manifest.json", tmp_path)
        path.write_bytes(whole if damaged is None else damaged)
        if damaged is None:
            (tmp_path / "r.duckdb.manifest.json").unlink()
        for words in (("doctor",), ("show",), ("sql", "SELECT 1"), ("export", "csv")):
            done = tablepack(words[0], "r.duckdb", *words[1:], cwd=tmp_path)
            assert done.returncode == 6, (words, done.stdout, done.stderr)
            assert "r.duckdb" in done.stdout + done.stderr
    assert not (tmp_path / "csv").exists()
