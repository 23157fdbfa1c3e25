"""What an outside audit of mode dp found, from end to end: each of its cases is refused, or right."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import threading

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import tablepack

import engine
from engine import release
from engine.cli import console
from engine.errors import SpecError, TablepackError
from engine.measure.dp import balance, levels_of, margins, set_budget, shares
from engine.measure.dp.noise import noised
from engine.progress import silent
from engine.schema import Column
from engine.source import begin_charges, begin_ledger, open_rows
from engine.spec import read_spec
from queries import open_release

pytest.importorskip("opendp")
N = 60
SPEC = """
[release]
title = "Made up"
vintage = "{vintage}"
key = "k.key"
mode = "dp"
[dp]
{dp}
[source]
path = "{path}"
entities = ["id"]
{source}
[columns.id]
kind = "integer"
[columns.sex]
kind = "category"
domain = ["f", "m"]
public = true
nullable = false
[columns.inc]
kind = "integer"
domain = {{ min = 0, max = 99 }}
breaks = [20, 40, 60, 80]
public = true
nullable = false
{columns}
[[tables]]
columns = ["inc", "sex"]
"""


def people(n: int = N) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {"id": np.arange(n), "sex": rng.choice(["f", "m"], n), "inc": rng.integers(0, 90, n)}
    )


def written(
    folder,
    dp="epsilon = 1.0",
    *,
    rows=None,
    source="",
    columns="",
    name="r",
    path=None,
    vintage="v",
    budget=None,
):
    """A spec over people.csv, and its key."""
    folder.mkdir(exist_ok=True)
    (people() if rows is None else rows).to_csv(folder / "people.csv", index=False)
    if not (folder / "k.key").exists():
        engine.new_key(folder / "k.key")
    if budget is not None:
        set_budget(folder / "k.key", budget)
    spec = folder / f"{name}.toml"
    spec.write_text(
        SPEC.format(
            dp=dp, source=source, columns=columns, path=path or "people.csv", vintage=vintage
        )
    )
    return spec


WHO_IS_THERE = (
    "SELECT id, inc, CASE WHEN EXISTS (SELECT 1 FROM people WHERE id = '7') THEN 'f' ELSE 'm' END "
    "AS sex FROM people"
)
RANKED = "SELECT id, sex, ntile(10) OVER (ORDER BY inc) * 9 AS inc FROM people"


@pytest.mark.parametrize("sql", [WHO_IS_THERE, RANKED])
def test_a_source_statement_that_looks_at_others_is_refused(tmp_path, sql):
    spec = written(tmp_path, source=f'sql = "{sql}"')
    with pytest.raises(SpecError, match=r"source\.sql"):
        measure(spec)
    assert not balance(tmp_path / "k.key").entries


@pytest.mark.ci
def test_a_declared_stability_multiplies_the_noise_and_is_said(tmp_path):
    sql = "SELECT id, max(sex) AS sex, max(inc) AS inc FROM people GROUP BY id"
    sds = {}
    for stability in (1, 10):
        spec = written(
            tmp_path,
            f"epsilon = 1.0\nbudget = 9.0\nstability = {stability}",
            source=f'sql = "{sql}"',
            name=f"s{stability}",
        )
        engine.build(spec)
        with open_release(spec.with_suffix(".duckdb")) as made:
            sds[stability] = made.card("inc", "sex").noise_sd
            assert ("rows of at most 10 of them" in " ".join(made.notes)) == (stability == 10)
    assert 9.5 < sds[10] / sds[1] < 10.5


def test_rows_that_somebody_else_computed_want_a_declaration(tmp_path):
    with duckdb.connect(str(tmp_path / "d.duckdb")) as con:
        con.execute("CREATE TABLE p (id BIGINT, sex VARCHAR, inc BIGINT)")
        con.execute(
            "CREATE VIEW people AS SELECT id, sex, rank() OVER (ORDER BY inc) AS inc FROM p"
        )
    spec = written(tmp_path, path="d.duckdb", source='table = "people"')
    with pytest.raises(SpecError, match="each_row_from_one_entity"):
        engine.plan(spec)
    said = "epsilon = 1.0\neach_row_from_one_entity = true"
    engine.plan(written(tmp_path, said, path="d.duckdb", source='table = "people"'))


def test_a_frame_and_a_table_of_spark_want_the_declaration_too(tmp_path):
    engine.new_key(tmp_path / "k.key")
    flag = Column(
        name="sex",
        kind="category",
        value_type="text",
        nullable=False,
        public=True,
        domain=("f", "m"),
    )
    asked = {"tables": [["sex"]], "key": tmp_path / "k.key", "entities": ["id"], "columns": [flag]}
    with pytest.raises(SpecError, match="each_row_from_one_entity"):
        engine.plan(people(), dp={"epsilon": 1.0}, **asked)
    engine.plan(people(), dp={"epsilon": 1.0, "each_row_from_one_entity": True}, **asked)
    table = 'engine = "spark"'
    with pytest.raises(SpecError, match="each_row_from_one_entity"):
        engine.plan(written(tmp_path, path="db.people", source=table))
    said = "epsilon = 1.0\neach_row_from_one_entity = true"
    engine.plan(written(tmp_path, said, path="db.people", source=table))


def test_another_way_to_read_the_source_is_another_measurement(tmp_path):
    """Counts that were kept are those of the declarations that they were made under."""
    engine.build(written(tmp_path, budget=9.0))
    for number, (source, columns) in enumerate(
        (('delimiter = ","', ""), ("", 'decimal = ","'), ("", 'nulls = ["f"]')), start=2
    ):
        spec = written(tmp_path, source=source)
        spec.write_text(spec.read_text().replace("[columns.inc]", f"[columns.inc]\n{columns}"))
        measure(spec)
        assert len(balance(tmp_path / "k.key").entries) == number + 1  # and the budget that was set


ODD = {
    "an ordinary one": {},
    "above its bounds": {"inc": 100},
    "far below": {"inc": -(10**30)},
    "no number": {"inc": "?"},
    "no income": {"inc": None},
    "not in the list": {"sex": "x"},
    "no sex": {"sex": None},
    "a second row of somebody": {"id": 3},
    "no id": {"id": None},
    "an id that is no number": {"id": "?"},
}


def released(spec) -> dict[str, list]:
    """Every row of every table that a release holds."""
    path, held = spec.with_suffix(".duckdb"), {}
    with duckdb.connect(str(path), read_only=True) as con:
        names = con.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() UNION SELECT schema_name, view_name "
            "FROM duckdb_views() WHERE NOT internal"
        ).fetchall()
        for schema, table in names:
            found = con.execute(f'SELECT * FROM "{schema}"."{table}"')
            held[f"{schema}.{table}"] = sorted(map(repr, found.fetchall()))
    return held


WRITERS = {"sav": "write_sav", "dta": "write_dta", "xpt": "write_xport"}
NO_ROWS = {
    "a line of two fields": b"999,f",
    "an open quote": b'999,"f,5',
    "no UTF-8": b"999,\xff\xfe,5",
    "two lines": b'999,"f\n998,f,5',
}


@pytest.mark.parametrize("odd", NO_ROWS)
def test_one_broken_line_never_decides_whether_a_build_succeeds(tmp_path, odd, monkeypatch):
    seen, (first, *rest) = exact_counts(monkeypatch), people().to_csv(index=False).encode().split()
    spec = written(tmp_path)
    for number, lines in enumerate(([first, *rest], [first, *rest[:9], NO_ROWS[odd], *rest[9:]])):
        (tmp_path / "people.csv").write_bytes(b"\n".join([*lines, b""]))
        spec.write_text(spec.read_text().replace('vintage = "v', f'vintage = "v{number}'))
        set_budget(tmp_path / "k.key", 9.0)
        measure(spec)
    one, other = seen
    assert all(np.abs(a - b).sum() <= 1 for a, b in zip(one, other, strict=True))
    assert one[0] == N


@pytest.mark.parametrize("odd", ["no calendar has the date", "the text is none"])
@pytest.mark.parametrize("form", ["sav", "dta", "xpt"])
def test_what_a_library_refuses_of_a_row_concerns_that_row(tmp_path, monkeypatch, form, odd):
    """Files of SPSS, Stata and SAS; the last person is the odd one, and is there or not."""
    readstat = pytest.importorskip("pyreadstat", reason="the extra stat is not installed")
    seen = exact_counts(monkeypatch)
    rows = people().assign(born=14_610.0, sex=lambda all: all["sex"].replace({"m": "mä"}))
    kinds = {"sav": "DATE11", "dta": "%td", "xpt": "DATE9"}
    if form == "sav":
        rows["born"] += (dt.date(1960, 1, 1) - dt.date(1582, 10, 14)).days
        rows["born"] *= 86_400
    for number, last in enumerate(([], [N])):
        file = tmp_path / f"{number}.{form}"
        held = pd.concat([rows, rows.tail(1).assign(id=N, sex="zz")]) if last else rows
        if last and odd.startswith("no"):
            held.iloc[-1, held.columns.get_loc("born")] = 1e300 if form != "xpt" else 1e70
        held = held.astype({"id": float, "inc": float})
        getattr(readstat, WRITERS[form])(held, file, variable_format={"born": kinds[form]})
        if last and not odd.startswith("no"):
            file.write_bytes(file.read_bytes().replace(b"zz", b"\xff\xfe"))
        columns = '[columns.born]\nkind = "date"\ndomain = { min = 1999-12-31, max = 2000-01-02 }\npublic = true\n'
        spec = written(tmp_path / str(number), columns=columns, path=str(file))
        spec.write_text(
            spec.read_text()
            .replace('["f", "m"]', '["f", "mä"]')
            .replace('["inc", "sex"]', '["born", "inc", "sex"]')
        )
        measure(spec)
    first, second = seen
    assert first[0] == N
    assert first[1].sum(axis=1).max() == N  # all were born on the same day
    assert all(np.abs(a - b).sum() <= 1 for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(("missing", "counted"), [("drop", N), ("own", N + 3)])
def test_rows_without_an_id_are_left_out_or_each_an_entity(tmp_path, monkeypatch, missing, counted):
    seen = exact_counts(monkeypatch)
    none = pd.DataFrame(
        [{"id": None, "sex": "f", "inc": 5}] * 3 + [{"id": 3, "sex": "f", "inc": 5}]
    )
    rows = pd.concat([people().astype(object), none])
    spec = written(tmp_path, f'epsilon = 1.0\nmissing_ids = "{missing}"', rows=rows)
    engine.build(spec)
    assert seen[0][0] == counted
    with open_release(spec.with_suffix(".duckdb")) as made:
        assert ("names no entity" in " ".join(made.notes)) == (missing == "own")
    (told,) = (tmp_path / "k.key.measured").glob("*.remarks.json")
    said = json.loads(told.read_text())["source"]
    assert (said["column id"], said["left out"]) == (3, N + 3 - counted)


@pytest.mark.parametrize("odd", ODD)
def test_one_person_never_decides_whether_a_build_succeeds(tmp_path, odd, monkeypatch):
    """The audit's neighbours: one row more, of every kind that used to end a build."""
    seen = exact_counts(monkeypatch)
    one = pd.DataFrame([{"id": 999, "sex": "f", "inc": 5} | ODD[odd]]).astype(object)
    for number, rows in enumerate(
        (people().astype(object), pd.concat([people().astype(object), one]))
    ):
        measure(written(tmp_path / str(number), rows=rows))
    first, second = seen
    # One entity more; or another row of one that is there, which may take the place of its first.
    most = 2 if ODD[odd].get("id") == 3 else 1
    assert all(np.abs(a - b).sum() <= most for a, b in zip(first, second, strict=True))


