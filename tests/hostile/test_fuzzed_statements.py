"""Statements put together by chance from all that is allowed: none tells of the server, none stops the next one."""

from __future__ import annotations

import random
from collections import Counter

import duckdb
import pytest
from fixtures.release import build_release, make_table

from engine.errors import InternalError, QueryRefused
from queries.sandbox import ProcessLimits, limited_processes
from queries.sandbox.wall import listed

TOLD = ("site-packages", "canary-folder-31ad", "python3", ".so(", "MiB", "logical_", "Traceback")
ATOMS = (
    "NULL 1 -1 'a' [1,NULL] {'a':1} MAP{'a':1} 1e308 'x'::BLOB '{}'::JSON age sex income town '101'::BIT [[1]] "
    "1::VARIANT (SELECT(1)) ROW(1,'a') '%Y' 0.5 '2'::UHUGEINT * COLUMNS(*) 170141183460469231731687303715884105727"
).split()
ATOMS += ["DATE '2020-01-01'", "INTERVAL 1 DAY", "lambda x: x", "TIMESTAMP '2020-01-01'"]
TYPES = (
    "INT VARCHAR DATE TIMESTAMPTZ INT[] INT[2] JSON BIT BLOB UUID HUGEINT DECIMAL(38,10) VARIANT TIME INTERVAL BOOLEAN"
).split()
FRAMES = ("", "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING", "RANGE UNBOUNDED PRECEDING EXCLUDE TIES")


class Writer:
    """Writes statements; the same seed, the same statements."""

    def __init__(self, seed):
        self._chance = random.Random(seed)
        names = listed()
        self._values = sorted(n for n in names.values if "collate" not in n)
        self._tables = sorted(names.tables)
        with duckdb.connect() as con:
            found = con.execute(
                "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'"
            ).fetchall()
        self._aggregates = sorted({n for (n,) in found} & names.values)

    def expression(self, depth):
        chance = self._chance.random()
        if depth <= 0 or chance < 0.3:
            return self._chance.choice(ATOMS)
        if chance < 0.5:
            kind = self._chance.choice(("TRY_CAST", "CAST"))
            return f"{kind}({self.expression(depth - 1)} AS {self._chance.choice(TYPES)})"
        name = self._chance.choice(self._values)
        given = ", ".join(
            self.expression(depth - 1) for _ in range(self._chance.choice((0, 1, 1, 2, 2, 3)))
        )
        call = f'"{name}"({given})'
        if name in self._aggregates and self._chance.random() < 0.5:
            return f"{call} OVER (PARTITION BY sex ORDER BY age {self._chance.choice(FRAMES)})"
        return call

    def statement(self):
        e, chance = self.expression, self._chance
        return chance.choice(
            (
                lambda: f"SELECT {e(3)} FROM data",
                lambda: f"SELECT {e(2)}, count(*) FROM data GROUP BY {e(1)}",
                lambda: f"SELECT age FROM data WHERE {e(2)} IS NOT NULL ORDER BY {e(1)} LIMIT 3",
                lambda: (
                    f"PIVOT (SELECT {e(1)} AS a, sex FROM data) ON sex USING {chance.choice(self._aggregates)}(a)"
                ),
                lambda: f"SUMMARIZE SELECT {e(2)} AS a FROM data",
                lambda: f"SELECT DISTINCT ON ({e(1)}) {e(1)} FROM data",
                lambda: f"FROM {chance.choice(self._tables)}({e(1)})",
            )
        )()


def tried(path, seed, n):
    """Ask so many statements; how many of each end there were."""
    writer, ends = Writer(seed), Counter()
    limits = ProcessLimits(seconds=1, answer_mb=4, rows=10)
    with limited_processes(path, limits=limits, n=1) as strangers:
        for _ in range(n):
            sql = writer.statement()
            try:
                output, end = repr(strangers.sql(sql).rows), "answered"
            except QueryRefused as error:
                output, end = str(error), "refused"
            except InternalError as error:
                pytest.fail(f"our bug: {sql}: {error}")
            ends[end] += 1
            assert [word for word in TOLD if word in output] == [], sql
        assert strangers.sql("SELECT count(*) FROM data").rows == [(make_table(("SEX",)).n_rows,)]
    return ends


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzzed") / "canary-folder-31ad"
    folder.mkdir()
    return build_release(folder / "r.duckdb")


def test_statements_by_chance(path):
    ends = tried(path, seed=1, n=500)
    assert ends["answered"] > 50
    assert ends["refused"] > 50


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_statements_by_chance(path, seed):
    assert tried(path, seed, n=3000)["answered"] > 300
