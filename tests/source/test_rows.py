"""How many rows of one entity are to count: what `init` proposes, and what a build does without it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fixtures.detect import Exactly, found
from fixtures.pipeline import write_spec

import engine
from engine.api.reading import read
from engine.errors import DataError, SpecError
from engine.key_files import new_key
from engine.release import build
from engine.schema import Column
from engine.source.detection import make_spec


def of_entities(*n_rows: int) -> pd.DataFrame:
    """So many rows of each entity: `day` differs within an entity, `ward` does not."""
    who = np.repeat(np.arange(len(n_rows)), n_rows)
    day = np.concatenate([np.arange(n) for n in n_rows])
    return pd.DataFrame({"id": who, "day": day, "ward": "w"})


def bounds(detection) -> tuple:
    """The bound of all rows, then those of columns that have their own."""
    own = {c.name: c.max_rows for c in detection.columns if c.max_rows is not None}
    return detection.max_rows, own


@pytest.mark.ci
@pytest.mark.parametrize(
    ("n_rows", "expected"),
    [
        ([1] * 30, (1, {})),
        ([1] * 30 + [2] * 9, (1, {})),
        ([1] * 30 + [2] * 10, (2, {"day": 1})),
        ([3] * 40, (4, {"day": 1})),
        ([5] * 10 + [4] * 30, (8, {"day": 1})),
        ([5] * 9 + [4] * 30, (4, {"day": 1})),
        ([900] * 9 + [4] * 30, (4, {"day": 1})),
        ([1], (1, {})),
    ],
)
def test_the_bound_that_fewer_than_ten_entities_exceed(n_rows, expected):
    assert bounds(found(of_entities(*n_rows), ["id"])) == expected


def in_wards(heavy: int, *, wards: int = 40) -> pd.DataFrame:
    """12 entities of one row in each ward, some of 64 rows in each, and 30 entities of 5 rows in every ward."""
    each = [(ward, n) for ward in range(wards) for n in [1] * 12 + [64] * heavy]
    alone = of_entities(*[n for _, n in each])
    alone["ward"] = np.repeat([ward for ward, _ in each], [n for _, n in each])
    others = of_entities(*[5 * wards] * 30).assign(ward=lambda f: f["day"] % wards)
    return pd.concat([alone, others.assign(id=others["id"] + len(each))], ignore_index=True)


@pytest.mark.parametrize(("heavy", "expected"), [(0, 8), (1, 64), (2, 64)])
def test_the_bound_of_a_value_cuts_little_over_all_values(heavy, expected):
    """One or two heavy entities a ward are below every threshold; in 40 wards they are 40 or 80 bounds that are cut."""
    assert bounds(found(in_wards(heavy), ["id"])) == (256, {"day": 1, "ward": expected})


@pytest.mark.ci
def test_one_person_more_changes_a_bound_by_chance_only():
    """9 or 10 entities above 4 rows: only a threshold of exactly 10 tells them apart, the others never."""
    nine, ten = (of_entities(*[5] * n, *[4] * 30) for n in (9, 10))
    for number in (5, 9, 10, 11, 16):
        one, other = (bounds(found(rows, ["id"], Exactly(number)))[0] for rows in (nine, ten))
        assert (one, other) == ((4, 8) if number == 10 else (8, 8) if number < 10 else (4, 4))


# --- without a bound -----------------------------------------------------------------------------------------

COLUMNS = {"id": {"kind": "integer"}, "day": {"kind": "integer"}, "ward": {"kind": "category"}}


@pytest.mark.ci
def test_a_spec_without_a_bound_is_refused_where_an_entity_has_two_rows(tmp_path):
    of_entities(*[1] * 40).to_parquet(tmp_path / "one.parquet")
    of_entities(*[1] * 40, 2).to_parquet(tmp_path / "two.parquet")
    tables = [("ward",)]
    spec = write_spec(tmp_path, "one.parquet", COLUMNS, tables, entities=("id",))
    build(read(spec), tmp_path / "r.duckdb", force=True)
    args = (tmp_path, "two.parquet", COLUMNS, tables)
    spec = write_spec(*args, entities=("id",), vintage="2")
    with pytest.raises(DataError) as caught:
        build(read(spec), tmp_path / "r.duckdb", force=True)
    assert "column 'id': names entities with several rows" in str(caught.value)
    assert "max_rows = 16" in str(caught.value)
    spec = write_spec(*args, entities=("id",), vintage="2", privacy={"max_rows": 1})
    build(read(spec), tmp_path / "r.duckdb", force=True)


@pytest.mark.ci
def test_a_frame_gets_the_detected_bound_or_the_given_one(tmp_path):
    new_key(tmp_path / "my.key")
    given = {"tables": [["day"]], "key": tmp_path / "my.key", "entities": ["id"]}
    frame = of_entities(*[3] * 60)
    spec = make_spec(frame, **given)
    assert (spec.privacy.max_rows, spec.privacy.detected) == (4, ("max_rows",))
    spec = make_spec(frame, **given, max_rows=2)
    assert (spec.privacy.max_rows, spec.privacy.detected) == (2, ())
    rows = make_spec(
        frame,
        **given | {"entities": []},
        columns=[Column(name="id", kind="integer", value_type="integer")],
    )
    assert rows.privacy.max_rows is None
    assert all(c.max_rows is None for c in rows.columns)
    with pytest.raises(SpecError, match="power of two"):
        make_spec(frame, **given, max_rows=3)
    with engine.build(frame, out=tmp_path / "r.duckdb", **given) as release:
        assert release.card("day").scale == 4
    with pytest.raises(SpecError, match="max_rows: "):
        engine.build(spec, out=tmp_path / "s.duckdb", max_rows=4)
