"""Frames as sources: what their columns mean, categories in order, dictionaries of Arrow."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest
from fixtures.source import connection

from engine.schema import SourceSpec
from engine.source import open_source
from engine.source.detection import make_spec


def frame(**columns):
    return pd.DataFrame({"sex": ["f", "m"] * 150} | columns)


def taken(held):
    con = connection()
    opened = open_source(con, SourceSpec(path=None, format="frame"), held)
    return opened, [
        v for (v,) in con.execute("SELECT DISTINCT v FROM source ORDER BY v").fetchall()
    ]


def test_columns_of_frames_keep_their_meaning():
    vienna = pd.Timestamp("2021-07-01 08:00", tz="Europe/Vienna")
    of_arrow = pd.ArrowDtype(pa.timestamp("us", "Europe/Vienna"))
    for held in (
        frame(v=[vienna] * 300),
        frame(v=pd.Series([vienna] * 300, dtype=of_arrow)),
        pa.Table.from_pandas(frame(v=[vienna] * 300)),
    ):
        assert taken(held)[1] == [vienna.tz_localize(None)]
    assert taken(frame(v=pd.period_range("2021-01", periods=300, freq="M")))[1][1].month == 2
    assert taken(frame(v=pd.to_timedelta([90] * 300, unit="s")))[1] == [90.0]
    assert taken(frame(v=pd.arrays.SparseArray([1] * 300)))[1] == [1]
    bands = pd.cut(pd.Series(range(300)), [-1, 150, 300])
    opened, values = taken(frame(v=bands))
    assert values == ["(-1, 150]", "(150, 300]"]
    assert opened.orders == {"v": ("(-1, 150]", "(150, 300]")}
    assert taken(frame(v=bands.astype(object)))[1] == ["(-1, 150]", "(150, 300]"]


@pytest.mark.parametrize("as_arrow", [False, True])
def test_ordered_categoricals_keep_their_order(as_arrow):
    order = ["low", "mid", "high"]
    held = frame(v=pd.Categorical(order * 100, categories=order, ordered=True))
    spec = make_spec(
        pa.Table.from_pandas(held) if as_arrow else held,
        tables=1,
        key="k",
        entities=[],
        check_key=False,
    )
    column = next(c for c in spec.columns if c.name == "v")
    assert column.domain == ("low", "mid", "high")
    assert (column.public, "domain" in column.detected) == (False, True)