def measure(spec) -> None:
    """Build, but for the fit."""
    release.measure(read_spec(spec), spec.with_suffix(".measured"), force=True)


def exact_counts(monkeypatch) -> list:
    """What each build counts before noise, total first; the noise itself is drawn all the same."""
    seen, real = [], margins.counted

    def noted(*args):
        found = real(*args)
        seen.append([margin.n for margin in found])
        return found

    monkeypatch.setattr(margins, "counted", noted)
    return seen


@pytest.mark.ci
@pytest.mark.parametrize("n", [0, 1])
def test_nobody_and_one_person_are_built_alike(tmp_path, n):
    engine.build(written(tmp_path, rows=people().iloc[:n]))


def test_values_outside_are_settled_as_declared(tmp_path, monkeypatch):
    seen = exact_counts(monkeypatch)
    rows = pd.DataFrame(
        {
            "id": range(8),
            "sex": ["f", "f", "f", "x", None, "f", "f", "f"],
            "inc": [5, 200, -7, 5, 5, None, "?", 50],
            "far": [1, 1, 1, 1, 1, 1, 9, 1],
            "job": ["a", "a", "a", "a", "a", "a", "a", "zzz"],
        }
    )
    more = (
        '[columns.far]\nkind = "integer"\ndomain = { min = 0, max = 2 }\npublic = true\nnullable = false\n'
        'outside = "drop"\n'
        '[columns.job]\nkind = "category"\ndomain = ["b", "a", "rest"]\npublic = true\nnullable = false\n'
        'other = "rest"\n[[tables]]\ncolumns = ["far", "job"]\n'
    )
    spec = written(tmp_path, "epsilon = 1.0\nmargins = 1", rows=rows, columns=more)
    measure(spec)
    (found,) = seen
    # Left out: an unknown sex, no sex, no income, one that is no number (far too), and nobody else.
    total, far, inc, job, sex = (counts.tolist() for counts in found)
    assert total == 4
    assert far == [0, 4, 0]
    assert inc == [2, 0, 1, 0, 1]  # 200 and -7 at the ends
    assert job == [0, 3, 1]
    assert sex == [4, 0]
    (told,) = (tmp_path / "k.key.measured").glob("*.remarks.json")
    said = json.loads(told.read_text())["source"]
    assert said["rows"] == 8
    assert said["left out"] == 4
    assert said["column job"] == 1


