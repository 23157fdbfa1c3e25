"""The main path on a simulated census: commands in the order of the README, and the events file."""

from __future__ import annotations

import datetime
import json
import tomllib
from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import (
    ACCEPTED,
    content_of,
    counts,
    demo_text,
    left_over,
    table_hashes,
    tablepack,
    write_spec,
)

import engine
from engine.api import build as api
from engine.keys import MasterKey
from engine.measure import measure_one_way
from engine.mechanism import StickyDraws
from engine.params import PROFILES
from engine.schema import Column, SourceSpec
from engine.simulation.codes import REFERENCE_DATE
from engine.source import open_source, scratch_directory
from engine.source.entities import add_tokens
from engine.source.ingest import ingest
from engine.source.scratch import confidential_connection

PEOPLE = 2_000
NOISE_SD = 2**0.5


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Every step of the demo, with its output."""
    folder = tmp_path_factory.mktemp("demo")
    tmp = folder / "tmp"
    tmp.mkdir()
    steps = {}

    def step(name, *words):
        steps[name] = tablepack(*words, cwd=folder, tmp=tmp)
        assert steps[name].returncode == 0, steps[name].stderr

    step("simulate", "simulate", "census", "--people", PEOPLE, "--seed", 5, "--csv")
    step("init", "init", "census/people.parquet", "-o", "found.toml", "--entity", "person_id")
    (folder / "release.toml").write_text(demo_text())
    step("key", "key", "new", "census.key")
    step("plan", "plan", "release.toml", "--json")
    step("plan for people", "plan", "release.toml")
    (folder / "out").mkdir()
    step("build", "build", "release.toml", "-o", "out/census.duckdb", "--json")
    return folder, steps


@pytest.fixture(scope="module")
def people(demo):
    return pd.read_parquet(demo[0] / "census" / "people.parquet")


@pytest.fixture(scope="module")
def release(demo):
    return demo[0] / "out" / "census.duckdb"


@pytest.mark.ci
def test_the_plan_is_what_the_build_makes(demo, release):
    # Once it was built; what was never built draws otherwise.
    planned = json.loads(tablepack("plan", "release.toml", "--json", cwd=demo[0]).stdout)
    published = {tuple(t["columns"]): t for t in planned["tables"] if t["published"]}
    with engine.open(release) as opened:
        cards = {columns: opened.card(*columns) for columns in opened.tables}
    assert set(published) == set(cards)
    assert {c: t["cells"] for c, t in published.items()} == {
        c: card.cells_released for c, card in cards.items()
    }
    # A column that is null exactly outside its universe has the noise of the column that defines the universe.
    declared = tomllib.loads((demo[0] / "release.toml").read_text())["columns"]
    bound = {name for name, column in declared.items() if "universe" in column}
    for columns, card in cards.items():
        if bound & set(columns):
            assert published[columns]["noise_sd"] <= card.noise_sd + 1e-3
        else:
            assert published[columns]["noise_sd"] == pytest.approx(card.noise_sd, abs=1e-3)
    assert any(not bound & set(columns) for columns in cards)
    assert any("release" in w or "groups too small" in w for w in planned["warnings"])
    assert demo[1]["plan"].stderr == ""
    assert f"{len(cards)} tables" in demo[1]["plan for people"].stdout


@pytest.mark.ci
def test_build_json_names_the_release(demo, release):
    told = json.loads(demo[1]["build"].stdout)
    assert told["path"] == "out/census.duckdb"
    assert told["tables"] == len(table_hashes(release))
    assert told["bytes"] == release.stat().st_size
    assert demo[1]["build"].stderr == ""


@pytest.mark.ci
def test_only_release_and_manifest_are_left(demo, release):
    assert sorted(p.name for p in release.parent.iterdir()) == [
        "census.duckdb",
        "census.duckdb.manifest.json",
    ]
    assert left_over(demo[0] / "tmp") == []
    assert set(content_of(demo[0] / "tmp").values()) <= {b""}


@pytest.mark.ci
def test_counts_are_near_the_truth(people, release):
    """One-way counts of sex: two noise layers of sd 1, so a deviation of 6 sd is a fault."""
    truth = people["sex"].value_counts()
    shown = counts(release, "sex")
    assert {k[0] for k in shown} == set(truth.index)
    for (sex,), n in shown.items():
        assert abs(n - truth[sex]) <= 6 * NOISE_SD
    assert abs(sum(shown.values()) - PEOPLE) <= 6 * NOISE_SD


@pytest.mark.ci
def test_show(demo, release):
    folder, _ = demo
    listed = tablepack("show", "out/census.duckdb", cwd=folder)
    assert listed.returncode == 0
    assert "activity, health, region, sex" in listed.stdout
    told = json.loads(tablepack("show", "out/census.duckdb", "--json", cwd=folder).stdout)
    assert len(told["cards"]) == told["tables"]
    assert {tuple(c["columns"]) for c in told["cards"]} == set(table_hashes(release))
    one = tablepack("show", "out/census.duckdb", "--table", "sex,age", cwd=folder)
    assert "combinations of age, sex" in one.stdout
    card = json.loads(
        tablepack("show", "out/census.duckdb", "--table", "sex, age", "--json", cwd=folder).stdout
    )
    assert card["columns"] == ["age", "sex"]
    assert card["low_threshold"] == 3


@pytest.mark.ci
def test_sql_names_the_table_and_its_noise(demo, release):
    folder, _ = demo
    query = "SELECT sex, count(*) AS n FROM data GROUP BY sex ORDER BY sex"
    answer = tablepack("sql", "out/census.duckdb", query, "--format", "json", cwd=folder)
    told = json.loads(answer.stdout)
    assert told["table"] == ["sex"]
    assert told["noise_sd"] == pytest.approx(NOISE_SD)
    assert {(sex,): n for sex, n in told["rows"]} == counts(release, "sex")
    assert "Answered from table sex" in answer.stderr
    from_stdin = tablepack(
        "sql", "out/census.duckdb", "-", "--format", "csv", cwd=folder, text=query
    )
    lines = from_stdin.stdout.splitlines()
    assert lines[0] == "sex,n"
    assert lines[1:] == [f"{sex},{n}" for sex, n in told["rows"]]


@pytest.mark.ci
def test_explain_runs_nothing(demo):
    folder, _ = demo
    told = tablepack(
        "sql", "out/census.duckdb", "SELECT max(age) FROM data", "--explain", cwd=folder
    )
    assert told.returncode == 0
    assert "Reads age." in told.stdout
    assert "Answered from age." in told.stdout
    assert "max(" not in told.stdout


@pytest.mark.ci
def test_export_has_the_kinds_of_the_source(demo, people, release):
    folder, _ = demo
    done = tablepack("export", "out/census.duckdb", "csv", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert len(list((folder / "csv").iterdir())) == len(table_hashes(release))
    frame = pd.read_csv(folder / "csv" / "activity.age.sex.csv")
    assert list(frame.columns) == [c for c in people.columns if c in ("activity", "age", "sex")]
    assert set(frame["activity"].dropna()) <= set(people["activity"].dropna())
    assert set(frame["age"]) <= set(range(106))
    rent = (folder / "csv" / "rent_weekly.csv").read_text().splitlines()[1:]
    shown = [line.strip('"') for line in rent]
    assert any(shown)
    assert any(not line for line in shown)
    assert all(line == "" or line[-3] == "." for line in shown)
    done = tablepack(
        "export",
        "out/census.duckdb",
        "one",
        "--table",
        "sex,age",
        "--format",
        "parquet",
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    assert [p.name for p in (folder / "one").iterdir()] == ["age.sex.parquet"]
    assert len(pd.read_parquet(folder / "one" / "age.sex.parquet")) == sum(
        counts(release, "sex").values()
    )


@pytest.mark.ci
def test_public_values_and_placeholder(people, release):
    held = {v for (v,) in counts(release, "birth_country")}
    known = set(people["birth_country"].dropna())
    for value in held - known - {None, "(other)"}:
        assert value.endswith("*")
        assert sum(one.startswith(value[:-1]) for one in people["birth_country"].dropna()) >= 3


@pytest.mark.ci
def test_doctor(demo):
    folder, _ = demo
    told = tablepack("doctor", "out/census.duckdb", "--json", cwd=folder)
    assert told.returncode == 0, told.stderr
    found = {f["check"]: f["ok"] for f in json.loads(told.stdout)}
    assert found == {"versions": True, "draws": True, "scratch": True, "release": True}


@pytest.mark.ci
def test_the_spec_that_init_writes_builds_as_it_is(demo):
    folder, steps = demo
    assert "tablepack key new found.key" in steps["init"].stderr
    text = (folder / "found.toml").read_text()
    assert text.count("[[tables]]") >= 2
    head, _, _ = text.partition("[[tables]]")
    (folder / "found.toml").write_text(head + '[[tables]]\ncolumns = ["age", "sex"]\n')
    missing = tablepack("plan", "found.toml", cwd=folder)
    assert missing.returncode == 2
    assert "tablepack key new found.key" in missing.stderr
    assert tablepack("key", "new", "found.key", cwd=folder).returncode == 0
    built = tablepack("build", "found.toml", "-o", "found.duckdb", cwd=folder)
    assert built.returncode == 0, built.stderr


@pytest.mark.ci
def test_dates_of_the_demo_are_within_their_declared_range(demo, people, release):
    (arrival,) = (c for c in api.read(demo[0] / "release.toml").columns if c.name == "arrival_date")
    low, high = arrival.bounds
    assert (low, high) == (datetime.date(1915, 1, 1), REFERENCE_DATE)
    with duckdb.connect(str(release), read_only=True) as con:
        shown = con.execute(
            "SELECT min(arrival_date), max(arrival_date) FROM arrival_date"
        ).fetchone()
    days = pd.to_datetime(people["arrival_date"].dropna()).dt.date
    for first, last in (shown, (days.min(), days.max())):
        assert low <= first <= last <= high


# The events file: many rows per person.

EVENTS = {
    "person_id": {"kind": "integer"},
    "visit_date": {"kind": "date"},
    "visit_at": {"kind": "timestamp"},
    "department": {"kind": "category"},
    "reason": {"kind": "text"},
    "amount": {"kind": "decimal", "resolution": 0.01},
}


@pytest.mark.ci
def test_a_source_with_many_rows_per_person(tmp_path, census):
    tables = [("visit_date",), ("visit_at",), ("department", "reason"), ("amount", "department")]
    refused = write_spec(tmp_path, census / "events.parquet", EVENTS, tables)
    done = tablepack("build", refused, "-o", "events.duckdb", cwd=tmp_path)
    assert done.returncode == 2
    assert "max_rows = 16" in done.stderr
    bounds = {"visit_date": 2, "visit_at": 1, "department": 8, "reason": 4, "amount": 1}
    columns = {
        name: section | ({"max_rows": bounds[name]} if name in bounds else {})
        for name, section in EVENTS.items()
    }
    privacy = {"max_rows": 32} | ACCEPTED
    spec = write_spec(tmp_path, census / "events.parquet", columns, tables, privacy=privacy)
    built = tablepack("build", spec, "-o", "events.duckdb", "--json", cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    events = pd.read_parquet(census / "events.parquet")
    with engine.open(tmp_path / "events.duckdb") as opened:
        card = opened.card("amount", "department")
        assert card.noise_sd_total == 32 * NOISE_SD
        assert card.noise_sd < 32 * NOISE_SD  # finer buckets hold fewer rows of one entity
        assert "32 rows" in " ".join(card.sentences())
        shown = opened.sql("SELECT department, count(*) FROM data GROUP BY 1").rows
        (middle,) = opened.sql("SELECT median(visit_at) FROM data").rows[0]
    truth = events["department"].value_counts()
    for department, n in shown:
        # Raked to the departments only, whose noise is at most that of the total; rows beyond the bound are left out.
        assert abs(n - truth[department]) <= 6 * card.noise_sd_total + 0.2 * truth[department]
    assert abs(middle - events["visit_at"].median()) < pd.Timedelta(days=30)
    assert set(table_hashes(tmp_path / "events.duckdb")) == set(tables)


def _totals(frame: pd.DataFrame, n_keys: int) -> tuple[np.ndarray, np.ndarray]:
    """The noisy total of one source under many keys, with its released scales."""
    columns = tuple(Column(name=n, kind="integer", value_type="integer") for n in ("id", "x"))
    source = SourceSpec(path=None, format="frame", entities=("id",))
    totals, scales = [], []
    with scratch_directory() as place:
        con = confidential_connection(place, threads=1)
        ingested = ingest(con, open_source(con, source, frame), columns, ("id",))
        con.execute("ALTER TABLE rows RENAME TO kept")
        for number in range(n_keys):
            key = MasterKey(number.to_bytes(32, "little"))
            con.execute("CREATE TABLE rows AS FROM kept")
            entities = add_tokens(ingested, key, "1", ())
            draws = StickyDraws(key, "1", replace(PROFILES["standard"], max_rows=8))
            total = measure_one_way(ingested, entities, (), draws).one_way[""]
            con.execute("DROP TABLE IF EXISTS coded_rows")
            totals.append(int(total.n[0]))
            scales.append(int(total.scale[0]))
        con.close()
    return np.array(totals), np.array(scales)


def test_a_person_with_10_000_rows_moves_the_total_by_at_most_the_bound(scratch):
    """Everybody has 1 to 8 rows; of the 10,000 only 8 count, as declared."""
    rng = np.random.default_rng(3)
    ids = np.repeat(np.arange(300), rng.integers(1, 9, size=300))
    frame = pd.DataFrame({"id": ids, "x": ids % 5})
    giant = pd.DataFrame({"id": np.full(10_000, 999), "x": np.full(10_000, 1)})
    n_keys = 25
    before, _ = _totals(frame, n_keys)
    after, scale = _totals(pd.concat([frame, giant], ignore_index=True), n_keys)
    bound = 8 + 4 * NOISE_SD * scale * NOISE_SD  # both totals have noise of their own
    moved = np.abs(after - before)
    assert set(scale) == {8}  # as declared
    assert np.all(moved <= bound)
    assert moved.std() > 0
