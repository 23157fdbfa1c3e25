"""Helpers of the tests of mode dp's measuring: a spec of four columns with public levels, and plain counting."""

from __future__ import annotations

import tempfile
from dataclasses import replace

import numpy as np
import pandas as pd
from measure_fixture import column

from engine.domains import levels_of
from engine.journal import pin_vintage
from engine.keys import new_key
from engine.marginals import measured_margins
from engine.opening import open_rows, silent
from engine.params import PROFILES
from engine.params_dp import DPParams
from engine.schema import SourceSpec
from engine.spec import ReleaseSpec

AGE = column("AGE", bounds=(0, 9), breaks=(3, 7), public=True)  # null, 0-2, 3-6, 7-9
SEX = column("SEX", "category", domain=("f", "m", "x"), public=True, nullable=False)
REG = column("REG", "category", domain=("n", "s"), public=True, nullable=False)
HRS = column("HRS", bounds=(0, 6), public=True, nullable=False)
COLUMNS = (AGE, SEX, REG, HRS)
NAMES = ("AGE", "HRS", "REG", "SEX")
EXACT = DPParams(
    epsilon=None, columns=NAMES, margins=(("AGE",), ("HRS",), ("AGE", "SEX"), ("HRS", "REG", "SEX"))
)
PARAMS = replace(EXACT, epsilon=1.0, budget=100.0)
NO_NOISE = replace(
    EXACT, epsilon=500.0, total_share=0.1
)  # a count's noise is 0 but for one draw in e**40


def frame_of(n: int, seed: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ages = rng.integers(0, 10, n)
    return pd.DataFrame(
        {
            "AGE": pd.array(np.where(rng.random(n) < 0.2, None, ages), dtype="Int64"),
            "SEX": rng.choice(["f", "m"], n),  # "x" is declared and does not occur
            "REG": rng.choice(["n", "s"], n),
            "HRS": rng.integers(0, 7, n),
        }
    )


FRAME = frame_of(90)


def make_spec(tmp_path, monkeypatch) -> ReleaseSpec:
    """A spec whose source is a frame, with a key in a folder of its own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "keys").mkdir()
    new_key(tmp_path / "keys" / "key")
    return ReleaseSpec(
        title="t",
        logical_name="data",
        vintage="2024",
        key_path=tmp_path / "keys" / "key",
        mode="dp",
        source=SourceSpec(path=None, format="frame"),
        columns=COLUMNS,
        privacy=PROFILES["standard"],
        tables=(NAMES,),
    )


def measure(spec, params, frame=FRAME, report=silent):
    with open_rows(spec, frame, silent) as opened:
        pin_vintage(spec.key_path, spec.vintage, opened.state)
        levels = {c.name: levels_of(c) for c in spec.columns if c.name in params.columns}
        return measured_margins(
            opened, params, levels, key_path=spec.key_path, vintage=spec.vintage, title=spec.title,
            report=report,
        )  # fmt: skip


def level_of_value(name, value) -> int:
    """The level of one value, by the declared lists alone."""
    if name == "AGE":
        return 0 if pd.isna(value) else 1 + (value >= 3) + (value >= 7)
    return {"SEX": "fmx", "REG": "ns"}[name].index(value) if name != "HRS" else int(value)


SIZES = {"AGE": 4, "SEX": 3, "REG": 2, "HRS": 7}


def counted_slowly(frame, columns) -> np.ndarray:
    out = np.zeros([SIZES[name] for name in columns], dtype=np.int64)
    for row in frame.to_dict("records"):
        out[tuple(level_of_value(name, row[name]) for name in columns)] += 1
    return out


def counts_of(found) -> dict:
    return {
        m.columns: (m.n.tolist(), [t.tolist() for t in m.tree]) for m in (found.total, *found.margins)
    }  # fmt: skip
