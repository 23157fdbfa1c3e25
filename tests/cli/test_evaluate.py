"""Commands evaluate, attack and compare: files, summary, exit codes, and no value where it does not belong."""

from __future__ import annotations

import html
import json
import stat
from unittest import mock

import pytest
import typer
from fixtures.compare import Builder, make_small
from fixtures.evaluate import CANARY, World, shuffled
from fixtures.pipeline import Done, tablepack
from typer.testing import CliRunner

import engine
from engine.cli.evaluate import compare_command
from engine.evaluation.attacks.protocol import ATTACKS, STRONG_ATTACKS
from engine.evaluation.findings import FIGURES

pytest.importorskip("sklearn")
pytest.importorskip("jinja2")


def run(world: World, *words: object, cwd=None, **more) -> Done:
    """Evaluate, by the short study unless another spec is given."""
    given = {"--data": world.data, "--spec": world.study} | more
    options = [part for name, value in given.items() if value is not None for part in (name, value)]
    return tablepack("evaluate", *words, *options, cwd=cwd or world.folder)


@pytest.mark.ci
def test_a_release_and_a_table_are_compared(world, tmp_path, monkeypatch):
    from engine.cli.console import PlainConsole

    monkeypatch.setattr(
        "engine.cli.console.PlainConsole", lambda **more: PlainConsole(**more, width=80)
    )
    for name in ("r.html", "r.json"):
        (tmp_path / name).write_text("old")
        (tmp_path / name).chmod(0o644)
    words = (world.release, world.csv, "-o", tmp_path / "r.html")
    assert run(world, *words).returncode == 2
    assert (tmp_path / "r.html").read_text() == "old"
    done = run(world, *words, "--force")
    assert done.returncode == 0, done.stderr
    assert "CONFIDENTIAL, mode 0600" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.html", "r.json"]
    assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {0o600}
    found = json.loads((tmp_path / "r.json").read_text("utf-8"))
    assert [s["name"] for s in found["subjects"]] == ["ours", "theirs"]
    assert "Improvement factors" in (tmp_path / "r.html").read_text("utf-8")
    for name in ("ours", "theirs"):
        assert f"{name}: Utility:" in done.stdout
        assert f"{name}: Risk:" in done.stdout
    tables = [line for line in done.stdout.splitlines() if "│" in line or "┃" in line]
    assert tables
    assert max(map(len, tables)) <= 80


@pytest.mark.ci
def test_the_summary_shows_the_figures_of_the_json(world, tmp_path):
    done = run(world, world.csv, "-o", tmp_path / "r.html", **{"--control": world.control})
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "r.json").read_text("utf-8"))
    values = {
        FIGURES[row["measure"]]: row["value"]
        for row in told["frame"]
        if row["subject"] == "theirs" and row["measure"] in FIGURES and row["value"] is not None
    }
    headlines = {figure.title: value for figure, value in values.items() if figure.is_headline}
    assert len(headlines) > 6
    rows = {
        cells[0]: cells[1]
        for line in done.stdout.splitlines()
        if len(cells := [c.strip() for c in line.split("│")]) > 3
    }
    for title, exact in headlines.items():
        shown = next(v for k, v in rows.items() if k.lower() == title.lower())
        value = float(shown.replace(",", "").replace("−", "-"))
        assert value == pytest.approx(exact, abs=0.5 if abs(value) > 50 else 0.051)


# Exit codes.


@pytest.mark.ci
def test_strict_exits_with_the_code_of_what_is_poor(world, tmp_path):
    out = ("--force", "-o", tmp_path / "r.html")
    copy = tmp_path / "copy.csv"
    world.original.to_csv(copy, index=False)
    poor, risky = tmp_path / "poor.study.toml", tmp_path / "risky.study.toml"
    poor.write_text(
        'title = "p"\n[univariate]\n[[rows]]\nlabel = "u"\n'
        'measure = "univariate.median_composite_error"\nreach = "<= 0.001"\n'
    )
    risky.write_text(
        'title = "t"\n[univariate]\n'
        '[risks]\nquasi_identifiers = ["age", "region", "sex", "income"]\nattempts = 60\n'
        "model_rows = 100\nlinkage = {targets = 40}\n"
    )
    assert run(world, world.csv, "--strict", *out, **{"--spec": poor}).returncode == 4
    assert run(world, copy, "--strict", *out, **{"--spec": risky}).returncode == 3


