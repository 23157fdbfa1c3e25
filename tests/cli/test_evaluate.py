"""`tablepack evaluate`: files, summary and exit codes, and nothing confidential where it does not belong."""

from __future__ import annotations

import json
import stat

import pytest
from fixtures.evaluate import CANARY, World, shuffled
from fixtures.pipeline import Done, tablepack

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


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "together", "full", "release spec", "no spec"])
def test_every_kind_of_call_ends_well(world, tmp_path, kind):
    words, more = (world.parquet if kind == "parquet" else world.csv,), {}
    if kind in ("together", "full"):
        paths = [tmp_path / f"{i}.csv" for i in (1, 2)]
        for i, path in enumerate(paths):
            shuffled(world.original, i).to_csv(path, index=False)
        words = (*paths, "--together", *(["--full"] if kind == "full" else []))
    if kind.endswith("spec"):
        more["--spec"] = world.spec if kind == "release spec" else None
    done = run(world, *words, "-o", tmp_path / "r.html", "--json", **more)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (tmp_path / "r.json").read_text("utf-8")
    (subject,) = json.loads(done.stdout)["subjects"]
    assert subject["name"] == ("theirs" if len(words) == 1 else "2 sets: 1, 2")


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


def test_missing_arguments_are_usage_errors(world):
    assert tablepack("evaluate", "--data", world.data, cwd=world.folder).returncode == 2
    assert tablepack("evaluate", world.csv, cwd=world.folder).returncode == 2
    done = run(world, world.csv, "--full")
    assert done.returncode == 2
    assert "--together" in done.stderr


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
