from __future__ import annotations

from collections import Counter
from contextlib import contextmanager

import pandas as pd
import pytest
from fixtures.measure import KEY, VINTAGE, column, columns_of, key_number
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import DataError
from engine.schema import SourceSpec
from engine.source import ROWS_WITH_TOKENS, open_source, scratch_directory
from engine.source.entities import add_tokens, source_fingerprints
from engine.source.ingest import ingest
from engine.source.scratch import confidential_connection


@contextmanager
def opened(frame, columns=None, entities=(), *, source=None, threads=1):
    frame = pd.DataFrame(frame) if frame is not None else None
    columns = columns_of(frame) if columns is None else columns
    with scratch_directory() as scratch:
        con = confidential_connection(scratch, threads=threads)
        found = open_source(con, source or SourceSpec(path=None, format="frame"), frame)
        yield ingest(con, found, columns, tuple(entities))
        con.close()


def tokenised(
    frame, columns=None, entities=(), *, identity=None, key=KEY, vintage=VINTAGE, source=None
):
    """(entity columns, rows as {column: value}) of the table with tokens."""
    with opened(frame, columns, entities, source=source) as ingested:
        identity = tuple(c.name for c in ingested.columns) if identity is None else identity
        kinds = add_tokens(ingested, key, vintage, identity)
        rows = ingested.con.execute(f"SELECT * FROM {ROWS_WITH_TOKENS}").fetchall()
        names = [d[0] for d in ingested.con.description]
        tables = {
            t for (t,) in ingested.con.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        }
        assert "rows" not in tables
        assert not {t for t in tables if t.startswith(("lanes", "fingerprints", "numbered"))}
        return kinds, [dict(zip(names, row, strict=True)) for row in rows]


def lanes(rows, number=0):
    return [(row[f"l{number}_0"], row[f"l{number}_1"]) for row in rows]


def per_code(rows, names):
    """Which tokens stand beside which codes, whatever the order of rows."""
    return Counter((tuple(row[n] for n in names), row["l0_0"], row["l0_1"]) for row in rows)


def prints(frame, columns=None, entities=(), *, key=KEY, vintage=VINTAGE, identity=None):
    with opened(frame, columns, entities) as ingested:
        identity = tuple(c.name for c in ingested.columns) if identity is None else identity
        return source_fingerprints(
            ingested, add_tokens(ingested, key, vintage, identity), key, vintage
        )


# --- named entities ------------------------------------------------------------------------------------------


def test_every_strange_id_is_an_entity_of_its_own():
    ids = ["0", "", "False", "-1", str(2**63), "é", "e\u0301", " 0", "0.0", "NaN", "null", "None"]
    columns = (column("id", "text", nulls=()), column("A"))
    (kind,), rows = tokenised({"id": ids, "A": range(len(ids))}, columns, ("id",))
    assert kind.tokens is None
    assert len(set(lanes(rows))) == len(ids)


PAIR = (column("a", "text", nulls=()), column("b", "text", nulls=()), column("x"))


@pytest.mark.parametrize("n_rows", [1, 2])
def test_columns_name_an_entity_together_and_not_by_their_text(n_rows):
    ids = [
        ("1", "23"),
        ("12", "3"),
        ("1:2", "3"),
        ("1", "2:3"),
        ("", "123"),
        ("é", "1"),
        ("1", "é"),
    ]
    frame = pd.DataFrame(ids * n_rows, columns=["a", "b"]).assign(x=1)
    (kind,), rows = tokenised(frame, PAIR, [("a", "b")])
    found = {*lanes(rows)} if n_rows == 1 else {tuple(kind.tokens[r["e0"]].tolist()) for r in rows}
    assert len(found) == len(ids)


def test_a_row_without_one_of_the_columns_names_nobody():
    frame = pd.DataFrame({"a": ["1", None, "2"], "b": ["1", "1", "2"], "x": 0})
    with pytest.raises(DataError, match="column 'a': an entity id is null"):
        tokenised(frame, PAIR, [("a", "b")])


# --- rows as entities ----------------------------------------------------------------------------------------

FRAME = {
    "A": [1, 1, 1, 2, None, None, 2, 1],
    "B": ["x", "x", "y", None, None, None, "y", "x"],
    "C": [True, True, False, False, True, True, None, False],
}
FRAME["A"] = pd.array(FRAME["A"], dtype="Int64")
COLUMNS = (column("A"), column("B", "category"), column("C", "boolean"))


@pytest.mark.ci
@given(st.permutations(range(8)))
@settings(max_examples=6)
def test_row_order_never_matters(order):
    frame = pd.DataFrame(FRAME)
    names = ["c0", "c1", "c2"]
    one = per_code(tokenised(frame, COLUMNS)[1], names)
    assert per_code(tokenised(frame.iloc[list(order)], COLUMNS)[1], names) == one