def test_a_public_number_of_rows_is_that_of_the_source(tmp_path, monkeypatch):
    seen = exact_counts(monkeypatch)
    rows = people()
    rows.loc[3, "sex"] = "x"
    measure(written(tmp_path, "epsilon = 1.0\npublic_n = true", rows=rows))
    assert seen[0][0] == N


@pytest.mark.ci
def test_the_data_decide_neither_what_is_measured_nor_what_is_charged(tmp_path):
    """The same declarations under the same vintage: the same counts at no cost, though the source has changed."""
    engine.build(written(tmp_path))
    before = released(tmp_path / "r.toml")
    engine.build(written(tmp_path, rows=people().iloc[:-1]), force=True)
    assert released(tmp_path / "r.toml") == before
    assert balance(tmp_path / "k.key").spent == 1.0
    (told,) = (tmp_path / "k.key.measured").glob("*.remarks.json")
    assert json.loads(told.read_text())["source changed since it was measured"]


OUTPUTS = {
    "plan": "made of declarations and the ledger",
    "build: exit code, output, every line of progress": "stages and their numbers follow from declarations",
    "release, byte by byte": "synthetic rows, cards, notes, catalogue: of declarations, noisy counts and the ledger",
    "manifest": "sizes and hashes of the release",
    "cards": "the same",
    "budget": "made of the ledger",
    "pack": "made of the release",
    "names of files beside key and release": "named after declarations",
    "ledger": "what was declared and charged",
    "kept counts": "noisy",
}
"""All that leaves a build of mode dp, and why it tells nothing but what the noise lets through."""
NOT_OUTPUT = "k.key.measured/*.remarks.json"
"""For the custodian's eyes only: exact counts of what was not as declared."""


