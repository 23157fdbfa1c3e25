"""PxWebApi 2: hand-computed figures, selections, formats; the same figures and statuses as the table builder."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace
from urllib.parse import quote

import numpy as np
import pytest
from fixtures.pack import nested_release
from fixtures.pack_hostile import WORDS, make_hostile
from fixtures.pipeline import ROOT
from fixtures.serve import HOSTILE, one_worker, served

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from queries.packs.model import STATUSES
from queries.serve import app_of, front_of

PX = "/api/px/v2"


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A server of a release made by hand: row i of a table has 10 + 10 i people, its names and values are odd."""
    with served(
        app_of(make_hostile(tmp_path_factory.mktemp("odd")), limits=one_worker())
    ) as client:
        yield client


def data(client, table, selection, **params):
    """Figures by POST, as JSON-stat."""
    chosen = [{"variableCode": v, "valueCodes": codes} for v, codes in selection.items()]
    more = "&".join(f"{k}={v}" for k, v in params.items())
    answer = client.ask(
        f"{PX}/tables/{table}/data?{more}", body={"selection": chosen}, method="POST"
    )
    assert answer.status == 200, answer.body
    return answer.json


def cells(cube):
    """Figures and words of a JSON-stat cube by code; checks that it is one."""
    assert (cube["version"], cube["class"]) == ("2.0", "dataset")
    axes = []
    for name, size in zip(cube["id"], cube["size"], strict=True):
        category = cube["dimension"][name]["category"]
        assert list(category["index"].values()) == list(range(size))
        assert set(category["label"]) == set(category["index"])
        axes.append(list(category["index"]))
    assert set(cube["dimension"]) == set(cube["id"])
    assert len(cube["value"]) == math.prod(cube["size"])
    status = [cube["status"].get(str(i), "reliable") for i in range(len(cube["value"]))]
    places = np.ndindex(*cube["size"])
    keys = [tuple(axis[i] for axis, i in zip(axes, p, strict=True)) for p in places]
    return dict(zip(keys, zip(cube["value"], status, strict=True), strict=True))


def test_counts_are_those_computed_by_hand(odd):
    """Rows of status x value in order: false with a blank has 10, with the first word 20 and so on."""
    n = 1 + len(WORDS)
    false, true = sum(10 + 10 * i for i in range(n)), sum(10 + 10 * i for i in range(n, 2 * n))
    of_sides = cells(data(odd, "value-status", {"status": ["*"], "ContentsCode": ["count"]}))
    assert of_sides == {
        ("false", "count"): (false, "reliable"),
        ("true", "count"): (true, "reliable"),
    }
    everyone = cells(data(odd, "value-status", {"ContentsCode": ["count", "count_status"]}))
    assert everyone[("count",)] == (false + true, "reliable")
    assert everyone[("count_status",)][0] == 1
    one = cells(
        data(odd, "value-status", {"value": ["a,b"], "status": ["true"], "ContentsCode": ["count"]})
    )
    assert one["a,b", "true", "count"][0] == 10 + 10 * (n + 1 + WORDS.index("a,b"))


def test_odd_names_and_values_have_tables_and_codes_that_are_found(odd):
    tables = odd.ask(f"{PX}/tables").json["tables"]
    assert [t["id"] for t in tables][:4] == ["T0001", "n", "status", "value"]
    listed = odd.ask(f"{PX}/tables/value/metadata").json["dimension"]["value"]["category"]
    for code in listed["index"]:
        assert len(cells(data(odd, "value", {"value": [code], "ContentsCode": ["count"]}))) == 1
    link = odd.ask(f"{PX}/tables/value/data?valueCodes[value]={quote('[a,b]')},{quote('=1+1')}")
    assert set(link.json["dimension"]["value"]["category"]["index"]) == {"=1+1", "a,b"}


def test_text_neither_becomes_markup_nor_a_formula(odd, client):
    page = odd.ask(f"{PX}/tables/value/data?outputFormat=html&valueCodes[value]=*").body.decode()
    assert "&lt;b&gt;bold&lt;/b&gt;" in page
    assert "<b>" not in page
    assert (
        HOSTILE
        not in client.ask(f"{PX}/tables/carer-rent_weekly/data?outputFormat=html").body.decode()
    )
    text = odd.ask(f"{PX}/tables/value/data?outputFormat=csv&valueCodes[value]=*").body.decode()
    assert {row[0] for row in csv.reader(io.StringIO(text))} >= {"'=1+1", "'{=1+1}"} - {"'{=1+1}"}


