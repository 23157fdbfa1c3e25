"""Files of statements become the fewest tables that answer them; the rest is reported with reasons."""

from __future__ import annotations

import csv
import json
from itertools import combinations

import pytest
from fixtures.spec import HEAD, mistakes
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import SpecError
from engine.spec import read_spec
from engine.spec import workload as workloads
from engine.spec.workload import merged, statements_of
from queries.sql import StatementReader

NAMES = "abcdef"
SETS = st.integers(1, 4).flatmap(
    lambda width: st.sampled_from([tuple(s) for s in combinations(NAMES, width)])
)
COLUMNS = """entities = ["id"]
[columns.id]
kind = "integer"
""" + "".join(f'[columns.{name}]\nkind = "integer"\n' for name in NAMES)
READER = StatementReader()


def tables(*names: str) -> set[tuple[str, ...]]:
    """Column sets from words such as "abc"."""
    return {tuple(name) for name in names}


def is_answered(asked, there) -> bool:
    """The rule in words: a table of its own or, from two columns on, one with a single column more."""
    return asked in there or (
        len(asked) > 1 and any(set(asked) < set(t) and len(t) == len(asked) + 1 for t in there)
    )


@pytest.mark.parametrize(
    ("asked", "given", "added"),
    [
        ([], [], []),
        (["a"], [], ["a"]),
        (["a", "ab"], [], ["a", "ab"]),  # counts of one column are far more accurate alone
        (["ab", "abc"], [], ["abc"]),
        (["ab", "abcd"], [], ["ab", "abcd"]),  # two columns more
        (["abc", "abcd"], [], ["abcd"]),
        (["ab", "abc", "abcd"], [], ["ab", "abcd"]),
        (["ab", "ac", "abc", "abcd"], [], ["abc", "abcd"]),  # one triple for two pairs
        (["ab", "cd"], [], ["ab", "cd"]),  # never a wider table than anyone asks for
        (["ab", "abc"], ["abc"], []),
        (["ab", "bc"], ["abc"], []),
        (["ab"], ["ab", "abcd"], []),
        (["ab"], ["abcd"], ["ab"]),
        (["a"], ["a", "ab"], []),
        (["a"], ["ab"], ["a"]),
    ],
)
def test_the_tables_of_a_workload_by_hand(asked, given, added):
    assert merged([tuple(a) for a in asked], [tuple(g) for g in given]) == tables(*added)


@settings(max_examples=25)
@given(st.sets(SETS, max_size=7), st.sets(SETS, max_size=3))
def test_every_question_is_answered_by_few_tables(asked, there):
    added = merged(asked, there)
    assert added <= asked - there
    assert all(is_answered(one, added | there) for one in asked)
    fewest = next(
        n
        for n in range(len(asked) + 1)
        for tried in combinations(sorted(asked), n)
        if all(is_answered(one, {*tried, *there}) for one in asked)
    )
    assert fewest <= len(added) <= fewest + 1
    assert merged(sorted(asked, reverse=True), sorted(there)) == added


def written(tmp_path, name: str, text: str):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def found(path):
    return [(one.line, one.text) for one in statements_of(path, READER)]


def test_sql_is_split_by_duckdb(tmp_path):
    text = (
        "-- a; comment\nSELECT ';', \"x;y\" FROM data; /* ; */ SELECT $$a;b$$\n\nFROM data;;\n"
        " ;\nSELEC nonsense;\n-- ü;\nSELECT 'ü;\n' FROM data -- no end;"
    )
    assert found(written(tmp_path, "q.sql", text)) == [
        (2, "-- a; comment\nSELECT ';', \"x;y\" FROM data"),
        (2, "/* ; */ SELECT $$a;b$$\n\nFROM data"),
        (6, "SELEC nonsense"),
        (8, "-- ü;\nSELECT 'ü;\n' FROM data -- no end;"),
    ]
    for nothing in ("", " \n", "-- only this", ";;;\n;"):
        assert found(written(tmp_path, "q.sql", nothing)) == []
    assert found(written(tmp_path, "q.sql", "SELECT 1;\nSELECT 'open; SELECT 2")) == [
        (1, "SELECT 1"),
        (2, "SELECT 'open; SELECT 2"),
    ]


