"""What readers and publishers see of a pack: whether the release is in it, digits, nesting, charts, what cannot be."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
import typer
from fixtures.pack import rows_of, shared_release
from fixtures.pack_hostile import make_hostile
from typer.testing import CliRunner

import queries.packs.formats.readme
import queries.packs.publication
from engine.cli.publish import publish_command
from queries.packs import files_by_format, pack_spec_from, preview, publish
from queries.packs.files import File, Format, text_file
from queries.packs.formats import FORMATS
from queries.packs.formats.chart import chart
from queries.packs.formats.site import write_site
from queries.packs.model import STATUSES, decimals_of
from queries.packs.texts import SIGNS
from queries.release import open_release

pytest.importorskip("pyarrow")
openpyxl = pytest.importorskip("openpyxl")
pytest.importorskip("gptables")
pytest.importorskip("jinja2")
ONE = {"tables": [{"id": "T", "columns": ["sex"]}]}
NESTED = {
    "region": {
        "parents": [
            {"North": ["R1", "R2", "R3", "R4"], "South": ["R5", "R6", "R7", "R8", "R9"]},
            {"Country": ["North", "South"]},
        ]
    }
}


@pytest.fixture(scope="module")
def release(census, tmp_path_factory):
    return shared_release(tmp_path_factory, census)


def previewed(release, raw):
    with open_release(release) as opened:
        return preview(opened, pack_spec_from(raw))


@pytest.mark.parametrize("told", [None, False, True])
def test_who_chose_tables_hands_out_the_release_only_if_told(release, tmp_path, told):
    raw = ONE if told is None else {**ONE, "pack": {"release_file": told}}
    with open_release(release) as opened:
        publish(opened, tmp_path / "p", pack_spec_from(raw))
    files = {p.name for p in (tmp_path / "p").iterdir()}
    named = [(tmp_path / "p" / n).read_text("utf-8") for n in ("README.md", "index.html")]
    is_in = told is True
    assert (release.name in files) == (f"{release.name}.manifest.json" in files) == is_in
    assert [release.name in text for text in named] == [is_in, is_in]
    assert ("SQL prompt" in named[0]) == is_in
    assert (release.name in (tmp_path / "p/SHA256SUMS").read_text()) == is_in


def test_without_tables_too_the_release_is_in_only_if_told(release):
    assert previewed(release, {"pack": {"max_width": 1}}).release["file"] == ""
    asked = {"pack": {"max_width": 1, "release_file": True}}
    assert previewed(release, asked).release["file"] == release.name


def test_the_command_says_whether_the_release_is_in_it(release, tmp_path):
    app = typer.Typer()
    app.command("publish")(publish_command)

    def run(*words):
        done = CliRunner().invoke(app, [str(w) for w in (release, *words)])
        assert done.exit_code == 0, done.output
        return done.output

    table = '[[tables]]\ncolumns = ["sex"]\n'
    (tmp_path / "with.toml").write_text(f"[pack]\nrelease_file = true\n{table}")
    (tmp_path / "without.toml").write_text(table)
    for words in (("--dry-run",), (tmp_path / "p",)):
        assert "release_file = true" in run(*words, "--spec", tmp_path / "without.toml")
        shutil.rmtree(tmp_path / "p", ignore_errors=True)
        assert "release_file = false" in run(*words, "--spec", tmp_path / "with.toml")
    for ending, name in (("with", release.name), ("without", "")):
        said = run("--dry-run", "--json", "--spec", tmp_path / f"{ending}.toml")
        assert json.loads(said)["release_file"] == name


def test_labels_stand_in_what_is_shown_around_them_and_no_further(release, tmp_path):
    shown = {"rows": ["region"], "cols": ["sex"]}
    tables = [{"id": "ALL", **shown, "subtotals": ["region"]}, {"id": "FLAT", **shown}]
    with open_release(release) as opened:
        publish(opened, tmp_path / "p", pack_spec_from({"columns": NESTED, "tables": tables}))
    book = openpyxl.load_workbook(tmp_path / "p/pack.xlsx")

    def indents(name):
        cells = [row[0] for row in book[name].iter_rows()]
        return {c.value: int(c.alignment.indent) for c in cells if c.value}

    deep = indents("ALL")
    assert [deep[name] for name in ("Country", "North", "R1", "South")] == [0, 1, 2, 1]
    assert set(indents("FLAT").values()) == {0}
    assert '<th scope="row" class="d2 value">R1' in (tmp_path / "p/pages/ALL.html").read_text()
    assert '<th scope="row" class="d0 value">R1' in (tmp_path / "p/pages/FLAT.html").read_text()


def test_a_chart_shows_no_area_beside_what_lies_in_it(release):
    told = {"columns": ["region"], "only_groups": ["region"], "totals": ["region"]}
    (table,) = previewed(release, {"columns": NESTED, "tables": [told]}).tables
    assert chart(table, 0, SIGNS).count("<rect") == 2  # North and South, not Country


def test_digits_tell_the_ends_of_most_intervals_apart():
    value = np.array([47.62, 30.92, 14.28, np.nan])
    near = (value - 0.01, value + 0.01)
    assert decimals_of(value, value - 1, value + 1, is_whole=False) == 1
    assert decimals_of(value, *near, is_whole=False) == 2
    assert decimals_of(value, value, value, is_whole=False) == 1  # no noise, no digits of it
    assert decimals_of(value, value - 1e-9, value + 1e-9, is_whole=False) == 3
    assert decimals_of(value, *near, is_whole=True) == 0


def test_an_area_without_a_name_holds_and_is_held(tmp_path):
    release = make_hostile(tmp_path)
    raw = {
        "columns": {"value": {"parents": [{"": ["_E", "***"], "rest": ["_T"]}]}},
        "tables": [{"id": "V", "columns": ["value"], "only_groups": ["value"]}],
    }
    with open_release(release) as opened:
        publish(opened, tmp_path / "p", pack_spec_from(raw))
    codes = rows_of(tmp_path / "p/codelists/value.csv")
    assert all(r["code"] and r["label"] for r in codes)
    parents = {r["code"]: r["parent"] for r in codes}
    area = parents["***"]
    assert area == parents["_E"] is not None
    figures = {r["value"]: float(r["value_"]) for r in rows_of(tmp_path / "p/tables/V.csv")}
    assert figures[area] > 0


def test_nothing_sticks_out_of_a_phone(release, tmp_path):
    api = pytest.importorskip("playwright.sync_api")
    found = shutil.which("chromium")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("Chromium is not installed: ./scripts/browser installs it")
        pytest.skip("Chromium is not installed")
    pack = previewed(release, {"tables": [{"rows": ["sex"], "cols": ["region"]}]})
    (table,) = pack.tables
    zero = np.full(len(table), STATUSES.index("structural zero"), dtype=np.uint8)
    wide = tuple("wide" * 30 for _ in pack.languages)
    dimensions = (table.dimensions[0], replace(table.dimensions[1], labels=wide))
    table = replace(table, status=zero, dimensions=dimensions, stub=(0, 1), heading=())
    across = replace(table, id="X", stub=(0,), heading=(1,))
    files = [File(path="tables/" + "x" * 90, write=print, table=t.id) for t in (table, across)]
    write_site(replace(pack, tables=(table, across)), tmp_path, files)
    with api.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = opened.new_page(viewport={"width": 320, "height": 700})
        for path in ("index.html", "pages/T0001.html", "pages/X.html"):
            page.goto((tmp_path / path).as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= 320, path
        opened.close()


def test_a_format_that_is_declared_is_in_all_that_describes_files(release, tmp_path, monkeypatch):
    def files(pack):
        for t in pack.tables:
            yield text_file(f"tab/{t.id}.tsv", lambda: "x\n", media_type="text/tsv", table=t.id)

    declared = (*FORMATS, Format(name="tab", path="tab/", about="tabs between", files=files))
    monkeypatch.setattr(queries.packs.publication, "FORMATS", declared)
    monkeypatch.setattr(queries.packs.formats.readme, "FORMATS", declared)
    stages = []
    with open_release(release) as opened:
        spec = pack_spec_from(ONE)
        publish(opened, tmp_path / "p", spec, progress=lambda *stage: stages.append(stage))
        assert files_by_format(preview(opened, spec))["tab"] == ["tab/T.tsv"]
    assert (tmp_path / "p/tab/T.tsv").read_text() == "x\n"
    assert "- tab/: tabs between\n" in (tmp_path / "p/README.md").read_text("utf-8")
    assert 'href="../tab/T.tsv"' in (tmp_path / "p/pages/T.html").read_text("utf-8")
    (dataset,) = json.loads((tmp_path / "p/catalog.jsonld").read_text())["dcat:dataset"]
    assert "text/tsv" in {d["dcat:mediaType"] for d in dataset["dcat:distribution"]}
    assert "  tab/T.tsv\n" in (tmp_path / "p/SHA256SUMS").read_text()
    assert ("writing tab", 1, 1) in stages
