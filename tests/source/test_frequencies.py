"""Tables of frequencies are not taken for microdata; values that differ by blanks or case, and bands, are told."""

from __future__ import annotations

import itertools
import random

import pandas as pd
import pytest
from fixtures.detect import accepted, found
from fixtures.source import connection

from engine.errors import DataError, SpecError
from engine.schema import SourceSpec
from engine.source import open_source
from engine.source.detection import detect_source

SIDES = ("N", "S", "E", "W"), ("f", "m"), ("0-4", "5-9", "10-14", "15+")


def frequencies(name="n"):
    r = random.Random(1)
    lines = [[*line, r.randint(0, 60)] for line in itertools.product(*SIDES) if r.random() < 0.9]
    return pd.DataFrame(lines, columns=["region", "sex", "age", name])


@pytest.mark.parametrize("name", ["n", "Count", "freq", "Anzahl", "Häufigkeit", "n_obs"])
def test_a_table_of_frequencies_is_refused(name):
    with pytest.raises(DataError, match="table of frequencies"):
        found(frequencies(name))


@pytest.mark.ci
def test_microdata_with_a_column_of_such_a_name_are_not():
    r = random.Random(2)
    people = pd.DataFrame(
        {
            "n": [r.randint(0, 9) for _ in range(500)],
            "sex": r.choices("fm", k=500),
            "age": r.choices(range(80), k=500),
        }
    )
    assert found(people)
    assert found(frequencies("rent"))
    assert found(
        pd.DataFrame({"person_id": range(300), "n": [3, 4, 5] * 100, "sex": ["f", "m"] * 150})
    )


@pytest.mark.ci
def test_each_unit_is_a_row_where_that_is_asked_for(tmp_path):
    table = frequencies()
    path = tmp_path / "f.csv"
    table.to_csv(path, index=False)
    with pytest.raises(DataError, match="--count-column"):
        detect_source(path)
    detection = detect_source(path, count_column="n")
    spec = accepted(tmp_path, detection)
    assert spec.source.count_column == "n"
    con = connection()
    assert open_source(con, spec.source).columns == ("region", "sex", "age")
    rows = con.execute("SELECT region, count(*) FROM source GROUP BY ALL ORDER BY ALL").fetchall()
    assert rows == list(table.groupby("region").n.sum().items())
    assert "n" in {c.name for c in detect_source(path, count_column="").columns}


def test_counts_that_are_none_are_refused(tmp_path):
    for wrong in ("-1", "2.5", "", "SECRET", "1e12"):
        path = tmp_path / "f.csv"
        path.write_text(f"sex,n\nf,3\nm,{wrong}\n")
        source = SourceSpec(path=str(path), format="csv", count_column="n")
        with pytest.raises(DataError, match="column 'n'") as refused:
            open_source(connection(), source)
        assert "SECRET" not in str(refused.value)
    with pytest.raises(SpecError, match="no column 'm'"):
        open_source(connection(), SourceSpec(path=str(path), format="csv", count_column="m"))
