"""The two halves of a build, on one machine or two; drafts, which spend nothing and are kept from being published."""

from __future__ import annotations

import json

import pytest
from fixtures.pipeline import ACCEPTED, CENSUS, make_census, make_frame, tablepack, write_spec

import engine
from engine.cli.doctor import examine
from engine.errors import PrivacyError, StoreError

COLUMNS = {"AGE": {"kind": "integer"}, "SEX": {"kind": "category"}}
TABLES = [("AGE",), ("SEX",), ("AGE", "SEX")]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder of data, key and spec, and its measurement in another."""
    folder = tmp_path_factory.mktemp("inside")
    make_frame(600).to_csv(folder / "people.csv", index=False)
    write_spec(folder, "people.csv", COLUMNS, TABLES, entities=(), privacy=ACCEPTED)
    outside = tmp_path_factory.mktemp("outside") / "measured"
    done = tablepack("measure", "release.toml", "-o", outside, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert f"tablepack fit {outside}" in done.stderr.replace("\n", " ")
    return folder, outside


def test_a_release_that_is_fitted_elsewhere_is_the_one_that_is_built(made, tmp_path):
    folder, measured = made
    done = tablepack("build", "release.toml", "-o", "r.duckdb", cwd=folder)
    assert done.returncode == 0, done.stderr
    done = tablepack("fit", measured, "-o", "elsewhere.duckdb", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with engine.open(folder / "r.duckdb") as release:
        assert json.loads(done.stdout)["content_hash"] == release.content_hash
    again = tablepack("fit", measured, "-o", "elsewhere.duckdb", cwd=tmp_path)
    assert (again.returncode, "--force" in again.stderr) == (2, True)
    assert (
        tablepack("fit", measured, "-o", "elsewhere.duckdb", "--force", cwd=tmp_path).returncode
        == 0
    )
    assert tablepack("doctor", "elsewhere.duckdb", cwd=tmp_path).returncode == 0


def test_a_measurement_is_not_replaced_unasked(made):
    folder, measured = made
    done = tablepack("measure", "release.toml", "-o", measured, cwd=folder)
    assert (done.returncode, "--force" in done.stderr) == (2, True)
    done = tablepack("measure", "release.toml", "-o", folder, "--force", cwd=folder)
    assert done.returncode == 2
    assert "is not a measurement folder" in done.stderr
    assert (folder / "people.csv").exists()
    assert (
        tablepack("measure", "release.toml", "-o", measured, "--force", cwd=folder).returncode == 0
    )


def test_a_refused_measurement_leaves_nothing(tmp_path):
    make_frame(600).to_csv(tmp_path / "people.csv", index=False)
    privacy = {"refuse_at": 0.02, "warn_at": 0.01}
    write_spec(tmp_path, "people.csv", COLUMNS, TABLES, entities=(), privacy=privacy)
    done = tablepack("measure", "release.toml", "-o", "measured", cwd=tmp_path)
    assert done.returncode == 3
    assert not (tmp_path / "measured").exists()


def test_doctor_says_what_it_removed(tmp_path):
    left = tmp_path / "my.key.measured-00112233"
    left.mkdir(mode=0o700)
    (left / "lock").touch(mode=0o600)
    told = [one for one in examine(tmp_path / "r.duckdb") if one.check == "measurements"]
    assert [one.ok for one in told] == [True]
    assert str(left) in told[0].detail
    assert not left.exists()


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
