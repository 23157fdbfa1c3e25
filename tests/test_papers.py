"""The documents are true: their links, paths, figures and tables, and their lengths."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from importlib.util import find_spec

import duckdb
import pytest
from fixtures.pipeline import ROOT
from test_layers import ENGINE_ROOT, MAY_IMPORT

from engine import errors
from engine.cli.evaluate import POOR_RISK, POOR_UTILITY
from engine.store.schema import create_catalog, create_ledger, insert_exposure

PAPERS = [
    *("README.md", "CHANGELOG.md", "engine/DESIGN.md", "engine/PRIVACY.md"),
    *("releases/MEASURED.md", ".github/CONTRIBUTING.md", ".github/SECURITY.md"),
    *("engine/evaluation/README.md", "queries/README.md", "queries/packs/README.md"),
    *sorted(f"engine/decisions/{path.name}" for path in (ROOT / "engine/decisions").glob("*.md")),
]
LONGEST = {
    "README.md": 8_000,
    "engine/DESIGN.md": 15_000,
    "engine/PRIVACY.md": 12_000,
    "queries/README.md": 10_000,
}
"""Characters that a document may have: so that people read it to the end."""


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


DESIGN = text_of("engine/DESIGN.md")


def section(text: str, heading: str) -> str:
    """What stands under a heading of the second level."""
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def anchors(text: str) -> set[str]:
    """Names that GitHub gives to headings."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}


def sources() -> list[tuple[str, str]]:
    """Text files that people write."""
    folders = ("engine", "queries", "tests", "scripts", "releases", ".github")
    paths = [p for folder in folders for p in (ROOT / folder).rglob("*")]
    endings = {".py", ".md", ".toml", ".js", ".css", ".html", ".j2", ".yml", ""}
    kept = [p for p in [*paths, *ROOT.glob("*.md")] if p.is_file() and p.suffix in endings]
    names = [(str(p.relative_to(ROOT)), p) for p in kept]
    built = re.compile(r"^releases/[^/]+/")
    return [
        (name, p.read_text(encoding="utf-8"))
        for name, p in names
        if "__pycache__" not in name and not built.match(name) and not name.endswith(".key")
    ]


@pytest.mark.parametrize("name", LONGEST)
def test_documents_are_short(name):
    assert len(text_of(name)) <= LONGEST[name]


def test_every_decision_is_listed_and_says_what_it_must():
    names = [name for name in PAPERS if re.search(r"decisions/\d{3}-", name)]
    index = text_of("engine/decisions/README.md")
    assert len(names) >= 20
    for name in names:
        text = text_of(name)
        assert f"]({name.rpartition('/')[2]})" in index, name
        for part in ("\nDate: 20", "**Context.**", "**Decision.**", "**Consequences.**"):
            assert part in text, (name, part)


def non_members(table: str, page: str) -> list[str]:
    """Numbers in the second column of a table that a page does not have."""
    number = r"\d[\d,]*(?:\.\d+)?"
    known = set(re.findall(number, page))
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| ")]
    return [n for row in rows for n in re.findall(number, row[2]) if n not in known]


def test_figures_of_the_readme_are_those_that_were_measured():
    table = section(text_of("README.md"), "Measured")
    assert non_members(table, text_of("releases/MEASURED.md")) == []
    assert table.count("\n| ") > 8
    assert non_members("| a | 6.8 s, 0.147 | 0.307 |", "| 6.8 | 1,000 |") == ["0.147"]


@pytest.mark.parametrize("name", PAPERS)
def test_every_path_that_a_paper_names_exists(name):
    text, folder = text_of(name), (ROOT / name).parent
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        place = folder / path if path else ROOT / name
        assert place.exists(), target
        if anchor:
            assert anchor in anchors(place.read_text(encoding="utf-8")), target
    inside = r"`((?:engine|queries|releases|tests|scripts|\.github)/[\w/.\-]+\.\w+)`"
    named = set(re.findall(r"\./(scripts/\w+)", text)) | set(re.findall(inside, text))
    for path in (p for p in named if "NAME" not in p):
        assert (ROOT / path).exists(), path


def test_files_that_comments_name_exist():
    wanted = re.compile(r"(?<![\w/.])((?:engine|queries|scripts)/[\w/\-]+\.(?:py|toml))\b")
    missing = [
        (name, path)
        for name, text in sources()
        for path in set(wanted.findall(text))
        if not (ROOT / path).exists() and "NAME" not in path and not name.startswith("tests/")
    ]
    assert missing == []


def test_the_zones_of_the_design_are_those_of_the_contract():
    zones = section(DESIGN, "Zones and imports")
    root = zones.partition("| `engine` root | ")[2].partition(" |")[0]
    assert set(re.findall(r"`(\w+)`", root)) == {
        zone.removeprefix("engine.") for zone in ENGINE_ROOT
    }
    rows = re.findall(r"^\| (`[^|]+) \|", zones, re.MULTILINE)
    listed = {zone for row in rows for zone in re.findall(r"`([\w.]+)`", row)} - {"measure.dp"}
    declared = {zone for zone in MAY_IMPORT if zone not in ENGINE_ROOT} | {"engine"}
    assert listed == declared - {"queries"}


def test_the_catalogue_of_the_design_is_that_of_the_file():
    listed = set(re.findall(r"^\| `(\w+)` \|", section(DESIGN, "Release file"), re.MULTILINE))
    with duckdb.connect() as con:
        create_catalog(con, width=2)
        create_ledger(con, [])
        insert_exposure(con, {"groups": []})
        rows = con.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'catalog'"
        ).fetchall()
    assert listed == {name for (name,) in rows}


def test_the_exit_codes_are_those_of_the_errors():
    text = section(DESIGN, "Exit codes")
    listed = {int(n) for n in re.findall(r"(?:^|, )(\d) ", " ".join(text.split()))}
    raised = {
        e.exit_code
        for e in vars(errors).values()
        if isinstance(e, type) and issubclass(e, errors.TablepackError)
    }
    assert listed == raised | {0, POOR_UTILITY}
    assert POOR_RISK in raised


def test_the_newest_version_of_the_changelog_says_whether_numbers_change():
    newest = text_of("CHANGELOG.md").partition("\n## ")[2].partition("\n## ")[0]
    assert re.search(r"released numbers (do not )?change", newest, re.IGNORECASE)


def test_every_name_that_a_script_imports_exists():
    missing = []
    for script in sorted((ROOT / "scripts").rglob("*.py")):
        nodes = list(ast.walk(ast.parse(script.read_text(encoding="utf-8"))))
        ours = [n for n in nodes if isinstance(n, ast.ImportFrom) and n.module is not None]
        for node in (n for n in ours if n.module.split(".")[0] in ("engine", "queries")):
            module = import_module(node.module)
            missing += [
                f"{script.name}: {node.module}.{alias.name}"
                for alias in node.names
                if not hasattr(module, alias.name)
                and find_spec(f"{node.module}.{alias.name}") is None
            ]
    assert missing == []
