"""`tablepack evaluate` as people run it: what it writes, prints and exits with, and what it never tells."""

from __future__ import annotations

import json
import stat
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from fixtures.evaluate import CANARY, World, make_world, shuffled
from fixtures.pipeline import Done, tablepack

stats = pytest.importorskip("scipy.stats")
pytest.importorskip("sklearn")
pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def world(census, tmp_path_factory) -> World:
    return make_world(tmp_path_factory.mktemp("world"), census)


def run(world: World, *words: object, cwd=None, **more) -> Done:
    """Evaluate, by the short study unless another spec is given."""
    told = {"--data": world.data, "--spec": world.study} | more
    options = [part for name, value in told.items() if value is not None for part in (name, value)]
    return tablepack("evaluate", *words, *options, cwd=cwd or world.folder)


def test_a_release_is_evaluated(world, tmp_path):
    done = run(world, world.release, "-o", tmp_path / "r.html")
    assert done.returncode == 0
    assert "Utility:" in done.stdout
    assert "Risk:" in done.stdout
    assert "↓ lower is better" in done.stdout
    assert "r.html" in done.stderr
    assert "CONFIDENTIAL, mode 0600" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.html", "r.json"]
    assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {0o600}


def test_the_summary_shows_what_the_json_holds(world, tmp_path):
    done = run(world, world.csv, "-o", tmp_path / "r.html")
    told = json.loads((tmp_path / "r.json").read_text("utf-8"))["subjects"][0]["figures"]
    headlines = [f for f in told if f["headline"] and f["value"] is not None]
    assert len(headlines) > 6
    rows = {
        cells[0]: cells[1]
        for line in done.stdout.splitlines()
        if len(cells := [c.strip() for c in line.split("│")]) > 3
    }
    for figure in headlines:
        shown = next(v for k, v in rows.items() if k.lower() == figure["title"].lower())
        value = float(shown.replace(",", "").replace("−", "-"))
        assert value == pytest.approx(figure["value"], abs=0.5 if abs(value) > 50 else 0.051)


@pytest.mark.parametrize("kind", ["csv", "parquet", "several", "together", "control"])
def test_every_kind_of_call_ends_well(world, tmp_path, kind):
    words = {"parquet": (world.parquet,), "several": (world.release, world.csv)}.get(
        kind, (world.csv,)
    )
    if kind == "together":
        paths = [tmp_path / f"{i}.csv" for i in (1, 2)]
        for i, path in enumerate(paths):
            shuffled(world.original, i).to_csv(path, index=False)
        words = (*paths, "--together")
    more = {"--control": world.control} if kind == "control" else {}
    done = run(world, *words, "-o", tmp_path / "r.html", **more)
    assert done.returncode == 0, done.stderr
    if kind == "several":
        assert "ours: Utility:" in done.stdout
        assert "theirs: Risk:" in done.stdout
    told = json.loads((tmp_path / "r.json").read_text("utf-8"))
    names = [s["name"] for s in told["subjects"]]
    wanted = {"several": ["ours", "theirs"], "together": ["2 sets: 1, 2"]}
    assert names == wanted.get(kind, ["theirs"])
    assert bool(told["improvements"]) == (kind == "several")


def test_sets_of_full_synthesis_have_intervals_of_their_own_rules(world, tmp_path):
    paths = [tmp_path / f"{i}.csv" for i in (1, 2, 3)]
    for i, path in enumerate(paths):
        world.original.sample(frac=1, replace=True, random_state=i).to_csv(path, index=False)
    figures = {}
    for rule in ((), ("--full",)):
        done = run(world, *paths, "--together", *rule, "-o", tmp_path / "r.html", "--force")
        assert done.returncode == 0, done.stderr
        told = json.loads((tmp_path / "r.json").read_text("utf-8"))["subjects"][0]["figures"]
        figures[rule] = {f["name"]: f["value"] for f in told}
    sets = [pd.read_csv(path)["age"] for path in paths]
    between, within = (
        np.var([s.mean() for s in sets], ddof=1),
        np.mean([s.var() / len(s) for s in sets]),
    )
    q, own = np.mean([s.mean() for s in sets]), world.original["age"]
    truth = 1.96 * (own.var() / len(own)) ** 0.5
    for rule, variance in (((), within + between / 3), (("--full",), 4 / 3 * between - within)):
        freedom = 2 * (1 + within / (between / 3)) ** 2
        if rule:
            variance = max(variance, within) if variance <= 0 else variance
            freedom = 2 * (1 - within / (4 / 3 * between)) ** 2 if variance != within else np.inf
        half = stats.t(freedom).ppf(0.975) * variance**0.5
        common = min(own.mean() + truth, q + half) - max(own.mean() - truth, q - half)
        wanted = max((common / (2 * truth) + common / (2 * half)) / 2, 0)
        assert figures[rule]["estimates.mean_overlap"] == pytest.approx(wanted, abs=1e-4)
    assert figures[()] != figures[("--full",)]
    done = run(world, *paths, "--full", "-o", tmp_path / "s.html")
    assert done.returncode == 2
    assert "--together" in done.stderr