@pytest.mark.ci
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"--data": "gone.csv"}, "gone.csv"),
        ({"--spec": "nist-asc"}, "presets:"),
        ({"--spec": "nist-acs"}, ""),  # a preset, but for other data
        ({"--spec": "bad.toml"}, "bad.toml"),
        ({"-o": "no/such/r.html"}, "folder does not exist"),
        ({"-o": "r.pdf"}, ".html"),
        ({"--sample": "0"}, "100"),
        ({"--control": "gone.csv"}, "gone.csv"),
    ],
)
def test_mistakes_end_with_2_and_leave_nothing(world, tmp_path, more, said):
    (tmp_path / "bad.toml").write_text("title = [")
    done = run(world, world.csv, cwd=tmp_path, **({"-o": "r.html"} | more))
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert [p.name for p in tmp_path.iterdir()] == ["bad.toml"]


# What is never disclosed.


def test_messages_hold_no_value_and_publishable_output_no_count(world, tmp_path):
    data = world.original.assign(region=CANARY, age=lambda f: f["age"] + 31_415)
    data.to_csv(tmp_path / "d.csv", index=False)
    shuffled(data, 1, 333).to_csv(tmp_path / "s.csv", index=False)
    words = (tmp_path / "s.csv", "--publishable", "-o", tmp_path / "p.html")
    done = run(world, *words, cwd=tmp_path, **{"--data": tmp_path / "d.csv"})
    assert done.returncode == 0
    for text in (done.stdout, done.stderr):
        for secret in (CANARY, "31415", "31,415", "1,500", "1500", "333"):
            assert secret not in text
    assert "publishable" in done.stderr
    text = (tmp_path / "p.json").read_text("utf-8")
    assert json.loads(text)["confidential"] is False
    assert "rows" not in json.loads(text)
    assert CANARY not in text + (tmp_path / "p.html").read_text("utf-8")


def attacks_in(found):
    """The attacks that a JSON document has a row of, in their order."""
    names = [row["measure"].partition(".")[0] for row in found["frame"]]
    return [n for n in dict.fromkeys(names) if n in (*ATTACKS, *STRONG_ATTACKS)]


@pytest.fixture(scope="module")
def study(world):
    """Few people, so that runs are short."""
    path = world.folder / "attacks.study.toml"
    path.write_text('title = "Attacks"\n[attacks]\npeople = 200\nmost_groups = 4\n')
    return path


def run_attack(world: World, study, *words: object, cwd=None, **more):
    given = {"--data": world.data, "--spec": study} | more
    options = [part for name, value in given.items() if value is not None for part in (name, value)]
    return tablepack("attack", *words, *options, cwd=cwd or world.folder)


@pytest.mark.ci
def test_a_release_is_attacked_and_the_report_cannot_be_published(world, study, tmp_path):
    out = tmp_path / "a.html"
    done = run_attack(world, study, world.release, "-o", out, **{"--control": world.control})
    assert done.returncode == 0, done.stderr
    assert "Risk: " in done.stdout
    assert "Membership: " in done.stdout
    assert "Reconstruction: " in done.stdout
    assert "Utility" not in done.stdout
    assert "CONFIDENTIAL, mode 0600" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.html", "a.json"]
    assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {0o600}
    found = json.loads(out.with_suffix(".json").read_text("utf-8"))
    assert found["confidential"] is True
    assert attacks_in(found) == list(STRONG_ATTACKS)
    page = html.unescape(out.read_text("utf-8"))
    for row in found["frame"]:
        if row["measure"] in STRONG_ATTACKS and "not computed" not in row["note"]:
            assert row["note"].split(";")[0][:60] in page
    with pytest.raises(engine.PrivacyError, match="confidential"):
        engine.publish_pack(out, tmp_path / "pack")


@pytest.mark.ci
def test_json_of_two_tables_holds_no_value_of_the_data(world, study, tmp_path):
    data = world.original.assign(region=CANARY, age=lambda f: f["age"] + 31_415)
    data.to_csv(tmp_path / "d.csv", index=False)
    shuffled(data, 1, 333).to_csv(tmp_path / "s.csv", index=False)
    shuffled(data, 2, 333).to_parquet(tmp_path / "t.parquet")
    words = (tmp_path / "s.csv", tmp_path / "t.parquet", "-o", tmp_path / "p.html", "--json")
    done = run_attack(world, study, *words, cwd=tmp_path, **{"--data": tmp_path / "d.csv"})
    assert done.returncode == 0, done.stderr
    assert done.stdout == (tmp_path / "p.json").read_text("utf-8")
    found = json.loads(done.stdout)
    assert [s["name"] for s in found["subjects"]] == ["s", "t"]
    assert {s["kind"] for s in found["subjects"]} == {"table"}
    for secret in (CANARY, "31415", "31,415"):
        assert secret not in done.stdout + done.stderr


