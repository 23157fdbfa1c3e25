"""The first hour with one's own data: what `init` proposes is shown, and what is still missing is told in time."""

from __future__ import annotations

import re
import tomllib

import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import tablepack

import engine

pytestmark = pytest.mark.ci


def people(n, **more):
    rng = np.random.default_rng(7)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 8, n) * 10,
            "sex": rng.choice(["f", "m"], n),
            "region": rng.choice(list("ABCD"), n),
            **{name: rng.permutation(np.arange(n) % size) for name, size in more.items()},
        }
    )


def init(folder, frame, *words):
    frame.to_csv(folder / "people.csv", index=False)
    done = tablepack("init", "people.csv", "-o", "r.toml", *words, "--force", cwd=folder)
    assert done.returncode == 0, done.stderr
    return tomllib.loads((folder / "r.toml").read_text())["tables"], done.stderr


def test_age_by_sex_with_each_column_is_proposed_where_it_fits(tmp_path):
    tables, _ = init(tmp_path, people(40_000))
    assert {"all": 2} in tables
    assert {"columns": ["age", "region", "sex"]} in tables


def test_pairs_that_would_be_nearly_all_suppressed_are_not_proposed(tmp_path):
    """Of 5,000 people 80 share each number; hardly anybody shares two of them."""
    tables, told = init(tmp_path, people(5_000, one=61, two=59))
    pairs = [entry["columns"] for entry in tables]
    assert ["one", "two"] not in pairs
    assert ["one", "sex"] in pairs
    assert ["age", "sex"] in pairs
    assert re.search(r"\d+ pairs? of columns (is|are) left out of the tables: nearly all", told)


def test_amounts_in_cents_and_dates_go_from_init_to_a_plan_without_warnings_of_suppression(
    tmp_path,
):
    rng = np.random.default_rng(3)
    n = 8_000
    day = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 1_000, n), unit="D")
    frame = people(n).assign(
        cost=np.exp(rng.normal(12, 0.9, n)).astype(int), arrival=day.strftime("%Y-%m-%d")
    )
    init(tmp_path, frame)
    text = (tmp_path / "r.toml").read_text()
    assert 'resolution = "week"' in text
    assert "resolution = 1000\n" in text
    tablepack("key", "new", "r.key", cwd=tmp_path)
    planned = tablepack("plan", "r.toml", cwd=tmp_path)
    assert planned.returncode == 0, planned.stderr
    assert "too small to show" not in planned.stderr
    assert "publisher" in planned.stderr


def test_a_build_tells_what_a_publication_will_want(tmp_path):
    init(tmp_path, people(2_000), "--width", 1)
    tablepack("key", "new", "r.key", cwd=tmp_path)
    built = tablepack("build", "r.toml", cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    assert 'title = "..." in [release]' in built.stderr
    assert "publisher" in built.stderr
    assert "not reviewed" in built.stderr


def test_an_evaluation_finds_the_statement_that_computes_the_rows(tmp_path):
    pytest.importorskip("sklearn")
    init(tmp_path, people(2_000))
    spec = tmp_path / "r.toml"
    computed = spec.read_text().replace('format = "csv"', "")
    computed = computed.replace(
        'path = "people.csv"',
        'path = "people.csv"\nsql = "SELECT CAST(age AS INTEGER) + 5 AS middle, sex FROM people"',
    )
    computed = re.sub(r"(?s)\[columns\.(age|region)\].*?(?=\n\[)", "", computed)
    computed = computed[: computed.index("[[tables]]")].replace(
        "[columns.sex]", '[columns.middle]\nkind = "integer"\n\n[columns.sex]'
    )
    spec.write_text(computed + '[[tables]]\ncolumns = ["middle", "sex"]\n')
    tablepack("key", "new", "r.key", cwd=tmp_path)
    built = tablepack("build", "r.toml", "-o", "other.duckdb", cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    words = ("other.duckdb", "--data", "people.csv", "-o", "report.html")
    done = tablepack("evaluate", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "report.html").read_text()
    assert "middle" in page
    absent = re.findall(r"<li>Not computed: ([^:]*)", page)
    assert len(absent) == len(set(absent))


@pytest.mark.parametrize("call", [engine.plan, engine.draft, engine.estimate])
def test_a_misspelled_parameter_is_told_by_its_right_name(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        TypeError, match="'cols' is no parameter of a source; did you mean 'columns'"
    ):
        call(people(50), tables=1, key="no.key", cols=[])
