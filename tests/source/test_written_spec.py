from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from fixtures.detect import accepted, many, one
from fixtures.measure import KEY
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import DataError, SpecError
from engine.key_files import new_key
from engine.schema import Column, SourceSpec
from engine.source import open_source
from engine.source.detection import detect_source, make_spec, spec_text
from engine.source.ingest import ingest


@pytest.mark.ci
def test_the_written_spec_is_accepted_and_reads_the_data(tmp_path, monkeypatch):
    names = [
        "a b",
        "SELECT",
        'he said "hi"',
        "it's",
        "x.y",
        "größe",
        "new\nline",
        "\x7f",
        "{n}",
        "#",
    ]
    frame = pd.DataFrame({name: many("a", "b\tc", 'd"e\\') for name in names})
    frame["day"] = "2020-01-01"
    frame["real"] = [n / 8 for n in range(len(frame))]
    frame["cent"] = [f"{n}.25" for n in range(len(frame))]
    frame["whole"] = range(len(frame))
    frame["person_id"] = range(len(frame))
    (tmp_path / "in").mkdir()
    frame.to_csv(tmp_path / "in" / "d.csv", index=False)
    monkeypatch.chdir(tmp_path)
    detection = detect_source("in/d.csv", key=KEY)
    spec = accepted(tmp_path, detection)
    assert spec.source.entities == ("person_id",)
    assert [c.name for c in spec.columns] == sorted(frame.columns)
    assert {c.name: c for c in spec.columns} == {c.name: c for c in detection.columns}
    assert len(spec.tables) == 14 + 14 * 13 // 2
    assert Path(spec.source.path).resolve() == (tmp_path / "in" / "d.csv").resolve()
    con = duckdb.connect()
    ingested = ingest(con, open_source(con, spec.source), spec.columns, spec.source.entities)
    assert ingested.n_rows == len(frame)
    con.close()


def test_rare_values_are_in_no_written_spec(tmp_path):
    frame = pd.DataFrame(
        {
            "text": ["common"] * 50 + [f"CANARY{n}" for n in range(4)],
            "rare": ["x"] * 50 + ["CANARYCANARY"] * 4,
            "num": [str(n % 30) for n in range(50)] + ["98765432"] * 4,
            "real": [0.5 * n for n in range(53)] + [98765432.125],
            "day": ["2020-01-01"] * 50 + ["1777-07-07"] * 4,
        }
    )
    frame.to_csv(tmp_path / "d.csv", index=False)
    detection = detect_source(tmp_path / "d.csv", key=KEY)
    text = spec_text(detection) + repr(detection.values) + repr(detection.column_remarks)
    for canary in ("CANARY", "98765432", "1777"):
        assert canary not in text


@pytest.mark.ci
@settings(max_examples=15)
@given(
    st.lists(
        st.sampled_from(
            ["", "N", "NA", "1", "2.5", "-3", "1e5", "x", "2020-01-01", "true", "01", "inf", "nan"]
        ),
        min_size=1,
        max_size=30,
    )
)
def test_whatever_is_detected_fits_but_for_what_few_have(cells):
    """What fewer than ten rows show is refused where it does not fit; a category of texts holds anything."""
    column, _ = one(cells)
    con = duckdb.connect()
    frame = pd.DataFrame({"v": pd.Series(cells, dtype="str")})
    source = open_source(con, SourceSpec(path=None, format="frame"), frame)
    try:
        assert ingest(con, source, (column,)).n_rows == len(cells)
    except DataError:
        assert column.value_type != "text"
        assert len(set(cells)) > 1
    finally:
        con.close()


def test_specs_from_python(tmp_path):
    new_key(tmp_path / "my.key")
    frame = pd.DataFrame({"age": range(50), "sex": ["m", "f"] * 25, "pid": range(50)})
    sex = Column(name="sex", kind="category", value_type="text", domain=("f", "m"), public=True)
    spec = make_spec(
        frame,
        tables=[["sex", "age"], ["sex"]],
        key=tmp_path / "my.key",
        entities=["pid"],
        columns=[sex],
        title="T",
        notes=["n"],
        privacy="strict",
    )
    assert spec.tables == (("sex",), ("age", "sex"))
    assert spec.source.format == "frame"
    assert spec.source.path is None
    assert spec.privacy.profile == "strict"
    assert {c.name: c.kind for c in spec.columns} == {
        "age": "integer",
        "sex": "category",
        "pid": "integer",
    }
    assert spec.columns[2] == replace(sex, nulls=())  # a frame tells null from text
    frame.to_csv(tmp_path / "d.csv", index=False)
    of_file = make_spec(
        tmp_path / "d.csv",
        tables=2,
        key=tmp_path / "my.key",
        entities=["pid"],
        columns={"sex": sex},
    )
    assert of_file.tables == (("age", "sex"),)
    assert of_file.source.path == str(tmp_path / "d.csv")
    assert of_file.columns[2].public


def with_identifiers(n=300):
    return pd.DataFrame(
        {
            "person_id": range(n),
            "householdId": [f"h{i // 2}" for i in range(n)],
            "age": [i % 60 for i in range(n)],
            "sex": ["m", "f"] * (n // 2),
        }
    )


@pytest.mark.ci
def test_an_identifier_is_published_only_if_declared(tmp_path):
    new_key(tmp_path / "my.key")
    frame, key = with_identifiers(), tmp_path / "my.key"
    tables = [["age", "person_id"], ["householdId"], ["sex"]]
    with pytest.raises(SpecError) as caught:
        make_spec(frame, tables=tables, key=key, entities=[])
    assert len(caught.value.problems) == 2
    for problem, name in zip(caught.value.problems, ("person_id", "householdId"), strict=True):
        assert problem.startswith(f"tables: {name} looks like an identifier")
        assert "entities=" in problem
        assert "columns=" in problem
    declared = Column(name="person_id", kind="integer", value_type="integer")
    for tables in (1, [["person_id"], ["age"], ["sex"]]):
        spec = make_spec(frame, tables=tables, key=key, columns=[declared], entities=[])
        assert spec.tables == (("age",), ("person_id",), ("sex",))
