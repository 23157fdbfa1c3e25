"""Our two modes beside all baselines on one page, of a simulated census: utility, risk, seconds.

Usage: .venv/bin/python scripts/rivals_contest.py [--people N] [--with NAMES] [--mst PYTHON] [--page HTML] [--record]
What it runs is `tablepack compare demo-dp.toml --with NAMES --areas region --control NON_MEMBERS`, with the spec in
releases/ and non_members simulated by another seed. PYTHON is the interpreter of an environment with mbi 2.0.0
and pandas; without it MST is left out.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from measured import add_option, command_line, markdown, record

import engine
from engine.evaluation.compare import Comparison
from engine.evaluation.report import comparison_table
from engine.progress import Progress
from engine.simulation import simulate_census

PEOPLE, SEED = 10_000, 2021
BASELINES = (
    "margins,sample40,bootstrap100,pram80,swap5,kanon5,mdav3,cart,cart:age+health,parametric,dpmpm"
)
"""Every baseline that needs no environment of its own."""
AREAS = ("region",)
SPEC = Path(__file__).resolve().parents[1] / "releases" / "demo-dp.toml"


def prepared(folder: Path, people: int) -> tuple[Path, Path]:
    """A spec with its census and key, and people of the same population whom it does not hold."""
    simulate_census(folder / "census", people=people, seed=SEED)
    non_members = simulate_census(folder / "non_members", people=people, seed=SEED + 1)
    engine.new_key(folder / "census.key")
    spec = folder / SPEC.name
    spec.write_text(SPEC.read_text(encoding="utf-8"), encoding="utf-8")
    return spec, non_members.people


def held(folder: Path, people: int, names: str, page: Path | None, tell: Progress) -> Comparison:
    """Compare both modes with the baselines."""
    spec, non_members = prepared(folder, people)
    return engine.compare_rivals(
        spec, names, control=non_members, areas=AREAS, out=page, force=True, progress=tell
    )


def table_of(comparison: Comparison) -> str:
    """A row a generator: whose it is, processor time, the loss, the risks, and figures of utility."""
    heads, rows = comparison_table(comparison)
    told = []
    for one, row in zip(comparison.generators(), rows, strict=True):
        spent = comparison.seconds(one.name)[1]
        of_processor = "" if spent is None else f"{spent.median:.1f}"
        told.append(
            [one.name, one.origin.split(",")[0].split(":")[0], row[1], of_processor, *row[2:]]
        )
    return markdown([heads[0], "code", heads[1], "of processor", *heads[2:]], told)


def main() -> None:
    """Compare, print, record."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--people", type=int, default=PEOPLE)
    reader.add_argument("--with", dest="names", default=BASELINES)
    reader.add_argument("--mst")
    reader.add_argument("--page", type=Path)
    add_option(reader)
    given = reader.parse_args()
    names = given.names if given.mst is None else f"{given.names},mst={given.mst}"

    def tell(what: str, done: int, of: int) -> None:
        print(f"{done} of {of}: {what}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        comparison = held(Path(folder), given.people, names, given.page, tell)
    text = "\n\n".join(
        [
            table_of(comparison),
            f"{comparison.n_rows:,} people of a simulated census, {comparison.n_tables} tables of "
            "releases/demo-dp.toml, each made once; attacks are held against as many non-members. MST has epsilon 1.",
            *(f"- {note}" for note in comparison.notes),
        ]
    )
    print(text)
    if given.record:
        record("rivals-contest", command_line(".venv/bin/python scripts/rivals_contest.py"), text)


if __name__ == "__main__":
    main()
