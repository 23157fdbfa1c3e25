from __future__ import annotations

import dataclasses
import datetime as dt
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from fixtures.measure import (
    ONE_ROW,
    cells_of,
    column,
    grown,
    key_number,
    measured,
    nodes_of,
    sticky,
    tokens_of,
)
from fixtures.sticky import HARD, ROOT, letters, one_way_of, slow_top
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.forest_oracle import grow_slowly

from engine.measure.sticky import released_values
from engine.mechanism.measuring import top_level
from engine.schema import KIND_OTHER, NULL_CODE, OTHER_CODE, Prefix, Resolution
from engine.source.encoding import encoding_digest

# --- top levels ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "top"),
    [
        ([0] * 5, 0),
        ([5] * 5, 0),
        ([0] * 5 + [1] * 5, 1),
        ([6] * 5 + [7] * 5, 1),  # pushed down below 0..7: the range 6..7
        ([3] * 5 + [4] * 5, 3),
        ([-1] * 5 + [-2] * 5, 1),
        ([-8] * 5 + [-1] * 5 + [1000] * 5, 3),
        ([NULL_CODE] * 9, 0),
        ([OTHER_CODE] * 9 + [0] * 4 + [1] * 4, 1),
        ([2**63 - 2] * 5 + [0] * 5, 63),
        ([1] * 2 + [900] * 2, 10),  # no half passes: the smallest range of both
        ([1] * 2, 0),
    ],
)
def test_top_levels_by_hand(values, top):
    assert one_way_of(values, HARD, (tokens_of(30),))[0] == top


@pytest.mark.ci
@given(st.lists(st.integers(-40, 300), min_size=1, max_size=30))
@settings(max_examples=60)
def test_a_cut_tree_is_the_bottom_of_the_whole_one(values):
    tokens = (tokens_of(30),)
    top, tree = one_way_of(values, HARD, tokens)
    rows = [((v,), (i,)) for i, v in enumerate(values)]
    whole = grow_slowly(rows, (ROOT,), tokens, HARD, ("A",), ONE_ROW)
    assert top == slow_top(whole)
    assert len(tree.scale) == top + 1
    assert top_level(grown(rows, ("A",), (ROOT,), tokens, (True,), HARD)) == top
    cut = ROOT - top
    assert set(nodes_of(tree)) == {(d - cut, label) for d, label in whole if d >= cut}
    assert np.all(tree.parent[tree.depth == 0] == -1)


def test_values_of_too_few_are_never_released():
    frame = letters({"many": 40, "two": 2, "some": 20, "one": 1})
    for number in range(3):
        run = measured(frame, entities=("id",), key=key_number(number))
        tree = run.one_way["L"]
        assert shown_of(tree.values) == ["many", "some"]
        assert not (tree.index[tree.kind == KIND_OTHER]).any()
        assert tree.index.max() <= 1


def values_of(counts: dict[int, int], draws, *, rows_each=1):
    """What `released_values` gives for a column of numbers with so many entities each."""
    rows, entity = [], 0
    for position, n in enumerate(counts.values()):
        for _ in range(n):
            rows += [((position,), (entity,))] * rows_each
            entity += 1
    cells = cells_of(rows, ("L",), (tokens_of(entity, 1),), (rows_each == 1,))
    ingested = SimpleNamespace(dictionaries={"L": tuple(counts)})
    return shown_of(released_values(cells, ingested, column("L", "category"), draws))


def shown_of(values):
    """The released values without prefixes that stand for hidden ones."""
    return [value for value in values.values() if not isinstance(value, Prefix)]


def test_one_entity_of_a_thousand_rows_shows_no_value():
    for number in range(100):
        assert values_of({"a": 1, "b": 2}, sticky(number), rows_each=500) == []


def test_values_end_to_end_over_keys():
    """The same through DuckDB: 60 values of 2 and 200 of 3 entities, 3 keys."""
    frame = letters({f"{n}-{i:03}": n for n in (2, 3) for i in range(200)} | {"rest": 100})
    seen = [
        value
        for number in range(3)
        for value in shown_of(
            measured(frame, entities=("id",), key=key_number(number)).one_way["L"].values
        )
    ]
    p, n = 0.5 * math.erfc(2 / math.sqrt(2)), 200 * 3
    assert seen.count("rest") == 3
    assert not [v for v in seen if v.startswith("2-")]
    shown = sum(v.startswith("3-") for v in seen)
    assert abs(shown - n * p) < 4 * math.sqrt(n * p * (1 - p))


