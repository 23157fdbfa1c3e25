"""Names, values and specs that files and programs trip over, of every script: nothing is altered, run or lost."""

from __future__ import annotations

import re
import unicodedata
import warnings
from dataclasses import replace

import pytest
from fixtures.names import NAMES, VALUES, make_named
from fixtures.pack import figures_of, loaded, published, rows_of
from fixtures.pack_hostile import DAY, WORDS

from engine.errors import SpecError
from queries.packs import pack_spec_from, preview
from queries.packs.files import MAX_SHEET, plain_number, sheet_name
from queries.packs.formats.readme import markdown
from queries.packs.formats.sdmx import OBS_STATUS, version_of
from queries.packs.model import STATUSES

IDS = ("cover", "Contents", "NOTES", "History", "T-", "T")
ODD = {
    # A group named as a value, and one with an empty name.
    "columns": {
        "value": {"parents": {"***": ["***", "a,b"], "": ["_E", "=1+1"], "rest": ["_T"]}},
    },
    "tables": [
        {"id": "V", "columns": ["value", "status"]},
        {"id": "D", "columns": [DAY]},
        {"id": "P", "rows": ["value"], "subtotals": ["value"]},
        {"id": "A", "columns": ["value"], "where": {"status": [True]}},
        {"id": "B", "columns": ["value"], "where": {"status": ["true"]}},
        {"id": "C", "columns": ["status"], "where": {"n": [1]}},
        {"id": "E", "columns": ["status"], "where": {"n": ["1.0"]}},
        {"id": "F", "columns": ["status"], "where": {"value": ["_T", ""]}},
        {"id": "T0010", "columns": ["status"], "measure": "mean", "of": "n"},
        {"columns": ["status"], "where": {"n": [0.3]}},
        *({"id": i, "columns": ["status"]} for i in IDS),
        {
            "id": "S",
            "rows": ["status"],
            "totals": ["status"],
            "percent": "total",
            "measure": "sum",
            "of": "n",
        },
    ],
}


@pytest.fixture(scope="module")
def pack(hostile, tmp_path_factory):
    return published(hostile, tmp_path_factory.mktemp("odd") / "pack", ODD)


@pytest.fixture(scope="module")
def book(pack):
    return pytest.importorskip("openpyxl").load_workbook(pack / "pack.xlsx")


@pytest.mark.ci
def test_metadata_of_odd_names_and_values_is_valid(pack):
    csvw, frictionless = pytest.importorskip("csvw"), pytest.importorskip("frictionless")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = frictionless.Package(str(pack / "datapackage.json")).validate()
        warnings.simplefilter("always", UserWarning)
        for table in ("V", "D"):
            path = pack / f"tables/{table}.csv-metadata.json"
            assert csvw.CSVW(str(path), validate=True).is_valid, table
    assert found.valid, found.flatten(["title", "message"])


@pytest.mark.ci
def test_an_empty_text_has_a_code_of_its_own(pack):
    codes = {r["code"]: r["label"] for r in rows_of(pack / "codelists/value.csv")}
    assert codes["_E"] == "(empty text)"
    assert all(r["value"] for r in rows_of(pack / "tables/V.csv"))


def test_the_workbook_has_no_links_no_formulas_and_values_as_they_are(book):
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


def test_px_has_no_exponents_and_sdmx_statuses_mean_what_they_say():
    assert plain_number(0.0000123) == "0.0000123"
    assert plain_number(1.5e17) == "150000000000000000.0"
    assert plain_number(7) == "7"
    assert OBS_STATUS["structural zero"] == "M"  # data cannot exist; L: data were not collected
    assert OBS_STATUS.keys() == set(STATUSES)
    assert [version_of(t) for t in ("v2", "", "1.2.3.4")] == ["2.0.0", "1.0.0", "1.2.3"]


