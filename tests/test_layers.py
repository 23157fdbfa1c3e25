"""The declared contract: which zone may import which, no import cycles, and a documented public API."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ENGINE_ROOT = {
    *("engine.errors", "engine.version", "engine.schema", "engine.params", "engine.keys"),
    *("engine.key_files", "engine.charts"),
    *("engine.cell_keys", "engine.sticky_prf", "engine.ranges", "engine.levels", "engine.progress"),
    *("engine.kernels", "engine.siphash"),
    *("engine.relations", "engine.outputs", "engine.signals", "engine.texts", "engine.units"),
    *("engine.folders", "engine.guarantee", "engine.periods", "engine.processes"),
}
FOR_QUERIES = {
    "engine.charts",
    "engine.errors",
    "engine.folders",
    "engine.guarantee",
    "engine.periods",
    "engine.schema",
    "engine.cell_keys",
    "engine.outputs",
    "engine.signals",
    "engine.texts",
    "engine.units",
}
"""What queries see of the engine's root: no key files."""
CORE = ENGINE_ROOT | {"engine.spec"}
MAY_IMPORT = {  # zone -> zones that it may import beside itself; a zone is a package with all below it, or a module
    **{module: ENGINE_ROOT for module in ENGINE_ROOT},
    "engine.spec": ENGINE_ROOT,
    "engine.source": CORE,
    "engine.mechanism": ENGINE_ROOT,
    "engine.measure": CORE | {"engine.source", "engine.mechanism"},
    "engine.fit": ENGINE_ROOT | {"engine.mechanism"},
    "engine.store": ENGINE_ROOT,
    "engine.exposure": ENGINE_ROOT,
    "engine.release": CORE
    | {
        "engine.source",
        "engine.measure",
        "engine.mechanism",
        "engine.fit",
        "engine.store",
        "engine.exposure",
    },
    "engine.simulation": ENGINE_ROOT,
    # Evaluations hold rows beside releases; of the core they see what is listed, builds by one entry point, and trials.
    "engine.evaluation": CORE | {"engine.source", "engine.store", "engine.release.trials"},
    "queries.sql": FOR_QUERIES | {"engine.store"},
    # Replays run the public fit, with keys that follow from the released file.
    "queries.intervals": FOR_QUERIES
    | {"engine.params", "engine.fit", "engine.store", "queries.sql"},
    "queries.release": FOR_QUERIES | {"engine.store", "queries.sql", "queries.intervals"},
    "queries": {"queries.sql", "queries.release"},
    "queries.requests": FOR_QUERIES,
    "queries.sandbox": FOR_QUERIES
    | {"engine.store", "queries.sql", "queries.intervals", "queries.release"},
    "queries.packs": FOR_QUERIES
    | {"engine.store", "queries.sql", "queries.intervals", "queries.release"},
    "queries.serve": FOR_QUERIES
    | {
        "engine.store",
        "queries.sql",
        "queries.intervals",
        "queries.release",
        "queries.requests",
        "queries.sandbox",
        "queries.packs",
    },
    **{top: {"*"} for top in ("engine", "engine.api", "engine.cli", "engine.tablepack")},
}
RIGHT_OF_THE_WALL = {
    *ENGINE_ROOT,
    *("engine.mechanism", "engine.fit", "engine.store", "engine.release"),
}


