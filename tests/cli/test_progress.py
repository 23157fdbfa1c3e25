"""Progress in a log: a line now and then, and a warning before thousands of tables."""

from __future__ import annotations

import pytest
from fixtures.pipeline import tablepack

from engine.cli import console


def steps(capsys, monkeypatch, *seconds: float) -> list[str]:
    """Lines shown without a terminal for reports at these seconds."""
    times = {"now": 0.0}
    shown = []
    monkeypatch.setattr(console.time, "monotonic", lambda: times["now"])
    with console.progress_bar() as report:
        for done, now in enumerate(seconds):
            times["now"] = now
            report("planning", done, 7_140)
            shown += capsys.readouterr().err.splitlines()
    return shown


def test_a_log_gets_a_line_after_two_seconds_and_then_every_ten(capsys, monkeypatch):
    assert steps(capsys, monkeypatch, 0.1, 1.9) == []
    assert steps(capsys, monkeypatch, 1, 2.1, 3, 11, 12.2) == [
        "measuring tables: 1 of 7,140 ...",
        "measuring tables: 4 of 7,140 ...",
    ]


def test_no_line_if_quiet_and_no_numbers_if_the_length_is_unknown(capsys, monkeypatch):
    monkeypatch.setattr(console, "FIRST_LINE", 0)
    with console.progress_bar(quiet=True) as report:
        report("planning", 1, 2)
    assert capsys.readouterr().err == ""
    with console.progress_bar() as report:
        report("exposure", 0, 0)
    assert capsys.readouterr().err == f"{console.STAGES['exposure']} ...\n"


@pytest.mark.parametrize("command", ["plan", "build"])
def test_the_warning_of_many_tables_comes_before_anything_is_measured(tmp_path, command):
    """The source is missing, yet the warning is printed."""
    names = [f"c{j}" for j in range(65)]
    columns = "".join(f'[columns.{name}]\nkind = "category"\ntype = "text"\n' for name in names)
    (tmp_path / "r.toml").write_text(
        '[release]\ntitle = ""\nname = "data"\nvintage = "1"\nkey = "r.key"\n'
        f'[source]\npath = "missing.csv"\nformat = "csv"\nentities = []\n{columns}[[tables]]\nall = 2\n'
    )
    tablepack("key", "new", "r.key", cwd=tmp_path)
    done = tablepack(command, "r.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("warning: 2,080 tables")
    assert "missing.csv" in done.stderr
