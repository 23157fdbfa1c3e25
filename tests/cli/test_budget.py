"""`tablepack budget` as the custodian runs it."""

from __future__ import annotations

import json

import pytest
import typer
from fixtures.margins import PARAMS, make_spec, measure
from typer.testing import CliRunner

from engine.cli.custody import EXAMPLE, budget_command
from engine.errors import BudgetError, SpecError, StoreError
from engine.keys import new_key
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
    """Run the command; its errors come as they are: `exits` makes messages and codes of them."""
    app = typer.Typer()
    app.command("budget", epilog=EXAMPLE)(budget_command)
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=True)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_before_any_build(spec):
    done = run(spec.key_path)
    assert "there is no ledger" in done.stdout
    assert f"tablepack budget {spec.key_path} --set 4" in done.stdout
    for said in ("have a ledger of their own", "guarantee = false", "with another key"):
        assert said in done.stderr
    told = json.loads(run(spec.key_path, "--json").stdout)
    assert (told["budget"], told["spent"], told["left"], told["entries"]) == (None, 0, None, [])
    assert not ledger_path(spec.key_path).exists()


def test_what_is_spent_and_on_what(spec):
    measure(spec, PARAMS)
    done = run(spec.key_path)
    assert "epsilon 1 of 100 is spent, 99 is left." in done.stdout
    cells = [c.strip() for c in done.stdout.splitlines()[-1].split("│")]
    assert cells == ["1", "measured", "2024", "t", "laplace", "4", "1", "0", "100"]
    assert "vintage 2024" in done.stderr


def test_sticky_builds_are_listed_with_what_they_told(spec):
    people = Sketch(of=("id",), named=True, hashes=(1, 2), size=2)
    first = {"vintage": "2024", "draws": "2023", "title": "first", "tables": (("a", "b"),)}
    pairs = ((("a",), "b", 0.25),)
    add_charge(spec.key_path, Charge(**first, pairs=pairs, accepted="agreed", sketch=people))
    done = run(spec.key_path)
    cells = [c.strip() for c in done.stdout.splitlines()[-1].split("│")]
    assert cells == ["2024 (draws of 2023)", "first", "1", "0.25", "agreed"]
    told = json.loads(run(spec.key_path, "--json").stdout)["exposure"]
    assert told == [first | {"tables": 1, "figures_a_person": 0.25, "accepted": "agreed"}]


def test_sticky_builds_are_added_up_by_group_and_said_with_the_bound(spec, tmp_path):
    path = tmp_path / "release.toml"
    path.write_text(SPEC)
    people = Sketch(of=("id",), named=False, hashes=(1, 2), size=2)
    for at, pairs in enumerate(
        [
            ((("a",), "b", 0.25), (("b",), "a", 0.1)),
            ((("a",), "c", 0.3), (("b",), "a", 0.22)),  # of one pair .32 together, of none .55
        ]
    ):
        tables = (("a", "b"), ("a", "b", "c")) if at else (("a", "b"),)
        said = {"vintage": f"{at}", "draws": f"{at}", "title": "", "tables": tables}
        add_charge(spec.key_path, Charge(**said, pairs=pairs, sketch=people))
    by_key, by_spec = run(spec.key_path).stdout, run(path).stdout
    assert (
        "they add up by group and column told, to at most 0.32. What is refused, a spec says"
        in by_key
    )
    assert "they add up by group and column told, to at most 0.32 (refused above 0.4).\n" in by_spec
    assert "Wider tables are those of two and more columns" in by_key
    told = json.loads(run(path, "--json").stdout)
    assert (told["exposure_together"], told["exposure_refused_above"]) == (0.32, 0.4)
    assert json.loads(run(spec.key_path, "--json").stdout)["exposure_refused_above"] is None


def test_people_of_whom_none_is_shared_are_not_added_up(spec):
    for at in range(2):
        people = Sketch(
            of=("id",), named=True, hashes=tuple(range(100 * at, 100 * at + 50)), size=64
        )
        said = {"vintage": f"{at}", "draws": f"{at}", "title": "", "tables": (("a", "b"),)}
        add_charge(spec.key_path, Charge(**said, pairs=((("a",), "b", 0.2),), sketch=people))
    assert json.loads(run(spec.key_path, "--json").stdout)["exposure_together"] == 0.2


def test_json_has_all_but_the_id(spec):
    measure(spec, PARAMS)
    text = run(spec.key_path, "--json").stdout
    told = json.loads(text)
    assert (told["budget"], told["spent"], told["left"], told["delta"]) == (100, 1, 99, 0)
    assert [e["state"] for e in told["entries"]] == ["measured"]
    assert told["vintages"] == ["2024"]
    assert balance(spec.key_path).entries[0].id not in text


def test_set_is_an_act_of_its_own(spec):
    measure(spec, PARAMS)
    done = run(spec.key_path, "--set", "4", "--delta", "1e-6")
    assert "epsilon 1 of 4 is spent, 3 is left, at delta 1e-06." in done.stdout
    assert [e.state for e in balance(spec.key_path).entries] == ["measured", "budget set"]
    with pytest.raises(BudgetError, match="the budget cannot be less"):
        run(spec.key_path, "--set", "0.5")
    assert balance(spec.key_path).budget == 4


def test_by_spec(spec, tmp_path):
    path = tmp_path / "release.toml"
    path.write_text(SPEC)
    measure(spec, PARAMS)
    assert run(path, "--json").stdout == run(tmp_path / "keys" / "key", "--json").stdout


def test_bad_input(spec, tmp_path):
    with pytest.raises(SpecError, match="does not exist; make one"):
        run(tmp_path / "no.key")
    with pytest.raises(SpecError, match="no spec file"):
        run(tmp_path / "no.toml")
    with pytest.raises(SpecError, match="--delta goes with --set"):
        run(spec.key_path, "--delta", "0.1")
    with pytest.raises(SpecError, match="above 0"):
        run(spec.key_path, "--set", "nan")
    assert run(spec.key_path, "--set", "much").exit_code == 2
    ledger_path(spec.key_path).write_text("{}")
    with pytest.raises(StoreError, match="cannot be read"):
        run(spec.key_path)
    new_key(tmp_path / "another.key")
    assert run(tmp_path / "another.key").exit_code == 0