def outputs_of(spec) -> dict[str, object]:
    """Plan, build, show and publish; all that came of it."""
    folder = spec.parent
    said = {
        words[0]: tablepack(*words, cwd=folder)
        for words in (
            ("plan", spec),
            ("build", spec),
            ("show", "r.duckdb"),
            ("budget", "k.key"),
            ("publish", "r.duckdb", "pack"),
        )
    }
    assert [(name, one.returncode) for name, one in said.items() if one.returncode] == []
    files = sorted(str(file.relative_to(folder)) for file in folder.rglob("*"))
    held = {name: (folder / name).read_bytes() for name in files if (folder / name).is_file()}
    (remarks,) = folder.glob(NOT_OUTPUT)
    assert held.pop(str(remarks.relative_to(folder)))
    assert held.pop("people.csv")
    made = {
        "plan": said["plan"],
        "build: exit code, output, every line of progress": said["build"],
        "release, byte by byte": (held["r.duckdb"], released(spec)),
        "manifest": held["r.duckdb.manifest.json"],
        "cards": said["show"],
        "budget": said["budget"],
        "pack": (said["publish"], [held[name] for name in held if name.startswith("pack/")]),
        "names of files beside key and release": files,
        "ledger": [held[name] for name in held if name.startswith("k.key.") and "npz" not in name],
        "kept counts": [held[name] for name in held if name.endswith(".npz")],
    }
    assert made.keys() == OUTPUTS.keys()
    return made


