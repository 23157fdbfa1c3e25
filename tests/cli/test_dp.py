"""Mode dp on the command line: what is said of bad input, with which exit code, and that nothing half-made is left."""

from __future__ import annotations

import json

import pytest
from fixtures.pipeline import left_over, process, tablepack, write_spec
from fixtures.release_dp import COLUMNS, TABLES, WIDEST, people

import engine

pytest.importorskip("opendp")
GIVEN = ["my.key", "my.key.exposure.json", "release.toml", "rows.parquet"]
FINISHED = ["r.duckdb", "r.duckdb.manifest.json"]


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


# --- bad parameters: refused before a row is read


@pytest.mark.parametrize("word", ["plan", "build"])
@pytest.mark.parametrize(
    ("dp", "said"),
    [
        ("epsilon = 0", "dp.epsilon: "),
        ("epsilon = -0.5", "dp.epsilon: "),
        ("epsilon = nan", "dp.epsilon: "),
        ("epsilon = inf", "dp.epsilon: "),
        ('epsilon = "much"', "dp.epsilon: "),
        ("epsilon = true", "dp.epsilon: "),
        ("epsilon = 1e-300", "dp.epsilon: "),
        ("epsilon = 501", "dp.epsilon: "),
        ("", "dp.epsilon: is missing"),
        ('epsilon = 1\nnoise = "gaussian"\ndelta = 0', "dp.delta: "),
        ('epsilon = 1\nnoise = "gaussian"\ndelta = 1', "dp.delta: "),
        ('epsilon = 1\nnoise = "gaussian"\ndelta = -1e-6', "dp.delta: "),
        ('epsilon = 1\nnoise = "gaussian"\ndelta = nan', "dp.delta: "),
        ('epsilon = 1\nnoise = "gaussian"\ndelta = "x"', "dp.delta: "),
        ('epsilon = 1\nnoise = "gaussian"', "dp.delta: is missing"),
        ("epsilon = 1\ndelta = 1e-6", "dp.delta: "),
        ("epsilon = 1\nbudget = 0.5", "less than this build's epsilon"),
        ('epsilon = 1\nmargins = [["age", "sexx"]]', "no column sexx; did you mean 'sex'?"),
        ('epsilon = 1\nmargins = [["age", "pid"]]', "dp.margins[1]: pid"),
        ("epsilon = 1\nmargins = []", "dp.margins: is empty"),
        ("epsilon = 1\nmargins = 5", "dp.margins: "),
        ('epsilon = 1\nmethod = "catall"\nmax_cells = 20', "have 96 cells, more than dp.max_cells"),
        ("epsilon = 1\nmargins = 3\nmax_cells = 20", "age, job, region have 48 cells, more than"),
    ],
)
def test_what_cannot_be_is_refused_with_exit_code_2(folder, tmp_path, word, dp, said):
    spec(folder, dp)
    words = ("-o", "r.duckdb") if word == "build" else ()
    done = tablepack(word, "release.toml", *words, cwd=folder, tmp=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert not done.stdout
    assert "Traceback" not in done.stderr
    assert names(folder) == GIVEN


def test_a_table_too_large_says_its_size_the_limit_and_what_to_do(folder):
    spec(folder, 'epsilon = 1\nmethod = "catall"\nmax_cells = 20')
    said = tablepack("plan", "release.toml", cwd=folder).stderr
    for part in ("96 cells", "dp.max_cells = 20", "breaks", "fewer columns", "raise max_cells"):
        assert part in said


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("0", "wants numbers from 1e-09 to 500, not 0"),
        ("1,-1", "wants numbers from 1e-09 to 500, not -1"),
        ("nan", "wants numbers from 1e-09 to 500, not nan"),
        ("501", "wants numbers from 1e-09 to 500, not 501"),
        ("0.1,much", "'much' is no number"),
        ("1,1.0", "one is there twice"),
    ],
)
def test_epsilons_of_a_comparison_are_refused_before_it_builds(folder, tmp_path, told, said):
    spec(folder, "epsilon = 1")
    done = tablepack("compare", "release.toml", "--epsilon", told, cwd=folder, tmp=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert names(folder) == GIVEN


# --- data that break what is declared: the column and the rule are said, the value is not


@pytest.mark.parametrize(
    ("column", "told", "rule"),
    [
        ("region", {"domain": ["R1", "R2"]}, 'a value outside its declared "domain"'),
        (
            "age",
            {"domain": {"min": 0, "max": 80}},
            'a value outside its declared "domain" (min, max)',
        ),
        ("job", {"nullable": False}, 'a null, declared "nullable = false"'),
    ],
)
def test_a_domain_that_lacks_a_value_names_column_and_rule_only(
    folder, tmp_path, column, told, rule
):
    changed = {k: v for k, v in COLUMNS[column].items() if k != "universe"} | told
    spec(folder, "epsilon = 1", columns={**COLUMNS, column: changed})
    done = build(folder, tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip() == f"error: column '{column}': holds {rule}"
    assert names(folder) == GIVEN, "nothing is charged for what was not measured"


# --- releases that are made, but with a warning


def test_margins_that_leave_columns_out_are_warned_of_and_marked(folder, tmp_path):
    spec(folder, 'epsilon = 1\nmargins = [["age", "sex"]]')
    planned = tablepack("plan", "release.toml", cwd=folder)
    assert planned.returncode == 0
    assert planned.stderr.count("nothing of it is measured") == 2
    done = build(folder, tmp_path)
    assert done.returncode == 0
    assert "warning: in no margin, so evenly frequent: job, region" in done.stderr
    card = tablepack("show", "r.duckdb", "--table", "job,region", cwd=folder).stdout
    assert "UNIFORM: nothing was measured for job, region" in card
    assert "UNIFORM" not in tablepack("show", "r.duckdb", "--table", "age,sex", cwd=folder).stdout


def test_a_fit_that_does_not_converge_is_said_marked_and_ends_with_4(folder, tmp_path):
    spec(folder, "epsilon = 1\nmax_cycles = 1")
    done = build(folder, tmp_path)
    assert done.returncode == 4
    assert "did NOT converge" in done.stderr
    card = tablepack("show", "r.duckdb", "--table", ",".join(WIDEST), cwd=folder).stdout
    assert "NOT CONVERGED" in card
    # Built again it is a finished release still, and says the same.
    again = build(folder, tmp_path, "--json")
    assert again.returncode == 4
    assert "did NOT converge" in again.stdout


def test_a_release_without_a_guarantee_says_so_everywhere(folder, tmp_path):
    spec(folder, "guarantee = false")
    assert "nobody is protected" in tablepack("plan", "release.toml", cwd=folder).stderr
    done = build(folder, tmp_path)
    assert done.returncode == 0
    assert "NO PRIVACY GUARANTEE" in done.stderr
    assert "NO PRIVACY GUARANTEE" in (
        tablepack("show", "r.duckdb", "--table", "age,sex", cwd=folder).stdout
    )
    assert measured(folder) == []


# --- the budget


def test_overspending_ends_with_3_and_spends_nothing(folder, tmp_path):
    spec(folder, "epsilon = 1\nbudget = 1.5")
    assert build(folder, tmp_path).returncode == 0
    before, ledger = names(folder), (folder / "my.key.ledger.json").read_bytes()
    release = (folder / "r.duckdb").read_bytes()
    spec(folder, "epsilon = 1.25\nbudget = 1.5")
    warned = tablepack("plan", "release.toml", cwd=folder)
    assert "would be refused" in warned.stderr
    done = build(folder, tmp_path)
    assert done.returncode == 3
    for part in ("overspent", "1 is spent", "0.5 is left", "Nothing was measured", "--set 2.25"):
        assert part in done.stderr
    assert names(folder) == before
    assert (folder / "my.key.ledger.json").read_bytes() == ledger
    assert (folder / "r.duckdb").read_bytes() == release
    # As the message says: with more budget the same build goes through.
    assert tablepack("budget", "release.toml", "--set", "2.25", cwd=folder).returncode == 0
    spec(folder, "epsilon = 1.25")
    assert build(folder, tmp_path).returncode == 0
    assert [e["epsilon"] for e in measured(folder) if e["state"] == "measured"] == [1, 1.25]


def test_the_same_build_twice_spends_once(folder, tmp_path):
    spec(folder, "epsilon = 1")
    assert build(folder, tmp_path).returncode == 0
    with engine.open(folder / "r.duckdb") as made:
        first = made.content_hash
    for name in FINISHED:
        (folder / name).unlink()
    assert build(folder, tmp_path).returncode == 0
    # Not the bytes of the file: how many tables are written at once hangs on how busy the machine is.
    with engine.open(folder / "r.duckdb") as made:
        assert made.content_hash == first
    assert len(measured(folder)) == 1


# --- as people run it, from the spec to the answer, in processes of their own


def test_a_release_from_plan_to_answer(folder, tmp_path):
    spec(folder, "epsilon = 2\nbudget = 4")
    planned = process("plan", "release.toml", cwd=folder, tmp=tmp_path)
    assert planned.returncode == 0, planned.stderr
    assert "costs epsilon 2; 4 of 4 is left" in planned.stdout
    done = process("build", "release.toml", "-o", "r.duckdb", cwd=folder, tmp=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not done.stdout
    assert "differential privacy with epsilon 2" in done.stderr
    assert (
        "epsilon 2 of 4 is spent, 2 is left"
        in tablepack("budget", "release.toml", cwd=folder).stdout
    )
    listed = tablepack("show", "r.duckdb", cwd=folder)
    assert listed.stdout.count("age, ") == 3
    asked = "SELECT sex, count(*) AS n FROM data GROUP BY sex ORDER BY sex"
    answered = tablepack("sql", "r.duckdb", asked, "--format", "csv", cwd=folder)
    rows = [line.split(",") for line in answered.stdout.splitlines()]
    assert [row[0] for row in rows] == ["sex", "f", "m"]
    assert sum(int(row[1]) for row in rows[1:]) == pytest.approx(3_000, abs=400)
    assert tablepack("export", "r.duckdb", "csv", cwd=folder).returncode == 0
    assert len(list((folder / "csv").iterdir())) == len(TABLES)
    assert tablepack("doctor", "r.duckdb", cwd=folder).returncode == 0
