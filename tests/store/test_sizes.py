"""The writer knows the limits of the reader, values survive the file, and cards say what weakens a guarantee."""

from __future__ import annotations

import dataclasses
import datetime
import decimal

import duckdb
import numpy as np
import pytest
from fixtures.release import (
    AGE,
    COLUMNS,
    HEADER,
    SEX,
    SUPPORTS,
    TOWN,
    build_release,
    make_card,
    make_support,
    make_table,
    stage,
)
from fixtures.tiny import tiny_release
from hypothesis import given
from hypothesis import strategies as st

import engine.store.staging
from engine.errors import DataError, SpecError, StoreError
from engine.guarantee import Guarantee
from engine.schema import (
    KIND_NEGATIVE,
    KIND_NONNEGATIVE,
    KIND_NULL,
    KIND_OTHER,
    Column,
    Resolution,
    Universe,
)
from engine.store import GeneratorCard, Staging, open_release
from engine.store import checks as sizes
from engine.store.catalogue import columns_of_name, table_name
from engine.store.decode import carrier, decode_values, sql_type, support_type

LONG = "é" * 40_000
"""80,000 bytes."""
HUGE = Universe(column="SEX", values=("x" * 600_000,))


def column(given, **changes):
    new = dataclasses.replace(given, **changes)
    return tuple(new if c.name == given.name else c for c in COLUMNS)


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"title": LONG}, r"release\.title: .*80,000 bytes.*65,536"),
        ({"logical_name": "x" * 301}, r"release\.name: .*301 bytes.*300"),
        ({"vintage": "x" * 10_001}, r"release\.vintage: .*10,001 bytes"),
        ({"notes": ("short", LONG)}, r"release\.notes: .*80,000"),
        ({"privacy": {"accept_risk": "x" * 70_000}}, r"privacy: .*70,0"),
        ({"columns": column(AGE, label=LONG)}, r"columns\.AGE\.label: .*80,000"),
        ({"columns": column(TOWN, placeholder=LONG)}, r"columns\.TOWN\.placeholder: has"),
        ({"columns": column(SEX, nulls=(LONG,))}, r"columns\.SEX\.nulls: has"),
        ({"columns": column(SEX, labels=(("f", LONG),))}, r"columns\.SEX\.labels: has"),
        ({"columns": column(AGE, name="c" * 10_001)}, r"columns\.c+: .*10,001"),
        ({"columns": column(AGE, universe=HUGE)}, r"columns\.AGE\.universe: .*600,000"),
        ({"tables": (("AGE",),) * 100_001}, "tables: 100,001 .*100,000"),
    ],
)  # fmt: skip
def test_a_spec_that_no_release_can_hold_is_refused_before_anything_is_written(
    tmp_path, changes, place
):
    header = dataclasses.replace(HEADER, **changes)
    with pytest.raises(SpecError, match=place):
        Staging.open(tmp_path / "r.duckdb", header, build_id="1")
    assert list(tmp_path.iterdir()) == []


def test_what_just_fits_is_written_and_opened(tmp_path):
    just = "x" * 2**16
    header = dataclasses.replace(
        HEADER, title=just, notes=(just[:-100],), columns=column(AGE, label=just)
    )
    con, _ = open_release(build_release(tmp_path / "r.duckdb", header=header))
    assert con.execute("SELECT title FROM catalog.release").fetchall() == [(just,)]
    con.close()


def test_a_released_value_that_is_too_long_is_refused_without_telling_it(tmp_path):
    support = dataclasses.replace(SUPPORTS["TOWN"], values={0: "Bath", 1: LONG})
    with Staging.open(tmp_path / "r.duckdb", HEADER, build_id="1") as staging:
        with pytest.raises(DataError, match=r"column 'TOWN': .*65,536 bytes") as refused:
            staging.put_support(support)
    assert "éé" not in str(refused.value)


