"""A trial gives the tables of a build: same rows, same key, bit for bit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import engine
from engine.errors import PrivacyError, SpecError
from engine.key_files import new_key, read_key
from engine.keys import MasterKey
from engine.params import PROFILES, DPParams
from engine.release.trials import TrialRows, joint_trial, sticky_trial
from engine.schema import Column
from engine.source import begin_charges, begin_ledger

NAMES = ("a", "b", "c", "d", "e")
SIZES = (5, 4, 3, 2, 3)


def rows_of(n, seed=3, names=NAMES, sizes=SIZES):
    """Rows whose columns hang together; small cells are among them."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 3, n)
    codes = np.column_stack([(rng.poisson(0.8, n) + hidden) % size for size in sizes])
    values = tuple(
        tuple(f"{name}{level}" for level in range(size))
        for name, size in zip(names, sizes, strict=True)
    )
    return TrialRows(columns=names, values=values, codes=codes.astype(np.int64))


def frame_of(rows):
    return pd.DataFrame(
        {
            name: np.array(values)[rows.codes[:, j]]
            for j, (name, values) in enumerate(zip(rows.columns, rows.values, strict=True))
        }
    )


def built(rows, path, tables, **more):
    """Tables of a build, as sorted lists of (values, n)."""
    columns = [
        Column(name=n, kind="category", value_type="text", domain=v, public=True, nullable=False)
        for n, v in zip(rows.columns, rows.values, strict=True)
    ]
    key = path / "k.key"
    new_key(key)
    begin_charges(key)
    begin_ledger(key)
    release = engine.build(
        frame_of(rows),
        out=path / "r.duckdb",
        tables=tables,
        key=key,
        columns={c.name: c for c in columns},
        entities=[],
        privacy={"profile": "standard", "accept_risk": "a test"},
        jobs=1,
        **more,
    )
    out = {}
    for columns_ in release.tables:
        frame = release[columns_].df()
        out[columns_] = sorted(frame.groupby(list(columns_), observed=True).size().items())
    release.close()
    return out, read_key(key)


def in_values(rows, table):
    """A trial's table in the same form."""
    values = dict(zip(rows.columns, rows.values, strict=True))
    named = [
        tuple(values[name][code] for name, code in zip(table.columns, codes, strict=True))
        for codes in table.codes
    ]
    single = [cell[0] if len(cell) == 1 else cell for cell in named]
    return sorted(zip(single, table.n.tolist(), strict=True))


@pytest.mark.ci
@pytest.mark.parametrize(
    "tables",
    [
        [("a",), ("b", "c", "d"), ("a", "e")],
        [NAMES, ("a", "b", "e")],
    ],
    ids=["mixed", "wide with a triple"],
)
def test_a_sticky_trial_is_a_build(tables, tmp_path):
    rows = rows_of(700)
    want, key = built(rows, tmp_path, tables)
    got = sticky_trial(rows, tables, PROFILES["standard"], key)
    assert set(got) == set(want) == {tuple(t) for t in tables}
    for columns, table in got.items():
        assert in_values(rows, table) == want[columns]


def test_another_key_gives_other_tables():
    rows = rows_of(700)
    pair = [("a", "b")]
    one, other = (
        sticky_trial(rows, pair, PROFILES["standard"], MasterKey(bytes([k]) * 32)) for k in (1, 2)
    )
    assert in_values(rows, one["a", "b"]) != in_values(rows, other["a", "b"])


@pytest.mark.ci
def test_a_joint_trial_is_a_build(tmp_path):
    rows = rows_of(900)
    want, key = built(
        rows, tmp_path, [("a", "b"), ("b", "c", "d", "e")], dp={"guarantee": False, "margins": 2}
    )
    pairs = tuple((x, y) for i, x in enumerate(NAMES) for y in NAMES[i + 1 :])
    table = joint_trial(rows, DPParams(epsilon=None, columns=NAMES, margins=pairs), key)
    for columns, cells in want.items():
        at = [NAMES.index(name) for name in columns]
        found = (
            pd.DataFrame(table.codes[:, at], columns=list(columns))
            .assign(n=table.n)
            .groupby(list(columns))
            .n.sum()
        )
        values = dict(zip(rows.columns, rows.values, strict=True))
        named = sorted(
            (tuple(values[c][k] for c, k in zip(columns, cell, strict=True)), int(n))
            for cell, n in found.items()
        )
        assert named == cells


def test_noise_of_mode_dp_is_fresh():
    rows = rows_of(900, names=("a", "b"), sizes=(5, 4))
    params = DPParams(epsilon=0.5, columns=("a", "b"), margins=(("a", "b"),))
    key = MasterKey(bytes(32))
    one, other = (joint_trial(rows, params, key) for _ in range(2))
    assert in_values(rows, one) != in_values(rows, other)


def test_what_a_trial_refuses():
    with pytest.raises(PrivacyError, match="fewer rows than"):
        sticky_trial(
            rows_of(2, names=("a",), sizes=(5,)),
            [("a",)],
            PROFILES["standard"],
            MasterKey(bytes(32)),
        )
    codes = np.repeat(np.arange(3), 100)
    twins = TrialRows(
        columns=("a", "b"), values=(("x", "y", "z"),) * 2, codes=np.column_stack([codes, codes])
    )
    with pytest.raises(SpecError, match="a and b are one to one"):
        sticky_trial(twins, [("a", "b")], PROFILES["standard"], MasterKey(bytes(32)))
    with pytest.raises(SpecError, match="other columns"):
        joint_trial(
            twins, DPParams(epsilon=1.0, columns=("a",), margins=(("a",),)), MasterKey(bytes(32))
        )
