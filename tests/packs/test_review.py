"""What is published has a title, and no settings that were detected and not reviewed, unless that is accepted."""

from __future__ import annotations

import pytest
from fixtures.pipeline import make_frame, tablepack

import engine
from engine.errors import SpecError
from engine.store import UNREVIEWED
from queries.packs import pack_spec_from, preview
from queries.packs.texts import WORDS, translations


@pytest.fixture(scope="module")
def detected(tmp_path_factory):
    """A release of a data frame: settings are detected in the data."""
    folder = tmp_path_factory.mktemp("frame")
    engine.new_key(folder / "my.key")
    return engine.build(
        make_frame(),
        tables=[["SEX"], ["AGE"]],
        key=folder / "my.key",
        entities=["ID"],
        out=folder / "r.duckdb",
        privacy={"accept_risk": "made-up people"},
        title="From a frame",
    ).path


def test_the_release_or_the_pack_must_have_a_title(opened, monkeypatch):
    monkeypatch.setattr(opened, "title", " ")
    with pytest.raises(SpecError, match=r"has no title.*in \[release\]"):
        preview(opened)
    spec = pack_spec_from({"pack": {"title": {"en": "Census"}, "max_width": 1}})
    assert preview(opened, spec).titles == ("Census",)


@pytest.mark.ci
def test_unreviewed_settings_are_refused_with_what_to_do(detected, tmp_path):
    done = tablepack("publish", detected, "pack", cwd=tmp_path)
    assert done.returncode == 3
    for word in ("kind of SEX", "reviewed = true", "[release]", "[pack]", "--accept-detected"):
        assert word in done.stderr
    assert not (tmp_path / "pack").exists()
    with pytest.raises(SpecError, match=r"pack\.reviewed"):
        pack_spec_from({"pack": {"reviewed": 3}})


@pytest.mark.ci
def test_declared_settings_need_no_word_and_cards_name_detected_ones(opened, detected):
    assert opened.unreviewed == {}
    with engine.open(detected) as release:
        assert f"{UNREVIEWED}: kind of SEX." in " ".join(release.card("SEX").sentences())


SPEC = '[pack]\n{}\n[[tables]]\ncolumns = ["SEX"]\nid = "T1"\n'


@pytest.mark.ci
@pytest.mark.parametrize("is_accepted", [True, False])
def test_pages_covers_and_readmes_say_what_was_accepted_in_their_language(
    detected, tmp_path, is_accepted
):
    info = 'languages = ["en", "de"]' if is_accepted else "reviewed = true\nworkbook_rows = 0"
    (tmp_path / "p.toml").write_text(SPEC.format(info))
    flags = ["--accept-detected"] if is_accepted else []
    done = tablepack("publish", detected, "pack", "--spec", "p.toml", *flags, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    made = tmp_path / "pack"
    for home, words in (("", WORDS), ("de", translations()["de"]))[: 1 + is_accepted]:
        readme = (made / home / "README.md").read_text("utf-8")
        how = "published without review" if is_accepted else "reviewed by the publisher"
        assert f"Detected in the data and {how}: kind of SEX; " in readme
        assert "kind of AGE" in readme
        assert "The owner accepted this risk: made-up people" in readme
        texts = [(made / home / n).read_text("utf-8") for n in ("index.html", "pages/T1.html")]
        if is_accepted:
            path = made / (f"pack~{home}.xlsx" if home else "pack.xlsx")
            cover = pytest.importorskip("openpyxl").load_workbook(path).worksheets[0]
            texts.append(" ".join(str(row[0]) for row in cover.values))
        for text in texts:
            assert (words["unreviewed means"] in text) == is_accepted
        assert words["accepted means"].format("made-up people") in texts[1]
