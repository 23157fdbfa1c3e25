"""Do the noise intervals hold? Releases of the same data under many fresh keys, against the data: coverage by stratum.

Gives Markdown: per stratum (columns of the table; single values or ranges; measured or filled) the share of intervals
that hold the true count, and by how many integers a side they could be narrowed with 94 % still holding.
Usage: python scripts/intervals.py [--keys N] [--data nist|census|sd2011] [--folder F] [--seed S]
(default: all data, 60 keys; another seed asks other questions, of another census)
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from measured import add_option, command_line, record

import engine
from engine.simulation import simulate_census
from queries.intervals import tabulate
from queries.release import Release

ROOT = Path(__file__).resolve().parent.parent
NIST = ROOT.parent / "shared" / "nist"
SD2011 = ROOT.parent / "shared" / "synthpop" / "SD2011.csv"
PEOPLE, SEED = 20_000, 2021
WANTED = 0.94
"""Share of 95 % intervals that must hold the truth in every stratum."""
RANGES = 12
"""Random ranges asked of each table and ordered column."""
TABLES = {
    "nist": (
        ("AGEP",), ("PINCP",), ("INDP",), ("RAC1P",), ("AGEP", "SEX"), ("AGEP", "PUMA"), ("AGEP", "MSP"),
        ("INDP_CAT", "SEX"), ("PINCP_DECILE", "PUMA"), ("AGEP", "PUMA", "SEX"), ("AGEP", "MSP", "SEX"),
        ("MSP", "PUMA", "RAC1P"), ("PINCP", "SEX"), ("PINCP", "PUMA"),
    ),
    "census": (
        ("age",), ("income",), ("hours",), ("age", "sex"), ("age", "region"), ("activity", "education"),
        ("age", "district"), ("hours", "sex"), ("age", "region", "sex"), ("activity", "age", "sex"),
        ("age", "region", "tenure"),
    ),
    "sd2011": (
        ("age",), ("income",), ("height",), ("edu",), ("age", "sex"), ("income", "sex"), ("age", "edu"),
        ("height", "sex"), ("depress", "region"), ("age", "edu", "sex"), ("age", "marital", "sex"),
    ),
}  # fmt: skip
ORDERED = ("AGEP", "PINCP", "INDP", "PINCP_DECILE", "age", "income", "hours", "height", "depress")


@dataclass
class Found:
    """Errors of one stratum: truth, value and both ends, over all keys."""

    parts: list[np.ndarray] = field(default_factory=list)

    def add(self, truth: np.ndarray, value: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        """Keep some groups."""
        self.parts.append(np.stack([truth, value, low, high]))

    def all(self) -> np.ndarray:
        """Everything, shape (4, n)."""
        return np.concatenate(self.parts, axis=1) if self.parts else np.zeros((4, 0))


def coverage(found: np.ndarray, narrower: int = 0) -> float:
    """Share of intervals, cut by some integers a side but never past the figure, that hold the truth."""
    truth, _, low, high = cut(found, narrower)
    return float(((truth >= low) & (truth <= high)).mean())


def cut(found: np.ndarray, narrower: int) -> np.ndarray:
    """The same with narrower intervals; of what is not released it is not told whether it is 0 or 1, so 1 stays in."""
    truth, value, low, high = found
    centre = np.where(np.isnan(value), np.minimum(1.0, high), value)
    return np.stack(
        [
            truth,
            value,
            np.minimum(low + narrower, np.maximum(centre, low)),
            np.maximum(high - narrower, centre),
        ]
    )


def excess(found: np.ndarray, most: int | None = None) -> float:
    """Integers a side, `most` at most, by which intervals could be narrowed so that enough hold, on average."""
    most = int(np.max(found[3] - found[2], initial=0)) if most is None else most
    most = max((k for k in range(most + 1) if coverage(found, k) >= WANTED), default=0)
    shorter = cut(found, most)
    return float(np.maximum(shorter[2] - found[2], found[3] - shorter[3]).mean())


def nist_data(columns: list[str] | None = None) -> pd.DataFrame:
    """The excerpt, of the tables' columns or others: numbers as integers, None for blanks."""
    frame = pd.read_csv(NIST / "national2019.csv", dtype=str, keep_default_na=False)
    wanted = columns or sorted({c for table in TABLES["nist"] for c in table})
    return pd.DataFrame({c: _typed(frame[c], text=c == "PUMA") for c in wanted})


def _typed(column: pd.Series, *, text: bool) -> np.ndarray:
    blank = column.isin(["N", ""])
    values = column.where(~blank, "0")
    typed = (values if text else values.astype(float).astype(int)).astype(object)
    return typed.where(~blank, None).to_numpy(dtype=object)


def survey_data(columns: list[str] | None = None) -> pd.DataFrame:
    """The survey, of the tables' columns or others: numbers as integers, None for blanks."""
    frame = pd.read_csv(SD2011)
    wanted = columns or sorted({c for table in TABLES["sd2011"] for c in table})
    whole = {c: frame[c].astype("Int64") for c in wanted if c in ORDERED}
    chosen = frame[wanted].assign(**whole)
    return chosen.astype(object).where(chosen.notna(), None)


