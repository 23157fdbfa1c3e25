"""Tables added and removed from Python and on the command line; the spec is updated."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from fixtures.pipeline import (
    ACCEPTED,
    CENSUS,
    KEY,
    left_over,
    make_census,
    make_frame,
    tablepack,
    write_spec,
)

import engine
from engine.api import amend
from engine.api.amend import addition, removal
from engine.api.built import changed
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


@pytest.mark.slow
def test_a_spec_changed_by_hand(spec_path, tmp_path):
    path = tmp_path / "r.duckdb"
    spec_path.rename(tmp_path / "mine.toml")
    mine = tmp_path / "mine.toml"
    text = mine.read_text()
    mine.write_text(f"{text}\n[[tables]]\ncolumns = ['education']\n")
    done = tablepack("drop", path, "--spec", mine, cwd=tmp_path)
    assert done.returncode == 2
    assert "education" in done.stderr
    assert "tablepack add" in done.stderr
    done = tablepack("add", path, cwd=tmp_path)
    assert done.returncode == 2
    assert "spec" in done.stderr
    done = tablepack("add", path, "--spec", mine, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # The summary is made without opening the release; it must agree with `show`, which opens it.
    shown = json.loads(tablepack("show", path, "--json", cwd=tmp_path).stdout)
    assert json.loads(done.stdout).items() <= {**shown, "path": str(path)}.items()
    assert len(json.loads(done.stdout)) == len(shown) - 1  # the cards
    assert ("education",) in earlier_release(path).tables
    mine.write_text(text)
    done = tablepack("add", path, "--spec", mine, cwd=tmp_path)
    assert done.returncode == 2
    assert "tablepack drop" in done.stderr
    assert tablepack("drop", path, "--spec", mine, cwd=tmp_path).returncode == 0
    assert ("education",) not in earlier_release(path).tables
    for command in ("add", "drop"):
        done = tablepack(command, path, "--spec", mine, cwd=tmp_path)
        assert done.returncode == 2
        assert "nothing to" in done.stderr
    done = tablepack("drop", path, "--spec", mine, "--columns", "region,sex", cwd=tmp_path)
    assert done.returncode == 2
    assert left_over(tmp_path) == []


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


@pytest.mark.slow
def test_edits_made_to_the_spec_meanwhile_are_kept(spec_path, tmp_path):
    text = spec_path.read_text().replace("\n", "\r\n")
    spec_path.write_bytes(text.encode())
    change = addition(tmp_path / "r.duckdb", [["sex"]], None)
    spec_path.write_bytes(("# Meanwhile.\r\n" + text).encode())
    changed(change).close()
    now = spec_path.read_bytes().decode()
    assert now == f'# Meanwhile.\r\n{text}\r\n[[tables]]\r\ncolumns = ["sex"]\r\n'
    changed(removal(tmp_path / "r.duckdb", [["sex"]], None)).close()
    assert spec_path.read_bytes().decode() == f"# Meanwhile.\r\n{text}"


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


def test_a_query_without_a_table_names_the_command(spec_path, tmp_path):
    done = tablepack(
        "sql",
        tmp_path / "r.duckdb",
        "SELECT age, sex, count(*) FROM data GROUP BY ALL",
        cwd=tmp_path,
    )
    assert done.returncode == 5
    assert "tablepack add RELEASE --columns age,sex " in done.stderr
