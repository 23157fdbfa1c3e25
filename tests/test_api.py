"""The Python API: build, plan, open, query; in scripts and notebooks."""

from __future__ import annotations

import pydoc
import re
import subprocess
import sys
import tempfile
import textwrap

import pandas as pd
import pyarrow as pa
import pytest
from fixtures.pipeline import (
    CENSUS,
    ROOT,
    TWELVE,
    counts,
    environment,
    make_frame,
    table_hashes,
    write_spec,
)

import engine
from engine.api.reading import read
from engine.schema import Column

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


def test_tables_and_cards(release):
    table = release.table("SEX", "AGE").df()
    assert list(table.columns) == ["SEX", "AGE"]
    assert abs(len(table) - 900) <= 9
    assert table["AGE"].between(0, 63).all()
    assert release.card("AGE", "SEX").rows == len(table)
    with pytest.raises(engine.NotAnswerable, match="no table of INCOME, SEX"):
        release.table("INCOME", "SEX")


@pytest.mark.ci
def test_objects_are_shown_in_a_notebook(release, folder):
    planned = engine.plan(
        make_frame(), tables=TABLES, key=folder / "my.key", entities=["ID"], title="From a frame"
    )
    shown = {
        "release": release._repr_html_(),
        "answer": release.sql("SELECT '<script>' AS x, SEX FROM data LIMIT 3")._repr_html_(),
        "table": release.table("SEX")._repr_html_(),
        "plan": planned._repr_html_(),
        "tabulation": release.tabulate(["SEX"], measure="mean", of="AGE")._repr_html_(),
    }
    for what, text in shown.items():
        assert "<table" in text, what
        assert "<script>" not in text
    assert "AGE, SEX" in shown["plan"]
    assert "From a frame" in shown["release"]
    assert {t.columns for t in planned.tables if t.is_published} == set(release.tables)
    assert "Locked to AGE, SEX" in release.card("AGE", "SEX")._repr_html_()


def test_objects_are_shown_at_a_prompt(release, folder):
    planned = repr(engine.plan(make_frame(), tables=TABLES, key=folder / "my.key", entities=["ID"]))
    shares = [float(share) for share in re.findall(r"  (\d+\.\d)%", planned)]
    assert len(shares) == len(TABLES)
    assert shares == sorted(shares, reverse=True)
    assert "3 tables (" in planned
    assert "most exposed" in planned
    mean = release.tabulate(["SEX"], measure="mean", of="AGE")
    assert mean.shape == mean.df().shape
    assert "reliable" in repr(mean)
    assert "array(" not in repr(mean)
    assert re.match(r"[\d,]+ synthetic", repr(release.card("SEX")))
    assert "Cells with fewer than 3 entities" in repr(release.card("SEX"))


def test_answers_are_rounded_for_display_and_exact_in_frames(release):
    answer = release.sql(
        "SELECT SEX, avg(AGE) + pi() / 1000 AS a, sum(AGE) * 1000.5 AS s FROM data GROUP BY SEX"
    )
    exact = float(answer.df()["a"][0])
    assert len(str(exact)) > 8
    assert f"{exact:g}" in repr(answer)
    assert f"<td>{exact:g}</td>" in answer._repr_html_()
    assert str(exact) not in repr(answer) + answer._repr_html_()
    assert "e+" not in repr(answer)


def test_help_lists_the_public_names():
    import engine.tablepack as tp

    text = pydoc.render_doc(tp, renderer=pydoc.plaintext)
    head = text[: text.index("CLASSES")]
    assert all(re.search(rf"\b{name}\b", head) for name in tp.__all__ if name != "__version__")


@pytest.mark.slow
def test_a_second_build_of_fewer_columns_and_no_silent_overwrite(folder, release):
    fewer = make_frame()[["ID", "SEX", "AGE"]]
    out = folder / "fewer.duckdb"
    with engine.build(
        fewer, tables=[["SEX"]], key=folder / "my.key", entities=["ID"], out=out
    ) as second:
        assert counts(out, "SEX") == counts(release.path, "SEX")  # the same noise
        assert second.tables == (("SEX",),)
    with pytest.raises(engine.StoreError, match=r"force=True"):
        engine.build(fewer, tables=[["AGE"]], key=folder / "my.key", entities=["ID"], out=out)
    assert counts(out, "SEX") == counts(release.path, "SEX")


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
    with pytest.warns(UserWarning, match="temporary key"):
        release = engine.synthesize(make_frame(), entity="ID", tables=1)
    assert set(release.columns) == set(make_frame()) - {"ID"}
    assert release.path.parent.stat().st_mode & 0o077 == 0
    assert not list(tmp_path.glob("tablepack-key-*"))
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


@pytest.mark.slow
def test_a_spec_by_its_path_or_read(tmp_path, census):
    spec = write_spec(tmp_path, census / "people.parquet", CENSUS, TWELVE[:2])
    stages = []
    engine.build(
        str(spec), out=tmp_path / "a.duckdb", progress=lambda *one: stages.append(one)
    ).close()
    engine.build(read(spec), out=str(tmp_path / "b.duckdb"), jobs=1).close()
    assert table_hashes(tmp_path / "a.duckdb") == table_hashes(tmp_path / "b.duckdb")
    assert stages[0][0] == "reading"
    assert stages[-1] == ("done", 1, 1)
    done = [d for s, d, _ in stages if s == "tables"]
    assert done == sorted(done)
    assert all(d <= total for _, d, total in stages)
    assert {t.columns for t in engine.plan(spec).tables if t.is_published} == set(TWELVE[:2])


@pytest.mark.slow
def test_a_source_by_its_path(tmp_path, census):
    engine.new_key(tmp_path / "my.key")
    with engine.build(
        census / "people.csv",
        out=tmp_path / "r.duckdb",
        tables=[["age", "sex"], ["income"]],
        key=tmp_path / "my.key",
        entities=["person_id"],
        columns={"income": Column(name="income", kind="real", value_type="real",
                                  resolution=engine.schema.Resolution(base=10, exponent=3))},
    ) as made:  # fmt: skip
        assert made.tables == (("income",), ("age", "sex"))
        incomes = made.sql("SELECT DISTINCT income FROM data WHERE income IS NOT NULL").rows
    assert all(value % 1_000 == 0 for (value,) in incomes)


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


def test_a_frame_with_equal_names(tmp_path):
    engine.new_key(tmp_path / "my.key")
    frame = pd.DataFrame([[1, 2]] * 30, columns=["x", "x"])
    with pytest.raises(engine.DataError, match="are the same"):
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


@pytest.mark.slow
def test_an_interactive_session_that_finds_the_package_in_its_own_folder(tmp_path):
    """The empty entry of the module path means the folder of the session, not that of the release."""
    code = textwrap.dedent(SCRIPT)
    for name in ("my.key", "r.duckdb"):
        code = code.replace(f'"{name}"', repr(str(tmp_path / name)))
    env = {k: v for k, v in environment().items() if k != "PYTHONPATH"}
    check_says_many(
        subprocess.run(
            [sys.executable, "-"], cwd=ROOT, env=env, input=code, capture_output=True, text=True
        )
    )


def test_settings_of_a_spec_cannot_be_given_again(tmp_path):
    with pytest.raises(engine.SpecError, match="tables, entities: "):
        engine.build(
            tmp_path / "no.toml", tables=[["A"]], entities=["id"], out=tmp_path / "r.duckdb"
        )