def test_a_card_that_is_too_long_is_refused(tmp_path):
    table = make_table(("AGE",))
    card = dataclasses.replace(make_card(table), profile="x" * 70_000)
    with Staging.open(tmp_path / "r.duckdb", HEADER, build_id="1") as staging:
        staging.put_support(SUPPORTS["AGE"])
        with pytest.raises(StoreError, match=r"table AGE: its card .*7\d,\d+ bytes"):
            staging.put_table(table, card)


def test_a_catalogue_of_too_much_text_is_refused_before_it_takes_the_place(tmp_path, monkeypatch):
    path = tiny_release(tmp_path / "r.duckdb")
    before = path.read_bytes()
    monkeypatch.setattr(sizes, "MOST_ALL", 5000)
    monkeypatch.setattr(sizes, "MOST_EVER", 5000)
    header = dataclasses.replace(HEADER, title="Another")
    with Staging.open(path, header, build_id="2", force=True) as staging:
        stage(staging, header, SUPPORTS)
        with pytest.raises(StoreError, match="at most 0 MB"):
            staging.finish()
    assert path.read_bytes() == before


def test_what_is_counted_is_what_the_reader_counts(tmp_path, monkeypatch):
    counted = []
    monkeypatch.setattr(
        engine.store.staging,
        "check_total_text",
        lambda con, *_: counted.append(sizes.bytes_of_texts(con)),
    )
    con, _ = open_release(build_release(tmp_path / "r.duckdb"))
    assert counted == [sizes.bytes_of_texts(con)]
    con.close()


def kind_of(code: int) -> int:
    return KIND_NEGATIVE if code < 0 else KIND_NONNEGATIVE


def column_of_decode(kind, value_type=None, **more) -> Column:
    return Column(name="C", kind=kind, value_type=value_type or kind, **more)


def through_duckdb(support):
    c = carrier(support)
    arrays = {"c": c.array, "z": c.is_null, "i": np.arange(len(c.array))}
    with duckdb.connect() as con:
        con.execute("SET pandas_analyze_sample = 0")
        sql = f"SELECT CASE WHEN NOT z THEN {c.expression.format('c')} END AS v FROM arrays ORDER BY i"
        assert arrays["i"].shape == c.is_null.shape
        types = con.execute(f"SELECT DISTINCT typeof(v) FROM ({sql})").fetchall()
        return [v for (v,) in con.execute(sql).fetchall()], {t for (t,) in types}, c.sql_type


GRID = [
    (column_of_decode("integer"), [-(2**63), -3, 0, 2**53 + 1, 2**63 - 1], "BIGINT"),
    (column_of_decode("boolean"), [0, 1], "BOOLEAN"),
    (
        column_of_decode("real", resolution=Resolution(base=10, exponent=-1)),
        [-25, 0, 27312],
        "DOUBLE",
    ),
    (column_of_decode("real", resolution=Resolution(base=2, exponent=-3)), [-1, 0, 9], "DOUBLE"),
    (column_of_decode("real", resolution=Resolution(base=10, exponent=2)), [-7, 0, 12], "DOUBLE"),
    (
        column_of_decode("decimal", resolution=Resolution(base=10, exponent=-2)),
        [-125, 5, 90000],
        "DECIMAL(18,2)",
    ),
    (
        column_of_decode("decimal", resolution=Resolution(base=10, exponent=0)),
        [0, 2**63 - 1],
        "DECIMAL(38,0)",
    ),
    (column_of_decode("date"), [-200_000, 0, 19_000], "DATE"),
    (column_of_decode("timestamp"), [-5_000_000_000, 0, 1_700_000_000], "TIMESTAMP"),
    (column_of_decode("time"), [0, 74_701, 86_399], "TIME"),
]


@pytest.mark.parametrize(("col", "codes", "type_"), GRID, ids=lambda v: getattr(v, "kind", None))
def test_grid_values_reach_duckdb_unchanged(col, codes, type_):
    support = make_support(col, [(KIND_NULL, 0)] + [(kind_of(c), c) for c in codes])
    values, types, stated = through_duckdb(support)
    assert values == decode_values(support)
    assert values[0] is None
    assert types == {type_} == {stated}


