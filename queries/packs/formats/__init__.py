"""The formats of a pack, one module each: files for spreadsheets, statistics packages, the web and catalogues.

Takes a `Pack`: dimensions, tables of figures, texts in every language.
Returns `FORMATS`, in the order in which they are written and listed. The modules `site`, `metadata` and `readme`
    describe the files of all formats.
May import what `queries.packs` may, and its model; never the release itself.
"""

from __future__ import annotations

from queries.packs.files import Format
from queries.packs.formats import flat, jsonstat, pcaxis, sdmx, workbook

FORMATS: tuple[Format, ...] = (
    workbook.WORKBOOK,
    flat.TABLES,
    flat.CODE_LISTS,
    sdmx.SDMX,
    jsonstat.JSON_STAT,
    pcaxis.PC_AXIS,
    flat.QUALITY,
)
PACKAGES = tuple(dict.fromkeys(["jinja2", *(name for f in FORMATS for name in f.packages)]))
"""Packages required to write a pack."""
