"""A cell has the same figure, interval and status in a pack, on the page and by `tabulate`; SQL gives its figure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fixtures.pack import shared_release
from fixtures.pack_hostile import make_hostile

from queries.packs import pack_spec_from, preview
from queries.packs.model import STATUSES
from queries.release import open_release
from queries.serve.question import question_of
from queries.serve.tabulate import answer, plan
from queries.serve.values import variables_of

pytest.importorskip("pyarrow")
FIGURES = ("value", "low", "high")
ASKED = (
    {"rows": ["region"], "cols": ["sex"]},
    {"rows": ["birth_country"], "cols": ["education"]},
    {"rows": ["birth_country"], "cols": ["education"], "percent": "row"},
    {"rows": ["birth_country"], "cols": ["education"], "percent": "column"},
    {"rows": ["birth_country"], "cols": ["education"], "percent": "total"},
    {"rows": ["region"], "cols": ["sex"], "where": {"age": [20, 21, 22, 23]}, "percent": "row"},
    {"columns": ["region"], "measure": "mean", "of": "income"},
    {"columns": ["region"], "measure": "quantile", "of": "income", "quantile": 0.9},
    {"columns": ["sex"], "percent": "total"},
)
HOSTILE = (
    {"rows": ["value"], "cols": ["status"]},
    {"rows": ["value"], "cols": ["status"], "percent": "row"},
    {"columns": ["value"], "measure": "mean", "of": "n"},
    {"columns": ["status"], "measure": "sum", "of": "n"},
)


@pytest.fixture(scope="module")
def census_release(census, tmp_path_factory):
    return shared_release(tmp_path_factory, census)


@pytest.fixture(scope="module")
def hostile_release(tmp_path_factory):
    return make_hostile(tmp_path_factory.mktemp("agrees"))


def page_of(opened, entry, groups=()):
    """The page's answer, and its SQL's: figures by values."""
    pairs = [("rows", c) for c in entry.get("rows", entry.get("columns", []))]
    pairs += [("cols", c) for c in entry.get("cols", [])]
    pairs += [(f"only.{c}", str(v)) for c, vs in entry.get("where", {}).items() for v in vs]
    pairs += groups
    pairs += [(k, str(entry[k])) for k in ("measure", "of", "quantile", "percent") if k in entry]
    asked, variables = question_of(pairs), variables_of(opened)
    got = answer(opened, variables, asked).cells
    figures = zip(*(getattr(got, f) for f in FIGURES), got.status, strict=True)
    rows = opened.sql(plan(opened, variables, asked)["sql"]).rows
    return dict(zip(got.keys, figures, strict=True)), {r[:-1]: r[-1] for r in map(tuple, rows)}


def strays(opened, entry, table=None) -> list:
    """Cells of a pack's table that are not those of the page, or whose figure SQL does not give."""
    if table is None:
        (table,) = preview(opened, pack_spec_from({"tables": [entry]})).tables
    page, by_sql = page_of(opened, entry)
    scale = 100 if "percent" in entry else 1
    step = 0.51 * 10.0 ** -(table.decimals + 1) if not table.is_whole else 0
    out = []
    for i, places in enumerate(table.index.tolist()):
        key = tuple(d.items[p].value for d, p in zip(table.dimensions, places, strict=True))
        mine, status = [getattr(table, f)[i] for f in FIGURES], STATUSES[table.status[i]]
        *theirs, said = page.pop(key, (np.nan, np.nan, np.nan, status))
        same = np.allclose(mine, scale * np.array(theirs), rtol=0, atol=step, equal_nan=True)
        if not same or status != said:
            out.append((key, mine, theirs, status, said))
        if status not in ("not released", "structural zero") and said == status:
            given = float(by_sql[key])  # percentages in SQL are in percent
            if not np.isclose(mine[0], given, rtol=0, atol=max(step, 1e-9)):
                out.append((key, mine[0], given))
    return [*out, *page]


@pytest.mark.parametrize("entry", ASKED, ids=str)
def test_a_pack_the_page_and_sql_say_the_same(census_release, entry):
    with open_release(census_release) as opened:
        assert strays(opened, entry) == []


@pytest.mark.parametrize("entry", HOSTILE, ids=str)
def test_they_say_the_same_of_odd_values(hostile_release, entry):
    with open_release(hostile_release) as opened:
        assert strays(opened, entry) == []


def test_a_difference_is_found(census_release):
    with open_release(census_release) as opened:
        (table,) = preview(opened, pack_spec_from({"tables": [ASKED[0]]})).tables
        high = table.high + (np.arange(len(table)) == 0)
        assert len(strays(opened, ASKED[0], replace(table, high=high))) == 1


AGES = {"groups": [{"code": "young", "range": [0, 39]}, {"code": "old", "range": [40, 105]}]}
GROUPED = (
    {"rows": ["age"], "cols": ["sex"]},
    {"rows": ["age"], "cols": ["sex"], "percent": "row"},
    {"rows": ["age"], "cols": ["sex"], "percent": "column"},
    {"rows": ["age"], "cols": ["sex"], "percent": "total"},
    {"rows": ["age"], "cols": ["region"], "where": {"sex": ["Female"]}, "percent": "column"},
)


@pytest.mark.parametrize("entry", GROUPED, ids=str)
def test_groups_are_the_same_in_a_pack_and_on_the_page(census_release, entry):
    with open_release(census_release) as opened:
        spec = pack_spec_from(
            {"columns": {"age": AGES}, "tables": [entry | {"only_groups": ["age"]}]}
        )
        (table,) = preview(opened, spec).tables
        groups = [("group.age", "young|0..39"), ("group.age", "old|40..")]
        page, _ = page_of(opened, entry, groups)
        scale = 100 if "percent" in entry else 1
        step = 0 if table.is_whole else 0.51 * 10.0 ** -(table.decimals + 1)
        for i, places in enumerate(table.index.tolist()):
            items = [d.items[p] for d, p in zip(table.dimensions, places, strict=True)]
            *theirs, status = page.pop(tuple(it.code if it.members else it.value for it in items))
            mine = [getattr(table, f)[i] for f in FIGURES]
            assert np.allclose(mine, scale * np.array(theirs), rtol=0, atol=step, equal_nan=True)
            assert STATUSES[table.status[i]] == status
        assert page == {}
