"""Measured figures: a study writes its own file, says how it measured, and the summary quotes these files."""

from __future__ import annotations

import argparse
import re
import sys

import measured
import pytest
from fixtures.pipeline import ROOT

FILE = f"# One\n\nWords above.\n\n{measured.START}\nold figures\n{measured.END}\n\nWords below.\n"
FOLDER = ROOT / "releases" / "measured"


def test_only_the_figures_are_replaced(tmp_path):
    (tmp_path / "one.md").write_text(FILE)
    for figure in ("| 7 |", "| 8 |"):
        measured.record(
            "one", "./scripts/one --keys 3", f"| a |\n| --- |\n{figure}", folder=tmp_path
        )
    text = (tmp_path / "one.md").read_text()
    before, after = FILE.split("old figures\n")
    assert text.startswith(before)
    assert text.endswith(after)
    assert "| 8 |" in text
    assert "| 7 |" not in text
    head = text.split(f"{measured.START}\n")[1].splitlines()[0]
    assert re.match(
        r"`./scripts/one --keys 3` on \d{4}-\d\d-\d\d; \d+ cores, \d+ GiB, Python 3", head
    )


def test_a_new_study_gets_a_file(tmp_path):
    measured.record("new", "./scripts/new", "figures", folder=tmp_path)
    assert "figures" in (tmp_path / "new.md").read_text()


@pytest.mark.parametrize(
    ("file", "body"),
    [
        (FILE.replace(measured.END, ""), "x"),
        (FILE + measured.START, "x"),
        (FILE, f"x\n{measured.END}"),
    ],
)
def test_a_file_without_its_place_is_left_alone(tmp_path, file, body):
    (tmp_path / "one.md").write_text(file)
    with pytest.raises(ValueError, match="one"):
        measured.record("one", "./scripts/x", body, folder=tmp_path)
    assert (tmp_path / "one.md").read_text() == file


@pytest.mark.parametrize(
    ("words", "kept"),
    [([], True), (["--keys", "1"], False), (["--keys", "1", "--record"], True)],
)
def test_a_shortened_run_is_not_recorded_unless_asked(monkeypatch, words, kept):
    monkeypatch.setattr(sys, "argv", ["scripts/x.py", *words])
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int)
    measured.add_option(parser)
    assert parser.parse_args().record is kept


def test_every_study_has_a_file_and_every_file_a_study():
    names = {path.stem for path in FOLDER.glob("*.md")}
    scripts = "\n".join(p.read_text("utf-8") for p in (ROOT / "scripts").glob("*.py"))
    written = set(re.findall(r'record\(\s*f?"([\w-]+)', scripts))
    for start in written:
        assert any(n == start or (start[-1] == "-" and n.startswith(start)) for n in names), start
    assert all(any(n == s or (s[-1] == "-" and n.startswith(s)) for s in written) for n in names)


def test_figures_of_the_summary_are_in_the_files_it_links():
    rows = [
        line.split("|")
        for line in (ROOT / "releases" / "MEASURED.md").read_text("utf-8").splitlines()
        if line.startswith("| ") and "](measured/" in line
    ]
    assert len(rows) >= 20
    number = r"(?<![\w.])\d*\.?\d+"
    missing = []
    for row in rows:
        (file,) = re.findall(r"\]\((measured/[\w-]+\.md)\)", row[-2])
        study = file.removeprefix("measured/").partition("-")[
            0
        ]  # a figure may be over all data sets
        known = "".join(
            p.read_text("utf-8") for p in FOLDER.glob(f"{study.removesuffix('.md')}*.md")
        )
        missing += [(row[1], n) for n in re.findall(number, row[2]) if n not in known]
    assert missing == []
