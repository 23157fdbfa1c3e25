"""Tables added and removed from Python and on the command line; the spec is updated."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
from fixtures.pipeline import (
    ACCEPTED,
    CENSUS,
    KEY,
    make_census,
    make_frame,
    tablepack,
    write_spec,
)

import engine
from engine.api import amend
from engine.api.reading import read
from engine.errors import SpecError, StoreError
from engine.store import earlier_release, manifest_path


@pytest.mark.ci
def test_a_release_built_from_a_frame_can_be_changed(tmp_path):
    (tmp_path / "k.key").touch(mode=0o600)
    (tmp_path / "k.key").write_bytes(KEY)
    given = {"key": tmp_path / "k.key", "entities": ["ID"], "privacy": ACCEPTED, "vintage": "1"}
    frame, wanted = make_frame(), [["SEX"], ["AGE", "SEX"]]
    first = engine.build(frame, tables=wanted[:1], out=tmp_path / "r.duckdb", **given)
    second = first.add(wanted[1:])
    assert second.tables == (("SEX",), ("AGE", "SEX"))
    third = second.drop(wanted[:1])
    assert third.tables == (("AGE", "SEX"),)
    for change, tables in ((third.drop, wanted[1:]), (third.drop, [["SEX"]]), (third.add, [["X"]])):
        with pytest.raises(SpecError):
            change(tables)


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("amend")
    make_census(folder, people=1_500)
    path = write_spec(folder, "people.parquet", CENSUS, [("age",)], privacy=ACCEPTED, name="r.toml")
    path.write_text(
        path.read_text() + "# All pairs of these.\n[[tables]]\nall = 2\nof = ['sex', 'region']\n"
    )
    assert tablepack("build", path, cwd=folder).returncode == 0
    return folder


@pytest.fixture
def spec_path(once, tmp_path):
    """The spec of a release, its key and data, to be changed."""
    shutil.copytree(once, tmp_path, dirs_exist_ok=True)
    return tmp_path / "r.toml"


@pytest.mark.ci
def test_the_command_line_updates_the_spec(spec_path, tmp_path):
    text, path = spec_path.read_text(), tmp_path / "r.duckdb"
    done = tablepack("add", path, "--columns", "sex,age", "--columns", "region", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "added: region; age, sex" in done.stderr
    assert spec_path.read_text() == (
        f'{text}\n[[tables]]\ncolumns = ["age", "sex"]\n\n[[tables]]\ncolumns = ["region"]\n'
    )
    assert earlier_release(path).tables == {
        ("age",),
        ("region",),
        ("age", "sex"),
        ("region", "sex"),
    }
    assert earlier_release(path).tables == {*read(spec_path).tables}
    done = tablepack("add", path, "--columns", "education", "--columns", "age,sexx", cwd=tmp_path)
    assert done.returncode == 2
    assert "--columns age,sexx" in done.stderr
    assert "tables[" not in done.stderr
    done = tablepack("drop", path, "--columns", "region", "--columns", "age,sex", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "removed: region; age, sex" in done.stderr
    assert spec_path.read_text() == text
    assert earlier_release(path).tables == {("age",), ("region", "sex")}


def test_only_the_named_tables_are_changed(spec_path, tmp_path):
    path, text = tmp_path / "r.duckdb", spec_path.read_text()
    spec_path.write_text(f"{text}\n[[tables]]\ncolumns = ['education']\n")
    done = tablepack("add", path, "--columns", "sex", cwd=tmp_path)
    assert done.returncode == 2
    assert "education" in done.stderr
    spec_path.write_text(text.replace('columns = ["age"]', 'columns = ["education"]'))
    for words in (("add",), ("drop",), ("add", "--columns", "sex")):
        done = tablepack(words[0], path, *words[1:], cwd=tmp_path)
        assert done.returncode == 2
        assert "tablepack add" not in done.stderr
        assert "tablepack drop" not in done.stderr  # neither command would help
    assert earlier_release(path).tables == {("age",), ("region", "sex")}


@pytest.mark.ci
def test_a_run_stopped_before_the_spec_was_written_can_be_repeated(
    spec_path, tmp_path, monkeypatch
):
    path, text = tmp_path / "r.duckdb", spec_path.read_text()
    with monkeypatch.context() as patch:
        patch.setattr(
            amend, "write_output", lambda *_, **__: (_ for _ in ()).throw(StoreError("full"))
        )
        with pytest.raises(StoreError):
            engine.add(path, [["sex"]], spec=spec_path)
    assert spec_path.read_text() == text
    assert ("sex",) not in earlier_release(path).tables
    done = tablepack("add", path, "--columns", "sex", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert 'columns = ["sex"]' in spec_path.read_text()


def test_key_and_source_are_needed(spec_path, tmp_path):
    path = tmp_path / "r.duckdb"
    before = path.read_bytes()
    for name in ("people.parquet", "my.key"):
        (tmp_path / name).rename(tmp_path / "away")
        done = tablepack("add", path, "--columns", "sex", cwd=tmp_path)
        (tmp_path / "away").rename(tmp_path / name)
        assert done.returncode == 2
        assert name in done.stderr
    assert path.read_bytes() == before
    spec = read(spec_path)
    dp = replace(spec, mode="dp")
    with pytest.raises(SpecError, match="mode dp"):
        engine.add(path, [["sex"]], spec=dp)


@pytest.mark.slow
def test_the_signature_is_removed(spec_path, tmp_path):
    pytest.importorskip("cryptography")
    path = tmp_path / "r.duckdb"
    assert tablepack("sign", "--new", tmp_path / "o.pem", cwd=tmp_path).returncode == 0
    assert tablepack("sign", path, "--key", tmp_path / "o.pem", cwd=tmp_path).returncode == 0
    done = tablepack("add", path, "--columns", "sex", cwd=tmp_path)
    assert done.returncode == 0
    assert "signature" in done.stderr
    assert manifest_path(path).exists()


@pytest.mark.ci
def test_the_spec_of_another_name_is_found_by_key_and_vintage(once, tmp_path):
    shutil.copytree(once, tmp_path, dirs_exist_ok=True)
    (tmp_path / "r.toml").rename(tmp_path / "census.toml")
    assert amend.addition(tmp_path / "r.duckdb", [["sex"]], None).spec_path == (
        tmp_path / "census.toml"
    )
    shutil.copy(tmp_path / "census.toml", tmp_path / "again.toml")
    with pytest.raises(SpecError, match=r"again.toml, census.toml have its key"):
        amend.addition(tmp_path / "r.duckdb", [["sex"]], None)