@pytest.mark.ci
@pytest.mark.parametrize("dp", ["margins = 1", "public_n = true\nmax_rows = 2"])
def test_with_the_noise_fixed_no_output_tells_neighbours_apart(tmp_path, monkeypatch, dp):
    """The data of the second build lack one entity, or hold another: of two rows that nobody expected."""
    monkeypatch.setattr(margins, "noised", lambda counts, *_: np.full_like(counts, 7))
    monkeypatch.setattr(console, "FIRST_LINE", 0.0)
    monkeypatch.setattr(console, "NEXT_LINE", 0.0)
    rows = people().astype(object)
    other = rows.copy()
    other.loc[3] = {"id": 3, "sex": "x", "inc": 10**9}
    other.loc[4, "id"] = 3
    made = []
    for data in (rows, other if "public_n" in dp else other[other["id"] != 3]):
        folder = tmp_path / "same"
        folder.mkdir()
        (folder / "k.key").touch(0o600)
        (folder / "k.key").write_bytes(bytes(range(32)))
        begin_charges(folder / "k.key")
        begin_ledger(folder / "k.key")
        made.append(outputs_of(written(folder, f"epsilon = 1.0\n{dp}", rows=data)))
        folder.rename(tmp_path / f"was{len(made)}")
    assert [name for name in OUTPUTS if made[0][name] != made[1][name]] == []


def build(spec) -> str:
    """Build; how it ended."""
    try:
        measure(spec)
    except TablepackError as error:
        return type(error).__name__
    return "built"


@pytest.mark.ci
def test_renaming_linking_deleting_and_restoring_never_regain_budget(tmp_path):
    """The audit's attacks on the ledger, one after the other."""
    once = "epsilon = 1.0\nbudget = 1.0\nmargins = 1"
    key = tmp_path / "k.key"
    assert build(written(tmp_path, "epsilon = 1.0\nbudget = 1.0")) == "built"
    again = written(tmp_path, once, name="again")
    assert build(again) == "BudgetError"
    key.rename(tmp_path / "other.key")
    again.write_text(again.read_text().replace("k.key", "other.key"))
    assert build(again) == "StoreError"
    (tmp_path / "other.key").rename(key)
    (tmp_path / "sub").mkdir()
    os.link(key, tmp_path / "sub" / "k.key")
    again.write_text(again.read_text().replace("other.key", "sub/k.key"))
    assert build(again) == "StoreError"
    again = written(tmp_path, once, name="again")
    ledger, kept = tmp_path / "k.key.ledger.json", tmp_path / "k.key.measured"
    set_budget(key, 2.0)
    older, had = ledger.read_bytes(), set(kept.iterdir())
    assert build(written(tmp_path, "epsilon = 1.0", name="second", vintage="w")) == "built"
    for file in set(kept.iterdir()) - had:
        file.unlink()
    ledger.write_bytes(older)
    assert build(written(tmp_path, "epsilon = 0.5", name="third", vintage="x")) == "StoreError"
    shutil.rmtree(kept)
    ledger.unlink()
    assert build(again) == "StoreError"
    for file in tmp_path.glob("k.key.*"):
        shutil.rmtree(file) if file.is_dir() else file.unlink()
    assert build(again) == "StoreError"


