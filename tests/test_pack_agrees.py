"""A cell has the same figure, interval and status in a pack, on the page and by `tabulate`; SQL gives its figure."""

from __future__ import annotations

import numpy as np
import pytest
from pack_fixture import shared_release
from pack_hostile_fixture import make_hostile

from queries.api_question import question_of
from queries.api_tabulate import answer, plan
from queries.api_values import variables_of
from queries.packs import pack_spec_from, preview
from queries.packs.model import STATUSES
from queries.session import open_release

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


def page_of(opened, told):
    """The page's answer, and its SQL's: figures by values."""
    pairs = [("rows", c) for c in told.get("rows", told.get("columns", []))]
    pairs += [("cols", c) for c in told.get("cols", [])]
    pairs += [(f"only.{c}", str(v)) for c, vs in told.get("where", {}).items() for v in vs]
    pairs += [(k, str(told[k])) for k in ("measure", "of", "quantile", "percent") if k in told]
    asked, variables = question_of(pairs), variables_of(opened)
    got = answer(opened, variables, asked).cells
    figures = zip(*(getattr(got, f) for f in FIGURES), got.status, strict=True)
    rows = opened.sql(plan(opened, variables, asked)["sql"]).rows
    return dict(zip(got.keys, figures, strict=True)), {r[:-1]: r[-1] for r in map(tuple, rows)}


def strays(opened, told) -> list:
    """Cells of a pack's table that are not those of the page, or whose figure SQL does not give."""
    (table,) = preview(opened, pack_spec_from({"tables": [told]})).tables
    page, by_sql = page_of(opened, told)
    scale = 100 if "percent" in told else 1
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


@pytest.mark.parametrize("told", ASKED, ids=str)
def test_a_pack_the_page_and_sql_say_the_same(census_release, told):
    with open_release(census_release) as opened:
        assert strays(opened, told) == []


@pytest.mark.parametrize("told", HOSTILE, ids=str)
def test_they_say_the_same_of_odd_values(hostile_release, told):
    with open_release(hostile_release) as opened:
        assert strays(opened, told) == []


def test_a_difference_is_found(census_release, monkeypatch):
    import queries.packs.figures as figures

    true = figures.tabulate

    def wrong(*args, **more):
        found = true(*args, **more)
        found.high[0] += 1
        return found

    monkeypatch.setattr(figures, "tabulate", wrong)
    with open_release(census_release) as opened:
        assert len(strays(opened, ASKED[0])) == 1
