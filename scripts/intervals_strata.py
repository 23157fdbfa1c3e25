"""All strata of noise intervals in one table, worst first: counts, sums, means, quantiles, shares, copies; both modes.

Asks what intervals.py, intervals_measures.py and intervals_copies.py ask, of one release a key, and what hospital.py
asks of entities with many rows. Keys are made from `--key-seed`, so that nobody has to believe that they were fresh:
no constant was set on those of the recorded run. Gives Markdown: strata of `LEAST` and more intervals.
Usage: python scripts/intervals_strata.py [--keys N] [--copies N] [--key-seed TEXT] [--data NAME] [--folder F]
(default: 6 keys, of which 3 are asked by copies, too; three times as many for groups that are alike). What a folder
holds of an earlier run is used again, release by release and data set by data set.
"""

from __future__ import annotations

import argparse
import hashlib
import pickle
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hospital
import intervals
import intervals_copies as copies
import intervals_measures as measures
import numpy as np
import pandas as pd
from measured import add_option, command_line, record

import engine
from engine.errors import NotAnswerable
from engine.source import begin_charges
from queries.release import Release

TABLES: Mapping[str, intervals.Tables] = {
    "nist": (
        ("AGEP",), ("PINCP",), ("PINCP_DECILE",), ("AGEP", "SEX"), ("AGEP", "PUMA"), ("PINCP", "SEX"),
        ("EDU", "PINCP"), ("PINCP", "PUMA"),
        ("MSP", "RAC1P"), ("AGEP", "PINCP_DECILE"), ("AGEP", "MSP", "SEX"),
    ),
    "census": (
        ("age",), ("income",), ("hours",), ("age", "sex"), ("age", "region"), ("income", "sex"), ("hours", "sex"),
        ("activity", "income"), ("income", "region"),
        ("activity", "education"), ("age", "hours"), ("age", "region", "sex"),
    ),
    "sd2011": (
        ("age",), ("income",), ("height",), ("depress",), ("age", "sex"), ("age", "edu"), ("income", "sex"),
        ("income", "region"), ("income", "socprof"),
        ("height", "sex"), ("age", "depress"), ("age", "edu", "sex"),
    ),
    "census-dp": (
        ("age",), ("sex",), ("region",), ("tenure",), ("age", "sex"), ("age", "marital_status"), ("region", "tenure"),
        ("health", "region"), ("health", "sex"),
    ),
}  # fmt: skip
EVENTS, ALIKE = "events", "alike"
MOST_WIDE, ONE = 1.25, 1.0
"""Times, or integers a side, that intervals may be wider than the shortest that hold."""
COUNTS = ("count", "SQL count FILTER")
WHOLE = ("median", "quantile")
"""Figures in whole numbers, mostly: years, centimetres, incomes."""
LEAST, MANY = 100, 500
"""Intervals of a stratum that is shown, and of one in which 94 % must hold; 92 % where there are fewer."""
FEWER = 0.92
_SIZES = ((10, "under 10"), (100, "10 to 99"), (1_000, "100 to 999"))
_FILLED = ((0.01, "under 1 %"), (0.1, "1 to 9 %"), (0.4, "10 to 39 %"))


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Stratum:
    """What intervals have in common.

    Attributes
    ----------
    data, mode, counted : str
        Data set, mode of the release, what its rows are.
    statistic : str
    columns : int
        Of the table that answers.
    asked, filled, size : str
        A range or single values; whether that was filled in, or how much of the table; the true count.
    """

    data: str
    mode: str
    counted: str
    statistic: str
    columns: int
    asked: str
    filled: str
    size: str = "any"


HEADS = ("data", "mode", "counted", "statistic", "columns", "asked", "filled in", "size",
         "intervals", "% that hold", "mean width", "wider than the shortest that hold")  # fmt: skip


class Keys:
    """Keys that hang on a text and their number; `engine.new_key`'s stand-in."""

    def __init__(self, seed: str) -> None:
        self._seed = seed

    def __call__(self, path: Path, number: int) -> None:
        """Write one: always the same, whichever others a folder has already."""
        path.touch(mode=0o600)
        path.write_bytes(hashlib.sha256(f"{self._seed} {number}".encode()).digest())
        begin_charges(path)


def _step(x: float, steps: Sequence[tuple[float, str]], last: str) -> str:
    return next((word for most, word in steps if x < most), last)


def _by_size(base: Stratum, found: np.ndarray) -> Iterator[tuple[Stratum, np.ndarray]]:
    """Counts by the size of the true one."""
    words = np.array([_step(x, _SIZES, "1,000 and more") for x in found[0]])
    for word in np.unique(words):
        fields = {name: getattr(base, name) for name in base.__slots__} | {"size": str(word)}
        yield Stratum(**fields), found[:, words == word]


def counted(
    name: str, data: pd.DataFrame, each: Iterator[Release], seed: int
) -> Iterator[tuple[Stratum, np.ndarray]]:
    """Intervals of counts."""
    found: dict[tuple[int, str, str], intervals.Found] = {}
    intervals.collect(name, data, found, each, TABLES[name], seed)
    for (columns, asked, filled), parts in found.items():
        base = Stratum(
            data=name, mode="dp" if name.endswith("dp") else "sticky", counted="people", statistic="count",
            columns=columns, asked=asked, filled={"measured": "no", "filled": "yes"}[filled],
        )  # fmt: skip
        yield from _by_size(base, parts.all())