def data_of(
    name: str, folder: Path, columns: list[str] | None = None, *, seed: int = SEED
) -> pd.DataFrame | None:
    """One set of data; None where it is not beside the checkout."""
    if name.startswith("census"):
        return census_data(folder / "census", columns=columns, seed=seed)
    if name == "nist":
        return nist_data(columns) if NIST.exists() else None
    return survey_data(columns) if SD2011.exists() else None


def census_data(
    folder: Path, people: int = PEOPLE, *, columns: list[str] | None = None, seed: int = SEED
) -> pd.DataFrame:
    """The simulated census, of the tables' columns or others, None for blanks."""
    path = folder / "people.parquet"
    if not path.exists():
        simulate_census(folder, people=people, seed=seed)
    frame = pd.read_parquet(path)
    wanted = columns or sorted({c for table in TABLES["census"] for c in table})
    return frame[wanted].astype(object).where(frame[wanted].notna(), None)


Tables = tuple[tuple[str, ...], ...]


PUBLISHED = {
    "nist": "nist.toml",
    "census": "demo.toml",
    "sd2011": "sd2011.toml",
    "census-dp": "census-dp.toml",
}
"""Specs whose columns and parameters are taken."""


def _spec(name: str, folder: Path, tables: Tables) -> Path:
    """The published spec with fewer tables and a key of its own, beside the data."""
    text = (ROOT / "releases" / PUBLISHED[name]).read_text("utf-8")
    kept = text.split("[[tables]]")[0].rstrip() + "\n"
    people = folder / "census" / "people.parquet"
    path = {"nist": NIST / "national2019.csv", "sd2011": SD2011}.get(name, people)
    kept = re.sub(r'(?m)^key = "[^"]*"', f'key = "{folder / "fresh.key"}"', kept, count=1)
    kept = re.sub(r'(?m)^path = "[^"]*"', f'path = "{path}"', kept, count=1)
    if path is people:
        kept = kept.replace("[privacy]", '[privacy]\naccept_risk = "simulated people"')
    listed = [f"[[tables]]\ncolumns = [{', '.join(repr(c) for c in t)}]" for t in tables]
    path = folder / f"{name}.toml"
    path.write_text(kept + "\n" + "\n".join(listed).replace("'", '"') + "\n", "utf-8")
    return path


def drop_key(folder: Path) -> None:
    """Remove a key with all that lies beside it: what it has measured, spent and exposed."""
    for old in folder.glob("fresh.key*"):
        shutil.rmtree(old) if old.is_dir() else old.unlink()


def releases(
    name: str,
    folder: Path,
    keys: int,
    tables: Tables | None = None,
    make_key: Callable[[Path, int], object] | None = None,
) -> Iterator[Release]:
    """Releases of the same data under fresh keys, or those of `make_key`; those in the folder are used again."""
    spec = _spec(name, folder, tables or TABLES[name])
    for number in range(keys):
        path = folder / f"{name}-{number}.duckdb"
        if not path.exists():
            drop_key(folder)
            if make_key:
                make_key(folder / "fresh.key", number)
            else:
                engine.new_key(folder / "fresh.key")
            engine.build(spec, out=path, jobs=1).close()
        release = engine.open(path)
        yield release
        release.close()


def limits(
    data: pd.DataFrame, tables: tuple[tuple[str, ...], ...], seed: int = SEED
) -> list[tuple[tuple[str, ...], str, int, int]]:
    """Random ranges of the ordered columns of every table, of all widths."""
    rng = np.random.default_rng(seed)
    out = []
    for table in tables:
        for column in [c for c in table if c in ORDERED]:
            values = np.unique([v for v in data[column] if v is not None])
            for _ in range(RANGES):
                width = int(np.exp(rng.uniform(np.log(2), np.log(len(values)))))
                start = int(rng.integers(0, len(values) - width + 1))
                out.append((table, column, int(values[start]), int(values[start + width - 1])))
    return out


class Truth:
    """True counts of the same groups, counted once."""

    def __init__(self, data: pd.DataFrame) -> None:
        self._data = data
        self._known: dict[Any, dict[tuple[Any, ...], int]] = {}

    def of(
        self, columns: tuple[str, ...], where: dict[str, tuple[int, int]]
    ) -> dict[tuple[Any, ...], int]:
        """Counts by key, of rows within the limits."""
        at = (columns, tuple(where.items()))
        if at not in self._known:
            rows = self._data
            for column, (low, high) in where.items():
                rows = rows[[v is not None and low <= v <= high for v in rows[column]]]
            keys = zip(*(rows[c] for c in columns), strict=True) if columns else [()] * len(rows)
            self._known[at] = pd.Series(list(keys), dtype=object).value_counts().to_dict()
        return self._known[at]


def collect(
    name: str,
    data: pd.DataFrame,
    found: dict[tuple[int, str, str], Found],
    each: Iterator[Release],
    tables: Tables | None = None,
    seed: int = SEED,
) -> None:
    """Ask every release the same questions and keep what it said beside the truth."""
    tables = tables or TABLES[name]
    truth, asked = Truth(data), limits(data, tables, seed)
    questions = [(table, table, {}) for table in tables]
    questions += [
        (table, tuple(c for c in table if c != column), {column: (low, high)})
        for table, column, low, high in asked
    ]
    for release in each:
        for table, columns, where in questions:
            _ask(release, table, columns, where, truth.of(columns, where), found)