def page_cells(client, query):
    """The table builder's figures by row labels."""
    body = client.ask(f"/api/tabulate?{query}").json
    assert "row_heads" in body, body
    heads = [tuple(r) + tuple(c) for r in body["row_heads"] for c in body["col_heads"]]
    figures = body["cells"]
    columns = (figures[k] for k in ("value", "low", "high", "status"))
    return dict(zip(heads, zip(*columns, strict=True), strict=True)), body


def agrees(mine, name, page):
    """Whether value, half of the interval and status of a measure are those of the page."""
    value, low, high, status = page
    numbers = [mine[code][0] for code in (name, f"{name}_halfwidth", f"{name}_status")]
    half = None if low is None or high is None else (high - low) / 2
    expected = [value, half, 1 + STATUSES.index(status)]
    near = [
        a == b if None in (a, b) else a == pytest.approx(b, rel=1e-8)
        for a, b in zip(numbers, expected, strict=True)
    ]
    return all(near) and {words for _, words in mine.values()} == {status}


@pytest.mark.parametrize(
    ("table", "variable", "query", "name"),
    [
        ("region-sex-education", "region", "rows=region&cols=sex", "count"),
        ("age-sex", "age", "rows=age&cols=sex", "count"),
        ("sex-income", None, "rows=sex&measure=sum&of=income", "sum_income"),
        ("sex-income", None, "rows=sex&measure=mean&of=income", "mean_income"),
    ],
)
def test_figures_intervals_and_statuses_are_those_of_the_table_builder(
    client, table, variable, query, name
):
    labels = {"Women": "Female", "Men": "Male"}
    names = [variable, "sex"] if variable else ["sex"]
    selected = {v: ["*"] for v in names}
    got = cells(data(client, table, selected))
    expected, _ = page_cells(client, query)
    assert len(expected) * len({k[-1] for k in got}) == len(got)
    for key, figures in expected.items():
        codes = tuple(labels.get(part, part) for part in key)
        mine = {c: got[(*codes, c)] for c in (name, f"{name}_halfwidth", f"{name}_status")}
        assert agrees(mine, name, figures), (key, mine, figures)


def test_bands_are_the_table_builders_ranges(client):
    lists = client.ask(f"{PX}/tables/age-sex/metadata").json["dimension"]["age"]["extension"][
        "codeLists"
    ]
    assert [one["id"] for one in lists] == ["agg_age"]
    bands = client.ask(f"{PX}/codelists/agg_age").json["values"]
    body = {"selection": [{"variableCode": "age", "codelist": "agg_age", "valueCodes": ["*"]}]}
    got = cells(client.ask(f"{PX}/tables/age-sex/data", body=body, method="POST").json)
    assert {code for code, _ in got} == {band["code"] for band in bands}
    for band in bands[:3]:
        low, high = band["valueMap"][0], band["valueMap"][-1]
        _, page = page_cells(client, f"rows=sex&from.age={low}&to.age={high}")
        total = {k: page["total"][k][0] for k in ("value", "low", "high", "status")}
        mine = {c: got[band["code"], c] for c in ("count", "count_halfwidth", "count_status")}
        assert agrees(mine, "count", tuple(total.values()))
    body["selection"][0] |= {"valueCodes": [bands[0]["code"]], "outputValues": "single"}
    single = client.ask(f"{PX}/tables/age-sex/data", body=body, method="POST").json
    assert list(single["dimension"]["age"]["category"]["index"]) == bands[0]["valueMap"]


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        (["R1", "R3"], ["R1", "R3"]),
        (["R3", "R1", "R?"], [f"R{i}" for i in range(1, 10)]),
        (["top(2)"], ["R1", "R2"]),
        (["TOP(2,1)"], ["R2", "R3"]),
        (["bottom(1)"], ["R9"]),
        (["range(R2,R4)"], ["R2", "R3", "R4"]),
        (["from(R8)"], ["R8", "R9"]),
        (["to(R2)"], ["R1", "R2"]),
        (["*3", "to(R1)"], ["R1", "R3"]),
    ],
)
def test_expressions_select_values_in_links_and_bodies(client, codes, expected):
    table = "region-sex-education"
    link = client.ask(
        f"{PX}/tables/{table}/data?valuecodes[region]={quote(','.join(codes))}&valuecodes[ContentsCode]=count"
    ).json
    assert list(link["dimension"]["region"]["category"]["index"]) == expected
    assert link == data(client, table, {"region": codes, "ContentsCode": ["count"]})


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ("tables/none", 404),
        ("tables/none/metadata", 404),
        ("tables/none/data", 404),
        ("codelists/agg_none", 404),
        ("navigation/none", 404),
        ("tables?lang=xx", 400),
        ("tables?pageSize=0", 400),
        ("tables/age-sex/metadata?outputFormat=json-px", 400),
        ("tables/age-sex/data?outputFormat=json-px", 400),
        ("tables/age-sex/data?outputFormatParams=SeparatorTab", 400),
        ("tables/age-sex/data?valueCodes[region]=R1", 400),
        ("tables/age-sex/data?valueCodes[age]=1000", 400),
        ("tables/age-sex/data?valueCodes[age]=_T", 400),
        ("tables/age-sex/data?valueCodes[age]=top(x)", 400),
        ("tables/age-sex/data?valueCodes[age]=1&codelist[age]=agg_sex", 400),
        ("tables/age-sex/data?valueCodes[age]=" + ",".join(f"*{i}?" for i in range(61)), 400),
    ],
)
def test_refusals_are_problems_that_clients_read(client, asked, status):
    answer = client.ask(f"{PX}/{asked}")
    assert answer.status == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json["status"] == status
    assert answer.json["detail"] == answer.json["message"]


