"""Statements in the user's own process are stopped before they fill the memory, or when their time is up."""

from __future__ import annotations

import threading

import duckdb
import pytest
from fixtures.tiny import tiny_release

from engine.errors import TimedOut, TooLarge
from queries.release import open_release
from queries.sql.budget import Budget, resident_mb, watched

ENDLESS = "SELECT range, 'abc' || range AS text FROM range(10000000000)"
pytestmark = pytest.mark.skipif(resident_mb() == 0, reason="this system does not report memory")


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    path = tiny_release(tmp_path_factory.mktemp("watched") / "r.duckdb")
    with open_release(path, memory="64MB", timeout_s=30) as release:
        yield release


@pytest.mark.parametrize(
    "form",
    ["rows", "arrow", *(pytest.param(form, marks=pytest.mark.slow) for form in ("df", "pl"))],
)
def test_an_answer_without_end_is_refused_and_the_next_one_works(release, form):
    if form in ("arrow", "pl"):
        pytest.importorskip("pyarrow")
    if form == "pl":
        pytest.importorskip("polars")
    before = resident_mb()
    result = release.sql(ENDLESS)
    with pytest.raises(TooLarge, match=r"more than 6\d MB: .*\.head\(n\)"):
        result.rows if form == "rows" else getattr(result, form)()
    assert resident_mb() - before < 700
    assert release.sql("SELECT 42 AS a").rows == [(42,)]
    assert result.head(2) == [(0, "abc0"), (1, "abc1")]


def test_time_is_up_first_where_it_is_short(release):
    with duckdb.connect() as con:
        with (
            pytest.raises(TimedOut, match=r"stopped after 0\.2 seconds"),
            watched(con, Budget(0.2), 10_000),
        ):
            con.execute(
                "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE hash(a.range + b.range) = 1"
            )
        with watched(con, Budget(60), 10_000):
            assert con.execute("SELECT 1").fetchall() == [(1,)]


def test_time_runs_out_over_several_runs():
    budget, text = (
        Budget(0.8),
        "SELECT count(*) FROM range(1000000) a, range({}) b WHERE hash(a.range + b.range) = 1",
    )
    with duckdb.connect(config={"threads": 1}) as con:
        with watched(con, budget):
            con.execute(text.format(1))
        assert budget.left < 0.8
        with pytest.raises(TimedOut, match=r"after 0\.8 seconds"), watched(con, budget):
            con.execute(text.format(1000000))
        assert budget.left == 0
        with pytest.raises(TimedOut), watched(con, budget):
            con.execute(text.format(1000000))


SLOW = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE hash(a.range + b.range) = {}"


def on_a_cursor(held):
    with held.cursor() as con:
        return con.execute(SLOW.format(2)).fetchall()


@pytest.mark.parametrize("ask", [lambda held: held.sql(SLOW.format(1)).rows, on_a_cursor])
def test_cancelled_work_ends_and_other_work_goes_on(release, ask):
    left = threading.Event()
    held = release.until(left.is_set)
    threading.Timer(0.2, left.set).start()
    with pytest.raises(TimedOut):
        ask(held)
    assert left.is_set()
    for again in (held.check_cancelled, lambda: held.tabulate(["SEX"]), lambda: held.card("SEX")):
        with pytest.raises(TimedOut, match="Cancelled"):
            again()
    assert release.sql("SELECT 42 AS a").rows == [(42,)]
    assert len(release.tabulate(["SEX"])) > 0
