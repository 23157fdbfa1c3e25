"""What is stated of exposure: groups, remedies, sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fixtures.exposure import few, seen
from fixtures.measure import sticky, tokens_of

from engine.errors import SpecError
from engine.exposure import ColumnExposure, Estimator, Exposure, Remedies, remedies, stated
from engine.measure import measure_arrays
from engine.mechanism import measure_wider
from engine.params import BOUNDS, ExposureBounds
from engine.relations import NO_RELATIONS, Relation, Relations
from engine.schema import Column

TOLD = ColumnExposure(
    column="income",
    most=0.6512,
    of_1=0.65,
    of_5=0.5501,
    of_all=0.512,
    snr=0.15,
    figures=0.303,
    by={("age", "income"): 0.1, ("income", "sex"): 0.05},
)


def exposure(found=(TOLD,), *, together=(), **more) -> Exposure:
    groups, both = stated(found, 45_321), stated(together, 45_321)
    return Exposure(groups=groups, together=both, mu=2.0, **{"bounds": BOUNDS["standard"], **more})


def test_shares_are_rounded_up_to_steps():
    (group,) = stated([TOLD], 45_321)
    shares = (group.guessed, group.guessed_1, group.guessed_5, group.guessed_all, group.figures)
    assert shares == (0.7, 0.65, 0.6, 0.55, 0.35)
    assert (group.people, group.tables) == (227, 2)
    assert stated([TOLD], 900)[0].people == 30


def test_what_is_over_the_bound_is_refused_unless_accepted():
    assert not exposure().is_refused
    one = exposure(is_over=True)
    assert one.is_refused
    accepted = replace(one.bounds, accept_risk="agreed")
    assert not replace(one, bounds=accepted).is_refused


def test_too_many_looks_are_refused():
    assert not exposure(looks=4).is_refused
    assert exposure(looks=5).is_refused
    assert exposure(looks=3, bounds=BOUNDS["strict"]).is_refused


def test_it_says_what_it_knows():
    one = exposure(together=(replace(TOLD, most=0.76),), builds=2, looks=2)
    text = " ".join(one.sentences())
    assert "income, from 2 tables" in text
    assert "at most 70% of the 227 most exposed" in text
    assert "Together with earlier builds of these people (2): 80% at most." in text
    assert (
        "independent release 2 of nearly the same data, as far as can be determined (at most 4)"
        in text
    )
    assert "AUC of 0.92 and finds 37% of them" in text
    assert "accepted" not in text
    accepted = replace(one, bounds=replace(one.bounds, accept_risk="agreed with the board"))
    assert accepted.sentences()[-1] == "The owner accepted this risk: agreed with the board"


def test_as_plain_values():
    plain = exposure(together=(replace(TOLD, most=0.76, figures=0.7),), builds=1).as_dict()
    assert (plain["figures_a_person"], plain["with_earlier_builds"]) == (0.35, 0.7)
    assert (plain["guessed"], plain["guessed_with_earlier_builds"]) == (0.7, 0.8)
    assert plain["groups"][0]["told"] == "income"
    assert plain["membership_auc"] == pytest.approx(0.9214, abs=1e-4)
    assert exposure(()).as_dict()["guessed"] == 0.5


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"warn_at": 0.0, "refuse_at": 1.0, "max_looks": 1}, "warn_at"),
        ({"warn_at": 0.5, "refuse_at": 0.4, "max_looks": 1}, "warn_at"),
        ({"warn_at": 0.5, "refuse_at": 0.6, "max_looks": 0}, "max_looks"),
        ({"warn_at": float("nan"), "refuse_at": 0.6, "max_looks": 1}, "warn_at"),
    ],
)
def test_bounds_that_cannot_be_are_refused(values, what):
    with pytest.raises(SpecError, match=what):
        ExposureBounds(**values)


BOUND = 0.7


def ways_of(codes, tables, published, relations=NO_RELATIONS, bound=BOUND, before=None):
    people = seen(codes, tables)
    estimator, times = Estimator(people, people.columns), dict.fromkeys(people.tables, 1)
    found = estimator.exposures(times, before)
    given = remedies(estimator, found, bound, times, before or {}, published, relations)
    return estimator, times, given


def test_without_the_tables_named_or_with_the_noise_named_the_bound_holds():
    codes, tables = few(10)
    estimator, times, ways = ways_of(codes, tables, tables)
    assert estimator.exposure("bit", times, most_right=BOUND).most > BOUND
    assert ways.drop
    assert len(ways.drop) < 8
    kept = {table: 1 for table in times if table not in ways.drop}
    assert estimator.exposure("bit", kept, most_right=BOUND).most <= BOUND
    assert ways.noise_factor is not None
    more = estimator.exposure("bit", times, noise_factor=ways.noise_factor, most_right=BOUND)
    assert more.most <= BOUND
    assert ways.columns


def test_what_was_told_before_counts():
    codes, tables = few(10)
    *_, alone = ways_of(codes, tables, tables)
    *_, more = ways_of(codes, tables, tables, before={"bit": 0.15})
    assert len(more.drop) > len(alone.drop)


def test_tables_of_a_coarser_column_go_with_those_that_need_them():
    """Of coarser values tables are measured that nobody listed: what is left out is the listed one locked to them."""
    rng = np.random.default_rng(8)
    codes = {"age": rng.integers(0, 600, 6_000), "sex": rng.integers(0, 2, 6_000)}
    codes |= {"agegr": codes["age"] // 10, "edu": rng.integers(0, 9, 6_000)}
    of = np.arange(600, dtype=np.int64)
    relations = Relations(relations=(Relation(finer="age", coarser="agegr", of=of, to=of // 10),))
    published = [("edu", "sex"), ("age", "sex")]
    needed = relations.needed(published)
    _, _, ways = ways_of(codes, needed, published, relations, bound=0.51)
    assert ("age", "sex") in ways.drop


def test_where_nothing_helps_it_says_so():
    codes, tables = few(2)
    *_, ways = ways_of(codes, tables, tables, before={"bit": 4.0})
    assert (ways.drop, ways.noise_factor) == (None, None)
    assert Remedies(drop=None, noise_factor=None, columns=()).sentences(1) == []


@pytest.mark.parametrize("is_pinned", [False, True])
def test_few_and_many_tables_are_named(is_pinned):
    many = Remedies(
        drop=tuple((f"c{i}", "x") for i in range(7)), noise_factor=2, columns=("a", "b")
    )
    lines = [
        "leave out 7 tables: c0, x; c1, x; c2, x; c3, x; c4, x; and 2 more",
        "add more noise: layer_sd = 4 in [privacy] (2 times the noise)",
        "give coarser values, or fewer tables, of a, b",
    ]
    assert many.sentences(2, is_pinned=is_pinned) == (lines[:1] if is_pinned else lines)


N, GROUPS, K = 480, 40, 3
LOW, HIGH = 0, 63


def people(seed=3):
    """In each of K columns 40 groups of 11; a secret moves x from one end to the other, a few lie between."""
    rng = np.random.default_rng(seed)
    codes = {f"g{k}": rng.permutation(np.arange(N) % GROUPS) for k in range(K)}
    x = np.where(rng.integers(0, 2, N) > 0, HIGH, LOW)
    x[:40] = 16 + np.arange(40) % 16  # so few of each that the column shows a range
    return codes | {"x": x}, [(f"g{k}", "x") for k in range(K)]


def test_a_sum_tells_as_much_as_one_count_of_the_column_and_less_of_others():
    rng = np.random.default_rng(1)
    codes = {"b": rng.integers(0, 2, N), "g0": np.arange(N) % 4, "x": people()[0]["x"]}
    found = seen(codes, [("b", "g0", "x")])
    table = ("b", "g0", "x")
    counts = found.cells(table, "x")
    (sums,) = found.sums(table, "x")
    (of_group,) = found.sums(table, "b")
    # Both sides of a cell: twice two layers. One count, or a sum as large as a row: half as precise.
    assert {*counts.noise[np.unique(counts.cell[counts.person >= 40])]} >= {4.0}
    assert {*sums.noise[np.unique(sums.cell)]} == {8.0}
    # Two groups' sums, each shifted by half of what a row could.
    assert {*of_group.noise[np.unique(of_group.cell)]} == {16.0}
    assert not [*found.sums(("g0",), "g0")]


def attacked(keys: int, with_sums: bool) -> float:
    """How often least squares guess the secrets right from all counts and sums, knowing all other columns."""
    codes, tables = people()
    columns = tuple(Column(name=c, kind="integer", value_type="integer") for c in sorted(codes))
    secret = np.where(codes["x"] == HIGH, 1.0, -1.0)
    who = np.arange(40, N)
    right = []
    for number in range(keys):
        measured = measure_arrays(dict(codes), {}, tokens_of(N, number), columns, sticky(number))
        rows, seen_as, noise = [], [], []
        for tree in measure_wider(measured, NO_RELATIONS.needed(tables), sticky(number)):
            if len(tree.columns) < 2:
                continue
            g = codes[tree.columns[0]]
            single = (tree.level == 0).all(axis=1) & np.isin(tree.index[:, 1], (LOW, HIGH))
            for node in np.flatnonzero(single):
                inside = (g == tree.index[node, 0]) & (np.arange(N) >= 40)
                sign = 1.0 if tree.index[node, 1] == HIGH else -1.0
                rows.append(inside * sign / 2)
                seen_as.append(tree.n[node] - inside.sum() / 2)
                noise.append(2.0)
            for sums in tree.sums if with_sums else ():
                for at, node in enumerate(sums.node):
                    if sums.high[at] < HIGH or sums.low[at] > LOW:
                        continue
                    inside = (g == tree.index[node, 0]) & (np.arange(N) >= 40)
                    others = (g == tree.index[node, 0]) & (np.arange(N) < 40)
                    known = (codes["x"][others] - sums.middle[at]).sum()
                    half = (HIGH - LOW) / 2
                    offset = inside.sum() * ((HIGH + LOW) / 2 - sums.middle[at])
                    rows.append(inside * half / sums.scale[at])
                    seen_as.append((sums.n[at] - known - offset) / sums.scale[at])
                    noise.append(2.0)
        a = np.array(rows)[:, who] / np.sqrt(np.array(noise))[:, None]
        y = np.array(seen_as) / np.sqrt(np.array(noise))
        guess = np.linalg.solve(a.T @ a + np.eye(len(who)), a.T @ y)
        right.append(np.mean(np.sign(guess) == secret[who]))
    return float(np.mean(right))


@pytest.mark.ci
def test_what_is_stated_is_what_an_attack_with_sums_finds():
    codes, tables = people()
    found = seen(codes, tables)
    estimator, times = Estimator(found, found.columns), dict.fromkeys(found.tables, 1)
    stated = estimator.exposure("x", times, most_right=0.5).of_all
    counts, both = attacked(12, False), attacked(12, True)
    assert counts - 0.01 < both < stated + 0.01
    assert stated - both < 0.03