def test_all_sources_give_the_same_tokens(tmp_path):
    frame = pd.DataFrame(FRAME)
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet")
    names = ["c0", "c1", "c2"]
    one = per_code(tokenised(frame, COLUMNS)[1], names)
    for kind in ("csv", "parquet"):
        source = SourceSpec(path=str(tmp_path / f"x.{kind}"), format=kind)
        assert per_code(tokenised(None, COLUMNS, source=source)[1], names) == one


def test_a_new_column_beside_the_identity_changes_no_token():
    """Equal rows share every bucket of the tables there were, so it is their tokens together that count."""
    frame = pd.DataFrame(FRAME)
    pinned = ("A", "B")
    for order in (range(8), (7, 0, 6, 1, 5, 2, 4, 3)):
        found = [
            per_code(
                tokenised(frame.iloc[list(order)][list("ABC"[:n])], COLUMNS[:n], identity=pinned)[
                    1
                ],
                ["c0", "c1"],
            )
            for n in (2, 3)
        ]
        assert found[0] == found[1]


def test_values_do_not_depend_on_the_other_values_of_a_dictionary():
    """ "x" is 0 of (x, y) and 1 of (a, x, y): its token must not be that of its position."""
    few = tokenised({"B": ["x", "y"]})[1]
    many = tokenised({"B": ["x", "y", "a"]})[1]
    assert set(lanes(few)) < set(lanes(many))


def test_equal_identities_are_told_apart_by_their_other_columns():
    frame = pd.DataFrame({"A": [1] * 6, "C": [0, 1, 2, 3, 4, 5]})
    one = per_code(tokenised(frame, identity=("A",))[1], ["c0", "c1"])
    for seed in range(3):
        shuffled = frame.sample(frac=1, random_state=seed)
        assert per_code(tokenised(shuffled, identity=("A",))[1], ["c0", "c1"]) == one


def test_the_token_of_null_does_not_depend_on_the_values():
    columns = (COLUMNS[1],)
    nulls = [
        {
            (row["l0_0"], row["l0_1"])
            for row in tokenised({"B": [None, other]}, columns)[1]
            if row["c0"] < 0
        }
        for other in ("x", "a")
    ]
    assert nulls[0] == nulls[1]
    assert not nulls[0] & set(lanes(tokenised({"B": ["a", "x"]}, columns)[1]))


def test_identity_key_and_vintage_decide():
    frame = {"A": [1, 2], "B": ["x", "y"]}
    seen = [
        frozenset(lanes(tokenised(frame, **how)[1]))
        for how in (
            {}, {"identity": ("A",)}, {"identity": ("B",)}, {"vintage": "2025"}, {"key": key_number(3)},
        )
    ]  # fmt: skip
    assert len(set(seen)) == 5


# --- what a vintage is pinned to -----------------------------------------------------------------------------

PEOPLE = {
    "id": [1, 2, 3, 4],
    "A": [0, 5, 5, 7],
    "B": ["x", "y", "y", None],
    "Z": [0, 0, 0, 0],
}


def changed(frame, name, values):
    return {**frame, name: values}


def differing(a, b):
    return {name for name in a if a[name] != b[name]}


@pytest.mark.ci
def test_fingerprints_of_named_entities():
    one = prints(PEOPLE, entities=("id",))
    assert set(one) == {"", "A", "B", "Z"}
    assert {len(digest) for digest in one.values()} == {32}
    shuffled = pd.DataFrame(PEOPLE).iloc[[2, 0, 3, 1]]
    assert prints(shuffled, entities=("id",)) == one

    def moved(name, values):
        return differing(one, prints(changed(PEOPLE, name, values), entities=("id",)))

    assert moved("A", [0, 5, 5, 8]) == {"A"}
    assert moved("A", [5, 0, 5, 7]) == {"A"}  # the same values, other people
    assert moved("B", ["x", "y", "x", None]) == {"B"}
    assert moved("B", ["x", "z", "z", None]) == {"B"}  # the same codes, another value
    assert moved("B", ["x", "y", "y", "y"]) == {"B"}
    assert "" in moved("id", [9, 2, 3, 4])  # of somebody whose every code is 0, too
    assert moved("id", [2, 1, 3, 4]) == {"A", "B"}


def test_fingerprints_of_entities_with_several_rows_see_values_that_change_places():
    """Sums by entity would not: two visits swap a value, or two values change while their sum stays."""
    frame = {"id": [1, 1, 2, 2], "A": [4, 6, 1, 1], "B": [7, 3, 5, 0]}
    one = prints(frame, entities=("id",))
    (rows,) = set(one) - {"", "A", "B"}
    assert rows == "rows of A, B"
    assert prints(pd.DataFrame(frame).iloc[::-1], entities=("id",)) == one
    assert differing(one, prints(changed(frame, "B", [3, 7, 5, 0]), entities=("id",))) == {rows}
    assert differing(one, prints(changed(frame, "A", [5, 5, 1, 1]), entities=("id",))) == {rows}
    assert differing(one, prints(changed(frame, "A", [4, -6, 1, 1]), entities=("id",))) == {
        "A",
        rows,
    }
