"""What a release counts: rows, entities, or entities in each value of a column.

Takes the section `[release]` and what stands around it; gives what is wrong with it, and the tables that follow.
"""

from __future__ import annotations

from typing import Any

from engine.params import bad_bound
from engine.schema import MAX_WIDTH, ColumnSet, column_set
from engine.spec.model import ReleaseSection, did_you_mean

USUAL_MOST = 16
"""Values of `each` that count of one entity where nobody says it."""


def count_problems(
    release: ReleaseSection, names: tuple[str, ...], entities: tuple[str, ...], *, is_dp: bool
) -> list[str]:
    """Say what is wrong with `count`, `each` and `most`."""
    if release.count == "rows":
        return [
            f'release.{key}: belongs to count = "entities" only'
            for key in ("each", "most")
            if getattr(release, key) is not None
        ]
    problems = []
    if is_dp:
        problems.append(
            "release.count: mode dp counts rows; with max_rows = 1 of [dp] one an entity"
        )
    if len(entities) != 1:
        problems.append(
            'release.count: "entities" wants one column in [source] that names them, such as entities = ["patient"]'
        )
    if release.each is not None and release.each not in names:
        problems.append(
            f"release.each: no column {release.each!r} that tables can have{did_you_mean(release.each, names)}"
        )
    if release.most is not None and release.each is None:
        problems.append("release.most: wants release.each: of which column so many values count")
    return problems + bad_bound("release.most", release.most)


def count_of(release: ReleaseSection) -> dict[str, Any]:
    """What a checked section says of it, by the names of a `ReleaseSpec`."""
    most = USUAL_MOST if release.most is None else release.most
    is_each = release.each is not None
    return {"count": release.count, "each": release.each, "most": most if is_each else None}


def with_each(
    tables: tuple[ColumnSet, ...], each: str | None, problems: list[str]
) -> tuple[ColumnSet, ...]:
    """The tables with the column that entities are counted in, each once, by width, then name."""
    if each is None:
        return tables
    wider = {column_set([*{*table, each}]) for table in tables}
    problems += [
        f"tables: {', '.join(table)} has {len(table)} columns with {each} (release.each); at most {MAX_WIDTH}"
        for table in sorted(wider)
        if len(table) > MAX_WIDTH
    ]
    return tuple(sorted(wider, key=lambda table: (len(table), table)))
