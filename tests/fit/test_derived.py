"""Relations read off measurements, and tables that follow from others: by hand, and against relabelling."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from fixtures.fit import Fits, integer_column, measured, text_column, top_for

from engine.fit import Unused, derived_table, related, relation_of, steps_of
from engine.fit.tree import place_candidates
from engine.relations import NO_RELATIONS, Relation
from engine.schema import KIND_NULL, KIND_OTHER, NULL_CODE, OTHER_CODE, Support

FINE = np.repeat([-3, 0, 1, 5, 6], [20, 30, 25, 12, 13])
COARSE = np.select([FINE < 0, FINE < 2], [7, 4], default=2)


def trees(fine, coarse, *, threshold=5, noise=None):
    tops = {"F": top_for(fine), "C": top_for(coarse)}
    one = {
        name: measured((name,), codes[:, None], (tops[name],), threshold=threshold, noise=noise)
        for name, codes in (("F", fine), ("C", coarse))
    }
    rows = np.column_stack([coarse, fine])
    both = measured(("C", "F"), rows, (tops["C"], tops["F"]), threshold=threshold, noise=noise)
    return both, one["F"], one["C"]


def test_a_relation_is_read_off():
    one = relation_of(*trees(FINE, COARSE), len(FINE), 1.4)
    assert isinstance(one, Relation)
    assert dict(zip(one.of.tolist(), one.to.tolist(), strict=True)) == {
        -3: 7,
        0: 4,
        1: 4,
        5: 2,
        6: 2,
    }
    assert not one.is_copy
    assert relation_of(*trees(FINE, FINE * 2 + 1), len(FINE), 1.4).is_copy


def test_null_is_a_value_like_any_other():
    fine, coarse = FINE.copy(), COARSE.copy()
    fine[fine == 5], coarse[FINE == 5] = NULL_CODE, NULL_CODE
    one = relation_of(*trees(fine, coarse), len(fine), 1.4)
    assert dict(zip(one.of.tolist(), one.to.tolist(), strict=True))[NULL_CODE] == NULL_CODE


MANY, MANY_COARSE = np.repeat(FINE, 10), np.repeat(COARSE, 10)


@pytest.mark.parametrize(
    ("fine", "coarse", "why", "is_contradicted"),
    [
        (MANY, np.tile([1, 2], 500), "about 500 rows contradict it", True),
        (MANY, np.where(np.arange(1000) < 60, 1, 0), "about 60 rows contradict it", True),
        (np.arange(1000) * 40, MANY_COARSE, "only released as ranges", False),
        (MANY, np.zeros(1000, dtype=int), "some values of C follow from no released value", False),
    ],
)
def test_why_a_relation_is_not_used(fine, coarse, why, is_contradicted):
    one = relation_of(*trees(fine, coarse), 1000, 0.5)
    assert isinstance(one, Unused)
    assert one.is_contradicted == is_contradicted
    assert why in one.why


@pytest.mark.parametrize(("against", "is_used"), [(30, True), (31, False)])
def test_as_many_people_may_contradict_it_whatever_the_total(against, is_used):
    coarse = MANY_COARSE.copy()
    coarse[:against] = 4
    one = relation_of(*trees(MANY, coarse), 1000, 0.5)
    assert isinstance(one, Relation) == is_used


def test_values_too_rare_to_be_shown_may_stand_for_several():
    fine = np.where(MANY > 4, OTHER_CODE, MANY)
    coarse = np.where(np.arange(1000) > 880, 9, MANY_COARSE)
    one = relation_of(*trees(fine, coarse), 1000, 0.5)
    assert isinstance(one, Unused)
    assert not one.is_contradicted
    assert "too rare to be shown" in one.why


def support(codes, n, *, measured=None, name="F", values=None) -> Support:
    codes, n = np.asarray(codes, dtype=np.int64), np.asarray(n, dtype=np.int64)
    kind = np.select(
        [codes == NULL_CODE, codes == OTHER_CODE, codes < 0], [KIND_NULL, KIND_OTHER, 1], 2
    )
    special = (kind == KIND_NULL) | (kind == KIND_OTHER)
    column = text_column(name) if values else integer_column(name)
    return Support(
        column=column,
        kind=kind.astype(np.uint8),
        grid=np.where(special, 0, codes),
        n=n,
        measured=np.ones(len(n), dtype=bool) if measured is None else np.asarray(measured),
        values=values,
        noise_sd=1.5,
    )


def test_steps_come_after_what_they_depend_on():
    relations = related(
        [
            Relation(finer="fine", coarser="mid", of=np.arange(4), to=np.arange(4) // 2),
            Relation(finer="mid", coarser="top", of=np.arange(2), to=np.zeros(2, dtype=int)),
            Relation(finer="fine", coarser="twin", of=np.arange(4), to=np.arange(4), is_copy=True),
        ],
        ("fine", "mid", "top", "twin"),
    )
    deciders = {"mid": "fine", "top": "age", "fine": "age", "pay": "fine"}
    names = ("age", "fine", "mid", "pay", "top", "twin")
    steps = steps_of(deciders, relations, names)
    assert sorted(steps) == sorted((name, last) for name in names for last in (False, True))
    at = {step: place for place, step in enumerate(steps)}
    assert (
        at["age", True] < at["fine", False] < at["mid", False]
    )  # its universe, before both are in line
    assert at["top", True] < at["mid", True] < at["fine", True] < at["twin", False]
    assert at["fine", True] < at["pay", False]  # others wait until it is in line
    assert len(steps_of({"a": "b", "b": "a"}, NO_RELATIONS, ("a", "b"))) == 4  # no way: by name


def fitted(seed=3):
    rng = np.random.default_rng(seed)
    data = {"A": rng.integers(0, 4, 300), "F": rng.choice(FINE, 300), "X": rng.integers(0, 3, 300)}
    fits = Fits(data, threshold=4)
    return fits, fits.table("A", "F", "X")


def test_a_derived_table_is_its_base_relabelled():
    fits, base = fitted()
    fine = fits.supports["F"]
    to = np.array([{-3: 2, 0: 1, 1: 1, 5: 0, 6: 0}.get(int(g), 0) for g in fine.grid])
    n_of = np.bincount(to, weights=fine.n, minlength=3).astype(int)
    coarse = support([2, 4, 7], n_of, name="C")
    columns = ("A", "C", "F", "X")
    supports = (fits.supports["A"], coarse, fine, fits.supports["X"])
    own = tuple(fits.supports[c] for c in base.columns)
    placement = place_candidates(fits.measurement(base.columns), own, base.codes)
    out = derived_table(columns, base, {"C": (1, to)}, supports, placement)
    wanted = Counter()
    for (a, f, x), n in zip(base.codes.tolist(), base.n.tolist(), strict=True):
        wanted[a, int(to[f]), f, x] += n
    assert Counter(dict(zip(map(tuple, out.codes.tolist()), out.n.tolist(), strict=True))) == wanted
    assert out.codes.tolist() == sorted(out.codes.tolist())
    assert out.n_rows == base.n_rows
    assert out.groups.n.sum() == base.n_rows
    assert out.groups.tops[1] == 0
    assert (out.groups.low[:, 1] == out.groups.high[:, 1]).all() or (out.groups.depth < 0).any()
    # Without the finer column its cells add up.
    less = derived_table(
        ("A", "C", "X"), base, {"C": (1, to)}, (supports[0], coarse, supports[3]), placement
    )
    sums = Counter()
    for (a, c, _, x), n in wanted.items():
        sums[a, c, x] += n
    assert Counter(dict(zip(map(tuple, less.codes.tolist()), less.n.tolist(), strict=True))) == sums
