from __future__ import annotations

import ast
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LONGEST_MODULE, LONGEST_FUNCTION = 350, 60

# Every module, in an order in which each imports only modules before it. A new module fails the tests until it is
# placed here: think about the zone first.
ZONES = {
    "foundations": (
        *("errors", "version", "universe", "schema", "params", "keys", "noise", "ranges"),
        *("levels", "params_dp"),
        *(
            "spec_model",
            "spec_source",
            "spec_values",
            "spec_universe",
            "spec_levels",
            "spec_columns",
            "spec_tables",
            "spec_zeros",
            "spec_dp",
            "spec",
        ),
    ),
    "simulation": (
        *("simulation", "simulation.draw", "simulation.codes", "simulation.occupations"),
        *("simulation.households", "simulation.work", "simulation.living", "simulation.people"),
        *("simulation.rules", "simulation.events", "simulation.columns", "simulation.files"),
        "simulation.census",
    ),
    "measure": (  # the confidential zone
        *("scratch", "journal", "csv_header", "frames", "sources", "encoding"),
        *("detect_resolution", "detect_column", "spec_text", "detect", "misfits", "ingest"),
        *("cells", "entities", "coding", "draws", "morton", "forest", "measure", "opening"),
        "domains",
        *("dp_noise", "accounting"),
        *("ledger", "counting", "marginals"),
    ),
    "fit": (
        "tree",
        "alphabet",
        "candidates",
        "borders",
        "ipf",
        "rounding",
        "leftovers",
        "places",
        "locking",
        *("joint", "joint.target", "joint.hierarchy", "joint.sampling", "joint.distinct"),
        "joint.tables",
        *("joint.residuals", "joint.shrinkage", "joint.reconcile"),
        *("joint.blocks", "joint.cycles", "joint.dense", "joint.sparse"),
        *("joint.cliques", "joint.junction", "joint.strata", "joint.chow_liu", "joint.row_search"),
        *("joint.support", "joint.synthesis"),
    ),
    "store": (
        *("card_dp", "card", "manifest", "decode", "store_schema", "store_macros"),
        *("store_catalog", "store_arrays"),
        *("store_target", "store"),
    ),
    "wall": ("pipes", "fit_workers", "fitting", "joint_fitting", "fit_process"),
    "release": ("planner", "planner_dp", "release_header", "release_dp", "release"),
    "observers": (  # may see both sides; only the top imports them
        "falsify",
        *("trials", "attacks", "claims", "cloning"),
        *("study_sections", "study_risks", "study", "score"),
        *("utility", "utility.comparison", "utility.sampling", "utility.words"),
        *("utility.marginals", "utility.rules", "utility.counts", "utility.association"),
        *("evaluation", "utility.fingerprints", "utility.study_files", "utility.relation"),
        *("utility.kinds", "utility.reading"),
        *("utility.correlations", "utility.regression", "utility.propensity"),
        *("utility.margins", "utility.components"),
        *("utility.learners", "utility.learning", "utility.gaps", "study_default"),
        *("utility.tables", "utility.logistic", "utility.models"),
        *("utility.distributions", "utility.estimates"),
        *("risk", "risk.people", "risk.matching", "risk.uniques", "risk.baseline"),
        *("risk.precision", "risk.apparent"),
        *("risk.attributed", "risk.attribution"),
        *("risk.records", "risk.identification", "risk.em", "risk.pairs"),
        "risk.linkage",
        *("risk.several", "risk.inference"),
        *("figures", "measures", "risks", "presets", "evaluating", "scorecard"),
        *("compared", "comparing_scores", "comparing"),
        *("report", "report.verdicts", "report.improvement", "report.picture", "report.drawing"),
        "report.naming",
        *("report.pictures_columns", "report.pictures_structure", "report.pictures_use"),
        *("report.pictures_risk", "report.pictures", "report.grids", "report.document"),
        *("report.summary", "report.page", "report.files", "report.comparison"),
    ),
    "queries": (
        *("queries.router", "queries.refusals", "queries.advice", "queries.own_tables"),
        "queries.unreleased",
        *("queries.sandbox", "queries.watched"),
        *("queries.columns", "queries.shown", "queries.result", "queries.catalogue"),
        *("queries.views", "queries.answering", "queries.session"),
        *("queries.estimates", "queries.buckets", "queries.noise_tree", "queries.noise_of_sums"),
        *("queries.hidden", "queries.noise_model", "queries.regions", "queries.locked"),
        *("queries.tails", "queries.figures"),
        *("queries.universes", "queries.statement_nodes", "queries.statement_tree"),
        "queries.statement_rows",
        *("queries.linear", "queries.terms", "queries.sql_aggregates", "queries.uncertainty"),
        *("queries.worker", "queries.limited"),
        *("queries.exports", "queries"),
        *("queries.packs.pack_spec", "queries.packs.model", "queries.packs.words"),
        *("queries.packs.dimensions", "queries.packs.figures", "queries.packs.asking"),
        *("queries.packs.doubts", "queries.packs.assemble"),
        *("queries.packs.flat", "queries.packs.naming", "queries.packs.metadata"),
        *("queries.packs.interchange", "queries.packs.sdmx", "queries.packs.pcaxis"),
        *("queries.packs.worksheets", "queries.packs.workbook", "queries.packs.chart"),
        *(
            "queries.packs.readme",
            "queries.packs.site",
            "queries.packs.publishing",
            "queries.packs",
        ),
        *("queries.api_errors", "queries.api_values", "queries.api_cache", "queries.api_guard"),
        *(
            "queries.api_groups",
            "queries.api_question",
            "queries.api_document",
            "queries.api_shares",
            "queries.api_tabulate",
            "queries.api_shown",
            "queries.api_downloads",
        ),
        *("queries.api_sql", "queries.api_service", "queries.api_connections", "queries.server"),
    ),
    "top": (
        *("doctor", "api", "api_evaluate", "api_compare", "console", "exits", "cli_evaluate"),
        *("cli_compare", "cli_budget", "cli_plan", "api_publish", "cli_publish"),
        *("cli_prompt", "cli_sql"),
        *("cli_serve", "cli", ""),
    ),
}
MAY_IMPORT = {
    "foundations": {"foundations"},
    "simulation": {"foundations", "simulation"},
    "measure": {"foundations", "measure"},
    "fit": {"foundations", "fit"},
    "store": {"foundations", "store"},
    "wall": {"foundations", "fit", "store", "wall"},
    "release": {"foundations", "measure", "store", "wall", "release"},
    "observers": {"foundations", "measure", "fit", "store", "wall", "release", "observers"},
    "queries": {"foundations", "store", "queries"},
    "top": set(ZONES),
}
QUERIES_MAY_IMPORT = {"engine.errors", "engine.schema"}  # of the foundations


