"""Packs of names, values and specs that files and programs trip over: nothing is altered, run, lost or made up."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import pytest
from fixtures.pack import figures_of, rows_of
from fixtures.pack_hostile import DAY, WORDS, make_hostile
from fixtures.release_dp import spec_in

from engine.errors import SpecError
from engine.release import build
from queries.packs import pack_spec_from, preview, publish
from queries.packs.formats.figures import plain_number
from queries.packs.formats.readme import markdown
from queries.packs.formats.sdmx import OBS_STATUS, version_of
from queries.packs.model import STATUSES
from queries.release import open_release

pytest.importorskip("pyarrow")
pytest.importorskip("gptables")
pytest.importorskip("jinja2")

ODD = {"tables": [{"id": "V", "columns": ["value", "status"]}, {"id": "D", "columns": [DAY]}]}


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    return make_hostile(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def pack(release):
    return made(release, release.parent / "pack", ODD)


def made(release, folder, raw):
    with open_release(release) as opened:
        publish(opened, folder, pack_spec_from(raw))
    return folder


def refused(release, folder, raw, words):
    with open_release(release) as opened, pytest.raises(SpecError, match=words):
        publish(opened, folder, pack_spec_from(raw))
    assert not folder.exists()


def test_metadata_of_odd_names_and_values_is_valid(pack):
    csvw, frictionless = pytest.importorskip("csvw"), pytest.importorskip("frictionless")
    for table in ("V", "D"):
        path = pack / f"tables/{table}.csv-metadata.json"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            assert csvw.CSVW(str(path), validate=True).is_valid, table
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = frictionless.Package(str(pack / "datapackage.json")).validate()
    assert found.valid, found.flatten(["title", "message"])


def test_a_text_without_letters_has_a_code_of_its_own(pack):
    codes = {r["code"]: r["label"] for r in rows_of(pack / "codelists/value.csv")}
    assert codes["_E"] == "(empty text)"
    assert all(r["value"] for r in rows_of(pack / "tables/V.csv"))


def test_the_workbook_has_no_links_no_formulas_and_values_as_they_are(pack):
    book = pytest.importorskip("openpyxl").load_workbook(pack / "pack.xlsx")
    cells = [c for row in book["V"].iter_rows() for c in row]
    assert [c.value for c in cells if c.hyperlink or c.data_type == "f"] == []
    shown = {c.value for c in cells}
    assert {w for w in WORDS if ":" in w} <= shown
    assert list(book["V"].tables)  # headings that differ by case only would leave it without


def test_px_labels_and_codes_differ(pack):
    lines = (pack / "px/V.px").read_text("utf-8").split(";\n")
    for word in ("VALUES", "CODES"):
        (line,) = [x for x in lines if x.startswith(f'{word}("value")=')]
        listed = line.split("=", 1)[1].replace("\n", "").removesuffix('"')[1:].split('","')
        assert len(set(listed)) == len(listed) == len(WORDS) + 1


def test_px_has_no_exponents_and_sdmx_codes_mean_what_they_say():
    assert plain_number(0.0000123) == "0.0000123"
    assert plain_number(1.5e17) == "150000000000000000.0"
    assert plain_number(7) == "7"
    assert OBS_STATUS["structural zero"] == "M"  # data cannot exist; L: data were not collected
    assert [version_of(t) for t in ("v2", "", "1.2.3.4")] == ["2.0.0", "1.0.0", "1.2.3"]


def test_filters_are_by_value_not_by_spelling(release, tmp_path):
    tables = [
        {"id": "A", "columns": ["value"], "where": {"status": [True]}},
        {"id": "B", "columns": ["value"], "where": {"status": ["true"]}},
        {"id": "C", "columns": ["status"], "where": {"n": [1]}},
        {"id": "E", "columns": ["status"], "where": {"n": ["1.0"]}},
        {"id": "F", "columns": ["status"], "where": {"value": ["_T", ""]}},
    ]
    folder = made(release, tmp_path / "out", {"tables": tables})
    a, b = ([r["value_"] for r in rows_of(folder / f"tables/{t}.csv")] for t in "AB")
    assert a == b
    assert None not in a
    assert figures_of(folder, "C", "status") == figures_of(folder, "E", "status")
    refused(release, tmp_path / "x", {"tables": [tables[0] | {"where": {"status": [1]}}]}, "Near:")


def test_default_titles_and_units_say_what_is_measured_and_of_whom(release, tmp_path):
    tables = [
        {"columns": ["status"], "measure": "mean", "of": "n"},
        {"columns": ["status"], "where": {"n": [0.3]}},
    ]
    folder = made(release, tmp_path / "out", {"tables": tables})
    mean, some = (
        json.loads((folder / f"jsonstat/T000{i}.json").read_text("utf-8")) for i in (1, 2)
    )
    assert mean["label"] == "Mean of n by status"
    assert mean["dimension"]["figure"]["category"]["unit"]["value"]["label"] == "n"
    assert some["label"] == "status; n: 0.3"
    page = (folder / "pages/T0001.html").read_text("utf-8")
    assert "0.375" in page  # not 0.4


def test_a_given_id_takes_no_other_tables_files(release, tmp_path):
    tables = [{"id": "T0002", "columns": ["status"]}, {"columns": ["n"]}]
    folder = made(release, tmp_path / "out", {"tables": tables})
    heads = {p.stem: next(iter(rows_of(p)[0])) for p in (folder / "tables").glob("*.csv")}
    assert heads == {"T0002": "status", "T0002_": "n"}


def test_ids_that_are_names_of_other_sheets(release, tmp_path):
    ids = ("cover", "Contents", "NOTES", "History", "T-", "T")
    tables = [{"id": i, "columns": ["status"]} for i in ids]
    folder = made(release, tmp_path / "out", {"tables": tables})
    book = pytest.importorskip("openpyxl").load_workbook(folder / "pack.xlsx")
    assert len({n.lower() for n in book.sheetnames}) == 3 + len(ids)
    names = [r["name"] for r in json.loads((folder / "datapackage.json").read_text())["resources"]]
    assert len(set(names)) == len(names)


def test_a_group_named_as_a_value_leaves_the_value_its_code(release, tmp_path):
    raw = {
        "columns": {"value": {"parents": {"***": ["***", "a,b"]}}},
        "tables": [{"id": "A", "rows": ["value"], "subtotals": ["value"]}],
    }
    folder = made(release, tmp_path / "out", raw)
    kinds = {r["code"]: r["kind"] for r in rows_of(folder / "codelists/value.csv")}
    assert (kinds["***"], kinds["***_"]) == ("value", "group")
    figures = {r["value"]: r["value_"] for r in rows_of(folder / "tables/A.csv")}
    assert int(figures["***_"]) == int(figures["***"]) + int(figures["a,b"])


def test_a_pack_asks_whether_parts_can_be_negative(release, tmp_path):
    table = {"id": "A", "rows": ["status"], "totals": ["status"], "percent": "total"}
    raw = {"tables": [table | {"measure": "sum", "of": "n"}]}
    rows = rows_of(made(release, tmp_path / "out", raw) / "tables/A.csv")
    above = [r for r in rows if float(r["value"]) > 100]
    assert above
    assert all(r["high"] is None or float(r["high"]) > float(r["value"]) for r in above)
    known = [r for r in rows if r["high"] is not None]
    assert all(float(r["low"]) <= float(r["value"]) <= float(r["high"]) for r in known)


def test_a_pack_without_noise_says_so(tmp_path):
    build(spec_in(tmp_path, dp="guarantee = false"), tmp_path / "r.duckdb", jobs=1)
    with open_release(tmp_path / "r.duckdb") as opened:
        publish(opened, tmp_path / "out", unprotected=True)
    for name in ("README.md", "README.html"):
        text = (tmp_path / "out" / name).read_text("utf-8")
        assert "carry no noise" in text
        assert "Every figure carries noise" not in text
    book = pytest.importorskip("openpyxl").load_workbook(tmp_path / "out/pack.xlsx")
    said = " ".join(str(c.value) for s in book for row in s.iter_rows() for c in row)
    assert "carry no noise" in said
    assert "carries noise, to protect" not in said


PARENTS = {
    "nothing inside": ({"P": []}, "'P' holds nothing"),
    "two of one level": ({"P": ["***"], "Q": ["***", "a,b"]}, "both hold '\\*\\*\\*'"),
    "cut": ([{"P": ["***", "a,b"]}, {"Q": ["***"]}], "a part of 'P' only"),
}
BAD = {
    "filter on a shown column": (
        {"tables": [{"rows": ["value"], "totals": ["value"], "where": {"value": ["***"]}}]},
        "is a column of the table",
    ),
    "empty filter": (
        {"tables": [{"rows": ["value"], "where": {"status": []}}]},
        "limited to no value",
    ),
    "ids by case": (
        {"tables": [{"id": "t", "rows": ["n"]}, {"id": "T", "rows": ["n"]}]},
        "given twice",
    ),
    "script link": ({"pack": {"licence_url": "javascript:alert(1)"}}, "licence_url: a link begins"),
    "script publisher": ({"pack": {"publisher_url": "data:text/html,x"}}, "a link begins"),
    "no identifier": ({"pack": {"identifier": ""}}, "pack.identifier"),
    "two lines": ({"pack": {"languages": ["en\n"]}}, "codes such as"),
    "languages by case": ({"pack": {"languages": ["en-GB", "en-gb"]}}, "named once"),
}


@pytest.mark.parametrize("case", PARENTS)
def test_areas_that_do_not_nest_are_refused(release, tmp_path, case):
    parents, words = PARENTS[case]
    raw = {"columns": {"value": {"parents": parents}}, "tables": [{"rows": ["value"]}]}
    refused(release, tmp_path / "out", raw, words)


@pytest.mark.parametrize("case", BAD)
def test_specs_that_would_mislead_or_harm_are_refused(case):
    raw, words = BAD[case]
    with pytest.raises(SpecError, match=words):
        pack_spec_from(raw)


def test_a_pack_of_no_table_is_refused(tmp_path):
    from fixtures.pack import nested_release

    with open_release(nested_release(tmp_path)) as opened:
        wide = tuple(t for t in opened.tables if len(t) > 1)
        opened.tables = wide
        with pytest.raises(SpecError, match="has at most 1 columns"):
            publish(opened, tmp_path / "out", pack_spec_from({"pack": {"max_width": 1}}))
    assert not (tmp_path / "out").exists()


def test_every_status_has_a_code():
    assert OBS_STATUS.keys() == set(STATUSES)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("<script>alert(1)</script>", r"\<script\>alert(1)\</script\>"),
        ("[x](javascript:1) ![p](//e)", r"\[x\](javascript:1) \!\[p\](//e)"),
        ("`c` *b* __b__ snake_case ~~s~~", r"\`c\` \*b\* \_\_b\_\_ snake_case \~\~s\~\~"),
        ("# head\n# of two", r"\# head # of two"),
        ("&lt; AT&T", r"\&lt; AT&T"),
        ("red\x1b[31m\u202e", r"red\\x1b\[31m\\u202e"),
        ("-5 to 3", "-5 to 3"),
    ],
)
def test_a_readme_shows_what_markdown_would_run(text, written, release):
    with open_release(release) as opened:
        pack = preview(opened, pack_spec_from(ODD))
    hostile = replace(pack, titles=(text, *pack.titles[1:]), footnotes=((text,) * 2,))
    told = markdown(hostile, ["README.md"])
    assert told.startswith(f"# {written}\n")
    assert f"\n- {written}\n" in told
