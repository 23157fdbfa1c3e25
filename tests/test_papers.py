"""The documents are true: links, paths, figures, lengths; reference pages; every study has a file of figures."""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import duckdb
import pytest
import reference_pages
from fixtures.pipeline import ROOT, demo_text, make_census, tablepack
from test_layers import ENGINE_ROOT, MAY_IMPORT
from typer.main import get_command

import engine
import queries
from engine import errors
from engine.cli.app import app
from engine.cli.evaluate import POOR_RISK, POOR_UTILITY
from engine.spec.model import NESTED, SECTIONS
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


MACHINE_PATH = re.compile(r"(?<![\w.:/])/(?:home|mnt|opt|srv|Users)/")
README = (ROOT / "README.md").read_text(encoding="utf-8")
CODE = "\n".join(
    p.read_text(encoding="utf-8")
    for part in ("engine", "queries")
    for p in (ROOT / part).rglob("*.py")
)


def shell_commands(text: str) -> list[list[str]]:
    """Words of every `tablepack ...` line in an indented or fenced block, with or without a prompt."""
    lines = re.findall(
        r"^(?: {4,}|)(?:\$ )?(tablepack .*)$", text.replace("\\\n", " "), re.MULTILINE
    )
    return [shlex.split(line, comments=True)[1:] for line in lines]


def demo_commands() -> list[list[str]]:
    """Words of every command that ./scripts/demo runs or recommends."""
    text = (ROOT / "scripts" / "demo").read_text().replace("\\\n", " ").replace("$people", "2000")
    ran = re.findall(r"^run (.*)$", text, re.MULTILINE)
    suggested = re.findall(r'^echo "  \.venv/bin/tablepack (.*?)(?: {3,}.*)?"$', text, re.MULTILINE)
    return [shlex.split(line.replace('\\"', '"')) for line in (*ran, *suggested)]


def parsed(words: list[str]) -> None:
    """Parse a command without running it; raises the usage error of the command line."""
    command, rest = get_command(app), words
    while hasattr(command, "commands"):
        assert rest, words
        assert rest[0] in command.commands, f"no command {rest[0]}"
        with command.make_context("tablepack", list(rest)) as context:
            _, command, rest = command.resolve_command(context, list(rest))
    command.make_context("tablepack", list(rest))


def test_commands_are_found_in_the_readme():
    names = {words[0] for words in shell_commands(README)}
    assert {"simulate", "init", "key", "plan", "build", "sql", "evaluate"} <= names
    assert len(demo_commands()) >= 8


@pytest.mark.parametrize("words", shell_commands(README), ids=" ".join)
def test_every_command_of_the_readme_is_valid(words):
    parsed(words)


@pytest.mark.parametrize("words", demo_commands(), ids=" ".join)
def test_every_command_of_the_demo_is_valid(words):
    parsed(words)


@pytest.mark.parametrize(
    "words", [["build", "a.toml", "--nonsense"], ["show"], ["export", "r.duckdb"]]
)
def test_invalid_commands_are_detected(words):
    with pytest.raises(Exception, match=r"nonsense|Missing"):
        parsed(words)


@pytest.mark.ci
def test_the_tour_runs(tmp_path):
    """Every command of the README in its order, on fewer people; one of them is meant to be refused."""
    tour = tmp_path / "releases" / "tour"
    tour.mkdir(parents=True)
    (tour / "release.toml").write_text(demo_text())  # as `cp` in the README does
    shutil.copy(ROOT / "releases" / "demo-pack.toml", tour.parent)
    for words in shell_commands(README):
        fewer = ["1200" if word == "20000" else word for word in words]
        done = tablepack(*fewer, cwd=tmp_path)
        refused = "carer, sex" in done.stderr
        assert done.returncode == (5 if refused else 0), (words, done.stderr)
    assert (tour / "detected.toml").exists()
    assert list((tour / "csv").iterdir())
    with duckdb.connect(str(tour / "census.duckdb"), read_only=True) as con:
        for name in set(re.findall(r"`catalog\.(\w+)`", README)):
            assert con.execute(f"SELECT count(*) FROM catalog.{name}").fetchone()[0]
        assert con.execute('SELECT count(*) FROM "age.sex"').fetchone()[0]


def test_the_key_of_the_tour_is_that_of_its_spec():
    assert "\n    $ cp releases/demo.toml releases/tour/release.toml\n" in README
    (made,) = (words[2] for words in shell_commands(README) if words[:2] == ["key", "new"])
    spec = (ROOT / "releases" / "demo.toml").read_text(encoding="utf-8")
    named = tomllib.loads(spec)["release"]["key"]
    assert Path("releases/tour", named) == Path(made)


@pytest.mark.ci
def test_the_python_of_the_readme_runs(tmp_path, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert blocks
    monkeypatch.chdir(tmp_path)
    # Environments made before the package `tablepack` find it where pyproject.toml places it.
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT / "engine")])
    make_census(tmp_path / "releases/tour/census", people=1_200)
    for block in blocks:
        names = {}
        exec(compile(block, "README.md", "exec"), names)
        names["release"].close()


def test_no_path_of_a_developer_s_machine():
    for path in [ROOT / "README.md", ROOT / "pyproject.toml", *(ROOT / "scripts").iterdir()]:
        if path.is_file():
            assert not MACHINE_PATH.search(path.read_text(encoding="utf-8")), path
    assert not MACHINE_PATH.search(CODE)


def test_the_names_that_users_import_have_pages(tmp_path):
    pytest.importorskip("pdoc")
    code = f"from reference_pages import *; api(Path({str(tmp_path)!r}))"
    folders = os.pathsep.join([str(ROOT / "scripts"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        [sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": folders}
    )
    for module in (engine, queries):
        text = (tmp_path / f"{module.__name__}.html").read_text("utf-8")
        for name in module.__all__:
            assert f'id="{name}"' in text, name
    assert 'id="Release.sql"' in (tmp_path / "engine.html").read_text("utf-8")


def test_the_committed_spec_reference_is_current():
    committed = (reference_pages.ROOT / reference_pages.SPEC).read_text("utf-8")
    assert committed == reference_pages.spec_reference(), "run ./scripts/reference --spec"


def test_every_key_of_the_spec_is_in_its_reference():
    rows = reference_pages.spec_reference().splitlines()
    keys = [
        key for section in (*SECTIONS.values(), *NESTED.values()) for key in section.model_fields
    ]
    for key in keys:
        assert sum(row.startswith(f"| `{key}` |") for row in rows) == keys.count(key), key


FOLDER = ROOT / "releases" / "measured"


def test_every_study_has_a_file_and_every_file_a_study():
    names = {path.stem for path in FOLDER.glob("*.md")}
    scripts = "\n".join(p.read_text("utf-8") for p in (ROOT / "scripts").glob("*.py"))
    written = set(re.findall(r'(?:record\(|keep\(\w+,)\s*f?"([\w-]+)', scripts))
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