def measured(
    name: str, data: pd.DataFrame, each: Iterator[Release], seed: int
) -> Iterator[tuple[Stratum, np.ndarray]]:
    """Intervals of sums, means, quantiles, shares, ratios and differences."""

    def stratum(release: Release, question: measures.Question, table: tuple[str, ...]) -> Stratum:
        share = release.card(*table).suppressed_share
        return Stratum(
            data=name, mode="sticky", counted="people", statistic=question.kind.partition(" of ")[0],
            columns=len(table), asked="range" if " WHERE " in question.text else "single",
            filled=_step(share, _FILLED, "40 % and more"),
        )  # fmt: skip

    found = measures.collect(data, TABLES[name], each, seed, stratum)
    return ((key, held.all()) for key, held in found.items())


def copied(
    name: str, data: pd.DataFrame, first: Release, each: Iterator[Release]
) -> Iterator[tuple[Stratum, np.ndarray]]:
    """Intervals by copies of the statements that these tables answer."""
    texts = {
        key: text for key, text in copies.STATEMENTS[name].items() if not key.startswith("ref")
    }
    own = {"areas": copies.areas_of(data)}
    answerable = {}
    for key, text in texts.items():
        try:
            first.explain(text, tables=own if "areas" in text else None)
        except NotAnswerable:
            continue
        answerable[key] = text
    for held in copies.collect(data, each, answerable).values():
        share = float(np.mean(held.filled)) if held.filled else 0.0
        yield (
            Stratum(
                data=name, mode="sticky", counted="people", statistic=f"copies: {held.kind}", columns=held.columns,
                asked="any", filled=_step(share, _FILLED, "40 % and more"),
            ),
            held.all(),
        )  # fmt: skip


def events(folder: Path, keys: int, key: Keys) -> Iterator[tuple[Stratum, np.ndarray]]:
    """Counts of stays and of patients of a simulated hospital: entities with many rows."""
    frame = hospital.hospital(3_000, 30_000, seed=1811)
    for (unit, table), found in hospital.collected(folder, frame, keys, key).items():
        base = Stratum(
            data=EVENTS, mode="sticky", counted=unit, statistic="count", columns=table.count(",") + 1,
            asked="single", filled="no",
        )  # fmt: skip
        yield from _by_size(base, found)


def alike(folder: Path, keys: int, key: Keys) -> Iterator[tuple[Stratum, np.ndarray]]:
    """Differences of groups that are alike: the truth is 0. Where the interval leaves it out, `differs` says yes."""
    letters = "ABCDEFGHIJKLMNOPQRST"
    rows = [(g, int(age)) for g in letters for age in np.repeat(np.arange(20, 40), 10)]
    frame = pd.DataFrame(rows, columns=["region", "age"]).sample(frac=1, random_state=5)
    frame.insert(0, "person_id", range(len(frame)))
    frame.to_parquet(folder / "alike.parquet")
    tables = (("age",), ("region",), ("age", "region"))
    spec = folder / "alike.toml"
    spec.write_text(
        f'[release]\ntitle = "Alike"\nvintage = "1"\nkey = "{folder / "fresh.key"}"\n[source]\n'
        f'path = "{folder / "alike.parquet"}"\nentities = ["person_id"]\n[privacy]\naccept_risk = "simulated"\n'
        '[columns.person_id]\nkind = "integer"\n[columns.region]\nkind = "category"\n[columns.age]\nkind = "integer"\n'
        + "".join(f"[[tables]]\ncolumns = {list(t)!r}\n".replace("'", '"') for t in tables),
        "utf-8",
    )
    pairs = list(zip(letters[::2], letters[1::2], strict=True))
    for figure, columns in (
        ("count(*)", 1),
        ("avg(age)", 2),
        ("sum(age)", 2),
        ("stddev_pop(age)", 2),
    ):
        parts = "{f} FILTER (WHERE region = '{a}'), {f} FILTER (WHERE region = '{b}')"
        listed = [
            f"differs({parts.format(f=figure, a=a, b=b)}) AS d{i}" for i, (a, b) in enumerate(pairs)
        ]
        found = []
        for release in _alike_releases(folder, spec, keys, key):
            row = release.sql(f"SELECT {', '.join(listed)} FROM data", intervals=True).rows[0]
            said = np.array(row, dtype=object).reshape(len(pairs), -1)
            ends = said[:, 1:3].astype(float)
            found.append(np.stack([0 * ends[:, 0], ends.mean(axis=1), ends[:, 0], ends[:, 1]]))
        base = Stratum(
            data=ALIKE, mode="sticky", counted="people", statistic=f"differs: {figure}", columns=columns,
            asked="single", filled="under 1 %",
        )  # fmt: skip
        yield base, np.concatenate(found, axis=1)


