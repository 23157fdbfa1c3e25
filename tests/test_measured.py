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


@pytest.mark.parametrize(
    ("harm", "section", "body"),
    [
        (("", ""), "three", "x"),
        (("<!-- end one -->", ""), "one", "x"),
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
    [([], True), (["census", "--keys", "1"], False), (["census", "--keys", "1", "--record"], True)],
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
