"""`tablepack publish` as people run it: what it refuses, that nothing is half-written, that packs are reproducible."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import typer
from fixtures.pack import SPEC, make_pack, shared_release
from fixtures.release_dp import spec_in
from typer.testing import CliRunner

import queries.packs.publication
from engine.api.publish import publish_pack
from engine.cli.publish import EXAMPLE, publish_command
from engine.errors import DamagedRelease, PrivacyError, StoreError
from engine.release import build
from queries.release import open_release

pytest.importorskip("pyarrow")
pytest.importorskip("gptables")
pytest.importorskip("jinja2")
ONE_TABLE = '[[tables]]\ncolumns = ["sex"]\n'


@pytest.fixture(scope="module")
def release(census, tmp_path_factory):
    return shared_release(tmp_path_factory, census)


def content(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }


def test_two_packs_have_the_same_bytes(pack, release, tmp_path):
    again = make_pack(tmp_path, release)
    one, two = content(pack), content(again)
    assert one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == []


def test_the_checksums_are_of_all_files(pack):
    lines = (pack / "SHA256SUMS").read_text().splitlines()
    told = dict(reversed(line.split("  ")) for line in lines)
    files = content(pack)
    assert told.keys() == files.keys() - {"SHA256SUMS"}
    assert all(hashlib.sha256(files[name]).hexdigest() == told[name] for name in told)


def test_the_release_is_in_the_pack_and_answers(pack):
    with open_release(pack / "census.duckdb", verify="hash") as opened:
        assert opened.sql("SELECT count(*) FROM data").rows[0][0] > 1000


def test_the_only_date_is_that_of_the_spec(pack):
    dates = set()
    for name, data in content(pack).items():
        if Path(name).suffix in (".csv", ".json", ".jsonld", ".md", ".html", ".px"):
            dates |= set(re.findall(rb"\b20[0-9]{2}-[01][0-9]-[0-3][0-9]\b", data))
    assert dates == {b"2026-11-20"}


def test_the_readme_says_how_to_cite_and_what_noise_means(pack):
    for name in ("README.md", "README.html"):
        text = (pack / name).read_text("utf-8")
        assert "How to cite" in text
        assert "Office of Tests (2026): Tables of a simulated census" in text
        assert "noise interval" in text
        assert "confidence" not in text


def test_pages_ask_for_nothing_from_outside(pack):
    pages = list(pack.rglob("*.html"))
    assert len(pages) == 2 * 8  # seven and a README in each language
    for page in pages:
        text = page.read_text("utf-8")
        for link in re.findall(r'(?:src|href)="([^"]*)"', text):
            if link.startswith(("http", "mailto")):
                assert f'<a href="{link}"' in text  # a person may follow it; nothing is loaded
            elif not link.startswith("#"):
                assert (page.parent / link).exists(), (page, link)


def test_hostile_labels_stay_text(release, tmp_path):
    spec = '[pack]\ntitle = "<script>alert(1)</script>"\n[[tables]]\ncolumns = ["sex"]\n'
    spec += '[columns.sex]\nlabel = "=1+1"\nvalues = {Female = "<b>&\\"x", Male = "***"}\n'
    made = make_pack(tmp_path, release, spec)
    for page in made.rglob("*.html"):
        assert "<script>alert" not in page.read_text("utf-8")
    openpyxl = pytest.importorskip("openpyxl")
    cells = [
        c for row in openpyxl.load_workbook(made / "pack.xlsx")["T0001"].iter_rows() for c in row
    ]
    assert not [c for c in cells if c.data_type == "f"]
    assert any(str(c.value).startswith("***") for c in cells)


def test_a_folder_that_is_not_empty_is_refused(release, tmp_path):
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(StoreError, match="is not an empty directory"):
        publish_pack(release, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]
    with pytest.raises(StoreError, match="cannot be written"):
        publish_pack(release, tmp_path / "mine.txt" / "pack")


def test_nothing_is_half_written(release, tmp_path, monkeypatch):
    def full(*args, **more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(queries.packs.publication, "write_site", full)
    (tmp_path / "p.toml").write_text(ONE_TABLE)
    with pytest.raises(StoreError, match="No space left"):
        publish_pack(release, tmp_path / "pack", spec=tmp_path / "p.toml")
    assert [p.name for p in tmp_path.iterdir()] == ["p.toml"]


@pytest.mark.parametrize("package", ["gptables", "jinja2", "pyarrow"])
def test_a_missing_package_is_named(release, tmp_path, monkeypatch, package):
    real = queries.packs.publication.importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *a: None if name == package else real(name, *a)
    )
    with pytest.raises(
        StoreError, match=rf"a pack needs {package}: pip install 'tablepack\[pack\]'"
    ):
        publish_pack(release, tmp_path / "pack")


def test_confidential_reports_are_refused(release, tmp_path):
    (tmp_path / "report.html").write_text('<meta name="tablepack" content="confidential">')
    (tmp_path / "p.toml").write_text(f'[pack]\ninclude = ["report.html"]\n{ONE_TABLE}')
    with pytest.raises(PrivacyError, match="is a confidential report"):
        publish_pack(release, tmp_path / "out", spec=tmp_path / "p.toml")
    assert not (tmp_path / "out").exists()
    (tmp_path / "report.html").write_text("<p>rounded scores only")
    publish_pack(release, tmp_path / "out", spec=tmp_path / "p.toml")
    assert (tmp_path / "out/documents/report.html").exists()


def test_two_documents_of_one_name_are_refused(release, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.md").write_text("x")
    (tmp_path / "p.toml").write_text('[pack]\ninclude = ["a/x.md", "b/x.md"]\n')
    with pytest.raises(ValueError, match="same name"):
        publish_pack(release, tmp_path / "out", spec=tmp_path / "p.toml")


def test_a_release_that_was_replaced_is_refused(census, release, tmp_path):
    from fixtures.pack import CENSUS, write_spec

    from engine.spec import read_spec

    for path in (release, release.with_name(release.name + ".manifest.json")):
        shutil.copy(path, tmp_path)
    with open_release(tmp_path / release.name) as opened:
        spec = write_spec(tmp_path, census / "people.parquet", CENSUS, [("sex",)])
        build(read_spec(spec), tmp_path / "other.duckdb", jobs=1)
        for ending in ("", ".manifest.json"):
            (tmp_path / f"other.duckdb{ending}").replace(tmp_path / f"{release.name}{ending}")
        with pytest.raises(StoreError, match="was replaced since it was opened"):
            queries.packs.publish(opened, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_releases_of_compare_are_refused(census, tmp_path):
    from fixtures.pack import CENSUS, write_spec

    from engine.evaluation.compare.building import SCRATCH
    from engine.spec import read_spec

    told = {"title": "x", "notes": [SCRATCH]}
    spec = write_spec(tmp_path, census / "people.parquet", CENSUS, [("sex",)], release=told)
    build(read_spec(spec), tmp_path / "scratch.duckdb", jobs=1)
    with pytest.raises(PrivacyError, match="built for a comparison"):
        publish_pack(tmp_path / "scratch.duckdb", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_release_without_a_guarantee_is_refused_unless_asked_for(tmp_path):
    build(spec_in(tmp_path, dp="guarantee = false"), tmp_path / "r.duckdb", jobs=1)
    with pytest.raises(PrivacyError, match=r"guarantees nothing.*--unprotected"):
        publish_pack(tmp_path / "r.duckdb", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    publish_pack(tmp_path / "r.duckdb", tmp_path / "out", unprotected=True)
    assert "NO PRIVACY GUARANTEE" in (tmp_path / "out/README.md").read_text("utf-8")


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


def test_the_command(release, tmp_path):
    app = typer.Typer()
    app.command("publish", epilog=EXAMPLE)(publish_command)
    runner = CliRunner()
    assert "pack.toml" in runner.invoke(app, ["--help"]).output
    (tmp_path / "p.toml").write_text(SPEC)
    words = [str(release), str(tmp_path / "out"), "--spec", str(tmp_path / "p.toml")]
    done = runner.invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "6 tables" in done.stderr
    assert (tmp_path / "out/index.html").exists()


def test_the_workbook_opens_in_libreoffice(pack, tmp_path):
    found = shutil.which("soffice")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("LibreOffice is not installed; scripts/browser installs it")
        pytest.skip("LibreOffice is not installed: apt-get install libreoffice-calc")
    home = f"-env:UserInstallation=file://{tmp_path}/home"
    words = [
        found,
        home,
        "--headless",
        "--convert-to",
        "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,true,false,false,false,4",
    ]
    subprocess.run(
        [*words, "--outdir", str(tmp_path), str(pack / "pack.xlsx")],
        check=True,
        capture_output=True,
        timeout=180,
    )
    (sheet,) = tmp_path.glob("*.csv")
    assert 'Region,Total,"Women; ""she""",Male' in sheet.read_text("utf-8")


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api") if os.environ.get("CI") != "true" else None
    if api is None:
        import playwright.sync_api as api
    found = shutil.which("chromium")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("Chromium is not installed: ./scripts/browser installs it")
        pytest.skip("Chromium is not installed")
    with api.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


def test_the_site_works_in_a_browser(pack, browser):
    context = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme="dark")
    page = context.new_page()
    seen: list[str] = []
    page.on("request", lambda r: seen.append(r.url))
    page.on("console", lambda m: seen.append(f"console: {m.text}"))
    page.goto((pack / "index.html").as_uri())
    assert page.locator("#tables li:visible").count() == 6
    page.keyboard.press("Tab")  # the first stop is the way past the head
    assert page.evaluate("document.activeElement.className") == "skip"
    page.get_by_label("Search the tables").fill("region SEX")
    assert page.locator("#tables li:visible").count() == 2
    page.get_by_label("Search the tables").fill("nothing like it")
    assert page.locator("#none").is_visible()
    page.get_by_label("Search the tables").fill("T1")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/pages/T1.html")
    assert page.locator("table caption").inner_text().startswith("People by region and sex")
    assert page.locator("svg.chart rect").count() == 18  # values, no totals
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("link", name="cy", exact=True).click()
    page.wait_for_url("**/cy/pages/T1.html")
    assert page.locator("tbody th").first.inner_text() == "Cyfanswm"
    assert all(url.startswith("file://") for url in seen), seen
    context.close()
