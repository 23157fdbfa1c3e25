"""The Python API: build, plan, open, query; in scripts and notebooks."""

from __future__ import annotations

import subprocess
import sys
import tempfile

import pandas as pd
import pyarrow as pa
import pytest
from fixtures.pipeline import (
    environment,
    make_frame,
)

import engine

TABLES = [["AGE", "SEX"], ["SEX"], ["AGE", "INCOME"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("api")
    engine.new_key(place / "my.key")
    return place


@pytest.fixture(scope="module")
def release(folder):
    frame = make_frame()
    made = engine.build(
        frame,
        tables=TABLES,
        key=folder / "my.key",
        out=folder / "r.duckdb",
        entities=["ID"],
        title="From a frame",
    )
    assert frame.equals(make_frame())  # untouched
    yield made
    made.close()


def test_the_package_offers_these_names_and_no_others():
    assert set(dir(engine)) == set(engine.__all__)
    for name in engine.__all__:
        assert getattr(engine, name) is not None
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = engine.nothing_like_it


@pytest.mark.ci
def test_a_release_from_a_frame(release):
    assert release.title == "From a frame"
    assert set(release.tables) == {("AGE", "SEX"), ("SEX",), ("AGE", "INCOME")}
    assert list(release.columns) == ["SEX", "AGE", "INCOME"]


def test_sql_gives_frames(release):
    answer = release.sql("SELECT SEX, count(*) AS n FROM data GROUP BY SEX ORDER BY SEX")
    frame = answer.df()
    assert list(frame.columns) == ["SEX", "n"]
    truth = make_frame()["SEX"].value_counts()
    assert all(abs(n - truth[sex]) <= 9 for sex, n in answer.rows)
    assert answer.table == ("SEX",)
    assert answer.noise_sd == pytest.approx(2**0.5)
    assert answer.arrow().to_pydict() == frame.to_dict("list")


def test_advice_is_in_python_too(release, tmp_path):
    with pytest.raises(engine.NotAnswerable, match=r"release\.add\(\[\['INCOME', 'SEX'\]\]\)"):
        release.sql("SELECT SEX, INCOME FROM data")
    with pytest.raises(engine.SpecError, match=r"in Python: new_key\('.*no\.key'\)"):
        engine.build(make_frame(), tables=1, key=tmp_path / "no.key", entities=["ID"])


@pytest.mark.parametrize(
    ("tables", "advice"),
    [
        ("SEX", r"\[\['SEX'\]\]"),
        (["SEX", "AGE"], r"tables=\[\['SEX'\], \['AGE'\]\] for one table each"),
    ],
)
def test_names_in_place_of_tables_are_refused(folder, tables, advice):
    with pytest.raises(engine.SpecError, match=advice):
        engine.plan(make_frame(), tables=tables, key=folder / "my.key", entities=["ID"])


@pytest.mark.ci
def test_a_first_release_with_a_temporary_key(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.warns(UserWarning, match="its key is deleted"):
        release = engine.synthesize(make_frame(), entities="ID", tables=1)
    assert set(release.columns) == set(make_frame()) - {"ID"}
    assert release.path.parent.stat().st_mode & 0o077 == 0
    assert not list(tmp_path.glob(".draft-key-*"))
    with pytest.raises(engine.SpecError, match="ID looks like an identifier"):
        engine.synthesize(make_frame())


def test_open_gives_the_same(release, folder):
    with engine.open(folder / "r.duckdb") as again:
        assert again.content_hash == release.content_hash
        assert (
            again.sql("SELECT count(*) FROM data").rows
            == release.sql("SELECT count(*) FROM data").rows
        )
    with pytest.raises(engine.StoreError, match="closed"):
        again.sql("SELECT 1")


@pytest.mark.ci
@pytest.mark.parametrize(
    ("what", "more", "said"),
    [
        (make_frame(9), {}, "needs tables and key"),
        (make_frame(9), {"tables": [["SEX"]]}, "needs key"),
        (make_frame(9), {"tables": [["SEX"]], "key": "missing.key"}, "does not exist"),
        (make_frame(9), {"tables": [["NOPE"]], "key": "k.key"}, "NOPE"),
        (make_frame(9), {"tables": [["SEX", "SEX"]], "key": "k.key"}, "a column twice"),
        (make_frame(9), {"tables": [["SEX"]], "key": "k.key", "privacy": "none"}, "privacy"),
        (42, {"tables": [["SEX"]], "key": "k.key"}, "data frame"),
        ("file.txt.zip", {"tables": [["SEX"]], "key": "k.key"}, "format"),
        ("missing.toml", {}, "no spec file"),
    ],
)
def test_mistakes_are_reported(tmp_path, monkeypatch, what, more, said):
    monkeypatch.chdir(tmp_path)
    engine.new_key("k.key")
    with pytest.raises(engine.SpecError, match=said):
        engine.build(what, out="r.duckdb", **more)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "k.key",
        "k.key.exposure.json",
        "k.key.ledger.json",
    ]


def test_a_frame_of_nothing(tmp_path):
    engine.new_key(tmp_path / "my.key")
    for frame in (pd.DataFrame(), pd.DataFrame({"x": pd.Series([], dtype="int64")}), pa.table({})):
        with pytest.raises(engine.DataError):
            engine.build(frame, tables=[["x"]], key=tmp_path / "my.key", out=tmp_path / "r.duckdb")


SCRIPT = """
import pandas as pd
import engine

engine.new_key("my.key")
frame = pd.DataFrame({"a": [i % 3 for i in range(200)], "b": [i % 5 for i in range(200)]})
release = engine.build(frame, tables=[["a", "b"]], key="my.key", out="r.duckdb")
print(release.sql("SELECT count(*) > 150 AS many FROM data").rows)
"""


def check_says_many(done):
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[(True,)]"
    assert done.stderr == ""


@pytest.mark.slow
def test_a_plain_script_needs_no_main_guard(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    check_says_many(
        subprocess.run(
            [sys.executable, "script.py"],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
        )
    )


@pytest.mark.slow
def test_a_notebook_without_widgets(tmp_path):
    """DuckDB refuses to switch off its progress bar there: it asks IPython where it runs."""
    kernel = (
        "import sys, types\n"
        "class Config(dict): pass\n"
        "class Kernel: config = Config(IPKernelApp={})\n"
        "sys.modules['IPython'] = types.SimpleNamespace(get_ipython=Kernel, __spec__=None)\n"
    )
    check_says_many(
        subprocess.run(
            [sys.executable, "-c", kernel + SCRIPT],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
        )
    )


def test_settings_of_a_spec_cannot_be_given_again(tmp_path):
    with pytest.raises(engine.SpecError, match="tables, entities: "):
        engine.build(
            tmp_path / "no.toml", tables=[["A"]], entities=["id"], out=tmp_path / "r.duckdb"
        )
