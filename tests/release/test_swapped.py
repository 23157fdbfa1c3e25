"""Releases whose records exchanged values first: what they say of it, what they keep, and one that only says so."""

from __future__ import annotations

import json
from unittest import mock

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import ACCEPTED, counts, table_hashes, write_spec
from fixtures.swapped import errors_of

from engine.api.reading import read
from engine.errors import PrivacyError
from engine.evaluation.attacks.protocol import held
from engine.evaluation.data.reading import read_original, read_subject
from engine.evaluation.study import Study
from engine.release import build
from queries.release import open_release

CODE = {"kind": "category", "type": "integer"}
COLUMNS = {"id": {"kind": "integer"}, **dict.fromkeys(("area", "place", "job", "sex", "age"), CODE)}
TABLES = [("area", "place"), ("job", "place"), ("age", "job"), ("age", "sex"), ("place",)]
SWAP = {"columns": ["place"], "within": ["area"], "rare": ["job"], "rate": 0.1875}


def frame(people: int = 6_000) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    area = rng.integers(0, 3, people)
    place = 4 * area + rng.integers(0, 4, people)
    return pd.DataFrame(
        {
            "id": np.arange(people),
            "area": area,
            "place": place,
            "job": (place + rng.integers(0, 3, people)) % 7,
            "sex": rng.integers(0, 2, people),
            "age": rng.integers(0, 5, people),
        }
    )


def spec_in(folder, swap=SWAP, **more):
    source = folder / "people.parquet"
    if not source.exists():
        frame().to_parquet(source)
    privacy = ACCEPTED | ({} if swap is None else {"swap": swap})
    return write_spec(folder, source, COLUMNS, TABLES, entities=("id",), privacy=privacy, **more)


def built(folder, name="r.duckdb", swap=SWAP, **more):
    build(read(spec_in(folder, swap, **more)), folder / name, jobs=1)
    return folder / name


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    return built(tmp_path_factory.mktemp("swapped"))


def attacked(path):
    """A release beside the data as they are, and its cards."""
    original = read_original(path.parent / "people.parquet", Study(title=""))
    subject = read_subject(str(path), original, Study(title=""), "r")
    return held([subject], original, Study(title="")), subject.cards


def test_the_cards_of_touched_tables_and_the_notes_say_so_without_the_share(release):
    with duckdb.connect(str(release), read_only=True) as con:
        cards = dict(con.execute("SELECT columns::VARCHAR, card FROM catalog.tables").fetchall())
        notes = " ".join(n for (n,) in con.execute("SELECT note FROM catalog.notes").fetchall())
        (privacy,) = con.execute("SELECT privacy FROM catalog.release").fetchone()
    told = {names: json.loads(card)["swap"] for names, card in cards.items()}
    assert told.pop("[job, place]") == {"columns": ["place"], "within": ["area"]}
    assert not any(told.values())
    assert json.loads(privacy)["swap"] == {"columns": ["place"], "within": ["area"]}
    said = "Some records swapped their place with a partner that agrees in area"
    assert said in notes
    assert b"0.1875" not in release.read_bytes()
    assert b"18.75%" not in release.read_bytes()


def test_an_answer_and_a_report_say_so_where_they_are_touched(release):
    with open_release(release) as one:
        touched = one.sql("SELECT job, place, count(*) FROM data GROUP BY ALL")
        widened = one.sql("SELECT job, place, count(*) FROM data GROUP BY ALL", intervals=True)
        others = one.sql("SELECT age, sex, count(*) FROM data GROUP BY ALL")
    said = "Some records swapped their place with a partner that agrees in area"
    assert said in touched.source
    assert said in widened.source
    assert "swapped" not in others.source
    original = read_original(release.parent / "people.parquet", Study(title=""))
    assert any(
        said in note for note in read_subject(str(release), original, Study(title=""), "r").notes
    )


@pytest.mark.ci
def test_tables_that_it_does_not_touch_are_the_same_as_without(release, tmp_path):
    plain = built(tmp_path, swap=None)
    for names in (("area", "place"), ("age", "job"), ("age", "sex"), ("place",)):
        # The noise of a set of people moves with the people: counts of places need not be equal to the unit.
        same = counts(plain, *names) == counts(release, *names)
        assert same == ("place" not in names)
    truth = frame().groupby(["area", "place"]).size().to_dict()
    shown = counts(release, "area", "place")
    assert max(abs(shown.get(k, 0) - n) for k, n in truth.items()) <= 8


@pytest.mark.ci
def test_an_exchange_that_silently_did_nothing_is_caught(release, tmp_path):
    found = errors_of(*attacked(release))
    assert found.is_swapped
    assert found.untouched < 2
    with mock.patch("engine.source.opening.exchange", return_value=None):
        idle = built(tmp_path)
    found = errors_of(*attacked(idle))
    assert not found.is_swapped
    assert found.touched < 2


@pytest.mark.ci
def test_a_vintage_is_pinned_to_its_exchange(tmp_path):
    first = built(tmp_path)
    again = built(tmp_path, "again.duckdb", SWAP | {"publish_rate": True})
    assert table_hashes(first) == table_hashes(again)
    for swap in (None, SWAP | {"rate": 0.25}, SWAP | {"rare": ["age"]}):
        with pytest.raises(PrivacyError, match="the privacy parameters"):
            built(tmp_path, "other.duckdb", swap)


@pytest.mark.ci
def test_a_line_of_vintages_keeps_its_exchange(tmp_path):
    built(tmp_path)
    more = {"vintage": "2022", "release": {"previous": "2021"}}
    with pytest.raises(PrivacyError, match="the privacy parameters"):
        built(tmp_path, "next.duckdb", None, **more)
    after = built(tmp_path, "next.duckdb", **more)
    assert counts(after, "job", "place") == counts(tmp_path / "r.duckdb", "job", "place")
