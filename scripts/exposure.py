"""Hold what the product says of exposure against attacks on its release files.

Usage: ./scripts/exposure [--all] [--keys N] [--only PART ...] [--record]
The attacks share no code with the engine (`attacks.reconstructing`): they read the file, and know all columns but one
of everybody. What is stated comes from plans, in finer steps than it is shown in. 2 keys; how
long that takes on two quiet cores was not measured.
--all takes 5 keys and more people. Parts that need data that are not there are left out, with the reason.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import comb
from pathlib import Path

import numpy as np
from attacks.cloning import copy_accuracy
from attacks.contributors import auc, contributor
from attacks.predicted import membership
from attacks.structures import CORE, FURTHER, Structure, everybody
from attacks.trying import (
    Stated,
    attacked,
    built,
    frame_of,
    given,
    key_at,
    means,
    planned,
    tried,
    unrounded,
    why_not,
    with_secret,
)
from measured import END, FOLDER, START, add_option, command_line, markdown, record
from study import RELEASES

import engine

BOUND = {"standard": 0.7, "strict": 0.6}
TOLERANCE = 0.03
SHAPES = ((3, 4, 2), (5, 4, 2), (6, 6, 2), (4, 16, 2), (7, 4, 3), (9, 3, 3), (13, 3, 3))
"""Columns, levels of each, width of the widest tables; all narrower tables too."""
AGAIN = 6
"""Releases a key of membership: one release of few tables has few cells, and its AUC an sd of up to .03."""
COPIES = (1, 4, 16, 32)
CONTRIBUTORS = ((6, 0.5), (6, 1.0), (12, 1.5), (30, 1.5), (30, 2.5))
"""Groups, and standard deviation of the logarithm of what people contribute."""
COLUMNS = {"demo": "health", "census": "marital_status", "sd2011": "smoke", "nist": "SEX"}
"""Column of each shipped spec that the secret replaces."""
WITH = ("age", "sex", "region")
ORDINARY = 20_000
"""People of ordinary specs."""
ATTACKED = 5
"""Keys with which those of one column are attacked."""
NAMES, MANY = 16, 12

Run = argparse.Namespace
HEADS = (
    "tables",
    "stated: most exposed; all",
    "refused",
    "attack: most exposed; all",
    "with thresholds",
    "beyond what is stated",
)


def attacked_all(
    make: Callable[[int], Structure], keys: int, profile: str = "standard"
) -> tuple[list[Stated], dict[str, tuple[float, float]], bool]:
    """What is stated of a structure and how far the attacks get, over some keys."""
    stated, found, has_group = [], [], False
    for key in range(keys):
        one = make(key)
        has_group = one.group is not None
        with built(one, profile) as (said, paths):
            stated.append(said)
            found.append(attacked(paths, one.secret, one.group, ("lsqr",)))
    return stated, means(found), has_group


def row_of(
    stated: Sequence[Stated], found: Mapping[str, tuple[float, float]], has_group: bool
) -> tuple[str, ...]:
    """Cells of a row from `stated` on. What counts is the group where there is one, else everybody."""
    most, of_all = (float(np.mean([getattr(s, n) for s in stated])) for n in ("most", "of_all"))
    plain, more = found["lsqr"], found["lsqr+"]
    over = max(plain[1], more[1]) - most if has_group else max(plain[0], more[0]) - of_all
    refused = sum(s.is_refused for s in stated)
    return (
        f"{most:.3f}; {of_all:.3f}",
        "yes" if refused == len(stated) else f"{refused} of {len(stated)}" if refused else "no",
        f"{plain[1]:.3f}; {plain[0]:.3f}",
        f"{more[1]:.3f}; {more[0]:.3f}",
        f"{over:+.3f}",
    )


def core(run: Run, profile: str = "standard") -> Iterator[str]:
    rows = []
    for name, (make, ks) in CORE.items():
        for k in ks[profile]:
            of_k = partial(make, k, people=run.people)
            row = row_of(*attacked_all(lambda key, of_k=of_k: of_k(key), run.keys, profile))
            rows.append((name, str(k), *row))
            print(profile, *rows[-1], flush=True)
    yield markdown(("structure", *HEADS), rows)


def largest(run: Run) -> Iterator[str]:
    rows = []
    for name, (make, _) in CORE.items():
        row = [name]
        for profile in BOUND:
            k, stated = 0, 0.5
            while k < MANY:
                found = planned(make(k + 1, 0, run.people), profile)
                if found.is_refused:
                    break
                k, stated = k + 1, found.most
            row.append(f"{k}{' or more' if k == MANY else ''} ({stated:.3f})")
        rows.append(row)
        print(*row, flush=True)
    yield "Largest k that is built, and what is stated of it.\n\n" + markdown(
        ("structure", *BOUND), rows
    )


def further(run: Run) -> Iterator[str]:
    rows = []
    for name, make in FURTHER.items():
        of_people = partial(make, people=run.people)
        stated, found, has_group = attacked_all(
            lambda key, of_people=of_people: of_people(key), run.keys
        )
        one = make(0, run.people)
        tables = sum(map(len, one.builds))
        rows.append((name, str(tables), *row_of(stated, found, has_group)))
        print(*rows[-1], flush=True)
    yield markdown(("structure", *HEADS), rows)


def shipped(run: Run) -> Iterator[str]:
    rows, missing = [], []
    jobs = [(name, column, ()) for name, column in COLUMNS.items() if run.all or name != "nist"]
    if why_not("nist") is None:
        with tempfile.TemporaryDirectory() as folder:
            names = list(frame_of("nist", Path(folder), 0).columns)
        jobs.append(("nist", "SEX", tuple(("SEX", n) for n in names if n != "SEX")))
    for name, column, tables in jobs:
        reason = why_not(name)
        if reason:
            missing.append(f"{name}: {reason}")
            continue
        tries = [
            tried(name, column, key, people=run.census, tables=tables) for key in range(run.keys)
        ]
        row = row_of([t[0] for t in tries], means([t[1] for t in tries]), False)
        title = f"{name}, all pairs" if tables else name
        rows.append((f"{title}: {column}", str(tries[0][2]), *row))
        print(*rows[-1], flush=True)
    text = markdown(("data: column replaced", *HEADS), rows)
    yield text + "".join(f"\n\nLeft out: {m}." for m in missing)


def alarms(_: Run) -> Iterator[str]:
    rows = []
    text = (RELEASES / "census.toml").read_text("utf-8")
    columns = [c for c in re.findall(r"(?m)^\[columns\.(\w+)\]", text) if c != "person_id"]
    sets = {"singles": ()} | {f"and pairs with {c}": (c,) for c in WITH}
    sets["and pairs with all three"] = WITH
    populations = [(ORDINARY, seed) for seed in range(1, 4)] + [(2 * ORDINARY, 4)]
    for people, seed in populations:
        for name, pairs in sets.items():
            tables = [(c,) for c in columns]
            tables += sorted({tuple(sorted((a, b))) for a in pairs for b in columns if a != b})
            with (
                with_secret("census", "carer", seed, people=people, tables=tables) as found,
                unrounded(),
            ):
                exposure = found.plan(found.text).exposure
            top = exposure.groups[0]
            rows.append(
                (
                    f"{people:,} people, seed {seed}",
                    name,
                    str(len(tables)),
                    top.told,
                    f"{top.guessed:.3f}; {top.guessed_1:.3f}",
                    "yes" if exposure.is_refused else "no",
                )
            )
            print(*rows[-1], flush=True)
    refused = sum(row[-1] == "yes" for row in rows)
    heads = ("data", "tables", "number", "told most", "stated: most exposed; 1 %", "refused")
    yield f"{refused} of {len(rows)} are refused.\n\n" + markdown(heads, rows)


def ordinary(_: Run) -> Iterator[str]:
    text = (RELEASES / "census.toml").read_text("utf-8")
    columns = [c for c in re.findall(r"(?m)^\[columns\.(\w+)\]", text) if c != "person_id"]
    rows = []
    for column, people in (("sex", ORDINARY), ("region", ORDINARY), ("sex", 2 * ORDINARY)):
        tables = [(c,) for c in columns]
        tables += [tuple(sorted((column, c))) for c in columns if c != column]
        tries = [
            tried("census", column, seed, people=people, tables=tables) for seed in range(ATTACKED)
        ]
        stated, found = np.mean([[t[0].most, t[0].of_all] for t in tries], axis=0), {}
        for name in ("lsqr", "lsqr+"):
            held = np.array([t[1][name] for t in tries])
            spread = held.std(axis=0, ddof=1) / len(held) ** 0.5
            found[name] = f"{held[:, 1].mean():.3f} ± {spread[1]:.3f}; {held[:, 0].mean():.3f}"
        rows.append((column, f"{people:,}", f"{stated[0]:.3f}; {stated[1]:.3f}", *found.values()))
        print(*rows[-1], flush=True)
    heads = ("pairs with", "people", "stated: most exposed; all", "attack", "with thresholds")
    yield (
        f"An even secret in the place of a column, and pairs with it; {ATTACKED} keys, with the standard error of the "
        "mean.\n\n" + markdown(heads, rows)
    )


def names(_: Run) -> Iterator[str]:
    """Plans and refusals under many names of vintages; looks."""
    with tempfile.TemporaryDirectory() as folder, unrounded():
        home = Path(folder)
        key = key_at(home / "trial.key")
        few_tables, many = everybody(3, 1, 1_500), everybody(10, 1, 1_500)
        said, refused = set(), set()
        for name in range(NAMES):
            more = {"vintage": f"v{name}"}
            plan = engine.plan(
                few_tables.frame,
                tables=few_tables.builds[0],
                **given(few_tables, key, "standard"),
                **more,
            )
            said.add(str([(g.told, g.guessed, g.guessed_all) for g in plan.exposure.groups]))
            if name < NAMES // 4:
                try:
                    engine.build(
                        many.frame, out=home / "refused.duckdb", tables=many.builds[0],
                        **given(many, key, "standard"), **more,
                    )  # fmt: skip
                except engine.PrivacyError as error:
                    refused.add(str(error).replace(f"v{name}", "V"))
        rows = [
            (
                f"plans under {NAMES} names of vintages",
                f"{len(said)} different",
                "1: all draw alike",
            ),
            (f"refusals under {NAMES // 4} names", f"{len(refused)} different", "1"),
        ]
        small = everybody(1, 1, 1_500)
        for profile, most in (("standard", 4), ("strict", 2)):
            key = key_at(home / f"{profile}.key")
            made = 0
            for name in range(most + 1):
                try:
                    engine.build(
                        small.frame, out=home / f"{profile}{name}.duckdb", tables=small.builds[0],
                        vintage=f"v{name}", **given(small, key, profile),
                    )  # fmt: skip
                    made += 1
                except engine.PrivacyError:
                    break
            rows.append(
                (f"vintages of the same data built, `{profile}`", str(made), f"at most {most}")
            )
    yield markdown(("what", "found", "wanted"), rows)


def who_is_in(run: Run) -> Iterator[str]:
    rows = []
    for columns, levels, width in SHAPES if run.all else SHAPES[:4]:
        pairs = [membership(columns, levels, width, key) for key in range(AGAIN * run.keys)]
        found, predicted = np.mean(pairs, axis=0)
        error = np.std([a for a, _ in pairs], ddof=1) / len(pairs) ** 0.5
        tables = sum(comb(columns, k) for k in range(1, width + 1))
        rows.append(
            (str(tables), str(width), str(levels), f"{found:.3f} ± {error:.3f}", f"{predicted:.3f}")
        )
    yield (
        f"1,500 people, the attacker knows everybody else; all tables up to a width; {AGAIN * run.keys} keys, with the "
        "standard error of the mean.\n\n"
        + markdown(("tables", "widest", "levels", "AUC", "predicted"), rows)
    )


def largest_contributors(run: Run) -> Iterator[str]:
    """Membership of the largest contributor to a sum."""
    rows = []
    for groups, sigma in CONTRIBUTORS:
        tries = [contributor(groups, sigma, key) for key in range(200 * run.keys)]
        inside, outside, stated = np.array(tries).T
        error = (1 / 12 / len(tries)) ** 0.5
        found = f"{auc(inside, outside):.3f} ± {error:.3f}"
        rows.append((str(groups), f"{sigma:g}", found, f"{stated.mean():.3f}"))
    yield (
        f"1,500 people, a lognormal amount; tables of group, amount and both; {200 * run.keys} releases with the "
        "largest contributor of a group and as many without. The attacker knows everybody else, and weighs counts and "
        "sums by their noise. Stated: of a typical person.\n\n"
        + markdown(("groups", "sd of the logarithm", "AUC", "stated"), rows)
    )


def copied(run: Run) -> Iterator[str]:
    """Cloning by copies: half of the releases train the attacker, half are attacked."""
    rows = []
    for copies in COPIES:
        ways = ("apart", "found", "declared")
        rates = [copy_accuracy(copies, how=how, releases=2 * run.keys).share for how in ways]
        rows.append((str(copies), *(f"{rate:.3f}" for rate in rates)))
    yield (
        "One person's bit in groups of 26, by who knows the other 25; a likelihood-ratio attacker.\n\n"
        + markdown(("copies", "measured apart (control)", "found by the build", "declared"), rows)
    )


PARTS: Mapping[str, tuple[str, Callable[[Run], Iterator[str]]]] = {
    "core": ("Tables that look at the same people", core),
    "strict": ("The same under `strict`", partial(core, profile="strict")),
    "largest": ("Where refusals begin", largest),
    "further": ("Further structures", further),
    "shipped": ("Shipped specs, an even secret in the place of a column", shipped),
    "alarms": ("False alarms: ordinary tables of a simulated census", alarms),
    "ordinary": ("Ordinary tables of a simulated census, attacked", ordinary),
    "names": ("Names of vintages", names),
    "membership": ("Membership", who_is_in),
    "contributors": ("Membership of the largest contributor to a sum", largest_contributors),
    "cloning": ("Cloning by relabelled copies of a column", copied),
}
EXPLAINED = (
    "How often an even secret is guessed right by who knows all other columns of everybody (a coin: .5). Stated: by "
    "`plan`, not rounded up to steps of 5 % here. Attack: damped least squares (LSQR) on what the release file shows, "
    "a solver that shares no code with the product; with thresholds: it also uses that a side of a small cell is not "
    f"shown. Beyond what is stated: the better attack less the stated figure, for the group or, without one, for all; "
    f"over {TOLERANCE:+.2f} the statement is too low. Most exposed of whom no group is given: few people, so these "
    "figures have an sd of up to .05."
)


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--all", action="store_true", help="5 keys, more people")
    reader.add_argument("--keys", type=int)
    reader.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    add_option(reader)
    run = reader.parse_args()
    run.keys = run.keys or (5 if run.all else 2)
    run.people, run.census = (6_000, 20_000) if run.all else (3_000, 6_000)
    for name in run.only:
        title, part = PARTS[name]
        text = "\n\n".join([f"{run.keys} keys; {run.people:,} made-up people.", *part(run)])
        print(f"## {title}\n\n{text}", flush=True)
        if run.record:
            file = FOLDER / "exposure.md"
            old = file.read_text("utf-8").partition(START)[2].partition(END)[0]
            record("exposure", command_line("./scripts/exposure"), merged(old, name, text))


def merged(old: str, name: str, text: str) -> str:
    """What was recorded, a part of it replaced; parts that no longer exist are left out."""
    parts = {}
    for each in old.split("\n## ")[1:]:
        title, _, held = each.partition("\n")
        parts[title.strip()] = held.strip()
    parts[PARTS[name][0]] = text
    kept = [f"## {title}\n\n{parts[title]}" for title, _ in PARTS.values() if title in parts]
    return "\n\n".join([EXPLAINED, *kept])


if __name__ == "__main__":
    main()
