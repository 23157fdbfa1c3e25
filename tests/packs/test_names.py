"""Names and values of every script in every format of a pack, in file names and in sheet names."""

from __future__ import annotations

import re
import unicodedata

import pytest
from fixtures.names import NAMES, VALUES, make_named
from fixtures.pack import loaded, published, rows_of

from queries.packs.files import MAX_SHEET, sheet_name

SPEC = {
    "pack": {"title": "表題", "languages": ["ar", "el"], "max_width": 1, "max_tables": len(NAMES)},
    "footnotes": [{"ar": "ملاحظة", "el": "注釈"}],
    "words": {
        "contents": {"ar": "فهرس", "el": "目次: [1/2]"},
        "notes": {"ar": "فهرس", "el": "注" * 40},
    },
}


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    for package in ("pyarrow", "xlsxwriter", "jinja2"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("names")
    return published(make_named(folder), folder / "pack", SPEC)


@pytest.mark.ci
@pytest.mark.parametrize("format_", ["csv", "parquet", "jsonstat", "px", "sdmx", "html"])
def test_every_name_is_in_every_format(pack, format_):
    found = {name for i in range(len(NAMES)) for name in names_in(pack, format_, f"T{i + 1:04d}")}
    assert {written(format_, name) for name in NAMES} <= found


def names_in(pack, format_, table) -> list[str]:
    if format_ == "csv":
        return list(rows_of(pack / f"tables/{table}.csv")[0])
    if format_ == "parquet":
        import pyarrow.parquet

        return pyarrow.parquet.read_schema(pack / f"tables/{table}.parquet").names
    if format_ == "jsonstat":
        return loaded(pack / f"jsonstat/{table}.json")["id"]
    if format_ == "px":
        text = (pack / f"px/{table}.px").read_text("utf-8")
        return re.findall(r'^STUB="(.*?)";$|^"(.*)"$', text, re.MULTILINE)[0]
    if format_ == "sdmx":
        flows = loaded(pack / "sdmx/structure.json")["data"]["dataflows"]
        return [flow["name"] for flow in flows if flow["id"] == table]
    import html

    page = (pack / f"pages/{table}.html").read_text("utf-8")
    return [html.unescape(x) for x in re.findall(r'<th dir="auto" scope="col">([^<]*)</th>', page)]


def written(format_, name) -> str:
    """PC-Axis has no double quotes and no line breaks in a text."""
    return " ".join(name.replace('"', "'").split()) if format_ == "px" else name


@pytest.mark.ci
@pytest.mark.parametrize("file", ["pack.xlsx", "pack~el.xlsx"])
def test_the_workbook_shows_values_and_notes_of_every_script_as_they_are(pack, file):
    book = pytest.importorskip("openpyxl").load_workbook(pack / file)
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
def test_file_names_differ_on_every_system(pack):
    paths = [path.relative_to(pack).as_posix() for path in pack.rglob("*")]
    assert len({unicodedata.normalize("NFC", path).casefold() for path in paths}) == len(paths)
    assert len(list((pack / "codelists").iterdir())) == len(NAMES)
    for path in paths:
        assert not re.search(r'[\x00-\x1f\\:*?"<>|]|^ | $|\.$|(^|/)con\.', path), path


@pytest.mark.ci
def test_pages_are_written_in_the_direction_of_their_language(pack):
    for page in ("index.html", "README.html", "pages/T0001.html"):
        assert '<html lang="ar" dir="rtl">' in (pack / page).read_text("utf-8")
        assert '<html lang="el" dir="ltr">' in (pack / "el" / page).read_text("utf-8")


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
