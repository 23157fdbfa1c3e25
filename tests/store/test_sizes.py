"""The writer of a release knows the limits of the reader: nothing is written that cannot be opened."""

from __future__ import annotations

import dataclasses

import pytest
from fixtures.release import (
    AGE,
    COLUMNS,
    HEADER,
    SEX,
    SUPPORTS,
    TOWN,
    build_release,
    make_card,
    make_table,
    stage,
)
from fixtures.tiny import tiny_release

import engine.store.staging
from engine.errors import DataError, SpecError, StoreError
from engine.schema import Universe
from engine.store import Staging, open_release
from engine.store import checks as sizes

LONG = "é" * 40_000
"""80,000 bytes."""
HUGE = Universe(column="SEX", values=("x" * 600_000,))


def column(given, **changes):
    new = dataclasses.replace(given, **changes)
    return tuple(new if c.name == given.name else c for c in COLUMNS)


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"title": LONG}, r"release\.title: .*80,000 bytes.*65,536"),
        ({"logical_name": "x" * 301}, r"release\.name: .*301 bytes.*300"),
        ({"vintage": "x" * 10_001}, r"release\.vintage: .*10,001 bytes"),
        ({"notes": ("short", LONG)}, r"release\.notes: .*80,000"),
        ({"privacy": {"accept_risk": "x" * 70_000}}, r"privacy: .*70,0"),
        ({"columns": column(AGE, label=LONG)}, r"columns\.AGE\.label: .*80,000"),
        ({"columns": column(TOWN, placeholder=LONG)}, r"columns\.TOWN\.placeholder: has"),
        ({"columns": column(SEX, nulls=(LONG,))}, r"columns\.SEX\.nulls: has"),
        ({"columns": column(SEX, labels=(("f", LONG),))}, r"columns\.SEX\.labels: has"),
        ({"columns": column(AGE, name="c" * 10_001)}, r"columns\.c+: .*10,001"),
        ({"columns": column(AGE, universe=HUGE)}, r"columns\.AGE\.universe: .*600,000"),
        ({"tables": (("AGE",),) * 100_001}, "tables: 100,001 .*100,000"),
    ],
)  # fmt: skip
def test_a_spec_that_no_release_can_hold_is_refused_before_anything_is_written(
    tmp_path, changes, place
):
    header = dataclasses.replace(HEADER, **changes)
    with pytest.raises(SpecError, match=place):
        Staging.open(tmp_path / "r.duckdb", header, build_id="1")
    assert list(tmp_path.iterdir()) == []


def test_what_just_fits_is_written_and_opened(tmp_path):
    just = "x" * 2**16
    header = dataclasses.replace(
        HEADER, title=just, notes=(just[:-100],), columns=column(AGE, label=just)
    )
    con, _ = open_release(build_release(tmp_path / "r.duckdb", header=header))
    assert con.execute("SELECT title FROM catalog.release").fetchall() == [(just,)]
    con.close()


def test_a_released_value_that_is_too_long_is_refused_without_telling_it(tmp_path):
    support = dataclasses.replace(SUPPORTS["TOWN"], values={0: "Bath", 1: LONG})
    with Staging.open(tmp_path / "r.duckdb", HEADER, build_id="1") as staging:
        with pytest.raises(DataError, match=r"column 'TOWN': .*65,536 bytes") as refused:
            staging.put_support(support)
    assert "éé" not in str(refused.value)


def test_a_card_that_is_too_long_is_refused(tmp_path):
    table = make_table(("AGE",))
    card = dataclasses.replace(make_card(table), profile="x" * 70_000)
    with Staging.open(tmp_path / "r.duckdb", HEADER, build_id="1") as staging:
        staging.put_support(SUPPORTS["AGE"])
        with pytest.raises(StoreError, match=r"table AGE: its card .*7\d,\d+ bytes"):
            staging.put_table(table, card)


def test_a_catalogue_of_too_much_text_is_refused_before_it_takes_the_place(tmp_path, monkeypatch):
    path = tiny_release(tmp_path / "r.duckdb")
    before = path.read_bytes()
    monkeypatch.setattr(sizes, "MOST_ALL", 5000)
    monkeypatch.setattr(sizes, "MOST_EVER", 5000)
    header = dataclasses.replace(HEADER, title="Another")
    with Staging.open(path, header, build_id="2", force=True) as staging:
        stage(staging, header, SUPPORTS)
        with pytest.raises(StoreError, match="at most 0 MB"):
            staging.finish()
    assert path.read_bytes() == before


def test_what_is_counted_is_what_the_reader_counts(tmp_path, monkeypatch):
    counted = []
    monkeypatch.setattr(
        engine.store.staging,
        "check_total_text",
        lambda con, *_: counted.append(sizes.bytes_of_texts(con)),
    )
    con, _ = open_release(build_release(tmp_path / "r.duckdb"))
    assert counted == [sizes.bytes_of_texts(con)]
    con.close()