def test_json_and_nothing_else_is_printed(world, tmp_path):
    done = run(world, world.csv, "--json", "-o", tmp_path / "r.html")
    assert json.loads(done.stdout) == json.loads((tmp_path / "r.json").read_text("utf-8"))
    assert done.stdout == (tmp_path / "r.json").read_text("utf-8")


@pytest.mark.parametrize("columns", [80, 120])
def test_lines_fit_the_screen(world, tmp_path, columns):
    with mock.patch("engine.cli.console.PlainConsole", _console(columns)):
        done = run(world, world.release, world.csv, world.parquet, "-o", tmp_path / "r.html")
    tables = [line for line in done.stdout.splitlines() if "│" in line or "┃" in line]
    assert tables
    assert max(map(len, tables)) <= columns
    titles = {line.split("│")[0].strip() for line in tables if "│" in line}
    assert all(len(title) >= 6 or not title for title in titles), "cut to pieces"


def _console(columns: int):
    from engine.cli.console import PlainConsole

    return lambda **more: PlainConsole(**more, width=columns)


# Exit codes.


def study(folder, *rows: str):
    path = folder / "t.study.toml"
    path.write_text(
        'title = "t"\n[univariate]\n'
        '[risks]\nquasi_identifiers = ["age", "region", "sex", "income"]\nattempts = 60\n'
        "model_rows = 100\nlinkage = {targets = 40}\n" + "\n".join(rows)
    )
    return path


def test_strict_says_by_its_code_what_is_poor(world, tmp_path):
    wanted = (
        '[[rows]]\nlabel = "u"\nmeasure = "univariate.median_composite_error"\nreach = "<= {}"\n'
    )
    out = ("--force", "-o", tmp_path / "r.html")
    copy = tmp_path / "copy.csv"
    world.original.to_csv(copy, index=False)
    good = tmp_path / "good.study.toml"
    good.write_text('title = "g"\n[univariate]\n' + wanted.format(99))
    poor = tmp_path / "poor.study.toml"
    poor.write_text('title = "p"\n[univariate]\n' + wanted.format(0.001))
    assert run(world, world.csv, "--strict", *out, **{"--spec": good}).returncode == 0
    assert run(world, world.csv, "--strict", *out, **{"--spec": poor}).returncode == 4
    assert run(world, world.csv, *out, **{"--spec": poor}).returncode == 0
    told = run(world, copy, "--strict", *out, **{"--spec": study(tmp_path)})
    assert told.returncode == 3, told.stdout
    assert "Risk: poor" in told.stdout


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"--data": "gone.csv"}, "gone.csv"),
        ({"--spec": "nist-asc"}, "presets:"),
        ({"--spec": "bad.toml"}, "bad.toml"),
        ({"-o": "no/such/r.html"}, "folder does not exist"),
        ({"-o": "r.pdf"}, "ends in .html"),
        ({"--sample": "0"}, "between 0 and 100"),
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


def test_nothing_to_evaluate_is_usage(world):
    assert tablepack("evaluate", "--data", world.data, cwd=world.folder).returncode == 2
    assert tablepack("evaluate", world.csv, cwd=world.folder).returncode == 2


@pytest.mark.parametrize("spec", [None, "release spec", "preset"])
def test_specs_of_every_kind(world, tmp_path, spec):
    told = {"release spec": world.spec, "preset": "nist-acs"}.get(spec, None)
    done = run(world, world.csv, "-o", tmp_path / "r.html", **{"--spec": told})
    if spec == "preset":  # It is there, but these are other data.
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
    else:
        assert done.returncode == 0
        assert "note: no study was declared" in done.stderr


# What is never told.


def test_messages_hold_no_value_and_publishable_output_no_count(world, tmp_path):
    data = world.original.assign(region=CANARY, age=lambda f: f["age"] + 31_415)
    data.to_csv(tmp_path / "d.csv", index=False)
    shuffled(data, 1, 333).to_csv(tmp_path / "s.csv", index=False)
    out = tmp_path / "p.html"
    done = run(
        world,
        tmp_path / "s.csv",
        "--publishable",
        "-o",
        out,
        cwd=tmp_path,
        **{"--data": tmp_path / "d.csv"},
    )
    assert done.returncode == 0
    for text in (done.stdout, done.stderr):
        for secret in (CANARY, "31415", "31,415", "1,500", "1500", "333"):
            assert secret not in text
    assert "publishable: rounded scores only" in done.stderr
    told = tablepack(
        "evaluate", tmp_path / "s.csv", "--data", tmp_path / "d.csv", "--spec", world.study,
        "--publishable", "--json", "--force", "-o", out, cwd=tmp_path,
    )  # fmt: skip
    assert json.loads(told.stdout)["confidential"] is False
    assert CANARY not in told.stdout
    assert pd.isna(json.loads(told.stdout).get("rows", float("nan")))


def test_an_open_file_is_replaced_by_a_closed_one(world, tmp_path):
    out = tmp_path / "r.html"
    for path in (out, out.with_suffix(".json")):
        path.write_text("old")
        path.chmod(0o644)
    assert run(world, world.csv, "-o", out).returncode == 2
    assert out.read_text() == "old"
    assert run(world, world.csv, "-o", out, "--force").returncode == 0
    assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {0o600}