@pytest.mark.ci
def test_what_else_was_released_with_the_key_is_said(tmp_path):
    measure(written(tmp_path, "guarantee = false", name="exact"))
    measure(written(tmp_path, name="first"))
    engine.build(written(tmp_path, "epsilon = 0.5", name="second", vintage="w", budget=3.0))
    with open_release(tmp_path / "second.duckdb") as made:
        said = " ".join(made.card("inc", "sex").sentences())
        notes = " ".join(made.notes)
    for text in (said, notes):
        assert "epsilon 1.5" in text
        assert "without noise" in text


@pytest.mark.ci
def test_python_detects_nothing_for_mode_dp(tmp_path):
    """How many say false, or maybe, decided what a column was."""
    plans = []
    flags = Column(name="flag", kind="boolean", value_type="boolean", nullable=False)
    for n_false, n_maybe in ((9, 0), (10, 0), (11, 1), (30, 20)):
        folder = tmp_path / f"{n_false}"
        folder.mkdir()
        engine.new_key(folder / "k.key")
        flag = ["true"] * 200 + ["false"] * n_false + ["maybe"] * n_maybe
        pd.DataFrame({"id": range(len(flag)), "flag": flag}).to_csv(folder / "p.csv", index=False)
        asked = {"tables": [["flag"]], "key": folder / "k.key", "entities": ["id"]}
        with pytest.raises(SpecError, match="flag is not declared"):
            engine.plan(str(folder / "p.csv"), dp={"epsilon": 1.0}, **asked)
        asked |= {"columns": [flags], "dp": {"epsilon": 1.0}}
        plans.append(engine.plan(str(folder / "p.csv"), **asked).as_dict())
        with engine.build(str(folder / "p.csv"), out=folder / "r.duckdb", **asked) as made:
            assert not any("Detected" in note for note in made.notes)
    assert all(plan == plans[0] for plan in plans)


def test_a_plan_reads_no_data(tmp_path):
    spec = written(tmp_path)
    before = engine.plan(spec).as_dict()
    (tmp_path / "people.csv").unlink()
    assert engine.plan(spec).as_dict() == before


def test_what_was_detected_is_refused(tmp_path):
    spec = written(tmp_path)
    spec.write_text(spec.read_text().replace('domain = ["f"', 'detected = ["kind"]\ndomain = ["f"'))
    with pytest.raises(SpecError, match="found in the data"):
        engine.plan(spec)


@pytest.mark.parametrize(
    ("dp", "refused", "said"),
    [
        ('noise = "gaussian"\ndelta = 0.9', "accept_delta", ""),
        ('noise = "gaussian"\ndelta = 0.01', "accept_delta", ""),
        ('noise = "gaussian"\ndelta = 0.01\naccept_delta = "agreed"', "", "because: agreed"),
        ('noise = "gaussian"\ndelta = 1e-4', "", "delta is above"),
        ('noise = "gaussian"\ndelta = 1e-6', "", "or the other way round, plus 1e-06"),
        ("budget = 400.0", "", "Exchanging"),
    ],
)
def test_a_large_delta_is_refused_or_warned_of_and_a_small_one_described_rightly(
    tmp_path, dp, refused, said
):
    spec = written(tmp_path, f"epsilon = 1.0\n{dp}")
    if refused:
        with pytest.raises(SpecError, match=refused):
            engine.plan(spec)
        return
    text = repr(engine.plan(spec))
    assert said in text
    assert ("WEAK" in text) == ("above" in said or "because" in said)
    assert "except with probability" not in text


def test_who_is_protected_must_be_said_and_is_named(tmp_path):
    assert "each entity (identified by id)" in repr(engine.plan(written(tmp_path)))
    spec = written(tmp_path, "epsilon = 1.0\neach_row_is_one_entity = true")
    without = spec.read_text().replace('entities = ["id"]', "")
    spec.write_text(without)
    assert "each row is one, as declared" in repr(engine.plan(spec))
    spec.write_text(without.replace("each_row_is_one_entity = true", ""))
    with pytest.raises(SpecError, match="who is protected"):
        engine.plan(spec)