def test_filters_are_by_value_not_by_spelling(pack, hostile):
    a, b = ([r["value_"] for r in rows_of(pack / f"tables/{t}.csv")] for t in "AB")
    assert a == b
    assert None not in a
    assert figures_of(pack, "C", "status") == figures_of(pack, "E", "status")
    with pytest.raises(SpecError, match="Near:"):
        preview(hostile, pack_spec_from({"tables": [{"rows": ["n"], "where": {"status": [1]}}]}))


def test_groups_leave_values_their_codes_and_have_labels(pack):
    codes = {r["code"]: r for r in rows_of(pack / "codelists/value.csv")}
    assert (codes["***"]["kind"], codes["***_"]["kind"]) == ("value", "group")
    assert all(code and r["label"] for code, r in codes.items())
    unnamed = codes["_E"]["parent"]
    assert unnamed == codes["=1+1"]["parent"] is not None
    figures = {r["value"]: int(r["value_"]) for r in rows_of(pack / "tables/P.csv")}
    assert figures["***_"] == figures["***"] + figures["a,b"]
    assert figures[unnamed] == figures["_E"] + figures["=1+1"]


PARENTS = {
    "value": ({"P": []}, "'P' is empty"),
    "n": ({"P": ["0.0"], "Q": ["0.0", "1.0"]}, "both contain '0.0'"),
    "status": ([{"P": ["true", "false"]}, {"Q": ["true"]}], "only part of 'P'"),
}


def test_areas_that_do_not_nest_are_refused(hostile):
    columns = {name: {"parents": parents} for name, (parents, _) in PARENTS.items()}
    tables = [{"rows": [name]} for name in columns]
    with pytest.raises(SpecError) as refused:
        preview(hostile, pack_spec_from({"columns": columns, "tables": tables}))
    for problem, (_, words) in zip(refused.value.problems, PARENTS.values(), strict=True):
        assert words in problem


def test_a_readme_shows_what_markdown_would_run(hostile):
    pack = preview(hostile, pack_spec_from({"tables": [{"columns": ["status"]}]}))
    for text, written in (
        ("<script>alert(1)</script>", r"\<script\>alert(1)\</script\>"),
        ("[x](javascript:1) ![p](//e)", r"\[x\](javascript:1) \!\[p\](//e)"),
        ("`c` *b* __b__ snake_case ~~s~~", r"\`c\` \*b\* \_\_b\_\_ snake_case \~\~s\~\~"),
        ("# head\n# of two", r"\# head # of two"),
        ("&lt; AT&T", r"\&lt; AT&T"),
        ("red\x1b[31m\u202e", r"red\\x1b\[31m\\u202e"),
        ("-5 to 3", "-5 to 3"),
    ):
        odd = replace(pack, titles=(text, *pack.titles[1:]), footnotes=((text,) * 2,))
        shown = markdown(odd, ["README.md"])
        assert shown.startswith(f"# {written}\n")
        assert f"\n- {written}\n" in shown


SPEC = {
    "pack": {"title": "表題", "languages": ["ar", "el"], "max_width": 1, "max_tables": len(NAMES)},
    "footnotes": [{"ar": "ملاحظة", "el": "注釈"}],
    "words": {
        "contents": {"ar": "فهرس", "el": "目次: [1/2]"},
        "notes": {"ar": "فهرس", "el": "注" * 40},
    },
}


