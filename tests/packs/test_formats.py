"""Every format of a pack passes a validator that others wrote, and reads back equal to the CSV files."""

from __future__ import annotations

import json
import math
import shutil
import warnings

import pandas as pd
import pytest
from fixtures.pack import SPEC, figures_of, loaded, rows_of, shared_pack, shared_release

pytest.importorskip("pyarrow")
pytest.importorskip("gptables")
pytest.importorskip("jinja2")

DIMENSIONS = {
    "T1": ("region", "sex"),
    "T2": ("age", "sex"),
    "T3": ("age", "region"),
    "T4": ("region",),
    "T5": ("birth_country", "education"),
}


@pytest.fixture(scope="module")
def pack(census, tmp_path_factory):
    return shared_pack(shared_release(tmp_path_factory, census))


@pytest.fixture
def altered(pack, tmp_path):
    """A copy of the pack, to plant faults in."""
    return shutil.copytree(pack, tmp_path / "altered")


def same(a: float | None, b: float | None) -> bool:
    missing = [x is None or (isinstance(x, float) and math.isnan(x)) for x in (a, b)]
    return all(missing) if any(missing) else math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)


def test_parquet_reads_back_equal_and_its_numbers_are_numbers(pack):
    for table in (*DIMENSIONS, "T6"):
        frame = pd.read_parquet(pack / f"tables/{table}.parquet")
        listed = rows_of(pack / f"tables/{table}.csv")
        assert list(frame.columns) == list(listed[0])
        assert len(frame) == len(listed)
        for name in ("value", "low", "high"):
            assert pd.api.types.is_numeric_dtype(frame[name])
            expected = [None if r[name] is None else float(r[name]) for r in listed]
            assert all(map(same, frame[name].astype(float), expected))
        assert list(frame["status"]) == [r["status"] for r in listed]


def is_valid_csvw(path) -> bool:
    csvw = pytest.importorskip("csvw")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)  # these are what it finds
        return csvw.CSVW(str(path), validate=True).is_valid


def test_csvw_is_valid(pack):
    for table in (*DIMENSIONS, "T6"):
        assert is_valid_csvw(pack / f"tables/{table}.csv-metadata.json"), table


def test_csvw_reads_back_equal(pack):
    csvw = pytest.importorskip("csvw")
    for table, names in DIMENSIONS.items():
        path = pack / f"tables/{table}.csv-metadata.json"
        read = [dict(row) for row in csvw.Table.from_file(path)]
        expected = figures_of(pack, table, *names)
        found = {tuple(r[c] for c in names): r["value"] for r in read}
        assert found.keys() == expected.keys()
        assert all(same(None if v is None else float(v), expected[k]) for k, v in found.items())


def test_csvw_finds_a_word_among_numbers(altered):
    path = altered / "tables/T1.csv"
    text = path.read_text("utf-8").splitlines()
    text[1] = text[1].replace(',"reliable"', ',"certain"')
    path.write_text("\n".join(text) + "\n")
    assert not is_valid_csvw(altered / "tables/T1.csv-metadata.json")


def frictionless_errors(pack) -> list:
    frictionless = pytest.importorskip("frictionless")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = frictionless.Package(str(pack / "datapackage.json"))
        return package.validate().flatten(["type", "note"])


def test_the_data_package_is_valid(pack):
    assert frictionless_errors(pack) == []
    assert {"T1", "t1"} & {r["name"] for r in loaded(pack / "datapackage.json")["resources"]}


def test_the_data_package_finds_a_changed_file(altered):
    path = altered / "tables/T3.csv"
    path.write_bytes(path.read_bytes().replace(b'"R1"', b'"R0"', 1))
    assert frictionless_errors(altered) != []


@pytest.mark.parametrize("table", DIMENSIONS)
def test_sdmx_csv_reads_back_equal(pack, table):
    model = pytest.importorskip("pysdmx.io")
    keys = {
        column: {r["code"]: r["sdmx_key"] for r in rows_of(pack / f"codelists/{column}.csv")}
        for column in DIMENSIONS[table]
    }
    message = model.read_sdmx(pack / f"sdmx/{table}.csv", validate=False)
    (found,) = message.data
    frame = found.data
    names = list(DIMENSIONS[table])
    expected = {
        tuple(keys[c][code] for c, code in zip(names, codes, strict=True)): value
        for codes, value in figures_of(pack, table, *names).items()
    }
    read = {
        tuple(row[:-1]): None if row[-1] in ("", None) or row[-1] != row[-1] else float(row[-1])
        for row in frame[[*names, "OBS_VALUE"]].itertuples(index=False)
    }
    assert read.keys() == expected.keys()
    assert all(same(read[k], expected[k]) for k in expected)
    statuses = {"reliable": "A", "low": "N", "unreliable": "U", "not released": "O"}
    words = [statuses.get(r["status"], "M") for r in rows_of(pack / f"tables/{table}.csv")]
    assert list(frame["OBS_STATUS"]) == words


