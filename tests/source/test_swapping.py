"""Records that exchange values before anything is counted: who, with whom, and what stays as it was."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fixtures.measure import column

from engine.errors import DataError
from engine.key_files import new_key
from engine.params import PROFILES, SwapParams
from engine.progress import silent
from engine.schema import SourceSpec
from engine.source import ROWS_WITH_TOKENS, open_rows
from engine.source.swapping import partners
from engine.spec import ReleaseSpec

KEY = bytes(range(16))


def test_a_group_all_of_which_exchanges_does_not_show_the_opposite():
    """A yes or no that most of a group exchange tells nothing; if partners had to differ it would tell all."""
    rng = np.random.default_rng(3)
    n = 4_000
    bits = rng.integers(0, 2, n)
    found = partners(
        groups=[np.zeros(n, dtype=np.int64)],
        rarity=np.ones(n, dtype=np.int64),
        draws=rng.integers(0, 2**63, (n, 2)).astype(np.uint64),
        n_pairs=n // 2,
        key=KEY,
    )
    assert len(found) > 0.9 * n / 2
    shown = bits.copy()
    shown[found.ravel()] = bits[found[:, ::-1].ravel()]
    same = (shown == bits)[found.ravel()].mean()
    assert abs(same - 0.5) < 4 * 0.5 / (n / 2) ** 0.5


# --- in the rows of a source

SWAP = SwapParams(columns=("place",), within=("area",), similar=("age",), rare=("job",), rate=0.2)
NAMES = ("place", "area", "age", "job", "other")


def frame(n: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(8)
    area = rng.integers(0, 3, n)
    return pd.DataFrame(
        {
            "id": [f"p{i}" for i in range(n)],
            "area": area,
            "place": area * 4 + rng.integers(0, 4, n),
            "age": rng.integers(0, 5, n),
            "job": rng.geometric(0.4, n),
            "other": rng.integers(0, 11, n),
        }
    )


@pytest.fixture
def spec(tmp_path):
    new_key(tmp_path / "key")
    return ReleaseSpec(
        title="t",
        logical_name="data",
        vintage="2024",
        key_path=tmp_path / "key",
        mode="sticky",
        source=SourceSpec(path=None, format="frame", entities=("id",)),
        columns=(column("id", "text"), *(column(name) for name in sorted(NAMES))),
        privacy=replace(PROFILES["standard"], swap=SWAP),
        tables=(("other",),),
    )


def rows(spec, given_frame) -> pd.DataFrame:
    """The rows that would be counted, by the token of the person."""
    with open_rows(spec, given_frame, silent) as opened:
        sql = opened.ingested.sql_names
        listed = ", ".join(f"{sql[name]} AS {name}" for name in NAMES if name in sql)
        found = opened.ingested.con.execute(
            f"SELECT l0_0 AS token, {listed} FROM {ROWS_WITH_TOKENS} ORDER BY l0_0"
        )
        return found.df()


def without(spec):
    return replace(spec, privacy=PROFILES["standard"])


def moved(spec, given_frame) -> pd.Series:
    """Who has another place than before."""
    plain, changed = rows(without(spec), given_frame), rows(spec, given_frame)
    assert plain["token"].tolist() == changed["token"].tolist()
    return plain["place"] != changed["place"]


def test_only_the_exchanged_column_changes_and_its_counts_in_a_group_stay(spec):
    plain, changed = rows(without(spec), frame()), rows(spec, frame())
    pd.testing.assert_frame_equal(plain.drop(columns="place"), changed.drop(columns="place"))
    # A fifth of 600 exchange; about a quarter of their partners have the same of four places.
    assert 72 <= (plain["place"] != changed["place"]).sum() < 120
    for names in (["place"], ["area", "place"]):
        before, after = (Counter(map(tuple, t[names].to_numpy())) for t in (plain, changed))
        assert before == after
    both = ["job", "place"]
    assert Counter(map(tuple, plain[both].to_numpy())) != Counter(
        map(tuple, changed[both].to_numpy())
    )


def test_neither_tables_nor_other_columns_nor_the_order_of_rows_matter(spec):
    first = rows(spec, frame())
    shuffled = frame().sample(frac=1, random_state=1)
    pd.testing.assert_frame_equal(first, rows(spec, shuffled))
    wider = replace(spec, tables=(("job", "place"), ("other",)))
    pd.testing.assert_frame_equal(first, rows(wider, frame()))
    fewer = replace(spec, columns=tuple(c for c in spec.columns if c.name != "other"))
    fewer = replace(fewer, tables=(("age",),))
    pd.testing.assert_frame_equal(first.drop(columns="other"), rows(fewer, frame()))


def test_another_key_exchanges_others_and_a_going_on_vintage_the_same(spec, tmp_path):
    first = moved(spec, frame())
    new_key(tmp_path / "other")
    plain = rows(without(replace(spec, key_path=tmp_path / "other")), frame())
    changed = rows(replace(spec, key_path=tmp_path / "other"), frame())
    assert (plain["place"] != changed["place"]).tolist() != first.tolist()
    assert moved(replace(spec, vintage="2025"), frame()).tolist() != first.tolist()


def test_an_exchange_that_finds_nobody_is_refused(spec):
    lonely = frame().assign(area=range(600))
    with pytest.raises(DataError, match="too few records agree in area and differ in place"):
        rows(spec, lonely)
    with pytest.raises(DataError, match="too few records agree in area"):
        rows(spec, frame().assign(place=1))


def test_mode_dp_reads_the_rows_as_they_are(spec):
    pd.testing.assert_frame_equal(
        rows(replace(spec, mode="dp"), frame()), rows(without(spec), frame())
    )
