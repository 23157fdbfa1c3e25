"""Spark gives what DuckDB gives, whatever the partitions and the order of rows; keys stay where they belong."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from fixtures.pipeline import (
    ACCEPTED,
    CENSUS,
    KEY,
    left_over,
    process,
    table_hashes,
    write_spec,
)
from test_equivalence import CASES, TWELVE, hashes_of, spec_in

import engine
from engine.api.reading import read
from engine.errors import DataError, SpecError
from engine.keys import MasterKey
from engine.measure.dp import margins
from engine.release import build
from engine.source import begin_ledger
from engine.source.spark import session as sessions

pyspark = pytest.importorskip("pyspark")
HAS_JAVA = shutil.which("java") is not None
if not HAS_JAVA and os.environ.get("CI") != "true":
    pytest.skip("no Java on this machine", allow_module_level=True)
pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning"),
    # pyspark leaves the socket of an encrypted broadcast to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    """One session for all tests here: local[2], encrypted, with an event log to look into."""
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    (folder / "events").mkdir()
    mine = pytest.MonkeyPatch()
    mine.setenv("PYSPARK_PYTHON", sys.executable)
    mine.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    mine.setenv(
        "PYSPARK_SUBMIT_ARGS",
        '--driver-java-options "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" pyspark-shell',
    )
    settings = {
        "spark.io.encryption.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "OFF",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session, folder
    session.stop()
    mine.undo()


@pytest.fixture(scope="module", params=CASES)
def case(request, census, tmp_path_factory):
    """Columns, entities and the hashes that DuckDB gives."""
    columns, entities = CASES[request.param]
    folder = tmp_path_factory.mktemp("plain")
    plain = hashes_of(folder, census / "people.parquet", columns, entities, jobs=1)
    assert len(set(plain.values())) == len(TWELVE)
    return columns, entities, plain


def spark_hashes(folder: Path, path: object, columns, entities) -> dict[tuple[str, ...], str]:
    """Table hashes of a build whose spec says engine = "spark"."""
    spec = spec_in(folder, path, columns, entities)
    spec.write_text(spec.read_text().replace("[source]", '[source]\nengine = "spark"'))
    build(read(spec), folder / "r.duckdb", jobs=1)
    return table_hashes(folder / "r.duckdb")


def frame_hashes(folder: Path, frame, census: Path, columns, entities):
    """Table hashes of a build from a DataFrame of Spark."""
    spec = read(spec_in(folder, census / "people.parquet", columns, entities))
    engine.build(
        frame,
        out=folder / "r.duckdb",
        tables=TWELVE,
        key=folder / "my.key",
        columns=spec.columns,
        entities=entities,
        privacy=ACCEPTED,
        max_rows=spec.privacy.max_rows,
        vintage=spec.vintage,
        jobs=1,
    ).close()
    return table_hashes(folder / "r.duckdb")


def held_in(folder: Path, wanted: list[bytes]) -> list[str]:
    """Files below a folder that hold one of some bytes."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [str(path) for path in files if any(one in path.read_bytes() for one in wanted)]


def spellings(secret: bytes) -> list[bytes]:
    """A secret as it is, in hex, in base 64, and as Python shows it."""
    return [
        secret,
        secret.hex().encode(),
        base64.b64encode(secret),
        repr(secret)[2:-1].encode(),
    ]


@pytest.mark.slow
def test_a_file_that_spark_reads_gives_what_duckdb_gives(spark, case, census, tmp_path):
    columns, entities, plain = case
    assert spark_hashes(tmp_path, census / "people.parquet", columns, entities) == plain


@pytest.mark.slow
def test_partitions_and_row_order_of_a_frame_change_nothing(spark, case, census, tmp_path):
    columns, entities, plain = case
    frame = spark[0].read.parquet(str(census / "people.parquet")).select(*columns)
    mixed = frame.repartition(8, "income").sortWithinPartitions("age", ascending=False)
    assert frame_hashes(tmp_path, mixed, census, columns, entities) == plain


