"""Mode dp on the command line: refusals, warnings, the budget and its command, and nothing half-written."""

from __future__ import annotations

import json

import pytest
import typer
from fixtures.margins import PARAMS, make_spec, measure
from fixtures.pipeline import left_over, tablepack, write_spec
from fixtures.release_dp import COLUMNS, TABLES, WIDEST, people
from typer.testing import CliRunner

from engine.cli.custody import EXAMPLE, budget_command
from engine.errors import BudgetError, SpecError, StoreError
from engine.key_files import new_key
from engine.measure.dp import balance, ledger_path
from engine.source import Charge, Sketch, add_charge

pytest.importorskip("opendp")

GIVEN = [
    "my.key", "my.key.exposure.json", "my.key.ledger.json", "release.toml", "rows.parquet"
]  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    """A folder with the rows only; `tmp_path` beside it takes temporary files."""
    made = tmp_path / "work"
    made.mkdir()
    people().to_parquet(made / "rows.parquet")
    return made


def spec(folder, dp: str, *, columns=COLUMNS, tables=TABLES):
    """Write a spec with a section [dp], and its key."""
    path = write_spec(
        folder, "rows.parquet", columns, tables, entities=("pid",), release={"mode": "dp"}
    )
    path.write_text(f"{path.read_text()}[dp]\n{dp}\n")
    return path


def build(folder, tmp, *words: object):
    """Run the build; its scratch must be gone whatever came of it."""
    done = tablepack(
        "build", "release.toml", "-o", "r.duckdb", "--force", *words, cwd=folder, tmp=tmp
    )
    assert not left_over(tmp)
    assert "Traceback" not in done.stderr
    return done


