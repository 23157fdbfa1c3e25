"""A cell has the same figure, interval and status in a pack, on the page and by `tabulate`; SQL gives its figure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from queries.packs import pack_spec_from, preview
from queries.packs.model import STATUSES
from queries.serve.question import question_of
from queries.serve.tabulate import answer, plan
from queries.serve.values import variables_of

FIGURES = ("value", "low", "high")
PAIR = {"rows": ["birth_country"], "cols": ["education"]}
CENSUS = (
    {"rows": ["region"], "cols": ["sex"]},
    PAIR,
    *(PAIR | {"percent": percent} for percent in ("row", "column", "total")),
    {"rows": ["region"], "cols": ["sex"], "where": {"age": [20, 21, 22, 23]}, "percent": "row"},
    {"columns": ["region"], "measure": "mean", "of": "income"},
    {"columns": ["region"], "measure": "quantile", "of": "income", "quantile": 0.9},
    {"columns": ["sex"], "percent": "total"},
)
ODD = (
    {"rows": ["value"], "cols": ["status"]},
    {"rows": ["value"], "cols": ["status"], "percent": "row"},
    {"columns": ["value"], "measure": "mean", "of": "n"},
    {"columns": ["status"], "measure": "sum", "of": "n"},
)
AGES = {"groups": [{"code": "young", "range": [0, 39]}, {"code": "old", "range": [40, 105]}]}
GROUPED = (
    {"rows": ["age"], "cols": ["sex"]},
    *({"rows": ["age"], "cols": ["sex"], "percent": p} for p in ("row", "column", "total")),
    {"rows": ["age"], "cols": ["region"], "where": {"sex": ["Female"]}, "percent": "column"},
)


VARIABLES = {}


@pytest.fixture(scope="module")
def tables(opened, hostile):
    """The table of a pack for each entry."""

    def made(release, columns, entries):
        spec = pack_spec_from({"columns": columns, "tables": list(entries)})
        return {str(e): t for e, t in zip(entries, preview(release, spec).tables, strict=True)}

    grouped = made(opened, {"age": AGES}, [e | {"only_groups": ["age"]} for e in GROUPED])
    return made(opened, {}, CENSUS) | made(hostile, {}, ODD) | grouped


def page_of(release, entry, groups=()):
    """The page's answer, and that of its SQL: figures by values."""
    pairs = [("rows", c) for c in entry.get("rows", entry.get("columns", []))]
    pairs += [("cols", c) for c in entry.get("cols", [])]
    pairs += [(f"only.{c}", str(v)) for c, vs in entry.get("where", {}).items() for v in vs]
    pairs += groups
    pairs += [(k, str(entry[k])) for k in ("measure", "of", "quantile", "percent") if k in entry]
    asked = question_of(pairs)
    if release.path not in VARIABLES:
        VARIABLES[release.path] = variables_of(release)
    variables = VARIABLES[release.path]
    got, _ = answer(release, variables, asked)
    figures = zip(*(getattr(got, f) for f in FIGURES), got.status, strict=True)
    by_sql = [] if groups else release.sql(plan(release, variables, asked)["sql"]).rows
    return dict(zip(got.keys, figures, strict=True)), {r[:-1]: r[-1] for r in map(tuple, by_sql)}


def strays(release, entry, table, groups=()) -> list:
    """Cells of a pack's table that are not those of the page, or whose figure SQL does not give."""
    page, by_sql = page_of(release, entry, groups)
    scale = 100 if "percent" in entry else 1
    step = 0.51 * 10.0 ** -(table.decimals + 1) if not table.is_whole else 0
    out = []
    for i, places in enumerate(table.index.tolist()):
        items = [d.items[p] for d, p in zip(table.dimensions, places, strict=True)]
        key = tuple(it.code if it.members else it.value for it in items)
        mine, status = [getattr(table, f)[i] for f in FIGURES], STATUSES[table.status[i]]
        *theirs, theirs_status = page.pop(key, (np.nan, np.nan, np.nan, status))
        same = np.allclose(mine, scale * np.array(theirs), rtol=0, atol=step, equal_nan=True)
        if not same or status != theirs_status:
            out.append((key, mine, theirs, status, theirs_status))
        if status not in ("not released", "structural zero") and not groups:
            given = float(by_sql[key])  # percentages in SQL are in percent
            if not np.isclose(mine[0], given, rtol=0, atol=max(step, 1e-9)):
                out.append((key, mine[0], given))
    return [*out, *page]


@pytest.mark.ci
@pytest.mark.parametrize("entry", CENSUS, ids=str)
def test_a_pack_the_page_and_sql_agree(opened, tables, entry):
    assert strays(opened, entry, tables[str(entry)]) == []


@pytest.mark.ci
@pytest.mark.parametrize("entry", ODD, ids=str)
def test_they_agree_on_odd_values(hostile, tables, entry):
    assert strays(hostile, entry, tables[str(entry)]) == []


def test_a_difference_is_found(opened, tables):
    table = tables[str(CENSUS[0])]
    for name in ("high", "value"):
        wrong = replace(table, **{name: getattr(table, name) + (np.arange(len(table)) == 0)})
        assert {key for key, *_ in strays(opened, CENSUS[0], wrong)} == {("R1", "Female")}