def _ask(
    release: Release, table: tuple[str, ...], columns: tuple[str, ...], where: dict[str, tuple[int, int]],
    true: dict[tuple[Any, ...], int], found: dict[tuple[int, str, str], Found],
) -> None:  # fmt: skip
    got = tabulate(release, columns, where=where)
    right = np.array([true.get(key, 0) for key in got.keys], dtype=float)
    possible = np.array([s != "structural zero" for s in got.status])
    hidden = np.array([s == "not released" for s in got.status])
    placed = np.array(["(other)" in key for key in got.keys])
    held = _shown(release, table, columns, where, got.keys)
    kind = "range" if where else "single"
    filled = hidden | held["filled"]
    for word, chosen in (("measured", ~filled), ("filled", filled & (~hidden | held["shown"]))):
        chosen = chosen & possible & ~placed & np.isfinite(got.high)  # mode dp: none where modelled
        if chosen.any():
            found.setdefault((len(table), kind, word), Found()).add(
                right[chosen], got.value[chosen], got.low[chosen], got.high[chosen]
            )


def _shown(
    release: Release, table: tuple[str, ...], columns: tuple[str, ...], where: dict[str, tuple[int, int]],
    keys: tuple[tuple[Any, ...], ...],
) -> dict[str, np.ndarray]:  # fmt: skip
    """Which groups have synthetic rows, and which of them rows that were filled in."""
    listed = list(release.route(set(table)))
    asked = f"SELECT physical FROM catalog.tables WHERE columns = {listed!r}"
    view = f"tables.{release.sql(asked).rows[0][0]}"
    limit = (
        " AND ".join(f'"{c}" BETWEEN {low} AND {high}' for c, (low, high) in where.items())
        or "true"
    )
    by = ", ".join(f'"{c}"' for c in columns)
    rows = release.sql(
        f"SELECT {by}{', ' if by else ''}NOT bool_and(measured) FROM {view} WHERE {limit} GROUP BY ALL"
    ).rows
    shown = {row[:-1]: bool(row[-1]) for row in rows}
    return {
        "shown": np.array([key in shown for key in keys], dtype=bool),
        "filled": np.array([shown.get(key, False) for key in keys], dtype=bool),
    }


def markdown(found: dict[tuple[int, str, str], Found]) -> str:
    """The strata as a table."""
    lines = [
        "| columns | asked | rows | intervals | hold the truth | mean half width | narrower by, at 94 % |",
        "|---|---|---|---|---|---|---|",
    ]
    for key in sorted(found):
        got = found[key].all()
        half = float((got[3] - got[2]).mean() / 2)
        lines.append(
            f"| {' | '.join(map(str, key))} | {got.shape[1]:,} | {coverage(got):.1%} | {half:.1f} "
            f"| {excess(got):.1f} |"
        )
    return "\n".join(lines)


def failures(found: dict[tuple[int, str, str], Found], *, slack: float = 0.0) -> list[str]:
    """Strata in which too few intervals hold the truth, or that are too wide by more than 1 a side."""
    out = []
    for key in sorted(found):
        got = found[key].all()
        # A key gives all its intervals at once, so they are fewer than they look: that is what the slack is for.
        if coverage(got) < WANTED - slack:
            out.append(f"{key}: {coverage(got):.1%} hold the truth")
        if excess(got) > 1.0 + 10 * slack:
            out.append(f"{key}: too wide by {excess(got):.1f} a side")
    return out


def chosen_by(described: str | None, *flags: str) -> argparse.Namespace:
    """Read the command line; flags are further options that are on or off."""
    reader = argparse.ArgumentParser(description=described)
    reader.add_argument("--keys", type=int, default=60)
    reader.add_argument("--data", choices=tuple(TABLES), default=None)
    reader.add_argument("--folder", type=Path, default=None)
    reader.add_argument("--seed", type=int, default=SEED)
    for flag in flags:
        reader.add_argument(flag, action="store_true")
    add_option(reader)
    return reader.parse_args()


def main() -> None:
    """Run it."""
    chosen = chosen_by(__doc__)
    with tempfile.TemporaryDirectory() as scratch:
        folder = (chosen.folder or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        for name in [chosen.data] if chosen.data else TABLES:
            data = data_of(name, folder, seed=chosen.seed)
            if data is None:
                print(f"({name}: the data are not beside the checkout)")
                continue
            found: dict[tuple[int, str, str], Found] = {}
            collect(name, data, found, releases(name, folder, chosen.keys), seed=chosen.seed)
            text = f"{chosen.keys} keys\n\n{markdown(found)}"
            print(f"\n{name}, {text}")
            print("\n".join(["", *failures(found)]))
            if chosen.record:
                record(
                    f"intervals-{name}", command_line(".venv/bin/python scripts/intervals.py"), text
                )


if __name__ == "__main__":
    main()