def names(folder) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def measured(folder) -> list[dict]:
    """The ledger's entries, as `budget --json` shows them."""
    done = tablepack("budget", "release.toml", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["entries"]


# --- bad parameters: refused before a row is read (every parameter: tests/spec/test_spec_dp_bad.py)


@pytest.mark.parametrize("word", ["plan", "build"])
def test_bad_parameters_are_refused_with_exit_code_2(folder, tmp_path, word):
    for dp, named in (
        ("epsilon = nan", "dp.epsilon"),
        ('epsilon = 1\nnoise = "gaussian"', "dp.delta"),
        ("epsilon = 1\nbudget = 0.5", "dp.budget"),
        ('epsilon = 1\nmethod = "catall"\nmax_cells = 20', "96 cells"),
        ("epsilon = 1\nmargins = 3\nmax_cells = 20", "48 cells"),
    ):
        spec(folder, dp)
        words = ("-o", "r.duckdb") if word == "build" else ()
        done = tablepack(word, "release.toml", *words, cwd=folder, tmp=tmp_path)
        assert done.returncode == 2
        assert named in done.stderr
        assert not done.stdout
        assert "Traceback" not in done.stderr
        assert names(folder) == GIVEN


# --- data that violate declarations: a build takes them as declared, and tells its custodian in writing only


@pytest.mark.ci
@pytest.mark.parametrize(
    ("column", "declared"),
    [
        ("region", {"domain": ["R1", "R2"]}),
        ("age", {"domain": {"min": 0, "max": 80}}),
        ("job", {"nullable": False}),
    ],
)
def test_data_outside_a_declaration(folder, tmp_path, column, declared):
    changed = {k: v for k, v in COLUMNS[column].items() if k != "universe"} | declared
    spec(folder, "epsilon = 1", columns={**COLUMNS, column: changed})
    done = build(folder, tmp_path)
    assert done.returncode == 0
    assert column not in done.stderr.replace("remarks", "")
    (told,) = (folder / "my.key.measured").glob("*.remarks.json")
    assert json.loads(told.read_text())["source"][f"column {column}"] > 10


# --- releases that are made, but with a warning


@pytest.mark.slow
def test_a_fit_that_does_not_converge_is_marked_and_ends_with_4(folder, tmp_path):
    spec(folder, "epsilon = 1\nmax_cycles = 1")
    done = build(folder, tmp_path)
    assert done.returncode == 4
    assert "did NOT converge" in done.stderr
    card = tablepack("show", "r.duckdb", "--table", ",".join(WIDEST), cwd=folder).stdout
    assert "NOT CONVERGED" in card
    # Built again, it is the finished release with the same warning.
    again = build(folder, tmp_path, "--json")
    assert again.returncode == 4
    assert "did NOT converge" in again.stdout


# --- the budget


@pytest.mark.ci
def test_overspending_ends_with_3_and_spends_nothing(folder, tmp_path):
    spec(folder, "epsilon = 1\nbudget = 1.5")
    assert build(folder, tmp_path).returncode == 0
    before, ledger = names(folder), (folder / "my.key.ledger.json").read_bytes()
    release = (folder / "r.duckdb").read_bytes()
    spec(folder, "epsilon = 1.25\nbudget = 1.5")
    warned = tablepack("plan", "release.toml", cwd=folder)
    assert "refused" in warned.stderr
    done = build(folder, tmp_path)
    assert done.returncode == 3
    assert "--set 2.25" in done.stderr
    assert names(folder) == before
    assert (folder / "my.key.ledger.json").read_bytes() == ledger
    assert (folder / "r.duckdb").read_bytes() == release
    # As the message says: with more budget the same build goes through.
    assert tablepack("budget", "release.toml", "--set", "2.25", cwd=folder).returncode == 0
    spec(folder, "epsilon = 1.25")
    assert build(folder, tmp_path).returncode == 0
    assert [e["epsilon"] for e in measured(folder) if e["state"] == "measured"] == [1, 1.25]


# --- from the spec to the answer


@pytest.mark.ci
def test_a_release_from_plan_to_answer(folder, tmp_path):
    spec(folder, "epsilon = 2\nbudget = 4")
    planned = tablepack("plan", "release.toml", cwd=folder, tmp=tmp_path)
    assert planned.returncode == 0, planned.stderr
    assert "epsilon 2" in planned.stdout
    done = tablepack("build", "release.toml", "-o", "r.duckdb", cwd=folder, tmp=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not done.stdout
    assert "epsilon 2" in done.stderr
    shown = tablepack("budget", "release.toml", cwd=folder).stdout
    assert "epsilon 2 of 4 spent, 2 left" in shown
    assert tablepack("show", "r.duckdb", cwd=folder).stdout.count("age, ") == 3
    asked = "SELECT sex, count(*) AS n FROM data GROUP BY sex ORDER BY sex"
    answered = tablepack("sql", "r.duckdb", asked, "--format", "csv", cwd=folder)
    rows = [line.split(",") for line in answered.stdout.splitlines()]
    assert [row[0] for row in rows] == ["sex", "f", "m"]
    assert sum(int(row[1]) for row in rows[1:]) == pytest.approx(3_000, abs=400)
    assert tablepack("export", "r.duckdb", "csv", cwd=folder).returncode == 0
    assert len(list((folder / "csv").iterdir())) == len(TABLES)
    assert tablepack("doctor", "r.duckdb", cwd=folder).returncode == 0


SPEC = """
[release]
vintage = "2024"
key = "keys/key"
[source]
path = "people.csv"
[columns.SEX]
kind = "category"
domain = ["f", "m"]
public = true
[[tables]]
columns = ["SEX"]
"""


@pytest.fixture
def spec_of_budget(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return make_spec(tmp_path, monkeypatch)


def run(*words):
    """Run the command and raise its errors; `run_and_exit` would turn them into messages and exit codes."""
    app = typer.Typer()
    app.command("budget", epilog=EXAMPLE)(budget_command)
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=True)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_what_is_spent_and_on_what(spec_of_budget):
    measure(spec_of_budget, PARAMS)
    done = run(spec_of_budget.key_path)
    assert "epsilon 1 of 100 spent, 99 left" in done.stdout
    cells = [c.strip() for c in done.stdout.splitlines()[-1].split("│")]
    assert cells == ["1", "measured", "2024", "t", "laplace", "4", "1", "0", "100"]
    assert "vintage 2024" in done.stderr


def test_sticky_builds_are_listed_with_their_exposure(spec_of_budget):
    people = Sketch(of=("id",), named=True, hashes=(1, 2), size=2)
    first = {"vintage": "2024", "draws": "2023", "title": "first", "tables": (("a", "b"),)}
    pairs = ((("a",), "b", 0.25),)
    add_charge(
        spec_of_budget.key_path, Charge(**first, pairs=pairs, accepted="agreed", sketch=people)
    )
    done = run(spec_of_budget.key_path)
    cells = [c.strip() for c in done.stdout.splitlines()[-1].split("│")]
    assert cells == ["2024 (draws of 2023)", "first", "1", "0.25", "agreed"]
    shown = json.loads(run(spec_of_budget.key_path, "--json").stdout)["exposure"]
    assert shown == [first | {"tables": 1, "figures_a_person": 0.25, "accepted": "agreed"}]


def test_exposure_adds_up_by_group_and_is_shown_with_the_bound(spec_of_budget, tmp_path):
    path = tmp_path / "release.toml"
    path.write_text(SPEC)
    people = Sketch(of=("id",), named=False, hashes=(1, 2), size=2)
    for at, pairs in enumerate(
        [
            (((), "b", 0.2), ((), "a", 0.1)),
            (((), "c", 0.2), ((), "a", 0.22)),  # of a .24 together: ratios add up
        ]
    ):
        tables = (("a", "b"), ("a", "b", "c")) if at else (("a", "b"),)
        said = {"vintage": f"{at}", "draws": f"{at}", "title": "", "tables": tables}
        add_charge(spec_of_budget.key_path, Charge(**said, pairs=pairs, sketch=people))
    by_key, by_spec = run(spec_of_budget.key_path).stdout, run(path).stdout
    assert "0.24" in by_key
    assert "0.4" not in by_key
    assert "0.24 (refused above 0.4)" in by_spec
    shown = json.loads(run(path, "--json").stdout)
    assert (shown["exposure_together"], shown["exposure_refused_above"]) == (0.2406, 0.4)
    assert (
        json.loads(run(spec_of_budget.key_path, "--json").stdout)["exposure_refused_above"] is None
    )


def test_setting_the_budget_is_an_entry_of_its_own(spec_of_budget):
    measure(spec_of_budget, PARAMS)
    done = run(spec_of_budget.key_path, "--set", "4", "--delta", "1e-6")
    assert "epsilon 1 of 4 spent, 3 left, at delta 1e-06" in done.stdout
    assert [e.state for e in balance(spec_of_budget.key_path).entries] == ["measured", "budget set"]
    with pytest.raises(BudgetError, match="budget"):
        run(spec_of_budget.key_path, "--set", "0.5")
    assert balance(spec_of_budget.key_path).budget == 4


def test_bad_input(spec_of_budget, tmp_path):
    with pytest.raises(SpecError, match=r"no\.key"):
        run(tmp_path / "no.key")
    with pytest.raises(SpecError, match=r"no\.toml"):
        run(tmp_path / "no.toml")
    with pytest.raises(SpecError, match="--delta needs --set"):
        run(spec_of_budget.key_path, "--delta", "0.1")
    with pytest.raises(SpecError, match="above 0"):
        run(spec_of_budget.key_path, "--set", "nan")
    assert run(spec_of_budget.key_path, "--set", "much").exit_code == 2
    ledger_path(spec_of_budget.key_path).write_text("{}")
    with pytest.raises(StoreError, match="ledger"):
        run(spec_of_budget.key_path)
    new_key(tmp_path / "another.key")
    assert run(tmp_path / "another.key").exit_code == 0