def _alike_releases(folder: Path, spec: Path, keys: int, key: Keys) -> Iterator[Release]:
    """Releases of one spec under one key after the other; those in the folder are used again."""
    for number in range(keys):
        path = folder / f"alike-{number}.duckdb"
        if not path.exists():
            intervals.drop_key(folder)
            key(folder / "fresh.key", number)
            engine.build(spec, out=path, jobs=1).close()
        with engine.open(path) as release:
            yield release


def _wider(stratum: Stratum, found: np.ndarray) -> tuple[str, bool]:
    """Integers a side for counts, a factor for all else, both for quantiles; and whether that is too wide."""
    if stratum.statistic in COUNTS and stratum.data != EVENTS:
        return f"{(side := intervals.excess(found)):.1f} a side", side > ONE
    times = measures.widened(found)
    if stratum.statistic not in WHOLE or times <= MOST_WIDE:
        return f"{times:.2f} times", times > MOST_WIDE
    side = intervals.excess(found[:, np.isfinite(found).all(axis=0)], most=2)
    return f"{times:.2f} times, {'more than ' * (side > ONE)}one a side", side > ONE


def markdown(found: Mapping[Stratum, np.ndarray]) -> str:
    """The strata as a table, worst first, and how many hold."""
    rows, short, wide = [], 0, 0
    for stratum, got in found.items():
        n, holds = got.shape[1], measures.coverage(got) if got.shape[1] else 1.0
        if n < LEAST:
            continue
        short += holds < (intervals.WANTED if n >= MANY else FEWER)
        ends = got[2:, np.isfinite(got[2:]).all(axis=0)]
        width = float(np.mean(ends[1] - ends[0]))
        fields = [str(getattr(stratum, name)) for name in stratum.__slots__]
        wider, is_wide = _wider(stratum, got)
        wide += is_wide
        said = [f"{n:,}", f"{100 * holds:.1f}", f"{width:,.4g}", wider]
        rows.append((holds, stratum, f"| {' | '.join([*fields, *said])} |"))
    few = [got for got in found.values() if 0 < got.shape[1] < LEAST]
    of_few = np.concatenate(few, axis=1) if few else np.zeros((4, 0))
    more = (
        f" {len(few)} smaller strata have {of_few.shape[1]:,} intervals, of which {measures.coverage(of_few):.1%} hold."
        if few
        else ""
    )
    return "\n".join(
        [
            f"{len(rows)} strata of {LEAST} and more intervals; {short} fall short of 94 % ({MANY} and more) or 92 %, "
            f"{wide} are too wide.{more}",
            "",
            f"| {' | '.join(HEADS)} |",
            "|" + "---|" * len(HEADS),
            *(line for *_, line in sorted(rows)),
        ]
    )


def gathered(chosen: argparse.Namespace, name: str, folder: Path, key: Keys) -> dict[Stratum, Any]:
    """All strata of one set of data."""
    if name == EVENTS:
        return dict(events(folder, chosen.keys, key))
    if name == ALIKE:
        return dict(alike(folder, 3 * chosen.keys, key))
    columns = sorted({c for table in TABLES[name] for c in table})
    data = intervals.data_of(name, folder, columns, seed=chosen.seed)
    if data is None:
        print(f"({name}: the data are not beside the checkout)")
        return {}

    def each(keys: int = chosen.keys) -> Iterator[Release]:
        return intervals.releases(name, folder, keys, TABLES[name], key)

    found = dict(counted(name, data, each(), chosen.seed))
    if name.endswith("dp"):
        return found
    found |= dict(measured(name, data, each(), chosen.seed))
    one = each(1)
    by_statement = list(copied(name, data, next(one), each(chosen.copies)))
    one.close()
    for stratum in {stratum for stratum, _ in by_statement}:
        parts = [got for other, got in by_statement if other == stratum]
        found[stratum] = np.concatenate(parts, axis=1)
    return found


def main() -> None:
    """Run it."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--keys", type=int, default=6)
    reader.add_argument("--copies", type=int, default=3)
    reader.add_argument("--key-seed", default="strata 1811")
    reader.add_argument("--data", choices=(*TABLES, EVENTS, ALIKE), default=None)
    reader.add_argument("--folder", type=Path, default=None)
    reader.add_argument("--seed", type=int, default=1811)
    add_option(reader)
    chosen = reader.parse_args()
    found: dict[Stratum, np.ndarray] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = (chosen.folder or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        for name in [chosen.data] if chosen.data else (*TABLES, EVENTS, ALIKE):
            kept = folder / f"{name}.strata"
            if not kept.exists():
                kept.write_bytes(
                    pickle.dumps(gathered(chosen, name, folder, Keys(f"{chosen.key_seed} {name}")))
                )
            found |= pickle.loads(kept.read_bytes())
    text = markdown(found)
    print(text)
    if chosen.record:
        said = f'{chosen.keys} keys a data set ({chosen.copies} of them by copies), made from "{chosen.key_seed}".'
        record(
            "intervals-strata",
            command_line(".venv/bin/python scripts/intervals_strata.py"),
            f"{said} {text}",
        )


if __name__ == "__main__":
    main()