@pytest.mark.parametrize("name", ["log.jsonl", "log.ndjson", "log.log", "log.TXT"])
def test_a_log_of_json_lines(tmp_path, name):
    lines = [
        json.dumps({"at": 1, "query": "SELECT a FROM data;"}),
        "",
        json.dumps({"SQL": "SELECT b\nFROM data; SELECT c FROM data"}),
        json.dumps({"statement": "SELECT ';' FROM data", "n": None}),
        json.dumps({"query": 7, "at": "x"}),
        "{broken",
        "[1]",
        '{"query": "SELECT \\ud800 FROM data"}',
    ]
    assert found(written(tmp_path, name, "\n".join(lines))) == [
        (1, "SELECT a FROM data"),
        (3, "SELECT b\nFROM data"),
        (3, "SELECT c FROM data"),
        (4, "SELECT ';' FROM data"),
        (5, ""),
        (6, ""),
        (7, ""),
        (8, ""),
    ]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_log_in_csv(tmp_path, delimiter):
    rows = [
        ("user", "Query", "ms"),
        ("x", '"SELECT a,\nb; -- ""c"""', "1"),
        ("y", '"SELECT c"', "2"),
        ("z",),
    ]
    text = "\r\n".join(delimiter.join(row) for row in rows) + "\r\n\r\n"
    path = tmp_path / "log.csv"
    path.write_bytes(text.encode("utf-8-sig"))
    assert found(path) == [(2, "SELECT a,\nb"), (4, "SELECT c"), (5, "")]


def test_files_that_hold_no_statements(tmp_path, monkeypatch):
    with pytest.raises(SpecError, match=r"no file .*none\.sql"):
        statements_of(tmp_path / "none.sql", READER)
    with pytest.raises(SpecError, match="cannot be read"):
        statements_of(tmp_path, READER)
    (tmp_path / "latin.sql").write_bytes(b"SELECT '\xe9'")
    with pytest.raises(SpecError, match=r"is not UTF-8 \(at byte 9\)"):
        statements_of(tmp_path / "latin.sql", READER)
    for text in ("", "when,who\n1,2\n", "SELECT a FROM data\n"):
        with pytest.raises(SpecError, match="no column of statements"):
            statements_of(written(tmp_path, "log.csv", text), READER)
    long = 'query\n"' + "x" * 200_000 + '"\n'
    csv.field_size_limit(131_072)  # some libraries raise it for all
    with pytest.raises(SpecError, match="line 2"):
        statements_of(written(tmp_path, "log.csv", long), READER)
    monkeypatch.setattr(workloads, "MOST_BYTES", 3_000_000)
    with pytest.raises(SpecError, match="3 MB"):
        statements_of(written(tmp_path, "q.sql", "-" * 3_000_001), READER)


def spec_of(write, entries: str, release: str = ""):
    text = HEAD.replace("[release]\n", f"[release]\n{release}") + COLUMNS + entries
    return read_spec(write(text), check_key=False, sql=READER)


FILE = '[[tables]]\nfile = "q.sql"\n'
STATEMENTS = """SELECT a, count(*) FROM data GROUP BY a;
SELECT a, b FROM data; SELECT b, a FROM data;
SELECT a, b, c FROM data;
SELECT count(*) FROM data;
SELECT a, b FROM data;
SET x = 1;
SELECT * FROM data;
SELECT a FROM data JOIN other USING (b);
SELECT 1;
SELECT id FROM data;
SELECT $1 FROM data
"""


