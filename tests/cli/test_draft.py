"""Drafts: a spec tried out without spending anything of its key, and kept from being published."""

from __future__ import annotations

import pytest
from fixtures.pipeline import ACCEPTED, CENSUS, make_census, tablepack, write_spec

import engine
from engine.errors import PrivacyError, StoreError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("draft")
    make_census(folder, people=1_500)
    tables = [("age",), ("region", "sex")]
    write_spec(folder, "people.parquet", CENSUS, tables, privacy=ACCEPTED, name="r.toml")
    return folder


def everything(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_draft_spends_nothing_and_cannot_be_published_or_signed(folder, tmp_path):
    before = everything(folder)
    ran = tablepack("draft", folder / "r.toml", cwd=folder)
    assert ran.returncode == 0, ran.stderr
    made = folder / "r.draft.duckdb"
    assert made.stat().st_mode & 0o777 == 0o600
    new = everything(folder).keys() - before.keys()
    assert {path.name for path in new} == {made.name, f"{made.name}.manifest.json"}
    assert {path: path.read_bytes() for path in before} == before
    with engine.open(made) as release:
        assert "DRAFT, not for publication" in release.title
        assert release.sql("SELECT count(*) FROM data").rows[0][0] > 1_000
    with pytest.raises(PrivacyError, match="draft"):
        engine.publish_pack(made, tmp_path / "pack")
    key = tmp_path / "office.pem"
    tablepack("sign", "--new", key, cwd=folder)
    assert tablepack("sign", made, "--key", key, cwd=folder).returncode != 0
    # What is tried out may be changed at will: no state is pinned, and an earlier draft is replaced.
    spec = (folder / "r.toml").read_text()
    (folder / "r.toml").write_text(spec.replace("[columns.age]", "[columns.age]\nbounds = [0, 99]"))
    assert tablepack("draft", folder / "r.toml", cwd=folder).returncode == 0
    assert tablepack("draft", "--clean", folder / "r.toml", cwd=folder).returncode == 0
    (folder / "r.toml").write_text(spec)
    assert everything(folder) == before


def test_only_drafts_are_replaced_and_deleted(folder, tmp_path):
    other = folder / "other.draft.duckdb"
    engine.build(folder / "r.toml", out=other)
    with pytest.raises(StoreError, match="no draft"):
        engine.draft(folder / "r.toml", out=other)
    assert engine.remove_drafts(folder) == []
    assert other.exists()


def test_a_draft_of_a_frame_needs_no_key(tmp_path, monkeypatch):
    from fixtures.pipeline import make_frame

    monkeypatch.chdir(tmp_path)
    drafted = engine.draft(make_frame(), tables=[["SEX"]], entities=["ID"], privacy=ACCEPTED)
    assert drafted.path.name == "release.draft.duckdb"