@pytest.mark.slow
def test_keys_are_in_no_file_that_spark_writes(spark, census, tmp_path):
    """While its files are still there: spills, shuffles, broadcasts and the event log."""
    columns, entities = CASES["no entity column"]
    spark_hashes(tmp_path, census / "people.parquet", columns, entities)
    key = MasterKey(KEY)
    (vintage,) = {read(tmp_path / "release.toml").vintage}
    everything = tuple(sorted(columns))
    secrets = [
        KEY,
        key.derive("entity", vintage),
        key.derive("fingerprint", vintage, everything),
        key.derive("fingerprint", vintage),
        key.derive("sketch", "", everything),
    ]
    local, events = spark[1] / "local", spark[1] / "events"
    assert any(path.is_file() for path in local.rglob("shuffle_*"))
    logged = b"".join(p.read_bytes() for p in events.rglob("*") if p.is_file())
    assert b"SparkListenerJobEnd" in logged
    assert held_in(spark[1], [one for secret in secrets for one in spellings(secret)]) == []


def test_the_search_for_keys_finds_one_that_is_planted(tmp_path):
    for place, spelled in enumerate(spellings(KEY)):
        (tmp_path / f"{place}.bin").write_bytes(b"before" + spelled + b"after")
        assert len(held_in(tmp_path, spellings(KEY))) == place + 1


@pytest.mark.slow
def test_columns_that_spark_cannot_give_are_refused(spark, census, tmp_path):
    frame = spark[0].read.parquet(str(census / "people.parquet"))
    for odd, word in (("map('a', age)", "MAP"), ("named_struct('a', age)", "STRUCT")):
        worse = frame.selectExpr("*", f"{odd} AS odd")
        spec = spec_in(
            tmp_path / word,
            census / "people.parquet",
            CENSUS | {"odd": {"kind": "integer"}},
            ("person_id",),
            tables=[("age",), ("odd",)],
        )
        with pytest.raises(DataError, match=f"column 'odd': is of type {word}"):
            build(read(spec), tmp_path / word / "r.duckdb", frame=worse)
        assert not (tmp_path / word / "r.duckdb").exists()


@pytest.mark.slow
def test_cells_that_do_not_fit_are_refused_without_a_value(spark, census, tmp_path):
    frame = spark[0].read.parquet(str(census / "people.parquet"))
    worse = frame.selectExpr("* EXCEPT (age)", "if(age = 40, 'secret', string(age)) AS age")
    spec = spec_in(tmp_path, census / "people.parquet", CENSUS, ("person_id",))
    with pytest.raises(DataError, match="column 'age': holds values that are not whole") as refused:
        build(read(spec), tmp_path / "r.duckdb", frame=worse)
    assert "secret" not in str(refused.value)
    assert not (tmp_path / "r.duckdb").exists()


@pytest.mark.slow
def test_ragged_text_is_refused(spark, tmp_path):
    (tmp_path / "x.csv").write_text("person_id,age\n" + "1,2\n" * 20 + "3\n")
    columns = {"person_id": {"kind": "integer"}, "age": {"kind": "integer"}}
    spec = spec_in(tmp_path, tmp_path / "x.csv", columns, ("person_id",), tables=[("age",)])
    spec.write_text(spec.read_text().replace("[source]", '[source]\nengine = "spark"'))
    with pytest.raises(DataError, match="more or fewer fields"):
        build(read(spec), tmp_path / "r.duckdb", jobs=1)
    assert not (tmp_path / "r.duckdb").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["_part.csv", ".people.csv"])
def test_files_that_spark_passes_over_are_refused(spark, tmp_path, name):
    (tmp_path / "a.csv").write_text("person_id,age\n" + "1,2\n" * 20)
    shutil.copy(tmp_path / "a.csv", tmp_path / name)
    paths = [str(tmp_path / "a.csv"), str(tmp_path / name)]
    columns = {"person_id": {"kind": "integer"}, "age": {"kind": "integer"}}
    spec = spec_in(tmp_path, tmp_path / "a.csv", columns, ("person_id",), tables=[("age",)])
    source = replace(read(spec).source, engine="spark", more=(paths[1],))
    with pytest.raises(SpecError, match=r"Spark passes over .* rename it"):
        build(replace(read(spec), source=source), tmp_path / "r.duckdb")
    assert not (tmp_path / "r.duckdb").exists()


def built_by_command(folder: Path, path: Path, columns, entities, tables):
    """A build with a session of its own; what it printed, and what it left behind."""
    spec = spec_in(folder, path, columns, entities, tables=tables)
    text = spec.read_text().replace("[source]", '[source]\nengine = "spark"\nmaster = "local[2]"')
    spec.write_text(text)
    scratch, there = folder / "scratch", {*folder.iterdir()}
    scratch.mkdir()
    fast = '--driver-java-options "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" pyspark-shell'
    words = ("build", spec, "-o", "r.duckdb", "--jobs", "1")
    done = process(*words, cwd=folder, tmp=scratch, PYSPARK_SUBMIT_ARGS=fast)
    assert left_over(scratch) == []
    new = {p.name for p in folder.iterdir()} - {p.name for p in there} - {"scratch"}
    return done, {name for name in new if not name.startswith("my.key")}


