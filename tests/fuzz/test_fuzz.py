"""Mangled specs, pack specs, studies, sources, statements: never exit code 1, never a value of the data told."""

from __future__ import annotations

from unittest import mock

import pytest
from fixtures.pipeline import tablepack, write_spec
from fixtures.release import build_release
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.hostile
CANARY = "Zr7qCanaryValue0x51c3"
FEW, MANY = 8, 40
"""Cases of each kind: by default, and in the slow run."""
COLUMNS = {"a": {"kind": "integer"}, "b": {"kind": "category"}, "c": {"kind": "text"}}
PACK = '[pack]\ntitle = "x"\n[[tables]]\nrows = ["AGE"]\ncols = ["SEX"]\nmeasure = "count"\n'
STUDY = (
    'title = "x"\n[univariate]\n[[rows]]\nlabel = "u"\nmeasure = "univariate.x"\nreach = "<= 3"\n'
)
STATEMENT = "SELECT sex, count(*) AS n, avg(age) FROM data WHERE age BETWEEN 1 AND 9 GROUP BY ALL"
ODD = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [
            *("[", "]", "{", "}", '"', "'", "\\", "=", "\n", "\r", ",", ".", "0", "-1", "1e999", "nan", "inf"),
            *("9" * 400, "[" * 300, "true", "1979-05-27", '""', "\0", "\ufeff", "[release]", "[[tables]]"),
            *("(", ")", "--", "/*", ";", "*", "NULL", "::DATE", "CAST(", "1/0", "%", "$1", "?"),
        ]
    ),
)  # fmt: skip


@st.composite
def mangled(draw, text: str) -> str:
    """A text with some pieces cut out, doubled, or replaced by what is odd."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        how = draw(st.sampled_from(["cut", "put", "double"]))
        middle = {"cut": "", "put": draw(ODD), "double": text[start:end] * 2}[how]
        text = text[:start] + middle + text[end:]
    return text


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    rows = "".join(f"{i % 7},{'xyz'[i % 3]},{CANARY}\n" for i in range(60))
    (folder / "d.csv").write_text(f"a,b,c\n{rows}")
    write_spec(folder, "d.csv", COLUMNS, [("a",), ("a", "b")], entities=())
    build_release(folder / "r.duckdb")
    return folder


def check(folder, *words):
    done = tablepack(*words, cwd=folder)
    assert done.returncode != 1, done.stderr
    assert "Traceback" not in done.stderr
    assert CANARY not in done.stderr + done.stdout


def written(folder, name, text):
    (folder / name).write_text(text, encoding="utf-8", errors="replace", newline="")
    return name


def fuzzed(n):
    return settings(
        max_examples=n,
        derandomize=n == FEW,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


def spec(folder, data):
    text = data.draw(mangled((folder / "release.toml").read_text()))
    check(folder, "plan", written(folder, "m.toml", text))


def pack(folder, data):
    name = written(folder, "p.toml", data.draw(mangled(PACK)))
    check(folder, "publish", "r.duckdb", "--dry-run", "--spec", name)


def study(folder, data):
    """Most are refused before anything is measured."""
    name = written(folder, "s.toml", data.draw(mangled(STUDY)))
    check(folder, "evaluate", "d.csv", "--data", "none.csv", "--spec", name, "-o", "e.html")


def source(folder, data):
    name = written(folder, "f.csv", data.draw(mangled((folder / "d.csv").read_text())))
    check(folder, "init", name, "-o", "i.toml", "--force")


def statement(folder, data):
    """The release is the same each time, and what is in it is not looked at again: that is most of a command."""
    text = data.draw(mangled(STATEMENT))
    with mock.patch("engine.store.opening._check"):
        check(folder, "sql", "r.duckdb", f" {text}".replace("\0", ""), "--format", "csv")


KINDS = [spec, pack, study, source, statement]


@pytest.mark.ci
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_few_mangled(folder, kind):
    fuzzed(FEW)(given(data=st.data())(lambda data: kind(folder, data)))()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_many_mangled(folder, kind):
    fuzzed(MANY)(given(data=st.data())(lambda data: kind(folder, data)))()
