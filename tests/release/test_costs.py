"""What a build costs, told before it is built: the same whether all tables are measured or one in ten."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from fixtures.pipeline import ACCEPTED, CENSUS, write_spec

import engine
from engine.errors import SpecError


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
    assert "what the release would disclose is not looked at" in repr(found)


def test_what_a_placeholder_hides_is_suppressed(tmp_path):
    """Half of the people have a street of their own."""
    streets = [f"street {n if n < 1_000 else n % 2}" for n in range(2_000)]
    sex = ["m", "f"] * 1_000
    pd.DataFrame({"street": streets, "sex": sex}).to_parquet(tmp_path / "p.parquet")
    columns = {
        "street": {"kind": "text", "release": "simulated"},
        "sex": {"kind": "category", "type": "text"},
    }
    tables = [("street",), ("sex",), ("sex", "street")]
    path = write_spec(tmp_path, tmp_path / "p.parquet", columns, tables, entities=())
    shares = {t.columns: t.suppressed_share for t in engine.plan(path).tables}
    assert shares["street",] == pytest.approx(0.5, abs=0.02)
    assert shares["sex", "street"] == pytest.approx(0.5, abs=0.02)
    assert shares["sex",] < 0.02


def test_mode_dp_is_planned_without_data(tmp_path, census):
    path = write_spec(
        tmp_path, census / "people.parquet", {c: CENSUS[c] for c in ("person_id", "sex")}, [["sex"]],
        release={"mode": "dp"},
    )  # fmt: skip
    path.write_text(path.read_text("utf-8") + "[dp]\nepsilon = 1.0\n", "utf-8")
    with pytest.raises(SpecError, match="mode dp: "):
        engine.estimate(path)
