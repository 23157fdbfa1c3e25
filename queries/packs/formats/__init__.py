"""The formats of a pack, one module each: files for spreadsheets, statistics packages, the web and catalogues.

Takes a `Pack`: dimensions, tables of figures, texts in every language.
Returns `formats()`, in the order in which they are written and listed. The modules `site`, `metadata` and `readme`
    describe the files of all formats.
May import what `queries.packs` may, and its model; never the release itself.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from engine.errors import StoreError
from queries.packs.files import Format
from queries.packs.formats import flat, jsonstat, pcaxis, sdmx, workbook

GROUP = "tablepack.formats"
_OWN: tuple[Format, ...] = (
    workbook.WORKBOOK,
    flat.TABLES,
    flat.CODE_LISTS,
    sdmx.SDMX,
    jsonstat.JSON_STAT,
    pcaxis.PC_AXIS,
    flat.QUALITY,
)


def formats() -> tuple[Format, ...]:
    """Our own formats, then those of installed packages: entry points of group `tablepack.formats`, a `Format` each."""
    found = list(_OWN)
    for point in sorted(entry_points(group=GROUP), key=lambda one: one.name):
        what = f"format {point.name!r} of the package {point.dist.name if point.dist else '?'}"
        try:
            other = point.load()
        except Exception as error:
            raise StoreError(f"{what} cannot be loaded: {type(error).__name__}") from error
        if not isinstance(other, Format):
            raise StoreError(f"{what} is not a queries.packs.Format")
        if any(one.path.startswith(other.path) or other.path.startswith(one.path) for one in found):
            raise StoreError(f"{what} writes to {other.path!r}, where another format does")
        found.append(other)
    return tuple(found)