@pytest.mark.slow
def test_without_a_study_the_quick_attacks_run_too(world, tmp_path):
    done = run_attack(world, None, world.release, "--json", "-o", tmp_path / "a.html")
    found = json.loads(done.stdout)
    assert attacks_in(found) == [*ATTACKS, *STRONG_ATTACKS]
    assert any("chosen by rule" in row["note"] for row in found["frame"])


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"--data": "gone.csv"}, "gone.csv"),
        ({"--spec": "bad.toml"}, "attacks.peple"),
        ({"--spec": "group.toml"}, "attacks.groups.0.where"),
        ({"-o": "no/such/r.html"}, "folder does not exist"),
        ({"-o": "r.pdf"}, ".html"),
        ({"--control": "gone.csv"}, "gone.csv"),
    ],
)
def test_mistakes_of_an_attack_end_with_2_and_leave_nothing(world, study, tmp_path, more, said):
    (tmp_path / "bad.toml").write_text('title = "t"\n[attacks]\npeple = 3\n')
    (tmp_path / "group.toml").write_text(
        'title = "t"\n[[attacks.groups]]\nwhere = {region = "Atlantis"}\n'
    )
    done = run_attack(world, study, world.csv, cwd=tmp_path, **({"-o": "r.html"} | more))
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Atlantis" not in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.toml", "group.toml"]


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    return make_small(tmp_path_factory.mktemp("cli"), dp="")


def run_compare(*words: object):
    """Run the command with the stand-in."""
    app = typer.Typer()
    app.command()(compare_command)
    builder = Builder()
    with mock.patch("engine.release.build", lambda spec, path, **_: builder(spec, path)):
        return CliRunner().invoke(app, [str(w) for w in words]), builder


@pytest.mark.ci
@pytest.mark.parametrize("with_risks", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_modes_are_compared(spec, tmp_path, with_risks):
    control = ("--control", spec.parent / "small.csv") if with_risks else ()
    words = ("--epsilon", "10", "--seeds", 1, *control, "-o", tmp_path / "c.html")
    done, builder = run_compare(spec, *words)
    assert done.exit_code == 0, done.output
    assert len(builder.seen) == 3
    for name in ("sticky", "dp, epsilon 10", "dp without noise"):
        assert name in done.stdout
    if with_risks:
        assert "Attribute gain" in done.stdout
        assert "Membership AUC" in done.stdout
    assert "CONFIDENTIAL, mode 0600" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.html", "c.json"]
    assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {0o600}


@pytest.mark.parametrize(
    "words",
    [
        ("--epsilon", "x"),
        ("--epsilon", "-1"),
        ("--seeds", "0"),
        ("--levers", "--epsilon", "1"),
        ("--levers", "--seeds", "0"),
        ("--study", "s.toml"),
        ("--areas", "region"),
    ],
)
def test_bad_options_build_nothing(spec, tmp_path, words):
    done, builder = run_compare(spec, *words, "-o", tmp_path / "c.html")
    assert type(done.exception).__name__ == "SpecError"
    assert not builder.seen
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_real_builds_spend_nothing_of_the_budget(tmp_path):
    path = make_small(tmp_path, more="budget = 1.0\n")
    app = typer.Typer()
    app.command()(compare_command)
    words = [path, "--epsilon", "0.2,20", "--seeds", 1, "-o", tmp_path / "c.html", "--json"]
    done = CliRunner().invoke(app, [str(w) for w in words])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    kinds = {one["name"]: (one["kind"], one["epsilon"]) for one in told["generators"]}
    medians = {
        kinds[row["subject"]]: row["value"]
        for row in told["frame"]
        if (row["measure"], row["by"]) == ("groups/tables.s_pmse_2", "")
    }
    assert medians["dp", 0.2] > 3 * medians["dp", 20.0]
    assert medians["exact", None] < medians["dp", 0.2]
    # No ledger was made for the key of the spec, although 20 exceeds its budget.
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == ["c.html", "c.json", "small.csv", "small.key", "small.toml"]
