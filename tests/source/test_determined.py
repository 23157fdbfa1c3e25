"""Columns that determine each other are found: against a slow count, by hand, and whoever is in the data once more."""

from __future__ import annotations

from collections import defaultdict

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.detect import EXACTLY_TEN, Exactly, accepted, found
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.source.detection import detect_source
from engine.source.detection import determined as module
from engine.source.detection.determined import Table, copies, determined
from engine.source.detection.thresholds import Thresholds


def table_of(frame: pd.DataFrame, entities=()) -> Table:
    con = duckdb.connect()
    con.register("given", frame)
    con.execute("CREATE TABLE t AS SELECT * FROM given")
    columns = {name: f'"{name}"' for name in frame if name not in entities}
    return Table(con=con, name="t", columns=columns, entities=tuple(f'"{e}"' for e in entities))


def slowly(frame: pd.DataFrame, threshold: int, entities=()) -> list[tuple[str, str]]:
    """The same, row by row."""
    names = [name for name in frame if name not in entities]
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")

    def people(chosen) -> int:
        kinds = [len({row[e] for row in chosen}) for e in entities] or [len(chosen)]
        return min(kinds)

    def groups(name):
        out = defaultdict(list)
        for row in rows:
            out[row[name]].append(row)
        return out

    pairs = []
    for finer in names:
        for coarser in names:
            if finer == coarser:
                continue
            common = [own for own in groups(finer).values() if people(own) >= threshold]
            shared = people([row for own in common for row in own])
            usual = {}
            for value, own in groups(finer).items():
                by_value = defaultdict(list)
                for row in own:
                    by_value[row[coarser]].append(row)
                counts = {c: people(found) for c, found in by_value.items()}
                most = max(counts.values())
                # None last, as the database sorts it.
                usual[value] = min(
                    (c for c, n in counts.items() if n == most), key=lambda c: (c is None, c)
                )
            against = people([row for row in rows if row[coarser] != usual[row[finer]]])
            values = {v for v, own in groups(coarser).items() if people(own) >= threshold}
            if (
                shared - people(rows) // 2 >= threshold
                and len(values) > 1
                and against < threshold
                and values <= set(usual.values())
            ):
                pairs.append((finer, coarser))
    return pairs


@st.composite
def frames(draw):
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n = draw(st.integers(0, 90))
    a = rng.integers(0, draw(st.integers(1, 9)), n)
    frame = pd.DataFrame(
        {"a": a, "b": a // 3, "c": rng.permutation(20)[a], "d": rng.integers(0, 3, n)}
    )
    for name in ("b", "c"):
        wrong = rng.random(n) < draw(st.sampled_from([0, 0.02, 0.1]))
        frame.loc[wrong, name] = rng.integers(0, 20, int(wrong.sum()))
    frame["e"] = pd.array(frame.b, dtype="Int64")
    frame.loc[rng.random(n) < draw(st.sampled_from([0, 0.03])), "e"] = pd.NA
    return frame


@pytest.mark.ci
@given(frames(), st.integers(5, 12), st.sampled_from([3, 40, 4_000]))
@settings(max_examples=10, deadline=None)
def test_as_a_slow_count_has_it_whatever_the_sample(frame, threshold, sample):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SAMPLE", sample)
        assert sorted(determined(table_of(frame), Exactly(threshold))) == sorted(
            slowly(frame, threshold)
        )


@pytest.mark.ci
@given(frames(), st.integers(5, 8), st.integers(1, 4))
@settings(max_examples=8, deadline=None)
def test_entities_count_not_their_rows(frame, threshold, rows):
    frame["who"] = np.arange(len(frame)) // rows
    frame["home"] = np.arange(len(frame)) // (rows + 3)
    entities = ("who", "home")
    assert sorted(determined(table_of(frame, entities), Exactly(threshold))) == sorted(
        slowly(frame, threshold, entities)
    )


def coded(n=300, seed=0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 6, n)
    return pd.DataFrame({"fine": a, "coarse": a % 2, "copy": 9 - a, "other": rng.integers(0, 4, n)})


def test_found_by_hand():
    table = table_of(coded())
    assert set(determined(table, EXACTLY_TEN)) == {
        ("fine", "coarse"),
        ("fine", "copy"),
        ("copy", "fine"),
        ("copy", "coarse"),
    }
    assert copies(table, EXACTLY_TEN) == [("fine", "copy")]


def test_a_person_with_many_rows_decides_nothing():
    frame = pd.concat([coded(600)] * 1, ignore_index=True)[["fine", "copy"]].assign(who=range(600))
    heavy = pd.DataFrame({"fine": np.repeat(np.arange(6), 200), "copy": 0, "who": 999})
    many = pd.DataFrame({"fine": np.arange(100, 400), "copy": np.arange(100, 400), "who": 998})
    for more in (heavy, many):
        both = pd.concat([frame, more], ignore_index=True)
        assert copies(table_of(both, ("who",)), EXACTLY_TEN) == [("fine", "copy")]


@pytest.mark.ci
def test_one_person_more_changes_it_with_the_chance_of_one_threshold_only():
    """Where three people speak against it, no threshold is near; where nine do, some are."""
    flips = {3: 0, 9: 0}
    for against in flips:
        tables = []
        for more in (0, 1):
            frame = coded()[["fine", "coarse"]]
            frame.loc[: against + more - 1, "coarse"] = 1 - frame.coarse[: against + more]
            tables.append(table_of(frame))
        for number in range(120):
            thresholds = Thresholds(number.to_bytes(32, "little"))
            one, other = (("fine", "coarse") in determined(t, thresholds) for t in tables)
            flips[against] += one != other
    assert flips[3] == 0
    assert 0 < flips[9] <= 120 * 0.33  # .176 in theory: six standard deviations above it


def test_init_writes_what_it_found_and_marks_it(tmp_path):
    path = tmp_path / "coded.csv"
    coded().to_csv(path, index=False)
    detection = detect_source(path)
    by_name = {column.name: column for column in detection.columns}
    assert by_name["fine"].determines == ("coarse", "copy")
    assert by_name["coarse"].determines == ()
    assert "determines" in by_name["copy"].detected
    assert "determines" not in by_name["other"].detected
    spec = accepted(tmp_path, detection)
    assert {c.name: c.determines for c in spec.columns}["copy"] == ("fine", "coarse")


def test_what_values_as_written_determine_coarser_ones_need_not():
    """Years of age decide whether they are even, decades do not: a plan would refuse what `init` has written."""
    n = np.arange(400)
    frame = pd.DataFrame({"age": n % 50, "sex": np.where(n % 2, "m", "f")})
    coarser = 0
    for number in range(12):
        thresholds = Thresholds(number.to_bytes(32, "little"))
        age, _ = found(frame, thresholds=thresholds).columns
        assert age.resolution is None or age.determines == ()
        coarser += age.resolution is not None
    assert coarser
