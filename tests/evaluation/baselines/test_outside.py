"""Commands, names, partial synthesis and schemas: what runs, what is refused, what no message repeats."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

from engine.errors import DataError, SpecError
from engine.evaluation.baselines.baseline import Schema
from engine.evaluation.baselines.catalogue import baseline_of, command_of, entrants

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


@pytest.mark.ci
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


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ('import sys; print("Huber earns 417"); sys.exit(3)', "failed with exit code 3"),
        ("pass", "wrote no file"),
        *(
            pytest.param(HEAD + code + WRITE, words, marks=pytest.mark.slow)
            for code, words in (
                ('f = f.drop(columns="x")', "lacking: x; new: none"),
                ("f = f.head(9)", "gave fewer rows"),
                ('f.loc[3, "x"] = None', "gave blanks where there were none: x"),
                ("f = f[[]]", "made: "),
            )
        ),
    ],
)
def test_bad_output_is_a_clear_error_and_no_value_of_the_data(code, words):
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


@pytest.mark.ci
def test_a_command_that_hangs_is_stopped_with_all_that_it_started():
    code = 'import subprocess, sys; print("begun", flush=True); subprocess.run(["sleep", "60"])'
    with pytest.raises(DataError, match="ran longer than 2 seconds"):
        made(code, seconds=2)


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
    assert [one.name for one in entrants(["cart,margins,own=make {in},{out}"])] == [
        "cart",
        "margins",
        "own",
    ]
    assert "70" in found[1].name
    assert [one.kind for one in found] == ["baseline"] * 5 + ["outside"]
    for name in ("margins", "bootstrap", "swap", "kanon", "parametric", "dpmpm"):
        assert baseline_of(name).promise
    with pytest.raises(SpecError, match="kanon: wants a whole number"):
        baseline_of("kanon2.5")
    with pytest.raises(SpecError, match="there is no baseline"):
        baseline_of("")