@pytest.mark.parametrize("ending", ["", "~cy"])
@pytest.mark.parametrize("table", DIMENSIONS)
def test_json_stat_reads_back_equal(pack, table, ending):
    pyjstat = pytest.importorskip("pyjstat.pyjstat")
    text = (pack / f"jsonstat/{table}{ending}.json").read_text("utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = pyjstat.Dataset.read(text).write("dataframe", naming="id")
    names = list(DIMENSIONS[table])
    for figure in ("value", "low", "high"):
        mine = frame[frame["figure"] == figure]
        read = {tuple(r[:-1]): r[-1] for r in mine[[*names, "value"]].itertuples(index=False)}
        expected = {
            tuple(r[c] for c in names): None if r[figure] is None else float(r[figure])
            for r in rows_of(pack / f"tables/{table}.csv")
        }
        assert read.keys() == expected.keys()
        assert all(same(read[k], expected[k]) for k in expected)
    raw = json.loads(text)
    assert len(raw["status"]) == len(raw["value"]) == math.prod(raw["size"])


@pytest.mark.parametrize("language", ["en", "cy"])
@pytest.mark.parametrize("table", DIMENSIONS)
def test_px_reads_back_equal(pack, table, language):
    pyaxis = pytest.importorskip("pyaxis.pyaxis")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parsed = pyaxis.parse(str(pack / f"px/{table}.px"), encoding="utf-8", lang=language)
    frame = parsed["DATA"]
    listed = rows_of(pack / f"tables/{table}.csv")
    assert len(frame) == 3 * len(listed)
    figures = [r[figure] for r in listed for figure in ("value", "low", "high")]
    impossible = [r["status"] == "structural zero" for r in listed for _ in range(3)]
    for text, expected, is_impossible in zip(frame["DATA"], figures, impossible, strict=True):
        if not is_impossible:
            read = None if text in ('".."', "..", "") or text != text else float(text)
            assert same(read, None if expected is None else float(expected))
    if table == "T1":
        words = {"en": ["People by region and sex"], "cy": ["Pobl"]}
        assert parsed["METADATA"]["TITLE"] == words[language]
        total = {"en": "Total", "cy": "Cyfanswm"}[language]
        assert frame.iloc[0, 0] == total


def test_the_catalogue_is_linked_data(pack):
    rdflib = pytest.importorskip("rdflib")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = rdflib.Graph().parse(pack / "catalog.jsonld", format="json-ld")
    dcat = rdflib.Namespace("http://www.w3.org/ns/dcat#")
    datasets = set(graph.subjects(rdflib.RDF.type, dcat.Dataset))
    assert len(datasets) == 6
    sums = {
        p: s for s, p in (x.split("  ") for x in (pack / "SHA256SUMS").read_text().splitlines())
    }
    spdx = rdflib.URIRef("http://spdx.org/rdf/terms#checksum")
    value = rdflib.URIRef("http://spdx.org/rdf/terms#checksumValue")
    for distribution in graph.subjects(rdflib.RDF.type, dcat.Distribution):
        path = str(distribution).removeprefix("https://example.org/pack/")
        expected = str(graph.value(graph.value(distribution, spdx), value))
        assert sums[path] == expected
        size = graph.value(distribution, dcat.byteSize)
        assert int(size) == (pack / path).stat().st_size


def test_the_workbook_follows_the_guidance(pack):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.load_workbook(pack / "pack.xlsx")
    names = ["Cover", "Contents", "Notes", "T1", "T2", "T3", "T4", "T5"]
    assert book.sheetnames == names  # T6 only lists what was measured: CSV only
    assert "T6" in "".join(str(c.value) for row in book["Contents"].iter_rows() for c in row)
    for name in names[3:]:
        sheet = book[name]
        assert len(sheet.tables) == 1  # one marked-up table a sheet, and nothing below it
        ((_, area),) = sheet.tables.items()
        assert area.startswith("A")
        assert int("".join(c for c in area.split(":")[1] if c.isdigit())) == sheet.max_row
        assert not sheet.merged_cells.ranges


def test_the_workbook_holds_the_figures(pack):
    openpyxl = pytest.importorskip("openpyxl")
    sheet = openpyxl.load_workbook(pack / "pack.xlsx")["T1"]
    rows = [[c.value for c in row] for row in sheet.iter_rows()]
    start = next(i for i, row in enumerate(rows) if row[0] == "Region")
    assert rows[start][:4] == ["Region", "Total", 'Women; "she"', "Male"]
    shown = {row[0]: row[1:4] for row in rows[start + 1 :]}
    figures = figures_of(pack, "T1", "region", "sex")
    assert shown["South"] == [figures["South", s] for s in ("_T", "Female", "Male")]
    assert shown["Total"][0] == figures["_T", "_T"]


def test_marks_stand_only_where_there_is_no_number(pack):
    openpyxl = pytest.importorskip("openpyxl")
    sheet = openpyxl.load_workbook(pack / "pack.xlsx")["T5"]
    rows = [[c.value for c in row] for row in sheet.iter_rows()]
    head = next(i for i, row in enumerate(rows) if "Status" in row)
    place = rows[head].index("Status")
    cells = {status: set() for status in ("not released", "reliable")}
    for row in rows[head + 1 :]:
        cells.setdefault(row[place], set()).add(
            "number" if isinstance(row[place - 3], int | float) else row[place - 3]
        )
    assert cells["not released"] == {"[c]"}
    assert cells["reliable"] == {"number"}


def test_the_spec_of_these_tests_uses_every_kind_of_table(pack):
    assert SPEC.count("[[tables]]") == 6
    statuses = {r["status"] for t in DIMENSIONS for r in rows_of(pack / f"tables/{t}.csv")}
    assert {"reliable", "unreliable", "not released"} <= statuses