@pytest.fixture(scope="module")
def pack_of_names(tmp_path_factory):
    for package in ("pyarrow", "xlsxwriter", "jinja2"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("names")
    return published(make_named(folder), folder / "pack", SPEC)


@pytest.mark.ci
@pytest.mark.parametrize("format_", ["csv", "parquet", "jsonstat", "px", "sdmx", "html"])
def test_every_name_is_in_every_format(pack_of_names, format_):
    found = {
        name
        for i in range(len(NAMES))
        for name in names_in(pack_of_names, format_, f"T{i + 1:04d}")
    }
    assert {written(format_, name) for name in NAMES} <= found


def names_in(pack_of_names, format_, table) -> list[str]:
    if format_ == "csv":
        return list(rows_of(pack_of_names / f"tables/{table}.csv")[0])
    if format_ == "parquet":
        import pyarrow.parquet

        return pyarrow.parquet.read_schema(pack_of_names / f"tables/{table}.parquet").names
    if format_ == "jsonstat":
        return loaded(pack_of_names / f"jsonstat/{table}.json")["id"]
    if format_ == "px":
        text = (pack_of_names / f"px/{table}.px").read_text("utf-8")
        return re.findall(r'^STUB="(.*?)";$|^"(.*)"$', text, re.MULTILINE)[0]
    if format_ == "sdmx":
        flows = loaded(pack_of_names / "sdmx/structure.json")["data"]["dataflows"]
        return [flow["name"] for flow in flows if flow["id"] == table]
    import html

    page = (pack_of_names / f"pages/{table}.html").read_text("utf-8")
    return [html.unescape(x) for x in re.findall(r'<th dir="auto" scope="col">([^<]*)</th>', page)]


def written(format_, name) -> str:
    """PC-Axis has no double quotes and no line breaks in a text."""
    return " ".join(name.replace('"', "'").split()) if format_ == "px" else name


@pytest.mark.ci
@pytest.mark.parametrize("file", ["pack.xlsx", "pack~el.xlsx"])
def test_the_workbook_shows_values_and_notes_of_every_script_as_they_are(pack_of_names, file):
    book = pytest.importorskip("openpyxl").load_workbook(pack_of_names / file)
    cells = {cell.value for sheet in book for row in sheet.iter_rows() for cell in row}
    assert set(VALUES[:2]) <= cells
    assert {"— (code —)", "ملاحظة" if file == "pack.xlsx" else "注釈"} <= cells
    assert {" ".join(name.split()) for name in NAMES} - {"=1+1"} <= cells
    assert not any("\ue000" in cell for cell in cells if isinstance(cell, str))
    assert len(book.sheetnames) == 3 + len(NAMES)
    for sheet in book:
        for table in sheet.tables.values():
            heads = [cell.value for cell in sheet[table.ref][0]]
            assert heads == [column.name for column in table.tableColumns]


@pytest.mark.ci
def test_file_names_differ_on_every_system(pack_of_names):
    paths = [path.relative_to(pack_of_names).as_posix() for path in pack_of_names.rglob("*")]
    assert len({unicodedata.normalize("NFC", path).casefold() for path in paths}) == len(paths)
    assert len(list((pack_of_names / "codelists").iterdir())) == len(NAMES)
    for path in paths:
        assert not re.search(r'[\x00-\x1f\\:*?"<>|]|^ | $|\.$|(^|/)con\.', path), path


@pytest.mark.ci
def test_pages_are_written_in_the_direction_of_their_language(pack_of_names):
    for page in ("index.html", "README.html", "pages/T0001.html"):
        assert '<html lang="ar" dir="rtl">' in (pack_of_names / page).read_text("utf-8")
        assert '<html lang="el" dir="ltr">' in (pack_of_names / "el" / page).read_text("utf-8")


@pytest.mark.parametrize(
    "name",
    [
        *NAMES,
        "",
        "'",
        "[]:*?/\\",
        "History",
        "x" * 40,
        "😀" * 20,
        "x" * 30 + "'",
        "T" * 31,
        "Straße",
    ],
)
def test_a_sheet_has_a_name_that_workbooks_allow(name):
    taken: list[str] = []
    for _ in range(12):
        taken.append(sheet_name(name, taken))
    assert len({one.casefold() for one in taken} - {"history"}) == 12
    for one in taken:
        assert 0 < len(one.encode("utf-16-le")) // 2 <= MAX_SHEET
        assert not re.search(r"[\x00-\x1f\[\]:*?/\\]|^'|'$", one)
