"""Tables added and taken out from Python and on the command line; the spec is kept in line."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
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
from engine.api.requests import prices
from engine.errors import SpecError, StoreError
from engine.store import earlier_release, manifest_path
from queries.requests import leave_request


def test_a_built_release_can_be_added_to(tmp_path):
    (tmp_path / "k.key").touch(mode=0o600)
    (tmp_path / "k.key").write_bytes(KEY)
    given = {"key": tmp_path / "k.key", "entities": ["ID"], "privacy": ACCEPTED}
    first = engine.build(
        make_frame(), tables=[["SEX"]], out=tmp_path / "r.duckdb", vintage="1", **given
    )
    second = first.add([["AGE", "SEX"]])
    assert second.tables == (("SEX",), ("AGE", "SEX"))
    whole = engine.build(
        make_frame(),
        tables=[["SEX"], ["AGE", "SEX"]],
        out=tmp_path / "w.duckdb",
        vintage="1",
        **given,
    )
    assert second.content_hash == whole.content_hash
    third = second.drop([["SEX"]])
    assert third.tables == (("AGE", "SEX"),)
    with pytest.raises(SpecError, match="tables: "):
        third.drop([["AGE", "SEX"]])
    with pytest.raises(SpecError, match="no table of SEX"):
        third.drop([["SEX"]])
    with pytest.raises(SpecError, match=r"^--columns HEIGHT \(tables=\): no column HEIGHT"):
        third.add([["HEIGHT"]])


@pytest.fixture
def spec_path(tmp_path):
    make_census(tmp_path, people=1_500)
    path = write_spec(
        tmp_path,
        tmp_path / "people.parquet",
        CENSUS,
        [("age",)],
        privacy=ACCEPTED,
        name="r.toml",
    )
    path.write_text(
        path.read_text() + "# All pairs of these.\n[[tables]]\nall = 2\nof = ['sex', 'region']\n"
    )
    assert tablepack("build", path, cwd=tmp_path).returncode == 0
    return path


def test_the_command_line_keeps_the_spec_in_line(spec_path, tmp_path):
    text, path = spec_path.read_text(), tmp_path / "r.duckdb"
    done = tablepack("add", path, "--columns", "sex,age", "--columns", "region", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "added: region; age, sex; " in done.stderr
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
    assert "--columns age,sexx (tables=): no column sexx; did you mean 'sex'?" in done.stderr
    assert "tables[" not in done.stderr
    done = tablepack("drop", path, "--columns", "region", "--columns", "age,sex", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "taken out: region; age, sex; " in done.stderr
    assert spec_path.read_text() == text
    assert earlier_release(path).tables == {("age",), ("region", "sex")}


def test_the_spec_changed_by_hand(spec_path, tmp_path):
    path = tmp_path / "r.duckdb"
    spec_path.rename(tmp_path / "mine.toml")
    mine = tmp_path / "mine.toml"
    text = mine.read_text()
    mine.write_text(f"{text}\n[[tables]]\ncolumns = ['education']\n")
    done = tablepack("drop", path, "--spec", mine, cwd=tmp_path)
    assert done.returncode == 2
    assert "(education)" in done.stderr
    assert "tablepack add" in done.stderr
    done = tablepack("add", path, cwd=tmp_path)
    assert done.returncode == 2
    assert "--spec" in done.stderr
    done = tablepack("add", path, "--spec", mine, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # Said without opening the file, and what whoever opens it reads.
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
    for command, said in (("add", "nothing to add"), ("drop", "nothing to remove")):
        done = tablepack(command, path, "--spec", mine, cwd=tmp_path)
        assert (done.returncode, said in done.stderr) == (2, True)
    done = tablepack("drop", path, "--spec", mine, "--columns", "region,sex", cwd=tmp_path)
    assert done.returncode == 2
    assert "region, sex: " in done.stderr
    assert left_over(tmp_path) == []


def test_only_what_is_named_is_done(spec_path, tmp_path):
    path, text = tmp_path / "r.duckdb", spec_path.read_text()
    spec_path.write_text(f"{text}\n[[tables]]\ncolumns = ['education']\n")
    done = tablepack("add", path, "--columns", "sex", cwd=tmp_path)
    assert done.returncode == 2
    assert "(education)" in done.stderr
    spec_path.write_text(text.replace('columns = ["age"]', 'columns = ["education"]'))
    for words in (("add",), ("drop",), ("add", "--columns", "sex")):
        done = tablepack(words[0], path, *words[1:], cwd=tmp_path)
        assert done.returncode == 2
        assert str(path) in done.stderr
        assert "run first" not in done.stderr  # one would send to the other
    assert earlier_release(path).tables == {("age",), ("region", "sex")}


def test_stopped_before_the_spec_was_written_it_goes_on(spec_path, tmp_path, monkeypatch):
    path, text = tmp_path / "r.duckdb", spec_path.read_text()
    with monkeypatch.context() as patch:
        patch.setattr(
            amend, "write_output", lambda *_, **__: (_ for _ in ()).throw(StoreError("full"))
        )
        with pytest.raises(StoreError):
            engine.add(path, [["sex"]], spec=spec_path)
    assert spec_path.read_text() == text
    assert ("sex",) in earlier_release(path).tables
    done = tablepack("add", path, "--columns", "sex", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert 'columns = ["sex"]' in spec_path.read_text()


def test_what_was_written_in_the_spec_meanwhile_stays(spec_path, tmp_path):
    text = spec_path.read_text().replace("\n", "\r\n")
    spec_path.write_bytes(text.encode())
    change = addition(tmp_path / "r.duckdb", [["sex"]], None)
    spec_path.write_bytes(("# Meanwhile.\r\n" + text).encode())
    changed(change).close()
    now = spec_path.read_bytes().decode()
    assert now == f'# Meanwhile.\r\n{text}\r\n[[tables]]\r\ncolumns = ["sex"]\r\n'
    changed(removal(tmp_path / "r.duckdb", [["sex"]], None)).close()
    assert spec_path.read_bytes().decode() == f"# Meanwhile.\r\n{text}"


def test_tables_of_entities_in_each(tmp_path):
    visits = pd.DataFrame({"ID": np.arange(3000) % 1000, "WARD": np.arange(3000) % 7})
    visits["AGE"] = visits["ID"] % 9
    visits.to_parquet(tmp_path / "v.parquet")
    kind = {"kind": "category", "type": "integer"}
    path = write_spec(
        tmp_path,
        tmp_path / "v.parquet",
        {"ID": {"kind": "integer"}, "WARD": kind, "AGE": kind},
        [("WARD",)],
        entities=("ID",),
        release={"count": "entities", "each": "WARD", "most": 4},
        privacy=ACCEPTED,
        name="r.toml",
    )
    assert tablepack("build", path, cwd=tmp_path).returncode == 0
    release, text = tmp_path / "r.duckdb", path.read_text()
    (price,) = prices(release, (leave_request(release, ("AGE",), reason="x"),))
    assert tablepack("add", release, "--columns", "AGE", cwd=tmp_path).returncode == 0
    assert earlier_release(release).tables == {("WARD",), ("AGE", "WARD")}
    with engine.open(release) as opened:
        assert opened.card("AGE", "WARD").cells_released == price.cells
    done = tablepack("drop", release, "--columns", "AGE", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (path.read_text(), earlier_release(release).tables) == (text, {("WARD",)})


def test_without_key_or_source_it_is_refused(spec_path, tmp_path):
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
    with pytest.raises(SpecError, match="mode dp: "):
        engine.add(path, [["sex"]], spec=dp)


def test_a_signature_goes_with_the_old_file(spec_path, tmp_path):
    pytest.importorskip("cryptography")
    path = tmp_path / "r.duckdb"
    assert tablepack("sign", "--new", tmp_path / "o.pem", cwd=tmp_path).returncode == 0
    assert tablepack("sign", path, "--key", tmp_path / "o.pem", cwd=tmp_path).returncode == 0
    done = tablepack("add", path, "--columns", "sex", cwd=tmp_path)
    assert done.returncode == 0
    assert "its signature was removed; sign it again" in done.stderr
    assert manifest_path(path).exists()


def test_a_missing_table_names_the_command(spec_path, tmp_path):
    done = tablepack(
        "sql",
        tmp_path / "r.duckdb",
        "SELECT age, sex, count(*) FROM data GROUP BY ALL",
        cwd=tmp_path,
    )
    assert done.returncode == 5
    assert "tablepack add RELEASE --columns age,sex " in done.stderr