def sources() -> dict[str, str]:
    """Every product module with its text."""
    out = {}
    for package in ("engine", "queries"):
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            out[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(
                "utf-8"
            )
    return out


SOURCES = sources()
TREES = {name: ast.parse(text) for name, text in SOURCES.items()}


def zone_of(module: str) -> str:
    """The zone that holds a module: the longest declared name that it lies below."""
    inside = [z for z in MAY_IMPORT if module == z or module.startswith(f"{z}.")]
    # What lies directly in a top package belongs to a zone of its own, or to none.
    found = max(inside, key=len, default="")
    return found if found not in ("engine", "queries") or module == found else ""


def imported(tree: ast.AST, known: set[str]) -> set[str]:
    """Modules of ours that a module imports: at its top, inside functions, by `import_module` or `python -m`."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (whole & known) or {node.module or ""}
            if not whole <= known:
                found.add(node.module or "")
        elif isinstance(node, ast.Constant) and node.value in known and "." in str(node.value):
            found.add(str(node.value))
    return {name for name in found if name.split(".")[0] in ("engine", "queries")}


def of_typing(tree: ast.AST) -> set[ast.AST]:
    """What stands under `if TYPE_CHECKING`: never run."""
    blocks = [
        n
        for n in ast.walk(tree)
        if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)
    ]
    return {inner for block in blocks for inner in ast.walk(block)}


def run_of(tree: ast.Module) -> ast.Module:
    """A module without what stands there for types only."""
    return ast.Module([node for node in tree.body if node not in of_typing(tree)], [])


def graph(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Which module imports which."""
    return {
        # Its own package may be named: for the files that lie in it.
        name: imported(tree, set(trees)) - {name, name.rpartition(".")[0]}
        for name, tree in trees.items()
    }


def violations(imports: dict[str, set[str]]) -> list[str]:
    """Every import that the contract does not allow."""
    wrong = []
    for name, found in sorted(imports.items()):
        here = zone_of(name)
        if not here:
            wrong.append(f"{name} lies in no declared zone")
            continue
        allowed = MAY_IMPORT[here]
        for other in sorted(found):
            there = zone_of(other)
            named = any(other == a or other.startswith(f"{a}.") for a in allowed if a != "engine")
            if there != here and "*" not in allowed and not named:
                wrong.append(f"{name} ({here}) imports {other}")
    return wrong


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other, directly or around corners."""
    reach = {name: closure(name, imports) for name in imports}
    together = {
        frozenset(m for m in reach[n] if n in reach.get(m, ())) for n in imports if n in reach[n]
    }
    return sorted(sorted(group) for group in together)


def closure(name: str, imports: dict[str, set[str]]) -> set[str]:
    """All that a module reaches; `engine` itself resolves its names lazily and loads nothing."""
    seen: set[str] = set()
    frontier = set(imports.get(name, ()))
    while frontier:
        seen |= frontier
        frontier = {o for m in frontier if m != "engine" for o in imports.get(m, ())} - seen
    return seen


IMPORTS = graph(TREES)
RUN = graph({name: run_of(tree) for name, tree in TREES.items()})


def test_imports_go_one_way_between_zones():
    assert violations(IMPORTS) == []


def test_no_module_imports_itself_around_a_corner():
    lazy = {
        "engine",
        "engine.release",
        "engine.evaluation",
    }  # faces that resolve names when first used
    assert circles({n: found - lazy for n, found in RUN.items() if n not in lazy}) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("engine.fit.tree", "from engine.measure.cells import Cells"),
        ("engine.fit.tree", "def late():\n    import engine.source.ingest"),
        (
            "engine.store.card",
            "from importlib import import_module\nimport_module('engine.release.sticky')",
        ),
        ("queries.sql.router", "from engine.key_files import read_key"),
        ("queries.sql.router", "from engine import keys"),
        ("queries.sql.session", "import_module('queries.intervals.tabulation')"),
        ("queries.intervals.spread", "from queries.serve import app"),
        ("engine.spec.model", "from engine.source import ingest"),
        ("engine.evaluation.score", "from engine.measure.draws import StickyDraws"),
        ("engine.stray", ""),
    ],
)
def test_a_planted_violation_is_seen(name, text):
    planted = imported(ast.parse(text), {*TREES, name}) - {name, name.rpartition(".")[0]}
    assert violations({name: planted})


@pytest.mark.parametrize("inside", ["", "def late():\n    "])
def test_a_planted_circle_is_seen(inside):
    trees = {
        "engine.fit.one": ast.parse("from engine.fit import two"),
        "engine.fit.two": ast.parse(f"{inside}from engine.fit.three import x"),
        "engine.fit.three": ast.parse("import_module('engine.fit.one')"),
    }
    assert circles(graph(trees)) == [["engine.fit.one", "engine.fit.three", "engine.fit.two"]]


def test_queries_reach_neither_rows_nor_key_files():
    """They run the public mechanism and fit, on released rows and with keys of their own: see `engine.fit.replay`."""
    public = (ENGINE_ROOT - {"engine.key_files"}) | {
        "engine.store",
        "engine.fit",
        "engine.mechanism",
    }
    for name in (n for n in IMPORTS if n.split(".")[0] == "queries"):
        far = {m for m in closure(name, IMPORTS) if m.startswith("engine") and m != "engine"}
        strange = {m for m in far if not {m, zone_of(m)} & public}
        assert not strange, f"{name} reaches {sorted(strange)}"


def test_the_fit_process_reaches_nothing_left_of_the_wall():
    far = closure("engine.release.fit_process", IMPORTS)
    assert {"engine.fit.locking", "engine.store.staging", "engine.fit.joint.synthesis"} <= far
    zones = {zone_of(module) for module in far - {"engine"}}
    assert zones <= RIGHT_OF_THE_WALL
    left = {"building", "dp", "planner", "sticky"}
    assert not far & {f"engine.release.{name}" for name in left}


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


@pytest.mark.parametrize("module", ["engine", "tablepack", "queries"])
def test_the_public_api_is_documented(module):
    face = import_module(module)
    bare = []
    for name in face.__all__:
        value = getattr(face, name)
        if callable(value) and not inspect.getdoc(value):
            bare.append(name)
        if isinstance(value, type) and not issubclass(value, BaseException):
            bare += [
                f"{name}.{method}"
                for method, of in vars(value).items()
                if not method.startswith("_") and inspect.isfunction(of) and not of.__doc__
            ]
    assert not bare


def test_no_print_no_assert_no_star():
    found = []
    for name, node in ((n, node) for n, tree in TREES.items() for node in ast.walk(tree)):
        if isinstance(node, ast.Assert):
            found.append(f"{name}: assert in line {node.lineno}")
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "print"
        ):
            found.append(f"{name}: print in line {node.lineno}")
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            found.append(f"{name}: star import in line {node.lineno}")
    assert not found
