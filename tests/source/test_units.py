"""Which rows count, chosen once: within all bounds, whatever the order of rows, and the entity's own affair."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import KEY

from engine.errors import SpecError
from engine.keys import MasterKey
from engine.schema import Column, SourceSpec
from engine.source import open_source, scratch_directory
from engine.source.detection.thresholds import Thresholds
from engine.source.entities import ROWS_WITH_TOKENS, add_tokens
from engine.source.ingest import ingest
from engine.source.scratch import confidential_connection
from engine.source.units import choose_rows, one_row_each, with_few_values
from engine.spec import spec_of

SECRET = bytes(range(32))
COLUMNS = (
    Column(name="id", kind="integer", value_type="integer"),
    Column(name="ward", kind="category", value_type="text"),
    Column(name="day", kind="integer", value_type="integer"),
)
SOURCE = SourceSpec(path=None, format="frame", entities=("id",))


def visits(n: int = 400, seed: int = 3) -> pd.DataFrame:
    """Visits of people of whom some have very many."""
    rng = np.random.default_rng(seed)
    who = np.minimum(rng.geometric(0.08, n), 12)
    return pd.DataFrame(
        {"id": who, "ward": rng.choice(["a", "b", "c"], n, p=[0.7, 0.2, 0.1]), "day": rng.integers(0, 30, n)}
    )  # fmt: skip


class Opened:
    """An encoded source, until it is closed."""

    def __init__(self, frame: pd.DataFrame, named: tuple[str, ...] = ("id",)) -> None:
        self._place = scratch_directory()
        scratch = self._place.__enter__()
        self.con = confidential_connection(scratch, on_disk=False, memory_limit="1GB")
        source = open_source(self.con, replace(SOURCE, entities=named), frame)
        columns = tuple(Column(name=n, kind="integer", value_type="integer") for n in named[1:])
        self.ingested = ingest(self.con, source, (*COLUMNS, *columns), named)
        self.entities = add_tokens(self.ingested, MasterKey(KEY), "1", ())

    def rows(self) -> pd.DataFrame:
        """What is counted, in words, sorted."""
        ids = [value for chunk in self.ingested.entity_ids(0) for value in chunk]
        wards = self.ingested.dictionaries["ward"]
        rows = self.con.execute(f"SELECT * FROM {ROWS_WITH_TOKENS}").df()
        names = self.ingested.sql_names
        out = pd.DataFrame(
            {
                "id": [ids[e] for e in rows["e0"]],
                "ward": [wards[c] for c in rows[names["ward"]]],
                "day": rows[names["day"]],
            }
        )
        return out.sort_values(["id", "ward", "day"], ignore_index=True)

    def close(self) -> None:
        """Sweep."""
        self.con.close()
        self._place.__exit__(None, None, None)


def chosen(frame: pd.DataFrame, most: int, of_values: dict[str, int], secret=SECRET):
    """The rows that count."""
    opened = Opened(frame)
    ingested = choose_rows(opened.ingested, opened.entities, most, of_values, secret)
    rows = opened.rows()
    opened.close()
    assert ingested.n_rows == len(rows)
    return rows


def test_no_bound_is_passed_and_nobody_within_them_loses():
    frame = visits()
    rows = chosen(frame, 16, {"ward": 8, "day": 2})
    assert rows.groupby("id").size().max() == 16
    assert rows.groupby(["id", "ward"]).size().max() == 8
    assert rows.groupby(["id", "day"]).size().max() == 2
    sizes = frame.groupby("id").size()
    few = frame[frame["id"].isin(sizes[sizes <= 2].index)]
    kept = rows[rows["id"].isin(few["id"])]
    pd.testing.assert_frame_equal(
        kept.reset_index(drop=True),
        few.sort_values(["id", "ward", "day"], ignore_index=True),
        check_dtype=False,
    )


def test_the_order_of_rows_does_not_matter_and_the_key_does():
    frame = visits()
    rows = chosen(frame, 8, {"ward": 4})
    again = chosen(frame.sample(frac=1, random_state=1), 8, {"ward": 4})
    pd.testing.assert_frame_equal(rows, again)
    assert not rows.equals(chosen(frame, 8, {"ward": 4}, bytes(32)))


@pytest.mark.parametrize("is_row_each", [False, True])
def test_the_order_of_rows_does_not_matter_with_two_kinds_of_entities(is_row_each):
    """Before, rows that differ in the other kind only were numbered as they came: each order was a fresh look."""
    rng = np.random.default_rng(4)
    frame = visits().assign(day=1)
    frame["house"] = np.arange(len(frame)) if is_row_each else rng.integers(0, 150, len(frame))

    def kept(rows: pd.DataFrame) -> list[tuple[int, int]]:
        opened = Opened(rows, ("id", "house"))
        choose_rows(opened.ingested, opened.entities, 4, {}, SECRET)
        ids = [v for chunk in opened.ingested.entity_ids(0) for v in chunk]
        house = "l1_0"  # of rows with a house of their own its token is known, no number
        if not is_row_each:
            house = "v"
            opened.con.execute(
                f"ALTER TABLE {ROWS_WITH_TOKENS} ADD COLUMN v BIGINT; UPDATE {ROWS_WITH_TOKENS} "
                f"SET v = value FROM entity_1 WHERE entity_1.id = e1"
            )
        found = opened.con.execute(f"SELECT e0, {house} FROM {ROWS_WITH_TOKENS}").fetchall()
        opened.close()
        return sorted((ids[one], other) for one, other in found)

    first = kept(frame)
    assert len(first) < len(frame)
    for seed in (1, 2):
        assert kept(frame.sample(frac=1, random_state=seed)) == first


def test_which_values_count_hangs_on_nothing_that_stands_beside_them():
    """Before, each set of tables drew other wards of the same people: fresh noise for the asking."""
    frame = visits().assign(day=lambda f: f["id"] * 2)
    found = []
    for used in ({"ward"}, {"ward", "day"}):
        opened = Opened(frame)
        thresholds = Thresholds(SECRET)
        ingested, entity = one_row_each(
            opened.ingested, opened.entities[0], used, "ward", thresholds
        )
        with_few_values(ingested, entity, "ward", 1, SECRET)
        ward = ingested.sql_names["ward"]
        found.append(
            sorted(opened.con.execute(f"SELECT e0, {ward} FROM {ROWS_WITH_TOKENS}").fetchall())
        )
        opened.close()
    assert found[0] == found[1]


def wrong(entities: tuple[str, ...] = ("id",), tables=None, **release) -> str:
    """What is said of a spec."""
    with pytest.raises(SpecError) as caught:
        spec_of(
            release={"vintage": "1", "key": "my.key", **release},
            source=SourceSpec(path=None, format="frame", entities=entities),
            columns=(
                *COLUMNS,
                *(Column(name=n, kind="integer", value_type="integer") for n in "xyz"),
            ),
            tables=tables or [{"columns": ["day"]}],
            privacy={"max_rows": 4},
            check_key=False,
        )
    return str(caught.value)


@pytest.mark.parametrize(
    ("release", "said"),
    [
        ({"most": 4}, r'release\.most: .*count = "entities"'),
        ({"count": "people"}, r"release\.count: .*'rows' or 'entities', not 'people'"),
        ({"count": "entities", "each": "wart"}, "'wart'.*'ward'"),
        ({"count": "entities", "each": "ward", "most": 3}, r"release\.most: .*power of two"),
        ({"count": "entities", "entities": ()}, r'release\.count: "entities" .*source\.entities'),
        ({"count": "entities", "mode": "dp"}, r"release\.count: mode dp"),
        (
            {"count": "entities", "each": "ward", "tables": [{"columns": ["day", "x", "y", "z"]}]},
            r"day, ward, x, y, z has 5 columns .*release\.each.* 4",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_what_is_counted(release, said):
    assert re.search(said, wrong(**release))
