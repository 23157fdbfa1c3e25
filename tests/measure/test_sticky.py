from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fixtures.measure import (
    KEY,
    NO_BOUND,
    ONE_ROW,
    STICKY,
    STICKY_BOUNDED,
    VINTAGE,
    OneSource,
    cells_of,
    column,
    columns_of,
    key_number,
    measured,
    nodes_of,
    sticky,
    tokens_of,
)
from fixtures.sticky import HARD, ROOT, one_way_of, people, slow_top
from oracles.forest_oracle import grow_slowly

from engine.errors import PrivacyError
from engine.keys import entity_tokens
from engine.mechanism import RowBounds
from engine.mechanism.measuring import one_way
from engine.schema import KIND_NULL, KIND_OTHER, NULL_CODE, OTHER_CODE

SETS = [
    ("AGE", "LETTER"),
    ("INCOME", "YES"),
    ("AGE", "INCOME", "LETTER"),
    ("AGE", "INCOME", "LETTER", "YES"),
]
BARE = ["AGE", "LETTER", "YES", "INCOME"]


def slow_run(frame: pd.DataFrame, sets, draws, entities, bounds) -> tuple[dict, dict, dict]:
    """(tops, released values, nodes by column set), in plain Python from the frame."""
    ids = [frame[name].tolist() for name in entities]
    key = KEY.derive("entity", VINTAGE)
    tokens, numbers = [], []
    for name, of_kind in zip(entities, ids, strict=True):
        distinct = sorted(set(of_kind))
        tokens.append(entity_tokens(key, distinct, entity_column=name))
        numbers.append([distinct.index(i) for i in of_kind])
    who = list(zip(*numbers, strict=True))
    names = sorted(set(frame.columns) - set(entities))
    codes, values = {}, {}
    for name in names:
        cells = [None if pd.isna(v) else v for v in frame[name]]
        if any(isinstance(v, str) for v in cells):
            shown = []
            for value in sorted({v for v in cells if v is not None}):
                rows = [((7,), w) for v, w in zip(cells, who, strict=True) if v == value]
                if grow_slowly(rows, (0,), tokens, draws, ("x",), NO_BOUND):
                    shown.append(value)
            values[name] = dict(enumerate(shown))
            codes[name] = [
                NULL_CODE if v is None else shown.index(v) if v in shown else OTHER_CODE
                for v in cells
            ]
        else:
            codes[name] = [NULL_CODE if v is None else int(v) for v in cells]
    tops, found = {}, {}
    for name in names:
        rows = [((c,), w) for c, w in zip(codes[name], who, strict=True)]
        whole = grow_slowly(rows, (ROOT,), tokens, draws, (name,), bounds)
        tops[name] = slow_top(whole)
        cut = ROOT - tops[name]
        found[name,] = {
            (d - cut, label): (n, parent if d > cut else None, scale)
            for (d, label), (n, parent, scale) in whole.items()
            if d >= cut
        }
    for wide in sets:
        rows = list(zip(zip(*(codes[name] for name in wide), strict=True), who, strict=True))
        whole = grow_slowly(rows, tuple(tops[n] for n in wide), tokens, draws, wide, bounds)
        known = [{label[0] for _, label in found[name,]} for name in wide]
        found[wide] = {
            node: seen
            for node, seen in whole.items()
            if all(own in ranges for own, ranges in zip(node[1], known, strict=True))
        }
    found[()] = grow_slowly([((), w) for w in who], (), tokens, draws, (), bounds)
    return tops, values, found


@pytest.mark.ci
@pytest.mark.parametrize(("draws", "persons"), [(HARD, None), (STICKY, 23)], ids=["hard", "sticky"])
def test_the_whole_measurement_is_its_slow_twin(draws, persons):
    frame = people(90, seed=4, persons=persons)
    columns, bounds = columns_of(frame), ONE_ROW
    if persons is not None:
        draws = STICKY_BOUNDED if draws is STICKY else replace(HARD, max_rows=4)
        columns = tuple(replace(c, max_rows=1) if c.name == "AGE" else c for c in columns)
        bounds = RowBounds(most=4, of_values={"AGE": 1})
    run = measured(frame, SETS, entities=("id",), draws=draws, columns=columns)
    tops, values, found = slow_run(frame, SETS, draws, ("id",), bounds)
    assert run.tops == tops
    assert {n: m.values for n, m in run.one_way.items() if m.values is not None} == values
    assert nodes_of(run.one_way[""]) == found[()]
    for name in tops:
        assert nodes_of(run.one_way[name]) == found[name,]
    for wide in SETS:
        assert nodes_of(run.wider[wide]) == found[wide]


