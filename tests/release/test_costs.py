"""What a build costs, told before it is built: the same whether all tables are measured or one in ten."""

from __future__ import annotations

import json
import math

import pytest
from fixtures.pipeline import ACCEPTED, CENSUS, tablepack, write_spec

import engine
from engine.errors import SpecError
from engine.fit import cost_of, table_seconds

MEASURED = {  # buckets of all tables, of the largest; tables, rows; seconds and megabytes that a build took
    "demo": (71_612, 7_262, 56, 20_002, False, 3.6, 443),
    "SD2011": (54_163, 2_417, 142, 5_000, False, 4.0, 400),
    "NIST, 438 tables": (1_138_294, 14_237, 472, 27_253, False, 32.0, 615),
    "100,000 stays": (267_093, 31_514, 27, 99_626, True, 9.3, 595),
}


@pytest.mark.parametrize("name", MEASURED)
def test_the_model_is_within_a_factor_of_two_of_what_was_measured(name):
    buckets, largest, tables, rows, is_paired, seconds, megabytes = MEASURED[name]
    sizes = [largest] + [(buckets - largest) / (tables - 1)] * (tables - 1)
    cost = cost_of(sizes, rows=rows, is_paired=is_paired)
    assert seconds / 2 <= cost.seconds <= seconds * 2
    assert megabytes / 2 <= cost.megabytes <= megabytes * 2
    assert table_seconds(1_000) < cost.seconds


FINE = {  # buckets of all tables and of fine ones, how many each, largest other; rows, seconds, megabytes (two jobs)
    "a hospital of 100,000 stays": (1_646_193, 1_186_925, 78, 46, 33_546, 100_000, 19.0, 1_141),
}


@pytest.mark.parametrize("name", FINE)
def test_fine_tables_are_within_a_factor_of_two_too(name):
    buckets, of_fine, tables, n_fine, largest, rows, seconds, megabytes = FINE[name]
    fine = [of_fine / n_fine] * n_fine
    others = [(buckets - of_fine - largest) / (tables - n_fine - 1)] * (tables - n_fine - 1)
    sizes = [largest, *others, *fine]
    cost = cost_of(sizes, rows=rows, is_paired=False, fine=fine)
    assert seconds / 2 <= cost.seconds <= seconds * 2
    assert megabytes / 2 <= cost.megabytes <= megabytes * 2
    assert cost.seconds < cost_of(sizes, rows=rows, is_paired=False).seconds
    assert table_seconds(1_000, fine_rows=9_000) > table_seconds(1_000, fine_rows=1_000)


@pytest.fixture(scope="module")
def spec(tmp_path_factory, census):
    """Every pair and triple of six columns."""
    folder = tmp_path_factory.mktemp("costs")
    names = ("region", "age", "sex", "education", "income", "carer")
    columns = {name: CENSUS[name] for name in ("person_id", *names)}
    path = write_spec(folder, census / "people.parquet", columns, [["age"]], privacy=ACCEPTED)
    path.write_text(path.read_text("utf-8") + "[[tables]]\nall = 2\n[[tables]]\nall = 3\n", "utf-8")
    return path


def test_an_estimate_is_near_the_plan_and_measures_less(spec):
    plan, found = engine.plan(spec), engine.estimate(spec)
    assert found.rows == plan.rows
    assert found.tables == len(plan.tables)
    assert found.measured < 20
    assert abs(math.log2(found.cost.seconds / plan.cost.seconds)) < 1
    assert abs(math.log2(found.cost.megabytes / plan.cost.megabytes)) < 1
    assert plan.seconds == plan.cost.seconds
    assert "MB to build" in repr(plan)
    assert "what the release would give away is not looked at" in repr(found)


def test_the_command_says_it(spec):
    done = tablepack("plan", spec, "--quick", "--json", cwd=spec.parent)
    told = json.loads(done.stdout)
    assert told == engine.estimate(spec).as_dict()
    done = tablepack("plan", spec, "--quick", cwd=spec.parent)
    assert "s of one core" in done.stdout
    assert not list(spec.parent.glob("*.journal"))


@pytest.mark.parametrize("shown", [("--all",), ("--top", "3")])
def test_a_quick_plan_shows_no_tables(spec, shown):
    done = tablepack("plan", spec, "--quick", *shown, cwd=spec.parent)
    assert done.returncode == 2
    assert "--quick shows no tables" in done.stderr


def test_mode_dp_is_planned_without_data(tmp_path, census):
    path = write_spec(
        tmp_path, census / "people.parquet", {c: CENSUS[c] for c in ("person_id", "sex")}, [["sex"]],
        release={"mode": "dp"},
    )  # fmt: skip
    path.write_text(path.read_text("utf-8") + "[dp]\nepsilon = 1.0\n", "utf-8")
    with pytest.raises(SpecError, match="mode dp: "):
        engine.estimate(path)
