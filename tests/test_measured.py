"""Measured figures: every study has a file, and the summary quotes these files."""

from __future__ import annotations

import re

from fixtures.pipeline import ROOT

FOLDER = ROOT / "releases" / "measured"


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