@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param(range(40), marks=pytest.mark.ci, id="40"),
        pytest.param(range(40, 200), marks=pytest.mark.slow, id="160"),
    ],
)
def test_neighbours_differ_by_at_most_the_bound_in_every_margin(tmp_path, monkeypatch, numbers):
    """Two hundred pairs through reading, settling, bounding and counting: an entity more, with rows of every kind."""
    seen = exact_counts(monkeypatch)
    monkeypatch.setattr(margins, "charge", lambda *_, **__: None)
    monkeypatch.setattr(margins, "mark_measured", lambda *_: None)
    monkeypatch.setattr(margins, "read_margins", lambda *_: None)
    monkeypatch.setattr(margins, "write_margins", lambda *_: None)
    reached = 0
    for number in numbers:
        rng = np.random.default_rng([11, number])
        max_rows = int(rng.integers(1, 5))
        folder = tmp_path / str(number)
        dp = f"epsilon = 1.0\nmargins = 1\nmax_rows = {max_rows}"
        rows = [person(rng, i) for i in range(12) for _ in range(int(rng.integers(1, 6)))]
        one = [person(rng, 99) for _ in range(int(rng.integers(1, 8)))]
        together = [*rows, *one]
        rng.shuffle(together)
        for some in (rows, together):
            spec = written(folder, dp, rows=pd.DataFrame(some, columns=["id", "sex", "inc"]))
            opened_margins(spec)
        changes = [int(np.abs(a - b).sum()) for a, b in zip(*seen[-2:], strict=True)]
        assert max(changes) <= max_rows, (number, changes)
        reached += max(changes) == max_rows
    assert reached > len(numbers) / 4  # the bound is no larger than it must be


def person(rng, number: int) -> list:
    """A row of somebody, now and then with a value that nobody declared."""
    return [
        number,
        rng.choice(["f", "m", "x", None], p=[0.45, 0.45, 0.05, 0.05]),
        rng.choice([5, 33, 70, 99, 1000, -4, "?", None], p=[0.2] * 4 + [0.05] * 4),
    ]


def opened_margins(spec) -> None:
    """Read, bound and count; no noise is kept."""
    checked = read_spec(spec)
    with open_rows(checked, None, silent) as opened:
        levels = {c.name: levels_of(c) for c in checked.columns if c.name in checked.dp.columns}
        margins.measured_margins(
            opened, checked.dp, levels, key_path=checked.key_path, vintage="v", title="t"
        )


@pytest.mark.ci
def test_epsilon_as_measured_is_the_one_claimed(tmp_path):
    """From both sides: what two neighbours' counts tell apart is no more than claimed, and nearly as much."""
    spec = written(tmp_path, 'epsilon = 1.0\nmargins = [["sex"]]\nmax_rows = 2\ntotal_share = 0.01')
    params = read_spec(spec).dp
    (share,) = (s for s in shares(params, {"sex": 2, "inc": 5}) if s.columns)
    drawn = [noised(np.full(400_000, n, dtype=np.int64), share.noise, share.scale) for n in (0, 2)]
    at = [np.histogram(d, bins=np.arange(-4, 8))[0] for d in drawn]
    told_apart = np.abs(np.log(at[0] / at[1]))
    spread = np.sqrt(1 / at[0] + 1 / at[1])
    assert (told_apart < share.epsilon + 5 * spread).all()
    # A statement on one side of both counts has the ratio of the claim itself, and is frequent.
    low = [np.count_nonzero(d <= 0) for d in drawn]
    assert abs(np.log(low[0] / low[1]) - share.epsilon) < 5 * np.sqrt(sum(1 / n for n in low))


def test_five_builds_at_once_never_overspend(tmp_path):
    specs = [
        written(
            tmp_path,
            f'epsilon = 0.5\nmargins = [["sex"], ["inc"]]\ntotal_share = 0.{n}1',
            name=f"b{n}",
        )
        for n in range(1, 6)
    ]
    set_budget(tmp_path / "k.key", 1.5)
    ended = []
    threads = [threading.Thread(target=lambda s=s: ended.append(attempt(s))) for s in specs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ended) == ["BudgetError"] * 2 + ["built"] * 3
    assert balance(tmp_path / "k.key").spent == 1.5


def attempt(spec) -> str:
    """Measure; how it ended."""
    try:
        opened_margins(spec)
    except TablepackError as error:
        return type(error).__name__
    return "built"
