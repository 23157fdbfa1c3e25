"""Measured figures: a script replaces its own section of releases/MEASURED.md, and says how it measured."""

from __future__ import annotations

import argparse
import re
import sys

import measured
import pytest
from fixtures.pipeline import ROOT

PAGE = """# Figures

## One
Words above.
<!-- measured one -->
old one
<!-- end one -->
Words below.

## Two
<!-- measured two -->
old two
<!-- end two -->
"""


@pytest.fixture
def page(tmp_path):
    file = tmp_path / "MEASURED.md"
    file.write_text(PAGE)
    return file


def test_only_the_own_section_is_replaced(page):
    measured.record("one", "./scripts/one --keys 3", "| a |\n| --- |\n| 7 |", file=page)
    text = page.read_text()
    assert "old one" not in text
    assert "| 7 |" in text
    before, after = PAGE.split("old one")
    assert text.startswith(before)
    assert text.endswith(after)


def test_a_section_says_command_day_and_machine(page):
    measured.record("two", "./scripts/two", "figures", file=page)
    head = page.read_text().split("<!-- measured two -->\n")[1].splitlines()[0]
    said = r"`./scripts/two` on \d{4}-\d\d-\d\d; \d+ cores, \d+ GiB, Python 3\.\d+"
    assert re.match(said, head)
    assert "numpy 2" in head


def test_recording_twice_leaves_one(page):
    for n in (1, 2):
        measured.record("one", "./scripts/one", f"figure {n}", file=page)
    assert "figure 1" not in page.read_text()
    assert page.read_text().count("figure 2") == 1


@pytest.mark.parametrize(
    ("harm", "section", "body"),
    [
        (("", ""), "three", "x"),
        (("<!-- end one -->", ""), "one", "x"),
        (("<!-- end two -->", "<!-- end two -->\n<!-- measured two -->"), "two", "x"),
        (("", ""), "one", "x\n<!-- end one -->"),
    ],
)
def test_a_page_without_the_place_is_left_alone(page, harm, section, body):
    page.write_text(PAGE.replace(*harm) if harm[0] else PAGE)
    held = page.read_text()
    with pytest.raises(ValueError, match=section):
        measured.record(section, "./scripts/x", body, file=page)
    assert page.read_text() == held


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], True),
        (["census"], True),
        (["census", "--keys", "1"], False),
        (["census", "--keys", "1", "--record"], True),
    ],
)
def test_a_shortened_run_keeps_its_figures_to_itself(monkeypatch, words, wanted):
    monkeypatch.setattr(sys, "argv", ["scripts/x.py", *words])
    parser = argparse.ArgumentParser()
    parser.add_argument("study", nargs="?")
    parser.add_argument("--keys", type=int)
    measured.add_option(parser)
    assert parser.parse_args().record is wanted


def test_a_command_names_no_folder_of_the_machine(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["x.py", "nist-acs", str(tmp_path), "--keys", "2", "--record"])
    assert measured.command_line("./scripts/scores") == "./scripts/scores nist-acs FOLDER --keys 2"


def test_every_section_that_a_script_writes_is_on_the_page_once():
    page = measured.MEASURED.read_text(encoding="utf-8")
    names = re.findall(r"<!-- measured (\S+) -->", page)
    assert len(names) == len(set(names))
    assert names == re.findall(r"<!-- end (\S+) -->", page)
    scripts = "\n".join(p.read_text("utf-8") for p in (ROOT / "scripts").glob("*.py"))
    written = set(re.findall(r'record\(\s*f?"([\w-]+)', scripts))
    assert {"scores-", "dp-", "bench", "bench-sql", "intervals-"} <= written
    for start in written:
        assert any(n == start or (start[-1] == "-" and n.startswith(start)) for n in names), start
    assert all(any(n == s or (s[-1] == "-" and n.startswith(s)) for s in written) for n in names)


def test_a_table_in_markdown():
    assert measured.markdown(["a", "b"], [[1, "x"]]) == "| a | b |\n| --- | --- |\n| 1 | x |"
