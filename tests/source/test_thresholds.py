"""What detection decides depends on no single person: noisy thresholds, and what one person more or less changes."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.detect import Exactly, found
from fixtures.pipeline import write_spec
from scipy import stats

import engine
from engine.api.reading import read
from engine.errors import DataError, SpecError
from engine.key_files import new_key
from engine.release import build
from engine.schema import Column
from engine.source.detection import make_spec, spec_text
from engine.source.detection.column import look_at
from engine.source.detection.profile import Block
from engine.source.detection.thresholds import LEAST, MEAN, WORST_CHANCE, Thresholds

ALPHA = 1e-6
WEIGHT = {k: math.exp(-(k * k) / 8) for k in range(-18, 19)}
CHANCE = {MEAN + k: weight / sum(WEIGHT.values()) for k, weight in WEIGHT.items()}
"""Of each threshold, by theory: N(10, 2) in whole numbers."""


def secret(number: int) -> bytes:
    return number.to_bytes(32, "little")


def test_thresholds_are_what_theory_says():
    drawn = np.array([Thresholds(secret(n)).of("values", "v") for n in range(20_000)])
    assert drawn.min() >= LEAST
    for number in range(LEAST, 18):
        p = CHANCE[number] if number > LEAST else sum(v for k, v in CHANCE.items() if k <= LEAST)
        n = int((drawn == number).sum())
        assert stats.binomtest(n, len(drawn), p).pvalue > ALPHA
    assert max(CHANCE.values()) <= WORST_CHANCE


# --- one person more or less ---------------------------------------------------------------------------------


def people(cells, beside=()) -> pd.DataFrame:
    return pd.DataFrame({"v": pd.Series([*cells, *beside], dtype="str")})


COMMON = [str(n) for n in range(60)] * 2
CASES = {  # name: (cells of the others, cell of one person more, thresholds that can tell 9 from 10)
    "a value": (["a"] * 60 + ["b"] * 9, "b", [("values", "v", "")]),
    "a spelling of null": ([*COMMON, *["NA"] * 9], "NA", [("spelling", "v", "NA")]),
    "a kind": (
        [*COMMON, *["x"] * 9],
        "x",
        [
            ("form", "v", "not whole"),
            ("form", "v", "not number"),
            ("form", "v", "nearly numbers"),
            ("values", "v", ""),
        ],
    ),
    "a resolution": (
        [f"{n}.5" for n in range(60)] * 2 + ["1.125"] * 9,
        "1.125",
        [("resolution", "v", "digits"), ("form", "v", "not 1 digits")],
    ),
}
FAR = {
    "another number": (COMMON, "61"),
    "the first strange cell": (COMMON, "x"),
    "a far outlier": ([f"{n}.25" for n in range(60)] * 2, "99999999.875"),
    "a first blank": (["a", "b"] * 60, ""),
    # Rounded to one digit, 94 is 90 and 95 is 100.
    "one more spelling of null": ([*["a", "b"] * 13, *["NA"] * 94], "NA"),
    "a first new value": (["a", "b"] * 60, "c"),
    "a first day among times": (["2020-01-01 10:00:00"] * 120, "2020-01-02"),
}


class Remembering:
    """A connection that holds one column `v` and answers the same question once: the data never changes."""

    def __init__(self, cells) -> None:
        self._con = duckdb.connect()
        self._con.register("frame", people(cells))
        self._con.execute("CREATE TABLE source AS FROM frame")
        self._known: dict[str, list] = {}
        self.n_rows = len(cells)

    def execute(self, sql: str, _parameters=()):
        if sql not in self._known:
            self._known[sql] = self._con.execute(sql).fetchall()
        return SimpleNamespace(fetchall=lambda: self._known[sql])


def flips(cells, more, n_trials: int) -> list[int]:
    """Secrets under which one person more changes anything that is detected of the column."""
    without, with_ = Remembering(cells), Remembering([*cells, more])
    out = []
    for number in range(n_trials):
        thresholds = Thresholds(secret(number))
        one, other = (
            look_at(
                Block(
                    con=con,
                    thresholds=thresholds,
                    n_rows=con.n_rows,
                    names=("v",),
                    sql_type="VARCHAR",
                ),
                writings={},
            )["v"]
            for con in (without, with_)
        )
        out += [number] if one != other else []
    return out


def first(cases, n):
    """The first cases by default, all in the long run."""
    return [
        pytest.param(case, marks=[pytest.mark.slow] if place >= n else [])
        for place, case in enumerate(cases)
    ]


@pytest.mark.ci
@pytest.mark.parametrize("case", first(CASES, 1))
def test_one_person_more_changes_a_column_at_the_rate_of_theory(case):
    """1,000 trials."""
    cells, more, deciding = CASES[case]
    flipped = flips(cells, more, 1_000)
    able = [
        number
        for number in range(1_000)
        if any(Thresholds(secret(number)).of(*d) == 10 for d in deciding)
    ]
    assert flipped
    assert set(flipped) <= set(able)
    if len(deciding) == 1:
        assert flipped == able
        assert stats.binomtest(len(flipped), 1_000, CHANCE[10]).pvalue > ALPHA
    else:
        most = 1 - (1 - CHANCE[10]) ** len(deciding)
        assert stats.binomtest(len(flipped), 1_000, most, alternative="greater").pvalue > ALPHA


@pytest.mark.ci
@pytest.mark.parametrize("case", first(FAR, 2))
def test_far_from_every_threshold_one_person_changes_nothing(case):
    """1,000 trials."""
    assert flips(*FAR[case], 1_000) == []


@pytest.mark.ci
def test_nor_does_the_text_of_the_spec_change():
    """All far cases in one source, once with and once without a person who is the first of each."""
    cells = pd.DataFrame({name: pd.Series(some, dtype="str") for name, (some, _) in FAR.items()})
    more = pd.DataFrame({name: [one] for name, (_, one) in FAR.items()})
    for number in range(3):
        texts = {
            spec_text(found(frame, (), Thresholds(secret(number))))
            for frame in (cells, pd.concat([cells, more], ignore_index=True))
        }
        assert len(texts) == 1


def test_one_person_with_many_rows_counts_once():
    """40 strange cells of one person, who has 100 rows: under every threshold the column is what the others make it."""
    frame = pd.DataFrame({"v": COMMON, "who": range(120)})
    strange = pd.DataFrame({"v": [f"x{n}" for n in range(40)] * 2, "who": 999})
    whole = pd.concat([frame, strange], ignore_index=True)
    for number in (5, 10, 16):
        column = found(whole, ["who"], Exactly(number)).columns[0]
        assert (column.kind, column.value_type) == ("integer", "integer")
    assert found(whole[["v"]], (), Exactly(10)).columns[0].kind == "text"


# --- keys and marks ------------------------------------------------------------------------------------------


@pytest.mark.ci
def test_the_same_key_detects_the_same(tmp_path):
    new_key(tmp_path / "my.key")
    frame = people(["a"] * 120 + ["b"] * 10).assign(w=[*COMMON, *["NA"] * 10])
    specs = [make_spec(frame, tables=1, key=tmp_path / "my.key") for _ in range(3)]
    assert all(spec == specs[0] for spec in specs)
    vintages = {
        make_spec(frame, tables=1, key=tmp_path / "my.key", vintage=str(n)).columns
        for n in range(24)
    }
    assert (
        len(vintages) == 2
    )  # NA is a spelling of null, or not: one of both alone has a chance of 2^-23


@pytest.mark.ci
def test_a_release_says_what_nobody_reviewed(tmp_path):
    new_key(tmp_path / "my.key")
    frame = pd.DataFrame({"id": range(60), "a": ["x", "y"] * 30, "b": np.arange(60) / 4})
    given = {"tables": [["a"], ["b"]], "key": tmp_path / "my.key", "entities": ["id"]}
    out = tmp_path / "r.duckdb"
    with engine.build(frame, out=out, **given) as release:
        notes = [note for (note,) in release.sql("SELECT note FROM catalog.notes").rows]
    assert (
        "Detected in the data, not reviewed: max_rows (privacy); kind of a, b; resolution of b."
        in notes
    )
    columns = make_spec(frame, **given).columns
    reviewed = [replace(c, detected=()) for c in columns]
    with engine.build(frame, out=out, columns=reviewed, max_rows=1, force=True, **given) as release:
        notes = [note for (note,) in release.sql("SELECT note FROM catalog.notes").rows]
    assert not any("not reviewed" in note for note in notes)


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
