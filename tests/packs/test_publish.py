"""`publish` and its command: what they refuse, that nothing is half-written, that packs are reproducible, the site."""

from __future__ import annotations

import html
import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fixtures.pack import SPEC, published
from fixtures.pipeline import tablepack
from fixtures.release import HEADER, build_release
from fixtures.release_dp import spec_in

import queries.packs.publication
from engine.api.publish import publish_pack
from engine.errors import DamagedRelease, PrivacyError, SpecError, StoreError
from engine.evaluation.compare import SCRATCH
from engine.guarantee import Guarantee
from engine.release import build
from queries.packs import files_by_format, pack_spec_from, preview, publish
from queries.packs.texts import guarantee_notes, translations
from queries.release import open_release

ONE = {"pack": {"workbook_rows": 0}, "tables": [{"id": "T", "columns": ["sex"]}]}
ONE_TOML = '[pack]\nworkbook_rows = 0\n{more}\n[[tables]]\nid = "T"\ncolumns = ["sex"]\n'


def content(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }


@pytest.mark.ci
def test_two_packs_have_the_same_bytes_by_the_command_too(pack, release, tmp_path):
    (tmp_path / "p.toml").write_text(SPEC, encoding="utf-8")
    done = tablepack("publish", release, "again", "--spec", "p.toml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    one, two = content(pack), content(tmp_path / "again")
    assert set(json.loads(done.stdout)["files"]) == one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == []


def test_the_release_is_in_the_pack_and_answers(pack):
    with open_release(pack / "census.duckdb", verify="hash") as opened:
        assert opened.sql("SELECT count(*) FROM data").rows[0][0] > 1000


def test_pages_ask_for_nothing_from_outside(pack):
    pages = list(pack.rglob("*.html"))
    assert len(pages) == 2 * (8 + 2)  # in each language a page per table, the index and the README
    for page in pages:
        text = page.read_text("utf-8")
        for link in re.findall(r'(?:src|href)="([^"]*)"', text):
            if link.startswith(("http", "mailto")):
                assert f'<a href="{link}"' in text  # a person may follow it; nothing is loaded
            elif not link.startswith("#"):
                assert (page.parent / link).exists(), (page, link)


def test_a_folder_that_is_not_empty_or_cannot_be_written_is_refused(opened, tmp_path):
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(StoreError, match="is not an empty directory"):
        published(opened, tmp_path, ONE)
    with pytest.raises(StoreError, match="cannot be written"):
        published(opened, tmp_path / "mine.txt" / "pack", ONE)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


def test_nothing_is_half_written(opened, tmp_path, monkeypatch):
    def full(*args, **more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(queries.packs.publication, "write_site", full)
    with pytest.raises(StoreError, match="No space left"):
        published(opened, tmp_path / "pack", ONE)
    assert not list(tmp_path.iterdir())


@pytest.mark.ci
def test_confidential_reports_and_documents_of_one_name_are_refused(release, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.md").write_text("x")
    (tmp_path / "p.toml").write_text('[pack]\ninclude = ["a/x.md", "b/x.md"]\n')
    with pytest.raises(SpecError, match="same name"):
        publish_pack(release, tmp_path / "out", spec=tmp_path / "p.toml")
    (tmp_path / "report.html").write_text('<meta name="tablepack" content="confidential">')
    (tmp_path / "p.toml").write_text(ONE_TOML.format(more='include = ["report.html"]'))
    with pytest.raises(PrivacyError, match="is a confidential report"):
        publish_pack(release, tmp_path / "out", spec=tmp_path / "p.toml")
    assert not (tmp_path / "out").exists()
    (tmp_path / "report.html").write_text("<p>rounded scores only")
    publish_pack(release, tmp_path / "out", spec=tmp_path / "p.toml")
    assert (tmp_path / "out/documents/report.html").exists()


def test_releases_of_compare_and_replaced_ones_are_refused(release, tmp_path):
    build_release(tmp_path / "scratch.duckdb", header=replace(HEADER, notes=(SCRATCH,)))
    with pytest.raises(PrivacyError, match="built for a comparison"):
        publish_pack(tmp_path / "scratch.duckdb", tmp_path / "out")
    for path in (release, release.with_name(release.name + ".manifest.json")):
        shutil.copy(path, tmp_path)
    with open_release(tmp_path / release.name) as opened:
        for ending in ("", ".manifest.json"):
            (tmp_path / f"scratch.duckdb{ending}").replace(tmp_path / f"{release.name}{ending}")
        with pytest.raises(StoreError, match="was replaced since it was opened"):
            publish(opened, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_damaged_or_missing_release_is_refused(release, tmp_path):
    with pytest.raises(StoreError, match="none"):
        publish_pack(tmp_path / "none.duckdb", tmp_path / "out")
    for path in (release, release.with_name(release.name + ".manifest.json")):
        shutil.copy(path, tmp_path)
    data = bytearray((tmp_path / release.name).read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / release.name).write_bytes(data)
    with pytest.raises(DamagedRelease):
        publish_pack(tmp_path / release.name, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.ci
def test_a_release_without_a_guarantee_is_refused_unless_asked_for_and_says_so(tmp_path):
    build(spec_in(tmp_path, dp="guarantee = false"), tmp_path / "r.duckdb", jobs=1)
    with open_release(tmp_path / "r.duckdb") as opened:
        spec = pack_spec_from({"pack": {"max_width": 1}})
        with pytest.raises(PrivacyError, match=r"NO PRIVACY GUARANTEE.*--unprotected"):
            publish(opened, tmp_path / "out", spec)
        assert not (tmp_path / "out").exists()
        publish(opened, tmp_path / "out", spec, unprotected=True)
    book = pytest.importorskip("openpyxl").load_workbook(tmp_path / "out/pack.xlsx")
    cells = " ".join(str(c.value) for s in book for row in s.iter_rows() for c in row)
    readmes = [(tmp_path / "out" / n).read_text("utf-8") for n in ("README.md", "README.html")]
    for text in (*readmes, cells):
        assert "include no noise" in text
        assert "includes random noise" not in text
    assert Guarantee(epsilon=None).promise() in readmes[0]


@pytest.mark.ci
def test_what_is_guaranteed_to_whom_is_said_in_every_language(tmp_path):
    build(spec_in(tmp_path, dp='epsilon = 1.0\nmissing_ids = "own"'), tmp_path / "r.duckdb", jobs=1)
    with open_release(tmp_path / "r.duckdb") as opened:
        held = Guarantee.of(opened.card(*opened.tables[0]).dp)
        publish(opened, tmp_path / "out", pack_spec_from({"pack": {"languages": ["en", "de"]}}))
    said = {
        name: (tmp_path / "out" / name).read_text("utf-8")
        for name in ("README.html", "de/README.html")
    }
    assert all(html.escape(line) in said["README.html"] for line in held.sentences())
    assert not any(html.escape(line) in said["de/README.html"] for line in held.sentences())
    german = list(guarantee_notes(held, translations()["de"]))
    assert len(german) >= 4
    assert all(html.escape(line) in said["de/README.html"] for line in german)
    page = next((tmp_path / "out" / "de" / "pages").glob("*.html")).read_text("utf-8")
    assert "geschützte Einheit (pid: " in page


@pytest.mark.ci
def test_the_dry_run_lists_the_tables_and_writes_nothing(release, tmp_path):
    more = 'languages = ["en", "de", "cy", "xx"]\n[columns.sex]\nlabel = {cy = "Rhyw", de = "Sex"}'
    (tmp_path / "p.toml").write_text(ONE_TOML.format(more=more))
    done = tablepack("publish", release, "out", "--dry-run", "--spec", "p.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].split()[0] == "T"
    assert "release_file = true" in done.stderr  # adds the release, which is left out
    # A language with some texts lacks words of the pages; one without any is all in the main language.
    found = [x.split(": ")[1:] for x in done.stderr.splitlines() if x.startswith("warning: ")]
    assert [where for where, *_ in found] == ["no publisher", "words", "pack.languages"]
    assert ["'cy'" in found[1][1], "'xx'" in found[2][1]] == [True, True]
    (tmp_path / "p.toml").write_text(SPEC, encoding="utf-8")
    done = tablepack("publish", release, "--dry-run", "--json", "--spec", "p.toml", cwd=tmp_path)
    listed = json.loads(done.stdout)
    assert [t["id"] for t in listed["tables"]] == [*(f"T{i}" for i in range(1, 7)), "P1", "P2"]
    statuses = listed["tables"][0]["statuses"]
    assert statuses["reliable"] > 30
    assert sum(statuses.values()) == listed["tables"][0]["rows"] == 39
    assert listed["tables"][5]["listed"] == "measured only"
    sizes = {"CSV and Parquet": 24, "SDMX": 9, "JSON-stat": 14, "PC-Axis": 7}
    assert {n: listed["formats"][n] for n in sizes} == sizes  # no cube of what is listed
    assert listed["release_file"] == release.name
    assert listed["warnings"] == []
    assert [p.name for p in tmp_path.iterdir()] == ["p.toml"]
    assert tablepack("publish", release, cwd=tmp_path).returncode == 2  # no folder, no --dry-run


def names_of_the_release(folder, release):
    """Where a pack names the release."""
    texts = [folder / n for n in ("README.md", "index.html", "SHA256SUMS")]
    files = [p.name for p in folder.iterdir() if p.name.startswith(release.name)]
    return sorted(files) + [p.name for p in texts if release.name in p.read_text("utf-8")]


def test_the_release_is_in_the_pack_if_the_spec_says_so(release, tmp_path):
    (tmp_path / "p.toml").write_text(ONE_TOML.format(more="release_file = true"))
    done = tablepack("publish", release, "p", "--spec", "p.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(rf"{re.escape(release.name)}: .*release_file = false", done.stderr)
    files = [release.name, f"{release.name}.manifest.json"]
    texts = ["README.md", "index.html", "SHA256SUMS"]
    assert names_of_the_release(tmp_path / "p", release) == files + texts
    assert "tablepack sql" in (tmp_path / "p/README.md").read_text("utf-8")


PLUGIN = """
from queries.packs import Format, text_file

def files(pack):
    for t in pack.tables:
        yield text_file(f"tab/{t.id}.tsv", lambda: "x\\n", media_type="text/tsv", table=t.id)

TAB = Format(name="tab", path="tab/", about="tabs between", files=files)
PX = Format(name="mine", path="px/", about="in the place of another", files=files)
"""


def install(folder, monkeypatch, name):
    """A package with a format, as pip leaves it."""
    (folder / "plugged_format.py").write_text(PLUGIN)
    info = folder / "plugged_format-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged-format\nVersion: 1.0\n")
    text = f"[tablepack.formats]\nmine = plugged_format:{name}\n"
    (info / "entry_points.txt").write_text(text)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "plugged_format", raising=False)


def test_a_format_of_an_installed_package_is_in_everything_that_describes_files(
    release, opened, tmp_path, monkeypatch
):
    install(tmp_path, monkeypatch, "TAB")
    stages = []
    published(opened, tmp_path / "p", ONE, progress=lambda *stage: stages.append(stage))
    assert files_by_format(preview(opened, pack_spec_from(ONE)))["tab"] == ["tab/T.tsv"]
    assert (tmp_path / "p/tab/T.tsv").read_text() == "x\n"
    assert "- tab/: tabs between\n" in (tmp_path / "p/README.md").read_text("utf-8")
    assert 'href="../tab/T.tsv"' in (tmp_path / "p/pages/T.html").read_text("utf-8")
    (dataset,) = json.loads((tmp_path / "p/catalog.jsonld").read_text())["dcat:dataset"]
    assert "text/tsv" in {d["dcat:mediaType"] for d in dataset["dcat:distribution"]}
    assert "  tab/T.tsv\n" in (tmp_path / "p/SHA256SUMS").read_text()
    assert ("writing tab", 1, 1) in stages
    assert names_of_the_release(tmp_path / "p", release) == []  # unless the spec says so
    assert "tablepack sql" not in (tmp_path / "p/README.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "why"), [("PX", "another format"), ("files", "not a"), ("NONE", "cannot be loaded")]
)
def test_a_format_that_cannot_be_used_is_refused_by_its_package(
    opened, tmp_path, monkeypatch, name, why
):
    install(tmp_path, monkeypatch, name)
    with pytest.raises(StoreError, match=f"'mine' of the package plugged-format .*{why}"):
        published(opened, tmp_path / "p", ONE)
    assert not (tmp_path / "p").exists()


def test_hostile_labels_stay_text(opened, tmp_path):
    labels = {"label": "=1+1", "values": {"Female": '<b>&"x', "Male": "***"}}
    title = "<script>alert(1)</script>"
    raw = {
        "pack": dict.fromkeys(("title", "publisher", "contact", "description"), title),
        "footnotes": [title],
        "tables": [{"columns": ["sex"], "footnotes": [title]}],
        "columns": {"sex": labels},
    }
    made = published(opened, tmp_path / "out", raw)
    pages = {page.name: page.read_text("utf-8") for page in made.rglob("*.html")}
    assert pages.keys() == {"index.html", "README.html", "T0001.html"}
    for text in pages.values():
        assert "<script>alert" not in text
        assert "<b>&" not in text
    assert "<svg" in pages["T0001.html"]
    assert pages["README.html"].count("&lt;script&gt;alert") >= 6
    sheet = pytest.importorskip("openpyxl").load_workbook(made / "pack.xlsx")["T0001"]
    cells = [c for row in sheet.iter_rows() for c in row]
    assert not [c for c in cells if c.data_type == "f"]
    assert any(str(c.value).startswith("***") for c in cells)
