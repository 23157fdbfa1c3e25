"""What the steps of a build take, and how long the last release took for the same. Called by ./scripts/bench steps.

Two builds: 72 tables of a simulated census, and NIST's 438 tables where FOLDER holds them. Steps: processor time in one
process (`bench_profile.py`). The comparison: another version of the project (`--against REV`, by default the last
commit of the release before this one), taken from git into a folder, builds with the libraries of this environment,
in turn with this one. Writes `bench-steps.json` and `bench-steps.svg`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

from bench_cost import build_of
from bench_picture import draw_steps
from bench_series import ROOT, SEED, SMALL, nist_spec, row_tables
from measured import FOLDER, add_option, command_line, markdown, record

from engine.key_files import new_key
from engine.simulation import simulate_census

NEW_KEY = "import sys; from pathlib import Path; from engine.key_files import new_key; new_key(Path(sys.argv[1]))"
_HEADING = re.compile(r"^## (\S+)", re.MULTILINE)


def git(*words: str) -> bytes:
    """What git answers in the project's folder."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"git {words[0]} failed: {done.stderr.decode().strip()}")
    return done.stdout


def last_release() -> str:
    """The newest tag of a version; without one, the last commit before CHANGELOG.md began its newest version."""
    tags = git("tag", "--list", "v*", "--merged", "HEAD", "--sort=-version:refname").decode()
    if tags.split():
        return tags.split()[0]
    newest = _HEADING.search((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    if newest is None:
        raise SystemExit("CHANGELOG.md names no version; give --against REV")
    begun = git("log", "--format=%H", "-S", f"## {newest[1]} ", "--", "CHANGELOG.md").decode()
    if not begun.split():
        raise SystemExit(f"no commit began {newest[1]} in CHANGELOG.md; give --against REV")
    return git("rev-parse", "--short", f"{begun.split()[-1]}^").decode().strip()


def tree_of(revision: str, folder: Path) -> Path:
    """The files of a revision, in a fresh folder."""
    tree = folder / "against"
    shutil.rmtree(tree, ignore_errors=True)
    with tarfile.open(fileobj=BytesIO(git("archive", revision))) as files:
        files.extractall(tree, filter="data")
    if not (tree / "scripts" / "bench_build.py").exists():
        raise SystemExit(f"{revision} has no scripts/bench_build.py, so it cannot be timed")
    return tree


def compile_first(tree: Path) -> None:
    """Compile the kernels of a version, so that no build that is timed does."""
    fit = tree / "engine" / "fit"
    module = "engine.fit.warm" if (fit / "warm.py").exists() else "engine.fit.compiled"
    if (fit / "warm.py").exists() or (fit / "compiled").is_dir():
        words = [sys.executable, "-m", module]
        subprocess.run(words, env=os.environ | {"PYTHONPATH": str(tree)}, check=True)


def jobs_of(folder: Path, people: int, nist: str) -> dict[str, dict[str, Any]]:
    """What is built, by name."""
    place = folder / f"census-{people}"
    if not place.exists():
        simulate_census(place, people=people, seed=SEED)
    tables = row_tables()
    columns = sorted({name for table in tables for name in table})
    source = str(place / "people.parquet")
    name = f"{len(tables)} tables, simulated census of {people:,}"
    jobs: dict[str, dict[str, Any]] = {
        name: {"source": source, "columns": columns, "tables": tables}
    }
    if nist and (Path(nist) / "national2019.csv").exists():
        jobs["438 tables, NIST's excerpt"] = {"nist": nist}
    return jobs


def ready(job: dict[str, Any], folder: Path, name: str, tree: Path) -> dict[str, Any]:
    """A job with key, output and, for NIST's tables, spec of a version of the project."""
    key = folder / f"{name}.key"
    if not key.exists():
        if tree == ROOT:
            new_key(key)
        else:
            words = [sys.executable, "-c", NEW_KEY, str(key)]
            subprocess.run(words, env=os.environ | {"PYTHONPATH": str(tree)}, check=True)
    ours = {"key": str(key), "out": str(folder / f"{name}.duckdb")}
    if "nist" not in job:
        return job | ours
    spec = nist_spec(folder / f"{name}.toml", Path(job["nist"]), key, tree=tree)
    return ours | {"spec": str(spec)}


def steps_of(job: dict[str, Any], folder: Path) -> dict[str, float]:
    """Processor seconds of each step of a build, in a process of its own."""
    clean(job)
    (folder / "job.json").write_text(json.dumps(job))
    script = Path(__file__).with_name("bench_profile.py")
    words = [sys.executable, str(script), str(folder / "job.json")]
    told = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
    seconds: dict[str, float] = json.loads(told)
    return seconds


def compared(
    now: dict[str, Any], then: dict[str, Any], tree: Path, folder: Path, repeat: int
) -> dict[str, float]:
    """Seconds and processor seconds of both versions, in turn; the quickest of the repeats counts."""
    built: dict[str, list[dict[str, float]]] = {"then": [], "now": []}
    for _ in range(repeat):
        built["then"].append(build_of(then, folder, tree=tree))
        built["now"].append(build_of(now, folder))
    out = {}
    for when, runs in built.items():
        out[f"{when}_seconds"] = min(one["seconds"] for one in runs)
        out[f"{when}_cpu_seconds"] = min(
            one["measure_cpu_seconds"] + one["fit_cpu_seconds"] for one in runs
        )
    return out


def clean(job: dict[str, Any]) -> None:
    """Take away what a build left."""
    out = Path(job["out"])
    for left in (out, out.with_name(out.name + ".manifest.json")):
        left.unlink(missing_ok=True)


def figures(found: list[dict[str, Any]], revision: str | None) -> str:
    """The figures in Markdown: shares of steps, and seconds then and now."""
    names = [one["name"] for one in found]
    rows = [
        [step, *(f"{one['steps'][step] / sum(one['steps'].values()):.0%}" for one in found)]
        for step in found[0]["steps"]
    ]
    total = ["all, CPU seconds", *(f"{sum(one['steps'].values()):.2f}" for one in found)]
    parts = [markdown(["step", *names], [*rows, total])]
    if revision is not None:
        lines = [
            [
                one["name"],
                f"{one['then_seconds']:.2f}",
                f"{one['now_seconds']:.2f}",
                f"{one['now_seconds'] / one['then_seconds']:.2f}",
                f"{one['then_cpu_seconds']:.2f}",
                f"{one['now_cpu_seconds']:.2f}",
            ]
            for one in found
        ]
        heads = ["build", f"seconds at {revision}", "now", "now / then", "CPU seconds then", "now"]
        parts.append(markdown(heads, lines))
    return "\n\n".join(parts)


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="./scripts/bench steps")
    parser.add_argument(
        "--against", metavar="REV", help="version to compare with; none: only steps"
    )
    parser.add_argument("--people", type=int, default=SMALL, help="people of the census")
    parser.add_argument("--nist", default="../shared/nist", help="folder; empty: leave it out")
    parser.add_argument("--repeat", type=int, default=2, help="builds each; the quickest counts")
    parser.add_argument("--folder", type=Path, default=Path("releases/bench"))
    add_option(parser)
    return parser.parse_args()


def main() -> None:
    """Build, time, and write what was found."""
    chosen = options()
    folder: Path = chosen.folder
    folder.mkdir(parents=True, exist_ok=True)
    wanted = last_release() if chosen.against is None else chosen.against
    revision = None if wanted in ("", "none") else wanted
    tree = tree_of(revision, folder) if revision else None
    for one in (ROOT, tree):
        if one is not None:
            compile_first(one)
    found = []
    for name, job in jobs_of(folder, chosen.people, chosen.nist).items():
        now = ready(job, folder, "now", ROOT)
        line: dict[str, Any] = {"name": name, "steps": steps_of(now, folder)}
        if tree is not None:
            line |= compared(now, ready(job, folder, "then", tree), tree, folder, chosen.repeat)
            clean(ready(job, folder, "then", tree))
        clean(now)
        found.append(line)
    text = figures(found, revision)
    print(text)
    (folder / "bench-steps.json").write_text(
        json.dumps({"against": revision, "builds": found}, indent=1) + "\n"
    )
    (folder / "bench-steps.svg").write_text(draw_steps(found, revision))
    print(f"wrote {folder / 'bench-steps.json'} and {folder / 'bench-steps.svg'}")
    if tree is not None:
        shutil.rmtree(tree)
    if chosen.record:
        record("bench-steps", command_line("./scripts/bench steps"), text)
        shutil.copy(folder / "bench-steps.svg", FOLDER.parent / "bench-steps.svg")


if __name__ == "__main__":
    main()
