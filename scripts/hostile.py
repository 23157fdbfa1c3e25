"""The hostile corpus alone: how many of each kind there are, and how long they take niced.

    scripts/hostile.py [--record]

Statements, forged releases, probes over HTTP and mangled inputs, as CI runs them among all tests; here by themselves at
the lowest priority that still goes on, and stopped after six minutes. Exit code 1 where one fails or time runs out.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
import tomllib
from pathlib import Path

from measured import add_option, command_line, markdown, record

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
FOLDERS = ("tests/hostile", "tests/store", "tests/fuzz")
MOST_S = 360
NICE = 10
HEADS = ("what", "number", "a file of them each in")
BY_CHANCE = {
    "statements put together by chance": ("hostile/test_fuzzed_statements.py", "n=500", 500),
    "mangled specs, pack specs, studies, sources, statements": ("fuzz/test_fuzz.py", "12, 400", 60),
}
"""Where the number of those that are made up stands, and what it says there."""


def corpus() -> list[tuple[str, int, str]]:
    """Kinds of attacks, how many there are, and where one is added."""
    statements = [
        line
        for path in (TESTS / "hostile" / "statements").glob("*.sql")
        for line in path.read_text("utf-8").splitlines()[1:]
        if line
    ]
    probes = [
        probe
        for path in (TESTS / "hostile" / "http").glob("*.toml")
        for probe in tomllib.loads(path.read_text("utf-8"))["probe"]
    ]
    forged = [*(TESTS / "forged").glob("*.toml")]
    rows = [
        ("statements", len(statements), "tests/hostile/statements"),
        ("probes over HTTP", len(probes), "tests/hostile/http"),
        ("forged releases", len(forged), "tests/forged"),
    ]
    for what, (file, said, n) in BY_CHANCE.items():
        if said not in (TESTS / file).read_text("utf-8"):
            raise SystemExit(f"tests/{file} does not say {said!r} any more")
        rows.append((what, n, f"tests/{file}"))
    return rows


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_option(parser)
    given = parser.parse_args()
    rows = corpus()
    began = time.monotonic()
    words = ("-q", "-m", "hostile and not slow", "-n", "auto", "--dist", "loadfile", *FOLDERS)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words],
            cwd=ROOT,
            timeout=MOST_S,
            preexec_fn=lambda: os.nice(NICE),
        ).returncode
    except subprocess.TimeoutExpired:
        sys.exit(f"not done after {MOST_S} s")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    text = (
        f"{markdown(HEADS, rows)}\n\nAll of them, niced: {time.monotonic() - began:.0f} s, "
        f"{used.ru_utime + used.ru_stime:.0f} s of processor (at most {MOST_S} s allowed)."
    )
    print(f"\n{text}")
    if given.record and done == 0:
        record("hostile", command_line(".venv/bin/python scripts/hostile.py"), text)
    sys.exit(done)


if __name__ == "__main__":
    main()