@given(st.lists(st.integers(-(2**54), 2**54), max_size=5), st.integers(-16, 2), st.booleans())
def test_reals_reach_duckdb_as_they_are_decoded(codes, exponent, is_small):
    """Many at once by numpy as long as floats hold the codes, else one by one: the same bits, nulls apart."""
    wanted = sorted({code >> 30 if is_small else code for code in codes})
    col = column_of_decode("real", resolution=Resolution(base=10, exponent=exponent))
    cells = [(KIND_NULL, 0), *((kind_of(code), code) for code in wanted)]
    support = make_support(col, cells)
    found = carrier(support)
    assert found.is_null.tolist() == [True] + [False] * len(wanted)
    assert found.array[1:].tolist() == decode_values(support)[1:]
    assert (found.sql_type, found.expression) == ("DOUBLE", "{}")


@pytest.mark.parametrize("kind", ["date", "timestamp"])
def test_nulls_of_dates_and_times_are_null(kind):
    support = make_support(column_of_decode(kind), [(KIND_NULL, 0), (1, -3), (2, 5)])
    found = carrier(support)
    assert found.is_null.tolist() == [v is None for v in decode_values(support)]
    assert found.array[1:].tolist() == [-3, 5]


def test_dates_and_times_outside_pythons_years_survive():
    far = make_support(column_of_decode("date"), [(1, -1_000_000), (2, 3_000_000)])
    assert decode_values(far) == [np.datetime64(-1_000_000, "D"), np.datetime64(3_000_000, "D")]
    c = carrier(far)
    arrays = {"c": c.array}
    with duckdb.connect() as con:
        days = con.execute(
            f"SELECT {c.expression.format('c')} - DATE '1970-01-01' FROM arrays"
        ).fetchall()
    assert days == [(d,) for d in arrays["c"].tolist()]
    late = make_support(column_of_decode("timestamp"), [(2, 300_000_000_000)])
    assert decode_values(late) == [np.datetime64(300_000_000_000, "s")]


def test_ranked_values_and_placeholder():
    text = column_of_decode("text", placeholder=None)
    a = make_support(text, [(KIND_NULL, 0), (2, 1), (KIND_OTHER, 0)], values=("x", "y\0'z"))
    assert decode_values(a) == [None, "y\0'z", "(other)"]
    assert through_duckdb(a)[0] == [None, "y\0'z", "(other)"]
    own = column_of_decode("category", "text", placeholder="andere")
    assert decode_values(make_support(own, [(KIND_OTHER, 0)], values=())) == ["andere"]
    numbers = column_of_decode("category", "integer")
    b = make_support(numbers, [(2, 1), (2, 0), (KIND_OTHER, 0)], values=(5, -7))
    assert decode_values(b) == [-7, 5, None]
    assert through_duckdb(b) == ([-7, 5, None], {"BIGINT"} | {"BIGINT"}, "BIGINT")


@pytest.mark.parametrize(
    ("value_type", "values", "type_"),
    [
        ("integer", (2**63, -5), "HUGEINT"),
        ("real", (0.1, -2.5), "DOUBLE"),
        ("boolean", (False, True), "BOOLEAN"),
        ("decimal", (decimal.Decimal("1.005"), decimal.Decimal("-20")), "DECIMAL(18,3)"),
        ("date", (datetime.date(1850, 5, 4), datetime.date(2020, 2, 29)), "DATE"),
        (
            "timestamp",
            (datetime.datetime(1850, 5, 4, 3, 2), datetime.datetime(2020, 1, 1)),
            "TIMESTAMP",
        ),
    ],
)
def test_categories_keep_their_type(value_type, values, type_):
    support = make_support(
        column_of_decode("category", value_type), [(2, 0), (2, 1)], values=values
    )
    decoded, types, stated = through_duckdb(support)
    assert decoded == list(values)
    assert types == {type_}
    assert stated == support_type(support) == type_


