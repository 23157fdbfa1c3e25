"""What is published has a title, and no line that a machine wrote and nobody looked at, unless that is accepted."""

from __future__ import annotations

import pytest
from fixtures.pipeline import make_frame, tablepack
from fixtures.stays import release_of_stays, write_stays

import engine
from engine.errors import PrivacyError, SpecError
from engine.release import build
from engine.spec import read_spec

PACK = '[pack]\ntitle = "Made up"\n{more}\n[[tables]]\ncolumns = ["SEX"]\nid = "T1"\n'


def from_a_frame(folder, **said):
    engine.new_key(folder / "my.key")
    return engine.build(
        make_frame(),
        tables=[["SEX"], ["AGE"]],
        key=folder / "my.key",
        entities=["ID"],
        out=folder / "r.duckdb",
        privacy={"accept_risk": "made-up people"},
        **said,
    ).path


def readme(folder):
    return (folder / "README.md").read_text("utf-8")


def test_a_title_is_wanted_of_the_release_or_the_pack(tmp_path):
    spec = write_stays(tmp_path, release={"title": " "})
    build(read_spec(spec), tmp_path / "r.duckdb", jobs=1)
    done = tablepack("publish", "r.duckdb", "pack", cwd=tmp_path)
    assert done.returncode == 2
    assert "has no title" in done.stderr
    assert "in [release]" in done.stderr
    assert not (tmp_path / "pack").exists()
    (tmp_path / "p.toml").write_text('[pack]\ntitle = {en = "Stays"}\n')
    done = tablepack("publish", "r.duckdb", "pack", "--spec", "p.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_what_nobody_reviewed_is_refused_with_what_to_do(tmp_path):
    release = from_a_frame(tmp_path, title="From a frame")
    done = tablepack("publish", release, "pack", cwd=tmp_path)
    assert done.returncode == 3
    for word in ("kind of SEX", "reviewed = true", "[release]", "[pack]", "--accept-detected"):
        assert word in done.stderr
    assert not (tmp_path / "pack").exists()
    with pytest.raises(PrivacyError, match="reviewed by nobody"):
        engine.publish_pack(release, tmp_path / "pack")
    dry = tablepack("publish", release, "--dry-run", cwd=tmp_path)
    assert dry.returncode == 3


def test_what_is_accepted_is_said_by_card_and_pack(tmp_path):
    release = from_a_frame(tmp_path, title="From a frame")
    with engine.open(release) as opened:
        assert "Detected in the data, not reviewed: kind of SEX." in " ".join(
            opened.card("SEX").sentences()
        )
    done = tablepack("publish", release, "pack", "--accept-detected", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = readme(tmp_path / "pack")
    assert "reviewed by nobody, and published all the same" in told
    assert "kind of AGE" in told
    page = (tmp_path / "pack" / "README.html").read_text("utf-8")
    assert "published all the same" in page


SAID = {"de": "von niemandem geprüft", "en": "reviewed by nobody; it was published all the same"}


@pytest.mark.parametrize("languages", [("de",), ("en", "de")])
def test_every_page_and_cover_says_what_was_accepted_in_its_language(tmp_path, languages):
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("gptables")
    release = from_a_frame(tmp_path, title="From a frame")
    (tmp_path / "p.toml").write_text(PACK.format(more=f"languages = {list(languages)}"))
    given = {"spec": tmp_path / "p.toml", "accept_detected": True}
    engine.publish_pack(release, tmp_path / "pack", **given)
    for i, language in enumerate(languages):
        home = tmp_path / "pack" / (language if i else "")
        for page in (home / "index.html", home / "pages" / "T1.html"):
            assert SAID[language] in page.read_text("utf-8"), page
        book = f"pack~{language}.xlsx" if i else "pack.xlsx"
        cover = openpyxl.load_workbook(tmp_path / "pack" / book).worksheets[0]
        assert SAID[language] in " ".join(str(row[0]) for row in cover.values)


def test_pages_of_what_was_reviewed_say_nothing_of_it(tmp_path):
    release = from_a_frame(tmp_path, title="From a frame")
    (tmp_path / "p.toml").write_text(PACK.format(more="reviewed = true"))
    engine.publish_pack(release, tmp_path / "pack", spec=tmp_path / "p.toml")
    for page in ("index.html", "pages/T1.html"):
        assert SAID["en"] not in (tmp_path / "pack" / page).read_text("utf-8")


def test_a_pack_spec_may_say_that_it_was_reviewed(tmp_path):
    release = from_a_frame(tmp_path)
    (tmp_path / "p.toml").write_text(PACK.format(more="reviewed = true\nrelease_file = true"))
    engine.publish_pack(release, tmp_path / "pack", spec=tmp_path / "p.toml")
    assert "reviewed by the publisher" in readme(tmp_path / "pack")
    (tmp_path / "p.toml").write_text(PACK.format(more="reviewed = 3"))
    with pytest.raises(SpecError, match=r"pack\.reviewed"):
        engine.publish_pack(release, tmp_path / "other", spec=tmp_path / "p.toml")


def test_a_release_that_was_reviewed_is_published_as_it_is(tmp_path):
    release = from_a_frame(tmp_path, title="From a frame", reviewed=True)
    with engine.open(release) as opened:
        assert opened.is_reviewed
        assert opened.unreviewed == {}
        assert "not reviewed" not in " ".join(opened.card("SEX").sentences())
        assert any("reviewed by the custodian" in note for note in opened.notes)
    done = tablepack("publish", release, "pack", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_what_was_declared_needs_no_word(tmp_path):
    with release_of_stays(tmp_path) as release:
        assert release.unreviewed == {}
        path = release.path
    assert tablepack("publish", path, "pack", cwd=tmp_path).returncode == 0
