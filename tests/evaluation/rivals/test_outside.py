"""Commands, names, partial synthesis and schemas: what runs, what is refused, what no message repeats."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fixtures.compare import make_small

from engine.api.reading import read
from engine.errors import DataError, SpecError
from engine.evaluation.rivals import (
    Cart,
    Partial,
    Schema,
    command_of,
    entrants,
    require_alike,
    rival_of,
    schema_of,
    syntheses,
)
from engine.evaluation.rivals.outside import RECIPES, masked, recipe_of
from engine.evaluation.rivals.pram import Pram
from engine.evaluation.rivals.recipes import mst
from engine.evaluation.rivals.rival import impossible

pytest.importorskip("sklearn")
FRAME = pd.DataFrame(
    {
        "name": ["Schmidt", "Huber", "Moser", "Schmidt"] * 10,
        "n": [1.0, 2.0, np.nan, 417.0] * 10,
        "day": pd.to_datetime(["2020-01-05", "2021-02-03", None, "2020-01-05"] * 10),
        "x": [0.5, 1.25, 2.5, 3.75] * 10,
    }
)
SCHEMA = Schema(numbers=frozenset({"n", "x", "day"}))


def python(code: str, seconds: float = 60):
    return command_of(
        f"{sys.executable} -c '{code}' {{in}} {{out}} {{seed}}", name="made", seconds=seconds
    )


def made(code: str, frame: pd.DataFrame = FRAME, schema: Schema = SCHEMA, seconds: float = 60):
    return python(code, seconds).synthesize(frame, schema, np.random.default_rng(1))


HEAD = "import sys, pandas as pd; f = pd.read_csv(sys.argv[1], keep_default_na=False); "
WRITE = "; f.to_csv(sys.argv[2], index=False)"


def test_a_command_gets_the_rows_and_a_seed_and_its_table_is_read_as_the_data_is():
    out = made("import shutil, sys; shutil.copy(sys.argv[1], sys.argv[2])")
    pd.testing.assert_frame_equal(
        out.assign(name=out["name"].astype(str)),
        FRAME.assign(name=FRAME["name"].astype(str)),
        check_dtype=False,
    )
    seeded = made(HEAD + 'f["x"] = int(sys.argv[3])' + WRITE)
    assert seeded["x"].nunique() == 1
    assert 0 <= seeded["x"][0] < 2**31


def test_kept_columns_are_put_back():
    schema = Schema(numbers=SCHEMA.numbers, kept=("n",))
    out = made(HEAD + "f = f.assign(n=5, x=7)" + WRITE, schema=schema)
    pd.testing.assert_series_equal(out["n"], FRAME["n"])
    assert (out["x"] == 7).all()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ('import sys; print("Huber earns 417"); sys.exit(3)', "failed with exit code 3"),
        ("pass", "wrote no file"),
        (HEAD + 'f = f.drop(columns="x")' + WRITE, "lacking: x; new: none"),
        (HEAD + "f = f.assign(y=1)" + WRITE, "gave other columns|left out"),
        (HEAD + "f = f.head(9)" + WRITE, "gave fewer rows"),
        (HEAD + 'f.loc[3, "x"] = None' + WRITE, "gave blanks where there were none: x"),
        (HEAD + "f = f[[]]" + WRITE, "made: "),
    ],
)
def test_bad_output_is_a_clear_error_and_no_value_of_the_data(code, words):
    if "y=1" in code:
        # Columns that the data lacks are left out in reading; the rest is a table like any other.
        assert list(made(code).columns) == list(FRAME.columns)
        return
    with pytest.raises(DataError, match=words) as caught:
        made(code)
    for value in ("Huber", "huber", "417", "Moser"):
        assert value not in str(caught.value)


def test_a_traceback_is_repeated_without_values():
    code = HEAD + 'raise ValueError("cannot convert Moser (" + f["name"][0] + ") at 2020-01-05")'
    with pytest.raises(DataError) as caught:
        made(code)
    told = str(caught.value)
    assert "ValueError: cannot convert [...] ([...]) at" in told
    assert "2020" not in told


def test_a_command_that_hangs_is_stopped_with_all_that_it_started():
    code = 'import subprocess, sys; print("begun", flush=True); subprocess.run(["sleep", "60"])'
    start = time.monotonic()
    with pytest.raises(DataError, match=r"ran longer than 2 seconds and was stopped.*\n  begun"):
        made(code, seconds=2)
    assert time.monotonic() - start < 30


def test_what_cannot_be_started_says_so():
    with pytest.raises(DataError, match="nothing-here: cannot be started"):
        command_of("/nothing-here {in} {out}").synthesize(FRAME, SCHEMA, np.random.default_rng(1))
    with pytest.raises(SpecError, match=r"lacks \{in\} and \{out\}"):
        command_of("make")
    with pytest.raises(SpecError, match="cannot be read"):
        command_of("make '{in} {out}")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("row 17: 'Schmidt' -> \"x\"", "row #: '...' -> '...'"),
        ("SCHMIDT and Schmidtke", "[...] and Schmidtke"),
        ("value -3.5e7, 1,200", "value #, #"),
        ("KeyError: age", "KeyError: age"),
    ],
)
def test_lines_are_masked(line, told):
    assert masked(line, {"schmidt"}) == told


@pytest.mark.parametrize("what", [None, [1, 2], "table"])
def test_what_is_no_table_is_refused(what):
    with pytest.raises(DataError, match="and no table"):
        require_alike(what, FRAME, "theirs")


def test_as_many_rows_are_wanted_where_rows_correspond():
    require_alike(pd.concat([FRAME, FRAME]), FRAME, "theirs")
    with pytest.raises(DataError, match="other than as many rows"):
        require_alike(pd.concat([FRAME, FRAME]), FRAME, "theirs", as_many=True)
    with pytest.raises(DataError, match="lacking: x; new: z"):
        require_alike(FRAME.rename(columns={"x": "z"}), FRAME, "theirs")


# --- names


def test_names_are_read():
    found = entrants(["cart, pram70,sample12.5", "cart:n+x,mdav4", "own=make {in},{out}"])
    assert [one.name for one in found] == [
        "cart",
        "pram70",
        "sample12.5",
        "cart:n+x",
        "mdav4",
        "own",
    ]
    assert found[1].rival == Pram(keep=0.7)
    assert found[5].rival.words == ("make", "{in},{out}")
    for name in ("margins", "bootstrap", "swap", "kanon", "parametric", "dpmpm"):
        assert rival_of(name).promise
    with pytest.raises(SpecError, match="kanon: wants a whole number"):
        rival_of("kanon2.5")
    with pytest.raises(SpecError, match="there is no rival"):
        rival_of("")


def test_a_file_called_as_a_rival_is_keeps_its_ending(tmp_path):
    file = tmp_path / "cart.csv"
    file.touch()
    found = entrants([f"cart,{file}"])
    assert [(one.name, one.path) for one in found] == [("cart", None), ("cart.csv", file)]
    assert entrants([str(file)])[0].name == "cart"
    with pytest.raises(SpecError, match=r"cart\.csv is there twice"):
        entrants([f"{file},{file}"])


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_a_recipe_runs_in_an_interpreter_that_has_its_package_and_says_how_to_make_one(name):
    found = entrants([f"{name}={sys.executable}"])[0]
    assert found.name == name
    assert found.rival.words[0] == sys.executable
    assert Path(found.rival.words[2]).is_file()
    with pytest.raises(SpecError, match=rf"{name}: there is no interpreter .*pip install"):
        recipe_of(name, "/no/python")
    with pytest.raises(SpecError, match=rf"is not installed here; make an environment.*{name}="):
        recipe_of(name)


def test_the_recipe_of_mst_keeps_the_zeros_of_codes(tmp_path):
    file = tmp_path / "in.csv"
    file.write_text(
        "code,job,n,blank,signed,void\n00,1,5,,-1.5,\n16,none,-7,2,2,\n25,2,0,3,0.25,\n"
    )
    read = pd.read_csv(file, dtype=str, keep_default_na=False, na_values=[""]).apply(mst._typed)
    assert read["code"].tolist() == ["00", "16", "25"]
    assert read["job"].tolist() == ["1", "none", "2"]
    assert read["n"].tolist() == [5, -7, 0]
    assert read["blank"].dropna().tolist() == [2, 3]
    assert read["signed"].tolist() == [-1.5, 2, 0.25]
    assert read["void"].isna().all()


# --- partial synthesis, several syntheses, schemas


@pytest.mark.parametrize("name", ["cart", "dpmpm", "parametric", "pram", "margins", "bootstrap"])
def test_partial_synthesis_changes_named_columns_alone_and_says_what_it_is(name):
    frame = FRAME.assign(x=np.random.default_rng(7).random(len(FRAME)))
    rival = Partial(rival=rival_of(name), columns=("name", "x"))
    out = rival.synthesize(frame, SCHEMA, np.random.default_rng(1))
    pd.testing.assert_frame_equal(out[["n", "day"]], frame[["n", "day"]])
    assert not out[["name", "x"]].equals(frame[["name", "x"]])
    assert "confidential until it is evaluated" in rival.promise
    assert rival.origin


def test_partial_synthesis_wants_columns_that_are_there():
    with pytest.raises(SpecError, match="wants columns"):
        Partial(rival=Cart(), columns=())
    with pytest.raises(SpecError, match="cart:z: names z"):
        Partial(rival=Cart(), columns=("z",)).synthesize(FRAME, SCHEMA, np.random.default_rng(1))


def test_several_syntheses_differ_and_follow_the_generator():
    tables = syntheses(Cart(), FRAME, SCHEMA, 3, np.random.default_rng(1))
    assert len(tables) == 3
    assert not tables[0].equals(tables[1])
    again = syntheses(Cart(), FRAME, SCHEMA, 3, np.random.default_rng(1))
    pd.testing.assert_frame_equal(tables[2], again[2])
    with pytest.raises(SpecError, match="wants 1 to 100"):
        syntheses(Cart(), FRAME, SCHEMA, 0, np.random.default_rng(1))


def test_a_schema_says_what_the_spec_says_else_what_columns_look_like(tmp_path):
    spec = read(make_small(tmp_path))
    rows = pd.DataFrame({"a": ["a0"] * 30, "b": ["b0"] * 30, "c": np.arange(30.0)})
    assert schema_of(rows, spec).numbers == {"c"}
    assert schema_of(rows.assign(c=1.0), spec).numbers == {"c"}
    assert schema_of(rows.assign(c=1.0)).numbers == frozenset()
    assert schema_of(FRAME).numbers == {"day"}
    assert schema_of(FRAME.assign(n=np.arange(40))).numbers == {"day", "n"}


def test_universes_are_structural_zeros(tmp_path):
    path = make_small(tmp_path)
    text = (
        path.read_text("utf-8")
        .replace('domain = ["b0"', 'universe = { column = "c", min = 10 }\ndomain = ["b0"', 1)
        .replace("nullable = false\n\n[columns.c]", "\n[columns.c]")
    )
    path.write_text(text, "utf-8")
    rows = pd.DataFrame({"a": "a0", "b": ["b0", None, "b1", None], "c": [5.0, 5.0, 12.0, 12.0]})
    rules = schema_of(rows, read(path)).zeros
    # A child with a value, and an adult without one, cannot be.
    assert impossible(rows, rules).tolist() == [True, False, False, True]