@pytest.mark.slow
@pytest.mark.parametrize("case", ["no entity column"], indirect=True)
def test_a_session_of_our_own_leaves_nothing_but_the_release(case, census, tmp_path):
    columns, entities, plain = case
    done, new = built_by_command(tmp_path, census / "people.parquet", columns, entities, TWELVE)
    assert done.returncode == 0, done.stderr
    assert not re.search("(?i:spark|log4j|java)|WARN", done.stdout + done.stderr)
    assert new == {"r.duckdb", "r.duckdb.manifest.json"}
    assert table_hashes(tmp_path / "r.duckdb") == plain


@pytest.mark.slow
def test_what_spark_says_of_a_row_is_not_printed(tmp_path):
    (tmp_path / "x.csv").write_text("person_id,name\n" + "1,Ada\n" * 20 + "2,Bertha,Cleopatra\n")
    columns = {"person_id": {"kind": "integer"}, "name": {"kind": "category"}}
    done, new = built_by_command(tmp_path, tmp_path / "x.csv", columns, ("person_id",), [("name",)])
    assert done.returncode == 2, done.stderr
    assert "more or fewer fields" in done.stderr
    assert not re.search("Ada|Bertha|Cleopatra|Exception|MALFORMED", done.stdout + done.stderr)
    assert new == set()


def test_sessions_in_the_clear_and_of_another_version_are_refused(monkeypatch):

    class Conf(dict):
        pass

    class Context:
        version, master = pyspark.__version__, "spark://far:7077"

        def getConf(self):
            return Conf()

    class Session:
        _jsparkSession, sparkContext = None, Context()

    with pytest.raises(SpecError, match=r"spark.io.encryption.enabled(.|\n)*network.crypto"):
        sessions._check_session(Session())
    monkeypatch.setattr(Context, "version", "4.0.0" if pyspark.__version__ != "4.0.0" else "4.1.0")
    with pytest.raises(SpecError, match="both must be of one version"):
        sessions._check_session(Session())


def test_what_only_duckdb_does_is_refused(census, tmp_path):
    spec = read(spec_in(tmp_path, census / "people.parquet", CENSUS, ("person_id",)))
    with pytest.raises(SpecError, match=r"release\.count"):
        build(
            replace(spec, count="entities", source=replace(spec.source, engine="spark")),
            tmp_path / "r.duckdb",
        )
    assert not (tmp_path / "r.duckdb").exists()


@pytest.mark.ci
def test_equal_rows_are_told_apart_as_duckdb_does(spark, tmp_path):
    """Without entities: many equal rows in several partitions. The smoke test of Spark by default."""
    frame = pd.DataFrame({"a": [1] * 70 + [2] * 30, "b": ["x"] * 50 + ["y"] * 50})
    with duckdb.connect() as con:
        con.register("frame", frame)
        con.execute(f"COPY frame TO '{tmp_path / 'x.parquet'}'")
    columns = {"a": {"kind": "integer"}, "b": {"kind": "category"}}
    tables = [("a",), ("b",), ("a", "b")]
    spec = spec_in(tmp_path / "a", tmp_path / "x.parquet", columns, (), tables=tables)
    build(read(spec), tmp_path / "a" / "r.duckdb", jobs=1)
    spec = spec_in(tmp_path / "b", tmp_path / "x.parquet", columns, (), tables=tables)
    many = spark[0].read.parquet(str(tmp_path / "x.parquet")).repartition(5)
    build(read(spec), tmp_path / "b" / "r.duckdb", frame=many, jobs=1)
    plain = table_hashes(tmp_path / "a" / "r.duckdb")
    assert table_hashes(tmp_path / "b" / "r.duckdb") == plain
    assert len(plain) == 3


