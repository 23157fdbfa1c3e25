"""The measurement folder: what is read is what was written, whole or refused, and closed to others."""

from __future__ import annotations

import io
import json
import pickle
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal

import numpy as np
import pytest
from fixtures.fit import integer_column, measured, text_column
from fixtures.fitting import EVERY_SET, TREES, folder_at, order_of, put_all

from engine.errors import StoreError
from engine.fit.order import JointOrder
from engine.levels import Levels, Margin, StructuralZero
from engine.params import DPParams
from engine.relations import Relation, Relations
from engine.release import fit
from engine.release.folder import (
    MeasurementFolder,
    file_name,
    folder_of_build,
    plain,
    remove_left,
    restored,
    writing_folder,
)
from engine.schema import CodedUniverse, Resolution, Sums, Universe
from engine.units import unit_of


def same(one, other) -> bool:
    """Whether two values agree to the bit, and in their types."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and (one == other).all()
    if hasattr(one, "__dataclass_fields__"):
        return all(same(getattr(one, f), getattr(other, f)) for f in one.__dataclass_fields__)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


ODD = replace(
    text_column('odd / "name"'),
    domain=("a", "$dict", "é"),
    labels=(("a", "A"),),
    universe=Universe(column="A", low=Decimal("1.50"), values=("x", None)),
)
ORDER = order_of(
    EVERY_SET,
    columns=(
        *(integer_column(name) for name in "ABCD"),
        replace(integer_column("real"), kind="real", resolution=Resolution(exponent=-2)),
        replace(ODD, bounds=(date(2020, 2, 1), datetime(2020, 2, 1, 3))),
        replace(integer_column("t"), kind="time", bounds=(time(1), time(2, 30))),
    ),
    limits={"A": (-3, 2**62)},
    universes={"A": CodedUniverse(declared=Universe(column="B"), low=-(2**63))},
    relations=Relations(
        relations=(Relation(finer="A", coarser="B", of=np.arange(3), to=np.zeros(3, np.int64)),)
    ),
    sets={("A", "B"): 2},
    targets={("A", "B"): "B"},
)
ORDER = replace(
    ORDER,
    header=replace(
        ORDER.header,
        privacy={"list": ["x", 1, None, 0.25], "of": {"$": 1}},
        unit=unit_of("a", "as"),
    ),
)
JOINT = JointOrder(
    header=ORDER.header,
    build_id="b",
    levels={
        "A": Levels(
            column=integer_column("A"), low=np.arange(2), high=np.arange(2) + 1, has_null=False
        )
    },
    zeros=(StructuralZero(columns=("A",), cells=np.array([True, False]), why="so"),),
    params=DPParams(epsilon=1.0, columns=("A",), margins=(("A",),)),
    sampling_key=b"k" * 32,
    cost={"epsilon": 1.0, "rho": None},
    promised={"words": ("a", "as")},
    margins=((), ("A",)),
    ledger=({"epsilon": 0.1},),
)


@pytest.mark.parametrize("order", [ORDER, JOINT], ids=["sticky", "dp"])
def test_orders_come_back(order):
    assert same(restored(json.loads(json.dumps(plain(order)))), order)


def test_measurements_come_back(tmp_path):
    values = ("a", 1.5, None, True, date(1999, 1, 1), Decimal("0.10"), time(3, 4))
    ranked = measured(("T",), np.arange(7).repeat(9), (3,), threshold=4, values=values)
    far = replace(TREES["A", "B"], columns=("far", "x"), index=TREES["A", "B"].index * (2**60) - 1)
    sums = Sums(
        column="B",
        node=np.array([3, 5]),
        low=np.array([-(2**40), 0]),
        high=np.array([7, 2**40]),
        n=np.array([-(2**59), 1]),
        scale=np.array([2**41, 8]),
    )
    summed = replace(TREES["A", "B"], columns=("A", "B"), sums=(sums,))
    trees = TREES | {("T",): ranked, ("far", "x"): far, ("A", "B"): summed}
    path = folder_at(tmp_path / "m", ORDER, trees)
    folder = MeasurementFolder(path)
    assert same(folder.order(), ORDER)
    for columns, tree in trees.items():
        assert same(folder.measurement(columns), tree), columns
    folder.check()


def test_what_is_told_of_exposure_comes_back(tmp_path):
    told = {"bounds": [0.7, None], "sentences": ["é"], "of": {"a": 1}}
    with writing_folder(tmp_path / "m") as folder:
        folder.begin("r", ORDER, [TREES[()]])
        folder.finish(told)
    assert MeasurementFolder(tmp_path / "m").exposure() == told


def test_margins_come_back(tmp_path):
    flat = Margin(columns=("A", "B"), n=np.arange(6).reshape(2, 3) - 2, variance=2.5)
    tree = Margin(columns=("A",), n=np.arange(5), variance=1.0, branching=2, tree=(np.arange(3),))
    total = Margin(columns=(), n=np.array(7), variance=0.0)
    with writing_folder(tmp_path / "m") as folder:
        folder.begin("r", JOINT, (total, tree, flat))
        folder.finish()
    folder = MeasurementFolder(tmp_path / "m")
    assert same(folder.order(), JOINT)
    for margin in (flat, tree, total):
        assert same(folder.margin(margin.columns), margin)
    assert folder.exposure() is None


def test_it_is_closed_to_others(tmp_path):
    path = folder_at(tmp_path / "m", order_of([("A",)]), TREES)
    assert path.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in path.iterdir()} == {0o600}


# Damage.


def test_a_pickle_is_not_run(tmp_path):
    path = folder_at(tmp_path / "m", order_of([("A",)]), TREES)

    class Bomb:
        def __reduce__(self):
            return (tmp_path / "ran").touch, ()

    for held in (np.array([Bomb()], dtype=object), Bomb()):
        file = io.BytesIO()
        if isinstance(held, np.ndarray):
            np.savez(file, nodes=held, scale=np.ones(1, dtype=np.int64))
        else:
            pickle.dump(held, file)
        (path / file_name(("A",))).write_bytes(file.getvalue())
        folder = MeasurementFolder(path)
        folder.order()
        with pytest.raises(StoreError, match="damaged"):
            folder.measurement(("A",))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["manifest.json", "order.json", "1.A.npz", "2.A.B.npz"])
@pytest.mark.parametrize("how", ["gone", "torn", "changed"])
def test_what_is_not_whole_is_refused(tmp_path, name, how):
    path = folder_at(tmp_path / "m", order_of([("A", "B")]), TREES)
    file = path / name
    raw = file.read_bytes()
    if how == "gone":
        file.unlink()
    else:
        file.write_bytes(raw[:40] if how == "torn" else raw.replace(b"A", b"Q", 1))
        if how == "changed" and name == "manifest.json":
            file.write_bytes(raw.replace(b"1.A.npz", b"1.Q.npz"))
    with pytest.raises(StoreError, match=r"tablepack measure SPEC -o FOLDER"):
        fit(path, tmp_path / "r.duckdb", jobs=1)
    assert not (tmp_path / "r.duckdb").exists()


def test_folders_of_others_are_left_alone(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("mine")
    with (
        pytest.raises(StoreError, match="is not a measurement folder"),
        writing_folder(tmp_path / "mine"),
    ):
        pass
    whole = folder_at(tmp_path / "m", order_of([("A",)]), TREES)
    with pytest.raises(StoreError, match="--force"), writing_folder(whole, force=False):
        pass
    MeasurementFolder(whole).check()
    with writing_folder(tmp_path / "busy"), pytest.raises(StoreError, match="running"):
        with writing_folder(tmp_path / "busy"):
            pass


# Going on.


def test_what_another_recipe_measured_goes_and_the_rest_stays(tmp_path):
    path, order = tmp_path / "m", order_of([("A", "B")])
    with writing_folder(path) as folder:
        put_all(folder, order, TREES)
    for recipe, there in (("recipe", True), ("other", False)):
        with writing_folder(path) as folder:
            folder.begin(recipe, order, [TREES[()]])
            assert folder.has(("A", "B")) == there
            assert folder.has(())


def test_doctor_removes_what_killed_builds_left(tmp_path):
    key, out = tmp_path / "my.key", tmp_path / "r.duckdb"
    left, busy = folder_of_build(key, out), folder_of_build(key, tmp_path / "s.duckdb")
    with writing_folder(left) as folder:
        folder.begin("r", order_of([("A",)]))
    folder_at(tmp_path / "measured", order_of([("A",)]), TREES)
    (tmp_path / "my.key.measured-notes").mkdir()
    with writing_folder(busy):
        assert remove_left(tmp_path) == [left]
    assert not left.exists()
    assert busy.exists()
    assert (tmp_path / "measured").exists()
    assert (tmp_path / "my.key.measured-notes").exists()
