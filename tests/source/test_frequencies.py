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
from engine.source.detection.spec_text import spec_text

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


def test_values_that_differ_by_blanks_or_case_get_a_remark():
    texts = ["Graz", "Graz ", "graz", "Wien"]
    detection = found(pd.DataFrame({"town": texts * 30, "sex": ["f", "m"] * 60}))
    (remark,) = detection.column_remarks["town"]
    assert '"Graz "' in remark
    assert "sex" not in detection.column_remarks
    rare = [*(["Graz", "Wien"] * 30), "graz", " Wien"]
    assert "town" not in found(pd.DataFrame({"town": rare})).column_remarks


BANDS = {
    "plain": ["<5", "5-9", "10-14", "15-64", "65+"],
    "words": ["under 5 years", "5 to 9 years", "10 to 84 years", "85 years and over"],
    "german": ["unter 5", "5 bis unter 10", "10 bis unter 65", "65 und älter", "unbekannt"],
    "money": ["< €1,000", "€1,000 - €9,999", "€10,000 - €99,999", ">€100,000"],
}


@pytest.mark.parametrize("of", BANDS)
def test_bands_are_in_the_order_of_their_numbers(tmp_path, of):
    detection = found(
        pd.DataFrame({"age": BANDS[of] * 20, "sex": ["f", "m"] * 10 * len(BANDS[of])})
    )
    assert {c.name: c.order for c in detection.columns} == {"age": "numeric", "sex": ""}
    assert detection.values["age"] == tuple(BANDS[of])
    assert "order" in detection.columns[0].detected
    assert 'order = "numeric"' in spec_text(detection)


@pytest.mark.parametrize(
    "texts", [["1-0", "2-1", "1-3", "0-2"], ["A1", "B2", "C3"], ["v-1", "v-2", "w-3"]]
)
def test_other_texts_with_numbers_are_not(texts):
    detection = found(pd.DataFrame({"x": texts * 20}))
    assert detection.columns[0].order == ""
