"""Build and export the NIST tables with the command line, and print what came out. Called by ./scripts/nist."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

RELEASES = Path("releases")
FOLDER = RELEASES / "nist"
RELEASE = FOLDER / "nist.duckdb"


def tablepack(*arguments: str) -> float:
    """Run one command; return its seconds."""
    start = time.perf_counter()
    subprocess.run([Path(sys.executable).with_name("tablepack"), *arguments], check=True)
    return time.perf_counter() - start


def main() -> None:
    """Link the data, make a key once, build, export, print."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    link = FOLDER / "data"
    link.unlink(missing_ok=True)
    link.symlink_to(Path(sys.argv[1]).resolve())
    if not (FOLDER / "nist.key").exists():
        tablepack("key", "new", str(FOLDER / "nist.key"))
    RELEASE.unlink(missing_ok=True)
    RELEASE.with_name(RELEASE.name + ".manifest.json").unlink(missing_ok=True)
    built = tablepack("build", str(RELEASES / "nist.toml"), "-o", str(RELEASE))
    shutil.rmtree(FOLDER / "csv", ignore_errors=True)
    exported = tablepack("export", str(RELEASE), str(FOLDER / "csv"))
    shown = subprocess.run(
        [Path(sys.executable).with_name("tablepack"), "show", str(RELEASE), "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    report(json.loads(shown.stdout), built, exported)
    tablepack(
        "sql", str(RELEASE), "SELECT SEX, count(*) AS people FROM data GROUP BY SEX ORDER BY SEX"
    )


def report(summary: dict, built: float, exported: float) -> None:
    """Print the figures."""
    cards = summary["cards"]
    print(f"{len(cards)} tables built in {built:.1f} s, exported as CSV in {exported:.1f} s")
    print(f"release file {summary['bytes'] / 1e6:.1f} MB")
    print(
        f"{'columns':>8} {'tables':>7} {'median cells':>13} {'suppressed share':>17} {'largest gap':>12}"
    )
    for width in sorted({len(card["columns"]) for card in cards}):
        own = [card for card in cards if len(card["columns"]) == width]
        cells = statistics.median(card["cells"] for card in own)
        share = statistics.median(card["suppressed_share"] for card in own)
        gap = max(card["rounding_gap"] for card in own)
        print(f"{width:>8} {len(own):>7} {cells:>13,.0f} {share:>17.1%} {gap:>12}")


if __name__ == "__main__":
    main()