def test_the_limits_on_cells_and_bands_are_those_of_the_table_builder(client):
    """354 incomes times 2 sexes times 9 numbers fit; a selection without them takes as much as fits."""
    config = client.ask(f"{PX}/config").json
    assert config["maxDataCells"] == 20_000
    assert config["maxCallsPerTimeWindow"] > 0
    every = client.ask(f"{PX}/tables/region-sex-education/data").json
    assert every["size"] == [9, 2, 9, 3]
    bands = {"variableCode": "age", "codelist": "agg_age", "valueCodes": ["*"]}
    twice = client.ask(
        f"{PX}/tables/age-sex/data", body={"selection": [bands, bands]}, method="POST"
    )
    assert twice.status == 400


def test_tables_are_found_by_words_in_pages_and_languages(client):
    def ids(query):
        return [t["id"] for t in client.ask(f"{PX}/tables?{query}").json["tables"]]

    assert ids("query=INCOME%20sex") == ["sex-income"]
    assert ids("query=nothing") == []
    everything = ids("")
    assert [
        *ids("pageSize=2"),
        *ids("pageSize=2&pageNumber=2"),
        *ids("pageSize=2&pageNumber=3"),
    ] == everything
    page = client.ask(f"{PX}/tables?pageSize=2&pageNumber=9").json["page"]
    assert (page["totalElements"], page["totalPages"]) == (len(everything), 3)
    folder = client.ask(f"{PX}/navigation").json
    assert [entry["id"] for entry in folder["folderContents"]] == everything
    assert (
        client.ask(f"{PX}/tables/age-sex").json["label"] == "Number of people by Age in years, sex"
    )
    german = client.ask(f"{PX}/tables/age-sex/metadata?lang=de").json
    assert german["dimension"]["ContentsCode"]["label"] == "Inhalt"
    assert german["label"].startswith("Anzahl ")


def test_every_format_has_the_same_figures(client):
    asked = (
        f"{PX}/tables/sex-income/data?valueCodes[sex]=*&valueCodes[ContentsCode]=count,mean_income"
    )
    expected = [v for v, _ in cells(client.ask(asked).json).values()]
    rows = list(csv.reader(io.StringIO(client.ask(f"{asked}&outputFormat=csv").body.decode())))
    assert rows[0] == ["sex", "Number of people", "Mean of income"]
    assert [float(cell) for row in rows[1:] for cell in row[1:]] == expected
    coded = client.ask(f"{asked}&outputFormat=csv&outputFormatParams=UseCodes").body.decode()
    assert coded.splitlines()[0] == "sex,count,mean_income"
    text = client.ask(f"{asked}&outputFormat=px").body.decode()
    numbers = text.partition("DATA=")[2].replace(";", " ").split()
    assert [float(n) for n in numbers] == expected
    pytest.importorskip("pyarrow")
    import pyarrow.parquet

    read = pyarrow.parquet.read_table(io.BytesIO(client.ask(f"{asked}&outputFormat=parquet").body))
    assert [v for row in zip(*read.to_pydict().values(), strict=True) for v in row[1:]] == expected
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.load_workbook(io.BytesIO(client.ask(f"{asked}&outputFormat=xlsx").body))
    sheet = [list(row) for row in book.worksheets[0].iter_rows(values_only=True)]
    assert [v for row in sheet[-2:] for v in row[1:3]] == pytest.approx(expected)
    page = client.ask(f"{asked}&outputFormat=html")
    assert page.headers["content-type"].startswith("text/html")
    assert "<td>Women</td>" in page.body.decode()


