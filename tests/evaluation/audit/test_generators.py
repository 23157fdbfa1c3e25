"""Generators of others: functions and commands; every way in which they fail is said, and no value of the data."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

import engine
from engine.errors import DataError, SpecError
from engine.evaluation.audit import (
    Cells,
    command_generator,
    domain_of,
    frame_generator,
)

SECRET = "Zwickau"
"""A value of the data that no message may hold."""


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(2)
    n = 400
    hidden = rng.integers(0, 2, n)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 4, n) + hidden,
            "sex": np.where(hidden + rng.integers(0, 2, n) > 1, "f", "m"),
            "town": np.array([SECRET, "Gera", "Suhl"])[(hidden + rng.integers(0, 2, n)) % 3],
        }
    )


@pytest.fixture(scope="module")
def domain(frame):
    return domain_of(frame, list(frame.columns))


@pytest.fixture
def data(frame, domain):
    codes = domain.coded(frame, "it")
    return Cells(codes=codes, n=np.ones(len(codes), dtype=np.int64))


def rng():
    return np.random.default_rng(0)


def command(code, tmp_path, domain, **more):
    """A command that runs some Python, with pandas as pd and the paths as source and target."""
    script = tmp_path / "generator.py"
    script.write_text(
        "import sys, time\nimport pandas as pd\nsource, target = sys.argv[1:3]\n" + code
    )
    return command_generator(domain, f"{sys.executable} {script} {{in}} {{out}}", **more)


SAFE = [["age", "sex"], ["age", "town"], ["sex", "town"]]


def independent(seed):
    """A generator that shuffles each column by itself, another way at each call."""
    rng = np.random.default_rng(seed)
    return lambda frame: pd.DataFrame({c: rng.permutation(frame[c].to_numpy()) for c in frame})


@pytest.mark.ci
def test_a_function_that_keeps_to_margins_and_one_that_copies(frame):
    columns = ["age", "sex", "town"]
    good = engine.audit(independent(7), data=frame, safe=1, columns=columns, rows=800)
    assert good.verdict == "not refuted"  # fixed by both seeds
    bad = engine.audit(lambda f: f.sample(len(f), replace=True), data=frame, safe=SAFE, rows=800)
    assert bad.is_refuted
    assert bad.p < 1e-10
    assert bad.generator == "the function <lambda>"


@pytest.mark.ci
def test_a_command_copies(frame, domain, data, tmp_path):
    generator = command(
        "pd.read_csv(source).sample(frac=1).to_csv(target, index=False)", tmp_path, domain
    )
    made = generator.draw(data, rng())
    assert made.n.sum() == len(frame)
    lines = {tuple(codes): n for codes, n in zip(made.codes.tolist(), made.n.tolist(), strict=True)}
    for codes, n in pd.Series(list(map(tuple, data.codes.tolist()))).value_counts().items():
        assert lines[codes] == n
    assert generator.words.startswith("the command ")


@pytest.mark.ci
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise ValueError('no ' + pd.read_csv(source).town[0])", r"(?s)failed with exit code 1.*no \[\.\.\.\]"),
        ("open(target, 'wb').write(b'\\xff\\xfe\\x00')", "the generator: "),
        ("pd.read_csv(source).drop(columns='sex').to_csv(target, index=False)", "other columns: lacks sex"),
        ("pd.read_csv(source).head(3).to_csv(target, index=False)", "gave 3 rows of 400"),
        ("pd.read_csv(source).assign(town='Ulm').to_csv(target, index=False)", "'town' holds values that"),
    ],
)  # fmt: skip
def test_what_goes_wrong_with_a_command(code, said, domain, data, tmp_path):
    with pytest.raises(DataError, match=said) as refused:
        command(code, tmp_path, domain).draw(data, rng())
    assert SECRET not in str(refused.value)


@pytest.mark.ci
def test_a_command_that_hangs_says_what_it_said(domain, data, tmp_path):
    script = tmp_path / "hangs.py"
    script.write_text("import time; print('thinking', flush=True); time.sleep(600)")
    made = command_generator(domain, f"{sys.executable} {script} {{in}} {{out}}", seconds=3)
    with pytest.raises(DataError, match=r"(?s)longer than 3 seconds .*thinking"):
        made.draw(data, rng())


def test_commands_that_cannot_be_run(domain, data):
    with pytest.raises(DataError, match="cannot be started"):
        command_generator(domain, "/no/such/program {in} {out}").draw(data, rng())
    with pytest.raises(SpecError, match=r"lacks \{out\}"):
        command_generator(domain, "cp {in} there")
    with pytest.raises(SpecError, match="No closing quotation"):
        command_generator(domain, "cp '{in} {out}")


@pytest.mark.parametrize(
    ("what", "more", "said"),
    [
        (independent(7), {}, "safe"),
        (
            independent(7),
            {"safe": SAFE, "columns": ["age", "shoe"]},
            "no safe margin is about shoe",
        ),
        (independent(7), {"safe": SAFE, "data": None}, "data"),
        ("nowhere.duckdb", {}, r"nowhere\.duckdb: is not a spec"),
    ],
)
def test_audits_that_make_no_sense(frame, what, more, said):
    with pytest.raises(SpecError, match=said):
        engine.audit(what, **({"data": frame} | more))


def test_what_goes_wrong_with_a_function(frame, domain, data):
    def fails(f):
        raise RuntimeError(f"what of {f.town[0]}?")

    for town in range(3):
        whole = Cells(
            codes=data.codes[data.codes[:, 2] == town], n=data.n[data.codes[:, 2] == town]
        )
        with pytest.raises(DataError, match=r"RuntimeError: what of \[\.\.\.\]\?"):
            frame_generator(domain, fails).draw(whole, rng())
    with pytest.raises(DataError, match="gave list, not a data frame"):
        frame_generator(domain, lambda f: [1]).draw(data, rng())
