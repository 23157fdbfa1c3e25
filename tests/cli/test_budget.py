"""`tablepack budget`: the budget of mode dp and the exposure ledger."""

from __future__ import annotations

import json

import pytest
import typer
from fixtures.margins import PARAMS, make_spec, measure
from typer.testing import CliRunner

from engine.cli.custody import EXAMPLE, budget_command
from engine.errors import BudgetError, SpecError, StoreError
from engine.key_files import new_key
from engine.measure.dp import balance, ledger_path
from engine.source import Charge, Sketch, add_charge

pytest.importorskip("opendp")
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
def spec(tmp_path, monkeypatch):
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


def test_what_is_spent_and_on_what(spec):
    measure(spec, PARAMS)
    done = run(spec.key_path)
    assert "epsilon 1 of 100 spent, 99 left" in done.stdout
    cells = [c.strip() for c in done.stdout.splitlines()[-1].split("│")]
    assert cells == ["1", "measured", "2024", "t", "laplace", "4", "1", "0", "100"]
    assert "vintage 2024" in done.stderr


def test_sticky_builds_are_listed_with_their_exposure(spec):
    people = Sketch(of=("id",), named=True, hashes=(1, 2), size=2)
    first = {"vintage": "2024", "draws": "2023", "title": "first", "tables": (("a", "b"),)}
    pairs = ((("a",), "b", 0.25),)
    add_charge(spec.key_path, Charge(**first, pairs=pairs, accepted="agreed", sketch=people))
    done = run(spec.key_path)
    cells = [c.strip() for c in done.stdout.splitlines()[-1].split("│")]
    assert cells == ["2024 (draws of 2023)", "first", "1", "0.25", "agreed"]
    shown = json.loads(run(spec.key_path, "--json").stdout)["exposure"]
    assert shown == [first | {"tables": 1, "figures_a_person": 0.25, "accepted": "agreed"}]


def test_exposure_adds_up_by_group_and_is_shown_with_the_bound(spec, tmp_path):
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
        add_charge(spec.key_path, Charge(**said, pairs=pairs, sketch=people))
    by_key, by_spec = run(spec.key_path).stdout, run(path).stdout
    assert "0.24" in by_key
    assert "0.4" not in by_key
    assert "0.24 (refused above 0.4)" in by_spec
    shown = json.loads(run(path, "--json").stdout)
    assert (shown["exposure_together"], shown["exposure_refused_above"]) == (0.2406, 0.4)
    assert json.loads(run(spec.key_path, "--json").stdout)["exposure_refused_above"] is None


def test_setting_the_budget_is_an_entry_of_its_own(spec):
    measure(spec, PARAMS)
    done = run(spec.key_path, "--set", "4", "--delta", "1e-6")
    assert "epsilon 1 of 4 spent, 3 left, at delta 1e-06" in done.stdout
    assert [e.state for e in balance(spec.key_path).entries] == ["measured", "budget set"]
    with pytest.raises(BudgetError, match="budget"):
        run(spec.key_path, "--set", "0.5")
    assert balance(spec.key_path).budget == 4


def test_bad_input(spec, tmp_path):
    with pytest.raises(SpecError, match=r"no\.key"):
        run(tmp_path / "no.key")
    with pytest.raises(SpecError, match=r"no\.toml"):
        run(tmp_path / "no.toml")
    with pytest.raises(SpecError, match="--delta needs --set"):
        run(spec.key_path, "--delta", "0.1")
    with pytest.raises(SpecError, match="above 0"):
        run(spec.key_path, "--set", "nan")
    assert run(spec.key_path, "--set", "much").exit_code == 2
    ledger_path(spec.key_path).write_text("{}")
    with pytest.raises(StoreError, match="ledger"):
        run(spec.key_path)
    new_key(tmp_path / "another.key")
    assert run(tmp_path / "another.key").exit_code == 0