def test_levels_of_a_hierarchy_are_codelists(tmp_path, monkeypatch):
    """District a lies in North, b and c in South; its card tells that towns determine areas."""
    import fixtures.release as made

    plain = made.make_card

    def told(table):
        card = plain(table)
        return replace(card, told={"area": "town"}) if len(table.columns) == 2 else card

    monkeypatch.setattr(made, "make_card", told)
    with served(app_of(nested_release(tmp_path), limits=one_worker())) as client:
        listed = client.ask(f"{PX}/codelists/agg_town").json
        assert {v["code"]: v["valueMap"] for v in listed["values"]} == {
            "North": ["a"],
            "South": ["b", "c"],
        }
        body = {
            "selection": [{"variableCode": "town", "codelist": "agg_town", "valueCodes": ["South"]}]
        }
        south = cells(client.ask(f"{PX}/tables/area-town/data", body=body, method="POST").json)
        parts = cells(data(client, "area-town", {"town": ["b", "c"], "ContentsCode": ["count"]}))
        assert south["South", "count"][0] == sum(v for v, _ in parts.values()) == 102


@pytest.mark.ci
def test_links_begin_where_the_release_is_served(path, tmp_path):
    for name in ("one", "two"):
        for suffix in ("", ".manifest.json"):
            (tmp_path / f"{name}.duckdb{suffix}").write_bytes(
                path.with_name(path.name + suffix).read_bytes()
            )
    with served(front_of(tmp_path, limits=one_worker())) as client:
        entry = client.ask("/two/api/px/v2/tables/age-sex").json
        assert (
            entry["links"][0]["href"]
            == f"http://127.0.0.1:{client.port}/two{PX}/tables/age-sex?lang=en"
        )
        assert client.ask(entry["links"][0]["href"].partition(f":{client.port}")[2]).json == entry


@pytest.fixture(scope="module")
def specification():
    """The answers that the draft of PxWebApi 2 describes."""
    yaml = pytest.importorskip("yaml")
    path = ROOT.parent / "shared/api/PxAPI-2.yml"
    if not path.exists():
        pytest.skip("the specification is not beside the checkout")

    def plain(part):
        """OpenAPI 3.0 as JSON Schema: nullable is one more type."""
        if isinstance(part, list):
            return [plain(p) for p in part]
        if not isinstance(part, dict):
            return part
        out = {k: plain(v) for k, v in part.items() if k not in ("nullable", "discriminator")}
        if part.get("nullable") is True and "type" in out:
            out["type"] = [out["type"], "null"]
        return out

    return plain(yaml.safe_load(path.read_text("utf-8")))


@pytest.mark.parametrize(
    ("asked", "schema"),
    [
        ("config", "ConfigResponse"),
        ("navigation", "FolderResponse"),
        ("tables", "TablesResponse"),
        ("tables/age-sex", "TableResponse"),
        ("tables/age-sex/metadata", "Dataset"),
        ("tables/age-sex/data", "Dataset"),
        ("codelists/agg_age", "CodeListResponse"),
    ],
)
def test_answers_are_as_the_specification_has_them(client, specification, asked, schema):
    jsonschema = pytest.importorskip("jsonschema")
    check = jsonschema.Draft7Validator(
        {"$ref": f"#/components/schemas/{schema}", "components": specification["components"]}
    )
    answer = client.ask(f"{PX}/{asked}").json
    assert [(list(e.path)[:4], e.message[:200]) for e in check.iter_errors(answer)] == []
    del answer[
        "language"
        if "language" in answer
        else "apiVersion"
        if schema == "ConfigResponse"
        else "size"
    ]
    assert list(check.iter_errors(answer))