def test_sql_type_by_declaration():
    assert sql_type(column_of_decode("text")) == "VARCHAR"
    assert (
        sql_type(column_of_decode("decimal", resolution=Resolution(exponent=-2))) == "DECIMAL(18,2)"
    )
    assert (
        sql_type(column_of_decode("decimal", resolution=Resolution(exponent=-17)))
        == "DECIMAL(38,17)"
    )
    assert (
        sql_type(column_of_decode("decimal", resolution=Resolution(exponent=3))) == "DECIMAL(18,0)"
    )
    domain = (decimal.Decimal("0.125"), decimal.Decimal(3))
    assert sql_type(column_of_decode("category", "decimal", domain=domain)) == "DECIMAL(18,3)"
    assert sql_type(column_of_decode("category", "decimal")) == "DECIMAL(18,0)"


@given(st.sets(st.text(st.sampled_from("ab.%2E5"), min_size=1), min_size=1, max_size=4))
def test_the_name_of_a_table_tells_its_columns(names):
    assert columns_of_name(table_name(names)) == tuple(sorted(names))


STICKY = make_card(make_table(("AGE", "SEX")))
DP = {
    "epsilon": 1.0, "delta": 0.0, "rho": 0.0, "method": "ipf", "post": "wls", "sample": "rounded",
    "noise": "laplace", "max_rows": 1, "margins": 3, "margins_inside": 1, "sd": [4.25, 4.25],
    "total": "noisy", "total_sd": 70.7, "strata": [], "prior": 0.0, "zeros": [], "how": "dense",
    "cycles": 12, "error": 0.00002, "converged": True, "tolerance": 1e-4, "uniform": [], "covered": True,
}  # fmt: skip


def card_with(**changes) -> GeneratorCard:
    return dataclasses.replace(STICKY, mode="dp", dp=DP | changes)


def said(**changes) -> str:
    return "\n".join(card_with(**changes).sentences())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": None, "delta": None}, "NO PRIVACY GUARANTEE"),
        ({"delta": 1e-6, "noise": "gaussian"}, "1e-06"),
        ({"noise": "gaussian"}, "Gaussian noise"),
        ({"total": "public"}, "THE NUMBER OF ROWS IS PUBLIC"),
        ({"max_rows": 3}, "At most 3 rows per entity"),
        ({"is_bound_said": True}, "At most 1 row per entity"),
        ({"converged": False, "error": 0.031}, "NOT CONVERGED: margins differ from their targets by at most 3.10 %"),
        ({"covered": False}, "MODELLED"),
        ({"uniform": ["SEX", "OTHER"]}, "UNIFORM: nothing was measured for SEX;"),
        ({"strata": ["region"]}, "each stratum of region"),
        ({"sd": [1.0, 8.0]}, "sd 1 to 8 rows"),
        ({"margins": 1}, "1 margin was"),
        ({"epsilon": 1000.0}, "at most inf"),
    ],
)  # fmt: skip
def test_what_weakens_a_guarantee_is_said(changes, words):
    assert words in said(**changes)
    assert words not in said()


def test_without_a_guarantee_no_epsilon_is_claimed():
    text = said(epsilon=None, total="public", max_rows=3)
    for claim in ("epsilon", "PUBLIC", "per entity"):
        assert claim not in text
    assert (
        len(
            Guarantee.of(
                {"epsilon": None, "delta": None, "max_rows": 3, "total": "public"}
            ).sentences()
        )
        == 1
    )


@pytest.mark.parametrize("card", [STICKY, card_with(), card_with(converged=False)])
def test_cards_survive_json(card):
    back = GeneratorCard.from_json(card.to_json())
    assert back == card
    assert back.is_converged == card.dp.get("converged", True)


def test_cards_without_later_fields_can_be_read():
    text = STICKY.to_json().replace('"dp": {}, ', "")
    assert '"dp"' not in text
    assert GeneratorCard.from_json(text) == STICKY
