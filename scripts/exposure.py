"""Hold what exposure predicts against attacks on the engine's own tables: reconstruction, membership, copies.

Usage: .venv/bin/python scripts/exposure.py [--keys N] [--record]     (5 keys; about 6 minutes)
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from math import comb

import numpy as np
from attacks.copies import copy_accuracy
from attacks.predicted import group_of, membership, ratios_of, solved, told_of
from attacks.trials import trial_of_rows
from measured import add_option, command_line, markdown, record

from engine.exposure import right
from engine.params import BOUNDS

GROUPS = ((50, 3), (50, 10), (150, 2), (150, 3), (150, 5), (150, 10), (150, 20), (150, 40))
LARGE = ((500, 20), (500, 100), (5_000, 40), (5_000, 400))
SHAPES = ((3, 4, 2), (5, 4, 2), (6, 6, 2), (4, 16, 2), (7, 4, 3), (9, 3, 3), (13, 3, 3))
"""Columns, levels of each, width of the widest tables; all narrower tables too."""
AGAIN = 6
"""Releases a key of reconstruction: one release of few tables has few cells, and its AUC an sd of up to .03."""
TOTAL = 27_253
COPIES = (1, 4, 16, 32)


def reconstruction(keys: int) -> Iterator[tuple[str, ...]]:
    """Rows of the table of reconstruction."""
    bound = BOUNDS["standard"].most_right
    for people, tables in (*GROUPS, *LARGE):
        found, predicted, most = [], [], []
        for key in range(keys):
            codes = group_of(people, tables, key, TOTAL)
            wide = [("bit", name, "flag") for name in codes if name[0] == "c"]
            trial = trial_of_rows(codes, wide, 1 + key)
            told, ratios = told_of(trial, codes, "bit"), ratios_of(trial, codes, "bit")
            found.append(solved(trial, codes, people))
            predicted.append(right(ratios[:people]).mean())
            most.append(told.most)
        yield (
            f"{people:,}",
            str(tables),
            f"{np.mean(most):.2f}",
            "yes" if np.mean(most) > bound else "no",
            f"{np.mean(found):.3f}",
            f"{np.mean(predicted):.3f}",
        )


def who_is_in(keys: int) -> Iterator[tuple[str, ...]]:
    """Rows of the table of membership."""
    for columns, levels, width in SHAPES:
        pairs = [membership(columns, levels, width, key) for key in range(AGAIN * keys)]
        found, predicted = np.mean(pairs, axis=0)
        error = np.std([a for a, _ in pairs], ddof=1) / len(pairs) ** 0.5
        tables = sum(comb(columns, k) for k in range(1, width + 1))
        yield (
            str(tables),
            str(width),
            str(levels),
            f"{found:.3f} ± {error:.3f}",
            f"{predicted:.3f}",
        )


def copied(keys: int) -> Iterator[tuple[str, ...]]:
    """Rows of the table of cloning by copies: half of the releases train the attacker, half are attacked."""
    for copies in COPIES:
        ways = ("apart", "found", "declared")
        rates = [copy_accuracy(copies, how=how, releases=2 * keys).share for how in ways]
        yield str(copies), *(f"{rate:.3f}" for rate in rates)


def main() -> None:
    """Run it."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--keys", type=int, default=5)
    add_option(reader)
    chosen = reader.parse_args()
    solving = markdown(
        ("people", "tables", "most exposed", "refused", "bits right", "predicted"),
        list(reconstruction(chosen.keys)),
    )
    knowing = markdown(
        ("tables", "widest", "levels", "AUC", "predicted"), list(who_is_in(chosen.keys))
    )
    cloning = markdown(
        ("copies", "measured apart (control)", "found by the build", "declared"),
        list(copied(chosen.keys)),
    )
    text = (
        f"{chosen.keys} keys. Reconstruction: an even bit of some people singled out by a public flag among {TOTAL:,}; "
        "tables (flag, a public column of 8 values, bit), regularised least squares.\n\n"
        f"{solving}\n\nMembership: 1,500 people, the attacker knows everybody else; all tables up to a width; "
        f"{AGAIN * chosen.keys} keys, with the standard error of the mean.\n\n"
        f"{knowing}\n\nCloning by relabelled copies of a column: one person's bit in groups of 26, by who knows the "
        f"other 25; a likelihood-ratio attacker.\n\n{cloning}"
    )
    print(text)
    if chosen.record:
        record("exposure", command_line(".venv/bin/python scripts/exposure.py"), text)


if __name__ == "__main__":
    main()
