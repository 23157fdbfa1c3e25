"""Ranks by lot without a list of members, runs of rows cut by lot, and values dealt to rows."""

from __future__ import annotations

import numpy as np
import pytest
from fixtures.compiled import both
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from engine.fit.fine import lots
from engine.fit.fine.lots import deal, high_of, shuffled, taken_of
from engine.fit.fine.runs import AWAY, LOOSE, SURE, Runs, before, parted


def seeds(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.integers(0, 1 << 64, n, dtype=np.uint64)


@pytest.mark.parametrize("size", [*range(1, 40), 1000, 4097])
def test_every_rank_is_there_once(size):
    number = np.arange(size)
    seed = np.full(size, 7919 * size, dtype=np.uint64)
    ranks = shuffled(number, np.full(size, size), seed)
    assert np.sort(ranks).tolist() == number.tolist()


def test_known_ranks():
    """The same on every machine, and in every version unless the changelog says so."""
    found = []
    for size in (5, 33, 10**12):
        seed = np.full(5, 12345, dtype=np.uint64)
        found.append(shuffled(np.arange(5), np.full(5, size), seed).tolist())
    assert found == [
        [1, 4, 0, 2, 3],
        [20, 7, 21, 26, 27],
        [154091633209, 277092071485, 741078368456, 884364393606, 206655008732],
    ]


def test_groups_of_all_sizes_at_once_give_what_each_gives_alone():
    rng = np.random.default_rng(2)
    size = rng.integers(1, 90, 400)
    number, seed = rng.integers(0, size), seeds(rng, 400)
    together = shuffled(number, size, seed)
    alone = [int(shuffled(*(x[[i]] for x in (number, size, seed)))[0]) for i in range(400)]
    assert together.tolist() == alone


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
def test_all_orders_come_equally_often(size):
    n = 60_000
    seed = seeds(np.random.default_rng(size), n)
    code = np.zeros(n, dtype=np.int64)
    for member in range(size):
        code = code * size + shuffled(np.full(n, member), np.full(n, size), seed)
    _, count = np.unique(code, return_counts=True)
    assert len(count) == np.prod(np.arange(1, size + 1))
    assert stats.chisquare(count).pvalue > 1e-4


@pytest.mark.parametrize("size", [7, 9, 16, 25, 32, 40])
def test_all_pairs_of_ranks_come_equally_often(size):
    n = 400_000
    seed = seeds(np.random.default_rng(size), n)
    for one, other in ((0, 1), (0, size - 1), (2, size // 2)):
        ranks = [shuffled(np.full(n, member), np.full(n, size), seed) for member in (one, other)]
        count = np.bincount(ranks[0] * size + ranks[1], minlength=size * size)
        count = count.reshape(size, size)[~np.eye(size, dtype=bool)]
        assert stats.chisquare(count).pvalue > 1e-4


def test_too_few_rounds_are_seen(monkeypatch):
    """So that the test of pairs can fail."""
    monkeypatch.setattr(lots, "ROUNDS_OF_FEW", 2)
    with pytest.raises(AssertionError):
        test_all_pairs_of_ranks_come_equally_often(16)


def test_neighbours_of_a_large_group_have_nothing_in_common():
    size = 200_003
    ranks = shuffled(np.arange(size), np.full(size, size), np.full(size, 5, dtype=np.uint64))
    assert abs(np.corrcoef(ranks[1:], ranks[:-1])[0, 1]) < 5 / np.sqrt(size)
    table = np.histogram2d(np.arange(size), ranks, bins=20)[0]
    assert stats.chisquare(table.ravel()).pvalue > 1e-4


def test_the_rectangle_holds_the_size():
    size = np.array([1, 2, 3, 4, 15, 16, 17, (1 << 52) - 1, 1 << 52, (1 << 52) + 1])
    high = high_of(size)
    assert high.tolist() == [1, 2, 2, 2, 4, 4, 5, 1 << 26, 1 << 26, (1 << 26) + 1]


# --- runs


def runs_of(n, place, stays) -> Runs:
    n = np.array(n, dtype=np.int64)
    return Runs(
        row=np.cumsum(n) - n,
        n=n,
        place=np.array(place, dtype=np.int64),
        stays=np.array(stays, dtype=np.int64),
    )


def rows_of(runs: Runs) -> list[int]:
    return [
        r
        for row, n in zip(runs.row.tolist(), runs.n.tolist(), strict=True)
        for r in range(row, row + n)
    ]


@given(st.integers(0, 10**6))
@settings(max_examples=150)
def test_who_leaves(seed):
    """Against the rule itself: of each node as many as are over, first those away, then loose ones, then others."""
    rng = np.random.default_rng(seed)
    n_runs, n_nodes = int(rng.integers(1, 12)), int(rng.integers(1, 4))
    n, node, stays = (
        rng.integers(1, 9, n_runs),
        rng.integers(0, n_nodes, n_runs),
        rng.integers(0, 3, n_runs),
    )
    runs, room = runs_of(n, node, stays), rng.integers(0, 15, n_nodes)
    staying, leaving = parted(runs, node, room, seeds(rng, 3 * n_nodes).take)
    of_row, rank = np.repeat(node, n), np.repeat(stays, n)
    left = rows_of(leaving)
    assert sorted(rows_of(staying) + left) == list(range(int(n.sum())))
    assert (staying.n > 0).all()
    assert (leaving.stays == AWAY).all() or not left
    assert (leaving.place == of_row[leaving.row]).all()
    for one in range(n_nodes):
        order = np.sort(rank[of_row == one])
        over = max(len(order) - int(room[one]), 0)
        assert sorted(rank[[r for r in left if of_row[r] == one]]) == order[:over].tolist()
    kept = np.repeat(staying.stays, staying.n)
    assert (kept == rank[rows_of(staying)]).all()


def test_those_of_a_run_leave_equally_often():
    runs = runs_of([3, 5], [0, 0], [SURE, SURE])
    count = np.zeros(8)
    for seed in range(4000):
        bits = seeds(np.random.default_rng(seed), 3).take
        count[rows_of(parted(runs, np.array([0, 0]), np.array([5]), bits)[1])] += 1
    assert count.sum() == 3 * 4000
    assert stats.chisquare(count).pvalue > 1e-4


def test_with_room_all_stay():
    runs = runs_of([2, 2], [0, 1], [LOOSE, AWAY])
    staying, leaving = parted(
        runs, np.array([0, 1]), np.array([2, 9]), seeds(np.random.default_rng(0), 6).take
    )
    assert rows_of(staying) == [0, 1, 2, 3]
    assert len(leaving) == 0


def test_rows_before_in_the_same_group():
    assert before(np.array([2, 3, 4, 1]), np.array([0, 0, 5, 5])).tolist() == [0, 2, 0, 4]


# --- dealing


def dealing(seed: int, most: int):
    """Groups of some sizes, in runs, and units of some values of each."""
    rng = np.random.default_rng(seed)
    size = rng.integers(1, most, 40)
    several = rng.integers(1, 6, 40)
    taken = np.concatenate(
        [rng.multinomial(s, np.full(k, 1 / k)) for s, k in zip(size, several, strict=True)]
    )
    of = np.repeat(np.arange(40), 3)
    n = np.concatenate([rng.multinomial(s, [0.5, 0.2, 0.3]) for s in size])
    of, n = of[n > 0], n[n > 0]
    row = np.cumsum(n) - n
    end = np.cumsum(several)
    group = (seeds(rng, 40), size, np.cumsum(size) - size, end - several, end)
    value = rng.permutation(len(taken)).astype(np.int32)
    return (row, n, of, before(n, of)), group, np.cumsum(taken), value


@pytest.mark.parametrize("most", [2, 9, 70, 5000])
def test_each_group_gets_its_units_and_compiled_the_same(ready, most, monkeypatch):
    monkeypatch.setattr(lots, "_CHUNK", 1000)
    run, group, running, value = dealing(most, most)

    def dealt() -> list[int]:
        out = np.full(int(run[1].sum()), -1, dtype=np.int32)
        deal(run, group, running, value, out)
        return out.tolist()

    plain, compiled = both(dealt)
    assert plain == compiled
    of_row = np.repeat(run[2], run[1])
    units = np.repeat(value, np.diff(running, prepend=0))
    of_unit = np.repeat(np.arange(40), group[1])
    for one in range(40):
        assert sorted(np.array(plain)[of_row == one]) == sorted(units[of_unit == one])


@pytest.mark.parametrize("most", [2, 40, 10**6])
def test_ranks_and_units_compiled_are_the_same(ready, most):
    rng = np.random.default_rng(most)
    size = rng.integers(1, most, 3000)
    number, seed = rng.integers(0, size), seeds(rng, 3000)
    plain, compiled = both(lambda: shuffled(number, size, seed).tolist())
    assert plain == compiled
    end = np.cumsum(rng.integers(1, 9, 3000))
    head = np.append(0, end[:-1])
    units = rng.integers(0, most, end[-1])
    units[head] += 1
    there = np.add.reduceat(units, head)
    wanted = rng.integers(1, there + 1)
    plain, compiled = both(lambda: taken_of(units, head, end, wanted, seed).tolist())
    assert plain == compiled
    assert (np.add.reduceat(plain, head) == wanted).all()
    assert ((np.array(plain) >= 0) & (np.array(plain) <= units)).all()


def test_no_runs_no_values():
    none = np.zeros(0, dtype=np.int64)
    out = np.zeros(0, dtype=np.int32)
    group = (none.view(np.uint64), none, none, none, none)
    deal((none, none, none, none), group, none, out, out)
    assert len(out) == 0
