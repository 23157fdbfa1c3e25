"""`tablepack measure` and `tablepack fit`: the two halves of `build`, on one machine or two."""

from __future__ import annotations

import json

import pytest
from fixtures.pipeline import ACCEPTED, make_frame, tablepack, write_spec

import engine
from engine.cli.doctor import examine

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