DP = """
[release]
title = "x"
vintage = "v"
key = "k.key"
mode = "dp"
[dp]
epsilon = 1.0
margins = 2
max_rows = {max_rows}
missing_ids = "{missing}"
[source]
path = "p.{form}"
engine = "{engine}"
entities = ["id"]
[columns.id]
kind = "integer"
[columns.sex]
kind = "category"
domain = ["f", "m"]
public = true
nullable = false
[columns.job]
kind = "category"
domain = ["b", "a", "rest", "never seen"]
public = true
other = "rest"
[columns.inc]
kind = "integer"
domain = {{ min = 0, max = 50 }}
breaks = [20]
public = true
[columns.born]
kind = "date"
domain = {{ min = 2000-01-01, max = 2009-12-31 }}
breaks = [2005-01-01]
public = true
[[tables]]
columns = ["born", "inc", "job", "sex"]
"""
NO_RECORDS = '9,f\n9,f,a,5,2001-02-03,6\n9,"f,a,5,2001-02-03\n9,f,a,5,200\n'


@pytest.mark.parametrize(
    ("max_rows", "form", "missing"),
    [
        (1, "parquet", "drop"),
        pytest.param(2, "parquet", "own", marks=pytest.mark.ci),
        pytest.param(2, "csv", "own", marks=pytest.mark.ci),
    ],
)
def test_mode_dp_counts_what_duckdb_counts(spark, tmp_path, monkeypatch, max_rows, form, missing):
    """The same rows of the same people, those chosen and those left out, and the same digests of all columns.

    Nothing that is odd ends a build.
    """
    pytest.importorskip("opendp")
    rows = pd.DataFrame(
        {
            "id": [i % 40 for i in range(100)] + [None] * 5 + [777],
            "sex": [("f", "m", "x", None)[i % 4 if i % 9 == 0 else i % 2] for i in range(106)],
            "job": [("a", "b", "strange", None)[i * 7 % 4] for i in range(106)],
            "inc": [(i * 13) % 90 - 10 for i in range(105)] + [None],
            "born": [("2001-02-03", "2007-01-01", "?", "2001-02-30")[i % 4] for i in range(106)],
        }
    ).astype({"id": "Int64", "inc": "Int64"})
    seen, real = {}, margins.counted
    for name in ("duckdb", "spark"):
        folder = tmp_path / name
        folder.mkdir()
        if form == "parquet":
            rows.to_parquet(folder / "p.parquet")
        else:
            (folder / "p.csv").write_text(rows.to_csv(index=False) + NO_RECORDS)
        (folder / "k.key").touch(0o600)
        (folder / "k.key").write_bytes(KEY)
        begin_ledger(folder / "k.key")
        (folder / "r.toml").write_text(
            DP.format(engine=name, max_rows=max_rows, form=form, missing=missing)
        )

        def noted(*args, name=name):
            found = real(*args)
            seen[name] = [margin.n.tolist() for margin in found]
            return found

        monkeypatch.setattr(margins, "counted", noted)
        build(read(folder / "r.toml"), folder / "r.duckdb")
        (told,) = (folder / "k.key.measured").glob("*.remarks.json")
        seen[name, "told"] = json.loads(told.read_text())
        if missing == "own":  # rows that name nobody are numbered, by each engine in its way
            del seen[name, "told"]["digests"]
    assert seen["duckdb"] == seen["spark"]
    assert seen["duckdb", "told"] == seen["spark", "told"]
    assert seen["duckdb"][0] > 30


@pytest.mark.slow
@pytest.mark.parametrize("hierarchy", [[1, 3], "list.csv"])
def test_levels_of_codes_are_the_same(spark, tmp_path, hierarchy):
    codes = [f"{'EI'[i % 2]}{10 + i % 7}.{i % 3}" for i in range(900)]
    pd.DataFrame({"code": codes, "sex": list("fmmfmffmfm") * 90}).to_csv(
        tmp_path / "a.csv", index=False
    )
    listed = [f"{code},{'low' if code < 'E14' else 'high'}" for code in sorted(set(codes))]
    (tmp_path / "list.csv").write_text("\n".join(["code,parent", "low,", "high,", *listed]))
    columns = {"code": {"kind": "text", "hierarchy": hierarchy}, "sex": {"kind": "category"}}
    hashes = []
    for engine_ in ("duckdb", "spark"):
        path = write_spec(
            tmp_path, "a.csv", columns, [("code", "sex")], entities=(), privacy=ACCEPTED,
            source={"engine": engine_}, name=f"{engine_}.toml",
        )  # fmt: skip
        build(read(path), tmp_path / f"{engine_}.duckdb", jobs=1)
        hashes.append(table_hashes(tmp_path / f"{engine_}.duckdb"))
    assert len(hashes[0]) == (3 if hierarchy == [1, 3] else 2)
    assert hashes[0] == hashes[1]