@pytest.mark.ci
def test_two_kinds_of_entity_are_their_slow_twin():
    frame = people(90, seed=5).assign(home=lambda f: f["id"] // 3)
    bounds = RowBounds(most=4, of_values={})
    run = measured(frame, SETS[:2], entities=("home", "id"), draws=STICKY_BOUNDED)
    tops, _, found = slow_run(frame, SETS[:2], STICKY_BOUNDED, ("home", "id"), bounds)
    assert run.tops == tops
    for wide in SETS[:2]:
        assert nodes_of(run.wider[wide]) == found[wide]
        assert set(run.wider[wide].scale.tolist()) == {4}
    assert nodes_of(run.one_way["AGE"]) == found["AGE",]
    assert run.one_way[""].scale.tolist() == [4]


# --- what a bucket may depend on -----------------------------------------------------------------------------


@pytest.mark.ci
@pytest.mark.parametrize(("entities", "persons"), [((), None), (("id",), 60)])
def test_row_and_column_order_and_threads_never_matter(entities, persons):
    frame = people(persons=persons)
    frame = frame if entities else frame[BARE]
    one = measured(frame, SETS, entities=entities).all()
    shuffled = frame.sample(frac=1, random_state=3)[list(frame.columns)[::-1]]
    assert measured(shuffled, SETS[::-1], entities=entities, threads=2).all() == one


def test_an_unrelated_column_changes_no_bucket():
    frame = people(persons=80)
    one = measured(frame.drop(columns=["YES"]), SETS[:1], entities=("id",)).all()
    more = measured(frame.assign(AAA=1, ZZZ="q"), SETS[:1], entities=("id",)).all()
    assert {name: more[name] for name in one} == one


def test_an_unrelated_column_changes_no_bucket_of_rows():
    """Rows that are the entities: identity is pinned to the columns of the first build."""
    frame = people(200)[["AGE", "LETTER"]]
    frame = pd.concat([frame, frame.iloc[:60]])  # equal rows
    one = measured(frame, SETS[:1]).all()
    more = frame.assign(AAA=np.arange(260) % 7, ZZZ=np.arange(260) % 3)
    found = measured(more, SETS[:1], identity=("AGE", "LETTER")).all()
    assert {name: found[name] for name in one} == one


def test_other_tables_change_no_bucket():
    frame = people()
    one = measured(frame, SETS, entities=("id",)).all()
    for some in (SETS[:1], SETS[::-1], [SETS[2]], []):
        found = measured(frame, some, entities=("id",)).all()
        assert found == {name: one[name] for name in found}


# --- outliers ------------------------------------------------------------------------------------------------


@pytest.mark.ci
@pytest.mark.parametrize("far", [1_000 * 89, -1, 2**63 - 2])
def test_one_outlier_moves_no_published_boundary(far):
    frame = people(150)[["id", "AGE", "LETTER"]]
    person = pd.DataFrame({"id": [999], "AGE": [far], "LETTER": ["b"]})
    for number in range(2):
        before = measured(frame, SETS[:1], entities=("id",), key=key_number(number))
        after = measured(
            pd.concat([frame, person]), SETS[:1], entities=("id",), key=key_number(number)
        )
        assert after.tops == before.tops
        assert after.one_way["LETTER"].values == before.one_way["LETTER"].values
        # no released range holds the outlier: the whole tree is as it was, counts too
        assert nodes_of(after.one_way["AGE"]) == nodes_of(before.one_way["AGE"])
        assert nodes_of(after.wider[SETS[0]]) == nodes_of(before.wider[SETS[0]])
        assert list(nodes_of(after.one_way["LETTER"])) == list(nodes_of(before.one_way["LETTER"]))


def test_no_key_lets_an_outlier_move_a_boundary():
    tokens = (tokens_of(81, 7),)
    values = np.random.default_rng(7).integers(0, 100, 80).tolist()
    cells = [
        OneSource(cells_of([((v,), (i,)) for i, v in enumerate(some)], ("A",), tokens, (True,)))
        for some in (values, [*values, 99_000], [*values, -1])
    ]
    for number in range(40):
        (top, tree), *others = (
            one_way(source.cells(("A",)), sticky(number), ONE_ROW) for source in cells
        )
        for other_top, other in others:
            assert other_top == top
            assert nodes_of(other) == nodes_of(tree)


def test_the_outlier_test_can_fail():
    """The positive control: enough people out there do move the top."""
    values = [*range(60), *range(60)]
    tokens = (tokens_of(140, 7),)
    assert one_way_of(values, HARD, tokens)[0] == 6
    assert one_way_of([*values, *[99_000] * 20], HARD, tokens)[0] == 17


@pytest.mark.ci
def test_a_suppressed_range_is_in_no_wider_table():
    """A part of its people may pass by itself: without the rule some of these 12 keys show such a bucket."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"id": range(800), "A": rng.geometric(0.02, 800), "L": rng.choice(list("ab"), 800)}
    )
    for number in range(12):
        run = measured(frame, [("A", "L")], entities=("id",), key=key_number(number))
        wide = run.wider["A", "L"]
        known = {name: {label[0] for _, label in nodes_of(run.one_way[name])} for name in "AL"}
        for _, (of_a, of_l) in nodes_of(wide):
            assert of_a in known["A"]
            assert of_l in known["L"]
        inner = wide.depth > 0
        assert np.all(wide.depth[wide.parent[inner]] == wide.depth[inner] - 1)


# --- how rows are stored and counted never matters -----------------------------------------------------------


@pytest.mark.ci
@pytest.mark.parametrize(("entities", "persons"), [((), None), (("id",), 90)])
def test_numpy_and_duckdb_measure_the_same(monkeypatch, entities, persons):
    frame = people(persons=persons).rename(columns=str)
    frame.loc[::7, "LETTER"] = None
    frame["FAR"] = (
        np.where(frame["AGE"] % 3 == 0, 2**61, -(2**61)) + frame["AGE"]
    )  # no small number
    sets = [("AGE", "LETTER"), ("AGE", "FAR", "YES"), ("AGE", "INCOME", "LETTER", "YES")]
    few = measured(frame, sets, entities=entities).all()
    monkeypatch.setattr("engine.measure.coding.FEW_ROWS", 0)
    many = measured(frame, sets, entities=entities).all()
    assert few == many
    assert len(few["AGE", "INCOME", "LETTER", "YES"][0]) > 1
    # The positive control: people counted once too often would show.
    assert measured(pd.concat([frame, frame[:90]]), sets).all() != measured(frame, sets).all()


# --- edges ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2])
def test_too_few_entities_build_nothing(n):
    for entities in ((), ("id",)):
        with pytest.raises(PrivacyError, match="nothing can be released") as caught:
            measured(people(n), entities=entities)
        assert str(n) not in str(caught.value)
    with pytest.raises(PrivacyError):
        measured(people(500, persons=n), entities=("id",))


def test_columns_without_anything_to_release():
    frame = pd.DataFrame(
        {"id": range(40), "N": pd.array([None] * 40, dtype="Int64"), "U": range(0, 40_000, 1_000)}
    )
    frame["T"] = [chr(0x100 + i) for i in range(40)]  # no two begin alike
    frame["Z"] = pd.Series([None] * 40, dtype="string")
    columns = (column("id"), column("N"), column("U"), column("T", "text"), column("Z", "category"))
    run = measured(frame, [("N", "T", "U", "Z")], columns=columns, entities=("id",), draws=HARD)
    assert nodes_of(run.one_way["N"]) == {(0, ((KIND_NULL, 0, 0),)): (40, None, 1)}
    assert nodes_of(run.one_way["Z"]) == {(0, ((KIND_NULL, 0, 0),)): (40, None, 1)}
    assert run.one_way["T"].values == run.one_way["Z"].values == {}
    assert nodes_of(run.one_way["T"]) == {(0, ((KIND_OTHER, 0, 0),)): (40, None, 1)}
    assert not (run.one_way["U"].level == 0).any()
    first = ((KIND_NULL, 0, 0), (KIND_OTHER, 0, 0), (2, 16, 0), (KIND_NULL, 0, 0))
    assert nodes_of(run.wider["N", "T", "U", "Z"])[0, first][0] == 40


def test_negative_and_huge_numbers():
    huge = 2**63 - 2
    frame = pd.DataFrame({"id": range(20), "A": [huge] * 5 + [-huge] * 5 + [-1] * 5 + [0] * 5})
    tree = nodes_of(measured(frame, entities=("id",), draws=HARD).one_way["A"])
    singles = {label[0]: n for (d, label), (n, *_) in tree.items() if d == ROOT}
    assert singles == {(2, 0, huge): 5, (1, 0, huge - 1): 5, (1, 0, 0): 5, (2, 0, 0): 5}


def test_a_released_count_is_never_forced_to_the_truth():
    """Over keys every released count takes other values: no layer is switched off at any depth."""
    tokens, values = (tokens_of(64, 3),), [i % 4 for i in range(64)]
    source = OneSource(
        cells_of([((v,), (i,)) for i, v in enumerate(values)], ("A",), tokens, (True,))
    )
    counts = np.array([one_way(source.cells(("A",)), sticky(k), ONE_ROW)[1].n for k in range(150)])
    true = np.array([64, 32, 32, 16, 16, 16, 16])
    error = counts - true
    assert np.all(np.abs(error.mean(axis=0)) < 4 * math.sqrt(2 / 150))
    assert np.all(np.abs(error.var(axis=0) / 2 - 1) < 5 * math.sqrt(2 / 150))