def test_public_domains_are_always_released_in_their_order():
    domain = ("zero", "many", "two", "some")
    frame = letters({"many": 40, "two": 2, "some": 20})
    public = column("L", "category", domain=domain, public=True)
    run = measured(frame, columns=(column("id"), public), entities=("id",))
    tree = run.one_way["L"]
    assert tree.values == dict(enumerate(domain))
    single = tree.index[(tree.level[:, 0] == 0) & (tree.depth == tree.depth.max()), 0]
    assert set(single.tolist()) == {1, 3}  # its count is suppressed all the same
    assert KIND_OTHER not in tree.kind


def test_a_declared_domain_keeps_its_order_but_shows_only_what_passes():
    frame = letters({"many": 40, "two": 2, "some": 20})
    declared = column("L", "category", domain=("zero", "some", "two", "many"))
    run = measured(frame, columns=(column("id"), declared), entities=("id",))
    assert run.one_way["L"].values == {0: "some", 1: "many"}


def test_what_no_prefix_covers_is_one_other():
    frame = letters({"many": 40} | {f"{chr(65 + i)} rare": 2 for i in range(20)})
    run = measured(frame, entities=("id",), draws=HARD)
    tree = nodes_of(run.one_way["L"])
    assert run.one_way["L"].values == {0: "many"}
    assert tree[0, ((KIND_OTHER, 0, 0),)][0] == 40
    assert tree[0, ((2, 0, 0),)][0] == 40


def test_a_value_spelled_like_the_placeholder_is_one_of_the_others():
    frame = letters({"many": 40, "(other)": 30, "rare": 2})
    named = column("L", "text", placeholder="(other)")
    run = measured(frame, columns=(column("id"), named), entities=("id",), draws=HARD)
    assert run.one_way["L"].values == {1: "many"}
    assert nodes_of(run.one_way["L"])[0, ((KIND_OTHER, 0, 0),)][0] == 32


def test_bands_are_released_in_the_order_of_their_numbers():
    bands = ("<5", "5-9", "10-14", "65+", "unknown")
    frame = letters(dict.fromkeys(sorted(bands), 40))
    for order, wanted in (("", tuple(sorted(bands))), ("numeric", bands)):
        columns = (column("id"), column("L", "category", order=order))
        run = measured(frame, columns=columns, entities=("id",), draws=HARD)
        assert shown_of(run.one_way["L"].values) == list(wanted)


def test_ranked_columns_of_other_types():
    day = [dt.date(2020, 1, d) for d in (1, 1, 1, 2, 3, 3, 3, 3)]
    frame = pd.DataFrame({"id": range(8), "D": day, "N": [9, 9, 9, 9, -4, -4, -4, 1]})
    columns = (
        column("id"),
        column("D", "category", value_type="date"),
        column("N", "category", value_type="integer"),
    )
    run = measured(frame, columns=columns, entities=("id",), draws=HARD)
    assert run.one_way["D"].values == {0: dt.date(2020, 1, 1), 1: dt.date(2020, 1, 3)}
    assert run.one_way["N"].values == {0: -4, 1: 9}


# --- encodings -----------------------------------------------------------------------------------------------

CATEGORY = column("L", "category", domain=("a", "b"))
REAL = column("R", "real", resolution=Resolution(exponent=-2))


@pytest.mark.parametrize(
    ("one", "change"),
    [
        (column("L", "category"), {"order": "numeric"}),
        (CATEGORY, {"domain": ("b", "a")}), (CATEGORY, {"domain": None}), (CATEGORY, {"public": True}),
        (CATEGORY, {"placeholder": "a"}), (CATEGORY, {"kind": "text"}), (CATEGORY, {"value_type": "integer"}),
        (REAL, {"resolution": Resolution(exponent=-1)}), (REAL, {"resolution": Resolution(base=2, exponent=-2)}),
        (REAL, {"kind": "decimal", "value_type": "decimal"}), (REAL, {"public": True}),
    ],
)  # fmt: skip
def test_another_encoding_has_another_digest(one, change):
    assert encoding_digest(dataclasses.replace(one, **change)) != encoding_digest(one)


def test_the_order_of_a_declared_domain_decides_the_draws():
    """Why it is pinned: the same people under another rank draw another label noise."""
    frame = letters({"x": 40, "y": 40})
    seen = [
        nodes_of(measured(frame, columns=(column("id"), c), entities=("id",)).one_way["L"])
        for c in (column("L", "category", domain=d) for d in (("x", "y"), ("y", "x")))
    ]
    assert seen[0][1, ((2, 0, 0),)] != seen[1][1, ((2, 0, 1),)]
