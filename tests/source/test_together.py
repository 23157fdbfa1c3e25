"""Household and person number, site and patient: columns that name somebody together are recognised, others are not."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.detect import EXACTLY_TEN

from engine.schema import SourceSpec
from engine.source.detection.detect import detect
from engine.source.detection.determined import Table
from engine.source.detection.identifiers import named_together

FRAME = SourceSpec(path=None, format="frame")


def surveyed(group: str, number: str, *, rows_each: int = 1, coded=int) -> pd.DataFrame:
    """Groups of one to five people, each with so many rows."""
    rng = np.random.default_rng(4)
    rows = [
        (coded(group_no), number_no, rng.choice(list("NESW")), rng.choice(list("mf")))
        for group_no in range(1, 301)
        for number_no in range(1, rng.integers(1, 6) + 1)
    ]
    people = pd.DataFrame(rows, columns=[group, number, "region", "sex"])
    frame = people.loc[people.index.repeat(rows_each)].reset_index(drop=True)
    return frame.assign(
        visit=frame.groupby([group, number]).cumcount() + 1, score=rng.integers(0, 21, len(frame))
    )


def sites(group: str, number: str, *, coded=int) -> pd.DataFrame:
    """Forty sites that number their patients from one, three visits each."""
    rng = np.random.default_rng(5)
    people = [
        (s, p, rng.choice(["m", "f"])) for s in range(1, 41) for p in range(1, rng.integers(30, 60))
    ]
    rows = [
        (s, coded(p), visit, sex, rng.integers(0, 21))
        for s, p, sex in people
        for visit in (1, 2, 3)
    ]
    return pd.DataFrame(rows, columns=[group, number, "visit", "sex", "score"])


def named_in(frame: pd.DataFrame) -> tuple[str, ...] | None:
    with duckdb.connect() as con:
        con.register("given", frame)
        con.execute("CREATE TABLE t AS SELECT * FROM given")
        table = Table(con=con, name="t", columns={c: f'"{c}"' for c in frame})
        found = named_together(table, list(frame), EXACTLY_TEN)
    return found.columns if found is not None and found.is_sure else None


@pytest.mark.parametrize(
    ("group", "number"),
    [
        ("SERIAL", "PERNUM"),
        ("hh", "pno"),
        ("household_id", "person_no"),
        ("Haushaltsnummer", "lfd_nr"),
        ("menage", "numero_individu"),
        ("hogar", "miembro"),
        ("世帯番号", "個人番号"),
        ("номер_домохозяйства", "номер_человека"),
        ("νοικοκυριό", "άτομο"),
        ("أسرة", "فرد"),
        ("q7", "pernum"),
    ],
)
@pytest.mark.parametrize("rows_each", [1, 2])
def test_a_person_is_household_and_number(group, number, rows_each):
    frame = surveyed(group, number, rows_each=rows_each)
    assert named_in(frame) == (group, number)


@pytest.mark.parametrize(
    ("group", "number", "coded"),
    [
        ("site", "patient", int),
        ("centre", "subject_id", lambda p: f"S-{p:03d}"),
        ("Klinik", "Patientennummer", int),
        ("établissement", "n_patient", int),
        ("病院", "患者番号", str),
        ("school", "pupil", int),
    ],
)
def test_a_patient_is_site_and_number(group, number, coded):
    frame = sites(group, number, coded=coded)
    assert named_in(frame) == (group, number)
    assert named_in(frame.sample(frac=1, random_state=1)) == (group, number)


def test_what_is_taken_is_said_and_leaves_the_tables():
    found = detect(FRAME, surveyed("hh", "pno"), thresholds=EXACTLY_TEN)
    assert any('[["hh", "pno"], "hh"]' in remark for remark in found.remarks)
    assert found.max_rows == 1
    assert not {"hh", "pno"} & {*found.suspects}


def persons_and_waves() -> pd.DataFrame:
    return surveyed("person_id", "wave")


def patients_of_several_sites() -> pd.DataFrame:
    """A patient keeps the number at whatever site: by itself it names the person."""
    rng = np.random.default_rng(6)
    patient = np.repeat(np.arange(1, 501), 6)
    sex, born = rng.choice(["m", "f"], 501)[patient - 1], rng.integers(1930, 2000, 501)[patient - 1]
    return pd.DataFrame(
        {"site": rng.integers(1, 41, len(patient)), "patient": patient, "sex": sex, "born": born}
    )


def regions_by_month() -> pd.DataFrame:
    rng = np.random.default_rng(7)
    rows = [(r, m) for r in range(1, 81) for m in range(1, 13)]
    return pd.DataFrame(rows, columns=["region", "month"]).assign(n=rng.integers(0, 99, len(rows)))


def persons_with_ages() -> pd.DataFrame:
    frame = surveyed("hh", "person_age")
    return frame.assign(person_age=np.random.default_rng(8).integers(0, 91, len(frame)))


@pytest.mark.parametrize(
    "made", [persons_and_waves, patients_of_several_sites, regions_by_month, persons_with_ages]
)
def test_other_columns_are_not_taken_together(made):
    assert named_in(made()) is None
