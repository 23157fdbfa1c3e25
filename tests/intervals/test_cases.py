"""Files on which intervals were once wrong and called reliable: what is called reliable holds, under fixed keys."""

from __future__ import annotations

import datetime as dt

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import ACCEPTED, write_spec

import engine

KEYS = 3


def rare(values=("yes", "no"), n_rare=3) -> tuple[pd.DataFrame, dict, list, list[str]]:
    """A yes/no column with 3 "yes" among 900."""
    frame = pd.DataFrame({"a": [values[0]] * n_rare + [values[1]] * (900 - n_rare)})
    return (
        frame,
        {"a": {"kind": "text"}},
        [("a",)],
        ["SELECT a, count(*) AS f FROM data GROUP BY a"],
    )


def visits():
    """Visits of 30 to 90 minutes: in a table that is nearly all imputed, no visit has its length."""
    rng = np.random.default_rng(2)
    seconds = rng.integers(0, 28 * 86_400, 800)
    arrived = [dt.datetime(2024, 3, 4) + dt.timedelta(seconds=int(s)) for s in seconds]
    left = [
        a + dt.timedelta(minutes=int(m))
        for a, m in zip(arrived, rng.integers(30, 91, 800), strict=True)
    ]
    frame = pd.DataFrame({"arrived": arrived, "left": left})
    minutes = "date_diff('minute', arrived, \"left\")"
    return (
        frame,
        {name: {"kind": "timestamp"} for name in frame},
        [("arrived", "left")],
        [
            f"SELECT median({minutes}) AS f FROM data",
            f"SELECT avg({minutes}) AS f FROM data",
            'SELECT 100.0 * avg(("left" < arrived)::INT) AS f FROM data',
            'SELECT avg(epoch("left")) - avg(epoch(arrived)) AS f FROM data',
        ],
    )


def claims():
    """Claims with a Pareto tail of index 1.3: the largest decide the mean."""
    claim = np.round(500 * (1 + np.random.default_rng(1).pareto(1.3, 2000))).astype(int)
    figures = ("avg(claim)", "sum(claim)", "stddev(claim)", "quantile_cont(claim, 0.95)")
    return (
        pd.DataFrame({"claim": claim}),
        {"claim": {"kind": "integer"}},
        [("claim",)],
        [f"SELECT {figure} AS f FROM data" for figure in figures],
    )


def codes():
    """Codes of a public list, of which nobody has one: ranks without a released value."""
    frame = pd.DataFrame({"a": np.repeat([0, 2, 3], 300)})
    columns = {"a": {"kind": "category", "type": "integer", "domain": [0, 1, 2, 3], "public": True}}
    return frame, columns, [("a",)], ["SELECT a, count(*) AS f FROM data GROUP BY a"]


@pytest.mark.parametrize(("case", "keys"), [(rare, KEYS), (visits, 1), (claims, KEYS), (codes, 1)])
def test_what_is_called_reliable_holds(case, keys, tmp_path):
    frame, columns, tables, statements = case()
    frame["person_id"] = range(len(frame))
    frame.to_parquet(tmp_path / "data.parquet")
    columns["person_id"] = {"kind": "integer"}
    con = duckdb.connect()
    con.register("data", frame)
    statuses = []
    for number in range(keys):
        folder = tmp_path / str(number)
        folder.mkdir()
        spec = write_spec(
            folder,
            tmp_path / "data.parquet",
            columns,
            tables,
            privacy=ACCEPTED,
            vintage=str(number),
        )
        with engine.build(spec, out=folder / "r.duckdb", jobs=1) as release:
            for text in statements:
                truth = {row[:-1]: row[-1] for row in con.execute(text).fetchall()}
                got = release.sql(text, intervals=True)
                assert got.columns[-3:] == ("f_low", "f_high", "f_status")
                for *key, _, low, high, status in got.rows:
                    statuses.append(status)
                    right = truth.get(tuple(key))
                    assert status != "reliable" or right is None or low <= right <= high, (
                        text,
                        key,
                    )
    assert "unreliable" in statuses or case in (rare, codes)