def full_name(short: str) -> str:
    if short.split(".")[0] == "queries":
        return short
    return f"engine.{short}" if short else "engine"


ORDER = [full_name(short) for short in chain.from_iterable(ZONES.values())]
ZONE_OF = {full_name(short): zone for zone, modules in ZONES.items() for short in modules}


def files() -> dict[str, Path]:
    out = {}
    for package in ("engine", "queries"):
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            out[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return out


FILES = files()
TREES = {name: ast.parse(path.read_text("utf-8")) for name, path in FILES.items()}


def imports(name: str) -> set[str]:
    """Modules of ours that a module imports, anywhere in it; the names that `engine` resolves lazily do not count."""
    tree = TREES[name]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports relatively"
            as_modules = {f"{node.module}.{alias.name}" for alias in node.names}
            inner = as_modules & FILES.keys()
            found |= inner
            if len(inner) < len(as_modules):
                found.add(node.module or "")
    return {module for module in found if module.split(".")[0] in ("engine", "queries")} - {name}


def reached(name: str) -> set[str]:
    seen, frontier = set(), {name}
    while frontier:
        seen |= frontier
        frontier = (
            set().union(*(imports(module) for module in frontier if module != "engine")) - seen
        )
    return seen - {name}


def test_every_module_has_its_place():
    assert len(ORDER) == len(set(ORDER))
    assert sorted(FILES) == sorted(ORDER)


@pytest.mark.parametrize("name", ORDER)
def test_imports_go_one_way(name):
    if name not in FILES:
        pytest.fail(f"{name} is in the order but not in the tree")
    before = set(ORDER[: ORDER.index(name)])
    wrong = imports(name) - before
    assert not wrong, f"{name} imports {sorted(wrong)}, which stand below it"
    allowed = MAY_IMPORT[ZONE_OF[name]]
    strange = {module for module in imports(name) if ZONE_OF[module] not in allowed}
    assert not strange, f"{name} ({ZONE_OF[name]}) imports {sorted(strange)} of another zone"


@pytest.mark.parametrize("name", [full_name(m) for m in ZONES["queries"]])
def test_queries_reach_neither_rows_nor_noise_nor_key(name):
    direct = {m for m in imports(name) if ZONE_OF[m] == "foundations"}
    assert direct <= QUERIES_MAY_IMPORT
    far = reached(name)
    assert not {m for m in far if ZONE_OF[m] in ("measure", "release", "wall", "fit", "top")}
    assert not far & {"engine.keys", "engine.noise", "engine.draws", "engine.spec"}


def test_fit_process_reaches_nothing_of_the_measure_zone():
    far = reached("engine.fit_process")
    assert {"engine.locking", "engine.store", "engine.alphabet"} <= far
    assert {ZONE_OF[module] for module in far} == {"foundations", "fit", "store", "wall"}


def test_importing_engine_loads_nothing():
    code = (
        "import sys; before = set(sys.modules); import engine; "
        "print(*sorted(m for m in set(sys.modules) - before))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = set(run.stdout.split())
    assert "engine" in loaded
    assert not {m for m in loaded if m.startswith(("engine.", "queries"))}
    assert not loaded & {"numpy", "duckdb", "pandas", "pyarrow"}


@pytest.mark.parametrize("name", sorted(FILES))
def test_modules_are_short_and_say_what_they_are(name):
    n_lines = FILES[name].read_text("utf-8").count("\n")
    assert n_lines <= LONGEST_MODULE
    assert ast.get_docstring(TREES[name])


def functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


def body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(node) is not None:
        first = node.body[0]
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


@pytest.mark.parametrize("name", sorted(FILES))
def test_functions_are_short(name):
    long = {
        f.name: body_lines(f) for f in functions(TREES[name]) if body_lines(f) > LONGEST_FUNCTION
    }
    assert not long


@pytest.mark.parametrize("name", sorted(FILES))
def test_what_is_public_has_a_docstring(name):
    bare = []
    for holder in [TREES[name], *(n for n in TREES[name].body if isinstance(n, ast.ClassDef))]:
        for node in holder.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                decorators = {ast.unparse(d) for d in node.decorator_list}
                if not ast.get_docstring(node) and not any("overload" in d for d in decorators):
                    bare.append(node.name)
    assert not bare


@pytest.mark.parametrize("name", sorted(FILES))
def test_no_print_no_assert_no_star(name):
    found = []
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Assert):
            found.append(f"assert in line {node.lineno}")
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "print"
        ):
            found.append(f"print in line {node.lineno}")
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            found.append(f"star import in line {node.lineno}")
    assert not found
