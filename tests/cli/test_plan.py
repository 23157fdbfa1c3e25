"""`tablepack plan` with many tables: the worst first, the rest summarised, all on request."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import ACCEPTED, CENSUS, table_hashes, tablepack, write_spec

import engine
from engine.api import build
from engine.schema import Column, Resolution

NAMES = [name for name in CENSUS if name != "person_id"]
PAIRS = [(a, b) for at, a in enumerate(NAMES) for b in NAMES[at + 1 :]][:24]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, census):
    place = tmp_path_factory.mktemp("plan")
    tables = [*PAIRS, ("age",), ("age", "region", "sex")]
    write_spec(place, census / "people.parquet", CENSUS, tables, privacy=ACCEPTED)
    return place


@pytest.fixture(scope="module")
def planned(folder):
    """The plan of the folder's spec, measured once for all tests."""
    return build.plan(build.read(folder / "release.toml"))


@pytest.fixture
def plan(folder, planned, monkeypatch):
    monkeypatch.setattr(build, "plan", lambda *_, **__: planned)
    return lambda *words: tablepack("plan", "release.toml", *words, cwd=folder)


def shares(text: str) -> list[float]:
    """Suppressed shares of the tables listed."""
    cells = [line.split("│") for line in text.split("columns ┃")[0].splitlines() if "│" in line]
    return [float(row[2].strip(" %")) for row in cells]


def test_the_worst_come_first_and_the_rest_is_summed_up(plan, planned):
    said = plan().stdout
    shown = shares(said)
    assert len(shown) == 20
    assert shown == sorted(shown, reverse=True)
    assert shown[0] == pytest.approx(
        100 * max(t.suppressed_share for t in planned.published), abs=0.05
    )
    assert "... and 6 more tables" in said
    by_width = [line.split("│") for line in said.split("columns ┃")[1].splitlines() if "│" in line]
    assert [(row[0].strip(), row[1].strip()) for row in by_width] == [
        ("1", "1"),
        ("2", "24"),
        ("3", "1"),
    ]
    cells = sum(int(row[2].replace(",", "")) for row in by_width)
    assert cells == sum(t.cells for t in planned.published)
    assert "26 tables (" in said


STATEMENTS = """SELECT age, sex, count(*) FROM data GROUP BY ALL;
SELECT region, age, sex, count(*) FROM data GROUP BY ALL;
SELECT sex, count(*) FROM data GROUP BY sex;
SELECT count(*) FROM data WHERE sex = 'Female' AND age > 30;
DROP TABLE data;
"""


@pytest.fixture(scope="module")
def asked(tmp_path_factory, census):
    """A folder with a spec whose tables are those of a file of statements."""
    place = tmp_path_factory.mktemp("asked")
    (place / "queries.sql").write_text(STATEMENTS)
    path = write_spec(place, census / "people.parquet", CENSUS, [("income",)], privacy=ACCEPTED)
    path.write_text(path.read_text() + '\n[[tables]]\nfile = "queries.sql"\n')
    return place


@pytest.mark.ci
def test_plan_and_build_agree_on_the_tables_of_a_workload(asked):
    done = tablepack("plan", "release.toml", "--json", cwd=asked)
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    planned = {tuple(t["columns"]) for t in plan["tables"] if t["published"]}
    assert planned == {("income",), ("sex",), ("age", "region", "sex")}
    built = tablepack("build", "release.toml", "-o", "r.duckdb", cwd=asked)
    assert built.returncode == 0, built.stderr
    assert "1 statement of the workload" in built.stderr
    assert set(table_hashes(asked / "r.duckdb")) == planned
    with engine.open(asked / "r.duckdb") as release:
        statements = STATEMENTS.split(";\n")[:4]
        for one in plan["workload"]["asked"]:
            for _, line in one["lines"]:
                table = release.explain(statements[line - 1]).table
                assert list(table) in one["answered_from"]
    assert sorted(line for one in plan["workload"]["asked"] for _, line in one["lines"]) == [
        *range(1, 5)
    ]


def test_a_warning_of_a_fine_resolution_says_what_the_next_two_would_show(tmp_path):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {"cost": np.exp(rng.normal(7, 1.2, 4_000)).round(2), "sex": rng.choice(["f", "m"], 4_000)}
    )
    engine.new_key(tmp_path / "k.key")

    def planned(resolution):
        column = Column(name="cost", kind="real", value_type="real", resolution=resolution)
        given = {"tables": [["cost", "sex"]], "key": tmp_path / "k.key", "entities": []}
        plan = build.plan(frame, columns=[column], privacy=ACCEPTED, **given)
        table = next(t for t in plan.tables if t.columns == ("cost", "sex"))
        return table.suppressed_share, plan.warnings

    share, warnings = planned(Resolution(exponent=-1))
    (warning,) = [one for one in warnings if "cost, sex" in one]
    told = re.search(r"cost's resolution = 1 about (\d+)%, or 10 about (\d+)%", warning)
    assert told, warning
    assert share > 0.95
    for percent, exponent in zip(told.groups(), (0, 1), strict=True):
        real, _ = planned(Resolution(exponent=exponent))
        assert abs(int(percent) / 100 - real) <= 0.1


def test_a_plan_says_what_coarser_whole_numbers_and_dates_would_show(tmp_path):
    rng = np.random.default_rng(5)
    day = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 2_000, 3_000), unit="D")
    frame = pd.DataFrame({"day": day, "cents": np.exp(rng.normal(9, 1, 3_000)).astype(int)})
    engine.new_key(tmp_path / "k.key")

    def planned(of_day, of_cents):
        columns = [
            Column(name="day", kind="date", value_type="date", resolution=of_day),
            Column(name="cents", kind="integer", value_type="integer", resolution=of_cents),
        ]
        given = {"tables": [["day"], ["cents"]], "key": tmp_path / "k.key", "entities": []}
        plan = build.plan(frame, columns=columns, privacy=ACCEPTED, **given)
        return {t.columns: t.suppressed_share for t in plan.tables}, " ".join(plan.warnings)

    _, warnings = planned(None, None)
    week, month = re.search(
        r"day's resolution = \"week\" about (\d+)%, or \"month\" about (\d+)%", warnings
    ).groups()
    hundred = re.search(r"cents's resolution = 10 about \d+%, or 100 about (\d+)%", warnings)[1]
    for period, percent in ("week", week), ("month", month):
        shares, _ = planned(Resolution(period=period), Resolution(exponent=2))
        assert abs(int(percent) / 100 - shares["day",]) <= 0.1
        assert abs(int(hundred) / 100 - shares["cents",]) <= 0.1
