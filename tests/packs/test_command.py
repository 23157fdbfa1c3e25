"""What helps a publisher: dry run, JSON, the example of a pack.toml, warnings, mistakes in words; how sheets look."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace

import numpy as np
import pytest
import typer
from fixtures.pack import SPEC, rows_of, shared_release
from typer.testing import CliRunner

from engine.cli.publish import EXAMPLE, publish_command
from engine.errors import SpecError, TablepackError
from queries.packs import example_spec, pack_spec_from, preview, publish
from queries.packs.formats.chart import chart
from queries.packs.formats.site import write_site
from queries.packs.model import STATUSES
from queries.packs.spec import ColumnSpec, GroupSpec, PackInfo, PackSpec, TableSpec
from queries.packs.texts import SIGNS, WORDS, pack_words
from queries.release import open_release

pytest.importorskip("pyarrow")
openpyxl = pytest.importorskip("openpyxl")
pytest.importorskip("gptables")
pytest.importorskip("jinja2")


@pytest.fixture(scope="module")
def release(census, tmp_path_factory):
    return shared_release(tmp_path_factory, census)


@pytest.fixture
def run(release, tmp_path):
    app = typer.Typer()
    app.command("publish", epilog=EXAMPLE)(publish_command)
    (tmp_path / "p.toml").write_text(SPEC)

    def call(*words):
        return CliRunner().invoke(app, [str(w) for w in words])

    return call


def test_the_dry_run_lists_the_tables_and_writes_nothing(run, release, tmp_path):
    for words in ((tmp_path / "out", "--dry-run"), ("--dry-run",)):
        done = run(release, *words, "--spec", tmp_path / "p.toml")
        assert done.exit_code == 0, done.output
        assert [w for w in ("T1", "T6", "measured") if w not in done.stdout] == []
    done = run(release, "--dry-run", "--json", "--spec", tmp_path / "p.toml")
    told = json.loads(done.stdout)
    assert [t["id"] for t in told["tables"]] == [f"T{i}" for i in range(1, 7)]
    assert told["tables"][0]["statuses"]["reliable"] == told["tables"][0]["rows"] == 39
    assert told["tables"][5]["listed"] == "measured only"
    sizes = {"CSV and Parquet": 18, "SDMX": 7, "JSON-stat": 10, "PC-Axis": 5}
    assert {name: told["formats"][name] for name in sizes} == sizes  # no cube of what is listed
    assert [p.name for p in tmp_path.iterdir()] == ["p.toml"]
    assert run(release).exit_code == 2  # neither a folder nor --dry-run


def test_the_result_as_json(run, release, tmp_path):
    (tmp_path / "p.toml").write_text(SPEC.replace('["en", "cy"]', '["en", "cy", "xx"]'))
    done = run(release, tmp_path / "out", "--json", "--spec", tmp_path / "p.toml")
    told = json.loads(done.stdout)
    names = {p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*.*")}
    assert set(told["files"]) == {n for n in names if (tmp_path / "out" / n).is_file()} | {
        "SHA256SUMS"
    }
    assert len(told["warnings"]) == 1
    done = run(release, "--dry-run", "--spec", tmp_path / "p.toml")
    assert "warning: pack.languages: no text is in 'xx'" in done.stderr


def test_the_example_has_every_key_and_is_a_pack_spec(run, release):
    text = run("--example").stdout
    assert text == example_spec()
    pack_spec_from(tomllib.loads(text))
    for model in (PackInfo, GroupSpec, ColumnSpec, TableSpec):
        for key in model.model_fields:
            assert re.search(rf"(^|[{{ ]){key} = ", text, re.MULTILINE), key
    for key in PackSpec.model_fields:
        assert re.search(rf"^\[+{key}\b", text, re.MULTILINE), key


def test_unknown_keys_are_told_with_near_ones_all_at_once():
    raw = {
        "pack": {"titel": "x", "identifier": "a b"},
        "columns": {"age": {"group": [], "groups": [{"code": "x", "rang": [0, 1]}]}},
        "tables": [{"id": "H1", "rows": ["a"], "subtotal": ["a"]}, {"id": "1 x", "rows": ["a"]}],
        "footnote": [],
    }
    with pytest.raises(SpecError) as refused:
        pack_spec_from(raw)
    told = "\n".join(refused.value.problems)
    for words in (
        "pack.titel: there is no such key; near: title",
        "pack.identifier: 'a b' is no identifier",
        "columns.age.group: there is no such key; near: groups",
        "columns.age.groups.0.rang: there is no such key; near: range",
        "table H1.subtotal: there is no such key; near: subtotals",
        "table 1 x.id: '1 x' is no id",
        "footnote: there is no such key; near: footnotes",
    ):
        assert words in told
    assert len(refused.value.problems) == 7
    with pytest.raises(SpecError) as refused:
        pack_spec_from(
            {"pack": {"include": ["my.key"]}, "tables": [{"id": "a", "rows": ["x"]}] * 2}
        )
    assert len(refused.value.problems) == 2


def test_mistakes_of_all_columns_and_tables_are_told_at_once(release):
    raw = {
        "columns": {
            "region": {"parents": {"P": ["R1", "RX"]}},
            "sex": {"values": {"Femal": "x"}},
        },
        "tables": [{"rows": ["region"], "cols": ["sex"]}],
    }
    bad = {"tables": [{"columns": ["sex", "income"]}, {"rows": ["sex"], "subtotals": ["sex"]}]}
    with open_release(release) as opened:
        with pytest.raises(SpecError) as refused:
            preview(opened, pack_spec_from(raw))
        assert [p.split(":")[0] for p in refused.value.problems] == [
            "columns.region.parents",
            "columns.sex.values",
        ]
        with pytest.raises(SpecError) as refused:
            preview(opened, pack_spec_from(bad))
        assert [p.split(":")[0] for p in refused.value.problems] == [
            "tables, T0001",
            "tables, T0002",
        ]
        with pytest.raises(SpecError) as refused:
            preview(opened, pack_spec_from({"tables": [{"rows": ["agee"]}, {"rows": ["sexx"]}]}))
        assert len(refused.value.problems) == 2


def test_what_is_seldom_meant_is_warned_of(release):
    overlap = [{"code": "0-15", "range": [0, 15]}, {"code": "10-64", "range": [10, 64]}]
    inside = [{"code": "0-64", "range": [0, 64]}, {"code": "10-20", "range": [10, 20]}]
    with open_release(release) as opened:

        def warnings_of(groups, parents=""):
            columns = {"age": {"groups": groups}, "birth_country": {"parents": parents}}
            tables = [{"rows": ["age"]}, {"rows": ["birth_country"]}]
            return preview(opened, pack_spec_from({"columns": columns, "tables": tables})).warnings

        assert warnings_of(inside) == ()
        assert "'0-15' and '10-64' overlap" in warnings_of(overlap)[0]
        country = opened.values("birth_country")[0][0]
        (told,) = warnings_of([], {"R1": [country]})
        assert "values of the column region, too" in told


def test_a_pack_without_an_identifier_gets_one_of_its_own(release):
    with open_release(release) as opened:
        made = preview(opened, pack_spec_from({"tables": [{"rows": ["sex"]}]}))
        assert made.info.identifier == f"urn:tablepack:{opened.content_hash}"


def test_words_can_be_said_in_every_language():
    words = pack_words({"language": {"en": "English", "fr": "Français"}}, ["en", "fr", "cy"])
    assert words["language"] == ("English", "Français", "cy")
    assert pack_words({}, ["en", "fr", "de-AT"])["language"] == ("English", "fr", "Deutsch")
    told = pack_words(
        {"total": {"en": "All", "de": "Alle"}, "chart": "X"}, ["en", "fr", "de", "de-CH"]
    )
    assert told["total"] == ("All", "Total", "Alle", "Insgesamt")
    assert told["chart"] == ("X",) * 4
    assert {f"about {s}" for s in ("reliable", "not released")} < set(WORDS)
    with pytest.raises(TablepackError, match="is not used"):
        pack_words({"about realiable": "x"}, ["en"])


def test_a_workbook_in_every_language(pack):
    book = openpyxl.load_workbook(pack / "pack~cy.xlsx")
    cells = [c.value for row in book["T1"].iter_rows() for c in row]
    assert {"Rhanbarth", "Cyfanswm"} <= set(cells)
    assert str(cells[0]).startswith("Pobl [note 1]")


def sheet(pack, name):
    return openpyxl.load_workbook(pack / "pack.xlsx")[name]


def test_sheets_explain_the_shorthand_they_hold_and_no_other(pack):
    for name in ("T1", "T5"):
        rows = [[str(c.value) for c in row] for row in sheet(pack, name).iter_rows()]
        head = next(i for i, row in enumerate(rows) if {"Marks", "Status"} & set(row))
        held = {m for row in rows[head:] for t in row for m in re.findall(r"\[[a-z]+\]", t)}
        told = {row[0].split(" ")[0] for row in rows[:head] if row[0].startswith("[")}
        assert told == held
        assert ("Some cells hold shorthand" in rows[1][0]) == bool(held)
    cover = " ".join(str(c.value) for row in sheet(pack, "Cover").iter_rows() for c in row)
    for mark in ("[c]", "[low]", "[u]", "[z]", "[x]"):
        assert mark in cover


def test_figures_of_a_column_have_the_same_digits(pack):
    for name, shape in (("T1", "#,##0"), ("T2", "#,##0.0")):
        formats = {
            c.number_format
            for row in sheet(pack, name).iter_rows()
            for c in row
            if isinstance(c.value, int | float)
        }
        assert formats == {shape}


def test_a_cross_table_has_the_interval_of_each_figure(pack):
    rows = [[c.value for c in row] for row in sheet(pack, "T1").iter_rows()]
    at = next(i for i, row in enumerate(rows) if "Marks" in row)
    ends = {"low": "Noise interval, low", "high": "Noise interval, high"}
    labels = {"_T": "Total", "Female": 'Women; "she"', "Male": "Male"}
    held = {(row["region_label_en"], row["sex"]): row for row in rows_of(pack / "tables/T1.csv")}
    for row in rows[at + 1 :]:
        shown = dict(zip(rows[at], row, strict=True))
        for code, label in labels.items():
            told = held[(shown["Region"], code)]
            assert str(shown[label]) == told["value"]
            for end, words in ends.items():
                assert str(shown[f"{label}: {words}"]) == told[end]
    assert len(rows) - at - 1 == len(held) / 3


def test_sheets_fit_one_page_across_with_headings_on_each(pack):
    book = openpyxl.load_workbook(pack / "pack.xlsx")
    for name in book.sheetnames:
        page = book[name].page_setup
        assert (page.fitToWidth or 1, page.fitToHeight) == (1, 0)
        assert book[name].sheet_properties.pageSetUpPr.fitToPage
        assert bool(book[name].print_title_rows) == name.startswith("T")


def test_figures_have_no_more_digits_than_they_are_worth(pack):
    for table in ("T2", "T4"):
        for row in rows_of(pack / f"tables/{table}.csv"):
            for figure in ("value", "low", "high"):
                assert row[figure] is None or len(row[figure].partition(".")[2]) <= 2


def test_pages_say_how_much_may_be_hidden(release, tmp_path):
    raw = {"tables": [{"id": "X", "rows": ["birth_country"], "cols": ["education"]}]}
    with open_release(release) as opened:
        publish(opened, tmp_path / "out", pack_spec_from(raw))
    hidden = [r for r in rows_of(tmp_path / "out/tables/X.csv") if r["status"] == "not released"]
    page = (tmp_path / "out/pages/X.html").read_text("utf-8")
    assert len(hidden) > 10
    assert page.count("at most ") >= len(hidden)
    assert f"at most {hidden[0]['high']}" in page


def test_structural_zeros_are_a_sign_on_pages_and_no_bars(release, tmp_path):
    raw = {"tables": [{"id": "X", "rows": ["region"]}]}
    with open_release(release) as opened:
        pack = preview(opened, pack_spec_from(raw))
    (made,) = pack.tables
    zero = STATUSES.index("structural zero")
    ruled = replace(made, status=np.where(np.arange(len(made)) == 0, zero, made.status))
    assert chart(made, 0, SIGNS).count("<rect") == len(made)
    assert chart(ruled, 0, SIGNS).count("<rect") == len(made) - 1
    write_site(replace(pack, tables=(ruled,)), tmp_path, [])
    row = re.search(
        r"<tbody>\s*<tr>(.*?)</tr>", (tmp_path / "pages/X.html").read_text("utf-8"), re.DOTALL
    )
    cells = re.findall(r"<td[^>]*>(.*?)</td>", row[1])
    assert cells == ["–", "", "structural zero"]