def test_a_spec_with_a_file_of_statements(write, tmp_path):
    written(tmp_path, "q.sql", STATEMENTS)
    spec = spec_of(write, FILE)
    assert spec.tables == (("a",), ("a", "b", "c"))
    workload = spec.workload
    assert workload is not None
    assert workload.rows_of() == [
        ("a, b", "3", "2, 2, 5", "a, b, c"),
        ("none", "1", "4", "any table"),
        ("a", "1", "1", "a"),
        ("a, b, c", "1", "3", "a, b, c"),
    ]
    assert workload.rows_of(1) == workload.rows_of()[:1]
    assert (workload.tables, workload.left_out, workload.kept) == (
        (("a",), ("a", "b", "c")),
        (("a", "b"),),
        (("a",),),
    )
    sentences = workload.sentences()
    assert sentences[0].startswith("6 of 12 statements")
    assert [one.partition(": ")[2].partition(";")[0] for one in sentences[1:3]] == ["a, b", "a"]
    reasons = {one.places[0][1]: one.reason for one in workload.unanswered}
    assert sorted(reasons) == [6, 7, 8, 9, 10, 11]
    assert reasons[6].startswith("SET is not allowed here")
    assert reasons[7] == "reads 6 columns; tables have at most 4"
    assert reasons[8].startswith("Table other does not exist.")
    assert reasons[9] == "does not read data"
    assert reasons[10].startswith("The release has no column 'id'.")
    assert "parameters" in reasons[11]
    assert all(f"(line {line}): {reasons[line]}" in " ".join(sentences) for line in reasons)
    assert "4 more" in workload.sentences(2)[-1]
    json.dumps(workload.as_dict())
    assert workload.as_dict()["asked"][0] == {
        "columns": ["a", "b"],
        "times": 3,
        "lines": [["q.sql", 2], ["q.sql", 2], ["q.sql", 5]],
        "answered_from": [["a", "b", "c"]],
    }


def test_tables_that_the_spec_names_stay_and_serve(write, tmp_path):
    written(tmp_path, "q.sql", "SELECT a, b FROM data; SELECT c FROM data")
    spec = spec_of(write, FILE + '[[tables]]\ncolumns = ["b", "a", "d"]\n[[tables]]\nall = 1\n')
    assert spec.tables == (*((n,) for n in NAMES), ("a", "b", "d"))
    assert spec.workload is not None
    assert spec.workload.tables == ()
    assert [one.tables for one in spec.workload.asked] == [(("a", "b", "d"),), (("c",),)]
    plain = spec_of(write, "[[tables]]\nall = 1\n")
    assert plain.workload is None
    assert spec != plain
    same = spec_of(write, '[[tables]]\nall = 1\n[[tables]]\ncolumns = ["a", "b", "d"]\n')
    assert spec == same  # who asks for a table does not change it


def test_several_files_are_one_workload(write, tmp_path):
    written(tmp_path, "q.sql", "SELECT a, b FROM data;\nSELECT a, b, e FROM data")
    lines = [{"query": q} for q in ["SELECT a, b, c FROM data", *["SELECT b, a FROM data"] * 8]]
    written(tmp_path, "log.jsonl", "\n".join(map(json.dumps, lines)))
    spec = spec_of(write, FILE + '[[tables]]\nfile = "log.jsonl"\n')
    assert spec.tables == (("a", "b", "c"), ("a", "b", "e"))
    assert spec.workload is not None
    assert spec.workload.rows_of()[0] == (
        "a, b",
        "9",
        "q.sql 1, log.jsonl 2, 3, 4, 5, 6 and 3 more",
        "a, b, c or a, b, e",
    )


def test_a_workload_that_nothing_answers_is_a_mistake(write, tmp_path):
    written(tmp_path, "q.sql", "SET x = 1;\nSELECT count(*) FROM data;\nSELECT 1; SELECT 2")
    (problem,) = mistakes(write(HEAD + COLUMNS + FILE), sql=READER)
    assert problem.startswith("tables[1].file: q.sql")
    assert "line 1: SET is" in problem
    assert "line 3: does not read data" in problem
    written(tmp_path, "q.sql", "")
    (problem,) = mistakes(write(HEAD + COLUMNS + FILE), sql=READER)
    assert problem.startswith("tables[1].file: q.sql")
    (problem,) = mistakes(write(HEAD + COLUMNS + FILE.replace("q.sql", "none.sql")), sql=READER)
    assert "tables[1].file: no file" in problem
    (problem,) = mistakes(write(HEAD + COLUMNS + FILE))
    assert problem.startswith("tables[1].file: ")
    broken = (HEAD + COLUMNS + FILE).replace('kind = "integer"', 'kind = "whole"')
    assert all("file" not in one for one in mistakes(write(broken), sql=READER))
