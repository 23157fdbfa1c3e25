"""What a person sees of a long run before it ends: lines in a log, a warning before thousands of tables."""

from __future__ import annotations

import pytest
from fixtures.pipeline import tablepack

from engine.cli import console
from engine.spec import SECONDS_A_TABLE, warning_of_many
from engine.spec.tables import MANY_TABLES


def steps(capsys, monkeypatch, *seconds: float) -> list[str]:
    """Lines that are shown where no terminal is, of reports at these seconds."""
    times = {"now": 0.0}
    shown = []
    monkeypatch.setattr(console.time, "monotonic", lambda: times["now"])
    with console.progress_bar() as report:
        for done, now in enumerate(seconds):
            times["now"] = now
            report("planning", done, 7_140)
            shown += capsys.readouterr().err.splitlines()
    return shown


def test_a_log_gets_a_line_after_two_seconds_and_then_now_and_then(capsys, monkeypatch):
    assert steps(capsys, monkeypatch, 0.1, 1.9) == []
    assert steps(capsys, monkeypatch, 1, 2.1, 3, 11, 12.2) == [
        "measuring tables: 1 of 7,140 ...",
        "measuring tables: 4 of 7,140 ...",
    ]


def test_a_stage_of_unknown_length_has_no_numbers(capsys, monkeypatch):
    monkeypatch.setattr(console, "FIRST_LINE", 0)
    with console.progress_bar() as report:
        report("exposure", 0, 0)
    assert capsys.readouterr().err == "reckoning what the tables tell ...\n"


def test_quiet_is_quiet(capsys, monkeypatch):
    monkeypatch.setattr(console, "FIRST_LINE", 0)
    with console.progress_bar(quiet=True) as report:
        report("planning", 1, 2)
    assert capsys.readouterr().err == ""


def test_what_many_tables_cost():
    assert warning_of_many(MANY_TABLES - 1) is None
    assert SECONDS_A_TABLE == 0.02
    assert "2,000 tables: building them takes at least a minute" in (warning_of_many(2_000) or "")
    assert "7,140 tables: building them takes at least 2 minutes" in (warning_of_many(7_140) or "")
    assert "100,000 tables: building them takes at least 33 minutes" in (
        warning_of_many(100_000) or ""
    )
    assert "takes at least 6 hours" in (warning_of_many(1_000_000) or "")


@pytest.mark.parametrize("command", ["plan", "build"])
def test_many_tables_are_told_before_anything_is_measured(tmp_path, command):
    """The source is missing: the warning comes first."""
    names = [f"c{j}" for j in range(65)]
    columns = "".join(f'[columns.{name}]\nkind = "category"\ntype = "text"\n' for name in names)
    (tmp_path / "r.toml").write_text(
        '[release]\ntitle = ""\nname = "data"\nvintage = "1"\nkey = "r.key"\n'
        f'[source]\npath = "missing.csv"\nformat = "csv"\nentities = []\n{columns}[[tables]]\nall = 2\n'
    )
    tablepack("key", "new", "r.key", cwd=tmp_path)
    done = tablepack(command, "r.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("warning: 2,080 tables: building them takes a minute or more")
    assert "missing.csv" in done.stderr
